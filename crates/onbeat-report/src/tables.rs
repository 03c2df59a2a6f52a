//! The tables of a bench: figures per load, the paper's full table, the limit, the effect of each
//! tuning, the ladder.

use super::by_cpu::is_by_cpu;
use super::cell::CellSummary;
use super::imported::UNKNOWN;
use super::once::once;
use super::statistics::{Low, Percentile, Share, Statistics};
use super::summary::Summary;
use super::table::{Column, Entry, Mark, NO_FIGURE, Row, Table};
use super::units::{Letters, count, counted, fixed, in_letters, ratio, under};
use super::verdict::{Outcome, limit_in_words};
use onbeat_host::thread::Grant;
use onbeat_record::{Series, TUNING_LETTERS};

/// Before a figure, or the name of a row of figures, that few samples carry.
const SIGN: char = '~';
const UNSUPPORTED: &str =
    "~ fewer than 10 samples beyond this value, or beyond any value of this row";
pub(super) const TRUNCATED: &str = "* truncated; figures from the recorded part";
pub(super) const IN_PROGRESS: &str = "+ run in progress; figures from the part recorded so far";
/// The columns of a load's table, after the tuning.
const HEADS: [&str; 10] =
    ["min", "avg", "max", "SD", "p50", "p99", "p99.9", "p99.99", "misses", "skipped"];
/// The default width of a terminal.
const TERMINAL: usize = 80;

/// The unit of a table, one for all its figures.
#[derive(Clone, Copy)]
struct TableUnit {
    ns: f64,
    name: &'static str,
    /// Whether thousands stand apart.
    is_grouped: bool,
}

impl TableUnit {
    /// Microseconds, unless something took more than ten seconds.
    fn for_cells(cells: &[&CellSummary], series: Series, letters: Letters) -> Self {
        let longest = cells
            .iter()
            .filter_map(|cell| Some(cell.series.get(&series)?.max_ns))
            .max()
            .unwrap_or(0);
        match longest {
            0..10_000_000_000 => Self { ns: 1e3, name: letters.microseconds(), is_grouped: true },
            _ => Self { ns: 1e6, name: "ms", is_grouped: true },
        }
    }

    /// Three digits, and all digits of a whole number: `0.04`, `17.1`, `1 234`.
    fn rounded(self, ns: f64) -> String {
        match ns / self.ns {
            v if v < 9.995 => fixed(v, 2),
            v if v < 99.95 => fixed(v, 1),
            v => self.whole(v.round() as u64),
        }
    }

    fn whole(self, n: u64) -> String {
        if self.is_grouped { count(n) } else { n.to_string() }
    }

    /// As many of two decimals as fit into `characters`.
    fn fitted(self, ns: f64, characters: usize) -> String {
        let value = ns / self.ns;
        let texts = [2, 1, 0].map(|decimals| fixed(value, decimals));
        texts.iter().find(|text| text.len() <= characters).unwrap_or(&texts[2]).clone()
    }
}

/// One table for a load: a row per tuning, release latency in microseconds, misses and skipped
/// releases.
#[must_use]
pub fn by_tuning(summary: &Summary, load: &str, letters: Letters) -> Table {
    by_tuning_of(summary, load, Series::ReleaseLatency, letters)
}

/// The same for any series.
#[must_use]
pub fn by_tuning_of(summary: &Summary, load: &str, series: Series, letters: Letters) -> Table {
    let cells = cells_with(summary, load, series);
    let unit = TableUnit::for_cells(&cells, series, letters);
    let is_imported = cells.iter().all(|cell| cell.import.is_some());
    let mut table = Table {
        title: title(load, &cells, (series, unit)),
        columns: heads(if is_imported { "run" } else { row_head(summary) }, &cells),
        rows: rows_by_tuning(summary, &cells, (series, unit)),
        legend: Vec::new(),
    };

    table.columns.extend(HEADS.map(Column::figures));
    if !table.fits(TERMINAL) {
        table.rows =
            rows_by_tuning(summary, &cells, (series, TableUnit { is_grouped: false, ..unit }));
    }

    if !is_by_cpu(summary) && summary.cells.first().is_some_and(|first| first.load == load) {
        table.legend.extend(letters_in_words(&cells));
    }
    explain(&mut table, &cells);
    table
}

/// The cells of a load in a table of a series: without those of other tools that have other series,
/// each of which has a table.
fn cells_with<'s>(summary: &'s Summary, load: &str, series: Series) -> Vec<&'s CellSummary> {
    let is_of_others = |cell: &CellSummary| {
        let has_others = !cell.series.is_empty() && !cell.series.contains_key(&series);
        cell.import.is_some() && has_others
    };
    summary.cells.iter().filter(|cell| cell.load == load && !is_of_others(cell)).collect()
}

/// `P real-time priority, M locked memory`, of the letters that name these cells.
fn letters_in_words(cells: &[&CellSummary]) -> Option<String> {
    let of_letters = |cell: &&&CellSummary| cell.import.is_none() && cell.tuning != "none";
    let used: String =
        cells.iter().filter(of_letters).filter_map(|cell| cell.tuning.split('+').next()).collect();
    let in_words = TUNING_LETTERS.iter().filter(|(letter, _)| used.contains(*letter));
    let words: Vec<String> = in_words.map(|(letter, words)| format!("{letter} {words}")).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// What the rows of a table are.
fn row_head(summary: &Summary) -> &'static str {
    if is_by_cpu(summary) { "" } else { "tuning" }
}

/// The columns before the figures: the worst CPU stands beside the name where each of several has a
/// loop.
fn heads(of_rows: &str, cells: &[&CellSummary]) -> Vec<Column> {
    let has_cpus = cells.iter().any(|cell| cell.cpu.is_some());
    let cpu = has_cpus.then(|| Column::figures("CPU"));
    std::iter::once(Column::words(of_rows)).chain(cpu).collect()
}

fn rows_by_tuning(summary: &Summary, cells: &[&CellSummary], of: (Series, TableUnit)) -> Vec<Row> {
    let best = summary.verdict.best.as_ref().map(|best| best.tuning.as_str());
    let row = |cell: &&CellSummary| {
        let is_best = summary.cells.len() > 1 && best == Some(cell.tuning.as_str());
        let mut entries =
            vec![Entry::marked(name(cell), if is_best { Mark::Best } else { Mark::Plain })];
        entries.extend(cell.cpu.map(|cpu| Entry::from(cpu.to_string())));
        entries.extend(figures(cell, of));
        Row { entries, begins_group: false }
    };

    cells.iter().map(row).collect()
}

fn figures(cell: &CellSummary, (series, unit): (Series, TableUnit)) -> Vec<Entry> {
    let Some(of) = cell.series.get(&series) else {
        return vec![Entry::from(NO_FIGURE); HEADS.len()];
    };
    let plain = |ns: f64| Entry::from(unit.rounded(ns));
    let percentile = |share: Share| match of.percentile(share) {
        Some(Percentile { value_ns, supported, .. }) => {
            Entry::estimate(unit.rounded(value_ns as f64), supported)
        }
        None => Entry::from(NO_FIGURE),
    };

    let sd = if has_no_spread(of) { Entry::from(NO_FIGURE) } else { plain(of.sd_ns) };
    let mut entries = vec![plain(of.min_ns as f64), plain(of.mean_ns), plain(of.max_ns as f64), sd];
    entries.extend([Share::P50, Share::P99, Share::P99_9, Share::P99_99].map(percentile));
    let counted =
        |n: Option<u64>| Entry::from(n.map_or_else(|| NO_FIGURE.to_owned(), |n| unit.whole(n)));
    entries.extend([cell.deadline_misses, cell.skipped].map(counted));
    entries
}

/// A spread of 0 between different extremes means that the source does not state one.
fn has_no_spread(of: &Statistics) -> bool {
    of.sd_ns == 0.0 && of.max_ns > of.min_ns
}

/// The paper's table for a load: statistics over the lowest 99 to 100 % of a series, a column per
/// tuning (Yoon, Song and Lee, 2009, figures 7 and 8), with jitter and the tail ratio `(max − mean)
/// / SD` below.
#[must_use]
pub fn full(summary: &Summary, load: &str, series: Series, letters: Letters) -> Table {
    let mut cells = cells_with(summary, load, series);
    cells.retain(|cell| cell.permitted);
    let unit = TableUnit::for_cells(&cells, series, letters);
    let mut columns = vec![Column::words("Low"), Column::words("")];
    columns.extend(cells.iter().map(|cell| Column::figures(name(cell))));
    let row = |label: &str, statistic: &str, entry: &dyn Fn(&Statistics) -> Option<Entry>| {
        let of = |cell: &&CellSummary| {
            cell.series.get(&series).and_then(entry).unwrap_or_else(|| NO_FIGURE.into())
        };
        let mut entries = vec![Entry::from(label), Entry::from(statistic)];
        entries.extend(cells.iter().map(of));
        Row { entries, begins_group: matches!(statistic, "min" | "max") || label == "jitter" }
    };

    let mut rows = vec![row("", "min", &|of| Some(unit.fitted(of.min_ns as f64, 6).into()))];
    let figures = || cells.iter().filter_map(|cell| cell.series.get(&series));
    let is_known = |share: &Share| figures().any(|of| of.low(*share).is_some());
    for share in Share::LOW.into_iter().filter(is_known) {
        let label = format!("{}%", share.percent());
        let low = |figure: fn(&Low) -> f64| {
            move |of: &Statistics| {
                let low = of.low(share)?;
                Some(Entry::estimate(unit.fitted(figure(&low), 6), low.supported))
            }
        };

        rows.push(row(&label, "max", &low(|low| low.max_ns as f64)));
        rows.push(row("", "avg", &low(|low| low.mean_ns)));
        let sd = low(|low| low.sd_ns);
        let is_stated = |of: &Statistics| share != Share::ALL || !has_no_spread(of);
        rows.push(row("", "SD", &|of| sd(of).filter(|_| is_stated(of))));
    }

    rows.push(row("jitter", "", &|of| Some(unit.fitted(of.jitter_ns as f64, 6).into())));
    let tail = |of: &Statistics| of.tail_ratio.map(|times| Entry::from(fixed(times, 1)));
    rows.push(row("tail", "", &tail));
    rows.iter_mut().for_each(mark_whole_row);
    let title = title(load, &cells, (series, unit));
    let mut table = Table { title, columns, rows, legend: Vec::new() };
    explain(&mut table, &cells);
    table
        .legend
        .push("jitter is max - min, tail is (max - avg) / SD, both over all samples".to_owned());

    table
}

/// The verdict on the limit: tunings by loads. `None` without a limit.
#[must_use]
pub fn limit(summary: &Summary, letters: Letters) -> Option<Table> {
    let limit = summary.limit?;
    let mut columns = vec![Column::words(row_head(summary))];
    columns.extend(summary.loads.iter().map(Column::figures));
    let entry = |tuning: &String, load: &String| {
        let verdict = summary.cell(tuning, load).and_then(|cell| cell.verdict.as_ref());
        verdict.map_or_else(
            || Entry::from(NO_FIGURE),
            |verdict| {
                let text = format!(
                    "{} {}/{}",
                    verdict.outcome.words(),
                    count(verdict.over),
                    count(verdict.releases)
                );
                Entry::marked(text, mark_of(verdict.outcome))
            },
        )
    };

    let row = |tuning: &String| {
        let mut entries = vec![Entry::from(tuning.as_str())];
        entries.extend(summary.loads.iter().map(|load| entry(tuning, load)));
        Row { entries, begins_group: false }
    };

    let words = in_letters(&limit_in_words(limit), letters);
    Some(Table {
        title: format!("{words}: releases over the limit / all releases"),
        columns,
        rows: summary.tunings.iter().map(row).collect(),
        legend: Vec::new(),
    })
}

/// The effect of each tuning: factors by loads. `None` when nothing could be compared.
#[must_use]
pub fn effects(summary: &Summary, letters: Letters) -> Option<Table> {
    let metric = &summary.effects.first()?.metric;
    let times = if letters == Letters::Unicode { "×" } else { "x" };
    let factors = once(summary.effects.iter().map(|effect| effect.factor.as_str()));
    let mut columns = vec![Column::words("")];
    columns.extend(summary.loads.iter().map(Column::figures));
    let entry = |factor: &str, load: &String| {
        let Some(effect) =
            summary.effects.iter().find(|effect| effect.factor == factor && effect.load == *load)
        else {
            return Entry::from(NO_FIGURE);
        };
        let mark = match effect {
            effect if effect.high < 1.0 => Mark::Good,
            effect if effect.low > 1.0 => Mark::Bad,
            _ => Mark::Plain,
        };

        let [middle, low, high] = [effect.ratio, effect.low, effect.high].map(ratio);
        Entry::marked(format!("{times} {middle} ({low} to {high})"), mark)
    };

    let row = |factor: &&str| {
        let mut entries = vec![Entry::from(*factor)];
        entries.extend(summary.loads.iter().map(|load| entry(factor, load)));
        Row { entries, begins_group: false }
    };

    Some(Table {
        title: format!("effect of each tuning on {metric}, with 95 % confidence intervals"),
        columns,
        rows: factors.iter().map(row).collect(),
        legend: Vec::new(),
    })
}

/// The privileges requested and granted, with what would grant the others.
#[must_use]
pub fn ladder(grants: &[Grant]) -> Table {
    let row = |grant: &Grant| {
        let (word, mark) = if grant.granted { ("yes", Mark::Good) } else { ("no", Mark::Bad) };
        let granted = Entry::marked(word, mark);
        let entries = vec![grant.what.as_str().into(), grant.wanted.as_str().into(), granted];
        Row { entries, begins_group: false }
    };

    let mut legend = Vec::new();
    for grant in grants.iter().filter(|grant| !grant.granted) {
        let why = grant.why_not.as_deref().unwrap_or("no reason given");
        legend.push(format!("{}: {why}", grant.what));
        legend.extend(grant.costs.iter().map(|costs| format!("  effect: {costs}")));
        legend.extend(grant.remedy.iter().map(|remedy| format!("  to grant it: {remedy}")));
    }

    Table {
        title: "privileges".to_owned(),
        columns: vec![
            Column::words("privilege"),
            Column::words("requested"),
            Column::words("granted"),
        ],
        rows: grants.iter().map(row).collect(),
        legend,
    }
}

/// What the figures of a load are, their unit, and how many samples they rest on.
fn title(load: &str, cells: &[&CellSummary], (series, unit): (Series, TableUnit)) -> String {
    let under = if load == UNKNOWN { String::new() } else { format!(" {}", under(load)) };
    format!("{}{under}, {}{}", named(series, cells), unit.name, samples_of(cells, series))
}

/// A series by name, and which releases it leaves out.
fn named(series: Series, cells: &[&CellSummary]) -> String {
    let leaves_out =
        series == Series::WakeupLatency && cells.iter().any(|cell| cell.import.is_none());
    if leaves_out {
        format!("{} (served releases)", series.words())
    } else {
        series.words().to_owned()
    }
}

fn name(cell: &CellSummary) -> String {
    let mark = match (cell.file.is_some() && !cell.complete, cell.goes_on) {
        (true, true) => "+",
        (true, false) => "*",
        _ => "",
    };
    format!("{}{mark}", cell.tuning)
}

/// Where no tuning supports a row, its name carries the sign once, so that there is room for the
/// figures.
fn mark_whole_row(row: &mut Row) {
    let [_, statistic, figures @ ..] = row.entries.as_mut_slice() else { return };
    let is_open = |entry: &Entry| entry.mark == Mark::Unsupported || entry.text == NO_FIGURE;
    if figures.iter().all(is_open) && figures.iter().any(|entry| entry.mark == Mark::Unsupported) {
        statistic.text.insert(0, SIGN);
        for figure in figures {
            figure.text = figure.text.trim_start_matches(SIGN).to_owned();
        }
    }
}

/// How a table marks what came of a limit.
pub(super) const fn mark_of(outcome: Outcome) -> Mark {
    match outcome {
        Outcome::Pass => Mark::Good,
        Outcome::Inconclusive => Mark::Open,
        Outcome::Fail => Mark::Bad,
    }
}

/// `; 6,000 samples each`, `; 5,990 to 6,000 samples`: what the figures rest on. Titles of 80 columns
/// have to hold it.
fn samples_of(cells: &[&CellSummary], series: Series) -> String {
    let figures = || cells.iter().filter_map(|cell| cell.series.get(&series));
    if !figures().all(Statistics::is_counted) {
        return "; samples not counted".to_owned();
    }
    let samples = || figures().map(|figures| figures.count);
    match (samples().min(), samples().max()) {
        (Some(least), Some(most)) if least == most && cells.len() == 1 => {
            format!("; {}", counted(least, "sample"))
        }
        (Some(least), Some(most)) if least == most => {
            format!("; {} each", counted(least, "sample"))
        }
        (Some(least), Some(most)) => format!("; {} to {} samples", count(least), count(most)),
        _ => String::new(),
    }
}

/// Adds what the table's signs mean, and why cells have no figures.
fn explain(table: &mut Table, cells: &[&CellSummary]) {
    let is_whole = |row: &Row| row.entries.get(1).is_some_and(|entry| entry.text.starts_with("~m"));
    if table.rows.iter().any(is_whole) {
        table.legend.push(UNSUPPORTED.to_owned());
    } else {
        table.explain_unsupported();
    }

    let cpus = || cells.iter().flat_map(|cell| &cell.cpus).map(|of| of.cpu);
    if let Some((first, last)) = cpus().min().zip(cpus().max()) {
        table.legend.push(format!(
            "CPU: the worst of those from {first} to {last}; the figures are its own"
        ));
    }
    if cells.iter().any(|cell| cell.goes_on) {
        table.legend.push(IN_PROGRESS.to_owned());
    }
    if cells.iter().any(|cell| cell.file.is_some() && !cell.complete && !cell.goes_on) {
        table.legend.push(TRUNCATED.to_owned());
    }

    // A gap and a round trip have no release that could be skipped.
    let has_releases = |cell: &&&CellSummary| {
        !cell.series.keys().all(|of| matches!(of, Series::Gap | Series::RoundTrip))
    };
    let mut blind: Vec<&str> = cells
        .iter()
        .filter(has_releases)
        .filter_map(|cell| Some(cell.import.as_ref()?.format.as_str()))
        .collect();
    blind.dedup();
    if !blind.is_empty() {
        let (tools, verb) = (blind.join(", "), if blind.len() == 1 { "does" } else { "do" });
        table
            .legend
            .push(format!("served cycles only: {tools} {verb} not record skipped releases"));
    }
}
