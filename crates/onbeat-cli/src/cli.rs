//! The command line, as clap reads it. Help text, completions and man pages come from these
//! definitions.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use onbeat::inject::Fault;
use onbeat::load::Load;

use crate::cli_bus::Bus;
use crate::cli_files::{
    COMPARE_EXAMPLES, COMPARE_STATUSES, CompareOptions, ExportFormats, GATE_EXAMPLES, GATE_USAGE,
    GateOptions, IMPORT_EXAMPLES, ImportOptions,
};
use crate::cli_measure::Measure;
use crate::cli_message::Message;
use crate::cli_net::Net;
use crate::cli_robot::{Robot, TrajectoryWord};
use crate::cli_segment::Segment;
use crate::cli_tune::Tune;
use crate::cli_vm::Vm;
use crate::cli_watch::{WATCH_EXAMPLES, WATCH_USAGE, WatchOptions};
use crate::complete;
use crate::options::{LimitOptions, LoopArguments, OutputOptions, Until};
use crate::units::{loop_period_ns, time_ns};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};

const EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat bench
      find the best of nine tunings, idle and loaded, in two minutes
  sudo onbeat bench --with rtt --to 192.168.7.2,192.168.7.3
      a packet to each of two boards in every cycle; round trips by tuning and load
  onbeat bench --limit 200us --at 99 --tunings none,PMC
      a verdict and an exit status, as soon as the limit is decided
  onbeat measure timer --period 1ms --for 30s
      measure how late one loop starts
  sudo onbeat watch my_controller
      is the program that runs on time, and if not, why
  onbeat load paper
      run the load of the bench alone
  onbeat report onbeat-runs/latest
      print the tables of the latest run again";

const STATUSES: &str = "\x1b[1mExit status\x1b[0m
  0  done; with --limit: PASS
  1  FAIL
  2  could not run
  3  INCONCLUSIVE";

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
    /// Measure the control loop of another program, and explain what was late
    ///
    /// Looks for two seconds at every thread of the process and of its children, takes the periodic
    /// one, and measures what onbeat's own loop measures. Nothing of the program is changed.
    #[command(before_help = WATCH_EXAMPLES, override_usage = WATCH_USAGE)]
    Watch(Box<WatchOptions>),
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
    #[command(before_help = COMPARE_EXAMPLES, after_help = COMPARE_STATUSES)]
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
    /// Read messages of running robots and buses
    #[command(subcommand, disable_help_subcommand = true)]
    Message(Message),
    /// Give pictures of a camera to Octave, MATLAB, Python, Java and C
    ///
    /// Starts the program onbeat-camera, which is installed beside this one and has help of its own:
    /// onbeat camera run --help.
    #[command(
        disable_help_flag = true,
        override_usage = "onbeat camera <run|list|watch|bench> [OPTIONS]"
    )]
    Camera(CameraWords),
    /// Measure Ethernet and UDP: predict, build a laboratory, answer as a device
    #[command(subcommand, disable_help_subcommand = true)]
    Net(Net),
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

/// What is passed on to onbeat-camera.
#[derive(Debug, Args)]
pub(crate) struct CameraWords {
    /// Command of onbeat-camera, and its options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub(crate) words: Vec<OsString>,
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
  sudo onbeat bench --with bus my-robot.toml --limit 200us
      your own robot in each cell; the last line runs it under the best tuning
  sudo onbeat bench --with rtt --to 192.168.7.2,192.168.7.3
      a packet to each of two boards in every cycle; round trips by tuning and load
  onbeat bench --for 12m --limit 100us --at 99.99
      exit status 0 PASS, 1 FAIL, 3 INCONCLUSIVE, 2 could not run";

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

#[derive(Debug, Args)]
pub(crate) struct BenchOptions {
    /// Total time, including start and stop of loads
    #[arg(long = "for", default_value = "2m", value_parser = time_ns, value_name = "TIME")]
    pub(crate) duration: u64,
    /// When to end: once the verdict is PASS or FAIL, or after --for [default: decided]
    ///
    /// The verdict is looked at after 10, 14, 20, 28, 40 … s. The looks share the 5 % for a wrong
    /// verdict, so that looking is free. --order sequential measures to its end.
    #[arg(long, value_enum, requires = "limit", value_name = "WHEN")]
    pub(crate) until: Option<Until>,
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
    /// CPU that C shields [default: the one that `tune plan` chooses]
    #[arg(long, value_name = "N")]
    #[arg(add = ArgValueCandidates::new(complete::cpus))]
    pub(crate) cpu: Option<u32>,
    /// Real-time priority that P sets
    ///
    /// 98 is one below the maximum: 99 belongs to the kernel's migration and watchdog threads.
    #[arg(long, default_value_t = 98, value_parser = clap::value_parser!(u32).range(1..=99), value_name = "N")]
    pub(crate) priority: u32,
    /// Addition to the loop: EtherCAT bus, chain, or UDP round trips
    ///
    /// bus: a moving robot, that of FILE, with real or simulated devices; chain: from an input of a
    /// simulated sensor through the motion controller to a drive, in cycles, as `onbeat measure chain
    /// --with bus`; rtt: a packet of 200 bytes to each device of a network in each cycle, as `onbeat
    /// measure rtt` sends.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) with: Option<With>,
    /// Devices of --with rtt: HOST[:PORT],... [default: in this machine]
    #[arg(long, value_name = "LIST", requires = "with")]
    pub(crate) to: Option<String>,
    /// Number of devices of --with rtt, at consecutive ports
    #[arg(long, default_value_t = 1, value_name = "N", requires = "with")]
    pub(crate) devices: u64,
    /// Robot file for --with bus or chain (docs/robot.md) [default: humanoid]
    #[arg(value_name = "FILE", requires = "with")]
    #[arg(add = ArgValueCompleter::new(complete::robot_files))]
    pub(crate) file: Option<String>,
    /// Network interface with the devices [default: simulated devices]
    ///
    /// The robot is brought to rest after each block.
    #[arg(long, value_name = "NAME", requires = "with")]
    #[arg(add = ArgValueCandidates::new(complete::interfaces))]
    pub(crate) interface: Option<String>,
    /// Transport of frames: ring, xdp or busy-poll [default: ring]
    ///
    /// ring: a packet socket and its receive ring; xdp: AF_XDP, past the kernel's network stack,
    /// else ring; busy-poll: AF_XDP that polls the card's queue, else xdp.
    #[arg(long, value_name = "WIRE", requires = "with")]
    #[arg(add = ArgValueCandidates::new(complete::wires))]
    pub(crate) wire: Option<onbeat_ethercat::carrier::WireMethod>,
    /// When replies are read: pipelined or same-cycle
    #[arg(long, value_enum, default_value_t = BusExchange::Pipelined, value_name = "MODE", requires = "with")]
    pub(crate) exchange: BusExchange,
    /// Trajectory: hold, sine, gait or csv:FILE [default: the file's]
    #[arg(long, value_name = "WORD", requires = "with")]
    #[arg(add = ArgValueCandidates::new(complete::trajectories))]
    pub(crate) trajectory: Option<TrajectoryWord>,
    /// Processing time of simulated devices [default: the file's]
    #[arg(long, value_parser = time_ns, value_name = "TIME", requires = "with")]
    pub(crate) device_delay: Option<u64>,
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
    pub(crate) looping: LoopArguments,
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

/// When a cycle reads the replies of the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BusExchange {
    Pipelined,
    SameCycle,
}

impl BusExchange {
    /// Returns the word as typed.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Pipelined => "pipelined",
            Self::SameCycle => "same-cycle",
        }
    }
}

/// Addition to the loop of a bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum With {
    Bus,
    Chain,
    Rtt,
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
    /// Log with pictures of the robot, for the page
    ///
    /// Number and time of each picture of the run, and small pictures of some. `onbeat camera run --log` writes such logs; those of
    /// others have sensor_msgs or foxglove_msgs in CDR.
    #[arg(long, value_name = "LOG", conflicts_with = "brief")]
    pub(crate) camera: Option<PathBuf>,
    /// Small pictures of each camera in the page, spread over the run
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u16).range(0..=500), value_name = "COUNT", requires = "camera")]
    pub(crate) pictures: u16,
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }
}
