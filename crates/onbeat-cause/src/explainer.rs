//! Explains late samples of a loop, outside the loop's thread.

use std::time::Duration;

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant, Sample};
use serde::{Deserialize, Serialize};

use super::classify::explain;
use super::counters::{CounterSource, Counters};
use super::event::{KernelEvent, TraceEvent};
use super::facts::SpikeFacts;
use super::flight::{FlightRecorder, FlightSetting, NoLengths};
use super::inside::InsideEvent;
use super::keep::{KeptWindow, keep};
use super::kind::{Cause, CauseKind, Explanation};
use super::meter::Meter;
use super::process_view::ProcessReader;
use super::split::WakeUpSplitter;
use super::stream::PathStream;
use super::symbols::Symbols;
use super::tracefs::TraceError;
use super::window::Window;
use onbeat_host::thread::{Grant, Refusal, thread_cpu_ns};

/// The loop whose spikes are explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopThread {
    /// Thread number.
    pub tid: u32,
    /// The CPU that it is bound to.
    pub cpu: Option<u32>,
    /// `SCHED_FIFO` priority, 1 to 99; `None` for an ordinary thread.
    pub fifo: Option<u32>,
}

impl LoopThread {
    /// Returns the kernel priority: 99 − p, or 120.
    #[must_use]
    pub fn prio(&self) -> i32 {
        self.fifo.map_or(120, |priority| 99 - i32::try_from(priority).unwrap_or(99))
    }
}

/// The accumulated cost of explaining.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Spikes explained.
    pub explained: u64,
    /// Spikes with missing events, included in `explained`.
    pub incomplete: u64,
    /// Longest time from the end of a cycle to its explanation, in nanoseconds.
    pub slowest_ns: u64,
    /// CPU time of the explaining thread, in nanoseconds.
    pub cpu_ns: u64,
    /// Memory in use, in bytes: kernel buffers, and the pages kept in this process.
    pub bytes_held: u64,
}

/// Events are analysed from this time before a spike, in nanoseconds: they show which threads ran,
/// and in which system calls.
const LOOK_BACK_NS: u64 = 60_000_000;
/// The same before a spike of RT throttling or the fair server, in nanoseconds: the kernel's default period.
const BUDGET_LOOK_BACK_NS: u64 = 1_000_000_000;
/// Events are analysed until this time after it, in nanoseconds: the end of a system call
/// identifies it too.
const LOOK_AHEAD_NS: u64 = 2_000_000;
/// Maximum time to wait for events after the end of the spike.
const WAIT_AT_MOST: Duration = Duration::from_millis(20);
/// Interval at which their arrival is checked.
const WAIT_STEP: Duration = Duration::from_millis(1);
/// After a spike the kernel's buffers are read for this time, in nanoseconds, because more spikes
/// may follow.
const ALERT_NS: u64 = 1_000_000_000;
/// Interval of these reads, in nanoseconds.
const READ_EVERY_NS: u64 = 100_000_000;

/// Explains the spikes of one loop.
///
/// ```no_run
/// use onbeat_cause::{Explainer, FlightSetting, LoopThread};
/// use onbeat_rt::Sample;
///
/// let thread = LoopThread { tid: std::process::id(), cpu: Some(1), fifo: Some(80) };
/// let setting = FlightSetting::default();
/// let (explainer, grants) = Explainer::open_with_grants(thread, &setting);
/// let Some(mut explainer) = explainer else { panic!("{grants:?}") };
///
/// // For each late sample of the loop:
/// let explanation = explainer.explain(&Sample::default(), 0, 0);
/// for cause in &explanation.causes {
///     println!("{} ns {}: {}", cause.ns, cause.words(), cause.evidence);
/// }
/// ```
#[derive(Debug)]
pub struct Explainer {
    recorder: FlightRecorder,
    meter: Meter,
    symbols: Symbols,
    process: ProcessReader,
    thread: LoopThread,
    cost: Cost,
    last: Window,
    last_facts: SpikeFacts,
    /// Time of the last explanation.
    asked_at: Option<Instant>,
    read_at: Instant,
}

impl Explainer {
    /// Starts recording. Takes about 100 ms, most of it in the kernel: open it before the loop
    /// starts, then [`Self::follow`] the loop's thread.
    ///
    /// # Errors
    /// [`TraceError`]; [`refused`] turns it into a [`Grant`].
    pub fn open(thread: LoopThread, setting: &FlightSetting) -> Result<Self, TraceError> {
        let recorder =
            FlightRecorder::open(&FlightSetting { tid: Some(thread.tid), ..setting.clone() })?;
        let source =
            // BPF reads the run queue's own counter, in nanoseconds and at the instant of the
            // switch. /proc/stat counts in ticks, and is read when somebody reads it.
            if recorder.no_steal().is_none() { CounterSource::Bpf } else { CounterSource::Procfs };
        let meter = Meter::open(thread.tid, thread.cpu, source);
        Ok(Self {
            recorder,
            meter,
            symbols: Symbols::default(),
            process: ProcessReader::for_thread(thread.tid),
            thread,
            cost: Cost::default(),
            last: Window::default(),
            last_facts: SpikeFacts::default(),
            asked_at: None,
            read_at: Instant::default(),
        })
    }

    /// Opens an explainer. The grants say what was granted, or why it could not be opened.
    #[must_use]
    pub fn open_with_grants(
        thread: LoopThread,
        setting: &FlightSetting,
    ) -> (Option<Self>, Vec<Grant>) {
        match Self::open(thread, setting) {
            Ok(explainer) => {
                let grants = explainer.grants();
                (Some(explainer), grants)
            }
            Err(why) => (None, vec![refused(&why)]),
        }
    }

    /// Follows another thread.
    ///
    /// # Errors
    /// [`TraceError::File`] if the kernel refuses a filter.
    pub fn follow(&mut self, thread: LoopThread) -> Result<(), TraceError> {
        self.recorder.follow(thread.tid)?;
        self.meter.follow(thread.tid);
        self.process = ProcessReader::for_thread(thread.tid);
        self.thread = thread;
        Ok(())
    }

    /// Returns the events of the loop as they are recorded, from now on; `None` where BPF does not
    /// record them.
    #[must_use]
    pub fn stream(&self) -> Option<PathStream> {
        let path = self.recorder.path_memory()?;
        Some(PathStream::of(path, &[self.thread.tid]))
    }

    /// Returns what splits the loop's wake-ups from now on.
    ///
    /// # Errors
    /// Why BPF does not record them, in a sentence.
    pub fn splitter(&self) -> Result<WakeUpSplitter, String> {
        let refused = || self.recorder.no_path().unwrap_or("BPF records nothing here").to_owned();
        let path = self.recorder.path_memory().ok_or_else(refused)?;
        Ok(WakeUpSplitter::new(path, self.thread.tid))
    }

    /// Reads the names of the kernel's functions, which takes about 70 ms (seconds in a guest in
    /// virtual time) and some 6 MiB, and otherwise happens when the first spike needs one.
    pub fn read_names(&mut self) {
        self.symbols.functions();
    }

    /// Returns what was granted and what was refused.
    #[must_use]
    pub fn grants(&self) -> Vec<Grant> {
        let missing = self.recorder.missing();
        let mut wanted = "all events".to_owned();
        if !missing.is_empty() {
            wanted.push_str(&format!("; this kernel lacks {}", missing.join(", ")));
        }
        if let Some(why) = self.recorder.no_path() {
            wanted.push_str(&format!(
                "; the loop's events by tracefs, about 2 us per wake-up ({why})"
            ));
        }

        if let Some(NoLengths { why, has_locks }) = self.recorder.no_lengths() {
            let calls = if *has_locks {
                "; calls that change memory by their locks"
            } else {
                " and of calls that change memory"
            };
            wanted.push_str(&format!("; without the lengths of page faults{calls} ({why})"));
        }

        let counters = "nanoseconds of steal and throttling per CPU";
        let counters = match self.recorder.no_steal() {
            None => Grant::given("steal counter", counters),
            Some(why_not) => {
                let refusal = Refusal {
                    why_not: why_not.to_owned(),
                    costs: "steal time is known in ticks of 10 ms only, throttling from events only, and no system calls of culprits",
                    remedy: "sudo onbeat ...    # on a kernel with CONFIG_BPF_SYSCALL and CONFIG_DEBUG_INFO_BTF"
                        .to_owned(),
                };
                Grant::refused("steal counter", counters, refusal)
            }
        };

        vec![Grant::given("flight recorder", wanted), counters]
    }

    /// Reads what must be read regularly; call it at least ten times a second. Without late cycles
    /// it reads no events.
    pub fn keep_watch(&mut self) {
        let now = Monotonic.now();
        let is_alert = self.asked_at.is_some_and(|asked| now.ns_since(asked) < ALERT_NS);
        let reads = is_alert && now.ns_since(self.read_at) >= READ_EVERY_NS;
        // No quota holds a real-time thread back.
        let has_quota = self.thread.fifo.is_none();
        // The ordinary case costs nothing: without late cycles nobody reads.
        if !reads && !has_quota && self.meter.source() == CounterSource::Bpf {
            return;
        }

        let before = thread_cpu_ns();
        self.meter.keep_watch(now);
        if has_quota {
            self.meter.follow_cgroups(now);
        }
        if reads {
            // If reading fails now, it fails for the next spike too, and its explanation says so.
            let _ = self.recorder.keep_watch();
            self.read_at = now;
        }

        self.cost.cpu_ns += thread_cpu_ns() - before;
    }

    /// Returns the explanation of a late `sample`.
    ///
    /// `margin_ns` is the spin margin, used only if the loop did not sleep; `planned_work_ns` is
    /// the planned work of a cycle. Waits up to 20 ms for the last events. If the recorder cannot
    /// be read, the whole lateness is unexplained and the evidence gives the reason.
    pub fn explain(
        &mut self,
        sample: &Sample,
        margin_ns: u64,
        planned_work_ns: u64,
    ) -> Explanation {
        let LoopThread { tid, cpu, .. } = self.thread;
        let prio = self.thread.prio();
        let facts = SpikeFacts {
            tid,
            cpu,
            prio,
            ..SpikeFacts::from_sample(sample, margin_ns, planned_work_ns)
        };
        self.explain_facts(&facts)
    }

    /// The same as [`Self::explain`], for given facts.
    pub fn explain_facts(&mut self, facts: &SpikeFacts) -> Explanation {
        let before = thread_cpu_ns();
        let span = facts.span();
        // First, because events and names of functions may take a while, and the kernel counts on.
        // Totals of the kernel go on counting. What is read later belongs to more than this spike.
        let of_thread = self.meter.of_thread(span.start);
        let explanation = match self.window_of(facts) {
            Ok(mut window) => {
                self.symbols.name(&mut window, span.start, span.end);
                let readings = window.readings.clone();
                let counters =
                    self.meter.counters(readings, span.start.minus_ns(LOOK_BACK_NS), window.to);
                let Counters { throttled_ns, freezer, thread, .. } = of_thread;
                let is_of_spike = |met: &&InsideEvent| met.at >= span.start && met.at <= span.end;
                let met: Vec<_> = window.inside.iter().filter(is_of_spike).copied().collect();
                let faults = |event: &TraceEvent| {
                    matches!(event.what, KernelEvent::PageFault { .. })
                        && event.tid == self.thread.tid
                        && event.at >= span.start
                        && event.at <= span.end
                };
                let has_faults = window.in_order().into_iter().any(faults);
                let process = self.process.view_for(&met, has_faults);
                // Those of the thread were read before the events, those of the CPUs belong to the
                // window.
                let counters = Counters { throttled_ns, freezer, thread, process, ..counters };
                let explanation = explain(facts, &window, &counters);
                let explanation = self.with_the_whole_budget(facts, &counters, explanation);
                self.cost.incomplete +=
                    // Events that were overwritten outside the spike change nothing about it.
                    u64::from(window.lost_between(span.start, span.end).is_some());
                self.last = window.completed();

                explanation
            }
            Err(why) => {
                self.last = Window::default();
                // The lateness stands, whole and unexplained, with the reason for that as its
                // evidence: a recorder that fails must not make spikes vanish.
                let ns = facts.start.ns_since(facts.expiry);
                let kind = CauseKind::Unexplained;
                let cause = Cause { kind, ns, evidence: why.to_string(), culprit: None };
                Explanation { lateness_ns: ns, accounted_ns: 0, causes: vec![cause] }
            }
        };

        self.last_facts = *facts;
        (self.asked_at, self.read_at) = (Some(Monotonic.now()), Monotonic.now());
        self.cost.explained += 1;
        self.cost.slowest_ns = self.cost.slowest_ns.max(Monotonic.now().ns_since(facts.end));
        self.cost.cpu_ns += thread_cpu_ns() - before;
        explanation
    }

    /// Returns the kernel's counters between two instants. While the loop runs, they reach back a
    /// third of a second.
    pub fn counters(&mut self, from: Instant, to: Instant) -> Counters {
        // Without readings there is nothing to return.
        let readings =
            self.recorder.window(from, to).map_or_else(|_| Vec::new(), |window| window.readings);
        self.meter.counters(readings, from, to)
    }

    /// Returns the events around the spike explained last, cut to fit a run file; `None` if there
    /// are none.
    pub fn keep(&mut self) -> Option<KeptWindow> {
        let before = thread_cpu_ns();
        let kept = keep(&self.last, &self.last_facts);
        self.cost.cpu_ns += thread_cpu_ns() - before;
        kept
    }

    /// Returns the accumulated cost of explaining. Excludes the cost of recording, which the
    /// recorded threads bear.
    #[must_use]
    pub fn cost(&self) -> Cost {
        Cost { bytes_held: self.recorder.bytes_held(), ..self.cost }
    }

    /// Stops recording and removes the instance, as dropping does.
    pub fn close(self) {
        drop(self);
    }

    /// Explains a spike of RT throttling or the fair server with the events of the whole period, so that the threads
    /// that used its runtime are known; the usual look back is a fraction of it.
    fn with_the_whole_budget(
        &mut self,
        facts: &SpikeFacts,
        counters: &Counters,
        explanation: Explanation,
    ) -> Explanation {
        // A second of events is many times the usual window. It is read for the two rules that look
        // at a period of the whole CPU, no others.
        if !explanation.main().is_some_and(|main| main.kind.is_of_the_runtime()) {
            return explanation;
        }

        let span = facts.span();
        let from = span.start.minus_ns(BUDGET_LOOK_BACK_NS);
        let Ok(window) = self.recorder.window(from, span.end.plus_ns(LOOK_AHEAD_NS)) else {
            return explanation;
        };
        let readings = window.readings.clone();
        explain(facts, &window, &Counters { readings, ..counters.clone() })
    }

    fn window_of(&mut self, facts: &SpikeFacts) -> Result<Window, TraceError> {
        let span = facts.span();
        let from = span.start.minus_ns(LOOK_BACK_NS);
        let to = span.end.plus_ns(LOOK_AHEAD_NS);
        // Events become readable page by page. An idle CPU writes none and its last page stays
        // unread, hence an end to waiting.
        let deadline = Monotonic.now().plus_ns(onbeat_rt::time::ns(WAIT_AT_MOST));
        loop {
            let window = self.recorder.window(from, to)?;
            if Monotonic.now() >= deadline || has_event_after(&window, facts, span.end) {
                return Ok(window);
            }
            std::thread::sleep(WAIT_STEP);
        }
    }
}

/// Whether the loop's CPU has an event after `end`; then all earlier events are readable.
fn has_event_after(window: &Window, facts: &SpikeFacts, end: Instant) -> bool {
    // The loop's own CPU, where it is bound: others may be silent for seconds.
    let mut cpus = window.cpus.iter().filter(|cpu| facts.cpu.is_none_or(|own| own == cpu.cpu));
    cpus.any(|cpu| cpu.events.last().is_some_and(|event| event.at > end))
}

/// Returns the grant that says why the flight recorder could not be opened.
#[must_use]
pub fn refused(why: &TraceError) -> Grant {
    let refusal = Refusal {
        why_not: why.to_string(),
        costs: "spikes are counted, but their causes remain unknown",
        remedy: why.remedy().to_owned(),
    };
    Grant::refused("flight recorder", "events of all CPUs", refusal)
}
