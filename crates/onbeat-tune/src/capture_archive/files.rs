//! An archive in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::accesses::AccessFailure;
use super::archive::{CaptureManifest, FailedAccess};

/// One entry of an archive.
#[derive(Debug)]
pub(crate) enum CapturedEntry {
    /// A file with its bytes.
    File(Box<[u8]>),
    /// A file that exists; nothing read it.
    Unread,
    /// A directory with the names in it; without them where it was not listed.
    Directory(Option<BTreeSet<String>>),
}

/// The files of a capture, and what is known about those that it lacks.
#[derive(Debug, Default)]
pub(crate) struct CapturedFiles {
    entries: BTreeMap<String, CapturedEntry>,
    manifest: CaptureManifest,
}

impl CapturedFiles {
    pub(super) fn new(manifest: CaptureManifest) -> Self {
        Self { entries: BTreeMap::new(), manifest }
    }

    /// Adds an entry and the directories above it. Of a directory added by its entry all names are
    /// known.
    pub(super) fn add(&mut self, path: &str, entry: CapturedEntry) {
        let is_listed = self.manifest.is_complete;
        let mut below = path;
        while let Some((above, name)) = below.rsplit_once('/') {
            let directory = if above.is_empty() { "/" } else { above };
            let unlisted = || CapturedEntry::Directory(is_listed.then(BTreeSet::new));
            let parent = self.entries.entry(directory.to_owned()).or_insert_with(unlisted);
            if let CapturedEntry::Directory(Some(names)) = parent
                && !names.insert(name.to_owned())
            {
                break;
            }
            below = above;
        }

        match (self.entries.get(path), &entry) {
            // Named as a directory's name before its own entry came.
            (Some(CapturedEntry::Directory(Some(_))), CapturedEntry::Directory(_)) => {}
            _ => {
                self.entries.insert(path.to_owned(), entry);
            }
        }
    }

    fn failure(&self, access: FailedAccess, path: &str) -> Option<io::Error> {
        self.manifest
            .failed
            .get(&access)?
            .get(path)
            .map(|failure: &AccessFailure| failure.to_error())
    }

    /// The error for a path that the capture lacks: that it does not exist only where that is
    /// known.
    fn missing(&self, path: &str) -> io::Error {
        let above = |path: &'_ str| path.rfind('/').map(|at| path[..at].to_owned());
        let mut ancestor = Some(path.to_owned());
        let mut is_absent = self.manifest.is_complete;
        while let Some(path) = ancestor.filter(|path| !path.is_empty() && !is_absent) {
            is_absent = self.manifest.absent.contains(&path);
            ancestor = above(&path);
        }

        if is_absent {
            io::ErrorKind::NotFound.into()
        } else {
            io::Error::other("the capture does not hold it")
        }
    }

    pub(crate) fn read(&self, path: &str) -> io::Result<&[u8]> {
        if let Some(error) = self.failure(FailedAccess::Read, path) {
            return Err(error);
        }

        match self.entries.get(path) {
            Some(CapturedEntry::File(bytes)) => Ok(bytes),
            Some(CapturedEntry::Directory(_)) => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
            }
            Some(CapturedEntry::Unread) => {
                Err(io::Error::other("the capture does not hold its content"))
            }
            None => Err(self.missing(path)),
        }
    }

    pub(crate) fn names(&self, path: &str) -> io::Result<Vec<String>> {
        if let Some(error) = self.failure(FailedAccess::List, path) {
            return Err(error);
        }

        match self.entries.get(path) {
            Some(CapturedEntry::Directory(Some(names))) => Ok(names.iter().cloned().collect()),
            // Gone since something in it was read, as the directory of a process that has ended.
            Some(CapturedEntry::Directory(None)) if self.manifest.absent.contains(path) => {
                Err(io::ErrorKind::NotFound.into())
            }
            Some(CapturedEntry::Directory(None)) => {
                Err(io::Error::other("the capture does not hold its names"))
            }
            Some(_) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(self.missing(path)),
        }
    }

    pub(crate) fn exists(&self, path: &str) -> io::Result<bool> {
        if let Some(error) = self.failure(FailedAccess::LookUp, path) {
            return Err(error);
        }
        if self.entries.contains_key(path) {
            return Ok(true);
        }

        let missing = self.missing(path);
        if missing.kind() == io::ErrorKind::NotFound { Ok(false) } else { Err(missing) }
    }

    pub(crate) fn read_device_at(
        &self,
        path: &str,
        offset: u64,
        bytes: &mut [u8],
    ) -> io::Result<()> {
        let captured =
            self.manifest.registers.get(path).and_then(|registers| registers.get(&offset));
        match captured {
            Some(value) => {
                let value = value.to_le_bytes();
                let length = bytes.len().min(value.len());
                bytes[..length].copy_from_slice(&value[..length]);
                Ok(())
            }
            None => match self.read(path) {
                Err(error) => Err(error),
                Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ends_during_a_capture_has_no_threads_in_it() {
        let mut manifest = CaptureManifest::default();
        manifest.absent.insert("/proc/7/task".to_owned());
        let mut files = CapturedFiles::new(manifest);
        let file = || CapturedEntry::File(b"7 (sh) S".as_slice().into());
        for pid in [7, 8] {
            files.add(&format!("/proc/{pid}/task/{pid}/stat"), file());
        }

        let of_ended = files.names("/proc/7/task").expect_err("it has ended");
        assert_eq!(of_ended.kind(), io::ErrorKind::NotFound);
        let of_other = files.names("/proc/8/task").expect_err("nothing has listed it");
        assert_eq!(of_other.kind(), io::ErrorKind::Other);
    }
}
