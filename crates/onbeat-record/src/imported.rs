//! The origin of a run that another tool recorded.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::resolution::Resolution;
use super::series::Series;

/// The origin of a run that another tool recorded; once, before the first histogram line. A
/// histogram line holds one value per cell of the source, its middle (the largest for `beyond`).
/// Imported files have no closing line (those of `onbeat.jar` do, docs/hiccup.md) and no counts of
/// misses and skipped releases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Import {
    /// The format, such as `cyclictest-json`.
    pub format: String,
    /// The source's file name, without its directories.
    pub file: String,
    /// Part of the source: a thread, a CPU, a tag; empty when it has one part only.
    pub stream: String,
    /// Period of the measured loop, in nanoseconds; `None` where neither the source nor its user
    /// states it.
    pub period_ns: Option<u64>,
    /// Cells of the source's histogram.
    pub resolution: BTreeMap<Series, Resolution>,
    /// What the source does not record, one sentence each.
    pub missing: Vec<String>,
    /// Samples below 0: wake-ups before the release. Histogram lines hold them at the lowest value;
    /// means are signed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub early: BTreeMap<Series, Early>,
    /// Series with count, extremes and mean only: all samples are in `beyond`, `m2` is 0 without
    /// meaning, and there are no percentiles.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub figures_only: BTreeSet<Series>,
    /// Whether the file ends with an `end` note unless it was cut off, as those of `onbeat.jar`,
    /// whose kernel figures are 0 without meaning.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_closed_by_a_line: bool,
}

/// Samples below 0 of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Early {
    /// Number of samples; `None` where the source records only the smallest value.
    pub count: Option<u64>,
    /// Distance of the earliest from 0, in nanoseconds.
    pub earliest_ns: u64,
}

impl Early {
    /// Whether a sample of this series below 0 is a wake-up before its release.
    #[must_use]
    pub const fn is_wakeup(series: Series) -> bool {
        matches!(series, Series::ReleaseLatency | Series::WakeupLatency | Series::InterruptLatency)
    }
}

impl Import {
    /// Samples of a series that lie beyond the source's histogram.
    #[must_use]
    pub fn beyond(&self, series: Series) -> Option<super::resolution::Beyond> {
        self.resolution.get(&series)?.beyond.filter(|beyond| beyond.count > 0)
    }

    /// How many samples below 0 of a series may be farther from it than `limit_ns`, at most; none of
    /// a series whose negative samples are early wake-ups, which are on time.
    #[must_use]
    pub fn beyond_below(&self, series: Series, limit_ns: u64) -> u64 {
        let beyond = self.early.get(&series).filter(|early| early.earliest_ns > limit_ns);
        let beyond = beyond.filter(|_| !Early::is_wakeup(series));
        beyond.map_or(0, |early| early.count.unwrap_or(u64::MAX))
    }
}
