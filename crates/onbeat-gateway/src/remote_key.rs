//! The key by which a robot is commanded from other computers: 32 random bytes as 64 hexadecimal digits.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use onbeat_host::foreign::{Opening, TrustedOwner};
use serde::Deserialize;

use super::bridge::bytes_of_hex;
use super::error::GatewayError;

const KEY: usize = 32;
/// Bits of a mode by which others than the owner may read.
const BY_OTHERS: u32 = 0o077;

/// Where to create a key.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyOrder {
    /// The file; an existing one is refused.
    pub out: std::path::PathBuf,
}

/// Creates a key that its user alone can read.
///
/// # Errors
/// [`GatewayError::Key`], also for a file that exists.
pub fn create_key(order: &KeyOrder) -> Result<(), GatewayError> {
    let failed = |why: io::Error| key_error(&order.out, why.to_string());
    let mut key = [0; KEY];
    let drawn = rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty());
    if drawn.map_err(|why| failed(why.into()))? != KEY {
        return Err(failed(io::ErrorKind::UnexpectedEof.into()));
    }
    let text: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(&order.out).map_err(failed)?;
    file.write_all(format!("{text}\n").as_bytes()).and_then(|()| file.sync_all()).map_err(failed)
}

/// Reads a key; whoever can read it can move the robot, so a file that others can read is refused.
pub(super) fn read_key(path: &Path) -> Result<Vec<u8>, GatewayError> {
    let opening = Opening::found(TrustedOwner::OwnOrRoot).at_most(1024);
    let text = opening.text(path).map_err(|why| key_error(path, why.to_string()))?;
    let mode = opening.open(path).and_then(|file| file.metadata());
    let mode = mode.map_err(|why| key_error(path, why.to_string()))?.mode() & 0o777;
    if mode & BY_OTHERS != 0 {
        let why = format!("others can read it (mode {mode:04o}); `chmod 600` it");
        return Err(key_error(path, why));
    }
    let key = bytes_of_hex(text.trim()).ok_or_else(|| {
        let why = "it does not have 64 hexadecimal digits; `onbeat message key FILE` creates one";
        key_error(path, why.to_owned())
    })?;
    Ok(key.to_vec())
}

fn key_error(path: &Path, why: String) -> GatewayError {
    GatewayError::Key { path: path.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_created_once_for_its_user_alone_and_read_from_such_a_file_only() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("robot.key");
        create_key(&KeyOrder { out: out.clone() }).unwrap();
        let key = read_key(&out).unwrap();
        assert_eq!(key.len(), KEY);
        assert!(create_key(&KeyOrder { out: out.clone() }).is_err(), "it exists");
        assert_eq!(read_key(&out).unwrap(), key);

        for mode in [0o644, 0o640, 0o602] {
            set_permissions(&out, Permissions::from_mode(mode)).unwrap();
            assert!(read_key(&out).is_err(), "{mode:o}");
        }
        set_permissions(&out, Permissions::from_mode(0o600)).unwrap();
        for wrong in ["", "00", &"0".repeat(63), &"g".repeat(64), &"0".repeat(66)] {
            std::fs::write(&out, wrong).unwrap();
            assert!(read_key(&out).is_err(), "{wrong}");
        }
        assert!(read_key(folder.path()).is_err());
    }
}
