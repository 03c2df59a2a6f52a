//! The causes of lateness. Their names and words are data: `vocabulary/causes.toml`.

use serde::{Deserialize, Serialize};

pub use super::vocabulary::CauseKind;

impl CauseKind {
    /// Whether the cause is a rule for the runtime of all real-time threads of a CPU.
    #[must_use]
    pub const fn is_of_the_runtime(self) -> bool {
        matches!(self, Self::RtThrottling | Self::FairServer)
    }

    /// Returns the words with the name of a culprit; of an unexplained spike that is the reason why
    /// nothing was looked for.
    #[must_use]
    pub fn words_with(self, who: &str) -> String {
        match self {
            Self::Unexplained => format!("not analysed ({who})"),
            _ => format!("{}{} {who}", self.words(), self.link()),
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
    /// Kind of the cause.
    pub kind: CauseKind,
    /// Part of the lateness that it accounts for, in nanoseconds.
    pub ns: u64,
    /// Evidence, as a sentence.
    pub evidence: String,
    /// The thread, interrupt, softirq or timer that caused the delay.
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
            Some(culprit) => self.kind.words_with(&culprit.words()),
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
