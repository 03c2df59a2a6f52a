//! How frames pass between this process and a network interface.

use std::fmt;
use std::str::FromStr;

/// How frames of an interface are sent and received.
///
/// ```
/// use onbeat_ethercat::carrier::WireMethod;
///
/// assert_eq!("xdp".parse(), Ok(WireMethod::Xdp));
/// assert_eq!(WireMethod::Ring.to_string(), "ring");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WireMethod {
    /// A packet socket with a receive ring.
    #[default]
    Ring,
    /// An AF_XDP socket, past the kernel's network stack.
    Xdp,
    /// An AF_XDP socket whose queue this process polls, instead of an interrupt.
    BusyPoll,
}

impl WireMethod {
    /// All methods.
    pub const ALL: [Self; 3] = [Self::Ring, Self::Xdp, Self::BusyPoll];

    /// Returns the name, as `--wire` takes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Xdp => "xdp",
            Self::BusyPoll => "busy-poll",
        }
    }
}

impl fmt::Display for WireMethod {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for WireMethod {
    type Err = UnknownWire;

    fn from_str(text: &str) -> Result<Self, UnknownWire> {
        let found = Self::ALL.into_iter().find(|one| one.name() == text);
        found.ok_or_else(|| UnknownWire(text.to_owned()))
    }
}

/// A text that does not name a method.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a wire; write ring, xdp or busy-poll")]
pub struct UnknownWire(String);
