//! What every part of the shield stands on: the host, the journal, the two sets of CPUs, and who is to be kept off.

use std::collections::BTreeMap;
use std::io;

use super::change::{Hierarchy, Intent};
use super::cpu_list::CpuList;
use super::error::TuneError;
use super::host_files::HostFiles;
use super::journal::{Journal, Step};
use super::shield::{Free, Scope};
use super::tasks::{self, Task, TaskId};

/// The CPUs of the machine, divided in two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cpus {
    /// Given to the loop.
    pub(super) rt: CpuList,
    /// Housekeeping: for everything else, never empty.
    pub(super) hk: CpuList,
    /// Both together.
    pub(super) online: CpuList,
    /// With those that could still be switched on: what a task that was never confined may use.
    pub(super) possible: CpuList,
    /// Tasks stand in cpusets, which show them no CPU that is offline.
    in_cpusets: bool,
}

impl Cpus {
    /// Divides the CPUs, after checking that something is left on both sides.
    pub(super) fn divide(host: &dyn HostFiles, rt: &CpuList, cpuset: Option<&Hierarchy>) -> Result<Self, TuneError> {
        let read = |name: &str| {
            let path = format!("/sys/devices/system/cpu/{name}");
            let text = host.read(&path).map_err(|source| TuneError::Read { path, source })?;
            CpuList::parse_list(&text)
        };

        let (mut online, possible) = (read("online")?, read("possible")?);
        // In a container the root of what is mounted may have fewer CPUs than the machine.
        let files = ["cpuset.effective_cpus", "cpuset.cpus.effective"];
        for (hierarchy, file) in cpuset.into_iter().flat_map(|hierarchy| files.map(|file| (hierarchy, file))) {
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

    /// Whether two lists allow the same, as far as CPUs are there.
    pub(super) fn same(&self, a: &CpuList, b: &CpuList) -> bool {
        a.and(&self.online) == b.and(&self.online)
    }

    /// Lists that a loop's task gives itself once it is free to: all of the shielded CPUs, or one of them.
    pub(super) fn pins_of_a_loop(&self) -> Vec<String> {
        std::iter::once(self.rt.to_string()).chain(self.rt.iter().map(|cpu| cpu.to_string())).collect()
    }

    /// The list that a task gets back which shows `list` now. All CPUs of a cpuset are its own choice hardly ever; given back
    /// as such they would keep it off CPUs that are switched on later.
    pub(super) fn given_back(&self, list: &CpuList) -> CpuList {
        if self.in_cpusets && self.is_all(list) { self.possible.clone() } else { list.clone() }
    }

    /// Whether a task with this list is not confined at all.
    pub(super) fn is_all(&self, list: &CpuList) -> bool {
        self.online.is_within(list)
    }
}

/// What the shield has to do with a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Part of the loop: may use the shielded CPUs.
    Loop,
    /// To be kept off.
    KeptOff,
    /// A kernel thread that cannot be moved, or that runs where its interrupt is sent.
    Bound,
    /// Outside the scope: left as it is.
    Outside,
}

/// Who is free, and whom the shield may touch.
#[derive(Debug)]
pub(super) struct Who {
    free: Vec<(Free, TaskId)>,
    scope: Scope,
}

impl Who {
    pub(super) fn new(host: &dyn HostFiles, free: &[Free], scope: Scope) -> Result<Self, TuneError> {
        let mut who = Self { free: Vec::new(), scope };
        for one in free {
            who.admit(host, *one)?;
        }
        Ok(who)
    }

    pub(super) fn admit(&mut self, host: &dyn HostFiles, free: Free) -> Result<(), TuneError> {
        let tid = free.number();
        let task = tasks::task(host, tid).ok_or(TuneError::NoSuchTask { tid })?;
        self.free.retain(|(known, _)| *known != free);
        self.free.push((free, task.id));
        Ok(())
    }

    pub(super) fn standing(&self, all: &BTreeMap<i32, Task>, task: &Task) -> Standing {
        let is_free = self.free.iter().any(|(free, id)| match free {
            Free::Thread(_) => *id == task.id,
            Free::Process(pid) => task.pid == *pid && all.get(pid).is_some_and(|leader| leader.id == *id),
        });

        let is_outside = || match self.scope {
            Scope::Machine => false,
            Scope::Under(ancestor) => !tasks::descends(all, task.pid, ancestor),
        };

        if is_free {
            Standing::Loop
        } else if task.is_bound() || task.follows_interrupt() {
            Standing::Bound
        } else if !task.is_kernel() && is_outside() {
            Standing::Outside
        } else {
            Standing::KeptOff
        }
    }

    /// The tasks of the loop that run now.
    pub(super) fn loop_tasks(&self, host: &dyn HostFiles) -> Vec<Task> {
        let of = |(free, id): &(Free, TaskId)| match free {
            Free::Thread(tid) => tasks::task(host, *tid).filter(|task| task.id == *id).into_iter().collect(),
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

/// The host and its journal while the shield works on them.
pub(super) struct Ground<'a> {
    pub(super) host: &'a dyn HostFiles,
    pub(super) journal: &'a mut Journal,
    pub(super) steps: &'a mut Vec<Step>,
    pub(super) cpus: &'a Cpus,
    pub(super) who: &'a Who,
}

impl Ground<'_> {
    /// Puts changes on disk with one sync.
    pub(super) fn record(&mut self, intents: Vec<Intent>) -> Result<(), TuneError> {
        self.steps.extend(self.journal.intend_all(intents)?);
        Ok(())
    }

    /// Records a change and makes it.
    pub(super) fn change(&mut self, intent: &Intent) -> Result<(), TuneError> {
        // Also a change that is refused is on record from here on; undo finds it as it was.
        let step = self.journal.intend(intent.clone())?;
        self.steps.push(step);
        make(self.host, intent)?;
        let read_back = intent.key.current(self.host).ok().flatten();
        self.journal.done(step, read_back.as_deref())
    }

    /// Writes a file of a cgroup that is on record itself and goes with it.
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

    pub(super) fn all_tasks(&self) -> Result<BTreeMap<i32, Task>, TuneError> {
        all_tasks(self.host)
    }
}

pub(super) fn all_tasks(host: &dyn HostFiles) -> Result<BTreeMap<i32, Task>, TuneError> {
    tasks::all(host).map_err(|source| TuneError::Read { path: "/proc".to_owned(), source })
}

fn make(host: &dyn HostFiles, intent: &Intent) -> Result<(), TuneError> {
    match intent.make(host) {
        Ok(()) => Ok(()),
        Err(error) if tasks::is_gone(&error) => Ok(()),
        Err(source) => Err(TuneError::Write { path: intent.key.name(), value: intent.new.clone(), source }),
    }
}

/// Settings that go to and fro between two values, each on record once.
#[derive(Debug, Default)]
pub(super) struct Switches {
    known: Vec<Intent>,
    thrown: Vec<Intent>,
}

impl Switches {
    /// Puts those on record that are not yet, or whose old value has changed since.
    pub(super) fn record(&mut self, ground: &mut Ground<'_>, wanted: &[Intent]) -> Result<(), TuneError> {
        let new: Vec<Intent> = wanted.iter().filter(|intent| !self.known.contains(intent)).cloned().collect();
        ground.record(new.clone())?;
        self.known.extend(new);
        Ok(())
    }

    /// Gives one its new value.
    pub(super) fn throw(&mut self, host: &dyn HostFiles, intent: &Intent) -> io::Result<()> {
        // Before the write: one that is cut off in between must be looked at too.
        self.thrown.push(intent.clone());
        intent.make(host)
    }

    /// Gives all their old values back, last one first, where they are still as they were left.
    pub(super) fn back(&mut self, ground: &Ground<'_>) -> Result<(), TuneError> {
        while let Some(intent) = self.thrown.last() {
            let online = &ground.cpus.online;
            let now = intent.key.current(ground.host).ok().flatten();
            if now.is_some_and(|now| !intent.same(&now, &intent.old, online) && intent.is_ours(&now, online)) {
                match intent.restore(ground.host) {
                    Ok(()) => {}
                    Err(error) if tasks::is_gone(&error) => {}
                    Err(source) => {
                        return Err(TuneError::Write { path: intent.key.name(), value: intent.old.clone(), source });
                    }
                }
            }

            self.thrown.pop();
        }
        Ok(())
    }
}
