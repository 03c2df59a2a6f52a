//! What a file of a format may leave open.

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

/// A number in units, as whole nanoseconds, rounded to the nearest; `None` when it is below 0 or
/// beyond 10,000 hours.
pub(crate) fn to_ns(value: f64, unit_ns: f64) -> Option<u64> {
    let ns = (value * unit_ns).round();
    (0.0..=3.6e16).contains(&ns).then_some(ns as u64)
}
