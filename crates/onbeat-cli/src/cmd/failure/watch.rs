//! Why a program cannot be watched.

use std::process::ExitStatus;

use onbeat::cause::TraceError;

/// What remains possible where the error itself does not say it.
const fn instead(why: &TraceError) -> &'static str {
    match why {
        TraceError::PidNamespace => {
            "run onbeat on the host, which sees the programs in containers, or start the container with --pid=host; "
        }
        _ => "",
    }
}

/// A program cannot be watched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchFailure {
    #[error("{why}; {}the table above has the scheduler's counts", instead(.why))]
    NotTraced { why: TraceError },
    #[error("{process} ended within {seconds:.1} s, before its loop could be measured")]
    EndedEarly { process: String, seconds: f64 },
    #[error("{command} exited ({status}) before its loop could be measured")]
    CommandEnded { command: String, status: ExitStatus },
    #[error("{option} is for one loop of a program: leave it out, or leave out {other}")]
    OneLoop { option: &'static str, other: &'static str },
    #[error("no cycle of {thread} was seen in {seconds:.1} s; {why}")]
    NoCycle { thread: String, seconds: f64, why: &'static str },
    #[error(
        "calls of {function} cannot be recorded: {why}; it needs root, and a kernel with CONFIG_UPROBE_EVENTS and BTF"
    )]
    NotProbed { function: String, why: String },
    #[error(
        "{function} was not called three times while it was observed; name a function that each cycle calls once"
    )]
    NotCalled { function: String },
    #[error("cannot start {command}: {source}; give the path of a program after --")]
    Command { command: String, source: std::io::Error },
    #[error(
        "--command {typed:?}: {why}; write it as in a shell, in quotes: --command './controller --rate 1000'"
    )]
    NotACommand { typed: String, why: &'static str },
    #[error(
        "tuning {tuning}: {letter} is up to the program itself: {instead}; from outside a bench of a program sets P, C, \
         timer.slack and settings of the host, such as --tunings none,P,C,PC"
    )]
    NotFromOutside { tuning: String, letter: char, instead: &'static str },
    #[error(
        "the loop of {program} has a period of {now_us} us and had {before_us} us when it was tried; a bench compares cycles of \
         one length"
    )]
    OtherPeriod { program: String, now_us: f64, before_us: f64 },
    #[error("{what} of {thread} cannot be set: {source}; it needs root")]
    NotSet { thread: String, what: &'static str, source: std::io::Error },
    #[error(
        "{program} exited after {seconds:.1} s of the block; a bench needs a program that runs until it receives SIGTERM"
    )]
    EndedInBlock { program: String, seconds: f64 },
    #[error("block {block}: {why}")]
    Block { block: u32, why: String },
}
