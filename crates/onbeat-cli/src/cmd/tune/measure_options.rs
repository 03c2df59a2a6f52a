//! Options of `onbeat tune measure`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use clap_complete::engine::ArgValueCandidates;
use onbeat::bench::{CellTuning, Tuning};
use onbeat::load::Load;
use onbeat_report::Share;

use crate::complete;
use crate::options::{LoopArguments, percent};
use crate::units::time_ns;

/// Examples above the help.
pub(crate) const MEASURE_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat tune measure proc.policy
      what a real-time priority is worth here, with all CPUs busy
  sudo onbeat tune measure irq.affinity --load paper --for 2m --at p99.9
      for a loop with priority and locked memory, by p99.9
  sudo onbeat tune measure plan.toml
      a whole plan of `onbeat tune plan --out plan.toml`";

pub(crate) const MEASURE_STATUSES: &str = "\x1b[1mExit status\x1b[0m
  0  lower with it
  1  higher with it
  2  could not run
  3  INCONCLUSIVE: no visible effect";

#[derive(Debug, Args)]
pub(crate) struct TuneMeasureOptions {
    /// Tuning of the catalogue, or the file of a plan
    #[arg(value_parser = measured_setting, value_name = "ID|PLAN")]
    #[arg(add = ArgValueCandidates::new(complete::tuning_ids))]
    pub(crate) what: String,
    /// Background load; see `onbeat load --help`
    #[arg(long, default_value = "cpu", value_name = "LOAD")]
    #[arg(add = ArgValueCandidates::new(complete::loads))]
    pub(crate) load: Load,
    /// Directory for the load's disk part [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) load_dir: Option<PathBuf>,
    /// Total time, including start and stop of the load
    #[arg(long = "for", default_value = "40s", value_parser = time_ns, value_name = "TIME")]
    pub(crate) duration: u64,
    /// Percentile to compare, such as p99.9
    ///
    /// A lower percentile is compared if fewer than ten samples are beyond this one.
    #[arg(long, default_value = "p99", value_parser = percentile, value_name = "PERCENTILE")]
    pub(crate) at: Share,
    /// Series to compare [default: release; response with --touch]
    #[arg(long, value_enum, value_name = "SERIES")]
    pub(crate) on: Option<MeasuredSeries>,
    /// Letters of the loop on both sides [default: none, PM for settings of the host]
    #[arg(long, value_name = "LETTERS")]
    #[arg(add = ArgValueCandidates::new(complete::tunings))]
    pub(crate) tuning: Option<Tuning>,
    /// Fresh pages that the loop touches per cycle [default: 16 for proc.mlock, else 0]
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=256), value_name = "PAGES")]
    pub(crate) touch: Option<u32>,
    /// CPU of the loop [default: the plan's, or the one that `tune plan` chooses]
    #[arg(long, value_name = "N")]
    #[arg(add = ArgValueCandidates::new(complete::cpus))]
    pub(crate) cpu: Option<u32>,
    /// Real-time priority that P sets
    #[arg(long, default_value_t = 98, value_parser = clap::value_parser!(u32).range(1..=99), value_name = "N")]
    pub(crate) priority: u32,
    /// Time that S polls the clock before a release
    #[arg(long, default_value = "50us", value_parser = time_ns, value_name = "TIME")]
    pub(crate) spin: u64,
    /// Seed for the order of the blocks
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Resume the latest unfinished measurement of the same tuning in --out
    ///
    /// One is unfinished when it was killed, the machine went down, or a signal ended it. It continues
    /// in the same files where all options are those that it began with; without one in --out a new
    /// measurement begins.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Print no progress
    #[arg(long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) looping: LoopArguments,
    /// Directory for run directories and the link `latest`
    #[arg(long, default_value = "onbeat-runs", value_name = "DIR", help_heading = "Output")]
    pub(crate) out: PathBuf,
    /// Print one JSON object and nothing else
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

/// The series that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MeasuredSeries {
    /// Release latency, skipped releases included
    Release,
    /// Response time: to the end of the cycle's work
    Response,
}

/// Parses the name of a setting: an id, an alias, or the path of a plan.
fn measured_setting(text: &str) -> Result<String, String> {
    CellTuning::default().with(text).map(|_| text.to_owned()).map_err(|_| {
        format!(
            "`{text}` is not a tuning of the catalogue (`onbeat tune check --all` lists them), nor the path of a plan \
             (with a slash or ending in .toml)"
        )
    })
}

/// Parses `p99.9` or `99.9`.
fn percentile(text: &str) -> Result<Share, String> {
    percent(text.strip_prefix('p').unwrap_or(text)).map(Share::from_percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_an_id_an_alias_or_a_plan_and_a_percentile_has_a_p() {
        for known in ["irq.affinity", "guest.idle", "plan.toml", "./plans/x", "placebo"] {
            assert_eq!(measured_setting(known).as_deref(), Ok(known));
        }
        assert!(measured_setting("irq.afinity").unwrap_err().contains("is not a tuning"));
        assert_eq!((percentile("p99.9"), percentile("99")), (Ok(Share::P99_9), Ok(Share::P99)));
        assert!(percentile("p0").is_err() && percentile("fast").is_err());
    }
}
