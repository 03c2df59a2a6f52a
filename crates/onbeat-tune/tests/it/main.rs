//! Tests of onbeat-tune, one module a subject. The runner gives each module a process of its own
//! (`tests/runner/run.py`).
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod capture;
mod catalogue;
mod check;
mod check_tree;
mod evidence;
mod explain;
mod lint;
mod lint_files;
mod live_machine;
mod memory;
mod persist;
mod tune_apply;
mod tune_apply_live;
mod tune_apply_shield;
mod tune_fake;
mod tune_journal;
mod tune_live;
mod tune_plan;
mod tune_rights;
mod tune_shield;
mod tunings_page;
