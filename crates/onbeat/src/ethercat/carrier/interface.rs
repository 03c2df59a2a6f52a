//! A raw socket on a network interface, or a TAP device.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use onbeat_rt::sys::Port;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{CarrierError, PacketRing};

/// Options of packet sockets (`include/uapi/linux/if_packet.h`).
const PACKET_QDISC_BYPASS: libc::c_int = 20;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// EtherType of EtherCAT.
const ETHERCAT: u16 = 0x88a4;

/// Where frames come from and go to. Closed when dropped; a TAP device goes with it.
#[derive(Debug)]
pub struct Interface {
    file: OwnedFd,
    name: String,
}

impl Interface {
    /// Opens a raw socket for EtherCAT frames on an interface that is there.
    ///
    /// # Errors
    /// [`CarrierError`] when there is no such interface, or no right to raw sockets.
    pub fn open(name: &str) -> Result<Self, CarrierError> {
        let index = CString::new(name).ok().map_or(0, |name| {
            // SAFETY: `name` is a string that ends with a zero byte and lives across the call.
            unsafe { libc::if_nametoindex(name.as_ptr()) }
        });
        if index == 0 {
            return Err(CarrierError::NoInterface(name.to_owned()));
        }
        let protocol = ETHERCAT.to_be();
        // SAFETY: no pointers are passed.
        let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, i32::from(protocol)) };
        if socket < 0 {
            return Err(Self::refused("a raw socket on", name, "RAW"));
        }
        // SAFETY: `socket` was just opened and belongs to nobody else.
        let file = unsafe { OwnedFd::from_raw_fd(socket) };
        // SAFETY: all fields of the address are numbers, for which zero is valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = index as i32;
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: `address` is a whole address of the length given, and lives across the call.
        let bound = unsafe { libc::bind(file.as_raw_fd(), (&raw const address).cast(), length) };
        if bound < 0 {
            return Err(Self::refused("a raw socket on", name, "RAW"));
        }
        Ok(Self { file, name: name.to_owned() })
    }

    /// Two ends of a socket in this process: what one sends the other receives. It takes no right and no network.
    ///
    /// # Errors
    /// [`CarrierError::System`], such as with too many open files.
    pub fn pair() -> Result<(Self, Self), CarrierError> {
        let name = "a socket in this process".to_owned();
        let ends = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::SEQPACKET,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        );
        match ends {
            Ok((one, other)) => Ok((Self { file: one, name: name.clone() }, Self { file: other, name })),
            Err(error) => Err(CarrierError::System { what: "open", name, source: error.into() }),
        }
    }

    /// Makes a TAP device, whose other end is a network interface of this name. It is down until `ip link set NAME up`.
    ///
    /// # Errors
    /// [`CarrierError`] when the name is taken by something else or too long, or without the right to make one.
    pub fn make_tap(name: &str) -> Result<Self, CarrierError> {
        let failed = |source| CarrierError::System { what: "make the TAP device", name: name.to_owned(), source };
        let device = std::fs::File::options().read(true).write(true).open("/dev/net/tun").map_err(failed)?;
        // SAFETY: all fields of the request are numbers, for which zero is valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        if name.is_empty() || name.len() >= request.ifr_name.len() {
            return Err(failed(io::ErrorKind::InvalidInput.into()));
        }
        for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *place = byte as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes one `ifreq`, which `request` is, and it lives across the call.
        let made = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        if made < 0 {
            return Err(Self::refused("the TAP device", name, "ADMIN"));
        }
        Ok(Self { file: device.into(), name: name.to_owned() })
    }

    /// Makes it fit for a loop: reading returns at once when nothing is there, own frames are not heard, and frames leave without a
    /// queue. What the kernel does not know of these is done without.
    pub(crate) fn for_a_loop(&self) {
        let _ = rustix::io::ioctl_fionbio(&self.file, true);
        for option in [PACKET_IGNORE_OUTGOING, PACKET_QDISC_BYPASS] {
            let on: libc::c_int = 1;
            let length = size_of::<libc::c_int>() as libc::socklen_t;
            // SAFETY: `on` is an int of the length given, and lives across the call.
            unsafe {
                libc::setsockopt(self.file.as_raw_fd(), libc::SOL_PACKET, option, (&raw const on).cast(), length);
            }
        }
    }

    /// The descriptor, for a loop that reads and writes it while this lives.
    pub(crate) fn port(&self) -> Port {
        Port::on(self.file.as_raw_fd())
    }

    /// Memory that the kernel puts frames into, where it has such a thing for this kind of socket: without one frames are read.
    pub(crate) fn packet_ring(&self) -> Option<PacketRing> {
        PacketRing::on(self.file.as_fd()).ok()
    }

    fn refused(what: &'static str, name: &str, right: &'static str) -> CarrierError {
        let source = io::Error::last_os_error();
        let name = name.to_owned();
        if source.kind() == io::ErrorKind::PermissionDenied {
            CarrierError::NotPermitted { what, name, right }
        } else {
            CarrierError::System { what: "open", name, source }
        }
    }

    /// Name of the interface.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The next frame of one or two interfaces, waited for this long at most: which interface, and the length in `buffer`. When both
    /// have one, it is that of interface `turn`.
    ///
    /// # Errors
    /// [`CarrierError::System`] when an interface is gone. One that is down has no frames.
    pub fn receive_from(
        interfaces: &[Self],
        turn: usize,
        buffer: &mut [u8],
        wait_ns: u64,
    ) -> Result<Option<(usize, usize)>, CarrierError> {
        let Some(first) = interfaces.first() else { return Ok(None) };
        let second = interfaces.get(1).unwrap_or(first);
        let wait = Timespec { tv_sec: (wait_ns / 1_000_000_000) as i64, tv_nsec: (wait_ns % 1_000_000_000) as i64 };
        let mut files = [PollFd::new(&first.file, PollFlags::IN), PollFd::new(&second.file, PollFlags::IN)];
        let files = &mut files[..interfaces.len().min(2)];
        match poll(files, Some(&wait)) {
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            Ok(_) => (),
            Err(error) => return Err(first.broken(error)),
        }
        let ready = |place: &usize| files.get(*place).is_some_and(|file| !file.revents().is_empty());
        let Some(from) = [turn, 1 - turn.min(1)].into_iter().find(ready) else { return Ok(None) };
        Ok(interfaces[from].take(buffer)?.map(|length| (from, length)))
    }

    fn take(&self, buffer: &mut [u8]) -> Result<Option<usize>, CarrierError> {
        match rustix::io::read(&self.file, &mut *buffer) {
            // A TAP device has what else the kernel sends, such as the search for routers.
            Ok(length) => {
                Ok((buffer.get(12..14) == Some(&ETHERCAT.to_be_bytes()[..]) && length > 14).then_some(length))
            }
            Err(Errno::NETDOWN | Errno::INTR | Errno::AGAIN) => Ok(None),
            Err(error) => Err(self.broken(error)),
        }
    }

    /// Sends a frame; what the interface does not take is lost.
    pub fn send(&self, frame: &[u8]) {
        let _ = rustix::io::write(&self.file, frame);
    }

    fn broken(&self, error: Errno) -> CarrierError {
        CarrierError::System { what: "receive from", name: self.name.clone(), source: error.into() }
    }
}
