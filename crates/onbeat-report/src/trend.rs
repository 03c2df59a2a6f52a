//! One figure over many runs: where it changed, as far as the runs support it.
//!
//! A change point is found by Pettitt's statistic (1979), which takes ranks alone, so that one bad run
//! is no change. Its level comes from drawing the runs in random order, and holds for all places of a
//! stretch together. What is found is looked at on both sides again (binary segmentation). The size
//! of a change is the estimate of Hodges and Lehmann with the interval of Mann and Whitney; a
//! change whose interval includes 1 is not reported.
//!
//! Runs are taken to be independent of each other: of a level that wanders slowly over all runs, part
//! may be reported as changes.

use serde::Serialize;

use super::cell::CellSummary;
use super::digest::{ROUNDING, SHARES, in_bucket};
use super::facts::{self, Facts};
use super::statistics::{Percentile, Share};
use super::summary::Summary;
use super::table::{Column, Entry, NO_FIGURE, Row, Table};
use super::tables::mark_of;
use super::units::{Letters, count, counted, listed, ratio, time_ns};
use super::verdict::Outcome;
use super::worth::median;
use onbeat_record::{Cell, Series};

/// The schema of what `onbeat trend --json` prints.
pub const TREND_SCHEMA: &str = "onbeat.trend/1";
/// Fewest runs of a stretch that is searched: in fewer, no order of them is rare enough.
pub const LEAST_RUNS: usize = 10;
/// How often a stretch without a change may be found to have one.
const LEVEL: f64 = 0.01;
/// Random orders that a stretch is compared with.
const ORDERS: u32 = 1_999;
/// Of the normal distribution, for an interval of 99 %.
const Z_99_5: f64 = 2.575_829;
const SEED: u64 = 1;
/// The fact what a run is about.
const MEASURED: &str = "primary series";

/// What is followed.
#[derive(Clone, Debug, PartialEq)]
pub struct TrendRequest {
    /// The cell; `None` for the best one of the last bench, or the only one of a run.
    pub cell: Option<Cell>,
    /// The series; `None` for the main one.
    pub series: Option<Series>,
    /// The percentile.
    pub share: Share,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrendRun {
    /// How it is called here.
    pub run: String,
    /// Wall clock at its start: seconds since 1970.
    pub started_unix_s: f64,
    /// Samples.
    pub count: u64,
    /// The percentiles of a summary.
    pub percentiles: Vec<Percentile>,
    /// Largest, in nanoseconds.
    pub max_ns: u64,
    /// Of its limit; `None` without one.
    pub outcome: Option<Outcome>,
    /// Whether its percentile has ten samples beyond it, so that it is searched for changes.
    pub is_searched: bool,
}

/// A place where the level changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The first run with the new level: its place, from 0.
    pub at: usize,
    /// Its name.
    pub run: String,
    /// The new level over the old one.
    pub ratio: f64,
    /// Lower end of the 99 % interval.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// Median of the runs from the change before to this one, in nanoseconds.
    pub before_ns: u64,
    /// Median of the runs from this one to the next change, in nanoseconds.
    pub after_ns: u64,
    /// How many runs these are.
    pub runs: [usize; 2],
    /// Facts that are not the same in the run before it and in its own: `kernel: 6.1 -> 6.12`.
    pub differ: Vec<String>,
}

/// A figure over runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trend {
    /// [`TREND_SCHEMA`].
    pub schema: &'static str,
    /// `PMCS/paper`; empty where runs have one cell.
    pub cell: String,
    pub series: Series,
    /// In percent.
    pub at: f64,
    /// In the order of their starts.
    pub runs: Vec<TrendRun>,
    /// Runs that have no samples of the cell and series.
    pub without: Vec<String>,
    /// In order.
    pub changes: Vec<Change>,
    /// The result in sentences.
    pub sentences: Vec<String>,
}

impl Trend {
    /// Of runs with their names, in any order; `None` where none of them has samples of what is
    /// followed.
    #[must_use]
    pub fn new(mut runs: Vec<(String, Summary)>, request: &TrendRequest) -> Option<Self> {
        runs.sort_by(|(_, a), (_, b)| a.started_unix_s.total_cmp(&b.started_unix_s));
        let chosen = request.cell.clone().or_else(|| {
            let last = runs.iter().rev().find(|(_, run)| run.cells.len() > 1)?;
            last.1.verdict.best.clone().or_else(|| last.1.verdict.worst.clone())
        });
        let series = request.series.or_else(|| {
            let mut found = runs.iter().rev().filter_map(|(_, run)| cell_of(run, chosen.as_ref()));
            found.find_map(|cell| Some(cell.main()?.0))
        })?;

        let (mut shown, mut known, mut without) = (Vec::new(), Vec::new(), Vec::new());
        for (name, summary) in &runs {
            let of = cell_of(summary, chosen.as_ref());
            let run = of.and_then(|cell| {
                let run = run_of(name, summary, cell, series, request.share)?;
                let (_, within) = in_bucket(cell, series, value_ns(&run, request.share));
                Some((run, (facts_of(summary, cell), within)))
            });
            match run {
                Some((run, of_run)) => {
                    shown.push(run);
                    known.push(of_run);
                }
                None => without.push(name.clone()),
            }
        }
        if shown.is_empty() {
            return None;
        }

        let unlike = unlike(&known, chosen.is_some());
        let mut trend = Self {
            schema: TREND_SCHEMA,
            cell: chosen.map_or_else(String::new, |cell| format!("{}/{}", cell.tuning, cell.load)),
            series,
            at: request.share.percent(),
            changes: changes(&shown, &known, request.share),
            runs: shown,
            without,
            sentences: Vec::new(),
        };
        trend.sentences = sentences(&trend, request.share);
        trend.sentences.extend(unlike);
        Some(trend)
    }
}

/// The cell that is followed; where none is, the only one of a run.
fn cell_of<'s>(summary: &'s Summary, chosen: Option<&Cell>) -> Option<&'s CellSummary> {
    match (summary.cells.as_slice(), chosen) {
        (_, Some(cell)) => summary.cell(&cell.tuning, &cell.load),
        ([only], None) => Some(only),
        (_, None) => None,
    }
}

fn run_of(
    name: &str,
    summary: &Summary,
    cell: &CellSummary,
    series: Series,
    share: Share,
) -> Option<TrendRun> {
    let figures = cell.series.get(&series)?;
    let outcome = cell.verdict.as_ref().map(|verdict| verdict.outcome);
    Some(TrendRun {
        run: name.to_owned(),
        started_unix_s: summary.started_unix_s,
        count: figures.count,
        percentiles: figures.percentiles.clone(),
        max_ns: figures.max_ns,
        outcome,
        is_searched: figures.percentile(share).is_some_and(|p| p.supported && p.value_ns > 0),
    })
}

fn facts_of(summary: &Summary, cell: &CellSummary) -> Facts {
    let mut facts = facts::of(summary, "", Facts::new(), false);
    facts.insert("onbeat".to_owned(), summary.version.clone());
    // Of another probe, such as `measure bus`, which has this series as well.
    facts.extend(cell.main().map(|(main, _)| (MEASURED.to_owned(), main.words().to_owned())));
    facts
}

/// What runs differ in that were not measured alike; of a cell, load and tuning are the same.
fn unlike(known: &[(Facts, [f64; 2])], is_of_cell: bool) -> Option<String> {
    let asked = ["period", MEASURED, "loads", "tunings"].into_iter();
    let differ: Vec<String> = asked
        .take(if is_of_cell { 2 } else { 4 })
        .filter(|name| known.iter().any(|(facts, _)| facts.get(*name) != known[0].0.get(*name)))
        .map(str::to_owned)
        .collect();
    let has_cells = differ.iter().any(|name| name == "loads" || name == "tunings");
    let or_cell = if has_cells { ", or a --cell" } else { "" };
    (!differ.is_empty()).then(|| {
        format!(
            "The runs differ in {}, which changes the figures by itself; name runs that were measured alike{or_cell}",
            listed(&differ)
        )
    })
}

fn value_ns(run: &TrendRun, share: Share) -> u64 {
    run.percentiles.iter().find(|one| share.is(one.p)).map_or(0, |one| one.value_ns)
}

/// The changes among the runs that can be searched. `known` are the facts of each run, and by how
/// much its percentile may be smaller and larger within its bucket ([`in_bucket`]).
fn changes(runs: &[TrendRun], known: &[(Facts, [f64; 2])], share: Share) -> Vec<Change> {
    let places: Vec<usize> = (0..runs.len()).filter(|at| runs[*at].is_searched).collect();
    let levels: Vec<f64> =
        places.iter().map(|at| (value_ns(&runs[*at], share) as f64).ln()).collect();
    let mut cuts = Vec::new();
    let mut dice = fastrand::Rng::with_seed(SEED);
    search(&levels, 0, &mut dice, &mut cuts);
    cuts.sort_unstable();

    let mut found = Vec::new();
    let mut from = 0;
    for (number, cut) in cuts.iter().enumerate() {
        let to = cuts.get(number + 1).copied().unwrap_or(levels.len());
        let (before, after) = (&levels[from..*cut], &levels[*cut..to]);
        let Some((middle, low, high)) = shift(before, after) else { continue };
        let widest =
            |of: &[usize], way: usize| of.iter().map(|at| known[*at].1[way]).fold(0.0, f64::max);
        let (earlier, later) = (&places[from..*cut], &places[*cut..to]);
        let low = low - widest(later, 0) - widest(earlier, 1);
        let high = high + widest(earlier, 0) + widest(later, 1);
        // Otherwise both are one stretch for the change that follows.
        if low <= ROUNDING && high >= -ROUNDING {
            continue;
        }
        from = *cut;
        let at = places[*cut];
        found.push(Change {
            at,
            run: runs[at].run.clone(),
            ratio: middle.exp(),
            low: low.exp(),
            high: high.exp(),
            before_ns: median(before.to_vec()).exp().round() as u64,
            after_ns: median(after.to_vec()).exp().round() as u64,
            runs: [before.len(), after.len()],
            differ: differing(&known[places[*cut - 1]].0, &known[at].0),
        });
    }
    found
}

fn differing(before: &Facts, after: &Facts) -> Vec<String> {
    let both = [before.clone(), after.clone()];
    let of = |facts: &Facts, name: &String| {
        facts.get(name).cloned().unwrap_or_else(|| "not recorded".to_owned())
    };
    facts::differing(&both)
        .into_iter()
        .map(|name| format!("{name}: {} -> {}", of(before, name), of(after, name)))
        .collect()
}

/// Searches a stretch for a change, and both sides of what is found. `from` is the place of its first
/// run among all.
fn search(levels: &[f64], from: usize, dice: &mut fastrand::Rng, cuts: &mut Vec<usize>) {
    if levels.len() < LEAST_RUNS {
        return;
    }
    let (cut, most) = pettitt(levels);
    let mut mixed = levels.to_vec();
    let mut as_large = 1;
    for _ in 0..ORDERS {
        dice.shuffle(&mut mixed);
        as_large += u32::from(pettitt(&mixed).1 >= most);
    }
    if f64::from(as_large) / f64::from(ORDERS + 1) > LEVEL {
        return;
    }
    cuts.push(from + cut);
    search(&levels[..cut], from, dice, cuts);
    search(&levels[cut..], from + cut, dice, cuts);
}

/// The place before which levels differ most from those behind it, by ranks, and by how much: the
/// largest |U| of Pettitt (1979).
fn pettitt(levels: &[f64]) -> (usize, i64) {
    let sign = |a: f64, b: f64| i64::from(a > b) - i64::from(a < b);
    // U of the next place is that of this one and what its level adds.
    let adds = |level: f64| levels.iter().map(|other| sign(level, *other)).sum::<i64>();
    let mut sum = 0;
    let mut best = (1, 0);
    for (place, level) in levels.iter().enumerate().take(levels.len().saturating_sub(1)) {
        sum += adds(*level);
        if sum.abs() > best.1 {
            best = (place + 1, sum.abs());
        }
    }
    best
}

/// By how much the later levels lie above the earlier ones, with its 99 % interval: the median of all
/// differences (Hodges and Lehmann, 1963) and the differences that Mann and Whitney's test does not
/// reject, by its normal approximation. `None` where there are too few.
fn shift(before: &[f64], after: &[f64]) -> Option<(f64, f64, f64)> {
    let mut differences: Vec<f64> =
        before.iter().flat_map(|a| after.iter().map(move |b| b - a)).collect();
    differences.sort_by(f64::total_cmp);
    let (m, n) = (before.len() as f64, after.len() as f64);
    let spread = (m * n * (m + n + 1.0) / 12.0).sqrt();
    let outside = (m * n / 2.0 - Z_99_5 * spread).floor();
    if outside < 1.0 {
        return None;
    }
    let outside = outside as usize;
    let (low, high) = (differences[outside - 1], differences[differences.len() - outside]);
    Some((median(differences), low, high))
}

fn sentences(trend: &Trend, share: Share) -> Vec<String> {
    let searched = trend.runs.iter().filter(|run| run.is_searched).count();
    let what = format!("{} {}", share.label(), trend.series.words());
    let mut all: Vec<String> = trend.changes.iter().map(|change| in_words(change, &what)).collect();
    if searched < LEAST_RUNS {
        all.push(format!(
            "{} of {} with ten samples beyond {}; a search for changes takes {LEAST_RUNS} of them",
            count(searched as u64),
            counted(trend.runs.len() as u64, "run"),
            share.label(),
        ));
    } else if all.is_empty() {
        all.push(format!(
            "{what} does not change over {} runs, as far as they show",
            count(searched as u64)
        ));
    }
    let open = trend.runs.len() - searched;
    if open > 0 && searched >= LEAST_RUNS {
        all.push(format!(
            "{} with fewer than ten samples beyond {} are not searched for changes",
            counted(open as u64, "run"),
            share.label(),
        ));
    }
    if !trend.without.is_empty() {
        let what = if trend.cell.is_empty() {
            "No samples, or several cells and no --cell"
        } else {
            "No samples of that cell"
        };
        all.push(format!("{what}: {}", trend.without.join(", ")));
    }
    let undated = trend.runs.iter().filter(|run| run.started_unix_s <= 0.0);
    let undated: Vec<&str> = undated.map(|run| run.run.as_str()).collect();
    if !undated.is_empty() && trend.runs.len() > 1 {
        let names = undated.join(", ");
        all.push(format!("No recorded start, so first and in the order given: {names}"));
    }
    all
}

fn in_words(change: &Change, what: &str) -> String {
    let Change { run, before_ns, after_ns, runs, .. } = change;
    let time = |ns: u64| time_ns(ns, Letters::Ascii);
    let differ = match change.differ.as_slice() {
        [] => "; no recorded fact of the machine differs".to_owned(),
        facts => format!("; with it changed {}", facts.join(", ")),
    };
    format!(
        "{what} x {} from {run} on ({} to {}), from {} in {} runs to {} in {}{differ}",
        ratio(change.ratio),
        ratio(change.low),
        ratio(change.high),
        time(*before_ns),
        runs[0],
        time(*after_ns),
        runs[1],
    )
}

/// The runs as a table; a group begins where the level changed.
#[must_use]
pub fn table(trend: &Trend, letters: Letters) -> Table {
    let of_cell = if trend.cell.is_empty() { String::new() } else { format!(" of {}", trend.cell) };
    let mut columns = vec![Column::words("run"), Column::figures("samples")];
    columns.extend(SHARES.map(|share| Column::figures(share.label())));
    columns.push(Column::figures("max"));
    let is_judged = trend.runs.iter().any(|run| run.outcome.is_some());
    columns.extend(is_judged.then(|| Column::words("limit")));

    let row = |(place, run): (usize, &TrendRun)| {
        let mut entries = vec![Entry::from(run.run.as_str()), count(run.count).into()];
        entries.extend(SHARES.map(|share| percentile(run, share, letters)));
        entries.push(time_ns(run.max_ns, letters).into());
        entries.extend(is_judged.then(|| outcome(run.outcome)));
        let begins_group = trend.changes.iter().any(|change| change.at == place);
        Row { entries, begins_group }
    };
    let rows = trend.runs.iter().enumerate().map(row).collect();
    let runs = counted(trend.runs.len() as u64, "run");
    let title = format!("{}{of_cell} over {runs}", trend.series.words());
    let mut table = Table { title, columns, rows, legend: Vec::new() };
    table.explain_unsupported();
    table
}

fn percentile(run: &TrendRun, share: Share, letters: Letters) -> Entry {
    match run.percentiles.iter().find(|one| share.is(one.p)) {
        None => NO_FIGURE.into(),
        Some(one) => Entry::estimate(time_ns(one.value_ns, letters), one.supported),
    }
}

fn outcome(outcome: Option<Outcome>) -> Entry {
    match outcome {
        None => NO_FIGURE.into(),
        Some(outcome) => Entry::marked(outcome.words(), mark_of(outcome)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Levels around 0 with a spread of a tenth, as of percentiles that differ by 10 % from run to run.
    fn noise(dice: &mut fastrand::Rng, runs: usize) -> Vec<f64> {
        let one = |dice: &mut fastrand::Rng| {
            let sum: f64 = (0..12).map(|_| dice.f64()).sum();
            (sum - 6.0) * 0.1
        };
        (0..runs).map(|_| one(dice)).collect()
    }

    fn cuts(levels: &[f64]) -> Vec<usize> {
        let mut cuts = Vec::new();
        search(levels, 0, &mut fastrand::Rng::with_seed(SEED), &mut cuts);
        cuts.sort_unstable();
        cuts
    }

    #[test]
    fn runs_of_one_level_have_a_change_in_one_of_a_hundred_at_most() {
        let mut dice = fastrand::Rng::with_seed(7);
        let with_change = (0..200).filter(|_| !cuts(&noise(&mut dice, 24)).is_empty()).count();
        // Of 200 at 1 %, more than 7 have a probability of 0.1 %.
        assert!(with_change <= 7, "{with_change} of 200");
    }

    #[test]
    fn a_step_is_found_where_it_is_and_one_bad_run_is_none() {
        let mut dice = fastrand::Rng::with_seed(8);
        let mut exact = 0;
        for _ in 0..40 {
            let mut levels = noise(&mut dice, 24);
            levels[14..].iter_mut().for_each(|level| *level += 0.5);
            let found = cuts(&levels);
            assert!(found.iter().any(|cut| cut.abs_diff(14) <= 2), "{found:?}");
            exact += usize::from(found.contains(&14));

            let mut one_bad = noise(&mut dice, 24);
            let quiet = cuts(&one_bad);
            one_bad[9] += 5.0;
            assert!(cuts(&one_bad).len() <= quiet.len() + 1);
        }
        assert!(exact >= 30, "{exact} of 40");
    }

    #[test]
    fn a_shift_has_the_sign_and_size_of_the_step() {
        let mut dice = fastrand::Rng::with_seed(9);
        for step in [-0.7, 0.4, 1.2] {
            let before = noise(&mut dice, 12);
            let after: Vec<f64> = noise(&mut dice, 12).iter().map(|level| level + step).collect();
            let (middle, low, high) = shift(&before, &after).expect("enough runs");
            assert!(low <= middle && middle <= high);
            assert!(low < step && step < high, "{low} {step} {high}");
            assert!(low.signum() == high.signum(), "{low} to {high} does not include 0");
        }
        assert_eq!(shift(&[0.0, 0.1], &[1.0, 1.1]), None, "two runs each decide nothing");
    }

    #[test]
    fn a_step_to_the_next_bucket_is_a_change_only_where_buckets_are_narrow() {
        let run = |at: u32| TrendRun {
            run: at.to_string(),
            started_unix_s: f64::from(at),
            count: 1_000,
            percentiles: vec![Percentile {
                p: 50.0,
                value_ns: if at < 8 { 1_999 } else { 2_999 },
                supported: true,
            }],
            max_ns: 2_999,
            outcome: None,
            is_searched: true,
        };
        let runs: Vec<TrendRun> = (0..16).map(run).collect();
        let found = |within: [f64; 2]| {
            let known = vec![(Facts::new(), within); runs.len()];
            changes(&runs, &known, Share::P50).len()
        };
        let width = (2_999.0_f64 / 1_999.0).ln();
        assert_eq!([[0.0, 0.0], [width, 0.0], [0.0, width]].map(found), [1, 0, 0]);
    }

    #[test]
    fn runs_that_were_not_measured_alike_are_told_apart() {
        let of = |period: &str, loads: &str| {
            let facts = [("period", period), ("loads", loads), ("kernel", period)];
            let facts = facts.map(|(name, value)| (name.to_owned(), value.to_owned()));
            (Facts::from(facts), [0.0; 2])
        };
        let of_load = [of("1 ms", "idle"), of("1 ms", "paper")];
        let said = unlike(&of_load, false).unwrap();
        assert!(said.starts_with("The runs differ in loads, which"), "{said}");
        assert!(said.ends_with(", or a --cell"), "{said}");
        let of_period = [of("1 ms", "idle"), of("2 ms", "idle")];
        assert!(unlike(&of_period, true).unwrap().ends_with("measured alike"));
        assert_eq!(unlike(&of_load, true), None);
        let said = unlike(&[of("1 ms", "idle"), of("2 ms", "paper")], false).unwrap();
        assert!(said.starts_with("The runs differ in period and loads, which"), "{said}");
    }

    #[test]
    fn equal_runs_have_no_change_and_few_are_not_searched() {
        assert!(cuts(&[1.0; 40]).is_empty());
        assert!(cuts(&[0.0, 0.0, 0.0, 0.0, 9.0, 9.0, 9.0, 9.0, 9.0]).is_empty());
        assert_eq!(cuts(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0]), [6]);
    }
}
