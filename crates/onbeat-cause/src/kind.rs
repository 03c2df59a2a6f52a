//! The causes of lateness and their names.

use serde::{Deserialize, Serialize};

/// A cause of lateness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// The hypervisor ran something else on the CPU.
    HypervisorSteal,
    /// A guest's CPU stood still while the loop read the clock in user code, and the steal counter
    /// did not move or does not exist: the host handled an exit or an interrupt, or was delayed
    /// itself.
    HypervisorPause,
    /// The scheduler throttled all real-time threads: their runtime of this second was used up.
    RtThrottling,
    /// The CPU quota of the loop's cgroup was used up (`cpu.max`). Affects ordinary threads only.
    CpuQuota,
    /// The cgroup freezer stopped the loop: its timer fired and nothing woke it.
    CgroupFreezer,
    /// The scheduler gave ordinary threads their 5 % of the CPU (Linux 6.12 and later).
    FairServer,
    /// Another program changed the loop's policy or priority, and a thread ran that the loop
    /// preceded before ([`Culprit::name`] is the policy that it has now).
    PolicyChange,
    /// An interrupt handler ran.
    HardIrq,
    /// A softirq ran.
    Softirq,
    /// The timer's interrupt was delayed by kernel code that ran with interrupts off.
    InterruptsOff,
    /// The kernel worked for another thread and did not yield the CPU after the wake-up.
    KernelSection,
    /// A thread of equal or higher priority ran.
    Preempted,
    /// The CPU left its idle state late.
    LateIdleExit,
    /// The timer's interrupt came late although nothing on the CPU delayed it: user code ran, or a
    /// guest's CPU was halted ([`Culprit::HALTED`]).
    LateTimer,
    /// The interrupt of the loop's timer took long, because of the host or the kernel.
    TimerInterrupt,
    /// The loop itself was late: it went to sleep after its programmed expiry, or its work took
    /// longer than planned.
    OwnOverrun,
    /// The loop waited for a lock during its work.
    LockWait,
    /// The loop waited for something else during its work: a reply, a device, another thread.
    OwnWait,
    /// The loop accessed memory that was not present.
    PageFault,
    /// The loop migrated to another CPU.
    Migration,
    /// The CPU changed its frequency.
    FrequencyChange,
    /// A signal stopped the process.
    Stopped,
    /// The firmware took the CPU (system management interrupt).
    Smi,
    /// The cost of every wake-up: timer interrupt, wake-up, context switch.
    WakeUpPath,
    /// No event and no counter shows the cause.
    Unexplained,
}

impl CauseKind {
    /// All causes, [`Self::Unexplained`] last.
    pub const ALL: [Self; 25] = [
        Self::HypervisorSteal,
        Self::HypervisorPause,
        Self::RtThrottling,
        Self::CpuQuota,
        Self::CgroupFreezer,
        Self::FairServer,
        Self::PolicyChange,
        Self::HardIrq,
        Self::Softirq,
        Self::InterruptsOff,
        Self::KernelSection,
        Self::Preempted,
        Self::LateIdleExit,
        Self::LateTimer,
        Self::TimerInterrupt,
        Self::OwnOverrun,
        Self::LockWait,
        Self::OwnWait,
        Self::PageFault,
        Self::Migration,
        Self::FrequencyChange,
        Self::Stopped,
        Self::Smi,
        Self::WakeUpPath,
        Self::Unexplained,
    ];

    /// Returns the name for lists: "3 steal, 5 kernel section".
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::HypervisorSteal => "steal",
            Self::HypervisorPause => "hypervisor pause",
            Self::RtThrottling => "RT throttling",
            Self::CpuQuota => "CPU quota",
            Self::CgroupFreezer => "cgroup freezer",
            Self::FairServer => "fair server",
            Self::PolicyChange => "scheduling policy changed",
            Self::HardIrq => "interrupt handler",
            Self::Softirq => "softirq",
            Self::InterruptsOff => "interrupts off",
            Self::KernelSection => "kernel section",
            Self::Preempted => "preempted",
            Self::LateIdleExit => "late idle exit",
            Self::LateTimer => "late timer interrupt",
            Self::TimerInterrupt => "in the timer's interrupt",
            Self::OwnOverrun => "own overrun",
            Self::LockWait => "waited for a lock",
            Self::OwnWait => "waited in its work",
            Self::PageFault => "page fault",
            Self::Migration => "CPU migration",
            Self::FrequencyChange => "frequency change",
            Self::Stopped => "stopped by a signal",
            Self::Smi => "SMI",
            Self::WakeUpPath => "wake-up itself",
            Self::Unexplained => "unexplained",
        }
    }

    /// Whether the cause is a rule for the runtime of all real-time threads of a CPU.
    #[must_use]
    pub const fn is_of_the_runtime(self) -> bool {
        matches!(self, Self::RtThrottling | Self::FairServer)
    }

    /// Returns the preposition between kind and culprit: "kernel section **in** dd/write",
    /// "preempted **by** stress-ng".
    #[must_use]
    pub const fn link(self) -> &'static str {
        match self {
            Self::KernelSection | Self::InterruptsOff | Self::OwnWait => " in",
            Self::Preempted => " by",
            Self::RtThrottling | Self::FairServer => " because of",
            Self::PolicyChange => " to",
            Self::LockWait => " held by",
            Self::LateTimer => " on",
            _ => "",
        }
    }
}

/// The thread, interrupt, softirq or timer that caused a delay.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Culprit {
    /// The kernel's name of the thread, interrupt, softirq or timer.
    pub name: String,
    /// Thread number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
    /// Kernel priority of the thread: −1 deadline, 99 − p for FIFO p, 120 + nice otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prio: Option<i32>,
    /// The system call that the thread was in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_call: Option<String>,
    /// The system call that the thread was in when an ordinary loop was woken; its duration is
    /// unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub woken_in: Option<String>,
    /// The function of the work item that the kernel's worker thread executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<String>,
}

impl Culprit {
    /// Name of the culprit if the host had halted the timer's CPU.
    pub const HALTED: &'static str = "a halted vCPU";

    /// Returns the program of a thread: its name without the number that distinguishes the
    /// program's threads (`kdamond.0`, `ksoftirqd/1`, `kworker/u8:3`). For other culprits (an
    /// interrupt, a softirq), returns the name.
    #[must_use]
    pub fn program(&self) -> &str {
        if self.tid.is_none() {
            return &self.name;
        }
        if self.name.starts_with("kworker/") {
            return "kworker";
        }

        let without_digits = self.name.trim_end_matches(|c: char| c.is_ascii_digit());
        let has_number = without_digits.len() < self.name.len();
        match without_digits.strip_suffix(['/', '.', ':', '-', '_', '#']) {
            Some(program) if has_number && !program.is_empty() => program,
            _ => &self.name,
        }
    }

    /// Whether it is a thread of a real-time policy, other than `SCHED_DEADLINE`.
    #[must_use]
    pub fn is_real_time(&self) -> bool {
        self.prio.is_some_and(|prio| (0..100).contains(&prio))
    }

    /// Returns program and system call, or program and work item: `dd/write`, `kworker/wb_workfn`.
    #[must_use]
    pub fn words(&self) -> String {
        let call = self.system_call.as_ref().or(self.work.as_ref());
        let call = call.map(|call| format!("/{call}")).unwrap_or_default();
        format!("{}{call}", self.program())
    }
}

/// One cause of a spike.
///
/// ```
/// use onbeat_cause::{Cause, CauseKind, Situation};
///
/// let evidence = "2 page faults in the cycle".to_owned();
/// let cause = Cause { kind: CauseKind::PageFault, ns: 80_000, evidence, culprit: None };
/// assert_eq!(cause.words(), "page fault");
/// assert_eq!(cause.advice(&Situation::default())[0].id(), "lock-memory");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// The kind of cause.
    pub kind: CauseKind,
    /// Part of the lateness that it accounts for, in nanoseconds.
    pub ns: u64,
    /// The evidence, in a sentence.
    pub evidence: String,
    /// The thread, interrupt, softirq or timer that caused a delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub culprit: Option<Culprit>,
}

impl Cause {
    /// Returns kind and culprit: `kernel section in dd/write`, `softirq NET_RX`.
    #[must_use]
    pub fn words(&self) -> String {
        let kind = self.kind.words();
        match &self.culprit {
            None => kind.to_owned(),
            // Files of older versions name the ordinary thread that ran meanwhile.
            Some(culprit) if self.kind.is_of_the_runtime() && !culprit.is_real_time() => {
                format!("{kind} {}", culprit.words())
            }
            Some(culprit) => format!("{kind}{} {}", self.kind.link(), culprit.words()),
        }
    }
}

/// A spike's lateness, divided among its causes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The explained time, in nanoseconds: from the programmed expiry to the first instruction, and
    /// work beyond the plan if that is the spike. The sum of all causes.
    pub lateness_ns: u64,
    /// The part that is not unexplained, in nanoseconds.
    pub accounted_ns: u64,
    /// The causes, longest first, unexplained time last.
    pub causes: Vec<Cause>,
}

impl Explanation {
    /// Makes an explanation of causes that add up to the lateness, such as those of a run file.
    #[must_use]
    pub fn from_causes(causes: Vec<Cause>) -> Self {
        let sum =
            |of: &dyn Fn(&&Cause) -> bool| causes.iter().filter(of).map(|cause| cause.ns).sum();
        let lateness_ns = sum(&|_| true);
        let accounted_ns = sum(&|cause| cause.kind != CauseKind::Unexplained);
        Self { lateness_ns, accounted_ns, causes }
    }

    /// Returns the main cause, which names the spike: the kind with the longest total time, and
    /// within it the program with the longest total time. [`CauseKind::Unexplained`] is the main
    /// cause only if most of the lateness is unexplained, [`CauseKind::WakeUpPath`] only if no
    /// other kind has a quarter of the lateness.
    #[must_use]
    pub fn main(&self) -> Option<&Cause> {
        let kinds = totals(self.causes.iter().map(|cause| (cause.kind, cause.ns)));
        let (rest, named): (Vec<_>, Vec<_>) =
            kinds.into_iter().partition(|(kind, _)| *kind == CauseKind::Unexplained);

        let is_more = |(kind, ns): &&(CauseKind, u64)| {
            *kind != CauseKind::WakeUpPath && *ns >= self.lateness_ns / 4
        };
        let named = named.iter().find(is_more).or_else(|| named.first());
        let (kind, _) = match (named, rest.first()) {
            (Some(named), Some(rest)) if rest.1 > self.lateness_ns / 2 && rest.1 > named.1 => *rest,
            (named, rest) => *named.or(rest)?,
        };

        let program =
            |cause: &Cause| cause.culprit.as_ref().map(|culprit| culprit.program().to_owned());
        let of_kind = || self.causes.iter().filter(|cause| cause.kind == kind);
        let programs = totals(of_kind().map(|cause| (program(cause), cause.ns)));
        let (longest, _) = programs.first()?;
        of_kind()
            .filter(|cause| program(cause) == *longest)
            .reduce(|a, b| if b.ns > a.ns { b } else { a })
    }
}

/// Returns the sum of times for each key, longest first; equal sums keep their order.
fn totals<K: PartialEq>(times: impl Iterator<Item = (K, u64)>) -> Vec<(K, u64)> {
    let mut sums: Vec<(K, u64)> = Vec::new();
    for (key, ns) in times {
        match sums.iter_mut().find(|(known, _)| *known == key) {
            Some((_, sum)) => *sum += ns,
            None => sums.push((key, ns)),
        }
    }

    sums.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(name: &str, tid: u32) -> Culprit {
        Culprit { name: name.to_owned(), tid: Some(tid), prio: Some(120), ..Culprit::default() }
    }

    fn cause(kind: CauseKind, ns: u64, culprit: Option<Culprit>) -> Cause {
        Cause { kind, ns, evidence: String::new(), culprit }
    }

    #[test]
    fn a_program_of_many_threads_weighs_more_than_the_longest_single_thread() {
        let many = (0..656)
            .map(|n| cause(CauseKind::Preempted, 165_000, Some(thread("hackbench", 1_000 + n))));
        let one = cause(CauseKind::Preempted, 12_000_000, Some(thread("kdamond.0", 80)));
        let explanation = Explanation::from_causes(std::iter::once(one).chain(many).collect());
        assert_eq!(explanation.main().unwrap().words(), "preempted by hackbench");
    }

    #[test]
    fn kinds_are_compared_by_their_total_time() {
        let explanation = Explanation::from_causes(vec![
            cause(CauseKind::KernelSection, 40, Some(thread("dd", 7))),
            cause(
                CauseKind::Softirq,
                35,
                Some(Culprit { name: "NET_RX".to_owned(), ..Culprit::default() }),
            ),
            cause(
                CauseKind::Softirq,
                25,
                Some(Culprit { name: "TIMER".to_owned(), ..Culprit::default() }),
            ),
        ]);
        assert_eq!(explanation.main().unwrap().words(), "softirq NET_RX");
    }

    #[test]
    fn threads_of_one_program_share_its_name() {
        let names = [
            "kdamond.0",
            "ksoftirqd/1",
            "kworker/u8:3-events",
            "irq/24-nvme",
            "stress-ng-cpu",
            "python3",
            "rcuc/12",
            "7",
        ];
        let programs: Vec<String> =
            names.iter().map(|name| thread(name, 1).program().to_owned()).collect();

        assert_eq!(
            programs,
            [
                "kdamond",
                "ksoftirqd",
                "kworker",
                "irq/24-nvme",
                "stress-ng-cpu",
                "python3",
                "rcuc",
                "7"
            ]
        );
        let interrupt = Culprit { name: "virtio1-req.0".to_owned(), ..Culprit::default() };

        assert_eq!(interrupt.program(), "virtio1-req.0", "no thread");
    }
}
