//! Probes with a bus: lateness of a loop that exchanges process data, reaction from sensor to
//! drive, and effect of readers of its image.
//!
//! They are [`onbeat::probe`] descriptions and run like those; the command line lists both.
//!
//! ```
//! use onbeat_robot::probe::ALL;
//!
//! assert_eq!(ALL.map(|probe| probe.name), ["chain", "bus", "sharing"]);
//! ```

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

/// The probes of this crate, in the order of the listing.
pub const ALL: [&Description; 3] = [&chain::CHAIN, &bus::BUS, &sharing::SHARING_PROBE];
