//! Errors of a bus.

use std::fmt;

use super::addresses::MOST_DEVICES;
use onbeat_control::RequestFailure;
use onbeat_ethercat::carrier::{CarrierError, User};
use onbeat_ethercat::{al, al_codes};

/// Time to listen for frames of a running bus before sending, in ns.
// Two hundred cycles of 1 ms: a MainDevice with a cycle below 0.2 s is heard.
pub(super) const LISTEN_NS: u64 = 200_000_000;

/// Reasons why a bus does not come up, or cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The interface failed.
    #[error(transparent)]
    Wire(#[from] CarrierError),
    /// No frame comes back, or no device processes it.
    #[error(
        "no SubDevice answers on {0}: no frame came back, or no device processed it; check the power of the first device, and the cable to \
         its IN port"
    )]
    NoDevices(String),
    /// Fewer devices answer than the file lists.
    #[error(
        "the file lists {expected} SubDevices and {found} answer; the first missing one is \"{first}\": check its cable and power"
    )]
    Fewer {
        /// Number of devices in the file.
        expected: usize,
        /// Number of devices that answer.
        found: usize,
        /// Name of the first missing device.
        first: String,
    },
    /// More devices answer than the file lists.
    #[error(
        "the file lists {expected} SubDevices and {found} answer; add the others to the file, or disconnect them"
    )]
    More {
        /// Number of devices in the file.
        expected: usize,
        /// Number of devices that answer.
        found: usize,
    },
    /// A device differs from the file; nothing was enabled.
    #[error(
        "at place {place} the file has \"{name}\" (vendor {:#010x}, product {:#010x}), the device has vendor {:#010x}, product {:#010x}; nothing \
         was enabled: replace the device, or correct the file",
        expected.0, expected.1, found.0, found.1
    )]
    WrongDevice {
        /// Position on the cable, from 0.
        place: usize,
        /// Name in the file.
        name: String,
        /// Vendor and product in the file.
        expected: (u32, u32),
        /// Vendor and product of the device.
        found: (u32, u32),
    },
    /// Serial number or alias of a device differs from the file; nothing was enabled.
    #[error(
        "at place {place} the file has \"{name}\" with {what} {expected}, the device has {what} {found}; nothing was enabled: connect the \
         devices in the order of the file, or correct the file"
    )]
    OtherNumber {
        /// Position on the cable, from 0.
        place: usize,
        /// Name in the file.
        name: String,
        /// Serial number or alias.
        what: &'static str,
        /// Value in the file.
        expected: u32,
        /// Value of the device.
        found: u32,
    },
    /// A device moved while it was configured; nothing was enabled.
    #[error(
        "\"{name}\" moved from place {place} of the cable during configuration: devices were exchanged, added or removed, or another \
         MainDevice is on the cable; nothing was enabled: try again without changes of the cable"
    )]
    Moved {
        /// Position on the cable, from 0.
        place: usize,
        /// Name in the file, or of the device.
        name: String,
    },
    /// Process data of a device differ from the file; nothing was enabled.
    #[error(
        "\"{name}\" maps {} bytes of outputs and {} of inputs where the file has {} and {}; nothing was enabled: correct its mapping or the \
         file",
        found.0, found.1, expected.0, expected.1
    )]
    OtherProcessData {
        /// Name in the file.
        name: String,
        /// Output and input bytes in the file.
        expected: (usize, usize),
        /// Output and input bytes of the device.
        found: (usize, usize),
    },
    /// A device has another object in a place of its process data; nothing was enabled.
    #[error(
        "\"{name}\" maps {found} at bit {bit} of its {side} where the file has {expected}; nothing was enabled: correct its mapping or the \
         file"
    )]
    OtherObject {
        /// Name in the file.
        name: String,
        /// `outputs` or `inputs`.
        side: &'static str,
        /// Bit in the outputs or inputs of the device.
        bit: usize,
        /// What the device maps there.
        found: String,
        /// What the file has there.
        expected: String,
    },
    /// A device refused a start-up value; nothing was enabled.
    #[error(
        "\"{name}\" refused the start-up value of object {index:#06x}:{entry:x}: {why}; nothing was enabled: correct the file"
    )]
    StartupRefused {
        /// Name in the file.
        name: String,
        /// Index of the object.
        index: u16,
        /// Subindex.
        entry: u8,
        /// Reason given by the device.
        why: RequestFailure,
    },
    /// A device left PREOP during configuration; nothing was enabled.
    #[error(
        "{name}: it left PREOP during configuration ({}); nothing was enabled: {}",
        al_codes::words(*.code),
        al_codes::remedy(*.code)
    )]
    FellInPreop {
        /// Name in the file.
        name: String,
        /// AL status code.
        code: u16,
    },
    /// SYNC0 was configured for a device without a distributed clock; nothing was enabled.
    #[error(
        "\"{0}\" has no distributed clock for its `sync0`; nothing was enabled: remove `sync0` from the file"
    )]
    NoClock(String),
    /// The periods of SYNC0 and bus are not multiples of each other; nothing was enabled.
    #[error(
        "SYNC0 of \"{name}\" has a period of {pulse_ns} ns, which neither divides the bus period of {bus_ns} ns nor is a multiple of \
         it; nothing was enabled: change `period_us` of its `sync0`, or the period of the bus"
    )]
    OddPulses {
        /// Name in the file.
        name: String,
        /// Period of SYNC0, in ns.
        pulse_ns: u64,
        /// Period of the bus, in ns.
        bus_ns: u64,
    },
    /// A clock does not synchronise with the reference; nothing was enabled.
    #[error(
        "the clock of \"{0}\" does not synchronise to within 1 us of the reference clock, as SYNC0 requires; nothing was enabled: check the cables \
         before it"
    )]
    NotInStep(String),
    /// A device cannot be configured; nothing was enabled.
    #[error("{name}: {} ({at}); nothing was enabled: {}", .trouble.what(), .trouble.remedy())]
    Unready {
        /// Position on the cable, from 0.
        place: u16,
        /// Name in the file, or its position.
        name: String,
        /// Where it is on the cable.
        at: String,
        /// What it does not do, and what to do.
        trouble: Unready,
        /// Number of frames sent until then.
        frames: u64,
    },
    /// ethercrab reported an error.
    #[error(
        "ethercrab cannot configure the devices: {what}; {frames} frames sent, {again} of them repeated; check cables and power of the devices"
    )]
    Library {
        /// Its message.
        what: String,
        /// Number of frames sent.
        frames: u64,
        /// Number of frames sent again without a reply.
        again: u64,
    },
    /// ethercrab needs a thread, and none can be started.
    #[error("cannot start a thread for ethercrab: {0}; check the limit of threads (ulimit -u)")]
    Thread(std::io::Error),
    /// ethercrab panicked with this message.
    #[error(
        "ethercrab panicked in each attempt to configure the devices; check cables and power of the devices, and that no other \
         program uses the interface"
    )]
    Panicked(String),
    /// A cyclic frame exceeds the MTU of the interface.
    #[error(
        "the frames of the bus have {frame} bytes, \"{on}\" sends at most {most}; nothing was enabled: set its MTU with `ip link set {on} mtu \
         1500`"
    )]
    Mtu {
        /// Name of the wire.
        on: String,
        /// Length of the longest frame, in bytes.
        frame: usize,
        /// Maximum frame length, in bytes.
        most: usize,
    },
    /// A scan found a running bus.
    #[error("{0}")]
    Running(RunningBus),
    /// A bus of onbeat runs on an interface that a command wants for itself.
    #[error("{}; nothing was sent: stop it, or use what it permits: onbeat bus sdo, onbeat bus register", .0.subject())]
    RunningLine(RunningBus),
    /// Frames are not answered any more.
    #[error(
        "a frame was sent {0} times without a reply; check cables and power, and that no other program uses the interface"
    )]
    NoAnswer(u32),
    /// More devices than one bus supports.
    #[error("{0} SubDevices answer, one bus supports at most {most}; divide them between interfaces", most = MOST_DEVICES)]
    TooMany(usize),
    /// Devices did not reach OP in time.
    #[error("{missing} of {devices} SubDevices did not reach OP within {seconds} s: {first}")]
    NotInOp {
        /// Number of devices not in OP.
        missing: usize,
        /// Number of devices.
        devices: usize,
        /// Time waited, in s.
        seconds: f64,
        /// The first of them, with its AL status code in words.
        first: String,
    },
}

/// Why a device cannot be configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unready {
    /// The EEPROM interface does not end a read.
    EepromBusy,
    /// The EEPROM has no contents.
    EepromBlank,
    /// The checksum of the EEPROM's configuration area is wrong.
    EepromChecksum,
    /// No response to mails.
    MuteMailbox,
    /// Process data of one direction in areas that do not follow each other.
    SplitAreas {
        /// Number of FMMUs of the device.
        fmmus: u16,
    },
    /// A register write is not taken.
    Untaken {
        /// The register.
        register: u16,
    },
    /// A state is refused.
    Refused {
        /// The AL state.
        state: u8,
        /// AL status code.
        code: u16,
    },
    /// A state is not reached in time.
    Late {
        /// The AL state.
        state: u8,
        /// AL status after that time.
        status: u16,
    },
    /// No explicit device ID is reported.
    NoDeviceId,
    /// The plugged modules are not those of the file.
    Modules {
        /// Slot, from 0.
        slot: u16,
        /// Ident in the file, 0 for an empty slot.
        expected: u32,
        /// Ident of the plugged module, 0 for none.
        found: u32,
    },
}

impl Unready {
    /// Returns what the device does or does not do, without its name.
    #[must_use]
    pub fn what(self) -> String {
        let state = |state: u16| al::name(state & 0x0f).unwrap_or("an unknown AL state");
        match self {
            Self::EepromBusy => "its EEPROM stays busy for more than 1 s".to_owned(),
            Self::EepromBlank => "its EEPROM is blank, its vendor id reads 0xffffffff".to_owned(),
            Self::EepromChecksum => "its EEPROM has a wrong checksum in word 7".to_owned(),
            Self::MuteMailbox => {
                "its mailbox does not answer, 3 mails were sent in 1.5 s".to_owned()
            }
            Self::SplitAreas { fmmus } => format!(
                "its process data lie in separate areas of its memory, for which its {fmmus} FMMUs \
                 are too few"
            ),
            Self::Untaken { register } => {
                format!("it does not take a write to register {register:#06x}")
            }
            Self::Refused { state: wanted, code } => {
                format!("it refuses {} ({})", state(wanted.into()), al_codes::words(code))
            }
            Self::Late { state: wanted, status: 0 } => {
                format!("it stopped answering on its way to {}", state(wanted.into()))
            }
            Self::Late { state: wanted, status } => {
                format!("it stays in {} and does not reach {}", state(status), state(wanted.into()))
            }
            Self::NoDeviceId => {
                "it does not report a device ID in register 0x0134 on request".to_owned()
            }
            Self::Modules { slot, expected, found: 0 } => {
                format!("slot {slot} is empty where the file has module {expected:#x}")
            }
            Self::Modules { slot, expected: 0, found } => {
                format!("slot {slot} has module {found:#x} where the file has none")
            }
            Self::Modules { slot, expected, found } => {
                format!("slot {slot} has module {found:#x} where the file has {expected:#x}")
            }
        }
    }

    /// Returns what to do.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            Self::EepromBusy => {
                "switch the device off and on, and check that its firmware does not hold the EEPROM"
            }
            Self::EepromBlank => {
                "write the vendor's image to it (onbeat bus sii write), or replace the device"
            }
            Self::EepromChecksum => "write the vendor's image to it: onbeat bus sii write",
            Self::MuteMailbox | Self::Late { .. } => {
                "switch the device off and on, and check its firmware"
            }
            Self::SplitAreas { .. } => "choose PDOs of one SyncManager by `pdos`",
            Self::Untaken { .. } => "switch the device off and on, and check the cable before it",
            Self::Refused { code, .. } => al_codes::remedy(code),
            Self::NoDeviceId => {
                "set its switch, or identify it by its alias or serial number in the file"
            }
            Self::Modules { .. } => "plug the modules of the file, or correct its slots",
        }
    }
}

/// A bus that is running already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunningBus {
    /// A bus of onbeat: interface and process.
    Onbeat(String, User),
    /// A bus of another program: interface, and number of frames received while nothing was sent.
    Foreign(String, u64),
}

impl RunningBus {
    /// Returns who runs it, as the begin of a sentence.
    #[must_use]
    pub fn subject(&self) -> String {
        match self {
            Self::Onbeat(on, user) => format!("onbeat is running a bus on \"{on}\": {user}"),
            Self::Foreign(on, frames) => format!(
                "another MainDevice is running on \"{on}\": {frames} of its frames were received within {} ms",
                LISTEN_NS / 1_000_000
            ),
        }
    }
}

impl fmt::Display for RunningBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; nothing was sent: use `--beside-running` to scan read-only", self.subject())
    }
}
