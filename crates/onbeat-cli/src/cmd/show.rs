//! Summaries in a terminal: the verdict and what to do, then tables, then further conclusions and
//! the path of the page.

use std::path::Path;

use onbeat::record::Series;
use onbeat::thread::shell_line;
use onbeat_report::closing::{self, ClosingLine};
use onbeat_report::table::Table;
use onbeat_report::units::{Letters, in_letters, under};
use onbeat_report::{
    Outcome, Summary, answers, bench_sentences, by_load, cautions, cell_notes, imported, noise,
    packets, probes, spikes, sweep, tables,
};

use super::looping::verdict;
use super::runs::{self, ReportedRun};
use super::{ExitVerdict, Failure};
use crate::options::OutputOptions;
use crate::term::{Tone, columns, letters, say, say_folded, say_wrapped};

/// How much of a summary is shown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SummaryExtent {
    /// One JSON object and nothing else.
    pub(crate) json: bool,
    /// The paper's whole tables.
    pub(crate) full: bool,
    /// What can be concluded beyond the figures.
    pub(crate) concludes: bool,
    /// All sentences, where the closing lines would do.
    pub(crate) verbose: bool,
}

/// Shows a summary, and writes the page.
pub(crate) fn summary(
    kept: &ReportedRun,
    extent: SummaryExtent,
    page: Option<&Path>,
) -> Result<(), Failure> {
    let page = kept.write_page(page)?;
    let summary = &kept.summary;
    if extent.json {
        say(Tone::Plain, &serde_json::to_string(summary)?);
        return Ok(());
    }

    // An imported run has a sentence of its own, and no tunings to choose from.
    let is_imported = summary.cells.iter().any(|cell| cell.import.is_some());
    let (first, last) = split(if is_imported { Vec::new() } else { closing::of(summary) });
    first.iter().for_each(say_line);
    if !first.is_empty() {
        say(Tone::Plain, "");
    }

    if extent.full {
        full_tables(summary);
    }
    short_tables(summary);

    if extent.concludes {
        sections(summary);
    }

    conclusions(summary, extent.verbose || extent.concludes);
    last.iter().for_each(say_line);
    // What scrolled off the screen: the answer is among the last lines.
    first.iter().filter(|line| AGAIN.contains(&line.label)).for_each(say_line);
    say(Tone::Faint, &format!("report   {}", page.display()));
    if !summary.robot_command.is_empty() {
        // Not folded: the line is to be pasted.
        say(Tone::Plain, &format!("run      {}", shell_line(&summary.robot_command)));
    }
    Ok(())
}

/// Judges and shows the run that a command has made, and returns its verdict.
pub(super) fn made(path: &Path, output: &OutputOptions) -> Result<ExitVerdict, Failure> {
    let reported = runs::reported(path, None, None)?;
    let OutputOptions { json, verbose, .. } = *output;
    summary(&reported, SummaryExtent { json, verbose, ..SummaryExtent::default() }, None)?;
    Ok(verdict(reported.summary.outcome()))
}

/// Lines above the tables, in this order: verdict, remedies, best tuning, top cause.
const FIRST: [&str; 9] =
    ["verdict", "worst", "events", "robot", "remedy", "tunings", "gain", "best", "cause"];

/// Those that stand below the tables once more.
const AGAIN: [&str; 3] = ["verdict", "worst", "best"];

/// Separates the lines above the tables from those below.
fn split(lines: Vec<ClosingLine>) -> (Vec<ClosingLine>, Vec<ClosingLine>) {
    let place = |line: &ClosingLine| FIRST.iter().position(|label| *label == line.label);
    let (mut first, last): (Vec<ClosingLine>, Vec<ClosingLine>) =
        lines.into_iter().partition(|line| place(line).is_some());
    first.sort_by_key(place);
    (first, last)
}

fn say_line(line: &ClosingLine) {
    let text = in_letters(&format!("{:8} {}", line.label, line.text), letters());
    let text = if letters() == Letters::Unicode { text.replace("->", "→") } else { text };
    say_folded(line.outcome.map_or(Tone::Plain, tone_of), &text);
}

pub(crate) const fn tone_of(outcome: Outcome) -> Tone {
    match outcome {
        Outcome::Pass => Tone::Good,
        Outcome::Fail => Tone::Bad,
        Outcome::Inconclusive => Tone::Careful,
    }
}

/// Shows tables and verdict, and writes no page.
pub(crate) fn in_brief(summary: &Summary) {
    short_tables(summary);
    cell_notes(&summary.cells).iter().for_each(|note| say_wrapped(Tone::Plain, note));
    conclusions(summary, true);
}

fn short_tables(summary: &Summary) {
    summary.sweep.iter().for_each(|steps| table(&sweep::table(steps, letters())));
    if by_load::is_by_load(summary) {
        return by_loads(summary);
    }

    for load in summary.loads.iter().filter(|_| summary.sweep.is_none()) {
        for series in shown_series(summary) {
            table(&tables::by_tuning_of(summary, load, series, letters()));
        }
    }

    let accounts = summary.cells.iter().filter_map(|cell| cell.packets.as_ref());
    for account in accounts {
        packets::table(account, letters()).iter().for_each(table);
        answers::tables(account, letters()).iter().for_each(table);
    }
    let noises = summary.cells.iter().filter_map(|cell| cell.noise.as_ref());
    noises.filter_map(|account| noise::table(account, letters())).for_each(|of| table(&of));
    let seconds = summary.cells.iter().filter_map(|cell| probes::by_second(cell, letters()));
    seconds.for_each(|of| table(&of));
    let limit = tables::limit(summary, letters());
    // For one cell the sentence is enough.
    limit.iter().filter(|_| summary.cells.len() > 1).for_each(table);
    tables::effects(summary, letters()).iter().for_each(table);
    spikes::worst(summary, letters()).iter().for_each(table);
    privileges(summary);
}

/// Shows what was not permitted, such as the recording of causes, apart from what a sentence names as
/// the reason why cells did not run.
fn privileges(summary: &Summary) {
    let keeps_out = |what: &str| {
        let mut reasons = summary.cells.iter().filter_map(|cell| cell.why_not.as_deref());
        reasons.any(|why| why.starts_with(what))
    };
    let ladder = summary.ladder.iter().filter(|grant| !keeps_out(&grant.what));
    let ladder: Vec<_> = ladder.cloned().collect();
    if ladder.iter().any(|grant| !grant.granted) {
        table(&tables::ladder(&ladder));
    }
}

/// Shows one tuning under several loads: loads are the rows, each with its verdict.
fn by_loads(summary: &Summary) {
    for series in shown_series(summary) {
        table(&by_load::table(summary, series, letters()));
    }

    for cell in &summary.cells {
        let seconds = probes::by_second(cell, letters());
        seconds.into_iter().for_each(|of| {
            table(&Table { title: format!("{}, {}", of.title, under(&cell.load)), ..of });
        });
    }

    spikes::worst(summary, letters()).iter().for_each(table);
    privileges(summary);
}

/// Returns the primary series of onbeat's own runs, and all series of imported ones.
fn shown_series(summary: &Summary) -> Vec<Series> {
    let has = |series: &Series| summary.cells.iter().any(|cell| cell.series.contains_key(series));
    if summary.cells.iter().any(|cell| cell.import.is_some()) {
        return Series::ALL.into_iter().filter(has).collect();
    }

    // Some probes count a series with certain options only; the primary one is shown with or
    // without samples.
    let about =
        summary.cells.iter().find(|cell| !cell.about.is_empty()).map(|cell| cell.about.clone());
    let about = about.unwrap_or_else(|| vec![Series::ReleaseLatency]);
    let shown = about.into_iter().enumerate().filter(|(place, of)| *place == 0 || has(of));
    shown.map(|(_, series)| series).collect()
}

fn full_tables(summary: &Summary) {
    for load in &summary.loads {
        let imported =
            shown_series(summary).into_iter().filter(|series| *series != Series::ReleaseLatency);
        for series in [Series::ObservedPeriod, Series::ReleaseLatency].into_iter().chain(imported) {
            if !summary.cells.iter().any(|cell| cell.series.contains_key(&series)) {
                continue;
            }
            table(&tables::full(summary, load, series, letters()));
        }

        // A second view, beside that of all releases.
        if summary.cells.iter().any(|cell| cell.series.contains_key(&Series::ReleaseLatency)) {
            table(&tables::by_tuning_of(summary, load, Series::WakeupLatency, letters()));
        }
    }
}

pub(crate) fn table(table: &Table) {
    let text = table.to_text(columns());
    let (title, rest) = text.split_once('\n').unwrap_or((&text, ""));
    say(Tone::Head, title);
    say(Tone::Plain, rest);
}

/// Shows the conclusions: heading, table, sentences.
fn sections(summary: &Summary) {
    for (heading, sentences) in onbeat_report::conclusions::sections(summary) {
        say(Tone::Head, heading);
        if heading == onbeat_report::conclusions::NOT_NORMAL
            && let Some(table) =
                onbeat_report::conclusions::normal_table(summary, Series::ReleaseLatency, letters())
        {
            say(Tone::Plain, &table.to_text(columns()));
        }

        for sentence in sentences {
            say_wrapped(Tone::Plain, &sentence);
        }

        say(Tone::Plain, "");
    }
}

/// Shows all sentences, or for a bench those that the closing lines do not have.
fn conclusions(summary: &Summary, verbose: bool) {
    let tone = summary.verdict.outcome.map_or(Tone::Head, tone_of);
    // Streams of another tool have no lines above the tables.
    let is_imported = summary.cells.iter().any(|cell| cell.import.is_some());
    let has_lines = summary.cells.len() > 1 && summary.sweep.is_none() && !is_imported;
    let is_brief = has_lines && !verbose;
    let mut sentences =
        if is_brief { cautions(summary) } else { bench_sentences(summary) }.into_iter();
    if !is_brief && let Some(verdict) = sentences.next() {
        say_wrapped(tone, &verdict);
    }

    for sentence in sentences.chain(imported::sentences(&summary.cells)) {
        say_wrapped(Tone::Plain, &sentence);
    }

    say(Tone::Plain, "");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdict_remedy_tuning_and_cause_stand_above_the_tables_in_this_order() {
        let line = |label| ClosingLine { label, text: format!("text of {label}"), outcome: None };
        let lines = ["effect", "cause", "best", "tunings", "gain", "remedy", "verdict"].map(line);

        let (first, last) = split(Vec::from(lines));
        let labels =
            |lines: &[ClosingLine]| lines.iter().map(|line| line.label).collect::<Vec<_>>();
        assert_eq!(labels(&first), ["verdict", "remedy", "tunings", "gain", "best", "cause"]);
        assert_eq!(labels(&last), ["effect"]);
    }
}
