//! Whether root writes runs into a directory.
//!
//! Where root measures in somebody else's directory, that user can have prepared `onbeat-runs`: as a link
//! to a directory of root's, or as a directory whose files are exchanged meanwhile.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{RunDirError, USUAL_OUT, failed};

/// Checks the directory for runs, where root is going to write and the directory exists: it must be root's
/// or of the user who has called sudo. Links are followed where the user named them, and such a user made
/// them.
///
/// # Errors
/// [`RunDirError::UsualLink`], [`RunDirError::OtherOwner`], [`RunDirError::System`].
pub(super) fn check(out: &Path) -> Result<(), RunDirError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    check_for_root(out, onbeat_host::foreign::caller_of_sudo())
}

fn check_for_root(out: &Path, of_sudo: Option<u32>) -> Result<(), RunDirError> {
    let trusted = |owner: u32| match owner {
        _ if owner == 0 || Some(owner) == of_sudo => Ok(()),
        owner => Err(RunDirError::OtherOwner { path: out.to_owned(), owner }),
    };
    let named = match fs::symlink_metadata(out) {
        Ok(named) => named,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(why) => return Err(failed("check", out)(why)),
    };
    if named.is_symlink() && out == Path::new(USUAL_OUT) {
        return Err(RunDirError::UsualLink { path: out.to_owned() });
    }
    trusted(named.uid())?;
    trusted(fs::metadata(out).map_err(failed("check", out))?.uid())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    #[test]
    fn root_writes_into_directories_of_its_own_and_of_the_user_who_called_sudo() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can give a directory to another user");
            return;
        }
        let scratch = tempfile::tempdir().unwrap();
        let own = scratch.path().join("own");
        let of_other = scratch.path().join("other");
        fs::create_dir(&own).unwrap();
        fs::create_dir(&of_other).unwrap();
        chown(&of_other, Some(65_534), Some(65_534)).unwrap();
        let link = scratch.path().join("link");
        symlink(&own, &link).unwrap();

        assert!(check_for_root(&scratch.path().join("new"), None).is_ok());
        assert!(check_for_root(&own, None).is_ok());
        assert!(check_for_root(&link, None).is_ok(), "named, and made by root");
        assert!(check_for_root(&of_other, Some(65_534)).is_ok());
        let why = check_for_root(&of_other, None).unwrap_err().to_string();
        assert!(why.contains("belongs to user 65534") && why.contains("--out"), "{why}");

        std::os::unix::fs::lchown(&link, Some(65_534), Some(65_534)).unwrap();
        assert!(matches!(
            check_for_root(&link, None),
            Err(RunDirError::OtherOwner { owner: 65_534, .. })
        ));
    }
}
