//! Metrics of a run: the model that is written as text ([`openmetrics`](super::openmetrics)), and as protobuf by the program.
//!
//! A metric per series, labelled with tuning and load. Bounds are at 1, 2 and 5 times powers of
//! ten, the same in every export, so that runs can be added up; a run with a limit has a bound there
//! as well. A bucket that reaches over a bound is counted above it: no bound is ever too low.
//! Nothing here grows with the length of a run: labels are words of the command line and of the vocabulary.
//!
//! Where another tool's file states count, extremes and mean alone, these are gauges: a histogram would say where samples
//! are that nobody counted.

use std::collections::BTreeMap;

use onbeat_record::run_dir::RUN_FILE_ENDING;
use onbeat_record::{Cell, Distribution, Interval, LimitNote, Moments, RunFile, Series};

use crate::units::capital;

/// Bounds from 100 ns to 100 s.
const BOUNDS_NS: [u64; 28] = {
    let mut bounds = [0; 28];
    let mut i = 0;
    while i < 28 {
        bounds[i] = [100, 200, 500][i % 3] * 10_u64.pow(i as u32 / 3);
        i += 1;
    }

    bounds
};

/// What a metric counts or measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyKind {
    Histogram,
    Gauge,
    Counter,
}

/// A metric with all its label sets.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Name without `onbeat`, unit and `_total`, such as `release_latency`.
    pub stem: String,
    pub help: String,
    pub kind: FamilyKind,
    pub points: Vec<Point>,
}

impl Family {
    /// The name as Prometheus has it, without the `_total` of counters.
    #[must_use]
    pub fn prometheus_name(&self) -> String {
        let unit = if self.is_of_time() { "_seconds" } else { "" };
        format!("onbeat_{}{unit}", self.stem)
    }

    /// Whether its values are times; all others are counts.
    #[must_use]
    pub fn is_of_time(&self) -> bool {
        self.points.iter().any(|point| !matches!(point.value, PointValue::Count(_)))
    }
}

/// A value with its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// In the order in which they are written.
    pub labels: Vec<(&'static str, String)>,
    pub value: PointValue,
}

#[derive(Clone, Debug, PartialEq)]
pub enum PointValue {
    Count(u64),
    /// Nanoseconds.
    Time(u64),
    Histogram(TimeHistogram),
}

/// Times that were counted.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeHistogram {
    pub samples: Distribution,
    /// All values together, in seconds.
    pub sum_s: f64,
    /// Smallest and largest, in nanoseconds.
    pub range_ns: (u64, u64),
    /// Upper bounds of the classic buckets, rising.
    pub bounds_ns: Vec<u64>,
}

impl TimeHistogram {
    /// Each bound with the samples up to it.
    #[must_use]
    pub fn cumulative(&self) -> Vec<(u64, u64)> {
        let mut buckets = self.samples.buckets().iter().peekable();
        let mut below = 0;
        let counted = self.bounds_ns.iter().map(|&bound| {
            while let Some(bucket) = buckets.next_if(|bucket| bucket.high_ns() <= bound) {
                below += bucket.count;
            }
            (bound, below)
        });
        counted.collect()
    }
}

/// The metrics of all runs' files. With `in_progress`, those of a scrape: whether the run is being measured is one of them.
#[must_use]
pub fn families(runs: &[RunFile], in_progress: Option<bool>) -> Vec<Family> {
    let runs = labelled(runs);
    let mut all: Vec<Family> =
        Series::ALL.into_iter().map(|series| histograms(&runs, series)).collect();
    all.extend(Series::ALL.into_iter().flat_map(|series| figures(&runs, series)));
    all.push(limits(&runs));
    all.extend(counters(&runs));
    all.push(causes(&runs));
    all.extend(in_progress.map(state));
    all.retain(|family| !family.points.is_empty());
    all
}

/// A run's file with what tells it from others.
struct Labelled<'r> {
    run: &'r RunFile,
    labels: Vec<(&'static str, String)>,
    limit: Option<LimitNote>,
}

impl Labelled<'_> {
    fn point(&self, more: &[(&'static str, String)], value: PointValue) -> Point {
        Point { labels: self.labels.iter().chain(more).cloned().collect(), value }
    }
}

/// Load and tuning; the CPU, where each of several has a loop; and the file's name where several are of the same ones, because a metric has a label set once.
fn labelled(runs: &[RunFile]) -> Vec<Labelled<'_>> {
    let of_bench = runs.iter().find_map(|run| run.bench.as_ref()?.limit);
    let cells: Vec<Cell> = runs.iter().map(super::cell).collect();
    let has_samples = |run: &&RunFile| run.bench.is_none();
    let is_alone = |cell: &Cell| {
        let others =
            runs.iter().zip(&cells).filter(|(run, other)| has_samples(run) && *other == cell);
        others.count() <= 1
    };
    let one = |(run, cell): (&'_ RunFile, &Cell)| {
        let mut labels = vec![("load", cell.load.clone()), ("tuning", cell.tuning.clone())];
        labels.extend(cell.cpu.map(|cpu| ("cpu", cpu.to_string())));
        if !is_alone(cell) {
            let name = run.path.file_name().unwrap_or_default().to_string_lossy();
            labels.push(("file", name.strip_suffix(RUN_FILE_ENDING).unwrap_or(&name).to_owned()));
        }
        labels
    };
    let all = runs.iter().zip(&cells).map(|(run, cell)| Labelled {
        run,
        labels: one((run, cell)),
        limit: run.header.limit.or(of_bench).filter(|_| has_samples(&run)),
    });
    all.collect()
}

fn histograms(runs: &[Labelled<'_>], series: Series) -> Family {
    let points = runs.iter().filter(|of| !of.run.is_figures_only(series)).filter_map(|labelled| {
        let run = labelled.run;
        let samples = run.distribution(series);
        let (first, last) = (*samples.buckets().first()?, *samples.buckets().last()?);
        let moments = run.moments(series);
        let is_exact = moments.n == samples.count();
        let range_ns = if is_exact {
            (moments.min_ns, moments.max_ns)
        } else {
            (first.low_ns, last.high_ns())
        };
        let limit = labelled.limit.filter(|limit| limit.on == series);
        let bounds_ns = bounds(limit.map(|limit| limit.limit_ns));
        let sum_s =
            if is_exact { moments.mean_ns * moments.n as f64 / 1e9 } else { of_middles(&samples) };
        let histogram = TimeHistogram { samples, sum_s, range_ns, bounds_ns };
        Some(labelled.point(&[], PointValue::Histogram(histogram)))
    });
    let points = points.collect();
    let (stem, help) = (series.tag().to_owned(), capital(series.words()));
    Family { stem, help, kind: FamilyKind::Histogram, points }
}

type Figure = fn(&Moments) -> PointValue;
const FIGURES: [(&str, &str, Figure); 4] = [
    ("samples", "Samples", |of| PointValue::Count(of.n)),
    ("min", "Smallest", |of| PointValue::Time(of.min_ns)),
    ("mean", "Mean", |of| PointValue::Time(of.mean_ns.max(0.0).round() as u64)),
    ("max", "Largest", |of| PointValue::Time(of.max_ns)),
];

/// What is known of a series without a distribution.
fn figures(runs: &[Labelled<'_>], series: Series) -> impl Iterator<Item = Family> {
    FIGURES.into_iter().map(move |(name, words, figure)| {
        let only = runs.iter().filter(|of| of.run.is_figures_only(series));
        let points = only.map(|of| of.point(&[], figure(&of.run.moments(series)))).collect();
        Family {
            stem: format!("{}_{name}", series.tag()),
            help: format!("{words} of {}", series.words()),
            kind: FamilyKind::Gauge,
            points,
        }
    })
}

/// The sum where the run has no exact mean: of the buckets' middles, in seconds.
fn of_middles(samples: &Distribution) -> f64 {
    samples.buckets().iter().map(|bucket| bucket.middle_ns() * bucket.count as f64).sum::<f64>()
        / 1e9
}

/// The bounds of all exports, and the limit.
fn bounds(limit_ns: Option<u64>) -> Vec<u64> {
    let mut bounds = BOUNDS_NS.to_vec();
    if let Some(limit_ns) = limit_ns
        && let Err(place) = bounds.binary_search(&limit_ns)
    {
        bounds.insert(place, limit_ns);
    }
    bounds
}

/// The limit that each run is judged by.
fn limits(runs: &[Labelled<'_>]) -> Family {
    let points = runs.iter().filter_map(|run| {
        let limit = run.limit?;
        let more = [("series", limit.on.tag().to_owned()), ("at", limit.at.to_string())];
        Some(run.point(&more, PointValue::Time(limit.limit_ns)))
    });
    Family {
        stem: "limit".to_owned(),
        help: "Latency limit that the run is judged by".to_owned(),
        kind: FamilyKind::Gauge,
        points: points.collect(),
    }
}

type Count = fn(&Interval) -> u64;
const COUNTERS: [(&str, &str, Count); 4] = [
    ("deadline_misses", "Cycles that ended after their deadline", |of| of.deadline_misses),
    ("skipped_releases", "Releases passed over after an overrun", |of| of.skipped),
    ("lost_samples", "Samples dropped because the ring between loop and recorder was full", |of| {
        of.lost
    }),
    ("spikes", "Samples beyond the spike limit", |of| of.spikes),
];

/// What the loop counted, of runs that onbeat measured itself.
fn counters(runs: &[Labelled<'_>]) -> impl Iterator<Item = Family> {
    COUNTERS.into_iter().map(|(stem, help, count)| {
        let own = runs.iter().filter(|of| of.run.import.is_none() && of.run.bench.is_none());
        let in_all = |of: &Labelled<'_>| of.run.intervals.iter().map(count).sum::<u64>();
        let points = own.map(|of| of.point(&[], PointValue::Count(in_all(of)))).collect();
        Family { stem: stem.to_owned(), help: help.to_owned(), kind: FamilyKind::Counter, points }
    })
}

/// Spikes by the cause that accounts for most of each. The labels are words of the vocabulary, so that their
/// number is bounded.
fn causes(runs: &[Labelled<'_>]) -> Family {
    let mut points = Vec::new();
    for of in runs {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for cause in of.run.spikes.iter().filter_map(|spike| spike.causes.first()) {
            *counts.entry(cause.kind.words()).or_default() += 1;
        }
        points.extend(counts.into_iter().map(|(cause, count)| {
            of.point(&[("cause", cause.to_owned())], PointValue::Count(count))
        }));
    }
    Family {
        stem: "explained_spikes".to_owned(),
        help: "Spikes whose record was kept, by the cause that accounts for most of each"
            .to_owned(),
        kind: FamilyKind::Counter,
        points,
    }
}

fn state(in_progress: bool) -> Family {
    let value = PointValue::Count(u64::from(in_progress));
    Family {
        stem: "run_in_progress".to_owned(),
        help: "Whether the run is being measured".to_owned(),
        kind: FamilyKind::Gauge,
        points: vec![Point { labels: Vec::new(), value }],
    }
}
