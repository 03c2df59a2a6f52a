//! The shield where cpusets are part of the unified hierarchy (cgroup v2), process by process.
//!
//! The loop's processes live in `onbeat-loop`. Raising the shield narrows the other groups at the top that have a list of
//! CPUs of their own; when the loop is whole processes, their group then becomes a partition, `isolated` if the kernel
//! agrees, else `root`, and the kernel keeps everything else off by itself. Single threads cannot have a partition of their
//! own: what else their process runs is kept off thread by thread.
//!
//! A group without a list of its own is never given one: up to 6.12 the kernel refuses to make `cpuset.cpus` empty again
//! while there are tasks in the group or below it (ENOSPC, `validate_change` in kernel/cgroup/cpuset.c). A partition takes
//! its CPUs from such groups without a write to them; where there is none, their tasks are kept off one by one.
//!
//! On 6.12 the fair server of a CPU cannot be changed while it is in a partition (EBUSY): set it before the shield is
//! raised and restore it after.

use super::affinity::Affinities;
use super::change::{CgroupVersion, Hierarchy, Intent, Key, Kind};
use super::cpu_list::CpuList;
use super::error::TuneError;
use super::ground::{Ground, Standing, Switches};
use super::tasks::{self, Task};

const ID: &str = "shield.cpuset_v2";
/// Kinds of partition, the better one first: `isolated` has no load balancing either.
const PARTITIONS: [&str; 2] = ["isolated", "root"];

#[derive(Debug)]
pub(super) struct ShieldV2 {
    hierarchy: Hierarchy,
    group: String,
    others: Switches,
    partition: Switches,
    /// What the kernel says of the partition, or why there is none.
    pub(super) partition_note: String,
    pub(super) moved: usize,
    pub(super) notes: Vec<String>,
}

impl ShieldV2 {
    pub(super) fn prepare(
        ground: &mut Ground<'_>,
        affinities: &mut Affinities,
        hierarchy: &Hierarchy,
    ) -> Result<Self, TuneError> {
        let mount = &hierarchy.mount;
        let group = format!("{mount}/onbeat-loop");
        if ground.host.directories(&group).is_ok() {
            return Err(TuneError::CgroupExists { path: group });
        }

        switch_on(ground, affinities, hierarchy)?;
        let key = Key::CgroupDir { path: group.clone(), home: mount.clone(), version: CgroupVersion::V2 };
        ground.change(&Intent::new(ID, key, "absent", "present"))?;
        let mut shield = Self {
            hierarchy: hierarchy.clone(),
            group,
            others: Switches::default(),
            partition: Switches::default(),
            partition_note: String::new(),
            moved: 0,
            notes: Vec::new(),
        };

        for task in ground.who.loop_tasks(ground.host) {
            shield.admit(ground, &task)?;
        }

        Ok(shield)
    }

    /// Moves the process of a loop's task to where it may use the shielded CPUs.
    pub(super) fn admit(&mut self, ground: &mut Ground<'_>, task: &Task) -> Result<(), TuneError> {
        let Some(leader) = tasks::task(ground.host, task.pid) else { return Ok(()) };
        match self.hierarchy.directory_of(ground.host, leader.id.tid) {
            Some(now) if now != self.group => {
                // Kernels before 6.2 forget a task's own list when it changes cpusets.
                let mut lists = Vec::new();
                for thread in tasks::threads(ground.host, task.pid) {
                    let own = tasks::affinity(ground.host, thread.id.tid).unwrap_or_default();
                    if !own.is_empty() && !ground.cpus.is_all(&own) && !ground.cpus.same(&own, &ground.cpus.hk) {
                        let ours =
                            [&ground.cpus.online, &ground.cpus.rt, &ground.cpus.possible].map(ToString::to_string);
                        let key = Key::Affinity { task: thread.id, follows: false };
                        let intent = Intent::new(ID, key, own.to_string(), own.to_string());
                        lists.push(intent.also(ours).also(ground.cpus.pins_of_a_loop()));
                    }
                }

                ground.record(lists)?;
                let key = Key::CgroupTask { task: leader.id, hierarchy: self.hierarchy.clone() };
                ground.change(&Intent::new(ID, key, now, self.group.clone()))?;
                self.moved += 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// `ordinary`: the list of a task that has not confined itself; all CPUs, or fewer when the shield is up already.
    pub(super) fn raise(
        &mut self,
        ground: &mut Ground<'_>,
        affinities: &mut Affinities,
        ordinary: &CpuList,
    ) -> Result<(), TuneError> {
        // systemd switches controllers off that none of its units asks for, whenever it starts one.
        switch_on(ground, affinities, &self.hierarchy)?;
        note_pins(ground, affinities, ordinary)?;
        let others = self.others_to_narrow(ground);
        self.others.record(ground, &others)?;
        for intent in &others {
            if let Err(error) = self.others.throw(ground.host, intent)
                && !tasks::is_gone(&error)
            {
                self.notes.push(format!("{} keeps its CPUs: {error}", intent.key.name()));
            }
        }

        if ground.who.is_of_whole_processes() {
            self.raise_partition(ground)
        } else {
            self.partition_note =
                "no partition: the loop is threads of a process that does other things too".to_owned();
            Ok(())
        }
    }

    pub(super) fn lower(&mut self, ground: &mut Ground<'_>, affinities: &mut Affinities) -> Result<(), TuneError> {
        note_pins(ground, affinities, &ground.cpus.hk.clone())?;
        self.open_group(ground)?;
        self.others.back(ground)
    }

    /// Lets the loop's group use every CPU. It has tasks, so its list cannot be made empty again.
    fn open_group(&mut self, ground: &Ground<'_>) -> Result<(), TuneError> {
        self.partition.back(ground)?;
        match ground.write(&format!("{}/cpuset.cpus", self.group), &ground.cpus.online.to_string()) {
            // Somebody has switched the controller off: the group has every CPU already.
            Err(TuneError::Write { source, .. }) if tasks::is_gone(&source) => Ok(()),
            written => written,
        }
    }

    fn raise_partition(&mut self, ground: &mut Ground<'_>) -> Result<(), TuneError> {
        ground.write(&format!("{}/cpuset.cpus", self.group), &ground.cpus.rt.to_string())?;
        let path = format!("{}/cpuset.cpus.partition", self.group);
        let Ok(old) = ground.host.read(&path) else {
            self.partition_note = "no partition: this kernel has none".to_owned();
            return Ok(());
        };

        if PARTITIONS.contains(&old.trim()) {
            return Ok(());
        }

        let mut notes = Vec::new();
        for kind in PARTITIONS {
            let key = Key::File { path: path.clone(), kind: Kind::FirstWord, shown_in: None };
            let intent = Intent::new(ID, key, old.trim(), kind).also(PARTITIONS.map(str::to_owned));
            self.partition.record(ground, std::slice::from_ref(&intent))?;
            let written = self.partition.throw(ground.host, &intent);
            let now = ground.host.read(&path).unwrap_or_default();
            match written {
                Ok(()) if now.trim() == kind => {
                    self.partition_note = format!("{kind} partition");
                    return Ok(());
                }
                Ok(()) => notes.push(now.trim().to_owned()),
                Err(error) => notes.push(format!("{kind}: {error}")),
            }
        }

        self.partition.back(ground)?;
        self.partition_note = format!("no partition: {}", notes.join("; "));
        Ok(())
    }

    fn others_to_narrow(&mut self, ground: &Ground<'_>) -> Vec<Intent> {
        let mut names = ground.host.directories(&self.hierarchy.mount).unwrap_or_default();
        names.sort();
        let mut wanted = Vec::new();
        for path in
            names.iter().map(|name| format!("{}/{name}", self.hierarchy.mount)).filter(|path| *path != self.group)
        {
            let file = format!("{path}/cpuset.cpus");
            let Ok(old) = ground.host.read(&file) else { continue };
            let allowed = CpuList::parse_list(&old).unwrap_or_default();
            let left = allowed.minus(&ground.cpus.rt);
            if allowed.is_empty() {
                continue;
            }

            if left.is_empty() {
                let note = format!("{path} has no other CPU than {}, so it is left as it is", old.trim());
                if !self.notes.contains(&note) {
                    self.notes.push(note);
                }
            } else if left != allowed {
                let key = Key::File { path: file, kind: Kind::List, shown_in: None };
                wanted.push(Intent::new(ID, key, old.trim(), left.to_string()));
            }
        }

        wanted
    }
}

/// Has the root hand cpusets on to its children, unless it does.
fn switch_on(ground: &mut Ground<'_>, affinities: &mut Affinities, hierarchy: &Hierarchy) -> Result<(), TuneError> {
    let control = format!("{}/cgroup.subtree_control", hierarchy.mount);
    if ground.read(&control)?.split_whitespace().any(|name| name == "cpuset") {
        return Ok(());
    }

    // Every task gets another cpuset by it, and kernels before 6.2 forget its own list then.
    note_pins(ground, affinities, &ground.cpus.online.clone())?;
    let key = Key::Controller { path: control, name: "cpuset".to_owned() };
    ground.change(&Intent::new(ID, key, "off", "on"))?;
    affinities.widen(ground.host, ground.cpus);
    Ok(())
}

/// Puts the tasks on record that are confined further than the shield does: kernels before 6.2 forget that when a group's
/// CPUs change.
fn note_pins(ground: &mut Ground<'_>, affinities: &mut Affinities, ordinary: &CpuList) -> Result<(), TuneError> {
    let all = ground.all_tasks()?;
    let mut pinned = Vec::new();
    let is_down = *ordinary == ground.cpus.online;
    let may_be_forgotten = |task: &&Task| match ground.who.standing(&all, task) {
        Standing::KeptOff => true,
        _ => task.follows_interrupt() && is_down,
    };

    for task in all.values().filter(may_be_forgotten) {
        if let Ok(list) = tasks::affinity(ground.host, task.id.tid)
            && !ground.cpus.same(&list, ordinary)
            && !affinities.holds(task.id)
        {
            pinned.push((task.clone(), list));
        }
    }

    affinities.note(ground, &pinned, false)
}
