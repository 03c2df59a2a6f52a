//! Apply, kill -9 and undo on the machine that runs the tests: no setting differs afterwards.
//!
//! `ONBEAT_APPLY_ROUNDS=50` repeats it more often than three times. Threads of programs are moved
//! only below this test.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use onbeat_tune::apply::{ApplyRequest, OnRefusal, OwnerRule, StepOutcome, apply, undo};
use onbeat_tune::catalogue::probes::{Probe, ProbeSpec};
use onbeat_tune::catalogue::survey::Survey;
use onbeat_tune::catalogue::{HostTree, LoopSetup, catalogue};
use onbeat_tune::plan::recipes::appliable;
use onbeat_tune::plan::{PlanRequest, plan};
use onbeat_tune::{HostFiles, LiveHost, Scope, UndoMode, tasks};

const CHILD: &str = "ONBEAT_APPLY_CHILD_JOURNAL";
const ROUNDS: &str = "ONBEAT_APPLY_ROUNDS";
/// Values below /proc/sys that the kernel itself changes.
const VOLATILE: [&str; 4] = ["ns_last_pid", "random", "pty", "sched_domain"];

/// Every value that a probe of the catalogue reads, interrupts, writable sysctls, cgroups, and the
/// kernel's threads.
fn state() -> BTreeMap<String, String> {
    let mut state = BTreeMap::new();
    let (tree, host) = (HostTree::live(), LiveHost::new());
    let setup = LoopSetup::on("1".parse().unwrap());
    let survey = Survey::new(&tree, &setup);
    for (record, spec) in catalogue()
        .records
        .iter()
        .flat_map(|record| record.probe.iter().map(move |spec| (record, spec)))
    {
        let probe: &dyn Probe = spec.probe();
        let is_setting = matches!(
            spec,
            ProbeSpec::File(_)
                | ProbeSpec::Sysctl(_)
                | ProbeSpec::EqualFiles(_)
                | ProbeSpec::IdleStates(_)
                | ProbeSpec::Msr(_)
                | ProbeSpec::DeviceValue(_)
                | ProbeSpec::Cgroup(_)
                | ProbeSpec::Parameter(_)
        );
        for reading in probe.read(&survey).into_iter().filter(|_| is_setting) {
            state
                .insert(format!("{} {}", record.id, reading.place), format!("{:?}", reading.value));
        }
    }

    for directory in ["/proc/sys/vm", "/proc/sys/kernel", "/proc/sys/net/core"] {
        add_files(Path::new(directory), &mut state);
    }
    for number in host.directories("/proc/irq").unwrap() {
        let path = format!("/proc/irq/{number}/smp_affinity_list");
        state.insert(path.clone(), host.read(&path).unwrap_or_default());
    }
    for mount in ["/sys/fs/cgroup", "/sys/fs/cgroup/cpuset"] {
        let mut groups = host.directories(mount).unwrap_or_default();
        groups.sort();
        state.insert(mount.to_owned(), groups.join(" "));
    }
    for task in tasks::all(&host)
        .unwrap()
        .into_values()
        .filter(|task| task.is_kernel() && !task.comm.starts_with("kworker"))
    {
        let Ok(cpus) = tasks::affinity(&host, task.id.tid) else { continue };
        let policy = host.scheduling(task.id.tid).unwrap_or_default();
        state.insert(format!("{:?}", task.id), format!("{}: {cpus}, {policy}", task.comm));
    }
    state
}

fn add_files(directory: &Path, state: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        let metadata = entry.metadata().unwrap();
        if VOLATILE.iter().any(|name| entry.file_name() == *name) {
            continue;
        } else if metadata.is_dir() {
            add_files(&path, state);
        } else if metadata.permissions().mode() & 0o200 != 0 {
            state.insert(path.display().to_string(), fs::read_to_string(&path).unwrap_or_default());
        }
    }
}

/// What the killed process does: applies everything that applies here, says so, and waits for its
/// end.
fn be_the_child(directory: &Path) {
    let mut request = PlanRequest::ids(appliable()).unwrap();
    // A loop that polls needs more.
    request.setup.polls = true;
    let plan = plan(&HostTree::live(), &request).unwrap();
    let scope = Scope::Under(std::process::id().cast_signed());
    let (on_refusal, owners) = (OnRefusal::LeaveOut, OwnerRule::Allow);
    let request = ApplyRequest { command: "test".to_owned(), on_refusal, scope, owners };
    let applied = apply(&LiveHost::new(), directory, &plan, &request).unwrap();

    let changed =
        applied.steps.iter().filter(|step| matches!(step.outcome, StepOutcome::Changed { .. }));
    let mut ids: Vec<_> = changed.map(|step| step.id.as_str()).collect();
    let settings = ids.len();
    ids.dedup();
    for step in &applied.steps {
        if let StepOutcome::Refused { why } = &step.outcome {
            eprintln!("refused {} {}: {why}", step.id, step.target);
        }
    }
    eprintln!("applied {settings} steps of {} ids: {}", ids.len(), ids.join(" "));
    std::thread::park();
}

fn lines_of_journals(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let journals = entries
        .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "journal"));
    journals.map(|entry| fs::read_to_string(entry.path()).unwrap_or_default().lines().count()).sum()
}

#[test]
fn after_apply_kill_and_undo_no_setting_of_this_machine_differs_live() {
    if let Some(directory) = std::env::var_os(CHILD) {
        return be_the_child(Path::new(&directory));
    }
    if !LiveHost::new().is_root() {
        return println!("skipped: only root can change this machine");
    }
    if LiveHost::new().read("/sys/devices/system/cpu/online").unwrap().trim() == "0" {
        return println!("skipped: this machine has one CPU");
    }

    let rounds: usize = std::env::var(ROUNDS).ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    for round in 0..rounds {
        let directory = tempfile::tempdir().unwrap();
        let before = state();
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args([
            "--exact",
            "after_apply_kill_and_undo_no_setting_of_this_machine_differs_live",
            "--nocapture",
        ]);
        child.env(CHILD, directory.path()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        if round % 2 == 0 {
            let lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
            let said: Vec<_> = lines.take_while_inclusive_applied().collect();
            println!("{}", said.join("\n"));
        } else {
            // In the middle of the apply, a little later in each round.
            while lines_of_journals(directory.path()) < 2 + 3 * round % 40
                && child.try_wait().unwrap().is_none()
            {
                std::thread::yield_now();
            }
        }

        child.kill().unwrap();
        child.wait().unwrap();
        let on_record = lines_of_journals(directory.path());
        let undone = undo(&LiveHost::new(), directory.path(), UndoMode::Careful).unwrap();
        assert!(undone.iter().all(onbeat_tune::Repaired::is_settled), "{undone:#?}");
        let after = state();
        // Threads of the kernel come and go.
        let differs: Vec<_> = before
            .iter()
            .filter(|(key, value)| {
                after.get(*key).map_or(!key.starts_with("TaskId"), |now| now != *value)
            })
            .map(|(key, value)| format!("{key}: {value} -> {:?}", after.get(key)))
            .collect();
        assert!(differs.is_empty(), "round {round}: {differs:#?}");
        println!(
            "round {round}: killed with {on_record} lines on record; {} values as before",
            before.len()
        );
    }
}

trait UpToApplied: Iterator<Item = String> + Sized {
    /// The lines up to the one that says that everything is applied, with it.
    fn take_while_inclusive_applied(mut self) -> impl Iterator<Item = String> {
        let mut is_over = false;
        std::iter::from_fn(move || {
            let line = if is_over { None } else { self.next() };
            is_over = line.as_ref().is_some_and(|line| line.starts_with("applied "));
            line
        })
    }
}

impl<I: Iterator<Item = String>> UpToApplied for I {}
