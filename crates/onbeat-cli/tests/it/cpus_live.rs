//! A loop on each of several CPUs at once: every release of every CPU accounted for, each thread on
//! its CPU, one verdict on the worst; and cyclictest's words for it.

use crate::outputs::{json_of, stderr_of};

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use onbeat::host::online_cpus;
use onbeat::record::{EndReason, Interval, PARTS_OF_WAKE_UP, RunFile, RunOrder};
use onbeat_host::thread::may_run_on;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn onbeat(out: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command.env("ONBEAT_STATE_DIR", out.join("state")).args(words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Measures with the words given, into `runs` below `out`.
fn measure(out: &Path, words: &[&str]) -> Command {
    let mut command = onbeat(out, &["measure"]);
    command.args(words).arg("--out").arg(out.join("runs"));
    command
}

fn latest(out: &Path) -> PathBuf {
    out.join("runs/latest")
}

/// The run files of the CPUs, by the name of their cell.
fn runs(dir: &Path) -> BTreeMap<String, RunFile> {
    let files = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let runs = files.filter(|path| {
        path.to_string_lossy().ends_with(".onbeat.hlog") && !path.ends_with("bench.onbeat.hlog")
    });
    runs.filter_map(|path| {
        let run = RunFile::read(&path).ok()?;
        Some((run.header.cell.clone()?.tuning, run))
    })
    .collect()
}

/// The CPUs that a loop of this test may use.
fn usable() -> Vec<u32> {
    online_cpus().into_iter().filter(|cpu| may_run_on(*cpu)).collect()
}

fn names(cpus: &[u32]) -> BTreeSet<String> {
    cpus.iter().map(|cpu| format!("CPU {cpu}")).collect()
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..1_200 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("never {what}");
}

/// Of each loop's thread of a process: the CPUs that it may run on, and the one that it ran on last.
fn loops_of(process: &Child) -> Vec<(String, String)> {
    let tasks =
        fs::read_dir(format!("/proc/{}/task", process.id())).into_iter().flatten().flatten();
    let of_loop = |task: &PathBuf| {
        fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "onbeat-loop")
    };
    tasks
        .map(|entry| entry.path())
        .filter(of_loop)
        .filter_map(|task| {
            let status = fs::read_to_string(task.join("status")).ok()?;
            let allowed =
                status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
            let stat = fs::read_to_string(task.join("stat")).ok()?;
            // proc_pid_stat(5): field 39 is the CPU; the name in parentheses is field 2.
            let ran_on = stat.rsplit_once(')')?.1.split_whitespace().nth(36)?.to_owned();
            Some((allowed.trim().to_owned(), ran_on))
        })
        .collect()
}

#[test]
fn every_release_of_every_cpu_is_accounted_for_and_the_worst_is_named() {
    let out = tempfile::tempdir().unwrap();
    let ran =
        measure(out.path(), &["timer", "--cpus", "all", "--for", "1s", "--json"]).output().unwrap();
    let summary = json_of(&ran);
    let cpus = usable();

    let runs = runs(&latest(out.path()));
    assert_eq!(runs.keys().cloned().collect::<BTreeSet<_>>(), names(&cpus));
    for (name, run) in &runs {
        let end = run.end.as_ref().expect(name);
        assert_eq!((end.slots, end.reason), (1_000, EndReason::Complete), "{name}");
        assert_eq!(end.cycles + end.skipped + end.lost, end.slots, "{name}");
        let bound = run.header.grants.iter().find(|grant| grant.wanted == name.as_str());
        assert!(bound.is_none_or(|grant| grant.granted), "{name}: {bound:?}");
        let power = run.power.as_ref().expect(name);
        assert_eq!(format!("CPU {}", power.cpus), *name);
    }

    let cells = summary["cells"].as_array().unwrap();
    let of_cells: BTreeSet<String> =
        cells.iter().map(|cell| cell["tuning"].as_str().unwrap().to_owned()).collect();
    assert_eq!(of_cells, names(&cpus));
    assert_eq!(summary["order"], "at_once");
    assert_eq!(summary["verdict"]["best"], Value::Null, "no CPU is chosen");
    let worst = summary["verdict"]["worst"]["tuning"].as_str().unwrap().to_owned();
    assert!(names(&cpus).contains(&worst));
    assert!(summary["verdict"]["sentence"].as_str().unwrap().contains(&worst), "{summary}");
    assert_eq!(summary["focus"]["tunings"][0], *worst);

    let bench = RunFile::read(&latest(out.path()).join("bench.onbeat.hlog")).unwrap();
    let note = bench.bench.unwrap();
    assert_eq!((note.order, note.tunings.len()), (RunOrder::AtOnce, cpus.len()));
}

#[test]
fn each_loop_runs_on_its_cpu_and_ends_in_order_when_it_is_asked_to() {
    let out = tempfile::tempdir().unwrap();
    let cpus = usable();
    let run =
        measure(out.path(), &["hiccup", "--cpus", "all", "--for", "5m", "--json"]).spawn().unwrap();
    // A loop's thread begins where its recorder may run, which of two CPUs is the other loop's.
    let each_on_its_own: BTreeSet<(String, String)> =
        cpus.iter().map(|cpu| (cpu.to_string(), cpu.to_string())).collect();
    wait_until("each loop on its CPU", || {
        let loops = loops_of(&run);
        loops.len() == cpus.len() && BTreeSet::from_iter(loops) == each_on_its_own
    });

    let dir = latest(out.path());
    wait_until("an interval of each", || {
        runs(&dir).values().filter(|run| !run.intervals.is_empty()).count() == cpus.len()
    });
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    let ended = run.wait_with_output().unwrap();
    let said = stderr_of(&ended);
    assert_ne!(ended.status.code(), Some(2), "{said}");
    for (name, run) in runs(&dir) {
        let Some(end) = run.end else {
            // A machine that leaves it no time; what it has recorded was read above.
            assert!(said.contains("ends without it"), "{name}: {said}");
            continue;
        };
        assert_eq!(end.reason, EndReason::Asked, "{name}");
        assert_eq!(end.cycles + end.skipped + end.lost, end.slots, "{name}");
    }
}

#[test]
fn what_was_recorded_before_a_kill_is_reported_cpu_by_cpu() {
    let out = tempfile::tempdir().unwrap();
    let cpus = usable();
    let mut run = measure(out.path(), &["timer", "--cpus", "all", "--for", "5m"]).spawn().unwrap();
    let dir = latest(out.path());
    wait_until("an interval of each", || {
        runs(&dir).values().filter(|run| !run.intervals.is_empty()).count() == cpus.len()
    });
    run.kill().unwrap();
    run.wait().unwrap();

    let told = onbeat(out.path(), &["report", "--json"]).arg(&dir).output().unwrap();
    let summary = json_of(&told);
    for cell in summary["cells"].as_array().unwrap() {
        assert_eq!(cell["complete"], false);
        assert!(cell["cycles"].as_u64().unwrap() > 0, "{cell}");
    }
}

#[test]
fn a_limit_has_to_be_held_by_every_cpu_and_gate_and_compare_read_the_run() {
    let out = tempfile::tempdir().unwrap();
    let words = ["timer", "--cpus", "all", "--for", "3s", "--json", "--at", "50", "--limit"];
    let ran = measure(out.path(), &[&words[..], &["10s"]].concat()).output().unwrap();
    assert_eq!(ran.status.code(), Some(0), "{}", stderr_of(&ran));
    let held = fs::canonicalize(latest(out.path())).unwrap();
    assert!(json_of(&ran)["verdict"]["sentence"].as_str().unwrap().contains("met on every CPU"));

    let judged = onbeat(out.path(), &["gate", "--limit", "10s", "--at", "50", "--json"])
        .arg(&held)
        .output()
        .unwrap();
    assert_eq!(judged.status.code(), Some(0), "{}", stderr_of(&judged));

    let ran = measure(out.path(), &[&words[..], &["1ns"]].concat()).output().unwrap();
    // All of a short run late is one outage, which may leave it open; it never passes.
    assert!(matches!(ran.status.code(), Some(1 | 3)), "{}", stderr_of(&ran));
    let summary = json_of(&ran);
    let worst = summary["verdict"]["worst"]["tuning"].as_str().unwrap();
    let sentence = summary["verdict"]["sentence"].as_str().unwrap();
    assert!(!sentence.starts_with("PASS") && sentence.contains(worst), "{sentence}");

    let missed = fs::canonicalize(latest(out.path())).unwrap();
    let judged = onbeat(out.path(), &["gate", "--limit", "1ns", "--at", "50"])
        .arg(&missed)
        .output()
        .unwrap();
    assert_eq!(judged.status.code(), ran.status.code(), "{}", stderr_of(&judged));

    let compared =
        onbeat(out.path(), &["compare", "--json"]).arg(&held).arg(&missed).output().unwrap();
    let text = String::from_utf8_lossy(&compared.stdout).into_owned();
    for name in names(&usable()) {
        assert!(text.contains(&name), "{name}: {text}");
    }
}

#[test]
fn wake_ups_are_split_on_every_cpu_at_once() {
    let out = tempfile::tempdir().unwrap();
    let words = ["timer", "--cpus", "all", "--split", "--for", "3s", "--json"];
    json_of(&measure(out.path(), &words).output().unwrap());
    for (name, run) in runs(&latest(out.path())) {
        if let Some(why) = run.remarks.iter().find(|remark| remark.contains("are not split")) {
            println!("skipped: {why}");
            return;
        }
        let sum = |of: fn(&Interval) -> u64| run.intervals.iter().map(of).sum::<u64>();
        let split = sum(|interval| interval.cycles) - sum(|interval| interval.unsplit);
        let parts = PARTS_OF_WAKE_UP.map(|part| run.distribution(part).count());
        assert_eq!(parts, [split; 3], "{name}: each cycle that is not counted as unsplit is split");
        // A loop is followed once its recorder has had a CPU, and a stall before it may take long.
        let is_mostly_split = |of: &Interval| 2 * of.unsplit < of.cycles;
        assert!(run.intervals.iter().any(is_mostly_split), "{name}: {parts:?} of {:?}", run.end);
    }
}

#[test]
fn the_noise_of_every_cpu_adds_up_and_something_is_left_to_the_rest_of_the_machine() {
    let out = tempfile::tempdir().unwrap();
    let words = ["noise", "--cpus", "all", "--busy", "50%", "--priority", "0", "--for", "4s"];
    let ran = measure(out.path(), &[&words[..], &["--json"]].concat()).output().unwrap();
    json_of(&ran);
    let runs = runs(&latest(out.path()));
    assert_eq!(runs.keys().cloned().collect::<BTreeSet<_>>(), names(&usable()));
    for (name, run) in runs {
        let account = run.noise.as_ref().expect(&name);
        assert_eq!(format!("CPU {}", account.cpu), name);
        assert!(account.windows > 0 && account.gaps > 0, "{name}: {account:?}");
        let named: u64 = account.sources.iter().map(|of| of.ns).sum();
        assert_eq!(named, account.gaps_ns, "{name}: {:?}", account.sources);
    }

    // Of more CPUs what is left of each makes up the half.
    if usable().len() <= 8 {
        let words = ["noise", "--cpus", "all", "--busy", "94%", "--priority", "90"];
        let refused = measure(out.path(), &words).output().unwrap();
        let said = stderr_of(&refused);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(
            said.contains("of a CPU to everything else") && said.contains("use --busy"),
            "{said}"
        );
    }
}

#[test]
fn cpus_that_cannot_be_used_are_refused_before_anything_is_written() {
    let out = tempfile::tempdir().unwrap();
    for (words, why) in [
        (&["timer", "--cpus", "60000"][..], "this machine has no CPU 60000; it has CPUs"),
        (&["timer", "--cpus", ""][..], "no CPU is listed"),
        (&["timer", "--cpus", "3-1"][..], "is not a list of CPUs"),
        (&["timer", "--cpus", "0", "--cpu", "0"][..], "cannot be used with"),
        (&["timer", "--cpus", "0", "--tuning", "PM"][..], "cannot be used with"),
        (&["timer", "--cpus", "0", "--loads", "idle,cpu"][..], "cannot be used with"),
        (&["rtt", "--to", "127.0.0.1", "--cpus", "0"][..], "`rtt` has one loop"),
        (&["timer", "-t", "5"][..], "--cpus 0-4"),
        (&["timer", "-h", "400"][..], "-h is help here"),
    ] {
        let refused = measure(out.path(), words).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{words:?}");
        assert!(stderr_of(&refused).contains(why), "{words:?}: {}", stderr_of(&refused));
    }
    assert!(!out.path().join("runs").exists(), "a refused run leaves no directory");
}

#[test]
fn cyclictest_s_words_run_the_same_and_are_shown_in_onbeat_s() {
    let out = tempfile::tempdir().unwrap();
    let words = ["-S", "-m", "-p", "80", "-i", "2000", "-l", "250", "--json"];
    let ran = measure(out.path(), &words).output().unwrap();
    let summary = json_of(&ran);
    assert_eq!(summary["period_ns"], 2_000_000);
    for (name, run) in runs(&latest(out.path())) {
        assert_eq!(run.end.expect(&name).slots, 250, "{name}");
    }
    let said = stderr_of(&ran);
    assert!(
        said.contains("onbeat measure timer --json --out")
            && said.contains("--cpus all --priority 80 --period 2000us --for 500ms"),
        "{said}"
    );
}
