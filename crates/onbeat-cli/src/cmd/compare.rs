//! `onbeat compare`: runs beside each other.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use onbeat::report::compare::{Comparison, Digest, SHARES};
use onbeat::report::statistics::Share;
use onbeat::report::verdict::Limit;
use onbeat::report::{Overall, Summary, compare_tables};
use serde::Serialize;

use super::runs::{self, RUN_FILE};
use super::show::{self, letters};
use super::{Failure, Verdict, whole};
use crate::cli_files::CompareOptions;
use crate::term::{Tone, columns, say, wrapped};

pub(crate) fn run(options: &CompareOptions) -> Result<Verdict, Failure> {
    let names = names(&options.runs);
    options.runs.iter().try_for_each(|run| runs::spare(run, &options.html))?;
    let mut digests = Vec::new();
    for ((path, name), place) in options.runs.iter().zip(&names).zip(0..) {
        digests.push(digest(path, name, place, None, &SHARES)?);
    }
    let comparison = Comparison::of(&digests);
    if let Some(to) = &options.html {
        write_page(to, options, &digests, &comparison)?;
    }
    if options.json {
        say(Tone::Plain, &serde_json::to_string(&comparison)?);
    } else {
        tell(&comparison, options);
    }
    Ok(Verdict::Holds)
}

/// A run made small; its files are not kept.
pub(crate) fn digest(
    path: &Path,
    name: &str,
    place: u64,
    limit: Option<Limit>,
    shares: &[Share],
) -> Result<Digest, Failure> {
    let opened = runs::open(path, limit)?;
    Ok(Digest::of(name, place, opened.summary, &opened.runs, shares))
}

fn tell(comparison: &Comparison, options: &CompareOptions) {
    let all: Vec<_> = if options.full { comparison.cells.iter().collect() } else { comparison.main() };
    for compared in all {
        show::table(&compare_tables::figures(comparison, compared, letters()));
        compare_tables::ratios(comparison, compared, letters()).iter().for_each(show::table);
        compare_tables::causes(comparison, compared).iter().for_each(show::table);
    }
    compare_tables::differences(comparison).iter().for_each(show::table);
    for sentence in &comparison.sentences {
        say(Tone::Head, &wrapped(sentence, columns()));
    }
    for warning in &comparison.warnings {
        say(Tone::Careful, &wrapped(warning, columns()));
    }
    if let Some(to) = &options.html {
        say(Tone::Faint, &format!("report   {}", to.display()));
    }
}

/// The last part of each path, or all of it where two would be called the same.
pub(crate) fn names(paths: &[PathBuf]) -> Vec<String> {
    let short = |path: &PathBuf| {
        let name = path.file_name().map_or_else(|| path.to_string_lossy(), |name| name.to_string_lossy());
        name.trim_end_matches(RUN_FILE).to_owned()
    };
    let all: Vec<String> = paths.iter().map(short).collect();
    let different: BTreeSet<&String> = all.iter().collect();
    if different.len() == all.len() {
        return all;
    }
    let places = paths.iter().zip(1..).map(|(path, n)| (path.display().to_string(), n));
    let mut seen = BTreeSet::new();
    places.map(|(name, n)| if seen.insert(name.clone()) { name } else { format!("{name} ({n})") }).collect()
}

/// What the page of a comparison carries: the cells of all runs as one summary, and how they compare.
#[derive(Serialize)]
struct Page<'c> {
    #[serde(flatten)]
    summary: Summary,
    comparison: &'c Comparison,
}

/// The page of all runs: their cells side by side, to be laid over each other.
fn write_page(to: &Path, options: &CompareOptions, digests: &[Digest], comparison: &Comparison) -> Result<(), Failure> {
    let Some(first) = digests.first() else { return Ok(()) };
    let mut summary =
        Summary { cells: Vec::new(), effects: Vec::new(), causes: Vec::new(), limit: None, ..first.summary.clone() };
    comparison.schema.clone_into(&mut summary.schema);
    "compared".clone_into(&mut summary.order);
    summary.command = super::typed();
    summary.elapsed_s = digests.iter().map(|digest| digest.summary.elapsed_s).sum();
    summary.verdict = Overall { outcome: None, best: None, sentence: comparison.sentences.join("; ") };
    let mut files = Vec::new();
    for (place, (path, digest)) in options.runs.iter().zip(digests).enumerate() {
        for grant in &digest.summary.ladder {
            if !summary.ladder.contains(grant) {
                summary.ladder.push(grant.clone());
            }
        }
        for cell in &digest.summary.cells {
            let mut cell = cell.clone();
            cell.file = cell.file.map(|file| format!("{}-{file}", place + 1));
            cell.tuning = match digest.summary.cells.len() {
                1 => digest.name.clone(),
                _ => format!("{} · {}", digest.name, cell.tuning),
            };
            cell.verdict = None;
            summary.cells.push(cell);
        }
        files.extend(runs::texts(path)?.into_iter().map(|(name, text)| (format!("{}-{name}", place + 1), text)));
    }
    summary.tunings = summary.cells.iter().map(|cell| cell.tuning.clone()).collect();
    summary.loads = summary.cells.iter().map(|cell| cell.load.clone()).collect::<BTreeSet<_>>().into_iter().collect();
    let html = runs::page_of(&Page { summary, comparison }, &files)?;
    whole::write(to, html.as_bytes())
}
