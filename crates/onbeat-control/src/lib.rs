//! The control interface: the process image of a bus in shared memory, for any number of processes.
//! It corresponds to the paper's ECCI.
//!
//! One bus process creates an [`Image`] with a name and calls [`BusSide::exchange`] once per cycle,
//! which publishes inputs and takes the owner's newest outputs. At most one process owns the
//! outputs ([`Client::claim`]). Any number of processes read cycles, events and statistics, and
//! request SDO transfers ([`Client`]). If the bus process moves joints itself, one process commands
//! them by goals ([`Client::command`]). [`Sharing`] selects how processes are kept from
//! interfering; by default no process waits for another. `docs/control.md` specifies memory layout,
//! rules, and the effects of a process's death; `include/onbeat_control.h` provides the same for C.
//!
//! No killed process leaves anything to clean up: a dead owner's outputs are replaced by safe
//! values, a dead requester's request is dropped, and a dead bus process's memory is taken over by
//! the next one of that name.
//!
//! ```
//! use onbeat_control::{Client, Image, Sharing};
//! use onbeat_ethercat::layout::Layout;
//! use onbeat_ethercat::step::BusCycle;
//!
//! let name = format!("example-{}", std::process::id());
//! let layout = Layout { input_bytes: 4, output_bytes: 4, ..Layout::default() };
//! let mut bus = Image::create(&name, &layout, Sharing::WaitFree)?;
//! let mut outputs = [0; 4];
//! bus.exchange(&BusCycle { cycle: 7, ..BusCycle::default() }, &[1, 2, 3, 4], &mut outputs);
//!
//! let mut client = Client::open(&name)?;
//! let mut seen = client.snapshot();
//! client.read(&mut seen)?;
//! assert_eq!((seen.cycle.cycle, seen.inputs), (7, vec![1, 2, 3, 4]));
//! # Ok::<(), onbeat_control::ControlError>(())
//! ```
//!
//! Absent on purpose: system calls and allocation in the exchange (except for a contended lock in
//! the two kinds of sharing with a lock), trust in what other processes write, several owners.

mod abi;
mod bus_side;
mod client;
mod device_table;
mod error;
mod goals;
mod image;
mod lock;
mod map;
mod owner;
mod process;
mod requests;
mod stats;

pub use bus_side::{BusSide, ColdSide, OutputsFrom};
pub use client::{BusState, Client, DeviceInfo, EventBatch, Outage, Snapshot};
pub use error::ControlError;
pub use goals::{Commander, GoalAnswer, GoalSide, Joint};
pub use image::{Image, ImageSettings, Waking, names, remove_leftovers};
pub use owner::Owner;
pub use requests::{SdoAction, SdoAnswer, SdoFailure, SdoJob, SdoRequest};
pub use stats::{Counter, Stats, Timed, Times};

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
    /// One mutex with priority inheritance and priority queueing, as in the paper: the bus waits
    /// for one reader at most.
    Pi,
    /// One mutex without priority inheritance: the mistake that the paper avoids. It is robust like
    /// the other one.
    Plain,
}

impl Sharing {
    /// All kinds with their names.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::WaitFree, "wait-free"), (Self::Pi, "pi"), (Self::Plain, "plain")];

    const fn number(self) -> u32 {
        self as u32
    }

    fn from_number(number: u32) -> Option<Self> {
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

/// Presence of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// Not checked yet.
    #[default]
    Unknown,
    /// The device answers.
    Present,
    /// The device does not answer any more.
    Lost,
    /// Another device answers at its position.
    Wrong,
}

impl Presence {
    const ALL: [Self; 4] = [Self::Unknown, Self::Present, Self::Lost, Self::Wrong];
}

/// State of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceState {
    /// AL state: 1 INIT, 2 PREOP, 4 SAFEOP, 8 OP; 0 if never read.
    pub al_state: u16,
    /// AL status code, 0 for none.
    pub al_status: u16,
    /// Whether the device answers.
    pub presence: Presence,
}

impl DeviceState {
    fn word(self) -> u64 {
        u64::from(self.al_state) | u64::from(self.al_status) << 16 | (self.presence as u64) << 32
    }

    fn from_word(word: u64) -> Self {
        let presence = Presence::ALL.get((word >> 32) as usize).copied().unwrap_or_default();
        Self { al_state: word as u16, al_status: (word >> 16) as u16, presence }
    }
}
