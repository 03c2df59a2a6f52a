//! Why spikes were late, counted: how many by their main cause, how much of their lateness is accounted for, and what would
//! remove the causes.

use std::collections::BTreeMap;

use super::cell::CellSummary;
use super::units::{Letters, count, listed, percent, three_digits, time_ns};
use crate::cause::{Cause, CauseKind};
use crate::record::{CauseCount, RunFile, SpikeNote};

/// Spikes by their main cause.
pub type Causes = BTreeMap<CauseKind, CauseCount>;

/// Causes told in a sentence; the rest is one number.
const TOLD: usize = 4;

/// The causes of a run's spikes, from all its intervals.
#[must_use]
pub fn of_run(run: &RunFile) -> Causes {
    merged(run.intervals.iter().map(|interval| &interval.causes))
}

/// All together.
#[must_use]
pub fn merged<'c>(all: impl IntoIterator<Item = &'c Causes>) -> Causes {
    let mut sum = Causes::new();
    for (kind, count) in all.into_iter().flatten() {
        let entry = sum.entry(*kind).or_default();
        *entry = entry.merged(*count);
    }
    sum
}

/// What a person should read: one sentence per load, and the advice for its most frequent cause. Nothing when nobody looked,
/// or nothing was late.
#[must_use]
pub fn sentences(cells: &[CellSummary], loads: &[String]) -> Vec<String> {
    let mut sentences = Vec::new();
    for load in loads {
        let of_load: Vec<&CellSummary> = cells.iter().filter(|cell| cell.load == *load).collect();
        let causes = merged(of_load.iter().map(|cell| &cell.causes));
        let spikes: u64 = of_load.iter().filter_map(|cell| cell.spike_count).sum();
        let kept: Vec<&SpikeNote> = of_load.iter().flat_map(|cell| &cell.spikes).collect();
        sentences.extend(in_words(&causes, spikes, &kept).map(|words| format!("Under {load}, {words}")));
        // What helps under one load is said once.
        let new = advice(&causes).into_iter().filter(|advice| !sentences.contains(advice)).collect::<Vec<_>>();
        sentences.extend(new);
    }
    sentences.extend(cost(cells));
    sentences
}

/// What one flight recorder for all cells of a bench has cost, from the bench's own closing line; nothing where there was none.
#[must_use]
pub fn cost_of_bench(bench: &RunFile) -> Option<String> {
    let end = bench.end.as_ref().filter(|end| end.causes_bytes > 0 && end.t > 0.0)?;
    let percent = (end.causes_cpu_ns as f64 / (end.t * 1e9) * 1e4).round() / 100.0;
    let (percent, mib) = (three_digits(percent), three_digits(end.causes_bytes as f64 / 1_048_576.0));
    Some(format!("Looking for causes took {percent} % of a core beside the loops, and {mib} MiB of buffers"))
}

/// What looking for causes has cost beside the loops; nothing where nobody looked.
fn cost(cells: &[CellSummary]) -> Option<String> {
    let shares: Vec<f64> = cells.iter().filter_map(|cell| cell.causes_cpu_share).collect();
    let most = shares.iter().copied().reduce(f64::max)?;
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    let bytes = cells.iter().filter_map(|cell| cell.causes_bytes).max().unwrap_or(0);
    let mib = three_digits(bytes as f64 / 1_048_576.0);
    let share = |share: f64| format!("{} %", three_digits((share * 1e4).round() / 100.0));
    let most = if shares.len() > 1 { format!(" (at most {})", share(most)) } else { String::new() };
    Some(format!("Looking for causes took {} of a core{most} beside the loop, and {mib} MiB of buffers", share(mean)))
}

/// `17 spikes: 9 steal (worst 3.7 ms), 5 kernel section in dd/write (worst 1.2 ms); 98.2 % of their lateness is accounted for`.
#[must_use]
pub fn in_words(causes: &Causes, spikes: u64, kept: &[&SpikeNote]) -> Option<String> {
    let looked_at: u64 = causes.values().map(|count| count.spikes).sum();
    if looked_at == 0 {
        return None;
    }
    let mut by_number: Vec<(CauseKind, CauseCount)> = causes.iter().map(|(kind, count)| (*kind, *count)).collect();
    by_number.sort_by_key(|(_, count)| std::cmp::Reverse(count.spikes));
    let told = by_number.iter().take(TOLD).map(|(kind, of_kind)| {
        let who = worst_of(*kind, kept).map_or_else(|| kind.words().to_owned(), Cause::words);
        format!("{} {who} (worst {})", count(of_kind.spikes), time_ns(of_kind.worst_ns, Letters::Ascii))
    });
    let mut told: Vec<String> = told.collect();
    let others: u64 = by_number.iter().skip(TOLD).map(|(_, count)| count.spikes).sum();
    if others > 0 {
        told.push(format!("{} of other causes", count(others)));
    }
    if spikes > looked_at {
        told.push(format!("{} not looked at", count(spikes - looked_at)));
    }
    let plural = if spikes.max(looked_at) == 1 { "spike" } else { "spikes" };
    Some(format!(
        "{} {plural}: {}; {} of their lateness is accounted for",
        count(spikes.max(looked_at)),
        listed(&told),
        share(causes)
    ))
}

fn share(causes: &Causes) -> String {
    let all = causes.values().fold(CauseCount::default(), |sum, count| sum.merged(*count));
    percent(all.accounted_ns as f64 / all.lateness_ns.max(1) as f64)
}

/// The main cause of the worst kept spike of a kind.
pub(super) fn worst_of<'s>(kind: CauseKind, kept: &[&'s SpikeNote]) -> Option<&'s Cause> {
    let main = |spike: &'s SpikeNote| spike.causes.iter().max_by_key(|cause| cause.ns);
    let of_kind = kept.iter().filter_map(|spike| Some((spike.wakeup_latency_ns, main(spike)?)));
    of_kind.filter(|(_, cause)| cause.kind == kind).max_by_key(|(late_ns, _)| *late_ns).map(|(_, cause)| cause)
}

/// What would remove the most frequent cause that has a name, and the one of the worst spike when that is another.
fn advice(causes: &Causes) -> Vec<String> {
    let named = || causes.iter().filter(|(kind, _)| **kind != CauseKind::Unexplained);
    let most = named().max_by_key(|(_, count)| count.spikes).map(|(kind, _)| *kind);
    let worst = named().max_by_key(|(_, count)| count.worst_ns).map(|(kind, _)| *kind);
    let of = |kind: CauseKind, which: &str| format!("Against {}{which}: {}", kind.words(), kind.advice());
    match (most, worst) {
        (Some(most), Some(worst)) if most != worst => vec![of(most, ", the most frequent"), of(worst, ", the worst")],
        (Some(most), _) => vec![of(most, "")],
        (None, _) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(spikes: u64, worst_ns: u64) -> CauseCount {
        CauseCount { spikes, worst_ns, lateness_ns: spikes * worst_ns, accounted_ns: spikes * worst_ns * 98 / 100 }
    }

    #[test]
    fn spikes_are_told_by_their_causes_most_frequent_first() {
        let causes = Causes::from([
            (CauseKind::HypervisorSteal, counted(9, 3_700_000)),
            (CauseKind::KernelSection, counted(5, 1_200_000)),
            (CauseKind::Unexplained, counted(1, 300_000)),
        ]);
        assert_eq!(
            in_words(&causes, 17, &[]).as_deref(),
            Some(
                "17 spikes: 9 steal (worst 3.7 ms), 5 kernel section (worst 1.2 ms), 1 unexplained (worst 300 us) and 2 \
                 not looked at; 98 % of their lateness is accounted for"
            )
        );
        assert!(matches!(&advice(&causes)[..], [one] if one.starts_with("Against steal: ")));
    }

    #[test]
    fn the_worst_cause_gets_its_advice_too_when_it_is_not_the_most_frequent() {
        let causes = Causes::from([
            (CauseKind::HypervisorSteal, counted(9, 300_000)),
            (CauseKind::RtThrottling, counted(1, 50_000_000)),
        ]);
        let advice = advice(&causes);
        assert!(advice[0].starts_with("Against steal, the most frequent: "), "{advice:?}");
        assert!(advice[1].starts_with("Against RT throttling, the worst: "), "{advice:?}");
    }

    #[test]
    fn what_looking_has_cost_is_told_once_for_all_cells() {
        let cell = |share: f64, bytes| CellSummary {
            causes_cpu_share: Some(share),
            causes_bytes: Some(bytes),
            ..CellSummary::default()
        };
        let cells = [cell(0.01, 8 << 20), cell(0.02, 10 << 20), CellSummary::default()];
        assert_eq!(
            cost(&cells).as_deref(),
            Some("Looking for causes took 1.5 % of a core (at most 2 %) beside the loop, and 10 MiB of buffers")
        );
        assert_eq!(cost(&[CellSummary::default()]), None);
    }

    #[test]
    fn where_nobody_looked_nothing_is_told() {
        assert_eq!(in_words(&Causes::new(), 17, &[]), None);
    }
}
