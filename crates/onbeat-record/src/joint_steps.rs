//! The joints of a robot over time: last, lowest and highest value of each figure, step by step.
//!
//! Steps become longer as the run does: the first [`STEPS`] have the length of the windows that the
//! loop hands over, and each time a run has become twice as long, so do its further steps. A run of
//! any length therefore has at most [`STEPS`] steps and half of that for each doubling. A step is
//! the union of its windows, and no cycle is in none: the extremes of all steps are those of all
//! cycles.

use serde::{Deserialize, Serialize};

/// Steps of the finest length; half of them for each further length.
pub const STEPS: u64 = 256;
/// Figures of a joint in a step.
pub const JOINT_FIGURES: usize = 13;
/// A note is written when it has this many steps, or spans this many seconds: what kill -9 can lose
/// besides the step that is under way.
// A note is a line: what kill -9 can lose is the steps that are not written yet.
const STEPS_PER_NOTE: usize = 16;
const SECONDS_PER_NOTE: f64 = 10.0;

/// Last, lowest and highest value of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueRange {
    /// Last value.
    pub last: f64,
    /// Lowest.
    pub low: f64,
    /// Highest.
    pub high: f64,
}

impl ValueRange {
    /// Returns the range of one value.
    #[must_use]
    pub const fn new(value: f64) -> Self {
        Self { last: value, low: value, high: value }
    }

    /// Returns this range and a later one together.
    #[must_use]
    pub fn followed_by(self, later: Self) -> Self {
        let Self { low, high, .. } = self;
        Self { last: later.last, low: low.min(later.low), high: high.max(later.high) }
    }

    /// Returns last, lowest and highest value times `scale`, rounded to whole numbers. Rounding
    /// keeps the order, so that the extremes of rounded values are the rounded extremes.
    fn rounded(self, scale: f64) -> [Option<i64>; 3] {
        [self.last, self.low, self.high]
            // JSON has no infinity. `null` says that there was no number, which zero would not.
            .map(|value| value.is_finite().then(|| (value * scale).round() as i64))
    }
}

/// A joint in a stretch of cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JointWindow {
    /// Set-point, in rad.
    pub target: ValueRange,
    /// Actual position, in rad.
    pub actual: ValueRange,
    /// Set-point minus position while the drive follows its set-point, in rad.
    pub following: Option<ValueRange>,
    /// Torque, in thousandths of the rated torque.
    pub torque: ValueRange,
    /// Statusword of the last cycle.
    pub statusword: u16,
    /// A bit for each state of the power stage that occurred.
    pub states: u8,
}

impl JointWindow {
    /// Returns this window and a later one together.
    #[must_use]
    pub fn followed_by(&self, later: &Self) -> Self {
        let following = match (self.following, later.following) {
            (Some(before), Some(after)) => Some(before.followed_by(after)),
            // A joint that is not enabled has no following error. One that has been enabled for
            // part of a step has that of this part.
            (before, after) => after.or(before),
        };

        Self {
            target: self.target.followed_by(later.target),
            actual: self.actual.followed_by(later.actual),
            following,
            torque: self.torque.followed_by(later.torque),
            statusword: later.statusword,
            // Every state that occurred, as bits: a fault of one cycle must not vanish in a step of
            // a minute.
            states: self.states | later.states,
        }
    }

    /// Returns the figures of a step: positions in µrad, torque in thousandths, states.
    fn figures(&self) -> [Option<i64>; JOINT_FIGURES] {
        let mut figures = [None; JOINT_FIGURES];
        let following = self.following.map_or([None; 3], |range| range.rounded(1e6));
        let ranges = [
            self.target.rounded(1e6),
            self.actual.rounded(1e6),
            following,
            self.torque.rounded(1.0),
        ];
        for (place, figure) in ranges.into_iter().flatten().enumerate() {
            figures[place] = figure;
        }

        figures[JOINT_FIGURES - 1] = Some(self.states.into());
        figures
    }
}

/// The cycles of a window or step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CycleSpan {
    /// First cycle of the bus.
    pub first: u64,
    pub last: u64,
    /// Release of the last one, in seconds since the file's start.
    pub t: f64,
}

/// All joints in a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JointStep {
    /// First cycle of the bus.
    pub first: u64,
    /// Last cycle of the bus.
    pub last: u64,
    /// Release of the last cycle, in seconds since the file's start.
    pub t: f64,
    /// Per joint, in the order of the note `robot`, 13 numbers: last, lowest and highest value of
    /// target, actual position and following error (target minus position; `null` if the drive did
    /// not follow) in µrad, and of torque in thousandths of the rated torque; then a bit for each
    /// state of the drive that occurred: 1 not ready, 2 off, 4 ready to switch on, 8 switched on,
    /// 16 enabled, 32 quick stop, 64 fault reaction, 128 fault.
    pub joints: Vec<[Option<i64>; JOINT_FIGURES]>,
}

/// Figures of all joints over time. The steps cover every cycle. The first 256 are 50 ms long; the
/// length doubles each time the run has become twice as long, and is longer where the recorder was
/// late. A note has at most 16 steps and spans at most 10 s.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JointSteps {
    /// Steps in the order of time. A block begins where the first cycle of a step does not follow
    /// the last cycle of the step before.
    pub steps: Vec<JointStep>,
}

/// The step under way, and those that are not written yet.
#[derive(Debug, Default)]
pub struct JointTally {
    done: JointSteps,
    /// Cycles, number of windows, and joints of the step under way.
    span: CycleSpan,
    windows: u64,
    joints: Vec<JointWindow>,
    /// How often the number of windows per step has doubled.
    doublings: u32,
    /// Windows of the run so far.
    counted: u64,
}

impl JointTally {
    /// Adds the next window; returns a note when it is full.
    pub fn add(&mut self, span: CycleSpan, joints: &[JointWindow]) -> Option<JointSteps> {
        if self.windows == 0 {
            self.span = span;
            self.joints.clear();
            self.joints.extend_from_slice(joints);
        } else {
            self.span = CycleSpan { first: self.span.first, ..span };
            for (joint, later) in self.joints.iter_mut().zip(joints) {
                *joint = joint.followed_by(later);
            }
        }

        self.windows += 1;
        self.counted += 1;
        if self.windows < 1 << self.doublings {
            return None;
        }

        self.end_step();
        // Steps double in length as the run does: their number grows with its logarithm.
        if self.counted >= STEPS << self.doublings {
            self.doublings += 1;
        }
        // By time as well as by number: late in a long run a step lasts minutes, and a view of the
        // run in progress would wait for sixteen of them.
        let since_s = self.done.steps.first().map_or(0.0, |first| span.t - first.t);
        let is_full = self.done.steps.len() >= STEPS_PER_NOTE || since_s.abs() >= SECONDS_PER_NOTE;
        if is_full { self.take() } else { None }
    }

    /// Ends a block, with the step under way.
    pub fn end_block(&mut self) -> Option<JointSteps> {
        self.end_step();
        self.take()
    }

    fn end_step(&mut self) {
        if self.windows > 0 {
            let joints = self.joints.iter().map(JointWindow::figures).collect();
            let CycleSpan { first, last, t } = self.span;
            self.done.steps.push(JointStep { first, last, t, joints });
        }
        self.windows = 0;
    }

    fn take(&mut self) -> Option<JointSteps> {
        let done = std::mem::take(&mut self.done);
        (!done.steps.is_empty()).then_some(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn window(target: f64, state: u8) -> JointWindow {
        JointWindow {
            target: ValueRange::new(target),
            actual: ValueRange::new(-target),
            following: (state == 4).then_some(ValueRange::new(target / 2.0)),
            torque: ValueRange::new(target * 10.0),
            statusword: 0,
            states: 1 << state,
        }
    }

    /// The notes of a run whose windows have one cycle each.
    fn notes(targets: &[f64]) -> Vec<JointSteps> {
        let mut tally = JointTally::default();
        let mut notes = Vec::new();
        for (place, target) in targets.iter().enumerate() {
            let cycle = place as u64 + 1;
            let span = CycleSpan { first: cycle, last: cycle, t: cycle as f64 * 0.05 };
            notes.extend(tally.add(span, &[window(*target, (place % 8) as u8)]));
            let kept = tally.done.steps.len();
            assert!(kept < STEPS_PER_NOTE && tally.joints.len() == 1, "{kept} steps in memory");
        }
        notes.extend(tally.end_block());
        notes
    }

    fn steps(notes: &[JointSteps]) -> Vec<&JointStep> {
        notes.iter().flat_map(|note| &note.steps).collect()
    }

    proptest! {
        /// The account: cycles without a gap, and extremes of steps are those of all cycles.
        #[test]
        fn the_extremes_of_all_steps_are_those_of_all_cycles(
            targets in prop::collection::vec(-3.0_f64..3.0, 1..4_000),
        ) {
            let notes = notes(&targets);
            let steps = steps(&notes);
            let mut next = 1;
            for step in &steps {
                prop_assert_eq!(step.first, next);
                next = step.last + 1;
                let of_step = &targets[step.first as usize - 1..step.last as usize];
                let micro = of_step.iter().map(|target| (target * 1e6).round() as i64);
                let [last, low, high, ..] = step.joints[0];
                prop_assert_eq!(low, micro.clone().min());
                prop_assert_eq!(high, micro.clone().max());
                prop_assert_eq!(last, of_step.last().map(|target| (target * 1e6).round() as i64));
            }
            prop_assert_eq!(next, targets.len() as u64 + 1);
        }
    }

    #[test]
    fn steps_become_longer_so_that_their_number_grows_with_the_logarithm_of_the_length() {
        for doublings in 0..6 {
            let cycles = (STEPS << doublings) as usize;
            let notes = notes(&vec![0.5; cycles]);
            let steps = steps(&notes).len() as u64;
            assert_eq!(steps, STEPS + doublings * STEPS / 2, "{doublings}");
        }
    }

    #[test]
    fn a_step_has_all_states_and_the_following_error_of_its_enabled_cycles() {
        let both = window(0.5, 3).followed_by(&window(0.25, 4));
        assert_eq!(
            both.figures(),
            [
                250_000, 250_000, 500_000, -250_000, -500_000, -250_000, 125_000, 125_000, 125_000,
                3, 3, 5, 24
            ]
            .map(Some)
        );
        assert_eq!(window(0.5, 3).figures()[6..9], [None; 3]);
        let never = JointWindow { target: ValueRange::new(f64::NAN), ..window(0.5, 3) };
        assert_eq!(never.figures()[..3], [None; 3], "a number that is none is left out");
    }

    #[test]
    fn a_block_ends_its_step_and_a_note_of_ten_seconds_is_full() {
        let mut tally = JointTally::default();
        let mut add = |cycle: u64, t: f64| {
            let span = CycleSpan { first: cycle, last: cycle, t };
            tally.add(span, &[window(0.0, 4)])
        };
        assert_eq!(add(1, 1.0), None);
        assert_eq!(add(2, 11.0).map(|note| note.steps.len()), Some(2));
        assert_eq!(add(3, 12.0), None);
        let note = tally.end_block().expect("a step");
        assert_eq!(note.steps.len(), 1);
        assert_eq!(tally.end_block(), None);
    }
}
