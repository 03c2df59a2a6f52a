//! Activity of each CPU and state of the loop at every instant of a window.

use std::collections::BTreeMap;

use onbeat_rt::Instant;

use super::event::{KernelEvent, Label, Softirq, Thread, TraceEvent, Vector};
use super::window::{CpuWindow, Window};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuActivity {
    /// The idle thread runs. Has the number of the idle state if one was entered.
    Idle(Option<u32>),
    /// A thread runs, in user space or in the kernel.
    Thread(Thread),
    /// A device's interrupt handler runs.
    Irq {
        /// Line number.
        irq: u32,
        name: Label,
    },
    /// An interrupt that does not belong to a device.
    Vector(Vector),
    /// A timer's function runs.
    TimerFunction {
        /// Address of the timer.
        timer: u64,
        /// Address of the function.
        function: u64,
    },
    /// A softirq runs.
    Softirq(Softirq),
    /// Unknown: no event shows it.
    Unknown,
}

/// The time between two events of a CPU, in which no activity is known to begin or end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Start.
    pub from: Instant,
    /// End.
    pub to: Instant,
    pub doing: CpuActivity,
    /// Entry time of the outermost interrupt around it.
    pub interrupt: Option<Instant>,
}

#[derive(Clone, Copy)]
struct Frame {
    doing: CpuActivity,
    entered: Instant,
}

struct SliceBuilder {
    base: CpuActivity,
    frames: Vec<Frame>,
    /// Softirqs that were under way in threads that have left the CPU: with PREEMPT_RT they run in
    /// threads, which can be preempted.
    left_in_softirq: BTreeMap<u32, Vec<Frame>>,
    at: Instant,
    slices: Vec<Slice>,
}

impl SliceBuilder {
    fn until(&mut self, to: Instant) {
        if to > self.at {
            let doing = self.frames.last().map_or(self.base, |frame| frame.doing);
            let is_interrupt = |frame: &&Frame| {
                matches!(frame.doing, CpuActivity::Vector(_) | CpuActivity::Irq { .. })
            };
            // The outermost one: a softirq at the end of an interrupt still belongs to it.
            let interrupt = self.frames.iter().find(is_interrupt).map(|frame| frame.entered);
            self.slices.push(Slice { from: self.at, to, doing, interrupt });
            self.at = to;
        }
    }

    fn enter(&mut self, doing: CpuActivity, entered: Instant) {
        self.frames.push(Frame { doing, entered });
    }

    /// Leaves the innermost matching frame; frames inside it have ended without a record.
    fn leave(&mut self, matches: impl Fn(&CpuActivity) -> bool) {
        // Whatever was entered inside has ended with it, also where its own exit event was lost.
        if let Some(place) = self.frames.iter().rposition(|frame| matches(&frame.doing)) {
            self.frames.truncate(place);
        }
    }

    /// Keeps the softirq that `tid` is in, with what runs inside it, until that thread runs again.
    fn leave_in_softirq(&mut self, tid: u32) {
        let is_softirq = |frame: &Frame| matches!(frame.doing, CpuActivity::Softirq(_));
        let Some(first) = self.frames.iter().position(is_softirq) else { return };
        let inside = self.frames.split_off(first);
        // An interrupt around it cannot be left by a switch: its exit event was lost.
        if tid != 0 && self.frames.is_empty() {
            self.left_in_softirq.insert(tid, inside);
        }
    }

    fn take(&mut self, event: &TraceEvent) {
        match event.what {
            KernelEvent::Switch { prev, next, .. } => {
                // With PREEMPT_RT softirqs run in threads and are preempted inside of one; they go
                // on when their thread runs again.
                self.leave_in_softirq(prev.tid);
                // Threads are not switched inside an interrupt; frames that are still open have
                // lost their exit event.
                self.frames = self.left_in_softirq.remove(&next.tid).unwrap_or_default();
                self.base = if next.is_idle() {
                    CpuActivity::Idle(None)
                } else {
                    CpuActivity::Thread(next)
                };
            }
            KernelEvent::IdleEntry { state } if matches!(self.base, CpuActivity::Idle(_)) => {
                self.base = CpuActivity::Idle(Some(state));
            }
            KernelEvent::IrqEntry { irq, name } => {
                self.enter(CpuActivity::Irq { irq, name }, event.at);
            }
            KernelEvent::IrqExit { irq } => {
                self.leave(
                    |doing| matches!(doing, CpuActivity::Irq { irq: open, .. } if *open == irq),
                );
            }
            KernelEvent::VectorEntry(vector) => self.enter(CpuActivity::Vector(vector), event.at),
            KernelEvent::VectorExit(vector) => {
                self.leave(|doing| *doing == CpuActivity::Vector(vector));
            }
            KernelEvent::SoftirqEntry(softirq) => {
                self.enter(CpuActivity::Softirq(softirq), event.at);
            }
            KernelEvent::SoftirqExit(softirq) => {
                self.leave(|doing| *doing == CpuActivity::Softirq(softirq));
            }
            KernelEvent::TimerExpireEntry { timer, function, .. } => {
                // Timer functions run one after the other; the end of a function is rarely
                // recorded.
                self.frames
                    .pop_if(|frame| matches!(frame.doing, CpuActivity::TimerFunction { .. }));
                self.enter(CpuActivity::TimerFunction { timer, function }, event.at);
            }
            KernelEvent::TimerExpireExit { timer } => {
                self.leave(|doing| matches!(doing, CpuActivity::TimerFunction { timer: open, .. } if *open == timer));
            }
            _ => {}
        }
    }
}

/// Returns the slices of one CPU from the window's start to its end, without gaps.
#[must_use]
pub fn slices(cpu: &CpuWindow, window: &Window) -> Vec<Slice> {
    let base = match cpu.running_at_first() {
        Some(thread) if thread.is_idle() => CpuActivity::Idle(None),
        Some(thread) => CpuActivity::Thread(thread),
        None => CpuActivity::Unknown,
    };

    let mut walk = SliceBuilder {
        base,
        frames: Vec::new(),
        left_in_softirq: BTreeMap::new(),
        at: window.from,
        slices: Vec::new(),
    };
    let mut lost = window.lost.iter().filter(|lost| lost.cpu == cpu.cpu).peekable();
    for event in &cpu.events {
        if let Some(gap) = lost.next_if(|gap| gap.to <= event.at) {
            walk.until(gap.from);
            // In a gap anything may have happened: frames that were open before it say nothing
            // about what is open after.
            walk.frames.clear();
            walk.left_in_softirq.clear();
            let known = std::mem::replace(&mut walk.base, CpuActivity::Unknown);
            walk.until(gap.to);
            // The first event behind the gap may not be a switch. What ran before it is the best
            // that is known, and the next switch corrects it.
            walk.base = known;
        }

        walk.until(event.at);
        walk.take(event);
    }

    walk.until(window.to);
    walk.slices
}

/// State of the loop's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopState {
    /// It ran on a CPU.
    Running,
    /// It was runnable and waited for a CPU.
    Ready,
    /// It slept, waiting for its timer or an event.
    Asleep,
    /// It waited for a device or a lock (state D).
    Blocked,
    /// A signal had stopped it.
    Stopped,
    /// Unknown: no event shows it.
    Unknown,
}

/// A span of time in which the loop's thread was in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopSpan {
    /// Start.
    pub from: Instant,
    /// End.
    pub to: Instant,
    pub state: LoopState,
    /// The CPU that it ran on, was queued on, or had last run on.
    pub cpu: Option<u32>,
    /// It was migrated here from another CPU.
    pub moved: bool,
}

/// A wake-up that reaches a thread within this time before it leaves its CPU, in nanoseconds, may
/// find it on its way to sleep.
// A wake-up may come while the thread is still on its way to sleep: it has set its state and not
// yet left the CPU.
const ON_ITS_WAY_NS: u64 = 100_000;

/// Returns the states of thread `tid` from the window's start to its end, without gaps.
///
/// Another CPU may wake a thread while it is on its way to sleep: the wake-up is recorded before the
/// thread leaves its CPU as a sleeping one, and none after it (`kernel/sched/core.c`,
/// `try_to_wake_up`, `p->on_cpu`). Such a thread is runnable from the moment it leaves.
#[must_use]
pub fn loop_spans(window: &Window, tid: u32, cpu: Option<u32>) -> Vec<LoopSpan> {
    let mut spans = Vec::new();
    let mut now = LoopSpan {
        from: window.from,
        to: window.from,
        state: LoopState::Unknown,
        cpu,
        moved: false,
    };
    let mut woken = None;
    for event in window.in_order() {
        // Kept, since the switch that follows says "sleeping" and no second wake-up will come.
        if is_waking(event, tid) && now.state == LoopState::Running {
            woken = Some(event.at);
        }
        let Some(next) = after(&now, event, tid) else { continue };
        // What the first event presupposes: who is switched in was ready, who is woken was asleep.
        if now.state == LoopState::Unknown && spans.is_empty() {
            (now.state, now.cpu) = before(event, tid, cpu);
        }

        let slept = matches!(now.state, LoopState::Asleep | LoopState::Blocked);
        if slept && next.state == LoopState::Running {
            let is_awake = woken.is_some_and(|at| now.from.ns_since(at) <= ON_ITS_WAY_NS);
            now.state = if is_awake { LoopState::Ready } else { now.state };
        }
        woken = woken.filter(|_| !slept);
        now.to = event.at;
        spans.push(now);
        now = LoopSpan { from: event.at, ..next };
    }

    now.to = window.to.max(now.from);
    spans.push(now);
    spans
}

fn is_waking(event: &TraceEvent, tid: u32) -> bool {
    matches!(event.what, KernelEvent::Waking { thread, .. } if thread.tid == tid)
}

/// Returns the state after `event`; `None` if it does not concern the thread.
fn after(now: &LoopSpan, event: &TraceEvent, tid: u32) -> Option<LoopSpan> {
    let to = |state, cpu, moved| Some(LoopSpan { state, cpu: Some(cpu), moved, ..*now });
    match event.what {
        KernelEvent::Switch { next, .. } if next.tid == tid => {
            to(LoopState::Running, event.cpu, now.moved)
        }
        KernelEvent::Switch { prev, prev_state, .. } if prev.tid == tid => {
            let state = if prev_state.is_runnable() {
                LoopState::Ready
            } else if prev_state.is_stopped() {
                LoopState::Stopped
            } else if prev_state.is_uninterruptible() {
                LoopState::Blocked
            } else {
                LoopState::Asleep
            };
            to(state, event.cpu, false)
        }
        KernelEvent::Waking { thread, target_cpu }
            if thread.tid == tid
                && now.state != LoopState::Running
                // sched_waking of a thread that is ready already changes nothing.
                && now.state != LoopState::Ready =>
        {
            to(LoopState::Ready, target_cpu, false)
        }
        KernelEvent::Migrate { thread, to_cpu, .. }
            if thread.tid == tid && now.state != LoopState::Unknown =>
        {
            to(now.state, to_cpu, true)
        }
        _ => None,
    }
}

/// Returns state and CPU before the first event that concerns the thread.
fn before(event: &TraceEvent, tid: u32, cpu: Option<u32>) -> (LoopState, Option<u32>) {
    match event.what {
        KernelEvent::Switch { next, .. } if next.tid == tid => (LoopState::Ready, Some(event.cpu)),
        KernelEvent::Switch { .. } => (LoopState::Running, Some(event.cpu)),
        KernelEvent::Waking { target_cpu, .. } => (LoopState::Asleep, cpu.or(Some(target_cpu))),
        _ => (LoopState::Unknown, cpu),
    }
}

/// The slices of all CPUs of a window.
#[derive(Clone, Debug)]
pub struct Timeline {
    cpus: BTreeMap<u32, Vec<Slice>>,
}

impl Timeline {
    /// Returns the timeline of a window.
    #[must_use]
    pub fn new(window: &Window) -> Self {
        Self { cpus: window.cpus.iter().map(|cpu| (cpu.cpu, slices(cpu, window))).collect() }
    }

    /// Returns the slices of `cpu` between `from` and `to`, cut at both ends; for an unknown CPU,
    /// one slice of [`CpuActivity::Unknown`].
    #[must_use]
    pub fn between(&self, cpu: Option<u32>, from: Instant, to: Instant) -> Vec<Slice> {
        let unknown = Slice { from, to, doing: CpuActivity::Unknown, interrupt: None };
        let Some(slices) = cpu.and_then(|cpu| self.cpus.get(&cpu)) else { return vec![unknown] };
        // By bisection: each part of a spike asks again.
        let first = slices.partition_point(|slice| slice.to <= from);
        let inside = slices[first..].iter().take_while(|slice| slice.from < to);
        let mut cut: Vec<Slice> = inside
            .map(|slice| Slice { from: slice.from.max(from), to: slice.to.min(to), ..*slice })
            .collect();
        // Beyond the window nothing is known.
        let known_from = cut.first().map_or(to, |slice| slice.from);
        let known_to = cut.last().map_or(to, |slice| slice.to);

        if from < known_from {
            cut.insert(0, Slice { to: known_from, ..unknown });
        }
        if known_to < to {
            cut.push(Slice { from: known_to, ..unknown });
        }

        cut
    }
}
