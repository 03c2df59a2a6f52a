//! Counters of the kernel for a thread.
#![allow(unsafe_code)]

use rustix::fs::{Mode, OFlags};
use rustix::time::{ClockId, clock_gettime};

/// Counters of the calling thread, since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Page faults, minor and major.
    pub page_faults: u64,
    /// Page faults that read from disk.
    pub major_faults: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
    /// CPU time in user and kernel mode, in nanoseconds.
    pub cpu_ns: u64,
}

impl Usage {
    /// Reads the counters of the calling thread (`getrusage(RUSAGE_THREAD)`).
    #[must_use]
    pub fn of_this_thread() -> Self {
        // SAFETY: `counters` is valid memory for the answer; RUSAGE_THREAD exists since Linux
        // 2.6.26.
        let counters = unsafe {
            let mut counters: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut counters);
            counters
        };
        Self {
            page_faults: unsigned(counters.ru_minflt) + unsigned(counters.ru_majflt),
            major_faults: unsigned(counters.ru_majflt),
            involuntary_switches: unsigned(counters.ru_nivcsw),
            cpu_ns: ns(counters.ru_utime) + ns(counters.ru_stime),
        }
    }

    /// Returns the difference to `earlier`.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            page_faults: self.page_faults.saturating_sub(earlier.page_faults),
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
            involuntary_switches: self
                .involuntary_switches
                .saturating_sub(earlier.involuntary_switches),
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
        }
    }

    /// Returns the sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            page_faults: self.page_faults + other.page_faults,
            major_faults: self.major_faults + other.major_faults,
            involuntary_switches: self.involuntary_switches + other.involuntary_switches,
            cpu_ns: self.cpu_ns + other.cpu_ns,
        }
    }
}

/// Returns the CPU time of the calling thread since its start, in nanoseconds.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Returns the time for which the calling thread has waited for a CPU since its start, in
/// nanoseconds: the second number of its `schedstat` (kernel,
/// Documentation/scheduler/sched-stats.rst). `None` on kernels without it. Does not allocate.
#[must_use]
pub fn run_delay_ns() -> Option<u64> {
    let file = rustix::fs::open(
        "/proc/thread-self/schedstat",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .ok()?;
    let mut text = [0_u8; 64];
    let length = rustix::io::read(&file, &mut text).ok()?;
    let text = std::str::from_utf8(&text[..length]).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn unsigned(counter: libc::c_long) -> u64 {
    u64::try_from(counter).unwrap_or(0)
}

fn ns(time: libc::timeval) -> u64 {
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_usec).unwrap_or(0) * 1_000
}
