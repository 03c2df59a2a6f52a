//! The companion of a loop with ports: threads that feed its input and see its output.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Arrival, Clock, Flow, Instant};
use rustix::pipe::{PipeFlags, pipe_with};

use super::super::companion::Companion;
use super::super::error::ProbeError;
use super::effects::{EffectTally, Observer, SeenEffect};
use super::generator::{Commands, EdgeThread, Generator, LateEdges};
use super::{Failures, Input, Marks, Output, PortAddress};
use onbeat_host::thread::ThreadRequest;
use onbeat_record::{Recorder, Series};

/// Looks after the last command, so that its effect is seen.
const LOOKS_AFTER: u32 = 25;

/// Opens a pipe whose ends never wait.
pub(super) fn pipe() -> Result<(OwnedFd, OwnedFd), ProbeError> {
    let hint = "; the limit of open files (ulimit -n) may be reached";
    let refused = |why: rustix::io::Errno| PortAddress::Pipe.refused("an output", why.into(), hint);
    pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(refused)
}

/// The threads that feed a loop's input and see its output.
#[derive(Debug, Default)]
pub struct PortCompanion {
    eye: Option<OutputReader>,
    failures: Failures,
    passed_over: Failures,
    generator: Option<Generator>,
    commands: Option<Commands>,
    makers: Vec<EdgeThread>,
    seeing: Option<EffectTally>,
    /// Looks left until a loop whose commands are all issued ends; `None` for a loop without
    /// commands.
    looks_left: Option<u32>,
}

/// The instants at which commands were issued, and at which the loop began to write each.
#[derive(Clone, Debug, Default)]
pub struct CommandMarks {
    /// When each was issued.
    pub issued: Marks,
    /// When its write began.
    pub written: Marks,
}

/// Opens an output, and the other end of a pipe.
fn opened(place: &PortAddress, marks: &Marks) -> Result<(Output, Option<Input>), ProbeError> {
    if let Some(output) = Output::open(place)? {
        return Ok((output, None));
    }
    let (read, write) = pipe()?;
    Ok((Output::on_bytes(write), Some(Input::of_bytes(read, marks))))
}

impl PortCompanion {
    /// Opens an output; a thread reads a pipe at once and ignores what it reads.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub fn for_output(place: &PortAddress) -> Result<(Output, Self), ProbeError> {
        let (output, other_end) = opened(place, &Marks::default())?;
        let eye = other_end.map(|input| OutputReader::on(input, None));
        Ok((output, Self { eye, ..Self::default() }))
    }

    /// Opens an output whose effect is seen at `observe`, or at the other end of the pipe, by a
    /// thread of priority `fifo`: the time from issuing a command to seeing its effect is counted
    /// as [`Series::Chain`].
    ///
    /// # Errors
    /// [`ProbeError`].
    pub fn seeing(
        place: &PortAddress,
        observe: Option<&PortAddress>,
        marks: &CommandMarks,
        fifo: Option<u32>,
    ) -> Result<(Output, Self), ProbeError> {
        let watched = observe.map(|place| Input::observed(place, &marks.issued)).transpose()?;
        let (output, other_end) = opened(place, &marks.issued)?;
        let Some(input) = watched.or(other_end) else { return Ok((output, Self::default())) };
        let (report, reported) = channel();
        let is_stamped = input.is_stamped_by_kernel();
        let watch =
            EffectObserver { marks: marks.clone(), report, fifo, is_granted: Arc::default() };
        let observer = Observer { fifo, is_granted: watch.is_granted.clone(), is_stamped };
        let seeing = EffectTally::new(reported, marks.issued.clone(), observer);

        Ok((
            output,
            Self {
                eye: Some(OutputReader::on(input, Some(watch))),
                seeing: Some(seeing),
                ..Self::default()
            },
        ))
    }

    /// Returns whether the output is observed.
    #[must_use]
    pub const fn sees(&self) -> bool {
        self.seeing.is_some()
    }

    /// Also reports the failed writes of the loop.
    #[must_use]
    pub fn counting(self, failures: Failures) -> Self {
        Self { failures, ..self }
    }

    /// Also reports the commands that the loop never read.
    #[must_use]
    pub fn passing_over(self, passed_over: Failures) -> Self {
        Self { passed_over, ..self }
    }

    /// Also feeds an input.
    #[must_use]
    pub fn fed_by(self, generator: Option<Generator>) -> Self {
        Self { generator, ..self }
    }

    /// Also issues commands; the loop ends when all of them were served.
    #[must_use]
    pub fn commanded_by(self, commands: Commands) -> Self {
        Self { commands: Some(commands), ..self }
    }
}

impl Companion for PortCompanion {
    fn start(&mut self) -> Result<(), ProbeError> {
        if let Some(eye) = &mut self.eye {
            eye.open()?;
        }
        if let Some(generator) = self.generator.take() {
            self.makers.push(generator.start()?);
        }

        if let Some(commands) = self.commands.take() {
            self.makers.push(commands.start()?);
            self.looks_left = Some(LOOKS_AFTER);
        }

        Ok(())
    }

    fn look(&mut self, recorder: &mut Recorder) -> Flow {
        if let Some(seeing) = &mut self.seeing {
            seeing.take(&mut |ns| recorder.count(Series::Chain, ns));
        }

        let Some(looks) = &mut self.looks_left else { return Flow::Continue };
        if !self.makers.iter().all(EdgeThread::is_finished) {
            return Flow::Continue;
        }

        let made: u64 = self.makers.iter().map(EdgeThread::made).sum();
        let accounted = self.seeing.as_ref().map_or(0, EffectTally::accounted);
        *looks = if accounted >= made { 0 } else { looks.saturating_sub(1) };
        if *looks > 0 {
            return Flow::Continue;
        }
        if let Some(seeing) = &mut self.seeing {
            seeing.give_up(made, Monotonic.now(), &mut |ns| recorder.count(Series::Chain, ns));
        }

        Flow::Stop
    }

    fn end(&mut self) -> Vec<String> {
        let late: Vec<LateEdges> = self.makers.iter_mut().map(EdgeThread::end).collect();
        let made: u64 = self.makers.iter().map(EdgeThread::made).sum();
        if let Some(eye) = &mut self.eye {
            eye.close();
        }

        let failures = self.failures.get();
        let mut sentences = Vec::new();
        if failures > 0 {
            sentences
                .push(format!("{failures} writes to the output failed: no process reads from it"));
        }

        sentences.extend(late.iter().filter_map(LateEdges::words));

        let passed_over = self.passed_over.get();
        // Where the output is observed, the tally of effects reports them.
        if self.seeing.is_none() && passed_over > 0 {
            sentences.push(format!(
                "{passed_over} of {made} commands ({:.3} %) were never taken up, because a later one came first; each counts with the time \
                 until that one's write, so a limit sees it",
                100.0 * passed_over as f64 / made.max(1) as f64
            ));
        }

        sentences.extend(self.seeing.iter().flat_map(|seeing| seeing.words(made)));
        sentences
    }
}

/// A thread that waits for the edges of an output and reports when it saw each.
#[derive(Debug)]
struct OutputReader {
    input: Option<Input>,
    watch: Option<EffectObserver>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// How a thread observes effects.
#[derive(Debug)]
struct EffectObserver {
    marks: CommandMarks,
    report: Sender<SeenEffect>,
    /// Its priority; `None` for an ordinary thread.
    fifo: Option<u32>,
    is_granted: Arc<AtomicBool>,
}

impl EffectObserver {
    fn prepare(&self) {
        if self.fifo.is_some() {
            let wanted = ThreadRequest { fifo: self.fifo, ..ThreadRequest::default() };
            let all_granted = wanted.prepare_thread().iter().all(|grant| grant.granted);
            self.is_granted.store(all_granted, Ordering::Relaxed);
        }
    }

    /// Reports an edge, and the commands from `next` on before it, whose effects were lost.
    fn report(&self, next: u64, index: u64, at: Option<Instant>, now: Instant) {
        let seen = at.unwrap_or(now);
        let late_ns = now.ns_since(at.unwrap_or_else(|| self.marks.written.get(index)));
        let from_issue = |index: u64| seen.ns_since(self.marks.issued.get(index));
        // The receiver may have ended already.
        for lost in next..index {
            let _ = self.report.send(SeenEffect { ns: from_issue(lost), late_ns: None });
        }

        let _ = self.report.send(SeenEffect { ns: from_issue(index), late_ns: Some(late_ns) });
    }
}

impl OutputReader {
    const NAME: &'static str = "onbeat-eye";

    fn on(input: Input, watch: Option<EffectObserver>) -> Self {
        Self { input: Some(input), watch, stop: Arc::default(), thread: None }
    }

    fn open(&mut self) -> Result<(), ProbeError> {
        let Some(mut input) = self.input.take() else { return Ok(()) };
        let watch = self.watch.take();
        let stop = self.stop.clone();
        let body = move || {
            watch.iter().for_each(EffectObserver::prepare);
            let mut next = 0;
            while !stop.load(Ordering::Relaxed) {
                let (edge, at) = match input.next_seen() {
                    (Arrival::Edge(edge), at) => (edge, at),
                    (Arrival::Nothing, _) => continue,
                    (Arrival::Over, _) => break,
                };

                if let Some(watch) = &watch {
                    watch.report(next, edge.index, at, Monotonic.now());
                }

                next = edge.index + 1;
            }
        };

        let spawned = thread::Builder::new().name(Self::NAME.to_owned()).spawn(body);
        self.thread =
            Some(spawned.map_err(|source| ProbeError::Thread { what: Self::NAME, source })?);
        Ok(())
    }

    fn close(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for OutputReader {
    fn drop(&mut self) {
        self.close();
    }
}
