//! Runs that were cut off or ended early, and are resumed in their files.

use std::fs;
use std::path::{Path, PathBuf};

use super::reading::header_of;
use super::{LATEST, RunDirError, check_space, failed, point_latest, trusted_out};
use crate::note::EndReason;
use crate::past::Past;
use crate::run_file::RunFileError;

/// Lists the files called `name` in the directories below `out` whose commands `is_same` accepts,
/// the latest first.
#[must_use]
pub fn runs_of_command(
    out: &Path,
    name: &str,
    is_same: &dyn Fn(&[String]) -> bool,
) -> Vec<PathBuf> {
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
            is_same(&header.command).then_some((header.started_unix_s, path))
        })
        .collect();
    runs.sort_by(|a, b| b.0.total_cmp(&a.0));

    runs.into_iter().map(|(_, path)| path).collect()
}

/// Opens the latest of these runs that has measured fewer than `releases`, for its next block.
///
/// # Errors
/// [`RunFileError`]; [`RunFileError::BeingWritten`] while its writer is alive.
pub fn latest_unfinished(runs: &[PathBuf], releases: u64) -> Result<Option<Past>, RunFileError> {
    for path in runs {
        match Past::open(path) {
            Ok(past) if is_unfinished(&past, releases) => return Ok(Some(past)),
            // A file that was cut off in its header has no samples.
            Ok(_) | Err(RunFileError::Foreign { .. }) => {}
            Err(why) => return Err(why),
        }
    }

    Ok(None)
}

fn is_unfinished(past: &Past, releases: u64) -> bool {
    matches!(past.ended, None | Some(EndReason::Asked)) && past.account.slots < releases
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
