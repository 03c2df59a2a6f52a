//! Runs that other tools recorded: one cell per stream, judged together, and what their sources do
//! not add.

use super::best::Overall;
use super::cell::CellSummary;
use super::cell_figures;
use super::file_facts::{cell_of, last_second};
use super::focus::Focus;
use super::once::once;
use super::summary::Summary;
use super::units::{Letters, capital, counted, time_ns};
use super::verdict::{Judging, Limit, Outcome, limit_in_words, missed_in_words, on_all_releases};
use onbeat_record::RunFile;

pub use super::import_notes::notes;

/// The schema of the summary of imported runs.
pub const IMPORT_SCHEMA: &str = "onbeat.import/1";
/// The name of a load that is not known.
pub const UNKNOWN: &str = "unknown";

/// The summary of imported runs: the streams of one source, or several. `None` without any.
#[must_use]
pub fn summary(runs: &[RunFile], limit: Option<Limit>) -> Option<Summary> {
    let first = runs.first()?;
    let mut summary = Summary::of_run(first, limit);
    IMPORT_SCHEMA.clone_into(&mut summary.schema);
    summary.order = onbeat_record::RunOrder::Imported;
    // One stream that fails is enough: of sixty CPUs at the allowed rate three would.
    let judging = limit.map(|limit| {
        let on = on_all_releases(first, limit).on;
        let has = |run: &&RunFile| run.entries.iter().any(|entry| entry.series == on);
        Judging { verdicts: runs.iter().filter(has).count(), ..limit.into() }
    });
    summary.cells =
        runs.iter().map(|run| cell_figures::of_file(cell_of(run), run, judging)).collect();
    summary.tunings = once(summary.cells.iter().map(|cell| cell.tuning.clone()));
    summary.loads = once(summary.cells.iter().map(|cell| cell.load.clone()));
    summary.elapsed_s = runs.iter().map(last_second).fold(0.0, f64::max);
    summary.period_ns = first.import.as_ref().and_then(|import| import.period_ns).unwrap_or(0);
    summary.verdict = overall(&summary.cells, limit);
    // Of two, both are shown.
    let worst = worst(&summary.cells, limit).filter(|_| summary.cells.len() > 2);
    summary.focus = worst.and_then(|cell| Focus::of_worst(&summary.cells, &cell.cell()));
    Some(summary)
}

/// The stream that decides: by the outcome of its verdict, then by the releases that may be over
/// the limit; without one by its largest value.
fn worst(cells: &[CellSummary], limit: Option<Limit>) -> Option<&CellSummary> {
    if limit.is_none() {
        let with_figures = cells.iter().filter(|cell| cell.main().is_some());
        return with_figures.max_by_key(|cell| cell.max_ns());
    }
    let judged = cells.iter().filter_map(|cell| Some((cell, cell.verdict.as_ref()?)));
    let decisive = judged
        .max_by(|(_, a), (_, b)| a.outcome.cmp(&b.outcome).then(a.at_most.total_cmp(&b.at_most)));
    decisive.map(|(cell, _)| cell)
}

/// All streams together: a limit holds when it holds in each of them.
fn overall(cells: &[CellSummary], limit: Option<Limit>) -> Overall {
    let sentence = match limit {
        None => worst_in_words(cells),
        Some(limit) => judged(cells, limit),
    };

    let outcome = limit.map(|_| {
        let outcomes = cells.iter().filter_map(|cell| Some(cell.verdict.as_ref()?.outcome));
        outcomes.max().unwrap_or(Outcome::Inconclusive)
    });

    Overall { outcome, sentence, ..Overall::default() }
}

fn judged(cells: &[CellSummary], limit: Limit) -> String {
    let decisive = worst(cells, Some(limit)).and_then(|cell| Some((cell, cell.verdict.as_ref()?)));
    let Some((cell, verdict)) = decisive else { return "no samples".to_owned() };
    let words = limit_in_words(limit);
    let who = &cell.tuning;
    let sentence = match verdict.outcome {
        Outcome::Pass if cells.len() == 1 => {
            format!("limit met in {who}: {words}; {}", verdict.sentence)
        }
        Outcome::Pass => format!(
            "limit met in all {} streams: {words}; {who}: {}",
            cells.len(),
            verdict.sentence
        ),
        Outcome::Fail => format!("{} in {who}; {}", missed_in_words(limit), verdict.sentence),
        Outcome::Inconclusive => {
            format!("limit may be met in {who}: {words}; {}", verdict.sentence)
        }
    };

    format!("{}: {sentence}", verdict.outcome.words())
}

/// A clause as a headline: with a capital, unless it begins with the name of a stream.
pub(super) fn as_headline(summary: &Summary, clause: &str) -> String {
    let begins = |cell: &CellSummary| {
        clause.strip_prefix(cell.tuning.as_str()).is_some_and(|rest| rest.starts_with(": "))
    };
    if summary.cells.iter().any(begins) { clause.to_owned() } else { capital(clause) }
}

/// `ct thread 0: wake-up latency at most 1.2 ms in 1,999 samples`.
fn worst_in_words(cells: &[CellSummary]) -> String {
    let worst = worst(cells, None).and_then(|cell| Some((cell, cell.main()?)));
    worst.map_or_else(
        || "no samples".to_owned(),
        |(cell, (series, of))| {
            let max = time_ns(of.max_ns, Letters::Ascii);
            let samples = match of.is_counted() {
                true => counted(of.count, "sample"),
                false => "an unknown number of samples".to_owned(),
            };
            format!("{}: {} at most {max} in {samples}", cell.tuning, series.words())
        },
    )
}

/// Notes on imported cells: how they were counted and what the sources do not record, each once.
#[must_use]
pub fn sentences(cells: &[CellSummary]) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    let mut add = |sentence: String| {
        if !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    };

    for (cell, import) in cells.iter().filter_map(|cell| Some((cell, cell.import.as_ref()?))) {
        for note in &cell.notes {
            if import.missing.iter().any(|what| note.ends_with(what.as_str())) {
                continue;
            }
            let is_shared = cells.iter().all(|other| other.notes.contains(note));
            add(if is_shared { note.clone() } else { format!("{}: {note}", cell.tuning) });
        }
    }

    for import in cells.iter().filter_map(|cell| cell.import.as_ref()) {
        add(format!("Not in the file ({}): {}", import.format, import.missing.join("; ")));
    }

    sentences
}
