//! Modes of single cycles: found by when the largest value of each step was, whatever the period is
//! in steps.

use super::comes::{self, Comes};
use super::events::{self, LEAST_EVENTS, LateInstant, MeasuredSteps};
use super::pairs;
use super::series::{TrendGrid, median};
use super::spectrum;

/// A period is also tried at these multiples and parts of it.
const MULTIPLES: std::ops::RangeInclusive<usize> = 2..=12;
/// Most corrections of a period to a part or a multiple.
const MOST_CHANGES: usize = 4;
/// Candidates of a set whose multiples are tried.
const MOST_CANDIDATES: usize = 2;
/// Modes of one set.
const MOST_PER_SET: usize = 4;
const MOST_PASSES: usize = 3;
/// Modes of single cycles of one run.
const MOST: usize = 12;
/// A set with this part of the steps may show what is faster than steps.
const DENSE: f64 = 0.25;
/// Fewer instants than this have no spectrum.
const LEAST_DENSE: usize = 32;
/// Instants that are aligned together where the period drifts.
const CHUNK: usize = 64;
/// Instants within this many units of a mode belong to it.
const BESIDE: f64 = 1.2;
/// Instants of at least this part of a mode's size belong to it.
const SAME_SIZE: f64 = 0.5;

/// The share of its periods in which a mode is nearly always, and the part of it in which what
/// chance adds elsewhere is nearly never.
const NEARLY_ALWAYS: f64 = 0.8;
const NEARLY_NEVER: f64 = 0.34;

/// A mode of single cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Single {
    pub(super) comes: Comes,
    /// How much larger than the step's median the mode's values are, in nanoseconds.
    pub(super) size_ns: f64,
    /// Periods in which it was; for what is faster than steps, steps whose largest value it made.
    pub(super) seen: u64,
    /// Periods that could have shown it; steps as above.
    pub(super) periods: u64,
    /// When it was first, in seconds from the grid's begin.
    pub(super) first_s: f64,
}

/// All of them. The largest values that they made are taken out of the grid.
pub(super) fn all(grid: &mut TrendGrid, release_s: f64) -> Vec<Single> {
    let mut found: Vec<Single> = Vec::new();
    let (mut events, mut measured) = events::of(grid, release_s);
    // Again after a find: beside what comes every five seconds, what comes every hour does not
    // stand out.
    for _ in 0..MOST_PASSES {
        let before = found.len();
        for set in events::sets(&events) {
            for _ in 0..MOST_PER_SET {
                let Some(comes) = clearest(&events, set, &measured).filter(|_| found.len() < MOST)
                else {
                    break;
                };
                let (single, steps) = counted(&events, set, comes, &measured);
                measured.forget(&steps);
                for step in steps {
                    grid.forget_largest(step, comes.period_s > 2.0 * grid.step_s);
                }

                events.retain(|event| measured.has(event.step));
                found.push(single);
            }
        }

        if found.len() == before {
            break;
        }
    }

    found
}

/// The mode of a set that stands out most.
fn clearest(events: &[LateInstant], set: (f64, f64), measured: &MeasuredSteps) -> Option<Comes> {
    let times = events::times(events, set);
    if times.len() < LEAST_EVENTS {
        return None;
    }

    let is_dense =
        times.len() >= LEAST_DENSE && times.len() as f64 >= DENSE * measured.steps() as f64;
    let rapid: Vec<f64> = if is_dense && measured.unit_s < measured.step_s {
        let periods = spectrum::periods(&times, measured).into_iter();
        periods.map(|period_s| spectrum::refined(&times, period_s, measured)).collect()
    } else {
        Vec::new()
    };

    let mut tried: Vec<Comes> =
        rapid.iter().filter_map(|period_s| comes::at(&times, *period_s, measured)).collect();
    tried.extend(pairs::periods(&times, measured).into_iter().filter_map(|candidate| {
        let period_s = pairs::refined(&times, candidate, measured);
        comes::at(&times, period_s, measured)
            .or_else(|| comes::at(&times, candidate.period_s, measured))
    }));
    // What chance does at least as well is at no multiple of its period a mode.
    tried.retain(|comes| comes.ln_chance < 0.0);
    tried.sort_unstable_by(|a, b| a.ln_chance.total_cmp(&b.ln_chance));
    tried.truncate(MOST_CANDIDATES);
    let own = tried.into_iter().map(|comes| own_period(&times, comes, measured));
    let clearest = own.min_by(|a, b| a.ln_chance.total_cmp(&b.ln_chance)).filter(Comes::is_real);
    let clearest = clearest.map(|comes| whole_period(&times, comes, measured));

    clearest.or_else(|| rapid.iter().find_map(|period_s| wandering(&times, *period_s, measured)))
}

/// What a period of the spectrum comes to where it wanders in the course of the run: each stretch
/// of instants has a phase of its own.
fn wandering(times: &[f64], period_s: f64, measured: &MeasuredSteps) -> Option<Comes> {
    if period_s >= measured.step_s || times.len() < 4 * CHUNK {
        return None;
    }

    let mut comes =
        comes::at(&spectrum::brought_together(times, period_s, CHUNK), period_s, measured)?;
    // Each stretch has had a phase to choose.
    let chosen = (times.len() / CHUNK) as f64 * (comes.period_s / comes.width_s).ln();
    comes.ln_chance = (comes.ln_chance + chosen).min(0.0);
    Some(comes).filter(Comes::is_real)
}

/// A mode agrees with parts of its period, where it is missing from most, and with multiples, where
/// it is there several times. Its own period is where one narrow part holds all of it, which is
/// where that is least by chance.
fn own_period(times: &[f64], comes: Comes, measured: &MeasuredSteps) -> Comes {
    let mut best = polished(times, comes, measured);
    for _ in 0..MOST_CHANGES {
        let here = best;
        for m in MULTIPLES {
            for period_s in [here.period_s * m as f64, here.period_s / m as f64] {
                if !(measured.shortest_s * 0.95..=measured.longest_s * 1.1).contains(&period_s) {
                    continue;
                }
                let other = comes::at(times, period_s, measured)
                    .filter(|other| other.ln_chance < best.ln_chance);
                best = other.unwrap_or(best);
            }
        }

        if best == here {
            break;
        }

        best = polished(times, best, measured);
    }

    best
}

/// A part of a mode's own period holds all of the mode too, and what other modes happen to add there:
/// beside them it is the clearer one. Where one of every few times is nearly always there and the
/// others are nearly never, the period is that many times as long.
fn whole_period(times: &[f64], comes: Comes, measured: &MeasuredSteps) -> Comes {
    let could_of = |comes: &Comes| match comes.period_s < measured.step_s {
        true => measured.steps(),
        false => comes::windows(comes, measured).count(),
    };
    let could = could_of(&comes);
    let mut whole = MULTIPLES.filter_map(|m| {
        let period_s = comes.period_s * m as f64;
        if period_s < measured.step_s || period_s > measured.longest_s * 1.1 {
            return None;
        }

        let of_one = polished(times, comes::at(times, period_s, measured)?, measured);
        let of_one_could = could_of(&of_one).max(1);
        let there = of_one.inside as f64 / of_one_could as f64;
        let others = comes.inside.saturating_sub(of_one.inside) as f64
            / could.saturating_sub(of_one_could).max(1) as f64;
        let is_whole = there >= NEARLY_ALWAYS && others <= NEARLY_NEVER * there;
        (is_whole && of_one.is_real()).then_some(of_one)
    });

    // The largest of them that is, because what is every fourth time is every second one too.
    whole.next_back().unwrap_or(comes)
}

/// The same with the period that fits the instants in it best (least squares over their numbers).
fn polished(times: &[f64], comes: Comes, measured: &MeasuredSteps) -> Comes {
    let place = |t: f64| {
        let turn = ((t - comes.from_s) / comes.period_s).floor();
        (turn, t - comes.from_s - turn * comes.period_s)
    };

    let inside: Vec<(f64, f64)> =
        times.iter().map(|t| place(*t)).filter(|(_, off)| *off <= comes.width_s).collect();
    let n = inside.len().max(1) as f64;
    let (turns, offs) =
        inside.iter().fold((0.0, 0.0), |(turns, offs), (turn, off)| (turns + turn, offs + off));
    let turn_mean = turns / n;
    let off_mean = offs / n;
    let mut together = 0.0;
    let mut square = 0.0;
    for (turn, off) in &inside {
        together += (turn - turn_mean) * (off - off_mean);
        square += (turn - turn_mean) * (turn - turn_mean);
    }

    let period_s = comes.period_s + if square > 0.0 { together / square } else { 0.0 };
    let fitted =
        comes::at(times, period_s, measured).filter(|fitted| fitted.ln_chance <= comes.ln_chance);
    fitted.unwrap_or(comes)
}

/// The mode counted among all events, whatever set it was found in; and the steps that it made the
/// largest value of.
fn counted(
    events: &[LateInstant],
    set: (f64, f64),
    comes: Comes,
    measured: &MeasuredSteps,
) -> (Single, Vec<usize>) {
    // A disturbance between two releases is felt at the later one.
    let from_s = comes.from_s - BESIDE * measured.unit_s;
    let width_s = comes.width_s + 2.0 * BESIDE * measured.unit_s;
    let is_there =
        |event: &&LateInstant| (event.at_s - from_s).rem_euclid(comes.period_s) <= width_s;
    let at_place: Vec<&LateInstant> = events.iter().filter(is_there).collect();
    let sizes = |from: f64, to: f64| {
        let of = at_place.iter().map(|event| event.late_ns).filter(|ns| (from..to).contains(ns));
        of.collect::<Vec<f64>>()
    };

    let least_ns = SAME_SIZE * median(&mut sizes(set.0, set.1));
    let its: Vec<&&LateInstant> =
        at_place.iter().filter(|event| event.late_ns >= least_ns).collect();
    let turn = |event: &LateInstant| ((event.at_s - from_s) / comes.period_s).floor() as i64;
    let is_fast = comes.period_s < measured.step_s;
    let mut turns: Vec<i64> = its.iter().map(|event| turn(event)).collect();
    turns.dedup();
    let (seen, periods) = if is_fast {
        (its.len(), measured.steps())
    } else {
        (turns.len(), comes::windows(&comes, measured).count().max(turns.len()))
    };

    let single = Single {
        comes,
        size_ns: median(&mut sizes(least_ns, f64::INFINITY)),
        seen: seen as u64,
        periods: periods as u64,
        first_s: its.first().map_or(0.0, |event| event.at_s),
    };

    (single, its.iter().map(|event| event.step).collect())
}
