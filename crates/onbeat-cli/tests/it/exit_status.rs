//! One meaning of the exit status in every command that judges: 0 PASS, 1 FAIL, 2 could not run,
//! 3 INCONCLUSIVE.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

/// No machine serves most of its releases ten seconds late: PASS, from 641 of them on. A bench
/// whose preparation takes all of its time has four of the shortest blocks, 760 without warm-up.
const PASSES: &str = "--limit 10s --at 40";
/// None of them is served within a nanosecond: FAIL.
const FAILS: &str = "--limit 1ns --at 99";
/// A second of a kilohertz with none late shows nothing of one in ten thousand: INCONCLUSIVE.
const OPEN: &str = "--limit 10s --at 99.99";
/// A fraction where a percentage is asked for.
const REFUSED: &str = "--limit 10s --at 0.9999";

fn status(line: &str, directory: &Path) -> (Option<i32>, String) {
    // With one state, benches would wait for each other.
    let state = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_onbeat"))
        .args(line.split_whitespace())
        .env("ONBEAT_STATE_DIR", state.path())
        .env("ONBEAT_RUNTIME_DIR", directory)
        .env("LC_ALL", "C")
        .current_dir(directory)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), format!("{}\n{}", text(&output.stdout), text(&output.stderr)))
}

/// Asserts the status of a command with each limit, all at once.
fn judges(command: &str, directory: &Path) {
    let judged = |limit: &str, expected: i32| {
        let line = format!("{command} {limit}");
        let (code, said) = status(&line, directory);
        assert_eq!(code, Some(expected), "{line}: {said}");
        let word = ["PASS", "FAIL", "", "INCONCLUSIVE"][expected as usize];
        assert!(said.contains(word), "{line}: {said}");
    };
    // None depends on how late it is.
    std::thread::scope(|scope| {
        for (limit, expected) in [(PASSES, 0), (FAILS, 1), (REFUSED, 2), (OPEN, 3)] {
            scope.spawn(move || judged(limit, expected));
        }
    });
}

#[test]
fn measure_and_gate_and_report() {
    let directory = tempfile::tempdir().unwrap();
    judges("measure timer --no-causes --priority 0 --for 1s", directory.path());
    let (code, said) =
        status("measure timer --no-causes --priority 0 --for 1s --out runs", directory.path());
    assert_eq!(code, Some(0), "without a limit: {said}");
    judges("gate runs/latest", directory.path());
    judges("report runs/latest --brief", directory.path());
    judges("gate runs/latest --watch", directory.path());
    assert_eq!(status("gate nothing --limit 1ms", directory.path()).0, Some(2));
}

#[test]
fn measure_under_several_loads_and_in_a_sweep() {
    let directory = tempfile::tempdir().unwrap();
    let timer = "measure timer --no-causes --priority 0";
    judges(&format!("{timer} --loads idle,cpu=10% --for 3s"), directory.path());
    let sweep = format!("{timer} --load-sweep 0..20/20 --for 3s");
    for (allowed, expected) in [("10s", 0), ("1ns", 1), ("nothing", 2)] {
        let (code, said) = status(&format!("{sweep} --allowed-jitter {allowed}"), directory.path());
        assert_eq!(code, Some(expected), "{allowed}: {said}");
    }
    let (code, said) = status(&format!("{sweep} --allowed-jitter 10s {OPEN}"), directory.path());
    assert_eq!(code, Some(3), "the jitter is allowed, the limit open: {said}");
}

#[test]
fn bench() {
    let directory = tempfile::tempdir().unwrap();
    judges("bench --tunings none --loads idle --no-causes --for 5s --quiet", directory.path());
    let (code, said) =
        status("bench --tunings none --loads idle --no-causes --for 5s --quiet", directory.path());
    assert_eq!(code, Some(0), "without a limit: {said}");
}

/// A histogram of cyclictest around a latency.
fn histogram(path: &Path, around_us: usize, samples: u64) {
    let mut lines = String::new();
    for us in 0..100_usize {
        let share = match us.abs_diff(around_us) {
            0 => samples / 2,
            1 => samples / 4,
            _ => 0,
        };
        writeln!(lines, "{us:06} {share:06}").unwrap();
    }
    let total = samples / 2 + 2 * (samples / 4);
    let text = format!(
        "# Histogram\n{lines}# Total: {total:09}\n# Min Latencies: 00001\n# Avg Latencies: 00010\n\
         # Max Latencies: 00099\n# Histogram Overflows: 00000\n"
    );
    fs::write(path, text).unwrap();
}

#[test]
fn compare_and_gate_against_a_baseline() {
    let directory = tempfile::tempdir().unwrap();
    for (side, around_us) in [("before", 20), ("after", 40)] {
        for run in 1..=3_usize {
            let path = directory.path().join(format!("{side}{run}.txt"));
            histogram(&path, around_us + run, 40_000);
            let line = format!("import {side}{run}.txt --to {side}{run}");
            let (code, said) = status(&line, directory.path());
            assert_eq!(code, Some(0), "{said}");
        }
        let together = format!("import {side}1.txt {side}2.txt {side}3.txt --to {side}");
        assert_eq!(status(&together, directory.path()).0, Some(0));
    }
    histogram(&directory.path().join("few.txt"), 20, 8);
    assert_eq!(status("import few.txt --to few", directory.path()).0, Some(0));

    let sides = "before1 before2 before3 --against after1 after2 after3";
    let (code, said) = status(&format!("compare {sides}"), directory.path());
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("3 runs are taken together, each as a block"), "{said}");
    assert!(said.contains("before1 and 2 more"), "{said}");
    assert!(said.contains("120,000"), "all samples of a side: {said}");
    let (code, said) = status("compare before after", directory.path());
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("before: 3 runs are taken together") && said.contains("120,000"),
        "{said}"
    );
    let (code, said) = status("compare few before1", directory.path());
    assert_eq!(code, Some(3), "{said}");
    assert_eq!(status("compare before1 nothing", directory.path()).0, Some(2));

    let gate = |line: &str| {
        status(&format!("gate {line} --series wakeup_latency --at 50"), directory.path())
    };
    let after = "after1 after2 after3 --baseline before1 --baseline before2 --baseline before3";
    for (line, expected) in [
        (format!("{after} --no-worse-than 20"), 0),
        (format!("{after} --no-worse-than 1.01"), 1),
        ("after --baseline before --no-worse-than 1.01".to_owned(), 1),
        ("few --baseline before1".to_owned(), 3),
        ("after1 after2 --limit 1ms".to_owned(), 2),
        ("after1 --baseline nothing".to_owned(), 2),
    ] {
        let (code, said) = gate(&line);
        assert_eq!(code, Some(expected), "{line}: {said}");
    }
}

#[test]
fn tune_measure_and_vm_study_that_cannot_run() {
    let directory = tempfile::tempdir().unwrap();
    for line in [
        "tune measure no.such.tuning",
        "tune measure ./no-such-plan.toml",
        "vm study no-such-study.toml",
    ] {
        let (code, said) = status(line, directory.path());
        assert_eq!(code, Some(2), "{line}: {said}");
    }
}
