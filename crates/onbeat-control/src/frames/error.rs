//! Errors of rings of frames.

use std::path::PathBuf;

use onbeat_host::runtime_dir::RuntimeDirError;

use super::format::{FrameFormat, MOST_SIDE, MOST_SLOTS};
use crate::ring_error::RingError;
use crate::ring_file::MOST_BYTES;

/// A ring of frames could not be created, opened or read. `name` is that of the camera.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// A name that cannot be part of the name of a file.
    #[error(
        "\"{name}\" is not a valid name of a camera; use 1 to 64 letters, digits, -, _ and ., not beginning with a ."
    )]
    BadName {
        /// The given name.
        name: String,
    },
    /// The directory of shared objects cannot be used.
    #[error(transparent)]
    Directory(#[from] RuntimeDirError),
    /// The kernel refused an operation on the file, or its content is not trusted.
    #[error(transparent)]
    File(#[from] RingError),
    /// Pictures of this size cannot be kept.
    #[error(
        "{slots} pictures of {} x {} x {} cannot be kept: a side has 1 to {MOST_SIDE} pixels, a ring 4 to {MOST_SLOTS} pictures and at most {} MiB",
        .format.width, .format.height, .format.channels, MOST_BYTES >> 20
    )]
    BadFormat {
        /// The format.
        format: FrameFormat,
        /// Number of pictures.
        slots: u64,
    },
    /// The directory has no room for the ring.
    #[error(
        "{} has {} MiB free, and the pictures of this camera need {} MiB; make room there, or name another directory in ONBEAT_RUNTIME_DIR",
        .path.display(), .free >> 20, .needed >> 20
    )]
    NoRoom {
        /// The directory.
        path: PathBuf,
        /// Bytes that are free.
        free: u64,
        /// Bytes of the ring.
        needed: u64,
    },
    /// A living process writes the pictures of this name.
    #[error("process {pid} ({process}) is camera {name}; end it, or use another name")]
    Taken {
        /// The camera.
        name: String,
        /// Id of the writer; 0 if unknown.
        pid: u32,
        /// Name of the process.
        process: String,
    },
    /// No such camera.
    #[error("camera {name} is not running; start it with: onbeat camera run SOURCE --name {name}")]
    NoCamera {
        /// The camera.
        name: String,
    },
    /// The file is not a ring of frames.
    #[error("{} does not hold the pictures of a camera: {why}", .path.display())]
    NotFrames {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The file has less memory than its header states: it is sparse, or was truncated.
    #[error("{} is not complete: its header states {bytes} bytes, and {held} are allocated", .path.display())]
    Incomplete {
        /// The file.
        path: PathBuf,
        /// Bytes that the header states.
        bytes: u64,
        /// Bytes with memory.
        held: u64,
    },
    /// The writer did not complete the ring in time, or was killed meanwhile.
    #[error("camera {name} is starting; open it again in a moment")]
    Unfinished {
        /// The camera.
        name: String,
    },
    /// The ring was created by another version of onbeat.
    #[error(
        "the pictures of camera {name} have version {theirs}, this program reads version {ours}; use programs of the same release"
    )]
    OtherVersion {
        /// The camera.
        name: String,
        /// Version of the ring.
        theirs: u64,
        /// Version read here.
        ours: u64,
    },
    /// The writer has ended in order.
    #[error("camera {name} has ended")]
    Ended {
        /// The camera.
        name: String,
    },
    /// The camera has begun a new ring: another size, or another start.
    #[error(
        "camera {name} continues with pictures of another size or after a new start; open it again"
    )]
    Replaced {
        /// The camera.
        name: String,
    },
    /// The writer was killed.
    #[error("camera {name}, process {pid}, is gone; start it again")]
    WriterDied {
        /// The camera.
        name: String,
        /// Its process id.
        pid: u32,
    },
    /// The file was truncated while the ring was in use.
    #[error(
        "the pictures of camera {name} were truncated, and none can be read; start the camera again"
    )]
    Truncated {
        /// The camera.
        name: String,
    },
}
