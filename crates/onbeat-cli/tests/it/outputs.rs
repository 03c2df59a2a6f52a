//! What a command has printed, as several tests read it.
#![allow(unreachable_pub)]

use std::process::Output;

use serde_json::Value;

/// Standard error, each line of words joined where it was wrapped.
pub fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Standard output, the same.
pub fn stdout_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The object of `--json`.
pub fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|why| panic!("{why}: {}", stderr_of(output)))
}
