//! What browsers may take of the live view, and the sentences when one of the limits applies.

use std::fmt;
use std::time::Duration;

/// What the connections of a live view may take. Every user of the machine can connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewLimits {
    /// Browsers that follow the events at the same time.
    pub browsers: usize,
    /// Connections at the same time. A newcomer takes the place of one without a request, or of one
    /// that does not read.
    pub connections: usize,
    /// Time for a whole request.
    pub request_within: Duration,
    /// Bytes that a connection may send, its request included.
    pub bytes: usize,
}

impl ViewLimits {
    /// Returns the limits for this number of browsers that follow the events; twice as many
    /// connections, at least 128.
    #[must_use]
    pub fn for_browsers(browsers: usize) -> Self {
        Self {
            browsers,
            connections: browsers.saturating_mul(2).max(128),
            request_within: Duration::from_secs(5),
            bytes: 16 * 1024,
        }
    }
}

impl Default for ViewLimits {
    fn default() -> Self {
        Self::for_browsers(64)
    }
}

/// A limit that applied for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewNotice {
    /// A browser was refused: as many as permitted follow, and read.
    TooManyBrowsers {
        /// The limit.
        most: usize,
    },
    /// A connection was closed for a newcomer: it had no request, or did not read.
    GaveWay {
        /// Connections at the same time.
        most: usize,
    },
    /// A connection sent no whole request in time.
    NoRequest {
        /// The time for it.
        within: Duration,
    },
    /// A connection sent more than a request may have.
    Flood {
        /// The limit, in bytes.
        most: usize,
    },
    /// The thread of the view keeps rights that it does not need.
    KeepsRights {
        /// Which, as a sentence with the system's answer.
        why: &'static str,
    },
}

impl fmt::Display for ViewNotice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyBrowsers { most } => {
                write!(out, "live view: a browser was refused; {most} follow already")
            }
            Self::GaveWay { most } => write!(
                out,
                "live view: a connection that did not ask or read was closed for a new one; there are \
                 {most} places"
            ),
            Self::NoRequest { within } => write!(
                out,
                "live view: a connection was closed; it sent no whole request within {} s",
                within.as_secs_f64()
            ),
            Self::Flood { most } => {
                write!(out, "live view: a connection was closed; it sent more than {most} bytes")
            }
            Self::KeepsRights { why } => write!(out, "live view: {why}"),
        }
    }
}
