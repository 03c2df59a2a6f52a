//! Apply, kill -9 and undo on the machine that runs the tests: no setting differs afterwards.
//!
//! `ONBEAT_APPLY_ROUNDS=50` repeats it more often than twice, each time with the kill at another
//! line of the journals. Threads of programs are moved only below this test; the loop, the virtual
//! machine and the interface that the plans are for are its own.
#![allow(clippy::print_stderr)]

use crate::live_machine;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use live_machine::plans::{self, LivePlans};
use live_machine::stage::{Actor, Stage, act};
use live_machine::state::Captured;
use onbeat_tune::apply::{ApplyRequest, OnRefusal, OwnerRule, StepOutcome, apply, status, undo};
use onbeat_tune::catalogue::LoopSetup;
use onbeat_tune::plan::Plan;
use onbeat_tune::{HostFiles, LiveHost, Repaired, Scope, TuneError, UndoMode};

const NAME: &str =
    "tune_apply_live::after_apply_kill_and_undo_no_setting_of_this_machine_differs_live";
/// What a process of this test is: `test`, `apply`, `loop` or `guest`. Without it: their starter.
const ROLE: &str = "ONBEAT_APPLY_ROLE";
/// The directory with the plans, in which the process that applies them puts its journals.
const DIRECTORY: &str = "ONBEAT_APPLY_DIRECTORY";
const ROUNDS: &str = "ONBEAT_APPLY_ROUNDS";
/// The file that says, in that directory, that all plans are applied.
const APPLIED: &str = "applied";
/// Mounts where some tunings are, for this process and its children alone.
const MOUNTS: &str = "mount -t debugfs none /sys/kernel/debug; \
                      mount -t tracefs none /sys/kernel/tracing; exec \"$@\"";

/// This program again, in another role.
fn role(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", NAME, "--nocapture", "--test-threads=1"]).env(ROLE, name);
    command.stdin(Stdio::null());
    command
}

fn is_allowed_to_mount() -> bool {
    let output = Command::new("unshare").args(["--mount", "true"]).output();
    output.is_ok_and(|output| output.status.success())
}

/// Runs the test in a mount namespace of its own, with debugfs and tracefs where the kernel has
/// them. Returns whether it succeeded.
fn with_mounts() -> bool {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", MOUNTS, "sh"]);
    let program = role("test");
    command.arg(program.get_program()).args(program.get_args()).env(ROLE, "test");
    command.stdin(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// What the killed process does: applies the plans one after the other, reports, and waits for its
/// end.
fn apply_everything(directory: &Path) {
    println!();
    let scope = Scope::Under(rustix::process::getppid().unwrap().as_raw_nonzero().get());
    let (on_refusal, owners) = (OnRefusal::LeaveOut, OwnerRule::Allow);
    let request = ApplyRequest { command: "test".to_owned(), on_refusal, scope, owners };
    for number in 0.. {
        let Ok(text) = fs::read_to_string(directory.join(format!("{number}.plan"))) else { break };
        let plan = Plan::from_text(&text).unwrap();
        let applied =
            apply(&LiveHost::new(), &directory.join("journals"), &plan, &request).unwrap();
        for step in applied.steps {
            match step.outcome {
                StepOutcome::Changed { .. } => println!("changed {}", step.id),
                StepOutcome::Refused { why } => {
                    println!("refused {} {}: {why}", step.id, step.target);
                }
                StepOutcome::Nothing | StepOutcome::Later => {}
            }
        }
    }

    fs::write(directory.join(APPLIED), "").unwrap();
    println!("all applied");
    thread::park();
}

/// The reason why this machine cannot be changed by a test.
fn reason_to_skip() -> Option<&'static str> {
    let host = LiveHost::new();
    if !host.is_root() {
        return Some("only root can change this machine");
    }
    let online = host.read("/sys/devices/system/cpu/online").unwrap_or_default();
    (online.trim() == "0").then_some("this machine has one CPU")
}

#[test]
fn after_apply_kill_and_undo_no_setting_of_this_machine_differs_live() {
    match std::env::var(ROLE).as_deref() {
        Ok("apply") => apply_everything(Path::new(&std::env::var_os(DIRECTORY).unwrap())),
        Ok("test") => all_rounds(),
        Ok(other) => act(other),
        Err(_) => match reason_to_skip() {
            Some(reason) => println!("skipped: {reason}"),
            None if is_allowed_to_mount() => assert!(with_mounts(), "the reason is above"),
            None => all_rounds(),
        },
    }
}

fn all_rounds() {
    let rounds = std::env::var(ROUNDS).ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let stage = Stage::open(role);
    let live = plans::of_everything(&[stage.setup(false), stage.setup(true)]);
    let setup = LoopSetup { cpus: live.plans[0].loop_cpus().unwrap(), ..stage.setup(true) };
    for (id, because) in &live.left_out {
        println!("left out {id}: {because}");
    }

    let mut lines = 0;
    let began = Captured::of_machine(&setup, own_pid());
    for round in 0..rounds {
        // The first round shows how many lines there are.
        let kill_at = if round == 0 { usize::MAX } else { dice(round) % (lines + 1) };
        let outcome = one_round(&live, &setup, kill_at);
        lines = lines.max(outcome.lines);
        let Outcome { lines: on_record, values, .. } = outcome;
        println!(
            "round {round}: killed with {on_record} lines on record; {values} values as before"
        );
        if round == 0 {
            println!("changed {} ids: {}", outcome.ids.len(), words(&outcome.ids));
        }
        assert!(outcome.differs.is_empty(), "round {round}: {:#?}", outcome.differs);
    }

    let differs = began.differences(&Captured::of_machine(&setup, own_pid()));
    drop(stage);
    assert!(differs.is_empty(), "after all rounds: {differs:#?}");
    println!("{rounds} of {rounds} rounds: {} values as before the first", began.settings.len());
    println!("not compared, because they change by themselves: {:?}", began.volatile);
}

/// What a round showed.
struct Outcome {
    lines: usize,
    values: usize,
    ids: BTreeSet<String>,
    differs: Vec<String>,
}

/// Applies the plans in another process, kills it when its journals have `kill_at` lines or when all
/// is applied, and undoes from this process. Threads come and go, so that the lines may be fewer
/// than in an earlier round.
fn one_round(live: &LivePlans, setup: &LoopSetup, kill_at: usize) -> Outcome {
    // A failure leaves it, because the journals in it are needed for the undo.
    let directory = tempfile::tempdir().unwrap().keep();
    let journals = directory.join("journals");
    for (number, plan) in live.plans.iter().enumerate() {
        fs::write(directory.join(format!("{number}.plan")), plan.to_text()).unwrap();
    }

    let before = Captured::of_machine(setup, own_pid());
    let mut command = role("apply");
    command.env(DIRECTORY, &directory).stdout(Stdio::piped());
    let mut child = Actor(command.spawn().unwrap());
    let ids = if kill_at == usize::MAX {
        changed_ids(&mut child.0)
    } else {
        let applied = directory.join(APPLIED);
        let is_over = |child: &mut Child| applied.exists() || child.try_wait().unwrap().is_some();
        while lines_of(&journals) < kill_at && !is_over(&mut child.0) {
            thread::yield_now();
        }
        BTreeSet::new()
    };
    let has_ended = child.0.try_wait().unwrap().is_some();
    drop(child);

    let lines = lines_of(&journals);
    let host = LiveHost::new();
    let undone = undo_after_kill(&host, &journals);
    let is_settled = undone.iter().all(Repaired::is_settled);
    assert!(is_settled, "the journals are in {}: {undone:#?}", journals.display());
    assert_eq!(status(&host, &journals).unwrap(), []);
    assert!(!has_ended, "the process that applies has ended before it was killed");
    fs::remove_dir_all(directory).unwrap();

    let differs = before.differences(&Captured::of_machine(setup, own_pid()));
    Outcome { lines, values: before.settings.len(), ids, differs }
}

/// Undoes what the killed process has left. A program that it was just starting shares its lock
/// until execve, which is awaited.
fn undo_after_kill(host: &LiveHost, journals: &Path) -> Vec<Repaired> {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        match undo(journals, host, UndoMode::Careful) {
            Err(TuneError::Busy(_)) if Instant::now() < until => {
                thread::sleep(Duration::from_millis(10));
            }
            undone => return undone.unwrap(),
        }
    }
}

/// The ids that the other process has changed, when it has applied all plans.
fn changed_ids(child: &mut Child) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
        if let Some(id) = line.strip_prefix("changed ") {
            ids.insert(id.to_owned());
        } else if line.starts_with("refused ") {
            println!("{line}");
        } else if line == "all applied" {
            break;
        }
    }
    ids
}

fn own_pid() -> i32 {
    std::process::id().cast_signed()
}

fn words(ids: &BTreeSet<String>) -> String {
    ids.iter().cloned().collect::<Vec<_>>().join(" ")
}

fn lines_of(directory: &Path) -> usize {
    let files = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let journals =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "journal"));
    journals.map(|path| fs::read_to_string(path).unwrap_or_default().lines().count()).sum()
}

/// A number for a round, the same in every run (Knuth's multiplicative hash).
fn dice(round: usize) -> usize {
    round.wrapping_mul(2_654_435_761) >> 7
}
