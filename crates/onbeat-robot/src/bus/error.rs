//! Why a bus does not come up.

use onbeat_control::SdoFailure;
use onbeat_ethercat::carrier::CarrierError;

/// Why a bus does not come up, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The interface.
    #[error(transparent)]
    Wire(#[from] CarrierError),
    /// No frame comes back, or no device counts it.
    #[error(
        "no SubDevice answers on {0}: no frame came back, or it passed no device; check that the first device has power, and the cable to \
         its IN port"
    )]
    NoDevices(String),
    /// Fewer or more devices than the file lists.
    #[error(
        "the file lists {expected} SubDevices and {found} answer; the first one missing would be \"{first}\": check its cable and power"
    )]
    Fewer {
        /// From the file.
        expected: usize,
        /// That answer.
        found: usize,
        /// Name of the first that cannot be there.
        first: String,
    },
    /// More devices than the file lists.
    #[error(
        "the file lists {expected} SubDevices and {found} answer; add the others to it, or take them off the cable"
    )]
    More {
        /// From the file.
        expected: usize,
        /// That answer.
        found: usize,
    },
    /// Another device than the file says; nothing is enabled.
    #[error(
        "at place {place} the file has \"{name}\" (vendor {:#010x}, product {:#010x}) and there is vendor {:#010x}, product {:#010x}; nothing \
         was enabled: exchange the device, or correct the file",
        expected.0, expected.1, found.0, found.1
    )]
    WrongDevice {
        /// On the cable, from 0.
        place: usize,
        /// From the file.
        name: String,
        /// Vendor and product of the file.
        expected: (u32, u32),
        /// Vendor and product of the device.
        found: (u32, u32),
    },
    /// A device with another serial number or alias than the file says; nothing is enabled.
    #[error(
        "at place {place} the file has \"{name}\" with {what} {expected} and there is one with {what} {found}; nothing was enabled: put the \
         devices in the order of the file, or correct the file"
    )]
    OtherNumber {
        /// On the cable, from 0.
        place: usize,
        /// From the file.
        name: String,
        /// Serial number or alias.
        what: &'static str,
        /// Of the file.
        expected: u32,
        /// Of the device.
        found: u32,
    },
    /// A device is no longer where it was found; nothing is enabled.
    #[error(
        "\"{name}\" is no longer at place {place} of the cable, where it was found: devices were exchanged, added or taken away, or another \
         MainDevice is on the cable, while they were configured; nothing was enabled: try again when nobody works on it"
    )]
    Moved {
        /// On the cable, from 0.
        place: usize,
        /// From the file, or of the device.
        name: String,
    },
    /// A device maps other process data than the file says; nothing is enabled.
    #[error(
        "\"{name}\" maps {} bytes of outputs and {} of inputs where the file has {} and {}; nothing was enabled: correct its mapping or the \
         file",
        found.0, found.1, expected.0, expected.1
    )]
    OtherProcessData {
        /// From the file.
        name: String,
        /// Output and input bytes of the file.
        expected: (usize, usize),
        /// Output and input bytes of the device.
        found: (usize, usize),
    },
    /// A device does not take a start-up value of the file; nothing is enabled.
    #[error(
        "\"{name}\" does not take the start-up value of object {index:#06x}:{entry:x}: {why}; nothing was enabled: correct the file"
    )]
    StartupRefused {
        /// From the file.
        name: String,
        /// The object.
        index: u16,
        /// Its entry.
        entry: u8,
        /// What the device says.
        why: SdoFailure,
    },
    /// A device falls out of PREOP while it is configured; nothing is enabled.
    #[error(
        "\"{name}\" left PREOP while it was told its start-up values, AL status code {code:#06x}; nothing was enabled"
    )]
    FellInPreop {
        /// From the file.
        name: String,
        /// AL status code.
        code: u16,
    },
    /// SYNC0 of a device without a clock; nothing is enabled.
    #[error(
        "\"{0}\" is to have `sync0` and has no distributed clock; nothing was enabled: take `sync0` out of the file"
    )]
    NoClock(String),
    /// A period of SYNC0 that does not go with the bus's; nothing is enabled.
    #[error(
        "SYNC0 of \"{name}\" is to come every {pulse_ns} ns, which neither divides the bus's period of {bus_ns} ns nor is a multiple of \
         it; nothing was enabled: change `period_us` of its `sync0`, or the period of the bus"
    )]
    OddPulses {
        /// From the file.
        name: String,
        /// From one pulse to the next.
        pulse_ns: u64,
        /// From one cycle to the next.
        bus_ns: u64,
    },
    /// A clock that does not follow the reference; nothing is enabled.
    #[error(
        "the clock of \"{0}\" does not get within 1 us of the reference clock, and SYNC0 wants that; nothing was enabled: check the cables \
         before it"
    )]
    NotInStep(String),
    /// The library that configures devices gave up.
    #[error("the devices could not be configured: {what}; {frames} frames were sent, {again} of them again")]
    Library {
        /// What it said.
        what: String,
        /// Frames sent.
        frames: u64,
        /// Frames sent again because no reply came.
        again: u64,
    },
    /// The library that configures devices needs a thread, and none can be started.
    #[error(
        "cannot start a thread for the library that configures devices: {0}; the limit of threads (ulimit -u) may be reached"
    )]
    Thread(std::io::Error),
    /// The library that configures devices panicked, with these words: a bug in it.
    #[error(
        "the library that configures devices failed by an error of its own, and again on the second try; check cables and \
         power of the devices, and that nothing else uses the interface"
    )]
    Panicked(String),
    /// Frames of the cycle are longer than the interface sends.
    #[error(
        "the bus's frames have {frame} bytes and \"{on}\" sends {most} at most; no drive was enabled: set its MTU with `ip link set {on} mtu \
         1500`"
    )]
    Mtu {
        /// The wire.
        on: String,
        /// Bytes of the longest frame.
        frame: usize,
        /// Bytes that fit.
        most: usize,
    },
    /// A scan of a bus that another process runs.
    #[error("{0}")]
    Running(super::scan::Beside),
    /// Frames stopped coming back.
    #[error(
        "a frame was sent {0} times and never came back; check cables and power, and that nothing else uses the interface"
    )]
    NoAnswer(u32),
    /// Too many devices, or too much process data.
    #[error("{0} SubDevices are more than the {most} that one bus can have here", most = super::MOST_DEVICES)]
    TooMany(usize),
    /// Devices did not get to OP.
    #[error("{missing} of {devices} SubDevices did not reach OP within {seconds} s: {first}")]
    NotInOp {
        /// Not in OP.
        missing: usize,
        /// All.
        devices: usize,
        /// Waited.
        seconds: f64,
        /// The first of them, with its AL status code in words.
        first: String,
    },
}
