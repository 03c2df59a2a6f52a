//! Why was the loop late?
//!
//! A private tracefs instance records what the CPUs do ([`flight`]); when a sample is late, the events around it are read
//! from raw ring-buffer pages ([`page`], [`decode`]) and the lateness is divided among its causes, each with its
//! evidence.
//!
//! Absent on purpose: a cause that no event or counter shows. What is left over is `unexplained`, and says how much it is.

pub mod advice;
pub(crate) mod assembler;
pub(crate) mod bpf;
pub mod btf;
pub mod classify;
pub mod counters;
pub mod decode;
pub mod event;
mod explainer;
pub mod facts;
pub mod flight;
pub mod format;
pub mod ftrace;
mod judge;
pub mod keep;
pub mod kind;
mod meter;
mod missing_switches;
mod mode;
pub mod page;
mod path;
mod path_offsets;
mod path_program;
mod path_reading;
mod path_record;
pub mod perfetto;
mod protobuf;
mod quota;
mod scheduler_rules;
mod settle;
mod symbols;
pub mod syscalls;
mod thread_names;
pub mod timeline;
pub mod tracefs;
mod waits;
pub mod window;

pub use advice::{Advice, Fact, Situation};
pub use classify::{explain, stalls};
pub use explainer::{Cost, Explainer, LoopThread, refused};
pub use facts::SpikeFacts;
pub use flight::{FlightRecorder, FlightSetting, PathSource};
pub use keep::KeptWindow;
pub use kind::{Cause, CauseKind, Culprit, Explanation};
pub use tracefs::{TraceError, Tracefs};
pub use window::Window;

/// Removes the flight recorders that a killed onbeat has left; says how many. Where tracing is closed to us there are none.
#[must_use]
pub fn remove_leftovers() -> usize {
    Tracefs::open().and_then(|tracefs| tracefs.remove_leftovers()).map_or(0, |names| names.len())
}
