//! From events of threads to their waits: what each waited for, since when, until when.
//!
//! ```text
//! Arm(due) ── Sleep ───────── due ──── Woken ── Run       a wait for a timer: release = due
//!             Sleep ──────────────────  Woken ── Run       a wait for somebody: release = the waking
//! Arm(due < now) ── Arm                                    it came too late to sleep
//! Arm(due) ── Sleep ────────────────── Arm                 its wake-up was not seen
//! ```
//!
//! Events may be missing. A wait whose end is not seen is a wait all the same; its latency is not
//! known, and never zero.

use std::collections::{HashMap, VecDeque};

use onbeat_rt::Instant;

use crate::calls::CallPairing;
use crate::event::{ThreadEvent, TimerClock, TimerKind, Waker, What};

/// What a thread waited for: waits with the same source are one series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A sleep until an instant, or the timeout of another wait, that expired. Neither the address
    /// of the timer nor the system call belongs to it: the first moves from call to call.
    Sleep {
        /// Whether the time counts from the call.
        relative: bool,
        clock: TimerClock,
    },
    /// A timer that outlives a wait.
    Timer {
        /// What it belongs to.
        kind: TimerKind,
        address: u64,
    },
    /// Another thread, a packet or a device.
    Event,
    /// The time between two calls of a function each of which is a cycle.
    Call,
}

impl Source {
    /// Whether a timer ends the waits.
    #[must_use]
    pub const fn is_timer(self) -> bool {
        matches!(self, Self::Sleep { .. } | Self::Timer { .. })
    }
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnd {
    /// The thread slept, and ran again at this instant.
    Ran(Instant),
    /// The release had passed before the wait began: the thread went on at this instant.
    Late(Instant),
    /// Its end was not seen.
    NotSeen,
}

/// A wait of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The thread.
    pub tid: u32,
    /// What it waited for.
    pub source: Source,
    /// The instant that it was to end: of a timer the instant asked for, else the waking; `None`
    /// when the waking was not seen.
    pub release: Option<Instant>,
    /// When the timer was set, if the thread set one for this wait.
    pub armed_at: Option<Instant>,
    /// When it left the CPU.
    pub slept_at: Option<Instant>,
    /// Who woke it, where that is known.
    pub waker: Option<Waker>,
    /// How it ended.
    pub end: WaitEnd,
    /// How much later than asked the kernel was allowed to be, in nanoseconds.
    pub slack_ns: u64,
    /// The CPU on which the thread went on, or was seen last.
    pub cpu: u32,
    /// The address of its timer; 0 without one.
    pub timer: u64,
}

impl Wait {
    /// The wait of a thread on a CPU of which nothing else is known.
    pub(crate) const fn of((tid, cpu): (u32, u32), source: Source, end: WaitEnd) -> Self {
        Self {
            tid,
            source,
            release: None,
            armed_at: None,
            slept_at: None,
            waker: None,
            end,
            slack_ns: 0,
            cpu,
            timer: 0,
        }
    }

    /// Returns the instant at which the wait began: the end of the work before it.
    #[must_use]
    pub fn began(&self) -> Option<Instant> {
        match self.source {
            Source::Sleep { .. } => self.armed_at.or(self.slept_at),
            Source::Timer { .. } | Source::Event | Source::Call => self.slept_at,
        }
    }

    /// Whether it was over before an instant, as far as it was seen.
    #[must_use]
    pub fn was_over_before(&self, at: Instant) -> bool {
        self.went_on().or(self.release).or_else(|| self.began()).is_some_and(|over| over < at)
    }

    /// Returns the instant at which the thread went on, if it was seen.
    #[must_use]
    pub const fn went_on(&self) -> Option<Instant> {
        match self.end {
            WaitEnd::Ran(at) | WaitEnd::Late(at) => Some(at),
            WaitEnd::NotSeen => None,
        }
    }
}

/// A wait whose end has not come yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingWait {
    /// The instant that it is to end.
    pub release: Instant,
    /// Its beginning.
    pub began: Instant,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Unknown,
    Running,
    Preempted(Instant),
    Asleep(Instant),
}

/// A timer that was set: of a sleep, or one that outlives a wait.
#[derive(Clone, Copy, Debug)]
struct Timer {
    source: Source,
    address: u64,
    due: Instant,
    armed_at: Instant,
    slack_ns: u64,
    /// Of a sleep whether it has begun, of another timer whether a wait has ended by it.
    used: bool,
}

impl Timer {
    fn wait(&self, place: (u32, u32), slept_at: Option<Instant>, end: WaitEnd) -> Wait {
        Wait {
            release: Some(self.due),
            armed_at: Some(self.armed_at),
            slept_at,
            slack_ns: self.slack_ns,
            timer: self.address,
            ..Wait::of(place, self.source, end)
        }
    }
}

/// Timers that are remembered of a thread; a program that makes and closes timers all the time
/// must not fill the memory.
const MOST_TIMERS: usize = 64;

#[derive(Debug, Default)]
struct Thread {
    tid: u32,
    cpu: u32,
    state: State,
    sleeper: Option<Timer>,
    /// Those that outlive a wait.
    timers: Vec<Timer>,
    woken: Option<(Instant, Waker)>,
    sleeps: u64,
    /// When it left the CPU to wait, lately.
    slept: VecDeque<Instant>,
    stops: u64,
    calls: Calls,
}

/// Calls of a function of a thread, each of which is a cycle.
#[derive(Clone, Debug, Default)]
struct Calls {
    pairing: CallPairing,
    /// When the latest returned.
    ended: Option<Instant>,
    /// When the timer was due for which the thread waited since.
    due: Option<Instant>,
    /// Whether it has waited for a timer at all.
    has_timers: bool,
}

/// Times of leaving the CPU that are remembered of a thread.
const MOST_SLEPT: usize = 1_024;

/// Assembles waits of threads from their events.
///
/// ```
/// use onbeat_rt::Instant;
/// use onbeat_watch::event::{ThreadEvent, TimerClock, TimerKind, What};
/// use onbeat_watch::waits::{WaitAssembler, WaitEnd};
///
/// let at = |us: u64| Instant::from_ns(us * 1_000);
/// let event = |us, what| ThreadEvent { at: at(us), cpu: 0, tid: 7, what };
/// let arm = What::Arm {
///     kind: TimerKind::Sleep, address: 0, relative: false, due: at(1_000), slack_ns: 0,
///     clock: TimerClock::Monotonic,
/// };
/// let mut waits = Vec::new();
/// let mut assembler = WaitAssembler::default();
/// for event in [event(300, arm), event(301, What::Sleep), event(1_012, What::Run)] {
///     assembler.take(&event, &mut waits);
/// }
/// assert_eq!(waits[0].release, Some(at(1_000)));
/// assert_eq!(waits[0].end, WaitEnd::Ran(at(1_012)));
/// ```
#[derive(Debug, Default)]
pub struct WaitAssembler {
    threads: HashMap<u32, Thread>,
    /// Whether a thread whose calls are cycles waits for a timer before each, although none was seen
    /// yet.
    waits_for_timers: bool,
}

impl WaitAssembler {
    /// Returns an assembler for a thread whose calls of a function are cycles: before each it waits for
    /// a timer, or for none.
    #[must_use]
    pub fn of_calls(waits_for_timers: bool) -> Self {
        Self { waits_for_timers, ..Self::default() }
    }

    /// Takes the next event in order of time, and pushes the waits that it ends.
    pub fn take(&mut self, event: &ThreadEvent, into: &mut Vec<Wait>) {
        let tid = event.tid;
        let has_timers = self.waits_for_timers;
        let thread = self.threads.entry(tid).or_insert_with(|| {
            let calls = Calls { has_timers, ..Calls::default() };
            Thread { tid, calls, ..Thread::default() }
        });
        // A waking is recorded on the CPU of who wakes.
        if !matches!(event.what, What::Woken(_)) {
            thread.cpu = event.cpu;
        }
        let known = into.len();
        thread.take(event.at, event.what, into);
        let mut timers = into[known..].iter().filter(|wait| wait.source.is_timer());
        if let Some(wait) = timers.next_back() {
            thread.calls.has_timers = true;
            thread.calls.due = wait.release;
        }
    }

    /// Returns the wait for `source` that a thread is in; `None` if it is in none, or if its end is
    /// nobody's promise.
    #[must_use]
    pub fn pending(&self, tid: u32, source: Source) -> Option<PendingWait> {
        let thread = self.threads.get(&tid)?;
        let State::Asleep(slept_at) = thread.state else { return None };
        match source {
            Source::Sleep { .. } => thread
                .sleeper
                .map(|sleeper| PendingWait { release: sleeper.due, began: sleeper.armed_at }),
            Source::Timer { address, .. } => {
                let timers = thread.timers.iter().filter(|timer| !timer.used);
                let mut own = timers.filter(|timer| timer.address == address);
                own.next().map(|timer| PendingWait { release: timer.due, began: slept_at })
            }
            Source::Event | Source::Call => None,
        }
    }

    /// Returns how often a thread was seen to leave the CPU to wait until `at`, a moment ago.
    #[must_use]
    pub fn waits_until(&self, tid: u32, at: Instant) -> u64 {
        self.threads.get(&tid).map_or(0, |thread| {
            let later = thread.slept.iter().rev().take_while(|slept| **slept > at).count();
            thread.sleeps - later as u64
        })
    }

    /// Returns when a thread was first seen to leave the CPU to wait after `at`, a moment ago.
    #[must_use]
    pub fn slept_after(&self, tid: u32, at: Instant) -> Option<Instant> {
        self.threads.get(&tid)?.slept.iter().find(|slept| **slept > at).copied()
    }

    /// Returns how often a thread was seen to be stopped by a signal.
    #[must_use]
    pub fn stops(&self, tid: u32) -> u64 {
        self.threads.get(&tid).map_or(0, |thread| thread.stops)
    }
}

impl Thread {
    fn take(&mut self, at: Instant, what: What, into: &mut Vec<Wait>) {
        match what {
            What::Arm { kind, address, relative, due, slack_ns, clock } => {
                self.end_unseen(at, into);
                let source = match kind {
                    TimerKind::Sleep => Source::Sleep { relative, clock },
                    kind => Source::Timer { kind, address },
                };
                let timer = Timer { source, address, due, armed_at: at, slack_ns, used: false };
                if kind == TimerKind::Sleep {
                    self.end_sleeper(into);
                    self.sleeper = Some(timer);
                } else {
                    self.arm(timer, into);
                }
            }
            What::Expired { address } => {
                let is_own = |sleeper: &mut Timer| sleeper.address == address && !sleeper.used;
                if let Some(sleeper) = self.sleeper.take_if(is_own) {
                    into.push(sleeper.wait(self.place(), None, WaitEnd::Late(at)));
                }
            }
            What::Sleep => self.sleep(at, into),
            What::Preempted | What::Stopped => {
                self.end_unseen(at, into);
                if what == What::Stopped {
                    // The kernel counts a stop among the waits.
                    self.sleeps += 1;
                    self.stops += 1;
                    self.remember(at);
                }
                self.state = State::Preempted(at);
            }
            What::Woken(waker) => {
                // A second waking of a thread that is runnable already changes nothing.
                self.woken.get_or_insert((at, waker));
            }
            What::Run => self.run(at, into),
            What::FunctionBegins { stack } => {
                if self.calls.pairing.begin(stack) {
                    into.push(self.call(at));
                }
            }
            What::FunctionEnds { stack } => {
                if self.calls.pairing.end(stack) {
                    self.calls.ended = Some(at);
                }
            }
        }
    }

    /// The wait before a call: until the timer for which the thread waited since the call before, or
    /// without a wait of its own; where it has no timers, when the call was due is not known.
    fn call(&mut self, at: Instant) -> Wait {
        let Calls { due, has_timers, .. } = self.calls;
        // A return that was not seen leaves the end of its call unknown, and is never that of another.
        let ended = self.calls.ended.take();
        self.calls.due = None;
        let release = due.or((!has_timers).then_some(at));
        let end = if release.is_some() { WaitEnd::Ran(at) } else { WaitEnd::Late(at) };
        Wait { release, slept_at: ended, ..Wait::of(self.place(), Source::Call, end) }
    }

    const fn place(&self) -> (u32, u32) {
        (self.tid, self.cpu)
    }

    /// A thread that acts without having been seen to run again.
    fn end_unseen(&mut self, at: Instant, into: &mut Vec<Wait>) {
        let State::Asleep(slept_at) = self.state else { return };
        self.state = State::Running;
        self.woken = None;
        let end = WaitEnd::NotSeen;
        let sleeper = self.sleeper.take();
        if self.end_timers(at, Some(slept_at), (None, end), into) {
            return;
        }
        into.push(match sleeper {
            Some(sleeper) => sleeper.wait(self.place(), Some(slept_at), end),
            None => self.of_event(slept_at, end),
        });
    }

    /// Ends the wait for each timer that outlives it and was due by then; returns whether there was
    /// one.
    fn end_timers(
        &mut self,
        by: Instant,
        slept_at: Option<Instant>,
        (waker, end): (Option<Waker>, WaitEnd),
        into: &mut Vec<Wait>,
    ) -> bool {
        let (place, known) = (self.place(), into.len());
        for timer in self.timers.iter_mut().filter(|timer| !timer.used && timer.due <= by) {
            timer.used = true;
            into.push(Wait { waker, ..timer.wait(place, slept_at, end) });
        }
        into.len() > known
    }

    /// A sleep that was set and not begun.
    fn end_sleeper(&mut self, into: &mut Vec<Wait>) {
        let Some(sleeper) = self.sleeper.take_if(|sleeper| !sleeper.used) else { return };
        let is_late = sleeper.due <= sleeper.armed_at;
        let end = if is_late { WaitEnd::Late(sleeper.armed_at) } else { WaitEnd::NotSeen };
        into.push(sleeper.wait(self.place(), None, end));
    }

    fn arm(&mut self, timer: Timer, into: &mut Vec<Wait>) {
        let at = timer.armed_at;
        let Some(known) = self.timers.iter_mut().find(|known| known.address == timer.address)
        else {
            if self.timers.len() == MOST_TIMERS {
                self.timers.remove(0);
            }
            self.timers.push(timer);
            return;
        };

        let before = std::mem::replace(known, timer);
        if !before.used && before.due <= at {
            // It expired while the thread was busy, and is set anew by the call that fetches it.
            into.push(before.wait(self.place(), None, WaitEnd::Late(at)));
        }
    }

    fn sleep(&mut self, at: Instant, into: &mut Vec<Wait>) {
        self.end_unseen(at, into);
        self.sleeps += 1;
        self.remember(at);
        self.woken = None;
        let is_over = |sleeper: Timer| at.ns_since(sleeper.due) > sleeper.slack_ns && !sleeper.used;
        if self.sleeper.is_some_and(is_over) {
            // It came too late to sleep; this is another wait. With slack it still sleeps.
            self.end_sleeper(into);
        }
        if let Some(sleeper) = &mut self.sleeper {
            sleeper.used = true;
        }

        // It would not sleep if one of these were still to be fetched.
        self.timers.iter_mut().filter(|timer| timer.due <= at).for_each(|timer| timer.used = true);
        self.state = State::Asleep(at);
    }

    fn remember(&mut self, at: Instant) {
        if self.slept.len() == MOST_SLEPT {
            self.slept.pop_front();
        }
        self.slept.push_back(at);
    }

    fn run(&mut self, at: Instant, into: &mut Vec<Wait>) {
        let before = std::mem::replace(&mut self.state, State::Running);
        let woken = self.woken.take();
        match before {
            State::Asleep(slept_at) => self.wake(slept_at, at, woken, into),
            State::Preempted(left_at) => {
                // It was about to sleep when it was made to leave, and the timer expired before
                // it came back.
                let is_over = |sleeper: &mut Timer| {
                    !sleeper.used && sleeper.due > left_at && sleeper.due <= at
                };
                if let Some(sleeper) = self.sleeper.take_if(is_over) {
                    into.push(sleeper.wait(self.place(), Some(left_at), WaitEnd::Ran(at)));
                }
            }
            State::Running | State::Unknown => {
                // Its leaving was not seen.
                let is_over =
                    |sleeper: &mut Timer| sleeper.due > sleeper.armed_at && sleeper.due <= at;
                if let Some(sleeper) = self.sleeper.take_if(is_over) {
                    into.push(sleeper.wait(self.place(), None, WaitEnd::Ran(at)));
                }
                self.end_timers(at, None, (None, WaitEnd::Ran(at)), into);
            }
        }
    }

    fn wake(
        &mut self,
        slept_at: Instant,
        at: Instant,
        woken: Option<(Instant, Waker)>,
        into: &mut Vec<Wait>,
    ) {
        let waker = woken.map(|(_, waker)| waker);
        let woken_at = woken.map_or(at, |(at, _)| at);
        let (place, end) = (self.place(), WaitEnd::Ran(at));
        let sleeper = self.sleeper.take();
        if self.end_timers(woken_at, Some(slept_at), (waker, end), into) {
            // A timeout that was set as well was cancelled.
            return;
        }

        let wait = match sleeper.filter(|sleeper| sleeper.due <= woken_at) {
            Some(sleeper) => sleeper.wait(place, Some(slept_at), end),
            None => Wait { release: woken.map(|(at, _)| at), ..self.of_event(slept_at, end) },
        };
        into.push(Wait { waker, ..wait });
    }

    fn of_event(&self, slept_at: Instant, end: WaitEnd) -> Wait {
        Wait { slept_at: Some(slept_at), ..Wait::of(self.place(), Source::Event, end) }
    }
}
