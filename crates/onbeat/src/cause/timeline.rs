//! What a CPU was doing at every instant of a window, and what state the loop was in.

use std::collections::BTreeMap;

use onbeat_rt::Instant;

use super::event::{Event, Label, Softirq, Thread, Vector, What};
use super::window::{CpuWindow, Window};

/// What a CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
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
    pub doing: Doing,
    /// When the outermost interrupt around it was entered.
    pub interrupt: Option<Instant>,
}

#[derive(Clone, Copy)]
struct Frame {
    doing: Doing,
    entered: Instant,
}

struct Walk {
    base: Doing,
    frames: Vec<Frame>,
    at: Instant,
    slices: Vec<Slice>,
}

impl Walk {
    fn until(&mut self, to: Instant) {
        if to > self.at {
            let doing = self.frames.last().map_or(self.base, |frame| frame.doing);
            let is_interrupt = |frame: &&Frame| matches!(frame.doing, Doing::Vector(_) | Doing::Irq { .. });
            let interrupt = self.frames.iter().find(is_interrupt).map(|frame| frame.entered);
            self.slices.push(Slice { from: self.at, to, doing, interrupt });
            self.at = to;
        }
    }

    fn enter(&mut self, doing: Doing, entered: Instant) {
        self.frames.push(Frame { doing, entered });
    }

    /// Leaves the innermost frame that matches; those inside it have ended without a record.
    fn leave(&mut self, matches: impl Fn(&Doing) -> bool) {
        if let Some(place) = self.frames.iter().rposition(|frame| matches(&frame.doing)) {
            self.frames.truncate(place);
        }
    }

    fn take(&mut self, event: &Event) {
        match event.what {
            What::Switch { next, .. } => {
                // No thread is switched inside an interrupt; frames still open have lost their exit.
                self.frames.clear();
                self.base = if next.is_idle() { Doing::Idle(None) } else { Doing::Thread(next) };
            }
            What::IdleEntry { state } if matches!(self.base, Doing::Idle(_)) => self.base = Doing::Idle(Some(state)),
            What::IrqEntry { irq, name } => self.enter(Doing::Irq { irq, name }, event.at),
            What::IrqExit { irq } => self.leave(|doing| matches!(doing, Doing::Irq { irq: open, .. } if *open == irq)),
            What::VectorEntry(vector) => self.enter(Doing::Vector(vector), event.at),
            What::VectorExit(vector) => self.leave(|doing| *doing == Doing::Vector(vector)),
            What::SoftirqEntry(softirq) => self.enter(Doing::Softirq(softirq), event.at),
            What::SoftirqExit(softirq) => self.leave(|doing| *doing == Doing::Softirq(softirq)),
            What::TimerExpireEntry { timer, function, .. } => {
                // Functions of timers follow each other; the end of one is recorded by few.
                self.frames.pop_if(|frame| matches!(frame.doing, Doing::TimerFunction { .. }));
                self.enter(Doing::TimerFunction { timer, function }, event.at);
            }
            What::TimerExpireExit { timer } => {
                self.leave(|doing| matches!(doing, Doing::TimerFunction { timer: open, .. } if *open == timer));
            }
            _ => {}
        }
    }
}

/// The slices of one CPU, without gaps, from the window's beginning to its end.
#[must_use]
pub fn slices(cpu: &CpuWindow, window: &Window) -> Vec<Slice> {
    let base = match cpu.running_at_first() {
        Some(thread) if thread.is_idle() => Doing::Idle(None),
        Some(thread) => Doing::Thread(thread),
        None => Doing::Unknown,
    };

    let mut walk = Walk { base, frames: Vec::new(), at: window.from, slices: Vec::new() };
    let mut lost = window.lost.iter().filter(|lost| lost.cpu == cpu.cpu).peekable();
    for event in &cpu.events {
        if let Some(gap) = lost.next_if(|gap| gap.to <= event.at) {
            walk.until(gap.from);
            walk.frames.clear();
            let known = std::mem::replace(&mut walk.base, Doing::Unknown);
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
pub enum Own {
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
pub struct OwnSpan {
    /// Its beginning.
    pub from: Instant,
    /// Its end.
    pub to: Instant,
    /// The state.
    pub own: Own,
    /// The CPU it ran on, was queued on, or had last run on.
    pub cpu: Option<u32>,
    /// It got here by being moved from another CPU.
    pub moved: bool,
}

/// The states of thread `tid`, without gaps, from the window's beginning to its end.
#[must_use]
pub fn own_spans(window: &Window, tid: u32, cpu: Option<u32>) -> Vec<OwnSpan> {
    let mut spans = Vec::new();
    let mut now = OwnSpan { from: window.from, to: window.from, own: Own::Unknown, cpu, moved: false };
    for event in window.in_order() {
        let Some(next) = after(&now, event, tid) else { continue };
        if now.own == Own::Unknown && spans.is_empty() {
            (now.own, now.cpu) = before(event, tid, cpu);
        }

        now.to = event.at;
        spans.push(now);
        now = OwnSpan { from: event.at, ..next };
    }

    now.to = window.to.max(now.from);
    spans.push(now);
    spans
}

/// The state that `event` leads to, when it is about the thread.
fn after(now: &OwnSpan, event: &Event, tid: u32) -> Option<OwnSpan> {
    let to = |own, cpu, moved| Some(OwnSpan { own, cpu: Some(cpu), moved, ..*now });
    match event.what {
        What::Switch { next, .. } if next.tid == tid => to(Own::Running, event.cpu, now.moved),
        What::Switch { prev, prev_state, .. } if prev.tid == tid => {
            let own = if prev_state.is_runnable() {
                Own::Ready
            } else if prev_state.is_stopped() {
                Own::Stopped
            } else if prev_state.is_uninterruptible() {
                Own::Blocked
            } else {
                Own::Asleep
            };
            to(own, event.cpu, false)
        }
        What::Waking { thread, target_cpu }
            if thread.tid == tid && now.own != Own::Running && now.own != Own::Ready =>
        {
            to(Own::Ready, target_cpu, false)
        }
        What::Migrate { thread, to_cpu, .. } if thread.tid == tid && now.own != Own::Unknown => {
            to(now.own, to_cpu, true)
        }
        _ => None,
    }
}

/// The state before the first event about the thread.
fn before(event: &Event, tid: u32, cpu: Option<u32>) -> (Own, Option<u32>) {
    match event.what {
        What::Switch { next, .. } if next.tid == tid => (Own::Ready, Some(event.cpu)),
        What::Switch { .. } => (Own::Running, Some(event.cpu)),
        What::Waking { target_cpu, .. } => (Own::Asleep, cpu.or(Some(target_cpu))),
        _ => (Own::Unknown, cpu),
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

    /// The slices of `cpu` between `from` and `to`, cut at both ends; one of [`Doing::Unknown`] for an unknown CPU.
    #[must_use]
    pub fn between(&self, cpu: Option<u32>, from: Instant, to: Instant) -> Vec<Slice> {
        let unknown = Slice { from, to, doing: Doing::Unknown, interrupt: None };
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
