//! What a robot did during a block: how far its trajectory went, and how its joints followed.

use serde::{Deserialize, Serialize};

/// What a robot did, after each block in which it could move. A run's figures are those of its
/// blocks together ([`MotionNote::and`]).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MotionNote {
    /// The trajectory as typed: `gait`.
    pub trajectory: String,
    /// Largest fraction of the full amplitude that the soft start reached, 0 to 1.
    pub amplitude: f64,
    /// Trajectory time that passed, in seconds.
    pub moved_s: f64,
    /// Cycles of the controller.
    pub cycles: u64,
    /// Cycles that followed the trajectory.
    pub running: u64,
    /// Number of safe stops.
    pub safe_stops: u64,
    /// Reason of the last safe stop, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
    /// Joints, in the order of the robot file; in a bench only the one with the largest following
    /// error.
    pub joints: Vec<JointMotion>,
}

/// The movement of a joint while it was enabled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JointMotion {
    /// Name of the joint.
    pub name: String,
    /// Following error with the largest magnitude, in rad.
    pub following_rad: f64,
    /// Lowest position while enabled, in rad.
    pub low_rad: f64,
    /// Highest position while enabled, in rad.
    pub high_rad: f64,
}

impl JointMotion {
    /// Returns the way from the lowest to the highest position, in rad.
    #[must_use]
    pub fn travel_rad(&self) -> f64 {
        self.high_rad - self.low_rad
    }

    /// Takes a later movement of the same joint into account.
    fn extend(&mut self, later: &Self) {
        if later.following_rad.abs() > self.following_rad.abs() {
            self.following_rad = later.following_rad;
        }
        self.low_rad = self.low_rad.min(later.low_rad);
        self.high_rad = self.high_rad.max(later.high_rad);
    }
}

impl MotionNote {
    /// Returns both blocks together, `later` being the later one.
    #[must_use]
    pub fn and(mut self, later: &Self) -> Self {
        for of_later in &later.joints {
            match self.joints.iter_mut().find(|joint| joint.name == of_later.name) {
                Some(joint) => joint.extend(of_later),
                None => self.joints.push(of_later.clone()),
            }
        }

        Self {
            trajectory: later.trajectory.clone(),
            amplitude: self.amplitude.max(later.amplitude),
            moved_s: self.moved_s + later.moved_s,
            cycles: self.cycles + later.cycles,
            running: self.running + later.running,
            safe_stops: self.safe_stops + later.safe_stops,
            stopped_by: later.stopped_by.clone().or(self.stopped_by),
            joints: self.joints,
        }
    }

    /// Returns the joint that followed worst.
    #[must_use]
    pub fn worst_joint(&self) -> Option<&JointMotion> {
        let magnitude = |joint: &&JointMotion| joint.following_rad.abs();
        self.joints.iter().max_by(|a, b| magnitude(a).total_cmp(&magnitude(b)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joint(name: &str, following_rad: f64, low_rad: f64, high_rad: f64) -> JointMotion {
        JointMotion { name: name.to_owned(), following_rad, low_rad, high_rad }
    }

    #[test]
    fn blocks_add_up_and_the_worst_of_each_joint_is_kept() {
        let first = MotionNote {
            amplitude: 0.4,
            moved_s: 1.0,
            cycles: 1_000,
            running: 900,
            joints: vec![joint("hip", 0.01, -0.1, 0.1), joint("knee", -0.03, 0.0, 0.2)],
            ..MotionNote::default()
        };
        let second = MotionNote {
            amplitude: 1.0,
            moved_s: 2.0,
            cycles: 2_000,
            running: 2_000,
            safe_stops: 1,
            stopped_by: Some("missed cycles".to_owned()),
            joints: vec![joint("hip", -0.02, -0.3, 0.05)],
            ..MotionNote::default()
        };

        let both = first.and(&second);
        assert_eq!((both.amplitude, both.moved_s), (1.0, 3.0));
        assert_eq!((both.cycles, both.running, both.safe_stops), (3_000, 2_900, 1));
        assert_eq!(both.joints[0], joint("hip", -0.02, -0.3, 0.1));
        assert!((both.joints[0].travel_rad() - 0.4).abs() < 1e-12);
        assert_eq!(both.worst_joint().map(|joint| joint.name.as_str()), Some("knee"));
        assert_eq!(both.stopped_by.as_deref(), Some("missed cycles"));
    }
}
