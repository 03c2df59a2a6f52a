//! How late the loop starts and what that costs, beside `cyclictest` on the same CPU at the same
//! priority.

use std::path::Path;
use std::time::Duration;

use onbeat_report::units::percent;
use onbeat_tune::catalogue::HostTree;
use onbeat_tune::plan::cpus::loop_cpu;

use crate::Length;
use crate::cyclictest::{self, Cyclictest};
use crate::failure::Failure;
use crate::running::{CpuShare, Running};
use crate::table::{Finding, Part, format_times};
use crate::timer::{IdleStates, Timer};
use crate::turns::{self, Contestant, Spread, in_turns};

const PERIOD_US: u64 = 1_000;
const QUANTILES: [(f64, &str); 3] = [(0.5, "p50"), (0.99, "p99"), (0.999, "p99.9")];
/// Cut off at both ends of a run when CPU time is read: starting, stopping and printing are no part
/// of the loop.
const MARGIN: Duration = Duration::from_millis(300);

/// What one run came to.
#[derive(Clone, Debug)]
struct Figures {
    quantiles_ns: [f64; QUANTILES.len()],
    cpu: CpuShare,
    beyond: u64,
    worst_ns: f64,
    refused: Vec<String>,
}

const NO_CPU: CpuShare = CpuShare { process: f64::NAN, of_loop: f64::NAN };

pub(crate) fn run(length: Length) -> Result<Part, Failure> {
    let seconds = length.pick(5, 1);
    let rounds = length.pick(5, 1);
    let dir = tempfile::tempdir().map_err(Failure::system("make a directory"))?;
    let cpu = loop_cpu(&HostTree::live()).cpu;
    let title = format!(
        "Wake-up latency at 1 kHz, priority 90 on CPU {cpu}: medians of {} of {seconds} s each; S sleeps, \
         then polls the clock for 50 µs",
        turns::describe(rounds)
    );
    let mut part = Part::new(title, "cyclictest");
    let announce =
        |round: u32, what: &str| eprintln!("wakeup: {what}, turn {} of {rounds}", round + 1);
    let ours = |round, wait, idle| {
        announce(round, &format!("{wait}, idle states {}", words(idle)));
        onbeat(dir.path(), (wait, idle), seconds, cpu)
    };
    let peers = |round, idle| {
        announce(round, &format!("cyclictest, idle states {}", words(idle)));
        peer(dir.path(), idle, seconds, cpu)
    };

    let mut spin = |round| ours(round, "spin=50us", IdleStates::Held);
    let mut sleep = |round| ours(round, "sleep", IdleStates::Held);
    let mut sleep_left = |round| ours(round, "sleep", IdleStates::Left);
    let mut theirs = |round| peers(round, IdleStates::Held);
    let mut theirs_left = |round| peers(round, IdleStates::Left);

    let mut contestants: Vec<Contestant<'_, Figures>> =
        vec![&mut spin, &mut sleep, &mut sleep_left];
    if cyclictest::version().is_some() {
        contestants.extend([&mut theirs as Contestant<'_, Figures>, &mut theirs_left]);
    } else {
        part.remark("cyclictest is not installed (package rt-tests).");
    }

    let mut runs = in_turns(rounds, &mut contestants)?.into_iter();
    let spin = runs.next().unwrap_or_default();
    let sleep = runs.next().unwrap_or_default();
    let sleep_left = runs.next().unwrap_or_default();
    let theirs = runs.next().unwrap_or_default();
    let theirs_left = runs.next().unwrap_or_default();
    compare(&mut part, "S", &spin, &theirs);
    compare(&mut part, "sleep", &sleep, &theirs);
    compare(&mut part, "sleep, idle left", &sleep_left, &theirs_left);
    let all = [
        ("S", &spin),
        ("sleep", &sleep),
        ("sleep, idle left", &sleep_left),
        ("cyclictest", &theirs),
        ("cyclictest, idle left", &theirs_left),
    ];
    remarks(&mut part, &all);
    part.remark(
        "Both sides hold `/dev/cpu_dma_latency` at 0, cyclictest by default and onbeat by --dma-latency=0us; with idle states \
         left as they are, onbeat by default and cyclictest by --default-system, neither does.",
    );
    Ok(part)
}

const fn words(idle: IdleStates) -> &'static str {
    match idle {
        IdleStates::Held => "held",
        IdleStates::Left => "left",
    }
}

fn compare(part: &mut Part, name: &str, ours: &[Figures], theirs: &[Figures]) {
    for (place, (q, quantile)) in QUANTILES.into_iter().enumerate() {
        let of = |runs: &[Figures]| -> Vec<f64> {
            runs.iter().map(|run| run.quantiles_ns[place]).collect()
        };
        let ours = of(ours);
        let theirs = of(theirs);
        let ratio = Spread::of_ratios(&ours, &theirs);
        let mut finding =
            Finding::new(format!("{quantile} {name}"), format_times(Spread::from_figures(ours)))
                .beside(format_times(Spread::from_figures(theirs)))
                .with_ratio(ratio);
        if let (0.99, Some(ratio)) = (q, ratio) {
            let (goal, most) = if name == "S" { ("≤ 1/10", 0.1) } else { ("≤ 1", 1.0) };
            finding = finding.with_goal(goal, ratio.median <= most);
        }

        part.add(if place == 0 { finding.that_begins_a_group() } else { finding });
    }

    let of_loop =
        |runs: &[Figures]| -> Vec<f64> { runs.iter().map(|run| run.cpu.of_loop).collect() };
    let process =
        |runs: &[Figures]| -> Vec<f64> { runs.iter().map(|run| run.cpu.process).collect() };
    let formatted = |spread: Option<Spread>| spread.map_or_else(String::new, |s| percent(s.median));
    let share = Spread::from_figures(of_loop(ours));
    let finding = Finding::new(format!("CPU of the loop's thread, {name}"), formatted(share))
        .beside(formatted(Spread::from_figures(of_loop(theirs))))
        .with_ratio(Spread::of_ratios(&of_loop(ours), &of_loop(theirs)));
    part.add(match share {
        Some(share) if name == "S" => finding.with_goal("≤ 5 %", share.median <= 0.05),
        _ => finding,
    });

    part.add(
        Finding::new(
            format!("CPU of the process, {name}"),
            formatted(Spread::from_figures(process(ours))),
        )
        .beside(formatted(Spread::from_figures(process(theirs))))
        .with_ratio(Spread::of_ratios(&process(ours), &process(theirs))),
    );
}

fn remarks(part: &mut Part, runs: &[(&str, &Vec<Figures>)]) {
    let worst = runs.iter().filter(|(_, figures)| !figures.is_empty()).map(|(name, figures)| {
        let worst = Spread::from_figures(figures.iter().map(|run| run.worst_ns));
        let highest = worst.map_or(f64::NAN, |s| s.high);
        format!("{name} {}", crate::table::format_time(highest))
    });

    part.remark(format!("Worst of all turns: {}.", worst.collect::<Vec<_>>().join(", ")));
    let beyond: u64 =
        runs.iter().flat_map(|(_, figures)| figures.iter()).map(|run| run.beyond).sum();
    part.remark(format!(
        "p99.9 of a turn stands on few samples. cyclictest counts in whole microseconds, whose middle is taken, as that of \
         onbeat's finer buckets; {beyond} of its cycles were beyond its histogram of 1 s, and stand above all others. \
         Neither counts skipped releases here."
    ));
    let mut refused: Vec<&String> =
        runs.iter().flat_map(|(_, figures)| figures.iter()).flat_map(|run| &run.refused).collect();
    refused.sort_unstable();
    refused.dedup();

    for sentence in refused {
        part.remark(format!("{sentence}."));
    }
}

fn onbeat(
    dir: &Path,
    (wait, idle): (&'static str, IdleStates),
    seconds: u64,
    cpu: u32,
) -> Result<Figures, Failure> {
    let whole = Duration::from_secs(seconds);
    let timer =
        Timer { period_us: PERIOD_US, duration: Some(whole), wait, cpu, causes: false, idle };
    let answer = timer.run(dir, |running| Ok(watch(running, whole)))?;
    let worst_ns = answer.run.moments(onbeat::record::Series::WakeupLatency).max_ns as f64;
    Ok(Figures {
        quantiles_ns: QUANTILES.map(|(q, _)| answer.quantile_ns(q)),
        cpu: answer.cpu.unwrap_or(NO_CPU),
        beyond: 0,
        worst_ns,
        refused: answer.refused(),
    })
}

fn peer(dir: &Path, idle: IdleStates, seconds: u64, cpu: u32) -> Result<Figures, Failure> {
    let cyclictest = Cyclictest { interval_us: PERIOD_US, seconds, cpu, idle };
    let answer = cyclictest.run(dir, |running| Ok(watch(running, cyclictest.duration())))?;
    Ok(Figures {
        quantiles_ns: QUANTILES.map(|(q, _)| answer.quantile_ns(q)),
        cpu: answer.cpu.unwrap_or(NO_CPU),
        beyond: answer.overflows(),
        worst_ns: answer.max_us as f64 * 1e3,
        refused: Vec::new(),
    })
}

pub(crate) fn watch(running: &Running, whole: Duration) -> Option<CpuShare> {
    running.at(MARGIN);
    let earlier = running.cpu_time();
    running.at(whole - MARGIN);
    running.cpu_time().share_since(earlier)
}
