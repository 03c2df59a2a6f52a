/* Finds values by name, and makes register requests and a rescan; see tests/it/control_c.rs. */
#include "onbeat_control.h"

#include <stdlib.h>

#define TIMEOUT_MS 60000

static uint8_t inputs[4096], outputs[4096];

static void look(const char *name, void *own) {
    const char **wanted = (const char **)own;
    if (*wanted && strcmp(name, *wanted) == 0) *wanted = NULL;
}

static void values(struct onbeat_control *bus) {
    struct onbeat_place target, same;
    double rad = 0.0;
    if (onbeat_value_find(bus, "right knee", "TARGET position", &target) != ONBEAT_OK) exit(3);
    printf("target: %s, byte %u, bit %u, %u bits\n", target.is_output ? "output" : "input", (unsigned)target.byte, (unsigned)target.bit,
           (unsigned)target.bits);
    printf("by object: %d\n", onbeat_value_find_object(bus, 1, 0x607A, 0, &same) == ONBEAT_OK && memcmp(&target, &same, sizeof same) == 0);
    printf("unknown value %d, unknown device %d\n", onbeat_value_find(bus, "right knee", "toe", &same), onbeat_value_find(bus, "hip", "toe", &same));
    onbeat_set(&target, outputs, -77);
    printf("set and read: %lld, neighbours %u %u\n", (long long)onbeat_signed(&target, outputs), (unsigned)outputs[target.byte - 1],
           (unsigned)outputs[target.byte + 4]);
    if (onbeat_joint_position(bus, 0, inputs, &rad) != ONBEAT_OK) exit(3);
    printf("joint at %.3f rad\n", rad);
}

/* Both kinds of cycles are seen: with all inputs new, and without. */
static int exchanges_are_seen(struct onbeat_control *bus) {
    struct onbeat_cycle cycle;
    int seen[3] = {0, 0, 0};
    for (int tries = 0; tries < 100000 && !(seen[ONBEAT_EXCHANGED_INCOMPLETE] && seen[ONBEAT_EXCHANGED_COMPLETE]); tries++) {
        if (onbeat_control_wait(bus, TIMEOUT_MS) != 1 || onbeat_control_read(bus, &cycle, inputs, NULL) != ONBEAT_OK) return 0;
        seen[onbeat_exchanged(&cycle)] = 1;
    }
    return seen[ONBEAT_EXCHANGED_INCOMPLETE] && seen[ONBEAT_EXCHANGED_COMPLETE] && !seen[ONBEAT_EXCHANGED_ZERO];
}

int main(int count, char **words) {
    struct onbeat_control bus;
    uint8_t bytes[4] = {0}, zero = 0, init[2] = {1, 0};
    uint16_t positions[8];
    size_t found = 8, few = 3;
    if (count < 2 || onbeat_control_open(&bus, words[1]) != ONBEAT_OK || !exchanges_are_seen(&bus)) return 2;
    values(&bus);
    struct onbeat_port_errors errors;
    int is_read = onbeat_port_errors(&bus, 0, 1, &errors);
    printf("errors of port 1: read %d, %u invalid, %u lost links, at least %x\n", is_read, (unsigned)errors.invalid_frames, (unsigned)errors.lost_links, errors.at_least);
    printf("errors of another device: read %d\n", onbeat_port_errors(&bus, 1, 1, &errors));
    printf("link %d, %u answer, states %x\n", onbeat_link(&bus), (unsigned)onbeat_answering(&bus), (unsigned)onbeat_al_states(&bus));

    int result = onbeat_register_read(&bus, 1, 0x0300, bytes, sizeof bytes, TIMEOUT_MS);
    printf("read %d: %02x %02x %02x %02x\n", result, bytes[0], bytes[1], bytes[2], bytes[3]);
    result = onbeat_register_write(&bus, 1, 0x0300, &zero, 1, TIMEOUT_MS);
    printf("write %d, kept %d, beyond %d\n", result, onbeat_register_write(&bus, 1, 0x0120, init, 2, TIMEOUT_MS),
           onbeat_register_write(&bus, 1, 0x0FFF, init, 2, TIMEOUT_MS));

    size_t room = sizeof inputs;
    result = onbeat_sdo_read_complete(&bus, 0, 0x1018, inputs, &room, TIMEOUT_MS, NULL);
    printf("complete %d, %u bytes, written %d\n", result, (unsigned)room, onbeat_sdo_write_complete(&bus, 0, 0x607D, init, 2, TIMEOUT_MS, NULL));

    const char *wanted = words[1];
    int names = onbeat_control_names(look, &wanted);
    printf("named %d, silent %d, nobody %u %u", names >= 1 && !wanted, onbeat_no_cycle_for(&bus) > 0, (unsigned)onbeat_owner_pid(&bus),
           (unsigned)onbeat_commander_pid(&bus));
    int claimed = onbeat_control_claim(&bus, NULL) + onbeat_commander_claim(&bus, NULL);
    uint32_t me = (uint32_t)getpid();
    printf(", then %d: %d %d\n", claimed, onbeat_owner_pid(&bus) == me, onbeat_commander_pid(&bus) == me);

    result = onbeat_rescan(&bus, positions, &found, TIMEOUT_MS);
    printf("rescan %d:", result);
    for (size_t i = 0; i < found; i++) printf(" %u", (unsigned)positions[i]);
    printf(", of which 3 are not all: %d\n", onbeat_rescan(&bus, positions, &few, TIMEOUT_MS));
    onbeat_control_close(&bus);
    return 0;
}
