//! `onbeat measure`: runs one probe.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;

use onbeat::bench::measurement::{self, MeasurementConditions, MeasurementEvent, MeasurementPlan};
use onbeat::load::Load;
use onbeat::probe::description::Parts;
use onbeat::probe::{self, Origin, RunError, Setting};
use onbeat::record::run_dir::{NewRunDir, RUN_FILE_ENDING};
use onbeat::record::{Header, Past, Recorder};
use onbeat::report::units::{Letters, time_ns};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::seconds::Lines;
use super::so_far::SoFar;
use super::{
    Failure, ThreadChoice, Verdict, check_cpu, limit, load, loads, most_alarms, repair_first,
    resume, runs, setting, show, tune, typed, verdict,
};
use crate::cli_measure::{Measure, MeasureOptions};
use crate::options::LoopOptions;
use crate::signals::{self, OnUsr1};
use crate::term::{Progress, Tone, advise};

pub(crate) fn run(measure: &Measure) -> Result<Verdict, Failure> {
    let Measure { probe, options, .. } = measure;
    admit(measure)?;
    let mut life = options.beside.map(Life::open).transpose()?;
    repair_first()?;
    let interruptions = signals::watch(OnUsr1::Summary)?;
    if options.load_sweep.is_some() || !options.loads.is_empty() {
        return loads::run(measure, life, &interruptions);
    }

    // What cannot run leaves no directory behind.
    let (setting, parts) = open_probe(measure, options.duration)?;
    let mut lines = Lines::new(probe, &setting, options.output.json);
    let releases = releases(options.duration, &options.looping);
    let (past, new) = run_to_write(measure, releases)?;
    let new_file =
        new.as_ref().map(|new| new.path().join(format!("{}{RUN_FILE_ENDING}", probe.name)));
    let path = past.as_ref().map(|past| past.path.clone()).or(new_file).unwrap_or_default();

    let measured_ns = past.as_ref().map_or(0, |past| past.account.slots * options.looping.period);
    let progress = Progress::new(
        options.duration.saturating_sub(measured_ns) as f64 / 1e9,
        options.output.json,
    );
    let resumed = past.as_ref().map(resume::words).unwrap_or_default();
    let mut summary = SoFar::new(path.clone(), &interruptions.summary);
    let mut report = |event: MeasurementEvent<'_>| match event {
        MeasurementEvent::Resumed => advise(Tone::Careful, &resumed),
        MeasurementEvent::Load(words) => advise(Tone::Careful, &words),
        MeasurementEvent::Running { elapsed_s, recorder } => {
            new.iter().for_each(runs::begin);
            progress.above_if(&lines.since(recorder));
            if !summary.look(recorder) {
                progress.show(elapsed_s, &so_far(recorder));
            }
            if life.as_mut().is_some_and(Life::is_over) {
                interruptions.stop.store(true, Ordering::Relaxed);
            }
        }
    };

    let origin = Origin::now();
    let plan = MeasurementPlan {
        setting,
        load: &options.load,
        releases,
        keep_seconds: probe.line_a_second,
        header: header(measure, origin),
        path: &path,
        origin: origin.at,
        out: &options.output.out,
    };
    let carrier = carrier(&options.load, options.load_dir.as_deref())?;
    let conditions =
        MeasurementConditions { carrier, interruptions: &interruptions, report: &mut report };
    let measured = measurement::measure(plan, parts, past, conditions).map_err(Failure::from);

    progress.finish();
    summary.end();
    match &new {
        Some(new) => runs::keep_if_begun(new, measured)?,
        None => measured?,
    };

    let reported = runs::reported(&path, None, None)?;
    let extent = show::SummaryExtent {
        json: options.output.json,
        verbose: options.output.verbose,
        ..show::SummaryExtent::default()
    };
    show::summary(&reported, extent, None)?;
    Ok(verdict(reported.summary.verdict.outcome))
}

/// Refuses options that cannot be met, before anything is opened or created.
fn admit(measure: &Measure) -> Result<(), Failure> {
    let Measure { probe, options, given } = measure;
    check_cpu(options.cpu)?;
    for loads in [std::slice::from_ref(&options.load), &options.loads] {
        load::look_at_place(loads, options.load_dir.as_deref(), "--load-dir")?;
    }

    resume::admit(options)?;
    // Only probes with devices have a bus, and `chain` only on request.
    let has_bus = given.has("devices") && given.word("with") != Some("output");
    if most_alarms(&options.limit).is_some() && !has_bus {
        let what = format!("measure {}", probe.name);
        return Err(Failure::NoEvents { what, instead: "measure the probe `bus`" });
    }

    Ok(())
}

/// Returns the run to resume, or else the directory of a new one.
fn run_to_write(
    measure: &Measure,
    releases: u64,
) -> Result<(Option<Past>, Option<NewRunDir>), Failure> {
    let MeasureOptions { resume, output, .. } = &*measure.options;
    let past =
        if *resume { resume::find(&output.out, measure.probe.name, releases)? } else { None };
    let new = if past.is_none() { Some(NewRunDir::create(&output.out)?) } else { None };
    Ok((past, new))
}

fn header(measure: &Measure, origin: Origin) -> Header {
    let Measure { probe, options, .. } = measure;
    Header {
        limit: limit(&options.limit, probe.series[0]),
        most_alarms: most_alarms(&options.limit),
        findings: tune::findings(options.cpu, options.looping.period),
        ..probe::header(&typed(), probe.name, probe.series, origin.unix_s)
    }
}

/// Opens a probe with its options, and returns the setting of its loop as well.
pub(crate) fn open_probe(measure: &Measure, duration_ns: u64) -> Result<(Setting, Parts), Failure> {
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

/// Returns the number of releases in a duration; `u64::MAX` when the duration is 0.
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

/// A process at whose end a measurement ends.
pub(crate) struct Life(OwnedFd);

impl Life {
    fn open(pid: i32) -> Result<Self, Failure> {
        let known = Pid::from_raw(pid).ok_or(rustix::io::Errno::SRCH);
        let opened = known.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
        opened.map(Self).map_err(|source| Failure::NoProcess { pid, source: source.into() })
    }

    /// Returns whether it has ended: its descriptor is readable from then on.
    pub(crate) fn is_over(&mut self) -> bool {
        let mut asked = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut asked, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }
}

/// Returns a command whose process carries a load: this program again. `None` for the load `idle`.
pub(crate) fn carrier(load: &Load, dir: Option<&Path>) -> Result<Option<Command>, Failure> {
    if load.is_idle() {
        return Ok(None);
    }
    let myself = std::env::current_exe().map_err(Failure::Myself)?;
    Ok(Some(carrier_of(&myself, load, dir)))
}

/// Returns the command line of `program` that carries a load.
pub(crate) fn carrier_of(program: &Path, load: &Load, dir: Option<&Path>) -> Command {
    let mut command = Command::new(program);
    command.args(["load", "--supervised"]).arg(load.to_string());
    if let Some(dir) = dir {
        command.arg("--dir").arg(dir);
    }
    command
}
