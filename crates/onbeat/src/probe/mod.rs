//! Measurements: cold set-up, then a [`Task`](onbeat_rt::Task) handed to the hot crate.
//!
//! [`Run`] is what all probes share: a prepared thread, the loop, the recorder beside it, the run file. A probe is a
//! task, a sentence and its figures, in a file of its own and a line in [`ALL`]; [`timer`] is the one that does nothing but
//! be on time.
//!
//! Absent on purpose: loops of their own, statistics of their own, printing.

pub mod bus;
mod causes;
pub mod chain;
pub mod description;
pub mod devices;
pub mod disturbed;
mod happenings;
pub mod hiccup;
pub mod latency;
pub mod ports;
mod prediction;
mod reaction;
pub mod read_write;
pub mod resume;
pub mod run;
pub mod sharing;
pub mod stall;
pub mod surroundings;
pub mod timer;
pub mod write;

pub use causes::Witness;
pub use description::{Choice, Description, Given, Kind, ProbeError, Value};
pub use run::{BlockPlan, Destination, Interruptions, Run, RunError, Setting};

use crate::host::Host;
use crate::record::Header;

/// All probes, in the order in which they are listed.
pub const ALL: [&Description; 8] = [
    &timer::TIMER,
    &hiccup::HICCUP,
    &latency::LATENCY,
    &write::WRITE,
    &read_write::READ_WRITE,
    &chain::CHAIN,
    &bus::BUS,
    &sharing::SHARING_PROBE,
];

/// The header of a run file on this machine, for a command as typed.
#[must_use]
pub fn header(command: &[String], probe: &str, started_unix_s: f64) -> Header {
    let series = ALL.iter().find(|known| known.name == probe).map(|known| known.series.to_vec());
    Header {
        schema: Header::SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: command.to_vec(),
        probe: probe.to_owned(),
        series: series.unwrap_or_default(),
        started_unix_s,
        host: Host::read(),
        cell: None,
        timing: None,
        grants: Vec::new(),
        limit: None,
        most_alarms: None,
    }
}
