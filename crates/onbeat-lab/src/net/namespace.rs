//! A network namespace without a name: it lasts as long as a descriptor or a socket of it is open.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use super::netlink::Netlink;

/// The calling thread's namespace.
const OWN: &str = "/proc/thread-self/ns/net";
/// Number of the loopback interface in every namespace.
const LOOPBACK_INDEX: u32 = 1;

/// A namespace, and a socket in it.
#[derive(Debug)]
pub(super) struct Namespace {
    file: File,
    pub(super) netlink: Netlink,
}

impl Namespace {
    /// Creates a namespace with its loopback interface up, and leaves the calling thread in it.
    ///
    /// The thread should end soon: it keeps the namespace alive as well.
    pub(super) fn create_and_enter() -> io::Result<Self> {
        // SAFETY: the thread leaves its network namespace only; descriptors and memory stay shared.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET)? };
        let netlink = Netlink::open()?;
        // Only packets of the experiment: no IPv6 neighbour discovery. A kernel without IPv6 has
        // nothing to switch off.
        for which in ["all", "default"] {
            let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1");
        }
        netlink.bring_up(LOOPBACK_INDEX, None)?;
        Ok(Self { file: File::open(OWN)?, netlink })
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Does `work` with the calling thread in this namespace, then returns to where it was. Threads
    /// and processes that `work` starts stay in this one.
    pub(super) fn within<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        let home = File::open(OWN)?;
        let enter =
            |file: &File| move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network));
        enter(&self.file)?;
        let result = work();
        enter(&home)?;
        Ok(result)
    }
}
