//! What the kernel says of a watched thread: one [`ThreadEvent`] per fact, on `CLOCK_MONOTONIC`.

use onbeat::cause::decode::EventContext;
use onbeat::cause::event::{KernelEvent, Thread, ThreadState};
use onbeat::cause::inside::{Inside, InsideEvent};
use onbeat::cause::{EventStream, StreamEvent};
use onbeat_rt::Instant;

/// What a kernel timer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimerKind {
    /// A sleeping thread: `clock_nanosleep`, or the timeout of `poll`, `select`, `epoll`, `futex`.
    Sleep,
    /// A `timerfd`.
    TimerFd,
    /// `timer_create`.
    Posix,
    /// `setitimer`.
    Interval,
    /// An alarm that also wakes the machine.
    Alarm,
}

impl TimerKind {
    /// Returns the kind of timer that this kernel function serves; `None` for the scheduler's own.
    #[must_use]
    pub fn from_function(name: &str) -> Option<Self> {
        match name {
            "hrtimer_wakeup" => Some(Self::Sleep),
            "timerfd_tmrproc" => Some(Self::TimerFd),
            "posix_timer_fn" => Some(Self::Posix),
            "it_real_fn" => Some(Self::Interval),
            "alarmtimer_fired" => Some(Self::Alarm),
            _ => None,
        }
    }
}

/// The clock that a timer was set by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimerClock {
    /// `CLOCK_MONOTONIC`, or `CLOCK_BOOTTIME` on a machine that was never suspended.
    #[default]
    Monotonic,
    /// `CLOCK_BOOTTIME`.
    Boot,
    /// `CLOCK_REALTIME`: releases move when the clock is set.
    Realtime,
    /// `CLOCK_TAI`.
    Tai,
}

/// Who woke a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Waker {
    /// Another thread.
    Task(u32),
    /// A softirq: a packet, or a timer on a kernel with `PREEMPT_RT` off.
    Softirq,
    /// An interrupt: a timer or a device.
    Interrupt,
}

/// What happened to a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The thread set a timer.
    Arm {
        /// What the timer belongs to.
        kind: TimerKind,
        /// The address of the timer; for sleeps the kernel moves it from call to call.
        address: u64,
        /// Whether the time counts from the call.
        relative: bool,
        /// The instant asked for: the kernel's `softexpires`, on `CLOCK_MONOTONIC`.
        due: Instant,
        /// How much later the kernel may wake it, in nanoseconds: the timer slack.
        slack_ns: u64,
        clock: TimerClock,
    },
    /// The timer expired while the thread ran.
    Expired {
        /// The address of the timer.
        address: u64,
    },
    /// It left the CPU to wait.
    Sleep,
    /// It left the CPU although it could have gone on.
    Preempted,
    /// It was stopped by a signal or a debugger.
    Stopped,
    /// It was made runnable.
    Woken(Waker),
    /// It runs from here on.
    Run,
    /// A function each of whose calls is a cycle was called.
    FunctionBegins {
        /// Where its stack began; 0: not known.
        stack: u64,
    },
    /// It returned.
    FunctionEnds {
        /// The same, one word higher.
        stack: u64,
    },
}

/// A fact about a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadEvent {
    /// When.
    pub at: Instant,
    pub cpu: u32,
    /// The thread.
    pub tid: u32,
    /// What happened to it.
    pub what: What,
}

/// Offsets of the kernel's clocks from `CLOCK_MONOTONIC`, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockOffsets {
    /// `CLOCK_REALTIME`.
    pub realtime_ns: i64,
    /// `CLOCK_TAI`.
    pub tai_ns: i64,
    /// `CLOCK_BOOTTIME`.
    pub boot_ns: i64,
}

/// Clocks that are nearer to each other cannot be told apart by when a timer is due, in nanoseconds.
const APART_NS: u64 = 1_000_000_000;

/// An offset that differs by this, in nanoseconds, is that of a clock that was set.
const SET_FROM_NS: u64 = 2_000;

impl ClockOffsets {
    /// Reads the clocks, one after the other: each offset is true to the time between two readings,
    /// some hundred nanoseconds, the smallest of five.
    #[must_use]
    pub fn now() -> Self {
        use rustix::time::{ClockId, DynamicClockId as Clock, clock_gettime_dynamic};
        let read = |clock| {
            let time = clock_gettime_dynamic(clock).ok()?;
            Some(time.tv_sec * 1_000_000_000 + time.tv_nsec)
        };
        let monotonic = Clock::Known(ClockId::Monotonic);
        // A clock that the kernel does not have is out of reach of any timer.
        let offset = |clock| {
            let best = (0..5).map_while(|_| {
                let before = read(monotonic)?;
                let other = read(clock)?;
                let after = read(monotonic)?;
                Some((after - before, other - before - (after - before) / 2))
            });
            best.min().map_or(i64::MAX / 2, |(_, offset)| offset)
        };

        Self {
            realtime_ns: offset(Clock::Known(ClockId::Realtime)),
            tai_ns: offset(Clock::Tai),
            boot_ns: offset(Clock::Boottime),
        }
    }

    /// Returns these offsets, with those of clocks that have been set by `read`. The kernel slews
    /// all clocks alike, so that what differs by less is the reading's, and would move every
    /// release.
    pub(crate) fn unless_set(self, read: Self) -> Self {
        let of =
            |known: i64, read: i64| if known.abs_diff(read) < SET_FROM_NS { known } else { read };
        Self {
            realtime_ns: of(self.realtime_ns, read.realtime_ns),
            tai_ns: of(self.tai_ns, read.tai_ns),
            boot_ns: of(self.boot_ns, read.boot_ns),
        }
    }

    /// Returns the instant of a timer on `CLOCK_MONOTONIC`, and its clock: the one by which it is
    /// due nearest to `at`. Trace events do not name the clock.
    #[must_use]
    pub fn due(&self, at: Instant, expires_ns: u64) -> (Instant, TimerClock) {
        let candidates = [
            (self.boot_ns, TimerClock::Boot),
            (self.realtime_ns, TimerClock::Realtime),
            (self.tai_ns, TimerClock::Tai),
        ];
        let from_now = |offset: i64| {
            let due_ns = expires_ns.saturating_add_signed(-offset);
            (due_ns, due_ns.abs_diff(at.as_ns()))
        };
        let (mut due_ns, mut apart_ns) = from_now(0);
        let mut clock = TimerClock::Monotonic;
        for (offset, other) in candidates {
            let (other_ns, other_apart_ns) = from_now(offset);
            // Clocks that agree are one clock.
            if other_apart_ns.saturating_add(APART_NS) < apart_ns {
                (due_ns, apart_ns, clock) = (other_ns, other_apart_ns, other);
            }
        }
        (Instant::from_ns(due_ns), clock)
    }
}

/// What is known of a loop's timers before its measurement: BPF records neither function nor mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownTimer {
    /// What they belong to.
    pub kind: TimerKind,
    /// Whether their time counts from the call.
    pub relative: bool,
    /// The address of one of them.
    pub address: u64,
}

/// Kernel stacks are aligned to their size; the timers of sleeps are on them, at a place that the
/// kernel moves from call to call. 16 KiB on 64-bit x86 and ARM (`THREAD_SIZE`).
const STACK_BITS: u32 = 14;

impl KnownTimer {
    /// Whether a timer at `address` is one of the loop's.
    const fn covers(self, address: u64) -> bool {
        match self.kind {
            TimerKind::Sleep => address >> STACK_BITS == self.address >> STACK_BITS,
            _ => address == self.address,
        }
    }
}

/// Translates events that BPF recorded of one thread: of timers only those that are known.
pub fn translate_path(
    known: Option<KnownTimer>,
    offsets: &ClockOffsets,
    event: &StreamEvent,
    into: &mut Vec<ThreadEvent>,
) {
    let mut push = |tid, what| {
        let StreamEvent { event, .. } = event;
        into.push(ThreadEvent { at: event.at, cpu: event.cpu, tid, what });
    };
    match event.event.what {
        KernelEvent::TimerStart { timer, expires, softexpires, .. } => {
            let Some(known) = known.filter(|known| known.covers(timer)) else { return };
            let (due, clock) = offsets.due(event.event.at, softexpires.as_ns());
            let slack_ns = expires.ns_since(softexpires);
            let KnownTimer { kind, relative, .. } = known;
            let arm = What::Arm { kind, address: timer, relative, due, slack_ns, clock };
            push(event.event.tid, arm);
        }
        KernelEvent::TimerExpireEntry { timer, .. }
            if known.is_some_and(|known| known.covers(timer)) =>
        {
            push(event.event.tid, What::Expired { address: timer });
        }
        KernelEvent::Switch { prev, prev_state, next } => {
            switched(prev, prev_state, next, &mut push);
        }
        _ => {}
    }
}

/// Translates the beginning or the return of a function each of whose calls is a cycle.
#[must_use]
pub fn translate_call(met: &InsideEvent) -> Option<ThreadEvent> {
    let what = match met.what {
        Inside::FunctionBegins { stack } => What::FunctionBegins { stack },
        Inside::FunctionEnds { stack } => What::FunctionEnds { stack },
        _ => return None,
    };
    Some(ThreadEvent { at: met.at, cpu: met.cpu, tid: met.tid, what })
}

fn switched(prev: Thread, prev_state: ThreadState, next: Thread, push: &mut impl FnMut(u32, What)) {
    if !prev.is_idle() {
        let what = match prev_state {
            state if state.is_stopped() => What::Stopped,
            state if state.is_runnable() => What::Preempted,
            _ => What::Sleep,
        };
        push(prev.tid, what);
    }
    if !next.is_idle() {
        push(next.tid, What::Run);
    }
}

/// Translates events of a stream, dropping those of the scheduler's own timers and of interrupts
/// that came while the thread ran.
pub fn translate(
    stream: &EventStream,
    offsets: &ClockOffsets,
    event: &StreamEvent,
    into: &mut Vec<ThreadEvent>,
) {
    let StreamEvent { event, context, relative, .. } = event;
    let mut push = |tid, what| into.push(ThreadEvent { at: event.at, cpu: event.cpu, tid, what });
    match event.what {
        KernelEvent::Switch { prev, prev_state, next } => {
            switched(prev, prev_state, next, &mut push);
        }
        KernelEvent::Waking { thread, .. } => {
            let waker = match context {
                EventContext::Task => Waker::Task(event.tid),
                EventContext::Softirq => Waker::Softirq,
                EventContext::Interrupt => Waker::Interrupt,
            };
            push(thread.tid, What::Woken(waker));
        }
        KernelEvent::TimerStart { timer, function, expires, softexpires }
            if *context == EventContext::Task =>
        {
            let Some(kind) = stream.timer_function(function).and_then(TimerKind::from_function)
            else {
                return;
            };
            let (due, clock) = offsets.due(event.at, softexpires.as_ns());
            let slack_ns = expires.ns_since(softexpires);
            let relative = relative.unwrap_or(false);
            push(event.tid, What::Arm { kind, address: timer, relative, due, slack_ns, clock });
        }
        // The kernel's filter lets it through where the thread was on the CPU when its timer came:
        // just before it was to leave it.
        KernelEvent::TimerExpireEntry { timer, function, .. }
            if stream.timer_function(function).is_some() =>
        {
            push(event.tid, What::Expired { address: timer });
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_a_timer_is_the_one_by_which_it_is_due_soon() {
        let offsets = ClockOffsets {
            realtime_ns: 1_700_000_000_000_000_000,
            tai_ns: 1_700_000_037_000_000_000,
            boot_ns: 0,
        };
        let at = Instant::from_ns(5_000_000_000);
        let soon = Instant::from_ns(5_001_000_000);
        assert_eq!(offsets.due(at, 5_001_000_000), (soon, TimerClock::Monotonic));
        let by_wall = 1_700_000_000_000_000_000 + 5_001_000_000;
        assert_eq!(offsets.due(at, by_wall), (soon, TimerClock::Realtime));
        assert_eq!(offsets.due(at, by_wall + 37_000_000_000), (soon, TimerClock::Tai));
        let read = ClockOffsets { realtime_ns: offsets.realtime_ns + 90, ..offsets };
        assert_eq!(offsets.unless_set(read), offsets, "read a little later");
        let set = ClockOffsets { realtime_ns: offsets.realtime_ns - 50_000, ..offsets };
        assert_eq!(offsets.unless_set(set), set);
        let agreeing = ClockOffsets { boot_ns: 40, ..offsets };
        assert_eq!(agreeing.due(at, 5_001_000_000), (soon, TimerClock::Monotonic));
    }
}
