//! Status of a robot: a record of fixed size.

use serde::{Deserialize, Serialize};

use crate::cycle_messages::JointSample;

use super::event::NO_JOINT;
use super::file::MOST_JOINTS;
use super::ladder::Rung;
use super::limits::AtLimit;
use super::power::JointState;

/// Phase of a robot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum RobotPhase {
    /// Not all devices are in OP, or no inputs were received.
    #[default]
    Waiting = 0,
    /// Drives are being enabled, group by group.
    Enabling = 1,
    /// The robot follows the trajectory.
    Running = 2,
    /// Joints come to rest.
    Stopping = 3,
    /// Drives make a quick stop and lose power.
    Disabling = 4,
    /// At rest, without power.
    AtRest = 5,
}

/// Reason why a joint is down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum DownReason {
    /// The joint is not down.
    #[default]
    None = 0,
    /// The drive has a fault.
    DriveFault = 1,
    /// The drive left "operation enabled" without a request.
    LeftOperation = 2,
    /// The following error was too large for too long.
    FollowingError = 3,
    /// The drive could not be enabled in time, or its fault could not be reset.
    NotEnabled = 4,
    /// The drive shows another mode of operation than cyclic synchronous position.
    OtherMode = 5,
}

/// Reason of a safe stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum SafeStopReason {
    /// No safe stop.
    #[default]
    None = 0,
    /// Too many cycles were missed.
    Misses = 1,
    /// A joint went down, with `on_fault = "robot"`.
    JointDown = 2,
    /// The commander is lost.
    CommanderLost = 3,
}

/// Status of a joint.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct JointStatus {
    /// Set-point sent, in rad.
    pub target_rad: f64,
    /// Actual position, in rad.
    pub actual_rad: f64,
    /// Velocity in rad/s; 0 if the drive does not map it.
    pub velocity_rad_s: f64,
    /// Set-point minus position while enabled, in rad.
    pub following_rad: f64,
    /// Torque in thousandths of the rated torque; 0 if the drive does not map it.
    pub torque_permille: i16,
    /// Statusword of the drive.
    pub statusword: u16,
    /// Power state decoded from it.
    pub state: JointState,
    /// Why it is down.
    pub reason: DownReason,
    /// Limits it has reached.
    pub at: AtLimit,
}

impl JointStatus {
    /// Returns what other processes see of this joint.
    pub(super) const fn sample(&self) -> JointSample {
        let Self { target_rad, actual_rad, velocity_rad_s, torque_permille, statusword, .. } =
            *self;
        JointSample { target_rad, actual_rad, velocity_rad_s, torque_permille, statusword }
    }
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C)]
pub struct RobotCounts {
    /// Cycles of the controller.
    pub cycles: u64,
    /// Skipped releases.
    pub skipped: u64,
    /// Cycles without new inputs.
    pub stale: u64,
    /// Goals followed.
    pub goals: u64,
    /// Goals refused, for an invalid number or a target outside a travel.
    pub goals_refused: u64,
    /// Joints that went down.
    pub joints_down: u64,
    /// Safe stops.
    pub safe_stops: u64,
    /// Events dropped because the queue was full.
    pub events_lost: u64,
}

/// Status of a robot.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Status {
    /// Cycle number of the bus.
    pub cycle: u64,
    /// Its release, by `CLOCK_MONOTONIC`, in ns.
    pub release_ns: u64,
    /// Trajectory time, in ns: the sum of dt, less the time lost by slowing down.
    pub time_ns: u64,
    /// Speed of trajectory time: 1, less while degraded.
    pub speed: f64,
    /// Counters since the start.
    pub counts: RobotCounts,
    /// Phase.
    pub phase: RobotPhase,
    /// Rung of the miss ladder.
    pub rung: Rung,
    /// Reason of the safe stop.
    pub stopped_by: SafeStopReason,
    /// Index of the joint that caused it, or [`NO_JOINT`].
    pub stopped_joint: u16,
    /// Misses in the bucket.
    pub misses: u32,
    /// Number of joints in `all`.
    pub count: u32,
    /// Joints, in the order of [`Robot::joints`](super::Robot::joints).
    pub all: [JointStatus; MOST_JOINTS],
}

impl Default for Status {
    fn default() -> Self {
        Self {
            cycle: 0,
            release_ns: 0,
            time_ns: 0,
            speed: 1.0,
            counts: RobotCounts::default(),
            phase: RobotPhase::Waiting,
            rung: Rung::Run,
            stopped_by: SafeStopReason::None,
            stopped_joint: NO_JOINT,
            misses: 0,
            count: 0,
            all: [JointStatus::default(); MOST_JOINTS],
        }
    }
}

impl Status {
    /// Returns the joints.
    #[must_use]
    pub fn joints(&self) -> &[JointStatus] {
        &self.all[..(self.count as usize).min(MOST_JOINTS)]
    }
}
