//! Errors of a bus.

use onbeat_control::SdoFailure;
use onbeat_ethercat::carrier::CarrierError;

/// Reasons why a bus does not come up, or cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The interface failed.
    #[error(transparent)]
    Wire(#[from] CarrierError),
    /// No frame comes back, or no device processes it.
    #[error(
        "no SubDevice answers on {0}: no frame came back, or it passed no device; check that the first device has power, and the cable to \
         its IN port"
    )]
    NoDevices(String),
    /// Fewer devices answer than the file lists.
    #[error(
        "the file lists {expected} SubDevices and {found} answer; the first one missing would be \"{first}\": check its cable and power"
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
        "the file lists {expected} SubDevices and {found} answer; add the others to it, or take them off the cable"
    )]
    More {
        /// Number of devices in the file.
        expected: usize,
        /// Number of devices that answer.
        found: usize,
    },
    /// A device differs from the file; nothing was enabled.
    #[error(
        "at place {place} the file has \"{name}\" (vendor {:#010x}, product {:#010x}) and there is vendor {:#010x}, product {:#010x}; nothing \
         was enabled: exchange the device, or correct the file",
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
        "at place {place} the file has \"{name}\" with {what} {expected} and there is one with {what} {found}; nothing was enabled: put the \
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
        "\"{name}\" is no longer at place {place} of the cable, where it was found: devices were exchanged, added or taken away, or another \
         MainDevice is on the cable, while they were configured; nothing was enabled: try again when nobody works on it"
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
    /// A device refused a start-up value; nothing was enabled.
    #[error(
        "\"{name}\" does not take the start-up value of object {index:#06x}:{entry:x}: {why}; nothing was enabled: correct the file"
    )]
    StartupRefused {
        /// Name in the file.
        name: String,
        /// Index of the object.
        index: u16,
        /// Subindex.
        entry: u8,
        /// Reason given by the device.
        why: SdoFailure,
    },
    /// A device left PREOP during configuration; nothing was enabled.
    #[error(
        "\"{name}\" left PREOP while it was told its start-up values, AL status code {code:#06x}; nothing was enabled"
    )]
    FellInPreop {
        /// Name in the file.
        name: String,
        /// AL status code.
        code: u16,
    },
    /// SYNC0 was configured for a device without a distributed clock; nothing was enabled.
    #[error(
        "\"{0}\" is to have `sync0` and has no distributed clock; nothing was enabled: take `sync0` out of the file"
    )]
    NoClock(String),
    /// The periods of SYNC0 and bus are not multiples of each other; nothing was enabled.
    #[error(
        "SYNC0 of \"{name}\" is to come every {pulse_ns} ns, which neither divides the bus's period of {bus_ns} ns nor is a multiple of \
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
        "the clock of \"{0}\" does not get within 1 us of the reference clock, and SYNC0 wants that; nothing was enabled: check the cables \
         before it"
    )]
    NotInStep(String),
    /// ethercrab reported an error.
    #[error("the devices could not be configured: {what}; {frames} frames were sent, {again} of them again")]
    Library {
        /// Its message.
        what: String,
        /// Number of frames sent.
        frames: u64,
        /// Number of frames sent again without a reply.
        again: u64,
    },
    /// ethercrab needs a thread, and none can be started.
    #[error(
        "cannot start a thread for the library that configures devices: {0}; the limit of threads (ulimit -u) may be reached"
    )]
    Thread(std::io::Error),
    /// ethercrab panicked with this message.
    #[error(
        "the library that configures devices failed by an error of its own, and again on the second try; check cables and \
         power of the devices, and that nothing else uses the interface"
    )]
    Panicked(String),
    /// A cyclic frame exceeds the MTU of the interface.
    #[error(
        "the bus's frames have {frame} bytes and \"{on}\" sends {most} at most; no drive was enabled: set its MTU with `ip link set {on} mtu \
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
    Running(super::scan::RunningBus),
    /// Frames are not answered any more.
    #[error(
        "a frame was sent {0} times and never came back; check cables and power, and that nothing else uses the interface"
    )]
    NoAnswer(u32),
    /// More devices than one bus supports.
    #[error("{0} SubDevices are more than the {most} that one bus can have here", most = super::MOST_DEVICES)]
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
