//! Locks the loop's releases to the reference clock of the segment.
//!
//! Each cycle reads the reference clock when the frame passes it. The remainder of that time modulo
//! the period, minus the delay between release and sending, is the error of the release. A
//! proportional-integral controller shifts the following releases; its integral part converges to
//! the difference of the two clock rates. The MainDevice never writes its own time to the reference
//! clock.

/// Fraction of the error corrected in one cycle: 1/32.
const PROPORTIONAL: i64 = 32;
/// Fraction of the error added to the rate: 1/1024.
const INTEGRAL: i64 = 1024;
/// The loop is locked after this number of consecutive cycles within this error.
const LOCKED_WITHIN_NS: i64 = 10_000;
const LOCKED_AFTER: u32 = 50;
/// The lock is lost after this number of consecutive cycles beyond this error; a single frame sent
/// late does not matter.
const UNLOCKED_BEYOND_NS: i64 = 100_000;
const UNLOCKED_AFTER: u32 = 3;
/// While locked, errors are clamped to this, for the same reason.
const MAX_ERROR_NS: i64 = 20_000;

/// Change of the lock in a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockChange {
    /// No change.
    Same,
    /// The loop is locked now.
    Locked,
    /// The lock is lost; the error in ns.
    Unlocked(i64),
}

#[derive(Clone, Debug, Default)]
pub(super) struct ClockSync {
    /// In 1/1024 ns per cycle.
    rate: i64,
    within: u32,
    beyond: u32,
    locked: bool,
}

impl ClockSync {
    /// Returns the shift of later releases in ns, positive for later, and the change of the lock.
    ///
    /// `reference_ns` is the reference time when the frame passed the reference clock, `delay_ns`
    /// the time from the release to then.
    pub(super) fn follow(
        &mut self,
        reference_ns: u64,
        delay_ns: u64,
        period_ns: u64,
    ) -> (i64, LockChange) {
        let period = period_ns as i64;
        let phase = (reference_ns.wrapping_sub(delay_ns) % period_ns.max(1)) as i64;
        // Error of the release relative to the reference clock, within half a period.
        let late = if phase > period / 2 { phase - period } else { phase };
        let error = if self.locked { late.clamp(-MAX_ERROR_NS, MAX_ERROR_NS) } else { late };
        self.rate = (self.rate + error).clamp(-period * INTEGRAL / 1000, period * INTEGRAL / 1000);
        let correction = -(error / PROPORTIONAL + self.rate / INTEGRAL);
        self.within =
            if late.abs() <= LOCKED_WITHIN_NS { self.within.saturating_add(1) } else { 0 };
        self.beyond = if late.abs() > UNLOCKED_BEYOND_NS { self.beyond + 1 } else { 0 };
        let step = match self.locked {
            false if self.within >= LOCKED_AFTER => LockChange::Locked,
            true if self.beyond >= UNLOCKED_AFTER => LockChange::Unlocked(late),
            _ => LockChange::Same,
        };

        self.locked = match step {
            LockChange::Same => self.locked,
            LockChange::Locked => true,
            LockChange::Unlocked(_) => false,
        };

        (correction, step)
    }

    /// Returns whether the loop is locked.
    pub(super) fn is_locked(&self) -> bool {
        self.locked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a loop whose clock runs faster by `ppb`, with frames that pass the reference 20 µs
    /// late plus up to 6 µs of jitter.
    fn errors_ns(ppb: i64, cycles: u64) -> Vec<i64> {
        let mut lock = ClockSync::default();
        let period = 1_000_000;
        let mut release = 377_000_i64;
        (0..cycles)
            .map(|cycle| {
                let jitter = (cycle % 7) as i64 * 1_000;
                let passing = release + 20_000 + jitter;
                let reference = (passing + passing / 1_000_000 * ppb / 1_000) as u64;
                let (correction, _) = lock.follow(reference, 20_000, period as u64);
                release += period + correction;
                let error = (reference as i64 - 20_000).rem_euclid(period);

                if error > period / 2 { error - period } else { error }
            })
            .collect()
    }

    #[test]
    fn releases_lock_within_microseconds_for_any_clock_rate() {
        for ppb in [-300_000, -50_000, 0, 80_000, 300_000] {
            let errors = errors_ns(ppb, 3_000);
            let worst = errors[1_000..].iter().map(|error| error.abs()).max().unwrap();
            assert!(worst < 10_000, "{ppb} ppb: {worst} ns, with 6 us of jitter");
        }
    }

    #[test]
    fn a_clock_that_jumps_is_reported_once_and_followed() {
        let mut lock = ClockSync::default();
        let mut steps = Vec::new();
        let mut release = 0_i64;
        for cycle in 0..4_000_i64 {
            let jump = if cycle < 1_000 { 0 } else { 300_000 };
            let reference = (release + jump) as u64;
            let (correction, step) = lock.follow(reference, 0, 1_000_000);
            steps.extend((step != LockChange::Same).then_some((cycle, step)));
            release += 1_000_000 + correction;
        }

        assert!(
            matches!(
                steps[..],
                [
                    (_, LockChange::Locked),
                    (1_002, LockChange::Unlocked(_)),
                    (_, LockChange::Locked)
                ]
            ),
            "{steps:?}"
        );
    }
}
