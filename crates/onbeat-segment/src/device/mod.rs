//! Models of devices: the function behind the process data.
//!
//! A model keeps its values in the object dictionary, so that SDO and PDO access agree, and steps
//! once per cycle of the device.

mod cia402;
mod drive;
mod drive_objects;
mod force;
mod imu;
mod io;
mod mode;
mod motor;
mod profile;

pub(crate) use drive::Drive;
pub(crate) use force::ForceTorque;
pub(crate) use imu::Imu;
pub(crate) use io::Io;

use super::coe::Dictionary;

/// Parameters of one step of a model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelStep {
    /// Time since the last step, in ns.
    pub(crate) elapsed_ns: u64,
    /// Whether outputs are valid: the device is in OP and received outputs.
    pub(crate) outputs_valid: bool,
}

/// An emergency message of a model: error code and error register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Emergency {
    pub(crate) code: u16,
    pub(crate) register: u8,
}

#[derive(Clone, Debug)]
pub(crate) enum Model {
    /// Nothing but ports.
    Coupler,
    Io(Io),
    Drive(Box<Drive>),
    Imu(Imu),
    ForceTorque(ForceTorque),
}

impl Model {
    /// Simulates one step of the device.
    pub(crate) fn step(&mut self, objects: &mut Dictionary, step: ModelStep) -> Option<Emergency> {
        match self {
            Self::Drive(drive) => return drive.step(objects, step),
            Self::Coupler => {}
            Self::Io(io) => io.step(objects),
            Self::Imu(imu) => imu.step(objects),
            Self::ForceTorque(sensor) => sensor.step(objects),
        }
        None
    }

    /// Handles an SDO write to an object.
    pub(crate) fn written(&mut self, index: u16) {
        if let Self::Drive(drive) = self {
            drive.written(index);
        }
    }

    /// Handles the loss of process data: the watchdog expired, or OP was left.
    pub(crate) fn outputs_lost(&mut self, objects: &mut Dictionary) {
        match self {
            Self::Io(io) => io.outputs_lost(objects),
            Self::Drive(drive) => drive.outputs_lost(),
            _ => (),
        }
    }

    /// Power cycle; the dictionary has already been reset.
    pub(crate) fn power_on(&mut self) {
        match self {
            Self::Drive(drive) => drive.power_on(),
            Self::Imu(imu) => imu.power_on(),
            _ => (),
        }
    }
}
