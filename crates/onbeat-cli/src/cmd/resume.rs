//! `--resume`: the run that a command goes on with, if there is one.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use onbeat::bench::conduct::BENCH_FILE;
use onbeat::bench::turns::{Begun, TurnsPlan};
use onbeat::probe::RunError;
use onbeat::record::{EndReason, Header, Past, RunFile, RunFileError};
use onbeat_ethercat::input;

use super::Failure;
use super::runs::RUN_FILE;
use crate::cli_measure::MeasureOptions;
use crate::term::{Tone, advise};

const OPTION: &str = "--resume";
/// What holds a run file's header for certain.
const BEGINNING_BYTES: u64 = 64 * 1024;

/// A run without a grid has no number of releases that could be left.
pub(crate) fn admit(options: &MeasureOptions) -> Result<(), Failure> {
    if !(options.resume && options.wait.is_relative()) {
        return Ok(());
    }
    let why = "it ends by its time, and how much of that is left is not counted";
    Err(RunError::NoGrid { option: OPTION.to_owned(), why }.into())
}

/// The latest run below `out` of the same command that has not had all its `releases` yet.
pub(crate) fn find(out: &Path, probe: &str, releases: u64) -> Result<Option<Past>, Failure> {
    for path in of_this_command(out, &format!("{probe}{RUN_FILE}")) {
        match Past::open(&path) {
            Ok(past) if is_unfinished(&past, releases) => return Ok(Some(past)),
            // Nothing was measured yet when it was cut off.
            Ok(_) | Err(RunFileError::Foreign { .. }) => {}
            Err(why) => return Err(why.into()),
        }
    }

    say_that_a_new_one_begins(out);
    Ok(None)
}

/// The directory of the latest run of the same command whose loads have not all had their share yet.
pub(crate) fn find_turns(out: &Path, plan: &TurnsPlan) -> Result<Option<(PathBuf, Begun)>, Failure> {
    for path in of_this_command(out, BENCH_FILE) {
        let dir = path.parent().unwrap_or(out).to_owned();
        if let Some(begun) = Begun::open(&dir, plan)? {
            return Ok(Some((dir, begun)));
        }
    }

    say_that_a_new_one_begins(out);
    Ok(None)
}

/// Files of this name that the same command has made below `out`, the latest first.
fn of_this_command(out: &Path, name: &str) -> Vec<PathBuf> {
    let command = without_option(&super::typed());
    let entries = fs::read_dir(out).into_iter().flatten();
    let dirs = entries.filter_map(Result::ok).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut runs: Vec<(f64, PathBuf)> = dirs
        .filter_map(|dir| {
            let path = dir.path().join(name);
            // A link may have been put there by somebody else, and would be written behind.
            let header = fs::symlink_metadata(&path).is_ok_and(|file| file.is_file()).then(|| beginning(&path))??;
            (without_option(&header.command) == command).then_some((header.started_unix_s, path))
        })
        .collect();
    runs.sort_by(|a, b| b.0.total_cmp(&a.0));

    runs.into_iter().map(|(_, path)| path).collect()
}

fn say_that_a_new_one_begins(out: &Path) {
    advise(Tone::Careful, &format!("no unfinished run of this command in {}: a new one begins", out.display()));
}

/// Releases that are still to come of `all`; no end where there is none.
pub(crate) const fn left(past: &Past, all: u64) -> u64 {
    if all == u64::MAX { all } else { all.saturating_sub(past.account.slots) }
}

fn is_unfinished(past: &Past, releases: u64) -> bool {
    matches!(past.ended, None | Some(EndReason::Asked)) && past.account.slots < releases
}

/// What is gone on with, in words.
pub(crate) fn words(past: &Past) -> String {
    let how = if past.ended.is_some() { "was ended early" } else { "was cut off" };
    let period_s = past.header.timing.as_ref().map_or(0.0, |timing| timing.period_ns as f64 / 1e9);
    let measured = super::runs::spoken(period_s * past.account.slots as f64);
    format!("going on with {}, which {how} after {measured} of measuring", past.path.display())
}

fn beginning(path: &Path) -> Option<Header> {
    let mut beginning = Vec::new();
    input::open(path).ok()?.take(BEGINNING_BYTES).read_to_end(&mut beginning).ok()?;
    Some(RunFile::parse(path, &beginning).ok()?.header)
}

/// A command, whether it was typed to go on or not.
fn without_option(command: &[String]) -> Vec<String> {
    command.iter().filter(|word| *word != OPTION).cloned().collect()
}
