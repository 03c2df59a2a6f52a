//! Why a file is not imported.

use std::io;

use super::format::Format;

/// Formats that are read whole are not read beyond this many bytes.
pub(super) const LARGEST: u64 = 64 * 1024 * 1024;

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
