//! `--wait`: a bench that starts when the one that measures now has ended.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use onbeat::probe::Interruptions;
use onbeat_tune::{LiveHost, journal};

use crate::term::{Tone, advise};

/// How often is looked whether Ctrl-C was pressed.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How many such looks go by between two at the other onbeat, which measures and is not to be disturbed.
const LOOKS: u32 = 10;

/// Waits until no other onbeat changes this machine. `false` when it was asked to stop before.
pub(crate) fn until_free(directory: &Path, is_quiet: bool, interruptions: &Interruptions) -> bool {
    let host = LiveHost::new();
    let mut waited_for = None;
    while let Some(holder) = journal::at_work(directory, &host) {
        if !is_quiet && waited_for.as_ref() != Some(&holder) {
            advise(Tone::Faint, &format!("waiting for another onbeat to end: {holder}; Ctrl-C ends the wait"));
        }

        waited_for = Some(holder);
        if !pause(interruptions) {
            return false;
        }
    }

    true
}

/// Waits for the time between two looks. `false` when it was asked to stop.
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
