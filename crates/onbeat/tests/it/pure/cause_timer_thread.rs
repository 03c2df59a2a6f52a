//! An ordinary loop on PREEMPT_RT, whose timer expires in the thread `ktimers`: what keeps that thread
//! off its CPU is the cause.

use crate::cause_world::{
    LOOP, TICK, TIMER, WAKE_UP, World, dd, idle, looper, main_of, none, thread, us, us_of,
};
use onbeat::cause::event::{KernelEvent, Label, Softirq, Thread, ThreadState, Vector};
use onbeat::cause::kind::CauseKind as Kind;

const HRTIMER: Softirq = Softirq(8);

/// FIFO 1.
fn ktimers() -> Thread {
    thread(9, 98, "ktimers/1")
}

fn hog() -> Thread {
    thread(8, 49, "hog")
}

fn ordinary_loop_beside(running: Thread) -> World {
    let mut world = World::asleep_beside(running);
    world.facts.prio = 120;
    world.counters.is_guest = true;
    world
}

/// Adds the interrupt of the loop's timer, which wakes `ktimers` and leaves 3 us later.
fn interrupt(world: &mut World, at_us: u64) {
    world.on(1, at_us, 0, KernelEvent::VectorEntry(Vector::LocalTimer));
    world.on(1, at_us + 3, 0, KernelEvent::VectorExit(Vector::LocalTimer));
}

/// Adds the switch from `prev` to `ktimers`, and the begin of the timer's function 2 us later.
fn expires(world: &mut World, at_us: u64, prev: Thread) {
    world.switch(at_us, prev, 0, ktimers());
    world.on(1, at_us + 1, 9, KernelEvent::SoftirqEntry(HRTIMER));
    let now = us(at_us + 2);
    world.on(
        1,
        at_us + 2,
        9,
        KernelEvent::TimerExpireEntry { timer: TIMER, function: WAKE_UP, now },
    );
}

/// Adds the loop's wake-up by `ktimers`, the end of the softirq, and the switch to the loop.
fn wakes(world: &mut World, at_us: u64) {
    world.on(1, at_us, 9, KernelEvent::Waking { thread: looper(), target_cpu: 1 });
    world.on(1, at_us + 1, 9, KernelEvent::SoftirqExit(HRTIMER));
    world.switch(at_us + 3, ktimers(), 1, looper()).started(at_us + 5);
}

#[test]
fn a_hog_above_the_timers_thread_preempts_the_loop_that_still_sleeps() {
    let mut world = ordinary_loop_beside(hog());
    interrupt(&mut world, 1001);
    expires(&mut world, 1300, hog());
    wakes(&mut world, 1303);
    let explanation = world.explained();

    assert_eq!(main_of(&explanation), (Kind::Preempted, "hog".to_owned()));
    assert_eq!(us_of(&explanation, Kind::Preempted), 1300 - 1004);
    let evidence = &explanation.main().unwrap().evidence;
    assert!(evidence.contains("expire in ktimers/1 [9] FIFO/RR 1 on this kernel"), "{evidence}");
}

#[test]
fn the_timers_interrupt_of_arm_has_a_number() {
    let mut world = ordinary_loop_beside(hog());
    world.on(1, 1001, 0, KernelEvent::IrqEntry { irq: 11, name: Label::from("arch_timer") });
    world.on(1, 1004, 0, KernelEvent::IrqExit { irq: 11 });
    expires(&mut world, 1300, hog());
    wakes(&mut world, 1303);
    let explanation = world.explained();

    assert_eq!(main_of(&explanation), (Kind::Preempted, "hog".to_owned()));
    assert_eq!(us_of(&explanation, Kind::Preempted), 1300 - 1004);
}

#[test]
fn the_steps_of_the_timers_thread_are_those_of_a_wake_up() {
    for running in [idle(), dd()] {
        let mut world = ordinary_loop_beside(running);
        interrupt(&mut world, 1000);
        expires(&mut world, 1006, running);
        wakes(&mut world, 1010);
        let explanation = world.explained();

        assert_eq!(main_of(&explanation), (Kind::WakeUpPath, none()), "{explanation:?}");
        assert_eq!(us_of(&explanation, Kind::WakeUpPath), world.late_us(), "{explanation:?}");
    }
}

#[test]
fn a_timers_function_that_is_preempted_is_not_a_frozen_loop() {
    let mut world = ordinary_loop_beside(dd());
    interrupt(&mut world, 1001);
    expires(&mut world, 1006, dd());
    world.switch(1009, ktimers(), 0, hog()).switch(2000, hog(), 0, ktimers());
    wakes(&mut world, 2002);
    let explanation = world.explained();

    assert_eq!(main_of(&explanation), (Kind::Preempted, "hog".to_owned()));
    assert_eq!(us_of(&explanation, Kind::CgroupFreezer), 0);
    assert_eq!(us_of(&explanation, Kind::Preempted), 991);
}

#[test]
fn a_frozen_loop_is_one_whose_timer_thread_is_done() {
    let mut world = ordinary_loop_beside(dd());
    interrupt(&mut world, 1001);
    expires(&mut world, 1006, dd());
    world.on(1, 1010, 9, KernelEvent::SoftirqExit(HRTIMER)).switch(1012, ktimers(), 1, dd());
    world.on(0, 31_000, 55, KernelEvent::Waking { thread: looper(), target_cpu: 1 });
    world.loop_runs(31_008, dd()).woken_frozen(31_000, 55, Some(true));

    assert_eq!(main_of(&world.explained()), (Kind::CgroupFreezer, none()));
}

#[test]
fn timers_of_others_that_expire_first_are_a_softirq() {
    let mut world = ordinary_loop_beside(dd());
    interrupt(&mut world, 1001);
    world.switch(1006, dd(), 0, ktimers()).on(1, 1007, 9, KernelEvent::SoftirqEntry(HRTIMER));
    let other = KernelEvent::TimerExpireEntry { timer: 0x1002, function: TICK, now: us(1008) };
    world.on(1, 1008, 9, other);
    let own = KernelEvent::TimerExpireEntry { timer: TIMER, function: WAKE_UP, now: us(1308) };
    world.on(1, 1308, 9, own);
    wakes(&mut world, 1310);
    let explanation = world.explained();

    assert_eq!(main_of(&explanation), (Kind::Softirq, "timer tick_nohz_handler".to_owned()));
    assert_eq!(us_of(&explanation, Kind::Softirq), 300);
}

#[test]
fn interrupts_that_were_off_delay_the_interrupt_that_wakes_the_timers_thread() {
    let mut world = ordinary_loop_beside(dd());
    interrupt(&mut world, 1400);
    expires(&mut world, 1406, dd());
    wakes(&mut world, 1410);
    let reading = world.reading(1406, 0);
    (reading.prev, reading.next, reading.prev_syscall) = (7, 9, Some(libc::SYS_ioctl));
    let explanation = world.explained();

    assert_eq!(explanation.main().unwrap().words(), "interrupts off in dd/ioctl");
    assert_eq!(us_of(&explanation, Kind::InterruptsOff), 400);
}

#[test]
fn without_readings_the_way_a_thread_is_preempted_shows_whether_it_was_in_the_kernel() {
    const PREEMPTED_IN_KERNEL: u32 = 0x100;
    let late = |state| {
        let mut world = ordinary_loop_beside(dd());
        interrupt(&mut world, 1400);
        expires(&mut world, 1406, dd());
        wakes(&mut world, 1410);
        let events = &mut world.window.cpus[1].events;
        let switch = events.iter_mut().find(|event| event.at == us(1406)).unwrap();
        switch.what = KernelEvent::Switch { prev: dd(), prev_state: state, next: ktimers() };
        world.explained()
    };

    let in_kernel = late(ThreadState(PREEMPTED_IN_KERNEL));
    assert_eq!(main_of(&in_kernel), (Kind::InterruptsOff, "dd".to_owned()));
    let in_user_code = late(ThreadState(0));
    assert_eq!(main_of(&in_user_code), (Kind::LateTimer, none()));
    assert!(in_user_code.main().unwrap().evidence.contains("dd [7] was in user code"));
}

#[test]
fn a_softirq_that_another_thread_is_in_keeps_the_timers_thread_waiting_for_its_lock() {
    const WAITS_FOR_LOCK: u32 = 2;
    let mut world = ordinary_loop_beside(dd());
    world.on(1, 950, 7, KernelEvent::SoftirqEntry(Softirq(3)));
    interrupt(&mut world, 1001);
    world.switch(1006, dd(), 0, ktimers()).switch(1009, ktimers(), WAITS_FOR_LOCK, dd());
    world.on(1, 1909, 7, KernelEvent::SoftirqExit(Softirq(3)));
    expires(&mut world, 1912, dd());
    wakes(&mut world, 1915);
    let explanation = world.explained();

    assert_eq!(main_of(&explanation), (Kind::Softirq, "NET_RX".to_owned()));
    assert_eq!(us_of(&explanation, Kind::Softirq), 1 + 2 + 900, "before and after the interrupt");
}

#[test]
fn a_lock_that_no_softirq_holds_is_named_with_its_holder() {
    const WAITS_FOR_LOCK: u32 = 2;
    let mut world = ordinary_loop_beside(dd());
    interrupt(&mut world, 1001);
    world.switch(1006, dd(), 0, ktimers()).switch(1009, ktimers(), WAITS_FOR_LOCK, dd());
    expires(&mut world, 1909, dd());
    wakes(&mut world, 1912);

    assert_eq!(main_of(&world.explained()), (Kind::LockWait, "dd".to_owned()));
}

#[test]
fn a_timers_thread_that_another_timer_woke_gets_no_interrupt_for_the_loops() {
    let mut world = ordinary_loop_beside(hog());
    // Woken before the loop's timer is due, and kept off the CPU from then on.
    interrupt(&mut world, 700);
    world.switch(1500, hog(), 0, ktimers()).on(1, 1501, 9, KernelEvent::SoftirqEntry(HRTIMER));
    let other = KernelEvent::TimerExpireEntry { timer: 0x1002, function: TICK, now: us(1502) };
    let own = KernelEvent::TimerExpireEntry { timer: TIMER, function: WAKE_UP, now: us(1504) };
    world.on(1, 1502, 9, other).on(1, 1504, 9, own);
    wakes(&mut world, 1506);
    let explanation = world.explained();

    assert_eq!(main_of(&explanation), (Kind::Preempted, "hog".to_owned()));
    assert_eq!(us_of(&explanation, Kind::Preempted), 500);
}

#[test]
fn a_thread_below_the_timers_thread_that_keeps_the_cpu_is_in_a_kernel_section() {
    let mut world = ordinary_loop_beside(dd());
    world.on(1, 900, 7, KernelEvent::SyscallEnter { number: libc::SYS_write });
    interrupt(&mut world, 1001);
    expires(&mut world, 1500, dd());
    wakes(&mut world, 1503);

    assert_eq!(world.explained().main().unwrap().words(), "kernel section in dd/write");
}

#[test]
fn a_real_time_loops_timer_expires_in_the_interrupt_as_ever() {
    let mut world = World::asleep_beside(hog());
    world.timer_interrupt(1001, 5);
    world.switch(1300, hog(), 0, looper()).started(1302);
    let explanation = world.explained();

    assert_eq!(main_of(&explanation).0, Kind::KernelSection, "{LOOP} is above the hog");
    assert!(!explanation.main().unwrap().evidence.contains("ktimers"));
}
