//! The summary that a measurement in a guest prints: that of `onbeat measure --json` and `onbeat bench --json`, as far as a laboratory
//! reads it. The rest is in the run files.

use std::collections::BTreeMap;

use onbeat::record::{RunFile, Series};
use onbeat::thread::Grant;
use onbeat_figures::Statistics;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PrintedRun {
    /// Its cells; one, unless it is a bench.
    pub cells: Vec<PrintedCell>,
    /// The privileges requested, and which were granted.
    pub ladder: Vec<Grant>,
}

impl PrintedRun {
    /// The summary of a measurement, from its run file.
    #[must_use]
    pub fn from_run_file(run: &RunFile) -> Self {
        let figures = |series| {
            let found = Statistics::new(&run.distribution(series), &run.moments(series));
            found.map(|found| (series, found))
        };
        let cell = PrintedCell {
            tuning: run.header.tuning(),
            load: run.blocks.first().map(|block| block.load.clone()).unwrap_or_default(),
            skipped: Some(run.account().skipped),
            overruns: Some(run.intervals.iter().map(|interval| interval.overruns).sum()),
            about: run.header.series.clone(),
            series: Series::ALL.into_iter().filter_map(figures).collect(),
        };
        Self { cells: vec![cell], ladder: run.header.grants.clone() }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PrintedCell {
    /// The tuning, such as `PM`.
    pub tuning: String,
    /// The load, such as `idle`.
    pub load: String,
    /// Releases passed over; unknown for imported runs.
    pub skipped: Option<u64>,
    /// Cycles that ended after the next release; unknown for imported runs.
    pub overruns: Option<u64>,
    /// The series that the measurement is about, the main one first.
    #[serde(default)]
    pub about: Vec<Series>,
    /// Figures of each series.
    pub series: BTreeMap<Series, Statistics>,
}

impl PrintedCell {
    /// The figures of the main series.
    #[must_use]
    pub fn main(&self) -> Option<&Statistics> {
        let named = self.about.first().and_then(|about| self.series.get(about));
        named.or_else(|| self.series.values().next())
    }
}
