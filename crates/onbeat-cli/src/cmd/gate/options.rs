//! Options of `onbeat gate`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};
use onbeat::record::Series;

use crate::complete;
use crate::options::{most_alarms, percent, series};
use crate::units::limit_ns;

pub(crate) const GATE_USAGE: &str =
    "onbeat gate <--limit TIME|--baseline RUN|...> [OPTIONS] <RUN>...";

pub(crate) const GATE_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat gate onbeat-runs/latest --limit 100us --at 99.99
      exit status 0 PASS, 1 FAIL, 3 INCONCLUSIVE, 2 could not run
  onbeat gate nightly --baseline released --no-worse-than 1.2 --at 99.9 --junit gate.xml
      the whole 95 % interval of the ratio must be at most 1.2
  onbeat gate onbeat-runs/latest --limit 200us --at 99 --watch
      follows the run in progress until it is decided";

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("asked").required(true).multiple(true).args(["limit", "limit_on", "baseline"]))]
pub(crate) struct GateOptions {
    /// Run directory, or one run file
    ///
    /// Several are one side against --baseline; a limit judges one run.
    #[arg(required = true, num_args = 1.., value_name = "RUN")]
    #[arg(add = ArgValueCompleter::new(complete::runs))]
    pub(crate) runs: Vec<PathBuf>,
    /// Latency limit
    #[arg(long, value_parser = limit_ns, value_name = "TIME")]
    pub(crate) limit: Option<u64>,
    /// Percentage that must meet the limit; percentile compared with the baseline
    #[arg(long, default_value = "99.99", value_parser = percent, value_name = "PERCENT")]
    pub(crate) at: f64,
    /// Series to judge, such as response_time or hiccup
    #[arg(long, default_value = "release_latency", value_parser = series, value_name = "SERIES")]
    #[arg(add = ArgValueCandidates::new(complete::series))]
    pub(crate) series: Series,
    /// Number of alarms of bus and robot allowed
    #[arg(long, value_parser = most_alarms, value_name = "events=N")]
    pub(crate) limit_on: Option<u64>,
    /// Reference run; this run must not be worse
    ///
    /// Given several times, its runs are one side.
    #[arg(long, value_name = "RUN")]
    #[arg(add = ArgValueCompleter::new(complete::runs))]
    pub(crate) baseline: Vec<PathBuf>,
    /// Largest ratio to the baseline that passes
    #[arg(long, default_value = "1.2", value_parser = times, requires = "baseline", value_name = "TIMES")]
    pub(crate) no_worse_than: f64,
    /// Tuning or imported stream to judge [default: best tuning; all streams]
    #[arg(long, value_name = "TUNING")]
    #[arg(add = ArgValueCandidates::new(complete::tunings))]
    pub(crate) tuning: Option<String>,
    /// Load to judge [default: all]
    #[arg(long, value_name = "LOAD")]
    #[arg(add = ArgValueCandidates::new(complete::loads))]
    pub(crate) load: Option<String>,
    /// Follow a run that is being measured, and end as soon as the limit is decided
    ///
    /// Looks after 10, 14, 20, 28, 40 ... seconds of the run, which share the level. When the run ends
    /// undecided, so does the gate, with exit status 3.
    #[arg(long, conflicts_with_all = ["baseline", "limit_on"], requires = "limit")]
    pub(crate) watch: bool,
    /// Write the result as JUnit XML; -: standard output
    ///
    /// INCONCLUSIVE is written as an error.
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn times(text: &str) -> Result<f64, String> {
    let number: f64 = text
        .trim_start_matches(['x', '×'])
        .parse()
        .map_err(|_| format!("`{text}` is not a number such as 1.2"))?;
    if number > 0.0 && number.is_finite() {
        Ok(number)
    } else {
        Err(format!("{number} is not above 0"))
    }
}
