//! No slot is lost: slots accounted for, of slots that were due, at rates up to 20 kHz, undisturbed
//! and stopped by signals.

use std::path::Path;
use std::time::Duration;

use onbeat::record::{RunFile, Series};
use onbeat_report::units::{count, percent};
use onbeat_tune::catalogue::HostTree;
use onbeat_tune::plan::cpus::loop_cpu;
use rustix::process::Signal;

use crate::Length;
use crate::cyclictest::{self, Cyclictest};
use crate::failure::{Failure, even, within};
use crate::running::{CpuShare, Running};
use crate::table::{Finding, Part};
use crate::timer::{IdleStates, Timer};
use crate::turns::{self, Contestant, Spread, in_turns};

const RATES_HZ: [u64; 4] = [1_000, 5_000, 10_000, 20_000];
const STOPS: u32 = 4;
const STOPPED: Duration = Duration::from_millis(100);

/// One contestant's account of one run.
#[derive(Clone, Copy, Debug)]
struct Account {
    due: u64,
    accounted: u64,
    /// Of these, releases without a cycle.
    skipped: u64,
}

impl Account {
    fn share(self) -> f64 {
        self.accounted as f64 / self.due as f64
    }

    fn away(self) -> u64 {
        self.accounted.abs_diff(self.due)
    }
}

pub(crate) fn run(length: Length) -> Result<Part, Failure> {
    let seconds: u64 = length.pick(3, 1);
    let rounds = length.pick(2, 1);
    let title = format!(
        "Slots accounted for, of slots that were due: {} of {seconds} s for each rate, undisturbed and stopped \
         {STOPS} times for {} ms",
        turns::describe(rounds),
        STOPPED.as_millis()
    );
    let mut part = Part::new(title, "cyclictest");
    let peer = cyclictest::version().is_some();

    for stops in [0, STOPS] {
        for rate_hz in RATES_HZ {
            eprintln!("slots: {rate_hz} Hz, {stops} stops, {}", turns::describe(rounds));
            let trial = Trial { rate_hz, seconds, stops, cpu: loop_cpu(&HostTree::live()).cpu };
            part.add(trial.run(rounds, peer)?);
        }
    }

    part.remark(
        "Due are the periods that passed between the first release and the end; onbeat's account is of slots (cycles and \
         skipped releases), cyclictest's is of cycles, which is all it reports: what it passed over is in no figure of it.",
    );
    if !peer {
        part.remark("cyclictest is not installed (package rt-tests).");
    }

    Ok(part)
}

#[derive(Clone, Copy)]
struct Trial {
    rate_hz: u64,
    seconds: u64,
    stops: u32,
    cpu: u32,
}

impl Trial {
    fn run(self, rounds: u32, peer: bool) -> Result<Finding, Failure> {
        let dir = tempfile::tempdir().map_err(Failure::system("make a directory"))?;
        let mut ours = |_| self.onbeat(dir.path());
        let mut theirs = |_| self.cyclictest(dir.path());
        let mut contestants: Vec<Contestant<'_, Account>> = vec![&mut ours];
        if peer {
            contestants.push(&mut theirs);
        }

        let runs = in_turns(rounds, &mut contestants)?;
        let shares = |place: usize| -> Vec<f64> {
            runs.get(place).into_iter().flatten().map(|account| account.share()).collect()
        };
        let away = runs[0].iter().map(|account| account.away()).max().unwrap_or(0);
        let sum = |figure: fn(&Account) -> u64| runs[0].iter().map(figure).sum();
        let due = count(sum(|account| account.due));
        let skipped = count(sum(|account| account.skipped));
        let formatted =
            |spread: Option<Spread>| spread.map_or_else(String::new, |s| share(s.median));
        let what = format!(
            "{} kHz{}",
            self.rate_hz / 1_000,
            if self.stops > 0 { ", stopped" } else { "" }
        );
        let finding = Finding::new(
            what,
            format!("{} of {due}, {skipped} skipped", formatted(Spread::from_figures(shares(0)))),
        )
        .beside(formatted(Spread::from_figures(shares(1))))
        .with_ratio(Spread::of_ratios(&shares(0), &shares(1)))
        .with_goal("± 1 slot", away <= 1);

        Ok(if self.stops > 0 && self.rate_hz == RATES_HZ[0] {
            finding.that_begins_a_group()
        } else {
            finding
        })
    }

    /// Runs until it is asked to end, at no particular moment, so that its own plan says nothing of
    /// how many slots there were.
    fn onbeat(self, dir: &Path) -> Result<Account, Failure> {
        let timer = Timer {
            period_us: 1_000_000 / self.rate_hz,
            duration: None,
            wait: "sleep",
            cpu: self.cpu,
            causes: false,
            idle: IdleStates::Held,
        };
        let answer = timer.run(dir, |running| {
            self.disturb(running)?;
            running.signal(Signal::INT)?;
            Ok(None)
        })?;

        audit(&answer.run)
    }

    fn cyclictest(self, dir: &Path) -> Result<Account, Failure> {
        let cyclictest = Cyclictest {
            interval_us: 1_000_000 / self.rate_hz,
            seconds: self.seconds,
            cpu: self.cpu,
            idle: IdleStates::Held,
        };
        let answer = cyclictest.run(dir, |running| self.disturb(running))?;
        Ok(Account { due: self.rate_hz * self.seconds, accounted: answer.cycles, skipped: 0 })
    }

    fn disturb(self, running: &Running) -> Result<Option<CpuShare>, Failure> {
        let whole = Duration::from_secs(self.seconds);
        for stop in 0..self.stops {
            running.at(whole * (2 * stop + 1) / (2 * self.stops));
            running.stop_for(STOPPED)?;
        }

        running.at(whole);
        Ok(None)
    }
}

/// Holds every account of a run file: the loop's own, the recorder's, and the clock's.
fn audit(run: &RunFile) -> Result<Account, Failure> {
    let unreadable = |why: &str| Failure::Unreadable {
        path: run.path.clone(),
        program: "onbeat",
        why: why.to_owned(),
    };
    let end = run.end.as_ref().ok_or_else(|| unreadable("it has no closing line"))?;
    let timing = run.header.timing.as_ref().ok_or_else(|| unreadable("it has no timing"))?;
    let (Some(block), Some(last)) = (run.blocks.first(), run.intervals.last()) else {
        return Err(unreadable("it has no interval"));
    };
    let elapsed_ns = ((last.t + last.length - block.t) * 1e9).round();
    let due = (elapsed_ns / timing.period_ns as f64).floor() as u64 + 1;
    let counted = |series: Series| run.distribution(series).count();
    even("cycles and skipped releases together", end.slots, end.cycles + end.skipped)?;
    let kept = counted(Series::WakeupLatency) + counted(Series::SkippedLatency);
    let elsewhere = end.lost + end.warmup + end.excluded;
    even("slots in histograms, lost, in the warm-up or excluded", end.slots, kept + elsewhere)?;
    within("slots of the time that passed", due, end.slots, 1)?;

    Ok(Account { due, accounted: end.slots, skipped: end.skipped })
}

/// In percent, with decimals enough to see one slot of 100,000.
fn share(of_due: f64) -> String {
    if (of_due - 1.0).abs() < 5e-4 { format!("{:.3} %", of_due * 100.0) } else { percent(of_due) }
}
