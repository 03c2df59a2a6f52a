//! Tests of onbeat-ethercat, one module a subject. The runner gives each module a process of its own
//! (`tests/runner/run.py`).
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod interface_frames;
mod layout_spec;
mod xdp_beside_others;
