/* A complete client: commands a joint of a running robot, reads an object of its drive, waits for cycles, and ends with the reason when the
 * robot enters the safe stop. Start a robot with `onbeat robot run humanoid --trajectory commander --name walker`, then
 *
 *     cc -std=c11 -D_POSIX_C_SOURCE=200809L -I include client.c -o client && ./client walker "left knee" 0.3
 *
 * It is valid C11, C17 and C++17; tests/it/control_c.rs builds and runs it. */
#include "onbeat_control.h"

#include <stdlib.h>

/* Goals are repeated long before they are too old. */
static const uint64_t GIVE_EVERY_NS = 10000000;
/* A drive may take seconds for an object, and a busy machine for its answer. */
static const uint32_t OBJECT_TIMEOUT_MS = 30000;

static int fail(const char *what, int result) {
    fprintf(stderr, "%s: result %d of enum onbeat_result\n", what, result);
    return 2;
}

static void print_events(struct onbeat_control *bus, uint64_t *next) {
    static const char *const WHY[] = {"", "missed cycles", "a joint is down", "the commander is lost"};
    struct onbeat_event event;
    uint64_t missed = 0;
    while (onbeat_control_event(bus, next, &event, &missed) == 1) {
        const char *device = event.device < bus->device_count ? bus->devices[event.device].name : "none";
        switch (event.kind) {
        case ONBEAT_EVENT_DEVICE_LOST:
            printf("device lost: %s\n", device);
            break;
        case ONBEAT_EVENT_JOINT_DOWN:
            printf("joint down: %s, reason %u\n", device, event.code);
            break;
        case ONBEAT_EVENT_SAFE_STOP:
            printf("safe stop in cycle %llu: %s, joint %s\n", (unsigned long long)event.cycle, event.new_value < 4 ? WHY[event.new_value] : "?", device);
            break;
        default:
            break;
        }
    }
    if (missed) printf("%llu events missed\n", (unsigned long long)missed);
}

int main(int count, char **words) {
    struct onbeat_control bus;
    struct onbeat_cycle cycle;
    struct onbeat_times exchange;
    if (count < 4) return fail("usage: client NAME JOINT RAD", 0);
    int result = onbeat_control_open(&bus, words[1]);
    if (result != ONBEAT_OK) return fail("open", result);
    int joint = onbeat_joint_find(&bus, words[2]);
    if (joint < 0) return fail("no such joint", joint);

    uint32_t vendor = 0, abort_code = 0;
    size_t bytes = sizeof vendor;
    result = onbeat_sdo_read(&bus, (uint16_t)bus.joints[joint].device, 0x1018, 1, &vendor, &bytes, OBJECT_TIMEOUT_MS, &abort_code);
    if (result == ONBEAT_OK) printf("vendor 0x%08x\n", (unsigned)vendor);
    else printf("vendor: result %d, abort code 0x%08x\n", result, (unsigned)abort_code);

    result = onbeat_commander_claim(&bus, NULL);
    if (result != ONBEAT_OK) return fail("claim", result);
    double *rad = (double *)calloc(bus.joint_count, sizeof *rad);
    uint64_t which[(ONBEAT_MOST_JOINTS + 63) / 64] = {0}, next = onbeat_control_events(&bus) + 1, given_ns = 0;
    if (!rad) return fail("memory", 0);
    rad[joint] = atof(words[3]);
    which[joint / 64] |= (uint64_t)1 << (joint % 64);

    int is_stopped = 0;
    while (!is_stopped && (result = onbeat_control_wait(&bus, 1000)) >= 0) {
        if (result == 0) continue;
        result = onbeat_control_read(&bus, &cycle, NULL, NULL);
        if (result != ONBEAT_OK) break;
        /* The state is part of each cycle, and stays; the event comes before the first such cycle, and names the joint. */
        is_stopped = cycle.has_robot && cycle.rung == ONBEAT_SAFE_STOP;
        print_events(&bus, &next);
        if (cycle.release_ns - given_ns >= GIVE_EVERY_NS) {
            given_ns = cycle.release_ns;
            result = onbeat_commander_give(&bus, which, rad, NULL);
            if (result != ONBEAT_OK) break;
        }
    }
    onbeat_control_times(&bus, ONBEAT_EXCHANGE, &exchange);
    printf("%llu cycles, %llu exchanges, at most %llu ns\n", (unsigned long long)onbeat_control_counter(&bus, ONBEAT_CYCLES),
           (unsigned long long)exchange.count, (unsigned long long)exchange.max_ns);
    onbeat_commander_release(&bus);
    onbeat_control_close(&bus);
    free(rad);
    if (!is_stopped) return fail("the bus", result);
    printf("stopped in cycle %llu, phase %u\n", (unsigned long long)cycle.cycle, (unsigned)cycle.phase);
    return 0;
}
