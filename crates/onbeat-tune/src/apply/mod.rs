//! Applies plans, undoes them, and reports what is applied.
//!
//! | file | contents |
//! |---|---|
//! | [`resolve`] | from a step to the changes of this machine |
//! | [`owners`] | other programs that would overwrite a change |
//! | [`mod@status`] | what is applied, since when, by which onbeat |
//!
//! Each change is in the journal on disk before it is made, and is read back after. When one fails,
//! all changes of the same apply are undone, newest first. After success the journal is kept:
//! [`undo`] undoes it, from any process, also after a crash.
//!
//! Absent on purpose: settings whose old value cannot be read, and anything that takes a reboot.

pub mod owners;
pub mod resolve;
pub mod status;

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::change::{Intent, Key, UndoMode, online};
use crate::error::TuneError;
use crate::host_files::HostFiles;
use crate::journal::{ChangeId, Journal, Purpose, Undone};
use crate::plan::{Plan, PlanError, PlanStep, StepTarget};
use crate::repair::{self, Repaired};
use crate::shield::{Free, Scope, Shield, ShieldRequest};
use crate::tasks;
pub use owners::{OtherOwner, OwnerRule};
use resolve::{Changes, Resolver};
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
/// undo(&host, journals, UndoMode::Careful)?;
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
    #[error("{id}: cannot set {target} to \"{new}\": {why}. {} changes of this plan were undone", .undone.len())]
    Step {
        /// The tuning.
        id: String,
        /// What was to be changed.
        target: String,
        /// The value.
        new: String,
        /// The kernel's error, or what was read back.
        why: String,
        /// The undo.
        undone: Vec<Undone>,
    },
    /// A step failed, and not everything could be undone; the rest stays on record.
    #[error(
        "{id}: {why}. {left} changes of this plan could not be undone and stay on record: run `onbeat tune undo`"
    )]
    HalfUndone {
        /// The tuning.
        id: String,
        /// Why it failed.
        why: String,
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
    let loop_cpus = plan.loop_cpus()?;
    let online = online(host);
    if loop_cpus.is_empty() || !loop_cpus.is_within(&online) {
        return Err(PlanError::NotOnline { cpus: loop_cpus, online }.into());
    }
    if online.is_within(&loop_cpus) {
        return Err(PlanError::NoHousekeeping { cpus: loop_cpus, online }.into());
    }
    if !host.is_root() {
        return Err(ApplyError::NeedsRoot { command: request.command.clone() });
    }
    if request.owners == OwnerRule::Refuse
        && let Some(owner) = owners::find(host, plan)?
    {
        return Err(ApplyError::Owned(owner));
    }

    let purpose = Purpose::new("tune", request.command.clone());
    let journal = Journal::begin(directory, host, &purpose)?;
    let resolver = Resolver { host, plan, loop_cpus, online, scope: request.scope };
    let mut run = ApplyRun { host, journal, resolver, request };
    let mut steps = Vec::new();
    for step in &plan.steps {
        let outcome = match run.take(step) {
            Ok(outcome) => outcome,
            Err(why) => return Err(run.roll_back(step, why)),
        };
        steps.push(AppliedStep { id: step.id.clone(), target: step.target.to_string(), outcome });
    }

    let is_changed = steps.iter().any(|step| matches!(step.outcome, StepOutcome::Changed { .. }));
    let journal = if is_changed {
        Some(run.journal.keep()?)
    } else {
        // What was recorded for refused steps is undone already.
        run.journal.undo_all(host, UndoMode::Careful)?;
        run.journal.close()?;
        None
    };
    Ok(Applied { steps, journal })
}

/// Undoes everything on record, newest first, after a comparison: what another program has changed
/// since stays, and is reported.
///
/// What the host refuses is tried once more after the rest. What it refuses again stays on record
/// as well, and a later undo restores it.
///
/// # Errors
/// As [`repair::undo`].
pub fn undo(
    host: &dyn HostFiles,
    directory: &Path,
    mode: UndoMode,
) -> Result<Vec<Repaired>, TuneError> {
    repair::undo(directory, host, mode)
}

struct ApplyRun<'a> {
    host: &'a dyn HostFiles,
    journal: Journal,
    resolver: Resolver<'a>,
    request: &'a ApplyRequest,
}

impl ApplyRun<'_> {
    fn take(&mut self, step: &PlanStep) -> Result<StepOutcome, String> {
        let mut ids = Vec::new();
        let made = match &step.target {
            StepTarget::Boot {} => return Ok(StepOutcome::Later),
            StepTarget::Shield {} => self.shield(step),
            StepTarget::Held { path } => self.hold(step, path, &mut ids),
            _ => self.change(step, &mut ids),
        };
        match made {
            Err(why)
                if self.request.on_refusal == OnRefusal::LeaveOut
                    && !matches!(step.target, StepTarget::Shield {}) =>
            {
                let undone = self
                    .journal
                    .undo(self.host, &ids, UndoMode::Careful)
                    .map_err(|error| error.to_string())?;
                let is_clean = undone.iter().all(|one| one.outcome.is_settled());
                if is_clean { Ok(StepOutcome::Refused { why }) } else { Err(why) }
            }
            other => other,
        }
    }

    fn change(&mut self, step: &PlanStep, ids: &mut Vec<ChangeId>) -> Result<StepOutcome, String> {
        let Changes { intents, followers } =
            self.resolver.changes(step).map_err(|error| error.to_string())?;
        if intents.is_empty() {
            return Ok(StepOutcome::Nothing);
        }

        // What the kernel changes along with the step is on record first, and so is undone after
        // it.
        let along = followers.len();
        let all: Vec<Intent> = followers.into_iter().chain(intents).collect();
        *ids = self.journal.intend_all(all.clone()).map_err(|error| error.to_string())?;
        let mut settings = 0;
        let mut refused = Vec::new();
        for (id, intent) in ids.iter().zip(&all).skip(along) {
            // An inherited list of CPUs is only recorded.
            if matches!(intent.key, Key::Born { .. }) {
                continue;
            }
            match self.make(*id, intent) {
                Ok(()) => settings += 1,
                Err(error) if tasks::is_gone(&error) => {}
                Err(error) if is_refusable(intent, &error) => {
                    refused.push(format!("{}: {error}", intent.key.name()));
                }
                Err(error) => return Err(error.to_string()),
            }
        }

        match settings {
            0 if refused.is_empty() => Ok(StepOutcome::Nothing),
            0 => Ok(StepOutcome::Refused { why: refused.join("; ") }),
            _ => Ok(StepOutcome::Changed { settings, refused }),
        }
    }

    /// Makes a change that is on record, and reads it back.
    fn make(&mut self, id: ChangeId, intent: &Intent) -> io::Result<()> {
        intent.make(self.host)?;
        let now = intent.key.current(self.host)?;
        self.journal.done(id, now.as_deref()).map_err(io::Error::other)?;
        match now {
            None => Err(Errno::SRCH.into()),
            Some(now) if intent.same(&now, &intent.new, &self.resolver.online) => Ok(()),
            Some(now) => {
                Err(io::Error::other(format!("it was accepted, but reads \"{}\"", now.trim())))
            }
        }
    }

    fn hold(
        &mut self,
        step: &PlanStep,
        path: &str,
        ids: &mut Vec<ChangeId>,
    ) -> Result<StepOutcome, String> {
        let limit: u32 = step
            .new
            .trim()
            .parse()
            .map_err(|_| format!("\"{}\" is not a number of µs", step.new))?;
        let journal = &mut self.journal;
        let mut record = |process| {
            let key = Key::Holder { path: path.to_owned(), process };
            let intent = Intent::new(&step.id, key, "absent", step.new.clone());
            ids.push(journal.intend(intent).map_err(io::Error::other)?);
            Ok(())
        };
        // Eight hexadecimal digits: the kernel would take four bytes as a binary number.
        self.host
            .hold_open(path, &format!("{limit:08x}"), &mut record)
            .map_err(|error| error.to_string())?;
        Ok(StepOutcome::Changed { settings: 1, refused: Vec::new() })
    }

    fn shield(&mut self, step: &PlanStep) -> Result<StepOutcome, String> {
        let task = self.resolver.plan.task.ok_or("the plan names no thread of a loop")?;
        let rt = crate::CpuList::parse_list(&step.new).map_err(|error| error.to_string())?;
        let request =
            ShieldRequest { rt, free: vec![Free::Thread(task)], scope: self.request.scope };
        let raised = Shield::prepare_as(self.host, &mut self.journal, &request)
            .and_then(|mut shield| shield.raise(self.host, &mut self.journal));
        let report = raised.map_err(|error| error.to_string())?;
        let refused =
            report.left.iter().map(|left| format!("{}: {}", left.comm, left.reason)).collect();
        Ok(StepOutcome::Changed {
            settings: report.tasks_moved + report.tasks_held + report.irqs_moved,
            refused,
        })
    }

    fn roll_back(mut self, step: &PlanStep, why: String) -> ApplyError {
        let id = step.id.clone();
        let undone = match self.journal.undo_all(self.host, UndoMode::Careful) {
            Ok(undone) => undone,
            Err(error) => return error.into(),
        };
        match self.journal.close() {
            Ok(()) => ApplyError::Step {
                id,
                target: step.target.to_string(),
                new: step.new.clone(),
                why,
                undone,
            },
            Err(TuneError::NotAllUndone { left, .. }) => ApplyError::HalfUndone { id, why, left },
            Err(error) => error.into(),
        }
    }
}

/// Whether one refusal among many is normal: interrupts that the kernel places itself, kernel
/// threads that it keeps in place.
fn is_refusable(intent: &Intent, error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    match intent.key {
        Key::Irq { .. } => matches!(errno, Some(Errno::PERM | Errno::IO | Errno::NOSPC)),
        Key::Affinity { .. } => matches!(errno, Some(Errno::PERM | Errno::INVAL)),
        _ => false,
    }
}
