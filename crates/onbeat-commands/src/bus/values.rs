//! The values of a device in a process image: with names and units, or as they are.

use std::f64::consts::TAU;

use onbeat_control::Snapshot;
use onbeat_ethercat::emergency_codes;
use onbeat_ethercat::layout::{DeviceKind, DeviceLayout, MappedValue};
use onbeat_robot::motion::JointState;
use serde_json::Value;

use super::line_words::value_word;
use crate::byte_words::{hex_of, number};

/// Returns all values of a device, inputs first: `index:entry`, what it is, its bytes.
pub(crate) fn values<'d>(
    device: &'d DeviceLayout,
    seen: &'d Snapshot,
) -> impl Iterator<Item = (String, &'d MappedValue, Vec<u8>)> {
    let inputs = seen.inputs.get(device.inputs.clone()).unwrap_or_default();
    let outputs = seen.outputs.get(device.outputs.clone()).unwrap_or_default();
    let all = device.input_values.iter().map(move |value| (inputs, value));
    let all = all.chain(device.output_values.iter().map(move |value| (outputs, value)));
    all.filter_map(|(part, value)| {
        let key = format!("{:04x}:{:x}", value.index, value.entry);
        Some((key, value, bytes_of(part, value)?))
    })
}

/// Returns the bytes of a value, lowest bit first, as EtherCAT maps them; `None` beyond the image.
fn bytes_of(part: &[u8], value: &MappedValue) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::from(value.bits).div_ceil(8)];
    for place in 0..usize::from(value.bits) {
        let at = value.bit_at + place;
        bytes[place / 8] |= (part.get(at / 8)? >> (at % 8) & 1) << (place % 8);
    }
    Some(bytes)
}

/// Returns a value as JSON has it: the number of its bits, or its bytes in hexadecimal if there are
/// more than 64.
pub(crate) fn plain_json(bytes: &[u8]) -> Value {
    number(bytes).map_or_else(|| hex_of(bytes).into(), Value::from)
}

/// Returns a line with the values of a device in one cycle; `is_raw` shows numbers alone.
pub(crate) fn values_line(device: &DeviceLayout, seen: &Snapshot, is_raw: bool) -> String {
    let shown = |(key, value, bytes): (String, &MappedValue, Vec<u8>)| {
        let bits = number(&bytes).filter(|_| !is_raw);
        let known = bits.and_then(|bits| named(device, value, bits));
        known.unwrap_or_else(|| raw(&key, value, &bytes))
    };

    let all: Vec<String> = values(device, seen).map(shown).collect();
    format!("{:>10} {:16} {}", seen.cycle.cycle, device.name, all.join("  "))
}

/// Words of states and single bits are shown as they are, others as their data type says; numbers of
/// an unknown type have a sign, as positions.
fn raw(key: &str, value: &MappedValue, bytes: &[u8]) -> String {
    const SINT: u16 = 2;
    let is_word =
        (value.bits <= 8 && value.data_type != SINT) || [0x6040, 0x6041].contains(&value.index);
    match number(bytes) {
        Some(bits) if is_word => format!("{key} 0x{bits:x}"),
        Some(bits) if value.data_type == 0 => format!("{key} {}", signed(value, bits)),
        _ => format!("{key} {}", value_word(value.data_type, bytes)),
    }
}

fn signed(value: &MappedValue, bits: u64) -> i64 {
    let unused = 64 - u32::from(value.bits);
    if value.bits == 0 { 0 } else { (bits << unused).cast_signed() >> unused }
}

/// Returns a value with its name in CiA 402 or CiA 401 and its unit; `None` for other objects.
fn named(device: &DeviceLayout, value: &MappedValue, bits: u64) -> Option<String> {
    match (device.kind, value.index) {
        (DeviceKind::Drive, index) => of_drive(device, index, signed(value, bits), bits),
        (DeviceKind::Digital, 0x6000) => Some(format!("input {} {bits}", value.entry)),
        (DeviceKind::Digital, 0x7000) => Some(format!("output {} {bits}", value.entry)),
        (DeviceKind::Imu | DeviceKind::ForceTorque, 0x6000) => of_sensor(device.kind, value, bits),
        _ => None,
    }
}

/// Returns a value of a sensor, which are floating-point numbers of 32 bits with a unit each; `None`
/// for its count of samples.
fn of_sensor(kind: DeviceKind, value: &MappedValue, bits: u64) -> Option<String> {
    let unit = match (kind, value.entry) {
        (DeviceKind::Imu, 1..=3) => "m/s²",
        (DeviceKind::Imu, 4..=6) => "rad/s",
        (DeviceKind::ForceTorque, 1..=3) => "N",
        (DeviceKind::ForceTorque, 4..=6) => "N·m",
        _ => return None,
    };
    let number = f32::from_bits(u32::try_from(bits).ok()?);
    Some(format!("{} {number:.4} {unit}", value.name.to_lowercase()))
}

fn of_drive(device: &DeviceLayout, index: u16, number: i64, bits: u64) -> Option<String> {
    let angle = |name: &str, unit: &str| match device.increments {
        0 => format!("{name} {number} increments"),
        per_turn => {
            let rad = number as f64 * TAU / f64::from(per_turn);
            // Adding 0 removes the sign of a negative zero.
            format!("{name} {:.4} {unit}", (rad * 1e4).round() / 1e4 + 0.0)
        }
    };
    let of_rated = |name: &str| format!("{name} {:.1} %", number as f64 / 10.0);
    let error = |code: u16| match code {
        0 => "no error".to_owned(),
        code => format!("error code {}", emergency_codes::words(code)),
    };

    Some(match index {
        0x603f => error(bits as u16),
        0x6040 => format!("controlword {}", command(bits)),
        0x6041 => format!("statusword {}", state(bits)),
        0x6060 => format!("mode {number}"),
        0x6061 => format!("mode shown {number}"),
        0x6064 => angle("position", "rad"),
        0x607a => angle("target", "rad"),
        0x60f4 => angle("following error", "rad"),
        0x606c => angle("velocity", "rad/s"),
        0x60ff => angle("target velocity", "rad/s"),
        0x6077 => of_rated("torque"),
        0x6071 => of_rated("target torque"),
        0x6072 => of_rated("torque limit"),
        0x60e0 => of_rated("positive torque limit"),
        0x60e1 => of_rated("negative torque limit"),
        0x60fd => format!("digital inputs {bits:#010x}"),
        _ => return None,
    })
}

/// The state of a drive in the words of CiA 402.
fn state(statusword: u64) -> &'static str {
    match JointState::from_statusword(statusword as u16) {
        JointState::NotReady => "not ready to switch on",
        JointState::SwitchOnDisabled => "switch on disabled",
        JointState::ReadyToSwitchOn => "ready to switch on",
        JointState::SwitchedOn => "switched on",
        JointState::OperationEnabled => "operation enabled",
        JointState::QuickStopActive => "quick stop active",
        JointState::FaultReaction => "fault reaction active",
        JointState::Fault => "fault",
    }
}

/// The command in a controlword, in the words of CiA 402.
fn command(controlword: u64) -> &'static str {
    match controlword {
        word if word & 0x80 != 0 => "fault reset",
        word if word & 0x02 == 0 => "disable voltage",
        word if word & 0x04 == 0 => "quick stop",
        word if word & 0x01 == 0 => "shutdown",
        word if word & 0x08 == 0 => "switch on",
        _ => "enable operation",
    }
}

#[cfg(test)]
mod tests {
    use onbeat_ethercat::layout::Layout;
    use onbeat_segment::Segment;

    use super::*;

    fn device(name: &str) -> DeviceLayout {
        let layout = Layout::from_toml(Segment::HUMANOID).unwrap();
        layout.devices.into_iter().find(|device| device.name == name).unwrap()
    }

    fn shown(device: &DeviceLayout, index: u16, bits: u16, number: u64) -> Option<String> {
        let name = String::new();
        let value = MappedValue { index, entry: 0, bits, data_type: 0, bit_at: 0, name };
        named(device, &value, number)
    }

    #[test]
    fn a_drive_speaks_states_rad_and_percent() {
        let knee = device("left knee");
        let is = |index, bits, number| shown(&knee, index, bits, number).unwrap();
        assert_eq!(is(0x6041, 16, 0x1637), "statusword operation enabled");
        assert_eq!(is(0x6041, 16, 0x0218), "statusword fault");
        assert_eq!(is(0x6040, 16, 0x0f), "controlword enable operation");
        assert_eq!(is(0x6040, 16, 0x02), "controlword quick stop");
        // A quarter of a turn backwards.
        let quarter = u64::from((-i64::from(knee.increments) / 4) as u32);
        assert_eq!(is(0x6064, 32, quarter), "position -1.5708 rad");
        assert_eq!(is(0x6077, 16, 0xff85), "torque -12.3 %");
        assert_eq!(is(0x603f, 16, 0x8611), "error code 0x8611, following error");
        assert_eq!(is(0x603f, 16, 0), "no error");
        assert_eq!(shown(&knee, 0x2000, 16, 1), None);
    }

    #[test]
    fn a_sensor_has_floating_point_numbers_with_units() {
        let imu = device("pelvis imu");
        let value = |entry: u8| imu.input_values.iter().find(|one| one.entry == entry).unwrap();
        let is = |entry, number: f32| named(&imu, value(entry), number.to_bits().into()).unwrap();
        assert_eq!(is(3, 9.81), "acceleration z 9.8100 m/s²");
        assert_eq!(is(4, -0.5), "rate x -0.5000 rad/s");
    }

    #[test]
    fn values_of_other_devices_are_shown_as_their_types_say() {
        // The bytes of the image begin with one bit of another value.
        let is = |data_type, bytes: &[u8]| {
            let bits = 8 * bytes.len() as u16;
            let shifted: Vec<u8> = (0..=bytes.len())
                .map(|at| {
                    let low = bytes.get(at).map_or(0, |byte| byte << 1);
                    low | at.checked_sub(1).map_or(0, |at| bytes[at] >> 7)
                })
                .collect();
            let name = String::new();
            let value = MappedValue { index: 0x6000, entry: 1, bits, data_type, bit_at: 1, name };
            let there = bytes_of(&shifted, &value).unwrap();
            assert_eq!(there, bytes);
            assert_eq!(bytes_of(bytes, &value), None, "beyond the image");
            raw("6000:1", &value, &there)
        };
        let max = u16::MAX.to_le_bytes();
        assert_eq!(is(6, &max), "6000:1 65535 (0xffff)", "UINT");
        assert_eq!(is(3, &max), "6000:1 -1", "INT");
        assert_eq!(is(0, &max), "6000:1 -1", "unknown");
        assert_eq!(is(2, &[0xfb]), "6000:1 -5", "SINT");
        assert_eq!(is(5, &[0xfb]), "6000:1 0xfb", "USINT");
        assert_eq!(is(8, &21.5f32.to_le_bytes()), "6000:1 21.5", "REAL");
        assert_eq!(is(0x11, &(-0.25f64).to_le_bytes()), "6000:1 -0.25", "LREAL");
        assert_eq!(is(9, b"SV-2\0\0\0\0\0\0"), "6000:1 \"SV-2\"", "STRING");
        assert_eq!(is(0x0a, &[1; 9]), "6000:1 010101010101010101", "more than 64 bits");
        assert_eq!(plain_json(&[1; 9]), "010101010101010101");
        assert_eq!(plain_json(&max), 65_535);
    }

    #[test]
    fn channels_have_numbers_and_unknown_scales_stay_increments() {
        let fork = Layout::from_toml(Segment::HUMANOID).unwrap().devices;
        let fork = fork.into_iter().find(|device| device.kind == DeviceKind::Digital).unwrap();
        let input = fork.input_values.iter().find(|value| value.entry == 3).unwrap().clone();
        assert_eq!(named(&fork, &input, 1).as_deref(), Some("input 3 1"));
        let knee = DeviceLayout { increments: 0, ..device("left knee") };
        assert_eq!(shown(&knee, 0x6064, 32, 17).as_deref(), Some("position 17 increments"));
    }
}
