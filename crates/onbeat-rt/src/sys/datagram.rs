//! UDP packets with the time stamps of kernel and network card, on a prepared socket.
//!
//! The kernel stamps by `CLOCK_REALTIME`; [`wall_offset_ns`] is its distance from the loop's clock,
//! read beside the stamps and used for nothing else. A card stamps by a clock of its own, whose
//! readings are compared with one another only.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use core::{mem, ptr};

use super::{Errno, Monotonic, as_ns, errno, timespec};
use crate::time::Clock;

/// Stamps when the driver takes a packet and when the stack receives one
/// (`include/uapi/linux/net_tstamp.h`).
const SOFTWARE_STAMPS: libc::c_uint = libc::SOF_TIMESTAMPING_TX_SOFTWARE
    | libc::SOF_TIMESTAMPING_RX_SOFTWARE
    | libc::SOF_TIMESTAMPING_SOFTWARE;
/// Stamps of the card besides, where its time stamping is enabled (`hwstamp_ctl`, `ptp4l`). A packet
/// that is sent has its two stamps in two messages; since Linux 4.13.
const CARD_STAMPS: libc::c_uint = libc::SOF_TIMESTAMPING_TX_HARDWARE
    | libc::SOF_TIMESTAMPING_RX_HARDWARE
    | libc::SOF_TIMESTAMPING_RAW_HARDWARE
    | libc::SOF_TIMESTAMPING_OPT_TX_SWHW;

/// A prepared UDP socket. Its owner keeps it open as long as the loop runs. No call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramPort(libc::c_int);

/// An address in the form that the kernel takes.
#[derive(Clone, Copy)]
pub struct SendAddress {
    storage: libc::sockaddr_storage,
    length: libc::socklen_t,
}

/// A received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Bytes of the packet; those beyond the buffer are cut off.
    pub length: usize,
    /// Where it came from; `None` for one that was sent from here.
    pub from: Option<SocketAddr>,
    /// The kernel's stamp, by `CLOCK_REALTIME`, in nanoseconds.
    pub stamp_ns: Option<u64>,
    /// The network card's stamp, by its own clock, in nanoseconds.
    pub card_stamp_ns: Option<u64>,
}

impl DatagramPort {
    /// Creates a port on an open UDP socket.
    #[must_use]
    pub const fn new(descriptor: i32) -> Self {
        Self(descriptor)
    }

    /// Requests time stamps of packets in both directions: the kernel's, and the network card's where
    /// its time stamping is enabled. No setting of the card is changed.
    ///
    /// # Errors
    /// [`Errno`].
    pub fn request_stamps(self) -> Result<(), Errno> {
        self.set_stamps(SOFTWARE_STAMPS | CARD_STAMPS).or_else(|_| self.set_stamps(SOFTWARE_STAMPS))
    }

    fn set_stamps(self, flags: libc::c_uint) -> Result<(), Errno> {
        // SAFETY: the option takes an int, which lives across the call.
        let answer = unsafe {
            libc::setsockopt(
                self.0,
                libc::SOL_SOCKET,
                libc::SO_TIMESTAMPING,
                (&raw const flags).cast(),
                size_of_val(&flags) as libc::socklen_t,
            )
        };
        if answer == 0 { Ok(()) } else { Err(errno()) }
    }

    /// Sends a packet.
    ///
    /// # Errors
    /// [`Errno`].
    pub fn send(self, bytes: &[u8], to: &SendAddress) -> Result<(), Errno> {
        // SAFETY: `bytes` is valid for reads of its length, and so is the address of its own.
        let sent = unsafe {
            libc::sendto(
                self.0,
                bytes.as_ptr().cast(),
                bytes.len(),
                libc::MSG_DONTWAIT,
                (&raw const to.storage).cast(),
                to.length,
            )
        };
        if sent < 0 { Err(errno()) } else { Ok(()) }
    }

    /// Receives a packet; `None` when there is none.
    ///
    /// # Errors
    /// [`Errno`].
    pub fn receive(self, into: &mut [u8]) -> Result<Option<Datagram>, Errno> {
        self.take(into, libc::MSG_DONTWAIT | libc::MSG_TRUNC)
    }

    /// Returns a packet that was sent, with a stamp of its sending, the kernel's or the card's: its
    /// frame as the driver took it, ending in the bytes that were sent. `None` once all were returned.
    ///
    /// # Errors
    /// [`Errno`].
    pub fn sent(self, into: &mut [u8]) -> Result<Option<Datagram>, Errno> {
        let taken = self.take(into, libc::MSG_DONTWAIT | libc::MSG_ERRQUEUE)?;
        Ok(taken.map(|datagram| Datagram { from: None, ..datagram }))
    }

    fn take(self, into: &mut [u8], flags: libc::c_int) -> Result<Option<Datagram>, Errno> {
        // Whole words, so that the kernel's headers are aligned in it.
        let mut control = [0_u64; 32];
        let mut parts = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        // SAFETY: all-zero is a valid value of both.
        let (mut from, mut message): (libc::sockaddr_storage, libc::msghdr) =
            unsafe { (mem::zeroed(), mem::zeroed()) };
        message.msg_name = (&raw mut from).cast();
        message.msg_namelen = size_of_val(&from) as libc::socklen_t;
        message.msg_iov = &raw mut parts;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;

        // SAFETY: buffers, address and control data live across the call, with the given lengths.
        let length = unsafe { libc::recvmsg(self.0, &raw mut message, flags) };
        match usize::try_from(length) {
            Ok(length) => {
                let from = address(&from);
                let [stamp_ns, card_stamp_ns] = stamps(&message);
                Ok(Some(Datagram { length, from, stamp_ns, card_stamp_ns }))
            }
            Err(_) => match errno() {
                Errno(libc::EAGAIN | libc::EINTR) => Ok(None),
                why => Err(why),
            },
        }
    }
}

impl SendAddress {
    /// Creates the kernel's form of an address.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        // SAFETY: all-zero is a valid sockaddr_storage.
        let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
        let length = match address {
            SocketAddr::V4(v4) => {
                let name = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: v4.ip().to_bits().to_be() },
                    sin_zero: [0; 8],
                };
                // SAFETY: a sockaddr_storage is large enough for each address, and as aligned.
                unsafe { ptr::write((&raw mut storage).cast(), name) };
                size_of_val(&name)
            }
            SocketAddr::V6(v6) => {
                let name = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: as above.
                unsafe { ptr::write((&raw mut storage).cast(), name) };
                size_of_val(&name)
            }
        };
        Self { storage, length: length as libc::socklen_t }
    }
}

impl core::fmt::Debug for SendAddress {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Destination").field(&address(&self.storage)).finish()
    }
}

fn address(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which of the addresses it is; both fit a sockaddr_storage.
            let name: libc::sockaddr_in = unsafe { ptr::read(ptr::from_ref(storage).cast()) };
            let ip = Ipv4Addr::from_bits(u32::from_be(name.sin_addr.s_addr));
            Some(SocketAddr::from((ip, u16::from_be(name.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let name: libc::sockaddr_in6 = unsafe { ptr::read(ptr::from_ref(storage).cast()) };
            let ip = Ipv6Addr::from(name.sin6_addr.s6_addr);
            let port = u16::from_be(name.sin6_port);
            let v6 = core::net::SocketAddrV6::new(ip, port, name.sin6_flowinfo, name.sin6_scope_id);
            Some(SocketAddr::V6(v6))
        }
        _ => None,
    }
}

/// The kernel's stamp and the card's: the first and the last of three; the second is unused
/// (Documentation/networking/timestamping.rst).
fn stamps(message: &libc::msghdr) -> [Option<u64>; 2] {
    // SAFETY: the kernel has just filled `message`, whose control data are still there.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: the kernel's macros give headers within the control data.
        let (level, kind) = unsafe { ((*header).cmsg_level, (*header).cmsg_type) };
        if level == libc::SOL_SOCKET && kind == libc::SCM_TIMESTAMPING {
            // SAFETY: behind a header of this kind stand three timespecs; they need not be aligned.
            let three: [libc::timespec; 3] =
                unsafe { libc::CMSG_DATA(header).cast::<[libc::timespec; 3]>().read_unaligned() };
            return [&three[0], &three[2]].map(|at| Some(as_ns(at)).filter(|ns| *ns > 0));
        }

        // SAFETY: as above.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    [None, None]
}

/// Returns `CLOCK_REALTIME − CLOCK_MONOTONIC`, in nanoseconds, to within half the time that reading
/// both takes. For stamps of the kernel only: the wall clock jumps.
#[must_use]
pub fn wall_offset_ns() -> i64 {
    let mut wall = timespec(0);
    let before = Monotonic.now();
    // SAFETY: `wall` is a valid timespec to write to; the clock exists on every kernel.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut wall) };
    let after = Monotonic.now();
    let middle_ns = before.as_ns() + after.ns_since(before) / 2;
    as_ns(&wall).wrapping_sub(middle_ns).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stamps of control data as the kernel writes them: a time stamp of another kind first.
    fn stamps_of(three: [libc::timespec; 3]) -> [Option<u64>; 2] {
        let mut control = [0_u64; 32];
        // SAFETY: all-zero is a valid msghdr.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        let first: *mut libc::cmsghdr = control.as_mut_ptr().cast();
        message.msg_control = first.cast();

        let mut length = 0;
        // SAFETY: both headers and their data fit the control data, which are aligned for them.
        unsafe {
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_TIMESTAMPNS;
            (*first).cmsg_len = libc::CMSG_LEN(size_of::<libc::timespec>() as u32) as _;
            length += libc::CMSG_SPACE(size_of::<libc::timespec>() as u32);

            let second: *mut libc::cmsghdr = first.cast::<u8>().add(length as usize).cast();
            (*second).cmsg_level = libc::SOL_SOCKET;
            (*second).cmsg_type = libc::SCM_TIMESTAMPING;
            (*second).cmsg_len = libc::CMSG_LEN(size_of_val(&three) as u32) as _;
            libc::CMSG_DATA(second).cast::<[libc::timespec; 3]>().write_unaligned(three);
            length += libc::CMSG_SPACE(size_of_val(&three) as u32);
        }
        message.msg_controllen = length as _;
        stamps(&message)
    }

    fn at(seconds: i64, ns: i64) -> libc::timespec {
        libc::timespec { tv_sec: seconds, tv_nsec: ns }
    }

    #[test]
    fn the_first_stamp_is_the_kernels_and_the_last_the_cards() {
        let none = at(0, 0);
        assert_eq!(stamps_of([at(2, 5), none, none]), [Some(2_000_000_005), None]);
        assert_eq!(stamps_of([none, none, at(7, 1)]), [None, Some(7_000_000_001)]);
        let both = stamps_of([at(2, 5), none, at(7, 1)]);
        assert_eq!(both, [Some(2_000_000_005), Some(7_000_000_001)]);
        assert_eq!(stamps_of([none; 3]), [None, None]);
    }
}
