//! Process and user at the other end of a socket.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Who connected, or who listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// 0 for a process of another PID namespace.
    // So not as rustix has it, whose numbers of processes cannot be 0.
    pub pid: u32,
    /// Its effective user.
    pub uid: u32,
}

impl Peer {
    /// Asks the kernel (`SO_PEERCRED`).
    ///
    /// # Errors
    /// The system's answer.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
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
    #[must_use]
    pub fn is_own_or_root(self) -> bool {
        self.uid == 0 || self.uid == rustix::process::geteuid().as_raw()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_end_of_a_pair_is_this_process() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let peer = Peer::of(&one).unwrap();
        assert_eq!(peer.pid, std::process::id());
        assert!(peer.is_own_or_root());
        assert!(!Peer { uid: 4_000_000, ..peer }.is_own_or_root());
    }
}
