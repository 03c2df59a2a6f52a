//! Why messages cannot be read or types not be used.

use std::path::PathBuf;

use onbeat_message::MessageError;

/// Why messages cannot be read or types not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MessageFailure {
    #[error("{channel}: {source}")]
    Type { channel: String, source: MessageError },
    #[error("{type_name} has no field \"{field}\"; it has {fields}")]
    NoField { type_name: String, field: String, fields: String },
    #[error(
        "{path} is not a definition of a message: PACKAGE/msg/Name.msg of ROS 2, or a file that ends in .lcm or .idl"
    )]
    FileName { path: PathBuf },
    #[error("{path} is not a definition of LCM, whose files end in .lcm; without one, CDR is sent")]
    NotLcm { path: PathBuf },
    #[error(
        "--remote renames one channel, but {channels} are given; play each with a separate command"
    )]
    ManyRemotes { channels: usize },
    #[error(
        "a message of {bytes} bytes, and {channel} takes at most {most}; --most-bytes N takes more"
    )]
    TooLong { channel: String, bytes: usize, most: u32 },
    #[error("line {line} is longer than {} MiB", most >> 20)]
    LongLine { line: u64, most: u64 },
    #[error("line {line} is not JSON: {source}")]
    NotJson { line: u64, source: serde_json::Error },
    #[error("line {line}: {source}")]
    Line { line: u64, source: MessageError },
    #[error("cannot read standard input: {0}")]
    Input(std::io::Error),
}
