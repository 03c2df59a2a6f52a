//! bpf(2) without a library: the one door to the system call, for the programs that record why a loop was late and
//! those that interfaces run.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// `BPF_PROG_LOAD`.
const PROGRAM_LOAD: c_int = 5;
/// How often a program is given to the verifier, as in `tools/lib/bpf/bpf.c`.
const LOAD_ATTEMPTS: usize = 5;

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

/// Loads a program, again when a signal ended the verifier.
///
/// # Errors
/// The kernel's error.
///
/// # Safety
/// As [`command`], for `BPF_PROG_LOAD`.
pub unsafe fn load(attributes: BpfAttributes) -> io::Result<OwnedFd> {
    let mut attempts = 1;
    loop {
        // SAFETY: the caller guarantees the addresses, and the command creates a program.
        match unsafe { create(PROGRAM_LOAD, attributes) } {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && attempts < LOAD_ATTEMPTS => {
                attempts += 1;
            }
            loaded => return loaded,
        }
    }
}
