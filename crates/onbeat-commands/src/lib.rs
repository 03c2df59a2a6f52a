//! What the commands of onbeat share, and `onbeat bus`, in a crate that knows no report: an edit of a table or of the page does not compile
//! them again.
//!
//! Shared are the terminal and its words, signals, the state directory, options and their completion, the choice of CPUs, questions, the
//! gateway's process, a file that is written whole, and how a command ends: [`ExitVerdict`], or a [`Failure`] in one sentence.

pub mod bus;
pub mod byte_words;
pub mod complete;
pub mod cpu_choice;
pub mod failure;
pub mod gateway;
pub mod habits;
pub mod options;
pub mod question;
pub mod signals;
pub mod state;
pub mod term;
pub mod units;
pub mod whole;

use std::ffi::OsString;
use std::sync::OnceLock;

pub use failure::{Common, Failure};

/// The outcome of a command that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitVerdict {
    /// Done, or PASS: 0.
    Pass,
    Fail,
    /// What was asked for was not done: 2, as for every [`Failure`].
    CouldNotRun,
    Inconclusive,
}

impl ExitVerdict {
    /// The exit status.
    pub const fn status(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Fail => 1,
            Self::CouldNotRun => 2,
            Self::Inconclusive => 3,
        }
    }
}

/// The verdict of several runs: FAIL if one failed, INCONCLUSIVE if one was.
pub const fn worse(one: ExitVerdict, other: ExitVerdict) -> ExitVerdict {
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
pub fn type_instead(words: &[OsString]) {
    let _ = WITH_SETTINGS.set(words.to_vec());
}

/// Returns the command as typed, with the settings of its file, for the run file.
pub fn typed() -> Vec<String> {
    let words = WITH_SETTINGS.get().cloned().unwrap_or_else(|| std::env::args_os().collect());
    let program = std::iter::once("onbeat".to_owned());
    program.chain(words.iter().skip(1).map(|word| word.to_string_lossy().into_owned())).collect()
}
