//! What a probe is to those who start it: a name, a sentence, defaults, options of its own, and how it is opened.
//!
//! The command line, its help, the man pages and the run file's header are made of these descriptions, so that a probe is
//! a file of its own and a line in the list of its crate.

use std::path::PathBuf;

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{EdgeLoop, EdgePlan, EdgeSource, Flow, Outcome, Plan, Producer, Sample, Task};
use std::io;
use std::sync::atomic::AtomicBool;

use super::ports::{Made, Place};
use super::run::Setting;
use crate::record::{Figures, Recorder, Series};

/// A probe, as those who start it see it.
#[derive(Debug)]
pub struct Description {
    /// What `onbeat measure` knows it by, and its run file's name.
    pub name: &'static str,
    /// What it measures, from where to where.
    pub sentence: &'static str,
    /// Command lines worth showing, each after two spaces.
    pub examples: &'static str,
    /// What it is about, the main series first.
    pub series: &'static [Series],
    /// How it runs when nothing else is said.
    pub defaults: Defaults,
    /// Options of its own.
    pub choices: &'static [Choice],
    /// Exact figures second by second are kept, and shown as they come.
    pub line_a_second: bool,
    /// Makes ready what the loop needs; may change the setting it is given.
    pub open: fn(&mut Setting, &Given) -> Result<Parts, ProbeError>,
}

/// Defaults, as they would be typed.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// T.
    pub period: &'static str,
    /// FIFO priority; `0` for an ordinary thread.
    pub priority: &'static str,
    /// How long to measure; `0` for no end.
    pub duration: &'static str,
}

impl Defaults {
    /// 1 kHz at priority 90 for ten seconds.
    pub const LOOP: Self = Self { period: "1ms", priority: "90", duration: "10s" };
}

/// An option of one probe.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Without the dashes.
    pub name: &'static str,
    /// What people read: at most twelve words; details behind a line break.
    pub help: &'static str,
    /// As it would be typed; `None` when it may be left out.
    pub default: Option<&'static str>,
    /// What may be typed.
    pub kind: Kind,
}

/// What may be typed for a [`Choice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A time, such as `200us`.
    Time,
    /// A whole number.
    Count,
    /// Something to read from or write to.
    Place,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A name or a path.
    Name,
    /// Nothing: it is there or not.
    Switch,
}

/// What was typed for a [`Choice`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nanoseconds.
    Time(u64),
    /// A whole number.
    Count(u64),
    /// Something to read from or write to.
    Place(Place),
    /// A name or a path.
    Name(String),
    /// One of the choice's words.
    Word(String),
    /// It was there.
    Switch,
}

/// The options of one probe, as given or by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given(pub Vec<(&'static str, Value)>);

impl Given {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(given, _)| *given == name).map(|(_, value)| value)
    }

    /// A time in nanoseconds; 0 where none was given.
    #[must_use]
    pub fn time_ns(&self, name: &str) -> u64 {
        if let Some(Value::Time(ns)) = self.get(name) { *ns } else { 0 }
    }

    /// A number; 0 where none was given.
    #[must_use]
    pub fn count(&self, name: &str) -> u64 {
        if let Some(Value::Count(n)) = self.get(name) { *n } else { 0 }
    }

    /// A name or a path.
    #[must_use]
    pub fn name(&self, name: &str) -> Option<&str> {
        if let Some(Value::Name(text)) = self.get(name) { Some(text) } else { None }
    }

    /// A place.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<&Place> {
        if let Some(Value::Place(place)) = self.get(name) { Some(place) } else { None }
    }

    /// A word.
    #[must_use]
    pub fn word(&self, name: &str) -> Option<&str> {
        if let Some(Value::Word(word)) = self.get(name) { Some(word) } else { None }
    }

    /// Whether it was given at all, or has a default.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Whether a switch was given.
    #[must_use]
    pub fn is_set(&self, name: &str) -> bool {
        self.get(name) == Some(&Value::Switch)
    }
}

/// A probe made ready for one block.
pub struct Parts {
    /// What the loop's thread does.
    pub body: Box<dyn Body>,
    /// What is made of its samples.
    pub figures: Box<dyn Figures>,
    /// What goes on beside it.
    pub beside: Box<dyn Beside>,
}

/// What a loop's thread does from first to last cycle: one of the loops of [`onbeat_rt`] around a task.
pub trait Body: Send {
    /// Runs the loop.
    fn run(&mut self, plan: &Plan, hot: &mut Producer<'_, Sample>, stop: &AtomicBool) -> Outcome;

    /// Whether it asks the kernel for more than sleep and time.
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
    /// How many edges were made, where onbeat makes them.
    pub made: Option<Made>,
}

impl<E, T> OnEdges<E, T> {
    /// Edges that were made and never answered are skipped releases, also those after the last answer. The latest one may be on its way.
    fn with_unanswered(&self, outcome: Outcome, edges: u64) -> Outcome {
        let made = self.made.as_ref().map_or(0, Made::get).saturating_sub(1).min(edges);
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

        let edges = EdgeLoop { clock: &Monotonic, plan: &answers, source: &mut self.edges, task: &mut self.task };
        let outcome = edges.run(hot, stop);
        self.with_unanswered(outcome, plan.releases)
    }

    fn has_ports(&self) -> bool {
        true
    }
}

/// What goes on beside a loop: who makes its edges, who sees its output.
pub trait Beside {
    /// Begins, just before the loop does.
    ///
    /// # Errors
    /// [`ProbeError`].
    fn start(&mut self) -> Result<(), ProbeError> {
        Ok(())
    }

    /// Called about every 20 ms; [`Flow::Stop`] ends the loop.
    fn look(&mut self, recorder: &mut Recorder) -> Flow {
        let _ = recorder;
        Flow::Continue
    }

    /// What is left to write down, after the loop and before the end.
    fn rest(&mut self, recorder: &mut Recorder) {
        let _ = recorder;
    }

    /// Ends, after the loop. What is to be known of it, as sentences.
    fn end(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// Nothing goes on beside it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Beside for Alone {}

/// A probe cannot run as asked.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The delay leaves no room.
    #[error(
        "the answer to an edge begins {delay_us} us after it was taken up{}, and edges come every {period_us} us; \
         shorten --delay{} to at most nine tenths of --period",
        if *work_us > 0.0 { format!(" and works for {work_us} us") } else { String::new() },
        if *work_us > 0.0 { " and --work together" } else { "" }
    )]
    DelayTooLong {
        /// The delay, in microseconds.
        delay_us: f64,
        /// Planned work of an answer, in microseconds.
        work_us: f64,
        /// The distance of edges, in microseconds.
        period_us: f64,
    },
    /// An option that this probe, asked like this, could not keep.
    #[error("{option} has no meaning here: {why}; leave it out")]
    NoMeaning {
        /// As typed.
        option: &'static str,
        /// What is missing for it.
        why: &'static str,
    },
    /// Something cannot be read from or written to in the way that was asked for.
    #[error("{place} cannot be {what}: {why}")]
    Unfit {
        /// What was typed.
        place: String,
        /// What it was to be: `an input`, `an output`.
        what: &'static str,
        /// Why it cannot, and what can.
        why: &'static str,
    },
    /// The system would not open it.
    #[error("cannot open {place} as {what}: {source}{hint}")]
    Open {
        /// What was typed.
        place: String,
        /// What it was to be.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
        /// What to do next, after a semicolon, where something is known.
        hint: &'static str,
    },
    /// There is no GPIO.
    #[error(
        "{chip} does not exist, {}; without hardware leave the option out: the default is a signal generator of \
         onbeat's own on another CPU, and a pipe",
        if others.is_empty() { "and this machine has no GPIO chip".to_owned() } else { format!("this machine has {}", others.join(", ")) }
    )]
    NoChip {
        /// What was asked for.
        chip: PathBuf,
        /// Chips that are there.
        others: Vec<String>,
    },
    /// There is no PWM.
    #[error(
        "{chip} does not exist, {}; without hardware leave the option out: the default is a pipe",
        if others.is_empty() { "and this machine has no PWM chip".to_owned() } else { format!("this machine has {}", others.join(", ")) }
    )]
    NoPwm {
        /// What was asked for.
        chip: PathBuf,
        /// Chips that are there.
        others: Vec<String>,
    },
    /// A chip has no such line.
    #[error("{chip} has no line {line}; `gpioinfo` (Debian package gpiod) lists its {lines} lines")]
    NoLine {
        /// The chip.
        chip: PathBuf,
        /// What was asked for.
        line: String,
        /// How many lines it has.
        lines: u32,
    },
    /// What stands in the way of a probe that another crate brings.
    #[error(transparent)]
    Own(Box<dyn std::error::Error + Send + Sync>),
    /// A thread could not be started.
    #[error("cannot start the thread of {what}: {source}; the limit of threads (ulimit -u) may be reached")]
    Thread {
        /// Whose.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
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

        let made = Made::default();
        (0..10).for_each(|_| _ = made.add());
        let body = OnEdges { edges: (), task: (), delay_ns: 0, made: Some(made) };
        let all = body.with_unanswered(answered(6, 1), u64::MAX);
        // The tenth may still be on its way: nine less six.
        assert_eq!((all.slots, all.cycles, all.skipped, all.skipped_at_end), (9, 5, 4, 3));
        assert_eq!(body.with_unanswered(answered(0, 0), u64::MAX).skipped, 9, "none of them reached the loop");
        assert_eq!(body.with_unanswered(answered(6, 1), 6), answered(6, 1), "the run was for six");
        let from_outside = OnEdges { edges: (), task: (), delay_ns: 0, made: None };

        assert_eq!(from_outside.with_unanswered(answered(6, 1), u64::MAX), answered(6, 1));
    }
}
