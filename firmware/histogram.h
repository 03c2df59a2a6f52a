/* A histogram of times in HdrHistogram's layout: three significant digits up to 134 ms, and its line in an interval log (version 1.3). */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

enum { HISTOGRAM_COUNTS = 18 * 1024 };

struct histogram {
    /* Of an interval, which therefore has at most 65,535 samples. */
    uint16_t counts[HISTOGRAM_COUNTS];
    /* Counts outside of these places are 0; they are valid with the first sample. */
    uint32_t first, last;
    uint64_t max_ns;
    uint32_t samples;
};

void histogram_record(struct histogram *histogram, uint64_t ns);

/* Writes the line of an interval into `line`, with its end, and empties the histogram. Returns its length; 0 when it does not fit. */
size_t histogram_line(struct histogram *histogram, const char *tag, uint64_t from_ns, uint64_t to_ns, char *line, size_t most);

/* Appends a text, or a number, to a line, and returns where it now ends. Nothing is written at or after `end`. */
char *append_text(char *at, const char *end, const char *text);
char *append_number(char *at, const char *end, uint64_t number);

#endif
