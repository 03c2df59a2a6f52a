//! Misuse of commands: links where files should be, pipes for inputs, no room for threads, old
//! results in the way. Each ends in one sentence, and no other file is changed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, missing_docs)]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use onbeat_tune::{Journal, LiveHost, Purpose};

fn onbeat(dir: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command
        .args(words)
        .current_dir(dir)
        .env("LC_ALL", "C")
        .env("ONBEAT_STATE_DIR", dir.join("state"));
    command.stdin(Stdio::null());
    command
}

fn ended(dir: &Path, words: &[&str]) -> Output {
    onbeat(dir, words).output().unwrap()
}

fn done(dir: &Path, words: &[&str]) -> Output {
    let output = ended(dir, words);
    assert!(output.status.success(), "{words:?}: {}", stderr_of(&output));
    output
}

fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The sentence of a command that was refused.
fn refused(dir: &Path, words: &[&str]) -> String {
    let output = ended(dir, words);
    assert_eq!(output.status.code(), Some(2), "{words:?}: {}", stderr_of(&output));
    let message = stderr_of(&output);
    let sentences: Vec<&str> =
        message.lines().filter(|line| line.starts_with("onbeat: ")).collect();
    assert_eq!(sentences.len(), 1, "{words:?}: {message}");
    sentences[0].to_owned()
}

fn samples(dir: &Path) {
    let samples: String = (0..2000).map(|n| format!("{}\n", 20 + n % 50)).collect();
    fs::write(dir.join("a.csv"), format!("latency_us\n{samples}")).unwrap();
}

/// A directory with the run `run`.
fn stage() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    samples(dir.path());
    done(
        dir.path(),
        &["import", "a.csv", "--period", "1ms", "--as", "wakeup_latency", "-o", "run"],
    );
    dir
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn pipe_at(path: &Path) -> PathBuf {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    path.to_owned()
}

// ---- links

#[test]
fn a_page_beside_a_run_replaces_a_link_and_never_follows_it() {
    let dir = stage();
    let precious = dir.path().join("precious");
    let page = dir.path().join("run/report.html");
    fs::write(&precious, "precious").unwrap();
    fs::remove_file(&page).unwrap();
    symlink(&precious, &page).unwrap();
    done(dir.path(), &["report", "run"]);

    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    assert!(fs::symlink_metadata(&page).unwrap().is_file());
    assert!(fs::read_to_string(&page).unwrap().contains("<html"));
    assert!(
        names(&dir.path().join("run")).iter().all(|name| !name.starts_with('.')),
        "nothing is left beside it"
    );
}

#[test]
fn a_page_that_was_named_follows_a_link_as_any_program_does() {
    let dir = stage();
    let page = dir.path().join("page.html");
    let link = dir.path().join("link.html");
    fs::write(&page, "old").unwrap();
    symlink("page.html", &link).unwrap();
    for words in [
        &["report", "run", "--html", "link.html"][..],
        &["compare", "run", "run", "--html", "link.html"],
    ] {
        fs::write(&page, "old").unwrap();
        done(dir.path(), words);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::read_to_string(&page).unwrap().contains("<html"));
    }
}

#[test]
fn files_of_an_exported_directory_replace_links() {
    let dir = stage();
    done(dir.path(), &["export", "run", "--hgrm", "out"]);
    let exported = names(&dir.path().join("out"));
    assert_eq!(exported.len(), 1, "{exported:?}");
    let precious = dir.path().join("precious");
    let file = dir.path().join("out").join(&exported[0]);
    fs::write(&precious, "precious").unwrap();
    fs::remove_file(&file).unwrap();
    symlink(&precious, &file).unwrap();
    done(dir.path(), &["export", "run", "--hgrm", "out"]);

    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    assert!(fs::read_to_string(&file).unwrap().contains("Percentile"));
}

#[test]
fn an_export_that_fails_leaves_the_one_before() {
    let dir = stage();
    fs::write(dir.path().join("all.csv"), "before").unwrap();
    fs::create_dir(dir.path().join("taken")).unwrap();
    refused(dir.path(), &["export", "run", "--csv", "taken"]);
    refused(dir.path(), &["export", "missing", "--csv", "all.csv"]);

    assert_eq!(fs::read_to_string(dir.path().join("all.csv")).unwrap(), "before");
    done(dir.path(), &["export", "run", "--csv", "all.csv"]);
    assert!(fs::read_to_string(dir.path().join("all.csv")).unwrap().contains("wakeup_latency"));
}

#[test]
fn nothing_is_written_over_a_run() {
    let dir = stage();
    let file = "run/a.onbeat.hlog";
    let before = fs::read_to_string(dir.path().join(file)).unwrap();
    symlink(dir.path().join(file), dir.path().join("link")).unwrap();
    for words in [
        &["report", "run", "--html", file][..],
        &["report", file, "--html", file],
        &["compare", "run", "run", "--html", file],
        &["gate", "run", "--limit", "1s", "--junit", file],
        &["gate", "run", "--limit", "1s", "--junit", "link"],
        &["export", "run", "--csv", file],
        &["export", "run", "--json", "other.json", "--openmetrics", "./run/../run/a.onbeat.hlog"],
    ] {
        let message = refused(dir.path(), words);
        assert!(
            message.contains("is a file of the run run") && message.contains("another place"),
            "{words:?}: {message}"
        );
    }

    assert_eq!(fs::read_to_string(dir.path().join(file)).unwrap(), before);
    assert!(!dir.path().join("other.json").exists());
}

#[test]
fn a_run_behind_a_link_is_not_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let words = [
        "measure",
        "timer",
        "--for",
        "1h",
        "--priority",
        "0",
        "--no-causes",
        "--out",
        "runs",
        "--resume",
    ];
    // Ended early, by the signal that Ctrl-C is, once it measures.
    let begun = || {
        let mut child =
            onbeat(dir.path(), &words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let latest = dir.path().join("runs/latest");
        let before = fs::read_link(&latest).ok();
        // Where a run is resumed although it should not be, `latest` stays, and the wait ends all
        // the same.
        let until = Instant::now() + Duration::from_secs(60);
        while fs::read_link(&latest).ok() == before
            && child.try_wait().unwrap().is_none()
            && Instant::now() < until
        {
            std::thread::sleep(Duration::from_millis(5));
        }

        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        assert!(child.wait().unwrap().success());
        fs::canonicalize(&latest).unwrap().join("timer.onbeat.hlog")
    };

    let run = begun();
    let precious = dir.path().join("precious");
    fs::rename(&run, &precious).unwrap();
    symlink(&precious, &run).unwrap();
    let before = fs::read(&precious).unwrap();

    assert_ne!(begun(), run, "a new run begins");
    assert_eq!(fs::read(&precious).unwrap(), before);
}

// ---- old results

#[test]
fn a_gate_that_cannot_run_leaves_no_old_result() {
    let dir = stage();
    let junit = dir.path().join("gate.xml");
    for words in [
        &["gate", "missing", "--limit", "1s"][..],
        &["gate", "run", "--limit", "1s", "--tuning", "nobody"],
        &["gate", "run", "--baseline", "missing"],
        &["gate", "run", "--limit", "10"],
        &["gate", "run", "--limmit", "1s"],
    ] {
        done(dir.path(), &["gate", "run", "--limit", "1s", "--at", "99", "--junit", "gate.xml"]);
        assert!(fs::read_to_string(&junit).unwrap().contains("failures=\"0\" errors=\"0\""));
        let output = ended(dir.path(), &[words, &["--junit", "gate.xml"]].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        let result = fs::read_to_string(&junit).unwrap();
        assert!(
            result.contains("tests=\"1\" failures=\"0\" errors=\"1\"")
                && result.contains("<error "),
            "{words:?}: {result}"
        );
    }

    let own = fs::read(dir.path().join("run/a.onbeat.hlog")).unwrap();
    ended(dir.path(), &["gate", "run", "--limit", "10", "--junit", "run/a.onbeat.hlog"]);
    assert_eq!(
        fs::read(dir.path().join("run/a.onbeat.hlog")).unwrap(),
        own,
        "that is not the result of a gate"
    );
    let joined = ended(dir.path(), &["gate", "run", "--limit", "10", "--junit=other.xml"]);
    assert_eq!(joined.status.code(), Some(2));
    assert!(fs::read_to_string(dir.path().join("other.xml")).unwrap().contains("has no unit"));
}

#[test]
fn a_result_into_a_pipe_is_one_document() {
    let dir = stage();
    for to in ["-", "/dev/stdout"] {
        for (run, errors) in [("run", 0), ("missing", 1)] {
            let output =
                ended(dir.path(), &["gate", run, "--limit", "1s", "--at", "99", "--junit", to]);
            let text = String::from_utf8(output.stdout).unwrap();
            assert_eq!(text.matches("<?xml").count(), 1, "{to} {run}: {text}");
            assert!(text.contains(&format!("errors=\"{errors}\"")), "{to} {run}: {text}");
        }
    }
}

// ---- refused runs

#[test]
fn a_bench_that_is_refused_leaves_nothing_and_latest_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let too_short = ["bench", "--for", "3s", "--out", "deep/runs"];
    assert!(refused(dir.path(), &too_short).contains("too short"));
    assert!(!dir.path().join("deep").exists(), "{:?}", names(dir.path()));

    samples(dir.path());
    done(dir.path(), &["import", "a.csv", "--out", "runs"]);
    let before =
        (names(&dir.path().join("runs")), fs::read_link(dir.path().join("runs/latest")).unwrap());
    assert_eq!(before.0.len(), 2);
    refused(dir.path(), &["bench", "--for", "3s", "--out", "runs"]);

    // Another one is at work: it holds the journal.
    let journal = dir.path().join("state/journal");
    let host = LiveHost::killing_sessions_by(|_, _| 0);
    let other = Journal::begin(&journal, &host, &Purpose::new("bench", "another bench")).unwrap();
    let words = ["bench", "--for", "1m", "--tunings", "none", "--loads", "idle", "--out", "runs"];

    assert!(refused(dir.path(), &words).contains("is changing this machine"));
    other.close().unwrap();
    let after =
        (names(&dir.path().join("runs")), fs::read_link(dir.path().join("runs/latest")).unwrap());
    assert_eq!(before, after);
}

#[test]
fn a_measurement_whose_load_cannot_start_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let words =
        ["measure", "timer", "--for", "1s", "--priority", "0", "--load", "stress-ng:--vm 1"];
    let output = onbeat(dir.path(), &words).env("PATH", "/nowhere").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr_of(&output).contains("stress-ng"), "{}", stderr_of(&output));
    assert!(!dir.path().join("onbeat-runs").exists(), "{:?}", names(dir.path()));
    let words = ["measure", "timer", "--for", "1s", "--load-sweep", "0..50/50", "--period", "0"];
    refused(dir.path(), &words);

    assert!(!dir.path().join("onbeat-runs").exists(), "{:?}", names(dir.path()));
}

#[test]
fn latest_points_at_a_run_that_goes_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let words =
        ["measure", "timer", "--for", "100ms", "--priority", "0", "--no-causes", "--out", "runs"];
    let mut seen = Vec::new();
    for _ in 0..2 {
        done(dir.path(), &words);
        seen.push(fs::read_link(dir.path().join("runs/latest")).unwrap());
    }

    assert_ne!(seen[0], seen[1]);
    assert!(
        seen.iter().all(|run| dir.path().join("runs").join(run).join("timer.onbeat.hlog").exists())
    );
    assert_eq!(names(&dir.path().join("runs")).len(), 3);
}

#[test]
fn a_bench_with_two_cells_of_one_name_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let message = refused(
        dir.path(),
        &["bench", "--for", "1h", "--tunings", "none,PM,MP", "--loads", "idle"],
    );
    assert!(message.contains("tuning PM is listed twice"), "{message}");
    let message = refused(
        dir.path(),
        &["bench", "--for", "1h", "--tunings", "none", "--loads", "cpu,idle,cpu=100%"],
    );
    assert!(message.contains("load cpu is listed twice"), "{message}");
    assert!(!dir.path().join("onbeat-runs").exists(), "{:?}", names(dir.path()));
}

#[test]
fn a_page_that_cannot_be_written_says_how_to_do_without() {
    let dir = stage();
    fs::remove_file(dir.path().join("run/report.html")).unwrap();
    fs::create_dir(dir.path().join("run/report.html")).unwrap();
    let message = refused(dir.path(), &["report", "run"]);

    assert!(
        message.contains("run/report.html")
            && message.contains("--html FILE")
            && message.contains("--brief"),
        "{message}"
    );
    done(dir.path(), &["report", "run", "--brief"]);
    done(dir.path(), &["report", "run", "--html", "elsewhere.html"]);
    let left: Vec<String> = names(&dir.path().join("run"));
    assert_eq!(left, ["a.onbeat.hlog", "report.html"]);
}

#[test]
fn a_segment_that_cannot_write_its_capture_leaves_no_interfaces() {
    let can = Command::new("unshare")
        .args(["--net", "ip", "link", "add", "name", "a", "type", "veth"])
        .output();
    if !can.is_ok_and(|output| output.status.success()) {
        println!(
            "skipped: no network namespace with a veth pair can be made here; it takes root, unshare and ip"
        );
        return;
    }

    let dir = tempfile::tempdir().unwrap();
    for outlet in ["--pcap nowhere/a", "--log nowhere/a"] {
        let line =
            format!("\"$0\" segment run humanoid --veth o0 --for 1s {outlet}; echo $?; ip -o link");
        let mut command = Command::new("unshare");
        command
            .args(["--net", "sh", "-c", &line, env!("CARGO_BIN_EXE_onbeat")])
            .current_dir(dir.path());
        let output = command.env("ONBEAT_STATE_DIR", dir.path().join("state")).output().unwrap();
        let links = String::from_utf8_lossy(&output.stdout).into_owned();

        assert!(
            links.starts_with("2\n") && links.contains("lo:") && !links.contains("o0"),
            "{links}{}",
            stderr_of(&output)
        );
        assert!(stderr_of(&output).contains("nowhere/a"), "{}", stderr_of(&output));
    }
}

// ---- inputs that are no files

/// Commands that read a file, for which `FILE` stands.
const READERS: [&[&str]; 13] = [
    &["report", "FILE"],
    &["report", "FILE", "--brief"],
    &["compare", "FILE", "run"],
    &["compare", "run", "FILE"],
    &["gate", "FILE", "--limit", "1s"],
    &["gate", "run", "--baseline", "FILE"],
    &["export", "FILE", "--list"],
    &["export", "FILE", "--csv", "-"],
    &["import", "FILE"],
    &["segment", "run", "FILE", "--interface", "lo"],
    &["robot", "run", "FILE", "--for", "1s"],
    &["robot", "run", "humanoid", "--trajectory", "csv:FILE", "--for", "1s"],
    &["bus", "run", "FILE", "--name", "nobody"],
];

/// Refused in a sentence; a command that waits for ever, or reads without an end, is ended from
/// outside.
fn refused_in_time(dir: &Path, words: &[String]) -> String {
    let mut command = Command::new("timeout");
    command
        .args(["--signal=KILL", "60", "prlimit", "--as=4000000000", env!("CARGO_BIN_EXE_onbeat")])
        .args(words);
    command
        .current_dir(dir)
        .env("LC_ALL", "C")
        .env("ONBEAT_STATE_DIR", dir.join("state"))
        .stdin(Stdio::null());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{words:?}: {}", stderr_of(&output));
    stderr_of(&output)
}

#[test]
fn a_pipe_or_a_device_is_not_accepted_as_input() {
    let dir = stage();
    pipe_at(&dir.path().join("pipe"));
    for (file, kind) in [("pipe", "a pipe"), ("/dev/zero", "a device")] {
        for reader in READERS {
            let words: Vec<String> = reader.iter().map(|word| word.replace("FILE", file)).collect();
            let message = refused_in_time(dir.path(), &words);
            assert!(
                message.contains(&format!("it is {kind}, not a regular file")),
                "{words:?}: {message}"
            );
        }
    }
}

#[test]
fn a_pipe_among_the_files_of_a_run_is_named() {
    let dir = stage();
    pipe_at(&dir.path().join("run/b.onbeat.hlog"));
    for words in [&["report", "run"][..], &["export", "run", "--csv", "-"]] {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let message = refused_in_time(dir.path(), &words);
        assert!(message.contains("run/b.onbeat.hlog") && message.contains("a pipe"), "{message}");
    }
}

#[test]
fn a_file_without_an_end_of_line_takes_no_memory() {
    let dir = stage();
    let sparse = fs::File::create(dir.path().join("sparse")).unwrap();
    sparse.set_len(100 << 30).unwrap();
    for words in [
        &["import", "sparse", "--from", "csv", "--unit", "us"][..],
        &["import", "sparse", "--from", "hlog"],
        &["report", "sparse"],
    ] {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        refused_in_time(dir.path(), &words);
    }
}

// ---- no room for threads

/// A user of whom no other process runs, so that what counts against the limit is what this test
/// starts.
const LONELY: &str = "61803";

fn limited(dir: &Path, most: u32, words: &[&str]) -> Output {
    let root = rustix::process::geteuid().is_root();
    let mut command = Command::new(if root { "setpriv" } else { "prlimit" });
    if root {
        command.args([
            "--reuid",
            LONELY,
            "--regid",
            LONELY,
            "--clear-groups",
            "--inh-caps=-all",
            "prlimit",
        ]);
    }

    command.arg(format!("--nproc={most}:{most}")).arg(dir.join("onbeat")).args(words);
    command
        .current_dir(dir.join("work"))
        .env("LC_ALL", "C")
        .env("ONBEAT_STATE_DIR", dir.join("work/state"));
    command.env("HOME", dir.join("work")).stdin(Stdio::null()).output().unwrap()
}

/// A directory that everybody may use, with the binary in it.
fn open_stage() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let everybody = || fs::Permissions::from_mode(0o777);
    fs::set_permissions(dir.path(), everybody()).unwrap();
    // By a program: a descriptor of our own, open for writing, could be inherited by what another
    // test starts meanwhile.
    let copied = Command::new("cp")
        .arg(env!("CARGO_BIN_EXE_onbeat"))
        .arg(dir.path().join("onbeat"))
        .status();

    assert!(copied.unwrap().success());
    fs::create_dir(dir.path().join("work")).unwrap();
    fs::set_permissions(dir.path().join("work"), everybody()).unwrap();
    dir
}

#[test]
fn where_no_thread_can_be_started_a_sentence_says_so() {
    let dir = open_stage();
    let brief = ["--for", "100ms", "--priority", "0", "--no-causes"];
    let measure = |what: &[&'static str]| [what, &brief[..]].concat();
    let commands = [
        measure(&["measure", "timer"]),
        measure(&["measure", "timer", "--load", "cpu=1%"]),
        measure(&["measure", "read-write", "--period", "5ms"]),
        measure(&["measure", "chain", "--period", "5ms"]),
        measure(&["measure", "sharing"]),
        measure(&["measure", "bus", "--wire", "socket", "--period", "5ms"]),
        measure(&["robot", "run", "humanoid"]),
        measure(&["robot", "run", "humanoid", "--trajectory", "goal"]),
        vec!["load", "cpu=1%", "--for", "100ms"],
        vec!["bench", "--for", "4s", "--tunings", "none", "--loads", "idle", "--no-causes"],
    ];
    // As many as the commands come to need, one after the other; others of the same user count too,
    // unless root picks one.
    let most = if rustix::process::geteuid().is_root() { 5 } else { 1 };

    if most == 1 {
        println!(
            "skipped in part: only root can choose a user without processes, so no limit but 1 is tried"
        );
    }

    for words in &commands {
        for limit in 1..=most {
            let output = limited(dir.path(), limit, words);
            let message = stderr_of(&output);
            assert!(!message.contains("panicked"), "{words:?} with {limit}: {message}");
            match output.status.code() {
                Some(0) => assert!(limit > 1, "{words:?} needs a thread"),
                Some(2) => {
                    let sentences =
                        message.lines().filter(|line| line.starts_with("onbeat: ")).count();
                    assert_eq!(sentences, 1, "{words:?} with {limit}: {message}");
                    assert!(
                        message.contains("Resource temporarily unavailable"),
                        "{words:?} with {limit}: {message}"
                    );
                }
                other => panic!("{words:?} with {limit}: {other:?}: {message}"),
            }
        }
    }
}

// ---- places

#[test]
fn a_load_is_given_a_directory_that_it_can_write() {
    let dir = tempfile::tempdir().unwrap();
    for words in [
        &["load", "disk", "--for", "1s", "--dir", "nowhere"][..],
        &["measure", "timer", "--for", "1s", "--load", "paper", "--load-dir", "nowhere"],
        &["bench", "--loads", "idle,paper", "--load-dir", "nowhere"],
    ] {
        let message = refused(dir.path(), words);
        assert!(
            message.contains("a load cannot write in nowhere: ") && message.contains("dir"),
            "{message}"
        );
        assert!(names(dir.path()).is_empty(), "{words:?}: {:?}", names(dir.path()));
    }

    fs::write(dir.path().join("file"), "").unwrap();
    assert!(
        refused(dir.path(), &["load", "disk", "--dir", "file"]).contains("cannot write in file")
    );
}

#[test]
fn a_disk_load_in_memory_is_reported_with_the_option_that_moves_it() {
    let memory = Path::new("/dev/shm");
    let kind = rustix::fs::statfs(memory).map(|system| system.f_type);
    // TMPFS_MAGIC, include/uapi/linux/magic.h.
    if kind.ok().map(i128::from) != Some(0x0102_1994) {
        println!("skipped: /dev/shm is not a tmpfs here");
        return;
    }

    let dir = tempfile::tempdir().unwrap();
    // Too short for all of its cells, so that nothing is started.
    let advice_of = |words: &[&str]| {
        let output = ended(dir.path(), &[&["bench", "--for", "3s"], words].concat());
        assert_eq!(output.status.code(), Some(2));
        stderr_of(&output).split_whitespace().collect::<Vec<_>>().join(" ")
    };

    let sentence = "the disk part of the load paper writes in /dev/shm, which is in memory, so no disk is loaded; --load-dir DIR";
    let message = advice_of(&["--loads", "idle,paper", "--load-dir", "/dev/shm"]);
    assert!(message.contains(sentence), "{message}");
    let message = advice_of(&["--loads", "idle,walk", "--load-dir", "/dev/shm"]);

    assert!(!message.contains("in memory"), "{message}");
}

#[test]
fn a_load_writes_into_the_given_directory() {
    let dir = tempfile::tempdir().unwrap();
    let words = [
        "measure",
        "timer",
        "--for",
        "300ms",
        "--priority",
        "0",
        "--no-causes",
        "--load",
        "disk",
        "--load-dir",
        ".",
    ];
    done(dir.path(), &words);
    let file = fs::read_to_string(dir.path().join("onbeat-runs/latest/timer.onbeat.hlog")).unwrap();
    assert!(file.contains("repeatedly in ."), "{file}");
}

#[test]
fn a_journal_that_cannot_be_kept_names_the_variable_that_moves_it() {
    let dir = tempfile::tempdir().unwrap();
    // In place of the lock stands what nobody can open for writing, root neither.
    fs::create_dir_all(dir.path().join("state/journal/lock")).unwrap();
    let output = ended(dir.path(), &["repair"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr_of(&output));
    assert!(stderr_of(&output).contains("ONBEAT_STATE_DIR"), "{}", stderr_of(&output));
}

// ---- words

#[test]
fn what_is_typed_behind_the_dashes_of_bus_run_counts() {
    let dir = tempfile::tempdir().unwrap();
    let name = format!("test-abused-{}", std::process::id());
    let more = [
        "--",
        "--for",
        "300ms",
        "--wire",
        "socket",
        "--period",
        "5ms",
        "--priority",
        "0",
        "--no-causes",
    ];
    done(dir.path(), &[&["bus", "run", "--name", &name], &more[..]].concat());
    let help = done(dir.path(), &["bus", "run", "--", "--help"]);

    assert!(String::from_utf8_lossy(&help.stdout).contains("--exchange"));
    let message =
        refused(dir.path(), &["bus", "run", "--name", &name, "--", "--exchnge", "same-cycle"]);
    assert!(message.contains("--exchnge") && message.contains("what follows --"), "{message}");
}

#[test]
fn lines_to_be_pasted_are_quoted() {
    let dir = tempfile::tempdir().unwrap();
    let words = [
        "measure",
        "timer",
        "--for",
        "100ms",
        "--spikes-over",
        "1ns",
        "--priority",
        "0",
        "--no-causes",
    ];
    done(dir.path(), &[&words[..], &["--out", "my runs; $x"]].concat());
    let latest = "my runs; $x/latest";
    let message =
        refused(dir.path(), &["export", latest, "--spike", "123456789", "--perfetto", "-"]);
    let line = message
        .split("spikes, and ")
        .nth(1)
        .and_then(|rest| rest.split(" shows them").next())
        .unwrap();
    // The shell takes it for what was typed: the list comes.
    let path = format!(
        "{}:{}",
        Path::new(env!("CARGO_BIN_EXE_onbeat")).parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let output = Command::new("sh")
        .args(["-c", line])
        .env("PATH", path)
        .current_dir(dir.path())
        .output()
        .unwrap();

    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("spikes, worst first"));
}
