//! What stands behind the header of actuators and I/O boards.

use super::PacketError;
use super::fields::{Fields, Writing};

/// What an actuator's local loop controls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum ActuatorMode {
    /// Nothing: no torque.
    #[default]
    Off = 0,
    /// Position, with a velocity and torque to go with it.
    Position = 1,
    Velocity = 2,
    Torque = 3,
}

impl ActuatorMode {
    fn from_number(number: u8) -> Result<Self, PacketError> {
        [Self::Off, Self::Position, Self::Velocity, Self::Torque]
            .into_iter()
            .find(|mode| *mode as u8 == number)
            .ok_or(PacketError::UnknownMode { found: number })
    }
}

/// A set-point for an actuator.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ActuatorCommand {
    /// What it controls.
    pub mode: ActuatorMode,
    /// Target position, in rad.
    pub position_rad: f64,
    /// Target velocity, in rad/s.
    pub velocity_rad_s: f32,
    /// Target torque, in N·m.
    pub torque_nm: f32,
    /// Largest velocity, in rad/s; 0: the device's own limit.
    pub most_velocity_rad_s: f32,
    /// Largest torque, in N·m; 0: the device's own limit.
    pub most_torque_nm: f32,
}

impl ActuatorCommand {
    pub(super) fn decode(fields: Fields<'_>) -> Result<Self, PacketError> {
        Ok(Self {
            mode: ActuatorMode::from_number(fields.0[0])?,
            position_rad: fields.f64(8),
            velocity_rad_s: fields.f32(16),
            torque_nm: fields.f32(20),
            most_velocity_rad_s: fields.f32(24),
            most_torque_nm: fields.f32(28),
        })
    }

    pub(super) fn write(&self, into: &mut Writing<'_>) {
        into.put(&[self.mode as u8, 0, 0, 0, 0, 0, 0, 0]);
        into.put(&self.position_rad.to_le_bytes());
        into.f32s(&[
            self.velocity_rad_s,
            self.torque_nm,
            self.most_velocity_rad_s,
            self.most_torque_nm,
        ]);
    }
}

/// What an actuator measures: 200 bytes with its header.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ActuatorFeedback {
    /// What its loop controls now; [`ActuatorMode::Off`] once a command's lifetime is over.
    pub mode: ActuatorMode,
    /// Bits: 1 the lifetime of the last command is over, 2 velocity limited, 4 torque limited, 8
    /// fault.
    pub state: u8,
    /// Number of the fault, by the device's own list; 0 for none.
    pub fault: u16,
    /// Time since the last command, in microseconds.
    pub command_age_us: u32,
    /// Sequence of the last command.
    pub command_sequence: u64,
    pub position_rad: f64,
    /// Target of the local loop, in rad.
    pub target_rad: f64,
    pub velocity_rad_s: f32,
    /// Torque, in N·m.
    pub torque_nm: f32,
    /// Current of the motor, in A.
    pub current_a: f32,
    /// Voltage of the supply, in V.
    pub supply_v: f32,
    /// Temperatures of motor and board, in °C.
    pub temperatures_c: [f32; 2],
    /// Angular velocity of the housing, in rad/s.
    pub gyro_rad_s: [f32; 3],
    /// Acceleration of the housing, in m/s².
    pub acceleration_m_s2: [f32; 3],
    /// Cycles of the local loop since it started.
    pub loop_cycles: u64,
    /// Period of the local loop, in nanoseconds.
    pub loop_period_ns: u32,
    /// Largest wake-up latency of the local loop since the last feedback, in nanoseconds.
    pub loop_latency_ns: u32,
}

impl ActuatorFeedback {
    pub(super) fn decode(fields: Fields<'_>) -> Result<Self, PacketError> {
        Ok(Self {
            mode: ActuatorMode::from_number(fields.0[0])?,
            state: fields.0[1],
            fault: fields.u16(2),
            command_age_us: fields.u32(4),
            command_sequence: fields.u64(8),
            position_rad: fields.f64(16),
            target_rad: fields.f64(24),
            velocity_rad_s: fields.f32(32),
            torque_nm: fields.f32(36),
            current_a: fields.f32(40),
            supply_v: fields.f32(44),
            temperatures_c: fields.f32s(48),
            gyro_rad_s: fields.f32s(56),
            acceleration_m_s2: fields.f32s(68),
            loop_cycles: fields.u64(80),
            loop_period_ns: fields.u32(88),
            loop_latency_ns: fields.u32(92),
        })
    }

    pub(super) fn write(&self, into: &mut Writing<'_>) {
        into.put(&[self.mode as u8, self.state]);
        into.put(&self.fault.to_le_bytes());
        into.put(&self.command_age_us.to_le_bytes());
        into.put(&self.command_sequence.to_le_bytes());
        into.put(&self.position_rad.to_le_bytes());
        into.put(&self.target_rad.to_le_bytes());
        into.f32s(&[self.velocity_rad_s, self.torque_nm, self.current_a, self.supply_v]);
        into.f32s(&self.temperatures_c);
        into.f32s(&self.gyro_rad_s);
        into.f32s(&self.acceleration_m_s2);
        into.put(&self.loop_cycles.to_le_bytes());
        into.put(&self.loop_period_ns.to_le_bytes());
        into.put(&self.loop_latency_ns.to_le_bytes());
        into.put(&[0; 48]);
    }
}

/// Outputs of an I/O board.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct IoCommand {
    /// Digital outputs to change, as bits.
    pub digital_mask: u32,
    /// Their levels.
    pub digital: u32,
    /// PWM outputs to change, as bits.
    pub pwm_mask: u32,
    /// Their duty cycles, 0 to 1.
    pub pwm: [f32; 8],
}

impl IoCommand {
    pub(super) fn decode(fields: Fields<'_>) -> Self {
        Self {
            digital_mask: fields.u32(0),
            digital: fields.u32(4),
            pwm_mask: fields.u32(8),
            pwm: fields.f32s(16),
        }
    }

    pub(super) fn write(&self, into: &mut Writing<'_>) {
        for word in [self.digital_mask, self.digital, self.pwm_mask, 0] {
            into.put(&word.to_le_bytes());
        }
        into.f32s(&self.pwm);
    }
}

/// Inputs of an I/O board, and the state of its outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct IoFeedback {
    /// Levels of the digital inputs, as bits.
    pub digital_in: u32,
    /// Levels of the digital outputs.
    pub digital_out: u32,
    /// Last change of each of the first eight inputs, by the device's clock, in nanoseconds; 0 for
    /// none.
    pub changed_ns: [u64; 8],
    /// When the analogue inputs were sampled, by the device's clock, in nanoseconds.
    pub sampled_ns: u64,
    /// Analogue inputs, in V.
    pub analogue_v: [f32; 16],
    /// Duty cycles of the PWM outputs, 0 to 1.
    pub pwm: [f32; 8],
    /// Sequence of the last command.
    pub command_sequence: u64,
    /// Time since the last command, in microseconds.
    pub command_age_us: u32,
}

impl IoFeedback {
    pub(super) fn decode(fields: Fields<'_>) -> Self {
        Self {
            digital_in: fields.u32(0),
            digital_out: fields.u32(4),
            changed_ns: std::array::from_fn(|place| fields.u64(8 + 8 * place)),
            sampled_ns: fields.u64(72),
            analogue_v: fields.f32s(80),
            pwm: fields.f32s(144),
            command_sequence: fields.u64(176),
            command_age_us: fields.u32(184),
        }
    }

    pub(super) fn write(&self, into: &mut Writing<'_>) {
        into.put(&self.digital_in.to_le_bytes());
        into.put(&self.digital_out.to_le_bytes());
        for at_ns in self.changed_ns {
            into.put(&at_ns.to_le_bytes());
        }
        into.put(&self.sampled_ns.to_le_bytes());
        into.f32s(&self.analogue_v);
        into.f32s(&self.pwm);
        into.put(&self.command_sequence.to_le_bytes());
        into.put(&self.command_age_us.to_le_bytes());
        into.put(&[0; 4]);
    }
}
