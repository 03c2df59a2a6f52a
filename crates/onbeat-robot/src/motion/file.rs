//! Robot file: `[robot]` and `[[joints]]`, in the segment file or in a file of its own;
//! `docs/robot.md`.

mod joint_table;
mod range;
mod robot_table;
mod urdf;

use std::f64::consts::TAU;
use std::io;

use serde::Deserialize;
use serde::de::IgnoredAny;

use onbeat_control::Joint;
use onbeat_ethercat::layout::{DeviceKind, DeviceLayout, Layout};

use self::joint_table::{DriveOffsets, JointTable, KeptOutput, fits, joint, last};
use self::robot_table::RobotTable;
use self::urdf::{UrdfJoint, UrdfJoints};
use super::ladder::Thresholds;
use super::limits::Limits;
use super::wave::Wave;

/// Maximum number of joints of a robot: the size of goal records and of the status.
pub const MOST_JOINTS: usize = 256;
/// Distance of a travel from 0, in rad, up to which nothing is said about its unit.
const USUAL_TRAVEL: f64 = 2.0 * TAU;

/// Errors in a robot file.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RobotError {
    /// The file is not valid TOML, or has an unknown key or value.
    #[error("the robot file cannot be read: line {line}, column {column}: {why}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// Message of the parser.
        why: String,
    },
    /// The segment has no drive that can be a joint.
    #[error(
        "\"{0}\" has no drive with a controlword and a target position in its process data; a robot needs joints"
    )]
    NoJoints(String),
    /// The robot has too many joints.
    #[error(
        "the robot has {0} joints, at most {MOST_JOINTS} are possible; exclude some with `ignore = true`"
    )]
    TooManyJoints(usize),
    /// A drive lacks an object that position control needs.
    #[error(
        "drive \"{joint}\" does not map object {object:#06x}; map it (docs/segment.md), or exclude the drive with `ignore = true`"
    )]
    NotMapped {
        /// Name of the drive.
        joint: String,
        /// Index of the missing object.
        object: u16,
    },
    /// A drive maps an object in a way that position control cannot write or read.
    #[error(
        "drive \"{joint}\" maps object {object:#06x} {how}; change its mapping (docs/segment.md), or exclude the drive with `ignore = true`"
    )]
    MappedOtherwise {
        /// Name of the drive.
        joint: String,
        /// Index of the object.
        object: u16,
        /// How it is mapped.
        how: String,
    },
    /// A start-up value puts the drive into another mode, and no output sets it.
    #[error(
        "drive \"{joint}\" has the start-up value {mode} of its mode of operation (0x6060), which is not in its outputs; a joint needs 8, cyclic synchronous position"
    )]
    OtherMode {
        /// Name of the drive.
        joint: String,
        /// Its mode of operation (CiA 402).
        mode: i8,
    },
    /// A limit of the drive is in its outputs, and no start-up value says what it is.
    #[error(
        "drive \"{joint}\" has its limit {object} ({name}) in its outputs and no start-up value: every cycle would write 0. Give it a start-up value of {bits} bits (docs/segment.md), or do not map it"
    )]
    LimitWithoutValue {
        /// Name of the drive.
        joint: String,
        /// Index and subindex of the limit.
        object: String,
        /// Its name.
        name: String,
        /// Its length.
        bits: u16,
    },
    /// The URDF file cannot be read, or lacks a joint.
    #[error("the URDF file {file}: {why}")]
    Urdf {
        /// The file, as it was given.
        file: String,
        /// What is wrong.
        why: String,
    },
    /// A pattern matches no drive.
    #[error("[[joints]] match = \"{0}\" matches no drive; `*` stands for any characters")]
    FitsNothing(String),
    /// A pattern matches drives of optional groups only.
    #[error(
        "[[joints]] match = \"{0}\" matches only drives of optional groups, which come and go and are no joints; write their outputs with a library (docs/control.md), or remove `group`"
    )]
    OptionalDrive(String),
    /// A number is out of range.
    #[error("{place}: {key} = {value}; it must be {must}")]
    Range {
        /// Table, or name of the joint.
        place: String,
        /// The key.
        key: &'static str,
        /// Its value.
        value: f64,
        /// Valid range, in words.
        must: &'static str,
    },
}

/// Effect of a drive fault on the other joints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnFault {
    /// The joint goes down, the others continue.
    #[default]
    Joint,
    /// The robot enters the safe stop.
    Robot,
}

/// Interpolation between the samples of a CSV file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interpolation {
    /// Linear.
    Linear,
    /// Cubic, within the range of two neighbouring samples.
    #[default]
    Cubic,
}

/// Behaviour after the last sample of a CSV file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AtEnd {
    /// Joints hold their positions.
    #[default]
    Hold,
    /// The trajectory starts again.
    Loop,
}

/// Settings of a CSV trajectory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CsvSettings {
    /// Interpolation between samples.
    pub interpolation: Interpolation,
    /// Behaviour after the last sample.
    pub at_end: AtEnd,
}

/// Settings of the gait; amplitudes in rad, in both directions except for knees and elbows.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GaitSettings {
    /// Steps per second, both legs together.
    pub steps_hz: f64,
    /// Hips.
    pub hip_rad: f64,
    /// Hips, sideways.
    pub sway_rad: f64,
    /// Knees.
    pub knee_rad: f64,
    /// Ankles.
    pub ankle_rad: f64,
    /// Shoulders and elbows.
    pub arm_rad: f64,
}

impl Default for GaitSettings {
    fn default() -> Self {
        Self {
            steps_hz: 1.6,
            hip_rad: 0.35,
            sway_rad: 0.06,
            knee_rad: 0.7,
            ankle_rad: 0.2,
            arm_rad: 0.3,
        }
    }
}

/// Settings of a robot.
#[derive(Clone, Debug, PartialEq)]
pub struct RobotSettings {
    /// Name of the default trajectory: `hold`, `sine`, `gait`, `goal`, `commander` or `csv:FILE`.
    pub trajectory: String,
    /// Period of the bus, in ns.
    pub period_ns: u64,
    /// Effect of a drive fault on the other joints.
    pub on_fault: OnFault,
    /// Number of drives enabled together.
    pub enable_at_once: usize,
    /// Interval between groups, in ns.
    pub enable_every_ns: u64,
    /// Time after which a drive that is not enabled goes down, in ns.
    pub enable_within_ns: u64,
    /// Duration of fade-in and fade-out of a trajectory, in ns.
    pub soft_start_ns: u64,
    /// Maximum duration of an excessive following error, in ns.
    pub following_ns: u64,
    /// Maximum age of a goal, in ns.
    pub goal_age_ns: u64,
    /// Time without a valid goal after which a commander that has not left is lost, and the robot
    /// enters the safe stop, in ns; `None` for never.
    pub goal_lost_ns: Option<u64>,
    /// Thresholds of the miss ladder.
    pub thresholds: Thresholds,
    /// Settings of the gait.
    pub gait: GaitSettings,
    /// Settings of CSV trajectories.
    pub csv: CsvSettings,
}

/// Settings of a joint: a drive of the segment.
#[derive(Clone, Debug, PartialEq)]
pub struct JointSetting {
    /// Name of the device.
    pub name: String,
    /// Index of the device in the layout.
    pub device: usize,
    /// Limits of its set-point.
    pub limits: Limits,
    /// Maximum following error, in rad.
    pub following_rad: f64,
    /// Encoder increments per rad of the joint; negative reverses the direction.
    pub(crate) increments_per_rad: f64,
    /// Position of the joint at increment 0, in rad.
    pub(crate) zero_rad: f64,
    pub(crate) sine: Wave,
    pub(crate) offsets: DriveOffsets,
    /// Outputs that have their start-up values in every cycle.
    pub(crate) kept: Vec<KeptOutput>,
}

/// A robot: joints on a segment.
#[derive(Clone, Debug, PartialEq)]
pub struct Robot {
    /// Name of the segment.
    pub name: String,
    /// Joints in the order of the cable.
    pub joints: Vec<JointSetting>,
    /// Settings of the robot.
    pub settings: RobotSettings,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RobotFileTables {
    #[serde(default)]
    robot: RobotTable,
    #[serde(default)]
    joints: Vec<JointTable>,
    // Tables of the segment are ignored here.
    #[serde(default, rename = "segment")]
    _segment: IgnoredAny,
    #[serde(default, rename = "types")]
    _types: IgnoredAny,
    #[serde(default, rename = "devices")]
    _devices: IgnoredAny,
    #[serde(default, rename = "faults")]
    _faults: IgnoredAny,
}

impl Robot {
    /// Returns the joints as published to a commander, in order.
    #[must_use]
    pub fn commanded(&self) -> Vec<Joint> {
        let published = |joint: &JointSetting| Joint {
            device: joint.device,
            low_rad: joint.limits.low,
            high_rad: joint.limits.high,
            velocity_rad_s: joint.limits.velocity,
            increments_per_rad: joint.increments_per_rad,
            zero_rad: joint.zero_rad,
        };
        self.joints.iter().map(published).collect()
    }

    /// Returns a sentence about joints whose travel ends several turns from 0, as one in degrees.
    #[must_use]
    pub fn far_travel(&self) -> Option<String> {
        let is_far = |joint: &&JointSetting| {
            joint.limits.low.abs().max(joint.limits.high.abs()) > USUAL_TRAVEL
        };
        let (Limits { low, high, .. }, names) = first_of(self.joints.iter().filter(is_far))?;
        Some(format!(
            "{names}: the travel is {low:.2} to {high:.2} rad, {:.0} turns; if these are degrees, write {:.3} to {:.3}",
            (high - low) / TAU,
            low.to_radians(),
            high.to_radians()
        ))
    }

    /// Returns a sentence about joints with a default for a limit, which a real one may not stand.
    #[must_use]
    pub fn default_limits(&self) -> Option<String> {
        let usual = Limits::default();
        let is_default = |joint: &&JointSetting| {
            let Limits { low, high, velocity, acceleration, .. } = joint.limits;
            let has_travel = (low, high) != (usual.low, usual.high);
            !has_travel || velocity == usual.velocity || acceleration == usual.acceleration
        };
        let (_, names) = first_of(self.joints.iter().filter(is_default))?;
        Some(format!(
            "{names}: the default travel ({:.2} to {:.2} rad), velocity ({} rad/s) or acceleration ({} rad/s²) is used; set all three in \
             [[joints]]",
            usual.low, usual.high, usual.velocity, usual.acceleration
        ))
    }

    /// Returns the index of the joint with this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.joints.iter().position(|joint| joint.name == name)
    }

    /// Creates the robot of a file for the devices of a segment, on a bus with this period. Tables
    /// of the segment are ignored.
    ///
    /// # Errors
    /// [`RobotError`]: what in the file is invalid, or that it refers to a URDF file.
    pub fn from_toml(text: &str, layout: &Layout, period_ns: u64) -> Result<Self, RobotError> {
        let unread = |_: &str| Err(io::Error::other("this program reads no other file"));
        Self::from_toml_with(text, layout, period_ns, unread)
    }

    /// The same for a file that may refer to a URDF file, whose text `read` returns.
    ///
    /// # Errors
    /// [`RobotError`]: what in the files is invalid.
    pub fn from_toml_with(
        text: &str,
        layout: &Layout,
        period_ns: u64,
        read: impl FnOnce(&str) -> io::Result<String>,
    ) -> Result<Self, RobotError> {
        let file: RobotFileTables = toml::from_str(text).map_err(|error| syntax(text, &error))?;
        let model = file.robot.urdf.clone().map(|name| model(name, read)).transpose()?;
        let settings = file.robot.settings(period_ns)?;
        let is_drive = |device: &&DeviceLayout| device.kind == DeviceKind::Drive;
        let (always_there, optional) = layout.devices.split_at(layout.always_there());
        let drives = || always_there.iter().enumerate().filter(|(_, device)| is_drive(device));

        for table in &file.joints {
            if !drives().any(|(_, device)| fits(&table.pattern, &device.name)) {
                let fits = |device: &DeviceLayout| fits(&table.pattern, &device.name);
                if optional.iter().filter(is_drive).any(fits) {
                    return Err(RobotError::OptionalDrive(table.pattern.clone()));
                }
                return Err(RobotError::FitsNothing(table.pattern.clone()));
            }
        }

        let mut joints = Vec::new();
        for (place, device) in drives() {
            let tables: Vec<&JointTable> =
                file.joints.iter().filter(|table| fits(&table.pattern, &device.name)).collect();
            if !last(&tables, |table| table.ignore).unwrap_or(false) {
                let model = joint_in(model.as_ref(), device, &tables)?;
                joints.push(joint(place, device, &tables, model, period_ns)?);
            }
        }

        match joints.len() {
            0 => Err(RobotError::NoJoints(layout.name.clone())),
            1..=MOST_JOINTS => Ok(Self { name: layout.name.clone(), joints, settings }),
            more => Err(RobotError::TooManyJoints(more)),
        }
    }
}

/// Returns the limits of the first of these joints, and its name with the number of the others.
fn first_of<'j>(mut joints: impl Iterator<Item = &'j JointSetting>) -> Option<(Limits, String)> {
    let JointSetting { name, limits, .. } = joints.next()?;
    let more = match joints.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some((*limits, format!("\"{name}\"{more}")))
}

/// Reads a URDF file.
fn model(
    file: String,
    read: impl FnOnce(&str) -> io::Result<String>,
) -> Result<(String, UrdfJoints), RobotError> {
    let refused = |why: String| RobotError::Urdf { file: file.clone(), why };
    let text = read(&file).map_err(|why| refused(format!("it cannot be read: {why}")))?;
    let joints = UrdfJoints::read(&text).map_err(refused)?;
    Ok((file, joints))
}

/// Returns the joint of a drive in the URDF file, if there is one.
fn joint_in(
    model: Option<&(String, UrdfJoints)>,
    device: &DeviceLayout,
    tables: &[&JointTable],
) -> Result<UrdfJoint, RobotError> {
    let Some((file, joints)) = model else { return Ok(UrdfJoint::default()) };
    let name = last(tables, |table| table.urdf.clone()).unwrap_or_else(|| device.name.clone());
    let refused = |why: String| Err(RobotError::Urdf { file: file.clone(), why });
    match joints.find(&name) {
        Some(joint) if joint.is_prismatic => refused(format!(
            "joint \"{name}\" is prismatic, and joints of onbeat turn; exclude the drive \"{}\" with `ignore = true`",
            device.name
        )),
        Some(joint) => Ok(joint),
        None => refused(format!(
            "it has no joint \"{name}\" that moves; write its name as `urdf` into [[joints]] of the drive \"{}\", or exclude the drive \
             with `ignore = true`",
            device.name
        )),
    }
}

fn syntax(text: &str, error: &toml::de::Error) -> RobotError {
    let before = &text[..error.span().map_or(0, |span| span.start.min(text.len()))];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|&letter| letter != '\n').count() + 1;
    RobotError::Syntax { line, column, why: error.message().replace('\n', " ") }
}
