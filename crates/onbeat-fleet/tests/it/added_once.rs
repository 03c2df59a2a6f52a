//! A run is in the data set once, however often and from wherever it is added, packed or not.

use std::fs;
use std::path::Path;

use onbeat_fleet::rows::{Naming, RunRows};
use onbeat_record::{Header, Series};

use super::runs::{
    add, extend_run, files, fleet, header, said, samples_by_run, some_runs, write_run,
};

#[test]
fn a_run_that_is_added_again_is_there_already() {
    let dir = tempfile::tempdir().unwrap();
    let runs = some_runs(dir.path(), 3);
    let to = dir.path().join("fleet");
    assert!(said(&add(&runs, &to)).starts_with("3 runs: 3 new, in "));
    let before = files(&to);
    assert!(said(&add(&runs, &to)).starts_with("3 runs: 0 new, 3 there already, in "));
    assert_eq!(files(&to), before);
    assert_eq!(samples_by_run(&to).into_values().collect::<Vec<_>>(), [200; 3]);
}

#[test]
fn a_link_to_a_run_beside_it_is_not_a_second_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut runs = some_runs(dir.path(), 2);
    runs.push(dir.path().join("latest"));
    std::os::unix::fs::symlink(&runs[0], &runs[2]).unwrap();
    let said = said(&add(&runs, &dir.path().join("fleet")));
    assert!(said.starts_with("2 runs: 2 new, in "), "{said}");
}

#[test]
fn a_cell_of_a_bench_is_not_a_second_run() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/runs/bench");
    let to = dir.path().join("fleet");
    let mut runs = files(&bench);
    runs.push(bench);
    assert!(runs.len() > 2, "{runs:?}");
    let said = said(&add(&runs, &to));
    assert!(said.starts_with("1 run: 1 new, in "), "{said}");
}

#[test]
fn a_run_without_samples_of_its_subject_is_not_a_valid_measurement() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run.onbeat.hlog");
    let of_answers = Header { series: vec![Series::ResponseTime], ..header("a", 1.79e9) };
    write_run(&run, &of_answers, &[100; 50]);
    let rows = RunRows::read(&run, &Naming::default()).unwrap();
    assert_eq!((rows.cells, rows.invalid_cells.len()), (1, 1));
}

#[test]
fn the_worst_spike_of_a_cause_has_one_culprit() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run.onbeat.hlog");
    write_run(&run, &header("a", 1.79e9), &[100; 50]);
    let text = fs::read_to_string(&run).unwrap();
    let worst_of = |named_ns: u64| {
        let named = format!("\"apt\":{{\"spikes\":1,\"worst_ns\":{named_ns}}}");
        let caused = r#"{"interval":{"causes":{"kernel_section":{"spikes":3,"worst_ns":900,"#
            .to_owned()
            + r#""lateness_ns":1800,"accounted_ns":1800,"culprits":{"#
            + &named
            + "}}},";
        fs::write(&run, text.replacen("{\"interval\":{", &caused, 1)).unwrap();
        let rows = RunRows::read(&run, &Naming::default()).unwrap();
        let causes = rows.tables.iter().find(|table| table.shape().name == "causes").unwrap();
        causes.numbers("worst_ns").unwrap().to_vec()
    };
    assert_eq!(worst_of(500), [500, 900]);
    assert_eq!(worst_of(900), [900, 0], "that of the other two is not known");
}

#[test]
fn an_import_without_a_distribution_is_not_a_valid_measurement() {
    // cyclictest -q: T: 0 ( 23589) P:80 I:1000 C:   1980 Min:     16 Act:   26 Avg:   49 Max:    5305
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/min-mean-max.onbeat.hlog");
    let rows = RunRows::read(&run, &Naming::default()).unwrap();
    assert_eq!((rows.cells, rows.invalid_cells.len()), (1, 1));

    // 1,980 samples, of which these are beyond the range of a histogram.
    let text = fs::read_to_string(&run).unwrap();
    let text = text.replace(",\"figures_only\":[\"wakeup_latency\"]", "");
    let dir = tempfile::tempdir().unwrap();
    for (beyond, invalid) in [(1, 0), (2, 1)] {
        let copy = dir.path().join("copy.onbeat.hlog");
        fs::write(&copy, text.replace("\"count\":1980", &format!("\"count\":{beyond}"))).unwrap();
        let rows = RunRows::read(&copy, &Naming::default()).unwrap();
        assert_eq!((rows.cells, rows.invalid_cells.len()), (1, invalid), "{beyond} beyond");
    }
}

#[test]
fn a_copy_of_a_run_under_another_name_is_the_same_run() {
    let dir = tempfile::tempdir().unwrap();
    let mut runs = some_runs(dir.path(), 1);
    runs.push(dir.path().join("copy.onbeat.hlog"));
    fs::copy(&runs[0], &runs[1]).unwrap();
    let to = dir.path().join("fleet");
    add(&runs, &to);
    assert_eq!(samples_by_run(&to).len(), 1);
}

#[test]
fn a_run_that_was_resumed_replaces_what_it_was_before() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run.onbeat.hlog");
    write_run(&run, &header("a", 1.79e9), &[100; 50]);
    let to = dir.path().join("fleet");
    let short = fs::read(&run).unwrap();
    add(std::slice::from_ref(&run), &to);
    extend_run(&run, 1.0, &[100; 70]);
    assert!(said(&add(std::slice::from_ref(&run), &to)).contains("1 replaced"));
    assert_eq!(samples_by_run(&to).into_values().collect::<Vec<_>>(), [120]);

    // An older copy, from a backup, does not bring the short part back, before and after packing.
    fs::write(&run, &short).unwrap();
    assert!(said(&add(std::slice::from_ref(&run), &to)).contains("1 there already"));
    assert!(fleet().arg("pack").arg(&to).status().unwrap().success());
    assert!(said(&add(std::slice::from_ref(&run), &to)).contains("1 there already"));
    assert_eq!(samples_by_run(&to).into_values().collect::<Vec<_>>(), [120]);
}

#[test]
fn a_packed_run_that_was_resumed_is_replaced_in_the_next_pack() {
    let dir = tempfile::tempdir().unwrap();
    let mut runs = some_runs(dir.path(), 4);
    let to = dir.path().join("fleet");
    add(&runs, &to);
    assert!(fleet().arg("pack").arg(&to).status().unwrap().success());
    extend_run(&runs[1], 1.0, &[5; 30]);
    runs.truncate(2);
    assert!(said(&add(&runs, &to)).contains("2 runs: 0 new, 1 replaced, 1 there already"));
    let mut samples: Vec<u64> = samples_by_run(&to).into_values().collect();
    samples.sort_unstable();
    assert_eq!(samples, [200, 200, 200, 230]);
    assert!(fleet().arg("pack").arg(&to).status().unwrap().success());
    let mut samples: Vec<u64> = samples_by_run(&to).into_values().collect();
    samples.sort_unstable();
    assert_eq!(samples, [200, 200, 200, 230]);
    assert!(files(&to.join("landing")).is_empty());
}

#[test]
fn a_run_that_is_there_can_be_called_invalid_and_stays_so() {
    let dir = tempfile::tempdir().unwrap();
    let runs = some_runs(dir.path(), 1);
    let to = dir.path().join("fleet");
    add(&runs, &to);
    let marked = || {
        let mut command = fleet();
        command.args(["add", "--invalid", "its fan was broken"]).args(&runs).arg("--to").arg(&to);
        said(&command.output().unwrap())
    };
    let text = marked();
    assert!(
        text.contains("1 replaced") && text.contains("1 cell in no answer: its fan was broken"),
        "{text}"
    );
    assert!(marked().contains("1 there already"));
    assert!(said(&add(&runs, &to)).contains("1 there already"));
    assert_eq!(samples_by_run(&to).into_values().collect::<Vec<_>>(), [200]);
}

#[test]
fn packing_twice_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("fleet");
    add(&some_runs(dir.path(), 30), &to);
    let before = samples_by_run(&to);
    let pack = || said(&fleet().arg("pack").arg(&to).output().unwrap());
    // 30 hours are two days.
    assert!(pack().starts_with("packed 30 runs of 2 days; "), "{}", pack());
    assert_eq!(samples_by_run(&to), before);
    let packed = files(&to);
    assert_eq!(pack().trim(), "packed 0 runs of 0 days; 0 small files removed");
    assert_eq!(files(&to), packed);
}
