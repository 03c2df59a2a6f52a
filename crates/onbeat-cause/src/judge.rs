//! Finds the cause of each slice of a spike.
//!
//! The spike is cut at every event of the loop's CPU. Each slice is judged by the state of the loop
//! and the activity of the CPU.

mod freezer;
mod inside_cycle;
mod judgement;
mod kernel_code;
mod policy_change;
mod runtime_budget;
mod scheduler_rules;
mod thread_mode;
mod timer_thread;
mod unseen_wake_up;

pub(super) use inside_cycle::between_cycles;
pub(super) use judgement::{
    Attribution, Judgement, Piece, frozen, named, syscall_name, thread_culprit,
};

use onbeat_rt::Instant;

use super::counters::Counters;
use super::event::{KernelEvent, Thread, TraceEvent, is_of_timer};
use super::facts::{ExpectedActivity, SpikeFacts, SpikePart};
use super::flight::SHALLOW_NS;
use super::inside::Stretch;
use super::kind::{CauseKind, Culprit};
use super::timeline::{CpuActivity, LoopSpan, LoopState, Slice, Timeline, loop_spans};
use super::window::Window;
use scheduler_rules::SchedulerHold;
use thread_mode::ThreadMode;
use timer_thread::TimerThread;
use unseen_wake_up::UnseenWakeUp;

/// Maximum length of an undisturbed step of the wake-up, in nanoseconds: interrupt entry, switch,
/// return to user space. On virtual machines 1 to 12 µs were measured.
pub(super) const ORDINARY_STEP_NS: u64 = 25_000;
/// After a migration, a thread on the new CPU yields to the loop within this time, in nanoseconds;
/// 15 to 25 µs were measured on virtual machines.
const SENT_NS: u64 = 50_000;
/// If leaving an idle state takes more than this multiple of its exit latency, the host delayed the
/// guest.
const FAR_BEYOND: u64 = 4;
/// A CPU that idles for longer than this, in nanoseconds, although a real-time thread is runnable,
/// is not just switching threads.
// Between two threads a CPU idles for some microseconds.
const IDLE_HOLD_NS: u64 = 20_000;

/// The loop's timer when it was set.
#[derive(Clone, Copy)]
struct ArmedTimer {
    at: Instant,
    /// The timer's address.
    timer: u64,
    /// The CPU on which it was set.
    cpu: u32,
}

pub(super) struct Judge<'w> {
    pub(super) facts: &'w SpikeFacts,
    pub(super) window: &'w Window,
    pub(super) counters: &'w Counters,
    pub(super) events: Vec<&'w TraceEvent>,
    pub(super) timeline: Timeline,
    spans: Vec<LoopSpan>,
    /// The loop's timer when it was set.
    armed: Option<ArmedTimer>,
    /// Time and CPU at which that timer's function began.
    pub(super) fired: Option<(Instant, u32)>,
    /// The thread in which it expired; `None` for an interrupt.
    pub(super) timer_thread: Option<TimerThread>,
    /// How often the loop migrated during the spike.
    pub(super) moves: u64,
    /// The wake-up, if nothing of it was recorded.
    unseen_wake_up: Option<UnseenWakeUp>,
    /// What the loop met with a length: page faults, calls that change memory, lent priorities.
    stretches: Vec<Stretch>,
}

impl<'w> Judge<'w> {
    pub(super) fn new(facts: &'w SpikeFacts, window: &'w Window, counters: &'w Counters) -> Self {
        let events = window.in_order();
        let armed = |event: &&TraceEvent| match event.what {
            KernelEvent::TimerStart { timer, softexpires, .. }
                // The event has the thread that armed it. A timer of another thread with the same
                // expiry is not the loop's.
                if event.tid == facts.tid && event.at <= facts.start =>
            {
                facts.is_the_loops_timer(softexpires).then_some(ArmedTimer {
                    at: event.at,
                    timer,
                    cpu: event.cpu,
                })
            }
            _ => None,
        };

        // A sleep interrupted by a freezer or a signal sets its timer again to the same instant:
        // the first setting counts. Of relative timers, only the last one certainly belongs to the
        // sleep.
        let armed = match facts.relative {
            false => events.iter().find_map(armed),
            true => events.iter().rev().find_map(armed),
        };

        let fired = armed.and_then(|armed| {
            events.iter().find_map(|event| match event.what {
                KernelEvent::TimerExpireEntry { timer: fired, .. }
                    // By its address: the kernel's stack holds a sleeper's timer, so that an
                    // earlier sleep of the same thread may have had the same one.
                    if fired == armed.timer && event.at >= armed.at =>
                {
                    (event.at <= facts.start).then_some((event.at, event.cpu))
                }
                _ => None,
            })
        });

        let moves = events.iter().filter(|event| {
            let is_move = matches!(
                event.what,
                KernelEvent::Migrate { thread, .. } if thread.tid == facts.tid
            );
            is_move && event.at >= facts.expiry && event.at <= facts.end
        });
        let moves = moves.count() as u64;

        // What each CPU did, from the events of all of them: the loop's timer may be on another CPU
        // than the loop.
        let timeline = Timeline::new(window);
        let spans = loop_spans(window, facts.tid, facts.cpu);
        let unseen_wake_up = UnseenWakeUp::find(&events, facts);
        let mut judge = Self {
            facts,
            window,
            counters,
            events,
            timeline,
            spans,
            armed,
            fired,
            timer_thread: None,
            moves,
            unseen_wake_up,
            stretches: Vec::new(),
        };
        judge.stretches = inside_cycle::stretches_of(&judge);
        judge.timer_thread = judge.find_timer_thread();
        judge
    }

    /// Returns the events of the loop's thread between two instants.
    pub(super) fn own_events(
        &self,
        from: Instant,
        to: Instant,
    ) -> impl Iterator<Item = &&'w TraceEvent> {
        let tid = self.facts.tid;
        self.events
            .iter()
            .filter(move |event| event.tid == tid && event.at >= from && event.at <= to)
    }

    /// Returns the first new frequency of `cpu` between two instants, in kHz.
    pub(super) fn frequency_change(
        &self,
        cpu: Option<u32>,
        from: Instant,
        to: Instant,
    ) -> Option<u32> {
        self.events.iter().find_map(|event| match event.what {
            KernelEvent::Frequency { cpu: of, khz }
                if cpu == Some(of) && event.at >= from && event.at <= to =>
            {
                Some(khz)
            }
            _ => None,
        })
    }

    /// Returns the lowest frequency to which `cpu` went down between two instants, in kHz, and the
    /// most that work until `to` can have lost by it, in nanoseconds: a governor steps all the
    /// time.
    pub(super) fn slowed_down(
        &self,
        cpu: Option<u32>,
        from: Instant,
        to: Instant,
    ) -> Option<(u32, u64)> {
        let changes = self.events.iter().filter_map(|event| match event.what {
            KernelEvent::Frequency { cpu: of, khz } if cpu == Some(of) && event.at <= to => {
                Some((event.at, khz))
            }
            _ => None,
        });
        let changes: Vec<(Instant, u32)> = changes.collect();
        let split = changes.partition_point(|(at, _)| *at < from);
        // Before the first change that was recorded it may have been any.
        let before = changes[..split].last().map(|(_, khz)| *khz).filter(|khz| *khz > 0);
        let during = &changes[split..];
        let (at, _) =
            during.iter().find(|(_, khz)| before.is_none_or(|before| *khz < before)).copied()?;
        let lowest = during.iter().map(|(_, khz)| *khz).min()?;
        let lost_ns = |before: u32| {
            let lower_khz = u64::from(before.saturating_sub(lowest));
            to.ns_since(at).saturating_mul(lower_khz) / u64::from(before)
        };
        Some((lowest, before.map_or(u64::MAX, lost_ns)))
    }

    /// Returns the slices between two instants in which `cpu` was busy.
    pub(super) fn busy(&self, cpu: u32, from: Instant, to: Instant) -> Vec<Slice> {
        let slices = self.timeline.between(Some(cpu), from, to).into_iter();
        slices
            .filter(|slice| !matches!(slice.doing, CpuActivity::Idle(_) | CpuActivity::Unknown))
            .collect()
    }

    /// Returns the pieces of one part, in order and without gaps.
    pub(super) fn pieces(&self, part: &SpikePart) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut at = part.from;
        for span in &self.spans {
            let inside =
                SpikePart { from: span.from.max(part.from), to: span.to.min(part.to), ..*part };
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
            let unknown = Judgement::new(CauseKind::Unexplained)
                .because("no event of the loop's thread is there");
            pieces.push(unknown.of(from, to, self.facts.cpu));
        }
    }

    /// Judges the slices of a span inside `part`.
    fn judge_span(&self, span: &LoopSpan, part: &SpikePart) -> Vec<Piece> {
        // A sleeping loop waits for its timer, which may run on another CPU.
        // Where it fired is where it was due. Where it was set is the second best: a timer may be
        // moved to a CPU that does not sleep.
        let timer_cpu = self.fired.map(|(_, cpu)| cpu).or(self.armed.map(|armed| armed.cpu));
        let cpu = if span.state == LoopState::Asleep { timer_cpu.or(span.cpu) } else { span.cpu };
        let is_ready = span.state == LoopState::Ready;
        // Asked once per span and not per slice: both look through the whole window.
        let changed = if is_ready { self.policy_change(span) } else { None };
        let hold = if is_ready { self.scheduler_hold(span, changed.as_ref()) } else { None };
        let mut idle_ns = 0;
        let mut pieces = Vec::new();
        for slice in self.timeline.between(cpu, part.from, part.to) {
            let judgement = match span.state {
                LoopState::Running => self.while_running(&slice, part),
                LoopState::Asleep => self.while_sleeping(&slice, span, part.kind, cpu),
                LoopState::Ready => {
                    // Idle time adds up over a span: a CPU that goes in and out of a shallow state
                    // has many short idle slices.
                    idle_ns += if matches!(slice.doing, CpuActivity::Idle(_)) {
                        slice.to.ns_since(slice.from)
                    } else {
                        0
                    };
                    let after_change = |change| self.since_the_change(&slice, change);
                    changed
                        .as_ref()
                        .and_then(after_change)
                        .unwrap_or_else(|| self.while_ready(&slice, span, hold.as_ref(), idle_ns))
                }
                LoopState::Blocked => self.while_blocked(&slice, span, part.kind),
                LoopState::Stopped => self.while_stopped(span),
                LoopState::Unknown => Judgement::new(CauseKind::Unexplained)
                    .because("earlier events were overwritten"),
            };
            // A kworker by itself says nothing; the function it executed does.
            let culprit = judgement.culprit.clone();
            let culprit = culprit.map(|culprit| self.with_work(culprit, slice.to));
            pieces.push(judgement.by(culprit).of(slice.from, slice.to, cpu));
        }

        pieces
    }

    fn while_running(&self, slice: &Slice, part: &SpikePart) -> Judgement {
        // Interrupts come first: whatever thread the slice belongs to, it was not running while the
        // handler did.
        if let Some(interrupted) = self.interrupted(slice) {
            return interrupted;
        }
        if let Some(unseen) = self.unseen_wake_up.as_ref().and_then(|it| it.judge(slice)) {
            return unseen;
        }

        // The loop ran. Before it set its timer it was still working; afterwards it is returning
        // from the kernel.
        let sleeping_since = self.armed.map(|armed| armed.at).or(self.facts.entered_sleep);
        match slice.doing {
            CpuActivity::Unknown => Judgement::new(CauseKind::Unexplained),
            _ if part.kind != ExpectedActivity::WakeUp => {
                Judgement::own_work().with_remark(self.call_at_the_end(slice))
            }
            // Before it set its timer, the loop was still at its work of the cycle before, and late
            // by itself.
            _ if sleeping_since.is_none_or(|since| slice.from < since) => {
                Judgement::new(CauseKind::OwnOverrun)
            }
            _ => Judgement::new(CauseKind::WakeUpPath),
        }
    }

    /// Returns the system call in which the loop ended this stretch of its work asleep, in words:
    /// when it entered the call is not recorded.
    fn call_at_the_end(&self, slice: &Slice) -> Option<String> {
        // The slice of a stretch that outlasts the cycle is cut where the cycle ends, before the
        // wait for the next one.
        let next = self.spans.partition_point(|span| span.from < slice.to);
        let sleep = self.spans.get(next).filter(|span| {
            span.from == slice.to && matches!(span.state, LoopState::Asleep | LoopState::Blocked)
        })?;
        let call = syscall_name(self.own_leaving(sleep)?.prev_syscall?);
        Some(format!(
            "the thread had its CPU and nothing interrupted it; it then slept in {call}, whose own time until then is part of this"
        ))
    }

    /// Judges a slice in which the loop slept, in its wait or in its own work.
    fn while_sleeping(
        &self,
        slice: &Slice,
        span: &LoopSpan,
        part: ExpectedActivity,
        cpu: Option<u32>,
    ) -> Judgement {
        // The freezer looks like any other sleep in the events: the timer fires and nothing wakes
        // the thread. It is asked before the causes that would be guessed from silence.
        if let Some(evidence) = self.freezer(slice, span) {
            return frozen(&evidence);
        }
        if part != ExpectedActivity::WakeUp {
            return self.while_waiting(span);
        }
        if self.is_not_woken(slice, span) {
            return Judgement::new(CauseKind::Unexplained)
                .because("its timer had fired and nothing woke it; no freezer shows why");
        }
        self.while_asleep(slice, cpu)
    }

    /// Returns the spans in which the loop slept, in order.
    pub(super) fn sleeps(&self) -> impl DoubleEndedIterator<Item = &LoopSpan> {
        let sleeps =
            |span: &&LoopSpan| matches!(span.state, LoopState::Asleep | LoopState::Blocked);
        self.spans.iter().filter(sleeps)
    }

    fn while_asleep(&self, slice: &Slice, cpu: Option<u32>) -> Judgement {
        if let Some(waiting) = self.while_timer_thread_waits(slice) {
            return waiting;
        }
        if let Some(interrupted) = self.interrupted(slice) {
            return interrupted;
        }
        match slice.doing {
            CpuActivity::Idle(state) => self.slept(slice, state),
            CpuActivity::Thread(thread) => self.held_up_beside(slice, &thread, cpu),
            _ => Judgement::new(CauseKind::Unexplained),
        }
    }

    /// The CPU was idle although the loop was due. Leaving a guest's idle state takes as long as
    /// the kernel says; a much longer time means that the host resumed the halted vCPU late.
    fn slept(&self, slice: &Slice, state: Option<u32>) -> Judgement {
        // A guest may state no idle states at all. Any lateness is then far beyond what its own
        // states explain.
        let exit_ns = self.counters.deepest_idle_ns.unwrap_or(0);
        let late_ns = slice.to.ns_since(self.facts.expiry);
        if self.counters.is_guest && late_ns > FAR_BEYOND * exit_ns {
            let us = exit_ns as f64 / 1000.0;
            let remark = format!(
                "the guest's deepest idle state takes {us:.1} us to leave: the host ran the halted CPU late"
            );
            return Judgement::new(CauseKind::LateTimer).by(named(Culprit::HALTED)).because(remark);
        }

        Judgement::new(CauseKind::LateIdleExit)
            .with_remark(state.map(|state| format!("idle state {state}")))
    }

    /// A thread ran while the timer's interrupt was due. Only code that can disable interrupts is
    /// blamed.
    fn held_up_beside(&self, slice: &Slice, thread: &Thread, cpu: Option<u32>) -> Judgement {
        let late = |why: String| Judgement::new(CauseKind::LateTimer).because(why);
        let off = |call| {
            let found = self.code_found().map(|code| format!("its interrupt found {code}"));
            Judgement::new(CauseKind::InterruptsOff)
                .by(thread_culprit(thread, call))
                .with_remark(found)
        };
        // A CPU that took an interrupt after the expiry had them on. That the timer's own came
        // later is the hypervisor's doing.
        if self.counters.is_guest && self.was_open_after_expiry(cpu) {
            return late(
                "the CPU took interrupts or changed threads meanwhile, so they were not off"
                    .to_owned(),
            );
        }

        match self.mode(thread, cpu, slice.to) {
            // CLI is privileged: user code cannot have held the interrupt back.
            ThreadMode::User => {
                late(format!("{thread} was in user code, which cannot switch interrupts off"))
            }
            ThreadMode::Syscall(number) => off(Some(number)),
            // On bare metal a thread that holds an interrupt back is in the kernel, known or not.
            // In a guest the host may have held it back as well, and no thread is blamed on a
            // guess.
            ThreadMode::Unknown if self.counters.is_guest => {
                late(format!("{thread} ran; whether in the kernel is not known"))
            }
            ThreadMode::Kernel | ThreadMode::Unknown => off(None),
        }
    }

    fn while_ready(
        &self,
        slice: &Slice,
        span: &LoopSpan,
        hold: Option<&SchedulerHold>,
        idle_ns: u64,
    ) -> Judgement {
        // A rule holds from its beginning on. Slices before it have other reasons.
        let active_hold = hold.filter(|hold| slice.to > hold.from);
        // A loop in a throttled cgroup does not run, regardless of what the CPU does.
        if let Some(quota) = active_hold.filter(|hold| hold.kind == CauseKind::CpuQuota) {
            return Judgement::new(quota.kind).because(quota.evidence.clone());
        }
        if self.is_timer_threads_last_step(slice, span) {
            return Judgement::new(CauseKind::WakeUpPath);
        }
        if let Some(interrupted) = self.interrupted(slice) {
            return interrupted;
        }

        // Both rules are the doing of the threads that used the time, not of the one that ran.
        let held_by = |ran: Option<&Thread>| {
            active_hold.map(|hold| {
                let ran = ran.map(|thread| format!("; {thread} ran meanwhile")).unwrap_or_default();
                let remark = format!("{}{ran}", hold.evidence);
                Judgement::new(hold.kind).by(hold.culprit.clone()).because(remark)
            })
        };
        match slice.doing {
            CpuActivity::Thread(thread) if thread.tid == self.facts.tid => {
                Judgement::new(CauseKind::WakeUpPath)
            }
            CpuActivity::Thread(thread)
                // The stopper of the old CPU carries a running thread over: it is part of the move,
                // not another cause.
                if span.moved && thread.name.text().starts_with("migration/") =>
            {
                Judgement::new(CauseKind::Migration).by(thread_culprit(&thread, None))
            }
            CpuActivity::Thread(thread)
                if span.moved
                    && thread.prio > self.facts.prio
                    && span.to.ns_since(span.from) <= SENT_NS =>
            {
                let remark = "its new CPU had to be interrupted first";
                Judgement::new(CauseKind::Migration)
                    .by(thread_culprit(&thread, None))
                    .because(remark)
            }
            CpuActivity::Thread(thread)
                // Kernel priorities: smaller is more urgent. An ordinary loop may be passed over by
                // any thread, for fairness.
                if thread.prio <= self.facts.prio || !self.is_real_time() =>
            {
                held_by(None).unwrap_or_else(|| match self.held_in_one_call(&thread, span) {
                    Some(number) => Judgement::new(CauseKind::KernelSection)
                        .by(thread_culprit(&thread, Some(number))),
                    None => self.let_run_on(&thread),
                })
            }
            CpuActivity::Thread(thread) => {
                held_by(Some(&thread)).unwrap_or_else(|| self.not_let_go(slice, &thread, span.cpu))
            }
            CpuActivity::Idle(state) => held_by(None).unwrap_or_else(|| {
                let remote = self.fired.is_some_and(|(_, cpu)| Some(cpu) != span.cpu);
                match (span.moved, remote) {
                    (true, _) => Judgement::new(CauseKind::Migration).because("its new CPU slept"),
                    (false, true) => self.slept(slice, state),
                    (false, false)
                        if idle_ns > IDLE_HOLD_NS
                            && self.may_sleep(state)
                            && self.fired.is_none() =>
                    {
                        self.slept(slice, state)
                    }
                    (false, false) => Judgement::new(CauseKind::WakeUpPath),
                }
            }),
            _ => Judgement::new(CauseKind::Unexplained),
        }
    }

    /// Whether an idle CPU was asleep: in a recorded state, or in a shallow one, which is not
    /// recorded.
    fn may_sleep(&self, state: Option<u32>) -> bool {
        state.is_some()
            || self.counters.deepest_idle_ns.is_some_and(|exit_ns| exit_ns <= SHALLOW_NS)
    }

    /// The scheduler chose another thread. If the wake-up of an ordinary loop found that thread in
    /// a system call, the remark names the call, because it would delay a real-time loop as well.
    fn let_run_on(&self, thread: &Thread) -> Judgement {
        let call = match self.mode_when_interrupted(thread) {
            Some(ThreadMode::Syscall(number)) if !self.is_real_time() => Some(syscall_name(number)),
            _ => None,
        };

        let remark = call.as_ref().map(|call| format!("the loop's wake-up found it in {call}"));
        let culprit = Culprit { woken_in: call, ..thread_culprit(thread, None) };
        Judgement::new(CauseKind::Preempted).by(culprit).with_remark(remark)
    }

    /// A thread of lower priority kept the CPU after the wake-up. A thread in user code is
    /// preempted at once, so that time is not attributed to it.
    pub(super) fn not_let_go(&self, slice: &Slice, thread: &Thread, cpu: Option<u32>) -> Judgement {
        let section =
            |call| Judgement::new(CauseKind::KernelSection).by(thread_culprit(thread, call));
        match self.mode(thread, cpu, slice.to) {
            ThreadMode::User if self.was_in_user_code(thread) => {
                Judgement::new(CauseKind::WakeUpPath)
            }
            ThreadMode::Syscall(number) => section(Some(number)),
            ThreadMode::User | ThreadMode::Kernel | ThreadMode::Unknown => section(None),
        }
    }

    fn while_stopped(&self, span: &LoopSpan) -> Judgement {
        let tid = self.facts.tid;
        let stops = self.events.iter().filter_map(|event| match event.what {
            KernelEvent::SignalGenerate { signal, target, name }
                if is_stop(signal) && event.at <= span.from =>
            {
                Some((event, signal, target, name))
            }
            _ => None,
        });
        // The last one to the loop, or else the last one: a signal to its process may name another
        // thread of it.
        let sender = stops.max_by_key(|(_, _, target, _)| *target == tid);
        let remark = sender.map(|(event, signal, target, name)| {
            let by = self
                .thread_named(event.tid)
                .map_or_else(|| format!("thread {}", event.tid), |by| by.to_string());
            let to = match target == tid {
                true => String::new(),
                false => format!(" to {} [{target}]", name.text()),
            };
            format!("signal {signal}{to} from {by}")
        });

        Judgement::new(CauseKind::Stopped).with_remark(remark)
    }

    /// Returns the cause if an interrupt, a timer's function or a softirq had the CPU.
    pub(super) fn interrupted(&self, slice: &Slice) -> Option<Judgement> {
        // The interrupt of the loop's timer is part of the wake-up itself.
        let own_interrupt =
            slice.interrupt.is_some_and(|entered| self.timers_interrupt() == Some(entered));
        match slice.doing {
            CpuActivity::Irq { irq, name } if !is_of_timer(&name) => {
                Some(Judgement::new(CauseKind::HardIrq).by(named(&format!("{name} (irq {irq})"))))
            }
            CpuActivity::TimerFunction { timer, .. } if self.is_the_loops(timer) => {
                Some(Judgement::new(CauseKind::TimerInterrupt))
            }
            CpuActivity::TimerFunction { function, .. } => Some(self.others_timer(function)),
            // A vector on x86; on arm64, arm and RISC-V the timer's interrupt has a number.
            CpuActivity::Vector(_) | CpuActivity::Irq { .. } if own_interrupt => {
                match self.between_others_timers(slice) {
                    Some(function) => Some(self.others_timer(function)),
                    None => Some(Judgement::new(CauseKind::TimerInterrupt)),
                }
            }
            // Without its number: it is each CPU's own, and no advice moves it.
            CpuActivity::Irq { name, .. } => {
                Some(Judgement::new(CauseKind::HardIrq).by(named(&name.text())))
            }
            CpuActivity::Vector(vector) => {
                Some(Judgement::new(CauseKind::HardIrq).by(named(vector.name())))
            }
            CpuActivity::Softirq(softirq) => {
                Some(Judgement::new(CauseKind::Softirq).by(named(softirq.name())))
            }
            CpuActivity::Idle(_) | CpuActivity::Thread(_) | CpuActivity::Unknown => None,
        }
    }

    /// Returns the function of another thread's timer that ran just before this slice of an
    /// interrupt, if another timer function follows: the time between the two belongs to those
    /// timers.
    fn between_others_timers(&self, slice: &Slice) -> Option<u64> {
        let cpu = self.fired.map(|(_, cpu)| cpu)?;
        let here = |event: &&&'w TraceEvent| event.cpu == cpu;
        let split = self.events.partition_point(|event| event.at <= slice.from);
        let (before, after) = self.events.split_at(split);
        let follows = after.iter().find(here).map(|event| event.what);
        let mut before = before.iter().rev().filter(here);
        let KernelEvent::TimerExpireExit { timer: ended } = before.next()?.what else {
            return None;
        };
        let Some(KernelEvent::TimerExpireEntry { .. }) = follows else { return None };
        let KernelEvent::TimerExpireEntry { timer, function, .. } = before.next()?.what else {
            return None;
        };
        let is_another = timer == ended && self.armed.is_some() && !self.is_the_loops(timer);

        is_another.then_some(function)
    }

    pub(super) fn is_the_loops(&self, timer: u64) -> bool {
        self.armed.is_some_and(|armed| armed.timer == timer)
    }

    fn others_timer(&self, function: u64) -> Judgement {
        Judgement::new(CauseKind::HardIrq).by(self.timer_culprit(function))
    }

    pub(super) fn timer_culprit(&self, function: u64) -> Culprit {
        let name =
            self.window.function(function).map_or_else(|| format!("{function:#x}"), str::to_owned);
        named(&format!("timer {name}"))
    }

    /// Returns the entry time of the interrupt of the loop's timer: the one in which its function
    /// began, or the one that woke the thread in which it did.
    pub(super) fn timers_interrupt(&self) -> Option<Instant> {
        let (fired, _) = self.fired?;
        self.interrupt_at(fired).or(self.timer_thread.as_ref().map(|timers| timers.interrupt))
    }

    /// Returns the entry time of the interrupt around `at` on the timer's CPU.
    pub(super) fn interrupt_at(&self, at: Instant) -> Option<Instant> {
        let cpu = self.fired.map(|(_, cpu)| cpu);
        self.timeline.between(cpu, at, at.plus_ns(1)).first()?.interrupt
    }

    pub(super) fn is_real_time(&self) -> bool {
        self.facts.prio < 100
    }

    pub(super) fn thread_named(&self, tid: u32) -> Option<Thread> {
        self.events.iter().find_map(|event| match event.what {
            KernelEvent::Switch { prev, .. } if prev.tid == tid => Some(prev),
            KernelEvent::Switch { next, .. } if next.tid == tid => Some(next),
            _ => None,
        })
    }
}

const fn is_stop(signal: i32) -> bool {
    matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU)
}
