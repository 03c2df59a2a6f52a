//! What of a machine is not as wanted: for `tune check`, and for the file of each run.
//!
//! | file | contents |
//! |---|---|
//! | `machine` | the machine and the loop that a command is about |
//! | `evidence` | counters and wake-ups of a machine that is watched |
//! | `spike_causes` | the causes of a run's spikes |
//! | `checked` | findings, sorted |
//! | `remembered` | what tunings were worth here when they were measured |
//! | `run_findings` | findings for the file of a run |

pub(crate) mod checked;
pub(crate) mod evidence;
pub(crate) mod machine;
mod remembered;
mod run_findings;
pub(crate) mod spike_causes;

pub(crate) use remembered::add_remembered;
pub(crate) use run_findings::{findings, of_loop};
