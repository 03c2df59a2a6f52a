//! One record of the loop's path through the kernel: 32 bytes written by a BPF program.
//!
//! ```text
//!   0        8     12            16                                32
//!   | time   | tid | kind, extra | what belongs to the kind        |
//! ```

use onbeat_rt::Instant;

use super::counters::{CounterReading, ReadingTrigger};
use super::decode::TracePoint;
use super::event::{KernelEvent, Label, Thread, ThreadState, TraceEvent, Vector};
use super::inside::{CallLeftIn, Inside, InsideEvent, LentPriority};

/// Size of a record, in bytes.
pub(super) const LENGTH: u32 = 32;
/// Size of a record, in 64-bit words.
pub(super) const WORDS: usize = 4;

/// Flags of a reading, stored as its extra.
pub(super) const THROTTLED: i32 = 1;
pub(super) const BY_SERVER: i32 = 2;
pub(super) const KNOWS_STEAL: i32 = 4;
pub(super) const KNOWS_THROTTLING: i32 = 8;
pub(super) const KNOWS_SERVER: i32 = 16;
pub(super) const FROZEN: i32 = 32;
pub(super) const KNOWS_FREEZER: i32 = 64;

/// Instead of a system call's number: an interrupt or a fault brought the thread from user code.
pub(super) const FROM_USER: i32 = -2;

/// Kind of a record: the low byte of its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathKind {
    /// Extra: whether `prev` was preempted. Then `next`, its priority, the priority of `prev`, the
    /// state of `prev`.
    Switch = 1,
    /// Extra: flags of a reading. Thread, priority, CPU, system call of the current thread.
    Waking = 2,
    /// Extra: timer slack in nanoseconds, at most 2²⁴ − 1. Then timer, requested instant.
    TimerStart = 3,
    /// Timer, function.
    TimerExpireEntry = 4,
    /// Idle state.
    Idle = 5,
    LocalTimerEntry = 6,
    LocalTimerExit = 7,
    /// The thread ends. Its name.
    Exit = 8,
    /// At a switch to or from the loop. Extra: flags. Steal time, system call of the thread that
    /// left, the thread that got the CPU.
    Reading = 9,
    /// The loop leaves its CPU in a system call. Extra: number, and from bit 10 the operation of a
    /// futex. First argument; third argument or word of a futex, owner of a mutex.
    LeftIn = 10,
    /// A holder of a lock gets the priority of a waiter, or its own. Holder, its priority, waiter,
    /// its priority.
    Lent = 11,
    /// A page fault of the loop has ended. Extra: whether it waited for a device. Address, length in
    /// nanoseconds.
    Fault = 12,
    /// A system call of the loop that changes its memory has ended. Extra: number. Length in
    /// nanoseconds.
    MemoryCall = 13,
    /// A function of the program each of whose calls is a cycle begins.
    FunctionBegins = 14,
    FunctionEnds = 15,
}

/// Bits of a system call's number in the extra.
const CALL_BITS: u32 = 10;
/// Above the number of a call that changes memory: its length is not all of it.
const AT_LEAST: u32 = 1 << CALL_BITS;

impl PathKind {
    /// All of them.
    pub(super) const ALL: [Self; 15] = [
        Self::Switch,
        Self::Waking,
        Self::TimerStart,
        Self::TimerExpireEntry,
        Self::Idle,
        Self::LocalTimerEntry,
        Self::LocalTimerExit,
        Self::Exit,
        Self::Reading,
        Self::LeftIn,
        Self::Lent,
        Self::Fault,
        Self::MemoryCall,
        Self::FunctionBegins,
        Self::FunctionEnds,
    ];

    /// Whether this is the tracefs trace point `kind`.
    pub(super) const fn is(self, kind: TracePoint) -> bool {
        matches!(
            (self, kind),
            (Self::Switch, TracePoint::Switch)
                | (Self::Waking, TracePoint::Waking)
                | (Self::TimerStart, TracePoint::TimerStart)
                | (Self::TimerExpireEntry, TracePoint::TimerExpireEntry)
                | (Self::Idle, TracePoint::Idle)
                | (Self::LocalTimerEntry, TracePoint::VectorEntry(Vector::LocalTimer))
                | (Self::LocalTimerExit, TracePoint::VectorExit(Vector::LocalTimer))
        )
    }

    /// Returns the program of `path.bpf.c` at the kernel's trace point.
    pub(super) const fn program(self, scope: PathScope) -> Option<&'static str> {
        Some(match (self, scope) {
            (Self::Switch, PathScope::Measured | PathScope::Split) => "own_switch",
            (Self::TimerStart, PathScope::Measured | PathScope::Split) => "own_start",
            (Self::TimerExpireEntry, PathScope::Measured) => "own_expire",
            // An expiry belongs to whom it interrupts.
            (Self::TimerExpireEntry, PathScope::Split) => "hrtimer_expire",
            (_, PathScope::Measured | PathScope::Split) => return None,
            (Self::Switch, _) => "sched_switch",
            (Self::Waking, PathScope::WithStacks) => "waking_stack",
            (Self::Waking, _) => "sched_waking",
            (Self::TimerStart, PathScope::WithStacks) => "start_stack",
            (Self::TimerStart, _) => "hrtimer_start",
            (Self::TimerExpireEntry, _) => "hrtimer_expire",
            (Self::Idle, _) => "cpu_idle",
            (Self::LocalTimerEntry, _) => "timer_entry",
            (Self::LocalTimerExit, _) => "timer_exit",
            (Self::Exit, _) => "process_exit",
            (Self::Lent, _) => "pi_setprio",
            _ => return None,
        })
    }

    /// Returns the kernel's trace point; `None` for what the program of another trace point takes,
    /// or that of a function.
    pub(super) const fn trace_point(self) -> Option<&'static str> {
        Some(match self {
            Self::Switch => "sched_switch",
            Self::Waking => "sched_waking",
            Self::TimerStart => "hrtimer_start",
            Self::TimerExpireEntry => "hrtimer_expire_entry",
            Self::Idle => "cpu_idle",
            Self::LocalTimerEntry => "local_timer_entry",
            Self::LocalTimerExit => "local_timer_exit",
            Self::Exit => "sched_process_exit",
            Self::Lent => "sched_pi_setprio",
            _ => return None,
        })
    }
}

/// What is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PathScope {
    /// Switches and timers of the threads that are measured.
    #[default]
    Measured,
    /// The same, and every expiry of a timer.
    Split,
    /// What an explanation needs.
    Explained,
    /// The same, and stacks of late wake-ups.
    WithStacks,
}

/// A program at the beginning of a kernel's function, one at its end, and the function.
pub(super) type FunctionPrograms = (&'static str, &'static str, &'static str);

/// The programs at page faults.
pub(super) const FAULTS: FunctionPrograms = ("fault_begins", "fault_ends", "handle_mm_fault");

/// The programs at system calls that change memory. Every process pays for them at these calls.
pub(super) const MEMORY_CALLS: [FunctionPrograms; 5] = [
    ("begins_vm_mmap_pgoff", "ends_vm_mmap_pgoff", "vm_mmap_pgoff"),
    ("begins___x64_sys_munmap", "ends___x64_sys_munmap", "__x64_sys_munmap"),
    ("begins___x64_sys_madvise", "ends___x64_sys_madvise", "__x64_sys_madvise"),
    ("begins___x64_sys_brk", "ends___x64_sys_brk", "__x64_sys_brk"),
    ("begins_kernel_clone", "ends_kernel_clone", "kernel_clone"),
];

/// The programs at the lock of a process's memory and at the counters of its pages, and their trace
/// points: instead of [`MEMORY_CALLS`]. Every process pays for them where it changes its memory.
pub(super) const MEMORY_LOCKS: [(&str, &str); 4] = [
    ("lock_returned", "mmap_lock_released"),
    ("lock_taken", "mmap_lock_acquire_returned"),
    ("lock_wanted", "mmap_lock_start_locking"),
    ("pages_counted", "rss_stat"),
];

/// A decoded record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathEntry {
    /// An event, without the names of its threads.
    Event(TraceEvent),
    /// The loop's waking, with the reading of the interrupted thread.
    Waking(TraceEvent, CounterReading),
    /// A reading at a switch to or from the loop.
    Reading(CounterReading),
    /// Number and name of a thread that has ended.
    Ended(u32, Label),
    /// What the loop met.
    Inside(InsideEvent),
}

impl PathEntry {
    /// Returns the time; the end of a thread has none.
    pub(super) const fn at(&self) -> Option<Instant> {
        match self {
            Self::Event(event) | Self::Waking(event, _) => Some(event.at),
            Self::Reading(reading) => Some(reading.at),
            Self::Inside(event) => Some(event.at),
            Self::Ended(..) => None,
        }
    }
}

/// Decodes a record of `cpu`; `None` if it is still being written or its kind is unknown.
pub(super) fn read(cpu: u32, words: [u64; WORDS]) -> Option<PathEntry> {
    let [at, head, first, second] = words;
    let at = Instant::from_ns(Some(at).filter(|at| *at != 0)?);
    let (tid, kind) = halves(head);
    let (extra, (a, b), (c, d)) = (kind >> 8, halves(first), halves(second));
    let thread = |tid, prio: u32| Thread { tid, prio: prio.cast_signed(), name: Label::default() };
    let kind = PathKind::ALL.into_iter().find(|known| *known as u32 == kind & 0xff)?;
    let flags = ReadingFlags(extra.cast_signed());
    let inside = |what| Some(PathEntry::Inside(InsideEvent { at, cpu, tid, what }));

    let what = match kind {
        PathKind::Switch => KernelEvent::Switch {
            prev: thread(tid, c),
            prev_state: state_shown(d, extra != 0),
            next: thread(a, b),
        },
        PathKind::Waking => KernelEvent::Waking { thread: thread(a, b), target_cpu: c },
        PathKind::TimerStart => {
            let softexpires = Instant::from_ns(second);
            KernelEvent::TimerStart {
                timer: first,
                function: 0,
                expires: softexpires.plus_ns(extra.into()),
                softexpires,
            }
        }
        // The kernel's `now` is not recorded; the time of the record is slightly later.
        PathKind::TimerExpireEntry => {
            KernelEvent::TimerExpireEntry { timer: first, function: second, now: at }
        }
        PathKind::Idle => KernelEvent::IdleEntry { state: a },
        PathKind::LocalTimerEntry => KernelEvent::VectorEntry(Vector::LocalTimer),
        PathKind::LocalTimerExit => KernelEvent::VectorExit(Vector::LocalTimer),
        PathKind::Exit => {
            let name = [first.to_ne_bytes(), second.to_ne_bytes()].concat();
            return Some(PathEntry::Ended(tid, Label::new(&name)));
        }
        PathKind::Reading => {
            let steal_ns = flags.has(KNOWS_STEAL).then_some(first);
            let moment = ReadingTrigger::Switch;
            let reading =
                CounterReading { at, moment, cpu, prev: tid, next: d, ..flags.reading(c) };
            return Some(PathEntry::Reading(CounterReading { steal_ns, ..reading }));
        }
        PathKind::LeftIn => {
            let number = i64::from(extra & ((1 << CALL_BITS) - 1));
            let operation = extra >> CALL_BITS;
            let call = CallLeftIn { number, operation, first, word: c, owner: d };
            return inside(Inside::LeftIn(call));
        }
        PathKind::Lent => {
            let holder_prio = b.cast_signed();
            return inside(Inside::Lent(LentPriority { holder: a, holder_prio, waiter: c }));
        }
        PathKind::Fault => {
            return inside(Inside::Fault { address: first, ns: second, is_major: extra != 0 });
        }
        PathKind::MemoryCall => {
            let number = (extra & ((1 << CALL_BITS) - 1)).into();
            let is_whole = extra & AT_LEAST == 0;
            return inside(Inside::MemoryCall { number, ns: first, is_whole });
        }
        PathKind::FunctionBegins => return inside(Inside::FunctionBegins { stack: first }),
        PathKind::FunctionEnds => return inside(Inside::FunctionEnds { stack: first }),
    };

    let event = TraceEvent { at, cpu, tid, what };
    if kind != PathKind::Waking {
        return Some(PathEntry::Event(event));
    }
    let moment = ReadingTrigger::Waking;
    let reading = CounterReading { at, moment, cpu, prev: tid, next: a, ..flags.reading(d) };
    Some(PathEntry::Waking(event, reading))
}

#[derive(Clone, Copy, Debug)]
struct ReadingFlags(i32);

impl ReadingFlags {
    const fn has(self, flag: i32) -> bool {
        self.0 & flag != 0
    }

    /// Returns the reading of these flags and of `entered`, which says how the other thread entered
    /// the kernel.
    fn reading(self, entered: u32) -> CounterReading {
        let entered = entered.cast_signed();
        CounterReading {
            prev_syscall: (entered >= 0).then_some(entered.into()),
            prev_in_user: entered == FROM_USER,
            rt_throttled: self.has(KNOWS_THROTTLING).then_some(self.has(THROTTLED)),
            by_fair_server: self.has(KNOWS_SERVER).then_some(self.has(BY_SERVER)),
            frozen: self.has(KNOWS_FREEZER).then_some(self.has(FROZEN)),
            ..CounterReading::default()
        }
    }
}

const fn halves(word: u64) -> (u32, u32) {
    let low = word as u32;
    let high = (word >> 32) as u32;
    if cfg!(target_endian = "little") { (low, high) } else { (high, low) }
}

/// The state as `sched_switch` shows it, from the bits of `task_struct` (`__task_state_index` in
/// include/linux/sched.h).
const fn state_shown(bits: u32, preempted: bool) -> ThreadState {
    const REPORTED: u32 = 0x7f;
    const IDLE: u32 = 0x402;
    /// Waiting for a sleeping lock of PREEMPT_RT, and frozen: both shown as uninterruptible.
    const AS_BLOCKED: u32 = 0x1000 | 0x8000;
    if preempted {
        return ThreadState(0x100);
    }

    let reported = if bits & IDLE == IDLE {
        0x80
    } else if bits & AS_BLOCKED != 0 {
        2
    } else {
        bits & REPORTED
    };

    // Only the highest bit is shown.
    ThreadState(if reported == 0 { 0 } else { 1 << reported.ilog2() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(low: u32, high: u32) -> u64 {
        let [low, high] = [low, high].map(u32::to_ne_bytes);
        u64::from_ne_bytes([low, high].concat().try_into().unwrap())
    }

    fn what(kind: u32, tid: u32, rest: [u64; 2]) -> Option<KernelEvent> {
        match read(1, [77, word(tid, kind), rest[0], rest[1]])? {
            PathEntry::Event(event) | PathEntry::Waking(event, _) => {
                assert_eq!((event.at.as_ns(), event.cpu, event.tid), (77, 1, tid));
                Some(event.what)
            }
            PathEntry::Ended(..) | PathEntry::Reading(_) | PathEntry::Inside(_) => None,
        }
    }

    #[test]
    fn records_are_decoded() {
        let thread = |tid, prio| Thread { tid, prio, name: Label::default() };
        let switch = |prev_state| KernelEvent::Switch {
            prev: thread(5, 120),
            prev_state: ThreadState(prev_state),
            next: thread(9, 9),
        };
        assert_eq!(what(1, 5, [word(9, 9), word(120, 1)]), Some(switch(1)));
        assert_eq!(what(1 | 1 << 8, 5, [word(9, 9), word(120, 0)]), Some(switch(0x100)));
        let deadline = KernelEvent::Waking { thread: thread(9, -1), target_cpu: 3 };

        assert_eq!(what(2, 5, [word(9, u32::MAX), word(3, 0)]), Some(deadline));
        let softexpires = Instant::from_ns(1_000_000);
        let expires = Instant::from_ns(1_050_000);
        let start =
            KernelEvent::TimerStart { timer: 0xffff_8000, function: 0, expires, softexpires };
        assert_eq!(what(3 | 50_000 << 8, 9, [0xffff_8000, 1_000_000]), Some(start));
        let now = Instant::from_ns(77);
        let entry = KernelEvent::TimerExpireEntry { timer: 0xffff_8000, function: u64::MAX, now };

        assert_eq!(what(4, 0, [0xffff_8000, u64::MAX]), Some(entry));
        assert_eq!(what(5, 0, [word(1, 0), 0]), Some(KernelEvent::IdleEntry { state: 1 }));
        assert_eq!(what(6, 0, [0, 0]), Some(KernelEvent::VectorEntry(Vector::LocalTimer)));
        assert_eq!(what(7, 0, [0, 0]), Some(KernelEvent::VectorExit(Vector::LocalTimer)));
        let name = u64::from_ne_bytes(*b"rustc\0\0\0");

        assert_eq!(
            read(1, [77, word(31, 8), name, 0]),
            Some(PathEntry::Ended(31, Label::from("rustc")))
        );
        assert_eq!(what(16, 0, [0, 0]), None);
        assert_eq!(read(1, [0, word(5, 1), 0, 0]), None, "still being written");
    }

    fn reading(kind: i32, flags: i32, rest: [u64; 2]) -> Option<CounterReading> {
        match read(1, [77, word(5, (kind | flags << 8).cast_unsigned()), rest[0], rest[1]])? {
            PathEntry::Waking(_, reading) | PathEntry::Reading(reading) => Some(reading),
            PathEntry::Event(_) | PathEntry::Ended(..) | PathEntry::Inside(_) => None,
        }
    }

    #[test]
    fn readings_are_decoded_according_to_their_flags() {
        let at = Instant::from_ns(77);
        let switch = CounterReading {
            at,
            moment: ReadingTrigger::Switch,
            cpu: 1,
            prev: 5,
            next: 9,
            ..CounterReading::default()
        };
        let nothing = reading(9, 0, [0, word(u32::MAX, 9)]);
        assert_eq!(nothing, Some(switch), "a kernel that knows of nothing");
        let knows = KNOWS_STEAL | KNOWS_THROTTLING | KNOWS_SERVER;
        let all = reading(9, knows | BY_SERVER, [4_000, word(libc::SYS_read as u32, 9)]);
        let steal_ns = Some(4_000);
        let prev_syscall = Some(libc::SYS_read);
        let rt_throttled = Some(false);
        let by_fair_server = Some(true);

        assert_eq!(
            all,
            Some(CounterReading { steal_ns, prev_syscall, rt_throttled, by_fair_server, ..switch })
        );

        let waking = reading(
            2,
            KNOWS_THROTTLING | THROTTLED,
            [word(9, 9), word(0, FROM_USER.cast_unsigned())],
        );
        let interrupted = CounterReading {
            moment: ReadingTrigger::Waking,
            prev_in_user: true,
            rt_throttled: Some(true),
            ..switch
        };
        assert_eq!(waking, Some(interrupted));

        let frozen = |flags| reading(9, flags, [0, word(u32::MAX, 9)])?.frozen;
        assert_eq!(frozen(KNOWS_FREEZER | FROZEN), Some(true));
        assert_eq!(frozen(KNOWS_FREEZER), Some(false));
        assert_eq!(frozen(0), None);
    }

    #[test]
    fn what_the_loop_met_is_decoded() {
        let met = |kind: u32, rest: [u64; 2]| match read(1, [77, word(9, kind), rest[0], rest[1]])?
        {
            PathEntry::Inside(event) => {
                assert_eq!((event.at.as_ns(), event.tid), (77, 9));
                Some(event.what)
            }
            _ => None,
        };
        let call =
            CallLeftIn { number: 202, operation: 9, first: 0x7f00_1000, word: 2, owner: 4_711 };
        assert_eq!(
            met(10 | (202 | 9 << 10) << 8, [0x7f00_1000, word(2, 4_711)]),
            Some(Inside::LeftIn(call))
        );
        let lent = LentPriority { holder: 5, holder_prio: 120, waiter: 9 };
        assert_eq!(met(11, [word(5, 120), word(9, 19)]), Some(Inside::Lent(lent)));
        let fault = Inside::Fault { address: 0x7f00, ns: 800, is_major: true };
        assert_eq!(met(12 | 1 << 8, [0x7f00, 800]), Some(fault));
        let call = |is_whole| Some(Inside::MemoryCall { number: 11, ns: 900, is_whole });
        assert_eq!(met(13 | 11 << 8, [900, 0]), call(true));
        assert_eq!(met(13 | (11 | 1 << 10) << 8, [900, 0]), call(false));
    }

    #[test]
    fn states_are_those_that_the_kernel_shows() {
        let shown = [
            (0, "R"),
            (1, "S"),
            (2, "D"),
            (0x402, "I"),
            (0x1002, "D"),
            (0x8000, "D"),
            (4, "T"),
            (0x80 | 0x20, "Z"),
        ];
        for (bits, letters) in shown {
            assert_eq!(state_shown(bits, false).to_string(), letters, "{bits:#x}");
        }
        assert_eq!(state_shown(0, true).to_string(), "R+");
    }
}
