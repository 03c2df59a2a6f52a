//! Selects the events of a spike for the run file: those nearest to the spike, within a fixed
//! number of bytes.
//!
//! The distance is measured to the nearer of the programmed expiry and the first instruction; the
//! loop's CPU has precedence. Omitted events are recorded as gaps with a count, so that a reader
//! can distinguish a gap from inactivity.

use onbeat_rt::Instant;
use serde::{Deserialize, Serialize};

use super::event::{KernelEvent, LostEvents, TraceEvent};
use super::facts::SpikeFacts;
use super::ftrace::pack;
use super::window::{CpuWindow, Window};

/// Events are kept from this time before the programmed expiry, in nanoseconds.
pub const BEFORE_NS: u64 = 4_000_000;
/// Events are kept until this time after the end of the cycle, in nanoseconds.
pub const AFTER_NS: u64 = 1_000_000;
/// Maximum number of events of the loop's CPU, and of all other CPUs together.
const EVENTS: (usize, usize) = (1200, 400);
/// With fewer events of the loop's CPU than this, other CPUs are omitted.
const LEAST_EVENTS: usize = 32;
/// Maximum size of a packed window, in bytes.
pub const PACKED_MOST: usize = 12 * 1024;

/// A window as stored in a run file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptWindow {
    /// Facts of the cycle; the CPU is filled in if the events show it.
    pub facts: SpikeFacts,
    /// Number of kept events.
    pub events: u64,
    /// Number of omitted events.
    pub left_out: u64,
    /// The events, packed by [`pack`].
    pub packed: String,
}

/// Cuts a window to the size limit and packs it; `None` if it has no event of the loop's CPU.
#[must_use]
pub fn keep(window: &Window, facts: &SpikeFacts) -> Option<KeptWindow> {
    let facts = SpikeFacts { cpu: facts.cpu.or_else(|| cpu_of_loop(window, facts)), ..*facts };
    let span = facts.span();
    let around = window.between(span.start.minus_ns(BEFORE_NS), span.end.plus_ns(AFTER_NS));
    let (mut own, mut others) = EVENTS;
    around.cpus.iter().find(|cpu| Some(cpu.cpu) == facts.cpu && !cpu.events.is_empty())?;
    let all: usize = around.cpus.iter().map(|cpu| cpu.events.len()).sum();

    loop {
        let cut = nearest(&around, &facts, own, others);
        let packed = pack(&cut);
        if packed.len() <= PACKED_MOST || own < LEAST_EVENTS {
            let events = cut.cpus.iter().map(|cpu| cpu.events.len()).sum::<usize>();
            return Some(KeptWindow {
                facts,
                events: events as u64,
                left_out: (all - events) as u64,
                packed,
            });
        }

        // Tried until it fits: how far events compress is not known before. The loop's own CPU
        // gives up last.
        (own, others) = (own * 2 / 3, if own < LEAST_EVENTS * 2 { 0 } else { others / 2 });
    }
}

/// Returns the CPU on which the loop last ran before its cycle ended.
fn cpu_of_loop(window: &Window, facts: &SpikeFacts) -> Option<u32> {
    let events = window.in_order().into_iter().take_while(|event| event.at <= facts.end);
    // A loop that is not bound: the CPU on which it ran last before the cycle's end.
    let runs = |event: &&TraceEvent| matches!(event.what, KernelEvent::Switch { next, .. } if next.tid == facts.tid);
    events.filter(runs).last().map(|event| event.cpu)
}

/// Returns at most `own` events of the loop's CPU and `others` of the other CPUs. CPUs without
/// events are omitted.
fn nearest(window: &Window, facts: &SpikeFacts, own: usize, others: usize) -> Window {
    let is_own = |cpu: u32| Some(cpu) == facts.cpu;
    let within = |own_ones: bool, most: usize| {
        let of_these = window
            .cpus
            .iter()
            .filter(|cpu| is_own(cpu.cpu) == own_ones)
            .flat_map(|cpu| &cpu.events);
        let mut distances: Vec<u64> = of_these.map(|event| distance_ns(event.at, facts)).collect();
        distances.sort_unstable();
        // Nearest to the expiry and to the start, on either side: what happened in between decides
        // the cause, and the ends show how it began.
        distances.get(most).copied().unwrap_or(u64::MAX)
    };

    let own_within = within(true, own);
    let others_within = within(false, others);
    let mut kept = Window { cpus: Vec::new(), ..window.clone() };
    for cpu in &window.cpus {
        let within_ns = if is_own(cpu.cpu) { own_within } else { others_within };
        let stays = |event: &TraceEvent| distance_ns(event.at, facts) < within_ns;
        let events: Vec<TraceEvent> =
            cpu.events.iter().filter(|event| stays(event)).copied().collect();
        if !events.is_empty() {
            // What is left out here is written as lost, with its number: a reader of the file must
            // not take silence for idleness.
            kept.lost.extend(gaps(cpu, window, stays));
            kept.cpus.push(CpuWindow { cpu: cpu.cpu, events });
        }
    }

    let left = |lost: &LostEvents| kept.cpus.iter().any(|cpu| cpu.cpu == lost.cpu);
    kept.lost = kept.lost.iter().filter(|lost| left(lost)).copied().collect();
    kept.lost.sort_by_key(|lost| (lost.cpu, lost.from));
    kept
}

fn distance_ns(at: Instant, facts: &SpikeFacts) -> u64 {
    let from = |end: Instant| at.max(end).ns_since(at.min(end));
    from(facts.expiry).min(from(facts.start))
}

/// Returns the gaps of a CPU: time ranges whose events are omitted.
fn gaps(cpu: &CpuWindow, window: &Window, stays: impl Fn(&TraceEvent) -> bool) -> Vec<LostEvents> {
    let mut gaps: Vec<LostEvents> = Vec::new();
    let mut last_kept = window.from;
    let mut open = false;
    for event in &cpu.events {
        if stays(event) {
            if let (true, Some(gap)) = (open, gaps.last_mut()) {
                gap.to = event.at;
            }
            (last_kept, open) = (event.at, false);
        } else if let (true, Some(gap)) = (open, gaps.last_mut()) {
            gap.count = gap.count.map(|count| count + 1);
        } else {
            gaps.push(LostEvents { cpu: cpu.cpu, from: last_kept, to: window.to, count: Some(1) });
            open = true;
        }
    }

    gaps
}

#[cfg(test)]
mod tests {
    use super::super::event::{Label, Thread, Vector};
    use super::super::ftrace::unpack;
    use super::*;

    const LOOP: u32 = 9;

    fn at(us: u64) -> Instant {
        Instant::from_ns(us * 1000)
    }

    fn facts() -> SpikeFacts {
        SpikeFacts {
            expiry: at(10_000),
            start: at(13_000),
            end: at(13_001),
            tid: LOOP,
            ..SpikeFacts::default()
        }
    }

    /// `per_ms` interrupts on each of `cpus` CPUs over 20 ms; the loop comes to CPU 1.
    fn busy(per_ms: u64, cpus: u32) -> Window {
        let ticks = |cpu| (0..20 * per_ms).map(move |i| (cpu, i * 1000 / per_ms));
        let tick = |(cpu, us): (u32, u64)| {
            let what = if us % 2 == 0 {
                KernelEvent::VectorEntry(Vector::IrqWork)
            } else {
                KernelEvent::VectorExit(Vector::IrqWork)
            };
            TraceEvent { at: at(us), cpu, tid: us as u32 % 5000, what }
        };

        let mut cpus: Vec<CpuWindow> = (0..cpus)
            .map(|cpu| CpuWindow { cpu, events: ticks(cpu).map(tick).collect() })
            .collect();
        let next = Thread { tid: LOOP, prio: 9, name: Label::from("onbeat-loop") };
        let what =
            KernelEvent::Switch { prev: Thread::default(), prev_state: Default::default(), next };
        let place = cpus[1].events.partition_point(|event| event.at < at(12_998));
        cpus[1].events.insert(place, TraceEvent { at: at(12_998), cpu: 1, tid: 0, what });
        Window { from: at(0), to: at(20_000), cpus, ..Window::default() }
    }

    #[test]
    fn a_window_that_fits_keeps_every_event_around_the_spike() {
        let window = busy(20, 2);
        let kept = keep(&window, &facts()).expect("the CPU has events");
        assert_eq!((kept.facts.cpu, kept.left_out), (Some(1), 0));
        let around = window.between(at(6_000), at(14_001));
        assert_eq!(unpack(&kept.packed).expect("it was just packed"), around);
        assert_eq!(kept.events, around.in_order().len() as u64);
    }

    #[test]
    fn a_storm_is_cut_to_the_events_nearest_the_spike_and_the_gaps_are_recorded() {
        let kept = keep(&busy(1000, 4), &facts()).expect("the CPU has events");
        assert!(kept.packed.len() <= PACKED_MOST, "{} bytes", kept.packed.len());
        let window = unpack(&kept.packed).expect("it was just packed");
        let own = &window.cpu(1).expect("the loop's own CPU").events;
        for end in [10_000, 13_000] {
            assert!(
                own.iter().any(|event| event.at == at(end - 1))
                    && own.iter().any(|event| event.at == at(end + 1))
            );
        }

        let farthest = own.iter().map(|event| distance_ns(event.at, &facts())).max();
        let omitted: u64 =
            window.lost.iter().filter(|lost| lost.cpu == 1).filter_map(|lost| lost.count).sum();
        assert_eq!(
            omitted + own.len() as u64,
            busy(1000, 4)
                .between(at(6_000), at(14_001))
                .cpu(1)
                .map_or(0, |cpu| cpu.events.len() as u64)
        );
        for lost in window.lost.iter().filter(|lost| lost.cpu == 1) {
            assert!(own.iter().all(|event| event.at <= lost.from || event.at >= lost.to));
        }

        assert!(
            farthest < Some(1_500_000),
            "the middle of the spike is farther from both its ends"
        );
        assert_eq!(
            kept.left_out + kept.events,
            busy(1000, 4).between(at(6_000), at(14_001)).in_order().len() as u64
        );
    }

    #[test]
    fn many_cpus_do_not_take_the_loops_own_room() {
        let kept = keep(&busy(100, 64), &facts()).expect("the CPU has events");
        assert!(kept.packed.len() <= PACKED_MOST, "{} bytes", kept.packed.len());
        let own = unpack(&kept.packed)
            .expect("it was just packed")
            .cpu(1)
            .map_or(0, |cpu| cpu.events.len());
        assert!(own >= 100, "{own} events of the loop's own CPU");
    }

    #[test]
    fn without_an_event_of_the_loops_cpu_nothing_is_kept() {
        assert_eq!(keep(&Window::default(), &facts()), None);
        assert_eq!(keep(&busy(20, 2), &SpikeFacts { cpu: Some(7), ..facts() }), None);
    }
}
