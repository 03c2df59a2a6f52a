//! The process of a cell, at both ends of its pipes: [`CellServer`] in the cell, [`CellProcess`] in
//! the bench.
//!
//! Memory locking belongs to a process, so each cell has one of its own. It lives as long as the
//! bench, and waits on its standard input between blocks; when that ends, because the bench closed
//! it or died, it closes its run file and exits.

use std::cell::RefCell;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::cell_start::CellStart;
use crate::json_lines;
use crate::probe::description::Parts;
use crate::probe::{BlockPlan, Interruptions, Run, RunError, SpikeExplainer};
use onbeat_cause::{Explanation, KeptWindow, LoopThread, SpikeFacts};
use onbeat_host::thread::Grant;
use onbeat_record::Progress;

/// A request of the bench to a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellRequest {
    /// Run one block.
    Block {
        /// Its index within the cell, from 0.
        index: u32,
        /// Its length.
        releases: u64,
    },
    /// The explanation of the spike that the cell reported last.
    Explained(Explanation),
    /// The events around that spike; `None` when none were recorded.
    Window(Option<KeptWindow>),
}

/// A message of a cell to the bench.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellReply {
    /// The cell is prepared, with these grants.
    Ready(Vec<Grant>),
    /// The thread that runs the loop from now on.
    Loop(LoopThread),
    /// A spike; the cell waits for its explanation.
    Late(SpikeFacts),
    /// The run file keeps the spike reported last; the cell waits for the events around it.
    Around,
    /// A block is complete; the results of the cell so far.
    Done(Progress),
    /// The run file is closed.
    Closed,
    /// The cell cannot continue, for this reason.
    Failed(String),
}

/// The cell's end of the pipes: serves the requests of a bench.
pub struct CellServer {
    /// The run that the blocks belong to.
    pub run: Run,
    /// The load's name, for the run file.
    pub load: String,
    /// Signals, and the end of the requests.
    pub interruptions: Arc<Interruptions>,
    /// Whether the bench explains the spikes of this cell.
    pub explain: bool,
}

impl CellServer {
    /// Runs blocks of a loop in this process on request until `requests` end, then closes the run
    /// file. `parts` are the probe: loop, figures, companion.
    ///
    /// # Errors
    /// [`RunError`], which the bench receives as [`CellReply::Failed`] as well.
    pub fn serve_loop(
        self,
        mut parts: Parts,
        requests: impl io::Read + Send + 'static,
        replies: impl Write + 'static,
    ) -> Result<(), RunError> {
        self.serve(requests, replies, |mut run, blocks| {
            let mut probe = run.begin(&mut parts)?;
            let served = blocks.each(|block, interruptions| {
                probe.block(block, interruptions, &mut |_| {})?;
                Ok(probe.recorder().progress())
            });
            served.and(probe.end())?;
            run.close().map(drop)
        })
    }

    /// Has `measure` record blocks on request until `requests` end, where something else than a
    /// loop of this process is measured; then closes the run file.
    ///
    /// # Errors
    /// Those of `measure` and [`RunError`], which the bench receives as [`CellReply::Failed`] as
    /// well.
    pub fn serve_blocks<E: From<RunError> + std::fmt::Display>(
        self,
        requests: impl io::Read + Send + 'static,
        replies: impl Write + 'static,
        mut measure: impl FnMut(&mut Run, &BlockPlan<'_>, &Interruptions) -> Result<(), E>,
    ) -> Result<(), E> {
        self.serve(requests, replies, |mut run, blocks| {
            let served = blocks.each(|block, interruptions| {
                measure(&mut run, block, interruptions)?;
                Ok(run.recorder().progress())
            });
            // What was measured before a block that failed is kept.
            run.close()?;
            served
        })
    }

    fn serve<E: From<RunError> + std::fmt::Display>(
        self,
        requests: impl io::Read + Send + 'static,
        replies: impl Write + 'static,
        measure_all: impl FnOnce(Run, &RequestedBlocks) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { mut run, load, interruptions, explain } = self;
        let replies: Rc<RefCell<dyn Write>> = Rc::new(RefCell::new(replies));
        let stopped = Arc::clone(&interruptions);
        // The end of the requests must stop a block in progress.
        let stop = move || stopped.stop.store(true, Ordering::Relaxed);
        let requests = json_lines::receive("onbeat-requests", requests, false, stop);
        let served = requests.map_err(|why| E::from(RunError::Thread(why))).and_then(|requests| {
            let pipes = BenchPipes { requests: Rc::new(requests), replies: Rc::clone(&replies) };
            if explain {
                run.explain_by(Some(Box::new(pipes.clone())));
            }
            let grants = run.grants().to_vec();
            measure_all(run, &RequestedBlocks { grants, load, interruptions, pipes })
        });
        let closed = match &served {
            Ok(()) => CellReply::Closed,
            Err(why) => CellReply::Failed(why.to_string()),
        };
        send(&replies, &closed);
        served
    }
}

/// The blocks that a bench asks a cell for.
struct RequestedBlocks {
    grants: Vec<Grant>,
    load: String,
    interruptions: Arc<Interruptions>,
    pipes: BenchPipes,
}

impl RequestedBlocks {
    /// Reports that the cell is prepared, measures block after block until the requests end, and
    /// reports each.
    fn each<E>(
        &self,
        mut measure: impl FnMut(&BlockPlan<'_>, &Interruptions) -> Result<Progress, E>,
    ) -> Result<(), E> {
        let BenchPipes { requests, replies } = &self.pipes;
        send(replies, &CellReply::Ready(self.grants.clone()));
        while let Ok(CellRequest::Block { index, releases }) = requests.recv() {
            let block = BlockPlan { index, load: &self.load, releases };
            let progress = measure(&block, &self.interruptions)?;
            send(replies, &CellReply::Done(progress));
        }
        Ok(())
    }
}

/// The pipes to the bench and from it. By them the run reaches the flight recorder of the bench: all
/// cells share one, since opening one takes longer than a short block. While a block runs, all that
/// the bench sends is what the run has asked for.
#[derive(Clone)]
struct BenchPipes {
    requests: Rc<Receiver<CellRequest>>,
    replies: Rc<RefCell<dyn Write>>,
}

/// Sends a reply. A bench that does not read any more has died; the end of the requests ends the
/// cell then.
fn send(replies: &RefCell<dyn Write>, reply: &CellReply) {
    let _ = json_lines::write(&mut *replies.borrow_mut(), reply);
}

impl SpikeExplainer for BenchPipes {
    fn follow(&mut self, thread: LoopThread) {
        send(&self.replies, &CellReply::Loop(thread));
    }

    fn explain(&mut self, facts: &SpikeFacts) -> Option<Explanation> {
        send(&self.replies, &CellReply::Late(*facts));
        // The end of the requests ends this too.
        match self.requests.recv() {
            Ok(CellRequest::Explained(explanation)) => Some(explanation),
            _ => None,
        }
    }

    fn window(&mut self) -> Option<KeptWindow> {
        send(&self.replies, &CellReply::Around);
        match self.requests.recv() {
            Ok(CellRequest::Window(window)) => window,
            _ => None,
        }
    }
}

/// A cell's process could not be used.
#[derive(Debug, thiserror::Error)]
pub enum CellError {
    /// It could not be started.
    #[error("cannot start a process for cell {cell}: {source}")]
    Start {
        /// Which cell.
        cell: String,
        /// The system's answer.
        source: io::Error,
    },
    /// It reported why it cannot continue.
    #[error("cell {cell}: {why}")]
    Failed {
        /// Which cell.
        cell: String,
        /// The reason that it reported.
        why: String,
    },
    /// It ended without a report.
    #[error(
        "the process of cell {cell} ended unexpectedly ({status}); was it killed? What it recorded before is kept"
    )]
    Gone {
        /// Which cell.
        cell: String,
        /// How it ended.
        status: String,
    },
}

/// The bench's end of the pipes.
pub struct CellProcess {
    name: String,
    child: Child,
    requests: Option<ChildStdin>,
    replies: Receiver<CellReply>,
    /// What was requested for its process, and whether it was granted.
    pub grants: Vec<Grant>,
}

impl CellProcess {
    /// Starts `command` as a process group of its own, so that Ctrl-C reaches the bench alone,
    /// hands it `start`, and waits until it is prepared.
    ///
    /// # Errors
    /// [`CellError`].
    pub fn start(mut command: Command, start: &CellStart) -> Result<Self, CellError> {
        let name = start.cell.to_string();
        let failed = |source| CellError::Start { cell: name.clone(), source };
        let (output, writer) = io::pipe().map_err(failed)?;
        let replies = json_lines::receive("onbeat-replies", output, true, || ());
        let replies = replies.map_err(failed)?;
        command.stdin(Stdio::piped()).stdout(writer).process_group(0);
        let mut child = command.spawn().map_err(failed)?;
        // The command holds the other end of the pipe open.
        drop(command);
        let mut requests = child.stdin.take();
        if let Some(pipe) = &mut requests {
            // A process that has ended already is reported below, with its reason or its status.
            let _ = start.write(pipe);
        }

        let mut cell = Self { name, child, requests, replies, grants: Vec::new() };
        match cell.reply(None)? {
            Some(CellReply::Ready(grants)) => cell.grants = grants,
            _ => return Err(cell.gone()),
        }

        Ok(cell)
    }

    /// Returns the number of its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Requests a block, which ends with [`CellReply::Done`], or sends what [`CellReply::Late`] and
    /// [`CellReply::Around`] wait for.
    ///
    /// # Errors
    /// [`CellError`], when the process has ended.
    pub fn request(&mut self, request: &CellRequest) -> Result<(), CellError> {
        let sent = self.requests.as_mut().map(|pipe| json_lines::write(pipe, request));
        if matches!(sent, Some(Ok(()))) { Ok(()) } else { Err(self.gone()) }
    }

    /// Waits for the next reply; `None` when `wait` passed without one. Without `wait` it waits
    /// without a limit.
    ///
    /// # Errors
    /// [`CellError`], when the process has ended or reported that it cannot continue.
    pub fn reply(&mut self, wait: Option<Duration>) -> Result<Option<CellReply>, CellError> {
        let reply = match wait {
            Some(wait) => self.replies.recv_timeout(wait),
            None => self.replies.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match reply {
            Ok(CellReply::Failed(why)) => Err(CellError::Failed { cell: self.name.clone(), why }),
            Ok(reply) => Ok(Some(reply)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.gone()),
        }
    }

    /// Ends the requests and waits until the run file is closed.
    ///
    /// # Errors
    /// [`CellError`].
    pub fn close(mut self) -> Result<(), CellError> {
        self.requests = None;
        while self.reply(None)? != Some(CellReply::Closed) {}
        let _ = self.child.wait();
        Ok(())
    }

    fn gone(&mut self) -> CellError {
        self.requests = None;
        let status =
            self.child.wait().map_or_else(|why| why.to_string(), |status| status.to_string());
        CellError::Gone { cell: self.name.clone(), status }
    }
}

#[cfg(test)]
mod tests {
    use onbeat_cause::WaitingCall;
    use onbeat_rt::Instant;

    use super::*;

    #[test]
    fn a_bench_explains_by_all_that_the_cell_knows_of_a_spike() {
        let facts = SpikeFacts {
            tid: 7,
            entered_sleep: Some(Instant::from_ns(5)),
            waits_in: Some(WaitingCall { number: 230, first: u64::MAX }),
            ..SpikeFacts::default()
        };
        for facts in [facts, SpikeFacts::default()] {
            let sent = serde_json::to_string(&CellReply::Late(facts)).unwrap();
            assert_eq!(serde_json::from_str::<CellReply>(&sent).unwrap(), CellReply::Late(facts));
        }
    }
}
