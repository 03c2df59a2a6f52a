//! Process and user at the other end of a socket.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Who connected, or who listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    /// 0 for a process of another PID namespace.
    pub(super) pid: u32,
    pub(super) uid: u32,
}

impl Peer {
    /// Asks the kernel (`SO_PEERCRED`).
    pub(super) fn of(socket: impl AsFd) -> io::Result<Self> {
        let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut length = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to `found`, plain numbers of any value.
        let answer = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut found).cast(),
                &raw mut length,
            )
        };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { pid: found.pid.cast_unsigned(), uid: found.uid })
    }

    /// Returns whether it is this process's user, or root.
    pub(super) fn is_own_or_root(self) -> bool {
        self.uid == 0 || self.uid == rustix::process::geteuid().as_raw()
    }
}

/// Returns the name of a process; empty if it is unknown.
pub(super) fn name_of(pid: u32) -> String {
    onbeat_host::process::text(format!("/proc/{pid}/comm"))
        .map_or_else(|_| String::new(), |name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_end_of_a_pair_is_this_process() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let peer = Peer::of(&one).unwrap();
        assert_eq!(peer.pid, std::process::id());
        assert!(peer.is_own_or_root() && !name_of(peer.pid).is_empty());
        assert!(!Peer { uid: 4_000_000, ..peer }.is_own_or_root());
    }
}
