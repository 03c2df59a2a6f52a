//! The account of a polling thread: its time, its gaps, and what took them.

use serde::{Deserialize, Serialize};

use onbeat_cause::NoiseSource;

/// Times of a polling thread, after each block of `measure noise`; a later note of the same process
/// replaces it. `window_ns = polled_ns + gaps_ns`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NoiseAccount {
    /// The CPU.
    pub cpu: u32,
    /// Shortest gap that counts, in nanoseconds.
    pub threshold_ns: u64,
    /// Median time between two clock readings when the probe was opened, in nanoseconds.
    pub step_ns: u64,
    /// Number of windows in which the thread polled.
    pub windows: u64,
    /// Sum of their lengths, in nanoseconds.
    pub window_ns: u64,
    /// Time outside of gaps, in nanoseconds.
    pub polled_ns: u64,
    /// Number of gaps.
    pub gaps: u64,
    /// Sum of their lengths, in nanoseconds.
    pub gaps_ns: u64,
    /// Longest gap, in nanoseconds.
    pub longest_ns: u64,
    /// What took the gaps, the largest sum first; the sums add up to `gaps_ns`.
    pub sources: Vec<NoiseCount>,
    /// Reason why kernel events were not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_recorded: Option<String>,
    /// Whether this kernel runs as a guest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_guest: bool,
    /// Stolen time of the CPU, in nanoseconds; absent where the kernel counts none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal_ns: Option<u64>,
    /// Non-maskable interrupts of the CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nmis: Option<u64>,
    /// System management interrupts of the CPU; absent where it does not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smis: Option<u64>,
}

/// What one source took of the CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoiseCount {
    /// The source.
    #[serde(flatten)]
    pub source: NoiseSource,
    /// Number of gaps with a part of it.
    pub gaps: u64,
    /// Sum of its parts, in nanoseconds.
    pub ns: u64,
    /// Its longest part, in nanoseconds.
    pub longest_ns: u64,
}

impl NoiseAccount {
    /// Counts a part of a gap.
    pub fn add_part(&mut self, source: &NoiseSource, ns: u64) {
        let count = self.of(source);
        count.gaps += 1;
        count.ns += ns;
        count.longest_ns = count.longest_ns.max(ns);
    }

    /// Counts gaps that were lost on their way to the account: only their number and their length in
    /// all are known.
    pub fn add_lost(&mut self, gaps: u64, ns: u64) {
        if gaps > 0 {
            let count = self.of(&NoiseSource::NotRecorded);
            count.gaps += gaps;
            count.ns += ns;
        }
    }

    fn of(&mut self, source: &NoiseSource) -> &mut NoiseCount {
        let place = self.sources.iter().position(|count| count.source == *source);
        let place = place.unwrap_or_else(|| {
            let new = NoiseCount { source: source.clone(), gaps: 0, ns: 0, longest_ns: 0 };
            self.sources.push(new);
            self.sources.len() - 1
        });
        &mut self.sources[place]
    }

    /// Returns the share of the windows that the gaps took; 0 without a window.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.gaps_ns as f64 / self.window_ns.max(1) as f64
    }
}
