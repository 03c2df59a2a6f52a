//! A thread that watches the link state of a network interface, and the reasons why it cannot send
//! frames.
//!
//! The kernel reports changes of interfaces by netlink; only then the thread checks its interface.
//! Nothing runs while the link is fine, and the loop reads one word. For an interface that was
//! deleted and created again, the thread opens a new socket, which the loop takes over between two
//! frames.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use onbeat_rt::sys::Port;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::AsFd;
use rustix::io::Errno;

use super::{CarrierError, Interface, PacketRing, Role, WireMethod, XdpSocket, when_free};

/// Stack size of the thread: a process that locks its memory locks all of it.
const STACK_BYTES: usize = 128 * 1024;

/// Why an interface cannot send frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Trouble {
    /// The interface was deleted.
    Gone = 1,
    /// It is administratively down.
    Down = 2,
    /// It has no link: no cable, or no powered device at the other end.
    NoLink = 3,
    /// Frames are longer than its MTU allows.
    Mtu = 4,
    /// It was created again, and another process uses it.
    Taken = 5,
}

impl Trouble {
    const ALL: [Self; 5] = [Self::Gone, Self::Down, Self::NoLink, Self::Mtu, Self::Taken];

    /// Returns the reason with this number, as events store it.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|one| *one as u32 == number)
    }

    /// Returns the reason for an error of sending.
    pub(crate) const fn from_errno(errno: i32) -> Option<Self> {
        match errno {
            libc::ENXIO | libc::ENODEV => Some(Self::Gone),
            libc::ENETDOWN => Some(Self::Down),
            libc::EMSGSIZE => Some(Self::Mtu),
            _ => None,
        }
    }

    /// Returns the predicate of the sentence that begins with "the network interface".
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Gone => "is gone",
            Self::Down => "is down",
            Self::NoLink => "has no link",
            Self::Mtu => "has too small an MTU for the bus's frames",
            Self::Taken => "is in use by another MainDevice",
        }
    }

    /// Returns a sentence with the problem of the named interface and a remedy.
    #[must_use]
    pub fn sentence(self, name: &str) -> String {
        let remedy = match self {
            Self::Gone => "`ip link` lists the interfaces".to_owned(),
            Self::Down => format!("switch it on with `ip link set {name} up`"),
            Self::NoLink => "check the cable, and that the first SubDevice has power".to_owned(),
            Self::Mtu => format!("set it with `ip link set {name} mtu 1500`"),
            Self::Taken => "stop one of the two".to_owned(),
        };
        format!("the network interface \"{name}\" {}: {remedy}", self.words())
    }
}

/// A packet socket and its receive ring, or the AF_XDP socket that takes its place.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    pub(crate) xdp: Option<XdpSocket>,
    pub(crate) ring: Option<PacketRing>,
    pub(crate) interface: Interface,
}

impl PacketSocket {
    pub(crate) fn new(mut interface: Interface) -> Self {
        interface.prepare_for_loop();
        let xdp = interface.take_xdp();
        let ring = if xdp.is_none() { interface.packet_ring() } else { None };
        Self { xdp, ring, interface }
    }

    /// Returns the file descriptor that frames are sent to and waited for, during the lifetime of
    /// `self`.
    pub(crate) fn port(&self) -> Port {
        self.xdp.as_ref().map_or_else(|| self.interface.port(), XdpSocket::port)
    }

    /// Returns how frames pass, as the end of a sentence.
    pub(crate) fn words(&self) -> String {
        self.interface.words_with(self.xdp.as_ref())
    }
}

/// State shared by thread and loop.
#[derive(Debug, Default)]
struct SharedLink {
    /// A [`Trouble`], or 0.
    trouble: AtomicU32,
    /// The interface was created again: `other` holds a new socket.
    is_new: AtomicBool,
    /// The new socket; after the exchange, the old one.
    other: Mutex<Option<PacketSocket>>,
}

/// Watches one interface. The thread ends when the watcher is dropped.
#[derive(Debug)]
pub(crate) struct LinkWatcher {
    shared: Arc<SharedLink>,
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl LinkWatcher {
    /// Starts to watch the interface of a socket. The thread runs in the caller's network
    /// namespace.
    pub(crate) fn new(interface: &Interface) -> Result<Self, CarrierError> {
        let name = interface.name().to_owned();
        let failed = |source| CarrierError::System { what: "watch", name: name.clone(), source };
        let changes = netlink().map_err(|error| failed(error.into()))?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let until = stop.try_clone().map_err(failed)?;
        let shared = Arc::new(SharedLink::default());
        let mut monitor = LinkMonitor {
            name: name.clone(),
            index: interface.index(),
            method: interface.method(),
            changes,
            shared: Arc::clone(&shared),
        };
        monitor.check();
        let run = move || monitor.run(&until);
        let thread =
            std::thread::Builder::new().name("onbeat-link".to_owned()).stack_size(STACK_BYTES);
        let thread = thread.spawn(run).map_err(failed)?;

        Ok(Self { shared, stop, thread: Some(thread) })
    }

    /// Returns why the interface cannot send frames.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        match self.shared.trouble.load(Ordering::Relaxed) {
            0 => None,
            number => Trouble::from_number(number),
        }
    }

    /// Replaces the loop's socket when the interface was created again. Returns whether it did.
    /// Never blocks.
    pub(crate) fn exchange(&self, opened: &mut PacketSocket) -> bool {
        if !self.shared.is_new.load(Ordering::Acquire) {
            return false;
        }

        let Ok(mut other) = self.shared.other.try_lock() else { return false };
        if let Some(new) = other.as_mut() {
            std::mem::swap(new, opened);
        }

        self.shared.is_new.store(false, Ordering::Relaxed);
        true
    }
}

impl Drop for LinkWatcher {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// State of the thread.
struct LinkMonitor {
    name: String,
    /// Interface index of the newest socket.
    index: u32,
    method: WireMethod,
    changes: OwnedFd,
    shared: Arc<SharedLink>,
}

impl LinkMonitor {
    fn run(&mut self, stop: &OwnedFd) {
        loop {
            let mut files =
                [PollFd::new(&self.changes, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
            match poll(&mut files, None) {
                Ok(_) if !files[1].revents().is_empty() => return,
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }

            // The state is read from the interface itself; a queue overflow is as good as a
            // message.
            let mut message = [0; 4096];
            while rustix::io::read(&self.changes, &mut message).is_ok_and(|length| length > 0) {}
            self.check();
        }
    }

    /// Checks the current state of the interface.
    fn check(&mut self) {
        let now = LinkState::query(self.changes.as_fd().as_raw_fd(), &self.name);
        let trouble = match now {
            None => Some(Trouble::Gone),
            // The old interface is gone, and a netlink message follows when the new one is up.
            Some(state) if state.index != self.index && !state.is_up => Some(Trouble::Gone),
            Some(state) if state.index != self.index => match self.reopen(state.index) {
                Ok(()) => state.trouble(),
                Err(CarrierError::InUse { .. }) => Some(Trouble::Taken),
                // The old interface is gone, and the new one cannot be used yet.
                Err(_) => Some(Trouble::Gone),
            },
            Some(state) => state.trouble(),
        };

        self.shared.trouble.store(trouble.map_or(0, |trouble| trouble as u32), Ordering::Relaxed);
    }

    fn reopen(&mut self, index: u32) -> Result<(), CarrierError> {
        // A claim that this process has just given up may be held for a moment by a child that it
        // has just started.
        let open = || Interface::open_as(&self.name, Role::MainDevice);
        let interface = when_free(open, |why| matches!(why, CarrierError::InUse { .. }))?;
        let opened = PacketSocket::new(interface.by(self.method));
        // It went up meanwhile: the netlink message of it follows, and it is reopened then.
        if opened.interface.was_down() {
            return Err(CarrierError::Trouble { name: self.name.clone(), trouble: Trouble::Down });
        }

        let mut other = self.shared.other.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *other = Some(opened);
        self.index = index;
        self.shared.is_new.store(true, Ordering::Release);
        Ok(())
    }
}

/// Opens a netlink socket for changes of interfaces in this network namespace (rtnetlink(7)).
fn netlink() -> Result<OwnedFd, Errno> {
    use rustix::net::netlink::SocketAddrNetlink;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    bind(&socket, &SocketAddrNetlink::new(0, libc::RTMGRP_LINK.cast_unsigned()))?;
    Ok(socket)
}

/// State of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkState {
    pub(crate) index: u32,
    is_up: bool,
    has_link: bool,
    pub(crate) mtu: usize,
}

impl LinkState {
    /// Reads the state through any socket of the network namespace; `None` when the interface does
    /// not exist.
    pub(crate) fn query(socket: i32, name: &str) -> Option<Self> {
        let flags = interface_request(socket, name, libc::SIOCGIFFLAGS)?;
        let mtu = interface_request(socket, name, libc::SIOCGIFMTU)?;
        let index = interface_request(socket, name, libc::SIOCGIFINDEX)?;
        // SAFETY: the kernel has filled in the field that each request is about; all of them are
        // numbers.
        let (flags, mtu, index) = unsafe {
            (flags.ifr_ifru.ifru_flags, mtu.ifr_ifru.ifru_mtu, index.ifr_ifru.ifru_ifindex)
        };
        let has = |flag: libc::c_int| libc::c_int::from(flags) & flag != 0;
        Some(Self {
            index: u32::try_from(index).ok()?,
            is_up: has(libc::IFF_UP),
            has_link: has(libc::IFF_RUNNING),
            mtu: usize::try_from(mtu).ok()?,
        })
    }

    /// Returns why the interface cannot send frames.
    pub(crate) const fn trouble(self) -> Option<Trouble> {
        match (self.is_up, self.has_link) {
            (false, _) => Some(Trouble::Down),
            (true, false) => Some(Trouble::NoLink),
            (true, true) => None,
        }
    }
}

/// Returns a request about the interface with this name, all else zero; `None` if none can have it.
pub(super) fn request_about(name: &str) -> Option<libc::ifreq> {
    // SAFETY: all fields of the request are numbers or pointers, for which zero is valid.
    let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= ifreq.ifr_name.len() {
        return None;
    }

    for (place, byte) in ifreq.ifr_name.iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    Some(ifreq)
}

fn interface_request(socket: i32, name: &str, request: libc::c_ulong) -> Option<libc::ifreq> {
    let mut ifreq = request_about(name)?;
    // SAFETY: these requests read and write one `ifreq`, and `ifreq` lives across the call.
    let result = unsafe { libc::ioctl(socket, request as _, &raw mut ifreq) };
    (result == 0).then_some(ifreq)
}
