//! Facts of a late cycle, and the parts of it that need an explanation.
//!
//! The facts come from the loop's own sample; no event is needed for them. [`super::classify`]
//! explains each part.

use std::ops::Range;

use onbeat_rt::{Flags, Instant, Sample};
use serde::{Deserialize, Serialize};

use super::kind::{Cause, CauseKind, Culprit, Explanation};

/// Facts of a late cycle, known without any event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpikeFacts {
    /// `r_k`.
    #[serde(with = "in_ns")]
    pub release: Instant,
    /// The programmed expiry of the loop's timer: the release minus the spin margin.
    #[serde(with = "in_ns")]
    pub expiry: Instant,
    /// The timer was relative; the kernel's `expiry` is then later by the time it took to set the
    /// timer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub relative: bool,
    /// When the loop began to wait, if known: what ran of it later is its wake-up. `None` also where
    /// it did not sleep.
    #[serde(default, with = "maybe_in_ns", skip_serializing_if = "Option::is_none")]
    pub entered_sleep: Option<Instant>,
    /// `s_k`, the first instant after the wait.
    #[serde(with = "in_ns")]
    pub start: Instant,
    /// `e_k`.
    #[serde(with = "in_ns")]
    pub end: Instant,
    /// Time spent polling before the release, in nanoseconds.
    pub spun_ns: u64,
    /// Planned work of a cycle, in nanoseconds.
    pub planned_work_ns: u64,
    /// Thread number of the loop.
    pub tid: u32,
    /// The CPU that the thread is bound to, or was last seen on.
    pub cpu: Option<u32>,
    /// Kernel priority of the thread: 99 − p for `SCHED_FIFO` p, 120 for an ordinary thread.
    pub prio: i32,
    /// Of a program that is watched: the call in which it waits for its next release. Its own loop
    /// says when it sleeps; of a program that does not, a sleep that looks like one in its work may
    /// be the one between two cycles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_in: Option<WaitingCall>,
}

/// The system call in which a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WaitingCall {
    pub number: i64,
    /// Its first argument: a clock, a descriptor, an address.
    pub first: u64,
}

impl WaitingCall {
    /// Whether this may be the same wait, in another cycle: addresses may differ.
    pub(super) const fn may_be(&self, number: i64, first: Option<u64>) -> bool {
        let is_fixed = matches!(
            number,
            libc::SYS_clock_nanosleep
                | libc::SYS_read
                | libc::SYS_readv
                | libc::SYS_epoll_pwait
                | libc::SYS_recvfrom
                | libc::SYS_recvmsg
        );
        let is_other = match first {
            Some(first) => is_fixed && first != self.first,
            None => false,
        };
        self.number == number && !is_other
    }
}

impl SpikeFacts {
    /// Returns the facts of a sample; thread, CPU and priority keep their defaults.
    ///
    /// `margin_ns` is the spin margin. It is used only if the loop did not sleep; otherwise the
    /// sample gives the timer's expiry.
    #[must_use]
    pub const fn from_sample(sample: &Sample, margin_ns: u64, planned_work_ns: u64) -> Self {
        let start = sample.start();
        let woke = start.minus_ns(sample.spun_ns as u64);
        let slept = !sample.flags.has(Flags::NO_SLEEP);
        let expiry = if slept {
            woke.minus_ns(sample.sleep_latency_ns)
        } else {
            sample.release.minus_ns(margin_ns)
        };
        Self {
            release: sample.release,
            expiry,
            relative: sample.flags.has(Flags::RELATIVE),
            entered_sleep: None,
            start,
            end: start.plus_ns(sample.execution_time_ns),
            spun_ns: sample.spun_ns as u64,
            planned_work_ns,
            tid: 0,
            cpu: None,
            prio: 120,
            waits_in: None,
        }
    }

    /// Whether a timer that expires at `expires` is the loop's. A relative timer expires before the
    /// loop starts.
    pub(super) fn is_the_loops_timer(&self, expires: Instant) -> bool {
        if self.relative {
            expires >= self.expiry && expires <= self.start
        } else {
            expires == self.expiry
        }
    }

    /// Returns the parts to explain. Of two parts, the smaller is left out when it is less than a
    /// quarter of the larger.
    pub(super) fn parts(&self) -> Vec<SpikePart> {
        let woke = self.start.minus_ns(self.spun_ns);
        let wait = if self.spun_ns > 0 && woke < self.release {
            // The loop woke up in time: the delay happened while it polled.
            let planned_ns = self.release.ns_since(woke);
            SpikePart { from: woke, to: self.start, planned_ns, kind: ExpectedActivity::Polling }
        } else {
            SpikePart {
                from: self.expiry.min(self.start),
                to: self.start,
                planned_ns: 0,
                kind: ExpectedActivity::WakeUp,
            }
        };

        let work = SpikePart {
            from: self.start,
            to: self.end,
            planned_ns: self.planned_work_ns,
            kind: ExpectedActivity::Running,
        };
        let larger = wait.late_ns().max(work.late_ns());
        let counts = |part: &SpikePart| part.late_ns() > 0 && part.late_ns() >= larger / 4;
        [wait, work].into_iter().filter(counts).collect()
    }

    /// Returns the explanation of a spike that was not analysed.
    #[must_use]
    pub fn not_analysed(&self, because: &str) -> Explanation {
        let ns = self.parts().iter().map(SpikePart::late_ns).sum();
        let culprit = Some(Culprit { name: because.to_owned(), ..Culprit::default() });
        let evidence = format!("not analysed: {because}");
        Explanation::from_causes(vec![Cause {
            kind: CauseKind::Unexplained,
            ns,
            evidence,
            culprit,
        }])
    }

    /// Returns the time span for which events are needed.
    #[must_use]
    pub fn span(&self) -> Range<Instant> {
        self.expiry..self.end
    }
}

/// Serialises instants as nanoseconds: the hot crate does not depend on serde.
#[doc(hidden)] // For `onbeat::inject`.
pub mod in_ns {
    use onbeat_rt::Instant;
    use serde::{Deserialize, Deserializer, Serializer};

    // serde passes a reference.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub fn serialize<S: Serializer>(instant: &Instant, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(instant.as_ns())
    }

    pub fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Instant, D::Error> {
        u64::deserialize(from).map(Instant::from_ns)
    }
}

/// [`in_ns`] of what may not be known.
mod maybe_in_ns {
    use onbeat_rt::Instant;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        instant: &Option<Instant>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        instant.map(Instant::as_ns).serialize(to)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(
        from: D,
    ) -> Result<Option<Instant>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Instant::from_ns))
    }
}

/// A part of a spike that needs an explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpikePart {
    pub(super) from: Instant,
    pub(super) to: Instant,
    /// Planned length, in nanoseconds.
    pub(super) planned_ns: u64,
    pub(super) kind: ExpectedActivity,
}

/// The activity that was expected of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpectedActivity {
    WakeUp,
    /// Polling the clock until its release.
    Polling,
    /// Working.
    Running,
}

impl SpikePart {
    const fn late_ns(&self) -> u64 {
        self.to.ns_since(self.from).saturating_sub(self.planned_ns)
    }
}
