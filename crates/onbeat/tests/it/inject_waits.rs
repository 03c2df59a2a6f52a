//! Waits in a cycle's work: for each log entry, the cycle took as long as the wait according to the
//! loop's samples.
//!
//! An ordinary loop on any CPU: the end of a wait is not asserted, only that the cycle did not end
//! before it.

use std::sync::atomic::AtomicBool;

use onbeat::inject::{
    Detail, Error, Fault, InLoop, Injected, InjectionPlan, InjectionTarget, ReleaseGrid,
};
use onbeat_rt::ring::Ring;
use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Cycle, Flow, OnOverrun, Sample, Slot, Task, Wait, cycle, split};

const MS: u64 = 1_000_000;
const DOSE_NS: u64 = 2 * MS;
const COUNT: usize = 3;

fn nothing(_: &Cycle) -> Flow {
    Flow::Continue
}

/// A task that ends the loop after the last injection.
struct UntilOver<'s> {
    within: InLoop<fn(&Cycle) -> Flow>,
    stop: &'s AtomicBool,
}

impl Task for UntilOver<'_> {
    fn cycle(&mut self, cycle: &Cycle) -> Flow {
        let flow = self.within.cycle(cycle);
        self.stop.store(self.within.log().is_over(), std::sync::atomic::Ordering::Relaxed);
        flow
    }
}

/// Runs a loop with `fault` and returns its log and its samples; `None`, with the reason printed,
/// if that is not possible.
fn run(fault: Fault, placebo: bool) -> Option<(Vec<Injected>, Vec<Sample>)> {
    let grid = ReleaseGrid { first_release: Monotonic.now(), period_ns: MS, spin_ns: 0 };
    let target = InjectionTarget { pid: 0, tid: 0, cpu: 0, priority: 0 };
    let every_ns = fault.least_every_ns().max(DOSE_NS + 15 * MS);
    let plan = InjectionPlan { fault, every_ns, for_ns: DOSE_NS, count: COUNT, target, grid };
    let task: fn(&Cycle) -> Flow = nothing;
    let within = if placebo { InLoop::placebo(task, &plan) } else { InLoop::new(task, &plan) };
    let within = match within {
        Ok(within) => within,
        Err(why @ Error::NotPossible { .. }) => {
            println!("skipped: {why}");
            return None;
        }
        Err(why) => panic!("{why}"),
    };

    let log = within.log();
    let mut slots: Vec<Slot<Sample>> = (0..8192).map(|_| Slot::empty()).collect();
    let mut ring = Ring::over(&mut slots).unwrap();
    let (mut hot, mut cold) = split(&mut ring);
    let stop = AtomicBool::new(false);
    // The task ends the loop. A preparation may take seconds, and a stop in the loop as long.
    let plan = cycle::Plan {
        period_ns: MS,
        first_release: Monotonic.now().plus_ns(20 * MS),
        deadline_ns: MS,
        releases: 60_000,
        wait: Wait::Sleep,
        on_overrun: OnOverrun::SkipKeepPhase,
    };

    cycle::run(&Monotonic, &plan, &mut UntilOver { within, stop: &stop }, &mut hot, &stop);
    let injected = log.read();
    println!("{fault}: {} injected, {} missed", injected.len(), log.missed());
    Some((injected, std::iter::from_fn(|| cold.pop()).collect()))
}

fn worked_ns(samples: &[Sample], entry: &Injected) -> u64 {
    samples.iter().find(|sample| sample.index == entry.release).unwrap().execution_time_ns
}

/// Asserts that each wait is at least as long as requested, and that its cycle took at least as
/// long.
fn lasts_for_its_time(fault: Fault) -> Option<Vec<Injected>> {
    let (injected, samples) = run(fault, false)?;
    assert!(!injected.is_empty(), "{fault}");
    for entry in &injected {
        assert!(entry.ns >= DOSE_NS, "{entry:?}");
        assert!(worked_ns(&samples, entry) >= entry.ns, "{entry:?}");
    }

    Some(injected)
}

#[test]
fn a_cycle_waits_for_a_lock_as_long_as_it_is_held() {
    for entry in lasts_for_its_time(Fault::LockWait).unwrap() {
        assert_eq!(entry.detail, Detail::Held { held_ns: entry.ns, kept_off_ns: 0 });
    }
}

#[test]
fn a_lock_is_held_while_its_holder_is_kept_off_its_cpu() {
    let Some(injected) = lasts_for_its_time(Fault::LockHolderKeptOff) else { return };
    for entry in injected {
        let Detail::Held { held_ns, kept_off_ns } = entry.detail else { panic!("{entry:?}") };
        assert!(kept_off_ns > 0 && held_ns >= DOSE_NS, "{entry:?}");
    }
}

#[test]
fn a_cycle_waits_for_an_answer_as_long_as_that_takes() {
    for entry in lasts_for_its_time(Fault::ReplyWait).unwrap() {
        assert_eq!(entry.detail, Detail::Answered { after_ns: entry.ns });
    }
}

#[test]
fn a_cycle_sleeps_in_its_work() {
    for entry in lasts_for_its_time(Fault::SleepInWork).unwrap() {
        assert_eq!(entry.detail, Detail::Slept { wanted_ns: DOSE_NS });
    }
}

#[test]
fn pages_of_a_file_are_read_from_the_disk_according_to_the_kernel() {
    let Some((injected, samples)) = run(Fault::MajorFaults, false) else { return };
    for entry in &injected {
        let Detail::Read { pages, major } = entry.detail else { panic!("{entry:?}") };
        assert!(major > 0 && pages >= major, "{entry:?}");
        assert!(worked_ns(&samples, entry) >= entry.ns, "{entry:?}");
    }
}

#[test]
fn a_file_is_on_the_disk_when_the_cycle_continues() {
    let Some((injected, samples)) = run(Fault::DiskWait, false) else { return };
    for entry in &injected {
        let Detail::Synced { bytes } = entry.detail else { panic!("{entry:?}") };
        assert!(bytes >= DOSE_NS && worked_ns(&samples, entry) >= entry.ns, "{entry:?}");
    }
}

#[test]
fn pages_that_were_read_before_are_copied_when_they_are_written() {
    let (injected, _) = run(Fault::CopyOnWrite, false).unwrap();
    assert_eq!(injected.len(), COUNT);
    for entry in &injected {
        assert!(matches!(entry.detail, Detail::Touched { pages: 1.. }), "{entry:?}");
    }
}

#[test]
fn a_placebo_of_a_wait_waits_for_nothing() {
    let (injected, _) = run(Fault::LockWait, true).unwrap();
    assert_eq!(injected.len(), COUNT);
    assert!(
        injected.iter().all(|entry| entry.ns == 0 && entry.detail == Detail::Placebo),
        "{injected:?}"
    );
}
