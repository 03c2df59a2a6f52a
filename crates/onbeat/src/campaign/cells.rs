//! Cells that are measured whole: in turn or side by side, and what a failure ends.

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use super::event::{CampaignEvent, CampaignReport};

/// How much a failed measurement ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureScope {
    /// Nothing failed: the user asked to stop.
    Stopped,
    /// This cell alone; the next one may succeed.
    Cell,
    /// All of it: the next cell would fail as well.
    Campaign,
}

/// An error of a runner.
pub trait CellFailure: Error {
    /// Returns how much it ends.
    fn scope(&self) -> FailureScope;
}

/// Returns the cells of several axes by the indices of their values: the last axis varies first.
pub fn product<const AXES: usize>(lengths: [usize; AXES]) -> impl Iterator<Item = [usize; AXES]> {
    let cells = lengths.into_iter().fold(1, usize::saturating_mul);
    (0..cells).map(move |mut number| {
        let mut cell = [0; AXES];
        for (index, length) in cell.iter_mut().zip(lengths).rev() {
            *index = number % length;
            number /= length;
        }
        cell
    })
}

/// An experiment in progress.
pub struct Campaign<'c> {
    stop: &'c AtomicBool,
    report: CampaignReport<'c>,
    failed: Vec<(String, String)>,
}

impl<'c> Campaign<'c> {
    /// Begins without a failure. After `stop` no further cell begins.
    #[must_use]
    pub fn new(stop: &'c AtomicBool, report: CampaignReport<'c>) -> Self {
        Self { stop, report, failed: Vec::new() }
    }

    /// Whether the user asked to stop.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Reports what happens.
    pub fn report(&mut self, event: CampaignEvent<'_>) {
        (self.report)(event);
    }

    /// Returns the result of a cell; `None` when it failed alone, which is noted and reported, or
    /// was stopped.
    ///
    /// # Errors
    /// An error whose scope is the whole campaign.
    pub fn outcome<T, E: CellFailure>(
        &mut self,
        cell: &str,
        measured: Result<T, E>,
    ) -> Result<Option<T>, E> {
        let why = match measured {
            Ok(result) => return Ok(Some(result)),
            Err(why) => why,
        };
        match why.scope() {
            FailureScope::Campaign => return Err(why),
            FailureScope::Stopped => {}
            FailureScope::Cell => {
                (self.report)(CampaignEvent::Failed { cell, why: &why });
                // A cell that is measured several times may fail several times.
                self.failed.retain(|(before, _)| before != cell);
                self.failed.push((cell.to_owned(), why.to_string()));
            }
        }
        Ok(None)
    }

    /// Measures cells in `jobs` threads, and hands over their results in the order in which they
    /// end, until one cannot be handed over.
    ///
    /// # Errors
    /// The first error of `hand_over`; cells that run then have ended.
    pub fn side_by_side<T: Sync, R: Send, E>(
        &mut self,
        cells: &[T],
        jobs: usize,
        measure: impl Fn(&T) -> R + Sync,
        mut hand_over: impl FnMut(&mut Self, &T, R) -> Result<(), E>,
    ) -> Result<(), E> {
        let next = AtomicUsize::new(0);
        let is_over = AtomicBool::new(false);
        let stop = self.stop;
        let (send, receive) = mpsc::channel();
        let work = |send: mpsc::Sender<(usize, R)>| {
            while !stop.load(Ordering::Relaxed) && !is_over.load(Ordering::Relaxed) {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(cell) = cells.get(at) else { break };
                if send.send((at, measure(cell))).is_err() {
                    break;
                }
            }
        };

        thread::scope(|scope| {
            for _ in 0..jobs.clamp(1, cells.len().max(1)) {
                let (work, send) = (&work, send.clone());
                scope.spawn(move || work(send));
            }
            drop(send);

            let mut handed = Ok(());
            for (at, result) in receive {
                if handed.is_ok() {
                    handed = hand_over(self, &cells[at], result);
                    is_over.store(handed.is_err(), Ordering::Relaxed);
                }
            }
            handed
        })
    }

    /// Returns the names of the cells that failed, each with its reason.
    #[must_use]
    pub fn into_failed(self) -> Vec<(String, String)> {
        self.failed
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0:?}")]
    struct Failure(FailureScope);

    impl CellFailure for Failure {
        fn scope(&self) -> FailureScope {
            self.0
        }
    }

    #[test]
    fn the_last_axis_varies_first_and_an_empty_axis_leaves_no_cell() {
        assert_eq!(product([2, 2]).collect::<Vec<_>>(), [[0, 0], [0, 1], [1, 0], [1, 1]]);
        assert_eq!(product([3, 0]).count(), 0);
        assert_eq!(product([]).count(), 1, "one cell without an axis");
    }

    #[test]
    fn a_failure_ends_its_cell_or_the_whole_and_a_stop_is_none() {
        let (stop, mut reported) = (AtomicBool::new(false), Vec::new());
        let mut report = |event: CampaignEvent<'_>| {
            if let CampaignEvent::Failed { cell, .. } = event {
                reported.push(cell.to_owned());
            }
        };
        let mut campaign = Campaign::new(&stop, &mut report);
        assert_eq!(campaign.outcome::<_, Failure>("a", Ok(1)).unwrap(), Some(1));
        for (cell, scope) in [("b", FailureScope::Cell), ("b", FailureScope::Cell)] {
            assert_eq!(campaign.outcome::<u8, _>(cell, Err(Failure(scope))).unwrap(), None);
        }
        let stopped = campaign.outcome::<u8, _>("c", Err(Failure(FailureScope::Stopped)));
        assert_eq!(stopped.unwrap(), None);
        assert!(campaign.outcome::<u8, _>("d", Err(Failure(FailureScope::Campaign))).is_err());
        assert_eq!(campaign.into_failed(), [("b".to_owned(), "Cell".to_owned())]);
        assert_eq!(reported, ["b", "b"]);
    }

    #[test]
    fn nothing_begins_after_a_stop_or_after_a_result_that_cannot_be_kept() {
        let stop = AtomicBool::new(false);
        let mut report = |_: CampaignEvent<'_>| {};
        let mut campaign = Campaign::new(&stop, &mut report);
        let cells: Vec<usize> = (0..100).collect();
        let mut kept = 0;
        let full = campaign.side_by_side(
            &cells,
            1,
            |cell| *cell,
            |_, cell, _| {
                kept += 1;
                if *cell == 2 { Err("full") } else { Ok(()) }
            },
        );
        assert_eq!((full, kept), (Err("full"), 3));

        stop.store(true, Ordering::Relaxed);
        let none = campaign.side_by_side(&cells, 4, |_| panic!("stopped"), |_, _, ()| Err("none"));
        assert_eq!(none, Ok(()));
    }

    proptest! {
        #[test]
        fn cells_side_by_side_are_each_measured_once(cells in 0_usize..60, jobs in 1_usize..9) {
            let cells: Vec<usize> = (0..cells).collect();
            let stop = AtomicBool::new(false);
            let mut report = |_: CampaignEvent<'_>| {};
            let mut done = Vec::new();
            Campaign::new(&stop, &mut report)
                .side_by_side(&cells, jobs, |cell| cell * 3, |_, cell, result| {
                    done.push((*cell, result));
                    Ok::<(), Failure>(())
                })
                .unwrap();
            done.sort_unstable();
            let wanted: Vec<(usize, usize)> = cells.iter().map(|cell| (*cell, cell * 3)).collect();
            prop_assert_eq!(done, wanted);
        }
    }
}
