//! Defects planted in a loop that knows nothing of onbeat (tests/watch/planted_loop.c): each cause is
//! named first on its spike, each finding is the first of its program, and a sound loop has none.
//!
//! `ONBEAT_PLANTS=30` plants thirty of each and prints the table that docs/watch.md sums up (`make
//! watch-plants`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use onbeat::cause::{CauseKind, Explanation, Tracefs};
use onbeat::record::{RunFile, run_dir};

/// Plants of each kind in a short run.
const FEW: usize = 3;
/// Part of the plants that must be named.
const NAMED: f64 = 0.95;
/// Times that plants are planted in a short run, at most, until enough spikes of each are kept:
/// behind a stop of the machine of 0.1 s a loop that catches up has twenty cycles that are later
/// than any plant, and the ten worst of a second are kept.
const ROUNDS: u64 = 6;
/// Spikes of a kind in a short run, at least: one of them may fall into a stop of the machine.
const ENOUGH: usize = 2;

/// Why these tests cannot run here.
fn skipped() -> Option<String> {
    let traces = Tracefs::open().and_then(|tracefs| tracefs.instances());
    let has_types = std::fs::exists("/sys/kernel/btf/vmlinux").is_ok_and(|exists| exists);
    match traces {
        Err(why) => Some(why.to_string()),
        Ok(_) if !has_types => Some("no BTF in /sys/kernel/btf/vmlinux".to_owned()),
        Ok(_) if !cfg!(target_arch = "x86_64") => {
            Some("the arguments of system calls are read on x86-64 alone".to_owned())
        }
        Ok(_) => None,
    }
}

/// Plants of each kind, and whether that many were asked for.
fn plants() -> (usize, bool) {
    let asked = std::env::var("ONBEAT_PLANTS").ok().and_then(|number| number.parse().ok());
    (asked.unwrap_or(FEW), asked.is_some())
}

fn planted_loop(dir: &Path) -> Option<PathBuf> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/watch/planted_loop.c");
    let program = dir.join("planted_loop");
    let built =
        Command::new("cc").args(["-O2", "-o"]).arg(&program).arg(source).arg("-lpthread").status();
    built.is_ok_and(|status| status.success()).then_some(program)
}

fn onbeat(dir: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_onbeat"))
        .args(words)
        .current_dir(dir)
        .env("ONBEAT_STATE_DIR", dir.join("state"))
        .env("COLUMNS", "5000")
        .output()
        .unwrap()
}

/// What is expected of a plant: the kind of cause, the culprit's name or its beginning, and words of
/// the evidence.
fn expected(kind: &str) -> (CauseKind, &'static str, &'static str) {
    use CauseKind as K;
    match kind {
        "lock" => (K::LockWait, "lock-holder", "without priority inheritance"),
        "lock-pi" => (K::LockWait, "pi-holder", "FUTEX_LOCK_PI"),
        "inversion" => (K::PriorityInversion, "middle", "low-holder"),
        "data" => (K::DataWait, "planner", "not for a lock"),
        "fault-heap" => (K::PageFault, "heap", "page"),
        "fault-mapping" => (K::PageFault, "anonymous mapping", "page"),
        "pipe" => (K::OutputWait, "a pipe", "write"),
        "terminal" => (K::OutputWait, "the terminal /dev/pts/", "write"),
        "fsync" => (K::OutputWait, "", "planted_loop.out"),
        "munmap" => (K::MemoryCall, "munmap", ""),
        "mmap" => (K::MemoryCall, "mmap", ""),
        "madvise" => (K::MemoryCall, "madvise", ""),
        "fork" => (K::MemoryCall, "clone", ""),
        "migration" => (K::Migration, "", ""),
        "ask" => (K::OwnWait, "read", "server"),
        "overrun" => (K::OwnOverrun, "", ""),
        other => panic!("an unknown plant {other}"),
    }
}

/// The kinds of causes that only a program's own cycle has: a sound loop has none of them.
const OF_CYCLES: [CauseKind; 6] = [
    CauseKind::LockWait,
    CauseKind::PriorityInversion,
    CauseKind::DataWait,
    CauseKind::OutputWait,
    CauseKind::OwnWait,
    CauseKind::MemoryCall,
];

#[derive(Default)]
struct Named {
    planted: usize,
    /// Whose spike is in the run: it keeps the worst ones of an interval.
    kept: usize,
    kind: usize,
    culprit: usize,
    evidence: usize,
    /// What was said instead.
    instead: BTreeMap<String, usize>,
}

/// Looks up the spike of each plant that the program has printed, and adds what was named on it.
fn judge(named: &mut BTreeMap<String, Named>, printed: &str, run: &RunFile, has_lengths: bool) {
    for line in printed.lines() {
        let mut words = line.split(' ');
        let (Some(kind), Some(at), None) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let (Ok(at), true) = (at.parse::<f64>(), at.contains('.') && at.len() > 15) else {
            continue;
        };
        let (cause, culprit, evidence) = expected(kind);
        if cause == CauseKind::MemoryCall && !has_lengths {
            continue;
        }
        let of = named.entry(kind.to_owned()).or_default();
        of.planted += 1;
        let t = at - run.header.started_unix_s;
        let spike = run.spikes.iter().find(|spike| (spike.t - t).abs() < 0.0025);
        let Some(spike) = spike else {
            *of.instead.entry("no spike".to_owned()).or_default() += 1;
            continue;
        };
        of.kept += 1;
        let explanation = Explanation::from_causes(spike.causes.clone());
        let Some(main) = explanation.main() else { continue };
        if main.kind != cause {
            *of.instead.entry(main.words()).or_default() += 1;
            continue;
        }
        let name = main.culprit.as_ref().map_or("", |culprit| culprit.name.as_str());
        let by_name = name.starts_with(culprit);
        let by_evidence = main.evidence.contains(evidence);
        of.kind += 1;
        of.culprit += usize::from(by_name);
        of.evidence += usize::from(by_evidence);
        if !by_name || !by_evidence {
            *of.instead.entry(main.evidence.clone()).or_default() += 1;
        }
    }
}

/// Runs the loop with this seed beside onbeat, and adds what was named on its plants.
fn plant(named: &mut BTreeMap<String, Named>, program: &Path, each: usize, seed: u64) {
    let dir = tempfile::tempdir().unwrap();
    let (each, seed) = (each.to_string(), seed.to_string());
    let program = program.to_str().unwrap();
    let words = ["watch", "--for", "250s", "--spikes-over", "1ms", "--", program, "causes"];
    let output = onbeat(dir.path(), &[&words[..], &[each.as_str(), seed.as_str()]].concat());
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        matches!(output.status.code(), Some(0 | 1 | 3)),
        "{printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let run = run_dir::read_cells(&dir.path().join("onbeat-runs/latest")).unwrap().remove(0);
    // A kernel may refuse programs at its functions; the run says so.
    let has_lengths =
        !run.header.grants.iter().any(|grant| grant.wanted.contains("of calls that change memory"));
    if !has_lengths {
        println!("skipped: memory calls: this kernel does not let their lengths be recorded");
    }
    judge(named, &printed, &run, has_lengths);
}

#[test]
fn each_cause_inside_a_cycle_is_named_first_live() {
    if let Some(why) = skipped() {
        return println!("skipped: {why}");
    }
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = planted_loop(dir.path()) else {
        return println!("skipped: there is no C compiler `cc`");
    };
    let (each, is_long) = plants();
    let mut named = BTreeMap::new();
    let has_enough = |of: &Named| of.kept >= ENOUGH.min(of.planted);
    for seed in 7..7 + if is_long { 1 } else { ROUNDS } {
        plant(&mut named, &program, each, seed);
        if named.values().all(has_enough) {
            break;
        }
    }
    assert!(named.len() >= 12, "few plants: {:?}", named.keys());
    println!("| planted | times | kept | named first | with the culprit | with the evidence |");
    println!("|---|---|---|---|---|---|");
    for (kind, of) in &named {
        println!(
            "| {kind} | {} | {} | {} | {} | {} |",
            of.planted, of.kept, of.kind, of.culprit, of.evidence
        );
    }
    let all: usize = named.values().map(|of| of.planted).sum();
    let right: usize = named.values().map(|of| of.kind.min(of.culprit).min(of.evidence)).sum();
    let wrong: Vec<_> = named
        .iter()
        .filter(|(_, of)| !of.instead.is_empty())
        .map(|(kind, of)| (kind, &of.instead))
        .collect();
    println!("{right} of {all}; otherwise: {wrong:#?}");
    if is_long {
        for (kind, of) in &named {
            let least = (of.kept as f64 * NAMED).floor() as usize;
            assert!(of.kind >= least, "{kind}: {} of {}", of.kind, of.kept);
            assert!(of.kept * 4 >= of.planted, "{kind}: {} of {} kept", of.kept, of.planted);
        }
    } else {
        // A stop of the machine may be longer than a plant; of all that were kept it is seldom so.
        let kept: usize = named.values().map(|of| of.kept).sum();
        assert!(right as f64 >= kept as f64 * 0.8, "{right} of {kept} that were kept");
        assert!(named.values().all(has_enough), "{kept} of {all} were kept");
        for (kind, of) in &named {
            assert!(of.kind >= 1, "{kind}: none of {}", of.planted);
        }
    }
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A cgroup of version 1 whose budget for real-time threads is 0.
struct NoBudget(PathBuf);

impl NoBudget {
    fn create() -> Option<Self> {
        let mount = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];
        let mount = mount.iter().map(Path::new).find(|path| path.exists())?;
        let group = mount.join(format!("onbeat-plant-{}", std::process::id()));
        std::fs::create_dir(&group).ok()?;
        let group = Self(group);
        let budget = std::fs::read_to_string(group.0.join("cpu.rt_runtime_us")).ok()?;
        (budget.trim() == "0").then_some(group)
    }
}

impl Drop for NoBudget {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn has_interrupt_threads() -> bool {
    let tasks = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("comm")).ok());
    tasks.filter(|name| name.starts_with("irq/")).count() > 0
}

/// Defects of a program with the words that name them; the last is a sound program.
const FINDINGS: [(&str, &str); 14] = [
    ("drift", "drifts by"),
    ("realtime", "sleeps by CLOCK_REALTIME"),
    ("slack", "later than asked (timer slack)"),
    ("unlocked", "is not locked"),
    ("faults", "page faults"),
    ("inversion", "late by priority inversion"),
    ("prints", "prints or writes in its cycles"),
    ("shared", "shares its only CPU 0 with logger"),
    ("feeder", "is above the interrupt thread that wakes it, irq/99-card"),
    ("below", "has no higher priority than"),
    ("ordinary", "is an ordinary thread (OTHER)"),
    ("budget", "whose budget for real-time threads is 0"),
    ("rights", "its limit of real-time priorities (RLIMIT_RTPRIO) is 0"),
    ("sound", ""),
];

/// Defects that a short run leaves out: what names them is a setting, or has a test of its own.
const LONG_ONLY: [&str; 6] = ["realtime", "slack", "unlocked", "faults", "ordinary", "rights"];

/// Returns what is said first about a program with this defect; empty where nothing is.
fn first_finding(program: &Path, dir: &Path, defect: &str, group: Option<&NoBudget>) -> String {
    let child = Command::new(program).arg(defect).stdout(Stdio::null()).spawn().unwrap();
    let running = Running(child);
    let pid = running.0.id().to_string();
    if let Some(NoBudget(group)) = group.filter(|_| defect == "budget") {
        std::fs::write(group.join("cgroup.procs"), &pid).unwrap();
    }
    let output = onbeat(dir, &["watch", &pid, "--for", "1500ms", "--spikes-over", "1ms"]);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{defect}: {printed}{errors}");
    let of_program = printed.split_once("About the program\n").map_or("", |(_, after)| after);
    let said = of_program.lines().collect::<Vec<_>>().join(" ");
    // Neither wake-ups without an event nor settings are findings about the program.
    let said = match said.split_once("of a verdict.") {
        Some((_, after)) if said.starts_with("the latency of ") => after.trim_start(),
        _ => said.as_str(),
    };
    if said.starts_with("Not as recommended") { String::new() } else { said.to_owned() }
}

#[test]
fn each_defect_of_a_program_is_its_first_finding_live() {
    if let Some(why) = skipped() {
        return println!("skipped: {why}");
    }
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = planted_loop(dir.path()) else {
        return println!("skipped: there is no C compiler `cc`");
    };
    let (each, is_long) = plants();
    let each = if is_long { each } else { 1 };
    let group = NoBudget::create();
    println!("| planted | times | said first |");
    println!("|---|---|---|");
    let mut failed = Vec::new();
    for (defect, words) in
        FINDINGS.iter().filter(|(defect, _)| is_long || !LONG_ONLY.contains(defect))
    {
        if *defect == "budget" && group.is_none() {
            println!("skipped: budget: no cgroup of version 1 with budgets for real-time threads");
            continue;
        }
        if *defect == "below" && !has_interrupt_threads() {
            println!("skipped: below: this kernel has no interrupt threads");
            continue;
        }
        let mut said = 0;
        let mut instead = Vec::new();
        for _ in 0..each {
            let first = first_finding(&program, dir.path(), defect, group.as_ref());
            // The first finding is within the first sentence or two.
            let first: String = first.chars().take(200).collect();
            let is_right = if words.is_empty() { first.is_empty() } else { first.contains(*words) };
            said += usize::from(is_right);
            instead.extend((!is_right).then_some(first));
        }
        println!("| {defect} | {each} | {said} |");
        if (said as f64) < each as f64 * NAMED {
            failed.push((defect, instead));
        }
    }
    // One plant of a kind may fall into a stop of the machine.
    assert!(failed.len() <= usize::from(!is_long), "{failed:#?}");
}

#[test]
fn a_sound_loop_has_no_cause_of_its_own_live() {
    if let Some(why) = skipped() {
        return println!("skipped: {why}");
    }
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = planted_loop(dir.path()) else {
        return println!("skipped: there is no C compiler `cc`");
    };
    let child = Command::new(program).arg("sound").stdout(Stdio::null()).spawn().unwrap();
    let running = Running(child);
    let pid = running.0.id().to_string();
    let output = onbeat(dir.path(), &["watch", &pid, "--for", "3s"]);
    assert!(matches!(output.status.code(), Some(0 | 1 | 3)));
    let run = run_dir::read_cells(&dir.path().join("onbeat-runs/latest")).unwrap().remove(0);
    let causes = run.intervals.iter().flat_map(|interval| interval.causes.keys());
    let own: Vec<_> = causes.filter(|kind| OF_CYCLES.contains(kind)).collect();
    assert!(own.is_empty(), "{own:?}");
}

#[test]
fn each_of_two_threads_has_the_causes_of_its_own_spikes_live() {
    if let Some(why) = skipped() {
        return println!("skipped: {why}");
    }
    if onbeat_host::machine::online_cpus().len() < 2 {
        return println!("skipped: on one CPU the loops are late by each other");
    }
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = planted_loop(dir.path()) else {
        return println!("skipped: there is no C compiler `cc`");
    };
    let child = Command::new(program).arg("pair").stdout(Stdio::null()).spawn().unwrap();
    let running = Running(child);
    let pid = running.0.id().to_string();
    let threads =
        ["--thread", "servo", "--thread", "second", "--for", "3s", "--spikes-over", "1ms"];
    let output = onbeat(dir.path(), &[&["watch", pid.as_str()], threads.as_slice()].concat());
    assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{output:?}");

    let runs = std::fs::read_dir(dir.path().join("onbeat-runs")).unwrap();
    let runs = runs.map(|entry| entry.unwrap()).filter(|entry| entry.file_type().unwrap().is_dir());
    let runs: Vec<RunFile> =
        runs.map(|entry| run_dir::read_cells(&entry.path()).unwrap().remove(0)).collect();
    for (name, planted) in [("servo", CauseKind::OwnOverrun), ("second", CauseKind::LockWait)] {
        let is_its =
            |run: &&RunFile| run.header.task.as_ref().is_some_and(|task| task.name == name);
        let run = runs.iter().find(is_its).unwrap();
        let mut counted: BTreeMap<CauseKind, u64> = BTreeMap::new();
        for (kind, of) in run.intervals.iter().flat_map(|interval| &interval.causes) {
            *counted.entry(*kind).or_default() += of.spikes;
        }
        // Behind a stop of the machine, a loop that catches up has more late cycles than are
        // planted.
        let own = counted
            .iter()
            .filter(|(kind, _)| **kind == CauseKind::OwnOverrun || OF_CYCLES.contains(kind));
        let most = own.max_by_key(|(_, spikes)| **spikes).map(|(kind, _)| *kind);
        assert_eq!(most, Some(planted), "{name}: {counted:?}");
    }
}
