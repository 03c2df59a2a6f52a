//! Makes the steps of a plan through a journal that is open.

use std::collections::BTreeSet;
use std::io;

use rustix::io::Errno;

use super::resolve::{Changes, Resolver};
use super::{AppliedStep, OnRefusal, StepOutcome};
use crate::change::{Intent, Key, UndoMode};
use crate::host_files::HostFiles;
use crate::journal::{ChangeId, Journal};
use crate::plan::{PlanStep, StepTarget};
use crate::shield::{CpusetPartition, Free, Shield, ShieldRequest};
use crate::tasks;

/// A step that could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{id}: cannot set {target} to \"{new}\": {why}")]
pub struct FailedStep {
    /// The tuning.
    pub id: String,
    /// What was to be changed.
    pub target: String,
    /// The value.
    pub new: String,
    /// The kernel's error, or what was read back.
    pub why: String,
}

impl FailedStep {
    fn new(step: &PlanStep, why: String) -> Self {
        let PlanStep { id, target, new, .. } = step;
        Self { id: id.clone(), target: target.to_string(), new: new.clone(), why }
    }
}

/// Makes steps: on record first, then made, then read back.
///
/// For programs with a journal of their own, which undo what was made by [`Journal::undo`];
/// [`apply`](super::apply) is built on it. Dropping it undoes nothing.
pub struct StepMaker<'a> {
    journal: &'a mut Journal,
    resolver: Resolver<'a>,
    on_refusal: OnRefusal,
    recorded: Vec<ChangeId>,
}

/// The changes of a step that are on record.
#[derive(Debug, Default)]
struct RecordedStep {
    ids: Vec<ChangeId>,
    intents: Vec<Intent>,
    /// The number of those at the beginning that the kernel makes along with the others.
    along: usize,
}

impl<'a> StepMaker<'a> {
    /// Returns a maker of the resolver's plan. Nothing is changed yet.
    pub const fn new(
        journal: &'a mut Journal,
        resolver: Resolver<'a>,
        on_refusal: OnRefusal,
    ) -> Self {
        Self { journal, resolver, on_refusal, recorded: Vec::new() }
    }

    /// Makes all steps of the plan, in order.
    ///
    /// # Errors
    /// [`FailedStep`] for the first that fails, where refusals are not left out. What was made
    /// before stays in effect and on record.
    pub fn make_all(&mut self) -> Result<Vec<AppliedStep>, FailedStep> {
        let mut made = Vec::new();
        let mut rest = self.resolver.plan.steps.as_slice();
        while let Some(first) = rest.first() {
            let outcomes = match self.record(first, rest) {
                Ok(group) => {
                    let steps = rest.iter().zip(group);
                    let made = steps.map(|(step, recorded)| self.make(step, recorded));
                    made.collect::<Result<Vec<_>, _>>()?
                }
                Err(why) => vec![self.refused(first, why, &[])?],
            };

            let (now, later) = rest.split_at(outcomes.len());
            let steps = now.iter().zip(outcomes);
            made.extend(steps.map(|(step, outcome)| AppliedStep::new(step, outcome)));
            rest = later;
        }

        Ok(made)
    }

    /// Returns the changes on record, in order, without those of a shield: all that were made, and
    /// perhaps some that failed before they were.
    #[must_use]
    pub fn into_recorded(self) -> Vec<ChangeId> {
        self.recorded
    }

    fn host(&self) -> &'a dyn HostFiles {
        self.resolver.host
    }

    /// Records the changes of the first of `steps`, and with the same sync those of the steps after
    /// it that belong to the same tuning: on a machine with many CPUs a tuning has hundreds, and
    /// each sync waits for the disk.
    fn record(
        &mut self,
        first: &PlanStep,
        steps: &[PlanStep],
    ) -> Result<Vec<RecordedStep>, String> {
        let mut group = self.resolved(first, steps)?;
        let all = group.iter().flat_map(|step| step.intents.iter().cloned()).collect();
        let ids = self.journal.intend_all(all).map_err(|error| error.to_string())?;
        self.recorded.extend(&ids);

        let mut ids = ids.into_iter();
        for step in &mut group {
            step.ids = ids.by_ref().take(step.intents.len()).collect();
        }
        Ok(group)
    }

    /// Resolves the steps that go on record together: one, or several of one setting each, and no
    /// setting twice, for the old value of a second change is what the first has left. A step that
    /// cannot be resolved ends the group, and fails when its turn comes.
    fn resolved(&self, first: &PlanStep, steps: &[PlanStep]) -> Result<Vec<RecordedStep>, String> {
        let mut group = Vec::new();
        let mut touched = BTreeSet::new();
        for step in steps {
            let is_first = group.is_empty();
            let is_of_group = step.id == first.id && [first, step].into_iter().all(has_one_setting);
            if !is_first && !is_of_group {
                break;
            }

            let Changes { intents, followers } = match self.resolver.changes(step) {
                Err(error) if is_first => return Err(error.to_string()),
                Err(_) => break,
                Ok(changes) => changes,
            };
            // What the kernel changes along with the step is on record first, and so is undone
            // after it.
            let along = followers.len();
            let intents: Vec<Intent> = followers.into_iter().chain(intents).collect();

            let settings = intents.iter().map(|intent| intent.key.name());
            let settings: BTreeSet<String> = settings.chain([step.target.to_string()]).collect();
            if !settings.is_disjoint(&touched) {
                break;
            }
            touched.extend(settings);
            group.push(RecordedStep { ids: Vec::new(), intents, along });
        }

        Ok(group)
    }

    /// Makes a step whose changes are on record.
    fn make(
        &mut self,
        step: &PlanStep,
        mut recorded: RecordedStep,
    ) -> Result<StepOutcome, FailedStep> {
        let made = match &step.target {
            StepTarget::Boot {} => return Ok(StepOutcome::Later),
            // A refusal is never left out: the shield is one change of the whole machine.
            StepTarget::Shield {} => {
                return self.shield(step).map_err(|why| FailedStep::new(step, why));
            }
            StepTarget::Held { path } => self.hold(step, path, &mut recorded.ids),
            _ => self.change(&recorded),
        };
        made.or_else(|why| self.refused(step, why, &recorded.ids))
    }

    /// What becomes of a step that failed: where refusals are left out, it is undone.
    fn refused(
        &mut self,
        step: &PlanStep,
        why: String,
        ids: &[ChangeId],
    ) -> Result<StepOutcome, FailedStep> {
        if self.on_refusal == OnRefusal::RollBack {
            return Err(FailedStep::new(step, why));
        }

        let undone = self
            .journal
            .undo(self.resolver.host, ids, UndoMode::Careful)
            .map_err(|error| FailedStep::new(step, error.to_string()))?;
        let is_clean = undone.iter().all(|one| one.outcome.is_settled());
        if is_clean { Ok(StepOutcome::Refused { why }) } else { Err(FailedStep::new(step, why)) }
    }

    fn change(&mut self, recorded: &RecordedStep) -> Result<StepOutcome, String> {
        let RecordedStep { ids, intents, along } = recorded;
        let mut settings = 0;
        let mut refused = Vec::new();
        for (id, intent) in ids.iter().zip(intents).skip(*along) {
            // An inherited list of CPUs is only recorded.
            if matches!(intent.key, Key::Born { .. }) {
                continue;
            }
            match self.set(*id, intent) {
                Ok(()) => settings += 1,
                Err(error) if tasks::is_gone(&error) => {}
                Err(error) if is_refusable(intent, &error) => {
                    refused.push(format!("{}: {error}", intent.key.name()));
                }
                Err(error) => return Err(answer(intent, &error)),
            }
        }

        Ok(match settings {
            0 if refused.is_empty() => StepOutcome::Nothing,
            0 => StepOutcome::Refused { why: refused.join("; ") },
            _ => StepOutcome::Changed { settings, refused },
        })
    }

    /// Makes a change that is on record, and reads it back.
    fn set(&mut self, id: ChangeId, intent: &Intent) -> io::Result<()> {
        intent.make(self.host())?;
        let now = intent.key.current(self.host())?;
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
        let host = self.host();
        let journal = &mut *self.journal;
        let mut record = |process| {
            let key = Key::Holder { path: path.to_owned(), process };
            let intent = Intent::new(&step.id, key, "absent", step.new.clone());
            ids.push(journal.intend(intent).map_err(io::Error::other)?);
            Ok(())
        };

        // Eight hexadecimal digits: the kernel would take four bytes as a binary number.
        let held = host.hold_open(path, &format!("{limit:08x}"), &mut record);
        self.recorded.extend(&*ids);
        held.map_err(|error| error.to_string())?;
        Ok(StepOutcome::Changed { settings: 1, refused: Vec::new() })
    }

    /// Raises a shield.
    fn shield(&mut self, step: &PlanStep) -> Result<StepOutcome, String> {
        let task = self.resolver.plan.task.ok_or("the plan names no thread of a loop")?;
        let rt =
            crate::cpu_list::CpuList::parse_list(&step.new).map_err(|error| error.to_string())?;
        let host = self.host();
        let free = vec![loop_of(host, task)];
        let request = ShieldRequest { rt, free, scope: self.resolver.scope };
        let raised = Shield::prepare_as(host, self.journal, &request)
            .and_then(|mut shield| shield.raise(host, self.journal));
        let report = raised.map_err(|error| error.to_string())?;

        let left = report.left.iter().map(|left| format!("{}: {}", left.comm, left.reason));
        let is_refused = matches!(report.partition, CpusetPartition::Refused { .. });
        let no_partition = is_refused.then(|| report.partition.to_string());
        let less = no_partition.into_iter().chain(report.notes);
        let refused = left.chain(less).collect();
        Ok(StepOutcome::Changed {
            settings: report.tasks_moved + report.tasks_held + report.irqs_moved,
            refused,
        })
    }
}

/// The loop of a task: its process where it has no other thread, since only whole processes get a
/// partition.
fn loop_of(host: &dyn HostFiles, task: i32) -> Free {
    let pid = tasks::task(host, task).map_or(task, |found| found.pid);
    match tasks::threads(host, pid).as_slice() {
        [only] if only.id.tid == task => Free::Process(pid),
        _ => Free::Thread(task),
    }
}

/// Whether a step changes one setting, which is there before the step is made. Threads come and go:
/// theirs are found when their step is made.
const fn has_one_setting(step: &PlanStep) -> bool {
    match &step.target {
        StepTarget::File { .. }
        | StepTarget::Interrupt { .. }
        | StepTarget::Unit { .. }
        | StepTarget::Register { .. } => true,
        StepTarget::Affinity { .. }
        | StepTarget::Threads { .. }
        | StepTarget::Shield {}
        | StepTarget::Held { .. }
        | StepTarget::Boot {} => false,
    }
}

/// The kernel's answer, with what it takes where that is known; see `plan/partition.rs`.
fn answer(intent: &Intent, error: &io::Error) -> String {
    let is_busy = Errno::from_io_error(error) == Some(Errno::BUSY);
    let is_fair_server =
        matches!(&intent.key, Key::File { path, .. } if path.contains("/sched/fair_server/"));
    if !is_busy || !is_fair_server {
        return error.to_string();
    }
    format!(
        "{error}; the kernel accepts it while kernel.sched_rt_runtime_us is -1: apply sched.rt_runtime with it"
    )
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
