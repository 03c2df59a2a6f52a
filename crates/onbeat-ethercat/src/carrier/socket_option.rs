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

/// Reads an option into `value`, which has its length; any bytes must be a value of `T`.
pub(super) fn get<T: Copy>(
    socket: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &mut T,
) -> io::Result<()> {
    let mut length = size_of::<T>() as libc::socklen_t;
    let value = std::ptr::from_mut(value).cast();
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: `value` has the length given, and both live across the call.
    let result = unsafe { libc::getsockopt(socket, level, option, value, &raw mut length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
