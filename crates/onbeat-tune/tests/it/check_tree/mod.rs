//! A captured tree of a machine that does not exist: files in a temporary directory.
#![allow(dead_code, unreachable_pub)]

use crate::memory;

use std::fs;
use std::path::PathBuf;

pub use memory::directory_in_memory;
use onbeat_tune::catalogue::{CheckVerdict, Finding, HostTree, LoopSetup};
use tempfile::TempDir;

/// The loop's CPU in all trees.
pub const LOOP_CPU: &str = "3";

pub struct CapturedMachine {
    directory: TempDir,
}

impl CapturedMachine {
    /// No file at all.
    pub fn empty() -> Self {
        Self { directory: directory_in_memory() }
    }

    /// Hardware with four Intel CPUs, Linux 6.12, systemd, the unified cgroup hierarchy, nothing
    /// tuned.
    pub fn hardware() -> Self {
        let machine = Self::empty();
        let files = [
            ("/proc/version", "Linux version 6.12.5 (builder) #1 SMP PREEMPT_DYNAMIC\n"),
            ("/proc/sys/kernel/osrelease", "6.12.5\n"),
            ("/proc/sys/kernel/timer_migration", "1\n"),
            ("/proc/sys/kernel/numa_balancing", "1\n"),
            ("/proc/sys/vm/swappiness", "60\n"),
            ("/proc/cmdline", "root=/dev/sda quiet\n"),
            (
                "/proc/cpuinfo",
                "vendor_id\t: GenuineIntel\nflags\t\t: fpu tsc constant_tsc nonstop_tsc\n",
            ),
            (
                "/proc/self/mountinfo",
                "25 1 8:1 / / rw - ext4 /dev/sda rw\n30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            ),
            ("/proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n"),
            ("/proc/irq/24/effective_affinity_list", "3\n"),
            ("/proc/irq/24/smp_affinity_list", "0-3\n"),
            ("/sys/kernel/irq/24/actions", "eth0\n"),
            ("/sys/kernel/irq/25/actions", "\n"),
            ("/proc/irq/25/effective_affinity_list", "3\n"),
            ("/sys/devices/system/cpu/online", "0-3\n"),
            ("/sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "2-3\n"),
            ("/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave\n"),
            ("/sys/devices/system/cpu/cpu3/cpufreq/scaling_min_freq", "800000\n"),
            ("/sys/devices/system/cpu/cpu3/cpufreq/scaling_max_freq", "4000000\n"),
            ("/sys/devices/system/cpu/cpu3/power/pm_qos_resume_latency_us", "0\n"),
            ("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory\n"),
            ("/sys/fs/cgroup/cpuset.cpus.isolated", "\n"),
            ("/sys/fs/cgroup/system.slice/irqbalance.service/cgroup.procs", "700\n"),
            ("/sys/fs/cgroup/system.slice/cpuset.cpus.effective", "0-3\n"),
            ("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n"),
            (
                "/sys/kernel/mm/transparent_hugepage/defrag",
                "always defer defer+madvise [madvise] never\n",
            ),
            ("/sys/devices/virtual/workqueue/cpumask", "00000000,0000000f\n"),
            ("/sys/module/workqueue/parameters/power_efficient", "N\n"),
            ("/sys/block/sda/queue/scheduler", "mq-deadline [bfq] none\n"),
        ];
        for (path, text) in files {
            machine.file(path, text);
        }

        machine.idle_state(0, 1, 0);
        machine.idle_state(1, 200, 0);
        machine.dir("/run/systemd/system");
        machine.dir("/etc/systemd/system");
        machine.task(&CapturedTask::kernel(2, "kthreadd", "0-3"));
        machine.task(&CapturedTask::user(1, "systemd", "0-3"));
        machine.task(&CapturedTask::user(700, "irqbalance", "0-3"));
        machine
    }

    /// The same as a guest with two CPUs.
    pub fn guest() -> Self {
        let machine = Self::hardware();
        machine.file(
            "/proc/cpuinfo",
            "vendor_id\t: AuthenticAMD\nflags\t\t: fpu tsc constant_tsc nonstop_tsc tsc_deadline_timer hypervisor\n",
        );
        machine
    }

    fn place(&self, path: &str) -> PathBuf {
        self.directory.path().join(path.trim_start_matches('/'))
    }

    pub fn file(&self, path: &str, text: &str) {
        self.bytes(path, text.as_bytes());
    }

    pub fn bytes(&self, path: &str, bytes: &[u8]) {
        let place = self.place(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, bytes).unwrap();
    }

    pub fn dir(&self, path: &str) {
        fs::create_dir_all(self.place(path)).unwrap();
    }

    pub fn remove(&self, path: &str) {
        let place = self.place(path);
        if place.is_dir() {
            fs::remove_dir_all(place).unwrap();
        } else {
            fs::remove_file(place).unwrap();
        }
    }

    /// A file that exists and cannot be read.
    pub fn make_unreadable(&self, path: &str) {
        self.remove(path);
        self.dir(path);
    }

    pub fn idle_state(&self, number: u32, latency_us: u32, disable: u32) {
        let state = format!("/sys/devices/system/cpu/cpu3/cpuidle/state{number}");
        self.file(&format!("{state}/latency"), &format!("{latency_us}\n"));
        self.file(&format!("{state}/disable"), &format!("{disable}\n"));
    }

    pub fn task(&self, task: &CapturedTask<'_>) {
        let CapturedTask { tid, comm, flags, policy, priority, cpus } = task;
        let zeros = |number: usize| vec!["0"; number].join(" ");
        // Fields 3 to 52 of proc_pid_stat(5); flags are field 9, priority and policy fields 40 and
        // 41.
        let fields =
            format!("S 1 1 1 0 -1 {flags} {} {priority} {policy} {}", zeros(30), zeros(11));
        let stat = format!("{tid} ({comm}) {fields}\n");
        let status = format!("Name:\t{comm}\nCpus_allowed_list:\t{cpus}\n");
        for directory in [format!("/proc/{tid}"), format!("/proc/{tid}/task/{tid}")] {
            self.file(&format!("{directory}/stat"), &stat);
            self.file(&format!("{directory}/status"), &status);
        }
    }

    /// All files, as paths on the machine.
    pub fn files(&self) -> Vec<String> {
        let mut files = Vec::new();
        let mut open = vec![self.directory.path().to_owned()];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path);
                } else {
                    files.push(format!(
                        "/{}",
                        path.strip_prefix(self.directory.path()).unwrap().display()
                    ));
                }
            }
        }

        files.sort();
        files
    }

    pub fn tree(&self) -> HostTree {
        HostTree::captured(self.directory.path()).unwrap()
    }

    pub fn findings(&self, setup: &LoopSetup) -> Vec<Finding> {
        onbeat_tune::check(&self.tree(), setup)
    }

    pub fn finding(&self, id: &str, setup: &LoopSetup) -> Finding {
        self.findings(setup).into_iter().find(|finding| finding.id == id).unwrap()
    }

    /// The verdict for a loop that sleeps on [`LOOP_CPU`], and the reason: `good`, `bad`, `not
    /// applicable: ...`, `unknown: ...`.
    pub fn verdict(&self, id: &str) -> String {
        self.verdict_for(id, &setup())
    }

    pub fn verdict_for(&self, id: &str, setup: &LoopSetup) -> String {
        in_words(&self.finding(id, setup).verdict)
    }
}

/// A thread that is a process of its own.
pub struct CapturedTask<'t> {
    tid: i32,
    comm: &'t str,
    flags: u64,
    policy: u32,
    priority: u32,
    cpus: &'t str,
}

impl<'t> CapturedTask<'t> {
    /// An ordinary thread of a program.
    pub const fn user(tid: i32, comm: &'t str, cpus: &'t str) -> Self {
        Self { tid, comm, flags: 0x0040_0000, policy: 0, priority: 0, cpus }
    }

    /// An ordinary thread of the kernel that is not bound to a CPU.
    pub const fn kernel(tid: i32, comm: &'t str, cpus: &'t str) -> Self {
        Self { flags: 0x0020_0000, ..Self::user(tid, comm, cpus) }
    }

    pub const fn fifo(self, priority: u32) -> Self {
        Self { policy: 1, priority, ..self }
    }

    pub const fn deadline(self) -> Self {
        Self { policy: 6, priority: 0, ..self }
    }
}

pub fn setup() -> LoopSetup {
    LoopSetup::on(LOOP_CPU.parse().unwrap())
}

pub fn in_words(verdict: &CheckVerdict) -> String {
    match verdict {
        CheckVerdict::Good => "good".to_owned(),
        CheckVerdict::Bad => "bad".to_owned(),
        CheckVerdict::NotApplicable(reason) => format!("not applicable: {reason}"),
        CheckVerdict::Unknown(reason) => format!("unknown: {reason}"),
    }
}

/// That a verdict begins with a word and its reason holds another text.
#[track_caller]
pub fn assert_verdict(verdict: &str, word: &str, reason: &str) {
    assert!(
        verdict.starts_with(word) && verdict.contains(reason),
        "{verdict:?} is not {word:?} with {reason:?}"
    );
}
