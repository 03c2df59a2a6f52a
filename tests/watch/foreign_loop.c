/* A control loop that knows nothing of onbeat, for the tests of `onbeat watch`:
 *
 *     foreign_loop KIND PERIOD_US CYCLES [PRIORITY]
 *
 * Each kind waits, or misbehaves, in another way. At the end it prints what it knows of itself:
 * cycles, and the percentiles of its own wake-up latency where it has one. With FOREIGN_LOOP_STAMPS
 * it writes a line for each cycle into that file: the release and the start, in ns of its clock. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static const int64_t SECOND = 1000000000;

static int64_t now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * SECOND + t.tv_nsec;
}

static struct timespec spec(int64_t ns)
{
	return (struct timespec){ .tv_sec = ns / SECOND, .tv_nsec = ns % SECOND };
}

static void work(int64_t ns)
{
	int64_t until = now(CLOCK_MONOTONIC) + ns;
	while (now(CLOCK_MONOTONIC) < until)
		;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Holds the lock half of the time. */
static void *holder(void *unused)
{
	(void)unused;
	pthread_setname_np(pthread_self(), "lock-holder");
	for (;;) {
		pthread_mutex_lock(&lock);
		usleep(1500);
		pthread_mutex_unlock(&lock);
		usleep(1500);
	}
	return NULL;
}

static int by_size(const void *one, const void *other)
{
	int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
	return (a > b) - (a < b);
}

int main(int count, char **words)
{
	if (count < 4) {
		fprintf(stderr, "foreign_loop KIND PERIOD_US CYCLES [PRIORITY]\n");
		return 2;
	}
	const char *kind = words[1];
	int64_t period = atoll(words[2]) * 1000, cycles = atoll(words[3]);
	int priority = count > 4 ? atoi(words[4]) : 0;
	if (priority > 0) {
		struct sched_param wanted = { .sched_priority = priority };
		if (sched_setscheduler(0, SCHED_FIFO, &wanted) != 0)
			perror("sched_setscheduler");
	}
	int64_t *latency = calloc(cycles, sizeof *latency);
	memset(latency, 0, cycles * sizeof *latency);
	int64_t *released = calloc(cycles, sizeof *released);
	memset(released, 0, cycles * sizeof *released);

	clockid_t clock = strcmp(kind, "realtime") == 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
	int is_relative = strcmp(kind, "relative") == 0;
	int is_timerfd = strcmp(kind, "timerfd") == 0;
	int is_poll = strcmp(kind, "poll") == 0;
	int is_twice = strcmp(kind, "twice") == 0;
	int is_mutex = strcmp(kind, "mutex") == 0;
	int is_fault = strcmp(kind, "fault") == 0;
	int is_overrun = strcmp(kind, "overrun") == 0;
	if (strcmp(kind, "spin") == 0)
		for (;;)
			;

	int timer = -1;
	int64_t release = now(clock) + period;
	if (is_timerfd) {
		timer = timerfd_create(clock, 0);
		struct itimerspec every = { .it_interval = spec(period), .it_value = spec(release) };
		timerfd_settime(timer, TFD_TIMER_ABSTIME, &every, NULL);
	}
	pthread_t thread;
	if (is_mutex)
		pthread_create(&thread, NULL, holder, NULL);

	int64_t skipped = 0;
	for (int64_t k = 0; k < cycles; k++) {
		if (is_timerfd) {
			uint64_t expired;
			if (read(timer, &expired, sizeof expired) != sizeof expired)
				return 1;
			release += (expired - 1) * period;
			skipped += expired - 1;
		} else if (is_poll) {
			poll(NULL, 0, period / 1000000);
			release = now(clock);
		} else if (is_relative) {
			struct timespec wait = spec(period);
			release = now(clock) + period;
			clock_nanosleep(clock, 0, &wait, NULL);
		} else {
			struct timespec until = spec(release);
			while (clock_nanosleep(clock, TIMER_ABSTIME, &until, NULL) == EINTR)
				;
		}
		latency[k] = now(clock) - release;
		released[k] = release;

		work(50000);
		if (is_twice) {
			struct timespec until = spec(release + period * 3 / 10);
			clock_nanosleep(clock, TIMER_ABSTIME, &until, NULL);
			work(20000);
		}
		if (is_mutex) {
			pthread_mutex_lock(&lock);
			pthread_mutex_unlock(&lock);
		}
		if (is_fault) {
			char *fresh = mmap(NULL, 64 << 12, PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			for (int page = 0; page < 64; page++)
				fresh[page << 12] = 1;
			munmap(fresh, 64 << 12);
		}
		if (is_overrun && k % 100 == 99)
			work(period * 7 / 2);

		release += period;
		if (is_overrun) {
			while (release < now(clock)) {
				release += period;
				skipped++;
			}
		}
	}

	const char *stamps = getenv("FOREIGN_LOOP_STAMPS");
	FILE *file = stamps ? fopen(stamps, "w") : NULL;
	for (int64_t k = 0; file && k < cycles; k++)
		fprintf(file, "%lld %lld\n", (long long)released[k], (long long)(released[k] + latency[k]));
	if (file)
		fclose(file);

	qsort(latency, cycles, sizeof *latency, by_size);
	printf("{\"cycles\":%lld,\"skipped\":%lld", (long long)cycles, (long long)skipped);
	for (int percent = 10; percent < 100; percent += percent == 10 ? 15 : percent == 25 ? 25 : 49)
		printf(",\"p%d_ns\":%lld", percent, (long long)latency[cycles * percent / 100]);
	printf(",\"max_ns\":%lld}\n", (long long)latency[cycles - 1]);
	return 0;
}
