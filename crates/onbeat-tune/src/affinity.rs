//! Tasks whose affinity mask the shield has to set.
//!
//! Some are pinned: when a cpuset changes, kernels before 6.2 forget the pin, so it is restored
//! each time. Some are in no cpuset that can be narrowed: their own mask keeps them off. This file
//! treats both alike: a task, its mask without the shield, its mask under the shield.

use std::collections::BTreeMap;

use super::change::{Intent, Key};
use super::context::{CpuSplit, ShieldContext};
use super::cpu_list::CpuList;
use super::error::TuneError;
use super::host_files::HostFiles;
use super::tasks::{self, Task, TaskId};

/// Tuning of these changes in the journal.
const ID: &str = "shield.threads";

#[derive(Debug)]
struct PinnedTask {
    open: CpuList,
    shielded: CpuList,
    follows: bool,
}

/// The tasks pinned by their affinity mask.
#[derive(Debug, Default)]
pub(super) struct Affinities {
    held: BTreeMap<TaskId, PinnedTask>,
    /// When the first mask was narrowed, in clock ticks since boot; later tasks may have inherited
    /// it.
    narrowed_since_ticks: Option<u64>,
}

/// Result of keeping a task off the shielded CPUs.
pub(super) enum PinOutcome {
    Off,
    Refused(String),
    Gone,
}

impl Affinities {
    /// Records tasks, each with its mask without the shield.
    ///
    /// `inherits`: their later children start with the shield's mask, which no cpuset widens again.
    pub(super) fn note(
        &mut self,
        context: &mut ShieldContext<'_>,
        tasks: &[(Task, CpuList)],
        inherits: bool,
    ) -> Result<(), TuneError> {
        let cpus = context.cpus;
        let mut intents = Vec::new();
        for (task, open) in tasks {
            if inherits && self.narrowed_since_ticks.is_none() && !task.is_kernel() {
                let since_ticks = tasks::now_ticks(context.host);
                self.narrowed_since_ticks = Some(since_ticks);
                let key = Key::Born { since_ticks };
                intents.push(Intent::new(ID, key, cpus.possible.to_string(), cpus.hk.to_string()));
            }

            // It moves with its interrupt; only its current mask must not be lost.
            let follows = task.follows_interrupt();
            let open = if follows { open.clone() } else { cpus.given_back(open) };
            let off = || CpuList::kept_off(&open.and(&cpus.online), &cpus.rt, &cpus.hk);
            let shielded = if follows { open.clone() } else { off() };
            let on_the_way = [&cpus.online, &cpus.hk, &cpus.possible].map(ToString::to_string);
            let key = Key::Affinity { task: task.id, follows };
            intents.push(
                Intent::new(ID, key, open.to_string(), shielded.to_string()).also(on_the_way),
            );
            self.held.insert(task.id, PinnedTask { open, shielded, follows });
        }

        context.record(intents)
    }

    pub(super) fn holds(&self, task: TaskId) -> bool {
        self.held.contains_key(&task)
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// Opens every CPU to a task that has become part of the loop, and holds it no longer.
    pub(super) fn set_free(
        &mut self,
        context: &mut ShieldContext<'_>,
        task: &Task,
    ) -> Result<(), TuneError> {
        let held = self.held.remove(&task.id);
        let Ok(now) = tasks::affinity(context.host, task.id.tid) else { return Ok(()) };
        if now.meets(&context.cpus.rt) {
            return Ok(());
        }

        // What it had before the shield is on record already when it was held.
        let open = held.map_or_else(|| context.cpus.online.clone(), |held| held.open);
        let open = if open.meets(&context.cpus.rt) { open } else { context.cpus.online.clone() };
        let key = Key::Affinity { task: task.id, follows: false };
        let intent = Intent::new(ID, key, now.to_string(), open.to_string())
            .also(context.cpus.pins_of_a_loop());
        context.record(vec![intent])?;
        match context.host.set_affinity(task.id.tid, &open) {
            Err(source) if !tasks::is_gone(&source) => {
                Err(TuneError::Affinity { tid: task.id.tid, cpus: open, source })
            }
            _ => Ok(()),
        }
    }

    /// Sets the shield's mask of every pinned task, where the kernel has not done so itself.
    pub(super) fn narrow(
        &mut self,
        host: &dyn HostFiles,
        cpus: &CpuSplit,
    ) -> Vec<(TaskId, PinOutcome)> {
        let mut kept = Vec::new();
        for (task, held) in self.held.iter().filter(|(_, held)| !held.follows) {
            let ours = [&held.open, &cpus.online, &cpus.hk, &cpus.possible];
            kept.push((*task, bring(host, *task, &held.shielded, &ours)));
        }

        self.drop_gone(&kept);
        kept
    }

    /// Restores the mask of every pinned task, and all CPUs to tasks that inherited the shield's
    /// mask.
    pub(super) fn widen(&mut self, host: &dyn HostFiles, cpus: &CpuSplit) {
        let mut kept = Vec::new();
        for (task, held) in &self.held {
            let forgotten = [&cpus.online, &cpus.possible];
            let ours = [&held.shielded, &cpus.hk, forgotten[0], forgotten[1]];
            let ours = if held.follows { &forgotten[..] } else { &ours[..] };
            kept.push((*task, bring(host, *task, &held.open, ours)));
        }

        self.drop_gone(&kept);
        if let Some(since) = self.narrowed_since_ticks {
            for task in tasks::all(host).unwrap_or_default().values() {
                let born =
                    task.id.start_ticks >= since && !task.is_kernel() && !self.holds(task.id);
                if born && tasks::affinity(host, task.id.tid).is_ok_and(|now| now == cpus.hk) {
                    // It may have ended, or a cpuset may bound it: then nothing of ours is left to
                    // undo.
                    let _ = host.set_affinity(task.id.tid, &cpus.possible);
                }
            }
        }
    }

    /// Forgets tasks that have changed their mask themselves since: their choice is what they keep.
    pub(super) fn forget_changed(&mut self, host: &dyn HostFiles, cpus: &CpuSplit) {
        self.held.retain(|task, held| {
            let known = [&held.open, &held.shielded, &cpus.online, &cpus.hk, &cpus.possible];
            tasks::is_alive(host, *task)
                && tasks::affinity(host, task.tid)
                    .is_ok_and(|now| held.follows || known.iter().any(|list| cpus.same(&now, list)))
        });
    }

    fn drop_gone(&mut self, kept: &[(TaskId, PinOutcome)]) {
        for (task, _) in kept.iter().filter(|(_, kept)| matches!(kept, PinOutcome::Gone)) {
            self.held.remove(task);
        }
    }
}

fn bring(host: &dyn HostFiles, task: TaskId, wanted: &CpuList, ours: &[&CpuList]) -> PinOutcome {
    let Ok(now) = tasks::affinity(host, task.tid) else { return PinOutcome::Gone };
    // A mask that is neither ours nor the task's own was set by another program, and stays.
    if now == *wanted || !ours.iter().any(|list| now == **list) {
        return PinOutcome::Off;
    }
    if !tasks::is_alive(host, task) {
        return PinOutcome::Gone;
    }

    match host.set_affinity(task.tid, wanted) {
        Ok(()) => PinOutcome::Off,
        Err(error) if tasks::is_gone(&error) => PinOutcome::Gone,
        Err(error) => PinOutcome::Refused(error.to_string()),
    }
}
