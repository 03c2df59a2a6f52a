//! Stretches of a run that are in no figure, because something around the loop changed.
//!
//! The rule: when a change is seen, everything that was under way between the last look that saw
//! the old state and the look that saw the new one is left out, whatever its size. A cycle is under
//! way from its release to its end, a release that was skipped from when it was due to the start
//! that came instead.

use onbeat_rt::{Instant, Sample};
use serde::{Deserialize, Serialize};

/// A change around a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Surrounding {
    /// The wall clock moved against `CLOCK_MONOTONIC` by more than 5 ms and by more than slewing at
    /// 500 ppm could.
    ClockStep,
    /// `CLOCK_BOOTTIME` moved against `CLOCK_MONOTONIC`.
    Suspend,
    /// CPUs came online or went offline.
    CpuCount,
}

/// A stretch in which something changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exclusion {
    /// The last moment that is known to have seen the old state, on `CLOCK_MONOTONIC`.
    pub from: Instant,
    /// The first one that is known to have seen the new one.
    pub to: Instant,
    /// What it was.
    pub what: Surrounding,
    /// In words, without a full stop.
    pub sentence: String,
}

/// Something around the loop changed. All slots under way during it, timely or late, are in no
/// series: a cycle from its release to its end, a skipped release until the next start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExclusionNote {
    /// Start of the stretch, in seconds since the file's start.
    pub t: f64,
    /// Time between the looks that saw the old and the new state, in seconds; about 0.02.
    pub length: f64,
    /// What changed.
    pub what: Surrounding,
    /// Description, without a full stop.
    pub sentence: String,
    /// Slots in no series because of it. Slots of two exclusions count in both, once in `excluded`
    /// of the interval.
    pub samples: u64,
}

/// Exclusions that may still touch a future sample.
#[derive(Debug, Default)]
pub(super) struct OpenExclusions(Vec<(Exclusion, u64)>);

impl OpenExclusions {
    pub(super) fn add(&mut self, exclusion: Exclusion) {
        self.0.push((exclusion, 0));
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether something that was under way from `from` to `to` is left out.
    pub(super) fn touches(&self, from: Instant, to: Instant) -> bool {
        // Touching is enough: a cycle that began before the clock was set and ended after it has no
        // length that means anything.
        self.0.iter().any(|(stretch, _)| from < stretch.to && to > stretch.from)
    }

    pub(super) fn touches_cycle(&self, sample: &Sample) -> bool {
        !self.is_empty() && self.touches(sample.release, end_of(sample))
    }

    /// Counts, stretch by stretch, what of a sample and of the releases skipped before it is left
    /// out.
    pub(super) fn count(&mut self, sample: &Sample, period_ns: u64) {
        if self.is_empty() {
            return;
        }

        self.count_one(sample.release, end_of(sample));
        for passed in 1..=sample.skipped {
            self.count_one(sample.release.minus_ns(passed * period_ns), sample.start());
        }
    }

    /// Counts one slot that was under way from `from` to `to`.
    pub(super) fn count_one(&mut self, from: Instant, to: Instant) {
        for (stretch, samples) in &mut self.0 {
            *samples += u64::from(from < stretch.to && to > stretch.from);
        }
    }

    /// Takes out those that touch nothing due at `due` or later: to be written, with how many slots
    /// each has cost.
    pub(super) fn over_before(&mut self, due: Instant) -> Vec<(Exclusion, u64)> {
        // All together: they may overlap, and a cycle counts for each that it touches.
        if self.0.iter().all(|(stretch, _)| stretch.to <= due) { self.all() } else { Vec::new() }
    }

    pub(super) fn all(&mut self) -> Vec<(Exclusion, u64)> {
        std::mem::take(&mut self.0)
    }
}

const fn end_of(sample: &Sample) -> Instant {
    sample.release.plus_ns(sample.response_time_ns())
}
