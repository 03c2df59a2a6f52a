//! CPUs freed of everything but the loop: the tuning C of the bench.
//!
//! [`Shield::prepare`] builds what is needed without any effect on where things run; [`Shield::raise`] and
//! [`Shield::lower`] then go to and fro as often as wanted, in less than a tenth of a second; [`Shield::dismantle`] puts
//! all back. Off the shielded CPUs go user tasks, kernel threads that are not bound to them, interrupts that may be moved,
//! the kernel's unbound work, and everything that is started while the shield is up.
//!
//! Figures behind it: keeping load off the loop's CPU lowered the 99th percentile of its wake-up latency from 170 to 73 µs
//! on a two-CPU guest; Yoon et al., 2009, section 3.1, say why.
//!
//! Absent on purpose: choosing the CPUs, priorities, and undoing anything because a process ended.

use std::fmt;

use rustix::io::Errno;

use super::affinity::{Affinities, Kept};
use super::change::{CgroupVersion, Hierarchy, UndoMode};
use super::cpu_list::CpuList;
use super::error::TuneError;
use super::ground::{Cpus, Ground, Standing, Who, all_tasks};
use super::host_files::HostFiles;
use super::irq::{Interrupts, RefusedIrq};
use super::journal::{Journal, Step, Undone};
use super::shield_v1::ShieldV1;
use super::shield_v2::ShieldV2;
use super::tasks::{self, TaskId};

/// Tasks fork while they are moved: as many passes are made, at most, as find something new.
pub(super) const SWEEPS: usize = 5;

/// Who may use the shielded CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Free {
    /// A process with all its threads. What it starts while the shield is up shares its freedom until the next raise, so a
    /// process that also starts loads should name its loop's thread instead.
    Process(i32),
    /// One thread. What the rest of its process runs and starts is kept off.
    Thread(i32),
}

impl Free {
    pub(super) const fn number(self) -> i32 {
        match self {
            Self::Process(number) | Self::Thread(number) => number,
        }
    }
}

/// Which user tasks the shield may touch. Kernel threads and interrupts are touched in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All of the machine.
    Machine,
    /// Only this process and what descends from it; the others stay as they are, and are counted in the report.
    Under(i32),
}

/// What is to be shielded, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The CPUs to be freed.
    pub rt: CpuList,
    /// Who may use them.
    pub free: Vec<Free>,
    /// Whom the shield may touch.
    pub scope: Scope,
}

/// How tasks are kept off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// A cpuset of the unified hierarchy, as a partition where the kernel agrees.
    CpusetV2,
    /// A cpuset of a hierarchy of its own.
    CpusetV1,
    /// Every task's own list of CPUs, repeated for new tasks at each raise.
    AffinityOnly,
}

impl fmt::Display for Mechanism {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::CpusetV2 => "cgroup v2 cpuset",
            Self::CpusetV1 => "cgroup v1 cpuset",
            Self::AffinityOnly => "affinity only",
        })
    }
}

/// A task that may still use a shielded CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Which one.
    pub task: TaskId,
    /// Its name.
    pub comm: String,
    /// The CPUs it may use.
    pub cpus: CpuList,
    /// Why it could not be kept off.
    pub reason: String,
}

/// What a raised shield keeps off, what not, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The shielded CPUs.
    pub rt: CpuList,
    /// The CPUs for everything else.
    pub hk: CpuList,
    /// How tasks are kept off.
    pub mechanism: Mechanism,
    /// The kind of partition, or why there is none; empty where there is no such thing.
    pub partition: String,
    /// Tasks moved to another cgroup, since the shield was prepared.
    pub tasks_moved: usize,
    /// Tasks whose own list of CPUs is held now.
    pub tasks_held: usize,
    /// Names of kernel threads that may use shielded CPUs and cannot be moved.
    pub bound: Vec<String>,
    /// User tasks outside the scope that may use shielded CPUs.
    pub outside: usize,
    /// Tasks that should have been kept off and were not. Empty on a good day.
    pub left: Vec<Left>,
    /// Interrupts sent elsewhere.
    pub irqs_moved: usize,
    /// Interrupts that stay.
    pub irqs_refused: Vec<RefusedIrq>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
}

#[derive(Debug)]
enum Placement {
    V1(ShieldV1),
    V2(ShieldV2),
    AffinityOnly { note: Option<String> },
}

/// A shield that is prepared, up or down. Dropping it undoes nothing: its journal still knows everything.
#[derive(Debug)]
pub struct Shield {
    cpus: Cpus,
    who: Who,
    placement: Placement,
    affinities: Affinities,
    interrupts: Interrupts,
    steps: Vec<Step>,
    is_up: bool,
}

impl Shield {
    /// Prepares a shield of the whole machine. Nothing moves to other CPUs yet.
    ///
    /// # Errors
    /// As [`Shield::prepare_as`].
    pub fn prepare(
        host: &dyn HostFiles,
        journal: &mut Journal,
        rt: &CpuList,
        free: &[Free],
    ) -> Result<Self, TuneError> {
        Self::prepare_as(host, journal, &Wish { rt: rt.clone(), free: free.to_vec(), scope: Scope::Machine })
    }

    /// Prepares a shield. Nothing moves to other CPUs yet. When it fails, what it had changed is put back.
    ///
    /// # Errors
    /// When the CPUs cannot be divided ([`TuneError::NoHousekeeping`], [`TuneError::NotOnline`],
    /// [`TuneError::NoRtCpu`]), the user is not root, a task to be kept free is gone, or the host refuses a change.
    pub fn prepare_as(host: &dyn HostFiles, journal: &mut Journal, wish: &Wish) -> Result<Self, TuneError> {
        let hierarchy = cpuset_hierarchy(host);
        let cpus = Cpus::divide(host, &wish.rt, hierarchy.as_ref())?;
        if !host.is_root() {
            return Err(TuneError::NeedsRoot { rt: cpus.rt, command: journal.command().to_owned() });
        }

        let who = Who::new(host, &wish.free, wish.scope)?;
        let mut shield = Self {
            cpus,
            who,
            placement: Placement::AffinityOnly { note: None },
            affinities: Affinities::default(),
            interrupts: Interrupts::default(),
            steps: Vec::new(),
            is_up: false,
        };

        match shield.place(host, journal, hierarchy.as_ref()) {
            Ok(()) => Ok(shield),
            Err(error) => {
                journal.undo(host, &shield.steps, UndoMode::Careful)?;
                if !is_closed_to_us(&error) {
                    return Err(error);
                }

                let note = Some(format!("cpusets cannot be used here: {error}"));
                shield.placement = Placement::AffinityOnly { note };
                shield.affinities = Affinities::default();
                Ok(shield)
            }
        }
    }

    fn place(
        &mut self,
        host: &dyn HostFiles,
        journal: &mut Journal,
        hierarchy: Option<&Hierarchy>,
    ) -> Result<(), TuneError> {
        let mut ground = Ground { host, journal, steps: &mut self.steps, cpus: &self.cpus, who: &self.who };
        match hierarchy {
            Some(v1) if v1.version == CgroupVersion::V1 => {
                self.placement = Placement::V1(ShieldV1::prepare(&mut ground, &mut self.affinities, v1)?);
            }
            // A group of v2 is narrowed with all that is in it, so a scope smaller than the machine cannot use it.
            Some(v2) if self.who.covers_machine() => {
                self.placement = Placement::V2(ShieldV2::prepare(&mut ground, &mut self.affinities, v2)?);
            }
            _ => {}
        }

        Ok(())
    }

    /// Frees the CPUs now, and says what could not be moved. Raising again takes in what was started meanwhile.
    ///
    /// # Errors
    /// When the journal or the host refuses; then the shield is lowered again as far as that goes.
    pub fn raise(&mut self, host: &dyn HostFiles, journal: &mut Journal) -> Result<Report, TuneError> {
        match self.try_raise(host, journal) {
            Ok(report) => Ok(report),
            Err(error) => {
                // The first error says what is wrong; what cannot be lowered stays on record.
                let _ = self.lower(host, journal);
                Err(error)
            }
        }
    }

    fn try_raise(&mut self, host: &dyn HostFiles, journal: &mut Journal) -> Result<Report, TuneError> {
        let was_up = std::mem::replace(&mut self.is_up, true);
        let mut ground = Ground { host, journal, steps: &mut self.steps, cpus: &self.cpus, who: &self.who };
        self.affinities.forget_changed(host, &self.cpus);
        match &mut self.placement {
            Placement::V1(v1) => v1.raise(&mut ground, &mut self.affinities)?,
            Placement::V2(v2) => {
                let ordinary = if was_up { &self.cpus.hk } else { &self.cpus.online };
                v2.raise(&mut ground, &mut self.affinities, ordinary)?;
            }
            Placement::AffinityOnly { .. } => {}
        }

        let refused = keep_off(&mut ground, &mut self.affinities)?;
        let irqs_moved = self.interrupts.raise(&mut ground)?;
        self.report(host, &refused, irqs_moved)
    }

    /// Gives the CPUs back to everybody. The shield can be raised again.
    ///
    /// # Errors
    /// When the host refuses a change; it stays on record.
    pub fn lower(&mut self, host: &dyn HostFiles, journal: &mut Journal) -> Result<(), TuneError> {
        let mut ground = Ground { host, journal, steps: &mut self.steps, cpus: &self.cpus, who: &self.who };
        let interrupts = self.interrupts.lower(&ground);
        let placement = match &mut self.placement {
            Placement::V1(v1) => v1.lower(&mut ground, &mut self.affinities),
            Placement::V2(v2) => v2.lower(&mut ground, &mut self.affinities),
            Placement::AffinityOnly { .. } => Ok(()),
        };

        self.affinities.widen(host, &self.cpus);
        self.is_up = false;
        interrupts.and(placement)
    }

    /// Lets another task use the shielded CPUs: a loop's thread that was started after the shield was prepared. Call it
    /// before that thread is pinned.
    ///
    /// # Errors
    /// [`TuneError::NoSuchTask`] when it is gone, else when the journal or the host refuses.
    pub fn admit(&mut self, host: &dyn HostFiles, journal: &mut Journal, free: Free) -> Result<(), TuneError> {
        self.who.admit(host, free)?;
        let tasks = match free {
            Free::Process(pid) => tasks::threads(host, pid),
            Free::Thread(tid) => tasks::task(host, tid).into_iter().collect(),
        };

        let mut ground = Ground { host, journal, steps: &mut self.steps, cpus: &self.cpus, who: &self.who };
        for task in tasks {
            match &mut self.placement {
                Placement::V1(v1) => v1.admit(&mut ground, &task)?,
                Placement::V2(v2) => v2.admit(&mut ground, &task)?,
                Placement::AffinityOnly { .. } => {}
            }
            self.affinities.set_free(&mut ground, &task)?;
        }

        if self.is_up {
            // What came along with it, the other threads of its process, may not stay free.
            keep_off(&mut ground, &mut self.affinities)?;
        }

        Ok(())
    }

    /// Takes the shield down and puts everything back that it has changed. The answer says what became of each change.
    ///
    /// # Errors
    /// [`TuneError::Journal`] when that could not be noted. A setting that could not be put back is in the answer, and stays
    /// on record.
    pub fn dismantle(mut self, host: &dyn HostFiles, journal: &mut Journal) -> Result<Vec<Undone>, TuneError> {
        // Undo alone would do; lowering first also gives tasks their lists back that are not on record one by one.
        let _ = self.lower(host, journal);
        journal.undo(host, &self.steps, UndoMode::Careful)
    }

    /// How tasks are kept off.
    #[must_use]
    pub const fn mechanism(&self) -> Mechanism {
        match self.placement {
            Placement::V1(_) => Mechanism::CpusetV1,
            Placement::V2(_) => Mechanism::CpusetV2,
            Placement::AffinityOnly { .. } => Mechanism::AffinityOnly,
        }
    }

    fn report(
        &self,
        host: &dyn HostFiles,
        refused: &[(TaskId, String)],
        irqs_moved: usize,
    ) -> Result<Report, TuneError> {
        let mut report = Report {
            rt: self.cpus.rt.clone(),
            hk: self.cpus.hk.clone(),
            mechanism: self.mechanism(),
            partition: String::new(),
            tasks_moved: 0,
            tasks_held: self.affinities.len(),
            bound: Vec::new(),
            outside: 0,
            left: Vec::new(),
            irqs_moved,
            irqs_refused: self.interrupts.refused(host, &self.cpus),
            notes: Vec::new(),
        };

        match &self.placement {
            Placement::V1(v1) => {
                report.tasks_moved = v1.moved;
                report.notes.extend(v1.notes.iter().cloned());
            }
            Placement::V2(v2) => {
                report.tasks_moved = v2.moved;
                report.partition.clone_from(&v2.partition_note);
                report.notes.extend(v2.notes.iter().cloned());
            }
            Placement::AffinityOnly { note } => report.notes.extend(note.clone()),
        }

        let masks = self.interrupts.refused_masks.iter();
        report.notes.extend(masks.map(|(path, why)| format!("{path} could not be written: {why}")));
        self.look_who_is_left(host, refused, &mut report)?;
        Ok(report)
    }

    fn look_who_is_left(
        &self,
        host: &dyn HostFiles,
        refused: &[(TaskId, String)],
        report: &mut Report,
    ) -> Result<(), TuneError> {
        let all = all_tasks(host)?;
        for task in all.values() {
            if task.comm == "irqbalance" {
                report.notes.push("irqbalance runs and may send interrupts back: stop it while measuring".to_owned());
            }

            let standing = self.who.standing(&all, task);
            let Ok(cpus) = tasks::affinity(host, task.id.tid) else { continue };
            if standing == Standing::Loop || !cpus.meets(&self.cpus.rt) {
                continue;
            }

            match standing {
                Standing::Bound => report.bound.push(task.comm.clone()),
                Standing::Outside => report.outside += 1,
                Standing::KeptOff | Standing::Loop => {
                    let reason = refused.iter().find(|(id, _)| *id == task.id).map(|(_, reason)| reason.clone());
                    let reason = reason.unwrap_or_else(|| "it appeared or chose its CPUs meanwhile".to_owned());
                    report.left.push(Left { task: task.id, comm: task.comm.clone(), cpus, reason });
                }
            }
        }

        Ok(())
    }
}

impl Report {
    /// The report in sentences for the user.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = vec![format!(
            "CPU {} is shielded by {}{}: {} tasks moved, {} held by their own list of CPUs, {} interrupts sent to CPU {}",
            self.rt,
            self.mechanism,
            if self.partition.is_empty() { String::new() } else { format!(" ({})", self.partition) },
            self.tasks_moved,
            self.tasks_held,
            self.irqs_moved,
            self.hk,
        )];
        if !self.bound.is_empty() {
            sentences.push(format!(
                "{} kernel threads are bound and stay: {}",
                self.bound.len(),
                self.bound.join(", ")
            ));
        }

        for irq in &self.irqs_refused {
            sentences.push(format!(
                "interrupt {} ({}) stays, {}; it came {} times since boot, {} of them on CPU {}",
                irq.number,
                irq.actions.join(", "),
                irq.reason,
                irq.count,
                irq.count_on_rt,
                self.rt,
            ));
        }

        for left in &self.left {
            sentences.push(format!(
                "task {} ({}) may still use CPU {}: {}",
                left.task.tid, left.comm, left.cpus, left.reason
            ));
        }

        if self.outside > 0 {
            sentences.push(format!("{} tasks outside the scope may still use CPU {}", self.outside, self.rt));
        }

        sentences.extend(self.notes.iter().cloned());
        sentences
    }
}

/// The hierarchy that rules cpusets on this host: v1 where it is mounted, else v2 where its root offers it.
#[must_use]
pub fn cpuset_hierarchy(host: &dyn HostFiles) -> Option<Hierarchy> {
    let mounts = host.read("/proc/self/mountinfo").ok()?;
    let found = |version| {
        mounts.lines().find_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let left: Vec<&str> = left.split(' ').collect();
            let right: Vec<&str> = right.split(' ').collect();
            let (root, mount) = (unescape(left.get(3)?), unescape(left.get(4)?));
            let rules = match version {
                CgroupVersion::V1 => {
                    right.first() == Some(&"cgroup")
                        && right.get(2)?.split(',').any(|option| option == "cpuset")
                        && host.read(&format!("{mount}/cpuset.cpus")).is_ok()
                }
                CgroupVersion::V2 | CgroupVersion::V2Threads => {
                    let controllers = || host.read(&format!("{mount}/cgroup.controllers")).unwrap_or_default();
                    right.first() == Some(&"cgroup2") && controllers().split_whitespace().any(|name| name == "cpuset")
                }
            };

            rules.then_some(Hierarchy { mount, root, version })
        })
    };

    found(CgroupVersion::V1).or_else(|| found(CgroupVersion::V2))
}

/// A path in mountinfo writes blanks as `\040`.
fn unescape(path: &str) -> String {
    path.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
}

/// Keeps off by their own lists what no cpuset keeps off, until a pass finds nothing more. Returns who refused, and why.
fn keep_off(ground: &mut Ground<'_>, affinities: &mut Affinities) -> Result<Vec<(TaskId, String)>, TuneError> {
    let mut refused: Vec<(TaskId, String)> = Vec::new();
    take_refused(&mut refused, affinities.narrow(ground.host, ground.cpus));
    for _ in 0..SWEEPS {
        let mut new = left_on_rt(ground)?;
        new.retain(|(task, _)| !affinities.holds(task.id));
        if new.is_empty() {
            break;
        }

        affinities.note(ground, &new, true)?;
        take_refused(&mut refused, affinities.narrow(ground.host, ground.cpus));
    }

    Ok(refused)
}

fn left_on_rt(ground: &Ground<'_>) -> Result<Vec<(tasks::Task, CpuList)>, TuneError> {
    let all = ground.all_tasks()?;
    let kept_off = all.values().filter(|task| ground.who.standing(&all, task) == Standing::KeptOff);
    let with_list = kept_off.filter_map(|task| Some((task.clone(), tasks::affinity(ground.host, task.id.tid).ok()?)));
    Ok(with_list.filter(|(_, list)| list.meets(&ground.cpus.rt)).collect())
}

fn take_refused(refused: &mut Vec<(TaskId, String)>, kept: Vec<(TaskId, Kept)>) {
    for (task, kept) in kept {
        if let Kept::Refused(reason) = kept {
            refused.retain(|(known, _)| *known != task);
            refused.push((task, reason));
        }
    }
}

/// Whether the host says that this cgroup tree is not ours to change, as in containers: `EBUSY` where the root that is
/// mounted has tasks of its own, `EOPNOTSUPP` where it is threaded.
fn is_closed_to_us(error: &TuneError) -> bool {
    let TuneError::Write { source, .. } = error else { return false };
    matches!(
        Errno::from_io_error(source),
        Some(Errno::ROFS | Errno::ACCESS | Errno::PERM | Errno::BUSY | Errno::OPNOTSUPP)
    )
}
