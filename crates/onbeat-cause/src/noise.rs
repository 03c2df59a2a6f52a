//! Names what took a CPU from a thread that does nothing but read the clock.
//!
//! A gap between two readings is divided among the interrupts, softirqs and threads that the flight
//! recorder shows in it. What is left of it belongs to the thread itself by every event of this
//! kernel: as far as it is longer than the way in and out of the kernel, hardware, firmware or a
//! hypervisor had the CPU. The kernel's osnoise tracer counts in the same way
//! (Documentation/trace/osnoise-tracer.rst).
//!
//! Absent on purpose: a name without evidence. Where events are missing, the gap is "not recorded".

use std::fmt;

use onbeat_rt::Instant;
use serde::{Deserialize, Serialize};

use super::event::{Vector, is_of_timer};
use super::judge::ORDINARY_STEP_NS;
use super::timeline::{CpuActivity, Slice, Timeline};
use super::window::Window;

/// What took the CPU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", content = "name", rename_all = "snake_case")]
pub enum NoiseSource {
    /// An interrupt handler, with its number and name, or a vector of the CPU.
    Irq(String),
    /// A softirq.
    Softirq(String),
    /// A thread, by its name.
    Thread(String),
    /// The CPU ran nothing: the thread was throttled, stopped or moved.
    Idle,
    /// The hypervisor ran something else, by the kernel's counter of stolen time.
    Steal,
    /// Nothing of this kernel ran: hardware, firmware or a hypervisor.
    Hardware,
    /// The recorder was absent or lost events.
    NotRecorded,
}

impl NoiseSource {
    /// Returns the kind, as in osnoise's columns.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Irq(_) => "IRQ",
            Self::Softirq(_) => "softirq",
            Self::Thread(_) => "thread",
            Self::Idle => "idle",
            Self::Steal => "steal",
            Self::Hardware => "hardware",
            Self::NotRecorded => "unexplained",
        }
    }
}

impl fmt::Display for NoiseSource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Irq(name) | Self::Softirq(name) | Self::Thread(name) => out.write_str(name),
            Self::Idle => out.write_str("throttled, stopped or moved"),
            Self::Steal => out.write_str("stolen by the hypervisor"),
            Self::Hardware => out.write_str("hardware or hypervisor"),
            Self::NotRecorded => out.write_str("not recorded"),
        }
    }
}

/// Part of a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoisePart {
    /// What took the CPU.
    pub source: NoiseSource,
    /// For how long, in nanoseconds.
    pub ns: u64,
}

/// Divides the gap of thread `tid` on `cpu` between `from` and `to` among its sources, the longest
/// part first. The parts add up to the gap.
#[must_use]
pub fn parts_of_gap(
    (window, timeline): (&Window, &Timeline),
    (cpu, tid): (u32, u32),
    (from, to): (Instant, Instant),
) -> Vec<NoisePart> {
    let whole = to.ns_since(from);
    let is_lost =
        |lost: &&super::event::LostEvents| lost.cpu == cpu && lost.from < to && lost.to > from;
    if window.lost.iter().any(|lost| is_lost(&lost)) || window.cpu(cpu).is_none() {
        return vec![NoisePart { source: NoiseSource::NotRecorded, ns: whole }];
    }

    let mut parts: Vec<NoisePart> = Vec::new();
    let mut own_ns = 0;
    for slice in timeline.between(Some(cpu), from, to) {
        let ns = slice.to.ns_since(slice.from);
        let Some(source) = source_of(&slice, tid) else {
            own_ns += ns;
            continue;
        };
        match parts.iter_mut().find(|part| part.source == source) {
            Some(part) => part.ns += ns,
            None => parts.push(NoisePart { source, ns }),
        }
    }

    parts.sort_by_key(|part| std::cmp::Reverse(part.ns));
    // The way into the kernel and out of it passes before the first event and after the last.
    let ways_ns = parts.first().map_or(0, |_| own_ns.min(ORDINARY_STEP_NS));
    if let Some(longest) = parts.first_mut() {
        longest.ns += ways_ns;
    }
    if own_ns > ways_ns {
        parts.push(NoisePart { source: NoiseSource::Hardware, ns: own_ns - ways_ns });
    }
    parts.retain(|part| part.ns > 0);
    parts.sort_by_key(|part| std::cmp::Reverse(part.ns));
    parts
}

/// Returns what ran in a slice; `None` for the thread itself.
fn source_of(slice: &Slice, tid: u32) -> Option<NoiseSource> {
    Some(match slice.doing {
        CpuActivity::Thread(thread) if thread.tid == tid => return None,
        CpuActivity::Thread(thread) => {
            let name = thread.name.text();
            let unnamed = || format!("thread {}", thread.tid);
            NoiseSource::Thread(if name.is_empty() { unnamed() } else { name.into_owned() })
        }
        CpuActivity::Idle(_) => NoiseSource::Idle,
        CpuActivity::Irq { irq, name } if !is_of_timer(&name) => {
            NoiseSource::Irq(format!("{irq} {name}"))
        }
        CpuActivity::Vector(vector) => NoiseSource::Irq(vector.name().to_owned()),
        // A timer's function runs in the interrupt of the CPU's timer: one source for both.
        CpuActivity::Irq { .. } | CpuActivity::TimerFunction { .. } => {
            NoiseSource::Irq(Vector::LocalTimer.name().to_owned())
        }
        CpuActivity::Softirq(softirq) => NoiseSource::Softirq(softirq.name().to_owned()),
        CpuActivity::Unknown => NoiseSource::NotRecorded,
    })
}

#[cfg(test)]
mod tests {
    use super::super::event::{
        KernelEvent, Label, LostEvents, Softirq, Thread, ThreadState, TraceEvent,
    };
    use super::super::window::CpuWindow;
    use super::*;

    const POLLS: u32 = 7;
    const US: u64 = 1_000;

    fn us(us: u64) -> Instant {
        Instant::from_ns(us * US)
    }

    fn event(at_us: u64, what: KernelEvent) -> TraceEvent {
        TraceEvent { at: us(at_us), cpu: 1, tid: POLLS, what }
    }

    fn thread(tid: u32, name: &str) -> Thread {
        Thread { tid, prio: 120, name: Label::from(name) }
    }

    fn switch(at_us: u64, prev: Thread, next: Thread) -> TraceEvent {
        event(at_us, KernelEvent::Switch { prev, prev_state: ThreadState(0), next })
    }

    fn window(events: Vec<TraceEvent>) -> Window {
        let mut events = events;
        // A switch long after says who polled before the first event.
        events.push(switch(900_000, thread(POLLS, "onbeat-loop"), thread(3, "later")));
        Window {
            from: us(0),
            to: us(1_000_000),
            cpus: vec![CpuWindow { cpu: 1, events }],
            ..Window::default()
        }
    }

    fn named(window: &Window, from_us: u64, to_us: u64) -> Vec<(String, u64)> {
        let timeline = Timeline::new(window);
        let parts = parts_of_gap((window, &timeline), (1, POLLS), (us(from_us), us(to_us)));
        let sum: u64 = parts.iter().map(|part| part.ns).sum();
        assert_eq!(sum, (to_us - from_us) * US, "parts add up to the gap: {parts:?}");
        parts.into_iter().map(|part| (part.source.to_string(), part.ns / US)).collect()
    }

    fn one(name: &str, us: u64) -> Vec<(String, u64)> {
        vec![(name.to_owned(), us)]
    }

    #[test]
    fn an_interrupt_has_its_ways_in_and_out() {
        let vector = Vector::LocalTimer;
        let window = window(vec![
            event(102, KernelEvent::VectorEntry(vector)),
            event(105, KernelEvent::VectorExit(vector)),
        ]);
        assert_eq!(named(&window, 100, 107), one("local_timer", 7));
    }

    #[test]
    fn a_timers_interrupt_with_a_number_is_one_source_with_its_functions() {
        let timer_ran = KernelEvent::TimerExpireEntry { timer: 1, function: 2, now: us(103) };
        let window = window(vec![
            event(102, KernelEvent::IrqEntry { irq: 11, name: Label::from("arch_timer") }),
            event(103, timer_ran),
            event(105, KernelEvent::IrqExit { irq: 11 }),
        ]);
        assert_eq!(named(&window, 100, 107), one("local_timer", 7));
    }

    #[test]
    fn a_device_s_interrupt_has_its_number_and_a_softirq_its_name() {
        let name = Label::from("eth0-rx");
        let window = window(vec![
            event(101, KernelEvent::IrqEntry { irq: 36, name }),
            event(104, KernelEvent::IrqExit { irq: 36 }),
            event(104, KernelEvent::SoftirqEntry(Softirq(3))),
            event(130, KernelEvent::SoftirqExit(Softirq(3))),
        ]);
        let expected = vec![("NET_RX".to_owned(), 28), ("36 eth0-rx".to_owned(), 3)];
        assert_eq!(named(&window, 100, 131), expected);
    }

    #[test]
    fn a_thread_that_takes_the_cpu_is_named() {
        let (polls, hog) = (thread(POLLS, "onbeat-loop"), thread(99, "planted"));
        let window = window(vec![switch(101, polls, hog), switch(301, hog, polls)]);
        assert_eq!(named(&window, 100, 302), one("planted", 202));
    }

    #[test]
    fn what_no_event_explains_is_hardware_or_hypervisor() {
        assert_eq!(named(&window(vec![]), 100, 140), one("hardware or hypervisor", 40));
    }

    #[test]
    fn a_short_interrupt_does_not_hide_a_long_stop() {
        let vector = Vector::LocalTimer;
        let window = window(vec![
            event(102, KernelEvent::VectorEntry(vector)),
            event(105, KernelEvent::VectorExit(vector)),
        ]);
        let way = ORDINARY_STEP_NS / US;
        let expected = vec![
            ("hardware or hypervisor".to_owned(), 897 - way),
            ("local_timer".to_owned(), 3 + way),
        ];
        assert_eq!(named(&window, 100, 1_000), expected);
    }

    #[test]
    fn an_idle_cpu_is_no_hardware_noise() {
        let (polls, idle) = (thread(POLLS, "onbeat-loop"), thread(0, "swapper"));
        let window = window(vec![switch(101, polls, idle), switch(50_101, idle, polls)]);
        assert_eq!(named(&window, 100, 50_102), one("throttled, stopped or moved", 50_002));
    }

    #[test]
    fn lost_events_and_an_absent_recorder_name_nothing() {
        let mut lossy = window(vec![]);
        lossy.lost.push(LostEvents { cpu: 1, from: us(130), to: us(135), count: None });
        assert_eq!(named(&lossy, 100, 140), one("not recorded", 40));
        assert_eq!(named(&lossy, 200, 240), one("hardware or hypervisor", 40));
        assert_eq!(named(&Window::default(), 100, 140), one("not recorded", 40));
    }
}
