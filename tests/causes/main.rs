//! Plants causes of lateness and compares what they are explained as: the confusion matrix of docs/causes.md.
//!
//! `cargo bench -p onbeat-cli --bench causes -- [FAULT...] [--quick] [--details]` plants each fault 50 times in a loop of
//! 1 kHz (8 times with `--quick`), then the same with placebos, and prints Markdown. `--details` adds the explanation of
//! every injection that was named otherwise.
//!
//! An injection and a cycle belong together when they overlap in time. Every injection is judged, also one that made
//! nothing late.
// What it measures is printed, and nothing is linked against it.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod matrix;
mod planted;
mod steal;

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use onbeat::host::{Host, online_cpus};
use onbeat::inject::{Error, Fault};
use onbeat::probe::disturbed::{DisturbError, Disturbance, disturb};
use planted::{Planted, Row, setting};
use steal::Stolen;

const MS: u64 = 1_000_000;
/// Placebos of each fault.
const PLACEBOS: usize = 15;

/// What was asked for.
struct Asked {
    faults: Vec<Fault>,
    count: usize,
    details: bool,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --all-targets` starts it too, and wants nobody stopped.
    if !words.iter().any(|word| word == "--bench") {
        println!("causes: nothing planted; `cargo bench -p onbeat-cli --bench causes` does");
        return ExitCode::SUCCESS;
    }
    let done = match words.iter().find_map(|word| word.strip_prefix("--steal=")) {
        Some(seconds) => side_by_side(seconds),
        None => asked(&words).and_then(|asked| all(&asked)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("causes: {why}");
            ExitCode::FAILURE
        }
    }
}

fn asked(words: &[String]) -> Result<Asked, Failure> {
    let has = |flag: &str| words.iter().any(|word| word == flag);
    let named = words.iter().filter(|word| !word.starts_with("--"));
    let faults: Vec<Fault> = named.map(|word| word.parse().map_err(Failure::Fault)).collect::<Result<_, _>>()?;
    let faults = if faults.is_empty() { Fault::ALL.to_vec() } else { faults };
    Ok(Asked { faults, count: if has("--quick") { 8 } else { 50 }, details: has("--details") })
}

/// One sentence, status 1.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Fault(onbeat::inject::UnknownFault),
    #[error(transparent)]
    Disturb(#[from] DisturbError),
    #[error("nothing can be explained here: {0}")]
    NoRecorder(String),
    #[error("{0} is no number of seconds; give it as --steal=600")]
    Seconds(String),
    #[error("this process may run on no CPU")]
    NoCpu,
}

fn side_by_side(seconds: &str) -> Result<(), Failure> {
    let seconds = seconds.parse().map_err(|_| Failure::Seconds(seconds.to_owned()))?;
    let cpu = *online_cpus().last().ok_or(Failure::NoCpu)?;
    println!("{}", Host::read().in_one_line());
    println!("{}", steal::side_by_side(cpu, Duration::from_secs(seconds)).map_err(Failure::NoRecorder)?);
    Ok(())
}

fn all(asked: &Asked) -> Result<(), Failure> {
    let cpu = *online_cpus().last().ok_or(Failure::NoCpu)?;
    println!("{}; a loop of 1 kHz at SCHED_FIFO 90 on CPU {cpu}.", Host::read().in_one_line());
    println!("Load average {} at the beginning.\n", load_average());
    let before = Stolen::now(cpu);
    let mut rows = Vec::new();
    let mut placebos = Vec::new();
    for fault in &asked.faults {
        let mut row = planted(*fault, cpu, asked.count, false)?;
        let placebo = planted(*fault, cpu, asked.count.min(PLACEBOS), true)?;
        row.ordinary = planted::ordinary(&placebo.planted);
        rows.push(row);
        placebos.push(placebo);
    }
    let stolen = Stolen::now(cpu).since(&before);
    print!("{}", matrix::of_planted(&rows));
    print!("{}", matrix::of_placebos(&placebos));
    print!("{}", matrix::of_others(rows.iter().chain(&placebos)));
    print!("{}", stolen.beside(rows.iter().chain(&placebos)));
    if asked.details {
        print!("{}", matrix::details(rows.iter().chain(&placebos)));
    }
    println!("\nLoad average {} at the end.", load_average());
    Ok(())
}

fn planted(fault: Fault, cpu: u32, count: usize, placebo: bool) -> Result<Row, Failure> {
    let (for_ns, every_ns) = planted::dose(fault);
    // A placebo of the scheduler's rules waits for seconds as well, and does nothing.
    let count = if placebo && every_ns > 1000 * MS { count.min(2) } else { count };
    let asked = Disturbance { fault, every_ns, for_ns, count, placebo };
    let row = match disturb(&setting(cpu), &asked, &AtomicBool::new(false), &mut |_| {}) {
        Ok(done) => {
            let refused = done.grants.iter().find(|grant| grant.what == "flight recorder" && !grant.granted);
            if let Some(refused) = refused {
                return Err(Failure::NoRecorder(refused.why_not.clone().unwrap_or_default()));
            }
            Planted::Done(done)
        }
        Err(DisturbError::Inject(Error::NotPossible { reason, .. })) => Planted::NotPossible(reason),
        Err(why) => return Err(why.into()),
    };
    eprintln!("{fault}{}: {}", if placebo { " (placebo)" } else { "" }, row.in_words());
    Ok(Row { fault, planted: row, ordinary: planted::Ordinary::new() })
}

fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}
