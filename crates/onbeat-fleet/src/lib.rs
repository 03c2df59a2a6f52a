//! Runs of many machines as one data set: Parquet files in folders, for engines that exist.
//!
//! A run becomes some rows in each of a few tables ([`table::TABLES`]); a data set is a directory of such files, partitioned by
//! the day on which a run started ([`store`]). There is no server: who can write into the directory adds runs, who can read it asks
//! questions, by SQL. `docs/fleet.md` describes tables, layout and questions.
//!
//! ```
//! use onbeat_fleet::rows::{Naming, RunRows};
//! use onbeat_fleet::store::{Added, DataSet};
//! use onbeat_record::{Header, RunWriter, Series};
//!
//! # let scratch = std::env::temp_dir().join(format!("onbeat-fleet-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(scratch.join("run"))?;
//! let file = scratch.join("run/timer.onbeat.hlog");
//! RunWriter::create(&file, &Header::new(&["onbeat".to_owned()], "timer", &[Series::ReleaseLatency], 1.8e9))?;
//!
//! let rows = RunRows::read(&scratch.join("run"), &Naming::default())?;
//! let fleet = DataSet::open_or_create(&scratch.join("fleet"))?;
//! assert_eq!(fleet.add(&rows)?, Added::New);
//! assert_eq!(fleet.add(&rows)?, Added::AlreadyThere);
//! # std::fs::remove_dir_all(&scratch)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Absent on purpose: questions, which are SQL files of the Python package `onbeat.fleet`, and a server, scheduler or store. With the
//! feature `s3` a data set may be in an object store ([`objects`]).

pub mod buckets;
pub mod objects;
pub mod pack;
pub mod parquet_file;
pub mod rows;
pub mod store;
pub mod table;

mod cell_rows;
mod percentile;
#[cfg(feature = "s3")]
mod s3;
