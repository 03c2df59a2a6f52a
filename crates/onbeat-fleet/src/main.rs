//! The program `onbeat-fleet`, which `onbeat fleet` starts.
//!
//! Results are on standard output, everything else on standard error; exit status 2 when it could not run.

// Not a published library: a name that says all needs no sentence beside it.
#![allow(missing_docs)]

mod adding;
mod questions;

use std::io::{self, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use onbeat_fleet::buckets::{self, BucketsError};
use onbeat_fleet::pack;
use onbeat_fleet::rows::RowsError;
use onbeat_fleet::store::{DataSet, StoreError};
use onbeat_host::program::{advise, say, survive_file_limit, unwritten};
use onbeat_report::units::counted;

const EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat fleet add onbeat-runs/latest --to /srv/fleet
      this machine's latest run, into the data set of all machines
  onbeat fleet worst /srv/fleet
      the machines with the longest tails
  onbeat fleet gate /srv/fleet --limit 100us --at 99.9
      the share of the machines that hold the limit, with a bound
  onbeat fleet compare /srv/fleet kernel=6.1.0-rt kernel=6.12.0-rt
      two kernels, over the machines that ran both
  onbeat fleet explain /srv/fleet
      which facts and settings separate good machines from bad ones";

/// Keep runs of many machines as one data set, and query it.
#[derive(Debug, Parser)]
#[command(name = "onbeat-fleet", bin_name = "onbeat fleet", version, before_help = EXAMPLES)]
#[command(disable_help_subcommand = true, max_term_width = 80)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add runs to a data set
    Add(adding::AddOptions),
    /// Make few files of many, day by day
    Pack {
        /// Directory of the data set
        #[arg(value_name = "DIR")]
        fleet: PathBuf,
    },
    /// List machines by their tail, the worst first
    Worst(questions::Words),
    /// Determine the share of machines that hold a limit
    Gate(questions::Words),
    /// Compare two kernels, images or other facts, machine by machine
    Compare(questions::Words),
    /// Find facts and settings that separate good machines from bad ones
    Explain(questions::Words),
    /// Find machines whose latency changed, and when
    Drift(questions::Words),
    /// Count causes of latency by kernel, board or another fact
    Causes(questions::Words),
    /// Print exact percentiles of all samples together
    Percentiles(questions::Words),
    /// Write an HTML page of all machines
    Report(questions::Words),
    /// Write every bucket of every interval of a run to standard output, for `onbeat export --parquet`
    #[command(hide = true)]
    Buckets {
        /// Run directory, or one run file
        run: PathBuf,
    },
}

/// Why the program ends with exit status 2.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Rows(#[from] RowsError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Buckets(#[from] BucketsError),
    #[error("cannot write to standard output: {0}; the result is incomplete")]
    Output(&'static io::Error),
    #[error("cannot watch for Ctrl-C: {0}")]
    Signals(std::io::Error),
    #[error(
        "{failed} of {all} runs were not added; the reasons are above, and `onbeat fleet add` can be repeated"
    )]
    NotAll { failed: usize, all: usize },
    #[error("interrupted after {done} of {all} runs; `onbeat fleet add` can be repeated")]
    Interrupted { done: usize, all: usize },
    #[error(
        "cannot start {program} for this question: {source}; install it (package python3), or set ONBEAT_PYTHON to its path"
    )]
    Python { program: String, source: std::io::Error },
}

fn main() -> ExitCode {
    survive_file_limit();
    let written = || unwritten().map_or(Ok(()), |why| Err(Failure::Output(why)));
    match run(Cli::parse().command).and_then(|()| written()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            advise(&format!("error: {why}"));
            ExitCode::from(2)
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    let (question, words) = match command {
        Command::Add(options) => return adding::run(&options),
        Command::Pack { fleet } => return pack_all(&fleet),
        Command::Buckets { run } => return Ok(buckets::write(&run, stdout()).map(|_| ())?),
        Command::Worst(words) => ("worst", words),
        Command::Gate(words) => ("gate", words),
        Command::Compare(words) => ("compare", words),
        Command::Explain(words) => ("explain", words),
        Command::Drift(words) => ("drift", words),
        Command::Causes(words) => ("causes", words),
        Command::Percentiles(words) => ("percentiles", words),
        Command::Report(words) => ("report", words),
    };
    Err(questions::ask(question, &words))
}

fn pack_all(fleet: &Path) -> Result<(), Failure> {
    let packed = pack::pack(&DataSet::open(fleet)?)?;
    let sizes = [(packed.runs, "run"), (packed.days, "day"), (packed.files, "small file")];
    let [runs, days, files] = sizes.map(|(n, what)| counted(n as u64, what));
    say(&format!("packed {runs} of {days}; {files} removed"));
    if packed.abandoned > 0 {
        advise(&format!(
            "{} unfinished files of killed writers, older than a day, removed",
            packed.abandoned
        ));
    }
    Ok(())
}
