//! Undo of changes left by an interrupted onbeat.
//!
//! A journal is undone when its owner is dead and the boot is still the same. A reboot reverts the
//! changes by itself. The journal of a living owner is in use; one that was kept on purpose waits
//! for an explicit undo. That of another machine, in a home that several share, is left to it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::change::{ChangeOutcome, UndoMode};
use super::error::{TuneError, journal_error};
use super::host_files::HostFiles;
use super::journal::{self, DirectoryLock, JournalFile, JournalHead, Undone};
use super::private;
use super::tasks;

/// The outcome of repairing one journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// Its path, also when it has been removed.
    pub path: PathBuf,
    /// Its head; `None` when that could not be read and no change followed it.
    pub head: Option<JournalHead>,
    /// The action taken.
    pub ending: Ending,
    /// Number of unreadable lines in the middle: unknown changes.
    pub damaged_lines: usize,
    /// Whether the file stays, because it holds what is not undone.
    pub stays: bool,
}

/// The action taken on a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its changes were undone one by one, and the file was removed unless some are left or
    /// unreadable.
    Undone(Vec<Undone>),
    /// It was written before this boot, which reverted its changes; the file was removed.
    EarlierBoot,
    /// It holds no changes: the file was removed.
    Empty,
    /// Its owner is running; not touched.
    InUse {
        /// The owner.
        pid: i32,
    },
}

/// Which journals are undone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JournalSelection {
    DeadOnes,
    DeadAndKept,
}

/// Undoes what dead onbeats have left on this host, newest first. Call it before anything is
/// changed or measured.
///
/// While another onbeat holds the lock nothing is undone, and the result is [`Ending::InUse`]: that
/// process undid the rest when it started.
///
/// # Errors
/// [`TuneError::Journal`] when the directory or a journal cannot be used, [`TuneError::Headless`] and
/// [`TuneError::OtherFormat`] when a journal cannot be judged, [`TuneError::NotOwn`] and
/// [`TuneError::OpenToOthers`] when another user may have written it. All other journals are undone
/// first.
///
/// ```no_run
/// use std::path::Path;
/// use onbeat_tune::{LiveHost, repair};
///
/// for repaired in repair(Path::new("/var/lib/onbeat/journal"), &LiveHost::new())? {
///     println!("{}: {:?}", repaired.path.display(), repaired.ending);
/// }
/// # Ok::<(), onbeat_tune::TuneError>(())
/// ```
pub fn repair(directory: &Path, host: &dyn HostFiles) -> Result<Vec<Repaired>, TuneError> {
    repair_as(directory, host, UndoMode::Careful)
}

/// As [`repair`], with a `mode` for settings that another program has changed since or that cannot
/// be restored.
///
/// # Errors
/// As [`repair`].
pub fn repair_as(
    directory: &Path,
    host: &dyn HostFiles,
    mode: UndoMode,
) -> Result<Vec<Repaired>, TuneError> {
    // Neither of the two keeps the other from being undone.
    let beside = take_up_beside(directory, host, JournalSelection::DeadOnes, mode);
    let repaired = match take_up(directory, host, JournalSelection::DeadOnes, mode) {
        Err(TuneError::Busy(holder)) => {
            let ending = Ending::InUse { pid: holder.pid };
            let path = directory.to_owned();
            vec![Repaired { path, head: None, ending, damaged_lines: 0, stays: true }]
        }
        repaired => repaired?,
    };
    Ok([repaired, beside?].concat())
}

/// Undoes everything on record, newest first, after a comparison: what dead onbeats left, and what
/// was kept on purpose. What another program has changed since stays, and is reported.
///
/// What the host refuses is tried once more after the rest. What it refuses again stays on record
/// as well, and a later undo restores it.
///
/// # Errors
/// As [`repair`], and [`TuneError::Busy`] while another onbeat is running.
pub fn undo(
    directory: &Path,
    host: &dyn HostFiles,
    mode: UndoMode,
) -> Result<Vec<Repaired>, TuneError> {
    let beside = take_up_beside(directory, host, JournalSelection::DeadAndKept, mode);
    Ok([take_up(directory, host, JournalSelection::DeadAndKept, mode)?, beside?].concat())
}

/// Undoes what one journal holds, kept or not, and leaves what others hold: the changes of one
/// apply ([`crate::apply::Applied::journal`]). `None` where it does not exist.
///
/// # Errors
/// As [`undo`].
pub fn undo_one(
    path: &Path,
    host: &dyn HostFiles,
    mode: UndoMode,
) -> Result<Option<Repaired>, TuneError> {
    let Some(directory) = path.parent().filter(|_| path.exists()) else { return Ok(None) };
    private::check_directory(directory)?;
    let _lock = DirectoryLock::take(directory, host, journal::UNDO)?;
    let boot_id = journal::boot_id(host)?;
    settle(path, host, &boot_id, (JournalSelection::DeadAndKept, mode))
}

/// Takes up the journals that exclude nobody. Those of living runs are none of ours.
fn take_up_beside(
    directory: &Path,
    host: &dyn HostFiles,
    selection: JournalSelection,
    mode: UndoMode,
) -> Result<Vec<Repaired>, TuneError> {
    let mut repaired = take_up(&directory.join(journal::BESIDE), host, selection, mode)?;
    repaired.retain(|one| !matches!(one.ending, Ending::InUse { .. }));
    Ok(repaired)
}

fn take_up(
    directory: &Path,
    host: &dyn HostFiles,
    selection: JournalSelection,
    mode: UndoMode,
) -> Result<Vec<Repaired>, TuneError> {
    if !directory.is_dir() {
        return match selection {
            // A user whose home is closed, as in a container, can measure without it.
            JournalSelection::DeadOnes => Ok(Vec::new()),
            JournalSelection::DeadAndKept => journal::list(directory).map(|_| Vec::new()),
        };
    }

    private::check_directory(directory)?;
    let _lock = DirectoryLock::take(directory, host, journal::UNDO)?;
    let listed = journal::list(directory)?;
    for leftover in &listed.leftovers {
        fs::remove_file(leftover).map_err(|source| journal_error("remove", leftover, source))?;
    }

    let boot_id = journal::boot_id(host)?;
    let mut repaired = Vec::new();
    let mut refused = None;
    for path in &listed.open {
        match settle(path, host, &boot_id, (selection, mode)) {
            Ok(Some(one)) => repaired.push(one),
            Ok(None) => {}
            // One that cannot be read, judged or trusted must not block the undo of the others.
            Err(error) => refused = Some(error),
        }
    }

    refused.map_or(Ok(repaired), Err)
}

fn settle(
    path: &Path,
    host: &dyn HostFiles,
    boot_id: &str,
    (selection, mode): (JournalSelection, UndoMode),
) -> Result<Option<Repaired>, TuneError> {
    let found = JournalFile::read(path)?;
    found.check_head()?;
    let damaged_lines = found.damaged_lines;
    let repaired = |head, ending| {
        let stays = matches!(ending, Ending::InUse { .. });
        Some(Repaired { path: path.to_owned(), head, ending, damaged_lines, stays })
    };
    let Some(head) = found.head.clone() else {
        journal::remove(path)?;
        return Ok(repaired(None, Ending::Empty));
    };

    if head.boot_id != boot_id {
        // The changes are on a machine that this one cannot reach; the other machine undoes them. In
        // one boot the machine is one, whatever id a container on it has.
        if head.is_of_other_machine() {
            return Ok(None);
        }
        journal::remove(path)?;
        return Ok(repaired(Some(head), Ending::EarlierBoot));
    }

    if found.kept && selection == JournalSelection::DeadOnes {
        return Ok(None);
    }

    if !found.kept && tasks::is_alive(host, head.owner) {
        let pid = head.owner.tid;
        return Ok(repaired(Some(head), Ending::InUse { pid }));
    }

    if head.onbeat_journal != journal::FORMAT {
        let (format, version) = (head.onbeat_journal, head.version);
        return Err(TuneError::OtherFormat { path: path.to_owned(), format, version });
    }

    if found.steps() == 0 && damaged_lines == 0 {
        journal::remove(path)?;
        return Ok(repaired(Some(head), Ending::Empty));
    }

    let mut journal = found.reopen(&head)?;
    let undone = journal.undo_all(host, mode)?;
    let stays = match journal.close() {
        Ok(()) => false,
        Err(TuneError::NotAllUndone { .. }) => true,
        Err(error) => return Err(error),
    };
    let repaired = repaired(Some(head), Ending::Undone(undone));
    Ok(repaired.map(|one| Repaired { stays, ..one }))
}

impl Repaired {
    /// Whether it needs no further action.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        !self.stays
    }

    /// The lines that could not be read, in a sentence for the user of `command`, which can drop them.
    #[must_use]
    pub fn damage(&self, command: &str) -> Option<String> {
        let lines = match self.damaged_lines {
            1 => "1 line".to_owned(),
            lines => format!("{lines} lines"),
        };
        let path = self.path.display();
        let sentence = if self.stays {
            format!(
                "{lines} of {path} cannot be read: a change may be left that is not undone. Inspect the file; \
                 `{command} --forget` drops it from the record"
            )
        } else {
            format!(
                "dropped {path} from the record: {lines} of it cannot be read, so a change may be left"
            )
        };
        let may_be_left = matches!(self.ending, Ending::Undone(_)) && self.damaged_lines > 0;
        may_be_left.then_some(sentence)
    }

    /// The result in sentences for the user.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = match &self.ending {
            Ending::Undone(undone) => self.undone_sentences(undone),
            Ending::EarlierBoot => {
                vec![format!(
                    "closed the journal of {}: the machine has rebooted since, which reverted its changes",
                    self.who()
                )]
            }
            Ending::Empty => Vec::new(),
            Ending::InUse { pid } => {
                vec![format!("nothing undone: another onbeat (pid {pid}) is running")]
            }
        };

        sentences.extend(self.damage("onbeat repair"));
        sentences
    }

    fn who(&self) -> String {
        self.head.as_ref().map_or_else(
            || "an onbeat".to_owned(),
            |head| {
                let article =
                    if head.purpose.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
                format!("{article} {} started at {}", head.purpose, head.started())
            },
        )
    }

    fn undone_sentences(&self, undone: &[Undone]) -> Vec<String> {
        let mut sentences = Vec::new();
        let restored: Vec<&Undone> =
            undone.iter().filter(|one| one.outcome == ChangeOutcome::Restored).collect();
        if !restored.is_empty() {
            let changes = if restored.len() == 1 { "change" } else { "changes" };
            let what = counted(&restored);
            sentences.push(format!(
                "undid {} {changes} left by {}: {what}",
                restored.len(),
                self.who()
            ));
        }

        for Undone { intent, outcome } in undone {
            let name = intent.key.name();
            let old = intent.old.trim();
            match outcome {
                ChangeOutcome::Changed { now } => sentences.push(format!(
                    "{name} not restored: its value is now \"{now}\", which onbeat did not write; before onbeat it was \"{old}\". \
                     `onbeat repair --force` restores that, `onbeat repair --forget` drops it from the record"
                )),
                ChangeOutcome::Failed { reason } => sentences.push(format!(
                    "could not restore {name} to \"{old}\": {reason}. It stays on record: `onbeat repair` tries again, \
                     `onbeat repair --forget` drops it"
                )),
                ChangeOutcome::Narrowed { given, offline } => sentences.push(format!(
                    "restored {name} to \"{given}\": before onbeat it was \"{old}\", and CPU {offline} is now offline"
                )),
                ChangeOutcome::Forgotten { why } => sentences.push(format!(
                    "dropped {name} from the record: {why}; before onbeat it was \"{old}\""
                )),
                ChangeOutcome::Restored | ChangeOutcome::Already | ChangeOutcome::Gone => {}
            }
        }

        sentences
    }
}

fn counted(undone: &[&Undone]) -> String {
    let mut counts = BTreeMap::new();
    for one in undone {
        *counts.entry(one.intent.key.noun()).or_insert(0_usize) += 1;
    }

    let word = |((one, many), count): (&(&str, &str), &usize)| {
        if *count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
    };
    counts.iter().map(word).collect::<Vec<_>>().join(", ")
}
