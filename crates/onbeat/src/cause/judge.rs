//! Which cause each stretch of a spike belongs to.
//!
//! The spike is cut at every event of the loop's CPU, and each stretch is judged by two things: what state the loop was
//! in, and what the CPU did meanwhile.

use onbeat_rt::Instant;

use super::classify::{Part, PartKind, SpikeFacts};
use super::counters::Counters;
use super::event::{Event, Thread, What};
use super::flight::SHALLOW_NS;
use super::kind::{CauseKind, Culprit};
use super::mode::Mode;
use super::refusal::Refusal;
use super::syscalls;
use super::timeline::{Doing, Own, OwnSpan, Slice, Timeline, own_spans};
use super::window::Window;

/// A stretch without an event inside, with its cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) from: Instant,
    pub(super) to: Instant,
    pub(super) cpu: Option<u32>,
    pub(super) verdict: Verdict,
    pub(super) culprit: Option<Culprit>,
    /// What else is to be said of it.
    pub(super) remark: Option<String>,
}

/// A cause, or a kind of time that is none yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// This cause.
    Cause(CauseKind),
    /// The loop's own work in a cycle.
    OwnWork,
}

impl Piece {
    pub(super) const fn ns(&self) -> u64 {
        self.to.ns_since(self.from)
    }
}

/// A thread on the CPU that the loop was sent to makes room within this time of its interrupt, in nanoseconds; on the
/// virtual machines measured it takes 15 to 25 µs.
const SENT_NS: u64 = 50_000;
/// An idle state that takes this many times the kernel's exit latency to leave was not left by the guest alone.
const FAR_BEYOND: u64 = 4;
/// An idle CPU in front of a waiting real-time thread for this long is no ordinary switch.
const IDLE_REFUSAL_NS: u64 = 20_000;

pub(super) struct Judge<'w> {
    pub(super) facts: &'w SpikeFacts,
    pub(super) window: &'w Window,
    pub(super) counters: &'w Counters,
    pub(super) events: Vec<&'w Event>,
    pub(super) timeline: Timeline,
    spans: Vec<OwnSpan>,
    /// When the loop's timer was set, and which it is.
    armed: Option<(Instant, u64, u32)>,
    /// When that timer's function began, and on which CPU.
    pub(super) fired: Option<(Instant, u32)>,
    moved: bool,
}

impl<'w> Judge<'w> {
    pub(super) fn new(facts: &'w SpikeFacts, window: &'w Window, counters: &'w Counters) -> Self {
        let events = window.in_order();
        let armed = |event: &&Event| match event.what {
            What::TimerStart { timer, softexpires, .. } if event.tid == facts.tid && event.at <= facts.start => {
                facts.is_the_loops_timer(softexpires).then_some((event.at, timer, event.cpu))
            }
            _ => None,
        };

        // A sleep that a freezer or a signal interrupts sets its timer again, to the same instant: the first one counts. Of relative
        // timers only the last is known to be the sleep's.
        let armed = match facts.relative {
            false => events.iter().find_map(armed),
            true => events.iter().rev().find_map(armed),
        };

        let fired = armed.and_then(|(set, timer, _)| {
            events.iter().find_map(|event| match event.what {
                What::TimerExpireEntry { timer: fired, .. } if fired == timer && event.at >= set => {
                    (event.at <= facts.start).then_some((event.at, event.cpu))
                }
                _ => None,
            })
        });

        let moved = events.iter().any(|event| {
            let is_move = matches!(event.what, What::Migrate { thread, .. } if thread.tid == facts.tid);
            is_move && event.at >= facts.expiry && event.at <= facts.end
        });

        let (timeline, spans) = (Timeline::of(window), own_spans(window, facts.tid, facts.cpu));
        Self { facts, window, counters, events, timeline, spans, armed, fired, moved }
    }

    /// Whether the loop changed its CPU in the spike.
    pub(super) const fn moved(&self) -> bool {
        self.moved
    }

    /// Events of the loop's own thread between two instants.
    pub(super) fn own_events(&self, from: Instant, to: Instant) -> impl Iterator<Item = &&'w Event> {
        let tid = self.facts.tid;
        self.events.iter().filter(move |event| event.tid == tid && event.at >= from && event.at <= to)
    }

    /// Frequency changes of `cpu` between two instants.
    pub(super) fn frequency_change(&self, cpu: Option<u32>, from: Instant, to: Instant) -> Option<u32> {
        self.events.iter().find_map(|event| match event.what {
            What::Frequency { cpu: of, khz } if cpu == Some(of) && event.at >= from && event.at <= to => Some(khz),
            _ => None,
        })
    }

    /// Stretches of `cpu` in which something ran, between two instants.
    pub(super) fn busy(&self, cpu: u32, from: Instant, to: Instant) -> Vec<Slice> {
        let slices = self.timeline.between(Some(cpu), from, to).into_iter();
        slices.filter(|slice| !matches!(slice.doing, Doing::Idle(_) | Doing::Unknown)).collect()
    }

    /// The pieces of one part, in order, without gaps.
    pub(super) fn pieces(&self, part: &Part) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut at = part.from;
        for span in &self.spans {
            let inside = Part { from: span.from.max(part.from), to: span.to.min(part.to), ..*part };
            if inside.from < inside.to {
                self.unknown_until(&mut pieces, at, inside.from);
                pieces.extend(self.judge_span(span, &inside));
                at = inside.to;
            }
        }

        self.unknown_until(&mut pieces, at, part.to);
        pieces
    }

    fn unknown_until(&self, pieces: &mut Vec<Piece>, from: Instant, to: Instant) {
        if from < to {
            let remark = Some("no event of the loop's thread is there".to_owned());
            let verdict = Verdict::Cause(CauseKind::Unexplained);
            pieces.push(Piece { from, to, cpu: self.facts.cpu, verdict, culprit: None, remark });
        }
    }

    /// Judges what lies inside `part` of a span.
    fn judge_span(&self, span: &OwnSpan, part: &Part) -> Vec<Piece> {
        // A sleeping loop waits for its timer, which may run on another CPU.
        let timer_cpu = self.fired.map(|(_, cpu)| cpu).or(self.armed.map(|(_, _, cpu)| cpu));
        let cpu = if span.own == Own::Asleep { timer_cpu.or(span.cpu) } else { span.cpu };
        let refusal = if span.own == Own::Ready { self.refusal(span) } else { None };
        let mut idle_ns = 0;
        let mut pieces = Vec::new();
        for slice in self.timeline.between(cpu, part.from, part.to) {
            let (kind, culprit, remark) = match span.own {
                Own::Running => self.while_running(&slice, part.kind),
                Own::Asleep if part.kind != PartKind::WakeUp => self.while_waiting(span),
                Own::Asleep if self.is_frozen(&slice, span) => frozen("its timer had fired, and nothing woke it"),
                Own::Asleep => self.while_asleep(&slice, cpu),
                Own::Ready => {
                    idle_ns += if matches!(slice.doing, Doing::Idle(_)) { slice.to.ns_since(slice.from) } else { 0 };
                    self.while_ready(&slice, span, refusal.as_ref(), idle_ns)
                }
                Own::Blocked => self.while_blocked(&slice, span, part.kind),
                Own::Stopped => self.while_stopped(span),
                Own::Unknown => (
                    Verdict::Cause(CauseKind::Unexplained),
                    None,
                    Some("events before it are no longer there".to_owned()),
                ),
            };
            pieces.push(Piece { from: slice.from, to: slice.to, cpu, verdict: kind, culprit, remark });
        }

        pieces
    }

    fn while_running(&self, slice: &Slice, part: PartKind) -> Judged {
        if let Some(interrupted) = self.interrupted(slice) {
            return interrupted;
        }

        // The loop's own time: before it set its timer it was not done, afterwards it is on its way out of the kernel.
        let sleeping_since = self.armed.map(|(set, _, _)| set).or(self.facts.entered_sleep);
        match slice.doing {
            Doing::Unknown => cause(CauseKind::Unexplained),
            _ if part != PartKind::WakeUp => (Verdict::OwnWork, None, None),
            _ if sleeping_since.is_none_or(|since| slice.from < since) => cause(CauseKind::OwnOverrun),
            _ => cause(CauseKind::WakeUpPath),
        }
    }

    fn while_asleep(&self, slice: &Slice, cpu: Option<u32>) -> Judged {
        if let Some(interrupted) = self.interrupted(slice) {
            return interrupted;
        }
        match slice.doing {
            Doing::Idle(state) => self.slept(slice, state),
            Doing::Thread(thread) => self.held_up_beside(slice, &thread, cpu),
            _ => cause(CauseKind::Unexplained),
        }
    }

    /// The CPU slept while it was wanted. A guest's own idle states take as long as the kernel says; what takes far longer is
    /// the host's way to run a halted CPU again.
    fn slept(&self, slice: &Slice, state: Option<u32>) -> Judged {
        let exit_ns = self.counters.deepest_idle_ns.unwrap_or(0);
        let late_ns = slice.to.ns_since(self.facts.expiry);
        if self.counters.is_guest && late_ns > FAR_BEYOND * exit_ns {
            let us = exit_ns as f64 / 1000.0;
            let remark =
                format!("the guest's deepest idle state takes {us:.1} us to leave: the host ran the halted CPU late");
            return (Verdict::Cause(CauseKind::LateTimer), Some(named(Culprit::HALTED)), Some(remark));
        }

        (Verdict::Cause(CauseKind::LateIdleExit), None, state.map(|state| format!("idle state {state}")))
    }

    /// A thread ran while the timer's interrupt was due. Only code that can switch interrupts off is held responsible.
    fn held_up_beside(&self, slice: &Slice, thread: &Thread, cpu: Option<u32>) -> Judged {
        let late = |why: String| (Verdict::Cause(CauseKind::LateTimer), None, Some(why));
        let off = |call| (Verdict::Cause(CauseKind::InterruptsOff), Some(thread_culprit(thread, call)), None);
        if self.counters.is_guest && self.was_open_after_expiry(cpu) {
            return late("the CPU took interrupts or changed threads meanwhile, so they were not off".to_owned());
        }

        match self.mode(thread, cpu, slice.to) {
            Mode::User => late(format!("{thread} was in user code, which cannot switch interrupts off")),
            Mode::Syscall(number) => off(Some(number)),
            Mode::Unknown if self.counters.is_guest => {
                late(format!("{thread} ran; whether in the kernel is not known"))
            }
            Mode::Kernel | Mode::Unknown => off(None),
        }
    }

    fn while_ready(&self, slice: &Slice, span: &OwnSpan, refusal: Option<&Refusal>, idle_ns: u64) -> Judged {
        let refused = refusal.filter(|refusal| slice.to > refusal.from);
        // A loop whose cgroup is throttled would not run, whatever the CPU does meanwhile.
        if let Some(quota) = refused.filter(|refusal| refusal.kind == CauseKind::CpuQuota) {
            return (Verdict::Cause(quota.kind), None, Some(quota.evidence.clone()));
        }
        if let Some(interrupted) = self.interrupted(slice) {
            return interrupted;
        }

        let refused_by =
            |culprit| refused.map(|refusal| (Verdict::Cause(refusal.kind), culprit, Some(refusal.evidence.clone())));
        match slice.doing {
            Doing::Thread(thread) if thread.tid == self.facts.tid => cause(CauseKind::WakeUpPath),
            Doing::Thread(thread) if span.moved && thread.name.text().starts_with("migration/") => {
                (Verdict::Cause(CauseKind::Migration), Some(thread_culprit(&thread, None)), None)
            }
            Doing::Thread(thread)
                if span.moved && thread.prio > self.facts.prio && span.to.ns_since(span.from) <= SENT_NS =>
            {
                let remark = "its new CPU had to be interrupted first".to_owned();
                (Verdict::Cause(CauseKind::Migration), Some(thread_culprit(&thread, None)), Some(remark))
            }
            Doing::Thread(thread) if thread.prio <= self.facts.prio || !self.is_real_time() => refused_by(None)
                .unwrap_or_else(|| match self.held_in_one_call(&thread, span) {
                    Some(number) => {
                        (Verdict::Cause(CauseKind::KernelSection), Some(thread_culprit(&thread, Some(number))), None)
                    }
                    None => self.let_run_on(&thread),
                }),
            Doing::Thread(thread) => {
                refused_by(Some(thread_culprit(&thread, None))).unwrap_or_else(|| self.not_let_go(slice, &thread, span))
            }
            Doing::Idle(state) => refused_by(None).unwrap_or_else(|| {
                let remote = self.fired.is_some_and(|(_, cpu)| Some(cpu) != span.cpu);
                match (span.moved, remote) {
                    (true, _) => (Verdict::Cause(CauseKind::Migration), None, Some("its new CPU slept".to_owned())),
                    (false, true) => self.slept(slice, state),
                    (false, false) if idle_ns > IDLE_REFUSAL_NS && self.may_sleep(state) && self.fired.is_none() => {
                        self.slept(slice, state)
                    }
                    (false, false) => cause(CauseKind::WakeUpPath),
                }
            }),
            _ => cause(CauseKind::Unexplained),
        }
    }

    /// Whether an idle CPU slept: in a known state, or in one of shallow ones, which are not recorded.
    fn may_sleep(&self, state: Option<u32>) -> bool {
        state.is_some() || self.counters.deepest_idle_ns.is_some_and(|exit_ns| exit_ns <= SHALLOW_NS)
    }

    /// The scheduler let a thread have the CPU. Of one that an ordinary loop's wake-up found in a system call it is said, since what the
    /// kernel does for it would keep a real-time loop waiting too.
    fn let_run_on(&self, thread: &Thread) -> Judged {
        let call = match self.mode_when_interrupted(thread) {
            Some(Mode::Syscall(number)) if !self.is_real_time() => Some(syscall_name(number)),
            _ => None,
        };

        let remark = call.as_ref().map(|call| format!("the loop's wake-up found it in {call}"));
        let culprit = Culprit { woken_in: call, ..thread_culprit(thread, None) };
        (Verdict::Cause(CauseKind::Preempted), Some(culprit), remark)
    }

    /// A thread of lower priority kept the CPU after the wake-up. From user code it is taken off at once, so that time is none
    /// of its own.
    fn not_let_go(&self, slice: &Slice, thread: &Thread, span: &OwnSpan) -> Judged {
        let section = |call| (Verdict::Cause(CauseKind::KernelSection), Some(thread_culprit(thread, call)), None);
        match self.mode(thread, span.cpu, slice.to) {
            Mode::User if self.was_in_user_code(thread) => cause(CauseKind::WakeUpPath),
            Mode::Syscall(number) => section(Some(number)),
            Mode::User | Mode::Kernel | Mode::Unknown => section(None),
        }
    }

    fn while_stopped(&self, span: &OwnSpan) -> Judged {
        let sender = self.events.iter().rev().find_map(|event| match event.what {
            What::SignalGenerate { signal, .. } if is_stop(signal) && event.at <= span.from => Some((event, signal)),
            _ => None,
        });

        let remark = sender.map(|(event, signal)| {
            let by = self.thread_named(event.tid).map_or_else(|| format!("thread {}", event.tid), |by| by.to_string());
            format!("signal {signal} from {by}")
        });

        (Verdict::Cause(CauseKind::Stopped), None, remark)
    }

    /// The cause when an interrupt, a timer's function or a softirq had the CPU.
    fn interrupted(&self, slice: &Slice) -> Option<Judged> {
        let own_interrupt = self.fired.is_some_and(|(fired, _)| {
            // The interrupt that brought the loop's timer is part of the wake-up itself.
            slice.interrupt.is_some_and(|entered| entered <= fired && self.interrupt_at(fired) == Some(entered))
        });
        match slice.doing {
            Doing::Irq { irq, name } => {
                Some((Verdict::Cause(CauseKind::HardIrq), Some(named(&format!("{name} (irq {irq})"))), None))
            }
            Doing::TimerFunction { timer, .. } if self.armed.is_some_and(|(_, own, _)| own == timer) => {
                Some(cause(CauseKind::TimerInterrupt))
            }
            Doing::TimerFunction { function, .. } => Some(self.others_timer(function)),
            Doing::Vector(_) if own_interrupt => match self.between_others_timers(slice) {
                Some(function) => Some(self.others_timer(function)),
                None => Some(cause(CauseKind::TimerInterrupt)),
            },
            Doing::Vector(vector) => Some((Verdict::Cause(CauseKind::HardIrq), Some(named(vector.name())), None)),
            Doing::Softirq(softirq) => Some((Verdict::Cause(CauseKind::Softirq), Some(named(softirq.name())), None)),
            Doing::Idle(_) | Doing::Thread(_) | Doing::Unknown => None,
        }
    }

    /// The function of another's timer that ran just before this slice of an interrupt, when one more timer's function
    /// follows: going from one to the next is part of their load.
    fn between_others_timers(&self, slice: &Slice) -> Option<u64> {
        let cpu = self.fired.map(|(_, cpu)| cpu)?;
        let here = |event: &&&'w Event| event.cpu == cpu;
        let split = self.events.partition_point(|event| event.at <= slice.from);
        let (before, after) = self.events.split_at(split);
        let follows = after.iter().find(here).map(|event| event.what);
        let mut before = before.iter().rev().filter(here);
        let What::TimerExpireExit { timer: ended } = before.next()?.what else { return None };
        let Some(What::TimerExpireEntry { .. }) = follows else { return None };
        let What::TimerExpireEntry { timer, function, .. } = before.next()?.what else { return None };
        let is_another = timer == ended && self.armed.is_some_and(|(_, own, _)| own != timer);

        is_another.then_some(function)
    }

    fn others_timer(&self, function: u64) -> Judged {
        let name = self.window.function(function).map_or_else(|| format!("{function:#x}"), str::to_owned);
        (Verdict::Cause(CauseKind::HardIrq), Some(named(&format!("timer {name}"))), None)
    }

    /// When the interrupt around `at` on the timer's CPU was entered.
    pub(super) fn interrupt_at(&self, at: Instant) -> Option<Instant> {
        let cpu = self.fired.map(|(_, cpu)| cpu);
        self.timeline.between(cpu, at, at.plus_ns(1)).first()?.interrupt
    }

    pub(super) fn is_real_time(&self) -> bool {
        self.facts.prio < 100
    }

    pub(super) fn thread_named(&self, tid: u32) -> Option<Thread> {
        self.events.iter().find_map(|event| match event.what {
            What::Switch { prev, .. } if prev.tid == tid => Some(prev),
            What::Switch { next, .. } if next.tid == tid => Some(next),
            _ => None,
        })
    }
}

pub(super) type Judged = (Verdict, Option<Culprit>, Option<String>);

const fn cause(kind: CauseKind) -> Judged {
    (Verdict::Cause(kind), None, None)
}

pub(super) fn frozen(why: &str) -> Judged {
    (Verdict::Cause(CauseKind::CgroupFreezer), None, Some(why.to_owned()))
}

pub(super) fn named(name: &str) -> Culprit {
    Culprit { name: name.to_owned(), ..Culprit::default() }
}

pub(super) fn syscall_name(number: i64) -> String {
    syscalls::name(number).map_or_else(|| format!("system call {number}"), str::to_owned)
}

pub(super) fn thread_culprit(thread: &Thread, syscall: Option<i64>) -> Culprit {
    Culprit {
        name: thread.name.text().into_owned(),
        tid: Some(thread.tid),
        prio: Some(thread.prio),
        system_call: syscall.map(syscall_name),
        woken_in: None,
    }
}

const fn is_stop(signal: i32) -> bool {
    matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU)
}
