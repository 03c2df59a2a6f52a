//! `onbeat repair`: undoes changes left by an interrupted onbeat.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use onbeat::cause::InstanceGuard;
use onbeat_control::{FoundChannels, RingError, remove_leftovers};
use onbeat_tune::guard::ObjectGuard;
use onbeat_tune::{HostFiles, LiveHost, UndoMode};

use super::tune::record::kept_sentence;
use super::{ExitVerdict, Failure};
use crate::cli::RepairOptions;
use crate::state::journal_directory;
use crate::term::{Tone, advise, counted, say};

/// What was undone.
pub(crate) struct Undone {
    pub(crate) sentences: Vec<String>,
    /// Whether nothing is left to undo.
    is_settled: bool,
    /// Files among those of onbeat that are not onbeat's, as sentences.
    pub(crate) ignored: Vec<String>,
    /// Why the directory of shared objects was not looked at.
    refused: Option<RingError>,
}

pub(crate) fn run(options: RepairOptions) -> Result<ExitVerdict, Failure> {
    let Undone { sentences, is_settled, ignored, refused } =
        restore(undo_mode(options.force, options.forget))?;
    for sentence in ignored {
        advise(Tone::Careful, &sentence);
    }
    let host = LiveHost::new();
    let kept = kept_sentence(&host);
    if sentences.is_empty() && refused.is_none() && kept.is_ok() {
        let whose = if host.is_root() { "" } else { " of this user" };
        say(Tone::Plain, &format!("nothing to undo: no onbeat{whose} was interrupted"));
    }

    for sentence in sentences {
        say(Tone::Plain, &sentence);
    }
    if let Some(sentence) = kept? {
        say(Tone::Plain, &sentence);
    }

    match refused {
        Some(why) => Err(why.into()),
        None if is_settled => Ok(ExitVerdict::Pass),
        None => Ok(ExitVerdict::CouldNotRun),
    }
}

/// What `--force` and `--forget` ask for.
pub(crate) const fn undo_mode(force: bool, forget: bool) -> UndoMode {
    match (force, forget) {
        (true, _) => UndoMode::Force,
        (false, true) => UndoMode::Forget,
        (false, false) => UndoMode::Careful,
    }
}

/// Undoes the changes of an interrupted onbeat before anything else. A refused directory of shared
/// objects is reported by what uses it.
pub(crate) fn repair_first() -> Result<(), Failure> {
    let undone = restore(UndoMode::Careful)?;
    for sentence in undone.sentences.into_iter().chain(undone.ignored) {
        advise(Tone::Careful, &sentence);
    }
    Ok(())
}

/// Undoes what a dead run has left, without words: nobody reads them. What is left stays on record,
/// and the next start reports it.
pub(crate) fn by_guard(directory: &Path) {
    let _ = restore_in(directory, UndoMode::Careful);
}

/// Starts the guard of the flight recorders of this process, or returns the one that all of them share.
pub(crate) fn guard_of_recorders() -> Option<InstanceGuard> {
    static SHARED: Mutex<Weak<ObjectGuard>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(guard) = shared.upgrade() {
        return Some(guard);
    }
    let guard = Arc::new(ObjectGuard::start(&journal_directory())?);
    *shared = Arc::downgrade(&guard);
    Some(guard)
}

/// Undoes the changes. While another onbeat runs, its changes are its own.
pub(crate) fn restore(mode: UndoMode) -> Result<Undone, Failure> {
    restore_in(&journal_directory(), mode)
}

fn restore_in(directory: &Path, mode: UndoMode) -> Result<Undone, Failure> {
    let host = LiveHost::new();
    // They are nobody's, whatever hinders the journals' repair.
    let recorders = onbeat::cause::remove_leftovers();
    let repaired = onbeat_tune::repair::repair_as(directory, &host, mode)?;
    let finished: Vec<_> = repaired
        .iter()
        .filter(|one| !matches!(one.ending, onbeat_tune::repair::Ending::InUse { .. }))
        .collect();
    let mut sentences: Vec<String> = finished.iter().flat_map(|one| one.sentences()).collect();
    if recorders > 0 {
        let recorders = counted(recorders, "flight recorder");
        sentences.push(format!("removed {recorders} that a killed onbeat had left"));
    }

    let images = remove_leftovers();
    if !images.is_empty() {
        sentences
            .push(format!("removed the images of killed bus processes: {}", images.join(", ")));
    }

    let (ignored, refused) = match FoundChannels::look() {
        Ok(found) => (found.ignored.iter().map(|why| format!("ignored: {why}")).collect(), None),
        Err(why) => (Vec::new(), Some(why)),
    };
    let is_settled = finished.iter().all(|one| one.is_settled());
    Ok(Undone { sentences, is_settled, ignored, refused })
}
