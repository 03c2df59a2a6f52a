//! A thread beside a measurement, which ends with its owner.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// A thread with a flag that ends it; dropping this sets the flag and waits for the end.
#[derive(Debug)]
pub struct BackgroundThread<T = ()> {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<T>>,
}

impl<T: Send + 'static> BackgroundThread<T> {
    /// Starts a thread that does `body`, which ends soon after its flag is set.
    ///
    /// # Errors
    /// The system's.
    pub fn start(
        name: &str,
        body: impl FnOnce(&AtomicBool) -> T + Send + 'static,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&stop);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || body(&over))?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl<T> BackgroundThread<T> {
    /// Whether it has ended by itself.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends it, and returns its outcome; `None` where it panicked.
    pub fn finish(mut self) -> Option<T> {
        self.end()
    }

    fn end(&mut self) -> Option<T> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok())
    }
}

impl<T> Drop for BackgroundThread<T> {
    fn drop(&mut self) {
        self.end();
    }
}
