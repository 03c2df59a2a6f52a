//! What is applied, since when, by which onbeat.

use std::path::{Path, PathBuf};

use crate::change::online;
use crate::error::TuneError;
use crate::host_files::HostFiles;
use crate::journal::{self, JournalFile, JournalHead};
use crate::tasks;

/// The state of a change on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeState {
    /// It has onbeat's value.
    InEffect,
    /// It has its old value: the change was never made, or somebody has restored it.
    Restored,
    /// Another program has changed it since.
    ChangedSince {
        /// The current value.
        now: String,
    },
    /// The setting no longer exists.
    Gone,
    /// It cannot be read.
    Unknown {
        /// The kernel's error.
        why: String,
    },
}

/// A change on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedChange {
    /// The tuning.
    pub id: String,
    /// The setting, in words.
    pub setting: String,
    /// The value before.
    pub old: String,
    /// onbeat's value.
    pub new: String,
    /// What it has now.
    pub state: ChangeState,
}

/// The changes of one onbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedJournal {
    /// Its journal.
    pub path: PathBuf,
    /// Who and when: version, process, start, command.
    pub head: JournalHead,
    /// Whether it was ended with its changes kept; otherwise its onbeat is at work, or was
    /// interrupted.
    pub is_kept: bool,
    /// Whether its onbeat still runs.
    pub is_running: bool,
    /// Its changes that are not undone, in order.
    pub changes: Vec<AppliedChange>,
    /// Number of unreadable lines in the middle: unknown changes.
    pub damaged_lines: usize,
}

/// Returns what is on record in this boot, newest first. Changes nothing and takes no lock.
///
/// # Errors
/// [`TuneError::Journal`] where the directory cannot be read, [`TuneError::Headless`] where a
/// journal cannot be judged, [`TuneError::NotOwn`] and [`TuneError::OpenToOthers`] where another
/// user may have written it.
pub fn status(host: &dyn HostFiles, directory: &Path) -> Result<Vec<AppliedJournal>, TuneError> {
    let boot_id = journal::boot_id(host)?;
    let mut applied = Vec::new();
    for path in journal::list(directory)?.open {
        let found = match JournalFile::read(&path) {
            // Its onbeat has ended meanwhile.
            Err(_) if !path.exists() => continue,
            found => found?,
        };
        found.check_head()?;
        let Some(head) = found.head.clone().filter(|head| head.boot_id == boot_id) else {
            continue;
        };

        let online = online(host);
        // A setting that was changed twice has the value of the second change.
        let is_ours = |intent: &crate::change::Intent, now: &str| {
            found
                .open_intents()
                .any(|other| other.key.is_same_setting(&intent.key) && other.is_ours(now, &online))
        };
        let state = |intent: &crate::change::Intent| match intent.key.current(host) {
            Ok(None) => ChangeState::Gone,
            Ok(Some(now)) if intent.same(&now, &intent.old, &online) => ChangeState::Restored,
            Ok(Some(now)) if is_ours(intent, &now) || now == "held" || now.is_empty() => {
                ChangeState::InEffect
            }
            Ok(Some(now)) => ChangeState::ChangedSince { now: now.trim().to_owned() },
            Err(error) => ChangeState::Unknown { why: error.to_string() },
        };
        let change = |intent: &crate::change::Intent| AppliedChange {
            id: intent.id.clone(),
            setting: intent.key.name(),
            old: intent.old.clone(),
            new: intent.new.clone(),
            state: state(intent),
        };
        let changes = found.open_intents().map(change).collect();
        let is_running = tasks::is_alive(host, head.owner);
        let (is_kept, damaged_lines) = (found.kept, found.damaged_lines);
        applied.push(AppliedJournal { path, head, is_kept, is_running, changes, damaged_lines });
    }

    Ok(applied)
}
