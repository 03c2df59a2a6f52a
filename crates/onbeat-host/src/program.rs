//! What each program beside `onbeat` does with its output and with Ctrl-C.

use std::io::{self, Write, stderr, stdout};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag::{register, register_conditional_shutdown};

/// Status of a program that a second Ctrl-C ended: 128 + SIGINT.
const INTERRUPTED: i32 = 130;

/// Why a line of results could not be written.
static UNWRITTEN: OnceLock<io::Error> = OnceLock::new();

/// Prints a line of results. A reader that has gone is no reason to end: the work may have others.
pub fn say(line: &str) {
    let mut out = stdout().lock();
    let written = writeln!(out, "{line}").and_then(|()| out.flush());
    if let Err(why) = written
        && why.kind() != io::ErrorKind::BrokenPipe
    {
        let _ = UNWRITTEN.set(why);
    }
}

/// Why a line of [`say`] was not written, if one was not; a reader that has gone wants no more.
pub fn unwritten() -> Option<&'static io::Error> {
    UNWRITTEN.get()
}

/// Prints a sentence for people. Files and other computers have their words in it: what would
/// control the terminal is shown as `?`.
pub fn advise(line: &str) {
    let line = line.replace(char::is_control, "?");
    let _ = writeln!(stderr().lock(), "{line}");
}

/// Lets a write beyond the limit of a file's size (`ulimit -f`) fail with a reason, where it would
/// end the process. Where the system refuses that, it does.
pub fn survive_file_limit() {
    let _ = register(SIGXFSZ, Arc::default());
}

/// What ends a program: Ctrl-C, SIGTERM, and the terminal that has gone, unless nohup(1) was to
/// outlive that.
fn endings() -> impl Iterator<Item = i32> {
    let hangup = (!crate::process::ignores_hangup()).then_some(SIGHUP);
    [SIGINT, SIGTERM].into_iter().chain(hangup)
}

/// Returns a flag that is set by whatever is to end the program, as often as it comes.
///
/// # Errors
///
/// A signal cannot be caught.
pub fn asked_to_end() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::default();
    for signal in endings() {
        register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// As [`asked_to_end`]; the second signal ends the process.
///
/// # Errors
///
/// A signal cannot be caught.
pub fn asked_to_end_once() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::default();
    for signal in endings() {
        // In this order: the first one finds the flag unset.
        register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&stop))?;
        register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}
