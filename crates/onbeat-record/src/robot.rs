//! What a robot is, and how its devices fared.

use serde::{Deserialize, Serialize};

/// A robot: its joints with their limits, its devices as a tree. Written once, before it moves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RobotNote {
    /// Its name in the file.
    pub name: String,
    /// Period of the loop, in ns.
    pub period_ns: u64,
    /// Joints, in the order of the file.
    pub joints: Vec<RobotJoint>,
    /// Devices, in the order of the cable.
    pub devices: Vec<RobotDevice>,
}

/// A joint and its limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RobotJoint {
    pub name: String,
    /// Its device, by position.
    pub device: usize,
    /// Lowest position, in rad.
    pub low_rad: f64,
    /// Highest position, in rad.
    pub high_rad: f64,
    /// Largest velocity, in rad/s.
    pub velocity_rad_s: f64,
    /// Largest following error, in rad.
    pub following_rad: f64,
}

/// A device, and where its cable comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RobotDevice {
    pub name: String,
    /// `coupler`, `digital`, `analogue`, `drive`, `imu`, `force-torque`.
    pub kind: String,
    /// Position of the device that its cable comes from; `None` for a cable of the MainDevice.
    pub after: Option<usize>,
    /// The port there.
    pub port: Option<usize>,
}

/// Bus and devices at an instant, with what was counted since the start of the run; a later note
/// replaces it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DevicesNote {
    /// Cycle of the bus.
    pub cycle: u64,
    /// Working counter of that cycle.
    pub working_counter: u16,
    /// The one that is expected.
    pub expected: u16,
    /// Devices in OP.
    pub in_op: u16,
    /// Cycles without a complete reply in time.
    pub lost: u64,
    /// Replies that arrived after their cycle.
    pub late: u64,
    /// Frames that are damaged, arrived twice, or were not sent by this bus.
    pub strange: u64,
    /// Time since the last complete reply, in ns; 0 below ten cycles.
    pub no_answer_ns: u64,
    /// Devices, in the order of the note `robot`.
    pub devices: Vec<DeviceNote>,
}

/// A device at an instant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceNote {
    /// 1 INIT, 2 PREOP, 4 SAFEOP, 8 OP; `None` without an answer.
    pub al_state: Option<u8>,
    /// AL status code, 0 without an error.
    pub al_status_code: u16,
    /// State of a drive's power stage: `operation_enabled`.
    pub joint_state: Option<String>,
    /// Why its joint is down: `none`, `drive_fault`, `left_operation`, `following_error`,
    /// `not_enabled`.
    pub reason: Option<String>,
    /// Times that it no longer answered.
    pub lost: u64,
    /// Times that it fell back to a lower AL state, or refused one.
    pub fell_back: u64,
    /// Emergencies, and other alarms.
    pub other_alarms: u64,
    /// What its error counters have counted, where that is not 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<CountedErrors>,
}

/// What an error counter of a device has counted since the bus came up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedErrors {
    /// `invalid_frames`, `rx_errors`, `lost_links`, `processing_unit_errors`, `pdi_errors`.
    pub counter: String,
    /// Its port, 0 to 3; `None` for the whole device.
    pub port: Option<u8>,
    /// Errors.
    pub count: u16,
    /// Whether there may have been more: the counter, of 8 bits, was full.
    #[serde(default)]
    pub at_least: bool,
}
