//! onbeat measures, explains and tunes real-time control on Linux.
//!
//! A control loop in ten lines: the closure runs once per millisecond, at a real-time priority, and
//! the run file says how late each of its cycles was.
//!
//! ```
//! use onbeat::{Flow, Loop, Period};
//!
//! # let scratch = std::env::temp_dir().join(format!("onbeat-front-{}.onbeat.hlog", std::process::id()));
//! # let file = scratch.as_path();
//! let mut position = 0.0;
//! let report = Loop::new(Period::from_hz(1000))
//!     .priority(80)
//!     .lock_memory()
//!     .accept_refusals()
//!     .run_file(file)
//!     .run(|cycle| {
//!         position += 0.1 * cycle.dt_ns() as f64 / 1e9; // sensors, computation, outputs
//!         if cycle.index < 99 { Flow::Continue } else { Flow::Stop }
//!     })?;
//! println!("{report}");
//! # assert!(report.account.slots >= 100);
//! # std::fs::remove_file(file)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `docs/guide/own-loop.md` continues from here; [`run`] is the same without options,
//! [`probe::Run`] is what both stand on.
//!
//! The library prepares a loop, hands it to the hot crate [`onbeat_rt`] and records what comes out of
//! it; `onbeat-report` works out what it means. It never prints, never exits and never reads options; the
//! binary `onbeat` does.
//!
//! | module | what is in it |
//! |---|---|
//! | [`Loop`], [`run`] | a loop of one's own |
//! | [`host`] | what this machine is: the fingerprint that stands beside every result |
//! | [`thread`] | priority, affinity and locked memory for a loop: requested, granted, why not |
//! | [`probe`] | set-up of one measurement, and the loop's run from first to last sample |
//! | [`load`] | background load |
//! | [`inject`] | causes of lateness made on purpose, each with its own log |
//! | [`record`] | run files and their directories: the only writer and the only reader |
//! | [`import`] | files of other tools become run files |
//! | [`cause`] | why a cycle was late: flight recorder, classifier, export |
//! | [`mod@bench`] | tunings × loads, in turns |
//! | [`campaign`] | the engine of every experiment: axes × runner × schedule × store |
//!
//! Changes to the host are in `onbeat-tune`, the words of buses in `onbeat-ethercat`, robots and
//! the probes of their buses in `onbeat-robot`.
//!
//! Data flows one way: loop → samples → histograms → run file → summary → table, page or JSON.

// A library that programs are written against: each of its names has its sentence.
#![deny(missing_docs)]

pub use onbeat_cause as cause;
pub use onbeat_host::{machine as host, thread};
pub use onbeat_record as record;
pub use onbeat_record::import;

pub mod bench;
pub mod campaign;
mod control_loop;
pub mod inject;
mod json_lines;
pub mod load;
mod near_word;
pub mod probe;

pub use control_loop::{Cycle, CycleResult, Flow, Loop, LoopError, LoopReport, Period, run};
