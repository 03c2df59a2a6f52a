//! What the scheduler counts of the threads of a process, where tracing is not permitted.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use onbeat_watch::process::{self, ThreadCounters, ThreadFacts};
use onbeat_watch::target::TargetError;
use onbeat_watch::{json, threads};

use crate::cmd::{Failure, show};
use crate::signals::pause;
use crate::term::{letters, print_json};

/// How long the scheduler's counters are compared where tracing is not permitted.
const COUNTED: Duration = Duration::from_secs(2);

/// Prints what the scheduler counts of each thread, which takes no rights.
pub(in crate::cmd) fn without_tracing(
    pid: i32,
    json: bool,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let before = process::threads_of(pid);
    if before.is_empty() {
        return Err(TargetError::NoSuchProcess { pid }.into());
    }
    pause(COUNTED, stop);

    let seconds = COUNTED.as_secs_f64();
    let counted: Vec<(&ThreadFacts, ThreadCounters)> = before
        .iter()
        .filter_map(|facts| Some((facts, ThreadCounters::read(facts.tid())?.since(facts.counters))))
        .collect();
    if json {
        return Ok(print_json(&json::counters(pid, seconds, &counted))?);
    }
    show::table(&threads::counted(pid, seconds, &counted, letters()));
    Ok(())
}
