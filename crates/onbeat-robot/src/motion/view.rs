//! Serialisable view of a robot, for tables and JSON.

use serde::Serialize;

use onbeat_ethercat::layout::Layout;

use super::file::Robot;
use super::ladder::Rung;
use super::limits::AtLimit;
use super::power::JointState;
use super::status::{DownReason, RobotCounts, RobotPhase, SafeStopReason};
use super::task::{RobotSnapshot, RoundTrips};

/// View of a joint.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct JointView {
    /// Power state of its drive; not ready if the drive does not answer.
    pub state: JointState,
    /// Why it is down.
    pub reason: DownReason,
    /// Set-point, in rad.
    pub target_rad: f64,
    /// Actual position, in rad, as received last.
    pub actual_rad: f64,
    /// Velocity, in rad/s.
    pub velocity_rad_s: f64,
    /// Set-point minus position, in rad.
    pub following_rad: f64,
    /// Following error as a fraction of its limit.
    pub following_share: f64,
    /// Torque, in thousandths of the rated torque.
    pub torque_permille: i16,
    /// Limits it has reached.
    pub at: AtLimit,
}

/// View of a device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceView {
    /// Name in the file.
    pub name: String,
    /// Kind of device: `drive`, `digital`, ...
    pub kind: &'static str,
    /// 1 INIT, 2 PREOP, 4 SAFEOP, 8 OP; `None` if it does not answer.
    pub al_state: Option<u8>,
    /// AL status code, 0 without an error.
    pub al_status_code: u16,
    /// Its joint, if it is a drive.
    pub joint: Option<JointView>,
}

/// View of the bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BusView {
    /// Period, in ns.
    pub period_ns: u64,
    /// Cycle number.
    pub cycle: u64,
    /// Working counter of the last cycle.
    pub working_counter: u16,
    /// Expected working counter.
    pub expected: u16,
    /// Devices in OP; 0 while no reply comes back.
    pub in_op: u16,
    /// Time since the last complete reply, in ns; 0 below ten cycles.
    pub no_answer_ns: u64,
    /// Cycles without a complete reply in time.
    pub lost: u64,
    /// Replies that arrived after their cycle.
    pub late: u64,
    /// Frames that were not sent by this bus, are damaged, or arrived twice.
    pub strange: u64,
    /// Round trips since the start.
    pub round_trips: RoundTrips,
}

/// View of the loop, from its recorder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LoopView {
    /// Largest wake-up latency, in ns.
    pub worst_ns: u64,
    /// Cycles that missed their deadline.
    pub deadline_misses: u64,
    /// Skipped releases.
    pub skipped: u64,
    /// Number of spikes.
    pub spikes: u64,
}

/// View of a spike and its cause.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpikeView {
    /// Time since the start of the run, in s.
    pub t: f64,
    /// Wake-up latency, in ns.
    pub late_ns: u64,
    /// Main cause.
    pub cause: String,
}

/// View of a robot.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RobotView {
    /// Name of the segment.
    pub name: String,
    /// Phase.
    pub phase: RobotPhase,
    /// Rung of the miss ladder.
    pub rung: Rung,
    /// Reason of the safe stop.
    pub stopped_by: SafeStopReason,
    /// Joint that caused the safe stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_joint: Option<String>,
    /// Misses in the bucket, and the number at which the robot stops.
    pub misses: [u32; 2],
    /// Speed of trajectory time.
    pub speed: f64,
    /// Trajectory time, in ns.
    pub time_ns: u64,
    /// Counters since the start.
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
    /// Creates the view of a snapshot. Loop and spikes are filled in by the recorder of the loop.
    #[must_use]
    pub fn new(robot: &Robot, layout: &Layout, seen: &RobotSnapshot) -> Self {
        let RobotSnapshot { cycle, status, round_trips, bus, al_status, .. } = seen;
        let joint = |place: usize, answers: bool| {
            let (setting, joint) = robot
                .joints
                .iter()
                .zip(status.joints())
                .find(|(setting, _)| setting.device == place)?;
            Some(JointView {
                // The statusword received last is not the drive's state.
                state: if answers { joint.state } else { JointState::NotReady },
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
                kind: device.kind.word(),
                al_state: al.map(|(state, _)| state),
                al_status_code: al.map_or(0, |(_, code)| code),
                joint: joint(place, al.is_some()),
            }
        };

        Self {
            name: robot.name.clone(),
            phase: status.phase,
            rung: status.rung,
            stopped_by: status.stopped_by,
            stopped_joint: robot
                .joints
                .get(usize::from(status.stopped_joint))
                .map(|joint| joint.name.clone()),
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
                lost: bus.lost,
                late: bus.late,
                strange: bus.strange(),
                round_trips: *round_trips,
            },
            of_loop: LoopView::default(),
            devices: layout.devices.iter().enumerate().map(device).collect(),
            spikes: Vec::new(),
        }
    }
}
