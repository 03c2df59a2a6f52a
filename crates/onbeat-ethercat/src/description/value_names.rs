//! Names of the values that devices map, as their object dictionaries spell them, and the objects of
//! drives.

use super::PdoDirection::{self, Inputs, Outputs};
use crate::coe::DataType::{self, I8, I16, I32, U8, U16, U32};
use crate::layout::DeviceKind;

/// Index and name of an object, the process data to which types of drives without an ESI file can map
/// it, and its data type.
type DriveObject = (u16, &'static str, Option<(PdoDirection, DataType)>);

/// Objects of drives (CiA 402-2), and the error register (ETG.1000.6).
static DRIVE_OBJECTS: [DriveObject; 30] = [
    (0x1001, "Error register", Some((Inputs, U8))),
    (0x603f, "Error code", Some((Inputs, U16))),
    (0x6040, "Controlword", Some((Outputs, U16))),
    (0x6041, "Statusword", Some((Inputs, U16))),
    (0x6060, "Modes of operation", Some((Outputs, I8))),
    (0x6061, "Modes of operation display", Some((Inputs, I8))),
    (0x6064, "Position actual value", Some((Inputs, I32))),
    (0x606c, "Velocity actual value", Some((Inputs, I32))),
    (0x6071, "Target torque", Some((Outputs, I16))),
    (0x6072, "Max torque", Some((Outputs, U16))),
    (0x6077, "Torque actual value", Some((Inputs, I16))),
    (0x6078, "Current actual value", None),
    (0x6079, "DC link circuit voltage", None),
    (0x607a, "Target position", Some((Outputs, I32))),
    (0x607f, "Max profile velocity", Some((Outputs, U32))),
    (0x6081, "Profile velocity", Some((Outputs, U32))),
    (0x6083, "Profile acceleration", Some((Outputs, U32))),
    (0x6084, "Profile deceleration", Some((Outputs, U32))),
    (0x6087, "Torque slope", Some((Outputs, U32))),
    (0x60b1, "Velocity offset", Some((Outputs, I32))),
    (0x60b2, "Torque offset", Some((Outputs, I16))),
    (0x60b8, "Touch probe function", None),
    (0x60b9, "Touch probe status", None),
    (0x60e0, "Positive torque limit", Some((Outputs, U16))),
    (0x60e1, "Negative torque limit", Some((Outputs, U16))),
    (0x60f4, "Following error actual value", Some((Inputs, I32))),
    (0x60fd, "Digital inputs", Some((Inputs, U32))),
    (0x60fe, "Digital outputs", None),
    (0x60ff, "Target velocity", Some((Outputs, I32))),
    (0x6502, "Supported drive modes", None),
];
const IMU_NAMES: [&str; 6] =
    ["Acceleration x", "Acceleration y", "Acceleration z", "Rate x", "Rate y", "Rate z"];
const FORCE_NAMES: [&str; 7] =
    ["Force x", "Force y", "Force z", "Torque x", "Torque y", "Torque z", "Samples"];

/// Returns the name of a value of a device without an ESI file.
pub(super) fn of_type(kind: DeviceKind, index: u16, entry: u8) -> String {
    let numbered = |names: &[&str]| {
        let name = usize::from(entry).checked_sub(1).and_then(|place| names.get(place));
        name.map_or_else(|| object_text(index, entry), |name| (*name).to_owned())
    };
    match kind {
        DeviceKind::Digital | DeviceKind::Analogue => {
            let word = if index == super::process_data::OUTPUTS { "Output" } else { "Input" };
            format!("{word} {entry}")
        }
        DeviceKind::Imu => numbered(&IMU_NAMES),
        DeviceKind::ForceTorque => numbered(&FORCE_NAMES),
        DeviceKind::Drive | DeviceKind::Coupler => standard(index, entry),
    }
}

/// Returns the name of a value in an ESI file; the standard name, or the object, if the file has
/// none.
pub(super) fn of_esi(name: &str, index: u16, entry: u8) -> String {
    if name.is_empty() { standard(index, entry) } else { name.to_owned() }
}

/// Returns the process data to which types of drives can map an object, and its data type.
pub(super) fn mapped_by_drives(index: u16, entry: u8) -> Option<(PdoDirection, DataType)> {
    drive_object(index, entry)?.2
}

fn drive_object(index: u16, entry: u8) -> Option<&'static DriveObject> {
    DRIVE_OBJECTS.iter().find(|(known, ..)| entry == 0 && *known == index)
}

fn standard(index: u16, entry: u8) -> String {
    let known = drive_object(index, entry);
    known.map_or_else(|| object_text(index, entry), |(_, name, _)| (*name).to_owned())
}

/// Formats an object as `bus sdo` accepts it, such as `6064:0`.
fn object_text(index: u16, entry: u8) -> String {
    format!("{index:04x}:{entry:x}")
}
