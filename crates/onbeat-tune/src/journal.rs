//! The list of changes on disk, written before each change.
//!
//! One file per transaction, append-only, a JSON value per line: a head, then per change an
//! `intent` (synced before the change is made), a `done` with the value read back, and later
//! perhaps `undone`; `kept` ends a transaction whose changes are meant to stay. A torn last line is
//! an intent whose change was never made, or a line that is not needed: undo checks the host, not
//! these lines.
//!
//! The writer holds a lock on the directory, so two onbeats never change one host at once.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::change::{Intent, Outcome, UndoMode, online};
use super::error::TuneError;
use super::host_files::HostFiles;
use super::private;
use super::tasks::{self, TaskId};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const LOCK: &str = "lock";
const OPEN: &str = "journal";
const CLOSED: &str = "closed";
const NEW: &str = "new";

/// The purpose of a transaction, in the user's words.
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

/// The onbeat that changes this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process; 0: unknown.
    pub pid: i32,
    /// Its purpose, such as `bench`.
    pub what: String,
    /// The command as typed, and its start in seconds since 1970; `None` without a readable
    /// journal.
    pub began: Option<(String, u64)>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.began {
            Some((command, at)) => write!(f, "pid {}, `{command}`, since {}", self.pid, utc(*at)),
            None => write!(f, "pid {}, {}", self.pid, self.what),
        }
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
    /// The process that writes it.
    pub owner: TaskId,
    /// Start in seconds since 1970, wall clock.
    pub started_unix_s: u64,
    /// Its purpose, such as `bench`.
    pub purpose: String,
    /// The command line.
    pub command: String,
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
    /// The outcome.
    pub outcome: Outcome,
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

/// The journal's directory by default: `/var/lib/onbeat/journal` for root, else below the state
/// directory.
///
/// `state_home` and `home` are `XDG_STATE_HOME` and `HOME`.
#[must_use]
pub fn default_directory(
    host: &dyn HostFiles,
    state_home: Option<&Path>,
    home: Option<&Path>,
) -> PathBuf {
    match (host.is_root(), state_home, home) {
        (true, ..) => PathBuf::from("/var/lib/onbeat/journal"),
        (false, Some(state), _) => state.join("onbeat/journal"),
        (false, None, home) => home.unwrap_or(Path::new(".")).join(".local/state/onbeat/journal"),
    }
}

/// An open transaction. Dropping it undoes nothing and removes nothing: its changes stay on record.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    length: u64,
    entries: Vec<JournalEntry>,
    next: usize,
    owner: TaskId,
    command: String,
    _lock: Option<DirectoryLock>,
}

impl Journal {
    /// Locks the directory, which is created if necessary, and begins a journal in it.
    ///
    /// # Errors
    /// [`TuneError::Busy`] while another onbeat holds the lock, [`TuneError::Journal`] when the
    /// directory cannot be used, [`TuneError::NotOwn`] and [`TuneError::OpenToOthers`] when others
    /// could have written to it.
    pub fn begin(
        directory: &Path,
        host: &dyn HostFiles,
        purpose: &Purpose,
    ) -> Result<Self, TuneError> {
        private::make_directory(directory)?;
        let owner = tasks::task(host, host.own_pid()).map(|own| own.id);
        let owner = owner.ok_or(TuneError::NoSuchTask { tid: host.own_pid() })?;
        let lock = DirectoryLock::take(directory, owner.tid, &purpose.what)?;
        let head = JournalHead {
            onbeat_journal: 1,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            boot_id: boot_id(host)?,
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
            next: 1,
            owner,
            command: head.command,
            _lock: Some(lock),
        })
    }

    /// Its path.
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
        intent.make(host).map_err(|source| TuneError::Write {
            path: intent.key.name(),
            value: intent.new.clone(),
            source,
        })?;

        let read_back = intent.key.current(host).ok().flatten();
        self.done(step, read_back.as_deref())?;
        Ok(step)
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
        if outcomes.values().any(|outcome| matches!(outcome, Outcome::Failed { .. })) {
            let left: Vec<usize> =
                order.iter().copied().filter(|&at| !self.entries[at].settled).collect();
            for (at, again) in self.undo_in(&left, host, mode) {
                let is_restored = outcomes.get(&at) == Some(&Outcome::Restored);
                if !(is_restored && again == Outcome::Already) {
                    outcomes.insert(at, again);
                }
            }
        }

        let mut undone = Vec::new();
        let mut lines = String::new();
        for at in order {
            let Some(mut outcome) = outcomes.remove(&at) else { continue };
            let entry = &mut self.entries[at];
            if mode == UndoMode::Forget {
                entry.settled = true;
                if !outcome.is_settled() {
                    outcome = Outcome::Forgotten { why: outcome.why() };
                }
            }

            // The outcome of an open change must not read as settled from another process.
            let is_open = outcome.is_settled() && !entry.settled;
            let word = if is_open { "provisional" } else { outcome.word() }.to_owned();
            lines.push_str(&json_line(&JournalLine::Undone { step: entry.step, outcome: word }));
            undone.push(Undone { intent: entry.intent.clone(), outcome });
        }

        if !lines.is_empty() {
            self.append(&lines, Sync::Later)?;
        }

        Ok(undone)
    }

    /// Undoes the entries at these places, in this order, once.
    fn undo_in(
        &mut self,
        order: &[usize],
        host: &dyn HostFiles,
        mode: UndoMode,
    ) -> BTreeMap<usize, Outcome> {
        let mut outcomes = BTreeMap::new();
        let mut resets_follow = false;
        for &at in order {
            let outcome = match self.entries[at].intent.undo(host, mode) {
                Outcome::Changed { now } if self.is_earlier_value(at, &now, host) => {
                    Outcome::Already
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

    /// Ends the transaction: removes the file when every change is undone.
    ///
    /// # Errors
    /// [`TuneError::NotAllUndone`] when some are left; the file stays.
    pub fn close(self) -> Result<(), TuneError> {
        let left = self.entries.iter().filter(|entry| !entry.settled).count();
        if left > 0 {
            return Err(TuneError::NotAllUndone {
                left,
                steps: self.entries.len(),
                path: self.path,
            });
        }
        remove(&self.path)
    }

    /// Ends the transaction and keeps its changes: only [`crate::repair::undo`] undoes them, not a
    /// repair.
    ///
    /// # Errors
    /// [`TuneError::Journal`] when that could not be recorded.
    pub fn keep(mut self) -> Result<PathBuf, TuneError> {
        self.append(&json_line(&JournalLine::Kept), Sync::Wait)?;
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
    text_length: u64,
    ends_torn: bool,
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
            text_length: bytes.len() as u64,
            ends_torn: !text.is_empty() && !text.ends_with('\n'),
            entries: Vec::new(),
        };

        for line in lines.filter(|line| line.trim() != "") {
            match serde_json::from_str(line) {
                Ok(note) => found.take(note),
                // Only the last line may be torn, and its change was not made.
                Err(_) if !line.ends_with('\n') => {}
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
            JournalLine::Undone { step, outcome } if Outcome::is_word_of_settled(&outcome) => {
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

    /// The changes that are not undone.
    pub(super) fn open_intents(&self) -> impl Iterator<Item = &Intent> {
        self.entries.iter().filter(|entry| !entry.settled).map(|entry| &entry.intent)
    }

    /// Opens the journal for undo. The caller holds the lock.
    pub(super) fn reopen(self, head: &JournalHead) -> Result<Journal, TuneError> {
        let open = |source| journal_error("write", &self.path, source);
        let mut file = private::open(&self.path, OpenOptions::new().append(true)).map_err(open)?;
        if self.ends_torn {
            file.write_all(b"\n").map_err(open)?;
        }

        let next = self.entries.iter().map(|entry| entry.step).max().unwrap_or(0) + 1;
        let length = self.text_length + u64::from(self.ends_torn);
        Ok(Journal {
            file,
            path: self.path,
            length,
            entries: self.entries,
            next,
            owner: head.owner,
            command: head.command.clone(),
            _lock: None,
        })
    }
}

/// The lock on a directory of journals, held until dropped.
#[derive(Debug)]
pub(super) struct DirectoryLock(File);

impl Drop for DirectoryLock {
    /// Closing the file is not enough: a process that another thread is just forking shares the
    /// descriptor until it executes its program, and would hold the lock until then.
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

impl DirectoryLock {
    pub(super) fn take(directory: &Path, pid: i32, what: &str) -> Result<Self, TuneError> {
        let path = directory.join(LOCK);
        let error = |source| journal_error("lock", &path, source);
        let mut file =
            private::open(&path, OpenOptions::new().write(true).create(true).truncate(false))
                .map_err(error)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(TuneError::Busy(holder(directory, &path))),
            Err(errno) => return Err(error(errno.into())),
        }

        file.set_len(0).and_then(|()| writeln!(file, "{pid} {what}")).map_err(error)?;
        Ok(Self(file))
    }
}

fn holder(directory: &Path, lock: &Path) -> Holder {
    let text = fs::read_to_string(lock).unwrap_or_default();
    let (pid, what) = text.trim().split_once(' ').unwrap_or(("0", "unknown purpose"));
    let pid = pid.parse().unwrap_or(0);
    let head = heads(directory).into_iter().find(|head| head.owner.tid == pid);
    Holder {
        pid,
        what: what.to_owned(),
        began: head.map(|head| (head.command, head.started_unix_s)),
    }
}

/// Heads of the readable open journals, newest first.
fn heads(directory: &Path) -> Vec<JournalHead> {
    let open = list(directory).map(|listed| listed.open).unwrap_or_default();
    open.iter().filter_map(|path| JournalFile::read(path).ok()?.head).collect()
}

/// The living onbeat that changes `host` with a journal in `directory`. Takes no lock, so it blocks
/// no other process.
#[must_use]
pub fn at_work(directory: &Path, host: &dyn HostFiles) -> Option<Holder> {
    let head = heads(directory).into_iter().find(|head| tasks::is_alive(host, head.owner))?;
    Some(Holder {
        pid: head.owner.tid,
        what: head.purpose,
        began: Some((head.command, head.started_unix_s)),
    })
}

/// The journals in a directory, newest first, and leftovers of ended ones.
pub(super) struct JournalDirectory {
    pub(super) open: Vec<PathBuf>,
    pub(super) leftovers: Vec<PathBuf>,
}

pub(super) fn list(directory: &Path) -> Result<JournalDirectory, TuneError> {
    let mut listed = JournalDirectory { open: Vec::new(), leftovers: Vec::new() };
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(listed),
        Err(source) => return Err(journal_error("read", directory, source)),
    };

    for path in entries.flatten().map(|entry| entry.path()) {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some(OPEN) => listed.open.push(path),
            Some(CLOSED | NEW) => listed.leftovers.push(path),
            _ => {}
        }
    }

    listed.open.sort();
    listed.open.reverse();
    Ok(listed)
}

/// Removes an ended journal. The rename marks the end even when the removal is interrupted.
pub(super) fn remove(path: &Path) -> Result<(), TuneError> {
    let closed = path.with_extension(CLOSED);
    fs::rename(path, &closed)
        .and_then(|()| fs::remove_file(&closed))
        .map_err(|source| journal_error("remove", path, source))
}

pub(super) fn boot_id(host: &dyn HostFiles) -> Result<String, TuneError> {
    let text = host
        .read(BOOT_ID)
        .map_err(|source| TuneError::Read { path: BOOT_ID.to_owned(), source })?;
    Ok(text.trim().to_owned())
}

pub(super) fn journal_error(doing: &'static str, path: &Path, source: io::Error) -> TuneError {
    TuneError::Journal { doing, path: path.to_owned(), source }
}

fn json_line(value: &impl Serialize) -> String {
    // Serialising texts, numbers and lists of them cannot fail.
    serde_json::to_string(value).map(|json| json + "\n").unwrap_or_default()
}

fn free_path(directory: &Path, head: &JournalHead) -> PathBuf {
    let stamp =
        utc(head.started_unix_s).replace(['-', ':'], "").replacen(' ', "T", 1).replace(" UTC", "Z");
    let named = |nth: u32| directory.join(format!("{stamp}-{}-{nth:02}.{OPEN}", head.owner.tid));
    (1..).map(named).find(|path| !path.exists()).unwrap_or_else(|| named(0))
}

/// Whether a journal of the process `pid` is open in a directory.
#[must_use]
pub fn is_open(directory: &Path, pid: i32) -> bool {
    let owned = |path: &PathBuf| {
        JournalFile::read(path)
            .is_ok_and(|found| found.head.is_some_and(|head| head.owner.tid == pid))
    };
    list(directory).is_ok_and(|listed| listed.open.iter().any(owned))
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Seconds since 1970 as `2026-11-21 08:10:02 UTC`.
pub(super) fn utc(unix_s: u64) -> String {
    let days = unix_s / 86_400;
    let second_of_day = unix_s % 86_400;
    // Years of 365.2425 days from 1 March 0000, so that the leap day is the last of its year
    // (Hinnant, "chrono-Compatible Low-Level Date Algorithms").
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let hour = second_of_day / 3_600;
    let minute = second_of_day / 60 % 60;
    let second = second_of_day % 60;

    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_since_1970_read_as_a_date() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_795_248_602), "2026-11-21 08:10:02 UTC");
    }
}
