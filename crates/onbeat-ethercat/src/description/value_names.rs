//! Names of the values that devices map, as their object dictionaries spell them.

use crate::layout::DeviceKind;

/// Names of objects of drives (CiA 402-2) and of the error register (ETG.1000.6).
const DRIVE_NAMES: [(u16, &str); 30] = [
    (0x1001, "Error register"),
    (0x603f, "Error code"),
    (0x6040, "Controlword"),
    (0x6041, "Statusword"),
    (0x6060, "Modes of operation"),
    (0x6061, "Modes of operation display"),
    (0x6064, "Position actual value"),
    (0x606c, "Velocity actual value"),
    (0x6071, "Target torque"),
    (0x6072, "Max torque"),
    (0x6077, "Torque actual value"),
    (0x6078, "Current actual value"),
    (0x6079, "DC link circuit voltage"),
    (0x607a, "Target position"),
    (0x607f, "Max profile velocity"),
    (0x6081, "Profile velocity"),
    (0x6083, "Profile acceleration"),
    (0x6084, "Profile deceleration"),
    (0x6087, "Torque slope"),
    (0x60b1, "Velocity offset"),
    (0x60b2, "Torque offset"),
    (0x60b8, "Touch probe function"),
    (0x60b9, "Touch probe status"),
    (0x60e0, "Positive torque limit"),
    (0x60e1, "Negative torque limit"),
    (0x60f4, "Following error actual value"),
    (0x60fd, "Digital inputs"),
    (0x60fe, "Digital outputs"),
    (0x60ff, "Target velocity"),
    (0x6502, "Supported drive modes"),
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

fn standard(index: u16, entry: u8) -> String {
    let known = DRIVE_NAMES.iter().find(|(known, _)| entry == 0 && *known == index);
    known.map_or_else(|| object_text(index, entry), |(_, name)| (*name).to_owned())
}

/// Formats an object as `bus sdo` accepts it, such as `6064:0`.
fn object_text(index: u16, entry: u8) -> String {
    format!("{index:04x}:{entry:x}")
}
