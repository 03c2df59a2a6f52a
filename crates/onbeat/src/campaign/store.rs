//! Results on disk: a directory for each cell, complete or absent, with a record of what it is.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use onbeat_host::foreign;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Begins the names of directories that are being filled; the number of the process follows.
/// [`remove_partial`] removes those of processes that no longer exist.
pub const PARTIAL: &str = ".partial-";

/// A store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or directory could not be read or written.
    #[error("cannot {what} {}: {source}", path.display())]
    System {
        /// `read` or `write`.
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A record is damaged.
    #[error("{} cannot be used: {reason}; remove its directory to measure again", path.display())]
    Damaged {
        /// The record.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl StoreError {
    /// For `map_err` after a read of `path`.
    pub fn reading(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what: "read", path: path.to_owned(), source }
    }

    /// For `map_err` after a write to `path`.
    pub fn writing(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what: "write", path: path.to_owned(), source }
    }
}

/// The directory of an experiment's results.
#[derive(Clone, Debug)]
pub struct ResultStore {
    path: PathBuf,
    /// The name of the record in the directory of each result.
    record: &'static str,
}

impl ResultStore {
    /// Opens a store, creating it if need be, and removes what killed processes were writing.
    ///
    /// # Errors
    /// As [`create_workplace`]: what is stored there counts as measured.
    pub fn open(path: &Path, record: &'static str) -> Result<Self, StoreError> {
        create_workplace(path)?;
        remove_partial(path)?;
        Ok(Self { path: path.to_owned(), record })
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the record of the result in directory `place` of the store; `None` where there is
    /// none.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn find<T: DeserializeOwned>(&self, place: &Path) -> Result<Option<T>, StoreError> {
        self.read(&place.join(self.record))
    }

    /// Reads a file of the store; `None` where there is none.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn read<T: DeserializeOwned>(&self, name: &Path) -> Result<Option<T>, StoreError> {
        let path = self.path.join(name);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(StoreError::reading(&path)(source)),
        };
        let damaged =
            |why: serde_json::Error| StoreError::Damaged { path, reason: why.to_string() };
        serde_json::from_slice(&bytes).map(Some).map_err(damaged)
    }

    /// Writes a file of the store, whole or not at all.
    ///
    /// # Errors
    /// [`StoreError::System`].
    pub fn write(&self, name: &Path, content: &impl Serialize) -> Result<(), StoreError> {
        let path = self.path.join(name);
        write_whole(&path, &json(content, &path)?)
    }

    /// Stores a record in directory `place` of the store, with the files that `fill` writes beside
    /// it: completely or not at all. A result that was there before is replaced.
    ///
    /// # Errors
    /// [`StoreError::System`], or that of `fill`.
    pub fn keep<E: From<StoreError>>(
        &self,
        place: &Path,
        record: &impl Serialize,
        fill: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<(), E> {
        self.measure(place, |directory| fill(directory).map(|()| record)).map(drop)
    }

    /// As [`Self::keep`], of a record that `measure` finds while it writes the files.
    ///
    /// # Errors
    /// [`StoreError::System`], or that of `measure`.
    pub fn measure<T: Serialize, E: From<StoreError>>(
        &self,
        place: &Path,
        measure: impl FnOnce(&Path) -> Result<T, E>,
    ) -> Result<T, E> {
        let directory = new_directory(&self.path, PARTIAL)?;
        let filled = measure(&directory).and_then(|record| {
            let path = directory.join(self.record);
            fs::write(&path, json(&record, &path)?).map_err(StoreError::writing(&path))?;
            let target = self.path.join(place);
            let parent = target.parent().unwrap_or(&self.path);
            fs::create_dir_all(parent).map_err(StoreError::writing(parent))?;
            remove_if_there(&target)?;
            fs::rename(&directory, &target).map_err(StoreError::writing(&target))?;
            Ok(record)
        });
        // Once it has moved, its name may be that of another thread's.
        filled.inspect_err(|_| drop(remove_if_there(&directory)))
    }
}

/// Creates a directory with its parents unless it is there already. Root's must not be another user's,
/// nor a link of that user's ([`foreign::check_workplace`]), nor its parents in the working directory.
///
/// # Errors
/// [`StoreError::System`].
pub fn create_workplace(path: &Path) -> Result<(), StoreError> {
    // The system follows a link with a slash behind it.
    let path = path.components().as_path();
    let named = path.ancestors().filter(|one| one.file_name().is_some());
    let parents = named.skip(1).filter(|_| path.is_relative());
    parents.filter(|one| one.exists()).try_for_each(check_workplace)?;
    fs::create_dir_all(path).map_err(StoreError::writing(path))?;
    check_workplace(path)
}

fn check_workplace(path: &Path) -> Result<(), StoreError> {
    for found in [fs::symlink_metadata(path), fs::metadata(path)] {
        let owner = found.map_err(StoreError::reading(path))?.uid();
        foreign::check_workplace(owner).map_err(|why| StoreError::writing(path)(why.into()))?;
    }
    Ok(())
}

/// Writes a file, whole and synced to disk, or not at all.
pub(super) fn write_whole(path: &Path, text: &str) -> Result<(), StoreError> {
    let partial = path.with_extension("partial");
    // Of a process that was killed.
    let _ = fs::remove_file(&partial);
    let write = || {
        // Writable by its owner alone, whatever the umask: the reader of a plan trusts no other.
        let mut new = OpenOptions::new();
        let mut file = new.write(true).create_new(true).mode(0o644).open(&partial)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&partial, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(&partial))).map_err(StoreError::writing(path))
}

fn remove_if_there(directory: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(directory) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::writing(directory)(why))
        }
        _ => Ok(()),
    }
}

fn json(value: &impl Serialize, path: &Path) -> Result<String, StoreError> {
    let text = serde_json::to_string_pretty(value).map_err(io::Error::from);
    Ok(text.map_err(StoreError::writing(path))? + "\n")
}

/// Creates directory `target` with what `fill` writes into it: completely or not at all. It is
/// filled below `parent`, which is on the same file system.
///
/// # Errors
/// [`StoreError::System`], or that of `fill`.
pub fn create_whole_in<E, F>(parent: &Path, target: &Path, fill: F) -> Result<(), E>
where
    E: From<StoreError>,
    F: FnOnce(&Path) -> Result<(), E>,
{
    let directory = new_directory(parent, PARTIAL)?;
    let filled = fill(&directory).and_then(|()| match fs::rename(&directory, target) {
        // Another process was faster, with the same content.
        Err(_) if target.is_dir() => Ok(remove_if_there(&directory)?),
        renamed => renamed.map_err(|why| StoreError::writing(target)(why).into()),
    });

    // Once it has moved, its name may be that of another thread's.
    filled.inspect_err(|_| drop(remove_if_there(&directory)))
}

/// Removes what [`create_whole_in`] has left in `parent`, by processes that no longer exist.
///
/// # Errors
/// [`StoreError::System`].
pub fn remove_partial(parent: &Path) -> Result<(), StoreError> {
    for entry in fs::read_dir(parent).map_err(StoreError::reading(parent))? {
        let entry = entry.map_err(StoreError::reading(parent))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((process, _)) = name.strip_prefix(PARTIAL).and_then(|rest| rest.split_once('-'))
        else {
            continue;
        };
        if !Path::new("/proc").join(process).exists() {
            fs::remove_dir_all(entry.path()).map_err(StoreError::writing(&entry.path()))?;
        }
    }

    Ok(())
}

/// Creates a new directory below `parent`, named after this process.
///
/// # Errors
/// [`StoreError::System`].
pub fn new_directory(parent: &Path, prefix: &str) -> Result<PathBuf, StoreError> {
    let process = std::process::id();
    let mut number = 0_u32;
    loop {
        let path = parent.join(format!("{prefix}{process}-{number}"));
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(source) => return Err(StoreError::writing(&path)(source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(directory: &tempfile::TempDir) -> ResultStore {
        ResultStore::open(&directory.path().join("out"), "record.json").unwrap()
    }

    #[test]
    fn a_result_is_found_again_replaced_and_absent_where_it_was_not_filled() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(&directory);
        let (a, b) = (Path::new("rows/a"), Path::new("b"));
        let full = || StoreError::writing(b)(io::ErrorKind::StorageFull.into());
        assert!(store.keep(b, &1, |_| Err(full())).is_err());
        for value in [1, 2] {
            let fill =
                |into: &Path| fs::write(into.join("run"), "x").map_err(StoreError::writing(into));
            store.keep(a, &value, fill).unwrap();
            assert_eq!(store.find::<u8>(a).unwrap(), Some(value));
        }
        assert_eq!((store.find::<u8>(b).unwrap(), store.path().join("b").exists()), (None, false));
        assert_eq!(fs::read_dir(store.path()).unwrap().count(), 1, "nothing partial is left");
    }

    #[test]
    fn a_damaged_record_is_named_with_the_way_on() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(&directory);
        let place = Path::new("a");
        for damaged in ["", "{", "[1]", "\u{0}"] {
            fs::create_dir_all(store.path().join(place)).unwrap();
            fs::write(store.path().join("a/record.json"), damaged).unwrap();
            let why = store.find::<u8>(place).unwrap_err().to_string();
            assert!(why.contains("a/record.json cannot be used: "), "{why}");
            assert!(why.ends_with("remove its directory to measure again"), "{why}");
        }
    }

    #[test]
    fn root_believes_no_results_in_a_directory_of_another_user() {
        let directory = tempfile::tempdir().unwrap();
        let planted = directory.path().join("planted");
        fs::create_dir(&planted).unwrap();
        // Only root can give it away; user 65534 "gives" it to itself.
        let is_root = rustix::process::geteuid().is_root();
        if is_root && std::os::unix::fs::chown(&planted, Some(65_534), None).is_ok() {
            let why = ResultStore::open(&planted, "record.json").unwrap_err().to_string();
            assert!(why.contains("belongs to user 65534"), "{why}");

            let link = directory.path().join("link");
            std::os::unix::fs::symlink(directory.path(), &link).unwrap();
            std::os::unix::fs::lchown(&link, Some(65_534), None).unwrap();
            for named in [link.clone(), link.join("")] {
                assert!(ResultStore::open(&named, "record.json").is_err(), "{named:?}");
            }
        }
    }

    #[test]
    fn what_a_killed_process_was_filling_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().join(format!("{PARTIAL}{}-0", std::process::id()));
        // Above the largest number that a process can have.
        let of_the_dead = directory.path().join(format!("{PARTIAL}4194305-0"));
        for partial in [&own, &of_the_dead] {
            fs::create_dir(partial).unwrap();
        }

        remove_partial(directory.path()).unwrap();
        assert!(own.exists() && !of_the_dead.exists());
    }
}
