//! `onbeat measure`: one probe, one run.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use onbeat::load::{Load, Running};
use onbeat::probe::description::Parts;
use onbeat::probe::{self, BlockPlan, Destination, Interruptions, Run, RunError, Setting};
use onbeat::record::{Account, Header, LoadEvent, Note, Past, Recorder};
use onbeat::report::units::{Letters, time_ns};
use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::seconds::Lines;
use super::so_far::SoFar;
use super::{
    Failure, ThreadChoice, Verdict, check_cpu, limit, repair_first, resume, runs, setting, show, sweep, typed, verdict,
};
use crate::cli::LoopOptions;
use crate::cli_measure::Measure;
use crate::signals::{self, OnUsr1};
use crate::term::{Progress, Tone, advise};

pub(crate) fn run(measure: &Measure) -> Result<Verdict, Failure> {
    let Measure { probe, options, .. } = measure;
    check_cpu(options.cpu)?;
    resume::admit(options)?;
    let mut life = options.beside.map(Life::of).transpose()?;
    repair_first()?;
    let on_usr1 = if options.load_sweep.is_some() { OnUsr1::Refuse } else { OnUsr1::Summary };
    let interruptions = signals::watch(on_usr1)?;
    if let Some(steps) = &options.load_sweep {
        return sweep::run(measure, steps, &interruptions);
    }
    // Whatever cannot be run leaves no directory behind.
    let ready = made_ready(measure, options.duration)?;
    let mut lines = Lines::of(probe, &ready.0, options.output.json);
    let all = releases(options.duration, &options.looping);
    let past = if options.resume { resume::find(&options.output.out, probe.name, all)? } else { None };
    let path = match &past {
        Some(past) => past.path.clone(),
        None => runs::create(&options.output.out)?.join(format!("{}{}", probe.name, runs::RUN_FILE)),
    };
    let measured_ns = past.as_ref().map_or(0, |past| past.account.slots * options.looping.period);
    let progress = Progress::new(options.duration.saturating_sub(measured_ns) as f64 / 1e9, options.output.json);
    let (duration_ns, settling, zero) = (options.duration, Duration::ZERO, Zero::now());
    let one = One { measure, load: &options.load, duration_ns, path: &path, settling, zero };
    let mut summary = SoFar::of(path.clone(), &interruptions.summary);
    let ran = one.run(ready, past, &interruptions, &mut |recorder, elapsed_s| {
        progress.above_if(&lines.since(recorder));
        if !summary.look(recorder) {
            progress.show(elapsed_s, so_far(recorder));
        }
        if life.as_mut().is_some_and(Life::is_over) {
            interruptions.stop.store(true, Ordering::Relaxed);
        }
    });
    progress.finish();
    summary.end();
    ran?;
    let kept = runs::read(&path, None)?;
    let extent = show::Extent { json: options.output.json, ..show::Extent::default() };
    show::summary(&kept, extent, None)?;
    Ok(verdict(kept.summary.verdict.outcome))
}

/// A probe's setting and parts, as asked for.
pub(crate) fn made_ready(measure: &Measure, duration_ns: u64) -> Result<(Setting, Parts), Failure> {
    let Measure { probe, options, given } = measure;
    let thread = ThreadChoice {
        cpu: options.cpu,
        priority: options.priority,
        lock_memory: !options.no_lock_memory,
        wait: options.wait,
        causes: !options.no_causes,
    };
    let duration_ns = if duration_ns == 0 { u64::MAX } else { duration_ns };
    let mut setting = setting(&options.looping, thread, duration_ns);
    setting.admit()?;
    let parts = (probe.open)(&mut setting, given).map_err(RunError::from)?;
    Ok((setting, parts))
}

/// One run of a probe under one load, into one file.
pub(crate) struct One<'m> {
    pub(crate) measure: &'m Measure,
    pub(crate) load: &'m Load,
    /// 0 for no end.
    pub(crate) duration_ns: u64,
    pub(crate) path: &'m Path,
    /// From the load's start to the loop's.
    pub(crate) settling: Duration,
    /// The instant that stands as 0 in the file.
    pub(crate) zero: Zero,
}

/// An instant by both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zero {
    pub(crate) at: Instant,
    /// Seconds since 1970.
    pub(crate) unix_s: f64,
}

impl Zero {
    pub(crate) fn now() -> Self {
        let unix_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        Self { at: Monotonic.now(), unix_s }
    }
}

impl One<'_> {
    /// Measures. `watch` is called every 20 ms with the seconds since the start. What was granted stands in the header that is
    /// handed back. With a past the run goes on in its file, for the releases that are left.
    pub(crate) fn run(
        &self,
        (setting, parts): (Setting, Parts),
        past: Option<Past>,
        interruptions: &Interruptions,
        watch: &mut dyn FnMut(&mut Recorder, f64),
    ) -> Result<Header, Failure> {
        let Measure { probe, options, .. } = self.measure;
        let began = Monotonic.now();
        let mut load = Beside::start(self.load)?;
        thread::sleep(self.settling);
        let origin = self.zero.at;
        let mut header = probe::header(&typed(), probe.name, self.zero.unix_s);
        header.limit = limit(&options.limit, probe.series[0]);
        let told = header.clone();
        let all = releases(self.duration_ns, &options.looping);
        let (index, left) = past.as_ref().map_or((0, all), |past| (past.next_block, resume::left(past, all)));
        let mut run = match past {
            Some(past) => {
                let words = resume::words(&past);
                let run = Run::resume(past, header, setting)?;
                advise(Tone::Careful, &words);
                runs::take_up(&options.output.out, self.path)?;
                run
            }
            None => Run::open(Destination { path: self.path, header, origin }, setting)?,
        };
        let header = Header { grants: run.grants().to_vec(), ..told };
        if probe.line_a_second {
            run.recorder().keep_seconds();
        }
        let name = self.load.to_string();
        let block = BlockPlan { index, load: &name, releases: left };
        let ran = run.probe(&block, parts, interruptions, &mut |recorder| {
            load.write_down(recorder);
            watch(recorder, Monotonic.now().ns_since(began) as f64 / 1e9);
        });
        load.stop(run.recorder());
        ran?;
        let _: Account = run.close()?;
        Ok(header)
    }
}

/// How many releases a duration holds; no end when it is 0.
fn releases(duration_ns: u64, options: &LoopOptions) -> u64 {
    match duration_ns.checked_div(options.period) {
        Some(0) if duration_ns == 0 => u64::MAX,
        Some(releases) => releases.max(1),
        None => 0,
    }
}

pub(crate) fn so_far(recorder: &Recorder) -> String {
    let letters = if crate::term::unicode() { Letters::Unicode } else { Letters::Ascii };
    let so_far = recorder.progress();
    format!(
        "worst {}  misses {}  skipped {}  spikes {}",
        time_ns(so_far.worst_ns, letters),
        so_far.deadline_misses,
        so_far.skipped,
        so_far.spikes
    )
}

/// A process that a measurement ends with.
struct Life(OwnedFd);

impl Life {
    fn of(pid: i32) -> Result<Self, Failure> {
        let known = Pid::from_raw(pid).ok_or(rustix::io::Errno::SRCH);
        let opened = known.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
        opened.map(Self).map_err(|source| Failure::NoProcess { pid, source: source.into() })
    }

    /// Whether it has ended. A descriptor of a process is readable from then on.
    fn is_over(&mut self) -> bool {
        let mut asked = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut asked, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }
}

/// A load that runs beside a measurement.
struct Beside {
    load: Load,
    running: Option<Running>,
}

impl Beside {
    fn start(load: &Load) -> Result<Self, Failure> {
        if load.is_idle() {
            return Ok(Self { load: load.clone(), running: None });
        }
        let running = Running::start(carrier(load)?).map_err(|source| Failure::Load { load: load.clone(), source })?;
        Ok(Self { load: load.clone(), running: Some(running) })
    }

    /// What happened to the load stands in the run file. A file that cannot be written ends the run by itself.
    fn write_down(&mut self, recorder: &mut Recorder) {
        let Some(running) = &mut self.running else { return };
        for event in running.events() {
            let t = recorder.seconds(Monotonic.now());
            let note =
                LoadEvent { t, load: event.load.clone(), event: event.word().to_owned(), detail: event.to_string() };
            if event.matters() {
                advise(Tone::Careful, &note.detail);
            }
            let _ = recorder.writer().note(&Note::Load(note));
        }
    }

    fn stop(&mut self, recorder: &mut Recorder) {
        self.write_down(recorder);
        let Some(running) = self.running.take() else { return };
        match running.stop() {
            Ok((report, _)) => {
                let t = recorder.seconds(Monotonic.now());
                let did: Vec<String> = report.parts.iter().map(ToString::to_string).collect();
                let note = LoadEvent { t, load: self.load.to_string(), event: "report".into(), detail: did.join("; ") };
                let _ = recorder.writer().note(&Note::Load(note));
            }
            Err(why) => advise(Tone::Careful, &format!("load {}: {why}", self.load)),
        }
    }
}

/// This binary again, as the process that carries a load.
pub(crate) fn carrier(load: &Load) -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe().map_err(Failure::Myself)?);
    command.args(["load", "--supervised"]).arg(load.to_string());
    Ok(command)
}
