//! Runs that were cut off or ended early, and are resumed in their files.

use std::fs;
use std::path::{Path, PathBuf};

use super::reading::header_of;
use super::{LATEST, RunDirError, check_space, failed, point_latest, trusted_out};
use crate::note::EndReason;
use crate::past::Past;
use crate::run_file::RunFileError;

/// Lists the files called `name` in the directories below `out`, those of the latest runs first.
#[must_use]
pub fn runs_named(out: &Path, name: &str) -> Vec<PathBuf> {
    // The new run that follows is refused with the reason.
    if trusted_out::check(out).is_err() {
        return Vec::new();
    }
    let entries = fs::read_dir(out).into_iter().flatten();
    let dirs = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut runs: Vec<(f64, PathBuf)> = dirs
        .filter_map(|dir| {
            let path = dir.path().join(name);
            // A link may be somebody else's, and what it points at would be written.
            let header = fs::symlink_metadata(&path)
                .is_ok_and(|file| file.is_file())
                .then(|| header_of(&path))??;
            Some((header.started_unix_s, path))
        })
        .collect();
    runs.sort_by(|a, b| b.0.total_cmp(&a.0));

    runs.into_iter().map(|(_, path)| path).collect()
}

/// Opens a run that has measured fewer than `releases`, for its next block; `None` for any other.
///
/// # Errors
/// [`RunFileError`]; [`RunFileError::BeingWritten`] while its writer is alive.
pub fn unfinished(path: &Path, releases: u64) -> Result<Option<Past>, RunFileError> {
    let is_unfinished = |past: &Past| {
        matches!(past.ended, None | Some(EndReason::Asked)) && past.account.slots < releases
    };
    match Past::open(path) {
        Ok(past) => Ok(Some(past).filter(is_unfinished)),
        // A file that was cut off in its header has no samples.
        Err(RunFileError::Foreign { .. }) => Ok(None),
        Err(why) => Err(why),
    }
}

/// Returns the releases that are left of `all`; `u64::MAX` stands for no end.
#[must_use]
pub const fn releases_left(past: &Past, all: u64) -> u64 {
    if all == u64::MAX { all } else { all.saturating_sub(past.account.slots) }
}

/// Points `latest` at the directory of a run that is resumed, and returns that directory.
///
/// # Errors
/// [`RunDirError::NoSpace`], [`RunDirError::System`].
pub fn take_up(out: &Path, file: &Path) -> Result<PathBuf, RunDirError> {
    check_space(out)?;
    let dir = file.parent().unwrap_or(out).to_owned();
    if let Some(name) = dir.file_name() {
        point_latest(out, name).map_err(failed("point at the run from", &out.join(LATEST)))?;
    }

    Ok(dir)
}
