//! Guests that wait for a job, saved: booted once, restored in a fraction of a second.
//!
//! A guest is booted with the job [`WAIT`]. Its first process then pauses the machine from inside,
//! at a fixed instruction. A restored guest reads its own job and goes on.
//!
//! Guests restored from one snapshot send the same bytes. Two snapshots of the same guest may differ
//! by milliseconds of the guest's time: between the pause and its handling QEMU's main loop may take
//! the virtual CPU for idle, and with `sleep=off` jumps to the next timer.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::clock::VmClock;
use super::guest::JOB;
use super::job::Job;
use super::leftover::GuestDirectory;
use super::qemu::{POLL_EVERY, QemuProcess, qemu_version, shell_line};
use super::work_directory::{is_key, key_of};
use super::{Guest, VmError, WorkDirectory};

/// The job of a guest that is to be saved.
const WAIT: &str = "wait\n";
/// The saved state, in the directory of a guest.
pub(super) const SNAPSHOT: &str = "snapshot";
/// Number of snapshots that are kept, each below 100 MB; those that were not used for the longest
/// time are removed.
const KEPT: usize = 16;
/// Bytes per second of a saved state: as fast as it goes.
const FAST: u64 = 10_000_000_000;
/// How often another process that saves the same guest is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// QEMU's arguments by which a restored guest gets its state.
pub(super) fn restoring() -> [OsString; 2] {
    ["-incoming".into(), format!("exec:cat {SNAPSHOT}").into()]
}

/// Returns the snapshot of a guest, booting and saving it on first use. `arguments` are those of
/// the guest that is to be saved.
pub(super) fn of<C: VmClock>(
    guest: &Guest<C>,
    arguments: &[OsString],
    work: &WorkDirectory,
    stop: &AtomicBool,
) -> Result<PathBuf, VmError> {
    let identity = format!("{}\n{}", qemu_version()?, shell_line(arguments));
    let path = work.snapshots().join(key_of(identity.as_bytes()));
    if !path.exists() {
        let _turn = turn(&path.with_extension("lock"), stop)?;
        // The process that had the turn before may have saved it.
        if !path.exists() {
            save(guest, arguments, work, stop, &path)?;
            remove_oldest(&work.snapshots())?;
        }
    }

    let opened = File::options().append(true).open(&path).map_err(VmError::reading(&path))?;
    opened.set_modified(SystemTime::now()).map_err(VmError::writing(&path))?;
    Ok(path)
}

/// Waits until nobody else saves the same guest.
fn turn(path: &Path, stop: &AtomicBool) -> Result<File, VmError> {
    let lock = File::create(path).map_err(VmError::writing(path))?;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(fs::TryLockError::WouldBlock) if stop.load(Ordering::Relaxed) => {
                return Err(VmError::Stopped);
            }
            Err(fs::TryLockError::WouldBlock) => std::thread::sleep(LOOK_EVERY),
            Err(fs::TryLockError::Error(source)) => return Err(VmError::writing(path)(source)),
        }
    }
}

/// Boots a guest until it has paused itself, and saves its state.
fn save<C: VmClock>(
    guest: &Guest<C>,
    arguments: &[OsString],
    work: &WorkDirectory,
    stop: &AtomicBool,
    path: &Path,
) -> Result<(), VmError> {
    let directory = GuestDirectory::create(&work.guests())?;
    let job = directory.path.join(JOB);
    fs::write(&job, Job::file_of(WAIT)?).map_err(VmError::writing(&job))?;

    let mut qemu = QemuProcess::start(directory, arguments, guest.niceness)?;
    wait_until(&mut qemu, guest.limit, stop, |qemu| {
        Ok(qemu.execute("query-status", &json!({}))?["status"] == "guest-panicked")
    })?;

    qemu.execute("migrate-set-parameters", &json!({ "max-bandwidth": FAST }))?;
    qemu.execute("migrate", &json!({ "uri": format!("exec:cat > {SNAPSHOT}") }))?;
    wait_until(&mut qemu, guest.limit, stop, |qemu| {
        let answer = qemu.execute("query-migrate", &json!({}))?;
        match answer["status"].as_str() {
            Some("completed") => Ok(true),
            Some("failed") => Err(VmError::Control { message: format!("migrate: {answer}") }),
            _ => Ok(false),
        }
    })?;

    qemu.end()?;
    let saved = qemu.directory().join(SNAPSHOT);
    fs::rename(&saved, path).map_err(VmError::writing(path))?;
    qemu.directory_lock().remove()
}

/// Waits until `is_done`, within the limit of the guest.
pub(super) fn wait_until(
    qemu: &mut QemuProcess,
    limit: Duration,
    stop: &AtomicBool,
    is_done: impl Fn(&mut QemuProcess) -> Result<bool, VmError>,
) -> Result<(), VmError> {
    loop {
        if let Some(status) = qemu.ended()? {
            if !status.success() {
                return Err(qemu.killed(status));
            }
            let (console, last_line) = qemu.console();
            let status = status.to_string();
            return Err(VmError::NotPaused { status, last_line, console });
        }
        if is_done(qemu)? {
            return Ok(());
        }

        qemu.check(limit, stop)?;
        std::thread::sleep(POLL_EVERY);
    }
}

/// Removes the snapshots, and the locks beside them, that have not been used for the longest time.
fn remove_oldest(snapshots: &Path) -> Result<(), VmError> {
    let mut all: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(snapshots).map_err(VmError::reading(snapshots))? {
        let entry = entry.map_err(VmError::reading(snapshots))?;
        let path = entry.path();
        if is_key(&entry.file_name().to_string_lossy()) {
            let modified = entry.metadata().and_then(|data| data.modified());
            all.push((modified.map_err(VmError::reading(&path))?, path));
        }
    }

    all.sort();
    let surplus = all.len().saturating_sub(KEPT);
    for (_, path) in all.into_iter().take(surplus) {
        for gone in [path.with_extension("lock"), path] {
            match fs::remove_file(&gone) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(VmError::writing(&gone)(error));
                }
                _ => {}
            }
        }
    }

    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_snapshots_that_were_used_last_are_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |number: u64| directory.path().join(format!("{number:016}"));
        for number in 0..20 {
            let file = File::create(path(number)).expect("a file");
            fs::write(path(number).with_extension("lock"), b"").expect("a lock");
            let used = SystemTime::UNIX_EPOCH + Duration::from_secs(1000 - number);
            file.set_modified(used).expect("a time");
        }

        // The user's, who may have named a directory with snapshots of their own.
        let own = directory.path().join("before-upgrade");
        let file = File::create(&own).expect("a file");
        file.set_modified(SystemTime::UNIX_EPOCH).expect("a time");

        remove_oldest(directory.path()).expect("some removed");
        assert!(own.exists());
        let left = (0..20).filter(|&number| path(number).exists()).collect::<Vec<_>>();
        assert_eq!(left, (0..16).collect::<Vec<_>>());
        assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 33);
    }

    #[test]
    fn a_turn_ends_with_its_lock_and_the_wait_for_it_with_a_stop() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("k.lock");
        let first = turn(&path, &AtomicBool::new(false)).expect("a turn");
        assert!(matches!(turn(&path, &AtomicBool::new(true)), Err(VmError::Stopped)));
        drop(first);
        // A process that another test is just starting has a copy of the lock until execve closes
        // it: that is awaited. With a lock that is not given up this would not end.
        turn(&path, &AtomicBool::new(false)).expect("a turn");
    }
}
