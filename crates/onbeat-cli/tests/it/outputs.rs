//! What a command has printed, as several tests read it.
#![allow(unreachable_pub)]

use std::process::{ExitStatus, Output};

use serde_json::Value;

/// Standard error, each line of words joined where it was wrapped.
pub fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Standard output, the same.
pub fn stdout_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a stop signal has cut a command off, which said so: on a machine that leaves it no time
/// to end in order, or whose disk takes longer for the closing lines. Its run files are readable.
pub fn was_cut_off(status: ExitStatus, said: &str) -> bool {
    status.code().is_none() && said.contains("ends without it, and what was recorded is kept")
}

/// The object of `--json`.
pub fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|why| panic!("{why}: {}", stderr_of(output)))
}
