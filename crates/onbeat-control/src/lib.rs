//! The control interface: a bus's process image in shared memory, for any number of processes. The paper's ECCI.
//!
//! One bus process makes an [`Image`] under a name and calls [`BusSide::exchange`] once per cycle: it hands out inputs and takes the
//! owner's newest outputs. At most one process owns the outputs ([`Client::claim`]); any number read, see events and statistics, and
//! ask for SDO transfers ([`Client`]). Where the bus process moves joints itself, one process gives them goals ([`Client::command`]). [`Sharing`] says how they keep out of each other's way: by default nobody waits for anybody.
//! Memory layout, rules, and what happens when who dies: `docs/control.md`; the same for C: `include/onbeat_control.h`.
//!
//! Whatever is killed, nothing is left to clean up: a dead owner's outputs give way to safe values, a dead requester's request is
//! dropped, a dead bus process's memory is taken over by the next one of the name.
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
//! Absent on purpose: system calls and memory requests in the exchange (in the two kinds of sharing with a lock a contended lock asks
//! the kernel), trust in what other processes write, several owners.

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

/// How those who share an image keep out of each other's way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Nobody waits: the bus publishes into the next of four slots, a reader that was overtaken reads again.
    #[default]
    WaitFree,
    /// One mutex with priority inheritance and priority queueing, as in the paper: the bus waits for one reader at most.
    Pi,
    /// One mutex without: the mistake that the paper's avoids. The kernel takes it from the dead as it does the other.
    Plain,
}

impl Sharing {
    /// All of them with their words.
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
        known.map(|(sharing, _)| sharing).ok_or_else(|| format!("`{text}` is none of wait-free, pi, plain"))
    }
}

/// Whether a device is where it should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// Not looked for yet.
    #[default]
    Unknown,
    /// It answers.
    Present,
    /// It answers no more.
    Lost,
    /// Another device answers in its place.
    Wrong,
}

impl Presence {
    const ALL: [Self; 4] = [Self::Unknown, Self::Present, Self::Lost, Self::Wrong];
}

/// How a device fares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceState {
    /// AL state: 1 INIT, 2 PREOP, 4 SAFEOP, 8 OP; 0 when it was never read.
    pub al_state: u16,
    /// AL status code, 0 for none.
    pub al_status: u16,
    /// Whether it is there.
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
