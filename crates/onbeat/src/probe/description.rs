//! The description of a probe: name, sentence, defaults, options of its own, and how it is opened.
//!
//! The command line, its help, the man pages and the run file's header are made from these
//! descriptions, so that a probe is one file and one line in the list of its crate.

use std::sync::atomic::AtomicBool;

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{EdgeLoop, EdgePlan, EdgeSource, Outcome, Plan, Producer, Sample, Task};
use serde::{Deserialize, Serialize};

pub use super::companion::{Alone, Companion};
pub use super::error::ProbeError;
pub use super::option::{OptionKind, ProbeOption};
use super::ports::{EdgeCount, PortAddress};
use super::setting::Setting;
use onbeat_record::{Figures, Series};

/// A probe as a program that starts it sees it.
#[derive(Debug)]
pub struct Description {
    /// Its name after `onbeat measure`, and the name of its run file.
    pub name: &'static str,
    /// What it measures, from where to where.
    pub sentence: &'static str,
    /// Command lines worth showing, each after two spaces.
    pub examples: &'static str,
    /// Its series, the primary one first.
    pub series: &'static [Series],
    /// Default options.
    pub defaults: Defaults,
    /// Options of its own.
    pub choices: &'static [ProbeOption],
    /// Whether exact figures are kept second by second, and shown while it runs.
    pub line_a_second: bool,
    /// Opens what the loop needs; may change the setting.
    pub open: fn(&mut Setting, &Given) -> Result<Parts, ProbeError>,
}

/// Default options, as typed.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// Loop period.
    pub period: &'static str,
    /// Real-time priority; `0` for an ordinary thread.
    pub priority: &'static str,
    /// Measuring time; `0` for no end.
    pub duration: &'static str,
}

impl Defaults {
    /// 1 kHz at priority 90 for ten seconds.
    pub const LOOP: Self = Self { period: "1ms", priority: "90", duration: "10s" };
}

/// The value of a [`ProbeOption`], as typed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingValue {
    /// Nanoseconds.
    Time(u64),
    /// A whole number.
    Count(u64),
    /// Hundredths of a percent.
    Percent(u64),
    /// Something to read from or write to.
    Place(PortAddress),
    /// A name or a path.
    Name(String),
    /// One of the choice's words.
    Word(String),
    /// The option was there.
    Switch,
}

/// The options of one probe, as given or by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given(pub Vec<(&'static str, SettingValue)>);

impl Given {
    fn get(&self, name: &str) -> Option<&SettingValue> {
        self.0.iter().find(|(given, _)| *given == name).map(|(_, value)| value)
    }

    /// Returns a time in nanoseconds; 0 without one.
    #[must_use]
    pub fn time_ns(&self, name: &str) -> u64 {
        if let Some(SettingValue::Time(ns)) = self.get(name) { *ns } else { 0 }
    }

    /// Returns a number; 0 without one.
    #[must_use]
    pub fn count(&self, name: &str) -> u64 {
        if let Some(SettingValue::Count(n)) = self.get(name) { *n } else { 0 }
    }

    /// Returns a share in hundredths of a percent; 0 without one.
    #[must_use]
    pub fn hundredths_of_percent(&self, name: &str) -> u64 {
        if let Some(SettingValue::Percent(share)) = self.get(name) { *share } else { 0 }
    }

    /// Returns a name or a path.
    #[must_use]
    pub fn name(&self, name: &str) -> Option<&str> {
        if let Some(SettingValue::Name(text)) = self.get(name) { Some(text) } else { None }
    }

    /// Returns a place.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<&PortAddress> {
        if let Some(SettingValue::Place(place)) = self.get(name) { Some(place) } else { None }
    }

    /// Returns a word.
    #[must_use]
    pub fn word(&self, name: &str) -> Option<&str> {
        if let Some(SettingValue::Word(word)) = self.get(name) { Some(word) } else { None }
    }

    /// Returns whether the option was typed or has a default.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns whether a switch was typed.
    #[must_use]
    pub fn is_set(&self, name: &str) -> bool {
        self.get(name) == Some(&SettingValue::Switch)
    }
}

/// An opened probe.
pub struct Parts {
    /// The loop.
    pub body: Box<dyn Body>,
    /// Figures of its samples.
    pub figures: Box<dyn Figures>,
    /// What runs beside the loop.
    pub companion: Box<dyn Companion>,
}

/// The loop of a probe, from first to last cycle: one of the loops of [`onbeat_rt`] around a task.
pub trait Body: Send {
    /// Runs the loop.
    fn run(&mut self, plan: &Plan, hot: &mut Producer<'_, Sample>, stop: &AtomicBool) -> Outcome;

    /// Returns the time before the first release that the loop needs on its own thread, in
    /// nanoseconds: [`Self::run`] begins that much earlier, and records nothing of it.
    fn lead_in_ns(&self) -> u64 {
        0
    }

    /// Returns whether the loop makes other system calls than sleep and clock.
    fn has_ports(&self) -> bool {
        false
    }
}

/// A task on the grid.
#[derive(Debug)]
pub struct OnGrid<T> {
    /// The task.
    pub task: T,
    /// Whether it writes to a port.
    pub has_ports: bool,
}

impl<T: Task + Send> Body for OnGrid<T> {
    fn run(&mut self, plan: &Plan, hot: &mut Producer<'_, Sample>, stop: &AtomicBool) -> Outcome {
        onbeat_rt::cycle::run(&Monotonic, plan, &mut self.task, hot, stop)
    }

    fn has_ports(&self) -> bool {
        self.has_ports
    }
}

/// A task that answers edges.
#[derive(Debug)]
pub struct OnEdges<E, T> {
    /// Where edges come from.
    pub edges: E,
    /// What answers them.
    pub task: T,
    /// From taking an edge up to the release of its answer, in nanoseconds.
    pub delay_ns: u64,
    /// The number of edges that were made, where onbeat makes them.
    pub made: Option<EdgeCount>,
}

impl<E, T> OnEdges<E, T> {
    /// Counts edges that were made and never answered as skipped releases, also those after the
    /// last answer. The latest one may be in flight.
    fn with_unanswered(&self, outcome: Outcome, edges: u64) -> Outcome {
        let made = self.made.as_ref().map_or(0, EdgeCount::get).saturating_sub(1).min(edges);
        let unanswered = made.saturating_sub(outcome.slots);
        Outcome {
            slots: outcome.slots + unanswered,
            skipped: outcome.skipped + unanswered,
            skipped_at_end: outcome.skipped_at_end + unanswered,
            ..outcome
        }
    }
}

impl<E: EdgeSource + Send, T: Task + Send> Body for OnEdges<E, T> {
    fn run(&mut self, plan: &Plan, hot: &mut Producer<'_, Sample>, stop: &AtomicBool) -> Outcome {
        let answers = EdgePlan {
            delay_ns: self.delay_ns,
            period_ns: plan.period_ns,
            deadline_ns: plan.deadline_ns,
            edges: plan.releases,
            wait: plan.wait,
            on_overrun: plan.on_overrun,
        };

        let edges = EdgeLoop {
            clock: &Monotonic,
            plan: &answers,
            source: &mut self.edges,
            task: &mut self.task,
        };
        let outcome = edges.run(hot, stop);
        self.with_unanswered(outcome, plan.releases)
    }

    fn has_ports(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use onbeat_rt::{End, Instant};

    use super::*;

    #[test]
    fn edges_that_were_made_and_never_answered_are_skipped_releases() {
        let answered = |slots, skipped| Outcome {
            end: End::Asked,
            slots,
            cycles: slots - skipped,
            skipped,
            skipped_at_end: 0,
            last_end: Instant::from_ns(0),
        };

        let made = EdgeCount::default();
        (0..10).for_each(|_| _ = made.add());
        let body = OnEdges { edges: (), task: (), delay_ns: 0, made: Some(made) };
        let all = body.with_unanswered(answered(6, 1), u64::MAX);
        // The tenth may still be on its way: nine less six.
        assert_eq!((all.slots, all.cycles, all.skipped, all.skipped_at_end), (9, 5, 4, 3));
        assert_eq!(
            body.with_unanswered(answered(0, 0), u64::MAX).skipped,
            9,
            "none of them reached the loop"
        );
        assert_eq!(body.with_unanswered(answered(6, 1), 6), answered(6, 1), "the run was for six");
        let from_outside = OnEdges { edges: (), task: (), delay_ns: 0, made: None };

        assert_eq!(from_outside.with_unanswered(answered(6, 1), u64::MAX), answered(6, 1));
    }
}
