//! One folder per command, with its options beside it: turns options into library calls, and results into words.

pub(crate) mod bench;
pub(crate) mod bus;
mod byte_words;
pub(crate) mod camera;
mod carrier;
pub(crate) mod cell;
mod cells;
pub(crate) mod compare;
pub(crate) mod completion;
mod cpu_choice;
pub(crate) mod export;
mod failure;
mod findings;
pub(crate) mod fleet;
pub(crate) mod gate;
mod gateway;
pub(crate) mod generate;
mod host_settings;
pub(crate) mod import;
pub(crate) mod inject;
mod lint_report;
pub(crate) mod load;
mod looping;
pub(crate) mod measure;
pub(crate) mod message;
pub(crate) mod metrics;
pub(crate) mod net;
pub(crate) mod repair;
pub(crate) mod report;
pub(crate) mod robot;
mod run_clock;
mod run_tuning;
pub(crate) mod runs;
pub(crate) mod screen;
pub(crate) mod segment;
mod show;
mod so_far;
pub(crate) mod trend;
pub(crate) mod tune;
pub(crate) mod view;
pub(crate) mod vm;
pub(crate) mod watch;
mod watched;
mod whole;

use std::ffi::OsString;
use std::sync::OnceLock;

pub(crate) use failure::{Common, Failure};

/// The outcome of a command that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitVerdict {
    /// Done, or PASS: 0.
    Pass,
    Fail,
    /// What was asked for was not done: 2, as for every [`Failure`].
    CouldNotRun,
    Inconclusive,
}

impl ExitVerdict {
    /// The exit status.
    pub(crate) const fn status(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Fail => 1,
            Self::CouldNotRun => 2,
            Self::Inconclusive => 3,
        }
    }
}

/// The verdict of several runs: FAIL if one failed, INCONCLUSIVE if one was.
pub(crate) const fn worse(one: ExitVerdict, other: ExitVerdict) -> ExitVerdict {
    match (one, other) {
        (ExitVerdict::CouldNotRun, _) | (_, ExitVerdict::CouldNotRun) => ExitVerdict::CouldNotRun,
        (ExitVerdict::Fail, _) | (_, ExitVerdict::Fail) => ExitVerdict::Fail,
        (ExitVerdict::Inconclusive, _) | (_, ExitVerdict::Inconclusive) => {
            ExitVerdict::Inconclusive
        }
        (ExitVerdict::Pass, ExitVerdict::Pass) => ExitVerdict::Pass,
    }
}

/// The words of a command line with the settings of a file in them.
static WITH_SETTINGS: OnceLock<Vec<OsString>> = OnceLock::new();

/// Has the words recorded in place of those of the command line: a run is repeated by them without its file.
pub(crate) fn type_instead(words: &[OsString]) {
    let _ = WITH_SETTINGS.set(words.to_vec());
}

/// Returns the command as typed, with the settings of its file, for the run file.
pub(crate) fn typed() -> Vec<String> {
    let words = WITH_SETTINGS.get().cloned().unwrap_or_else(|| std::env::args_os().collect());
    let program = std::iter::once("onbeat".to_owned());
    program.chain(words.iter().skip(1).map(|word| word.to_string_lossy().into_owned())).collect()
}
