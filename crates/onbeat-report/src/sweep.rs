//! A sweep in figures: smallest, mean, largest and jitter over rising load, and whether the jitter
//! stayed allowed.

use serde::{Deserialize, Serialize};

use super::cell::CellSummary;
use super::table::{Column, Entry, Mark, Row, Table};
use super::tables::mark_of;
use super::units::{Letters, count, fixed, listed, time_ns};
use super::verdict::Outcome;
use onbeat_record::{RunFile, Series, StepNote};

/// A load is reached when the CPUs were busy within this many points of what was asked.
pub const WITHIN_POINTS: f64 = 5.0;

/// The result of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// Series whose jitter is limited.
    pub series: Series,
    /// Largest jitter allowed, in nanoseconds.
    pub allowed_jitter_ns: u64,
    /// Whether that is the paper's value, because none was requested.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_default: bool,
    /// Loads, in rising order.
    pub steps: Vec<SweepStep>,
    /// Loads without samples: the run ended before them, or nothing was served.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// The result as a sentence.
    pub sentence: String,
}

impl Sweep {
    /// PASS when the jitter is allowed at every load; INCONCLUSIVE when it is as far as it was
    /// measured.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let of_steps = self.steps.iter().map(SweepStep::outcome).max();
        let of_missing = (!self.missing.is_empty()).then_some(Outcome::Inconclusive);
        of_steps.into_iter().chain(of_missing).max().unwrap_or(Outcome::Inconclusive)
    }

    /// The number of loads at which the jitter is allowed, and that of all loads.
    #[must_use]
    pub fn passed(&self) -> (usize, usize) {
        let passed = self.steps.iter().filter(|step| step.outcome() == Outcome::Pass).count();
        (passed, self.steps.len() + self.missing.len())
    }

    /// The step with the largest jitter.
    #[must_use]
    pub fn worst(&self) -> Option<&SweepStep> {
        self.steps.iter().max_by_key(|step| step.jitter_ns)
    }
}

/// One load of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SweepStep {
    /// The load as typed.
    pub load: String,
    /// Requested CPU load, in percent.
    pub asked_percent: f64,
    /// Measured CPU load, in percent; `None` where it was not measured.
    pub reached_percent: Option<f64>,
    /// Whether it is within 5 points of the requested load.
    pub is_reached: bool,
    /// Number of samples.
    pub count: u64,
    /// Smallest, in nanoseconds.
    pub min_ns: u64,
    /// Mean, in nanoseconds.
    pub mean_ns: f64,
    /// Largest, in nanoseconds.
    pub max_ns: u64,
    /// Largest minus smallest, in nanoseconds.
    pub jitter_ns: u64,
    /// Whether the jitter is allowed.
    pub is_allowed: bool,
}

impl SweepStep {
    /// Whether the jitter is allowed at this load. Under less load than asked it may be another.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let falls_short = self
            .reached_percent
            .is_some_and(|reached| reached < self.asked_percent - WITHIN_POINTS);
        match (self.is_allowed, falls_short) {
            (false, _) => Outcome::Fail,
            (true, true) => Outcome::Inconclusive,
            (true, false) => Outcome::Pass,
        }
    }
}

/// The sweep of a bench's file and its cells; `None` for a bench that is none.
pub(super) fn of(bench: &RunFile, cells: &[CellSummary]) -> Option<Sweep> {
    let note = bench.bench.as_ref()?;
    let asked = note.sweep?;
    let step = |note: StepNote| {
        let cell = cells.iter().find(|cell| cell.load == note.load)?;
        let figures = cell.series.get(&asked.series)?;
        Some(SweepStep {
            load: note.load,
            asked_percent: note.asked_percent,
            reached_percent: note.reached_percent,
            is_reached: note
                .reached_percent
                .is_some_and(|reached| (reached - note.asked_percent).abs() <= WITHIN_POINTS),
            count: figures.count,
            min_ns: figures.min_ns,
            mean_ns: figures.mean_ns,
            max_ns: figures.max_ns,
            jitter_ns: figures.jitter_ns,
            is_allowed: figures.jitter_ns <= asked.allowed_jitter_ns,
        })
    };

    let steps: Vec<SweepStep> = once_each(&bench.steps).into_iter().filter_map(step).collect();
    let is_missing = |load: &&String| steps.iter().all(|step| step.load != **load);
    let missing: Vec<String> = note.loads.iter().filter(is_missing).cloned().collect();
    let mut sweep = Sweep {
        series: asked.series,
        allowed_jitter_ns: asked.allowed_jitter_ns,
        is_default: asked.is_default,
        steps,
        missing,
        sentence: String::new(),
    };
    sweep.sentence =
        sentence(&sweep).unwrap_or_else(|| "No load of the sweep has samples".to_owned());
    Some(sweep)
}

/// The notes of a load as one: what was reached in its parts, each weighted by its length.
fn once_each(notes: &[StepNote]) -> Vec<StepNote> {
    let mut steps: Vec<StepNote> = Vec::new();
    for note in notes {
        let Some(step) = steps.iter_mut().find(|step| step.load == note.load) else {
            steps.push(note.clone());
            continue;
        };
        step.reached_percent = match (step.reached_percent, note.reached_percent) {
            (Some(earlier), Some(later)) if step.seconds + note.seconds > 0.0 => Some(
                (earlier * step.seconds + later * note.seconds) / (step.seconds + note.seconds),
            ),
            (earlier, later) => later.or(earlier),
        };

        step.seconds += note.seconds;
    }

    steps
}

fn sentence(sweep: &Sweep) -> Option<String> {
    let Sweep { steps, missing, .. } = sweep;
    let formatted = |ns: u64| time_ns(ns, Letters::Ascii);
    let first = steps.first()?;
    let last = steps.last()?;
    let worst = sweep.worst()?;
    let (allowed, loads) = sweep.passed();
    let mut text = format!(
        "Jitter (max - min) of {}: {} at {} % load, {} at {} %, at most {} at {} %; limit {}, met at {allowed} of {loads} loads",
        sweep.series.words(),
        formatted(first.jitter_ns),
        first.asked_percent,
        formatted(last.jitter_ns),
        last.asked_percent,
        formatted(worst.jitter_ns),
        worst.asked_percent,
        formatted(sweep.allowed_jitter_ns)
    );
    if !missing.is_empty() {
        text += &format!("; not measured: {}", listed(missing));
    }
    let missed: Vec<String> = steps.iter().filter(|step| !step.is_reached).map(in_words).collect();

    if !missed.is_empty() {
        text += &format!(
            "; the CPU load missed its target by more than {WITHIN_POINTS} points at {}",
            listed(&missed)
        );
    }

    Some(text)
}

fn in_words(step: &SweepStep) -> String {
    match step.reached_percent {
        Some(reached) => format!("{} % (reached {reached:.0} %)", step.asked_percent),
        None => format!("{} % (not measured)", step.asked_percent),
    }
}

/// A row per load.
#[must_use]
pub fn table(sweep: &Sweep, letters: Letters) -> Table {
    let us = |ns: f64| match ns / 1e3 {
        v if v < 99.95 => format!("{v:.1}"),
        v => fixed(v, 0),
    };

    let row = |step: &SweepStep| {
        let reached =
            step.reached_percent.map_or_else(|| "-".to_owned(), |reached| format!("{reached:.1}"));
        let reached = if step.is_reached {
            Entry::from(reached)
        } else {
            Entry::marked(format!("!{reached}"), Mark::Bad)
        };
        let outcome = step.outcome();
        let entries = vec![
            format!("{}", step.asked_percent).into(),
            reached,
            count(step.count).into(),
            us(step.min_ns as f64).into(),
            us(step.mean_ns).into(),
            us(step.max_ns as f64).into(),
            us(step.jitter_ns as f64).into(),
            Entry::marked(outcome.words(), mark_of(outcome)),
        ];

        Row { entries, begins_group: false }
    };

    let heads = ["load %", "reached", "samples", "min", "avg", "max", "jitter", "verdict"];
    let allowed = time_ns(sweep.allowed_jitter_ns, letters);
    let mut legend = vec![format!("jitter is max - min; limit {allowed}")];
    if sweep.steps.iter().any(|step| !step.is_reached) {
        legend
            .push(format!("! the CPU load missed its target by more than {WITHIN_POINTS} points"));
    }

    Table {
        title: format!("{} over rising CPU load, {}", sweep.series.words(), letters.microseconds()),
        columns: heads.map(Column::figures).into(),
        rows: sweep.steps.iter().map(row).collect(),
        legend,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(asked_percent: f64, reached: f64, jitter_ns: u64) -> SweepStep {
        SweepStep {
            asked_percent,
            reached_percent: Some(reached),
            is_reached: (reached - asked_percent).abs() <= WITHIN_POINTS,
            jitter_ns,
            is_allowed: jitter_ns <= 100_000,
            ..SweepStep::default()
        }
    }

    fn sweep(steps: &[SweepStep], missing: &[&str]) -> Sweep {
        Sweep {
            series: Series::WriteInterval,
            allowed_jitter_ns: 100_000,
            is_default: false,
            steps: steps.to_vec(),
            missing: missing.iter().map(|&load| load.to_owned()).collect(),
            sentence: String::new(),
        }
    }

    #[test]
    fn a_sweep_says_first_last_and_worst_and_what_load_was_missed() {
        let steps = [step(0.0, 1.2, 82_400), step(50.0, 44.9, 250_000), step(100.0, 99.0, 97_800)];
        let text = sentence(&sweep(&steps, &["cpu=75%"])).expect("steps");
        for part in [
            "82.4 us at 0 %",
            "97.8 us at 100 %",
            "at most 250 us at 50 %",
            "met at 2 of 4",
            "not measured: cpu=75%",
            "50 % (reached 45 %)",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }

        assert_eq!(sentence(&sweep(&[], &[])), None);
    }

    #[test]
    fn the_parts_of_a_step_count_as_long_as_they_were_looked_at() {
        let note = |load: &str, reached_percent, seconds| StepNote {
            load: load.to_owned(),
            asked_percent: 50.0,
            reached_percent,
            seconds,
        };

        let steps = once_each(&[
            note("idle", None, 0.0),
            note("idle", Some(2.0), 9.0),
            note("cpu=50%", None, 0.0),
            note("cpu=50%", Some(40.0), 1.0),
            note("cpu=50%", Some(52.0), 3.0),
            note("cpu", None, 0.0),
        ]);
        let reached: Vec<(&str, Option<f64>)> =
            steps.iter().map(|step| (step.load.as_str(), step.reached_percent)).collect();

        assert_eq!(reached, [("idle", Some(2.0)), ("cpu=50%", Some(49.0)), ("cpu", None)]);
        let old = [note("idle", Some(7.0), 0.0), note("idle", Some(9.0), 0.0)];
        assert_eq!(
            once_each(&old)[0].reached_percent,
            Some(9.0),
            "files without it: the later one"
        );
    }

    #[test]
    fn a_sweep_passes_where_every_load_was_reached_and_measured() {
        let (good, busy) = (step(0.0, 1.0, 50_000), step(0.0, 60.0, 50_000));
        let (short, bad) = (step(100.0, 62.0, 50_000), step(50.0, 50.0, 250_000));
        for (steps, missing, outcome) in [
            (&[good.clone(), busy][..], &[][..], Outcome::Pass),
            (std::slice::from_ref(&good), &["cpu=50%", "cpu"], Outcome::Inconclusive),
            (&[good.clone(), short.clone()], &[], Outcome::Inconclusive),
            (&[short, bad], &["cpu"], Outcome::Fail),
            (&[], &["idle"], Outcome::Inconclusive),
        ] {
            let sweep = sweep(steps, missing);
            assert_eq!(sweep.outcome(), outcome, "{sweep:?}");
            assert_eq!(sweep.passed().1, steps.len() + missing.len());
        }
        assert_eq!(good.outcome(), Outcome::Pass);
    }

    #[test]
    fn a_step_that_failed_or_missed_its_load_is_marked() {
        let steps = vec![step(0.0, 1.2, 82_400), step(50.0, 44.9, 250_000)];
        let sweep = Sweep {
            series: Series::WriteInterval,
            allowed_jitter_ns: 100_000,
            is_default: false,
            steps,
            missing: Vec::new(),
            sentence: String::new(),
        };
        let text = table(&sweep, Letters::Ascii).to_text(80);
        assert!(text.contains("PASS") && text.contains("FAIL") && text.contains("!44.9"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80));
    }
}
