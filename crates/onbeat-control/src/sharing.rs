//! The ways in which processes share an image.

use std::fmt;
use std::str::FromStr;

/// How processes that share an image are kept from interfering with each other.
///
/// ```
/// use onbeat_control::Sharing;
///
/// assert_eq!("pi".parse(), Ok(Sharing::Pi));
/// assert_eq!(Sharing::default().to_string(), "wait-free");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// No process waits: the bus publishes into the next of four slots, and a reader that was
    /// overtaken reads again.
    #[default]
    WaitFree,
    /// One lock with priority inheritance and priority queueing, as in the paper: the bus waits
    /// for one reader at most. For processes of one user.
    Pi,
    /// One lock without priority inheritance: the mistake that the paper avoids. For processes of
    /// one user.
    Plain,
}

impl Sharing {
    /// All kinds with their names.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::WaitFree, "wait-free"), (Self::Pi, "pi"), (Self::Plain, "plain")];

    pub(super) const fn number(self) -> u32 {
        self as u32
    }

    pub(super) fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().map(|(sharing, _)| sharing).find(|sharing| sharing.number() == number)
    }
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL[*self as usize].1)
    }
}

impl FromStr for Sharing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|(_, word)| *word == text);
        known
            .map(|(sharing, _)| sharing)
            .ok_or_else(|| format!("`{text}` is not a kind of sharing; use wait-free, pi or plain"))
    }
}
