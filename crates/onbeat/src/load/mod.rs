//! Background load while a loop is measured.
//!
//! A [`Load`] is parsed from what a user types: `paper`, `cpu=50%+disk`, `run:make -j4`.
//! [`serve`] runs the load in the calling process until it is stopped, and leaves no process
//! behind. [`RunningLoad`] is the other end, in the process that measures. They exchange lines of
//! JSON: [`LoadNotice`]s while the load runs and a [`LoadReport`] at its end.
//!
//! ```text
//!   bench, load        RunningLoad ── pipe: its end is "stop" ──▶ serve ─▶ supervise ─┬─ threads: cpu sched disk ...
//!   (measures)                 ◀── lines: events, report ───                      └─ programs: hackbench ping ...
//! ```
//!
//! A load that does nothing is worse than no load. So every part counts its work, an unexpected end
//! of a part is an event, and a substituted part is an event with the name of the missing package.
//!
//! Absent on purpose: measuring anything but the load itself, and changing the host (`onbeat-tune`
//! does that). Memory, disk space, descriptors and threads are always limited by what is free at
//! the start.
//!
//! | file | what is in it |
//! |---|---|
//! | `spec` | what users type |
//! | `cpu` `sched` `disk` `network` `memory` `walk` | the built-in parts: threads that count |
//! | `external` | programs: hackbench, ping, stress-ng, a user's own |
//! | `plan` | which of these a load is made of on this machine |
//! | `options` `error` | where it may write and walk; why it cannot start |
//! | `run` | `supervise`: start, watch, kill, report |
//! | `running` | [`RunningLoad`] and [`serve`]: the two ends of the pipe |
//! | `ordinary` `bounds` | the scheduling every load runs under; how much of the machine it may take |
//!
//! ```no_run
//! use std::process::Command;
//!
//! use onbeat::load::RunningLoad;
//!
//! let mut carrier = Command::new("onbeat");
//! carrier.args(["load", "--supervised", "cpu=50%+disk"]);
//! let load = RunningLoad::start(carrier)?;
//! // Measure.
//! let (report, _events) = load.stop()?;
//! for part in &report.parts {
//!     println!("{part}");
//! }
//! # Ok::<(), onbeat::load::RunningError>(())
//! ```

mod bounds;
mod builtin;
mod cpu;
mod disk;
mod error;
mod event;
mod external;
mod leader;
mod memory;
mod network;
mod options;
mod ordinary;
mod parse;
mod plan;
mod reap;
mod run;
mod running;
mod sched;
mod spec;
mod walk;

pub use disk::{check_directory, misses_the_disk};
pub use error::Error;
pub use event::{LoadNotice, LoadNoticeKind, LoadReport, LoadStopReason, PartReport, PartWork};
pub use onbeat_host::process::{kill_session, session_identity};
pub use options::Options;
pub use reap::ending_with_starter;
pub use running::{LoadMessage, RunningError, RunningLoad, serve};
pub use spec::{CATALOGUE, CatalogueEntry, Load, LoadError, LoadPart};
