//! Questions about a fleet, asked as a user does: `onbeat-fleet` starts Python, which has DuckDB.
//!
//! Python's packages are installed below `target/` on the first run, which needs the network then. Where Python is missing, or it cannot be
//! equipped, every test here is counted as ignored, with the reason in its line.
#![allow(missing_docs, clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../../crates/onbeat-fleet/tests/it/runs.rs"]
mod runs;

mod examples;

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use libtest_mimic::{Arguments, Completion, Trial};
use onbeat_host::machine::Host;
use onbeat_record::{Cell, FindingNote, Header};
use serde_json::Value;

use runs::{add, extend_run, files, fleet, header, said, some_runs, table_files, write_run};

fn main() {
    let arguments = Arguments::from_args();
    let trials = vec![
        trial("questions::planted_truth_is_found", planted_truth_is_found),
        trial(
            "questions::a_fact_without_effect_is_named_in_at_most_two_of_a_hundred_fleets",
            placebos_are_not_named,
        ),
        trial(
            "questions::facts_on_the_same_machines_are_tied_and_others_are_told_apart",
            facts_on_the_same_machines_are_tied,
        ),
        trial(
            "questions::percentiles_of_a_fleet_are_those_of_all_samples_together",
            percentiles_are_exact,
        ),
        trial(
            "questions::a_reader_sees_each_run_once_while_others_pack",
            a_reader_sees_each_run_once,
        ),
        trial("questions::what_cannot_be_answered_is_one_sentence", bad_input_is_one_sentence),
        trial(
            "questions::a_damaged_file_is_named_and_its_runs_can_be_added_again",
            a_damaged_file_is_named,
        ),
        trial("questions::a_limit_decides_the_exit_status", a_limit_decides_the_exit_status),
        trial(
            "questions::runs_that_are_not_valid_are_counted_nowhere",
            invalid_runs_are_counted_nowhere,
        ),
        trial("questions::columns_are_those_of_the_program", columns_are_the_same),
        trial("questions::a_name_with_quotes_is_only_a_name", names_are_quoted),
        trial(
            "questions::settings_are_asked_as_facts_are_and_shown_on_one_line",
            settings_are_asked_as_facts_are,
        ),
        trial("questions::machines_that_are_all_alike_are_an_answer", equal_machines_are_asked),
        trial(
            "questions::reasons_are_given_where_no_run_is_valid",
            reasons_are_given_where_no_run_is_valid,
        ),
        trial("questions::runs_of_another_series_are_not_counted", series_are_not_added_up),
        trial("questions::real_runs_are_added_and_asked", real_runs_are_asked),
        trial(
            "examples::files_for_schedulers_are_valid_and_their_commands_exist",
            examples::are_valid,
        ),
        trial("examples::a_file_with_a_mistake_is_found", examples::mistakes_are_found),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}

fn trial(name: &str, body: fn(&Python) -> Result<(), String>) -> Trial {
    Trial::ignorable_test(name, move || match python() {
        Err(reason) => Ok(Completion::ignored_with(reason.clone())),
        Ok(python) => {
            Ok(body(python).map_or_else(Completion::ignored_with, |()| Completion::Completed))
        }
    })
}

fn planted_truth_is_found(python: &Python) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("fleet");
    // Two seeds are two fleets: what is found is not found by luck. In one of them the BIOS and its board are on the same machines.
    for (seed, swapped, beside_kernel) in
        [("2", "0", &["BIOS", "board"][..]), ("3", "40", &["BIOS"])]
    {
        let _ = std::fs::remove_dir_all(&data);
        let truth = python.planted(&["make", data.to_str().unwrap(), "400", "25", seed, swapped]);
        let found = python.planted(&["check", data.to_str().unwrap()]);
        assert_eq!(found["coincide"], swapped == "0");
        let groups: Vec<BTreeSet<&str>> =
            list(&found["groups"]).iter().map(|group| words(group)).collect();
        let expected = [BTreeSet::from(["kernel"]), beside_kernel.iter().copied().collect()];
        assert_eq!(groups, expected, "{found}");
        assert_eq!(found["worst_values"]["kernel"][0], "6.6.1-bad");
        assert!(
            (1.8..2.3).contains(&found["worst_values"]["kernel"][1].as_f64().unwrap()),
            "{found}"
        );

        let drifting: BTreeSet<&str> = keys(&truth["drifting"]);
        let alone = keys(&found["alone"]);
        assert!(drifting.is_subset(&alone), "missed {:?}", drifting.difference(&alone));
        assert!(alone.len() <= drifting.len() + 2, "{alone:?}");
        for host in &drifting {
            let nights = |of: &Value| of[*host].as_i64().unwrap();
            assert!((nights(&found["alone"]) - nights(&truth["drifting"])).abs() <= 1, "{host}");
        }
        // Updated one after the other: with their kernel, or not at all; one may be wrong in a hundred.
        let updated = words(&truth["updated"]);
        assert!(alone.intersection(&updated).count() <= 1, "{:?}", alone.intersection(&updated));
        let with: BTreeSet<&str> = keys(&found["with"]);
        assert!(
            with.difference(&updated).count() <= 2 && with.len() > updated.len() / 2,
            "{found}"
        );
    }
    Ok(())
}

fn placebos_are_not_named(python: &Python) -> Result<(), String> {
    let found = python.planted(&["draws", "100"]);
    assert!(found["placebo_named"].as_u64().unwrap() <= 2, "{found}");
    assert!(found["both_found"].as_u64().unwrap() >= 90, "{found}");
    Ok(())
}

fn facts_on_the_same_machines_are_tied(python: &Python) -> Result<(), String> {
    let found = python.planted(&["ties", "20"]);
    let of = |fleet: &str, named: &str| found[fleet][named].as_u64().unwrap();
    assert_eq!(of("same_machines", "tied"), 20, "{found}");
    // Another board has an effect of its own, so that the board is named, and the BIOS with it where it separates machines by itself.
    let fleet = "same_machines_and_other_boards_differ";
    assert!(of(fleet, "tied") > 0 && of(fleet, "BIOS") == 0, "{found}");
    // Two machines rarely tell; then it is the BIOS.
    assert!(of("but_2", "tied") > 0 && of("but_2", "board") <= 1, "{found}");
    assert!(of("but_40", "BIOS") >= 19 && of("but_40", "board") == 0, "{found}");
    Ok(())
}

fn percentiles_are_exact(python: &Python) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let mut of_machines = vec![Vec::new(); 4];
    let mut added = Vec::new();
    for run in 0..12 {
        let path = dir.path().join(format!("{run}.onbeat.hlog"));
        let samples: Vec<u64> =
            (0..3_000).map(|_| (5_000.0 * (4.0 * random.f64()).exp()) as u64).collect();
        let machine = run % of_machines.len();
        write_run(
            &path,
            &header(&format!("{machine:02}"), 1.79e9 + run as f64 * 20_000.0),
            &samples,
        );
        of_machines[machine].extend(samples);
        added.push(path);
    }
    let to = dir.path().join("fleet");
    assert!(add(&added[..8], &to).status.success());
    assert!(fleet().arg("pack").arg(&to).status().unwrap().success());
    assert!(add(&added[8..], &to).status.success());

    let found = python.json(&["percentiles", to.to_str().unwrap()]);
    assert_eq!(list(&found["rows"]).len(), 5);
    are_percentiles_of(&found["rows"][0], of_machines.concat());
    for (machine, samples) in of_machines.into_iter().enumerate() {
        are_percentiles_of(&found["rows"][machine + 1], samples);
    }
    Ok(())
}

/// Each within the bucket of the sample at its rank, a thousandth wide.
fn are_percentiles_of(row: &Value, mut samples: Vec<u64>) {
    samples.sort_unstable();
    assert_eq!(row["samples"].as_u64(), Some(samples.len() as u64));
    for (name, of, out_of) in [
        ("p50_ns", 1, 2),
        ("p99_ns", 99, 100),
        ("p999_ns", 999, 1_000),
        ("p9999_ns", 9_999, 10_000),
        ("max_ns", 1, 1),
    ] {
        let exact = samples[(samples.len() * of).div_ceil(out_of) - 1];
        let bucket = row[name].as_u64().unwrap();
        assert!(
            exact <= bucket && bucket <= exact + exact / 1_000,
            "{name} of {row}: {exact} and {bucket}"
        );
    }
}

fn a_reader_sees_each_run_once(python: &Python) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let runs = some_runs(dir.path(), 40);
    let to = dir.path().join("fleet");
    add(&runs, &to);
    // Each turn there is something to pack: a run grows, and is added again.
    let script = format!("
from onbeat.fleet import DataSet
for _ in range(40):
    fleet = DataSet({to:?})
    found = fleet.rows('SELECT COUNT(*), COUNT(DISTINCT run), (SELECT COUNT(DISTINCT run) FROM histograms) FROM runs')[0]
    cells = fleet.rows('SELECT COUNT(*) FROM cells')[0][0]
    assert found == (40, 40, 40) and cells == 40, (found, cells)
print('seen')
");
    let mut reader = python.command();
    let reading = reader
        .args(["-c", &script])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    for turn in 0..20 {
        assert!(fleet().arg("pack").arg(&to).status().unwrap().success());
        let run = &runs[turn % runs.len()];
        extend_run(run, 1.0, &[77; 10]);
        assert!(add(std::slice::from_ref(run), &to).status.success());
    }
    let output = reading.wait_with_output().unwrap();
    assert_eq!(said(&output).trim(), "seen");
    Ok(())
}

fn bad_input_is_one_sentence(python: &Python) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("fleet");
    add(&some_runs(dir.path(), 4), &to);
    let at = to.to_str().unwrap();
    let none = dir.path().join("none");
    for (question, expected) in [
        (vec!["worst", none.to_str().unwrap()], "is not a directory; onbeat fleet add RUN --to"),
        (vec!["worst", dir.path().to_str().unwrap()], "it has no onbeat-fleet.json"),
        (
            vec!["worst", at, "--cell", "PMCS/paper"],
            "no run has the cell PMCS/paper; the cells are none/idle",
        ),
        (
            vec!["worst", at, "--where", "kernel"],
            "'kernel' is not a valid condition; write FACT=VALUE",
        ),
        (
            vec!["worst", at, "--where", "colour=red"],
            "no run has the fact 'colour'; there are host, board, kernel",
        ),
        (
            vec!["worst", at, "--where", "kernel=9"],
            "no valid run fits kernel=9; 4 cells do without a condition",
        ),
        (
            vec!["worst", at, "--since", "yesterday"],
            "'yesterday' is not a valid day; write 2026-11-28",
        ),
        (
            vec!["gate", at, "--limit", "100"],
            "'100' is not a valid time; write a number with ns, us, ms or s",
        ),
        (vec!["gate", at, "--limit", "100us", "--at", "101"], "'101' is not a valid share"),
        (
            vec!["compare", at, "kernel=6.1.9-rt", "kernel=6.1.9"],
            "no run of the cell none/idle fits kernel=6.1.9; kernel is 6.1.9-rt",
        ),
        (vec!["explain", at], "4 machines are too few to separate by facts"),
        (vec!["causes", at, "--by", "weather"], "no run has the fact 'weather'"),
    ] {
        let output = python.ask(&question);
        assert_eq!(output.status.code(), Some(2), "{question:?}: {}", said(&output));
        let message = said(&output);
        assert!(
            message.contains(expected) && !message.contains("Traceback"),
            "{question:?}: {message}"
        );
    }

    Ok(())
}

fn a_damaged_file_is_named(python: &Python) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("fleet");
    let runs = some_runs(dir.path(), 4);
    for is_packed in [false, true] {
        add(&runs, &to);
        if is_packed {
            assert!(fleet().arg("pack").arg(&to).status().unwrap().success());
        }
        let damaged = table_files(&to, &onbeat_fleet::table::CELLS).remove(0);
        let whole = std::fs::read(&damaged).unwrap();
        std::fs::write(&damaged, &whole[..whole.len() - 7]).unwrap();
        let message = said(&python.ask(&["worst", to.to_str().unwrap()]));
        let named = format!("{} is not a whole Parquet file", damaged.display());
        assert!(message.contains(&named), "{message}");

        let advice = message.split("; move ").nth(1).unwrap();
        let pattern = advice.split(" away, and add its runs again").next().unwrap();
        let moved = Command::new("sh").args(["-c", &format!("rm {pattern}")]).status().unwrap();
        assert!(moved.success(), "{pattern}");
        add(&runs, &to);
        let found = python.json(&["worst", to.to_str().unwrap()]);
        assert_eq!(list(&found["rows"]).len(), 4, "{found}");
    }
    Ok(())
}

fn a_limit_decides_the_exit_status(python: &Python) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("fleet");
    // Releases up to 2 us late.
    add(&some_runs(dir.path(), 20), &to);
    let status = |options: &[&str]| {
        let question = [&["gate", to.to_str().unwrap()], options].concat();
        let output = python.ask(&question);
        (output.status.code(), said(&output))
    };
    let (code, text) = status(&["--limit", "3us"]);
    assert!(
        code == Some(0)
            && text.contains(
                "PASS: 20 of 20 machines hold the limit; of machines like these at least 86.1% do"
            )
            // 200 releases have a fifth of one beyond p99.9.
            && text.contains("on 20 machines fewer than 10 samples of a run are beyond its p99.9"),
        "{text}"
    );
    let (code, text) = status(&["--limit", "3us", "--at", "90"]);
    assert!(code == Some(0) && !text.contains("fewer than 10 samples"), "{text}");
    assert_eq!(status(&["--limit", "1us"]).0, Some(1));
    assert_eq!(status(&["--limit", "3us", "--share", "80"]).0, Some(0));
    assert_eq!(status(&["--limit", "3us", "--share", "99"]).0, Some(3));
    // Any share of releases is answered from buckets, and the same one equally.
    assert_eq!(status(&["--limit", "1us", "--at", "40.5"]).0, Some(0));
    let (code, text) = status(&["--limit", "1001ns", "--at", "60.5"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("within 1.001 µs") && text.contains("largest bucket"), "{text}");
    assert_eq!(status(&["--limit", "3us", "--exact"]).0, Some(0));

    // One release of a thousand beyond the limit is 99.9 % within, by both ways.
    let run = dir.path().join("thousand.onbeat.hlog");
    let mut lateness_ns = [500; 1_000];
    lateness_ns[0] = 5_000;
    write_run(&run, &header("a1", 1.79e9), &lateness_ns);
    let to = dir.path().join("thousand");
    add(&[run], &to);
    for way in [&["--exact"][..], &[]] {
        let question = [&["gate", to.to_str().unwrap(), "--limit", "3us"], way].concat();
        assert_eq!(python.ask(&question).status.code(), Some(0), "{way:?}");
    }
    Ok(())
}

fn invalid_runs_are_counted_nowhere(python: &Python) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let runs = some_runs(dir.path(), 3);
    let bad = dir.path().join("bad.onbeat.hlog");
    write_run(&bad, &header("bad", 1.79e9), &[900_000_000; 100]);
    let to = dir.path().join("fleet");
    add(&runs, &to);
    let marked = fleet()
        .args(["add", "--invalid", "the robot was in service mode"])
        .arg(&bad)
        .arg("--to")
        .arg(&to)
        .output()
        .unwrap();
    let why = "1 cell in no answer: the robot was in service mode";
    assert!(said(&marked).contains(why), "{}", said(&marked));
    let output = said(&python.ask(&["worst", to.to_str().unwrap()]));
    assert!(
        output.contains("not counted: 1 cell of 1 machine: the robot was in service mode"),
        "{output}"
    );
    assert!(!output.contains("900 ms"), "{output}");
    Ok(())
}

fn columns_are_the_same(_: &Python) -> Result<(), String> {
    let listed = root().join("python/src/onbeat/fleet/tables.json");
    let listed: Value = serde_json::from_str(&std::fs::read_to_string(listed).unwrap()).unwrap();
    assert_eq!(listed.as_object().unwrap().len(), onbeat_fleet::table::TABLES.len());
    for table in onbeat_fleet::table::TABLES {
        let columns: serde_json::Map<String, Value> = table
            .columns
            .iter()
            .map(|(name, holds)| ((*name).to_owned(), format!("{holds:?}").to_lowercase().into()))
            .collect();
        assert_eq!(listed[table.name], Value::from(columns), "{}", table.name);
    }
    Ok(())
}

fn names_are_quoted(python: &Python) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let runs = some_runs(dir.path(), 1);
    let to = dir.path().join("it's a fleet");
    let name = "o'brien'); DROP TABLE x; --";
    let added =
        fleet().args(["add", "--host", name]).args(&runs).arg("--to").arg(&to).output().unwrap();
    assert!(added.status.success(), "{}", said(&added));
    let found = python.json(&["worst", to.to_str().unwrap(), "--where", &format!("host={name}")]);
    assert_eq!(found["rows"][0]["host"], name);

    // Words of a query in a name are only a name.
    let load = "run:echo {where} {limit_ns}";
    let run = dir.path().join("places.onbeat.hlog");
    let of_load = Header { cell: Some(Cell::new("none", load)), ..header("b2", 1.79e9) };
    write_run(&run, &of_load, &[100; 10]);
    add(&[run], &to);
    let cell = format!("none/{load}");
    let found = python.json(&["worst", to.to_str().unwrap(), "--cell", &cell]);
    assert_eq!(found["rows"][0]["releases"].as_u64(), Some(10), "{found}");

    // A terminal has other letters.
    let mut ascii = fleet();
    ascii.args(["worst", to.to_str().unwrap()]).env("PYTHONIOENCODING", "ascii");
    let output = python.set(&mut ascii).output().unwrap();
    assert!(output.status.success() && said(&output).contains("p99.9"), "{}", said(&output));
    Ok(())
}

fn settings_are_asked_as_facts_are(python: &Python) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("fleet");
    let mut runs = Vec::new();
    for night in 0..12_u32 {
        let path = dir.path().join(format!("{night}.onbeat.hlog"));
        let is_slow = night >= 6;
        let kernel = if is_slow { "6.12.2-rt" } else { "6.1.9-rt" };
        let governor = FindingNote {
            id: "cpu.governor".to_owned(),
            title: "Governor".to_owned(),
            effect: 3,
            // A value is whatever a file of the machine holds.
            current: "power\u{1b}[2J\nsave".to_owned(),
            wanted: "performance".to_owned(),
            takes: "now".to_owned(),
            mends: Vec::new(),
        };
        let run = Header {
            host: Host::from_facts([("kernel", Some(kernel.to_owned()))]),
            findings: is_slow.then_some(governor).into_iter().collect(),
            ..header("a1", 1.79e9 + 86_400.0 * f64::from(night))
        };
        let lateness_ns: Vec<u64> =
            (1..=200).map(|n| (n * 10 + u64::from(night % 3)) << u32::from(is_slow)).collect();
        write_run(&path, &run, &lateness_ns);
        runs.push(path);
    }
    add(&runs, &to);
    let ask = |words: &[&str]| {
        let question = [&words[..1], &[to.to_str().unwrap()], &words[1..]].concat();
        said(&python.ask(&question))
    };

    let both = ["compare", "kernel=6.1.9-rt", "kernel=6.12.2-rt"];
    let text = ask(&both);
    assert!(text.contains("not alike in both groups: setting cpu.governor on 1"), "{text}");
    let text = ask(&["compare", "kernel=6.1.9-rt", "setting cpu.governor=as wanted"]);
    assert!(text.contains("6 runs in both groups"), "{text}");
    let text = ask(&[&both[..], &["--alike", "setting cpu.governor"]].concat());
    assert!(text.contains("undecided: 0 machines ran both"), "{text}");
    let text = ask(&["drift"]);
    assert!(text.contains("kernel, setting cpu.governor"), "{text}");
    for value in ["as wanted", "not as wanted", "power\u{1b}[2J\nsave"] {
        let condition = format!("setting cpu.governor={value}");
        let found = python.json(&["worst", to.to_str().unwrap(), "--where", &condition]);
        assert_eq!(found["rows"][0]["runs"].as_u64(), Some(6), "{value}: {found}");
    }
    let text = ask(&["explain", "--where", "setting cpu.governor=\u{1b}[2J"]);
    assert!(text.contains("fits setting cpu.governor=?[2J") && !text.contains('\u{1b}'), "{text}");

    // Of a machine whose clock was not set: before all others, it would be a change.
    let undated = dir.path().join("undated.onbeat.hlog");
    write_run(&undated, &header("a1", 20.0), &[9_000; 200]);
    add(&[undated], &to);
    let text = ask(&["drift"]);
    assert!(text.contains("6 of 12") && text.contains("1 run without a known start"), "{text}");
    Ok(())
}

fn equal_machines_are_asked(python: &Python) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("fleet");
    let run = |machine: u32| {
        let path = dir.path().join(format!("{machine}.onbeat.hlog"));
        let host = Host::from_facts([("kernel", Some(format!("6.{}", machine % 2)))]);
        let of_machine = Header { host, ..header(&format!("{machine:02}"), 1.79e9) };
        // As a source in whole microseconds has them.
        write_run(&path, &of_machine, &[7_000; 100]);
        path
    };
    let runs: Vec<PathBuf> = (0..8).map(run).collect();
    add(&runs, &to);
    let output = python.ask(&["explain", to.to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("no fact separates these machines"), "{}", said(&output));
    Ok(())
}

fn reasons_are_given_where_no_run_is_valid(python: &Python) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let (bad, to) = (dir.path().join("bad.onbeat.hlog"), dir.path().join("fleet"));
    write_run(&bad, &header("bad", 1.79e9), &[100; 100]);
    let added = fleet()
        .args(["add", "--invalid", "in service mode"])
        .arg(&bad)
        .arg("--to")
        .arg(&to)
        .output()
        .unwrap();
    assert!(added.status.success(), "{}", said(&added));
    let output = python.ask(&["worst", to.to_str().unwrap()]);
    let expected = "has no valid run; not counted: 1 of 1 cells: in service mode";
    assert!(said(&output).contains(expected), "{}", said(&output));
    Ok(())
}

fn series_are_not_added_up(python: &Python) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("fleet");
    add(&some_runs(dir.path(), 3), &to);
    // A sweep of write intervals, whose cell has the same name.
    add(&[root().join("tests/golden/runs/sweep")], &to);
    let ask = |options: &[&str]| {
        let question = ["worst", to.to_str().unwrap(), "--cell", "none/idle"];
        python.json(&[&question[..], options].concat())
    };
    let found = ask(&[]);
    assert_eq!(list(&found["rows"]).len(), 3, "{found}");
    let other = "not counted: 1 run of 1 machine with another series; --series write_interval";
    assert!(words(&found["sentences"]).contains(other), "{found}");
    let found = ask(&["--series", "write_interval"]);
    assert_eq!(list(&found["rows"]).len(), 1, "{found}");
    // 112 of 2,000 writes were never made, and none of the others was later than 8.5 ms.
    let gate = ["gate", to.to_str().unwrap(), "--series", "write_interval", "--limit", "9ms"];
    for (cell, status) in [("none/cpu=50%", 1), ("none/idle", 0)] {
        let output = python.ask(&[&gate[..], &["--at", "99", "--cell", cell]].concat());
        assert_eq!(output.status.code(), Some(status), "{cell}: {}", said(&output));
    }
    // The largest one is 559.941 us, as in the verdict of that run: its bucket ends later.
    let gate = ["gate", to.to_str().unwrap(), "--series", "write_interval", "--at", "100"];
    for (limit, status) in [("559941ns", 0), ("559940ns", 1)] {
        let output = python.ask(&[&gate[..], &["--limit", limit, "--cell", "none/idle"]].concat());
        assert_eq!(output.status.code(), Some(status), "{limit}: {}", said(&output));
    }
    // Its file is older than numbers of machines.
    let unknown = "1 run of an unknown machine, each taken for a machine of its own; \
                   onbeat fleet add --host NAME names it";
    assert!(words(&found["sentences"]).contains(unknown), "{found}");
    Ok(())
}

fn real_runs_are_asked(python: &Python) -> Result<(), String> {
    let onbeat = Path::new(env!("CARGO_BIN_EXE_onbeat-fleet")).with_file_name("onbeat");
    if !onbeat.is_file() {
        return Err(format!(
            "{} is not built; cargo build -p onbeat-cli builds it",
            onbeat.display()
        ));
    }
    let dir = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        let mut command = Command::new(&onbeat);
        command
            .current_dir(dir.path())
            .args(words)
            .env("ONBEAT_STATE_DIR", dir.path().join("state"));
        python.set(&mut command).output().unwrap()
    };
    for _ in 0..2 {
        let measured =
            run(&["measure", "timer", "--for", "500ms", "--priority", "0", "--no-causes"]);
        assert!(measured.status.success(), "{}", said(&measured));
        let added = run(&["fleet", "add", "onbeat-runs/latest", "--to", "fleet"]);
        assert!(said(&added).starts_with("1 run: 1 new"), "{}", said(&added));
    }
    let worst = run(&["fleet", "worst", "fleet", "--json"]);
    let found: Value = serde_json::from_slice(&worst.stdout)
        .unwrap_or_else(|why| panic!("{why}: {}", said(&worst)));
    assert_eq!((list(&found["rows"]).len(), found["rows"][0]["runs"].as_u64()), (1, Some(2)));
    assert!(found["rows"][0]["releases"].as_u64().unwrap() > 500, "{found}");
    assert_eq!(files(&dir.path().join("fleet/landing/runs")).len(), 2);
    Ok(())
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}"))
}

fn words(value: &Value) -> BTreeSet<&str> {
    list(value).iter().filter_map(Value::as_str).collect()
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

struct Python {
    program: PathBuf,
}

impl Python {
    fn set<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("ONBEAT_PYTHON", &self.program).env("PYTHONPATH", root().join("python/src"))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        self.set(&mut command);
        command
    }

    /// A question, as `onbeat fleet` asks it.
    fn ask(&self, words: &[&str]) -> Output {
        self.set(fleet().args(words)).output().unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        let output = self.ask(&[words, &["--json"]].concat());
        assert!(output.status.success(), "{}: {}", output.status, said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn planted(&self, words: &[&str]) -> Value {
        let output =
            self.command().arg(root().join("tests/fleet/planted.py")).args(words).output().unwrap();
        assert!(output.status.success(), "{}: {}", output.status, said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// Python with its packages, put in place once.
fn python() -> Result<&'static Python, &'static String> {
    static PYTHON: OnceLock<Result<Python, String>> = OnceLock::new();
    PYTHON.get_or_init(equip).as_ref()
}

fn equip() -> Result<Python, String> {
    equipped("fleet-venv", "requirements.txt", "import duckdb, numpy, lz4")
        .map(|program| Python { program })
}

/// An environment of Python below `target/` that can import what a list of packages brings.
fn equipped(place: &str, packages: &str, imports: &str) -> Result<PathBuf, String> {
    let place = root().canonicalize().unwrap().join("target").join(place);
    let program = place.join("bin/python");
    // Modules of these tests run at the same time: what one installs must not be replaced below the
    // other's programs. Unlocked at the end of this function.
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    let lock = File::create(place.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    let works = |program: &Path| {
        let imported = Command::new(program).args(["-c", imports]).output();
        imported.is_ok_and(|output| output.status.success())
    };
    if !works(&program) {
        let made = Command::new("python3").args(["-m", "venv"]).arg(&place).output();
        if !made.is_ok_and(|output| output.status.success()) {
            return Err("python3 with venv is not installed (package python3-venv)".to_owned());
        }
        let pip = Command::new(&program)
            .args(["-m", "pip", "install", "-q", "-r"])
            .arg(root().join("tests/fleet").join(packages))
            .output();
        if !pip.is_ok_and(|output| output.status.success()) || !works(&program) {
            return Err(format!(
                "the packages of tests/fleet/{packages} cannot be installed: no network, or none for this Python"
            ));
        }
    }
    Ok(program)
}
