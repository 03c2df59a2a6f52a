//! The interface of a robot controller: what it gets and returns in each cycle of a bus.

use super::event::Event;
#[cfg(doc)]
use super::event::NO_DEVICE;

/// Bus data of one cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct BusCycle {
    /// Number of the cycle since the bus reached OP.
    pub cycle: u64,
    /// Release of the cycle on `CLOCK_MONOTONIC`, in ns.
    pub release_ns: u64,
    /// Time since the previous step of the controller, in ns: a whole number of periods.
    pub dt_ns: u64,
    /// System time of the reference clock, in ns; 0 without one.
    pub reference_ns: u64,
    /// Time from sending the frame to its reply, in ns; 0 without a reply.
    pub round_trip_ns: u32,
    /// Working counter of the process data.
    pub working_counter: u16,
    /// Expected working counter when all devices are in OP.
    pub expected: u16,
    /// Whether all inputs are new: the frame returned with the expected working counter. Otherwise
    /// only the inputs of devices that responded are new.
    pub fresh: bool,
    /// Number of devices in OP.
    pub in_op: u16,
    /// Expected number of devices.
    pub devices: u16,
}

/// State of a robot, published to other processes in each cycle. Numbers are those of `Phase`,
/// `Rung` and `StopReason` of `onbeat_robot::motion`; [`event_words`](super::event_words) has their
/// names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RobotState {
    /// 0 waiting, 1 enabling, 2 running, 3 stopping, 4 disabling, 5 at rest.
    pub phase: u8,
    /// 0 run, 1 hold, 2 degrade, 3 safe stop.
    pub rung: u8,
    /// Reason of the safe stop: 0 none, 1 misses, 2 a joint went down, 3 the commander is lost.
    pub stopped_by: u8,
    /// Drive of the joint that caused it, or [`NO_DEVICE`].
    pub device: u16,
    /// Number of misses in the bucket.
    pub misses: u16,
}

impl RobotState {
    /// The rung of a safe stop.
    pub const SAFE_STOP: u8 = 3;

    /// Returns whether the robot is in a safe stop or on the way there; a reset ends it.
    #[must_use]
    pub const fn is_stopped(&self) -> bool {
        self.rung == Self::SAFE_STOP
    }
}

/// Controls a robot: called once per cycle, after the inputs were received and before the outputs
/// are sent.
///
/// ```
/// use onbeat_ethercat::step::{BusCycle, Controller};
///
/// /// Copies the inputs to the outputs.
/// struct Echo;
/// impl Controller for Echo {
///     fn step(&mut self, _: &BusCycle, inputs: &[u8], outputs: &mut [u8]) {
///         outputs.copy_from_slice(inputs);
///     }
/// }
///
/// let mut outputs = [0; 2];
/// Echo.step(&BusCycle::default(), &[1, 2], &mut outputs);
/// assert_eq!(outputs, [1, 2]);
/// ```
pub trait Controller {
    /// Reads `inputs` and writes `outputs`, the process images as [`Layout`](super::layout::Layout)
    /// describes them. `outputs` hold the values sent last. Must not allocate, block, or make
    /// system calls.
    fn step(&mut self, cycle: &BusCycle, inputs: &[u8], outputs: &mut [u8]);

    /// Brings the robot to rest and returns whether it is at rest; called once per cycle before the
    /// bus leaves OP. The default sets all outputs to 0 and is at rest at once.
    fn stop(&mut self, cycle: &BusCycle, inputs: &[u8], outputs: &mut [u8]) -> bool {
        let _ = (cycle, inputs);
        outputs.fill(0);
        true
    }

    /// Takes the oldest pending event of the controller. Must not allocate, block, or make system
    /// calls.
    fn take_event(&mut self) -> Option<Event> {
        None
    }

    /// Returns the state of the robot; `None` when the controller does not move one.
    fn robot(&self) -> Option<RobotState> {
        None
    }
}
