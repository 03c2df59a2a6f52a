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
use onbeat_cause::assembler::{
    Assembler, FRAME, JumpTarget, KernelCall, R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, Width,
};
use onbeat_cause::bpf::{AttachPoint, AttachedProgram, BpfArray};

/// Places in a frame: Ethernet header, IPv4 header of 20 bytes, UDP header, message.
const ETHERTYPE: i16 = 12;
const IP_VERSION: i16 = 14;
const IP_FRAGMENT: i16 = 20;
const IP_PROTOCOL: i16 = 23;
const IP_FROM: i16 = 26;
const IP_TO: i16 = 30;
const PORT_FROM: i16 = 34;
const PORT_TO: i16 = 36;
const UDP_LENGTH: i16 = 38;
const UDP_CHECKSUM: i16 = 40;
const MESSAGE: i16 = 42;
/// Places in a message (docs/net.md).
const MESSAGE_VERSION: i16 = MESSAGE + 4;
const MESSAGE_KIND: i16 = MESSAGE + 5;
const SEQUENCE: i16 = MESSAGE + 8;
const RECEIVED: i16 = MESSAGE + 24;
const ANSWERED: i16 = MESSAGE + 32;
const STATED_LENGTH: i16 = MESSAGE + 48;
const LEAST_FRAME: i32 = 42 + super::packet::HEADER_BYTES as i32;

/// Without options: version 4, five words.
const PLAIN_IPV4: i32 = 0x45;
const UDP: i32 = 17;
const UDP_HEADER: i32 = 8;
/// Verdicts of a program (`enum xdp_action`).
const PASS: i32 = 2;
const SEND_BACK: i32 = 3;

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
        /// The interface.
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
        /// The interface.
        interface: String,
        /// The system's answer.
        source: std::io::Error,
    },
}

/// A program that answers echoes at an interface until it is dropped, or the process ends.
#[derive(Debug)]
pub struct KernelDevices {
    answered: BpfArray,
    _program: AttachedProgram,
    in_driver: bool,
}

impl KernelDevices {
    /// Attaches the program to an interface of the calling thread's network namespace. The devices'
    /// sockets must be open: the program answers no more than they would.
    ///
    /// # Errors
    /// [`KernelDeviceError`].
    pub fn attach(options: &DeviceOptions, interface: &str) -> Result<Self, KernelDeviceError> {
        let named = || interface.to_owned();
        let IpAddr::V4(bind) = options.bind.to_canonical() else {
            return Err(KernelDeviceError::Address { bind: options.bind, interface: named() });
        };
        if bind.is_unspecified() || bind.is_multicast() {
            return Err(KernelDeviceError::Address { bind: options.bind, interface: named() });
        }
        if cfg!(target_endian = "big") {
            return Err(KernelDeviceError::ByteOrder);
        }

        let index = interface_index(interface)
            .map_err(|source| KernelDeviceError::Interface { interface: named(), source })?;
        let refused = |source| KernelDeviceError::Program { interface: named(), source };
        let answered = BpfArray::create(8, 1).map_err(refused)?;
        let code = EchoProgram { options, bind, answered: answered.number() }.assemble();
        let attach = |in_driver| {
            AttachedProgram::load(&code, AttachPoint::Frames { interface: index, in_driver })
        };
        // A virtual cable takes frames back in its driver only when its other end runs a program.
        let has_hardware =
            std::fs::exists(format!("/sys/class/net/{interface}/device")).unwrap_or(false);
        let attached = if has_hardware { attach(true).ok() } else { None };
        let in_driver = attached.is_some();
        let program = attached.map_or_else(|| attach(false), Ok).map_err(refused)?;
        Ok(Self { answered, _program: program, in_driver })
    }

    /// Returns the number of requests that the kernel answered so far.
    #[must_use]
    pub fn answered(&self) -> u64 {
        let mut value = Vec::new();
        let read = self.answered.read(&mut value).is_ok();
        let bytes = value.first_chunk::<8>().filter(|_| read);
        bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }

    /// Returns whether the driver runs the program, before the kernel's network stack.
    #[must_use]
    pub const fn is_in_driver(&self) -> bool {
        self.in_driver
    }
}

fn interface_index(name: &str) -> std::io::Result<u32> {
    use rustix::net::{AddressFamily, SocketType, netdevice::name_to_index, socket};
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    Ok(name_to_index(&socket, name)?)
}

/// What the program is made for.
struct EchoProgram<'o> {
    options: &'o DeviceOptions,
    bind: Ipv4Addr,
    /// Descriptor of the map with the number of answers.
    answered: i32,
}

impl EchoProgram<'_> {
    /// R6: context; R7 and R8: begin and end of the frame; R9: the device's port.
    fn assemble(&self) -> Vec<u64> {
        let mut code = Assembler::default();
        let pass = code.new_target();

        code.copy(R6, R1);
        code.load(Width::Word, R7, R6, 0);
        code.load(Width::Word, R8, R6, 4);
        code.copy(R2, R7);
        code.add(R2, LEAST_FRAME);
        code.jump_if_less(R8, R2, pass);

        self.check_frame(&mut code, pass);
        self.check_message(&mut code, pass);
        self.check_sender(&mut code, pass);
        for silence in &self.options.silences {
            self.check_silence(&mut code, *silence, pass);
        }
        self.answer(&mut code);

        code.bind(pass);
        code.exit_with(PASS);
        code.finish()
    }

    /// A whole UDP datagram over IPv4 to one of the devices.
    fn check_frame(&self, code: &mut Assembler, pass: JumpTarget) {
        let network = |number: u16| i32::from(u16::from_ne_bytes(number.to_be_bytes()));
        code.load(Width::Half, R2, R7, ETHERTYPE);
        code.jump_if_not(R2, network(0x0800), pass);
        code.load(Width::Byte, R2, R7, IP_VERSION);
        code.jump_if_not(R2, PLAIN_IPV4, pass);
        // More fragments, or a place other than the first.
        code.load(Width::Half, R2, R7, IP_FRAGMENT);
        code.and(R2, network(0x3fff));
        code.jump_if_not(R2, 0, pass);
        code.load(Width::Byte, R2, R7, IP_PROTOCOL);
        code.jump_if_not(R2, UDP, pass);
        code.load(Width::Word, R2, R7, IP_TO);
        code.jump_if_word_not(R2, u32::from_ne_bytes(self.bind.octets()), pass);

        let first = i32::from(self.options.first_port);
        let last = first + i32::from(self.options.count) - 1;
        let is_ours = code.new_target();
        code.load(Width::Half, R9, R7, PORT_TO);
        code.read_network_order(R9);
        code.jump_if_at_most(R9, first - 1, pass);
        code.jump_if_at_most(R9, last, is_ours);
        code.jump(pass);
        code.bind(is_ours);
    }

    /// An echo request of this version, as long as it states.
    fn check_message(&self, code: &mut Assembler, pass: JumpTarget) {
        code.load(Width::Word, R2, R7, MESSAGE);
        code.jump_if_word_not(R2, u32::from_ne_bytes(MAGIC), pass);
        code.load(Width::Byte, R2, R7, MESSAGE_VERSION);
        code.jump_if_not(R2, i32::from(VERSION), pass);
        code.load(Width::Byte, R2, R7, MESSAGE_KIND);
        code.jump_if_not(R2, PacketKind::EchoRequest as i32, pass);
        code.load(Width::Half, R2, R7, UDP_LENGTH);
        code.read_network_order(R2);
        code.add(R2, -UDP_HEADER);
        code.load(Width::Half, R3, R7, STATED_LENGTH);
        code.jump_if_different(R2, R3, pass);
    }

    fn check_sender(&self, code: &mut Assembler, pass: JumpTarget) {
        let is_allowed = code.new_target();
        code.load(Width::Word, R2, R7, IP_FROM);
        for (first, mask) in self.options.allow.iter().filter_map(|range| range.ipv4()) {
            code.copy(R3, R2);
            code.and(R3, i32::from_ne_bytes(mask.octets()));
            code.jump_if_word(R3, u32::from_ne_bytes(first.octets()), is_allowed);
        }
        code.jump(pass);
        code.bind(is_allowed);
    }

    /// The sockets leave unanswered what is to be silent, and count it.
    fn check_silence(&self, code: &mut Assembler, silence: Silence, pass: JumpTarget) {
        let is_over = code.new_target();
        let port = i32::from(self.options.first_port) + i32::from(silence.device);
        code.jump_if_not(R9, port, is_over);
        code.load(Width::Double, R2, R7, SEQUENCE);
        code.set_double(R3, silence.from);
        code.jump_if_less(R2, R3, is_over);
        code.set_double(R3, silence.to);
        code.jump_if_less(R2, R3, pass);
        code.bind(is_over);
    }

    /// Changes the frame into its answer, counts it, and sends it back.
    fn answer(&self, code: &mut Assembler) {
        code.call(KernelCall::KtimeNs);
        code.store(Width::Double, R7, RECEIVED, R0);

        // Hardware addresses, of 4 and 2 bytes; then addresses and ports. The IP header's checksum
        // is the same in any order.
        let swapped = [
            (Width::Word, 0, 6),
            (Width::Half, 4, 10),
            (Width::Word, IP_FROM, IP_TO),
            (Width::Half, PORT_FROM, PORT_TO),
        ];
        for (width, one, other) in swapped {
            code.load(width, R4, R7, one);
            code.load(width, R5, R7, other);
            code.store(width, R7, one, R5);
            code.store(width, R7, other, R4);
        }
        code.store_zero(Width::Half, R7, UDP_CHECKSUM);
        code.store_number(Width::Byte, R7, MESSAGE_KIND, PacketKind::EchoAnswer as i32);

        let is_counted = code.new_target();
        code.store_zero(Width::Word, FRAME, -4);
        code.copy(R2, FRAME);
        code.add(R2, -4);
        code.map(R1, self.answered);
        code.call(KernelCall::MapLookup);
        code.jump_if_zero(R0, is_counted);
        code.set(R1, 1);
        code.fetch_add(R0, R1);
        code.bind(is_counted);

        code.call(KernelCall::KtimeNs);
        code.store(Width::Double, R7, ANSWERED, R0);
        code.exit_with(SEND_BACK);
    }
}
