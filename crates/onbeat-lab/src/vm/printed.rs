//! What `onbeat measure --json` and `onbeat bench --json` print, as far as a laboratory reads it. The rest is in the run files.

use std::collections::BTreeMap;

use onbeat::record::Series;
use onbeat::thread::Grant;
use onbeat_figures::Statistics;
use serde::Deserialize;

/// A run as printed.
#[derive(Clone, Debug, Deserialize)]
pub struct PrintedRun {
    /// Its cells; one, unless it is a bench.
    pub cells: Vec<PrintedCell>,
    /// The privileges requested, and which were granted.
    pub ladder: Vec<Grant>,
}

/// A cell as printed.
#[derive(Clone, Debug, Deserialize)]
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
