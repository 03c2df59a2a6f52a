//! A bench that ends when its verdict is decided: looks at its files between two loads.

use std::path::Path;

use onbeat::bench::conduct::BenchPlan;
use onbeat::report::units::percent;
use onbeat::report::verdict::looks;
use onbeat::report::{Outcome, Summary};

use super::runs;

/// The looks at a bench.
pub(super) struct Watched<'w> {
    dir: &'w Path,
    /// Seconds of the looks that are left, the next one first.
    looks: Vec<f64>,
    /// What the last look showed, for the line of progress.
    pub(super) words: String,
}

impl<'w> Watched<'w> {
    pub(super) fn new(dir: &'w Path, plan: &BenchPlan) -> Self {
        let looks = if plan.looks > 0 { looks(plan.duration.as_secs_f64()) } else { Vec::new() };
        Self { dir, looks, words: String::new() }
    }

    /// Whether the verdict is PASS or FAIL at a look that has come. It changes at looks only: they
    /// share the level.
    pub(super) fn is_decided(&mut self, elapsed_s: f64) -> bool {
        let over = self.looks.iter().take_while(|at| **at <= elapsed_s).count();
        if over == 0 {
            return false;
        }

        self.looks.drain(..over);
        // A file that cannot be read now is for the end of the bench to complain about.
        let Ok(judged) = runs::judged(self.dir, None) else { return false };
        self.words = approaching(&judged.summary);
        matches!(judged.summary.verdict.outcome, Some(Outcome::Pass | Outcome::Fail))
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
        format!(
            "{}/{}: {} to {} over ({} allowed)",
            cell.tuning,
            cell.load,
            percent(verdict.at_least),
            percent(verdict.at_most),
            percent((100.0 - limit.at) / 100.0)
        )
    })
}
