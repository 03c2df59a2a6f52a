//! What a log received, and what it lost.

use serde::Serialize;

/// Account of one channel of a log. Received and lost records add up to all records of the writer
/// from the first one on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ChannelAccount {
    /// Name of the channel, `NAME/TOPIC`.
    pub channel: String,
    /// Number of records in the log.
    pub received: u64,
    /// Number of records that the ring had overwritten before they were read.
    pub lost: u64,
    /// Number of gaps that these losses make.
    pub gaps: u64,
    /// Why the channel ended, as a sentence; empty when the recording was ended.
    pub end: String,
}

/// Account of a whole log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogAccount {
    /// Account of each channel, in the order of the order.
    pub channels: Vec<ChannelAccount>,
    /// Size of the file, in bytes.
    pub bytes: u64,
}
