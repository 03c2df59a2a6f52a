//! Options of `onbeat watch`.

use std::ffi::OsString;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use crate::cmd::view::options::BesideOptions;
use crate::options::{LimitOptions, OutputOptions, ScreenOptions, Until};
use crate::units::time_ns;

pub(crate) const WATCH_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat watch ros2_control_node
      find its control loop, measure it for 10 s, explain what was late
  sudo onbeat watch 4711 --limit 200us --at 99.9
      a verdict and an exit status for a program that runs
  sudo onbeat watch -- cyclictest -t1 -p80 -i1000 -q
      start a program and watch it
  sudo onbeat watch 4711 --list
      its threads: policy, CPUs, how each waits, how regularly";

pub(crate) const WATCH_USAGE: &str = "onbeat watch [OPTIONS] <PID|NAME|-- COMMAND...>";

/// What to watch, and for how long.
#[derive(Debug, Args)]
pub(crate) struct WatchOptions {
    /// Process ID, or name of a process or its program
    #[arg(value_name = "PID|NAME", required_unless_present = "command", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) target: Option<String>,
    /// Command to start and watch, after --
    ///
    /// It is ended with SIGTERM when the measurement is over.
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "target")]
    pub(crate) command: Vec<OsString>,
    /// Thread to measure: name or number [default: the most likely loop]
    ///
    /// The default is the periodic thread of the highest real-time priority, then the most regular,
    /// then the most frequent one. Given several times, threads are measured together: a run of
    /// each, causes for the first, and the worst of their verdicts as exit status.
    #[arg(long, value_name = "NAME|TID", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) thread: Vec<String>,
    /// Function each of whose calls is a cycle
    ///
    /// For loops that spin, and to distinguish skipped releases from those caught up. A mangled
    /// name, or one of C++ or Rust with or without its arguments. Each call is probed (uprobe),
    /// which makes it longer: the cost is printed.
    #[arg(long, value_name = "SYMBOL", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) cycle: Option<String>,
    /// Measuring time; 0: until Ctrl-C, or until the thread ends
    #[arg(long = "for", default_value = "10s", value_parser = time_ns, value_name = "TIME")]
    pub(crate) duration: u64,
    /// When to end: once the verdict is PASS or FAIL, or after --for [default: end]
    ///
    /// The verdict is computed after 10, 14, 20, 28, 40 ... s. Its 5 % error probability is shared
    /// by these tests, so that ending early does not weaken it.
    #[arg(long, value_enum, requires = "limit", value_name = "WHEN")]
    pub(crate) until: Option<Until>,
    /// Print the threads and end
    #[arg(long)]
    pub(crate) list: bool,
    /// Do not record the causes of spikes
    ///
    /// Recording them makes each wake-up of the loop up to 1 us later.
    #[arg(long)]
    pub(crate) no_causes: bool,
    /// Spike threshold [default: 10 times the median wake-up latency, at least 50us]
    #[arg(long, value_parser = time_ns, value_name = "TIME")]
    pub(crate) spikes_over: Option<u64>,
    #[command(flatten)]
    pub(crate) limit: LimitOptions,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
    #[command(flatten)]
    pub(crate) beside_view: BesideOptions,
    #[command(flatten)]
    pub(crate) screen: ScreenOptions,
}
