//! Finds out why a loop was late.
//!
//! A private tracefs instance records the activity of all CPUs ([`flight`]). When a sample is late,
//! the events around it are read from raw ring-buffer pages ([`page`], [`decode`]), and the
//! lateness is divided among its causes, each with its evidence ([`explain`]).
//!
//! Absent on purpose: a cause that no event or counter shows. The rest is `unexplained`, with its
//! length.
//!
//! ```
//! use onbeat_cause::counters::Counters;
//! use onbeat_cause::{CauseKind, SpikeFacts, Window, explain};
//! use onbeat_rt::Instant;
//!
//! let us = |us: u64| Instant::from_ns(us * 1_000);
//! let facts = SpikeFacts { expiry: us(1_000), start: us(1_250), end: us(1_260), ..SpikeFacts::default() };
//!
//! // Without events no cause can be named.
//! let explanation = explain(&facts, &Window::default(), &Counters::default());
//! assert_eq!(explanation.lateness_ns, 250_000);
//! assert_eq!(explanation.main().map(|cause| cause.kind), Some(CauseKind::Unexplained));
//! ```

pub mod advice;
mod bpf;
pub mod classify;
pub mod counters;
mod cpu_counters;
pub mod decode;
pub mod event;
mod explainer;
pub mod facts;
pub mod flight;
pub mod format;
mod freezer;
pub mod ftrace;
pub mod inside;
mod judge;
pub mod keep;
pub mod kind;
pub mod kvm;
mod meter;
pub mod noise;
pub mod page;
mod path;
mod path_record;
mod path_stack;
pub mod perfetto;
pub mod probe_price;
pub mod process_view;
#[doc(hidden)] // For `onbeat::inject`, and the device in the kernel, of `onbeat_net`.
pub mod programs;
mod protobuf;
mod quota;
mod settle;
pub mod split;
pub mod stream;
mod symbols;
pub mod syscalls;
mod thread_names;
mod thread_stat;
pub mod timeline;
pub mod trace_dat;
pub mod tracefs;
mod vocabulary;
mod waits;
pub mod window;

pub use advice::{Advice, Fact, Situation};
pub use classify::{explain, stalls};
pub use cpu_counters::{CpuCounters, CpuCounts};
pub use explainer::{Cost, Explainer, LoopThread, refused};
pub use facts::{SpikeFacts, WaitingCall};
pub use flight::{FlightRecorder, FlightSetting, PathSource};
pub use keep::KeptWindow;
pub use kind::{Cause, CauseKind, Culprit, Explanation};
pub use noise::NoiseSource;
pub use path_stack::KernelStack;
pub use split::{SplitRecorder, WakeUpParts, WakeUpSplit, WakeUpSplitter};
pub use stream::{EventStream, PathStream, StreamEvent, StreamSetting};
pub use tracefs::{InstanceGuard, TraceError, Tracefs, guard_instances_by};
pub use window::Window;

/// Removes flight recorders left by killed onbeat processes and returns their number; 0 if tracing
/// is not permitted.
#[must_use]
pub fn remove_leftovers() -> usize {
    Tracefs::open().and_then(|tracefs| tracefs.remove_leftovers()).map_or(0, |names| names.len())
}
