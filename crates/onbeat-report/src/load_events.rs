//! What happened to the parts of a load, and what a verdict under it is worth.

use super::cell::CellSummary;
use super::events::AlarmVerdict;
use super::verdict::Outcome;
use onbeat_record::{LoadEvent, LoadEventKind};

/// How the event of a part that was started again ends.
const RESTARTED: &str = "(restarted)";
/// How the sentence of a part that died begins, up to the load.
const DIED: &str = "a part of the load ";

/// What happened to a load's parts, as sentences.
pub(super) fn notes<'e>(
    events: &'e [LoadEvent],
    load: &'e str,
) -> impl Iterator<Item = String> + 'e {
    events.iter().filter(move |event| event.load == load).filter_map(move |event| {
        let detail = &event.detail;
        match event.event {
            LoadEventKind::PartDied => {
                Some(format!("{DIED}{load} died after {:.1} s: {detail}", event.t))
            }
            LoadEventKind::PartSubstituted => {
                Some(format!("{DIED}{load} was substituted: {detail}"))
            }
            _ => None,
        }
    })
}

/// The note of a part that died and was not started again.
pub(super) fn died(cell: &CellSummary) -> Option<&str> {
    let begins = format!("{DIED}{} died ", cell.load);
    let mut notes = cell.notes.iter().map(String::as_str);
    notes.find(|note| note.starts_with(&begins) && !note.ends_with(RESTARTED))
}

/// The notes of all cells, the first one of each load: a load is started once for each turn.
pub(super) fn cautions(cells: &[CellSummary]) -> Vec<String> {
    let mut loads: Vec<&str> = cells.iter().map(|cell| cell.load.as_str()).collect();
    loads.dedup();
    let first_of = |load: &str| {
        let mut notes = cells.iter().filter(|cell| cell.load == load).flat_map(|cell| &cell.notes);
        let mut note = notes.find(|note| note.starts_with(&format!("{DIED}{load} ")))?.clone();
        note.replace_range(..1, "A");
        Some(note)
    };
    loads.into_iter().filter_map(first_of).collect()
}

/// The same of a cell's verdict, where it has one.
pub(super) fn weaken_cell(cell: &mut CellSummary, events: &[LoadEvent]) {
    if let Some(verdict) = &mut cell.verdict {
        weaken((&mut verdict.outcome, &mut verdict.sentence), events, &cell.load);
    }
}

/// The same of the alarms of bus and robot, by the notes of their cell.
pub(super) fn weaken_alarms(alarms: AlarmVerdict, cell: &CellSummary) -> AlarmVerdict {
    match died(cell) {
        Some(note) if alarms.outcome == Outcome::Pass => AlarmVerdict {
            outcome: Outcome::Inconclusive,
            sentence: format!("{}; no PASS, because {note}", alarms.sentence),
            ..alarms
        },
        _ => alarms,
    }
}

/// A limit that held while a part of the load was missing is no PASS under this load.
pub(super) fn weaken(
    (outcome, sentence): (&mut Outcome, &mut String),
    events: &[LoadEvent],
    load: &str,
) {
    let is_gone = |event: &&LoadEvent| {
        event.load == load
            && event.event == LoadEventKind::PartDied
            && !event.detail.ends_with(RESTARTED)
    };
    if *outcome == Outcome::Pass
        && let Some(died) = events.iter().find(is_gone)
    {
        *outcome = Outcome::Inconclusive;
        sentence.push_str("; no PASS, because the load was not whole: ");
        sentence.push_str(&died.detail);
    }
}
