//! Built-in parts of a load: threads that load the machine and count their work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;

use super::event::PartWork;
use super::ordinary::restore_priority;

/// Stack size, in bytes: sufficient for every part, and small enough for thousands of threads.
const STACK: usize = 128 * 1024;

/// A part of a load that needs no external program.
pub(super) trait BuiltIn: Send + Sync {
    /// Returns what the part does, with its limits.
    fn plan(&self) -> String;

    /// Returns the number of threads to start.
    fn threads(&self) -> usize;

    /// Body of one thread: works until [`WorkerContext::is_over`].
    fn work(&self, thread: usize, context: &WorkerContext) -> Result<(), std::io::Error>;

    /// Returns the counts, `elapsed` after the start.
    fn did(&self, elapsed: Duration) -> PartWork;

    /// Wakes threads that wait for each other, after the end was requested.
    fn unblock(&self) {}
}

/// A message from a thread of a built-in part.
#[derive(Debug)]
pub(super) enum ThreadMessage {
    /// The thread failed.
    Failed(std::io::Error),
    /// The part continues with less work.
    Smaller {
        /// Description of the smaller work.
        by: String,
        /// The reason.
        why: String,
    },
}

/// Context of a worker thread: shows the end of the load, and sends messages to the supervisor.
pub(super) struct WorkerContext {
    over: Arc<AtomicBool>,
    part: usize,
    messages: Sender<(usize, ThreadMessage)>,
}

impl WorkerContext {
    /// Whether the load must end.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Reports that the part continues with less work.
    pub(super) fn smaller(&self, by: String, why: String) {
        self.say(ThreadMessage::Smaller { by, why });
    }

    fn say(&self, word: ThreadMessage) {
        // The receiver is gone after the end of the load.
        let _ = self.messages.send((self.part, word));
    }

    /// Sleeps in short pieces, so that the end of the load is noticed within 20 ms.
    pub(super) fn pause(&self, time: Duration) {
        let piece = Duration::from_millis(20);
        let mut left = time;
        while !self.is_over() && !left.is_zero() {
            std::thread::sleep(left.min(piece));
            left = left.saturating_sub(piece);
        }
    }
}

/// The running threads of a built-in part.
pub(super) struct RunningThreads {
    pub(super) part: Arc<dyn BuiltIn>,
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl RunningThreads {
    /// Starts the threads, which send messages with the number `index`. If the system refuses to
    /// start more threads, the part runs with fewer and reports it.
    pub(super) fn start(
        part: Arc<dyn BuiltIn>,
        index: usize,
        messages: &Sender<(usize, ThreadMessage)>,
    ) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        let wanted = part.threads();
        for thread in 0..wanted {
            let context =
                WorkerContext { over: over.clone(), part: index, messages: messages.clone() };
            let worker = part.clone();
            let body = move || {
                restore_priority();
                if let Err(error) = worker.work(thread, &context)
                    && !context.is_over()
                {
                    context.say(ThreadMessage::Failed(error));
                }
            };

            match std::thread::Builder::new()
                .name("onbeat-load".to_owned())
                .stack_size(STACK)
                .spawn(body)
            {
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
                    let _ = messages.send((index, word));
                    break;
                }
            }
        }

        Self { part, over, threads }
    }

    /// Requests the end of the threads, without waiting for them.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.part.unblock();
    }

    /// Whether any thread is still running.
    pub(super) fn is_alive(&self) -> bool {
        self.threads.iter().any(|thread| !thread.is_finished())
    }

    /// Waits for the threads to end.
    pub(super) fn join(&mut self) {
        for thread in self.threads.drain(..) {
            // A panic shows already: the part's counts do not move.
            let _ = thread.join();
        }
    }
}

/// Runs a part until it has done enough, or for a minute, for the tests of the parts. Returns its
/// counts when its threads have ended.
#[cfg(test)]
pub(super) fn try_out(
    part: Arc<dyn BuiltIn>,
    mut is_enough: impl FnMut(&PartWork) -> bool,
) -> (PartWork, Vec<ThreadMessage>) {
    const PATIENCE: Duration = Duration::from_secs(60);
    let (messages, received) = std::sync::mpsc::channel();
    let started = std::time::Instant::now();
    let mut threads = RunningThreads::start(part, 0, &messages);
    while !is_enough(&threads.part.did(started.elapsed())) && started.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(4));
    }

    threads.end();
    threads.join();
    let did = threads.part.did(started.elapsed());
    drop(messages);
    (did, received.into_iter().map(|(_, word)| word).collect())
}
