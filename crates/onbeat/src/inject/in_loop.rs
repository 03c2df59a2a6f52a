//! Faults that a loop causes itself: a task that wraps a task.
//!
//! An undisturbed cycle costs one comparison. A disturbed cycle reads the clock and accesses
//! memory; it makes no system call beyond the fault itself.
#![allow(unsafe_code)]

use std::sync::Arc;

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Cycle, Flow, Instant, Task};
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munlock, munmap,
};
use rustix::param::page_size;

use super::actor::busy_until;
use super::disturb_cycle::DisturbCycle;
use super::error::Error;
use super::fault::Fault;
use super::in_loop_files::{DiskWait, MappedFile};
use super::in_loop_waits::{LockWait, ReplyWait, SleepInWork};
use super::kernel_lock::KernelLockWait;
use super::log::{DisturbanceRecord, Dose, Injected, LogBuffer};
use super::plan::InjectionPlan;
use onbeat_host::thread::run_delay_ns;

/// Maximum memory for page faults, in bytes.
const MOST_BYTES: usize = 256 << 20;
/// Lower bound for the time of a page fault, in nanoseconds; real ones take two to five times as
/// long.
const FAULT_NS: u64 = 250;
/// Minimum number of pages for an injection.
const LEAST_PAGES: usize = 16;

/// A task with injected faults: some of its cycles are disturbed.
///
/// ```
/// # use onbeat::inject::{Fault, InLoop, InjectionPlan, InjectionTarget, ReleaseGrid};
/// # use onbeat_rt::{Cycle, Flow, Instant};
/// # let target = InjectionTarget { pid: 0, tid: 0, cpu: 0, priority: 0 };
/// # let grid = ReleaseGrid { first_release: Instant::from_ns(0), period_ns: 1_000_000, spin_ns: 0 };
/// # let (fault, every_ns, for_ns, count) = (Fault::OwnOverrun, 50_000_000, 2_000_000, 10);
/// let plan = InjectionPlan { fault, every_ns, for_ns, count, target, grid };
/// let task = InLoop::new(|_: &Cycle| Flow::Continue, &plan)?;
/// assert!(task.log().read().is_empty(), "no cycle has run yet");
/// # Ok::<(), onbeat::inject::Error>(())
/// ```
#[derive(Debug)]
pub struct InLoop<T> {
    task: T,
    disturbance: Box<dyn DisturbCycle>,
    dose: Dose,
    for_ns: u64,
    every_cycles: u64,
    next: u64,
    log: Arc<LogBuffer>,
}

/// The log of an [`InLoop`], readable while the loop runs.
#[derive(Clone, Debug)]
pub struct LoopLog(Arc<LogBuffer>);

impl LoopLog {
    /// Returns the injections so far.
    #[must_use]
    pub fn read(&self) -> Vec<Injected> {
        self.0.read()
    }

    /// Returns the number of cycles that should have been disturbed and were not.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.0.missed()
    }

    /// Whether all injections are done.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.0.is_over()
    }
}

impl<T: Task> InLoop<T> {
    /// Wraps `task` with `plan.fault`. Uses only the period of the plan's grid, and only CPU and
    /// priority of its target, for helper threads. Call it after the process has locked its memory:
    /// locking would make the pages present that must be missing.
    ///
    /// # Errors
    /// [`Error`]; [`Error::Elsewhere`] for faults of [`super::Injector`].
    pub fn new(task: T, plan: &InjectionPlan) -> Result<Self, Error> {
        Self::with_dose(task, plan, Dose::Full)
    }

    /// The same without any disturbance: the log names the cycles that would have been disturbed.
    ///
    /// # Errors
    /// As [`InLoop::new`].
    pub fn placebo(task: T, plan: &InjectionPlan) -> Result<Self, Error> {
        Self::with_dose(task, plan, Dose::Placebo)
    }

    fn with_dose(task: T, plan: &InjectionPlan, dose: Dose) -> Result<Self, Error> {
        plan.check()?;
        let disturbance = disturbance(plan)?;
        let every_cycles = plan.every_ns.div_ceil(plan.grid.period_ns).max(1);
        let log = Arc::new(LogBuffer::with_room_for(plan.count, plan.fault, dose));
        Ok(Self {
            task,
            disturbance,
            dose,
            for_ns: plan.for_ns,
            every_cycles,
            next: every_cycles,
            log,
        })
    }

    /// Returns the log.
    #[must_use]
    pub fn log(&self) -> LoopLog {
        LoopLog(self.log.clone())
    }
}

/// Prepares the disturbance of the cycles.
fn disturbance(plan: &InjectionPlan) -> Result<Box<dyn DisturbCycle>, Error> {
    Ok(match plan.fault {
        Fault::OwnOverrun => Box::new(Overrun),
        Fault::PageFaults => Box::new(FreshPages::prepare(plan, FirstAccess::Write)?),
        Fault::CopyOnWrite => Box::new(FreshPages::prepare(plan, FirstAccess::Read)?),
        Fault::LockWait => Box::new(LockWait::prepare(plan)?),
        Fault::LockHolderKeptOff => Box::new(LockWait::prepare_kept_off(plan)?),
        Fault::ReplyWait => Box::new(ReplyWait::prepare(plan)?),
        Fault::SleepInWork => Box::new(SleepInWork),
        Fault::DiskWait => Box::new(DiskWait::prepare(plan)?),
        Fault::MajorFaults => Box::new(MappedFile::prepare(plan)?),
        Fault::KernelLockWait => Box::new(KernelLockWait::prepare(plan)?),
        fault => return Err(Error::Elsewhere { fault }),
    })
}

impl<T: Task> Task for InLoop<T> {
    fn cycle(&mut self, cycle: &Cycle) -> Flow {
        let flow = self.task.cycle(cycle);
        // The first reading after a long time takes up to half a millisecond in a nested guest, and
        // would be the loop's own work in the cycle that is disturbed.
        if cycle.index + 1 == self.next && self.dose == Dose::Full {
            let _ = run_delay_ns();
        }
        if cycle.index >= self.next && !self.log.is_over() {
            self.next = cycle.index + self.every_cycles;
            let (done, waited_ns) = match self.dose {
                Dose::Full => {
                    let before = run_delay_ns();
                    let done = self.disturbance.disturb(cycle, self.for_ns);
                    (
                        done,
                        run_delay_ns()
                            .zip(before)
                            .map_or(0, |(after, before)| after.saturating_sub(before)),
                    )
                }
                // The run delay is not read either: that would take about ten microseconds.
                Dose::Placebo => {
                    (Some(DisturbanceRecord { at: Monotonic.now(), ns: 0, figures: [0; 2] }), 0)
                }
            };

            match done {
                Some(done) => self.log.add_of_loop(cycle.index, done, waited_ns),
                None => self.log.miss(),
            }
        }

        flow
    }
}

/// `own_overrun`.
#[derive(Debug)]
struct Overrun;

impl DisturbCycle for Overrun {
    fn disturb(&mut self, cycle: &Cycle, for_ns: u64) -> Option<DisturbanceRecord> {
        let at = Monotonic.now();
        let end = busy_until(cycle.release.plus_ns(cycle.period_ns + for_ns));
        Some(DisturbanceRecord {
            at,
            ns: end.ns_since(at),
            figures: [end.ns_since(cycle.release) / cycle.period_ns, 0],
        })
    }
}

/// The first access to the pages of a [`FreshPages`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstAccess {
    /// The loop writes to them: they are not present.
    Write,
    /// They are read in advance, so that the loop's write finds the kernel's zero page.
    Read,
}

/// Mapped memory whose pages are not present or not copied yet.
#[derive(Debug)]
struct FreshPages {
    start: *mut u8,
    bytes: usize,
    each_bytes: usize,
    next: usize,
}

// SAFETY: the mapping belongs to this value alone and may be accessed from any thread.
unsafe impl Send for FreshPages {}

impl FreshPages {
    fn prepare(plan: &InjectionPlan, first: FirstAccess) -> Result<Self, Error> {
        let page = page_size();
        let wanted = usize::try_from(plan.for_ns / FAULT_NS).unwrap_or(usize::MAX).max(LEAST_PAGES);
        let each = wanted.min(MOST_BYTES / page / plan.count);
        if each < LEAST_PAGES {
            return Err(plan.impossible(format!(
                "{} injections of {LEAST_PAGES} pages take more than {} MiB; ask for fewer",
                plan.count,
                MOST_BYTES >> 20
            )));
        }

        let bytes = each * plan.count * page;
        let start = missing(bytes).map_err(|why| {
            plan.impossible(format!(
                "{bytes} bytes of memory that is not there: {why}; see ulimit -l and ulimit -v"
            ))
        })?;
        let pages = Self { start, bytes, each_bytes: each * page, next: 0 };
        if first == FirstAccess::Read {
            pages.read_all();
        }

        Ok(pages)
    }

    /// Reading memory that was never written maps the kernel's zero page; the first write copies it
    /// (`mm/memory.c`, `do_wp_page`).
    fn read_all(&self) {
        for offset in (0..self.bytes).step_by(page_size()) {
            // SAFETY: `offset` is below `bytes`, so the byte is in the mapping, which only this
            // value knows.
            unsafe { self.start.add(offset).read_volatile() };
        }
    }

    /// Writes to one page after the other until `until`, at least to one if there is one; returns
    /// the last clock reading and the number of pages.
    fn touch_until(&mut self, until: Instant) -> (Instant, u64) {
        let end = (self.next + self.each_bytes).min(self.bytes);
        let mut touched = 0;
        let mut now = Monotonic.now();
        for offset in (self.next..end).step_by(page_size()) {
            // SAFETY: `offset` is below `bytes`, so the byte is in the mapping, which only this
            // value knows.
            unsafe { self.start.add(offset).write_volatile(1) };
            touched += 1;
            now = Monotonic.now();
            if now >= until {
                break;
            }
        }

        self.next = end;
        (now, touched)
    }
}

impl DisturbCycle for FreshPages {
    fn disturb(&mut self, _: &Cycle, for_ns: u64) -> Option<DisturbanceRecord> {
        let at = Monotonic.now();
        let (end, touched) = self.touch_until(at.plus_ns(for_ns));
        Some(DisturbanceRecord { at, ns: end.ns_since(at), figures: [touched, 0] })
    }
}

/// Maps memory whose pages become present one by one on access, even if the process has locked all
/// its memory: as long as no access is allowed, nothing can be locked.
fn missing(bytes: usize) -> Result<*mut u8, rustix::io::Errno> {
    // SAFETY: the kernel chooses a range that nothing else uses, and all calls are for this range.
    unsafe {
        let start = mmap_anonymous(
            std::ptr::null_mut(),
            bytes,
            ProtFlags::empty(),
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )?;
        let unlocked = munlock(start, bytes).and_then(|()| {
            mprotect(start, bytes, MprotectFlags::READ | MprotectFlags::WRITE)?;
            // Kernels without huge pages refuse this and do not need it.
            let _ = madvise(start, bytes, Advice::LinuxNoHugepage);
            Ok(())
        });

        if let Err(why) = unlocked {
            let _ = munmap(start, bytes);
            return Err(why);
        }

        Ok(start.cast())
    }
}

impl Drop for FreshPages {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, to which no reference was made.
        let _ = unsafe { munmap(self.start.cast(), self.bytes) };
    }
}
