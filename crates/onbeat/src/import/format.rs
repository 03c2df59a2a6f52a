//! The formats, and what a file of one may leave open.

use crate::record::Series;

/// A format that can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `cyclictest --json`, with a histogram (`-h`).
    CyclictestJson,
    /// Histogram text of cyclictest: `-h`, `-H`, `--histfile`.
    Cyclictest,
    /// `oslat --json`.
    OslatJson,
    /// Text of `rtla timerlat hist` and `rtla osnoise hist`.
    Rtla,
    /// The log of `stress-ng --cyclic --cyclic-dist`.
    StressNg,
    /// An HdrHistogram interval log.
    Hlog,
    /// HdrHistogram's percentile text.
    Hgrm,
    /// One value per line, with or without its time.
    Csv,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::CyclictestJson,
        Self::Cyclictest,
        Self::OslatJson,
        Self::Rtla,
        Self::StressNg,
        Self::Hlog,
        Self::Hgrm,
        Self::Csv,
    ];

    /// The name on the command line.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::CyclictestJson => "cyclictest-json",
            Self::Cyclictest => "cyclictest",
            Self::OslatJson => "oslat-json",
            Self::Rtla => "rtla",
            Self::StressNg => "stress-ng",
            Self::Hlog => "hlog",
            Self::Hgrm => "hgrm",
            Self::Csv => "csv",
        }
    }

    /// The program that writes it; the run file's `probe`.
    #[must_use]
    pub const fn tool(self) -> &'static str {
        match self {
            Self::CyclictestJson | Self::Cyclictest => "cyclictest",
            Self::OslatJson => "oslat",
            Self::Rtla => "rtla",
            Self::StressNg => "stress-ng",
            Self::Hlog | Self::Hgrm => "HdrHistogram",
            Self::Csv => "CSV",
        }
    }
}

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
}

/// A number in units, as whole nanoseconds, rounded to the nearest; `None` when it is below 0 or
/// beyond 10,000 hours.
pub(crate) fn to_ns(value: f64, unit_ns: f64) -> Option<u64> {
    let ns = (value * unit_ns).round();
    (0.0..=3.6e16).contains(&ns).then_some(ns as u64)
}
