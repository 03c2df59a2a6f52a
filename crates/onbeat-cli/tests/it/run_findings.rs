//! A run records which tunings of its machine were not as wanted when it began.

use std::collections::BTreeSet;
use std::process::Command;

use onbeat::record::run_dir;
use serde_json::Value;

fn onbeat(words: &[&str], dir: &std::path::Path) -> Vec<u8> {
    let run = Command::new(env!("CARGO_BIN_EXE_onbeat"))
        .args(words)
        .current_dir(dir)
        .env("ONBEAT_STATE_DIR", dir.join("state"))
        .output()
        .unwrap();
    assert!(run.status.success(), "{words:?}: {}", String::from_utf8_lossy(&run.stderr));
    run.stdout
}

#[test]
fn the_findings_of_a_run_are_those_of_a_check_for_its_cpu_and_period() {
    let dir = tempfile::tempdir().unwrap();
    let cpu = onbeat::host::online_cpus()[0].to_string();
    onbeat(&["measure", "timer", "--cpu", &cpu, "--period", "2ms", "--for", "1s"], dir.path());
    let checked =
        onbeat(&["tune", "check", "--cpus", &cpu, "--period", "2ms", "--json"], dir.path());

    let checked: Value = serde_json::from_slice(&checked).unwrap();
    let is_bad = |finding: &&Value| finding["verdict"] == "bad";
    let findings = checked["findings"].as_array().unwrap().iter();
    let bad: BTreeSet<&str> =
        findings.filter(is_bad).map(|finding| finding["id"].as_str().unwrap()).collect();
    let runs = run_dir::read_cells(&dir.path().join("onbeat-runs/latest")).unwrap();
    let recorded = &runs[0].header.findings;
    let ids: BTreeSet<&str> = recorded.iter().map(|finding| finding.id.as_str()).collect();

    assert_eq!(ids, bad);
    assert!(recorded.iter().all(|one| !one.current.is_empty() && !one.takes.is_empty()));
}

#[test]
fn a_bench_records_them_once_in_its_own_file() {
    let dir = tempfile::tempdir().unwrap();
    onbeat(&["bench", "--tunings", "none", "--loads", "idle", "--for", "5s"], dir.path());
    let latest = dir.path().join("onbeat-runs/latest");
    let files = run_dir::run_files(&latest).unwrap();
    let with_findings: Vec<String> = files
        .iter()
        .filter(|file| std::fs::read_to_string(file).unwrap().contains("\"findings\":[{"))
        .map(|file| file.file_name().unwrap().to_string_lossy().into_owned())
        .collect();

    assert!(files.len() > 1);
    assert!(with_findings.iter().all(|name| name == run_dir::BENCH_FILE), "{with_findings:?}");
}
