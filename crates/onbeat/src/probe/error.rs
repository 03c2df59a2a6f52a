//! Why a measurement could not be made.

use onbeat_rt::PlanError;

use super::description::ProbeError;
use super::resume::OtherRun;
use crate::record::{RunFileError, WriteError};
use crate::thread::LockdownError;

/// A measurement could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The timing of the loop is not valid.
    #[error("{}", plan_sentence(.0))]
    Plan(PlanError),
    /// The run file could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The run file could not be opened to resume it.
    #[error(transparent)]
    RunFile(#[from] RunFileError),
    /// The system call filter could not be installed.
    #[error(transparent)]
    Lockdown(#[from] LockdownError),
    /// The option needs a grid of releases.
    #[error("{option} has no meaning with --wait relative: {why}; leave one of them out")]
    NoGrid {
        /// The option as typed.
        option: String,
        /// Why it has no meaning with a relative sleep.
        why: &'static str,
    },
    /// The probe could not be opened.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The run would be resumed under other conditions than it began.
    #[error(transparent)]
    OtherRun(#[from] OtherRun),
    /// The loop's thread could not be started.
    #[error("cannot start the loop's thread: {0}; the limit of threads (ulimit -u) may be reached")]
    Thread(std::io::Error),
    /// The loop's thread panicked: a bug.
    #[error(
        "the loop's thread panicked; this is a bug in onbeat, please report it with the command you typed"
    )]
    Panicked,
}

fn plan_sentence(why: &PlanError) -> String {
    let us = |ns: &u64| *ns as f64 / 1000.0;
    match why {
        PlanError::NoPeriod => "the period is 0; a loop needs one, such as --period 1ms".to_owned(),
        PlanError::SpinTooLong { spin_ns, period_ns } => format!(
            "the wait would poll for {} us of a {} us period; some sleep must remain: shorten the spin",
            us(spin_ns),
            us(period_ns)
        ),
        PlanError::TooBusy { work_ns, spin_ns, period_ns } => format!(
            "{} us of work and {} us of polling in a {} us period leave less than a tenth of the CPU; the kernel would \
             stop the loop for 50 ms a second (RT throttling, fair server): lengthen the period or shorten the spin",
            us(work_ns),
            us(spin_ns),
            us(period_ns)
        ),
    }
}
