/* How long buses of several periods may be silent, in memory that this program fills as a bus process does; see tests/it/control_c.rs. */
#include "onbeat_control.h"

static struct onbeat_header header;
static struct onbeat_live live;
static uint64_t image[1024];

int main(void) {
    const unsigned cases_ms[3][2] = {{1, 5000}, {10000, 20000}, {1000, 15000}}; /* period, time since the last cycle */
    struct onbeat_control bus;
    struct onbeat_cycle cycle;
    memset(&bus, 0, sizeof bus);
    memset(&cycle, 0, sizeof cycle);
    bus.header = &header;
    bus.live = &live;
    bus.base = (uint8_t *)image;
    header.state = 1;
    for (int i = 0; i < 3; i++) {
        uint64_t *slot = image + onbeat_slot_words(&bus, 1);
        cycle.dt_ns = cases_ms[i][0] * UINT64_C(1000000);
        cycle.release_ns = onbeat_now() - cases_ms[i][1] * UINT64_C(1000000);
        header.answered_at = cycle.release_ns;
        slot[0] = 2;
        memcpy(slot + 1, &cycle, sizeof cycle);
        live.image = 1;
        printf("%d%d ", onbeat_no_answer_for(&bus) > 0, onbeat_no_cycle_for(&bus) > 0);
    }
    header.answered_at = live.image = 0;
    printf("%d%d\n", onbeat_no_answer_for(&bus) > 0, onbeat_no_cycle_for(&bus) > 0);
    return bus.seen != 0;
}
