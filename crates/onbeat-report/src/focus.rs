//! What is looked at first: the load that decides, and under it the untuned loop beside the best.
//!
//! Terminal, page, picture and Markdown take it from here, so that all of them open on the same cells.

use serde::{Deserialize, Serialize};

use super::best::Overall;
use super::cell::CellSummary;
use super::statistics::{Share, Statistics};
use super::units::listed;
use super::verdict::{Outcome, Verdict};
use onbeat_record::{Cell, Series};

/// The tuning that changes nothing.
const UNTUNED: &str = "none";

/// A tuning as a sentence names it: there, `none` reads as its opposite.
pub(super) fn named(tuning: &str) -> &str {
    if tuning == UNTUNED { "the untuned loop" } else { tuning }
}

/// `PC, PMC and the untuned loop`.
pub(super) fn listed_tunings(tunings: &[String]) -> String {
    listed(&tunings.iter().map(|tuning| named(tuning).to_owned()).collect::<Vec<_>>())
}

/// `with PMC`, `without tuning`.
pub(super) fn with(tuning: &str) -> String {
    if tuning == UNTUNED { "without tuning".to_owned() } else { format!("with {tuning}") }
}

/// What to show first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Focus {
    /// The load under which the best tuning misses the limit; otherwise the one under which the
    /// untuned loop is worst.
    pub load: String,
    /// Main series of the bench.
    pub series: Series,
    /// The untuned tuning, then the best one; a single one if that is the same or nothing else was
    /// measured. With `measure --cpus` the worst CPU, then the best.
    pub tunings: Vec<String>,
}

impl Focus {
    /// Of a bench; `None` where no cell has samples.
    #[must_use]
    pub fn of_bench(cells: &[CellSummary], tunings: &[String], verdict: &Overall) -> Option<Self> {
        if let Some(worst) = &verdict.worst {
            return Self::of_worst(cells, worst);
        }
        let best = verdict.best.as_ref()?;
        let measured =
            |tuning: &str| cells.iter().any(|cell| cell.tuning == tuning && cell.main().is_some());
        let first = std::iter::once(UNTUNED)
            .chain(tunings.iter().map(String::as_str))
            .find(|tuning| measured(tuning))?;
        let of_deadline = verdict.deadline.as_ref().map(|deadline| deadline.outcome);
        let is_missed = verdict.outcome.or(of_deadline) == Some(Outcome::Fail);
        let missed = is_missed.then(|| decisive(cells, &best.tuning)).flatten();
        let missed = missed.map(|(cell, _)| cell);
        let decides = missed.or_else(|| latest(cells, first))?;
        let (series, _) = decides.main()?;

        let mut shown = vec![first.to_owned()];
        let has_best = cells.iter().any(|cell| {
            cell.tuning == best.tuning && cell.load == decides.load && cell.main().is_some()
        });
        if best.tuning != first && has_best {
            shown.push(best.tuning.clone());
        }
        Some(Self { load: decides.load.clone(), series, tunings: shown })
    }

    /// Of CPUs that were measured at once, or streams of another tool: the worst, then of the same
    /// series and load the one whose largest value is least.
    pub(super) fn of_worst(cells: &[CellSummary], worst: &Cell) -> Option<Self> {
        let of_worst = cells.iter().find(|cell| cell.cell() == *worst)?;
        let (series, _) = of_worst.main()?;
        let others =
            cells.iter().filter(|cell| cell.tuning != worst.tuning && cell.load == worst.load);
        let least = others
            .filter_map(|cell| Some((cell, cell.main().filter(|(of, _)| *of == series)?.1.max_ns)))
            .min_by_key(|(_, max_ns)| *max_ns);
        let tunings = std::iter::once(worst.tuning.clone())
            .chain(least.map(|(cell, _)| cell.tuning.clone()))
            .collect();
        Some(Self { load: worst.load.clone(), series, tunings })
    }
}

/// The cell of a tuning that decides the limit, with its verdict: the worst outcome, and of equal
/// ones the one that may have most releases over it. A load that was not measured yet has decided
/// nothing.
pub(super) fn decisive<'c>(
    cells: &'c [CellSummary],
    tuning: &str,
) -> Option<(&'c CellSummary, &'c Verdict)> {
    let judged = cells
        .iter()
        .filter(|cell| cell.tuning == tuning)
        .filter_map(|cell| Some((cell, cell.verdict.as_ref()?)));
    judged.max_by(|(_, a), (_, b)| a.outcome.cmp(&b.outcome).then(a.at_most.total_cmp(&b.at_most)))
}

/// The cell of a tuning with the largest tail, at the highest percentile that all its cells support;
/// the largest value where they support none.
fn latest<'c>(cells: &'c [CellSummary], tuning: &str) -> Option<&'c CellSummary> {
    let of_tuning: Vec<(&CellSummary, &Statistics)> = cells
        .iter()
        .filter(|cell| cell.tuning == tuning)
        .filter_map(|cell| Some((cell, cell.main()?.1)))
        .collect();
    let at = |figures: &Statistics, share| figures.percentile(share).filter(|p| p.supported);
    let common = Share::PERCENTILES
        .into_iter()
        .rev()
        .find(|share| of_tuning.iter().all(|(_, figures)| at(figures, *share).is_some()));
    let tail_ns = |figures: &Statistics| {
        common.and_then(|share| at(figures, share)).map_or(figures.max_ns, |p| p.value_ns)
    };
    // Of equal ones the last: loads are listed with the lightest first.
    of_tuning.into_iter().max_by_key(|(_, figures)| tail_ns(figures)).map(|(cell, _)| cell)
}
