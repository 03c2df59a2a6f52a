// SPDX-License-Identifier: GPL-2.0-or-later OR MIT
/*
 * A plugin of QEMU (TCG): writes in which function of the kernel the guest executes how many
 * instructions, in order. It observes from outside: no instruction of the guest is added or changed,
 * so a guest in virtual time sends the same bytes with it as without it.
 *
 * Arguments: symbols=FILE, addresses of functions in hexadecimal, ascending, one a line; trace=FILE,
 * to be written: pairs of 32-bit numbers, the line of a function (from 0; USER in user mode) and the
 * instructions until the next pair.
 *
 * The declarations are those of QEMU's plugin interface, version 1 (QEMU 4.2 to 8).
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;

extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id,
	void (*translated)(plugin_id id, struct qemu_plugin_tb *block));
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *block,
	void (*executed)(unsigned int cpu, void *data), int flags, void *data);
extern void qemu_plugin_register_atexit_cb(plugin_id id,
	void (*ended)(plugin_id id, void *data), void *data);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
extern uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *block);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

#define USER UINT32_MAX
#define BLOCK_SIZE (1 << 20)

static uint64_t *addresses;
static size_t functions;
static FILE *trace;
static uint32_t pair[2] = { USER, 0 };

static uint32_t function_at(uint64_t address)
{
	size_t low = 0, high = functions;

	if (!functions || address < addresses[0])
		return USER;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (addresses[middle] <= address)
			low = middle;
		else
			high = middle;
	}
	return (uint32_t)low;
}

static void executed(unsigned int cpu, void *data)
{
	uint32_t function = (uint32_t)((uintptr_t)data >> 32);

	(void)cpu;
	if (function != pair[0]) {
		fwrite(pair, sizeof pair, 1, trace);
		pair[0] = function;
		pair[1] = 0;
	}
	pair[1] += (uint32_t)(uintptr_t)data;
}

static void translated(plugin_id id, struct qemu_plugin_tb *block)
{
	uintptr_t function = function_at(qemu_plugin_tb_vaddr(block));
	uintptr_t instructions = qemu_plugin_tb_n_insns(block);

	(void)id;
	qemu_plugin_register_vcpu_tb_exec_cb(block, executed, 0,
		(void *)(function << 32 | instructions));
}

static void ended(plugin_id id, void *data)
{
	(void)id;
	(void)data;
	fwrite(pair, sizeof pair, 1, trace);
	fclose(trace);
}

static int read_symbols(const char *path)
{
	FILE *file = fopen(path, "r");
	unsigned long long address;
	size_t room = 0;

	if (!file)
		return -1;
	while (fscanf(file, "%llx", &address) == 1) {
		if (functions == room) {
			room = room ? 2 * room : 65536;
			addresses = realloc(addresses, room * sizeof *addresses);
			if (!addresses)
				return -1;
		}
		addresses[functions++] = address;
	}
	fclose(file);
	return functions ? 0 : -1;
}

__attribute__((visibility("default")))
int qemu_plugin_install(plugin_id id, const void *info, int count, char **arguments)
{
	(void)info;
	for (int i = 0; i < count; i++) {
		if (!strncmp(arguments[i], "symbols=", 8) && read_symbols(arguments[i] + 8))
			return -1;
		if (!strncmp(arguments[i], "trace=", 6))
			trace = fopen(arguments[i] + 6, "wb");
	}
	if (!trace || !functions)
		return -1;

	setvbuf(trace, NULL, _IOFBF, BLOCK_SIZE);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, ended, NULL);
	return 0;
}
