//! Why a live view cannot be opened.

use std::io;

use onbeat_control::RingError;

/// A live view cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum LiveViewError {
    /// Another program listens on the port.
    #[error(
        "port {port} of this machine is in use; choose another one with --view PORT, or --view for a free one"
    )]
    PortInUse {
        /// The port.
        port: u16,
    },
    /// The system does not let this process listen.
    #[error("cannot listen on port {port} of 127.0.0.1: {source}; `--view` takes a free port")]
    Listen {
        /// The port, 0 for any.
        port: u16,
        /// The system's answer.
        source: io::Error,
    },
    /// The ring of cycles cannot be read.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The thread cannot be started.
    #[error("cannot start the thread of the live view: {0}")]
    Thread(#[source] io::Error),
}
