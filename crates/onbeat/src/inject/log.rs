//! What was really done, and when: the log that causes found elsewhere are compared with.
//!
//! Of fixed size and written without a lock, so that a cycle of the loop can write it, and so can a process that
//! shares the memory.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use onbeat_rt::Instant;
use serde::{Deserialize, Serialize};

use super::Fault;

/// One disturbance that took place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Injected {
    /// What it was.
    pub fault: Fault,
    /// Counts from 0.
    pub index: u64,
    /// The number of the release it was timed for.
    pub release: u64,
    /// When it began, on `CLOCK_MONOTONIC`; in files as `at_ns`.
    #[serde(rename = "at_ns", with = "instant")]
    pub at: Instant,
    /// How long it lasted, in nanoseconds.
    pub ns: u64,
    /// How much of that somebody else had the loop's CPU although the loop wanted it, in nanoseconds: of faults that the loop makes
    /// itself, by the kernel's account of its thread.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub kept_off_ns: u64,
    /// What shows that it took place.
    pub detail: Detail,
}

// serde hands over a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_zero(ns: &u64) -> bool {
    *ns == 0
}

impl Injected {
    /// When it ended.
    #[must_use]
    pub const fn end(&self) -> Instant {
        self.at.plus_ns(self.ns)
    }
}

mod instant {
    use super::Instant;
    use serde::{Deserialize, Deserializer, Serializer};

    // serde hands over a reference.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub(super) fn serialize<S: Serializer>(instant: &Instant, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(instant.as_ns())
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Instant, D::Error> {
        u64::deserialize(from).map(Instant::from_ns)
    }
}

/// What shows that a disturbance took place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// Nothing was done: a placebo.
    Placebo,
    /// SIGSTOP and SIGCONT were both delivered.
    Stopped {
        /// The process.
        pid: u64,
    },
    /// A thread was busy.
    Busy {
        /// CPU time it used, in nanoseconds.
        cpu_ns: u64,
    },
    /// One packet was received over and over.
    Received {
        /// Sockets it was delivered to.
        sockets: u64,
        /// Packets that each of them got.
        packets: u64,
    },
    /// Timers expired together.
    Expired {
        /// How many.
        timers: u64,
    },
    /// Interrupts were sent.
    Interrupted {
        /// How many.
        sent: u64,
    },
    /// Pages were touched for the first time.
    Touched {
        /// How many.
        pages: u64,
    },
    /// Real time was taken off the CPU.
    OffCpu {
        /// How long real-time threads had kept the CPU before, in nanoseconds.
        after_ns: u64,
        /// Throttling: how long the CPU was idle meanwhile. Fair server: how long the ordinary thread ran. In nanoseconds.
        evidence_ns: u64,
    },
    /// The thread was sent to another CPU and back.
    Moved {
        /// From.
        from: u64,
        /// To.
        to: u64,
    },
    /// The CPU came out of an idle state.
    Woken {
        /// The state's number.
        state: u64,
        /// Its exit latency as the kernel tells it, in nanoseconds.
        exit_ns: u64,
    },
    /// A cycle worked too long.
    Overran {
        /// Releases that passed meanwhile.
        releases: u64,
    },
    /// A system call looked at many descriptors.
    Polled {
        /// How many.
        descriptors: u64,
    },
    /// The loop waited for a lock.
    Held {
        /// How long the lock was held while the loop wanted it, in nanoseconds.
        held_ns: u64,
        /// How long its holder was kept off its CPU, in nanoseconds.
        kept_off_ns: u64,
    },
    /// The loop waited for an answer.
    Answered {
        /// How long the answer took, in nanoseconds.
        after_ns: u64,
    },
    /// The loop slept in its work.
    Slept {
        /// How long it was to sleep, in nanoseconds.
        wanted_ns: u64,
    },
    /// The loop waited for the disk.
    Synced {
        /// What was to be written, in bytes.
        bytes: u64,
    },
    /// The loop read pages of a file that were not in memory.
    Read {
        /// How many it touched.
        pages: u64,
        /// How many of them had to be read, by the kernel's count.
        major: u64,
    },
    /// A system call looked through file locks under a spin lock.
    Searched {
        /// How many.
        locks: u64,
    },
    /// A BPF program took its time in the kernel.
    InKernel {
        /// How long after the end of the loop's sleep was due, in nanoseconds; 0 when it began before.
        after_ns: u64,
    },
    /// The cgroup's quota was used up.
    Throttled {
        /// What the kernel counted, in nanoseconds.
        counted_ns: u64,
    },
    /// The cgroup was frozen.
    Frozen {
        /// The loop's thread.
        tid: u64,
    },
}

impl Detail {
    /// From the two figures of a log's row.
    const fn of(fault: Fault, [first, second]: [u64; 2]) -> Self {
        match fault {
            Fault::StopSignal | Fault::PtraceStop => Self::Stopped { pid: first },
            Fault::EqualPriorityHog | Fault::HigherPriorityHog | Fault::DeadlineHog | Fault::OrdinaryHog => {
                Self::Busy { cpu_ns: first }
            }
            Fault::SoftirqFlood => Self::Received { sockets: first, packets: second },
            Fault::InterruptLoad => Self::Expired { timers: first },
            Fault::IpiStorm => Self::Interrupted { sent: first },
            Fault::PageFaults | Fault::CopyOnWrite => Self::Touched { pages: first },
            Fault::RtThrottling | Fault::FairServer => Self::OffCpu { after_ns: first, evidence_ns: second },
            Fault::ForcedMigration => Self::Moved { from: first, to: second },
            Fault::DeepIdle => Self::Woken { state: first, exit_ns: second },
            Fault::OwnOverrun => Self::Overran { releases: first },
            Fault::KernelSection => Self::Polled { descriptors: first },
            Fault::LockWait | Fault::LockHolderKeptOff => Self::Held { held_ns: first, kept_off_ns: second },
            Fault::ReplyWait => Self::Answered { after_ns: first },
            Fault::SleepInWork => Self::Slept { wanted_ns: first },
            Fault::DiskWait => Self::Synced { bytes: first },
            Fault::MajorFaults => Self::Read { pages: first, major: second },
            Fault::SpinLockSection => Self::Searched { locks: first },
            Fault::InterruptsOff | Fault::TimerInterrupt | Fault::SlowSoftirq | Fault::SlowIpi => {
                Self::InKernel { after_ns: first }
            }
            Fault::CpuQuota => Self::Throttled { counted_ns: first },
            Fault::CgroupFreezer => Self::Frozen { tid: first },
        }
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |ns: u64| ns as f64 / 1e6;
        match *self {
            Self::Placebo => f.write_str("nothing was done"),
            Self::Stopped { pid } => write!(f, "process {pid} stopped and continued"),
            Self::Busy { cpu_ns } => write!(f, "{:.3} ms of CPU time", ms(cpu_ns)),
            Self::Received { sockets, packets } => write!(f, "{packets} packets received by each of {sockets} sockets"),
            Self::Expired { timers } => write!(f, "{timers} timers expired together"),
            Self::Interrupted { sent } => write!(f, "{sent} interrupts sent"),
            Self::Touched { pages } => write!(f, "{pages} fresh pages touched"),
            Self::OffCpu { after_ns, evidence_ns } => {
                write!(f, "after {:.1} ms of real time; {:.1} ms of evidence", ms(after_ns), ms(evidence_ns))
            }
            Self::Moved { from, to } => write!(f, "from CPU {from} to CPU {to} and back"),
            Self::Woken { state, exit_ns } => write!(f, "idle state {state}, exit latency {exit_ns} ns"),
            Self::Overran { releases } => write!(f, "{releases} releases passed"),
            Self::Polled { descriptors } => write!(f, "poll of {descriptors} descriptors"),
            Self::Held { held_ns, kept_off_ns: 0 } => write!(f, "lock held for {:.3} ms", ms(held_ns)),
            Self::Held { held_ns, kept_off_ns } => {
                write!(f, "lock held for {:.3} ms, its holder kept off for {:.3} ms", ms(held_ns), ms(kept_off_ns))
            }
            Self::Answered { after_ns } => write!(f, "answered after {:.3} ms", ms(after_ns)),
            Self::Slept { wanted_ns } => write!(f, "slept for {:.3} ms or longer", ms(wanted_ns)),
            Self::Synced { bytes } => write!(f, "{bytes} bytes written to the disk"),
            Self::Read { pages, major } => write!(f, "{major} of {pages} pages read from the disk"),
            Self::Searched { locks } => write!(f, "{locks} file locks looked through"),
            Self::InKernel { after_ns } => {
                write!(f, "in the kernel from {:.3} ms after the wake-up was due", ms(after_ns))
            }
            Self::Throttled { counted_ns } => write!(f, "throttled for {:.3} ms by the kernel's count", ms(counted_ns)),
            Self::Frozen { tid } => write!(f, "thread {tid} frozen and thawed"),
        }
    }
}

/// What a disturber tells of one disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DisturbanceRecord {
    pub(super) at: Instant,
    pub(super) ns: u64,
    /// See [`Detail::from_figures`].
    pub(super) figures: [u64; 2],
}

/// Whether anything is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dose {
    Full,
    Placebo,
}

const FIELDS: usize = 6;

/// The log while it is written: one writer, any number of readers.
#[derive(Debug)]
pub(super) struct LogBuffer {
    fault: Fault,
    dose: Dose,
    rows: Box<[[AtomicU64; FIELDS]]>,
    written: AtomicUsize,
    missed: AtomicU64,
}

impl LogBuffer {
    pub(super) fn with_room_for(count: usize, fault: Fault, dose: Dose) -> Self {
        let rows = (0..count).map(|_| [const { AtomicU64::new(0) }; FIELDS]).collect();
        Self { fault, dose, rows, written: AtomicUsize::new(0), missed: AtomicU64::new(0) }
    }

    /// Adds a row; without effect when the log is full. Only one thread may write.
    pub(super) fn add(&self, release: u64, done: DisturbanceRecord) {
        self.add_of_loop(release, done, 0);
    }

    /// As [`Self::add`], of a fault in the loop that was kept off its CPU meanwhile.
    pub(super) fn add_of_loop(&self, release: u64, done: DisturbanceRecord, kept_off_ns: u64) {
        let index = self.written.load(Ordering::Relaxed);
        let Some(row) = self.rows.get(index) else { return };
        let [first, second] = done.figures;
        for (field, value) in row.iter().zip([release, done.at.as_ns(), done.ns, first, second, kept_off_ns]) {
            field.store(value, Ordering::Relaxed);
        }

        self.written.store(index + 1, Ordering::Release);
    }

    /// Counts a release that could not be hit.
    pub(super) fn miss(&self) {
        self.missed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    pub(super) fn is_full(&self) -> bool {
        self.written.load(Ordering::Relaxed) == self.rows.len()
    }

    /// Whether nothing more will come: enough was done, or as much was missed.
    pub(super) fn is_over(&self) -> bool {
        self.is_full() || self.missed() > self.rows.len() as u64 + SPARE_MISSES
    }

    pub(super) fn read(&self) -> Vec<Injected> {
        let written = self.written.load(Ordering::Acquire);
        self.rows[..written].iter().enumerate().map(|(index, row)| self.injected(index, row)).collect()
    }

    fn injected(&self, index: usize, row: &[AtomicU64; FIELDS]) -> Injected {
        let [release, at, ns, first, second, kept_off_ns] = row.each_ref().map(|field| field.load(Ordering::Relaxed));
        let detail = match self.dose {
            Dose::Full => Detail::from_figures(self.fault, [first, second]),
            Dose::Placebo => Detail::Placebo,
        };

        let (fault, index, at) = (self.fault, index as u64, Instant::from_ns(at));
        Injected { fault, index, release, at, ns, kept_off_ns, detail }
    }
}

/// Releases that may be missed beyond the number of injections before an injector gives up.
const SPARE_MISSES: u64 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn done(at: u64) -> DisturbanceRecord {
        DisturbanceRecord { at: Instant::from_ns(at), ns: 5, figures: [8, 9] }
    }

    #[test]
    fn what_is_added_is_read_in_order_and_a_full_log_keeps_what_it_has() {
        let board = LogBuffer::with_room_for(2, Fault::ForcedMigration, Dose::Full);
        for at in [100, 200, 300] {
            board.add(at / 100, done(at));
        }

        let read = board.read();
        assert_eq!(
            read.iter().map(|row| (row.index, row.release, row.at.as_ns())).collect::<Vec<_>>(),
            [(0, 1, 100), (1, 2, 200)]
        );
        assert_eq!(read[0].detail, Detail::Moved { from: 8, to: 9 });
        assert_eq!(read[0].end(), Instant::from_ns(105));
    }

    #[test]
    fn an_entry_reads_back_as_it_was_written() {
        let board = LogBuffer::with_room_for(1, Fault::FairServer, Dose::Full);
        board.add(7, done(100));
        let line = serde_json::to_string(&board.read()[0]).unwrap();
        assert_eq!(
            line,
            r#"{"fault":"fair_server","index":0,"release":7,"at_ns":100,"ns":5,"detail":{"off_cpu":{"after_ns":8,"evidence_ns":9}}}"#
        );
        assert_eq!(serde_json::from_str::<Injected>(&line).unwrap(), board.read()[0]);
    }

    #[test]
    fn a_placebo_never_says_that_something_was_done() {
        let board = LogBuffer::with_room_for(1, Fault::StopSignal, Dose::Placebo);
        board.add(7, done(100));
        assert_eq!(board.read()[0].detail, Detail::Placebo);
    }

    #[test]
    fn too_many_misses_end_an_injection() {
        let board = LogBuffer::with_room_for(2, Fault::StopSignal, Dose::Full);
        for _ in 0..5 {
            board.miss();
            assert!(!board.is_over());
        }

        board.miss();
        assert!(board.is_over() && !board.is_full());
    }
}
