//! Options of `onbeat tune`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};
use onbeat_tune::CpuList;
use onbeat_tune::catalogue::catalogue;

use crate::complete;
use crate::units::{loop_period_ns, time_ns};

#[derive(Debug, Subcommand)]
pub(crate) enum Tune {
    /// Check this machine against the catalogue of tunings, without changes
    ///
    /// Needs no rights: what cannot be read is reported as unknown, with the reason. The exit
    /// status is 0 whatever is found.
    #[command(before_help = CHECK_EXAMPLES)]
    Check(Box<TuneCheckOptions>),
}

const CHECK_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat tune check
      what is not as wanted for a 1 kHz loop, largest expected effect first
  onbeat tune check irq.affinity idle.pm_qos
      what, why, how to set it, and what that may break
  onbeat tune check --run onbeat-runs/latest
      for the loop of a run, by the causes of its spikes
  onbeat tune check --evidence 10s
      with the interrupts, steal and wake-ups of 10 s, which move findings up";

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
    /// Time to watch counters and wake-ups: 1s to 1h
    ///
    /// Reads interrupts, softirqs, steal, page faults, context switches and frequency changes twice,
    /// and runs a wake-up probe on the loop's CPU meanwhile. Findings whose counters moved come
    /// first. Counters that cannot be read are listed.
    #[arg(long, value_parser = evidence_ns, value_name = "TIME", conflicts_with = "from")]
    pub(crate) evidence: Option<u64>,
    /// Capture of another machine, or a directory with its files
    ///
    /// A directory holds proc, sys and etc. An archive is that of a capture.
    #[arg(long, value_name = "CAPTURE")]
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

/// Parses the time to watch a machine, in nanoseconds.
fn evidence_ns(text: &str) -> Result<u64, String> {
    const SECOND_NS: u64 = 1_000_000_000;
    match time_ns(text).map_err(|error| error.to_string())? {
        ns @ SECOND_NS..=3_600_000_000_000 => Ok(ns),
        _ => Err(format!("{text} is not in the range 1s to 1h, such as 10s")),
    }
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
    fn a_machine_is_watched_for_a_second_to_an_hour() {
        assert_eq!(evidence_ns("10s"), Ok(10_000_000_000));
        assert!(evidence_ns("10ms").unwrap_err().contains("1s to 1h"));
        assert!(evidence_ns("2h").is_err());
    }

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
