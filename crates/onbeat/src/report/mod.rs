//! From run files to figures, verdicts, tables and the page: pure functions, no clocks, no files,
//! no environment.
//!
//! [`Summary`] comes first: all that is known of a bench or a run, as `--json` prints it.
//! Everything shown is made of it.
//!
//! | file | what it answers |
//! |---|---|
//! | [`statistics`] | how the samples of a series are spread, and which figures they carry |
//! | [`binomial`] | how large a rate can be, given what was counted |
//! | [`verdict`] | whether one run held a limit |
//! | [`best`], `ranking` | which tuning is best, which ones tie with it, and whether it holds the limit under every load |
//! | [`closing`] | the closing lines of a terminal |
//! | [`causes`] | causes of latency, counted |
//! | [`spikes`] | which spikes there are, by number |
//! | [`imported`] | results of runs of other tools |
//! | [`compare`], [`comparable`], [`compare_rows`], [`compare_tables`] | runs beside each other |
//! | [`export`] | runs for other programs |
//! | [`gate`], [`junit`] | whether a run passes, for machines |
//! | [`effects`] | the effect of each of P, M, C and S on its own |
//! | [`worth`] | what one tuning is worth, from blocks with and without it in pairs |
//! | [`modes`] | periodic interference |
//! | [`extremes`] | the extrapolated worst case (EVT) |
//! | [`enough`] | how long to measure |
//! | [`normal`] | the tail versus a normal distribution |
//! | [`conclusions`] | these four together |
//! | [`by_load`] | one tuning under several loads |
//! | [`sweep`] | figures over rising load |
//! | [`probes`] | what single probes have to say |
//! | [`summary`], [`cell`] | all of it as one object |
//! | [`tables`], [`table`] | all of it as text |
//! | [`mod@page`] | all of it as one HTML file |
//! | [`units`] | figures as people read them |
//!
//! ```
//! use onbeat::record::{Distribution, Moments};
//! use onbeat::report::{Share, Statistics};
//!
//! let mut moments = Moments::default();
//! (1..=2_000).for_each(|ns| moments.add(ns));
//! let latency = Statistics::new(&Distribution::from_values(1..=2_000), &moments).ok_or("no samples")?;
//!
//! assert_eq!((latency.min_ns, latency.max_ns, latency.jitter_ns), (1, 2_000, 1_999));
//! assert!(latency.percentile(Share::P99).is_some_and(|p99| p99.supported && p99.value_ns == 1_980));
//! # Ok::<(), &str>(())
//! ```
//!
//! Absent on purpose: colours and the width of a terminal (the command line's), and any figure that
//! a run file does not carry.

pub mod best;
pub mod binomial;
mod bootstrap;
pub mod by_load;
pub mod causes;
pub mod cell;
pub mod closing;
pub mod comparable;
pub mod compare;
pub mod compare_rows;
pub mod compare_tables;
pub mod conclusions;
pub mod effects;
pub mod enough;
pub mod events;
mod exclusions;
pub mod export;
pub mod extremes;
pub mod gate;
pub mod imported;
pub mod judged_run;
pub mod junit;
pub mod modes;
pub mod normal;
pub mod page;
pub mod probes;
mod ranking;
pub mod remedies;
pub mod spikes;
pub mod statistics;
pub mod summary;
pub mod sweep;
pub mod table;
pub mod tables;
pub mod units;
pub mod verdict;
pub mod worth;

pub use best::Overall;
pub use cell::CellSummary;
pub use conclusions::Conclusions;
pub use effects::Effect;
pub use judged_run::{JudgeBy, JudgedRun};
pub use page::{PageError, page};
pub use statistics::{Low, Percentile, Share, Statistics};
pub use summary::{Summary, bench_sentences, cautions};
pub use table::Table;
pub use units::Letters;
pub use verdict::{Limit, Outcome, Verdict};
