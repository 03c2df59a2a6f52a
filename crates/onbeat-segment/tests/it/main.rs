//! Tests of onbeat-segment, one module a subject. The runner gives each module a process of its own
//! (`tests/runner/run.py`).
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod sim_commands;
mod sim_determinism;
mod sim_devices;
mod sim_esi;
mod sim_esi_odd;
mod sim_ethercrab;
mod sim_faults;
mod sim_mailbox;
mod sim_registers;
mod sim_states;
mod sim_two_hundred;
mod sim_wire;
mod sim_world;

use assert_no_alloc::AllocDisabler;

/// Counts allocations where a test forbids them; elsewhere it is the system's.
#[global_allocator]
static ALLOCATOR: AllocDisabler = AllocDisabler;
