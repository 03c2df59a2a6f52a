//! `onbeat watch`: is a program that exists on time, and if not, why?

mod calls;
mod counters;
mod findings;
pub(crate) mod in_bench;
mod launch;
pub(crate) mod options;
mod several;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use onbeat::probe::{self, Interruptions, Origin};
use onbeat::record::run_dir::{NewRunDir, RUN_FILE_ENDING};
use onbeat::record::{EndReason, FindingNote, Header, Series, SpikeLimit, TaskNote};
use onbeat_watch::collect::Collector;
use onbeat_watch::loops::all_chosen;
use onbeat_watch::measure::{WatchPlan, Watched, WatchedLoop, measure};
use onbeat_watch::survey::{Survey, survey};
use onbeat_watch::{WatchError, json, target, threads, words};

use super::failure::watch::WatchFailure;
use super::looping::{limit, most_alarms, verdict};
use super::repair::repair_first;
use super::screen::Screen;
use super::so_far::{LooksAhead, SoFar, counts_so_far, looks_of};
use super::tune::running::boot_id;
use super::view::{BesideView, check_port};
use super::{Common, ExitVerdict, Failure, runs, show, typed};
use crate::options::Until;
use crate::signals::{self, EndOf, OnUsr1};
use crate::term::{ProgressLine, Tone, advise, letters, print_json, say, say_wrapped};
use launch::{Launched, Printed};
use options::WatchOptions;

/// What is measured of a loop of another program.
const SERIES: [Series; 4] =
    [Series::ReleaseLatency, Series::ObservedPeriod, Series::ExecutionTime, Series::ResponseTime];

/// The probe's name in run files.
const PROBE: &str = "watch";

pub(crate) fn run(options: &WatchOptions) -> Result<ExitVerdict, Failure> {
    if most_alarms(&options.limit).is_some() {
        let instead = "measure the probe `bus`";
        return Err(Common::NoEvents { what: "watch".to_owned(), instead }.into());
    }

    one_loop(options)?;
    check_port(&options.beside_view)?;
    repair_first()?;
    let interruptions = signals::watch(OnUsr1::Summary)?;
    let _end = EndOf::prompt("the last cycle of the program");
    let printed = if options.output.json { Printed::Errors } else { Printed::Here };
    let mut launched = launch::start(&options.command, printed)?;
    let pid = match &launched {
        Some(launched) => launched.pid(),
        None => target::resolve(options.target.as_deref().unwrap_or_default())?,
    };
    let watched = watch(options, pid, &interruptions);
    let watched = watched.map_err(|why| launch::explained(why, launched.as_mut()));
    if let Some(launched) = launched {
        end(launched, watched.is_ok());
    }
    watched
}

/// Refuses what follows a single loop where several threads or the calls of a function are measured.
fn one_loop(options: &WatchOptions) -> Result<(), Failure> {
    let other = match (&options.cycle, options.thread.len()) {
        (Some(_), _) => "--cycle",
        (None, 2..) => "all --thread but one",
        _ => return Ok(()),
    };
    let asked = [
        ("--until decided", options.until == Some(Until::Decided)),
        ("--screen", options.screen.screen),
        ("--view", options.beside_view.view.is_some()),
    ];
    match asked.into_iter().find(|(_, is_asked)| *is_asked) {
        Some((option, _)) => Err(WatchFailure::OneLoop { option, other }.into()),
        None => Ok(()),
    }
}

fn watch(
    options: &WatchOptions,
    pid: i32,
    interruptions: &Interruptions,
) -> Result<ExitVerdict, Failure> {
    let mut collector = match Collector::open() {
        Ok(collector) => collector,
        Err(why) => {
            counters::without_tracing(pid, options.output.json, &interruptions.stop)?;
            return Err(WatchFailure::NotTraced { why }.into());
        }
    };
    if !collector.knows_timers() {
        return Err(WatchError::HiddenAddresses.into());
    }

    let progress = ProgressLine::new(0.0, options.output.json);
    progress.show(0.0, "looking for the loop");
    let seen = survey(&mut collector, pid, &interruptions.stop);
    progress.finish();
    let seen = seen?;
    let name = seen.threads.first().map_or("process", |thread| &thread.facts.name);
    let process = format!("{name} [{pid}]");
    if target::has_ended(pid) {
        let seconds = seen.looked_ns as f64 / 1e9;
        return Err(WatchFailure::EndedEarly { process, seconds }.into());
    }
    if let Some(symbol) = &options.cycle {
        return calls::watch(options, pid, symbol, &seen, interruptions);
    }
    let chosen = all_chosen(&seen, &process, &options.thread, letters());
    if !options.output.json {
        let tid = chosen.as_ref().ok().and_then(|all| Some(all.first()?.thread.tid()));
        show::table(&threads::table(&seen, &process, tid, letters()));
        words::remarks(&seen, letters()).iter().for_each(|words| say_wrapped(Tone::Plain, words));
    }
    if options.list {
        if options.output.json {
            print_json(&json::threads(&seen, pid, chosen.as_deref().unwrap_or_default()))?;
        }
        return Ok(ExitVerdict::Pass);
    }

    let chosen = chosen?;
    if !options.output.json {
        for watched in &chosen {
            say_wrapped(Tone::Plain, &words::choice_words(watched, letters()));
        }
        say(Tone::Plain, "");
    }
    if let Some(first) = chosen.first()
        && interruptions.stop.load(Ordering::Relaxed)
    {
        // To begin a recording takes longer than a user waits for the end.
        let thread = format!("{} [{}]", first.thread.name, first.thread.tid());
        let why = "the measurement was interrupted";
        return Err(WatchFailure::NoCycle { thread, seconds: 0.0, why }.into());
    }
    match chosen.as_slice() {
        [one] => record(options, &mut collector, &seen, one, interruptions),
        several => {
            let asked = several::Asked { options, seen: &seen, loops: several };
            several::record(&asked, &mut collector, interruptions)
        }
    }
}

fn record(
    options: &WatchOptions,
    collector: &mut Collector,
    seen: &Survey,
    watched: &WatchedLoop,
    interruptions: &Interruptions,
) -> Result<ExitVerdict, Failure> {
    let new = NewRunDir::create(&options.output.out)?;
    let path = new.path().join(format!("{PROBE}{RUN_FILE_ENDING}"));
    let mut screen = Screen::begin(&path, options.screen.screen);
    let is_quiet = options.output.json || screen.is_on();
    let progress = ProgressLine::new(options.duration as f64 / 1e9, is_quiet);
    let mut summary = SoFar::new(path.clone(), &interruptions.summary);
    let mut view = BesideView::new(&options.beside_view, None);
    let origin = Origin::now();
    let plan = WatchPlan { causes: !options.no_causes, ..plan(options, watched, &path, origin) };
    let mut looks = LooksAhead::new(options.until, options.duration, &path);
    let mut report = |elapsed_s: f64, recorder: &mut onbeat::record::Recorder| {
        runs::begin(&new);
        view.begin(&path);
        screen.look(recorder);
        if !summary.look(Some(&mut *recorder)) {
            progress.show(elapsed_s, &counts_so_far(recorder));
        }
        if looks.is_decided(elapsed_s, recorder) {
            interruptions.stop.store(true, Ordering::Relaxed);
        }
    };

    let measured = measure(collector, &plan, interruptions, &mut report);
    progress.finish();
    screen.end();
    summary.end();
    view.end();
    let result = runs::keep_if_begun(&new, measured.map_err(Failure::from))?;
    let measured = Measured { seen, watched, result: &result, findings: &plan.header.findings };
    conclude(options, &measured, &path)
}

/// What is known of a program after its measurement.
struct Measured<'m> {
    seen: &'m Survey,
    watched: &'m WatchedLoop,
    result: &'m Watched,
    /// Settings that are not as wanted.
    findings: &'m [FindingNote],
}

/// Shows the figures, what was found, and returns the verdict.
fn conclude(
    options: &WatchOptions,
    measured: &Measured<'_>,
    path: &Path,
) -> Result<ExitVerdict, Failure> {
    let Measured { watched, result, .. } = measured;
    let name = format!("{} [{}]", watched.thread.name, watched.thread.tid());
    if result.account.is_none() {
        let why = if result.has_ended {
            "it ended before"
        } else if result.reason == EndReason::Asked {
            "the measurement was interrupted"
        } else if result.not_seen > 0 {
            "events were lost"
        } else {
            "it did not wait as it did before"
        };
        let seconds = result.watched_ns as f64 / 1e9;
        return Err(WatchFailure::NoCycle { thread: name, seconds, why }.into());
    }

    let reported = runs::reported(path, None, None)?;
    let extent = show::SummaryExtent {
        json: options.output.json,
        verbose: options.output.verbose,
        ..show::SummaryExtent::default()
    };
    show::summary(&reported, extent, None)?;
    if !options.output.json {
        findings::say_all(measured);
        if options.output.verbose {
            let share = result.own_cpu_ns as f64 * 100.0 / result.watched_ns.max(1) as f64;
            let words = format!("onbeat itself used {share:.1} % of a CPU while it watched.");
            say(Tone::Plain, &words);
        }
    }
    Ok(verdict(reported.summary.outcome()))
}

/// The measurement of a loop, without causes.
fn plan<'p>(
    options: &WatchOptions,
    watched: &WatchedLoop,
    path: &'p Path,
    origin: Origin,
) -> WatchPlan<'p> {
    let header = Header {
        findings: findings::of_catalogue(watched),
        limit: limit(&options.limit, SERIES[0]),
        looks: looks_of(options.until, options.duration).len(),
        task: Some(TaskNote {
            tid: watched.thread.id.tid,
            start_ticks: watched.thread.id.start_ticks,
            boot_id: boot_id(),
            name: watched.thread.name.clone(),
        }),
        ..probe::header(&typed(), PROBE, &SERIES, origin.unix_s)
    };
    WatchPlan {
        watched: watched.clone(),
        duration_ns: options.duration,
        causes: false,
        spike_limit: options.spikes_over.map_or(SpikeLimit::TenTimesMedian, SpikeLimit::Above),
        header,
        path,
        origin,
    }
}

/// Ends the program that was started for the measurement.
fn end(launched: Launched, was_watched: bool) {
    if let Some(words) = launched.end(Duration::from_secs(5)).filter(|_| was_watched) {
        advise(Tone::Careful, &words);
    }
}
