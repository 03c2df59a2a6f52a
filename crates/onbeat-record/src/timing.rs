//! How the loop of a run was timed.

use serde::{Deserialize, Serialize};

/// How a loop waited for its releases, from the words of [`Timing::wait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitKind {
    /// Slept until the release.
    Sleep,
    /// Slept for an interval that counts from the end of the cycle.
    Relative,
    /// As `Relative`, and spun at its end.
    RelativeSpin,
    /// Spun before the release.
    Spin,
}

impl WaitKind {
    /// Whether the loop spun.
    #[must_use]
    pub const fn spins(self) -> bool {
        matches!(self, Self::Spin | Self::RelativeSpin)
    }

    /// Whether its releases were on no grid.
    #[must_use]
    pub const fn is_relative(self) -> bool {
        matches!(self, Self::Relative | Self::RelativeSpin)
    }
}

impl Timing {
    /// Returns how the loop waited.
    #[must_use]
    pub fn wait_kind(&self) -> WaitKind {
        match self.wait.split('=').next() {
            Some("sleep") => WaitKind::Sleep,
            Some("relative") => WaitKind::Relative,
            Some("relative-spin") => WaitKind::RelativeSpin,
            _ => WaitKind::Spin,
        }
    }
}

/// How the loop was timed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Period T, in nanoseconds.
    pub period_ns: u64,
    /// Phase `r_0 mod T` of the first block, in nanoseconds.
    pub phase_ns: u64,
    /// Whether the phase was chosen to avoid the kernel's tick, whose own phase changes with each
    /// boot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub avoids_tick: bool,
    /// Deadline D, in nanoseconds after the release.
    pub deadline_ns: u64,
    /// Planned work per cycle, in nanoseconds.
    pub work_ns: u64,
    /// The wait, as typed: `sleep`, `spin=50us`, `adaptive=300us`, `relative`,
    /// `relative-spin=50us`.
    pub wait: String,
    /// The overrun policy, as typed: `skip`, `catch-up=3`, `stop`.
    pub on_overrun: String,
    /// CPU that the loop was bound to; `None` if it was not bound.
    pub cpu: Option<u32>,
    /// `SCHED_FIFO` priority; 0 for an ordinary thread.
    pub priority: u32,
    /// With edges that are answered: from taking an edge to the release of its answer, in
    /// nanoseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub delay_ns: u64,
}

/// Leaves a number out of a run file where it is 0.
#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes references.
pub(super) const fn is_zero(number: &u64) -> bool {
    *number == 0
}
