//! Injects one fault many times and judges each injection.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use onbeat::cause::{Cause, CauseKind, Explanation};
use onbeat::host::is_preempt_rt;
use onbeat::inject::{Error, Fault};
use onbeat::probe::Setting;
use onbeat::probe::disturbed::{DisturbError, Disturbance, Disturbed, Felt, Late, disturb};
use onbeat_rt::cycle::Phase;

use crate::condition::Condition;
use crate::{Failure, MS};

/// A fault in a condition, with the results.
pub(crate) struct Row {
    pub(crate) fault: Fault,
    pub(crate) condition: Condition,
    /// Requested length of each injection, in nanoseconds.
    pub(crate) dose_ns: u64,
    pub(crate) planted: Planted,
    /// Usual time of each cause in a cycle without an injection: the medians of the placebo.
    pub(crate) ordinary: Ordinary,
}

/// Nanoseconds by cause.
pub(crate) type Ordinary = BTreeMap<CauseKind, u64>;

/// Result of injecting.
pub(crate) enum Planted {
    Done(Disturbed),
    /// Not possible on this machine or in this condition, with the reason.
    Not(String),
}

/// Judgement of an injection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// The injected cause is the main cause.
    First,
    /// It is the main cause after subtracting the usual times without an injection.
    Right,
    /// Another cause is the main one.
    Wrong(CauseKind),
    /// The cause is reported as unexplained.
    Unexplained,
    /// Nothing is left after subtracting the usual times without an injection.
    Nothing,
    /// Less than half of the lateness comes from the injection: the main cause is another, unknown
    /// one.
    Swamped,
}

/// Returns other names that are correct for a fault.
///
/// An `ipi_storm` consists of interrupts of a microsecond each. In a guest their entry and exit
/// take longer than their handlers, so that the loop's timer is late and no event shows why.
///
/// After a kernel section the scheduler may let the thread continue if the loop is an ordinary one
/// too: then the loop is preempted, and the cause must name the system call in which the wake-up
/// found the thread.
///
/// The thread of a network card's interrupt runs the softirq of received packets.
const fn also(fault: Fault) -> &'static [CauseKind] {
    match fault {
        Fault::IpiStorm => &[CauseKind::LateTimer, CauseKind::InterruptsOff],
        Fault::KernelSection | Fault::SpinLockSection => &[CauseKind::Preempted],
        Fault::ThreadedInterrupt => &[CauseKind::Softirq],
        _ => &[],
    }
}

/// Whether `kind` is a correct name for `fault`.
pub(crate) fn is_named(fault: Fault, kind: CauseKind) -> bool {
    kind == fault.cause() || also(fault).contains(&kind)
}

/// Whether a thread is the injector's. Threads of a load have names of onbeat too.
pub(crate) fn is_injector(culprit: &onbeat::cause::Culprit) -> bool {
    ["onbeat-inject", "onbeat-witness"].iter().any(|name| culprit.name.starts_with(name))
}

/// Whether a thread handles an interrupt of a network card.
pub(crate) fn is_interrupt_thread(culprit: &onbeat::cause::Culprit) -> bool {
    culprit.name.strip_prefix("irq/").is_some_and(|rest| rest.contains("-eth"))
}

/// Returns the softirq or the interrupts that the fault makes. Others are not its doing: the
/// kernel and a load have softirqs and interrupts of their own.
const fn made_by(fault: Fault) -> &'static [&'static str] {
    match fault {
        // A packet on the loopback.
        Fault::SoftirqFlood | Fault::SlowSoftirq | Fault::ThreadedInterrupt => &["NET_RX"],
        // Many timerfds that expire together.
        Fault::InterruptLoad => &["timer timerfd_tmrproc"],
        // Requests of another CPU to run a function, to one CPU or to several.
        Fault::IpiStorm | Fault::SlowIpi => &["call_function", "call_function_single"],
        _ => &[],
    }
}

/// Whether the softirq or interrupt that a cause names is the fault's; true for all other causes.
pub(crate) fn is_made_by(fault: Fault, cause: &Cause) -> bool {
    if !matches!(cause.kind, CauseKind::Softirq | CauseKind::HardIrq) {
        return true;
    }

    cause.culprit.as_ref().is_some_and(|culprit| made_by(fault).contains(&culprit.name.as_str()))
}

/// Whether `cause` is the injected one: by its name and, if it names a thread, a softirq or an
/// interrupt, by that one.
fn is_planted(fault: Fault, cause: &Cause) -> bool {
    let by_us = |culprit: &onbeat::cause::Culprit| culprit.tid.is_none() || is_injector(culprit);
    let fits = match cause.kind {
        CauseKind::Softirq | CauseKind::HardIrq => is_made_by(fault, cause),
        CauseKind::Preempted if fault.cause() == CauseKind::KernelSection => cause
            .culprit
            .as_ref()
            .is_some_and(|culprit| by_us(culprit) && culprit.woken_in.is_some()),
        CauseKind::Preempted if fault == Fault::ThreadedInterrupt => {
            cause.culprit.as_ref().is_some_and(is_interrupt_thread)
        }
        CauseKind::Preempted | CauseKind::KernelSection | CauseKind::LockWait => {
            cause.culprit.as_ref().is_none_or(by_us)
        }
        _ => true,
    };

    fits && is_named(fault, cause.kind)
}

/// What is injected, and where.
pub(crate) struct Planting {
    pub(crate) fault: Fault,
    pub(crate) condition: Condition,
    pub(crate) cpu: u32,
    /// Length of each injection, in nanoseconds.
    pub(crate) dose_ns: u64,
}

/// Injects a fault `count` times; if that is not possible, the row has the reason.
pub(crate) fn plant(plan: &Planting, count: usize, placebo: bool) -> Result<Row, Failure> {
    let Planting { fault, condition, cpu, dose_ns } = *plan;
    // The scheduler's rules take seconds each, injected or not.
    let is_slow = fault.least_every_ns() > 1000 * MS;
    let count = if is_slow { count.min(if placebo { 2 } else { 10 }) } else { count };
    let row = |planted| Row { fault, condition, dose_ns, planted, ordinary: Ordinary::new() };
    let harmless = || condition.harmless_with_preempt_rt(fault).filter(|_| is_preempt_rt());
    let beside_the_idle_class =
        || Condition::unfit_in_virtual_time(fault).filter(|_| is_in_virtual_time());
    if let Some(why) = condition.unfit(fault).or_else(harmless).or_else(beside_the_idle_class) {
        return Ok(row(Planted::Not(why.to_owned())));
    }

    let every_ns = fault.least_every_ns().max(100 * MS);
    let asked = Disturbance { fault, every_ns, for_ns: dose_ns, count, placebo };
    let row = row(in_a_thread(&condition.setting(fault, cpu, Phase::AvoidTick), &asked)?);
    let what = if placebo { " (placebo)" } else { "" };
    eprintln!("{fault}{what}, {}: {}", condition.words(), row.in_words());
    Ok(row)
}

/// Whether this is a guest that counts instructions, by the word that its builder leaves on the
/// kernel command line.
fn is_in_virtual_time() -> bool {
    let line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    line.split_whitespace().any(|word| word == "onbeat.clock=virtual")
}

/// Runs in a thread of its own, because the caller of [`disturb`] stays off the loop's CPU from
/// then on.
pub(crate) fn in_a_thread(setting: &Setting, asked: &Disturbance) -> Result<Planted, Failure> {
    let done = std::thread::scope(|threads| {
        threads.spawn(|| disturb(setting, asked, &AtomicBool::new(false), &mut |_| {})).join()
    });
    match done.map_err(|_| Failure::Panicked)? {
        Ok(done) => {
            let refused =
                done.grants.iter().find(|grant| grant.what == "flight recorder" && !grant.granted);
            match refused {
                Some(refused) => {
                    Err(Failure::NoRecorder(refused.why_not.clone().unwrap_or_default()))
                }
                None => Ok(Planted::Done(done)),
            }
        }
        Err(DisturbError::Inject(Error::NotPossible { reason, .. })) => Ok(Planted::Not(reason)),
        Err(why) => Err(why.into()),
    }
}

/// Returns the explanation of the cycle that an injection hit.
pub(crate) fn explanation(felt: &Felt) -> Option<&Explanation> {
    felt.met.as_ref()?.explanation.as_ref()
}

/// Returns the main cause of a spike; `None` if it is not late at all.
pub(crate) fn main_of(explanation: Option<&Explanation>) -> Option<&Cause> {
    explanation?.main()
}

/// Returns the longest cause after subtracting what was there without the injection: the usual
/// times on this machine, steal time counted by the hypervisor, and hypervisor pauses outside the
/// injection.
pub(crate) fn main_beyond<'e>(
    explanation: &'e Explanation,
    covered_ns: u64,
    ordinary: &Ordinary,
) -> Option<&'e Cause> {
    let beyond = by_kind(explanation).into_iter().map(|(kind, ns)| {
        let aside = match kind {
            CauseKind::HypervisorSteal => ns,
            CauseKind::HypervisorPause => explanation.lateness_ns.saturating_sub(covered_ns),
            _ => ordinary.get(&kind).copied().unwrap_or(0),
        };
        (ns.saturating_sub(aside), kind)
    });

    let (_, kind) = beyond.filter(|(ns, _)| *ns > 0).max()?;
    explanation.causes.iter().filter(|cause| cause.kind == kind).max_by_key(|cause| cause.ns)
}

fn by_kind(explanation: &Explanation) -> Ordinary {
    let mut sums = Ordinary::new();
    for cause in &explanation.causes {
        *sums.entry(cause.kind).or_default() += cause.ns;
    }
    sums
}

/// Returns the median of each cause over the cycles of a placebo; an unexplained cycle counts as 0.
pub(crate) fn ordinary(placebo: &[Felt]) -> Ordinary {
    let cycles: Vec<Ordinary> =
        placebo.iter().map(|felt| explanation(felt).map(by_kind).unwrap_or_default()).collect();
    let median = |kind: CauseKind| {
        let mut all: Vec<u64> =
            cycles.iter().map(|cycle| cycle.get(&kind).copied().unwrap_or(0)).collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied().unwrap_or(0)
    };

    CauseKind::ALL.into_iter().map(|kind| (kind, median(kind))).filter(|(_, ns)| *ns > 0).collect()
}

/// Judges an injection, given the `ordinary` times.
pub(crate) fn judged(felt: &Felt, ordinary: &Ordinary) -> Judgement {
    let fault = felt.injected.fault;
    let Some((met, explanation)) = felt.met.as_ref().zip(explanation(felt)) else {
        return Judgement::Nothing;
    };
    let main = explanation.main();
    if main.is_some_and(|cause| is_planted(fault, cause)) {
        return Judgement::First;
    }

    let covered_ns = covered_ns(felt, met);
    if covered_ns < explanation.lateness_ns / 2 {
        return Judgement::Swamped;
    }

    match main_beyond(explanation, covered_ns, ordinary) {
        None => Judgement::Nothing,
        Some(cause) if is_planted(fault, cause) => Judgement::Right,
        // "Wake-up itself" means that nothing was found beyond the cost of every wake-up, which
        // misleads nobody.
        Some(Cause { kind: CauseKind::Unexplained | CauseKind::WakeUpPath, .. }) => {
            Judgement::Unexplained
        }
        Some(_) if main.is_some_and(|cause| cause.kind == CauseKind::Unexplained) => {
            Judgement::Unexplained
        }
        Some(cause) => Judgement::Wrong(cause.kind),
    }
}

/// Returns the part of the cycle, from its release to its end, that is inside the injection, minus
/// the time for which other threads kept the loop off its CPU according to the kernel, in
/// nanoseconds.
fn covered_ns(felt: &Felt, met: &Late) -> u64 {
    let (release, end) =
        (met.sample.release, met.sample.release.plus_ns(met.sample.response_time_ns()));
    let inside_ns = felt.injected.end().min(end).ns_since(felt.injected.at.max(release));
    inside_ns.saturating_sub(felt.injected.kept_off_ns)
}

impl Row {
    pub(crate) fn done(&self) -> Option<&Disturbed> {
        match &self.planted {
            Planted::Done(done) => Some(done),
            Planted::Not(_) => None,
        }
    }

    pub(crate) fn felt(&self) -> &[Felt] {
        self.done().map_or(&[], |done| &done.felt)
    }

    pub(crate) fn in_words(&self) -> String {
        match &self.planted {
            Planted::Done(done) => {
                let (felt, missed, others) = (done.felt.len(), done.missed, done.others.len());
                format!(
                    "{felt} injected, {missed} missed, {others} other spikes in {} cycles",
                    done.cycles
                )
            }
            Planted::Not(reason) => format!("not planted: {reason}"),
        }
    }
}
