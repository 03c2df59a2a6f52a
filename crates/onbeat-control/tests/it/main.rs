//! Tests of onbeat-control, one module a subject. The runner gives each module a process of its own
//! (`tests/runner/run.py`).
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod control_abuse;
mod control_c;
mod control_deaths;
mod control_goals;
mod control_image;
mod control_owner;
mod control_records;
mod control_world;
mod ring_deaths;
mod ring_foreign;
