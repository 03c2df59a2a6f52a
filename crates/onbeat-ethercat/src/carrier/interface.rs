//! A raw socket on a network interface with an AF_XDP socket where that is wanted, a TAP device, or
//! a socket pair in the process.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use onbeat_rt::sys::Port;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::claim::Claim;
use super::link_watch::{LinkState, request_about};
use super::{
    CarrierError, PacketRing, Role, User, WireMethod, XdpError, XdpSocket, claim, socket_option,
};

/// Options of packet sockets (`include/uapi/linux/if_packet.h`).
const PACKET_AUXDATA: libc::c_int = 8;
const PACKET_QDISC_BYPASS: libc::c_int = 20;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// EtherType of EtherCAT, and of a VLAN tag (IEEE 802.1Q).
const ETHERCAT: u16 = 0x88a4;
const VLAN: u16 = 0x8100;
/// A link lost by attaching a program comes back within seconds: polling interval and limit.
const LINK_WAIT: std::time::Duration = std::time::Duration::from_millis(10);
const MOST_LINK_WAITS: u32 = 600;
/// Bytes of destination and source address, and of the VLAN tag that can follow them.
const ADDRESSES: usize = 12;
const TAG: usize = 4;

/// A transport of frames. Closed when dropped, together with its TAP device.
#[derive(Debug)]
pub struct Interface {
    file: OwnedFd,
    name: String,
    /// Interface index; 0 for a TAP device or a socket pair.
    index: u32,
    /// Excludes other processes of onbeat in the same role.
    claim: Option<Claim>,
    /// The wanted method, and why it is not used.
    method: WireMethod,
    refusal: Option<XdpError>,
    xdp: Option<XdpSocket>,
}

impl Interface {
    /// Opens a raw socket for EtherCAT frames and claims the interface in a role, which only one
    /// process of onbeat can have.
    ///
    /// # Errors
    /// [`CarrierError::InUse`] with the process that has the role; otherwise as
    /// [`Interface::open`].
    pub fn open_as(name: &str, role: Role) -> Result<Self, CarrierError> {
        let mut opened = Self::open(name)?;
        opened.claim = Some(Claim::new(role, opened.index, name)?);
        Ok(opened)
    }

    /// Returns the process of onbeat that uses this interface in a role.
    #[must_use]
    pub fn user(&self, role: Role) -> Option<User> {
        claim::user(role, self.index)
    }

    /// Opens a raw socket for EtherCAT frames on an existing interface.
    ///
    /// # Errors
    /// [`CarrierError`] when the interface does not exist or CAP_NET_RAW is missing.
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
        let socket = unsafe {
            libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, i32::from(protocol))
        };
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

        let opened = Self { index, ..Self::unclaimed(file, name.to_owned()) };
        opened.enable(PACKET_AUXDATA);
        Ok(opened)
    }

    /// Creates a socket pair in this process: each end receives what the other sends. Needs no
    /// privileges and no network.
    ///
    /// ```
    /// use onbeat_ethercat::carrier::Interface;
    ///
    /// let (main_device, devices) = Interface::pair()?;
    /// main_device.send(&[0; 60]);
    /// # let _ = devices;
    /// # Ok::<(), onbeat_ethercat::carrier::CarrierError>(())
    /// ```
    ///
    /// # Errors
    /// [`CarrierError::System`], for example with too many open files.
    pub fn pair() -> Result<(Self, Self), CarrierError> {
        let name = "a socket in this process".to_owned();
        let ends = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::SEQPACKET,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        );

        match ends {
            Ok((one, other)) => {
                Ok((Self::unclaimed(one, name.clone()), Self::unclaimed(other, name)))
            }
            Err(error) => Err(CarrierError::System { what: "open", name, source: error.into() }),
        }
    }

    /// Creates a TAP device, whose other end is a network interface of this name. It is down until
    /// `ip link set NAME up`.
    ///
    /// # Errors
    /// [`CarrierError`] when the name is in use or too long, or CAP_NET_ADMIN is missing.
    pub fn make_tap(name: &str) -> Result<Self, CarrierError> {
        let failed = |source| CarrierError::System {
            what: "make the TAP device",
            name: name.to_owned(),
            source,
        };
        let device =
            std::fs::File::options().read(true).write(true).open("/dev/net/tun").map_err(failed)?;
        let invalid = || failed(io::ErrorKind::InvalidInput.into());
        let mut request = request_about(name).ok_or_else(invalid)?;
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes one `ifreq`, which `request` is, and it lives across
        // the call.
        let made = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        if made < 0 {
            return Err(match io::Error::last_os_error() {
                busy if busy.kind() == io::ErrorKind::ResourceBusy => {
                    let user = User::default();
                    CarrierError::InUse { role: Role::Devices.words(), name: name.to_owned(), user }
                }
                _ => Self::refused("the TAP device", name, "ADMIN"),
            });
        }

        Ok(Self::unclaimed(device.into(), name.to_owned()))
    }

    fn unclaimed(file: OwnedFd, name: String) -> Self {
        let method = WireMethod::default();
        Self { file, name, index: 0, claim: None, method, refusal: None, xdp: None }
    }

    /// Prepares the interface for a method, in its network namespace. Where the kernel or the driver
    /// refuses busy polling, AF_XDP is used without it; where AF_XDP is refused, the ring of the
    /// packet socket. [`Interface::refusal`] has the reason.
    #[must_use]
    pub fn by(mut self, method: WireMethod) -> Self {
        self.method = method;
        if method == WireMethod::Ring {
            return self;
        }
        if self.index == 0 {
            self.refusal = Some(XdpError::NotAnInterface);
            return self;
        }

        let had_link = self.has_link();
        match XdpSocket::open(self.index, &self.name, self.file.as_fd()) {
            Ok(mut socket) => {
                if method == WireMethod::BusyPoll {
                    self.refusal = socket.poll_queue().err();
                }
                self.xdp = Some(socket);
            }
            Err(why) => self.refusal = Some(why),
        }

        // Drivers of cards set up their queues again for a program, which takes the link.
        let mut waits = 0;
        while had_link && !self.has_link() && waits < MOST_LINK_WAITS {
            std::thread::sleep(LINK_WAIT);
            waits += 1;
        }

        self
    }

    /// Returns whether frames can pass: the interface is up and has a link, or is no interface of the
    /// kernel.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.index == 0 || self.has_link()
    }

    fn has_link(&self) -> bool {
        self.state().is_some_and(|state| state.trouble().is_none())
    }

    /// Returns the method that was wanted.
    #[must_use]
    pub const fn method(&self) -> WireMethod {
        self.method
    }

    /// Returns why the wanted method is not used.
    #[must_use]
    pub const fn refusal(&self) -> Option<&XdpError> {
        self.refusal.as_ref()
    }

    /// Returns how frames pass, as the end of a sentence.
    #[must_use]
    pub fn words(&self) -> String {
        self.words_with(self.xdp.as_ref())
    }

    /// The same after [`Interface::take_xdp`].
    pub(crate) fn words_with(&self, xdp: Option<&XdpSocket>) -> String {
        let of_socket = "the ring of a packet socket";
        match (xdp, &self.refusal) {
            (Some(socket), None) => format!("AF_XDP ({})", socket.words()),
            (Some(socket), Some(why)) => {
                format!("AF_XDP ({}) without busy polling: {why}", socket.words())
            }
            (None, Some(why)) => {
                format!("{of_socket}, because AF_XDP cannot be used on {}: {why}", self.name)
            }
            (None, None) => of_socket.to_owned(),
        }
    }

    /// Takes the AF_XDP socket.
    pub(crate) const fn take_xdp(&mut self) -> Option<XdpSocket> {
        self.xdp.take()
    }

    /// Returns the index in the network namespace; 0 for a TAP device or a socket pair.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Reads the current state of the interface; `None` when it does not exist.
    pub(crate) fn state(&self) -> Option<LinkState> {
        LinkState::query(self.file.as_raw_fd(), &self.name)
    }

    /// Enables an option of packet sockets; options that the kernel does not know are ignored.
    fn enable(&self, option: libc::c_int) {
        let on: libc::c_int = 1;
        let _ = socket_option::set(&self.file, libc::SOL_PACKET, option, &on);
    }

    /// Returns whether the interface was down at some time since the socket was bound.
    ///
    /// The kernel attaches a socket to its interface when the interface goes up, but not while it
    /// sets up a ring for the socket (`packet_notifier` and `packet_set_ring` in
    /// net/packet/af_packet.c): a socket set up at that moment never receives a frame.
    pub(crate) fn was_down(&self) -> bool {
        matches!(
            rustix::net::sockopt::socket_error(&self.file),
            Ok(Err(rustix::io::Errno::NETDOWN))
        )
    }

    /// Prepares the socket for a loop: non-blocking reads, own frames ignored, no queueing
    /// discipline. Options that the kernel does not know are ignored.
    pub(crate) fn prepare_for_loop(&self) {
        let _ = rustix::io::ioctl_fionbio(&self.file, true);
        for option in [PACKET_IGNORE_OUTGOING, PACKET_QDISC_BYPASS] {
            self.enable(option);
        }
    }

    /// Returns the file descriptor, for a loop that reads and writes it during the lifetime of
    /// `self`.
    pub(crate) fn port(&self) -> Port {
        Port::new(self.file.as_raw_fd())
    }

    /// Maps a receive ring; `None` when the kernel has none for this kind of socket.
    pub(crate) fn packet_ring(&self) -> Option<PacketRing> {
        PacketRing::new(self.file.as_fd()).ok()
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

    /// Returns the name of the interface.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Receives the next frame of one or two interfaces, waiting for at most `wait_ns`. Returns the
    /// interface and the length in `buffer`. When both have a frame, interface `turn` comes first.
    ///
    /// # Errors
    /// [`CarrierError::System`] when an interface no longer exists. An interface that is down has
    /// no frames.
    pub fn receive_from(
        interfaces: &[Self],
        turn: usize,
        buffer: &mut [u8],
        wait_ns: u64,
    ) -> Result<Option<(usize, usize)>, CarrierError> {
        let Some(first) = interfaces.first() else { return Ok(None) };
        let second = interfaces.get(1).unwrap_or(first);
        let wait = Timespec {
            tv_sec: (wait_ns / 1_000_000_000) as i64,
            tv_nsec: (wait_ns % 1_000_000_000) as i64,
        };
        let mut files =
            [PollFd::new(&first.file, PollFlags::IN), PollFd::new(&second.file, PollFlags::IN)];
        let files = &mut files[..interfaces.len().min(2)];
        match poll(files, Some(&wait)) {
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            Ok(_) => (),
            Err(error) => return Err(first.broken(error)),
        }

        let ready =
            |place: &usize| files.get(*place).is_some_and(|file| !file.revents().is_empty());
        let Some(from) = [turn, 1 - turn.min(1)].into_iter().find(ready) else { return Ok(None) };
        Ok(interfaces[from].take(buffer)?.map(|length| (from, length)))
    }

    fn take(&self, buffer: &mut [u8]) -> Result<Option<usize>, CarrierError> {
        let taken = if self.index == 0 {
            rustix::io::read(&self.file, &mut *buffer)
        } else {
            receive_with_tag(self.file.as_raw_fd(), buffer)
        };
        match taken {
            // A TAP device also delivers other frames of the kernel, such as router solicitations.
            Ok(length) => Ok(is_ethercat(&buffer[..length.min(buffer.len())]).then_some(length)),
            Err(Errno::NETDOWN | Errno::INTR | Errno::AGAIN) => Ok(None),
            Err(error) => Err(self.broken(error)),
        }
    }

    /// Sends a frame. A frame that the interface does not accept is lost.
    pub fn send(&self, frame: &[u8]) {
        let _ = rustix::io::write(&self.file, frame);
    }

    fn broken(&self, error: Errno) -> CarrierError {
        CarrierError::System { what: "receive from", name: self.name.clone(), source: error.into() }
    }
}

/// Returns whether `frame` is a non-empty EtherCAT frame, with or without a VLAN tag.
fn is_ethercat(frame: &[u8]) -> bool {
    let type_at =
        |at: usize| frame.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
    let at = if type_at(ADDRESSES) == Some(VLAN) { ADDRESSES + TAG } else { ADDRESSES };
    type_at(at) == Some(ETHERCAT) && frame.len() > at + 2
}

/// Auxiliary data of a received frame (`struct tpacket_auxdata`).
#[repr(C)]
#[derive(Clone, Copy)]
struct PacketAuxData {
    status: u32,
    length: u32,
    captured: u32,
    at: u16,
    network_at: u16,
    tag: u16,
    tag_type: u16,
}

/// `TP_STATUS_VLAN_VALID`: the frame had a VLAN tag.
const TAGGED: u32 = 1 << 4;

/// Receives the next frame of a packet socket. The kernel moves a VLAN tag to the auxiliary data;
/// this puts it back into the frame.
fn receive_with_tag(socket: i32, buffer: &mut [u8]) -> Result<usize, Errno> {
    let mut control = [0u64; 8];
    let mut data = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all fields of the header are numbers and pointers, for which zero is valid.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut data;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the header points to one data buffer and one control buffer with their lengths; both
    // live across the call.
    let received = unsafe { libc::recvmsg(socket, &raw mut header, 0) };
    let Ok(length) = usize::try_from(received) else {
        return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO));
    };
    // SAFETY: the kernel has filled in the header; the first control message, if any, is in
    // `control`.
    let first = unsafe { libc::CMSG_FIRSTHDR(&raw const header).as_ref() };
    let is_ours = |one: &&libc::cmsghdr| {
        one.cmsg_level == libc::SOL_PACKET && one.cmsg_type == PACKET_AUXDATA
    };
    let Some(first) = first.filter(is_ours) else { return Ok(length) };
    // SAFETY: a message of this type holds one `tpacket_auxdata`.
    let aux_data = unsafe { libc::CMSG_DATA(first).cast::<PacketAuxData>().read_unaligned() };
    let is_whole = (ADDRESSES..=buffer.len().saturating_sub(TAG)).contains(&length);

    if aux_data.status & TAGGED == 0 || !is_whole {
        return Ok(length);
    }

    buffer.copy_within(ADDRESSES..length, ADDRESSES + TAG);
    buffer[ADDRESSES..ADDRESSES + 2].copy_from_slice(&VLAN.to_be_bytes());
    buffer[ADDRESSES + 2..ADDRESSES + TAG].copy_from_slice(&aux_data.tag.to_be_bytes());
    Ok(length + TAG)
}
