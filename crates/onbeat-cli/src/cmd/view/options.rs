//! Options of `onbeat view`, and `--view` of the commands that measure.

use std::path::PathBuf;

use clap::Args;
use clap_complete::engine::ArgValueCompleter;

use crate::cmd::metrics::options::{MetricsTo, metrics_to};
use crate::complete;

pub(crate) const VIEW_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat view
      follow the run that is being measured, in a browser of this machine
  onbeat bench --view=8000
      start a bench and follow it at port 8000";

/// Options of `onbeat view`.
#[derive(Debug, Args)]
pub(crate) struct ViewOptions {
    /// Run directory, or one run file
    #[arg(default_value = "onbeat-runs/latest")]
    #[arg(add = ArgValueCompleter::new(complete::runs))]
    pub(crate) run: PathBuf,
    /// Port of 127.0.0.1 and ::1 [default: a free one]
    #[arg(long, default_value = "0", hide_default_value = true, value_name = "PORT")]
    pub(crate) port: u16,
    /// Maximum number of browsers that follow the view at the same time
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) browsers: u16,
    /// CPU of the loop, which the view avoids
    #[arg(long, value_name = "N")]
    pub(crate) avoid_cpu: Option<u32>,
}

/// `--view`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct BesideOptions {
    /// Show the run in a browser of this machine while it is measured
    ///
    /// Prints the address. PORT is a port of 127.0.0.1 and ::1; without it, a free one.
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    pub(crate) view: Option<u16>,
    /// Serve the figures to Prometheus while they are measured, or send them to a collector
    ///
    /// At /metrics of this address, as text, OpenMetrics or protobuf with native histograms: histograms with a bucket
    /// at the limit, counters, causes of spikes. A port alone is one of 127.0.0.1. A URL, such as http://127.0.0.1:4318,
    /// is that of an OpenTelemetry collector, which gets them every 10 s.
    #[arg(long, value_name = "ADDRESS|URL", value_parser = metrics_to)]
    pub(crate) metrics: Option<MetricsTo>,
}
