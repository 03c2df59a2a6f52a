//! The flight recorder that the polling threads of a process share: each one more would record every
//! event once more.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use onbeat_cause::{FlightRecorder, FlightSetting, TraceError, Window};
use onbeat_rt::Instant;
use rustix::process::getpid;

type Recorder = Mutex<FlightRecorder>;

/// The recorder of this process, as long as one of its polling threads uses it.
static OPEN: Mutex<Weak<Recorder>> = Mutex::new(Weak::new());

/// A part in it.
pub(super) struct SharedRecorder(Arc<Recorder>);

impl SharedRecorder {
    /// Opens the recorder, or takes part in the one that is open.
    pub(super) fn open() -> Result<Self, TraceError> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = open.upgrade() {
            return Ok(Self(there));
        }
        let own = getpid().as_raw_nonzero().get().unsigned_abs();
        let setting = FlightSetting { tid: Some(own), ..FlightSetting::default() };
        let new = Arc::new(Mutex::new(FlightRecorder::open(&setting)?));
        *open = Arc::downgrade(&new);
        Ok(Self(new))
    }

    fn with<T>(&self, of: impl FnOnce(&mut FlightRecorder) -> T) -> T {
        of(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Follows a thread, of several the last one: a filter that the kernel refuses leaves wake-ups
    /// unrecorded, which no gap needs.
    pub(super) fn follow(&self, tid: u32) {
        let _ = self.with(|flight| flight.follow(tid));
    }

    /// Returns the events of `cpu` between two instants.
    pub(super) fn window(
        &self,
        cpu: u32,
        from: Instant,
        to: Instant,
    ) -> Result<Window, TraceError> {
        self.with(|flight| flight.window_of(Some(cpu), from, to))
    }

    /// Reads the kernel's buffers before they are overwritten.
    pub(super) fn keep_watch(&self) {
        // What cannot be read leaves its gaps unexplained.
        let _ = self.with(FlightRecorder::keep_watch);
    }
}
