//! One MainDevice and one segment of onbeat on a network interface.
//!
//! Whoever uses an interface listens on an abstract Unix socket whose name holds the interface's number. Such names belong to the network
//! namespace, as interfaces do; the kernel frees them with the process, and knows who listens.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use rustix::fd::AsFd;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::CarrierError;

/// What an interface is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Frames are sent to devices.
    MainDevice,
    /// Simulated devices answer.
    Devices,
}

impl Role {
    const fn word(self) -> &'static str {
        match self {
            Self::MainDevice => "main",
            Self::Devices => "devices",
        }
    }

    /// The user of an interface in this role, in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::MainDevice => "a MainDevice of onbeat",
            Self::Devices => "a segment of onbeat",
        }
    }
}

/// An interface is in use in one role as long as this lives.
#[derive(Debug)]
pub(super) struct Claim {
    _listening: UnixListener,
}

impl Claim {
    /// Claims the interface with this number.
    ///
    /// # Errors
    /// [`CarrierError::InUse`] with the process that has it.
    pub(super) fn of(role: Role, index: u32, name: &str) -> Result<Self, CarrierError> {
        let failed = |source| CarrierError::System { what: "claim the interface", name: name.to_owned(), source };
        let address = SocketAddr::from_abstract_name(place(role, index)).map_err(failed)?;
        match UnixListener::bind_addr(&address) {
            Ok(listening) => Ok(Self { _listening: listening }),
            Err(why) if why.kind() == io::ErrorKind::AddrInUse => {
                let user = user(role, index).unwrap_or_default();
                Err(CarrierError::InUse { role: role.words(), name: name.to_owned(), user })
            }
            Err(why) => Err(failed(why)),
        }
    }
}

fn place(role: Role, index: u32) -> String {
    format!("onbeat/{}/{index}", role.word())
}

/// A process that uses an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// Its number; 0 when it is not known, such as that of a process in another PID namespace.
    pub pid: u32,
    /// Its name; empty when that cannot be read.
    pub process: String,
}

impl std::fmt::Display for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.pid, self.process.as_str()) {
            (0, _) => write!(f, "another process"),
            (pid, "") => write!(f, "process {pid}"),
            (pid, name) => write!(f, "process {pid} ({name})"),
        }
    }
}

/// The process that uses an interface in this role; `None` when none does, or it cannot be asked.
pub(super) fn user(role: Role, index: u32) -> Option<User> {
    // Nobody accepts, so a connection must not wait for room.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let asking = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
    connect(&asking, &SocketAddrUnix::new_abstract_name(place(role, index).as_bytes()).ok()?).ok()?;
    // SAFETY of the number: the kernel gives 0 for a process that this namespace does not have.
    let pid = listener_of(asking.as_fd());
    let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();

    Some(User { pid, process: comm.trim().to_owned() })
}

/// The process at the other end; 0 for one that this PID namespace does not have.
fn listener_of(socket: BorrowedFd<'_>) -> u32 {
    let mut of = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `of` has room for the length given, and both live across the call.
    let asked = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut of).cast(), &raw mut length)
    };

    if asked == 0 { of.pid.cast_unsigned() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No interface has such a number.
    const NO_INTERFACE: u32 = 0xffff_0001;

    #[test]
    fn an_interface_has_one_user_in_each_role_and_the_second_learns_who_is_the_first() {
        let number = NO_INTERFACE + std::process::id();
        assert_eq!(user(Role::MainDevice, number), None);
        let first = Claim::of(Role::MainDevice, number, "eth9").unwrap();
        assert!(Claim::of(Role::Devices, number, "eth9").is_ok(), "another role");
        for _ in 0..3 {
            let refused = Claim::of(Role::MainDevice, number, "eth9").unwrap_err().to_string();
            assert!(refused.contains(&format!("process {} (", std::process::id())), "{refused}");
        }

        drop(first);
        assert!(Claim::of(Role::MainDevice, number, "eth9").is_ok(), "free again");
    }

    #[test]
    fn a_user_is_named_even_when_many_have_asked() {
        let number = NO_INTERFACE - std::process::id();
        let _first = Claim::of(Role::Devices, number, "eth9").unwrap();
        let asked = (0..300).map(|_| user(Role::Devices, number));
        assert!(asked.flatten().all(|user| user.pid == std::process::id()));
    }
}
