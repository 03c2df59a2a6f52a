//! The agent of a guest, on this machine: `onbeat agent` in the whole program is the same code.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use onbeat::load::Load;
use onbeat::record::RunFile;
use onbeat_lab::vm::{GuestPlan, PrintedRun};

fn agent(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_onbeat")).arg("agent").args(words).output().expect("onbeat")
}

fn plan(load: &str) -> GuestPlan {
    let (duration, period) = (Duration::from_millis(400), Duration::from_millis(2));
    GuestPlan::latency(duration, period, 0, load.parse::<Load>().expect("a load"))
}

fn refused(words: &[&str]) -> String {
    let output = agent(words);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

#[test]
fn a_plan_is_measured_under_its_load_and_summed_up() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("runs");
    let plan = plan("cpu=20%");
    let output = agent(&["measure", &out.display().to_string(), &plan.to_word()]);
    assert!(output.status.success(), "{output:?}");

    let run = RunFile::read(&out.join("latency.onbeat.hlog")).expect("a run file");
    assert_eq!(run.account().slots, plan.releases);
    assert_eq!(run.header.command, plan.command);
    assert_eq!(run.blocks[0].load, "cpu=20%");
    let printed: PrintedRun = serde_json::from_slice(&output.stdout).expect("a summary");
    let cell = &printed.cells[0];
    assert_eq!((cell.skipped, cell.load.as_str()), (Some(run.account().skipped), "cpu=20%"));
    let samples = cell.main().expect("figures").count;
    assert_eq!(samples, run.moments(run.header.series[0]).n);
}

#[test]
fn what_the_agent_cannot_do_is_one_sentence() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("runs").display().to_string();
    let other = GuestPlan { probe: "rtt".to_owned(), ..plan("idle") }.to_word();
    let mut endless = plan("idle");
    endless.setting.period_ns = 0;
    assert_eq!(
        refused(&["measure", &out, &other]),
        "onbeat: the agent has no probe rtt; the whole onbeat has it: name that by --onbeat"
    );
    assert!(refused(&["measure", &out, &endless.to_word()]).starts_with("onbeat: "));
    assert!(refused(&["measure", &out, "{}"]).starts_with("onbeat: the plan of a measurement"));
    assert!(!Path::new(&out).exists(), "what cannot run leaves nothing");
    let unknown = refused(&["answer", "--loudly"]);
    assert!(unknown.contains("does not know \"agent answer --loudly\""), "{unknown}");
    assert!(refused(&["answer", "--port", "none-such"]).contains("cannot use none-such"));
}

#[test]
fn a_file_in_place_of_the_directory_is_said() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("runs");
    fs::write(&out, "").expect("a file");
    let sentence = refused(&["measure", &out.display().to_string(), &plan("idle").to_word()]);
    assert!(sentence.contains("runs"), "{sentence}");
}
