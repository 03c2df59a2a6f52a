//! The shield where cpusets are a hierarchy of their own (cgroup v1), thread by thread.
//!
//! Everything in the root cpuset except the loop moves once into `onbeat-rest`, which allows all
//! CPUs while the shield is down. Raising the shield is one write. Tasks forked later start in
//! `onbeat-rest` and are kept off from their first instruction. Existing cpusets (of containers)
//! are narrowed where they overlap the shielded CPUs.

use std::collections::BTreeMap;

use super::affinity::Affinities;
use super::change::{CgroupVersion, Hierarchy, Intent, Key};
use super::context::{SWEEPS, ShieldContext, TaskRole, ToggledSettings, all_tasks};
use super::cpu_list::CpuList;
use super::error::TuneError;
use super::owned::refuse_existing;
use super::tasks::{self, Task, TaskId};

const ID: &str = "shield.cpuset_v1";

#[derive(Debug)]
pub(super) struct ShieldV1 {
    hierarchy: Hierarchy,
    rest: String,
    others: ToggledSettings,
    narrowed: Vec<String>,
    /// Tasks that cannot change their cpuset, with the reason.
    pub(super) refused: BTreeMap<TaskId, String>,
    pub(super) moved: usize,
    pub(super) notes: Vec<String>,
}

impl ShieldV1 {
    pub(super) fn prepare(
        context: &mut ShieldContext<'_>,
        affinities: &mut Affinities,
        hierarchy: &Hierarchy,
    ) -> Result<Self, TuneError> {
        let mount = &hierarchy.mount;
        let rest = format!("{mount}/onbeat-rest");
        refuse_existing(context.host, &rest, CgroupVersion::V1)?;

        let key =
            Key::CgroupDir { path: rest.clone(), home: mount.clone(), version: CgroupVersion::V1 };
        let memory = context.read(&format!("{mount}/cpuset.mems"))?;
        context.change(&Intent::new(ID, key, "absent", "present"))?;
        context.write(&format!("{rest}/cpuset.mems"), memory.trim())?;
        context.write(&format!("{rest}/cpuset.cpus"), &context.cpus.online.to_string())?;
        let mut shield = Self {
            hierarchy: hierarchy.clone(),
            rest,
            others: ToggledSettings::default(),
            narrowed: Vec::new(),
            refused: BTreeMap::new(),
            moved: 0,
            notes: Vec::new(),
        };

        for task in context.selection.loop_tasks(context.host) {
            shield.admit(context, &task)?;
        }

        shield.sweep(context, affinities)?;
        Ok(shield)
    }

    /// Lets a task of the loop use every CPU.
    pub(super) fn admit(
        &self,
        context: &mut ShieldContext<'_>,
        task: &Task,
    ) -> Result<(), TuneError> {
        let mount = &self.hierarchy.mount;
        match self.hierarchy.directory_of(context.host, task.id.tid) {
            Some(now) if now == *mount => Ok(()),
            // Undo moves all tasks of `onbeat-rest` back before it removes the group, so this move
            // needs no record.
            Some(now) if now == self.rest => {
                match context.write(&format!("{mount}/tasks"), &task.id.tid.to_string()) {
                    Err(TuneError::Write { source, .. }) if tasks::is_gone(&source) => Ok(()),
                    written => written,
                }
            }
            Some(now) => {
                let own = tasks::affinity(context.host, task.id.tid).unwrap_or_default();
                let allowed = CpuList::parse_list(&context.read(&format!("{now}/cpuset.cpus"))?)?;
                if !context.cpus.same(&own, &allowed) {
                    // The task's own choice, which older kernels forget when it changes cpusets.
                    let key = Key::Affinity { task: task.id, follows: false };
                    let all =
                        [&context.cpus.online, &context.cpus.possible].map(ToString::to_string);
                    let intent = Intent::new(ID, key, own.to_string(), all[0].clone());
                    context.record(vec![intent.also(all).also(context.cpus.pins_of_a_loop())])?;
                }

                let key = Key::CgroupTask { task: task.id, hierarchy: self.hierarchy.clone() };
                context.change(&Intent::new(ID, key, now, mount.clone()))
            }
            None => Ok(()),
        }
    }

    pub(super) fn raise(
        &mut self,
        context: &mut ShieldContext<'_>,
        affinities: &mut Affinities,
    ) -> Result<(), TuneError> {
        self.sweep(context, affinities)?;
        let others = if context.selection.covers_machine() {
            self.others_to_narrow(context)
        } else {
            Vec::new()
        };
        self.narrowed = others.iter().map(|(path, _)| path.clone()).collect();
        self.note_pins(context, affinities)?;
        let wanted: Vec<Intent> = others.into_iter().map(|(_, intent)| intent).collect();
        self.others.throw_all(context, &wanted, &mut self.notes)?;
        context.write(&format!("{}/cpuset.cpus", self.rest), &context.cpus.hk.to_string())
    }

    pub(super) fn lower(
        &mut self,
        context: &mut ShieldContext<'_>,
        affinities: &mut Affinities,
    ) -> Result<(), TuneError> {
        self.note_pins(context, affinities)?;
        context.write(&format!("{}/cpuset.cpus", self.rest), &context.cpus.online.to_string())?;
        self.others.back(context)
    }

    /// Moves the tasks to keep off out of the root cpuset, until a pass finds no more.
    fn sweep(
        &mut self,
        context: &mut ShieldContext<'_>,
        affinities: &mut Affinities,
    ) -> Result<(), TuneError> {
        for _ in 0..SWEEPS {
            let all = all_tasks(context.host)?;
            let members = context.read(&format!("{}/tasks", self.hierarchy.mount))?;
            let found: Vec<&Task> = members
                .lines()
                .filter_map(|line| all.get(&line.trim().parse().ok()?))
                .filter(|task| context.selection.role(&all, task) == TaskRole::KeptOff)
                .filter(|task| !self.refused.contains_key(&task.id))
                .collect();

            if found.is_empty() {
                return Ok(());
            }

            // Older kernels forget a task's affinity when it leaves a cpuset, so it is recorded
            // before.
            let with_list = |task: &&Task| {
                Some(((*task).clone(), tasks::affinity(context.host, task.id.tid).ok()?))
            };
            let mut pinned: Vec<(Task, CpuList)> = found.iter().filter_map(with_list).collect();
            pinned.retain(|(task, list)| {
                *list != context.cpus.possible && !affinities.holds(task.id)
            });
            affinities.note(context, &pinned, false)?;
            for task in found {
                match context.host.write(&format!("{}/tasks", self.rest), &task.id.tid.to_string())
                {
                    Ok(()) => self.moved += 1,
                    Err(error) if tasks::is_gone(&error) => {}
                    Err(error) => {
                        self.refused
                            .insert(task.id, format!("its cpuset cannot be changed: {error}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Records the tasks whose own affinity is narrower than their cpuset.
    fn note_pins(
        &self,
        context: &mut ShieldContext<'_>,
        affinities: &mut Affinities,
    ) -> Result<(), TuneError> {
        let mut pinned = Vec::new();
        for group in std::iter::once(&self.rest).chain(&self.narrowed) {
            let file =
                |name: &str| context.host.read(&format!("{group}/{name}")).unwrap_or_default();
            let allowed = CpuList::parse_list(&file("cpuset.cpus")).unwrap_or_default();
            for tid in file("tasks").lines().filter_map(|line| line.trim().parse().ok()) {
                let (Ok(list), Some(task)) =
                    (tasks::affinity(context.host, tid), tasks::task(context.host, tid))
                else {
                    continue;
                };
                if !context.cpus.same(&list, &allowed) && !affinities.holds(task.id) {
                    pinned.push((task, list));
                }
            }
        }

        affinities.note(context, &pinned, false)
    }

    /// Cpusets of others that overlap the shielded CPUs, inner ones first: no cpuset may have a CPU
    /// that its parent lacks.
    fn others_to_narrow(&mut self, context: &ShieldContext<'_>) -> Vec<(String, Intent)> {
        let mut found = Vec::new();
        let mut paths = vec![self.hierarchy.mount.clone()];
        while let Some(parent) = paths.pop() {
            let mut names = context.host.directories(&parent).unwrap_or_default();
            names.sort();
            for path in names
                .iter()
                .map(|name| format!("{parent}/{name}"))
                .filter(|path| *path != self.rest)
            {
                let intent = context.narrowed(ID, &path, &mut self.notes);
                found.extend(intent.map(|intent| (path.clone(), intent)));
                paths.push(path);
            }
        }

        found.reverse();
        found
    }
}
