//! Probes with a bus: how late a loop is that exchanges process data, from a sensor to a drive, and beside readers of its image.
//!
//! They are descriptions as those of [`onbeat::probe`], and run as they do; the command line lists both together.

pub mod bus;
pub mod chain;
pub mod devices;
mod error;
mod event_channel;
mod prediction;
mod reaction;
pub mod sharing;

pub use error::BusProbeError;

use onbeat::probe::Description;

/// The probes of this crate, in the order in which they are listed.
pub const ALL: [&Description; 3] = [&chain::CHAIN, &bus::BUS, &sharing::SHARING_PROBE];
