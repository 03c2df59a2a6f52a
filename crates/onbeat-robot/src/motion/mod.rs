//! The motion controller: moves the joints of a segment's drives along a trajectory within their
//! limits.
//!
//! ```text
//! file ──▶ Robot ──▶ MotionController ◀── Trajectory (hold, sine, gait, CSV, latest goal, control law)
//!                     │  once per cycle of the bus: inputs in, outputs out
//!                     ├─ miss ladder     hold, degrade, safe stop (latched)
//!                     ├─ power states    CiA 402, group by group; orderly power-off
//!                     └─ set-points      within travel, velocity, acceleration, jerk
//! ```
//!
//! ```
//! use onbeat_ethercat::layout::Layout;
//! use onbeat_robot::motion::{MotionController, Robot, Trajectory};
//! use onbeat_segment::Segment;
//!
//! let layout = Layout::from_toml(Segment::HUMANOID)?;
//! let robot = Robot::from_toml(Segment::HUMANOID, &layout, 1_000_000)?;
//! let controller = MotionController::new(&robot, Trajectory::gait(&robot)?);
//! assert_eq!(controller.status().joints().len(), robot.joints.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The controller is a pure function of cycles and inputs: after construction it does not allocate,
//! and never reads a clock. It is not a safety function in the sense of IEC 61508 or ISO 13849: it
//! feeds the watchdogs of the devices and never replaces them.
//!
//! Absent on purpose: kinematics, dynamics and balance (the gait walks in the air), torque and
//! velocity modes, homing (drives must know their positions), and a thread: call it from any loop,
//! with [`RobotTask`] or [`run_for`].

mod account;
mod controller;
mod csv;
mod device_events;
mod event;
mod file;
mod goal;
mod joint;
mod ladder;
mod limits;
mod power;
mod status;
mod task;
mod topology;
mod trajectory;
mod trajectory_error;
mod view;
mod wave;
mod waves;
mod window_channel;

pub use account::MotionAccount;
pub use controller::MotionController;
pub use device_events::{DeviceAlarms, devices_note};
pub use event::NO_JOINT;
pub use file::{
    AtEnd, CsvSettings, GaitSettings, Interpolation, JointSetting, MOST_JOINTS, OnFault, Robot,
    RobotError, RobotSettings,
};
pub use goal::{CommanderGoals, GoalRecord, GoalSlot, GoalSource};
pub use ladder::{Rung, Thresholds};
pub use limits::{AtLimit, Limits};
pub use power::JointState;
pub use status::{DownReason, JointStatus, RobotCounts, RobotPhase, SafeStopReason, Status};
pub use task::{Outlets, RobotCommands, RobotSnapshot, RobotTask, RoundTrips, run_for};
pub(crate) use task::{exchange, run_unrecorded};
pub use topology::{devices_before, robot_note};
pub use trajectory::Trajectory;
pub use trajectory_error::TrajectoryError;
pub use view::{BusView, DeviceView, JointView, LoopView, RobotView, SpikeView};
pub(crate) use window_channel::window_of;
pub use window_channel::{WindowRecorder, WindowSender, window_channel};
