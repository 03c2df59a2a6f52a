//! Why a segment cannot run.

use std::io;
use std::path::PathBuf;

/// Why a segment cannot run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SegmentFailure {
    #[error("--device chooses among the devices of an ESI file (.xml), which {path} is not")]
    NoEsi { path: PathBuf },
    #[error(
        "the segment is a ring; name the interface at its far end by --second, or create both by --veth"
    )]
    NoSecond,
    #[error(
        "the segment is not a ring and has no far end; leave --second out, or set `ring = true` in its file"
    )]
    NoRing,
    #[error("\"{name}\" is too long for a pair of interfaces; use at most {most} letters")]
    LongName { name: String, most: usize },
    #[error("cannot run `{line}`: {source}. It is part of iproute2; --interface does not need it")]
    Program { line: String, source: io::Error },
    #[error("`{line}` failed: {why}")]
    ProgramSays { line: String, why: String },
}
