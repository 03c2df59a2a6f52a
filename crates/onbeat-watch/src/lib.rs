//! Watches a program that knows nothing of onbeat: is its control loop on time, and if not, why?
//!
//! The kernel tells of each wait of a thread: the timer that it sets, the switch away, the switch
//! back. That is enough for release, latency, execution and period of each cycle, for the grid, and
//! for what ran instead, without a change to the program. Nothing here uses ptrace.
//!
//! ```text
//! collect   tracefs ──▶ events of the watched threads          (the only part that needs rights)
//! waits     events  ──▶ waits: for what, since when, until when
//! class     releases of a series ──▶ exact, locked, drifting, no grid, irregular
//! choose    threads with their series ──▶ the most likely loop; loops: or the one that was named
//! grid      releases ──▶ their places: next, passed over, new phase, new period
//! cycles    waits   ──▶ samples as of onbeat's own loop
//! measure   samples ──▶ run file, with causes
//! ```
//!
//! All but `collect`, `survey`, `measure` and `process` are pure functions of events, tested in
//! virtual time:
//!
//! ```
//! use onbeat_rt::Instant;
//! use onbeat_watch::class::{Class, classify};
//!
//! // A loop that sleeps for 1 ms after each cycle, whose cycles take 57 us or a little more.
//! let mut random = fastrand::Rng::with_seed(7);
//! let mut now = 0;
//! let mut next = || { now += 1_057_000 + random.u64(0..9_000); Instant::from_ns(now) };
//! let releases: Vec<Instant> = (0..1_000).map(|_| next()).collect();
//! assert!(!classify(&releases).unwrap().has_grid());
//! ```
//!
//! Absent on purpose: ptrace, signals, anything that changes the program.

pub mod calls;
mod changes;
pub mod choose;
pub mod class;
pub mod collect;
pub mod cycles;
pub mod error;
pub mod event;
pub mod finding;
pub mod grid;
pub mod json;
pub mod loops;
pub mod measure;
mod missing;
pub mod pool;
pub mod process;
pub mod sockets;
pub mod standing;
pub mod survey;
pub mod symbol;
pub mod target;
pub mod threads;
pub mod together;
pub mod waits;
pub mod words;

#[cfg(test)]
mod sequences;

pub use error::WatchError;
