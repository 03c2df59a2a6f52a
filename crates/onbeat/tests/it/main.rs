//! Tests of onbeat, one module a subject. The runner gives each module a process of its own
//! (`tests/runner/run.py`).
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod bench_cell_live;
mod bench_settings;
mod campaign_kills;
mod cause_ends;
mod cause_ftrace;
mod cause_held_back;
mod cause_live;
mod cause_watch;
mod cause_world;
mod control_loop_live;
mod hot_path_is_quiet;
mod import_damage;
mod import_memory;
mod import_posted;
mod import_real_tools_live;
mod import_world;
mod inject_live;
mod inject_stop;
mod inject_taken_back;
mod inject_waits;
mod load_carrier;
mod load_ends;
mod load_parts;
mod probe_blocks_live;
mod pure;
mod ratio_holds;
mod record_world;
mod report_any_file;
mod report_days;
mod report_world;
mod resume;
mod split_noise_live;
mod surroundings_live;
mod verdict_holds;
mod verdict_of_a_day;
mod verdict_world;

use assert_no_alloc::AllocDisabler;

/// Counts allocations where a test forbids them; elsewhere it is the system's.
#[global_allocator]
static ALLOCATOR: AllocDisabler = AllocDisabler;
