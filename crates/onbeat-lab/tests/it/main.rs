//! Tests of onbeat-lab, one module a subject. The runner gives each module a process of its own
//! (`tests/runner/run.py`).
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod board_tests;
mod guests;
mod joined_boards;
mod joined_traces;
mod killed_campaigns;
mod killed_traces;
mod lockstep;
mod own_guests;
mod planted_causes;
mod repeated_guests;
mod study;
mod test_lab;
mod tuned_guests;
