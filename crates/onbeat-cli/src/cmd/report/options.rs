//! Options of `onbeat report`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};
use clap_complete::engine::ArgValueCompleter;

use crate::complete;
use crate::options::LimitOptions;
use crate::units::time_ns;

pub(crate) const REPORT_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat report
      tables and page of the latest run again
  onbeat report onbeat-runs/latest --limit 200us --at 99.9
      judge a recorded run by another limit
  onbeat report onbeat-runs/latest --markdown summary.md
      verdict, figures and top causes, as the summary of a job";

#[derive(Debug, Args)]
pub(crate) struct ReportOptions {
    /// Run directory, or one run file
    #[arg(default_value = "onbeat-runs/latest")]
    #[arg(add = ArgValueCompleter::new(complete::runs))]
    pub(crate) run: PathBuf,
    /// Judges the run by its own limit or by another one.
    #[command(flatten)]
    pub(crate) limit: LimitOptions,
    /// Time span of the extrapolated worst case [default: ten times the run]
    ///
    /// At most a hundred times the run.
    #[arg(long, value_parser = time_ns, value_name = "TIME")]
    pub(crate) mission: Option<u64>,
    /// Print the paper's full tables
    #[arg(long)]
    pub(crate) full: bool,
    /// Print tables and verdict only, and write no page
    ///
    /// Quick, for a run in progress.
    #[arg(long, conflicts_with_all = ["full", "json", "html", "mission"])]
    pub(crate) brief: bool,
    /// Print one JSON object and nothing else
    ///
    /// docs/schema has its JSON Schema.
    #[arg(long)]
    pub(crate) json: bool,
    /// File for the page [default: report.html in the run's directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write the summary of a job: verdict, figures, top causes
    ///
    /// Markdown as GitHub and GitLab show it; `-` is standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "brief")]
    pub(crate) markdown: Option<PathBuf>,
    /// Write the first chart of the page as a picture
    #[arg(long, value_parser = PathBufValueParser::new().try_map(png_name), value_name = "FILE", conflicts_with = "brief")]
    pub(crate) png: Option<PathBuf>,
    /// Log with pictures of the robot, for the page
    ///
    /// Number and time of each picture of the run, and small pictures of some. `onbeat camera run
    /// --log` writes such logs; logs of other programs need sensor_msgs or foxglove_msgs in CDR.
    #[arg(long, value_name = "LOG", conflicts_with = "brief")]
    pub(crate) camera: Option<PathBuf>,
    /// Small pictures of each camera in the page, spread over the run
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u16).range(0..=500), value_name = "COUNT", requires = "camera")]
    pub(crate) pictures: u16,
}

/// Refuses the ending of another format, by which programs would take the picture for a damaged
/// one.
fn png_name(path: PathBuf) -> Result<PathBuf, &'static str> {
    let others = ["jpg", "jpeg", "svg", "pdf", "gif", "webp", "html"];
    match path.extension() {
        Some(of) if others.iter().any(|other| of.eq_ignore_ascii_case(other)) => {
            Err("the picture is a PNG; name it with .png")
        }
        _ => Ok(path),
    }
}
