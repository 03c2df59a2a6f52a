//! The origin of a run that another tool recorded.

use std::collections::BTreeMap;

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
}

impl Import {
    /// Samples of a series that lie beyond the source's histogram.
    #[must_use]
    pub fn beyond(&self, series: Series) -> Option<super::resolution::Beyond> {
        self.resolution.get(&series)?.beyond.filter(|beyond| beyond.count > 0)
    }
}
