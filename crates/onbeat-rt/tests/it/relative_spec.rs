//! The loop without a grid, on a scripted clock: period, counters and averages with the relative
//! sleep of the papers.
#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::atomic::AtomicBool;

use onbeat_rt::cycle::{self, admit};
use onbeat_rt::ring::Ring;
use onbeat_rt::{
    Cycle, End, Flags, Flow, Instant, MockClock, OnOverrun, Outcome, Plan, PlanError, Sample, Slot,
    Wait, split,
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const US: u64 = 1_000;

/// A loop of 1 ms sleeps that all return `late_ns` late. Cycle k works for `work_ns[k]`, later
/// cycles do not work.
fn run(wait: Wait, releases: u64, late_ns: u64, work_ns: &[u64]) -> (Vec<Sample>, Outcome, u64) {
    let clock = MockClock::starting_at(Instant::from_ns(0), |_| late_ns);
    let plan = Plan {
        period_ns: MS,
        first_release: Instant::from_ns(5 * MS),
        deadline_ns: MS,
        releases,
        wait,
        on_overrun: OnOverrun::SkipKeepPhase,
    };

    let mut slots: Vec<Slot<Sample>> = (0..4096).map(|_| Slot::empty()).collect();
    let mut ring = Ring::over(&mut slots).unwrap();
    let (mut hot, mut cold) = split(&mut ring);
    let mut work = work_ns.iter();
    let mut task = |_: &Cycle| {
        clock.spend(work.next().copied().unwrap_or(0));
        Flow::Continue
    };

    let outcome = cycle::run(&&clock, &plan, &mut task, &mut hot, &AtomicBool::new(false));
    (std::iter::from_fn(|| cold.pop()).collect(), outcome, clock.relative_sleeps())
}

const RELATIVE: Wait = Wait::Relative { margin_ns: 0 };

#[test]
fn a_release_is_one_period_after_the_end_of_the_previous_cycle() {
    let (samples, outcome, relative) = run(RELATIVE, 4, 15 * US, &[200 * US, 100 * US, 0]);
    let releases: Vec<u64> = samples.iter().map(|sample| sample.release.as_ns() / US).collect();
    // Starts at 5,015; ends at 5,215; starts at 6,230; ends at 6,330; starts at 7,345 and ends
    // there.
    assert_eq!(releases, [5_000, 6_215, 7_330, 8_345]);
    assert!(samples.iter().all(|sample| sample.wakeup_latency_ns == 15 * US));
    assert_eq!(
        (outcome.slots, outcome.cycles, outcome.skipped, outcome.end),
        (4, 4, 0, End::Complete)
    );
    assert_eq!(relative, 4, "every sleep is a relative one");
}

#[test]
fn the_average_period_is_the_sleep_plus_the_response_time_as_in_the_papers() {
    // 1,017.60 us on average (Yoon, Song and Lee, Figure 7, PMC): 15 us of wake-up and 2.6 us of
    // work a cycle.
    let (samples, ..) = run(RELATIVE, 1_000, 15 * US, &[2_600; 2_000]);
    let periods: Vec<u64> =
        samples.windows(2).map(|pair| pair[1].start().ns_since(pair[0].start())).collect();
    assert!(periods.iter().all(|period| *period == 1_017_600), "{periods:?}");
    let responses: Vec<u64> = samples.iter().map(Sample::response_time_ns).collect();
    assert!(
        responses.iter().all(|response| *response == 17_600),
        "average - sleep is the mean response time"
    );
}

#[test]
fn the_loop_ends_after_the_planned_time_with_fewer_cycles_than_on_the_grid() {
    let (samples, outcome, _) = run(RELATIVE, 100, 0, &[MS; 100]);
    // A cycle every two periods.
    assert_eq!((samples.len(), outcome.slots, outcome.end), (50, 50, End::Complete));
    assert!(samples[49].release < Instant::from_ns(105 * MS));
}

#[test]
fn a_cycle_longer_than_the_period_skips_nothing_and_does_not_overrun() {
    let (samples, outcome, _) = run(RELATIVE, 20, 0, &[0, 7_300 * US, 0]);
    assert!(samples[1].flags.has(Flags::DEADLINE_MISS) && !samples[1].flags.has(Flags::OVERRUN));
    assert_eq!(
        samples[2].release,
        samples[1].release.plus_ns(7_300 * US + MS),
        "it still sleeps for a whole period"
    );
    assert_eq!((outcome.skipped, outcome.slots), (0, outcome.cycles));
}

#[test]
fn a_spin_after_a_relative_sleep_ends_with_the_period_as_in_the_paper() {
    let clock = MockClock::starting_at(Instant::from_ns(0), |_| 17_600).ns_per_reading(10);
    let plan = Plan {
        period_ns: MS,
        first_release: Instant::from_ns(5 * MS),
        deadline_ns: MS,
        releases: 50,
        wait: Wait::Relative { margin_ns: 50_000 },
        on_overrun: OnOverrun::SkipKeepPhase,
    };

    let mut slots: Vec<Slot<Sample>> = (0..64).map(|_| Slot::empty()).collect();
    let mut ring = Ring::over(&mut slots).unwrap();
    let (mut hot, mut cold) = split(&mut ring);
    let mut task = |_: &Cycle| Flow::Continue;
    cycle::run(&&clock, &plan, &mut task, &mut hot, &AtomicBool::new(false));
    let samples: Vec<Sample> = std::iter::from_fn(|| cold.pop()).collect();

    assert!(samples.len() > 40 && clock.relative_sleeps() == clock.sleeps());
    for sample in samples {
        assert!(sample.wakeup_latency_ns < 10 && sample.spun_ns > 0, "{sample:?}");
        assert!((17_600..17_700).contains(&sample.sleep_latency_ns), "{sample:?}");
    }
}

#[test]
fn the_period_of_a_relative_sleep_does_not_include_the_work() {
    assert_eq!(admit(MS, RELATIVE, 9 * MS), Ok(()), "nine tenths of ten milliseconds");
    assert_eq!(
        admit(MS, RELATIVE, 9 * MS + 1).unwrap_err(),
        PlanError::TooBusy { work_ns: 9 * MS + 1, spin_ns: 0, period_ns: MS }
    );
    assert!(matches!(
        admit(MS, Wait::Relative { margin_ns: MS }, 0),
        Err(PlanError::SpinTooLong { .. })
    ));
}

proptest! {
    /// For any cycle lengths, each cycle is counted, and period = sleep + work + latency.
    #[test]
    fn every_cycle_is_counted(
        work_us in prop::collection::vec(prop_oneof![3 => 0_u64..900, 1 => 0_u64..20_000], 1..100),
        late_ns in 0_u64..3_000_000,
        releases in 1_u64..300,
    ) {
        let work: Vec<u64> = work_us.iter().map(|us| us * US).collect();
        let (samples, outcome, relative) = run(RELATIVE, releases, late_ns, &work);
        prop_assert_eq!((outcome.slots, outcome.skipped), (outcome.cycles, 0));
        prop_assert_eq!(outcome.cycles, samples.len() as u64);
        prop_assert_eq!(relative, outcome.cycles);
        for (k, sample) in samples.iter().enumerate() {
            prop_assert_eq!((sample.index, sample.skipped, sample.wakeup_latency_ns), (k as u64, 0, late_ns));
            prop_assert!(!sample.flags.has(Flags::OVERRUN));
        }

        for pair in samples.windows(2) {
            let period_ns = pair[1].start().ns_since(pair[0].start());
            prop_assert_eq!(period_ns, MS + pair[0].execution_time_ns + late_ns);
        }
    }
}
