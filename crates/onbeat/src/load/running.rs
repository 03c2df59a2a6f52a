//! The two ends of a load: [`serve`] in the process that carries it, [`RunningLoad`] in the one that started it.
//!
//! The starter holds the carrier's standard input: its end is "stop", and comes by itself when the starter dies,
//! however it dies. The carrier writes one [`LoadMessage`] of JSON for each event and one for the report.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::event::{LoadEventKind, LoadNotice, LoadReport};
use super::process::{kill_session, session_identity};
use super::run::{Error, Options, supervise};
use super::spec::Load;

/// How long a load may take to start: memory is filled and hundreds of processes are forked.
const START_TIME: Duration = Duration::from_secs(20);
/// How long a load may take to end: a second in good order, five by force, and what a disk needs.
const STOP_TIME: Duration = Duration::from_secs(15);

/// One line between the carrier of a load and its starter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadMessage {
    /// Something happened.
    Event(LoadNotice),
    /// It has ended; the last line.
    Report(LoadReport),
    /// It could not start, and why; the last line.
    Failed(String),
}

/// Carries `load` in this process as [`supervise`] does, and writes [`LoadMessage`]s to `output` (standard output). Ends when the starter
/// closes `input` (standard input), is gone, or by a signal.
///
/// # Errors
/// When the load cannot start; that has been written to `output` too.
pub fn serve(load: &Load, options: Options, input: OwnedFd, output: &mut dyn Write) -> Result<LoadReport, Error> {
    let options = Options { parent_pipe: Some(input), ..options };
    // A starter that reads no more is gone, and its end of the pipe says so.
    let mut write = |line: &LoadMessage| {
        if let Ok(text) = serde_json::to_string(line) {
            let _ = writeln!(output, "{text}").and_then(|()| output.flush());
        }
    };

    let outcome = supervise(load, &options, &AtomicBool::new(false), &mut |event| write(&LoadMessage::Event(event)));
    match &outcome {
        Ok(report) => write(&LoadMessage::Report(report.clone())),
        Err(error) => write(&LoadMessage::Failed(error.to_string())),
    }

    outcome
}

/// Why a load does not run, or did not report.
#[derive(Debug, thiserror::Error)]
pub enum RunningError {
    /// The process that is to carry it cannot be started.
    #[error("cannot start {program}: {why}")]
    Spawn {
        /// The program.
        program: String,
        /// Why.
        why: std::io::Error,
    },
    /// It could not start.
    #[error("{0}")]
    Failed(String),
    /// Nobody could be started to listen to it.
    #[error("cannot start a thread that listens to it: {why}; the limit of threads (ulimit -u) may be reached")]
    Thread {
        /// The system's answer.
        why: std::io::Error,
    },
    /// It said nothing for too long, and was killed.
    #[error("the load said nothing for {seconds} s and was ended by force ({killed} processes)")]
    Silent {
        /// How long was waited.
        seconds: u64,
        /// How many processes were killed.
        killed: usize,
    },
    /// Its process ended without a report, and what it left was killed.
    #[error("the load's process ended without a report; {killed} processes that it left were killed")]
    Lost {
        /// How many processes were killed.
        killed: usize,
    },
}

/// A load that runs in a process of its own. Dropping it ends the load.
///
/// The thread that starts it must live as long as the load: the kernel tells the carrier of its end.
#[derive(Debug)]
pub struct RunningLoad {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<LoadMessage>,
    identity: Option<(i32, u64)>,
    events: Vec<LoadNotice>,
    last: Option<LoadMessage>,
}

impl RunningLoad {
    /// Starts `carrier`, a command whose process calls [`serve`] with its standard input and output, and returns when all parts
    /// of the load run.
    ///
    /// # Errors
    /// When it cannot be started, fails, or is silent for 20 s; nothing of it is left then.
    pub fn start(mut carrier: Command) -> Result<Self, RunningError> {
        let program = carrier.get_program().to_string_lossy().into_owned();
        carrier.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = carrier.spawn().map_err(|why| RunningError::Spawn { program, why })?;
        let (send, lines) = channel();
        if let Some(output) = child.stdout.take() {
            let listen = move || {
                for text in BufReader::new(output).lines().map_while(Result::ok) {
                    if let Ok(line) = serde_json::from_str(&text)
                        && send.send(line).is_err()
                    {
                        return;
                    }
                }
            };
            if let Err(why) = std::thread::Builder::new().name("onbeat-listen".to_owned()).spawn(listen) {
                // Nobody listens to it, so it must not begin; the end of its input ends it, by force if need be.
                drop(Self::new(child, lines));
                return Err(RunningError::Thread { why });
            }
        }

        let mut running = Self::new(child, lines);
        let is_start = |line: &LoadMessage| !matches!(line, LoadMessage::Event(event) if !matches!(event.what, LoadEventKind::Started { .. }));
        match running.wait_for(START_TIME, is_start)? {
            LoadMessage::Failed(why) => Err(RunningError::Failed(why)),
            _ => {
                running.identity = session_identity(running.child.id().cast_signed());
                Ok(running)
            }
        }
    }

    fn of(mut child: Child, lines: Receiver<LoadMessage>) -> Self {
        let input = child.stdin.take();
        Self { child, input, lines, identity: None, events: Vec::new(), last: None }
    }

    /// The session and start time of its process, for [`kill_session`] by a later start.
    #[must_use]
    pub const fn identity(&self) -> Option<(i32, u64)> {
        self.identity
    }

    /// The events since the last call, in order; the first call's begin with the start.
    pub fn events(&mut self) -> Vec<LoadNotice> {
        while let Ok(line) = self.lines.try_recv() {
            self.keep(line);
        }
        std::mem::take(&mut self.events)
    }

    /// Ends it, and waits until nothing of it is left. Events that came since the last call of [`RunningLoad::events`]
    /// come along.
    ///
    /// # Errors
    /// When it did not report within 15 s; it was killed then.
    pub fn stop(mut self) -> Result<(LoadReport, Vec<LoadNotice>), RunningError> {
        drop(self.input.take());
        let line = match self.last.take() {
            Some(line) => line,
            None => self.wait_for(STOP_TIME, |line| !matches!(line, LoadMessage::Event(_)))?,
        };

        // It has nothing left to do but to exit.
        let _ = self.child.wait();
        match line {
            LoadMessage::Report(report) => Ok((report, std::mem::take(&mut self.events))),
            LoadMessage::Failed(why) => Err(RunningError::Failed(why)),
            LoadMessage::Event(_) => Err(RunningError::Lost { killed: 0 }),
        }
    }

    fn keep(&mut self, line: LoadMessage) {
        match line {
            LoadMessage::Event(event) => self.events.push(event),
            line => self.last = Some(line),
        }
    }

    fn wait_for(&mut self, time: Duration, wanted: impl Fn(&LoadMessage) -> bool) -> Result<LoadMessage, RunningError> {
        let until = Instant::now() + time;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    let found = wanted(&line);
                    if let LoadMessage::Event(event) = &line {
                        self.events.push(event.clone());
                    }
                    if found {
                        return Ok(line);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    return Err(RunningError::Silent { seconds: time.as_secs(), killed: self.kill() });
                }
                Err(RecvTimeoutError::Disconnected) => return Err(RunningError::Lost { killed: self.kill() }),
            }
        }
    }

    fn kill(&mut self) -> usize {
        let own = self.child.id().cast_signed();
        let identity = self.identity.or_else(|| session_identity(own));
        // The identity outlives its process only as long as nobody waits for it.
        let killed = identity.map_or(0, |(sid, start_ticks)| kill_session(sid, start_ticks));
        let _ = self.child.kill();
        let _ = self.child.wait();

        killed
    }
}

impl Drop for RunningLoad {
    fn drop(&mut self) {
        drop(self.input.take());
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }

        let until = Instant::now() + STOP_TIME;
        while Instant::now() < until {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }

        self.kill();
    }
}
