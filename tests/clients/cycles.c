/* Reads all cycles of a robot in C, with the header of this repository and a generated codec; prints what it saw, as JSON. */
#define _POSIX_C_SOURCE 200809L
#include "onbeat_ring.h"

#include <time.h>

#include "cycle.h"

int main(int words, char **word) {
    static uint8_t bytes[1 << 16];
    static uint64_t memory[1 << 14];
    const struct timespec a_while = {0, 1000000};
    struct onbeat_ring ring;
    struct onbeat_record record;
    struct onbeat_msgs_Cycle cycle;
    unsigned long long count = 0, first = 0, last = 0, before = 0;
    int in_order = 1, ended = ONBEAT_RING_OK;
    if (words < 2) return 2;

    while (onbeat_ring_open(&ring, word[1]) != ONBEAT_RING_OK) nanosleep(&a_while, NULL);
    onbeat_ring_rewind(&ring);
    if (strcmp(ring.type, ONBEAT_MSGS_CYCLE_TYPE) || strcmp(ring.hash, ONBEAT_MSGS_CYCLE_HASH)) return 3;
    printf("open\n");
    fflush(stdout);

    for (;;) {
        const int next = onbeat_ring_next(&ring, &record, bytes, sizeof bytes);
        if (next == ONBEAT_RING_NOTHING) {
            /* What the writer published before its end is read after it. */
            if (ended != ONBEAT_RING_OK) break;
            ended = onbeat_ring_check(&ring);
            nanosleep(&a_while, NULL);
        } else if (next == ONBEAT_RING_RECORD) {
            if (onbeat_msgs_Cycle_decode(&cycle, bytes, record.length, memory, sizeof memory) < 0) return 4;
            if (count++ == 0) first = record.number;
            in_order &= count == 1 || (record.number > last && cycle.cycle > before && cycle.release_ns == record.at_ns);
            last = record.number;
            before = cycle.cycle;
        }
    }

    printf("{\"count\": %llu, \"first\": %llu, \"last\": %llu, \"in_order\": %s, \"lost\": %llu, \"joints\": %u, \"ended\": %d}\n",
           count, first, last, in_order ? "true" : "false", (unsigned long long)ring.lost, (unsigned)cycle.actual_rad.count, ended);
    onbeat_ring_close(&ring);
    return 0;
}
