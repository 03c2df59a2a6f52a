//! Who shields this machine: one onbeat at a time, whatever its directory of journals.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use onbeat_host::foreign::{Opening, TrustedOwner};
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

/// The right to shield CPUs of this machine, until it is dropped.
#[derive(Debug)]
pub(super) struct ShieldLock {
    _file: File,
}

impl ShieldLock {
    /// Takes the lock; `None` where there is no place for one, as in a container without a writable
    /// `/run`: the cgroup of the other shield is found there.
    pub(super) fn take(directory: &Path, command: &str) -> Result<Option<Self>, TuneError> {
        let path = directory.join(LOCK);
        let Some(mut file) = open(directory, &path) else { return Ok(None) };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut text = String::new();
                let _ = file.take(LONGEST).read_to_string(&mut text);
                let (pid, command) = text.trim().split_once(' ').unwrap_or(("0", "onbeat"));
                let pid = pid.parse().unwrap_or(0);
                return Err(TuneError::Shielded { pid, command: command.to_owned() });
            }
            Err(_) => return Ok(None),
        }

        // Without the text the lock still holds.
        let _ = file.set_len(0);
        let _ = writeln!(file, "{} {command}", std::process::id());
        Ok(Some(Self { _file: file }))
    }
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

/// Takes the lock of the live machine; none on a fake one.
pub(super) fn lock(host: &dyn HostFiles, command: &str) -> Result<Option<ShieldLock>, TuneError> {
    if host.is_live() { ShieldLock::take(Path::new(DIRECTORY), command) } else { Ok(None) }
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
    fn without_a_place_for_the_lock_there_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let taken = dir.path().join("taken");
        std::fs::write(&taken, "").unwrap();
        assert!(ShieldLock::take(&taken, "onbeat bench").unwrap().is_none());
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join(LOCK)).unwrap();
        assert!(ShieldLock::take(dir.path(), "onbeat bench").unwrap().is_none());
    }
}
