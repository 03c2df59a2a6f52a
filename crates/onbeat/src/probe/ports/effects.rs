//! The tally of an observer: commands whose effects were seen, commands whose effects were lost,
//! and how late the observer itself was.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

use hdrhistogram::Histogram;
use onbeat_rt::Instant;

use super::Marks;

/// Upper bound of the lateness histogram, in nanoseconds.
const LONGEST_NS: u64 = 100_000_000_000;

/// The effect of one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeenEffect {
    /// Time from issuing the command to seeing its effect, or that of the next one where its own
    /// was lost, in nanoseconds.
    pub(super) ns: u64,
    /// Lateness of the observer, in nanoseconds; `None` for a command whose effect was lost.
    pub(super) late_ns: Option<u64>,
}

/// The thread that sees effects.
#[derive(Clone, Debug)]
pub(super) struct Observer {
    /// The requested priority; `None` for an ordinary thread.
    pub(super) fifo: Option<u32>,
    pub(super) is_granted: Arc<AtomicBool>,
    /// Whether the kernel stamps what the thread sees.
    pub(super) is_stamped: bool,
}

impl Observer {
    fn policy(&self) -> String {
        match self.fifo {
            Some(priority) if self.is_granted.load(Ordering::Relaxed) => {
                format!("SCHED_FIFO {priority}")
            }
            Some(priority) => format!("an ordinary thread, SCHED_FIFO {priority} was not granted"),
            None => "an ordinary thread, as the loop".to_owned(),
        }
    }
}

/// Counts the effects that an observer reports.
#[derive(Debug)]
pub(super) struct EffectTally {
    reported: Receiver<SeenEffect>,
    issued: Marks,
    observer: Observer,
    seen: u64,
    lost: u64,
    lateness: Option<Histogram<u64>>,
}

impl EffectTally {
    pub(super) fn new(reported: Receiver<SeenEffect>, issued: Marks, observer: Observer) -> Self {
        let lateness = Histogram::new_with_bounds(1, LONGEST_NS, 3).ok();
        Self { reported, issued, observer, seen: 0, lost: 0, lateness }
    }

    /// Returns the number of commands whose effect was seen or lost.
    pub(super) const fn accounted(&self) -> u64 {
        self.seen + self.lost
    }

    /// Counts what was reported since the last call. A lost effect counts with the time until a
    /// later one was seen, which is a lower bound: a limit has to see it.
    pub(super) fn take(&mut self, count: &mut dyn FnMut(u64)) {
        for SeenEffect { ns, late_ns } in self.reported.try_iter() {
            count(ns);
            match late_ns {
                Some(ns) => {
                    self.seen += 1;
                    self.lateness
                        .iter_mut()
                        .for_each(|lateness| lateness.saturating_record(ns.max(1)));
                }
                None => self.lost += 1,
            }
        }
    }

    /// Counts the rest of `made` commands as lost.
    pub(super) fn give_up(&mut self, made: u64, now: Instant, count: &mut dyn FnMut(u64)) {
        for index in self.accounted()..made {
            count(now.ns_since(self.issued.get(index)));
            self.lost += 1;
        }
    }

    /// Describes `made` commands, as sentences for the run file.
    pub(super) fn words(&self, made: u64) -> Vec<String> {
        let us = |ns: f64| format!("{:.1} us", ns / 1e3);
        let mut sentences = Vec::new();
        if let Some(lateness) = self.lateness.as_ref().filter(|lateness| !lateness.is_empty()) {
            let counted = if self.observer.is_stamped {
                "which is in no figure, because the kernel stamped each output"
            } else {
                "from the loop's write on, which is part of each figure"
            };
            sentences.push(format!(
                "the observer ({}) saw {} outputs; its own lateness, {counted}: {} on average, {} for 99 %, {} at most",
                self.observer.policy(),
                self.seen,
                us(lateness.mean()),
                us(lateness.value_at_quantile(0.99) as f64),
                us(lateness.max() as f64)
            ));
        }

        let share = |n: u64| 100.0 * n as f64 / made.max(1) as f64;
        if self.lost > 0 {
            sentences.push(format!(
                "the effect of {} of {made} commands ({:.3} %) was never seen; each counts with the time until a later one's was, or until \
                 it was given up, so a limit sees it",
                self.lost,
                share(self.lost)
            ));
        }

        let under_way = made.saturating_sub(self.accounted());
        if under_way > 0 {
            sentences.push(format!(
                "{under_way} of {made} commands ({:.3} %) were under way when the run ended; they are in no figure",
                share(under_way)
            ));
        }

        sentences
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn seeing(sightings: &[SeenEffect], is_stamped: bool, is_granted: bool) -> EffectTally {
        let (report, reported) = channel();
        sightings.iter().for_each(|sighting| report.send(*sighting).expect("heard"));
        let observer = Observer {
            fifo: Some(91),
            is_granted: Arc::new(AtomicBool::new(is_granted)),
            is_stamped,
        };
        let issued = Marks::default();
        (0..8).for_each(|index| issued.set(index, Instant::from_ns(1_000_000 * index)));
        EffectTally::new(reported, issued, observer)
    }

    const fn seen(us: u64, late_us: u64) -> SeenEffect {
        SeenEffect { ns: us * 1_000, late_ns: Some(late_us * 1_000) }
    }

    #[test]
    fn the_observers_lateness_is_reported_with_its_policy_beside_the_figures() {
        let mut seeing = seeing(&[seen(500, 10), seen(700, 30)], false, true);
        let mut counted = Vec::new();
        seeing.take(&mut |ns| counted.push(ns));
        assert_eq!((counted, seeing.accounted()), (vec![500_000, 700_000], 2));
        let words = seeing.words(2);

        assert_eq!(words.len(), 1, "{words:?}");
        assert!(words[0].starts_with("the observer (SCHED_FIFO 91) saw 2 outputs"), "{words:?}");
        assert!(
            words[0].contains(
                "part of each figure: 20.0 us on average, 30.0 us for 99 %, 30.0 us at most"
            ),
            "{words:?}"
        );
    }

    #[test]
    fn an_observer_without_its_priority_and_one_with_the_kernels_stamps_say_so() {
        let mut ordinary = seeing(&[seen(500, 10)], true, false);
        ordinary.take(&mut |_| ());
        let words = ordinary.words(1).concat();
        assert!(words.contains("an ordinary thread, SCHED_FIFO 91 was not granted"), "{words}");
        assert!(words.contains("in no figure, because the kernel stamped"), "{words}");
    }

    #[test]
    fn commands_whose_effects_never_came_are_counted_in_the_figure_and_said() {
        let mut seeing = seeing(
            &[seen(500, 10), SeenEffect { ns: 9_000_000, late_ns: None }, seen(700, 10)],
            false,
            true,
        );
        let mut counted = Vec::new();
        seeing.take(&mut |ns| counted.push(ns));
        // Three of five are accounted for; numbers 3 and 4 were issued at 3 and 4 ms and are given
        // up at 10 ms.
        seeing.give_up(5, Instant::from_ns(10_000_000), &mut |ns| counted.push(ns));

        assert_eq!(counted, [500_000, 9_000_000, 700_000, 7_000_000, 6_000_000]);
        let words = seeing.words(5);
        assert!(
            words[1].starts_with("the effect of 3 of 5 commands (60.000 %) was never seen"),
            "{words:?}"
        );
        assert_eq!(words.len(), 2, "all are accounted for: {words:?}");
    }

    #[test]
    fn commands_under_way_at_the_end_are_reported() {
        let mut seeing = seeing(&[seen(500, 10)], false, true);
        seeing.take(&mut |_| ());
        assert!(
            seeing.words(3)[1].starts_with("2 of 3 commands (66.667 %) were under way"),
            "{:?}",
            seeing.words(3)
        );
    }
}
