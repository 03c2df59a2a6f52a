//! What a loop's process may and has: limits, locked memory, its cgroup's budget, interrupt threads
//! beside it. From `/proc` and `/sys/fs/cgroup`, before the measurement.

use std::fs;
use std::path::Path;

use onbeat::host::cpu_list;
use onbeat_host::foreign::printable;
use onbeat_host::process::text;
use onbeat_tune::LiveHost;
use onbeat_tune::tasks;

use crate::process::{self, Policy, ThreadFacts};

/// What the process of a loop may and has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Memory locked by mlock or mlockall, in KiB; `None` if it could not be read.
    pub locked_kib: Option<u64>,
    /// The highest real-time priority that it may take without the capability; `None` if unlimited.
    pub rtprio_limit: Option<u64>,
    /// Whether it has `CAP_SYS_NICE`.
    pub has_sys_nice: bool,
    /// The cgroup of version 1 whose budget for real-time threads is 0.
    pub without_budget: Option<String>,
    /// Interrupt threads on a CPU of the loop with its priority or a higher one.
    pub interrupts_above: Vec<String>,
    /// What its standard output is.
    pub output: Option<String>,
    /// What else it may write to that may be its fieldbus: devices, and `a socket`.
    pub buses: Vec<String>,
}

/// `CAP_SYS_NICE`.
const SYS_NICE: u32 = 23;

impl Standing {
    /// Reads what is to be known of a thread.
    #[must_use]
    pub fn read(thread: &ThreadFacts) -> Self {
        let tid = thread.tid();
        let read = |file: &str| text(tid, file).unwrap_or_default();
        let (status, limits, cgroup) = (read("status"), read("limits"), read("cgroup"));
        let output = fs::read_link(format!("/proc/{tid}/fd/1")).ok();
        Self {
            without_budget: without_budget(Path::new("/sys/fs/cgroup"), &cgroup),
            interrupts_above: interrupts_above(thread),
            output: output.map(|target| printable(&target.to_string_lossy())),
            buses: buses(tid),
            ..Self::from_text(&status, &limits)
        }
    }

    /// From `/proc/TID/status` and `/proc/TID/limits`.
    fn from_text(status: &str, limits: &str) -> Self {
        let of_status = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let locked = of_status("VmLck:").and_then(|line| line.split_whitespace().next());
        let capabilities =
            of_status("CapEff:").and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
        let rtprio = limits.lines().find_map(|line| line.strip_prefix("Max realtime priority"));
        let rtprio = rtprio.and_then(|line| line.split_whitespace().next());
        Self {
            locked_kib: locked.and_then(|kib| kib.parse().ok()),
            rtprio_limit: rtprio.and_then(|limit| limit.parse().ok()),
            has_sys_nice: capabilities.is_some_and(|set| set >> SYS_NICE & 1 == 1),
            ..Self::default()
        }
    }
}

/// Returns the devices that a process has open, other than terminals and the kernel's own, and `a
/// socket` for all of its sockets.
fn buses(tid: u32) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{tid}/fd")).into_iter().flatten();
    let targets = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let mut found: Vec<String> = targets
        .filter_map(|target| bus(&printable(&target.to_string_lossy())).map(str::to_owned))
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Devices to which nobody sends frames.
const NO_BUSES: [&str; 9] =
    ["null", "zero", "full", "random", "urandom", "cpu_dma_latency", "tty", "pts/", "shm/"];

fn bus(target: &str) -> Option<&str> {
    if target.starts_with("socket:") {
        return Some("a socket");
    }
    let device = target.strip_prefix("/dev/")?;
    let is_other = |known: &str| match known.ends_with('/') {
        true => device.starts_with(known),
        false => device == known,
    };
    (!NO_BUSES.into_iter().any(is_other)).then_some(target)
}

/// Returns the cgroup of the controller `cpu` of version 1 in the text of `/proc/PID/cgroup`, if its
/// budget for real-time threads is 0: the kernel then refuses real-time policies (`EPERM`).
fn without_budget(mounts: &Path, cgroups: &str) -> Option<String> {
    let (controllers, path) = cgroups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next()?;
        let path = parts.next()?;
        controllers.split(',').any(|one| one == "cpu").then_some((controllers, path))
    })?;
    let group = mounts.join(controllers).join(path.trim_start_matches('/'));
    let budget = fs::read_to_string(group.join("cpu.rt_runtime_us")).ok()?;
    (budget.trim() == "0").then(|| path.to_owned())
}

/// Interrupt threads with at least the thread's priority that may run on one of its CPUs.
fn interrupts_above(thread: &ThreadFacts) -> Vec<String> {
    if !thread.policy.is_real_time() {
        return Vec::new();
    }
    let all = tasks::all(&LiveHost::new()).unwrap_or_default();
    let interrupts = all.values().filter(|task| task.comm.starts_with("irq/"));
    let above = interrupts.filter_map(|task| process::thread(task.id.tid)).filter(|one| {
        matches!(one.policy, Policy::Fifo(_) | Policy::RoundRobin(_))
            && one.policy.priority() >= thread.policy.priority()
            && may_meet(&one.cpus, &thread.cpus)
    });
    above.map(|one| format!("{} [{}] {}", one.name, one.tid(), one.policy.words())).collect()
}

/// Whether two lists of CPUs such as `0-3,7` have a CPU in common.
fn may_meet(one: &str, other: &str) -> bool {
    let others = cpu_list(other);
    cpu_list(one).iter().any(|cpu| others.contains(cpu))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_locked_memory_are_read() {
        let status = "Name:\tloop\nVmLck:\t    2048 kB\nCapEff:\t0000000000800000\n";
        let limits = "Max realtime priority     0                    0                    \n";
        let standing = Standing::from_text(status, limits);
        assert_eq!(standing.locked_kib, Some(2_048));
        assert_eq!(Standing::from_text("", limits).locked_kib, None, "the thread has ended");
        assert_eq!(standing.rtprio_limit, Some(0));
        assert!(standing.has_sys_nice);
        let unlimited = "Max realtime priority     unlimited            unlimited            \n";
        assert_eq!(Standing::from_text("CapEff:\t0\n", unlimited).rtprio_limit, None);
        assert!(!Standing::from_text("CapEff:\t0\n", unlimited).has_sys_nice);
    }

    #[test]
    fn a_serial_line_and_a_socket_may_be_a_bus_and_a_terminal_is_none() {
        for target in ["/dev/ttyUSB0", "/dev/spidev0.0"] {
            assert_eq!(bus(target), Some(target));
        }
        assert_eq!(bus("socket:[90210]"), Some("a socket"));
        let others = ["/dev/pts/3", "/dev/tty", "/dev/null", "/dev/shm/x", "/tmp/log", "pipe:[1]"];
        assert_eq!(others.map(bus), [None; 6]);
    }

    #[test]
    fn a_cgroup_without_a_budget_is_named() {
        let mounts = std::env::temp_dir().join(format!("onbeat-standing-{}", std::process::id()));
        for (path, budget) in [("robot.slice", "0\n"), ("user.slice", "950000\n")] {
            let group = mounts.join("cpu,cpuacct").join(path);
            fs::create_dir_all(&group).unwrap();
            fs::write(group.join("cpu.rt_runtime_us"), budget).unwrap();
        }
        let of = |path: &str| {
            without_budget(&mounts, &format!("5:memory:/\n4:cpu,cpuacct:{path}\n0::/\n"))
        };
        assert_eq!(of("/robot.slice").as_deref(), Some("/robot.slice"));
        assert_eq!(of("/user.slice"), None);
        assert_eq!(of("/gone"), None);
        assert_eq!(without_budget(&mounts, "0::/robot.slice\n"), None, "version 2");
        fs::remove_dir_all(&mounts).unwrap();
    }

    #[test]
    fn lists_of_cpus_meet_where_they_have_one_in_common() {
        assert!(may_meet("0-3", "2") && may_meet("1,4-5", "5,9"));
        assert!(!may_meet("0-1", "2-3") && !may_meet("", "0"));
    }
}
