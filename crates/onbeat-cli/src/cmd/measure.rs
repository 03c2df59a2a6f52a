//! `onbeat measure`: one probe, one run.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use onbeat::load::{Load, RunningLoad};
use onbeat::probe::description::Parts;
use onbeat::probe::{self, BlockPlan, Destination, Interruptions, Run, RunError, Setting};
use onbeat::record::{Account, LoadEvent, Note, Past, Recorder};
use onbeat::report::units::{Letters, time_ns};
use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::seconds::Lines;
use super::so_far::SoFar;
use super::{
    Failure, ThreadChoice, Verdict, check_cpu, limit, load, loads, most_alarms, repair_first, resume, runs, setting,
    show, typed, verdict,
};
use crate::cli::LoopOptions;
use crate::cli_measure::Measure;
use crate::signals::{self, OnUsr1};
use crate::term::{Progress, Tone, advise};

pub(crate) fn run(measure: &Measure) -> Result<Verdict, Failure> {
    let Measure { probe, options, .. } = measure;
    check_cpu(options.cpu)?;
    for loads in [std::slice::from_ref(&options.load), &options.loads] {
        load::look_at_place(loads, options.load_dir.as_deref(), "--load-dir")?;
    }

    resume::admit(options)?;
    // Only probes with devices have a bus, and `chain` only when it is asked for.
    let has_bus = measure.given.has("devices") && measure.given.word("with") != Some("output");
    if most_alarms(&options.limit).is_some() && !has_bus {
        let what = format!("measure {}", probe.name);
        return Err(Failure::NoEvents { what, instead: "measure the probe `bus`" });
    }

    let mut life = options.beside.map(Life::of).transpose()?;
    repair_first()?;
    let interruptions = signals::watch(OnUsr1::Summary)?;
    if options.load_sweep.is_some() || !options.loads.is_empty() {
        return loads::run(measure, life, &interruptions);
    }

    // Whatever cannot be run leaves no directory behind.
    let ready = made_ready(measure, options.duration)?;
    let mut lines = Lines::of(probe, &ready.0, options.output.json);
    let all = releases(options.duration, &options.looping);
    let past = if options.resume { resume::find(&options.output.out, probe.name, all)? } else { None };
    let place = if past.is_none() { Some(runs::create(&options.output.out)?) } else { None };
    let new = place.as_ref().map(|place| place.dir.join(format!("{}{}", probe.name, runs::RUN_FILE)));
    let path = past.as_ref().map(|past| past.path.clone()).or(new).unwrap_or_default();
    let measured_ns = past.as_ref().map_or(0, |past| past.account.slots * options.looping.period);
    let progress = Progress::new(options.duration.saturating_sub(measured_ns) as f64 / 1e9, options.output.json);
    let (duration_ns, zero) = (options.duration, Zero::now());
    let one = One { measure, load: &options.load, duration_ns, path: &path, zero };
    let mut summary = SoFar::of(path.clone(), &interruptions.summary);
    let ran = one.run(ready, past, &interruptions, &mut |recorder, elapsed_s| {
        place.iter().for_each(runs::Place::begun);
        progress.above_if(&lines.since(recorder));
        if !summary.look(recorder) {
            progress.show(elapsed_s, &so_far(recorder));
        }
        if life.as_mut().is_some_and(Life::is_over) {
            interruptions.stop.store(true, Ordering::Relaxed);
        }
    });

    progress.finish();
    summary.end();
    match &place {
        Some(place) => place.kept_if_begun(ran)?,
        None => ran?,
    };

    let kept = runs::read(&path, None)?;
    let extent = show::Extent { json: options.output.json, verbose: options.output.verbose, ..show::Extent::default() };
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
struct One<'m> {
    measure: &'m Measure,
    load: &'m Load,
    /// 0 for no end.
    duration_ns: u64,
    path: &'m Path,
    /// The instant that stands as 0 in the file.
    zero: Zero,
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
    /// Measures. `watch` is called every 20 ms with the seconds since the start. With a past the run goes on in its file, for the releases that are left.
    fn run(
        &self,
        (setting, parts): (Setting, Parts),
        past: Option<Past>,
        interruptions: &Interruptions,
        watch: &mut dyn FnMut(&mut Recorder, f64),
    ) -> Result<(), Failure> {
        let Measure { probe, options, .. } = self.measure;
        let began = Monotonic.now();
        let mut load = Beside::start(self.load, options.load_dir.as_deref())?;
        let origin = self.zero.at;
        let mut header = probe::header(&typed(), probe.name, probe.series, self.zero.unix_s);
        header.limit = limit(&options.limit, probe.series[0]);
        header.most_alarms = most_alarms(&options.limit);
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
        Ok(())
    }
}

/// How many releases a duration holds; no end when it is 0.
pub(crate) fn releases(duration_ns: u64, options: &LoopOptions) -> u64 {
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
pub(crate) struct Life(OwnedFd);

impl Life {
    fn of(pid: i32) -> Result<Self, Failure> {
        let known = Pid::from_raw(pid).ok_or(rustix::io::Errno::SRCH);
        let opened = known.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
        opened.map(Self).map_err(|source| Failure::NoProcess { pid, source: source.into() })
    }

    /// Whether it has ended. A descriptor of a process is readable from then on.
    pub(crate) fn is_over(&mut self) -> bool {
        let mut asked = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut asked, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }
}

/// A load that runs beside a measurement.
struct Beside {
    load: Load,
    running: Option<RunningLoad>,
}

impl Beside {
    fn start(load: &Load, dir: Option<&Path>) -> Result<Self, Failure> {
        if load.is_idle() {
            return Ok(Self { load: load.clone(), running: None });
        }
        let running =
            RunningLoad::start(carrier(load, dir)?).map_err(|source| Failure::Load { load: load.clone(), source })?;
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
pub(crate) fn carrier(load: &Load, dir: Option<&Path>) -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe().map_err(Failure::Myself)?);
    command.args(["load", "--supervised"]).arg(load.to_string());
    if let Some(dir) = dir {
        command.arg("--dir").arg(dir);
    }
    Ok(command)
}
