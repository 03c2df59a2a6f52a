//! `stop_signal`, `ptrace_stop` and `forced_migration`: changes that must be undone even if the
//! injecting process dies.
//!
//! A stopped process cannot continue itself, and a loop in another process keeps a changed
//! affinity. So two separate processes do this work. They share this process's memory, but neither
//! its end nor its signals:
//!
//! - the actor disturbs the target and undoes it; when its starter is gone, it stops;
//! - the guard waits for the actor's end, and undoes what the actor may have left.
//!
//! They are created by clone(2) with `CLONE_VM`, not by fork: a fork would write-protect the memory
//! of a running loop and cause thousands of page faults. Their code is limited to atomics and raw
//! system calls (by rustix, which uses no thread-local state), because they have no thread-local
//! state of their own.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, pread};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use rustix::param::page_size;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, getppid, getuid, pidfd_open, pidfd_send_signal,
    setsid, test_kill_process, waitpid,
};
use rustix::thread::{
    ClockId, CpuSet, clock_nanosleep_absolute, sched_getaffinity, sched_setaffinity,
};

use super::actor::{other_cpu, timespec};
use super::error::Error;
use super::fault::Fault;
use super::injector_thread::{InjectorThread, above_the_loop};
use super::log::{DisturbanceRecord, Dose, LogBuffer};
use super::plan::{AimedRelease, InjectionPlan};

/// Time from set-up to the first injection, in nanoseconds.
const START_NS: u64 = 30_000_000;
/// Maximum length of a sleep, in nanoseconds, after which the actor checks whether it must end.
const PIECE_NS: u64 = 50_000_000;
/// Interval between two checks whether the loop's thread has stopped, in nanoseconds.
const LOOK_EVERY_NS: u64 = 10_000;
/// On a machine with one CPU the thread stops between two checks, so that the rest is at least this
/// multiple of what a check takes.
const RESTS: u64 = 4;
const STACK_BYTES: usize = 64 * 1024;

/// A reversible action on the target.
enum OutsideAction {
    /// Stops the process; `stat` shows the state of the loop's thread.
    Stop {
        process: OwnedFd,
        stat: OwnedFd,
        pid: i32,
        tid: i32,
    },
    /// Stops the thread as a debugger does. The kernel continues the thread when its tracer ends.
    Trace {
        stat: OwnedFd,
        pid: i32,
        tid: i32,
    },
    Move {
        thread: Pid,
        masks: Box<AffinityMasks>,
        from: u32,
        to: u32,
    },
}

/// Affinities of a thread: the original one, and the other CPU.
struct AffinityMasks {
    home: CpuSet,
    away: CpuSet,
}

impl OutsideAction {
    fn new(plan: &InjectionPlan) -> Result<Self, Error> {
        match (plan.fault, Self::new_stop(plan)) {
            (Fault::ForcedMigration, _) => Self::new_move(plan),
            (Fault::PtraceStop, Ok(Self::Stop { stat, pid, tid, .. })) => {
                Ok(Self::Trace { stat, pid, tid })
            }
            (_, stopping) => stopping,
        }
    }

    fn new_stop(plan: &InjectionPlan) -> Result<Self, Error> {
        let pid = plan.target.pid;
        let tid = plan.target.tid;
        let process = Pid::from_raw(pid).ok_or(Errno::SRCH);
        let process = process.and_then(|pid| test_kill_process(pid).map(|()| pid));
        let process = process.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
        let process = process.map_err(|why| refusal(plan, why, &format!("process {pid}")))?;
        let path = CString::new(format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default();
        let stat = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let stat =
            stat.map_err(|why| refusal(plan, why, &format!("thread {tid} of process {pid}")))?;

        Ok(Self::Stop { process, stat, pid, tid })
    }

    fn new_move(plan: &InjectionPlan) -> Result<Self, Error> {
        let tid = plan.target.tid;
        let from = plan.target.cpu;
        let thread = Pid::from_raw(tid).ok_or(Errno::SRCH);
        let thread = thread.and_then(|tid| {
            let home = sched_getaffinity(Some(tid))?;
            // Sets the affinity that it already has, to check that it can be restored.
            sched_setaffinity(Some(tid), &home)?;
            Ok((tid, home))
        });

        let (thread, home) = thread.map_err(|why| refusal(plan, why, &format!("thread {tid}")))?;
        let Some(to) = other_cpu(from) else {
            return Err(plan
                .impossible("it takes a second CPU that this process may use (taskset, cpuset)"));
        };
        let mut away = CpuSet::new();
        away.set(to as usize);
        Ok(Self::Move { thread, masks: Box::new(AffinityMasks { home, away }), from, to })
    }

    /// Performs the action. A thread that is stopped already is left alone, because continuing it
    /// is not up to the injector.
    fn perform(&self) -> bool {
        match self {
            Self::Stop { stat, .. } | Self::Trace { stat, .. } if is_halted(stat) => false,
            Self::Stop { pid, tid, .. } => stop_thread(*pid, *tid),
            Self::Trace { tid, .. } => trace(PTRACE_SEIZE, *tid) && trace(PTRACE_INTERRUPT, *tid),
            Self::Move { thread, masks, .. } => {
                sched_setaffinity(Some(*thread), &masks.away).is_ok()
            }
        }
    }

    /// Returns the instant from which on the action is in effect; `None` if it is not by `until`.
    /// `performed` is the time of the action.
    fn wait_for_effect(&self, performed: Instant, until: Instant) -> Option<Instant> {
        let (Self::Stop { stat, .. } | Self::Trace { stat, .. }) = self else {
            return Some(performed);
        };
        loop {
            let looked = Monotonic.now();
            if is_halted(stat) {
                return Some(Monotonic.now());
            }

            let next = next_look(looked);
            if next >= until {
                return None;
            }
            sleep_until(next);
        }
    }

    /// Whether the action is still in effect.
    fn is_in_effect(&self) -> bool {
        match self {
            Self::Stop { stat, .. } | Self::Trace { stat, .. } => is_halted(stat),
            Self::Move { .. } => true,
        }
    }

    fn undo(&self) -> bool {
        match self {
            Self::Stop { process, .. } => pidfd_send_signal(process, Signal::CONT).is_ok(),
            Self::Trace { tid, stat, .. } => detach(*tid, stat),
            Self::Move { thread, masks, .. } => {
                sched_setaffinity(Some(*thread), &masks.home).is_ok()
            }
        }
    }
}

/// Returns the error for a refused access to the target.
fn refusal(plan: &InjectionPlan, why: Errno, what: &str) -> Error {
    let InjectionPlan { fault, target, .. } = *plan;
    match (why, onbeat_host::machine::owner(target.pid)) {
        (Errno::PERM | Errno::ACCESS, Some(owner)) => {
            Error::NotPermitted { fault, pid: target.pid, owner, user: getuid().as_raw() }
        }
        _ => plan.impossible(format!("{what}: {why}")),
    }
}

/// Sends SIGSTOP to one thread, which stops itself and then its whole process.
///
/// If it were sent to the process, the kernel would deliver it to the first thread: an ordinary
/// one, which may wait long for a CPU while the loop keeps running (kernel/signal.c,
/// `complete_signal`).
fn stop_thread(pid: i32, tid: i32) -> bool {
    // SAFETY: three numbers. On failure libc writes `errno` of the thread that waits for this
    // process, which never reads it.
    unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, libc::SIGSTOP) == 0 }
}

/// Requests of ptrace(2).
const PTRACE_SEIZE: libc::c_uint = 0x4206;
const PTRACE_INTERRUPT: libc::c_uint = 0x4207;
const PTRACE_DETACH: libc::c_uint = 17;

fn trace(request: libc::c_uint, tid: i32) -> bool {
    // SAFETY: these requests take a number and no addresses; on `errno` see `stop_thread`.
    unsafe { libc::syscall(libc::SYS_ptrace, request, tid, 0, 0) == 0 }
}

/// Detaches from a traced thread. The thread must be halted for that, and halts when it gets a CPU:
/// without waiting for it, it would stay halted forever.
fn detach(tid: i32, stat: &OwnedFd) -> bool {
    let mut looked = Monotonic.now();
    while !trace(PTRACE_DETACH, tid) {
        // The kernel returns the same error for a thread that is gone and for one that is not yet
        // halted.
        if pread(stat, &mut [0; 1], 0).is_err() {
            return false;
        }
        sleep_until(next_look(looked));
        looked = Monotonic.now();
    }
    true
}

/// Returns the instant of the next check, after one that began at `looked`.
fn next_look(looked: Instant) -> Instant {
    let now = Monotonic.now();
    now.plus_ns(LOOK_EVERY_NS.max(RESTS * now.ns_since(looked)))
}

/// Whether a thread is stopped by a signal (T) or by a debugger (t), by its `stat` file (proc(5)):
/// `tid (name) state ...`, with a name of at most 64 bytes.
fn is_halted(stat: &OwnedFd) -> bool {
    let mut text = [0; 128];
    let Ok(read) = pread(stat, &mut text, 0) else { return false };
    let text = text.get(..read).unwrap_or_default();
    let end_of_name = text.iter().rposition(|byte| *byte == b')');
    matches!(end_of_name.and_then(|end| text.get(end + 2)), Some(b'T' | b't'))
}

/// State shared by both processes and their starter.
struct OutsideState {
    plan: InjectionPlan,
    log: Arc<LogBuffer>,
    dose: Dose,
    action: OutsideAction,
    starter: Pid,
    guarded: AtomicBool,
    over: AtomicBool,
    /// The action is in effect and must be undone.
    held: AtomicBool,
}

impl OutsideState {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed) || getppid() != Some(self.starter) || self.log.is_over()
    }

    /// Body of the actor.
    fn run_actor(&self) {
        // Signals to the starter's group or terminal must not reach this process.
        let _ = setsid();
        while !self.guarded.load(Ordering::Acquire) {
            if self.is_over() {
                return;
            }
            sleep_until(Monotonic.now().plus_ns(1_000_000));
        }

        let mut earliest = Monotonic.now().plus_ns(START_NS);
        loop {
            let aim = self.plan.aim(earliest);
            earliest = aim.wake_up.plus_ns(self.plan.every_ns);
            let begin = aim.wake_up.minus_ns(self.plan.lead_ns() / 2);
            while Monotonic.now() < begin {
                if self.is_over() {
                    return;
                }
                sleep_until(begin.min(Monotonic.now().plus_ns(PIECE_NS)));
            }

            match self.disturb(&aim) {
                Some(done) => self.log.add(aim.release, done),
                None => self.log.miss(),
            }

            if self.is_over() {
                return;
            }
        }
    }

    fn disturb(&self, aim: &AimedRelease) -> Option<DisturbanceRecord> {
        let at = Monotonic.now();
        if self.dose == Dose::Placebo {
            return Some(DisturbanceRecord { at, ns: 0, figures: [0; 2] });
        }
        if at >= aim.wake_up {
            return None;
        }

        self.held.store(true, Ordering::SeqCst);
        if !self.action.perform() {
            self.held.store(false, Ordering::SeqCst);
            return None;
        }

        let began = self.action.wait_for_effect(at, aim.until);
        if let Some(began) = began {
            // If the thread got no CPU to stop on, its time starts when it stops.
            let until = aim.until.max(began.plus_ns(self.plan.for_ns));
            while Monotonic.now() < until {
                sleep_until(until);
            }
        }

        let stood = self.action.is_in_effect();
        let undone = self.action.undo();
        self.held.store(false, Ordering::SeqCst);
        let figures = match &self.action {
            OutsideAction::Stop { pid, .. } | OutsideAction::Trace { pid, .. } => {
                [u64::from(pid.unsigned_abs()), 0]
            }
            OutsideAction::Move { from, to, .. } => [u64::from(*from), u64::from(*to)],
        };

        let began = began.filter(|_| stood && undone)?;
        Some(DisturbanceRecord { at: began, ns: Monotonic.now().ns_since(began), figures })
    }
}

/// State of the guard.
struct Guard {
    state: Arc<OutsideState>,
    actor: OwnedFd,
}

impl Guard {
    /// Body of the guard.
    fn run(&self) {
        let _ = setsid();
        // A pidfd becomes readable when its process ends (pidfd_open(2)). A poll that a signal
        // interrupts is repeated.
        while !matches!(poll(&mut [PollFd::new(&self.actor, PollFlags::IN)], None), Ok(1..)) {
            sleep_until(Monotonic.now().plus_ns(1_000_000));
        }

        // The kernel ends tracing when the tracer ends; no other process can.
        let is_ours = !matches!(self.state.action, OutsideAction::Trace { .. });
        if is_ours && self.state.held.load(Ordering::SeqCst) {
            // If the target is gone, there is nothing to undo.
            let _ = self.state.action.undo();
        }
    }
}

fn sleep_until(instant: Instant) {
    // All callers repeat a sleep that ends early.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &timespec(instant));
}

extern "C" fn act(state: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `SharedMemoryChild::start` was given a pointer to an `OutsideState` that the keeper
    // holds until this process has ended.
    unsafe { &*state.cast::<OutsideState>() }.run_actor();
    0
}

extern "C" fn watch(watch: *mut libc::c_void) -> libc::c_int {
    // SAFETY: as above, a `Guard`.
    unsafe { &*watch.cast::<Guard>() }.run();
    0
}

/// A process that shares this one's memory and has its own stack.
struct SharedMemoryChild {
    pid: Pid,
    stack: *mut libc::c_void,
}

impl SharedMemoryChild {
    /// # Safety
    /// `subject` has the type that `body` expects, and lives until [`SharedMemoryChild::wait`] has
    /// returned; `body` uses neither locks nor the heap nor thread-local state.
    unsafe fn start(
        body: extern "C" fn(*mut libc::c_void) -> libc::c_int,
        subject: *mut libc::c_void,
    ) -> Result<Self, std::io::Error> {
        // SAFETY: the kernel chooses a range that nothing else uses; its lowest page becomes a
        // guard.
        let stack = unsafe {
            let stack = mmap_anonymous(
                std::ptr::null_mut(),
                STACK_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?;
            mprotect(stack, page_size(), MprotectFlags::empty())?;

            stack
        };

        // No exit signal: other code that waits for children does not see these. SAFETY: the
        // stack's end is valid and aligned (a multiple of the page size); the rest is the caller's
        // promise.
        let pid =
            unsafe { libc::clone(body, stack.byte_add(STACK_BYTES), libc::CLONE_VM, subject) };
        match Pid::from_raw(pid.max(0)) {
            Some(pid) => Ok(Self { pid, stack }),
            None => {
                let why = std::io::Error::last_os_error();
                // SAFETY: mapped above, and no process uses it.
                let _ = unsafe { munmap(stack, STACK_BYTES) };
                Err(why)
            }
        }
    }

    /// Waits for the end of the process.
    fn wait(self) {
        // By rustix, which does not use `errno`. `__WALL` because the child has no exit signal
        // (wait(2)).
        let any = WaitOptions::from_bits_retain(libc::__WALL.cast_unsigned());
        while matches!(waitpid(Some(self.pid), any), Err(Errno::INTR)) {}
        // SAFETY: mapped by `start`, and the process on it has ended.
        let _ = unsafe { munmap(self.stack, STACK_BYTES) };
    }
}

/// The running actor and guard.
pub(super) struct Outside {
    state: Arc<OutsideState>,
    keeper: InjectorThread,
    /// The actor, for tests that kill it.
    actor: Pid,
}

impl Outside {
    pub(super) fn start(
        plan: InjectionPlan,
        log: Arc<LogBuffer>,
        dose: Dose,
    ) -> Result<Self, Error> {
        let state = Arc::new(OutsideState {
            plan,
            log,
            dose,
            action: OutsideAction::new(&plan)?,
            starter: getpid(),
            guarded: AtomicBool::new(false),
            over: AtomicBool::new(false),
            held: AtomicBool::new(false),
        });

        let (ready_sender, ready_receiver) = channel();
        let kept = state.clone();
        // Both inherit CPU, priority and blocked signals from the thread that starts them.
        let body = move |_: &AtomicBool| keep(&kept, &ready_sender);
        let keeper = InjectorThread::start(above_the_loop(&plan), body)?;
        let actor = ready_receiver.recv().map_err(|_| Error::Panicked)?.map_err(Error::Process)?;
        Ok(Self { state, keeper, actor })
    }

    pub(super) fn is_finished(&self) -> bool {
        self.keeper.is_finished()
    }

    /// Returns the actor's process.
    pub(super) const fn actor(&self) -> Pid {
        self.actor
    }

    pub(super) fn end(&mut self) {
        self.state.over.store(true, Ordering::Relaxed);
        self.keeper.end();
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.end();
    }
}

/// Starts both processes and waits until they have ended, because they use its thread-local state.
fn keep(state: &Arc<OutsideState>, ready_sender: &Sender<Result<Pid, std::io::Error>>) {
    // SAFETY: the state lives until both have ended below; `run_actor` uses only atomics and raw
    // system calls.
    let actor = match unsafe { SharedMemoryChild::start(act, Arc::as_ptr(state).cast_mut().cast()) }
    {
        Ok(actor) => actor,
        Err(why) => {
            // The starting thread waits for this message.
            let _ = ready_sender.send(Err(why));
            return;
        }
    };

    let guard = guard(state, actor.pid);
    match guard {
        Ok((watch, guard)) => {
            state.guarded.store(true, Ordering::Release);
            let _ = ready_sender.send(Ok(actor.pid));
            actor.wait();
            guard.wait();
            drop(watch);
        }
        Err(why) => {
            state.over.store(true, Ordering::Relaxed);
            actor.wait();
            let _ = ready_sender.send(Err(why));
        }
    }
}

fn guard(
    state: &Arc<OutsideState>,
    actor: Pid,
) -> Result<(Box<Guard>, SharedMemoryChild), std::io::Error> {
    let actor = pidfd_open(actor, PidfdFlags::empty())?;
    let subject = Box::new(Guard { state: state.clone(), actor });
    // SAFETY: the box is returned to the caller, who keeps it until the guard has ended; `run` uses
    // only atomics and raw system calls.
    let guard =
        unsafe { SharedMemoryChild::start(watch, (&raw const *subject).cast_mut().cast()) }?;
    Ok((subject, guard))
}
