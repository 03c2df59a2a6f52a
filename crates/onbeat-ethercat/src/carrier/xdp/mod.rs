//! AF_XDP: EtherCAT frames between the driver of an interface and memory of this process, past the
//! kernel's network stack (`Documentation/networking/af_xdp.rst`).
//!
//! A program of the interface ([`program`]) redirects frames of EtherCAT to the socket
//! ([`socket`]) and passes all others on. Program and socket belong to descriptors of this process:
//! the kernel removes both when it ends, also by kill -9.
//!
//! Absent on purpose: several receive queues (one socket takes frames of one queue), frames of more
//! than 1,776 bytes, and drivers' programs other than the one here.

mod frame_memory;
mod program;
mod queues;
mod ring;
mod socket;

pub use program::AttachMode;
pub(crate) use socket::XdpSocket;

use std::io;

/// Why frames of an interface do not pass through AF_XDP.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    /// A TAP device of this process or a socket pair.
    #[error("it is not a network interface")]
    NotAnInterface,
    /// Frames of EtherCAT could arrive at another queue.
    #[error(
        "it has {queues} receive queues, and one socket serves one; `ethtool -L {name} combined 1` sets one"
    )]
    Queues {
        /// Name of the interface.
        name: String,
        /// Number of its receive queues.
        queues: u32,
    },
    /// The interface has an XDP program or its queue a socket.
    #[error("another program has its {what}; `ip link show {name}` shows XDP programs")]
    Busy {
        /// XDP program or receive queue.
        what: &'static str,
        /// Name of the interface.
        name: String,
    },
    /// The queue can be polled by its interrupt only.
    #[error(
        "the kernel gives this socket no queue to poll (NAPI id); sockets of cards with zero copy have one"
    )]
    NoQueueToPoll,
    /// Capabilities are missing.
    #[error(
        "{step}: not permitted. This needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF; start onbeat with sudo"
    )]
    NotPermitted {
        /// The refused step.
        step: &'static str,
    },
    /// The kernel or the driver refused it.
    #[error("{step}: {source}")]
    Refused {
        /// The refused step.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl XdpError {
    /// Returns the error of a step that the kernel refused.
    fn from_step(step: &'static str, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted { step },
            _ => Self::Refused { step, source },
        }
    }
}

/// Repeats a step while a program or a queue that was just closed is in use: the kernel frees them
/// in a worker, and a child that was just started holds copies of all descriptors until its execve.
fn when_free<T>(step: impl FnMut() -> Result<T, XdpError>) -> Result<T, XdpError> {
    super::when_free(step, |why| matches!(why, XdpError::Busy { .. }))
}
