//! Requests to a running measurement.

use std::sync::atomic::{AtomicBool, AtomicU64};

/// Requests that reach the process while it measures, most of them by signals.
#[derive(Debug, Default)]
pub struct Interruptions {
    /// End the run in good order.
    pub stop: AtomicBool,
    /// Show the results so far; the thread that shows them clears it.
    pub summary: AtomicBool,
    /// How often the process was continued after a stop.
    pub continued: AtomicU64,
}
