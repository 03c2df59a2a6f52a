//! A summary as Markdown: what a job of continuous integration shows beside its log.
//!
//! In the common part of GitHub's and GitLab's Markdown: headings, tables, lists, and `<details>`
//! for what is read on request. Names that come from elsewhere (loads, programs, commands) are
//! escaped, so that none of them becomes markup.

use super::by_load;
use super::causes::{Causes, merged, one_in_words};
use super::cell::CellSummary;
use super::closing;
use super::imported::{UNKNOWN, as_headline};
use super::remedies::remedy;
use super::sentences::cautions;
use super::spikes;
use super::summary::Summary;
use super::table::{Align, Column, Entry, Mark, Row, Table};
use super::tables;
use super::units::{Letters, capital, in_letters, spoken, under};
use super::verdict::Outcome;
use onbeat_cause::{Advice, CauseKind};

/// Causes that stand in the list, most spikes first; their number stands in its heading.
const CAUSES: usize = 3;

/// The summary of a job: the verdict, before and after in numbers, the top causes, and all tables
/// folded.
#[must_use]
pub fn markdown(summary: &Summary) -> String {
    let mut text = headline(summary);
    text.push_str(&first_table(summary));
    text.push_str(&top_causes(summary));
    text.push_str(&alarms(summary));
    text.push_str(&notes(summary));
    text.push_str(&all_tables(summary));
    text.push_str(&source(summary));
    text
}

/// Text that shows as it is, in a line of Markdown or a cell of a table.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '$' | '!' | '@' => {
                safe.push('\\');
                safe.push(c);
            }
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

/// A sentence of onbeat's own: what stands between its backticks is code.
fn prose(sentence: &str) -> String {
    let parts: Vec<&str> = sentence.split('`').collect();
    // A name from elsewhere with a backtick of its own leaves one without its pair.
    if parts.len().is_multiple_of(2) {
        return escaped(sentence);
    }
    let part = |(place, part): (usize, &&str)| match place % 2 {
        1 if !part.trim().is_empty() => code(part),
        _ => escaped(part),
    };
    parts.iter().enumerate().map(part).collect()
}

/// Code that shows as it is: within as many backticks as it has not in a row.
fn code(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let mut longest = 0;
    let mut run = 0;
    for c in line.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest + 1);
    let room = if line.starts_with('`') || line.ends_with('`') { " " } else { "" };
    format!("{fence}{room}{line}{room}{fence}")
}

fn unicode(text: &str) -> String {
    in_letters(text, Letters::Unicode)
}

const fn sign(outcome: Option<Outcome>) -> &'static str {
    match outcome {
        Some(Outcome::Pass) => "✅ ",
        Some(Outcome::Fail) => "❌ ",
        Some(Outcome::Inconclusive) => "❔ ",
        None => "",
    }
}

fn headline(summary: &Summary) -> String {
    let deadline = summary.verdict.deadline.as_ref();
    let outcome = summary.outcome().or(deadline.map(|deadline| deadline.outcome));
    let head = closing::verdict_of(summary);
    let title = as_headline(summary, &unicode(&head));
    let mut text = format!("### {}{}\n\n", sign(outcome), prose(&title));
    let sentence = &summary.verdict.sentence;
    let rest = sentence.split_once("; ").map_or(sentence.as_str(), |(_, rest)| rest);
    let grounds = [
        summary.sweep.as_ref().map(|sweep| sweep.sentence.as_str()),
        deadline.map(|deadline| deadline.sentence.as_str()),
        Some(if deadline.is_some() { sentence.as_str() } else { rest })
            .filter(|rest| *rest != head),
    ];
    for ground in grounds.into_iter().flatten() {
        text.push_str(&format!("{}\n\n", prose(&capital(&unicode(ground)))));
    }
    text
}

fn lines_of(table: &Table) -> String {
    let entry = |entry: &Entry| {
        let text = escaped(&entry.text);
        match entry.mark {
            Mark::Best => format!("**{text}**"),
            Mark::Good => format!("✅ {text}"),
            Mark::Bad => format!("❌ {text}"),
            Mark::Open => format!("❔ {text}"),
            Mark::Plain | Mark::Unsupported => text,
        }
    };
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = format!("**{}**\n\n", prose(&capital(&table.title)));
    text.push_str(&line(table.columns.iter().map(|column| escaped(&column.header)).collect()));
    let rule = |column: &Column| match column.align {
        Align::Left => "---".to_owned(),
        Align::Right => "---:".to_owned(),
    };
    text.push_str(&line(table.columns.iter().map(rule).collect()));
    for row in &table.rows {
        text.push_str(&line(row.entries.iter().map(entry).collect()));
    }
    text.push('\n');
    for legend in &table.legend {
        text.push_str(&format!("{}\n\n", escaped(legend)));
    }
    text
}

/// Before and after in numbers; of one run its percentiles.
fn first_table(summary: &Summary) -> String {
    let cells = summary.first_cells();
    let Some((series, _)) = cells.iter().find_map(|cell| cell.main()) else {
        return String::new();
    };
    let load = &cells[0].load;
    let is_one_load = cells.iter().all(|cell| cell.load == *load) && load != UNKNOWN;
    let place = if is_one_load { format!(" {}", under(load)) } else { String::new() };
    let mut table = Table {
        title: format!("{}{place}", series.words()),
        columns: vec![Column::words("")],
        ..Table::default()
    };
    let name = |cell: &&CellSummary| match (summary.focus.is_some() || is_one_load, &cell.load) {
        (true, _) => cell.tuning.clone(),
        (false, load) if load == UNKNOWN => cell.tuning.clone(),
        (false, load) => format!("{} {}", cell.tuning, under(load)),
    };
    table.columns.extend(cells.iter().map(|cell| Column::figures(name(cell))));
    for row in summary.first_rows(Letters::Unicode) {
        let mut entries = vec![Entry::from(row.name)];
        let figures = row.figures.into_iter();
        entries.extend(figures.map(|of| Entry::estimate(of.text, of.supported)));
        table.rows.push(Row { entries, begins_group: false });
    }
    table.explain_unsupported();
    lines_of(&table)
}

/// The most frequent causes of the cells shown first, or of all where these have none, and that of
/// the worst spike, each with what removes it.
fn top_causes(summary: &Summary) -> String {
    let of = |cells: &[&CellSummary]| merged(cells.iter().map(|cell| &cell.causes));
    let first: Vec<&CellSummary> =
        summary.first_cells().into_iter().filter(|_| summary.focus.is_some()).collect();
    let all: Vec<&CellSummary> = summary.cells.iter().collect();
    let shown = if of(&first).is_empty() { all } else { first };
    let causes: Causes = of(&shown);
    let mut by_number: Vec<_> = causes.iter().collect();
    by_number.sort_by_key(|(_, count)| std::cmp::Reverse((count.spikes, count.worst_ns)));
    if by_number.is_empty() {
        return String::new();
    }

    let all = by_number.len();
    let worst = (0..all).rev().max_by_key(|at| by_number[*at].1.worst_ns).unwrap_or(0);
    let and_worst = if worst < CAUSES { "" } else { ", and that of the worst spike" };
    let mut text = match all {
        0..=CAUSES => "**Causes, by spikes**\n\n".to_owned(),
        _ => format!("**Top {CAUSES} of {all} causes, by spikes{and_worst}**\n\n"),
    };
    let named = by_number.into_iter().enumerate().filter(|(at, _)| *at < CAUSES || *at == worst);
    for (_, (kind, count)) in named {
        let advice = remedy(*kind, &shown).first().map(|advice: &Advice| advice.text());
        let advice = advice.filter(|_| *kind != CauseKind::Unexplained);
        let words = escaped(&unicode(&one_in_words(*kind, count)));
        text.push_str(&format!("* {words}"));
        text.push_str(&advice.map_or(String::new(), |advice| format!("  \n  → {}", prose(advice))));
        text.push('\n');
    }
    text.push('\n');
    text
}

/// What was wrong on the bus and with the robot.
fn alarms(summary: &Summary) -> String {
    let events = summary.cells.iter().filter_map(|cell| cell.events.as_ref());
    let incidents = events.flat_map(|events| &events.incidents);
    let text: String = incidents.map(|what| format!("* {}\n", escaped(what))).collect();
    if text.is_empty() { text } else { format!("**Bus and robot**\n\n{text}\n") }
}

fn notes(summary: &Summary) -> String {
    let line = |caution: &String| format!("> {}\n>\n", prose(&unicode(caution)));
    let text: String = cautions(summary).iter().map(line).collect();
    if text.is_empty() { text } else { format!("{}\n\n", text.trim_end_matches("\n>\n")) }
}

/// The tables of the terminal, folded.
fn all_tables(summary: &Summary) -> String {
    let letters = Letters::Unicode;
    let mut all: Vec<Table> = Vec::new();
    let mains = summary.cells.iter().filter_map(|cell| Some(cell.main()?.0));
    let mut series: Vec<_> = mains.collect();
    series.sort_unstable();
    series.dedup();
    for of in series {
        if by_load::is_by_load(summary) {
            all.push(by_load::table(summary, of, letters));
        } else {
            all.extend(
                summary.loads.iter().map(|load| tables::by_tuning_of(summary, load, of, letters)),
            );
        }
    }
    if summary.cells.len() > 1 {
        all.extend(tables::limit(summary, letters));
    }
    all.extend(tables::effects(summary, letters));
    all.extend(spikes::worst(summary, letters));
    if all.is_empty() {
        return String::new();
    }
    let body: String = all.iter().map(lines_of).collect();
    format!("<details><summary>All figures</summary>\n\n{body}</details>\n\n")
}

fn source(summary: &Summary) -> String {
    let words: Vec<&str> = summary.command.iter().map(String::as_str).collect();
    let command = match words.is_empty() {
        true => String::new(),
        false => format!("{} · ", code(&onbeat_host::thread::shell_line(&summary.command))),
    };
    let facts = ["processor", "kernel"].iter().filter_map(|fact| summary.host.fact(fact));
    let host: String = facts.map(|fact| format!("{} · ", escaped(fact))).collect();
    // A source without times has no length.
    let elapsed = match summary.elapsed_s > 0.0 {
        true => format!("{} · ", spoken(summary.elapsed_s)),
        false => String::new(),
    };
    format!("{command}{host}{elapsed}onbeat {}\n", escaped(&summary.version))
}

#[cfg(test)]
mod tests {
    use onbeat_record::CauseCount;

    use super::*;

    #[test]
    fn the_cause_of_the_worst_spike_is_never_left_out() {
        let of = |spikes, worst_ns| CauseCount { spikes, worst_ns, ..CauseCount::default() };
        let text = |worst_ns| {
            let causes = Causes::from([
                (CauseKind::HypervisorSteal, of(9, 700_000)),
                (CauseKind::KernelSection, of(5, 500_000)),
                (CauseKind::Preempted, of(4, 300_000)),
                (CauseKind::LateTimer, of(2, 200_000)),
                (CauseKind::PageFault, of(1, worst_ns)),
            ]);
            let cells = vec![CellSummary { causes, ..CellSummary::default() }];
            top_causes(&Summary { cells, ..Summary::default() })
        };
        let usual = text(100_000);
        assert!(usual.starts_with("**Top 3 of 5 causes, by spikes**"), "{usual}");
        assert_eq!(usual.lines().filter(|line| line.starts_with("* ")).count(), 3, "{usual}");
        let worst = text(900_000);
        assert!(worst.starts_with("**Top 3 of 5 causes, by spikes, and that of the worst spike**"));
        assert!(worst.contains("(worst 900 µs)") && !worst.contains("200 µs"), "{worst}");
    }
}
