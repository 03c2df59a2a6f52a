//! Reading a cycle consistently, and waiting for the next one.

use std::thread::sleep;
use std::time::{Duration, Instant};

use onbeat_ethercat::step::{BusCycle, RobotState};

use super::abi::{CYCLE_BYTES, cycle_of};
use super::error::ControlError;
use super::image::MappedImage;
use super::link::Link;

/// Maximum number of attempts of a reader that is overtaken by the bus.
const MOST_TRIES: u32 = 1000;
/// Time without a cycle after which the bus process is checked.
pub(super) const QUIET: Duration = Duration::from_millis(100);
/// Polling interval of a waiter: clients write nothing that the bus reads, so it wakes none.
const LOOK_EVERY: Duration = Duration::from_micros(50);

/// A consistent cycle with all its values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Number of the publication, from 1; 0 before the first read.
    pub number: u64,
    /// The cycle.
    pub cycle: BusCycle,
    /// State of the robot; `None` if the bus process moves no joints.
    pub robot: Option<RobotState>,
    /// Inputs of all devices.
    pub inputs: Vec<u8>,
    /// Outputs sent in that cycle.
    pub outputs: Vec<u8>,
    /// Number of repeated reads since this reader was opened, because the bus overtook it.
    pub retries: u64,
}

impl Snapshot {
    pub(super) fn for_image(shared: &MappedImage) -> Self {
        Self {
            inputs: vec![0; shared.size.inputs],
            outputs: vec![0; shared.size.outputs],
            ..Self::default()
        }
    }
}

/// Waits for cycles, and checks the bus process.
#[derive(Debug)]
pub(super) struct CycleWaiter {
    pub(super) last: u64,
    changed: Instant,
    looked: Instant,
    retries: u64,
}

impl CycleWaiter {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self { last: 0, changed: now, looked: now, retries: 0 }
    }

    pub(super) fn read(
        &mut self,
        (shared, link): (&MappedImage, &Link),
        into: &mut Snapshot,
    ) -> Result<(), ControlError> {
        let _held = shared.hold();
        self.read_within((shared, link), into)
    }

    pub(super) fn read_within(
        &mut self,
        (shared, link): (&MappedImage, &Link),
        into: &mut Snapshot,
    ) -> Result<(), ControlError> {
        shared.check()?;
        let image = shared.image();
        into.inputs.resize(shared.size.inputs, 0);
        into.outputs.resize(shared.size.outputs, 0);
        let mut cycle = [0; CYCLE_BYTES];
        for _ in 0..MOST_TRIES {
            let number = image.newest();
            if number == 0 {
                self.look_at_bus((shared, link), number)?;
                return Err(ControlError::NoCycleYet { name: shared.name.clone() });
            }

            if image.read(number, &mut [&mut cycle, &mut into.inputs, &mut into.outputs]) {
                (into.number, into.retries) = (number, self.retries);
                (into.cycle, into.robot) = cycle_of(&cycle);
                return self.look_at_bus((shared, link), number);
            }

            self.retries += 1;
        }

        Err(ControlError::Overtaken { tries: MOST_TRIES })
    }

    /// Checks the bus process after a time without a cycle, as the check makes system calls.
    fn look_at_bus(
        &mut self,
        (shared, link): (&MappedImage, &Link),
        number: u64,
    ) -> Result<(), ControlError> {
        let now = Instant::now();
        if number != self.last {
            (self.last, self.changed) = (number, now);
            return Ok(());
        }

        if now.duration_since(self.changed) < QUIET || now.duration_since(self.looked) < QUIET {
            return Ok(());
        }

        link.check(shared)?;
        self.looked = now;
        Ok(())
    }

    /// Waits for a publication after `number`.
    pub(super) fn wait_beyond(
        &mut self,
        (shared, link): (&MappedImage, &Link),
        number: u64,
        timeout: Duration,
    ) -> Result<bool, ControlError> {
        let began = Instant::now();
        loop {
            shared.check()?;
            let newest = shared.image().newest();
            if newest > number {
                return Ok(true);
            }

            let left = timeout.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Ok(false);
            }

            sleep(left.min(LOOK_EVERY));
            self.look_at_bus((shared, link), newest)?;
        }
    }
}
