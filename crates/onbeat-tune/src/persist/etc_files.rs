//! Files below a root directory: written to a temporary name, synced and renamed; removed without a
//! trace.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use onbeat_host::foreign;

use super::PersistError;
use crate::catalogue::host_tree::is_absent;

/// The mode of files that others read: systemd, GRUB.
const FILE_MODE: u32 = 0o644;
/// The largest file that is read, in bytes; those that are written have some hundreds.
const MOST_BYTES: u64 = 1 << 20;

/// A machine's files below its root directory.
#[derive(Clone, Debug)]
pub(super) struct EtcFiles {
    root: PathBuf,
}

fn error(doing: &'static str, path: &Path, source: io::Error) -> PersistError {
    PersistError::File { doing, path: path.to_owned(), source }
}

impl EtcFiles {
    pub(super) fn open(root: &Path) -> Result<Self, PersistError> {
        let canonical = fs::canonicalize(root).map_err(|source| error("read", root, source))?;
        Ok(Self { root: canonical })
    }

    /// Where a path of the machine is.
    pub(super) fn place(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The same with links followed, as far as it exists; it must stay below the root.
    fn resolve(&self, path: &str) -> Result<PathBuf, PersistError> {
        let place = self.place(path);
        let resolved = match fs::canonicalize(&place) {
            Ok(resolved) => resolved,
            Err(_) => {
                let existing =
                    place.ancestors().skip(1).find(|parent| parent.exists()).unwrap_or(&self.root);
                let parent =
                    fs::canonicalize(existing).map_err(|source| error("read", existing, source))?;
                let rest = place.strip_prefix(existing).unwrap_or(&place);
                parent.join(rest)
            }
        };

        if resolved.starts_with(&self.root) {
            Ok(resolved)
        } else {
            Err(PersistError::OutsideRoot { path: resolved, root: self.root.clone() })
        }
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        self.resolve(path).is_ok_and(|place| place.exists())
    }

    /// The names in a directory, sorted; none where it does not exist.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = self.resolve(path).map(fs::read_dir) else { return Vec::new() };
        let mut names: Vec<String> = entries
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into())
            .collect();
        names.sort();
        names
    }

    /// The text of a regular file; `None` where there is none.
    pub(super) fn read(&self, path: &str) -> Result<Option<String>, PersistError> {
        let place = self.resolve(path)?;
        match foreign::text(&place, MOST_BYTES) {
            Ok(text) => Ok(Some(text)),
            Err(source) if is_absent(&source) => Ok(None),
            Err(source) => Err(error("read", &place, source)),
        }
    }

    /// The target of a link; `None` where there is none.
    pub(super) fn read_link(&self, path: &str) -> Option<String> {
        fs::read_link(self.place(path)).ok().map(|target| target.to_string_lossy().into_owned())
    }

    /// Refuses a file or link that exists.
    pub(super) fn refuse_existing(&self, path: &str) -> Result<(), PersistError> {
        let place = self.place(path);
        match place.symlink_metadata() {
            Ok(_) => Err(PersistError::ForeignFile { path: place }),
            Err(_) => Ok(()),
        }
    }

    /// Directories on the way to a file that do not exist, the outermost first.
    pub(super) fn missing_directories(&self, path: &str) -> Vec<String> {
        let parents: Vec<&str> =
            path.match_indices('/').map(|(at, _)| &path[..at]).filter(|p| !p.is_empty()).collect();
        parents
            .into_iter()
            .filter(|parent| !self.place(parent).exists())
            .map(str::to_owned)
            .collect()
    }

    fn temporary(place: &Path) -> PathBuf {
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        place.with_file_name(format!(".{name}.onbeat-new"))
    }

    /// Writes a whole file; a reader sees the old text or the new one.
    pub(super) fn write(&self, path: &str, text: &str) -> Result<(), PersistError> {
        self.write_with_mode(path, text, FILE_MODE)
    }

    /// The same with a mode for a file that does not exist yet.
    pub(super) fn write_with_mode(
        &self,
        path: &str,
        text: &str,
        mode: u32,
    ) -> Result<(), PersistError> {
        let place = self.resolve(path)?;
        let directory = place.parent().unwrap_or(&self.root).to_owned();
        fs::create_dir_all(&directory).map_err(|source| error("write", &directory, source))?;

        let temporary = Self::temporary(&place);
        let written = write_synced(&temporary, text, mode, fs::metadata(&place).ok())
            .and_then(|()| fs::rename(&temporary, &place))
            .and_then(|()| File::open(&directory)?.sync_all());
        written.map_err(|source| {
            let _ = fs::remove_file(&temporary);
            error("write", &place, source)
        })
    }

    /// Makes a link; the target is a path of the machine.
    pub(super) fn link(&self, path: &str, target: &str) -> Result<(), PersistError> {
        let place = self.place(path);
        let directory = place.parent().unwrap_or(&self.root);
        let made = fs::create_dir_all(directory).and_then(|()| symlink(target, &place));
        made.map_err(|source| error("write", &place, source))
    }

    pub(super) fn remove(&self, path: &str) -> Result<(), PersistError> {
        let place = self.place(path);
        fs::remove_file(&place).map_err(|source| error("remove", &place, source))
    }

    /// Removes what an interrupted write left.
    pub(super) fn remove_unfinished(&self, path: &str) -> Result<(), PersistError> {
        let temporary = Self::temporary(&self.resolve(path)?);
        match fs::remove_file(&temporary) {
            Err(source) if !is_absent(&source) => Err(error("remove", &temporary, source)),
            _ => Ok(()),
        }
    }

    /// Removes directories that are empty, the innermost first. Others may use them by now.
    pub(super) fn remove_directories(&self, directories: &[String]) -> Result<(), PersistError> {
        for directory in directories.iter().rev() {
            let place = self.place(directory);
            match fs::remove_dir(&place) {
                Ok(()) => {}
                Err(source)
                    if matches!(
                        source.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty
                    ) => {}
                Err(source) => return Err(error("remove", &place, source)),
            }
        }

        Ok(())
    }
}

fn write_synced(
    temporary: &Path,
    text: &str,
    mode: u32,
    replaced: Option<fs::Metadata>,
) -> io::Result<()> {
    let mut file = File::create(temporary)?;
    file.write_all(text.as_bytes())?;

    let mode = replaced.as_ref().map_or(mode, |found| found.mode() & 0o7777);
    let written = file.metadata()?;
    // FAT refuses modes and owners, and has the same ones for all files.
    if written.mode() & 0o7777 != mode {
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    if let Some(found) =
        replaced.filter(|found| (found.uid(), found.gid()) != (written.uid(), written.gid()))
    {
        chown(temporary, Some(found.uid()), Some(found.gid()))?;
    }
    file.sync_all()
}
