//! Settings of an image.

use super::joint::Joint;
use super::sharing::Sharing;

/// Whether the exchange wakes processes that wait for the next cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waking {
    /// Never: waiting processes poll every 50 µs, and the exchange makes no system call.
    #[default]
    Never,
    /// If a process waits, with one system call in that cycle.
    WhenWaiting,
}

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
    /// Whether waiting readers are woken.
    pub waking: Waking,
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
            waking: Waking::default(),
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
