//! onbeat measures, explains and tunes real-time control on Linux.
//!
//! This is the cold library: it prepares a loop, hands it to the hot crate [`onbeat_rt`], records what comes out of it, and works out
//! what it means. It never prints, never exits and never reads the command line; the binary `onbeat` does.
//!
//! | room | what is in it |
//! |---|---|
//! | [`host`] | what this machine is: the fingerprint that stands beside every result |
//! | [`thread`] | priority, affinity, locked memory for a loop: wanted, granted, why not |
//! | [`probe`] | set-up of one measurement, and the loop's run from first to last sample |
//! | [`load`] | what else the machine is made to do meanwhile |
//! | [`inject`] | causes of lateness made on purpose, each with its own log |
//! | [`record`] | run files: their only writer and their only reader |
//! | [`import`] | files of other tools become run files |
//! | [`cause`] | why a cycle was late: flight recorder, classifier, export |
//! | [`mod@bench`] | tunings × loads, in turns |
//! | [`report`] | from run files to figures, verdicts, tables and the page |
//!
//! Changes to the host are `onbeat-tune`'s, the words of buses `onbeat-ethercat`'s; robots, with the probes of their buses, stand in
//! `onbeat-robot`.
//!
//! ```
//! use onbeat::load::Load;
//!
//! let load: Load = "cpu=50%+disk".parse()?;
//! assert_eq!(load.to_string(), "cpu=50%+disk");
//! # Ok::<(), onbeat::load::LoadError>(())
//! ```
//!
//! Data flows one way: loop → samples → histograms → run file → summary → table, page or JSON.

pub mod bench;
pub mod cause;
pub mod host;
pub mod import;
pub mod inject;
pub mod load;
pub mod probe;
pub mod record;
pub mod report;
pub mod thread;
