//! The plan of a measurement under several loads: shares, blocks, files.

use std::time::Duration;

use crate::bench::measurement::ProbePlan;
use crate::bench::schedule::{CellOrder, releases_per_block};
use crate::load::Load;
use onbeat_record::run_dir::releases_left;
use onbeat_record::{Cell, EndReason, Past, SweepNote};

/// What is measured, under which loads, and for how long.
#[derive(Clone, Debug)]
pub struct TurnsPlan {
    /// What is measured under each load.
    pub what: ProbePlan,
    /// Loads in the order of the command line, each once.
    pub loads: Vec<Load>,
    /// In turns, or one load after another.
    pub order: CellOrder,
    /// For a sweep: what it is judged by, and the requested utilisation of each load, in percent.
    pub sweep: Option<(SweepNote, Vec<f64>)>,
    /// Time from the start of a load to the start of the loop.
    pub settling: Duration,
}

impl TurnsPlan {
    /// Returns the name of a load's run file.
    #[must_use]
    pub fn file_name(&self, load: &Load) -> String {
        Cell::new(self.what.probe.name, load.to_string()).file_name()
    }

    /// Returns the time of each load, in seconds; `None` for no end.
    #[must_use]
    pub fn share_s(&self) -> Option<f64> {
        let releases = self.what.releases;
        (releases < u64::MAX).then(|| self.what.seconds(releases))
    }

    /// Returns the length of a block in releases; `u64::MAX` for no end.
    #[must_use]
    pub fn block_releases(&self) -> u64 {
        let ProbePlan { releases, setting, .. } = &self.what;
        if self.order == CellOrder::Sequential {
            return *releases;
        }
        releases_per_block(self.loads.len(), *releases, setting.period_ns)
    }

    /// Returns the number of blocks of each load; `None` for no end.
    #[must_use]
    pub fn blocks(&self) -> Option<u64> {
        let releases = self.what.releases;
        (releases < u64::MAX).then(|| releases.div_ceil(self.block_releases()))
    }

    /// Estimates the time that is left, in seconds, from the releases that each load has left, with
    /// the overhead of blocks and loads. `None` for no end.
    #[must_use]
    pub fn estimate_s(&self, left: &[u64]) -> Option<f64> {
        const PER_BLOCK_S: f64 = 0.15;
        const END_OF_LOAD_S: f64 = 0.5;
        let of = |(load, left): (&Load, &u64)| {
            let blocks = left.div_ceil(self.block_releases()) as f64;
            let begin_and_end_s =
                if load.is_idle() { 0.0 } else { self.settling.as_secs_f64() + END_OF_LOAD_S };
            self.what.seconds(*left) + blocks * (begin_and_end_s + PER_BLOCK_S)
        };

        let has_end = left.iter().all(|left| *left < u64::MAX);
        has_end.then(|| self.loads.iter().zip(left).map(of).sum())
    }

    /// Returns the releases that each load has left, after what it has measured.
    pub(super) fn left(&self, pasts: &[Option<Past>]) -> Vec<u64> {
        let left = |past: &Option<Past>| match past {
            None => self.what.releases,
            // A probe that is complete ends before its releases do.
            Some(past) if past.ended.is_some_and(|reason| reason != EndReason::Asked) => 0,
            Some(past) => releases_left(past, self.what.releases),
        };
        pasts.iter().map(left).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{ALL, Setting};

    fn plan(loads: &[&str], releases: u64, order: CellOrder) -> TurnsPlan {
        TurnsPlan {
            what: ProbePlan::new(ALL[0], Setting::new(1_000_000), releases, &[]),
            loads: loads.iter().map(|load| load.parse().unwrap()).collect(),
            order,
            sweep: None,
            settling: Duration::from_secs(1),
        }
    }

    #[test]
    fn each_load_has_a_file_of_its_own() {
        let turns = plan(&["idle", "cpu=50%"], 1, CellOrder::Interleaved);
        let names: Vec<String> = turns.loads.iter().map(|load| turns.file_name(load)).collect();
        assert_eq!(names, ["timer-idle.onbeat.hlog", "timer-cpu=50%.onbeat.hlog"]);
    }

    #[test]
    fn the_estimate_covers_the_releases_left_and_the_overhead_of_loads() {
        let turns = plan(&["idle", "cpu"], 4_000, CellOrder::Interleaved);
        assert_eq!((turns.blocks(), turns.share_s()), (Some(4), Some(4.0)));
        let whole = turns.estimate_s(&[4_000, 4_000]).unwrap();
        assert!((whole - (8.0 + 8.0 * 0.15 + 4.0 * 1.5)).abs() < 1e-9, "{whole}");
        assert_eq!(turns.estimate_s(&[0, 0]), Some(0.0));
        let endless = plan(&["idle", "cpu"], u64::MAX, CellOrder::Interleaved);

        assert_eq!(
            (endless.blocks(), endless.share_s(), endless.estimate_s(&[u64::MAX, 0])),
            (None, None, None)
        );
        assert_eq!(plan(&["idle", "cpu"], 4_000, CellOrder::Sequential).blocks(), Some(1));
    }
}
