/* Reads an image, prints its content, and owns its outputs for a while. Started by tests/it/control_c.rs. */
#include "onbeat_control.h"

#include <stdlib.h>

int main(int count, char **words) {
    struct onbeat_control bus;
    if (count < 3) return 2;
    int result = onbeat_control_open(&bus, words[1]);
    printf("open %d\n", result);
    if (result != ONBEAT_OK) return 0;

    printf("segment %s, %u devices, %u in, %u out\n", bus.header->segment, bus.device_count, bus.input_bytes, bus.output_bytes);
    for (uint32_t i = 0; i < bus.device_count; i++) {
        const struct onbeat_device *device = &bus.devices[i];
        const struct onbeat_value *value = &bus.values[device->first_value + device->output_values];
        printf("%s kind %u alias %u inputs %u+%u, first input 0x%04x:%u %u bits at %u, travel %d..%d, state 0x%llx\n", device->name,
               device->kind, device->alias, device->inputs_at, device->inputs_bytes, value->index, value->entry, value->bits,
               value->bit_at, device->travel[0], device->travel[1], (unsigned long long)onbeat_load(&bus.states[i]));
    }
    /* The readings begin when the bus publishes. */
    fflush(stdout);
    getchar();

    uint8_t *inputs = (uint8_t *)malloc(bus.input_bytes), *outputs = (uint8_t *)malloc(bus.output_bytes);
    struct onbeat_cycle cycle;
    uint64_t first, torn = 0, last = 0;
    long readings = atol(words[2]);
    for (long i = 0; i < readings; i++) {
        if (onbeat_control_read(&bus, &cycle, inputs, outputs) != ONBEAT_OK) return 3;
        memcpy(&first, inputs, 8);
        for (uint32_t at = 0; at + 8 <= bus.input_bytes; at += 8) torn += memcmp(inputs + at, &first, 8) != 0;
        torn += cycle.cycle != first || cycle.cycle < last;
        last = cycle.cycle;
    }
    printf("torn %llu, working counter %u of %u\n", (unsigned long long)torn, cycle.working_counter, cycle.expected);

    uint32_t owner = 0;
    result = onbeat_control_claim(&bus, &owner);
    printf("claim %d\n", result);
    memset(outputs, 0x5A, bus.output_bytes);
    printf("write %d\n", onbeat_control_write(&bus, outputs));
    fflush(stdout);
    getchar();
    onbeat_control_release(&bus);
    printf("write after release %d\n", onbeat_control_write(&bus, outputs));
    fflush(stdout);
    getchar();

    struct onbeat_event event;
    uint64_t next = 1, missed = 0;
    while (onbeat_control_event(&bus, &next, &event, &missed) == 1) printf("event %u code %u\n", event.kind, event.code);
    printf("missed %llu\n", (unsigned long long)missed);
    fflush(stdout);
    getchar();
    printf("after the end %d\n", onbeat_control_read(&bus, &cycle, NULL, NULL));
    onbeat_control_close(&bus);
    return 0;
}
