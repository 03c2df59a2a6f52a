//! Changes to the host, each of which can be undone after any crash.
//!
//! | file | what is in it |
//! |---|---|
//! | [`host_files`], [`live_host`] | the only access to `/proc`, `/sys` and the system calls: [`HostFiles`], live or fake |
//! | [`cpu_list`] | sets of CPUs as the kernel writes them: lists and masks |
//! | [`tasks`] | running tasks, identified by number and start time |
//! | [`change`] | one setting of the host: how to read, write and restore it |
//! | [`journal`] | the list of changes on disk, written before each change |
//! | [`guard`] | the process that undoes a run's changes when the run dies |
//! | `private` | file modes and owners: only its user may read and write the journal |
//! | [`interfaces`] | network interfaces that a run has made |
//! | `rights` | with whose rights a change on record is undone |
//! | [`mod@repair`] | undo of changes left by an interrupted onbeat |
//! | [`catalogue`] | what can be tuned, as data, and the check of a machine against it |
//! | [`evidence`] | what the kernel counted while a machine was watched, for the findings of a check |
//! | [`mod@explain`] | what one tuning is, and what it is on this machine |
//! | [`mod@lint`] | kernel command lines, QEMU scripts and libvirt definitions, judged from their text |
//! | [`mod@persist`] | settings that hold after each boot, and their removal |
//! | `owned` | who shields this machine: one onbeat at a time |
//! | [`shield`] | CPUs reserved for the loop; `shield_v1`, `shield_v2`, `affinity` and [`irq`] are its parts, `context` their common data |
//!
//! Two rules hold everywhere. **Nothing is written before the journal is on disk**: old and new
//! value, synced, then the change. **Nothing is undone without a comparison**: only
//! [`shield::Shield::dismantle`], [`journal::Journal::undo`] and [`repair::repair`] undo (the last
//! also for a run that died, by its [`guard`]); what another program has changed since is not
//! touched.
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
pub mod apply;
pub mod capture;
mod capture_archive;
pub mod catalogue;
pub mod change;
mod context;
pub mod cpu_list;
pub mod error;
pub mod evidence;
pub mod explain;
pub mod guard;
mod holder;
pub mod host_files;
pub mod interfaces;
pub mod irq;
mod irq_handlers;
pub mod journal;
pub mod lint;
mod live_extras;
pub mod live_host;
mod owned;
pub mod persist;
pub mod plan;
mod private;
pub mod repair;
mod restore;
mod rights;
pub mod shield;
mod shield_v1;
mod shield_v2;
mod task_attributes;
mod task_id;
pub mod task_setting;
pub mod tasks;
mod utc;
mod wrap;

pub use catalogue::check;
pub use change::{ChangeOutcome, Intent, Key, UndoMode};
pub use cpu_list::{CpuList, CpuListError};
pub use error::TuneError;
pub use explain::explain;
pub use host_files::HostFiles;
pub use journal::{Journal, Purpose};
pub use lint::lint;
pub use live_host::LiveHost;
pub use persist::persist;
pub use repair::{Repaired, repair};
pub use shield::{Free, Mechanism, Report, Scope, Shield, ShieldRequest};
