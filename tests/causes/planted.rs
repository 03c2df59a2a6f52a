//! One fault planted many times, and how its injections were judged.

use std::collections::BTreeMap;

use onbeat::cause::{CauseKind, Explanation};
use onbeat::inject::Fault;
use onbeat::probe::Setting;
use onbeat::probe::disturbed::{Disturbed, Felt, Late};
use onbeat::record::SpikeLimit;
use onbeat::thread::Wanted;
use onbeat_rt::cycle::Phase;
use onbeat_rt::{OnOverrun, Wait};

use crate::MS;

/// A fault, and what came of it.
pub(crate) struct Row {
    pub(crate) fault: Fault,
    pub(crate) planted: Planted,
    /// What a cycle on this machine has of each cause when nothing is planted: the medians of the placebo.
    pub(crate) ordinary: Ordinary,
}

/// Nanoseconds by cause.
pub(crate) type Ordinary = BTreeMap<CauseKind, u64>;

/// What came of planting.
pub(crate) enum Planted {
    Done(Disturbed),
    /// Not on this machine: why.
    NotPossible(String),
}

/// The loop: that of `onbeat measure timer`, on one CPU.
pub(crate) fn setting(cpu: u32) -> Setting {
    Setting {
        period_ns: MS,
        deadline_ns: MS,
        work_ns: 0,
        delay_ns: 0,
        wait: Wait::Sleep,
        on_overrun: OnOverrun::SkipKeepPhase,
        phase: Phase::AvoidTick,
        thread: Wanted { fifo: Some(90), cpu: Some(cpu), lock_memory: true, dma_latency_us: None },
        warmup: 0,
        interval_ns: 1000 * MS,
        spike_limit: SpikeLimit::TenTimesMedian,
        causes: true,
        lockdown: false,
    }
}

/// How long each injection lasts, and from one to the next; in nanoseconds.
pub(crate) fn dose(fault: Fault) -> (u64, u64) {
    let for_ns = match fault {
        Fault::StopSignal => 5 * MS,
        Fault::RtThrottling => 50 * MS,
        Fault::FairServer => 10 * MS,
        Fault::PageFaults | Fault::OwnOverrun | Fault::ForcedMigration => MS / 2,
        _ => 3 * MS / 10,
    };
    (for_ns, fault.least_every_ns().max(100 * MS))
}

/// The explanation of the cycle that an injection met.
pub(crate) fn explanation(felt: &Felt) -> Option<&Explanation> {
    felt.met.as_ref()?.explanation.as_ref()
}

fn main_of(explanation: Option<&Explanation>) -> Option<CauseKind> {
    Some(explanation?.main()?.kind)
}

/// What an injection was named; `None` when it met no cycle or the cycle was not late at all.
pub(crate) fn named(felt: &Felt) -> Option<CauseKind> {
    main_of(explanation(felt))
}

/// The same with that set aside which was there without the injection: what is ordinary on this machine, and what the
/// hypervisor took.
pub(crate) fn named_beyond(felt: &Felt, ordinary: &Ordinary) -> Option<CauseKind> {
    let hosts = [CauseKind::HypervisorSteal, CauseKind::HypervisorPause];
    let beyond = by_kind(explanation(felt)?).into_iter().map(|(kind, ns)| {
        let ordinary = if hosts.contains(&kind) { ns } else { ordinary.get(&kind).copied().unwrap_or(0) };
        (ns.saturating_sub(ordinary), kind)
    });
    beyond.filter(|(ns, _)| *ns > 0).max().map(|(_, kind)| kind)
}

fn by_kind(explanation: &Explanation) -> Ordinary {
    let mut sums = Ordinary::new();
    for cause in &explanation.causes {
        *sums.entry(cause.kind).or_default() += cause.ns;
    }
    sums
}

/// The median of each cause over the cycles that a placebo met; a cycle that was not explained had nothing of any.
pub(crate) fn ordinary(placebo: &Planted) -> Ordinary {
    let Planted::Done(done) = placebo else { return Ordinary::new() };
    let cycles: Vec<Ordinary> =
        done.felt.iter().map(|felt| explanation(felt).map(by_kind).unwrap_or_default()).collect();
    let median = |kind: CauseKind| {
        let mut all: Vec<u64> = cycles.iter().map(|cycle| cycle.get(&kind).copied().unwrap_or(0)).collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied().unwrap_or(0)
    };
    CauseKind::ALL.into_iter().map(|kind| (kind, median(kind))).filter(|(_, ns)| *ns > 0).collect()
}

/// What a spike that nobody planted was named.
pub(crate) fn named_late(late: &Late) -> Option<CauseKind> {
    main_of(late.explanation.as_ref())
}

impl Row {
    pub(crate) fn done(&self) -> Option<&Disturbed> {
        match &self.planted {
            Planted::Done(done) => Some(done),
            Planted::NotPossible(_) => None,
        }
    }

    pub(crate) fn felt(&self) -> &[Felt] {
        self.done().map_or(&[], |done| &done.felt)
    }

    /// How many were named `kind`.
    pub(crate) fn count(&self, kind: Option<CauseKind>) -> usize {
        self.felt().iter().filter(|felt| named(felt) == kind).count()
    }

    /// The share of injections with the planted cause as the main one, 0 to 1.
    pub(crate) fn first(&self) -> Option<f64> {
        self.share(|felt| named(felt) == Some(self.fault.cause()))
    }

    /// The same with what is ordinary and what the hypervisor took set aside.
    pub(crate) fn right(&self) -> Option<f64> {
        self.share(|felt| named_beyond(felt, &self.ordinary) == Some(self.fault.cause()))
    }

    fn share(&self, is_so: impl Fn(&Felt) -> bool) -> Option<f64> {
        let all = self.felt().len();
        (all > 0).then(|| self.felt().iter().filter(|felt| is_so(felt)).count() as f64 / all as f64)
    }

    /// The share with the planted cause among the causes, 0 to 1.
    pub(crate) fn among(&self) -> Option<f64> {
        self.share(|felt| {
            let causes = explanation(felt).map_or(&[][..], |explanation| &explanation.causes);
            causes.iter().any(|cause| cause.kind == self.fault.cause())
        })
    }

    /// The share of the lateness that has a name, 0 to 1.
    pub(crate) fn accounted(&self) -> Option<f64> {
        let explanations = || self.felt().iter().filter_map(explanation);
        let late: u64 = explanations().map(|explanation| explanation.lateness_ns).sum();
        let accounted: u64 = explanations().map(|explanation| explanation.accounted_ns).sum();
        (late > 0).then(|| accounted as f64 / late as f64)
    }

    /// The median lateness of the cycles that were met, in nanoseconds.
    pub(crate) fn median_late_ns(&self) -> Option<u64> {
        let mut all: Vec<u64> = self.felt().iter().filter_map(explanation).map(|one| one.lateness_ns).collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied()
    }
}

impl Planted {
    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::Done(done) => {
                let (felt, missed, others) = (done.felt.len(), done.missed, done.others.len());
                format!("{felt} injected, {missed} missed, {others} other spikes in {} cycles", done.cycles)
            }
            Self::NotPossible(reason) => format!("not possible here: {reason}"),
        }
    }
}
