//! Who shields this machine: one onbeat at a time, whatever its directory of journals.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use onbeat_host::foreign::{Opening, TrustedOwner};
use onbeat_host::process;
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use super::change::CgroupVersion;
use super::error::TuneError;
use super::host_files::HostFiles;

/// Root's own directory: no other user can take the name or the lock.
const DIRECTORY: &str = "/run/onbeat";
const LOCK: &str = "shield.lock";
/// Number of looks, 2 ms apart, at a cgroup that the guard of a dead run is about to remove.
const LOOKS: usize = 500;
/// Longest text of a holder, in bytes.
const LONGEST: u64 = 4096;
/// How often a lock is tried again that another shield holds, or that a look of
/// [`refuse_elsewhere`] does, and the time between. A look takes microseconds, and longer on a busy
/// machine.
const TRIES: usize = 5;
const TRIES_BESIDE_LOOKS: usize = 5_000;
const BETWEEN_TRIES: Duration = Duration::from_millis(2);

/// The right to shield CPUs of this machine, until it is dropped.
#[derive(Debug)]
pub(super) struct ShieldLock {
    file: File,
}

impl ShieldLock {
    /// Takes the lock; `None` where there is no place for one, as in a container without a writable
    /// `/run`: the cgroup of the other shield is found there.
    pub(super) fn take(directory: &Path, command: &str) -> Result<Option<Self>, TuneError> {
        let path = directory.join(LOCK);
        let Some(mut file) = open(directory, &path) else { return Ok(None) };
        for attempt in 1.. {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) if attempt < most_tries(&file) => {
                    thread::sleep(BETWEEN_TRIES);
                }
                Err(Errno::WOULDBLOCK) => return Err(holder(file)),
                Err(_) => return Ok(None),
            }
        }

        // Without the text the lock still holds.
        let _ = file.set_len(0);
        let _ = writeln!(file, "{} {command}", std::process::id());
        Ok(Some(Self { file }))
    }
}

impl Drop for ShieldLock {
    fn drop(&mut self) {
        unlock(&self.file);
    }
}

/// Ends a lock. A program that this process is just starting shares it until execve.
fn unlock(file: &File) {
    let _ = rustix::fs::flock(file, FlockOperation::Unlock);
}

/// How often a lock is tried: looks share it, and a shield does not.
fn most_tries(file: &File) -> usize {
    if rustix::fs::flock(file, FlockOperation::NonBlockingLockShared).is_err() {
        return TRIES;
    }
    unlock(file);
    TRIES_BESIDE_LOOKS
}

fn open(directory: &Path, path: &Path) -> Option<File> {
    match DirBuilder::new().mode(0o755).create(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return None,
        _ => {}
    }

    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
    let file = options.open(path).ok()?;
    Opening::found(TrustedOwner::Own).check(&file).ok()?;
    Some(file)
}

/// Returns the refusal that names who holds the lock.
fn holder(file: File) -> TuneError {
    let mut text = String::new();
    let _ = file.take(LONGEST).read_to_string(&mut text);
    let (pid, command) = text.trim().split_once(' ').unwrap_or(("0", "onbeat"));
    TuneError::Shielded { pid: pid.parse().unwrap_or(0), command: command.to_owned() }
}

/// Takes the lock of the live machine; none on a fake one.
pub(super) fn lock(host: &dyn HostFiles, command: &str) -> Result<Option<ShieldLock>, TuneError> {
    if !host.is_live() {
        return Ok(None);
    }
    // One's own first: of two that begin at the same time, at least one finds the other's.
    let own = ShieldLock::take(Path::new(DIRECTORY), command)?;
    let roots =
        roots_of_root().map_err(|source| TuneError::Read { path: "/proc".to_owned(), source })?;
    refuse_elsewhere(&roots, own.as_ref())?;
    Ok(own)
}

/// Root directories of root's processes, as the processes have them: a chroot or a container has a
/// `/run` of its own, but the CPUs of this machine.
fn roots_of_root() -> io::Result<Vec<PathBuf>> {
    let of = |stat: &process::Stat| PathBuf::from(format!("/proc/{}", stat.pid));
    let is_roots = |process: &PathBuf| fs::metadata(process).is_ok_and(|it| it.uid() == 0);
    let processes = process::all()?;
    let of_root = processes.iter().map(of).filter(is_roots);
    Ok(of_root.map(|process| process.join("root")).collect())
}

/// Refuses where the lock below one of these roots is held by somebody else.
fn refuse_elsewhere(roots: &[PathBuf], own: Option<&ShieldLock>) -> Result<(), TuneError> {
    let identity = |file: &File| file.metadata().ok().map(|found| (found.dev(), found.ino()));
    let mut seen: BTreeSet<_> = own.and_then(|own| identity(&own.file)).into_iter().collect();
    for root in roots {
        let path = root.join(&DIRECTORY[1..]).join(LOCK);
        let Ok(file) = Opening::found(TrustedOwner::Own).open(&path) else { continue };
        if identity(&file).is_none_or(|it| !seen.insert(it)) {
            continue;
        }
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
        {
            return Err(holder(file));
        }
        unlock(&file);
    }
    Ok(())
}

/// Refuses what would shield CPUs while another onbeat does, before anything is started for it.
///
/// # Errors
/// [`TuneError::Shielded`].
pub fn refuse_second(host: &dyn HostFiles, command: &str) -> Result<(), TuneError> {
    if host.is_root() { lock(host, command).map(drop) } else { Ok(()) }
}

/// Refuses a cgroup that exists already and was therefore not made by the caller.
///
/// # Errors
/// [`TuneError::CgroupExists`].
pub fn refuse_existing(
    host: &dyn HostFiles,
    path: &str,
    version: CgroupVersion,
) -> Result<(), TuneError> {
    for _ in 0..LOOKS {
        if host.directories(path).is_err() {
            return Ok(());
        }
        host.pause();
    }

    let members = host.read(&format!("{path}/{}", version.members())).unwrap_or_default();
    Err(TuneError::CgroupExists { path: path.to_owned(), tasks: members.lines().count() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_shield_of_a_machine_is_told_who_has_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join("run");
        let first = ShieldLock::take(&directory, "onbeat bench --tuning C").unwrap();
        assert!(first.is_some());

        let why = ShieldLock::take(&directory, "onbeat bench").unwrap_err().to_string();
        let who = format!("pid {}, `onbeat bench --tuning C`", std::process::id());
        assert!(why.contains(&who) && !why.contains("rmdir"), "{why}");
        drop(first);
        assert!(ShieldLock::take(&directory, "onbeat bench").unwrap().is_some());
    }

    #[test]
    fn a_shield_that_was_raised_in_a_chroot_is_found_from_outside() {
        let dir = tempfile::tempdir().unwrap();
        let root = |name: &str| dir.path().join(name);
        for name in ["outside", "chroot"] {
            fs::create_dir_all(root(name).join("run")).unwrap();
        }
        let take = |name: &str, command: &str| {
            ShieldLock::take(&root(name).join(&DIRECTORY[1..]), command).unwrap()
        };
        let roots = [root("outside"), root("outside"), root("chroot"), root("gone")];

        let own = take("outside", "onbeat bench");
        refuse_elsewhere(&roots, own.as_ref()).expect("one's own lock is no other's");
        let other = take("chroot", "onbeat tune apply");
        let why = refuse_elsewhere(&roots, own.as_ref()).unwrap_err().to_string();
        assert!(why.contains("`onbeat tune apply`"), "{why}");
        drop(other);
        refuse_elsewhere(&roots, own.as_ref()).expect("the other one has ended");
    }

    #[test]
    fn without_a_place_for_the_lock_there_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let taken = dir.path().join("taken");
        std::fs::write(&taken, "").unwrap();
        assert!(ShieldLock::take(&taken, "onbeat bench").unwrap().is_none());
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join(LOCK)).unwrap();
        assert!(ShieldLock::take(dir.path(), "onbeat bench").unwrap().is_none());
    }
}
