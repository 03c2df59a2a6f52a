//! Faults of writers, disks and clocks: nothing is lost, and nothing is there twice.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use super::runs::{
    add, files, fleet, header, said, samples_by_run, some_runs, table_files, write_run,
};
use onbeat_fleet::parquet_file;
use onbeat_fleet::table::{RUNS, TABLES};

/// Writers that are killed, one after the other; each gets a little further.
const KILLS: u64 = 12;

#[test]
fn results_that_cannot_be_written_are_status_2() {
    let dir = tempfile::tempdir().unwrap();
    let runs = some_runs(dir.path(), 1);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = fleet().args(["add", "--dry-run"]).args(&runs).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}

#[test]
fn writers_that_are_killed_leave_whole_runs_or_none() {
    let dir = tempfile::tempdir().unwrap();
    let mut runs = some_runs(dir.path(), 60);
    let to = dir.path().join("fleet");
    for kill in 0..KILLS {
        // Two writers at once, in different orders.
        let mut backwards = fleet()
            .arg("add")
            .args(runs.iter().rev())
            .arg("--to")
            .arg(&to)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut writer = fleet()
            .arg("add")
            .args(&runs)
            .arg("--to")
            .arg(&to)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_millis(3 + 3 * kill));
        for one in [&mut writer, &mut backwards] {
            let _ = one.kill();
            let _ = one.wait();
        }
        assert!(samples_by_run(&to).values().all(|&samples| samples == 200), "after {kill} kills");
        runs.rotate_left(7);
    }
    assert_eq!(add(&runs, &to).status.code(), Some(0));
    assert_eq!(samples_by_run(&to).len(), runs.len());
    assert!(samples_by_run(&to).values().all(|&samples| samples == 200));
}

#[test]
fn writers_of_the_same_runs_at_once_leave_each_run_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut runs = some_runs(dir.path(), 30);
    let to = dir.path().join("fleet");
    let mut writers = Vec::new();
    for _ in 0..4 {
        let mut writer = fleet();
        writer.arg("add").args(&runs).arg("--to").arg(&to).stdout(Stdio::null());
        writers.push(writer.spawn().unwrap());
        runs.rotate_left(11);
    }
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    let samples: Vec<u64> = samples_by_run(&to).into_values().collect();
    assert_eq!(samples, [200; 30]);
    assert_eq!(table_files(&to, &RUNS).len(), runs.len());
}

#[test]
fn a_packer_that_is_killed_loses_no_run_and_doubles_none() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("fleet");
    add(&some_runs(dir.path(), 60), &to);
    let before = samples_by_run(&to);
    for kill in 0..KILLS {
        let mut packer = fleet().arg("pack").arg(&to).stdout(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(2 + 4 * kill));
        let _ = packer.kill();
        let _ = packer.wait();
        assert_eq!(samples_by_run(&to), before, "after {kill} kills");
    }
    assert!(fleet().arg("pack").arg(&to).status().unwrap().success());
    assert_eq!(samples_by_run(&to), before);
    let landed: Vec<_> = files(&to.join("landing"))
        .into_iter()
        .filter(|file| file.extension().is_some_and(|e| e == "parquet"))
        .collect();
    assert!(landed.is_empty(), "{landed:?}");
}

#[test]
fn runs_that_are_added_while_others_are_packed_stay() {
    let dir = tempfile::tempdir().unwrap();
    let runs = some_runs(dir.path(), 60);
    let to = dir.path().join("fleet");
    add(&runs[..20], &to);
    let mut writer = fleet()
        .arg("add")
        .args(&runs[20..])
        .arg("--to")
        .arg(&to)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while writer.try_wait().unwrap().is_none() {
        let packed = fleet().arg("pack").arg(&to).output().unwrap();
        assert!(packed.status.success(), "{}", said(&packed));
    }
    assert!(fleet().arg("pack").arg(&to).status().unwrap().success());
    assert_eq!(samples_by_run(&to).len(), 60);
    assert!(samples_by_run(&to).values().all(|&samples| samples == 200));
}

#[test]
fn two_packers_do_not_meet() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("fleet");
    add(&some_runs(dir.path(), 40), &to);
    let before = samples_by_run(&to);
    let mut all: Vec<_> = (0..4)
        .map(|_| fleet().arg("pack").arg(&to).stderr(Stdio::piped()).spawn().unwrap())
        .collect();
    for packer in all.drain(..) {
        let ended = packer.wait_with_output().unwrap();
        let message = said(&ended);
        assert!(
            ended.status.success() || message.contains("is being packed by another process"),
            "{message}"
        );
    }
    assert_eq!(samples_by_run(&to), before);
}

#[test]
fn a_half_file_of_a_run_that_was_not_finished_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let runs = some_runs(dir.path(), 1);
    let to = dir.path().join("fleet");
    add(&runs, &to);
    // As a file system without order leaves it after a power cut: the row of `runs` is missing, another file is short.
    let [row] = table_files(&to, &RUNS).try_into().unwrap();
    fs::remove_file(row).unwrap();
    let [cells] = table_files(&to, TABLES[0]).try_into().unwrap();
    let whole = fs::read(&cells).unwrap();
    fs::write(&cells, &whole[..whole.len() / 2]).unwrap();
    assert!(parquet_file::rows_of(&cells).is_err());
    assert!(samples_by_run(&to).is_empty());

    assert!(said(&add(&runs, &to)).starts_with("1 run: 1 new"));
    assert!(parquet_file::rows_of(&cells).is_ok());
    assert_eq!(samples_by_run(&to).into_values().collect::<Vec<_>>(), [200]);
}

#[test]
fn a_run_that_cannot_be_read_is_named_and_the_others_are_added() {
    let dir = tempfile::tempdir().unwrap();
    let mut runs = some_runs(dir.path(), 3);
    fs::write(&runs[1], "not a run\n").unwrap();
    runs.push(dir.path().join("missing"));
    let to = dir.path().join("fleet");
    let output = add(&runs, &to);
    let message = said(&output);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        message.contains("run-001.onbeat.hlog is not an onbeat run file")
            && message.contains("missing"),
        "{message}"
    );
    assert!(
        message.contains("4 runs: 2 new, 2 failed")
            && message.contains("2 of 4 runs were not added"),
        "{message}"
    );
    assert_eq!(samples_by_run(&to).len(), 2);
}

#[test]
fn a_store_that_is_not_there_is_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let runs = some_runs(dir.path(), 1);
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    for (to, expected) in [
        (dir.path().join("not/mounted"), "cannot create"),
        (file.join("fleet"), "Not a directory"),
        (file, "Not a directory"),
        (
            dir.path().to_owned(),
            "is not a data set of onbeat fleet: it has no onbeat-fleet.json, and other files",
        ),
    ] {
        let output = add(&runs, &to);
        let message = said(&output);
        assert_eq!((output.status.code(), message.lines().count()), (Some(2), 1), "{message}");
        assert!(
            message.starts_with("error: ") && message.contains(expected),
            "{expected}: {message}"
        );
    }
    let output = fleet().arg("pack").arg(dir.path().join("none")).output().unwrap();
    assert!(said(&output).contains("is not a data set of onbeat fleet"), "{}", said(&output));
}

#[test]
fn a_data_set_of_a_later_version_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("fleet");
    fs::create_dir(&to).unwrap();
    fs::write(to.join("onbeat-fleet.json"), "{\"tables\":2}").unwrap();
    let output = add(&some_runs(dir.path(), 1), &to);
    assert!(
        said(&output).contains("has tables of version 2, and this program knows version 1"),
        "{}",
        said(&output)
    );
    assert_eq!(files(&to).len(), 1);
}

#[test]
fn runs_of_a_clock_that_was_set_back_are_runs_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("fleet");
    // The same machine at the same instant three times: a clock without a battery begins there after each boot.
    let runs: Vec<_> = (0..3)
        .map(|n| {
            let run = dir.path().join(format!("{n}.onbeat.hlog"));
            write_run(&run, &header("a", 0.0), &[100 + n; 40]);
            run
        })
        .collect();
    assert!(said(&add(&runs, &to)).starts_with("3 runs: 3 new"));
    assert_eq!(samples_by_run(&to).into_values().collect::<Vec<_>>(), [40; 3]);
    assert!(fleet().arg("pack").arg(&to).status().unwrap().success());
    assert_eq!(samples_by_run(&to).into_values().collect::<Vec<_>>(), [40; 3]);
}

/// A file system of this size, in a mount namespace that ends with the command.
fn on_small_disk(kib: u32, dir: &Path, script: &str) -> Option<String> {
    let mount =
        format!("mount -t tmpfs -o size={kib}k none '{}' && {script}", dir.join("disk").display());
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "--map-root-user", "sh", "-c", &mount]);
    let output =
        shell.env("FLEET", env!("CARGO_BIN_EXE_onbeat-fleet")).current_dir(dir).output().ok()?;
    let message = said(&output);
    (!message.contains("unshare:") && !message.contains("mount:")).then_some(message)
}

#[test]
fn a_full_disk_fails_run_by_run_and_is_resumed_when_there_is_space() {
    let dir = tempfile::tempdir().unwrap();
    let runs = some_runs(dir.path(), 30);
    fs::create_dir(dir.path().join("disk")).unwrap();
    let script = "$FLEET add *.onbeat.hlog --to disk/fleet; echo status $?; ls -A disk/fleet/landing/*/* | grep -c '^.tmp' ;
        mount -o remount,size=40m disk && $FLEET add *.onbeat.hlog --to disk/fleet; echo status $?; cp -r disk/fleet copied";
    let Some(message) = on_small_disk(400, dir.path(), script) else {
        eprintln!("not tried: this user may not mount a file system in a namespace");
        return;
    };
    let lines: Vec<&str> = message.lines().collect();
    assert!(
        message.contains("No space left on device") && lines.contains(&"status 2"),
        "{message}"
    );
    assert!(lines.contains(&"0"), "a temporary file was left: {message}");
    assert!(lines.contains(&"status 0"), "{message}");
    let samples = samples_by_run(&dir.path().join("copied"));
    assert_eq!((samples.len(), samples.values().all(|&n| n == 200)), (runs.len(), true));
}
