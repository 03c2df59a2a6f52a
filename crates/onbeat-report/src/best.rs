//! The answer of a whole bench: which tuning, and whether it holds the limit under every load.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cell::CellSummary;
use super::deadline::DeadlineVerdict;
use super::focus::{listed_tunings, named, with};
use super::ranking::{RankedTuning, Ranking, ranking};
use super::units::{Letters, count, counted, listed, percent, ratio, time_ns, under};
use super::verdict::{Limit, Outcome, limit_in_words, missed_in_words, stalls_in_words};
use onbeat_record::{Cell, RunFile, Series, Stall};

/// The verdict of a bench or run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overall {
    /// Outcome of the best tuning under all loads, the worse one of limit and limit on alarms;
    /// `None` without a limit.
    pub outcome: Option<Outcome>,
    /// Verdict of the best tuning on the loop's own deadline; only without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<DeadlineVerdict>,
    /// The best tuning, and the load under which its tail is largest; `None` without samples and
    /// with `measure --cpus`.
    pub best: Option<Cell>,
    /// The worst CPU of `measure --cpus`, whose outcome is the outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst: Option<Cell>,
    /// Tunings that cannot be distinguished from the best one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ties: Vec<String>,
    /// A bench this many times as long would separate the nearest of them; absent without ties, and
    /// if no length would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times_longer: Option<f64>,
    /// The result as a sentence.
    pub sentence: String,
}

/// The heaviest load: the last one that is not `idle`, or the last.
#[must_use]
pub fn heaviest_load(loads: &[String]) -> Option<&String> {
    loads.iter().rev().find(|load| *load != "idle").or_else(|| loads.last())
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

/// The answer from the cells of a bench and the files they were made from.
///
/// A tuning is as good as its worst cell: it passes only if it passes under every load asked for.
/// Among tunings with the same outcome the one with the fewest late releases over all loads wins,
/// then the one with the smallest tail of its worst load at the highest percentile that all cells
/// support, then the one with the fewest letters. Those that cannot be distinguished from it are
/// named.
#[must_use]
pub fn overall(
    cells: &[CellSummary],
    files: &[RunFile],
    tunings: &[String],
    loads: &[String],
    limit: Option<Limit>,
) -> Overall {
    let Some(ranking) = ranking(cells, files, (tunings, loads), limit) else {
        let sentence = "INCONCLUSIVE: no samples were recorded".to_owned();
        return Overall {
            outcome: limit.map(|_| Outcome::Inconclusive),
            sentence,
            ..Overall::default()
        };
    };
    let mut sentence = match limit {
        Some(limit) => {
            let all_ran = cells.iter().all(|cell| cell.permitted);
            let any = if all_ran { "any tuning" } else { "any permitted tuning" };
            judged(&ranking, loads, limit, any)
        }
        None => compared(&ranking),
    };

    if let Some(stalls) = stalls_in_words(&stalls(cells)) {
        sentence = format!("{sentence}. {stalls}");
    }

    let winner = &ranking.candidates[ranking.winner];
    Overall {
        outcome: limit.map(|_| winner.outcome),
        deadline: None,
        worst: None,
        best: Some(winner.tail().1.cell()),
        ties: names(&ranking, &ranking.ties),
        times_longer: ranking.times_longer,
        sentence,
    }
}

fn names(ranking: &Ranking<'_>, places: &[usize]) -> Vec<String> {
    places.iter().map(|&place| ranking.candidates[place].tuning.to_owned()).collect()
}

/// The sentence of a bench with a limit; `any` names all that were tried.
fn judged(ranking: &Ranking<'_>, loads: &[String], limit: Limit, any: &str) -> String {
    let winner = &ranking.candidates[ranking.winner];
    let tuning = winner.tuning;
    let with_it = with(tuning);
    let limit_words = limit_in_words(limit);
    let alone = ranking.candidates.len() == 1;
    let detail =
        |cell: &CellSummary| cell.verdict.as_ref().map_or(String::new(), |v| v.sentence.clone());

    let words = match (winner.outcome, winner.decisive) {
        (Outcome::Pass, decisive) => {
            let cell = decisive.unwrap_or(winner.tail().1);
            let (everywhere, here) = match loads {
                [only] => {
                    let here = cell.on_cpu().map_or(String::new(), |on| format!("{on}: "));
                    (under(only), here)
                }
                _ => {
                    let all = listed(loads);
                    (format!("under every load ({all})"), format!("{}: ", cell.place()))
                }
            };
            let detail = detail(cell);
            let others = others(ranking);
            format!("limit met {with_it}: {limit_words} {everywhere}; {here}{detail}{others}")
        }
        (Outcome::Inconclusive, Some(cell)) => {
            let best = if alone { "" } else { " (the best)" };
            format!(
                "limit may be met {with_it}{best}: {limit_words}; {}: {}",
                cell.place(),
                detail(cell)
            )
        }
        (Outcome::Inconclusive, None) => {
            format!("limit may be met {with_it}: {limit_words}; not every requested load was run")
        }
        (Outcome::Fail, decisive) => {
            let cell = decisive.unwrap_or(winner.tail().1);
            let place = cell.place();
            let missed = missed_in_words(limit);
            if alone {
                format!("{missed} {with_it}; {place}: {}", detail(cell))
            } else {
                let best = named(tuning);
                format!("{missed} with {any}; {best} (the best), {place}: {}", detail(cell))
            }
        }
    };

    format!("{}: {words}{}", winner.outcome.words(), ties_in_words(ranking))
}

/// The sentence of a bench without one.
fn compared(ranking: &Ranking<'_>) -> String {
    let winner = &ranking.candidates[ranking.winner];
    let (tail_ns, cell) = winner.tail();
    let about = cell.main().map_or(Series::ReleaseLatency, |(series, _)| series);
    let time = time_ns(tail_ns, Letters::Ascii);
    let figure = format!("{} {} {time} {}", ranking.share.label(), about.words(), cell.place());
    if ranking.candidates.len() == 1 {
        return alone(cell, &figure);
    }

    let ties = ties_in_words(ranking);
    let Some(none) = ranking.candidates.iter().find(|candidate| candidate.tuning == "none") else {
        return format!("{} is best: {figure}{ties}", winner.tuning);
    };
    let untuned = named(none.tuning);
    if winner.tuning == "none" && ranking.ties.len() + 1 == ranking.candidates.len() {
        return format!("No tuning is distinguishable from {untuned}: {figure}");
    }

    if winner.tuning == "none" {
        return format!("No tuning is better than {untuned}: {figure}{ties}");
    }

    let (none_ns, none_cell) = none.tail();
    let times = none_ns as f64 / tail_ns.max(1) as f64;
    let skipped = skipped_in_words(none_cell);
    let against = match skipped {
        _ if times < 1.0 => String::new(),
        // A ratio of two loads says nothing of the tuning.
        _ if none_cell.load != cell.load => {
            let also = skipped.map(|skipped| format!(" and {skipped}")).unwrap_or_default();
            let none_time = time_ns(none_ns, Letters::Ascii);
            format!(", its worst load; {untuned} has {none_time} {}{also}", none_cell.place())
        }
        Some(skipped) => {
            format!(", {} times below {untuned}, which {skipped}", short_ratio(times))
        }
        None => format!(", {} times below {untuned}", short_ratio(times)),
    };

    format!("{} is best: {figure}{against}{ties}", winner.tuning)
}

/// One tuning under one load or several: nothing to compare it with.
fn alone(cell: &CellSummary, figure: &str) -> String {
    let worst = cell.max_ns();
    let releases = cell.main().map_or(cell.slots, |(_, figures)| figures.count);
    let releases = counted(releases, "release");
    let skipped = skipped_in_words(cell).map_or(String::new(), |words| format!("; {words}"));
    format!("{figure}, at most {} in {releases}{skipped}", time_ns(worst, Letters::Ascii))
}

/// `; PMC is statistically tied with PC and PMCS`.
fn ties_in_words(ranking: &Ranking<'_>) -> String {
    match ranking.ties.as_slice() {
        [] => String::new(),
        ties => format!(
            "; {} is statistically tied with {}",
            named(ranking.candidates[ranking.winner].tuning),
            listed_tunings(&names(ranking, ties))
        ),
    }
}

fn short_ratio(times: f64) -> String {
    match times {
        // Two digits: a percentile far out has no more precision.
        times if times >= 1000.0 => count((times / 100.0).round() as u64 * 100),
        times if times >= 10.0 => ratio(times),
        times => format!("{times:.1}"),
    }
}

fn skipped_in_words(cell: &CellSummary) -> Option<String> {
    let skipped = cell.skipped.filter(|skipped| *skipped > 0)?;
    let rate = skipped as f64 / cell.slots.max(1) as f64;
    Some(format!(
        "skipped {} of {} releases ({})",
        count(skipped),
        count(cell.slots),
        percent(rate)
    ))
}

/// What the other tunings came to.
fn others(ranking: &Ranking<'_>) -> String {
    let holds = |candidate: &&RankedTuning<'_>| {
        candidate.outcome == Outcome::Pass
            && candidate.tuning != ranking.candidates[ranking.winner].tuning
    };
    let holding: Vec<String> = ranking
        .candidates
        .iter()
        .filter(holds)
        .map(|candidate| candidate.tuning.to_owned())
        .collect();
    match holding.len() {
        0 if ranking.candidates.len() == 1 => String::new(),
        0 => "; no other tuning passes".to_owned(),
        1 => format!("; {} passes too", named(&holding[0])),
        _ => format!("; {} pass too", listed_tunings(&holding)),
    }
}
