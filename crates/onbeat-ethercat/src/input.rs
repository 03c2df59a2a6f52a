//! Reads files named by users: regular files of limited size only.
//!
//! Reading a pipe could block, and reading a device such as `/dev/zero` would never end. All files
//! chosen by users are opened here. Absent on purpose: interpretation of the contents, and standard
//! input.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Largest size of a file written by hand, such as a segment file, in bytes.
pub const MOST_BYTES_BY_HAND: u64 = 64 << 20;

/// Why a file is rejected although the system can open it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotReadable {
    /// It is not a regular file; holds what it is.
    NotRegular(&'static str),
    /// It is larger than the limit.
    TooLong { bytes: u64, most_bytes: u64 },
}

impl fmt::Display for NotReadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRegular(kind) => write!(f, "it is {kind}, not a regular file"),
            Self::TooLong { bytes, most_bytes } => {
                write!(
                    f,
                    "it has {} MiB, and at most {} MiB are read",
                    bytes >> 20,
                    most_bytes >> 20
                )
            }
        }
    }
}

impl std::error::Error for NotReadable {}

impl From<NotReadable> for io::Error {
    fn from(why: NotReadable) -> Self {
        Self::new(ErrorKind::InvalidInput, why)
    }
}

/// Opens a regular file for reading; follows symbolic links.
///
/// # Errors
/// The system's, and [`ErrorKind::InvalidInput`] for a directory, a pipe, a socket or a device.
pub fn open(path: &Path) -> io::Result<File> {
    // Checked before opening: merely opening a device can have effects, for example start a
    // watchdog.
    regular(&fs::metadata(path)?)?;
    // Non-blocking, in case a pipe has replaced the file since the check.
    let file = File::options()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)?;
    regular(&file.metadata()?)?;
    Ok(file)
}

/// Reads a regular file of at most `most_bytes`.
///
/// # Errors
/// As [`open`], and [`ErrorKind::InvalidInput`] for a larger one.
pub fn read(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let bytes = file.metadata()?.len();
    if bytes > most_bytes {
        return Err(NotReadable::TooLong { bytes, most_bytes }.into());
    }

    let mut all = Vec::new();
    all.try_reserve_exact(usize::try_from(bytes).unwrap_or(usize::MAX))
        .map_err(|_| ErrorKind::OutOfMemory)?;
    // The length can be unknown in advance, as in /proc, and the file can grow.
    file.take(most_bytes + 1).read_to_end(&mut all)?;
    let bytes = all.len() as u64;
    if bytes > most_bytes {
        Err(NotReadable::TooLong { bytes, most_bytes }.into())
    } else {
        Ok(all)
    }
}

/// Reads a regular file of at most `most_bytes` as UTF-8 text.
///
/// # Errors
/// As [`read`], and [`ErrorKind::InvalidData`] for text that is not UTF-8.
pub fn text(path: &Path, most_bytes: u64) -> io::Result<String> {
    let bytes = read(path, most_bytes)?;
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}

fn regular(of: &fs::Metadata) -> Result<(), NotReadable> {
    let kind = of.file_type();
    if kind.is_file() {
        return Ok(());
    }

    Err(NotReadable::NotRegular(match () {
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
    fn a_file_is_read_whole_also_through_a_symbolic_link() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        let link = dir.path().join("link");
        fs::write(&file, "words").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(text(&link, 5).unwrap(), "words");
        assert!(
            read(Path::new("/proc/self/status"), MOST_BYTES_BY_HAND).unwrap().starts_with(b"Name:")
        );
    }

    #[test]
    fn files_that_are_not_regular_are_rejected_with_a_sentence() {
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
    fn a_file_that_is_too_large_is_rejected_before_memory_is_allocated() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("sparse");
        File::create(&file).unwrap().set_len(1 << 40).unwrap();
        let why = read(&file, 64 << 20).unwrap_err();
        assert_eq!(why.to_string(), "it has 1048576 MiB, and at most 64 MiB are read");
        assert!(
            read(Path::new("/proc/self/status"), 10).is_err(),
            "its length is not known in advance"
        );
    }
}
