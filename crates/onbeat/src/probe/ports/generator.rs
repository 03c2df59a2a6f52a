//! Threads that make edges: a signal generator for loops that answer edges, a source of commands
//! for loops that follow them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use onbeat_rt::cycle::Phase;
use onbeat_rt::ring::Ring;
use onbeat_rt::sys::{Monotonic, Tick};
use onbeat_rt::{Clock, Cycle, Flow, Instant, OnOverrun, Plan, Sample, Slot, Task, Wait, split};

use super::super::error::ProbeError;
use super::super::setting::Setting;
use super::super::start::{LEAD_NS, steady_tick};
use super::{Input, Marks, Output, PortAddress};
use onbeat_host::thread::ThreadRequest;

const INPUT: &str = "an input";

/// A signal generator, not started yet.
#[derive(Debug)]
pub struct Generator(EdgeThreadPlan);

impl Generator {
    /// Opens an input, and the generator that feeds it; no generator where edges come from outside.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub fn feeding(
        input: &PortAddress,
        stimulus: Option<&PortAddress>,
        setting: &Setting,
    ) -> Result<(Input, Option<Self>), ProbeError> {
        let marks = Marks::default();
        let unfit = |why| input.unfit(INPUT, why);
        let (input, output) = match (input, stimulus) {
            (PortAddress::Generator | PortAddress::Pipe, None) => {
                let (read, write) = super::companion::pipe()?;
                (Input::of_bytes(read, &marks), Output::on_bytes(write))
            }
            (PortAddress::Generator | PortAddress::Pipe, Some(_)) => {
                return Err(unfit("the generator feeds it directly; leave --stimulus out"));
            }
            (PortAddress::Gpio { .. }, None) => {
                if matches!(setting.phase, Phase::At(_)) {
                    let why = "the edges come from outside, at any time";
                    return Err(ProbeError::NoMeaning { option: "--phase", why });
                }
                return Ok((Input::open(input, &marks, false)?, None));
            }
            (_, None) => {
                return Err(unfit(
                    "the kernel does not stamp its edges; --stimulus names the place at the other end that onbeat's generator \
                     writes to",
                ));
            }
            (_, Some(stimulus)) => {
                let input = Input::open(input, &marks, true)?;
                let why = "the generator needs an output of its own: gpio:CHIP/LINE, serial:DEVICE, file:FIFO or udp:HOST:PORT";
                let none = || stimulus.unfit("a stimulus", why);
                (input, Output::open(stimulus)?.ok_or_else(none)?)
            }
        };

        let made = EdgeCount::default();
        let period_ns = setting.period_ns;
        let task = Box::new(GenerateEdges { marks, output, made: made.clone(), period_ns });
        let fifo = setting.thread.fifo;
        let phase = Some(setting.phase);
        Ok((input, Some(Self(EdgeThreadPlan { task, fifo, period_ns, phase, made }))))
    }

    /// Returns the counter of its edges.
    #[must_use]
    pub fn made(&self) -> EdgeCount {
        self.0.made.clone()
    }

    pub(super) fn start(self) -> Result<EdgeThread, ProbeError> {
        self.0.start("onbeat-generator")
    }
}

/// The plan of a thread that runs a task on a grid of its own, at the priority of the loop, on
/// other CPUs.
struct EdgeThreadPlan {
    task: Box<dyn EdgeTask>,
    fifo: Option<u32>,
    period_ns: u64,
    /// Release phase; `None` where it does not matter.
    phase: Option<Phase>,
    made: EdgeCount,
}

/// The number of edges that were made, of those that were late, and of those that were left out
/// because the thread was late.
#[derive(Clone, Debug, Default)]
pub struct EdgeCount(Arc<EdgeNumbers>);

#[derive(Debug, Default)]
struct EdgeNumbers {
    made: AtomicU64,
    left_out: AtomicU64,
    late: AtomicU64,
    latest_ns: AtomicU64,
}

/// Edges of a generator that was itself late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LateEdges {
    /// Edges that were made.
    pub(super) made: u64,
    /// Of these, edges that were made later than [`Self::limit_ns`] after their instant.
    pub(super) late: u64,
    /// The latest of all, in nanoseconds.
    pub(super) latest_ns: u64,
    /// Edges that were never made.
    pub(super) left_out: u64,
    /// The period over [`LATE_PART`].
    pub(super) limit_ns: u64,
}

/// An edge is late when it is made later than the period over this after its instant: where edges
/// come in relation to the loop's other work has then changed.
const LATE_PART: u64 = 10;

impl LateEdges {
    /// Returns what is to be said of them; `None` if all were made in time.
    pub(super) fn words(&self) -> Option<String> {
        let Self { made, late, latest_ns, left_out, limit_ns } = *self;
        if late == 0 && left_out == 0 {
            return None;
        }

        let us = |ns: u64| ns as f64 / 1e3;
        let left_out = match left_out {
            0 => String::new(),
            1 => ", and left 1 edge out, which is in no count".to_owned(),
            n => format!(", and left {n} edges out, which are in no count"),
        };
        Some(format!(
            "the generator was itself late: it made {late} of {made} edges more than {:.1} us after their instants, the latest by {:.1} us{left_out}; \
             each edge counts from when it was made",
            us(limit_ns),
            us(latest_ns)
        ))
    }
}

impl EdgeCount {
    /// Counts an edge and returns its number, from 0.
    pub(in crate::probe) fn add(&self) -> u64 {
        self.0.made.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts how late an edge was made, and the edges before it that were not made at all.
    fn was_late(&self, late_ns: u64, period_ns: u64, left_out: u64) {
        let numbers = &self.0;
        numbers.left_out.fetch_add(left_out, Ordering::Relaxed);
        numbers.latest_ns.fetch_max(late_ns, Ordering::Relaxed);
        numbers.late.fetch_add(u64::from(late_ns > period_ns / LATE_PART), Ordering::Relaxed);
    }

    fn late_edges(&self, period_ns: u64) -> LateEdges {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        LateEdges {
            made: read(&self.0.made),
            late: read(&self.0.late),
            latest_ns: read(&self.0.latest_ns),
            left_out: read(&self.0.left_out),
            limit_ns: period_ns / LATE_PART,
        }
    }

    /// Returns the number of edges or commands that were made.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.made.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for EdgeThreadPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EdgeThreadPlan").field("period_ns", &self.period_ns).finish_non_exhaustive()
    }
}

trait EdgeTask: Send {
    fn make(&mut self, plan: &Plan, stop: &AtomicBool);
}

impl<T: Task + Send> EdgeTask for T {
    fn make(&mut self, plan: &Plan, stop: &AtomicBool) {
        // These samples are not read; the ring is full after two of them, and further ones are
        // dropped.
        let mut slots: Vec<Slot<Sample>> = (0..2).map(|_| Slot::empty()).collect();
        let Ok(mut ring) = Ring::over(&mut slots) else { return };
        let (mut hot, _cold) = split(&mut ring);
        onbeat_rt::cycle::run(&Monotonic, plan, self, &mut hot, stop);
    }
}

impl EdgeThreadPlan {
    fn plan(&self, now: Instant, tick: Tick) -> Plan {
        let earliest = now.plus_ns(3 * LEAD_NS);
        Plan {
            period_ns: self.period_ns,
            first_release: self
                .phase
                .map_or(earliest, |phase| phase.first_release(earliest, self.period_ns, tick)),
            deadline_ns: self.period_ns,
            releases: u64::MAX,
            wait: Wait::Sleep,
            on_overrun: OnOverrun::SkipKeepPhase,
        }
    }

    fn start(mut self, name: &'static str) -> Result<EdgeThread, ProbeError> {
        let stop = Arc::new(AtomicBool::new(false));
        let over = stop.clone();
        let fifo = self.fifo;
        let tick = if self.phase == Some(Phase::AvoidTick) {
            steady_tick()
        } else {
            onbeat_rt::sys::tick()
        };
        let plan = self.plan(Monotonic.now(), tick);
        let body = move || {
            // Its own lateness moves its edges and no figure: each edge is stamped when it is made,
            // and late ones are counted.
            let _ = ThreadRequest { fifo, ..ThreadRequest::default() }.prepare_thread();
            self.task.make(&plan, &over);
        };

        let thread = thread::Builder::new().name(name.to_owned()).spawn(body);
        let thread = thread.map_err(|source| ProbeError::Thread { what: name, source })?;
        let period_ns = self.period_ns;
        Ok(EdgeThread { stop, thread: Some(thread), made: self.made, period_ns })
    }
}

/// A thread that makes edges.
#[derive(Debug)]
pub(super) struct EdgeThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    made: EdgeCount,
    period_ns: u64,
}

impl EdgeThread {
    pub(super) fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Returns the number of its edges.
    pub(super) fn made(&self) -> u64 {
        self.made.get()
    }

    /// Ends the thread, and returns its late edges.
    pub(super) fn end(&mut self) -> LateEdges {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.made.late_edges(self.period_ns)
    }
}

impl Drop for EdgeThread {
    fn drop(&mut self) {
        self.end();
    }
}

/// Makes one edge per cycle. Edges for which it is too late are never made, and have no number.
struct GenerateEdges {
    marks: Marks,
    output: Output,
    made: EdgeCount,
    period_ns: u64,
}

impl Task for GenerateEdges {
    fn cycle(&mut self, cycle: &Cycle) -> Flow {
        let index = self.made.add();
        let now = Monotonic.now();
        self.made.was_late(now.ns_since(cycle.release), self.period_ns, cycle.skipped);
        self.marks.set(index, now);
        // An edge whose write fails is missing at the input, and counted there as skipped.
        let _ = self.output.set(index as u8);
        Flow::Continue
    }
}

/// The latest command: its number, from 1, and the instant at which it was issued. Written by one
/// thread and read by the loop; neither waits. Number and instant belong together, since commands
/// are periods apart.
#[derive(Clone, Debug, Default)]
pub struct Inbox(Arc<(AtomicU64, AtomicU64, AtomicBool)>);

impl Inbox {
    /// Issues command `number` at the instant `at_ns` of `CLOCK_MONOTONIC`.
    pub fn put(&self, number: u64, at_ns: u64) {
        self.0.1.store(at_ns, Ordering::Relaxed);
        self.0.0.store(number, Ordering::Release);
    }

    /// Accepts commands from now on: the loop serves them and counts them in its series.
    pub fn open(&self) {
        self.0.2.store(true, Ordering::Relaxed);
    }

    /// Returns whether commands are accepted.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.2.load(Ordering::Relaxed)
    }

    /// Returns number and instant of the latest command, in nanoseconds; number 0 before the first.
    #[must_use]
    pub fn latest(&self) -> (u64, u64) {
        let number = self.0.0.load(Ordering::Acquire);
        (number, self.0.1.load(Ordering::Relaxed))
    }
}

/// A source of commands, not started yet.
#[derive(Debug)]
pub struct Commands(EdgeThreadPlan);

impl Commands {
    /// Returns a source of `count` commands; without end when `count` is 0.
    ///
    /// They come every 7.618 periods of the loop, so that they meet it at every phase: multiples of
    /// the golden ratio are spread over the unit interval as evenly as those of any number
    /// (Steinhaus' three-distance theorem).
    #[must_use]
    pub fn new(count: u64, setting: &Setting, marks: Marks, inbox: Inbox) -> Self {
        let period_ns =
            setting.period_ns * 7 + (setting.period_ns as f64 * 0.618_033_988_749_895) as u64;
        let last = if count == 0 { u64::MAX } else { count };
        let made = EdgeCount::default();
        let task = Box::new(IssueCommands { marks, inbox, made: made.clone(), last });
        Self(EdgeThreadPlan { task, fifo: setting.thread.fifo, period_ns, phase: None, made })
    }

    /// Returns the interval between commands, in nanoseconds.
    #[must_use]
    pub const fn every_ns(&self) -> u64 {
        self.0.period_ns
    }

    pub(super) fn start(self) -> Result<EdgeThread, ProbeError> {
        self.0.start("onbeat-command")
    }
}

struct IssueCommands {
    marks: Marks,
    inbox: Inbox,
    made: EdgeCount,
    last: u64,
}

impl Task for IssueCommands {
    fn cycle(&mut self, _: &Cycle) -> Flow {
        // A loop that has not begun, or whose first cycles are in no series, is not commanded: it
        // would be a late start that is measured.
        if !self.inbox.is_open() {
            return Flow::Continue;
        }

        let at = Monotonic.now();
        let index = self.made.add();
        self.marks.set(index, at);
        self.inbox.put(index + 1, at.as_ns());
        if index + 1 == self.last { Flow::Stop } else { Flow::Continue }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_at_the_requested_phase() {
        let tick = Tick { every_ns: 4_000_000, offset_ns: 700_000 };
        let maker = |phase| {
            let marks = Marks::default();
            let (_read, write) = super::super::companion::pipe().expect("a pipe");
            let task = Box::new(GenerateEdges {
                marks,
                output: Output::on_bytes(write),
                made: EdgeCount::default(),
                period_ns: 2_000_000,
            });
            EdgeThreadPlan {
                task,
                fifo: None,
                period_ns: 2_000_000,
                phase,
                made: EdgeCount::default(),
            }
        };

        let now = Instant::from_ns(123_456_789);
        let first = |phase| maker(phase).plan(now, tick).first_release;
        assert_eq!(first(Some(Phase::At(250_000))).as_ns() % 2_000_000, 250_000);
        assert_eq!(
            first(Some(Phase::AvoidTick)).as_ns() % 2_000_000,
            950_000,
            "250 us behind the tick"
        );
        assert_eq!(first(None), now.plus_ns(3 * LEAD_NS));
    }

    #[test]
    fn a_generator_counts_its_own_late_edges() {
        let made = EdgeCount::default();
        let (_read, write) = super::super::companion::pipe().expect("a pipe");
        let period_ns = 2_000_000;
        let mut task = GenerateEdges {
            marks: Marks::default(),
            output: Output::on_bytes(write),
            made: made.clone(),
            period_ns,
        };
        assert_eq!(made.late_edges(period_ns).words(), None);
        // Its first edge is due 100 ms ago.
        let plan = Plan {
            period_ns,
            first_release: Monotonic.now().minus_ns(100_000_000),
            deadline_ns: period_ns,
            releases: 60,
            wait: Wait::Sleep,
            on_overrun: OnOverrun::SkipKeepPhase,
        };
        task.make(&plan, &AtomicBool::new(false));

        let late = made.late_edges(period_ns);
        assert!(late.late >= 1 && late.left_out >= 40 && late.made >= late.late, "{late:?}");
        assert!(late.made + late.left_out <= 60 && late.latest_ns >= 100_000_000, "{late:?}");
        let words = late.words().expect("late edges");
        assert!(words.contains("more than 200.0 us after their instants"), "{words}");
        assert!(words.contains(&format!("left {} edges out", late.left_out)), "{words}");
    }
}
