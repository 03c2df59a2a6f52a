//! `onbeat load NAME`: runs a load alone; and the process that carries a load for other commands.

pub(crate) mod options;

use std::io::stdin;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use onbeat::bench::background_load::BackgroundLoadError;
use onbeat::load::{
    Load, LoadNotice, LoadNoticeKind, LoadStopReason, Options, RunningLoad, check_directory,
    misses_the_disk, serve,
};

use super::carrier::carrier;
use super::repair::repair_first;
use super::{Common, ExitVerdict, Failure};
use crate::cmd::failure::loads::LoadsFailure;
use crate::cmd::load::options::LoadOptions;
use crate::signals::{self, OnUsr1, SignalError};
use crate::term::{Tone, advise, say, wrapped};

/// Interval between two looks for events of a load.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(crate) fn run(options: LoadOptions) -> Result<ExitVerdict, Failure> {
    if options.supervised { carry(options) } else { alone(&options) }
}

fn carry(options: LoadOptions) -> Result<ExitVerdict, Failure> {
    let directory = options.dir.unwrap_or_else(std::env::temp_dir);
    let input = stdin().as_fd().try_clone_to_owned().map_err(SignalError::Watch)?;
    // A load that could not start has reported that on standard output.
    let carried = serve(
        &options.load,
        &Options { directory, ..Options::default() },
        input,
        &mut std::io::stdout(),
    );
    Ok(if carried.is_ok() { ExitVerdict::Pass } else { ExitVerdict::CouldNotRun })
}

/// Checks the directory that loads write in, before anything is started; `option` names another
/// one.
pub(crate) fn check_load_directory(
    loads: &[Load],
    typed: Option<&Path>,
    option: &'static str,
) -> Result<(), Failure> {
    if let Some(path) = typed {
        check_directory(path).map_err(|source| Common::LoadPlace {
            path: path.to_owned(),
            option,
            source,
        })?;
    }

    let place = typed.map_or_else(std::env::temp_dir, Path::to_owned);
    if let Some(load) = loads.iter().find(|load| misses_the_disk(load, &place)) {
        let sentence = format!(
            "the disk part of the load {load} writes in {}, which is in memory, so no disk is loaded; {option} DIR names a \
             directory on a disk",
            place.display()
        );
        advise(Tone::Careful, &wrapped(&sentence, 80));
    }

    Ok(())
}

/// Runs a load in a process of its own: it must lead a session, which a process started by a shell
/// cannot.
fn alone(options: &LoadOptions) -> Result<ExitVerdict, Failure> {
    check_load_directory(std::slice::from_ref(&options.load), options.dir.as_deref(), "--dir")?;
    repair_first()?;
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let failed = |source| BackgroundLoadError { load: options.load.clone(), source };
    advise(Tone::Plain, &wrapped(&options.load.describe(), 80));
    let carrier = carrier(options.dir.as_deref())?;
    let mut running = RunningLoad::start(carrier(&options.load)).map_err(failed)?;
    let mut died = Vec::new();
    let ends =
        (options.duration > 0).then(|| Instant::now() + Duration::from_nanos(options.duration));

    while !interruptions.stop.load(Ordering::Relaxed) && ends.is_none_or(|end| Instant::now() < end)
    {
        died.extend(running.events().iter().filter_map(told));
        std::thread::sleep(LOOK_EVERY);
    }

    let (report, last) = running.stop().map_err(failed)?;
    died.extend(last.iter().filter_map(told));
    for part in &report.parts {
        say(Tone::Plain, &part.to_string());
    }

    if report.parts.iter().all(|part| part.alive) {
        return Ok(ExitVerdict::Pass);
    }
    if died.is_empty() {
        let dead = report.parts.iter().filter(|part| !part.alive);
        died.extend(dead.map(|part| format!("{} died", part.part)));
    }
    Err(LoadsFailure::Died { load: options.load.clone(), parts: died.join("; ") }.into())
}

/// Prints an event; returns which part died and why, if that is what happened.
fn told(event: &LoadNotice) -> Option<String> {
    if !matches!(event.what, LoadNoticeKind::Stopped { why: LoadStopReason::Asked }) {
        let tone = if event.matters() { Tone::Careful } else { Tone::Plain };
        advise(tone, &wrapped(&event.to_string(), 80));
    }
    match &event.what {
        LoadNoticeKind::PartDied { part, status } => Some(format!("{part} died: {status}")),
        _ => None,
    }
}
