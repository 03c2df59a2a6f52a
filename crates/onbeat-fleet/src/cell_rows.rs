//! The rows of one run file: its cell, its buckets, its outages and causes.

use std::collections::BTreeMap;

use onbeat_record::{
    CauseCount, Cell, Distribution, LimitNote, LoadEvent, Moments, Resolution, RunFile, Series,
};
use onbeat_report::export;
use onbeat_report::verdict::{Judging, Unseen, judge};

use crate::percentile::{by_rank, ln_millionths};
use crate::table::{CAUSES, CELLS, HISTOGRAMS, OUTAGES, Table, Value};

/// Sub-buckets of an HdrHistogram of two and of three significant digits: below them values are exact, above them a bucket is at most
/// a hundredth, or a thousandth, of its values wide. Files count some series more finely; the grids nest, so that no bucket is split.
const TWO_DIGITS: u64 = 256;
const THREE_DIGITS: u64 = 2_048;

/// Why an imported cell is not counted: its p99.9 would be its maximum.
const WITHOUT_TAIL: &str =
    "its source does not give the sizes of its largest samples, more than 1 in 1,000";

/// What the rows of all cells of a run share.
pub(crate) struct CellsOf<'r> {
    /// The run's number in all tables.
    pub(crate) run: i64,
    /// The name of its machine.
    pub(crate) host: &'r str,
    /// Its start, in microseconds since 1970.
    pub(crate) started_us: i64,
    /// The limit it is judged by.
    pub(crate) limit: Option<LimitNote>,
    /// How many cells share the level of a FAIL, and how many tunings that of a PASS.
    pub(crate) shared_by: (usize, usize),
    /// Events of loads, of its bench.
    pub(crate) loads: &'r [LoadEvent],
    /// Why the whole run is not valid, as its user says; empty for a valid one.
    pub(crate) invalid: &'r str,
}

/// A cell as the tables name it: each CPU of a bench on several of them is a cell by itself, whose figures no question adds to another's.
fn of_one_loop(cell: Cell) -> Cell {
    match cell.cpu {
        Some(cpu) => Cell::new(format!("{} CPU {cpu}", cell.tuning), cell.load),
        None => cell,
    }
}

/// Whether the tail of a series, of that many samples, is past the range of its source, or all of it where the source has no
/// distribution.
fn is_without_tail(file: &RunFile, series: Series, samples: u64) -> bool {
    let resolution = file.import.as_ref().and_then(|import| import.resolution.get(&series));
    resolution
        .and_then(|resolution| resolution.beyond)
        .is_some_and(|beyond| beyond.count > samples / 1_000)
}

pub(crate) struct CellTables {
    pub(crate) cells: Table,
    pub(crate) histograms: Table,
    pub(crate) outages: Table,
    pub(crate) causes: Table,
    /// Number of cells whose figures say nothing of the machine, by the reason.
    pub(crate) invalid: BTreeMap<String, usize>,
}

impl CellTables {
    /// The rows of the files of a run, those of the histograms in the order in which they are sorted.
    pub(crate) fn of_files(of: &CellsOf<'_>, files: &[RunFile]) -> Self {
        let mut tables = Self {
            cells: Table::new(&CELLS),
            histograms: Table::new(&HISTOGRAMS),
            outages: Table::new(&OUTAGES),
            causes: Table::new(&CAUSES),
            invalid: BTreeMap::new(),
        };
        let mut cells: Vec<(Cell, &RunFile)> =
            files.iter().map(|file| (of_one_loop(export::cell(file)), file)).collect();
        cells.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (cell, file) in &cells {
            tables.cell(of, cell, main_series(file), file);
            tables.late(of, cell, file);
            tables.culprits(of, cell, file);
        }

        // Sorting a hundred thousand rows that are in order already takes no time.
        let mut all = Series::ALL;
        all.sort_by_key(|series| series.tag());
        for series in all {
            for (cell, file) in &cells {
                let counted = file.distribution(series);
                if counted.count() > 0 {
                    let digits =
                        if series == main_series(file) { THREE_DIGITS } else { TWO_DIGITS };
                    tables.buckets(of, cell, series, &counted.at(&Resolution::doubling(1, digits)));
                }
            }
        }
        tables
    }

    fn buckets(&mut self, of: &CellsOf<'_>, cell: &Cell, series: Series, counted: &Distribution) {
        for bucket in counted.buckets() {
            self.histograms.push([
                of.run.into(),
                series.tag().into(),
                cell.tuning.as_str().into(),
                cell.load.as_str().into(),
                of.host.into(),
                bucket.low_ns.into(),
                bucket.high_ns().into(),
                bucket.count.into(),
            ]);
        }
    }

    fn cell(&mut self, of: &CellsOf<'_>, cell: &Cell, main: Series, file: &RunFile) {
        let counted = file.distribution(main);
        let moments = main_moments(file, main, &counted);
        let rounded = |ns: f64| Value::from(ns.round() as u64);
        let account = file.account();
        let slots = if file.import.is_some() { counted.count() } else { account.slots };
        let judging = of.limit.map(|limit| Judging {
            limit,
            verdicts: of.shared_by.0,
            passes: of.shared_by.1,
            unseen: Unseen::Assumed,
        });
        let verdict = judging.map(|judging| judge(file, judging));
        let why = match file.invalidity(of.loads) {
            _ if !of.invalid.is_empty() => of.invalid.to_owned(),
            None if is_without_tail(file, main, counted.count()) => WITHOUT_TAIL.to_owned(),
            // No edge came that was to be answered, and the loop that waited for one was on time.
            None if counted.count() == 0 => format!("no samples of {}", main.words()),
            why => why.map_or_else(String::new, |why| why.to_string()),
        };
        if !why.is_empty() {
            *self.invalid.entry(why.clone()).or_default() += 1;
        }
        let p999_ns = by_rank(&counted, 999, 1_000);
        let sum =
            |of: fn(&onbeat_record::Interval) -> u64| file.intervals.iter().map(of).sum::<u64>();
        self.cells.push([
            of.run.into(),
            of.host.into(),
            of.started_us.into(),
            cell.tuning.as_str().into(),
            cell.load.as_str().into(),
            main.tag().into(),
            slots.into(),
            account.cycles.into(),
            account.skipped.into(),
            account.lost.into(),
            account.excluded.into(),
            sum(|interval| interval.deadline_misses).into(),
            sum(|interval| interval.spikes).into(),
            counted.count().into(),
            moments.min_ns.into(),
            moments.max_ns.into(),
            rounded(moments.mean_ns),
            rounded(moments.sd_ns()),
            by_rank(&counted, 50, 100).into(),
            by_rank(&counted, 90, 100).into(),
            by_rank(&counted, 99, 100).into(),
            p999_ns.into(),
            by_rank(&counted, 9_999, 10_000).into(),
            ln_millionths(p999_ns).into(),
            of.limit.map_or(0, |limit| limit.limit_ns).into(),
            verdict.as_ref().map_or(0, |verdict| verdict.over).into(),
            verdict.as_ref().map_or("", |verdict| verdict.outcome.words()).into(),
            why.is_empty().into(),
            why.as_str().into(),
        ]);
    }

    fn late(&mut self, of: &CellsOf<'_>, cell: &Cell, file: &RunFile) {
        for interval in &file.intervals {
            // The first is the run's limit, or its deadline; the others are parts of it.
            let Some(late) = interval.late.first().filter(|late| late.ended.outages > 0) else {
                continue;
            };
            self.outages.push([
                of.run.into(),
                of.host.into(),
                cell.tuning.as_str().into(),
                cell.load.as_str().into(),
                late.watch.on.tag().into(),
                late.watch.limit_ns.into(),
                microseconds(interval.t).into(),
                microseconds(interval.length).into(),
                late.ended.outages.into(),
                late.ended.late.into(),
                late.ended.largest.into(),
            ]);
        }
    }

    fn culprits(&mut self, of: &CellsOf<'_>, cell: &Cell, file: &RunFile) {
        let mut kinds: BTreeMap<_, CauseCount> = BTreeMap::new();
        for (kind, count) in file.intervals.iter().flat_map(|interval| &interval.causes) {
            let known = kinds.remove(kind).unwrap_or_default();
            kinds.insert(*kind, known.merged(count));
        }
        for (kind, count) in &kinds {
            // As run files name it.
            let word = serde_json::json!(kind);
            let named: u64 = count.culprits.values().map(|culprit| culprit.spikes).sum();
            // The worst one is that of a culprit, or else it is among the others.
            let of_named = count.culprits.values().map(|culprit| culprit.worst_ns).max();
            let is_of_others = of_named.is_none_or(|named_ns| named_ns < count.worst_ns);
            let worst_ns = if is_of_others { count.worst_ns } else { 0 };
            let others = (count.spikes.saturating_sub(named), worst_ns);
            let named = count.culprits.iter();
            let named = named.map(|(name, one)| (name.as_str(), (one.spikes, one.worst_ns)));
            for (culprit, (spikes, worst_ns)) in
                named.chain([("", others)]).filter(|(_, (spikes, _))| *spikes > 0)
            {
                let row: [Value<'_>; 8] = [
                    of.run.into(),
                    of.host.into(),
                    cell.tuning.as_str().into(),
                    cell.load.as_str().into(),
                    word.as_str().unwrap_or_default().into(),
                    culprit.into(),
                    spikes.into(),
                    worst_ns.into(),
                ];
                self.causes.push(row);
            }
        }
    }
}

/// The series that a run is about.
fn main_series(file: &RunFile) -> Series {
    let has = |series: &Series| {
        file.entries.iter().any(|entry| entry.series == *series && entry.counts.count() > 0)
    };
    let stated = file.header.series.first().copied();
    let first = || Series::ALL.into_iter().find(has);
    stated.or_else(|| if file.import.is_some() { first() } else { None }).unwrap_or_default()
}

fn main_moments(file: &RunFile, main: Series, counted: &Distribution) -> Moments {
    let moments = file.moments(main);
    // The end of a file that was cut off is in buckets alone.
    if moments.n == counted.count() { moments } else { of_buckets(counted) }
}

fn of_buckets(counted: &Distribution) -> Moments {
    let mut all = Moments::default();
    for bucket in counted.buckets() {
        let mean_ns = bucket.middle_ns();
        let (min_ns, max_ns) = (bucket.low_ns, bucket.high_ns());
        all = all.merged(Moments { n: bucket.count, min_ns, max_ns, mean_ns, m2: 0.0 });
    }
    all
}

fn microseconds(seconds: f64) -> i64 {
    (seconds * 1e6).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_on_several_cpus_are_cells_of_their_own() {
        let names: Vec<String> = Cell::new("PMC", "paper")
            .on_each(&[1, 2])
            .into_iter()
            .map(|cell| of_one_loop(cell).tuning)
            .collect();
        assert_eq!(names, ["PMC CPU 1", "PMC CPU 2"]);
        assert_eq!(of_one_loop(Cell::new("PMC", "paper")), Cell::new("PMC", "paper"));
    }
}
