//! Which tuning is best, over all loads of a bench, and which ones cannot be distinguished from it.
//!
//! Tunings are ranked by outcome, then by how many releases were too late (over the limit or,
//! without one, deadline misses and skipped releases), then by the tail of their worst load. A
//! tuning that is behind the leader by no more than chance explains stays in: intervals come from
//! stretches of time drawn again with replacement (`bootstrap`), because late releases come in
//! groups.

use std::collections::BTreeMap;

use super::bootstrap::{Drawn, LEAST_STRETCHES, Stretches, interval};
use super::cell::CellSummary;
use super::file_facts::cell_of;
use super::statistics::Share;
use super::verdict::{Limit, Outcome};
use onbeat_record::{RunFile, Series};

/// Percentiles that tunings may be compared by, the farthest out first.
const COMPARED_BY: [Share; 6] =
    [Share::P99_999, Share::P99_99, Share::P99_9, Share::P99, Share::P90, Share::P50];
/// How often stretches are drawn again.
const RESAMPLES: u32 = 2000;
/// Where the draws start: the same files give the same ranking.
const SEED: u64 = 2009;

/// A tuning with everything that it is ranked by.
pub(super) struct RankedTuning<'c> {
    pub(super) tuning: &'c str,
    pub(super) outcome: Outcome,
    /// Its cell that decides the outcome; `None` when that one was not run.
    pub(super) decisive: Option<&'c CellSummary>,
    /// Its cells with samples, in the order of the loads.
    pub(super) cells: Vec<&'c CellSummary>,
    late: LateReleases,
    /// The percentile compared, of the load where it is largest.
    tail: Option<Drawn>,
    share: Share,
}

/// Releases that were too late, out of all, over all loads.
struct LateReleases {
    rate: f64,
    /// The rate of stretches drawn again; empty with fewer than [`LEAST_STRETCHES`].
    draws: Vec<f64>,
}

/// The ranking of all tunings.
pub(super) struct Ranking<'c> {
    /// Every tuning with samples, in the order asked for.
    pub(super) candidates: Vec<RankedTuning<'c>>,
    /// The place of the best one.
    pub(super) winner: usize,
    /// Places of those that cannot be distinguished from it; not the winner's own.
    pub(super) ties: Vec<usize>,
    /// The percentile that tails were compared by.
    pub(super) share: Share,
    /// How many times as long a run would distinguish the nearest tie, as its interval shrinks with
    /// the root of time.
    pub(super) times_longer: Option<f64>,
}

/// What all tunings of a bench are ranked by.
struct RankedBy<'r> {
    files: &'r [RunFile],
    loads: &'r [String],
    limit: Option<Limit>,
    share: Share,
}

/// Ranks the tunings of a bench; `None` when no cell has samples. Tunings that have samples under
/// fewer loads than others are ranked by what they have, and cannot pass.
pub(super) fn ranking<'c>(
    cells: &'c [CellSummary],
    files: &[RunFile],
    (tunings, loads): (&'c [String], &[String]),
    limit: Option<Limit>,
) -> Option<Ranking<'c>> {
    let with_samples = |tuning: &str, load: &String| {
        cells
            .iter()
            .find(|cell| cell.tuning == tuning && cell.load == *load && cell.main().is_some())
    };
    let all: Vec<(&str, Vec<&CellSummary>)> = tunings
        .iter()
        .map(|tuning| {
            (
                tuning.as_str(),
                loads.iter().filter_map(|load| with_samples(tuning, load)).collect::<Vec<_>>(),
            )
        })
        .filter(|(_, cells)| !cells.is_empty())
        .collect();
    let share = compared_by(all.iter().flat_map(|(_, cells)| cells));
    let by = RankedBy { files, loads, limit, share };
    let candidates: Vec<RankedTuning<'c>> = (SEED..)
        .zip(all)
        .map(|(seed, (tuning, of_tuning))| RankedTuning::new(tuning, of_tuning, &by, seed))
        .collect();

    if candidates.is_empty() { None } else { Some(ranked(candidates, share)) }
}

/// The percentile farthest out that all cells support; the median when none is.
fn compared_by<'c>(cells: impl Iterator<Item = &'c &'c CellSummary> + Clone) -> Share {
    let fewest = cells.filter_map(|cell| Some(cell.main()?.1.count)).min().unwrap_or(0);
    COMPARED_BY.into_iter().find(|share| share.is_supported_by(fewest)).unwrap_or(Share::P50)
}

fn ranked(candidates: Vec<RankedTuning<'_>>, share: Share) -> Ranking<'_> {
    let mut left: Vec<usize> = (0..candidates.len()).collect();
    let best = candidates.iter().map(|candidate| candidate.outcome).min();
    left.retain(|&i| Some(candidates[i].outcome) == best);

    let leader = lowest(&left, |i| candidates[i].late.rate);
    left.retain(|&i| candidates[i].late.may_equal(&candidates[leader].late));
    let leader = lowest(&left, |i| candidates[i].ln_tail());
    left.retain(|&i| i == leader || candidates[i].tail_behind(&candidates[leader]) <= 0.0);

    // Of those with the same tail, the one that asks least of the machine.
    let order = |&a: &usize, &b: &usize| {
        let tail = candidates[a].ln_tail().total_cmp(&candidates[b].ln_tail());
        tail.then(candidates[a].letters().cmp(&candidates[b].letters()))
    };

    let winner = left.iter().copied().min_by(order).unwrap_or(leader);
    let ties: Vec<usize> = left.into_iter().filter(|&i| i != winner).collect();
    let times_longer = ties
        .iter()
        .filter_map(|&i| candidates[i].times_longer(&candidates[winner]))
        .reduce(f64::min);
    Ranking { candidates, winner, ties, share, times_longer }
}

fn lowest(places: &[usize], of: impl Fn(usize) -> f64) -> usize {
    places.iter().copied().min_by(|&a, &b| of(a).total_cmp(&of(b))).unwrap_or(0)
}

impl Ranking<'_> {
    /// The place of the worst one: by outcome, then by late releases, then by its largest value.
    pub(super) fn worst(&self) -> usize {
        let of = |&place: &usize| &self.candidates[place];
        let places = 0..self.candidates.len();
        let worst = places.max_by(|a, b| {
            let (a, b) = (of(a), of(b));
            let late = a.late.rate.total_cmp(&b.late.rate);
            a.outcome.cmp(&b.outcome).then(late).then(a.max_ns().cmp(&b.max_ns()))
        });
        worst.unwrap_or(0)
    }
}

impl<'c> RankedTuning<'c> {
    fn new(tuning: &'c str, cells: Vec<&'c CellSummary>, by: &RankedBy<'_>, seed: u64) -> Self {
        let RankedBy { files, loads, limit, share } = *by;
        let mut random = fastrand::Rng::with_seed(seed);
        let file_of = |cell: &&CellSummary| files.iter().find(|file| cell_of(file) == cell.cell());
        let own: Vec<&RunFile> = cells.iter().filter_map(file_of).collect();
        let late = LateReleases::new(&own, &cells, limit, &mut random);
        let drawn: Option<Vec<Drawn>> = own
            .iter()
            .zip(&cells)
            .map(|(file, cell)| {
                let stretches = Stretches::from_file(file, cell.main()?.0)?;
                Some(Drawn::new(&stretches, share, RESAMPLES, &mut random))
            })
            .collect();
        let (outcome, decisive) = outcome_of(&cells, loads);

        Self {
            tuning,
            outcome,
            decisive,
            late,
            tail: drawn.and_then(|drawn| Drawn::worst_of(&drawn)),
            cells,
            share,
        }
    }

    /// The percentile compared, in nanoseconds, and the cell where it is largest.
    pub(super) fn tail(&self) -> (u64, &'c CellSummary) {
        let of = |cell: &&'c CellSummary| {
            let figure = cell.main().and_then(|(_, figures)| figures.percentile(self.share));
            (figure.map_or(u64::MAX, |percentile| percentile.value_ns), *cell)
        };
        // Of equal ones the later load, which is the heavier.
        self.cells.iter().map(of).max_by_key(|(ns, _)| *ns).unwrap_or((u64::MAX, self.cells[0]))
    }

    /// The largest value of all its cells, in nanoseconds.
    pub(super) fn max_ns(&self) -> u64 {
        self.cells.iter().map(|cell| cell.max_ns()).max().unwrap_or(0)
    }

    fn ln_tail(&self) -> f64 {
        (self.tail().0.max(1) as f64).ln()
    }

    /// The lower end of the interval of by how much the logarithm of this one's tail is behind the
    /// leader's; the difference itself with fewer than [`LEAST_STRETCHES`].
    fn tail_behind(&self, leader: &Self) -> f64 {
        match (&leader.tail, &self.tail) {
            (Some(leading), Some(own)) => interval(own.ln - leading.ln, &[(leading, own)]).0,
            _ => self.ln_tail() - leader.ln_tail(),
        }
    }

    /// How many times as long a run would distinguish the two tails; `None` where they are equal,
    /// or without intervals.
    fn times_longer(&self, other: &Self) -> Option<f64> {
        let own = self.tail.as_ref()?;
        let others = other.tail.as_ref()?;
        let behind = (own.ln - others.ln).abs();
        let (low, high) = interval(own.ln - others.ln, &[(others, own)]);
        let half_width = (high - low) / 2.0;
        (behind > 0.0 && half_width.is_finite()).then(|| (half_width / behind).powi(2).max(1.5))
    }

    fn letters(&self) -> usize {
        let of_part = |part: &str| match part {
            "none" => 0,
            letters if letters.bytes().all(|byte| byte.is_ascii_uppercase()) => letters.len(),
            _ => 1,
        };
        self.tuning.split('+').map(of_part).sum()
    }
}

/// A tuning is as good as its worst cell: it passes only if it passes under every load asked for.
fn outcome_of<'c>(
    cells: &[&'c CellSummary],
    loads: &[String],
) -> (Outcome, Option<&'c CellSummary>) {
    let mut worst = (Outcome::Pass, cells.last().copied());
    for load in loads {
        let cell = cells.iter().find(|cell| cell.load == *load).copied();
        let verdict = cell.and_then(|cell| cell.verdict.as_ref());
        let outcome = verdict.map_or(Outcome::Inconclusive, |verdict| verdict.outcome);
        // On a tie the later load, which is the heavier, decides.
        if outcome >= worst.0 {
            worst = (outcome, cell);
        }
    }

    worst
}

impl LateReleases {
    fn new(
        files: &[&RunFile],
        cells: &[&CellSummary],
        limit: Option<Limit>,
        random: &mut fastrand::Rng,
    ) -> Self {
        let mut late = 0;
        let mut all = 0;
        for cell in cells {
            let (of_cell, out_of) = cell.late_of_all();
            (late, all) = (late + of_cell, all + out_of);
        }

        let stretches: Vec<Vec<(u64, u64)>> =
            files.iter().map(|file| late_by_stretch(file, limit)).collect();
        let has_enough =
            !files.is_empty() && stretches.iter().all(|of_file| of_file.len() >= LEAST_STRETCHES);
        let draw = |_| {
            let mut sum = (0, 0);
            for of_file in &stretches {
                for _ in 0..of_file.len() {
                    let (late, all) = of_file[random.usize(..of_file.len())];
                    sum = (sum.0 + late, sum.1 + all);
                }
            }

            sum.0 as f64 / f64::max(sum.1 as f64, 1.0)
        };

        let draws = if has_enough { (0..RESAMPLES).map(draw).collect() } else { Vec::new() };
        Self { rate: late as f64 / f64::max(all as f64, 1.0), draws }
    }

    /// Whether chance explains by how much this rate is above the leader's. Without draws only
    /// rates that a release or two apart explain are equal.
    fn may_equal(&self, leader: &Self) -> bool {
        if self.draws.is_empty() || leader.draws.is_empty() {
            return self.rate <= leader.rate * 1.1;
        }
        let mut behind: Vec<f64> =
            self.draws.iter().zip(&leader.draws).map(|(own, lead)| own - lead).collect();
        behind.sort_unstable_by(f64::total_cmp);
        behind[(behind.len() - 1) / 40] <= 0.0
    }
}

/// How many releases were too late, of how many, block by block; interval by interval where a run
/// has few blocks.
fn late_by_stretch(run: &RunFile, limit: Option<Limit>) -> Vec<(u64, u64)> {
    let has_blocks = run.blocks.len() >= LEAST_STRETCHES;
    let mut stretches: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut add = |block: Option<u32>, t: f64, (late, all): (u64, u64)| {
        let key = if has_blocks { block.map_or(0, u64::from) } else { (t * 1e3).round() as u64 };
        let sum = stretches.entry(key).or_default();
        *sum = (sum.0 + late, sum.1 + all);
    };

    match limit {
        Some(limit) => {
            let on = super::verdict::on_all_releases(run, limit).on;
            for entry in &run.entries {
                let count = entry.counts.count();
                if entry.series == on {
                    add(entry.block, entry.t, (entry.counts.count_above(limit.limit_ns), count));
                } else if entry.series == Series::SkippedLatency && on.is_late_when_skipped() {
                    add(entry.block, entry.t, (count, count));
                }
            }
        }
        None => {
            for interval in &run.intervals {
                let late = interval.deadline_misses + interval.skipped;
                add(Some(interval.block), interval.t, (late, interval.cycles + interval.skipped));
            }
        }
    }

    stretches.into_values().filter(|(_, all)| *all > 0).collect()
}
