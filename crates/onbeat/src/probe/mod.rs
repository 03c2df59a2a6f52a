//! Measurements: cold set-up, then a [`Task`](onbeat_rt::Task) handed to the hot crate.
//!
//! [`Run`] is what all probes share: a prepared thread, the loop, the recorder beside it, the run file. A probe is a
//! task and a sentence; [`timer`] is the one that does nothing but be on time.
//!
//! Absent on purpose: loops of their own, statistics of their own, printing.

mod causes;
pub mod disturbed;
pub mod run;
pub mod stall;
pub mod timer;

pub use causes::Witness;
pub use run::{BlockPlan, Destination, Interruptions, Run, RunError, Setting};

use crate::host::Host;
use crate::record::Header;

/// The header of a run file on this machine, for a command as typed.
#[must_use]
pub fn header(command: &[String], probe: &str, started_unix_s: f64) -> Header {
    Header {
        schema: Header::SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: command.to_vec(),
        probe: probe.to_owned(),
        started_unix_s,
        host: Host::read(),
        cell: None,
        timing: None,
        grants: Vec::new(),
        limit: None,
    }
}
