//! Options of sockets that rustix does not have.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

pub(super) fn set<T>(
    socket: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    let value = std::ptr::from_ref(value).cast();
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: `value` is of the length given and lives across the call.
    let result = unsafe { libc::setsockopt(socket, level, option, value, length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What the kernel may write any bytes to.
///
/// # Safety
/// Every pattern of bits is a value.
pub(super) unsafe trait AnyBits: Copy {}

// SAFETY: a number.
unsafe impl AnyBits for i32 {}
// SAFETY: a number.
unsafe impl AnyBits for u32 {}
// SAFETY: made of numbers.
unsafe impl AnyBits for libc::xdp_mmap_offsets {}

/// Reads an option; of one that is shorter than `T`, the rest is 0.
pub(super) fn get<T: AnyBits>(
    socket: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
) -> io::Result<T> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: zeros are a value of it, as any bits are.
    let mut read: T = unsafe { std::mem::zeroed() };
    let value = (&raw mut read).cast();
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: `read` has the length given, takes any bits, and lives across the call.
    let result = unsafe { libc::getsockopt(socket, level, option, value, &raw mut length) };
    if result == 0 { Ok(read) } else { Err(io::Error::last_os_error()) }
}
