//! The causes, their words, and what would remove them.

use serde::{Deserialize, Serialize};

/// What made a cycle late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// The hypervisor ran something else on the CPU.
    HypervisorSteal,
    /// The CPU of a guest stood still between two events with nothing of the guest's own to do so, and its steal counter
    /// did not move or is not to be had: the host handled an exit or an interrupt, or was held itself.
    HypervisorPause,
    /// The scheduler held all real-time threads back: their runtime of this second was used up.
    RtThrottling,
    /// The scheduler gave ordinary threads their 5 % of the CPU (Linux 6.12 and later).
    FairServer,
    /// An interrupt handler ran.
    HardIrq,
    /// A softirq ran.
    Softirq,
    /// The timer's interrupt had to wait while kernel code ran with interrupts off.
    InterruptsOff,
    /// The kernel worked for another thread and did not let go after the wake-up.
    KernelSection,
    /// A thread of equal or higher priority ran.
    Preempted,
    /// The CPU slept and woke up late.
    LateIdleExit,
    /// The timer's interrupt came late, though nothing on the CPU held it back.
    LateTimer,
    /// The loop itself was not done: it went to sleep after the instant to wake up at, or its work took longer than planned.
    OwnOverrun,
    /// Memory that was not present was touched.
    PageFault,
    /// The loop was moved to another CPU.
    Migration,
    /// The CPU changed its frequency.
    FrequencyChange,
    /// A signal stopped the process.
    Stopped,
    /// The firmware took the CPU (system management interrupt).
    Smi,
    /// What every wake-up costs: the timer's interrupt, the wake-up, the switch.
    WakeUpPath,
    /// No event and no counter shows what it was.
    Unexplained,
}

impl CauseKind {
    /// All of them, [`Self::Unexplained`] last.
    pub const ALL: [Self; 19] = [
        Self::HypervisorSteal,
        Self::HypervisorPause,
        Self::RtThrottling,
        Self::FairServer,
        Self::HardIrq,
        Self::Softirq,
        Self::InterruptsOff,
        Self::KernelSection,
        Self::Preempted,
        Self::LateIdleExit,
        Self::LateTimer,
        Self::OwnOverrun,
        Self::PageFault,
        Self::Migration,
        Self::FrequencyChange,
        Self::Stopped,
        Self::Smi,
        Self::WakeUpPath,
        Self::Unexplained,
    ];

    /// In words, for a list: "3 steal, 5 kernel section".
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::HypervisorSteal => "steal",
            Self::HypervisorPause => "hypervisor pause",
            Self::RtThrottling => "RT throttling",
            Self::FairServer => "fair server",
            Self::HardIrq => "interrupt handler",
            Self::Softirq => "softirq",
            Self::InterruptsOff => "interrupts off",
            Self::KernelSection => "kernel section",
            Self::Preempted => "preempted",
            Self::LateIdleExit => "late idle exit",
            Self::LateTimer => "late timer interrupt",
            Self::OwnOverrun => "own overrun",
            Self::PageFault => "page fault",
            Self::Migration => "CPU migration",
            Self::FrequencyChange => "frequency change",
            Self::Stopped => "stopped by a signal",
            Self::Smi => "SMI",
            Self::WakeUpPath => "wake-up itself",
            Self::Unexplained => "unexplained",
        }
    }

    /// What would remove it, naming the tuning.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Self::HypervisorSteal | Self::HypervisorPause => {
                "give the virtual CPU a physical CPU of its own on the host (pinning, isolation), or run on bare metal"
            }
            Self::RtThrottling => {
                "leave a tenth of the CPU to others; kernel.sched_rt_runtime_us=-1 removes the limit for good"
            }
            Self::FairServer => {
                "leave a tenth of the CPU to others, or move ordinary threads off this CPU (tuning C); \
                 debugfs sched/fair_server/cpuN/runtime=0 switches it off"
            }
            Self::HardIrq => "move the interrupt to another CPU: /proc/irq/N/smp_affinity_list (tuning C)",
            Self::Softirq => {
                "move the device's interrupt, and with it its softirqs, to another CPU (tuning C); \
                 a PREEMPT_RT kernel runs them in threads"
            }
            Self::InterruptsOff | Self::KernelSection => {
                "keep other threads off this CPU (tuning C); a PREEMPT_RT kernel, or preempt=full, \
                 lets go much earlier"
            }
            Self::Preempted => {
                "give the loop a priority above that thread's (tuning P), or move the thread to another CPU"
            }
            Self::LateIdleExit => {
                "bound the idle states: /dev/cpu_dma_latency 0, or idle=poll for this CPU; or spin before the release (tuning S)"
            }
            Self::LateTimer => {
                "on a virtual machine the host delivers timers late: pin its CPUs; else spin before the release (tuning S)"
            }
            Self::OwnOverrun => "shorten the work of a cycle or lengthen the period",
            Self::PageFault => "lock and touch all memory beforehand (tuning M: mlockall)",
            Self::Migration => "bind the loop to one CPU (--cpu, tuning C)",
            Self::FrequencyChange => "fix the frequency: governor performance",
            Self::Stopped => "nothing to tune: somebody stopped the process",
            Self::Smi => "firmware settings: switch off USB legacy emulation, thermal and ECC polling by SMI",
            Self::WakeUpPath => "spin for the last part before the release (tuning S, --wait spin=50us)",
            Self::Unexplained => "record again with the missing evidence granted; on bare metal, suspect the firmware",
        }
    }
}

/// Who did it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Culprit {
    /// Name of the thread, interrupt, softirq or timer, as the kernel has it.
    pub name: String,
    /// The thread's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
    /// The kernel's priority of the thread: −1 deadline, 99 − p for FIFO p, 120 + nice otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prio: Option<i32>,
    /// The system call the thread was in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_call: Option<String>,
}

/// One cause of a spike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// Which.
    pub kind: CauseKind,
    /// How many nanoseconds of the lateness it accounts for.
    pub ns: u64,
    /// What shows it.
    pub evidence: String,
    /// Who did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub culprit: Option<Culprit>,
}

impl Cause {
    /// In words: `kernel section in dd/write`, `softirq NET_RX`.
    #[must_use]
    pub fn words(&self) -> String {
        let kind = self.kind.words();
        match &self.culprit {
            None => kind.to_owned(),
            Some(culprit) => {
                let link = match self.kind {
                    CauseKind::KernelSection | CauseKind::InterruptsOff => " in",
                    CauseKind::Preempted => " by",
                    _ => "",
                };
                let call = culprit.system_call.as_ref().map(|call| format!("/{call}")).unwrap_or_default();
                format!("{kind}{link} {}{call}", culprit.name)
            }
        }
    }
}

/// A spike's lateness, divided among its causes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// What is explained: from the programmed expiry to the first instruction, and work beyond the plan when that is the
    /// spike. The sum of all causes.
    pub lateness_ns: u64,
    /// How much of it has a name.
    pub accounted_ns: u64,
    /// The causes, longest first, unexplained time last.
    pub causes: Vec<Cause>,
}

impl Explanation {
    /// From causes that add up to the lateness, as a run file has them.
    #[must_use]
    pub fn of_causes(causes: Vec<Cause>) -> Self {
        let sum = |of: &dyn Fn(&&Cause) -> bool| causes.iter().filter(of).map(|cause| cause.ns).sum();
        let (lateness_ns, accounted_ns) = (sum(&|_| true), sum(&|cause| cause.kind != CauseKind::Unexplained));
        Self { lateness_ns, accounted_ns, causes }
    }

    /// The cause that gives the spike its name: the longest one with a name; [`CauseKind::Unexplained`] only when most of
    /// the lateness is. What every wake-up costs gives it only when no other cause has a quarter of the lateness.
    #[must_use]
    pub fn main(&self) -> Option<&Cause> {
        let unexplained = self.causes.iter().find(|cause| cause.kind == CauseKind::Unexplained);
        let mut named = self.causes.iter().filter(|cause| cause.kind != CauseKind::Unexplained);
        let is_more = |cause: &&Cause| cause.kind != CauseKind::WakeUpPath && cause.ns >= self.lateness_ns / 4;
        let named = named.clone().find(is_more).or_else(|| named.next());
        match (named, unexplained) {
            (Some(named), Some(rest)) if rest.ns > self.lateness_ns / 2 && rest.ns > named.ns => Some(rest),
            (named, rest) => named.or(rest),
        }
    }
}
