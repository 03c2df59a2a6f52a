//! What keeps frames from leaving by a network interface, and a thread that sees it come and go.
//!
//! The kernel says by netlink that some interface changed; only then is ours looked at. So nothing happens while all is well, and the loop
//! reads one word. An interface that was deleted and made again gets a new socket here, which the loop takes over between two frames.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::AsFd;
use rustix::io::Errno;

use super::{CarrierError, Interface, PacketRing, Role};

/// The thread's stack: a process that locks its memory locks all of it.
const STACK_BYTES: usize = 128 * 1024;

/// Why no frame leaves by an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Trouble {
    /// There is no such interface any more.
    Gone = 1,
    /// It is switched off.
    Down = 2,
    /// It has no link: no cable, or nothing with power at its other end.
    NoLink = 3,
    /// Frames are longer than its MTU allows.
    Mtu = 4,
    /// It was made again, and another process has taken it.
    Taken = 5,
}

impl Trouble {
    const ALL: [Self; 5] = [Self::Gone, Self::Down, Self::NoLink, Self::Mtu, Self::Taken];

    /// The trouble of a number, as events have it.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|one| *one as u32 == number)
    }

    /// What an error of sending says.
    pub(crate) const fn of_errno(errno: i32) -> Option<Self> {
        match errno {
            libc::ENXIO | libc::ENODEV => Some(Self::Gone),
            libc::ENETDOWN => Some(Self::Down),
            libc::EMSGSIZE => Some(Self::Mtu),
            _ => None,
        }
    }

    /// The words after "the network interface".
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

    /// What is wrong with the interface of this name, and what to do about it.
    #[must_use]
    pub fn sentence(self, name: &str) -> String {
        let remedy = match self {
            Self::Gone => "`ip link` lists those there are".to_owned(),
            Self::Down => format!("switch it on with `ip link set {name} up`"),
            Self::NoLink => "check the cable, and that the first SubDevice has power".to_owned(),
            Self::Mtu => format!("set it with `ip link set {name} mtu 1500`"),
            Self::Taken => "end one of the two".to_owned(),
        };
        format!("the network interface \"{name}\" {}: {remedy}", self.words())
    }
}

/// A socket on an interface, and the memory that its frames come by.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) interface: Interface,
    pub(crate) ring: Option<PacketRing>,
}

impl Opened {
    pub(crate) fn on(interface: Interface) -> Self {
        interface.for_a_loop();
        let ring = interface.packet_ring();
        Self { interface, ring }
    }
}

/// What thread and loop share.
#[derive(Debug, Default)]
struct Shared {
    /// A [`Trouble`], or 0.
    trouble: AtomicU32,
    /// The interface was made again: a socket waits in `other`.
    is_new: AtomicBool,
    /// The new socket; after it was taken over, the old one.
    other: Mutex<Option<Opened>>,
}

/// Watches one interface. The thread ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Watcher {
    shared: Arc<Shared>,
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Begins to watch the interface of this socket. The thread stays in the network namespace of the one that calls.
    pub(crate) fn of(interface: &Interface) -> Result<Self, CarrierError> {
        let name = interface.name().to_owned();
        let failed = |source| CarrierError::System { what: "watch", name: name.clone(), source };
        let changes = netlink().map_err(|error| failed(error.into()))?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let until = stop.try_clone().map_err(failed)?;
        let shared = Arc::new(Shared::default());
        let mut of_thread =
            Watched { name: name.clone(), index: interface.index(), changes, shared: Arc::clone(&shared) };
        of_thread.look();
        let run = move || of_thread.run(&until);
        let thread = std::thread::Builder::new().name("onbeat-link".to_owned()).stack_size(STACK_BYTES);
        let thread = thread.spawn(run).map_err(failed)?;

        Ok(Self { shared, stop, thread: Some(thread) })
    }

    /// What is wrong with the interface.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        match self.shared.trouble.load(Ordering::Relaxed) {
            0 => None,
            number => Trouble::from_number(number),
        }
    }

    /// Exchanges the loop's socket for a new one, when the interface was made again. Never waits.
    pub(crate) fn exchange(&self, opened: &mut Opened) -> bool {
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

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread's own.
struct Watched {
    name: String,
    /// Number of the interface that the newest socket is on.
    index: u32,
    changes: OwnedFd,
    shared: Arc<Shared>,
}

impl Watched {
    fn run(&mut self, stop: &OwnedFd) {
        loop {
            let mut files = [PollFd::new(&self.changes, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
            match poll(&mut files, None) {
                Ok(_) if !files[1].revents().is_empty() => return,
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }

            // What changed is read from the interface itself; a full queue says as much as a message.
            let mut message = [0; 4096];
            while rustix::io::read(&self.changes, &mut message).is_ok_and(|length| length > 0) {}
            self.look();
        }
    }

    /// Looks at the interface as it is now.
    fn look(&mut self) {
        let now = LinkState::of(self.changes.as_fd().as_raw_fd(), &self.name);
        let trouble = match now {
            None => Some(Trouble::Gone),
            Some(state) if state.index != self.index => match self.open_again(state.index) {
                Ok(()) => state.trouble(),
                Err(CarrierError::InUse { .. }) => Some(Trouble::Taken),
                // The interface of before is gone until there is one to send by.
                Err(_) => Some(Trouble::Gone),
            },
            Some(state) => state.trouble(),
        };

        self.shared.trouble.store(trouble.map_or(0, |trouble| trouble as u32), Ordering::Relaxed);
    }

    fn open_again(&mut self, index: u32) -> Result<(), CarrierError> {
        let opened = Opened::on(Interface::open_as(&self.name, Role::MainDevice)?);
        // A message says when it is up: then it is opened once more.
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

/// A socket that the kernel writes to when some interface of this network namespace changes (rtnetlink(7)).
fn netlink() -> Result<OwnedFd, Errno> {
    use rustix::net::netlink::SocketAddrNetlink;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    bind(&socket, &SocketAddrNetlink::new(0, libc::RTMGRP_LINK.cast_unsigned()))?;
    Ok(socket)
}

/// An interface as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkState {
    pub(crate) index: u32,
    is_up: bool,
    has_link: bool,
    pub(crate) mtu: usize,
}

impl LinkState {
    /// Asks by any socket of the network namespace; `None` when there is no interface of this name.
    pub(crate) fn of(socket: i32, name: &str) -> Option<Self> {
        let flags = asked(socket, name, libc::SIOCGIFFLAGS)?;
        let mtu = asked(socket, name, libc::SIOCGIFMTU)?;
        let index = asked(socket, name, libc::SIOCGIFINDEX)?;
        // SAFETY: the kernel has filled in the field that each request is about; all of them are numbers.
        let (flags, mtu, index) =
            unsafe { (flags.ifr_ifru.ifru_flags, mtu.ifr_ifru.ifru_mtu, index.ifr_ifru.ifru_ifindex) };
        let has = |flag: libc::c_int| libc::c_int::from(flags) & flag != 0;
        Some(Self {
            index: u32::try_from(index).ok()?,
            is_up: has(libc::IFF_UP),
            has_link: has(libc::IFF_RUNNING),
            mtu: usize::try_from(mtu).ok()?,
        })
    }

    /// What keeps frames from leaving by it.
    pub(crate) const fn trouble(self) -> Option<Trouble> {
        match (self.is_up, self.has_link) {
            (false, _) => Some(Trouble::Down),
            (true, false) => Some(Trouble::NoLink),
            (true, true) => None,
        }
    }
}

fn asked(socket: i32, name: &str, request: libc::c_ulong) -> Option<libc::ifreq> {
    // SAFETY: all fields of the request are numbers, for which zero is valid.
    let mut about: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= about.ifr_name.len() {
        return None;
    }

    for (place, byte) in about.ifr_name.iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }

    // SAFETY: these requests read and write one `ifreq`, which `about` is, and it lives across the call.
    let done = unsafe { libc::ioctl(socket, request as _, &raw mut about) };
    (done == 0).then_some(about)
}
