//! The sentences of a summary, most important first.

use super::best::Overall;
use super::cell::CellSummary;
use super::deadline::DeadlineVerdict;
use super::focus::named;
use super::once::grouped;
use super::summary::Summary;
use super::units::{cell_name, listed};
use super::{by_cpu, closing, effects, load_events, spikes, worst_cpu};
use onbeat_record::RunOrder;

/// The sentences of a bench, most important first: the verdict, the effects, and what the figures
/// do not cover.
#[must_use]
pub fn bench_sentences(summary: &Summary) -> Vec<String> {
    let mut sentences = vec![summary.verdict.sentence.clone()];
    sentences.extend(closing::to_decide(summary));
    if let [only] = summary.cells.as_slice() {
        sentences.extend(only.derived.iter().cloned());
    }
    sentences.extend(summary.sweep.iter().map(|sweep| sweep.sentence.clone()));
    sentences.extend(effects::in_one_line(&summary.effects));
    sentences.extend(summary.causes.iter().cloned());
    sentences.extend(spikes::windows_in_words(summary));
    sentences.extend(cautions(summary));

    sentences
}

/// Notes on the cells of onbeat's own runs, each once, with its cells where it is not of all.
#[must_use]
pub fn cell_notes(cells: &[CellSummary]) -> Vec<String> {
    let own = cells.iter().filter(|cell| cell.import.is_none());
    let notes = own.flat_map(|cell| {
        cell.notes.iter().map(move |note| (note, cell_name(&cell.tuning, &cell.load)))
    });
    let words = |(note, names): (&String, Vec<String>)| match names.len() {
        all if all == cells.len() => note.clone(),
        _ => format!("{}: {note}", listed(&names)),
    };
    grouped(notes).into_iter().map(words).collect()
}

/// Cautions on a summary: what was not permitted, truncated or lost.
#[must_use]
pub fn cautions(summary: &Summary) -> Vec<String> {
    let mut sentences = judged_by(summary);
    sentences.extend(by_cpu::without_causes(summary));
    sentences.extend(refusals(&summary.cells));
    sentences.extend(worst_cpu::without_loop(&summary.cells));
    sentences.extend(one_after_the_other(summary));
    sentences.extend(load_events::cautions(&summary.cells));
    let cell_names = |is: fn(&CellSummary) -> bool| -> Vec<String> {
        summary
            .cells
            .iter()
            .filter(|cell| is(cell))
            .map(|cell| cell_name(named(&cell.tuning), &cell.load))
            .collect()
    };

    let mut caution = |names: Vec<String>, what: &str| {
        if !names.is_empty() {
            sentences.push(format!("{what}: {}", listed(&names)));
        }
    };

    caution(
        cell_names(|cell| cell.goes_on),
        "Run in progress; verdict from the part recorded so far",
    );
    caution(
        cell_names(|cell| cell.file.is_some() && !cell.complete && !cell.goes_on),
        "Truncated; verdict from the recorded part",
    );
    caution(cell_names(|cell| cell.permitted && cell.file.is_none()), "Not run");
    caution(cell_names(|cell| cell.lost > 0), "Samples were lost");
    sentences
}

/// What the verdict rests on: the limit that nobody gave, outages, and what is not covered.
fn judged_by(summary: &Summary) -> Vec<String> {
    let Overall { best, deadline, .. } = &summary.verdict;
    if let Some(DeadlineVerdict { outcome, words, sentence, basis, .. }) = deadline {
        let judged = format!(
            "{} by the default, without --limit, that {words}: {sentence}",
            outcome.words()
        );
        return [judged, basis.clone()].into_iter().filter(|words| !words.is_empty()).collect();
    }

    let of_best = |cell: &&CellSummary| best.as_ref().is_none_or(|best| cell.tuning == best.tuning);
    let verdicts = summary.cells.iter().filter(of_best).filter_map(|cell| cell.verdict.as_ref());
    // The one that decides the outcome, as in the sentence.
    let decisive = verdicts.max_by_key(|verdict| verdict.outcome);
    decisive
        .map(|verdict| verdict.basis.clone())
        .filter(|basis| !basis.is_empty())
        .into_iter()
        .collect()
}

/// The caution on a sequential order.
fn one_after_the_other(summary: &Summary) -> Option<String> {
    let what = if summary.tunings.len() > 1 { "Tunings" } else { "Loads" };
    (summary.order == RunOrder::Sequential && summary.sweep.is_none()).then(|| {
        format!(
            "{what} ran one after another: a change in background activity can look like an effect"
        )
    })
}

/// Each reason once, with the tunings that it kept from running.
fn refusals(cells: &[CellSummary]) -> Vec<String> {
    let refused = |cell: &CellSummary| Some((cell.why_not.clone()?, cell.tuning.clone()));
    grouped(cells.iter().filter_map(refused))
        .into_iter()
        .map(|(why_not, tunings)| format!("Not permitted: {}: {why_not}", tunings.join(", ")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_of_several_cells_is_said_once() {
        let cell = |load: &str, notes: &[&str]| CellSummary {
            tuning: "none".to_owned(),
            load: load.to_owned(),
            notes: notes.iter().map(|note| (*note).to_owned()).collect(),
            ..CellSummary::default()
        };
        assert_eq!(
            cell_notes(&[cell("idle", &["a", "b"]), cell("cpu=25%", &["a"])]),
            ["a", "none with no added load: b"]
        );
    }
}
