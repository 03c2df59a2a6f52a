//! The loop: a C function once per period, in a prepared thread, with a run file of how late it
//! was.
#![allow(unsafe_code)] // C's pointers.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use onbeat::record::EndReason;
use onbeat::{Cycle, Flow, Loop, LoopError, LoopReport, Period};
use onbeat_rt::{OnOverrun, Wait};

use super::last_error::{keep, without_panic};

/// Version of the structures below: `ONBEAT_LOOP_VERSION`.
const VERSION: u32 = 1;
/// The function of a cycle returns this to continue: `ONBEAT_LOOP_CONTINUE`. Anything else, such as
/// the -1 of a failed call, ends the loop.
const CONTINUE: c_int = 0;

/// Results: `enum onbeat_loop_result`.
mod result {
    use std::ffi::c_int;

    pub(super) const OK: c_int = 0;
    pub(super) const BAD_OPTIONS: c_int = -1;
    pub(super) const REFUSED: c_int = -2;
    pub(super) const FILE_EXISTS: c_int = -3;
    pub(super) const FAILED: c_int = -4;
    pub(super) const BUG: c_int = -5;
}

/// Bits of [`LoopSettings::flags`].
mod flag {
    pub(super) const LOCK_MEMORY: u32 = 1;
    pub(super) const ACCEPT_REFUSALS: u32 = 2;
    pub(super) const BIND_CPU: u32 = 4;
    pub(super) const EXPLAIN_SPIKES: u32 = 8;
    pub(super) const ALL: u32 = 15;
}

/// `struct onbeat_loop_options`: 0 is the default of each.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LoopSettings {
    period_ns: u64,
    deadline_ns: u64,
    releases: u64,
    wait_margin_ns: u64,
    run_file: *const c_char,
    flags: u32,
    priority: u32,
    cpu: u32,
    wait: u32,
    on_overrun: u32,
    catch_up_at_most: u32,
}

/// `struct onbeat_loop_cycle`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LoopCycle {
    index: u64,
    release_ns: u64,
    start_ns: u64,
    skipped: u64,
    dt_ns: u64,
}

/// `struct onbeat_loop_report`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LoopAccount {
    releases: u64,
    cycles: u64,
    skipped: u64,
    lost: u64,
    deadline_misses: u64,
    worst_ns: u64,
    ended: u32,
    refused: u32,
}

/// `onbeat_loop_function`.
// SAFETY: the caller of onbeat_loop_run vouches that it may be called with `user`.
pub type CycleFunction = unsafe extern "C" fn(*const LoopCycle, *mut c_void) -> c_int;

/// A C function and its argument, called from the loop's thread only.
struct CycleCall {
    function: CycleFunction,
    user: *mut c_void,
}

// SAFETY: the header hands `user` to the loop's thread until onbeat_loop_run returns.
unsafe impl Send for CycleCall {}

impl CycleCall {
    fn run(&mut self, cycle: &Cycle) -> Flow {
        let now = LoopCycle {
            index: cycle.index,
            release_ns: cycle.release.as_ns(),
            start_ns: cycle.start.as_ns(),
            skipped: cycle.skipped,
            dt_ns: cycle.dt_ns(),
        };
        // SAFETY: the caller of onbeat_loop_run vouches for its function; `now` outlives the call.
        let answer = unsafe { (self.function)(&raw const now, self.user) };
        if answer == CONTINUE { Flow::Continue } else { Flow::Stop }
    }
}

/// Runs `function` once per period until it returns `ONBEAT_LOOP_STOP`, or after
/// `options->releases`. `onbeat_loop_run` of the header calls it with the header's version.
///
/// # Safety
/// `options` and `report` are NULL or point to the structures of that version, `run_file` is NULL
/// or a string, and `function` may be called with `user` from another thread.
// SAFETY: the name belongs to this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onbeat_loop_run_version(
    version: u32,
    options: *const LoopSettings,
    function: Option<CycleFunction>,
    user: *mut c_void,
    report: *mut LoopAccount,
) -> c_int {
    without_panic(result::BUG, || {
        if version != VERSION {
            keep(&format_args!(
                "onbeat.h has version {version} of the loop, libonbeat {VERSION}; install both of one release"
            ));
            return result::BAD_OPTIONS;
        }

        // SAFETY: as the caller vouches; each is checked for NULL.
        let (options, report) = unsafe { (options.as_ref(), report.as_mut()) };
        let (Some(options), Some(function)) = (options, function) else {
            keep(&"onbeat_loop_run needs options and a function, and one of them is NULL");
            return result::BAD_OPTIONS;
        };

        let own = match prepared(options) {
            Ok(own) => own,
            Err(why) => {
                keep(&why);
                return result::BAD_OPTIONS;
            }
        };
        let mut call = CycleCall { function, user };
        concluded(own.run(move |cycle| call.run(cycle)), report)
    })
}

/// Returns the loop of these options, or what is wrong with them.
fn prepared(options: &LoopSettings) -> Result<Loop, String> {
    let margin_ns = options.wait_margin_ns;
    let wait = match options.wait {
        0 => Wait::Sleep,
        1 => Wait::SleepThenSpin { margin_ns },
        2 => Wait::Adaptive { cap_ns: margin_ns },
        other => {
            return Err(format!("wait is {other}; use a value of enum onbeat_loop_wait, 0 to 2"));
        }
    };
    let on_overrun = match options.on_overrun {
        0 => OnOverrun::SkipKeepPhase,
        1 => OnOverrun::CatchUp { at_most: options.catch_up_at_most },
        2 => OnOverrun::Stop,
        other => {
            return Err(format!(
                "on_overrun is {other}; use a value of enum onbeat_loop_overrun, 0 to 2"
            ));
        }
    };
    if options.flags & !flag::ALL != 0 || options.priority > 99 {
        let flags = options.flags;
        let priority = options.priority;
        return Err(format!(
            "flags are {flags:#x}, at most {:#x}; priority is {priority}, at most 99",
            flag::ALL
        ));
    }

    let has = |bit| options.flags & bit != 0;
    let mut own = Loop::new(Period::from_ns(options.period_ns)).wait(wait).on_overrun(on_overrun);
    own = if options.priority > 0 { own.priority(options.priority) } else { own };
    own = if has(flag::BIND_CPU) { own.cpu(options.cpu) } else { own };
    own = if has(flag::LOCK_MEMORY) { own.lock_memory() } else { own };
    own = if has(flag::ACCEPT_REFUSALS) { own.accept_refusals() } else { own };
    own = if has(flag::EXPLAIN_SPIKES) { own.explain_spikes() } else { own };
    if options.deadline_ns > 0 {
        own = own.deadline(Duration::from_nanos(options.deadline_ns));
    }
    if options.releases > 0 {
        own = own.releases(options.releases);
    }

    if options.run_file.is_null() {
        return Ok(own);
    }
    // SAFETY: the caller of onbeat_loop_run vouches that it is a string.
    let path = unsafe { CStr::from_ptr(options.run_file) };
    Ok(own.run_file(Path::new(OsStr::from_bytes(path.to_bytes()))))
}

/// Fills the report of a loop that ran, which the header has cleared; keeps the sentence and
/// returns the result.
fn concluded(ran: Result<LoopReport, LoopError>, report: Option<&mut LoopAccount>) -> c_int {
    match ran {
        Ok(ran) => {
            let refused: Vec<String> =
                ran.refused.iter().map(|grant| format!("without {}", grant.refusal())).collect();
            keep(&refused.join("; "));
            if let Some(report) = report {
                *report = account_of(&ran);
            }
            result::OK
        }
        Err(why) => {
            keep(&why);
            match why {
                LoopError::Refused { .. } => result::REFUSED,
                LoopError::FileExists { .. } => result::FILE_EXISTS,
                LoopError::Panicked => result::BUG,
                LoopError::Run(_) => result::FAILED,
            }
        }
    }
}

fn account_of(ran: &LoopReport) -> LoopAccount {
    LoopAccount {
        releases: ran.account.slots,
        cycles: ran.account.cycles,
        skipped: ran.account.skipped,
        lost: ran.account.lost,
        deadline_misses: ran.deadline_misses,
        worst_ns: ran.worst_ns,
        ended: match ran.account.reason {
            EndReason::Complete => 1,
            EndReason::Task => 2,
            EndReason::Overrun => 3,
            EndReason::Asked => 4,
        },
        refused: u32::try_from(ran.refused.len()).unwrap_or(u32::MAX),
    }
}
