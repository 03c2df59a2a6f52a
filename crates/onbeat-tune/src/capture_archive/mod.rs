//! A machine's files in an archive: how it is written, and read into memory.
//!
//! | file | contents |
//! |---|---|
//! | `accesses` | what a recording [`HostTree`](crate::catalogue::HostTree) was asked for, and what it answered |
//! | `archive` | the tar archive and its `capture.json`: [`CaptureManifest`] |
//! | `files` | an archive in memory, as a [`HostTree`](crate::catalogue::HostTree) reads it |

pub(crate) mod accesses;
pub(crate) mod archive;
mod files;

use std::io;

pub(crate) use accesses::{AccessFailure, Accesses};
pub use archive::CaptureManifest;
pub(crate) use files::CapturedFiles;

/// Why a capture could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The archive cannot be written, or cannot be read as a tar archive.
    #[error("the capture cannot be read or written: {0}")]
    Archive(#[from] io::Error),
    /// An entry that no capture has.
    #[error(
        "the entry {path} of the capture is {problem}. Captures hold regular files and directories below /"
    )]
    Entry {
        /// The entry's path as in the archive.
        path: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The archive is larger than any capture.
    #[error("the capture has more than {most} {what}; a machine with 1,024 CPUs has fewer")]
    TooLarge {
        /// The limit.
        most: u64,
        /// `entries` or `bytes`.
        what: &'static str,
    },
    /// Files of a machine without its `/proc` and `/sys`.
    #[error(
        "neither proc nor sys is at its top, as where a directory is around them. An archive is packed by tar -C DIRECTORY -cf \
         capture.tar ."
    )]
    NoMachine,
    /// Packed by another program.
    #[error("it is packed by {by}, and only gzip is unpacked here; unpack it first")]
    Packed {
        /// Its name.
        by: &'static str,
    },
    /// `capture.json` is not what this version writes.
    #[error("capture.json is not valid: {0}")]
    Manifest(String),
}

/// What a capture holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureSummary {
    /// Files in the archive.
    pub files: usize,
    /// Threads among them.
    pub threads: usize,
    /// Paths that exist and could not be read.
    pub refused: usize,
}

/// Whether an error says that a file does not exist.
#[must_use]
pub fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
