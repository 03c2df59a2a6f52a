/* Loops and a ring in C and C++, through header and library alone; prints what they did, as lines of JSON. Started by tests/c_library.rs. */
#define _POSIX_C_SOURCE 200809L
#include <onbeat.h>

#include <sys/wait.h>
#include <time.h>

struct count {
    unsigned long long cycles, stop_at, work_ns, steps_ns, last_index;
};

static uint64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

/* Of the last cycle: a function may pass on the -1 of a call that failed in it. */
static int answer = ONBEAT_LOOP_STOP;

static int cycle(const struct onbeat_loop_cycle *now, void *user) {
    struct count *count = (struct count *)user;
    count->cycles++;
    count->steps_ns += now->dt_ns;
    count->last_index = now->index;
    while (now_ns() < now->start_ns + count->work_ns) {}
    return count->cycles == count->stop_at ? answer : ONBEAT_LOOP_CONTINUE;
}

static void run(const char *name, const struct onbeat_loop_options *options, unsigned long long stop_at, unsigned long long work_ns) {
    struct count count = {0, stop_at, work_ns, 0, 0};
    struct onbeat_loop_report report;
    memset(&report, 255, sizeof report);
    const int result = onbeat_loop_run(options, cycle, &count, &report);
    printf("{\"name\": \"%s\", \"result\": %d, \"called\": %llu, \"steps_ns\": %llu, \"last_index\": %llu, \"releases\": %llu, \"cycles\": %llu, \"skipped\": %llu, "
           "\"lost\": %llu, \"ended\": %u, \"refused\": %u, \"sentence\": \"%s\"}\n",
           name, result, count.cycles, count.steps_ns, count.last_index, (unsigned long long)report.releases, (unsigned long long)report.cycles,
           (unsigned long long)report.skipped, (unsigned long long)report.lost, report.ended, report.refused, onbeat_last_error());
}

static void loops(const char *run_file) {
    struct onbeat_loop_options options;
    memset(&options, 0, sizeof options);
    options.period_ns = 1000000;
    options.releases = 200;
    options.run_file = run_file;
    run("complete", &options, 0, 0);
    run("exists", &options, 0, 0);

    /* However many releases a busy machine skips, these end by what the function does. */
    options.run_file = NULL;
    options.releases = 0;
    run("stopped", &options, 10, 0);
    answer = -1;
    run("failed", &options, 10, 0);
    options.on_overrun = ONBEAT_LOOP_STOP_ON_OVERRUN;
    run("overrun", &options, 0, 5000000);
    options.on_overrun = 7;
    run("policy", &options, 0, 0);
    options.on_overrun = ONBEAT_LOOP_SKIP;
    options.period_ns = 0;
    run("period", &options, 0, 0);

    options.period_ns = 1000000;
    options.releases = 20;
    options.priority = 1;
    options.flags = ONBEAT_LOOP_ACCEPT_REFUSALS;
    run("priority", &options, 0, 0);
    printf("{\"name\": \"null\", \"result\": %d, \"version\": %d}\n", onbeat_loop_run(NULL, cycle, NULL, NULL),
           onbeat_loop_run_version(99, &options, cycle, NULL, NULL));
}

static void delayed_lock(void) {
    struct onbeat_delayed_lock lock;
    onbeat_delayed_lock_init(&lock);
    const int free_lock = onbeat_delayed_lock_enter(&lock, UINT64_MAX / 2);
    const int held = onbeat_delayed_lock_enter_loop(&lock);
    onbeat_delayed_lock_leave(&lock);
    onbeat_delayed_lock_publish(&lock, now_ns() + 60000000000u);
    const int short_section = onbeat_delayed_lock_enter(&lock, 1000000000u);
    onbeat_delayed_lock_leave(&lock);
    const int long_section = onbeat_delayed_lock_enter(&lock, 90000000000u);
    const int of_loop = onbeat_delayed_lock_enter_loop(&lock);
    const int second = onbeat_delayed_lock_enter(&lock, 1);
    onbeat_delayed_lock_leave(&lock);
    onbeat_delayed_lock_withdraw(&lock);
    const int withdrawn = onbeat_delayed_lock_enter(&lock, 90000000000u);
    printf("{\"name\": \"delayed\", \"free\": %d, \"held\": %d, \"short\": %d, \"long\": %d, \"loop\": %d, \"second\": %d, \"withdrawn\": %d, "
           "\"null\": %d}\n",
           free_lock, held, short_section, long_section, of_loop, second, withdrawn, onbeat_delayed_lock_enter_loop(NULL));
}

/* Reads a ring without records in which another process has stored a number. */
static int next_of_foreign(uint64_t written) {
    static uint64_t words[ONBEAT_RING_HEADER_BYTES / 8 + 4 * 64 / 8];
    struct onbeat_ring reader;
    struct onbeat_record record;
    uint8_t bytes[16];
    memset(&reader, 0, sizeof reader);
    words[ONBEAT_RING_AT_WRITTEN / 8] = written;
    reader.base = (const uint8_t *)words;
    reader.slots = 4;
    reader.slot_bytes = 64;
    reader.slots_at = ONBEAT_RING_HEADER_BYTES;
    reader.next = written;
    return onbeat_ring_next(&reader, &record, bytes, sizeof bytes);
}

static void ring(const char *channel) {
    struct onbeat_ring_settings settings;
    struct onbeat_ring reader;
    struct onbeat_record record;
    uint8_t bytes[16] = {0};
    memset(&settings, 0, sizeof settings);
    memset(&record, 0, sizeof record);
    settings.records = 8;
    settings.record_bytes = 8;
    settings.type_name = "example/Number";
    settings.type_hash = "RIHS01_0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f";

    struct onbeat_ring_writer *writer = onbeat_ring_create(channel, &settings);
    struct onbeat_ring_writer *second = onbeat_ring_create(channel, &settings);
    printf("{\"name\": \"second\", \"refused\": %s, \"sentence\": \"%s\"}\n", second ? "false" : "true", onbeat_last_error());
    if (!writer || onbeat_ring_open(&reader, channel) != ONBEAT_RING_OK) return;

    const unsigned long long number = onbeat_ring_publish(writer, 5, "position", 8), too_long = onbeat_ring_publish(writer, 6, bytes, 9);
    const int next = onbeat_ring_next(&reader, &record, bytes, sizeof bytes);
    printf("{\"name\": \"ring\", \"number\": %llu, \"too_long\": %llu, \"next\": %d, \"at_ns\": %llu, \"bytes\": \"%.8s\", \"type\": \"%s\", "
           "\"hash\": \"%s\"",
           number, too_long, next, (unsigned long long)record.at_ns, (const char *)bytes, reader.type, reader.hash);
    const pid_t child = fork();
    if (child == 0) {
        onbeat_ring_end(writer);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    printf(", \"forked\": %d", onbeat_ring_check(&reader));
    onbeat_ring_end(writer);
    onbeat_ring_end(NULL);
    printf(", \"ended\": %d, \"foreign\": %d, \"last\": %d}\n", onbeat_ring_check(&reader), next_of_foreign(UINT64_C(1) << 63),
           next_of_foreign(UINT64_MAX));
    onbeat_ring_close(&reader);
}

int main(int words, char **word) {
    if (words < 3) return 2;
    loops(word[1]);
    delayed_lock();
    ring(word[2]);
    return 0;
}
