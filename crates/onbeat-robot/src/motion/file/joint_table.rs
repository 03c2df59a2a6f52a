//! `[[joints]]`: settings of the drives whose names match a pattern.

use serde::Deserialize;

use super::range::RangeCheck;
use super::urdf::UrdfJoint;
use super::{JointSetting, RobotError};
use crate::motion::joint::CSP;
use crate::motion::limits::Limits;
use crate::motion::wave::Wave;
use onbeat_ethercat::layout::{DeviceLayout, MappedValue};

/// Maximum number of periods to average over; more would be an unreasonable delay.
const MOST_AVERAGED: usize = 1_000;

/// Offsets of a drive's values in the process image, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DriveOffsets {
    pub(crate) controlword: usize,
    pub(crate) target: usize,
    pub(crate) mode: Option<usize>,
    pub(crate) statusword: usize,
    pub(crate) position: usize,
    pub(crate) velocity: Option<usize>,
    pub(crate) torque: Option<usize>,
    pub(crate) error_code: Option<usize>,
    pub(crate) shown_mode: Option<usize>,
}

/// An output of a drive that has its start-up value in every cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptOutput {
    /// Offset in the outputs of the process image, in bytes.
    pub(crate) at: usize,
    /// The value, little endian.
    pub(crate) bytes: Vec<u8>,
}

/// Objects that the controller writes, and set-points of other modes and offsets, which are 0.
const WRITTEN: [u16; 9] = [0x6040, 0x6042, 0x6060, 0x6071, 0x607a, 0x60b0, 0x60b1, 0x60b2, 0x60ff];
/// Limits and windows of a drive, which 0 would take from it: torque, current, velocity, positions,
/// quick stop, interpolation, acceleration, torque in each direction.
const LIMITS: [u16; 12] = [
    0x6065, 0x6072, 0x6073, 0x607d, 0x607f, 0x6080, 0x6085, 0x60c2, 0x60c5, 0x60c6, 0x60e0, 0x60e1,
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JointTable {
    #[serde(rename = "match")]
    pub(super) pattern: String,
    pub(super) ignore: Option<bool>,
    /// Name of the joint in the URDF file.
    pub(super) urdf: Option<String>,
    low_rad: Option<f64>,
    high_rad: Option<f64>,
    velocity_rad_s: Option<f64>,
    acceleration_rad_s2: Option<f64>,
    jerk_rad_s3: Option<f64>,
    following_rad: Option<f64>,
    gear: Option<f64>,
    zero_rad: Option<f64>,
    amplitude_rad: Option<f64>,
    frequency_hz: Option<f64>,
    phase_rad: Option<f64>,
}

/// Returns the value of the last table that has the key.
pub(super) fn last<T>(tables: &[&JointTable], key: impl Fn(&JointTable) -> Option<T>) -> Option<T> {
    tables.iter().rev().find_map(|table| key(table))
}

/// Returns whether a name matches a pattern, in which `*` stands for any characters.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(behind) = name.strip_prefix(head) else { return false };
    behind
        .char_indices()
        .map(|(at, _)| at)
        .chain([behind.len()])
        .any(|at| fits(rest, &behind[at..]))
}

/// Returns the joint of a drive. Of several tables with a key, the last one counts.
///
/// # Errors
/// [`RobotError::Range`], [`RobotError::NotMapped`], [`RobotError::MappedOtherwise`],
/// [`RobotError::OtherMode`] and [`RobotError::LimitWithoutValue`].
pub(super) fn joint(
    place: usize,
    device: &DeviceLayout,
    tables: &[&JointTable],
    model: UrdfJoint,
    period_ns: u64,
) -> Result<JointSetting, RobotError> {
    let scale = JointScale::from_tables(device, tables);
    let limits = limits(device, tables, model, scale);
    let following_rad = last(tables, |table| table.following_rad).unwrap_or(0.2);
    // A narrow joint, such as a finger, has a sine within its travel by default.
    let usual_rad = (0.5 * (limits.high - limits.low)).clamp(0.0, 0.1);
    let sine = Wave {
        hertz: last(tables, |table| table.frequency_hz).unwrap_or(0.5),
        phase: last(tables, |table| table.phase_rad).unwrap_or(0.0),
        swing: last(tables, |table| table.amplitude_rad).unwrap_or(usual_rad),
        lift: 0.0,
    };

    let name = format!("joint \"{}\"", device.name);
    let check = RangeCheck { table: &name };
    scale.check(check)?;
    check_limits(check, &limits, scale, period_ns)?;
    check.above_0("following_rad", following_rad)?;
    check_sine(check, &sine)?;

    Ok(JointSetting {
        name: device.name.clone(),
        device: place,
        limits,
        following_rad,
        increments_per_rad: scale.increments_per_rad,
        zero_rad: scale.zero_rad,
        sine,
        offsets: offsets(device)?,
        kept: kept(device)?,
    })
}

/// How increments of a drive become positions of its joint.
#[derive(Clone, Copy)]
struct JointScale {
    gear: f64,
    increments_per_rad: f64,
    zero_rad: f64,
}

impl JointScale {
    fn from_tables(device: &DeviceLayout, tables: &[&JointTable]) -> Self {
        let gear = last(tables, |table| table.gear).unwrap_or(1.0);
        Self {
            gear,
            increments_per_rad: f64::from(device.increments) / std::f64::consts::TAU * gear,
            zero_rad: last(tables, |table| table.zero_rad).unwrap_or(0.0),
        }
    }

    fn check(self, check: RangeCheck<'_>) -> Result<(), RobotError> {
        let is_valid = self.gear != 0.0 && self.gear.is_finite();
        let must = "a number other than 0; below 0 the joint turns the other way";
        check.require("gear", self.gear, is_valid, must)?;
        check.finite("zero_rad", self.zero_rad)
    }

    /// Whether a drive can be commanded to this position of its joint.
    fn has(self, rad: f64) -> bool {
        let increments = (rad - self.zero_rad) * self.increments_per_rad;
        rad.is_finite() && increments.abs() <= f64::from(i32::MAX)
    }
}

/// Limits of the tables, or else of the URDF file, or of the drive.
fn limits(
    device: &DeviceLayout,
    tables: &[&JointTable],
    model: UrdfJoint,
    scale: JointScale,
) -> Limits {
    let usual = Limits::default();
    let [low, high] = travel(device, scale).unwrap_or([usual.low, usual.high]);
    let velocity = model.velocity.unwrap_or(usual.velocity);
    Limits {
        low: last(tables, |table| table.low_rad).or(model.low).unwrap_or(low),
        high: last(tables, |table| table.high_rad).or(model.high).unwrap_or(high),
        velocity: last(tables, |table| table.velocity_rad_s).unwrap_or(velocity),
        acceleration: last(tables, |table| table.acceleration_rad_s2).unwrap_or(usual.acceleration),
        jerk: last(tables, |table| table.jerk_rad_s3),
    }
}

fn check_limits(
    check: RangeCheck<'_>,
    limits: &Limits,
    scale: JointScale,
    period_ns: u64,
) -> Result<(), RobotError> {
    check.require("low_rad", limits.low, scale.has(limits.low), "within 32 bits of increments")?;
    let is_above = scale.has(limits.high) && limits.high > limits.low;
    let must = "above low_rad, within 32 bits of increments";
    check.require("high_rad", limits.high, is_above, must)?;

    check.above_0("velocity_rad_s", limits.velocity)?;
    check.above_0("acceleration_rad_s2", limits.acceleration)?;

    let jerk = limits.jerk.unwrap_or(1.0);
    check.above_0("jerk_rad_s3", jerk)?;
    let is_reached = limits.averaged_over(period_ns as f64 * 1e-9) <= MOST_AVERAGED;
    let must = "large enough to be reached within 1000 periods";
    check.require("jerk_rad_s3", jerk, is_reached, must)
}

fn check_sine(check: RangeCheck<'_>, sine: &Wave) -> Result<(), RobotError> {
    check.finite("amplitude_rad", sine.swing)?;
    let is_valid = sine.hertz >= 0.0 && sine.hertz.is_finite();
    check.require("frequency_hz", sine.hertz, is_valid, "0 or more")?;
    check.finite("phase_rad", sine.phase)
}

/// Returns the travel of the drive, if it has one, in rad of the joint.
fn travel(device: &DeviceLayout, scale: JointScale) -> Option<[f64; 2]> {
    let [low, high] =
        device.travel.map(|end| f64::from(end) / scale.increments_per_rad + scale.zero_rad);
    (device.travel[0] < device.travel[1]).then(|| [low.min(high), low.max(high)])
}

/// Finds the values of a drive that position control needs, each with the length of CiA 402: a value
/// of another length would reach what is mapped behind it, also of the next device.
fn offsets(device: &DeviceLayout) -> Result<DriveOffsets, RobotError> {
    let outputs = MappedSide { device, values: &device.output_values, at: device.outputs.start };
    let inputs = MappedSide { device, values: &device.input_values, at: device.inputs.start };
    outputs.require_single(&[0x6040, 0x6060, 0x607a])?;
    let mode = outputs.mapped(0x6060, 8)?;
    if let Some(other) = device.setup.startup_byte(0x6060, 0).filter(|start| *start != CSP)
        && mode.is_none()
    {
        let joint = device.name.clone();
        return Err(RobotError::OtherMode { joint, mode: other.cast_signed() });
    }
    Ok(DriveOffsets {
        controlword: outputs.needed(0x6040, 16)?,
        target: outputs.needed(0x607a, 32)?,
        mode,
        statusword: inputs.needed(0x6041, 16)?,
        position: inputs.needed(0x6064, 32)?,
        velocity: inputs.mapped(0x606c, 32).unwrap_or_default(),
        torque: inputs.mapped(0x6077, 16).unwrap_or_default(),
        error_code: inputs.mapped(0x603f, 16).unwrap_or_default(),
        shown_mode: inputs.mapped(0x6061, 8).unwrap_or_default(),
    })
}

/// Returns the outputs that keep their start-up values: a mapped object is written in every cycle,
/// so that 0 would replace what the start-up wrote.
fn kept(device: &DeviceLayout) -> Result<Vec<KeptOutput>, RobotError> {
    let mut kept = Vec::new();
    for value in device.output_values.iter().filter(|value| !WRITTEN.contains(&value.index)) {
        let mut startup = device.setup.startup.iter().rev();
        let is_of_value = |bytes: &Vec<u8>| {
            value.bit_at.is_multiple_of(8) && 8 * bytes.len() == usize::from(value.bits)
        };
        let bytes = startup
            .find(|start| (start.index, start.entry) == (value.index, value.entry))
            .filter(|start| !start.complete && is_of_value(&start.bytes))
            .map(|start| start.bytes.clone());
        match bytes {
            Some(bytes) => {
                kept.push(KeptOutput { at: device.outputs.start + value.bit_at / 8, bytes });
            }
            None if LIMITS.contains(&value.index) => {
                return Err(RobotError::LimitWithoutValue {
                    joint: device.name.clone(),
                    object: format!("{:04x}:{:x}", value.index, value.entry),
                    name: value.name.clone(),
                    bits: value.bits,
                });
            }
            None => (),
        }
    }
    Ok(kept)
}

/// The mapped values of a drive in one direction.
struct MappedSide<'d> {
    device: &'d DeviceLayout,
    values: &'d [MappedValue],
    /// Offset of the device in the process image, in bytes.
    at: usize,
}

impl MappedSide<'_> {
    fn refuse(&self, object: u16, how: String) -> RobotError {
        RobotError::MappedOtherwise { joint: self.device.name.clone(), object, how }
    }

    /// Returns the offset of an object with this length; `None` if it is not mapped.
    fn mapped(&self, object: u16, bits: u16) -> Result<Option<usize>, RobotError> {
        let is_it = |value: &&MappedValue| (value.index, value.entry) == (object, 0);
        let Some(value) = self.values.iter().find(is_it) else { return Ok(None) };
        if value.bits != bits {
            let how = format!("with {} bits, where CiA 402 has {bits}", value.bits);
            return Err(self.refuse(object, how));
        }
        if !value.bit_at.is_multiple_of(8) {
            return Err(self.refuse(object, "not at a whole byte".to_owned()));
        }
        Ok(Some(self.at + value.bit_at / 8))
    }

    fn needed(&self, object: u16, bits: u16) -> Result<usize, RobotError> {
        let missing = || RobotError::NotMapped { joint: self.device.name.clone(), object };
        self.mapped(object, bits)?.ok_or_else(missing)
    }

    /// Requires objects to be mapped once at most: which of two a drive follows is not known.
    fn require_single(&self, objects: &[u16]) -> Result<(), RobotError> {
        for &object in objects {
            let is_it = |value: &&MappedValue| (value.index, value.entry) == (object, 0);
            let times = self.values.iter().filter(is_it).count();
            if times > 1 {
                return Err(self.refuse(object, format!("{times} times")));
            }
        }
        Ok(())
    }
}
