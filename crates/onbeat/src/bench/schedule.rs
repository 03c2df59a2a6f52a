//! The schedule of a bench: cells take turns in short blocks, so that all see the same background.
//!
//! On a shared machine, minutes differ more than tunings do; figures that were taken one after the
//! other cannot be compared. A round goes through all loads, and while a load runs, each tuning
//! gets short blocks, in an order that is reversed from visit to visit. The paper's order, one cell
//! after another, is kept for comparison.
//!
//! Three tunings A, B, C, two loads, one round of a minute, the order of this seed B A C:
//!
//! ```text
//!  load      idle                          paper
//!            |ramp| B A C | C A B |ramp down|ramp| B A C | C A B |
//!                   visit 1 visit 2
//!  mean time A: 2 and 5   B: 1 and 6   C: 3 and 4    of six blocks: 3.5 for each
//! ```
//!
//! The second visit runs backwards, so that the mean place of each tuning is the same: a background
//! that grows evenly during the round adds the same to all three, and drops out of their ratios. The
//! order is drawn anew for each load of a round: what comes periodically meets another tuning.

mod paired;

use std::collections::BTreeMap;
use std::time::Duration;

use onbeat_record::RunOrder;
use serde::{Deserialize, Serialize};

/// Time for a load to reach its full weight before the first block, and to end after the last one.
pub const RAMP: Duration = Duration::from_millis(1000);
/// Planned time for the end of a load, in seconds.
const RAMP_DOWN_S: f64 = 0.5;
/// Planned overhead of a block (thread start, priority, shield, end of the interval), in seconds,
/// without load and with one; while the bench runs, the measured overhead replaces it.
const PER_BLOCK_S: [f64; 2] = [0.08, 0.2];
/// Planned overhead of a block whose loop is that of a program, in seconds: the program starts, its
/// loop is looked for, and it ends.
const PER_BLOCK_OF_PROGRAM_S: f64 = 1.5;
/// Planned time before the first block, in seconds: processes start, memory is locked, the shield
/// is tried.
const PREPARATION_S: f64 = 2.5;
/// Shortest block, in seconds: a shorter one would be mostly overhead.
const SHORTEST_BLOCK_S: f64 = 0.2;
/// Length of a round, in seconds: start and end of the loads are a small part of it.
const ROUND_S: f64 = 60.0;
/// The least length of a round between two looks at a bench, in seconds.
const WATCHED_ROUND_S: f64 = 10.0;
/// Fewest rounds, where the time allows: a disturbance of a minute must not meet one cell alone.
const LEAST_ROUNDS: u32 = 2;
/// Visits of each cell per round: forward, then backward.
const VISITS: u32 = 2;
/// Blocks of each cell in the sequential order, one right after another: confidence intervals need
/// several.
const SEQUENTIAL_BLOCKS: u32 = 6;

/// The order in which cells run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellOrder {
    /// Short blocks in turn.
    Interleaved,
    /// The same in short rounds, for a bench that ends when it is decided.
    Watched,
    /// One after another, as in the paper.
    Sequential,
    /// In rows of one short block of each, every row in an order drawn at random; half of the rows
    /// are the other half backwards.
    Paired,
}

impl CellOrder {
    /// Returns the same for the run file.
    #[must_use]
    pub const fn note(self) -> RunOrder {
        match self {
            Self::Interleaved | Self::Watched | Self::Paired => RunOrder::Interleaved,
            Self::Sequential => RunOrder::Sequential,
        }
    }
}

/// Blocks that run under one load without a stop of the load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadTurn {
    /// Index in the bench's list of loads.
    pub load: usize,
    /// Indices in the bench's list of tunings, in the order of the blocks.
    pub blocks: Vec<usize>,
}

/// The plan of a whole bench.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Turns in order.
    pub turns: Vec<LoadTurn>,
    /// Length of each block in seconds.
    pub block_s: f64,
    /// Blocks of each cell.
    pub blocks_per_cell: u32,
    /// Estimate of the whole time, in seconds.
    pub estimate_s: f64,
}

impl Schedule {
    /// Returns the schedule without the blocks that do not run; their time goes to the others.
    /// `runs` receives the indices of load and tuning of one block after the other.
    #[must_use]
    pub fn retain_cells(mut self, mut runs: impl FnMut(usize, usize) -> bool) -> Self {
        for turn in &mut self.turns {
            turn.blocks.retain(|&tuning| runs(turn.load, tuning));
        }
        self.turns.retain(|turn| !turn.blocks.is_empty());
        self
    }

    /// Returns the schedule without the first blocks of each cell: `done` returns their number for
    /// the indices of load and tuning.
    #[must_use]
    pub fn skip_blocks(self, done: impl Fn(usize, usize) -> u32) -> Self {
        let mut so_far: BTreeMap<(usize, usize), u32> = BTreeMap::new();
        self.retain_cells(|load, tuning| {
            let nth = so_far.entry((load, tuning)).or_default();
            *nth += 1;
            *nth > done(load, tuning)
        })
    }

    /// Returns the number of blocks of all cells together.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.turns.iter().map(|turn| turn.blocks.len()).sum()
    }
}

/// The total time is too short for the cells.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "--for {}s is too short: {} at least {needed_s:.0} s, {overhead_s:.0} s of them to start and stop; \
     use --for {needed_s:.0}s, or fewer tunings or loads",
    milliseconds(*.asked_s),
    cells_need(*.cells)
)]
pub struct TooShort {
    asked_s: f64,
    cells: usize,
    overhead_s: f64,
    needed_s: f64,
}

impl TooShort {
    /// Refuses a time that leaves less than the shortest block for each of `blocks`.
    fn check(asked_s: f64, cells: usize, overhead_s: f64, blocks: f64) -> Result<(), Self> {
        if (asked_s - overhead_s) / blocks >= SHORTEST_BLOCK_S {
            return Ok(());
        }
        let needed_s = (overhead_s + blocks * SHORTEST_BLOCK_S).ceil();
        Err(Self { asked_s, cells, overhead_s, needed_s })
    }
}

/// Seconds as they are typed: `12`, `0.5`.
fn milliseconds(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

fn cells_need(cells: usize) -> String {
    if cells == 1 { "one cell needs".to_owned() } else { format!("{cells} cells need") }
}

/// Plans the cells of `tunings` tunings under the loads of `pace` into the time `total`. The same
/// `seed` gives the same order.
///
/// # Errors
/// [`TooShort`], with the time that would be enough.
pub fn plan(
    tunings: usize,
    pace: &Pace,
    total: Duration,
    order: CellOrder,
    seed: u64,
) -> Result<Schedule, TooShort> {
    let total_s = total.as_secs_f64();
    let loads = pace.loaded.len();
    let cells = tunings * loads;
    let rounds_of =
        |round_s: f64| ((total_s / round_s).round().min(1000.0) as u32).max(LEAST_ROUNDS);
    let (wanted, visits) = match order {
        CellOrder::Interleaved => (rounds_of(ROUND_S), VISITS),
        CellOrder::Watched => {
            (rounds_of((cells as f64 * 3.0).clamp(WATCHED_ROUND_S, ROUND_S)), VISITS)
        }
        CellOrder::Sequential | CellOrder::Paired => (1, SEQUENTIAL_BLOCKS),
    };
    let ramps_s: f64 = (0..loads).map(|load| pace.ramps_s(load)).sum();
    // A row is a block of each cell.
    let row_s: f64 = pace.per_block_s.iter().sum::<f64>() * tunings as f64;
    let lengths = |rounds: u32, rows: u32| {
        let blocks = f64::from(rows) * cells as f64;
        let overhead_s = PREPARATION_S + f64::from(rounds) * ramps_s + f64::from(rows) * row_s;
        (blocks, overhead_s, (total_s - overhead_s) / blocks)
    };

    let (rounds, rows) = match order {
        CellOrder::Paired => paired::rounds_and_rows(total_s, ramps_s, (row_s, cells)),
        _ if lengths(wanted, wanted * visits).2 < SHORTEST_BLOCK_S => (1, visits),
        _ => (wanted, wanted * visits),
    };
    let (blocks, overhead_s, block_s) = lengths(rounds, rows);
    TooShort::check(total_s, cells, overhead_s, blocks)?;

    let mut rng = fastrand::Rng::with_seed(seed);
    let turns = match order {
        CellOrder::Paired => paired::turns(tunings, loads, (rounds, rows), &mut rng),
        _ => (0..rounds).flat_map(|_| round(tunings, loads, order, &mut rng)).collect(),
    };
    let estimate_s = overhead_s + blocks * block_s;
    Ok(Schedule { turns, block_s, blocks_per_cell: rows, estimate_s })
}

/// The length of blocks with which a bench ends in time: the overhead of blocks is measured while
/// it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Pace {
    loaded: Vec<bool>,
    per_block_s: Vec<f64>,
}

impl Pace {
    /// Returns the pace with the planned overhead; `loads[i]` is false for `idle`, which needs no
    /// ramp.
    #[must_use]
    pub fn new(loads: &[bool]) -> Self {
        let per_block_s = loads.iter().map(|loaded| PER_BLOCK_S[usize::from(*loaded)]).collect();
        Self { loaded: loads.to_vec(), per_block_s }
    }

    /// Returns the planned pace of a bench whose blocks start a program.
    #[must_use]
    pub fn of_program(loads: &[bool]) -> Self {
        let own = Self::new(loads);
        let per_block_s = own.per_block_s.iter().map(|s| s + PER_BLOCK_OF_PROGRAM_S).collect();
        Self { per_block_s, ..own }
    }

    /// Learns from a turn with blocks of `block_s` seconds that took `took_s`.
    pub fn learn(&mut self, turn: &LoadTurn, block_s: f64, took_s: f64) {
        let blocks = turn.blocks.len() as f64;
        let over_s = took_s - self.ramps_s(turn.load) - blocks * block_s;
        self.per_block_s[turn.load] = (over_s / blocks).max(0.0);
    }

    /// Returns the length of the blocks of the next turn, in seconds, when `left_s` are left for
    /// `turns`; at least the shortest block.
    #[must_use]
    pub fn block_s(&self, turns: &[LoadTurn], left_s: f64) -> f64 {
        let blocks: usize = turns.iter().map(|turn| turn.blocks.len()).sum();
        let over_s = self.estimate_s(turns, 0.0);
        ((left_s - over_s) / blocks as f64).max(SHORTEST_BLOCK_S)
    }

    /// Estimates the time of `turns` with blocks of `block_s`, in seconds, with the overhead of
    /// blocks and loads.
    #[must_use]
    pub fn estimate_s(&self, turns: &[LoadTurn], block_s: f64) -> f64 {
        let time = |turn: &LoadTurn| {
            self.ramps_s(turn.load)
                + turn.blocks.len() as f64 * (self.per_block_s[turn.load] + block_s)
        };
        turns.iter().map(time).sum()
    }

    fn ramps_s(&self, load: usize) -> f64 {
        if self.loaded[load] { RAMP.as_secs_f64() + RAMP_DOWN_S } else { 0.0 }
    }
}

/// Length of a block of loads that take turns without end, in seconds.
const ENDLESS_BLOCK_S: f64 = 10.0;
/// Most rounds: more would only add starts and ends of loads.
const MOST_ROUNDS: u32 = 60;

/// Rounds that confidence intervals of ratios need, where blocks stay at least a second long.
const ROUNDS_FOR_INTERVALS: u32 = 4;

/// Returns the length of a block in releases, when `loads` loads take turns with `releases` each:
/// one round per minute, at most sixty rounds, at least four with blocks of a second or else two.
#[must_use]
pub fn releases_per_block(loads: usize, releases: u64, period_ns: u64) -> u64 {
    let in_s = |seconds: f64| (seconds * 1e9 / period_ns.max(1) as f64) as u64;
    if releases == u64::MAX {
        return in_s(ENDLESS_BLOCK_S).max(1);
    }

    let share_s = releases as f64 * period_ns as f64 / 1e9;
    let least = (share_s as u32).clamp(LEAST_ROUNDS, ROUNDS_FOR_INTERVALS);
    let rounds =
        ((share_s * loads as f64 / ROUND_S).round().min(f64::from(MOST_ROUNDS)) as u32).max(least);
    releases.div_ceil(u64::from(rounds)).max(in_s(SHORTEST_BLOCK_S)).clamp(1, releases.max(1))
}

/// The releases that each load has left, and the order of their blocks.
#[derive(Clone, Debug)]
pub struct Shares {
    left: Vec<u64>,
    block: u64,
    order: CellOrder,
    rng: fastrand::Rng,
    /// Loads left in the round, the next one last.
    round: Vec<usize>,
}

impl Shares {
    /// Returns the shares of loads with these releases left (`u64::MAX` for no end) in blocks of
    /// `block` releases; `seed` shuffles each round.
    #[must_use]
    pub fn new(left: Vec<u64>, block: u64, order: CellOrder, seed: u64) -> Self {
        let mut shares =
            Self { left, block, order, rng: fastrand::Rng::with_seed(seed), round: Vec::new() };
        shares.begin_round();
        // In a resumed run, the load with the fewest releases comes first: a run that is killed
        // repeatedly neglects none.
        shares.round.sort_by_key(|at| shares.left[*at]);
        shares
    }

    fn begin_round(&mut self) {
        self.round = (0..self.left.len()).filter(|at| self.left[*at] > 0).collect();
        self.rng.shuffle(&mut self.round);
    }

    /// Returns the index of the next load and the releases of its block; `None` when all are
    /// complete.
    pub fn next_block(&mut self) -> Option<(usize, u64)> {
        if self.order == CellOrder::Sequential {
            let at = self.left.iter().position(|left| *left > 0)?;
            return Some((at, self.left[at]));
        }

        if self.round.is_empty() {
            self.begin_round();
        }

        let at = self.round.pop()?;
        let left = self.left[at];
        // A rest of less than half a block is added to this one: a run that was killed leaves odd
        // lengths.
        let is_last = left < self.block.saturating_add(self.block / 2);
        Some((at, if is_last { left } else { self.block }))
    }

    /// Subtracts a block from a load's share; `u64::MAX` subtracts all of it.
    pub fn take(&mut self, at: usize, releases: u64) {
        self.left[at] = match (self.left[at], releases) {
            (_, u64::MAX) => 0,
            (u64::MAX, _) => u64::MAX,
            (left, releases) => left.saturating_sub(releases),
        };
    }

    /// Returns whether a load is complete.
    #[must_use]
    pub fn is_done(&self, at: usize) -> bool {
        self.left[at] == 0
    }
}

fn round(tunings: usize, loads: usize, order: CellOrder, rng: &mut fastrand::Rng) -> Vec<LoadTurn> {
    let one_after_another = |tuning| std::iter::repeat_n(tuning, SEQUENTIAL_BLOCKS as usize);
    let turn = |load| {
        let blocks = if order == CellOrder::Sequential {
            (0..tunings).flat_map(one_after_another).collect()
        } else {
            forward_and_backward(tunings, rng)
        };
        LoadTurn { load, blocks }
    };
    (0..loads).map(turn).collect()
}

fn forward_and_backward(tunings: usize, rng: &mut fastrand::Rng) -> Vec<usize> {
    let mut forward: Vec<usize> = (0..tunings).collect();
    rng.shuffle(&mut forward);
    let backward: Vec<usize> = forward.iter().rev().copied().collect();
    [forward, backward].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plan(
        tunings: usize,
        loads: &[bool],
        total: Duration,
        order: CellOrder,
        seed: u64,
    ) -> Result<Schedule, TooShort> {
        super::plan(tunings, &Pace::new(loads), total, order, seed)
    }

    fn minutes(m: u64) -> Duration {
        Duration::from_secs(60 * m)
    }

    #[test]
    fn a_program_has_time_to_start_and_to_end_in_each_block() {
        for order in [CellOrder::Interleaved, CellOrder::Sequential, CellOrder::Paired] {
            let own = plan(2, &[false], minutes(1), order, 1).unwrap();
            let pace = Pace::of_program(&[false]);
            let program = super::plan(2, &pace, minutes(1), order, 1).unwrap();
            for schedule in [&own, &program] {
                assert!((schedule.estimate_s - 60.0).abs() < 0.001, "{order:?}: {schedule:?}");
            }
            let measured = |of: &Schedule| of.blocks() as f64 * of.block_s;
            let starts_s = program.blocks() as f64 * PER_BLOCK_OF_PROGRAM_S;
            assert!(measured(&program) <= measured(&own), "{order:?}");
            assert!(measured(&program) + starts_s <= 60.0, "{order:?}");
        }
    }

    #[test]
    fn a_time_that_is_too_short_is_repeated_as_it_was_typed() {
        let plan = |ms| plan(2, &[false], Duration::from_millis(ms), CellOrder::Interleaved, 1);
        let words = |ms| plan(ms).unwrap_err().to_string();
        assert!(words(500).starts_with("--for 0.5s is too short"), "{}", words(500));
        assert!(words(2_000).starts_with("--for 2s is too short"), "{}", words(2_000));
    }

    #[test]
    fn two_minutes_hold_eighteen_cells_in_turns() {
        let schedule = plan(9, &[false, true], minutes(2), CellOrder::Interleaved, 1).unwrap();
        assert_eq!((schedule.turns.len(), schedule.blocks_per_cell), (4, 4));
        assert!((0.3..2.0).contains(&schedule.block_s), "blocks of {} s", schedule.block_s);
    }

    #[test]
    fn the_time_of_cells_that_do_not_run_goes_to_the_others() {
        let loads = [false, true];
        let all = plan(4, &loads, minutes(2), CellOrder::Interleaved, 1).unwrap();
        let block_s = Pace::new(&loads).block_s(&all.turns, 100.0);
        let half = all.retain_cells(|load, tuning| tuning < 2 && (load, tuning) != (1, 0));

        assert!(half.turns.iter().all(|turn| turn.blocks.iter().all(|&tuning| tuning < 2)));
        assert!(
            half.turns
                .iter()
                .filter(|turn| turn.load == 1)
                .all(|turn| turn.blocks.iter().all(|&tuning| tuning == 1))
        );
        let longer_s = Pace::new(&loads).block_s(&half.turns, 100.0);

        assert!(longer_s > 2.0 * block_s, "{longer_s} s instead of {block_s} s");
        let none = half.retain_cells(|_, _| false);
        assert!(none.turns.is_empty(), "a load without a cell is not started");
    }

    #[test]
    fn a_resumed_schedule_is_the_end_of_the_whole_one() {
        let whole = plan(3, &[false, true], minutes(2), CellOrder::Interleaved, 7).unwrap();
        let flat = |schedule: &Schedule| -> Vec<(usize, usize)> {
            schedule
                .turns
                .iter()
                .flat_map(|turn| turn.blocks.iter().map(|tuning| (turn.load, *tuning)))
                .collect()
        };
        let order = flat(&whole);
        for cut in 0..=order.len() {
            let done = |load, tuning| {
                order[..cut].iter().filter(|cell| **cell == (load, tuning)).count() as u32
            };
            let rest = whole.clone().skip_blocks(done);
            assert_eq!(flat(&rest), order[cut..], "cut off after {cut} blocks");
            assert_eq!(rest.blocks(), order.len() - cut);
        }
    }

    #[test]
    fn blocks_become_shorter_when_starting_and_stopping_costs_more_than_planned() {
        let schedule = plan(9, &[false, true], minutes(1), CellOrder::Interleaved, 1).unwrap();
        let mut pace = Pace::new(&[false, true]);
        let planned_s = pace.block_s(&schedule.turns, 60.0 - PREPARATION_S);
        assert!(
            (planned_s - schedule.block_s).abs() < 1e-9,
            "before anything is known it is the plan"
        );
        let loaded = &schedule.turns[1];
        pace.learn(loaded, planned_s, 1.5 + 18.0 * (planned_s + 0.6));
        let left_s = 18.0 * (planned_s + 0.6) + 1.5;

        assert!((pace.block_s(&schedule.turns[3..], left_s) - planned_s).abs() < 1e-9);
        assert!(pace.block_s(&schedule.turns[2..], left_s) < planned_s);
        assert!(pace.block_s(&schedule.turns[2..], 0.0) >= SHORTEST_BLOCK_S);
    }

    #[test]
    fn the_papers_order_runs_one_cell_after_another() {
        let schedule = plan(2, &[true], minutes(1), CellOrder::Sequential, 1).unwrap();
        assert_eq!(schedule.turns, [LoadTurn { load: 0, blocks: [[0; 6], [1; 6]].concat() }]);
    }

    #[test]
    fn a_time_too_short_is_refused_with_one_that_is_enough() {
        let why =
            plan(9, &[false, true], Duration::from_secs(5), CellOrder::Interleaved, 1).unwrap_err();
        let enough = Duration::from_secs_f64(why.needed_s);
        assert!(plan(9, &[false, true], enough, CellOrder::Interleaved, 1).is_ok(), "{why}");
    }

    fn played(mut shares: Shares) -> Vec<(usize, u64)> {
        let mut blocks = Vec::new();
        while let Some((at, releases)) = shares.next_block() {
            shares.take(at, releases);
            blocks.push((at, releases));
        }
        blocks
    }

    #[test]
    fn loads_take_turns_in_rounds_of_a_minute() {
        assert_eq!(releases_per_block(2, 1_000, 1_000_000), 500, "two rounds at least");
        assert_eq!(
            releases_per_block(2, 5_000, 1_000_000),
            1_250,
            "four where blocks are of a second"
        );

        assert_eq!(
            releases_per_block(2, 600_000, 1_000_000),
            30_000,
            "20 minutes have twenty rounds"
        );

        assert_eq!(releases_per_block(2, 43_200_000, 1_000_000), 720_000, "a day has sixty");
        assert_eq!(
            releases_per_block(3, 150, 1_000_000),
            150,
            "shorter blocks would be mostly overhead"
        );

        assert_eq!(
            releases_per_block(3, u64::MAX, 1_000_000),
            10_000,
            "without an end, ten seconds"
        );
    }

    #[test]
    fn loads_one_after_another_come_once_and_in_order() {
        let shares = Shares::new(vec![700, 0, 1_000], 1_000, CellOrder::Sequential, 1);
        assert_eq!(played(shares), [(0, 700), (2, 1_000)]);
    }

    #[test]
    fn the_load_with_the_fewest_releases_comes_first_in_a_resumed_run() {
        for seed in 0..20 {
            let blocks =
                played(Shares::new(vec![900, 1_500, 200], 300, CellOrder::Interleaved, seed));
            assert_eq!(blocks[..3].iter().map(|(at, _)| *at).collect::<Vec<_>>(), [1, 0, 2]);
        }
    }

    #[test]
    fn a_share_without_end_is_never_used_up_but_by_the_probe_itself() {
        let mut shares = Shares::new(vec![u64::MAX, u64::MAX], 1_000, CellOrder::Interleaved, 1);
        let first: Vec<(usize, u64)> = (0..4).filter_map(|_| shares.next_block()).collect();
        first.iter().for_each(|(at, releases)| shares.take(*at, *releases));
        assert!(first.iter().all(|(_, releases)| *releases == 1_000) && !shares.is_done(0));
        shares.take(0, u64::MAX);
        assert!(shares.is_done(0) && !shares.is_done(1));
    }

    proptest! {
        #[test]
        fn loads_in_turns_get_their_shares_to_the_release(
            left in prop::collection::vec(0_u64..50_000, 1..6), block in 1_u64..20_000, seed: u64,
        ) {
            let blocks = played(Shares::new(left.clone(), block, CellOrder::Interleaved, seed));
            let mut open = left.clone();
            let mut turns = vec![0; left.len()];
            for (at, releases) in &blocks {
                prop_assert!(*releases <= block + block / 2 && *releases <= open[*at]);
                open[*at] -= releases;
                turns[*at] += 1;
                // Nobody has a second turn before all others that have something left had their
                // first.
                let others = || (0..left.len()).filter(|other| open[*other] > 0).map(|other| turns[other]);
                prop_assert!(others().all(|turns_of_other| turns[*at] <= turns_of_other + 1), "{:?}", blocks);
            }

            prop_assert!(open.iter().all(|left| *left == 0), "to the release: {:?}", open);
            let again = played(Shares::new(left, block, CellOrder::Interleaved, seed));
            prop_assert_eq!(blocks, again, "the same seed is the same order");
        }

        #[test]
        fn every_cell_gets_the_same_number_of_blocks_and_the_time_is_kept(
            tunings in 1_usize..12, loaded in prop::collection::vec(any::<bool>(), 1..4), seconds in 60_u64..2000,
            sequential: bool, seed: u64,
        ) {
            let order = if sequential { CellOrder::Sequential } else { CellOrder::Interleaved };
            let schedule = plan(tunings, &loaded, Duration::from_secs(seconds), order, seed);
            prop_assume!(schedule.is_ok());
            let schedule = schedule.unwrap();
            for tuning in 0..tunings {
                for load in 0..loaded.len() {
                    let of_cell = schedule.turns.iter().filter(|p| p.load == load).flat_map(|p| &p.blocks);
                    prop_assert_eq!(of_cell.filter(|t| **t == tuning).count() as u32, schedule.blocks_per_cell);
                }
            }

            prop_assert!((schedule.estimate_s - seconds as f64).abs() < 1e-6 * seconds as f64);
        }
    }
}
