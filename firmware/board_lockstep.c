/* MPS2 AN385 without its card and its pins: frames, edges and outputs go through semihosting to a program that conducts several of these
 * boards in virtual time (`onbeat-lab`, net/lockstep.rs). QEMU's `-icount` counts time in instructions, and none is executed while a read waits,
 * so the conductor stops and resumes each board's time: the same frames at the same nanosecond, in every run. The board does not sleep: beside
 * other work QEMU 7.2 sometimes ends a WFI a few instructions late, as if those that led to it had not been counted yet.
 */
#include "board.h"
#include "mps2_clock.h"

#include <string.h>

/* Operations of Arm's semihosting. */
enum { SYS_OPEN = 0x01, SYS_WRITE = 0x05, SYS_READ = 0x06, SYS_EXIT = 0x18 };
enum { OPEN_READ = 1, OPEN_WRITE = 5, STOPPED = 0x20026 };

/* Kinds of messages. */
enum { HELLO = 1, FRAME = 2, WAIT = 3, INSTANT = 4, LEVEL = 5, END = 6 };

/* In both directions, little-endian; the bytes of a frame, or of the MAC address in the answer to HELLO, follow. */
struct message {
    uint64_t at_ns;
    uint64_t value; /* of WAIT: until when; of LEVEL: the level */
    uint32_t kind;
    uint32_t bytes;
};

static uint32_t to_conductor, from_conductor;
static struct {
    struct message head;
    uint8_t bytes[BOARD_FRAME_BYTES];
} outgoing;

static uint32_t semihost(uint32_t operation, const void *arguments)
{
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = arguments;

    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static uint32_t open_file(const char *path, uint32_t mode)
{
    uint32_t arguments[] = {(uint32_t)path, mode, (uint32_t)strlen(path)};

    return semihost(SYS_OPEN, arguments);
}

/* SYS_EXIT, since a signal would leave the time of the last instruction open. */
static void leave(void)
{
    for (;;)
        semihost(SYS_EXIT, (const void *)STOPPED);
}

static void say(uint64_t value, uint32_t kind, size_t bytes)
{
    uint32_t arguments[] = {to_conductor, (uint32_t)&outgoing, (uint32_t)(sizeof outgoing.head + bytes)};

    outgoing.head = (struct message){board_now_ns(), value, kind, (uint32_t)bytes};
    if (semihost(SYS_WRITE, arguments))
        leave();
}

static void hear(void *into, size_t bytes)
{
    while (bytes) {
        uint32_t arguments[] = {from_conductor, (uint32_t)into, (uint32_t)bytes};
        size_t left = semihost(SYS_READ, arguments);

        if (left >= bytes)
            leave(); /* the conductor has ended */
        into = (uint8_t *)into + (bytes - left);
        bytes = left;
    }
}

struct board_facts board_start(void)
{
    struct board_facts facts = {{0}, MPS2_STEP_NS};
    struct message hello;

    mps2_clock_start();
    to_conductor = open_file("/dev/stdout", OPEN_WRITE);
    from_conductor = open_file("/dev/stdin", OPEN_READ);
    say(0, HELLO, 0);
    hear(&hello, sizeof hello);
    hear(facts.mac, sizeof facts.mac);
    return facts;
}

/* Executes instructions until an instant: eight in a turn, of 32 ns each. */
static void spin(uint64_t until_ns)
{
    enum { TURN_NS = 8 * 32, MOST_TURNS = 1 << 22 }; /* a second: the counter is read far more often than it wraps */

    for (uint64_t now_ns; (now_ns = board_now_ns()) < until_ns;) {
        uint64_t turns = (until_ns - now_ns) / TURN_NS;
        uint32_t left = turns < MOST_TURNS ? (uint32_t)turns : MOST_TURNS;

        if (left)
            __asm__ volatile("1: nop; nop; nop; nop; nop; nop; subs %0, %0, #1; bne 1b" : "+r"(left) : : "cc");
    }
}

struct board_event board_wait(uint8_t *frame, size_t most, uint64_t until_ns)
{
    struct board_event event = {.kind = BOARD_INSTANT};
    struct message heard;

    say(until_ns, WAIT, 0);
    hear(&heard, sizeof heard);
    if (heard.kind == END || heard.bytes > most)
        leave();
    hear(frame, heard.bytes);
    spin(heard.at_ns);
    event.at_ns = board_now_ns();
    if (heard.kind == FRAME)
        event.kind = BOARD_FRAME;
    else if (heard.kind == LEVEL)
        event.kind = BOARD_EDGE;
    event.bytes = heard.bytes;
    event.level = (int)heard.value;
    return event;
}

int board_send(const uint8_t *frame, size_t bytes)
{
    if (bytes > BOARD_FRAME_BYTES)
        return 0;
    memcpy(outgoing.bytes, frame, bytes);
    say(0, FRAME, bytes);
    return 1;
}

void board_output(int level)
{
    say((uint64_t)(level != 0), LEVEL, 0);
}
