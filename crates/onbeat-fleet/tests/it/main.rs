//! The data set under faults: killed writers, half files, two writers, a full disk, a store that is not there, a clock set back.
#![allow(missing_docs, clippy::unwrap_used)]

mod added_once;
mod addresses;
mod faults;
mod night;
mod runs;
mod what_leaves_a_machine;
