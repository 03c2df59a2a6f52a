//! The command line, as clap reads it. Help text, completions and man pages come from these
//! definitions.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::cmd::bench::options::{BENCH_EXAMPLES, BenchOptions};
use crate::cmd::compare::options::{COMPARE_EXAMPLES, COMPARE_STATUSES, CompareOptions};
use crate::cmd::export::options::{EXPORT_EXAMPLES, EXPORT_USAGE, ExportOptions};
use crate::cmd::gate::options::{GATE_EXAMPLES, GATE_USAGE, GateOptions};
use crate::cmd::import::options::{IMPORT_EXAMPLES, ImportOptions};
use crate::cmd::inject::options::{INJECT_EXAMPLES, InjectOptions, faults};
use crate::cmd::load::options::{LOAD_EXAMPLES, LoadOptions, loads};
use crate::cmd::measure::options::Measure;
use crate::cmd::message::options::Message;
use crate::cmd::metrics::options::{METRICS_EXAMPLES, MetricsOptions};
use crate::cmd::net::options::Net;
use crate::cmd::report::options::{REPORT_EXAMPLES, ReportOptions};
use crate::cmd::robot::options::Robot;
use crate::cmd::segment::options::Segment;
use crate::cmd::trend::options::{TREND_EXAMPLES, TrendOptions};
use crate::cmd::tune::options::Tune;
use crate::cmd::view::options::{VIEW_EXAMPLES, ViewOptions};
use crate::cmd::vm::options::Vm;
use crate::cmd::watch::options::{WATCH_EXAMPLES, WATCH_USAGE, WatchOptions};
use onbeat_commands::bus::options::Bus;

const EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat bench
      find the best of nine tunings, idle and loaded, in two minutes
  sudo onbeat watch my_controller
      is this running program on time, and if not, why
  onbeat bench --limit 200us --at 99 --tunings none,PMC
      a verdict and an exit status, as soon as the limit is decided
  onbeat measure timer --period 1ms --for 30s
      measure how late one loop starts
  sudo onbeat bench --with rtt --to 192.168.7.2,192.168.7.3
      a packet to each of two boards in every cycle; round trips by tuning and load
  onbeat load paper
      run the load of the bench alone
  onbeat report onbeat-runs/latest
      print the tables of the latest run again";

pub(crate) const STATUSES: &str = "\x1b[1mExit status\x1b[0m
  0  done; with --limit: PASS
  1  FAIL
  2  could not run
  3  INCONCLUSIVE";

const COMPLETION_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat completion bash > ~/.local/share/bash-completion/completions/onbeat
      from the next shell on; in this one: source <(onbeat completion bash)
  onbeat completion zsh > ~/.zfunc/_onbeat
      a directory of fpath, before compinit
  onbeat completion fish > ~/.config/fish/completions/onbeat.fish";

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

/// The shells with a completion script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
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
    /// Measure one kind of latency on this machine
    #[command(subcommand, disable_help_subcommand = true)]
    Measure(Measure),
    /// Measure the control loop of another program, and explain what was late
    ///
    /// Looks for two seconds at every thread of the process and of its children, takes the periodic
    /// one, and measures what onbeat's own loop measures. Nothing of the program is changed.
    #[command(before_help = WATCH_EXAMPLES, override_usage = WATCH_USAGE)]
    Watch(Box<WatchOptions>),
    /// Run a load alone, until Ctrl-C
    #[command(before_help = LOAD_EXAMPLES, after_help = loads())]
    Load(LoadOptions),
    /// Inject one cause of lateness at known times, with a log
    #[command(before_help = INJECT_EXAMPLES, after_help = faults())]
    Inject(InjectOptions),
    /// Print the tables and write the page from a run's files
    #[command(before_help = REPORT_EXAMPLES)]
    Report(ReportOptions),
    /// Follow a run in a browser of this machine while it is measured
    #[command(before_help = VIEW_EXAMPLES)]
    View(ViewOptions),
    /// Serve the figures of a run to Prometheus while it is measured
    #[command(before_help = METRICS_EXAMPLES)]
    Metrics(MetricsOptions),
    /// Show figures over many runs, with the changes that they support
    #[command(before_help = TREND_EXAMPLES)]
    Trend(TrendOptions),
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
    /// Pass pictures of a camera to Octave, MATLAB, Python, Java and C
    ///
    /// Starts the program onbeat-camera, which is installed with onbeat and has its own help:
    /// onbeat camera run --help.
    #[command(
        disable_help_flag = true,
        override_usage = "onbeat camera <run|list|watch|bench> [OPTIONS]"
    )]
    Camera {
        /// Command of onbeat-camera, and its options
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
        words: Vec<OsString>,
    },
    /// Keep runs of many machines as one data set, and query it
    ///
    /// Starts the program onbeat-fleet, which is installed with onbeat and has its own help:
    /// onbeat fleet add --help.
    #[command(
        disable_help_flag = true,
        override_usage = "onbeat fleet <add|pack|worst|gate|compare|explain|...> [OPTIONS]"
    )]
    Fleet {
        /// Command of onbeat-fleet, and its options
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
        words: Vec<OsString>,
    },
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
    /// Do what a host asks of its guest
    #[command(hide = true, disable_help_flag = true)]
    Agent {
        /// Words of the agent
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
        words: Vec<String>,
    },
    /// Draw the figures of a run in progress, in a process of its own
    #[command(hide = true)]
    Screen {
        /// Run file or directory
        run: PathBuf,
    },
    /// Print the completion script of a shell
    ///
    /// The script calls onbeat, and so follows its updates.
    #[command(before_help = COMPLETION_EXAMPLES)]
    Completion {
        /// Shell
        shell: Shell,
    },
    /// Write man pages and completions
    #[command(hide = true)]
    Generate {
        /// Directory to write to
        into: PathBuf,
    },
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }
}
