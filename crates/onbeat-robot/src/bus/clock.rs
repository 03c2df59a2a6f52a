//! Keeps the loop's releases in step with the reference clock of the segment.
//!
//! In each cycle the frame brings the reference clock's time at its passing. How far that lies from a multiple of the period, less the
//! loop's own delay between release and sending, is how far the releases are from the reference's grid. A proportional-integral
//! controller moves them: the integral part becomes the difference of the two clocks' rates. The MainDevice's time is never written into
//! the reference.

/// Share of the error that is made good in a cycle: 1/32.
const PROPORTIONAL: i64 = 32;
/// And what each error adds to the rate: 1/1024.
const INTEGRAL: i64 = 1024;
/// Within this error for so many cycles in a row, the loop is locked.
const LOCKED_WITHIN_NS: i64 = 10_000;
const LOCKED_AFTER: u32 = 50;
/// Beyond this one it is not, when it is so for so many cycles in a row: a frame that left late says nothing.
const UNLOCKED_BEYOND_NS: i64 = 100_000;
const UNLOCKED_AFTER: u32 = 3;
/// While it is locked, a cycle counts as no further off than this, for the same reason.
const FELT_AT_MOST_NS: i64 = 20_000;

/// What a cycle brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// As before.
    Same,
    /// From now on the loop is in step.
    Locked,
    /// From now on it is not, by so many ns.
    Unlocked(i64),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Lock {
    /// In 1/1024 ns per cycle.
    rate: i64,
    within: u32,
    beyond: u32,
    locked: bool,
}

impl Lock {
    /// How far later releases are to move, in ns, later for positive values.
    ///
    /// `reference_ns` is the reference clock's time when the frame passed it, `delay_ns` the time from the release to that passing.
    pub(super) fn follow(&mut self, reference_ns: u64, delay_ns: u64, period_ns: u64) -> (i64, Step) {
        let period = period_ns as i64;
        let phase = (reference_ns.wrapping_sub(delay_ns) % period_ns.max(1)) as i64;
        // How late the release was on the reference's grid, within half a period.
        let late = if phase > period / 2 { phase - period } else { phase };
        let felt = if self.locked { late.clamp(-FELT_AT_MOST_NS, FELT_AT_MOST_NS) } else { late };
        self.rate = (self.rate + felt).clamp(-period * INTEGRAL / 1000, period * INTEGRAL / 1000);
        let correction = -(felt / PROPORTIONAL + self.rate / INTEGRAL);
        self.within = if late.abs() <= LOCKED_WITHIN_NS { self.within.saturating_add(1) } else { 0 };
        self.beyond = if late.abs() > UNLOCKED_BEYOND_NS { self.beyond + 1 } else { 0 };
        let step = match self.locked {
            false if self.within >= LOCKED_AFTER => Step::Locked,
            true if self.beyond >= UNLOCKED_AFTER => Step::Unlocked(late),
            _ => Step::Same,
        };

        self.locked = match step {
            Step::Same => self.locked,
            Step::Locked => true,
            Step::Unlocked(_) => false,
        };

        (correction, step)
    }

    /// Whether the loop is in step.
    pub(super) fn is_locked(&self) -> bool {
        self.locked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop whose clock runs differently by `ppb`, with frames that pass the reference 20 µs late and a bit more by turns.
    fn errors_ns(ppb: i64, cycles: u64) -> Vec<i64> {
        let (mut lock, period) = (Lock::default(), 1_000_000);
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
    fn releases_come_within_microseconds_of_the_reference_whatever_the_quartz() {
        for ppb in [-300_000, -50_000, 0, 80_000, 300_000] {
            let errors = errors_ns(ppb, 3_000);
            let worst = errors[1_000..].iter().map(|error| error.abs()).max().unwrap();
            assert!(worst < 10_000, "{ppb} ppb: {worst} ns, with 6 us of jitter");
        }
    }

    #[test]
    fn a_clock_that_jumps_is_told_once_and_followed() {
        let mut lock = Lock::default();
        let mut steps = Vec::new();
        let mut release = 0_i64;
        for cycle in 0..4_000_i64 {
            let jump = if cycle < 1_000 { 0 } else { 300_000 };
            let reference = (release + jump) as u64;
            let (correction, step) = lock.follow(reference, 0, 1_000_000);
            steps.extend((step != Step::Same).then_some((cycle, step)));
            release += 1_000_000 + correction;
        }

        assert!(matches!(steps[..], [(_, Step::Locked), (1_002, Step::Unlocked(_)), (_, Step::Locked)]), "{steps:?}");
    }
}
