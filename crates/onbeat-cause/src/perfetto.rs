//! Writes a spike's window as a Perfetto trace: threads on each CPU, interrupts, and the loop's
//! cycle.
//!
//! Scheduler events are written as kernel events (`FtraceEventBundle`), so that the viewer draws
//! its usual thread tracks. Interrupts, softirqs and timer functions become slices on one track per
//! CPU. Release, wake-up and work of the loop, and the culprit, have tracks of their own. Field
//! numbers are those of `perfetto_trace.proto`, which never change.

mod joined;

use onbeat_rt::Instant;

pub use self::joined::{GuestBesideHost, GuestSpike, write_joined};
use super::event::{KernelEvent, TraceEvent};
use super::facts::SpikeFacts;
use super::kind::{Cause, Explanation};
use super::protobuf::ProtobufMessage;
use super::timeline::{CpuActivity, Timeline};
use super::window::{CpuWindow, Window};

// TracePacket
const FTRACE_EVENTS: u32 = 1;
const TIMESTAMP: u32 = 8;
const SEQUENCE: u32 = 10;
const TRACK_EVENT: u32 = 11;
const SYSTEM_INFO: u32 = 45;
const TRACK_DESCRIPTOR: u32 = 60;
// TrackEvent and its types
const ANNOTATION: u32 = 4;
const TYPE: u32 = 9;
const TRACK: u32 = 11;
const CATEGORY: u32 = 22;
const NAME: u32 = 23;
const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;

/// Tracks of the loop.
const LOOP: u64 = 1;
const WHY: u64 = 2;
const CULPRIT: u64 = 3;
/// Interrupt track of CPU 0.
const CPUS: u64 = 0x100;

/// Returns the bytes of a trace file that ui.perfetto.dev opens. `kernel` is the kernel release of
/// the run, such as `6.18.3`: it determines how thread states are decoded.
#[must_use]
pub fn write(
    window: &Window,
    facts: &SpikeFacts,
    explanation: &Explanation,
    kernel: &str,
) -> Vec<u8> {
    let mut trace = Trace::of_kernel(kernel);
    trace.track(LOOP, "onbeat: the loop");
    trace.track(WHY, "onbeat: cause of latency");
    trace.track(CULPRIT, "onbeat: the culprit");

    trace.cpus(window);
    trace.the_loop(facts, explanation);
    if let Some(main) = explanation.main() {
        trace.culprit(main, facts, window);
    }

    trace.packets.finish()
}

/// What a slice of a track shows.
struct TrackSlice<'s> {
    category: &'s str,
    name: &'s str,
    annotations: &'s [(&'s str, &'s str)],
}

impl<'s> TrackSlice<'s> {
    const fn plain(category: &'s str, name: &'s str) -> Self {
        Self { category, name, annotations: &[] }
    }
}

#[derive(Default)]
struct Trace {
    packets: ProtobufMessage,
}

impl Trace {
    /// A trace that begins with the release of the kernel whose events follow.
    fn of_kernel(release: &str) -> Self {
        let mut trace = Self::default();
        let release = ProtobufMessage::new().text(1, "Linux").text(3, release);
        let system = ProtobufMessage::new().message(1, &release);
        trace.packet(ProtobufMessage::new().message(SYSTEM_INFO, &system));
        trace
    }

    fn packet(&mut self, packet: ProtobufMessage) {
        let packet = packet.number(SEQUENCE, 1);
        self.packets = std::mem::take(&mut self.packets).message(1, &packet);
    }

    fn track(&mut self, id: u64, name: &str) {
        let track = ProtobufMessage::new().number(1, id).text(2, name);
        self.packet(ProtobufMessage::new().message(TRACK_DESCRIPTOR, &track));
    }

    fn event(&mut self, at: Instant, event: &ProtobufMessage) {
        self.packet(
            ProtobufMessage::new().number(TIMESTAMP, at.as_ns()).message(TRACK_EVENT, event),
        );
    }

    fn begin(&mut self, track: u64, at: Instant, slice: &TrackSlice<'_>) {
        let TrackSlice { category, name, annotations } = slice;
        let mut event = ProtobufMessage::new()
            .number(TYPE, BEGIN)
            .number(TRACK, track)
            .text(CATEGORY, category)
            .text(NAME, name);
        for (key, value) in *annotations {
            event = event.message(ANNOTATION, &ProtobufMessage::new().text(10, key).text(6, value));
        }
        self.event(at, &event);
    }

    fn end(&mut self, track: u64, at: Instant) {
        self.event(at, &ProtobufMessage::new().number(TYPE, END).number(TRACK, track));
    }

    fn slice(&mut self, track: u64, (from, to): (Instant, Instant), slice: &TrackSlice<'_>) {
        self.begin(track, from, slice);
        self.end(track, to);
    }

    /// Adds the threads and the interrupts of each CPU.
    fn cpus(&mut self, window: &Window) {
        for CpuWindow { cpu, events } in &window.cpus {
            self.scheduler(*cpu, events);
            let track = CPUS + u64::from(*cpu);
            self.track(track, &format!("CPU {cpu}: interrupts"));
            self.interrupts_on(track, events, window);
        }
    }

    fn scheduler(&mut self, cpu: u32, events: &[TraceEvent]) {
        let mut bundle = ProtobufMessage::new().number(1, u64::from(cpu));
        for event in events {
            if let Some((field, content)) = kernel_event(&event.what) {
                let head = ProtobufMessage::new()
                    .number(1, event.at.as_ns())
                    .number(2, u64::from(event.tid));
                bundle = bundle.message(2, &head.message(field, &content));
            }
        }

        self.packet(ProtobufMessage::new().message(FTRACE_EVENTS, &bundle));
    }

    fn interrupts_on(&mut self, track: u64, events: &[TraceEvent], window: &Window) {
        // Only activities that begin in the window make a slice; the innermost one ends first.
        let mut open: Vec<KernelEvent> = Vec::new();
        for event in events {
            let is_timer =
                |what: &KernelEvent| matches!(what, KernelEvent::TimerExpireEntry { .. });
            if is_timer(&event.what) && open.pop_if(|begun| is_timer(begun)).is_some() {
                self.end(track, event.at);
            }

            if let Some((category, name)) = interrupt(&event.what, window) {
                self.begin(track, event.at, &TrackSlice::plain(category, &name));
                open.push(event.what);
            } else if let Some(place) = open.iter().rposition(|begun| ends(begun, &event.what)) {
                for _ in place..open.len() {
                    self.end(track, event.at);
                }
                open.truncate(place);
            }
        }

        for _ in open {
            self.end(track, window.to);
        }
    }

    /// Adds the wake-up and the work of a cycle.
    fn cycle(&mut self, track: u64, facts: &SpikeFacts) {
        let wake_up = (facts.expiry.min(facts.start), facts.start);
        self.slice(track, wake_up, &TrackSlice::plain("loop", "wake-up"));
        self.slice(track, (facts.start, facts.end), &TrackSlice::plain("loop", "cycle"));
    }

    /// Adds a slice with the evidence of all causes.
    fn causes(&mut self, track: u64, span: (Instant, Instant), name: &str, of: &Explanation) {
        let words: Vec<String> = of.causes.iter().map(Cause::words).collect();
        let evidence = of.causes.iter().map(|cause| cause.evidence.as_str());
        let annotations: Vec<(&str, &str)> =
            words.iter().map(String::as_str).zip(evidence).collect();
        let slice = TrackSlice { category: "cause", name, annotations: &annotations };
        self.slice(track, span, &slice);
    }

    fn the_loop(&mut self, facts: &SpikeFacts, explanation: &Explanation) {
        let late_us = explanation.lateness_ns as f64 / 1000.0;
        let why = explanation.main().map_or_else(|| "not late".to_owned(), Cause::words);

        for (at, name) in [(facts.expiry, "timer set to"), (facts.release, "release")] {
            let mark = ProtobufMessage::new()
                .number(TYPE, INSTANT)
                .number(TRACK, LOOP)
                .text(CATEGORY, "loop")
                .text(NAME, name);
            self.event(at, &mark);
        }

        self.cycle(LOOP, facts);
        let in_work = explanation.lateness_ns > facts.start.ns_since(facts.expiry);
        let to = if in_work { facts.end } else { facts.start };
        let span = (facts.expiry.min(facts.start), to);
        self.causes(WHY, span, &format!("{late_us:.1} us late: {why}"), explanation);
    }

    /// Adds the slices in which the culprit had a CPU.
    fn culprit(&mut self, main: &Cause, facts: &SpikeFacts, window: &Window) {
        let Some(tid) = main.culprit.as_ref().and_then(|culprit| culprit.tid) else { return };
        let timeline = Timeline::new(window);

        for cpu in &window.cpus {
            let slices = timeline.between(Some(cpu.cpu), facts.expiry.min(facts.start), facts.end);
            let its = |doing: &CpuActivity| matches!(doing, CpuActivity::Thread(thread) if thread.tid == tid);

            for slice in slices.iter().filter(|slice| its(&slice.doing)) {
                let annotations = &[("evidence", main.evidence.as_str())];
                let shown = TrackSlice { category: "culprit", name: &main.words(), annotations };
                self.slice(CULPRIT, (slice.from, slice.to), &shown);
            }
        }
    }
}

/// Returns field number and content of a `FtraceEvent`.
fn kernel_event(what: &KernelEvent) -> Option<(u32, ProtobufMessage)> {
    let name = |label: &super::event::Label| label.text().into_owned();
    Some(match what {
        KernelEvent::Switch { prev, prev_state, next } => {
            let prev = ProtobufMessage::new()
                .text(1, &name(&prev.name))
                .signed(2, i64::from(prev.tid))
                .signed(3, i64::from(prev.prio))
                .signed(4, i64::from(prev_state.0));
            (
                4,
                prev.text(5, &name(&next.name))
                    .signed(6, i64::from(next.tid))
                    .signed(7, i64::from(next.prio)),
            )
        }
        KernelEvent::Waking { thread, target_cpu } => {
            let thread = ProtobufMessage::new()
                .text(1, &name(&thread.name))
                .signed(2, i64::from(thread.tid))
                .signed(3, i64::from(thread.prio));
            (20, thread.signed(4, 1).signed(5, i64::from(*target_cpu)))
        }
        KernelEvent::Frequency { cpu, khz } => {
            (11, ProtobufMessage::new().number(1, u64::from(*khz)).number(2, u64::from(*cpu)))
        }
        _ => return None,
    })
}

/// Returns category and name of the slice that an event begins.
fn interrupt(what: &KernelEvent, window: &Window) -> Option<(&'static str, String)> {
    match what {
        KernelEvent::IrqEntry { irq, name } => Some(("irq", format!("{name} (irq {irq})"))),
        KernelEvent::VectorEntry(vector) => Some(("irq", vector.name().to_owned())),
        KernelEvent::SoftirqEntry(softirq) => {
            Some(("softirq", format!("softirq {}", softirq.name())))
        }
        KernelEvent::TimerExpireEntry { function, .. } => {
            Some(("timer", window.function(*function).unwrap_or("timer function").to_owned()))
        }
        _ => None,
    }
}

fn ends(begun: &KernelEvent, event: &KernelEvent) -> bool {
    match (begun, event) {
        (KernelEvent::IrqEntry { irq, .. }, KernelEvent::IrqExit { irq: ended }) => irq == ended,
        (KernelEvent::VectorEntry(vector), KernelEvent::VectorExit(ended)) => vector == ended,
        (KernelEvent::SoftirqEntry(softirq), KernelEvent::SoftirqExit(ended)) => softirq == ended,
        (
            KernelEvent::TimerExpireEntry { timer, .. },
            KernelEvent::TimerExpireExit { timer: ended },
        ) => timer == ended,
        _ => false,
    }
}
