//! The journal is for its user alone: what stands in it is written to the machine.
//!
//! Directories and files are made 0700 and 0600 whatever the umask is. What belongs to somebody else, or can be written by others, is
//! refused: root must not play what an ordinary user has written, nor a user what another one has.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use super::error::TuneError;
use super::journal::journal_error;

const DIRECTORY: u32 = 0o700;
const FILE: u32 = 0o600;
/// Written by the group or by all.
const BY_OTHERS: u32 = 0o022;

/// Makes a directory with all that lead to it, and checks that it is this user's.
pub(super) fn make_directory(path: &Path) -> Result<(), TuneError> {
    let missing: Vec<&Path> = path.ancestors().take_while(|one| !one.as_os_str().is_empty() && !one.exists()).collect();
    for one in missing.into_iter().rev() {
        let made = match DirBuilder::new().mode(DIRECTORY).create(one) {
            // The umask can only have taken away.
            Ok(()) => fs::set_permissions(one, Permissions::from_mode(DIRECTORY)),
            // By another onbeat that starts now.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && one.is_dir() => Ok(()),
            Err(error) => Err(error),
        };
        made.map_err(|source| journal_error("create", path, source))?;
    }

    check_directory(path)
}

/// Refuses a directory that is not this user's alone to write.
pub(super) fn check_directory(path: &Path) -> Result<(), TuneError> {
    let found = fs::metadata(path).map_err(|source| journal_error("read", path, source))?;
    check(path, found.uid(), found.mode())
}

/// Opens a file of the journal's directory, made if need be, for reading and writing.
pub(super) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.read(true).mode(FILE).custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)?;
    file.set_permissions(Permissions::from_mode(FILE))?;
    Ok(file)
}

/// The bytes of a journal, refused when it is not this user's alone to write.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, TuneError> {
    let error = |source| journal_error("read", path, source);
    // What is no plain file, such as a pipe, must not keep the reader waiting.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(error)?;
    let found = file.metadata().map_err(error)?;
    check(path, found.uid(), found.mode())?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(error)?;

    Ok(bytes)
}

fn check(path: &Path, owner: u32, mode: u32) -> Result<(), TuneError> {
    let user = rustix::process::geteuid().as_raw();
    if owner != user {
        return Err(TuneError::NotOwn { path: path.to_owned(), owner, user });
    }
    if mode & BY_OTHERS != 0 {
        return Err(TuneError::OpenToOthers { path: path.to_owned(), mode: mode & 0o7777 });
    }

    Ok(())
}
