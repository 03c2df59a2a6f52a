//! Intervals of ratios in virtual time: where the level wanders they are wide enough, or refused.
//!
//! `cargo test` draws a few pairs of runs of each law; with `ONBEAT_LONG=1` it is 400.

use crate::report_days;
use crate::verdict_world;

use onbeat::record::{Distribution, Entry, RunFile, Series};
use onbeat_report::compare::{Comparison, Digest, SHARES};
use onbeat_report::{JudgeBy, JudgedRun, Summary};
use report_days::{Day, Draws, MS};
use verdict_world::{is_long, percent};

/// How the level of a second, as a factor, goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Level {
    Steady,
    /// One second in twenty is three times as late.
    Bursts,
    /// SD 20 %, correlated over so many seconds.
    Wanders(f64),
    /// Rises by half from beginning to end.
    Trend,
}

const LEVELS: [Level; 7] = [
    Level::Steady,
    Level::Bursts,
    Level::Wanders(0.2),
    Level::Wanders(1.0),
    Level::Wanders(5.0),
    Level::Wanders(20.0),
    Level::Trend,
];

/// Samples of a second: fewer than a real loop's, so that drawing them takes little.
const PER_SECOND: usize = 100;

fn normal(draws: &mut Draws) -> f64 {
    let radius = (-2.0 * draws.share().ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * draws.share()).cos()
}

fn run(like: &RunFile, level: Level, seconds: usize, draws: &mut Draws) -> RunFile {
    let mut wandering = normal(draws);
    let mut entries = Vec::with_capacity(seconds);
    for second in 0..seconds {
        let ln_level = match level {
            Level::Steady => 0.0,
            Level::Bursts => {
                if draws.share() < 0.05 {
                    3.0_f64.ln()
                } else {
                    0.0
                }
            }
            Level::Wanders(over_s) => {
                let stays = (-1.0 / over_s).exp();
                wandering = stays * wandering + (1.0 - stays * stays).sqrt() * normal(draws);
                0.2 * wandering
            }
            Level::Trend => 1.5_f64.ln() * second as f64 / seconds as f64,
        };
        let ns =
            (0..PER_SECOND).map(|_| (20_000.0 * (ln_level + 0.3 * normal(draws)).exp()) as u64);
        entries.push(Entry {
            series: Series::WakeupLatency,
            t: second as f64,
            length: 1.0,
            block: Some(0),
            counts: Distribution::from_values(ns),
        });
    }

    let mut run = like.clone();
    run.entries = entries;
    run.intervals = Vec::new();
    run
}

/// Of pairs of runs of the same: intervals at p50 and p99 that leave out 1, those that were
/// refused, and pairs of which anything is said to differ.
struct Found {
    wrong: [f64; 2],
    refused: f64,
    differ: f64,
}

fn found(level: Level, seconds: usize, pairs: u64) -> Found {
    let like = Day::at(MS).seconds(1).recorded_as(|_, _| 20_000);
    let digest = |name: &str, place: u64, run: &RunFile| {
        Digest::new(name, place, Summary::of_run(run, None), std::slice::from_ref(run), &SHARES)
    };
    let mut found = Found { wrong: [0.0; 2], refused: 0.0, differ: 0.0 };
    let one = 1.0 / pairs as f64;
    for pair in 0..pairs {
        let mut draws = Draws(pair * 7_919 + seconds as u64);
        let [a, b] = [(); 2].map(|()| run(&like, level, seconds, &mut draws));
        let compared = Comparison::new(&[digest("a", 2 * pair, &a), digest("b", 2 * pair + 1, &b)]);
        let ratios = &compared.cells[0].runs[1].ratios;
        let of = |metric: &str| ratios.iter().find(|ratio| ratio.metric == metric).unwrap();
        for (wrong, metric) in found.wrong.iter_mut().zip(["p50", "p99"]) {
            let (low, high) = (of(metric).low, of(metric).high);
            let leaves_out =
                low.is_some_and(|low| low > 1.0) || high.is_some_and(|high| high < 1.0);
            *wrong += if leaves_out { one } else { 0.0 };
        }
        found.refused += if of("p50").wanders { one } else { 0.0 };
        found.differ += if ratios.iter().any(|ratio| ratio.differs) { one } else { 0.0 };
    }
    found
}

#[test]
fn intervals_hold_where_the_level_wanders_or_are_refused() {
    let (pairs, lengths) = if is_long() { (400, vec![60, 120, 300]) } else { (40, vec![60]) };
    let chance = |share: f64| {
        if is_long() { share } else { share + 3.0 * (share * (1.0 - share) / pairs as f64).sqrt() }
    };
    for seconds in lengths {
        for level in LEVELS {
            let Found { wrong, refused, differ } = found(level, seconds, pairs);
            let [p50, p99] = wrong.map(percent);
            println!(
                "{level:?} {seconds} s: wrong p50 {p50}, p99 {p99}; refused {}; differ {}",
                percent(refused),
                percent(differ)
            );
            let wrong = wrong[0].max(wrong[1]);
            assert!(wrong <= chance(0.07), "{level:?}, {seconds} s: {}", percent(wrong));
            assert!(differ <= chance(0.05), "{level:?}, {seconds} s differ: {}", percent(differ));
            if level == Level::Steady {
                assert!(refused <= chance(0.10), "{seconds} s refused: {}", percent(refused));
            }
        }
    }
}

/// Of pairs of sides of the same, with so many runs each: percentiles whose interval leaves out 1, and
/// pairs of which anything is said to differ.
fn found_of_sides(runs: u64, spread: f64, pairs: u64) -> ([f64; 2], f64) {
    let like = Day::at(MS).seconds(1).recorded_as(|_, _| 20_000);
    let (mut wrong, mut differ) = ([0.0; 2], 0.0);
    let one = 1.0 / pairs as f64;
    for pair in 0..pairs {
        let mut draws = Draws(pair * 104_729 + runs);
        let mut side = |name: &str, place| {
            let judged = (0..runs).map(|_| {
                let times = (spread * normal(&mut draws)).exp();
                let mut file = run(&like, Level::Steady, 20, &mut draws);
                let counts: Vec<Distribution> =
                    file.entries.iter().map(|of| of.counts.clone()).collect();
                let all = Distribution::merged(&counts);
                let ns = all.buckets().iter().flat_map(|bucket| {
                    let ns = (bucket.high_ns() as f64 * times) as u64;
                    std::iter::repeat_n(ns, bucket.count as usize)
                });
                let counts = Distribution::from_values(ns);
                file.entries.truncate(1);
                file.entries[0].counts = counts;
                JudgedRun::new(vec![file], JudgeBy::default()).unwrap()
            });
            Digest::of_side(name, place, judged.collect(), &SHARES).unwrap()
        };
        let sides = [side("a", 2 * pair), side("b", 2 * pair + 1)];
        let compared = Comparison::new(&sides);
        let ratios = &compared.cells[0].runs[1].ratios;
        for (wrong, metric) in wrong.iter_mut().zip(["p50", "p99"]) {
            let of = ratios.iter().find(|ratio| ratio.metric == metric).unwrap();
            let (low, high) = (of.low.unwrap(), of.high.unwrap());
            *wrong += if low > 1.0 || high < 1.0 { one } else { 0.0 };
        }
        differ += if ratios.iter().any(|ratio| ratio.differs) { one } else { 0.0 };
    }
    (wrong, differ)
}

/// Runs of a side are blocks: what differs from run to run is in the interval, from three on.
#[test]
fn intervals_of_sides_hold_whatever_differs_from_run_to_run() {
    let pairs = if is_long() { 1_000 } else { 60 };
    let chance = |share: f64| {
        if is_long() { share } else { share + 3.0 * (share * (1.0 - share) / pairs as f64).sqrt() }
    };
    for runs in [3, 4, 6, 10] {
        for spread in [0.0, 0.05, 0.3] {
            let (wrong, differ) = found_of_sides(runs, spread, pairs);
            let [p50, p99] = wrong.map(percent);
            println!(
                "{runs} runs a side, spread {spread}: wrong p50 {p50}, p99 {p99}; differ {}",
                percent(differ)
            );
            let wrong = wrong[0].max(wrong[1]);
            assert!(wrong <= chance(0.07), "{runs} runs, spread {spread}: {}", percent(wrong));
            assert!(differ <= chance(0.05), "{runs} runs, spread {spread}: {}", percent(differ));
        }
    }
}
