//! The threads of a QEMU process on the host: each virtual CPU bound and prioritised by itself, all
//! other threads elsewhere, every change in the journal of `onbeat-tune`.
//!
//! `taskset` and `chrt` in front of QEMU hold for all of its threads: virtual CPU, main loop and I/O
//! workers then block one another. Here the control socket names the threads of the virtual CPUs
//! (`query-cpus-fast`), and `/proc` lists the others.

use std::io;

use onbeat::host::online_cpus;
use onbeat_tune::journal::ChangeId;
use onbeat_tune::task_setting::TaskSetting;
use onbeat_tune::tasks::{self, Task};
use onbeat_tune::{CpuList, HostFiles, Intent, Journal, Key, TuneError, UndoMode};

/// Highest priority of a virtual CPU: above are only the kernel's own guards.
pub const HIGHEST_PRIORITY: u32 = 95;

/// Where one virtual CPU runs on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VcpuPlace {
    /// Host CPUs of its thread.
    pub cpus: CpuList,
    /// Priority under `SCHED_FIFO`, 1 to [`HIGHEST_PRIORITY`]; `None` leaves its policy.
    pub priority: Option<u32>,
}

/// Where the threads of a QEMU process run on the host.
///
/// ```
/// use onbeat_lab::vm::ThreadPlan;
///
/// let plan = ThreadPlan::new(3, &"2-3".parse()?, &"0-1".parse()?, Some(1))?;
/// let cpus: Vec<String> = plan.vcpus.iter().map(|vcpu| vcpu.cpus.to_string()).collect();
/// assert_eq!(cpus, ["0-1", "2", "3"]);
/// assert_eq!(plan.vcpus[0].priority, None, "it shares its CPUs with the main loop");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadPlan {
    /// The virtual CPUs, in order.
    pub vcpus: Vec<VcpuPlace>,
    /// Host CPUs of the main loop, the workers and I/O threads.
    pub others: CpuList,
}

/// Why threads were not placed.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The process has no right to place another process's threads.
    #[error("placing the threads of QEMU needs root. Run: sudo {command}")]
    NeedsRoot {
        /// The command as typed.
        command: String,
    },
    /// A priority that no user's thread should have.
    #[error(
        "priority {priority} for virtual CPUs: at most {HIGHEST_PRIORITY}, below the kernel's migration and watchdog threads; 1 is enough"
    )]
    Priority {
        /// What was asked for.
        priority: u32,
    },
    /// A host CPU is for virtual CPUs and for the other threads at once.
    #[error("CPUs {shared} are named for virtual CPUs and for QEMU's other threads; name others")]
    Shared { shared: CpuList },
    /// No CPU is left for one of the two.
    #[error(
        "each virtual CPU needs a host CPU of its own, and QEMU's other threads one more: {cpus} of {online} leaves none"
    )]
    NoCpu {
        /// CPUs for the virtual CPUs.
        cpus: CpuList,
        /// All online CPUs.
        online: CpuList,
    },
    /// The control socket names threads that the process does not have.
    #[error(
        "process {pid} has no thread {thread}, which its control socket names as virtual CPU {vcpu}"
    )]
    NoThread {
        /// QEMU.
        pid: i32,
        /// Number of the virtual CPU, from 0.
        vcpu: usize,
        thread: i32,
    },
    /// The kernel refused a change; those before it were undone.
    #[error("{what} cannot be set to {value}: {source}; the changes before it were undone")]
    Refused {
        /// The setting.
        what: String,
        value: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] TuneError),
}

impl ThreadPlan {
    /// Gives the last virtual CPUs a CPU of `own` each, with this priority. What is left, the first
    /// ones, shares `housekeeping` with QEMU's other threads and keeps its policy: a thread under
    /// `SCHED_FIFO` there would stop them.
    ///
    /// # Errors
    /// [`PlaceError::Priority`], [`PlaceError::Shared`], [`PlaceError::NoCpu`].
    pub fn new(
        vcpus: u32,
        own: &CpuList,
        housekeeping: &CpuList,
        priority: Option<u32>,
    ) -> Result<Self, PlaceError> {
        if let Some(priority) = priority.filter(|one| !(1..=HIGHEST_PRIORITY).contains(one)) {
            return Err(PlaceError::Priority { priority });
        }
        if own.is_empty() || housekeeping.is_empty() {
            let online = own.iter().chain(housekeeping.iter()).collect();
            return Err(PlaceError::NoCpu { cpus: own.clone(), online });
        }
        let shared = own.and(housekeeping);
        if !shared.is_empty() {
            return Err(PlaceError::Shared { shared });
        }

        let own: Vec<u32> = own.iter().collect();
        let vcpus = vcpus as usize;
        let sharing = vcpus.saturating_sub(own.len());
        let place = |vcpu: usize| match vcpu.checked_sub(sharing) {
            None => VcpuPlace { cpus: housekeeping.clone(), priority: None },
            Some(nth) => VcpuPlace { cpus: [own[nth]].into_iter().collect(), priority },
        };
        Ok(Self { vcpus: (0..vcpus).map(place).collect(), others: housekeeping.clone() })
    }
}

/// The online CPUs that are not a guest's.
#[must_use]
pub fn housekeeping(own: &CpuList) -> CpuList {
    let online: CpuList = online_cpus().into_iter().collect();
    online.minus(own)
}

/// A thread of QEMU as `/proc` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QemuThread {
    /// Its number on the host.
    pub tid: i32,
    /// Its name, such as `CPU 0/KVM`.
    pub name: String,
    /// The virtual CPUs that it runs; several where one thread emulates all of them.
    pub vcpus: Vec<usize>,
    /// Host CPUs it may use.
    pub cpus: CpuList,
    /// Its policy, such as `fifo 1`.
    pub policy: String,
}

/// Reads the threads of a QEMU process from `/proc`, by number; `vcpus` are those of its virtual
/// CPUs in order, as its control socket names them.
#[must_use]
pub fn qemu_threads(host: &dyn HostFiles, pid: i32, vcpus: &[i32]) -> Vec<QemuThread> {
    let of_task = |task: Task| {
        let tid = task.id.tid;
        let runs = vcpus.iter().enumerate().filter(|(_, thread)| **thread == tid);
        // A worker may end while it is read.
        Some(QemuThread {
            tid,
            name: task.comm,
            vcpus: runs.map(|(vcpu, _)| vcpu).collect(),
            cpus: tasks::affinity(host, tid).ok()?,
            policy: host.scheduling(tid).ok()?,
        })
    };
    tasks::threads(host, pid).into_iter().filter_map(of_task).collect()
}

/// Places the threads of a QEMU process: each change is on record before it is made. Returns the
/// changes, for [`Journal::undo`].
///
/// # Errors
/// [`PlaceError::NoThread`], and [`PlaceError::Refused`] after what was changed has been undone.
pub fn place_threads(
    host: &dyn HostFiles,
    journal: &mut Journal,
    pid: i32,
    vcpus: &[i32],
    plan: &ThreadPlan,
) -> Result<Vec<ChangeId>, PlaceError> {
    let intents = intents(host, pid, vcpus, plan)?;
    let ids = journal.intend_all(intents.clone())?;
    for (id, intent) in ids.iter().zip(&intents) {
        match intent.make(host) {
            Ok(()) => journal.done(*id, Some(&intent.new))?,
            // A worker of QEMU comes and goes.
            Err(error) if tasks::is_gone(&error) => {}
            Err(source) => {
                journal.undo(host, &ids, UndoMode::Careful)?;
                let what = intent.key.name();
                let value = intent.new.clone();
                return Err(PlaceError::Refused { what, value, source });
            }
        }
    }

    Ok(ids)
}

/// The changes that a plan needs: affinities first, so that no thread is raised where it may not
/// stay.
fn intents(
    host: &dyn HostFiles,
    pid: i32,
    vcpus: &[i32],
    plan: &ThreadPlan,
) -> Result<Vec<Intent>, PlaceError> {
    let threads = tasks::threads(host, pid);
    let is_missing = |thread: &i32| !threads.iter().any(|task| task.id.tid == *thread);
    if let Some(vcpu) = vcpus.iter().position(is_missing) {
        return Err(PlaceError::NoThread { pid, vcpu, thread: vcpus[vcpu] });
    }

    let mut affinities = Vec::new();
    let mut policies = Vec::new();
    for task in threads {
        let tid = task.id.tid;
        // One thread may emulate several virtual CPUs: the last of them has a CPU of its own.
        let vcpu = vcpus.iter().rposition(|thread| *thread == tid);
        let place = vcpu.and_then(|vcpu| plan.vcpus.get(vcpu));
        let (id, cpus) = match place {
            Some(place) => ("host.vcpu_pin", &place.cpus),
            None => ("host.emulator_pin", &plan.others),
        };

        let Ok(old) = tasks::affinity(host, tid) else { continue };
        if old != *cpus {
            let key = Key::Affinity { task: task.id, follows: false };
            affinities.push(Intent::new(id, key, old.to_string(), cpus.to_string()));
        }
        if let Some(priority) = place.and_then(|place| place.priority) {
            let key = Key::Task { task: task.id, setting: TaskSetting::Scheduling };
            let Ok(old) = host.scheduling(tid) else { continue };
            policies.push(Intent::new("host.vcpu_prio", key, old, format!("fifo {priority}")));
        }
    }

    affinities.extend(policies);
    Ok(affinities)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(text: &str) -> CpuList {
        text.parse().expect("a list")
    }

    #[test]
    fn the_last_virtual_cpus_have_a_host_cpu_each_and_the_first_share() {
        let plan = ThreadPlan::new(4, &cpus("2-3"), &cpus("0-1"), Some(1)).expect("a plan");
        let places: Vec<(String, Option<u32>)> =
            plan.vcpus.iter().map(|one| (one.cpus.to_string(), one.priority)).collect();
        let shared = ("0-1".to_owned(), None);
        let own = |cpu: &str| (cpu.to_owned(), Some(1));
        assert_eq!(places, [shared.clone(), shared, own("2"), own("3")]);

        let fewer = ThreadPlan::new(1, &cpus("2-3"), &cpus("0"), None).expect("a plan");
        assert_eq!(fewer.vcpus, [VcpuPlace { cpus: cpus("2"), priority: None }]);
    }

    #[test]
    fn no_virtual_cpu_gets_the_priority_of_the_kernels_guards() {
        let refused = |priority| {
            ThreadPlan::new(1, &cpus("1"), &cpus("0"), Some(priority)).expect_err("refused")
        };
        assert!(matches!(refused(99), PlaceError::Priority { priority: 99 }));
        assert!(matches!(refused(0), PlaceError::Priority { priority: 0 }));
        assert!(refused(99).to_string().contains("at most 95"));
    }

    #[test]
    fn virtual_cpus_and_the_main_loop_share_no_cpu() {
        let shared = ThreadPlan::new(1, &cpus("1-2"), &cpus("0-1"), None).expect_err("shared");
        assert!(matches!(shared, PlaceError::Shared { shared } if shared == cpus("1")));
        let none = ThreadPlan::new(1, &cpus("1"), &CpuList::default(), None).expect_err("none");
        assert!(matches!(none, PlaceError::NoCpu { .. }));
    }
}
