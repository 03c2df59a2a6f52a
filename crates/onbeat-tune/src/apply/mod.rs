//! Applies plans, undoes them, and reports what is applied.
//!
//! | file | contents |
//! |---|---|
//! | [`make`] | [`StepMaker`]: the steps of a plan, on record first, then made |
//! | [`resolve`] | from a step to the changes of this machine |
//! | [`owners`] | other programs that would overwrite a change |
//! | [`mod@status`] | what is applied, since when, by which onbeat |
//!
//! Each change is in the journal on disk before it is made, and is read back after; the changes of
//! one tuning go to disk together. When one fails, all changes of the same apply are undone, newest
//! first. After success the journal is kept: [`undo`] undoes it, from any process, also after a
//! crash.
//!
//! ```
//! use onbeat_tune::LiveHost;
//! use onbeat_tune::apply::status;
//!
//! let journals = tempfile::tempdir()?;
//! assert!(status(&LiveHost::new(), journals.path())?.is_empty(), "nothing is applied");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Absent on purpose: settings whose old value cannot be read, and anything that takes a reboot.

pub mod make;
pub mod owners;
pub mod resolve;
pub mod status;

use std::path::{Path, PathBuf};

use crate::change::{ChangeOutcome, UndoMode};
use crate::error::TuneError;
use crate::host_files::HostFiles;
use crate::journal::{Journal, Purpose, Undone};
use crate::plan::{Plan, PlanError, PlanStep, StepTarget};
pub use crate::repair::{undo, undo_one};
use crate::shield::Scope;
use crate::tasks;
pub use make::{FailedStep, StepMaker};
pub use owners::{OtherOwner, OwnerRule};
pub use resolve::Resolver;
pub use status::{AppliedChange, AppliedJournal, status};

/// What happens when the kernel refuses a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnRefusal {
    /// Everything of this apply is undone.
    #[default]
    RollBack,
    /// The step is undone and reported; the others stay.
    LeaveOut,
}

/// How a plan is applied.
///
/// ```no_run
/// use std::path::Path;
/// use onbeat_tune::apply::{ApplyRequest, apply, undo};
/// use onbeat_tune::plan::Plan;
/// use onbeat_tune::{LiveHost, UndoMode};
///
/// let host = LiveHost::new();
/// let plan = Plan::from_text(&std::fs::read_to_string("plan.toml")?)?;
/// let journals = Path::new("/var/lib/onbeat/journal");
/// let applied = apply(&host, journals, &plan, &ApplyRequest::new("my-robot --tuned"))?;
/// println!("{applied:?}");
/// undo(journals, &host, UndoMode::Careful)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ApplyRequest {
    /// The command line, for the journal.
    pub command: String,
    /// What happens when the kernel refuses a change.
    pub on_refusal: OnRefusal,
    /// Which threads of programs may be moved.
    pub scope: Scope,
    /// Whether another program may own what is changed.
    pub owners: OwnerRule,
}

impl ApplyRequest {
    /// Rolls back when something is refused, moves threads of the whole machine, and refuses what
    /// others own.
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            on_refusal: OnRefusal::default(),
            scope: Scope::Machine,
            owners: OwnerRule::default(),
        }
    }
}

/// What became of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// Changed and read back.
    Changed {
        /// The number of settings: a step about threads has several.
        settings: usize,
        /// Settings that the kernel refused to change, with the reason: interrupts that it manages
        /// itself.
        refused: Vec<String>,
    },
    /// Every setting already had the new value, or no longer exists.
    Nothing,
    /// It takes a reboot.
    Later,
    /// The kernel refused it; nothing of it is left.
    Refused {
        /// The reason.
        why: String,
    },
}

/// A step and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedStep {
    /// The tuning.
    pub id: String,
    /// What was to be changed, in words.
    pub target: String,
    /// What became of it.
    pub outcome: StepOutcome,
}

impl AppliedStep {
    fn new(step: &PlanStep, outcome: StepOutcome) -> Self {
        Self { id: step.id.clone(), target: step.target.to_string(), outcome }
    }
}

/// What an apply did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The steps of the plan, in order.
    pub steps: Vec<AppliedStep>,
    /// The journal; `None` when nothing was changed.
    pub journal: Option<PathBuf>,
}

/// Why a plan was not applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The plan names no valid CPUs, or leaves none for the rest of the machine. Nothing was
    /// changed.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The user is not root. Nothing was changed.
    #[error("applying a plan needs root. Run: sudo {command}")]
    NeedsRoot {
        /// The command as it was typed.
        command: String,
    },
    /// Another program would overwrite changes silently. Nothing was changed.
    #[error("{0}")]
    Owned(OtherOwner),
    /// A step failed; everything of this apply was undone.
    #[error("{failed}. {}", undone_words(.undone))]
    Step {
        failed: FailedStep,
        /// The undo.
        undone: Vec<Undone>,
    },
    /// A step failed, and not everything could be undone; the rest stays on record.
    #[error(
        "{failed}. {} of this plan could not be undone; run `onbeat tune undo` to try again",
        counted(*.left)
    )]
    HalfUndone {
        failed: FailedStep,
        /// The number of changes that are left.
        left: usize,
    },
    /// The journal or a file that every apply needs failed.
    #[error(transparent)]
    Tune(#[from] TuneError),
}

/// Applies a plan: journal first, then the change, then a read back, step by step.
///
/// # Errors
/// [`ApplyError`]. Except for [`ApplyError::HalfUndone`], nothing of the plan is in effect then.
pub fn apply(
    host: &dyn HostFiles,
    directory: &Path,
    plan: &Plan,
    request: &ApplyRequest,
) -> Result<Applied, ApplyError> {
    let resolver = Resolver::new(host, plan, request.scope)?;
    admit(&resolver, request)?;

    let purpose = Purpose::new("tune", request.command.clone());
    let mut journal = Journal::begin(directory, host, &purpose)?;
    let made = StepMaker::new(&mut journal, resolver, request.on_refusal).make_all();
    let steps = match made {
        Ok(steps) => steps,
        Err(failed) => return Err(roll_back(host, journal, failed)),
    };

    let is_changed = steps.iter().any(|step| matches!(step.outcome, StepOutcome::Changed { .. }));
    let journal = if is_changed {
        Some(journal.keep()?)
    } else {
        // What was recorded for refused steps is undone already.
        journal.undo_all(host, UndoMode::Careful)?;
        journal.close()?;
        None
    };
    Ok(Applied { steps, journal })
}

/// Refuses a plan before anything is changed.
fn admit(resolver: &Resolver<'_>, request: &ApplyRequest) -> Result<(), ApplyError> {
    let Resolver { host, plan, loop_cpus, online, .. } = resolver;
    let cpus = loop_cpus.clone();
    let all = online.clone();
    if cpus.is_empty() || !cpus.is_within(&all) {
        return Err(PlanError::NotOnline { cpus, online: all }.into());
    }
    let has_one = all.iter().count() == 1;
    if all.is_within(&cpus) && !(has_one && plan.steps.iter().all(names_no_cpus)) {
        return Err(PlanError::NoHousekeeping { cpus, online: all }.into());
    }

    if let (Some(tid), Some(planned)) = (plan.task, plan.task_start_ticks) {
        let now = tasks::task(*host, tid).ok_or(TuneError::NoSuchTask { tid })?.id.start_ticks;
        if now != planned {
            return Err(TuneError::OtherTask { tid, planned, now }.into());
        }
    }
    if !host.is_root() {
        return Err(ApplyError::NeedsRoot { command: request.command.clone() });
    }
    if request.owners == OwnerRule::Refuse
        && let Some(owner) = owners::find(*host, plan)?
    {
        return Err(ApplyError::Owned(owner));
    }
    Ok(())
}

/// Whether a step also makes sense on a machine with one CPU.
const fn names_no_cpus(step: &PlanStep) -> bool {
    !matches!(
        step.target,
        StepTarget::Shield {} | StepTarget::Affinity { .. } | StepTarget::Interrupt { .. }
    )
}

fn roll_back(host: &dyn HostFiles, mut journal: Journal, failed: FailedStep) -> ApplyError {
    let undone = match journal.undo_all(host, UndoMode::Careful) {
        Ok(undone) => undone,
        Err(error) => return error.into(),
    };
    match journal.close() {
        Ok(()) => ApplyError::Step { failed, undone },
        Err(TuneError::NotAllUndone { left, .. }) => ApplyError::HalfUndone { failed, left },
        Err(error) => error.into(),
    }
}

/// What an undo restored; the rest was on record and had its old value.
fn undone_words(undone: &[Undone]) -> String {
    let is_restored = |one: &&Undone| {
        matches!(one.outcome, ChangeOutcome::Restored | ChangeOutcome::Narrowed { .. })
    };
    match undone.iter().filter(is_restored).count() {
        0 => "Nothing else had been changed".to_owned(),
        count => format!("Undone: {} of this plan", counted(count)),
    }
}

fn counted(changes: usize) -> String {
    if changes == 1 { "1 change".to_owned() } else { format!("{changes} changes") }
}
