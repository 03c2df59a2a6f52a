//! A data set: a directory of Parquet files, into which many machines write at once.
//!
//! ```text
//! DIR/onbeat-fleet.json                                        what the directory is
//! DIR/landing/TABLE/day=2026-11-28/ID.REVISION.parquet         a run's rows of a table; `runs` is written last
//! DIR/packed/TABLE/day=2026-11-28/g000001-000.parquet          a day's rows of a table, by `pack`; `runs` is written last
//! ```
//!
//! A run exists when its row of `runs` does. Of a run that is there several times, in `landing` with more than one revision or packed
//! too, the largest revision counts. Readers list `landing` before `packed`, because runs move in this direction.
//!
//! An address `s3://BUCKET/NAME` is such a directory in an object store, into which runs land and where nothing is packed
//! ([`crate::objects`]).

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use onbeat_host::foreign;

use crate::objects::{self, Objects, ObjectsError};
use crate::parquet_file::{self, SCHEMA, TEMPORARY, TableFileError, failed, sync_folder};
use crate::rows::RunRows;
use crate::table::{RUNS, TABLES, Table, TableShape};

/// The file by which a directory is known as a data set.
const MARKER: &str = "onbeat-fleet.json";
/// What such a file holds at most, in bytes.
const MARKER_BYTES: u64 = 4_096;
/// How the folder of a day begins, as engines expect a partition.
pub(crate) const DAY: &str = "day=";
/// How files of the data set end.
pub(crate) const ENDING: &str = ".parquet";

/// A data set could not be opened, or a run could not be added.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The directory holds something else.
    #[error(
        "{path} is not a data set of onbeat fleet: it has no {MARKER}, and other files; choose another directory with --to"
    )]
    Other {
        /// The directory.
        path: PathBuf,
    },
    /// There is no data set.
    #[error(
        "{path} is not a data set of onbeat fleet: it has no {MARKER}; onbeat fleet add RUN --to {path} makes one"
    )]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// A later version made it.
    #[error(
        "{path} has tables of version {found}, and this program knows version {SCHEMA}; use a later onbeat"
    )]
    Later {
        /// The directory.
        path: PathBuf,
        /// Its version.
        found: i64,
    },
    /// Another process packs it.
    #[error("{path} is being packed by another process; try again when that has ended")]
    BeingPacked {
        /// The directory.
        path: PathBuf,
    },
    /// A packed file would not hold what it is made of.
    #[error(
        "packing {day} of {path} read {read} rows of {table} and wrote {written}; nothing was removed"
    )]
    Unequal {
        /// The data set.
        path: PathBuf,
        /// Which day.
        day: String,
        /// Which table.
        table: &'static str,
        /// Rows read.
        read: usize,
        /// Rows written.
        written: usize,
    },
    /// A file could not be written or read.
    #[error(transparent)]
    File(#[from] TableFileError),
    /// An object store did not do what was asked of it.
    #[error(transparent)]
    Objects(#[from] ObjectsError),
}

/// What adding a run did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It is in the data set now.
    New,
    /// A shorter part of it was there, and is replaced.
    Replaced,
    /// It was there already.
    AlreadyThere,
}

/// A run file of the landing, by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Landed {
    pub(crate) id: String,
    pub(crate) revision: u64,
}

impl Landed {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let (id, revision) = name.strip_suffix(ENDING)?.split_once('.')?;
        let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        Some(Self { id: id.to_owned(), revision: revision.parse().ok().filter(|_| is_id)? })
    }

    pub(crate) fn name(&self) -> String {
        format!("{}.{}{ENDING}", self.id, self.revision)
    }
}

/// A data set in a directory, or in an object store.
#[derive(Debug)]
pub struct DataSet {
    root: PathBuf,
    objects: Option<Box<dyn Objects>>,
    /// Packed runs of the days that were asked for, and their revisions.
    packed: Mutex<HashMap<String, BTreeMap<String, u64>>>,
}

impl DataSet {
    /// Opens a data set, or makes one of an empty directory or of one that does not exist.
    ///
    /// # Errors
    /// [`StoreError`]: a directory with other files in it is not taken.
    pub fn open_or_create(root: &Path) -> Result<Self, StoreError> {
        if let Some(objects) = objects::of_address(root)? {
            return Self::in_objects(root, objects);
        }
        match Self::open(root) {
            Err(StoreError::Missing { .. }) => {}
            other => return other,
        }
        match fs::create_dir(root) {
            Err(why) if why.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed("create", root)(why).into());
            }
            _ => {}
        }
        let names = names_in(root)?;
        if names.iter().any(|name| !name.starts_with(TEMPORARY) && name != "lost+found") {
            // Another writer may have made the data set since.
            return Self::open(root).map_err(|why| match why {
                StoreError::Missing { path } => StoreError::Other { path },
                why => why,
            });
        }

        let marker = root.join(MARKER);
        let temporary = root.join(format!("{TEMPORARY}{MARKER}.{}", std::process::id()));
        let written = fs::write(&temporary, marker_text())
            .and_then(|()| fs::File::open(&temporary)?.sync_all());
        written
            .and_then(|()| fs::rename(&temporary, &marker))
            .map_err(failed("create", &marker))?;
        sync_folder(root)?;
        Self::open(root)
    }

    /// As [`Self::open_or_create`], of an object store. Two that create it at once write the same.
    fn in_objects(root: &Path, objects: Box<dyn Objects>) -> Result<Self, StoreError> {
        let mut text = objects.read(MARKER)?;
        if text.is_none() && objects.names("")?.is_empty() {
            objects.write(MARKER, marker_text().as_bytes())?;
        }
        if text.is_none() {
            // Also where another machine made the data set between the two questions.
            text = objects.read(MARKER)?;
        }
        let text = text.ok_or_else(|| StoreError::Other { path: root.to_owned() })?;
        let text = String::from_utf8_lossy(&text);
        let of_marker = Self::of_marker(root, &text)?;
        Ok(Self { objects: Some(objects), ..of_marker })
    }

    /// Opens a data set in a directory.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        if objects::is_address(root) {
            return Err(ObjectsError::NotADirectory { path: root.to_owned() }.into());
        }
        let marker = root.join(MARKER);
        let text = match foreign::text(&marker, MARKER_BYTES) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                return Err(StoreError::Missing { path: root.to_owned() });
            }
            other => other.map_err(failed("read", &marker))?,
        };
        Self::of_marker(root, &text)
    }

    fn of_marker(root: &Path, text: &str) -> Result<Self, StoreError> {
        let found = serde_json::from_str::<serde_json::Value>(text)
            .ok()
            .and_then(|marker| marker["tables"].as_i64());
        match found {
            Some(found) if found > SCHEMA => {
                Err(StoreError::Later { path: root.to_owned(), found })
            }
            Some(_) => Ok(Self { root: root.to_owned(), objects: None, packed: Mutex::default() }),
            None => Err(StoreError::Other { path: root.to_owned() }),
        }
    }

    /// Returns its directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Adds a run; one that is there already is not added again. A process that is killed here leaves a run that does not exist,
    /// and the next call adds it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn add(&self, run: &RunRows) -> Result<Added, StoreError> {
        let landed = self.landed_of(&run.day, &run.id)?;
        let packed = self.packed_revision(&run.day, &run.id)?;
        let newest = landed.iter().map(|landed| landed.revision).chain(packed).max();
        if newest.is_some_and(|newest| newest >= run.revision) {
            return Ok(Added::AlreadyThere);
        }

        let name = Landed { id: run.id.clone(), revision: run.revision }.name();
        for table in &run.tables {
            self.write(&self.landing(table.shape(), &run.day).join(&name), table)?;
        }
        // The longer run is there; readers take it whether these are still there or not.
        for old in landed {
            self.remove_landed(&run.day, &old)?;
        }
        Ok(if newest.is_some() { Added::Replaced } else { Added::New })
    }

    fn write(&self, path: &Path, table: &Table) -> Result<(), StoreError> {
        match &self.objects {
            None => Ok(parquet_file::write(path, table)?),
            Some(objects) => {
                Ok(objects.write(&self.name_of(path), &parquet_file::bytes_of(table)?)?)
            }
        }
    }

    /// The name of a file below the address of an object store.
    fn name_of(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).to_string_lossy().into_owned()
    }

    /// Removes the files of a run from the landing, its row of `runs` first.
    pub(crate) fn remove_landed(&self, day: &str, landed: &Landed) -> Result<(), StoreError> {
        for shape in TABLES.iter().rev() {
            let path = self.landing(shape, day).join(landed.name());
            match &self.objects {
                None => remove(&path)?,
                Some(objects) => objects.remove(&self.name_of(&path))?,
            }
        }
        Ok(())
    }

    /// Lists what the landing has of a run.
    fn landed_of(&self, day: &str, id: &str) -> Result<Vec<Landed>, StoreError> {
        let mut landed = match &self.objects {
            None => self.landed(day)?,
            Some(objects) => {
                let folder = self.name_of(&self.landing(&RUNS, day));
                let names = objects.names(&format!("{folder}/{id}."))?;
                let names = names.iter().filter_map(|name| name.rsplit('/').next());
                names.filter_map(Landed::from_name).collect()
            }
        };
        landed.retain(|one| one.id == id);
        Ok(landed)
    }

    /// Lists the runs of a day in the landing.
    pub(crate) fn landed(&self, day: &str) -> Result<Vec<Landed>, StoreError> {
        let names = names_in(&self.landing(&RUNS, day))?;
        Ok(names.iter().filter_map(|name| Landed::from_name(name)).collect())
    }

    /// Lists the days that have runs, in the landing or packed.
    pub(crate) fn days(&self) -> Result<Vec<String>, StoreError> {
        let mut days = Vec::new();
        for place in ["landing", "packed"] {
            let names = names_in(&self.root.join(place).join(RUNS.name))?;
            days.extend(names.iter().filter_map(|name| Some(name.strip_prefix(DAY)?.to_owned())));
        }
        days.sort();
        days.dedup();
        Ok(days)
    }

    pub(crate) fn landing(&self, shape: &TableShape, day: &str) -> PathBuf {
        self.root.join("landing").join(shape.name).join(format!("{DAY}{day}"))
    }

    pub(crate) fn packed_folder(&self, shape: &TableShape, day: &str) -> PathBuf {
        self.root.join("packed").join(shape.name).join(format!("{DAY}{day}"))
    }

    /// Returns the newest complete generation of a day.
    pub(crate) fn generation(&self, day: &str) -> Result<Option<u64>, StoreError> {
        let names = names_in(&self.packed_folder(&RUNS, day))?;
        Ok(names.iter().filter_map(|name| generation_of(name)).max())
    }

    /// Lists the files of a table in a generation of a day.
    pub(crate) fn parts(
        &self,
        shape: &TableShape,
        day: &str,
        generation: u64,
    ) -> Result<Vec<PathBuf>, StoreError> {
        let folder = self.packed_folder(shape, day);
        let mut names = names_in(&folder)?;
        names.retain(|name| generation_of(name) == Some(generation));
        names.sort();
        Ok(names.iter().map(|name| folder.join(name)).collect())
    }

    /// Returns the packed runs of a day and their revisions.
    pub(crate) fn packed_runs(&self, day: &str) -> Result<BTreeMap<String, u64>, StoreError> {
        let Some(generation) = self.generation(day)? else { return Ok(BTreeMap::new()) };
        let runs = self.numbered_runs(day, generation, "revision")?;
        Ok(runs.into_iter().map(|(id, revision)| (id, revision.unsigned_abs())).collect())
    }

    /// Returns the ids of the runs in a generation of a day, each with the number in this column.
    pub(crate) fn numbered_runs(
        &self,
        day: &str,
        generation: u64,
        column: &str,
    ) -> Result<Vec<(String, i64)>, StoreError> {
        let mut runs = Vec::new();
        for part in self.parts(&RUNS, day, generation)? {
            let table = parquet_file::read(&part, &RUNS)?;
            let (Some(ids), Some(numbers)) = (table.texts("id"), table.numbers(column)) else {
                continue;
            };
            runs.extend((0..).zip(numbers).map(|(row, number)| (ids.get(row).to_owned(), *number)));
        }
        Ok(runs)
    }

    /// Returns the machine that a run in the data set is of; `None` where it is not there, and in an object store.
    ///
    /// # Errors
    /// [`StoreError`]: a folder cannot be listed.
    pub fn machine_of(&self, run: &RunRows) -> Result<Option<String>, StoreError> {
        if self.objects.is_some() {
            return Ok(None);
        }
        let landing = self.landing(&RUNS, &run.day);
        let landed = self.landed_of(&run.day, &run.id)?;
        let mut files: Vec<PathBuf> = landed.iter().map(|one| landing.join(one.name())).collect();
        if let Some(generation) = self.generation(&run.day)? {
            files.extend(self.parts(&RUNS, &run.day, generation)?);
        }
        let of_file = |file: &PathBuf| {
            // One that is gone was packed in the meantime.
            let table = parquet_file::read(file, &RUNS).ok()?;
            let (ids, hosts) = (table.texts("id")?, table.texts("host")?);
            let row = (0..table.rows()).find(|row| ids.get(*row) == run.id)?;
            Some(hosts.get(row).to_owned())
        };
        Ok(files.iter().find_map(of_file))
    }

    fn packed_revision(&self, day: &str, id: &str) -> Result<Option<u64>, StoreError> {
        if self.objects.is_some() {
            return Ok(None);
        }
        let mut packed = self.packed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = packed.get(day) {
            return Ok(known.get(id).copied());
        }
        // Kept: a run that is packed in the meantime is added once more, and readers take one of them.
        let runs = self.packed_runs(day)?;
        let revision = runs.get(id).copied();
        packed.insert(day.to_owned(), runs);
        Ok(revision)
    }
}

/// What is in the file by which a data set is known.
fn marker_text() -> String {
    format!("{{\"schema\":\"onbeat.fleet/1\",\"tables\":{SCHEMA}}}\n")
}

/// The generation of a packed file, by its name.
pub(crate) fn generation_of(name: &str) -> Option<u64> {
    let (number, _) = name.strip_prefix('g')?.strip_suffix(ENDING)?.split_once('-')?;
    number.parse().ok()
}

/// Names in a folder; none where there is no such folder.
pub(crate) fn names_in(folder: &Path) -> Result<Vec<String>, StoreError> {
    let entries = match fs::read_dir(folder) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed("read", folder))?,
    };
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    Ok(names.collect::<io::Result<_>>().map_err(failed("read", folder))?)
}

/// Removes a file, if it is there.
pub(crate) fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => {
            Err(failed("remove", path)(why).into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use onbeat_record::{Header, RunWriter, Series};

    use super::*;
    use crate::rows::Naming;

    /// An object store that fails after some writes, as one whose writer is killed or whose network goes away.
    #[derive(Clone, Debug, Default)]
    struct Shelf {
        objects: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
        writes_left: Arc<AtomicUsize>,
    }

    impl Shelf {
        fn names_of(&self, beginning: &str) -> Vec<String> {
            let objects = self.objects.lock().unwrap();
            objects.keys().filter(|name| name.starts_with(beginning)).cloned().collect()
        }

        fn open(&self, writes: usize) -> Result<DataSet, StoreError> {
            self.writes_left.store(writes, Ordering::Relaxed);
            DataSet::in_objects(Path::new("s3://bucket/fleet"), Box::new(self.clone()))
        }
    }

    impl Objects for Shelf {
        fn names(&self, beginning: &str) -> Result<Vec<String>, ObjectsError> {
            Ok(self.names_of(beginning))
        }

        fn read(&self, name: &str) -> Result<Option<Vec<u8>>, ObjectsError> {
            Ok(self.objects.lock().unwrap().get(name).cloned())
        }

        fn write(&self, name: &str, bytes: &[u8]) -> Result<(), ObjectsError> {
            let left = |left: usize| left.checked_sub(1);
            if self.writes_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_err() {
                return Err(ObjectsError::NoBucket {
                    endpoint: String::new(),
                    bucket: name.to_owned(),
                });
            }
            self.objects.lock().unwrap().insert(name.to_owned(), bytes.to_vec());
            Ok(())
        }

        fn remove(&self, name: &str) -> Result<(), ObjectsError> {
            self.objects.lock().unwrap().remove(name);
            Ok(())
        }
    }

    fn rows(dir: &Path) -> RunRows {
        let file = dir.join("timer.onbeat.hlog");
        let header = Header::new(&["onbeat".to_owned()], "timer", &[Series::ReleaseLatency], 1.8e9);
        RunWriter::create(&file, &header).unwrap();
        RunRows::read(&file, &Naming::default()).unwrap()
    }

    #[test]
    fn an_upload_that_stops_anywhere_leaves_no_run_and_the_next_one_completes_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut run = rows(dir.path());
        let all = run.tables.len();
        assert!(all > 1, "{all} tables");
        let shelf = Shelf::default();
        assert!(shelf.open(0).is_err());
        shelf.open(1).unwrap();
        for writes in 0..all {
            assert!(shelf.open(writes).unwrap().add(&run).is_err());
            assert_eq!(shelf.names_of("landing/").len(), writes);
            assert!(shelf.names_of("landing/runs/").is_empty(), "after {writes} objects");
        }
        assert_eq!(shelf.open(all).unwrap().add(&run).unwrap(), Added::New);
        assert_eq!(shelf.open(0).unwrap().add(&run).unwrap(), Added::AlreadyThere);
        assert_eq!(shelf.names_of("landing/").len(), all);

        // A longer part of it is there before the shorter one goes.
        run.revision += 1;
        assert!(shelf.open(all - 1).unwrap().add(&run).is_err());
        assert_eq!(shelf.names_of("landing/runs/").len(), 1);
        assert_eq!(shelf.open(all).unwrap().add(&run).unwrap(), Added::Replaced);
        assert_eq!(shelf.names_of("landing/").len(), all);
    }

    #[test]
    fn what_is_not_a_data_set_in_a_bucket_is_left_alone() {
        let shelf = Shelf::default();
        shelf.objects.lock().unwrap().insert("photo.jpg".to_owned(), Vec::new());
        let refused = shelf.open(9).unwrap_err().to_string();
        assert!(
            refused.contains("s3://bucket/fleet is not a data set of onbeat fleet"),
            "{refused}"
        );
        assert_eq!(shelf.names_of(""), ["photo.jpg"]);
    }
}
