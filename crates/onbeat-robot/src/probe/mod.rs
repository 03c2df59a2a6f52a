//! Probes with a bus: lateness of a loop that exchanges process data, reaction from sensor to
//! drive, effect of readers of its image; and the pictures of a camera beside it.
//!
//! They are [`onbeat::probe`] descriptions and run like those; the command line lists both.
//!
//! ```
//! use onbeat_robot::probe::ALL;
//!
//! assert_eq!(ALL.map(|probe| probe.name), ["chain", "bus", "sharing", "camera"]);
//! ```

pub mod bus;
pub mod camera;
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
pub const ALL: [&Description; 4] =
    [&chain::CHAIN, &bus::BUS, &sharing::SHARING_PROBE, &camera::CAMERA];
