//! Robot file: `[robot]` and `[[joints]]`, in the segment file or in a file of its own;
//! `docs/robot.md`.

use serde::Deserialize;
use serde::de::IgnoredAny;

use onbeat_control::Joint;
use onbeat_ethercat::layout::{DeviceKind, DeviceLayout, Layout};

use super::goal::MOST_JOINTS;
use super::ladder::Thresholds;
use super::limits::Limits;
use super::waves::Wave;

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
    /// A pattern matches no drive.
    #[error("[[joints]] match = \"{0}\" matches no drive; `*` stands for any characters")]
    FitsNothing(String),
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
}

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
struct RobotFile {
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RobotTable {
    trajectory: String,
    on_fault: OnFault,
    enable_at_once: usize,
    enable_every_ms: f64,
    enable_within_ms: f64,
    soft_start_ms: f64,
    following_ms: f64,
    ladder: LadderTable,
    gait: GaitSettings,
    goal: GoalTable,
    csv: CsvSettings,
}

impl Default for RobotTable {
    fn default() -> Self {
        Self {
            trajectory: "hold".to_owned(),
            on_fault: OnFault::default(),
            enable_at_once: 8,
            enable_every_ms: 20.0,
            enable_within_ms: 2_000.0,
            soft_start_ms: 2_000.0,
            following_ms: 50.0,
            ladder: LadderTable::default(),
            gait: GaitSettings::default(),
            goal: GoalTable::default(),
            csv: CsvSettings::default(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LadderTable {
    degrade_at: u32,
    stop_at: u32,
    forget_cycles: u32,
    warmup_cycles: u32,
    degraded_speed: f64,
}

impl Default for LadderTable {
    fn default() -> Self {
        let usual = Thresholds::default();
        Self {
            degrade_at: usual.degrade_at,
            stop_at: usual.stop_at,
            forget_cycles: usual.forget,
            warmup_cycles: usual.warmup,
            degraded_speed: usual.degraded_speed,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct GoalTable {
    age_ms: f64,
    lost_ms: f64,
}

impl Default for GoalTable {
    fn default() -> Self {
        Self { age_ms: 100.0, lost_ms: 1_000.0 }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JointTable {
    #[serde(rename = "match")]
    pattern: String,
    ignore: Option<bool>,
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

/// Maximum number of periods to average over; more would be an unreasonable delay.
const MOST_AVERAGED: usize = 1_000;

impl Robot {
    /// Returns the joints as published to a commander, in order.
    #[must_use]
    pub fn commanded(&self) -> Vec<Joint> {
        let published = |joint: &JointSetting| Joint {
            device: joint.device,
            low_rad: joint.limits.low,
            high_rad: joint.limits.high,
            velocity_rad_s: joint.limits.velocity,
        };
        self.joints.iter().map(published).collect()
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
    /// [`RobotError`]: what in the file is invalid.
    pub fn from_toml(text: &str, layout: &Layout, period_ns: u64) -> Result<Self, RobotError> {
        let file: RobotFile = toml::from_str(text).map_err(|error| syntax(text, &error))?;
        let settings = settings(file.robot, period_ns)?;
        let mut joints = Vec::new();
        let drives = || {
            layout.devices.iter().enumerate().filter(|(_, device)| device.kind == DeviceKind::Drive)
        };
        for table in &file.joints {
            if !drives().any(|(_, device)| fits(&table.pattern, &device.name)) {
                return Err(RobotError::FitsNothing(table.pattern.clone()));
            }
        }

        for (place, device) in drives() {
            let tables: Vec<&JointTable> =
                file.joints.iter().filter(|table| fits(&table.pattern, &device.name)).collect();
            if !last(&tables, |table| table.ignore).unwrap_or(false) {
                joints.push(joint(place, device, &tables, period_ns)?);
            }
        }

        match joints.len() {
            0 => Err(RobotError::NoJoints(layout.name.clone())),
            1..=MOST_JOINTS => Ok(Self { name: layout.name.clone(), joints, settings }),
            more => Err(RobotError::TooManyJoints(more)),
        }
    }
}

fn syntax(text: &str, error: &toml::de::Error) -> RobotError {
    let before = &text[..error.span().map_or(0, |span| span.start.min(text.len()))];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|&letter| letter != '\n').count() + 1;
    RobotError::Syntax { line, column, why: error.message().replace('\n', " ") }
}

/// Returns the value of the last table that has the key.
fn last<T>(tables: &[&JointTable], key: impl Fn(&JointTable) -> Option<T>) -> Option<T> {
    tables.iter().rev().find_map(|table| key(table))
}

/// Returns whether a name matches a pattern, in which `*` stands for any characters.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(behind) = name.strip_prefix(head) else { return false };
    behind
        .char_indices()
        .map(|(at, _)| at)
        .chain([behind.len()])
        .any(|at| fits(rest, &behind[at..]))
}

fn joint(
    place: usize,
    device: &DeviceLayout,
    tables: &[&JointTable],
    period_ns: u64,
) -> Result<JointSetting, RobotError> {
    let usual = Limits::default();
    let gear = last(tables, |table| table.gear).unwrap_or(1.0);
    let zero_rad = last(tables, |table| table.zero_rad).unwrap_or(0.0);
    let increments_per_rad = f64::from(device.increments) / std::f64::consts::TAU * gear;
    let [low, high] =
        travel(device, increments_per_rad, zero_rad).unwrap_or([usual.low, usual.high]);
    let limits = Limits {
        low: last(tables, |table| table.low_rad).unwrap_or(low),
        high: last(tables, |table| table.high_rad).unwrap_or(high),
        velocity: last(tables, |table| table.velocity_rad_s).unwrap_or(usual.velocity),
        acceleration: last(tables, |table| table.acceleration_rad_s2).unwrap_or(usual.acceleration),
        jerk: last(tables, |table| table.jerk_rad_s3),
    };

    let following_rad = last(tables, |table| table.following_rad).unwrap_or(0.2);
    let sine = Wave {
        hertz: last(tables, |table| table.frequency_hz).unwrap_or(0.5),
        phase: last(tables, |table| table.phase_rad).unwrap_or(0.0),
        swing: last(tables, |table| table.amplitude_rad).unwrap_or(0.1),
        lift: 0.0,
    };

    let at = format!("joint \"{}\"", device.name);
    let above = |number: f64| number > 0.0 && number.is_finite();
    let counts = |rad: f64| {
        rad.is_finite() && ((rad - zero_rad) * increments_per_rad).abs() <= f64::from(i32::MAX)
    };
    let averaged = limits.averaged_over(period_ns as f64 * 1e-9);
    check(
        &at,
        "gear",
        gear,
        gear != 0.0 && gear.is_finite(),
        "a number other than 0; below 0 the joint turns the other way",
    )?;
    check(&at, "zero_rad", zero_rad, zero_rad.is_finite(), "a finite number")?;
    check(&at, "low_rad", limits.low, counts(limits.low), "within 32 bits of increments")?;
    check(
        &at,
        "high_rad",
        limits.high,
        counts(limits.high) && limits.high > limits.low,
        "above low_rad, within 32 bits of increments",
    )?;
    check(&at, "velocity_rad_s", limits.velocity, above(limits.velocity), "above 0")?;
    check(&at, "acceleration_rad_s2", limits.acceleration, above(limits.acceleration), "above 0")?;
    let jerk = limits.jerk.unwrap_or(1.0);
    check(&at, "jerk_rad_s3", jerk, above(jerk), "above 0")?;
    check(
        &at,
        "jerk_rad_s3",
        jerk,
        averaged <= MOST_AVERAGED,
        "large enough to be reached within 1000 periods",
    )?;
    check(&at, "following_rad", following_rad, above(following_rad), "above 0")?;
    check(&at, "amplitude_rad", sine.swing, sine.swing.is_finite(), "a finite number")?;
    check(
        &at,
        "frequency_hz",
        sine.hertz,
        sine.hertz >= 0.0 && sine.hertz.is_finite(),
        "0 or more",
    )?;
    check(&at, "phase_rad", sine.phase, sine.phase.is_finite(), "a finite number")?;
    let offsets = offsets(device)?;
    Ok(JointSetting {
        name: device.name.clone(),
        device: place,
        limits,
        following_rad,
        increments_per_rad,
        zero_rad,
        sine,
        offsets,
    })
}

/// Returns the travel of the drive, if it has one, in rad of the joint.
fn travel(device: &DeviceLayout, increments_per_rad: f64, zero_rad: f64) -> Option<[f64; 2]> {
    let [low, high] = device.travel.map(|end| f64::from(end) / increments_per_rad + zero_rad);
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

fn check(
    place: &str,
    key: &'static str,
    value: f64,
    is_valid: bool,
    must: &'static str,
) -> Result<(), RobotError> {
    if is_valid {
        Ok(())
    } else {
        Err(RobotError::Range { place: place.to_owned(), key, value, must })
    }
}

fn settings(table: RobotTable, period_ns: u64) -> Result<RobotSettings, RobotError> {
    let times = [
        ("enable_every_ms", table.enable_every_ms),
        ("enable_within_ms", table.enable_within_ms),
        ("soft_start_ms", table.soft_start_ms),
        ("following_ms", table.following_ms),
    ];

    for (key, value) in times {
        check("[robot]", key, value, (0.0..=1e9).contains(&value), "0 to 1000000000")?;
    }

    check(
        "[robot]",
        "enable_at_once",
        table.enable_at_once as f64,
        table.enable_at_once > 0,
        "1 or more",
    )?;
    let goal = table.goal;
    check(
        "[robot.goal]",
        "age_ms",
        goal.age_ms,
        (0.0..=1e9).contains(&goal.age_ms),
        "0 to 1000000000",
    )?;
    let is_in_order = goal.lost_ms == 0.0 || (goal.age_ms..=1e9).contains(&goal.lost_ms);
    check(
        "[robot.goal]",
        "lost_ms",
        goal.lost_ms,
        is_in_order,
        "age_ms to 1000000000, or 0 for never",
    )?;
    let ladder = table.ladder;
    let ordered = 0 < ladder.degrade_at && ladder.degrade_at <= ladder.stop_at;
    check(
        "[robot.ladder]",
        "degrade_at",
        f64::from(ladder.degrade_at),
        ordered,
        "at least 1 and at most stop_at",
    )?;
    check(
        "[robot.ladder]",
        "forget_cycles",
        f64::from(ladder.forget_cycles),
        ladder.forget_cycles > 0,
        "1 or more",
    )?;
    let speed = ladder.degraded_speed;
    check("[robot.ladder]", "degraded_speed", speed, (0.0..=1.0).contains(&speed), "0 to 1")?;
    let gait = table.gait;
    let numbers =
        [gait.steps_hz, gait.hip_rad, gait.sway_rad, gait.knee_rad, gait.ankle_rad, gait.arm_rad];
    let odd = numbers.into_iter().find(|number| !number.is_finite());
    check(
        "[robot.gait]",
        "a number",
        odd.unwrap_or_default(),
        odd.is_none() && gait.steps_hz >= 0.0,
        "finite, and steps_hz 0 or more",
    )?;
    let ns = |ms: f64| (ms * 1e6) as u64;
    Ok(RobotSettings {
        trajectory: table.trajectory,
        period_ns: period_ns.max(1),
        on_fault: table.on_fault,
        enable_at_once: table.enable_at_once,
        enable_every_ns: ns(table.enable_every_ms),
        enable_within_ns: ns(table.enable_within_ms),
        soft_start_ns: ns(table.soft_start_ms),
        following_ns: ns(table.following_ms),
        goal_age_ns: ns(goal.age_ms),
        goal_lost_ns: (goal.lost_ms > 0.0).then(|| ns(goal.lost_ms)),
        thresholds: Thresholds {
            degrade_at: ladder.degrade_at,
            stop_at: ladder.stop_at,
            forget: ladder.forget_cycles,
            warmup: ladder.warmup_cycles,
            degraded_speed: speed,
        },
        gait,
        csv: table.csv,
    })
}
