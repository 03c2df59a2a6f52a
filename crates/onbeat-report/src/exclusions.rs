//! Slots that are excluded because something around the loop changed, in sentences.

use std::collections::BTreeMap;

use super::units::{count, counted, listed};
use onbeat_record::{ExclusionNote, Surrounding};

/// Exclusions that are listed one by one.
const LISTED: usize = 5;

/// The reason and the number of excluded slots, in sentences.
#[must_use]
pub(super) fn in_words(notes: &[ExclusionNote]) -> Vec<String> {
    let sentences = notes.iter().take(LISTED).map(|note| {
        let slots = counted(note.samples, "slot");
        let ExclusionNote { t, sentence, .. } = note;
        format!("{sentence} at {t:.1} s: {slots} in progress excluded from all figures")
    });

    let mut sentences: Vec<String> = sentences.collect();
    if notes.len() > LISTED {
        let mut more: BTreeMap<Surrounding, (u64, u64)> = BTreeMap::new();
        for note in &notes[LISTED..] {
            let (times, samples) = more.entry(note.what).or_default();
            *times += 1;
            *samples += note.samples;
        }

        let kinds: Vec<String> = more
            .iter()
            .map(|(what, (times, _))| format!("{} {}", count(*times), words(*what, *times)))
            .collect();
        let samples = more.values().map(|(_, samples)| samples).sum();
        sentences.push(format!("the same for {}: {} slots", listed(&kinds), count(samples)));
    }

    sentences
}

const fn words(what: Surrounding, times: u64) -> &'static str {
    match (what, times) {
        (Surrounding::ClockStep, 1) => "more step of the wall clock",
        (Surrounding::ClockStep, _) => "more steps of the wall clock",
        (Surrounding::Suspend, 1) => "more suspend",
        (Surrounding::Suspend, _) => "more suspends",
        (Surrounding::CpuCount, 1) => "more change of the number of CPUs",
        (Surrounding::CpuCount, _) => "more changes of the number of CPUs",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_five_are_listed_and_the_rest_is_summed_up() {
        let note = |what| ExclusionNote {
            t: 12.34,
            length: 0.02,
            what,
            sentence: "it slept".into(),
            samples: 21,
        };
        let mut notes = vec![note(Surrounding::Suspend); 5];
        assert_eq!(in_words(&notes).len(), 5);
        assert_eq!(
            in_words(&notes)[0],
            "it slept at 12.3 s: 21 slots in progress excluded from all figures"
        );
        notes.extend([
            note(Surrounding::ClockStep),
            note(Surrounding::Suspend),
            note(Surrounding::Suspend),
        ]);
        let last = "the same for 1 more step of the wall clock and 2 more suspends: 63 slots";

        assert_eq!(in_words(&notes)[5..], [last]);
    }
}
