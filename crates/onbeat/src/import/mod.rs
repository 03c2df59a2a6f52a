//! Files of other tools become run files, so that the same report, comparison and gate serve them.
//!
//! A format is detected from its content ([`Format::detect`]); [`read`] takes the file apart into
//! streams (a thread, a CPU, a tag), and [`write`](fn@write) puts each into a run file of its own.
//!
//! | file | format |
//! |---|---|
//! | [`rt_tests`] | JSON of cyclictest and oslat |
//! | [`cyclictest`] | cyclictest's histogram text (`-h`, `-H`, `--histfile`) |
//! | [`rtla`] | text of `rtla timerlat hist` and `rtla osnoise hist` |
//! | [`stress_ng`] | the log of `stress-ng --cyclic --cyclic-dist` |
//! | [`hlog`], [`payload`] | HdrHistogram interval logs, jHiccup's among them, of all versions |
//! | [`hgrm`] | HdrHistogram's percentile text |
//! | [`csv`] | one value per line, with or without its time |
//! | [`stream`] | what all of them become, and its run file |
//!
//! A histogram does not record when its samples were taken, nor in which order, nor how long those
//! were that lie beyond its end. Nothing of this is made up: the run file keeps the source's cells
//! ([`crate::record::Resolution`]) and says in sentences what is missing
//! ([`crate::record::Import`]).
//!
//! ```
//! use std::io::Cursor;
//!
//! use onbeat::import::{self, Format, SourceOptions};
//!
//! let text = "time_s,latency_us\n0.1,20\n0.2,35\n";
//! assert_eq!(Format::detect(text), Some(Format::Csv));
//!
//! let streams = import::read(&mut Cursor::new(text), &SourceOptions::default())?;
//! assert_eq!(streams[0].parts.iter().map(|part| part.samples()).sum::<u64>(), 2);
//! # Ok::<(), import::Error>(())
//! ```
//!
//! Absent on purpose: files and names of files (the command line's), and any figure that the source
//! does not have.

pub mod csv;
pub mod cyclictest;
pub mod date;
pub mod hgrm;
pub mod hlog;
pub mod payload;
pub mod rt_tests;
pub mod rtla;
pub mod stream;
pub mod stress_ng;

use std::io::{self, BufRead, Read, Seek, SeekFrom};

use crate::record::Series;

pub use stream::{Stream, StreamPart, TrendSteps, write};

/// Formats that are read whole are not read beyond this many bytes.
const LARGEST: u64 = 64 * 1024 * 1024;
/// How much of a file shows what it is.
const SHOWN: u64 = 64 * 1024;

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

    /// The format of a file by its beginning; `None` when it looks like none of them.
    #[must_use]
    pub fn detect(beginning: &str) -> Option<Self> {
        let has = |text: &str| beginning.contains(text);
        let first = || {
            beginning.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))
        };
        if beginning.trim_start().starts_with('{') {
            let of_oslat =
                has("\"freq\"") || has("\"cmdline:\": \"oslat") || has("\"cmdline\": \"oslat");
            return Some(if of_oslat { Self::OslatJson } else { Self::CyclictestJson });
        }

        if has("#[Histogram log format")
            || has("\"StartTimestamp\"")
            || first().is_some_and(hlog::is_interval_line)
        {
            return Some(Self::Hlog);
        }
        if has("RTLA timerlat histogram") || has("RTLA osnoise histogram") {
            return Some(Self::Rtla);
        }
        if has("stress-ng: ") || has("stress-ng-version") {
            return Some(Self::StressNg);
        }

        if has("1/(1-Percentile)") {
            return Some(Self::Hgrm);
        }
        if has("# Histogram") || has("# Min Latencies:") {
            return Some(Self::Cyclictest);
        }

        first().is_some_and(csv::is_samples).then_some(Self::Csv)
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

/// A file cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// Its content fits no format.
    #[error(
        "line {line} is `{begins}`, which fits no known format; name it with --from: {}",
        words()
    )]
    Unknown {
        /// The first line that is not a comment, from 1.
        line: usize,
        /// What it begins with.
        begins: String,
    },
    /// It is a run file.
    #[error("it is an onbeat run file already; report, compare, gate and export take it as it is")]
    RunFile,
    /// A line is not valid.
    #[error("read as {}, line {line}: {reason}", format.word())]
    Line {
        /// The format it was read as.
        format: Format,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// It holds no histogram.
    #[error("read as {}, {lines} lines hold no histogram: {advice}", format.word())]
    NoHistogram {
        /// The format it was read as.
        format: Format,
        /// How many lines it has.
        lines: usize,
        /// How to get one.
        advice: &'static str,
    },
    /// Its values have no unit.
    #[error("read as {}, line {line}: the values have no unit; name it with --unit ns, us, ms or s", format.word())]
    NoUnit {
        /// The format it was read as.
        format: Format,
        /// The first line with a value, from 1.
        line: usize,
    },
    /// It is too long to be read whole.
    #[error("it is longer than {} MiB, the limit for {} files", LARGEST / 1024 / 1024, format.word())]
    TooLong {
        /// The format it was to be read as.
        format: Format,
    },
}

fn words() -> String {
    Format::ALL.map(Format::word).join(", ")
}

impl Error {
    pub(crate) fn line(format: Format, line: usize, reason: impl Into<String>) -> Self {
        Self::Line { format, line, reason: reason.into() }
    }
}

/// Reads a file into its streams.
///
/// Memory is bounded by the number of different values and of intervals kept (about 300), not by
/// the file's length, for the formats that may be long (`hlog`, `csv`); the others are read whole,
/// up to 64 MiB.
///
/// # Errors
/// [`Error`], with the line where there is one.
pub fn read(file: &mut (impl BufRead + Seek), asked: &SourceOptions) -> Result<Vec<Stream>, Error> {
    let mut beginning = Vec::new();
    file.by_ref().take(SHOWN).read_to_end(&mut beginning)?;
    file.seek(SeekFrom::Start(0))?;
    let beginning = String::from_utf8_lossy(&beginning);
    if beginning.contains("#[onbeat: {\"run\"") {
        return Err(Error::RunFile);
    }

    let format =
        asked.format.or_else(|| Format::detect(&beginning)).ok_or_else(|| unknown(&beginning))?;
    let mut streams = match format {
        Format::Hlog => hlog::read(file, asked)?,
        Format::Csv => csv::read(file, asked)?,
        Format::CyclictestJson => rt_tests::cyclictest(&whole(file, format)?, asked)?,
        Format::OslatJson => rt_tests::oslat(&whole(file, format)?)?,
        Format::Cyclictest => cyclictest::read(&whole(file, format)?, asked)?,
        Format::Rtla => rtla::read(&whole(file, format)?)?,
        Format::StressNg => stress_ng::read(&whole(file, format)?)?,
        Format::Hgrm => hgrm::read(&whole(file, format)?, asked)?,
    };

    for stream in &mut streams {
        stream.format = Some(format);
        stream.period_ns = asked.period_ns.or(stream.period_ns);
    }

    Ok(streams)
}

fn unknown(beginning: &str) -> Error {
    let first_line = beginning
        .lines()
        .zip(1..)
        .find(|(line, _)| !line.trim().is_empty() && !line.starts_with('#'));
    let (begins, line) = first_line.unwrap_or(("", 1));
    Error::Unknown { line, begins: begins.chars().filter(|c| !c.is_control()).take(40).collect() }
}

fn whole(file: &mut impl BufRead, format: Format) -> Result<String, Error> {
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(Error::TooLong { format });
    }

    String::from_utf8(bytes).map_err(|why| {
        let good = why.utf8_error().valid_up_to();
        let line = why.as_bytes()[..good].iter().filter(|&&byte| byte == b'\n').count() + 1;
        Error::line(format, line, "not UTF-8 text")
    })
}

/// A number in units, as whole nanoseconds, rounded to the nearest; `None` when it is below 0 or
/// beyond 10,000 hours.
pub(crate) fn to_ns(value: f64, unit_ns: f64) -> Option<u64> {
    let ns = (value * unit_ns).round();
    (0.0..=3.6e16).contains(&ns).then_some(ns as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_detected_from_their_content() {
        let cases = [
            ("{\n  \"cmdline:\": \"cyclictest -D 2\",", Some(Format::CyclictestJson)),
            ("{ \"cmdline:\": \"oslat -D 2\" }", Some(Format::OslatJson)),
            (
                "# /dev/cpu_dma_latency set to 0us\n# Histogram\n000000 000001",
                Some(Format::Cyclictest),
            ),
            ("# RTLA timerlat histogram\nIndex IRQ-000", Some(Format::Rtla)),
            ("stress-ng: info:  [1] cyclic: sched", Some(Format::StressNg)),
            ("#[Histogram log format version 1.2]\n", Some(Format::Hlog)),
            ("0.127,1.007,2.769,HISTFAAAAEV42pNp\n", Some(Format::Hlog)),
            ("       Value     Percentile TotalCount 1/(1-Percentile)\n", Some(Format::Hgrm)),
            ("time_s,latency_us\n0.1,20\n", Some(Format::Csv)),
            ("17\n18\n", Some(Format::Csv)),
            ("Dear reader, this is a letter.\n", None),
        ];
        for (text, format) in cases {
            assert_eq!(Format::detect(text), format, "{text}");
        }
    }
}
