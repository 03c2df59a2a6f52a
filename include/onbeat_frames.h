/* Reads pictures of a running camera; the memory is below, its guarantees are in docs/frames.md. C99 or C++11, Linux, one header, no library.
 *
 *     struct onbeat_frames left;
 *     if (onbeat_frames_open(&left, "left")) { fprintf(stderr, "%s\n", left.why); return 1; }
 *     const uint8_t *pixels = onbeat_frames_newest(&left);     NULL if there is no new one: onbeat_frames_check tells whether one can come
 *     use(pixels, left.width, left.height, left.channels);
 *     if (!onbeat_frames_is_valid(&left)) ...                  overwritten meanwhile: what was computed is void
 *     onbeat_frames_close(&left);
 *
 * No lock is held at any time. Directories and files are checked as those of rings (onbeat_ring.h).
 *
 * Memory, version 1. Numbers are 64 bits wide, in native byte order, at multiples of 8; those that change are accessed as aligned atomic words.
 * The first seven words are those of a ring of messages. Times are of CLOCK_MONOTONIC in ns, the clock of a robot's cycles.
 *
 *        0  magic: the bytes ONBEATFR; written last, with release
 *        8  version (1)
 *       16  bytes of the file: 2 MiB + slots * slot_bytes, at most 1.5 GiB
 *       24  generation: rings of this name, one after the other
 *       32  writer: start time in clock ticks since boot * 2^22 + process id
 *       40  state: 1 running, 2 ended in order, 3 replaced
 *       48  slots, 4 to 64
 *       56  slot_bytes: frame_bytes, rounded up to 2 MiB
 *       64  offset of the pixels of slot 0: 2 MiB
 *       72  offset of the stamp of slot 0: 4096
 *       80  width, at 88 height: 1 to 16384
 *       96  channels: 1 gray, 3 colour
 *      104  enum onbeat_frames_layout
 *      112  frame_bytes
 *      120  time of creation
 *      128  CLOCK_REALTIME - CLOCK_MONOTONIC at the creation, in ns
 *      136  bytes of the description, at most 3072
 *      144  first: number of the last frame before this ring
 *      320  newest: number of the newest frame, first for none; written with release. Its cache line holds nothing else
 *      384  frames dropped before publication
 *      392  how often the source was opened again
 *      512  sequence of the status: odd while it is written
 *      520  bytes of the status, at most 496; 0 while pictures come
 *      528  the status: why no pictures come, one sentence
 *     1024  the description, JSON: source, decoder
 *     4096  the stamps, 128 bytes (two cache lines) each
 *    2 MiB  the pixels
 *
 * A stamp; frame n is in slot n modulo slots:
 *
 *        0  sequence: 2n when frame n is complete, 2n - 1 while it is written
 *        8  number of the frame, from 1
 *       16  captured; at 24 last byte received, at 32 decoded, at 40 published
 *       48  time of the source's own clock, its zero unknown; 0 for none
 *       56  where the capture time comes from: 1 arrival of the first byte, 2 the device, 3 the source's clock, fitted to arrivals
 *       64  frames dropped between the frame before and this one
 *
 * Writing frame n: store sequence = 2n - 1; release fence; pixels, times; store sequence = 2n with release; store newest = n with release.
 * Reading the newest frame n: load newest with acquire; load sequence of its slot with acquire; if it is 2n, copy or use the pixels; acquire
 * fence; load sequence again. If it is still 2n, it was one picture. Otherwise begin again. */
#ifndef ONBEAT_FRAMES_H
#define ONBEAT_FRAMES_H

#include "onbeat_ring.h"

#define ONBEAT_FRAMES_ALIGN (2u << 20)
#define ONBEAT_FRAMES_STAMPS_AT 4096u
#define ONBEAT_FRAMES_STAMP_BYTES 128u
#define ONBEAT_FRAMES_MOST_SIDE 16384u

/* Columns: planes of red, green and blue, each column by column; row r, column c of channel k is at (k * width + c) * height + r, the matrix of
 * MATLAB, Octave, Fortran and Julia. Rows: red, green, blue side by side, row by row. Decoded: luma row by row, then blue and red chroma with half
 * the columns and rows, rounded up (I420); luma alone if gray. */
enum onbeat_frames_layout { ONBEAT_FRAMES_COLUMNS = 1, ONBEAT_FRAMES_ROWS = 2, ONBEAT_FRAMES_DECODED = 3 };

struct onbeat_frames {
    const uint8_t *base;
    size_t bytes;
    uint64_t slots, slot_bytes, frame_bytes;
    uint32_t width, height, channels, layout;
    /* The frame taken last: its number, and times of CLOCK_MONOTONIC in ns. */
    uint64_t number, capture_ns, received_ns, decoded_ns, published_ns;
    /* Frames between the one taken before and the last one, added up. */
    uint64_t passed_over;
    char why[ONBEAT_RING_PATH + 256]; /* a sentence, after onbeat_frames_open failed */
};

static inline uint64_t onbeat_frames_load(const struct onbeat_frames *frames, uint64_t at) {
    return __atomic_load_n((const uint64_t *)(const void *)(frames->base + at), __ATOMIC_ACQUIRE);
}

static inline int onbeat_frames_is_consistent(const uint64_t *head) {
    const uint64_t slots = head[6], width = head[10], height = head[11], channels = head[12], layout = head[13];
    if (width < 1 || width > ONBEAT_FRAMES_MOST_SIDE || height < 1 || height > ONBEAT_FRAMES_MOST_SIDE) return 0;
    if (slots < 4 || slots > 64 || (channels != 1 && channels != 3) || layout < 1 || layout > 3) return 0;
    uint64_t bytes = width * height * channels;
    if (layout == ONBEAT_FRAMES_DECODED && channels == 3) bytes = width * height + 2 * ((width + 1) / 2) * ((height + 1) / 2);
    const uint64_t slot = (bytes + ONBEAT_FRAMES_ALIGN - 1) / ONBEAT_FRAMES_ALIGN * ONBEAT_FRAMES_ALIGN;
    return head[2] == ONBEAT_FRAMES_ALIGN + slots * slot && head[2] <= ONBEAT_RING_MOST_BYTES && head[7] == slot &&
           head[8] == ONBEAT_FRAMES_ALIGN && head[9] == ONBEAT_FRAMES_STAMPS_AT && head[14] == bytes;
}

static inline int onbeat_frames_map(struct onbeat_frames *frames, int file, const char *path, const char *name) {
    static const char magic[8] = {'O', 'N', 'B', 'E', 'A', 'T', 'F', 'R'};
    uint64_t head[128];
    struct stat status;
    const char *why = NULL;
    if (pread(file, head, sizeof head, 0) != (ssize_t)sizeof head || head[0] == 0) why = "it is being created; open it again in a moment";
    else if (memcmp(head, magic, 8)) why = "it begins with other bytes";
    else if (pread(file, head, sizeof head, 0) != (ssize_t)sizeof head || fstat(file, &status) != 0) why = strerror(errno);
    else if (head[1] != 1) why = "it has another version than 1";
    else if (!onbeat_frames_is_consistent(head)) why = "the sizes in its header contradict each other";
    else if ((uint64_t)status.st_size < head[2] || (uint64_t)status.st_blocks * 512 < head[2]) why = "it has less memory than its header states";
    void *base = why ? MAP_FAILED : mmap(NULL, (size_t)head[2], PROT_READ, MAP_SHARED, file, 0);
    if (!why && base == MAP_FAILED) why = strerror(errno);
    if (why) {
        snprintf(frames->why, sizeof frames->why, "%s/%s does not hold the pictures of a camera: %s", path, name, why);
        return ONBEAT_RING_NOT_A_RING;
    }
    frames->base = (const uint8_t *)base;
    frames->bytes = (size_t)head[2];
    frames->slots = head[6];
    frames->slot_bytes = head[7];
    frames->width = (uint32_t)head[10];
    frames->height = (uint32_t)head[11];
    frames->channels = (uint32_t)head[12];
    frames->layout = (uint32_t)head[13];
    frames->frame_bytes = head[14];
    frames->number = head[40] > head[18] ? head[40] - 1 : head[18];
    return ONBEAT_RING_OK;
}

/* Opens a camera; the first frame is the newest one there is. Returns 0, or a number of onbeat_ring.h with a sentence in `why`. */
static inline int onbeat_frames_open(struct onbeat_frames *frames, const char *camera) {
    struct onbeat_ring looked;
    char name[80], path[ONBEAT_RING_PATH];
    memset(frames, 0, sizeof *frames);
    memset(&looked, 0, sizeof looked);
    if (strchr(camera, '/') || strlen(camera) > 64 || camera[0] == '.' || !camera[0]) {
        snprintf(frames->why, sizeof frames->why, "\"%.64s\" is not the name of a camera", camera);
        return ONBEAT_RING_NO_CHANNEL;
    }
    snprintf(name, sizeof name, "%.64s.frames", camera);
    for (int place = ONBEAT_RING_OWN; place <= ONBEAT_RING_OF_ROOT_IN_MEMORY; place++) {
        if (!onbeat_ring_directory(place, path, sizeof path)) continue;
        const int directory = onbeat_ring_open_directory(&looked, path);
        const int is_second = place == ONBEAT_RING_OWN_IN_MEMORY || place == ONBEAT_RING_OF_ROOT_IN_MEMORY;
        if (directory == ONBEAT_RING_NO_CHANNEL || (directory < 0 && is_second)) continue;
        const int file = directory < 0 ? directory : onbeat_ring_open_file(&looked, directory, path, name);
        if (directory >= 0) close(directory);
        if (file == ONBEAT_RING_NO_CHANNEL) continue;
        if (file < 0) {
            snprintf(frames->why, sizeof frames->why, "%s", looked.why);
            return file;
        }
        const int result = onbeat_frames_map(frames, file, path, name);
        close(file);
        return result;
    }
    snprintf(frames->why, sizeof frames->why, "camera %s is not running; start it with: onbeat camera run SOURCE --name %s", camera, camera);
    return ONBEAT_RING_NO_CHANNEL;
}

/* Returns whether the slot of a frame holds it. Twice 2^63, which another process may have stored, would be 0, the sequence of an empty slot. */
static inline int onbeat_frames_holds(const struct onbeat_frames *frames, uint64_t number) {
    const uint64_t at = ONBEAT_FRAMES_STAMPS_AT + number % frames->slots * ONBEAT_FRAMES_STAMP_BYTES;
    return number != 0 && number >> 63 == 0 && onbeat_frames_load(frames, at) == 2 * number;
}

/* Returns whether the memory still holds the frame taken last. */
static inline int onbeat_frames_is_valid(const struct onbeat_frames *frames) {
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return onbeat_frames_holds(frames, frames->number);
}

/* Takes the newest frame, without a copy; NULL if there is no new one. */
static inline const uint8_t *onbeat_frames_newest(struct onbeat_frames *frames) {
    const uint64_t newest = onbeat_frames_load(frames, 320);
    if (newest <= frames->number) return NULL;
    const uint64_t slot = newest % frames->slots, at = ONBEAT_FRAMES_STAMPS_AT + slot * ONBEAT_FRAMES_STAMP_BYTES;
    if (!onbeat_frames_holds(frames, newest)) return NULL;
    frames->passed_over += newest - frames->number - 1;
    frames->number = newest;
    frames->capture_ns = onbeat_frames_load(frames, at + 16);
    frames->received_ns = onbeat_frames_load(frames, at + 24);
    frames->decoded_ns = onbeat_frames_load(frames, at + 32);
    frames->published_ns = onbeat_frames_load(frames, at + 40);
    return onbeat_frames_is_valid(frames) ? frames->base + ONBEAT_FRAMES_ALIGN + slot * frames->slot_bytes : NULL;
}

/* Checks that the camera is alive: ONBEAT_RING_OK, _ENDED, _DIED, or _REPLACED by a ring that is to be opened, as when its pictures have another
 * size. Reads /proc: call it after a time without a new picture. */
static inline int onbeat_frames_check(const struct onbeat_frames *frames) {
    struct onbeat_ring ring;
    ring.base = frames->base; /* the words that are read are those of a ring of messages */
    return onbeat_ring_check(&ring);
}

static inline void onbeat_frames_close(struct onbeat_frames *frames) {
    if (frames->base) munmap((void *)(uintptr_t)frames->base, frames->bytes);
    frames->base = NULL;
}

#endif
