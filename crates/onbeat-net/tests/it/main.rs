//! Tests of onbeat-net, one module a subject. The runner gives each module a process of its own
//! (`tests/runner/run.py`).
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod net_boards;
mod net_device_live;
mod net_log;
mod net_packet;
mod net_packet_elsewhere;
mod net_plan;
mod net_rtt_faults;
