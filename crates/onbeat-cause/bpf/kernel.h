/*
 * What the programs need of the kernel, those of this folder and of crates/onbeat-ethercat/bpf: numbers of its interface to BPF, and the members that they
 * read of its structures. Where a member lies is not taken from here: the loader asks the running kernel's BTF for
 * the member of this name (CO-RE), so a structure lists only what is read.
 */
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;

#define SEC(name) __attribute__((section(name), used))
#define __always_inline inline __attribute__((always_inline))

/* Members of a map, as libbpf writes them: the number is the size of a type. */
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

/* enum bpf_map_type */
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_XSKMAP 17
/* The loader may map the array into its memory. */
#define BPF_F_MMAPABLE (1 << 10)

/* enum bpf_func_id */
static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static __u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static __u32 (*bpf_get_smp_processor_id)(void) = (void *)8;
static long (*bpf_redirect_map)(void *map, __u64 key, __u64 otherwise) = (void *)51;
static long (*bpf_xdp_adjust_meta)(void *context, int bytes) = (void *)54;
static long (*bpf_get_stack)(void *context, void *to, __u32 size, __u64 flags) = (void *)67;
static long (*bpf_probe_read_user)(void *to, __u32 size, const void *from) = (void *)112;
static long (*bpf_probe_read_kernel)(void *to, __u32 size, const void *from) = (void *)113;
struct task_struct;
static struct task_struct *(*bpf_get_current_task_btf)(void) = (void *)158;

/* The arguments of a trace point. */
struct bpf_raw_tracepoint_args {
	__u64 args[1];
};

/* What a program at an interface gets and answers (include/uapi/linux/bpf.h). */
struct xdp_md {
	__u32 data;
	__u32 data_end;
	__u32 data_meta;
	__u32 ingress_ifindex;
	__u32 rx_queue_index;
};

enum xdp_action {
	XDP_PASS = 2,
	XDP_TX = 3,
};

/* Reads a member of one of the structures below, through a pointer that the verifier does not know. */
#define READ_MEMBER(to, from, member)                                                                                  \
	bpf_probe_read_kernel(&(to), sizeof(to), __builtin_preserve_access_index(&(from)->member))

/* Whether the running kernel has this member; a branch that this excludes is not even verified. */
#define HAS_MEMBER(structure, member) __builtin_preserve_field_info(((struct structure *)0)->member, 2)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct rt_rq {
	int rt_throttled; /* in newer kernels only with CONFIG_RT_GROUP_SCHED */
};

struct rq {
	struct rt_rq rt;
	__u64 prev_steal_time_rq; /* with CONFIG_PARAVIRT_TIME_ACCOUNTING */
};

struct cfs_rq {
	struct rq *rq;
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
};

struct sched_rt_entity {
	struct rt_rq *rt_rq; /* with CONFIG_RT_GROUP_SCHED each group is throttled separately */
};

struct thread_info {
	__u32 cpu;
};

struct sched_dl_entity;

struct task_struct {
	struct thread_info thread_info;
	__u32 __state;
	void *stack;
	__s32 prio;
	struct sched_entity se;
	struct sched_rt_entity rt;
	struct sched_dl_entity *dl_server; /* the deadline server that chose the thread, from Linux 6.8 on */
	int exit_state;
	unsigned long jobctl;
	__s32 pid;
	char comm[16];
};

/* Before Linux 5.14, and where `thread_info` has no CPU. What follows `___` is not part of a name. */
struct task_struct___before_5_14 {
	long state;
};
struct task_struct___with_cpu {
	__u32 cpu;
};

struct timerqueue_node {
	__s64 expires;
};

struct hrtimer {
	struct timerqueue_node node;
	__s64 _softexpires;
	void *function;
};

/* Only x86-64 has this member. */
struct pt_regs___x86 {
	unsigned long orig_ax;
	unsigned long sp;
};

#pragma clang attribute pop
