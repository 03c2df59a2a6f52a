//! Whether a mode keeps time or counts cycles.
//!
//! One loop at one period on an unbroken grid cannot show it: there a number of seconds is a number
//! of cycles. One whose cycles were not served evenly can: releases skipped, or pauses between
//! blocks.

use serde::{Deserialize, Serialize};

use super::Mode;

/// Periods on the two axes that agree within this are the same.
const SAME: f64 = 0.05;
/// How much more often a mode must be where one axis has it than where the other has.
const CLEARER: f64 = 1.2;

/// What a mode is periodic in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tied {
    /// Periodic in time.
    Time,
    /// Periodic in the cycles that the loop served.
    Cycles,
    /// Undecided: the cycles of the run were as even as time.
    #[default]
    Undecided,
}

/// Modes found on both axes of one run, each kept where it is clearer. `parted_s` is by how much
/// the axes part.
pub(super) fn joined(by_time: Vec<Mode>, by_cycles: Vec<Mode>, parted_s: f64) -> Vec<Mode> {
    let mut left: Vec<Option<Mode>> = by_cycles.into_iter().map(Some).collect();
    let mut modes = Vec::new();
    for mut mode in by_time {
        let same = |other: &Option<Mode>| {
            other.as_ref().is_some_and(|other| (other.period_s / mode.period_s - 1.0).abs() <= SAME)
        };
        let other = left.iter().position(same).and_then(|place| left[place].take());
        // Axes that part by less than a mode lasts leave it where it is on both.
        if parted_s > mode.duration_s.max(mode.period_s / 50.0) {
            let share = |mode: &Mode| mode.seen as f64 / mode.periods.max(1) as f64;
            match other {
                Some(other) if share(&other) > CLEARER * share(&mode) => {
                    mode = tied(other, Tied::Cycles);
                }
                Some(other) if share(&mode) <= CLEARER * share(&other) => {}
                _ => mode.tied = Tied::Time,
            }
        }

        modes.push(mode);
    }

    modes.extend(left.into_iter().flatten().map(|mode| tied(mode, Tied::Cycles)));
    modes
}

fn tied(mode: Mode, tied: Tied) -> Mode {
    Mode { tied, ..mode }
}
