//! Tunings × loads, in turns, each cell in a process of its own; and single measurements.
//!
//! [`CellTuning`] and [`schedule`] say what runs when; [`host_settings`] are made before a block and
//! undone after it; [`cell_start`] is the message that starts the
//! process of a cell, [`cell`] that process at both ends of its pipes; [`conduct`] executes the
//! schedule: loads, shield, blocks. [`turns`] does the same for one probe under several loads, in
//! one process; [`at_once`] runs a loop on each of several CPUs. [`measurement`] says what all of
//! them measure of a probe, and measures it under one load.
//!
//! ```
//! use std::time::Duration;
//!
//! use onbeat::bench::schedule::{CellOrder, Pace, plan};
//!
//! // Nine tunings, without load and with one, in two minutes.
//! let pace = Pace::new(&[false, true]);
//! let schedule = plan(9, &pace, Duration::from_secs(120), CellOrder::Interleaved, 1)?;
//! assert!(schedule.estimate_s <= 120.0 && schedule.blocks_per_cell >= 4);
//! # Ok::<(), onbeat::bench::schedule::TooShort>(())
//! ```
//!
//! Absent on purpose: figures. They come from the run files, in `onbeat-report`.

pub mod at_once;
pub mod background_load;
pub mod cell;
pub mod cell_start;
pub mod cell_tuning;
mod conditions;
pub mod conduct;
mod error;
pub mod fresh_memory;
pub mod host_settings;
pub mod measurement;
mod plan;
pub mod run_tuning;
pub mod schedule;
mod shared_file;
mod shielding;
pub mod sweep;
pub mod turns;
mod unfinished;

pub use cell_tuning::{CellTuning, CellTuningError, LoopOptions};
pub use conditions::Conditions;
pub use error::BenchError;
pub use onbeat_record::{Tuning, TuningError};
