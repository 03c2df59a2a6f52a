//! `onbeat inject`: injects one cause of lateness, into a loop of onbeat's own or into that of a
//! running program.

pub(crate) mod options;

use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use onbeat::cause::CauseKind;
use onbeat::inject::{
    Error as InjectError, Fault, FaultOrigin, Injected, InjectionPlan, InjectionTarget, Injector,
    Loops, ReleaseGrid, placebo,
};
use onbeat::probe::Setting;
use onbeat::probe::disturbed::{Disturbance, Disturbed, Felt, disturb};
use onbeat::thread::ThreadRequest;
use onbeat_report::units::time_ns;
use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};
use onbeat_tune::catalogue::HostTree;
use onbeat_tune::plan::cpus::loop_cpu;
use serde_json::json;

use super::looping::check_cpu;
use super::repair::repair_first;
use super::{Common, ExitVerdict, Failure};
use crate::cmd::inject::options::InjectOptions;
use crate::signals::{self, OnUsr1};
use crate::term::{Tone, advise, letters, say};

/// The priority of a loop of onbeat's own: that of `onbeat measure timer`.
const PRIORITY: u32 = 90;
/// Default interval between injections.
const EVERY_NS: u64 = 100_000_000;
/// Interval between two looks at the log of another program's loop.
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(crate) fn run(options: &InjectOptions) -> Result<ExitVerdict, Failure> {
    check_cpu(options.cpu)?;
    match options.pid {
        Some(pid) => elsewhere(options, pid),
        // A shell would take the terminal from a foreground command that stops.
        None if options.fault == Fault::StopSignal && !options.carried => again(),
        None => own(options),
    }
}

fn every_ns(options: &InjectOptions) -> u64 {
    options.every.unwrap_or(EVERY_NS.max(options.fault.least_every_ns()).max(4 * options.length))
}

fn again() -> Result<ExitVerdict, Failure> {
    let mut command = Command::new(std::env::current_exe().map_err(Common::OwnProgram)?);
    command.args(std::env::args_os().skip(1)).arg("--carried");
    let status = command.status().map_err(Common::Again)?;
    Ok(if status.success() { ExitVerdict::Pass } else { ExitVerdict::CouldNotRun })
}

/// Injects into the loop of a running program.
fn elsewhere(options: &InjectOptions, pid: i32) -> Result<ExitVerdict, Failure> {
    if options.fault.origin() == FaultOrigin::InLoop {
        return Err(InjectError::Elsewhere { fault: options.fault }.into());
    }

    let target = InjectionTarget::find(options.fault, pid, options.cpu)?;
    let interruptions = signals::watch(OnUsr1::Refuse)?;

    let now = Monotonic.now().as_ns();
    let first = now - now % options.period.max(1) + options.phase;
    let grid = ReleaseGrid {
        first_release: Instant::from_ns(first),
        period_ns: options.period,
        spin_ns: 0,
    };

    let InjectionTarget { tid, cpu, priority, .. } = target;
    let fault = options.fault;
    let every_ns = every_ns(options);
    let plan = InjectionPlan {
        fault,
        every_ns,
        for_ns: options.length,
        count: options.count,
        target,
        grid,
    };

    let injector = if options.placebo { placebo(plan) } else { Injector::start(plan) }?;

    if !options.json {
        say(
            Tone::Plain,
            &format!("{fault} to thread {tid} of process {pid} on CPU {cpu}, priority {priority}"),
        );
    }

    let mut shown = 0;
    let mut show = |injected: &[Injected]| {
        for one in injected.iter().skip(shown).filter(|_| !options.json) {
            say(Tone::Plain, &line(one));
        }
        shown = injected.len();
    };

    while !injector.is_finished() && !interruptions.stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_EVERY);
        show(&injector.log().injected);
    }

    let log = injector.stop();
    show(&log.injected);
    if options.json {
        let object = json!({ "fault": fault, "pid": pid, "tid": tid, "cpu": cpu, "priority": priority,
            "injected": log.injected, "missed": log.missed });
        say(Tone::Plain, &object.to_string());
    } else {
        say(Tone::Plain, &format!("{} injected, {} missed", log.injected.len(), log.missed));
    }

    Ok(if log.injected.is_empty() { ExitVerdict::CouldNotRun } else { ExitVerdict::Pass })
}

/// Injects into a loop of onbeat's own.
fn own(options: &InjectOptions) -> Result<ExitVerdict, Failure> {
    repair_first()?;
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let cpu = options.cpu.or_else(|| Some(loop_cpu(&HostTree::live()).cpu));
    let asked = Disturbance {
        fault: options.fault,
        every_ns: every_ns(options),
        for_ns: options.length,
        count: options.count,
        placebo: options.placebo,
    };

    let done = disturb(&setting(options, cpu), &asked, &interruptions.stop, &mut |felt| {
        if !options.json {
            say(Tone::Plain, &line(&felt.injected));
            say(Tone::Faint, &format!("      {}", felt_words(felt)));
        }
    })?;

    if options.json {
        say(Tone::Plain, &object(options.fault, &done).to_string());
    } else {
        for grant in done.grants.iter().filter(|grant| !grant.granted) {
            advise(
                Tone::Careful,
                &format!("{} was refused: {}", grant.what, grant.why_not.as_deref().unwrap_or("-")),
            );
        }
        say(Tone::Plain, &conclusion(options.fault, &done));
    }

    Ok(if done.felt.is_empty() { ExitVerdict::CouldNotRun } else { ExitVerdict::Pass })
}

fn setting(options: &InjectOptions, cpu: Option<u32>) -> Setting {
    let thread = ThreadRequest {
        fifo: priority(options.fault),
        cpu,
        lock_memory: true,
        dma_latency_us: None,
    };
    Setting { thread, warmup: 0, causes: true, ..Setting::new(options.period) }
}

/// Returns the priority of the loop; none for causes that only an ordinary loop has.
fn priority(fault: Fault) -> Option<u32> {
    (fault.loops() != Loops::Ordinary).then_some(PRIORITY)
}

/// `  3  at 6790.678196511 s  for 301 us  0.299 ms of CPU time`.
fn line(one: &Injected) -> String {
    let at = one.at.as_ns() as f64 / 1e9;
    format!("{:>4}  at {at:.6} s  for {}  {}", one.index, time_ns(one.ns, letters()), one.detail)
}

fn felt_words(felt: &Felt) -> String {
    let Some(met) = &felt.met else { return "no cycle met it".to_owned() };
    let late = time_ns(met.sample.wakeup_latency_ns, letters());
    let worked = time_ns(met.sample.execution_time_ns, letters());
    let causes = met.explanation.iter().flat_map(|explanation| &explanation.causes);
    let words: Vec<String> =
        causes.map(|cause| format!("{} {}", cause.words(), time_ns(cause.ns, letters()))).collect();

    let words =
        if words.is_empty() { "no cause was recorded".to_owned() } else { words.join(", ") };
    format!("cycle {} began {late} late and worked {worked}: {words}", met.sample.index)
}

fn named(felt: &Felt) -> Option<CauseKind> {
    Some(felt.met.as_ref()?.explanation.as_ref()?.main()?.kind)
}

fn conclusion(fault: Fault, done: &Disturbed) -> String {
    let right = done.felt.iter().filter(|felt| named(felt) == Some(fault.cause())).count();
    format!(
        "{} injected, {} missed; {right} explained as {}; {} other spikes in {} cycles",
        done.felt.len(),
        done.missed,
        fault.cause().words(),
        done.others.len(),
        done.cycles
    )
}

fn object(fault: Fault, done: &Disturbed) -> serde_json::Value {
    let felt = done.felt.iter().map(|felt| {
        let cycle = felt.met.as_ref().map(|met| {
            json!({ "index": met.sample.index, "wakeup_latency_ns": met.sample.wakeup_latency_ns,
                "execution_time_ns": met.sample.execution_time_ns, "explanation": met.explanation })
        });
        json!({ "injected": felt.injected, "cycle": cycle })
    });
    json!({ "fault": fault, "felt": felt.collect::<Vec<_>>(), "missed": done.missed,
        "other_spikes": done.others.len(), "cycles": done.cycles, "grants": done.grants })
}
