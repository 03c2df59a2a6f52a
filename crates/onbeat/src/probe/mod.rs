//! Measurements: cold set-up, then a [`Task`](onbeat_rt::Task) handed to the hot crate.
//!
//! All probes share [`Run`]: a prepared thread, the loop, the recorder beside it, the run file. A
//! probe is a task, a sentence and its figures, in a file of its own and a line in [`ALL`] or in
//! another crate's list. [`timer`] is the smallest one: its cycles do nothing.
//!
//! ```
//! use onbeat::probe::{Given, Setting, WAKE_UP};
//!
//! let mut setting = Setting::new(1_000_000); // a period of 1 ms
//! setting.admit()?;
//! let _opened = (WAKE_UP.open)(&mut setting, &Given::default())?; // a thread of `Run` runs it
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Absent on purpose: loops of their own, statistics of their own, printing.

pub(crate) mod causes;
mod companion;
pub mod description;
pub mod disturbed;
mod drain;
mod error;
pub mod hiccup;
mod interruptions;
pub mod latency;
pub mod noise;
mod option;
pub mod ports;
pub mod read_write;
pub mod resume;
pub mod run;
pub mod setting;
pub mod stall;
mod start;
pub mod surroundings;
pub mod timer;
pub mod write;

pub use causes::SpikeExplainer;
pub use description::{Description, Given, SettingValue};
pub use error::{ProbeError, RunError};
pub use interruptions::Interruptions;
pub use option::{OptionKind, ProbeOption};
pub use run::{BlockPlan, Destination, ProbeRun, Run, of_cost};
pub use setting::Setting;
pub use start::Origin;

use onbeat_record::{Header, Series};

/// The probes of this crate, in the order in which they are listed; those with a bus are
/// `onbeat-robot`'s.
pub const ALL: [&Description; 6] = [
    &timer::TIMER,
    &hiccup::HICCUP,
    &latency::LATENCY,
    &noise::NOISE,
    &write::WRITE,
    &read_write::READ_WRITE,
];

/// The probe whose cycles do nothing: for those who want to know of the wake-up alone.
pub const WAKE_UP: &Description = &timer::TIMER;

/// Returns the header of a run file on this machine, for a command as typed. `series` are those of
/// the probe, the primary one first.
#[must_use]
pub fn header(command: &[String], probe: &str, series: &[Series], started_unix_s: f64) -> Header {
    Header::new(command, probe, series, started_unix_s)
}
