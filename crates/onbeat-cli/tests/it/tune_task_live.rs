//! `onbeat tune --task`: the settings of a program that runs, planned, made and undone.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use onbeat::cause::Tracefs;

use super::watch_live::{Running, copy_program, foreign_loop, text};

fn onbeat(dir: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_onbeat"))
        .args(words)
        .current_dir(dir)
        .env("ONBEAT_STATE_DIR", dir.join("state"))
        .env("COLUMNS", "200")
        .output()
        .unwrap()
}

/// The loop under a name of its own, since the tests of other modules start it too; ordinary, so
/// that there is something to change.
fn started(dir: &Path, name: &str) -> Option<Running> {
    if let Err(why) = Tracefs::open().and_then(|tracefs| tracefs.instances()) {
        println!("skipped: {why}");
        return None;
    }
    let Some(built) = foreign_loop() else {
        println!("skipped: there is no C compiler `cc`");
        return None;
    };
    let program = dir.join(name);
    copy_program(built, &program);
    let child = Command::new(program)
        .args(["absolute", "4000", "60000"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    Some(Running(child))
}

/// Field 41 of `/proc/PID/stat`: 0 for an ordinary thread, 1 for `SCHED_FIFO`.
fn policy(pid: &str) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, tail) = stat.rsplit_once(')').unwrap();
    tail.split_whitespace().nth(41 - 3).unwrap().to_owned()
}

#[test]
fn a_running_program_is_checked_planned_tuned_and_put_back_live() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let Some(running) = started(dir, "taskloop") else { return };
    let pid = running.pid();

    let output = onbeat(dir, &["tune", "check", "--task", "taskloop", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let check: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(check["period_us"], 4_000, "of the loop that was seen: {check}");
    let of = |id: &str| {
        let findings = check["findings"].as_array().unwrap();
        findings.iter().find(|one| one["id"] == id).cloned().unwrap()
    };
    assert_eq!(of("proc.policy")["verdict"], "bad");
    assert_eq!(of("proc.mlock")["verdict"], "bad");

    let planned =
        onbeat(dir, &["tune", "plan", "proc.policy", "--task", "taskloop", "--out", "plan.toml"]);
    assert_eq!(planned.status.code(), Some(0), "{}", text(&planned));
    assert!(text(&planned).contains("taskloop ["), "{}", text(&planned));
    assert_eq!(policy(&pid), "0", "a plan changes nothing");
    let plan = fs::read_to_string(dir.join("plan.toml")).unwrap();
    assert!(plan.contains(&format!("task = {pid}")) && plan.contains("task_start_ticks ="));

    let others = plan.replacen("task_start_ticks = ", "task_start_ticks = 1", 1);
    fs::write(dir.join("others.toml"), others).unwrap();
    let refused = onbeat(dir, &["tune", "apply", "others.toml", "--yes"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("is not the task of the plan"));
    assert_eq!(policy(&pid), "0");

    let applied = onbeat(dir, &["tune", "apply", "plan.toml", "--yes"]);
    assert_eq!(applied.status.code(), Some(0), "{}", text(&applied));
    assert_eq!(policy(&pid), "1", "{}", text(&applied));
    let undone = onbeat(dir, &["tune", "undo"]);
    assert_eq!(undone.status.code(), Some(0), "{}", text(&undone));
    assert_eq!(policy(&pid), "0", "{}", text(&undone));

    let again = onbeat(dir, &["tune", "apply", "plan.toml", "--yes"]);
    assert_eq!(again.status.code(), Some(0), "{}", text(&again));
    drop(running);
    let undone = onbeat(dir, &["tune", "undo"]);
    assert_eq!(undone.status.code(), Some(0), "what has ended is not put back: {}", text(&undone));
    let gone = onbeat(dir, &["tune", "apply", "plan.toml", "--yes"]);
    assert_eq!(gone.status.code(), Some(2), "{}", text(&gone));
    assert!(text(&gone).contains("does not exist"), "{}", text(&gone));
}

#[test]
fn a_run_that_watched_a_program_names_it_while_it_runs_live() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let Some(running) = started(dir, "watchedloop") else { return };
    let watched = onbeat(dir, &["watch", &running.pid(), "--for", "1s", "--no-causes"]);
    assert!(matches!(watched.status.code(), Some(0 | 1 | 3)), "{}", text(&watched));

    let of_run = ["tune", "check", "--task", "onbeat-runs/latest"];
    let output = onbeat(dir, &of_run);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let named = format!("watchedloop [{}]", running.pid());
    assert!(text(&output).contains(&named), "{}", text(&output));
    let output = onbeat(dir, &["tune", "check", "--run", "onbeat-runs/latest", "--json"]);
    assert!(text(&output).contains("watchedloop ("), "its own settings: {}", text(&output));

    drop(running);
    let output = onbeat(dir, &of_run);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("has ended"), "{}", text(&output));
    let output = onbeat(dir, &["tune", "check", "--run", "onbeat-runs/latest"]);
    assert_eq!(output.status.code(), Some(0), "the machine is checked: {}", text(&output));
    assert!(text(&output).contains("of the run has ended"), "{}", text(&output));
}

#[test]
fn a_task_that_is_none_is_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |words: &[&str], sentence: &str| {
        let output = onbeat(dir.path(), words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", text(&output));
        assert!(text(&output).contains(sentence), "{words:?}: {}", text(&output));
    };
    refused(&["tune", "check", "--task", "no-such-program-anywhere"], "no process is named");
    refused(&["tune", "check", "--task", "4194305"], "no process 4194305");
    refused(&["tune", "check", "--task", "0"], "0 is not the number of a thread");
    refused(&["tune", "check", "--task", "99999999999"], "is not the number of a thread");
    refused(&["tune", "check", "--task", ""], "a number, a name or a run is required");
    refused(&["tune", "check", "--task", "./no/such/run"], "no/such/run");
    std::fs::create_dir(dir.path().join("proc")).unwrap();
    refused(
        &["tune", "plan", "--from", ".", "--task", "robot"],
        "a capture has no names of programs",
    );
    assert!(!dir.path().join("onbeat-runs").exists());
}
