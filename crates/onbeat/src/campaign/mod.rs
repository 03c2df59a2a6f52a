//! The engine of every experiment: axes × runner × schedule × store × resume × progress.
//!
//! An experiment has *axes* (tunings, loads, kernels, seeds, periods) whose values multiply to
//! *cells*, and a *runner* that measures one cell: a loop in this process, the process of a cell, a
//! guest, a board. The rest is the same for all of them, and is here:
//!
//! | part | what it does |
//! |---|---|
//! | [`product`] | the cells of several axes, the last axis first |
//! | [`Campaign`] | cells without a result, one after another or side by side; which failures end it |
//! | [`ResultStore`] | results on disk, a directory each, whole or absent, found again |
//! | [`PlanFile`], [`find_unfinished`] | the typed plan beside the run files of a bench or a measurement, by which it is resumed |
//! | [`CampaignEvent`] | what happens meanwhile; the words are the caller's |
//!
//! Experiments whose cells take turns in short blocks have their schedule in
//! [`bench::schedule`](crate::bench::schedule), and keep their results in run files. All others keep
//! each cell in a [`ResultStore`]. Killed at any moment, both resume with what is left.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! use onbeat::campaign::{
//!     Campaign, CampaignEvent, CellFailure, FailureScope, ResultStore, StoreError, product,
//! };
//!
//! #[derive(Debug, thiserror::Error)]
//! #[error("{0}")]
//! struct Failed(String);
//! impl CellFailure for Failed {
//!     fn scope(&self) -> FailureScope {
//!         FailureScope::Cell
//!     }
//! }
//!
//! # let scratch = std::env::temp_dir().join(format!("onbeat-campaign-{}", std::process::id()));
//! # let out = scratch.as_path();
//! let (periods, loads) = ([500, 1000], ["idle", "cpu"]);
//! let store = ResultStore::open(out, "figure.json")?;
//! let place = |[period, load]: [usize; 2]| format!("{}-{}", periods[period], loads[load]);
//! let is_due = |cell: &[usize; 2]| matches!(store.find::<u32>(place(*cell).as_ref()), Ok(None));
//! let due: Vec<[usize; 2]> = product([periods.len(), loads.len()]).filter(is_due).collect();
//! assert_eq!(due.len(), 4);
//!
//! let stop = AtomicBool::new(false);
//! let mut report = |event: CampaignEvent<'_>| assert!(matches!(event, CampaignEvent::Failed { .. }));
//! let mut campaign = Campaign::new(&stop, &mut report);
//! for cell in due {
//!     let measured = if cell == [1, 1] { Err(Failed("no clock".to_owned())) } else { Ok(7_u32) };
//!     if let Some(figure) = campaign.outcome(&place(cell), measured)? {
//!         store.keep(place(cell).as_ref(), &figure, |_| Ok::<_, StoreError>(()))?;
//!     }
//! }
//! assert_eq!(campaign.into_failed().len(), 1);
//! assert_eq!(store.find::<u32>("500-idle".as_ref())?, Some(7));
//! # std::fs::remove_dir_all(&scratch)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cells;
mod event;
mod plan_file;
mod store;

pub use cells::{Campaign, CellFailure, FailureScope, product};
pub use event::{CampaignEvent, CampaignReport};
pub use plan_file::{FoundRun, PLAN_FILE, PlanFile, PlanFileError, PlannedOption, find_unfinished};
pub use store::{
    PARTIAL, ResultStore, StoreError, create_whole_in, create_workplace, new_directory,
    remove_partial,
};
