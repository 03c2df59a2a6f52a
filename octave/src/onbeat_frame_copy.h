/* What the compiled functions of Octave and MATLAB share: open cameras by name, and one copy of a picture. C99 or C++11. */
#ifndef ONBEAT_FRAME_COPY_H
#define ONBEAT_FRAME_COPY_H

#include "onbeat_frames.h"

#define ONBEAT_MOST_CAMERAS 16

struct onbeat_camera {
    char name[80];
    struct onbeat_frames frames;
};

/* Returns the ring of a camera in this generation, mapped by an earlier call or now; NULL if there is none, with a sentence in `why`,
 * which is empty if the camera has another ring by now. */
static inline struct onbeat_frames *onbeat_camera_of(const char *name, uint64_t generation, char *why, size_t length) {
    static struct onbeat_camera cameras[ONBEAT_MOST_CAMERAS];
    static int next = 0;
    struct onbeat_camera *own = NULL;
    why[0] = 0;
    for (int at = 0; at < ONBEAT_MOST_CAMERAS; at++) {
        if (cameras[at].frames.base && !strcmp(cameras[at].name, name)) own = &cameras[at];
    }
    if (own && onbeat_frames_load(&own->frames, 24) == generation) return &own->frames;
    if (!own) {
        own = &cameras[next];
        next = (next + 1) % ONBEAT_MOST_CAMERAS;
    }
    onbeat_frames_close(&own->frames);
    if (onbeat_frames_open(&own->frames, name)) {
        snprintf(why, length, "%s", own->frames.why);
        return NULL;
    }
    snprintf(own->name, sizeof own->name, "%s", name);
    return onbeat_frames_load(&own->frames, 24) == generation ? &own->frames : NULL;
}

/* Returns whether frame `number` is in its slot; the pixels are at `onbeat_pixels_of`. */
static inline int onbeat_holds(struct onbeat_frames *frames, uint64_t number) {
    frames->number = number;
    return onbeat_frames_is_valid(frames);
}

static inline const uint8_t *onbeat_pixels_of(const struct onbeat_frames *frames, uint64_t number) {
    return frames->base + ONBEAT_FRAMES_ALIGN + number % frames->slots * frames->slot_bytes;
}

#endif
