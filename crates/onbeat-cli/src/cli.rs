//! The command line, as clap reads it. Help text, completions and man pages come from these definitions.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use onbeat::inject::Fault;
use onbeat::load::Load;
use onbeat_rt::cycle::Phase;
use onbeat_rt::{OnOverrun, Wait};

use crate::cli_bus::Bus;
use crate::cli_files::{
    COMPARE_EXAMPLES, CompareOptions, ExportFormats, GATE_EXAMPLES, GateOptions, IMPORT_EXAMPLES, ImportOptions,
};
use crate::cli_measure::Measure;
use crate::cli_robot::Robot;
use crate::cli_segment::Segment;
use crate::units::{loop_period_ns, time_ns};

const EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat bench
      nine tunings, idle and loaded, two minutes: which one keeps a loop on time?
  onbeat bench --for 12m --limit 100us --at 99.99
      the same with a verdict and an exit status
  onbeat measure timer --period 1ms --for 30s
      how late does one loop start?
  onbeat load paper
      what the bench does to the machine, alone
  onbeat report onbeat-runs/latest
      the tables again, and the page, from the files";

const STATUSES: &str = "\x1b[1mExit status\x1b[0m
  0  done; with --limit: it holds
  1  the limit is broken
  2  could not run, or the samples cannot tell";

/// Can this computer run my robot on time?
///
/// onbeat runs a control loop on this machine, idle and under load, with and without real-time tuning, and says with evidence
/// how late it was, which tuning helps, and whether a limit holds.
#[derive(Debug, Parser)]
#[command(name = "onbeat", version, before_help = EXAMPLES, after_help = STATUSES, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN")]
    pub(crate) color: Colour,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Which tuning keeps a control loop on time, idle and loaded?
    #[command(before_help = BENCH_EXAMPLES)]
    Bench(Box<BenchOptions>),
    /// How late is one thing?
    #[command(subcommand)]
    Measure(Measure),
    /// Run a load alone, until Ctrl-C
    #[command(after_help = loads())]
    Load(LoadOptions),
    /// What would my robot do if ...: one cause of lateness on purpose, at known moments, with a log
    #[command(before_help = INJECT_EXAMPLES, after_help = faults())]
    Inject(InjectOptions),
    /// Tables and page again, from the files of a run alone
    Report(ReportOptions),
    /// Files of cyclictest, rtla, stress-ng, jHiccup and others become a run like onbeat's own
    #[command(before_help = IMPORT_EXAMPLES)]
    Import(Box<ImportOptions>),
    /// Two or more runs beside each other: figures, ratios with intervals, what differed
    #[command(before_help = COMPARE_EXAMPLES)]
    Compare(CompareOptions),
    /// A run for other programs: its figures, and what ran around a spike
    #[command(before_help = EXPORT_EXAMPLES)]
    Export(ExportOptions),
    /// Does a run pass? For continuous integration: exit status, JUnit XML
    #[command(before_help = GATE_EXAMPLES)]
    Gate(Box<GateOptions>),
    /// A robot moves: trajectories, limits, safe stop, on real or simulated EtherCAT devices
    #[command(subcommand)]
    Robot(Robot),
    /// Simulated EtherCAT devices, for any MainDevice
    #[command(subcommand)]
    Segment(Segment),
    /// A running EtherCAT bus: its state, devices, values, events, statistics, SDO transfers
    #[command(subcommand)]
    Bus(Bus),
    /// Put back what an onbeat that was killed has left changed
    Repair(RepairOptions),
    /// One cell of a bench, in a process of its own
    #[command(hide = true)]
    Cell(Box<CellOptions>),
    /// Man pages and completions
    #[command(hide = true)]
    Generate(GenerateOptions),
}

/// What becomes of changes that are not as onbeat left them.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct RepairOptions {
    /// Restore also settings that something else has changed since
    #[arg(long, conflicts_with = "forget")]
    pub(crate) force: bool,
    /// Drop changes that cannot be undone from the record
    #[arg(long)]
    pub(crate) forget: bool,
}

const BENCH_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat bench
      all nine tunings; real-time priority and shielding need rights
  onbeat bench --tunings none,S --loads idle,cpu=50%
      without any rights
  onbeat bench --for 12m --limit 100us --at 99.99
      a verdict: exit status 0 holds, 1 broken, 2 not enough samples";

const INJECT_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat inject equal-priority-hog --cpu 1 --for 300us --every 100ms --count 20
      a loop of its own is disturbed; what was done, what it felt, what it was explained as
  sudo onbeat inject stop-signal --pid 4711 --for 20ms --every 1s
      the loop of a running program: its thread named onbeat-loop, or the one of the highest real-time priority";

const EXPORT_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat export --list
      the spikes of the latest run: number, time, lateness, cause
  onbeat export onbeat-runs/latest --spike 3 --perfetto spike3.perfetto-trace
      what ran around the third one, for ui.perfetto.dev
  onbeat export onbeat-runs/latest --cell PMC/paper --ftrace -
      around the worst one of a cell, as the kernel's own text
  onbeat export --csv buckets.csv --parquet buckets.parquet --openmetrics metrics.txt
      every bucket of every interval, and histograms for Prometheus";

/// How the loop runs.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "The loop")]
pub(crate) struct LoopOptions {
    /// Distance of two releases
    #[arg(long, default_value = "1ms", value_parser = loop_period_ns, value_name = "TIME")]
    pub(crate) period: u64,
    /// Work per cycle: the loop polls the clock that long, as a controller would compute
    #[arg(long, default_value = "0", value_parser = time_ns, value_name = "TIME")]
    pub(crate) work: u64,
    /// A cycle that ends later than this after its release has missed its deadline [default: the period]
    #[arg(long, value_parser = time_ns, value_name = "TIME")]
    pub(crate) deadline: Option<u64>,
    /// What to do when a cycle ends after the next release: skip (and count), catch-up=N, stop
    #[arg(long, default_value = "skip", value_parser = overrun, value_name = "POLICY")]
    pub(crate) on_overrun: OnOverrun,
    /// Where the releases lie: avoid-tick keeps them clear of the kernel's periodic tick, whose interrupt would make
    /// them late; a time such as 0us or 250us puts them there in each period of the clock
    #[arg(long, default_value = "avoid-tick", value_parser = phase, value_name = "PHASE")]
    pub(crate) phase: Phase,
    /// From which lateness on (late start, plus work beyond the plan) a cycle is kept as a spike [default: 10 times
    /// the median wake-up latency of its interval, at least 50us]
    #[arg(long, value_parser = time_ns, value_name = "TIME")]
    pub(crate) spikes_over: Option<u64>,
    /// Keep CPUs out of idle states that take longer than this to leave; changes the whole machine while it runs
    #[arg(long, value_parser = time_ns, value_name = "TIME")]
    pub(crate) dma_latency: Option<u64>,
    /// Kill the process if the loop asks the kernel for anything but sleep and time
    #[arg(long)]
    pub(crate) lockdown: bool,
}

/// The limit to hold.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "The verdict")]
pub(crate) struct LimitOptions {
    /// The longest that is still on time, of what the run is about (or see --limit-on)
    #[arg(long, value_parser = time_ns, value_name = "TIME")]
    pub(crate) limit: Option<u64>,
    /// How many of the releases must keep it, in percent
    #[arg(long, default_value = "99.99", value_parser = percent, value_name = "PERCENT", requires = "limit")]
    pub(crate) at: f64,
    /// What the limit is on: main (what the run is about), release, period or response; or events=N: at most N alarms of bus and robot,
    /// which needs no --limit
    #[arg(long, value_delimiter = ',', value_parser = limit_on, value_name = "SERIES|events=N")]
    #[arg(requires_ifs = [("main", "limit"), ("release", "limit"), ("wakeup", "limit"), ("period", "limit"), ("response", "limit")])]
    pub(crate) limit_on: Vec<LimitOn>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitOn {
    /// What the run is about: release latency, or what its probe measures.
    Main,
    /// From a release to its start, skipped releases among them.
    Release,
    /// From start to start.
    Period,
    /// From a release to the end of its work.
    Response,
    /// How many alarms of bus and robot there may be.
    Events(u64),
}

fn limit_on(text: &str) -> Result<LimitOn, String> {
    match text {
        "main" => Ok(LimitOn::Main),
        "release" | "wakeup" => Ok(LimitOn::Release),
        "period" => Ok(LimitOn::Period),
        "response" => Ok(LimitOn::Response),
        _ => most_alarms(text).map(LimitOn::Events),
    }
}

/// `events=0`.
pub(crate) fn most_alarms(text: &str) -> Result<u64, String> {
    let number = text.strip_prefix("events=").and_then(|number| number.parse().ok());
    number.ok_or_else(|| format!("`{text}` is none of main, release, period, response, events=N"))
}

/// Where results go.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputOptions {
    /// Directory that gets one directory per run, and `latest`
    #[arg(long, default_value = "onbeat-runs", value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// Print all conclusions in sentences above the closing lines
    #[arg(long)]
    pub(crate) verbose: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchOptions {
    /// Total time, with starting and stopping of loads
    #[arg(long = "for", default_value = "2m", value_parser = time_ns, value_name = "TIME")]
    pub(crate) duration: u64,
    /// Tunings: P maximum priority, M memory locked, C CPU shielded, S sleep then spin; any letters of these, or none
    #[arg(long, default_value = "none,M,C,MC,P,PM,PC,PMC,PMCS", value_delimiter = ',', value_name = "LIST")]
    pub(crate) tunings: Vec<onbeat::bench::Tuning>,
    /// Loads; see `onbeat load --help`
    #[arg(long, default_value = "idle,paper", value_delimiter = ',', value_name = "LIST")]
    pub(crate) loads: Vec<Load>,
    /// Directory that the loads' disk part writes in [default: the system's directory for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) load_dir: Option<PathBuf>,
    /// Cells take turns in short blocks, or run one after the other as in the paper
    #[arg(long, value_enum, default_value_t = Order::Interleaved, value_name = "ORDER")]
    pub(crate) order: Order,
    /// The CPU that C shields [default: the one with the fewest device interrupts so far]
    #[arg(long, value_name = "N")]
    pub(crate) cpu: Option<u32>,
    /// Real-time priority that P gives: the maximum but one, since 99 is the kernel's own migration and watchdog threads'
    #[arg(long, default_value_t = 98, value_parser = clap::value_parser!(u32).range(1..=99), value_name = "N")]
    pub(crate) priority: u32,
    /// What the loop does in each cycle besides being on time: `bus` exchanges process data with 59 simulated EtherCAT devices
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) with: Option<With>,
    /// How long S polls the clock before a release
    #[arg(long, default_value = "50us", value_parser = time_ns, value_name = "TIME")]
    pub(crate) spin: u64,
    /// Leave out the flight recorder that finds out why cycles were late
    #[arg(long)]
    pub(crate) no_causes: bool,
    /// Shuffles the cells; the same number gives the same order
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) looping: LoopOptions,
    #[command(flatten)]
    pub(crate) limit: LimitOptions,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    Interleaved,
    Sequential,
}

/// What a bench's loop does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum With {
    Bus,
}

#[derive(Debug, Args)]
pub(crate) struct LoadOptions {
    /// Which load, or several joined by +
    pub(crate) load: Load,
    /// How long; 0 is until Ctrl-C
    #[arg(long = "for", default_value = "0", value_parser = time_ns, value_name = "TIME")]
    pub(crate) duration: u64,
    /// Directory that the disk part writes in [default: the system's directory for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Serve a bench: events on standard output, end when standard input ends
    #[arg(long, hide = true)]
    pub(crate) supervised: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InjectOptions {
    /// Which cause; they are listed below
    #[arg(value_name = "CAUSE")]
    pub(crate) fault: Fault,
    /// How long each lasts
    #[arg(long = "for", default_value = "300us", value_parser = time_ns, value_name = "TIME")]
    pub(crate) length: u64,
    /// From one to the next [default: 100ms, or the least that the cause takes]
    #[arg(long, value_parser = time_ns, value_name = "TIME")]
    pub(crate) every: Option<u64>,
    /// How many
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) count: usize,
    /// The loop of this process [default: a loop of onbeat's own is run and disturbed, at priority 90 unless the cause takes an ordinary one]
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<i32>,
    /// The loop's CPU [default: the one it is bound to; for a loop of onbeat's own the last one]
    #[arg(long, value_name = "N")]
    pub(crate) cpu: Option<u32>,
    /// The loop's period
    #[arg(long, default_value = "1ms", value_parser = loop_period_ns, value_name = "TIME")]
    pub(crate) period: u64,
    /// With --pid: where the releases lie in each period of CLOCK_MONOTONIC (`phase_ns` of a run file)
    #[arg(long, default_value = "0us", value_parser = time_ns, value_name = "TIME", requires = "pid")]
    pub(crate) phase: u64,
    /// Do everything but the cause itself
    #[arg(long)]
    pub(crate) placebo: bool,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// This process was started to be stopped
    #[arg(long, hide = true)]
    pub(crate) carried: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReportOptions {
    /// A run's directory, or one run file
    #[arg(default_value = "onbeat-runs/latest")]
    pub(crate) run: PathBuf,
    /// Judge by a limit (again, or another one than the run was given)
    #[command(flatten)]
    pub(crate) limit: LimitOptions,
    /// For how long the worst is to be estimated, up to a hundred times the run [default: ten times the run]
    #[arg(long, value_parser = time_ns, value_name = "TIME")]
    pub(crate) mission: Option<u64>,
    /// Print the paper's whole tables
    #[arg(long)]
    pub(crate) full: bool,
    /// Print tables and verdict only, and write no page: quick, for a run that goes on
    #[arg(long, conflicts_with_all = ["full", "json", "html", "mission"])]
    pub(crate) brief: bool,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the page here [default: report.html beside the run files]
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
pub(crate) struct ExportOptions {
    /// A run's directory, or one run file
    #[arg(default_value = "onbeat-runs/latest")]
    pub(crate) run: PathBuf,
    /// The spike of this number, as --list and the report show it [default: the worst one whose events are kept]
    #[arg(long, value_name = "N")]
    pub(crate) spike: Option<u64>,
    /// The cell of a bench whose spikes are meant: they are numbered cell by cell
    #[arg(long, value_name = "TUNING/LOAD")]
    pub(crate) cell: Option<String>,
    /// List the spikes: number, time, lateness, cause, and whether the events around each are kept
    #[arg(long, group = "what")]
    pub(crate) list: bool,
    /// Write a Perfetto trace, for ui.perfetto.dev; - is standard output
    #[arg(long, group = "what", value_name = "FILE")]
    pub(crate) perfetto: Option<PathBuf>,
    /// Write the text of the kernel's own trace file; - is standard output
    #[arg(long, group = "what", value_name = "FILE")]
    pub(crate) ftrace: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) formats: ExportFormats,
}

#[derive(Debug, Args)]
pub(crate) struct CellOptions {
    #[arg(long)]
    pub(crate) file: PathBuf,
    #[arg(long)]
    pub(crate) tuning: String,
    #[arg(long)]
    pub(crate) load: String,
    #[arg(long)]
    pub(crate) started: f64,
    #[arg(long)]
    pub(crate) origin_ns: u64,
    #[arg(long)]
    pub(crate) cpu: Option<u32>,
    #[arg(long, default_value_t = 0)]
    pub(crate) priority: u32,
    #[arg(long, default_value = "sleep", value_parser = wait)]
    pub(crate) wait: Wait,
    #[arg(long)]
    pub(crate) lock_memory: bool,
    #[arg(long)]
    pub(crate) causes: bool,
    #[arg(long, value_enum)]
    pub(crate) with: Option<With>,
    #[command(flatten)]
    pub(crate) looping: LoopOptions,
}

#[derive(Debug, Args)]
pub(crate) struct GenerateOptions {
    /// Directory to write to
    pub(crate) into: PathBuf,
}

/// The loads there are, for the help.
fn loads() -> String {
    let lines = onbeat::load::CATALOGUE.iter().map(|entry| format!("  {}\n      {}", entry.typed, entry.does));
    format!("\x1b[1mLoads\x1b[0m\n{}", lines.collect::<Vec<_>>().join("\n"))
}

/// The causes that can be made, for the help.
fn faults() -> String {
    let lines = Fault::ALL.map(|fault| format!("  {}\n      {}", fault.word().replace('_', "-"), fault.describe()));
    format!("\x1b[1mCauses\x1b[0m\n{}", lines.join("\n"))
}

pub(crate) fn wait(text: &str) -> Result<Wait, String> {
    let (kind, time) = match text.split_once('=') {
        Some((kind, time)) => (kind, Some(time_ns(time).map_err(|why| why.to_string())?)),
        None => (text, None),
    };
    match (kind, time) {
        ("sleep", None) => Ok(Wait::Sleep),
        ("spin", margin) => Ok(Wait::SleepThenSpin { margin_ns: margin.unwrap_or(50_000) }),
        ("adaptive", cap) => Ok(Wait::Adaptive { cap_ns: cap.unwrap_or(300_000) }),
        ("relative", None) => Ok(Wait::Relative { margin_ns: 0 }),
        ("relative-spin", margin) => Ok(Wait::Relative { margin_ns: margin.unwrap_or(50_000) }),
        _ => Err("waits are sleep, spin[=50us], adaptive[=300us], relative and relative-spin[=50us]".to_owned()),
    }
}

/// The waits of a loop that moves something: it keeps its grid.
pub(crate) fn wait_on_the_grid(text: &str) -> Result<Wait, String> {
    match wait(text) {
        Ok(wait) if wait.is_relative() => Err(
            "a relative sleep drifts, and a robot keeps its grid; waits are sleep, spin[=50us] and adaptive[=300us]"
                .to_owned(),
        ),
        parsed => parsed,
    }
}

fn overrun(text: &str) -> Result<OnOverrun, String> {
    match text.split_once('=') {
        None if text == "skip" => Ok(OnOverrun::SkipKeepPhase),
        None if text == "stop" => Ok(OnOverrun::Stop),
        Some(("catch-up", cycles)) => cycles
            .parse()
            .map(|at_most| OnOverrun::CatchUp { at_most })
            .map_err(|_| format!("`{cycles}` is no number of cycles; write catch-up=3")),
        _ => Err("policies are skip, catch-up=N and stop".to_owned()),
    }
}

fn phase(text: &str) -> Result<Phase, String> {
    if text == "avoid-tick" {
        return Ok(Phase::AvoidTick);
    }
    time_ns(text).map(Phase::At).map_err(|why| format!("{why}; or avoid-tick"))
}

pub(crate) fn percent(text: &str) -> Result<f64, String> {
    let number: f64 = text.trim_end_matches('%').parse().map_err(|_| format!("`{text}` is no percentage"))?;
    if number > 0.0 && number <= 100.0 { Ok(number) } else { Err(format!("{number} % is not above 0 and up to 100")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn waits_policies_and_phases_are_read_as_typed() {
        assert_eq!(wait("spin"), Ok(Wait::SleepThenSpin { margin_ns: 50_000 }));
        assert!(wait_on_the_grid("relative-spin=20us").is_err_and(|why| why.contains("keeps its grid")));
        assert_eq!(wait_on_the_grid("spin"), wait("spin"));
        assert_eq!(wait("relative"), Ok(Wait::Relative { margin_ns: 0 }));
        assert_eq!(wait("relative-spin"), Ok(Wait::Relative { margin_ns: 50_000 }));
        assert_eq!(wait("adaptive=100us"), Ok(Wait::Adaptive { cap_ns: 100_000 }));
        assert_eq!(overrun("catch-up=3"), Ok(OnOverrun::CatchUp { at_most: 3 }));
        assert_eq!(phase("250us"), Ok(Phase::At(250_000)));
        assert!(wait("nap").is_err() && overrun("ignore").is_err() && percent("0").is_err() && percent("101").is_err());
    }
}
