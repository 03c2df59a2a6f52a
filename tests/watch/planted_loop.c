/* A control loop that knows nothing of onbeat and has defects on request, for the tests of `onbeat watch`:
 *
 *     planted_loop causes EACH SEED    cycles of 5 ms; after four seconds every 50th waits for something,
 *                                      EACH times for each of the kinds below, in random order
 *     planted_loop FINDING             a loop of 2 ms with one defect, until it is ended
 *     planted_loop latency ALL LAST    a sound loop of 1 ms for ALL cycles
 *     planted_loop threads COUNT CYCLES   COUNT sound loops of 1 ms, loop-0 and so on
 *     planted_loop flood CYCLES        a loop of 1 ms that then changes threads without end
 *
 * `causes` prints, of each cycle that waited, the kind and the release in seconds of CLOCK_REALTIME; `latency` its own
 * wake-up latency in the LAST cycles, in nanoseconds, as JSON. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const int64_t SECOND = 1000000000, MS = 1000000, US = 1000;
/* Pages that are touched anew, and bytes that are mapped and unmapped. */
enum { FRESH = 24 << 20, LARGE = 48 << 20, FULL = 1 << 16 };

static int64_t now_by(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * SECOND + t.tv_nsec;
}

static int64_t now(void)
{
	return now_by(CLOCK_MONOTONIC);
}

static struct timespec spec(int64_t ns)
{
	return (struct timespec){ .tv_sec = ns / SECOND, .tv_nsec = ns % SECOND };
}

static void sleep_until(clockid_t clock, int64_t at)
{
	struct timespec until = spec(at);
	while (clock_nanosleep(clock, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

static void work_until(int64_t at)
{
	while (now() < at)
		;
}

static void check(int failed, const char *what)
{
	if (failed) {
		perror(what);
		exit(1);
	}
}

static void bind_to(pthread_t thread, int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	/* Another program may have the CPUs divided for a moment (cpuset). */
	for (int64_t until = now() + 10 * SECOND; now() < until; usleep(10000)) {
		errno = pthread_setaffinity_np(thread, sizeof set, &set);
		if (errno == 0)
			return;
	}
	check(1, "pthread_setaffinity_np");
}

/* A machine with one CPU has no other one. */
static int other_cpu(void)
{
	return sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 1 : 0;
}

static void take_priority(int priority)
{
	struct sched_param wanted = { .sched_priority = priority };
	check(sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &wanted) != 0, "sched_setscheduler");
}

/* ---- causes ---- */

enum kind {
	LOCK,
	LOCK_PI,
	INVERSION,
	DATA,
	FAULT_HEAP,
	FAULT_MAPPING,
	PIPE,
	TERMINAL,
	FSYNC,
	MUNMAP,
	MMAP,
	MADVISE,
	FORK,
	MIGRATION,
	ASK,
	OVERRUN,
	KINDS
};

static const char *const KIND_NAMES[KINDS] = { "lock", "lock-pi", "inversion", "data", "fault-heap", "fault-mapping",
					       "pipe", "terminal", "fsync", "munmap", "mmap", "madvise", "fork",
					       "migration", "ask", "overrun" };

/* What helpers are asked for: to hold up the loop from `release` on for `length`. */
static int64_t release, length;
static sem_t asked[KINDS], middle_asked;
static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER, contended = PTHREAD_MUTEX_INITIALIZER, inheriting;
static pthread_mutex_t of_data = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_data = PTHREAD_COND_INITIALIZER;
static int data_is_there, pipe_ends[2], question[2], terminal[2], file;
static char *heap, *mapping, *large, *fresh;
static pthread_t loop;
/* How often the loop found itself on another CPU in the cycle that was planted last. */
static int moves;

static void hold(pthread_mutex_t *mutex, int runs)
{
	int64_t until = release + length;

	pthread_mutex_lock(mutex);
	if (runs)
		work_until(until);
	else
		sleep_until(CLOCK_MONOTONIC, until);
	pthread_mutex_unlock(mutex);
}

static void drain(int from, int64_t at, size_t bytes)
{
	char buffer[4096];

	sleep_until(CLOCK_MONOTONIC, at);
	while (bytes > 0) {
		ssize_t got = read(from, buffer, sizeof buffer);
		if (got <= 0)
			return;
		bytes -= (size_t)got < bytes ? (size_t)got : bytes;
	}
}

static void help(enum kind kind)
{
	int64_t until = release + length;
	char byte = 0;

	switch (kind) {
	case LOCK:
		hold(&plain, 0);
		break;
	case LOCK_PI:
		sleep_until(CLOCK_MONOTONIC, release - 5 * MS);
		hold(&inheriting, 1);
		break;
	case INVERSION:
		sleep_until(CLOCK_MONOTONIC, release - 3 * MS);
		hold(&contended, 1);
		break;
	case DATA:
		sleep_until(CLOCK_MONOTONIC, until);
		pthread_mutex_lock(&of_data);
		data_is_there = 1;
		pthread_cond_signal(&has_data);
		pthread_mutex_unlock(&of_data);
		break;
	case FAULT_HEAP:
		sleep_until(CLOCK_MONOTONIC, until + 20 * MS);
		madvise(heap, FRESH, MADV_DONTNEED);
		break;
	case FAULT_MAPPING:
		sleep_until(CLOCK_MONOTONIC, until + 20 * MS);
		madvise(mapping, FRESH, MADV_DONTNEED);
		break;
	case PIPE:
		drain(pipe_ends[0], until, FULL + 4096);
		break;
	case TERMINAL:
		drain(terminal[0], until, FULL);
		break;
	case MUNMAP:
	case MADVISE:
		large = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		check(large == MAP_FAILED, "mmap");
		break;
	case MMAP:
		sleep_until(CLOCK_MONOTONIC, until + 20 * MS);
		munmap(fresh, FRESH);
		break;
	case MIGRATION:
		sleep_until(CLOCK_MONOTONIC, release + 100 * US);
		for (int turn = 1; now() < until; turn++)
			bind_to(loop, turn % 2 ? other_cpu() : 0);
		bind_to(loop, 0);
		break;
	case ASK:
		check(read(question[0], &byte, 1) != 1, "read");
		sleep_until(CLOCK_MONOTONIC, until);
		check(write(question[0], &byte, 1) != 1, "write");
		break;
	default:
		break;
	}
}

static const char *const HELPERS[KINDS] = { "lock-holder", "pi-holder", "low-holder", "planner", "heap-dropper",
					    "map-dropper", "pipe-reader", "screen", NULL, "unmapper", "remover", "adviser",
					    NULL, "mover", "server", NULL };

static void *helper(void *argument)
{
	enum kind kind = (enum kind)(intptr_t)argument;

	pthread_setname_np(pthread_self(), HELPERS[kind]);
	/* The mover goes where the loop is not. An ordinary one would come too late on a busy machine. */
	if (kind == MIGRATION)
		take_priority(60);
	else
		bind_to(pthread_self(), other_cpu());
	if (kind == INVERSION)
		take_priority(10);
	for (;;) {
		sem_wait(&asked[kind]);
		help(kind);
	}
	return NULL;
}

/* Keeps the holder of the lock off its CPU. */
static void *middle(void *unused)
{
	(void)unused;
	pthread_setname_np(pthread_self(), "middle");
	bind_to(pthread_self(), other_cpu());
	take_priority(50);
	for (;;) {
		sem_wait(&middle_asked);
		int64_t from = release - 500 * US, until = release + length;
		sleep_until(CLOCK_MONOTONIC, from);
		work_until(until);
	}
	return NULL;
}

static void wait_for(pthread_mutex_t *mutex)
{
	pthread_mutex_lock(mutex);
	pthread_mutex_unlock(mutex);
}

/* Works, and counts how often it is moved to another CPU. */
static void work_moved_until(int64_t at)
{
	int cpu = sched_getcpu();

	for (moves = 0; now() < at;) {
		int here = sched_getcpu();
		moves += here != cpu;
		cpu = here;
	}
}

static void touch(char *memory)
{
	int64_t until = release + length;

	for (size_t at = 0; at < FRESH && now() < until; at += 4096)
		memory[at] = 1;
}

/* What the loop does in a cycle that is to wait. */
static void be_held_up(enum kind kind)
{
	static char zeros[FULL + 4096];
	int64_t until = release + length;
	char byte = 1;
	pid_t child;

	switch (kind) {
	case LOCK:
		wait_for(&plain);
		break;
	case LOCK_PI:
		wait_for(&inheriting);
		break;
	case INVERSION:
		wait_for(&contended);
		break;
	case DATA:
		pthread_mutex_lock(&of_data);
		while (!data_is_there)
			pthread_cond_wait(&has_data, &of_data);
		data_is_there = 0;
		pthread_mutex_unlock(&of_data);
		break;
	case FAULT_HEAP:
		touch(heap);
		break;
	case FAULT_MAPPING:
		touch(mapping);
		break;
	case PIPE:
		check(write(pipe_ends[1], zeros, FULL + 4096) != FULL + 4096, "write");
		break;
	case TERMINAL:
		check(write(terminal[1], zeros, FULL) <= 0, "write");
		break;
	case FSYNC:
		do {
			check(pwrite(file, zeros, sizeof zeros, 0) < 0 || fsync(file) != 0, "fsync");
		} while (now() < until);
		break;
	case MUNMAP:
		munmap(large, LARGE);
		break;
	case MADVISE:
		madvise(large, LARGE, MADV_DONTNEED);
		break;
	case MMAP:
		fresh = mmap(NULL, FRESH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		check(fresh == MAP_FAILED, "mmap");
		break;
	case FORK:
		do {
			child = fork();
			check(child < 0, "fork");
			if (child == 0)
				_exit(0);
		} while (now() < until);
		break;
	case ASK:
		check(write(question[1], &byte, 1) != 1 || read(question[1], &byte, 1) != 1, "ask");
		break;
	case MIGRATION:
		work_moved_until(until);
		break;
	case OVERRUN:
		work_until(until);
		break;
	default:
		break;
	}
}

static int64_t random_below(int64_t bound)
{
	return (int64_t)((double)bound * random() / ((double)RAND_MAX + 1));
}

static void prepare_causes(void)
{
	pthread_mutexattr_t inherits;
	pthread_mutexattr_init(&inherits);
	pthread_mutexattr_setprotocol(&inherits, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&inheriting, &inherits);
	check(pipe(pipe_ends) != 0, "pipe");
	check(socketpair(AF_UNIX, SOCK_STREAM, 0, question) != 0, "socketpair");
	terminal[0] = posix_openpt(O_RDWR | O_NOCTTY);
	check(terminal[0] < 0 || grantpt(terminal[0]) != 0 || unlockpt(terminal[0]) != 0, "openpt");
	terminal[1] = open(ptsname(terminal[0]), O_RDWR | O_NOCTTY);
	check(terminal[1] < 0, "open of the terminal");
	file = open("planted_loop.out", O_RDWR | O_CREAT | O_TRUNC, 0600);
	check(file < 0, "planted_loop.out");
	signal(SIGCHLD, SIG_IGN);

	heap = sbrk(FRESH);
	mapping = mmap(NULL, FRESH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(heap == (char *)-1 || mapping == MAP_FAILED, "mmap");
	/* Huge pages would be one fault each. */
	madvise(heap, FRESH, MADV_NOHUGEPAGE);
	madvise(mapping, FRESH, MADV_NOHUGEPAGE);
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);

	pthread_t thread;
	sem_init(&middle_asked, 0, 0);
	pthread_create(&thread, NULL, middle, NULL);
	for (intptr_t kind = 0; kind < KINDS; kind++) {
		sem_init(&asked[kind], 0, 0);
		if (HELPERS[kind])
			pthread_create(&thread, NULL, helper, (void *)kind);
	}
}

static int causes(int each, unsigned seed)
{
	const int64_t period = 5 * MS, before = 800, every = 50;
	int plants = each * KINDS;
	enum kind *order = calloc(plants, sizeof *order);
	int64_t *waited = calloc(plants, sizeof *waited);

	srandom(seed);
	for (int at = 0; at < plants; at++) {
		int other = (int)random_below(at + 1);
		order[at] = order[other];
		order[other] = at % KINDS;
	}
	prepare_causes();
	loop = pthread_self();
	pthread_setname_np(loop, "servo");
	bind_to(loop, 0);
	take_priority(80);

	int64_t due = now() + period;
	for (int64_t k = 0; k < before + (int64_t)plants * every; k++, due += period) {
		int64_t since = k - before;
		int plant = since >= 0 ? (int)(since / every) : -1;
		sleep_until(CLOCK_MONOTONIC, due);
		work_until(now() + 30 * US);
		/* Helpers are asked twenty cycles before: an ordinary thread may have to wait for its CPU. */
		if (plant >= 0 && since % every == every - 21) {
			release = due + 20 * period;
			length = 2 * MS + random_below(MS);
			sem_post(&asked[order[plant]]);
			if (order[plant] == INVERSION)
				sem_post(&middle_asked);
		}
		if (plant >= 0 && since % every == every - 1) {
			int64_t from = now();
			be_held_up(order[plant]);
			/* One that did not happen is no plant: its helper came too late. */
			int is_planted = now() - from > MS && (order[plant] != MIGRATION || moves > 0);
			waited[plant] = is_planted ? due + now_by(CLOCK_REALTIME) - now() : 0;
		}
	}

	for (int plant = 0; plant < plants; plant++)
		if (waited[plant])
			printf("%s %.9f\n", KIND_NAMES[order[plant]], (double)waited[plant] / 1e9);
	unlink("planted_loop.out");
	return 0;
}

/* ---- findings ---- */

static pthread_mutex_t of_feed = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_fed = PTHREAD_COND_INITIALIZER;
static int fed;

static void *card(void *unused)
{
	(void)unused;
	pthread_setname_np(pthread_self(), "irq/99-card");
	take_priority(50);
	for (int64_t due = now();; due += 2 * MS) {
		sleep_until(CLOCK_MONOTONIC, due);
		pthread_mutex_lock(&of_feed);
		fed = 1;
		pthread_cond_signal(&is_fed);
		pthread_mutex_unlock(&of_feed);
	}
	return NULL;
}

static void *beside(void *unused)
{
	(void)unused;
	pthread_setname_np(pthread_self(), "logger");
	bind_to(pthread_self(), 0);
	for (int64_t due = now();; due += 7 * MS) {
		sleep_until(CLOCK_MONOTONIC, due);
		work_until(now() + 100 * US);
	}
	return NULL;
}

static void *low_and_middle(void *unused)
{
	(void)unused;
	for (;;) {
		release = now() + 20 * MS;
		length = 3 * MS;
		sem_post(&asked[INVERSION]);
		sem_post(&middle_asked);
		sleep_until(CLOCK_MONOTONIC, release + length + 5 * MS);
	}
	return NULL;
}

/* A second loop, whose every 40th cycle waits for a lock. */
static void *second(void *unused)
{
	const int64_t period = 3 * MS;

	(void)unused;
	pthread_setname_np(pthread_self(), "second");
	bind_to(pthread_self(), other_cpu());
	take_priority(70);
	int64_t due = now();
	for (int64_t k = 0;; k++, due += period) {
		sleep_until(CLOCK_MONOTONIC, due);
		work_until(now() + 50 * US);
		if (k % 40 == 19) {
			release = due + 20 * period;
			length = 3 * MS;
			sem_post(&asked[LOCK]);
		}
		if (k % 40 == 39)
			wait_for(&plain);
	}
	return NULL;
}

static int is(const char *defect, const char *name)
{
	return strcmp(defect, name) == 0;
}

static void give_up_rights(void)
{
	struct rlimit none = { 0, 0 };
	check(setrlimit(RLIMIT_RTPRIO, &none) != 0, "setrlimit");
	check(setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0, "setuid");
}

static int with_defect(const char *defect)
{
	const int64_t period = 2 * MS;
	int is_ordinary = is(defect, "ordinary") || is(defect, "slack") || is(defect, "budget") || is(defect, "rights");
	int is_fed_by_card = is(defect, "feeder"), is_relative = is(defect, "drift"), prints = is(defect, "prints");
	int faults = is(defect, "faults"), locks = is(defect, "inversion"), overruns = is(defect, "pair");
	clockid_t clock = is(defect, "realtime") ? CLOCK_REALTIME : CLOCK_MONOTONIC;
	pthread_t thread;
	int output = open("/dev/null", O_WRONLY);

	if (is_fed_by_card)
		pthread_create(&thread, NULL, card, NULL);
	if (is(defect, "shared"))
		pthread_create(&thread, NULL, beside, NULL);
	if (overruns) {
		sem_init(&asked[LOCK], 0, 0);
		pthread_create(&thread, NULL, helper, (void *)(intptr_t)LOCK);
		pthread_create(&thread, NULL, second, NULL);
	}
	if (locks) {
		sem_init(&middle_asked, 0, 0);
		sem_init(&asked[INVERSION], 0, 0);
		pthread_create(&thread, NULL, middle, NULL);
		pthread_create(&thread, NULL, helper, (void *)(intptr_t)INVERSION);
		pthread_create(&thread, NULL, low_and_middle, NULL);
	}
	pthread_setname_np(pthread_self(), "servo");
	bind_to(pthread_self(), 0);
	/* Locked memory has no faults that a loop could be planted with. */
	if (!is(defect, "unlocked") && !faults)
		check(mlockall(MCL_CURRENT | MCL_FUTURE) != 0, "mlockall");
	if (!is_ordinary)
		take_priority(is(defect, "below") ? 40 : 80);
	if (is(defect, "slack"))
		prctl(PR_SET_TIMERSLACK, 400 * US, 0, 0, 0);
	if (is(defect, "rights"))
		give_up_rights();

	int64_t due = now_by(clock) + period;
	for (int64_t k = 1;; k++, due += period) {
		if (is_fed_by_card) {
			pthread_mutex_lock(&of_feed);
			while (!fed)
				pthread_cond_wait(&is_fed, &of_feed);
			fed = 0;
			pthread_mutex_unlock(&of_feed);
		} else if (is_relative) {
			struct timespec wait = spec(period);
			clock_nanosleep(clock, 0, &wait, NULL);
		} else {
			sleep_until(clock, due);
		}
		work_until(now() + (overruns && k % 50 == 0 ? 5 * MS : 50 * US));
		if (prints)
			dprintf(output, "position %f of %lld\n", 0.5, (long long)due);
		if (faults) {
			char *fresh = mmap(NULL, 4 << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			for (int page = 0; page < 4; page++)
				fresh[page << 12] = 1;
			munmap(fresh, 4 << 12);
		}
		if (locks)
			wait_for(&contended);
	}
	return 0;
}

/* ---- cost ---- */

static int by_size(const void *one, const void *other)
{
	int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
	return (a > b) - (a < b);
}

static int own_latency(int all, int last)
{
	const int64_t period = MS;
	int64_t *latency = calloc(all, sizeof *latency);

	bind_to(pthread_self(), 0);
	check(mlockall(MCL_CURRENT | MCL_FUTURE) != 0, "mlockall");
	take_priority(80);
	int64_t due = now() + period;
	for (int k = 0; k < all; k++, due += period) {
		sleep_until(CLOCK_MONOTONIC, due);
		latency[k] = now() - due;
		work_until(now() + 50 * US);
	}
	latency += all - last;
	qsort(latency, last, sizeof *latency, by_size);
	printf("{\"p10_ns\":%lld,\"p25_ns\":%lld,\"p50_ns\":%lld,\"p99_ns\":%lld}\n", (long long)latency[last / 10],
	       (long long)latency[last / 4], (long long)latency[last / 2], (long long)latency[last * 99LL / 100]);
	return 0;
}

static int threads_to_run, cycles_to_run;
static int64_t first_release;

/* One of many loops of 1 ms whose releases are spread over the millisecond. */
static void *one_of_many(void *number)
{
	char name[16];
	int64_t due = first_release + MS * (intptr_t)number / threads_to_run;

	snprintf(name, sizeof name, "loop-%d", (int)(intptr_t)number);
	pthread_setname_np(pthread_self(), name);
	take_priority(80);
	for (int k = 0; k < cycles_to_run; k++, due += MS) {
		sleep_until(CLOCK_MONOTONIC, due);
		work_until(now() + 2 * US);
	}
	return NULL;
}

static int many_threads(int threads, int cycles)
{
	pthread_t *started = calloc(threads, sizeof *started);

	threads_to_run = threads;
	cycles_to_run = cycles;
	first_release = now() + 100 * MS;
	for (intptr_t k = 0; k < threads; k++)
		check(pthread_create(&started[k], NULL, one_of_many, (void *)k) != 0, "pthread_create");
	for (int k = 0; k < threads; k++)
		pthread_join(started[k], NULL);
	return 0;
}

static void *yielding(void *unused)
{
	bind_to(pthread_self(), 0);
	for (;;)
		sched_yield();
	return unused;
}

/* A loop that after some cycles gives its CPU away to a second thread, and back, without end. */
static int flood(int cycles)
{
	pthread_t second_thread;
	int64_t due = now();

	pthread_setname_np(pthread_self(), "servo");
	bind_to(pthread_self(), 0);
	for (int k = 0; k < cycles; k++, due += MS) {
		sleep_until(CLOCK_MONOTONIC, due);
		work_until(now() + 50 * US);
	}
	check(pthread_create(&second_thread, NULL, yielding, NULL) != 0, "pthread_create");
	yielding(NULL);
	return 0;
}

int main(int count, char **words)
{
	if (count == 4 && is(words[1], "threads") && atoi(words[2]) > 0)
		return many_threads(atoi(words[2]), atoi(words[3]));
	if (count == 3 && is(words[1], "flood"))
		return flood(atoi(words[2]));
	if (count == 4 && is(words[1], "latency") && atoi(words[3]) > 0 && atoi(words[3]) <= atoi(words[2]))
		return own_latency(atoi(words[2]), atoi(words[3]));
	if (count == 4 && is(words[1], "causes"))
		return causes(atoi(words[2]), (unsigned)atoi(words[3]));
	if (count == 2)
		return with_defect(words[1]);
	fprintf(stderr, "planted_loop causes EACH SEED\nplanted_loop FINDING\nplanted_loop latency ALL LAST\n"
			"planted_loop threads COUNT CYCLES\nplanted_loop flood CYCLES\n");
	return 2;
}
