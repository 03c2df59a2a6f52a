//! The objects of a drive (CiA 402), and where their values are.

use super::drive::{DriveSettings, mode};
use crate::coe::{DataType, Dictionary, Slot, access};

/// Places of the values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Objects {
    pub(crate) error_register: Slot,
    pub(crate) error_code: Slot,
    pub(crate) controlword: Slot,
    pub(crate) statusword: Slot,
    pub(crate) quick_stop_option: Slot,
    pub(crate) fault_option: Slot,
    pub(crate) mode: Slot,
    pub(crate) mode_display: Slot,
    pub(crate) position: Slot,
    pub(crate) following_window: Slot,
    pub(crate) following_time: Slot,
    pub(crate) position_window: Slot,
    pub(crate) velocity: Slot,
    pub(crate) target_torque: Slot,
    pub(crate) most_torque: Slot,
    pub(crate) torque: Slot,
    pub(crate) target_position: Slot,
    pub(crate) home_offset: Slot,
    pub(crate) position_limits: [Slot; 2],
    pub(crate) most_velocity: Slot,
    pub(crate) profile_velocity: Slot,
    pub(crate) acceleration: Slot,
    pub(crate) deceleration: Slot,
    pub(crate) quick_stop_rate: Slot,
    pub(crate) torque_slope: Slot,
    pub(crate) homing_method: Slot,
    pub(crate) homing_velocities: [Slot; 2],
    pub(crate) velocity_offset: Slot,
    pub(crate) torque_offset: Slot,
    pub(crate) following_error: Slot,
    pub(crate) target_velocity: Slot,
}

const SHOWN: u16 = access::READ | access::INPUT;
const COMMANDED: u16 = access::BOTH | access::OUTPUT;

impl Objects {
    pub(crate) fn new(objects: &mut Dictionary, settings: &DriveSettings) -> Self {
        let turn = settings.motor.increments;
        let error_register = objects.value(0x1001, "Error register", (DataType::U8, SHOWN), &[]);
        let [low, high] = settings.travel;
        let (position_limits, homing_velocities) = pairs(objects, low, high, turn);
        gear(objects, turn);
        let mut add =
            |index, name, kind, access, value: i64| objects.value(index, name, (kind, access), &value.to_le_bytes());
        let turn = i64::from(turn);
        let made = Self {
            error_register,
            position_limits,
            homing_velocities,
            error_code: add(0x603f, "Error code", DataType::U16, SHOWN, 0),
            controlword: add(0x6040, "Controlword", DataType::U16, COMMANDED, 0),
            statusword: add(0x6041, "Statusword", DataType::U16, SHOWN, 0x40),
            quick_stop_option: add(0x605a, "Quick stop option code", DataType::I16, access::BOTH, 2),
            fault_option: add(0x605e, "Fault reaction option code", DataType::I16, access::BOTH, 2),
            mode: add(0x6060, "Modes of operation", DataType::I8, COMMANDED, i64::from(settings.mode)),
            mode_display: add(0x6061, "Modes of operation display", DataType::I8, SHOWN, i64::from(settings.mode)),
            position: add(0x6064, "Position actual value", DataType::I32, SHOWN, 0),
            following_window: {
                let window = i64::from(settings.following_window);
                add(0x6065, "Following error window", DataType::U32, access::BOTH, window)
            },
            following_time: add(0x6066, "Following error time out", DataType::U16, access::BOTH, 20),
            position_window: add(0x6067, "Position window", DataType::U32, access::BOTH, turn / 1000 + 1),
            velocity: add(0x606c, "Velocity actual value", DataType::I32, SHOWN, 0),
            target_torque: add(0x6071, "Target torque", DataType::I16, COMMANDED, 0),
            most_torque: add(0x6072, "Max torque", DataType::U16, COMMANDED, i64::from(settings.most_torque)),
            torque: add(0x6077, "Torque actual value", DataType::I16, SHOWN, 0),
            target_position: add(0x607a, "Target position", DataType::I32, COMMANDED, 0),
            home_offset: add(0x607c, "Home offset", DataType::I32, access::BOTH, 0),
            most_velocity: {
                let most = i64::from(settings.most_velocity);
                add(0x607f, "Max profile velocity", DataType::U32, access::BOTH, most)
            },
            profile_velocity: add(0x6081, "Profile velocity", DataType::U32, COMMANDED, turn),
            acceleration: add(0x6083, "Profile acceleration", DataType::U32, COMMANDED, 10 * turn),
            deceleration: add(0x6084, "Profile deceleration", DataType::U32, COMMANDED, 10 * turn),
            quick_stop_rate: add(0x6085, "Quick stop deceleration", DataType::U32, access::BOTH, 50 * turn),
            torque_slope: add(0x6087, "Torque slope", DataType::U32, COMMANDED, 5_000),
            homing_method: add(0x6098, "Homing method", DataType::I8, access::BOTH, 37),
            velocity_offset: add(0x60b1, "Velocity offset", DataType::I32, COMMANDED, 0),
            torque_offset: add(0x60b2, "Torque offset", DataType::I16, COMMANDED, 0),
            following_error: add(0x60f4, "Following error actual value", DataType::I32, SHOWN, 0),
            target_velocity: add(0x60ff, "Target velocity", DataType::I32, COMMANDED, 0),
        };

        // 0: no mode is asked for, and the one that is there stays.
        objects.choose(0x6060, |value| value.first().is_some_and(|&byte| byte == 0 || mode::is_supported(byte as i8)));
        made
    }
}

/// Objects of two values: where they are, of the limits and of the homing velocities.
fn pairs(objects: &mut Dictionary, low: i32, high: i32, turn: u32) -> ([Slot; 2], [Slot; 2]) {
    let mut pair = |index, name: &str, kind, entries: [(&str, u32); 2]| {
        objects.object(index, name);
        objects.entry("Entries", DataType::U8, access::READ, &[2]);
        entries.map(|(name, value)| objects.entry(name, kind, access::BOTH, &value.to_le_bytes()))
    };

    let limits = [("Min position limit", low as u32), ("Max position limit", high as u32)];
    let limits = pair(0x607d, "Software position limit", DataType::I32, limits);
    let speeds = [("Speed to the switch", turn / 2), ("Speed to zero", turn / 10)];
    let speeds = pair(0x6099, "Homing speeds", DataType::U32, speeds);
    pair(0x608f, "Position encoder resolution", DataType::U32, [("Increments", turn), ("Turns", 1)]);
    (limits, speeds)
}

/// Objects that MainDevices want to find and that have no influence here.
fn gear(objects: &mut Dictionary, turn: u32) {
    objects.value(0x6502, "Supported drive modes", (DataType::U32, access::READ), &mode::SUPPORTED.to_le_bytes());
    objects.value(0x60fd, "Digital inputs", (DataType::U32, SHOWN), &[]);
    objects.value(0x609a, "Homing acceleration", (DataType::U32, access::BOTH), &(10 * turn).to_le_bytes());
    objects.object(0x60c2, "Interpolation time period");
    objects.entry("Entries", DataType::U8, access::READ, &[2]);
    objects.entry("Value", DataType::U8, access::BOTH, &[1]);
    objects.entry("Power of ten", DataType::I8, access::BOTH, &[0xfd]);
}
