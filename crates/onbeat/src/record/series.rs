//! The series of a run: what is counted, once per cycle.

use serde::{Deserialize, Serialize};

/// One counted figure of a cycle. The tag in the run file is the snake-case name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Series {
    /// `s_k − r_k`.
    WakeupLatency,
    /// `s_k − s_(k−1)`.
    ObservedPeriod,
    /// `e_k − s_k`.
    ExecutionTime,
    /// `e_k − r_k`.
    ResponseTime,
    /// How late the sleep itself returned; kept when the wait spins.
    SleepLatency,
    /// For a release `r_k` that was skipped: the next start minus `r_k`.
    SkippedLatency,
}

impl Series {
    /// All of them, in the order of the run file.
    pub const ALL: [Self; 6] = [
        Self::WakeupLatency,
        Self::ObservedPeriod,
        Self::ExecutionTime,
        Self::ResponseTime,
        Self::SleepLatency,
        Self::SkippedLatency,
    ];

    /// The `Tag=` of its lines.
    #[must_use]
    pub const fn tag(self) -> &'static str {
        match self {
            Self::WakeupLatency => "wakeup_latency",
            Self::ObservedPeriod => "observed_period",
            Self::ExecutionTime => "execution_time",
            Self::ResponseTime => "response_time",
            Self::SleepLatency => "sleep_latency",
            Self::SkippedLatency => "skipped_latency",
        }
    }

    /// The series of a tag.
    #[must_use]
    pub fn from_tag(tag: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|series| series.tag() == tag)
    }

    /// What people read.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::WakeupLatency => "wake-up latency",
            Self::ObservedPeriod => "observed period",
            Self::ExecutionTime => "execution time",
            Self::ResponseTime => "response time",
            Self::SleepLatency => "sleep latency",
            Self::SkippedLatency => "latency of skipped releases",
        }
    }

    /// Significant decimal digits of its histograms. A period sits near T, where its spread is a small part of it: it
    /// needs one more (32 ns or 64 ns at 1 ms instead of 0.5 µs or 1 µs).
    #[must_use]
    pub const fn digits(self) -> u8 {
        match self {
            Self::ObservedPeriod => 4,
            _ => 3,
        }
    }

    /// Its place in [`Series::ALL`].
    #[must_use]
    pub const fn place(self) -> usize {
        self as usize
    }
}
