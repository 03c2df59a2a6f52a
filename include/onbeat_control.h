/* The control interface of onbeat for C: a bus's process image in shared memory.
 *
 * Everything is in this file; there is nothing to link. It is for images that are shared wait-free, which is the default: a reader
 * never holds up the bus, and needs no system call. Images behind a lock (--sharing pi, plain) are refused, because a mutex belongs
 * to the C library that made it. What lies where and who may do what: docs/control.md.
 *
 *     struct onbeat_control bus;
 *     if (onbeat_control_open(&bus, "onbeat") != ONBEAT_OK) ...
 *     struct onbeat_cycle cycle;
 *     uint8_t *inputs = malloc(bus.input_bytes), *outputs = malloc(bus.output_bytes);
 *     if (onbeat_control_read(&bus, &cycle, inputs, outputs) == ONBEAT_OK) ...
 *
 * C11 with <stdatomic.h> (lock-free 64-bit atomics), Linux. A handle is for one thread; open another one for the next.
 */
#ifndef ONBEAT_CONTROL_H
#define ONBEAT_CONTROL_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
#error "This header is C11; include it in a C file and call that from C++."
#endif

/* ---- what lies in the memory ---- */

#define ONBEAT_ABI 2u
#define ONBEAT_SLOTS 4u
#define ONBEAT_CYCLE_BYTES 48u
#define ONBEAT_EVENT_BYTES 32u
#define ONBEAT_GOAL_HEAD 3u /* words of a goal before its bits: whose it is, when it was made, flags */
#define ONBEAT_LAST_GOAL 1u /* flag: whoever gave it leaves, and is not missed */
#define ONBEAT_MOST_JOINTS 256u
#define ONBEAT_PID_BITS 22

/* At offset 0. Constant once `magic` is there, but for `state` and `answered_at`. */
struct onbeat_header {
    _Atomic uint64_t magic;         /*   0: "ONBEATCI" */
    uint32_t abi;                   /*   8: ONBEAT_ABI */
    uint32_t sharing;               /*  12: 0 wait-free, 1 pi, 2 plain */
    uint64_t total_bytes;           /*  16 */
    uint64_t layout_hash;           /*  24: fingerprint of the device table */
    uint64_t generation;            /*  32: bus processes that have had the name, each killed before the next */
    uint64_t bus;                   /*  40: the bus process, see onbeat_process */
    _Atomic uint32_t state;         /*  48: 1 running, 2 ended in order, 3 taken over */
    uint32_t waking;                /*  52: 1 when the bus wakes those who wait */
    uint32_t devices;               /*  56 */
    uint32_t values;                /*  60 */
    uint32_t input_bytes;           /*  64 */
    uint32_t output_bytes;          /*  68 */
    uint32_t stale_after;           /*  72: cycles for which outputs count after they were written */
    uint32_t events;                /*  76: events that are kept */
    uint64_t live_at;               /*  80: places in bytes from the start */
    uint64_t table_at;              /*  88 */
    uint64_t states_at;             /*  96 */
    uint64_t image_at;              /* 104 */
    uint64_t outputs_at;            /* 112 */
    uint64_t events_at;             /* 120 */
    uint64_t stats_at;              /* 128 */
    uint64_t requests_at;           /* 136 */
    char segment[64];               /* 144 */
    uint32_t joints;                /* 208: joints that follow goals; 0 where none are followed */
    uint32_t goal_age_us;           /* 212: older goals are not followed */
    uint64_t joints_at;             /* 216 */
    uint64_t goals_at;              /* 224 */
    _Atomic uint64_t answered_at;   /* 232: when all frames of a cycle came back last, CLOCK_MONOTONIC in ns; 0 before the first cycle */
};

/* At `live_at`: words with a cache line each. */
struct onbeat_live {
    _Alignas(64) _Atomic uint64_t image;   /* publications of the image; the bus writes */
    _Alignas(64) _Atomic uint64_t outputs; /* publications of the wanted outputs; their owner writes */
    _Alignas(64) _Atomic uint64_t events;  /* events so far; the bus writes */
    _Alignas(64) _Atomic uint64_t owner;   /* process that owns the outputs, 0 for none */
    _Alignas(64) _Atomic uint64_t left;    /* owner that left in order last */
    _Alignas(64) _Atomic uint32_t wake;    /* counts up when there is a new image and somebody waits */
    _Alignas(64) _Atomic uint32_t waiting; /* not 0 when somebody waits */
    _Alignas(64) _Atomic uint64_t orders;  /* SDO requests so far */
    _Alignas(64) _Atomic uint64_t goals;   /* publications of goals; the commander writes */
    _Alignas(64) _Atomic uint64_t commander;      /* process that commands the joints, 0 for none */
    _Alignas(64) _Atomic uint64_t commander_left; /* commander that left in order last */
    _Alignas(64) _Atomic uint64_t answer;  /* of the goal that was looked at last: its number * 4 + enum onbeat_answer */
};

/* At `table_at`, one per device. */
struct onbeat_device {
    char name[64];
    uint32_t kind; /* 0 coupler, 1 digital, 2 analogue, 3 drive, 4 imu, 5 force and torque */
    uint32_t alias, vendor, product, revision;
    uint32_t outputs_at, outputs_bytes; /* in the image's outputs */
    uint32_t inputs_at, inputs_bytes;   /* in the image's inputs */
    uint32_t first_value;               /* its values: those of its outputs, then those of its inputs */
    uint32_t output_values, input_values;
    uint32_t increments; /* per turn of a drive */
    int32_t travel[2];
    uint32_t spare;
};

/* At `joints_at`, one per joint that follows goals; it is called as its device. */
struct onbeat_joint {
    uint64_t device;       /* its drive's place among the devices */
    double low_rad;        /* travel */
    double high_rad;
    double velocity_rad_s; /* it moves no faster, however far a goal is away */
};

/* Behind the devices, `values` of them. */
struct onbeat_value {
    uint16_t index;
    uint8_t entry;
    uint8_t spare;
    uint16_t bits;
    uint16_t spare2;
    uint32_t bit_at; /* from the start of the device's part */
    uint32_t spare3;
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
};

struct onbeat_event {
    uint64_t at_ns;
    uint64_t cycle;
    uint16_t kind; /* docs/control.md */
    uint16_t device; /* 0xFFFF for none */
    uint16_t old_value;
    uint16_t new_value;
    uint32_t code;
    uint32_t spare;
};

_Static_assert(sizeof(struct onbeat_header) == 240, "header");
_Static_assert(sizeof(struct onbeat_live) == 768, "live");
_Static_assert(sizeof(struct onbeat_joint) == 32, "joint");
_Static_assert(sizeof(struct onbeat_device) == 128, "device");
_Static_assert(sizeof(struct onbeat_value) == 16, "value");
_Static_assert(sizeof(struct onbeat_cycle) == ONBEAT_CYCLE_BYTES, "cycle");
_Static_assert(sizeof(struct onbeat_event) == ONBEAT_EVENT_BYTES, "event");

/* ---- what can be done with it ---- */

enum onbeat_result {
    ONBEAT_OK = 0,
    ONBEAT_NO_BUS = -1,     /* nobody has made an image of this name */
    ONBEAT_SYSTEM = -2,     /* see errno */
    ONBEAT_VERSION = -3,    /* made by another version of onbeat, or not ready yet */
    ONBEAT_LOCKED = -4,     /* its sharing is not wait-free */
    ONBEAT_SPOILT = -5,     /* it contradicts itself */
    ONBEAT_ENDED = -6,      /* the bus was taken down, or another process took the name over: open again */
    ONBEAT_DIED = -7,       /* the bus process was killed */
    ONBEAT_NO_CYCLE = -8,   /* there was no cycle yet */
    ONBEAT_OVERTAKEN = -9,  /* the bus overtook this reader again and again */
    ONBEAT_OWNED = -10,     /* another process owns the outputs */
    ONBEAT_NOT_OWNER = -11, /* this process does not own the outputs, or does not command the joints */
    ONBEAT_NO_GOALS = -12,  /* nothing on this bus follows goals */
    ONBEAT_COMMANDED = -13  /* another process commands the joints */
};

/* What became of a goal. */
enum onbeat_answer {
    ONBEAT_GOAL_TAKEN = 1,
    ONBEAT_GOAL_REFUSED = 2, /* it holds what is no number, or is outside a joint's travel; the goal before stays */
    ONBEAT_GOAL_TOO_OLD = 3  /* it was, when it was first looked at */
};

struct onbeat_control {
    uint8_t *base;
    size_t bytes;
    struct onbeat_header *header;
    struct onbeat_live *live;
    const struct onbeat_device *devices;
    const struct onbeat_value *values;
    _Atomic uint64_t *states; /* a word per device: AL state in bits 0-15, AL status code in 16-31, then 1 present, 2 lost, 3 wrong */
    const struct onbeat_joint *joints;
    uint32_t device_count, input_bytes, output_bytes, event_count, joint_count;
    uint64_t me;
};

/* Number of a process by its word, and whether the very same one still runs. */
static inline uint32_t onbeat_process_pid(uint64_t process) { return (uint32_t)(process & ((1u << ONBEAT_PID_BITS) - 1)); }

/* A process as one word: start time in clock ticks since boot (field 22 of /proc/PID/stat), 22 bits of its number. 0: it is gone. */
static inline uint64_t onbeat_process(uint32_t pid) {
    char path[40], text[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0) return 0;
    text[length] = 0;
    char *field = strrchr(text, ')'); /* the name before it may hold anything */
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
    /* Others' processes may be hidden; then the number alone has to do. */
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
    bus->base = base;
    struct onbeat_header *header = bus->header = base;
    int result = ONBEAT_OK;
    if (memcmp(&(uint64_t){atomic_load_explicit(&header->magic, memory_order_acquire)}, "ONBEATCI", 8) != 0 || header->abi != ONBEAT_ABI) {
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
        size_t ends[8] = {
            header->live_at + sizeof(struct onbeat_live),
            header->table_at + table,
            header->states_at + (size_t)header->devices * 8,
            header->image_at + ONBEAT_SLOTS * onbeat_slot_words(bus, 1) * 8,
            header->outputs_at + ONBEAT_SLOTS * onbeat_slot_words(bus, 0) * 8,
            header->events_at + (size_t)header->events * (8 + ONBEAT_EVENT_BYTES),
            header->joints_at + (size_t)header->joints * sizeof(struct onbeat_joint),
            header->goals_at + goals,
        };
        for (int i = 0; i < 8; i++)
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
    bus->states = (_Atomic uint64_t *)(bus->base + header->states_at);
    bus->me = onbeat_process((uint32_t)getpid());
    return ONBEAT_OK;
}

/* Whether the bus runs. No system call; a killed bus is noticed by onbeat_control_is_alive. */
static inline int onbeat_control_check(const struct onbeat_control *bus) {
    return atomic_load_explicit(&bus->header->state, memory_order_acquire) == 1 ? ONBEAT_OK : ONBEAT_ENDED;
}

/* The same, and looks for the bus process. Call it when there was no new cycle for a while. */
static inline int onbeat_control_is_alive(const struct onbeat_control *bus) {
    int result = onbeat_control_check(bus);
    if (result != ONBEAT_OK || onbeat_process_is_alive(bus->header->bus)) return result;
    return onbeat_control_check(bus) == ONBEAT_OK ? ONBEAT_DIED : ONBEAT_ENDED;
}

static inline void onbeat_words_out(void *into, size_t bytes, _Atomic uint64_t *words) {
    uint8_t *to = into;
    for (; bytes > 0; words++) {
        uint64_t word = atomic_load_explicit(words, memory_order_relaxed);
        size_t part = bytes < 8 ? bytes : 8;
        memcpy(to, &word, part);
        to += part;
        bytes -= part;
    }
}

/* Reads the newest cycle, of one piece; `inputs` and `outputs` have room for all of them, or are NULL. `cycle` may be NULL too. */
static inline int onbeat_control_read(struct onbeat_control *bus, struct onbeat_cycle *cycle, void *inputs, void *outputs) {
    size_t slot_words = onbeat_slot_words(bus, 1);
    _Atomic uint64_t *words = (_Atomic uint64_t *)(bus->base + bus->header->image_at);
    if (onbeat_control_check(bus) != ONBEAT_OK) return ONBEAT_ENDED;
    for (int tries = 0; tries < 1000; tries++) {
        uint64_t number = atomic_load_explicit(&bus->live->image, memory_order_acquire);
        if (number == 0) return ONBEAT_NO_CYCLE;
        _Atomic uint64_t *slot = words + (number % ONBEAT_SLOTS) * slot_words;
        if (atomic_load_explicit(slot, memory_order_acquire) != 2 * number) continue;
        _Atomic uint64_t *at = slot + 1;
        if (cycle) onbeat_words_out(cycle, ONBEAT_CYCLE_BYTES, at);
        at += ONBEAT_CYCLE_BYTES / 8;
        if (inputs) onbeat_words_out(inputs, bus->input_bytes, at);
        at += (bus->input_bytes + 7u) / 8u;
        if (outputs) onbeat_words_out(outputs, bus->output_bytes, at);
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(slot, memory_order_relaxed) == 2 * number) return ONBEAT_OK;
    }
    return ONBEAT_OVERTAKEN;
}

/* Takes the outputs for this process. ONBEAT_OWNED: `*owner` (may be NULL) is the process id of whom they belong to. */
static inline int onbeat_control_claim(struct onbeat_control *bus, uint32_t *owner) {
    if (onbeat_control_is_alive(bus) != ONBEAT_OK) return onbeat_control_is_alive(bus);
    uint64_t me = bus->me;
    atomic_compare_exchange_strong(&bus->live->left, &me, 0);
    uint64_t now = atomic_load_explicit(&bus->live->owner, memory_order_acquire);
    for (;;) {
        if (now && onbeat_process_is_alive(now)) {
            if (owner) *owner = onbeat_process_pid(now);
            return ONBEAT_OWNED;
        }
        if (atomic_compare_exchange_strong(&bus->live->owner, &now, bus->me)) return ONBEAT_OK;
    }
}

static inline void onbeat_publish_outputs(struct onbeat_control *bus, uint64_t from, const void *outputs) {
    uint64_t number = atomic_load_explicit(&bus->live->outputs, memory_order_relaxed) + 1;
    _Atomic uint64_t *slot = (_Atomic uint64_t *)(bus->base + bus->header->outputs_at) + (number % ONBEAT_SLOTS) * onbeat_slot_words(bus, 0);
    atomic_store_explicit(slot, 2 * number - 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(slot + 1, from, memory_order_relaxed);
    const uint8_t *bytes = outputs;
    for (size_t left = outputs ? bus->output_bytes : 0, place = 2; left > 0; place++) {
        uint64_t word = 0;
        size_t part = left < 8 ? left : 8;
        memcpy(&word, bytes, part);
        atomic_store_explicit(slot + place, word, memory_order_relaxed);
        bytes += part;
        left -= part;
    }
    atomic_store_explicit(slot, 2 * number, memory_order_release);
    atomic_store_explicit(&bus->live->outputs, number, memory_order_release);
}

/* Sets all outputs; the bus takes them in its next cycle. Refresh them in each cycle, else they give way to safe ones. */
static inline int onbeat_control_write(struct onbeat_control *bus, const void *outputs) {
    if (onbeat_control_check(bus) != ONBEAT_OK) return ONBEAT_ENDED;
    if (atomic_load_explicit(&bus->live->owner, memory_order_relaxed) != bus->me) return ONBEAT_NOT_OWNER;
    onbeat_publish_outputs(bus, bus->me, outputs);
    return ONBEAT_OK;
}

/* Gives the outputs up. A process that ends without it loses them too, and is told as dead. */
static inline void onbeat_control_release(struct onbeat_control *bus) {
    uint64_t me = bus->me;
    if (atomic_load_explicit(&bus->live->owner, memory_order_relaxed) != me) return;
    onbeat_publish_outputs(bus, 0, NULL);
    atomic_store_explicit(&bus->live->left, me, memory_order_release);
    atomic_compare_exchange_strong(&bus->live->owner, &me, 0);
}

/* ---- goals: where the joints of a robot should be ---- */

/* Place of the joint of this name, -1 when there is none. */
static inline int onbeat_joint_find(const struct onbeat_control *bus, const char *name) {
    for (uint32_t i = 0; i < bus->joint_count; i++) {
        uint64_t device = bus->joints[i].device;
        if (device < bus->device_count && strncmp(bus->devices[device].name, name, sizeof bus->devices[device].name) == 0) return (int)i;
    }
    return -1;
}

/* Commands the joints from now on. ONBEAT_COMMANDED: `*commander` (may be NULL) is the process id of who does. */
static inline int onbeat_commander_claim(struct onbeat_control *bus, uint32_t *commander) {
    int alive = onbeat_control_is_alive(bus);
    if (alive != ONBEAT_OK) return alive;
    if (!bus->joint_count) return ONBEAT_NO_GOALS;
    uint64_t me = bus->me;
    atomic_compare_exchange_strong(&bus->live->commander_left, &me, 0);
    uint64_t now = atomic_load_explicit(&bus->live->commander, memory_order_acquire);
    for (;;) {
        if (now && onbeat_process_is_alive(now)) {
            if (commander) *commander = onbeat_process_pid(now);
            return ONBEAT_COMMANDED;
        }
        if (atomic_compare_exchange_strong(&bus->live->commander, &now, bus->me)) return ONBEAT_OK;
    }
}

static inline uint64_t onbeat_publish_goal(struct onbeat_control *bus, uint64_t flags, const uint64_t *which, const double *rad) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    uint64_t at_ns = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
    size_t slot_words = onbeat_goal_slot_words(bus), bits = onbeat_goal_bits(bus);
    _Atomic uint64_t *words = (_Atomic uint64_t *)(bus->base + bus->header->goals_at);
    uint64_t before = atomic_load_explicit(&bus->live->goals, memory_order_relaxed), number = before + 1;
    const _Atomic uint64_t *old = words + (before % ONBEAT_SLOTS) * slot_words + 1 + ONBEAT_GOAL_HEAD;
    _Atomic uint64_t *slot = words + (number % ONBEAT_SLOTS) * slot_words, *to = slot + 1 + ONBEAT_GOAL_HEAD;
    atomic_store_explicit(slot, 2 * number - 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(slot + 1, bus->me, memory_order_relaxed);
    atomic_store_explicit(slot + 2, at_ns, memory_order_relaxed);
    atomic_store_explicit(slot + 3, flags, memory_order_relaxed);
    for (size_t i = 0; i < bits + bus->joint_count; i++) {
        uint64_t word;
        if (!rad) word = atomic_load_explicit(old + i, memory_order_relaxed);
        else if (i >= bits) memcpy(&word, rad + (i - bits), 8);
        else word = which ? which[i] : ~(uint64_t)0;
        atomic_store_explicit(to + i, word, memory_order_relaxed);
    }
    atomic_store_explicit(slot, 2 * number, memory_order_release);
    atomic_store_explicit(&bus->live->goals, number, memory_order_release);
    return number;
}

/* Gives a goal: a position in rad for each joint, and a bit for each joint that it is for (`which` may be NULL: for all). Give it again
 * before it is `goal_age_us` old. `*number` (may be NULL) is its number. Waits for nobody. */
static inline int onbeat_commander_give(struct onbeat_control *bus, const uint64_t *which, const double *rad, uint64_t *number) {
    if (onbeat_control_check(bus) != ONBEAT_OK) return ONBEAT_ENDED;
    if (atomic_load_explicit(&bus->live->commander, memory_order_relaxed) != bus->me) return ONBEAT_NOT_OWNER;
    uint64_t given = onbeat_publish_goal(bus, 0, which, rad);
    if (number) *number = given;
    return ONBEAT_OK;
}

/* What became of the goal that was looked at last, and its number (may be NULL); 0 before the first. */
static inline int onbeat_commander_answer(const struct onbeat_control *bus, uint64_t *number) {
    uint64_t word = atomic_load_explicit(&bus->live->answer, memory_order_acquire);
    if (number) *number = word >> 2;
    return (int)(word & 3);
}

/* Leaves: the joints stay where the last goal wants them. A process that ends without it is missed, and the robot comes to a safe stop. */
static inline void onbeat_commander_release(struct onbeat_control *bus) {
    uint64_t me = bus->me;
    if (atomic_load_explicit(&bus->live->commander, memory_order_relaxed) != me) return;
    uint64_t newest = atomic_load_explicit(&bus->live->goals, memory_order_relaxed);
    const _Atomic uint64_t *slot = (const _Atomic uint64_t *)(bus->base + bus->header->goals_at) + (newest % ONBEAT_SLOTS) * onbeat_goal_slot_words(bus);
    /* The same goal once more: the one before may not have been looked at yet. */
    if (newest && atomic_load_explicit(slot + 1, memory_order_relaxed) == me) onbeat_publish_goal(bus, ONBEAT_LAST_GOAL, NULL, NULL);
    atomic_store_explicit(&bus->live->commander_left, me, memory_order_release);
    atomic_compare_exchange_strong(&bus->live->commander, &me, 0);
}

/* Reads event number `*next` (the first one is 1) and moves on. 1: there was one; 0: there is none yet. Events that were overwritten
 * before they were read are passed over and added to `*missed` (may be NULL). */
static inline int onbeat_control_event(struct onbeat_control *bus, uint64_t *next, struct onbeat_event *event, uint64_t *missed) {
    for (;;) {
        uint64_t newest = atomic_load_explicit(&bus->live->events, memory_order_acquire);
        if (*next == 0) *next = 1;
        if (*next > newest) return 0;
        uint64_t oldest = newest + 2 > bus->event_count ? newest + 2 - bus->event_count : 1;
        if (*next < oldest) {
            if (missed) *missed += oldest - *next;
            *next = oldest;
        }
        uint64_t number = (*next)++;
        _Atomic uint64_t *slot = (_Atomic uint64_t *)(bus->base + bus->header->events_at) + (number % bus->event_count) * (1 + ONBEAT_EVENT_BYTES / 8);
        if (atomic_load_explicit(slot, memory_order_acquire) == 2 * number) {
            onbeat_words_out(event, ONBEAT_EVENT_BYTES, slot + 1);
            atomic_thread_fence(memory_order_acquire);
            if (atomic_load_explicit(slot, memory_order_relaxed) == 2 * number) return 1;
        }
        if (missed) *missed += 1;
    }
}

#endif
