//! A thread of the injector: it disturbs the loop, watches its CPU, or makes a cycle wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, Thread};

use super::actor::{apply_request, other_cpu};
use super::error::Error;
use super::plan::InjectionPlan;
use onbeat_host::thread::ThreadRequest;

/// A thread that ends when it is dropped.
#[derive(Debug)]
pub(super) struct InjectorThread {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl InjectorThread {
    /// Starts `body`, with what is permitted of `wanted`; it ends soon after its flag is set.
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
    pub(super) fn ask_to_end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    /// Ends the thread, and waits for it.
    pub(super) fn end(&mut self) {
        self.ask_to_end();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic is a bug; what was logged before is still valid.
            let _ = thread.join();
        }
    }

    /// Whether the thread has ended.
    pub(super) fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Wakes the thread.
    pub(super) fn wake(&self) {
        if let Some(thread) = self.thread() {
            thread.unpark();
        }
    }

    /// The thread, for another one to wake.
    pub(super) fn thread(&self) -> Option<&Thread> {
        self.thread.as_ref().map(JoinHandle::thread)
    }
}

impl Drop for InjectorThread {
    fn drop(&mut self) {
        self.end();
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
