//! Tasks whose own list of CPUs the shield has to touch.
//!
//! Some are pinned: a cpuset's change makes kernels before 6.2 forget the pin, so it is given back each time. Some are
//! in no cpuset that can be narrowed: they are kept off by their own list. Both are the same to this file: a task, its
//! list without the shield, its list under it.

use std::collections::BTreeMap;

use super::change::{Intent, Key};
use super::cpu_list::CpuList;
use super::error::TuneError;
use super::ground::{Cpus, Ground};
use super::host_files::HostFiles;
use super::tasks::{self, Task, TaskId};

/// Names these changes in the journal.
const ID: &str = "shield.threads";

#[derive(Debug)]
struct Held {
    open: CpuList,
    shielded: CpuList,
    follows: bool,
}

/// The tasks held by their own list of CPUs.
#[derive(Debug, Default)]
pub(super) struct Affinities {
    held: BTreeMap<TaskId, Held>,
    /// When the first of them was narrowed: later tasks may have inherited that.
    narrowed_since_ticks: Option<u64>,
}

/// What became of a task that was to be kept off the shielded CPUs.
pub(super) enum Kept {
    Off,
    Refused(String),
    Gone,
}

impl Affinities {
    /// Puts tasks on record, each with the list it has without the shield.
    ///
    /// `inherits`: what they start while the shield is up starts with the shield's list, and no cpuset widens that again.
    pub(super) fn note(
        &mut self,
        ground: &mut Ground<'_>,
        tasks: &[(Task, CpuList)],
        inherits: bool,
    ) -> Result<(), TuneError> {
        let cpus = ground.cpus;
        let mut intents = Vec::new();
        for (task, open) in tasks {
            if inherits && self.narrowed_since_ticks.is_none() && !task.is_kernel() {
                let since_ticks = now_ticks(ground.host);
                self.narrowed_since_ticks = Some(since_ticks);
                let key = Key::Born { since_ticks };
                intents.push(Intent::new(ID, key, cpus.possible.to_string(), cpus.hk.to_string()));
            }

            // Where its interrupt is sent, there it goes; only what it has now must not be forgotten.
            let follows = task.follows_interrupt();
            let open = if follows { open.clone() } else { cpus.given_back(open) };
            let off = || CpuList::kept_off(&open.and(&cpus.online), &cpus.rt, &cpus.hk);
            let shielded = if follows { open.clone() } else { off() };
            let on_the_way = [&cpus.online, &cpus.hk, &cpus.possible].map(ToString::to_string);
            let key = Key::Affinity { task: task.id, follows };
            intents.push(Intent::new(ID, key, open.to_string(), shielded.to_string()).also(on_the_way));
            self.held.insert(task.id, Held { open, shielded, follows });
        }

        ground.record(intents)
    }

    pub(super) fn holds(&self, task: TaskId) -> bool {
        self.held.contains_key(&task)
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// Opens every CPU to a task that has become part of the loop, and holds it no longer.
    pub(super) fn set_free(&mut self, ground: &mut Ground<'_>, task: &Task) -> Result<(), TuneError> {
        let held = self.held.remove(&task.id);
        let Ok(now) = tasks::affinity(ground.host, task.id.tid) else { return Ok(()) };
        if now.meets(&ground.cpus.rt) {
            return Ok(());
        }

        // What it had before the shield is on record already when it was held.
        let open = held.map_or_else(|| ground.cpus.online.clone(), |held| held.open);
        let open = if open.meets(&ground.cpus.rt) { open } else { ground.cpus.online.clone() };
        let key = Key::Affinity { task: task.id, follows: false };
        let intent = Intent::new(ID, key, now.to_string(), open.to_string()).also(ground.cpus.pins_of_a_loop());
        ground.record(vec![intent])?;
        match ground.host.set_affinity(task.id.tid, &open) {
            Err(source) if !tasks::is_gone(&source) => {
                Err(TuneError::Affinity { tid: task.id.tid, cpus: open, source })
            }
            _ => Ok(()),
        }
    }

    /// Brings every held task to its list under the shield, where the kernel has not done so itself.
    pub(super) fn narrow(&mut self, host: &dyn HostFiles, cpus: &Cpus) -> Vec<(TaskId, Kept)> {
        let mut kept = Vec::new();
        for (task, held) in self.held.iter().filter(|(_, held)| !held.follows) {
            kept.push((
                *task,
                bring(host, *task, &held.shielded, &[&held.open, &cpus.online, &cpus.hk, &cpus.possible]),
            ));
        }

        self.drop_gone(&kept);
        kept
    }

    /// Gives every held task its own list back, and to those that inherited the shield's list the whole machine.
    pub(super) fn widen(&mut self, host: &dyn HostFiles, cpus: &Cpus) -> Vec<(TaskId, Kept)> {
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
                let born = task.id.start_ticks >= since && !task.is_kernel() && !self.holds(task.id);
                if born && tasks::affinity(host, task.id.tid).is_ok_and(|now| now == cpus.hk) {
                    // It may end this instant, or be bounded by a cpuset: then there is nothing of ours to take back.
                    let _ = host.set_affinity(task.id.tid, &cpus.possible);
                }
            }
        }

        kept
    }

    /// Tasks that have changed their list themselves since are theirs again: what they chose becomes what they get back.
    pub(super) fn forget_changed(&mut self, host: &dyn HostFiles, cpus: &Cpus) {
        self.held.retain(|task, held| {
            let known = [&held.open, &held.shielded, &cpus.online, &cpus.hk, &cpus.possible];
            tasks::is_alive(host, *task)
                && tasks::affinity(host, task.tid)
                    .is_ok_and(|now| held.follows || known.iter().any(|list| cpus.same(&now, list)))
        });
    }

    fn drop_gone(&mut self, kept: &[(TaskId, Kept)]) {
        for (task, _) in kept.iter().filter(|(_, kept)| matches!(kept, Kept::Gone)) {
            self.held.remove(task);
        }
    }
}

fn bring(host: &dyn HostFiles, task: TaskId, wanted: &CpuList, ours: &[&CpuList]) -> Kept {
    let Ok(now) = tasks::affinity(host, task.tid) else { return Kept::Gone };
    // A list that is neither ours nor the task's own was chosen meanwhile by somebody else, and stays.
    if now == *wanted || !ours.iter().any(|list| now == **list) {
        return Kept::Off;
    }
    if !tasks::is_alive(host, task) {
        return Kept::Gone;
    }

    match host.set_affinity(task.tid, wanted) {
        Ok(()) => Kept::Off,
        Err(error) if tasks::is_gone(&error) => Kept::Gone,
        Err(error) => Kept::Refused(error.to_string()),
    }
}

/// Clock ticks since boot; there are 100 a second for every program (`USER_HZ`), whatever the kernel's own rate is.
fn now_ticks(host: &dyn HostFiles) -> u64 {
    const TICKS_PER_HUNDREDTH: u64 = 1;
    let uptime = host.read("/proc/uptime").unwrap_or_default();
    let (seconds, hundredths) =
        uptime.split_whitespace().next().and_then(|up| up.split_once('.')).unwrap_or(("0", "0"));
    let number = |text: &str| text.parse::<u64>().unwrap_or(0);
    number(seconds) * 100 + number(hundredths) * TICKS_PER_HUNDREDTH
}
