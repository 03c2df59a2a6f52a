//! Exclusive use of a network interface: one MainDevice and one segment of onbeat.
//!
//! The user of an interface listens on an abstract Unix socket named after the interface index.
//! Abstract names belong to the network namespace, as interfaces do; the kernel frees them with the
//! process and knows the listening process.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use onbeat_host::peer::Peer;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::CarrierError;

/// Role in which a process uses an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends frames to devices.
    MainDevice,
    /// Simulates devices.
    Devices,
}

impl Role {
    const fn word(self) -> &'static str {
        match self {
            Self::MainDevice => "main",
            Self::Devices => "devices",
        }
    }

    /// Returns the user of an interface in this role as text.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::MainDevice => "a MainDevice of onbeat",
            Self::Devices => "a segment of onbeat",
        }
    }
}

/// Reserves an interface in one role until it is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    _listening: UnixListener,
}

impl Claim {
    /// Claims the interface with this index.
    ///
    /// # Errors
    /// [`CarrierError::InUse`] with the process that uses it.
    pub(super) fn new(role: Role, index: u32, name: &str) -> Result<Self, CarrierError> {
        let failed = |source| CarrierError::System {
            what: "claim the interface",
            name: name.to_owned(),
            source,
        };
        let address = SocketAddr::from_abstract_name(socket_name(role, index)).map_err(failed)?;
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

fn socket_name(role: Role, index: u32) -> String {
    format!("onbeat/{}/{index}", role.word())
}

/// A process that uses an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// Process id; 0 when it is unknown, as for a process in another PID namespace.
    pub pid: u32,
    /// Process name; empty when it cannot be read.
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

/// Returns the process that uses an interface in this role; `None` when it is free or the query
/// fails.
pub(super) fn user(role: Role, index: u32) -> Option<User> {
    // Nobody accepts connections, so connecting must not block when the backlog is full.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
    connect(&socket, &SocketAddrUnix::new_abstract_name(socket_name(role, index).as_bytes()).ok()?)
        .ok()?;
    let pid = Peer::of(&socket).map_or(0, |peer| peer.pid);
    Some(User { pid, process: onbeat_host::process::name(pid) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No interface has such an index; with the greatest process id (2^22), it is still a number.
    const NO_INTERFACE: u32 = 0xf000_0001;

    #[test]
    fn an_interface_has_one_user_per_role_and_a_second_one_gets_the_process_of_the_first() {
        let number = NO_INTERFACE + std::process::id();
        assert_eq!(user(Role::MainDevice, number), None);
        let first = Claim::new(Role::MainDevice, number, "eth9").unwrap();
        assert!(Claim::new(Role::Devices, number, "eth9").is_ok(), "another role");
        for _ in 0..3 {
            let refused = Claim::new(Role::MainDevice, number, "eth9").unwrap_err().to_string();
            assert!(refused.contains(&format!("process {} (", std::process::id())), "{refused}");
        }

        drop(first);
        assert!(Claim::new(Role::MainDevice, number, "eth9").is_ok(), "free again");
    }

    #[test]
    fn a_user_is_named_after_many_queries() {
        let number = NO_INTERFACE - std::process::id();
        let _first = Claim::new(Role::Devices, number, "eth9").unwrap();
        let users = (0..300).map(|_| user(Role::Devices, number));
        assert!(users.flatten().all(|user| user.pid == std::process::id()));
    }
}
