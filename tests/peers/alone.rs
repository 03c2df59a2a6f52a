//! This program once more, as a process that does one thing, so that its memory is that thing's.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde::de::DeserializeOwned;

use crate::failure::Failure;

/// Starts this program with these words and returns the JSON line that it prints.
pub(crate) fn in_a_child<R: DeserializeOwned>(role: &str, words: &[&OsStr]) -> Result<R, Failure> {
    let myself =
        std::env::current_exe().map_err(Failure::system("find out where this program is"))?;
    let program = format!("{} {role}", myself.display());
    let mut child = Command::new(myself);
    child.arg(role).args(words).stderr(Stdio::inherit());
    // The allocator keeps what is freed, as in a run with locked memory. Otherwise what the
    // compressor gives back after each interval and takes again at the next one counts as growth.
    child.env("MALLOC_TRIM_THRESHOLD_", "-1").env("MALLOC_MMAP_MAX_", "0");
    let started = child.output();
    let ended = started.map_err(|source| Failure::Start { program: program.clone(), source })?;

    if !ended.status.success() {
        return Err(Failure::Ended { program, status: ended.status, said: "see above".to_owned() });
    }

    serde_json::from_slice(&ended.stdout).map_err(|why| Failure::Unreadable {
        path: PathBuf::from("standard output"),
        program: "the child",
        why: why.to_string(),
    })
}

/// Resident memory of this process in KiB. `smaps_rollup` counts pages one by one, where `VmRSS` of
/// kernels before 6.17 is off by what each CPU has not yet reported.
pub(crate) fn resident_kib() -> u64 {
    let counted =
        fs::read_to_string("/proc/self/smaps_rollup").ok().and_then(|text| field(&text, "Rss:"));
    counted.or_else(|| field(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")).unwrap_or(0)
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
