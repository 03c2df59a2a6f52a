/* Rings of onbeat for C and C++: reads the records that a robot or a bus publishes in shared memory.
 *
 * This file is complete; no library is needed. The writer is never delayed, and onbeat_ring_next makes no system call. docs/ring.md
 * specifies the memory; `onbeat message generate c TYPE` writes the codec of the records.
 *
 *     struct onbeat_ring ring;
 *     struct onbeat_record record;
 *     static uint8_t bytes[65536];
 *     if (onbeat_ring_open(&ring, "walker/cycle") != ONBEAT_RING_OK) ...
 *     for (;;) switch (onbeat_ring_next(&ring, &record, bytes, sizeof bytes)) {
 *         case ONBEAT_RING_RECORD: ...                    record.length bytes, of record.number, at record.at_ns
 *         case ONBEAT_RING_LOST: ...                      record.lost records were overwritten before they were read
 *         case ONBEAT_RING_NOTHING: if (onbeat_ring_check(&ring) != ONBEAT_RING_OK) return; nanosleep(...)
 *     }
 *
 * C11 or C++17 with POSIX 2008 and the __atomic builtins of GCC and Clang, Linux. Use a handle in one thread only; open one per thread.
 */
#ifndef ONBEAT_RING_H
#define ONBEAT_RING_H

#include <fcntl.h>
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

/* Offsets in the header, in bytes. */
enum onbeat_ring_at {
    ONBEAT_RING_AT_MAGIC = 0,
    ONBEAT_RING_AT_VERSION = 8,
    ONBEAT_RING_AT_TOTAL_BYTES = 16,
    ONBEAT_RING_AT_WRITER = 32,
    ONBEAT_RING_AT_STATE = 40,
    ONBEAT_RING_AT_SLOTS = 48,
    ONBEAT_RING_AT_SLOT_BYTES = 56,
    ONBEAT_RING_AT_SLOTS_AT = 64,
    ONBEAT_RING_AT_TYPE_HASH = 128,
    ONBEAT_RING_AT_TYPE_NAME = 160,
    ONBEAT_RING_AT_WRITTEN = 320
};

enum onbeat_ring_result {
    ONBEAT_RING_OK = 0,
    ONBEAT_RING_RECORD = 1,      /* the next record was copied */
    ONBEAT_RING_NOTHING = 2,     /* all records have been read */
    ONBEAT_RING_LOST = 3,        /* records were overwritten before they were read */
    ONBEAT_RING_NO_CHANNEL = -1, /* the channel does not exist, or may not be read */
    ONBEAT_RING_NOT_A_RING = -2, /* another file, another version, or not complete yet */
    ONBEAT_RING_ENDED = -3,      /* the writer has ended in order */
    ONBEAT_RING_REPLACED = -4,   /* another writer uses the channel: open it again */
    ONBEAT_RING_DIED = -5        /* the writer was killed */
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
};

static inline uint64_t onbeat_ring_load(const struct onbeat_ring *ring, uint64_t at) {
    return __atomic_load_n((const uint64_t *)(const void *)(ring->base + at), __ATOMIC_ACQUIRE);
}

static inline void onbeat_ring_close(struct onbeat_ring *ring) {
    if (ring->base) munmap((void *)(uintptr_t)ring->base, ring->bytes);
    memset(ring, 0, sizeof *ring);
}

static inline int onbeat_ring_is_valid(const struct onbeat_ring *ring) {
    static const char magic[8] = {'O', 'N', 'B', 'E', 'A', 'T', 'R', 'G'};
    const uint64_t number = onbeat_ring_load(ring, ONBEAT_RING_AT_MAGIC);
    if (memcmp(&number, magic, 8) || onbeat_ring_load(ring, ONBEAT_RING_AT_VERSION) != ONBEAT_RING_VERSION) return 0;
    if (ring->slots < 2 || (ring->slots & (ring->slots - 1)) || ring->slot_bytes < 64 || ring->slot_bytes % 64) return 0;
    if (ring->slots_at % 64 || ring->slots_at < ONBEAT_RING_HEADER_BYTES || ring->slots_at > ring->bytes) return 0;
    return ring->slots <= (ring->bytes - ring->slots_at) / ring->slot_bytes;
}

/* Opens a channel, such as "walker/cycle", for records from now on. */
static inline int onbeat_ring_open(struct onbeat_ring *ring, const char *channel) {
    const char *slash = strchr(channel, '/');
    char path[192];
    struct stat status;
    memset(ring, 0, sizeof *ring);
    if (!slash || strchr(slash + 1, '/') || strlen(channel) > 129) return ONBEAT_RING_NO_CHANNEL;
    snprintf(path, sizeof path, "/dev/shm/onbeat:%.*s:%s", (int)(slash - channel), channel, slash + 1);

    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) return ONBEAT_RING_NO_CHANNEL;
    void *base = MAP_FAILED;
    if (fstat(file, &status) == 0 && (uint64_t)status.st_size >= ONBEAT_RING_HEADER_BYTES)
        base = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (base == MAP_FAILED) return ONBEAT_RING_NOT_A_RING;

    ring->base = (const uint8_t *)base;
    ring->bytes = (size_t)status.st_size;
    ring->slots = onbeat_ring_load(ring, ONBEAT_RING_AT_SLOTS);
    ring->slot_bytes = onbeat_ring_load(ring, ONBEAT_RING_AT_SLOT_BYTES);
    ring->slots_at = onbeat_ring_load(ring, ONBEAT_RING_AT_SLOTS_AT);
    if (!onbeat_ring_is_valid(ring)) {
        onbeat_ring_close(ring);
        return ONBEAT_RING_NOT_A_RING;
    }
    memcpy(ring->type, ring->base + ONBEAT_RING_AT_TYPE_NAME, 160);
    memcpy(ring->hash, "RIHS01_", 7);
    for (int i = 0; i < 32; i++)
        snprintf(ring->hash + 7 + 2 * i, 3, "%02x", (unsigned)ring->base[ONBEAT_RING_AT_TYPE_HASH + i]);
    ring->next = onbeat_ring_load(ring, ONBEAT_RING_AT_WRITTEN) + 1;
    return ONBEAT_RING_OK;
}

/* Moves to the oldest record that is kept. */
static inline void onbeat_ring_rewind(struct onbeat_ring *ring) {
    const uint64_t written = onbeat_ring_load(ring, ONBEAT_RING_AT_WRITTEN);
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
    const uint64_t written = onbeat_ring_load(ring, ONBEAT_RING_AT_WRITTEN);
    if (written < ring->next) return ONBEAT_RING_NOTHING;
    if (written - ring->next < ring->slots - 1 && onbeat_ring_copy(ring, record, bytes, room)) {
        ring->next++;
        ring->received++;
        return ONBEAT_RING_RECORD;
    }

    /* An eighth of the ring beyond the oldest record, so that the writer does not overtake this reader again at once. */
    const uint64_t now = onbeat_ring_load(ring, ONBEAT_RING_AT_WRITTEN);
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
