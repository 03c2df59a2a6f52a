//! `onbeat measure`: one probe, one run.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use onbeat::load::{Load, Running};
use onbeat::probe::timer::Timer;
use onbeat::probe::{self, BlockPlan, Destination, Run};
use onbeat::record::{Account, LoadEvent, Note, Recorder};
use onbeat::report::units::{Letters, time_ns};
use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};

use super::{Failure, ThreadChoice, Verdict, check_cpu, limit, repair_first, runs, setting, show, typed, verdict};
use crate::cli::{LoopOptions, TimerOptions};
use crate::signals;
use crate::term::{Progress, Tone, advise};

pub(crate) fn timer(options: &TimerOptions) -> Result<Verdict, Failure> {
    check_cpu(options.cpu)?;
    let releases = releases(options.duration, &options.looping);
    let thread = ThreadChoice {
        cpu: options.cpu,
        priority: options.priority,
        lock_memory: !options.no_lock_memory,
        wait: options.wait,
        causes: !options.no_causes,
    };
    let duration_ns = if options.duration == 0 { u64::MAX } else { options.duration };
    let setting = setting(&options.looping, thread, duration_ns);
    setting.admit()?;
    repair_first()?;
    let interruptions = signals::watch()?;
    let dir = runs::create(&options.output.out)?;
    let mut load = Beside::start(&options.load)?;
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let origin = Monotonic.now();
    let path = dir.join("timer.onbeat.hlog");
    let mut header = probe::header(&typed(), "timer", started);
    header.limit = limit(&options.limit);
    let mut task = Timer { work_ns: setting.work_ns };
    let mut run = Run::open(Destination { path: &path, header, origin }, setting)?;
    let progress = Progress::new(options.duration as f64 / 1e9, options.output.json);
    let name = options.load.to_string();
    let block = BlockPlan { index: 0, load: &name, releases };
    let ran = run.block(&block, &mut task, &interruptions, &mut |recorder| {
        load.write_down(recorder, origin);
        progress.show(Monotonic.now().ns_since(origin) as f64 / 1e9, so_far(recorder));
    });
    progress.finish();
    load.stop(run.recorder(), origin);
    ran?;
    let _: Account = run.close()?;
    let kept = runs::read(&path, None)?;
    let extent = show::Extent { json: options.output.json, ..show::Extent::default() };
    show::summary(&kept, extent, None)?;
    Ok(verdict(kept.summary.verdict.outcome))
}

/// How many releases a duration holds; no end when it is 0.
fn releases(duration_ns: u64, options: &LoopOptions) -> u64 {
    match duration_ns.checked_div(options.period) {
        Some(0) if duration_ns == 0 => u64::MAX,
        Some(releases) => releases.max(1),
        None => 0,
    }
}

fn so_far(recorder: &Recorder) -> String {
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
    fn write_down(&mut self, recorder: &mut Recorder, origin: Instant) {
        let Some(running) = &mut self.running else { return };
        for event in running.events() {
            let t = Monotonic.now().ns_since(origin) as f64 / 1e9;
            let note =
                LoadEvent { t, load: event.load.clone(), event: event.word().to_owned(), detail: event.to_string() };
            if event.matters() {
                advise(Tone::Careful, &note.detail);
            }
            let _ = recorder.writer().note(&Note::Load(note));
        }
    }

    fn stop(&mut self, recorder: &mut Recorder, origin: Instant) {
        self.write_down(recorder, origin);
        let Some(running) = self.running.take() else { return };
        match running.stop() {
            Ok((report, _)) => {
                let t = Monotonic.now().ns_since(origin) as f64 / 1e9;
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
