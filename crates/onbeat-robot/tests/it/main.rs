//! Tests of onbeat-robot, one module a subject. The runner gives each module a process of its own
//! (`tests/runner/run.py`).
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod bus_allocations;
mod bus_bring_up;
mod bus_chain;
mod bus_clock_modes;
mod bus_eni;
mod bus_failures;
mod bus_faults;
mod bus_interface;
mod bus_link_errors;
mod bus_places;
mod bus_rate_limits;
mod bus_requests;
mod bus_ring;
mod bus_scan;
mod bus_setup;
mod bus_spec;
mod bus_tampering_search;
mod bus_world;
mod camera_probe;
mod commission;
mod live_view;
mod live_view_abused;
mod probe_options;
mod probe_spec;
mod robot_bus;
mod robot_goals;
mod robot_ladder;
mod robot_limits;
mod robot_moves;
mod robot_resume;
mod robot_session;
mod robot_view;
mod robot_world;
mod view_world;

use assert_no_alloc::AllocDisabler;

/// Counts allocations where a test forbids them; elsewhere it is the system's.
#[global_allocator]
static ALLOCATOR: AllocDisabler = AllocDisabler;
