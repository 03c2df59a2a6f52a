//! Waits in a cycle: for a lock, for a lock whose holder is kept off its CPU, for a reply, in a
//! sleep.
//!
//! The peer is a thread that is ready before the cycle waits: it holds the lock, or listens for
//! requests. If it is not ready, nothing is injected and the cycle is counted as missed.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Cycle, Instant};
use rustix::event::{EventfdFlags, eventfd};

use super::actor::{busy_until, sleep_until};
use super::disturb_cycle::DisturbCycle;
use super::error::Error;
use super::injector_thread::{InjectorThread, above_the_loop, off_the_loops_cpu};
use super::log::DisturbanceRecord;
use super::plan::InjectionPlan;
use onbeat_host::thread::{ThreadRequest, thread_cpu_ns};

/// Interval at which a companion checks whether the loop has got the lock.
const LOOK: Duration = Duration::from_micros(200);
/// Maximum time to wait for a companion before the loop starts. Beside a busy thread with a higher
/// priority one with a low priority gets its CPU only when that thread pauses.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// Priority of the thread that keeps the lock's holder off its CPU: below a real-time loop, whose
/// priority would keep it off if the lock lent it.
const KEEPER_FIFO: u32 = 2;

/// State shared by the loop and the lock's holder.
#[derive(Debug, Default)]
struct LockState {
    lock: Mutex<()>,
    /// The holder has the lock and waits to be woken.
    is_held: AtomicBool,
    /// The loop waits for the lock.
    is_wanted: AtomicBool,
    until_ns: AtomicU64,
    kept_off_ns: AtomicU64,
}

impl LockState {
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn until(&self) -> Instant {
        Instant::from_ns(self.until_ns.load(Ordering::SeqCst))
    }

    /// Body of the holder: it holds the lock while the loop does not want it, and for the length of
    /// the injection when the loop does.
    fn hold(&self, over: &AtomicBool, mut keep: impl FnMut(&Self)) {
        let is_over = || over.load(Ordering::SeqCst);
        while !is_over() {
            let guard = self.lock();
            self.is_held.store(true, Ordering::SeqCst);
            while !self.is_wanted.load(Ordering::SeqCst) && !is_over() {
                thread::park();
            }

            self.is_held.store(false, Ordering::SeqCst);
            if !is_over() {
                keep(self);
            }

            drop(guard);
            // The loop must have had the lock before the holder takes it again.
            while self.is_wanted.load(Ordering::SeqCst) && !is_over() {
                thread::park_timeout(LOOK);
            }
        }
    }
}

/// `lock_wait` and `lock_holder_kept_off`.
#[derive(Debug)]
pub(super) struct LockWait {
    shared: Arc<LockState>,
    holder: InjectorThread,
    _keeper: Option<InjectorThread>,
}

impl LockWait {
    /// Prepares a holder that sleeps with the lock.
    pub(super) fn prepare(plan: &InjectionPlan) -> Result<Self, Error> {
        let shared = Arc::new(LockState::default());
        let held = shared.clone();
        let body = move |over: &AtomicBool| held.hold(over, |shared| sleep_until(shared.until()));
        let wait = Self {
            shared,
            holder: InjectorThread::start(above_the_loop(plan), body)?,
            _keeper: None,
        };
        wait.until_held(plan)
    }

    /// Waits until the lock is held, so that the first cycle finds it held.
    fn until_held(self, plan: &InjectionPlan) -> Result<Self, Error> {
        let end = Monotonic.now().plus_ns(onbeat_rt::time::ns(READY_WITHIN));
        while !self.shared.is_held.load(Ordering::SeqCst) {
            if Monotonic.now() > end {
                let seconds = READY_WITHIN.as_secs();
                return Err(plan.impossible(format!(
                    "the thread that holds the lock got no CPU within {seconds} s"
                )));
            }
            thread::sleep(LOOK);
        }

        Ok(self)
    }

    /// Prepares a holder with the lowest real-time priority, which no load delays, and a thread
    /// with a higher priority that keeps it off its CPU.
    pub(super) fn prepare_kept_off(plan: &InjectionPlan) -> Result<Self, Error> {
        let priority = plan.target.priority;
        if (1..=KEEPER_FIFO).contains(&priority) {
            return Err(plan.impossible(format!(
                "the loop has the real-time priority {priority}; it takes at least {}, above the lock's \
                 holder and the thread that keeps it off",
                KEEPER_FIFO + 1
            )));
        }

        let shared = Arc::new(LockState::default());
        let held = shared.clone();
        let kept = shared.clone();
        let wanted = ThreadRequest { fifo: Some(KEEPER_FIFO), ..off_the_loops_cpu(plan) };
        let keeper = InjectorThread::start(wanted, move |over| keep_off(over, &kept))?;
        let called = keeper.thread().cloned();
        let body = move |over: &AtomicBool| {
            held.hold(over, |shared| {
                shared.kept_off_ns.store(0, Ordering::SeqCst);
                called.iter().for_each(thread::Thread::unpark);
                // The holder is runnable all the time, but gets no CPU to release the lock.
                while shared.kept_off_ns.load(Ordering::SeqCst) == 0 && !over.load(Ordering::SeqCst)
                {
                    std::hint::spin_loop();
                }
            });
        };

        let holder = ThreadRequest { fifo: Some(1), ..off_the_loops_cpu(plan) };
        let wait =
            Self { shared, holder: InjectorThread::start(holder, body)?, _keeper: Some(keeper) };
        wait.until_held(plan)
    }
}

/// Body of the keeper: when woken, it is busy until the loop may have the lock.
fn keep_off(over: &AtomicBool, shared: &LockState) {
    loop {
        thread::park();
        if over.load(Ordering::SeqCst) {
            return;
        }

        let before = thread_cpu_ns();
        busy_until(shared.until());
        shared.kept_off_ns.store((thread_cpu_ns() - before).max(1), Ordering::SeqCst);
    }
}

impl DisturbCycle for LockWait {
    fn disturb(&mut self, _: &Cycle, for_ns: u64) -> Option<DisturbanceRecord> {
        let shared = &self.shared;
        if !shared.is_held.load(Ordering::SeqCst) {
            return None;
        }

        let at = Monotonic.now();
        shared.until_ns.store(at.plus_ns(for_ns).as_ns(), Ordering::SeqCst);
        shared.is_wanted.store(true, Ordering::SeqCst);
        self.holder.wake();
        let guard = shared.lock();
        let ns = Monotonic.now().ns_since(at);
        shared.is_wanted.store(false, Ordering::SeqCst);
        drop(guard);

        Some(DisturbanceRecord { at, ns, figures: [ns, shared.kept_off_ns.load(Ordering::SeqCst)] })
    }
}

#[derive(Debug)]
pub(super) struct ReplyWait {
    question: Arc<OwnedFd>,
    answer: Arc<OwnedFd>,
    until_ns: Arc<AtomicU64>,
    answerer: InjectorThread,
}

impl ReplyWait {
    pub(super) fn prepare(plan: &InjectionPlan) -> Result<Self, Error> {
        let event = || {
            let made = eventfd(0, EventfdFlags::CLOEXEC);
            made.map(Arc::new).map_err(|why| plan.impossible(format!("no eventfd: {why}")))
        };

        let question = event()?;
        let answer = event()?;
        let until_ns = Arc::new(AtomicU64::new(0));
        let asked = question.clone();
        let answered = answer.clone();
        let until = until_ns.clone();
        let body = move |over: &AtomicBool| {
            while wait(&asked) && !over.load(Ordering::SeqCst) {
                sleep_until(Instant::from_ns(until.load(Ordering::SeqCst)));
                signal(&answered);
            }
        };

        Ok(Self {
            question,
            answer,
            until_ns,
            answerer: InjectorThread::start(above_the_loop(plan), body)?,
        })
    }
}

pub(super) fn wait(event: &OwnedFd) -> bool {
    rustix::io::read(event, &mut [0; 8]).is_ok()
}

pub(super) fn signal(event: &OwnedFd) {
    // The event's counter is far from its maximum.
    let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
}

impl DisturbCycle for ReplyWait {
    fn disturb(&mut self, _: &Cycle, for_ns: u64) -> Option<DisturbanceRecord> {
        let at = Monotonic.now();
        self.until_ns.store(at.plus_ns(for_ns).as_ns(), Ordering::SeqCst);
        signal(&self.question);
        let is_answered = wait(&self.answer);
        let ns = Monotonic.now().ns_since(at);
        is_answered.then_some(DisturbanceRecord { at, ns, figures: [ns, 0] })
    }
}

impl Drop for ReplyWait {
    fn drop(&mut self) {
        self.answerer.ask_to_end();
        signal(&self.question);
    }
}

#[derive(Debug)]
pub(super) struct SleepInWork;

impl DisturbCycle for SleepInWork {
    fn disturb(&mut self, _: &Cycle, for_ns: u64) -> Option<DisturbanceRecord> {
        let at = Monotonic.now();
        // Signals are blocked in the loop's thread.
        let _ = Monotonic.sleep_until(at.plus_ns(for_ns));
        let ns = Monotonic.now().ns_since(at);
        (ns >= for_ns).then_some(DisturbanceRecord { at, ns, figures: [for_ns, 0] })
    }
}
