//! Devices whose echoes the kernel answers, as a microcontroller would: without a thread to wake.
//!
//! A program on an interface turns an echo request into its answer where the frame lies and sends it
//! back (`XDP_TX`). Everything else passes on to the devices' sockets: other kinds of packets,
//! addresses that are not allowed, silences, invalid packets, IP options and fragments. So
//! [`super::device::Devices`] decide and count what they do without it.
//!
//! Absent on purpose: IPv6, and the UDP checksum: answers have none (RFC 768 allows 0 over IPv4),
//! those of requests are left to the network card.

use std::net::{IpAddr, Ipv4Addr};

use super::device::{DeviceOptions, Silence};
use super::packet::{MAGIC, PacketKind, VERSION};
use aya::maps::{Array, MapData};
use onbeat_cause::programs::{ECHO, LoadedObject, ObjectError, ObjectSetting};

/// Why the kernel does not answer.
#[derive(Debug, thiserror::Error)]
pub enum KernelDeviceError {
    /// Each frame is compared with one address.
    #[error(
        "--in-kernel answers at one IPv4 address, not at {bind}; give that of {interface} with --bind"
    )]
    Address {
        /// As typed.
        bind: IpAddr,
        interface: String,
    },
    /// No interface of this name exists.
    #[error("no interface {interface} here: {source}; `ip link` lists them")]
    Interface {
        /// As typed.
        interface: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The program reads numbers of the wire format as they are.
    #[error("--in-kernel takes a little-endian machine")]
    ByteOrder,
    /// The kernel refuses map or program.
    #[error(
        "the kernel does not take the program for {interface}: {source}; it takes root (or CAP_BPF and CAP_NET_ADMIN), \
         Linux 5.12, and no other XDP program there; without --in-kernel a thread answers"
    )]
    Program {
        interface: String,
        /// Why.
        source: Box<ObjectError>,
    },
}

/// A program that answers echoes at an interface until it is dropped, or the process ends.
pub struct KernelDevices {
    /// The program's count of its answers.
    answered: Array<MapData, u64>,
    _program: LoadedObject,
}

impl KernelDevices {
    /// Attaches the program to an interface of the calling thread's network namespace. The devices'
    /// sockets must be open: the program answers no more than they would.
    ///
    /// # Errors
    /// [`KernelDeviceError`].
    pub fn attach(options: &DeviceOptions, interface: &str) -> Result<Self, KernelDeviceError> {
        let named = || interface.to_owned();
        let bind = match options.bind.to_canonical() {
            IpAddr::V4(bind) if !bind.is_unspecified() && !bind.is_multicast() => bind,
            _ => return Err(KernelDeviceError::Address { bind: options.bind, interface: named() }),
        };
        if cfg!(target_endian = "big") {
            return Err(KernelDeviceError::ByteOrder);
        }

        let index = interface_index(interface)
            .map_err(|source| KernelDeviceError::Interface { interface: named(), source })?;
        let refused = |why: ObjectError| KernelDeviceError::Program {
            interface: named(),
            source: Box::new(why),
        };
        let mut program = load(options, bind).map_err(refused)?;
        // A virtual cable takes frames back in its driver only when its other end runs a program.
        let has_hardware =
            std::fs::exists(format!("/sys/class/net/{interface}/device")).unwrap_or(false);
        let in_driver = has_hardware && program.attach_to_frames("echo", index, true).is_ok();
        if !in_driver {
            program.attach_to_frames("echo", index, false).map_err(refused)?;
        }
        let answered = program.array("answers").map_err(refused)?;
        Ok(Self { answered, _program: program })
    }

    /// Returns the number of requests that the kernel answered so far.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.answered.get(&0, 0).unwrap_or(0)
    }
}

fn interface_index(name: &str) -> std::io::Result<u32> {
    use rustix::net::{AddressFamily, SocketType, netdevice::name_to_index, socket};
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    Ok(name_to_index(&socket, name)?)
}

/// Fits the program to the devices.
fn load(options: &DeviceOptions, bind: Ipv4Addr) -> Result<LoadedObject, ObjectError> {
    let network = |address: Ipv4Addr| u32::from_ne_bytes(address.octets());
    let ranges = options.allow.iter().filter_map(|range| range.ipv4());
    let ranges: Vec<[u32; 2]> =
        ranges.map(|(first, mask)| [network(first), network(mask)]).collect();
    let first_port = u32::from(options.first_port);
    let silence = |of: &Silence| [of.from, of.to, u64::from(first_port) + u64::from(of.device)];
    let silences: Vec<[u64; 3]> = options.silences.iter().map(silence).collect();

    let constants = [
        ("bind_address", network(bind)),
        ("first_port", first_port),
        ("last_port", first_port + u32::from(options.count) - 1),
        ("magic", u32::from_ne_bytes(MAGIC)),
        ("version", u32::from(VERSION)),
        ("request", PacketKind::EchoRequest as u32),
        ("answer", PacketKind::EchoAnswer as u32),
        ("range_count", ranges.len() as u32),
        ("silence_count", silences.len() as u32),
    ];
    let entries =
        [("ranges", ranges.len().max(1) as u32), ("silences", silences.len().max(1) as u32)];
    let mut program =
        LoadedObject::load(ECHO, &ObjectSetting { constants: &constants, entries: &entries })?;
    program.fill("ranges", &ranges)?;
    program.fill("silences", &silences)?;
    Ok(program)
}
