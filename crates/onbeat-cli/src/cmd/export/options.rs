//! Options of `onbeat export`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::engine::ArgValueCompleter;

use crate::complete;

/// clap would list every format on one overlong line.
pub(crate) const EXPORT_USAGE: &str =
    "onbeat export <--list|--perfetto FILE|--csv FILE|...> [OPTIONS] [RUN]";

pub(crate) const EXPORT_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat export --list
      the spikes of the latest run: number, time, lateness, cause
  onbeat export onbeat-runs/latest --spike 3 --perfetto spike3.perfetto-trace
      what ran around the third one, for ui.perfetto.dev
  onbeat export onbeat-runs/latest --cell PMC/paper --ftrace -
      around the worst one of a cell, as the kernel's own text
  onbeat export --csv buckets.csv --parquet buckets.parquet --openmetrics metrics.txt
      every bucket of every interval, and histograms for Prometheus";

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
#[command(group = clap::ArgGroup::new("of_spikes").multiple(true).args(["list", "perfetto", "ftrace"]))]
pub(crate) struct ExportOptions {
    /// Run directory, or one run file
    #[arg(default_value = "onbeat-runs/latest")]
    #[arg(add = ArgValueCompleter::new(complete::runs))]
    pub(crate) run: PathBuf,
    /// Spike number [default: the worst spike with recorded events]
    ///
    /// As --list and the report show it.
    #[arg(long, value_name = "N", requires = "of_spikes")]
    pub(crate) spike: Option<u64>,
    /// Bench cell to take spikes from
    ///
    /// Spikes are numbered cell by cell.
    #[arg(long, value_name = "TUNING/LOAD", requires = "of_spikes")]
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

/// Output file of each format; `-` is standard output.
#[derive(Debug, Args)]
#[command(next_help_heading = "Formats (FILE - is standard output)")]
pub(crate) struct ExportFormats {
    /// Write every bucket of every interval as CSV
    #[arg(long, group = "what", value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Write the summary as JSON, as `report --json` prints it
    #[arg(long, group = "what", value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write HdrHistogram's percentile text in ms, into this directory
    ///
    /// A file per cell and series.
    #[arg(long, group = "what", value_name = "DIR")]
    pub(crate) hgrm: Option<PathBuf>,
    /// Write every bucket of every interval as Apache Parquet
    #[arg(long, group = "what", value_name = "FILE")]
    pub(crate) parquet: Option<PathBuf>,
    /// Write histograms in seconds, for Prometheus
    #[arg(long, group = "what", value_name = "FILE")]
    pub(crate) openmetrics: Option<PathBuf>,
}

impl ExportFormats {
    /// Whether any format is requested.
    pub(crate) fn any(&self) -> bool {
        [&self.csv, &self.json, &self.hgrm, &self.parquet, &self.openmetrics]
            .iter()
            .any(|to| to.is_some())
    }
}
