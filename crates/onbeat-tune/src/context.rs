//! Common data of the shield's parts: the host, the journal, the two sets of CPUs, and the tasks to
//! keep off.

use std::collections::BTreeMap;
use std::io;

use super::change::{Hierarchy, Intent, Key, Kind};
use super::cpu_list::CpuList;
use super::error::TuneError;
use super::host_files::HostFiles;
use super::journal::{ChangeId, Journal};
use super::tasks::{self, Task, TaskId};

/// Limit on passes over all tasks; a pass is repeated while it finds new ones, because tasks fork
/// while they are moved.
pub(super) const SWEEPS: usize = 5;

/// A task that may use the shielded CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Free {
    /// A process with all its threads. Its children may use the CPUs too, until the next raise; a
    /// process that also starts loads should pass its loop's thread instead.
    Process(i32),
    /// One thread. The other threads of its process and their children are kept off.
    Thread(i32),
}

impl Free {
    pub(super) const fn number(self) -> i32 {
        match self {
            Self::Process(number) | Self::Thread(number) => number,
        }
    }
}

/// Which user tasks the shield may move. It moves kernel threads and interrupts in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All of the machine.
    Machine,
    /// This process and its descendants; all others stay, and are counted in the report.
    Under(i32),
}

/// The CPUs of the machine, divided in two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CpuSplit {
    /// Reserved for the loop.
    pub(super) rt: CpuList,
    /// Housekeeping: for everything else, never empty.
    pub(super) hk: CpuList,
    /// Both together.
    pub(super) online: CpuList,
    /// Online CPUs and those that could be brought online: what an unconfined task may use.
    pub(super) possible: CpuList,
    /// Tasks are in cpusets, which hide offline CPUs from them.
    in_cpusets: bool,
}

impl CpuSplit {
    /// Divides the CPUs and checks that neither side is empty.
    pub(super) fn divide(
        host: &dyn HostFiles,
        rt: &CpuList,
        cpuset: Option<&Hierarchy>,
    ) -> Result<Self, TuneError> {
        let read = |name: &str| {
            let path = format!("/sys/devices/system/cpu/{name}");
            let text = host.read(&path).map_err(|source| TuneError::Read { path, source })?;
            CpuList::parse_list(&text).map_err(TuneError::from)
        };

        let mut online = read("online")?;
        let possible = read("possible")?;
        // In a container the mounted root may have fewer CPUs than the machine.
        let files = ["cpuset.effective_cpus", "cpuset.cpus.effective"];
        for (hierarchy, file) in
            cpuset.into_iter().flat_map(|hierarchy| files.map(|file| (hierarchy, file)))
        {
            let granted = host.read(&format!("{}/{file}", hierarchy.mount)).unwrap_or_default();
            let granted = CpuList::parse_list(&granted).unwrap_or_default();
            if !granted.is_empty() {
                online = online.and(&granted);
            }
        }

        if rt.is_empty() {
            return Err(TuneError::NoRtCpu { online });
        }
        if !rt.is_within(&online) {
            return Err(TuneError::NotOnline { rt: rt.clone(), online });
        }

        let hk = online.minus(rt);
        if hk.is_empty() {
            return Err(TuneError::NoHousekeeping { rt: rt.clone(), online });
        }

        let in_cpusets = cpuset.is_some();
        Ok(Self { rt: rt.clone(), hk, online, possible, in_cpusets })
    }

    /// Whether two lists allow the same online CPUs.
    pub(super) fn same(&self, a: &CpuList, b: &CpuList) -> bool {
        a.and(&self.online) == b.and(&self.online)
    }

    /// Masks that a loop's task may set for itself: all shielded CPUs, or one of them.
    pub(super) fn pins_of_a_loop(&self) -> Vec<String> {
        std::iter::once(self.rt.to_string())
            .chain(self.rt.iter().map(|cpu| cpu.to_string()))
            .collect()
    }

    /// The mask to restore for a task that shows `list` now. A list of all CPUs of a cpuset is
    /// hardly ever the task's own choice; restored as such it would keep the task off CPUs that
    /// come online later.
    pub(super) fn given_back(&self, list: &CpuList) -> CpuList {
        if self.in_cpusets && self.is_all(list) { self.possible.clone() } else { list.clone() }
    }

    /// Whether a task with this list is unconfined.
    pub(super) fn is_all(&self, list: &CpuList) -> bool {
        self.online.is_within(list)
    }
}

/// How the shield treats a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskRole {
    /// Part of the loop: may use the shielded CPUs.
    Loop,
    /// Kept off the shielded CPUs.
    KeptOff,
    /// A kernel thread that cannot be moved, or that moves with its interrupt.
    Bound,
    /// Outside the scope; not touched.
    Outside,
}

/// Which tasks may use the shielded CPUs, and which tasks the shield may move.
#[derive(Debug)]
pub(super) struct TaskRoles {
    free: Vec<(Free, TaskId)>,
    scope: Scope,
}

impl TaskRoles {
    pub(super) fn new(
        host: &dyn HostFiles,
        free: &[Free],
        scope: Scope,
    ) -> Result<Self, TuneError> {
        let mut selection = Self { free: Vec::new(), scope };
        for one in free {
            selection.admit(host, *one)?;
        }
        Ok(selection)
    }

    pub(super) fn admit(&mut self, host: &dyn HostFiles, free: Free) -> Result<(), TuneError> {
        let tid = free.number();
        let task = tasks::task(host, tid).ok_or(TuneError::NoSuchTask { tid })?;
        self.free.retain(|(known, _)| *known != free);
        self.free.push((free, task.id));
        Ok(())
    }

    pub(super) fn role(&self, all: &BTreeMap<i32, Task>, task: &Task) -> TaskRole {
        let is_free = self.free.iter().any(|(free, id)| match free {
            Free::Thread(_) => *id == task.id,
            Free::Process(pid) => {
                task.pid == *pid && all.get(pid).is_some_and(|leader| leader.id == *id)
            }
        });

        let is_outside = || match self.scope {
            Scope::Machine => false,
            Scope::Under(ancestor) => !tasks::descends(all, task.pid, ancestor),
        };

        if is_free {
            TaskRole::Loop
        } else if task.is_bound() || task.follows_interrupt() {
            TaskRole::Bound
        } else if !task.is_kernel() && is_outside() {
            TaskRole::Outside
        } else {
            TaskRole::KeptOff
        }
    }

    /// The running tasks of the loop.
    pub(super) fn loop_tasks(&self, host: &dyn HostFiles) -> Vec<Task> {
        let of = |(free, id): &(Free, TaskId)| match free {
            Free::Thread(tid) => {
                tasks::task(host, *tid).filter(|task| task.id == *id).into_iter().collect()
            }
            Free::Process(pid) if tasks::is_alive(host, *id) => tasks::threads(host, *pid),
            Free::Process(_) => Vec::new(),
        };
        self.free.iter().flat_map(of).collect()
    }

    pub(super) fn is_of_whole_processes(&self) -> bool {
        !self.free.is_empty() && self.free.iter().all(|(free, _)| matches!(free, Free::Process(_)))
    }

    pub(super) const fn covers_machine(&self) -> bool {
        matches!(self.scope, Scope::Machine)
    }
}

/// The host and its journal while the shield changes them.
pub(super) struct ShieldContext<'a> {
    pub(super) host: &'a dyn HostFiles,
    pub(super) journal: &'a mut Journal,
    pub(super) steps: &'a mut Vec<ChangeId>,
    pub(super) cpus: &'a CpuSplit,
    pub(super) selection: &'a TaskRoles,
}

/// What a shield works with from its preparation to its end.
#[derive(Debug)]
pub(super) struct ShieldBase {
    pub(super) cpus: CpuSplit,
    pub(super) selection: TaskRoles,
    /// Its changes on record.
    pub(super) steps: Vec<ChangeId>,
}

impl ShieldBase {
    pub(super) const fn context<'a>(
        &'a mut self,
        host: &'a dyn HostFiles,
        journal: &'a mut Journal,
    ) -> ShieldContext<'a> {
        let Self { cpus, selection, steps } = self;
        ShieldContext { host, journal, steps, cpus, selection }
    }
}

impl ShieldContext<'_> {
    /// Writes changes to the journal with one sync.
    pub(super) fn record(&mut self, intents: Vec<Intent>) -> Result<(), TuneError> {
        self.steps.extend(self.journal.intend_all(intents)?);
        Ok(())
    }

    /// Records a change and makes it.
    pub(super) fn change(&mut self, intent: &Intent) -> Result<(), TuneError> {
        // A refused change stays on record too; undo then finds the old value.
        let step = self.journal.intend(intent.clone())?;
        self.steps.push(step);
        match self.journal.make(self.host, step, intent) {
            Err(TuneError::Write { source, .. }) if tasks::is_gone(&source) => Ok(()),
            made => made,
        }
    }

    /// The change that takes the shielded CPUs out of a group's list; `None` where it has none of
    /// them, and where it has no other, which is noted.
    pub(super) fn narrowed(
        &self,
        id: &str,
        group: &str,
        notes: &mut Vec<String>,
    ) -> Option<Intent> {
        let path = format!("{group}/cpuset.cpus");
        let old = self.host.read(&path).ok()?;
        let allowed = CpuList::parse_list(&old).unwrap_or_default();
        let left = allowed.minus(&self.cpus.rt);
        if left == allowed {
            return None;
        }
        if left.is_empty() {
            let note = format!("{group} has no CPU other than {} and is not narrowed", old.trim());
            if !notes.contains(&note) {
                notes.push(note);
            }
            return None;
        }
        let key = Key::File { path, kind: Kind::List, shown_in: None };
        Some(Intent::new(id, key, old.trim(), left.to_string()))
    }

    /// Writes a file of a cgroup that is itself on record and is removed by undo.
    pub(super) fn write(&self, path: &str, value: &str) -> Result<(), TuneError> {
        self.host.write(path, value).map_err(|source| TuneError::Write {
            path: path.to_owned(),
            value: value.trim().to_owned(),
            source,
        })
    }

    pub(super) fn read(&self, path: &str) -> Result<String, TuneError> {
        self.host.read(path).map_err(|source| TuneError::Read { path: path.to_owned(), source })
    }
}

/// All tasks by number, without those that end during the call.
pub(super) fn all_tasks(host: &dyn HostFiles) -> Result<BTreeMap<i32, Task>, TuneError> {
    tasks::all(host).map_err(|source| TuneError::Read { path: "/proc".to_owned(), source })
}

/// Settings that alternate between two values, each recorded once.
#[derive(Debug, Default)]
pub(super) struct ToggledSettings {
    known: Vec<Intent>,
    thrown: Vec<Intent>,
}

impl ToggledSettings {
    /// Records those that are new, or whose old value has changed since.
    pub(super) fn record(
        &mut self,
        context: &mut ShieldContext<'_>,
        wanted: &[Intent],
    ) -> Result<(), TuneError> {
        let new: Vec<Intent> =
            wanted.iter().filter(|intent| !self.known.contains(intent)).cloned().collect();
        context.record(new.clone())?;
        self.known.extend(new);
        Ok(())
    }

    /// Records these, and sets the new value of each; of one that the host refuses there is a note.
    pub(super) fn throw_all(
        &mut self,
        context: &mut ShieldContext<'_>,
        wanted: &[Intent],
        notes: &mut Vec<String>,
    ) -> Result<(), TuneError> {
        self.record(context, wanted)?;
        for intent in wanted {
            if let Err(error) = self.throw(context.host, intent)
                && !tasks::is_gone(&error)
            {
                notes.push(format!("{} keeps its CPUs: {error}", intent.key.name()));
            }
        }
        Ok(())
    }

    /// Sets the new value of one.
    pub(super) fn throw(&mut self, host: &dyn HostFiles, intent: &Intent) -> io::Result<()> {
        // Before the write, so that an interrupted write is checked too.
        self.thrown.push(intent.clone());
        intent.make(host)
    }

    /// Restores all old values, newest first, where the current value is still onbeat's.
    pub(super) fn back(&mut self, context: &ShieldContext<'_>) -> Result<(), TuneError> {
        while let Some(intent) = self.thrown.last() {
            let online = &context.cpus.online;
            let now = intent.key.current(context.host).ok().flatten();
            if now.is_some_and(|now| {
                !intent.same(&now, &intent.old, online) && intent.is_ours(&now, online)
            }) {
                match intent.restore(context.host) {
                    Err(source) if !tasks::is_gone(&source) => {
                        let (path, value) = (intent.key.name(), intent.old.clone());
                        return Err(TuneError::Write { path, value, source });
                    }
                    _ => {}
                }
            }

            self.thrown.pop();
        }
        Ok(())
    }
}
