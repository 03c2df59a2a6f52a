//! `--resume`: finds the run that a command resumes.

use std::path::{Path, PathBuf};

use onbeat::bench::turns::{TurnsPlan, UnfinishedTurns};
use onbeat::probe::RunError;
use onbeat::record::Past;
use onbeat::record::run_dir::{BENCH_FILE, RUN_FILE_ENDING, latest_unfinished, runs_of_command};

use super::options::MeasureOptions;
use crate::cmd::Failure;
use crate::term::{Tone, advise};

const OPTION: &str = "--resume";

/// Refuses to resume a run without a grid: it has no number of releases that could be left.
pub(crate) fn admit(options: &MeasureOptions) -> Result<(), Failure> {
    if !(options.resume && options.wait.is_relative()) {
        return Ok(());
    }
    let why = "it ends by its time, and how much of that is left is not counted";
    Err(RunError::NoGrid { option: OPTION.to_owned(), why }.into())
}

/// Finds the latest run below `out` of the same command that has measured fewer than `releases`.
pub(crate) fn find(out: &Path, probe: &str, releases: u64) -> Result<Option<Past>, Failure> {
    let runs = of_this_command(out, &format!("{probe}{RUN_FILE_ENDING}"));
    let found = latest_unfinished(&runs, releases)?;
    if found.is_none() {
        say_that_a_new_one_begins(out);
    }

    Ok(found)
}

/// Finds the directory of the latest run of the same command that has loads with blocks left.
pub(crate) fn find_turns(
    out: &Path,
    plan: &TurnsPlan,
) -> Result<Option<(PathBuf, UnfinishedTurns)>, Failure> {
    for path in of_this_command(out, BENCH_FILE) {
        let dir = path.parent().unwrap_or(out).to_owned();
        if let Some(unfinished) = UnfinishedTurns::open(&dir, plan)? {
            return Ok(Some((dir, unfinished)));
        }
    }

    say_that_a_new_one_begins(out);
    Ok(None)
}

fn of_this_command(out: &Path, name: &str) -> Vec<PathBuf> {
    let own = without_option(&crate::cmd::typed());
    runs_of_command(out, name, &|command| without_option(command) == own)
}

fn say_that_a_new_one_begins(out: &Path) {
    advise(
        Tone::Careful,
        &format!("no unfinished run of this command in {}: a new one begins", out.display()),
    );
}

/// Describes the run that is resumed.
pub(crate) fn words(past: &Past) -> String {
    let how = if past.ended.is_some() { "was ended early" } else { "was cut off" };
    let period_s = past.header.timing.as_ref().map_or(0.0, |timing| timing.period_ns as f64 / 1e9);
    let measured = crate::cmd::runs::spoken(period_s * past.account.slots as f64);
    format!("resuming {}, which {how} after {measured} of measuring", past.path.display())
}

/// Returns a command without `--resume`.
fn without_option(command: &[String]) -> Vec<String> {
    command.iter().filter(|word| *word != OPTION).cloned().collect()
}
