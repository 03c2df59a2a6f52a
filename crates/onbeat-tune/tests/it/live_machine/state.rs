//! A capture of every setting that a tuning may touch, as text by place.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use onbeat_tune::catalogue::probes::{Probe, ProbeSpec};
use onbeat_tune::catalogue::survey::Survey;
use onbeat_tune::catalogue::{HostTree, LoopSetup, catalogue};
use onbeat_tune::task_setting::TaskSetting;
use onbeat_tune::tasks::{self, Task};
use onbeat_tune::{HostFiles, LiveHost};

type State = BTreeMap<String, String>;

/// Directories below which all writable files are settings.
const SETTINGS: [&str; 12] = [
    "/proc/sys",
    "/sys/devices/system/cpu",
    "/sys/devices/system/clocksource",
    "/sys/devices/system/machinecheck",
    "/sys/devices/system/node",
    "/sys/devices/virtual/workqueue",
    "/sys/devices/virtual/net",
    "/sys/kernel/mm",
    "/sys/kernel/rcu_normal",
    "/sys/kernel/rcu_expedited",
    "/sys/kernel/debug/sched",
    "/sys/fs/cgroup",
];
/// The same, one level below each entry of a directory.
const SETTINGS_OF_EACH: [(&str, &str); 3] =
    [("/sys/module", "parameters"), ("/sys/class/net", "queues"), ("/sys/block", "queue")];
/// Ends of paths: directories and files with values that the kernel itself changes, and files that
/// list tasks.
const NOT_SETTINGS: [&str; 14] = [
    "ns_last_pid",
    "random",
    "pty",
    "inode-state",
    "uevent",
    "tasks",
    "cgroup.procs",
    "cgroup.threads",
    "memory",
    "memory.peak",
    "memory.swap.peak",
    "cpuacct.usage",
    // It follows the traffic.
    "byte_queue_limits/limit",
    // It follows the longest search for a task to run.
    "max_newidle_lb_cost",
];
const TASK_SETTINGS: [TaskSetting; 7] = [
    TaskSetting::Scheduling,
    TaskSetting::TimerSlack,
    TaskSetting::OomScore,
    TaskSetting::PriorityLimit,
    TaskSetting::LockedMemoryLimit,
    TaskSetting::RealTimeLimit,
    TaskSetting::CoreLimit,
];

/// The settings of the machine, and the places whose values change by themselves.
pub struct Captured {
    pub settings: State,
    pub volatile: BTreeSet<String>,
}

impl Captured {
    /// Captures the machine: what the catalogue's probes read, files that hold settings,
    /// interrupts, control groups, threads of the kernel, and all threads of the process `ancestor`
    /// and of its children. What differs between two captures is volatile.
    pub fn of_machine(setup: &LoopSetup, ancestor: i32) -> Self {
        let (first, mut settings) = (capture(setup, ancestor), capture(setup, ancestor));
        let volatile: BTreeSet<String> = settings
            .iter()
            .filter(|(place, value)| first.get(*place) != Some(value))
            .map(|(place, _)| place.clone())
            .collect();
        settings.retain(|place, _| !volatile.contains(place));
        Self { settings, volatile }
    }

    /// Returns what differs in a later capture. Threads of the kernel come and go.
    pub fn differences(&self, later: &Self) -> Vec<String> {
        let is_thread = |place: &str| place.starts_with("kernel thread ");
        let mut found = Vec::new();
        for (place, value) in &self.settings {
            match later.settings.get(place) {
                Some(now) if now != value => found.push(format!("{place}: {value} -> {now}")),
                None if !is_thread(place) && !later.volatile.contains(place) => {
                    found.push(format!("{place}: {value} -> absent"));
                }
                _ => {}
            }
        }

        let is_new = |place: &str| {
            !is_thread(place)
                && !self.settings.contains_key(place)
                && !self.volatile.contains(place)
        };

        let new = later.settings.iter().filter(|(place, _)| is_new(place));
        found.extend(new.map(|(place, value)| format!("{place}: absent -> {value}")));
        found
    }
}

fn capture(setup: &LoopSetup, ancestor: i32) -> State {
    let mut state = State::new();
    add_readings(setup, &mut state);
    add_files(&mut state);
    add_interrupts(&mut state);
    add_tasks(ancestor, &mut state);
    state
}

fn add_readings(setup: &LoopSetup, state: &mut State) {
    let tree = HostTree::live();
    let survey = Survey::new(&tree, setup);
    for record in &catalogue().records {
        for spec in record.probe.iter().filter(|spec| is_setting(spec)) {
            let probe: &dyn Probe = spec.probe();
            for reading in probe.read(&survey) {
                let place = format!("{} {}", record.id, reading.place);
                state.insert(place, format!("{:?}", reading.value));
            }
        }
    }
}

fn is_setting(spec: &ProbeSpec) -> bool {
    matches!(
        spec,
        ProbeSpec::File(_)
            | ProbeSpec::Sysctl(_)
            | ProbeSpec::EqualFiles(_)
            | ProbeSpec::IdleStates(_)
            | ProbeSpec::Msr(_)
            | ProbeSpec::DeviceValue(_)
            | ProbeSpec::Cgroup(_)
            | ProbeSpec::Parameter(_)
    )
}

fn add_files(state: &mut State) {
    let each = SETTINGS_OF_EACH.iter().flat_map(|(directory, below)| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(move |entry| entry.path().join(below))
    });
    for root in SETTINGS.iter().map(PathBuf::from).chain(each) {
        add_below(&root, state);
    }
}

/// Adds a file, or all files below a directory. Links are not followed.
fn add_below(path: &Path, state: &mut State) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    let is_statistic = path.extension().is_some_and(|extension| extension == "pressure");
    if is_statistic || NOT_SETTINGS.iter().any(|known| path.ends_with(known)) {
        return;
    }

    if metadata.is_dir() {
        state.insert(path.display().to_string(), "directory".to_owned());
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            add_below(&entry.path(), state);
        }
    } else if metadata.is_file() && metadata.permissions().mode() & 0o600 == 0o600 {
        let text = fs::read(path).map_or_else(
            |error| error.to_string(),
            |bytes| String::from_utf8_lossy(&bytes).trim().to_owned(),
        );
        state.insert(path.display().to_string(), text);
    }
}

fn add_interrupts(state: &mut State) {
    let host = LiveHost::new();
    for number in host.directories("/proc/irq").unwrap() {
        let path = format!("/proc/irq/{number}/smp_affinity_list");
        state.insert(path.clone(), host.read(&path).unwrap_or_default());
    }
    let path = "/proc/irq/default_smp_affinity";
    state.insert(path.to_owned(), host.read(path).unwrap_or_default());
}

fn add_tasks(ancestor: i32, state: &mut State) {
    let host = LiveHost::new();
    let all = tasks::all(&host).unwrap();
    let is_ours = |task: &Task| {
        let parent = |pid: i32| {
            let stat = host.read(&format!("/proc/{pid}/stat")).ok()?;
            stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<i32>().ok()
        };
        task.pid == ancestor || parent(task.pid) == Some(ancestor)
    };

    for task in all.values() {
        // Those of work queues are started and ended as the kernel needs them.
        if task.is_kernel() && task.comm.starts_with("kworker") {
            continue;
        }

        let tid = task.id.tid;
        let place = match task.is_kernel() {
            true => format!("kernel thread {tid} of tick {}", task.id.start_ticks),
            false if is_ours(task) => format!("thread {tid} of tick {}", task.id.start_ticks),
            false => continue,
        };
        let Ok(cpus) = tasks::affinity(&host, tid) else { continue };
        let mut values = vec![task.comm.clone(), format!("CPUs {cpus}")];
        for setting in TASK_SETTINGS {
            values.push(setting.read(&host, tid).unwrap_or_else(|error| error.to_string()));
        }
        values.push(host.read(&format!("/proc/{tid}/cgroup")).unwrap_or_default());
        state.insert(place, values.join(", "));
    }
}
