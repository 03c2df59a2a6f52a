/* Rings of onbeat for C and C++: reads the records that a robot or a bus publishes in shared memory.
 *
 * This file is complete; no library is needed. The writer is never delayed, and onbeat_ring_next makes no system call.
 * The memory is below, its guarantees are in docs/ring.md; `onbeat message generate c TYPE` writes the codec of the records.
 *
 *     struct onbeat_ring ring;
 *     struct onbeat_record record;
 *     static uint8_t bytes[65536];
 *     if (onbeat_ring_open(&ring, "walker/cycle") != ONBEAT_RING_OK) { fprintf(stderr, "%s\n", ring.why); return; }
 *     for (;;) switch (onbeat_ring_next(&ring, &record, bytes, sizeof bytes)) {
 *         case ONBEAT_RING_RECORD: ...                    record.length bytes, of record.number, at record.at_ns
 *         case ONBEAT_RING_LOST: ...                      record.lost records were overwritten before they were read
 *         case ONBEAT_RING_NOTHING: if (onbeat_ring_check(&ring) != ONBEAT_RING_OK) return; nanosleep(...)
 *     }
 *
 * A ring is the file NAME:TOPIC in the directory of this user or in that of root (onbeat_ring_directory). Neither blocks, whatever has
 * that name: a directory or a file counts only if it belongs to this user or to root and nobody else can write it, a file only if it is
 * regular and has all the memory that its header states. What its owner does later is trusted: if he truncates the file, the next access
 * to it is a SIGBUS, and the one record across the new end can read as zeros until its reader looks at the file (every 100 ms). This header
 * installs no handler.
 *
 * C11 or C++17 with POSIX 2008 and the __atomic builtins of GCC and Clang, Linux. Use a handle in one thread only; open one per thread.
 */
#ifndef ONBEAT_RING_H
#define ONBEAT_RING_H

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ONBEAT_RING_VERSION 1u
#define ONBEAT_RING_HEADER_BYTES 384u
#define ONBEAT_RING_HEAD_BYTES 24u /* of a slot, before its payload: sequence, time, length */
#define ONBEAT_RING_PID_BITS 22
#define ONBEAT_RING_MOST_BYTES (UINT64_C(1536) << 20)
#define ONBEAT_RING_MOST_TEXT (UINT64_C(16) << 20)
#define ONBEAT_RING_MOST_RECORDS (UINT64_C(1) << 62) /* a writer of a billion records a second reaches it after a century */
#define ONBEAT_RING_PATH 512 /* bytes of the longest path */

/* Memory, version 1. All numbers are 64 bits wide, in native byte order, at multiples of 8; everything that changes is accessed as aligned atomic
 * words. Texts and slots begin at multiples of 64. Header, schema, description and slots follow each other. Unnamed below: 24 generation (rings of
 * this channel whose writers were killed, one after the other, plus 1); 96 time of creation, CLOCK_MONOTONIC in ns; 104 CLOCK_REALTIME -
 * CLOCK_MONOTONIC at the creation, in ns; 112 16 bytes, unused.
 *
 * A slot: 0 sequence, 2n when record n is complete, 2n - 1 while it is written; 8 time of the record, CLOCK_MONOTONIC in ns; 16 bytes of the
 * payload; 24 the payload. Record n is in slot n modulo slots.
 *
 * Writing record n: store sequence = 2n - 1; release fence; store time, length and payload; store sequence = 2n with release; store written = n
 * with release.
 *
 * Reading record n, the next one of this reader:
 * 1. Load written with acquire. If it is less than n, or greater than 2^62, there is nothing to read.
 * 2. If written - n < slots - 1: load sequence with acquire; if it is 2n, copy length, time and payload; acquire fence; load sequence again. If it
 *    is still 2n, the record is complete, and the next one is n + 1.
 * 3. Otherwise the record is lost. Load written again. The next record is written - (slots - 2) + slots / 8, or n + 1 if that is greater; the
 *    difference from n is the number of records lost.
 * A reader that copies many records in one go copies first, then loads written again, and drops, as lost, all copies of records up to
 * written + 1 - slots.
 *
 * Every 100 ms without records a reader checks that the writer is alive: state is 1, and the process in writer exists with that start time (field
 * 22 of /proc/PID/stat) and is not a zombie. */

/* Offsets in the header, in bytes. */
enum onbeat_ring_at {
    ONBEAT_RING_AT_MAGIC = 0, /* the bytes ONBEATRG; written last, with release */
    ONBEAT_RING_AT_VERSION = 8,
    ONBEAT_RING_AT_TOTAL_BYTES = 16, /* of the file */
    ONBEAT_RING_AT_WRITER = 32, /* start time in clock ticks since boot * 2^22 + process id */
    ONBEAT_RING_AT_STATE = 40, /* 1 running, 2 ended in order, 3 replaced by another writer's ring */
    ONBEAT_RING_AT_SLOTS = 48, /* a power of two from 2 on */
    ONBEAT_RING_AT_SLOT_BYTES = 56, /* a multiple of 64 */
    ONBEAT_RING_AT_SLOTS_AT = 64, /* offset of slot 0 */
    ONBEAT_RING_AT_SCHEMA_BYTES = 72, /* a text at ONBEAT_RING_HEADER_BYTES */
    ONBEAT_RING_AT_DESCRIPTION_AT = 80,
    ONBEAT_RING_AT_DESCRIPTION_BYTES = 88,
    ONBEAT_RING_AT_TYPE_HASH = 128, /* 32 bytes; zeros for none */
    ONBEAT_RING_AT_TYPE_NAME = 160, /* 160 bytes, padded with zeros */
    ONBEAT_RING_AT_WRITTEN = 320 /* number of the newest record, 0 for none; with release. Its cache line holds nothing else */
};

enum onbeat_ring_result {
    ONBEAT_RING_OK = 0,
    ONBEAT_RING_RECORD = 1,      /* the next record was copied */
    ONBEAT_RING_NOTHING = 2,     /* all records have been read */
    ONBEAT_RING_LOST = 3,        /* records were overwritten before they were read */
    ONBEAT_RING_NO_CHANNEL = -1, /* the channel does not exist */
    ONBEAT_RING_NOT_A_RING = -2, /* another file, another version, or not complete yet */
    ONBEAT_RING_ENDED = -3,      /* the writer has ended in order */
    ONBEAT_RING_REPLACED = -4,   /* another writer uses the channel: open it again */
    ONBEAT_RING_DIED = -5,       /* the writer was killed */
    ONBEAT_RING_REFUSED = -6     /* the directory or the file is not trusted, or may not be read */
};

/* A record, or a number of lost ones. */
struct onbeat_record {
    uint64_t number; /* from 1 */
    uint64_t at_ns;  /* CLOCK_MONOTONIC */
    size_t length;   /* of the record; more than the given memory were cut */
    uint64_t lost;   /* with ONBEAT_RING_LOST */
};

struct onbeat_ring {
    const uint8_t *base;
    size_t bytes;
    uint64_t slots, slot_bytes, slots_at;
    uint64_t next;                  /* number of the record that is read next */
    uint64_t received, lost;        /* so far */
    char type[161];                 /* such as onbeat_msgs/msg/Cycle */
    char hash[7 + 64 + 1];          /* RIHS01_..., as ROS 2 writes it */
    char why[ONBEAT_RING_PATH + 256]; /* a sentence, after onbeat_ring_open failed */
};

static inline uint64_t onbeat_ring_load(const struct onbeat_ring *ring, uint64_t at) {
    return __atomic_load_n((const uint64_t *)(const void *)(ring->base + at), __ATOMIC_ACQUIRE);
}

/* Returns the number of the newest record; 0 for none, and for a number that no writer reaches. */
static inline uint64_t onbeat_ring_written(const struct onbeat_ring *ring) {
    const uint64_t written = onbeat_ring_load(ring, ONBEAT_RING_AT_WRITTEN);
    return written > ONBEAT_RING_MOST_RECORDS ? 0 : written;
}

static inline void onbeat_ring_close(struct onbeat_ring *ring) {
    if (ring->base) munmap((void *)(uintptr_t)ring->base, ring->bytes);
    memset(ring, 0, sizeof *ring);
}

/* Keeps a sentence and returns the result. */
#ifdef __GNUC__
__attribute__((format(printf, 3, 4)))
#endif
static inline int onbeat_ring_fail(struct onbeat_ring *ring, int result, const char *sentence, ...) {
    va_list values;
    va_start(values, sentence);
    vsnprintf(ring->why, sizeof ring->why, sentence, values);
    va_end(values);
    return result;
}

/* Checks the sizes in the header against each other. */
static inline int onbeat_ring_is_consistent(const uint64_t *words) {
    const uint64_t total = words[ONBEAT_RING_AT_TOTAL_BYTES / 8];
    const uint64_t slots = words[ONBEAT_RING_AT_SLOTS / 8], slot_bytes = words[ONBEAT_RING_AT_SLOT_BYTES / 8];
    const uint64_t schema = words[ONBEAT_RING_AT_SCHEMA_BYTES / 8], description = words[ONBEAT_RING_AT_DESCRIPTION_BYTES / 8];
    const uint64_t description_at = ONBEAT_RING_HEADER_BYTES + (schema + 63) / 64 * 64;
    const uint64_t slots_at = description_at + (description + 63) / 64 * 64;
    if (total > ONBEAT_RING_MOST_BYTES || slots > total || slot_bytes > total) return 0;
    if (schema > ONBEAT_RING_MOST_TEXT || description > ONBEAT_RING_MOST_TEXT) return 0;
    if (slots < 2 || (slots & (slots - 1)) || slot_bytes < 64 || slot_bytes % 64) return 0;
    return words[ONBEAT_RING_AT_DESCRIPTION_AT / 8] == description_at && words[ONBEAT_RING_AT_SLOTS_AT / 8] == slots_at &&
           total == slots_at + slots * slot_bytes;
}

/* Places where rings are looked for, in this order. A writer uses the second one of its user where the first is on a disk: one that another
 * user has made is left out. */
enum onbeat_ring_place {
    ONBEAT_RING_OWN = 0,
    ONBEAT_RING_OWN_IN_MEMORY = 1,
    ONBEAT_RING_OF_ROOT = 2,
    ONBEAT_RING_OF_ROOT_IN_MEMORY = 3
};

/* Writes the path of a directory of rings. Returns 0 if there is none. */
static inline int onbeat_ring_directory(int place, char *path, size_t room) {
    const char *named = getenv("ONBEAT_RUNTIME_DIR"), *session = getenv("XDG_RUNTIME_DIR");
    const unsigned user = (unsigned)geteuid();
    char of_system[32];
    struct stat status;
    int length;
    snprintf(of_system, sizeof of_system, "/run/user/%u", user);
    if (named && *named) {
        if (place != ONBEAT_RING_OWN) return 0;
        length = snprintf(path, room, "%s", named);
    } else if (place == ONBEAT_RING_OWN_IN_MEMORY) {
        length = snprintf(path, room, "/dev/shm/onbeat-%u", user);
    } else if (place == ONBEAT_RING_OF_ROOT_IN_MEMORY) {
        length = user == 0 ? 0 : snprintf(path, room, "/dev/shm/onbeat-0");
    } else if (place == ONBEAT_RING_OF_ROOT || user == 0) {
        length = place == ONBEAT_RING_OF_ROOT && user == 0 ? 0 : snprintf(path, room, "/run/onbeat");
    } else if (session && *session) {
        length = snprintf(path, room, "%s/onbeat", session);
    } else if (stat(of_system, &status) == 0 && S_ISDIR(status.st_mode)) {
        length = snprintf(path, room, "%s/onbeat", of_system);
    } else {
        length = snprintf(path, room, "/dev/shm/onbeat-%u", user);
    }
    return length > 0 && (size_t)length < room;
}

/* Writes why an owner or a mode is not trusted; an empty text if it is. */
static inline void onbeat_ring_distrust(const struct stat *status, char *why, size_t room) {
    const unsigned user = (unsigned)geteuid(), owner = (unsigned)status->st_uid;
    why[0] = 0;
    if (owner != user && owner != 0)
        snprintf(why, room, "it belongs to user %u, and user %u does not trust its content", owner, user);
    else if (status->st_mode & 022)
        snprintf(why, room, "others than its owner can write it (mode %04o)", (unsigned)status->st_mode & 07777);
}

static inline const char *onbeat_ring_kind(const struct stat *status) {
    if (S_ISDIR(status->st_mode)) return "a directory";
    if (S_ISFIFO(status->st_mode)) return "a pipe";
    if (S_ISSOCK(status->st_mode)) return "a socket";
    if (S_ISLNK(status->st_mode)) return "a link";
    return "a device";
}

/* Opens a directory of rings. Returns its descriptor, ONBEAT_RING_NO_CHANNEL if it is missing, or ONBEAT_RING_REFUSED. */
static inline int onbeat_ring_open_directory(struct onbeat_ring *ring, const char *path) {
    struct stat status;
    char why[160];
    const int directory = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (directory < 0 && errno == ENOENT) return ONBEAT_RING_NO_CHANNEL;
    if (directory < 0 || fstat(directory, &status) != 0) {
        onbeat_ring_fail(ring, 0, "cannot open %s, the directory of shared objects: %s; name another one in ONBEAT_RUNTIME_DIR", path,
                         strerror(errno));
        if (directory >= 0) close(directory);
        return ONBEAT_RING_REFUSED;
    }
    onbeat_ring_distrust(&status, why, sizeof why);
    if (!why[0]) return directory;
    close(directory);
    return onbeat_ring_fail(ring, ONBEAT_RING_REFUSED,
                            "%s is not used for shared objects: %s; name another directory in ONBEAT_RUNTIME_DIR", path, why);
}

/* Opens a file in a directory. Returns its descriptor, ONBEAT_RING_NO_CHANNEL if it is missing, or ONBEAT_RING_REFUSED. Never blocks. */
static inline int onbeat_ring_open_file(struct onbeat_ring *ring, int directory, const char *path, const char *name) {
    struct stat status;
    char why[160];
    int file = -1;
    /* Merely opening a device can act on it, so its kind is looked at before. */
    int result = fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW);
    if (result == 0 && S_ISREG(status.st_mode)) {
        file = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
        result = file < 0 ? -1 : fstat(file, &status);
    }
    if (result != 0) {
        const int error = errno;
        if (file >= 0) close(file);
        if (error == ENOENT) return ONBEAT_RING_NO_CHANNEL;
        return onbeat_ring_fail(ring, ONBEAT_RING_REFUSED, "cannot open %s/%s: %s", path, name, strerror(error));
    }
    onbeat_ring_distrust(&status, why, sizeof why);
    if (!S_ISREG(status.st_mode))
        snprintf(why, sizeof why, "it is %s, not a regular file", onbeat_ring_kind(&status));
    else if (!why[0] && (uint64_t)status.st_size > ONBEAT_RING_MOST_BYTES)
        snprintf(why, sizeof why, "it has %llu MiB, and at most %llu MiB are read", (unsigned long long)status.st_size >> 20,
                 (unsigned long long)(ONBEAT_RING_MOST_BYTES >> 20));
    if (!why[0]) return file;
    if (file >= 0) close(file);
    return onbeat_ring_fail(ring, ONBEAT_RING_REFUSED, "cannot open %s/%s: %s", path, name, why);
}

/* Reads and checks the header of a file, and maps the ring. */
static inline int onbeat_ring_map(struct onbeat_ring *ring, int file, const char *path, const char *name) {
    static const char magic[8] = {'O', 'N', 'B', 'E', 'A', 'T', 'R', 'G'};
    const int result = ONBEAT_RING_NOT_A_RING;
    uint64_t words[ONBEAT_RING_HEADER_BYTES / 8];
    struct stat status;
    if (pread(file, words, sizeof words, 0) != (ssize_t)sizeof words || words[0] == 0)
        return onbeat_ring_fail(ring, result, "the ring %s/%s is not complete; open it again in a moment", path, name);
    if (memcmp(words, magic, 8))
        return onbeat_ring_fail(ring, result, "%s/%s is not a ring of onbeat: it begins with other bytes", path, name);
    /* The magic number is written last: what is read after it has been seen is complete. */
    if (pread(file, words, sizeof words, 0) != (ssize_t)sizeof words || fstat(file, &status) != 0)
        return onbeat_ring_fail(ring, result, "cannot read %s/%s: %s", path, name, strerror(errno));
    if (words[ONBEAT_RING_AT_VERSION / 8] != ONBEAT_RING_VERSION)
        return onbeat_ring_fail(ring, result, "the ring %s/%s has version %llu, this program reads %u", path, name,
                                (unsigned long long)words[ONBEAT_RING_AT_VERSION / 8], ONBEAT_RING_VERSION);
    if (!onbeat_ring_is_consistent(words))
        return onbeat_ring_fail(ring, result, "%s/%s is not a ring of onbeat: the sizes in its header contradict each other", path, name);

    const uint64_t bytes = words[ONBEAT_RING_AT_TOTAL_BYTES / 8], allocated = (uint64_t)status.st_blocks * 512;
    const uint64_t held = (uint64_t)status.st_size < allocated ? (uint64_t)status.st_size : allocated;
    if (held < bytes)
        return onbeat_ring_fail(ring, result, "%s/%s is not a complete ring: its header states %llu bytes, and %llu are allocated", path,
                                name, (unsigned long long)bytes, (unsigned long long)held);
    void *base = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, file, 0);
    if (base == MAP_FAILED) return onbeat_ring_fail(ring, result, "cannot map %s/%s: %s", path, name, strerror(errno));

    ring->base = (const uint8_t *)base;
    ring->bytes = (size_t)bytes;
    ring->slots = words[ONBEAT_RING_AT_SLOTS / 8];
    ring->slot_bytes = words[ONBEAT_RING_AT_SLOT_BYTES / 8];
    ring->slots_at = words[ONBEAT_RING_AT_SLOTS_AT / 8];
    memcpy(ring->type, ring->base + ONBEAT_RING_AT_TYPE_NAME, 160);
    memcpy(ring->hash, "RIHS01_", 7);
    for (int i = 0; i < 32; i++)
        snprintf(ring->hash + 7 + 2 * i, 3, "%02x", (unsigned)ring->base[ONBEAT_RING_AT_TYPE_HASH + i]);
    ring->next = onbeat_ring_written(ring) + 1;
    return ONBEAT_RING_OK;
}

/* Opens a channel, such as "walker/cycle", for records from now on. */
static inline int onbeat_ring_open(struct onbeat_ring *ring, const char *channel) {
    const char *slash = strchr(channel, '/');
    char name[192], path[ONBEAT_RING_PATH];
    memset(ring, 0, sizeof *ring);
    if (!slash || strchr(slash + 1, '/') || strlen(channel) > 129)
        return onbeat_ring_fail(ring, ONBEAT_RING_NO_CHANNEL, "\"%.129s\" is not a channel; write NAME/TOPIC", channel);
    snprintf(name, sizeof name, "%.*s:%.129s", (int)(slash - channel), channel, slash + 1);

    for (int place = ONBEAT_RING_OWN; place <= ONBEAT_RING_OF_ROOT_IN_MEMORY; place++) {
        if (!onbeat_ring_directory(place, path, sizeof path)) continue;
        const int directory = onbeat_ring_open_directory(ring, path);
        const int is_second = place == ONBEAT_RING_OWN_IN_MEMORY || place == ONBEAT_RING_OF_ROOT_IN_MEMORY;
        if (directory == ONBEAT_RING_NO_CHANNEL || (directory < 0 && is_second)) continue;
        if (directory < 0) return directory;
        const int file = onbeat_ring_open_file(ring, directory, path, name);
        close(directory);
        if (file == ONBEAT_RING_NO_CHANNEL) continue;
        if (file < 0) return file;
        const int result = onbeat_ring_map(ring, file, path, name);
        close(file);
        return result;
    }
    return onbeat_ring_fail(ring, ONBEAT_RING_NO_CHANNEL, "channel %s does not exist; `onbeat message list` lists the channels", channel);
}

/* Moves to the oldest record that is kept. */
static inline void onbeat_ring_rewind(struct onbeat_ring *ring) {
    const uint64_t written = onbeat_ring_written(ring);
    ring->next = written > ring->slots - 2 ? written - (ring->slots - 2) : 1;
}

/* Copies the record `ring->next`; 0 if it is not complete. */
static inline int onbeat_ring_copy(const struct onbeat_ring *ring, struct onbeat_record *record, void *bytes, size_t room) {
    const uint64_t slot = ring->slots_at + ring->next % ring->slots * ring->slot_bytes;
    const uint64_t most = ring->slot_bytes - ONBEAT_RING_HEAD_BYTES;
    uint8_t *to = (uint8_t *)bytes;
    if (onbeat_ring_load(ring, slot) != 2 * ring->next) return 0;

    record->number = ring->next;
    record->at_ns = onbeat_ring_load(ring, slot + 8);
    const uint64_t length = onbeat_ring_load(ring, slot + 16);
    record->length = (size_t)(length < most ? length : most);
    const size_t wanted = record->length < room ? record->length : room;
    for (size_t at = 0; at < wanted; at += 8) {
        const uint64_t word = __atomic_load_n(
            (const uint64_t *)(const void *)(ring->base + slot + ONBEAT_RING_HEAD_BYTES + at), __ATOMIC_RELAXED);
        memcpy(to + at, &word, wanted - at < 8 ? wanted - at : 8);
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return onbeat_ring_load(ring, slot) == 2 * ring->next;
}

/* Copies the next record into `room` bytes. Returns ONBEAT_RING_RECORD, _NOTHING, or _LOST. */
static inline int onbeat_ring_next(struct onbeat_ring *ring, struct onbeat_record *record, void *bytes, size_t room) {
    const uint64_t written = onbeat_ring_written(ring);
    if (written < ring->next) return ONBEAT_RING_NOTHING;
    if (written - ring->next < ring->slots - 1 && onbeat_ring_copy(ring, record, bytes, room)) {
        ring->next++;
        ring->received++;
        return ONBEAT_RING_RECORD;
    }

    /* An eighth of the ring beyond the oldest record, so that the writer does not overtake this reader again at once. */
    const uint64_t now = onbeat_ring_written(ring);
    const uint64_t oldest = (now > ring->slots - 2 ? now - (ring->slots - 2) : 1) + ring->slots / 8;
    const uint64_t next = oldest > ring->next + 1 ? oldest : ring->next + 1;
    record->lost = next - ring->next;
    ring->lost += record->lost;
    ring->next = next;
    return ONBEAT_RING_LOST;
}

/* Checks that the writer is alive; reads /proc. Records published before its end can be read afterwards. */
static inline int onbeat_ring_check(const struct onbeat_ring *ring) {
    const uint64_t state = onbeat_ring_load(ring, ONBEAT_RING_AT_STATE);
    const uint64_t writer = onbeat_ring_load(ring, ONBEAT_RING_AT_WRITER);
    char path[64], stat[1024], *field;
    unsigned long long start = 0;
    if (state == 2) return ONBEAT_RING_ENDED;
    if (state == 3) return ONBEAT_RING_REPLACED;

    snprintf(path, sizeof path, "/proc/%u/stat", (unsigned)(writer & ((1u << ONBEAT_RING_PID_BITS) - 1)));
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t length = file < 0 ? 0 : read(file, stat, sizeof stat - 1);
    if (file >= 0) close(file);
    stat[length > 0 ? length : 0] = 0;
    /* The name may hold blanks and parentheses: the state is field 3, the start time field 22. */
    field = strrchr(stat, ')');
    const int has_ended = !field || strchr("ZXx", field[2]);
    for (int i = 2; field && i < 22; i++) field = strchr(field + 1, ' ');
    if (field) start = strtoull(field, NULL, 10);
    if (!has_ended && start == writer >> ONBEAT_RING_PID_BITS) return ONBEAT_RING_OK;
    return onbeat_ring_load(ring, ONBEAT_RING_AT_STATE) == 2 ? ONBEAT_RING_ENDED : ONBEAT_RING_DIED;
}

#endif
