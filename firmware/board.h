/* The seam between the firmware and its board: five functions. A port to another board, or under an RTOS, writes these and nothing else.
 *
 * All are called from one thread, after board_start. None allocates.
 */
#ifndef BOARD_H
#define BOARD_H

#include <stddef.h>
#include <stdint.h>

/* Longest Ethernet frame without its check sequence, in bytes. */
#define BOARD_FRAME_BYTES 1518u

struct board_facts {
    uint8_t mac[6];
    /* Step of board_now_ns, in nanoseconds: no time stamp is finer. */
    uint32_t counter_step_ns;
};

/* What ended a wait. */
enum board_event_kind {
    BOARD_INSTANT, /* its instant has come */
    BOARD_FRAME,
    BOARD_EDGE /* at the input */
};

struct board_event {
    enum board_event_kind kind;
    /* Of a frame: without its check sequence. */
    size_t bytes;
    /* Of an edge: the input's level after it, 0 or 1. */
    int level;
    /* When it happened, by board_now_ns, as exactly as the board can say. */
    uint64_t at_ns;
};

/* Starts clocks, counter, network controller, input and output, and says on the board's console what it is. */
struct board_facts board_start(void);

/* Nanoseconds since board_start, by a hardware counter that does not stop; never goes back. */
uint64_t board_now_ns(void);

/* Waits for a frame or an edge, at most until an instant of board_now_ns, asleep where the board can. A frame longer than `most` is dropped. */
struct board_event board_wait(uint8_t *frame, size_t most, uint64_t until_ns);

/* Sends a frame of at most BOARD_FRAME_BYTES; shorter ones than Ethernet's minimum are padded by the controller. Returns 1, or 0 when the
 * controller did not take it. */
int board_send(const uint8_t *frame, size_t bytes);

/* Sets the output that an edge is answered at: 0 or 1. */
void board_output(int level);

#endif
