//! A controller that goes on after a break, and how far its trajectory is.

use super::{MotionController, smooth};
use crate::motion::event::NO_JOINT;
use crate::motion::joint::JointStage;
use crate::motion::ladder::{Ladder, Rung};
use crate::motion::status::{DownReason, RobotPhase, SafeStopReason};

/// Time that a group of drives takes from a fault to "operation enabled", in ns.
const ENABLING_GROUP_NS: u64 = 15_000_000;

impl MotionController {
    /// Prepares for cycles after a break, in which the devices may have left OP: the joints are
    /// enabled again where they stand and join the trajectory within their limits. Trajectory time,
    /// soft start and start positions go on from before the break; a safe stop is over.
    pub fn resume(&mut self) {
        let has_begun = self.status.time_ns > 0;
        for (joint, status) in self.joints.iter_mut().zip(&mut self.status.all) {
            joint.resume(has_begun);
            status.reason = DownReason::None;
        }

        self.ladder = Ladder::new(self.settings.thresholds);
        self.resumes = has_begun;
        (self.stop_asked, self.reset_asked) = (false, false);
        (self.fade, self.braking, self.next_group_ns) = (1.0, false, 0);
        self.status.rung = Rung::Run;
        (self.status.stopped_by, self.status.stopped_joint) = (SafeStopReason::None, NO_JOINT);
        self.enter(RobotPhase::Waiting);
    }

    /// Returns the share of the trajectory's full amplitude that the joints have, 0 to 1: that of
    /// the soft start while the trajectory is followed, else 0.
    #[must_use]
    pub fn amplitude(&self) -> f64 {
        if self.status.phase != RobotPhase::Running {
            return 0.0;
        }
        let enabled = self.joints.iter().filter(|joint| joint.stage == JointStage::Enabled);
        let least = enabled.map(|joint| joint.ramp).reduce(f64::min);
        smooth(least.unwrap_or(0.0))
    }

    /// Returns the time that enabling all joints takes at most when none of them fails, in ns.
    #[must_use]
    pub fn enabling_ns(&self) -> u64 {
        let groups = self.joints.len().div_ceil(self.settings.enable_at_once.max(1)) as u64;
        groups * (self.settings.enable_every_ns + ENABLING_GROUP_NS)
    }
}
