//! The miss ladder: leads from missed cycles to a safe stop, by a leaky bucket.
//!
//! Each missed cycle (a skipped release, or inputs that are not new) adds one miss to the bucket;
//! `forget` consecutive good cycles remove one. The content of the bucket, not the total number of
//! misses, determines the rung:
//!
//! | rung | condition | effect |
//! |---|---|---|
//! | run | the bucket is below `degrade_at`, and this cycle is good | follows the trajectory |
//! | hold | the same, and this cycle is a miss | keeps the last target; trajectory time continues |
//! | degrade | from `degrade_at` misses until the bucket is empty | trajectory time runs at `degraded_speed`; holds in missed cycles |
//! | safe stop | from `stop_at` misses, or by a fault | brakes to rest, quick stop, power off; until an explicit reset |

use serde::{Deserialize, Serialize};

/// Rung of the miss ladder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Rung {
    /// No recent misses.
    #[default]
    Run = 0,
    /// This cycle is a miss.
    Hold = 1,
    /// Too many misses: trajectory time is slowed down.
    Degrade = 2,
    /// At rest or stopping, until a reset.
    SafeStop = 3,
}

/// Thresholds of the miss ladder, as in `[robot.ladder]`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Thresholds {
    /// Misses in the bucket at which the robot degrades.
    pub degrade_at: u32,
    /// Misses in the bucket at which the robot stops.
    pub stop_at: u32,
    /// Consecutive good cycles that remove one miss.
    #[serde(rename = "forget_cycles")]
    pub forget: u32,
    /// Number of cycles after the first good one in which misses are not counted.
    #[serde(rename = "warmup_cycles")]
    pub warmup: u32,
    /// Speed of trajectory time while degraded, 0 to 1.
    pub degraded_speed: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { degrade_at: 3, stop_at: 10, forget: 50, warmup: 100, degraded_speed: 0.3 }
    }
}

/// Bucket and rung.
#[derive(Clone, Debug)]
pub(crate) struct Ladder {
    thresholds: Thresholds,
    misses: u32,
    good_in_a_row: u32,
    warmup_left: u32,
    degraded: bool,
    stopped: bool,
    rung: Rung,
}

impl Ladder {
    pub(crate) fn new(thresholds: Thresholds) -> Self {
        Self {
            thresholds,
            misses: 0,
            good_in_a_row: 0,
            warmup_left: thresholds.warmup,
            degraded: false,
            stopped: false,
            rung: Rung::Run,
        }
    }

    pub(crate) fn rung(&self) -> Rung {
        self.rung
    }

    /// Returns the number of misses in the bucket.
    pub(crate) fn misses(&self) -> u32 {
        self.misses
    }

    /// Records a cycle with this number of misses; returns the rung.
    pub(crate) fn take(&mut self, misses: u32) -> Rung {
        if self.warmup_left > 0 {
            self.warmup_left -= 1;
        } else if misses > 0 {
            self.good_in_a_row = 0;
            // A higher value would only delay the possible reset.
            self.misses = self.misses.saturating_add(misses).min(self.thresholds.stop_at);
        }

        if misses == 0 && self.misses > 0 {
            self.good_in_a_row += 1;
            if self.good_in_a_row == self.thresholds.forget {
                (self.misses, self.good_in_a_row) = (self.misses - 1, 0);
            }
        }

        self.stopped |= self.misses >= self.thresholds.stop_at;
        self.degraded =
            self.misses >= self.thresholds.degrade_at || (self.degraded && self.misses > 0);
        self.rung = match (self.stopped, self.degraded) {
            (true, _) => Rung::SafeStop,
            (_, true) => Rung::Degrade,
            _ if misses > 0 => Rung::Hold,
            _ => Rung::Run,
        };

        self.rung
    }

    /// Enters the safe stop immediately.
    pub(crate) fn stop(&mut self) {
        (self.stopped, self.rung) = (true, Rung::SafeStop);
    }

    /// Leaves the safe stop, unless the bucket would degrade the robot at once. Returns whether it
    /// did.
    pub(crate) fn reset(&mut self) -> bool {
        if self.misses >= self.thresholds.degrade_at {
            return false;
        }
        (self.stopped, self.degraded, self.misses, self.good_in_a_row) = (false, false, 0, 0);
        self.rung = Rung::Run;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THRESHOLDS: Thresholds =
        Thresholds { degrade_at: 3, stop_at: 5, forget: 4, warmup: 0, degraded_speed: 0.5 };

    fn rungs(ladder: &mut Ladder, cycles: &[u32]) -> Vec<Rung> {
        cycles.iter().map(|&misses| ladder.take(misses)).collect()
    }

    #[test]
    fn a_single_miss_holds_for_one_cycle_and_is_forgotten() {
        let mut ladder = Ladder::new(THRESHOLDS);
        assert_eq!(
            rungs(&mut ladder, &[0, 1, 0, 0, 0, 0]),
            [Rung::Run, Rung::Hold, Rung::Run, Rung::Run, Rung::Run, Rung::Run]
        );
        assert_eq!(ladder.misses(), 0);
    }

    #[test]
    fn rare_misses_never_add_up() {
        let mut ladder = Ladder::new(THRESHOLDS);
        for _ in 0..10_000 {
            assert_eq!(ladder.take(1), Rung::Hold);
            assert!(rungs(&mut ladder, &[0; 4]).iter().all(|&rung| rung == Rung::Run));
        }
    }

    #[test]
    fn three_misses_degrade_until_the_bucket_is_empty() {
        let mut ladder = Ladder::new(THRESHOLDS);
        assert_eq!(rungs(&mut ladder, &[1, 1, 1]), [Rung::Hold, Rung::Hold, Rung::Degrade]);
        let after = rungs(&mut ladder, &[0; 12]);
        assert!(
            after[..11].iter().all(|&rung| rung == Rung::Degrade) && after[11] == Rung::Run,
            "{after:?}"
        );
    }

    #[test]
    fn five_misses_stop_until_a_reset_despite_good_cycles() {
        let mut ladder = Ladder::new(THRESHOLDS);
        assert_eq!(ladder.take(5), Rung::SafeStop);
        assert!(!ladder.reset(), "the bucket is full");
        assert!(rungs(&mut ladder, &[0; 100]).iter().all(|&rung| rung == Rung::SafeStop));
        assert!(ladder.reset());
        assert_eq!(ladder.take(0), Rung::Run);
    }

    #[test]
    fn the_first_cycles_are_not_counted() {
        let mut ladder = Ladder::new(Thresholds { warmup: 3, ..THRESHOLDS });
        assert_eq!(rungs(&mut ladder, &[9, 9, 9, 1]), [Rung::Hold; 4]);
        assert_eq!(ladder.misses(), 1);
    }
}
