//! The directory of journals: its lock, its files, and the onbeat that is at work.
//!
//! A journal is `STAMP-PID-NN.journal`: `.new` until its head is on disk, `.closed` once it has
//! ended. The file `lock` names the holder of the lock. All other files are the user's.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::{JournalFile, JournalHead};
use crate::error::{TuneError, journal_error};
use crate::holder::Holder;
use crate::host_files::HostFiles;
use crate::live_host::LiveHost;
use crate::tasks::TaskId;
use crate::{private, tasks};

const LOCK: &str = "lock";
const OPEN: &str = "journal";
const CLOSED: &str = "closed";
pub(super) const NEW: &str = "new";
/// How long a lock is awaited whose holder is dead: a child that it was just starting shares the
/// lock until it executes its program.
const LEFT_LOCKED: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// What a lock is held for during an undo, and while a journal without a lock is begun.
pub(crate) const UNDO: &str = "undo";
pub(crate) const BEGIN: &str = "begin";
/// How long a lock is awaited that is held for one of these.
const BRIEFLY_LOCKED: Duration = Duration::from_secs(10);
/// Directory of the journals that exclude nobody, below that of the others.
pub(crate) const BESIDE: &str = "beside";

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

/// The journal's directory: below `ONBEAT_STATE_DIR`, else that by default. An empty variable counts
/// as unset, and a relative path in those of the default as well.
#[must_use]
pub fn own_directory() -> PathBuf {
    let named = |variable| env::var_os(variable).map(PathBuf::from);
    if let Some(state) = named("ONBEAT_STATE_DIR").filter(|state| !state.as_os_str().is_empty()) {
        return state.join("journal");
    }
    let absolute = |variable| named(variable).filter(|path| path.is_absolute());
    let (state, home) = (absolute("XDG_STATE_HOME"), absolute("HOME"));
    default_directory(&LiveHost::new(), state.as_deref(), home.as_deref())
}

/// The lock on a directory of journals, held until dropped.
#[derive(Debug)]
pub(crate) struct DirectoryLock(File);

impl Drop for DirectoryLock {
    /// Closing the file would not do: a process that another thread is just forking shares the
    /// descriptor until it executes its program, and would hold the lock until then.
    ///
    /// The name is removed first: until the next holder has written its own, others would take this
    /// one for the holder.
    fn drop(&mut self) {
        let _ = self.0.set_len(0);
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

impl DirectoryLock {
    pub(crate) fn take(
        directory: &Path,
        host: &dyn HostFiles,
        what: &str,
    ) -> Result<Self, TuneError> {
        let path = directory.join(LOCK);
        let error = |source| journal_error("lock", &path, source);
        let mut file =
            private::open(&path, OpenOptions::new().write(true).create(true).truncate(false))
                .map_err(error)?;
        let began = Instant::now();
        while let Err(errno) = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if errno != Errno::WOULDBLOCK {
                return Err(error(errno.into()));
            }
            let first = holder(directory, &path);
            let most = match tasks::task(host, first.pid) {
                Some(_) if [UNDO, BEGIN].contains(&first.what.as_str()) => BRIEFLY_LOCKED,
                Some(_) => Duration::ZERO,
                None => LEFT_LOCKED,
            };
            if began.elapsed() >= most {
                return Err(TuneError::Busy(first));
            }
            thread::sleep(LOOK_EVERY);
        }

        let pid = host.own_pid();
        // Without the note the lock holds as well, and an undo must be possible on a full disk.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{pid} {what}"));
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
pub(crate) struct JournalDirectory {
    pub(crate) open: Vec<PathBuf>,
    pub(crate) leftovers: Vec<PathBuf>,
}

/// Lists the journals in a directory; none where it does not exist.
pub(crate) fn list(directory: &Path) -> Result<JournalDirectory, TuneError> {
    let mut listed = JournalDirectory { open: Vec::new(), leftovers: Vec::new() };
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(listed),
        Err(source) => return Err(journal_error("read", directory, source)),
    };

    let paths = entries.flatten().map(|entry| entry.path());
    for path in paths.filter(|path| is_named_as_journal(path)) {
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

/// Whether a file has a name of [`free_path`]. A directory that the user names may hold others, which
/// must not be removed as leftovers.
fn is_named_as_journal(path: &Path) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let stem = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    let Some((stamp, numbers)) = stem.split_once("Z-") else { return false };
    let parts = [stamp.split_once('T'), numbers.split_once('-')];
    parts.iter().all(|part| part.is_some_and(|(first, last)| is_number(first) && is_number(last)))
}

/// Removes an ended journal. The rename marks the end even when the removal is interrupted.
pub(crate) fn remove(path: &Path) -> Result<(), TuneError> {
    let closed = path.with_extension(CLOSED);
    fs::rename(path, &closed)
        .and_then(|()| fs::remove_file(&closed))
        .map_err(|source| journal_error("remove", path, source))
}

/// Returns a path that no journal has: start, process, and a number.
pub(super) fn free_path(directory: &Path, head: &JournalHead) -> PathBuf {
    let stamp = head.started().replace(['-', ':'], "").replacen(' ', "T", 1).replace(" UTC", "Z");
    let named = |nth: u32| directory.join(format!("{stamp}-{}-{nth:02}.{OPEN}", head.owner.tid));
    (1..).map(named).find(|path| !path.exists()).unwrap_or_else(|| named(0))
}

/// Whether a journal of the process `pid` is open in a directory.
#[must_use]
pub fn is_open(directory: &Path, pid: i32) -> bool {
    let both = [directory.to_owned(), directory.join(BESIDE)];
    both.iter().flat_map(|one| heads(one)).any(|head| head.owner.tid == pid)
}

/// Whether a journal that is not kept is left by a process.
pub(crate) fn is_left_by(directory: &Path, owner: TaskId) -> bool {
    let left = |path: &PathBuf| {
        JournalFile::read(path)
            .is_ok_and(|found| !found.kept && found.head.is_some_and(|head| head.owner == owner))
    };
    list(directory).is_ok_and(|listed| listed.open.iter().any(left))
}

pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
