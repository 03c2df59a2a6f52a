//! Standard output, and whether what was written to it arrived.
//!
//! Lost output is a failure of the command; a reader that closes early, such as `head`, is not.
//! Both are remembered until the command ends, because a run continues and is recorded even when
//! its terminal is gone.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{OFlags, fcntl_getfl};

use super::Tone;

/// State of the reader of standard output.
#[derive(Debug)]
enum StdoutReader {
    /// Nothing has been written yet.
    Unknown,
    Reads,
    /// It closed its end early.
    Gone,
    /// A write failed.
    Lost(io::Error),
}

static STDOUT_READER: Mutex<StdoutReader> = Mutex::new(StdoutReader::Unknown);

/// Writes a line of results.
pub fn say(tone: Tone, text: &str) {
    let style = tone.style();
    keep(|| writeln!(anstream::stdout(), "{style}{text}{style:#}"));
}

/// Writes a value as one line of JSON.
pub fn print_json(value: &serde_json::Value) -> serde_json::Result<()> {
    say(Tone::Plain, &serde_json::to_string(value)?);
    Ok(())
}

/// Writes output other than lines of text: a file's bytes, escape sequences.
pub fn put(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
    keep(|| {
        let mut out = BufWriter::new(io::stdout().lock());
        write(&mut out)?;
        out.flush()
    });
}

/// Whether the reader still reads. After a lost part the rest would be useless.
pub fn is_read() -> bool {
    matches!(*reader(), StdoutReader::Unknown | StdoutReader::Reads)
}

/// Flushes standard output.
///
/// # Errors
/// The first error of a write, if one failed since the start.
pub fn finish() -> Result<(), io::Error> {
    if matches!(*reader(), StdoutReader::Reads) {
        keep(|| {
            // The standard library ignores EBADF on standard output, so a read-only descriptor is
            // checked for here.
            if fcntl_getfl(io::stdout())? & OFlags::ACCMODE == OFlags::RDONLY {
                return Err(rustix::io::Errno::BADF.into());
            }
            io::stdout().flush()
        });
    }
    match std::mem::replace(&mut *reader(), StdoutReader::Unknown) {
        StdoutReader::Lost(why) => Err(why),
        _ => Ok(()),
    }
}

fn keep(write: impl FnOnce() -> io::Result<()>) {
    if !is_read() {
        return;
    }

    let now = match write() {
        Ok(()) => StdoutReader::Reads,
        Err(why) if why.kind() == ErrorKind::BrokenPipe => StdoutReader::Gone,
        Err(why) => StdoutReader::Lost(why),
    };

    *reader() = now;
}

fn reader() -> std::sync::MutexGuard<'static, StdoutReader> {
    STDOUT_READER.lock().unwrap_or_else(PoisonError::into_inner)
}
