//! The wire format, version 1: a header of 56 bytes, then a body by kind.
//!
//! `docs/net.md` specifies it to the byte, `include/onbeat_net.h` is the same for firmware. All
//! numbers are little-endian. [`decode`] takes any bytes; a device changes a request into its
//! answer in place ([`WireHeader::write`]), so that bytes of an echo that it does not know come back
//! unchanged.
//!
//! Absent on purpose: sockets, and trust: what a packet says of itself decides nothing but its
//! place in an account.

use std::fmt;

/// The port of the first device.
pub const PORT: u16 = 7470;
/// Bytes of a header.
pub const HEADER_BYTES: usize = 56;
/// Largest message: what one Ethernet frame carries over IPv4.
pub const MOST_BYTES: usize = 1472;
/// The first four bytes of every message.
pub const MAGIC: [u8; 4] = *b"ONBT";
/// The version described here.
pub const VERSION: u8 = 1;

/// What a message is. An answer has the number after that of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PacketKind {
    /// To be returned, with any bytes behind the header.
    EchoRequest = 1,
    /// The answer to it, with the same bytes.
    EchoAnswer = 2,
    /// A set-point for an actuator.
    ActuatorCommand = 3,
    /// What an actuator measures.
    ActuatorFeedback = 4,
    /// Outputs of an I/O board.
    IoCommand = 5,
    /// Inputs of an I/O board.
    IoFeedback = 6,
}

impl PacketKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::EchoRequest,
        Self::EchoAnswer,
        Self::ActuatorCommand,
        Self::ActuatorFeedback,
        Self::IoCommand,
        Self::IoFeedback,
    ];

    /// Returns the kind of a number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Returns the kind of the answer; `None` for an answer.
    #[must_use]
    pub fn answer(self) -> Option<Self> {
        let number = self as u8;
        if number % 2 == 1 { Self::from_number(number + 1) } else { None }
    }

    /// Returns the bytes of its body; `None` where any number is valid.
    #[must_use]
    pub const fn body_bytes(self) -> Option<usize> {
        match self {
            Self::EchoRequest | Self::EchoAnswer => None,
            Self::ActuatorCommand => Some(32),
            Self::ActuatorFeedback => Some(144),
            Self::IoCommand => Some(48),
            Self::IoFeedback => Some(192),
        }
    }
}

/// Why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// They end within the header.
    #[error("{bytes} bytes, a header has {HEADER_BYTES}")]
    Short {
        /// Number of bytes.
        bytes: usize,
    },
    /// They do not begin with [`MAGIC`].
    #[error("begins with {found:02x?}, not with ONBT")]
    Magic {
        /// The first four bytes.
        found: [u8; 4],
    },
    /// They are of another version.
    #[error("version {found}, this program reads version {VERSION}")]
    Version {
        /// As stated.
        found: u8,
    },
    /// The kind has no meaning.
    #[error("kind {found} is not defined")]
    UnknownKind {
        /// As stated.
        found: u8,
    },
    /// The stated length is not that of the datagram.
    #[error("states {stated} bytes and has {bytes}")]
    Length {
        /// As stated.
        stated: u16,
        /// Number of bytes.
        bytes: usize,
    },
    /// The body is not as long as its kind's.
    #[error("a body of {bytes} bytes, {kind:?} has {wanted}")]
    Body {
        /// The kind.
        kind: PacketKind,
        /// Number of bytes.
        bytes: usize,
        /// Bytes of a body of this kind.
        wanted: usize,
    },
    /// The mode of an actuator has no meaning.
    #[error("mode {found} of an actuator is not defined")]
    UnknownMode {
        /// As stated.
        found: u8,
    },
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireHeader {
    /// What it is.
    pub kind: PacketKind,
    /// Number of the device, as the controller counts them.
    pub device: u16,
    /// Number of the cycle. Each packet of a run has another pair of device and sequence.
    pub sequence: u64,
    /// When the request was sent, by the controller's clock, in nanoseconds.
    pub sent_ns: u64,
    /// When the device received the request, by its own clock, in nanoseconds; 0 in requests.
    pub received_ns: u64,
    /// When the device sent the answer, by the same clock; 0 in requests.
    pub answered_ns: u64,
    /// Drawn by the controller for each run, returned by the device.
    pub session: u32,
    /// For how long a command is valid after its receipt, in microseconds; 0: until the next one.
    pub lifetime_us: u32,
}

impl WireHeader {
    /// Writes the header to the first [`HEADER_BYTES`] of a message, whose length it states. Bytes
    /// beyond [`u16::MAX`] cannot be stated and no datagram has them.
    pub fn write(&self, message: &mut [u8]) {
        let length = message.len() as u16;
        let Some(bytes) = message.first_chunk_mut::<HEADER_BYTES>() else { return };
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = self.kind as u8;
        bytes[6..8].copy_from_slice(&self.device.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sent_ns.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.received_ns.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.answered_ns.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.session.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.lifetime_us.to_le_bytes());
        bytes[48..50].copy_from_slice(&length.to_le_bytes());
        bytes[50..56].fill(0);
    }
}

/// Decodes a message. The reserved bytes of the header are not checked: a later version may give
/// them a meaning.
///
/// # Errors
/// [`PacketError`], the first rule that the bytes violate.
///
/// ```
/// use onbeat::net::packet::{self, PacketKind, WireHeader};
///
/// let header = WireHeader {
///     kind: PacketKind::EchoRequest,
///     device: 3,
///     sequence: 1_000,
///     sent_ns: 5_000_000,
///     received_ns: 0,
///     answered_ns: 0,
///     session: 42,
///     lifetime_us: 0,
/// };
/// let mut message = [0; 200];
/// header.write(&mut message);
/// assert_eq!(packet::decode(&message)?.0, header);
/// # Ok::<(), packet::PacketError>(())
/// ```
pub fn decode(message: &[u8]) -> Result<(WireHeader, PacketBody<'_>), PacketError> {
    let Some((head, rest)) = message.split_first_chunk::<HEADER_BYTES>() else {
        return Err(PacketError::Short { bytes: message.len() });
    };
    let fields = Fields(head);
    if fields.array(0) != MAGIC {
        return Err(PacketError::Magic { found: fields.array(0) });
    }
    if head[4] != VERSION {
        return Err(PacketError::Version { found: head[4] });
    }
    let kind =
        PacketKind::from_number(head[5]).ok_or(PacketError::UnknownKind { found: head[5] })?;
    let stated = fields.u16(48);
    if usize::from(stated) != message.len() {
        return Err(PacketError::Length { stated, bytes: message.len() });
    }
    if let Some(wanted) = kind.body_bytes().filter(|wanted| *wanted != rest.len()) {
        return Err(PacketError::Body { kind, bytes: rest.len(), wanted });
    }

    let header = WireHeader {
        kind,
        device: fields.u16(6),
        sequence: fields.u64(8),
        sent_ns: fields.u64(16),
        received_ns: fields.u64(24),
        answered_ns: fields.u64(32),
        session: fields.u32(40),
        lifetime_us: fields.u32(44),
    };
    Ok((header, PacketBody::decode(kind, rest)?))
}

/// What stands behind a header.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PacketBody<'m> {
    /// Any bytes.
    Echo(&'m [u8]),
    /// Of [`PacketKind::ActuatorCommand`].
    ActuatorCommand(ActuatorCommand),
    /// Of [`PacketKind::ActuatorFeedback`].
    ActuatorFeedback(ActuatorFeedback),
    /// Of [`PacketKind::IoCommand`].
    IoCommand(IoCommand),
    /// Of [`PacketKind::IoFeedback`].
    IoFeedback(IoFeedback),
}

impl<'m> PacketBody<'m> {
    fn decode(kind: PacketKind, bytes: &'m [u8]) -> Result<Self, PacketError> {
        let fields = Fields(bytes);
        Ok(match kind {
            PacketKind::EchoRequest | PacketKind::EchoAnswer => Self::Echo(bytes),
            PacketKind::ActuatorCommand => Self::ActuatorCommand(ActuatorCommand::decode(fields)?),
            PacketKind::ActuatorFeedback => {
                Self::ActuatorFeedback(ActuatorFeedback::decode(fields)?)
            }
            PacketKind::IoCommand => Self::IoCommand(IoCommand::decode(fields)),
            PacketKind::IoFeedback => Self::IoFeedback(IoFeedback::decode(fields)),
        })
    }

    /// Writes the body to bytes of its kind's length; bytes of an echo up to the shorter one.
    pub fn write(&self, bytes: &mut [u8]) {
        let mut into = Writing { bytes, at: 0 };
        match self {
            Self::Echo(from) => into.put(from),
            Self::ActuatorCommand(body) => body.write(&mut into),
            Self::ActuatorFeedback(body) => body.write(&mut into),
            Self::IoCommand(body) => body.write(&mut into),
            Self::IoFeedback(body) => body.write(&mut into),
        }
    }
}

/// What an actuator's local loop controls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum ActuatorMode {
    /// Nothing: no torque.
    #[default]
    Off = 0,
    /// Position, with a velocity and torque to go with it.
    Position = 1,
    /// Velocity.
    Velocity = 2,
    /// Torque.
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
    fn decode(fields: Fields<'_>) -> Result<Self, PacketError> {
        Ok(Self {
            mode: ActuatorMode::from_number(fields.0[0])?,
            position_rad: fields.f64(8),
            velocity_rad_s: fields.f32(16),
            torque_nm: fields.f32(20),
            most_velocity_rad_s: fields.f32(24),
            most_torque_nm: fields.f32(28),
        })
    }

    fn write(&self, into: &mut Writing<'_>) {
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
    /// Position, in rad.
    pub position_rad: f64,
    /// Target of the local loop, in rad.
    pub target_rad: f64,
    /// Velocity, in rad/s.
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
    fn decode(fields: Fields<'_>) -> Result<Self, PacketError> {
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

    fn write(&self, into: &mut Writing<'_>) {
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
    fn decode(fields: Fields<'_>) -> Self {
        Self {
            digital_mask: fields.u32(0),
            digital: fields.u32(4),
            pwm_mask: fields.u32(8),
            pwm: fields.f32s(16),
        }
    }

    fn write(&self, into: &mut Writing<'_>) {
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
    fn decode(fields: Fields<'_>) -> Self {
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

    fn write(&self, into: &mut Writing<'_>) {
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

/// Little-endian numbers at offsets; the length was checked.
#[derive(Clone, Copy)]
struct Fields<'m>(&'m [u8]);

impl Fields<'_> {
    fn array<const N: usize>(self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.0[at..at + N]);
        bytes
    }

    fn u16(self, at: usize) -> u16 {
        u16::from_le_bytes(self.array(at))
    }

    fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    fn u64(self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }

    fn f32(self, at: usize) -> f32 {
        f32::from_le_bytes(self.array(at))
    }

    fn f32s<const N: usize>(self, at: usize) -> [f32; N] {
        std::array::from_fn(|place| self.f32(at + 4 * place))
    }

    fn f64(self, at: usize) -> f64 {
        f64::from_le_bytes(self.array(at))
    }
}

/// Bytes written one after another, up to the end.
struct Writing<'m> {
    bytes: &'m mut [u8],
    at: usize,
}

impl Writing<'_> {
    fn put(&mut self, from: &[u8]) {
        let room = &mut self.bytes[self.at..];
        let length = from.len().min(room.len());
        room[..length].copy_from_slice(&from[..length]);
        self.at += length;
    }

    fn f32s(&mut self, values: &[f32]) {
        for value in values {
            self.put(&value.to_le_bytes());
        }
    }
}

impl fmt::Display for PacketKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EchoRequest => "echo request",
            Self::EchoAnswer => "echo answer",
            Self::ActuatorCommand => "actuator command",
            Self::ActuatorFeedback => "actuator feedback",
            Self::IoCommand => "I/O command",
            Self::IoFeedback => "I/O feedback",
        })
    }
}
