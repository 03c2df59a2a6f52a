/* What JACK says of its own cycles: jack_cycles CYCLES STAMPS
 *
 * A client that writes a line for each process cycle: the time at which JACK began it (jack_get_cycle_times) and that of the
 * call, in ns of CLOCK_MONOTONIC. libjack is opened at run time, so that no headers are needed. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int (*cycle_times)(void *, uint32_t *, uint64_t *, uint64_t *, float *);
static void *client;
static int64_t (*stamps)[2];
static volatile int64_t done, cycles;

static int process(uint32_t frames, void *unused)
{
	(void)frames;
	(void)unused;
	uint32_t frame;
	uint64_t current, next;
	float period;
	struct timespec now;
	if (done == cycles || cycle_times(client, &frame, &current, &next, &period) != 0)
		return 0;
	clock_gettime(CLOCK_MONOTONIC, &now);
	stamps[done][0] = current * 1000;
	stamps[done][1] = now.tv_sec * 1000000000LL + now.tv_nsec;
	done++;
	return 0;
}

int main(int count, char **words)
{
	void *jack = dlopen("libjack.so.0", RTLD_NOW);
	if (count < 3 || !jack) {
		fprintf(stderr, "jack_cycles CYCLES STAMPS; %s\n", jack ? "two arguments" : dlerror());
		return 2;
	}
	cycles = atoll(words[1]);
	stamps = calloc(cycles, sizeof *stamps);
	void *(*open)(const char *, int, int *) = (void *(*)(const char *, int, int *))dlsym(jack, "jack_client_open");
	int (*set)(void *, int (*)(uint32_t, void *), void *) =
		(int (*)(void *, int (*)(uint32_t, void *), void *))dlsym(jack, "jack_set_process_callback");
	int (*activate)(void *) = (int (*)(void *))dlsym(jack, "jack_activate");
	cycle_times = (int (*)(void *, uint32_t *, uint64_t *, uint64_t *, float *))dlsym(jack, "jack_get_cycle_times");
	int status;
	client = open ? open("cycles", 1, &status) : NULL;
	if (!client || !cycle_times || set(client, process, NULL) || activate(client)) {
		fprintf(stderr, "jack_cycles: no JACK server\n");
		return 1;
	}
	while (done < cycles)
		usleep(10000);
	FILE *file = fopen(words[2], "w");
	for (int64_t k = 0; file && k < cycles; k++)
		fprintf(file, "%lld %lld\n", (long long)stamps[k][0], (long long)stamps[k][1]);
	return file ? fclose(file) : 1;
}
