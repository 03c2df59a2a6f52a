//! The record of one cycle: fixed size, one cache line, no pointers.

use crate::time::Instant;

/// The timing of one cycle. The cold side knows the loop only as a sequence of samples.
///
/// `r_k` is the release, `s_k` the first instant after the wait and `e_k` the end of the work.
///
/// ```
/// use onbeat_rt::{Flags, Instant, Sample};
///
/// let sample = Sample {
///     release: Instant::from_ns(5_000_000),
///     wakeup_latency_ns: 20_000,
///     execution_time_ns: 300_000,
///     ..Sample::default()
/// };
/// assert_eq!(sample.start(), Instant::from_ns(5_020_000));
/// assert_eq!(sample.response_time_ns(), 320_000);
/// assert!(!sample.flags.has(Flags::OVERRUN));
/// ```
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// `k`, the number of the release that this cycle served; skipped releases leave gaps.
    pub index: u64,
    /// `r_k` on `CLOCK_MONOTONIC`.
    pub release: Instant,
    /// `s_k − r_k`, in nanoseconds.
    pub wakeup_latency_ns: u64,
    /// `e_k − s_k`, in nanoseconds.
    pub execution_time_ns: u64,
    /// Time from the instant the sleep was set to until it returned, in nanoseconds. Equal to the
    /// wake-up latency when the wait does not spin.
    pub sleep_latency_ns: u64,
    /// Releases skipped since the previous cycle.
    pub skipped: u64,
    /// Deadline miss, overrun, and how the wait went.
    pub flags: Flags,
    /// A value of the task, set by [`crate::Cycle::note`].
    pub note: u32,
    /// Time spent polling the clock before the release, in nanoseconds.
    pub spun_ns: u32,
    /// A second value of the task, set by [`crate::Cycle::note_too`].
    pub note_too: u32,
}

impl Sample {
    /// Returns `s_k`, the first instant after the wait.
    #[must_use]
    pub const fn start(&self) -> Instant {
        self.release.plus_ns(self.wakeup_latency_ns)
    }

    /// Returns `e_k − r_k`, in nanoseconds.
    #[must_use]
    pub const fn response_time_ns(&self) -> u64 {
        self.wakeup_latency_ns + self.execution_time_ns
    }
}

/// Facts about a cycle, as bits.
///
/// ```
/// use onbeat_rt::Flags;
///
/// let flags = Flags::default().with(Flags::DEADLINE_MISS).with_if(Flags::OVERRUN, false);
/// assert!(flags.has(Flags::DEADLINE_MISS) && !flags.has(Flags::OVERRUN));
/// ```
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u32);

impl Flags {
    /// The cycle ended after its deadline: `e_k − r_k > D`.
    pub const DEADLINE_MISS: Self = Self(1);
    /// The cycle ended after the next release: `e_k > r_(k+1)`.
    pub const OVERRUN: Self = Self(1 << 1);
    /// The release, or the start of its spin margin, had passed before the wait began: the loop did
    /// not sleep.
    pub const NO_SLEEP: Self = Self(1 << 2);
    /// A signal ended the sleep early; the loop resumed it.
    pub const INTERRUPTED: Self = Self(1 << 3);
    /// The sleep was relative: the kernel counted from the system call, slightly later than the
    /// loop did.
    pub const RELATIVE: Self = Self(1 << 4);

    /// Returns the union of both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether all flags of `other` are set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns `self`, with `other` added when `condition` holds.
    #[must_use]
    pub const fn with_if(self, other: Self, condition: bool) -> Self {
        if condition { self.with(other) } else { self }
    }
}

const _: () = assert!(size_of::<Sample>() == 64, "a sample is one cache line");
