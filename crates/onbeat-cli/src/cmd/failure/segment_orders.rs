//! Why a running segment cannot be commanded.

use std::io;
use std::path::PathBuf;

/// Why a running segment cannot be commanded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SegmentOrderFailure {
    #[error("no segment is running{on}; `onbeat segment run` starts one (looked for in {place})")]
    NoSegment { on: String, place: PathBuf },
    #[error("several segments are running, on {0}; choose one by --on")]
    SeveralSegments(String),
    #[error("cannot reach the segment on {on}: {source}")]
    NotAsked { on: String, source: io::Error },
    #[error("{0}")]
    Refused(String),
}
