//! One measurement from first to last sample: a prepared thread with the loop, and a recorder
//! beside it.
//!
//! [`Run::open`] prepares the process and creates the run file, [`Run::begin`] starts a probe on
//! it, [`ProbeRun::block`] runs the loop, [`ProbeRun::end`] ends the probe, [`Run::close`] writes
//! the closing line. A measurement has one block, a cell of a bench many.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use onbeat_rt::ring::Ring;
use onbeat_rt::sys::{Monotonic, Tick};
use onbeat_rt::{Clock, End, Flow, Instant, Outcome, Plan, Sample, Slot, split};

use super::causes::{self, Asking, LoopTid, SpikeExplainer};
use super::companion::Companion;
use super::description::{Body, Parts};
use super::drain::Drain;
use super::error::RunError;
use super::interruptions::Interruptions;
use super::resume::{OtherRun, ResumePoint};
use super::setting::Setting;
use super::stall::{Rules, StallWatch};
use super::start::{LEAD_NS, steady_tick};
use super::surroundings::{self, Surroundings};
use onbeat_cause::Cost;
use onbeat_host::idle::{PowerReading, cpus_of_loop};
use onbeat_host::thread::{
    AheadOfLoad, Grant, LoopPorts, Privilege, ProcessGrants, Usage, stay_off_cpu,
};
use onbeat_record::{
    Account, DroppedBlock, EndReason, Header, NoFigures, Note, Past, PowerNote, Recorder, Resume,
    RunWriter,
};

/// What the ring holds, in nanoseconds of cycles: the recorder is an ordinary thread and may wait
/// long under load.
const RING_NS: u64 = 16_000_000_000;
/// At most one in so many releases of a block warms up.
const WARMUP_ONE_OF: u64 = 10;

/// One uninterrupted part of a run.
#[derive(Clone, Copy, Debug)]
pub struct BlockPlan<'b> {
    /// Index within the run, from 0.
    pub index: u32,
    /// The load that runs at the same time, as typed.
    pub load: &'b str,
    /// Number of releases; `u64::MAX` for no end.
    pub releases: u64,
}

/// The file of a run, and what is known of the run before it starts.
#[derive(Clone, Debug)]
pub struct Destination<'d> {
    /// The run file to create.
    pub path: &'d Path,
    /// Its header; [`Run::open`] adds timing and grants.
    pub header: Header,
    /// The instant that is 0 in the file, at or before the start; the files of a bench share it.
    pub origin: Instant,
}

/// A prepared process, before the run file is written.
struct PreparedRun {
    /// With timing and grants.
    header: Header,
    tick: Tick,
    phase_ns: u64,
    slots: Vec<Slot<Sample>>,
    process: ProcessGrants,
    explainer: Option<Box<dyn SpikeExplainer>>,
}

impl PreparedRun {
    fn new(header: Header, setting: &Setting) -> Result<Self, RunError> {
        setting.admit()?;
        let ring_slots = (RING_NS / setting.period_ns).clamp(4096, 65_536).next_power_of_two();
        let slots = (0..ring_slots).map(|_| Slot::empty()).collect();
        let process = setting.thread.prepare_process();
        let in_thread = thread::scope(|threads| {
            let trial =
                thread::Builder::new().spawn_scoped(threads, || setting.thread.prepare_thread());
            trial.map_err(RunError::Thread)?.join().map_err(|_| RunError::Panicked)
        })?;

        let tick = steady_tick();
        let phase_ns =
            setting.phase.first_release(Monotonic.now(), setting.period_ns, tick).as_ns()
                % setting.period_ns;
        let (explainer, evidence) = causes::open(setting);
        let grants = header
            .grants
            .into_iter()
            .chain(process.grants.iter().cloned())
            .chain(in_thread)
            .chain(evidence)
            .collect();
        let header = Header { timing: Some(setting.timing(phase_ns)), grants, ..header };
        let explainer = explainer.map(|explainer| Box::new(explainer) as Box<dyn SpikeExplainer>);
        Ok(Self { header, tick, phase_ns, slots, process, explainer })
    }
}

/// A measurement in progress, and its run file.
///
/// ```no_run
/// use std::path::Path;
///
/// use onbeat::probe::{self, BlockPlan, Destination, Given, Interruptions, Run, Setting, timer::TIMER};
/// use onbeat_rt::{Clock, sys::Monotonic};
///
/// let mut setting = Setting::new(1_000_000);
/// let mut parts = (TIMER.open)(&mut setting, &Given::default())?;
/// let header = probe::header(&["my-program".into()], TIMER.name, TIMER.series, 0.0);
/// let path = Path::new("timer.onbeat.hlog");
///
/// let mut run = Run::open(Destination { path, header, origin: Monotonic.now() }, setting)?;
/// let mut probe = run.begin(&mut parts)?;
/// let block = BlockPlan { index: 0, load: "idle", releases: 10_000 };
/// probe.block(&block, &Interruptions::default(), &mut |_| {})?;
/// probe.end()?;
/// assert_eq!(run.close()?.slots, 10_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Run {
    setting: Setting,
    tick: Tick,
    recorder: Recorder,
    slots: Vec<Slot<Sample>>,
    rules: Rules,
    real_time: bool,
    grants: Vec<Grant>,
    usage: Usage,
    explainer: Option<Box<dyn SpikeExplainer>>,
    surroundings: surroundings::Source,
    reason: EndReason,
    /// Whether the figures of its probe are counted.
    has_figures: bool,
    _process: ProcessGrants,
}

impl Run {
    /// Prepares the process, checks what its threads are granted, and creates the run file.
    ///
    /// # Errors
    /// [`RunError`], before anything is measured.
    pub fn open(destination: Destination<'_>, setting: Setting) -> Result<Self, RunError> {
        Self::open_with(destination, setting, None)
    }

    /// The same with another explainer than that of `setting`.
    pub(crate) fn open_with(
        destination: Destination<'_>,
        setting: Setting,
        explainer: Option<Box<dyn SpikeExplainer>>,
    ) -> Result<Self, RunError> {
        let Destination { path, header, origin } = destination;
        let mut prepared = PreparedRun::new(header, &setting)?;
        prepared.explainer = explainer.or(prepared.explainer);
        let recorder =
            Recorder::new(RunWriter::create(path, &prepared.header)?, origin, setting.recording());
        Self::new(setting, prepared, recorder)
    }

    /// Resumes a run in its file. `header` is the header that a new run would have now.
    ///
    /// # Errors
    /// [`RunError::OtherRun`] when the machine, the timing or the grants differ from those of the
    /// file.
    pub fn resume(past: Past, header: Header, setting: Setting) -> Result<Self, RunError> {
        let point = |past: &Past| ResumePoint::now(past.header.started_unix_s, past.last_t);
        Self::resume_prepared(past, PreparedRun::new(header, &setting)?, setting, point)
    }

    /// Resumes a run in its file at a given point; the files of a bench share it.
    ///
    /// # Errors
    /// As [`Run::resume`].
    pub fn resume_at(
        past: Past,
        header: Header,
        setting: Setting,
        point: ResumePoint,
    ) -> Result<Self, RunError> {
        Self::resume_prepared(past, PreparedRun::new(header, &setting)?, setting, |_| point)
    }

    fn resume_prepared(
        past: Past,
        prepared: PreparedRun,
        setting: Setting,
        point: impl FnOnce(&Past) -> ResumePoint,
    ) -> Result<Self, RunError> {
        OtherRun::check(&past, &prepared.header)?;
        let ResumePoint { at_ns, time } = point(&past);
        let resume = Resume { phase_ns: prepared.phase_ns, ..time.note(past.ended) };
        let dropped = past.dropped;
        let mut recorder =
            Recorder::go_on(past, (Instant::from_ns(at_ns), time.from_ns), setting.recording())?;
        recorder.writer().note(&Note::Resume(resume))?;
        if let Some(DroppedBlock { index, slots }) = dropped {
            recorder.remark(format!(
                "block {index} was not complete when the bench was interrupted: its {slots} recorded releases were dropped, \
                 and it was measured again"
            ))?;
        }
        if let Some(doubt) = time.doubt {
            recorder.remark(doubt)?;
        }
        Self::new(setting, prepared, recorder)
    }

    fn new(setting: Setting, prepared: PreparedRun, recorder: Recorder) -> Result<Self, RunError> {
        let PreparedRun { header, tick, slots, process, explainer, .. } = prepared;
        let (mut setting, mut recorder) = (setting, recorder);
        recorder.watch(&setting.watches(header.limit));
        split_where_possible(&mut setting, explainer.as_deref(), &mut recorder)?;
        let real_time = header
            .grants
            .iter()
            .any(|grant| grant.privilege() == Some(Privilege::RealTimePriority) && grant.granted);
        if let Some(cpu) = setting.thread.cpu {
            stay_off_cpu(cpu);
        }

        Ok(Self {
            setting,
            tick,
            recorder,
            slots,
            rules: Rules::of_this_machine(),
            real_time,
            grants: header.grants,
            usage: Usage::default(),
            explainer,
            surroundings: surroundings::of_this_machine(),
            reason: EndReason::Complete,
            has_figures: false,
            _process: process,
        })
    }

    /// Returns what was requested of the system, and whether it was granted.
    #[must_use]
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// Returns the recorder, for further notes and for the results so far.
    pub const fn recorder(&mut self) -> &mut Recorder {
        &mut self.recorder
    }

    /// Returns the recorder and what explains spikes, for blocks that are measured without a loop of
    /// this process.
    pub fn recording(&mut self) -> (&mut Recorder, Option<&mut (dyn SpikeExplainer + 'static)>) {
        (&mut self.recorder, self.explainer.as_deref_mut())
    }

    /// Adds what the loop of such a block used, for the closing line.
    pub const fn add_usage(&mut self, usage: Usage) {
        self.usage = self.usage.plus(usage);
    }

    /// Has `explainer` explain spikes from now on, and returns what has explained them so far.
    pub fn explain_by(
        &mut self,
        explainer: Option<Box<dyn SpikeExplainer>>,
    ) -> Option<Box<dyn SpikeExplainer>> {
        std::mem::replace(&mut self.explainer, explainer)
    }

    /// Reads the surroundings from `source` from now on, instead of this machine's.
    pub fn surround(&mut self, source: surroundings::Source) {
        self.surroundings = source;
    }

    /// Starts a probe on this run: its companion starts, and its figures are counted from here on.
    ///
    /// A probe that is opened again for a later block of the same run continues with the figures of
    /// the first one.
    ///
    /// # Errors
    /// [`RunError::Probe`] when the companion cannot start.
    pub fn begin<'r>(&'r mut self, parts: &'r mut Parts) -> Result<ProbeRun<'r>, RunError> {
        let figures = std::mem::replace(&mut parts.figures, Box::new(NoFigures));
        if !std::mem::replace(&mut self.has_figures, true) {
            self.recorder.count_also(figures);
        }

        parts.companion.start()?;
        Ok(ProbeRun {
            run: self,
            body: parts.body.as_mut(),
            companion: Some(parts.companion.as_mut()),
        })
    }

    /// Starts a loop on this run that has neither a companion nor figures of its own.
    pub fn begin_body<'r>(&'r mut self, body: &'r mut dyn Body) -> ProbeRun<'r> {
        ProbeRun { run: self, body, companion: None }
    }

    /// Begins a probe, runs one block, and ends the probe. `watch` is called about every 20 ms on
    /// the caller's thread, and once when the block has ended.
    ///
    /// # Errors
    /// As [`Run::begin`], [`ProbeRun::block`] and [`ProbeRun::end`].
    pub fn single_block(
        &mut self,
        block: &BlockPlan<'_>,
        parts: &mut Parts,
        interruptions: &Interruptions,
        watch: &mut dyn FnMut(&mut Recorder),
    ) -> Result<Outcome, RunError> {
        let mut probe = self.begin(parts)?;
        let ran = probe.block(block, interruptions, watch);
        let ended = probe.end();

        ran.and_then(|outcome| ended.map(|()| outcome))
    }

    /// Marks the run as ended on request in its closing line: blocks that were planned will not
    /// run.
    pub const fn mark_ended_early(&mut self) {
        self.reason = EndReason::Asked;
    }

    fn run_block(
        &mut self,
        block: &BlockPlan<'_>,
        body: &mut dyn Body,
        interruptions: &Interruptions,
        watch: &mut dyn FnMut(&mut Recorder),
    ) -> Result<Outcome, RunError> {
        let setting = &self.setting;
        let loop_tid = LoopTid::default();
        let _ahead = self.explainer.as_ref().map(|_| AheadOfLoad::take(&setting.thread).0);
        let asking = Asking::new(self.explainer.as_deref_mut(), &loop_tid, setting);
        let earliest = Monotonic.now().plus_ns(LEAD_NS + body.lead_in_ns());
        let first_release = setting.phase.first_release(earliest, setting.period_ns, self.tick);
        self.recorder.plan_block(block.releases);
        // Of a short block of a slow loop most would warm up, and only its late releases would count.
        let warmup = setting.warmup.min(block.releases / WARMUP_ONE_OF);
        self.recorder.begin_block(block.index, first_release, block.load, warmup)?;
        let plan = plan(setting, first_release, block.releases);
        let mut ring = ring(&mut self.slots);
        let (mut hot, cold) = split(&mut ring);
        let work_ns = setting.work_ns;
        let loop_cpus = cpus_of_loop(setting.thread.cpu);
        let rested = PowerReading::now(&loop_cpus);
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
                loop_tid.publish();
                in_loop_thread(setting, &plan, body, &mut hot, &interruptions.stop)
            };

            let body = thread::Builder::new()
                .name("onbeat-loop".to_owned())
                .spawn_scoped(threads, in_thread);
            let body = body.map_err(RunError::Thread)?;
            let drained = drain.until(|| body.is_finished(), watch);
            interruptions.stop.fetch_or(drained.is_err(), Ordering::Relaxed);
            let ended = body.join().map_err(|_| RunError::Panicked)??;
            drained?;
            Ok::<_, RunError>(ended)
        })?;

        drain.all()?;
        self.recorder.end_block(&outcome)?;
        let used = rested.until(&PowerReading::now(&loop_cpus));
        let t = self.recorder.seconds(Monotonic.now());
        let note = Note::Power(Box::new(PowerNote { t, block: block.index, used }));
        self.recorder.writer().note(&note)?;
        self.usage = self.usage.plus(usage);
        self.reason = reason(outcome.end);
        Ok(outcome)
    }

    /// Writes the closing line.
    ///
    /// # Errors
    /// [`RunError::Write`].
    pub fn close(self) -> Result<Account, RunError> {
        let cost = self.explainer.as_ref().map_or_else(Cost::default, |explainer| explainer.cost());
        let closing = Account {
            t: self.recorder.seconds(Monotonic.now()),
            reason: self.reason,
            page_faults: self.usage.page_faults,
            involuntary_switches: self.usage.involuntary_switches,
            cpu_ns: self.usage.cpu_ns,
            ..of_cost(&cost)
        };
        Ok(self.recorder.close(&closing)?)
    }
}

/// Has the parts of wake-ups counted where `setting` asks for it; where they cannot be, the file
/// says why, and the setting asks no more.
fn split_where_possible(
    setting: &mut Setting,
    explainer: Option<&(dyn SpikeExplainer + 'static)>,
    recorder: &mut Recorder,
) -> Result<(), RunError> {
    let refusal = causes::refusal_of_split(setting, explainer);
    setting.split &= refusal.is_none();
    if let Some(sentence) = refusal {
        recorder.remark(sentence)?;
    }
    if setting.split {
        recorder.split_wake_ups();
    }
    Ok(())
}

/// Returns the account of what explanations have cost.
#[must_use]
pub fn of_cost(cost: &Cost) -> Account {
    Account {
        causes_cpu_ns: cost.cpu_ns,
        causes_explained: cost.explained,
        causes_incomplete: cost.incomplete,
        causes_slowest_ns: cost.slowest_ns,
        causes_bytes: cost.bytes_held,
        ..Account::default()
    }
}

/// A probe on a [`Run`], from [`Run::begin`] to [`ProbeRun::end`].
#[must_use = "`end` records the closing facts of the probe"]
pub struct ProbeRun<'r> {
    run: &'r mut Run,
    body: &'r mut dyn Body,
    companion: Option<&'r mut dyn Companion>,
}

impl ProbeRun<'_> {
    /// Returns the recorder of the run.
    pub const fn recorder(&mut self) -> &mut Recorder {
        &mut self.run.recorder
    }

    /// Runs the loop for one block, with its companion. `watch` is called about every 20 ms on the
    /// caller's thread, and once when the block has ended.
    ///
    /// # Errors
    /// [`RunError`]; when the run file cannot be written any more, the loop is stopped first.
    pub fn block(
        &mut self,
        block: &BlockPlan<'_>,
        interruptions: &Interruptions,
        watch: &mut dyn FnMut(&mut Recorder),
    ) -> Result<Outcome, RunError> {
        let Self { run, body, companion } = self;
        let mut is_stopped_by_companion = false;
        let ran = run.run_block(block, &mut **body, interruptions, &mut |recorder| {
            if let Some(companion) = companion
                && companion.look(recorder) == Flow::Stop
                && !interruptions.stop.swap(true, Ordering::Relaxed)
            {
                is_stopped_by_companion = true;
            }
            watch(recorder);
        });

        if is_stopped_by_companion {
            // The probe was complete; no signal asked it to end.
            interruptions.stop.store(false, Ordering::Relaxed);
            run.reason = EndReason::Complete;
        }

        if let Some(companion) = companion {
            companion.after_block(&mut run.recorder);
        }

        // What the loop did since the last look, all of it where this thread had no CPU.
        if ran.is_ok() {
            watch(&mut run.recorder);
        }
        ran
    }

    /// Ends the companion, and writes its remarks to the run file.
    ///
    /// # Errors
    /// [`RunError::Write`].
    pub fn end(self) -> Result<(), RunError> {
        let remarks = self.companion.map(Companion::end).unwrap_or_default();
        for remark in remarks {
            self.run.recorder.remark(remark)?;
        }
        Ok(())
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
    // `Run::open` has recorded the grants; the kernel answers the same again.
    let _ = setting.thread.prepare_thread();
    // The first reading may ask the kernel for the vDSO's place; then never again.
    let _ = Monotonic.now();
    if setting.lockdown {
        onbeat_host::thread::lockdown(if body.has_ports() {
            LoopPorts::Open
        } else {
            LoopPorts::None
        })?;
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
