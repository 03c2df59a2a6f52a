//! Appends lines to a run file.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::{Counter, Histogram};
use rustix::fs::OFlags;

use super::encoder::Encoder;
use super::note::{Header, Note};
use super::past::Past;
use super::series::Series;
use super::trend::Trend;
use super::writer_lock::lock_of;

/// A run file could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file could not be made.
    #[error("cannot create {path}: {source}; choose another place with --out")]
    Create {
        /// Which file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A line could not be appended. All lines before it are in the file.
    #[error(
        "cannot append to {path} after {written} bytes: {source}; what was recorded before is kept; {}",
        remedy(.source)
    )]
    Append {
        /// Which file.
        path: PathBuf,
        /// Bytes that are safely in it.
        written: u64,
        /// The system's error.
        source: io::Error,
    },
    /// A histogram could not be encoded.
    #[error("cannot encode an interval of {series} for {path}: {source}")]
    Encode {
        /// Which file.
        path: PathBuf,
        /// Which series.
        series: &'static str,
        /// The encoder's error.
        source: io::Error,
    },
}

/// What makes room for more lines.
fn remedy(source: &io::Error) -> &'static str {
    if source.kind() == io::ErrorKind::FileTooLarge {
        return "the limit of a file's size (ulimit -f) is reached: raise it";
    }
    "free some space or choose another place with --out"
}

/// This many different values of an interval are encoded without taking new memory; more of them,
/// which are rare, may take some.
const WARM_UP_VALUES: u64 = 4_096;
/// What lines that grow with the run, such as its trend, may take later; asked for and given back
/// at the start, so that an allocator that keeps what it has, as that of a process with locked
/// memory does, has it.
const KEPT_FOR_LATER: usize = 512 * 1024;

/// An open run file. Each line is written whole, with one system call, so that a crash leaves whole
/// lines.
pub struct RunWriter {
    file: File,
    path: PathBuf,
    written: u64,
    encoder: Encoder,
    encoded: Vec<u8>,
    line: Vec<u8>,
}

impl RunWriter {
    /// Creates the file and writes its header. A link in its place is refused.
    ///
    /// # Errors
    /// [`WriteError`], with the path.
    pub fn create(path: &Path, header: &Header) -> Result<Self, WriteError> {
        // The name is mostly onbeat's own choice, in a directory that another user may own: a link
        // is not followed.
        let no_link = OFlags::NOFOLLOW.bits().cast_signed();
        let opened = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(no_link)
            .open(path);
        let file = opened.map_err(|source| WriteError::Create { path: path.to_owned(), source })?;
        // A file that was made just now has no other writer; readers see by the lock that it grows.
        let _ = lock_of(&file);
        let mut writer = Self::on(file, path, 0);
        // HdrHistogram's readers take this line, the two times and the header as theirs. Notes are
        // comments to them: they begin with `#[`.
        writer.put_line(format_args!("#[Histogram log format version 1.3]"))?;
        writer.note(&Note::Run(Box::new(header.clone())))?;
        let at = header.started_unix_s;
        writer.put_line(format_args!("#[StartTime: {at:.3} (seconds since epoch)]"))?;
        writer.put_line(format_args!("#[BaseTime: {at:.3} (seconds since epoch)]"))?;
        writer.put_line(format_args!(
            "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\""
        ))?;
        // The encoder's tables and the first pages of its buffers would otherwise come at the end
        // of the first interval, as page faults beside the loop that is measured.
        writer.warm_up()?;

        Ok(writer)
    }

    /// Resumes a file after its last whole line.
    ///
    /// # Errors
    /// [`WriteError`], with the path.
    pub fn go_on(past: Past) -> Result<Self, WriteError> {
        let Past { path, mut file, whole_bytes, untold, .. } = past;
        // The line that was cut off goes. Appending behind it would make one broken line of two.
        let placed = file.set_len(whole_bytes).and_then(|()| file.seek(SeekFrom::End(0)));
        placed.map_err(|source| WriteError::Append {
            path: path.clone(),
            written: whole_bytes,
            source,
        })?;
        let mut writer = Self::on(file, &path, whole_bytes);
        if let Some(interval) = untold {
            writer.note(&Note::Interval(Box::new(interval)))?;
        }

        writer.warm_up()?;
        Ok(writer)
    }

    fn on(file: File, path: &Path, written: u64) -> Self {
        Self {
            file,
            path: path.to_owned(),
            written,
            encoder: Encoder::new(),
            encoded: Vec::new(),
            line: Vec::new(),
        }
    }

    /// Encodes a histogram for nothing, twice: the encoder and the allocator take what memory they
    /// need now, and none later in a long run.
    fn warm_up(&mut self) -> Result<(), WriteError> {
        let series = Series::ReleaseLatency;
        let mut counts = super::histogram::empty_interval(series);
        // Squares reach every bucket of the histogram, small and large, in few values.
        (0..WARM_UP_VALUES).for_each(|value| counts.saturating_record(1 + value * value));
        // The first call allocates, the second shows that nothing is left to allocate.
        for _ in 0..2 {
            self.encode(series, &counts)?;
        }

        // The allocator keeps freed memory at the top of the heap for the next request, so that a
        // large interval later takes no new pages.
        drop(std::hint::black_box(vec![1_u8; KEPT_FOR_LATER]));
        Ok(())
    }

    fn encode<T: Counter>(
        &mut self,
        series: Series,
        counts: &Histogram<T>,
    ) -> Result<(), WriteError> {
        let encoded = self.encoder.encode(counts, &mut self.encoded);
        encoded.map_err(|source| WriteError::Encode {
            path: self.path.clone(),
            series: series.tag(),
            source,
        })
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes written so far.
    #[must_use]
    pub const fn written(&self) -> u64 {
        self.written
    }

    /// Appends a note.
    ///
    /// # Errors
    /// [`WriteError::Append`].
    pub fn note(&mut self, note: &Note) -> Result<(), WriteError> {
        self.line.clear();
        self.line.extend_from_slice(b"#[onbeat: ");
        serde_json::to_writer(&mut self.line, note).map_err(|e| self.failed(e.into()))?;
        self.line.extend_from_slice(b"]\n");
        self.append()
    }

    /// Appends a trend, without a copy of it.
    pub(super) fn trend(&mut self, trend: &Trend) -> Result<(), WriteError> {
        self.line.clear();
        self.line.extend_from_slice(b"#[onbeat: {\"trend\":");
        serde_json::to_writer(&mut self.line, trend).map_err(|e| self.failed(e.into()))?;
        self.line.extend_from_slice(b"}]\n");
        self.append()
    }

    /// Appends an interval of one series, of the bounds that [`super::empty_counts`] gives it;
    /// nothing when it holds no sample. `t` and `length` are in seconds since the file's start.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn interval<T: Counter>(
        &mut self,
        series: Series,
        counts: &Histogram<T>,
        t: f64,
        length: f64,
    ) -> Result<(), WriteError> {
        if counts.is_empty() {
            return Ok(());
        }

        // HdrHistogram's V2 payload, compressed: its own log viewer opens the file.
        self.encode(series, counts)?;
        let max_ms = counts.max() as f64 / 1e6;
        self.line.clear();
        // Viewers draw the untagged lines first. What a run is about is therefore without a tag.
        if series != Series::ReleaseLatency {
            write!(self.line, "Tag={},", series.tag()).map_err(|e| self.failed(e))?;
        }

        write!(self.line, "{t:.3},{length:.3},{max_ms:.3},").map_err(|e| self.failed(e))?;
        // In text, so that a file can be sent, cut and joined by ordinary tools.
        let base64 = STANDARD.encode(&self.encoded);
        self.line.extend_from_slice(base64.as_bytes());
        self.line.push(b'\n');
        self.append()
    }

    /// Makes sure that what was written survives a power cut.
    ///
    /// # Errors
    /// [`WriteError::Append`].
    pub fn sync(&mut self) -> Result<(), WriteError> {
        // The data alone: the size is among them, the times of the file are not needed.
        match self.file.sync_data() {
            // A device such as /dev/null has nothing to sync.
            Err(why) if why.kind() == io::ErrorKind::InvalidInput => Ok(()),
            synced => synced.map_err(|source| self.failed(source)),
        }
    }

    fn put_line(&mut self, text: std::fmt::Arguments<'_>) -> Result<(), WriteError> {
        self.line.clear();
        self.line.write_fmt(text).map_err(|e| self.failed(e))?;
        self.line.push(b'\n');
        self.append()
    }

    fn append(&mut self) -> Result<(), WriteError> {
        // One call for a whole line: a kill between two calls leaves whole lines.
        self.file.write_all(&self.line).map_err(|source| self.failed(source))?;
        self.written += self.line.len() as u64;
        Ok(())
    }

    fn failed(&self, source: io::Error) -> WriteError {
        WriteError::Append { path: self.path.clone(), written: self.written, source }
    }
}
