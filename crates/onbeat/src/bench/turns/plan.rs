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
    /// Seed for the order of the turns.
    pub seed: u64,
    /// For a sweep: what it is judged by, and the requested utilisation of each load, in percent.
    pub sweep: Option<(SweepNote, Vec<f64>)>,
    /// Time from the start of a load to the start of the loop.
    pub settling: Duration,
}

impl TurnsPlan {
    /// Returns the name of each load's run file. Loads whose names would be the same in a file name
    /// get a fingerprint.
    #[must_use]
    pub fn file_names(&self) -> Vec<String> {
        /// Longer names are shortened; file systems allow 255 bytes.
        const LONGEST: usize = 120;
        let plain = |load: &Load| Cell::new(self.what.probe.name, load.to_string()).file_name();
        let all: Vec<String> = self.loads.iter().map(plain).collect();
        let is_fit = |name: &String| {
            name.len() <= LONGEST && all.iter().filter(|other| *other == name).count() == 1
        };
        let named = all.iter().zip(&self.loads).map(|(name, load)| {
            if is_fit(name) {
                name.clone()
            } else {
                format!("{}-{}.onbeat.hlog", self.what.probe.name, load.file_name())
            }
        });

        named.collect()
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
        match self.order {
            CellOrder::Interleaved | CellOrder::Watched | CellOrder::Paired => {
                releases_per_block(self.loads.len(), *releases, setting.period_ns)
            }
            CellOrder::Sequential => *releases,
        }
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
            seed: 1,
            sweep: None,
            settling: Duration::from_secs(1),
        }
    }

    #[test]
    fn each_load_has_a_file_of_its_own() {
        let long = format!("run:{}", "x".repeat(300));
        let names =
            plan(&["idle", "cpu=50%", "run:a b", "run:a/b", &long], 1, CellOrder::Interleaved)
                .file_names();
        assert_eq!(names[..2], ["timer-idle.onbeat.hlog", "timer-cpu=50%.onbeat.hlog"]);
        let different: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(different.len(), names.len(), "{names:?}");
        assert!(names.iter().all(|name| name.len() <= 120 && !name.contains('/')), "{names:?}");
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
