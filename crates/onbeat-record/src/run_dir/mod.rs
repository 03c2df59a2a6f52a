//! The directory of a run: how it is made, what `latest` points at, and how its files are read
//! again.
//!
//! All runs stand below one directory, each in a directory of its own that is named after its
//! start; the link `latest` points at the run that began last.
//!
//! ```
//! use onbeat_record::run_dir::NewRunDir;
//!
//! # let scratch = std::env::temp_dir().join(format!("onbeat-doc-{}", std::process::id()));
//! # let out = scratch.as_path();
//! let dir = NewRunDir::create(out)?;
//! let file = dir.path().join("timer.onbeat.hlog");
//! // ... a run writes `file`; once it has samples:
//! dir.begin()?;
//! assert_eq!(std::fs::canonicalize(out.join("latest"))?, std::fs::canonicalize(dir.path())?);
//! # std::fs::remove_dir_all(&scratch)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod reading;
mod resuming;
mod trusted_out;

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub use reading::{
    RunText, StoredRun, check_not_own_file, goes_on, main_series, read, read_cells, read_with_text,
    run_files,
};
pub use resuming::{releases_left, runs_named, take_up, unfinished};

use super::run_file::{RunFile, RunFileError};

pub const RUN_FILE_ENDING: &str = ".onbeat.hlog";
/// The file of a bench beside those of its cells.
pub const BENCH_FILE: &str = "bench.onbeat.hlog";
/// The plan of a bench, by which it is resumed.
pub const PLAN_FILE: &str = "plan.json";
/// The directory for runs where the user names none.
pub const USUAL_OUT: &str = "onbeat-runs";
/// The link to the run that began last.
pub const LATEST: &str = "latest";
/// Names that are tried for a new `latest`, where others exist.
const MOST_NAMES: u32 = 100;
/// Less free space than this would not hold a run.
// Less is used up by a bench of a minute. A disk that fills later ends the run with what was
// written.
const LEAST_FREE_BYTES: u64 = 16 * 1024 * 1024;

/// The directory of a run could not be made, found or read.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// The system refused.
    #[error("cannot {what} {path}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The file system is full.
    #[error(
        "cannot record a run in {path}: only {free_kib} KiB are free, and a run needs {needed_kib} KiB; choose another \
         place with --out"
    )]
    NoSpace {
        /// The directory for runs.
        path: PathBuf,
        /// Free space, in KiB.
        free_kib: u64,
        /// Space that a run needs, in KiB.
        needed_kib: u64,
    },
    /// Root does not follow a link that it has not named.
    #[error(
        "{path} is a link, and root follows no link that is not named; name the directory with --out, or remove {path}"
    )]
    UsualLink {
        /// The link.
        path: PathBuf,
    },
    /// Root does not write into a directory of another user.
    #[error(
        "{path} belongs to user {owner}, who could exchange what root writes into it; choose another place with --out"
    )]
    OtherOwner {
        /// The directory for runs.
        path: PathBuf,
        /// Its owner's user id.
        owner: u32,
    },
    /// The directory has no run file.
    #[error("{path} holds no run file; a run's directory holds files named *.onbeat.hlog{}", run_below(.path))]
    NoRun {
        /// The directory.
        path: PathBuf,
    },
    /// Its run files are of different runs.
    #[error("{path} holds {count} run files of different runs; name one of them")]
    SeveralRuns {
        /// The directory.
        path: PathBuf,
        /// Number of its run files.
        count: usize,
    },
    /// The run that is meant where none is named is not there yet.
    #[error("there is no {path} yet; `onbeat bench` measures a run, or name one")]
    NoneYet {
        /// The link to the latest run in the usual place.
        path: PathBuf,
    },
    /// A result would replace a file of the run that it is made of.
    #[error(
        "{path} is a file of the run {run} itself; choose another place for what is to be written"
    )]
    OwnFile {
        /// The file.
        path: PathBuf,
        run: PathBuf,
    },
    /// A run file could not be read.
    #[error(transparent)]
    RunFile(#[from] RunFileError),
}

/// The latest run below a directory of runs, as an addition to a sentence.
fn run_below(path: &Path) -> String {
    let latest = path.join(LATEST);
    if latest.exists() { format!("; {} is a run", latest.display()) } else { String::new() }
}

/// Returns a function that adds operation and path to an answer of the system.
fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RunDirError {
    let path = path.to_owned();
    move |source| RunDirError::System { what, path, source }
}

/// The new directory of a run, and whether the run has begun in it.
///
/// Until the run has begun, `latest` points at the run before. A run that is refused leaves nothing
/// behind.
#[derive(Debug)]
pub struct NewRunDir {
    path: PathBuf,
    out: PathBuf,
    /// Directories that were made for it, the innermost last.
    made: Vec<PathBuf>,
    has_begun: Cell<bool>,
}

impl NewRunDir {
    /// Creates a directory below `out`, named after the current time, and `out` where it does not
    /// exist. Root refuses a directory of another user, unless that user has called sudo.
    ///
    /// # Errors
    /// [`RunDirError`]; directories that were made before are removed.
    pub fn create(out: &Path) -> Result<Self, RunDirError> {
        // Root writes where a user can exchange a directory for a link: looked at before the first
        // file is made.
        trusted_out::check(out)?;
        let is_missing =
            |dir: &&Path| !dir.as_os_str().is_empty() && fs::symlink_metadata(dir).is_err();
        let mut made: Vec<PathBuf> =
            out.ancestors().take_while(is_missing).map(Path::to_owned).collect();
        // From the outside in, so that they can be removed from the inside out.
        made.reverse();

        match make_directory(out) {
            Ok(path) => {
                made.push(path.clone());
                Ok(Self { path, out: out.to_owned(), made, has_begun: Cell::new(false) })
            }
            Err(why) => {
                remove_empty(&made);
                Err(why)
            }
        }
    }

    /// Returns the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Marks the run as begun: `latest` points at it from now on. Only the first call does
    /// anything.
    ///
    /// # Errors
    /// [`RunDirError::System`] when `latest` cannot be replaced. The run is as good without it.
    pub fn begin(&self) -> Result<(), RunDirError> {
        if self.has_begun.replace(true) {
            return Ok(());
        }
        let name = self.path.file_name().unwrap_or_default();
        point_latest(&self.out, name)
            .map_err(failed("point at the new run from", &self.out.join(LATEST)))
    }

    /// Removes a run that has not begun: run files without samples, and the directories that were
    /// made for it.
    pub fn withdraw_unless_begun(&self) {
        if self.has_begun.get() {
            return;
        }

        // What holds samples stays, and its directory with it.
        for file in run_files(&self.path).unwrap_or_default() {
            if RunFile::read(&file).is_ok_and(|run| run.entries.is_empty()) {
                let _ = fs::remove_file(&file);
            }
        }
        if run_files(&self.path).is_err() {
            let _ = fs::remove_file(self.path.join(PLAN_FILE));
        }
        remove_empty(&self.made);
    }
}

fn make_directory(out: &Path) -> Result<PathBuf, RunDirError> {
    fs::create_dir_all(out).map_err(failed("create", out))?;
    check_space(out)?;
    let latest = out.join(LATEST);
    // `latest` made by hand as a directory cannot be replaced by a link, and a run would be
    // recorded that nobody finds.
    if fs::symlink_metadata(&latest).is_ok_and(|there| there.is_dir()) {
        return Err(failed("point at the new run from", &latest)(
            io::ErrorKind::IsADirectory.into(),
        ));
    }

    // Colons are not allowed on some file systems that runs are copied to.
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string().replace(':', "-");
    let mut name = now.clone();
    loop {
        let dir = out.join(&name);
        match fs::create_dir(&dir) {
            Ok(()) => return Ok(dir),
            // Two runs in one second, by two processes: whoever creates the directory has the name.
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                let next = name
                    .strip_prefix(&now)
                    .and_then(|n| n.trim_start_matches('.').parse().ok())
                    .unwrap_or(1)
                    + 1;
                name = format!("{now}.{next}");
            }
            Err(source) => return Err(failed("create", &dir)(source)),
        }
    }
}

/// Removes directories that are empty, the last one first.
fn remove_empty(made: &[PathBuf]) {
    for dir in made.iter().rev() {
        let _ = fs::remove_dir(dir);
    }
}

fn check_space(out: &Path) -> Result<(), RunDirError> {
    let Ok(space) = rustix::fs::statvfs(out) else { return Ok(()) };
    // What an ordinary user may use; root's reserve is not for runs.
    let free = space.f_bavail * space.f_frsize;
    if free >= LEAST_FREE_BYTES {
        return Ok(());
    }
    Err(RunDirError::NoSpace {
        path: out.to_owned(),
        free_kib: free / 1024,
        needed_kib: LEAST_FREE_BYTES / 1024,
    })
}

/// Replaces `latest` by renaming, so that it always points at a run.
fn point_latest(out: &Path, name: &OsStr) -> io::Result<()> {
    for number in 0..MOST_NAMES {
        let new = out.join(format!(".latest-{}-{number}", std::process::id()));
        match symlink(name, &new) {
            Ok(()) => {
                // Replaced in one step: a reader finds the old run or the new one, never none.
                let moved = fs::rename(&new, out.join(LATEST));
                if moved.is_err() {
                    let _ = fs::remove_file(&new);
                }
                return moved;
            }
            // A killed process of this number may have left one.
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
            Err(why) => return Err(why),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_points_at_a_run_only_once_it_has_begun() {
        let scratch = tempfile::tempdir().unwrap();
        let out = scratch.path().join("runs");
        let first = NewRunDir::create(&out).unwrap();
        assert!(fs::symlink_metadata(out.join(LATEST)).is_err());
        first.begin().unwrap();

        let second = NewRunDir::create(&out).unwrap();
        assert_eq!(fs::read_link(out.join(LATEST)).unwrap(), first.path().file_name().unwrap());
        second.withdraw_unless_begun();
        assert!(!second.path().exists() && first.path().exists());
    }

    #[test]
    fn a_run_that_is_refused_leaves_no_directory() {
        let scratch = tempfile::tempdir().unwrap();
        let out = scratch.path().join("a/b");
        NewRunDir::create(&out).unwrap().withdraw_unless_begun();
        assert!(!scratch.path().join("a").exists());
    }

    #[test]
    fn a_run_that_has_begun_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = NewRunDir::create(scratch.path()).unwrap();
        dir.begin().unwrap();
        dir.withdraw_unless_begun();
        assert!(dir.path().is_dir());
    }
}
