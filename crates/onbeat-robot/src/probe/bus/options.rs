//! Options of the bus probe, and what they say about the devices. The chain probe has some of them.

use std::path::Path;

use crate::probe::devices::WireKind;
use crate::probe::error::BusProbeError;
use onbeat::probe::description::{Given, OptionKind, ProbeError, ProbeOption};
use onbeat_ethercat::carrier::WireMethod;
use onbeat_segment::{Description, Segment};

/// Device file.
pub(in crate::probe) const DEVICES: ProbeOption = ProbeOption {
    name: "devices",
    help: "Device file (docs/segment.md), or `humanoid`, which ships with onbeat",
    default: Some("humanoid"),
    kind: OptionKind::Name,
};

/// Network interface of real devices.
pub(super) const INTERFACE: ProbeOption = ProbeOption {
    name: "interface",
    help: "Network interface with the devices [default: simulated devices]\n\
           The devices must match the file.",
    default: None,
    kind: OptionKind::Name,
};

/// Exchange mode.
pub(in crate::probe) const EXCHANGE: ProbeOption = ProbeOption {
    name: "exchange",
    help: "When replies are read\n\
           pipelined: send at once, read the reply in the next cycle; same-cycle: wait for the reply, then run \
           the controller.",
    default: Some("pipelined"),
    kind: OptionKind::Word(&["pipelined", "same-cycle"]),
};

/// Processing time of simulated devices.
pub(in crate::probe) const DEVICE_DELAY: ProbeOption = ProbeOption {
    name: "device-delay",
    help: "Processing time of simulated devices [default: `delay_us` of the file]\n\
           Devices apply outputs and update inputs this long after a frame, like devices with a \
           processor.",
    default: None,
    kind: OptionKind::Time,
};

/// Time to poll for a reply.
pub(in crate::probe) const SPIN: ProbeOption = ProbeOption {
    name: "spin",
    help: "Time to poll for a reply before sleeping\n\
           For same-cycle; no polling where replies never arrive in that time.",
    default: Some("100us"),
    kind: OptionKind::Time,
};

/// Transport of frames.
pub(in crate::probe) const WIRE: ProbeOption = ProbeOption {
    name: "wire",
    help: "Transport of frames\n\
           ring: a packet socket and its receive ring; xdp: AF_XDP, past the kernel's network stack, else ring; \
           busy-poll: AF_XDP that polls the card's queue, else xdp. \
           Simulated devices are behind a veth pair in a private network namespace; for them also socket: in this \
           process, without privileges. interfaces: as ring; any: ring, or the socket where it is not permitted.",
    default: Some("any"),
    kind: OptionKind::Word(&["any", "ring", "xdp", "busy-poll", "interfaces", "socket"]),
};

/// Returns the transport of frames, for the given interface or for simulated devices.
pub(super) fn wire_of(given: &Given) -> Result<WireKind, ProbeError> {
    match given.word(WIRE.name) {
        Some("socket") if given.has(INTERFACE.name) => {
            let why = "frames to real devices pass a network interface";
            Err(ProbeError::NoMeaning { option: "--wire socket", why })
        }
        Some("socket") => Ok(WireKind::Socket),
        Some("interfaces" | "ring") => Ok(WireKind::Interfaces(WireMethod::Ring)),
        Some("xdp") => Ok(WireKind::Interfaces(WireMethod::Xdp)),
        Some("busy-poll") => Ok(WireKind::Interfaces(WireMethod::BusyPoll)),
        _ => Ok(WireKind::Any),
    }
}

/// Clock that releases follow.
pub(in crate::probe) const CLOCK: ProbeOption = ProbeOption {
    name: "clock",
    help: "Clock that releases follow\n\
           reference: the reference clock of the segment; own: the clock of this computer.",
    default: Some("own"),
    kind: OptionKind::Word(&["own", "reference"]),
};

/// Name under which the process image is shared.
pub(super) const SERVE: ProbeOption = ProbeOption {
    name: "serve",
    help: "Share the process image under this name\n\
           For `onbeat bus state --name NAME`, and for a process that owns the outputs.",
    default: None,
    kind: OptionKind::Name,
};

/// Group that may use the process image.
pub(super) const GROUP: ProbeOption = ProbeOption {
    name: "group",
    help: "Let the members of this group use the process image\n\
           They read it, own the outputs and request transfers like the user who runs it. Default: that user and \
           root only.",
    default: None,
    kind: OptionKind::Name,
};

/// Protection of the shared process image.
pub(super) const SHARING: ProbeOption = ProbeOption {
    name: "sharing",
    help: "Protection of the shared process image\n\
           wait-free: no process waits; pi: a mutex with priority inheritance, as in the paper; plain: a mutex \
           without it.",
    default: Some("wait-free"),
    kind: OptionKind::Word(&["wait-free", "pi", "plain"]),
};

/// Reads the device description.
pub(in crate::probe) fn described(given: &Given) -> Result<Description, ProbeError> {
    let description = match given.name(DEVICES.name) {
        None | Some("humanoid") => Description::from_toml(Segment::HUMANOID),
        Some(path) => Description::from_file(Path::new(path)),
    };

    let description = description.map_err(BusProbeError::from)?;
    Ok(if given.has(DEVICE_DELAY.name) {
        description.with_device_delay(given.time_ns(DEVICE_DELAY.name))
    } else {
        description
    })
}

/// Reads the text of the robot file.
pub(in crate::probe) fn text_of(given: &Given) -> Result<String, ProbeError> {
    match given.name(DEVICES.name) {
        None | Some("humanoid") => Ok(Segment::HUMANOID.to_owned()),
        Some(path) => std::fs::read_to_string(path).map_err(|source| ProbeError::Open {
            place: path.to_owned(),
            what: "the robot file",
            source,
            hint: "",
        }),
    }
}

/// Returns whether a cycle waits for its own reply.
pub(in crate::probe) fn is_same_cycle(given: &Given) -> bool {
    given.word(EXCHANGE.name) == Some("same-cycle")
}
