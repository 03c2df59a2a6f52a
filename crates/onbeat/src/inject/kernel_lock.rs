//! `kernel_lock_wait`: a cycle waits for a lock inside the kernel, which a thread of lower priority
//! holds.
//!
//! With PREEMPT_RT the kernel's spin locks are mutexes with priority inheritance
//! (`kernel/locking/rtmutex.c`): their holder can be preempted, and a thread that waits for it lends it
//! its priority. A thread of the lowest real-time priority searches thousands of file locks, which
//! holds the list's lock; the loop wakes, preempts it, and asks for a file lock itself, which takes
//! the list's lock for an instant.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Cycle, Instant};

use super::actor::{below_the_loop, busy_until, sleep_until};
use super::disturb_cycle::DisturbCycle;
use super::error::Error;
use super::file_locks::FileLocks;
use super::injector_thread::InjectorThread;
use super::log::DisturbanceRecord;
use super::plan::InjectionPlan;
use onbeat_host::machine::is_preempt_rt;

/// Time from the holder's wake-up to the loop's release, in nanoseconds.
const LEAD_NS: u64 = 300_000;
/// Time from the start of the search to the loop's release, in nanoseconds.
const AHEAD_NS: u64 = 50_000;
/// A wait for less than this share of the wanted length was not for the holder.
const LEAST_SHARE: u64 = 4;

/// What the loop and the holder share.
struct HeldLock {
    locks: FileLocks,
    /// The release at which the loop will want the lock, in nanoseconds; 0 for none.
    next_ns: AtomicU64,
    is_searching: AtomicBool,
}

/// The disturbance of the cycles.
pub(super) struct KernelLockWait {
    held: Arc<HeldLock>,
    every_ns: u64,
    holder: InjectorThread,
}

impl std::fmt::Debug for KernelLockWait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KernelLockWait").field("every_ns", &self.every_ns).finish_non_exhaustive()
    }
}

impl KernelLockWait {
    /// Prepares the file locks and a thread on the loop's CPU, below the loop, that searches them.
    pub(super) fn prepare(plan: &InjectionPlan) -> Result<Self, Error> {
        if !is_preempt_rt() {
            return Err(plan.impossible(
                "only with PREEMPT_RT a loop can preempt the holder of such a lock; this kernel is built without it",
            ));
        }
        if plan.target.priority < 2 {
            return Err(plan.impossible(
                "the holder must have a real-time priority below the loop's, which has none or the lowest",
            ));
        }

        let locks = FileLocks::for_search(plan, plan.for_ns + AHEAD_NS)?;
        let held = Arc::new(HeldLock {
            locks,
            next_ns: AtomicU64::new(0),
            is_searching: AtomicBool::new(false),
        });
        let searched = held.clone();
        let body = move |over: &AtomicBool| {
            while !over.load(Ordering::SeqCst) {
                searched.search_at_the_release();
                thread::park();
            }
        };

        let holder = InjectorThread::start(below_the_loop(plan), body)?;
        let period_ns = plan.grid.period_ns;
        let every_ns = plan.every_ns.div_ceil(period_ns).max(1) * period_ns;
        Ok(Self { held, every_ns, holder })
    }
}

impl HeldLock {
    /// Holds the lock from shortly before the release that the loop has named, if it has.
    fn search_at_the_release(&self) {
        let next_ns = self.next_ns.swap(0, Ordering::SeqCst);
        if next_ns == 0 {
            return;
        }

        let release = Instant::from_ns(next_ns);
        sleep_until(release.minus_ns(LEAD_NS));
        busy_until(release.minus_ns(AHEAD_NS));
        self.is_searching.store(true, Ordering::SeqCst);
        self.locks.search();
        self.is_searching.store(false, Ordering::SeqCst);
    }
}

impl DisturbCycle for KernelLockWait {
    /// The first call only names the next release; nothing is held yet.
    fn disturb(&mut self, cycle: &Cycle, for_ns: u64) -> Option<DisturbanceRecord> {
        let done = self.held.is_searching.load(Ordering::SeqCst).then(|| {
            let at = Monotonic.now();
            self.held.locks.ask();
            let ns = Monotonic.now().ns_since(at);
            DisturbanceRecord { at, ns, figures: [ns, 0] }
        });

        let next = cycle.release.plus_ns(self.every_ns);
        self.held.next_ns.store(next.as_ns(), Ordering::SeqCst);
        self.holder.wake();
        done.filter(|done| done.ns >= for_ns / LEAST_SHARE)
    }
}
