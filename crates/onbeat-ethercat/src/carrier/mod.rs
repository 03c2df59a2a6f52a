//! Network interfaces that carry EtherCAT frames: raw sockets, AF_XDP sockets, TAP devices, and a
//! veth pair in a private network namespace.
//!
//! Absent on purpose: a real-time priority, which the starter of the process sets.

mod claim;
mod interface;
mod link_watch;
mod packet_ring;
mod private_cable;
mod socket_option;
mod wire_method;
mod xdp;

pub use claim::{Role, User};
pub use interface::Interface;
pub use link_watch::Trouble;
pub(crate) use link_watch::{LinkWatcher, PacketSocket};
pub(crate) use packet_ring::PacketRing;
pub use private_cable::private_cable;
pub use wire_method::{UnknownWire, WireMethod};
pub(crate) use xdp::XdpSocket;
pub use xdp::{AttachMode, XdpError};

use std::io;
use std::time::{Duration, Instant};

/// How long what a process has just given up may be in use.
const FREE_WITHIN: Duration = Duration::from_secs(1);

/// Why frames cannot be carried.
#[derive(Debug, thiserror::Error)]
pub enum CarrierError {
    /// The interface does not exist.
    #[error("network interface \"{0}\" does not exist; `ip link` lists the interfaces")]
    NoInterface(String),
    /// A capability for raw sockets or TAP devices is missing.
    #[error(
        "cannot open {what} \"{name}\": not permitted. This needs the capability CAP_NET_{right}; start onbeat with sudo"
    )]
    NotPermitted {
        /// A raw socket or a TAP device.
        what: &'static str,
        /// Name of the interface.
        name: String,
        /// Last word of the capability.
        right: &'static str,
    },
    /// Another process of onbeat uses it.
    #[error(
        "{role} is running on \"{name}\" already: {user}. Stop it first, or choose another interface"
    )]
    InUse {
        /// Role of the other process.
        role: &'static str,
        /// Name of the interface.
        name: String,
        /// The other process.
        user: User,
    },
    /// The interface cannot send frames.
    #[error("{}", .trouble.sentence(.name))]
    Trouble {
        /// Name of the interface.
        name: String,
        /// Why it cannot send frames.
        trouble: Trouble,
    },
    /// Any other error of the system.
    #[error("cannot {what} \"{name}\": {source}")]
    System {
        /// The attempted action.
        what: &'static str,
        /// Name of the interface or file.
        name: String,
        /// Error of the system.
        source: io::Error,
    },
}

/// Repeats a step while what it needs was just given up and is still in use.
fn when_free<T, E>(
    mut step: impl FnMut() -> Result<T, E>,
    is_in_use: impl Fn(&E) -> bool,
) -> Result<T, E> {
    let since = Instant::now();
    loop {
        match step() {
            Err(why) if is_in_use(&why) && since.elapsed() < FREE_WITHIN => {
                std::thread::sleep(Duration::from_millis(1));
            }
            done => return done,
        }
    }
}
