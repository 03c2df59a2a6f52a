//! Why a command of `onbeat tune` could not run.

use std::path::PathBuf;

use onbeat_tune::apply::OtherOwner;
use onbeat_tune::capture::CaptureError;
use onbeat_tune::lint::LintError;
use onbeat_tune::plan::PlanError;

/// One sentence each; exit status 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TuneFailure {
    #[error(
        "{what} what? Name a plan file, tunings or --profile; `onbeat tune plan --out plan.toml` writes a plan"
    )]
    NothingNamed { what: &'static str },
    #[error("{0}")]
    NoTuning(String),
    #[error("{first} is a plan file and cannot be combined with {second}; leave out one of them")]
    PlanAndMore { first: PathBuf, second: String },
    #[error(
        "the plan {path} decides {option}; leave it out, or make another plan: onbeat tune plan"
    )]
    DecidedByPlan { path: PathBuf, option: &'static str },
    #[error("{path}: {source}")]
    PlanFile { path: PathBuf, source: PlanError },
    #[error("{path} exists; name another file, or replace it by --force")]
    Exists { path: PathBuf },
    #[error("{0}. --ignore-owners applies the plan all the same")]
    Owned(OtherOwner),
    #[error("--task {name}: a capture has no names of programs; give the number of a thread in it")]
    NameInCapture { name: String },
    #[error(
        "{run} did not watch a program, or one whose thread it does not name; a run of `onbeat watch` does"
    )]
    RunWithoutTask { run: PathBuf },
    #[error(
        "{name} [{tid}], the loop of {run}, has ended; name the program that runs now: --task {name}"
    )]
    TaskOfRunEnded { tid: i32, name: String, run: PathBuf },
    #[error("{directory} belongs to root, who applied the changes. Run: sudo {command}")]
    RecordOfRoot { directory: PathBuf, command: String },
    #[error("writing below {root} needs root. Run: sudo {command}")]
    PersistNeedsRoot { root: PathBuf, command: String },
    #[error("{path}: {source}")]
    Lint { path: PathBuf, source: LintError },
    #[error("{path}: {source}")]
    Capture { path: PathBuf, source: CaptureError },
    #[error("cannot read {path} as a capture of a machine: {source}")]
    NoCapture { path: PathBuf, source: CaptureError },
}
