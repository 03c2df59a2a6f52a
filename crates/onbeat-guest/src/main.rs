//! The agent as a program of its own, for guests that have no room for all of onbeat. In the whole program it is `onbeat agent`.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use onbeat::probe::Interruptions;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

#[allow(clippy::print_stderr)]
fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let interruptions = Arc::new(Interruptions::default());
    // Without them a signal ends the agent at once; a run file is readable then, too.
    if let Ok(mut signals) = Signals::new([SIGHUP, SIGINT, SIGTERM]) {
        let interruptions = Arc::clone(&interruptions);
        std::thread::spawn(move || {
            signals.forever().for_each(|_| interruptions.stop.store(true, Ordering::Relaxed));
        });
    }

    match onbeat_guest::run(&words, &interruptions) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("onbeat: {error}");
            ExitCode::from(2)
        }
    }
}
