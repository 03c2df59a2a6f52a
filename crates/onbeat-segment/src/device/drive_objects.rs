//! The objects of a drive (CiA 402).

use onbeat_ethercat::description::DriveTable;

use super::mode;
use crate::coe::{DataType, Dictionary, EntryFormat, ValueSlot, access};

/// Slots of the objects in the dictionary.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DriveObjects {
    pub(crate) error_register: ValueSlot,
    pub(crate) error_code: ValueSlot,
    pub(crate) controlword: ValueSlot,
    pub(crate) statusword: ValueSlot,
    pub(crate) quick_stop_option: ValueSlot,
    pub(crate) fault_option: ValueSlot,
    pub(crate) mode: ValueSlot,
    pub(crate) mode_display: ValueSlot,
    pub(crate) position: ValueSlot,
    pub(crate) following_window: ValueSlot,
    pub(crate) following_time: ValueSlot,
    pub(crate) position_window: ValueSlot,
    pub(crate) velocity: ValueSlot,
    pub(crate) target_torque: ValueSlot,
    pub(crate) most_torque: ValueSlot,
    pub(crate) torque: ValueSlot,
    pub(crate) target_position: ValueSlot,
    pub(crate) home_offset: ValueSlot,
    pub(crate) position_limits: [ValueSlot; 2],
    pub(crate) most_velocity: ValueSlot,
    pub(crate) profile_velocity: ValueSlot,
    pub(crate) acceleration: ValueSlot,
    pub(crate) deceleration: ValueSlot,
    pub(crate) quick_stop_rate: ValueSlot,
    pub(crate) torque_slope: ValueSlot,
    pub(crate) homing_method: ValueSlot,
    pub(crate) homing_velocities: [ValueSlot; 2],
    pub(crate) velocity_offset: ValueSlot,
    pub(crate) torque_offset: ValueSlot,
    /// Limits of the torque in each direction, positive first.
    pub(crate) torque_limits: [ValueSlot; 2],
    pub(crate) following_error: ValueSlot,
    pub(crate) target_velocity: ValueSlot,
}

const INPUT: u16 = access::READ | access::INPUT;
const OUTPUT: u16 = access::BOTH | access::OUTPUT;
const BOTH: u16 = access::BOTH;

impl DriveObjects {
    pub(crate) fn new(objects: &mut Dictionary, settings: &DriveTable) -> Self {
        use DataType::{I8, I16, I32, U8, U16, U32};

        let turn = settings.increments;
        let error_register =
            objects.value(0x1001, "Error register", EntryFormat::new(U8, INPUT), &[]);
        let (position_limits, homing_velocities) = add_pairs(objects, settings.travel, turn);
        add_passive_objects(objects, turn);

        let mut add = |index, name, kind, access, value: i64| {
            objects.value(index, name, EntryFormat::new(kind, access), &value.to_le_bytes())
        };
        let turn = i64::from(turn);
        let mode = settings.mode as i64;
        let following_window = settings.following_window.unwrap_or(settings.increments / 10).into();
        let most_torque = i64::from(settings.most_torque_permille);
        let most_velocity = f64::from(settings.increments) * settings.most_turns_per_s;
        let most_velocity = i64::from(most_velocity as u32);
        let slots = Self {
            error_register,
            position_limits,
            homing_velocities,
            error_code: add(0x603f, "Error code", U16, INPUT, 0),
            controlword: add(0x6040, "Controlword", U16, OUTPUT, 0),
            statusword: add(0x6041, "Statusword", U16, INPUT, 0x40),
            quick_stop_option: add(0x605a, "Quick stop option code", I16, BOTH, 2),
            fault_option: add(0x605e, "Fault reaction option code", I16, BOTH, 2),
            mode: add(0x6060, "Modes of operation", I8, OUTPUT, mode),
            mode_display: add(0x6061, "Modes of operation display", I8, INPUT, mode),
            position: add(0x6064, "Position actual value", I32, INPUT, 0),
            following_window: add(0x6065, "Following error window", U32, BOTH, following_window),
            following_time: add(0x6066, "Following error time out", U16, BOTH, 20),
            position_window: add(0x6067, "Position window", U32, BOTH, turn / 1000 + 1),
            velocity: add(0x606c, "Velocity actual value", I32, INPUT, 0),
            target_torque: add(0x6071, "Target torque", I16, OUTPUT, 0),
            most_torque: add(0x6072, "Max torque", U16, OUTPUT, most_torque),
            torque: add(0x6077, "Torque actual value", I16, INPUT, 0),
            target_position: add(0x607a, "Target position", I32, OUTPUT, 0),
            home_offset: add(0x607c, "Home offset", I32, BOTH, 0),
            most_velocity: add(0x607f, "Max profile velocity", U32, OUTPUT, most_velocity),
            profile_velocity: add(0x6081, "Profile velocity", U32, OUTPUT, turn),
            acceleration: add(0x6083, "Profile acceleration", U32, OUTPUT, 10 * turn),
            deceleration: add(0x6084, "Profile deceleration", U32, OUTPUT, 10 * turn),
            quick_stop_rate: add(0x6085, "Quick stop deceleration", U32, BOTH, 50 * turn),
            torque_slope: add(0x6087, "Torque slope", U32, OUTPUT, 5_000),
            homing_method: add(0x6098, "Homing method", I8, BOTH, 37),
            velocity_offset: add(0x60b1, "Velocity offset", I32, OUTPUT, 0),
            torque_offset: add(0x60b2, "Torque offset", I16, OUTPUT, 0),
            torque_limits: [
                add(0x60e0, "Positive torque limit", U16, OUTPUT, most_torque),
                add(0x60e1, "Negative torque limit", U16, OUTPUT, most_torque),
            ],
            following_error: add(0x60f4, "Following error actual value", I32, INPUT, 0),
            target_velocity: add(0x60ff, "Target velocity", I32, OUTPUT, 0),
        };

        // 0 requests no change of the mode.
        objects.restrict(0x6060, |value| {
            value.first().is_some_and(|&byte| byte == 0 || mode::is_supported(byte as i8))
        });
        slots
    }
}

/// Adds objects with two entries. Returns the slots of the position limits and of the homing
/// velocities.
fn add_pairs(
    objects: &mut Dictionary,
    [low, high]: [i32; 2],
    turn: u32,
) -> ([ValueSlot; 2], [ValueSlot; 2]) {
    let mut pair = |index, name: &str, kind, entries: [(&str, u32); 2]| {
        objects.object(index, name);
        objects.entry("Entries", DataType::U8, access::READ, &[2]);
        entries.map(|(name, value)| objects.entry(name, kind, access::BOTH, &value.to_le_bytes()))
    };

    let limits = [("Min position limit", low as u32), ("Max position limit", high as u32)];
    let limits = pair(0x607d, "Software position limit", DataType::I32, limits);
    let speeds = [("Speed to the switch", turn / 2), ("Speed to zero", turn / 10)];
    let speeds = pair(0x6099, "Homing speeds", DataType::U32, speeds);
    pair(
        0x608f,
        "Position encoder resolution",
        DataType::U32,
        [("Increments", turn), ("Turns", 1)],
    );
    (limits, speeds)
}

/// Adds objects that MainDevices expect and that have no effect here.
fn add_passive_objects(objects: &mut Dictionary, turn: u32) {
    let mut add = |index, name, access, value: u32| {
        objects.value(index, name, EntryFormat::new(DataType::U32, access), &value.to_le_bytes());
    };
    add(0x6502, "Supported drive modes", access::READ, mode::SUPPORTED);
    add(0x60fd, "Digital inputs", INPUT, 0);
    add(0x609a, "Homing acceleration", BOTH, 10 * turn);
    objects.object(0x60c2, "Interpolation time period");
    objects.entry("Entries", DataType::U8, access::READ, &[2]);
    objects.entry("Value", DataType::U8, access::BOTH, &[1]);
    objects.entry("Power of ten", DataType::I8, access::BOTH, &[0xfd]);
}
