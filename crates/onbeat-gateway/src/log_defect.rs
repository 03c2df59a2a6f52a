//! Why the records of a log end before its end, or some are missing.

use std::io;

pub(super) use onbeat_host::foreign::printable;

/// Most channels of a file.
pub(super) const MOST_CHANNELS: usize = 4096;

/// Returns what a file is that is not a log, by its first bytes, to follow a sentence.
pub(super) fn hint_of(first: &[u8]) -> &'static str {
    /// Beginnings, and what has them.
    const KNOWN: [(&[u8], &str); 13] = [
        (b"\x1f\x8b", "; it is compressed by gzip: unpack it with gunzip"),
        (b"BZh", "; it is compressed by bzip2: unpack it with bunzip2"),
        (b"\xfd7zXZ", "; it is compressed by xz: unpack it with unxz"),
        (b"\x04\x22\x4d\x18", "; it is compressed by LZ4: unpack it with lz4 -d"),
        (b"PK\x03\x04", "; it is a ZIP archive: unpack it with unzip"),
        (b"ULog\x01\x12\x35", "; it is a ULog of PX4, which is not read"),
        (b"\x89MCAP0\n", "; it is an MCAP file whose line ends were changed: copy it as binary"),
        (
            b"#ROSBAG",
            "; it is a bag of ROS 1 before version 2.0: `rosbag filter IN OUT True` updates it",
        ),
        (b"rosbag2_", "; it is the metadata of a bag of ROS 2: give its folder"),
        (b"\x89HDF\r\n\x1a\n", "; it is an HDF5 file, as eCAL records, which is not read"),
        (b"version ", "; perhaps it is a pointer of Git LFS: `git lfs pull` fetches the log"),
        (b"<!DOCTYP", "; it is a page of the web, perhaps of a download that failed"),
        (b"<!doctyp", "; it is a page of the web, perhaps of a download that failed"),
    ];
    if first.is_empty() {
        return "; it is empty";
    }
    KNOWN.iter().find(|(begin, _)| first.starts_with(begin)).map_or("", |(_, hint)| hint)
}

/// Why the records of a log end before its end.
#[derive(Debug, thiserror::Error)]
pub enum LogDefect {
    /// Not a log.
    #[error(
        "it does not begin as a log: a log is an MCAP file, a log of LCM, or a bag of ROS{hint}"
    )]
    NotMcap {
        /// What it is instead, and what to do, to follow the sentence; empty if unknown.
        hint: &'static str,
    },
    /// The file ends within a record.
    #[error("the file ends within the record at byte {at}")]
    Cut {
        /// Offset of the record.
        at: u64,
    },
    /// The file ends without its closing bytes.
    #[error("the file does not end as an MCAP file; it was not closed, or is damaged")]
    NotClosed,
    /// The chunks of a bag of ROS 1 are encrypted.
    #[error("the bag is encrypted by {by}: `rosbag decrypt` makes one that can be read")]
    Encrypted {
        /// The plugin that did so, printable.
        by: String,
    },
    /// A bag of ROS 1 ends without its index.
    #[error("the bag has no index: its recorder was killed, or it was not copied whole")]
    NoIndex,
    /// Bytes follow the end of an MCAP file, as where files were joined.
    #[error(
        "the log ends at byte {at}; the {bytes} bytes behind it, perhaps another file's, are not read"
    )]
    Behind {
        /// Offset of its end.
        at: u64,
        /// Number of bytes behind it.
        bytes: u64,
    },
    /// A record is longer than the rest of the file.
    #[error("the record at byte {at} claims {bytes} bytes, and {left} are left in the file")]
    BeyondFile {
        /// Offset of the record.
        at: u64,
        /// Its claimed length, in bytes.
        bytes: u64,
        /// What is left of the file, in bytes.
        left: u64,
    },
    /// A record of a chunk is longer than the rest of the chunk.
    #[error("a record in the chunk at byte {at} claims {bytes} bytes, and {left} are left in it")]
    BeyondChunk {
        /// Offset of the chunk.
        at: u64,
        /// Its claimed length, in bytes.
        bytes: u64,
        /// What is left of the chunk, in bytes.
        left: u64,
    },
    /// A chunk claims more than its compressed bytes can hold.
    #[error(
        "the chunk at byte {at} claims {bytes} bytes, which its {compressed} bytes cannot hold"
    )]
    Inflated {
        /// Offset of the chunk.
        at: u64,
        /// Claimed length of its records, in bytes.
        bytes: u64,
        /// Length of its compressed bytes.
        compressed: u64,
    },
    /// The compressed bytes of a chunk are not valid.
    #[error("the chunk at byte {at} cannot be decompressed: {why}")]
    Packed {
        /// Offset of the chunk.
        at: u64,
        /// What is wrong.
        why: String,
    },
    /// A chunk is not what its writer wrote.
    #[error("the chunk at byte {at} has the checksum {found:08x}, and {stated:08x} was written")]
    Checksum {
        /// Offset of the chunk.
        at: u64,
        /// Checksum of its records.
        found: u32,
        /// The one in its head.
        stated: u32,
    },
    /// Messages, or the records among them, are not what their writer wrote.
    #[error(
        "the checksum of the messages is {found:08x}, and {stated:08x} was written: some byte has changed"
    )]
    DataChecksum {
        /// Checksum of all bytes before the end of messages.
        found: u32,
        /// The one that was written there.
        stated: u32,
    },
    /// Bytes of a log of LCM that are not an event.
    #[error("bytes {at} to {end} are not an event of LCM")]
    Strange {
        /// Offset of the first one.
        at: u64,
        /// Offset behind the last one.
        end: u64,
    },
    /// The database of a bag of ROS 2 is not one.
    #[error("SQLite says: {0}")]
    Database(String),
    /// A database of another program.
    #[error(
        "it is a database of SQLite, and not a bag of ROS 2: it has no tables topics and messages"
    )]
    NoTables,
    /// The database of a bag of ROS 2 was cut.
    #[error(
        "the file has {pages} of the {stated} pages of its database: it was not copied whole, or its recorder was killed"
    )]
    Pages {
        /// Whole pages of the file.
        pages: u64,
        /// Pages that it states.
        stated: u64,
    },
    /// Rows of a bag of ROS 2 are damaged.
    #[error("rows {from} to {to} of messages cannot be read: SQLite says: {why}")]
    Rows {
        /// Number of the first one.
        from: i64,
        /// Number of the last one.
        to: i64,
        /// What is wrong with the first one.
        why: String,
    },
    /// A bag of ROS 2 has fewer rows than its index.
    #[error("its index of times has {stated} rows, and {read} were found")]
    IndexedRows {
        /// Number of rows in the index.
        stated: i64,
        /// Number of those that were read.
        read: i64,
    },
    /// A row of a bag of ROS 2 has a topic that the bag does not have.
    #[error("row {row} of messages has topic {topic}, which the bag does not define")]
    NoTopic {
        /// Number of the row.
        row: i64,
        /// Number of the topic.
        topic: i64,
    },
    /// A file that was compressed as a whole cannot be unpacked.
    #[error("it cannot be unpacked: {0}")]
    Unpack(String),
    /// A file that was compressed as a whole is damaged, or was cut.
    #[error("only its first {bytes} bytes can be unpacked: {why}")]
    Unpacked {
        /// Bytes that were unpacked.
        bytes: u64,
        /// What is wrong behind them.
        why: String,
    },
    /// A message that was compressed alone cannot be unpacked.
    #[error("a message of {topic} cannot be unpacked: {why}")]
    Message {
        /// Its topic, printable.
        topic: String,
        /// What is wrong.
        why: String,
    },
    /// A folder has no file of a bag.
    #[error("the folder has neither .mcap nor .db3 files")]
    NoBag,
    /// The folder of a bag has no `metadata.yaml`.
    #[error("the folder has no metadata.yaml: its recorder was killed, or it was not copied whole")]
    NoMetadata,
    /// The `metadata.yaml` of a bag is not valid.
    #[error("its metadata.yaml is not valid: {0}")]
    Metadata(String),
    /// A file that `metadata.yaml` names is missing.
    #[error("the file {name}, which metadata.yaml names, is missing")]
    NoFile {
        /// Its name, printable.
        name: String,
    },
    /// Files are beside those that `metadata.yaml` names.
    #[error("files that metadata.yaml does not name are not read: {files}, the first is {name}")]
    NotNamed {
        /// Number of them.
        files: usize,
        /// The first one, printable.
        name: String,
    },
    /// A file of a bag cannot be opened.
    #[error("{0}")]
    Unread(String),
    /// What is wrong in a file of a bag.
    #[error("{name}: {why}")]
    InFile {
        /// The file, printable.
        name: String,
        /// What is wrong.
        why: Box<Self>,
    },
    /// A bag has fewer records than its `metadata.yaml` states.
    #[error("{read} of {stated} records were found, which metadata.yaml states")]
    Missing {
        /// Stated number.
        stated: u64,
        /// Number of those that were read.
        read: u64,
    },
    /// A chunk of a bag of ROS 1 has fewer messages than its index states.
    #[error(
        "the index at byte {at} states {stated} messages of a connection in its chunk, and {read} were found"
    )]
    Index {
        /// Offset of the index.
        at: u64,
        /// Stated number.
        stated: u32,
        /// Number of those that were read.
        read: u32,
    },
    /// A file states another number of messages than it has.
    #[error("its statistics state {stated} messages, and {read} were found")]
    Stated {
        /// Stated number.
        stated: u64,
        /// Number of those that were read.
        read: u64,
    },
    /// A record or chunk is longer than the limit.
    #[error(
        "the record at byte {at} has {bytes} bytes, and at most {most} are read; --most-memory of play and convert sets the limit"
    )]
    TooLong {
        /// Offset of the record, or of its chunk.
        at: u64,
        /// Its length, in bytes.
        bytes: u64,
        /// The limit, in bytes.
        most: u64,
    },
    /// Definitions of types and texts of channels are longer than the limit.
    #[error(
        "the definitions of its channels have more than {most} bytes; an eighth of --most-memory is the limit"
    )]
    Definitions {
        /// The limit, in bytes.
        most: u64,
    },
    /// Too many channels.
    #[error("it has more than {most} channels", most = MOST_CHANNELS)]
    Channels,
    /// A record of a kind that does not belong where it is.
    #[error(
        "the record at byte {at} is of kind {kind}, which does not belong there; it was passed over"
    )]
    Kind {
        /// Offset of the record, or of its chunk.
        at: u64,
        /// Its kind.
        kind: u8,
    },
    /// A record contradicts its own length.
    #[error("the record at byte {at} is not valid")]
    Record {
        /// Offset of the record, or of its chunk.
        at: u64,
    },
    /// A channel or a definition stands for two different ones.
    #[error("the channel or definition {id} at byte {at} was another one before")]
    Conflict {
        /// Its number.
        id: u16,
        /// Offset of the record, or of its chunk.
        at: u64,
    },
    /// A message or channel refers to what is not in the file.
    #[error(
        "the record at byte {at} refers to {what} {id}, which the file does not have before it: its records are left out"
    )]
    Unknown {
        /// `channel` or `definition`.
        what: &'static str,
        /// Its number.
        id: u16,
        /// Offset of the record, or of its chunk.
        at: u64,
    },
    /// A compression that is not supported.
    #[error(
        "the chunk at byte {at} is compressed by `{name}`, which is not read; lz4 and zstd are"
    )]
    Compression {
        /// Offset of the chunk.
        at: u64,
        /// Its name, printable.
        name: String,
    },
    /// The order of messages would need more memory than the limit.
    #[error(
        "its messages are {disorder_ns} ns out of order: more than {most} bytes of them would wait in memory; --most-memory sets the limit"
    )]
    Disorder {
        /// Longest time by which a message is earlier than one before it, in ns.
        disorder_ns: u64,
        /// The limit, in bytes.
        most: u64,
    },
    /// The file cannot be read, or its compressed bytes are not valid.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl LogDefect {
    /// Returns whether records may follow that are sound.
    pub(super) const fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::BeyondFile { .. }
                | Self::BeyondChunk { .. }
                | Self::Inflated { .. }
                | Self::Compression { .. }
                | Self::Packed { .. }
                | Self::Checksum { .. }
                | Self::DataChecksum { .. }
                | Self::Strange { .. }
                | Self::Record { .. }
                | Self::Kind { .. }
                | Self::Conflict { .. }
                | Self::Index { .. }
                | Self::Unknown { .. }
                | Self::TooLong { .. }
                | Self::NoTopic { .. }
                | Self::Rows { .. }
                | Self::Unpacked { .. }
                | Self::Message { .. }
                | Self::NoMetadata
                | Self::Metadata(_)
                | Self::NoFile { .. }
                | Self::NotNamed { .. }
                | Self::InFile { .. }
                | Self::Missing { .. }
                | Self::Io(_)
        )
    }
}
