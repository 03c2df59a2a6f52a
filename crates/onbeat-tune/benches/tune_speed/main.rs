//! Prints the time and the peak memory of a check, and the time of a plan and of apply and undo of
//! a full profile: on this machine and on the largest captured one.
//!
//! ```sh
//! cargo bench -p onbeat-tune --bench tune_speed    # as root
//! ```
//!
//! Each check runs in a process of its own, and its time is that of the whole process. Changes to
//! this machine are undone at once; threads of programs are moved only in a process with 500
//! threads, which is started for that. Without root this machine is not changed.
#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used)]

mod captured_host;

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use captured_host::CapturedHost;
use onbeat_tune::apply::{ApplyRequest, OnRefusal, OwnerRule, StepOutcome, apply, undo};
use onbeat_tune::catalogue::{HostTree, LoopSetup};
use onbeat_tune::plan::{Plan, PlanProfile, PlanRequest, plan};
use onbeat_tune::{HostFiles, LiveHost, Repaired, Scope, UndoMode};

type Outcome = Result<(), Box<dyn Error>>;

const ROUNDS: usize = 11;
const THREADS: usize = 500;
/// The profile with the most records.
const PROFILE: PlanProfile = PlanProfile::VmHost;
const STAGE: &str = "a process with 500 threads";

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    match arguments.next().as_deref() {
        Some("check") => check_once(arguments.next().as_deref().map(Path::new)),
        Some("stage") => be_the_stage(),
        _ => print_all(),
    }
}

fn print_all() -> Outcome {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines/server.tar.gz");
    let server = CapturedHost::unpack(&archive)?;
    println!("| what | machine | median | longest | peak memory | goal |");
    println!("|---|---|---|---|---|---|");
    print_check("this machine", None)?;
    print_check("server", Some(&archive))?;

    let setup = LoopSetup::default();
    print_plan("this machine", &HostTree::live(), &setup)?;
    print_plan("server", &HostTree::captured(server.root())?, &setup)?;

    let tree = HostTree::captured(server.root())?;
    let made = plan(&tree, &request(&setup))?;
    print_apply("server", &server, &made, Scope::Machine)?;
    if LiveHost::new().is_root() {
        print_apply_here()?;
    } else {
        println!("\napply and undo on this machine: skipped, only root can change it");
    }
    Ok(())
}

fn request(setup: &LoopSetup) -> PlanRequest {
    let setup = PROFILE.fit(setup);
    PlanRequest { setup, ..PlanRequest::profile(PROFILE) }
}

// ---- check

/// What the process of one check does.
fn check_once(archive: Option<&Path>) -> Outcome {
    let host = match archive {
        Some(archive) => HostTree::from_capture(std::fs::File::open(archive)?)?,
        None => HostTree::live(),
    };
    let findings = onbeat_tune::check(&host, &LoopSetup::on("1".parse()?));
    println!("{} findings", findings.len());

    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    println!("peak {}", peak.trim().trim_end_matches(" kB"));
    Ok(())
}

fn print_check(machine: &str, archive: Option<&Path>) -> Outcome {
    let mut times = Vec::new();
    let mut peak_kb: u32 = 0;
    for _ in 0..ROUNDS {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("check").args(archive.map(PathBuf::from));
        let began = Instant::now();
        let output = command.output()?;
        times.push(began.elapsed());

        let text = String::from_utf8(output.stdout)?;
        let peak = text.lines().find_map(|line| line.strip_prefix("peak ")).ok_or("no peak")?;
        peak_kb = peak_kb.max(peak.parse()?);
    }
    print_row(
        "check",
        machine,
        &times,
        &format!("{:.1} MB", f64::from(peak_kb) / 1000.0),
        "100 ms, 15 MB",
    );
    Ok(())
}

// ---- plan

fn print_plan(machine: &str, tree: &HostTree, setup: &LoopSetup) -> Outcome {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        plan(tree, &request(setup))?;
        times.push(began.elapsed());
    }
    print_row(&format!("plan of {PROFILE}"), machine, &times, "", "200 ms");
    Ok(())
}

// ---- apply and undo

/// What the process with many threads does: nothing, until its end.
fn be_the_stage() -> Outcome {
    for _ in 0..THREADS {
        thread::Builder::new().stack_size(64 << 10).spawn(thread::park)?;
    }
    println!("ready");
    thread::park();
    Ok(())
}

fn open_stage() -> Result<Child, Box<dyn Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    let mut stage = command.arg("stage").stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(stage.stdout.take().ok_or(STAGE)?).read_line(&mut line)?;
    Ok(stage)
}

fn print_apply_here() -> Outcome {
    let mut stage = open_stage()?;
    let pid = stage.id().cast_signed();
    for (task, machine) in [(None, "this machine"), (Some(pid), "this machine, with a loop")] {
        let made = plan(&HostTree::live(), &request(&LoopSetup { task, ..LoopSetup::default() }))?;
        print_apply(machine, &LiveHost::new(), &made, Scope::Under(pid))?;
    }
    stage.kill()?;
    stage.wait()?;
    Ok(())
}

fn print_apply(machine: &str, host: &dyn HostFiles, made: &Plan, scope: Scope) -> Outcome {
    let directory = tempfile::tempdir()?;
    let (mut applies, mut undos) = (Vec::new(), Vec::new());
    let (mut steps, mut settings) = (0, 0);
    for _ in 0..ROUNDS {
        let (on_refusal, owners) = (OnRefusal::LeaveOut, OwnerRule::Allow);
        let command = "tune_speed".to_owned();
        let request = ApplyRequest { command, on_refusal, scope, owners };
        let began = Instant::now();
        let applied = apply(host, directory.path(), made, &request)?;
        applies.push(began.elapsed());

        let changed = applied.steps.iter().filter_map(|step| match step.outcome {
            StepOutcome::Changed { settings, .. } => Some(settings),
            _ => None,
        });
        (steps, settings) = (changed.clone().count(), changed.sum());

        let began = Instant::now();
        let undone = undo(directory.path(), host, UndoMode::Careful)?;
        undos.push(began.elapsed());
        assert!(undone.iter().all(Repaired::is_settled), "{undone:#?}");
    }

    let what = format!("{steps} steps, {settings} settings");
    print_row(&format!("apply of {PROFILE}: {what}"), machine, &applies, "", "2 s");
    print_row("its undo", machine, &undos, "", "2 s");
    Ok(())
}

fn print_row(what: &str, machine: &str, times: &[Duration], memory: &str, goal: &str) {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    let (median, longest) = (ms(sorted[sorted.len() / 2]), ms(sorted[sorted.len() - 1]));
    println!("| {what} | {machine} | {median} | {longest} | {memory} | {goal} |");
}
