//! What disturbs a cycle from inside the loop.

use onbeat_rt::Cycle;

use super::log::DisturbanceRecord;

/// A way to disturb a cycle from inside the loop.
pub(super) trait DisturbCycle: Send + std::fmt::Debug {
    /// Disturbs the cycle for `for_ns` nanoseconds; `None` if it was not possible. Called in the
    /// loop's thread: makes no system call beyond the fault itself.
    fn disturb(&mut self, cycle: &Cycle, for_ns: u64) -> Option<DisturbanceRecord>;
}
