/* libonbeat for C and C++: a loop on a grid of releases, and rings of messages.
 *
 *     static int cycle(const struct onbeat_loop_cycle *now, void *user) { ...; return ONBEAT_LOOP_CONTINUE; }
 *
 *     const struct onbeat_loop_options options = {.period_ns = 1000000, .priority = 80, .run_file = "loop.onbeat.hlog"};
 *     if (onbeat_loop_run(&options, cycle, &state, NULL) != ONBEAT_LOOP_OK) fprintf(stderr, "%s\n", onbeat_last_error());
 *
 *     cc -O2 loop.c $(pkg-config --cflags --libs onbeat)
 *
 * Rings are read with onbeat_ring.h, which this file includes; robots are commanded with onbeat_control.h. Both are complete without the
 * library. C11 or C++17, Linux. docs/guide/own-loop.md describes the loop, docs/ring.md the rings.
 */
#ifndef ONBEAT_H
#define ONBEAT_H

#include "onbeat_ring.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the sentence about the last call in this thread: why it failed, or what the loop ran without. It is empty if there is nothing to
 * report, and valid until the next call in this thread. */
const char *onbeat_last_error(void);

/* ---- the loop ---- */

#define ONBEAT_LOOP_VERSION 1u

enum onbeat_loop_result {
    ONBEAT_LOOP_OK = 0,
    ONBEAT_LOOP_BAD_OPTIONS = -1, /* an option is not valid, or header and library are of different releases */
    ONBEAT_LOOP_REFUSED = -2,     /* the system refused a privilege; see ONBEAT_LOOP_ACCEPT_REFUSALS */
    ONBEAT_LOOP_FILE_EXISTS = -3, /* a run file that exists is not replaced */
    ONBEAT_LOOP_FAILED = -4,      /* the timing is not valid, or the run file cannot be written */
    ONBEAT_LOOP_BUG = -5          /* a bug in onbeat */
};

/* Bits of `flags`. */
enum onbeat_loop_flag {
    ONBEAT_LOOP_LOCK_MEMORY = 1,     /* locks all memory of the process, so that no cycle waits for a page */
    ONBEAT_LOOP_ACCEPT_REFUSALS = 2, /* runs without what the system refuses; onbeat_last_error lists it */
    ONBEAT_LOOP_BIND_CPU = 4,        /* binds the loop's thread to `cpu`; the calling thread stays off it */
    ONBEAT_LOOP_EXPLAIN_SPIKES = 8   /* records why cycles were late; needs the rights for tracing */
};

/* How the loop waits for a release. */
enum onbeat_loop_wait {
    ONBEAT_LOOP_SLEEP = 0,
    ONBEAT_LOOP_SPIN = 1,    /* sleeps until `wait_margin_ns` before the release, then polls the clock */
    ONBEAT_LOOP_ADAPTIVE = 2 /* as above, with a margin that follows the machine, at most `wait_margin_ns` */
};

/* Reaction to a cycle that ends after the next release. */
enum onbeat_loop_overrun {
    ONBEAT_LOOP_SKIP = 0,            /* continues at the first release that has not passed; the others are counted */
    ONBEAT_LOOP_CATCH_UP = 1,        /* serves passed releases back to back, at most `catch_up_at_most` in a row */
    ONBEAT_LOOP_STOP_ON_OVERRUN = 2  /* ends the loop */
};

/* 0 is the default of each; set the others by name: {.period_ns = 1000000}. */
struct onbeat_loop_options {
    uint64_t period_ns;        /* at least 1 */
    uint64_t deadline_ns;      /* after each release; 0: the period */
    uint64_t releases;         /* the loop ends after this many; 0: when the function stops it */
    uint64_t wait_margin_ns;   /* see enum onbeat_loop_wait */
    const char *run_file;      /* `onbeat report` shows it; NULL: none */
    uint32_t flags;            /* of enum onbeat_loop_flag */
    uint32_t priority;         /* SCHED_FIFO, 1 to 99; 0: an ordinary thread */
    uint32_t cpu;              /* with ONBEAT_LOOP_BIND_CPU */
    uint32_t wait;             /* enum onbeat_loop_wait */
    uint32_t on_overrun;       /* enum onbeat_loop_overrun */
    uint32_t catch_up_at_most; /* cycles */
};

/* A cycle. Times are of CLOCK_MONOTONIC. */
struct onbeat_loop_cycle {
    uint64_t index;      /* of the release, from 0; skipped ones are counted */
    uint64_t release_ns; /* when the cycle was due */
    uint64_t start_ns;   /* when it began */
    uint64_t skipped;    /* releases skipped since the cycle before */
    uint64_t dt_ns;      /* since the release served before: a whole number of periods */
};

/* Why a loop ended. */
enum onbeat_loop_end {
    ONBEAT_LOOP_ENDED_COMPLETE = 1, /* after `releases` */
    ONBEAT_LOOP_ENDED_BY_FUNCTION = 2,
    ONBEAT_LOOP_ENDED_BY_OVERRUN = 3,
    ONBEAT_LOOP_ENDED_BY_REQUEST = 4
};

/* How a loop ran: releases = cycles + skipped + lost. Zeros unless onbeat_loop_run has returned ONBEAT_LOOP_OK. */
struct onbeat_loop_report {
    uint64_t releases;
    uint64_t cycles;
    uint64_t skipped;
    uint64_t lost;            /* cycles without a sample, because the recorder was too slow */
    uint64_t deadline_misses;
    uint64_t worst_ns;        /* largest wake-up latency, without the first ten cycles */
    uint32_t ended;           /* enum onbeat_loop_end */
    uint32_t refused;         /* number of privileges that the system refused */
};

/* Any other value ends the loop too. */
enum onbeat_loop_decision { ONBEAT_LOOP_CONTINUE = 0, ONBEAT_LOOP_STOP = 1 };

/* Runs in the loop's thread. It must not wait for other threads, allocate memory, print, or throw an exception. */
typedef int (*onbeat_loop_function)(const struct onbeat_loop_cycle *now, void *user);

int onbeat_loop_run_version(uint32_t version, const struct onbeat_loop_options *options, onbeat_loop_function function, void *user,
                            struct onbeat_loop_report *report);

/* Runs `function` once per period in a thread of its own, and records in this one until the loop has ended. `report` may be NULL. Catches no
 * signal: a handler may set a flag that `function` reads. Returns enum onbeat_loop_result. */
static inline int onbeat_loop_run(const struct onbeat_loop_options *options, onbeat_loop_function function, void *user,
                                  struct onbeat_loop_report *report) {
    if (report) memset(report, 0, sizeof *report);
    return onbeat_loop_run_version(ONBEAT_LOOP_VERSION, options, function, user, report);
}

/* ---- a lock that gives way to releases ---- */

/* Shared by one loop and any number of ordinary threads of a process, or of processes in shared memory. An ordinary thread enters only when it
 * can leave before the loop's next release; the loop never waits. Use the functions below, not the fields. */
struct onbeat_delayed_lock {
    uint64_t next_release_ns;
    uint32_t holder;
    uint32_t reserved;
};

enum onbeat_delayed_lock_result {
    ONBEAT_DELAYED_LOCK_ENTERED = 0,
    ONBEAT_DELAYED_LOCK_HELD = 1,    /* another thread is inside, or `lock` is NULL */
    ONBEAT_DELAYED_LOCK_TOO_NEAR = 2 /* it would still be inside at the next release: ask again behind that */
};

/* Makes a free lock without a release: nobody has to give way. */
void onbeat_delayed_lock_init(struct onbeat_delayed_lock *lock);

/* Publishes the loop's next release, of CLOCK_MONOTONIC: at the end of each cycle, release_ns + period. One store. */
void onbeat_delayed_lock_publish(const struct onbeat_delayed_lock *lock, uint64_t release_ns);

/* The loop has ended or pauses: nobody has to give way. */
void onbeat_delayed_lock_withdraw(const struct onbeat_delayed_lock *lock);

/* Enters from the loop: one compare-exchange, no waiting, and so allowed in a cycle. HELD: a thread stayed longer than it said, and the loop
 * goes without the section for this cycle. Returns enum onbeat_delayed_lock_result. */
int onbeat_delayed_lock_enter_loop(const struct onbeat_delayed_lock *lock);

/* Enters from an ordinary thread that stays for at most `section_ns`. Does not wait. Returns enum onbeat_delayed_lock_result. */
int onbeat_delayed_lock_enter(const struct onbeat_delayed_lock *lock, uint64_t section_ns);

/* Leaves, in the thread that has entered. */
void onbeat_delayed_lock_leave(const struct onbeat_delayed_lock *lock);

/* ---- the writing end of a ring ---- */

struct onbeat_ring_settings {
    uint64_t records;        /* that the ring keeps: a power of two from 2 on */
    uint64_t record_bytes;   /* maximum length of a record */
    const char *type_name;   /* such as "planner_msgs/msg/Path", at most 160 bytes; NULL: none, as for the following */
    const char *type_hash;   /* as `onbeat message type` prints it: RIHS01_... */
    const char *schema;      /* the definition of the type, for readers that do not know it */
    const char *description; /* of the channel, for its readers: JSON */
};

struct onbeat_ring_writer;

/* Creates the ring of a channel, such as "walker/planner". Returns NULL if it cannot: onbeat_last_error names the process that writes the
 * channel already, or says why the directory of rings is not used. One thread at a time may use a writer.
 *
 * The ring is a file of this user, readable by its group: docs/ring.md names the directory. Its memory is allocated completely. If this user or
 * root truncates the file, the next publication is a SIGBUS: this library installs no handler. */
struct onbeat_ring_writer *onbeat_ring_create(const char *channel, const struct onbeat_ring_settings *settings);

/* Publishes a record, of a time of CLOCK_MONOTONIC, and returns its number, from 1; 0 if it is longer than `record_bytes`. A fixed number of
 * stores: no allocation, no system call, no waiting, and so allowed in a cycle. */
uint64_t onbeat_ring_publish(struct onbeat_ring_writer *writer, uint64_t at_ns, const void *bytes, size_t length);

/* Ends a ring: readers learn of its end, and the channel is free. NULL is ignored. In a process forked from the writer's, as where C++ destroys its
 * globals at exit, it only gives up the memory: a daemon creates its rings after it has forked. */
void onbeat_ring_end(struct onbeat_ring_writer *writer);

#ifdef __cplusplus
}
#endif

#endif
