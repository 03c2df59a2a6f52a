//! Process data of a device: which values stand where in its outputs and inputs, and which could.

use super::{ChannelsTable, DescriptionError, KindWord, TypeTable};
use crate::coe::DataType;
use crate::esi::Information;
use crate::layout::MappedValue;

/// Longest process data of one direction, in bytes.
const MOST_BYTES: usize = 1024;
/// Values of one direction at most, of a device without a vendor's file.
const MOST_VALUES: usize = 64;
/// PDOs that an object can assign.
const MOST_ASSIGNED: usize = 254;
/// The objects of digital and analogue channels, and of sensors.
const INPUTS: u16 = 0x6000;
const OUTPUTS: u16 = 0x7000;
/// Values of the sensors.
const IMU_VALUES: u8 = 6;
const FORCE_VALUES: u8 = 7;

/// What drives take (CiA 402).
const DRIVE_OUTPUTS: [(u16, DataType); 12] = [
    (0x6040, DataType::U16),
    (0x6060, DataType::I8),
    (0x6071, DataType::I16),
    (0x6072, DataType::U16),
    (0x607a, DataType::I32),
    (0x6081, DataType::U32),
    (0x6083, DataType::U32),
    (0x6084, DataType::U32),
    (0x6087, DataType::U32),
    (0x60b1, DataType::I32),
    (0x60b2, DataType::I16),
    (0x60ff, DataType::I32),
];
/// What drives show.
const DRIVE_INPUTS: [(u16, DataType); 9] = [
    (0x1001, DataType::U8),
    (0x603f, DataType::U16),
    (0x6041, DataType::U16),
    (0x6061, DataType::I8),
    (0x6064, DataType::I32),
    (0x606c, DataType::I32),
    (0x6077, DataType::I16),
    (0x60f4, DataType::I32),
    (0x60fd, DataType::U32),
];
/// What of it a drive maps when its type does not say.
const USUAL_DRIVE_OUTPUTS: [&str; 3] = ["6040", "607a", "6071"];
const USUAL_DRIVE_INPUTS: [&str; 4] = ["6041", "6064", "606c", "6077"];

/// A direction of process data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the MainDevice.
    Outputs,
    /// To the MainDevice.
    Inputs,
}

/// All values of one direction, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessData {
    /// The values; gaps between them have none.
    pub values: Vec<MappedValue>,
    /// Length of all of it in bits, gaps included.
    pub bits: usize,
}

impl ProcessData {
    /// Length in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bits.div_ceil(8)
    }

    /// What a type maps that no vendor's file describes.
    pub(super) fn of_type(name: &str, kind: &TypeTable, way: Way) -> Result<Self, DescriptionError> {
        let word = kind.word(name)?;
        let channels = kind.channels.unwrap_or_default();
        let listed = if way == Way::Outputs { &kind.outputs } else { &kind.inputs };
        let list = listed.clone().unwrap_or_else(|| usual(word, channels, way));

        let mut data = Self::default();
        for object in list {
            let refused = || DescriptionError::Object { kind: name.to_owned(), object: object.clone() };
            let (index, entry) = object.split_once(':').unwrap_or((&object, "0"));
            let number = |text: &str| u16::from_str_radix(text.trim_start_matches("0x"), 16).ok();
            let index = number(index).ok_or_else(refused)?;
            let entry = number(entry).ok_or_else(refused)? as u8;
            let value = mappable(word, channels, way, (index, entry)).ok_or_else(refused)?;
            data.add(index, entry, value.bits());

            if data.values.len() > MOST_VALUES || data.bits > 8 * MOST_BYTES {
                return Err(refused());
            }
        }

        Ok(data)
    }

    /// What a vendor's file assigns by default.
    pub(super) fn of_esi(information: &Information, way: Way) -> Self {
        let mut data = Self::default();
        let assigned = information.pdos[way as usize].iter().filter(|pdo| pdo.channel.is_some()).take(MOST_ASSIGNED);
        for entry in assigned.flat_map(|pdo| &pdo.entries) {
            if entry.index == 0 {
                data.bits += usize::from(entry.bits);
            } else {
                data.add(entry.index, entry.sub, entry.bits.into());
            }
        }

        data
    }

    fn add(&mut self, index: u16, entry: u8, bits: u16) {
        self.values.push(MappedValue { index, entry, bits, bit_at: self.bits });
        self.bits += usize::from(bits);
    }
}

/// The type of a value that devices of a kind can have in their process data, by index and entry of its object; `None` for others.
#[must_use]
pub fn mappable(kind: KindWord, channels: ChannelsTable, way: Way, (index, entry): (u16, u8)) -> Option<DataType> {
    let of_drive = |objects: &[(u16, DataType)]| {
        objects.iter().find(|(known, _)| entry == 0 && *known == index).map(|(_, value)| *value)
    };
    let of_line = |first: u16, count: u8, value| (index == first && (1..=count).contains(&entry)).then_some(value);
    let of_channels = |value| match way {
        Way::Outputs => of_line(OUTPUTS, channels.outputs, value),
        Way::Inputs => of_line(INPUTS, channels.inputs, value),
    };

    match (kind, way) {
        (KindWord::Digital, _) => of_channels(DataType::Bool),
        (KindWord::Analogue, _) => of_channels(DataType::I16),
        (KindWord::Drive, Way::Outputs) => of_drive(&DRIVE_OUTPUTS),
        (KindWord::Drive, Way::Inputs) => of_drive(&DRIVE_INPUTS),
        (KindWord::Imu, Way::Inputs) => of_line(INPUTS, IMU_VALUES, DataType::F32),
        (KindWord::ForceTorque, Way::Inputs) if entry == FORCE_VALUES => of_line(INPUTS, FORCE_VALUES, DataType::U32),
        (KindWord::ForceTorque, Way::Inputs) => of_line(INPUTS, FORCE_VALUES, DataType::F32),
        (KindWord::Coupler, _) | (KindWord::Imu | KindWord::ForceTorque, Way::Outputs) => None,
    }
}

/// What a kind maps when its type does not say.
fn usual(kind: KindWord, channels: ChannelsTable, way: Way) -> Vec<String> {
    let listed = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let all = |index: u16, count: u8| (1..=count).map(|entry| format!("{index:x}:{entry:x}")).collect();
    match (kind, way) {
        (KindWord::Drive, Way::Outputs) => listed(&USUAL_DRIVE_OUTPUTS),
        (KindWord::Drive, Way::Inputs) => listed(&USUAL_DRIVE_INPUTS),
        (KindWord::Digital | KindWord::Analogue, Way::Outputs) => all(OUTPUTS, channels.outputs),
        (KindWord::Digital | KindWord::Analogue, Way::Inputs) => all(INPUTS, channels.inputs),
        (KindWord::Imu, Way::Inputs) => all(INPUTS, IMU_VALUES),
        (KindWord::ForceTorque, Way::Inputs) => all(INPUTS, FORCE_VALUES),
        (KindWord::Coupler, _) | (KindWord::Imu | KindWord::ForceTorque, Way::Outputs) => Vec::new(),
    }
}
