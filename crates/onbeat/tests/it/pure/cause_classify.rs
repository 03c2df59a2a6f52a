//! Each cause is found from the events that show it.

use crate::cause_world::{
    LOOP, TICK, TIMER, World, dd, idle, looper, main_of, none, thread, us, us_of,
};
use onbeat::cause::event::{KernelEvent, Label, ThreadState, Vector};
use onbeat::cause::inside::{CallLeftIn, Inside, InsideEvent, LentPriority};
use onbeat::cause::kind::CauseKind as Kind;
use onbeat::cause::process_view::ProcessView;
use onbeat::cause::{SpikeFacts, WaitingCall, stalls};

#[test]
fn a_cpu_that_slept_woke_up_late() {
    let mut world = World::asleep_beside(idle());
    world
        .on(1, 103, 0, KernelEvent::IdleEntry { state: 2 })
        .timer_interrupt(1180, 5)
        .loop_runs(1187, idle());
    let explanation = world.explained();
    assert_eq!(main_of(&explanation), (Kind::LateIdleExit, none()));
    assert_eq!((explanation.lateness_ns, us_of(&explanation, Kind::LateIdleExit)), (189_000, 180));
    assert!(explanation.main().unwrap().evidence.contains("idle state 2"));
    assert_eq!(us_of(&explanation, Kind::WakeUpPath), 9);
}

#[test]
fn a_system_call_with_interrupts_off_delayed_the_timer() {
    let mut world = World::asleep_beside(dd());
    world.on(1, 150, 7, KernelEvent::SyscallEnter { number: libc::SYS_write });
    world.timer_interrupt(1400, 5).loop_runs(1407, dd());
    let explanation = world.explained();
    assert_eq!(explanation.main().unwrap().words(), "interrupts off in dd/write");
    assert_eq!(us_of(&explanation, Kind::InterruptsOff), 400);
}

#[test]
fn the_timer_of_a_relative_sleep_is_found_although_it_ends_slightly_later() {
    let late = |relative| {
        let mut world = World::asleep_beside(idle());
        world
            .on(1, 103, 0, KernelEvent::IdleEntry { state: 2 })
            .timer_interrupt(1180, 5)
            .loop_runs(1187, idle());
        // The kernel's sleep began 3 us after the loop had read its clock, and nothing else shows
        // when the loop went to sleep.
        (world.facts.relative, world.facts.expiry, world.facts.release) =
            (relative, us(997), us(997));
        world.facts.entered_sleep = None;
        world.explained()
    };

    let explanation = late(true);
    assert_eq!(main_of(&explanation), (Kind::LateIdleExit, none()));
    assert_eq!(us_of(&explanation, Kind::OwnOverrun), 0, "the loop had its timer set in time");
    assert!(
        us_of(&late(false), Kind::OwnOverrun) > 0,
        "what a timer that is not the loop's would come to"
    );
}

#[test]
fn what_a_loop_without_a_timer_runs_after_it_slept_is_its_wake_up() {
    let woken = |entered_sleep| {
        let mut world = World::asleep_beside(idle());
        for cpu in &mut world.window.cpus {
            cpu.events.clear();
        }
        world.switch(101, looper(), 1, idle());
        world.on(0, 1000, 9, KernelEvent::Waking { thread: looper(), target_cpu: 1 });
        world.switch(1150, idle(), 0, looper()).started(1190);
        world.facts.entered_sleep = entered_sleep;
        us_of(&world.explained(), Kind::OwnOverrun)
    };
    assert_eq!(woken(Some(us(101))), 0);
    assert_eq!(woken(None), 40, "where nothing shows that it slept");
}

#[test]
fn user_code_cannot_delay_the_timer() {
    let mut world = World::asleep_beside(dd());
    world.on(1, 150, 7, KernelEvent::SyscallExit { number: libc::SYS_write, result: 0 });
    world.timer_interrupt(1400, 5).loop_runs(1407, dd());
    let explanation = world.explained();
    assert_eq!(main_of(&explanation), (Kind::LateTimer, none()), "dd did nothing that could have");
    assert!(explanation.main().unwrap().evidence.contains("dd [7] was in user code"));
}

#[test]
fn a_system_call_did_not_yield_after_the_wake_up() {
    let mut world = World::asleep_beside(dd());
    world.on(1, 150, 7, KernelEvent::SyscallEnter { number: libc::SYS_write });
    world.timer_interrupt(1001, 5).loop_runs(1906, dd());
    let explanation = world.explained();

    assert_eq!(explanation.main().unwrap().words(), "kernel section in dd/write");
    assert_eq!(us_of(&explanation, Kind::KernelSection), 900);
    assert!(
        explanation.main().unwrap().evidence.starts_with("the kernel worked for dd [7] in write")
    );
}

#[test]
fn the_system_call_is_known_from_its_end_or_from_the_counters_too() {
    let mut world = World::asleep_beside(dd());
    world.timer_interrupt(1001, 5).loop_runs(1906, dd());
    world.on(1, 2500, 7, KernelEvent::SyscallExit { number: libc::SYS_read, result: 0 });
    assert_eq!(world.explained().main().unwrap().words(), "kernel section in dd/read");

    let mut world = World::asleep_beside(dd());
    world.timer_interrupt(1001, 5).loop_runs(1906, dd());
    world.reading(101, 0);
    let reading = world.reading(1906, 0);
    (reading.prev, reading.next, reading.prev_syscall) = (7, LOOP, Some(libc::SYS_fsync));

    assert_eq!(world.explained().main().unwrap().words(), "kernel section in dd/fsync");
}

#[test]
fn a_handler_of_a_device_ran_before_the_timers_interrupt_and_after_it() {
    let mut world = World::asleep_beside(dd());
    world
        .device(990, 1200, "eth0")
        .timer_interrupt(1201, 5)
        .device(1207, 1307, "eth0")
        .loop_runs(1309, dd());
    let explanation = world.explained();
    assert_eq!(main_of(&explanation), (Kind::HardIrq, "eth0 (irq 36)".to_owned()));
    assert_eq!(us_of(&explanation, Kind::HardIrq), 300);
    assert_eq!(
        us_of(&explanation, Kind::KernelSection),
        0,
        "a switch of 3 us is not a kernel section"
    );
}

#[test]
fn another_timer_in_the_same_interrupt_is_named_by_its_function() {
    let mut world = World::asleep_beside(idle());
    world.on(1, 1001, 0, KernelEvent::VectorEntry(Vector::LocalTimer));
    world.on(
        1,
        1002,
        0,
        KernelEvent::TimerExpireEntry { timer: 0x1002, function: TICK, now: us(1002) },
    );
    world.on(
        1,
        1303,
        0,
        KernelEvent::TimerExpireEntry { timer: TIMER, function: 1, now: us(1303) },
    );
    world.on(1, 1304, 0, KernelEvent::Waking { thread: looper(), target_cpu: 1 });
    world.on(1, 1306, 0, KernelEvent::VectorExit(Vector::LocalTimer));
    world.loop_runs(1308, idle());
    let explanation = world.explained();

    assert_eq!(main_of(&explanation), (Kind::HardIrq, "timer tick_nohz_handler".to_owned()));
    assert_eq!(us_of(&explanation, Kind::HardIrq), 301, "with the way to the next timer");
}

#[test]
fn a_softirq_ran_between_the_wake_up_and_the_switch() {
    let mut world = World::asleep_beside(dd());
    world.timer_interrupt(1001, 5).softirq(1007, 1507, 3).loop_runs(1509, dd());
    let explanation = world.explained();
    assert_eq!(main_of(&explanation), (Kind::Softirq, "NET_RX".to_owned()));
    assert_eq!(us_of(&explanation, Kind::Softirq), 500);
}

#[test]
fn a_thread_of_equal_priority_kept_the_cpu() {
    let hog = thread(8, crate::cause_world::PRIO, "hog");
    let mut world = World::asleep_beside(hog);
    world.timer_interrupt(1001, 5).loop_runs(3006, hog);
    let explanation = world.explained();

    assert_eq!(explanation.main().unwrap().words(), "preempted by hog");
    assert!(explanation.main().unwrap().evidence.contains("hog [8] FIFO/RR 90"));
    assert_eq!(us_of(&explanation, Kind::Preempted), 2000);
}

#[test]
fn an_ordinary_loop_waits_for_other_ordinary_threads() {
    let mut world = World::asleep_beside(dd());
    world.facts.prio = 120;
    world.timer_interrupt(1001, 5).loop_runs(4006, dd());
    assert_eq!(main_of(&world.explained()), (Kind::Preempted, "dd".to_owned()));
}

#[test]
fn the_loop_went_to_sleep_after_the_instant_to_wake_up_at() {
    let mut world = World::asleep_beside(idle());
    for cpu in &mut world.window.cpus {
        cpu.events.clear();
    }

    world.facts.entered_sleep = Some(us(1499));
    world.switch(50, idle(), 0, looper());
    world.timer_set(1500, 1000).timer_interrupt(1502, 4).started(1510);
    let explanation = world.explained();
    assert_eq!(main_of(&explanation), (Kind::OwnOverrun, none()));
    assert_eq!(us_of(&explanation, Kind::OwnOverrun), 500);
}

#[test]
fn work_that_took_longer_than_planned_is_the_loops_own() {
    let mut world = World::asleep_beside(idle());
    world.timer_interrupt(1001, 5).loop_runs(1008, idle()).worked(100, 900);
    let explanation = world.explained();
    assert_eq!((main_of(&explanation).0, explanation.lateness_ns), (Kind::OwnOverrun, 800_000));
}

/// The loop sleeps in a system call of its work until `waker` wakes it.
fn waits(call: i64, waker: u32) -> World {
    let mut world = World::asleep_beside(idle());
    world.timer_interrupt(1001, 5).loop_runs(1008, idle()).worked(10, 900);
    world.switch(1020, looper(), 1, dd());
    let reading = world.reading(1020, 0);
    (reading.prev, reading.next, reading.prev_syscall) = (LOOP, 7, Some(call));
    world.on(0, 1850, waker, KernelEvent::Waking { thread: looper(), target_cpu: 1 });
    world.switch(1855, dd(), 0, looper());

    world
}

#[test]
fn work_that_ended_asleep_in_a_call_says_so_and_other_work_does_not() {
    // Of 895 us the loop slept for the last hundred but five.
    let mut world = World::asleep_beside(idle());
    world.timer_interrupt(1001, 5).loop_runs(1008, idle()).worked(10, 895);
    world.switch(1800, looper(), 2, dd());
    let reading = world.reading(1800, 0);
    (reading.prev, reading.next, reading.prev_syscall) = (LOOP, 7, Some(libc::SYS_pwrite64));
    world.on(0, 1895, 7, KernelEvent::Waking { thread: looper(), target_cpu: 1 });
    world.switch(1900, dd(), 0, looper());
    let explanation = world.explained();
    let evidence = &explanation.main().unwrap().evidence;
    assert!(
        evidence.contains("it then slept in pwrite64, whose own time until then"),
        "{evidence}"
    );

    let mut alone = World::asleep_beside(idle());
    alone.timer_interrupt(1001, 5).loop_runs(1008, idle()).worked(100, 900);
    let mut says = |is_guest: bool, end: &str| {
        alone.counters.is_guest = is_guest;
        let explanation = alone.explained();
        let evidence = &explanation.main().unwrap().evidence;
        assert!(evidence.ends_with(end), "{evidence}");
    };
    says(false, "the thread had its CPU and nothing interrupted it");
    says(true, "a pause by the host that no steal counter shows would look the same");
}

#[test]
fn a_lock_is_named_with_its_holder_and_the_thread_that_preempted_the_holder() {
    let holder = thread(31, 120, "reader");
    let mut world = waits(libc::SYS_futex, 31);
    let named = world.explained();
    assert_eq!(main_of(&named).0, Kind::LockWait);
    assert_eq!(us_of(&named, Kind::LockWait), 830);

    // Of a program that is watched, where the arguments are not read: a lock, or a condition.
    let mut watched = waits(libc::SYS_futex, 31);
    watched.facts.waits_in = Some(WaitingCall { number: libc::SYS_clock_nanosleep, first: 1 });
    assert_eq!(watched.explained().main().unwrap().words(), "waited in its work in futex");

    world.on(
        0,
        1100,
        31,
        KernelEvent::Switch {
            prev: holder,
            prev_state: ThreadState(0),
            next: thread(40, 120, "hog"),
        },
    );
    world.on(
        0,
        1800,
        40,
        KernelEvent::Switch {
            prev: thread(40, 120, "hog"),
            prev_state: ThreadState(0),
            next: holder,
        },
    );
    let explanation = world.explained();
    let main = explanation.main().unwrap();

    assert_eq!(main.words(), "waited for a lock held by reader");
    assert!(
        main.evidence.contains("hog") && main.evidence.contains("kept the holder off"),
        "{}",
        main.evidence
    );
}

/// The loop leaves its CPU at 1020 us in a futex call with these arguments, and `waker` wakes it.
fn waits_in_futex(waker: u32, operation: u32, word: u32, owner: u32) -> World {
    let mut world = waits(libc::SYS_futex, waker);
    let call = CallLeftIn { number: libc::SYS_futex, operation, first: 0x7f00_0010, word, owner };
    world.window.inside.push(InsideEvent {
        at: us(1020),
        cpu: 1,
        tid: LOOP,
        what: Inside::LeftIn(call),
    });
    // In the PID namespace of a container the threads have other numbers.
    let maps = "7f000000-7f001000 rw-p 00000000 00:00 0\n";
    world.counters.process = Some(ProcessView::new(maps, &[(3, "a pipe")], &[(5, 31), (6, 7)]));
    world
}

/// Thread 31 is switched out on CPU 0, runnable, and thread 40 runs until it is back.
fn keeps_off(world: &mut World, from_us: u64, to_us: u64, prio: i32) {
    let (holder, middle) = (thread(31, prio, "logger"), thread(40, 49, "middle"));
    let switch = |prev, next| KernelEvent::Switch { prev, prev_state: ThreadState(0), next };
    world.on(0, from_us, 31, switch(holder, middle));
    world.on(0, to_us, 40, switch(middle, holder));
}

#[test]
fn a_mutex_without_inheritance_whose_holder_is_kept_off_is_a_priority_inversion() {
    let mut world = waits_in_futex(31, 0, 2, 5);
    keeps_off(&mut world, 900, 1_800, 89);
    let explanation = world.explained();
    let main = explanation.main().unwrap();
    assert_eq!(main.words(), "priority inversion by middle");
    assert!(
        main.evidence
            .contains("logger [31] FIFO/RR 10 held the lock, without priority inheritance"),
        "{}",
        main.evidence
    );

    let mut briefly = waits_in_futex(31, 0, 2, 5);
    keeps_off(&mut briefly, 1_100, 1_200, 89);
    assert_eq!(main_of(&briefly.explained()), (Kind::LockWait, "logger".to_owned()));
    let mut above = waits_in_futex(31, 0, 2, 5);
    above.facts.prio = 49;
    keeps_off(&mut above, 900, 1_800, 89);
    assert_eq!(main_of(&above.explained()), (Kind::LockWait, "logger".to_owned()), "as high");
    let mut inherits = waits_in_futex(31, 6, 0x8000_0005, 0);
    keeps_off(&mut inherits, 900, 1_800, 89);
    let explanation = inherits.explained();
    assert_eq!(main_of(&explanation), (Kind::LockWait, "logger".to_owned()));
    assert!(explanation.main().unwrap().evidence.contains("FUTEX_LOCK_PI"));
}

#[test]
fn between_ordinary_threads_there_is_no_priority_inversion() {
    let mut world = waits_in_futex(31, 0, 2, 5);
    world.facts.prio = 120;
    let (holder, other) = (thread(31, 120, "logger"), thread(40, 120, "cc1"));
    let switch = |prev, next| KernelEvent::Switch { prev, prev_state: ThreadState(0), next };
    world.on(0, 900, 31, switch(holder, other)).on(0, 1_800, 40, switch(other, holder));
    let explanation = world.explained();
    assert_eq!(main_of(&explanation), (Kind::LockWait, "logger".to_owned()));
    let evidence = &explanation.main().unwrap().evidence;
    assert!(evidence.contains("cc1 [40]") && evidence.contains("kept it off"), "{evidence}");
}

#[test]
fn a_holder_that_slept_until_it_let_go_was_not_kept_off() {
    let mut world = waits_in_futex(31, 0, 2, 5);
    // Its first event: when it was woken is not recorded.
    let (holder, hog) = (thread(31, 120, "logger"), thread(40, 120, "hog"));
    let switch = KernelEvent::Switch { prev: hog, prev_state: ThreadState(0), next: holder };
    world.on(0, 1_840, 40, switch);
    let explanation = world.explained();
    assert_eq!(explanation.main().unwrap().words(), "waited for a lock held by logger");
}

#[test]
fn a_condition_is_data_and_names_who_signalled() {
    let mut world = waits_in_futex(31, 9, 0, 0);
    keeps_off(&mut world, 500, 600, 120);
    assert_eq!(world.explained().main().unwrap().words(), "waited for data from logger");
}

#[test]
fn a_full_pipe_is_named_by_its_descriptor() {
    let mut world = waits(libc::SYS_write, 7);
    let call = CallLeftIn { number: libc::SYS_write, first: 3, ..CallLeftIn::default() };
    world.window.inside.push(InsideEvent {
        at: us(1020),
        cpu: 1,
        tid: LOOP,
        what: Inside::LeftIn(call),
    });
    world.counters.process = Some(ProcessView::new("", &[(3, "a pipe")], &[]));
    assert_eq!(world.explained().main().unwrap().words(), "waited to write to a pipe");
}

#[test]
fn page_faults_and_memory_calls_have_their_own_lengths_and_the_plan_is_not_in_them() {
    let mut world = World::asleep_beside(idle());
    world.timer_interrupt(1001, 5).loop_runs(1008, idle()).worked(100, 900);
    let met = |at_us, what| InsideEvent { at: us(at_us), cpu: 1, tid: LOOP, what };
    let fault = Inside::Fault { address: 0x7f00_0100, ns: 300_000, is_major: false };
    let unmap = Inside::MemoryCall { number: libc::SYS_munmap, ns: 200_000, is_whole: true };
    world.window.inside = vec![met(1_400, fault), met(1_700, unmap)];
    let maps = "7f000000-7f001000 rw-p 00000000 00:00 0 [heap]\n";
    world.counters.process = Some(ProcessView::new(maps, &[], &[]));
    let explanation = world.explained();
    assert_eq!(explanation.main().unwrap().words(), "page fault in heap");
    assert_eq!(us_of(&explanation, Kind::PageFault), 300);
    assert_eq!(us_of(&explanation, Kind::MemoryCall), 200);
    assert_eq!(us_of(&explanation, Kind::OwnOverrun), 300, "900 us, of which 100 are planned");
}

#[test]
fn a_short_page_fault_is_not_what_long_work_took() {
    let mut world = World::asleep_beside(idle());
    world.timer_interrupt(1001, 5).loop_runs(1008, idle()).worked(100, 900);
    world.on(1, 1_399, LOOP, KernelEvent::PageFault { address: 0x7f00_0100, user: true });
    let fault = Inside::Fault { address: 0x7f00_0100, ns: 2_000, is_major: false };
    world.window.inside = vec![InsideEvent { at: us(1_402), cpu: 1, tid: LOOP, what: fault }];
    let explanation = world.explained();
    assert_eq!(main_of(&explanation).0, Kind::OwnOverrun);
    assert_eq!(us_of(&explanation, Kind::PageFault), 27, "and the way into the kernel and back");
}

#[test]
fn a_lock_with_inheritance_for_which_the_loop_spins_is_no_work() {
    let mut world = World::asleep_beside(idle());
    world.timer_interrupt(1001, 5).loop_runs(1008, idle()).worked(100, 900);
    let (logger, idle_0) = (thread(31, 120, "logger"), thread(0, 120, "swapper/0"));
    let switch = KernelEvent::Switch { prev: idle_0, prev_state: ThreadState(0), next: logger };
    world.on(0, 800, 0, switch);
    let lent = |at_us, waiter| InsideEvent {
        at: us(at_us),
        cpu: 1,
        tid: LOOP,
        what: Inside::Lent(LentPriority { holder: 31, holder_prio: 120, waiter }),
    };
    world.window.inside = vec![lent(1_100, LOOP), lent(1_800, 0)];
    let explanation = world.explained();
    assert_eq!(explanation.main().unwrap().words(), "waited for a lock held by logger");
    assert_eq!(us_of(&explanation, Kind::LockWait), 700);
}

#[test]
fn a_wait_for_a_reply_is_not_counted_as_work() {
    let explanation = waits(libc::SYS_ppoll, 12).explained();
    assert_eq!(explanation.main().unwrap().words(), "waited in its work in ppoll");
    assert_eq!(us_of(&explanation, Kind::OwnWait), 830);
    assert_eq!(us_of(&explanation, Kind::OwnOverrun), 55, "what it did itself beyond the plan");
}

#[test]
fn a_sleep_that_may_be_the_one_between_two_cycles_of_a_watched_loop_has_no_name() {
    let main = |own: WaitingCall, (call, clock): (i64, u64), waker: u32, is_set: bool| {
        let mut world = waits(call, waker);
        world.facts.waits_in = Some(own);
        let left_in = CallLeftIn { number: call, first: clock, ..CallLeftIn::default() };
        let what = Inside::LeftIn(left_in);
        world.window.inside.push(InsideEvent { at: us(1020), cpu: 1, tid: LOOP, what });
        if is_set {
            world.timer_set(1019, 1845);
        }
        main_of(&world.explained()).0
    };
    let interrupt = 0;
    let sleep = libc::SYS_clock_nanosleep;
    let own = WaitingCall { number: sleep, first: 1 };
    assert_eq!(main(own, (sleep, 1), interrupt, false), Kind::Unexplained);
    assert_eq!(main(own, (sleep, 1), interrupt, true), Kind::OwnWait, "its own timer");
    assert_eq!(main(own, (sleep, 0), interrupt, false), Kind::OwnWait, "another clock");
    assert_eq!(main(own, (libc::SYS_ppoll, 1), interrupt, false), Kind::OwnWait, "another call");
    assert_eq!(main(own, (sleep, 1), 7, false), Kind::Unexplained, "no thread ends a sleep");
    let signal = libc::SYS_rt_sigtimedwait;
    let own = WaitingCall { number: signal, first: 1 };
    let fetched = main(own, (signal, 1), interrupt, true);
    assert_eq!(fetched, Kind::Unexplained, "the timer is set by the call that fetches it");
}

#[test]
fn missing_pages_took_the_time() {
    let mut world = World::asleep_beside(idle());
    world.timer_interrupt(1001, 5).loop_runs(1008, idle()).worked(100, 900);
    world.on(1, 1200, LOOP, KernelEvent::PageFault { address: 0x7000, user: true });
    world.on(1, 1400, LOOP, KernelEvent::PageFault { address: 0x8000, user: true });
    let explanation = world.explained();

    assert_eq!(main_of(&explanation).0, Kind::PageFault);
    assert!(explanation.main().unwrap().evidence.contains("2 page faults"));
    assert_eq!(us_of(&explanation, Kind::PageFault), 800);
}

#[test]
fn a_page_that_had_to_be_read_from_a_device_took_the_time() {
    let mut world = World::asleep_beside(idle());
    world.timer_interrupt(1001, 5).loop_runs(1008, idle()).worked(100, 9000);
    world.on(1, 1200, LOOP, KernelEvent::PageFault { address: 0x7000, user: true });
    world.switch(1205, looper(), 2, idle());
    world.on(1, 9000, 0, KernelEvent::Waking { thread: looper(), target_cpu: 1 });
    world.switch(9003, idle(), 0, looper());
    let explanation = world.explained();

    assert_eq!(main_of(&explanation).0, Kind::PageFault);
    assert!(us_of(&explanation, Kind::PageFault) >= 7795);
}

#[test]
fn the_loop_was_moved_to_a_cpu_that_slept() {
    let mut world = World::asleep_beside(idle());
    let stopper = thread(16, 0, "migration/1");
    world.timer_interrupt(1001, 5).loop_runs(1008, idle()).worked(100, 500);
    world.switch(1050, looper(), 0, stopper);
    world.on(1, 1060, 16, KernelEvent::Migrate { thread: looper(), from_cpu: 1, to_cpu: 0 });
    let zero = thread(0, 120, "swapper/0");
    world.on(0, 10, 0, KernelEvent::Switch { prev: dd(), prev_state: ThreadState(1), next: zero });
    world.on(
        0,
        1300,
        0,
        KernelEvent::Switch { prev: zero, prev_state: ThreadState(0), next: looper() },
    );
    let explanation = world.explained();

    assert_eq!(main_of(&explanation).0, Kind::Migration);
    assert!(us_of(&explanation, Kind::Migration) >= 380, "{explanation:?}");
}

#[test]
fn a_slower_cpu_made_the_work_longer() {
    let mut world = World::asleep_beside(idle());
    world.timer_interrupt(1001, 5).loop_runs(1008, idle()).worked(100, 300);
    world.on(1, 1050, 0, KernelEvent::Frequency { cpu: 1, khz: 800_000 });
    let explanation = world.explained();
    assert_eq!(
        (main_of(&explanation).0, us_of(&explanation, Kind::FrequencyChange)),
        (Kind::FrequencyChange, 200)
    );
    assert!(explanation.main().unwrap().evidence.contains("800 MHz"));

    // The steps that a governor makes all the time.
    let step = |from, to| {
        let mut world = World::asleep_beside(idle());
        world.timer_interrupt(1001, 5).loop_runs(1008, idle()).worked(100, 300);
        world.on(1, 500, 0, KernelEvent::Frequency { cpu: 1, khz: from });
        world.on(1, 1050, 0, KernelEvent::Frequency { cpu: 1, khz: to });
        let explanation = world.explained();
        (main_of(&explanation).0, us_of(&explanation, Kind::FrequencyChange))
    };
    assert_eq!(step(3_000_000, 2_880_000), (Kind::OwnOverrun, 10), "4 % of 260 us");
    assert_eq!(step(800_000, 3_000_000), (Kind::OwnOverrun, 0), "it became faster");
}

#[test]
fn long_work_on_a_new_cpu_is_not_its_cold_caches() {
    let mut world = World::asleep_beside(idle());
    world.timer_interrupt(1001, 5);
    world.on(1, 1003, 0, KernelEvent::Migrate { thread: looper(), from_cpu: 0, to_cpu: 1 });
    world.loop_runs(1008, idle()).worked(100, 3_000);
    let explanation = world.explained();
    assert_eq!(main_of(&explanation).0, Kind::OwnOverrun);
    assert!((200..=210).contains(&us_of(&explanation, Kind::Migration)), "{explanation:?}");
}

#[test]
fn a_signal_stopped_the_process() {
    let stopped = |target: u32, name: &str| {
        let mut world = World::asleep_beside(idle());
        let signal = libc::SIGSTOP;
        let stop = KernelEvent::SignalGenerate { signal, target, name: Label::from(name) };
        world.on(0, 500, 55, stop);
        let prev = thread(55, 120, "kill");
        let left = KernelEvent::Switch { prev, prev_state: ThreadState(0x10), next: dd() };
        world.on(0, 501, 55, left);
        world.on(1, 502, 55, KernelEvent::Waking { thread: looper(), target_cpu: 1 });
        world.switch(510, idle(), 0, looper()).switch(515, looper(), 4, idle());
        world.on(1, 100_000, 55, KernelEvent::Waking { thread: looper(), target_cpu: 1 });
        world.loop_runs(100_004, idle());
        let explanation = world.explained();
        assert_eq!(main_of(&explanation).0, Kind::Stopped);
        assert_eq!(us_of(&explanation, Kind::Stopped), 99_000);
        explanation.main().unwrap().evidence.clone()
    };
    let own = stopped(LOOP, "onbeat-loop");
    assert!(own.contains("signal 19 from kill [55]"), "{own}");
    // To the process of the loop, or to another one.
    let other = stopped(4_711, "servo");
    assert!(other.contains("signal 19 to servo [4711] from kill [55]"), "{other}");
}

#[test]
fn stolen_time_is_named_from_its_counter() {
    let mut world = World::asleep_beside(dd());
    world.timer_interrupt(4660, 5).loop_runs(4668, dd());
    world.reading(101, 5000);
    world.reading(4662, 8650);
    world.reading(4668, 8650);
    let explanation = world.explained();

    assert_eq!(main_of(&explanation), (Kind::HypervisorSteal, none()));
    assert_eq!(us_of(&explanation, Kind::HypervisorSteal), 3650);
    assert_eq!(
        us_of(&explanation, Kind::InterruptsOff),
        0,
        "10 us without a known call are an interrupt's arrival"
    );
}

#[test]
fn steal_before_the_spike_is_not_attributed_to_it() {
    let mut world = World::asleep_beside(dd());
    world.timer_interrupt(1100, 5).loop_runs(1108, dd());
    world.reading(101, 0);
    world.reading(1102, 700);
    let explanation = world.explained();

    assert_eq!(
        us_of(&explanation, Kind::HypervisorSteal),
        0,
        "900 us of silence before were longer"
    );
    assert_eq!(main_of(&explanation).0, Kind::LateTimer);
}

#[test]
fn a_missing_switch_is_inferred_from_the_next_record() {
    let hog = thread(8, crate::cause_world::PRIO, "hog");
    let mut world = World::asleep_beside(idle());
    // Idle at 101; from 990 on the hog runs without a recorded switch to it; the switch to the loop
    // is missing too.
    world.on(1, 985, 0, KernelEvent::VectorEntry(Vector::LocalTimer)).on(
        1,
        990,
        0,
        KernelEvent::VectorExit(Vector::LocalTimer),
    );
    world.on(1, 1001, 8, KernelEvent::VectorEntry(Vector::LocalTimer));
    world.on(
        1,
        1002,
        8,
        KernelEvent::TimerExpireEntry { timer: TIMER, function: 1, now: us(1002) },
    );
    world.on(1, 1003, 8, KernelEvent::Waking { thread: looper(), target_cpu: 1 });
    world.on(1, 1005, 8, KernelEvent::VectorExit(Vector::LocalTimer));
    world.loop_runs(3000, hog);
    let explanation = world.explained();

    assert_eq!(main_of(&explanation), (Kind::Preempted, "hog".to_owned()));
    assert_eq!(us_of(&explanation, Kind::Preempted), 1995);

    let mut world = World::asleep_beside(idle());
    world.timer_interrupt(1180, 5).started(1187);
    world.timer_set(1190, 2000).switch(1191, looper(), 1, idle());
    let explanation = world.explained();

    assert_eq!((main_of(&explanation).0, explanation.accounted_ns), (Kind::LateIdleExit, 187_000));
}

#[test]
fn a_wake_up_of_which_nothing_was_recorded_is_not_the_loops_own_time() {
    let agent = thread(75, 110, "agent");
    let mut world = World::asleep_beside(dd());
    world.switch(900, dd(), 0, agent).started(2500);
    world.timer_set(2503, 3000).switch(2504, looper(), 1, agent);
    let explanation = world.explained();
    let cause = explanation.causes.last().unwrap();

    assert_eq!((cause.kind, cause.ns), (Kind::Unexplained, 1_500_000));
    let why = "no event shows who woke the loop and when it got its CPU; agent [75] nice -10 was the last one seen there";
    assert!(cause.evidence.contains(why), "{}", cause.evidence);

    // Its wake-up was seen: then it is known since when it waited, and for whom.
    world.on(1, 1005, 75, KernelEvent::Waking { thread: looper(), target_cpu: 1 });
    let explanation = world.explained();
    assert_eq!(us_of(&explanation, Kind::Unexplained), 1470, "{explanation:?}");
}

#[test]
fn lost_events_leave_the_time_unexplained_and_are_mentioned() {
    let mut world = World::asleep_beside(dd());
    world.lost(500, 1990).loop_runs(2000, dd());
    let explanation = world.explained();
    let unexplained = explanation.causes.last().unwrap();

    assert_eq!(unexplained.kind, Kind::Unexplained);
    assert!(unexplained.ns >= 900_000, "{explanation:?}");
    assert!(unexplained.evidence.contains("events of 1490.0 us were lost on CPU 1"));
}

#[test]
fn without_any_event_everything_is_unexplained() {
    let mut world = World::asleep_beside(dd());
    for cpu in &mut world.window.cpus {
        cpu.events.clear();
    }

    world.started(1500);
    let explanation = world.explained();
    assert_eq!((explanation.accounted_ns, explanation.lateness_ns), (0, 500_000));
}

#[test]
fn several_causes_share_one_spike() {
    let mut world = World::asleep_beside(dd());
    world.on(1, 150, 7, KernelEvent::SyscallEnter { number: libc::SYS_sendto });
    world
        .device(1050, 1100, "eth0")
        .timer_interrupt(1200, 10)
        .softirq(1215, 1315, 3)
        .loop_runs(1500, dd());
    let explanation = world.explained();

    assert_eq!(us_of(&explanation, Kind::InterruptsOff), 150);
    assert_eq!(us_of(&explanation, Kind::HardIrq), 50);
    assert_eq!(us_of(&explanation, Kind::Softirq), 100);
    assert_eq!(us_of(&explanation, Kind::KernelSection), 190);
    assert_eq!(us_of(&explanation, Kind::WakeUpPath), 12);
    assert_eq!(explanation.accounted_ns, 502_000);
}

#[test]
fn a_stall_while_polling_is_explained_from_the_poll_on() {
    let mut world = World::asleep_beside(idle());
    world.facts.expiry = us(950);
    world.facts.spun_ns = 332_000;
    world.timer_interrupt(951, 5).switch(958, idle(), 0, looper());
    world.device(990, 1290, "eth0").started(1292);
    let explanation = world.explained();

    assert_eq!(main_of(&explanation), (Kind::HardIrq, "eth0 (irq 36)".to_owned()));
    assert_eq!(
        explanation.lateness_ns, 292_000,
        "from the release on: the poll before it was planned"
    );
}

#[test]
fn spikes_of_one_stall_are_one_event() {
    let spike = |expiry, start, end| SpikeFacts {
        expiry: us(expiry),
        start: us(start),
        end: us(end),
        ..SpikeFacts::default()
    };
    let spikes = [
        spike(1000, 1100, 9000),
        spike(2000, 9001, 9100),
        spike(3000, 9101, 9200),
        spike(20_000, 21_000, 21_100),
    ];
    assert_eq!(stalls(&spikes), [0..3, 3..4]);
    assert_eq!(stalls(&[]), []);
}
