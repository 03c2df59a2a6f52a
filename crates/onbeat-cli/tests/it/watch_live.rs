//! `onbeat watch` on programs that know nothing of onbeat: tests/watch/foreign_loop.c.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use onbeat::cause::{CauseKind, Tracefs};
use onbeat::record::{RunFile, Series, run_dir};

/// Why these tests cannot run here.
fn skipped() -> Option<String> {
    Tracefs::open().and_then(|tracefs| tracefs.instances()).err().map(|why| why.to_string())
}

/// The program, compiled once; `None` without a C compiler.
pub(crate) fn foreign_loop() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/watch/foreign_loop.c");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("foreign_loop");
        let built = Command::new("cc")
            .args(["-O2", "-o"])
            .arg(&program)
            .arg(source)
            .arg("-lpthread")
            .status();
        built.is_ok_and(|status| status.success()).then_some(program)
    };
    BUILT.get_or_init(build).as_deref()
}

/// Copies a program that is to be started, by a process of its own: what another test is just
/// starting has the files that this one has open, and what is open for writing cannot be executed
/// (ETXTBSY).
pub(crate) fn copy_program(built: &Path, to: &Path) {
    assert!(Command::new("cp").args([built, to]).status().unwrap().success());
}

macro_rules! program_or_skip {
    () => {
        match (skipped(), foreign_loop()) {
            (Some(why), _) => return println!("skipped: {why}"),
            (None, None) => return println!("skipped: there is no C compiler `cc`"),
            (None, Some(program)) => program,
        }
    };
}

fn onbeat(dir: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_onbeat"))
        .args(words)
        .current_dir(dir)
        .env("ONBEAT_STATE_DIR", dir.join("state"))
        .env("COLUMNS", "200")
        .output()
        .unwrap()
}

/// Starts the loop for longer than any test takes.
fn started(program: &Path, kind: &str) -> Running {
    let child = Command::new(program)
        .args([kind, "2000", "60000", "80"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    Running(child)
}

pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn latest(dir: &Path) -> RunFile {
    run_dir::read_cells(&dir.path_of_runs()).unwrap().remove(0)
}

trait Runs {
    fn path_of_runs(&self) -> PathBuf;
}

impl Runs for Path {
    fn path_of_runs(&self) -> PathBuf {
        self.join("onbeat-runs/latest")
    }
}

pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Watches a kind of loop for two seconds; returns what was printed, and the run.
fn watched(program: &Path, kind: &str) -> (String, RunFile) {
    watched_for("2s", program, kind)
}

fn watched_for(long: &str, program: &Path, kind: &str) -> (String, RunFile) {
    let dir = tempfile::tempdir().unwrap();
    let running = started(program, kind);
    let output = onbeat(dir.path(), &["watch", &running.pid(), "--for", long]);
    let printed = text(&output);
    assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{kind}: {printed}");
    (printed, latest(dir.path()))
}

#[test]
fn the_loop_is_found_and_every_release_is_accounted_for_live() {
    let program = program_or_skip!();
    for kind in ["absolute", "timerfd", "realtime", "twice"] {
        let (printed, run) = watched_for("5s", program, kind);
        let account = run.account();
        assert_eq!(account.slots, account.cycles + account.skipped + account.lost, "{kind}");
        let timing = run.header.timing.as_ref().unwrap();
        assert_eq!(timing.period_ns, 2_000_000, "{kind}: {printed}");
        assert_eq!(timing.priority, 80, "{kind}");
        // 2,500, neither half nor twice of it. Releases of a stop of the machine that lasts beyond
        // the end are not seen: one of 1.8 s has place.
        assert!((1_600..2_600).contains(&account.slots), "{kind}: {account:?}");
        assert_eq!(
            run.moments(Series::ReleaseLatency).n,
            account.cycles + account.skipped,
            "{kind}"
        );
        assert!(
            run.moments(Series::ExecutionTime).min_ns >= 40_000,
            "{kind}: its work takes 50 us"
        );
        assert!(!printed.contains("drifts"), "{kind}: {printed}");
        assert_eq!(printed.contains("CLOCK_REALTIME"), kind == "realtime", "{kind}: {printed}");
    }
}

#[test]
fn a_relative_sleep_is_told_to_drift_live() {
    let program = program_or_skip!();
    let (printed, run) = watched(program, "relative");
    assert!(run.header.timing.as_ref().unwrap().wait_kind().is_relative(), "{printed}");
    assert_eq!(run.account().skipped, 0, "without a grid there is nothing to skip");
    assert!(!printed.contains("A relative sleep of"), "its period is no sleep: {printed}");
}

#[test]
fn page_faults_in_the_loop_are_found_live() {
    let program = program_or_skip!();
    let (printed, _) = watched(program, "fault");
    assert!(printed.contains("page faults"), "{printed}");
}

#[test]
fn planted_defects_are_named_and_a_sound_loop_has_none_of_them_live() {
    let program = program_or_skip!();
    let (printed, _) = watched(program, "mutex");
    // Where the kernel lets no program read the call, the wait alone is known.
    let is_named = ["waited for a lock held by lock-holder", "waits inside"]
        .map(|words| printed.contains(words));
    assert!(is_named.contains(&true), "{printed}");

    let (printed, run) = watched(program, "overrun");
    assert!(run.account().skipped > 0, "{printed}");
    let causes: Vec<CauseKind> =
        run.intervals.iter().flat_map(|interval| interval.causes.keys().copied()).collect();
    assert!(causes.contains(&CauseKind::OwnOverrun), "{causes:?} {printed}");

    let (printed, run) = watched(program, "absolute");
    assert!(!printed.contains("waits inside") && !printed.contains("CLOCK_REALTIME"), "{printed}");
    assert!(!printed.contains("is an ordinary thread"), "{printed}");
    assert!(
        run.header.findings.iter().any(|note| note.id.starts_with("proc.")),
        "of its own thread"
    );
}

/// Processes with this argument in their command line.
fn with_argument(argument: &str) -> Vec<String> {
    let found = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let path = entry.ok()?.path();
        let line = std::fs::read(path.join("cmdline")).ok()?;
        let is_it = line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes());
        is_it.then(|| path.display().to_string())
    });
    found.collect()
}

#[test]
fn a_program_is_the_loop_of_a_bench_and_tuned_from_outside_live() {
    let program = program_or_skip!();
    let dir = tempfile::tempdir().unwrap();
    // The number of cycles also names the processes of this test.
    let command = format!("{} absolute 2000 601237", program.display());
    let bench = |tunings: &str, command: &str| {
        onbeat(
            dir.path(),
            &[
                "bench",
                "--command",
                command,
                "--tunings",
                tunings,
                "--loads",
                "idle",
                "--for",
                "12s",
            ],
        )
    };
    let output = bench("none,P", &command);
    let printed = text(&output);
    assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{printed}");
    assert_eq!(with_argument("601237"), Vec::<String>::new(), "each block ends its program");

    let cells = run_dir::read_cells(&dir.path().path_of_runs()).unwrap();
    assert_eq!(cells.len(), 2, "{printed}");
    for cell in &cells {
        let tuning = &cell.header.cell.as_ref().unwrap().tuning;
        let timing = cell.header.timing.as_ref().unwrap();
        assert_eq!(timing.period_ns, 2_000_000, "{tuning}: of the program, by its trial");
        assert_eq!(timing.priority, if tuning == "P" { 98 } else { 0 });
        assert!(cell.account().cycles > 100, "{tuning}: {printed}");
        let execution = cell.moments(Series::ExecutionTime);
        assert!(execution.min_ns >= 40_000, "{tuning}: the program works for 50 us");
    }

    let refused = |tunings: &str, command: &str, sentence: &str| {
        let output = bench(tunings, command);
        assert_eq!(output.status.code(), Some(2), "{command}: {}", text(&output));
        assert!(text(&output).contains(sentence), "{command}: {}", text(&output));
    };
    refused("PM", &command, "M is up to the program itself");
    refused("S", &command, "S is up to the program itself");
    refused("none", "", "no program is named");
    refused("none", "'./controller", "a quote is not closed");
    refused("none", "./no-such-program", "cannot start ./no-such-program");
    refused("none", "false", "false exited (exit status: 1)");
    assert_eq!(with_argument("601237"), Vec::<String>::new());
}

#[test]
fn what_cannot_be_watched_is_one_sentence_and_leaves_nothing_live() {
    let program = program_or_skip!();
    let dir = tempfile::tempdir().unwrap();
    let spinning = Command::new(program).args(["spin", "1000", "1"]).spawn().map(Running).unwrap();
    let refused = |words: &[&str], sentence: &str| {
        let output = onbeat(dir.path(), words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", text(&output));
        assert!(text(&output).contains(sentence), "{words:?}: {}", text(&output));
    };
    refused(&["watch", &spinning.pid()], "spins");
    refused(&["watch", "no-such-program-anywhere"], "no process is named");
    refused(&["watch", "4194305"], "no process 4194305");
    refused(&["watch", "--", "./no-such-program"], "cannot start");
    refused(&["watch", "--", "false"], "false exited (exit status: 1)");
    refused(&["watch", ""], "a value is required");
    refused(&["watch", "a\u{1b}[31m"], "no process is named a?[31m");
    refused(
        &["watch", &std::process::id().to_string(), "--thread", "nobody"],
        "has no thread nobody",
    );

    let one = started(program, "absolute");
    let _other = started(program, "absolute");
    refused(&["watch", "foreign_loop"], "processes; name one by its number");
    refused(&["watch", &one.pid(), "--limit-on", "events=0"], "no bus");
    let several = ["watch", &one.pid(), "--thread", "a", "--thread", "b", "--view"];
    refused(&several, "--view is for one loop of a program");
    let decided = ["watch", &one.pid(), "--cycle", "f", "--limit", "1ms", "--until", "decided"];
    refused(&decided, "leave it out, or leave out --cycle");
    assert!(!dir.path().join("onbeat-runs").exists(), "what cannot run leaves no directory");
}

#[test]
fn two_watches_of_one_program_see_the_same_loop_and_a_killed_one_leaves_nothing_live() {
    let program = program_or_skip!();
    let running = started(program, "absolute");
    let dirs =
        [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let watch = |dir: &Path, long: &str| {
        Command::new(env!("CARGO_BIN_EXE_onbeat"))
            .args(["watch", &running.pid(), "--for", long])
            .current_dir(dir)
            .env("ONBEAT_STATE_DIR", dir.join("state"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut killed = watch(dirs[2].path(), "60s");
    let mut both = [watch(dirs[0].path(), "2s"), watch(dirs[1].path(), "2s")];
    for child in &mut both {
        let status = child.wait().unwrap();
        assert!(matches!(status.code(), Some(0 | 1 | 3)), "{status}");
    }
    for dir in &dirs[..2] {
        assert_eq!(latest(dir.path()).header.timing.as_ref().unwrap().period_ns, 2_000_000);
    }

    let mark = format!("onbeat-{}-", killed.id());
    let has_instance = || {
        let names = Tracefs::open().unwrap().instances().unwrap();
        names.iter().any(|name| name.starts_with(&mark))
    };
    let since = Instant::now();
    while !has_instance() && since.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(has_instance());
    killed.kill().unwrap();
    killed.wait().unwrap();
    onbeat(dirs[2].path(), &["repair"]);
    assert!(!has_instance(), "the next start removes it");
}

#[test]
fn a_program_that_ends_is_measured_until_then_live() {
    let program = program_or_skip!();
    let dir = tempfile::tempdir().unwrap();
    let program = program.to_str().unwrap();
    let words = ["watch", "--for", "600s", "--", program, "absolute", "2000", "4000", "80"];
    let output = onbeat(dir.path(), &words);
    assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{}", text(&output));
    let run = latest(dir.path());
    let account = run.account();
    assert_eq!(account.slots, account.cycles + account.skipped + account.lost);
    assert!(run.account().slots < 4_000, "two seconds of them were before the measurement");
}

#[test]
fn a_watch_with_a_limit_ends_when_it_is_decided_live() {
    let program = program_or_skip!();
    let dir = tempfile::tempdir().unwrap();
    let running = started(program, "absolute");
    let limit = ["--limit", "5s", "--at", "90", "--until", "decided", "--no-causes"];
    let output =
        onbeat(dir.path(), &[&["watch", &running.pid(), "--for", "3d"], limit.as_slice()].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let run = latest(dir.path());
    assert!(run.header.looks > 1, "the looks share the level");
    assert!(run.account().slots < 60_000, "three days have many more");
}

#[test]
fn threads_are_listed_as_json_live() {
    let program = program_or_skip!();
    let dir = tempfile::tempdir().unwrap();
    let running = started(program, "absolute");
    let output = onbeat(dir.path(), &["watch", &running.pid(), "--list", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let listed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let thread = &listed["threads"][0];
    assert_eq!(thread["tid"].to_string(), running.pid());
    assert_eq!((&thread["is_loop"], &thread["policy"]), (&true.into(), &"FIFO 80".into()));
    assert_eq!(thread["waits"][0]["period_ns"], 2_000_000, "{listed}");
}

#[test]
fn where_tracing_is_hidden_or_forbidden_what_remains_is_done_live() {
    let program = program_or_skip!();
    let dir = tempfile::tempdir().unwrap();
    let running = started(program, "absolute");
    let started = |starter: &[&str], words: &[&str]| {
        let output = Command::new(starter[0])
            .args(&starter[1..])
            .arg(env!("CARGO_BIN_EXE_onbeat"))
            .args(words)
            .current_dir(dir.path())
            .env("ONBEAT_STATE_DIR", dir.path().join("state"))
            .output();
        // 126 and 127: the starter cannot start it.
        output.ok().filter(|output| !matches!(output.status.code(), Some(126 | 127)))
    };

    let hiding =
        ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /sys/kernel && exec \"$@\"", "-"];
    match started(&hiding, &["watch", &running.pid(), "--for", "1s", "--no-causes"]) {
        Some(output) => {
            let is_watched = matches!(output.status.code(), Some(0 | 1 | 3));
            assert!(is_watched, "tracefs is mounted again: {}", text(&output));
        }
        None => println!("skipped: unshare does not start onbeat"),
    }

    let nobody = ["setpriv", "--reuid", "65534", "--clear-groups"];
    match started(&nobody, &["watch", &running.pid(), "--json"]) {
        Some(output) => {
            assert_eq!(output.status.code(), Some(2), "{}", text(&output));
            let counted: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            let per_s = counted["threads"][0]["waits_per_s"].as_f64().unwrap();
            assert!(per_s > 100.0, "the scheduler counts 500: {counted}");
        }
        None => println!("skipped: setpriv does not start onbeat for another user"),
    }
}

#[test]
fn a_screen_shows_the_figures_so_far_and_leaves_the_summary_live() {
    let program = program_or_skip!();
    let dir = tempfile::tempdir().unwrap();
    let running = started(program, "absolute");
    let words = format!(
        "stty rows 40 cols 100; {} watch {} --for 4s --screen",
        env!("CARGO_BIN_EXE_onbeat"),
        running.pid()
    );
    let output = Command::new("script")
        .args(["-qec", &words, "/dev/null"])
        .current_dir(dir.path())
        .env("ONBEAT_STATE_DIR", dir.path().join("state"))
        .stdin(Stdio::null())
        .output();
    let Ok(output) = output else { return println!("skipped: there is no `script`") };
    let printed = text(&output);
    for part in ["so far", "p99.9", "bars logarithmic", "Ctrl-C ends the run", "verdict"] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    assert!(!printed.contains("\x1b[?1049h"), "the terminal keeps its screen: {printed}");
    let last = printed.rsplit("Ctrl-C ends the run").next().unwrap();
    assert!(last.contains("\x1b[J") && last.contains("verdict"), "removed at the end: {last}");

    let without = onbeat(dir.path(), &["watch", &running.pid(), "--for", "1s", "--screen"]);
    assert!(!text(&without).contains("so far"), "quiet without a terminal");
}

/// A loop in Python that becomes the C loop on SIGUSR1.
const BECOMES_ANOTHER: &str = "
import os, signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: os.execv(sys.argv[1], [sys.argv[1], 'absolute', '2000', '60000', '80']))
while True:
    time.sleep(0.002)
";

#[test]
fn what_is_changed_of_a_program_while_it_is_measured_is_in_the_run_live() {
    let program = program_or_skip!();
    // Of real-time priority, it is periodic beside any other program.
    let python = Command::new("chrt")
        .args(["--fifo", "40", "python3", "-c", BECOMES_ANOTHER])
        .arg(program)
        .stdout(Stdio::null())
        .spawn();
    let Ok(python) = python else { return println!("skipped: chrt is not installed") };
    let running = Running(python);
    let dir = tempfile::tempdir().unwrap();
    let mut watch = Command::new(env!("CARGO_BIN_EXE_onbeat"))
        .args(["watch", &running.pid(), "--for", "8s"])
        .current_dir(dir.path())
        .env("ONBEAT_STATE_DIR", dir.path().join("state"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let since = Instant::now();
    while !dir.path().path_of_runs().exists() && since.elapsed() < Duration::from_secs(60) {
        assert_eq!(watch.try_wait().unwrap(), None, "it ended before it measured");
        std::thread::sleep(Duration::from_millis(20));
    }
    for (program, words) in [("chrt", ["--fifo", "--pid", "50"].as_slice()), ("kill", &["-USR1"])] {
        let status = Command::new(program).args(words).arg(running.pid()).status().unwrap();
        assert!(status.success(), "{program}");
        std::thread::sleep(Duration::from_millis(800));
    }
    assert!(matches!(watch.wait().unwrap().code(), Some(0 | 1 | 3)));

    let remarks = latest(dir.path()).remarks.join("\n");
    for words in
        ["its policy was changed from FIFO 40 to FIFO 50", "became another program (exec), "]
    {
        assert!(remarks.contains(words), "{words}: {remarks}");
    }
}
