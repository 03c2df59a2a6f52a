//! Tests of onbeat-cli, one module a subject. The runner gives each module a process of its own
//! (`tests/runner/run.py`).
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod abused;
mod abused_inputs;
mod abused_stage;
mod agent_live;
mod bench_chain_live;
mod bench_cpus_live;
mod bench_live;
mod bench_resume_live;
mod bench_robot_live;
mod bus_alarms_live;
mod bus_exchanged_live;
mod bus_groups_live;
mod bus_live;
mod bus_one_live;
mod bus_queries;
mod bus_ring_live;
mod ci_summary;
mod commands_shown;
mod cpus_live;
#[path = "../../../../tests/clients/equipment.rs"]
mod equipment;
mod exit_status;
mod foreign_objects;
mod gate_watch_live;
mod guard_live;
mod help;
mod inject_rights;
mod killed_live;
mod late_cpu;
#[path = "../../../../tests/limits/limits.rs"]
mod limits;
mod loads_live;
mod long_live;
mod metrics_live;
mod net_boards_live;
mod net_elsewhere_live;
mod net_ends_live;
mod net_lab_live;
mod network_namespace;
mod no_btf_live;
mod output_is_not_lost;
mod outputs;
mod planted_runs;
#[path = "../../../onbeat/tests/it/report_world/mod.rs"]
mod report_world;
mod robot_esi;
mod robot_goal_live;
mod run_findings;
mod second_bench;
mod second_signal;
mod segment_check;
mod segment_live;
mod tables;
mod tune_live;
mod tune_machines;
mod tune_task_live;
mod view_live;
#[path = "../../../../tests/vm/commands.rs"]
mod vm_commands;
mod watch_beside_live;
mod watch_live;
mod watch_plants_live;
