//! A socket of AF_XDP with its frame memory and its four rings.
//!
//! Frames received: fill ring (free places for the kernel), receive ring. Frames sent: transmit
//! ring, completion ring (places that are free again).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use onbeat_rt::sys::{Errno, Port};

use super::frame_memory::{CHUNK, FrameMemory};
use super::program::{AttachMode, XdpProgram};
use super::queues::receive_queues;
use super::ring::XdpRing;
use super::{XdpError, when_free};
use crate::carrier::socket_option::{get, set};

/// Entries of each ring: frames of several cycles. A power of two.
const ENTRIES: u32 = 128;
/// Values of the options for busy polling: time of a blocking call, in µs, and frames per poll.
const POLL_US: libc::c_int = 20;
const FRAMES_PER_POLL: libc::c_int = 64;
/// Where the rings lie in the memory of a socket (`include/uapi/linux/if_xdp.h`).
const RECEIVE_AT: u64 = 0;
const TRANSMIT_AT: u64 = 0x8000_0000;
const FILL_AT: u64 = 0x1_0000_0000;
const COMPLETION_AT: u64 = 0x1_8000_0000;
/// The only queue of the interface.
const QUEUE: u32 = 0;
/// `struct xdp_umem_reg` of the first kernels with AF_XDP, which all later ones accept.
#[repr(C)]
struct MemoryRequest {
    address: u64,
    bytes: u64,
    chunk: u32,
    headroom: u32,
}

/// The rings of a socket.
#[derive(Debug)]
struct XdpRings {
    receive: XdpRing<libc::xdp_desc>,
    transmit: XdpRing<libc::xdp_desc>,
    fill: XdpRing<u64>,
    completion: XdpRing<u64>,
}

impl XdpRings {
    /// Maps the rings of a socket on which [`register`] has requested them.
    fn map(socket: &OwnedFd) -> io::Result<Self> {
        let places = ring_places(socket)?;
        let at = socket.as_fd();
        // SAFETY: the four rings were requested with ENTRIES entries; receive and transmit rings
        // hold descriptors, the others addresses. The offsets are the kernel's.
        unsafe {
            Ok(Self {
                receive: XdpRing::map(at, RECEIVE_AT, ENTRIES, places.rx)?,
                transmit: XdpRing::map(at, TRANSMIT_AT, ENTRIES, places.tx)?,
                fill: XdpRing::map(at, FILL_AT, ENTRIES, places.fr)?,
                completion: XdpRing::map(at, COMPLETION_AT, ENTRIES, places.cr)?,
            })
        }
    }
}

/// A socket that receives and sends frames of one interface. Fields are dropped in this order: the
/// program first, the memory last.
#[derive(Debug)]
pub(crate) struct XdpSocket {
    program: XdpProgram,
    rings: XdpRings,
    socket: OwnedFd,
    is_zero_copy: bool,
    /// This process polls the card's queue.
    is_polling: bool,
    /// Free places for frames to be sent.
    free: Vec<u64>,
    memory: FrameMemory,
    /// Arrival of the last frame on `CLOCK_MONOTONIC`, in ns.
    arrived_ns: Option<u64>,
}

impl XdpSocket {
    /// Opens a socket on an interface of the caller's network namespace and attaches the program.
    ///
    /// # Errors
    /// [`XdpError`] with the refused step.
    pub(in crate::carrier) fn open(
        index: u32,
        name: &str,
        any_socket: BorrowedFd<'_>,
    ) -> Result<Self, XdpError> {
        let queues = receive_queues(any_socket, name);
        if queues > 1 {
            return Err(XdpError::Queues { name: name.to_owned(), queues });
        }

        let failed = |step| move |source| XdpError::from_step(step, source);
        let memory = FrameMemory::new(2 * ENTRIES as usize).map_err(failed("allocate frames"))?;
        let socket = open_socket().map_err(failed("open an AF_XDP socket"))?;
        register(&socket, &memory).map_err(failed("register memory of frames"))?;
        let mut rings = XdpRings::map(&socket).map_err(failed("map the rings"))?;
        let place = |number: u32| u64::from(number) * CHUNK as u64;
        for number in 0..ENTRIES {
            rings.fill.put(place(number));
        }

        let mut program = XdpProgram::attach(index, name)?;
        when_free(|| {
            bind(&socket, index, program.mode).map_err(|source| match source.raw_os_error() {
                Some(libc::EBUSY) => {
                    XdpError::Busy { what: "receive queue", name: name.to_owned() }
                }
                _ => XdpError::from_step("bind an AF_XDP socket", source),
            })
        })?;
        program.redirect(QUEUE, socket.as_fd())?;

        let is_zero_copy = options(&socket) & libc::XDP_OPTIONS_ZEROCOPY != 0;
        let free = (ENTRIES..2 * ENTRIES).map(place).collect();
        Ok(Self {
            program,
            rings,
            socket,
            is_zero_copy,
            is_polling: false,
            free,
            memory,
            arrived_ns: None,
        })
    }

    /// Makes this process poll the card's queue in its system calls on the socket, instead of the
    /// card's interrupt (`Documentation/networking/napi.rst`, "Busy polling").
    ///
    /// # Errors
    /// [`XdpError::NoQueueToPoll`], or the refused option.
    pub(in crate::carrier) fn poll_queue(&mut self) -> Result<(), XdpError> {
        let failed = |source| XdpError::from_step("set busy polling of a socket", source);
        let options = [
            (libc::SO_PREFER_BUSY_POLL, 1),
            (libc::SO_BUSY_POLL, POLL_US),
            (libc::SO_BUSY_POLL_BUDGET, FRAMES_PER_POLL),
        ];
        for (option, value) in options {
            set(&self.socket, libc::SOL_SOCKET, option, &value).map_err(failed)?;
        }

        let queue: libc::c_int =
            get(&self.socket, libc::SOL_SOCKET, libc::SO_INCOMING_NAPI_ID).map_err(failed)?;
        self.is_polling = queue != 0;
        if self.is_polling { Ok(()) } else { Err(XdpError::NoQueueToPoll) }
    }

    /// Returns whether this process polls the card's queue.
    pub(crate) const fn is_polling(&self) -> bool {
        self.is_polling
    }

    /// Returns the file descriptor, for a loop that waits for frames during the lifetime of `self`.
    pub(crate) fn port(&self) -> Port {
        Port::new(self.socket.as_raw_fd())
    }

    /// Returns where the program runs and whether frames are copied.
    pub(crate) fn words(&self) -> String {
        let copying = if self.is_zero_copy { "zero copy" } else { "copy mode" };
        let polling = if self.is_polling { ", busy polling" } else { "" };
        format!("{}, {copying}{polling}", self.program.mode.words())
    }

    /// Copies the next received frame into `buffer`, truncated to its length. Returns the number of
    /// bytes copied.
    pub(crate) fn take(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let Some(frame) = self.rings.receive.take() else {
            if self.is_polling || (self.is_zero_copy && self.rings.fill.needs_wakeup()) {
                // This call polls the card's queue, or makes the driver take free places; a frame
                // that it brings is taken by the next call.
                let _ = self.port().is_ready_within(0);
            }
            return None;
        };

        let length = self.memory.read(frame.addr, frame.len, buffer);
        self.arrived_ns = self.memory.take_stamp(frame.addr);
        // There is always room: the places are as many as the ring's entries.
        self.rings.fill.put(frame.addr & !(CHUNK as u64 - 1));
        Some(length)
    }

    /// Returns the arrival of the frame taken last on `CLOCK_MONOTONIC`, in ns.
    pub(crate) const fn arrived_ns(&self) -> Option<u64> {
        self.arrived_ns
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// [`Errno`]; the frame is lost.
    pub(crate) fn send(&mut self, frame: &[u8]) -> Result<(), Errno> {
        while let Some(place) = self.rings.completion.take() {
            self.free.push(place);
        }

        if frame.len() > CHUNK {
            return Err(Errno(libc::EMSGSIZE));
        }

        // A driver that still holds an old frame gets no newer one: set-points must not queue up.
        let place = if self.rings.transmit.is_consumed() { self.free.pop() } else { None };
        let Some(addr) = place else {
            return self.wake_driver().and(Err(Errno(libc::EAGAIN)));
        };

        let len = self.memory.write(addr, frame);
        self.rings.transmit.put(libc::xdp_desc { addr, len, options: 0 });
        let sent = self.wake_driver();
        // In copy mode the kernel reads the ring in this call only, so a refused frame is dropped
        // and not sent late.
        if sent.is_err() && !self.is_zero_copy && self.rings.transmit.take_back() {
            self.free.push(addr);
        }
        sent
    }

    /// Makes the kernel send what is in the transmit ring.
    fn wake_driver(&self) -> Result<(), Errno> {
        let none: [u8; 0] = [];
        // SAFETY: an empty buffer.
        let sent = unsafe {
            libc::send(self.socket.as_raw_fd(), none.as_ptr().cast(), 0, libc::MSG_DONTWAIT)
        };
        if sent >= 0 {
            return Ok(());
        }

        Err(Errno(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)))
    }
}

fn open_socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let socket = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }

    // SAFETY: `socket` was just opened and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

/// Registers the memory and requests the four rings.
fn register(socket: &OwnedFd, memory: &FrameMemory) -> io::Result<()> {
    let request = MemoryRequest {
        address: memory.address(),
        bytes: memory.bytes() as u64,
        chunk: CHUNK as u32,
        headroom: 0,
    };
    set(socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &request)?;
    for ring in [
        libc::XDP_UMEM_FILL_RING,
        libc::XDP_UMEM_COMPLETION_RING,
        libc::XDP_RX_RING,
        libc::XDP_TX_RING,
    ] {
        set(socket, libc::SOL_XDP, ring, &ENTRIES)?;
    }

    Ok(())
}

fn ring_places(socket: &OwnedFd) -> io::Result<libc::xdp_mmap_offsets> {
    get(socket, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)
}

fn options(socket: &OwnedFd) -> u32 {
    get(socket, libc::SOL_XDP, libc::XDP_OPTIONS).unwrap_or(0)
}

fn bind(socket: &OwnedFd, index: u32, mode: AttachMode) -> io::Result<()> {
    let copying = match mode {
        AttachMode::Driver => 0,
        AttachMode::Generic => libc::XDP_COPY,
    };
    // SAFETY: all fields are numbers, for which zero is valid.
    let mut address: libc::sockaddr_xdp = unsafe { std::mem::zeroed() };
    address.sxdp_family = libc::AF_XDP as u16;
    address.sxdp_flags = libc::XDP_USE_NEED_WAKEUP | copying;
    address.sxdp_ifindex = index;
    address.sxdp_queue_id = QUEUE;
    let length = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: `address` is a whole address of the length given, and lives across the call.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    if bound == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
