//! Numbers of a robot file, checked against their valid ranges.

use super::RobotError;

/// Checks the numbers of one table or joint.
#[derive(Clone, Copy)]
pub(super) struct RangeCheck<'t> {
    /// Table, or name of the joint, as in messages.
    pub(super) table: &'t str,
}

impl RangeCheck<'_> {
    /// Requires a number to be valid. `must` is the valid range, in words.
    ///
    /// # Errors
    /// [`RobotError::Range`].
    pub(super) fn require(
        self,
        key: &'static str,
        value: f64,
        is_valid: bool,
        must: &'static str,
    ) -> Result<(), RobotError> {
        if is_valid {
            Ok(())
        } else {
            Err(RobotError::Range { place: self.table.to_owned(), key, value, must })
        }
    }

    pub(super) fn above_0(self, key: &'static str, value: f64) -> Result<(), RobotError> {
        self.require(key, value, value > 0.0 && value.is_finite(), "above 0")
    }

    pub(super) fn finite(self, key: &'static str, value: f64) -> Result<(), RobotError> {
        self.require(key, value, value.is_finite(), "a finite number")
    }

    /// Requires a time in ms to be at most some 11 days.
    pub(super) fn time(self, key: &'static str, ms: f64) -> Result<(), RobotError> {
        self.require(key, ms, (0.0..=1e9).contains(&ms), "0 to 1000000000")
    }
}
