//! A receive ring shared with the kernel: frames are taken without a system call
//! (`Documentation/networking/packet_mmap.rst`).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use onbeat_rt::time::SECOND_NS;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::time::{ClockId, clock_gettime};

use super::socket_option::set;

/// Options of packet sockets (`include/uapi/linux/if_packet.h`).
const PACKET_RX_RING: libc::c_int = 5;
const PACKET_VERSION: libc::c_int = 10;
const TPACKET_V2: libc::c_int = 1;

/// Owner of a slot: the kernel when 0, this process when the bit is set.
const TP_STATUS_KERNEL: u32 = 0;
const TP_STATUS_USER: u32 = 1;

/// Size of a slot: a header of at most 100 bytes and the longest Ethernet frame, in bytes.
const SLOT: usize = 2_048;
/// Number of slots: the frames of several cycles, so that a late loop loses none.
const SLOTS: usize = 64;
/// Size of a memory block in bytes. Blocks are whole pages; the largest page size is 64 KiB.
const BLOCK: usize = 65_536;
const BYTES: usize = SLOT * SLOTS;

/// `struct tpacket_req`.
#[repr(C)]
struct RingRequest {
    block_size: u32,
    blocks: u32,
    slot_size: u32,
    slots: u32,
}

/// The beginning of `struct tpacket2_hdr`.
#[repr(C)]
struct PacketHeader {
    status: u32,
    length: u32,
    captured: u32,
    frame_at: u16,
    network_at: u16,
    seconds: u32,
    nanoseconds: u32,
}

/// Slots that the kernel fills in order. Unmapped when dropped.
#[derive(Debug)]
pub(crate) struct PacketRing {
    memory: NonNull<u8>,
    next: usize,
    /// Arrival of the last frame on `CLOCK_REALTIME`, in ns.
    arrived_ns: u64,
}

// SAFETY: this value owns the memory exclusively, and the kernel's side does not depend on threads.
unsafe impl Send for PacketRing {}

impl PacketRing {
    /// Creates the receive ring of a raw socket, which can then only be read through the ring.
    ///
    /// # Errors
    /// The error of the kernel: a socket of another kind, or a kernel without rings.
    pub(super) fn new(socket: BorrowedFd<'_>) -> io::Result<Self> {
        set(socket, libc::SOL_PACKET, PACKET_VERSION, &TPACKET_V2)?;
        let request = RingRequest {
            block_size: BLOCK as u32,
            blocks: (BYTES / BLOCK) as u32,
            slot_size: SLOT as u32,
            slots: SLOTS as u32,
        };

        set(socket, libc::SOL_PACKET, PACKET_RX_RING, &request)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address chosen by the kernel; the ring has just been created
        // with this length.
        let memory =
            unsafe { mmap(std::ptr::null_mut(), BYTES, access, MapFlags::SHARED, socket, 0) }?;
        NonNull::new(memory.cast())
            .map(|memory| Self { memory, next: 0, arrived_ns: 0 })
            .ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// Copies the next received frame into `buffer`, truncated to its length. Returns the number of
    /// bytes copied.
    pub(crate) fn take(&mut self, buffer: &mut [u8]) -> Option<usize> {
        // SAFETY: `next` is below SLOTS, so the whole slot is inside the mapping.
        let slot = unsafe { self.memory.add(self.next * SLOT) };
        // SAFETY: a slot begins with its status, aligned to its own size, and both sides use it as
        // an atomic.
        let status = unsafe { AtomicU32::from_ptr(slot.cast().as_ptr()) };
        if status.load(Ordering::Acquire) & TP_STATUS_USER == 0 {
            return None;
        }

        // SAFETY: the status gives the slot to this process; slots are aligned to 2048 bytes.
        let header = unsafe { slot.cast::<PacketHeader>().read() };
        let at = usize::from(header.frame_at).min(SLOT);
        let length = (header.captured as usize).min(SLOT - at).min(buffer.len());
        // SAFETY: `at + length` stays inside the slot, which this process owns.
        let frame = unsafe { std::slice::from_raw_parts(slot.as_ptr().add(at), length) };
        buffer[..length].copy_from_slice(frame);
        status.store(TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % SLOTS;
        self.arrived_ns = u64::from(header.seconds) * SECOND_NS + u64::from(header.nanoseconds);

        Some(length)
    }

    /// Returns the age of the frame taken last, in ns; `None` when the wall clock, which stamps the
    /// frames, was set in between.
    pub(crate) fn age_ns(&self) -> Option<u64> {
        let now = clock_gettime(ClockId::Realtime);
        let now_ns = (now.tv_sec.cast_unsigned())
            .checked_mul(SECOND_NS)?
            .checked_add(now.tv_nsec.cast_unsigned())?;
        now_ns.checked_sub(self.arrived_ns).filter(|age_ns| *age_ns < SECOND_NS)
    }
}

impl Drop for PacketRing {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; nothing borrows from it.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), BYTES) };
    }
}
