//! Which devices a segment should have, and where their values stand in the process image.
//!
//! The process image has two parts: the outputs of all devices, one behind the other in the order of the cable, and their inputs
//! likewise. Each device's part begins with a byte; within it values stand bit by bit as the device maps them.

use std::ops::Range;

use super::setup::DeviceSetup;
use crate::description::{Description, DescriptionError, layout_of};

/// What a device is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// Couples other devices, without process data.
    Coupler,
    /// Digital inputs and outputs.
    Digital,
    /// Analogue inputs and outputs.
    Analogue,
    /// A drive as CiA 402 has it.
    Drive,
    /// Inertial measurement unit.
    Imu,
    /// Force and torque in six axes.
    ForceTorque,
}

/// One value in the process data of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedValue {
    /// Index of its object, such as 0x6041.
    pub index: u16,
    /// Entry of its object.
    pub entry: u8,
    /// Length in bits.
    pub bits: u16,
    /// First bit, counted from the start of the device's part.
    pub bit_at: usize,
}

/// One device as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceLayout {
    /// From the file.
    pub name: String,
    /// What it is for.
    pub kind: DeviceKind,
    /// Second station address, 0 for any.
    pub alias: u16,
    /// Vendor id.
    pub vendor: u32,
    /// Product code.
    pub product: u32,
    /// Revision.
    pub revision: u32,
    /// Serial number, 0 for any. Processes that look on do not see it.
    pub serial: u32,
    /// Its bytes of the image's outputs.
    pub outputs: Range<usize>,
    /// Its bytes of the image's inputs.
    pub inputs: Range<usize>,
    /// Values of its outputs.
    pub output_values: Vec<MappedValue>,
    /// Values of its inputs.
    pub input_values: Vec<MappedValue>,
    /// Encoder increments per turn of a drive, 0 otherwise.
    pub increments: u32,
    /// Least and most position of a drive, in increments; equal where there is no limit.
    pub travel: [i32; 2],
    /// What it is told on its way up. Processes that look on do not see it.
    pub setup: DeviceSetup,
}

/// The devices of a segment in the order of the cable, with their places in the process image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Name of the segment.
    pub name: String,
    /// Its devices.
    pub devices: Vec<DeviceLayout>,
    /// Bytes of the image's outputs.
    pub output_bytes: usize,
    /// Bytes of the image's inputs.
    pub input_bytes: usize,
    /// How long devices wait for process data before their watchdogs bite, in ns; theirs where there is none.
    pub watchdog_ns: Option<u64>,
}

impl Layout {
    /// What a segment's file says, see `docs/segment.md`.
    ///
    /// # Errors
    /// [`DescriptionError`] as for the segment itself.
    pub fn from_toml(text: &str) -> Result<Self, DescriptionError> {
        Self::of(&Description::from_toml(text)?)
    }

    /// What a segment was told to be.
    ///
    /// # Errors
    /// [`DescriptionError`] as for the segment itself.
    pub fn of(description: &Description) -> Result<Self, DescriptionError> {
        layout_of(description)
    }

    /// Adds a device behind the others; its ranges give its lengths, and move to where the image has room.
    pub fn add(&mut self, mut device: DeviceLayout) {
        device.outputs = self.output_bytes..self.output_bytes + device.outputs.len();
        device.inputs = self.input_bytes..self.input_bytes + device.inputs.len();
        (self.output_bytes, self.input_bytes) = (device.outputs.end, device.inputs.end);
        self.devices.push(device);
    }

    /// Place of the device of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.devices.iter().position(|device| device.name == name)
    }
}

impl DeviceLayout {
    /// Where in the image's outputs an object's value begins, when it is mapped in whole bytes.
    #[must_use]
    pub fn output_at(&self, index: u16, entry: u8) -> Option<usize> {
        whole_bytes(&self.output_values, index, entry).map(|at| self.outputs.start + at)
    }

    /// Where in the image's inputs an object's value begins, when it is mapped in whole bytes.
    #[must_use]
    pub fn input_at(&self, index: u16, entry: u8) -> Option<usize> {
        whole_bytes(&self.input_values, index, entry).map(|at| self.inputs.start + at)
    }
}

fn whole_bytes(values: &[MappedValue], index: u16, entry: u8) -> Option<usize> {
    let value = values.iter().find(|value| (value.index, value.entry) == (index, entry))?;
    (value.bit_at.is_multiple_of(8) && value.bits.is_multiple_of(8)).then_some(value.bit_at / 8)
}
