//! What can be seen of a robot: one record of fixed size.

use serde::{Deserialize, Serialize};

use super::event::NO_JOINT;
use super::goal::MOST_JOINTS;
use super::ladder::Rung;
use super::limits::AtLimit;
use super::power::JointState;

/// What the robot as a whole is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum RobotPhase {
    /// Not all devices are in OP yet, or no inputs have come.
    #[default]
    Waiting = 0,
    /// Drives are being enabled, group by group.
    Enabling = 1,
    /// The trajectory is played.
    Running = 2,
    /// Joints come to rest.
    Stopping = 3,
    /// Drives are on quick stop and lose their power.
    Disabling = 4,
    /// Nothing moves, nothing has power.
    AtRest = 5,
}

/// Why a joint is down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum DownReason {
    /// It is not.
    #[default]
    None = 0,
    /// The drive has a fault.
    DriveFault = 1,
    /// The drive left "operation enabled" without being asked to.
    LeftOperation = 2,
    /// It was too far from its set-point for too long.
    FollowingError = 3,
    /// The drive could not be enabled in time, or its fault could not be reset.
    NotEnabled = 4,
}

/// Why the robot is in a safe stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum SafeStopReason {
    /// It is not.
    #[default]
    None = 0,
    /// Too many cycles were missed.
    Misses = 1,
    /// A joint went down, and the file wants that to stop the robot.
    JointDown = 2,
    /// The commander is lost.
    CommanderLost = 3,
}

/// One joint.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct JointStatus {
    /// Set-point as sent, in rad.
    pub target_rad: f64,
    /// In rad.
    pub actual_rad: f64,
    /// In rad/s; 0 where the drive does not map it.
    pub velocity_rad_s: f64,
    /// Set-point minus position while enabled, in rad.
    pub following_rad: f64,
    /// In thousandths of the rated torque; 0 where the drive does not map it.
    pub torque_permille: i16,
    /// As the drive sent it.
    pub statusword: u16,
    /// What that means.
    pub state: JointState,
    /// Why it is down.
    pub reason: DownReason,
    /// Limits that it is at.
    pub at: AtLimit,
}

/// What was counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C)]
pub struct RobotCounts {
    /// Cycles of the controller.
    pub cycles: u64,
    /// Releases that were passed over.
    pub skipped: u64,
    /// Cycles without new inputs.
    pub stale: u64,
    /// GoalSource taken.
    pub goals: u64,
    /// GoalSource refused, for a number that is none or is outside a travel.
    pub goals_refused: u64,
    /// Joints that went down.
    pub joints_down: u64,
    /// Safe stops.
    pub safe_stops: u64,
    /// RobotEvents for which there was no room.
    pub events_lost: u64,
}

/// The whole robot.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Status {
    /// Cycle of the bus.
    pub cycle: u64,
    /// Its release, by `CLOCK_MONOTONIC`, in ns.
    pub release_ns: u64,
    /// Time of the trajectory, in ns: the sum of dt, less where it was slowed down.
    pub time_ns: u64,
    /// Pace of that time: 1, less while degraded.
    pub speed: f64,
    /// RobotCounts since the start.
    pub counts: RobotCounts,
    /// What it is about.
    pub phase: RobotPhase,
    /// Of the miss ladder.
    pub rung: Rung,
    /// Why it is in a safe stop.
    pub stopped_by: SafeStopReason,
    /// Place of the joint that led to it, or [`NO_JOINT`].
    pub stopped_joint: u16,
    /// Misses in the bucket.
    pub misses: u32,
    /// How many of `all` are joints of this robot.
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
    /// The joints.
    #[must_use]
    pub fn joints(&self) -> &[JointStatus] {
        &self.all[..(self.count as usize).min(MOST_JOINTS)]
    }
}
