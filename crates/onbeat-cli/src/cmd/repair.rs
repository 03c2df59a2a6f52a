//! `onbeat repair`: undoes changes left by an interrupted onbeat.

use onbeat::load::kill_session;
use onbeat_control::remove_leftovers;
use onbeat_tune::{LiveHost, UndoMode};

use super::tune::record::kept_sentence;
use super::{ExitVerdict, Failure};
use crate::cli::RepairOptions;
use crate::state::journal_directory;
use crate::term::{Tone, say};

pub(crate) fn run(options: RepairOptions) -> Result<ExitVerdict, Failure> {
    let mode = match options {
        RepairOptions { force: true, .. } => UndoMode::Force,
        RepairOptions { forget: true, .. } => UndoMode::Forget,
        RepairOptions { .. } => UndoMode::Careful,
    };

    let (sentences, settled) = put_back(mode)?;
    if sentences.is_empty() {
        say(Tone::Plain, "nothing to undo: no onbeat was interrupted");
    }

    for sentence in sentences {
        say(Tone::Plain, &sentence);
    }
    if let Some(sentence) = kept_sentence(&LiveHost::new()) {
        say(Tone::Plain, &sentence);
    }

    Ok(if settled { ExitVerdict::Holds } else { ExitVerdict::CouldNot })
}

/// Undoes the changes, and returns what was done, as sentences, and whether nothing is left. While
/// another onbeat runs, its changes are its own.
pub(crate) fn put_back(mode: UndoMode) -> Result<(Vec<String>, bool), Failure> {
    let host = LiveHost::killing_sessions_by(kill_session);
    let repaired = onbeat_tune::repair::repair_as(&journal_directory(), &host, mode)?;
    let finished: Vec<_> = repaired
        .iter()
        .filter(|one| !matches!(one.ending, onbeat_tune::repair::Ending::InUse { .. }))
        .collect();
    let mut sentences: Vec<String> = finished.iter().flat_map(|one| one.sentences()).collect();
    let recorders = onbeat::cause::remove_leftovers();

    if recorders > 0 {
        let noun = if recorders == 1 { "flight recorder" } else { "flight recorders" };
        sentences.push(format!("removed {recorders} {noun} that a killed onbeat had left"));
    }

    let images = remove_leftovers();
    if !images.is_empty() {
        sentences
            .push(format!("removed the images of killed bus processes: {}", images.join(", ")));
    }

    Ok((sentences, finished.iter().all(|one| one.is_settled())))
}
