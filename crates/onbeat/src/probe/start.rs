//! The start of a run: its instant by both clocks, the time before its first release, and the
//! kernel's tick.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use onbeat_rt::sys::{Monotonic, Tick, tick};
use onbeat_rt::{Clock, Instant};

/// Between the decision to start and the first release, in nanoseconds: thread start, priority,
/// touched stack.
pub(super) const LEAD_NS: u64 = 30_000_000;

/// The start of a run, by both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// By `CLOCK_MONOTONIC`, the clock of the releases.
    pub at: Instant,
    /// By the wall clock, in seconds since 1970.
    pub unix_s: f64,
}

impl Origin {
    /// Reads both clocks.
    #[must_use]
    pub fn now() -> Self {
        let unix_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        Self { at: Monotonic.now(), unix_s }
    }
}

/// Returns the phase of the kernel's tick, from the earliest of several readings: each is late by
/// one interrupt's latency.
pub(super) fn steady_tick() -> Tick {
    let first = tick();
    let half = first.every_ns / 2;
    // Distances from the first reading, turned around the grid so that early ones come before late
    // ones.
    let turned =
        |offset_ns: u64| (offset_ns + first.every_ns + half - first.offset_ns) % first.every_ns;
    let readings = (0..8).map(|_| {
        thread::sleep(Duration::from_nanos(first.every_ns));
        tick()
    });

    readings.min_by_key(|reading| turned(reading.offset_ns)).unwrap_or(first)
}
