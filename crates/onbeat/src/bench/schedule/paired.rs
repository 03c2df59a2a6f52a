//! Rows of one block of each tuning: neighbours in time are compared with each other.

use super::{LoadTurn, PREPARATION_S, ROUND_S, forward_and_backward};

/// Length of a block that is aimed at, in seconds: long enough for a percentile of its own, short
/// enough that neighbours share their background.
const BLOCK_S: f64 = 1.2;
/// Fewest rows: an interval needs several.
const LEAST_ROWS: u32 = 8;
/// Most rows; a longer time makes longer blocks.
const MOST_ROWS: u32 = 64;

/// Returns how often each load is started in the time `total_s`, and the number of rows: an even
/// one. `ramps_s` is the time of starting and ending all loads, `row_s` that of a row beside its
/// blocks, which are one of each of `cells`.
pub(super) fn rounds_and_rows(
    total_s: f64,
    ramps_s: f64,
    (row_s, cells): (f64, usize),
) -> (u32, u32) {
    let rounds = (total_s / ROUND_S).round().clamp(1.0, f64::from(LEAST_ROWS / 2)) as u32;
    let fixed_s = PREPARATION_S + f64::from(rounds) * ramps_s;
    let wanted = (total_s - fixed_s) / (row_s + BLOCK_S * cells as f64);
    (rounds, (wanted.max(0.0) as u32 / 2 * 2).clamp(LEAST_ROWS, MOST_ROWS))
}

/// Returns the turns of these rows of `tunings` under each load.
pub(super) fn turns(
    tunings: usize,
    loads: usize,
    (rounds, rows): (u32, u32),
    random: &mut fastrand::Rng,
) -> Vec<LoadTurn> {
    let orders: Vec<Vec<Vec<usize>>> =
        (0..loads).map(|_| balanced(tunings, rows, random)).collect();
    let per_round = (rows / rounds).max(1);
    let last = rounds - 1;
    let turn = |(round, load): (u32, usize)| {
        let from = round * per_round;
        let until = if round == last { rows } else { from + per_round };
        let blocks = orders[load][from as usize..until as usize].concat();
        LoadTurn { load, blocks }
    };
    let turns = (0..rounds).flat_map(|round| (0..loads).map(move |load| (round, load)));
    turns.map(turn).collect()
}

/// Returns orders of a row, drawn at random: each one is there backwards as well.
fn balanced(tunings: usize, rows: u32, random: &mut fastrand::Rng) -> Vec<Vec<usize>> {
    let mut orders: Vec<Vec<usize>> = Vec::new();
    for _ in 0..rows / 2 {
        let both = forward_and_backward(tunings, random);
        orders.extend(both.chunks(tunings.max(1)).map(<[usize]>::to_vec));
    }

    random.shuffle(&mut orders);
    orders
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::super::{CellOrder, Pace, Schedule, TooShort};

    fn plan(tunings: usize, pace: &Pace, total: Duration, seed: u64) -> Result<Schedule, TooShort> {
        super::super::plan(tunings, pace, total, CellOrder::Paired, seed)
    }

    fn rows_of(schedule: &Schedule, load: usize, tunings: usize) -> Vec<Vec<usize>> {
        let of_load = schedule.turns.iter().filter(|turn| turn.load == load);
        let blocks: Vec<usize> = of_load.flat_map(|turn| turn.blocks.clone()).collect();
        blocks.chunks(tunings).map(<[usize]>::to_vec).collect()
    }

    #[test]
    fn half_a_minute_holds_ten_pairs_of_more_than_a_second() {
        let schedule = plan(2, &Pace::new(&[false]), Duration::from_secs(30), 1).unwrap();
        assert_eq!(schedule.blocks_per_cell, 10);
        assert!((1.2..1.4).contains(&schedule.block_s), "{}", schedule.block_s);
        assert_eq!(schedule.turns.len(), 1, "a load runs without a stop");
    }

    #[test]
    fn a_time_too_short_for_eight_rows_is_refused_with_one_that_is_enough() {
        let why = plan(2, &Pace::new(&[true]), Duration::from_secs(4), 1).unwrap_err();
        assert!(
            plan(2, &Pace::new(&[true]), Duration::from_secs_f64(why.needed_s), 1).is_ok(),
            "{why}"
        );
    }

    proptest! {
        #[test]
        fn turns_are_balanced_to_the_block_and_the_time_is_kept(
            tunings in 2_usize..5, loaded in prop::collection::vec(any::<bool>(), 1..4),
            seconds in 60_u64..2000, seed: u64,
        ) {
            let schedule = plan(tunings, &Pace::new(&loaded), Duration::from_secs(seconds), seed).unwrap();
            prop_assert!((schedule.estimate_s - seconds as f64).abs() < 1e-6 * seconds as f64);
            prop_assert!(schedule.turns.iter().all(|turn| turn.blocks.len() % tunings == 0));

            for load in 0..loaded.len() {
                let rows = rows_of(&schedule, load, tunings);
                prop_assert_eq!(rows.len() as u32, schedule.blocks_per_cell);
                for row in &rows {
                    let mut sorted = row.clone();
                    sorted.sort_unstable();
                    prop_assert_eq!(sorted, (0..tunings).collect::<Vec<_>>());
                    let backward: Vec<usize> = row.iter().rev().copied().collect();
                    let times = |order: &[usize]| rows.iter().filter(|row| *row == order).count();
                    prop_assert_eq!(times(row), times(&backward), "{:?}", row);
                }
            }

            let again = plan(tunings, &Pace::new(&loaded), Duration::from_secs(seconds), seed).unwrap();
            prop_assert_eq!(schedule, again, "the same seed is the same order");
        }
    }
}
