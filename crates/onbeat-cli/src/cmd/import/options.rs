//! Options of `onbeat import`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use clap_complete::engine::ArgValueCandidates;
use onbeat::import::Format;
use onbeat::record::Series;

use crate::complete;
use crate::options::{one_of, series};
use crate::units::period_ns;

pub(crate) const IMPORT_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  cyclictest -m -Sp90 -D 10m -h 1000 --json=ct.json; onbeat import ct.json
  onbeat import hiccups.hlog -o monday && onbeat gate monday --limit 1ms --at 99.9 --series hiccup
  onbeat import latencies.csv --unit us --as wakeup_latency --period 1ms";

#[derive(Debug, Args)]
pub(crate) struct ImportOptions {
    /// Files of other tools, such as cyclictest, rtla, Xenomai, ping, jHiccup, or CSV
    ///
    /// gzip is read as it is, `-` is standard input. `--from` lists formats.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Format [default: detected from the content]
    #[arg(long, value_parser = one_of(&Format::ALL, |one| (one.word(), one.help())), value_name = "FORMAT")]
    pub(crate) from: Option<Format>,
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
    /// Of interval logs, CSV, jittersamples, ping, hwlat, Xenomai and RTAI. Without it the first damaged
    /// line is an error; a last line that was cut off is left out in any case.
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
