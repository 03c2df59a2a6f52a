//! Requests to the kernel's routing netlink: interfaces, addresses, neighbours, queue disciplines.
//!
//! A laboratory of forty devices takes some five hundred of them; a process of `ip` for each would
//! take a hundred times as long.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

/// Numbers of linux/rtnetlink.h, linux/if_link.h, linux/pkt_sched.h and their kin.
mod number {
    pub(super) const NEW_LINK: u16 = 16;
    pub(super) const SET_LINK: u16 = 19;
    pub(super) const NEW_ADDRESS: u16 = 20;
    pub(super) const NEW_NEIGHBOUR: u16 = 28;
    pub(super) const NEW_QDISC: u16 = 36;
    pub(super) const REQUEST_AND_ACK: u16 = 1 | 4;
    pub(super) const CREATE_NEW: u16 = 0x400 | 0x200;

    pub(super) const IFLA_ADDRESS: u16 = 1;
    pub(super) const IFLA_NAME: u16 = 3;
    pub(super) const IFLA_BRIDGE: u16 = 10;
    pub(super) const IFLA_QUEUE_LENGTH: u16 = 13;
    pub(super) const IFLA_LINK_INFO: u16 = 18;
    pub(super) const IFLA_NAMESPACE: u16 = 28;
    pub(super) const INFO_KIND: u16 = 1;
    pub(super) const INFO_DATA: u16 = 2;
    pub(super) const VETH_PEER: u16 = 1;
    pub(super) const BRIDGE_FORWARD_DELAY: u16 = 1;
    pub(super) const BRIDGE_STP: u16 = 5;
    pub(super) const BRIDGE_MULTICAST_SNOOPING: u16 = 23;

    pub(super) const ADDRESS: u16 = 1;
    pub(super) const ADDRESS_LOCAL: u16 = 2;
    pub(super) const NEIGHBOUR_ADDRESS: u16 = 1;
    pub(super) const NEIGHBOUR_HARDWARE: u16 = 2;
    pub(super) const PERMANENT: u16 = 0x80;
    pub(super) const QDISC_KIND: u16 = 1;
    pub(super) const QDISC_OPTIONS: u16 = 2;
    pub(super) const TBF_PARAMETERS: u16 = 1;
    pub(super) const TBF_RATE_64: u16 = 4;
    pub(super) const TBF_BURST: u16 = 6;
    pub(super) const ROOT: u32 = u32::MAX;
    pub(super) const LINK_LAYER_ETHERNET: u8 = 1;

    pub(super) const FAMILY_IPV4: u8 = 2;
    pub(super) const UP: u32 = 1;
    pub(super) const HEADER_BYTES: usize = 16;
    pub(super) const ERROR: u16 = 2;
}

/// Preamble, check sequence and gap: what a frame takes on the wire beyond what the kernel counts.
pub(super) const BEYOND_KERNEL_BYTES: u16 = 24;
/// The shortest frame with them.
const SHORTEST_BYTES: u16 = 84;
/// Hardware address of an interface.
pub(super) type HardwareAddress = [u8; 6];

/// One end of a cable.
#[derive(Clone, Copy, Debug)]
pub(super) struct VethEnd<'e> {
    pub(super) name: &'e str,
    /// Number of the interface in its namespace.
    pub(super) index: u32,
    pub(super) hardware: HardwareAddress,
}

/// How a link is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TokenBucket {
    pub(super) bits_per_s: u64,
    /// Sent at once after a pause, at most: as the timer of the kernel is not exact.
    pub(super) burst_bytes: u32,
    /// What may wait; more is dropped.
    pub(super) queue_bytes: u32,
}

/// A socket to the kernel, in the namespace of the thread that opened it.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: OwnedFd,
}

impl Netlink {
    pub(super) fn open() -> io::Result<Self> {
        // Without a protocol, that is NETLINK_ROUTE.
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        Ok(Self { socket })
    }

    /// Creates a bridge that forwards at once and to all ports.
    pub(super) fn add_bridge(&self, name: &str, index: u32) -> io::Result<()> {
        let mut request = Request::new(number::NEW_LINK, number::CREATE_NEW, &link(index, 0));
        request.text(number::IFLA_NAME, name);
        request.nested(number::IFLA_LINK_INFO, |info| {
            info.text(number::INFO_KIND, "bridge");
            info.nested(number::INFO_DATA, |bridge| {
                bridge.attribute(number::BRIDGE_FORWARD_DELAY, &0_u32.to_ne_bytes());
                bridge.attribute(number::BRIDGE_STP, &0_u32.to_ne_bytes());
                bridge.attribute(number::BRIDGE_MULTICAST_SNOOPING, &[0]);
            });
        });
        self.ask(request)
    }

    /// Creates a cable from this namespace to another one.
    pub(super) fn add_cable(
        &self,
        here: VethEnd<'_>,
        there: VethEnd<'_>,
        namespace: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let mut request = Request::new(number::NEW_LINK, number::CREATE_NEW, &link(here.index, 0));
        request.cable_end(here);
        request.nested(number::IFLA_LINK_INFO, |info| {
            info.text(number::INFO_KIND, "veth");
            info.nested(number::INFO_DATA, |veth| {
                veth.nested(number::VETH_PEER, |peer| {
                    peer.bytes.extend(link(there.index, 0));
                    peer.cable_end(there);
                    let namespace = namespace.as_raw_fd().to_ne_bytes();
                    peer.attribute(number::IFLA_NAMESPACE, &namespace);
                });
            });
        });
        self.ask(request)
    }

    /// Brings an interface up; with a bridge, as a port of it.
    pub(super) fn bring_up(&self, index: u32, bridge: Option<u32>) -> io::Result<()> {
        let mut request = Request::new(number::SET_LINK, 0, &link(index, number::UP));
        if let Some(bridge) = bridge {
            request.attribute(number::IFLA_BRIDGE, &bridge.to_ne_bytes());
        }
        self.ask(request)
    }

    /// Gives an interface an address in a network of `bits` bits.
    pub(super) fn add_address(&self, index: u32, address: Ipv4Addr, bits: u8) -> io::Result<()> {
        let mut header = vec![number::FAMILY_IPV4, bits, 0, 0];
        header.extend(index.to_ne_bytes());
        let mut request = Request::new(number::NEW_ADDRESS, number::CREATE_NEW, &header);
        request.attribute(number::ADDRESS_LOCAL, &address.octets());
        request.attribute(number::ADDRESS, &address.octets());
        self.ask(request)
    }

    /// Enters a neighbour for good, so that no question for it is ever on the wire.
    pub(super) fn add_neighbour(
        &self,
        index: u32,
        address: Ipv4Addr,
        hardware: HardwareAddress,
    ) -> io::Result<()> {
        let mut header = vec![number::FAMILY_IPV4, 0, 0, 0];
        header.extend(index.to_ne_bytes());
        header.extend(number::PERMANENT.to_ne_bytes());
        header.extend([0, 0]);
        let mut request = Request::new(number::NEW_NEIGHBOUR, number::CREATE_NEW, &header);
        request.attribute(number::NEIGHBOUR_ADDRESS, &address.octets());
        request.attribute(number::NEIGHBOUR_HARDWARE, &hardware);
        self.ask(request)
    }

    /// Limits what an interface sends.
    pub(super) fn limit(&self, index: u32, bucket: TokenBucket) -> io::Result<()> {
        let mut header = vec![0; 4];
        header.extend(index.to_ne_bytes());
        header.extend(0_u32.to_ne_bytes());
        header.extend(number::ROOT.to_ne_bytes());
        header.extend(0_u32.to_ne_bytes());

        let mut request = Request::new(number::NEW_QDISC, number::CREATE_NEW, &header);
        request.text(number::QDISC_KIND, "tbf");
        request.nested(number::QDISC_OPTIONS, |options| {
            let bytes_per_s = bucket.bits_per_s / 8;
            options.attribute(number::TBF_PARAMETERS, &bucket_parameters(bucket));
            options.attribute(number::TBF_BURST, &bucket.burst_bytes.to_ne_bytes());
            if bytes_per_s > u64::from(u32::MAX) {
                options.attribute(number::TBF_RATE_64, &bytes_per_s.to_ne_bytes());
            }
        });
        self.ask(request)
    }

    /// Sends a request and waits for the kernel's answer.
    fn ask(&self, request: Request) -> io::Result<()> {
        let message = request.finished();
        send(&self.socket, &message, SendFlags::empty())?;

        let mut answer = vec![0; message.len() + 1024];
        let (bytes, _) = recv(&self.socket, &mut *answer, RecvFlags::empty())?;
        let kind = answer[..bytes].get(4..).and_then(|rest| rest.first_chunk());
        let code = answer[..bytes].get(number::HEADER_BYTES..).and_then(|rest| rest.first_chunk());
        match (kind.copied().map(u16::from_ne_bytes), code.copied().map(i32::from_ne_bytes)) {
            (Some(number::ERROR), Some(0)) => Ok(()),
            (Some(number::ERROR), Some(code)) => Err(io::Error::from_raw_os_error(-code)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// The head of a request about an interface.
fn link(index: u32, flags: u32) -> Vec<u8> {
    let mut head = vec![0; 4];
    for value in [index, flags, flags] {
        head.extend(value.to_ne_bytes());
    }
    head
}

/// The structure `tc_tbf_qopt`: rate, no peak rate, what may wait, and a burst that an attribute
/// states in bytes.
fn bucket_parameters(bucket: TokenBucket) -> Vec<u8> {
    let rate = u32::try_from(bucket.bits_per_s / 8).unwrap_or(u32::MAX);
    let mut parameters = vec![0, number::LINK_LAYER_ETHERNET];
    parameters.extend(BEYOND_KERNEL_BYTES.to_ne_bytes());
    parameters.extend(0_i16.to_ne_bytes());
    parameters.extend(SHORTEST_BYTES.to_ne_bytes());
    parameters.extend(rate.to_ne_bytes());

    parameters.extend([0; 12]);
    for value in [bucket.queue_bytes, 0, 0] {
        parameters.extend(value.to_ne_bytes());
    }
    parameters
}

/// A request while its attributes are added.
struct Request {
    bytes: Vec<u8>,
}

impl Request {
    fn new(kind: u16, flags: u16, head: &[u8]) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((flags | number::REQUEST_AND_ACK).to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend(head);
        Self { bytes }
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.nested(kind, |inside| inside.bytes.extend(value));
    }

    fn text(&mut self, kind: u16, text: &str) {
        self.nested(kind, |inside| {
            inside.bytes.extend(text.as_bytes());
            inside.bytes.push(0);
        });
    }

    /// Adds an attribute with what `fill` adds; it ends on a multiple of four bytes.
    fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.bytes.extend([0; 2]);
        self.bytes.extend(kind.to_ne_bytes());
        fill(self);

        let length = (self.bytes.len() - start) as u16;
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn cable_end(&mut self, end: VethEnd<'_>) {
        self.text(number::IFLA_NAME, end.name);
        self.attribute(number::IFLA_ADDRESS, &end.hardware);
        self.attribute(number::IFLA_QUEUE_LENGTH, &1000_u32.to_ne_bytes());
    }

    fn finished(mut self) -> Vec<u8> {
        let length = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_states_its_length_and_attributes_end_on_four_bytes() {
        let mut request = Request::new(number::NEW_LINK, number::CREATE_NEW, &link(7, number::UP));
        request.text(number::IFLA_NAME, "p1");
        request.nested(number::IFLA_LINK_INFO, |info| info.text(number::INFO_KIND, "veth"));
        let bytes = request.finished();

        assert_eq!(bytes.len(), 16 + 16 + 8 + 4 + 12);
        assert_eq!(bytes[..4], (bytes.len() as u32).to_ne_bytes());
        assert_eq!(bytes[20..24], 7_u32.to_ne_bytes());
        assert_eq!(bytes[32..40], [7, 0, 3, 0, b'p', b'1', 0, 0], "a length without the padding");
        assert_eq!(bytes[40..42], 16_u16.to_ne_bytes(), "the outer one with it");
    }

    #[test]
    fn a_token_bucket_has_the_layout_of_the_kernel() {
        let bucket =
            TokenBucket { bits_per_s: 100_000_000, burst_bytes: 600, queue_bytes: 4 << 20 };
        let parameters = bucket_parameters(bucket);
        assert_eq!(parameters.len(), 36);
        assert_eq!(parameters[8..12], 12_500_000_u32.to_ne_bytes());
        assert_eq!(parameters[24..28], (4_u32 << 20).to_ne_bytes());
    }
}
