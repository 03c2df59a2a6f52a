//! Injects faults and compares them with the causes that onbeat names: the confusion matrix of
//! docs/causes.md.
//!
//! `cargo bench -p onbeat-cli --bench causes -- [FAULT...] [--count N] [--quick] [--class
//! rt|ordinary] [--load idle|paper] [--details]` injects each fault 30 times (8 times with
//! `--quick`) into a loop of 1 kHz, real-time and ordinary, idle and under the load `paper`, then
//! the same with placebos, and prints Markdown. `--details` adds the explanation of every injection
//! that was named differently.
//!
//! `--longer N` makes injections that the loop makes itself N times as long, for processors on which
//! the injector's own work in the loop takes as much longer.
//!
//! `--require PERCENT` fails if fewer of the judged injections are named rightly, or if a placebo is
//! named as the fault: `make causes-vm` asks for that in a guest in virtual time.
//!
//! `--blind SEED [--spikes N]` draws fault, dose, phase, CPU, class of the loop and load at random
//! instead.
//!
//! An injection and a cycle belong together when they overlap in time.
// A benchmark, which prints its results.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod blind;
mod condition;
mod matrix;
mod planted;
mod seed;
mod steal;
mod tally;

use std::process::ExitCode;
use std::time::{Duration, Instant as Wall};

use condition::{Background, BackgroundLoad, Class, Condition};
use onbeat::host::{Host, online_cpus};
use onbeat::inject::{Fault, FaultOrigin};
use onbeat::load::RunningError;
use onbeat::probe::disturbed::DisturbError;
use planted::Row;
use steal::StealCounter;
use tally::Tally;

const MS: u64 = 1_000_000;
/// Injections of each fault in each condition, and with `--quick`.
const COUNT: usize = 30;
const QUICK: usize = 8;
/// Placebos of each fault.
const PLACEBOS: usize = 15;
/// Spikes of the blind variant.
const SPIKES: usize = 1000;

/// The parsed arguments.
struct Arguments {
    faults: Vec<Fault>,
    classes: Vec<Class>,
    loads: Vec<Background>,
    count: usize,
    details: bool,
    blind: Option<(u64, usize)>,
    /// Least share of the judged injections that must be named rightly, in percent.
    require: Option<u64>,
    /// Factor of the usual lengths of faults in the loop.
    longer: u64,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --all-targets` starts it too, and must not stop processes.
    if !words.iter().any(|word| word == "--bench") {
        return own_tests();
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

/// This target has no test harness, so the checks of its arithmetic run here.
fn own_tests() -> ExitCode {
    seed::check();
    tally::check();
    blind::check();
    println!("causes: nothing planted; `cargo bench -p onbeat-cli --bench causes` does");
    ExitCode::SUCCESS
}

fn asked(words: &[String]) -> Result<Arguments, Failure> {
    let mut asked = Arguments {
        faults: Vec::new(),
        classes: Class::ALL.to_vec(),
        loads: Background::ALL.to_vec(),
        count: COUNT,
        details: false,
        blind: None,
        require: None,
        longer: 1,
    };

    let (mut seed, mut spikes) = (None, SPIKES);
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| Failure::NoValue(word.to_owned()));
        let number = |text: &str| {
            text.parse::<u64>().map_err(|_| Failure::Number(word.to_owned(), text.to_owned()))
        };
        match word {
            "--bench" => {}
            "--quick" => asked.count = QUICK,
            "--details" => asked.details = true,
            "--longer" => asked.longer = number(value()?)?.max(1),
            "--require" => asked.require = Some(number(value()?)?.min(100)),
            "--count" => asked.count = number(value()?)?.max(1) as usize,
            "--class" => asked.classes = vec![Class::from_word(value()?)?],
            "--load" => asked.loads = vec![Background::from_word(value()?)?],
            "--only" => asked.faults.push(value()?.parse().map_err(Failure::Fault)?),
            "--blind" => seed = Some(number(value()?)?),
            "--spikes" => spikes = number(value()?)?.max(1) as usize,
            fault => asked.faults.push(fault.parse().map_err(Failure::Fault)?),
        }
    }

    if asked.faults.is_empty() {
        asked.faults = Fault::ALL.to_vec();
    }

    asked.blind = seed.map(|seed| (seed, spikes));
    Ok(asked)
}

/// One sentence, status 1.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Fault(onbeat::inject::UnknownFault),
    #[error(transparent)]
    Disturb(#[from] DisturbError),
    #[error("spikes cannot be explained here: {0}")]
    NoRecorder(String),
    #[error("{0} is not a number of seconds; give it as --steal=600")]
    Seconds(String),
    #[error("{0} takes a value")]
    NoValue(String),
    #[error("{0}: {1} is not a whole number")]
    Number(String, String),
    #[error("unknown {0} \"{1}\"; known: {2}")]
    Word(&'static str, String, &'static str),
    #[error("the load cannot start: {0}")]
    Load(#[from] RunningError),
    #[error("this process may not run on any CPU")]
    NoCpu,
    #[error("{right} of {judged} are named rightly, which is less than {required} %")]
    TooFew { right: usize, judged: usize, required: u64 },
    #[error("{named} of {placebos} placebos are named as the fault that was not planted")]
    Placebos { named: usize, placebos: usize },
    #[error("a thread of the benchmark panicked")]
    Panicked,
}

fn side_by_side(seconds: &str) -> Result<(), Failure> {
    let seconds = seconds.parse().map_err(|_| Failure::Seconds(seconds.to_owned()))?;
    let cpu = *online_cpus().last().ok_or(Failure::NoCpu)?;
    println!("{}", Host::read().in_one_line());
    println!(
        "{}",
        steal::side_by_side(cpu, Duration::from_secs(seconds)).map_err(Failure::NoRecorder)?
    );
    Ok(())
}

fn all(asked: &Arguments) -> Result<(), Failure> {
    let begun = Wall::now();
    println!("{}.", Host::read().in_one_line());
    println!("Load average {} at the beginning.", load_average());
    match asked.blind {
        Some((seed, spikes)) => blind::run(seed, spikes, asked)?,
        None => table(asked)?,
    }

    let minutes = begun.elapsed().as_secs_f64() / 60.0;
    println!("\nIt took {minutes:.1} minutes. Load average {} at the end.", load_average());
    Ok(())
}

fn table(asked: &Arguments) -> Result<(), Failure> {
    let cpu = *online_cpus().last().ok_or(Failure::NoCpu)?;
    println!(
        "A loop of 1 kHz on CPU {cpu}; {} injections of each fault in each condition.\n",
        asked.count
    );
    let before = StealCounter::now(cpu);
    let (mut rows, mut placebos) = (Vec::new(), Vec::new());
    for load in &asked.loads {
        let _loaded = BackgroundLoad::start(*load)?;
        for class in &asked.classes {
            let condition = Condition { class: *class, load: *load };
            for fault in &asked.faults {
                let dose_ns = match fault.origin() {
                    FaultOrigin::InLoop => asked.longer * condition.dose_ns(*fault),
                    FaultOrigin::OutsideLoop => condition.dose_ns(*fault),
                };
                let dose_ns = dose_ns.min(fault.longest_ns());
                let plan = planted::Planting { fault: *fault, condition, cpu, dose_ns };
                let mut row = planted::plant(&plan, asked.count, false)?;
                let mut placebo = planted::plant(&plan, asked.count.min(PLACEBOS), true)?;
                row.ordinary = planted::ordinary(placebo.felt());
                placebo.ordinary = row.ordinary.clone();
                rows.push(row);
                placebos.push(placebo);
            }
        }
    }

    let stolen = StealCounter::now(cpu).since(&before);
    print!("{}", matrix::of_planted(&rows));
    print!("{}", matrix::of_placebos(&placebos));
    print!("{}", matrix::of_others(rows.iter().chain(&placebos)));
    print!("{}", stolen.beside(rows.iter().chain(&placebos)));
    if asked.details {
        print!("{}", matrix::details(&rows));
    }

    asked.require.map_or(Ok(()), |required| held(required, &rows, &placebos))
}

/// Whether at least `required` percent are named rightly, and no placebo is named.
fn held(required: u64, rows: &[Row], placebos: &[Row]) -> Result<(), Failure> {
    let mut sum = Tally::default();
    rows.iter().for_each(|row| sum.join(&row.tally()));
    let (right, judged) = (sum.first + sum.right, sum.all());
    if judged == 0 || (right as u64) * 100 < required * judged as u64 {
        return Err(Failure::TooFew { right, judged, required });
    }

    let named = placebos.iter().map(matrix::named_as_planted).sum();
    match named {
        0 => Ok(()),
        named => {
            let placebos = placebos.iter().map(|row| row.felt().len()).sum();
            Err(Failure::Placebos { named, placebos })
        }
    }
}

fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}
