//! The command line, as clap reads it. Help text, completions and man pages come from these
//! definitions.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use onbeat::inject::Fault;
use onbeat::load::Load;
use onbeat_rt::cycle::Phase;
use onbeat_rt::{OnOverrun, Wait};

use crate::cli_bus::Bus;
use crate::cli_files::{
    COMPARE_EXAMPLES, CompareOptions, ExportFormats, GATE_EXAMPLES, GATE_USAGE, GateOptions,
    IMPORT_EXAMPLES, ImportOptions,
};
use crate::cli_measure::Measure;
use crate::cli_robot::Robot;
use crate::cli_segment::Segment;
use crate::cli_tune::Tune;
use crate::cli_vm::Vm;
use crate::complete;
use crate::units::{loop_period_ns, time_ns};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};

const EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat bench
      find the best of nine tunings, idle and loaded, in two minutes
  onbeat bench --for 12m --limit 100us --at 99.99
      the same with a limit: a verdict and an exit status
  onbeat measure timer --period 1ms --for 30s
      measure how late one loop starts
  onbeat load paper
      run the load of the bench alone
  onbeat report onbeat-runs/latest
      print the tables of the latest run again";

const STATUSES: &str = "\x1b[1mExit status\x1b[0m
  0  done; with --limit: PASS
  1  FAIL
  2  could not run, or INCONCLUSIVE";

/// Can this computer run my robot on time?
///
/// onbeat runs a control loop on this machine, idle and under load, with and without real-time
/// tuning, and reports with evidence how late it was, which tuning helps, and whether a limit
/// holds.
#[derive(Debug, Parser)]
#[command(name = "onbeat", version, before_help = EXAMPLES, after_help = STATUSES)]
pub(crate) struct Cli {
    /// When to use colours
    ///
    /// `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE.
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN", display_order = 990)]
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
    /// Find the tuning that keeps a control loop on time, idle and loaded
    #[command(before_help = BENCH_EXAMPLES)]
    Bench(Box<BenchOptions>),
    /// Measure one latency of this machine
    #[command(subcommand, disable_help_subcommand = true)]
    Measure(Measure),
    /// Run a load alone, until Ctrl-C
    #[command(after_help = loads())]
    Load(LoadOptions),
    /// Inject one cause of lateness at known times, with a log
    #[command(before_help = INJECT_EXAMPLES, after_help = faults())]
    Inject(InjectOptions),
    /// Print the tables and write the page from a run's files
    Report(ReportOptions),
    /// Convert results of cyclictest, rtla, stress-ng, jHiccup and others into a run
    #[command(before_help = IMPORT_EXAMPLES)]
    Import(Box<ImportOptions>),
    /// Compare runs: figures, ratios with intervals, different settings
    #[command(before_help = COMPARE_EXAMPLES)]
    Compare(CompareOptions),
    /// Export a run's figures, and the events around a spike
    #[command(before_help = EXPORT_EXAMPLES, override_usage = EXPORT_USAGE)]
    Export(ExportOptions),
    /// Decide whether a run passes, for continuous integration
    #[command(before_help = GATE_EXAMPLES, override_usage = GATE_USAGE)]
    Gate(Box<GateOptions>),
    /// Move a robot, simulated or real
    #[command(subcommand, disable_help_subcommand = true)]
    Robot(Robot),
    /// Simulate EtherCAT devices for any MainDevice
    #[command(subcommand, disable_help_subcommand = true)]
    Segment(Segment),
    /// Inspect a running EtherCAT bus, or scan for devices
    #[command(subcommand, disable_help_subcommand = true)]
    Bus(Bus),
    /// Find settings that delay a loop, change and restore them
    #[command(subcommand, disable_help_subcommand = true)]
    Tune(Tune),
    /// Run Linux kernels as guests, by real or virtual time
    #[command(subcommand, disable_help_subcommand = true)]
    Vm(Vm),
    /// Undo changes left by an interrupted onbeat
    Repair(RepairOptions),
    /// Run one cell of a bench, in a process of its own
    #[command(hide = true)]
    Cell,
    /// Write man pages and completions
    #[command(hide = true)]
    Generate(GenerateOptions),
}

/// How to treat changes that another program has modified since.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct RepairOptions {
    /// Restore also settings that another program has changed since
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
      needs no rights
  sudo onbeat bench --tunings none,PMCS,PM+plan --plan plan.toml
      before and after a whole plan, in turns
  onbeat bench --for 12m --limit 100us --at 99.99
      exit status 0 PASS, 1 FAIL, 2 INCONCLUSIVE";

const INJECT_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat inject equal-priority-hog --cpu 1 --for 300us --every 100ms --count 20
      disturbs a loop of its own; prints what was injected, measured lateness, reported cause
  sudo onbeat inject stop-signal --pid 4711 --for 20ms --every 1s
      the loop of a running program: its thread named onbeat-loop, or the one of the highest real-time priority";

/// clap would list every format on one overlong line.
const EXPORT_USAGE: &str = "onbeat export <--list|--perfetto FILE|--csv FILE|...> [OPTIONS] [RUN]";

const EXPORT_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat export --list
      the spikes of the latest run: number, time, lateness, cause
  onbeat export onbeat-runs/latest --spike 3 --perfetto spike3.perfetto-trace
      what ran around the third one, for ui.perfetto.dev
  onbeat export onbeat-runs/latest --cell PMC/paper --ftrace -
      around the worst one of a cell, as the kernel's own text
  onbeat export --csv buckets.csv --parquet buckets.parquet --openmetrics metrics.txt
      every bucket of every interval, and histograms for Prometheus";

/// Options of the loop.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "The loop")]
pub(crate) struct LoopOptions {
    /// Loop period
    #[arg(long, default_value = "1ms", value_parser = loop_period_ns, value_name = "TIME")]
    pub(crate) period: u64,
    /// Busy time per cycle, as a controller would compute
    #[arg(long, default_value = "0", value_parser = time_ns, value_name = "TIME")]
    pub(crate) work: u64,
    /// Latest end of a cycle after its release [default: the period]
    #[arg(long, value_parser = time_ns, value_name = "TIME")]
    pub(crate) deadline: Option<u64>,
    /// Reaction to a cycle that ends after the next release
    ///
    /// `skip` skips the releases that passed and counts them, `catch-up=N` runs at most N of them
    /// at once, `stop` ends the run.
    #[arg(long, default_value = "skip", value_parser = overrun, value_name = "POLICY")]
    #[arg(add = ArgValueCandidates::new(complete::overruns))]
    pub(crate) on_overrun: OnOverrun,
    /// Release phase relative to the kernel tick
    ///
    /// `avoid-tick` keeps releases clear of the kernel's periodic tick, whose interrupt would delay
    /// them. A time such as 0us or 250us sets the phase in each period of the clock.
    #[arg(long, default_value = "avoid-tick", value_parser = phase, value_name = "PHASE")]
    #[arg(add = ArgValueCandidates::new(complete::phases))]
    pub(crate) phase: Phase,
    /// Spike threshold [default: 10 times the median wake-up latency, at least 50us]
    ///
    /// A cycle counts by its lateness: late start, plus work beyond the plan. The median is that of
    /// the interval.
    #[arg(long, value_parser = time_ns, value_name = "TIME")]
    pub(crate) spikes_over: Option<u64>,
    /// Limit C-states by exit latency, machine-wide, during the run
    #[arg(long, value_parser = time_ns, value_name = "TIME")]
    pub(crate) dma_latency: Option<u64>,
    /// Kill the process on any system call except sleep and clock
    #[arg(long)]
    pub(crate) lockdown: bool,
}

/// Options of the limit.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "The verdict")]
pub(crate) struct LimitOptions {
    /// Latency limit for the primary series; see --limit-on
    #[arg(long, value_parser = time_ns, value_name = "TIME")]
    pub(crate) limit: Option<u64>,
    /// Percentage of releases that must meet the limit
    #[arg(long, default_value = "99.99", value_parser = percent, value_name = "PERCENT", requires = "limit")]
    pub(crate) at: f64,
    /// Series that the limit applies to, or number of alarms allowed
    ///
    /// `main` is the primary series of the run; `release`, `period` and `response` name a series.
    /// `events=N` allows at most N alarms of bus and robot, and needs no --limit.
    #[arg(long, value_delimiter = ',', value_parser = limit_on, value_name = "SERIES|events=N")]
    #[arg(requires_ifs = [("main", "limit"), ("release", "limit"), ("wakeup", "limit"), ("period", "limit"), ("response", "limit")])]
    #[arg(add = ArgValueCandidates::new(complete::limits_on))]
    pub(crate) limit_on: Vec<LimitOn>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitOn {
    /// The primary series: release latency, or what the probe measures.
    Main,
    /// Release latency, skipped releases included.
    Release,
    /// Observed period.
    Period,
    /// Response time.
    Response,
    /// Number of alarms of bus and robot allowed.
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

/// Options of the output.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputOptions {
    /// Directory for run directories and the link `latest`
    #[arg(long, default_value = "onbeat-runs", value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// Print all conclusions as sentences
    #[arg(long)]
    pub(crate) verbose: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchOptions {
    /// Total time, including start and stop of loads
    #[arg(long = "for", default_value = "2m", value_parser = time_ns, value_name = "TIME")]
    pub(crate) duration: u64,
    /// Tunings: letters of P, M, C, S, ids after +, or none
    ///
    /// P sets real-time priority, M locks memory, C shields a CPU, S sleeps, then spins. Ids of
    /// `onbeat tune check` follow after +, such as P+irq.affinity, and so does `plan` for the plan
    /// of --plan. A setting of the host is made before each block of its cell and undone after it.
    #[arg(
        long,
        default_value = "none,M,C,MC,P,PM,PC,PMC,PMCS",
        value_delimiter = ',',
        value_name = "LIST"
    )]
    #[arg(add = ArgValueCandidates::new(complete::tunings))]
    pub(crate) tunings: Vec<onbeat::bench::CellTuning>,
    /// File that the tuning `plan` stands for
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    /// Background loads; see `onbeat load --help`
    #[arg(long, default_value = "idle,paper", value_delimiter = ',', value_name = "LIST")]
    #[arg(add = ArgValueCandidates::new(complete::loads))]
    pub(crate) loads: Vec<Load>,
    /// Directory for the loads' disk part [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) load_dir: Option<PathBuf>,
    /// Order of the cells: short blocks in turn, or one after another
    #[arg(long, value_enum, default_value_t = Order::Interleaved, value_name = "ORDER")]
    pub(crate) order: Order,
    /// CPU that C shields [default: the one with the fewest device interrupts]
    #[arg(long, value_name = "N")]
    #[arg(add = ArgValueCandidates::new(complete::cpus))]
    pub(crate) cpu: Option<u32>,
    /// Real-time priority that P sets
    ///
    /// 98 is one below the maximum: 99 belongs to the kernel's migration and watchdog threads.
    #[arg(long, default_value_t = 98, value_parser = clap::value_parser!(u32).range(1..=99), value_name = "N")]
    pub(crate) priority: u32,
    /// Put a simulated EtherCAT bus with 59 devices into the loop
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) with: Option<With>,
    /// Time that S polls the clock before a release
    #[arg(long, default_value = "50us", value_parser = time_ns, value_name = "TIME")]
    pub(crate) spin: u64,
    /// Do not record the causes of spikes
    #[arg(long)]
    pub(crate) no_causes: bool,
    /// Seed for the order of the cells
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Resume the latest unfinished bench in --out
    ///
    /// A bench is unfinished when it was killed, the machine went down, or a signal ended it. It
    /// continues in the same files with the options that it began with; without one in --out a new
    /// bench begins.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Wait until another bench on this machine has ended
    #[arg(long)]
    pub(crate) wait: bool,
    /// Print no progress
    #[arg(long)]
    pub(crate) quiet: bool,
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

/// Addition to the loop of a bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum With {
    Bus,
}

#[derive(Debug, Args)]
pub(crate) struct LoadOptions {
    /// Load, or several joined by +
    #[arg(add = ArgValueCandidates::new(complete::loads))]
    pub(crate) load: Load,
    /// Run time; 0: until Ctrl-C
    #[arg(long = "for", default_value = "0", value_parser = time_ns, value_name = "TIME")]
    pub(crate) duration: u64,
    /// Directory for the disk part [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Serve a bench: events on standard output, end with standard input
    #[arg(long, hide = true)]
    pub(crate) supervised: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InjectOptions {
    /// Cause to inject, from the list below
    #[arg(value_name = "CAUSE")]
    #[arg(add = ArgValueCandidates::new(complete::causes))]
    pub(crate) fault: Fault,
    /// Duration of each injection
    #[arg(long = "for", default_value = "300us", value_parser = time_ns, value_name = "TIME")]
    pub(crate) length: u64,
    /// Interval between injections [default: 100ms, or the shortest the cause allows]
    #[arg(long, value_parser = time_ns, value_name = "TIME")]
    pub(crate) every: Option<u64>,
    /// Number of injections
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) count: usize,
    /// Process with the loop [default: a loop of onbeat's own]
    ///
    /// The loop of onbeat's own has priority 90, unless the cause needs an ordinary one.
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<i32>,
    /// CPU of the loop [default: the one it is bound to]
    ///
    /// A loop of onbeat's own is bound to the last CPU.
    #[arg(long, value_name = "N")]
    #[arg(add = ArgValueCandidates::new(complete::cpus))]
    pub(crate) cpu: Option<u32>,
    /// Period of the loop
    #[arg(long, default_value = "1ms", value_parser = loop_period_ns, value_name = "TIME")]
    pub(crate) period: u64,
    /// Release phase of the loop in CLOCK_MONOTONIC; needs --pid
    ///
    /// `phase_ns` of a run file.
    #[arg(long, default_value = "0us", value_parser = time_ns, value_name = "TIME", requires = "pid")]
    pub(crate) phase: u64,
    /// Do everything but the cause itself
    #[arg(long)]
    pub(crate) placebo: bool,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// Marks the helper process that is stopped by the injection
    #[arg(long, hide = true)]
    pub(crate) carried: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReportOptions {
    /// Run directory, or one run file
    #[arg(default_value = "onbeat-runs/latest")]
    #[arg(add = ArgValueCompleter::new(complete::runs))]
    pub(crate) run: PathBuf,
    /// Judges the run by its own limit or by another one.
    #[command(flatten)]
    pub(crate) limit: LimitOptions,
    /// Time span of the extrapolated worst case [default: ten times the run]
    ///
    /// At most a hundred times the run.
    #[arg(long, value_parser = time_ns, value_name = "TIME")]
    pub(crate) mission: Option<u64>,
    /// Print the paper's full tables
    #[arg(long)]
    pub(crate) full: bool,
    /// Print tables and verdict only, and write no page
    ///
    /// Quick, for a run in progress.
    #[arg(long, conflicts_with_all = ["full", "json", "html", "mission"])]
    pub(crate) brief: bool,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// File for the page [default: report.html beside the run files]
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
pub(crate) struct ExportOptions {
    /// Run directory, or one run file
    #[arg(default_value = "onbeat-runs/latest")]
    #[arg(add = ArgValueCompleter::new(complete::runs))]
    pub(crate) run: PathBuf,
    /// Spike number [default: the worst spike with recorded events]
    ///
    /// As --list and the report show it.
    #[arg(long, value_name = "N")]
    pub(crate) spike: Option<u64>,
    /// Bench cell to take spikes from
    ///
    /// Spikes are numbered cell by cell.
    #[arg(long, value_name = "TUNING/LOAD")]
    pub(crate) cell: Option<String>,
    /// List spikes: number, time, lateness, cause, recorded events
    #[arg(long, group = "what")]
    pub(crate) list: bool,
    /// Write a Perfetto trace for ui.perfetto.dev; -: standard output
    #[arg(long, group = "what", value_name = "FILE")]
    pub(crate) perfetto: Option<PathBuf>,
    /// Write the text of the kernel's trace file; -: standard output
    #[arg(long, group = "what", value_name = "FILE")]
    pub(crate) ftrace: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) formats: ExportFormats,
}

#[derive(Debug, Args)]
pub(crate) struct GenerateOptions {
    /// Directory to write to
    pub(crate) into: PathBuf,
}

/// The loads, for the help.
fn loads() -> String {
    let lines = onbeat::load::CATALOGUE
        .iter()
        .map(|entry| format!("  {}\n      {}", entry.typed, entry.does));
    format!("\x1b[1mLoads\x1b[0m\n{}", lines.collect::<Vec<_>>().join("\n"))
}

/// The causes, for the help.
fn faults() -> String {
    let lines = Fault::ALL
        .map(|fault| format!("  {}\n      {}", fault.word().replace('_', "-"), fault.describe()));
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
        _ => {
            Err("waits are sleep, spin[=50us], adaptive[=300us], relative and relative-spin[=50us]"
                .to_owned())
        }
    }
}

/// The waits of a robot's loop, which must keep its grid.
pub(crate) fn wait_on_the_grid(text: &str) -> Result<Wait, String> {
    match wait(text) {
        Ok(wait) if wait.is_relative() => {
            Err("a relative sleep drifts, and a robot must keep its grid; waits are sleep, \
                 spin[=50us] and adaptive[=300us]"
                .to_owned())
        }
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
            .map_err(|_| format!("`{cycles}` is not a number of cycles; write catch-up=3")),
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
    let number: f64 =
        text.trim_end_matches('%').parse().map_err(|_| format!("`{text}` is not a percentage"))?;
    if number > 0.0 && number <= 100.0 {
        Ok(number)
    } else {
        Err(format!("{number} % is not above 0 and up to 100"))
    }
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
    fn waits_policies_and_phases_are_parsed() {
        assert_eq!(wait("spin"), Ok(Wait::SleepThenSpin { margin_ns: 50_000 }));
        assert!(
            wait_on_the_grid("relative-spin=20us").is_err_and(|why| why.contains("keep its grid"))
        );
        assert_eq!(wait_on_the_grid("spin"), wait("spin"));
        assert_eq!(wait("relative"), Ok(Wait::Relative { margin_ns: 0 }));
        assert_eq!(wait("relative-spin"), Ok(Wait::Relative { margin_ns: 50_000 }));
        assert_eq!(wait("adaptive=100us"), Ok(Wait::Adaptive { cap_ns: 100_000 }));
        assert_eq!(overrun("catch-up=3"), Ok(OnOverrun::CatchUp { at_most: 3 }));
        assert_eq!(phase("250us"), Ok(Phase::At(250_000)));
        assert!(
            wait("nap").is_err()
                && overrun("ignore").is_err()
                && percent("0").is_err()
                && percent("101").is_err()
        );
    }
}
