//! The answer of a whole bench: which tuning, and whether it holds the limit under every load.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cell::CellSummary;
use super::statistics::Share;
use super::units::{Letters, count, listed, percent, ratio, time_ns};
use super::verdict::{Limit, Outcome, limit_in_words, stalls_in_words};
use crate::record::{Cell, Series, Stall};

/// Percentiles that tunings may be compared by, the farthest out first.
const COMPARED_BY: [Share; 4] = [Share::P99_9, Share::P99, Share::P90, Share::P50];

/// How a bench came out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overall {
    /// Of the best tuning under all loads; `None` without a limit.
    pub outcome: Option<Outcome>,
    /// The best tuning, and the heaviest load, under which it was compared; `None` when no cell has samples.
    pub best: Option<Cell>,
    /// All of it in words.
    pub sentence: String,
}

/// The heaviest load: the last one that is not `idle`, or the last.
#[must_use]
pub fn heaviest_load(loads: &[String]) -> Option<&String> {
    heaviest_of(loads.iter())
}

fn heaviest_of<'l>(loads: impl DoubleEndedIterator<Item = &'l String> + Clone) -> Option<&'l String> {
    loads.clone().rev().find(|load| *load != "idle").or_else(|| loads.last())
}

/// Spikes that are no latency of the machine, over all cells.
#[must_use]
pub fn stalls(cells: &[CellSummary]) -> BTreeMap<Stall, u64> {
    let mut all = BTreeMap::new();
    for (stall, n) in cells.iter().flat_map(|cell| &cell.stalls) {
        *all.entry(*stall).or_insert(0) += n;
    }
    all
}

/// The answer from the cells of a bench.
///
/// A tuning is as good as its worst cell: it holds a limit only if it holds under every load asked for. Among tunings
/// with the same outcome the one with the lowest rate over the limit wins under the heaviest load, then the one with the lower
/// p99.9 of wake-up latency (or the highest percentile that all of them support), then the one with fewer letters.
#[must_use]
pub fn overall(cells: &[CellSummary], tunings: &[String], loads: &[String], limit: Option<Limit>) -> Overall {
    let bench = Contest::of(cells, loads);
    let candidates: Vec<Candidate<'_>> = tunings.iter().filter_map(|tuning| bench.candidate(tuning)).collect();
    if candidates.is_empty() {
        let sentence = "not enough samples: no cell has any".to_owned();
        return Overall { outcome: limit.map(|_| Outcome::NotEnoughSamples), best: None, sentence };
    }
    let share = compared_by(&candidates);
    let winner = bench.winner(&candidates, share);
    let mut sentence = match limit {
        Some(limit) => bench.judged(&winner, &candidates, limit),
        None => bench.compared(&winner, &candidates, share),
    };
    if let Some(stalls) = stalls_in_words(&stalls(cells)) {
        sentence = format!("{sentence}. {stalls}");
    }
    let best = Cell { tuning: winner.tuning.to_owned(), load: winner.heaviest.load.clone() };
    Overall { outcome: limit.map(|_| winner.outcome), best: Some(best), sentence }
}

/// The percentile farthest out that every candidate supports under the heaviest load; the median when none is.
fn compared_by(candidates: &[Candidate<'_>]) -> Share {
    let supported = |share: Share| {
        candidates.iter().all(|candidate| candidate.heaviest.wakeup().is_some_and(|s| share.is_supported_by(s.count)))
    };
    COMPARED_BY.into_iter().find(|&share| supported(share)).unwrap_or(Share::P50)
}

/// A tuning that has samples under the heaviest load.
#[derive(Clone, Copy)]
struct Candidate<'c> {
    tuning: &'c str,
    outcome: Outcome,
    /// Its cell that decides the outcome; `None` when that one was not run.
    decisive: Option<&'c CellSummary>,
    heaviest: &'c CellSummary,
}

impl Candidate<'_> {
    fn percentile_ns(&self, share: Share) -> u64 {
        self.heaviest.wakeup().and_then(|figures| figures.percentile(share)).map_or(u64::MAX, |p| p.value_ns)
    }

    fn rate_at_most(&self) -> f64 {
        self.heaviest.verdict.as_ref().map_or(1.0, super::verdict::Verdict::rate_at_most)
    }

    fn letters(&self) -> usize {
        if self.tuning == "none" { 0 } else { self.tuning.len() }
    }
}

struct Contest<'c> {
    cells: &'c [CellSummary],
    loads: &'c [String],
    /// The heaviest load that any cell has samples of.
    heaviest: Option<&'c String>,
}

impl<'c> Contest<'c> {
    fn of(cells: &'c [CellSummary], loads: &'c [String]) -> Self {
        let was_run = |load: &&String| cells.iter().any(|cell| cell.load == **load && cell.wakeup().is_some());
        let heaviest = heaviest_of(loads.iter().filter(was_run));
        Self { cells, loads, heaviest }
    }

    fn cell(&self, tuning: &str, load: &str) -> Option<&'c CellSummary> {
        self.cells.iter().find(|cell| cell.tuning == tuning && cell.load == load && cell.wakeup().is_some())
    }

    fn candidate(&self, tuning: &'c str) -> Option<Candidate<'c>> {
        let heaviest = self.cell(tuning, self.heaviest?)?;
        let mut worst = (Outcome::Holds, Some(heaviest));
        for load in self.loads {
            let cell = self.cell(tuning, load);
            let verdict = cell.and_then(|cell| cell.verdict.as_ref());
            let outcome = verdict.map_or(Outcome::NotEnoughSamples, |verdict| verdict.outcome);
            // On a tie the later load, which is the heavier, decides.
            if outcome >= worst.0 {
                worst = (outcome, cell);
            }
        }
        Some(Candidate { tuning, outcome: worst.0, decisive: worst.1, heaviest })
    }

    fn winner(&self, candidates: &[Candidate<'c>], share: Share) -> Candidate<'c> {
        let mut left = candidates.to_vec();
        let best = left.iter().map(|candidate| candidate.outcome).min().unwrap_or(Outcome::Broken);
        left.retain(|candidate| candidate.outcome == best);
        // Bounds from almost as many releases differ a little even with none over; that is no merit.
        let lowest = left.iter().map(Candidate::rate_at_most).fold(1.0, f64::min);
        left.retain(|candidate| candidate.rate_at_most() <= lowest * 1.1);
        let order = |a: &Candidate<'_>, b: &Candidate<'_>| -> Ordering {
            a.percentile_ns(share).cmp(&b.percentile_ns(share)).then(a.letters().cmp(&b.letters()))
        };
        left.into_iter().min_by(order).unwrap_or(candidates[0])
    }

    /// The sentence of a bench with a limit.
    fn judged(&self, winner: &Candidate<'_>, candidates: &[Candidate<'_>], limit: Limit) -> String {
        let (tuning, limit_words) = (winner.tuning, limit_in_words(limit));
        let alone = candidates.len() == 1;
        let detail = |cell: &CellSummary| cell.verdict.as_ref().map_or(String::new(), |v| v.sentence.clone());
        match (winner.outcome, winner.decisive) {
            (Outcome::Holds, _) => {
                let others = others(winner, candidates);
                let load = &winner.heaviest.load;
                let loads = listed(self.loads);
                format!("{tuning} holds {limit_words} under {loads}; under {load} {}{others}", detail(winner.heaviest))
            }
            (Outcome::NotEnoughSamples, Some(cell)) => {
                let best = if alone { "" } else { ", the best," };
                format!("{tuning}{best} may hold {limit_words}; under {}: {}", cell.load, detail(cell))
            }
            (Outcome::NotEnoughSamples, None) => {
                format!("{tuning} may hold {limit_words}, but was not run under every load asked for")
            }
            (Outcome::Broken, decisive) => {
                let cell = decisive.unwrap_or(winner.heaviest);
                let load = &cell.load;
                if alone {
                    format!("{tuning} does not hold {limit_words}; under {load} {}", detail(cell))
                } else {
                    format!("No tuning holds {limit_words}; with {tuning}, the best, under {load} {}", detail(cell))
                }
            }
        }
    }

    /// The sentence of a bench without one.
    fn compared(&self, winner: &Candidate<'_>, candidates: &[Candidate<'_>], share: Share) -> String {
        let about = winner.heaviest.main().map_or(Series::WakeupLatency, |(series, _)| series);
        let figure = format!(
            "{} {} {} under {}",
            share.label(),
            about.words(),
            time_ns(winner.percentile_ns(share), Letters::Ascii),
            winner.heaviest.load
        );
        if candidates.len() == 1 {
            let worst = winner.heaviest.wakeup().map_or(0, |figures| figures.max_ns);
            let skipped = skipped_in_words(winner.heaviest).map_or(String::new(), |words| format!("; {words}"));
            let cycles = count(winner.heaviest.cycles);
            return format!("{figure}, at most {} in {cycles} cycles{skipped}", time_ns(worst, Letters::Ascii));
        }
        let Some(none) = candidates.iter().find(|candidate| candidate.tuning == "none") else {
            return format!("{} is best: {figure}", winner.tuning);
        };
        if winner.tuning == "none" {
            return format!("No tuning is better than none: {figure}");
        }
        let times = none.percentile_ns(share) as f64 / winner.percentile_ns(share).max(1) as f64;
        let skipped = skipped_in_words(none.heaviest).map_or(String::new(), |words| format!(", which {words}"));
        format!("{} is best: {figure}, {} times below none{skipped}", winner.tuning, short_ratio(times))
    }
}

fn short_ratio(times: f64) -> String {
    match times {
        // Two digits: a percentile far out is no surer than that.
        times if times >= 1000.0 => count((times / 100.0).round() as u64 * 100),
        times if times >= 10.0 => ratio(times),
        times => format!("{times:.1}"),
    }
}

fn skipped_in_words(cell: &CellSummary) -> Option<String> {
    let rate = cell.skipped as f64 / cell.slots.max(1) as f64;
    (cell.skipped > 0)
        .then(|| format!("skipped {} of {} releases ({})", count(cell.skipped), count(cell.slots), percent(rate)))
}

/// What the other tunings came to.
fn others(winner: &Candidate<'_>, candidates: &[Candidate<'_>]) -> String {
    let holding: Vec<String> = candidates
        .iter()
        .filter(|candidate| candidate.outcome == Outcome::Holds && candidate.tuning != winner.tuning)
        .map(|candidate| candidate.tuning.to_owned())
        .collect();
    match holding.len() {
        0 if candidates.len() == 1 => String::new(),
        0 => "; no other tuning is shown to hold".to_owned(),
        1 => format!("; {} holds too", holding[0]),
        _ => format!("; {} hold too", listed(&holding)),
    }
}
