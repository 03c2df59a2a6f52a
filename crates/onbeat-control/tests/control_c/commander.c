/* Commands the joints of an image. Started by tests/it/control_c.rs. */
#include "onbeat_control.h"

#include <math.h>

static void print_result(struct onbeat_control *bus) {
    uint64_t number;
    fflush(stdout);
    getchar();
    int answer = onbeat_commander_answer(bus, &number);
    printf("answer %d to %llu\n", answer, (unsigned long long)number);
}

int main(int count, char **words) {
    struct onbeat_control bus;
    if (count < 2 || onbeat_control_open(&bus, words[1]) != ONBEAT_OK) return 2;
    int knee = onbeat_joint_find(&bus, "right knee");
    printf("right knee %d, nose %d\n", knee, onbeat_joint_find(&bus, "nose"));
    uint32_t commander = 0;
    int result = onbeat_commander_claim(&bus, &commander);
    printf("claim %d\n", result);
    if (result != ONBEAT_OK || knee < 0 || bus.joint_count != 2) return 0;
    printf("travel %g..%g at %g rad/s, age %u us\n", bus.joints[knee].low_rad, bus.joints[knee].high_rad, bus.joints[knee].velocity_rad_s,
           bus.header->goal_age_us);

    double rad[2] = {0, 0};
    uint64_t which = (uint64_t)1 << knee, number = 0;
    rad[knee] = 0.25;
    printf("give %d\n", onbeat_commander_give(&bus, &which, rad, &number));
    print_result(&bus);
    rad[knee] = NAN;
    onbeat_commander_give(&bus, &which, rad, &number);
    print_result(&bus);
    rad[knee] = 0.5;
    onbeat_commander_give(&bus, NULL, rad, NULL);
    onbeat_commander_release(&bus);
    printf("give after release %d\n", onbeat_commander_give(&bus, NULL, rad, NULL));
    fflush(stdout);
    getchar();
    onbeat_control_close(&bus);
    return 0;
}
