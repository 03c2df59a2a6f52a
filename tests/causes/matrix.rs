//! What was planted against what was named, as Markdown.

use std::fmt::Write;

use onbeat::cause::CauseKind;
use onbeat::probe::disturbed::Late;
use onbeat::report::units::{Letters, time_ns};

use crate::planted::{Planted, Row, explanation, named, named_beyond, named_late};

/// A share that is at least this is right (95 %), one of the lateness this (90 %).
const RIGHT: f64 = 0.95;
const ACCOUNTED: f64 = 0.90;

fn percent(share: Option<f64>, least: f64) -> String {
    let Some(share) = share else { return "–".to_owned() };
    let mark = if share >= least { "" } else { " ✗" };
    format!("{:.0} %{mark}", (share * 100.0).floor())
}

/// The confusion matrix, and what could not be planted.
pub(crate) fn of_planted(rows: &[Row]) -> String {
    let kinds: Vec<CauseKind> =
        CauseKind::ALL.into_iter().filter(|kind| rows.iter().any(|row| row.count(Some(*kind)) > 0)).collect();
    let mut text = String::from("## Planted and named\n\n| planted \\ named |");
    for kind in &kinds {
        let _ = write!(text, " {} |", kind.words());
    }
    text.push_str(
        " nothing | planted | missed | first | right | among the causes | accounted for | median lateness |\n|---|",
    );
    text.push_str(&"--:|".repeat(kinds.len() + 8));
    text.push('\n');
    for row in rows {
        let Some(done) = row.done() else { continue };
        let _ = write!(text, "| `{}` |", row.fault);
        for kind in kinds.iter().copied().map(Some).chain([None]) {
            let count = row.count(kind);
            let bold = if kind == Some(row.fault.cause()) { "**" } else { "" };
            let _ = if count > 0 { write!(text, " {bold}{count}{bold} |") } else { write!(text, " |") };
        }
        let late = row.median_late_ns().map_or("–".to_owned(), |ns| time_ns(ns, Letters::Unicode));
        let first = percent(row.first(), 0.0);
        let (right, among) = (percent(row.right(), RIGHT), percent(row.among(), RIGHT));
        let accounted = percent(row.accounted(), ACCOUNTED);
        let _ = writeln!(
            text,
            " {} | {} | {first} | {right} | {among} | {accounted} | {late} |",
            row.felt().len(),
            done.missed
        );
    }
    for row in rows {
        if let Planted::NotPossible(reason) = &row.planted {
            let _ = write!(text, "\n`{}` is not possible here: {reason}.\n", row.fault);
        }
    }
    text
}

/// The same machinery doing nothing.
pub(crate) fn of_placebos(rows: &[Row]) -> String {
    let mut text = String::from(
        "\n## Placebo\n\n| planted nothing as | runs of it | named the cause | named, with the number |\n|---|--:|--:|---|\n",
    );
    for row in rows.iter().filter(|row| row.done().is_some()) {
        let wrong = row.count(Some(row.fault.cause()));
        let _ = writeln!(
            text,
            "| `{}` | {} | {wrong} | {} |",
            row.fault,
            row.felt().len(),
            tally(row.felt().iter().map(named))
        );
    }
    text
}

/// Spikes that no injection met.
pub(crate) fn of_others<'r>(rows: impl Iterator<Item = &'r Row>) -> String {
    let others: Vec<&Late> = rows.filter_map(Row::done).flat_map(|done| &done.others).collect();
    let names = tally(others.iter().map(|late| named_late(late)));
    format!("\n## Spikes that nobody planted\n\n{} in all: {names}.\n", others.len())
}

fn tally(named: impl Iterator<Item = Option<CauseKind>>) -> String {
    let named: Vec<Option<CauseKind>> = named.collect();
    let kinds = CauseKind::ALL.into_iter().map(Some).chain([None]);
    let counted = kinds.map(|kind| (kind, named.iter().filter(|one| **one == kind).count()));
    let words = counted.filter(|(_, count)| *count > 0);
    let words = words.map(|(kind, count)| format!("{count} {}", kind.map_or("nothing", CauseKind::words)));
    words.collect::<Vec<_>>().join(", ")
}

/// Every injection that was named otherwise, with all its causes.
pub(crate) fn details<'r>(rows: impl Iterator<Item = &'r Row>) -> String {
    let mut text = String::from("\n## Named otherwise\n\n");
    for row in rows {
        for felt in row.felt() {
            let is_placebo = felt.injected.detail == onbeat::inject::Detail::Placebo;
            if (named_beyond(felt, &row.ordinary) == Some(row.fault.cause())) != is_placebo {
                continue;
            }
            let one = &felt.injected;
            let _ = writeln!(text, "- `{}` {}: {} ns, {}", row.fault, one.index, one.ns, one.detail);
            if let Some(met) = &felt.met {
                let (sample, at) = (&met.sample, one.at.as_ns().cast_signed());
                let from_release = at - sample.release.as_ns().cast_signed();
                let _ = writeln!(
                    text,
                    "    - began {from_release} ns after release {}, started {} ns late, worked {} ns",
                    sample.index, sample.wakeup_latency_ns, sample.execution_time_ns
                );
            }
            for cause in explanation(felt).map_or(&[][..], |explanation| &explanation.causes) {
                let _ = writeln!(text, "    - {} ns {}: {}", cause.ns, cause.words(), cause.evidence);
            }
        }
    }
    text
}
