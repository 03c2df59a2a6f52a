//! Writes MCAP files: <https://mcap.dev/spec>.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, ErrorKind};
use std::path::{Path, PathBuf};

use mcap::records::{MessageHeader, Metadata};
use mcap::{McapError, WriteOptions, Writer};
use serde::Deserialize;

use super::error::GatewayError;
use super::log_records::{LogMessage, LogRecordChannel};

/// Compression of a log's chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// LZ4: cycles of a robot shrink to a third or less.
    #[default]
    Lz4,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogChannel {
    id: u16,
}

/// The writing end of a log. A file that is not finished, because its process was killed, can be
/// read up to the last flush.
pub struct LogWriter {
    path: PathBuf,
    writer: Writer<BufWriter<File>>,
}

impl std::fmt::Debug for LogWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogWriter").field("path", &self.path).finish_non_exhaustive()
    }
}

impl LogWriter {
    /// Creates a log.
    ///
    /// # Errors
    /// [`GatewayError::Exists`], [`GatewayError::Create`], [`GatewayError::Write`].
    pub fn create(path: &Path, compression: Compression) -> Result<Self, GatewayError> {
        Self::create_as("ros2", path, compression)
    }

    /// Creates a log with a profile, or with none.
    ///
    /// # Errors
    /// As [`LogWriter::create`].
    pub(super) fn create_as(
        profile: &str,
        path: &Path,
        compression: Compression,
    ) -> Result<Self, GatewayError> {
        let opened = File::create_new(path).map_err(|source| match source.kind() {
            ErrorKind::AlreadyExists => GatewayError::Exists { path: path.to_owned() },
            _ => GatewayError::Create { path: path.to_owned(), source },
        })?;

        let compression = match compression {
            Compression::Lz4 => Some(mcap::Compression::Lz4),
            Compression::None => None,
        };
        let options = WriteOptions::new()
            .compression(compression)
            .profile(profile)
            .library(concat!("onbeat ", env!("CARGO_PKG_VERSION")));
        let writer = options.create(BufWriter::new(opened)).map_err(failed_at(path))?;
        Ok(Self { path: path.to_owned(), writer })
    }

    /// Adds a channel whose messages are CDR, little-endian, with the definition of their type and
    /// with texts for its readers.
    ///
    /// # Errors
    /// [`GatewayError::Write`].
    pub fn add_channel(
        &mut self,
        topic: &str,
        type_name: &str,
        schema: &str,
        texts: &[(&str, &str)],
    ) -> Result<LogChannel, GatewayError> {
        let texts: BTreeMap<String, String> = texts_of(texts);
        let added = self
            .writer
            .add_schema(type_name, "ros2msg", schema.as_bytes())
            .and_then(|schema| self.writer.add_channel(schema, topic, "cdr", &texts));
        Ok(LogChannel { id: added.map_err(failed_at(&self.path))? })
    }

    /// Adds a channel as another log has it, in whatever encoding.
    ///
    /// # Errors
    /// [`GatewayError::Write`].
    pub(super) fn copy_channel(
        &mut self,
        of: &LogRecordChannel,
    ) -> Result<LogChannel, GatewayError> {
        let schema = match &of.schema {
            Some(it) => self.writer.add_schema(&it.name, &it.encoding, &it.definition),
            None => Ok(0),
        };
        let added = schema
            .and_then(|schema| self.writer.add_channel(schema, &of.topic, &of.encoding, &of.texts));
        Ok(LogChannel { id: added.map_err(failed_at(&self.path))? })
    }

    /// Writes a message with its number and its time, in ns since 1970 (UTC). MCAP keeps the low 32
    /// bits of the number.
    ///
    /// # Errors
    /// [`GatewayError::Write`].
    pub fn write(
        &mut self,
        channel: LogChannel,
        number: u64,
        utc_ns: u64,
        message: &[u8],
    ) -> Result<(), GatewayError> {
        let header = MessageHeader {
            channel_id: channel.id,
            sequence: number as u32,
            log_time: utc_ns,
            publish_time: utc_ns,
        };
        self.writer.write_to_known_channel(&header, message).map_err(failed_at(&self.path))
    }

    /// Writes a message as another log has it, with these bytes.
    ///
    /// # Errors
    /// [`GatewayError::Write`].
    pub(super) fn copy(
        &mut self,
        channel: LogChannel,
        of: &LogMessage,
        data: &[u8],
    ) -> Result<(), GatewayError> {
        let header = MessageHeader {
            channel_id: channel.id,
            sequence: of.sequence,
            log_time: of.log_time,
            publish_time: of.publish_time,
        };
        self.writer.write_to_known_channel(&header, data).map_err(failed_at(&self.path))
    }

    /// Writes texts that belong to the log as a whole, under a name.
    ///
    /// # Errors
    /// [`GatewayError::Write`].
    pub fn note(&mut self, name: &str, texts: &[(&str, &str)]) -> Result<(), GatewayError> {
        let note = Metadata { name: name.to_owned(), metadata: texts_of(texts) };
        self.writer.write_metadata(&note).map_err(failed_at(&self.path))
    }

    /// Ends the current chunk and hands it to the kernel.
    ///
    /// # Errors
    /// [`GatewayError::Write`].
    pub fn flush(&mut self) -> Result<(), GatewayError> {
        self.writer.flush().map_err(failed_at(&self.path))
    }

    /// Writes the indexes and the end of the file; returns its size in bytes.
    ///
    /// # Errors
    /// [`GatewayError::Write`].
    pub fn finish(mut self) -> Result<u64, GatewayError> {
        self.writer.finish().map_err(failed_at(&self.path))?;
        let file = self.writer.into_inner().into_inner();
        let length = file.map_err(std::io::IntoInnerError::into_error).and_then(|file| {
            file.sync_data()?;
            Ok(file.metadata()?.len())
        });
        length.map_err(McapError::from).map_err(failed_at(&self.path))
    }
}

fn texts_of(texts: &[(&str, &str)]) -> BTreeMap<String, String> {
    texts.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

fn failed_at(path: &Path) -> impl FnOnce(McapError) -> GatewayError {
    let path = path.to_owned();
    move |source| GatewayError::Write { path, source: Box::new(source) }
}
