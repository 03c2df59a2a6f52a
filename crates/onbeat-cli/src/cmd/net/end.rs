//! The end of `--for`, for devices and boards that would serve on.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use onbeat::probe::Interruptions;

/// How often the end of `--for` is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Stops devices or a board at the end of `--for`.
pub(super) fn end_in_time(interruptions: &Arc<Interruptions>, duration_ns: u64) {
    if duration_ns == 0 {
        return;
    }
    let until = Instant::now() + Duration::from_nanos(duration_ns);
    let interruptions = Arc::clone(interruptions);
    thread::spawn(move || {
        while Instant::now() < until && !interruptions.stop.load(Ordering::Relaxed) {
            thread::sleep(LOOK_EVERY);
        }
        interruptions.stop.store(true, Ordering::Relaxed);
    });
}
