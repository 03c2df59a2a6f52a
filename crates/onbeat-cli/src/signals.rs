//! Ctrl-C, SIGTERM, SIGHUP, SIGCONT and SIGUSR1, as flags that a run polls.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use onbeat::probe::Interruptions;
use rustix::process::{getpid, setpriority_process};
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

const LEFT_CHANGED: &str = "ended at once; its guard undoes the changes to this machine now. `onbeat repair` reports whether some are left";
/// Time that an orderly end may take after the first stop signal where it may be cut off.
const ORDERLY: Duration = Duration::from_millis(1_500);
/// Nice value of what has to end beside its own load.
const FIRST: i32 = -20;
/// Time limit for the last message: a blocked terminal must not keep the process from ending, and a
/// busy machine may let the thread that says it wait.
const TO_SAY: Duration = Duration::from_secs(2);

/// What an end that may be cut off waits for; empty while there is none.
static CUT_OFF: Mutex<&str> = Mutex::new("");

/// A part of a command whose orderly end is worth less than a prompt one: run files are readable
/// without it, loads end with this process, and a guard undoes what it changed.
pub(crate) struct PromptEnd(());

impl PromptEnd {
    /// From here to the drop a stop signal ends the process within two seconds, in order or not.
    /// `waits_for` names what an end can wait for, such as "its loads".
    pub(crate) fn of(waits_for: &'static str) -> Self {
        *CUT_OFF.lock().unwrap_or_else(PoisonError::into_inner) = waits_for;
        Self(())
    }
}

impl Drop for PromptEnd {
    fn drop(&mut self) {
        *CUT_OFF.lock().unwrap_or_else(PoisonError::into_inner) = "";
    }
}

/// Ends the process if it has not ended in order soon after a stop signal.
fn end_soon(signal: i32) {
    let end = move || {
        thread::sleep(ORDERLY);
        let waits_for = *CUT_OFF.lock().unwrap_or_else(PoisonError::into_inner);
        if !waits_for.is_empty() {
            let cut = format!(
                "still waiting for {waits_for}; ends without it, and what was recorded is kept"
            );
            say_within(Duration::from_millis(200), cut);
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    };
    // The thread inherits the priority of the one that watches.
    let _ = thread::Builder::new().name("onbeat-end".to_owned()).spawn(end);
}

/// Lets the calling thread and the main one go before ordinary programs, where permitted: the
/// command's own load must not keep it from ending.
fn go_first() {
    let _ = setpriority_process(None, FIRST);
    let _ = setpriority_process(Some(getpid()), FIRST);
}

/// Starts a thread that watches signals. The first stop signal ends the run in order; a second one
/// ends the process at once, with a message when changes are left, which the next start undoes.
pub(crate) fn watch(on_usr1: OnUsr1) -> Result<Arc<Interruptions>, SignalError> {
    let interruptions = Arc::new(Interruptions::default());
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP, SIGCONT, SIGUSR1]).map_err(SignalError::Watch)?;
    let seen = Arc::clone(&interruptions);
    let listen = move || {
        // It waits almost always, and must run soon when a signal comes.
        let _ = setpriority_process(None, FIRST);
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
            } else {
                go_first();
                end_soon(signal);
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

    say_within(TO_SAY, LEFT_CHANGED.to_owned());
}

/// Prints advice, and waits for it no longer than this.
fn say_within(most: Duration, words: String) {
    let (done, said) = channel();
    thread::spawn(move || {
        advise(Tone::Careful, &words);
        let _ = done.send(());
    });

    let _ = said.recv_timeout(most);
}
