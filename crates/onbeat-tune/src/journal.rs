//! The list of changes on disk, written before each change.
//!
//! One file per transaction, append-only, a JSON value per line: a head, then per change an
//! `intent` (synced before the change is made), a `done` with the value read back, and later
//! perhaps `undone`; `kept` ends a transaction whose changes are meant to stay. A torn last line is
//! an intent whose change was never made, or a line that is not needed: undo checks the host, not
//! these lines.
//!
//! The writer holds a lock on the directory, so two onbeats never change one host at once.

mod directory;

pub use super::holder::Holder;
pub use directory::{at_work, default_directory, is_open, own_directory};

pub(crate) use directory::{BESIDE, DirectoryLock, UNDO, is_left_by, list, remove};

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use onbeat_host::machine::lasting_id;
use serde::{Deserialize, Serialize};

use self::directory::{BEGIN, NEW, free_path, sync_directory};
use super::change::{ChangeOutcome, Intent, UndoMode, online};
use super::error::{TuneError, journal_error};
use super::guard::Guard;
use super::host_files::HostFiles;
use super::private;
use super::tasks::{self, TaskId};
use super::utc::utc;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Version of the format that is written and undone.
pub(super) const FORMAT: u32 = 1;

/// The purpose of a transaction, in the user's words.
///
/// ```
/// use onbeat_tune::Purpose;
///
/// let purpose = Purpose::new("bench", "onbeat bench --tuning C --cpu 3");
/// assert_eq!(purpose.what, "bench");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purpose {
    /// A noun, such as `bench`.
    pub what: String,
    /// The command line as typed.
    pub command: String,
}

impl Purpose {
    /// A purpose from its noun and the command line.
    pub fn new(what: impl Into<String>, command: impl Into<String>) -> Self {
        Self { what: what.into(), command: command.into() }
    }
}

/// The head of a journal: its owner and its boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalHead {
    /// Version of the format, 1.
    pub onbeat_journal: u32,
    /// Version of onbeat.
    pub version: String,
    /// The boot it was written in.
    pub boot_id: String,
    /// The machine that it is of ([`lasting_id`]), where it has an id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The process that writes it.
    pub owner: TaskId,
    /// Start in seconds since 1970, wall clock.
    pub started_unix_s: u64,
    /// Its purpose, such as `bench`.
    pub purpose: String,
    /// The command line.
    pub command: String,
}

impl JournalHead {
    /// Whether it is of another machine, as far as both have an id: a home may be on a network.
    #[must_use]
    pub fn is_of_other_machine(&self) -> bool {
        matches!((&self.machine, lasting_id()), (Some(its), Some(own)) if *its != own)
    }

    /// Returns when it was begun: `2026-11-21 08:10:02 UTC`.
    #[must_use]
    pub fn started(&self) -> String {
        utc(self.started_unix_s)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum JournalLine {
    Intent {
        step: usize,
        #[serde(flatten)]
        intent: Intent,
    },
    Done {
        step: usize,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        read_back: Option<String>,
    },
    Undone {
        step: usize,
        outcome: String,
    },
    Kept,
}

/// A change and the outcome of its undo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undone {
    /// The change.
    pub intent: Intent,
    pub outcome: ChangeOutcome,
}

/// Identifies a change within its journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChangeId(usize);

#[derive(Clone, Debug)]
struct JournalEntry {
    step: usize,
    intent: Intent,
    settled: bool,
}

/// An open transaction. Dropping it undoes nothing and removes nothing: its changes stay on record.
///
/// ```
/// use onbeat_tune::change::Kind;
/// use onbeat_tune::{Intent, Journal, Key, LiveHost, Purpose, UndoMode};
///
/// // A file of our own here; `/proc/sys/vm/swappiness`, for example, on a machine.
/// let directory = tempfile::tempdir()?;
/// let file = directory.path().join("setting");
/// std::fs::write(&file, "60")?;
///
/// let host = LiveHost::new();
/// let purpose = Purpose::new("example", "my-program");
/// let mut journal = Journal::begin(&directory.path().join("journal"), &host, &purpose)?;
/// let path = file.display().to_string();
/// let key = Key::File { path, kind: Kind::Text, shown_in: None };
/// journal.change(&host, &Intent::new("mem.swappiness", key, "60", "10"))?;
/// assert_eq!(std::fs::read_to_string(&file)?, "10");
///
/// journal.undo_all(&host, UndoMode::Careful)?;
/// journal.close()?;
/// assert_eq!(std::fs::read_to_string(&file)?, "60");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    length: u64,
    entries: Vec<JournalEntry>,
    damaged_lines: usize,
    next: usize,
    owner: TaskId,
    command: String,
    guard: Option<Guard>,
    _lock: Option<DirectoryLock>,
}

impl Journal {
    /// Locks the directory, which is created if necessary, and begins a journal in it. It is guarded
    /// where this program answers as a guard ([`crate::guard::answer`]).
    ///
    /// # Errors
    /// [`TuneError::Busy`] while another onbeat holds the lock, [`TuneError::Journal`] when the
    /// directory cannot be used, [`TuneError::NotOwn`] and [`TuneError::OpenToOthers`] when others
    /// could have written to it, [`TuneError::Guard`] when no guard can be started.
    pub fn begin(
        directory: &Path,
        host: &dyn HostFiles,
        purpose: &Purpose,
    ) -> Result<Self, TuneError> {
        private::make_directory(directory)?;
        let lock = DirectoryLock::take(directory, host, &purpose.what)?;
        Self::begin_locked(directory, host, purpose, Some(lock))
    }

    /// Begins a journal of objects that the run makes for itself, such as interfaces. It has no
    /// lock: any number of runs have such a journal at once, beside one that changes the machine.
    ///
    /// # Errors
    /// As [`Journal::begin`].
    pub fn begin_beside(
        directory: &Path,
        host: &dyn HostFiles,
        purpose: &Purpose,
    ) -> Result<Self, TuneError> {
        private::make_directory(directory)?;
        let directory = directory.join(BESIDE);
        private::make_directory(&directory)?;
        // Until the journal is complete: an undo removes what is incomplete.
        let _complete = DirectoryLock::take(&directory, host, BEGIN)?;
        Self::begin_locked(&directory, host, purpose, None)
    }

    fn begin_locked(
        directory: &Path,
        host: &dyn HostFiles,
        purpose: &Purpose,
        lock: Option<DirectoryLock>,
    ) -> Result<Self, TuneError> {
        let owner = tasks::task(host, host.own_pid()).map(|own| own.id);
        let owner = owner.ok_or(TuneError::NoSuchTask { tid: host.own_pid() })?;
        let guard = Guard::start(owner, directory).map_err(TuneError::Guard)?;
        let head = JournalHead {
            onbeat_journal: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            boot_id: boot_id(host)?,
            machine: lasting_id(),
            owner,
            started_unix_s: host.unix_seconds(),
            purpose: purpose.what.clone(),
            command: purpose.command.clone(),
        };

        let path = free_path(directory, &head);
        let new = path.with_extension(NEW);
        let create = |source| journal_error("create", &path, source);
        let mut file =
            private::open(&new, OpenOptions::new().write(true).create(true).truncate(true))
                .map_err(create)?;
        let line = json_line(&head);
        file.write_all(line.as_bytes()).and_then(|()| file.sync_data()).map_err(create)?;
        fs::rename(&new, &path).and_then(|()| sync_directory(directory)).map_err(create)?;
        let length = line.len() as u64;

        Ok(Self {
            file,
            path,
            length,
            entries: Vec::new(),
            damaged_lines: 0,
            next: 1,
            owner,
            command: head.command,
            guard,
            _lock: lock,
        })
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The process that owns it.
    #[must_use]
    pub const fn owner(&self) -> TaskId {
        self.owner
    }

    /// The command line of its owner.
    #[must_use]
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Records a change on disk before it is made.
    ///
    /// # Errors
    /// [`TuneError::Journal`]; then the change must not be made.
    pub fn intend(&mut self, intent: Intent) -> Result<ChangeId, TuneError> {
        let steps = self.intend_all(vec![intent])?;
        Ok(steps.last().copied().unwrap_or(ChangeId(self.next)))
    }

    /// Records several changes on disk with one sync.
    ///
    /// # Errors
    /// [`TuneError::Journal`]; then none of the changes must be made.
    pub fn intend_all(&mut self, intents: Vec<Intent>) -> Result<Vec<ChangeId>, TuneError> {
        if intents.is_empty() {
            return Ok(Vec::new());
        }

        let first = self.next;
        let entries: Vec<JournalEntry> = (first..)
            .zip(intents)
            .map(|(step, intent)| JournalEntry { step, intent, settled: false })
            .collect();
        let notes = entries
            .iter()
            .map(|entry| JournalLine::Intent { step: entry.step, intent: entry.intent.clone() });
        let lines: String = notes.map(|note| json_line(&note)).collect();
        self.append(&lines, Sync::Wait)?;
        self.next += entries.len();
        self.entries.extend(entries);

        Ok((first..self.next).map(ChangeId).collect())
    }

    /// Records that a change was made, with the value read back.
    ///
    /// # Errors
    /// [`TuneError::Journal`]; the change itself can still be undone.
    pub fn done(&mut self, step: ChangeId, read_back: Option<&str>) -> Result<(), TuneError> {
        let read_back = read_back.map(|text| text.trim().to_owned());
        self.append(&json_line(&JournalLine::Done { step: step.0, read_back }), Sync::Later)
    }

    /// Records a change on disk, makes it, and reads it back.
    ///
    /// # Errors
    /// [`TuneError::Journal`] when it could not be recorded, [`TuneError::Write`] when the host
    /// refused it.
    pub fn change(&mut self, host: &dyn HostFiles, intent: &Intent) -> Result<ChangeId, TuneError> {
        let step = self.intend(intent.clone())?;
        self.make(host, step, intent)?;
        Ok(step)
    }

    /// Makes a change that is on record, and reads it back.
    pub(super) fn make(
        &mut self,
        host: &dyn HostFiles,
        step: ChangeId,
        intent: &Intent,
    ) -> Result<(), TuneError> {
        intent.make(host).map_err(|source| TuneError::Write {
            path: intent.key.name(),
            value: intent.new.clone(),
            source,
        })?;

        let read_back = intent.key.current(host).ok().flatten();
        self.done(step, read_back.as_deref())
    }

    /// Undoes the changes in `steps` that are not yet undone, newest first; affinities last,
    /// because cpusets bound them. What the host refuses is tried once more at the end.
    ///
    /// # Errors
    /// [`TuneError::Journal`] when the result could not be recorded. The outcome of each change is
    /// returned.
    pub fn undo(
        &mut self,
        host: &dyn HostFiles,
        steps: &[ChangeId],
        mode: UndoMode,
    ) -> Result<Vec<Undone>, TuneError> {
        let chosen: Vec<usize> = steps.iter().map(|step| step.0).collect();
        self.undo_where(host, mode, |entry| chosen.contains(&entry.step))
    }

    /// Undoes all changes.
    ///
    /// # Errors
    /// As [`Journal::undo`].
    pub fn undo_all(
        &mut self,
        host: &dyn HostFiles,
        mode: UndoMode,
    ) -> Result<Vec<Undone>, TuneError> {
        self.undo_where(host, mode, |_| true)
    }

    fn undo_where(
        &mut self,
        host: &dyn HostFiles,
        mode: UndoMode,
        chosen: impl Fn(&JournalEntry) -> bool,
    ) -> Result<Vec<Undone>, TuneError> {
        let mut order: Vec<usize> = (0..self.entries.len()).rev().collect();
        order.retain(|&at| !self.entries[at].settled && chosen(&self.entries[at]));
        order.sort_by_key(|&at| self.entries[at].intent.key.is_bounded_by_cpusets());
        let mut outcomes = self.undo_in(&order, host, mode);

        // A refusal may be over by now, or was due to a change that has been undone since.
        if outcomes.values().any(|outcome| matches!(outcome, ChangeOutcome::Failed { .. })) {
            let left: Vec<usize> =
                order.iter().copied().filter(|&at| !self.entries[at].settled).collect();
            for (at, again) in self.undo_in(&left, host, mode) {
                let is_restored = outcomes.get(&at) == Some(&ChangeOutcome::Restored);
                if !(is_restored && again == ChangeOutcome::Already) {
                    outcomes.insert(at, again);
                }
            }
        }

        if mode == UndoMode::Forget {
            self.damaged_lines = 0;
        }
        let mut undone = Vec::new();
        let mut lines = String::new();
        for at in order {
            let Some(mut outcome) = outcomes.remove(&at) else { continue };
            let entry = &mut self.entries[at];
            if mode == UndoMode::Forget {
                entry.settled = true;
                if !outcome.is_settled() {
                    outcome = ChangeOutcome::Forgotten { why: outcome.why() };
                }
            }

            // The outcome of an open change must not read as settled from another process.
            let is_open = outcome.is_settled() && !entry.settled;
            let word = if is_open { "provisional" } else { outcome.word() }.to_owned();
            lines.push_str(&json_line(&JournalLine::Undone { step: entry.step, outcome: word }));
            undone.push(Undone { intent: entry.intent.clone(), outcome });
        }

        if !lines.is_empty() {
            let recorded = self.append(&lines, Sync::Later);
            // Once all is settled the file goes, which a full disk does not hinder.
            if self.entries.iter().any(|entry| !entry.settled) {
                recorded?;
            }
        }

        Ok(undone)
    }

    /// Undoes the entries at these places, in this order, once.
    fn undo_in(
        &mut self,
        order: &[usize],
        host: &dyn HostFiles,
        mode: UndoMode,
    ) -> BTreeMap<usize, ChangeOutcome> {
        let mut outcomes = BTreeMap::new();
        let mut resets_follow = false;
        for &at in order {
            let outcome = match self.entries[at].intent.undo(host, mode) {
                ChangeOutcome::Changed { now } if self.is_earlier_value(at, &now, host) => {
                    ChangeOutcome::Already
                }
                outcome => outcome,
            };

            let entry = &mut self.entries[at];
            let key = &entry.intent.key;
            resets_follow |= !outcome.is_settled() && key.resets_affinities();
            // An affinity restored now would be forgotten when the controller is disabled later.
            let is_final = !(resets_follow && key.is_bounded_by_cpusets());
            entry.settled = outcome.is_settled() && is_final;
            outcomes.insert(at, outcome);
        }

        outcomes
    }

    /// Whether `now` is a value that an earlier change of the same setting found or set. Then an undo
    /// that was cut off has already undone the entry at `at`.
    fn is_earlier_value(&self, at: usize, now: &str, host: &dyn HostFiles) -> bool {
        let key = &self.entries[at].intent.key;
        let online = online(host);
        self.entries[..at].iter().map(|entry| &entry.intent).any(|earlier| {
            earlier.key.is_same_setting(key)
                && (earlier.same(now, &earlier.old, &online) || earlier.is_ours(now, &online))
        })
    }

    /// Ends the transaction: removes the file when every change is undone. Lines that cannot be read
    /// may hold a change that is not.
    ///
    /// # Errors
    /// [`TuneError::NotAllUndone`] when some are left; the file stays.
    pub fn close(mut self) -> Result<(), TuneError> {
        let unsettled = self.entries.iter().filter(|entry| !entry.settled).count();
        let left = unsettled + self.damaged_lines;
        let removed = if left > 0 {
            let steps = self.entries.len() + self.damaged_lines;
            Err(TuneError::NotAllUndone { left, steps, path: self.path.clone() })
        } else {
            remove(&self.path)
        };

        // What the host refuses to this process it refuses to the guard too.
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
        removed
    }

    /// Ends the transaction and keeps its changes: only [`crate::repair::undo`] undoes them, not a
    /// repair.
    ///
    /// # Errors
    /// [`TuneError::Journal`] when that could not be recorded.
    pub fn keep(mut self) -> Result<PathBuf, TuneError> {
        self.append(&json_line(&JournalLine::Kept), Sync::Wait)?;
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
        Ok(self.path)
    }

    fn append(&mut self, lines: &str, sync: Sync) -> Result<(), TuneError> {
        let written = self.file.write_all(lines.as_bytes()).and_then(|()| match sync {
            Sync::Wait => self.file.sync_data(),
            Sync::Later => Ok(()),
        });
        match written {
            Ok(()) => {
                self.length += lines.len() as u64;
                Ok(())
            }
            Err(source) => {
                // Later lines must not continue half a line. If this fails too, the line is skipped
                // when read.
                let _ = self.file.set_len(self.length);
                let _ = self.file.seek(SeekFrom::Start(self.length));
                Err(journal_error("write", &self.path, source))
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Sync {
    Wait,
    Later,
}

/// A journal read from disk.
#[derive(Debug)]
pub(super) struct JournalFile {
    pub(super) head: Option<JournalHead>,
    pub(super) kept: bool,
    pub(super) damaged_lines: usize,
    pub(super) path: PathBuf,
    /// Without a torn last line.
    length: u64,
    /// Whether the newline of the last line is missing.
    is_unended: bool,
    entries: Vec<JournalEntry>,
}

impl JournalFile {
    pub(super) fn read(path: &Path) -> Result<Self, TuneError> {
        let bytes = private::read(path)?;
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.split_inclusive('\n');
        let mut found = Self {
            head: lines.next().and_then(|line| serde_json::from_str(line).ok()),
            kept: false,
            damaged_lines: 0,
            path: path.to_owned(),
            length: bytes.len() as u64,
            is_unended: !text.is_empty() && !text.ends_with('\n'),
            entries: Vec::new(),
        };

        for line in lines.filter(|line| line.trim() != "") {
            match serde_json::from_str(line) {
                Ok(note) => found.take(note),
                // Only the last line may be torn, and its change was not made.
                Err(_) if !line.ends_with('\n') => {
                    let end = bytes.iter().rposition(|&byte| byte == b'\n');
                    found.length = end.map_or(0, |at| at as u64 + 1);
                    found.is_unended = false;
                }
                Err(_) => found.damaged_lines += 1,
            }
        }

        Ok(found)
    }

    fn take(&mut self, note: JournalLine) {
        match note {
            JournalLine::Intent { step, intent } => {
                self.entries.push(JournalEntry { step, intent, settled: false });
            }
            JournalLine::Undone { step, outcome }
                if ChangeOutcome::is_word_of_settled(&outcome) =>
            {
                if let Some(entry) = self.entries.iter_mut().find(|entry| entry.step == step) {
                    entry.settled = true;
                }
            }
            JournalLine::Done { .. } | JournalLine::Undone { .. } => {}
            JournalLine::Kept => self.kept = true,
        }
    }

    pub(super) fn steps(&self) -> usize {
        self.entries.len()
    }

    /// Refuses changes without a head: their owner and boot are unknown.
    pub(super) fn check_head(&self) -> Result<(), TuneError> {
        let steps = self.steps() + self.damaged_lines;
        if self.head.is_none() && steps > 0 {
            return Err(TuneError::Headless { path: self.path.clone(), steps });
        }
        Ok(())
    }

    /// The changes that are not undone.
    pub(super) fn open_intents(&self) -> impl Iterator<Item = &Intent> {
        self.entries.iter().filter(|entry| !entry.settled).map(|entry| &entry.intent)
    }

    /// Opens the journal for undo, without a torn last line: behind it, it would read as damage in
    /// the middle. The caller holds the lock.
    pub(super) fn reopen(self, head: &JournalHead) -> Result<Journal, TuneError> {
        let open = |source| journal_error("write", &self.path, source);
        let mut file = private::open(&self.path, OpenOptions::new().append(true)).map_err(open)?;
        file.set_len(self.length).map_err(open)?;
        if self.is_unended {
            file.write_all(b"\n").map_err(open)?;
        }

        let next = self.entries.iter().map(|entry| entry.step).max().unwrap_or(0) + 1;
        let length = self.length + u64::from(self.is_unended);
        Ok(Journal {
            file,
            path: self.path,
            length,
            entries: self.entries,
            damaged_lines: self.damaged_lines,
            next,
            owner: head.owner,
            command: head.command.clone(),
            guard: None,
            _lock: None,
        })
    }
}

pub(super) fn boot_id(host: &dyn HostFiles) -> Result<String, TuneError> {
    let text = host
        .read(BOOT_ID)
        .map_err(|source| TuneError::Read { path: BOOT_ID.to_owned(), source })?;
    Ok(text.trim().to_owned())
}

fn json_line(value: &impl Serialize) -> String {
    // Serialising texts, numbers and lists of them cannot fail.
    serde_json::to_string(value).map(|json| json + "\n").unwrap_or_default()
}
