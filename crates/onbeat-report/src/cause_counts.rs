//! Spikes counted by their main cause.

use std::collections::BTreeMap;

use onbeat_cause::CauseKind;
use onbeat_record::{CauseCount, RunFile};

/// Spikes by their main cause.
pub type Causes = BTreeMap<CauseKind, CauseCount>;

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
        *entry = std::mem::take(entry).merged(count);
    }
    sum
}

/// Returns the part of the spikes' lateness whose main cause is one of `kinds`, 0 to 1; 0 without
/// spikes.
#[must_use]
pub fn share_of(causes: &Causes, kinds: &[CauseKind]) -> f64 {
    let lateness_ns = |count: &CauseCount| count.lateness_ns as f64;
    let all: f64 = causes.values().map(lateness_ns).sum();
    let of_kinds: f64 = causes
        .iter()
        .filter(|(kind, _)| kinds.contains(kind))
        .map(|(_, count)| lateness_ns(count))
        .sum();
    if all > 0.0 { of_kinds / all } else { 0.0 }
}
