//! Why a command could not run: one sentence, exit status 2.
//!
//! A [`Failure`] knows no error of any crate: whatever is an error becomes one by `?`. What several commands can meet
//! is a [`Common`]; what only one can is an enum of its own, in a file below.

pub mod bus;
pub mod cpus;
pub mod gateway;

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::{Path, PathBuf};

use onbeat_tune::TuneError;

/// Why a command could not run.
#[derive(Debug)]
pub struct Failure(Box<dyn Error + Send + Sync>);

impl Failure {
    /// The error itself, where it is a `E`.
    pub fn as_error<E: Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for Failure {
    fn from(why: E) -> Self {
        Self(Box::new(why))
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What several commands can meet.
#[derive(Debug, thiserror::Error)]
pub enum Common {
    #[error("CPU {cpu} does not exist or is offline; this machine has CPUs {online}")]
    NoSuchCpu { cpu: u32, online: String },
    #[error(
        "--tuning {tuning} sets the priority, and --priority 0 takes none; leave one of them out"
    )]
    NoPriority { tuning: String },
    #[error(
        "cannot watch process {pid}: {source}; --beside takes the process ID of a running loop"
    )]
    NoProcess { pid: i32, source: io::Error },
    #[error("cannot {what} {path}: {source}")]
    File { what: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "cannot write {path}: {source}; `onbeat report` writes the page elsewhere by --html FILE, and none by --brief"
    )]
    Page { path: PathBuf, source: io::Error },
    #[error("{run} has no cell with {asked}; its cells, TUNING/LOAD, are {cells}")]
    NoCell { run: String, asked: String, cells: String },
    #[error(
        "bench splits no wake-ups: its recorder and the loops of its cells are in different processes; split those of one cell: {command}"
    )]
    NoSplit { command: String },
    #[error("one result alone can be written to standard output; name a file for the other")]
    TwoDocuments,
    #[error("{path} is named for two results; name a file for each")]
    OnePlace { path: PathBuf },
    #[error("no run was given; give one or several run directories")]
    NoRunNamed,
    #[error(
        "{runs} runs form one side against --baseline, but a limit judges a single run: name one"
    )]
    LimitOfSide { runs: usize },
    #[error("{run} and {baseline} are one run: a run passes against itself; name another baseline")]
    OwnBaseline { run: PathBuf, baseline: PathBuf },
    #[error("{first} and {again} are one run, which would count twice; name it once")]
    RunTwice { first: PathBuf, again: PathBuf },
    #[error(
        "cannot start a thread for {what}: {source}; the limit of threads (ulimit -u) may be reached"
    )]
    Thread { what: &'static str, source: io::Error },
    #[error("cannot write to standard output: {0}; the result is incomplete")]
    Output(io::Error),
    #[error("cannot find the program file of onbeat: {0}; it starts itself for cells and loads")]
    OwnProgram(io::Error),
    #[error("a load cannot write in {path}: {source}; name another directory by {option}")]
    LoadPlace { path: PathBuf, option: &'static str, source: io::Error },
    #[error("{0}, or add --wait to start then")]
    Occupied(TuneError),
    #[error(
        "{dir} was begun {then} and cannot be resumed with {now}; leave out {option} to resume it, or start a new bench without --resume"
    )]
    ResumedOption { dir: PathBuf, option: String, then: String, now: String },
    #[error("cannot restart onbeat: {0}; it is stopped from a separate process")]
    Again(io::Error),
    #[error(
        "`{what}` has no bus, so it has no events to count; omit --limit-on events=N, or {instead}"
    )]
    NoEvents { what: String, instead: &'static str },
}

impl Common {
    /// Returns a function that adds operation and path to an answer of the system.
    pub fn file(what: &'static str, path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::File { what, path: path.to_owned(), source }
    }
}
