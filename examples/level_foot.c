/* A controller in C: reads three joints of a robot and commands a fourth, at 100 Hz. examples/README.md describes it.
 *
 *     onbeat message generate c onbeat_msgs/msg/Cycle > cycle.h
 *     cc -std=c11 -O2 -Wall -Wextra -Werror -I. level_foot.c $(pkg-config --cflags --libs onbeat) -lm -o level_foot
 *     ./level_foot walker 10
 *
 * A third argument is the name of a run file, which says how late each cycle was: `onbeat report FILE`.
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <onbeat.h>
#include <onbeat_control.h>

#include "cycle.h"

#define PERIOD_NS 10000000u
#define TILT_RAD 0.15
#define TILT_HZ 0.5

struct leg {
    struct onbeat_control bus;
    struct onbeat_ring cycles;
    struct onbeat_msgs_Cycle newest;
    uint8_t bytes[1 << 16];
    uint64_t memory[1 << 14];
    int read[3], ankle;
    double *rad;     /* targets, one for each joint */
    uint64_t *which; /* a bit for each joint with a target */
    double time_s;
};

/* Decodes the newest cycle; 0 if there is none since the last call. */
static int read_newest(struct leg *leg) {
    struct onbeat_record record;
    size_t length = 0;
    for (int next; (next = onbeat_ring_next(&leg->cycles, &record, leg->bytes, sizeof leg->bytes)) != ONBEAT_RING_NOTHING;)
        if (next == ONBEAT_RING_RECORD) length = record.length;
    return length > 0 && onbeat_msgs_Cycle_decode(&leg->newest, leg->bytes, length, leg->memory, sizeof leg->memory) >= 0;
}

static int cycle(const struct onbeat_loop_cycle *now, void *user) {
    struct leg *leg = user;
    const double pi = 3.14159265358979323846;
    double sum_rad = 0;
    leg->time_s += (double)now->dt_ns * 1e-9;
    if (!read_newest(leg)) return ONBEAT_LOOP_CONTINUE;
    if (leg->newest.robot_rung == ONBEAT_SAFE_STOP) return ONBEAT_LOOP_STOP;

    for (int i = 0; i < 3; i++) sum_rad += leg->newest.actual_rad.at[leg->read[i]];
    leg->rad[leg->ankle] = TILT_RAD * sin(2 * pi * TILT_HZ * leg->time_s) - sum_rad;
    /* The robot follows a command for 0.1 s: without the next one it holds, and then stops safely. */
    return onbeat_commander_give(&leg->bus, leg->which, leg->rad, NULL) == ONBEAT_OK ? ONBEAT_LOOP_CONTINUE : ONBEAT_LOOP_STOP;
}

static int open_leg(struct leg *leg, const char *robot) {
    const char *const names[3] = {"waist pitch", "left hip pitch", "left knee"};
    char channel[80];
    snprintf(channel, sizeof channel, "%s/cycle", robot);
    if (onbeat_control_open(&leg->bus, robot) != ONBEAT_OK || onbeat_ring_open(&leg->cycles, channel) != ONBEAT_RING_OK) return 0;
    if (strcmp(leg->cycles.hash, ONBEAT_MSGS_CYCLE_HASH) != 0) return 0;

    for (int i = 0; i < 3; i++)
        if ((leg->read[i] = onbeat_joint_find(&leg->bus, names[i])) < 0) return 0;
    leg->ankle = onbeat_joint_find(&leg->bus, "left ankle pitch");
    leg->rad = calloc(leg->bus.joint_count, sizeof *leg->rad);
    leg->which = calloc(onbeat_goal_bits(&leg->bus), sizeof *leg->which);
    if (leg->ankle < 0 || !leg->rad || !leg->which) return 0;
    leg->which[leg->ankle / 64] |= (uint64_t)1 << (leg->ankle % 64);
    return onbeat_commander_claim(&leg->bus, NULL) == ONBEAT_OK;
}

int main(int count, char **words) {
    static struct leg leg;
    struct onbeat_loop_report report;
    const unsigned long long seconds = count > 2 ? strtoull(words[2], NULL, 10) : 0;
    if (seconds == 0 || !open_leg(&leg, words[1])) {
        fprintf(stderr, "usage: level_foot NAME SECONDS [RUN-FILE]\nNAME is a running robot without a commander, with the joints of a leg\n");
        if (leg.cycles.why[0]) fprintf(stderr, "level_foot: %s\n", leg.cycles.why);
        return 2;
    }
    const struct onbeat_loop_options options = {
        .period_ns = PERIOD_NS,
        .releases = seconds * (1000000000u / PERIOD_NS),
        .run_file = count > 3 ? words[3] : NULL,
        .flags = ONBEAT_LOOP_ACCEPT_REFUSALS,
    };
    if (onbeat_loop_run(&options, cycle, &leg, &report) != ONBEAT_LOOP_OK) {
        fprintf(stderr, "level_foot: %s\n", onbeat_last_error());
        return 1;
    }
    const int is_alive = onbeat_control_is_alive(&leg.bus) == ONBEAT_OK;
    onbeat_commander_release(&leg.bus);
    printf("%llu releases, %llu skipped, %llu cycles of the robot read, %llu lost\n", (unsigned long long)report.releases,
           (unsigned long long)report.skipped, (unsigned long long)leg.cycles.received, (unsigned long long)leg.cycles.lost);
    if (report.ended == ONBEAT_LOOP_ENDED_COMPLETE && is_alive) return 0;
    fprintf(stderr, "level_foot: the robot %s\n", is_alive ? "has stopped safely" : "is gone");
    return 1;
}
