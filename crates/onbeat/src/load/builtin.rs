//! What a built-in part is: threads that load the machine, and count.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;

use super::event::PartWork;
use super::ordinary::be_patient;

/// Enough for every part, small enough for thousands of threads, in bytes.
const STACK: usize = 128 * 1024;

/// A part that needs no program.
pub(super) trait BuiltIn: Send + Sync {
    /// What it does, with its bounds.
    fn plan(&self) -> String;

    /// How many threads it wants.
    fn threads(&self) -> usize;

    /// One of them: works until [`WorkerContext::is_over`], or tells what went wrong.
    fn work(&self, thread: usize, desk: &WorkerContext) -> Result<(), std::io::Error>;

    /// Its counts, `elapsed` after its start.
    fn did(&self, elapsed: Duration) -> PartWork;

    /// Wakes threads that wait for each other, after the end was set.
    fn unblock(&self) {}
}

/// What happened in a thread of a built-in part.
#[derive(Debug)]
pub(super) enum ThreadMessage {
    /// The thread cannot go on.
    Failed(std::io::Error),
    /// The part goes on, smaller.
    Smaller {
        /// What it does now.
        by: String,
        /// Why.
        why: String,
    },
}

/// Where a thread learns that it is over, and tells what happened.
pub(super) struct WorkerContext {
    over: Arc<AtomicBool>,
    part: usize,
    tell: Sender<(usize, ThreadMessage)>,
}

impl WorkerContext {
    /// Whether the load is to end.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Tells that the part goes on smaller.
    pub(super) fn smaller(&self, by: String, why: String) {
        self.say(ThreadMessage::Smaller { by, why });
    }

    fn say(&self, word: ThreadMessage) {
        // Nobody listens any more once the load is over.
        let _ = self.tell.send((self.part, word));
    }

    /// Sleeps in short pieces, so that the end is seen within 20 ms.
    pub(super) fn pause(&self, time: Duration) {
        let piece = Duration::from_millis(20);
        let mut left = time;
        while !self.is_over() && !left.is_zero() {
            std::thread::sleep(left.min(piece));
            left = left.saturating_sub(piece);
        }
    }
}

/// A built-in part at work.
pub(super) struct RunningThreads {
    pub(super) part: Arc<dyn BuiltIn>,
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl RunningThreads {
    /// Starts its threads, which tell under the number `index`. A machine that has no room for more threads gets fewer,
    /// and that is told.
    pub(super) fn start(part: Arc<dyn BuiltIn>, index: usize, tell: &Sender<(usize, ThreadMessage)>) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        let wanted = part.threads();
        for thread in 0..wanted {
            let desk = WorkerContext { over: over.clone(), part: index, tell: tell.clone() };
            let worker = part.clone();
            let body = move || {
                be_patient();
                if let Err(error) = worker.work(thread, &desk)
                    && !desk.is_over()
                {
                    desk.say(ThreadMessage::Failed(error));
                }
            };

            match std::thread::Builder::new().name("onbeat-load".to_owned()).stack_size(STACK).spawn(body) {
                Ok(handle) => threads.push(handle),
                Err(error) => {
                    let word = match threads.len() {
                        0 => ThreadMessage::Failed(error),
                        had => ThreadMessage::Smaller {
                            by: format!("{had} of {wanted} threads"),
                            why: format!("no more threads can be started: {error}"),
                        },
                    };

                    // The receiver outlives the parts.
                    let _ = tell.send((index, word));
                    break;
                }
            }
        }

        Self { part, over, threads }
    }

    /// Tells the threads that it is over, without waiting for them.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.part.unblock();
    }

    /// Whether a thread is still at work.
    pub(super) fn is_alive(&self) -> bool {
        self.threads.iter().any(|thread| !thread.is_finished())
    }

    /// Waits for the threads.
    pub(super) fn join(&mut self) {
        for thread in self.threads.drain(..) {
            // A panic has been seen already: the part's counts stand still.
            let _ = thread.join();
        }
    }
}

/// One part for some time, for the parts' own tests.
#[cfg(test)]
pub(super) fn try_out(part: Arc<dyn BuiltIn>, time: Duration) -> (PartWork, Vec<ThreadMessage>) {
    let (tell, told) = std::sync::mpsc::channel();
    let started = std::time::Instant::now();
    let mut at_work = RunningThreads::start(part, 0, &tell);
    std::thread::sleep(time);
    let did = at_work.part.did(started.elapsed());
    at_work.end();
    at_work.join();
    drop(tell);

    (did, told.into_iter().map(|(_, word)| word).collect())
}
