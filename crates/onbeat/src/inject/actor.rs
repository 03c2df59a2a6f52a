//! A thread that disturbs: it waits for its aim, does one thing, writes it down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};
use rustix::thread::sched_getaffinity;
use rustix::time::{ClockId, clock_gettime};

use super::log::{Board, Done, Dose};
use super::plan::{Aim, Plan};
use super::{Error, Fault};
use crate::thread::{Grant, Wanted};

/// One way to disturb a loop. All methods are called in the thread that disturbs.
pub(super) trait Disturb: Send {
    /// Where and how the thread runs.
    fn wanted(&self, plan: &Plan) -> Wanted;

    /// Gets ready, without disturbing the loop's CPU.
    fn prepare(&mut self, plan: &Plan) -> Result<(), Error>;

    /// What else the thread needs once it runs where it was wanted.
    fn arrive(&mut self, _: &Plan) -> Result<(), Error> {
        Ok(())
    }

    /// How long before the loop's wake-up [`Disturb::disturb`] is called, in nanoseconds.
    fn lead_ns(&self, plan: &Plan) -> u64 {
        plan.lead_ns()
    }

    /// Disturbs the loop's wake-up of `aim`; `None` when it was too late for that.
    fn disturb(&mut self, plan: &Plan, aim: &Aim) -> Option<Done>;
}

/// The thread's handle, and the way to end it.
#[derive(Debug)]
pub(super) struct Actor {
    thread: Option<JoinHandle<()>>,
    over: Arc<AtomicBool>,
}

/// Between setting up and the first injection, in nanoseconds.
const START_NS: u64 = 30_000_000;
/// From here on before its aim the thread sleeps on the clock, not on what can end its sleep, in nanoseconds.
const LAST_SLEEP_NS: u64 = 2_000_000;

impl Actor {
    /// Starts the thread and waits until it is ready.
    pub(super) fn start(
        plan: Plan,
        board: Arc<Board>,
        dose: Dose,
        mut disturber: Box<dyn Disturb>,
    ) -> Result<Self, Error> {
        let over = Arc::new(AtomicBool::new(false));
        let (tell, told) = channel();
        let mut stage = Stage { plan, board, dose, over: over.clone() };
        let body = move || {
            if stage.get_ready(disturber.as_mut(), &tell) {
                stage.play(disturber.as_mut());
            }
        };

        let thread = thread::Builder::new().name("onbeat-inject".to_owned()).spawn(body).map_err(Error::Thread)?;
        let mut actor = Self { thread: Some(thread), over };
        match told.recv() {
            Ok(ready) => ready.map(|()| actor),
            Err(_) => {
                actor.end();
                Err(Error::Panicked)
            }
        }
    }

    /// Whether nothing more will come.
    pub(super) fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends the thread after what it is doing.
    pub(super) fn end(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic is a bug, and the log up to it is still true.
            let _ = thread.join();
        }
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.end();
    }
}

struct Stage {
    plan: Plan,
    board: Arc<Board>,
    dose: Dose,
    over: Arc<AtomicBool>,
}

impl Stage {
    fn get_ready(&self, disturber: &mut dyn Disturb, tell: &Sender<Result<(), Error>>) -> bool {
        // What costs time to prepare is prepared away from the loop, before the thread goes to its CPU.
        settle(Wanted { cpu: other_cpu(self.plan.target.cpu), ..Wanted::default() });
        let ready = disturber.prepare(&self.plan).and_then(|()| take_place(&self.plan, disturber.wanted(&self.plan)));
        let ready = ready.and_then(|()| disturber.arrive(&self.plan));
        let is_ready = ready.is_ok();
        // The starter waits for this.
        let _ = tell.send(ready);

        is_ready
    }

    fn play(&mut self, disturber: &mut dyn Disturb) {
        let lead_ns = disturber.lead_ns(&self.plan);
        let mut earliest = Monotonic.now().plus_ns(START_NS.max(lead_ns));
        while !self.board.is_over() {
            let aim = self.plan.aim(earliest);
            earliest = aim.wake_up.plus_ns(self.plan.every_ns);
            if !self.sleep_until(aim.wake_up.minus_ns(lead_ns)) {
                return;
            }

            let done = match self.dose {
                Dose::Full => disturber.disturb(&self.plan, &aim),
                Dose::Placebo => Some(Done { at: Monotonic.now(), ns: 0, figures: [0; 2] }),
            };

            match done {
                // The scheduler's two rules act when they do, and then meet another release.
                Some(done) if done.at > aim.wake_up => self.board.add(self.plan.grid.next(done.at), done),
                Some(done) => self.board.add(aim.release, done),
                None => self.board.miss(),
            }

            // A disturbance may take longer than planned; the next one must still find its lead.
            earliest = earliest.max(Monotonic.now().plus_ns(lead_ns + LAST_SLEEP_NS));
        }
    }

    /// Sleeps until `wake_up`; `false` when it is over before.
    fn sleep_until(&self, wake_up: Instant) -> bool {
        loop {
            if self.over.load(Ordering::Relaxed) {
                return false;
            }

            let left_ns = wake_up.ns_since(Monotonic.now());
            if left_ns <= LAST_SLEEP_NS {
                break;
            }

            thread::park_timeout(Duration::from_nanos(left_ns - LAST_SLEEP_NS / 2));
        }

        sleep_until(wake_up);
        true
    }
}

/// Gives the calling thread what it can have. What is refused makes it less punctual, no more.
pub(super) fn settle(wanted: Wanted) {
    let _ = wanted.prepare_thread();
}

fn take_place(plan: &Plan, wanted: Wanted) -> Result<(), Error> {
    let grants = wanted.prepare_thread();
    match grants.into_iter().find(|grant| !grant.granted && is_needed(plan.fault, grant)) {
        None => Ok(()),
        Some(grant) => {
            let Grant { wanted, why_not, remedy, .. } = grant;
            let (why, remedy) = (why_not.unwrap_or_default(), remedy.unwrap_or_default());
            Err(plan.impossible(format!("its thread needs {wanted}: {why}; try: {remedy}")))
        }
    }
}

/// All need their CPU; a real-time priority only those that must keep it from others.
fn is_needed(fault: Fault, grant: &Grant) -> bool {
    let keeps_the_cpu =
        matches!(fault, Fault::EqualPriorityHog | Fault::HigherPriorityHog | Fault::RtThrottling | Fault::FairServer);
    grant.privilege() != Some(crate::thread::Privilege::RealTimePriority) || keeps_the_cpu
}

/// How a thread beside the loop runs on the loop's CPU: below the loop, above ordinary threads where that is possible.
pub(super) fn below_the_loop(plan: &Plan) -> Wanted {
    let fifo = (plan.target.priority > 1).then_some(1);
    Wanted { fifo, cpu: Some(plan.target.cpu), ..Wanted::default() }
}

/// Another CPU that this process may use.
pub(super) fn other_cpu(cpu: u32) -> Option<u32> {
    let cpus = sched_getaffinity(None).ok()?;
    let mut all = 0..u32::try_from(rustix::thread::CpuSet::MAX_CPU).unwrap_or(0);
    all.rfind(|&other| other != cpu && cpus.is_set(other as usize))
}

pub(super) fn sleep_until(instant: Instant) {
    // Signals are blocked in these threads; one that came through only makes the polling after it longer.
    let _ = Monotonic.sleep_until(instant);
    busy_until(instant);
}

/// Polls the clock until `instant`; the instant seen last.
pub(super) fn busy_until(instant: Instant) -> Instant {
    loop {
        let now = Monotonic.now();
        if now >= instant {
            return now;
        }
        std::hint::spin_loop();
    }
}

/// CPU time of the calling thread, in nanoseconds.
#[allow(clippy::cast_sign_loss)]
pub(super) fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Time between two instants of a thread that may be preempted at the end of what it measures: there the loop runs
/// first, and its cycle is no part of the disturbance.
pub(super) struct Stretch {
    from: Instant,
    cpu_ns: u64,
}

impl Stretch {
    pub(super) fn begin() -> Self {
        let cpu_ns = thread_cpu_ns();
        Self { from: Monotonic.now(), cpu_ns }
    }

    /// The time since, without that of others at its end. `least_ns` is what it takes at least by calibration: CPU
    /// clocks leave out interrupts (`CONFIG_IRQ_TIME_ACCOUNTING`) and steal on some kernels.
    pub(super) fn end(self, least_ns: u64) -> (Instant, u64) {
        let wall_ns = Monotonic.now().ns_since(self.from);
        let cpu_ns = thread_cpu_ns() - self.cpu_ns;
        (self.from, wall_ns.min(cpu_ns.max(least_ns)))
    }
}

/// The shortest of several runs of `work`, in nanoseconds.
pub(super) fn shortest_ns(runs: u32, mut work: impl FnMut()) -> u64 {
    let one = |_| {
        let from = Monotonic.now();
        work();
        Monotonic.now().ns_since(from)
    };
    (0..runs).map(one).min().unwrap_or(0)
}
