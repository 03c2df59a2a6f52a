//! What finding out why costs: the flight recorder on and off, and `cyclictest`, in turns on the
//! same CPU.

use std::path::Path;
use std::time::Duration;

use onbeat::record::Account;
use onbeat_report::units::{count, percent};
use onbeat_tune::catalogue::HostTree;
use onbeat_tune::plan::cpus::loop_cpu;

use crate::Length;
use crate::cyclictest::{self, Cyclictest};
use crate::failure::Failure;
use crate::table::{Finding, Part, format_time, format_times};
use crate::timer::{IdleStates, Timer};
use crate::turns::{self, Contestant, Spread, in_turns};
use crate::wakeup::watch;

const PERIOD_US: u64 = 1_000;
/// What the recorder may add to the median wake-up latency, in nanoseconds.
const MOST_ADDED_NS: f64 = 1000.0;
/// How much of `cyclictest`'s CPU time the whole process may take.
const MOST_CPU: f64 = 1.2;
/// Until when a spike is to be explained, in nanoseconds.
const LATEST_NS: f64 = 100e6;

/// What one run came to.
#[derive(Clone, Debug)]
struct Figures {
    p50_ns: f64,
    process: f64,
    end: Account,
    refused: Vec<String>,
}

pub(crate) fn run(length: Length) -> Result<Part, Failure> {
    let seconds = length.pick(5, 1);
    let rounds = length.pick(9, 1);
    let dir = tempfile::tempdir().map_err(Failure::system("make a directory"))?;
    let cpu = loop_cpu(&HostTree::live()).cpu;
    let title = format!(
        "Finding out why: a loop of 1 kHz that sleeps, priority 90 on CPU {cpu}, with the flight recorder on and off; \
         medians of {} of {seconds} s each",
        turns::describe(rounds)
    );
    let mut part = Part::new(title, "off / cyclictest");
    let announce =
        |round: u32, what: &str| eprintln!("causes: {what}, turn {} of {rounds}", round + 1);
    let ours = |round, causes| {
        announce(round, if causes { "on" } else { "off" });
        onbeat(
            dir.path(),
            Timer { duration: Some(Duration::from_secs(seconds)), ..timer(cpu, causes) },
        )
    };

    let mut on = |round| ours(round, true);
    let mut off = |round| ours(round, false);
    let mut theirs = |round| {
        announce(round, "cyclictest");
        peer(dir.path(), seconds, cpu)
    };

    let mut contestants: Vec<Contestant<'_, Figures>> = vec![&mut on, &mut off];
    if cyclictest::version().is_some() {
        contestants.push(&mut theirs);
    } else {
        part.remark("cyclictest is not installed (package rt-tests).");
    }

    let mut runs = in_turns(rounds, &mut contestants)?.into_iter();
    let mut next = || runs.next().unwrap_or_default();
    let on = next();
    let off = next();
    let theirs = next();
    latencies(&mut part, &on, &off);
    cpu_times(&mut part, &on, &theirs);
    explaining(&mut part, &on);
    Ok(part)
}

fn latencies(part: &mut Part, on: &[Figures], off: &[Figures]) {
    let of = |runs: &[Figures]| -> Vec<f64> { runs.iter().map(|run| run.p50_ns).collect() };
    let on = of(on);
    let off = of(off);
    part.add(
        Finding::new("p50 wake-up latency", format_times(Spread::from_figures(on.clone())))
            .beside(format_times(Spread::from_figures(off.clone())))
            .with_ratio(Spread::of_ratios(&on, &off)),
    );

    if let Some(added) = Spread::from_figures(on.iter().zip(&off).map(|(on, off)| on - off)) {
        let range = format!(
            "{} ({}..{})",
            format_time(added.median),
            format_time(added.low),
            format_time(added.high)
        );
        part.add(
            Finding::new("added to p50", range)
                .with_goal("≤ +1.0 µs", added.median <= MOST_ADDED_NS),
        );
    }
}

fn cpu_times(part: &mut Part, on: &[Figures], theirs: &[Figures]) {
    let of = |runs: &[Figures]| -> Vec<f64> { runs.iter().map(|run| run.process).collect() };
    let on = of(on);
    let theirs = of(theirs);
    let formatted = |spread: Option<Spread>| spread.map_or_else(String::new, |s| percent(s.median));
    let ratio = Spread::of_ratios(&on, &theirs);
    let finding = Finding::new("CPU of the process", formatted(Spread::from_figures(on)))
        .beside(formatted(Spread::from_figures(theirs)))
        .with_ratio(ratio)
        .that_begins_a_group();
    part.add(match ratio {
        Some(ratio) => finding.with_goal("≤ 1.2", ratio.median <= MOST_CPU),
        None => finding,
    });
}

fn explaining(part: &mut Part, on: &[Figures]) {
    let explained: u64 = on.iter().map(|run| run.end.causes_explained).sum();
    let cpu_ns: u64 = on.iter().map(|run| run.end.causes_cpu_ns).sum();
    let slowest_ns = on.iter().map(|run| run.end.causes_slowest_ns).max().unwrap_or(0) as f64;
    let bytes = on.iter().map(|run| run.end.causes_bytes).max().unwrap_or(0);
    let incomplete: u64 = on.iter().map(|run| run.end.causes_incomplete).sum();
    part.add(Finding::new("spikes explained", count(explained)).that_begins_a_group());
    part.add(
        Finding::new("of these with events missing around them", count(incomplete))
            .with_goal("none", incomplete == 0),
    );
    part.add(
        Finding::new("longest from a cycle's end to its explanation", format_time(slowest_ns))
            .with_goal("≤ 100 ms", slowest_ns <= LATEST_NS),
    );
    part.add(Finding::new(
        "CPU time per spike explained",
        format_time(cpu_ns as f64 / explained.max(1) as f64),
    ));
    part.add(Finding::new(
        "memory of buffers and pages",
        format!("{:.1} MiB", bytes as f64 / 1024.0 / 1024.0),
    ));
    let mut refused: Vec<&String> = on.iter().flat_map(|run| &run.refused).collect();
    refused.sort_unstable();
    refused.dedup();

    for sentence in refused {
        part.remark(format!("{sentence}."));
    }
}

const fn timer(cpu: u32, causes: bool) -> Timer {
    Timer {
        period_us: PERIOD_US,
        duration: None,
        wait: "sleep",
        cpu,
        causes,
        idle: IdleStates::Held,
    }
}

fn onbeat(dir: &Path, timer: Timer) -> Result<Figures, Failure> {
    let whole = timer.duration.unwrap_or_default();
    let answer = timer.run(dir, |running| Ok(watch(running, whole)))?;
    Ok(Figures {
        p50_ns: answer.quantile_ns(0.5),
        process: answer.cpu.map_or(f64::NAN, |cpu| cpu.process),
        end: answer.run.end.clone().unwrap_or_default(),
        refused: answer.refused(),
    })
}

fn peer(dir: &Path, seconds: u64, cpu: u32) -> Result<Figures, Failure> {
    let cyclictest = Cyclictest { interval_us: PERIOD_US, seconds, cpu, idle: IdleStates::Held };
    let answer = cyclictest.run(dir, |running| Ok(watch(running, cyclictest.duration())))?;
    Ok(Figures {
        p50_ns: answer.quantile_ns(0.5),
        process: answer.cpu.map_or(f64::NAN, |cpu| cpu.process),
        end: Account::default(),
        refused: Vec::new(),
    })
}
