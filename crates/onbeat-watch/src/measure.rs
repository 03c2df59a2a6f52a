//! The measurement: cycles of the chosen thread into a run file, with the causes of late ones.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use onbeat::cause::{
    Cause, CauseKind, Cost, Culprit, Explainer, Explanation, FlightSetting, LoopThread, PathStream,
    SpikeFacts, WaitingCall,
};
use onbeat::probe::SpikeExplainer;
use onbeat::probe::stall::{Rules, StallWatch};
use onbeat::probe::surroundings::{self, Surroundings};
use onbeat::probe::{Interruptions, Origin, of_cost};
use onbeat::record::{
    Account, EndReason, Header, Recorder, Recording, RunWriter, SpikeLimit, Timing, Watch, Why,
    interval_ns_for,
};
use onbeat::thread::{Grant, give_back_freed_memory, stay_off_cpu};
use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Flags, Instant, Outcome, Sample};

use crate::changes::ThreadChanges;
use crate::class::Class;
use crate::collect::{Collector, Look};
use crate::cycles::{Cycle, CycleBuilder, CycleFact};
use crate::error::WatchError;
use crate::event::{KnownTimer, TimerKind, Waker};
use crate::missing::MissingWaits;
use crate::process::{self, Policy, ThreadCounters, ThreadFacts};
use crate::standing::Standing;
use crate::waits::{PendingWait, Source, Wait, WaitAssembler};

/// The loop that is measured.
#[derive(Clone, Debug)]
pub struct WatchedLoop {
    pub thread: ThreadFacts,
    /// Threads that serve its releases in turns with it: a pool of workers.
    pub pool: Vec<ThreadFacts>,
    /// What its releases are.
    pub source: Source,
    /// Their regularity.
    pub class: Class,
    /// The address of one of their timers; 0 without one.
    pub timer: u64,
    /// Releases that were seen while the loop was looked for.
    pub known: Vec<Instant>,
    /// What its work usually takes, in nanoseconds.
    pub worked_ns: u64,
}

impl WatchedLoop {
    /// Returns its timer; `None` where none wakes it.
    #[must_use]
    pub const fn known_timer(&self) -> Option<KnownTimer> {
        // Of a pool each thread has a timer of its own.
        if !self.pool.is_empty() {
            return None;
        }
        match self.source {
            Source::Sleep { relative, .. } => {
                Some(KnownTimer { kind: TimerKind::Sleep, relative, address: self.timer })
            }
            Source::Timer { kind, address } => Some(KnownTimer { kind, relative: false, address }),
            Source::Event | Source::Call => None,
        }
    }

    /// Returns the numbers of its threads.
    #[must_use]
    pub fn tids(&self) -> Vec<u32> {
        std::iter::once(&self.thread).chain(&self.pool).map(ThreadFacts::tid).collect()
    }
}

/// Returns the counters of several threads together; `None` when all of them have ended.
fn counters_of(tids: &[u32]) -> Option<ThreadCounters> {
    let counters = tids.iter().filter_map(|tid| ThreadCounters::read(*tid));
    counters.reduce(ThreadCounters::plus)
}

/// What is to be measured.
#[derive(Debug)]
pub struct WatchPlan<'p> {
    pub watched: WatchedLoop,
    /// How long, in nanoseconds; 0: until it is stopped or the thread ends.
    pub duration_ns: u64,
    /// Whether causes of late cycles are recorded.
    pub causes: bool,
    /// Beyond which lateness a cycle is a spike.
    pub spike_limit: SpikeLimit,
    /// The header of the run file, without timing and grants.
    pub header: Header,
    /// The run file.
    pub path: &'p Path,
    /// The instant that is 0 in it.
    pub origin: Origin,
}

/// How a measurement ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Watched {
    /// Cycles whose latency was not seen.
    pub not_seen: u64,
    /// Events lost in the kernel's buffers.
    pub lost_events: u64,
    /// The account of the run; `None` when no cycle was seen.
    pub account: Option<Account>,
    /// Why it ended.
    pub reason: EndReason,
    /// Whether the thread ended before its time.
    pub has_ended: bool,
    /// CPU time of this process for watching, in nanoseconds.
    pub own_cpu_ns: u64,
    /// What the kernel counted of the thread meanwhile.
    pub counters: ThreadCounters,
    /// How long it was watched, in nanoseconds.
    pub watched_ns: u64,
    /// Waits inside its cycles.
    pub inner: InnerWaits,
    /// System calls in which it was found waiting, and how often, of some 40 looks a second.
    pub calls: BTreeMap<String, u32>,
    /// Main causes of its spikes: how many spikes, and the longest.
    pub causes: BTreeMap<CauseKind, (u64, Cause)>,
    /// Of these spikes, those of which a thread of this process is the main culprit.
    pub disturbed: u64,
    /// The thread that woke it most often, and in how many cycles; `None` if a timer does.
    pub feeder: Option<(ThreadFacts, u64)>,
    /// What its process may and has.
    pub standing: Standing,
}

/// Waits of a loop inside its cycles: for locks, files, terminals, other threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InnerWaits {
    pub cycles: u64,
    /// Of these, cycles with at least one such wait.
    pub waiting: u64,
    /// The longest wait, in nanoseconds.
    pub longest_ns: u64,
}

/// Between two looks at the events.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// Between two looks at policy and life of the thread, in nanoseconds.
const FACTS_EVERY_NS: u64 = 250_000_000;
/// Most spikes that are explained per look.
const MOST_EXPLAINED: u32 = 20;
/// How long spikes are explained in a look, in nanoseconds: meanwhile the kernel's buffers fill.
const EXPLAIN_FOR_NS: u64 = 100_000_000;
/// Looks in a row that could not read everything, after which recording ends.
const MOST_FLOODED_LOOKS: u32 = 20;

/// An uninterrupted part of a run: all of a measurement, or a block of a bench.
#[derive(Clone, Copy, Debug)]
pub struct Stretch<'s> {
    pub watched: &'s WatchedLoop,
    /// Index within the run, from 0.
    pub index: u32,
    /// The load that runs at the same time, as typed.
    pub load: &'s str,
    /// How long, in nanoseconds; 0: until it is stopped or the thread ends.
    pub duration_ns: u64,
}

/// What receives a stretch.
pub struct Onto<'o> {
    /// The run file.
    pub recorder: &'o mut Recorder,
    /// What explains late cycles.
    pub explainer: Option<&'o mut (dyn SpikeExplainer + 'static)>,
}

struct Measuring<'m> {
    recorder: &'m mut Recorder,
    builder: CycleBuilder,
    stalls: StallWatch,
    explainer: Option<&'m mut (dyn SpikeExplainer + 'static)>,
    left: u32,
    watched: &'m WatchedLoop,
    block: (u32, &'m str),
    changes: ThreadChanges,
    has_begun: bool,
    planned: Option<u64>,
    facts: Vec<CycleFact>,
    /// Waits of the latest look, and how often the thread had been stopped by then.
    held: Vec<(Wait, u64)>,
    /// Explanations may take until then.
    explain_until: Instant,
    follows: LateByTheOneBefore,
    inner: InnerWaits,
    /// Execution times of the latest cycles: what its work usually takes.
    usual_ns: VecDeque<u64>,
    causes: BTreeMap<CauseKind, (u64, Cause)>,
    disturbed: u64,
    /// How often each thread woke it.
    feeders: BTreeMap<u32, u64>,
    own_waits: OwnWaits,
}

/// Threads that wake a loop and are remembered.
const MOST_FEEDERS: usize = 64;

/// Execution times by which the usual one is known.
const USUAL_OF: usize = 63;

/// Measures a loop until its time is over, it ends, or `interruptions` say stop. `report` is called
/// after each look, with the seconds so far.
///
/// # Errors
/// [`WatchError`]; what was recorded before is kept.
pub fn measure(
    collector: &mut Collector,
    plan: &WatchPlan<'_>,
    interruptions: &Interruptions,
    report: &mut dyn FnMut(f64, &mut Recorder),
) -> Result<Watched, WatchError> {
    if counters_of(&plan.watched.tids()).is_none() {
        return Err(WatchError::ThreadEnded { tid: plan.watched.thread.tid() });
    }
    // An ordinary loop that is bound would share its CPU with this thread.
    if let Some(cpu) = plan.watched.thread.bound_cpu() {
        stay_off_cpu(cpu);
    }
    let (mut recorder, mut explainer) = open(plan)?;
    if let Some(sentence) = pool_words(&plan.watched) {
        recorder.remark(sentence)?;
    }
    let stretch =
        Stretch { watched: &plan.watched, index: 0, load: "idle", duration_ns: plan.duration_ns };
    let onto = Onto {
        recorder: &mut recorder,
        explainer: explainer.as_mut().map(|explainer| explainer as &mut dyn SpikeExplainer),
    };
    let mut watched = measure_stretch(collector, stretch, onto, interruptions, report)?;
    if watched.inner.cycles == 0 {
        return Ok(watched);
    }

    let cost = explainer.as_ref().map_or_else(Cost::default, Explainer::cost);
    let closing = Account {
        t: recorder.seconds(Monotonic.now()),
        reason: watched.reason,
        page_faults: watched.counters.faults,
        involuntary_switches: watched.counters.preemptions,
        cpu_ns: watched.counters.cpu_ns,
        ..of_cost(&cost)
    };
    watched.account = Some(recorder.close(&closing)?);
    Ok(watched)
}

/// What a run of a pool's loop is told with.
fn pool_words(watched: &WatchedLoop) -> Option<String> {
    let threads = watched.tids();
    let list: Vec<String> = threads.iter().map(ToString::to_string).collect();
    (threads.len() > 1).then(|| {
        format!(
            "the releases are served in turns by threads {}: execution lasts until the thread waits again, and causes are not recorded",
            list.join(", ")
        )
    })
}

/// The end of a stretch from its start; it has none where its duration is 0.
const fn end_of(from: Instant, duration_ns: u64) -> Instant {
    if duration_ns == 0 { Instant::from_ns(u64::MAX) } else { from.plus_ns(duration_ns) }
}

/// Measures a loop into a recorder that is open, and leaves it open; the account of what is returned
/// is `None`. `report` is called after each look, with the seconds so far.
///
/// # Errors
/// [`WatchError`]; what was recorded before is kept.
pub fn measure_stretch(
    collector: &mut Collector,
    stretch: Stretch<'_>,
    onto: Onto<'_>,
    interruptions: &Interruptions,
    report: &mut dyn FnMut(f64, &mut Recorder),
) -> Result<Watched, WatchError> {
    let tid = stretch.watched.thread.tid();
    let tids = stretch.watched.tids();
    let Some(before) = counters_of(&tids) else {
        return Err(WatchError::ThreadEnded { tid: stretch.watched.thread.tid() });
    };
    let own_before = own_cpu_ns();
    let standing = Standing::read(&stretch.watched.thread);
    let Onto { recorder, explainer } = onto;
    let shared = explainer.as_ref().and_then(|explainer| explainer.stream());
    let mut measuring = Measuring::new(stretch, recorder, explainer);
    let mut source = surroundings::of_this_machine();
    let mut surroundings = Surroundings::watch(&mut source);

    let by_tracefs = record(collector, stretch.watched, shared)?;
    if let Some(why) = &by_tracefs {
        measuring.recorder.remark(format!(
            "the loop's events were recorded by tracefs, which makes each wake-up 2 to 4 us later: {why}"
        ))?;
    }
    // What the programs' loading has used, some 10 MB.
    give_back_freed_memory();
    let from = Monotonic.now();
    let mut missing = MissingWaits::of_all(&tids, from);
    let mut lost_events = 0;
    let mut floods = Floods(0);
    let mut facts_at = from;
    let mut has_ended = false;
    let mut until = from;
    let end = end_of(from, stretch.duration_ns);
    let mut calls: BTreeMap<String, u32> = BTreeMap::new();
    let mut fresh = FreshWaits { from, end, waits: Vec::new(), beyond: None };
    // Explanations may take a while; what happened meanwhile is still to be read.
    while until < end && !has_ended && !interruptions.stop.load(Ordering::Relaxed) {
        thread::sleep(LOOK_EVERY);
        let counted_at = Monotonic.now();
        let counted = tids.iter().map(|tid| ThreadCounters::read(*tid)).collect::<Vec<_>>();
        has_ended = counted.iter().all(Option::is_none);
        if let Some(waiting) = process::waiting(tid) {
            measuring.own_waits.add(waiting.call);
            *calls.entry(waiting.words).or_default() += 1;
        }
        let (_, changes) = surroundings.look();
        changes.into_iter().for_each(|change| measuring.recorder.exclude(change));

        let look =
            collector.look(&mut |wait, assembler| fresh.take(&measuring, wait, assembler))?;
        until = look.until.min(end);
        lost_events += look.lost;
        let more =
            MissingWaits::found_of_all(&mut missing, collector.assembler(), (&counted, counted_at));
        measuring.builder.miss(more);
        measuring.take_held(std::mem::take(&mut fresh.waits), collector.assembler())?;
        floods.look(&look, tid)?;
        if Monotonic.now().ns_since(facts_at) >= FACTS_EVERY_NS {
            facts_at = Monotonic.now();
            measuring.look_at_thread()?;
        }
        report(Monotonic.now().ns_since(from) as f64 / 1e9, measuring.recorder);
    }
    measuring.take_held(Vec::new(), collector.assembler())?;

    // What the other workers of a pool wait for belongs to the loop as well.
    let pending = collector.assembler().pending(tid, stretch.watched.source);
    let pending = fresh.beyond.or(pending).filter(|_| stretch.watched.pool.is_empty());
    let counters = counters_of(&tids).map_or(ThreadCounters::default(), |now| now.since(before));
    let last = if has_ended { None } else { Some((until, pending)) };
    measuring.finish(last)?;
    let feeder = measuring.feeders.iter().max_by_key(|(_, woken)| **woken);
    let named = |(tid, woken): (&u32, &u64)| Some((process::thread(tid.cast_signed())?, *woken));
    Ok(Watched {
        not_seen: measuring.builder.not_seen(),
        inner: measuring.inner,
        feeder: feeder.and_then(named),
        causes: measuring.causes,
        disturbed: measuring.disturbed,
        standing,
        lost_events,
        account: None,
        reason: reason(has_ended, interruptions),
        calls,
        has_ended,
        own_cpu_ns: own_cpu_ns() - own_before,
        counters,
        watched_ns: until.ns_since(from),
    })
}

fn reason(has_ended: bool, interruptions: &Interruptions) -> EndReason {
    match (has_ended, interruptions.stop.load(Ordering::Relaxed)) {
        (true, _) => EndReason::Task,
        (false, true) => EndReason::Asked,
        (false, false) => EndReason::Complete,
    }
}

/// The waits of a look, from the beginning to the end of a run: the programs that record causes began earlier.
struct FreshWaits {
    from: Instant,
    end: Instant,
    waits: Vec<(Wait, u64)>,
    /// The first wait for a release that began after the end.
    beyond: Option<PendingWait>,
}

impl FreshWaits {
    fn take(&mut self, measuring: &Measuring<'_>, wait: &Wait, assembler: &WaitAssembler) {
        if !measuring.takes(wait) || wait.was_over_before(self.from) {
            return;
        }
        let WatchedLoop { thread, source, .. } = measuring.watched;
        // Where it fetched what had expired meanwhile, the thread did not sleep: its work before ended with that call.
        match wait.began().or(wait.went_on()).filter(|began| *began > self.end) {
            None => self.waits.push((*wait, assembler.stops(thread.tid()))),
            // What came after the end is read with it: the last cycle ends where the first of these
            // waits began, and not where the thread waits now.
            Some(began) if wait.source == *source => {
                let release = wait.release.unwrap_or(began);
                self.beyond.get_or_insert(PendingWait { release, began });
            }
            Some(_) => {}
        }
    }
}

/// Looks in a row that could not read everything.
struct Floods(u32);

impl Floods {
    fn look(&mut self, look: &Look, tid: u32) -> Result<(), WatchError> {
        self.0 = if look.is_flooded { self.0 + 1 } else { 0 };
        if self.0 < MOST_FLOODED_LOOKS {
            return Ok(());
        }
        let events = look.events.get(&tid).copied().unwrap_or(0);
        Err(WatchError::Flood { tid, per_s: events * 1_000 / LOOK_EVERY.as_millis() as u64 })
    }
}

/// Starts recording the loop: by BPF, of the programs that record causes if there are any, or else
/// by tracefs. Returns why not by BPF.
fn record(
    collector: &mut Collector,
    watched: &WatchedLoop,
    shared: Option<PathStream>,
) -> Result<Option<String>, WatchError> {
    let tid = watched.thread.tid();
    if collector.has_path() {
        return Ok(None);
    }
    let timer = watched.known_timer();
    let why = match timer {
        Some(timer) => {
            let followed = match shared {
                Some(path) => collector.follow_by(path, timer),
                None => collector.follow_by_bpf(tid, timer),
            };
            match followed {
                Ok(()) => return Ok(None),
                Err(why) => why,
            }
        }
        None if !watched.pool.is_empty() => "it follows the threads of a pool together".to_owned(),
        None => "it shows who wakes a loop that no timer wakes".to_owned(),
    };
    if timer.is_some() {
        collector.leave_wakings_out()?;
    }
    collector.follow_only(&watched.tids())?;
    Ok(Some(why))
}

/// Opens the file, and what explains.
fn open(plan: &WatchPlan<'_>) -> Result<(Recorder, Option<Explainer>), WatchError> {
    let WatchedLoop { thread, class, known, .. } = &plan.watched;
    let period_ns = class.period_ns().max(1);
    let tid = thread.tid();
    let (explainer, grants) = if plan.causes && plan.watched.pool.is_empty() {
        let fifo = Some(thread.policy.priority()).filter(|priority| (1..100).contains(priority));
        let explained = LoopThread { tid, cpu: thread.bound_cpu(), fifo };
        let setting = FlightSetting { inside: true, ..FlightSetting::default() };
        Explainer::open_with_grants(explained, &setting)
    } else {
        (None, Vec::new())
    };

    let grants = of_thread(thread).into_iter().chain(grants).collect();
    let phase = known.last().map_or(0, |last| last.as_ns() % period_ns);
    let header = Header {
        timing: Some(Timing {
            period_ns,
            phase_ns: phase,
            avoids_tick: false,
            deadline_ns: period_ns,
            work_ns: plan.watched.worked_ns,
            wait: if class.has_grid() { "sleep" } else { "relative" }.to_owned(),
            on_overrun: "skip".to_owned(),
            cpu: thread.bound_cpu(),
            priority: thread.policy.priority().min(99),
            delay_ns: 0,
        }),
        grants,
        ..plan.header.clone()
    };
    let recording = Recording {
        period_ns,
        work_ns: plan.watched.worked_ns,
        interval_ns: interval_ns_for(plan.duration_ns),
        spike_limit: plan.spike_limit,
    };
    let writer = RunWriter::create(plan.path, &header)?;
    let mut recorder = Recorder::new(writer, plan.origin.at, recording);
    recorder.watch(&Watch::of_run(header.limit, period_ns));
    Ok((recorder, explainer))
}

/// What the program has of P and M, in the words of onbeat's own loop.
fn of_thread(thread: &ThreadFacts) -> Vec<Grant> {
    let mut grants = Vec::new();
    if thread.policy.is_real_time() {
        grants.push(Grant::given("real-time priority", thread.policy.words()));
    }
    if let Some(cpu) = thread.bound_cpu() {
        grants.push(Grant::given("CPU affinity", format!("CPU {cpu}")));
    }
    grants
}

impl<'m> Measuring<'m> {
    fn new(
        stretch: Stretch<'m>,
        recorder: &'m mut Recorder,
        explainer: Option<&'m mut (dyn SpikeExplainer + 'static)>,
    ) -> Self {
        let Stretch { watched, index, load, duration_ns } = stretch;
        let WatchedLoop { thread, class, source, known, .. } = watched;
        let period_ns = class.period_ns().max(1);
        Self {
            recorder,
            builder: CycleBuilder::new(*source, class, known),
            stalls: StallWatch::new(Rules::of_this_machine(), thread.policy.is_real_time(), 0),
            explainer,
            left: 0,
            watched,
            block: (index, load),
            changes: ThreadChanges::new(thread),
            has_begun: false,
            planned: (duration_ns > 0).then(|| duration_ns / period_ns),
            facts: Vec::new(),
            held: Vec::new(),
            explain_until: Instant::default(),
            follows: LateByTheOneBefore::default(),
            inner: InnerWaits::default(),
            // Without it all the work of the first cycle would be beyond the usual.
            usual_ns: VecDeque::from([watched.worked_ns]),
            causes: BTreeMap::new(),
            disturbed: 0,
            feeders: BTreeMap::new(),
            own_waits: OwnWaits::of(thread.tid()),
        }
    }

    fn prepare(&mut self) {
        self.left = MOST_EXPLAINED;
        self.explain_until = Monotonic.now().plus_ns(EXPLAIN_FOR_NS);
        if let Some(explainer) = &mut self.explainer {
            explainer.keep_watch();
        }
    }

    /// Records the waits of the look before, for which is known by now what is missing, and keeps
    /// those of this one.
    fn take_held(
        &mut self,
        fresh: Vec<(Wait, u64)>,
        assembler: &WaitAssembler,
    ) -> Result<(), WatchError> {
        self.prepare();
        let held = std::mem::replace(&mut self.held, fresh);
        let is_pool = !self.watched.pool.is_empty();
        for (wait, stops) in &held {
            if let Some((tid, start)) = self.builder.started().filter(|_| is_pool) {
                self.builder.end_by_itself(assembler.slept_after(tid, start));
            }
            self.take(wait, *stops)?;
        }
        Ok(())
    }

    /// Whether a wait belongs to the loop. A worker of a pool has others, when there is nothing to do.
    fn takes(&self, wait: &Wait) -> bool {
        let WatchedLoop { thread, pool, source, .. } = self.watched;
        if pool.is_empty() {
            return wait.tid == thread.tid();
        }
        let is_own = wait.tid == thread.tid() || pool.iter().any(|one| one.tid() == wait.tid);
        is_own && wait.source == *source
    }

    fn take(&mut self, wait: &Wait, stops: u64) -> Result<(), WatchError> {
        let mut facts = std::mem::take(&mut self.facts);
        self.builder.take(wait, &mut facts);
        let recorded = facts.drain(..).try_for_each(|fact| self.record(&fact, stops));
        self.facts = facts;
        recorded
    }

    fn record(&mut self, fact: &CycleFact, stops: u64) -> Result<(), WatchError> {
        match fact {
            CycleFact::Cycle(cycle) => self.record_cycle(cycle, stops),
            CycleFact::NewPeriod { at, to_ns } => Ok(self.recorder.change_period(*at, *to_ns)?),
            CycleFact::NewPhase { at } => {
                let t = self.recorder.seconds(*at);
                let sentence = format!(
                    "{t:.1} s after the start the program moved its releases to another phase"
                );
                Ok(self.recorder.remark(sentence)?)
            }
        }
    }

    fn record_cycle(&mut self, cycle: &Cycle, stops: u64) -> Result<(), WatchError> {
        let sample = &cycle.sample;
        if !std::mem::replace(&mut self.has_begun, true) {
            let period_ns = self.builder.period_ns();
            let first = sample.release.minus_ns(sample.index * period_ns);
            self.recorder.plan_block(self.planned.unwrap_or(u64::MAX));
            self.recorder.begin_block(self.block.0, first, self.block.1, 0)?;
        }

        let longest = cycle.inner.iter().map(|inner| inner.to.ns_since(inner.from)).max();
        self.inner.cycles += 1;
        self.inner.waiting += u64::from(longest.is_some());
        self.inner.longest_ns = self.inner.longest_ns.max(longest.unwrap_or(0));

        if let Some(Waker::Task(tid)) = cycle.waker
            && (self.feeders.len() < MOST_FEEDERS || self.feeders.contains_key(&tid))
        {
            *self.feeders.entry(tid).or_default() += 1;
        }

        let stall = self.stalls.judge(sample, stops);
        let explanation = if self.recorder.is_spike(sample) { self.explain(cycle) } else { None };
        if let Some(main) = explanation.as_ref().and_then(Explanation::main) {
            let (count, longest) = self.causes.entry(main.kind).or_insert((0, main.clone()));
            *count += 1;
            self.disturbed += u64::from(main.culprit.as_ref().is_some_and(is_of_this_process));
            if main.ns > longest.ns {
                *longest = main.clone();
            }
        }
        let window = match &mut self.explainer {
            Some(explainer) if explanation.is_some() && self.recorder.wants_window(sample) => {
                explainer.window()
            }
            _ => None,
        };
        self.usual_ns.push_back(sample.execution_time_ns);
        if self.usual_ns.len() > USUAL_OF {
            self.usual_ns.pop_front();
        }
        Ok(self
            .recorder
            .sample_with(sample, Why { stall, explanation, window, ..Why::default() })?)
    }

    /// The median of the latest cycles: it needs no explanation.
    fn usual_work_ns(&self) -> u64 {
        let mut sorted: Vec<u64> = self.usual_ns.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or(0)
    }

    fn explain(&mut self, cycle: &Cycle) -> Option<Explanation> {
        let work_ns = self.usual_work_ns().min(cycle.sample.execution_time_ns);
        let explainer = self.explainer.as_mut()?;
        let thread = &self.watched.thread;
        let prio = match self.changes.policy() {
            Policy::Ordinary { nice } => 120 + nice,
            Policy::Deadline => -1,
            policy => 99 - policy.priority().cast_signed(),
        };
        let facts = SpikeFacts {
            tid: thread.tid(),
            cpu: thread.bound_cpu().or(Some(cycle.cpu)),
            prio,
            waits_in: self.own_waits.usual(),
            entered_sleep: cycle.entered_sleep,
            ..SpikeFacts::from_sample(&cycle.sample, 0, work_ns)
        };
        if let Some(explanation) = self.follows.explained(&cycle.sample) {
            return Some(explanation);
        }

        let explanation = if self.left == 0 || Monotonic.now() >= self.explain_until {
            with_inner_waits(facts.not_analysed("too many spikes at once"), cycle)
        } else {
            self.left -= 1;
            explainer.explain(&facts)?
        };
        self.follows.keep(&cycle.sample, &explanation);
        Some(explanation)
    }

    /// Notes what was changed of the thread since the last look.
    fn look_at_thread(&mut self) -> Result<(), WatchError> {
        let t = self.recorder.seconds(Monotonic.now());
        for sentence in self.changes.look(t) {
            self.recorder.remark(sentence)?;
        }
        Ok(())
    }

    fn finish(&mut self, end: Option<(Instant, Option<PendingWait>)>) -> Result<(), WatchError> {
        self.prepare();
        let mut facts = Vec::new();
        let (at, pending) = end.unwrap_or_default();
        let outcome: Outcome = self.builder.finish(at, pending, &mut facts);
        for fact in &facts {
            self.record(fact, 0)?;
        }
        if !self.has_begun {
            return Ok(());
        }

        self.recorder.end_block(&outcome)?;
        if end.is_none() {
            let t = self.recorder.seconds(Monotonic.now());
            let thread = &self.watched.thread;
            self.recorder.remark(format!(
                "{} [{}] ended {t:.1} s after the start",
                thread.name,
                thread.tid()
            ))?;
        }
        Ok(())
    }
}

/// The calls in which a loop was found waiting: most of its waits are those for its releases.
#[derive(Debug, Default)]
struct OwnWaits(BTreeMap<WaitingCall, u32>);

impl OwnWaits {
    /// Calls that are remembered; arguments of some are addresses that differ each time.
    const MOST: usize = 64;
    /// Before the first of many looks: how often, and after how long.
    const FIRST_LOOKS: u32 = 25;
    const FIRST_EVERY: Duration = Duration::from_micros(400);

    /// Looks at once, so that the first spikes know it too.
    fn of(tid: u32) -> Self {
        let mut own = Self::default();
        for _ in 0..Self::FIRST_LOOKS {
            if let Some(waiting) = process::waiting(tid) {
                own.add(waiting.call);
            }
            thread::sleep(Self::FIRST_EVERY);
        }
        own
    }

    fn add(&mut self, call: WaitingCall) {
        if self.0.len() < Self::MOST || self.0.contains_key(&call) {
            *self.0.entry(call).or_default() += 1;
        }
    }

    fn usual(&self) -> Option<WaitingCall> {
        self.0.iter().max_by_key(|(_, times)| **times).map(|(call, _)| *call)
    }
}

/// Cycles whose release had passed when the cycle before ended: what made that one late made them
/// late too, and it is explained once.
#[derive(Debug, Default)]
struct LateByTheOneBefore {
    /// The number of the latest spike, and its main cause.
    before: Option<(u64, Cause)>,
}

impl LateByTheOneBefore {
    fn explained(&mut self, sample: &Sample) -> Option<Explanation> {
        let (index, cause) = self.before.as_mut()?;
        let follows = *index + 1 + sample.skipped == sample.index;
        if !follows || !sample.flags.has(Flags::NO_SLEEP) {
            return None;
        }

        *index = sample.index;
        let ns = sample.wakeup_latency_ns;
        let evidence = format!(
            "its release passed during the cycle before, which was late: {}",
            cause.words()
        );
        Some(Explanation::from_causes(vec![Cause { ns, evidence, ..cause.clone() }]))
    }

    fn keep(&mut self, sample: &Sample, explanation: &Explanation) {
        let main = explanation.main().filter(|cause| cause.kind != CauseKind::Unexplained);
        self.before = main.map(|cause| (sample.index, cause.clone()));
    }
}

/// Names the waits inside a cycle that was not analysed: they are known without a look at what else
/// happened on the machine.
fn with_inner_waits(explanation: Explanation, cycle: &Cycle) -> Explanation {
    // One that no thread ended may be the sleep between two cycles, whose timer was not seen.
    let by_threads = || cycle.inner.iter().filter(|it| matches!(it.waker, Some(Waker::Task(_))));
    let waited_ns: u64 = by_threads().map(|inner| inner.to.ns_since(inner.from)).sum();
    let ns = waited_ns.min(explanation.lateness_ns);
    if ns == 0 {
        return explanation;
    }

    let mut causes = explanation.causes;
    if let Some(rest) = causes.first_mut() {
        rest.ns -= ns.min(rest.ns);
    }
    let evidence = format!(
        "left the CPU {} times inside the cycle until a thread woke it",
        by_threads().count()
    );
    let waited = Cause { kind: CauseKind::OwnWait, ns, evidence, culprit: None };
    causes.insert(0, waited);
    causes.retain(|cause| cause.ns > 0);
    Explanation::from_causes(causes)
}

/// Whether a culprit is a thread of this process, which an ordinary loop shares its CPU with.
fn is_of_this_process(culprit: &Culprit) -> bool {
    culprit.tid.is_some_and(|tid| Path::new("/proc/self/task").join(tid.to_string()).exists())
}

/// CPU time of this process, in nanoseconds.
fn own_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycles::InnerWait;

    #[test]
    fn cycles_that_follow_a_late_one_without_a_sleep_have_its_cause() {
        let sample = |index, flags| Sample {
            index,
            wakeup_latency_ns: 5_000_000 - index * 500_000,
            flags,
            ..Sample::default()
        };
        let stop = Cause {
            kind: CauseKind::Stopped,
            ns: 5_000_000,
            evidence: "a signal".to_owned(),
            culprit: None,
        };
        let mut follows = LateByTheOneBefore::default();
        let late = Flags::NO_SLEEP;
        assert_eq!(follows.explained(&sample(1, late)), None, "nothing before it was late");

        follows.keep(&sample(1, Flags::default()), &Explanation::from_causes(vec![stop]));
        for index in [2, 3] {
            let explained = follows.explained(&sample(index, late)).unwrap();
            assert_eq!(explained.main().map(|cause| cause.kind), Some(CauseKind::Stopped));
            assert_eq!(explained.lateness_ns, 5_000_000 - index * 500_000);
        }
        assert_eq!(
            follows.explained(&sample(4, Flags::default())),
            None,
            "it slept before this one"
        );
        assert_eq!(follows.explained(&sample(9, late)), None, "others are between");
    }

    #[test]
    fn a_spike_that_is_not_analysed_keeps_what_is_known_of_it() {
        let at = Instant::from_ns;
        let sample = Sample {
            release: at(0),
            wakeup_latency_ns: 10_000,
            execution_time_ns: 900_000,
            ..Sample::default()
        };
        let waker = Some(Waker::Task(9));
        let inner = vec![InnerWait { from: at(50_000), to: at(750_000), waker }];
        let cycle = Cycle { sample, inner, waker: None, entered_sleep: None, cpu: 0 };
        let facts = SpikeFacts::from_sample(&sample, 0, 100_000);
        let explained = with_inner_waits(facts.not_analysed("too many"), &cycle);
        assert_eq!(explained.lateness_ns, facts.not_analysed("too many").lateness_ns);
        assert_eq!(explained.accounted_ns, 700_000);
        assert_eq!(explained.main().map(|cause| cause.kind), Some(CauseKind::OwnWait));

        let unseen = vec![InnerWait { waker: None, ..cycle.inner[0] }];
        for inner in [Vec::new(), unseen] {
            let unnamed = Cycle { inner, ..cycle.clone() };
            let unknown = with_inner_waits(facts.not_analysed("too many"), &unnamed);
            assert_eq!(unknown.accounted_ns, 0);
        }
    }
}
