//! Why a value is missing.

use std::io;

use super::host_tree::is_absent;

/// Why a value is missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoValue {
    /// The thing does not exist here, or does not matter here.
    #[error("{0}")]
    NotApplicable(String),
    /// It could not be read, or not with certainty.
    #[error("{0}")]
    Unknown(String),
}

impl NoValue {
    /// Returns the reason that an error of a read is: [`Self::Unknown`], with what would help.
    #[must_use]
    pub fn from_error(path: &str, error: &io::Error) -> Self {
        Self::Unknown(match error.kind() {
            _ if is_absent(error) => format!("{path} does not exist"),
            io::ErrorKind::PermissionDenied => format!(
                "{path} cannot be read without root, nor by root in a container or under lockdown"
            ),
            _ => {
                let text = error.to_string();
                let words = text.split(" (os error").next().unwrap_or_default();
                format!("cannot read {path}: {words}")
            }
        })
    }
}
