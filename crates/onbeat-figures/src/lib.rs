//! Figures of a distribution, and tables of them: pure functions.
//!
//! [`statistics`] says how the samples of a series are spread and which figures they carry, [`units`] writes a figure as people read it,
//! [`table`] lays tables out in a given width.
//!
//! ```
//! use onbeat_figures::{Share, Statistics};
//! use onbeat_record::{Distribution, Moments};
//!
//! let mut moments = Moments::default();
//! (1..=2_000).for_each(|us| moments.add(us * 1_000));
//! let distribution = Distribution::from_values((1..=2_000).map(|us| us * 1_000));
//! let statistics = Statistics::new(&distribution, &moments).expect("there are samples");
//!
//! let p99 = statistics.percentiles.iter().find(|one| one.p == 99.0).expect("it is one of them");
//! assert!(p99.supported && p99.value_ns.abs_diff(1_980_000) < 2_000);
//! assert!(!Share::P99_9.is_supported_by(2_000), "two samples above it are chance");
//! ```

// A library that programs are written against: each of its names has its sentence.
#![deny(missing_docs)]

pub mod statistics;
pub mod table;
pub mod units;
mod vocabulary;

pub use statistics::{Low, Percentile, Share, Statistics};
pub use table::Table;
pub use units::Letters;
