//! Limits of a joint, and a set-point that never exceeds them.

use std::f64::consts::PI;

use serde::Serialize;

/// Limits of a joint's set-point, in rad and s. Velocity, acceleration and jerk apply in both
/// directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Lower end of the travel, in rad.
    pub low: f64,
    /// Upper end of the travel, in rad.
    pub high: f64,
    /// Maximum velocity, in rad/s.
    pub velocity: f64,
    /// Maximum acceleration, in rad/s².
    pub acceleration: f64,
    /// Maximum jerk, in rad/s³; `None` for no limit.
    pub jerk: Option<f64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { low: -PI, high: PI, velocity: 6.0, acceleration: 60.0, jerk: None }
    }
}

impl Limits {
    /// Returns the number of periods to average set-points over, so that the jerk stays below its
    /// limit.
    ///
    /// An average over N periods changes its acceleration by at most 2·a/N in one of them.
    pub(crate) fn averaged_over(&self, period_s: f64) -> usize {
        self.jerk.map_or(1, |jerk| {
            // Averaging n periods of a motion with bounded acceleration bounds its jerk by 2a / (n
            // T): the worst case is a jump from −a to +a.
            (2.0 * self.acceleration / (jerk * period_s)).ceil().max(1.0) as usize
        })
    }
}

/// Limits that a joint has reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AtLimit {
    /// The end of the travel.
    pub position: bool,
    /// The maximum velocity.
    pub velocity: bool,
    /// The maximum acceleration.
    pub acceleration: bool,
}

/// Set-point of one joint, moved period by period.
///
/// For any target, positions stay within the travel, and consecutive ones within the limits of
/// velocity and acceleration: for the drive each step takes one period, whatever the pause before.
/// A joint that starts outside its travel stays there until it is wanted further inwards.
#[derive(Clone, Debug)]
pub(crate) struct SetPoint {
    limits: Limits,
    period_s: f64,
    position: f64,
    velocity: f64,
    at: AtLimit,
    average: Average,
}

impl SetPoint {
    pub(crate) fn new(limits: Limits, period_s: f64) -> Self {
        let average = Average::over(limits.averaged_over(period_s));
        Self { limits, period_s, position: 0.0, velocity: 0.0, at: AtLimit::default(), average }
    }

    /// Sets the position, at rest.
    pub(crate) fn start_at(&mut self, position: f64) {
        // A drive that was just enabled stands. Any other velocity would be a jump it has to
        // follow.
        (self.position, self.velocity, self.at) = (position, 0.0, AtLimit::default());
        self.average.fill(position);
    }

    /// Returns the position to send, in rad.
    pub(crate) fn position(&self) -> f64 {
        self.average.mean
    }

    /// Returns the limits reached in the last step.
    pub(crate) fn at(&self) -> AtLimit {
        self.at
    }

    pub(crate) fn stands(&self) -> bool {
        self.velocity == 0.0 && self.average.is_level()
    }

    /// Moves one period towards `wanted`, which itself moves at `pace` rad/s. `share` is the usable
    /// fraction of the velocity limit.
    pub(crate) fn follow(&mut self, wanted: f64, pace: f64, share: f64) {
        // Whatever the trajectory says: no set-point leaves the joint's travel, or moves further out
        // of it. One that is outside is not driven back either: it stands where its encoder, scale
        // or zero say something else than this file, and nobody asked it to move.
        let Limits { low, high, .. } = self.limits;
        let within = wanted.clamp(low.min(self.position), high.max(self.position));
        // A target faster than the velocity limit counts as a jump: the joint follows at its own
        // velocity.
        let pace = if within == wanted && pace.abs() <= self.limits.velocity { pace } else { 0.0 };
        let behind = within - pace * self.period_s - self.position;
        // Half of the acceleration closes the gap; the other half follows the target.
        let closing =
            self.most_velocity(behind.abs(), 0.5 * self.limits.acceleration).copysign(behind);
        self.move_at(pace + closing, share);
        self.at.position |= wanted != wanted.clamp(low, high);
    }

    /// Moves one period while braking to rest.
    pub(crate) fn brake(&mut self) {
        self.move_at(0.0, 1.0);
    }

    fn move_at(&mut self, wanted: f64, share: f64) {
        // One cycle of a 1 kHz loop at 60 rad/s² and 6 rad/s, 0.1 rad before the end of the travel,
        // moving at 3 rad/s:
        //   slowest, fastest   3 ∓ 0.06 rad/s        what the acceleration allows from here
        //   most               6 rad/s               the velocity limit
        //   up                 3.43 rad/s            from which it can still stop within 0.1 rad
        //   velocity           wanted, within all of them
        //
        // Each bound comes from the state alone. Whatever was wanted, in whatever order, the next
        // cycle has a velocity that keeps all of them again.
        let change = self.limits.acceleration * self.period_s;
        let slowest = self.velocity - change;
        let fastest = self.velocity + change;
        // The joint may be faster than a reduced share allows.
        // Slowing down is bounded like any change of velocity: a share that falls to a third must
        // not stop the joint at once.
        let most = (self.limits.velocity * share).max(self.velocity.abs() - change);
        // A joint that stands outside its travel may move back in, and no further out.
        let low = self.limits.low.min(self.position);
        let high = self.limits.high.max(self.position);
        let up = self.most_velocity(high - self.position, self.limits.acceleration);
        let down = -self.most_velocity(self.position - low, self.limits.acceleration);
        // The end of the travel first: it wins over the velocity, and the velocity over what was
        // wanted.
        let upper = up.min(fastest).min(most);
        let lower = down.max(slowest).max(-most).min(upper);
        let velocity = wanted.clamp(lower, upper);
        self.at = AtLimit {
            position: velocity != wanted && (velocity == up || velocity == down),
            velocity: velocity != wanted && velocity.abs() == most,
            acceleration: velocity != wanted && (velocity == slowest || velocity == fastest),
        };

        let before = self.position;
        self.position = (before + velocity * self.period_s).clamp(low, high);
        self.velocity =
            // From the positions as they are stored, so that rounding does not add up to a drift of
            // the two.
            if velocity == 0.0 { 0.0 } else { (self.position - before) / self.period_s };
        self.average.add(self.position);
    }

    /// Returns the maximum velocity from which this distance suffices to come to rest, including
    /// this period.
    ///
    /// From v = w/(m·T) + a·T·(m−1)/2 the joint is at rest after m periods, each a·T slower than
    /// the previous one; m is the smallest number that suffices for w.
    fn most_velocity(&self, way: f64, acceleration: f64) -> f64 {
        // Braking happens in steps of a period, not continuously: v = way / (nT) + aT(n − 1)/2,
        // with n the least number of periods whose way suffices. The continuous formula √(2 a s)
        // would overshoot by up to a step.
        let step = acceleration * self.period_s * self.period_s;
        let periods = ((-1.0 + (1.0 + 8.0 * way.max(0.0) / step).sqrt()) / 2.0).ceil().max(1.0);
        way.max(0.0) / (periods * self.period_s)
            + acceleration * self.period_s * (periods - 1.0) / 2.0
    }
}

/// Fixed-point units per rad: sums of integers do not drift.
// Sums of integers are exact however long the joint moves; a sum of floating-point numbers that
// adds and subtracts for days drifts.
const PARTS: f64 = (1_u64 << 40) as f64;

/// Moving average of positions.
#[derive(Clone, Debug)]
struct Average {
    last: Vec<i64>,
    next: usize,
    sum: i128,
    mean: f64,
    /// Number of positions without a change.
    level: usize,
}

impl Average {
    fn over(periods: usize) -> Self {
        Self { last: vec![0; periods], next: 0, sum: 0, mean: 0.0, level: periods }
    }

    fn fill(&mut self, position: f64) {
        let parts = (position * PARTS) as i64;
        self.last.fill(parts);
        self.sum = i128::from(parts) * self.last.len() as i128;
        (self.mean, self.level) = (position, self.last.len());
    }

    fn add(&mut self, position: f64) {
        // Without a jerk limit the set-point passes as it is.
        if self.last.len() == 1 {
            (self.level, self.mean) = (1, position);
            return;
        }

        let parts = (position * PARTS) as i64;
        let newest = self.last[(self.next + self.last.len() - 1) % self.last.len()];
        self.level = if parts == newest { (self.level + 1).min(self.last.len()) } else { 0 };
        self.sum += i128::from(parts) - i128::from(self.last[self.next]);
        self.last[self.next] = parts;
        self.next = (self.next + 1) % self.last.len();
        self.mean = self.sum as f64 / (self.last.len() as f64 * PARTS);
    }

    fn is_level(&self) -> bool {
        self.level >= self.last.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PERIOD_S: f64 = 0.001;
    /// Rounding error, relative to a limit.
    const ROUNDING: f64 = 1e-6;

    fn at(limits: Limits, position: f64) -> SetPoint {
        let mut set_point = SetPoint::new(limits, PERIOD_S);
        set_point.start_at(position);
        set_point
    }

    /// Moves a set-point, and checks the limits of consecutive positions.
    fn checked(
        limits: Limits,
        start: f64,
        moves: impl Iterator<Item = Option<(f64, f64)>>,
    ) -> Vec<f64> {
        let mut set_point = at(limits, start);
        let mut positions = vec![start; 3];
        for wanted in moves {
            match wanted {
                Some((wanted, share)) => set_point.follow(wanted, 0.0, share),
                None => set_point.brake(),
            }
            positions.push(set_point.position());
        }

        let [low, high] = [limits.low.min(start), limits.high.max(start)];
        for four in positions.windows(4) {
            let velocity = [1, 2, 3].map(|k| (four[k] - four[k - 1]) / PERIOD_S);
            let acceleration = [1, 2].map(|k| (velocity[k] - velocity[k - 1]) / PERIOD_S);
            assert!(four[3] >= low - 1e-11 && four[3] <= high + 1e-11, "{four:?}");
            assert!(velocity[2].abs() <= limits.velocity * (1.0 + ROUNDING), "{velocity:?}");
            assert!(
                acceleration[1].abs() <= limits.acceleration * (1.0 + ROUNDING) + 1e-4,
                "{acceleration:?}"
            );
            if let Some(jerk) = limits.jerk {
                assert!(
                    (acceleration[1] - acceleration[0]).abs() / PERIOD_S <= jerk * (1.0 + 1e-3),
                    "{acceleration:?}"
                );
            }
        }

        positions
    }

    #[test]
    fn a_step_takes_the_shortest_time_within_the_limits_and_ends_at_its_target() {
        let limits = Limits { low: -2.0, high: 2.0, velocity: 3.0, acceleration: 40.0, jerk: None };
        let positions = checked(limits, 0.0, (0..2_000).map(|_| Some((1.0, 1.0))));
        assert!((positions[positions.len() - 1] - 1.0).abs() < 1e-9);
        assert!(positions.iter().all(|&position| position <= 1.0 + 1e-9), "without going beyond");
    }

    #[test]
    fn a_target_within_the_limits_is_followed_without_lag() {
        let mut set_point = at(Limits::default(), 0.0);
        let sine = |period: i32| 0.3 * (1.0 - (2.0 * PI * f64::from(period) * PERIOD_S).cos());
        for period in 1..3_000 {
            let pace = (sine(period) - sine(period - 1)) / PERIOD_S;
            set_point.follow(sine(period), pace, 1.0);
            assert!((set_point.position() - sine(period)).abs() < 1e-9, "{period}");
        }
    }

    #[test]
    fn a_joint_outside_its_travel_moves_inwards_only() {
        let limits = Limits { low: -1.0, high: 1.0, ..Limits::default() };
        let positions =
            checked(limits, 1.4, (0..1_000).map(|k| Some((if k < 100 { 9.0 } else { 0.5 }, 1.0))));
        assert!(positions[..100].iter().all(|&position| position <= 1.4));
        assert!((positions[1_000] - 0.5).abs() < 1e-9);

        // It holds where it stands, and is not driven to the end of its travel.
        let mut set_point = at(limits, -1.4);
        (0..100).for_each(|_| set_point.follow(-1.4, 0.0, 1.0));
        assert!((set_point.position() + 1.4).abs() < 1e-12 && set_point.at().position);
    }

    #[test]
    fn braking_ends_at_rest() {
        let mut set_point = at(Limits { jerk: Some(2_000.0), ..Limits::default() }, 0.0);
        (0..100).for_each(|_| set_point.follow(2.0, 0.0, 1.0));
        assert!(!set_point.stands());
        (0..1_000).for_each(|_| set_point.brake());
        assert!(set_point.stands());
    }

    proptest! {
        #[test]
        fn no_target_breaks_a_limit(
            targets in prop::collection::vec((prop::option::of((-20.0..20.0_f64, 0.1..1.0_f64)), 1..120_usize), 1..30),
            velocity in 0.5..20.0_f64,
            acceleration in 5.0..400.0_f64,
            jerk in prop::option::of(500.0..100_000.0_f64),
            start in -3.0..3.0_f64,
        ) {
            let limits = Limits { low: -2.0, high: 2.5, velocity, acceleration, jerk };
            let moves = targets.iter().flat_map(|&(wanted, times)| std::iter::repeat_n(wanted, times));
            checked(limits, start, moves);
        }
    }
}
