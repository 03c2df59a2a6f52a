//! Figures of a guest's run, and tables of them: of one clock each.

use std::fmt;
use std::marker::PhantomData;

use onbeat::record::{Distribution, Moments};
use onbeat_figures::Statistics;
use onbeat_figures::statistics::Share;

use super::clock::Measures;
use super::printed::PrintedRun;

/// What a run measured for its main series, by clock `C`.
///
/// Figures of different clocks cannot be compared:
///
/// ```compile_fail,E0308
/// use onbeat_lab::vm::{GuestFigures, Real, Virtual};
///
/// fn ratio(by_the_machine: &GuestFigures<Real>, by_counting: &GuestFigures<Virtual>) -> f64 {
///     by_the_machine.max_ratio(by_counting)
/// }
/// ```
///
/// and a guest whose clock runs freely has none:
///
/// ```compile_fail,E0277
/// use onbeat_lab::vm::{GuestFigures, Free};
///
/// fn largest(figures: &GuestFigures<Free>) -> u64 {
///     figures.max_ns
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct GuestFigures<C: Measures> {
    /// Number of samples.
    pub samples: u64,
    /// The smallest sample in nanoseconds.
    pub min_ns: u64,
    /// The mean in nanoseconds.
    pub mean_ns: f64,
    /// The median in nanoseconds; none without samples.
    pub median_ns: Option<u64>,
    /// The 99th percentile in nanoseconds; none when fewer than 10 samples lie beyond it.
    pub p99_ns: Option<u64>,
    /// The largest sample in nanoseconds.
    pub max_ns: u64,
    clock: PhantomData<C>,
}

impl<C: Measures> GuestFigures<C> {
    /// The figures of each cell that has samples, by tuning and load.
    pub(super) fn from_printed(run: &PrintedRun) -> Vec<(String, Self)> {
        let cells = run.cells.iter().filter_map(|cell| {
            let statistics = cell.main()?;
            Some((format!("{}/{}", cell.tuning, cell.load), Self::from_statistics(statistics)))
        });
        cells.collect()
    }

    /// The figures of a series.
    pub(super) fn from_statistics(statistics: &Statistics) -> Self {
        Self {
            samples: statistics.count,
            min_ns: statistics.min_ns,
            mean_ns: statistics.mean_ns,
            median_ns: supported(statistics, Share::P50),
            p99_ns: supported(statistics, Share::P99),
            max_ns: statistics.max_ns,
            clock: PhantomData,
        }
    }

    /// How many times larger the maximum is than that of `other`.
    #[must_use]
    pub fn max_ratio(&self, other: &Self) -> f64 {
        self.max_ns as f64 / other.max_ns.max(1) as f64
    }
}

/// A percentile that has enough samples beyond it.
pub(crate) fn supported(statistics: &Statistics, share: Share) -> Option<u64> {
    statistics.percentile(share).filter(|one| one.supported).map(|one| one.value_ns)
}

/// Figures of several guests under one unit.
///
/// ```
/// use onbeat_lab::vm::{ClockTable, Virtual};
///
/// let table = ClockTable::<Virtual>::default();
/// assert!(table.to_string().contains("virtual us"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ClockTable<C: Measures> {
    rows: Vec<(String, GuestFigures<C>)>,
}

impl<C: Measures> Default for ClockTable<C> {
    fn default() -> Self {
        Self { rows: Vec::new() }
    }
}

impl<C: Measures> ClockTable<C> {
    /// Adds a row.
    pub fn row(&mut self, name: impl Into<String>, figures: GuestFigures<C>) {
        self.rows.push((name.into(), figures));
    }
}

impl<C: Measures> fmt::Display for ClockTable<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width =
            self.rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max(5);
        writeln!(
            f,
            "{:width$}  {:>9}  {:>9}  {:>9}  {:>9}  ({} clock, {})",
            "guest",
            "samples",
            "median",
            "p99",
            "max",
            C::NAME,
            C::UNIT
        )?;
        for (name, figures) in &self.rows {
            let median = in_us(figures.median_ns);
            let p99 = in_us(figures.p99_ns);
            let max = in_us(Some(figures.max_ns));
            writeln!(f, "{name:width$}  {:>9}  {median:>9}  {p99:>9}  {max:>9}", figures.samples)?;
        }

        Ok(())
    }
}

/// The samples of several runs as those of one.
pub(crate) fn merged(runs: &[(Distribution, Moments)]) -> (Distribution, Moments) {
    let moments = runs.iter().fold(Moments::default(), |all, (_, one)| all.merged(*one));
    (Distribution::merged(runs.iter().map(|(counts, _)| counts)), moments)
}

/// Microseconds with one decimal place; a dash without a figure.
pub(crate) fn in_us(ns: Option<u64>) -> String {
    ns.map_or("-".to_owned(), |ns| format!("{:.1}", ns as f64 / 1000.0))
}
