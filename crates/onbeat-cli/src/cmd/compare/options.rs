//! Options of `onbeat compare`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};
use onbeat::record::Series;

use crate::complete;
use crate::options::series;

pub(crate) const COMPARE_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat compare onbeat-runs/2026-11-20T08-00-00Z onbeat-runs/latest
  onbeat compare before after --html before-after.html
  onbeat compare monday tuesday wednesday --json
  onbeat compare before1 before2 before3 --against after1 after2 after3
      three runs or more of each side: each run is a block
  onbeat compare win.hlog mac.hlog linux.hlog
      interval logs of other programs, or of `java -jar onbeat.jar hiccup` on other systems
  onbeat compare onbeat-runs/latest --on response_time
      the loads of one run of `measure PROBE --loads idle,paper`, or of a bench";

pub(crate) const COMPARE_STATUSES: &str = "\x1b[1mExit status\x1b[0m
  0  compared, whatever differs
  2  could not run
  3  INCONCLUSIVE: no percentile has an interval that decides";

#[derive(Debug, Args)]
pub(crate) struct CompareOptions {
    /// Run directories or run files; the first is the reference
    ///
    /// With a single run, its loads are compared. Files of one directory that measured the same, such as
    /// three histograms of cyclictest in one import, are taken together. An HdrHistogram interval log of
    /// another program, such as jHiccup, is taken as `onbeat import` takes it.
    #[arg(required = true, num_args = 1.., value_name = "RUN")]
    #[arg(add = ArgValueCompleter::new(complete::runs))]
    pub(crate) runs: Vec<PathBuf>,
    /// Runs of the other side; the runs before are then one side, the reference
    ///
    /// The runs of a side are taken together. From three on each is a block, so that what differs
    /// between them is in the interval.
    #[arg(long, num_args = 1.., value_name = "RUN")]
    #[arg(add = ArgValueCompleter::new(complete::runs))]
    pub(crate) against: Vec<PathBuf>,
    /// Series to show [default: the primary series of each run]
    #[arg(long, value_parser = series, conflicts_with = "full", value_name = "SERIES")]
    #[arg(add = ArgValueCandidates::new(complete::series))]
    pub(crate) on: Option<Series>,
    /// Show all series
    #[arg(long, visible_alias = "all-series")]
    pub(crate) full: bool,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page with all runs, for overlaying
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}
