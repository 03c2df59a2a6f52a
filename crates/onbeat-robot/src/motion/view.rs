//! A robot for people and programs: everything that is shown of it, in one object.

use serde::Serialize;

use onbeat_ethercat::layout::{DeviceKind, Layout};

use super::file::Robot;
use super::ladder::Rung;
use super::limits::AtLimit;
use super::power::JointState;
use super::status::{DownReason, RobotCounts, RobotPhase, SafeStopReason};
use super::task::{RobotSnapshot, RoundTrips};

/// One joint.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct JointView {
    /// Of its drive.
    pub state: JointState,
    /// Why it is down.
    pub reason: DownReason,
    /// Set-point, in rad.
    pub target_rad: f64,
    /// In rad.
    pub actual_rad: f64,
    /// In rad/s.
    pub velocity_rad_s: f64,
    /// Set-point minus position, in rad.
    pub following_rad: f64,
    /// That, as part of what is allowed.
    pub following_share: f64,
    /// In thousandths of the rated torque.
    pub torque_permille: i16,
    /// Limits that it is at.
    pub at: AtLimit,
}

/// One device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceView {
    /// From the file.
    pub name: String,
    /// What it is for: `drive`, `digital`, ...
    pub kind: &'static str,
    /// 1 INIT, 2 PREOP, 4 SAFEOP, 8 OP; nothing when it does not answer.
    pub al_state: Option<u8>,
    /// 0 without an error.
    pub al_status_code: u16,
    /// What it moves.
    pub joint: Option<JointView>,
}

/// The bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BusView {
    /// In ns.
    pub period_ns: u64,
    /// Number of the cycle.
    pub cycle: u64,
    /// RobotSnapshot last.
    pub working_counter: u16,
    /// What it should be.
    pub expected: u16,
    /// Devices in OP; none while nothing comes back.
    pub in_op: u16,
    /// How long nothing has come back in time, in ns; 0 when that is for less than ten cycles.
    pub no_answer_ns: u64,
    /// Cycles of which no frame came back in time.
    pub lost: u64,
    /// Since the start.
    pub round_trips: RoundTrips,
}

/// The loop, as its recorder has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LoopView {
    /// Largest wake-up latency, in ns.
    pub worst_ns: u64,
    /// Cycles that missed their deadline.
    pub deadline_misses: u64,
    /// Releases skipped.
    pub skipped: u64,
    /// Spikes.
    pub spikes: u64,
}

/// One spike and what made it late.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpikeView {
    /// Seconds since the start of the run.
    pub t: f64,
    /// Wake-up latency, in ns.
    pub late_ns: u64,
    /// Main cause.
    pub cause: String,
}

/// The whole robot.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RobotView {
    /// Of the segment.
    pub name: String,
    /// What it is about.
    pub phase: RobotPhase,
    /// Of the miss ladder.
    pub rung: Rung,
    /// Why it is in a safe stop, and the joint that led to it.
    pub stopped_by: SafeStopReason,
    /// See [`Self::stopped_by`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_joint: Option<String>,
    /// Misses in the bucket, and at how many of them it stops.
    pub misses: [u32; 2],
    /// Pace of trajectory time.
    pub speed: f64,
    /// Time of the trajectory, in ns.
    pub time_ns: u64,
    /// RobotCounts since the start.
    pub counts: RobotCounts,
    /// The bus.
    pub bus: BusView,
    /// The loop.
    #[serde(rename = "loop")]
    pub of_loop: LoopView,
    /// Devices in the order of the cable.
    pub devices: Vec<DeviceView>,
    /// The latest spikes.
    pub spikes: Vec<SpikeView>,
}

impl RobotView {
    /// What was seen of a robot. Loop and spikes are left to whoever records them.
    #[must_use]
    pub fn new(robot: &Robot, layout: &Layout, seen: &RobotSnapshot) -> Self {
        let RobotSnapshot { cycle, status, round_trips, bus, al_status, .. } = seen;
        let joint = |place: usize| {
            let (setting, joint) =
                robot.joints.iter().zip(status.joints()).find(|(setting, _)| setting.device == place)?;
            Some(JointView {
                state: joint.state,
                reason: joint.reason,
                target_rad: joint.target_rad,
                actual_rad: joint.actual_rad,
                velocity_rad_s: joint.velocity_rad_s,
                following_rad: joint.following_rad,
                following_share: joint.following_rad.abs() / setting.following_rad,
                torque_permille: joint.torque_permille,
                at: joint.at,
            })
        };

        let device = |(place, device): (usize, &onbeat_ethercat::layout::DeviceLayout)| {
            let al = al_status.get(place).copied().filter(|(state, _)| *state != 0);
            DeviceView {
                name: device.name.clone(),
                kind: kind(device.kind),
                al_state: al.map(|(state, _)| state),
                al_status_code: al.map_or(0, |(_, code)| code),
                joint: joint(place),
            }
        };

        Self {
            name: robot.name.clone(),
            phase: status.phase,
            rung: status.rung,
            stopped_by: status.stopped_by,
            stopped_joint: robot.joints.get(usize::from(status.stopped_joint)).map(|joint| joint.name.clone()),
            misses: [status.misses, robot.settings.thresholds.stop_at],
            speed: status.speed,
            time_ns: status.time_ns,
            counts: status.counts,
            bus: BusView {
                period_ns: robot.settings.period_ns,
                cycle: cycle.cycle,
                working_counter: cycle.working_counter,
                expected: cycle.expected,
                in_op: cycle.in_op,
                no_answer_ns: seen.no_answer_ns,
                lost: bus.cycles.saturating_sub(bus.answered),
                round_trips: *round_trips,
            },
            of_loop: LoopView::default(),
            devices: layout.devices.iter().enumerate().map(device).collect(),
            spikes: Vec::new(),
        }
    }
}

const fn kind(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Coupler => "coupler",
        DeviceKind::Digital => "digital",
        DeviceKind::Analogue => "analogue",
        DeviceKind::Drive => "drive",
        DeviceKind::Imu => "imu",
        DeviceKind::ForceTorque => "force-torque",
    }
}
