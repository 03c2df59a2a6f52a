//! Advice against a cause: a closed list, and the part of it that applies to a run.
//!
//! The list, its facts and the table of docs/advice.md are data: `vocabulary/advice.toml`. What is left
//! here is the choice where the culprit of a cause decides; the page makes the same
//! (`viewer/src/advice.ts`), and both are held to `advice_cases.json`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::flight::SHALLOW_NS;
use super::kind::{Cause, CauseKind, Culprit};
pub use super::vocabulary::{Advice, Fact};
use super::vocabulary::{AdviceRow, NOT_IN_TURNS, ROWS, TUNING_NEEDS};

/// The situation of a run: the properties of its machine and the tunings in effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Situation {
    /// The facts that hold.
    pub facts: BTreeSet<Fact>,
    /// The loop's `SCHED_FIFO` priority; 0 for an ordinary thread.
    pub priority: u32,
    /// Exit latency of the CPU's deepest idle state, in nanoseconds; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_exit_ns: Option<u64>,
}

impl Situation {
    fn has(&self, fact: Fact) -> bool {
        self.facts.contains(&fact)
    }
}

impl Advice {
    /// Returns every advice, in the order of `docs/advice.md`.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter()
    }

    /// Returns the name used in JSON and in `docs/advice.md`, such as `pin-vcpu`.
    #[must_use]
    pub const fn id(self) -> &'static str {
        self.row().id
    }

    /// Returns what to do, as a sentence fragment.
    #[must_use]
    pub const fn text(self) -> &'static str {
        self.row().text
    }

    /// Returns the facts that must hold for the advice to have an effect.
    #[must_use]
    pub const fn needs(self) -> &'static [Fact] {
        self.row().needs
    }

    /// Returns the facts that exclude the advice: it is in effect already, or has no effect.
    #[must_use]
    pub const fn not_with(self) -> &'static [Fact] {
        self.row().not_with
    }

    /// Returns the tunings of the catalogue that put the advice into effect on the machine of a
    /// run; none where no tuning does.
    #[must_use]
    pub fn tunings(self, situation: &Situation) -> Vec<&'static str> {
        let exists =
            |id: &str| TUNING_NEEDS.iter().all(|(of, fact)| *of != id || situation.has(*fact));
        self.row().tunings.iter().copied().filter(|id| exists(id)).collect()
    }

    const fn row(self) -> &'static AdviceRow {
        &ROWS[self as usize]
    }

    fn applies(self, situation: &Situation) -> bool {
        self.needs().iter().all(|fact| situation.has(*fact))
            && !self.not_with().iter().any(|fact| situation.has(*fact))
    }
}

/// A wake-up of a halted vCPU takes less than this, in nanoseconds. A longer delay means that the
/// host was busy.
const HALTED_AT_MOST_NS: u64 = 500_000;
/// The highest `SCHED_FIFO` priority.
const HIGHEST: i32 = 99;

impl Cause {
    /// Returns the advice against this cause in `situation`, best first. Leaves out what is in
    /// effect already and what cannot apply.
    #[must_use]
    pub fn advice(&self, situation: &Situation) -> Vec<Advice> {
        let candidates = self.candidates(situation);
        candidates.into_iter().filter(|advice| advice.applies(situation)).collect()
    }

    fn candidates(&self, situation: &Situation) -> Vec<Advice> {
        use Advice as A;
        if let Some(plain) = self.kind.plain_advice() {
            return plain.to_vec();
        }
        match self.kind {
            CauseKind::RtThrottling if self.is_of_another_real_time_thread() => {
                vec![A::RuntimeUser, A::NoRtLimit]
            }
            CauseKind::FairServer if self.is_of_another_real_time_thread() => {
                vec![A::RuntimeUser, A::FairServerOff]
            }
            CauseKind::RtThrottling => vec![A::LeaveTenth, A::NoRtLimit],
            CauseKind::CpuQuota if situation.priority > 0 => vec![A::RaiseQuota],
            CauseKind::CpuQuota => vec![A::PriorityOverQuota, A::RaiseQuota],
            CauseKind::FairServer => vec![A::LeaveTenth, A::OthersOff, A::FairServerOff],
            CauseKind::HardIrq => against_interrupt(self.culprit.as_ref()),
            CauseKind::Softirq => against_softirq(self.culprit.as_ref()),
            CauseKind::Preempted => against_thread(self.culprit.as_ref(), situation),
            CauseKind::LateIdleExit => against_sleep(situation),
            CauseKind::LateTimer => self.against_late_timer(situation),
            // Decided by the kind alone, above.
            _ => Vec::new(),
        }
    }

    /// Whether another real-time thread than the loop used up the runtime.
    fn is_of_another_real_time_thread(&self) -> bool {
        self.culprit.as_ref().is_some_and(Culprit::is_real_time)
    }

    /// A halted vCPU should be kept awake. A longer delay, or one of a running vCPU, means that the
    /// host had no CPU for it.
    fn against_late_timer(&self, situation: &Situation) -> Vec<Advice> {
        let is_halted =
            self.culprit.as_ref().is_some_and(|culprit| culprit.name == Culprit::HALTED);
        match (situation.has(Fact::Guest), is_halted) {
            (true, true) if self.ns < HALTED_AT_MOST_NS => vec![Advice::KeepAwake, Advice::Spin],
            (true, _) => vec![Advice::PinVcpu, Advice::BareMetal],
            (false, _) => vec![Advice::Spin, Advice::Firmware],
        }
    }
}

fn against_interrupt(culprit: Option<&Culprit>) -> Vec<Advice> {
    match culprit.map(|culprit| culprit.name.as_str()) {
        Some("timer tick_nohz_handler" | "timer tick_sched_timer") => vec![Advice::StopTick],
        Some(name) if name.starts_with("timer ") => vec![Advice::OthersTimers],
        Some(name) if !name.contains("(irq ") => vec![Advice::OwnInterrupts],
        _ => vec![Advice::MoveInterrupt, Advice::ManagedInterrupt],
    }
}

fn against_softirq(culprit: Option<&Culprit>) -> Vec<Advice> {
    match culprit.map(|culprit| culprit.name.as_str()) {
        Some("TIMER" | "HRTIMER") => vec![Advice::SoftirqTimers],
        Some("RCU") => vec![Advice::RcuElsewhere, Advice::OthersOff],
        Some("SCHED") => vec![Advice::NoBalancing],
        _ => vec![Advice::MoveSoftirq, Advice::ThreadedSoftirqs],
    }
}

fn against_thread(culprit: Option<&Culprit>, situation: &Situation) -> Vec<Advice> {
    let stays = culprit.is_some_and(is_bound_to_its_cpu);
    let elsewhere = if stays { Advice::PerCpuThread } else { Advice::MoveThread };
    match culprit.and_then(|culprit| culprit.prio).map(|prio| HIGHEST - prio) {
        Some(priority) if priority > HIGHEST => vec![Advice::DeadlineElsewhere],
        // No priority is above the highest, and raising a priority that is higher already does not
        // help.
        Some(priority)
            if priority == HIGHEST
                || i64::from(situation.priority) > i64::from(priority.max(0)) =>
        {
            vec![elsewhere]
        }
        // Kernel work for that thread delays a real-time loop as well.
        _ if culprit.is_some_and(|culprit| culprit.woken_in.is_some()) => {
            vec![elsewhere, Advice::PriorityOutsideCalls]
        }
        _ => vec![Advice::Priority, elsewhere],
    }
}

/// Whether the culprit is a per-CPU kernel thread such as `ksoftirqd/1`; `kworker/u8:3` is not
/// bound to a CPU.
fn is_bound_to_its_cpu(culprit: &Culprit) -> bool {
    const NAMES: [&str; 7] =
        ["migration", "ksoftirqd", "cpuhp", "rcuc", "ktimers", "irq_work", "kworker"];
    let parts = culprit.tid.and(culprit.name.split_once('/'));
    parts.is_some_and(|(name, cpu)| {
        NAMES.contains(&name) && cpu.starts_with(|c: char| c.is_ascii_digit())
    })
}

/// A guest without deep idle states sleeps in those of its host, which it cannot limit.
/// `idle=poll` comes last: the catalogue calls its risk high.
fn against_sleep(situation: &Situation) -> Vec<Advice> {
    match situation.has(Fact::Guest) {
        true if situation.idle_exit_ns.unwrap_or(0) < SHALLOW_NS => {
            vec![Advice::KeepAwake, Advice::Spin]
        }
        true => vec![Advice::KeepAwake, Advice::BoundIdle, Advice::Spin],
        false => vec![Advice::BoundIdle, Advice::Spin, Advice::IdlePoll],
    }
}

/// Joins the texts of `advices`; `None` if the list is empty.
#[must_use]
pub fn in_words(advices: &[Advice]) -> Option<String> {
    let texts: Vec<&str> = advices.iter().map(|advice| advice.text()).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// Returns the tunings of the catalogue that put any of `advices` into effect, each once.
#[must_use]
pub fn tunings(advices: &[Advice], situation: &Situation) -> Vec<&'static str> {
    let mut all = Vec::new();
    for id in advices.iter().flat_map(|advice| advice.tunings(situation)) {
        if !all.contains(&id) {
            all.push(id);
        }
    }
    all
}

/// Returns the command that shows tunings in full; `None` without any.
#[must_use]
pub fn tuning_command(tunings: &[&str]) -> Option<String> {
    (!tunings.is_empty()).then(|| format!("onbeat tune check {}", tunings.join(" ")))
}

/// Returns the command that measures what the first of `tunings` is worth that can be measured in
/// turns; `None` if none can.
#[must_use]
pub fn measure_command(tunings: &[&str]) -> Option<String> {
    let in_turns = tunings.iter().find(|id| !NOT_IN_TURNS.contains(id));
    in_turns.map(|id| format!("onbeat tune measure {id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique() {
        let ids: BTreeSet<&str> = Advice::all().map(Advice::id).collect();
        assert_eq!(ids.len(), ROWS.len());
    }
}
