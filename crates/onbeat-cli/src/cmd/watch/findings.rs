//! What was found about the program itself: each with its evidence and what mends it.

use onbeat::record::FindingNote;
use onbeat_watch::finding::{Finding, of_program};
use onbeat_watch::measure::{Watched, WatchedLoop};
use onbeat_watch::survey::Survey;

use crate::cmd::findings;
use crate::term::{Tone, columns, say, wrapped};

/// Settings that are not as wanted for this loop, by the catalogue.
pub(super) fn of_catalogue(watched: &WatchedLoop) -> Vec<FindingNote> {
    let tid = watched.thread.id.tid;
    findings::of_task(tid, watched.thread.bound_cpu(), watched.class.period_ns())
}

/// Prints the findings about the program.
pub(super) fn say_all(survey: &Survey, watched: &WatchedLoop, result: &Watched) {
    let found = of_program(survey, watched, result);
    if found.is_empty() {
        return;
    }

    say(Tone::Head, "About the program");
    for Finding { what, remedy, .. } in &found {
        say(Tone::Plain, &wrapped(&format!("{what}. {remedy}"), columns()));
    }
}
