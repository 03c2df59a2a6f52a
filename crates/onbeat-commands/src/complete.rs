//! The values that completion offers: onbeat's own words, and the run directories nearby.
//!
//! Absent on purpose: word lists in the shells' scripts, which would not follow updates of the
//! binary; the scripts call onbeat itself (`completion.rs` of onbeat-cli).

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter};
use onbeat::host;
use onbeat::inject::Fault;
use onbeat::load::CATALOGUE;
use onbeat::record::run_dir::RUN_FILE_ENDING as RUN_FILE;
use onbeat::record::{Series, TUNING_LETTERS};
use onbeat_segment::FAULT_KINDS;
use onbeat_tune::catalogue::catalogue;

/// Depth of the search for runs below the current directory: `onbeat-runs/latest`.
const SEARCH_DEPTH: usize = 2;
/// Limit on the entries read of one directory.
const MOST_ENTRIES: usize = 1_000;

fn word(word: &str, help: &'static str) -> CompletionCandidate {
    let help = (!help.is_empty()).then(|| help.into());
    CompletionCandidate::new(word).help(help)
}

/// Candidates with their descriptions.
fn words(all: &[(&'static str, &'static str)]) -> Vec<CompletionCandidate> {
    all.iter().map(|(one, help)| word(one, help)).collect()
}

/// The part of a catalogue entry before its value: `cpu[=50%]` gives `cpu`, `run:COMMAND` gives
/// `run:`.
fn without_value(typed: &str) -> &str {
    let plain = typed.split('[').next().unwrap_or(typed);
    plain.find(':').map_or(plain, |colon| &plain[..=colon])
}

pub fn loads() -> Vec<CompletionCandidate> {
    CATALOGUE.iter().map(|entry| word(without_value(entry.typed), entry.does)).collect()
}

pub fn tunings() -> Vec<CompletionCandidate> {
    let letters = TUNING_LETTERS.iter().map(|(letter, words)| word(&letter.to_string(), words));
    let mut all = words(&[("none", "no tuning")]);
    all.extend(letters);
    all.extend(words(&[("MC", ""), ("PM", ""), ("PC", ""), ("PMC", ""), ("PMCS", "all four")]));
    all
}

/// Ids of the catalogue, and the other names of some.
pub fn tuning_ids() -> Vec<CompletionCandidate> {
    let all = catalogue();
    let records = all.records.iter().map(|record| word(&record.id, &record.title));
    records.chain(all.aliases.iter().map(|alias| word(&alias.id, &alias.reason))).collect()
}

/// Files, and ids of the catalogue.
pub fn plans_and_tuning_ids(typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed_text = typed.to_string_lossy();
    let mut all = tuning_ids();
    all.retain(|id| id.get_value().to_string_lossy().starts_with(typed_text.as_ref()));
    all.extend(PathCompleter::file().complete(typed));
    all
}

pub fn waits() -> Vec<CompletionCandidate> {
    words(&[
        ("sleep", "until the release"),
        ("spin", "sleep, then poll the clock for the last 50us"),
        ("spin=", "as spin, for this long"),
        ("adaptive", "as spin, with a margin that follows the machine"),
        ("adaptive=", "as adaptive, at most this long"),
        ("relative", "sleep for the period after each cycle"),
        ("relative-spin", "as relative, then poll the clock"),
    ])
}

pub fn waits_on_the_grid() -> Vec<CompletionCandidate> {
    let mut all = waits();
    all.retain(|wait| !wait.get_value().to_string_lossy().starts_with("relative"));
    all
}

pub fn overruns() -> Vec<CompletionCandidate> {
    words(&[
        ("skip", "skip the releases that passed, and count them"),
        ("catch-up=", "run at most this many at once"),
        ("stop", "end the run"),
    ])
}

pub fn phases() -> Vec<CompletionCandidate> {
    words(&[("avoid-tick", "away from the kernel's periodic tick")])
}

pub fn limits_on() -> Vec<CompletionCandidate> {
    words(&[
        ("main", "what the run is about"),
        ("release", "release latency"),
        ("period", "observed period"),
        ("response", "response time"),
        ("events=", "alarms of bus and robot"),
    ])
}

pub fn trajectories() -> Vec<CompletionCandidate> {
    words(&[
        ("hold", "stay in place"),
        ("sine", "a sine for each joint"),
        ("gait", "walk"),
        ("goal", "goals from standard input"),
        ("commander", "goals from other processes"),
        ("csv:", "a file of positions"),
    ])
}

/// Causes of `onbeat inject`.
pub fn causes() -> Vec<CompletionCandidate> {
    let words = Fault::ALL.iter().map(|fault| fault.word().replace('_', "-"));
    words.map(CompletionCandidate::new).collect()
}

/// Faults of a simulated segment.
pub fn segment_faults() -> Vec<CompletionCandidate> {
    FAULT_KINDS.iter().map(|(kind, of, _)| word(kind, of)).collect()
}

pub fn series() -> Vec<CompletionCandidate> {
    Series::ALL.iter().map(|series| word(series.tag(), series.words())).collect()
}

pub fn cpus() -> Vec<CompletionCandidate> {
    host::online_cpus().iter().map(|cpu| CompletionCandidate::new(cpu.to_string())).collect()
}

/// Network interfaces of this machine.
pub fn interfaces() -> Vec<CompletionCandidate> {
    let entries = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let mut names: Vec<CompletionCandidate> =
        entries.map(|entry| CompletionCandidate::new(entry.file_name())).collect();
    names.sort();
    names
}

pub fn wires() -> Vec<CompletionCandidate> {
    words(&[
        ("ring", "a packet socket and its receive ring"),
        ("xdp", "AF_XDP, past the network stack; else ring"),
        ("busy-poll", "AF_XDP that polls the card's queue; else xdp"),
    ])
}

/// Robot and segment files, and the built-in one.
pub fn robot_files(typed: &OsStr) -> Vec<CompletionCandidate> {
    let mut all = PathCompleter::file().complete(typed);
    if "humanoid".starts_with(typed.to_string_lossy().as_ref()) {
        all.insert(0, word("humanoid", "59 devices, ships with onbeat"));
    }
    all
}

/// Run directories nearby; without a match, files and directories.
pub fn runs(typed: &OsStr) -> Vec<CompletionCandidate> {
    let mut found = Vec::new();
    run_directories(Path::new(""), SEARCH_DEPTH, &mut found);
    found.retain(|path| path.starts_with(typed.to_string_lossy().as_ref()));
    // Runs are named after their start: the newest first, `latest` before all of them.
    found.sort_by(|a, b| b.cmp(a));
    if found.is_empty() {
        return PathCompleter::any().complete(typed);
    }
    found.iter().map(CompletionCandidate::new).collect()
}

/// Collects directories with run files, `directory` and `levels` below it.
fn run_directories(directory: &Path, levels: usize, found: &mut Vec<String>) {
    let path = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let entries: Vec<_> =
        fs::read_dir(path).into_iter().flatten().flatten().take(MOST_ENTRIES).collect();
    let holds_run =
        entries.iter().any(|entry| entry.file_name().to_string_lossy().ends_with(RUN_FILE));
    if holds_run && !directory.as_os_str().is_empty() {
        found.push(directory.to_string_lossy().into_owned());
        return;
    }

    for entry in entries.iter().filter(|_| levels > 0) {
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        if !is_hidden && entry.path().is_dir() {
            run_directories(&directory.join(entry.file_name()), levels - 1, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalogue_entry_is_completed_up_to_its_value() {
        assert_eq!(
            ["cpu[=50%]", "run:COMMAND", "idle"].map(without_value),
            ["cpu", "run:", "idle"]
        );
    }

    #[test]
    fn every_candidate_is_valid() {
        let waits: Vec<String> =
            waits().iter().map(|wait| wait.get_value().to_string_lossy().into_owned()).collect();
        for wait in waits.iter().filter(|wait| !wait.ends_with('=')) {
            assert!(crate::options::wait(wait).is_ok(), "{wait}");
        }

        for tuning in tunings() {
            let tuning = tuning.get_value().to_string_lossy().into_owned();
            assert!(tuning.parse::<onbeat::bench::CellTuning>().is_ok(), "{tuning}");
        }
    }
}
