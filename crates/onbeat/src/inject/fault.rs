//! The names of what can be done to a loop.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::cause::CauseKind;

/// A cause of lateness that can be made on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The loop's process is stopped by a signal and continued.
    StopSignal,
    /// A thread of the same priority holds the loop's CPU.
    EqualPriorityHog,
    /// Received packets are worked through on the loop's CPU.
    SoftirqFlood,
    /// Thousands of timers expire in one interrupt on the loop's CPU.
    InterruptLoad,
    /// Another CPU sends interrupts to the loop's CPU without a pause.
    IpiStorm,
    /// A cycle touches memory that is not there yet.
    PageFaults,
    /// Real-time threads use up the CPU's share for real time.
    RtThrottling,
    /// An ordinary thread that was starved gets its minimum.
    FairServer,
    /// The loop's thread is sent to another CPU and back.
    ForcedMigration,
    /// The CPU sleeps deeply before a release.
    DeepIdle,
    /// A cycle works beyond the next release.
    OwnOverrun,
    /// A system call on the loop's CPU does not let go.
    KernelSection,
}

/// Who makes a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Threads or processes beside the loop: [`crate::inject::Injector`].
    Beside,
    /// A cycle of the loop itself: [`crate::inject::InLoop`].
    InLoop,
}

/// A word that names no fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no fault \"{word}\"; there are {}", words())]
pub struct UnknownFault {
    /// The word.
    pub word: String,
}

impl Fault {
    /// All of them, in the order of the help.
    pub const ALL: [Self; 12] = [
        Self::StopSignal,
        Self::EqualPriorityHog,
        Self::SoftirqFlood,
        Self::InterruptLoad,
        Self::IpiStorm,
        Self::PageFaults,
        Self::RtThrottling,
        Self::FairServer,
        Self::ForcedMigration,
        Self::DeepIdle,
        Self::OwnOverrun,
        Self::KernelSection,
    ];

    /// The word as typed and as it stands in files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::StopSignal => "stop_signal",
            Self::EqualPriorityHog => "equal_priority_hog",
            Self::SoftirqFlood => "softirq_flood",
            Self::InterruptLoad => "interrupt_load",
            Self::IpiStorm => "ipi_storm",
            Self::PageFaults => "page_faults",
            Self::RtThrottling => "rt_throttling",
            Self::FairServer => "fair_server",
            Self::ForcedMigration => "forced_migration",
            Self::DeepIdle => "deep_idle",
            Self::OwnOverrun => "own_overrun",
            Self::KernelSection => "kernel_section",
        }
    }

    /// One sentence on what it does, for the help.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::StopSignal => "Stops the loop's process with SIGSTOP before a release, continues it after the time.",
            Self::EqualPriorityHog => {
                "A thread of the loop's own priority keeps its CPU busy from before a release on."
            }
            Self::SoftirqFlood => "Broadcast packets on the loopback keep the loop's CPU in receive processing.",
            Self::InterruptLoad => "Thousands of timers expire in one timer interrupt, just before a release.",
            Self::IpiStorm => "Another CPU interrupts the loop's CPU without a pause (membarrier).",
            Self::PageFaults => "A cycle touches fresh pages for the time, as code without locked memory does.",
            Self::RtThrottling => {
                "A real-time thread below the loop uses the CPU until the kernel stops real time there."
            }
            Self::FairServer => "A real-time thread starves an ordinary one until the kernel's fair server steps in.",
            Self::ForcedMigration => "Moves the loop's thread to another CPU before a release, and back after it.",
            Self::DeepIdle => "Watches for releases that wake the CPU from a deep idle state.",
            Self::OwnOverrun => "A cycle of the loop works for the time beyond its next release.",
            Self::KernelSection => "A poll() of thousands of descriptors keeps the loop's CPU in the kernel.",
        }
    }

    /// The cause that a report should name when this was done.
    #[must_use]
    pub const fn cause(self) -> CauseKind {
        match self {
            Self::StopSignal => CauseKind::Stopped,
            Self::EqualPriorityHog => CauseKind::Preempted,
            Self::SoftirqFlood => CauseKind::Softirq,
            Self::InterruptLoad | Self::IpiStorm => CauseKind::HardIrq,
            Self::PageFaults => CauseKind::PageFault,
            Self::RtThrottling => CauseKind::RtThrottling,
            Self::FairServer => CauseKind::FairServer,
            Self::ForcedMigration => CauseKind::Migration,
            Self::DeepIdle => CauseKind::LateIdleExit,
            Self::OwnOverrun => CauseKind::OwnOverrun,
            Self::KernelSection => CauseKind::KernelSection,
        }
    }

    /// Who makes it.
    #[must_use]
    pub const fn place(self) -> Place {
        match self {
            Self::PageFaults | Self::OwnOverrun => Place::InLoop,
            _ => Place::Beside,
        }
    }

    /// The longest time one injection may last, in nanoseconds: what a robot's operator can bear, and what the
    /// machine's other users can.
    #[must_use]
    pub const fn longest_ns(self) -> u64 {
        match self {
            Self::StopSignal => 5_000_000_000,
            Self::EqualPriorityHog | Self::OwnOverrun | Self::ForcedMigration => 500_000_000,
            Self::IpiStorm => 100_000_000,
            // One period of the kernel's rule, less its share for ordinary threads.
            Self::RtThrottling | Self::FairServer => 50_000_000,
            Self::SoftirqFlood | Self::InterruptLoad | Self::PageFaults => 5_000_000,
            Self::DeepIdle => 1_000_000_000,
            Self::KernelSection => 20_000_000,
        }
    }

    /// The least time from one injection to the next, in nanoseconds. Single spikes must be separate; the scheduler's
    /// two rules need their second to act.
    #[must_use]
    pub const fn least_every_ns(self) -> u64 {
        match self {
            Self::RtThrottling => 2_500_000_000,
            Self::FairServer => 1_300_000_000,
            _ => 20_000_000,
        }
    }
}

fn words() -> String {
    Fault::ALL.map(Fault::word).join(", ")
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Fault {
    type Err = UnknownFault;

    /// Takes the words with `-` as well as with `_`.
    fn from_str(word: &str) -> Result<Self, UnknownFault> {
        let plain = word.replace('-', "_");
        Self::ALL.into_iter().find(|fault| fault.word() == plain).ok_or_else(|| UnknownFault { word: word.to_owned() })
    }
}
