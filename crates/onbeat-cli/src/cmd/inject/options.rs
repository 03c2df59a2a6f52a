//! Options of `onbeat inject`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use onbeat::inject::Fault;

use crate::complete;
use crate::units::{loop_period_ns, time_ns};

pub(crate) const INJECT_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat inject equal-priority-hog --cpu 1 --for 300us --every 100ms --count 20
      disturb onbeat's own loop; print injected cause, measured lateness, reported cause
  sudo onbeat inject stop-signal --pid 4711 --for 20ms --every 1s
      the loop of a running program: its thread named onbeat-loop, or the one of the highest real-time priority";

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

/// The causes, for the help.
pub(crate) fn faults() -> String {
    let lines = Fault::ALL
        .map(|fault| format!("  {}\n      {}", fault.word().replace('_', "-"), fault.describe()));
    format!("\x1b[1mCauses\x1b[0m\n{}", lines.join("\n"))
}
