//! The directory in which processes of one user share objects: buses and rings.
//!
//! | who | directory |
//! |---|---|
//! | root | `/run/onbeat`, which everyone may list and only root may write |
//! | a user | `$XDG_RUNTIME_DIR/onbeat`; without the variable `/run/user/UID/onbeat`; without that `/dev/shm/onbeat-UID` |
//! | anyone with `ONBEAT_RUNTIME_DIR` | that directory, and no other |
//!
//! A user finds root's objects too; root finds no one else's. Every use checks that the directory is no
//! link, belongs to the user (or to root), and that nobody else can write it; names in it are therefore
//! made by trusted processes only. A name of `/dev/shm` can be taken by somebody else before its user
//! comes; he is refused with a sentence then and can name another directory.
//!
//! A file that a loop writes must be in memory: the pages of a file on a disk are written back, and
//! the next store to one of them waits. Where the directory is on a disk, as `/run` of many
//! containers is, such files are in `/dev/shm/onbeat-UID` ([`RuntimeDir::own_in_memory`]).

use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, Mode, OFlags};

use crate::foreign::{Opening, Refused, TrustedOwner, check_owner};

/// Environment variable that names the directory.
pub const VARIABLE: &str = "ONBEAT_RUNTIME_DIR";
/// Root's directory.
const OF_ROOT: &str = "/run/onbeat";
/// Root's directory may be listed; that of a user is private.
const MODE_OF_ROOT: u32 = 0o755;
const MODE_OF_USER: u32 = 0o700;
/// Types of file systems in memory (`include/uapi/linux/magic.h`): tmpfs and ramfs.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// Why there is no directory.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeDirError {
    /// It belongs to another user, or others can write it.
    #[error("{} is not used for shared objects: {why}; name another directory in {VARIABLE}", .path.display())]
    Refused {
        /// The directory.
        path: PathBuf,
        /// The reason.
        why: Refused,
    },
    /// It cannot be created or opened.
    #[error("cannot {what} {}, the directory of shared objects: {source}; name another one in {VARIABLE}", .path.display())]
    System {
        /// What was tried: "create" or "open".
        what: &'static str,
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// A checked directory. Its files are reached through the descriptor, so a path that is replaced later
/// gains nothing.
#[derive(Debug)]
pub struct RuntimeDir {
    path: PathBuf,
    descriptor: OwnedFd,
}

impl RuntimeDir {
    /// Opens this user's directory, and creates it if it does not exist.
    ///
    /// # Errors
    /// [`RuntimeDirError`].
    pub fn own() -> Result<Self, RuntimeDirError> {
        Self::made(own_path())
    }

    /// As [`RuntimeDir::own`], for files that a loop writes: `/dev/shm/onbeat-UID` where the own
    /// directory is on a disk, unless that name is taken by another user. A directory that the user
    /// named is used in any case.
    ///
    /// # Errors
    /// [`RuntimeDirError`].
    pub fn own_in_memory() -> Result<Self, RuntimeDirError> {
        let own = Self::own()?;
        if named(VARIABLE).is_some() || own.is_in_memory() {
            return Ok(own);
        }
        let second = Self::made(in_memory_path(rustix::process::geteuid().as_raw()));
        Ok(second.ok().filter(Self::is_in_memory).unwrap_or(own))
    }

    fn made(path: PathBuf) -> Result<Self, RuntimeDirError> {
        let is_of_root = path == Path::new(OF_ROOT) || path == in_memory_path(0);
        let mode = if is_of_root { MODE_OF_ROOT } else { MODE_OF_USER };
        match DirBuilder::new().mode(mode).create(&path) {
            Err(source) if source.kind() != ErrorKind::AlreadyExists => {
                Err(RuntimeDirError::System { what: "create", path, source })
            }
            made => {
                let directory = Self::open(path)?;
                if made.is_ok() {
                    // The umask can only have removed bits.
                    let _ = rustix::fs::fchmod(&directory.descriptor, Mode::from_raw_mode(mode));
                }
                Ok(directory)
            }
        }
    }

    /// Opens the existing directories in which this user finds objects: the own one, then root's.
    ///
    /// # Errors
    /// [`RuntimeDirError`]: a directory that is missing is left out, one that is refused is an error.
    pub fn existing() -> Result<Vec<Self>, RuntimeDirError> {
        let mut found: Vec<Self> = Self::opened(own_path())?.into_iter().collect();
        if named(VARIABLE).is_none() && !rustix::process::geteuid().is_root() {
            found.extend(Self::opened(OF_ROOT.into())?);
        }
        Ok(found)
    }

    /// As [`RuntimeDir::existing`], for files that a loop writes: each directory is followed by
    /// that of [`RuntimeDir::own_in_memory`]. One that another user has made is left out: nobody
    /// can keep others from their files by taking its name.
    ///
    /// # Errors
    /// As [`RuntimeDir::existing`].
    pub fn existing_in_memory() -> Result<Vec<Self>, RuntimeDirError> {
        let mut found = Self::existing()?;
        if named(VARIABLE).is_some() {
            return Ok(found);
        }

        let user = rustix::process::geteuid().as_raw();
        let own = found.iter().position(|it| it.path == own_path()).map_or(0, |place| place + 1);
        let second = |user| Self::opened(in_memory_path(user)).ok().flatten();
        if own_path() != in_memory_path(user)
            && let Some(directory) = second(user)
        {
            found.insert(own, directory);
        }
        if user != 0 {
            found.extend(second(0));
        }
        Ok(found)
    }

    /// Opens a directory; `None` if it is missing.
    fn opened(path: PathBuf) -> Result<Option<Self>, RuntimeDirError> {
        match Self::open(path) {
            Err(RuntimeDirError::System { source, .. }) if source.kind() == ErrorKind::NotFound => {
                Ok(None)
            }
            opened => opened.map(Some),
        }
    }

    fn is_in_memory(&self) -> bool {
        let of = rustix::fs::fstatfs(&self.descriptor);
        of.is_ok_and(|found| IN_MEMORY.contains(&found.f_type))
    }

    fn open(path: PathBuf) -> Result<Self, RuntimeDirError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened =
            rustix::fs::open(&path, flags, Mode::empty()).map_err(io::Error::from).and_then(
                |descriptor| Ok((File::from(descriptor.try_clone()?).metadata()?, descriptor)),
            );
        let (found, descriptor) = match opened {
            Ok(opened) => opened,
            Err(source) => return Err(RuntimeDirError::System { what: "open", path, source }),
        };

        match check_owner(TrustedOwner::OwnOrRoot, found.uid(), found.mode()) {
            Ok(()) => Ok(Self { path, descriptor }),
            Err(why) => Err(RuntimeDirError::Refused { path, why }),
        }
    }

    /// Returns the path, for sentences.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a path to a name in this directory that is short enough for a socket (108 bytes), and
    /// leads to this directory even if its own path is replaced.
    #[must_use]
    pub fn short_path(&self, name: &str) -> PathBuf {
        Path::new("/proc/self/fd").join(self.descriptor.as_raw_fd().to_string()).join(name)
    }

    /// Returns the names in this directory, in order.
    ///
    /// # Errors
    /// The system's.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.descriptor)? {
            match entry?.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(name) => names.push(name.to_owned()),
            }
        }
        names.sort();
        Ok(names)
    }

    /// Opens a file of this directory.
    ///
    /// # Errors
    /// As [`Opening::open`].
    pub fn open_file(&self, name: &str, opening: &Opening) -> io::Result<File> {
        opening.open_at(self.descriptor.as_fd(), Path::new(name))
    }

    /// Creates a file of this directory for reading and writing.
    ///
    /// # Errors
    /// The system's; [`ErrorKind::AlreadyExists`] if the name is taken.
    pub fn create_file(&self, name: &str, mode: u32) -> io::Result<File> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(
            &self.descriptor,
            name,
            flags,
            Mode::from_raw_mode(mode),
        )?))
    }

    /// Returns whether a name still leads to an opened file.
    #[must_use]
    pub fn leads_to(&self, name: &str, file: &File) -> bool {
        let there = rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW);
        let own = rustix::fs::fstat(file);
        matches!((there, own), (Ok(there), Ok(own)) if (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino))
    }

    /// Gives a file of this directory another name, atomically: whoever opens that name finds what had it
    /// before, or this file.
    ///
    /// # Errors
    /// The system's.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.descriptor, from, &self.descriptor, to)?)
    }

    /// Returns how many bytes of its file system are free for this user.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        rustix::fs::fstatvfs(&self.descriptor)
            .map_or(u64::MAX, |found| found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Removes a name.
    ///
    /// # Errors
    /// The system's.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.descriptor, name, AtFlags::empty())?)
    }
}

impl AsFd for RuntimeDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Returns the path in a variable; an empty one is none.
fn named(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|it| !it.is_empty()).map(PathBuf::from)
}

fn own_path() -> PathBuf {
    path_for(
        rustix::process::geteuid().as_raw(),
        named(VARIABLE),
        named("XDG_RUNTIME_DIR"),
        Path::is_dir,
    )
}

/// Returns the directory of a user, from the two variables and what exists.
fn path_for(
    user: u32,
    named: Option<PathBuf>,
    of_session: Option<PathBuf>,
    exists: impl Fn(&Path) -> bool,
) -> PathBuf {
    if let Some(path) = named {
        return path;
    }
    if user == 0 {
        return OF_ROOT.into();
    }

    let of_system = || Some(PathBuf::from(format!("/run/user/{user}"))).filter(|it| exists(it));
    match of_session.or_else(of_system) {
        Some(parent) => parent.join("onbeat"),
        None => in_memory_path(user),
    }
}

fn in_memory_path(user: u32) -> PathBuf {
    format!("/dev/shm/onbeat-{user}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_has_its_own_directory_and_a_user_that_of_the_session() {
        let path = |user, named: Option<&str>, session: Option<&str>, has_run: bool| {
            path_for(user, named.map(PathBuf::from), session.map(PathBuf::from), |_| has_run)
        };
        assert_eq!(path(0, None, Some("/run/user/7"), true), Path::new("/run/onbeat"));
        assert_eq!(path(7, None, Some("/run/x"), true), Path::new("/run/x/onbeat"));
        assert_eq!(path(7, None, None, true), Path::new("/run/user/7/onbeat"));
        assert_eq!(path(7, None, None, false), Path::new("/dev/shm/onbeat-7"));
        assert_eq!(path(0, Some("/own"), None, true), Path::new("/own"));
    }

    #[test]
    fn files_of_a_loop_are_in_memory_wherever_the_user_named_no_directory() {
        if named(VARIABLE).is_some() {
            return assert!(RuntimeDir::own_in_memory().is_ok(), "as the user wishes");
        }
        let directory = RuntimeDir::own_in_memory().unwrap();
        let is_there = |it: &RuntimeDir| it.path == directory.path;
        assert!(directory.is_in_memory(), "{}", directory.path.display());
        assert!(RuntimeDir::existing_in_memory().unwrap().iter().any(is_there));
    }

    #[test]
    fn a_directory_that_others_can_write_or_that_is_a_link_is_refused() {
        use std::os::unix::fs::{PermissionsExt, symlink};

        let dir = tempfile::tempdir().unwrap();
        let (open, link) = (dir.path().join("open"), dir.path().join("link"));
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
        symlink(&open, &link).unwrap();

        let why = RuntimeDir::open(open.clone()).unwrap_err().to_string();
        assert!(why.contains("others than its owner can write it (mode 0777)"), "{why}");
        assert!(RuntimeDir::open(link).is_err());

        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o700)).unwrap();
        let directory = RuntimeDir::open(open).unwrap();
        let file = directory.create_file("walker:cycle", 0o640).unwrap();
        assert_eq!(directory.names().unwrap(), ["walker:cycle"]);
        assert!(directory.leads_to("walker:cycle", &file));
        directory.remove("walker:cycle").unwrap();
        assert!(!directory.leads_to("walker:cycle", &file));
    }
}
