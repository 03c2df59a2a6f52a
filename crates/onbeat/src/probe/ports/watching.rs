//! What goes on beside a loop with ports: who feeds its input, who sees its output.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Arrival, Clock, Edges, Flow};
use rustix::pipe::{PipeFlags, pipe_with};

use super::super::description::{Beside, ProbeError};
use super::generator::{Commands, Generator, Running};
use super::{Failures, Input, Marks, Output, Place};
use crate::record::{Recorder, Series};

/// Looks that are taken after the last command, for its effect to be seen.
const LOOKS_AFTER: u32 = 25;

/// A pipe whose writing end never waits.
pub(super) fn pipe() -> Result<(OwnedFd, OwnedFd), ProbeError> {
    pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(|why| ProbeError::Open {
        place: "pipe".to_owned(),
        what: "an output",
        source: why.into(),
        hint: "; the limit of open files (ulimit -n) may be reached",
    })
}

/// Who feeds a loop's input and sees its output.
#[derive(Debug, Default)]
pub struct Watching {
    eye: Option<Eye>,
    failures: Failures,
    generator: Option<Generator>,
    commands: Option<Commands>,
    makers: Vec<Running>,
    told: Option<Receiver<u64>>,
    seen: u64,
    /// Looks until a loop whose commands are all issued ends; `None` for one that has no commands.
    looks_left: Option<u32>,
}

/// An output, and the other end of a pipe.
fn opened(place: &Place, marks: &Marks) -> Result<(Output, Option<Input>), ProbeError> {
    if let Some(output) = Output::open(place)? {
        return Ok((output, None));
    }
    let (read, write) = pipe()?;
    Ok((Output::on(write, false), Some(Input::of_bytes(read, marks))))
}

impl Watching {
    /// An output; a pipe is read at once by a thread that does nothing with it.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub fn of(place: &Place) -> Result<(Output, Self), ProbeError> {
        let (output, other_end) = opened(place, &Marks::default())?;
        let eye = other_end.map(|input| Eye::on(input, None));
        Ok((output, Self { eye, ..Self::default() }))
    }

    /// An output whose effect is seen where `observe` says, or at the other end of the pipe: from the instant that `marks`
    /// tells of an edge to the instant at which it is seen is counted as [`Series::Chain`].
    ///
    /// # Errors
    /// [`ProbeError`].
    pub fn seeing(place: &Place, observe: Option<&Place>, marks: &Marks) -> Result<(Output, Self), ProbeError> {
        let watched = observe.map(|place| Input::open(place, marks, true)).transpose()?;
        let (output, other_end) = opened(place, marks)?;
        let (tell, told) = channel();
        let eye = watched.or(other_end).map(|input| Eye::on(input, Some((marks.clone(), tell))));
        let told = eye.is_some().then_some(told);
        Ok((output, Self { eye, told, ..Self::default() }))
    }

    /// Whether somebody sees the output.
    #[must_use]
    pub const fn sees(&self) -> bool {
        self.told.is_some()
    }

    /// The same, with the loop's failed writes to tell of.
    #[must_use]
    pub fn counting(self, failures: Failures) -> Self {
        Self { failures, ..self }
    }

    /// The same, with an input to feed.
    #[must_use]
    pub fn fed_by(self, generator: Option<Generator>) -> Self {
        Self { generator, ..self }
    }

    /// The same, with commands to issue; the loop ends when all of them were served.
    #[must_use]
    pub fn commanded_by(self, commands: Commands) -> Self {
        Self { commands: Some(commands), ..self }
    }
}

impl Beside for Watching {
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
        for ns in self.told.iter().flat_map(Receiver::try_iter) {
            self.seen += 1;
            recorder.count(Series::Chain, ns);
        }
        let Some(looks) = &mut self.looks_left else { return Flow::Continue };
        if !self.makers.iter().all(Running::is_finished) {
            return Flow::Continue;
        }
        let made: u64 = self.makers.iter().map(Running::made).sum();
        *looks = if self.seen >= made { 0 } else { looks.saturating_sub(1) };
        if *looks == 0 { Flow::Stop } else { Flow::Continue }
    }

    fn end(&mut self) -> Vec<String> {
        let left_out: u64 = self.makers.iter_mut().map(Running::end).sum();
        let made: u64 = self.makers.iter().map(Running::made).sum();
        if let Some(eye) = &mut self.eye {
            eye.close();
        }
        let failures = self.failures.get();
        let mut sentences = Vec::new();
        if failures > 0 {
            sentences.push(format!("{failures} writes to the output did not go through: nobody took what was written"));
        }
        if left_out > 0 {
            sentences
                .push(format!("the generator was itself late and left {left_out} edges out; they are in no count"));
        }
        if self.told.is_some() && self.seen < made {
            let unseen = made - self.seen;
            sentences.push(format!("{unseen} of {made} commands were not seen at the output; they are in no figure"));
        }
        sentences
    }
}

/// A thread that waits for edges of an output and tells when it saw each.
#[derive(Debug)]
struct Eye {
    input: Option<Input>,
    tell: Option<(Marks, Sender<u64>)>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Eye {
    const NAME: &'static str = "onbeat-eye";

    fn on(input: Input, tell: Option<(Marks, Sender<u64>)>) -> Self {
        Self { input: Some(input), tell, stop: Arc::default(), thread: None }
    }

    fn open(&mut self) -> Result<(), ProbeError> {
        let Some(mut input) = self.input.take() else { return Ok(()) };
        let (tell, stop) = (self.tell.take(), self.stop.clone());
        let body = move || {
            while !stop.load(Ordering::Relaxed) {
                let edge = match input.next() {
                    Arrival::Edge(edge) => edge,
                    Arrival::Nothing => continue,
                    Arrival::Over => break,
                };
                let seen = if input.is_line() { edge.at } else { Monotonic.now() };
                if let Some((marks, tell)) = &tell {
                    // Whoever listened may be gone; the edge was seen all the same.
                    let _ = tell.send(seen.ns_since(marks.get(edge.index)));
                }
            }
        };
        let spawned = thread::Builder::new().name(Self::NAME.to_owned()).spawn(body);
        self.thread = Some(spawned.map_err(|source| ProbeError::Thread { what: Self::NAME, source })?);
        Ok(())
    }

    fn close(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Eye {
    fn drop(&mut self) {
        self.close();
    }
}
