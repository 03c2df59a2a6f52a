//! What is stored of a machine can be seen before, and reduced.

use super::runs::{add, files, fleet, said, some_runs};

#[test]
fn a_dry_run_prints_facts_and_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let runs = some_runs(dir.path(), 1);
    let shown = said(&fleet().args(["add", "--dry-run"]).args(&runs).output().unwrap());
    for expected in
        ["runs: run=", "facts: name=kernel  value=6.1.9-rt", "versions: name=onbeat", "1 cells: "]
    {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    assert_eq!(files(dir.path()), runs);
}

#[test]
fn what_all_loops_of_a_run_have_in_common_is_a_fact() {
    let bench =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/runs/bench");
    let shown = |without: &[&str]| {
        let mut command = fleet();
        command.args(["add", "--dry-run"]).args(without).arg(&bench);
        said(&command.output().unwrap())
    };
    let all = shown(&[]);
    for expected in ["name=probe  value=timer", "loop period  value=1ms", "loop priority  value=0"]
    {
        assert!(all.contains(expected), "{expected}: {all}");
    }
    // Two of its tunings spin.
    assert!(!all.contains("loop wait"), "{all}");
    assert!(!shown(&["--without", "loop period"]).contains("loop period"));
}

#[test]
fn facts_and_the_command_can_be_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let runs = some_runs(dir.path(), 1);
    let without = ["--without", "board", "--without", "command"];
    let shown =
        said(&fleet().args(["add", "--dry-run"]).args(without).args(&runs).output().unwrap());
    assert!(!shown.contains("A-100") && !shown.contains("measure"), "{shown}");
}

#[test]
fn a_misspelt_fact_is_refused_before_anything_is_added() {
    let dir = tempfile::tempdir().unwrap();
    let runs = some_runs(dir.path(), 1);
    let to = dir.path().join("fleet");
    let output = fleet()
        .args(["add", "--without", "bord"])
        .args(&runs)
        .arg("--to")
        .arg(&to)
        .output()
        .unwrap();
    assert!(
        said(&output).contains("'bord' is not a fact that could be left out"),
        "{}",
        said(&output)
    );
    assert!(
        !files(&to).iter().any(|file| file.extension().is_some_and(|ending| ending == "parquet"))
    );
}

#[test]
fn the_name_of_a_machine_is_stored_only_where_it_is_given() {
    let dir = tempfile::tempdir().unwrap();
    let runs = some_runs(dir.path(), 1);
    let name = rustix_name();
    let unnamed = said(&fleet().args(["add", "--dry-run"]).args(&runs).output().unwrap());
    assert!(
        unnamed.contains("host=000000000000") && !unnamed.contains(&format!("host={name}")),
        "{unnamed}"
    );
    let named = said(
        &fleet().args(["add", "--dry-run", "--host", "walker 7"]).args(&runs).output().unwrap(),
    );
    assert!(named.contains("host=walker 7"), "{named}");
    let to = dir.path().join("fleet");
    assert_eq!(add(&runs, &to).status.code(), Some(0));
    // Landed, and packed.
    for _ in 0..2 {
        let named =
            fleet().args(["add", "--host", "walker 7"]).args(&runs).arg("--to").arg(&to).output();
        let said = said(&named.unwrap());
        assert!(said.contains("is there as a run of 000000000000; --host does not"), "{said}");
        assert!(!self::said(&add(&runs, &to)).contains("is there as"));
        assert!(fleet().arg("pack").arg(&to).status().unwrap().success());
    }
}

fn rustix_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned()
}
