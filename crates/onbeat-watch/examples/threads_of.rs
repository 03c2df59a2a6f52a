//! The threads of a process, and which of them is its control loop.
//!
//! ```sh
//! sudo cargo run -p onbeat-watch --example threads_of -- PID
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use onbeat_watch::choose::choose;
use onbeat_watch::collect::Collector;
use onbeat_watch::survey::survey;

fn main() -> ExitCode {
    let Some(pid) = std::env::args().nth(1).and_then(|word| word.parse().ok()) else {
        eprintln!("threads_of PID");
        return ExitCode::from(2);
    };
    let seen = Collector::open()
        .map_err(Into::into)
        .and_then(|mut collector| survey(&mut collector, pid, &AtomicBool::new(false)));
    let seen = match seen {
        Ok(seen) => seen,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };

    for thread in &seen.threads {
        for series in &thread.series {
            println!("{} {:?}: {:?}", thread.facts.name, series.source, series.class);
        }
    }
    if let Some((thread, _)) = choose(&seen.threads, seen.looked_ns) {
        println!("the loop is {} [{}]", thread.facts.name, thread.facts.tid());
    }
    ExitCode::SUCCESS
}
