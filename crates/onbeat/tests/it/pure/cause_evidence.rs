//! A culprit is named only with evidence: the call that a thread was found in, a counter, the
//! activity of another CPU.

use crate::cause_world::{
    LOOP, PRIO, TIMER, WAKE_UP, WORK, World, dd, idle, looper, main_of, none, thread, us, us_of,
};
use onbeat::cause::KernelStack;
use onbeat::cause::counters::{CounterSource, FreezerReading, ThreadReading};
use onbeat::cause::event::{KernelEvent, Label, Thread, ThreadState, Vector};
use onbeat::cause::kind::{CauseKind as Kind, Explanation};

/// A timer's interrupt that is 400 us late while dd runs, with the reading of its wake-up.
fn late_beside_dd(found: impl FnOnce(&mut World)) -> Explanation {
    let mut world = World::asleep_beside(dd());
    world.timer_interrupt(1400, 5).loop_runs(1407, dd());
    found(&mut world);
    world.explained()
}

#[test]
fn the_reading_at_the_timers_interrupt_shows_who_delayed_it() {
    let found = |syscall, in_user| {
        late_beside_dd(|world| {
            world.wake_up_found(1402, 7, syscall, in_user);
        })
    };

    let words = |explanation: &Explanation| explanation.main().unwrap().words();
    assert_eq!(words(&found(Some(libc::SYS_write), false)), "interrupts off in dd/write");
    assert_eq!(words(&found(None, true)), "late timer interrupt");
    assert!(found(None, true).main().unwrap().evidence.contains("dd [7] was in user code"));
    assert_eq!(words(&found(None, false)), "interrupts off in dd", "a thread of the kernel's own");
}

#[test]
fn the_stack_at_a_late_interrupt_is_part_of_the_evidence() {
    let names = ["asm_sysvec_apic_timer_interrupt", "console_flush_all", "vprintk_emit"];
    let with_stack_at = |at_us| {
        late_beside_dd(|world| {
            world.wake_up_found(1402, 7, Some(libc::SYS_write), false);
            world.window.functions.extend((1000..).zip(names.map(str::to_owned)));
            world.window.stacks =
                vec![KernelStack { at: us(at_us), frames: vec![1000, 1001, 1002] }];
        })
    };

    let main = with_stack_at(1403).main().unwrap().clone();
    assert_eq!(main.words(), "interrupts off in dd/write");
    let evidence = "; its interrupt found console_flush_all ← vprintk_emit";
    assert!(main.evidence.ends_with(evidence), "{}", main.evidence);

    let of_an_earlier_wake_up = with_stack_at(900);
    assert!(!of_an_earlier_wake_up.main().unwrap().evidence.contains("found"));
}

/// The kernel works for a worker thread when the loop is woken; `before` and `after` are its events
/// before the wake-up and after it.
fn held_up_by_a_worker(before: &[(u64, KernelEvent)], after: &[(u64, KernelEvent)]) -> String {
    let worker = thread(30, 120, "kworker/u8:3");
    let mut world = World::asleep_beside(worker);
    for (at_us, what) in before {
        world.on(1, *at_us, 30, *what);
    }

    world.timer_interrupt(1000, 5).loop_runs(1400, worker);
    for (at_us, what) in after {
        world.on(1, *at_us, 30, *what);
    }
    world.explained().main().unwrap().words()
}

#[test]
fn a_worker_thread_is_named_with_the_work_item_that_it_executed() {
    let start = |function| KernelEvent::WorkStart { work: 1, function };
    let end = |function| KernelEvent::WorkEnd { work: 1, function };
    let named = "kernel section in kworker/wb_workfn";
    assert_eq!(held_up_by_a_worker(&[(500, start(WORK))], &[]), named);
    assert_eq!(held_up_by_a_worker(&[], &[(1500, end(WORK))]), named, "it began earlier");

    let unnamed = "kernel section in kworker";
    assert_eq!(held_up_by_a_worker(&[(500, start(77))], &[]), unnamed, "a function without name");
    assert_eq!(held_up_by_a_worker(&[(500, start(WORK)), (600, end(WORK))], &[]), unnamed);
    assert_eq!(held_up_by_a_worker(&[], &[(1450, start(WORK)), (1500, end(WORK))]), unnamed);
    assert_eq!(held_up_by_a_worker(&[], &[]), unnamed);
}

#[test]
fn without_a_reading_a_guest_blames_no_thread() {
    let let_go_at_once = late_beside_dd(|world| {
        let reading = world.reading(1407, 0);
        (reading.prev, reading.next, reading.prev_in_user) = (7, LOOP, true);
    });

    assert_eq!(main_of(&let_go_at_once), (Kind::LateTimer, none()));
    let nothing = late_beside_dd(|world| world.counters.is_guest = true);
    assert_eq!(main_of(&nothing), (Kind::LateTimer, none()));
    let bare_metal = late_beside_dd(|_| ());
    assert_eq!(
        main_of(&bare_metal),
        (Kind::InterruptsOff, "dd".to_owned()),
        "on bare metal no host can be late"
    );
}

#[test]
fn a_cpu_that_took_other_interrupts_after_the_expiry_had_them_enabled() {
    let explained = |is_guest| {
        let mut world = World::asleep_beside(dd());
        world.on(1, 150, 7, KernelEvent::SyscallEnter { number: libc::SYS_sendto });
        world.device(1050, 1100, "eth0").timer_interrupt(1600, 5).loop_runs(1607, dd());
        world.counters.is_guest = is_guest;
        world.explained()
    };

    assert_eq!(main_of(&explained(true)), (Kind::LateTimer, none()));
    assert_eq!(us_of(&explained(true), Kind::InterruptsOff), 0);
    assert_eq!(main_of(&explained(false)).0, Kind::InterruptsOff);
}

#[test]
fn a_guest_without_deep_idle_states_waits_for_its_host() {
    let slept = |deepest_idle_ns| {
        let mut world = World::asleep_beside(idle());
        (world.counters.is_guest, world.counters.deepest_idle_ns) = (true, deepest_idle_ns);
        world
            .on(1, 103, 0, KernelEvent::IdleEntry { state: 1 })
            .timer_interrupt(1180, 5)
            .loop_runs(1187, idle());
        world.explained()
    };

    for without in [Some(1_000), None] {
        let explanation = slept(without);
        assert_eq!(explanation.main().unwrap().words(), "late timer interrupt on a halted vCPU");
        assert_eq!(us_of(&explanation, Kind::LateTimer), 180);
    }

    assert!(slept(Some(1_000)).main().unwrap().evidence.contains("takes 1.0 us to leave"));
    assert_eq!(
        main_of(&slept(Some(133_000))),
        (Kind::LateIdleExit, none()),
        "a state as deep as that may be it"
    );
}

#[test]
fn an_idle_cpu_woken_by_another_one_slept_even_if_shallow_states_are_not_recorded() {
    let woken = |deepest_idle_ns| {
        let mut world = World::asleep_beside(idle());
        (world.counters.is_guest, world.counters.deepest_idle_ns) = (true, deepest_idle_ns);
        world
            .on(0, 1001, 9, KernelEvent::Waking { thread: looper(), target_cpu: 1 })
            .loop_runs(1187, idle());
        world.explained()
    };

    let explanation = woken(Some(1_000));
    assert_eq!(explanation.main().unwrap().words(), "late timer interrupt on a halted vCPU");
    // With deep states, an idle state would have been recorded, so the CPU was in none.
    assert_eq!(main_of(&woken(Some(133_000))).0, Kind::Unexplained);
}

/// A world in which the interrupt of the loop's timer takes 300 us.
fn long_timer_interrupt() -> World {
    let mut world = World::asleep_beside(idle());
    world.on(1, 1001, 0, KernelEvent::VectorEntry(Vector::LocalTimer));
    world.on(
        1,
        1002,
        0,
        KernelEvent::TimerExpireEntry { timer: TIMER, function: WAKE_UP, now: us(1002) },
    );
    world.on(1, 1003, 0, KernelEvent::Waking { thread: looper(), target_cpu: 1 });
    world.on(1, 1301, 0, KernelEvent::VectorExit(Vector::LocalTimer));
    world.loop_runs(1303, idle());

    world
}

#[test]
fn a_long_interrupt_of_the_loops_timer_blames_neither_host_nor_kernel() {
    let mut world = long_timer_interrupt();
    world.reading(101, 0);
    world.reading(1303, 0);
    let explanation = world.explained();

    assert_eq!(main_of(&explanation), (Kind::TimerInterrupt, none()));
    assert_eq!(us_of(&explanation, Kind::TimerInterrupt), 275, "25 us are what it may take");
    let evidence = &explanation.main().unwrap().evidence;
    assert!(
        evidence.contains(
            "took 300.0 us in all: host or kernel code; its steal counter does not account for it"
        ),
        "{evidence}"
    );

    world.counters.readings.last_mut().unwrap().steal_ns = Some(290_000);
    assert_eq!(
        main_of(&world.explained()).0,
        Kind::HypervisorSteal,
        "a counter that moved is evidence"
    );
    let bare_metal = long_timer_interrupt().explained();
    assert!(bare_metal.main().unwrap().evidence.contains("kernel code or firmware"));
}

/// The same events on arm64, where the interrupt of a CPU's timer has a number.
fn on_arm(world: &mut World) {
    for event in world.window.cpus.iter_mut().flat_map(|cpu| cpu.events.iter_mut()) {
        event.what = match event.what {
            KernelEvent::VectorEntry(Vector::LocalTimer) => {
                KernelEvent::IrqEntry { irq: 11, name: Label::from("arch_timer") }
            }
            KernelEvent::VectorExit(Vector::LocalTimer) => KernelEvent::IrqExit { irq: 11 },
            other => other,
        };
    }
}

#[test]
fn the_interrupt_of_the_loops_timer_on_arm_is_not_a_devices() {
    let mut world = long_timer_interrupt();
    on_arm(&mut world);
    let explanation = world.explained();
    assert_eq!(main_of(&explanation), (Kind::TimerInterrupt, none()));
    assert_eq!(us_of(&explanation, Kind::TimerInterrupt), 275);

    let mut world = World::asleep_beside(idle());
    world.timer_interrupt(1001, 20).loop_runs(1023, idle());
    on_arm(&mut world);
    assert_eq!(us_of(&world.explained(), Kind::HardIrq), 0);
}

#[test]
fn a_short_interrupt_of_the_loops_timer_is_part_of_the_wake_up() {
    let mut world = World::asleep_beside(idle());
    world.timer_interrupt(1001, 20).loop_runs(1023, idle());
    assert_eq!(us_of(&world.explained(), Kind::TimerInterrupt), 0);
}

#[test]
fn a_timer_function_without_a_name_is_named_by_its_address() {
    let mut world = World::asleep_beside(idle());
    world.on(1, 1001, 0, KernelEvent::VectorEntry(Vector::LocalTimer));
    world.on(
        1,
        1002,
        0,
        KernelEvent::TimerExpireEntry {
            timer: 0x9,
            function: 0xffff_ffff_8123_4560,
            now: us(1002),
        },
    );
    world.on(
        1,
        1303,
        0,
        KernelEvent::TimerExpireEntry { timer: TIMER, function: WAKE_UP, now: us(1303) },
    );
    world.on(1, 1304, 0, KernelEvent::Waking { thread: looper(), target_cpu: 1 });
    world.on(1, 1306, 0, KernelEvent::VectorExit(Vector::LocalTimer));
    world.loop_runs(1308, idle());

    assert_eq!(main_of(&world.explained()), (Kind::HardIrq, "timer 0xffffffff81234560".to_owned()));
}

/// Explains an ordinary loop that waits 900 us for dd, which was found in system call `found` and
/// left in `left`.
fn ordinary_loop_beside_dd(
    found: Option<i64>,
    left: i64,
    meanwhile: impl FnOnce(&mut World),
) -> (Kind, String) {
    main_of(&explained_beside_dd(found, left, meanwhile))
}

fn explained_beside_dd(
    found: Option<i64>,
    left: i64,
    meanwhile: impl FnOnce(&mut World),
) -> Explanation {
    let mut world = World::asleep_beside(dd());
    world.facts.prio = 120;
    world.timer_interrupt(1001, 5);
    world.wake_up_found(1003, 7, found, found.is_none()).left_in_call(1906, 7, left);
    meanwhile(&mut world);
    world.loop_runs(1906, dd());

    world.explained()
}

#[test]
fn a_thread_that_kept_running_is_named_with_its_call_at_the_wake_up() {
    let explanation = explained_beside_dd(Some(libc::SYS_read), libc::SYS_futex, |_| ());
    let main = explanation.main().unwrap();
    assert_eq!(main.culprit.as_ref().unwrap().woken_in.as_deref(), Some("read"));
    assert!(main.evidence.ends_with("the loop's wake-up found it in read"), "{}", main.evidence);
    assert_eq!(main.words(), "preempted by dd", "one culprit, whatever it was doing");

    let in_user_code = explained_beside_dd(None, libc::SYS_futex, |_| ());
    assert_eq!(in_user_code.main().unwrap().culprit.as_ref().unwrap().woken_in, None);
}

#[test]
fn an_ordinary_loop_that_waited_for_one_system_call_waited_for_a_kernel_section() {
    let section = ordinary_loop_beside_dd(Some(libc::SYS_poll), libc::SYS_poll, |_| ());
    assert_eq!(section, (Kind::KernelSection, "dd".to_owned()));
    let preempted = (Kind::Preempted, "dd".to_owned());
    let another_call = ordinary_loop_beside_dd(Some(libc::SYS_read), libc::SYS_write, |_| ());

    assert_eq!(another_call, preempted, "it was in user code between the two");
    assert_eq!(ordinary_loop_beside_dd(None, libc::SYS_write, |_| ()), preempted);
    let a_tick_came = ordinary_loop_beside_dd(Some(libc::SYS_poll), libc::SYS_poll, |world| {
        world.on(1, 1500, 0, KernelEvent::VectorEntry(Vector::LocalTimer)).on(
            1,
            1503,
            0,
            KernelEvent::VectorExit(Vector::LocalTimer),
        );
    });

    assert_eq!(a_tick_came, preempted, "the scheduler may have let dd run on until the tick");
}

/// The kernel works for `dd` when the loop is woken; before, a runnable real-time thread left the
/// CPU.
fn beside_a_second_real_time_thread(afterwards: impl FnOnce(&mut World, Thread)) -> Kind {
    let other = thread(60, 49, "other-rt");
    let mut world = World::asleep_beside(other);
    world.counters.has_fair_server = true;
    world.switch(500, other, 0, dd());
    afterwards(&mut world, other);
    world.on(1, 950, 7, KernelEvent::SyscallEnter { number: libc::SYS_write });
    world.timer_interrupt(1001, 5).loop_runs(1906, dd());

    main_of(&world.explained()).0
}

#[test]
fn a_real_time_thread_that_migrated_does_not_indicate_a_fair_server() {
    assert_eq!(
        beside_a_second_real_time_thread(|_, _| ()),
        Kind::FairServer,
        "it wants to run, and dd does"
    );
    let migrated = beside_a_second_real_time_thread(|world, other| {
        world.on(0, 520, 9, KernelEvent::Migrate { thread: other, from_cpu: 1, to_cpu: 0 });
    });

    assert_eq!(migrated, Kind::KernelSection);
    let zero = thread(0, 120, "swapper/0");
    let runs_elsewhere = beside_a_second_real_time_thread(|world, other| {
        world.on(
            0,
            530,
            0,
            KernelEvent::Switch { prev: zero, prev_state: ThreadState(0), next: other },
        );
    });

    assert_eq!(runs_elsewhere, Kind::KernelSection);
    let ran_elsewhere = beside_a_second_real_time_thread(|world, other| {
        world.on(
            0,
            600,
            60,
            KernelEvent::Switch { prev: other, prev_state: ThreadState(1), next: zero },
        );
    });
    assert_eq!(ran_elsewhere, Kind::KernelSection);
}

#[test]
fn an_inferred_switch_does_not_show_that_its_thread_was_runnable() {
    let other = thread(60, 49, "other-rt");
    let mut world = World::asleep_beside(other);
    world.counters.has_fair_server = true;
    // From 900 on dd runs instead of the other thread; no event shows how that one left.
    world.on(1, 900, 7, KernelEvent::SyscallEnter { number: libc::SYS_write });
    world.on(1, 1001, 7, KernelEvent::VectorEntry(Vector::LocalTimer));
    world.on(
        1,
        1002,
        7,
        KernelEvent::TimerExpireEntry { timer: TIMER, function: WAKE_UP, now: us(1002) },
    );
    world.on(1, 1003, 7, KernelEvent::Waking { thread: looper(), target_cpu: 1 });
    world.on(1, 1005, 7, KernelEvent::VectorExit(Vector::LocalTimer));
    world.loop_runs(1906, dd());

    assert_eq!(main_of(&world.explained()).0, Kind::KernelSection);
}

#[test]
fn a_page_fault_before_the_first_instruction_is_not_blamed_on_a_freezer() {
    let mut world = World::asleep_beside(idle());
    world.timer_interrupt(1001, 5).switch(1008, idle(), 0, looper());
    world.on(1, 1010, LOOP, KernelEvent::PageFault { address: 0x7000, user: true });
    world.switch(1015, looper(), 2, idle());
    world.on(1, 9000, 0, KernelEvent::Waking { thread: looper(), target_cpu: 1 });
    world.loop_runs(9003, idle());

    assert_eq!(main_of(&world.explained()), (Kind::PageFault, none()));
}

/// The loop leaves its CPU during its work for 830 us, in `state`, with a reading of how it left.
fn asleep_in_its_work(state: u32, call: Option<i64>, in_user: bool) -> Explanation {
    asleep_in_its_work_with(state, call, in_user, |_| {})
}

/// The same, with what else the kernel said.
fn asleep_in_its_work_with(
    state: u32,
    call: Option<i64>,
    in_user: bool,
    said: impl FnOnce(&mut World),
) -> Explanation {
    let mut world = World::asleep_beside(idle());
    world.timer_interrupt(1001, 5).loop_runs(1008, idle()).worked(10, 900);
    world.switch(1020, looper(), state, dd());
    let reading = world.reading(1020, 0);
    (reading.prev, reading.next, reading.prev_syscall, reading.prev_in_user) =
        (LOOP, 7, call, in_user);
    world.on(0, 1850, 12, KernelEvent::Waking { thread: looper(), target_cpu: 1 });
    world.switch(1855, dd(), 0, looper());
    said(&mut world);

    world.explained()
}

#[test]
fn a_wait_inside_the_kernel_without_a_page_fault_is_its_calls_or_unexplained() {
    let words = |call, in_user| asleep_in_its_work(2, call, in_user).main().unwrap().words();
    assert_eq!(words(Some(libc::SYS_fsync), false), "waited in its work in fsync");
    assert_eq!(words(None, true), "unexplained");
    assert_eq!(words(None, false), "unexplained");
}

#[test]
fn a_page_fault_before_a_call_that_takes_no_memory_is_not_what_its_sleep_waits_for() {
    let words = |call| {
        let explanation = asleep_in_its_work_with(2, Some(call), false, |world| {
            world.on(1, 1016, LOOP, KernelEvent::PageFault { address: 0x7000, user: false });
        });
        explanation.main().unwrap().words()
    };
    assert_eq!(words(libc::SYS_fsync), "waited in its work in fsync");
    assert!(words(libc::SYS_write).starts_with("page fault"), "{}", words(libc::SYS_write));
}

#[test]
fn a_loop_that_left_its_cpu_in_user_code_is_not_called_frozen_without_a_freezers_evidence() {
    for state in [1, 2] {
        let explanation = asleep_in_its_work(state, None, true);
        assert_eq!(main_of(&explanation).0, Kind::Unexplained, "state {state}");
        let evidence = &explanation.main().unwrap().evidence;
        assert!(evidence.contains("no freezer"), "{evidence}");
    }
}

#[test]
fn a_loop_whose_thread_the_kernel_had_in_the_freezer_was_frozen() {
    for state in [1, 2] {
        let frozen = asleep_in_its_work_with(state, None, true, |world| {
            world.counters.readings.last_mut().unwrap().frozen = Some(true);
        });
        assert_eq!(main_of(&frozen), (Kind::CgroupFreezer, none()), "state {state}");
    }

    let waited = asleep_in_its_work(1, Some(libc::SYS_ppoll), false);
    assert_eq!(main_of(&waited).0, Kind::OwnWait);
}

#[test]
fn the_freezers_files_are_evidence_as_far_as_they_go() {
    let main = |freezer: FreezerReading| {
        let said = |world: &mut World| world.counters.freezer = freezer;
        main_of(&asleep_in_its_work_with(2, None, true, said)).0
    };
    let counted = |frozen_ns| FreezerReading { frozen_ns, ..FreezerReading::default() };

    assert_eq!(main(counted(Some(800_000))), Kind::CgroupFreezer);
    assert_eq!(main(counted(Some(0))), Kind::Unexplained);
    assert_eq!(main(counted(Some(900_000_000))), Kind::Unexplained, "another, longer stop");
    let file = Some("/sys/fs/cgroup/freezer/a/freezer.state".to_owned());
    assert_eq!(main(FreezerReading { frozen_now: file, ..counted(None) }), Kind::CgroupFreezer);
}

#[test]
fn paged_out_text_is_a_page_fault_by_the_kernels_count_of_such_faults() {
    let main = |major_faults| {
        let explanation = asleep_in_its_work_with(2, None, true, |world| {
            let thread = ThreadReading { prio: PRIO, policy: 1, major_faults };
            world.counters.thread = Some(thread);
        });
        main_of(&explanation).0
    };
    assert_eq!(main(Some(2)), Kind::PageFault);
    assert_eq!(main(Some(0)), Kind::Unexplained);
    assert_eq!(main(None), Kind::Unexplained);
}

#[test]
fn a_fault_for_which_the_kernel_slept_twice_is_one_page_fault() {
    let mut world = World::asleep_beside(idle());
    world.timer_interrupt(1001, 5).loop_runs(1008, idle()).worked(10, 9_000);
    world.on(1, 1018, LOOP, KernelEvent::PageFault { address: 0x7000, user: true });
    world.switch(1020, looper(), 2, dd());
    for (at, left) in [(5_000, 5_010), (9_900, 0)] {
        world.on(0, at, 12, KernelEvent::Waking { thread: looper(), target_cpu: 1 });
        world.switch(at + 3, dd(), 0, looper());
        if left > 0 {
            world.switch(left, looper(), 2, dd());
        }
    }

    let explanation = world.explained();
    assert_eq!(main_of(&explanation), (Kind::PageFault, none()));
    assert!(us_of(&explanation, Kind::PageFault) > 8_000);
}

#[test]
fn a_slow_return_from_the_kernel_without_events_is_unexplained() {
    let mut world = World::asleep_beside(idle());
    world.timer_interrupt(1001, 5).switch(1008, idle(), 0, looper()).started(4008);
    for is_guest in [true, false] {
        world.counters.is_guest = is_guest;
        assert_eq!(
            main_of(&world.explained()).0,
            Kind::Unexplained,
            "nothing says whether host or kernel"
        );
    }

    world.counters.smi = Some(2);
    assert_eq!(main_of(&world.explained()).0, Kind::Smi);
    world.counters.smi_ns = 60_000_000_000;
    let explanation = world.explained();
    let main = explanation.main().unwrap();
    assert_eq!(main.kind, Kind::Unexplained, "either may have been at any time of a minute");
    assert!(main.evidence.contains("2 system management interrupts in the 60.0 s"), "{main:?}");
    world.counters.smi = Some(1);
    assert_eq!(main_of(&world.explained()).0, Kind::Smi, "as many as spikes");
}

#[test]
fn a_guest_that_stood_still_while_it_read_the_clock_was_paused_by_its_host() {
    let mut world = World::asleep_beside(idle());
    world.facts.expiry = us(950);
    world.facts.spun_ns = 332_000;
    world.timer_interrupt(951, 5).switch(958, idle(), 0, looper()).started(1292);
    world.counters.is_guest = true;
    let explanation = world.explained();

    assert_eq!(
        (main_of(&explanation).0, us_of(&explanation, Kind::HypervisorPause)),
        (Kind::HypervisorPause, 292)
    );
    assert!(explanation.main().unwrap().evidence.contains("no steal counter"));
    world.counters.source = CounterSource::Bpf;
    assert!(world.explained().main().unwrap().evidence.contains("does not account for it"));
    world.counters.is_guest = false;

    assert_eq!(
        main_of(&world.explained()).0,
        Kind::Unexplained,
        "bare metal has no hypervisor to blame"
    );
    world.counters.smi = Some(1);
    assert_eq!(main_of(&world.explained()).0, Kind::Smi);
}
