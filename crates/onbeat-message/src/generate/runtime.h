/* Messages with their codec: CDR, little-endian. Generated from their definitions by `onbeat message generate`. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "this codec copies numbers as they are: it needs a little-endian processor"
#endif

#ifndef ONBEAT_CDR
#define ONBEAT_CDR

/* Text: UTF-8, with a 0 behind it that `length` does not count. */
struct onbeat_text {
    uint32_t length;
    char *at;
};

/* Wide text: units of UTF-16, with a 0 behind them that `length` does not count. */
struct onbeat_wide_text {
    uint32_t length;
    uint16_t *at;
};

/* A message being encoded or decoded: the bytes behind its header, and memory for sequences and texts. */
struct onbeat_cdr {
    uint8_t *body;
    size_t at, end;
    uint8_t *memory;
    size_t used, room;
    int failed, depth;
};

static inline struct onbeat_cdr onbeat_cdr_over(uint8_t *bytes, size_t length, void *memory, size_t room) {
    struct onbeat_cdr c;
    memset(&c, 0, sizeof c);
    c.failed = length < 4;
    c.body = bytes + 4;
    c.end = c.failed ? 0 : length - 4;
    c.memory = (uint8_t *)memory;
    c.room = room;
    return c;
}

static inline void onbeat_cdr_put_header(struct onbeat_cdr *c) {
    static const uint8_t header[4] = {0, 1, 0, 0};
    if (!c->failed) memcpy(c->body - 4, header, 4);
}

static inline void onbeat_cdr_get_header(struct onbeat_cdr *c) {
    if (!c->failed) c->failed = c->body[-4] != 0 || c->body[-3] != 1;
}

/* Returns the place of `count` numbers of `size` bytes, aligned; NULL if they do not fit. */
static inline uint8_t *onbeat_cdr_place(struct onbeat_cdr *c, size_t size, size_t count, int is_put) {
    const size_t begin = (c->at + size - 1) / size * size;
    if (c->failed || begin > c->end || count > (c->end - begin) / size) {
        c->failed = 1;
        return NULL;
    }
    if (is_put) memset(c->body + c->at, 0, begin - c->at);
    c->at = begin + size * count;
    return c->body + begin;
}

static inline void onbeat_cdr_put(struct onbeat_cdr *c, const void *from, size_t size, size_t count) {
    if (count == 0) return;
    uint8_t *place = onbeat_cdr_place(c, size, count, 1);
    if (place) memcpy(place, from, size * count);
}

static inline void onbeat_cdr_get(struct onbeat_cdr *c, void *to, size_t size, size_t count) {
    if (count == 0 || c->failed) return;
    const uint8_t *place = onbeat_cdr_place(c, size, count, 0);
    if (place) memcpy(to, place, size * count);
}

static inline void *onbeat_cdr_memory(struct onbeat_cdr *c, size_t count, size_t size) {
    const size_t begin = (c->used + 7) / 8 * 8;
    if (c->failed || begin > c->room || count > (c->room - begin) / size) {
        c->failed = 1;
        return NULL;
    }
    c->used = begin + count * size;
    return c->memory + begin;
}

static inline void onbeat_cdr_put_count(struct onbeat_cdr *c, uint32_t count, uint32_t most) {
    if (count > most) c->failed = 1;
    onbeat_cdr_put(c, &count, 4, 1);
}

static inline uint32_t onbeat_cdr_get_count(struct onbeat_cdr *c, uint32_t most) {
    uint32_t count = 0;
    onbeat_cdr_get(c, &count, 4, 1);
    if (count > most) c->failed = 1;
    return c->failed ? 0 : count;
}

static inline void onbeat_cdr_put_text(struct onbeat_cdr *c, const struct onbeat_text *text, uint32_t most) {
    static const char end = 0;
    if (most && text->length > most) c->failed = 1;
    onbeat_cdr_put_count(c, text->length + 1, UINT32_MAX);
    onbeat_cdr_put(c, text->at, 1, text->length);
    onbeat_cdr_put(c, &end, 1, 1);
}

static inline void onbeat_cdr_get_text(struct onbeat_cdr *c, struct onbeat_text *text, uint32_t most) {
    const uint32_t count = onbeat_cdr_get_count(c, UINT32_MAX);
    text->length = count > 0 ? count - 1 : 0;
    if (most && text->length > most) c->failed = 1;
    text->at = (char *)onbeat_cdr_memory(c, (size_t)text->length + 1, 1);
    if (c->failed) return;
    onbeat_cdr_get(c, text->at, 1, text->length);
    text->at[text->length] = 0;
    if (count > 0) (void)onbeat_cdr_place(c, 1, 1, 0);
}

static inline void onbeat_cdr_put_wide(struct onbeat_cdr *c, const struct onbeat_wide_text *text, uint32_t most) {
    onbeat_cdr_put_count(c, text->length, most ? most : UINT32_MAX);
    onbeat_cdr_put(c, text->at, 2, text->length);
}

static inline void onbeat_cdr_get_wide(struct onbeat_cdr *c, struct onbeat_wide_text *text, uint32_t most) {
    text->length = onbeat_cdr_get_count(c, most ? most : UINT32_MAX);
    text->at = (uint16_t *)onbeat_cdr_memory(c, (size_t)text->length + 1, 2);
    if (c->failed) return;
    onbeat_cdr_get(c, text->at, 2, text->length);
    text->at[text->length] = 0;
}
#endif
