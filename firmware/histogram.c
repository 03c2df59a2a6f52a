/* Layout and encoding of HdrHistogram: github.com/HdrHistogram/HdrHistogram, AbstractHistogram.java (public domain, CC0). The payload is in
 * stored blocks of zlib (RFC 1950, 1951): readers want it compressed, and a microcontroller has no memory for that. */
#include "histogram.h"

#include <string.h>

/* With three digits 2,048 values have a bucket each; every further bucket has the upper half of twice the range. */
enum { HALF = 1024, HALF_BITS = 10, DIGITS = 3 };
#define HIGHEST ((1ull << 27) - 1)
#define COOKIE 0x1C849313u
#define COMPRESSED_COOKIE 0x1C849314u

/* Bytes of the payload, and where they go: into base64, with the checksum of zlib. */
struct encoding {
    char *at;
    const char *end;
    uint32_t bits, have, adler_low, adler_high;
};

void histogram_record(struct histogram *histogram, uint64_t ns)
{
    uint64_t value = ns < HIGHEST ? ns : HIGHEST;
    uint32_t bucket = 0, at;

    while (value >> bucket >= 2 * HALF)
        bucket++;
    at = (bucket << HALF_BITS) + (uint32_t)(value >> bucket);
    histogram->counts[at]++;
    histogram->first = histogram->samples == 0 || at < histogram->first ? at : histogram->first;
    histogram->last = histogram->samples == 0 || at > histogram->last ? at : histogram->last;
    histogram->max_ns = ns > histogram->max_ns ? ns : histogram->max_ns;
    histogram->samples++;
}

char *append_text(char *at, const char *end, const char *text)
{
    while (*text && at < end)
        *at++ = *text++;
    return at;
}

char *append_number(char *at, const char *end, uint64_t number)
{
    char digits[20];
    size_t count = 0;

    do
        digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    while (count && at < end)
        *at++ = digits[--count];
    return at;
}

/* A time in units of 10 to the power of `power` nanoseconds, with all its digits. */
static char *append_time(char *at, const char *end, uint64_t ns, unsigned power)
{
    uint64_t unit = 1;

    while (power--)
        unit *= 10;
    at = append_number(at, end, ns / unit);
    at = append_text(at, end, ".");
    for (unit /= 10; unit; unit /= 10)
        at = append_number(at, end, ns / unit % 10);
    return at;
}

static void put_base64(struct encoding *out, uint8_t byte)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    out->bits = out->bits << 8 | byte;
    if (++out->have < 3 || out->end - out->at < 4)
        return;
    for (int shift = 18; shift >= 0; shift -= 6)
        *out->at++ = digits[out->bits >> shift & 63u];
    out->have = 0;
}

static void put_number(struct encoding *out, uint64_t number, int bytes, void (*put)(struct encoding *, uint8_t))
{
    for (int at = bytes - 1; at >= 0; at--)
        put(out, (uint8_t)(number >> 8 * at));
}

/* Counts bytes only, for the lengths that come before them. */
static void count_byte(struct encoding *out, uint8_t byte)
{
    (void)byte;
    out->have++;
}

static void put_checked(struct encoding *out, uint8_t byte)
{
    out->adler_low = (out->adler_low + byte) % 65521u;
    out->adler_high = (out->adler_high + out->adler_low) % 65521u;
    put_base64(out, byte);
}

static void put_leb128(struct encoding *out, int64_t number, void (*put)(struct encoding *, uint8_t))
{
    uint64_t zigzag = (uint64_t)number << 1 ^ (number < 0 ? ~0ull : 0);

    for (; zigzag >= 0x80; zigzag >>= 7)
        put(out, (uint8_t)(zigzag | 0x80));
    put(out, (uint8_t)zigzag);
}

/* Counts up to the last one that is not 0; a run of zeros is its negative length. */
static void put_counts(struct encoding *out, const struct histogram *histogram, void (*put)(struct encoding *, uint8_t))
{
    int64_t zeros = histogram->first;

    for (uint32_t at = histogram->first; at <= histogram->last; at++) {
        if (histogram->counts[at] == 0) {
            zeros++;
            continue;
        }
        if (zeros)
            put_leb128(out, -zeros, put);
        zeros = 0;
        put_leb128(out, histogram->counts[at], put);
    }
}

static void put_payload(struct encoding *out, const struct histogram *histogram, uint32_t counts)
{
    put_number(out, COOKIE, 4, put_checked);
    put_number(out, counts, 4, put_checked);
    put_number(out, 0, 4, put_checked); /* offset of normalization */
    put_number(out, DIGITS, 4, put_checked);
    put_number(out, 1, 8, put_checked); /* lowest discernible value */
    put_number(out, HIGHEST, 8, put_checked);
    put_number(out, 0x3FF0000000000000u, 8, put_checked); /* ratio to doubles: 1.0 */
    put_counts(out, histogram, put_checked);
}

static char *append_histogram(char *at, const char *end, const struct histogram *histogram)
{
    struct encoding counts = {0};
    struct encoding out = {.at = at, .end = end, .adler_low = 1};
    uint32_t bytes, fill;

    put_counts(&counts, histogram, count_byte);
    bytes = 40 + counts.have;
    put_number(&out, COMPRESSED_COOKIE, 4, put_base64);
    put_number(&out, 2 + 5 + bytes + 4, 4, put_base64);
    put_number(&out, 0x7801, 2, put_base64);
    put_base64(&out, 1); /* the last block, stored */
    put_number(&out, __builtin_bswap16((uint16_t)bytes), 2, put_base64);
    put_number(&out, __builtin_bswap16((uint16_t)~bytes), 2, put_base64);
    put_payload(&out, histogram, counts.have);
    put_number(&out, (uint64_t)out.adler_high << 16 | out.adler_low, 4, put_base64);
    fill = (3 - out.have) % 3;
    /* What fills the last group is cut off, and '=' in its place. */
    for (uint32_t left = fill; left; left--)
        put_base64(&out, 0);
    memset(out.at - fill, '=', fill);
    return out.at;
}

size_t histogram_line(struct histogram *histogram, const char *tag, uint64_t from_ns, uint64_t to_ns, char *line, size_t most)
{
    const char *end = line + most;
    char *at = append_text(line, end, "Tag=");

    at = append_text(at, end, tag);
    at = append_text(at, end, ",");
    at = append_time(at, end, from_ns, 9);
    at = append_text(at, end, ",");
    at = append_time(at, end, to_ns - from_ns, 9);
    at = append_text(at, end, ",");
    at = append_time(at, end, histogram->max_ns, 6);
    at = append_text(at, end, ",");
    at = append_histogram(at, end, histogram);
    at = append_text(at, end, "\n");
    memset(histogram->counts + histogram->first, 0, (histogram->last - histogram->first + 1) * sizeof histogram->counts[0]);
    histogram->max_ns = 0;
    histogram->samples = 0;
    return end - at < 4 ? 0 : (size_t)(at - line);
}
