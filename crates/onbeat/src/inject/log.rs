//! The log of injections: what was done and when. Causes named by onbeat are compared with it.
//!
//! It has a fixed size and is written without a lock, so that a cycle of the loop or a process that
//! shares the memory can write it.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use onbeat_rt::Instant;
use serde::{Deserialize, Serialize};

use super::fault::Fault;

/// An injection that took place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Injected {
    /// The fault.
    pub fault: Fault,
    /// Index, from 0.
    pub index: u64,
    /// Number of the release that it was timed for.
    pub release: u64,
    /// Begin, on `CLOCK_MONOTONIC`; `at_ns` in files.
    #[serde(rename = "at_ns", with = "onbeat_cause::facts::in_ns")]
    pub at: Instant,
    /// Length, in nanoseconds.
    pub ns: u64,
    /// Part of the length in which the loop was runnable but another thread had its CPU, in
    /// nanoseconds. Recorded for faults in the loop, from the kernel's run delay of its thread.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub kept_off_ns: u64,
    /// Evidence that it took place.
    pub detail: Detail,
}

// serde hands over a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_zero(ns: &u64) -> bool {
    *ns == 0
}

impl Injected {
    /// Returns its end.
    #[must_use]
    pub const fn end(&self) -> Instant {
        self.at.plus_ns(self.ns)
    }
}

/// Evidence that an injection took place.
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
        /// CPU time that it used, in nanoseconds.
        cpu_ns: u64,
    },
    /// One packet was received by many sockets.
    Received {
        /// Number of sockets that received it.
        sockets: u64,
        /// Packets received by each of them.
        packets: u64,
    },
    /// Timers expired together.
    Expired {
        /// Their number.
        timers: u64,
    },
    /// Interrupts were sent.
    Interrupted {
        /// Their number.
        sent: u64,
    },
    /// Pages were touched for the first time.
    Touched {
        /// Their number.
        pages: u64,
    },
    /// Real-time threads were taken off the CPU.
    OffCpu {
        /// Time for which real-time threads had kept the CPU before, in nanoseconds.
        after_ns: u64,
        /// For throttling, the idle time of the CPU in the stop; for the fair server, the run time
        /// of the ordinary thread; in nanoseconds.
        evidence_ns: u64,
    },
    /// The thread was moved to another CPU and back.
    Moved {
        /// The old CPU.
        from: u64,
        /// The new CPU.
        to: u64,
    },
    /// The CPU left an idle state.
    Woken {
        /// Number of the state.
        state: u64,
        /// Its exit latency according to the kernel, in nanoseconds.
        exit_ns: u64,
    },
    /// A cycle worked too long.
    Overran {
        /// Number of releases that passed.
        releases: u64,
    },
    /// A system call polled many descriptors.
    Polled {
        /// Their number.
        descriptors: u64,
    },
    /// The loop waited for a lock.
    Held {
        /// Time for which the loop waited, in nanoseconds.
        held_ns: u64,
        /// Time for which the holder was kept off its CPU, in nanoseconds.
        kept_off_ns: u64,
    },
    /// The loop waited for a reply.
    Answered {
        /// Time until the reply, in nanoseconds.
        after_ns: u64,
    },
    /// The loop slept during its work.
    Slept {
        /// Requested length of the sleep, in nanoseconds.
        wanted_ns: u64,
    },
    /// The loop waited for the disk.
    Synced {
        /// Number of bytes to write.
        bytes: u64,
    },
    /// The loop read pages of a file that were not in memory.
    Read {
        /// Number of pages read.
        pages: u64,
        /// Number of major faults, counted by the kernel.
        major: u64,
    },
    /// A system call searched file locks under a spin lock.
    Searched {
        /// Their number.
        locks: u64,
    },
    /// A BPF program delayed the kernel.
    InKernel {
        /// Start of the delay after the loop's programmed wake-up, in nanoseconds; 0 if it began
        /// before.
        after_ns: u64,
    },
    /// The cgroup's quota was used up.
    Throttled {
        /// Throttled time counted by the kernel, in nanoseconds.
        counted_ns: u64,
    },
    /// The cgroup was frozen.
    Frozen {
        /// The loop's thread.
        tid: u64,
    },
}

impl Detail {
    /// Makes the detail of the two figures in a row of the log.
    const fn from_figures(fault: Fault, [first, second]: [u64; 2]) -> Self {
        match fault {
            Fault::StopSignal | Fault::PtraceStop => Self::Stopped { pid: first },
            Fault::EqualPriorityHog
            | Fault::HigherPriorityHog
            | Fault::DeadlineHog
            | Fault::OrdinaryHog => Self::Busy { cpu_ns: first },
            Fault::SoftirqFlood | Fault::ThreadedInterrupt => {
                Self::Received { sockets: first, packets: second }
            }
            Fault::InterruptLoad => Self::Expired { timers: first },
            Fault::IpiStorm => Self::Interrupted { sent: first },
            Fault::PageFaults | Fault::CopyOnWrite => Self::Touched { pages: first },
            Fault::RtThrottling | Fault::FairServer => {
                Self::OffCpu { after_ns: first, evidence_ns: second }
            }
            Fault::ForcedMigration => Self::Moved { from: first, to: second },
            Fault::DeepIdle => Self::Woken { state: first, exit_ns: second },
            Fault::OwnOverrun => Self::Overran { releases: first },
            Fault::KernelSection => Self::Polled { descriptors: first },
            Fault::LockWait | Fault::LockHolderKeptOff | Fault::KernelLockWait => {
                Self::Held { held_ns: first, kept_off_ns: second }
            }
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
            Self::Received { sockets, packets } => {
                write!(f, "{packets} packets received by each of {sockets} sockets")
            }
            Self::Expired { timers } => write!(f, "{timers} timers expired together"),
            Self::Interrupted { sent } => write!(f, "{sent} interrupts sent"),
            Self::Touched { pages } => write!(f, "{pages} fresh pages touched"),
            Self::OffCpu { after_ns, evidence_ns } => {
                write!(
                    f,
                    "after {:.1} ms of real time; {:.1} ms of evidence",
                    ms(after_ns),
                    ms(evidence_ns)
                )
            }
            Self::Moved { from, to } => write!(f, "from CPU {from} to CPU {to} and back"),
            Self::Woken { state, exit_ns } => {
                write!(f, "idle state {state}, exit latency {exit_ns} ns")
            }
            Self::Overran { releases: 1 } => f.write_str("1 release passed"),
            Self::Overran { releases } => write!(f, "{releases} releases passed"),
            Self::Polled { descriptors } => write!(f, "poll of {descriptors} descriptors"),
            Self::Held { held_ns, kept_off_ns: 0 } => {
                write!(f, "lock held for {:.3} ms", ms(held_ns))
            }
            Self::Held { held_ns, kept_off_ns } => {
                write!(
                    f,
                    "lock held for {:.3} ms, its holder kept off for {:.3} ms",
                    ms(held_ns),
                    ms(kept_off_ns)
                )
            }
            Self::Answered { after_ns } => write!(f, "answered after {:.3} ms", ms(after_ns)),
            Self::Slept { wanted_ns } => write!(f, "slept for {:.3} ms or longer", ms(wanted_ns)),
            Self::Synced { bytes } => write!(f, "{bytes} bytes written to the disk"),
            Self::Read { pages, major } => write!(f, "{major} of {pages} pages read from the disk"),
            Self::Searched { locks } => write!(f, "{locks} file locks searched"),
            Self::InKernel { after_ns } => {
                write!(f, "in the kernel from {:.3} ms after the wake-up was due", ms(after_ns))
            }
            Self::Throttled { counted_ns } => {
                write!(f, "throttled for {:.3} ms by the kernel's count", ms(counted_ns))
            }
            Self::Frozen { tid } => write!(f, "thread {tid} frozen and thawed"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DisturbanceRecord {
    pub(super) at: Instant,
    pub(super) ns: u64,
    /// See [`Detail::from_figures`].
    pub(super) figures: [u64; 2],
}

/// Whether the loop is disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dose {
    Full,
    Placebo,
}

const FIELDS: usize = 6;

/// The buffer of a log: one writer, any number of readers.
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

    /// Adds a row; has no effect if the log is full. Only one thread may write.
    pub(super) fn add(&self, release: u64, done: DisturbanceRecord) {
        self.add_of_loop(release, done, 0);
    }

    /// The same as [`Self::add`], for a fault in the loop, with the time for which the loop was
    /// kept off its CPU.
    pub(super) fn add_of_loop(&self, release: u64, done: DisturbanceRecord, kept_off_ns: u64) {
        let index = self.written.load(Ordering::Relaxed);
        let Some(row) = self.rows.get(index) else { return };
        let [first, second] = done.figures;
        for (field, value) in
            row.iter().zip([release, done.at.as_ns(), done.ns, first, second, kept_off_ns])
        {
            field.store(value, Ordering::Relaxed);
        }

        self.written.store(index + 1, Ordering::Release);
    }

    /// Counts a missed release.
    pub(super) fn miss(&self) {
        self.missed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    pub(super) fn is_full(&self) -> bool {
        self.written.load(Ordering::Relaxed) == self.rows.len()
    }

    /// Whether the injector is done: enough injections took place, or too many releases were
    /// missed.
    pub(super) fn is_over(&self) -> bool {
        self.is_full() || self.missed() > self.rows.len() as u64 + SPARE_MISSES
    }

    pub(super) fn read(&self) -> Vec<Injected> {
        let written = self.written.load(Ordering::Acquire);
        self.rows[..written]
            .iter()
            .enumerate()
            .map(|(index, row)| self.injected(index, row))
            .collect()
    }

    fn injected(&self, index: usize, row: &[AtomicU64; FIELDS]) -> Injected {
        let [release, at, ns, first, second, kept_off_ns] =
            row.each_ref().map(|field| field.load(Ordering::Relaxed));
        let detail = match self.dose {
            Dose::Full => Detail::from_figures(self.fault, [first, second]),
            Dose::Placebo => Detail::Placebo,
        };

        let fault = self.fault;
        let index = index as u64;
        let at = Instant::from_ns(at);
        Injected { fault, index, release, at, ns, kept_off_ns, detail }
    }
}

/// An injector gives up when the missed releases exceed the number of injections by more than this.
const SPARE_MISSES: u64 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn done(at: u64) -> DisturbanceRecord {
        DisturbanceRecord { at: Instant::from_ns(at), ns: 5, figures: [8, 9] }
    }

    #[test]
    fn what_is_added_is_read_in_order_and_a_full_log_keeps_what_it_has() {
        let log = LogBuffer::with_room_for(2, Fault::ForcedMigration, Dose::Full);
        for at in [100, 200, 300] {
            log.add(at / 100, done(at));
        }

        let read = log.read();
        assert_eq!(
            read.iter().map(|row| (row.index, row.release, row.at.as_ns())).collect::<Vec<_>>(),
            [(0, 1, 100), (1, 2, 200)]
        );
        assert_eq!(read[0].detail, Detail::Moved { from: 8, to: 9 });
        assert_eq!(read[0].end(), Instant::from_ns(105));
    }

    #[test]
    fn an_entry_reads_back_as_it_was_written() {
        let log = LogBuffer::with_room_for(1, Fault::FairServer, Dose::Full);
        log.add(7, done(100));
        let line = serde_json::to_string(&log.read()[0]).unwrap();
        assert_eq!(
            line,
            r#"{"fault":"fair_server","index":0,"release":7,"at_ns":100,"ns":5,"detail":{"off_cpu":{"after_ns":8,"evidence_ns":9}}}"#
        );
        assert_eq!(serde_json::from_str::<Injected>(&line).unwrap(), log.read()[0]);
    }

    #[test]
    fn a_placebo_never_says_that_something_was_done() {
        let log = LogBuffer::with_room_for(1, Fault::StopSignal, Dose::Placebo);
        log.add(7, done(100));
        assert_eq!(log.read()[0].detail, Detail::Placebo);
    }

    #[test]
    fn too_many_misses_end_an_injection() {
        let log = LogBuffer::with_room_for(2, Fault::StopSignal, Dose::Full);
        for _ in 0..5 {
            log.miss();
            assert!(!log.is_over());
        }

        log.miss();
        assert!(log.is_over() && !log.is_full());
    }
}
