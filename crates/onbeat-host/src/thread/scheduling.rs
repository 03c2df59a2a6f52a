//! Policy, priority, affinity and signals of the calling thread.
#![allow(unsafe_code)]

use std::io;
use std::path::Path;

use rustix::process::{Resource, getpriority_process, getrlimit, setpriority_process};
use rustix::thread::{CapabilitySet, CpuSet, capabilities, sched_getaffinity, sched_setaffinity};

use super::{Grant, Refusal, ThreadRequest};
use crate::policy::Scheduling;

/// Makes the calling thread `SCHED_FIFO` at `priority`, or returns why not.
pub(super) fn fifo(priority: u32) -> Grant {
    let wanted = format!("SCHED_FIFO {priority}");
    match set_policy(libc::SCHED_FIFO, priority) {
        Ok(()) => Grant::given("real-time priority", wanted),
        Err(why) => Grant::refused("real-time priority", wanted, fifo_refusal(priority, &why)),
    }
}

/// `EPERM` has three causes: no privilege for real-time priorities, a filter, or a control group with a
/// real-time budget of 0 (`kernel/sched/syscalls.c`, `__sched_setscheduler`).
fn fifo_refusal(priority: u32, why: &io::Error) -> Refusal {
    let costs = "any other program may delay the loop, by tens of milliseconds under load";
    let limit = getrlimit(Resource::Rtprio).current.unwrap_or(u64::MAX);
    let has_right = limit >= u64::from(priority)
        || has_cap_sys_nice() && !super::privilege::is_in_user_namespace();
    if why.raw_os_error() == Some(libc::EPERM) && has_right {
        let cgroups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let (why_not, remedy) = in_spite_of_rights(Path::new("/sys/fs/cgroup/cpu"), &cgroups);
        return Refusal { why_not: why_not.to_owned(), costs, remedy: remedy.to_owned() };
    }

    Refusal {
        why_not: format!(
            "{why}; the priority limit of this user (RLIMIT_RTPRIO) is {limit}, wanted is {priority}"
        ),
        costs,
        remedy: super::privilege::to_grant(),
    }
}

/// Why a right is not enough, and what mends it: a control group of version 1 without a budget, by
/// `/proc/self/cgroup` and the file of its budget, or a filter (systemd.exec(5), `RestrictRealtime=`).
/// Version 2 has no such file (Documentation/admin-guide/cgroup-v2.rst).
fn in_spite_of_rights(groups: &Path, cgroups: &str) -> (&'static str, &'static str) {
    let own = cgroups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|one| one == "cpu").then_some(path)
    });
    // A container may see its own group as the uppermost one.
    let own = groups.join(own.unwrap_or_default().trim_start_matches('/'));
    let has_none = |group: &Path| {
        std::fs::read_to_string(group.join("cpu.rt_runtime_us")).is_ok_and(|us| us.trim() == "0")
    };
    if has_none(&own) || has_none(groups) {
        return (
            "not permitted although this process may set priorities: its control group has no real-time budget",
            "echo 950000 | sudo tee /sys/fs/cgroup/cpu/$(awk -F: '/:cpu:|:cpu,/{print $3}' \
             /proc/self/cgroup)/cpu.rt_runtime_us",
        );
    }
    (
        "not permitted although this process may set priorities: a filter of its service or container forbids it, \
         or its control group has no real-time budget",
        "RestrictRealtime=no in the unit    # or, on a kernel with CONFIG_RT_GROUP_SCHED, boot with rt_group_sched=0",
    )
}

fn has_cap_sys_nice() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_NICE))
}

/// Makes the calling thread an ordinary one (`SCHED_OTHER`).
pub fn run_as_ordinary() {
    // Leaving a real-time policy needs no privilege, so this fails only if the policy was ordinary
    // already.
    let _ = set_policy(libc::SCHED_OTHER, 0);
}

/// Priority of the explaining thread: below every real-time loop, above all ordinary programs.
const EXPLAINING: u32 = 1;
/// `SCHED_RESET_ON_FORK` (include/uapi/linux/sched.h).
const RESET_ON_FORK: libc::c_int = 0x4000_0000;
/// Nice value of the explaining thread if it shares the only CPU with a real-time loop.
const EXPLAINING_NICE: i32 = -10;

/// Raises the calling thread above ordinary programs until it is dropped, if that cannot disturb
/// the loop: explanations must not wait for a load. Threads and programs that the thread starts are
/// ordinary.
#[derive(Debug)]
pub struct AheadOfLoad {
    /// Previous nice value, if something was changed.
    before: Option<i32>,
}

impl AheadOfLoad {
    /// Raises the thread beside the loop of `request`: real-time priority 1 on the other CPUs; on
    /// the only CPU of a real-time loop a negative nice value, because a real-time priority would
    /// use up the share of the CPU that the kernel grants to real-time threads.
    #[must_use]
    pub fn take(wanted: &ThreadRequest) -> (Self, Grant) {
        let what = "priority of cause analysis";
        if is_real_time_already() {
            return (Self { before: None }, Grant::given(what, "as onbeat was started"));
        }

        let cpus = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        let others =
            cpus.count() - u32::from(wanted.cpu.is_some_and(|cpu| cpus.is_set(cpu as usize)));
        let is_real_time = wanted.fifo.is_some_and(|priority| priority > EXPLAINING);
        // On other CPUs than the loop's, or below the loop: neither delays it.
        let (policy, priority, name) = match (others, is_real_time || wanted.cpu.is_some()) {
            (1.., true) => (libc::SCHED_FIFO, EXPLAINING, format!("SCHED_FIFO {EXPLAINING}")),
            (0, _) if is_real_time => (libc::SCHED_OTHER, 0, format!("nice {EXPLAINING_NICE}")),
            _ => {
                return (
                    Self { before: None },
                    Grant::refused(what, "ahead of the load", shared_with_loop()),
                );
            }
        };

        let nice = getpriority_process(None).unwrap_or(0);
        let done = set_policy(policy | RESET_ON_FORK, priority).and_then(|()| match policy {
            libc::SCHED_OTHER => setpriority_process(None, EXPLAINING_NICE).map_err(Into::into),
            _ => Ok(()),
        });

        match done {
            Ok(()) => (Self { before: Some(nice) }, Grant::given(what, name)),
            Err(why) => {
                (Self { before: None }, Grant::refused(what, name, not_ahead(why.to_string())))
            }
        }
    }
}

fn is_real_time_already() -> bool {
    // SAFETY: thread 0 is the caller; the call takes no addresses.
    let policy =
        unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) } as libc::c_int & !RESET_ON_FORK;
    !matches!(policy, libc::SCHED_OTHER | libc::SCHED_BATCH | libc::SCHED_IDLE)
}

fn shared_with_loop() -> Refusal {
    let why_not = "cause analysis runs at normal priority, because it shares the CPU of a normal-priority loop";
    Refusal {
        remedy: "onbeat measure timer --cpu N --priority 80".to_owned(),
        ..not_ahead(why_not.to_owned())
    }
}

fn not_ahead(why_not: String) -> Refusal {
    Refusal {
        why_not,
        costs: "under load, cause analysis may lag by seconds and find its events overwritten",
        remedy: super::privilege::to_grant(),
    }
}

impl Drop for AheadOfLoad {
    fn drop(&mut self) {
        // An unprivileged process may leave a real-time policy, but may not clear the flag.
        if let Some(nice) = self.before {
            let _ = set_policy(libc::SCHED_OTHER | RESET_ON_FORK, 0);
            let _ = setpriority_process(None, nice);
        }
    }
}

fn set_policy(policy: libc::c_int, priority: u32) -> io::Result<()> {
    // SAFETY: all-zero is a valid sched_param (musl's has reserved fields beside the priority).
    let mut parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    parameter.sched_priority = priority.cast_signed();
    // The raw call, because musl's wrapper always returns ENOSYS. SAFETY: thread 0 is the caller;
    // `parameter` is a valid sched_param.
    let answer =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const parameter) };

    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the calling thread `SCHED_DEADLINE`: it may run for `runtime_ns` of every `period_ns`,
/// before threads of any priority. [`run_as_ordinary`] undoes it.
///
/// # Errors
/// The kernel's error: no privilege, less free bandwidth than asked for, or the thread may not run
/// on all CPUs of its root domain.
pub fn run_by_deadline(runtime_ns: u64, period_ns: u64) -> io::Result<()> {
    Scheduling::deadline(runtime_ns, period_ns).set(0)
}

/// Binds the calling thread to one CPU, or returns why not.
pub(super) fn bind(cpu: u32) -> Grant {
    let wanted = format!("CPU {cpu}");
    let mut only = CpuSet::new();
    only.set(cpu as usize);
    match sched_setaffinity(None, &only) {
        Ok(()) => Grant::given("CPU affinity", wanted),
        Err(why) => {
            let refusal = Refusal {
                why_not: format!("{why}; this process may run on CPUs {}", allowed_cpus()),
                costs: "the loop moves between CPUs and leaves its caches behind",
                remedy: format!("taskset -c {cpu} onbeat ...    # or widen the process's cpuset"),
            };
            Grant::refused("CPU affinity", wanted, refusal)
        }
    }
}

/// Keeps the calling thread off `cpu` if there is another CPU for it: the recorder must not disturb
/// the loop.
pub fn stay_off_cpu(cpu: u32) {
    let Ok(mut cpus) = sched_getaffinity(None) else { return };
    cpus.unset(cpu as usize);
    if cpus.count() > 0 {
        // If it is refused, the thread stays where it is; the run is still valid, with the recorder
        // on the same CPU.
        let _ = sched_setaffinity(None, &cpus);
    }
}

/// Whether a thread of this process may be bound to `cpu`: not where the CPU is offline, or its
/// control group's cpuset leaves it out. The thread that asks stays where it is.
#[must_use]
pub fn may_run_on(cpu: u32) -> bool {
    let try_it = move || {
        let mut cpus = CpuSet::new();
        (cpu as usize) < CpuSet::MAX_CPU && {
            cpus.set(cpu as usize);
            sched_setaffinity(None, &cpus).is_ok()
        }
    };
    std::thread::Builder::new()
        .spawn(try_it)
        .is_ok_and(|thread| thread.join().is_ok_and(|is_allowed| is_allowed))
}

fn allowed_cpus() -> String {
    let status = crate::process::text("self", "status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.map_or_else(|| "unknown".to_owned(), |list| list.trim().to_owned())
}

/// Blocks all signals in the calling thread: a handler that ran here would count as latency. SIGBUS
/// comes from the thread's own access to a truncated file: blocked, it would end the process
/// although a handler helps.
pub(super) fn block_signals() {
    // SAFETY: `all` is filled before it is read; blocking signals in the calling thread has no
    // other effect.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigdelset(&raw mut all, libc::SIGBUS);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_group_is_blamed_where_its_budget_is_0() {
        let groups = std::env::temp_dir().join(format!("onbeat-budget-{}", std::process::id()));
        for (group, budget) in [("", "950000\n"), ("user.slice", "0\n"), ("rt.slice", "950000\n")] {
            std::fs::create_dir_all(groups.join(group)).unwrap();
            std::fs::write(groups.join(group).join("cpu.rt_runtime_us"), budget).unwrap();
        }
        let of = |cgroups: &str| in_spite_of_rights(&groups, cgroups);
        let (why, remedy) = of("5:memory:/\n4:cpu,cpuacct:/user.slice\n0::/\n");
        assert!(why.ends_with(": its control group has no real-time budget"), "{why}");
        assert!(remedy.contains("cpu.rt_runtime_us"), "{remedy}");
        for other in ["4:cpu,cpuacct:/rt.slice\n", "0::/user.slice\n", ""] {
            let (why, remedy) = of(other);
            assert!(why.contains("a filter") && remedy.contains("RestrictRealtime=no"), "{why}");
        }
        std::fs::remove_dir_all(&groups).unwrap();
    }

    fn policy() -> i64 {
        // SAFETY: thread 0 is the caller; the call takes no addresses.
        unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) }
    }

    #[test]
    fn a_thread_ahead_of_the_load_starts_ordinary_threads_and_is_one_again_afterwards() {
        let wanted = ThreadRequest { fifo: Some(80), ..ThreadRequest::default() };
        let (ahead, grant) = AheadOfLoad::take(&wanted);
        if !grant.granted {
            println!("skipped: {}", grant.why_not.unwrap_or_default());
            return;
        }

        let is_ordinary = || (policy(), getpriority_process(None).unwrap());
        assert_ne!(is_ordinary(), (i64::from(libc::SCHED_OTHER), 0));
        let child = std::thread::scope(|threads| threads.spawn(is_ordinary).join().unwrap());
        assert_eq!(child, (i64::from(libc::SCHED_OTHER), 0));
        drop(ahead);

        assert_eq!(policy() & !i64::from(RESET_ON_FORK), i64::from(libc::SCHED_OTHER));
    }

    #[test]
    fn an_ordinary_loop_that_may_run_anywhere_is_not_held_up() {
        let (_, grant) = AheadOfLoad::take(&ThreadRequest::default());
        assert!(!grant.granted, "{grant:?}");
    }
}
