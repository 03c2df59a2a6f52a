/* The control interface of onbeat for C and C++: the process image of a bus in shared memory.
 *
 * This file is complete; no library is needed. It supports images with wait-free sharing, the default: a reader never delays the bus,
 * and makes no system call. Images with a lock (--sharing pi, plain) are refused, because a mutex is only valid for the C library that
 * initialised it. docs/control.md specifies memory layout and rules.
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
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
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

/* ---- memory layout ---- */

#define ONBEAT_ABI 5u
#define ONBEAT_SLOTS 4u
#define ONBEAT_CYCLE_BYTES 56u
#define ONBEAT_EVENT_BYTES 32u
#define ONBEAT_ERROR_WORDS 8u /* words of the record of a device's errors */
#define ONBEAT_GOAL_HEAD 3u /* words of a goal before its bits: process, time of creation, flags */
#define ONBEAT_LAST_GOAL 1u /* flag: the commander has left */
#define ONBEAT_MOST_JOINTS 256u
#define ONBEAT_PID_BITS 22
#define ONBEAT_REQUESTS 16u
#define ONBEAT_REQUEST_BYTES 1024u /* maximum bytes of an SDO transfer */
#define ONBEAT_REGISTER_BYTES 512u /* maximum bytes of an access to registers */
#define ONBEAT_BUCKETS 592u
#define ONBEAT_NO_DEVICE_PLACE 0xFFFFu /* device of an event without one */

/* At offset 0. Constant once `magic` is set, except `state`, `answered_at`, `link` and `answering`. */
struct onbeat_header {
    uint64_t magic;                 /*   0: "ONBEATCI" */
    uint32_t abi;                   /*   8: ONBEAT_ABI */
    uint32_t sharing;               /*  12: 0 wait-free, 1 pi, 2 plain */
    uint64_t total_bytes;           /*  16 */
    uint64_t layout_hash;           /*  24: hash of the device table */
    uint64_t generation;            /*  32: number of bus processes that had this name in succession */
    uint64_t bus;                   /*  40: the bus process, see onbeat_process */
    uint32_t state;                 /*  48: 1 running, 2 ended in order, 3 taken over */
    uint32_t waking;                /*  52: 1 if the bus wakes waiting processes */
    uint32_t devices;               /*  56 */
    uint32_t values;                /*  60 */
    uint32_t input_bytes;           /*  64 */
    uint32_t output_bytes;          /*  68 */
    uint32_t stale_after;           /*  72: cycles for which outputs are sent after a write */
    uint32_t events;                /*  76: number of events kept */
    uint64_t live_at;               /*  80: offsets in bytes from the start */
    uint64_t table_at;              /*  88 */
    uint64_t states_at;             /*  96 */
    uint64_t image_at;              /* 104 */
    uint64_t outputs_at;            /* 112 */
    uint64_t events_at;             /* 120 */
    uint64_t stats_at;              /* 128 */
    uint64_t requests_at;           /* 136 */
    char segment[64];               /* 144 */
    uint32_t joints;                /* 208: number of joints that follow goals */
    uint32_t goal_age_us;           /* 212: maximum age of a goal */
    uint64_t joints_at;             /* 216 */
    uint64_t goals_at;              /* 224 */
    uint64_t answered_at;           /* 232: when all frames of a cycle were last answered, CLOCK_MONOTONIC in ns; 0 before the first cycle */
    uint32_t link;                  /* 240: enum onbeat_link of the interface */
    uint32_t answering;             /* 244: number of devices that processed the last answered frame */
    uint64_t link_errors_at;        /* 248 */
};

/* At `live_at`: words in a cache line each. */
struct onbeat_live {
    ONBEAT_ALIGNED uint64_t image;          /* number of image publications; written by the bus */
    ONBEAT_ALIGNED uint64_t outputs;        /* number of output publications; written by the owner */
    ONBEAT_ALIGNED uint64_t events;         /* number of events; written by the bus */
    ONBEAT_ALIGNED uint64_t owner;          /* process that owns the outputs, 0 for none */
    ONBEAT_ALIGNED uint64_t left;           /* the last owner that left in order */
    ONBEAT_ALIGNED uint32_t wake;           /* incremented when there is a new image and a process waits */
    ONBEAT_ALIGNED uint32_t waiting;        /* not 0 when a process waits */
    ONBEAT_ALIGNED uint64_t orders;         /* number of requests */
    ONBEAT_ALIGNED uint64_t goals;          /* number of goal publications; written by the commander */
    ONBEAT_ALIGNED uint64_t commander;      /* process that commands the joints, 0 for none */
    ONBEAT_ALIGNED uint64_t commander_left; /* the last commander that left in order */
    ONBEAT_ALIGNED uint64_t answer; /* of the goal evaluated last: its number * 4 + enum onbeat_answer */
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
    uint16_t spare2;
    uint32_t bit_at; /* from the start of the device's inputs or outputs */
    uint32_t spare3;
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

/* At `requests_at`, ONBEAT_REQUESTS of them: one SDO transfer, register access or rescan each. */
struct onbeat_request {
    ONBEAT_ALIGNED uint64_t holder; /* requesting process; 0 if the record is free */
    uint32_t phase;                 /* 0 idle, 1 requested, 2 taken, 3 answered, 4 abandoned */
    uint32_t spare;
    uint64_t order;   /* order of requests */
    uint64_t target;  /* device in bits 0-15, index or register 16-31, entry 32-39, complete access 40, write 41, enum onbeat_asked 42- */
    uint64_t length;  /* number of bytes in `data`, or of register bytes to read */
    uint64_t outcome; /* 0 done, else in bits 32-: 1 abort with its code in bits 0-31, 2 no mailbox, 3 no reply, 4 not possible, 5 too long,
                         6 register kept by the bus, 7 not in OP */
    uint64_t data[ONBEAT_REQUEST_BYTES / 8];
};

/* Durations of one kind: buckets of 1 ns below 16 ns, then 16 per power of two. */
struct onbeat_histogram {
    ONBEAT_ALIGNED uint64_t count;
    uint64_t sum, max, spare;
    uint64_t buckets[ONBEAT_BUCKETS];
};

/* At `stats_at`. */
struct onbeat_stats {
    ONBEAT_ALIGNED uint64_t counters[16]; /* by enum onbeat_counter */
    struct onbeat_histogram timed[4];     /* by enum onbeat_timed */
};

ONBEAT_ASSERT(sizeof(struct onbeat_header) == 256 && offsetof(struct onbeat_header, link_errors_at) == 248, "header");
ONBEAT_ASSERT(sizeof(struct onbeat_live) == 768 && offsetof(struct onbeat_live, answer) == 704, "live");
ONBEAT_ASSERT(sizeof(struct onbeat_joint) == 48, "joint");
ONBEAT_ASSERT(sizeof(struct onbeat_device) == 128, "device");
ONBEAT_ASSERT(sizeof(struct onbeat_value) == 64, "value");
ONBEAT_ASSERT(sizeof(struct onbeat_cycle) == ONBEAT_CYCLE_BYTES && offsetof(struct onbeat_cycle, phase) == 48, "cycle");
ONBEAT_ASSERT(sizeof(struct onbeat_event) == ONBEAT_EVENT_BYTES, "event");
ONBEAT_ASSERT(sizeof(struct onbeat_request) == 1088 && offsetof(struct onbeat_request, data) == 48, "request");
ONBEAT_ASSERT(sizeof(struct onbeat_histogram) == 4800 && sizeof(struct onbeat_stats) == 19328, "statistics");

/* ---- constants ---- */

/* Kinds of events; docs/control.md describes their values. */
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
    ONBEAT_EVENT_LINK_ERRORS = 46
};

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
    ONBEAT_STALE_CYCLES = 7
};
enum onbeat_timed { ONBEAT_WAKEUP_LATENCY = 0, ONBEAT_ROUND_TRIP = 1, ONBEAT_EXCHANGE = 2, ONBEAT_EXECUTION_TIME = 3 };

/* ---- functions ---- */

enum onbeat_result {
    ONBEAT_OK = 0,
    ONBEAT_NO_BUS = -1,     /* no image of this name exists */
    ONBEAT_SYSTEM = -2,     /* see errno */
    ONBEAT_VERSION = -3,    /* created by another version of onbeat, or not ready yet */
    ONBEAT_LOCKED = -4,     /* the sharing is not wait-free */
    ONBEAT_SPOILT = -5,     /* the image is inconsistent */
    ONBEAT_ENDED = -6,      /* the bus has ended, or another process has taken over the name: open again */
    ONBEAT_DIED = -7,       /* the bus process was killed */
    ONBEAT_NO_CYCLE = -8,   /* no cycle was published yet */
    ONBEAT_OVERTAKEN = -9,  /* the bus overtook the reader in every attempt */
    ONBEAT_OWNED = -10,     /* another process owns the outputs */
    ONBEAT_NOT_OWNER = -11, /* this process does not own the outputs, or does not command the joints */
    ONBEAT_NO_GOALS = -12,  /* no joint of this bus follows goals */
    ONBEAT_COMMANDED = -13, /* another process commands the joints */
    ONBEAT_NO_SUCH_DEVICE = -14,
    ONBEAT_BUSY = -15,         /* all request records are in use */
    ONBEAT_NO_ANSWER = -16,    /* the bus did not answer in time; the request is dropped */
    ONBEAT_SDO_ABORT = -17,    /* the device refused with an abort code */
    ONBEAT_SDO_NO_MAILBOX = -18,
    ONBEAT_SDO_NO_REPLY = -19, /* the device did not answer in time */
    ONBEAT_SDO_NOT_POSSIBLE = -20,
    ONBEAT_SDO_TOO_LONG = -21,     /* more bytes than fit */
    ONBEAT_NO_SUCH_VALUE = -22,    /* the device maps no such value */
    ONBEAT_REGISTER_RANGE = -23,   /* not 1 to ONBEAT_REGISTER_BYTES bytes below 0x1000 */
    ONBEAT_REGISTER_KEPT = -24,    /* the bus process sets this register itself */
    ONBEAT_NOT_IN_OP = -25         /* registers are written only while the device is in OP */
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
    struct onbeat_header *header;
    struct onbeat_live *live;
    const struct onbeat_device *devices;
    const struct onbeat_value *values;
    uint64_t *states; /* a word per device: AL state in bits 0-15, AL status code in 16-31, then 1 present, 2 lost, 3 wrong */
    const struct onbeat_joint *joints;
    struct onbeat_stats *stats;
    struct onbeat_request *requests;
    uint32_t device_count, input_bytes, output_bytes, event_count, joint_count;
    uint64_t me;
    uint64_t seen; /* publication read last */
};

/* Access to words shared by processes. */
static inline uint64_t onbeat_load(const uint64_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
static inline uint64_t onbeat_look(const uint64_t *word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }
static inline void onbeat_store(uint64_t *word, uint64_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }
static inline void onbeat_put(uint64_t *word, uint64_t value) { __atomic_store_n(word, value, __ATOMIC_RELAXED); }

/* Replaces `*was` by `value`, or stores the present value in `*was`. Returns whether it did. */
static inline int onbeat_swap(uint64_t *word, uint64_t *was, uint64_t value) {
    return __atomic_compare_exchange_n(word, was, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static inline int onbeat_swap_phase(uint32_t *phase, uint32_t was, uint32_t value) {
    return __atomic_compare_exchange_n(phase, &was, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* Returns the process id in a process word. */
static inline uint32_t onbeat_process_pid(uint64_t process) { return (uint32_t)(process & ((1u << ONBEAT_PID_BITS) - 1)); }

/* Returns a process as one word: start time in clock ticks since boot (field 22 of /proc/PID/stat), and 22 bits of its id. 0: gone. */
static inline uint64_t onbeat_process(uint32_t pid) {
    char path[40], text[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0) return 0;
    text[length] = 0;
    char *field = strrchr(text, ')'); /* the name before it may hold any character */
    if (!field || !field[1] || field[2] == 'Z' || field[2] == 'X') return 0;
    field += 2;
    for (int skipped = 3; skipped < 22; skipped++) {
        field = strchr(field, ' ');
        if (!field) return 0;
        field++;
    }
    unsigned long long ticks = 0;
    if (sscanf(field, "%llu", &ticks) != 1) return 0;
    return ((uint64_t)ticks << ONBEAT_PID_BITS) | pid;
}

static inline int onbeat_process_is_alive(uint64_t process) {
    uint32_t pid = onbeat_process_pid(process);
    uint64_t now = onbeat_process(pid);
    /* Processes of others may be hidden; then only the id is checked. */
    return now ? now == process : kill((pid_t)pid, 0) < 0 && errno == EPERM;
}

static inline void onbeat_control_close(struct onbeat_control *bus) {
    if (bus->base) munmap(bus->base, bus->bytes);
    memset(bus, 0, sizeof *bus);
}

static inline size_t onbeat_slot_words(const struct onbeat_control *bus, int of_image) {
    size_t outputs = (bus->output_bytes + 7u) / 8u;
    size_t words = of_image ? 1 + ONBEAT_CYCLE_BYTES / 8 + (bus->input_bytes + 7u) / 8u + outputs : 2 + outputs;
    return (words + 7u) & ~(size_t)7u;
}

static inline size_t onbeat_goal_bits(const struct onbeat_control *bus) { return (bus->joint_count + 63u) / 64u; }

static inline size_t onbeat_goal_slot_words(const struct onbeat_control *bus) {
    return (1 + ONBEAT_GOAL_HEAD + onbeat_goal_bits(bus) + bus->joint_count + 7u) & ~(size_t)7u;
}

/* Calls `with` with the name of each bus in shared memory, running or not. Returns the number of names, or -1 with errno. */
static inline int onbeat_control_names(void (*with)(const char *name, void *own), void *own) {
    DIR *folder = opendir("/dev/shm");
    struct dirent *entry;
    int count = 0;
    if (!folder) return -1;
    while ((entry = readdir(folder)) != NULL) {
        char path[320];
        uint8_t magic[8] = {0};
        if (strncmp(entry->d_name, "onbeat-", 7) != 0) continue;
        snprintf(path, sizeof path, "/dev/shm/%s", entry->d_name);
        int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (file < 0) continue;
        /* Objects of other kinds begin with other bytes. */
        ssize_t length = read(file, magic, sizeof magic);
        close(file);
        if (length != 8 || memcmp(magic, "ONBEATCI", 8) != 0) continue;
        with(entry->d_name + 7, own);
        count++;
    }
    closedir(folder);
    return count;
}

/* Opens the image of a running bus. */
static inline int onbeat_control_open(struct onbeat_control *bus, const char *name) {
    char path[128];
    struct stat status;
    memset(bus, 0, sizeof *bus);
    if (strchr(name, '/') || snprintf(path, sizeof path, "/dev/shm/onbeat-%s", name) >= (int)sizeof path) return ONBEAT_NO_BUS;
    int file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) return errno == ENOENT ? ONBEAT_NO_BUS : ONBEAT_SYSTEM;
    if (fstat(file, &status) < 0 || status.st_size < (off_t)sizeof(struct onbeat_header)) {
        close(file);
        return ONBEAT_VERSION;
    }
    bus->bytes = (size_t)status.st_size;
    void *base = mmap(NULL, bus->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (base == MAP_FAILED) return ONBEAT_SYSTEM;
    bus->base = (uint8_t *)base;
    struct onbeat_header *header = bus->header = (struct onbeat_header *)base;
    int result = ONBEAT_OK;
    uint64_t magic = onbeat_load(&header->magic);
    if (memcmp(&magic, "ONBEATCI", 8) != 0 || header->abi != ONBEAT_ABI) {
        result = ONBEAT_VERSION;
    } else if (header->sharing != 0) {
        result = ONBEAT_LOCKED;
    } else {
        bus->device_count = header->devices;
        bus->input_bytes = header->input_bytes;
        bus->output_bytes = header->output_bytes;
        bus->event_count = header->events;
        size_t table = (size_t)header->devices * sizeof(struct onbeat_device) + (size_t)header->values * sizeof(struct onbeat_value);
        bus->joint_count = header->joints;
        size_t goals = bus->joint_count ? ONBEAT_SLOTS * onbeat_goal_slot_words(bus) * 8 : 0;
        size_t ends[10] = {
            header->live_at + sizeof(struct onbeat_live),
            header->table_at + table,
            header->states_at + (size_t)header->devices * 8,
            header->image_at + ONBEAT_SLOTS * onbeat_slot_words(bus, 1) * 8,
            header->outputs_at + ONBEAT_SLOTS * onbeat_slot_words(bus, 0) * 8,
            header->events_at + (size_t)header->events * (8 + ONBEAT_EVENT_BYTES),
            header->joints_at + (size_t)header->joints * sizeof(struct onbeat_joint),
            header->goals_at + goals,
            header->stats_at + sizeof(struct onbeat_stats),
            header->requests_at + ONBEAT_REQUESTS * sizeof(struct onbeat_request),
        };
        for (int i = 0; i < 10; i++)
            if (ends[i] > bus->bytes || header->total_bytes > bus->bytes || !header->events) result = ONBEAT_SPOILT;
    }
    if (result == ONBEAT_OK && !onbeat_process_is_alive(header->bus)) result = ONBEAT_DIED;
    if (result != ONBEAT_OK) {
        onbeat_control_close(bus);
        return result;
    }
    bus->live = (struct onbeat_live *)(bus->base + header->live_at);
    bus->devices = (const struct onbeat_device *)(bus->base + header->table_at);
    bus->values = (const struct onbeat_value *)(bus->devices + header->devices);
    bus->joints = (const struct onbeat_joint *)(bus->base + header->joints_at);
    bus->stats = (struct onbeat_stats *)(bus->base + header->stats_at);
    bus->requests = (struct onbeat_request *)(bus->base + header->requests_at);
    bus->states = (uint64_t *)(bus->base + header->states_at);
    bus->me = onbeat_process((uint32_t)getpid());
    return ONBEAT_OK;
}

/* Checks that the bus is running. No system call; onbeat_control_is_alive detects a killed bus. */
static inline int onbeat_control_check(const struct onbeat_control *bus) {
    return __atomic_load_n(&bus->header->state, __ATOMIC_ACQUIRE) == 1 ? ONBEAT_OK : ONBEAT_ENDED;
}

/* Checks the same, and that the bus process is alive. Call it after a time without a new cycle. */
static inline int onbeat_control_is_alive(const struct onbeat_control *bus) {
    int result = onbeat_control_check(bus);
    if (result != ONBEAT_OK || onbeat_process_is_alive(bus->header->bus)) return result;
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
    uint64_t *words = (uint64_t *)(bus->base + bus->header->image_at);
    if (onbeat_control_check(bus) != ONBEAT_OK) return ONBEAT_ENDED;
    for (int tries = 0; tries < 1000; tries++) {
        uint64_t number = onbeat_load(&bus->live->image);
        if (number == 0) return ONBEAT_NO_CYCLE;
        uint64_t *slot = words + (number % ONBEAT_SLOTS) * slot_words;
        if (onbeat_load(slot) != 2 * number) continue;
        uint64_t *at = slot + 1;
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

static inline void onbeat_sleep(uint64_t ns) {
    struct timespec time;
    time.tv_sec = (time_t)(ns / 1000000000u);
    time.tv_nsec = (long)(ns % 1000000000u);
    nanosleep(&time, NULL);
}

static inline uint64_t onbeat_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Waits for a cycle newer than the one read last. Returns 1 if there is one, 0 after the timeout, or an enum onbeat_result below 0 if the
 * bus is gone. Polls every 50 us, so the bus need not wake it. */
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

/* Claims the outputs for this process. On ONBEAT_OWNED `*owner` (may be NULL) is the process id of the owner. */
static inline int onbeat_control_claim(struct onbeat_control *bus, uint32_t *owner) {
    if (onbeat_control_is_alive(bus) != ONBEAT_OK) return onbeat_control_is_alive(bus);
    uint64_t me = bus->me;
    onbeat_swap(&bus->live->left, &me, 0);
    uint64_t now = onbeat_load(&bus->live->owner);
    for (;;) {
        if (now && onbeat_process_is_alive(now)) {
            if (owner) *owner = onbeat_process_pid(now);
            return ONBEAT_OWNED;
        }
        if (onbeat_swap(&bus->live->owner, &now, bus->me)) return ONBEAT_OK;
    }
}

static inline void onbeat_publish_outputs(struct onbeat_control *bus, uint64_t from, const void *outputs) {
    uint64_t number = onbeat_look(&bus->live->outputs) + 1;
    uint64_t *slot = (uint64_t *)(bus->base + bus->header->outputs_at) + (number % ONBEAT_SLOTS) * onbeat_slot_words(bus, 0);
    onbeat_put(slot, 2 * number - 1);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    onbeat_put(slot + 1, from);
    const uint8_t *bytes = (const uint8_t *)outputs;
    for (size_t left = outputs ? bus->output_bytes : 0, place = 2; left > 0; place++) {
        uint64_t word = 0;
        size_t part = left < 8 ? left : 8;
        memcpy(&word, bytes, part);
        onbeat_put(slot + place, word);
        bytes += part;
        left -= part;
    }
    onbeat_store(slot, 2 * number);
    onbeat_store(&bus->live->outputs, number);
}

/* Sets all outputs; the bus sends them in its next cycle. Refresh them in each cycle, or they are replaced by safe ones. */
static inline int onbeat_control_write(struct onbeat_control *bus, const void *outputs) {
    if (onbeat_control_check(bus) != ONBEAT_OK) return ONBEAT_ENDED;
    if (onbeat_look(&bus->live->owner) != bus->me) return ONBEAT_NOT_OWNER;
    onbeat_publish_outputs(bus, bus->me, outputs);
    return ONBEAT_OK;
}

/* Gives up the outputs. A process that ends without this loses them too, and is reported as dead. */
static inline void onbeat_control_release(struct onbeat_control *bus) {
    uint64_t me = bus->me;
    if (onbeat_look(&bus->live->owner) != me) return;
    onbeat_publish_outputs(bus, 0, NULL);
    onbeat_store(&bus->live->left, me);
    onbeat_swap(&bus->live->owner, &me, 0);
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
    int alive = onbeat_control_is_alive(bus);
    if (alive != ONBEAT_OK) return alive;
    if (!bus->joint_count) return ONBEAT_NO_GOALS;
    uint64_t me = bus->me;
    onbeat_swap(&bus->live->commander_left, &me, 0);
    uint64_t now = onbeat_load(&bus->live->commander);
    for (;;) {
        if (now && onbeat_process_is_alive(now)) {
            if (commander) *commander = onbeat_process_pid(now);
            return ONBEAT_COMMANDED;
        }
        if (onbeat_swap(&bus->live->commander, &now, bus->me)) return ONBEAT_OK;
    }
}

static inline uint64_t onbeat_publish_goal(struct onbeat_control *bus, uint64_t flags, const uint64_t *which, const double *rad) {
    uint64_t at_ns = onbeat_now();
    size_t slot_words = onbeat_goal_slot_words(bus), bits = onbeat_goal_bits(bus);
    uint64_t *words = (uint64_t *)(bus->base + bus->header->goals_at);
    uint64_t before = onbeat_look(&bus->live->goals), number = before + 1;
    const uint64_t *old = words + (before % ONBEAT_SLOTS) * slot_words + 1 + ONBEAT_GOAL_HEAD;
    uint64_t *slot = words + (number % ONBEAT_SLOTS) * slot_words, *to = slot + 1 + ONBEAT_GOAL_HEAD;
    onbeat_put(slot, 2 * number - 1);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    onbeat_put(slot + 1, bus->me);
    onbeat_put(slot + 2, at_ns);
    onbeat_put(slot + 3, flags);
    for (size_t i = 0; i < bits + bus->joint_count; i++) {
        uint64_t word;
        if (!rad) word = onbeat_look(old + i);
        else if (i >= bits) memcpy(&word, rad + (i - bits), 8);
        else word = which ? which[i] : ~(uint64_t)0;
        onbeat_put(to + i, word);
    }
    onbeat_store(slot, 2 * number);
    onbeat_store(&bus->live->goals, number);
    return number;
}

/* Gives a goal: a position in rad for each joint, and a bit for each joint with a target (`which` may be NULL: all joints). Give it again
 * before it is `goal_age_us` old. `*number` (may be NULL) receives its number. Never waits. */
static inline int onbeat_commander_give(struct onbeat_control *bus, const uint64_t *which, const double *rad, uint64_t *number) {
    if (onbeat_control_check(bus) != ONBEAT_OK) return ONBEAT_ENDED;
    if (onbeat_look(&bus->live->commander) != bus->me) return ONBEAT_NOT_OWNER;
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
    uint64_t me = bus->me;
    if (onbeat_look(&bus->live->commander) != me) return;
    uint64_t newest = onbeat_look(&bus->live->goals);
    const uint64_t *slot = (const uint64_t *)(bus->base + bus->header->goals_at) + (newest % ONBEAT_SLOTS) * onbeat_goal_slot_words(bus);
    /* Repeats the goal, since the previous publication may not have been evaluated yet. */
    if (newest && onbeat_look(slot + 1) == me) onbeat_publish_goal(bus, ONBEAT_LAST_GOAL, NULL, NULL);
    onbeat_store(&bus->live->commander_left, me);
    onbeat_swap(&bus->live->commander, &me, 0);
}

/* Returns the number of events so far; the next one has the following number. */
static inline uint64_t onbeat_control_events(const struct onbeat_control *bus) { return onbeat_load(&bus->live->events); }

/* Reads event number `*next` (from 1) and increments it. Returns 1 if there was one, 0 if not yet. Events that were overwritten before they
 * were read are skipped and added to `*missed` (may be NULL). */
static inline int onbeat_control_event(struct onbeat_control *bus, uint64_t *next, struct onbeat_event *event, uint64_t *missed) {
    for (;;) {
        uint64_t newest = onbeat_load(&bus->live->events);
        if (*next == 0) *next = 1;
        if (*next > newest) return 0;
        uint64_t oldest = newest + 2 > bus->event_count ? newest + 2 - bus->event_count : 1;
        if (*next < oldest) {
            if (missed) *missed += oldest - *next;
            *next = oldest;
        }
        uint64_t number = (*next)++;
        uint64_t *slot = (uint64_t *)(bus->base + bus->header->events_at) + (number % bus->event_count) * (1 + ONBEAT_EVENT_BYTES / 8);
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

/* Returns the time without a reply from the devices in ns; 0 while replies arrive, and before the first cycle. It also covers a stopped
 * bus process. */
static inline uint64_t onbeat_no_answer_for(const struct onbeat_control *bus) {
    const uint64_t quiet = 110000000; /* ten cycles of 1 ms, plus the delay of the bus process on a busy machine */
    uint64_t answered = onbeat_look(&bus->header->answered_at), now = onbeat_now();
    return answered != 0 && now > answered && now - answered > quiet ? now - answered : 0;
}

/* Returns the time without a cycle in ns; 0 while cycles come, and before the first one: the bus process is stopped, or gone. */
static inline uint64_t onbeat_no_cycle_for(struct onbeat_control *bus) {
    struct onbeat_cycle cycle;
    uint64_t seen = bus->seen;
    int result = onbeat_control_read(bus, &cycle, NULL, NULL);
    bus->seen = seen; /* the cycle is not taken from the caller */
    if (result != ONBEAT_OK) return 0;
    uint64_t now = onbeat_now(), quiet = 10u * cycle.dt_ns + 100000000u;
    return now > cycle.release_ns + quiet ? now - cycle.release_ns : 0;
}

/* Returns the process id of the owner of the outputs, and of the commander of the joints; 0 for none. */
static inline uint32_t onbeat_owner_pid(const struct onbeat_control *bus) { return onbeat_process_pid(onbeat_load(&bus->live->owner)); }
static inline uint32_t onbeat_commander_pid(const struct onbeat_control *bus) { return onbeat_process_pid(onbeat_load(&bus->live->commander)); }

/* Returns the AL state of a device (1 INIT, 2 PREOP, 4 SAFEOP, 8 OP, 0 unknown); `*status` (may be NULL) receives its AL status code,
 * `*presence` (may be NULL) 1 present, 2 lost, 3 another device at its position. Without replies, every device is lost. */
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
    uint64_t *record = (uint64_t *)(bus->base + bus->header->link_errors_at) + (size_t)device * ONBEAT_ERROR_WORDS;
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

static inline void onbeat_request_free(struct onbeat_request *request) {
    __atomic_store_n(&request->phase, 0u, __ATOMIC_RELAXED);
    onbeat_store(&request->holder, 0);
}

/* Waits until the bus answers a request, or for the timeout. */
static inline int onbeat_request_wait(struct onbeat_control *bus, struct onbeat_request *request, uint32_t timeout_ms) {
    uint64_t began = onbeat_now(), looked = began;
    while (__atomic_load_n(&request->phase, __ATOMIC_ACQUIRE) != 3u) {
        uint64_t now = onbeat_now();
        if (now - looked >= 100000000u) {
            int result = onbeat_control_is_alive(bus);
            if (result != ONBEAT_OK) return result;
            looked = now;
        }
        if (now - began >= (uint64_t)timeout_ms * 1000000u) return ONBEAT_NO_ANSWER;
        onbeat_sleep(500000);
    }
    return ONBEAT_OK;
}

/* Makes one request: writes `write` bytes of `data`, or, if `room` is not NULL, reads at most `*room` bytes and stores their number there;
 * `wanted` is the number of register bytes to read. */
static inline int onbeat_request(struct onbeat_control *bus, uint64_t target, void *data, size_t write, size_t *room, size_t wanted, uint32_t timeout_ms,
                                 uint32_t *abort_code) {
    struct onbeat_request *request = NULL;
    int result = onbeat_control_is_alive(bus);
    if (result != ONBEAT_OK) return result;
    if (target >> 42 != ONBEAT_ASKED_RESCAN && (target & 0xFFFFu) >= bus->device_count) return ONBEAT_NO_SUCH_DEVICE;
    if (write > ONBEAT_REQUEST_BYTES) return ONBEAT_SDO_TOO_LONG;
    for (uint32_t i = 0; i < ONBEAT_REQUESTS && !request; i++) {
        uint64_t nobody = 0;
        if (onbeat_swap(&bus->requests[i].holder, &nobody, bus->me)) request = &bus->requests[i];
    }
    if (!request) return ONBEAT_BUSY;
    onbeat_put(&request->target, target);
    for (size_t at = 0; at < write; at += 8) {
        uint64_t word = 0;
        memcpy(&word, (const uint8_t *)data + at, write - at < 8 ? write - at : 8);
        onbeat_put(request->data + at / 8, word);
    }
    onbeat_put(&request->length, wanted ? wanted : write);
    onbeat_put(&request->order, __atomic_fetch_add(&bus->live->orders, 1u, __ATOMIC_RELAXED));
    __atomic_store_n(&request->phase, 1u, __ATOMIC_RELEASE);
    result = onbeat_request_wait(bus, request, timeout_ms);
    /* On failure the bus has not taken the request, or has taken it and frees the record with its answer, or has just answered. */
    if (result != ONBEAT_OK && !onbeat_swap_phase(&request->phase, 1, 0) && onbeat_swap_phase(&request->phase, 2, 4)) return result;
    if (result == ONBEAT_OK) {
        uint64_t outcome = onbeat_look(&request->outcome), length = onbeat_look(&request->length);
        const int results[8] = {ONBEAT_OK, ONBEAT_SDO_ABORT, ONBEAT_SDO_NO_MAILBOX, ONBEAT_SDO_NO_REPLY, ONBEAT_SDO_NOT_POSSIBLE, ONBEAT_SDO_TOO_LONG,
                                ONBEAT_REGISTER_KEPT, ONBEAT_NOT_IN_OP};
        result = results[outcome >> 32 < 8 ? outcome >> 32 : 4];
        if (abort_code) *abort_code = (uint32_t)outcome;
        if (result == ONBEAT_OK && room && length > *room) result = ONBEAT_SDO_TOO_LONG;
        if (result == ONBEAT_OK && room) onbeat_words_out(data, *room = (size_t)length, request->data);
    }
    onbeat_request_free(request);
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
 * and receives the number of positions: each is the number of a device, ONBEAT_POSITION_UNKNOWN, or ONBEAT_POSITION_NO_ANSWER. */
static inline int onbeat_rescan(struct onbeat_control *bus, uint16_t *positions, size_t *count, uint32_t timeout_ms) {
    uint8_t bytes[ONBEAT_REQUEST_BYTES];
    size_t room = sizeof bytes, most = *count;
    int result = onbeat_request(bus, (uint64_t)ONBEAT_ASKED_RESCAN << 42, bytes, 0, &room, 0, timeout_ms, NULL);
    if (result != ONBEAT_OK) return result;
    *count = room / 2;
    for (size_t i = 0; i < *count && i < most; i++) positions[i] = (uint16_t)(bytes[2 * i] | bytes[2 * i + 1] << 8);
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
