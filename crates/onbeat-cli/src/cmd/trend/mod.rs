//! `onbeat trend`: figures over many runs.

pub(crate) mod options;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use onbeat::record::run_dir::{LATEST, RunDirError, run_files};
use onbeat_report::Summary;
use onbeat_report::statistics::Share;
use onbeat_report::trend::{self, Trend, TrendRequest};

use super::compare::names;
use super::{Common, ExitVerdict, Failure, runs, show};
use crate::cmd::trend::options::TrendOptions;
use crate::term::{Tone, advise, columns, letters, say, say_wrapped, wrapped};

/// There is no trend.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrendFailure {
    #[error("no percentile {at} in the figures of runs; they have {}", known())]
    Percentile { at: f64 },
    #[error(
        "none of {runs} readable runs has samples of the series in its only cell, or in that of --cell; `onbeat report RUN` shows what a run has"
    )]
    NoSamples { runs: usize },
}

fn known() -> String {
    let shares = Share::PERCENTILES.map(|share| share.percent().to_string());
    shares.join(", ")
}

pub(crate) fn run(options: &TrendOptions) -> Result<ExitVerdict, Failure> {
    let share = percentile(options.at)?;
    let dirs = found(&options.dirs)?;
    let names = names(&dirs);
    let mut all: Vec<(String, Summary)> = Vec::new();
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    for (dir, name) in dirs.iter().zip(names) {
        match runs::judged(dir, None) {
            Ok(judged) => {
                // What keeps a pipeline's files makes a directory of the link `latest`.
                let id = judged.runs.first().map_or("", |run| run.header.id.as_str());
                if let Some(first) = known.get(id) {
                    let copy = format!("left out: {} is a copy of the run {first}", dir.display());
                    advise(Tone::Careful, &wrapped(&copy, columns()));
                    continue;
                }
                if !id.is_empty() {
                    known.insert(id.to_owned(), name.clone());
                }
                all.push((name, judged.summary));
            }
            Err(why) if dirs.len() == 1 => return Err(why),
            // One run that cannot be read does not hide the others.
            Err(why) => advise(Tone::Careful, &wrapped(&format!("left out: {why}"), columns())),
        }
    }

    let request = TrendRequest { cell: options.cell.clone(), series: options.series, share };
    let readable = all.len();
    let Some(trend) = Trend::new(all, &request) else {
        return Err(TrendFailure::NoSamples { runs: readable }.into());
    };
    if options.json {
        say(Tone::Plain, &serde_json::to_string(&trend)?);
        return Ok(ExitVerdict::Pass);
    }
    show::table(&trend::table(&trend, letters()));
    for sentence in &trend.sentences {
        say_wrapped(Tone::Plain, sentence);
    }
    Ok(ExitVerdict::Pass)
}

/// The percentile of this number, if the figures of runs have it.
pub(super) fn percentile(at: f64) -> Result<Share, TrendFailure> {
    let share = Share::from_percent(at);
    let is_known = Share::PERCENTILES.contains(&share);
    is_known.then_some(share).ok_or(TrendFailure::Percentile { at })
}

/// The runs of directories: themselves, or those directly below them, each once whatever links lead
/// to it.
fn found(dirs: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut add = |path: PathBuf| {
        let own = path.canonicalize().unwrap_or_else(|_| path.clone());
        if seen.insert(own) {
            found.push(path);
        }
    };
    for dir in dirs {
        match run_files(dir) {
            Ok(_) => add(dir.clone()),
            Err(RunDirError::NoRun { .. }) => {
                let below = below(dir)?;
                if below.is_empty() {
                    return Err(RunDirError::NoRun { path: dir.clone() }.into());
                }
                below.into_iter().for_each(&mut add);
            }
            Err(why) => return Err(why.into()),
        }
    }
    Ok(found)
}

/// Run directories directly below a directory, by name; `latest` and other links are left out.
fn below(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = Common::file("read", dir);
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory && run_files(&entry.path()).is_ok() {
            found.push(entry.path());
        }
    }
    // The run goes by its own name where `latest` is a copy of it.
    found.sort_by_cached_key(|path| (path.ends_with(LATEST), path.clone()));
    Ok(found)
}
