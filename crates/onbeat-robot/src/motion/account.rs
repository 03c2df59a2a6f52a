//! What a robot did, cycle by cycle: how far its trajectory went, and how its joints followed.

use onbeat::record::{JointMotion, MotionNote};
use onbeat_ethercat::event_words::stop_reason;

use super::controller::MotionController;
use super::event::NO_JOINT;
use super::file::Robot;
use super::power::JointState;
use super::status::{RobotPhase, SafeStopReason};
use super::window_channel::WindowSender;

/// A joint that was not enabled yet.
fn unmoved(name: String) -> JointMotion {
    JointMotion { name, following_rad: 0.0, low_rad: f64::INFINITY, high_rad: f64::NEG_INFINITY }
}

/// What a robot did since the last note. Does not allocate while it counts.
#[derive(Debug)]
pub struct MotionAccount {
    trajectory: String,
    joints: Vec<JointMotion>,
    amplitude: f64,
    /// Trajectory time at the last cycle, and what passed of it, in ns.
    time_ns: u64,
    moved_ns: u64,
    cycles: u64,
    running: u64,
    /// Safe stops of the controller at the last cycle, and those since the last note.
    safe_stops_before: u64,
    safe_stops: u64,
    stopped: (SafeStopReason, u16),
    windows: Option<WindowSender>,
}

impl MotionAccount {
    /// Creates an empty account of a robot and its trajectory, as typed. `windows` sends what the
    /// joints do to the recorder, window by window.
    #[must_use]
    pub fn new(robot: &Robot, trajectory: &str, windows: Option<WindowSender>) -> Self {
        Self {
            trajectory: trajectory.to_owned(),
            joints: robot.joints.iter().map(|joint| unmoved(joint.name.clone())).collect(),
            amplitude: 0.0,
            time_ns: 0,
            moved_ns: 0,
            cycles: 0,
            running: 0,
            safe_stops_before: 0,
            safe_stops: 0,
            stopped: (SafeStopReason::None, NO_JOINT),
            windows,
        }
    }

    /// Counts the last cycle of the controller.
    pub fn add(&mut self, controller: &MotionController) {
        let status = controller.status();
        self.windows.iter_mut().for_each(|windows| windows.add(status));
        self.cycles += 1;
        self.running += u64::from(status.phase == RobotPhase::Running);
        self.amplitude = self.amplitude.max(controller.amplitude());
        self.moved_ns += status.time_ns.saturating_sub(self.time_ns);
        self.time_ns = status.time_ns;

        let stops = status.counts.safe_stops;
        if stops > self.safe_stops_before {
            self.safe_stops += stops - self.safe_stops_before;
            self.safe_stops_before = stops;
            self.stopped = (status.stopped_by, status.stopped_joint);
        }

        for (extremes, joint) in self.joints.iter_mut().zip(status.joints()) {
            if joint.state != JointState::OperationEnabled {
                continue;
            }
            if joint.following_rad.abs() > extremes.following_rad.abs() {
                extremes.following_rad = joint.following_rad;
            }
            extremes.low_rad = extremes.low_rad.min(joint.actual_rad);
            extremes.high_rad = extremes.high_rad.max(joint.actual_rad);
        }
    }

    /// Passes over a cycle that is in no figure, such as those before a block.
    pub fn skip(&mut self, controller: &MotionController) {
        self.windows.iter_mut().for_each(WindowSender::clear);
        self.time_ns = controller.status().time_ns;
        self.safe_stops_before = controller.status().counts.safe_stops;
    }

    /// Returns what was counted, with all joints that were enabled, and starts over.
    pub fn take_note(&mut self) -> MotionNote {
        self.windows.iter_mut().for_each(WindowSender::flush);
        let reason = || {
            let joint = self.joints.get(usize::from(self.stopped.1));
            stop_reason(self.stopped.0 as u16, joint.map_or("", |joint| &joint.name), 0)
        };
        let moved = self.joints.iter().filter(|joint| joint.low_rad.is_finite());
        let note = MotionNote {
            trajectory: self.trajectory.clone(),
            amplitude: self.amplitude,
            moved_s: self.moved_ns as f64 / 1e9,
            cycles: self.cycles,
            running: self.running,
            safe_stops: self.safe_stops,
            stopped_by: (self.safe_stops > 0).then(reason),
            joints: moved.cloned().collect(),
        };

        for joint in &mut self.joints {
            *joint = unmoved(std::mem::take(&mut joint.name));
        }
        (self.amplitude, self.moved_ns, self.cycles, self.running) = (0.0, 0, 0, 0);
        self.safe_stops = 0;
        note
    }
}
