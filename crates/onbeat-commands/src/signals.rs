//! Ctrl-C, SIGTERM, SIGHUP, SIGCONT and SIGUSR1, as flags that a run polls.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use onbeat::probe::Interruptions;
use onbeat_host::process::ignores_hangup;
use rustix::process::{getpid, setpriority_process};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::state;
use crate::term::{Tone, advise};

/// Reaction to SIGUSR1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnUsr1 {
    /// Print the summary so far.
    Summary,
    /// Print that this command has no summary, and continue.
    Refuse,
}

/// Why signals cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum SignalError {
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
/// Times pass in pieces of this length: a stop of all CPUs of a virtual machine, however long, is
/// one of them, and no command is cut off that had no time to end.
const PIECE: Duration = Duration::from_millis(50);
/// Time between two questions whether to stop, while a command waits.
const PAUSE_PIECE: Duration = Duration::from_millis(100);
/// Nice value of what has to end beside its own load.
const FIRST: i32 = -20;
/// Time limit for the last message: a blocked terminal must not keep the process from ending, and a
/// busy machine may let the thread that says it wait.
const TO_SAY: Duration = Duration::from_secs(2);

/// How the command that runs may end, and what its end can wait for.
static END: Mutex<End> = Mutex::new(End::Prompt(ITS_WORK));
const ITS_WORK: &str = "its own work, on a machine that leaves it no time";

/// What happens to a command that has not ended in order soon after a stop signal.
#[derive(Clone, Copy)]
enum End {
    /// It ends without what it waits for: run files are readable without an orderly end, loads and
    /// guests end with this process, and a guard undoes what it changed.
    Prompt(&'static str),
    /// It goes on, and says what it waits for: a robot is not let go in the middle of its stop.
    Orderly(&'static str),
}

impl End {
    fn now() -> Self {
        *END.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(self) {
        *END.lock().unwrap_or_else(PoisonError::into_inner) = self;
    }
}

/// A part of a command with its own way to end; dropped, the way before it is back.
pub struct EndOf(End);

impl EndOf {
    fn part(end: End) -> Self {
        let before = End::now();
        end.set();
        Self(before)
    }

    /// From here to the drop a stop signal ends the process within two seconds, in order or not.
    /// `waits_for` names what an end can wait for, such as "its loads".
    pub fn prompt(waits_for: &'static str) -> Self {
        Self::part(End::Prompt(waits_for))
    }

    /// From here to the drop the end is waited for, such as "the robot's stop"; after two seconds a
    /// sentence says so.
    pub fn orderly(waits_for: &'static str) -> Self {
        Self::part(End::Orderly(waits_for))
    }
}

impl Drop for EndOf {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// Ends the process if it has not ended in order soon after a stop signal, or says what it waits for.
fn end_soon(signal: i32) {
    let end = move || {
        (0..pieces(ORDERLY)).for_each(|_| thread::sleep(PIECE));
        let most = Duration::from_millis(200);
        match End::now() {
            End::Prompt(waits_for) => {
                let cut = format!(
                    "still waiting for {waits_for}; ends without it, and what was recorded is kept"
                );
                say_within(most, cut);
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
            End::Orderly(waits_for) => {
                let waits = format!(
                    "still waiting for {waits_for}; a second Ctrl-C ends onbeat without it"
                );
                say_within(most, waits);
            }
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
pub fn watch(on_usr1: OnUsr1) -> Result<Arc<Interruptions>, SignalError> {
    let interruptions = Arc::new(Interruptions::default());
    let mut caught = vec![SIGINT, SIGTERM, SIGCONT, SIGUSR1];
    // What nohup(1) has started goes on when its terminal is gone.
    if !ignores_hangup() {
        caught.push(SIGHUP);
    }
    let mut signals = Signals::new(caught).map_err(SignalError::Watch)?;
    let seen = Arc::clone(&interruptions);
    let listen = move || {
        // It waits almost always, and must run soon when a signal comes.
        let _ = setpriority_process(None, FIRST);
        while !signals.is_closed() {
            let came: Vec<i32> = signals.wait().collect();
            // Where two are there at once, the good order of the first would be a race with the
            // second.
            let has_second = came.iter().filter(|signal| is_stop(**signal)).count() > 1;
            for signal in came {
                if signal == SIGCONT {
                    seen.continued.fetch_add(1, Ordering::Relaxed);
                } else if signal == SIGUSR1 {
                    match on_usr1 {
                        OnUsr1::Summary => seen.summary.store(true, Ordering::Relaxed),
                        OnUsr1::Refuse => advise(Tone::Careful, REFUSED),
                    }
                } else if has_second || seen.stop.swap(true, Ordering::Relaxed) {
                    say_what_is_left();
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                } else {
                    go_first();
                    end_soon(signal);
                }
            }
        }
    };

    let listening = thread::Builder::new().name("onbeat-signals".to_owned()).spawn(listen);
    listening.map_err(SignalError::Thread)?;
    Ok(interruptions)
}

/// Waits, or until `stop` is set; returns whether to go on.
pub fn pause(time: Duration, stop: &AtomicBool) -> bool {
    let until = Instant::now() + time;
    while !stop.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(PAUSE_PIECE));
    }
    false
}

const fn is_stop(signal: i32) -> bool {
    signal != SIGCONT && signal != SIGUSR1
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

    for _ in 0..pieces(most) {
        if said.recv_timeout(PIECE) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

const fn pieces(time: Duration) -> u128 {
    time.as_millis() / PIECE.as_millis()
}
