//! Errors of the gateway.

use std::io;
use std::path::PathBuf;

use onbeat_control::RingError;

/// Why records cannot be passed on.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// A channel cannot be read.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The file of a log exists: a log is never overwritten.
    #[error("{path} exists; name another file, or remove it")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file of a log cannot be created.
    #[error("cannot create {path}: {source}")]
    Create {
        /// The file.
        path: PathBuf,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The log cannot be written further. What was written before can be read.
    #[error("cannot write {path}: {source}; what was written until then can be read")]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason of the writer of MCAP.
        source: Box<mcap::McapError>,
    },
    /// A recording without channels.
    #[error("no channel to record; name at least one, as NAME/TOPIC")]
    NoChannels,
    /// An order of `onbeat` that this program does not understand.
    #[error(
        "the order is not valid: {0}; `onbeat` and `onbeat-gateway` must be of the same version"
    )]
    Order(#[from] serde_json::Error),
    /// The program was started without an order.
    #[error("onbeat-gateway is started by `onbeat message record`; it takes no other arguments")]
    NoOrder,
    /// Ctrl-C cannot be watched.
    #[error("cannot watch for Ctrl-C: {0}")]
    Signals(io::Error),
    /// The answer to `onbeat` cannot be written.
    #[error("cannot write the account: {0}")]
    Output(io::Error),
}
