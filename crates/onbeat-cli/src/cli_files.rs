//! Options of the commands that work on files alone: import, compare, gate, export.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use onbeat::import::Format;
use onbeat::record::Series;

use crate::complete;
use crate::options::{most_alarms, percent, series};
use crate::units::{period_ns, time_ns};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};

pub(crate) const IMPORT_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  cyclictest -m -Sp90 -D 10m -h 1000 --json=ct.json; onbeat import ct.json
  onbeat import hiccups.hlog -o monday && onbeat gate monday --limit 1ms --at 99.9 --series hiccup
  onbeat import latencies.csv --unit us --as wakeup_latency --period 1ms";

#[derive(Debug, Args)]
pub(crate) struct ImportOptions {
    /// Files of other tools, such as cyclictest, rtla, Xenomai, ping, jHiccup, or CSV
    ///
    /// gzip is read as it is. `--from` lists the formats.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Format [default: detected from the content]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) from: Option<ImportFormat>,
    /// Unit of the values, where the file does not say
    #[arg(long, value_enum, value_name = "UNIT")]
    pub(crate) unit: Option<Unit>,
    /// Series of the values, where the file does not say
    ///
    /// Such as wakeup_latency, hiccup or gap.
    #[arg(long = "as", value_parser = series, value_name = "SERIES")]
    #[arg(add = ArgValueCandidates::new(complete::series))]
    pub(crate) series: Option<Series>,
    /// Loop period, where the file does not say
    ///
    /// Places samples without times on the time axis.
    #[arg(long, value_parser = period_ns, value_name = "TIME")]
    pub(crate) period: Option<u64>,
    /// Value column of a CSV file: name, or number from 1
    #[arg(long, value_name = "COLUMN")]
    pub(crate) column: Option<String>,
    /// Import all but damaged lines, and count those
    ///
    /// Of interval logs, CSV, ping, hwlat, Xenomai and RTAI. Without it the first damaged line is an
    /// error; a last line that was cut off is left out in any case.
    #[arg(long)]
    pub(crate) skip_damaged: bool,
    /// Load during the measurement [default: unknown]
    #[arg(long, value_name = "LOAD")]
    pub(crate) load: Option<String>,
    /// Directory to create for the run [default: a new one in --out]
    #[arg(short = 'o', long = "to", value_name = "RUN")]
    pub(crate) to: Option<PathBuf>,
    /// Directory for run directories and the link `latest`
    #[arg(long, default_value = "onbeat-runs", value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportFormat {
    /// cyclictest --json, with -h or without
    CyclictestJson,
    /// Text of cyclictest: status lines, -v, -h, -H, --histfile
    Cyclictest,
    /// --json of signaltest, ptsematest, pmqtest, svsematest, sigwaittest, cyclicdeadline
    RtTestsJson,
    /// Text of these programs
    RtTests,
    /// oslat --json
    OslatJson,
    /// Text of oslat
    Oslat,
    /// JSON and status lines of jitterdebugger
    Jitterdebugger,
    /// Text of Xenomai's latency, and its -g file
    Xenomai,
    /// Text of RTAI's latency test
    Rtai,
    /// hwlatdetect, and the trace of the tracer hwlat
    Hwlat,
    /// rtla timerlat hist, rtla timerlat top, rtla osnoise hist
    Rtla,
    /// A trace as text, with sched_wakeup and sched_switch
    Ftrace,
    /// ping, with -D or without
    Ping,
    /// The log of stress-ng --cyclic 1 --cyclic-dist N
    StressNg,
    /// HdrHistogram interval log; jHiccup
    Hlog,
    /// HdrHistogram percentile text
    Hgrm,
    /// One value per line, with or without its time
    Csv,
}

impl From<ImportFormat> for Format {
    fn from(typed: ImportFormat) -> Self {
        match typed {
            ImportFormat::CyclictestJson => Self::CyclictestJson,
            ImportFormat::Cyclictest => Self::Cyclictest,
            ImportFormat::RtTestsJson => Self::RtTestsJson,
            ImportFormat::RtTests => Self::RtTests,
            ImportFormat::OslatJson => Self::OslatJson,
            ImportFormat::Oslat => Self::Oslat,
            ImportFormat::Jitterdebugger => Self::Jitterdebugger,
            ImportFormat::Xenomai => Self::Xenomai,
            ImportFormat::Rtai => Self::Rtai,
            ImportFormat::Hwlat => Self::Hwlat,
            ImportFormat::Rtla => Self::Rtla,
            ImportFormat::Ftrace => Self::Ftrace,
            ImportFormat::Ping => Self::Ping,
            ImportFormat::StressNg => Self::StressNg,
            ImportFormat::Hlog => Self::Hlog,
            ImportFormat::Hgrm => Self::Hgrm,
            ImportFormat::Csv => Self::Csv,
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
  onbeat compare before1 before2 before3 --against after1 after2 after3
      three runs or more of each side: each run is a block
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
    /// three histograms of cyclictest in one import, are taken together.
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
    #[arg(long, value_parser = time_ns, value_name = "TIME")]
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

fn times(text: &str) -> Result<f64, String> {
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
