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
    #[error("it is already an onbeat run file; report, compare, gate and export read it directly")]
    RunFile,
    /// A line is not valid.
    #[error("read as {}, line {line}: {reason}", format.word())]
    Line {
        /// The format it was read as.
        format: Format,
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A line is longer than text has lines.
    #[error("line {line} is longer than {most_mib} MiB, so it is not text")]
    NoText {
        line: usize,
        /// The limit, in MiB.
        most_mib: u64,
    },
    /// It holds no histogram.
    #[error("read as {}, no histogram in {}: {advice}", format.word(), counted(*lines as u64, "lines"))]
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
    /// A line is damaged, and others before it can be read.
    #[error(
        "read as {}, line {line}: {reason}; {} before it can be read; \
         `onbeat import --skip-damaged` imports all but the damaged lines and counts those",
        format.word(),
        counted(*before, what)
    )]
    Damaged {
        /// The format it was read as.
        format: Format,
        line: usize,
        /// What is wrong with it.
        reason: String,
        /// How much was read before it.
        before: u64,
        /// Of what, in the plural.
        what: &'static str,
    },
    /// It holds nothing that can be imported, for a reason.
    #[error("read as {}: {reason}", format.word())]
    Nothing {
        /// The format it was read as.
        format: Format,
        /// Why, and what to do.
        reason: String,
    },
    /// It is compressed in a way that is not read.
    #[error("it is compressed by {by}: unpack it first with `{command}`; gzip is read as it is")]
    Packed {
        /// The program.
        by: &'static str,
        /// The command that unpacks it.
        command: &'static str,
    },
    /// It is of a kind that is not imported.
    #[error("it is {what}: {advice}")]
    OtherKind {
        /// The kind.
        what: &'static str,
        /// What reads it, or what to import instead.
        advice: &'static str,
    },
    /// It is what a tool prints that holds no latency of single wake-ups, or less of it than another output.
    #[error("it is what {by} prints: {advice}")]
    OtherOutput {
        /// The tool.
        by: &'static str,
        /// What to import instead, or why nothing is.
        advice: &'static str,
    },
    /// It is damaged gzip.
    #[error("it is gzip that cannot be unpacked: damaged or cut off; `gzip -t` tests it")]
    Inflate,
    /// It is too long once it is unpacked.
    #[error(
        "unpacked or converted it is longer than {} MiB, the limit for gzip and UTF-16: unpack it first",
        LARGEST / 1024 / 1024
    )]
    TooLongUnpacked,
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

/// `1 sample`, `12 samples`.
pub(super) fn counted(n: u64, what: &str) -> String {
    let what = if n == 1 { what.trim_end_matches('s') } else { what };
    format!("{n} {what}")
}

impl Error {
    pub(crate) fn line(format: Format, line: usize, reason: impl Into<String>) -> Self {
        Self::Line { format, line, reason: reason.into() }
    }

    /// Where figures of another run begin: they would replace or join those of the first.
    pub(super) fn second_run(format: Format, line: usize) -> Self {
        let reason = "figures of a second run; import each run from a file of its own";
        Self::line(format, line, reason)
    }

    pub(super) fn nothing(format: Format, reason: impl Into<String>) -> Self {
        Self::Nothing { format, reason: reason.into() }
    }
}
