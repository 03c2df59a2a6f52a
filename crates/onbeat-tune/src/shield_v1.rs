//! The shield where cpusets are a hierarchy of their own (cgroup v1), thread by thread.
//!
//! Everything in the root cpuset but the loop moves once into `onbeat-rest`, which allows all CPUs while the shield is
//! down. Raising it is one write. What is forked meanwhile is born in `onbeat-rest` and kept off from its first
//! instruction. Cpusets that were there before (containers) are narrowed where they meet the shielded CPUs.

use std::collections::BTreeMap;

use super::affinity::Affinities;
use super::change::{CgroupVersion, Hierarchy, Intent, Key, Kind};
use super::cpu_list::CpuList;
use super::error::TuneError;
use super::ground::{Ground, Standing, Switches};
use super::shield::SWEEPS;
use super::tasks::{self, Task, TaskId};

const ID: &str = "shield.cpuset_v1";

#[derive(Debug)]
pub(super) struct ShieldV1 {
    hierarchy: Hierarchy,
    rest: String,
    others: Switches,
    narrowed: Vec<String>,
    /// Tasks that no cpuset takes, and why.
    pub(super) refused: BTreeMap<TaskId, String>,
    pub(super) moved: usize,
    pub(super) notes: Vec<String>,
}

impl ShieldV1 {
    pub(super) fn prepare(
        ground: &mut Ground<'_>,
        affinities: &mut Affinities,
        hierarchy: &Hierarchy,
    ) -> Result<Self, TuneError> {
        let mount = &hierarchy.mount;
        let rest = format!("{mount}/onbeat-rest");
        if ground.host.directories(&rest).is_ok() {
            return Err(TuneError::CgroupExists { path: rest });
        }

        let key = Key::CgroupDir { path: rest.clone(), home: mount.clone(), version: CgroupVersion::V1 };
        let memory = ground.read(&format!("{mount}/cpuset.mems"))?;
        ground.change(&Intent::new(ID, key, "absent", "present"))?;
        ground.write(&format!("{rest}/cpuset.mems"), memory.trim())?;
        ground.write(&format!("{rest}/cpuset.cpus"), &ground.cpus.online.to_string())?;
        let mut shield = Self {
            hierarchy: hierarchy.clone(),
            rest,
            others: Switches::default(),
            narrowed: Vec::new(),
            refused: BTreeMap::new(),
            moved: 0,
            notes: Vec::new(),
        };

        for task in ground.who.loop_tasks(ground.host) {
            shield.admit(ground, &task)?;
        }

        shield.sweep(ground, affinities)?;
        Ok(shield)
    }

    /// Lets a task of the loop use every CPU.
    pub(super) fn admit(&self, ground: &mut Ground<'_>, task: &Task) -> Result<(), TuneError> {
        let mount = &self.hierarchy.mount;
        match self.hierarchy.directory_of(ground.host, task.id.tid) {
            Some(now) if now == *mount => Ok(()),
            // `onbeat-rest` sends all its tasks home when it is removed, so this move needs no record.
            Some(now) if now == self.rest => match ground.write(&format!("{mount}/tasks"), &task.id.tid.to_string()) {
                Err(TuneError::Write { source, .. }) if tasks::is_gone(&source) => Ok(()),
                written => written,
            },
            Some(now) => {
                let own = tasks::affinity(ground.host, task.id.tid).unwrap_or_default();
                let allowed = CpuList::parse_list(&ground.read(&format!("{now}/cpuset.cpus"))?)?;
                if !ground.cpus.same(&own, &allowed) {
                    // Its own choice, which older kernels forget when it changes cpusets.
                    let key = Key::Affinity { task: task.id, follows: false };
                    let all = [&ground.cpus.online, &ground.cpus.possible].map(ToString::to_string);
                    let intent = Intent::new(ID, key, own.to_string(), all[0].clone());
                    ground.record(vec![intent.also(all).also(ground.cpus.pins_of_a_loop())])?;
                }

                let key = Key::CgroupTask { task: task.id, hierarchy: self.hierarchy.clone() };
                ground.change(&Intent::new(ID, key, now, mount.clone()))
            }
            None => Ok(()),
        }
    }

    pub(super) fn raise(&mut self, ground: &mut Ground<'_>, affinities: &mut Affinities) -> Result<(), TuneError> {
        self.sweep(ground, affinities)?;
        let others = if ground.who.covers_machine() { self.others_to_narrow(ground) } else { Vec::new() };
        self.narrowed = others.iter().map(|(path, _)| path.clone()).collect();
        self.note_pins(ground, affinities)?;
        let wanted: Vec<Intent> = others.into_iter().map(|(_, intent)| intent).collect();
        self.others.record(ground, &wanted)?;

        for intent in &wanted {
            if let Err(error) = self.others.throw(ground.host, intent)
                && !tasks::is_gone(&error)
            {
                self.notes.push(format!("{} keeps its CPUs: {error}", intent.key.name()));
            }
        }

        ground.write(&format!("{}/cpuset.cpus", self.rest), &ground.cpus.hk.to_string())
    }

    pub(super) fn lower(&mut self, ground: &mut Ground<'_>, affinities: &mut Affinities) -> Result<(), TuneError> {
        self.note_pins(ground, affinities)?;
        ground.write(&format!("{}/cpuset.cpus", self.rest), &ground.cpus.online.to_string())?;
        self.others.back(ground)
    }

    /// Moves everything out of the root cpuset that is to be kept off, until a pass finds nothing more.
    fn sweep(&mut self, ground: &mut Ground<'_>, affinities: &mut Affinities) -> Result<(), TuneError> {
        for _ in 0..SWEEPS {
            let all = ground.all_tasks()?;
            let members = ground.read(&format!("{}/tasks", self.hierarchy.mount))?;
            let found: Vec<&Task> = members
                .lines()
                .filter_map(|line| all.get(&line.trim().parse().ok()?))
                .filter(|task| ground.who.standing(&all, task) == Standing::KeptOff)
                .filter(|task| !self.refused.contains_key(&task.id))
                .collect();

            if found.is_empty() {
                return Ok(());
            }

            // Leaving a cpuset makes older kernels forget a task's own list, so it is on record before.
            let with_list = |task: &&Task| Some(((*task).clone(), tasks::affinity(ground.host, task.id.tid).ok()?));
            let mut pinned: Vec<(Task, CpuList)> = found.iter().filter_map(with_list).collect();
            pinned.retain(|(task, list)| *list != ground.cpus.possible && !affinities.holds(task.id));
            affinities.note(ground, &pinned, false)?;
            for task in found {
                match ground.host.write(&format!("{}/tasks", self.rest), &task.id.tid.to_string()) {
                    Ok(()) => self.moved += 1,
                    Err(error) if tasks::is_gone(&error) => {}
                    Err(error) => {
                        self.refused.insert(task.id, format!("its cpuset cannot be changed: {error}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Puts the tasks on record that have confined themselves further than their cpuset does.
    fn note_pins(&self, ground: &mut Ground<'_>, affinities: &mut Affinities) -> Result<(), TuneError> {
        let mut pinned = Vec::new();
        for group in std::iter::once(&self.rest).chain(&self.narrowed) {
            let file = |name: &str| ground.host.read(&format!("{group}/{name}")).unwrap_or_default();
            let allowed = CpuList::parse_list(&file("cpuset.cpus")).unwrap_or_default();
            for tid in file("tasks").lines().filter_map(|line| line.trim().parse().ok()) {
                let (Ok(list), Some(task)) = (tasks::affinity(ground.host, tid), tasks::task(ground.host, tid)) else {
                    continue;
                };
                if !ground.cpus.same(&list, &allowed) && !affinities.holds(task.id) {
                    pinned.push((task, list));
                }
            }
        }

        affinities.note(ground, &pinned, false)
    }

    /// The cpusets somebody else made that meet the shielded CPUs, inner ones first: none may have a CPU its parent lacks.
    fn others_to_narrow(&mut self, ground: &Ground<'_>) -> Vec<(String, Intent)> {
        let mut found = Vec::new();
        let mut paths = vec![self.hierarchy.mount.clone()];
        while let Some(parent) = paths.pop() {
            let mut names = ground.host.directories(&parent).unwrap_or_default();
            names.sort();
            for path in names.iter().map(|name| format!("{parent}/{name}")).filter(|path| *path != self.rest) {
                let file = format!("{path}/cpuset.cpus");
                let old = ground.host.read(&file).unwrap_or_default();
                let allowed = CpuList::parse_list(&old).unwrap_or_default();
                let left = allowed.minus(&ground.cpus.rt);
                if allowed.meets(&ground.cpus.rt) && left.is_empty() {
                    let note = format!("{path} has no other CPU than {}, so it is left as it is", old.trim());
                    if !self.notes.contains(&note) {
                        self.notes.push(note);
                    }
                } else if allowed.meets(&ground.cpus.rt) {
                    let key = Key::File { path: file, kind: Kind::List, shown_in: None };
                    found.push((path.clone(), Intent::new(ID, key, old.trim(), left.to_string())));
                }

                paths.push(path);
            }
        }

        found.reverse();
        found
    }
}
