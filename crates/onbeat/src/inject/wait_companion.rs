//! A thread that makes a cycle wait: it holds a lock, answers a request, or prepares a file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, Thread};

use super::actor::{apply_request, other_cpu};
use super::error::Error;
use super::plan::InjectionPlan;
use onbeat_host::thread::ThreadRequest;

/// A thread on another CPU than the loop's, if there is one, that ends when it is dropped.
#[derive(Debug)]
pub(super) struct WaitCompanion {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl WaitCompanion {
    pub(super) fn start(
        wanted: ThreadRequest,
        body: impl FnOnce(&AtomicBool) + Send + 'static,
    ) -> Result<Self, Error> {
        let over = Arc::new(AtomicBool::new(false));
        let is_over = over.clone();
        let body = move || {
            apply_request(wanted);
            body(&is_over);
        };

        let thread = thread::Builder::new()
            .name("onbeat-inject".to_owned())
            .spawn(body)
            .map_err(Error::Thread)?;
        Ok(Self { over, thread: Some(thread) })
    }

    /// Asks the thread to end at its next check.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    /// Wakes the thread.
    pub(super) fn wake(&self) {
        if let Some(thread) = self.thread() {
            thread.unpark();
        }
    }

    /// The thread, for another companion to wake.
    pub(super) fn thread(&self) -> Option<&Thread> {
        self.thread.as_ref().map(JoinHandle::thread)
    }
}

impl Drop for WaitCompanion {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic is a bug; what was logged before is still valid.
            let _ = thread.join();
        }
    }
}

/// Returns the request for a thread that must react quickly: a priority above the loop's, if
/// granted.
pub(super) fn above_the_loop(plan: &InjectionPlan) -> ThreadRequest {
    ThreadRequest { fifo: Some((plan.target.priority + 1).min(98)), ..off_the_loops_cpu(plan) }
}

pub(super) fn off_the_loops_cpu(plan: &InjectionPlan) -> ThreadRequest {
    ThreadRequest {
        cpu: other_cpu(plan.target.cpu).or(Some(plan.target.cpu)),
        ..ThreadRequest::default()
    }
}
