//! `onbeat compare`: compares runs.

pub(crate) mod options;
mod plain_logs;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use onbeat::record::RunOrder;
use onbeat::record::run_dir::{RUN_FILE_ENDING, RunText, check_not_own_file};
use onbeat_report::compare::{Compared, Comparison, Digest, SHARES};
use onbeat_report::compare_rows::{self, SeriesChoice, SeriesRows};
use onbeat_report::{Overall, Summary, compare_round_trips, compare_tables};
use serde::Serialize;

use super::{ExitVerdict, Failure, run_clock, runs, show, whole};
use crate::cmd::compare::options::CompareOptions;
use crate::cmd::compare::plain_logs::Opened;
use crate::term::{Tone, advise, letters, say, say_wrapped};

/// Why runs cannot be compared.
#[derive(Debug, thiserror::Error)]
enum CompareFailure {
    #[error(
        "{path} was measured under one load; `compare` takes two runs, or one with several loads (`measure PROBE --loads idle,paper`)"
    )]
    OneLoad { path: PathBuf },
    #[error("none of the runs has the series {series}; they have {has}")]
    NoSeries { series: &'static str, has: String },
}

pub(crate) fn run(options: &CompareOptions) -> Result<ExitVerdict, Failure> {
    let sides = sides(options);
    let paths: Vec<&PathBuf> = options.runs.iter().chain(&options.against).collect();
    paths.iter().try_for_each(|run| check_not_own_file(run, &options.html))?;
    let names = side_names(&sides);
    let mut digests = Vec::new();
    // The text of the files is kept for the page alone.
    let mut texts = Vec::new();
    let mut hosts = Vec::new();
    for ((side, name), place) in sides.iter().zip(&names).zip(0..) {
        let mut runs = Vec::new();
        for path in *side {
            let opened = Opened::new(path)?;
            let judged = match options.html {
                Some(_) => {
                    let (mut judged, text) = runs::judged_with_text(opened.run(), None)?;
                    texts.push(text);
                    // The page draws each run beside the normal distribution of its mean and SD.
                    judged.summary.conclude(&judged.runs, None);
                    judged
                }
                None => runs::judged(opened.run(), None)?,
            };
            hosts.push(judged.summary.host.clone());
            runs.push(judged);
        }
        digests.extend(Digest::of_side(name, place, runs, &SHARES));
    }

    run_clock::check(paths.iter().map(|path| path.as_path()).zip(&hosts))?;
    let digests = comparable(digests, &paths)?;
    let compared = compare_rows::rows(&digests, SeriesChoice::All);
    check_series(options, &digests)?;
    if let Some((first, again)) = given_twice(&paths) {
        advise(Tone::Careful, &format!("{} and {} are one run", first.display(), again.display()));
    }
    let comparison = Comparison::new(&digests);
    let printed = Printed { comparison: &comparison, rows: &compared };
    if let Some(to) = &options.html {
        write_page(to, options, &digests, &printed, texts)?;
    }

    // A page on standard output stands there alone.
    let is_taken = options.html.as_deref().is_some_and(whole::is_standard_output);
    if options.json && !is_taken {
        say(Tone::Plain, &serde_json::to_string(&printed)?);
    } else if !is_taken {
        print(&comparison, &digests, options);
    }

    Ok(if comparison.is_undecided() { ExitVerdict::Inconclusive } else { ExitVerdict::Pass })
}

/// The paths of each side: every run is one, unless `--against` makes two.
fn sides(options: &CompareOptions) -> Vec<&[PathBuf]> {
    if options.against.is_empty() {
        options.runs.chunks(1).collect()
    } else {
        vec![&options.runs, &options.against]
    }
}

/// Each side is called by its run, or by the first of them and the number of the others.
pub(crate) fn side_names(sides: &[&[PathBuf]]) -> Vec<String> {
    let all: Vec<PathBuf> = sides.concat();
    let mut names = names(&all).into_iter();
    let of_side = |side: &&[PathBuf]| {
        let names: Vec<String> = names.by_ref().take(side.len()).collect();
        match names.as_slice() {
            [first, others @ ..] if !others.is_empty() => {
                format!("{first} and {} more", others.len())
            }
            names => names.concat(),
        }
    };
    sides.iter().map(of_side).collect()
}

/// Returns the runs, or the loads of a single run.
fn comparable(mut digests: Vec<Digest>, paths: &[&PathBuf]) -> Result<Vec<Digest>, Failure> {
    let Some(only) = digests.pop_if(|_| paths.len() == 1) else { return Ok(digests) };
    let loads = only.by_load();
    let cells: usize = loads.iter().map(|load| load.summary.cells.len()).sum();
    if cells < 2 {
        Err(CompareFailure::OneLoad { path: paths[0].to_owned() }.into())
    } else {
        Ok(loads)
    }
}

fn check_series(options: &CompareOptions, digests: &[Digest]) -> Result<(), Failure> {
    let has = compare_rows::series_of(digests);
    match options.on {
        Some(series) if !has.contains(&series) => {
            let has = has.iter().map(|series| series.tag()).collect::<Vec<_>>().join(", ");
            Err(CompareFailure::NoSeries { series: series.tag(), has }.into())
        }
        _ => Ok(()),
    }
}

/// A comparison as it is printed: with the rows of all series.
#[derive(Serialize)]
struct Printed<'c> {
    #[serde(flatten)]
    comparison: &'c Comparison,
    rows: &'c [SeriesRows],
}

fn print(comparison: &Comparison, digests: &[Digest], options: &CompareOptions) {
    let wanted = match (options.full, options.on) {
        (true, _) => SeriesChoice::All,
        (false, Some(series)) => SeriesChoice::One(series),
        (false, None) => SeriesChoice::Main,
    };

    for of_series in compare_rows::rows(digests, wanted) {
        show::table(&compare_rows::table(digests, &of_series, letters()));
    }

    for compared in shown(comparison, wanted) {
        show::table(&compare_tables::figures(comparison, compared, letters()));
        compare_tables::ratios(comparison, compared, letters()).iter().for_each(show::table);
        compare_tables::causes(comparison, compared).iter().for_each(show::table);
    }

    compare_round_trips::table(digests, letters()).iter().for_each(show::table);
    compare_tables::differences(comparison).iter().for_each(show::table);
    for sentence in &comparison.sentences {
        say_wrapped(Tone::Head, sentence);
    }

    for warning in &comparison.warnings {
        say_wrapped(Tone::Careful, warning);
    }

    if let Some(to) = &options.html {
        say(Tone::Faint, &format!("report   {}", to.display()));
    }
}

fn shown(comparison: &Comparison, wanted: SeriesChoice) -> Vec<&Compared> {
    match wanted {
        SeriesChoice::Main => comparison.main(),
        SeriesChoice::One(series) => {
            comparison.cells.iter().filter(|compared| compared.series == series).collect()
        }
        SeriesChoice::All => comparison.cells.iter().collect(),
    }
}

/// Returns two of the paths that lead to the same run, such as `latest` and its own name.
pub(crate) fn given_twice<'p>(paths: &[&'p PathBuf]) -> Option<(&'p PathBuf, &'p PathBuf)> {
    let mut known: Vec<(PathBuf, &PathBuf)> = Vec::new();
    for &path in paths {
        let Ok(real) = fs::canonicalize(path) else { continue };
        if let Some((_, first)) = known.iter().find(|(known, _)| *known == real) {
            return Some((*first, path));
        }
        known.push((real, path));
    }
    None
}

/// Returns the last part of each path, or all of it where two would have the same name.
pub(crate) fn names(paths: &[PathBuf]) -> Vec<String> {
    let short = |path: &PathBuf| {
        let name =
            path.file_name().map_or_else(|| path.to_string_lossy(), |name| name.to_string_lossy());
        name.trim_end_matches(RUN_FILE_ENDING).to_owned()
    };

    let all: Vec<String> = paths.iter().map(short).collect();
    let different: BTreeSet<&String> = all.iter().collect();
    if different.len() == all.len() {
        return all;
    }

    let places = paths.iter().zip(1..).map(|(path, n)| (path.display().to_string(), n));
    let mut seen = BTreeSet::new();
    places
        .map(|(name, n)| if seen.insert(name.clone()) { name } else { format!("{name} ({n})") })
        .collect()
}

/// The data of a comparison's page: the cells of all runs as one summary, and the comparison.
#[derive(Serialize)]
struct ComparisonPage<'c> {
    #[serde(flatten)]
    summary: Summary,
    comparison: &'c Printed<'c>,
}

/// Writes the page of all runs, with their cells side by side.
fn write_page(
    to: &Path,
    options: &CompareOptions,
    digests: &[Digest],
    printed: &Printed<'_>,
    texts: Vec<Vec<RunText>>,
) -> Result<(), Failure> {
    let Some(first) = digests.first() else { return Ok(()) };
    let comparison = printed.comparison;
    // The loads of one run shared its time.
    let sides = sides(options);
    let runs = digests.iter().take(sides.len());
    let mut summary = Summary {
        schema: comparison.schema.clone(),
        order: RunOrder::Compared,
        command: super::typed(),
        elapsed_s: runs.map(|digest| digest.summary.elapsed_s).sum(),
        verdict: Overall { sentence: comparison.sentences.join("; "), ..Overall::default() },
        cells: Vec::new(),
        effects: Vec::new(),
        causes: Vec::new(),
        limit: None,
        focus: None,
        sweep: None,
        robot_command: Vec::new(),
        ..first.summary.clone()
    };

    for (place, digest) in digests.iter().enumerate() {
        // The loads of one run are in its one directory.
        let of_side = place.min(sides.len() - 1);
        let of_path = sides[..of_side].iter().map(|side| side.len()).sum::<usize>() + 1;
        for grant in &digest.summary.ladder {
            if !summary.ladder.contains(grant) {
                summary.ladder.push(grant.clone());
            }
        }

        for cell in &digest.summary.cells {
            let mut cell = cell.clone();
            cell.file = cell.file.map(|file| format!("{of_path}-{file}"));
            cell.tuning = match digest.summary.cells.len() {
                1 => digest.name.clone(),
                _ => format!("{} · {}", digest.name, cell.tuning),
            };

            cell.verdict = None;
            summary.cells.push(cell);
        }
    }

    let mut files = Vec::new();
    for (of_run, number) in texts.into_iter().zip(1..) {
        let numbered =
            |file: RunText| RunText { name: format!("{number}-{}", file.name), text: file.text };
        files.extend(of_run.into_iter().map(numbered));
    }

    summary.tunings = summary.cells.iter().map(|cell| cell.tuning.clone()).collect();
    let loads: BTreeSet<_> = summary.cells.iter().map(|cell| cell.load.clone()).collect();
    summary.loads = loads.into_iter().collect();
    let html = runs::page_of(&ComparisonPage { summary, comparison: printed }, &files)?;
    Ok(whole::write(to, html.as_bytes())?)
}
