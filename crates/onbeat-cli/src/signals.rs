//! Ctrl-C, SIGTERM, SIGHUP and SIGCONT, as flags that a run looks at.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use onbeat::probe::Interruptions;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::cmd::Failure;

/// Starts to watch signals. The first one that asks to stop ends the run in good order; a second one ends the process, and
/// what it leaves is put back by the next start.
pub(crate) fn watch() -> Result<Arc<Interruptions>, Failure> {
    let interruptions = Arc::new(Interruptions::default());
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGCONT]).map_err(Failure::Signals)?;
    let seen = Arc::clone(&interruptions);
    thread::spawn(move || {
        for signal in &mut signals {
            if signal == SIGCONT {
                seen.continued.fetch_add(1, Ordering::Relaxed);
            } else if seen.stop.swap(true, Ordering::Relaxed) {
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        }
    });
    Ok(interruptions)
}
