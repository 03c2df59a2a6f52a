//! Packing: many small files of a day become few.
//!
//! A robot lands a file a table and run; ten thousand of them take seconds to open. `pack` writes the rows of a day into a new
//! generation of files, sorted, and only then removes what they were made of. Killed at any point, it leaves a data set that holds
//! each run once: a generation counts when its file of `runs` is there, which is written last, and a run in `landing` does not when it
//! is packed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};

use crate::parquet_file::{self, TEMPORARY, failed};
use crate::store::{DataSet, ENDING, Landed, StoreError, generation_of, names_in, remove};
use crate::table::{TABLES, Table, TableShape};

/// Rows of a packed file, about: they are sorted in memory, in 100 bytes each.
const MOST_ROWS: usize = 3_000_000;
/// Temporary files of this age are of a writer that was killed.
const ABANDONED: Duration = Duration::from_secs(24 * 3_600);
/// The file whose lock excludes a second packer.
const LOCK: &str = ".pack.lock";

/// What packing did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Days that were written anew.
    pub days: usize,
    /// Runs that came from the landing.
    pub runs: usize,
    /// Files that they were in.
    pub files: usize,
    /// Temporary files of killed writers that were removed.
    pub abandoned: usize,
}

/// Packs all days that have runs in the landing. Others may add runs meanwhile; those stay for the next time.
///
/// # Errors
/// [`StoreError`]; what was not packed stays where it was.
pub fn pack(fleet: &DataSet) -> Result<Packed, StoreError> {
    let path = fleet.root().join(LOCK);
    let lock =
        File::options().create(true).append(true).open(&path).map_err(failed("open", &path))?;
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Err(StoreError::BeingPacked { path: fleet.root().to_owned() });
    }

    let mut done = Packed::default();
    for day in fleet.days()? {
        let landed = fleet.landed(&day)?;
        let packed = fleet.packed_runs(&day)?;
        let newest = newest_of(&landed, &packed);
        if !newest.is_empty() {
            write_generation(fleet, &day, &newest)?;
            done.days += 1;
            done.runs += newest.len();
        }
        done.files += remove_sources(fleet, &day)?;
        done.abandoned += sweep(fleet, &day)?;
    }

    Ok(done)
}

/// The runs of the landing that are not packed, or packed shorter.
fn newest_of(landed: &[Landed], packed: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let mut newest = BTreeMap::new();
    for Landed { id, revision } in landed {
        let known = newest.get(id).max(packed.get(id)).copied();
        if known.is_none_or(|known| *revision > known) {
            newest.insert(id.clone(), *revision);
        }
    }
    newest
}

fn write_generation(
    fleet: &DataSet,
    day: &str,
    newest: &BTreeMap<String, u64>,
) -> Result<(), StoreError> {
    let before = fleet.generation(day)?;
    let generation = before.map_or(1, |number| number + 1);
    // What a killed packer left under this number is not complete.
    remove_generations(fleet, day, |number| number >= generation)?;

    let replaced = replaced_runs(fleet, day, before, newest)?;
    for shape in TABLES {
        let mut sources = match before {
            Some(number) => fleet.parts(shape, day, number)?,
            None => Vec::new(),
        };
        let landing = fleet.landing(shape, day);
        let of_landing =
            newest.iter().map(|(id, revision)| Landed { id: id.clone(), revision: *revision });
        sources.extend(
            of_landing.map(|landed| landing.join(landed.name())).filter(|path| path.exists()),
        );
        let mut parts = Parts { fleet, day, generation, shape, number: 0, read: 0, written: 0 };
        parts.write_all(&sources, &replaced)?;
    }

    Ok(())
}

/// Runs of the generation before that a longer part of themselves replaces.
fn replaced_runs(
    fleet: &DataSet,
    day: &str,
    before: Option<u64>,
    newest: &BTreeMap<String, u64>,
) -> Result<BTreeSet<i64>, StoreError> {
    let Some(before) = before else { return Ok(BTreeSet::new()) };
    let runs = fleet.numbered_runs(day, before, "run")?.into_iter();
    Ok(runs.filter(|(id, _)| newest.contains_key(id)).map(|(_, run)| run).collect())
}

/// The files of a table in a generation that is being written.
struct Parts<'f> {
    fleet: &'f DataSet,
    day: &'f str,
    generation: u64,
    shape: &'static TableShape,
    number: usize,
    read: usize,
    written: usize,
}

impl Parts<'_> {
    /// Writes the rows of `sources`, those of the landing and of the generation before, without the runs that are `replaced`.
    fn write_all(
        &mut self,
        sources: &[PathBuf],
        replaced: &BTreeSet<i64>,
    ) -> Result<(), StoreError> {
        let mut gathered = Table::new(self.shape);
        for source in sources {
            let is_packed = source.starts_with(self.fleet.root().join("packed"));
            let rows = if is_packed && !replaced.is_empty() {
                self.take_without(source, replaced, &mut gathered)?
            } else {
                let before = gathered.rows();
                parquet_file::read_into(source, &mut gathered)?;
                gathered.rows() - before
            };
            self.read += rows;
            if gathered.rows() >= MOST_ROWS {
                self.write(std::mem::replace(&mut gathered, Table::new(self.shape)))?;
            }
        }
        if gathered.rows() > 0 {
            self.write(gathered)?;
        }
        if self.read == self.written {
            return Ok(());
        }
        Err(StoreError::Unequal {
            path: self.fleet.root().to_owned(),
            day: self.day.to_owned(),
            table: self.shape.name,
            read: self.read,
            written: self.written,
        })
    }

    fn take_without(
        &self,
        source: &Path,
        replaced: &BTreeSet<i64>,
        to: &mut Table,
    ) -> Result<usize, StoreError> {
        let table = parquet_file::read(source, self.shape)?;
        let runs = table.numbers("run").unwrap_or_default();
        let kept: Vec<usize> =
            (0..table.rows()).filter(|row| !replaced.contains(&runs[*row])).collect();
        kept.iter().for_each(|row| to.push_row_of(&table, *row));
        Ok(kept.len())
    }

    fn write(&mut self, gathered: Table) -> Result<(), StoreError> {
        let folder = self.fleet.packed_folder(self.shape, self.day);
        let path = folder.join(format!("g{:06}-{:03}{ENDING}", self.generation, self.number));
        let sorted = gathered.sorted();
        drop(gathered);
        parquet_file::write(&path, &sorted)?;
        self.written += parquet_file::rows_of(&path)?;
        self.number += 1;
        Ok(())
    }
}

/// Removes older generations, and what is in the newest one from the landing; returns the number of files.
fn remove_sources(fleet: &DataSet, day: &str) -> Result<usize, StoreError> {
    let Some(newest) = fleet.generation(day)? else { return Ok(0) };
    let packed = fleet.packed_runs(day)?;
    let is_packed = |name: &String| {
        let run = Landed::from_name(name);
        run.is_some_and(|run| packed.get(&run.id).is_some_and(|packed| *packed >= run.revision))
    };
    let mut files = 0;
    // By their own names, and not by the rows of `runs`: a packer that was killed here has left some of a run's files.
    for shape in TABLES {
        let folder = fleet.landing(shape, day);
        for name in names_in(&folder)?.iter().filter(|name| is_packed(name)) {
            remove(&folder.join(name))?;
            files += 1;
        }
    }
    remove_generations(fleet, day, |number| number < newest)?;
    Ok(files)
}

fn remove_generations(
    fleet: &DataSet,
    day: &str,
    which: impl Fn(u64) -> bool,
) -> Result<(), StoreError> {
    for shape in TABLES.iter().rev() {
        let folder = fleet.packed_folder(shape, day);
        for name in names_in(&folder)?.iter().filter(|name| generation_of(name).is_some_and(&which))
        {
            remove(&folder.join(name))?;
        }
    }
    Ok(())
}

/// Removes temporary files of killed writers.
fn sweep(fleet: &DataSet, day: &str) -> Result<usize, StoreError> {
    let mut removed = 0;
    for shape in TABLES {
        for folder in [fleet.landing(shape, day), fleet.packed_folder(shape, day)] {
            for name in names_in(&folder)?.iter().filter(|name| name.starts_with(TEMPORARY)) {
                let path = folder.join(name);
                let age = fs::metadata(&path).and_then(|file| file.modified()).ok();
                let age = age.and_then(|modified| SystemTime::now().duration_since(modified).ok());
                if age.is_some_and(|age| age > ABANDONED) {
                    remove(&path)?;
                    removed += 1;
                }
            }
        }
    }
    Ok(removed)
}
