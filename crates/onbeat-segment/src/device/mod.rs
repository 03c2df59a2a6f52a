//! What a device does apart from EtherCAT: the models behind the process data.
//!
//! A model keeps its values in the device's objects, so that they are the same by SDO and by PDO, and steps once per cycle of the
//! device.

mod cia402;
mod drive;
mod drive_objects;
mod force;
mod imu;
mod io;
mod motor;
mod profile;

pub(crate) use drive::{Drive, DriveSettings};
pub(crate) use force::ForceTorque;
pub(crate) use imu::{Imu, Noise};
pub(crate) use io::Io;
pub(crate) use motor::MotorSettings;

use super::coe::Dictionary;

/// What a model is told at each of its steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Time since the last step, in ns.
    pub(crate) elapsed_ns: u64,
    /// Outputs are valid: the device is in OP and was written to.
    pub(crate) outputs_valid: bool,
}

/// An emergency that a model wants sent: error code and error register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Emergency {
    pub(crate) code: u16,
    pub(crate) register: u8,
}

/// The models there are.
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
    /// Lets the device live for a step.
    pub(crate) fn step(&mut self, objects: &mut Dictionary, step: Step) -> Option<Emergency> {
        match self {
            Self::Coupler => None,
            Self::Io(io) => {
                io.step(objects, step);
                None
            }
            Self::Drive(drive) => drive.step(objects, step),
            Self::Imu(imu) => {
                imu.step(objects, step);
                None
            }
            Self::ForceTorque(sensor) => {
                sensor.step(objects, step);
                None
            }
        }
    }

    /// An object was written by SDO.
    pub(crate) fn written(&mut self, objects: &Dictionary, index: u16) {
        if let Self::Drive(drive) = self {
            drive.written(objects, index);
        }
    }

    /// Process data stopped: the watchdog bit, or OP was left.
    pub(crate) fn outputs_lost(&mut self, objects: &mut Dictionary) {
        match self {
            Self::Io(io) => io.outputs_lost(objects),
            Self::Drive(drive) => drive.outputs_lost(),
            _ => (),
        }
    }

    /// Power off and on. Objects are as new already.
    pub(crate) fn power_on(&mut self, objects: &mut Dictionary) {
        match self {
            Self::Drive(drive) => drive.power_on(objects),
            Self::Imu(imu) => imu.power_on(),
            _ => (),
        }
    }
}
