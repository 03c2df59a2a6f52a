//! A bench that ends when its verdict is decided: looks at its files between two loads.

use std::path::Path;

use onbeat::bench::conduct::{BenchPlan, Look};
use onbeat_report::units::percent;
use onbeat_report::verdict::looks;
use onbeat_report::{Limit, Outcome, Summary, Verdict};

use super::runs;

/// The looks at a bench.
pub(super) struct Watched<'w> {
    dir: &'w Path,
    looks: LooksLeft,
    /// What the last look showed, for the line of progress.
    pub(super) words: String,
}

impl<'w> Watched<'w> {
    pub(super) fn new(dir: &'w Path, plan: &BenchPlan, is_resumed: bool) -> Self {
        let left = if plan.looks > 0 { looks(plan.duration.as_secs_f64()) } else { Vec::new() };
        Self { dir, looks: LooksLeft { left, is_resumed }, words: String::new() }
    }

    /// What a look shows whose time has come: the verdict changes at looks only, which share the
    /// level, and so does what is still measured.
    pub(super) fn look(&mut self, elapsed_s: f64) -> Look {
        let going_on = || Look::GoOn { without: Vec::new() };
        if !self.looks.is_due(elapsed_s) {
            return going_on();
        }

        // A file that cannot be read now is for the end of the bench to complain about.
        let Ok(judged) = runs::judged(self.dir, None) else { return going_on() };
        self.words = approaching(&judged.summary);
        match judged.summary.verdict.outcome {
            Some(Outcome::Pass | Outcome::Fail) => Look::Decided,
            _ => Look::GoOn { without: failed(&judged.summary) },
        }
    }
}

/// Tunings that fail under one load or more. Of a bench that is not decided not all do.
fn failed(summary: &Summary) -> Vec<String> {
    let has_failed = |tuning: &&String| {
        let mut cells = summary.cells.iter().filter(|cell| cell.tuning == **tuning);
        cells.any(|cell| cell.verdict.as_ref().is_some_and(|of| of.outcome == Outcome::Fail))
    };
    let failed: Vec<String> = summary.tunings.iter().filter(has_failed).cloned().collect();
    if failed.len() == summary.tunings.len() { Vec::new() } else { failed }
}

/// Looks that are left, in seconds, the next one first.
pub(super) struct LooksLeft {
    left: Vec<f64>,
    /// Whether the looks that are over at the first question were taken, or lost, before the bench
    /// was resumed. Taken again they would share the level with more than all of them.
    is_resumed: bool,
}

impl LooksLeft {
    pub(super) const fn new(left: Vec<f64>) -> Self {
        Self { left, is_resumed: false }
    }

    /// The next look, in seconds of the run; `None` behind the last one.
    pub(super) fn next(&self) -> Option<f64> {
        self.left.first().copied()
    }

    /// Whether a look has come that was not taken yet.
    pub(super) fn is_due(&mut self, elapsed_s: f64) -> bool {
        let over = self.left.iter().take_while(|at| **at <= elapsed_s).count();
        self.left.drain(..over);
        let are_of_before = std::mem::take(&mut self.is_resumed);
        over > 0 && !are_of_before
    }
}

/// `PMC/paper: 0 % to 1.4 % over (1 % allowed)`: the bounds that the verdict waits for.
fn approaching(summary: &Summary) -> String {
    let (Some(best), Some(limit)) = (&summary.verdict.best, summary.limit) else {
        return String::new();
    };
    let of_best = summary.cells.iter().filter(|cell| cell.tuning == best.tuning);
    let judged = of_best.filter_map(|cell| Some((cell, cell.verdict.as_ref()?)));
    let worst = judged.max_by(|(_, a), (_, b)| a.at_most.total_cmp(&b.at_most));
    worst.map_or(String::new(), |(cell, verdict)| {
        format!("{}: {}", cell.cell(), bounds_in_words(verdict, limit))
    })
}

/// `0 % to 1.4 % over (1 % allowed)`.
pub(super) fn bounds_in_words(verdict: &Verdict, limit: Limit) -> String {
    format!(
        "{} to {} over ({} allowed)",
        percent(verdict.at_least),
        percent(verdict.at_most),
        percent((100.0 - limit.at) / 100.0)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bench_that_is_resumed_takes_the_looks_that_are_left_and_none_twice() {
        let begun = |is_resumed| LooksLeft { left: looks(40.0), is_resumed };
        let mut whole = begun(false);
        let due = [5.0, 10.5, 11.0, 21.0, 41.0, 50.0].map(|at| whole.is_due(at));
        assert_eq!(due, [false, true, false, true, true, false]);

        let mut resumed = begun(true);
        let due = [15.0, 19.0, 20.5, 29.0, 41.0, 50.0].map(|at| resumed.is_due(at));
        assert_eq!(due, [false, false, true, true, true, false], "10 and 14 were over");
    }
}
