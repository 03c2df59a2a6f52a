//! What a controller is given in each cycle of a bus, and what it gives back.

use super::event::Event;
#[cfg(doc)]
use super::event::NO_DEVICE;

/// One cycle as the bus saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct BusCycle {
    /// Number of the cycle since the bus is up.
    pub cycle: u64,
    /// Its release, by `CLOCK_MONOTONIC`, in ns.
    pub release_ns: u64,
    /// Time since the controller's last step in ns: a whole number of periods.
    pub dt_ns: u64,
    /// System time of the reference clock in ns, 0 without one.
    pub reference_ns: u64,
    /// From sending the frame to having its reply, in ns; 0 without a reply.
    pub round_trip_ns: u32,
    /// Working counter of the process data.
    pub working_counter: u16,
    /// What it is when all devices are in OP.
    pub expected: u16,
    /// Whether there are new inputs: the frame came back with the expected working counter. Inputs of devices that answered are new
    /// in any case.
    pub fresh: bool,
    /// Devices in OP.
    pub in_op: u16,
    /// Devices there should be.
    pub devices: u16,
}

/// What a robot is about, as other processes see it beside each cycle. Numbers are those of `Phase`, `Rung` and `StopReason` of
/// `onbeat_robot::motion`; their words stand in [`event_words`](super::event_words).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RobotState {
    /// 0 waiting, 1 enabling, 2 running, 3 stopping, 4 disabling, 5 at rest.
    pub phase: u8,
    /// 0 run, 1 hold, 2 degrade, 3 safe stop.
    pub rung: u8,
    /// Why it is in a safe stop: 0 it is not, 1 misses, 2 a joint went down, 3 the commander is lost.
    pub stopped_by: u8,
    /// Drive of the joint that led to it, or [`NO_DEVICE`].
    pub device: u16,
    /// Misses in the bucket.
    pub misses: u16,
}

impl RobotState {
    /// The rung of a safe stop.
    pub const SAFE_STOP: u8 = 3;

    /// Whether it comes to a safe stop or is in one, until a reset.
    #[must_use]
    pub const fn is_stopped(&self) -> bool {
        self.rung == Self::SAFE_STOP
    }
}

/// Moves a robot: called once per cycle, between reading inputs and sending outputs.
pub trait Controller {
    /// Reads `inputs`, writes `outputs`; both are process images as [`Layout`](super::layout::Layout) has them. It must not allocate,
    /// block, or ask the kernel for anything. `outputs` hold what was sent last.
    fn step(&mut self, cycle: &BusCycle, inputs: &[u8], outputs: &mut [u8]);

    /// Whether it has brought everything to rest since `stop` was asked for; called instead of nothing, once per cycle, before the bus
    /// leaves OP. A controller without anything that moves is at rest at once.
    fn stop(&mut self, cycle: &BusCycle, inputs: &[u8], outputs: &mut [u8]) -> bool {
        let _ = (cycle, inputs);
        outputs.fill(0);
        true
    }

    /// The oldest event of its own that was not asked for yet. It must not allocate, block, or ask the kernel for anything.
    fn take_event(&mut self) -> Option<Event> {
        None
    }

    /// What the robot is about, of a controller that moves one.
    fn robot(&self) -> Option<RobotState> {
        None
    }
}
