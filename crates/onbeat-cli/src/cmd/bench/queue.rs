//! `--wait`: starts a bench when the running one has ended.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use onbeat::probe::Interruptions;
use onbeat_tune::{LiveHost, journal};

use crate::term::{Tone, advise};

/// Interval between two checks for Ctrl-C.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Checks for Ctrl-C between two looks at the other onbeat, which must not be disturbed.
const LOOKS: u32 = 10;

/// Waits until no other onbeat changes this machine; returns `false` after a request to stop.
pub(crate) fn until_free(directory: &Path, is_quiet: bool, interruptions: &Interruptions) -> bool {
    let host = LiveHost::new();
    let mut waited_for = None;
    while let Some(holder) = journal::at_work(directory, &host) {
        if !is_quiet && waited_for.as_ref() != Some(&holder) {
            advise(
                Tone::Faint,
                &format!("waiting for another onbeat to end: {holder}; Ctrl-C ends the wait"),
            );
        }

        waited_for = Some(holder);
        if !pause(interruptions) {
            return false;
        }
    }

    true
}

/// Waits for the time between two looks; returns `false` after a request to stop.
pub(crate) fn pause(interruptions: &Interruptions) -> bool {
    for _ in 0..LOOKS {
        if interruptions.stop.load(Ordering::Relaxed) {
            advise(Tone::Careful, "stopped waiting; nothing was measured");
            return false;
        }
        thread::sleep(LOOK_EVERY);
    }
    true
}
