//! The directory of kernels, initramfs archives, packages and guests.

use std::fs;
use std::path::{Path, PathBuf};

use onbeat::campaign::{create_whole_in, create_workplace, remove_partial};
use sha2::{Digest, Sha256};

use super::VmError;
use super::leftover::{self, EndedGuest};

/// A directory with everything that guests need and leave.
///
/// `kernels/`, `initramfs/` and `snapshots/` are caches, `packages/` holds downloads, `guests/` has
/// a directory for each guest with its console, control socket and results. Nothing outside of it
/// is written.
#[derive(Debug)]
pub struct WorkDirectory {
    /// The directory itself, absolute.
    pub path: PathBuf,
    /// Guests that [`Self::open`] has ended, because their starter no longer exists.
    pub ended_guests: Vec<EndedGuest>,
}

impl WorkDirectory {
    /// Opens a work directory, creating it if need be. Ends guests whose starter was killed, and
    /// removes the directories of guests that nobody needs any more.
    ///
    /// # Errors
    /// When a directory cannot be created or read, or is another user's: root would boot the
    /// kernels that this user has put there.
    pub fn open(path: &Path) -> Result<Self, VmError> {
        create_workplace(path)?;
        // QEMU runs in another directory: its paths must not depend on this process's own.
        let path = fs::canonicalize(path).map_err(VmError::reading(path))?;
        let mut work = Self { path, ended_guests: Vec::new() };
        let below =
            [work.kernels(), work.packages(), work.archives(), work.snapshots(), work.guests()];
        for directory in below {
            create_workplace(&directory)?;
        }

        remove_partial(&work.path)?;
        work.ended_guests = leftover::end_guests(&work.guests())?;
        Ok(work)
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

    /// Creates directory `target` with what `fill` writes into it, completely or not at all, unless it
    /// is there already.
    pub(super) fn create_whole<F>(&self, target: &Path, fill: F) -> Result<(), VmError>
    where
        F: FnOnce(&Path) -> Result<(), VmError>,
    {
        if target.is_dir() { Ok(()) } else { create_whole_in(&self.path, target, fill) }
    }

    /// Writes an initramfs, named after its content, unless it is there already.
    pub(super) fn keep_archive(&self, bytes: &[u8]) -> Result<PathBuf, VmError> {
        let path = self.archives().join(format!("{}.cpio", key_of(bytes)));
        if !path.exists() {
            let partial = path.with_extension(format!("partial-{}", std::process::id()));
            fs::write(&partial, bytes).map_err(VmError::writing(&partial))?;
            fs::rename(&partial, &path).map_err(VmError::writing(&path))?;
        }

        Ok(path)
    }
}

/// SHA-256 in hexadecimal digits.
pub(crate) fn hex_digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A short name of anything that can be described: equal exactly for the same description. With 16
/// digits two of them do not meet by chance.
pub(crate) fn key_of(description: &[u8]) -> String {
    hex_digest(description)[..16].to_owned()
}

/// Whether a name is one of [`key_of`].
pub(super) fn is_key(name: &str) -> bool {
    name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
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
            create_whole_in(&work.path, &target, create).expect("a directory");
        }
        assert_eq!(fs::read_to_string(target.join("whole")).expect("a file"), "first");
        let visible = fs::read_dir(&work.path).expect("a directory").count();
        assert_eq!(visible, 5, "kernels, packages, initramfs, snapshots, guests");
    }
}
