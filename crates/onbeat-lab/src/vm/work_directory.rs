//! The directory of kernels, initramfs archives, packages and guests.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::VmError;
use super::leftover::{self, EndedGuest};

/// Begins the names of directories that are being filled; the number of the process follows.
const PARTIAL: &str = ".partial-";

/// A directory with everything that guests need and leave.
///
/// `kernels/`, `initramfs/` and `snapshots/` are caches, `packages/` holds downloads, `guests/` has
/// a directory for each guest with its console, control socket and results. Nothing outside of it
/// is written.
#[derive(Debug)]
pub struct WorkDirectory {
    path: PathBuf,
    ended: Vec<EndedGuest>,
}

impl WorkDirectory {
    /// Opens a work directory, creating it if need be. Ends guests whose starter was killed, and
    /// removes the directories of guests that nobody needs any more.
    ///
    /// # Errors
    /// When a directory cannot be created or read.
    pub fn open(path: &Path) -> Result<Self, VmError> {
        fs::create_dir_all(path).map_err(VmError::writing(path))?;
        // QEMU runs in another directory: its paths must not depend on this process's own.
        let path = fs::canonicalize(path).map_err(VmError::reading(path))?;
        let mut work = Self { path, ended: Vec::new() };
        let below =
            [work.kernels(), work.packages(), work.archives(), work.snapshots(), work.guests()];
        for directory in below {
            fs::create_dir_all(&directory).map_err(VmError::writing(&directory))?;
        }

        remove_partial(&work.path)?;
        work.ended = leftover::end_guests(&work.guests())?;
        Ok(work)
    }

    /// Guests that [`Self::open`] has ended, because their starter no longer exists.
    #[must_use]
    pub fn ended_guests(&self) -> &[EndedGuest] {
        &self.ended
    }

    /// The directory itself, absolute.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Unpacked kernels.
    pub(super) fn kernels(&self) -> PathBuf {
        self.path.join("kernels")
    }

    /// Downloaded packages.
    pub(super) fn packages(&self) -> PathBuf {
        self.path.join("packages")
    }

    fn archives(&self) -> PathBuf {
        self.path.join("initramfs")
    }

    /// Guests that wait for a job, saved.
    pub(super) fn snapshots(&self) -> PathBuf {
        self.path.join("snapshots")
    }

    /// A directory for each guest.
    pub(super) fn guests(&self) -> PathBuf {
        self.path.join("guests")
    }

    /// Creates directory `target` with what `fill` writes into it: completely or not at all.
    pub(super) fn create_whole<F>(&self, target: &Path, fill: F) -> Result<(), VmError>
    where
        F: FnOnce(&Path) -> Result<(), VmError>,
    {
        create_whole_in(&self.path, target, fill)
    }

    /// Writes an initramfs, named after its content, unless it is there already.
    pub(super) fn keep_archive(&self, bytes: &[u8]) -> Result<PathBuf, VmError> {
        let path = self.archives().join(format!("{}.cpio", &hex_digest(bytes)[..16]));
        if !path.exists() {
            let partial = path.with_extension(format!("partial-{}", std::process::id()));
            fs::write(&partial, bytes).map_err(VmError::writing(&partial))?;
            fs::rename(&partial, &path).map_err(VmError::writing(&path))?;
        }

        Ok(path)
    }
}

/// Creates directory `target` with what `fill` writes into it: completely or not at all. It is
/// filled below `parent`, which is on the same file system.
pub(crate) fn create_whole_in<F>(parent: &Path, target: &Path, fill: F) -> Result<(), VmError>
where
    F: FnOnce(&Path) -> Result<(), VmError>,
{
    let directory = new_directory(parent, PARTIAL)?;
    let filled = fill(&directory).and_then(|()| match fs::rename(&directory, target) {
        // Another process was faster, with the same content.
        Err(_) if target.is_dir() => Ok(()),
        renamed => renamed.map_err(VmError::writing(target)),
    });

    if directory.exists() {
        fs::remove_dir_all(&directory).map_err(VmError::writing(&directory))?;
    }
    filled
}

/// Removes what [`create_whole_in`] has left in `parent`, by processes that no longer exist.
pub(crate) fn remove_partial(parent: &Path) -> Result<(), VmError> {
    for entry in fs::read_dir(parent).map_err(VmError::reading(parent))? {
        let entry = entry.map_err(VmError::reading(parent))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((process, _)) = name.strip_prefix(PARTIAL).and_then(|rest| rest.split_once('-'))
        else {
            continue;
        };
        if !Path::new("/proc").join(process).exists() {
            fs::remove_dir_all(entry.path()).map_err(VmError::writing(&entry.path()))?;
        }
    }

    Ok(())
}

/// SHA-256 in hexadecimal digits.
pub(crate) fn hex_digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A new directory below `parent`, named after this process.
pub(super) fn new_directory(parent: &Path, prefix: &str) -> Result<PathBuf, VmError> {
    let process = std::process::id();
    let mut number = 0_u32;
    loop {
        let path = parent.join(format!("{prefix}{process}-{number}"));
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
            Err(source) => return Err(VmError::writing(&path)(source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_was_not_filled_completely_does_not_appear() {
        let directory = tempfile::tempdir().expect("a directory");
        let work = WorkDirectory::open(&directory.path().join("work")).expect("a work directory");
        let target = work.kernels().join("k");
        let failed = work.create_whole(&target, |into| {
            fs::write(into.join("half"), b"").expect("a file");
            Err(VmError::Stopped)
        });
        assert!(matches!(failed, Err(VmError::Stopped)));
        assert!(!target.exists());

        for content in ["first", "second"] {
            let create = |into: &Path| {
                fs::write(into.join("whole"), content).map_err(VmError::writing(into))
            };
            work.create_whole(&target, create).expect("a directory");
        }
        assert_eq!(fs::read_to_string(target.join("whole")).expect("a file"), "first");
        let visible = fs::read_dir(work.path()).expect("a directory").count();
        assert_eq!(visible, 5, "kernels, packages, initramfs, snapshots, guests");
    }

    #[test]
    fn what_a_killed_process_was_filling_is_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        let own = directory.path().join(format!("{PARTIAL}{}-0", std::process::id()));
        // Above the largest number that a process can have.
        let of_the_dead = directory.path().join(format!("{PARTIAL}4194305-0"));
        for partial in [&own, &of_the_dead] {
            fs::create_dir(partial).expect("a directory");
        }

        WorkDirectory::open(directory.path()).expect("a work directory");
        assert!(own.exists());
        assert!(!of_the_dead.exists());
    }
}
