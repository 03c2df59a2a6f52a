//! Number of receive queues of an interface.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

use crate::carrier::link_watch::request_about;

/// `SIOCETHTOOL` and `ETHTOOL_GCHANNELS` (`include/uapi/linux/sockios.h`, `ethtool.h`).
const ETHTOOL: libc::c_ulong = 0x8946;
const GET_CHANNELS: u32 = 0x3c;

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    most: [u32; 4],
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

/// Returns the number of receive queues; 1 for drivers that do not report it.
pub(super) fn receive_queues(socket: BorrowedFd<'_>, name: &str) -> u32 {
    let mut channels = Channels { command: GET_CHANNELS, ..Channels::default() };
    let Some(mut request) = request_about(name) else { return 1 };
    request.ifr_ifru.ifru_data = (&raw mut channels).cast();
    // SAFETY: the request points to channels, which the kernel fills in; both live across the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), ETHTOOL as _, &raw mut request) };
    let queues = channels.receive + channels.combined;
    if result == 0 { queues.max(1) } else { 1 }
}
