//! The two ends of a load: [`serve`] in the process that carries it, [`RunningLoad`] in the one
//! that started it.
//!
//! The starter holds the carrier's standard input: closing it means "stop", and happens by itself
//! however the starter ends. The carrier writes one [`LoadMessage`] in JSON for each event and one
//! for the report.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::error::Error;
use super::event::{LoadNotice, LoadReport};
use super::options::Options;
use super::run::supervise;
use super::spec::Load;
use crate::json_lines;
use onbeat_host::process::{kill_session, session_identity};

/// Maximum time to start a load: memory is filled and hundreds of processes are forked.
const START_TIME: Duration = Duration::from_secs(20);
/// Maximum time to end a load: one second gracefully, five by force, and the time of the disk.
const STOP_TIME: Duration = Duration::from_secs(15);

/// A line of JSON from the carrier of a load to its starter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadMessage {
    /// An event.
    Event(LoadNotice),
    /// The load has ended; the last line.
    Report(LoadReport),
    /// The load could not start, with the reason; the last line.
    Failed(String),
}

/// Carries `load` in this process, and writes [`LoadMessage`]s to `output` (standard output). Ends
/// when the starter closes `input` (standard input) or is gone, or by a signal; then ends all
/// processes of the load.
///
/// The process is for this one load, and ends with it: it becomes the leader of a session and
/// inherits orphans; SIGTERM, SIGINT and SIGHUP end the load; all its new children count as
/// children of the load, and the calling thread stays SCHED_OTHER. The calling thread must not end
/// before the call returns, because its programs get SIGKILL then. SIGPIPE should be ignored, as it
/// is in every Rust program.
///
/// A part that the user named and that cannot start is an error; a part of `paper` that cannot
/// start is an event, with its substitute.
///
/// # Errors
/// [`Error`] if the load cannot start; nothing of it is left then, and the error is also written to
/// `output`.
pub fn serve(
    load: &Load,
    options: &Options,
    input: OwnedFd,
    output: &mut dyn Write,
) -> Result<LoadReport, Error> {
    // A starter that no longer reads is gone, which closes its end of the pipe.
    let mut write = |message: &LoadMessage| drop(json_lines::write(output, message));

    let outcome = supervise(load, options, input, &mut |event| write(&LoadMessage::Event(event)));
    match &outcome {
        Ok(report) => write(&LoadMessage::Report(report.clone())),
        Err(error) => write(&LoadMessage::Failed(error.to_string())),
    }

    outcome
}

/// A load does not run, or did not report.
#[derive(Debug, thiserror::Error)]
pub enum RunningError {
    /// The carrier cannot be started.
    #[error("cannot start {program}: {why}")]
    Spawn {
        /// The program.
        program: String,
        /// The reason.
        why: std::io::Error,
    },
    /// The load could not start.
    #[error("{0}")]
    Failed(String),
    /// The listening thread could not be started.
    #[error(
        "cannot start the thread that reads its messages: {0}; the limit of threads (ulimit -u) may be reached"
    )]
    Thread(std::io::Error),
    /// The load was silent for too long, and was killed.
    #[error(
        "the load was silent for {seconds} s, as one that is too heavy for this machine, and was killed (processes: {killed})"
    )]
    Silent {
        /// Time waited, in seconds.
        seconds: u64,
        /// Number of killed processes.
        killed: usize,
    },
    /// The carrier ended without a report, and its remaining processes were killed.
    #[error("the load's process ended without a report; remaining processes killed: {0}")]
    Lost(usize),
}

/// A load that runs in a separate process. Dropping it ends the load.
///
/// The thread that starts it must live as long as the load: the kernel notifies the carrier when it
/// ends.
#[derive(Debug)]
pub struct RunningLoad {
    child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<LoadMessage>,
    identity: Option<(i32, u64)>,
    events: Vec<LoadNotice>,
    last: Option<LoadMessage>,
}

impl RunningLoad {
    /// Starts `carrier`, a command whose process calls [`serve`] with its standard input and
    /// output. Returns when all parts of the load run.
    ///
    /// # Errors
    /// [`RunningError`] if it cannot be started, fails, or is silent for 20 s; nothing of it is
    /// left then.
    pub fn start(mut carrier: Command) -> Result<Self, RunningError> {
        let program = carrier.get_program().to_string_lossy().into_owned();
        let failed = |why| RunningError::Spawn { program: program.clone(), why };
        let (output, writer) = std::io::pipe().map_err(failed)?;
        let messages = json_lines::receive("onbeat-listen", output, true, || ());
        let messages = messages.map_err(RunningError::Thread)?;
        carrier.stdin(Stdio::piped()).stdout(writer);
        let mut child = carrier.spawn().map_err(failed)?;
        // The command holds the other end of the pipe open.
        drop(carrier);

        let input = child.stdin.take();
        let (identity, events, last) = (None, Vec::new(), None);
        let mut running = Self { child, input, messages, identity, events, last };
        let began = Instant::now();
        while !running.events.iter().any(LoadNotice::is_start) {
            match running.next(began, START_TIME)? {
                LoadMessage::Event(event) => running.events.push(event),
                LoadMessage::Report(_) => break,
                LoadMessage::Failed(why) => return Err(RunningError::Failed(why)),
            }
        }
        running.identity = session_identity(running.child.id().cast_signed());
        Ok(running)
    }

    /// Returns session and start time of the carrier, for [`kill_session`] at a later start of
    /// onbeat.
    #[must_use]
    pub const fn identity(&self) -> Option<(i32, u64)> {
        self.identity
    }

    /// Returns the events since the last call, in order, from the start of the load on.
    pub fn events(&mut self) -> Vec<LoadNotice> {
        for message in self.messages.try_iter() {
            match message {
                LoadMessage::Event(event) => self.events.push(event),
                message => self.last = Some(message),
            }
        }
        std::mem::take(&mut self.events)
    }

    /// Ends the load, and waits until nothing of it is left. Also returns the events since the last
    /// call of [`RunningLoad::events`].
    ///
    /// # Errors
    /// [`RunningError`] if it does not report within 15 s; it is killed then.
    pub fn stop(mut self) -> Result<(LoadReport, Vec<LoadNotice>), RunningError> {
        drop(self.input.take());
        let began = Instant::now();
        let ended = loop {
            let last = self.last.take();
            match last.map_or_else(|| self.next(began, STOP_TIME), Ok)? {
                LoadMessage::Event(event) => self.events.push(event),
                LoadMessage::Report(report) => break Ok(report),
                LoadMessage::Failed(why) => break Err(RunningError::Failed(why)),
            }
        };

        // All that remains for it is to exit.
        let _ = self.child.wait();
        Ok((ended?, std::mem::take(&mut self.events)))
    }

    /// Waits for the next message, until `time` has passed since the wait began.
    fn next(&mut self, began: Instant, time: Duration) -> Result<LoadMessage, RunningError> {
        self.messages.recv_timeout(time.saturating_sub(began.elapsed())).map_err(|why| match why {
            RecvTimeoutError::Timeout => {
                RunningError::Silent { seconds: time.as_secs(), killed: self.kill() }
            }
            RecvTimeoutError::Disconnected => RunningError::Lost(self.kill()),
        })
    }

    fn kill(&mut self) -> usize {
        let own = self.child.id().cast_signed();
        let identity = self.identity.or_else(|| session_identity(own));
        // The identity is valid until its process is reaped.
        let killed = identity.and_then(|(sid, start_ticks)| kill_session(sid, start_ticks).ok());
        let _ = self.child.kill();
        let _ = self.child.wait();

        killed.unwrap_or(0)
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
