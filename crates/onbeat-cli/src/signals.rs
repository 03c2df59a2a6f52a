//! Ctrl-C, SIGTERM, SIGHUP, SIGCONT and SIGUSR1, as flags that a run looks at.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use onbeat::probe::Interruptions;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::cmd::{Failure, repair};
use crate::term::{Tone, advise};

/// Whether SIGUSR1 shows the summary so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnUsr1 {
    Summary,
    /// It ends nothing all the same.
    Refuse,
}

const REFUSED: &str = "SIGUSR1 shows the summary so far of `onbeat measure` only; this goes on, and its run files can be read with `onbeat report`";

const LEFT_CHANGED: &str = "ended at once; what was changed on this machine stays on record: `onbeat repair` undoes it, and so does the next bench";
/// A terminal that takes no text must not keep the process from ending.
const TO_SAY: Duration = Duration::from_millis(200);

/// Starts to watch signals. The first one that asks to stop ends the run in good order; a second one ends the process, says so
/// when changes are left, and the next start puts them back.
pub(crate) fn watch(on_usr1: OnUsr1) -> Result<Arc<Interruptions>, Failure> {
    let interruptions = Arc::new(Interruptions::default());
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGCONT, SIGUSR1]).map_err(Failure::Signals)?;
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
    listening.map_err(|source| Failure::Thread { what: "Ctrl-C", source })?;
    Ok(interruptions)
}

/// Says what undoes the changes of this process. This is an ordinary thread, not a signal handler, so it may take its time.
fn say_what_is_left() {
    if !repair::has_journal_of(std::process::id()) {
        return;
    }

    let (done, said) = channel();
    thread::spawn(move || {
        advise(Tone::Careful, LEFT_CHANGED);
        let _ = done.send(());
    });

    let _ = said.recv_timeout(TO_SAY);
}
