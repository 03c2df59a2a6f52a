//! Options of `onbeat tune`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};
use onbeat_tune::CpuList;
use onbeat_tune::catalogue::catalogue;

use crate::cli_tune_measure::{MEASURE_EXAMPLES, TuneMeasureOptions};
use crate::complete;
use crate::units::loop_period_ns;

#[derive(Debug, Subcommand)]
pub(crate) enum Tune {
    /// Check this machine against the catalogue of tunings, without changes
    ///
    /// Needs no rights: what cannot be read is reported as unknown, with the reason. The exit
    /// status is 0 whatever is found.
    #[command(before_help = CHECK_EXAMPLES)]
    Check(Box<TuneCheckOptions>),
    /// Measure what a tuning is worth on this machine
    ///
    /// Blocks with and without it take turns in one run. The host is changed before each block with
    /// it and put back after; after a kill, the next start of onbeat undoes the changes.
    #[command(before_help = MEASURE_EXAMPLES)]
    Measure(Box<TuneMeasureOptions>),
}

const CHECK_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat tune check
      what is not as wanted for a 1 kHz loop, largest expected effect first
  onbeat tune check irq.affinity idle.pm_qos
      what, why, how to set it, and what that may break
  onbeat tune check --run onbeat-runs/latest
      for the loop of a run, by the causes of its spikes";

#[derive(Debug, Args)]
pub(crate) struct TuneCheckOptions {
    /// Tunings to explain in full [default: a table of all]
    #[arg(value_parser = tuning_id, value_name = "ID")]
    #[arg(add = ArgValueCandidates::new(complete::tuning_ids))]
    pub(crate) ids: Vec<String>,
    /// List good, unknown and inapplicable tunings too
    #[arg(long, conflicts_with = "ids")]
    pub(crate) all: bool,
    /// Run whose loop is checked for; sorts by its causes
    ///
    /// CPU, period and priority are those of the run's loop.
    #[arg(long, value_name = "RUN")]
    #[arg(add = ArgValueCompleter::new(complete::runs))]
    pub(crate) run: Option<PathBuf>,
    /// Directory with proc, sys and etc of another machine
    #[arg(long, value_name = "DIR")]
    pub(crate) from: Option<PathBuf>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) checked: CheckedLoopOptions,
}

/// The loop that the machine is checked for.
#[derive(Debug, Args)]
#[command(next_help_heading = "The loop")]
pub(crate) struct CheckedLoopOptions {
    /// CPUs of the loop [default: the one with the fewest device interrupts]
    #[arg(long, value_parser = CpuList::parse_list, value_name = "LIST")]
    #[arg(add = ArgValueCandidates::new(complete::cpus))]
    pub(crate) cpus: Option<CpuList>,
    /// Loop period [default: 1ms]
    #[arg(long, value_parser = loop_period_ns, value_name = "TIME")]
    pub(crate) period: Option<u64>,
    /// SCHED_FIFO priority of the loop [default: 80]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=99), value_name = "N")]
    pub(crate) priority: Option<u32>,
    /// Thread id of a running loop, for its own settings
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..), value_name = "TID")]
    pub(crate) task: Option<i32>,
    /// Network interface of the loop's fieldbus; can be repeated
    #[arg(long = "interface", value_name = "NAME")]
    #[arg(add = ArgValueCandidates::new(complete::interfaces))]
    pub(crate) interfaces: Vec<String>,
    /// The loop polls without sleeping
    #[arg(long)]
    pub(crate) polls: bool,
    /// This machine runs real-time virtual machines
    #[arg(long)]
    pub(crate) runs_guests: bool,
}

/// Parses the id of a tuning, or another name of one.
fn tuning_id(text: &str) -> Result<String, String> {
    let all = catalogue();
    if !all.resolve(text).is_empty() {
        return Ok(text.to_owned());
    }

    let section = text.split('.').next().unwrap_or_default();
    let of_section = |id: &&str| id.split('.').next() == Some(section);
    let ids = || all.records.iter().map(|record| record.id.as_str());
    let near: Vec<&str> = ids().filter(of_section).collect();
    if near.is_empty() {
        let sections: BTreeSet<&str> = ids().filter_map(|id| id.split('.').next()).collect();
        let sections: Vec<&str> = sections.into_iter().collect();
        return Err(format!(
            "`{text}` is not a tuning; ids begin with one of {}",
            sections.join(", ")
        ));
    }

    Err(format!("`{text}` is not a tuning; `{section}` has {}", near.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_id_is_refused_with_those_of_its_section_or_with_the_sections() {
        assert_eq!(tuning_id("irq.affinity").as_deref(), Ok("irq.affinity"));
        assert_eq!(tuning_id("guest.idle").as_deref(), Ok("guest.idle"), "an alias");
        assert!(
            tuning_id("irq.afinity").unwrap_err().contains("`irq` has irq.noise, irq.affinity")
        );
        assert!(tuning_id("quick").unwrap_err().contains("begin with one of clock, dbg, env"));
    }
}
