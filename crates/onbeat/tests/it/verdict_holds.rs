//! Verdicts in virtual time: at the allowed rate hardly any is wrong, however the late releases
//! come, and clear ones are given.
//!
//! Outages are drawn and not releases: gaps and sizes. `cargo test` draws a few runs of each law;
//! with `ONBEAT_LONG=1` it is 2,000, of more lengths, and the table of `docs/verdict.md` is printed.

use crate::verdict_world;

use onbeat_report::verdict::{LEVEL, Rule, Side, looks};
use verdict_world::{Law, Rates, is_long, percent, rates, runs_of, seen_until};

/// Times the allowed rate.
const MULTIPLES: [f64; 6] = [0.25, 0.5, 0.8, 1.0, 1.25, 2.0];

/// Least share of PASS, in percent, at four multiples of the allowed rate.
type LeastPower = (Law, [f64; 4]);

/// PASS below and FAIL above the allowed rate that the procedure reaches, in percent of runs: laws,
/// and at 0.25, 0.5, 0.8 and 2 times the allowed rate.
const POWER: [(u64, f64, &[LeastPower]); 3] = [
    (
        20_000,
        0.01,
        &[
            (Law::Single, [100.0, 100.0, 79.0, 100.0]),
            (Law::Bursts(2.0), [100.0, 98.0, 30.0, 100.0]),
            (Law::Bursts(5.0), [78.0, 52.0, 9.0, 97.0]),
            (Law::Bursts(20.0), [0.0, 0.0, 1.0, 46.0]),
            (Law::Bursts(100.0), [0.0, 0.0, 0.0, 13.0]),
            (Law::Pareto(2.5), [99.0, 94.0, 33.0, 100.0]),
            (Law::Pareto(1.6), [87.0, 68.0, 27.0, 99.0]),
            (Law::Holes, [0.0, 0.0, 1.0, 48.0]),
        ],
    ),
    (
        100_000,
        0.01,
        &[
            (Law::Single, [100.0, 100.0, 100.0, 100.0]),
            (Law::Bursts(2.0), [100.0, 100.0, 95.0, 100.0]),
            (Law::Bursts(5.0), [100.0, 100.0, 48.0, 100.0]),
            (Law::Bursts(20.0), [93.0, 61.0, 11.0, 99.0]),
            (Law::Bursts(100.0), [47.0, 22.0, 7.0, 49.0]),
            (Law::Pareto(2.5), [100.0, 100.0, 87.0, 100.0]),
            (Law::Pareto(1.6), [95.0, 86.0, 47.0, 100.0]),
            (Law::Holes, [94.0, 59.0, 9.0, 99.0]),
        ],
    ),
    (
        600_000,
        0.001,
        &[
            (Law::Single, [100.0, 100.0, 100.0, 100.0]),
            (Law::Bursts(2.0), [100.0, 100.0, 77.0, 100.0]),
            (Law::Bursts(5.0), [100.0, 97.0, 33.0, 100.0]),
            (Law::Bursts(20.0), [75.0, 36.0, 9.0, 91.0]),
            (Law::Bursts(100.0), [48.0, 22.0, 8.0, 30.0]),
            (Law::Pareto(2.5), [99.0, 99.0, 71.0, 100.0]),
            (Law::Pareto(1.6), [94.0, 81.0, 42.0, 100.0]),
            (Law::Holes, [73.0, 40.0, 8.0, 89.0]),
        ],
    ),
];

const LAWS: [Law; 11] = [
    Law::Single,
    Law::Bursts(2.0),
    Law::Bursts(5.0),
    Law::Bursts(20.0),
    Law::Bursts(100.0),
    Law::Pareto(2.5),
    Law::Pareto(1.6),
    Law::Holes,
    Law::Periodic(20),
    Law::Periodic(1),
    Law::Trend,
];

/// What of `runs` is allowed to be wrong when `share` is meant: in few runs chance alone is more.
fn at_most(share: f64, runs: usize) -> f64 {
    let chance = (share * (1.0 - share) / runs as f64).sqrt();
    if is_long() { share } else { share + 3.0 * chance }
}

/// What is demanded of a power that is known from a simulation of its own.
fn at_least(known_percent: f64, runs: usize) -> f64 {
    let known = known_percent / 100.0;
    let chance = (0.25 / runs as f64).sqrt();
    // The table has a standard error of 1.4 points itself.
    known - 0.05 - 0.014 - if is_long() { 0.0 } else { 3.0 * chance }
}

#[test]
fn at_the_allowed_rate_hardly_a_verdict_is_wrong_and_clear_ones_are_given() {
    let (runs, lengths) = if is_long() {
        (2_000, vec![5_000, 20_000, 100_000, 600_000])
    } else {
        (100, vec![5_000, 20_000, 100_000])
    };

    let mut cells: Vec<(Law, u64, f64)> = Vec::new();
    for &releases in &lengths {
        for allowed in [0.01, 0.001] {
            cells.extend(LAWS.map(|law| (law, releases, allowed)));
            // A slow machine in two states is told from a good one by runs of 60 dwell times.
            if releases >= 60 * 2_000 {
                cells.push((Law::Levels(2_000.0), releases, allowed));
            }
        }
    }

    let found = rates(&cells, &MULTIPLES, runs);
    for ((law, releases, allowed), at) in cells.iter().zip(&found) {
        let line: Vec<String> = at.iter().map(Rates::words).collect();
        println!("{law:?} n {releases} allowed {allowed}: {}", line.join("  "));
    }

    for ((law, releases, allowed), at) in cells.into_iter().zip(found) {
        let cell = format!("{law:?}, {releases} releases, {} allowed", percent(allowed));
        let limit = if law == Law::Pareto(1.6) { 0.09 } else { 0.06 };
        let [quarter, half, most, same, more, double] = at[..] else { panic!("six multiples") };
        assert!(same.pass <= at_most(limit, runs), "{cell}: false PASS {}", percent(same.pass));
        assert!(same.fail <= at_most(limit, runs), "{cell}: false FAIL {}", percent(same.fail));
        assert!(more.pass <= at_most(0.03, runs), "{cell}: PASS at 1.25 {}", percent(more.pass));

        let known = POWER.iter().find(|(n, rate, _)| (*n, *rate) == (releases, allowed));
        let known = known.and_then(|(_, _, laws)| laws.iter().find(|(known, _)| *known == law));
        let Some((_, power)) = known else { continue };
        let reached = [quarter.pass, half.pass, most.pass, double.fail];
        for ((reached, known), times) in reached.iter().zip(power).zip([0.25, 0.5, 0.8, 2.0]) {
            assert!(
                *reached >= at_least(*known, runs),
                "{cell}: {} of {known} % at {times} times",
                percent(*reached)
            );
        }
    }
}

/// Section 7's table has 81 %. The 75.4 % that 2,000 runs show is chance: their standard error is one
/// point, that of 10,000 is less than a half.
#[test]
fn half_the_allowed_rate_in_outages_without_a_variance_passes_in_three_of_four_runs() {
    let runs = if is_long() { 10_000 } else { 400 };
    let cells = [(Law::Pareto(1.6), 600_000, 0.001)];
    let [half, same] = rates(&cells, &[0.5, 1.0], runs)[0][..] else { panic!("two multiples") };
    println!("Pareto 1.6, {runs} runs: {} at 0.5, {} at 1", half.words(), same.words());
    let chance = if is_long() { 0.0 } else { 3.0 * (0.25 / runs as f64).sqrt() };
    assert!(half.pass >= 0.81 - 0.05 - chance, "{}", half.words());
    assert!(same.pass <= at_most(0.09, runs), "{}", same.words());
}

/// PASS and FAIL of runs that are looked at until they are decided, at most 300 s.
fn looked_at(law: Law, allowed: f64, times: f64, runs: usize) -> Rates {
    let looks: Vec<u64> = looks(300.0).into_iter().map(|s| (s * 1_000.0) as u64).collect();
    let rule = Rule::new(allowed).shared_by(looks.len());
    let sides = runs_of(law, 300_000, allowed * times, runs).map(|run| {
        let mut at_looks = looks.iter().map(|&until| rule.side(&seen_until(&run, until, allowed)));
        at_looks.find(|side| *side != Side::Either).unwrap_or(Side::Either)
    });
    Rates::of(sides)
}

#[test]
fn looking_is_free() {
    let runs = if is_long() { 2_000 } else { 120 };
    let laws = [
        Law::Single,
        Law::Bursts(5.0),
        Law::Bursts(20.0),
        Law::Bursts(100.0),
        Law::Pareto(2.5),
        Law::Pareto(1.6),
    ];
    for law in laws {
        let same = looked_at(law, 0.01, 1.0, runs);
        println!("looking, {law:?}: {}", same.words());
        let limit = if law == Law::Pareto(1.6) { 0.09 } else { 0.06 };
        assert!(same.pass <= at_most(limit, runs), "{law:?}: false PASS {}", percent(same.pass));
        assert!(same.fail <= at_most(limit, runs), "{law:?}: false FAIL {}", percent(same.fail));
    }

    let clear = looked_at(Law::Single, 0.01, 0.1, runs);
    assert!(clear.pass > 0.99, "a clear PASS: {}", clear.words());
    let broken = looked_at(Law::Bursts(5.0), 0.01, 5.0, runs);
    assert!(broken.fail > 0.99, "a clear FAIL: {}", broken.words());
}

#[test]
fn the_best_of_many_cells_has_one_level() {
    let benches = if is_long() { 2_000 } else { 100 };
    for (cells, limit) in [(2, 0.06), (9, 0.06), (18, 0.08)] {
        for law in [Law::Single, Law::Bursts(5.0), Law::Bursts(20.0), Law::Bursts(100.0)] {
            let rule = Rule::new(0.01).shared_by(cells);
            let passes: Vec<bool> = runs_of(law, 100_000, 0.01, benches * cells)
                .map(|run| rule.side(&seen_until(&run, 100_000, 0.01)) == Side::Within)
                .collect();
            let wrong = passes.chunks(cells).filter(|bench| bench.contains(&true)).count();
            let share = wrong as f64 / benches as f64;
            println!("bench of {cells}, {law:?}: {}", percent(share));
            assert!(share <= at_most(limit, benches), "{cells} cells, {law:?}: {}", percent(share));
        }
    }
    assert!((Rule::new(0.01).shared_by(5).level - LEVEL / 5.0).abs() < 1e-12);
}

/// A tuning passes where it does under every load; one load that it should not pass is enough. Of
/// each tuning one load is at the allowed rate and the other without a late release.
#[test]
fn loads_of_a_tuning_need_no_share_of_a_wrong_pass() {
    let benches = if is_long() { 2_000 } else { 100 };
    for (tunings, limit) in [(1, 0.06), (2, 0.06), (9, 0.06)] {
        for law in [Law::Single, Law::Bursts(5.0), Law::Bursts(20.0), Law::Bursts(100.0)] {
            let rule = Rule::new(0.01).shared_by(tunings);
            let passes: Vec<bool> = runs_of(law, 100_000, 0.01, benches * tunings)
                .map(|bad| [bad, Vec::new()])
                .map(|cells| {
                    let side = |run: &Vec<_>| rule.side(&seen_until(run, 100_000, 0.01));
                    cells.iter().all(|run| side(run) == Side::Within)
                })
                .collect();
            let wrong = passes.chunks(tunings).filter(|bench| bench.contains(&true)).count();
            let share = wrong as f64 / benches as f64;
            println!("{tunings} tunings of two loads, {law:?}: {}", percent(share));
            assert!(share <= at_most(limit, benches), "{tunings}, {law:?}: {}", percent(share));
        }
    }
}

/// A bench of two tunings and two loads that is looked at until it is decided, and leaves out a
/// tuning that failed: PASS of a tuning that is at the allowed rate under one load, FAIL of both when
/// one is at the allowed rate and better than that under the other.
#[test]
fn a_bench_that_leaves_out_what_failed_has_the_same_level() {
    const TUNINGS: usize = 2;
    const LOADS: usize = 2;
    let benches = if is_long() { 2_000 } else { 150 };
    let looks: Vec<u64> = looks(300.0).into_iter().map(|s| (s * 1_000.0) as u64).collect();
    let of_pass = Rule::new(0.01).shared_by(TUNINGS * looks.len());
    let of_fail = Rule::new(0.01).shared_by(TUNINGS * LOADS * looks.len());
    for law in [Law::Single, Law::Bursts(5.0), Law::Bursts(20.0), Law::Bursts(100.0)] {
        let mut bad = runs_of(law, 300_000, 0.01, benches);
        let mut good = runs_of(law, 300_000, 0.001, benches);
        let mut awful = runs_of(law, 300_000, 0.3, benches);
        let (mut wrong_pass, mut wrong_fail) = (0, 0);
        for _ in 0..benches {
            // The first tuning fails soon; of the second the loads are good and just allowed.
            let cells =
                [[awful.next().unwrap(), Vec::new()], [good.next().unwrap(), bad.next().unwrap()]];
            let (mut releases, mut before, mut has_failed) =
                ([0_u64; TUNINGS], 0, [false; TUNINGS]);
            for &look in &looks {
                let running: Vec<usize> = (0..TUNINGS).filter(|of| !has_failed[*of]).collect();
                for &tuning in &running {
                    releases[tuning] += (look - before) / (running.len() * LOADS) as u64;
                }
                before = look;
                let side = |tuning: usize, load: usize, rule: &Rule| {
                    rule.side(&seen_until(&cells[tuning][load], releases[tuning], 0.01))
                };
                for (tuning, has_failed) in has_failed.iter_mut().enumerate() {
                    *has_failed |=
                        (0..LOADS).any(|load| side(tuning, load, &of_fail) == Side::Beyond);
                }
                if (0..LOADS).all(|load| side(1, load, &of_pass) == Side::Within) {
                    wrong_pass += 1;
                    break;
                }
                if has_failed == [true; TUNINGS] {
                    wrong_fail += 1;
                    break;
                }
            }
        }
        let [pass, fail] = [wrong_pass, wrong_fail].map(|n| f64::from(n) / benches as f64);
        println!(
            "leaving out, {law:?}: false PASS {}, false FAIL {}",
            percent(pass),
            percent(fail)
        );
        assert!(pass <= at_most(0.06, benches), "{law:?}: false PASS {}", percent(pass));
        assert!(fail <= at_most(0.06, benches), "{law:?}: false FAIL {}", percent(fail));
    }
}

#[test]
fn the_time_that_decides_is_an_estimate_that_mostly_holds() {
    let runs = if is_long() { 1_000 } else { 150 };
    for (law, times) in [(Law::Single, 0.8), (Law::Bursts(5.0), 0.5)] {
        let rule = Rule::new(0.01);
        let (mut open, mut decided) = (0, 0);
        for run in runs_of(law, 600_000, 0.01 * times, runs) {
            let short = seen_until(&run, 20_000, 0.01);
            if rule.side(&short) != Side::Either {
                continue;
            }
            let Some(longer) = rule.times_longer(&short) else { continue };
            let until = ((20_000.0 * longer) as u64).min(600_000);
            open += 1;
            decided += u64::from(rule.side(&seen_until(&run, until, 0.01)) != Side::Either);
        }
        println!("{law:?} at {times}: {decided} of {open} decided at the time estimated");
        assert!(open > 5 && decided * 2 > open, "{law:?}: {decided} of {open}");
    }
}
