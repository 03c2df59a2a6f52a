//! Whether a run passes: a limit, no worse than a baseline, or both; for machines that decide
//! whether work goes on.

use serde::Serialize;

use super::cell::CellSummary;
use super::compare::{Digest, Ratio, without_interval};
use super::digest::WANDERS;
use super::events::{self, AlarmVerdict};
use super::load_events;
use super::order_statistics::ASSUMPTION;
use super::statistics::Share;
use super::summary::Summary;
use super::units::{cell_name, ratio, under};
use super::verdict::{Limit, Outcome, limit_in_words};
use onbeat_record::Series;

/// The schema of a gate's result.
pub const GATE_SCHEMA: &str = "onbeat.gate/1";

/// One check in one cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// The check: `99.99 % of releases within 100 us`.
    pub name: String,
    /// Run and cell: `nightly, PMCS with no added load`.
    pub of: String,
    /// The outcome.
    pub outcome: Outcome,
    /// The result as a sentence.
    pub sentence: String,
    /// Evidence, as a sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub basis: String,
}

/// The result of `onbeat gate --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gate {
    /// `onbeat.gate/1`.
    pub schema: String,
    /// Version of onbeat that checked.
    pub version: String,
    /// Name of the run.
    pub run: String,
    /// The worst of all checks; INCONCLUSIVE without checks.
    pub outcome: Outcome,
    /// Every check.
    pub checks: Vec<Check>,
}

impl Gate {
    #[must_use]
    pub fn new(run: &str, checks: Vec<Check>) -> Self {
        let outcome =
            checks.iter().map(|check| check.outcome).max().unwrap_or(Outcome::Inconclusive);
        let schema = GATE_SCHEMA.to_owned();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self { schema, version, run: run.to_owned(), outcome, checks }
    }
}

/// Which cells of a run are checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// Only this tuning, or this stream of an imported run.
    pub tuning: Option<String>,
    /// Only this load.
    pub load: Option<String>,
}

impl Chosen {
    /// The cells that are checked: those asked for; without a word on tunings all cells, of a bench
    /// its best tuning.
    #[must_use]
    pub fn cells<'s>(&self, summary: &'s Summary) -> Vec<&'s CellSummary> {
        let best = summary.verdict.best.as_ref().map(|best| best.tuning.as_str());
        let tuning = self.tuning.as_deref().or(best.filter(|_| summary.cells.len() > 1));
        let is_chosen = |cell: &&CellSummary| {
            tuning.is_none_or(|tuning| cell.tuning == tuning)
                && self.load.as_ref().is_none_or(|load| cell.load == *load)
        };

        summary.cells.iter().filter(is_chosen).collect()
    }
}

/// `; it has gap (--series gap)`: another tool's run has the series that its source records.
fn series_there(cell: &CellSummary) -> String {
    let named = cell.series.keys().map(|of| format!("{} (--series {})", of.words(), of.tag()));
    let named = named.collect::<Vec<_>>().join(", ");
    let is_named = cell.import.is_some() && !named.is_empty();
    if is_named { format!("; it has {named}") } else { String::new() }
}

/// What a percentage is of, where the source records the longest gaps alone.
fn not_all_gaps(cell: &CellSummary) -> &'static str {
    match &cell.import {
        Some(import) if import.format == "hwlat" => {
            " The percentage is of gaps beyond the detector's threshold: shorter ones are not recorded."
        }
        _ => "",
    }
}

#[must_use]
pub fn limit_checks(run: &str, cells: &[&CellSummary], limit: Limit) -> Vec<Check> {
    let check = |cell: &&CellSummary| {
        let (outcome, sentence) = match (&cell.verdict, &cell.why_not) {
            (Some(verdict), _) if verdict.releases == 0 => {
                (verdict.outcome, format!("{}{}", verdict.sentence, series_there(cell)))
            }
            (Some(verdict), _) => (verdict.outcome, verdict.sentence.clone()),
            (None, Some(why)) => (Outcome::Inconclusive, format!("not permitted: {why}")),
            (None, None) => (Outcome::Inconclusive, "no run file".to_owned()),
        };
        let basis = cell.verdict.as_ref().map(|verdict| verdict.basis.clone()).unwrap_or_default();
        let basis = basis + not_all_gaps(cell);
        Check { name: limit_in_words(limit), of: name(run, cell), outcome, sentence, basis }
    };
    cells.iter().map(check).collect()
}

/// A limit on alarms of bus and robot, cell by cell.
#[must_use]
pub fn alarm_checks(run: &str, cells: &[&CellSummary], most: u64) -> Vec<Check> {
    let check = |cell: &&CellSummary| {
        let alarms = events::judge(cell.events.as_deref(), most);
        let AlarmVerdict { outcome, sentence, .. } = load_events::weaken_alarms(alarms, cell);
        let name = format!("at most {} bus and robot alarms", super::units::count(most));
        Check { name, of: self::name(run, cell), outcome, sentence, basis: String::new() }
    };
    cells.iter().filter(|cell| cell.file.is_some()).map(check).collect()
}

/// The baseline of a gate.
#[derive(Clone, Copy)]
pub struct Baseline<'b> {
    /// The baseline itself.
    pub run: &'b Digest,
    /// The series that is compared.
    pub series: Series,
    /// The percentile that is compared.
    pub share: Share,
    /// The largest ratio that passes, above 0.
    pub no_worse_than: f64,
}

/// A run against its baseline, cell by cell: it holds when all of the ratio's 95 % interval is at
/// most what is allowed, and is broken when all of it is above.
#[must_use]
pub fn baseline_checks(
    run: &Digest,
    cells: &[&CellSummary],
    baseline: &Baseline<'_>,
) -> Vec<Check> {
    let of = |cell: &&CellSummary| {
        let their = &baseline.run.summary.cells;
        let is_same =
            |other: &&CellSummary| (&other.tuning, &other.load) == (&cell.tuning, &cell.load);
        let same = their.iter().find(is_same);
        let stream = |cell: &CellSummary| cell.import.as_ref().map(|import| import.stream.clone());
        let base = same
            .or_else(|| {
                their.iter().find(|other| stream(cell).is_some() && stream(other) == stream(cell))
            })
            .or_else(|| their.first().filter(|_| their.len() == 1));
        let series = base.map_or(baseline.series, |base| in_common(baseline.series, [cell, base]));
        let ratio = base
            .and_then(|base| run.ratio_to(baseline.run, (cell, base), (series, baseline.share)));
        let (mut outcome, mut sentence) = judged(ratio.as_ref(), series, baseline);
        // Under a load that died a run is better than it is, and so is a baseline; and without what
        // was lost.
        let is_better = |of: &CellSummary| {
            let died = load_events::died(of).map(str::to_owned);
            died.or_else(|| lost_beyond(of, series, baseline.share))
        };
        let why_open = match outcome {
            Outcome::Pass => is_better(cell),
            Outcome::Fail => base.and_then(is_better),
            Outcome::Inconclusive => None,
        };
        if let Some(note) = why_open {
            outcome = Outcome::Inconclusive;
            sentence = format!("{sentence}; undecided, because {note}");
        }
        if let Some(loads) = base.and_then(|base| other_loads(cell, base)) {
            sentence = format!("{sentence}; {loads}");
        }
        let name = format!(
            "{} {} at most x {} of {}",
            baseline.share.label(),
            series.words(),
            super::units::three_digits(baseline.no_worse_than),
            baseline.run.name
        );

        Check { name, of: self::name(&run.name, cell), outcome, sentence, basis: String::new() }
    };
    cells.iter().map(of).collect()
}

/// That a percentile may be another one: with what was lost beyond it, its rank moves by more than
/// chance moves it (the root of the number beyond it).
fn lost_beyond(cell: &CellSummary, series: Series, share: Share) -> Option<String> {
    let all = cell.series.get(&series)?.count + cell.lost;
    let (lost, label) = (cell.lost, share.label());
    let count = super::units::count;
    let beyond = all - share.rank_in(all);
    (lost.saturating_mul(lost) > beyond).then(|| {
        let how = if lost > beyond { "more than lie" } else { "which may lie" };
        format!("{} of {} samples were lost, {how} beyond {label}", count(lost), count(all))
    })
}

/// That a run and its baseline had different loads, which may be meant: that a load changes
/// nothing.
fn other_loads(cell: &CellSummary, base: &CellSummary) -> Option<String> {
    let are_known = [cell, base].iter().all(|of| of.load != super::imported::UNKNOWN);
    let [own, other] = [cell, base].map(|of| under(&of.load));
    (are_known && own != other)
        .then(|| format!("the loads differ: this run {own}, the baseline {other}"))
}

/// Another tool's run reports served releases only, and what is held against it must be the same.
fn in_common(series: Series, cells: [&CellSummary; 2]) -> Series {
    let is_imported = cells.iter().any(|cell| cell.import.is_some());
    if series == Series::ReleaseLatency && is_imported { Series::WakeupLatency } else { series }
}

fn judged(found: Option<&Ratio>, series: Series, baseline: &Baseline<'_>) -> (Outcome, String) {
    let allowed = baseline.no_worse_than;
    let label = baseline.share.label();
    let Some(found) = found else {
        let series = series.words();
        let why = format!("the run and its baseline have no {label} {series} in common");
        return (Outcome::Inconclusive, why);
    };
    let Some((low, high)) = found.low.zip(found.high) else {
        let why = match found.wanders {
            true => WANDERS.to_owned(),
            false => without_interval(std::slice::from_ref(found)),
        };
        return (Outcome::Inconclusive, format!("{label} is x {}; {why}", ratio(found.ratio)));
    };
    if found.is_undecided() {
        let (low, high) = (ratio(low), ratio(high));
        let why = format!("{label} is undecided: x {low} to x {high} of {} fit", baseline.run.name);
        return (Outcome::Inconclusive, why);
    }
    let assumed = if found.independently { format!("; {ASSUMPTION}") } else { String::new() };
    let words = format!("{label} is {} that of {}{assumed}", found.words(), baseline.run.name);
    let words = format!("{words} (x {} allowed", super::units::three_digits(allowed));
    if low > allowed {
        (Outcome::Fail, words + ")")
    } else if high <= allowed {
        (Outcome::Pass, words + ")")
    } else {
        (Outcome::Inconclusive, words + ", within the interval)")
    }
}

fn name(run: &str, cell: &CellSummary) -> String {
    match cell.load.as_str() {
        super::imported::UNKNOWN => format!("{run}, {}", cell.tuning),
        load => format!("{run}, {}", cell_name(&cell.tuning, load)),
    }
}
