//! Changes to the host, each of which can be taken back, after any crash.
//!
//! | file | what is in it |
//! |---|---|
//! | [`host_files`] | the only door to `/proc`, `/sys` and the system calls: [`HostFiles`], live or made up |
//! | [`cpu_list`] | sets of CPUs as the kernel writes them: lists and masks |
//! | [`user`] | whose a process is, and whether this one may act on it |
//! | [`tasks`] | who runs here: tasks, told apart by number and start time |
//! | [`change`] | one setting of the host: how to read, write and restore it |
//! | [`journal`] | the list on disk that is written before anything is changed |
//! | `private` | the journal is its user's alone |
//! | [`mod@repair`] | what a dead onbeat left behind, put back |
//! | [`shield`] | CPUs freed of everything but the loop; `shield_v1`, `shield_v2`, `affinity`, [`irq`] do its parts on the same `ground` |
//!
//! Two rules hold everywhere. **Nothing is written before the journal is on disk**: old and new value, synced, then the
//! change. **Nothing is undone because a process ended**: only [`shield::Shield::dismantle`], [`journal::Journal::undo`]
//! and [`repair::repair`] put things back, and they compare first: what somebody else has changed since is left alone.
//!
//! ```
//! use onbeat_tune::CpuList;
//!
//! let isolated: CpuList = "2-3,6".parse()?;
//! assert!(isolated.contains(3) && !isolated.contains(4));
//! assert_eq!(isolated.to_string(), "2-3,6");
//! # Ok::<(), onbeat_tune::TuneError>(())
//! ```
//!
//! Absent on purpose: measuring, and any knob whose old value cannot be read back.

mod affinity;
pub mod catalogue;
pub mod change;
pub mod cpu_list;
pub mod error;
mod ground;
pub mod host_files;
pub mod irq;
pub mod journal;
mod private;
pub mod repair;
pub mod shield;
mod shield_v1;
mod shield_v2;
pub mod tasks;
pub mod user;

pub use catalogue::check;
pub use change::{Intent, Key, Outcome, UndoMode};
pub use cpu_list::CpuList;
pub use error::TuneError;
pub use host_files::{HostFiles, LiveHost};
pub use journal::{Journal, Purpose};
pub use repair::{Repaired, repair};
pub use shield::{Free, Mechanism, Report, Scope, Shield, Wish};
