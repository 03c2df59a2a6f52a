//! What was found about the program itself: each with its evidence and what mends it.

use onbeat::record::FindingNote;
use onbeat_watch::finding::{Finding, of_program};
use onbeat_watch::measure::WatchedLoop;

use super::Measured;
use crate::cmd::findings;
use crate::term::{Tone, say, say_wrapped};

/// Settings that are not as wanted for this loop, by the catalogue.
pub(super) fn of_catalogue(watched: &WatchedLoop) -> Vec<FindingNote> {
    let thread = &watched.thread;
    findings::of_loop(Some(thread.id.tid), thread.bound_cpu(), watched.class.period_ns())
}

/// Settings of the loop's thread with a smaller expected effect are left to `tune check`.
const LEAST_EFFECT: u8 = 2;

/// A title within a sentence: `locked memory`, `CPU of the loop`.
fn within(title: &str) -> String {
    let mut letters = title.chars();
    match letters.next() {
        Some(first) if letters.clone().next().is_none_or(|second| !second.is_uppercase()) => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => title.to_owned(),
    }
}

/// Prints the findings about the program.
pub(super) fn say_all(measured: &Measured<'_>) {
    let Measured { seen, watched, result, findings } = measured;
    let found = of_program(seen, watched, result);
    // Its policy is among those above, with what was seen of it.
    let of_thread = findings.iter().filter(|note| {
        note.id.starts_with("proc.") && note.id != "proc.policy" && note.effect >= LEAST_EFFECT
    });
    let settings: Vec<String> = of_thread
        .map(|note| format!("{} ({}: {})", within(&note.title), note.id, note.current))
        .collect();
    if found.is_empty() && settings.is_empty() {
        return;
    }

    say(Tone::Head, "About the program");
    for Finding { what, remedy, .. } in &found {
        say_wrapped(Tone::Plain, &format!("{what}. {remedy}"));
    }
    if !settings.is_empty() {
        let words = format!(
            "Not as recommended: {}. onbeat tune check --task {} has the remedies.",
            settings.join(", "),
            watched.thread.tid()
        );
        say_wrapped(Tone::Plain, &words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abbreviation_keeps_its_letters() {
        assert_eq!(
            ["Locked memory", "CPU of the loop", ""].map(within),
            ["locked memory", "CPU of the loop", ""]
        );
    }
}
