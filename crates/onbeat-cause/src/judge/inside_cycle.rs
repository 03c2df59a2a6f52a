//! Waits inside a cycle that its system call and its memory explain: for a lock, for another thread,
//! for output, for a page, for the memory of the process.

use onbeat_rt::Instant;

use super::{Attribution, Judge, Judgement, Piece, named, syscall_name, thread_culprit};
use crate::event::{KernelEvent, Thread, TraceEvent};
use crate::facts::WaitingCall;
use crate::inside::{CallLeftIn, FutexUse, Inside, LentPriority, Stretch, stretches};
use crate::kind::{CauseKind, Culprit};
use crate::timeline::{CpuActivity, LoopSpan, LoopState, loop_spans};

/// A holder that was kept off its CPU for one in so many parts of the wait makes it a priority
/// inversion.
const KEPT_OFF_FROM: u64 = 2;

impl Judge<'_> {
    /// Returns the system call in which the loop left its CPU at the beginning of a span.
    fn left_in(&self, span: &LoopSpan) -> Option<&CallLeftIn> {
        let step = super::ORDINARY_STEP_NS;
        let (from, to) = (span.from.minus_ns(step), span.from.plus_ns(step));
        let inside = self.window.inside.iter().rev();
        inside.filter(|met| met.tid == self.facts.tid && met.at >= from && met.at <= to).find_map(
            |met| match &met.what {
                Inside::LeftIn(call) => Some(call),
                _ => None,
            },
        )
    }

    /// Returns the page fault in which a span lies.
    pub(crate) fn fault_around(&self, span: &LoopSpan) -> Option<Judgement> {
        let is_around = |stretch: &&Stretch| {
            let is_fault = matches!(stretch.what, Inside::Fault { .. });
            is_fault && stretch.from <= span.from && stretch.to >= span.to
        };
        self.stretches.iter().find(is_around).map(|stretch| self.of_stretch(stretch))
    }

    /// Whether the lengths of the loop's page faults between two instants are known.
    pub(crate) fn knows_fault_lengths(&self, from: Instant, to: Instant) -> bool {
        let is_inside = |stretch: &Stretch| stretch.from < to && stretch.to > from;
        let is_fault = |stretch: &Stretch| matches!(stretch.what, Inside::Fault { .. });
        self.stretches.iter().any(|stretch| is_fault(stretch) && is_inside(stretch))
    }

    /// Judges a sleep in a system call of the loop's own work.
    pub(crate) fn while_in_call(&self, number: i64, span: &LoopSpan) -> Judgement {
        let waker = self.waker(span);
        let call = self.left_in(span).filter(|call| call.number == number);
        let is_lock = number == libc::SYS_futex
            && call.is_some_and(|call| matches!(call.futex_use(), FutexUse::Lock { .. }));
        // Nothing but a timer ends a plain sleep, whoever seems to.
        let is_sleep = matches!(number, libc::SYS_clock_nanosleep | libc::SYS_nanosleep);
        let by_nobody = waker.is_none() || is_sleep;
        if by_nobody && !is_lock && self.may_be_between_cycles(Some(number), call, span) {
            return between_cycles(&syscall_name(number));
        }
        match call {
            Some(call) if number == libc::SYS_futex => match call.futex_use() {
                FutexUse::Lock { inherits, holder } => {
                    self.while_locked_out(call, (inherits, holder), waker, span)
                }
                FutexUse::Signal => while_signal_is_due(waker),
            },
            // Only its arguments say whether a futex of a program that is watched is a lock or a
            // signal.
            None if number == libc::SYS_futex && self.facts.waits_in.is_none() => {
                self.while_in_futex(waker, span)
            }
            Some(call) if call.writes() => self.while_writing(call, waker),
            Some(call) if call.changes_memory() => Judgement::new(CauseKind::MemoryCall)
                .by(named(&syscall_name(number)))
                .because("the call waited for the memory of the process"),
            _ => self.while_asking(number, call, waker),
        }
    }

    /// Judges a wait for a futex whose arguments are not known. A mutex of glibc that is free takes
    /// no call: a futex in the work is a lock that somebody else held.
    fn while_in_futex(&self, waker: Option<Thread>, span: &LoopSpan) -> Judgement {
        let kept_off = waker.and_then(|holder| self.kept_off(&holder, span));
        let remark = kept_off.map_or_else(
            || "the loop slept in futex until the holder let go".to_owned(),
            |(other, _)| {
                format!("the loop slept in futex, and {other} kept the holder off its CPU")
            },
        );
        // Who wakes a waiter of a futex has just released it.
        let holder = waker.map(|holder| thread_culprit(&holder, None));
        Judgement::new(CauseKind::LockWait).by(holder).because(remark)
    }

    /// Judges a sleep in front of a lock: whether it inherits priority, and the thread that its word
    /// names.
    fn while_locked_out(
        &self,
        call: &CallLeftIn,
        (inherits, holder): (bool, Option<u32>),
        waker: Option<Thread>,
        span: &LoopSpan,
    ) -> Judgement {
        let process = self.counters.process.as_ref();
        // The neighbour of a lock that is not a mutex has any number; of a mutex it has a thread's.
        let known = holder.and_then(|number| process?.thread(number));
        let known = known
            .and_then(|tid| self.thread_named(tid))
            .filter(|holder| holder.tid != self.facts.tid);
        // Who wakes a waiter of a futex has just released it.
        let Some(holder) = known.or(waker) else {
            return Judgement::new(CauseKind::LockWait)
                .because("the loop slept in futex until the holder let go");
        };

        let how = if inherits { "FUTEX_LOCK_PI" } else { "FUTEX_WAIT" };
        let lends = if inherits { "with" } else { "without" };
        let place = process.map(|process| process.memory_at(call.first));
        let of_library = match place {
            Some(crate::process_view::MemoryAt::File(name)) if name.starts_with("libc.") => {
                format!(", inside {name} (malloc or stdio)")
            }
            _ => String::new(),
        };
        let held =
            format!("{holder} held the lock{of_library}, {lends} priority inheritance ({how})");
        // The loop's priority would not have kept off a thread that is not below it, and between
        // ordinary threads none is lent.
        let is_kept_off = |other: &Thread| match self.is_real_time() {
            true => other.prio > self.facts.prio,
            false => other.is_real_time(),
        };
        let could_lend = |other: &Thread| !inherits && is_kept_off(other);
        match self.kept_off(&holder, span) {
            Some((other, ns)) if could_lend(&other) && ns >= span_ns(span) / KEPT_OFF_FROM => {
                let us = ns as f64 / 1_000.0;
                Judgement::new(CauseKind::PriorityInversion)
                    .by(thread_culprit(&other, None))
                    .because(format!("{held}, and {other} kept it off its CPU for {us:.1} us"))
            }
            Some((other, _)) => Judgement::new(CauseKind::LockWait)
                .by(thread_culprit(&holder, None))
                .because(format!("{held}, and {other} kept it off its CPU")),
            None => {
                Judgement::new(CauseKind::LockWait).by(thread_culprit(&holder, None)).because(held)
            }
        }
    }

    /// Returns the thread that kept `holder` off its CPU for the longest time of a span, and that
    /// time, in nanoseconds.
    fn kept_off(&self, holder: &Thread, span: &LoopSpan) -> Option<(Thread, u64)> {
        let mut longest: Option<(Thread, u64)> = None;
        let spans = loop_spans(self.window, holder.tid, None);
        // Wake-ups of the holder are not recorded: before its first event it may have slept as well.
        let is_preempted =
            |one: &&LoopSpan| one.state == LoopState::Ready && one.from > self.window.from;
        for ready in spans.iter().filter(is_preempted) {
            let (from, to) = (ready.from.max(span.from), ready.to.min(span.to));
            if from >= to {
                continue;
            }
            for slice in self.timeline.between(ready.cpu, from, to) {
                let CpuActivity::Thread(thread) = slice.doing else { continue };
                let ns = slice.to.ns_since(slice.from);
                longest = match longest {
                    Some((known, sum)) if known.tid == thread.tid => Some((known, sum + ns)),
                    Some((_, sum)) if sum < ns => Some((thread, ns)),
                    None => Some((thread, ns)),
                    kept => kept,
                };
            }
        }
        longest.filter(|(thread, _)| thread.tid != holder.tid && thread.tid != self.facts.tid)
    }

    fn while_writing(&self, call: &CallLeftIn, waker: Option<Thread>) -> Judgement {
        let name = syscall_name(call.number);
        let to = self.counters.process.as_ref().and_then(|process| process.descriptor(call.first));
        let culprit = to.map_or_else(|| format!("descriptor {}", call.first), str::to_owned);
        let remark = format!("the loop slept in {name} until {} woke it", words(waker));
        Judgement::new(CauseKind::OutputWait).by(named(&culprit)).because(remark)
    }

    fn while_asking(
        &self,
        number: i64,
        call: Option<&CallLeftIn>,
        waker: Option<Thread>,
    ) -> Judgement {
        let name = syscall_name(number);
        let what = call.filter(|call| call.takes_descriptor()).and_then(|call| {
            let process = self.counters.process.as_ref()?;
            process.descriptor(call.first).map(|what| format!(" of {what}"))
        });
        let remark = format!(
            "the loop slept in its own work{} until {} woke it",
            what.unwrap_or_default(),
            words(waker)
        );
        Judgement::new(CauseKind::OwnWait).by(named(&name)).because(remark)
    }

    /// Whether a sleep may be the wait of a watched program for its next release: it is in the same
    /// call, and if that sets a timer, the loop was not seen to set one for it. Wake-ups may have
    /// no event, and then a cycle seems to go on until the next one.
    pub(crate) fn may_be_between_cycles(
        &self,
        number: Option<i64>,
        call: Option<&CallLeftIn>,
        span: &LoopSpan,
    ) -> bool {
        let first = call.map(|call| call.first);
        let is_same = |own: WaitingCall| number.is_none_or(|number| own.may_be(number, first));
        let is_same = self.facts.waits_in.is_some_and(is_same);
        // Other calls wait for a timer that outlives them: the call that fetches it sets it.
        let sets_timer = number
            .is_none_or(|number| matches!(number, libc::SYS_nanosleep | libc::SYS_clock_nanosleep));
        let is_set = |event: &&TraceEvent| matches!(event.what, KernelEvent::TimerStart { .. });
        let set_at = span.from.minus_ns(super::ORDINARY_STEP_NS);
        is_same && !(sets_timer && self.own_events(set_at, span.from).any(is_set))
    }

    /// Returns the thread that woke the loop at the end of a span; `None` for an interrupt.
    pub(crate) fn waker(&self, span: &LoopSpan) -> Option<Thread> {
        let waking = self.events.iter().rev().find(|event| match event.what {
            KernelEvent::Waking { thread, .. } => {
                thread.tid == self.facts.tid && event.at <= span.to
            }
            _ => false,
        })?;
        // In an interrupt the thread is the one that it interrupted.
        let slices = self.timeline.between(Some(waking.cpu), waking.at, waking.at.plus_ns(1));
        if slices.first().is_some_and(|slice| slice.interrupt.is_some()) {
            return None;
        }

        // The idle thread wakes nobody by itself: an interrupt did, while it was on the CPU.
        Some(waking.tid).filter(|tid| *tid != 0).and_then(|tid| self.thread_named(tid))
    }

    /// Returns the mapping in which most of the loop's page faults between two instants were.
    pub(crate) fn memory_faulted(&self, from: Instant, to: Instant) -> Option<Culprit> {
        let process = self.counters.process.as_ref()?;
        let mut mappings: Vec<(String, usize)> = Vec::new();
        for event in self.own_events(from, to) {
            let KernelEvent::PageFault { address, .. } = event.what else { continue };
            let name = process.memory_at(address).words().to_owned();
            match mappings.iter_mut().find(|(known, _)| *known == name) {
                Some((_, count)) => *count += 1,
                None => mappings.push((name, 1)),
            }
        }
        mappings.into_iter().max_by_key(|(_, count)| *count).map(|(name, _)| named(&name))
    }

    /// Names the parts of the loop's own work in which a page fault, a call that changes memory or a
    /// lock with priority inheritance had it.
    pub(crate) fn split_own_work(&self, pieces: Vec<Piece>) -> Vec<Piece> {
        pieces.into_iter().flat_map(|piece| self.split(piece)).collect()
    }

    fn split(&self, piece: Piece) -> Vec<Piece> {
        if piece.attribution != Attribution::OwnWork {
            return vec![piece];
        }

        let mut parts = Vec::new();
        let mut at = piece.from;
        let own = |from: Instant, to: Instant| Piece { from, to, ..piece.clone() };
        // A fault inside a call, such as a copy to memory that is not there, is the call's.
        for stretch in &self.stretches {
            let (from, to) = (stretch.from.max(at), stretch.to.min(piece.to));
            if from >= to {
                continue;
            }
            if at < from {
                parts.push(own(at, from));
            }
            parts.push(self.of_stretch(stretch).of(from, to, piece.cpu));
            at = to;
        }
        if at < piece.to {
            parts.push(own(at, piece.to));
        }
        parts
    }

    fn of_stretch(&self, stretch: &Stretch) -> Judgement {
        match stretch.what {
            Inside::Fault { address, is_major, .. } => {
                let process = self.counters.process.as_ref();
                let place = process.map(|process| process.memory_at(address));
                let how = if is_major { "read from a device" } else { "new or copied" };
                Judgement::new(CauseKind::PageFault)
                    .by(place.map(|place| named(place.words())))
                    .because(format!("a page at {address:#x} was {how}"))
            }
            Inside::MemoryCall { number, is_whole, .. } => {
                let at_least =
                    "at least: while it had the lock of the process's memory or gave pages back";
                Judgement::new(CauseKind::MemoryCall)
                    .by(named(&syscall_name(number)))
                    .with_remark((!is_whole).then(|| at_least.to_owned()))
            }
            Inside::Lent(lent) => self.while_lent(lent),
            Inside::LeftIn(_) | Inside::FunctionBegins { .. } | Inside::FunctionEnds { .. } => {
                Judgement::own_work()
            }
        }
    }

    fn while_lent(&self, lent: LentPriority) -> Judgement {
        let holder = self.thread_named(lent.holder);
        let holder = holder.map(|holder| Thread { prio: lent.holder_prio, ..holder });
        let who = holder.map_or_else(|| format!("thread {}", lent.holder), |it| it.to_string());
        let remark = format!(
            "{who} held the lock and had the loop's priority from it (FUTEX_LOCK_PI); the loop tried again and again on its CPU"
        );
        Judgement::new(CauseKind::LockWait)
            .by(holder.map(|holder| thread_culprit(&holder, None)))
            .because(remark)
    }
}

/// Returns what the loop met with a length.
pub(super) fn stretches_of(judge: &Judge<'_>) -> Vec<Stretch> {
    stretches(&judge.window.inside, judge.facts.tid)
}

/// Judges a sleep that may be the loop's wait for its next release.
pub(crate) fn between_cycles(call: &str) -> Judgement {
    Judgement::new(CauseKind::Unexplained).because(format!(
        "the loop slept in {call}, and no event shows its timer: it may be the sleep between two cycles"
    ))
}

fn while_signal_is_due(waker: Option<Thread>) -> Judgement {
    let remark = format!("the loop slept in futex, not for a lock, until {} woke it", words(waker));
    Judgement::new(CauseKind::DataWait)
        .by(waker.map(|waker| thread_culprit(&waker, None)))
        .because(remark)
}

/// Woken by no thread means by an interrupt, whose handler runs in whatever thread was there: no
/// name is given.
fn words(waker: Option<Thread>) -> String {
    waker.map_or_else(|| "an interrupt".to_owned(), |waker| waker.to_string())
}

const fn span_ns(span: &LoopSpan) -> u64 {
    span.to.ns_since(span.from)
}
