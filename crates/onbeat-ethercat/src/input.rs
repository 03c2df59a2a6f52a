//! Files that people name, to be read: regular ones, of a bounded size.
//!
//! A pipe in their place would be waited for, and a device such as `/dev/zero` read without an end. Whatever reads a file of a user's
//! choice opens it here. Absent on purpose: what a file means, and standard input.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Most bytes of a file that people write by hand, such as a segment's.
pub const MOST_BYTES_BY_HAND: u64 = 64 << 20;

/// Why a file is not read, although the system would give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotRead {
    /// It is something else, in a word.
    Else(&'static str),
    /// It is too long.
    TooLong { bytes: u64, most_bytes: u64 },
}

impl fmt::Display for NotRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Else(kind) => write!(f, "it is {kind}, not a regular file"),
            Self::TooLong { bytes, most_bytes } => {
                write!(f, "it has {} MiB, and at most {} MiB are read", bytes >> 20, most_bytes >> 20)
            }
        }
    }
}

impl std::error::Error for NotRead {}

impl From<NotRead> for io::Error {
    fn from(why: NotRead) -> Self {
        Self::new(ErrorKind::InvalidInput, why)
    }
}

/// Opens a regular file for reading, by way of links.
///
/// # Errors
/// The system's, and [`ErrorKind::InvalidInput`] for a directory, a pipe, a socket or a device.
pub fn open(path: &Path) -> io::Result<File> {
    // Looked at first: to open a device alone can set something off, a watchdog for one.
    regular(&fs::metadata(path)?)?;
    // Without waiting, should a pipe have taken its place meanwhile.
    let file = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    regular(&file.metadata()?)?;
    Ok(file)
}

/// Reads a regular file of at most `most_bytes`.
///
/// # Errors
/// As [`open`], and [`ErrorKind::InvalidInput`] for a longer one.
pub fn read(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let bytes = file.metadata()?.len();
    if bytes > most_bytes {
        return Err(NotRead::TooLong { bytes, most_bytes }.into());
    }

    let mut all = Vec::new();
    all.try_reserve_exact(usize::try_from(bytes).unwrap_or(usize::MAX)).map_err(|_| ErrorKind::OutOfMemory)?;
    // Its length may be unknown before, as in /proc, and it may grow.
    file.take(most_bytes + 1).read_to_end(&mut all)?;
    let bytes = all.len() as u64;
    if bytes > most_bytes { Err(NotRead::TooLong { bytes, most_bytes }.into()) } else { Ok(all) }
}

/// The same, as text.
///
/// # Errors
/// As [`read`], and [`ErrorKind::InvalidData`] for what is not UTF-8.
pub fn text(path: &Path, most_bytes: u64) -> io::Result<String> {
    let bytes = read(path, most_bytes)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}

fn regular(of: &fs::Metadata) -> Result<(), NotRead> {
    let kind = of.file_type();
    if kind.is_file() {
        return Ok(());
    }

    Err(NotRead::Else(match () {
        () if kind.is_dir() => "a directory",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_whole_and_by_way_of_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "words").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(text(&link, 5).unwrap(), "words");
        assert!(read(Path::new("/proc/self/status"), MOST_BYTES_BY_HAND).unwrap().starts_with(b"Name:"));
    }

    #[test]
    fn what_would_be_waited_for_or_has_no_end_is_refused_in_a_sentence() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let made = rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        );
        made.unwrap();
        let socket = dir.path().join("socket");
        let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();

        for (path, kind) in [
            (pipe.as_path(), "a pipe"),
            (&socket, "a socket"),
            (Path::new("/dev/zero"), "a device"),
            (dir.path(), "a directory"),
        ] {
            let why = read(path, 10).unwrap_err();
            assert_eq!(why.kind(), ErrorKind::InvalidInput);
            assert_eq!(why.to_string(), format!("it is {kind}, not a regular file"));
        }
    }

    #[test]
    fn a_file_that_is_too_long_is_refused_before_memory_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("sparse");
        File::create(&file).unwrap().set_len(1 << 40).unwrap();
        let why = read(&file, 64 << 20).unwrap_err();
        assert_eq!(why.to_string(), "it has 1048576 MiB, and at most 64 MiB are read");
        assert!(read(Path::new("/proc/self/status"), 10).is_err(), "its length is not known before");
    }
}
