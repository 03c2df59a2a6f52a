//! The remedies for the causes of a run, in its situation.

use super::cause_counts::merged;
use super::cell::CellSummary;
use onbeat_cause::advice::{self, Advice, Fact, Situation};
use onbeat_cause::{Cause, CauseKind, Explanation};
use onbeat_host::machine::{Host, cpu_list};
use onbeat_host::thread::Privilege;
use onbeat_record::{CauseCount, Header, SpikeNote};

pub use super::cell::Remedy;

/// The situation of a run, from what its file says of the machine, of what was granted and of how
/// the loop was timed.
#[must_use]
pub fn situation(header: &Header) -> Situation {
    let is_there = |what: Privilege, granted: bool| {
        header.grants.iter().any(|of| of.granted == granted && of.privilege() == Some(what))
    };
    let granted = |what: Privilege| is_there(what, true);
    let refused = |what: Privilege| is_there(what, false);

    let is = |name: &str, value: &str| header.host.fact(name) == Some(value);
    let cpu = header.timing.as_ref().and_then(|timing| timing.cpu);
    let booted = |option: &str| boot_option(&header.host, option);
    let has_cpu = |option: &str| booted(option).is_some_and(|value| of_cpu(value, cpu));

    let facts = [
        (Fact::Guest, header.host.fact("hypervisor").is_some()),
        (Fact::OneCpu, is("CPUs online", "1")),
        (Fact::PreemptRt, is("preemption", "PREEMPT_RT")),
        (Fact::PreemptFull, booted("preempt") == Some("full")),
        (Fact::IdlePolls, booted("idle") == Some("poll")),
        (Fact::RcuElsewhere, has_cpu("rcu_nocbs")),
        (Fact::NoTick, has_cpu("nohz_full")),
        (
            Fact::ManagedIrqsElsewhere,
            booted("isolcpus").is_some_and(|value| value.contains("managed_irq")),
        ),
        (Fact::NoRtLimit, is("real-time budget", "unlimited")),
        (Fact::FrequencyFixed, is("frequency governor", "performance")),
        (Fact::MemoryLocked, granted(Privilege::LockedMemory)),
        (Fact::Bound, cpu.is_some() && !refused(Privilege::CpuAffinity)),
        (Fact::Shielded, granted(Privilege::CpuShield)),
        (Fact::Spins, header.tuned().spin),
        (Fact::IdleBound, granted(Privilege::IdleStateBound)),
        (
            Fact::EvidenceMissing,
            refused(Privilege::FlightRecorder) || refused(Privilege::StealCounter),
        ),
        (Fact::CpusetV1, is("cpuset", "cgroup v1")),
        (Fact::CpusetV2, is("cpuset", "cgroup v2")),
    ];

    let priority = header.timing.as_ref().map_or(0, |timing| timing.priority);
    Situation {
        facts: facts.into_iter().filter(|(_, holds)| *holds).map(|(fact, _)| fact).collect(),
        priority: if granted(Privilege::RealTimePriority) { priority } else { 0 },
        idle_exit_ns: header.host.fact("deepest idle state").and_then(exit_ns),
    }
}

/// The last value of an option on the kernel's command line.
fn boot_option<'h>(host: &'h Host, option: &str) -> Option<&'h str> {
    let words = host.fact("kernel command line")?.split_ascii_whitespace();
    words.filter_map(|word| word.strip_prefix(option)?.strip_prefix('=')).next_back()
}

/// Whether a list of CPUs on the kernel's command line has the loop's, or `all`.
fn of_cpu(list: &str, cpu: Option<u32>) -> bool {
    list == "all" || cpu.is_some_and(|cpu| cpu_list(list).contains(&cpu))
}

/// From `C2, 400000 ns to leave`.
fn exit_ns(state: &str) -> Option<u64> {
    state.strip_suffix(" ns to leave")?.rsplit_once(", ")?.1.parse().ok()
}

/// Returns the remedies for a kind of cause: by its most frequent culprit, in the situation of the
/// cell with most of its spikes.
#[must_use]
pub fn remedy(kind: CauseKind, cells: &[&CellSummary]) -> Vec<Advice> {
    let counts: Vec<_> = cells.iter().map(|cell| &cell.causes).collect();
    let Some(all) = merged(counts).remove(&kind) else { return Vec::new() };
    representative(kind, &all, cells).advice(&deciding_situation(kind, cells))
}

/// Returns the tunings of the catalogue that put advice against a kind of cause into effect, in the
/// situation of [`remedy`].
#[must_use]
pub fn tunings(kind: CauseKind, advices: &[Advice], cells: &[&CellSummary]) -> Vec<&'static str> {
    advice::tunings(advices, &deciding_situation(kind, cells))
}

/// The situation of the cell with most spikes of a kind.
fn deciding_situation(kind: CauseKind, cells: &[&CellSummary]) -> Situation {
    let spikes = |cell: &&&CellSummary| cell.causes.get(&kind).map_or(0, |count| count.spikes);
    cells.iter().max_by_key(spikes).map(|cell| cell.situation.clone()).unwrap_or_default()
}

/// A cause as most spikes of its kind have it: of the usual size, and by the culprit of most when
/// one of its spikes was kept.
fn representative(kind: CauseKind, all: &CauseCount, cells: &[&CellSummary]) -> Cause {
    let kept = cells.iter().flat_map(|cell| &cell.spikes);
    let main = |spike: &SpikeNote| Explanation::from_causes(spike.causes.clone()).main().cloned();
    let culprit = all.most_frequent().and_then(|(who, _)| {
        let mut culprits = kept
            .filter_map(main)
            .filter(|cause| cause.kind == kind)
            .filter_map(|cause| cause.culprit);
        culprits.find(|culprit| culprit.words() == who)
    });

    Cause { kind, ns: all.lateness_ns / all.spikes.max(1), evidence: String::new(), culprit }
}

/// The remedies for each kind of cause that a cell has, the most frequent first.
#[must_use]
pub(super) fn of_cell(cell: &CellSummary) -> Vec<Remedy> {
    let mut kinds: Vec<(&CauseKind, &CauseCount)> = cell.causes.iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(count.spikes));
    let of_kind = |(kind, count): (&CauseKind, &CauseCount)| {
        let advice = remedy(*kind, &[cell]);
        Remedy {
            kind: *kind,
            culprit: count.most_frequent().map(|(who, _)| who.to_owned()),
            advice: advice.iter().map(|advice| advice.id().to_owned()).collect(),
            texts: advice.iter().map(|advice| advice.text().to_owned()).collect(),
            tunings: tunings(*kind, &advice, &[cell]).into_iter().map(str::to_owned).collect(),
        }
    };

    kinds.into_iter().map(of_kind).collect()
}
