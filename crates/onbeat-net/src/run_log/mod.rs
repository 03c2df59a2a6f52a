//! Run files over UDP to another machine, as they grow.
//!
//! [`LogShipper`] follows a run file and sends its lines, [`LogServer`] writes them to a file of its
//! own. The loop has no part in it. The server's socket thread never waits for the disk: it hands
//! datagrams over to a writer by [`super::hand_over`], and what finds no room is counted.
//!
//! [`wire`] are the datagrams, [`assembly`] makes lines of them again and counts what is missing.
//! Absent on purpose: flow control and retransmission of what a run records later; only the header
//! of a run, without which nothing can be read, and its end are repeated until they are confirmed.

pub mod assembly;
mod server;
mod shipper;
pub mod wire;

pub use self::server::{LogServer, LogServerCounts, LogServerError, LogServerOptions, ShippedRun};
pub use self::shipper::{LogShipError, LogShipment, LogShipper};
