//! Network interfaces that carry EtherCAT frames: raw sockets, TAP devices, and a cable of one's own in a namespace of its own.
//!
//! Absent on purpose: a real-time priority; that is the starter's business.

mod claim;
mod interface;
mod packet_ring;
mod private;
mod trouble;

pub use claim::{Role, User};
pub use interface::Interface;
pub(crate) use packet_ring::PacketRing;
pub use private::private_cable;
pub use trouble::Trouble;
pub(crate) use trouble::{Opened, Watcher};

use std::io;

/// Why frames cannot be carried.
#[derive(Debug, thiserror::Error)]
pub enum CarrierError {
    /// No interface of this name.
    #[error("there is no network interface \"{0}\"; `ip link` lists those there are")]
    NoInterface(String),
    /// Raw sockets and TAP devices want a right.
    #[error("cannot open {what} \"{name}\": not permitted. It takes the right CAP_NET_{right}; start onbeat with sudo")]
    NotPermitted {
        /// A raw socket or a TAP device.
        what: &'static str,
        /// Name of the interface.
        name: String,
        /// Last word of the capability.
        right: &'static str,
    },
    /// Another process of onbeat uses it.
    #[error("{role} is running on \"{name}\" already: {user}. End it first, or choose another interface")]
    InUse {
        /// What the other one is.
        role: &'static str,
        /// Name of the interface.
        name: String,
        /// The other process.
        user: User,
    },
    /// No frame leaves by it.
    #[error("{}", .trouble.sentence(.name))]
    Trouble {
        /// Name of the interface.
        name: String,
        /// What is wrong with it.
        trouble: Trouble,
    },
    /// Anything else that the system says.
    #[error("cannot {what} \"{name}\": {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Name of the interface or file.
        name: String,
        /// What the system said.
        source: io::Error,
    },
}
