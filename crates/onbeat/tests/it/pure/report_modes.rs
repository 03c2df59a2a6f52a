//! Planted disturbances are found in days of a loop, from the run file alone, and nothing is found
//! where nothing is.

use std::collections::BTreeSet;

use crate::report_days::{Day, MS, US, shuffled};
use onbeat::record::RunFile;
use onbeat_report::modes::{self, Lifts, Mode, Modes, Tied};

const MINUTE_S: f64 = 60.0;

fn near(found: f64, planted: f64, within: f64) -> bool {
    (found / planted - 1.0).abs() <= within
}

/// The mode of a period, within 1 %, or the sentences of those that were found.
fn mode_of(modes: &Modes, period_s: f64) -> &Mode {
    let found = modes.found.iter().find(|mode| near(mode.period_s, period_s, 0.01));
    found.unwrap_or_else(|| panic!("no period of {period_s} s: {:#?}", sentences(modes)))
}

fn sentences(modes: &Modes) -> Vec<&str> {
    modes.found.iter().map(|mode| mode.sentence.as_str()).collect()
}

/// The three of a network card's firmware: 4 µs for 15 s every 5.3 minutes, one sample at 210 µs
/// every 5 s, and once an hour ten samples that rise to 150 µs. They begin `moved` seconds later.
fn three_modes(second: f64, index: u64, rate: u64, moved: u64) -> u64 {
    let level = if (second + moved as f64) % (5.3 * MINUTE_S) < 15.0 { 4 * US } else { 0 };
    let index = index + moved * rate;
    let bump = if index % (5 * rate) == 3 * rate / 2 { 185 * US } else { 0 };
    let into_the_hour = index % (3600 * rate);
    let start = 1234 * rate + rate / 3;
    let ramp = if (start..start + 10).contains(&into_the_hour) {
        (into_the_hour - start + 1) * 15 * US
    } else {
        0
    };

    level + bump + ramp
}

/// The three are found in a run of `hours`, each with its period within 1 % and its size within
/// 10 %, and nothing else is.
fn finds_the_three(modes: &Modes, hours: u64, of: &str) {
    let (level, bump, ramp) =
        (mode_of(modes, 5.3 * MINUTE_S), mode_of(modes, 5.0), mode_of(modes, 3600.0));
    assert!(
        near(level.size_ns, 4_000.0, 0.1) && near(level.duration_s, 15.0, 0.1),
        "{of}: {}",
        level.sentence
    );
    assert_eq!(level.lifts, Lifts::Most, "{of}: {}", level.sentence);
    let whole_levels = hours * 3600 / 318;
    assert!((whole_levels..=whole_levels + 1).contains(&level.periods), "{of}: {}", level.sentence);
    let expected = ["14.9", "15", "15.1"].map(|s| format!(" us for {s} s every 5 min 18 s, "));

    assert!(
        expected.iter().any(|expected| level.sentence.contains(expected)),
        "{of}: {}",
        level.sentence
    );
    assert!(
        near(bump.size_ns, 185_000.0, 0.1) && bump.lifts == Lifts::Single,
        "{of}: {}",
        bump.sentence
    );
    assert!(near(ramp.size_ns, 150_000.0, 0.1) && ramp.periods <= hours, "{of}: {}", ramp.sentence);
    assert_eq!(modes.found.len(), 3, "{of}: harmonics are folded to one: {:#?}", sentences(modes));
    println!("{of}: {:#?}", sentences(modes));
}

/// Nothing that comes back is left, so what is found is a false alarm.
fn alarms(run: &RunFile, of: &str) -> usize {
    let modes = modes::of_run(run);
    assert!(modes.found.len() <= 1, "{of}: {:#?}", sentences(&modes));
    modes.found.len()
}

/// Three modes are found in a day, and at most one in each of some days that hold the same steps in
/// another order.
fn found_until_shuffled(seed: u64, moved: u64, shuffles: u64) {
    let mut run = Day::at(10 * MS)
        .hours(24)
        .seeded(seed)
        .recorded(|second, index| three_modes(second, index, 100, moved));
    finds_the_three(&modes::of_run(&run), 24, &format!("day {seed}"));
    let alarms: Vec<usize> = (0..shuffles)
        .map(|shuffle| {
            shuffled(&mut run, shuffle);
            alarms(&run, &format!("day {seed}, shuffle {shuffle}"))
        })
        .collect();
    println!("day {seed}: false alarms in shuffled days: {alarms:?}");
}

#[test]
fn three_planted_modes_are_found_in_a_day_and_none_when_it_is_shuffled() {
    found_until_shuffled(1, 0, crate::report_days::drawn(1, 3));
}

#[test]
fn wherever_in_their_periods_they_begin() {
    found_until_shuffled(2, 777, crate::report_days::drawn(0, 1));
}

#[test]
fn a_loop_at_a_kilohertz_shows_the_three_as_well() {
    let hours = crate::report_days::drawn(5, 8);
    let run = Day::at(MS)
        .hours(hours)
        .seeded(10)
        .recorded(|second, index| three_modes(second, index, 1000, 60));
    finds_the_three(&modes::of_run(&run), hours, "1 kHz");
}

/// Not the steps of a file in another order, but the disturbances themselves at moments of chance:
/// as many, as long, as large.
#[test]
fn the_same_disturbances_at_moments_of_chance_are_no_modes() {
    const DAY: u64 = 24 * 3600;
    let mut draws = crate::report_days::Draws(40);
    let mut moments =
        |n: u64, below: u64| (0..n).map(|_| draws.next() % below).collect::<BTreeSet<u64>>();
    let (levels, bumps, ramps) =
        (moments(272, DAY), moments(DAY / 5, DAY * 100), moments(24, DAY * 100));
    let late = |second: f64, index: u64| {
        let since = |last: Option<&u64>, now: u64| last.map_or(u64::MAX, |last| now - last);
        let level = since(levels.range(..=second as u64).next_back(), second as u64) < 15;
        let ramp = since(ramps.range(..=index).next_back(), index);
        let ramp_ns = if ramp < 10 { (ramp + 1) * 15 * US } else { 0 };
        u64::from(level) * 4 * US + u64::from(bumps.contains(&index)) * 185 * US + ramp_ns
    };

    let found = alarms(&Day::at(10 * MS).hours(24).seeded(0).recorded(late), "a day of chance");
    println!("false alarms in a day of chance: {found}");
}

#[test]
fn every_seventh_cycle_is_found_in_a_minute_although_steps_are_longer() {
    let run = Day::at(MS)
        .seconds(60)
        .seeded(2)
        .recorded(|_, cycle| if cycle % 7 == 3 { 150 * US } else { 0 });
    let modes = modes::of_run(&run);
    let mode = mode_of(&modes, 0.007);
    assert!(mode.sentence.contains("every 7 ms (7 cycles)"), "{}", mode.sentence);
    assert!(mode.size_ns > 140_000.0 && mode.lifts == Lifts::Single);
    assert!(near(mode.share, 1.0 / 7.0, 0.01));
    assert_eq!(modes.found.len(), 1, "{:#?}", sentences(&modes));
}

#[test]
fn what_comes_once_a_second_is_found_where_a_step_is_a_second() {
    let late = |_, cycle: u64| if cycle % 100 == 37 { 400 * US } else { 0 };
    let modes = modes::of_run(&Day::at(10 * MS).hours(2).seeded(11).recorded(late));
    let mode = mode_of(&modes, 1.0);
    assert!(near(mode.size_ns, 400_000.0, 0.1), "{}", mode.sentence);
    assert_eq!(modes.found.len(), 1, "{:#?}", sentences(&modes));
}

#[test]
fn a_minute_without_a_mode_has_none() {
    for seed in 0..crate::report_days::drawn(3, 10) {
        let modes = modes::of_run(&Day::at(MS).seconds(60).seeded(seed).recorded(|_, _| 0));
        assert_eq!(modes.found.len(), 0, "seed {seed}: {:#?}", sentences(&modes));
        assert!(
            modes.sentence.starts_with(
                "No periodic interference found: nothing in 600 steps of 100 ms recurs"
            ),
            "{}",
            modes.sentence
        );
    }
}

#[test]
fn a_drift_is_not_a_mode() {
    for seed in 0..crate::report_days::drawn(2, 5) {
        let (mut walk, mut draws) = (0.0, crate::report_days::Draws(seed));
        let mut noise = crate::report_days::Noise::seeded(seed);
        let run = Day::at(10 * MS).hours(1).recorded_as(|_, cycle| {
            if cycle % 100 == 0 {
                walk = 0.999 * walk + 0.3 * (draws.share() - 0.5);
            }
            (noise.next_ns() as f64 * f64::exp(walk)) as u64
        });

        let modes = modes::of_run(&run);
        assert!(modes.found.len() <= 1, "seed {seed}: {:#?}", sentences(&modes));
    }
}

#[test]
fn a_disturbance_that_makes_a_fifth_of_the_cycles_late_is_seen_in_the_slowest_tenth() {
    let late = |second: f64, cycle: u64| {
        if second % 90.0 < 9.0 && cycle.is_multiple_of(5) { 60 * US } else { 0 }
    };
    let modes = modes::of_run(&Day::at(10 * MS).hours(1).seeded(4).recorded(late));
    let mode = mode_of(&modes, 90.0);
    assert_eq!(mode.lifts, Lifts::Some, "{}", mode.sentence);
    assert!(
        near(mode.size_ns, 60_000.0, 0.25) && near(mode.duration_s, 9.0, 0.15),
        "{}",
        mode.sentence
    );
}

#[test]
fn a_run_of_even_cycles_does_not_separate_time_from_cycle_count() {
    let day = |seed| Day::at(10 * MS).seconds(1200).seeded(seed);
    let by_time = day(5).recorded(|second, _| if second % 20.0 < 2.0 { 10 * US } else { 0 });
    let by_cycles = day(6).recorded(|_, cycle| if cycle % 2000 < 200 { 10 * US } else { 0 });
    for run in [by_time, by_cycles] {
        let found = modes::of_run(&run).found;
        assert_eq!(found[0].tied, Tied::Undecided);
        assert!(found[0].sentence.contains("this run does not show"), "{}", found[0].sentence);
    }
}

#[test]
fn skipped_releases_separate_time_from_cycle_count_in_one_run() {
    let day = |seed| Day::at(10 * MS).seconds(3600).seeded(seed).skipping(400, 1500);
    let by_cycles =
        modes::of_run(&day(7).recorded(|_, cycle| if cycle % 3000 < 300 { 10 * US } else { 0 }));
    let cycles: Vec<&Mode> =
        by_cycles.found.iter().filter(|mode| near(mode.period_cycles, 3000.0, 0.01)).collect();
    assert!(cycles.iter().any(|mode| mode.tied == Tied::Cycles), "{:#?}", sentences(&by_cycles));
    let by_time =
        modes::of_run(&day(8).recorded(|second, _| if second % 37.0 < 4.0 { 10 * US } else { 0 }));
    assert_eq!(mode_of(&by_time, 37.0).tied, Tied::Time, "{:#?}", sentences(&by_time));
}

#[test]
fn what_cannot_be_looked_for_is_said() {
    let short = modes::of_run(&Day::at(MS).seconds(1).recorded(|_, _| 0));
    assert_eq!(
        short.sentence,
        "No search for periodic interference: the run has 10 steps of 100 ms; at least 16 are needed."
    );
    let mut old = Day::at(MS).seconds(1).recorded(|_, _| 0);
    old.trends.clear();
    old.entries.clear();
    let sentence = modes::of_run(&old).sentence;

    assert!(sentence.contains("holds no trend of the release latency"), "{sentence}");
}

#[test]
fn a_phase_plot_shows_the_mode_from_a_tenth_of_the_period_on() {
    let late = |second: f64, _| if second % 100.0 < 20.0 { 10 * US } else { 0 };
    let modes = modes::of_run(&Day::at(10 * MS).seconds(3600).seeded(9).recorded(late));
    let plot = &mode_of(&modes, 100.0).phase.p50_ns;
    assert_eq!(plot.len(), 100);
    let mean = |range: std::ops::Range<usize>| {
        let n = range.len() as u64;
        range.map(|i| plot[i].unwrap()).sum::<u64>() / n
    };

    assert!(mean(12..28) > mean(40..100) + 9 * US);
}

#[test]
fn what_makes_cycles_later_than_it_is_apart_is_saturation_and_no_mode() {
    let late = |_, cycle: u64| if cycle % 25 == 3 { 49_800 * US } else { 0 };
    let modes = modes::of_run(&Day::at(500 * US).seconds(60).seeded(4).recorded(late));
    for mode in &modes.found {
        assert!(mode.size_ns < mode.period_s * 1e9, "{}", mode.sentence);
    }
    assert!(
        modes.sentence.contains("Saturation: cycles every 12.5 ms are 50 ms late, which is longer"),
        "{}",
        modes.sentence
    );
}

/// A run of `minutes` with single late cycles: every so many seconds, from a second on, so late.
fn with_modes(seed: u64, minutes: u64, planted: [(f64, f64, u64); 3]) -> Modes {
    let rate = 100.0;
    let late = move |second: f64, _| {
        let is_at = |(every, from, _): &&(f64, f64, u64)| {
            let slot = (second * rate).round() as i64 - (from * rate).round() as i64;
            slot >= 0 && slot % (every * rate).round() as i64 == 0
        };
        planted.iter().filter(is_at).map(|(_, _, us)| us * US).sum::<u64>()
    };
    modes::of_run(&Day::at(10 * MS).seconds(minutes * 60).seeded(seed).recorded(late))
}

/// Where other modes happen to fall between the times of one, a part of its period holds more than
/// the period itself.
#[test]
fn a_mode_beside_two_others_is_told_at_its_own_period() {
    let all = [
        [(13.0, 1.5, 300), (5.0, 0.7, 300), (7.0, 2.2, 300)],
        [(13.0, 1.5, 300), (3.0, 0.7, 300), (4.0, 2.2, 300)],
        [(7.0, 1.98, 150), (9.0, 6.48, 300), (13.0, 2.23, 400)],
        [(13.0, 2.0, 300), (3.25, 0.7, 300), (9.0, 2.2, 300)],
    ];
    for (seed, planted) in (0..).zip(all) {
        let modes = with_modes(seed, 30, planted);
        for (every_s, ..) in planted {
            mode_of(&modes, every_s);
        }
        assert_eq!(modes.found.len(), 3, "{planted:?}: {:#?}", sentences(&modes));
    }
}
