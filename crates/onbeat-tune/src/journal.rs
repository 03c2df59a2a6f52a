//! The list on disk that is written before anything is changed.
//!
//! One file per transaction, append-only, a JSON value per line: a head, then per change an `intent` (synced before the
//! change is made), a `done` with what was read back, later perhaps `undone`; `kept` ends a transaction whose changes are
//! meant to stay. A torn last line is an intent whose change was never made, or a note that is not needed: undo looks at
//! the host, not at notes.
//!
//! Who writes holds a lock on the directory, so two onbeats never change one host at once.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::change::{Intent, Outcome, UndoMode};
use super::error::TuneError;
use super::host_files::HostFiles;
use super::private;
use super::tasks::{self, TaskId};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const LOCK: &str = "lock";
const OPEN: &str = "journal";
const CLOSED: &str = "closed";
const NEW: &str = "new";

/// What a transaction is for, in the words of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purpose {
    /// A noun that stands behind "a": `bench`.
    pub what: String,
    /// The command line as typed.
    pub command: String,
}

impl Purpose {
    /// `what` is done by `command`.
    pub fn new(what: impl Into<String>, command: impl Into<String>) -> Self {
        Self { what: what.into(), command: command.into() }
    }
}

/// The onbeat that changes this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process, 0 when it did not say.
    pub pid: i32,
    /// What it does: `bench`.
    pub what: String,
    /// The command as typed, and when it began, in seconds since 1970; `None` where its journal does not say.
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

/// The head of a journal: whose it is, and of which boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Version of the format, 1.
    pub onbeat_journal: u32,
    /// Version of onbeat.
    pub version: String,
    /// The boot it was written in.
    pub boot_id: String,
    /// The process that writes it.
    pub owner: TaskId,
    /// When it began, in seconds since 1970, wall clock.
    pub started_unix_s: u64,
    /// What for.
    pub purpose: String,
    /// The command line.
    pub command: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Note {
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

/// What was found of one change when it was taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undone {
    /// The change.
    pub intent: Intent,
    /// What became of it.
    pub outcome: Outcome,
}

/// Names a change within its journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Step(usize);

#[derive(Clone, Debug)]
struct Entry {
    step: usize,
    intent: Intent,
    settled: bool,
}

/// The journal's directory when the user names none: `/var/lib/onbeat/journal` for root, else below the state directory.
///
/// `state_home` and `home` are `XDG_STATE_HOME` and `HOME`.
#[must_use]
pub fn default_directory(host: &dyn HostFiles, state_home: Option<&Path>, home: Option<&Path>) -> PathBuf {
    match (host.is_root(), state_home, home) {
        (true, ..) => PathBuf::from("/var/lib/onbeat/journal"),
        (false, Some(state), _) => state.join("onbeat/journal"),
        (false, None, home) => home.unwrap_or(Path::new(".")).join(".local/state/onbeat/journal"),
    }
}

/// An open transaction. Dropping it undoes nothing and removes nothing: what it has changed stays on record.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    length: u64,
    entries: Vec<Entry>,
    next: usize,
    owner: TaskId,
    command: String,
    _lock: Option<Lock>,
}

impl Journal {
    /// Locks the directory (made if need be) and begins a journal in it.
    ///
    /// # Errors
    /// [`TuneError::Busy`] while another onbeat holds the lock, [`TuneError::Journal`] when the directory cannot be used,
    /// [`TuneError::NotOwn`] and [`TuneError::OpenToOthers`] when others could have written to it.
    pub fn begin(directory: &Path, host: &dyn HostFiles, purpose: &Purpose) -> Result<Self, TuneError> {
        private::make_directory(directory)?;
        let owner = tasks::task(host, host.own_pid()).map(|own| own.id);
        let owner = owner.ok_or(TuneError::NoSuchTask { tid: host.own_pid() })?;
        let lock = Lock::take(directory, owner.tid, &purpose.what)?;
        let head = Head {
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
            private::open(&new, OpenOptions::new().write(true).create(true).truncate(true)).map_err(create)?;
        let line = json_line(&head);
        file.write_all(line.as_bytes()).and_then(|()| file.sync_data()).map_err(create)?;
        fs::rename(&new, &path).and_then(|()| sync_directory(directory)).map_err(create)?;
        let length = line.len() as u64;

        Ok(Self { file, path, length, entries: Vec::new(), next: 1, owner, command: head.command, _lock: Some(lock) })
    }

    /// Where it is on disk.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The process it belongs to.
    #[must_use]
    pub const fn owner(&self) -> TaskId {
        self.owner
    }

    /// The command line it belongs to.
    #[must_use]
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Puts a change on disk that is about to be made.
    ///
    /// # Errors
    /// [`TuneError::Journal`]; then the change must not be made.
    pub fn intend(&mut self, intent: Intent) -> Result<Step, TuneError> {
        let steps = self.intend_all(vec![intent])?;
        Ok(steps.last().copied().unwrap_or(Step(self.next)))
    }

    /// Puts many changes on disk with one sync.
    ///
    /// # Errors
    /// [`TuneError::Journal`]; then none of the changes must be made.
    pub fn intend_all(&mut self, intents: Vec<Intent>) -> Result<Vec<Step>, TuneError> {
        if intents.is_empty() {
            return Ok(Vec::new());
        }

        let first = self.next;
        let entries: Vec<Entry> =
            (first..).zip(intents).map(|(step, intent)| Entry { step, intent, settled: false }).collect();
        let notes = entries.iter().map(|entry| Note::Intent { step: entry.step, intent: entry.intent.clone() });
        let lines: String = notes.map(|note| json_line(&note)).collect();
        self.append(&lines, Sync::Wait)?;
        self.next += entries.len();
        self.entries.extend(entries);

        Ok((first..self.next).map(Step).collect())
    }

    /// Notes that a change was made, with what was read back.
    ///
    /// # Errors
    /// [`TuneError::Journal`]; the change itself can still be undone.
    pub fn done(&mut self, step: Step, read_back: Option<&str>) -> Result<(), TuneError> {
        let read_back = read_back.map(|text| text.trim().to_owned());
        self.append(&json_line(&Note::Done { step: step.0, read_back }), Sync::Later)
    }

    /// Puts an intent on disk, makes the change, reads it back.
    ///
    /// # Errors
    /// [`TuneError::Journal`] when it could not be put on disk, [`TuneError::Write`] when the host refused it.
    pub fn change(&mut self, host: &dyn HostFiles, intent: &Intent) -> Result<Step, TuneError> {
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

    /// Takes back the changes in `steps` that are not yet taken back, last one first; tasks' CPUs at the end, because
    /// cpusets bound them.
    ///
    /// # Errors
    /// [`TuneError::Journal`] when what was done could not be noted. What became of each change is in the answer.
    pub fn undo(&mut self, host: &dyn HostFiles, steps: &[Step], mode: UndoMode) -> Result<Vec<Undone>, TuneError> {
        let chosen: Vec<usize> = steps.iter().map(|step| step.0).collect();
        self.undo_where(host, mode, |entry| chosen.contains(&entry.step))
    }

    /// Takes back everything.
    ///
    /// # Errors
    /// As [`Journal::undo`].
    pub fn undo_all(&mut self, host: &dyn HostFiles, mode: UndoMode) -> Result<Vec<Undone>, TuneError> {
        self.undo_where(host, mode, |_| true)
    }

    fn undo_where(
        &mut self,
        host: &dyn HostFiles,
        mode: UndoMode,
        chosen: impl Fn(&Entry) -> bool,
    ) -> Result<Vec<Undone>, TuneError> {
        let mut order: Vec<usize> = (0..self.entries.len()).rev().collect();
        order.retain(|&at| !self.entries[at].settled && chosen(&self.entries[at]));
        order.sort_by_key(|&at| self.entries[at].intent.key.is_bounded_by_cpusets());
        let (mut undone, mut lines) = (Vec::new(), String::new());
        let mut resets_follow = false;
        for at in order {
            let entry = &mut self.entries[at];
            let key = &entry.intent.key;
            let outcome = match entry.intent.undo(host, mode) {
                left if mode == UndoMode::Forget && !left.is_settled() => Outcome::Forgotten { why: left.why() },
                outcome => outcome,
            };

            resets_follow |= !outcome.is_settled() && key.resets_affinities();
            // A list put back now would be forgotten when the controller is switched off after all.
            let is_final = !(resets_follow && key.is_bounded_by_cpusets());
            entry.settled = outcome.is_settled() && is_final;
            lines.push_str(&json_line(&Note::Undone { step: entry.step, outcome: outcome.word().to_owned() }));
            undone.push(Undone { intent: entry.intent.clone(), outcome });
        }

        if !lines.is_empty() {
            self.append(&lines, Sync::Later)?;
        }

        Ok(undone)
    }

    /// Ends the transaction: removes the file when every change is taken back.
    ///
    /// # Errors
    /// [`TuneError::NotAllUndone`] when some are left; the file stays.
    pub fn close(self) -> Result<(), TuneError> {
        let left = self.entries.iter().filter(|entry| !entry.settled).count();
        if left > 0 {
            return Err(TuneError::NotAllUndone { left, steps: self.entries.len(), path: self.path });
        }
        remove(&self.path)
    }

    /// Ends the transaction and keeps its changes: only an explicit undo takes them back, no repair.
    ///
    /// # Errors
    /// [`TuneError::Journal`] when that could not be noted.
    pub fn keep(mut self) -> Result<PathBuf, TuneError> {
        self.append(&json_line(&Note::Kept), Sync::Wait)?;
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
                // What follows must not be glued to half a line. If this fails too, the line is skipped when read.
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

/// A journal as it was found on disk.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) head: Option<Head>,
    pub(super) kept: bool,
    pub(super) damaged_lines: usize,
    pub(super) path: PathBuf,
    text_length: u64,
    ends_torn: bool,
    entries: Vec<Entry>,
}

impl Found {
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
                // Only the last line may be torn, and what it would have said was not acted upon.
                Err(_) if !line.ends_with('\n') => {}
                Err(_) => found.damaged_lines += 1,
            }
        }

        Ok(found)
    }

    fn take(&mut self, note: Note) {
        match note {
            Note::Intent { step, intent } => self.entries.push(Entry { step, intent, settled: false }),
            Note::Undone { step, outcome } if Outcome::is_word_of_settled(&outcome) => {
                if let Some(entry) = self.entries.iter_mut().find(|entry| entry.step == step) {
                    entry.settled = true;
                }
            }
            Note::Done { .. } | Note::Undone { .. } => {}
            Note::Kept => self.kept = true,
        }
    }

    pub(super) fn steps(&self) -> usize {
        self.entries.len()
    }

    /// Opens it to be undone. The caller holds the lock.
    pub(super) fn reopen(self, head: &Head) -> Result<Journal, TuneError> {
        let open = |source| journal_error("write", &self.path, source);
        let mut file = private::open(&self.path, OpenOptions::new().append(true)).map_err(open)?;
        if self.ends_torn {
            file.write_all(b"\n").map_err(open)?;
        }

        let next = self.entries.iter().map(|entry| entry.step).max().unwrap_or(0) + 1;
        let length = self.text_length + u64::from(self.ends_torn);
        let (owner, command) = (head.owner, head.command.clone());
        Ok(Journal { file, path: self.path, length, entries: self.entries, next, owner, command, _lock: None })
    }
}

/// The lock on a directory of journals, held until dropped.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Drop for Lock {
    /// Closing the file is not enough: a process that another thread is just starting shares it until it runs its own program,
    /// and would hold the lock for that moment.
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

impl Lock {
    pub(super) fn take(directory: &Path, pid: i32, what: &str) -> Result<Self, TuneError> {
        let path = directory.join(LOCK);
        let error = |source| journal_error("lock", &path, source);
        let mut file =
            private::open(&path, OpenOptions::new().write(true).create(true).truncate(false)).map_err(error)?;
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
    let (pid, what) = text.trim().split_once(' ').unwrap_or(("0", "which has not said what it does"));
    let pid = pid.parse().unwrap_or(0);
    let head = heads(directory).into_iter().find(|head| head.owner.tid == pid);
    Holder { pid, what: what.to_owned(), began: head.map(|head| (head.command, head.started_unix_s)) }
}

/// Heads of the open journals that can be read, the newest first.
fn heads(directory: &Path) -> Vec<Head> {
    let open = list(directory).map(|listed| listed.open).unwrap_or_default();
    open.iter().filter_map(|path| Found::read(path).ok()?.head).collect()
}

/// The onbeat that changes `host` by a journal in `directory`, if one is alive. It asks for no lock, so it holds nobody up.
#[must_use]
pub fn at_work(directory: &Path, host: &dyn HostFiles) -> Option<Holder> {
    let head = heads(directory).into_iter().find(|head| tasks::is_alive(host, head.owner))?;
    Some(Holder { pid: head.owner.tid, what: head.purpose, began: Some((head.command, head.started_unix_s)) })
}

/// The journals in a directory, newest first, and leftovers of ended ones.
pub(super) struct Listed {
    pub(super) open: Vec<PathBuf>,
    pub(super) leftovers: Vec<PathBuf>,
}

pub(super) fn list(directory: &Path) -> Result<Listed, TuneError> {
    let mut listed = Listed { open: Vec::new(), leftovers: Vec::new() };
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

/// Removes an ended journal. The rename marks the end even when the removal is cut off.
pub(super) fn remove(path: &Path) -> Result<(), TuneError> {
    let closed = path.with_extension(CLOSED);
    fs::rename(path, &closed)
        .and_then(|()| fs::remove_file(&closed))
        .map_err(|source| journal_error("remove", path, source))
}

pub(super) fn boot_id(host: &dyn HostFiles) -> Result<String, TuneError> {
    let text = host.read(BOOT_ID).map_err(|source| TuneError::Read { path: BOOT_ID.to_owned(), source })?;
    Ok(text.trim().to_owned())
}

pub(super) fn journal_error(doing: &'static str, path: &Path, source: io::Error) -> TuneError {
    TuneError::Journal { doing, path: path.to_owned(), source }
}

fn json_line(value: &impl Serialize) -> String {
    // Texts, numbers and lists of them: serialising these cannot fail.
    serde_json::to_string(value).map(|json| json + "\n").unwrap_or_default()
}

fn free_path(directory: &Path, head: &Head) -> PathBuf {
    let stamp = utc(head.started_unix_s).replace(['-', ':'], "").replacen(' ', "T", 1).replace(" UTC", "Z");
    let named = |nth: u32| directory.join(format!("{stamp}-{}-{nth:02}.{OPEN}", head.owner.tid));
    (1..).map(named).find(|path| !path.exists()).unwrap_or_else(|| named(0))
}

/// Whether a journal of the process `pid` is open in a directory.
#[must_use]
pub fn is_open(directory: &Path, pid: i32) -> bool {
    let owned =
        |path: &PathBuf| Found::read(path).is_ok_and(|found| found.head.is_some_and(|head| head.owner.tid == pid));
    list(directory).is_ok_and(|listed| listed.open.iter().any(owned))
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Seconds since 1970 as `2026-11-21 08:10:02 UTC`.
pub(super) fn utc(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    // Years of 365.2425 days from 1 March 0000, so that the leap day is the last of its year (Hinnant, "chrono-Compatible
    // Low-Level Date Algorithms").
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);

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
