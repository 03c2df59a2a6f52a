//! Misuse of commands, by what they are given: pipes for inputs, no room for threads, directories
//! that cannot be used, words that need quoting. Each ends in one sentence.

use crate::abused_stage;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use abused_stage::{done, ended, names, refused, stage, stderr_of};

fn pipe_at(path: &Path) -> PathBuf {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    path.to_owned()
}

// ---- inputs that are not regular files

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

/// The first of the users of whom no other process runs, so that what counts against the limit is
/// what this test starts: one for each command.
const LONELY: u32 = 61_803;

fn limited(dir: &Path, user: u32, most: u32, words: &[&str]) -> Output {
    let root = rustix::process::geteuid().is_root();
    let user = user.to_string();
    let work = dir.join("work").join(&user);
    let mut command = Command::new(if root { "setpriv" } else { "prlimit" });
    if root {
        command.args([
            "--reuid",
            &user,
            "--regid",
            &user,
            "--clear-groups",
            "--inh-caps=-all",
            "prlimit",
        ]);
    }

    command.arg(format!("--nproc={most}:{most}")).arg(dir.join("onbeat")).args(words);
    fs::create_dir_all(&work).unwrap();
    fs::set_permissions(&work, fs::Permissions::from_mode(0o777)).unwrap();
    command.current_dir(&work).env("LC_ALL", "C").env("ONBEAT_STATE_DIR", work.join("state"));
    command.env("HOME", &work).stdin(Stdio::null()).output().unwrap()
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
    // As many as the commands come to need; others of the same user count too, unless root picks
    // one.
    let most = if rustix::process::geteuid().is_root() { 5 } else { 1 };

    if most == 1 {
        println!(
            "skipped in part: only root can choose a user without processes, so no limit but 1 is tried"
        );
    }

    // All commands at once, each of a user of its own: they mostly wait.
    std::thread::scope(|scope| {
        for (words, user) in commands.iter().zip(LONELY..) {
            let dir = dir.path();
            scope.spawn(move || {
                for limit in 1..=most {
                    works_or_says_why(&limited(dir, user, limit, words), words, limit);
                }
            });
        }
    });
}

fn works_or_says_why(output: &Output, words: &[&str], limit: u32) {
    let message = stderr_of(output);
    assert!(!message.contains("panicked"), "{words:?} with {limit}: {message}");
    match output.status.code() {
        // A robot that a busy machine held up comes to rest by a safe stop: it has worked.
        Some(0) => assert!(limit > 1, "{words:?} needs a thread"),
        Some(1) if words[0] == "robot" => assert!(limit > 1, "{words:?} needs a thread"),
        Some(2) => {
            let sentences = message.lines().filter(|line| line.starts_with("onbeat: ")).count();
            assert_eq!(sentences, 1, "{words:?} with {limit}: {message}");
            assert!(
                message.contains("Resource temporarily unavailable"),
                "{words:?} with {limit}: {message}"
            );
        }
        other => panic!("{words:?} with {limit}: {other:?}: {message}"),
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
fn a_load_whose_part_died_did_not_run() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["load", "cpu=1%+run:exit 3", "--for", "1s"];
    let output = ended(dir.path(), &words);
    let said = stderr_of(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("load part run died: exit status: 3"), "{said}");
    let sentence =
        "onbeat: the load cpu=1%+run:exit 3 did not run to its end: run died: exit status: 3";
    assert!(said.lines().any(|line| line == sentence), "{said}");
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

#[test]
fn what_a_killed_onbeat_left_is_undone_on_a_full_disk() {
    let dir = tempfile::tempdir().unwrap();
    let journals = dir.path().join("state/journal");
    fs::create_dir_all(&journals).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let boot = boot.trim();
    // The load of a bench, whose processes have ended.
    let text = format!(
        r#"{{"onbeat_journal":1,"version":"0","boot_id":"{boot}","owner":{{"tid":4194304,"start_ticks":1}},"started_unix_s":0,"purpose":"bench","command":"onbeat bench"}}
{{"intent":{{"step":1,"id":"load","key":{{"session":{{"sid":2147483647,"start_ticks":1}}}},"old":"absent","new":"running"}}}}
"#
    );
    let journal = journals.join("20261122T000000Z-1-01.journal");
    fs::write(&journal, text).unwrap();
    // Whatever the umask: a journal that others can write is refused.
    for (path, mode) in [(&journals, 0o700), (&journal, 0o600)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    // A limit on the size of files stands for the disk.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 0; exec \"$0\" repair", env!("CARGO_BIN_EXE_onbeat")]);
    let output = command.env("ONBEAT_STATE_DIR", dir.path().join("state")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr_of(&output));
    assert!(!journal.exists(), "it is settled");
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
