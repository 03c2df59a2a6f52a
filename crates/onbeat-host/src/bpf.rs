//! bpf(2) without a library: the one door to the system call, for the programs that record why a loop was late and
//! those that interfaces run.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// `BPF_LINK_CREATE`.
const LINK_CREATE: c_int = 28;
/// `BPF_XDP`.
const XDP_ATTACHMENT: u32 = 37;
/// `XDP_FLAGS_SKB_MODE` and `XDP_FLAGS_DRV_MODE`.
const IN_STACK: u32 = 1 << 1;
const IN_DRIVER: u32 = 1 << 2;

/// Attributes of a bpf(2) command (`union bpf_attr`, `include/uapi/linux/bpf.h`): the kernel reads the part that the
/// command needs. Larger than any command used here needs, and zero-filled.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub struct BpfAttributes([u64; 16]);

impl BpfAttributes {
    /// All zero.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "attributes are always filled in")]
    pub const fn new() -> Self {
        Self([0; 16])
    }

    /// Sets 4 bytes at this offset, a multiple of 4.
    #[must_use]
    pub fn word(mut self, at: usize, value: u32) -> Self {
        let place = &mut self.0[at / 8];
        let mut bytes = place.to_ne_bytes();
        bytes[at % 8..at % 8 + 4].copy_from_slice(&value.to_ne_bytes());
        *place = u64::from_ne_bytes(bytes);
        self
    }

    /// Sets 8 bytes at this offset, a multiple of 8.
    #[must_use]
    pub const fn double(mut self, at: usize, value: u64) -> Self {
        self.0[at / 8] = value;
        self
    }
}

/// Gives a command to the kernel; returns its answer.
///
/// # Errors
/// The kernel's error.
///
/// # Safety
/// Addresses inside `attributes` must point to memory as large as the command reads and writes, for the call's duration.
pub unsafe fn command(command: c_int, mut attributes: BpfAttributes) -> io::Result<c_int> {
    let size = size_of::<BpfAttributes>();
    // SAFETY: the attributes are valid for `size` bytes; the caller guarantees the addresses in them.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut attributes, size) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer as c_int) }
}

/// Gives a command whose answer is a descriptor: a map, a program or a link.
///
/// # Errors
/// The kernel's error.
///
/// # Safety
/// As [`command`]; and the command must create a descriptor.
pub unsafe fn create(number: c_int, attributes: BpfAttributes) -> io::Result<OwnedFd> {
    // SAFETY: the caller guarantees the addresses.
    let created = unsafe { command(number, attributes) }?;
    // SAFETY: the kernel has just created this descriptor, and no other code owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(created) })
}

/// Attaches the XDP program with this descriptor to the interface with this index of the caller's
/// network namespace, in its driver or in the network stack, until the answer is dropped.
///
/// # Errors
/// The kernel's error: `EOPNOTSUPP` for a driver without XDP, `EBUSY` beside another program.
pub fn attach_to_interface(program: i32, interface: u32, in_driver: bool) -> io::Result<OwnedFd> {
    let flags = if in_driver { IN_DRIVER } else { IN_STACK };
    let attributes = BpfAttributes::new().word(0, program.cast_unsigned()).word(4, interface);
    let attributes = attributes.word(8, XDP_ATTACHMENT).word(12, flags);
    // SAFETY: no addresses in these attributes.
    unsafe { create(LINK_CREATE, attributes) }
}
