//! The shield where cpusets are part of the unified hierarchy (cgroup v2), process by process.
//!
//! The loop's processes are in `onbeat-loop`. Raising the shield narrows the other top-level groups
//! that have a list of CPUs of their own. When the loop consists of whole processes, their group
//! then becomes a partition, `isolated` if the kernel accepts that, else `root`, and the kernel
//! keeps everything else off. Single threads cannot have a partition: the other threads of their
//! process are kept off one by one.
//!
//! A group without a list of its own is never given one: up to 6.12 the kernel refuses to make
//! `cpuset.cpus` empty again while there are tasks in the group or below it (ENOSPC,
//! `validate_change` in kernel/cgroup/cpuset.c). A partition takes its CPUs from such groups
//! without a write to them; where there is none, their tasks are kept off one by one.
//!
//! The fair server of a CPU cannot be changed while it is in a partition (EBUSY), unless
//! `sched_rt_runtime_us` is -1 (`plan/partition.rs`).

use std::fmt;

use super::affinity::Affinities;
use super::change::{CgroupVersion, Hierarchy, Intent, Key, Kind};
use super::context::{ShieldContext, TaskRole, ToggledSettings, all_tasks};
use super::cpu_list::CpuList;
use super::error::TuneError;
use super::owned::refuse_existing;
use super::tasks::{self, Task};

const ID: &str = "shield.cpuset_v2";
/// Kinds of partition, preferred one first: `isolated` also has no load balancing.
const PARTITIONS: [&str; 2] = ["isolated", "root"];

/// The partition of the loop's group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CpusetPartition {
    /// None was asked for.
    Unused,
    /// The kernel made one.
    Made {
        /// Its kind: `isolated` or `root`.
        kind: &'static str,
    },
    /// There is none.
    Refused { why: String },
}

impl fmt::Display for CpusetPartition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unused => Ok(()),
            Self::Made { kind } => write!(out, "{kind} partition"),
            Self::Refused { why } => write!(out, "no partition: {why}"),
        }
    }
}

#[derive(Debug)]
pub(super) struct ShieldV2 {
    hierarchy: Hierarchy,
    group: String,
    others: ToggledSettings,
    partition: ToggledSettings,
    pub(super) partition_result: CpusetPartition,
    pub(super) moved: usize,
    pub(super) notes: Vec<String>,
}

impl ShieldV2 {
    pub(super) fn prepare(
        context: &mut ShieldContext<'_>,
        affinities: &mut Affinities,
        hierarchy: &Hierarchy,
    ) -> Result<Self, TuneError> {
        let mount = &hierarchy.mount;
        let group = format!("{mount}/onbeat-loop");
        refuse_existing(context.host, &group, CgroupVersion::V2)?;

        switch_on(context, affinities, hierarchy)?;
        let key =
            Key::CgroupDir { path: group.clone(), home: mount.clone(), version: CgroupVersion::V2 };
        context.change(&Intent::new(ID, key, "absent", "present"))?;
        let mut shield = Self {
            hierarchy: hierarchy.clone(),
            group,
            others: ToggledSettings::default(),
            partition: ToggledSettings::default(),
            partition_result: CpusetPartition::Unused,
            moved: 0,
            notes: Vec::new(),
        };

        for task in context.selection.loop_tasks(context.host) {
            shield.admit(context, &task)?;
        }

        Ok(shield)
    }

    /// Moves the process of a loop's task into the group that may use the shielded CPUs.
    pub(super) fn admit(
        &mut self,
        context: &mut ShieldContext<'_>,
        task: &Task,
    ) -> Result<(), TuneError> {
        let Some(leader) = tasks::task(context.host, task.pid) else { return Ok(()) };
        match self.hierarchy.directory_of(context.host, leader.id.tid) {
            Some(now) if now != self.group => {
                // Kernels before 6.2 forget a task's own list when it changes cpusets.
                let mut lists = Vec::new();
                for thread in tasks::threads(context.host, task.pid) {
                    let own = tasks::affinity(context.host, thread.id.tid).unwrap_or_default();
                    if !own.is_empty()
                        && !context.cpus.is_all(&own)
                        && !context.cpus.same(&own, &context.cpus.hk)
                    {
                        let ours = [&context.cpus.online, &context.cpus.rt, &context.cpus.possible]
                            .map(ToString::to_string);
                        let key = Key::Affinity { task: thread.id, follows: false };
                        let intent = Intent::new(ID, key, own.to_string(), own.to_string());
                        lists.push(intent.also(ours).also(context.cpus.pins_of_a_loop()));
                    }
                }

                context.record(lists)?;
                let key = Key::CgroupTask { task: leader.id, hierarchy: self.hierarchy.clone() };
                context.change(&Intent::new(ID, key, now, self.group.clone()))?;
                self.moved += 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// `ordinary`: the mask of an unconfined task; all CPUs, or fewer when the shield is already
    /// up.
    pub(super) fn raise(
        &mut self,
        context: &mut ShieldContext<'_>,
        affinities: &mut Affinities,
        ordinary: &CpuList,
    ) -> Result<(), TuneError> {
        // systemd disables controllers that no unit uses, whenever it starts a unit.
        switch_on(context, affinities, &self.hierarchy)?;
        note_pins(context, affinities, ordinary)?;
        let others = self.others_to_narrow(context);
        self.others.throw_all(context, &others, &mut self.notes)?;
        if context.selection.is_of_whole_processes() {
            self.raise_partition(context)
        } else {
            let why = "the loop's process has other threads too".to_owned();
            self.partition_result = CpusetPartition::Refused { why };
            Ok(())
        }
    }

    pub(super) fn lower(
        &mut self,
        context: &mut ShieldContext<'_>,
        affinities: &mut Affinities,
    ) -> Result<(), TuneError> {
        note_pins(context, affinities, &context.cpus.hk.clone())?;
        self.open_group(context)?;
        self.others.back(context)
    }

    /// Allows the loop's group every CPU. It has tasks, so its list cannot be made empty again.
    fn open_group(&mut self, context: &ShieldContext<'_>) -> Result<(), TuneError> {
        self.partition.back(context)?;
        match context
            .write(&format!("{}/cpuset.cpus", self.group), &context.cpus.online.to_string())
        {
            // Another program has disabled the controller: the group already has every CPU.
            Err(TuneError::Write { source, .. }) if tasks::is_gone(&source) => Ok(()),
            written => written,
        }
    }

    fn raise_partition(&mut self, context: &mut ShieldContext<'_>) -> Result<(), TuneError> {
        context.write(&format!("{}/cpuset.cpus", self.group), &context.cpus.rt.to_string())?;
        let path = format!("{}/cpuset.cpus.partition", self.group);
        let Ok(old) = context.host.read(&path) else {
            let why = "not supported by this kernel".to_owned();
            self.partition_result = CpusetPartition::Refused { why };
            return Ok(());
        };

        if PARTITIONS.contains(&old.trim()) {
            return Ok(());
        }

        let mut notes = Vec::new();
        for kind in PARTITIONS {
            let key = Key::File { path: path.clone(), kind: Kind::FirstWord, shown_in: None };
            let intent = Intent::new(ID, key, old.trim(), kind).also(PARTITIONS.map(str::to_owned));
            self.partition.record(context, std::slice::from_ref(&intent))?;
            let written = self.partition.throw(context.host, &intent);
            let now = context.host.read(&path).unwrap_or_default();
            match written {
                Ok(()) if now.trim() == kind => {
                    self.partition_result = CpusetPartition::Made { kind };
                    return Ok(());
                }
                Ok(()) => notes.push(now.trim().to_owned()),
                Err(error) => notes.push(format!("{kind}: {error}")),
            }
        }

        self.partition.back(context)?;
        self.partition_result = CpusetPartition::Refused { why: notes.join("; ") };
        Ok(())
    }

    fn others_to_narrow(&mut self, context: &ShieldContext<'_>) -> Vec<Intent> {
        let mut names = context.host.directories(&self.hierarchy.mount).unwrap_or_default();
        names.sort();
        let paths = names.iter().map(|name| format!("{}/{name}", self.hierarchy.mount));
        let others = paths.filter(|path| *path != self.group);
        others.filter_map(|path| context.narrowed(ID, &path, &mut self.notes)).collect()
    }
}

/// Enables the cpuset controller for the children of the root.
fn switch_on(
    context: &mut ShieldContext<'_>,
    affinities: &mut Affinities,
    hierarchy: &Hierarchy,
) -> Result<(), TuneError> {
    let control = format!("{}/cgroup.subtree_control", hierarchy.mount);
    if context.read(&control)?.split_whitespace().any(|name| name == "cpuset") {
        return Ok(());
    }

    // This moves every task to another cpuset, and kernels before 6.2 then forget its affinity.
    note_pins(context, affinities, &context.cpus.online.clone())?;
    let key = Key::Controller { path: control, name: "cpuset".to_owned() };
    context.change(&Intent::new(ID, key, "off", "on"))?;
    affinities.widen(context.host, context.cpus);
    Ok(())
}

/// Records the tasks whose affinity is narrower than the shield's: kernels before 6.2 forget it
/// when a group's CPUs change.
fn note_pins(
    context: &mut ShieldContext<'_>,
    affinities: &mut Affinities,
    ordinary: &CpuList,
) -> Result<(), TuneError> {
    let all = all_tasks(context.host)?;
    let mut pinned = Vec::new();
    let is_down = *ordinary == context.cpus.online;
    let may_be_forgotten = |task: &&Task| match context.selection.role(&all, task) {
        TaskRole::KeptOff => true,
        _ => task.follows_interrupt() && is_down,
    };

    for task in all.values().filter(may_be_forgotten) {
        if let Ok(list) = tasks::affinity(context.host, task.id.tid)
            && !context.cpus.same(&list, ordinary)
            && !affinities.holds(task.id)
        {
            pinned.push((task.clone(), list));
        }
    }

    affinities.note(context, &pinned, false)
}
