//! The expected devices of a segment and the positions of their values in the process image.
//!
//! The process image has two parts: the outputs of all devices, in cable order, and their inputs,
//! likewise. The part of each device begins at a byte; within it, values follow bit by bit as the
//! device maps them.

use std::ops::Range;

use serde::Deserialize;

use super::setup::DeviceSetup;

/// Kind of a device, as `kind` of a segment file names it.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// Coupler: ports only, no process data.
    Coupler,
    /// Digital inputs and outputs.
    Digital,
    /// Analogue inputs and outputs, 16 bits each without an ESI file.
    Analogue,
    /// CiA 402 drive.
    Drive,
    /// Six-axis inertial measurement unit.
    Imu,
    /// Six-axis force-torque sensor.
    ForceTorque,
}

impl DeviceKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Coupler, Self::Digital, Self::Analogue, Self::Drive, Self::Imu, Self::ForceTorque];

    /// Returns its word in segment files and JSON.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Coupler => "coupler",
            Self::Digital => "digital",
            Self::Analogue => "analogue",
            Self::Drive => "drive",
            Self::Imu => "imu",
            Self::ForceTorque => "force-torque",
        }
    }
}

/// One value in the process data of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedValue {
    /// Index of the object, such as 0x6041.
    pub index: u16,
    /// Subindex.
    pub entry: u8,
    /// Length in bits.
    pub bits: u16,
    /// Number of its data type (ETG.1020); 0 if it is not known.
    pub data_type: u16,
    /// First bit, from the start of the device's part.
    pub bit_at: usize,
    /// Name in the device's object dictionary, such as `Position actual value`; the object, such
    /// as `6064:0`, if it has none.
    pub name: String,
}

/// One expected device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceLayout {
    /// Name in the file.
    pub name: String,
    pub kind: DeviceKind,
    /// Station alias, 0 for any.
    pub alias: u16,
    /// Vendor id.
    pub vendor: u32,
    /// Product code.
    pub product: u32,
    pub revision: u32,
    /// Serial number, 0 for any. Not shown to other processes.
    pub serial: u32,
    /// Range in the outputs of the process image, in bytes.
    pub outputs: Range<usize>,
    /// Range in the inputs of the process image, in bytes.
    pub inputs: Range<usize>,
    pub output_values: Vec<MappedValue>,
    pub input_values: Vec<MappedValue>,
    /// Encoder increments per turn of a drive, 0 otherwise.
    pub increments: u32,
    /// Lowest and highest position of a drive, in increments; equal for no limit.
    pub travel: [i32; 2],
    /// Configuration that it gets on the way to OP. Not shown to other processes.
    pub setup: DeviceSetup,
}

/// Devices that come and go together (hot connect), which follow each other on the cable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupLayout {
    /// Name in the file.
    pub name: String,
    /// Its devices in [`Layout::devices`]. The first is identified by its alias.
    pub devices: Range<usize>,
}

/// The devices of a segment in cable order, with their positions in the process image. Devices of
/// optional groups come after all others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Name of the segment.
    pub name: String,
    /// Devices in cable order; those of optional groups at the end.
    pub devices: Vec<DeviceLayout>,
    /// Optional groups, in the order of their devices. Not shown to other processes.
    pub groups: Vec<GroupLayout>,
    /// Size of the outputs, in bytes.
    pub output_bytes: usize,
    /// Size of the inputs, in bytes.
    pub input_bytes: usize,
    /// Process data watchdog of the devices, in ns; `None` keeps the setting of each device.
    pub watchdog_ns: Option<u64>,
}

impl Layout {
    /// Appends a device. Only the lengths of its ranges count; they are moved to the end of the
    /// image.
    pub fn add(&mut self, mut device: DeviceLayout) {
        device.outputs = self.output_bytes..self.output_bytes + device.outputs.len();
        device.inputs = self.input_bytes..self.input_bytes + device.inputs.len();
        self.output_bytes = device.outputs.end;
        self.input_bytes = device.inputs.end;
        self.devices.push(device);
    }

    /// Returns the number of devices that are always there: those that are in no optional group.
    #[must_use]
    pub fn always_there(&self) -> usize {
        self.groups.first().map_or(self.devices.len(), |group| group.devices.start)
    }

    /// Returns the optional group of the device at this position.
    #[must_use]
    pub fn group_of(&self, device: usize) -> Option<usize> {
        self.groups.iter().position(|group| group.devices.contains(&device))
    }

    /// Returns the layout with the start-up values that follow this period.
    #[must_use]
    pub fn at_period(&self, period_ns: u64) -> Self {
        let mut layout = self.clone();
        layout.devices.iter_mut().for_each(|device| device.setup.adapt(period_ns));
        layout
    }

    /// Returns a sentence about drives whose start-up values have another interpolation time than
    /// this period, in which set-points come.
    #[must_use]
    pub fn other_interpolation(&self, period_ns: u64) -> Option<String> {
        let other = |device: &DeviceLayout| {
            let ns = device.interpolation_ns().filter(|ns| *ns != period_ns)?;
            (device.kind == DeviceKind::Drive).then(|| (device.name.clone(), ns))
        };
        let mut others = self.devices.iter().filter_map(other);
        let (name, ns) = others.next()?;
        let more = and_more(others.count());
        Some(format!(
            "\"{name}\"{more}: the start-up value of object 0x60c2 is {} us, set-points come every {} us: make them equal, or the \
             drive moves in jerks",
            ns / 1_000,
            period_ns / 1_000
        ))
    }

    /// Returns a sentence about drives with a target position that nothing puts into a mode of
    /// operation: real ones may be in any after power-on.
    #[must_use]
    pub fn without_mode(&self) -> Option<String> {
        let is_without = |device: &&DeviceLayout| {
            let has_target = device.output_at(0x607a, 0).is_some();
            device.kind == DeviceKind::Drive && has_target && !device.has_mode()
        };
        let mut without = self.devices.iter().filter(is_without);
        let name = &without.next()?.name;
        let more = and_more(without.count());
        Some(format!(
            "\"{name}\"{more}: object 0x6060 is neither in the outputs nor a start-up value; a drive that is not in cyclic synchronous \
             position (8) after power-on does not follow"
        ))
    }

    /// Returns the position of the device with this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.devices.iter().position(|device| device.name == name)
    }

    /// Returns a sentence about drives that nothing in the file tells apart: when the bus comes up
    /// with their cables swapped, each gets the set-points of the other.
    #[must_use]
    pub fn alike_drives(&self) -> Option<String> {
        let is_unmarked = |device: &&DeviceLayout| {
            let numbers = [device.serial, device.alias.into(), device.setup.device_id.into()];
            device.kind == DeviceKind::Drive && numbers == [0; 3]
        };
        let unmarked: Vec<&DeviceLayout> = self.devices.iter().filter(is_unmarked).collect();
        let identity = |device: &DeviceLayout| (device.vendor, device.product);
        let has_twin = |device: &&&DeviceLayout| {
            let alike = unmarked.iter().filter(|other| identity(other) == identity(device));
            alike.count() > 1
        };
        let mut alike = unmarked.iter().filter(has_twin);
        let name = &alike.next()?.name;
        let more = and_more(alike.count());
        Some(format!(
            "\"{name}\"{more} are of one type, without alias, device ID or serial number in the file: if their cables are swapped, so are \
             their set-points; give each its own (onbeat bus alias)"
        ))
    }
}

impl DeviceLayout {
    /// Returns the offset of an object in the outputs of the process image; `None` when it is not
    /// mapped in whole bytes.
    #[must_use]
    pub fn output_at(&self, index: u16, entry: u8) -> Option<usize> {
        whole_bytes(&self.output_values, index, entry).map(|at| self.outputs.start + at)
    }

    /// Returns whether a drive is put into a mode of operation (object 0x6060): by its outputs or by a
    /// start-up value.
    fn has_mode(&self) -> bool {
        let is_mode = |value: &MappedValue| (value.index, value.entry) == (0x6060, 0);
        self.output_values.iter().any(is_mode) || self.setup.startup_byte(0x6060, 0).is_some()
    }

    /// Returns the interpolation time of a drive by its start-up values (object 0x60C2, CiA 402), in ns;
    /// `None` if they have none.
    #[must_use]
    pub fn interpolation_ns(&self) -> Option<u64> {
        let steps = self.setup.startup_byte(0x60c2, 1)?;
        let ns = f64::from(steps) * 10_f64.powi(9 + i32::from(self.setup.interpolation_power()));
        Some(ns.round() as u64)
    }

    /// Returns the offset of an object in the inputs of the process image; `None` when it is not
    /// mapped in whole bytes.
    #[must_use]
    pub fn input_at(&self, index: u16, entry: u8) -> Option<usize> {
        whole_bytes(&self.input_values, index, entry).map(|at| self.inputs.start + at)
    }
}

/// Returns the end of a list of names.
fn and_more(more: usize) -> String {
    match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    }
}

fn whole_bytes(values: &[MappedValue], index: u16, entry: u8) -> Option<usize> {
    let value = values.iter().find(|value| (value.index, value.entry) == (index, entry))?;
    (value.bit_at.is_multiple_of(8) && value.bits.is_multiple_of(8)).then_some(value.bit_at / 8)
}
