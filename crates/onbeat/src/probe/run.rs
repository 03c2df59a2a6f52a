//! One measurement from first to last sample: a prepared thread with the loop, a recorder beside it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use onbeat_rt::cycle::Phase;
use onbeat_rt::ring::Ring;
use onbeat_rt::sys::{Monotonic, Tick, tick};
use onbeat_rt::{Clock, Consumer, End, Flow, Instant, OnOverrun, Outcome, Plan, PlanError, Sample, Slot, Wait, split};

use super::causes::{self, Asking, LoopTid, Witness};
use super::description::{Beside, Body, Parts, ProbeError};
use super::resume::{Onset, OtherRun, differences};
use super::stall::{Rules, StallWatch};
use super::surroundings::{self, Surroundings};
use crate::cause::Cost;
use crate::record::{
    Account, EndReason, Header, Note, Past, Recorder, Recording, Resume, RunWriter, SpikeLimit, Timing, Why, WriteError,
};
use crate::thread::{AheadOfLoad, Grant, LockdownError, LoopPorts, ProcessGrants, ThreadRequest, Usage, stay_off_cpu};

/// How often the recorder empties the ring.
const DRAIN_EVERY: Duration = Duration::from_millis(20);
/// The same until the loop's thread has told its number: its wake-ups are to be recorded from the first on.
const FIRST_LOOKS_EVERY: Duration = Duration::from_millis(1);
/// Between the decision to start and the first release, in nanoseconds: thread start, priority, touched stack.
pub(super) const LEAD_NS: u64 = 30_000_000;
/// What the ring holds, in nanoseconds of cycles: the recorder is an ordinary thread and may wait long under load.
const RING_NS: u64 = 16_000_000_000;

/// A measurement could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No loop should run like that.
    #[error("{}", plan_sentence(.0))]
    Plan(PlanError),
    /// The run file could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The filter could not be installed.
    #[error(transparent)]
    Lockdown(#[from] LockdownError),
    /// What it asks for has no meaning without a grid.
    #[error("{option} has no meaning with --wait relative: {why}; leave one of them out")]
    NoGrid {
        /// As typed.
        option: String,
        /// What a relative sleep lacks.
        why: &'static str,
    },
    /// What the probe needs is not to be had.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// It would go on as another run than it was begun.
    #[error(transparent)]
    OtherRun(#[from] OtherRun),
    /// A thread could not be started.
    #[error("cannot start the loop's thread: {0}; the limit of threads (ulimit -u) may be reached")]
    Thread(std::io::Error),
    /// The loop's thread panicked: a bug.
    #[error("the loop's thread panicked; this is a bug in onbeat, please report it with the command you typed")]
    Panicked,
}

fn plan_sentence(why: &PlanError) -> String {
    let us = |ns: &u64| *ns as f64 / 1000.0;
    match why {
        PlanError::NoPeriod => "the period is 0; a loop needs one, such as --period 1ms".to_owned(),
        PlanError::SpinTooLong { spin_ns, period_ns } => format!(
            "the wait would poll for {} us of a {} us period; some sleep must remain: shorten the spin",
            us(spin_ns),
            us(period_ns)
        ),
        PlanError::TooBusy { work_ns, spin_ns, period_ns } => format!(
            "{} us of work and {} us of polling in a {} us period leave less than a tenth of the CPU; the kernel would \
             stop the loop for 50 ms a second (RT throttling, fair server): lengthen the period or shorten the spin",
            us(work_ns),
            us(spin_ns),
            us(period_ns)
        ),
    }
}

/// How a loop runs; what `onbeat measure timer` takes from its options.
#[derive(Clone, Debug)]
pub struct Setting {
    /// T.
    pub period_ns: u64,
    /// D.
    pub deadline_ns: u64,
    /// Planned work per cycle.
    pub work_ns: u64,
    /// From taking an edge up to the release of its answer, in nanoseconds; 0 for a loop on the grid.
    pub delay_ns: u64,
    /// How to get to a release.
    pub wait: Wait,
    /// What an overrun does.
    pub on_overrun: OnOverrun,
    /// Where the releases lie.
    pub phase: Phase,
    /// What the thread shall have.
    pub thread: ThreadRequest,
    /// Cycles at the start of a block that are in no series.
    pub warmup: u64,
    /// Length of interval histograms, in nanoseconds.
    pub interval_ns: u64,
    /// From when on a sample is a spike.
    pub spike_limit: SpikeLimit,
    /// Find out why spikes were late, with a flight recorder beside the loop.
    pub causes: bool,
    /// Kill the process when the loop asks the kernel for anything unexpected.
    pub lockdown: bool,
}

impl Setting {
    /// Checks what every loop must keep to.
    ///
    /// # Errors
    /// [`RunError::Plan`], [`RunError::NoGrid`].
    pub fn admit(&self) -> Result<(), RunError> {
        if self.wait.is_relative() {
            self.admit_without_a_grid()?;
        }
        onbeat_rt::cycle::admit(self.period_ns, self.wait, self.work_ns).map_err(RunError::Plan)
    }

    fn admit_without_a_grid(&self) -> Result<(), RunError> {
        if let Phase::At(phase_ns) = self.phase {
            let option = format!("--phase {}us", phase_ns as f64 / 1e3);
            return Err(RunError::NoGrid { option, why: "each release follows the end of the cycle before" });
        }

        if self.on_overrun != OnOverrun::SkipKeepPhase {
            let option = format!("--on-overrun {}", overrun_words(self.on_overrun));
            return Err(RunError::NoGrid { option, why: "it passes no release over, however long a cycle takes" });
        }
        Ok(())
    }

    const fn recording(&self) -> Recording {
        Recording {
            period_ns: self.period_ns,
            work_ns: self.work_ns,
            interval_ns: self.interval_ns,
            spike_limit: self.spike_limit,
        }
    }

    pub(crate) fn timing(&self, phase_ns: u64) -> Timing {
        Timing {
            period_ns: self.period_ns,
            phase_ns,
            deadline_ns: self.deadline_ns,
            work_ns: self.work_ns,
            wait: wait_words(self.wait),
            on_overrun: overrun_words(self.on_overrun),
            cpu: self.thread.cpu,
            priority: self.thread.fifo.unwrap_or(0),
            delay_ns: self.delay_ns,
        }
    }
}

/// A wait as people type it.
#[must_use]
pub fn wait_words(wait: Wait) -> String {
    match wait {
        Wait::Sleep => "sleep".to_owned(),
        Wait::SleepThenSpin { margin_ns } => format!("spin={}us", margin_ns as f64 / 1000.0),
        Wait::Adaptive { cap_ns } => format!("adaptive={}us", cap_ns as f64 / 1000.0),
        Wait::Relative { margin_ns: 0 } => "relative".to_owned(),
        Wait::Relative { margin_ns } => format!("relative-spin={}us", margin_ns as f64 / 1000.0),
    }
}

/// An overrun policy as people type it.
#[must_use]
pub fn overrun_words(policy: OnOverrun) -> String {
    match policy {
        OnOverrun::SkipKeepPhase => "skip".to_owned(),
        OnOverrun::CatchUp { at_most } => format!("catch-up={at_most}"),
        OnOverrun::Stop => "stop".to_owned(),
    }
}

/// Signals that reach the process while it measures.
#[derive(Debug, Default)]
pub struct Interruptions {
    /// End the run in good order.
    pub stop: AtomicBool,
    /// Show what the run has come to so far; whoever does takes it back.
    pub summary: AtomicBool,
    /// How often the process was continued after a stop.
    pub continued: AtomicU64,
}

/// One stretch of the loop.
#[derive(Clone, Copy, Debug)]
pub struct BlockPlan<'b> {
    /// Counts from 0.
    pub index: u32,
    /// The load that runs meanwhile, as typed.
    pub load: &'b str,
    /// Releases; `u64::MAX` for no end.
    pub releases: u64,
}

/// Where a run's file goes, and what is known of it beforehand.
#[derive(Clone, Debug)]
pub struct Destination<'d> {
    /// The run file to create.
    pub path: &'d Path,
    /// Its header; timing and grants are filled in.
    pub header: Header,
    /// The instant that stands as 0 in the file, at or before the start; the files of a bench share it.
    pub origin: Instant,
}

/// What a run needs before its file is written to.
struct Prepared {
    /// With timing and grants.
    header: Header,
    tick: Tick,
    phase_ns: u64,
    slots: Vec<Slot<Sample>>,
    process: ProcessGrants,
    witness: Option<Box<dyn Witness>>,
}

impl Prepared {
    fn of(header: Header, setting: &Setting) -> Result<Self, RunError> {
        setting.admit()?;
        let ring_slots = (RING_NS / setting.period_ns).clamp(4096, 65_536).next_power_of_two();
        let slots = (0..ring_slots).map(|_| Slot::empty()).collect();
        let process = setting.thread.prepare_process();
        let in_thread = thread::scope(|threads| {
            let trial = thread::Builder::new().spawn_scoped(threads, || setting.thread.prepare_thread());
            trial.map_err(RunError::Thread)?.join().map_err(|_| RunError::Panicked)
        })?;

        let tick = steady_tick();
        let phase_ns =
            setting.phase.first_release(Monotonic.now(), setting.period_ns, tick).as_ns() % setting.period_ns;
        let (explainer, evidence) = if setting.causes { causes::open(&setting.thread) } else { (None, Vec::new()) };
        let grants =
            header.grants.into_iter().chain(process.grants.iter().cloned()).chain(in_thread).chain(evidence).collect();
        let header = Header { timing: Some(setting.timing(phase_ns)), grants, ..header };
        let witness = explainer.map(|explainer| Box::new(explainer) as Box<dyn Witness>);
        Ok(Self { header, tick, phase_ns, slots, process, witness })
    }
}

/// A measurement under way.
pub struct Run {
    setting: Setting,
    tick: Tick,
    recorder: Recorder,
    slots: Vec<Slot<Sample>>,
    rules: Rules,
    real_time: bool,
    grants: Vec<Grant>,
    usage: Usage,
    witness: Option<Box<dyn Witness>>,
    surroundings: surroundings::Source,
    reason: EndReason,
    _process: ProcessGrants,
}

impl Run {
    /// Prepares the process, finds out what its threads are granted, and creates the run file.
    ///
    /// # Errors
    /// [`RunError`], before anything is measured.
    pub fn open(destination: Destination<'_>, setting: Setting) -> Result<Self, RunError> {
        let Destination { path, header, origin } = destination;
        let prepared = Prepared::of(header, &setting)?;
        let recorder = Recorder::new(RunWriter::create(path, &prepared.header)?, origin, setting.recording());
        Ok(Self::of(setting, prepared, recorder))
    }

    /// The same, for a run that goes on in its file. `header` is what would be its header now.
    ///
    /// # Errors
    /// [`RunError::OtherRun`] when the machine, the timing or what is granted is not what it was.
    pub fn resume(past: Past, header: Header, setting: Setting) -> Result<Self, RunError> {
        let prepared = Prepared::of(header, &setting)?;
        let differences = differences(&past.header, &prepared.header);
        if !differences.is_empty() {
            return Err(OtherRun { path: past.path.display().to_string(), differences }.into());
        }

        let now_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let onset = Onset::of(past.header.started_unix_s, past.last_t, now_unix_s);
        let resume = Resume {
            t: onset.from_ns as f64 / 1e9,
            unmeasured_s: onset.unmeasured_s,
            after: past.ended,
            phase_ns: prepared.phase_ns,
        };

        let mut recorder = Recorder::go_on(past, (Monotonic.now(), onset.from_ns), setting.recording())?;
        recorder.writer().note(&Note::Resume(resume))?;
        if let Some(doubt) = onset.doubt {
            recorder.remark(doubt)?;
        }
        Ok(Self::of(setting, prepared, recorder))
    }

    fn of(setting: Setting, prepared: Prepared, recorder: Recorder) -> Self {
        let Prepared { header, tick, slots, process, witness, .. } = prepared;
        let real_time = header.grants.iter().any(|grant| grant.what == "real-time priority" && grant.granted);
        if let Some(cpu) = setting.thread.cpu {
            stay_off_cpu(cpu);
        }

        Self {
            setting,
            tick,
            recorder,
            slots,
            rules: Rules::of_this_machine(),
            real_time,
            grants: header.grants,
            usage: Usage::default(),
            witness,
            surroundings: surroundings::of_this_machine(),
            reason: EndReason::Complete,
            _process: process,
        }
    }

    /// What was asked of the system, and what was granted.
    #[must_use]
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// The recorder, for notes of others and for what the run has come to.
    pub const fn recorder(&mut self) -> &mut Recorder {
        &mut self.recorder
    }

    /// Asks `witness` about spikes from now on, instead of a flight recorder of this run's own.
    pub fn ask(&mut self, witness: Box<dyn Witness>) {
        self.witness = Some(witness);
    }

    /// Takes the surroundings from `source` from now on, instead of this machine's.
    pub fn surround(&mut self, source: surroundings::Source) {
        self.surroundings = source;
    }

    /// Runs a probe for one block, with what goes on beside its loop. `watch` is called about every 20 ms on the caller's
    /// thread.
    ///
    /// # Errors
    /// As [`Run::block`].
    pub fn probe(
        &mut self,
        block: &BlockPlan<'_>,
        parts: Parts,
        interruptions: &Interruptions,
        watch: &mut dyn FnMut(&mut Recorder),
    ) -> Result<Outcome, RunError> {
        let Parts { body, figures, beside } = parts;
        self.recorder.count_also(figures);
        self.probe_again(block, (body, beside), interruptions, watch)
    }

    /// Runs the same probe for a further block, prepared again; its figures go on with what they have seen so far.
    ///
    /// # Errors
    /// As [`Run::block`].
    pub fn probe_again(
        &mut self,
        block: &BlockPlan<'_>,
        (mut body, mut beside): (Box<dyn Body>, Box<dyn Beside>),
        interruptions: &Interruptions,
        watch: &mut dyn FnMut(&mut Recorder),
    ) -> Result<Outcome, RunError> {
        beside.start()?;
        let mut is_over = false;
        let ran = self.block(block, body.as_mut(), interruptions, &mut |recorder| {
            if beside.look(recorder) == Flow::Stop {
                is_over = true;
                interruptions.stop.store(true, Ordering::Relaxed);
            }
            watch(recorder);
        });

        if is_over {
            // It was not asked to end, it had done all it was to do.
            interruptions.stop.store(false, Ordering::Relaxed);
            self.reason = EndReason::Complete;
        }

        beside.rest(&mut self.recorder);
        for sentence in beside.end() {
            self.recorder.remark(sentence)?;
        }
        ran
    }

    /// Says in the closing line that somebody asked the run to end: it has blocks to come that it will not do.
    pub const fn is_ended_early(&mut self) {
        self.reason = EndReason::Asked;
    }

    /// Runs `body` for one block. `watch` is called about every 20 ms on the caller's thread.
    ///
    /// # Errors
    /// [`RunError`]; when the run file cannot be written any more, the loop is stopped first.
    pub fn block(
        &mut self,
        block: &BlockPlan<'_>,
        body: &mut dyn Body,
        interruptions: &Interruptions,
        watch: &mut dyn FnMut(&mut Recorder),
    ) -> Result<Outcome, RunError> {
        let setting = &self.setting;
        let loop_tid = LoopTid::default();
        let _ahead = self.witness.as_ref().map(|_| AheadOfLoad::take(&setting.thread).0);
        let asking = Asking::of(self.witness.as_deref_mut(), &loop_tid, setting);
        let earliest = Monotonic.now().plus_ns(LEAD_NS);
        let first_release = setting.phase.first_release(earliest, setting.period_ns, self.tick);
        self.recorder.begin_block(block.index, first_release, block.load, setting.warmup)?;
        let plan = plan(setting, first_release, block.releases);
        let mut ring = ring(&mut self.slots);
        let (mut hot, cold) = split(&mut ring);
        let work_ns = setting.work_ns;
        let mut drain = Drain {
            cold,
            recorder: &mut self.recorder,
            held: None,
            surroundings: Surroundings::watch(&mut self.surroundings),
            stalls: StallWatch::new(self.rules, self.real_time, work_ns),
            asking,
            interruptions,
        };

        let (outcome, usage) = thread::scope(|threads| {
            let in_thread = || {
                loop_tid.tell();
                in_loop_thread(setting, &plan, body, &mut hot, &interruptions.stop)
            };

            let body = thread::Builder::new().name("onbeat-loop".to_owned()).spawn_scoped(threads, in_thread);
            let body = body.map_err(RunError::Thread)?;
            let drained = drain.until(|| body.is_finished(), watch);
            interruptions.stop.fetch_or(drained.is_err(), Ordering::Relaxed);
            let ended = body.join().map_err(|_| RunError::Panicked)??;
            drained?;
            Ok::<_, RunError>(ended)
        })?;

        drain.all()?;
        self.recorder.end_block(&outcome)?;
        self.usage = self.usage.plus(usage);
        self.reason = reason(outcome.end);
        Ok(outcome)
    }

    /// Writes the closing line.
    ///
    /// # Errors
    /// [`RunError::Write`].
    pub fn close(self) -> Result<Account, RunError> {
        let cost = self.witness.as_ref().map_or_else(Cost::default, |witness| witness.cost());
        let closing = Account {
            t: self.recorder.seconds(Monotonic.now()),
            reason: self.reason,
            page_faults: self.usage.page_faults,
            involuntary_switches: self.usage.involuntary_switches,
            cpu_ns: self.usage.cpu_ns,
            causes_cpu_ns: cost.cpu_ns,
            causes_explained: cost.explained,
            causes_incomplete: cost.incomplete,
            causes_slowest_ns: cost.slowest_ns,
            causes_bytes: cost.bytes_held,
            ..Account::default()
        };
        Ok(self.recorder.close(&closing)?)
    }
}

#[allow(clippy::expect_used)] // The number of slots was made a power of two in `Run::open`.
pub(super) fn ring(slots: &mut [Slot<Sample>]) -> Ring<'_, Sample> {
    Ring::over(slots).expect("a power of two")
}

pub(super) const fn plan(setting: &Setting, first_release: Instant, releases: u64) -> Plan {
    Plan {
        period_ns: setting.period_ns,
        first_release,
        deadline_ns: setting.deadline_ns,
        releases,
        wait: setting.wait,
        on_overrun: setting.on_overrun,
    }
}

pub(super) fn in_loop_thread(
    setting: &Setting,
    plan: &Plan,
    body: &mut dyn Body,
    hot: &mut onbeat_rt::Producer<'_, Sample>,
    stop: &AtomicBool,
) -> Result<(Outcome, Usage), RunError> {
    // What was granted is known since `Run::open`; the same answers come again.
    let _ = setting.thread.prepare_thread();
    // The first reading may ask the kernel for the vDSO's place; then never again.
    let _ = Monotonic.now();
    if setting.lockdown {
        crate::thread::lockdown(if body.has_ports() { LoopPorts::Open } else { LoopPorts::None })?;
    }

    let before = Usage::of_this_thread();
    let outcome = body.run(plan, hot, stop);
    Ok((outcome, Usage::of_this_thread().since(before)))
}

const fn reason(end: End) -> EndReason {
    match end {
        End::Complete => EndReason::Complete,
        End::Asked => EndReason::Asked,
        End::Task => EndReason::Task,
        End::Overrun => EndReason::Overrun,
    }
}

/// The tick's place, from the earliest of several: each is late by one interrupt's latency.
pub(super) fn steady_tick() -> Tick {
    let first = tick();
    let half = first.every_ns / 2;
    // Distances from the first reading, turned around the grid so that early ones come before late ones.
    let turned = |offset_ns: u64| (offset_ns + first.every_ns + half - first.offset_ns) % first.every_ns;
    let readings = (0..8).map(|_| {
        thread::sleep(Duration::from_nanos(first.every_ns));
        tick()
    });

    readings.min_by_key(|reading| turned(reading.offset_ns)).unwrap_or(first)
}

/// The cold side of a block: ring to recorder.
struct Drain<'d> {
    cold: Consumer<'d, Sample>,
    /// A sample that is not settled yet: it ended after the last look around.
    held: Option<Sample>,
    recorder: &'d mut Recorder,
    surroundings: Surroundings<'d>,
    stalls: StallWatch,
    asking: Asking<'d>,
    interruptions: &'d Interruptions,
}

impl Drain<'_> {
    fn until(&mut self, finished: impl Fn() -> bool, watch: &mut dyn FnMut(&mut Recorder)) -> Result<(), RunError> {
        while !finished() {
            thread::sleep(if self.asking.knows_the_loop() { DRAIN_EVERY } else { FIRST_LOOKS_EVERY });
            let settled = self.look_around();
            self.up_to(settled)?;
            watch(self.recorder);
        }
        Ok(())
    }

    /// What is left when the loop has ended.
    fn all(&mut self) -> Result<(), RunError> {
        self.look_around();
        self.up_to(Instant::from_ns(u64::MAX))
    }

    /// What changed since the last look touches cycles that ended after it; those have waited for this look.
    fn look_around(&mut self) -> Instant {
        let (settled, changes) = self.surroundings.look();
        changes.into_iter().for_each(|change| self.recorder.exclude(change));
        settled
    }

    fn up_to(&mut self, settled: Instant) -> Result<(), RunError> {
        self.asking.keep_watch();
        while let Some(sample) = self.held.take().or_else(|| self.cold.pop()) {
            if sample.release.plus_ns(sample.response_time_ns()) > settled {
                self.held = Some(sample);
                break;
            }

            let stops = self.interruptions.continued.load(Ordering::Relaxed);
            let stall = self.stalls.judge(&sample, stops);
            let explanation = if self.recorder.is_spike(&sample) { self.asking.explain(&sample) } else { None };
            let window =
                if explanation.is_some() && self.recorder.wants_window(&sample) { self.asking.window() } else { None };
            self.recorder.sample_with(&sample, Why { stall, explanation, window })?;
        }
        Ok(())
    }
}
