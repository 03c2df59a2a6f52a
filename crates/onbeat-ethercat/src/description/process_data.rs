//! Process data of a device: the mapped values in its outputs and inputs, and the values that can
//! be mapped.

use super::{ChannelsTable, DescriptionError, TypeTable, value_names};
use crate::coe::DataType;
use crate::esi::Pdo;
use crate::layout::{DeviceKind, MappedValue};
use crate::setup;

/// Longest process data of one direction, in bytes.
const MOST_BYTES: usize = 1024;
/// Most values of one direction, for a device without an ESI file.
const MOST_VALUES: usize = 64;
/// Most PDOs that can be assigned.
const MOST_ASSIGNED: usize = 254;
/// The objects of digital and analogue channels, and of sensors.
const INPUTS: u16 = 0x6000;
pub(super) const OUTPUTS: u16 = 0x7000;
/// Numbers of values of the sensors.
const IMU_VALUES: u8 = 6;
const FORCE_VALUES: u8 = 7;

/// Default mapping of a drive.
const DEFAULT_DRIVE_OUTPUTS: [&str; 3] = ["6040", "607a", "6071"];
const DEFAULT_DRIVE_INPUTS: [&str; 4] = ["6041", "6064", "606c", "6077"];

/// Direction of process data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PdoDirection {
    /// From the MainDevice to the device (RxPDO).
    Outputs,
    /// From the device to the MainDevice (TxPDO).
    Inputs,
}

/// Mapped values of one direction, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessData {
    /// The values, without gaps.
    pub values: Vec<MappedValue>,
    /// Total length in bits, including gaps.
    pub bits: usize,
}

impl ProcessData {
    /// Returns the length in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bits.div_ceil(8)
    }

    /// Returns the mapping of a type without an ESI file.
    pub(super) fn from_type(
        name: &str,
        kind: &TypeTable,
        direction: PdoDirection,
    ) -> Result<Self, DescriptionError> {
        let word = kind.kind_of(name)?;
        let channels = kind.channels.unwrap_or_default();
        let listed = if direction == PdoDirection::Outputs { &kind.outputs } else { &kind.inputs };
        let list = listed.clone().unwrap_or_else(|| default_mapping(word, channels, direction));

        let mut data = Self::default();
        for object in list {
            let refused =
                || DescriptionError::Object { kind: name.to_owned(), object: object.clone() };
            let (index, entry) = setup::object(&object).ok_or_else(refused)?;
            let value = mappable(word, channels, direction, index, entry).ok_or_else(refused)?;
            data.add(index, entry, value, value_names::of_type(word, index, entry));

            if data.values.len() > MOST_VALUES || data.bits > 8 * MOST_BYTES {
                return Err(refused());
            }
        }

        Ok(data)
    }

    /// Returns the mapping of assigned PDOs of an ESI file. The process data of each SyncManager
    /// begin with a new byte.
    pub(super) fn from_assigned(channels: &[(u8, Vec<Pdo>)]) -> Self {
        let mut data = Self::default();
        for (_, pdos) in channels {
            data.bits = data.bits.next_multiple_of(8);
            for entry in pdos.iter().take(MOST_ASSIGNED).flat_map(|pdo| &pdo.entries) {
                if entry.index == 0 {
                    data.bits += usize::from(entry.bits);
                } else {
                    let name = value_names::of_esi(&entry.name, entry.index, entry.subindex);
                    data.add(entry.index, entry.subindex, entry.kind, name);
                }
            }
        }

        data
    }

    /// Returns the bytes of each SyncManager with assigned PDOs.
    pub(super) fn bytes_of(channels: &[(u8, Vec<Pdo>)]) -> Vec<(u8, usize)> {
        let bits = |pdos: &[Pdo]| {
            let entries = pdos.iter().take(MOST_ASSIGNED).flat_map(|pdo| &pdo.entries);
            entries.map(|entry| usize::from(entry.bits)).sum::<usize>()
        };
        channels.iter().map(|(number, pdos)| (*number, bits(pdos).div_ceil(8))).collect()
    }

    fn add(&mut self, index: u16, entry: u8, kind: DataType, name: String) {
        let (data_type, bits) = (kind.number(), kind.bits());
        self.values.push(MappedValue { index, entry, bits, data_type, bit_at: self.bits, name });
        self.bits += usize::from(bits);
    }
}

/// Returns the data type of an object that devices of this kind can map in this direction; `None`
/// for other objects.
#[must_use]
pub fn mappable(
    kind: DeviceKind,
    channels: ChannelsTable,
    direction: PdoDirection,
    index: u16,
    entry: u8,
) -> Option<DataType> {
    let of_drive = || {
        let (of, value) = value_names::mapped_by_drives(index, entry)?;
        (of == direction).then_some(value)
    };
    let of_line = |first: u16, count: u8, value| {
        (index == first && (1..=count).contains(&entry)).then_some(value)
    };
    let of_channels = |value| match direction {
        PdoDirection::Outputs => of_line(OUTPUTS, channels.outputs, value),
        PdoDirection::Inputs => of_line(INPUTS, channels.inputs, value),
    };

    match (kind, direction) {
        (DeviceKind::Digital, _) => of_channels(DataType::Bool),
        (DeviceKind::Analogue, _) => of_channels(DataType::I16),
        (DeviceKind::Drive, _) => of_drive(),
        (DeviceKind::Imu, PdoDirection::Inputs) => of_line(INPUTS, IMU_VALUES, DataType::F32),
        (DeviceKind::ForceTorque, PdoDirection::Inputs) if entry == FORCE_VALUES => {
            of_line(INPUTS, FORCE_VALUES, DataType::U32)
        }
        (DeviceKind::ForceTorque, PdoDirection::Inputs) => {
            of_line(INPUTS, FORCE_VALUES, DataType::F32)
        }
        (DeviceKind::Coupler, _)
        | (DeviceKind::Imu | DeviceKind::ForceTorque, PdoDirection::Outputs) => None,
    }
}

/// Returns the default mapping of a kind.
fn default_mapping(
    kind: DeviceKind,
    channels: ChannelsTable,
    direction: PdoDirection,
) -> Vec<String> {
    let listed = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let all =
        |index: u16, count: u8| (1..=count).map(|entry| format!("{index:x}:{entry:x}")).collect();
    match (kind, direction) {
        (DeviceKind::Drive, PdoDirection::Outputs) => listed(&DEFAULT_DRIVE_OUTPUTS),
        (DeviceKind::Drive, PdoDirection::Inputs) => listed(&DEFAULT_DRIVE_INPUTS),
        (DeviceKind::Digital | DeviceKind::Analogue, PdoDirection::Outputs) => {
            all(OUTPUTS, channels.outputs)
        }
        (DeviceKind::Digital | DeviceKind::Analogue, PdoDirection::Inputs) => {
            all(INPUTS, channels.inputs)
        }
        (DeviceKind::Imu, PdoDirection::Inputs) => all(INPUTS, IMU_VALUES),
        (DeviceKind::ForceTorque, PdoDirection::Inputs) => all(INPUTS, FORCE_VALUES),
        (DeviceKind::Coupler, _)
        | (DeviceKind::Imu | DeviceKind::ForceTorque, PdoDirection::Outputs) => Vec::new(),
    }
}
