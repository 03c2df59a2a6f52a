//! One reading of all counters.

use std::collections::{BTreeMap, BTreeSet};

use onbeat_host::process::StatLine;
use serde::Serialize;

use super::tables::{TableRow, column_by_cpu, rows};
use super::{CounterGroup, CounterName};
use crate::catalogue::host_tree::is_absent;
use crate::catalogue::probes::NoValue;
use crate::catalogue::probes::irq::is_bound;
use crate::catalogue::{HostTree, LoopSetup};
use crate::cpu_list::CpuList;

/// Counters that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreadCounter {
    /// Their group.
    pub group: CounterGroup,
    /// Why.
    pub reason: String,
}

/// All counters of a machine at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostCounters {
    pub(super) values: BTreeMap<CounterName, u64>,
    pub(super) unread: Vec<UnreadCounter>,
    pub(super) timer_slack_ns: Option<u64>,
}

/// The counters of `/proc/vmstat` that say what delays programs.
const MEMORY: [&str; 10] = [
    "pgfault",
    "pgmajfault",
    "pswpin",
    "pswpout",
    "numa_hint_faults",
    "compact_stall",
    "thp_fault_alloc",
    "thp_collapse_alloc",
    "allocstall_normal",
    "ksm_swpin_copy",
];

/// Columns of `/proc/stat` and `/proc/schedstat`, from 1.
const STEAL_COLUMN: usize = 8;
const TIMESLICES_COLUMN: usize = 9;

impl HostCounters {
    /// Reads all counters: interrupts, softirqs, steal and switches of all CPUs, frequencies and
    /// throttling of the loop's.
    #[must_use]
    pub fn read(host: &HostTree, setup: &LoopSetup) -> Self {
        let mut reading = Self::default();
        reading.interrupts(host);
        reading.softirqs(host);
        reading.stat(host);
        reading.memory(host);
        reading.of_cpus(host, &setup.cpus);
        reading.memory_errors(host);
        reading.loop_thread(host, setup.task);
        reading
    }

    fn add(&mut self, group: CounterGroup, name: &str, cpu: Option<u32>, value: u64) {
        let counter = CounterName { group, name: name.to_owned(), cpu, device: None };
        self.values.insert(counter, value);
    }

    fn lacks(&mut self, group: CounterGroup, reason: String) {
        self.unread.push(UnreadCounter { group, reason });
    }

    /// Returns the text of a file; without it, notes the groups that it would have. Containers mask
    /// `/proc/interrupts` by an empty file.
    fn text(&mut self, host: &HostTree, path: &str, groups: &[CounterGroup]) -> String {
        let why = match host.read(path) {
            Ok(text) if !text.is_empty() => return text,
            Ok(_) => format!("{path} is empty, as where a container masks it"),
            Err(error) => reason(path, &error),
        };
        for group in groups {
            self.lacks(*group, why.clone());
        }
        String::new()
    }

    fn interrupts(&mut self, host: &HostTree) {
        let groups = [CounterGroup::DeviceInterrupts, CounterGroup::LocalInterrupts];
        let table = self.text(host, "/proc/interrupts", &groups);
        for row in rows(&table) {
            let is_device = row.name.bytes().all(|digit| digit.is_ascii_digit());
            let device = is_device.then(|| handlers(host, &row)).filter(|of| !of.is_empty());
            let (group, name, device) = match device {
                // Each CPU's own, as `LOC` is: on ARM they have numbers.
                Some(of) if of.split(", ").any(is_bound) => {
                    (CounterGroup::LocalInterrupts, format!("{} ({of})", row.name), None)
                }
                device => (groups[usize::from(!is_device)], row.name.clone(), device),
            };
            for (cpu, value) in row.counts {
                let name = name.clone();
                let counter = CounterName { group, name, cpu: Some(cpu), device: device.clone() };
                self.values.insert(counter, value);
            }
        }
    }

    fn softirqs(&mut self, host: &HostTree) {
        let table = self.text(host, "/proc/softirqs", &[CounterGroup::Softirqs]);
        for row in rows(&table) {
            for (cpu, value) in row.counts {
                self.add(CounterGroup::Softirqs, &row.name, Some(cpu), value);
            }
        }
    }

    /// Steal, and switches: by CPU where the kernel counts them, else of the machine.
    fn stat(&mut self, host: &HostTree) {
        let groups = [CounterGroup::Steal, CounterGroup::ContextSwitches];
        let text = self.text(host, "/proc/stat", &groups);
        for (cpu, value) in column_by_cpu(&text, STEAL_COLUMN) {
            self.add(CounterGroup::Steal, "", Some(cpu), value);
        }

        let by_cpu = host.read("/proc/schedstat").unwrap_or_default();
        let by_cpu = column_by_cpu(&by_cpu, TIMESLICES_COLUMN);
        if by_cpu.is_empty() {
            let mut lines = text.lines();
            if let Some(all) = lines.find_map(|line| line.strip_prefix("ctxt ")?.parse().ok()) {
                self.add(CounterGroup::ContextSwitches, "", None, all);
            }
        }
        for (cpu, value) in by_cpu {
            self.add(CounterGroup::ContextSwitches, "", Some(cpu), value);
        }
    }

    fn memory(&mut self, host: &HostTree) {
        let text = self.text(host, "/proc/vmstat", &[CounterGroup::Memory]);
        let values = text.lines().filter_map(|line| line.split_once(' '));
        for (name, value) in values.filter(|(name, _)| MEMORY.contains(name)) {
            if let Ok(value) = value.trim().parse() {
                self.add(CounterGroup::Memory, name, None, value);
            }
        }
    }

    fn of_cpus(&mut self, host: &HostTree, cpus: &CpuList) {
        let files = [
            (CounterGroup::FrequencyChanges, "cpufreq/stats/total_trans"),
            (CounterGroup::Throttling, "thermal_throttle/core_throttle_count"),
        ];
        for (group, file) in files {
            let mut reasons = BTreeSet::new();
            for cpu in cpus.iter() {
                let path = format!("/sys/devices/system/cpu/cpu{cpu}/{file}");
                match host.read(&path) {
                    Ok(text) => {
                        if let Ok(value) = text.trim().parse() {
                            self.add(group, "", Some(cpu), value);
                        }
                    }
                    Err(error) => {
                        reasons.insert(reason(&path, &error));
                    }
                }
            }
            // One of several CPUs stands for the others: they differ in the number only.
            reasons.into_iter().take(1).for_each(|reason| self.lacks(group, reason));
        }
    }

    fn memory_errors(&mut self, host: &HostTree) {
        const CONTROLLERS: &str = "/sys/devices/system/edac/mc";
        let names = match host.names(CONTROLLERS) {
            Ok(names) => names,
            Err(error) => {
                let reason = reason(CONTROLLERS, &error);
                return self.lacks(CounterGroup::MemoryErrors, reason);
            }
        };
        for name in names.iter().filter(|name| name.starts_with("mc")) {
            let count = host.read(&format!("{CONTROLLERS}/{name}/ce_count"));
            if let Some(count) = count.ok().and_then(|text| text.trim().parse().ok()) {
                self.add(CounterGroup::MemoryErrors, name, None, count);
            }
        }
    }
}

impl HostCounters {
    fn loop_thread(&mut self, host: &HostTree, task: Option<i32>) {
        let of = task.map_or_else(|| "self".to_owned(), |task| task.to_string());
        let slack = host.read(&format!("/proc/{of}/timerslack_ns"));
        self.timer_slack_ns = slack.ok().and_then(|text| text.trim().parse().ok());
        if task.is_none() {
            return;
        }

        let groups = [CounterGroup::LoopThread];
        let stat = self.text(host, &format!("/proc/{of}/task/{of}/stat"), &groups);
        let stat = StatLine::parse(&stat);
        for (name, field) in [("minor_page_faults", 10), ("major_page_faults", 12)] {
            if let Some(value) = stat.as_ref().and_then(|stat| stat.number(field)) {
                self.add(groups[0], name, None, value);
            }
        }

        let status = host.read(&format!("/proc/{of}/status")).unwrap_or_default();
        let switches =
            status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
        if let Some(value) = switches.and_then(|text| text.trim().parse().ok()) {
            self.add(groups[0], "involuntary_switches", None, value);
        }
    }
}

fn reason(path: &str, error: &std::io::Error) -> String {
    NoValue::from_error(path, error).to_string()
}

/// The handlers of an interrupt; in older kernels the text at the end of its row.
fn handlers(host: &HostTree, row: &TableRow) -> String {
    let number = &row.name;
    match host.read(&format!("/sys/kernel/irq/{number}/actions")) {
        Ok(actions) => actions.trim().replace(',', ", "),
        Err(error) if is_absent(&error) => {
            let words: Vec<&str> = row.rest.split(' ').collect();
            // A comma joins the handlers that share one interrupt.
            let first = words.iter().rposition(|word| !word.ends_with(','));
            let start = words[..first.unwrap_or(0)]
                .iter()
                .rposition(|word| !word.ends_with(','))
                .map_or(0, |place| place + 1);
            words[start..].join(" ")
        }
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn counters_that_cannot_be_read_are_listed_with_the_reason() {
        let empty = tempfile::tempdir().unwrap();
        let host = HostTree::captured(empty.path()).unwrap();
        let setup = LoopSetup { task: Some(900), ..LoopSetup::on("3".parse().unwrap()) };
        let reading = HostCounters::read(&host, &setup);
        assert!(reading.values.is_empty());
        let groups: BTreeSet<_> = reading.unread.iter().map(|unread| unread.group).collect();
        assert_eq!(groups.len(), CounterGroup::NAMES.len(), "each group: {:?}", reading.unread);
        assert!(reading.unread[0].reason.contains("/proc/interrupts does not exist"));

        write(empty.path(), "proc/interrupts", "");
        let masked = HostCounters::read(&host, &setup);
        assert_eq!(masked.unread.len(), reading.unread.len());
        assert!(masked.unread[0].reason.starts_with("/proc/interrupts is empty"));
    }

    #[test]
    fn handlers_come_from_the_kernels_list_or_from_the_end_of_the_row() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "sys/kernel/irq/24/actions", "eth0,usb1\n");
        let host = HostTree::captured(root.path()).unwrap();
        let row = |name: &str| TableRow {
            name: name.to_owned(),
            counts: Vec::new(),
            rest: "IR-PCI-MSI 5-edge virtio0, usb2".to_owned(),
        };
        assert_eq!(handlers(&host, &row("24")), "eth0, usb1");
        assert_eq!(handlers(&host, &row("25")), "virtio0, usb2");
    }

    #[test]
    fn the_timer_of_an_arm_cpu_is_not_a_device() {
        let root = tempfile::tempdir().unwrap();
        let table = "     CPU0  CPU1\n 11:  7  9  GICv2  30 Level  arch_timer\n 35:  5  6  GICv2 189 Level  eth0\n";
        write(root.path(), "proc/interrupts", table);
        write(root.path(), "sys/kernel/irq/11/actions", "arch_timer\n");
        write(root.path(), "sys/kernel/irq/35/actions", "eth0\n");
        let host = HostTree::captured(root.path()).unwrap();
        let reading = HostCounters::read(&host, &LoopSetup::default());
        let names: Vec<(CounterGroup, &str)> =
            reading.values.keys().map(|counter| (counter.group, &*counter.name)).collect();
        let (local, device) = (CounterGroup::LocalInterrupts, CounterGroup::DeviceInterrupts);
        let (timer, eth0) = ((local, "11 (arch_timer)"), (device, "35"));
        assert_eq!(names, [eth0, eth0, timer, timer]);
    }

    #[test]
    fn without_a_count_by_cpu_switches_are_those_of_the_machine() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "proc/stat", "cpu0 1 2 3 4 5 6 7 8 0 0\nctxt 99\n");
        let host = HostTree::captured(root.path()).unwrap();
        let switches = |reading: &HostCounters| -> Vec<(Option<u32>, u64)> {
            let of = |name: &CounterName| name.group == CounterGroup::ContextSwitches;
            let values = reading.values.iter();
            values.filter(|(name, _)| of(name)).map(|(name, value)| (name.cpu, *value)).collect()
        };
        assert_eq!(switches(&HostCounters::read(&host, &LoopSetup::default())), [(None, 99)]);

        write(root.path(), "proc/schedstat", "version 16\ncpu0 0 0 0 0 0 0 1 2 77\ndomain0 1\n");
        assert_eq!(switches(&HostCounters::read(&host, &LoopSetup::default())), [(Some(0), 77)]);
    }

    #[test]
    fn faults_of_the_loops_thread_are_found_behind_a_name_with_blanks() {
        let root = tempfile::tempdir().unwrap();
        let stat = "900 (a ) b) S 1 2 3 4 5 6 70 8 90 10";
        write(root.path(), "proc/900/task/900/stat", stat);
        write(root.path(), "proc/900/status", "nonvoluntary_ctxt_switches:\t6\n");
        let host = HostTree::captured(root.path()).unwrap();
        let setup = LoopSetup { task: Some(900), ..LoopSetup::default() };
        let reading = HostCounters::read(&host, &setup);
        let of_thread: Vec<(&str, u64)> = reading
            .values
            .iter()
            .filter(|(name, _)| name.group == CounterGroup::LoopThread)
            .map(|(name, value)| (name.name.as_str(), *value))
            .collect();
        assert_eq!(
            of_thread,
            [("involuntary_switches", 6), ("major_page_faults", 90), ("minor_page_faults", 70)]
        );
    }
}
