//! A loop that the kernel keeps off its CPU although it could run: throttling, fair server, quota,
//! freezer. Each is found from the events and counters that show it.
#![allow(missing_docs, clippy::unwrap_used)]

mod cause_world;

use cause_world::{
    DL_TASK, RT_PERIOD, TIMER, WAKE_UP, World, dd, idle, looper, main_of, none, us, us_of,
};
use onbeat::cause::event::{KernelEvent, Softirq, Thread, Vector};
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
    assert_eq!(main_of(&explanation), (Kind::RtThrottling, "dd".to_owned()));
    assert!(explanation.main().unwrap().evidence.contains("let it on again"));
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
    assert_eq!(main_of(&explanation), (Kind::FairServer, "dd".to_owned()));
    assert_eq!(us_of(&explanation, Kind::FairServer), 25_000);
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
fn a_frozen_loop_keeps_sleeping_although_its_timer_fired() {
    for running in [idle(), dd()] {
        let mut world = World::asleep_beside(running);
        world.counters.is_guest = true;
        world.on(1, 1001, 0, KernelEvent::VectorEntry(Vector::LocalTimer));
        world.on(
            1,
            1002,
            0,
            KernelEvent::TimerExpireEntry { timer: TIMER, function: WAKE_UP, now: us(1002) },
        );
        world.on(1, 1005, 0, KernelEvent::VectorExit(Vector::LocalTimer));
        world.on(0, 31_000, 55, KernelEvent::Waking { thread: looper(), target_cpu: 1 });
        world.loop_runs(31_008, running);
        let explanation = world.explained();

        assert_eq!(main_of(&explanation), (Kind::CgroupFreezer, none()));
        assert!(us_of(&explanation, Kind::CgroupFreezer) >= 29_900);
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

    assert_eq!(main_of(&world.explained()), (Kind::CgroupFreezer, none()));
}

#[test]
fn a_late_timer_is_not_blamed_on_a_freezer() {
    let mut world = World::asleep_beside(idle());
    world.timer_interrupt(31_000, 5).loop_runs(31_010, idle());
    assert_ne!(main_of(&world.explained()).0, Kind::CgroupFreezer);
}
