//! The loop on a scripted clock: every statement about the grid, to the nanosecond.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, missing_docs)]

use std::sync::atomic::AtomicBool;

use onbeat_rt::cycle::{self, Phase, admit};
use onbeat_rt::ring::Ring;
use onbeat_rt::sys::Tick;
use onbeat_rt::{
    Cycle, End, Flags, Flow, Instant, MockClock, OnOverrun, Outcome, Plan, PlanError, Sample, Slot,
    Wait, split,
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const US: u64 = 1_000;

/// A loop of 1 ms periods whose k-th cycle works for `work_ns[k]`.
struct World {
    work_ns: Vec<u64>,
    late_ns: u64,
    on_overrun: OnOverrun,
    releases: u64,
}

impl World {
    fn working(work_ns: &[u64]) -> Self {
        Self {
            work_ns: work_ns.to_vec(),
            late_ns: 0,
            on_overrun: OnOverrun::SkipKeepPhase,
            releases: u64::MAX,
        }
    }

    fn run(&self) -> (Vec<Sample>, Outcome) {
        let clock = MockClock::starting_at(Instant::from_ns(0), |_| self.late_ns);
        let plan = Plan {
            period_ns: MS,
            first_release: Instant::from_ns(MS),
            deadline_ns: MS,
            releases: self.releases,
            wait: Wait::Sleep,
            on_overrun: self.on_overrun,
        };

        let mut slots: Vec<Slot<Sample>> = (0..4096).map(|_| Slot::empty()).collect();
        let mut ring = Ring::over(&mut slots).unwrap();
        let (mut hot, mut cold) = split(&mut ring);
        let mut work = self.work_ns.iter();
        let mut task = |_: &Cycle| {
            clock.spend(work.next().copied().unwrap_or(0));
            if work.len() == 0 { Flow::Stop } else { Flow::Continue }
        };

        let outcome = cycle::run(&&clock, &plan, &mut task, &mut hot, &AtomicBool::new(false));
        (std::iter::from_fn(|| cold.pop()).collect(), outcome)
    }

    fn starts_ms(&self) -> Vec<f64> {
        self.run().0.iter().map(|sample| sample.start().as_ns() as f64 / MS as f64).collect()
    }
}

#[test]
fn cycles_that_end_in_time_start_on_every_release() {
    let (samples, outcome) = World::working(&[200 * US; 5]).run();
    assert_eq!(samples.iter().map(|s| s.start().as_ns() / MS).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!((outcome.slots, outcome.cycles, outcome.skipped), (5, 5, 0));
}

#[test]
fn an_overrun_skips_releases_but_keeps_the_phase() {
    let world = World::working(&[200 * US, 2_300 * US, 200 * US]);
    assert_eq!(world.starts_ms(), [1.0, 2.0, 5.0], "ends at 4.3 ms: 3 and 4 ms are skipped");
    let (samples, outcome) = world.run();
    assert_eq!(samples[2].skipped, 2);
    assert!(samples[1].flags.has(Flags::OVERRUN) && samples[1].flags.has(Flags::DEADLINE_MISS));
    assert_eq!((outcome.slots, outcome.cycles, outcome.skipped), (5, 3, 2));
}

#[test]
fn a_cycle_that_ends_on_the_next_release_does_not_overrun() {
    let world = World::working(&[MS, 0]);
    assert_eq!(world.starts_ms(), [1.0, 2.0]);
    assert!(!world.run().0[0].flags.has(Flags::OVERRUN));
}

#[test]
fn catching_up_serves_passed_releases_back_to_back_up_to_the_limit() {
    let mut world = World::working(&[5_500 * US, 100 * US, 100 * US, 100 * US, 100 * US]);
    world.on_overrun = OnOverrun::CatchUp { at_most: 2 };
    // Releases at 1 to 6 ms; the first cycle ends at 6.5 ms. Two are caught up (2 and 3 ms), 4 to 6
    // ms are skipped.
    assert_eq!(world.starts_ms(), [1.0, 6.5, 6.6, 7.0, 8.0]);
    assert_eq!(world.run().1.skipped, 3);
}

#[test]
fn a_loop_with_policy_stop_ends_after_the_cycle_that_overran() {
    let mut world = World::working(&[100 * US, 1_100 * US, 100 * US]);
    world.on_overrun = OnOverrun::Stop;
    let (samples, outcome) = world.run();
    assert_eq!((samples.len(), outcome.end), (2, End::Overrun));
}

#[test]
fn releases_skipped_after_the_last_cycle_are_counted_too() {
    let mut world = World::working(&[100 * US, 20 * MS]);
    world.releases = 10;
    let (_, outcome) = world.run();
    assert_eq!(
        (outcome.slots, outcome.cycles, outcome.skipped, outcome.skipped_at_end),
        (10, 2, 8, 8)
    );
}

#[test]
fn a_sample_has_the_values_of_the_glossary() {
    let mut world = World::working(&[200 * US, 300 * US]);
    world.late_ns = 40 * US;
    let second = world.run().0[1];
    assert_eq!(second.release.as_ns(), 2 * MS);
    assert_eq!(second.wakeup_latency_ns, 40 * US);
    assert_eq!(second.execution_time_ns, 300 * US);
    assert_eq!(second.response_time_ns(), 340 * US);
}

#[test]
fn the_stop_flag_ends_the_loop_before_the_next_wait() {
    let clock = MockClock::starting_at(Instant::from_ns(0), |_| 0);
    let mut slots: Vec<Slot<Sample>> = (0..16).map(|_| Slot::empty()).collect();
    let mut ring = Ring::over(&mut slots).unwrap();
    let (mut hot, _) = split(&mut ring);
    let stop = AtomicBool::new(false);
    let plan = Plan {
        period_ns: MS,
        first_release: Instant::from_ns(MS),
        deadline_ns: MS,
        releases: u64::MAX,
        wait: Wait::Sleep,
        on_overrun: OnOverrun::SkipKeepPhase,
    };

    let mut task = |c: &Cycle| {
        stop.store(c.index == 6, std::sync::atomic::Ordering::Relaxed);
        Flow::Continue
    };

    let outcome = cycle::run(&clock, &plan, &mut task, &mut hot, &stop);
    assert_eq!((outcome.end, outcome.cycles), (End::Asked, 7));
}

#[test]
fn a_plan_that_would_starve_the_kernel_is_rejected_with_its_numbers() {
    let spin = |us| Wait::SleepThenSpin { margin_ns: us * US };
    assert_eq!(admit(0, Wait::Sleep, 0), Err(PlanError::NoPeriod));
    assert_eq!(
        admit(MS, spin(1000), 0),
        Err(PlanError::SpinTooLong { spin_ns: MS, period_ns: MS })
    );
    assert_eq!(
        admit(MS, spin(50), 851 * US),
        Err(PlanError::TooBusy { work_ns: 851 * US, spin_ns: 50 * US, period_ns: MS })
    );
    assert_eq!(admit(MS, spin(50), 850 * US), Ok(()));
}

#[test]
fn the_phase_is_a_quarter_of_the_common_divisor_behind_the_tick() {
    let tick = Tick { every_ns: 4 * MS, offset_ns: 700 * US };
    let first =
        |period| Phase::AvoidTick.first_release(Instant::from_ns(123 * MS), period, tick).as_ns();
    assert_eq!(first(MS) % MS, 950 * US, "1 ms and 4 ms share 1 ms: 250 us behind the tick");
    assert_eq!(
        first(500 * US) % (500 * US),
        325 * US,
        "700 us is 200 us into the 500 us grid, plus a quarter of 500 us"
    );
    assert_eq!(first(333_333) % 333_333, 0, "no common divisor: no phase helps");
}

#[test]
fn a_requested_phase_is_kept() {
    let tick = Tick { every_ns: 4 * MS, offset_ns: 0 };
    let first = Phase::At(250 * US).first_release(Instant::from_ns(5 * MS + 1), MS, tick);
    assert_eq!(first.as_ns(), 5 * MS + 250 * US);
}

proptest! {
    /// In any run, every slot is a cycle or a skipped release, samples show which, and the grid
    /// does not move.
    #[test]
    fn every_slot_is_a_cycle_or_a_skipped_release(
        work_us in prop::collection::vec(prop_oneof![3 => 0_u64..900, 1 => 0_u64..20_000], 1..200),
        late_ns in 0_u64..3_000_000,
        burst in prop::option::of(1_u32..5),
    ) {
        let world = World {
            work_ns: work_us.iter().map(|us| us * US).collect(),
            late_ns,
            on_overrun: burst.map_or(OnOverrun::SkipKeepPhase, |at_most| OnOverrun::CatchUp { at_most }),
            releases: u64::MAX,
        };

        let (samples, outcome) = world.run();
        prop_assert_eq!(outcome.slots, outcome.cycles + outcome.skipped);
        prop_assert_eq!(outcome.cycles, samples.len() as u64);
        let carried: u64 = samples.iter().map(|s| s.skipped).sum();
        prop_assert_eq!(carried + outcome.skipped_at_end, outcome.skipped);
        for pair in samples.windows(2) {
            prop_assert_eq!(pair[1].index, pair[0].index + 1 + pair[1].skipped);
            prop_assert!(pair[1].start() >= pair[0].start().plus_ns(pair[0].execution_time_ns));
        }

        for sample in &samples {
            prop_assert_eq!(sample.release.as_ns(), MS + sample.index * MS);
        }
    }
}

#[test]
fn steering_moves_later_releases_by_at_most_a_hundredth_of_the_period_per_cycle() {
    let clock = MockClock::starting_at(Instant::from_ns(0), |_| 0);
    let plan = Plan {
        period_ns: MS,
        first_release: Instant::from_ns(MS),
        deadline_ns: MS,
        releases: 5,
        wait: Wait::Sleep,
        on_overrun: OnOverrun::SkipKeepPhase,
    };

    let mut slots: Vec<Slot<Sample>> = (0..16).map(|_| Slot::empty()).collect();
    let mut ring = Ring::over(&mut slots).unwrap();
    let (mut hot, mut cold) = split(&mut ring);
    let steps = [0, 3_000, -1_000, 70_000, 0];
    let mut task = |cycle: &Cycle| {
        cycle.steer(steps[cycle.index as usize]);
        Flow::Continue
    };

    let outcome = cycle::run(&&clock, &plan, &mut task, &mut hot, &AtomicBool::new(false));
    let releases: Vec<u64> =
        std::iter::from_fn(|| cold.pop()).map(|sample| sample.release.as_ns()).collect();
    assert_eq!(releases, [MS, 2 * MS, 3 * MS + 3_000, 4 * MS + 2_000, 5 * MS + 12_000]);
    assert_eq!((outcome.slots, outcome.cycles, outcome.skipped), (5, 5, 0));
}
