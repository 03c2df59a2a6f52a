//! The onbeat that holds the lock on the journals.

use std::fmt;

use super::utc::utc;

/// The onbeat that changes this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process; 0: unknown.
    pub pid: i32,
    /// Its purpose, such as `bench`.
    pub what: String,
    /// The command as typed, and its start in seconds since 1970; `None` without a readable
    /// journal.
    pub began: Option<(String, u64)>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.began {
            Some((command, at)) => write!(f, "pid {}, `{command}`, since {}", self.pid, utc(*at)),
            None => write!(f, "pid {}, {}", self.pid, self.what),
        }
    }
}
