//! Ctrl-C, SIGTERM, SIGHUP, SIGCONT and SIGUSR1, as flags that a run polls.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use onbeat::probe::Interruptions;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::state;
use crate::term::{Tone, advise};

/// Reaction to SIGUSR1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnUsr1 {
    /// Print the summary so far.
    Summary,
    /// Print that this command has no summary, and continue.
    Refuse,
}

/// Why signals cannot be watched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SignalError {
    #[error("cannot watch for Ctrl-C: {0}")]
    Watch(io::Error),
    #[error(
        "cannot start a thread for Ctrl-C: {0}; the limit of threads (ulimit -u) may be reached"
    )]
    Thread(io::Error),
}

const REFUSED: &str = "SIGUSR1 prints the summary so far in `onbeat measure` only; this command continues, and `onbeat report` reads its run files";

const LEFT_CHANGED: &str = "ended at once; the changes to this machine stay on record: `onbeat repair` undoes them, and so does the next bench";
/// Time limit for the last message: a blocked terminal must not keep the process from ending, and a
/// busy machine may let the thread that says it wait.
const TO_SAY: Duration = Duration::from_secs(2);

/// Starts a thread that watches signals. The first stop signal ends the run in order; a second one
/// ends the process at once, with a message when changes are left, which the next start undoes.
pub(crate) fn watch(on_usr1: OnUsr1) -> Result<Arc<Interruptions>, SignalError> {
    let interruptions = Arc::new(Interruptions::default());
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP, SIGCONT, SIGUSR1]).map_err(SignalError::Watch)?;
    let seen = Arc::clone(&interruptions);
    let listen = move || {
        for signal in &mut signals {
            if signal == SIGCONT {
                seen.continued.fetch_add(1, Ordering::Relaxed);
            } else if signal == SIGUSR1 {
                match on_usr1 {
                    OnUsr1::Summary => seen.summary.store(true, Ordering::Relaxed),
                    OnUsr1::Refuse => advise(Tone::Careful, REFUSED),
                }
            } else if seen.stop.swap(true, Ordering::Relaxed) {
                say_what_is_left();
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        }
    };

    let listening = thread::Builder::new().name("onbeat-signals".to_owned()).spawn(listen);
    listening.map_err(SignalError::Thread)?;
    Ok(interruptions)
}

/// Prints what undoes the changes of this process. It runs on an ordinary thread, not in a signal
/// handler, so it may block.
fn say_what_is_left() {
    if !state::has_journal_of(std::process::id()) {
        return;
    }

    let (done, said) = channel();
    thread::spawn(move || {
        advise(Tone::Careful, LEFT_CHANGED);
        let _ = done.send(());
    });

    let _ = said.recv_timeout(TO_SAY);
}
