//! Standard output, and whether what was written to it arrived.
//!
//! A result that is lost is a failure of the command; a reader that has seen enough, as `head` has, is none. Both are kept
//! here until the command ends, since a run goes on and is recorded whatever becomes of its terminal.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{OFlags, fcntl_getfl};

use super::Tone;

/// What is known of the reader of standard output.
#[derive(Debug)]
enum Reader {
    /// Nothing was written yet.
    Unknown,
    Reads,
    /// It has seen enough.
    Gone,
    /// Something that was written did not arrive.
    Lost(io::Error),
}

static READER: Mutex<Reader> = Mutex::new(Reader::Unknown);

/// Writes a line of results.
pub(crate) fn say(tone: Tone, text: &str) {
    let style = tone.style();
    keep(|| writeln!(anstream::stdout(), "{style}{text}{style:#}"));
}

/// Writes what is no line of words: a file's bytes, the letters that move a cursor.
pub(crate) fn put(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
    keep(|| {
        let mut out = BufWriter::new(io::stdout().lock());
        write(&mut out)?;
        out.flush()
    });
}

/// Whether it is worth writing more. Once a part did not arrive, the rest makes no sense to anybody.
pub(crate) fn is_read() -> bool {
    matches!(*reader(), Reader::Unknown | Reader::Reads)
}

/// Writes out what is held back.
///
/// # Errors
/// Why something that was written did not arrive.
pub(crate) fn finish() -> Result<(), io::Error> {
    if matches!(*reader(), Reader::Reads) {
        keep(|| {
            // The standard library takes a descriptor that cannot be written for one that nobody wants.
            if fcntl_getfl(io::stdout())? & OFlags::ACCMODE == OFlags::RDONLY {
                return Err(rustix::io::Errno::BADF.into());
            }
            io::stdout().flush()
        });
    }
    match std::mem::replace(&mut *reader(), Reader::Unknown) {
        Reader::Lost(why) => Err(why),
        _ => Ok(()),
    }
}

fn keep(write: impl FnOnce() -> io::Result<()>) {
    if !is_read() {
        return;
    }

    let now = match write() {
        Ok(()) => Reader::Reads,
        Err(why) if why.kind() == ErrorKind::BrokenPipe => Reader::Gone,
        Err(why) => Reader::Lost(why),
    };

    *reader() = now;
}

fn reader() -> std::sync::MutexGuard<'static, Reader> {
    READER.lock().unwrap_or_else(PoisonError::into_inner)
}
