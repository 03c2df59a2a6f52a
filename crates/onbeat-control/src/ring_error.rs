//! Errors of rings.

use std::io;
use std::path::PathBuf;

use onbeat_host::runtime_dir::RuntimeDirError;

/// A ring could not be created, opened or read. `channel` is `NAME/TOPIC`.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// A name that cannot be part of the name of a file.
    #[error(
        "\"{given}\" is not a valid name of a channel; write NAME/TOPIC, each with 1 to {most} letters, digits, -, _ and ."
    )]
    BadName {
        /// The given name.
        given: String,
        /// Maximum number of letters of each part.
        most: usize,
    },
    /// The directory of rings cannot be used.
    #[error(transparent)]
    Directory(#[from] RuntimeDirError),
    /// The kernel refused an operation on the file, or its content is not trusted.
    #[error("cannot {what} {}: {source}", .path.display())]
    System {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A living process writes this channel.
    #[error("process {pid} ({process}) writes {channel}; end it, or use another name")]
    Taken {
        /// The channel.
        channel: String,
        /// Id of the writer; 0 if unknown.
        pid: u32,
        /// Name of the process.
        process: String,
    },
    /// No such channel.
    #[error("channel {channel} does not exist; `onbeat message list` lists the channels")]
    NoChannel {
        /// The channel.
        channel: String,
    },
    /// The file is not a ring.
    #[error("{} is not a ring of onbeat: {why}", .path.display())]
    NotARing {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The file has less memory than its header states: it is sparse, or was truncated.
    #[error(
        "{} is not a complete ring: its header states {bytes} bytes, and {held} are allocated", .path.display()
    )]
    Incomplete {
        /// The file.
        path: PathBuf,
        /// Bytes that the header states.
        bytes: u64,
        /// Bytes with memory.
        held: u64,
    },
    /// The file was truncated while the ring was in use.
    #[error(
        "the ring of {channel} was truncated: {held} of its {bytes} bytes are left, and no record can be read; start its writer again"
    )]
    Truncated {
        /// The channel.
        channel: String,
        /// Bytes of the ring.
        bytes: u64,
        /// Bytes with memory.
        held: u64,
    },
    /// The writer did not complete the ring in time, or was killed meanwhile.
    #[error(
        "the ring of {channel} is not complete; open it again in a moment, or start its writer again"
    )]
    Unfinished {
        /// The channel.
        channel: String,
    },
    /// The ring was created by another version of onbeat.
    #[error(
        "the ring of {channel} has version {theirs}, this program reads version {ours}; use programs of the same release"
    )]
    OtherVersion {
        /// The channel.
        channel: String,
        /// Version of the ring.
        theirs: u64,
        /// Version read here.
        ours: u64,
    },
    /// A ring with these settings cannot exist.
    #[error(
        "a ring of {records} records of {bytes} bytes cannot be created; records are a power of two from 2 to {most}, and a ring has at most {} MiB", super::ring_file::MOST_BYTES >> 20
    )]
    BadSize {
        /// Number of records.
        records: usize,
        /// Bytes of a record.
        bytes: usize,
        /// Maximum number of records.
        most: usize,
    },
    /// The writer has ended in order.
    #[error("the writer of {channel} has ended")]
    Ended {
        /// The channel.
        channel: String,
    },
    /// Another writer uses the channel's name now.
    #[error("the writer of {channel} was replaced by another one; open the channel again")]
    Replaced {
        /// The channel.
        channel: String,
    },
    /// The writer was killed.
    #[error("the writer of {channel}, process {pid}, is gone; start it again")]
    WriterDied {
        /// The channel.
        channel: String,
        /// Its process id.
        pid: u32,
    },
}
