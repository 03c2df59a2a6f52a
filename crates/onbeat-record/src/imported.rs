//! The origin of a run that another tool recorded.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::resolution::Resolution;
use super::series::Series;

/// Where an imported run comes from, how finely it was counted, and what its source does not
/// record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Import {
    /// The format's word, such as `cyclictest-json`.
    pub format: String,
    /// The source's file name, without its directories.
    pub file: String,
    /// Which part of the source: a thread, a CPU, a tag; empty when it has one part only.
    pub stream: String,
    /// The period of the loop that was measured, when the source or its user states it.
    pub period_ns: Option<u64>,
    /// The cells of each series.
    pub resolution: BTreeMap<Series, Resolution>,
    /// What the source does not record, one sentence each.
    pub missing: Vec<String>,
    /// Samples below 0, per series: wake-ups before the release. Histogram lines hold them at the
    /// lowest value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub early: BTreeMap<Series, Early>,
    /// Series of which the source records count, extremes and mean alone: all their samples are in
    /// [`Resolution::beyond`], from the minimum to the maximum, and no spread is known.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub figures_only: BTreeSet<Series>,
    /// Whether the file ends with a closing line, as those of `onbeat.jar` do: without one it was cut
    /// off. Files that `onbeat import` writes are complete without.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_closed_by_a_line: bool,
}

/// Samples below 0 of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Early {
    /// How many; `None` where the source records the smallest value alone.
    pub count: Option<u64>,
    /// How far the earliest is below 0, in nanoseconds.
    pub earliest_ns: u64,
}

impl Import {
    /// Samples of a series that lie beyond the source's histogram.
    #[must_use]
    pub fn beyond(&self, series: Series) -> Option<super::resolution::Beyond> {
        self.resolution.get(&series)?.beyond.filter(|beyond| beyond.count > 0)
    }
}
