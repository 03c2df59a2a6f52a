//! How CPUs rested and how fast they ran while something was measured: idle states entered, the
//! bound on their exit latency, frequencies.
//!
//! [`PowerReading`] is taken before and after, from counters that the kernel keeps anyway; nothing is
//! read in between, because some drivers answer `scaling_cur_freq` by an interrupt of the CPU that is
//! asked about. [`PowerReading::until`] is the difference.
//!
//! Sources: `Documentation/admin-guide/pm/cpuidle.rst` (`usage`, `time`, `latency`),
//! `Documentation/cpu-freq/cpufreq-stats.rst` (`time_in_state`), `Documentation/power/pm_qos_interface.rst`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rustix::thread::sched_getaffinity;
use serde::{Deserialize, Serialize};

use crate::machine::cpu_list;
use crate::power::latency_bound_us;

/// CPUs that are read at most: of a loop that may run anywhere on a large machine, the first ones.
const MOST_CPUS: usize = 64;

/// Idle states and frequencies of some CPUs at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PowerReading {
    /// `None` where the bound cannot be read.
    bound_us: Option<Option<i32>>,
    driver: Option<String>,
    cpus: BTreeMap<u32, CpuReading>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct CpuReading {
    states: Vec<StateReading>,
    governor: Option<String>,
    now_khz: Option<u64>,
    /// By frequency, in the kernel's ticks of 10 ms.
    ticks_at_khz: BTreeMap<u64, u64>,
    /// The CPU's own bound, in microseconds; `None` without one.
    resume_us: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct StateReading {
    name: String,
    exit_us: u64,
    usage: u64,
    time_us: u64,
}

/// How CPUs rested and how fast they ran during a measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerUse {
    /// The CPUs, as a kernel list: that of the loop, or all that it could run on.
    pub cpus: String,
    /// Bound on the exit latency of idle states of all CPUs (`/dev/cpu_dma_latency`); absent where
    /// it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<BoundUse>,
    /// Smallest bound of a single CPU (`pm_qos_resume_latency_us`), in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_us: Option<u64>,
    /// Driver of the idle states: `intel_idle`, `acpi_idle`, `haltpoll`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Idle states of these CPUs together, the shallowest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<IdleStateUse>,
    /// Frequencies; absent where the kernel does not set them, as in most guests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency: Option<FrequencyUse>,
}

/// A bound on exit latency, in microseconds; `None` is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundUse {
    /// At the beginning, in microseconds; `None` without a bound.
    pub first_us: Option<i32>,
    /// At the end, in microseconds; `None` without a bound.
    pub last_us: Option<i32>,
}

/// An idle state, all CPUs together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleStateUse {
    /// Name, such as `POLL`, `C1E`.
    pub name: String,
    /// Exit latency according to the kernel, in microseconds; the largest of these CPUs.
    pub exit_us: u64,
    /// Number of times that it was entered.
    pub entered: u64,
    /// Time spent in it, in microseconds.
    pub time_us: u64,
}

/// Frequencies that CPUs ran at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrequencyUse {
    /// Lowest, in kHz.
    pub least_khz: u64,
    /// Highest, in kHz.
    pub most_khz: u64,
    /// Whether every frequency in between is known (`cpufreq/stats/time_in_state`), or only those
    /// before and after (`scaling_cur_freq`).
    pub is_counted: bool,
    /// `performance`, `powersave`, `schedutil`; several where CPUs differ.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub governor: String,
}

/// The CPU of a loop, or those that the calling thread may run on.
#[must_use]
pub fn cpus_of_loop(cpu: Option<u32>) -> Vec<u32> {
    if let Some(cpu) = cpu {
        return vec![cpu];
    }
    let Ok(allowed) = sched_getaffinity(None) else { return Vec::new() };
    let all = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    all.filter_map(|cpu| u32::try_from(cpu).ok()).take(MOST_CPUS).collect()
}

impl PowerReading {
    /// Reads `cpus` of this machine. Takes some 10 µs per idle state.
    #[must_use]
    pub fn now(cpus: &[u32]) -> Self {
        let bound_us = latency_bound_us();
        Self { bound_us, ..Self::below(Path::new("/sys/devices/system/cpu"), cpus) }
    }

    /// Reads `cpus` below a directory that is as `/sys/devices/system/cpu`.
    #[must_use]
    pub fn below(root: &Path, cpus: &[u32]) -> Self {
        let of = |cpu: &u32| (*cpu, CpuReading::below(&root.join(format!("cpu{cpu}"))));
        let driver = text(&root.join("cpuidle/current_driver")).filter(|name| name != "none");
        Self { bound_us: None, driver, cpus: cpus.iter().map(of).collect() }
    }

    /// Returns what happened from this reading to a later one of the same CPUs. Counters that were
    /// set back, as those of a CPU that was offline, count from 0.
    #[must_use]
    pub fn until(&self, later: &Self) -> PowerUse {
        let both: Vec<(&CpuReading, &CpuReading)> = self
            .cpus
            .iter()
            .filter_map(|(cpu, before)| Some((before, later.cpus.get(cpu)?)))
            .collect();
        PowerUse {
            cpus: listed(self.cpus.keys().copied()),
            bound: self
                .bound_us
                .zip(later.bound_us)
                .map(|(first_us, last_us)| BoundUse { first_us, last_us }),
            resume_us: both.iter().flat_map(|(a, b)| [a.resume_us, b.resume_us]).flatten().min(),
            driver: self.driver.clone(),
            states: states(&both),
            frequency: frequency(&both),
        }
    }
}

impl CpuReading {
    fn below(cpu: &Path) -> Self {
        let mut states: Vec<(u32, StateReading)> = fs::read_dir(cpu.join("cpuidle"))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let number = entry.file_name().to_str()?.strip_prefix("state")?.parse().ok()?;
                Some((number, StateReading::below(&entry.path())?))
            })
            .collect();
        states.sort_by_key(|(number, _)| *number);
        let frequency = cpu.join("cpufreq");
        let ticks = text(&frequency.join("stats/time_in_state")).unwrap_or_default();
        let tick = |line: &str| {
            let (khz, ticks) = line.split_once(' ')?;
            Some((khz.trim().parse().ok()?, ticks.trim().parse().ok()?))
        };
        Self {
            states: states.into_iter().map(|(_, state)| state).collect(),
            governor: text(&frequency.join("scaling_governor")),
            now_khz: number(&frequency.join("scaling_cur_freq")),
            ticks_at_khz: ticks.lines().filter_map(tick).collect(),
            // 0 is no bound; "n/a" is no latency at all, which the kernel treats as 0.
            resume_us: match text(&cpu.join("power/pm_qos_resume_latency_us")).as_deref() {
                Some("n/a") => Some(0),
                Some(us) => us.parse().ok().filter(|us| *us > 0),
                None => None,
            },
        }
    }
}

impl StateReading {
    fn below(state: &Path) -> Option<Self> {
        Some(Self {
            name: text(&state.join("name"))?,
            exit_us: number(&state.join("latency"))?,
            usage: number(&state.join("usage"))?,
            time_us: number(&state.join("time"))?,
        })
    }
}

fn text(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

fn number(file: &Path) -> Option<u64> {
    text(file)?.parse().ok()
}

const fn since(after: u64, before: u64) -> u64 {
    if after >= before { after - before } else { after }
}

fn states(cpus: &[(&CpuReading, &CpuReading)]) -> Vec<IdleStateUse> {
    let mut all: Vec<IdleStateUse> = Vec::new();
    for (before, after) in cpus {
        for later in &after.states {
            let earlier = before.states.iter().find(|state| state.name == later.name);
            let earlier = earlier.cloned().unwrap_or_default();
            let used = IdleStateUse {
                name: later.name.clone(),
                exit_us: later.exit_us,
                entered: since(later.usage, earlier.usage),
                time_us: since(later.time_us, earlier.time_us),
            };
            add(&mut all, used);
        }
    }
    all.sort_by_key(|state| state.exit_us);
    all
}

/// Adds the use of a state, by another CPU or at another time, to what is known of it.
fn add(all: &mut Vec<IdleStateUse>, used: IdleStateUse) {
    match all.iter_mut().find(|state| state.name == used.name) {
        Some(state) => {
            state.exit_us = state.exit_us.max(used.exit_us);
            state.entered += used.entered;
            state.time_us += used.time_us;
        }
        None => all.push(used),
    }
}

fn frequency(cpus: &[(&CpuReading, &CpuReading)]) -> Option<FrequencyUse> {
    let counted = |(before, after): &(&CpuReading, &CpuReading)| -> Vec<u64> {
        let at = |khz: &u64| before.ticks_at_khz.get(khz).copied().unwrap_or_default();
        let ran = after.ticks_at_khz.iter().filter(|(khz, ticks)| since(**ticks, at(khz)) > 0);
        ran.map(|(khz, _)| *khz).collect()
    };
    let seen = |(before, after): &(&CpuReading, &CpuReading)| [before.now_khz, after.now_khz];
    let is_counted = !cpus.is_empty() && cpus.iter().all(|cpu| !counted(cpu).is_empty());
    let all: Vec<u64> = if is_counted {
        cpus.iter().flat_map(counted).collect()
    } else {
        cpus.iter().flat_map(seen).flatten().collect()
    };

    let mut governors: Vec<&str> =
        cpus.iter().filter_map(|(_, after)| after.governor.as_deref()).collect();
    governors.sort_unstable();
    governors.dedup();
    Some(FrequencyUse {
        least_khz: *all.iter().min()?,
        most_khz: *all.iter().max()?,
        is_counted,
        governor: governors.join(", "),
    })
}

/// Rising numbers as the kernel lists them: `0-2,4`.
#[must_use]
pub fn listed(cpus: impl IntoIterator<Item = u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let range = |(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

impl PowerUse {
    /// Returns both together: parts of one run, one after the other.
    #[must_use]
    pub fn and(mut self, later: &Self) -> Self {
        later.states.iter().for_each(|state| add(&mut self.states, state.clone()));
        self.bound = match (self.bound, later.bound) {
            (Some(first), Some(last)) => {
                Some(BoundUse { first_us: first.first_us, last_us: last.last_us })
            }
            (first, last) => first.or(last),
        };
        self.resume_us = [self.resume_us, later.resume_us].into_iter().flatten().min();
        self.frequency = match (self.frequency.take(), &later.frequency) {
            (Some(first), Some(last)) => Some(FrequencyUse {
                least_khz: first.least_khz.min(last.least_khz),
                most_khz: first.most_khz.max(last.most_khz),
                is_counted: first.is_counted && last.is_counted,
                governor: last.governor.clone(),
            }),
            (first, last) => first.or_else(|| last.clone()),
        };
        self
    }

    /// The state with the longest exit latency that was entered.
    #[must_use]
    pub fn deepest(&self) -> Option<&IdleStateUse> {
        self.states.iter().filter(|state| state.entered > 0).max_by_key(|state| state.exit_us)
    }

    /// The bound in words: `no bound`, `0 us`, `0 us, later no bound`.
    #[must_use]
    pub fn bound_in_words(&self) -> String {
        let one = |us: Option<i32>| us.map_or("no bound".to_owned(), |us| format!("{us} us"));
        let all = match self.bound {
            None => "unknown".to_owned(),
            Some(BoundUse { first_us, last_us }) if first_us == last_us => one(first_us),
            Some(BoundUse { first_us, last_us }) => {
                format!("{}, later {}", one(first_us), one(last_us))
            }
        };
        match self.resume_us {
            Some(us) => format!("{all} (a CPU's own: {us} us)"),
            None => all,
        }
    }

    /// The deepest state in words: `C6 (133 us to leave)`, `none entered`, `none listed`.
    #[must_use]
    pub fn deepest_in_words(&self) -> String {
        match (self.deepest(), self.states.is_empty()) {
            (Some(state), _) => format!("{} ({} us to leave)", state.name, state.exit_us),
            (None, false) => "none entered".to_owned(),
            (None, true) => "none listed by the kernel".to_owned(),
        }
    }

    /// Frequencies in words: `2.1 to 3.4 GHz (powersave)`, `unknown`.
    #[must_use]
    pub fn frequency_in_words(&self) -> String {
        let Some(FrequencyUse { least_khz, most_khz, is_counted, governor }) = &self.frequency
        else {
            return "unknown".to_owned();
        };
        let ghz = |khz: &u64| format!("{:.2}", *khz as f64 / 1e6);
        let range = if least_khz == most_khz {
            format!("{} GHz", ghz(most_khz))
        } else {
            format!("{} to {} GHz", ghz(least_khz), ghz(most_khz))
        };
        let governor = if governor.is_empty() { String::new() } else { format!(" ({governor})") };
        let seen = if *is_counted { "" } else { ", as read before and after" };
        format!("{range}{governor}{seen}")
    }
}

/// Cores of a machine by package, node and third-level cache, as text: `package 0 node 0 L3 0-3: 0+2
/// 1+3`, groups separated by `; `. Siblings of a core are joined by `+`, cores that share a
/// second-level cache stand in parentheses.
#[must_use]
pub fn topology(root: &Path, online: &[u32]) -> Option<String> {
    let list = |cpu: u32, file: &str| text(&root.join(format!("cpu{cpu}/{file}")));
    let shared = |cpu: u32, level: &str| {
        let caches = fs::read_dir(root.join(format!("cpu{cpu}/cache"))).ok()?;
        caches.flatten().map(|entry| entry.path()).find_map(|cache| {
            let is_data = text(&cache.join("type")).is_none_or(|kind| kind != "Instruction");
            let is_it = text(&cache.join("level")).as_deref() == Some(level) && is_data;
            is_it.then(|| text(&cache.join("shared_cpu_list"))).flatten()
        })
    };
    let node = |cpu: u32| {
        let names = fs::read_dir(root.join(format!("cpu{cpu}"))).ok()?.flatten();
        let mut names = names.filter_map(|entry| entry.file_name().into_string().ok());
        names.find_map(|name| name.strip_prefix("node")?.parse::<u32>().ok())
    };

    let mut groups: Vec<(String, Vec<(String, String)>)> = Vec::new();
    for &cpu in online {
        let siblings = list(cpu, "topology/thread_siblings_list")?;
        if cpu_list(&siblings).first().is_some_and(|first| *first != cpu && online.contains(first))
        {
            continue;
        }
        let package = list(cpu, "topology/physical_package_id").unwrap_or_default();
        let node = node(cpu).map_or(String::new(), |node| format!(" node {node}"));
        let l3 = shared(cpu, "3").map_or(String::new(), |cpus| format!(" L3 {cpus}"));
        let name = format!("package {package}{node}{l3}");
        let threads: Vec<String> = cpu_list(&siblings).iter().map(u32::to_string).collect();
        let core = (threads.join("+"), shared(cpu, "2").unwrap_or(siblings));
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, cores)) => cores.push(core),
            None => groups.push((name, vec![core])),
        }
    }
    let words = |(name, cores): &(String, Vec<(String, String)>)| {
        let by_l2 = cores.chunk_by(|(_, a), (_, b)| a == b);
        let cores = by_l2.map(|together| {
            let names: Vec<&str> = together.iter().map(|(name, _)| name.as_str()).collect();
            if names.len() > 1 { format!("({})", names.join(" ")) } else { names.join(" ") }
        });
        format!("{name}: {}", cores.collect::<Vec<_>>().join(" "))
    };
    (!groups.is_empty()).then(|| groups.iter().map(words).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Writes files below a directory that stands for `/sys/devices/system/cpu`.
    fn tree(root: &Path, files: &[(&str, &str)]) {
        for (path, content) in files {
            let file = root.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{content}\n")).unwrap();
        }
    }

    fn laptop(root: &Path, [c1, c6]: [(u64, u64); 2]) -> PowerReading {
        for (state, name, latency, (usage, time)) in
            [("state0", "POLL", 0, (3, 9)), ("state1", "C1E", 10, c1), ("state2", "C6", 133, c6)]
        {
            for (file, value) in [
                ("name", name.to_owned()),
                ("latency", latency.to_string()),
                ("usage", usage.to_string()),
                ("time", time.to_string()),
            ] {
                tree(root, &[(&format!("cpu3/cpuidle/{state}/{file}"), &value)]);
            }
        }
        tree(root, &[("cpuidle/current_driver", "intel_idle")]);
        PowerReading::below(root, &[3])
    }

    #[test]
    fn the_deepest_state_is_the_one_entered_between_two_readings() {
        let root = tempfile::tempdir().unwrap();
        let before = laptop(root.path(), [(1_000, 500_000), (70, 90_000)]);
        let after = laptop(root.path(), [(5_812, 4_000_000), (70, 90_000)]);

        let used = before.until(&after);
        let entered: Vec<_> =
            used.states.iter().map(|s| (s.name.as_str(), s.entered, s.time_us)).collect();
        assert_eq!(entered, [("POLL", 0, 0), ("C1E", 4_812, 3_500_000), ("C6", 0, 0)]);
        assert_eq!(used.deepest_in_words(), "C1E (10 us to leave)");
        assert_eq!((used.cpus.as_str(), used.driver.as_deref()), ("3", Some("intel_idle")));

        let deeper = laptop(root.path(), [(5_900, 4_100_000), (71, 99_000)]);
        assert_eq!(before.until(&deeper).deepest_in_words(), "C6 (133 us to leave)");
        assert_eq!(used.and(&after.until(&deeper)), before.until(&deeper));
    }

    #[test]
    fn counters_that_were_set_back_count_from_zero() {
        let root = tempfile::tempdir().unwrap();
        let before = laptop(root.path(), [(1_000, 500_000), (0, 0)]);
        let after = laptop(root.path(), [(12, 800), (0, 0)]);
        let used = before.until(&after);
        assert_eq!((used.states[1].entered, used.states[1].time_us), (12, 800));
    }

    #[test]
    fn a_machine_without_idle_states_and_frequencies_says_so() {
        let root = tempfile::tempdir().unwrap();
        tree(root.path(), &[("cpuidle/current_driver", "none")]);
        let nothing = PowerReading::below(root.path(), &[0, 1]);
        let used = nothing.until(&nothing);
        assert_eq!(used.driver, None);
        assert_eq!(used.deepest_in_words(), "none listed by the kernel");
        assert_eq!(
            (used.bound_in_words(), used.frequency_in_words()),
            ("unknown".into(), "unknown".into())
        );

        let polled = laptop(root.path(), [(1, 1), (1, 1)]);
        assert_eq!(polled.until(&polled).deepest_in_words(), "none entered");
    }

    #[test]
    fn frequencies_come_from_the_times_in_them_or_from_both_ends() {
        let root = tempfile::tempdir().unwrap();
        let ends = |khz: &str| {
            tree(root.path(), &[("cpu0/cpufreq/scaling_cur_freq", khz)]);
            tree(root.path(), &[("cpu0/cpufreq/scaling_governor", "schedutil")]);
            PowerReading::below(root.path(), &[0])
        };
        let used = ends("800000").until(&ends("3400000"));
        assert_eq!(
            used.frequency_in_words(),
            "0.80 to 3.40 GHz (schedutil), as read before and after"
        );

        let times = |at: &str| {
            tree(root.path(), &[("cpu0/cpufreq/stats/time_in_state", at)]);
            PowerReading::below(root.path(), &[0])
        };
        let used = times("800000 70\n1800000 5\n3400000 9")
            .until(&times("800000 70\n1800000 8\n3400000 9"));
        assert_eq!(used.frequency_in_words(), "1.80 GHz (schedutil)");
    }

    #[test]
    fn a_bound_is_told_with_its_change_and_that_of_the_cpu_itself() {
        let bound = |first_us, last_us| PowerUse {
            bound: Some(BoundUse { first_us, last_us }),
            ..PowerUse::default()
        };
        assert_eq!(bound(None, None).bound_in_words(), "no bound");
        assert_eq!(bound(Some(0), Some(0)).bound_in_words(), "0 us");
        assert_eq!(bound(Some(0), None).bound_in_words(), "0 us, later no bound");
        let own = PowerUse { resume_us: Some(20), ..bound(None, None) };
        assert_eq!(own.bound_in_words(), "no bound (a CPU's own: 20 us)");
    }

    #[test]
    fn a_machine_s_cores_stand_in_groups_with_their_siblings() {
        let root = tempfile::tempdir().unwrap();
        for (cpu, package, siblings, l2, l3) in [
            (0, 0, "0,4", "0,4", "0-1,4-5"),
            (1, 0, "1,5", "1,5", "0-1,4-5"),
            (2, 1, "2", "2-3", "2-3"),
            (3, 1, "3", "2-3", "2-3"),
            (4, 0, "0,4", "0,4", "0-1,4-5"),
            (5, 0, "1,5", "1,5", "0-1,4-5"),
        ] {
            let of = |file: &str| format!("cpu{cpu}/{file}");
            tree(
                root.path(),
                &[
                    (&of("topology/thread_siblings_list"), siblings),
                    (&of("topology/physical_package_id"), &package.to_string()),
                    (&of("cache/index2/level"), "2"),
                    (&of("cache/index2/shared_cpu_list"), l2),
                    (&of("cache/index3/level"), "3"),
                    (&of("cache/index3/shared_cpu_list"), l3),
                    (&of(&format!("node{package}/cpulist")), l3),
                ],
            );
        }
        assert_eq!(
            topology(root.path(), &[0, 1, 2, 3, 4, 5]).unwrap(),
            "package 0 node 0 L3 0-1,4-5: 0+4 1+5; package 1 node 1 L3 2-3: (2 3)"
        );
        assert_eq!(topology(root.path(), &[9]), None);
    }

    #[test]
    fn a_loop_without_a_cpu_is_read_on_all_that_it_may_run_on() {
        assert_eq!(cpus_of_loop(Some(3)), [3]);
        let cpus = cpus_of_loop(None);
        assert!(!cpus.is_empty());
        let before = PowerReading::now(&cpus);
        let used = before.until(&PowerReading::now(&cpus));
        assert_eq!(used.cpus, listed(cpus));
        assert!(used.states.is_sorted_by_key(|state| state.exit_us), "{used:?}");
    }
}
