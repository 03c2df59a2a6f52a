//! The files of a machine: of this one, or of another one that were captured into a directory or an
//! archive.
//!
//! A captured tree may come from anybody: only regular files below its root are read, and of each
//! at most 4 MiB.
//!
//! Absent on purpose: writing.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{CWD, Dir, Mode, OFlags, ResolveFlags};

use crate::capture_archive::{AccessFailure, Accesses, CaptureError, CapturedFiles};
use crate::cpu_list::CpuList;

pub use crate::capture_archive::is_absent;

/// The largest part of a file that is read; interrupts of a machine with hundreds of CPUs take less
/// than a tenth.
const MOST_BYTES: u64 = 4 << 20;
/// A pipe is opened without waiting for its writer, and refused afterwards.
const FOR_READING: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// A tree of files with `/proc`, `/sys` and `/etc` below its root. Paths are absolute, as on the
/// machine itself.
///
/// ```
/// use onbeat_tune::catalogue::HostTree;
///
/// let live = HostTree::live();
/// assert!(live.read("/proc/version")?.starts_with("Linux"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct HostTree {
    source: TreeSource,
    /// What was answered, where a capture asks.
    record: Option<Mutex<Accesses>>,
}

/// Where the files are.
#[derive(Clone, Debug)]
enum TreeSource {
    /// The machine itself.
    Live,
    /// Below a directory.
    Directory(Arc<OwnedFd>),
    /// In an archive that was read into memory.
    Archive(Arc<CapturedFiles>),
}

impl HostTree {
    /// Returns the machine that this process runs on.
    #[must_use]
    pub const fn live() -> Self {
        Self { source: TreeSource::Live, record: None }
    }

    /// Opens a captured tree. Links in it lead to files below its root, absolute ones too.
    ///
    /// # Errors
    /// The kernel's, where the directory does not exist or may not be entered.
    pub fn captured(root: &Path) -> io::Result<Self> {
        let root = rustix::fs::open(
            root,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        Ok(Self { source: TreeSource::Directory(Arc::new(root)), record: None })
    }

    /// Reads an archive that [`crate::capture::capture`] wrote, packed by gzip or not, into memory.
    ///
    /// A tar archive without `capture.json` is taken for all files of a machine.
    ///
    /// # Errors
    /// [`CaptureError`] for what is not such an archive, with the entry that is wrong.
    pub fn from_capture(archive: impl Read) -> Result<Self, CaptureError> {
        let files = CapturedFiles::from_archive(archive)?;
        Ok(Self { source: TreeSource::Archive(Arc::new(files)), record: None })
    }

    /// Whether it is the machine that this process runs on.
    #[must_use]
    pub const fn is_live(&self) -> bool {
        matches!(self.source, TreeSource::Live)
    }

    /// Returns the same tree as one that remembers its answers.
    pub(crate) fn recording(&self) -> Self {
        Self { source: self.source.clone(), record: Some(Mutex::default()) }
    }

    /// Returns the answers of a tree from [`Self::recording`].
    pub(crate) fn into_accesses(self) -> Accesses {
        self.record
            .map(|record| record.into_inner().unwrap_or_else(PoisonError::into_inner))
            .unwrap_or_default()
    }

    fn remember(&self, add: impl FnOnce(&mut Accesses)) {
        if let Some(record) = &self.record {
            add(&mut record.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn open(&self, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let opened = match &self.source {
            TreeSource::Live => rustix::fs::openat(CWD, path, flags, Mode::empty()),
            TreeSource::Directory(root) => {
                let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
                rustix::fs::openat2(
                    root,
                    path.trim_start_matches('/'),
                    flags,
                    Mode::empty(),
                    inside,
                )
            }
            TreeSource::Archive(_) => Err(rustix::io::Errno::NOSYS),
        };
        Ok(opened?)
    }

    fn open_regular(&self, path: &str) -> io::Result<File> {
        let file = File::from(self.open(path, FOR_READING)?);
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
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
        let read = match &self.source {
            TreeSource::Archive(files) => files.read(path).map(<[u8]>::to_vec),
            _ => self.read_opened(path),
        };
        self.remember(|seen| {
            seen.reads.insert(path.to_owned(), answer(&read));
        });
        read
    }

    fn read_opened(&self, path: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open_regular(path)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Fills `bytes` from an offset of a device or, in a captured tree, of a regular file in its
    /// place.
    ///
    /// # Errors
    /// The kernel's; `UnexpectedEof` where there are fewer bytes.
    pub fn read_device_at(&self, path: &str, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let read = match &self.source {
            TreeSource::Live => self
                .open(path, FOR_READING)
                .and_then(|file| File::from(file).read_exact_at(bytes, offset)),
            TreeSource::Directory(_) => {
                self.open_regular(path).and_then(|file| file.read_exact_at(bytes, offset))
            }
            TreeSource::Archive(files) => files.read_device_at(path, offset, bytes),
        };
        self.remember(|seen| match &read {
            Ok(()) => {
                seen.registers.entry(path.to_owned()).or_default().insert(offset, bytes.to_vec());
            }
            Err(error) => {
                seen.reads.insert(path.to_owned(), Err(AccessFailure::from_error(error)));
            }
        });
        read
    }

    /// Returns the names in a directory, sorted.
    ///
    /// # Errors
    /// The kernel's.
    pub fn names(&self, path: &str) -> io::Result<Vec<String>> {
        let names = match &self.source {
            TreeSource::Archive(files) => files.names(path),
            _ => self.names_opened(path),
        };
        self.remember(|seen| {
            seen.lists.insert(path.to_owned(), answer(&names));
        });
        names
    }

    fn names_opened(&self, path: &str) -> io::Result<Vec<String>> {
        let directory = self.open(path, FOR_READING | OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in Dir::new(directory)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }

        names.retain(|name| name != "." && name != "..");
        names.sort();
        Ok(names)
    }

    /// Whether a file or directory exists.
    ///
    /// # Errors
    /// The kernel's, where that cannot be found out.
    pub fn exists(&self, path: &str) -> io::Result<bool> {
        let exists = match &self.source {
            TreeSource::Archive(files) => files.exists(path),
            _ => match self.open(path, OFlags::PATH | OFlags::CLOEXEC) {
                Ok(_) => Ok(true),
                Err(error) if is_absent(&error) => Ok(false),
                Err(error) => Err(error),
            },
        };
        self.remember(|seen| {
            seen.lookups.insert(path.to_owned(), answer(&exists));
        });
        exists
    }

    /// Returns the CPUs that a task of the live machine may use, by a system call, which takes a
    /// tenth of reading its file; `None` for a captured tree, and where the call does not answer.
    #[must_use]
    pub fn live_affinity(&self, tid: i32) -> Option<CpuList> {
        let task = rustix::process::Pid::from_raw(tid).filter(|_| self.is_live())?;
        let set = rustix::thread::sched_getaffinity(Some(task)).ok()?;
        let numbers = 0..u32::try_from(rustix::thread::CpuSet::MAX_CPU).unwrap_or(u32::MAX);
        let cpus: CpuList = numbers.filter(|cpu| set.is_set(*cpu as usize)).collect();
        self.remember(|seen| {
            seen.affinities.insert(tid, cpus.clone());
        });
        Some(cpus)
    }
}

fn answer<T: Clone>(result: &io::Result<T>) -> Result<T, AccessFailure> {
    match result {
        Ok(value) => Ok(value.clone()),
        Err(error) => Err(AccessFailure::from_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

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
        assert!(
            is_absent(&tree.read("/etc/outside").unwrap_err()),
            "a link to /etc/hostname of the tree, which has none"
        );
        assert!(tree.read("/../../../../../../../../etc/hostname").is_err());
        assert_eq!(tree.read("/etc/pipe").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
