//! What a file of a format may leave open.

use super::error::Error;
pub use super::vocabulary::Format;
use crate::Series;

/// The options of an import.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceOptions {
    /// The format, when its content is not to decide.
    pub format: Option<Format>,
    /// Nanoseconds per unit of the values, where the file does not say.
    pub unit_ns: Option<f64>,
    /// What the values are, where the file does not say.
    pub series: Option<Series>,
    /// The loop's period, where the file does not say.
    pub period_ns: Option<u64>,
    /// The column of values in a CSV file: its name, or its number from 1.
    pub column: Option<String>,
    /// Whether damaged lines are passed over and counted, where a format's lines stand for
    /// themselves; otherwise the first one is an error.
    pub skip_damaged: bool,
}

impl SourceOptions {
    /// Whole nanoseconds per unit, `usual_ns` where none is asked for; an error at a line where a
    /// unit is below one.
    pub(super) fn whole_unit_ns(
        &self,
        usual_ns: f64,
        (format, line): (Format, usize),
    ) -> Result<u64, Error> {
        to_ns(1.0, self.unit_ns.unwrap_or(usual_ns))
            .filter(|unit_ns| *unit_ns > 0)
            .ok_or_else(|| Error::line(format, line, "a unit below a nanosecond"))
    }
}

/// No figure is longer, and what is longer is counted as that: 2,500 hours, which a run file can hold.
// Figures of other tools are text that anybody may write. Beyond a year, sums of squares and times
// in the file would overflow.
pub(super) const FARTHEST_NS: u64 = 9_000_000_000_000_000;

/// A number in units, as whole nanoseconds, rounded to the nearest; `None` when it is below 0 or
/// beyond 2,500 hours.
pub(crate) fn to_ns(value: f64, unit_ns: f64) -> Option<u64> {
    let ns = (value * unit_ns).round();
    (0.0..=FARTHEST_NS as f64).contains(&ns).then_some(ns as u64)
}
