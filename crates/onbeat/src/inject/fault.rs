//! The faults that can be injected into a loop.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::near_word::{did_you_mean, nearest};
use onbeat_cause::CauseKind;

/// Makes the faults from one list: of each what it is, its word on the command line and in files, and a
/// sentence for the help that says what it does.
macro_rules! faults {
    ($($(#[$doc:meta])* $fault:ident $word:literal $sentence:literal,)*) => {
        /// A fault: a cause of lateness that can be injected.
        ///
        /// ```
        /// use onbeat::cause::CauseKind;
        /// use onbeat::inject::Fault;
        ///
        /// let fault: Fault = "page-faults".parse()?;
        /// assert_eq!(fault.cause(), CauseKind::PageFault);
        /// # Ok::<(), onbeat::inject::UnknownFault>(())
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Fault {
            $($(#[$doc])* $fault,)*
        }

        impl Fault {
            /// All faults, in the order of the help.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$fault),*];

            /// Returns the word used on the command line and in files.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$fault => $word,)*
                }
            }

            /// Returns a sentence for the help that says what the fault does.
            #[must_use]
            pub const fn describe(self) -> &'static str {
                match self {
                    $(Self::$fault => $sentence,)*
                }
            }
        }
    };
}

faults! {
    /// A signal stops the loop's process, another one continues it.
    StopSignal "stop_signal"
        "Stops the loop's process with SIGSTOP before a release, continues it after the time.",
    /// A thread of the same priority holds the loop's CPU.
    EqualPriorityHog "equal_priority_hog"
        "A thread of the loop's own priority keeps its CPU busy from before a release on.",
    /// Received packets are processed on the loop's CPU.
    SoftirqFlood "softirq_flood"
        "Broadcast packets on the loopback keep the loop's CPU in receive processing.",
    /// Thousands of timers expire in one interrupt on the loop's CPU.
    InterruptLoad "interrupt_load"
        "Thousands of timers expire in one timer interrupt, just before a release.",
    /// Another CPU sends interrupts to the loop's CPU without a pause.
    IpiStorm "ipi_storm"
        "Another CPU interrupts the loop's CPU without a pause (membarrier).",
    /// A cycle accesses memory that is not present yet.
    PageFaults "page_faults"
        "A cycle touches fresh pages for the time, as code without locked memory does.",
    /// Real-time threads use up the CPU's share for real time.
    RtThrottling "rt_throttling"
        "A real-time thread below the loop uses the CPU until the kernel stops real time there.",
    /// A starved ordinary thread gets its minimum share of the CPU.
    FairServer "fair_server"
        "A real-time thread starves an ordinary one until the kernel's fair server steps in.",
    /// The loop's thread is moved to another CPU and back.
    ForcedMigration "forced_migration"
        "Moves the loop's thread to another CPU before a release, and back after it.",
    /// The CPU sleeps deeply before a release.
    DeepIdle "deep_idle"
        "Watches for releases that wake the CPU from a deep idle state.",
    /// A cycle works beyond the next release.
    OwnOverrun "own_overrun"
        "A cycle of the loop works for the time beyond its next release.",
    /// A system call on the loop's CPU does not yield.
    KernelSection "kernel_section"
        "A poll() of thousands of descriptors keeps the loop's CPU in the kernel.",
    /// A cycle waits for a lock that another thread holds.
    LockWait "lock_wait"
        "A cycle waits for a lock that a thread on another CPU holds for the time.",
    /// A cycle waits for a lock whose holder is kept off its CPU.
    LockHolderKeptOff "lock_holder_kept_off"
        "The same, while a real-time thread keeps the lock's holder off its CPU.",
    /// A cycle waits for the answer of another thread.
    ReplyWait "reply_wait"
        "A cycle asks another thread and waits for the answer, which takes the time.",
    /// A cycle sleeps during its work.
    SleepInWork "sleep_in_work"
        "A cycle sleeps for the time in the middle of its work.",
    /// A cycle waits until a file is on the disk.
    DiskWait "disk_wait"
        "A cycle writes to the disk without the page cache (O_DIRECT) for this long.",
    /// A cycle reads a mapped file whose pages are not in memory.
    MajorFaults "major_faults"
        "A cycle reads a mapped file that is not in memory, page by page for the time.",
    /// A cycle writes to copy-on-write memory.
    CopyOnWrite "copy_on_write"
        "A cycle writes to pages that the kernel copies at the first write, for the time.",
    /// A thread of higher priority holds the loop's CPU.
    HigherPriorityHog "higher_priority_hog"
        "A thread of higher priority than the loop's keeps its CPU busy from before a release on.",
    /// A SCHED_DEADLINE thread holds the loop's CPU.
    DeadlineHog "deadline_hog"
        "A SCHED_DEADLINE thread keeps the loop's CPU busy from before a release on.",
    /// Another ordinary thread holds the CPU of an ordinary loop.
    OrdinaryHog "ordinary_hog"
        "An ordinary thread keeps the CPU of an ordinary loop busy, within its time slice.",
    /// A system call holds a spin lock on the loop's CPU.
    SpinLockSection "spin_lock_section"
        "A fcntl() on the loop's CPU looks through thousands of file locks under a spin lock.",
    /// Kernel code on the loop's CPU keeps interrupts off.
    InterruptsOff "interrupts_off"
        "Kernel code on the loop's CPU keeps interrupts off for the time (a BPF program).",
    /// The interrupt of the loop's own timer takes long.
    TimerInterrupt "timer_interrupt"
        "The interrupt of the loop's own timer takes the time before it wakes the loop (BPF).",
    /// One softirq on the loop's CPU takes long.
    SlowSoftirq "slow_softirq"
        "One received packet keeps the loop's CPU in its softirq for the time (BPF).",
    /// One interrupt from another CPU takes long.
    SlowIpi "slow_ipi"
        "One interrupt from another CPU takes the time on the loop's CPU (BPF).",
    /// The CPU quota of the loop's cgroup is used up.
    CpuQuota "cpu_quota"
        "Puts an ordinary loop into a cgroup whose CPU quota is used up for the time.",
    /// The loop's cgroup is frozen.
    CgroupFreezer "cgroup_freezer"
        "Puts the loop's thread into a cgroup and freezes that for the time.",
    /// A debugger stops the loop's thread.
    PtraceStop "ptrace_stop"
        "Stops the loop's thread as a debugger does (ptrace), then resumes it.",
    /// The thread of a network card's interrupt runs on the loop's CPU.
    ThreadedInterrupt "threaded_interrupt"
        "The thread of a network card's interrupt takes the time for a frame of another card.",
    /// A cycle waits for a lock of the kernel that a thread of lower priority holds.
    KernelLockWait "kernel_lock_wait"
        "A cycle waits for a kernel lock that a preempted thread of lower priority holds.",
}

/// Where a fault comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOrigin {
    /// Threads or processes outside the loop: [`crate::inject::Injector`].
    OutsideLoop,
    /// A cycle of the loop itself: [`crate::inject::InLoop`].
    InLoop,
}

/// The loops that a fault can be injected into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loops {
    /// Every loop.
    Any,
    /// Loops with a real-time priority.
    RealTime,
    /// Loops without a real-time priority.
    Ordinary,
}

/// No fault has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown cause \"{word}\"{}; known causes: {}", meant(.word), typed_words().join(", "))]
pub struct UnknownFault {
    /// The word.
    pub word: String,
}

impl Fault {
    /// Returns the cause that a report should name for this fault.
    #[must_use]
    pub const fn cause(self) -> CauseKind {
        match self {
            Self::StopSignal | Self::PtraceStop => CauseKind::Stopped,
            Self::EqualPriorityHog
            | Self::HigherPriorityHog
            | Self::DeadlineHog
            | Self::OrdinaryHog
            | Self::ThreadedInterrupt => CauseKind::Preempted,
            Self::SoftirqFlood | Self::SlowSoftirq => CauseKind::Softirq,
            Self::InterruptLoad | Self::IpiStorm | Self::SlowIpi => CauseKind::HardIrq,
            Self::PageFaults | Self::CopyOnWrite | Self::MajorFaults => CauseKind::PageFault,
            Self::RtThrottling => CauseKind::RtThrottling,
            Self::FairServer => CauseKind::FairServer,
            Self::ForcedMigration => CauseKind::Migration,
            Self::DeepIdle => CauseKind::LateIdleExit,
            Self::OwnOverrun => CauseKind::OwnOverrun,
            Self::KernelSection | Self::SpinLockSection => CauseKind::KernelSection,
            Self::LockWait | Self::KernelLockWait => CauseKind::LockWait,
            Self::LockHolderKeptOff => CauseKind::PriorityInversion,
            Self::ReplyWait | Self::SleepInWork => CauseKind::OwnWait,
            Self::DiskWait => CauseKind::OutputWait,
            Self::InterruptsOff => CauseKind::InterruptsOff,
            Self::TimerInterrupt => CauseKind::TimerInterrupt,
            Self::CpuQuota => CauseKind::CpuQuota,
            Self::CgroupFreezer => CauseKind::CgroupFreezer,
        }
    }

    /// Returns the loops that the fault can be injected into.
    #[must_use]
    pub const fn loops(self) -> Loops {
        match self {
            Self::EqualPriorityHog
            | Self::RtThrottling
            | Self::FairServer
            | Self::KernelLockWait => Loops::RealTime,
            Self::OrdinaryHog | Self::CpuQuota => Loops::Ordinary,
            _ => Loops::Any,
        }
    }

    /// Returns where the fault comes from.
    #[must_use]
    pub const fn origin(self) -> FaultOrigin {
        match self {
            Self::PageFaults
            | Self::OwnOverrun
            | Self::LockWait
            | Self::LockHolderKeptOff
            | Self::ReplyWait
            | Self::SleepInWork
            | Self::DiskWait
            | Self::MajorFaults
            | Self::CopyOnWrite
            | Self::KernelLockWait => FaultOrigin::InLoop,
            _ => FaultOrigin::OutsideLoop,
        }
    }

    /// Returns the maximum length of one injection, in nanoseconds: limited to what is acceptable
    /// for a robot's operator and for other users of the machine.
    #[must_use]
    pub const fn longest_ns(self) -> u64 {
        const MS: u64 = 1_000_000;
        match self {
            Self::StopSignal => 5_000 * MS,
            Self::DeepIdle | Self::CgroupFreezer | Self::PtraceStop => 1_000 * MS,
            Self::EqualPriorityHog
            | Self::HigherPriorityHog
            | Self::OwnOverrun
            | Self::ForcedMigration
            | Self::LockWait
            | Self::ReplyWait
            | Self::SleepInWork => 500 * MS,
            Self::IpiStorm | Self::LockHolderKeptOff | Self::MajorFaults | Self::CpuQuota => {
                100 * MS
            }
            // At most the share of ordinary threads in one period of the kernel's rule.
            Self::RtThrottling | Self::FairServer | Self::DeadlineHog => 50 * MS,
            Self::KernelSection => 20 * MS,
            Self::SoftirqFlood
            | Self::InterruptLoad
            | Self::PageFaults
            | Self::CopyOnWrite
            | Self::SpinLockSection
            | Self::KernelLockWait
            | Self::ThreadedInterrupt
            | Self::DiskWait => 5 * MS,
            // The most that the kernel's verifier allows for a loop in a BPF program.
            Self::InterruptsOff | Self::TimerInterrupt | Self::SlowSoftirq | Self::SlowIpi => {
                2 * MS
            }
            // Within the slice that the scheduler protects.
            Self::OrdinaryHog => MS,
        }
    }

    /// Returns the minimum time from one injection to the next, in nanoseconds. Spikes must be
    /// separate, and the scheduler's two rules take a second to act.
    #[must_use]
    pub const fn least_every_ns(self) -> u64 {
        match self {
            Self::RtThrottling => 2_500_000_000,
            Self::FairServer => 1_300_000_000,
            // The disk needs time for the data written in between.
            Self::DiskWait | Self::MajorFaults => 50_000_000,
            _ => 20_000_000,
        }
    }
}

/// All words as the help lists them.
fn typed_words() -> [String; Fault::ALL.len()] {
    Fault::ALL.map(|fault| fault.word().replace('_', "-"))
}

fn meant(word: &str) -> String {
    let word = word.to_lowercase().replace('_', "-");
    let known = typed_words();
    did_you_mean(nearest(&word, known.iter().map(String::as_str)))
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Fault {
    type Err = UnknownFault;

    /// Parses the words with `-` or with `_`.
    fn from_str(word: &str) -> Result<Self, UnknownFault> {
        let plain = word.replace('-', "_");
        Self::ALL
            .into_iter()
            .find(|fault| fault.word() == plain)
            .ok_or_else(|| UnknownFault { word: word.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_cause_names_the_nearest_as_it_is_typed() {
        for (typed, meant) in [
            ("stop-sginal", "(did you mean stop-signal?)"),
            ("Page_Fault", "(did you mean page-faults?)"),
            ("xylophone", "\"xylophone\"; known causes: stop-signal, equal-priority-hog,"),
        ] {
            let message = typed.parse::<Fault>().unwrap_err().to_string();
            assert!(message.contains(meant), "{message}");
        }
    }
}
