/* The control interface of onbeat for C and C++: the process image of a bus.
 *
 * This file is complete; no library is needed. A handle is a connection to the bus's socket and a read-only view of its memory: a reader never
 * delays the bus, and reading makes no system call. It supports images with wait-free sharing, the default; others (--sharing pi, plain) are
 * refused. This file specifies messages and memory layout, docs/control.md the rules.
 *
 *     struct onbeat_control bus;
 *     if (onbeat_control_open(&bus, "onbeat") != ONBEAT_OK) ...
 *     struct onbeat_cycle cycle;
 *     while (onbeat_control_wait(&bus, 100) >= 0)
 *         if (onbeat_control_read(&bus, &cycle, NULL, NULL) == ONBEAT_OK && cycle.rung == ONBEAT_SAFE_STOP) ...
 *
 * C11 or C++17 with POSIX 2008 and the __atomic builtins of GCC and Clang, Linux. Use a handle in one thread only; open one per thread.
 * A complete client: crates/onbeat-control/tests/control_c/client.c.
 */
#ifndef ONBEAT_CONTROL_H
#define ONBEAT_CONTROL_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* C++ has neither _Atomic nor <stdatomic.h> before C++23: words are plain, and accessed with builtins in both languages. */
#ifdef __cplusplus
#define ONBEAT_ALIGNED alignas(64)
#define ONBEAT_ASSERT static_assert
#else
#define ONBEAT_ALIGNED _Alignas(64)
#define ONBEAT_ASSERT _Static_assert
#endif

/* ---- memory layout ----
 *
 * Version 6. Native byte order; offsets are multiples of 64 bytes. Everything that changes is accessed as aligned atomic words, of 64 bits
 * unless it is declared shorter. The image is a memory object named /memfd:onbeat-image:NAME, the lock onbeat-lock:NAME; lengths are sealed
 * (F_SEAL_SHRINK, F_SEAL_GROW), which a client checks before it maps.
 *
 * Slots. Image, owner outputs and goals have ONBEAT_SLOTS slots each, events as many as the header states. A slot is a sequence word and the
 * value; all but those of events are padded to a multiple of 64 bytes. Publication n (from 1) is in slot n modulo the number of slots. The
 * slots of a role come with its grant: the number of the newest publication at 0, the slots from 64 on.
 *
 *     publish: n = newest + 1; sequence = 2n - 1; release fence; words (relaxed); sequence = 2n (release); newest = n (release)
 *     read:    n = newest (acquire); sequence (acquire) must be 2n; words (relaxed); acquire fence; sequence must still be 2n
 *
 * Values in slots:
 *     image    struct onbeat_cycle, the inputs, the outputs as sent; inputs and outputs each begin at a word
 *     outputs  the outputs
 *     goal     time of creation, CLOCK_MONOTONIC in ns; flags; a bit per joint with a target, in whole words; a position per joint in rad, as
 *              double. Goals of a commander are numbered on from those of the one before. A commander that leaves publishes its last goal again
 *              with ONBEAT_LAST_GOAL, then gives up the joints.
 *     event    struct onbeat_event
 *
 * Lock (sharing 1 and 2), 64 bytes of its own: a word of 32 bits for FUTEX_LOCK_PI (pi), or with the same bits for FUTEX_WAIT (plain), with the
 * thread that holds it and bit 31 if others wait; then, 32 bits, the holder's process. */

#define ONBEAT_ABI 6u
#define ONBEAT_SLOTS 4u
#define ONBEAT_CYCLE_BYTES 56u
#define ONBEAT_EVENT_BYTES 32u
#define ONBEAT_ERROR_WORDS 8u /* words of the record of a device's errors */
#define ONBEAT_GOAL_HEAD 2u /* words of a goal before its bits: time of creation, flags */
#define ONBEAT_LAST_GOAL 1u /* flag: the commander has left */
#define ONBEAT_MOST_JOINTS 256u
#define ONBEAT_REQUEST_BYTES 1024u /* maximum bytes of an SDO transfer */
#define ONBEAT_REGISTER_BYTES 512u /* maximum bytes of an access to registers */
#define ONBEAT_BUCKETS 592u
#define ONBEAT_NO_DEVICE_PLACE 0xFFFFu /* device of an event without one */

/* At offset 0. Constant once `magic` is set, except `state`, `answered_at`, `link` and `answering`. */
struct onbeat_header {
    uint64_t magic;        /*   0: "ONBEATCI"; written last, with release */
    uint32_t abi;          /*   8: ONBEAT_ABI */
    uint32_t sharing;      /*  12: 0 wait-free, 1 pi, 2 plain */
    uint64_t total_bytes;  /*  16 */
    uint64_t layout_hash;  /*  24: hash of the device table (FNV-1a) */
    uint64_t instance;     /*  32: differs between two images of one name */
    uint32_t bus;          /*  40: id of the bus process */
    uint32_t state;        /*  44: 1 running, 2 ended in order */
    uint32_t devices;      /*  48 */
    uint32_t values;       /*  52 */
    uint32_t input_bytes;  /*  56 */
    uint32_t output_bytes; /*  60 */
    uint32_t stale_after;  /*  64: cycles for which outputs are sent after a write */
    uint32_t events;       /*  68: number of events kept */
    uint32_t joints;       /*  72: number of joints that follow goals */
    uint32_t goal_age_us;  /*  76: maximum age of a goal */
    uint64_t live_at;      /*  80: from here to 136, offsets in bytes from the start */
    uint64_t table_at;     /*  88 */
    uint64_t states_at;    /*  96 */
    uint64_t image_at;     /* 104 */
    uint64_t events_at;    /* 112 */
    uint64_t stats_at;     /* 120 */
    uint64_t joints_at;    /* 128 */
    uint64_t link_errors_at; /* 136 */
    char segment[64];      /* 144: padded with zeros */
    uint64_t answered_at;  /* 208: when all frames of a cycle were last answered, CLOCK_MONOTONIC in ns; 0 before the first cycle */
    uint32_t link;         /* 216: enum onbeat_link of the interface */
    uint32_t answering;    /* 220: number of devices that processed the last answered frame */
    uint64_t spare[4];     /* 224 */
};

/* At `live_at`: words in a cache line each, all written by the bus process. */
struct onbeat_live {
    ONBEAT_ALIGNED uint64_t image;     /* number of image publications */
    ONBEAT_ALIGNED uint64_t events;    /* number of events */
    ONBEAT_ALIGNED uint64_t owner;     /* id of the process that owns the outputs, 0 for none */
    ONBEAT_ALIGNED uint64_t commander; /* id of the process that commands the joints, 0 for none */
    ONBEAT_ALIGNED uint64_t answer;    /* of the goal evaluated last: its number * 4 + enum onbeat_answer */
};

/* At `table_at`, one per device. */
struct onbeat_device {
    char name[64];
    uint32_t kind; /* 0 coupler, 1 digital, 2 analogue, 3 drive, 4 imu, 5 force and torque */
    uint32_t alias, vendor, product, revision;
    uint32_t outputs_at, outputs_bytes; /* in the image's outputs */
    uint32_t inputs_at, inputs_bytes;   /* in the image's inputs */
    uint32_t first_value;               /* index of its values: first those of the outputs, then those of the inputs */
    uint32_t output_values, input_values;
    uint32_t increments; /* per revolution of a drive */
    int32_t travel[2];
    uint32_t spare;
};

/* At `joints_at`, one per joint that follows goals; its name is the device's. */
struct onbeat_joint {
    uint64_t device;       /* index of its drive */
    double low_rad;        /* travel */
    double high_rad;
    double velocity_rad_s; /* maximum velocity */
    double increments_per_rad; /* of the drive; negative if it counts against the joint */
    double zero_rad;       /* position of the joint where the drive has increment 0 */
};

/* After the devices, `values` of them. */
struct onbeat_value {
    uint16_t index;
    uint8_t entry;
    uint8_t spare;
    uint16_t bits;
    uint16_t data_type; /* ETG.1020, such as 4 for 32 bits with a sign; 0 if it is not known */
    uint32_t bit_at;    /* from the start of the device's inputs or outputs */
    uint32_t spare2;
    char name[48]; /* in the device's object dictionary, such as "Position actual value" */
};

struct onbeat_cycle {
    uint64_t cycle;
    uint64_t release_ns;   /* CLOCK_MONOTONIC */
    uint64_t dt_ns;
    uint64_t reference_ns; /* system time of the reference clock, 0 without one */
    uint32_t round_trip_ns;
    uint16_t working_counter;
    uint16_t expected;
    uint16_t fresh; /* not 0: all inputs are new */
    uint16_t in_op;
    uint32_t devices;
    /* State of the robot; zeros if the bus process moves no joints. */
    uint8_t phase;         /* enum onbeat_phase */
    uint8_t rung;          /* enum onbeat_rung */
    uint8_t stopped_by;    /* enum onbeat_stop */
    uint8_t has_robot;     /* not 0: the robot's fields are valid */
    uint16_t stop_device;  /* drive of the joint that caused a safe stop, 0xFFFF for none */
    uint16_t misses;       /* misses in the bucket of the miss ladder */
};

struct onbeat_event {
    uint64_t at_ns;
    uint64_t cycle;
    uint16_t kind;   /* enum onbeat_event_kind */
    uint16_t device; /* position of the device, 0xFFFF for none */
    uint16_t old_value;
    uint16_t new_value;
    uint32_t code;
    uint32_t spare;
};

/* A message on the socket (Unix, SOCK_SEQPACKET): one packet, native byte order; `data` has up to ONBEAT_REQUEST_BYTES bytes. The bus sends
 * ONBEAT_TELL_WELCOME at once. A role has ended when ONBEAT_TELL_LEFT confirms it, or with the connection. A stopped bus sends no welcome: after
 * 500 ms a client of its user, or root, opens the memory as /proc/PID/fd/N, the link to its name above.
 *
 * A target (`a` of a request): device in bits 0-15, index or register 16-31, entry 32-39, complete access 40, write 41, enum onbeat_asked 42-.
 * An outcome (`a` of an answer) is 0 if done, else in bits 32-: 1 abort with its code in bits 0-31, 2 no mailbox, 3 no reply, 4 not possible,
 * 5 too long, 6 register kept by the bus, 7 not in OP. A rescan answers with 16 bits per position: the number of a device, or
 * ONBEAT_POSITION_UNKNOWN, ONBEAT_POSITION_NO_ANSWER. */
struct onbeat_message {
    uint32_t kind; /* enum onbeat_message_kind */
    uint32_t id;   /* number of what a client asks; the answer has the same */
    uint64_t a;
    uint64_t b;
    uint8_t data[ONBEAT_REQUEST_BYTES];
};
#define ONBEAT_MESSAGE_HEAD 24u

/* Durations of one kind: buckets of 1 ns below 16 ns, then 16 per power of two. */
struct onbeat_histogram {
    ONBEAT_ALIGNED uint64_t count;
    uint64_t sum, max, spare;
    uint64_t buckets[ONBEAT_BUCKETS]; /* up to 2^40 ns */
};

/* At `stats_at`. */
struct onbeat_stats {
    ONBEAT_ALIGNED uint64_t counters[16]; /* by enum onbeat_counter */
    struct onbeat_histogram timed[4];     /* by enum onbeat_timed */
};

/* Two arrays without a structure:
 * At `states_at`, a word per device: AL state in bits 0-15, AL status code in 16-31, in 32- 1 present, 2 lost, 3 another device, 4 absent (of an
 * optional group).
 * At `link_errors_at`, ONBEAT_ERROR_WORDS words per device: 20 counts of 16 bits in the order of registers 0x0300 to 0x0313, errors since the bus
 * came up (bit 15: the register was full, so the count is a lower bound); a word that is 1 once they were read; 16 bytes unused. */

ONBEAT_ASSERT(sizeof(struct onbeat_header) == 256 && offsetof(struct onbeat_header, answering) == 220, "header");
ONBEAT_ASSERT(sizeof(struct onbeat_live) == 320 && offsetof(struct onbeat_live, answer) == 256, "live");
ONBEAT_ASSERT(sizeof(struct onbeat_joint) == 48, "joint");
ONBEAT_ASSERT(sizeof(struct onbeat_device) == 128, "device");
ONBEAT_ASSERT(sizeof(struct onbeat_value) == 64, "value");
ONBEAT_ASSERT(sizeof(struct onbeat_cycle) == ONBEAT_CYCLE_BYTES && offsetof(struct onbeat_cycle, phase) == 48, "cycle");
ONBEAT_ASSERT(sizeof(struct onbeat_event) == ONBEAT_EVENT_BYTES, "event");
ONBEAT_ASSERT(offsetof(struct onbeat_message, data) == ONBEAT_MESSAGE_HEAD, "message");
ONBEAT_ASSERT(sizeof(struct onbeat_histogram) == 4800 && sizeof(struct onbeat_stats) == 19328, "statistics");

/* ---- constants ---- */

/* Kinds of events; docs/control.md describes their values. */
/* from vocabulary/events.toml */
enum onbeat_event_kind {
    ONBEAT_EVENT_BUS_UP = 1,
    ONBEAT_EVENT_BUS_DOWN = 2,
    ONBEAT_EVENT_BUS_RESTARTED = 3,
    ONBEAT_EVENT_DEVICE_LOST = 4,
    ONBEAT_EVENT_DEVICE_FOUND = 5,
    ONBEAT_EVENT_DEVICE_BACK = 6,
    ONBEAT_EVENT_WRONG_DEVICE = 7,
    ONBEAT_EVENT_STATE_CHANGED = 8,
    ONBEAT_EVENT_EMERGENCY = 9,
    ONBEAT_EVENT_WORKING_COUNTER_OFF = 10,
    ONBEAT_EVENT_WORKING_COUNTER_BACK = 11,
    ONBEAT_EVENT_FRAME_LOST = 12,
    ONBEAT_EVENT_FRAME_LATE = 13,
    ONBEAT_EVENT_FRAME_UNKNOWN = 14,
    ONBEAT_EVENT_CLOCK_LOCKED = 15,
    ONBEAT_EVENT_CLOCK_UNLOCKED = 16,
    ONBEAT_EVENT_OWNER_TAKEN = 17,
    ONBEAT_EVENT_OWNER_LEFT = 18,
    ONBEAT_EVENT_OWNER_DIED = 19,
    ONBEAT_EVENT_OUTPUTS_STALE = 20,
    ONBEAT_EVENT_LIBRARY_FAILED = 21,
    ONBEAT_EVENT_FROZEN = 22,
    ONBEAT_EVENT_STATE_REFUSED = 23,
    ONBEAT_EVENT_READER_DIED = 24,
    ONBEAT_EVENT_SDO_REFUSED = 25,
    ONBEAT_EVENT_COMMANDER_TAKEN = 26,
    ONBEAT_EVENT_COMMANDER_LEFT = 27,
    ONBEAT_EVENT_COMMANDER_DIED = 28,
    ONBEAT_EVENT_PLACE_IN_DOUBT = 29,
    ONBEAT_EVENT_SURPLUS_DEVICE = 30,
    ONBEAT_EVENT_FRAME_DUPLICATE = 31,
    ONBEAT_EVENT_FOREIGN_FRAMES = 32,
    ONBEAT_EVENT_NO_ANSWER = 33,
    ONBEAT_EVENT_ANSWER_BACK = 34,
    ONBEAT_EVENT_RUNG_CHANGED = 35,
    ONBEAT_EVENT_SAFE_STOP = 36,
    ONBEAT_EVENT_PHASE_CHANGED = 37,
    ONBEAT_EVENT_JOINT_DOWN = 38,
    ONBEAT_EVENT_JOINT_BACK = 39,
    ONBEAT_EVENT_GOAL_REFUSED = 40,
    ONBEAT_EVENT_GOAL_OLD = 41,
    ONBEAT_EVENT_GOAL_BACK = 42,
    ONBEAT_EVENT_RESET_DONE = 43,
    ONBEAT_EVENT_RESET_REFUSED = 44,
    ONBEAT_EVENT_COMMANDER_LOST = 45,
    ONBEAT_EVENT_LINK_ERRORS = 46,
    ONBEAT_EVENT_LOCK_TIMEOUT = 47,
    ONBEAT_EVENT_DEVICES_LEFT_OP = 48,
    ONBEAT_EVENT_DEVICES_BACK_IN_OP = 49,
    ONBEAT_EVENT_RING_CUT = 50,
    ONBEAT_EVENT_RING_CLOSED = 51,
    ONBEAT_EVENT_LEFT_OP_WITH_OTHERS = 52,
    ONBEAT_EVENT_MAILBOX_MUTE = 53,
    ONBEAT_EVENT_GROUP_CAME = 54,
    ONBEAT_EVENT_GROUP_LEFT = 55,
    ONBEAT_EVENT_GROUP_TWICE = 56
};
/* end of vocabulary/events.toml */

/* Phase of the robot. */
enum onbeat_phase {
    ONBEAT_WAITING = 0,
    ONBEAT_ENABLING = 1,
    ONBEAT_RUNNING = 2,
    ONBEAT_STOPPING = 3,
    ONBEAT_DISABLING = 4,
    ONBEAT_AT_REST = 5
};

/* Rung of the miss ladder. */
enum onbeat_rung { ONBEAT_RUN = 0, ONBEAT_HOLD = 1, ONBEAT_DEGRADE = 2, ONBEAT_SAFE_STOP = 3 };

/* Reason of a safe stop. */
enum onbeat_stop { ONBEAT_NOT_STOPPED = 0, ONBEAT_BY_MISSES = 1, ONBEAT_BY_JOINT = 2, ONBEAT_BY_COMMANDER = 3 };

/* Link of the network interface. */
enum onbeat_link { ONBEAT_LINK_UNKNOWN = 0, ONBEAT_LINK_UP = 1, ONBEAT_LINK_DOWN = 2 };

/* How much of the process data was exchanged in a cycle. */
enum onbeat_exchanged { ONBEAT_EXCHANGED_ZERO = 0, ONBEAT_EXCHANGED_INCOMPLETE = 1, ONBEAT_EXCHANGED_COMPLETE = 2 };

/* Kinds of messages: those to the bus, then those of the bus. */
enum onbeat_message_kind {
    ONBEAT_ASK_OUTPUTS = 1,
    ONBEAT_LEAVE_OUTPUTS = 2,
    ONBEAT_ASK_JOINTS = 3,
    ONBEAT_LEAVE_JOINTS = 4,
    ONBEAT_ASK_REQUEST = 5, /* a: target, b: number of bytes in `data`, or of register bytes to read */
    ONBEAT_GIVE_UP = 6,
    ONBEAT_TELL_WELCOME = 1, /* a: version in bits 0-31, sharing in 32-; b: instance; descriptors: the image, with a lock that too */
    ONBEAT_TELL_GRANTED = 2, /* descriptor: the slots */
    ONBEAT_TELL_HELD = 3,    /* a: process that has the role */
    ONBEAT_TELL_NO_GOALS = 4, /* no joint follows goals */
    ONBEAT_TELL_LEFT = 5,     /* the role was given up */
    ONBEAT_TELL_ANSWER = 6, /* a: outcome, b: number of bytes in `data` */
    ONBEAT_TELL_BUSY = 7,   /* the connection has a request, or there are 16; a: 16 */
    /* and closed; a: 1 other user, 2 other user and a lock, 3 too many connections of the user, 4 too many; b: how many there may be */
    ONBEAT_TELL_REFUSED = 8
};

/* Kind of a request. */
enum onbeat_asked { ONBEAT_ASKED_SDO = 0, ONBEAT_ASKED_REGISTER = 1, ONBEAT_ASKED_RESCAN = 2 };

/* What a rescan finds at a position, unless it is the number of an expected device. */
#define ONBEAT_POSITION_UNKNOWN 0xFFFEu
#define ONBEAT_POSITION_NO_ANSWER 0xFFFFu

/* Statistics: counters, and durations in ns. */
enum onbeat_counter {
    ONBEAT_CYCLES = 0,
    ONBEAT_FRAMES_LOST = 1,
    ONBEAT_FRAMES_LATE = 2,
    ONBEAT_FRAMES_UNKNOWN = 3,
    ONBEAT_WORKING_COUNTER_ERRORS = 4,
    ONBEAT_STATE_CHANGES = 5,
    ONBEAT_RESTARTS = 6,
    ONBEAT_STALE_CYCLES = 7,
    ONBEAT_LOCK_TIMEOUTS = 8,
    ONBEAT_FRAMES_REPEATED = 9,
    ONBEAT_SIMULATED_DEVICES = 10
};
enum onbeat_timed { ONBEAT_WAKEUP_LATENCY = 0, ONBEAT_ROUND_TRIP = 1, ONBEAT_EXCHANGE = 2, ONBEAT_EXECUTION_TIME = 3 };

/* ---- functions ---- */

enum onbeat_result {
    ONBEAT_OK = 0,
    ONBEAT_NO_BUS = -1,     /* no image of this name exists */
    ONBEAT_SYSTEM = -2,     /* see errno */
    ONBEAT_VERSION = -3,    /* created by another version of onbeat */
    ONBEAT_LOCKED = -4,     /* the sharing is not wait-free */
    ONBEAT_SPOILT = -5,     /* the image is inconsistent */
    ONBEAT_ENDED = -6,      /* the bus has ended: open again */
    ONBEAT_DIED = -7,       /* the bus process was killed */
    ONBEAT_NO_CYCLE = -8,   /* no cycle was published yet */
    ONBEAT_OVERTAKEN = -9,  /* the bus overtook the reader in every attempt */
    ONBEAT_OWNED = -10,     /* another process owns the outputs */
    ONBEAT_NOT_OWNER = -11, /* this process does not own the outputs, or does not command the joints */
    ONBEAT_NO_GOALS = -12,  /* no joint of this bus follows goals */
    ONBEAT_COMMANDED = -13, /* another process commands the joints */
    ONBEAT_NO_SUCH_DEVICE = -14,
    ONBEAT_BUSY = -15,         /* all requests are in use */
    ONBEAT_NO_ANSWER = -16,    /* the bus did not answer in time; the request is dropped */
    ONBEAT_SDO_ABORT = -17,    /* the device refused with an abort code */
    ONBEAT_SDO_NO_MAILBOX = -18,
    ONBEAT_SDO_NO_REPLY = -19, /* the device did not answer in time */
    ONBEAT_SDO_NOT_POSSIBLE = -20,
    ONBEAT_SDO_TOO_LONG = -21,     /* more bytes than fit */
    ONBEAT_NO_SUCH_VALUE = -22,    /* the device maps no such value */
    ONBEAT_REGISTER_RANGE = -23,   /* not 1 to ONBEAT_REGISTER_BYTES bytes below 0x1000 */
    ONBEAT_REGISTER_KEPT = -24,    /* the bus process sets this register or mapping object itself */
    ONBEAT_NOT_IN_OP = -25,        /* registers are written only while the device is in OP */
    ONBEAT_REFUSED = -26           /* the bus refuses the connection: it is for other users, or has too many */
};

/* Result of evaluating a goal. */
enum onbeat_answer {
    ONBEAT_GOAL_TAKEN = 1,
    ONBEAT_GOAL_REFUSED = 2, /* an invalid number, or a target outside a travel; the previous goal stays */
    ONBEAT_GOAL_TOO_OLD = 3  /* too old when it was evaluated */
};

struct onbeat_control {
    uint8_t *base;
    size_t bytes;
    const struct onbeat_header *header;
    const struct onbeat_live *live;
    const struct onbeat_device *devices;
    const struct onbeat_value *values;
    const uint64_t *states; /* a word per device: AL state in bits 0-15, AL status code in 16-31, then 1 present, 2 lost, 3 wrong */
    const struct onbeat_joint *joints;
    const struct onbeat_stats *stats;
    uint64_t *outputs; /* slots of the owner, NULL for others */
    uint64_t *goals;   /* slots of the commander, NULL for others */
    uint32_t device_count, input_bytes, output_bytes, event_count, joint_count;
    uint32_t asked;     /* number of the last message */
    uint64_t first_goal; /* number before the first goal of this commander */
    uint64_t seen;      /* publication read last */
    int socket;
};

/* Access to words shared by processes. */
static inline uint64_t onbeat_load(const uint64_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
static inline uint64_t onbeat_look(const uint64_t *word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }
static inline void onbeat_store(uint64_t *word, uint64_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }
static inline void onbeat_put(uint64_t *word, uint64_t value) { __atomic_store_n(word, value, __ATOMIC_RELAXED); }

/* ---- the socket ---- */

#ifndef SO_PEERCRED
#define SO_PEERCRED 17
#endif
#define ONBEAT_GET_SEALS 1034 /* F_GET_SEALS */
#define ONBEAT_FIXED_LENGTH 6 /* F_SEAL_SHRINK | F_SEAL_GROW */
#define ONBEAT_PATIENCE_MS 3000u
#define ONBEAT_WELCOME_MS 500u

/* Process at the other end of a socket. */
struct onbeat_peer {
    int32_t pid;
    uint32_t uid, gid;
};

static inline uint64_t onbeat_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static inline void onbeat_sleep(uint64_t ns) {
    struct timespec time;
    time.tv_sec = (time_t)(ns / 1000000000u);
    time.tv_nsec = (long)(ns % 1000000000u);
    nanosleep(&time, NULL);
}

/* Stores the path of a directory in which this user finds buses: 0 the own one, 1 root's. Returns 0 if there is none. */
static inline int onbeat_directory(int which, char *path, size_t size) {
    const char *named = getenv("ONBEAT_RUNTIME_DIR"), *session = getenv("XDG_RUNTIME_DIR");
    struct stat status;
    char of_system[40];
    if (named && *named) return which == 0 && snprintf(path, size, "%s", named) < (int)size;
    if (which == 1 || geteuid() == 0) return (which == 0) == (geteuid() == 0) && snprintf(path, size, "/run/onbeat") < (int)size;
    snprintf(of_system, sizeof of_system, "/run/user/%u", (unsigned)geteuid());
    if (session && *session) return snprintf(path, size, "%s/onbeat", session) < (int)size;
    if (stat(of_system, &status) == 0) return snprintf(path, size, "%s/onbeat", of_system) < (int)size;
    return snprintf(path, size, "/dev/shm/onbeat-%u", (unsigned)geteuid()) < (int)size;
}

/* Opens that directory. It belongs to the user or root, and nobody else can write it; otherwise -1 with errno EPERM. -1 with ENOENT if there
 * is none. */
static inline int onbeat_open_directory(int which) {
    char path[4096];
    struct stat status;
    errno = ENOENT;
    if (!onbeat_directory(which, path, sizeof path)) return -1;
    int directory = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (directory < 0) return -1;
    if (fstat(directory, &status) == 0 && (status.st_uid == geteuid() || status.st_uid == 0) && (status.st_mode & 022) == 0) return directory;
    close(directory);
    errno = EPERM;
    return -1;
}

/* Connects to the bus of this name in a directory. Returns the socket, or -1 with errno. */
static inline int onbeat_connect(int directory, const char *name) {
    struct sockaddr_un address;
    struct onbeat_peer peer;
    socklen_t length = sizeof peer;
    const uint64_t began = onbeat_now();
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    /* Through the descriptor: short enough for an address, and of the directory that was checked. */
    if (snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s.sock", directory, name) >= (int)sizeof address.sun_path) {
        errno = ENOENT;
        return -1;
    }
    int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0) return -1;
    int failed = connect(made, (const struct sockaddr *)&address, sizeof address);
    while (failed && errno == EAGAIN && onbeat_now() - began < (uint64_t)ONBEAT_PATIENCE_MS * 1000000u) {
        onbeat_sleep(2000000);
        failed = connect(made, (const struct sockaddr *)&address, sizeof address);
    }
    if (!failed && getsockopt(made, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0) {
        if (peer.uid == 0 || peer.uid == geteuid()) return made;
        errno = EPERM;
    }
    int why = errno;
    close(made);
    errno = why;
    return -1;
}

/* Receives a message and its first descriptor (-1 without one). Returns 1, 0 after the timeout, -1 if the bus has closed the connection. */
static inline int onbeat_receive(struct onbeat_control *bus, struct onbeat_message *message, int *descriptor, uint32_t timeout_ms) {
    const uint64_t until = onbeat_now() + (uint64_t)timeout_ms * 1000000u;
    union { struct cmsghdr align; char bytes[128]; } control;
    *descriptor = -1;
    for (;;) {
        struct iovec part;
        struct msghdr head;
        part.iov_base = message;
        part.iov_len = sizeof *message;
        memset(&head, 0, sizeof head);
        head.msg_iov = &part;
        head.msg_iovlen = 1;
        head.msg_control = control.bytes;
        head.msg_controllen = sizeof control.bytes;
        ssize_t length = recvmsg(bus->socket, &head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (length >= 0) {
            for (struct cmsghdr *at = CMSG_FIRSTHDR(&head); at; at = CMSG_NXTHDR(&head, at)) {
                if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS) continue;
                size_t count = (at->cmsg_len - (size_t)((char *)CMSG_DATA(at) - (char *)at)) / sizeof(int);
                for (size_t i = 0; i < count; i++) {
                    int got;
                    memcpy(&got, CMSG_DATA(at) + i * sizeof got, sizeof got);
                    if (*descriptor < 0) *descriptor = got;
                    else close(got);
                }
            }
            if ((size_t)length >= ONBEAT_MESSAGE_HEAD && !(head.msg_flags & MSG_TRUNC)) {
                uint64_t most = (uint64_t)length - ONBEAT_MESSAGE_HEAD;
                if (message->kind != ONBEAT_TELL_ANSWER || message->b <= most) return 1;
            }
            if (*descriptor >= 0) close(*descriptor);
            *descriptor = -1;
            return -1;
        }
        if (errno != EAGAIN && errno != EINTR) return -1;
        uint64_t now = onbeat_now();
        if (now >= until) return 0;
        struct pollfd wanted;
        wanted.fd = bus->socket;
        wanted.events = POLLIN;
        poll(&wanted, 1, (int)((until - now) / 1000000u) + 1);
    }
}

/* Sends a message with `bytes` of data. Returns 0 if the bus has closed the connection. */
static inline int onbeat_send(struct onbeat_control *bus, struct onbeat_message *message, size_t bytes) {
    message->id = ++bus->asked;
    return send(bus->socket, message, ONBEAT_MESSAGE_HEAD + bytes, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

/* Receives the answer to the last message; those to earlier ones, which came too late, are dropped. As onbeat_receive. */
static inline int onbeat_receive_answer(struct onbeat_control *bus, struct onbeat_message *message, int *descriptor, uint32_t timeout_ms) {
    const uint64_t began = onbeat_now();
    for (;;) {
        uint64_t waited = (onbeat_now() - began) / 1000000u;
        int received = onbeat_receive(bus, message, descriptor, waited < timeout_ms ? timeout_ms - (uint32_t)waited : 0);
        if (received <= 0 || message->id == bus->asked) return received;
        if (*descriptor >= 0) close(*descriptor);
    }
}

/* Maps received memory whose length nobody can change, and closes its descriptor. NULL if it is shorter than `least` bytes, or on an error. */
static inline uint8_t *onbeat_map(int descriptor, size_t least, int access, size_t *bytes) {
    struct stat status;
    uint8_t *base = NULL;
    int seals = fcntl(descriptor, ONBEAT_GET_SEALS);
    if (seals >= 0 && (seals & ONBEAT_FIXED_LENGTH) == ONBEAT_FIXED_LENGTH && fstat(descriptor, &status) == 0 && status.st_size >= (off_t)least) {
        *bytes = (size_t)status.st_size;
        void *mapped = mmap(NULL, *bytes, access, MAP_SHARED, descriptor, 0);
        if (mapped != MAP_FAILED) base = (uint8_t *)mapped;
    }
    close(descriptor);
    return base;
}

static inline size_t onbeat_slot_words(const struct onbeat_control *bus, int of_image) {
    size_t outputs = (bus->output_bytes + 7u) / 8u;
    size_t words = of_image ? 1 + ONBEAT_CYCLE_BYTES / 8 + (bus->input_bytes + 7u) / 8u + outputs : 1 + outputs;
    return (words + 7u) & ~(size_t)7u;
}

static inline size_t onbeat_goal_bits(const struct onbeat_control *bus) { return (bus->joint_count + 63u) / 64u; }

static inline size_t onbeat_goal_slot_words(const struct onbeat_control *bus) {
    return (1 + ONBEAT_GOAL_HEAD + onbeat_goal_bits(bus) + bus->joint_count + 7u) & ~(size_t)7u;
}

/* Bytes of the slots of a role: the number of the newest publication, and from byte 64 on the slots. */
static inline size_t onbeat_role_bytes(size_t slot_words) { return 64 + ONBEAT_SLOTS * slot_words * 8; }

/* Closes a handle. One that is zero, or closed already, stays as it is. */
static inline void onbeat_control_close(struct onbeat_control *bus) {
    if (bus->outputs) munmap(bus->outputs, onbeat_role_bytes(onbeat_slot_words(bus, 0)));
    if (bus->goals) munmap(bus->goals, onbeat_role_bytes(onbeat_goal_slot_words(bus)));
    if (bus->base) {
        munmap(bus->base, bus->bytes);
        close(bus->socket);
    }
    memset(bus, 0, sizeof *bus);
    bus->socket = -1;
}

/* Calls `with` with the name of each bus that this user finds, running or killed. Returns the number of names, or -1 with errno. */
static inline int onbeat_control_names(void (*with)(const char *name, void *own), void *own) {
    int count = 0;
    for (int which = 0; which < 2; which++) {
        int directory = onbeat_open_directory(which);
        if (directory < 0 && errno == ENOENT) continue;
        if (directory < 0) return -1;
        DIR *folder = fdopendir(directory);
        struct dirent *entry;
        if (!folder) {
            close(directory);
            return -1;
        }
        while ((entry = readdir(folder)) != NULL) {
            char name[65];
            size_t length = strlen(entry->d_name);
            if (length < 6 || length > 69 || entry->d_name[0] == '.' || strcmp(entry->d_name + length - 5, ".sock") != 0) continue;
            memcpy(name, entry->d_name, length - 5);
            name[length - 5] = 0;
            with(name, own);
            count++;
        }
        closedir(folder);
    }
    return count;
}

/* Checks sizes and offsets of the image, and fills in the handle. */
static inline int onbeat_control_check_image(struct onbeat_control *bus) {
    const struct onbeat_header *header = bus->header = (const struct onbeat_header *)bus->base;
    uint64_t magic = onbeat_load(&header->magic);
    if (memcmp(&magic, "ONBEATCI", 8) != 0) return ONBEAT_SPOILT;
    if (header->abi != ONBEAT_ABI) return ONBEAT_VERSION;
    if (header->sharing != 0) return ONBEAT_LOCKED;
    bus->device_count = header->devices;
    bus->input_bytes = header->input_bytes;
    bus->output_bytes = header->output_bytes;
    bus->event_count = header->events;
    bus->joint_count = header->joints;
    size_t table = (size_t)header->devices * sizeof(struct onbeat_device) + (size_t)header->values * sizeof(struct onbeat_value);
    const uint64_t parts[8][2] = {
        {header->live_at, sizeof(struct onbeat_live)},
        {header->table_at, table},
        {header->states_at, (uint64_t)header->devices * 8},
        {header->image_at, ONBEAT_SLOTS * onbeat_slot_words(bus, 1) * 8},
        {header->events_at, (uint64_t)header->events * (8 + ONBEAT_EVENT_BYTES)},
        {header->stats_at, sizeof(struct onbeat_stats)},
        {header->joints_at, (uint64_t)header->joints * sizeof(struct onbeat_joint)},
        {header->link_errors_at, (uint64_t)header->devices * ONBEAT_ERROR_WORDS * 8},
    };
    if (header->total_bytes > bus->bytes || !header->events) return ONBEAT_SPOILT;
    for (int i = 0; i < 8; i++)
        if (parts[i][0] % 8 != 0 || parts[i][0] > bus->bytes || parts[i][1] > bus->bytes - parts[i][0]) return ONBEAT_SPOILT;
    bus->live = (const struct onbeat_live *)(bus->base + header->live_at);
    bus->devices = (const struct onbeat_device *)(bus->base + header->table_at);
    bus->values = (const struct onbeat_value *)(bus->devices + header->devices);
    bus->joints = (const struct onbeat_joint *)(bus->base + header->joints_at);
    bus->stats = (const struct onbeat_stats *)(bus->base + header->stats_at);
    bus->states = (const uint64_t *)(bus->base + header->states_at);
    return ONBEAT_OK;
}

/* Opens the memory of a bus that does not send it, because it is stopped or has no CPU time: for processes of its user, and of root. Returns a
 * descriptor, or -1. */
static inline int onbeat_memory_of_stopped(const struct onbeat_control *bus, const char *name) {
    struct onbeat_peer peer;
    socklen_t length = sizeof peer;
    char path[320], wanted[120], found[120];
    int memory = -1;
    if (getsockopt(bus->socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return -1;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)peer.pid);
    snprintf(wanted, sizeof wanted, "/memfd:onbeat-image:%s (deleted)", name);
    DIR *folder = opendir(path);
    struct dirent *entry;
    if (!folder) return -1;
    while (memory < 0 && (entry = readdir(folder)) != NULL) {
        snprintf(path, sizeof path, "/proc/%d/fd/%s", (int)peer.pid, entry->d_name);
        ssize_t read = readlink(path, found, sizeof found - 1);
        if (read <= 0) continue;
        found[read] = 0;
        if (strcmp(found, wanted) == 0) memory = open(path, O_RDONLY | O_CLOEXEC);
    }
    closedir(folder);
    return memory;
}

/* Opens the image of a running bus. */
static inline int onbeat_control_open(struct onbeat_control *bus, const char *name) {
    struct onbeat_message message;
    int memory = -1, result = ONBEAT_NO_BUS;
    memset(bus, 0, sizeof *bus);
    bus->socket = -1;
    if (!*name || *name == '.' || strchr(name, '/')) return ONBEAT_NO_BUS;
    for (int which = 0; which < 2 && bus->socket < 0; which++) {
        int directory = onbeat_open_directory(which);
        if (directory < 0 && errno == ENOENT) continue;
        if (directory < 0) return ONBEAT_SYSTEM;
        bus->socket = onbeat_connect(directory, name);
        int why = errno;
        close(directory);
        errno = why;
        /* The socket of a killed bus refuses connections. */
        if (bus->socket < 0 && errno != ENOENT && errno != ECONNREFUSED) return ONBEAT_SYSTEM;
    }
    if (bus->socket < 0) return result;
    int received = onbeat_receive(bus, &message, &memory, ONBEAT_WELCOME_MS);
    if (received == 0 && (memory = onbeat_memory_of_stopped(bus, name)) >= 0) {
        message.kind = ONBEAT_TELL_WELCOME;
        message.a = ONBEAT_ABI;
        received = 1;
    } else if (received == 0) {
        received = onbeat_receive(bus, &message, &memory, ONBEAT_PATIENCE_MS);
    }
    if (received == 0) {
        errno = ETIMEDOUT;
        result = ONBEAT_SYSTEM;
    } else if (received > 0 && message.kind == ONBEAT_TELL_REFUSED) {
        result = ONBEAT_REFUSED;
    } else if (received > 0 && message.kind == ONBEAT_TELL_WELCOME && memory >= 0) {
        if ((uint32_t)message.a != ONBEAT_ABI) {
            result = ONBEAT_VERSION;
        } else {
            bus->base = onbeat_map(memory, sizeof(struct onbeat_header), PROT_READ, &bus->bytes);
            memory = -1;
            result = bus->base ? onbeat_control_check_image(bus) : ONBEAT_SPOILT;
        }
    }
    if (memory >= 0) close(memory);
    if (result != ONBEAT_OK) {
        int why = errno;
        if (!bus->base) close(bus->socket);
        onbeat_control_close(bus);
        errno = why;
    }
    return result;
}

/* Checks that the bus is running. No system call; onbeat_control_is_alive detects a killed bus. */
static inline int onbeat_control_check(const struct onbeat_control *bus) {
    return __atomic_load_n(&bus->header->state, __ATOMIC_ACQUIRE) == 1 ? ONBEAT_OK : ONBEAT_ENDED;
}

/* Checks the same, and that the bus process is alive. Call it after a time without a new cycle. */
static inline int onbeat_control_is_alive(const struct onbeat_control *bus) {
    int result = onbeat_control_check(bus);
    struct pollfd wanted;
    wanted.fd = bus->socket;
    wanted.events = 0;
    if (result != ONBEAT_OK || poll(&wanted, 1, 0) <= 0) return result;
    return onbeat_control_check(bus) == ONBEAT_OK ? ONBEAT_DIED : ONBEAT_ENDED;
}

static inline void onbeat_words_out(void *into, size_t bytes, const uint64_t *words) {
    uint8_t *to = (uint8_t *)into;
    for (; bytes > 0; words++) {
        uint64_t word = onbeat_look(words);
        size_t part = bytes < 8 ? bytes : 8;
        memcpy(to, &word, part);
        to += part;
        bytes -= part;
    }
}

/* Reads the newest cycle consistently; `inputs` and `outputs` have the size of all inputs and outputs, or are NULL, as may be `cycle`. */
static inline int onbeat_control_read(struct onbeat_control *bus, struct onbeat_cycle *cycle, void *inputs, void *outputs) {
    size_t slot_words = onbeat_slot_words(bus, 1);
    const uint64_t *words = (const uint64_t *)(bus->base + bus->header->image_at);
    if (onbeat_control_check(bus) != ONBEAT_OK) return ONBEAT_ENDED;
    for (int tries = 0; tries < 1000; tries++) {
        uint64_t number = onbeat_load(&bus->live->image);
        if (number == 0) return ONBEAT_NO_CYCLE;
        const uint64_t *slot = words + (number % ONBEAT_SLOTS) * slot_words;
        /* Twice 2^63, which another process may have stored, would be 0, the sequence of an empty slot. */
        if (number >> 63 || onbeat_load(slot) != 2 * number) continue;
        const uint64_t *at = slot + 1;
        if (cycle) onbeat_words_out(cycle, ONBEAT_CYCLE_BYTES, at);
        at += ONBEAT_CYCLE_BYTES / 8;
        if (inputs) onbeat_words_out(inputs, bus->input_bytes, at);
        at += (bus->input_bytes + 7u) / 8u;
        if (outputs) onbeat_words_out(outputs, bus->output_bytes, at);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (onbeat_look(slot) == 2 * number) {
            bus->seen = number;
            return ONBEAT_OK;
        }
    }
    return ONBEAT_OVERTAKEN;
}

/* Waits for a cycle newer than the one read last. Returns 1 if there is one, 0 after the timeout, or an enum onbeat_result below 0 if the
 * bus is gone. Polls every 50 us: the bus wakes nobody. */
static inline int onbeat_control_wait(struct onbeat_control *bus, uint32_t timeout_ms) {
    const uint64_t began = onbeat_now(), look_every = 50000, quiet = 100000000;
    uint64_t looked = began;
    for (;;) {
        int result = onbeat_control_check(bus);
        if (result != ONBEAT_OK) return result;
        if (onbeat_load(&bus->live->image) > bus->seen) return 1;
        uint64_t now = onbeat_now();
        if (now - looked >= quiet) {
            result = onbeat_control_is_alive(bus);
            if (result != ONBEAT_OK) return result;
            looked = now;
        }
        if (now - began >= (uint64_t)timeout_ms * 1000000u) break;
        onbeat_sleep(look_every);
    }
    int result = onbeat_control_is_alive(bus);
    return result == ONBEAT_OK ? 0 : result;
}

/* Asks for a role. On ONBEAT_OWNED `*holder` (may be NULL) is the process that has it. */
static inline int onbeat_claim_role(struct onbeat_control *bus, uint32_t ask, size_t slot_words, uint64_t **slots, uint32_t *holder) {
    struct onbeat_message message;
    int memory = -1, result = onbeat_control_is_alive(bus);
    size_t bytes = 0;
    if (result != ONBEAT_OK) return result;
    memset(&message, 0, ONBEAT_MESSAGE_HEAD);
    message.kind = ask;
    if (!onbeat_send(bus, &message, 0)) return onbeat_control_is_alive(bus);
    int received = onbeat_receive_answer(bus, &message, &memory, ONBEAT_PATIENCE_MS);
    if (received < 0) return onbeat_control_check(bus) == ONBEAT_OK ? ONBEAT_DIED : ONBEAT_ENDED;
    if (received > 0 && message.kind == ONBEAT_TELL_HELD) {
        if (holder) *holder = (uint32_t)message.a;
        return ONBEAT_OWNED;
    }
    if (received > 0 && message.kind == ONBEAT_TELL_NO_GOALS) return ONBEAT_NO_GOALS;
    if (received > 0 && message.kind == ONBEAT_TELL_GRANTED && memory >= 0)
        *slots = (uint64_t *)onbeat_map(memory, onbeat_role_bytes(slot_words), PROT_READ | PROT_WRITE, &bytes);
    if (*slots && bytes > onbeat_role_bytes(slot_words)) munmap((uint8_t *)*slots + onbeat_role_bytes(slot_words), bytes - onbeat_role_bytes(slot_words));
    if (*slots) return ONBEAT_OK;
    /* The bus may grant it yet. */
    message.kind = ask + 1;
    onbeat_send(bus, &message, 0);
    errno = received > 0 ? EINVAL : ETIMEDOUT;
    return ONBEAT_SYSTEM;
}

/* Gives up a role, and waits until the bus has confirmed it. */
static inline void onbeat_leave_role(struct onbeat_control *bus, uint32_t leave, size_t slot_words, uint64_t **slots) {
    struct onbeat_message message;
    int memory = -1;
    memset(&message, 0, ONBEAT_MESSAGE_HEAD);
    message.kind = leave;
    if (onbeat_send(bus, &message, 0)) onbeat_receive_answer(bus, &message, &memory, 1000);
    if (memory >= 0) close(memory);
    munmap(*slots, onbeat_role_bytes(slot_words));
    *slots = NULL;
}

/* Claims the outputs for this handle. On ONBEAT_OWNED `*owner` (may be NULL) is the process id of the owner. */
static inline int onbeat_control_claim(struct onbeat_control *bus, uint32_t *owner) {
    if (bus->outputs) return ONBEAT_OK;
    return onbeat_claim_role(bus, ONBEAT_ASK_OUTPUTS, onbeat_slot_words(bus, 0), &bus->outputs, owner);
}

/* Sets all outputs; the bus sends them in its next cycle. Refresh them in each cycle, or they are replaced by safe ones. */
static inline int onbeat_control_write(struct onbeat_control *bus, const void *outputs) {
    if (onbeat_control_check(bus) != ONBEAT_OK) return ONBEAT_ENDED;
    if (!bus->outputs) return ONBEAT_NOT_OWNER;
    uint64_t number = onbeat_look(bus->outputs) + 1;
    uint64_t *slot = bus->outputs + 8 + (number % ONBEAT_SLOTS) * onbeat_slot_words(bus, 0);
    onbeat_put(slot, 2 * number - 1);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    const uint8_t *bytes = (const uint8_t *)outputs;
    for (size_t left = bus->output_bytes, place = 1; left > 0; place++) {
        uint64_t word = 0;
        size_t part = left < 8 ? left : 8;
        memcpy(&word, bytes, part);
        onbeat_put(slot + place, word);
        bytes += part;
        left -= part;
    }
    onbeat_store(slot, 2 * number);
    onbeat_store(bus->outputs, number);
    return ONBEAT_OK;
}

/* Gives up the outputs. A process that ends without this loses them too, and is reported as dead. */
static inline void onbeat_control_release(struct onbeat_control *bus) {
    if (bus->outputs) onbeat_leave_role(bus, ONBEAT_LEAVE_OUTPUTS, onbeat_slot_words(bus, 0), &bus->outputs);
}

/* ---- goals: target positions of the joints of a robot ---- */

/* Returns the index of the joint with this name, -1 if unknown. */
static inline int onbeat_joint_find(const struct onbeat_control *bus, const char *name) {
    for (uint32_t i = 0; i < bus->joint_count; i++) {
        uint64_t device = bus->joints[i].device;
        if (device < bus->device_count && strncmp(bus->devices[device].name, name, sizeof bus->devices[device].name) == 0) return (int)i;
    }
    return -1;
}

/* Becomes the commander of the joints. On ONBEAT_COMMANDED `*commander` (may be NULL) is the process id of the present one. */
static inline int onbeat_commander_claim(struct onbeat_control *bus, uint32_t *commander) {
    if (bus->goals) return ONBEAT_OK;
    if (!bus->joint_count) return ONBEAT_NO_GOALS;
    int result = onbeat_claim_role(bus, ONBEAT_ASK_JOINTS, onbeat_goal_slot_words(bus), &bus->goals, commander);
    if (result == ONBEAT_OK) bus->first_goal = onbeat_look(bus->goals);
    return result == ONBEAT_OWNED ? ONBEAT_COMMANDED : result;
}

static inline uint64_t onbeat_publish_goal(struct onbeat_control *bus, uint64_t flags, const uint64_t *which, const double *rad) {
    uint64_t at_ns = onbeat_now();
    size_t slot_words = onbeat_goal_slot_words(bus), bits = onbeat_goal_bits(bus);
    uint64_t *words = bus->goals + 8;
    uint64_t before = onbeat_look(bus->goals), number = before + 1;
    const uint64_t *old = words + (before % ONBEAT_SLOTS) * slot_words + 1 + ONBEAT_GOAL_HEAD;
    uint64_t *slot = words + (number % ONBEAT_SLOTS) * slot_words, *to = slot + 1 + ONBEAT_GOAL_HEAD;
    onbeat_put(slot, 2 * number - 1);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    onbeat_put(slot + 1, at_ns);
    onbeat_put(slot + 2, flags);
    for (size_t i = 0; i < bits + bus->joint_count; i++) {
        uint64_t word;
        if (!rad) word = onbeat_look(old + i);
        else if (i >= bits) memcpy(&word, rad + (i - bits), 8);
        else word = which ? which[i] : ~(uint64_t)0;
        onbeat_put(to + i, word);
    }
    onbeat_store(slot, 2 * number);
    onbeat_store(bus->goals, number);
    return number;
}

/* Gives a goal: a position in rad for each joint, and a bit for each joint with a target (`which` may be NULL: all joints). Give it again
 * before it is `goal_age_us` old. `*number` (may be NULL) receives its number. Never waits. */
static inline int onbeat_commander_give(struct onbeat_control *bus, const uint64_t *which, const double *rad, uint64_t *number) {
    if (onbeat_control_check(bus) != ONBEAT_OK) return ONBEAT_ENDED;
    if (!bus->goals) return ONBEAT_NOT_OWNER;
    uint64_t given = onbeat_publish_goal(bus, 0, which, rad);
    if (number) *number = given;
    return ONBEAT_OK;
}

/* Returns the result of the goal evaluated last, 0 before the first; `*number` (may be NULL) receives its number. */
static inline int onbeat_commander_answer(const struct onbeat_control *bus, uint64_t *number) {
    uint64_t word = onbeat_load(&bus->live->answer);
    if (number) *number = word >> 2;
    return (int)(word & 3);
}

/* Leaves: the joints hold the last targets. If a process ends without this, the robot enters the safe stop. */
static inline void onbeat_commander_release(struct onbeat_control *bus) {
    if (!bus->goals) return;
    /* Repeats the goal, since the previous publication may not have been evaluated yet. */
    if (onbeat_look(bus->goals) != bus->first_goal) onbeat_publish_goal(bus, ONBEAT_LAST_GOAL, NULL, NULL);
    onbeat_leave_role(bus, ONBEAT_LEAVE_JOINTS, onbeat_goal_slot_words(bus), &bus->goals);
}

/* Returns the number of events so far; the next one has the following number. */
static inline uint64_t onbeat_control_events(const struct onbeat_control *bus) { return onbeat_load(&bus->live->events); }

/* Reads event number `*next` (from 1) and increments it. Returns 1 if there was one, 0 if not yet. Events that were overwritten before they
 * were read are skipped and added to `*missed` (may be NULL). */
static inline int onbeat_control_event(struct onbeat_control *bus, uint64_t *next, struct onbeat_event *event, uint64_t *missed) {
    for (;;) {
        uint64_t newest = onbeat_load(&bus->live->events);
        if (*next == 0) *next = 1;
        /* Another process may have stored any number; that of an event is less than 2^63. */
        if (newest >> 63 || *next > newest) return 0;
        uint64_t oldest = newest + 2 > bus->event_count ? newest + 2 - bus->event_count : 1;
        if (*next < oldest) {
            if (missed) *missed += oldest - *next;
            *next = oldest;
        }
        uint64_t number = (*next)++;
        const uint64_t *slot = (const uint64_t *)(bus->base + bus->header->events_at) + (number % bus->event_count) * (1 + ONBEAT_EVENT_BYTES / 8);
        if (onbeat_load(slot) == 2 * number) {
            onbeat_words_out(event, ONBEAT_EVENT_BYTES, slot + 1);
            __atomic_thread_fence(__ATOMIC_ACQUIRE);
            if (onbeat_look(slot) == 2 * number) return 1;
        }
        if (missed) *missed += 1;
    }
}

/* ---- devices: states and objects ---- */

/* Returns the position of the device with this name, -1 if unknown. */
static inline int onbeat_device_find(const struct onbeat_control *bus, const char *name) {
    for (uint32_t i = 0; i < bus->device_count; i++)
        if (strncmp(bus->devices[i].name, name, sizeof bus->devices[i].name) == 0) return (int)i;
    return -1;
}

/* Returns the time after which a bus is silent: ten of its cycles, plus the delay of the bus process on a busy machine. `*cycle` is the newest
 * one, whose release is 0 before the first; it is not taken from the caller. */
static inline uint64_t onbeat_patience(const struct onbeat_control *bus, struct onbeat_cycle *cycle) {
    struct onbeat_control own = *bus;
    if (onbeat_control_read(&own, cycle, NULL, NULL) != ONBEAT_OK) memset(cycle, 0, sizeof *cycle);
    return 10u * cycle->dt_ns + 100000000u;
}

/* Returns the time without a reply from the devices in ns; 0 while replies arrive, and before the first cycle. It also covers a stopped
 * bus process. */
static inline uint64_t onbeat_no_answer_for(const struct onbeat_control *bus) {
    struct onbeat_cycle cycle;
    uint64_t answered = onbeat_look(&bus->header->answered_at), quiet = onbeat_patience(bus, &cycle), now = onbeat_now();
    return answered != 0 && now > answered + quiet ? now - answered : 0;
}

/* Returns the time without a cycle in ns; 0 while cycles come, and before the first one: the bus process is stopped, or gone. */
static inline uint64_t onbeat_no_cycle_for(const struct onbeat_control *bus) {
    struct onbeat_cycle cycle;
    uint64_t quiet = onbeat_patience(bus, &cycle), now = onbeat_now();
    return cycle.release_ns != 0 && now > cycle.release_ns + quiet ? now - cycle.release_ns : 0;
}

/* Returns the process id of the owner of the outputs, and of the commander of the joints; 0 for none. */
static inline uint32_t onbeat_owner_pid(const struct onbeat_control *bus) { return (uint32_t)onbeat_load(&bus->live->owner); }
static inline uint32_t onbeat_commander_pid(const struct onbeat_control *bus) { return (uint32_t)onbeat_load(&bus->live->commander); }

/* Returns the AL state of a device (1 INIT, 2 PREOP, 4 SAFEOP, 8 OP, 0 unknown); `*status` (may be NULL) receives its AL status code,
 * `*presence` (may be NULL) 1 present, 2 lost, 3 another device at its position, 4 of an optional group that is away. Without replies, every device is lost. */
static inline uint16_t onbeat_device_state(const struct onbeat_control *bus, uint32_t device, uint16_t *status, uint32_t *presence) {
    uint64_t word = device < bus->device_count ? onbeat_load(bus->states + device) : 0;
    if (onbeat_no_answer_for(bus) > 0) word = (uint64_t)2 << 32;
    if (status) *status = (uint16_t)(word >> 16);
    if (presence) *presence = (uint32_t)(word >> 32);
    return (uint16_t)word;
}

/* Errors that a port of a device has counted since the bus came up. A counter of 8 bits that is full makes a count a lower bound. */
struct onbeat_port_errors {
    uint16_t invalid_frames;   /* frames that arrived damaged: the error arose on the cable at this port */
    uint16_t rx_errors;        /* receive errors of the physical layer */
    uint16_t forwarded_errors; /* frames that another device had marked as damaged */
    uint16_t lost_links;
    unsigned at_least; /* bit i: count i of the above is a lower bound */
};

/* Returns the errors of a port, 0 to 3. Not 0 once they were read; the bus process reads them once a second. */
static inline int onbeat_port_errors(const struct onbeat_control *bus, uint32_t device, uint32_t port, struct onbeat_port_errors *errors) {
    memset(errors, 0, sizeof *errors);
    if (device >= bus->device_count || port > 3) return 0;
    const uint64_t *record = (const uint64_t *)(bus->base + bus->header->link_errors_at) + (size_t)device * ONBEAT_ERROR_WORDS;
    if (__atomic_load_n(record + 5, __ATOMIC_ACQUIRE) == 0) return 0;
    uint16_t counts[20]; /* in the order of registers 0x0300 to 0x0313 */
    for (int word = 0; word < 5; word++) {
        uint64_t four = onbeat_load(record + word);
        memcpy(counts + 4 * word, &four, sizeof four);
    }
    const uint16_t of_port[4] = {counts[2 * port], counts[2 * port + 1], counts[8 + port], counts[16 + port]};
    for (int i = 0; i < 4; i++) errors->at_least |= (unsigned)(of_port[i] >> 15) << i;
    errors->invalid_frames = of_port[0] & 0x7FFFu;
    errors->rx_errors = of_port[1] & 0x7FFFu;
    errors->forwarded_errors = of_port[2] & 0x7FFFu;
    errors->lost_links = of_port[3] & 0x7FFFu;
    return 1;
}

/* Returns the link of the interface, enum onbeat_link; unknown while the bus process runs no cycles. */
static inline int onbeat_link(struct onbeat_control *bus) {
    if (onbeat_load(&bus->live->image) == 0 || onbeat_no_cycle_for(bus) > 0) return ONBEAT_LINK_UNKNOWN;
    return (int)__atomic_load_n(&bus->header->link, __ATOMIC_RELAXED);
}

/* Returns the number of devices that processed the last answered frame, expected or not; 0 without replies. */
static inline uint32_t onbeat_answering(const struct onbeat_control *bus) {
    return onbeat_no_answer_for(bus) > 0 ? 0 : __atomic_load_n(&bus->header->answering, __ATOMIC_RELAXED);
}

/* Returns the AL states in which at least one device is, as bits: 1 INIT, 2 PREOP, 4 SAFEOP, 8 OP. */
static inline uint32_t onbeat_al_states(const struct onbeat_control *bus) {
    uint32_t all = 0;
    for (uint32_t device = 0; device < bus->device_count; device++) all |= onbeat_device_state(bus, device, NULL, NULL) & 0xFu;
    return all;
}

/* Returns how much of the process data was exchanged in a cycle: enum onbeat_exchanged. */
static inline int onbeat_exchanged(const struct onbeat_cycle *cycle) {
    if (cycle->fresh) return ONBEAT_EXCHANGED_COMPLETE;
    return cycle->working_counter == 0 ? ONBEAT_EXCHANGED_ZERO : ONBEAT_EXCHANGED_INCOMPLETE;
}

/* ---- values of the process data ---- */

/* Position of a value in the inputs or outputs of a cycle. */
struct onbeat_place {
    int is_output;
    uint32_t byte; /* first byte */
    uint32_t bit;  /* first bit in it, 0 to 7 */
    uint32_t bits; /* length, at most 64 are used */
};

static inline int onbeat_value_place(const struct onbeat_control *bus, uint32_t device, uint32_t number, struct onbeat_place *place) {
    const struct onbeat_device *of = bus->devices + device;
    const struct onbeat_value *value = bus->values + of->first_value + number;
    place->is_output = number < of->output_values;
    place->byte = (place->is_output ? of->outputs_at : of->inputs_at) + value->bit_at / 8;
    place->bit = value->bit_at % 8;
    place->bits = value->bits < 64 ? value->bits : 64;
    return ONBEAT_OK;
}

/* Finds a value of a device by its name, whatever its case, such as "Position actual value". Outputs are searched first. */
static inline int onbeat_value_find(const struct onbeat_control *bus, const char *device, const char *name, struct onbeat_place *place) {
    int at = onbeat_device_find(bus, device);
    if (at < 0) return ONBEAT_NO_SUCH_DEVICE;
    const struct onbeat_device *of = bus->devices + at;
    for (uint32_t i = 0; i < of->output_values + of->input_values; i++)
        if (strncasecmp(bus->values[of->first_value + i].name, name, sizeof bus->values->name) == 0) return onbeat_value_place(bus, (uint32_t)at, i, place);
    return ONBEAT_NO_SUCH_VALUE;
}

/* Finds a value of a device by its object, such as 0x6064, 0. */
static inline int onbeat_value_find_object(const struct onbeat_control *bus, uint32_t device, uint16_t index, uint8_t entry, struct onbeat_place *place) {
    if (device >= bus->device_count) return ONBEAT_NO_SUCH_DEVICE;
    const struct onbeat_device *of = bus->devices + device;
    for (uint32_t i = 0; i < of->output_values + of->input_values; i++) {
        const struct onbeat_value *value = bus->values + of->first_value + i;
        if (value->index == index && value->entry == entry) return onbeat_value_place(bus, device, i, place);
    }
    return ONBEAT_NO_SUCH_VALUE;
}

/* Returns a value as an unsigned number. `image` are the inputs or outputs of a cycle. */
static inline uint64_t onbeat_unsigned(const struct onbeat_place *place, const void *image) {
    const uint8_t *bytes = (const uint8_t *)image + place->byte;
    uint64_t value = 0;
    for (uint32_t i = 0; i < place->bits; i++) value |= (uint64_t)(bytes[(place->bit + i) / 8] >> (place->bit + i) % 8 & 1) << i;
    return value;
}

/* Returns a value as a signed number in two's complement. */
static inline int64_t onbeat_signed(const struct onbeat_place *place, const void *image) {
    uint64_t value = onbeat_unsigned(place, image);
    if (place->bits > 0 && place->bits < 64 && value >> (place->bits - 1)) value |= ~(uint64_t)0 << place->bits;
    return (int64_t)value;
}

/* Writes a value into outputs, and leaves all other bits as they are; onbeat_control_write sends them. */
static inline void onbeat_set(const struct onbeat_place *place, void *outputs, int64_t value) {
    uint8_t *bytes = (uint8_t *)outputs + place->byte;
    for (uint32_t i = 0; i < place->bits; i++) {
        uint8_t mask = (uint8_t)(1u << (place->bit + i) % 8);
        uint8_t *byte = bytes + (place->bit + i) / 8;
        *byte = (uint8_t)(((uint64_t)value >> i & 1) ? *byte | mask : *byte & ~mask);
    }
}

/* Reads the actual position of a joint in rad from the inputs of a cycle. */
static inline int onbeat_joint_position(const struct onbeat_control *bus, uint32_t joint, const void *inputs, double *rad) {
    struct onbeat_place place;
    if (joint >= bus->joint_count) return ONBEAT_NO_SUCH_DEVICE;
    const struct onbeat_joint *of = bus->joints + joint;
    int result = onbeat_value_find_object(bus, (uint32_t)of->device, 0x6064, 0, &place);
    if (result != ONBEAT_OK) return result;
    *rad = (double)onbeat_signed(&place, inputs) / of->increments_per_rad + of->zero_rad;
    return ONBEAT_OK;
}

/* ---- requests ---- */

/* Makes one request: writes `write` bytes of `data`, or, if `room` is not NULL, reads at most `*room` bytes and stores their number there;
 * `wanted` is the number of register bytes to read. */
static inline int onbeat_request(struct onbeat_control *bus, uint64_t target, void *data, size_t write, size_t *room, size_t wanted, uint32_t timeout_ms,
                                 uint32_t *abort_code) {
    struct onbeat_message message;
    int memory = -1, result = onbeat_control_is_alive(bus);
    if (result != ONBEAT_OK) return result;
    if (target >> 42 != ONBEAT_ASKED_RESCAN && (target & 0xFFFFu) >= bus->device_count) return ONBEAT_NO_SUCH_DEVICE;
    if (write > ONBEAT_REQUEST_BYTES) return ONBEAT_SDO_TOO_LONG;
    message.kind = ONBEAT_ASK_REQUEST;
    message.a = target;
    message.b = wanted ? wanted : write;
    if (write) memcpy(message.data, data, write);
    if (!onbeat_send(bus, &message, write)) return onbeat_control_is_alive(bus);
    int received = onbeat_receive_answer(bus, &message, &memory, timeout_ms);
    if (memory >= 0) close(memory);
    if (received < 0) return onbeat_control_check(bus) == ONBEAT_OK ? ONBEAT_DIED : ONBEAT_ENDED;
    if (received == 0) {
        message.kind = ONBEAT_GIVE_UP;
        onbeat_send(bus, &message, 0);
        return ONBEAT_NO_ANSWER;
    }
    if (message.kind != ONBEAT_TELL_ANSWER) return ONBEAT_BUSY;
    const int results[8] = {ONBEAT_OK, ONBEAT_SDO_ABORT, ONBEAT_SDO_NO_MAILBOX, ONBEAT_SDO_NO_REPLY, ONBEAT_SDO_NOT_POSSIBLE, ONBEAT_SDO_TOO_LONG,
                            ONBEAT_REGISTER_KEPT, ONBEAT_NOT_IN_OP};
    result = results[message.a >> 32 < 8 ? message.a >> 32 : 4];
    if (abort_code) *abort_code = (uint32_t)message.a;
    if (result == ONBEAT_OK && room && message.b > *room) result = ONBEAT_SDO_TOO_LONG;
    if (result == ONBEAT_OK && room) memcpy(data, message.data, *room = (size_t)message.b);
    return result;
}

static inline uint64_t onbeat_target(uint16_t device, uint16_t index, uint8_t entry, uint64_t flags) {
    return (uint64_t)device | (uint64_t)index << 16 | (uint64_t)entry << 32 | flags << 40;
}

/* Reads an object of a device by SDO: `*bytes` is the size of `data`, and receives the number of bytes read. On ONBEAT_SDO_ABORT
 * `*abort_code` (may be NULL) receives the abort code. It takes some cycles, at most the timeout. */
static inline int onbeat_sdo_read(struct onbeat_control *bus, uint16_t device, uint16_t index, uint8_t entry, void *data, size_t *bytes, uint32_t timeout_ms,
                                  uint32_t *abort_code) {
    return onbeat_request(bus, onbeat_target(device, index, entry, 0), data, 0, bytes, 0, timeout_ms, abort_code);
}

/* Writes an object by SDO; see onbeat_sdo_read. */
static inline int onbeat_sdo_write(struct onbeat_control *bus, uint16_t device, uint16_t index, uint8_t entry, const void *data, size_t bytes,
                                   uint32_t timeout_ms, uint32_t *abort_code) {
    return onbeat_request(bus, onbeat_target(device, index, entry, 2), (void *)(uintptr_t)data, bytes, NULL, 0, timeout_ms, abort_code);
}

/* Reads or writes all entries of an object at once, from entry 0 on (complete access); see onbeat_sdo_read. */
static inline int onbeat_sdo_read_complete(struct onbeat_control *bus, uint16_t device, uint16_t index, void *data, size_t *bytes, uint32_t timeout_ms,
                                           uint32_t *abort_code) {
    return onbeat_request(bus, onbeat_target(device, index, 0, 1), data, 0, bytes, 0, timeout_ms, abort_code);
}
static inline int onbeat_sdo_write_complete(struct onbeat_control *bus, uint16_t device, uint16_t index, const void *data, size_t bytes,
                                            uint32_t timeout_ms, uint32_t *abort_code) {
    return onbeat_request(bus, onbeat_target(device, index, 0, 3), (void *)(uintptr_t)data, bytes, NULL, 0, timeout_ms, abort_code);
}

/* Reads `bytes` bytes of registers of a device from `address` on: 1 to ONBEAT_REGISTER_BYTES below 0x1000. */
static inline int onbeat_register_read(struct onbeat_control *bus, uint16_t device, uint16_t address, void *data, size_t bytes, uint32_t timeout_ms) {
    if (bytes < 1 || bytes > ONBEAT_REGISTER_BYTES || address + bytes > 0x1000u) return ONBEAT_REGISTER_RANGE;
    size_t room = bytes;
    return onbeat_request(bus, onbeat_target(device, address, 0, ONBEAT_ASKED_REGISTER << 2), data, 0, &room, bytes, timeout_ms, NULL);
}

/* Writes registers of a device in OP. Those that the bus process sets itself are refused with ONBEAT_REGISTER_KEPT; docs/control.md lists
 * those that can be written. */
static inline int onbeat_register_write(struct onbeat_control *bus, uint16_t device, uint16_t address, const void *data, size_t bytes,
                                        uint32_t timeout_ms) {
    if (bytes < 1 || bytes > ONBEAT_REGISTER_BYTES || address + bytes > 0x1000u) return ONBEAT_REGISTER_RANGE;
    return onbeat_request(bus, onbeat_target(device, address, 0, ONBEAT_ASKED_REGISTER << 2 | 2u), (void *)(uintptr_t)data, bytes, NULL, 0, timeout_ms,
                          NULL);
}

/* Reads which device is at which position of the cable, and has the bus try rejected devices again at once. `*count` is the size of `positions`,
 * and receives the number of positions: each is the number of a device, ONBEAT_POSITION_UNKNOWN, or ONBEAT_POSITION_NO_ANSWER.
 * ONBEAT_SDO_TOO_LONG if there are more. */
static inline int onbeat_rescan(struct onbeat_control *bus, uint16_t *positions, size_t *count, uint32_t timeout_ms) {
    uint8_t bytes[ONBEAT_REQUEST_BYTES];
    size_t room = *count < sizeof bytes / 2 ? 2 * *count : sizeof bytes;
    int result = onbeat_request(bus, (uint64_t)ONBEAT_ASKED_RESCAN << 42, bytes, 0, &room, 0, timeout_ms, NULL);
    if (result != ONBEAT_OK) return result;
    *count = room / 2;
    for (size_t i = 0; i < *count; i++) positions[i] = (uint16_t)(bytes[2 * i] | bytes[2 * i + 1] << 8);
    return ONBEAT_OK;
}

/* ---- statistics ---- */

/* Durations of one kind since the bus process began; percentiles are upper ends of buckets with a width of 1/16. */
struct onbeat_times {
    uint64_t count, max_ns, p50_ns, p99_ns, p999_ns;
    double mean_ns;
};

static inline uint64_t onbeat_control_counter(const struct onbeat_control *bus, enum onbeat_counter which) { return onbeat_look(&bus->stats->counters[which]); }

/* Returns the quantile of `count` durations for a share from 0 to 1; 0 without any. */
static inline uint64_t onbeat_quantile(const struct onbeat_histogram *of, uint64_t count, double share) {
    double wanted = (double)count * share;
    uint64_t rank = (uint64_t)wanted, below = 0, max = onbeat_look(&of->max);
    if ((double)rank < wanted || rank == 0) rank++;
    for (uint64_t bucket = 0; bucket < ONBEAT_BUCKETS; bucket++) {
        below += onbeat_look(of->buckets + bucket);
        if (below < rank) continue;
        uint64_t octave = bucket >> 4, upper = octave ? ((17 + (bucket & 15)) << (octave - 1)) - 1 : bucket;
        return upper < max ? upper : max;
    }
    return 0;
}

static inline void onbeat_control_times(const struct onbeat_control *bus, enum onbeat_timed which, struct onbeat_times *times) {
    const struct onbeat_histogram *of = &bus->stats->timed[which];
    times->count = 0;
    for (uint32_t bucket = 0; bucket < ONBEAT_BUCKETS; bucket++) times->count += onbeat_look(of->buckets + bucket);
    times->max_ns = onbeat_look(&of->max);
    times->mean_ns = times->count ? (double)onbeat_look(&of->sum) / (double)times->count : 0.0;
    times->p50_ns = onbeat_quantile(of, times->count, 0.5);
    times->p99_ns = onbeat_quantile(of, times->count, 0.99);
    times->p999_ns = onbeat_quantile(of, times->count, 0.999);
}

#endif
