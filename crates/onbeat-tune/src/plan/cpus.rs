//! The choice of the loop's CPUs.
//!
//! One core: all threads of it, because a sibling that works for others slows the loop down. Never
//! CPU 0, which keeps the time, unless it shares the only core; never all CPUs. Among cores, in
//! this order: one that is isolated already, one of the fastest kind, one on the NUMA node of the
//! loop's interface, the one with the fewest interrupts that the kernel does not move, the one with
//! the fewest interrupts at all, the one with the highest numbers.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use onbeat_host::thread::may_run_on;

use super::PlanError;
use crate::catalogue::HostTree;
use crate::catalogue::loop_setup::{CpuSetVariable, LoopSetup};
use crate::catalogue::probes::irq::is_managed;
use crate::catalogue::survey::Survey;
use crate::cpu_list::CpuList;
use crate::evidence::tables::rows;

/// How the loop's CPUs are chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CpuChoice {
    /// By the rules of this module.
    Auto,
    /// These.
    List(CpuList),
}

/// The CPUs of a loop, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenCpus {
    /// The CPUs: at least one, and not all; the only one of a machine where it was named.
    pub cpus: CpuList,
    /// In a sentence.
    pub because: String,
}

/// What counts for one core; the greatest is chosen.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CoreMerit {
    is_isolated: bool,
    capacity: u64,
    is_on_node: bool,
    managed: Reverse<u64>,
    interrupts: Reverse<u64>,
    lowest: u32,
}

/// Chooses CPUs, or checks those that were chosen. The only CPU of a machine is never chosen, but may
/// be named: a guest in virtual time has no other.
///
/// # Errors
/// [`PlanError::NoCpu`] where CPUs are to be chosen on a machine with one CPU, [`PlanError::NotOnline`],
/// [`PlanError::NoHousekeeping`], [`PlanError::Machine`] where the online CPUs cannot be read.
pub fn choose(survey: &Survey<'_>, choice: &CpuChoice) -> Result<ChosenCpus, PlanError> {
    let online = survey.online().map_err(|why| PlanError::Machine { why: why.to_string() })?;
    match choice {
        CpuChoice::List(cpus) => check(cpus, &online, survey),
        CpuChoice::Auto => best(survey, &online, &online),
    }
}

/// The CPU of a loop of one thread, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopCpu {
    pub cpu: u32,
    /// In a sentence.
    pub because: String,
}

/// Chooses the CPU of a loop of one thread of this process on a machine: the first of the core that
/// [`choose`] gives it, among those that its cpuset has, and CPU 0 only where there is no other.
#[must_use]
pub fn loop_cpu(host: &HostTree) -> LoopCpu {
    let setup = LoopSetup::default();
    let survey = Survey::new(host, &setup);
    let online = survey.online().unwrap_or_default();
    let usable = online.iter().filter(|cpu| !host.is_live() || may_run_on(*cpu)).collect();
    let chosen = best(&survey, &online, &usable);
    let first = |chosen: ChosenCpus| {
        let cpu = chosen.cpus.iter().next()?;
        Some(LoopCpu { cpu, because: chosen.because })
    };
    chosen.ok().and_then(first).unwrap_or_else(|| LoopCpu {
        cpu: 0,
        because: "the machine has, or shows, no other CPU".to_owned(),
    })
}

/// The CPUs of several loops that a shield may take: all of them, unless nothing of `usable` would be
/// left for everything else. Then the first is left out: CPU 0, which keeps the time, where it is
/// among them.
#[must_use]
pub fn shieldable(loops: &CpuList, usable: &CpuList) -> CpuList {
    if usable.minus(loops).is_empty() { loops.iter().skip(1).collect() } else { loops.clone() }
}

fn check(cpus: &CpuList, online: &CpuList, survey: &Survey<'_>) -> Result<ChosenCpus, PlanError> {
    let cpus = cpus.clone();
    let online = online.clone();
    if cpus.is_empty() || !cpus.is_within(&online) {
        return Err(PlanError::NotOnline { cpus, online });
    }
    if online.is_within(&cpus) {
        if online.iter().count() > 1 {
            return Err(PlanError::NoHousekeeping { cpus, online });
        }
        let because = "the machine has one CPU: only settings that name no CPUs have steps";
        return Ok(ChosenCpus { cpus, because: because.to_owned() });
    }

    let mut because = "named by the user".to_owned();
    if cpus.contains(0) {
        because.push_str("; CPU 0 keeps the time and cannot be freed of it");
    }
    if is_slower(&cpus, survey) {
        because.push_str(&format!("; {SLOWER}"));
    }
    let shared = siblings_outside(&cpus, survey).and(&online);
    if !shared.is_empty() {
        because.push_str(&format!("; CPU {shared} shares a core with them"));
    }
    Ok(ChosenCpus { cpus, because })
}

/// The best of the `usable` ones.
fn best(survey: &Survey<'_>, online: &CpuList, usable: &CpuList) -> Result<ChosenCpus, PlanError> {
    let cores = cores(survey, usable);
    let counts = InterruptCounts::read(survey);
    let candidates = cores.iter().filter(|core| !core.contains(0) && !online.is_within(core));
    let best = candidates.max_by_key(|core| merit(core, survey, &counts));
    if let Some(cpus) = best {
        let merit = merit(cpus, survey, &counts);
        let because = reason(cpus, &merit, &counts, survey);
        return Ok(ChosenCpus { cpus: cpus.clone(), because });
    }

    // A single core: a thread of it other than CPU 0.
    let whose = if usable == online { "the machine" } else { "the cpuset of this process" };
    match usable.iter().filter(|cpu| *cpu != 0).last() {
        Some(cpu) if online.iter().count() > 1 => Ok(ChosenCpus {
            cpus: [cpu].into_iter().collect(),
            because: format!("{whose} has one core: the loop shares it with everything else"),
        }),
        _ => Err(PlanError::NoCpu { online: online.clone() }),
    }
}

/// The online threads of each core.
fn cores(survey: &Survey<'_>, online: &CpuList) -> Vec<CpuList> {
    let mut cores: Vec<CpuList> = Vec::new();
    for cpu in online.iter() {
        if cores.iter().any(|core| core.contains(cpu)) {
            continue;
        }
        // Without the file each CPU is a core.
        let threads = threads_of(cpu, survey).unwrap_or_default().and(online);
        cores.push(if threads.contains(cpu) { threads } else { [cpu].into_iter().collect() });
    }

    cores
}

fn threads_of(cpu: u32, survey: &Survey<'_>) -> Option<CpuList> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    CpuList::parse_list(&survey.host().read(&path).ok()?).ok()
}

fn siblings_outside(cpus: &CpuList, survey: &Survey<'_>) -> CpuList {
    let threads = cpus.iter().filter_map(|cpu| threads_of(cpu, survey));
    let all: CpuList = threads.flat_map(|threads| threads.iter().collect::<Vec<_>>()).collect();
    all.minus(cpus)
}

fn merit(core: &CpuList, survey: &Survey<'_>, counts: &InterruptCounts) -> CoreMerit {
    let isolated = survey.host().read("/sys/devices/system/cpu/isolated").unwrap_or_default();
    let isolated = CpuList::parse_list(&isolated).unwrap_or_default();
    let node = survey.cpu_set(CpuSetVariable::InterfaceNode);
    let lowest = core.iter().next().unwrap_or(0);

    CoreMerit {
        is_isolated: !isolated.is_empty() && core.is_within(&isolated),
        capacity: capacity(lowest, survey),
        is_on_node: node.is_ok_and(|node| core.is_within(&node)),
        managed: Reverse(core.iter().map(|cpu| counts.managed(cpu)).sum()),
        // Counts grow all the time: only their order of magnitude is compared, so that two plans
        // agree.
        interrupts: Reverse(
            core.iter().map(|cpu| counts.all(cpu)).sum::<u64>().checked_ilog2().unwrap_or(0).into(),
        ),
        lowest,
    }
}

/// How fast the CPU is in comparison with the others of the machine: its capacity (ARM), or its
/// highest frequency.
fn speed(cpu: u32, survey: &Survey<'_>) -> Option<u64> {
    let files = ["cpu_capacity", "cpufreq/cpuinfo_max_freq"];
    files.iter().find_map(|file| {
        let text = survey.host().read(&format!("/sys/devices/system/cpu/cpu{cpu}/{file}")).ok()?;
        text.trim().parse().ok()
    })
}

const SLOWER: &str = "of a slower kind than other cores";

/// Whether one of the CPUs is of a slower kind than others: favoured cores of one kind differ by
/// less.
fn is_slower(cpus: &CpuList, survey: &Survey<'_>) -> bool {
    let speeds =
        |of: &CpuList| -> Vec<u64> { of.iter().filter_map(|cpu| speed(cpu, survey)).collect() };
    let fastest = speeds(&survey.online().unwrap_or_default()).into_iter().max().unwrap_or(0);
    speeds(cpus).into_iter().any(|speed| speed < fastest / 100 * 85)
}

/// The speed by which cores are compared.
fn capacity(cpu: u32, survey: &Survey<'_>) -> u64 {
    // Favoured cores differ by some percent; another kind of core differs by more: the highest three
    // bits count, in their places.
    speed(cpu, survey).map_or(0, |number| {
        let below = number.checked_ilog2().unwrap_or(0).saturating_sub(2);
        number >> below << below
    })
}

fn reason(
    core: &CpuList,
    merit: &CoreMerit,
    counts: &InterruptCounts,
    survey: &Survey<'_>,
) -> String {
    let mut reasons = vec!["a core without CPU 0".to_owned()];
    if merit.is_isolated {
        reasons.push("isolated at boot".to_owned());
    }
    if is_slower(core, survey) {
        reasons.push(SLOWER.to_owned());
    }
    if merit.is_on_node && !survey.setup().interfaces.is_empty() {
        reasons.push(format!("on the NUMA node of {}", survey.setup().interfaces.join(", ")));
    }
    match merit.managed.0 {
        // Absent, or empty: Docker and Kubernetes mask /proc/interrupts.
        _ if counts.all.is_empty() => {}
        0 => reasons.push("without interrupts that cannot be moved".to_owned()),
        _ => reasons.push("with the fewest interrupts that cannot be moved".to_owned()),
    }

    reasons.join(", ")
}

/// Interrupts since boot, by CPU.
#[derive(Debug, Default)]
struct InterruptCounts {
    managed: BTreeMap<u32, u64>,
    all: BTreeMap<u32, u64>,
}

impl InterruptCounts {
    fn read(survey: &Survey<'_>) -> Self {
        let text = survey.host().read("/proc/interrupts").unwrap_or_default();
        let mut counts = Self::default();
        for row in rows(&text).into_iter().filter(|row| row.name.parse::<u32>().is_ok()) {
            let words: Vec<&str> = row.rest.split(' ').collect();
            // A name may have a blank in it: `hisi_sas_v3_hw cq`.
            let last_two = words[words.len().saturating_sub(2)..].join(" ");
            let names = [words.last().copied().unwrap_or_default(), last_two.as_str()];
            let is_managed = names.into_iter().any(is_managed);
            for (cpu, count) in row.counts {
                *counts.all.entry(cpu).or_default() += count;
                if is_managed {
                    *counts.managed.entry(cpu).or_default() += count;
                }
            }
        }

        counts
    }

    fn managed(&self, cpu: u32) -> u64 {
        // That there are some counts, not how many came so far.
        u64::from(self.managed.get(&cpu).is_some_and(|count| *count > 0))
    }

    fn all(&self, cpu: u32) -> u64 {
        self.all.get(&cpu).copied().unwrap_or(0)
    }
}
