//! Errors of rings.

use std::io;
use std::path::PathBuf;

/// A ring could not be created, opened or read. `channel` is `NAME/TOPIC`.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// A name that cannot be part of the name of a shared memory object.
    #[error(
        "\"{given}\" is not a valid name of a channel; write NAME/TOPIC, each with 1 to {most} letters, digits, - and _"
    )]
    BadName {
        /// The given name.
        given: String,
        /// Maximum number of letters of each part.
        most: usize,
    },
    /// The kernel refused an operation on the object.
    #[error("cannot {what} {path}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// The object.
        path: PathBuf,
        /// The kernel's answer.
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
    /// The object is not a complete ring.
    #[error("{path} is not a ring of onbeat: {why}")]
    NotARing {
        /// The object.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
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
        "a ring of {records} records of {bytes} bytes cannot be created; records are a power of two from 2 to {most}"
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
