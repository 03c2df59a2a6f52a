//! Only its user may read and write the journal, because undo writes its content to the machine.
//!
//! Directories are created with mode 0700 and files with 0600, independent of the umask. A file
//! that belongs to another user, or that others can write, is refused: root must not execute what
//! an ordinary user has written.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use onbeat_host::foreign::{Opening, Refused, TrustedOwner, check_owner};
use rustix::fs::OFlags;

use super::error::{TuneError, journal_error};

const DIRECTORY: u32 = 0o700;
const FILE: u32 = 0o600;
/// Longest journal that is read, in bytes; a bench of a day writes less than one MiB.
const LONGEST: u64 = 64 << 20;

/// Creates a directory with its parents, and checks that it is this user's.
pub(super) fn make_directory(path: &Path) -> Result<(), TuneError> {
    let missing: Vec<&Path> =
        path.ancestors().take_while(|one| !one.as_os_str().is_empty() && !one.exists()).collect();
    for one in missing.into_iter().rev() {
        let made = match DirBuilder::new().mode(DIRECTORY).create(one) {
            // The umask can only have removed bits.
            Ok(()) => fs::set_permissions(one, Permissions::from_mode(DIRECTORY)),
            // Created by another onbeat at the same time.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && one.is_dir() => Ok(()),
            Err(error) => Err(error),
        };
        made.map_err(|source| journal_error("create", path, source))?;
    }

    check_directory(path)
}

/// Refuses a directory that another user owns or can write.
pub(super) fn check_directory(path: &Path) -> Result<(), TuneError> {
    let found = fs::metadata(path).map_err(|source| journal_error("read", path, source))?;
    check(path, found.uid(), found.mode())
}

/// Opens a file of the journal's directory for reading and writing, and creates it if necessary.
pub(super) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options
        .read(true)
        .mode(FILE)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)?;
    file.set_permissions(Permissions::from_mode(FILE))?;
    Ok(file)
}

/// Reads a journal, unless another user owns it or can write it.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, TuneError> {
    let error = |source| journal_error("read", path, source);
    let opening = Opening::found(TrustedOwner::Anyone).at_most(LONGEST);
    let file = opening.open(path).map_err(error)?;
    let found = file.metadata().map_err(error)?;
    check(path, found.uid(), found.mode())?;
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes).map_err(error)?;

    Ok(bytes)
}

fn check(path: &Path, owner: u32, mode: u32) -> Result<(), TuneError> {
    check_owner(TrustedOwner::Own, owner, mode).map_err(|why| match why {
        Refused::OtherOwner { owner, user } => {
            TuneError::NotOwn { path: path.to_owned(), owner, user }
        }
        Refused::WritableByOthers { mode } => {
            TuneError::OpenToOthers { path: path.to_owned(), mode }
        }
        other => journal_error("read", path, other.into()),
    })
}
