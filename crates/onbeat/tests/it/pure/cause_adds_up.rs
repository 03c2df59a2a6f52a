//! For any events, every nanosecond of a spike has exactly one cause.

use crate::cause_world::{LOOP, TIMER, WAKE_UP, World, idle, looper, thread, us};
use onbeat::cause::event::{KernelEvent, Label, Softirq, Thread, ThreadState, Vector};
use onbeat::cause::kind::CauseKind;
use proptest::prelude::*;

fn a_thread() -> impl Strategy<Value = Thread> {
    prop_oneof![
        Just(looper()),
        Just(idle()),
        Just(thread(7, 120, "dd")),
        Just(thread(8, 9, "hog")),
        Just(thread(9, 0, "migration/1")),
    ]
}

fn what() -> impl Strategy<Value = KernelEvent> {
    let vector = prop_oneof![Just(Vector::LocalTimer), Just(Vector::Reschedule)];
    let function = 0_u64..6;
    prop_oneof![
        (a_thread(), 0_u32..0x110, a_thread()).prop_map(|(prev, state, next)| {
            KernelEvent::Switch { prev, prev_state: ThreadState(state), next }
        }),
        (a_thread(), 0_u32..3)
            .prop_map(|(thread, target_cpu)| KernelEvent::Waking { thread, target_cpu }),
        (a_thread(), 0_u32..3).prop_map(|(thread, to_cpu)| KernelEvent::Migrate {
            thread,
            from_cpu: 1,
            to_cpu
        }),
        Just(KernelEvent::IrqEntry { irq: 36, name: Label::from("eth0") }),
        Just(KernelEvent::IrqExit { irq: 36 }),
        vector.clone().prop_map(KernelEvent::VectorEntry),
        vector.prop_map(KernelEvent::VectorExit),
        (0_u8..12).prop_map(|number| KernelEvent::SoftirqEntry(Softirq(number))),
        (0_u8..12).prop_map(|number| KernelEvent::SoftirqExit(Softirq(number))),
        (0_u64..5000).prop_map(|at| KernelEvent::TimerStart {
            timer: TIMER,
            function: WAKE_UP,
            expires: us(at),
            softexpires: us(at)
        }),
        function.prop_map(|function| KernelEvent::TimerExpireEntry {
            timer: TIMER,
            function,
            now: us(1)
        }),
        Just(KernelEvent::TimerExpireExit { timer: TIMER }),
        Just(KernelEvent::IdleEntry { state: 1 }),
        Just(KernelEvent::IdleExit),
        Just(KernelEvent::PageFault { address: 1, user: true }),
        Just(KernelEvent::Frequency { cpu: 1, khz: 1_000_000 }),
        Just(KernelEvent::SyscallEnter { number: 1 }),
        Just(KernelEvent::SignalGenerate {
            signal: libc::SIGSTOP,
            target: LOOP,
            name: Label::from("onbeat-loop")
        }),
    ]
}

proptest! {
    #[test]
    fn causes_and_unexplained_time_add_up_to_the_lateness(
        events in prop::collection::vec((0_u32..2, 0_u64..6000, prop_oneof![Just(LOOP), 0_u32..10], what()), 0..60),
        readings in prop::collection::vec((0_u64..6000, 0_u64..900), 0..8),
        lost in prop::option::of((0_u64..3000, 0_u64..3000)),
        (late, planned, worked, spun) in (0_u64..5000, 0_u64..400, 0_u64..3000, prop_oneof![Just(0_u64), 0_u64..3000]),
    ) {
        let mut world = World::asleep_beside(idle());
        for (cpu, at, tid, what) in events {
            world.on(cpu, at, tid, what);
        }

        let mut sum = 0;
        let mut readings = readings;
        readings.sort_unstable();
        for (at, steal) in readings {
            sum += steal;
            world.reading(at, sum);
        }

        if let Some((from, length)) = lost {
            world.lost(from, from + length);
        }

        world.started(1000 + late).worked(planned, worked);
        world.facts.spun_ns = spun * 1000;
        let explanation = world.explained();
        // The lateness is known without any event.
        let wait = if spun > late { late } else { world.late_us() };
        let work = worked.saturating_sub(planned);
        let counts = |part: &u64| *part * 1000 >= wait.max(work) * 1000 / 4;
        let expected: u64 = [wait, work].into_iter().filter(counts).sum();

        prop_assert_eq!(explanation.lateness_ns, expected * 1000);
        let unexplained: u64 = explanation.causes.iter().filter(|cause| cause.kind == CauseKind::Unexplained).map(|cause| cause.ns).sum();
        prop_assert_eq!(explanation.accounted_ns + unexplained, explanation.lateness_ns);
        prop_assert!(explanation.causes.iter().all(|cause| cause.ns > 0 && !cause.evidence.is_empty()));
    }
}
