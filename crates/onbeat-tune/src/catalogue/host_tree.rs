//! The files of a machine: of this one, or of another one that were captured into a directory.
//!
//! A captured tree may come from anybody: only regular files below its root are read, and of each at most 4 MiB.
//!
//! Absent on purpose: writing.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The largest part of a file that is read; interrupts of a machine with hundreds of CPUs take less than a tenth.
const MOST_BYTES: u64 = 4 << 20;

/// A tree of files with `/proc`, `/sys` and `/etc` below its root. Paths are absolute, as on the machine itself.
///
/// ```
/// use onbeat_tune::catalogue::HostTree;
///
/// let live = HostTree::live();
/// assert!(live.read("/proc/version")?.starts_with("Linux"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct HostTree {
    /// `None` for the machine itself.
    root: Option<PathBuf>,
}

impl HostTree {
    /// Returns the machine that this process runs on.
    #[must_use]
    pub const fn live() -> Self {
        Self { root: None }
    }

    /// Opens a captured tree.
    ///
    /// # Errors
    /// The kernel's, where the directory does not exist or may not be entered.
    pub fn captured(root: &Path) -> io::Result<Self> {
        Ok(Self { root: Some(fs::canonicalize(root)?) })
    }

    /// Whether it is the machine that this process runs on.
    #[must_use]
    pub const fn is_live(&self) -> bool {
        self.root.is_none()
    }

    /// Returns where a file is, with links resolved for a captured tree.
    fn resolve(&self, path: &str) -> io::Result<PathBuf> {
        let Some(root) = &self.root else { return Ok(PathBuf::from(path)) };
        let below = path.trim_start_matches('/');
        let resolved = fs::canonicalize(root.join(below))?;
        if resolved.starts_with(root) {
            Ok(resolved)
        } else {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, "the path leads out of the captured tree"))
        }
    }

    /// Returns the text of a file; bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// The kernel's; `InvalidInput` for what is not a regular file.
    pub fn read(&self, path: &str) -> io::Result<String> {
        self.read_bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the first 4 MiB of a file.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_bytes(&self, path: &str) -> io::Result<Vec<u8>> {
        let resolved = self.resolve(path)?;
        // Opening a pipe would wait for its writer.
        if !fs::metadata(&resolved)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }

        let mut bytes = Vec::new();
        File::open(resolved)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Fills `bytes` from an offset of a device or, in a captured tree, of a regular file in its place.
    ///
    /// # Errors
    /// The kernel's; `UnexpectedEof` where there are fewer bytes.
    pub fn read_device_at(&self, path: &str, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let resolved = self.resolve(path)?;
        if !self.is_live() && !fs::metadata(&resolved)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }

        File::open(resolved)?.read_exact_at(bytes, offset)
    }

    /// Returns the names in a directory, sorted.
    ///
    /// # Errors
    /// The kernel's.
    pub fn names(&self, path: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.resolve(path)?)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }

        names.sort();
        Ok(names)
    }

    /// Whether a file or directory exists.
    ///
    /// # Errors
    /// The kernel's, where that cannot be found out.
    pub fn exists(&self, path: &str) -> io::Result<bool> {
        match self.resolve(path).and_then(fs::metadata) {
            Ok(_) => Ok(true),
            Err(error) if is_absent(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Whether an error says that a file does not exist.
#[must_use]
pub fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_captured_tree_is_not_left_by_links_and_not_blocked_by_pipes() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("etc")).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", directory.path().join("etc/outside")).unwrap();
        std::os::unix::fs::symlink("inside", directory.path().join("etc/link")).unwrap();
        fs::write(directory.path().join("etc/inside"), "text").unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            directory.path().join("etc/pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();

        let tree = HostTree::captured(directory.path()).unwrap();
        assert_eq!(tree.read("/etc/link").unwrap(), "text");
        assert!(!tree.exists("/etc/absent").unwrap());
        assert!(tree.read("/etc/outside").is_err());
        assert_eq!(tree.read("/etc/pipe").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
