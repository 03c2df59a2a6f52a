//! A loop of one's own: a closure that runs once per period, and a run file of how late it was.
//!
//! [`run`] is the shortest way, [`Loop`] has the options. Both prepare a thread, call the closure
//! in it from release to release, and record on the caller's thread; nothing is printed and no
//! signal is caught.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use onbeat_rt::{Cycle, Flow};
use onbeat_rt::{OnOverrun, Task, Wait};

use crate::probe::description::OnGrid;
use crate::probe::{self, BlockPlan, Destination, Interruptions, Origin, Run, RunError, Setting};
use onbeat_host::thread::{Grant, Privilege, this_program};
use onbeat_record::{Account, EndReason, Series, interval_ns_for};

/// Where lines go when no run file is asked for.
const NO_FILE: &str = "/dev/null";

/// The period of a loop.
///
/// ```
/// use std::time::Duration;
///
/// use onbeat::Period;
///
/// assert_eq!(Period::from_hz(1000), Period::from(Duration::from_millis(1)));
/// assert_eq!(Period::from_hz(3).as_ns(), 333_333_333);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(u64);

impl Period {
    /// Returns the period of a frequency in Hz, in whole nanoseconds, rounded down. 0 Hz gives a
    /// period of 0, which no loop accepts.
    #[must_use]
    pub const fn from_hz(hz: u32) -> Self {
        match 1_000_000_000_u64.checked_div(hz as u64) {
            Some(ns) => Self(ns),
            None => Self(0),
        }
    }

    /// Returns a period of nanoseconds.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Returns the period in nanoseconds.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.0
    }
}

impl From<Duration> for Period {
    /// Durations beyond 584 years become that.
    fn from(duration: Duration) -> Self {
        Self(nanoseconds(duration))
    }
}

/// What a cycle's closure returns: nothing to continue, or [`Flow`] to decide.
///
/// ```
/// use onbeat::{Flow, Period};
///
/// // A closure may return nothing and run until the program is stopped, or say when it ends.
/// let report = onbeat::run(Period::from_hz(1000), |cycle| {
///     if cycle.index < 9 { Flow::Continue } else { Flow::Stop }
/// })?;
/// assert!(report.account.slots >= 10);
/// # Ok::<(), onbeat::LoopError>(())
/// ```
pub trait CycleResult {
    /// Returns whether the loop continues.
    fn flow(self) -> Flow;
}

impl CycleResult for () {
    fn flow(self) -> Flow {
        Flow::Continue
    }
}

impl CycleResult for Flow {
    fn flow(self) -> Flow {
        self
    }
}

/// Runs `cycle` once per period, in an ordinary thread and without a run file, until it returns
/// [`Flow::Stop`].
///
/// ```
/// use onbeat::{Flow, Period};
///
/// let report = onbeat::run(Period::from_hz(1000), |cycle| {
///     // read the sensors, compute, write the outputs
///     if cycle.index < 99 { Flow::Continue } else { Flow::Stop }
/// })?;
/// assert!(report.account.slots >= 100);
/// # Ok::<(), onbeat::LoopError>(())
/// ```
///
/// # Errors
/// [`LoopError`].
pub fn run<R: CycleResult>(
    period: Period,
    cycle: impl FnMut(&Cycle) -> R + Send,
) -> Result<LoopReport, LoopError> {
    Loop::new(period).run(cycle)
}

/// A loop with its options.
///
/// ```
/// use onbeat::{Loop, Period};
///
/// # let scratch = std::env::temp_dir().join(format!("onbeat-loop-{}.onbeat.hlog", std::process::id()));
/// # let file = scratch.as_path();
/// let report = Loop::new(Period::from_hz(1000))
///     .priority(80)
///     .accept_refusals() // runs as an ordinary thread where the priority is refused
///     .releases(100)
///     .run_file(file)
///     .run(|cycle| println!("release {}, {} ns late", cycle.index, cycle.start.ns_since(cycle.release)))?;
///
/// assert_eq!(report.account.slots, 100);
/// assert!(onbeat::record::RunFile::read(file)?.is_complete());
/// # std::fs::remove_file(file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "`run` starts it"]
pub struct Loop {
    setting: Setting,
    releases: u64,
    run_file: Option<PathBuf>,
    accepts_refusals: bool,
    stop: Option<Arc<AtomicBool>>,
}

impl Loop {
    /// Returns a loop in an ordinary thread that sleeps to its releases, without end and without a
    /// run file.
    pub fn new(period: Period) -> Self {
        Self {
            setting: Setting::new(period.as_ns()),
            releases: u64::MAX,
            run_file: None,
            accepts_refusals: false,
            stop: None,
        }
    }

    /// Runs the loop with `SCHED_FIFO` at this priority, 1 to 99 [default: an ordinary thread].
    pub const fn priority(mut self, priority: u32) -> Self {
        self.setting.thread.fifo = Some(priority);
        self
    }

    /// Binds the loop's thread to a CPU; the calling thread stays off it from then on.
    pub const fn cpu(mut self, cpu: u32) -> Self {
        self.setting.thread.cpu = Some(cpu);
        self
    }

    /// Locks all memory of the process, so that no cycle waits for a page.
    pub const fn lock_memory(mut self) -> Self {
        self.setting.thread.lock_memory = true;
        self
    }

    /// Runs the loop without what the system refuses; [`LoopReport::refused`] lists it. Without
    /// this, a refusal is an error.
    pub const fn accept_refusals(mut self) -> Self {
        self.accepts_refusals = true;
        self
    }

    /// Sets how the loop waits for a release.
    pub const fn wait(mut self, wait: Wait) -> Self {
        self.setting.wait = wait;
        self
    }

    /// Sets the reaction to a cycle that ends after the next release [default: skip what has passed].
    pub const fn on_overrun(mut self, on_overrun: OnOverrun) -> Self {
        self.setting.on_overrun = on_overrun;
        self
    }

    /// Sets the deadline after each release [default: the period].
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.setting.deadline_ns = nanoseconds(deadline);
        self
    }

    /// Ends the loop after this many releases [default, and with 0: no end].
    pub const fn releases(mut self, releases: u64) -> Self {
        self.releases = releases;
        self
    }

    /// Ends the loop after this time, and after one release at the earliest.
    pub fn duration(mut self, duration: Duration) -> Self {
        let duration_ns = nanoseconds(duration);
        self.setting.interval_ns = interval_ns_for(duration_ns);
        // None would be a loop without an end.
        self.releases = (duration_ns / self.setting.period_ns.max(1)).max(1);
        self
    }

    /// Ends the loop when `stop` becomes true, which a signal handler may set.
    pub fn stop_when(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Writes a run file, which `onbeat report` shows. A file that exists is not replaced.
    pub fn run_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.run_file = Some(path.into());
        self
    }

    /// Explains spikes in the run file, by a flight recorder beside the loop; needs the rights for
    /// tracing.
    pub const fn explain_spikes(mut self) -> Self {
        self.setting.causes = true;
        self
    }

    /// Runs `cycle` once per period, in a thread of its own, and records on the caller's thread
    /// until the loop has ended.
    ///
    /// # Errors
    /// [`LoopError`].
    pub fn run<R: CycleResult>(
        self,
        cycle: impl FnMut(&Cycle) -> R + Send,
    ) -> Result<LoopReport, LoopError> {
        let Self { setting, releases, run_file, accepts_refusals, stop } = self;
        if let Some(path) = run_file.as_ref().filter(|path| fs::symlink_metadata(path).is_ok()) {
            return Err(LoopError::FileExists { path: path.clone() });
        }

        let origin = Origin::now();
        let header =
            probe::header(&[this_program()], "loop", &[Series::ReleaseLatency], origin.unix_s);
        let path = run_file.as_deref().unwrap_or(Path::new(NO_FILE));
        let mut run = Run::open(Destination { path, header, origin: origin.at }, setting)?;
        let refused: Vec<Grant> =
            run.grants().iter().filter(|grant| is_refused(grant)).cloned().collect();
        if !accepts_refusals && !refused.is_empty() {
            drop(run);
            // It holds a header and no sample.
            if let Some(path) = run_file {
                let _ = fs::remove_file(path);
            }
            return Err(LoopError::Refused { refused });
        }

        let interruptions = Interruptions::default();
        let mut body = OnGrid { task: CycleClosure(cycle), has_ports: true };
        let block = BlockPlan { index: 0, load: "idle", releases };
        let mut worst_ns = 0;
        let ran = run.begin_body(&mut body).block(&block, &interruptions, &mut |recorder| {
            worst_ns = recorder.progress().worst_ns;
            if stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                interruptions.stop.store(true, Ordering::Relaxed);
            }
        });

        match ran {
            Err(RunError::Panicked) => return Err(LoopError::Panicked),
            ran => ran?,
        };
        let worst_ns = run.recorder().progress().worst_ns.max(worst_ns);
        let deadline_misses = run.recorder().progress().deadline_misses;
        Ok(LoopReport { account: run.close()?, worst_ns, deadline_misses, refused })
    }
}

/// A closure as the task of a loop.
struct CycleClosure<F>(F);

impl<R: CycleResult, F: FnMut(&Cycle) -> R> Task for CycleClosure<F> {
    fn cycle(&mut self, cycle: &Cycle) -> Flow {
        (self.0)(cycle).flow()
    }
}

/// How a loop ran.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LoopReport {
    /// Releases, cycles, skipped releases, and why the loop ended.
    pub account: Account,
    /// Largest wake-up latency, in nanoseconds, without the first ten cycles.
    pub worst_ns: u64,
    /// Cycles that ended after their deadline.
    pub deadline_misses: u64,
    /// What the system refused, with reasons and remedies.
    pub refused: Vec<Grant>,
}

impl LoopReport {
    /// Returns whether the loop ran to its last release, or until its closure ended it.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        matches!(self.account.reason, EndReason::Complete | EndReason::Task)
    }
}

impl fmt::Display for LoopReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Account { slots, skipped, .. } = self.account;
        let worst_us = self.worst_ns as f64 / 1e3;
        let misses = self.deadline_misses;
        write!(
            f,
            "{slots} releases, {skipped} skipped, {misses} deadline misses, worst wake-up latency {worst_us:.1} us"
        )?;
        self.refused.iter().try_for_each(|grant| write!(f, "\nwithout {}", grant.refusal()))
    }
}

/// A loop could not run.
#[derive(Debug, thiserror::Error)]
pub enum LoopError {
    /// The system refused a privilege.
    #[error("the loop was not started without {}", refused.iter().map(Grant::refusal).collect::<Vec<_>>().join("; "))]
    Refused {
        /// What it refused, with reasons and remedies.
        refused: Vec<Grant>,
    },
    /// The run file exists already.
    #[error("the run file {path} exists; choose another name, or remove it")]
    FileExists {
        /// Which file.
        path: PathBuf,
    },
    /// The closure panicked.
    #[error("the cycle's closure panicked, and the loop has ended")]
    Panicked,
    /// The timing is not valid, or the run file could not be written.
    #[error(transparent)]
    Run(#[from] RunError),
}

fn is_refused(grant: &Grant) -> bool {
    !grant.granted && grant.privilege().is_some_and(Privilege::changes_the_loop)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
