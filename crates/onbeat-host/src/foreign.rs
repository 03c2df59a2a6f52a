//! The one opener of files that another user or process may have made or may replace.
//!
//! Opening such a file goes wrong in few ways, and each has stopped a program somewhere: a pipe blocks
//! the opener, a device never ends or acts when it is opened, a link leads to a file of the opener's
//! own, a file of another user carries his content, a sparse file claims terabytes. [`Opening`] states
//! which of them the caller accepts; the checks are made on the opened descriptor, so that a path that is
//! replaced meanwhile gains nothing.
//!
//! Absent on purpose: interpretation of the contents, and standard input.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};

/// Largest size of a file written by hand, such as a segment file, in bytes.
pub const MOST_BYTES_BY_HAND: u64 = 64 << 20;

/// Bits of a mode by which others than the owner may write.
const BY_OTHERS: u32 = 0o022;
const MIB: u64 = 1 << 20;

/// Whose files are trusted. Root's are trusted by all: root could change this process as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustedOwner {
    /// Files of anyone: the content is checked by its reader, and the user chose the file.
    Anyone,
    /// Files of the effective user that nobody else can write.
    Own,
    /// Files of the effective user or of root that nobody else can write.
    OwnOrRoot,
}

/// Why a file is refused although the system can open it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Not a regular file; holds what it is.
    NotRegular(&'static str),
    /// Larger than the limit, in bytes.
    TooLong {
        /// Size of the file.
        bytes: u64,
        /// The limit.
        most: u64,
    },
    /// Smaller than what it must hold, in bytes.
    TooShort {
        /// Size of the file.
        bytes: u64,
        /// The least size.
        least: u64,
    },
    /// Owned by a user who is not trusted.
    OtherOwner {
        /// Its owner's user id.
        owner: u32,
        /// Effective user id of this process.
        user: u32,
    },
    /// Writable by its group or by all.
    WritableByOthers {
        /// Permission bits.
        mode: u32,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRegular(kind) => write!(f, "it is {kind}, not a regular file"),
            // Reading stops there where the length is not known, as in /proc.
            Self::TooLong { bytes, most } if *bytes == most.saturating_add(1) => match most / MIB {
                0 => write!(f, "it has more than {most} bytes, the most that is read"),
                most => write!(f, "it has more than {most} MiB, the most that is read"),
            },
            Self::TooLong { bytes, most } if *most < MIB => {
                write!(f, "it has {bytes} bytes, and at most {most} are read")
            }
            // Rounded up: what is too large never reads as the limit itself.
            Self::TooLong { bytes, most } => {
                let (bytes, most) = (bytes.div_ceil(MIB), most / MIB);
                write!(f, "it has {bytes} MiB, and at most {most} MiB are read")
            }
            Self::TooShort { bytes, least } => {
                write!(f, "it has {bytes} bytes, and at least {least} are needed")
            }
            Self::OtherOwner { owner, user } => {
                write!(f, "it belongs to user {owner}, and user {user} does not trust its content")
            }
            Self::WritableByOthers { mode } => {
                write!(f, "others than its owner can write it (mode {mode:04o})")
            }
        }
    }
}

impl From<Refused> for io::Error {
    fn from(why: Refused) -> Self {
        let kind = match why {
            Refused::OtherOwner { .. } | Refused::WritableByOthers { .. } => {
                ErrorKind::PermissionDenied
            }
            Refused::TooShort { .. } => ErrorKind::UnexpectedEof,
            _ => ErrorKind::InvalidInput,
        };
        Self::new(kind, why)
    }
}

/// Conditions under which a file is opened; a regular file in any case.
///
/// ```
/// use onbeat_host::foreign::Opening;
///
/// let directory = std::env::temp_dir();
/// let why = Opening::named_by_user().open(&directory).unwrap_err();
/// assert_eq!(why.to_string(), "it is a directory, not a regular file");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    follows_links: bool,
    is_writable: bool,
    trusted: TrustedOwner,
    least: u64,
    most: u64,
}

impl Opening {
    /// A file that the user named, such as an argument: links are followed, and anyone may own it.
    #[must_use]
    pub const fn named_by_user() -> Self {
        Self {
            follows_links: true,
            is_writable: false,
            trusted: TrustedOwner::Anyone,
            least: 0,
            most: u64::MAX,
        }
    }

    /// A file found by its name, which nobody named to this process: no link, and of a trusted owner.
    #[must_use]
    pub const fn found(trusted: TrustedOwner) -> Self {
        Self { follows_links: false, trusted, ..Self::named_by_user() }
    }

    /// Opens for writing too.
    #[must_use]
    pub const fn writable(self) -> Self {
        Self { is_writable: true, ..self }
    }

    /// Refuses smaller files.
    #[must_use]
    pub const fn at_least(self, bytes: u64) -> Self {
        Self { least: bytes, ..self }
    }

    /// Refuses larger files.
    #[must_use]
    pub const fn at_most(self, bytes: u64) -> Self {
        Self { most: bytes, ..self }
    }

    /// Opens the file at a path. Never blocks.
    ///
    /// # Errors
    /// The system's, and those of [`Refused`].
    pub fn open(&self, path: &Path) -> io::Result<File> {
        self.open_at(CWD, path)
    }

    /// Opens the file at a path relative to a directory. Never blocks.
    ///
    /// # Errors
    /// As [`Opening::open`].
    pub fn open_at(&self, directory: BorrowedFd<'_>, path: &Path) -> io::Result<File> {
        let links = if self.follows_links { OFlags::empty() } else { OFlags::NOFOLLOW };
        // A descriptor by path alone acts on nothing: merely opening a device can, for example start a
        // watchdog.
        let seen = rustix::fs::openat(
            directory,
            path,
            OFlags::PATH | OFlags::CLOEXEC | links,
            Mode::empty(),
        )?;
        regular(&File::from(seen).metadata()?)?;

        let access = if self.is_writable { OFlags::RDWR } else { OFlags::RDONLY };
        // Non-blocking, in case a pipe has replaced the file since the check.
        let flags = access | links | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(directory, path, flags, Mode::empty())?);
        self.check(&file)?;
        Ok(file)
    }

    /// Checks an opened file against all conditions.
    ///
    /// # Errors
    /// As [`Opening::open`].
    pub fn check(&self, file: &File) -> io::Result<()> {
        let found = file.metadata()?;
        regular(&found)?;
        check_owner(self.trusted, found.uid(), found.mode())?;
        let bytes = found.len();
        if bytes > self.most {
            return Err(Refused::TooLong { bytes, most: self.most }.into());
        }
        if bytes < self.least {
            return Err(Refused::TooShort { bytes, least: self.least }.into());
        }
        Ok(())
    }

    /// Reads the whole file.
    ///
    /// # Errors
    /// As [`Opening::open`], and [`ErrorKind::OutOfMemory`].
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.open(path)?;
        let bytes = file.metadata()?.len();
        let mut all = Vec::new();
        all.try_reserve_exact(usize::try_from(bytes).unwrap_or(usize::MAX))
            .map_err(|_| ErrorKind::OutOfMemory)?;

        // The length can be unknown in advance, as in /proc, and the file can grow.
        file.take(self.most.saturating_add(1)).read_to_end(&mut all)?;
        let bytes = all.len() as u64;
        if bytes > self.most {
            return Err(Refused::TooLong { bytes, most: self.most }.into());
        }
        Ok(all)
    }

    /// Reads the whole file as UTF-8 text.
    ///
    /// # Errors
    /// As [`Opening::read`], and [`ErrorKind::InvalidData`] for text that is not UTF-8.
    pub fn text(&self, path: &Path) -> io::Result<String> {
        String::from_utf8(self.read(path)?)
            .map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
    }
}

/// Opens a regular file that the user named; see [`Opening::named_by_user`].
///
/// # Errors
/// As [`Opening::open`].
pub fn open(path: &Path) -> io::Result<File> {
    Opening::named_by_user().open(path)
}

/// Reads a regular file that the user named, of at most `most_bytes`.
///
/// # Errors
/// As [`Opening::read`].
pub fn read(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    Opening::named_by_user().at_most(most_bytes).read(path)
}

/// Reads a regular file that the user named, of at most `most_bytes`, as UTF-8 text.
///
/// # Errors
/// As [`Opening::text`].
pub fn text(path: &Path, most_bytes: u64) -> io::Result<String> {
    Opening::named_by_user().at_most(most_bytes).text(path)
}

/// Returns a text that somebody else wrote as a terminal may show it, on one line: a control
/// character, which could move its cursor or hide other lines, becomes `?`.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// Checks owner and permission bits of a file or directory.
///
/// # Errors
/// [`Refused::OtherOwner`], [`Refused::WritableByOthers`].
pub fn check_owner(trusted: TrustedOwner, owner: u32, mode: u32) -> Result<(), Refused> {
    let user = rustix::process::geteuid().as_raw();
    let is_trusted = match trusted {
        TrustedOwner::Anyone => return Ok(()),
        TrustedOwner::Own => owner == user,
        TrustedOwner::OwnOrRoot => owner == user || owner == 0,
    };
    if !is_trusted {
        return Err(Refused::OtherOwner { owner, user });
    }
    if mode & BY_OTHERS != 0 {
        return Err(Refused::WritableByOthers { mode: mode & 0o7777 });
    }
    Ok(())
}

/// Checks the owner of a directory to work in. Root works in its own ones and in those of the user who
/// has called sudo: any other user could exchange what is in them. All others work wherever the system
/// lets them.
///
/// # Errors
/// [`Refused::OtherOwner`].
pub fn check_workplace(owner: u32) -> Result<(), Refused> {
    let user = rustix::process::geteuid().as_raw();
    let is_trusted = user != 0 || owner == 0 || Some(owner) == caller_of_sudo();
    if is_trusted { Ok(()) } else { Err(Refused::OtherOwner { owner, user }) }
}

/// The user who has called sudo, as sudo notes it.
#[must_use]
pub fn caller_of_sudo() -> Option<u32> {
    std::env::var("SUDO_UID").ok()?.parse().ok()
}

fn regular(of: &std::fs::Metadata) -> Result<(), Refused> {
    let kind = of.file_type();
    if kind.is_file() {
        return Ok(());
    }

    Err(Refused::NotRegular(match () {
        () if kind.is_dir() => "a directory",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () if kind.is_symlink() => "a link",
        () => "a device",
    }))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn pipe_at(path: &Path) {
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }

    #[test]
    fn a_file_is_read_whole_also_through_a_symbolic_link() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "words").unwrap();
        symlink(&file, &link).unwrap();
        assert_eq!(Opening::named_by_user().at_most(5).text(&link).unwrap(), "words");
        let status = Opening::named_by_user().at_most(MOST_BYTES_BY_HAND);
        assert!(status.read(Path::new("/proc/self/status")).unwrap().starts_with(b"Name:"));
    }

    #[test]
    fn files_that_are_not_regular_are_rejected_with_a_sentence() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        pipe_at(&pipe);
        let socket = dir.path().join("socket");
        let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();

        for (path, kind) in [
            (pipe.as_path(), "a pipe"),
            (&socket, "a socket"),
            (Path::new("/dev/zero"), "a device"),
            (dir.path(), "a directory"),
        ] {
            let why = Opening::named_by_user().at_most(10).read(path).unwrap_err();
            assert_eq!(why.kind(), ErrorKind::InvalidInput);
            assert_eq!(why.to_string(), format!("it is {kind}, not a regular file"));
        }
    }

    #[test]
    fn a_file_that_is_too_large_is_rejected_before_memory_is_allocated() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("sparse");
        File::create(&file).unwrap().set_len(1 << 40).unwrap();
        let why = Opening::named_by_user().at_most(64 << 20).read(&file).unwrap_err();
        assert_eq!(why.to_string(), "it has 1048576 MiB, and at most 64 MiB are read");
        let words = |bytes, most| Refused::TooLong { bytes, most }.to_string();
        assert_eq!(words(MIB + 2, MIB), "it has 2 MiB, and at most 1 MiB are read");
        assert_eq!(words(MIB + 1, MIB), "it has more than 1 MiB, the most that is read");
        assert_eq!(words(200_000, 131_072), "it has 200000 bytes, and at most 131072 are read");
        let unknown = Opening::named_by_user().at_most(10).read(Path::new("/proc/self/status"));
        let why = unknown.unwrap_err().to_string();
        assert_eq!(why, "it has more than 10 bytes, the most that is read");
        let why = Opening::named_by_user().at_least(2 << 40).open(&file).unwrap_err();
        assert_eq!(why.kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_file_found_by_its_name_is_neither_a_link_nor_writable_by_others() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "words").unwrap();
        symlink(&file, &link).unwrap();
        let found = Opening::found(TrustedOwner::Own);
        assert_eq!(found.open(&link).unwrap_err().to_string(), "it is a link, not a regular file");

        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(found.open(&file).is_ok());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o660)).unwrap();
        let why = found.open(&file).unwrap_err();
        assert_eq!(why.to_string(), "others than its owner can write it (mode 0660)");
    }

    #[test]
    fn a_file_of_another_user_is_refused_and_roots_is_trusted_where_stated() {
        let user = rustix::process::geteuid().as_raw();
        let other = user + 1;
        for (trusted, owner, accepted) in [
            (TrustedOwner::Own, user, true),
            (TrustedOwner::Own, other, false),
            (TrustedOwner::OwnOrRoot, 0, true),
            (TrustedOwner::OwnOrRoot, other, false),
            (TrustedOwner::Anyone, other, true),
        ] {
            assert_eq!(check_owner(trusted, owner, 0o640).is_ok(), accepted, "{trusted:?} {owner}");
        }
    }
}
