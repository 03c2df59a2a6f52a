//! What a CPU was doing at every instant of a window, and what state the loop was in.

use std::collections::BTreeMap;

use onbeat_rt::Instant;

use super::event::{KernelEvent, Label, Softirq, Thread, TraceEvent, Vector};
use super::window::{CpuWindow, Window};

/// What a CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuActivity {
    /// Its idle thread runs, asleep or about to be; with the idle state's number when one was entered.
    Idle(Option<u32>),
    /// A thread runs, in user space or in the kernel.
    Thread(Thread),
    /// A device's interrupt handler runs.
    Irq {
        /// Line number.
        irq: u32,
        /// Its name.
        name: Label,
    },
    /// An interrupt that is no device's.
    Vector(Vector),
    /// A timer's function runs.
    TimerFunction {
        /// The timer.
        timer: u64,
        /// The function's address.
        function: u64,
    },
    /// A softirq runs.
    Softirq(Softirq),
    /// No event tells.
    Unknown,
}

/// A stretch between two events of a CPU: nothing is known to have begun or ended in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Its beginning.
    pub from: Instant,
    /// Its end.
    pub to: Instant,
    /// What the CPU did.
    pub doing: CpuActivity,
    /// When the outermost interrupt around it was entered.
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
    at: Instant,
    slices: Vec<Slice>,
}

impl SliceBuilder {
    fn until(&mut self, to: Instant) {
        if to > self.at {
            let doing = self.frames.last().map_or(self.base, |frame| frame.doing);
            let is_interrupt = |frame: &&Frame| matches!(frame.doing, CpuActivity::Vector(_) | CpuActivity::Irq { .. });
            let interrupt = self.frames.iter().find(is_interrupt).map(|frame| frame.entered);
            self.slices.push(Slice { from: self.at, to, doing, interrupt });
            self.at = to;
        }
    }

    fn enter(&mut self, doing: CpuActivity, entered: Instant) {
        self.frames.push(Frame { doing, entered });
    }

    /// Leaves the innermost frame that matches; those inside it have ended without a record.
    fn leave(&mut self, matches: impl Fn(&CpuActivity) -> bool) {
        if let Some(place) = self.frames.iter().rposition(|frame| matches(&frame.doing)) {
            self.frames.truncate(place);
        }
    }

    fn take(&mut self, event: &TraceEvent) {
        match event.what {
            KernelEvent::Switch { next, .. } => {
                // No thread is switched inside an interrupt; frames still open have lost their exit.
                self.frames.clear();
                self.base = if next.is_idle() { CpuActivity::Idle(None) } else { CpuActivity::Thread(next) };
            }
            KernelEvent::IdleEntry { state } if matches!(self.base, CpuActivity::Idle(_)) => {
                self.base = CpuActivity::Idle(Some(state))
            }
            KernelEvent::IrqEntry { irq, name } => self.enter(CpuActivity::Irq { irq, name }, event.at),
            KernelEvent::IrqExit { irq } => {
                self.leave(|doing| matches!(doing, CpuActivity::Irq { irq: open, .. } if *open == irq))
            }
            KernelEvent::VectorEntry(vector) => self.enter(CpuActivity::Vector(vector), event.at),
            KernelEvent::VectorExit(vector) => self.leave(|doing| *doing == CpuActivity::Vector(vector)),
            KernelEvent::SoftirqEntry(softirq) => self.enter(CpuActivity::Softirq(softirq), event.at),
            KernelEvent::SoftirqExit(softirq) => self.leave(|doing| *doing == CpuActivity::Softirq(softirq)),
            KernelEvent::TimerExpireEntry { timer, function, .. } => {
                // Functions of timers follow each other; the end of one is recorded by few.
                self.frames.pop_if(|frame| matches!(frame.doing, CpuActivity::TimerFunction { .. }));
                self.enter(CpuActivity::TimerFunction { timer, function }, event.at);
            }
            KernelEvent::TimerExpireExit { timer } => {
                self.leave(|doing| matches!(doing, CpuActivity::TimerFunction { timer: open, .. } if *open == timer));
            }
            _ => {}
        }
    }
}

/// The slices of one CPU, without gaps, from the window's beginning to its end.
#[must_use]
pub fn slices(cpu: &CpuWindow, window: &Window) -> Vec<Slice> {
    let base = match cpu.running_at_first() {
        Some(thread) if thread.is_idle() => CpuActivity::Idle(None),
        Some(thread) => CpuActivity::Thread(thread),
        None => CpuActivity::Unknown,
    };

    let mut walk = SliceBuilder { base, frames: Vec::new(), at: window.from, slices: Vec::new() };
    let mut lost = window.lost.iter().filter(|lost| lost.cpu == cpu.cpu).peekable();
    for event in &cpu.events {
        if let Some(gap) = lost.next_if(|gap| gap.to <= event.at) {
            walk.until(gap.from);
            walk.frames.clear();
            let known = std::mem::replace(&mut walk.base, CpuActivity::Unknown);
            walk.until(gap.to);
            walk.base = known;
        }

        walk.until(event.at);
        walk.take(event);
    }

    walk.until(window.to);
    walk.slices
}

/// What the loop's thread was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopState {
    /// It had a CPU.
    Running,
    /// It wanted one.
    Ready,
    /// It slept, waiting for its timer or an event.
    Asleep,
    /// It waited for a device or a lock (state D).
    Blocked,
    /// A signal had stopped it.
    Stopped,
    /// No event tells.
    Unknown,
}

/// A stretch of the loop's thread in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopSpan {
    /// Its beginning.
    pub from: Instant,
    /// Its end.
    pub to: Instant,
    /// The state.
    pub state: LoopState,
    /// The CPU it ran on, was queued on, or had last run on.
    pub cpu: Option<u32>,
    /// It got here by being moved from another CPU.
    pub moved: bool,
}

/// The states of thread `tid`, without gaps, from the window's beginning to its end.
#[must_use]
pub fn loop_spans(window: &Window, tid: u32, cpu: Option<u32>) -> Vec<LoopSpan> {
    let mut spans = Vec::new();
    let mut now = LoopSpan { from: window.from, to: window.from, state: LoopState::Unknown, cpu, moved: false };
    for event in window.in_order() {
        let Some(next) = after(&now, event, tid) else { continue };
        if now.state == LoopState::Unknown && spans.is_empty() {
            (now.state, now.cpu) = before(event, tid, cpu);
        }

        now.to = event.at;
        spans.push(now);
        now = LoopSpan { from: event.at, ..next };
    }

    now.to = window.to.max(now.from);
    spans.push(now);
    spans
}

/// The state that `event` leads to, when it is about the thread.
fn after(now: &LoopSpan, event: &TraceEvent, tid: u32) -> Option<LoopSpan> {
    let to = |state, cpu, moved| Some(LoopSpan { state, cpu: Some(cpu), moved, ..*now });
    match event.what {
        KernelEvent::Switch { next, .. } if next.tid == tid => to(LoopState::Running, event.cpu, now.moved),
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
            if thread.tid == tid && now.state != LoopState::Running && now.state != LoopState::Ready =>
        {
            to(LoopState::Ready, target_cpu, false)
        }
        KernelEvent::Migrate { thread, to_cpu, .. } if thread.tid == tid && now.state != LoopState::Unknown => {
            to(now.state, to_cpu, true)
        }
        _ => None,
    }
}

/// The state before the first event about the thread.
fn before(event: &TraceEvent, tid: u32, cpu: Option<u32>) -> (LoopState, Option<u32>) {
    match event.what {
        KernelEvent::Switch { next, .. } if next.tid == tid => (LoopState::Ready, Some(event.cpu)),
        KernelEvent::Switch { .. } => (LoopState::Running, Some(event.cpu)),
        KernelEvent::Waking { target_cpu, .. } => (LoopState::Asleep, cpu.or(Some(target_cpu))),
        _ => (LoopState::Unknown, cpu),
    }
}

/// All CPUs of a window at once.
#[derive(Clone, Debug)]
pub struct Timeline {
    cpus: BTreeMap<u32, Vec<Slice>>,
}

impl Timeline {
    /// The timeline of a window.
    #[must_use]
    pub fn of(window: &Window) -> Self {
        Self { cpus: window.cpus.iter().map(|cpu| (cpu.cpu, slices(cpu, window))).collect() }
    }

    /// The slices of `cpu` between `from` and `to`, cut at both ends; one of [`CpuActivity::Unknown`] for an unknown CPU.
    #[must_use]
    pub fn between(&self, cpu: Option<u32>, from: Instant, to: Instant) -> Vec<Slice> {
        let unknown = Slice { from, to, doing: CpuActivity::Unknown, interrupt: None };
        let Some(slices) = cpu.and_then(|cpu| self.cpus.get(&cpu)) else { return vec![unknown] };
        let first = slices.partition_point(|slice| slice.to <= from);
        let inside = slices[first..].iter().take_while(|slice| slice.from < to);
        let mut cut: Vec<Slice> =
            inside.map(|slice| Slice { from: slice.from.max(from), to: slice.to.min(to), ..*slice }).collect();
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
