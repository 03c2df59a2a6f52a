//! Settings of an image.

use std::time::Duration;

use super::joint::Joint;
use super::sharing::Sharing;

/// Settings of an image.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageSettings {
    /// How processes are kept from interfering with each other.
    pub sharing: Sharing,
    /// Number of cycles for which the owner's outputs are sent after a refresh; then the safe
    /// outputs are.
    pub stale_after_cycles: u32,
    /// Outputs without an owner; empty for zeros.
    pub safe_outputs: Vec<u8>,
    /// Group whose members may use the bus beside its user and root; `None` for no group.
    pub group: Option<u32>,
    /// Maximum time for which an exchange waits for the lock, in the two kinds of sharing with one.
    /// Then it publishes without the lock, and does not wait again until it gets it.
    pub lock_wait: Duration,
    /// Joints that follow goals; empty if none do.
    pub joints: Vec<Joint>,
    /// Maximum age of a goal in ns, published to the commander.
    pub goal_age_ns: u64,
}

impl Default for ImageSettings {
    fn default() -> Self {
        Self {
            sharing: Sharing::default(),
            stale_after_cycles: 10,
            safe_outputs: Vec::new(),
            group: None,
            lock_wait: Duration::from_millis(1),
            joints: Vec::new(),
            goal_age_ns: 100_000_000,
        }
    }
}

impl From<Sharing> for ImageSettings {
    fn from(sharing: Sharing) -> Self {
        Self { sharing, ..Self::default() }
    }
}
