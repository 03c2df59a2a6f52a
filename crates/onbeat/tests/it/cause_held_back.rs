//! A loop that the kernel keeps off its CPU although it could run: throttling, fair server, quota,
//! freezer. Each is found from the events and counters that show it.

use crate::cause_world;

use cause_world::{
    DL_TASK, PRIO, RT_PERIOD, TIMER, WAKE_UP, World, dd, idle, looper, main_of, none, thread, us,
    us_of,
};
use onbeat::cause::Situation;
use onbeat::cause::counters::ThreadReading;
use onbeat::cause::event::{KernelEvent, Softirq, Thread, ThreadState, Vector};
use onbeat::cause::kind::{CauseKind as Kind, Explanation};

#[test]
fn real_time_threads_were_throttled_while_the_cpu_idled() {
    let mut world = World::asleep_beside(dd());
    world.timer_interrupt(1001, 5).loop_runs(1010, dd()).worked(100, 50_100);
    world.switch(1050, looper(), 0, idle());
    world.switch(51_050, idle(), 0, looper());
    let explanation = world.explained();

    assert_eq!(main_of(&explanation), (Kind::RtThrottling, none()));
    assert_eq!(us_of(&explanation, Kind::RtThrottling), 50_000);
}

#[test]
fn real_time_threads_were_throttled_while_an_ordinary_thread_ran_on() {
    let mut world = World::asleep_beside(dd());
    world.timer_interrupt(1001, 5).timer_function(40_000, RT_PERIOD, 0).loop_runs(40_010, dd());
    let explanation = world.explained();
    assert_eq!(main_of(&explanation), (Kind::RtThrottling, none()), "dd used no real time");
    assert!(explanation.main().unwrap().evidence.contains("let it on again"));
}

/// A real-time thread of lower priority that runs whenever the loop sleeps, until the scheduler
/// throttles both.
fn beside_a_hog(loop_ran_us: u64, is_throttled: bool) -> Explanation {
    let hog = thread(66, 49, "hog");
    let mut world = World::asleep_beside(hog);
    world.facts.expiry = us(100_000);
    world.facts.release = us(100_000);
    world.timer_set(100 + loop_ran_us, 100_000);
    world.switch(101 + loop_ran_us, looper(), 1, hog);
    world.switch(102, hog, 0, looper());
    world.switch(95_000, hog, 0, dd());
    world.timer_interrupt(100_001, 5).loop_runs(145_000, dd());
    let reading = world.reading(145_000, 0);
    (reading.rt_throttled, reading.by_fair_server) = (Some(is_throttled), Some(!is_throttled));
    world.explained()
}

#[test]
fn the_thread_that_used_up_the_runtime_is_named_and_advised_not_its_victim() {
    let explanation = beside_a_hog(1_000, true);
    let main = explanation.main().unwrap();
    assert_eq!(main_of(&explanation), (Kind::RtThrottling, "hog".to_owned()));
    assert_eq!(main.words(), "RT throttling because of hog");
    assert!(main.evidence.contains("hog [66] FIFO/RR 50 93.9 ms, the loop 1.1 ms"), "{main:?}");
    let advice: Vec<&str> =
        main.advice(&Situation::default()).iter().map(|advice| advice.id()).collect();
    assert_eq!(advice, ["runtime-user", "no-rt-limit"]);
}

#[test]
fn a_fair_server_that_a_real_time_thread_called_for_is_named_with_that_thread() {
    let explanation = beside_a_hog(1_000, false);
    let main = explanation.main().unwrap();
    assert_eq!(main.words(), "fair server because of hog");
    assert!(main.evidence.contains("dd [7] ran meanwhile"), "{main:?}");
    let advice: Vec<&str> =
        main.advice(&Situation::default()).iter().map(|advice| advice.id()).collect();
    assert_eq!(advice, ["runtime-user", "fair-server-off"]);
    assert_eq!(beside_a_hog(80_000, false).main().unwrap().words(), "fair server");
}

#[test]
fn a_loop_that_used_up_the_runtime_itself_has_no_culprit() {
    let explanation = beside_a_hog(80_000, true);
    assert_eq!(main_of(&explanation), (Kind::RtThrottling, none()));
    let advice = explanation.main().unwrap().advice(&Situation::default());
    assert_eq!(advice[0].id(), "leave-tenth");
}

/// A loop that another program made an ordinary thread while it slept, and that waits for `dd`.
fn demoted(prio: i32, said: impl FnOnce(&mut World)) -> Explanation {
    let demoted = Thread { prio, ..looper() };
    let mut world = World::asleep_beside(dd());
    world.counters.has_fair_server = true;
    world.on(1, 1001, 0, KernelEvent::VectorEntry(Vector::LocalTimer));
    let now = us(1002);
    world.on(1, 1002, 0, KernelEvent::TimerExpireEntry { timer: TIMER, function: WAKE_UP, now });
    world.on(1, 1003, 0, KernelEvent::Waking { thread: demoted, target_cpu: 1 });
    world.on(1, 1006, 0, KernelEvent::VectorExit(Vector::LocalTimer));
    world.switch(5_000, dd(), 0, demoted).started(5_002);
    said(&mut world);
    world.explained()
}

#[test]
fn a_loop_whose_policy_another_program_changed_is_told_so() {
    let policy = |policy| ThreadReading { prio: 120, policy, ..ThreadReading::default() };
    let named = |thread, expected: &str| {
        let explanation = demoted(120, |world| world.counters.thread = thread);
        assert_eq!(main_of(&explanation).0, Kind::PolicyChange);
        assert!(us_of(&explanation, Kind::PolicyChange) > 3_900);
        assert_eq!(explanation.main().unwrap().words(), expected);
        assert_eq!(us_of(&explanation, Kind::FairServer), 0);
    };
    named(Some(policy(libc::SCHED_OTHER)), "scheduling policy changed to SCHED_OTHER");
    named(Some(policy(libc::SCHED_BATCH)), "scheduling policy changed to SCHED_BATCH");
    named(None, "scheduling policy changed to an ordinary policy");
}

#[test]
fn who_changed_a_policy_is_named_where_its_system_call_was_recorded() {
    let explanation = demoted(120, |world| {
        let chrt = thread(77, 120, "chrt");
        world.on(0, 500, 77, KernelEvent::SyscallEnter { number: libc::SYS_sched_setscheduler });
        let what = KernelEvent::Switch { prev: chrt, prev_state: ThreadState(0), next: idle() };
        world.on(0, 600, 77, what);
    });
    let main = explanation.main().unwrap();
    assert!(main.evidence.contains("kernel priority 120, changed by chrt [77]"), "{main:?}");
    let advice = main.advice(&Situation::default());
    assert_eq!(advice[0].id(), "who-changed-policy");
}

#[test]
fn a_lowered_real_time_priority_is_a_change_too_and_an_unchanged_one_is_not() {
    let low = demoted(89, |_| {});
    assert_eq!(main_of(&low), (Kind::PolicyChange, "real-time priority 10".to_owned()));
    let same = demoted(PRIO, |_| {});
    assert_eq!(us_of(&same, Kind::PolicyChange), 0);
    let lent = demoted(PRIO - 5, |_| {});
    assert_eq!(us_of(&lent, Kind::PolicyChange), 0, "a lent priority");
}

#[test]
fn an_ordinary_loop_that_was_started_by_nice_has_its_policy_still() {
    let other = thread(8, 139, "cc1");
    let nice = Thread { prio: 139, ..looper() };
    let mut world = World::asleep_beside(other);
    world.facts.prio = 120;
    world.on(1, 1003, 0, KernelEvent::Waking { thread: nice, target_cpu: 1 });
    world.switch(5_000, other, 0, nice).started(5_002);
    assert_eq!(us_of(&world.explained(), Kind::PolicyChange), 0);
}

#[test]
fn an_ordinary_thread_that_was_chosen_before_a_changed_loop_was_not_served_by_a_rule() {
    let explanation = demoted(120, |world| {
        let other = thread(8, 120, "cc1");
        world.switch(2_000, dd(), 0, other).switch(3_000, other, 0, dd());
    });
    assert_eq!(main_of(&explanation).0, Kind::PolicyChange);
    assert_eq!(us_of(&explanation, Kind::FairServer), 0);
    assert_eq!(us_of(&explanation, Kind::RtThrottling), 0);
}

#[test]
fn the_fair_server_gave_an_ordinary_thread_its_share() {
    let mut world = World::asleep_beside(idle());
    world.timer_interrupt(1001, 5).loop_runs(1008, idle()).worked(900, 26_000);
    world.timer_function(1500, DL_TASK, 1).switch(1503, looper(), 0, dd()).switch(
        26_503,
        dd(),
        0,
        looper(),
    );
    let explanation = world.explained();
    assert_eq!(main_of(&explanation), (Kind::FairServer, none()));
    assert_eq!(us_of(&explanation, Kind::FairServer), 25_000);
    assert!(explanation.main().unwrap().evidence.contains("dd [7] ran meanwhile"));
}

#[test]
fn a_deadline_loop_without_runtime_is_held_by_neither_rule() {
    let mut world = World::asleep_beside(idle());
    world.facts.prio = -1;
    world.counters.has_fair_server = true;
    let looper = Thread { prio: -1, ..looper() };
    world.timer_interrupt(1001, 5).loop_runs(1008, idle()).worked(900, 26_000);
    world.switch(1503, looper, 0, dd()).switch(26_503, dd(), 0, looper);
    let explanation = world.explained();
    let main = explanation.main().unwrap();
    assert_eq!(main.kind, Kind::Unexplained, "{main:?}");
    assert!(main.evidence.contains("its runtime of SCHED_DEADLINE"), "{main:?}");
}

#[test]
fn the_kernels_flags_distinguish_throttling_from_the_fair_server() {
    let stopped = |throttled, served| {
        let mut world = World::asleep_beside(idle());
        world.timer_interrupt(1001, 5).loop_runs(1008, idle()).worked(900, 26_000);
        world.switch(1503, looper(), 0, dd()).switch(26_503, dd(), 0, looper());
        let reading = world.reading(1503, 0);
        (reading.rt_throttled, reading.by_fair_server) = (Some(throttled), Some(served));
        main_of(&world.explained()).0
    };

    assert_eq!(stopped(true, false), Kind::RtThrottling);
    assert_eq!(stopped(false, true), Kind::FairServer);
}

/// An ordinary loop that leaves the CPU at 1050 µs although it is runnable, and gets it back 60 ms
/// later.
fn held_back(by: Thread, throttled_us: Option<u64>) -> Explanation {
    let mut world = World::asleep_beside(dd());
    world.facts.prio = 120;
    world.counters.is_guest = true;
    world.counters.throttled_ns = throttled_us.map(|us| us * 1_000);
    world.timer_interrupt(1001, 5).loop_runs(1010, dd()).worked(100, 60_100);
    world.switch(1050, looper(), 0, by);
    world.switch(61_050, by, 0, looper());

    world.explained()
}

#[test]
fn an_ordinary_loop_ran_out_of_its_cpu_quota() {
    for throttled_us in [Some(59_000), None] {
        let explanation = held_back(idle(), throttled_us);
        assert_eq!(main_of(&explanation), (Kind::CpuQuota, none()), "{throttled_us:?}");
        assert_eq!(us_of(&explanation, Kind::CpuQuota), 60_000);
    }

    let explanation = held_back(dd(), Some(59_000));
    assert_eq!(
        main_of(&explanation).0,
        Kind::CpuQuota,
        "others use the time that the quota leaves"
    );
    assert!(explanation.main().unwrap().evidence.contains("throttled for 59.0 ms"));
}

#[test]
fn softirqs_do_not_delay_a_loop_whose_quota_is_used_up() {
    let mut world = World::asleep_beside(idle());
    world.facts.prio = 120;
    world.counters.throttled_ns = Some(39_000_000);
    world.timer_interrupt(1001, 5);
    world.on(1, 2_000, 0, KernelEvent::SoftirqEntry(Softirq(3))).on(
        1,
        30_000,
        0,
        KernelEvent::SoftirqExit(Softirq(3)),
    );
    world.loop_runs(41_000, idle());
    let explanation = world.explained();

    assert_eq!(main_of(&explanation), (Kind::CpuQuota, none()));
    assert_eq!(us_of(&explanation, Kind::Softirq), 0);
}

#[test]
fn a_wait_that_the_kernel_did_not_count_is_not_blamed_on_a_quota() {
    for counted in [Some(0), Some(5_000)] {
        assert_ne!(main_of(&held_back(idle(), counted)).0, Kind::CpuQuota, "{counted:?}");
        assert_eq!(
            main_of(&held_back(dd(), counted)),
            (Kind::Preempted, "dd".to_owned()),
            "{counted:?}"
        );
    }
    assert_eq!(main_of(&held_back(dd(), None)), (Kind::Preempted, "dd".to_owned()));
}

#[test]
fn a_loop_that_woke_on_an_idle_cpu_is_held_by_its_quota_only_where_the_kernel_counted_it() {
    let plant = |throttled_ns| {
        let mut world = World::asleep_beside(idle());
        world.facts.prio = 120;
        world.counters.throttled_ns = throttled_ns;
        world.timer_interrupt(1001, 5).loop_runs(41_000, idle());
        main_of(&world.explained()).0
    };

    assert_eq!(plant(Some(39_000_000)), Kind::CpuQuota);
    assert_ne!(plant(None), Kind::CpuQuota);
}

#[test]
fn a_cpu_that_idled_briefly_before_the_loop_shows_no_rule() {
    for prio in [120, PRIO] {
        let mut world = World::asleep_beside(dd());
        world.facts.prio = prio;
        world.counters.has_fair_server = true;
        world.timer_interrupt(1001, 5).switch(1010, dd(), 1, idle()).loop_runs(1300, idle());
        let explanation = world.explained();
        for rule in [Kind::CpuQuota, Kind::RtThrottling, Kind::FairServer] {
            assert_eq!(us_of(&explanation, rule), 0, "{explanation:?}");
        }
    }
}

/// A loop whose timer's function ran in time, and that nothing woke until 31 ms.
fn not_woken(running: Thread, frozen: Option<bool>) -> Explanation {
    let mut world = World::asleep_beside(running);
    world.counters.is_guest = true;
    world.on(1, 1001, 0, KernelEvent::VectorEntry(Vector::LocalTimer));
    let now = us(1002);
    world.on(1, 1002, 0, KernelEvent::TimerExpireEntry { timer: TIMER, function: WAKE_UP, now });
    world.on(1, 1005, 0, KernelEvent::VectorExit(Vector::LocalTimer));
    world.on(0, 31_000, 55, KernelEvent::Waking { thread: looper(), target_cpu: 1 });
    world.loop_runs(31_008, running);
    world.woken_frozen(31_000, 55, frozen);
    world.explained()
}

#[test]
fn a_frozen_loop_keeps_sleeping_although_its_timer_fired() {
    for running in [idle(), dd()] {
        let explanation = not_woken(running, Some(true));
        assert_eq!(main_of(&explanation), (Kind::CgroupFreezer, none()));
        assert!(us_of(&explanation, Kind::CgroupFreezer) >= 29_900);
    }
}

#[test]
fn a_wake_up_that_does_not_come_names_no_freezer_by_itself() {
    for frozen in [Some(false), None] {
        let explanation = not_woken(dd(), frozen);
        assert_eq!(main_of(&explanation).0, Kind::Unexplained, "{frozen:?}");
        assert!(explanation.main().unwrap().evidence.contains("no freezer shows why"));
    }
}

#[test]
fn a_sleep_that_is_restarted_after_the_thaw_is_still_blamed_on_the_freezer() {
    let mut world = World::asleep_beside(dd());
    world.on(1, 1001, 0, KernelEvent::VectorEntry(Vector::LocalTimer));
    world.on(
        1,
        1002,
        0,
        KernelEvent::TimerExpireEntry { timer: TIMER, function: WAKE_UP, now: us(1002) },
    );
    world.on(1, 1005, 0, KernelEvent::VectorExit(Vector::LocalTimer));
    world.on(0, 31_000, 55, KernelEvent::Waking { thread: looper(), target_cpu: 1 });
    world.switch(31_005, dd(), 0, looper());
    world.timer_set(31_010, 1000);
    world.switch(31_012, looper(), 1, dd());
    world.timer_interrupt(31_014, 4).loop_runs(31_020, dd());
    world.woken_frozen(31_000, 55, Some(true));

    assert_eq!(main_of(&world.explained()), (Kind::CgroupFreezer, none()));
}

#[test]
fn a_late_timer_is_not_blamed_on_a_freezer() {
    let mut world = World::asleep_beside(idle());
    world.timer_interrupt(31_000, 5).loop_runs(31_010, idle());
    assert_ne!(main_of(&world.explained()).0, Kind::CgroupFreezer);
}
