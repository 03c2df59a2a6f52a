//! Options of `onbeat trend`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};
use onbeat::record::{Cell, Series};

use crate::complete;
use crate::options::{percent, series};

pub(crate) const TREND_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat trend onbeat-runs
      the runs of a directory, in the order of their starts
  onbeat trend ci/* --at 99.9 --cell PMCS/paper
      a run of each commit, as a pipeline kept them
  onbeat trend onbeat-runs --json
      one JSON object, for a dashboard";

#[derive(Debug, Args)]
pub(crate) struct TrendOptions {
    /// Run directories, or directories of run directories
    #[arg(required = true, num_args = 1.., value_name = "DIR")]
    #[arg(add = ArgValueCompleter::new(complete::runs))]
    pub(crate) dirs: Vec<PathBuf>,
    /// Percentile whose changes are searched for
    #[arg(long, default_value = "99", value_parser = percent, value_name = "PERCENT")]
    pub(crate) at: f64,
    /// Series to follow [default: the primary series of the last run]
    #[arg(long, value_parser = series, value_name = "SERIES")]
    #[arg(add = ArgValueCandidates::new(complete::series))]
    pub(crate) series: Option<Series>,
    /// Cell of benches to follow [default: the best one of the last bench]
    #[arg(long, value_parser = cell, value_name = "TUNING/LOAD")]
    pub(crate) cell: Option<Cell>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

fn cell(text: &str) -> Result<Cell, String> {
    let (tuning, load) = text.split_once('/').ok_or_else(|| {
        format!("`{text}` is not a cell; a cell is TUNING/LOAD, such as PMCS/paper")
    })?;
    Ok(Cell::new(tuning, load))
}
