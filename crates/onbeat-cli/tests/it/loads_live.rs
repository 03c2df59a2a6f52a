//! One probe under several loads in turns: shares to the release, killed and resumed, ended by
//! Ctrl-C, read as a bench.

use crate::outputs::{stderr_of, was_cut_off};

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use onbeat::record::{EndReason, LoadEventKind, RunFile, RunOrder, Series};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A word in the environment of everything that a run starts, and of nothing else on this machine.
const MARK: &str = "ONBEAT_TEST_LOADS";
/// Time of a run that does not end by itself in a test. Its intervals are still a second long.
const LONG: &str = "5m";

fn onbeat(out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command.env("ONBEAT_STATE_DIR", out.join("state")).env(MARK, out);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn measure(out: &Path, words: &[&str]) -> Command {
    let mut command = onbeat(out);
    command
        .args(["measure", "timer", "--no-causes", "--json", "--out"])
        .arg(out.join("runs"))
        .args(words);
    command
}

fn latest(out: &Path) -> PathBuf {
    out.join("runs/latest")
}

/// The run files of the loads, by load; without the bench's own.
fn runs(out: &Path) -> BTreeMap<String, RunFile> {
    let files = fs::read_dir(latest(out)).into_iter().flatten().flatten().map(|entry| entry.path());
    let runs = files.filter(|path| {
        path.to_string_lossy().ends_with(".onbeat.hlog") && !path.ends_with("bench.onbeat.hlog")
    });
    runs.filter_map(|path| {
        let run = RunFile::read(&path).ok()?;
        let load = run.blocks.first()?.load.clone();
        Some((load, run))
    })
    .collect()
}

fn bench(out: &Path) -> RunFile {
    RunFile::read(&latest(out).join("bench.onbeat.hlog")).unwrap()
}

/// Intervals of all runs together.
fn intervals(out: &Path) -> usize {
    runs(out).values().map(|run| run.intervals.len()).sum()
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

/// Standard error of a run up to these words, joined where it was wrapped; the run is killed then.
fn stderr_until(run: &mut Child, words: &str) -> String {
    let mut lines = BufReader::new(run.stderr.take().unwrap()).lines();
    let mut said = String::new();
    while !said.contains(words)
        && let Some(line) = lines.next()
    {
        said += &(line.unwrap().split_whitespace().collect::<Vec<_>>().join(" ") + " ");
    }

    run.kill().unwrap();
    run.wait().unwrap();
    said
}

/// Everything alive that carries the mark: the run and its loads.
fn alive(out: &Path) -> Vec<String> {
    let wanted = format!("{MARK}={}", out.display());
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let marked = processes.filter(|process| {
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        environment.split(|b| *b == 0).any(|entry| entry == wanted.as_bytes())
    });

    marked
        .filter_map(|process| {
            let words = fs::read(process.join("cmdline")).ok()?;
            let words = String::from_utf8_lossy(&words).replace('\0', " ");
            // A process that is only waiting to be collected has no words left.
            (!words.is_empty()).then(|| format!("{} {words}", process.display()))
        })
        .collect()
}

fn nothing_is_left_alive(out: &Path) {
    for _ in 0..1_200 {
        if alive(out).is_empty() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("alive: {:?}", alive(out));
}

/// Every slot of a closed run is in one place, and there are as many as its share.
fn has_its_share(run: &RunFile, share: u64) {
    let end = run.end.clone().unwrap();
    assert_eq!((end.slots, end.reason), (share, EndReason::Complete), "{}", run.path.display());
    assert_eq!(end.slots, end.cycles + end.skipped + end.lost);
    let kept = run.distribution(Series::WakeupLatency).count()
        + run.distribution(Series::SkippedLatency).count();

    assert_eq!(end.slots, kept + end.lost + end.warmup + end.excluded);
    assert!(
        run.entries.is_sorted_by_key(|entry| entry.t)
            && run.blocks.is_sorted_by_key(|block| block.t)
    );
    assert_eq!(
        run.blocks.iter().map(|block| block.index).collect::<Vec<_>>(),
        (0..run.blocks.len() as u32).collect::<Vec<_>>()
    );
}

fn directories(out: &Path) -> usize {
    let dirs = fs::read_dir(out.join("runs")).unwrap().flatten();
    dirs.filter(|dir| dir.file_type().unwrap().is_dir()).count()
}

#[test]
fn loads_take_turns_and_the_directory_reads_as_a_bench() {
    let out = tempfile::tempdir().unwrap();
    let out = out.path();
    let measured = measure(
        out,
        // A thousand releases a load suffice for a PASS where four of five may be late.
        &["--loads", "none,cpu=20%,disk", "--for", "3s", "--limit", "1h", "--at", "20"],
    )
    .output()
    .unwrap();
    let said = stderr_of(&measured);
    let summary: Value =
        serde_json::from_slice(&measured.stdout).unwrap_or_else(|why| panic!("{why}: {said}"));
    let loads = ["idle", "cpu=20%", "disk"];
    let cells = summary["cells"].as_array().unwrap();

    assert_eq!(cells.iter().map(|cell| cell["load"].as_str().unwrap()).collect::<Vec<_>>(), loads);
    let runs = runs(out);
    assert_eq!(runs.len(), 3);
    for load in loads {
        has_its_share(&runs[load], 1_000);
        assert_eq!(runs[load].blocks.len(), 2, "{load}: two rounds");
        let reports =
            runs[load].loads.iter().filter(|event| event.event == LoadEventKind::Report).count();
        // One that a slow disk kept in a call for too long was killed, and that is said.
        let killed = said.matches(&format!("load {load}: the load was silent for")).count();
        assert_eq!(
            reports + killed,
            if load == "idle" { 0 } else { 2 },
            "{load} began and ended with each block: {said}"
        );
    }

    // In turns: each load has had its first block before any has its second.
    let starts = |block: usize| runs.values().map(move |run| run.blocks[block].t);
    let last_of_first_round = starts(0).fold(0.0, f64::max);
    assert!(starts(1).all(|second| second > last_of_first_round), "one zero of time for all files");
    let bench = bench(out);
    let note = bench.bench.clone().unwrap();

    assert_eq!(
        (note.order, note.blocks, note.loads),
        (RunOrder::Interleaved, 2, loads.map(str::to_owned).to_vec())
    );
    assert_eq!(note.tunings.len(), 1);
    assert_eq!(bench.end.unwrap().reason, EndReason::Complete);
    let dir = latest(out);
    let dir = dir.to_str().unwrap();
    let read = |words: &[&str]| {
        let ran = onbeat(out).args(words).output().unwrap();
        // Two blocks of each load decide no ratio: 3.
        let is_done = matches!(ran.status.code(), Some(0 | 3));
        assert!(is_done, "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8_lossy(&ran.stdout).into_owned()
    };

    let report = read(&["report", dir]);
    assert!(
        report.lines().any(|line| line.starts_with("cpu=20%") && line.trim_end().ends_with("PASS")),
        "{report}"
    );
    let compared: Value = serde_json::from_str(&read(&["compare", dir, "--json"])).unwrap();
    assert_eq!(compared["runs"], serde_json::json!(loads));
    let rows = compared["rows"].as_array().unwrap();
    let of = rows.iter().find(|rows| rows["series"] == "release_latency").unwrap();
    let counts: Vec<u64> =
        of["rows"].as_array().unwrap().iter().map(|row| row["count"].as_u64().unwrap()).collect();

    assert_eq!(counts, loads.map(|load| runs[load].distribution(Series::ReleaseLatency).count()));
    read(&["gate", dir, "--limit", "1h", "--at", "20"]);
    assert!(read(&["export", dir, "--csv", "-"]).contains("cpu=20%"));
}

#[test]
fn loads_killed_twice_have_their_shares_in_the_end() {
    let out = tempfile::tempdir().unwrap();
    let out = out.path();
    let words = ["--loads", "idle,cpu=20%", "--for", "8s", "--resume"];
    for wanted in [1, 4] {
        let mut killed = measure(out, &words).spawn().unwrap();
        wait_until("enough intervals", || intervals(out) >= wanted);
        killed.kill().unwrap();
        killed.wait().unwrap();
        nothing_is_left_alive(out);
    }

    let kept: u64 =
        runs(out).values().map(|run| run.distribution(Series::WakeupLatency).count()).sum();
    let whole = measure(out, &words).output().unwrap();
    let said = stderr_of(&whole);
    assert!(said.contains("resuming") && said.contains("which was cut off; left: "), "{said}");
    assert!(whole.status.success(), "{said}");
    let runs = runs(out);
    for load in ["idle", "cpu=20%"] {
        has_its_share(&runs[load], 4_000);
    }

    let now: u64 = runs.values().map(|run| run.distribution(Series::WakeupLatency).count()).sum();
    assert!(kept > 0 && now > kept, "what was recorded is there still");
    assert_eq!((directories(out), bench(out).resumes.len()), (1, 2));
    let mut again = measure(out, &words).spawn().unwrap();
    let said = stderr_until(&mut again, "a new one begins");
    nothing_is_left_alive(out);

    assert!(said.contains("a new one begins"), "a whole run is not resumed: {said}");
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn ctrl_c_ends_all_loads_with_what_is_there_and_sigusr1_shows_them_before() {
    let out = tempfile::tempdir().unwrap();
    let out = out.path();
    let words = ["--loads", "idle,cpu=20%", "--for", "8s", "--resume"];
    let run = measure(out, &words).spawn().unwrap();
    wait_until("an interval", || intervals(out) >= 1);
    let before = intervals(out);
    signal(&run, Signal::USR1);
    // What is under way is written out for the summary; the second one comes later, so that the
    // signal was seen by then.
    wait_until("two more", || intervals(out) >= before + 2);
    signal(&run, Signal::INT);
    let ended = run.wait_with_output().unwrap();
    let said = stderr_of(&ended);
    let is_cut = was_cut_off(ended.status, &said);

    assert!(said.contains("by load"), "the summary so far, of all loads: {said}");
    if !is_cut {
        let summary: Value =
            serde_json::from_slice(&ended.stdout).expect("one JSON object and nothing else");
        assert_eq!(summary["cells"].as_array().unwrap().len(), 2);
    }
    nothing_is_left_alive(out);
    let before = runs(out);
    let unfinished = before.values().filter(|run| run.account().slots < 4_000);
    assert!(unfinished.clone().count() > 0);
    // What was cut off may have no closing line.
    let was_asked =
        |run: &RunFile| run.end.as_ref().map_or(is_cut, |end| end.reason == EndReason::Asked);
    assert!(was_asked(&bench(out)) && unfinished.clone().all(was_asked), "{said}");

    let whole = measure(out, &words).output().unwrap();
    let said = stderr_of(&whole);
    let was_resumed = said.contains("which was ended early; left: ")
        || is_cut && said.contains("which was cut off; left: ");
    assert!(whole.status.success() && was_resumed, "{said}");
    let runs = runs(out);
    ["idle", "cpu=20%"].into_iter().for_each(|load| has_its_share(&runs[load], 4_000));
}

#[test]
fn a_sweep_that_was_killed_goes_on_with_the_steps_that_are_left() {
    let out = tempfile::tempdir().unwrap();
    let out = out.path();
    let words = ["--load-sweep", "0..20/10", "--for", "9s", "--resume"];
    let mut killed = measure(out, &words).spawn().unwrap();
    wait_until("a second step with an interval", || {
        runs(out).get("cpu=10%").is_some_and(|run| !run.intervals.is_empty())
    });
    killed.kill().unwrap();
    killed.wait().unwrap();
    nothing_is_left_alive(out);
    // Where this process stood still for a second, the third step was under way.
    let begun = runs(out).len();
    let cut = onbeat(out).args(["report", "--json"]).arg(latest(out)).output().unwrap();
    let cut: Value = serde_json::from_slice(&cut.stdout).unwrap();

    assert!(begun >= 2);
    assert_eq!(
        cut["sweep"]["steps"].as_array().unwrap().len(),
        begun,
        "the step that was under way is there"
    );
    let was_whole = runs(out)["cpu=10%"].account().slots >= 3_000;
    let whole = measure(out, &words).output().unwrap();
    let said = stderr_of(&whole);
    assert!(whole.status.success() && said.contains("resuming"), "{said}");
    let summary: Value = serde_json::from_slice(&whole.stdout).unwrap();
    let steps = summary["sweep"]["steps"].as_array().unwrap();
    let loads: Vec<&str> = steps.iter().map(|step| step["load"].as_str().unwrap()).collect();

    assert_eq!(loads, ["idle", "cpu=10%", "cpu=20%"]);
    // Killed between its last cycle and what was reached, nobody can know that any more.
    let is_known = |step: &Value| {
        step["reached_percent"].is_number() || (was_whole && step["load"] == "cpu=10%")
    };
    assert!(steps.iter().all(is_known), "{steps:?}");
    let runs = runs(out);
    loads.iter().for_each(|load| has_its_share(&runs[*load], 3_000));

    assert_eq!(directories(out), 1);
}

/// `ONBEAT_KILLS` is the number of kills.
#[test]
fn a_sweep_killed_at_drawn_moments_has_every_step_whole_in_the_end() {
    let kills = std::env::var("ONBEAT_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let out = tempfile::tempdir().unwrap();
    let out = out.path();
    let seed = fastrand::u64(..);
    println!("moments drawn with seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let seconds = u64::max(6, kills);
    let time = format!("{seconds}s");
    let words = ["--load-sweep", "0..20/10", "--for", &time, "--resume"];
    for _ in 0..kills {
        let mut killed = measure(out, &words).spawn().unwrap();
        thread::sleep(Duration::from_millis(random.u64(0..2_000)));
        killed.kill().unwrap();
        killed.wait().unwrap();
        nothing_is_left_alive(out);
    }

    let whole = measure(out, &words).output().unwrap();
    assert!(whole.status.success(), "{}", stderr_of(&whole));
    let summary: Value = serde_json::from_slice(&whole.stdout).unwrap();
    let steps = summary["sweep"]["steps"].as_array().unwrap();
    let loads: Vec<&str> = steps.iter().map(|step| step["load"].as_str().unwrap()).collect();
    assert_eq!(loads, ["idle", "cpu=10%", "cpu=20%"], "the steps of an undisturbed sweep");
    let runs = runs(out);
    loads.iter().for_each(|load| has_its_share(&runs[*load], seconds * 1_000 / 3));
}

#[test]
fn another_option_begins_anew_and_another_spelling_of_the_same_resumes() {
    let out = tempfile::tempdir().unwrap();
    let out = out.path();
    let mut killed = measure(out, &["--loads", "idle", "--for", LONG]).spawn().unwrap();
    wait_until("an interval", || intervals(out) > 0);
    killed.kill().unwrap();
    killed.wait().unwrap();

    let begins_anew = |words: &[&str]| {
        let mut run = measure(out, words).arg("--resume").spawn().unwrap();
        stderr_until(&mut run, "begins").contains("a new one begins")
    };
    assert!(begins_anew(&["--loads", "idle", "--for", "7m"]));
    assert!(begins_anew(&["--loads", "idle", "--for", LONG, "--period", "2ms"]));
    // The words differ and the plan does not.
    let mut run = measure(out, &["--period", "1000us", "--loads", "none", "--for", "300s"]);
    let said = stderr_until(&mut run.arg("--resume").spawn().unwrap(), "left:");
    assert!(said.contains("resuming"), "{said}");
}

#[test]
fn a_run_whose_plan_is_lost_is_refused_in_one_sentence() {
    let out = tempfile::tempdir().unwrap();
    let out = out.path();
    let words = ["--loads", "idle", "--for", LONG, "--resume"];
    let mut killed = measure(out, &words).spawn().unwrap();
    wait_until("an interval", || intervals(out) > 0);
    killed.kill().unwrap();
    killed.wait().unwrap();
    fs::remove_file(latest(out).join("plan.json")).unwrap();
    let refused = measure(out, &words).output().unwrap();
    let said = stderr_of(&refused);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("no plan.json beside its run files"), "{said}");
}

#[test]
fn another_kernel_is_refused_before_a_load_begins() {
    let out = tempfile::tempdir().unwrap();
    let out = out.path();
    let words = ["--loads", "idle,cpu=20%", "--for", LONG, "--resume"];
    let mut killed = measure(out, &words).spawn().unwrap();
    wait_until("an interval", || intervals(out) >= 1);
    let second = measure(out, &words).output().unwrap();
    let said = stderr_of(&second);

    assert!(
        second.status.code() == Some(2)
            && said.contains("is being written by a running measurement"),
        "{said}"
    );
    killed.kill().unwrap();
    killed.wait().unwrap();
    let file = latest(out).join("bench.onbeat.hlog");
    let text = fs::read_to_string(&file).unwrap();
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    fs::write(
        &file,
        text.replacen(&format!("\"kernel\":\"{kernel}\""), "\"kernel\":\"2.6.18\"", 1),
    )
    .unwrap();
    let other = measure(out, &words).output().unwrap();
    let said = stderr_of(&other);

    assert!(
        other.status.code() == Some(2)
            && said.contains(&format!("kernel was 2.6.18 and is {kernel}")),
        "{said}"
    );
    assert_eq!(directories(out), 1);
}
