//! A loop that is disturbed on purpose: injections, measured lateness, reported causes.
//!
//! Writes no run file. Used by the injector's own command and by the benchmark of causes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use onbeat_rt::sys::{Monotonic, tick};
use onbeat_rt::{Clock, Consumer, Cycle, Flow, Instant, Sample, Slot, Task, split};

use super::causes::{self, Asking, LoopTid, SpikeExplainer};
use super::description::OnGrid;
use super::error::RunError;
use super::run::{in_loop_thread, plan, ring};
use super::setting::Setting;
use super::start::LEAD_NS;
use super::timer::Timer;
use crate::inject::{
    self, Detail, Fault, FaultOrigin, InLoop, Injected, InjectionPlan, InjectionTarget, Injector,
    Log, LoopLog, ReleaseGrid, placebo,
};
use onbeat_cause::{Cost, Explainer, Explanation};
use onbeat_host::thread::{AheadOfLoad, Grant, stay_off_cpu};
use onbeat_record::SpikeLimit;

/// The injections into a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disturbance {
    /// The fault.
    pub fault: Fault,
    /// Interval between injections, in nanoseconds.
    pub every_ns: u64,
    /// Duration of each injection, in nanoseconds; docs/guide/inject.md says of what.
    pub for_ns: u64,
    /// Number of injections.
    pub count: usize,
    /// Do everything but the fault itself.
    pub placebo: bool,
}

/// A late cycle and its explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// The cycle.
    pub sample: Sample,
    /// The explanation; `None` when nothing could be recorded.
    pub explanation: Option<Explanation>,
}

/// One injection and the cycle that it met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Felt {
    /// From the injector's log.
    pub injected: Injected,
    /// The cycle that it met, late or not; `None` without one.
    pub met: Option<Late>,
}

/// The results of a disturbed loop.
#[derive(Clone, Debug, Default)]
pub struct Disturbed {
    /// All injections, oldest first.
    pub felt: Vec<Felt>,
    /// Releases that were aimed at and not met, or whose injection cannot be distinguished from
    /// another event.
    pub missed: u64,
    /// Spikes that no injection met.
    pub others: Vec<Late>,
    /// Cycles of the loop.
    pub cycles: u64,
    /// Cost of the explanations.
    pub cost: Cost,
    /// Grants of the loop and of the flight recorder.
    pub grants: Vec<Grant>,
}

/// A loop could not be disturbed.
#[derive(Debug, thiserror::Error)]
pub enum DisturbError {
    /// The loop failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The injection failed.
    #[error(transparent)]
    Inject(#[from] inject::Error),
    /// The CPU of the loop is not known.
    #[error(
        "the CPU of the loop must be known for an injection; bind it to a CPU, such as --cpu 1"
    )]
    NoCpu,
}

/// Interval between two looks at samples and log.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Slots of the ring: a stop of 5 s, and more, at 1 kHz.
const SLOTS: usize = 16_384;
/// Samples that are searched for the cycle that an injection met.
const REMEMBERED: usize = 16_384;
/// Lowest spike threshold, in nanoseconds.
const LEAST_SPIKE_NS: u64 = 50_000;
/// An injector is ended after twice its planned time and this, in nanoseconds.
const PATIENCE_NS: u64 = 10_000_000_000;

/// Runs a loop, disturbs it, and explains each injection, whether the loop was late by it or not.
///
/// `each` is called with every injection once its cycle is known, on the caller's thread, which
/// stays off the loop's CPU from here on. `stop` ends it early, in good order, and is set at the
/// end.
///
/// # Errors
/// [`DisturbError`].
pub fn disturb(
    setting: &Setting,
    asked: &Disturbance,
    stop: &AtomicBool,
    each: &mut dyn FnMut(&Felt),
) -> Result<Disturbed, DisturbError> {
    setting.admit()?;
    let cpu = setting.thread.cpu.ok_or(DisturbError::NoCpu)?;
    let process = setting.thread.prepare_process();
    let first =
        setting.phase.first_release(Monotonic.now().plus_ns(LEAD_NS), setting.period_ns, tick());
    let first_release = first.plus_ns(LEAD_NS.div_ceil(setting.period_ns) * setting.period_ns);
    let grid = ReleaseGrid {
        first_release,
        period_ns: setting.period_ns,
        spin_ns: setting.wait.longest_spin_ns(),
    };
    let Disturbance { fault, every_ns, for_ns, count, placebo: is_placebo } = *asked;
    let target = InjectionTarget {
        pid: own_pid(),
        tid: own_pid(),
        cpu,
        priority: setting.thread.fifo.unwrap_or(0),
    };
    let wanted = InjectionPlan { fault, every_ns, for_ns, count, target, grid };
    wanted.check().map_err(inject::Error::from)?;
    let task = DisturbedTask::new(Timer { work_ns: setting.work_ns }, &wanted, is_placebo)?;
    let mut grants: Vec<Grant> = process.grants.clone();
    let (mut explainer, evidence) = causes::open(setting);
    // An explanation must not miss what the injector leaves to be read only while it injects.
    explainer.iter_mut().for_each(Explainer::read_names);
    grants.extend(evidence);
    stay_off_cpu(cpu);
    let mut disturbed = live(setting, Aimed { wanted, is_placebo, explainer }, task, stop, each)?;
    disturbed.grants = grants;

    Ok(disturbed)
}

struct Aimed {
    wanted: InjectionPlan,
    is_placebo: bool,
    explainer: Option<Explainer>,
}

fn live(
    setting: &Setting,
    mut aimed: Aimed,
    task: DisturbedTask,
    stop: &AtomicBool,
    each: &mut dyn FnMut(&Felt),
) -> Result<Disturbed, DisturbError> {
    let loop_tid = LoopTid::default();
    let _ahead = aimed.explainer.as_ref().map(|_| AheadOfLoad::take(&setting.thread).0);
    let witness = aimed.explainer.as_mut().map(|explainer| explainer as &mut dyn SpikeExplainer);
    let asking = Asking::new(witness, &loop_tid, setting);
    // Opening the recorder takes time: the grid continues, and the loop begins at its next release.
    let mut wanted = aimed.wanted;
    let begin = wanted.grid.next(Monotonic.now().plus_ns(LEAD_NS));
    wanted.grid.first_release = wanted.grid.release(begin);
    let mut slots: Vec<Slot<Sample>> = (0..SLOTS).map(|_| Slot::empty()).collect();
    let mut ring = ring(&mut slots);
    let (mut hot, cold) = split(&mut ring);
    let loop_plan = plan(setting, wanted.grid.first_release, u64::MAX);
    let within = task.log();
    let mut on_grid = OnGrid { task, has_ports: false };
    let mut watch = InjectionMatcher {
        cold,
        asking,
        setting,
        samples: Vec::new(),
        late: Vec::new(),
        done: Disturbed::default(),
    };
    thread::scope(|threads| {
        let body = || {
            loop_tid.publish();
            in_loop_thread(setting, &loop_plan, &mut on_grid, &mut hot, stop)
        };

        let body =
            thread::Builder::new().name("onbeat-loop".to_owned()).spawn_scoped(threads, body);
        let body = body.map_err(RunError::Thread)?;
        while loop_tid.get().is_none() && !body.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }

        // The kernel takes seconds to change the filters of all events on a slow machine; nothing is
        // injected before they are those of the loop.
        watch.asking.keep_watch();
        wanted.target.tid = loop_tid.get().unwrap_or_default().cast_signed();
        let started = InjectionLogSource::start(wanted, aimed.is_placebo, within);
        if let Ok(source) = &started {
            let patience_ns = 2 * wanted.every_ns.saturating_mul(wanted.count as u64) + PATIENCE_NS;
            let give_up = Monotonic.now().plus_ns(patience_ns);
            let over = || source.is_finished() || Monotonic.now() > give_up;
            while !over() && !stop.load(Ordering::Relaxed) && !body.is_finished() {
                thread::sleep(LOOK_EVERY);
                watch.look(&source.log(), each);
            }

            // The cycle of the last injection has not ended yet.
            thread::sleep(LOOK_EVERY * 4);
            // While what the injector made, such as a cgroup with its counts, is still there.
            watch.look(&source.log(), each);
        }

        let log = started.map(InjectionLogSource::end);
        watch.look(log.as_ref().unwrap_or(&Log::default()), each);
        stop.store(true, Ordering::Relaxed);
        let outcome = body.join().map_err(|_| RunError::Panicked)?;
        outcome?;
        Ok::<_, DisturbError>(watch.close(&log?, each))
    })
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// The work of a cycle, with or without the fault in it.
enum DisturbedTask {
    Plain(Timer),
    Within(InLoop<Timer>),
}

impl DisturbedTask {
    fn new(timer: Timer, wanted: &InjectionPlan, is_placebo: bool) -> Result<Self, inject::Error> {
        match (wanted.fault.origin(), is_placebo) {
            (FaultOrigin::OutsideLoop, _) => Ok(Self::Plain(timer)),
            (FaultOrigin::InLoop, false) => InLoop::new(timer, wanted).map(Self::Within),
            (FaultOrigin::InLoop, true) => InLoop::placebo(timer, wanted).map(Self::Within),
        }
    }

    fn log(&self) -> Option<LoopLog> {
        match self {
            Self::Plain(_) => None,
            Self::Within(within) => Some(within.log()),
        }
    }
}

impl Task for DisturbedTask {
    fn cycle(&mut self, cycle: &Cycle) -> Flow {
        match self {
            Self::Plain(timer) => timer.cycle(cycle),
            Self::Within(within) => within.cycle(cycle),
        }
    }
}

enum InjectionLogSource {
    Beside(Injector),
    Within(LoopLog),
}

impl InjectionLogSource {
    fn start(
        wanted: InjectionPlan,
        is_placebo: bool,
        within: Option<LoopLog>,
    ) -> Result<Self, inject::Error> {
        match (within, is_placebo) {
            (Some(log), _) => Ok(Self::Within(log)),
            (None, true) => placebo(wanted).map(Self::Beside),
            (None, false) => Injector::start(wanted).map(Self::Beside),
        }
    }

    fn log(&self) -> Log {
        match self {
            Self::Beside(injector) => injector.log(),
            Self::Within(log) => Log { injected: log.read(), missed: log.missed() },
        }
    }

    fn is_finished(&self) -> bool {
        match self {
            Self::Beside(injector) => injector.is_finished(),
            Self::Within(log) => log.is_over(),
        }
    }

    fn end(self) -> Log {
        match self {
            Self::Beside(injector) => injector.stop(),
            Self::Within(log) => Log { injected: log.read(), missed: log.missed() },
        }
    }
}

/// Matches samples with the log while the loop runs.
struct InjectionMatcher<'w> {
    cold: Consumer<'w, Sample>,
    asking: Asking<'w>,
    setting: &'w Setting,
    samples: Vec<Sample>,
    /// Spikes in order, explained while the recorder still had their events.
    late: Vec<Late>,
    done: Disturbed,
}

impl InjectionMatcher<'_> {
    fn look(&mut self, log: &Log, each: &mut dyn FnMut(&Felt)) {
        self.asking.keep_watch();
        let known = self.samples.len();
        self.samples.extend(std::iter::from_fn(|| self.cold.pop()));
        self.done.cycles += (self.samples.len() - known) as u64;
        // Injections first: in a storm of spikes only a limited number of them is explained.
        let seen_until = self.samples.last().map_or(Instant::default(), |sample| sample.release);
        self.settle(log, seen_until, each);
        let limit_ns = self.spike_limit_ns();

        for sample in
            self.samples[known..].iter().filter(|sample| late_ns(sample, self.setting) > limit_ns)
        {
            let met = self.done.felt.iter().rev().filter_map(|felt| felt.met.as_ref());
            let settled = met
                .take(self.samples.len())
                .find(|late| late.sample.index == sample.index)
                .cloned();
            let late = settled.unwrap_or_else(|| Late {
                sample: *sample,
                explanation: self.asking.explain(sample),
            });
            self.late.push(late);
        }

        let too_many = self.samples.len().saturating_sub(REMEMBERED);
        self.samples.drain(..too_many);
    }

    /// Finds the cycles of the injections that ended before `until`.
    fn settle(&mut self, log: &Log, until: Instant, each: &mut dyn FnMut(&Felt)) {
        self.done.missed = log.missed;
        for injected in
            log.injected.iter().skip(self.done.felt.len()).take_while(|one| one.end() < until)
        {
            let met = met_by(&self.samples, injected).map(|sample| {
                let known =
                    self.late.iter().rev().find(|late| late.sample.index == sample.index).cloned();
                known.unwrap_or_else(|| Late { sample, explanation: self.asking.explain(&sample) })
            });

            let felt = Felt { injected: *injected, met };
            each(&felt);
            self.done.felt.push(felt);
        }
    }

    fn spike_limit_ns(&self) -> u64 {
        match self.setting.spike_limit {
            SpikeLimit::Above(ns) => ns,
            SpikeLimit::TenTimesMedian => {
                let last = self.samples.iter().rev().take(500);
                let mut latencies: Vec<u64> = last.map(|sample| sample.wakeup_latency_ns).collect();
                latencies.sort_unstable();
                latencies
                    .get(latencies.len() / 2)
                    .map_or(LEAST_SPIKE_NS, |p50| (10 * p50).max(LEAST_SPIKE_NS))
            }
        }
    }

    fn close(mut self, log: &Log, each: &mut dyn FnMut(&Felt)) -> Disturbed {
        self.look(log, each);
        self.settle(log, Instant::from_ns(u64::MAX), each);
        let felt = &self.done.felt;
        let by_none = |late: &Late| !felt.iter().any(|one| overlap(&late.sample, &one.injected));
        self.done.others = self.late.into_iter().filter(by_none).collect();
        self.done.cost = self.asking.cost();

        self.done
    }
}

const fn late_ns(sample: &Sample, setting: &Setting) -> u64 {
    sample.wakeup_latency_ns + sample.execution_time_ns.saturating_sub(setting.work_ns)
}

fn overlap(sample: &Sample, injected: &Injected) -> bool {
    let end = sample.release.plus_ns(sample.response_time_ns());
    sample.release < injected.end() && end > injected.at
}

/// Returns the cycle that an injection met: of those that overlap it in time, the one with the
/// longest response time.
fn met_by(samples: &[Sample], injected: &Injected) -> Option<Sample> {
    if injected.detail == Detail::Placebo {
        return samples.iter().find(|sample| sample.index >= injected.release).copied();
    }
    let met = samples.iter().filter(|sample| overlap(sample, injected));
    met.max_by_key(|sample| sample.response_time_ns()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(index: u64, latency_us: u64) -> Sample {
        let release = Instant::from_ns(index * 1_000_000);
        Sample { index, release, wakeup_latency_ns: latency_us * 1000, ..Sample::default() }
    }

    fn injected(at_us: u64, us: u64) -> Injected {
        let detail = Detail::Busy { cpu_ns: 0 };
        let at = Instant::from_ns(at_us * 1000);
        Injected {
            fault: Fault::EqualPriorityHog,
            index: 0,
            release: 2,
            at,
            ns: us * 1000,
            kept_off_ns: 0,
            detail,
        }
    }

    #[test]
    fn an_injection_met_the_cycle_that_it_kept_longest() {
        let samples = [sample(1, 5), sample(2, 310), sample(3, 6)];
        assert_eq!(met_by(&samples, &injected(1_600, 700)).map(|sample| sample.index), Some(2));
        assert_eq!(met_by(&samples, &injected(1_600, 300)), None, "over before the next release");
    }

    #[test]
    fn a_placebo_met_the_cycle_that_it_was_timed_for() {
        let nothing = Injected { detail: Detail::Placebo, ns: 0, ..injected(1_600, 1) };
        assert_eq!(
            met_by(&[sample(1, 900), sample(2, 5)], &nothing).map(|sample| sample.index),
            Some(2)
        );
    }
}
