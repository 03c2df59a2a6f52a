//! The command line of what works on files alone: import, compare, gate, export.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use onbeat::import::Format;
use onbeat::record::Series;

use crate::cmd::import::series;
use crate::units::{period_ns, time_ns};

pub(crate) const IMPORT_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  cyclictest -m -Sp90 -D 10m -h 1000 --json=ct.json; onbeat import ct.json
  onbeat import hiccups.hlog -o monday && onbeat gate monday --limit 1ms --at 99.9 --series hiccup
  onbeat import latencies.csv --unit us --as wakeup_latency --period 1ms";

#[derive(Debug, Args)]
pub(crate) struct ImportOptions {
    /// Files of cyclictest, oslat, rtla, stress-ng, jHiccup, HdrHistogram, or CSV
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The format [default: what the content shows]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) from: Option<From>,
    /// Unit of the values, where the file does not tell
    #[arg(long, value_enum, value_name = "UNIT")]
    pub(crate) unit: Option<Unit>,
    /// What the values are, where the file does not tell: a series such as wakeup_latency, hiccup, gap
    #[arg(long = "as", value_parser = series, value_name = "SERIES")]
    pub(crate) series: Option<Series>,
    /// The loop's period, where the file does not tell; gives samples without times their places
    #[arg(long, value_parser = period_ns, value_name = "TIME")]
    pub(crate) period: Option<u64>,
    /// The column of values in a CSV file: its name, or its number from 1
    #[arg(long, value_name = "COLUMN")]
    pub(crate) column: Option<String>,
    /// What else the machine did meanwhile [default: unknown]
    #[arg(long, value_name = "LOAD")]
    pub(crate) load: Option<String>,
    /// Directory to create for the run [default: a new one in --out, as measure makes it]
    #[arg(short = 'o', long = "to", value_name = "RUN")]
    pub(crate) to: Option<PathBuf>,
    /// Directory that gets one directory per run, and `latest`
    #[arg(long, default_value = "onbeat-runs", value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum From {
    /// cyclictest --json, with -h
    CyclictestJson,
    /// Histogram text of cyclictest: -h, -H, --histfile
    Cyclictest,
    /// oslat --json
    OslatJson,
    /// rtla timerlat hist, rtla osnoise hist
    Rtla,
    /// The log of stress-ng --cyclic 1 --cyclic-dist N
    StressNg,
    /// HdrHistogram interval log; jHiccup
    Hlog,
    /// HdrHistogram percentile text
    Hgrm,
    /// One value per line, with or without its time
    Csv,
}

impl std::convert::From<From> for Format {
    fn from(typed: From) -> Self {
        match typed {
            From::CyclictestJson => Self::CyclictestJson,
            From::Cyclictest => Self::Cyclictest,
            From::OslatJson => Self::OslatJson,
            From::Rtla => Self::Rtla,
            From::StressNg => Self::StressNg,
            From::Hlog => Self::Hlog,
            From::Hgrm => Self::Hgrm,
            From::Csv => Self::Csv,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Unit {
    Ns,
    Us,
    Ms,
    S,
}

impl Unit {
    /// Nanoseconds per unit.
    pub(crate) const fn ns(self) -> f64 {
        match self {
            Self::Ns => 1.0,
            Self::Us => 1e3,
            Self::Ms => 1e6,
            Self::S => 1e9,
        }
    }
}

pub(crate) const COMPARE_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat compare onbeat-runs/2026-11-20T08-00-00Z onbeat-runs/latest
  onbeat compare before after --html before-after.html
  onbeat compare monday tuesday wednesday --json
  onbeat compare onbeat-runs/latest --on response_time
      the loads of one run of `measure PROBE --loads idle,paper`, or of a bench, beside each other";

#[derive(Debug, Args)]
pub(crate) struct CompareOptions {
    /// Runs: directories or run files; the first is what the others are held against. Of a single one, its loads
    #[arg(required = true, num_args = 1.., value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// The series to show [default: what each run is about]
    #[arg(long, value_parser = series, conflicts_with = "full", value_name = "SERIES")]
    pub(crate) on: Option<Series>,
    /// Show all series
    #[arg(long, visible_alias = "all-series")]
    pub(crate) full: bool,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page with all runs, to be laid over each other
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

pub(crate) const GATE_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat gate onbeat-runs/latest --limit 100us --at 99.99
      exit status 0 PASS, 1 FAIL, 2 INCONCLUSIVE
  onbeat gate nightly --baseline released --no-worse-than 1.2 --at 99.9 --junit gate.xml
      all of the ratio's 95 % interval must be at most 1.2";

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("asked").required(true).multiple(true).args(["limit", "limit_on", "baseline"]))]
pub(crate) struct GateOptions {
    /// A run's directory, or one run file
    pub(crate) run: PathBuf,
    /// The longest time that is still good
    #[arg(long, value_parser = time_ns, value_name = "TIME")]
    pub(crate) limit: Option<u64>,
    /// How many samples must keep the limit, and the percentile that is held against the baseline, in percent
    #[arg(long, default_value = "99.99", value_parser = crate::cli::percent, value_name = "PERCENT")]
    pub(crate) at: f64,
    /// The series: release_latency, observed_period, response_time, hiccup, gap, ...
    #[arg(long, default_value = "release_latency", value_parser = series, value_name = "SERIES")]
    pub(crate) series: Series,
    /// events=N: at most N alarms of bus and robot
    #[arg(long, value_parser = crate::cli::most_alarms, value_name = "events=N")]
    pub(crate) limit_on: Option<u64>,
    /// A run that this one may not be worse than
    #[arg(long, value_name = "RUN")]
    pub(crate) baseline: Option<PathBuf>,
    /// The largest ratio to the baseline that is still good
    #[arg(long, default_value = "1.2", value_parser = times, requires = "baseline", value_name = "TIMES")]
    pub(crate) no_worse_than: f64,
    /// Only this tuning of a bench, or this stream of an imported run [default: a bench's best tuning; all streams]
    #[arg(long, value_name = "TUNING")]
    pub(crate) tuning: Option<String>,
    /// Only under this load [default: all]
    #[arg(long, value_name = "LOAD")]
    pub(crate) load: Option<String>,
    /// Write the result as JUnit XML, an error where there is none; - is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

fn times(text: &str) -> Result<f64, String> {
    let number: f64 =
        text.trim_start_matches(['x', '×']).parse().map_err(|_| format!("`{text}` is no number such as 1.2"))?;
    if number > 0.0 && number.is_finite() { Ok(number) } else { Err(format!("{number} is not above 0")) }
}

/// Where each format goes; `-` is standard output.
#[derive(Debug, Args)]
#[command(next_help_heading = "Formats (FILE - is standard output)")]
pub(crate) struct ExportFormats {
    /// Every bucket of every interval, a line each
    #[arg(long, group = "what", value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// The summary, as report --json prints it
    #[arg(long, group = "what", value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// HdrHistogram's percentile text in ms: a file per cell and series, into this directory
    #[arg(long, group = "what", value_name = "DIR")]
    pub(crate) hgrm: Option<PathBuf>,
    /// Every bucket of every interval, as Apache Parquet
    #[arg(long, group = "what", value_name = "FILE")]
    pub(crate) parquet: Option<PathBuf>,
    /// Histograms in seconds for Prometheus and its like
    #[arg(long, group = "what", value_name = "FILE")]
    pub(crate) openmetrics: Option<PathBuf>,
}

impl ExportFormats {
    /// Whether any was asked for.
    pub(crate) fn any(&self) -> bool {
        [&self.csv, &self.json, &self.hgrm, &self.parquet, &self.openmetrics].iter().any(|to| to.is_some())
    }
}
