//! What a robot is, and how its devices fared.

use serde::{Deserialize, Serialize};

/// The robot: its joints with their limits, its devices as a tree. Before the first `joints` note
/// of a process; a later note replaces it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RobotNote {
    /// Name in the robot file.
    pub name: String,
    /// Period of the loop, in nanoseconds.
    pub period_ns: u64,
    /// Joints, in the order of the robot file.
    pub joints: Vec<RobotJoint>,
    /// Devices, in cable order.
    pub devices: Vec<RobotDevice>,
}

/// A joint and its limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RobotJoint {
    /// Name of the joint.
    pub name: String,
    /// Position of its device.
    pub device: usize,
    /// Lowest permitted position, in rad.
    pub low_rad: f64,
    /// Highest permitted position, in rad.
    pub high_rad: f64,
    /// Largest permitted velocity, in rad/s.
    pub velocity_rad_s: f64,
    /// Largest permitted following error, in rad.
    pub following_rad: f64,
}

/// A device, and where its cable comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RobotDevice {
    /// Name of the device.
    pub name: String,
    /// `coupler`, `digital`, `analogue`, `drive`, `imu`, `force-torque`.
    pub kind: String,
    /// Position of the device that its cable comes from; `None` for a cable of the MainDevice.
    pub after: Option<usize>,
    /// Port of that device; `None` for a cable of the MainDevice.
    pub port: Option<usize>,
}

/// State of bus and devices, every 10 s and at the end of `robot run`, with what was counted since
/// the start of the run; a later note replaces it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DevicesNote {
    /// Cycle of the bus.
    pub cycle: u64,
    /// Working counter of that cycle.
    pub working_counter: u16,
    /// Expected working counter.
    pub expected: u16,
    /// Number of devices in OP.
    pub in_op: u16,
    /// Cycles without a complete reply in time.
    pub lost: u64,
    /// Replies that arrived after their cycle.
    pub late: u64,
    /// Damaged, duplicate and foreign frames.
    pub strange: u64,
    /// Time since the last complete reply, in nanoseconds; 0 below ten cycles.
    pub no_answer_ns: u64,
    /// Devices, in the order of the note `robot`.
    pub devices: Vec<DeviceNote>,
}

/// A device at an instant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceNote {
    /// AL state: 1 INIT, 2 PREOP, 4 SAFEOP, 8 OP; `None` without an answer.
    pub al_state: Option<u8>,
    /// AL status code, 0 without an error.
    pub al_status_code: u16,
    /// State of a drive's power stage, such as `operation_enabled`; `None` without a drive or its
    /// answer.
    pub joint_state: Option<String>,
    /// Why its joint is not moving: `none`, `drive_fault`, `left_operation`, `following_error`,
    /// `not_enabled`, `other_mode`; `None` without a drive.
    pub reason: Option<String>,
    /// Number of times that it stopped answering.
    pub lost: u64,
    /// Number of times that it fell back to a lower AL state, or refused one.
    pub fell_back: u64,
    /// Emergencies and other alarms.
    pub other_alarms: u64,
    /// Error counters of the device that are not 0, since the bus came up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<CountedErrors>,
}

/// An error counter of a device since the bus came up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedErrors {
    /// `invalid_frames`, `rx_errors`, `lost_links`, `processing_unit_errors` or `pdi_errors`.
    pub counter: String,
    /// Port, 0 to 3; `None` for the whole device.
    pub port: Option<u8>,
    /// Number of errors.
    pub count: u16,
    /// Whether there may be more: the 8-bit counter was full.
    #[serde(default)]
    pub at_least: bool,
}
