//! From run files to figures, verdicts, tables and the page: pure functions, no clocks, no files,
//! no environment.
//!
//! [`Summary`] comes first: all that is known of a bench or a run, as `--json` prints it.
//! Everything shown is made of it.
//!
//! Figures of one run file:
//!
//! | file | what it answers |
//! |---|---|
//! | [`statistics`] | how the samples of a series are spread, and which figures they carry |
//! | [`verdict`] | whether one run held a limit |
//! | [`events`] | what happened on its bus and with its robot |
//! | [`frames`] | which pictures of a camera were taken meanwhile |
//! | [`modes`], [`extremes`], [`normal`], [`enough`] | periodic interference, the extrapolated worst case (EVT), the tail versus a normal distribution, how long to measure; `analyses` has them together |
//! | `cause_counts`, [`remedies`] | spikes by their main cause, and what would remove the causes |
//! | [`deadline`] | the same by the loop's own deadline, where no limit is given |
//! | [`cell`], `cell_figures` | all of it as one object |
//!
//! Figures of several:
//!
//! | file | what it answers |
//! |---|---|
//! | [`best`], `ranking` | which tuning is best, which ones tie with it, and whether it holds the limit under every load |
//! | [`focus`] | the load that decides, and under it the untuned loop beside the best |
//! | [`effects`] | the effect of each of P, M, C and S on its own |
//! | [`sweep`] | figures over rising load |
//! | [`summary`], [`imported`] | all of it as one object: of a bench or a run, of runs of other tools |
//! | [`compare`], [`comparable`], `digest`, `facts` | runs beside each other |
//! | `side` | several runs as one side of a comparison |
//! | [`answers`] | when the answers of a cycle arrive, in which order, and what a plan predicts |
//! | [`chain_cycles`] | a chain through a bus in cycles, predicted and measured |
//! | [`packets`] | what became of packets, device by device |
//! | [`trend`] | one figure over many runs, and where it changed |
//! | [`worth`] | what one tuning is worth, from blocks with and without it in pairs |
//!
//! Words:
//!
//! | file | what it answers |
//! |---|---|
//! | [`units`] | figures as people read them |
//! | [`first_rows`] | the figures that stand first, before and after |
//! | [`closing`] | the closing lines of a terminal |
//! | [`markdown`] | the summary of a job of continuous integration |
//! | [`causes`], [`conclusions`], [`spikes`], `sentences` | the sentences |
//! | [`tables`], [`table`], [`by_load`], [`probes`], [`compare_rows`], [`compare_round_trips`], [`compare_tables`] | the tables |
//! | [`gate`], [`junit`] | whether a run passes, for machines |
//! | [`export`] | runs for other programs |
//! | [`mod@page`] | all of it as one HTML file |
//! | [`picture`](mod@picture) | its first chart as a picture |
//!
//! A file names only files before it in these tables.
//!
//! ```
//! use onbeat_record::{Distribution, Moments};
//! use onbeat_report::{Share, Statistics};
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

mod alike;
mod analyses;
pub mod answers;
pub mod best;
pub mod boards;
mod bootstrap;
pub mod by_cpu;
pub mod by_load;
mod cause_counts;
pub mod causes;
pub mod cell;
mod cell_figures;
pub mod chain_cycles;
pub mod closing;
pub mod comparable;
pub mod compare;
pub mod compare_round_trips;
pub mod compare_rows;
pub mod compare_tables;
pub mod conclusions;
pub mod deadline;
mod digest;
pub mod effects;
pub mod enough;
pub mod events;
mod exclusions;
pub mod export;
pub mod extremes;
mod facts;
mod file_facts;
pub mod first_rows;
pub mod focus;
pub mod frames;
pub mod gate;
mod import_notes;
pub mod imported;
pub mod judged_run;
pub mod junit;
mod load_events;
pub mod markdown;
pub mod modes;
pub mod motion;
pub mod noise;
pub mod normal;
mod once;
mod order_statistics;
pub mod packets;
pub mod page;
pub mod picture;
pub mod power;
mod probe_figures;
pub mod probes;
mod ranking;
pub mod remedies;
mod sentences;
mod side;
pub mod spikes;
pub mod summary;
pub mod sweep;
pub mod tables;
pub mod trend;
pub mod verdict;
pub mod worst_cpu;
pub mod worth;

pub use best::Overall;
pub use cell::CellSummary;
pub use conclusions::Conclusions;
pub use effects::Effect;
pub use judged_run::{JudgeBy, JudgedRun};
pub use onbeat_figures::{
    Letters, Low, Percentile, Share, Statistics, Table, statistics, table, units,
};
pub use page::{PageError, page};
pub use sentences::{bench_sentences, cautions, cell_notes};
pub use summary::Summary;
pub use verdict::{Limit, Outcome, Verdict};
