//! `[[joints]]`: settings of the drives whose names match a pattern.

use serde::Deserialize;

use super::range::RangeCheck;
use super::{JointSetting, RobotError};
use crate::motion::limits::Limits;
use crate::motion::wave::Wave;
use onbeat_ethercat::layout::DeviceLayout;

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
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JointTable {
    #[serde(rename = "match")]
    pub(super) pattern: String,
    pub(super) ignore: Option<bool>,
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
/// [`RobotError::Range`] and [`RobotError::NotMapped`].
pub(super) fn joint(
    place: usize,
    device: &DeviceLayout,
    tables: &[&JointTable],
    period_ns: u64,
) -> Result<JointSetting, RobotError> {
    let scale = JointScale::from_tables(device, tables);
    let limits = limits(device, tables, scale);
    let following_rad = last(tables, |table| table.following_rad).unwrap_or(0.2);
    let sine = Wave {
        hertz: last(tables, |table| table.frequency_hz).unwrap_or(0.5),
        phase: last(tables, |table| table.phase_rad).unwrap_or(0.0),
        swing: last(tables, |table| table.amplitude_rad).unwrap_or(0.1),
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

fn limits(device: &DeviceLayout, tables: &[&JointTable], scale: JointScale) -> Limits {
    let usual = Limits::default();
    let [low, high] = travel(device, scale).unwrap_or([usual.low, usual.high]);
    Limits {
        low: last(tables, |table| table.low_rad).unwrap_or(low),
        high: last(tables, |table| table.high_rad).unwrap_or(high),
        velocity: last(tables, |table| table.velocity_rad_s).unwrap_or(usual.velocity),
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

fn offsets(device: &DeviceLayout) -> Result<DriveOffsets, RobotError> {
    let missing = |object| RobotError::NotMapped { joint: device.name.clone(), object };
    let output = |object| device.output_at(object, 0).ok_or_else(|| missing(object));
    let input = |object| device.input_at(object, 0).ok_or_else(|| missing(object));
    Ok(DriveOffsets {
        controlword: output(0x6040)?,
        target: output(0x607a)?,
        mode: device.output_at(0x6060, 0),
        statusword: input(0x6041)?,
        position: input(0x6064)?,
        velocity: device.input_at(0x606c, 0),
        torque: device.input_at(0x6077, 0),
    })
}
