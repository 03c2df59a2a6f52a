//! Object stores: a data set at an address `s3://BUCKET/NAME`, which S3 and stores with its interface take.
//!
//! An object is there whole or not at all, so that it needs no temporary name; the row of `runs` is written last here as well. Absent on
//! purpose: packing, which would need a lock; a copy in a directory is packed.

use std::fmt::Debug;
use std::path::{Path, PathBuf};

/// How an address of an object store begins.
const SCHEME: &str = "s3://";

/// An object store did not do what was asked of it.
#[derive(Debug, thiserror::Error)]
pub enum ObjectsError {
    /// This program has no client.
    #[error(
        "{path} is in an object store, and this onbeat-fleet was built without S3; cargo install --locked --path crates/onbeat-cli --features s3 builds it with"
    )]
    NotBuilt {
        /// The address.
        path: PathBuf,
    },
    /// It is asked for what needs a directory.
    #[error(
        "{path} is in an object store, and only a directory can be packed; copy it: aws s3 sync {path} DIR"
    )]
    NotADirectory {
        /// The address.
        path: PathBuf,
    },
    /// The address has no bucket, or no name in it.
    #[error("{path} is not an address in an object store; write s3://BUCKET/NAME")]
    Address {
        /// The address.
        path: PathBuf,
    },
    /// The URL of the store is not one.
    #[error(
        "AWS_ENDPOINT_URL is \"{endpoint}\", which is not a URL of an object store; write https://HOST"
    )]
    Endpoint {
        /// The variable's value.
        endpoint: String,
    },
    /// A variable of the environment is missing.
    #[error("{variable} is not set; {path} needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")]
    Unset {
        /// The variable.
        variable: &'static str,
        /// The address.
        path: PathBuf,
    },
    /// No answer.
    #[error("cannot {what} {path}: no answer from {endpoint}: {why}")]
    NoAnswer {
        /// The operation.
        what: &'static str,
        /// On which object.
        path: PathBuf,
        /// Which store.
        endpoint: String,
        /// What the client found.
        why: String,
    },
    /// Credentials are wrong, or give no right to do this.
    #[error(
        "cannot {what} {path}: {endpoint} refuses it ({code}); AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION say who asks"
    )]
    Refused {
        /// The operation.
        what: &'static str,
        /// On which object.
        path: PathBuf,
        /// Which store.
        endpoint: String,
        /// The store's word for it.
        code: String,
    },
    /// There is no such bucket.
    #[error("{endpoint} has no bucket {bucket}; create it, or name another one")]
    NoBucket {
        /// Which store.
        endpoint: String,
        /// Its name.
        bucket: String,
    },
    /// Another answer than those above.
    #[error("cannot {what} {path}: {endpoint} answered {status} {code}")]
    Answer {
        /// The operation.
        what: &'static str,
        /// On which object.
        path: PathBuf,
        /// Which store.
        endpoint: String,
        /// HTTP's status.
        status: u16,
        /// The store's word for it.
        code: String,
    },
}

/// The files of a data set in an object store, by their names below its address.
pub trait Objects: Debug + Send + Sync {
    /// Lists the names that begin so, the first thousand of them.
    ///
    /// # Errors
    /// [`ObjectsError`].
    fn names(&self, beginning: &str) -> Result<Vec<String>, ObjectsError>;

    /// Returns what is in an object; `None` if there is none of this name.
    ///
    /// # Errors
    /// [`ObjectsError`].
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, ObjectsError>;

    /// Writes an object whole or not at all, in the place of one that has its name.
    ///
    /// # Errors
    /// [`ObjectsError`].
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), ObjectsError>;

    /// Removes an object, if it is there.
    ///
    /// # Errors
    /// [`ObjectsError`].
    fn remove(&self, name: &str) -> Result<(), ObjectsError>;
}

/// Returns the store of an address; `None` for a directory.
pub(crate) fn of_address(root: &Path) -> Result<Option<Box<dyn Objects>>, ObjectsError> {
    if !is_address(root) {
        return Ok(None);
    }
    #[cfg(feature = "s3")]
    return Ok(Some(Box::new(crate::s3::Bucket::from_environment(root)?)));
    #[cfg(not(feature = "s3"))]
    Err(ObjectsError::NotBuilt { path: root.to_owned() })
}

/// Whether this is an address of an object store, and not a directory.
pub(crate) fn is_address(root: &Path) -> bool {
    root.to_str().is_some_and(|text| text.starts_with(SCHEME))
}

/// Bucket and name of an address.
#[cfg(feature = "s3")]
pub(crate) fn parts_of(root: &Path) -> Option<(&str, &str)> {
    let (bucket, name) = root.to_str()?.strip_prefix(SCHEME)?.split_once('/')?;
    let name = name.trim_matches('/');
    (!bucket.is_empty() && !name.is_empty()).then_some((bucket, name))
}
