//! What another user, another process or a mistake puts where onbeat looks for rings stops no
//! command, and is named.

use crate::equipment;

use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use tempfile::TempDir;

/// A user who is neither root nor anyone who owns files here.
const ANOTHER_USER: u32 = 65534;
const SHARED: &str = "/dev/shm";
/// Time limit of a command, in s: it is ended from outside then, and the test fails.
const TIME_LIMIT_S: &str = "60";

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A directory of rings of this user, and one for everything else.
struct Stage {
    rings: TempDir,
    other: TempDir,
}

impl Stage {
    fn new() -> Self {
        let [rings, other] = [(), ()].map(|()| tempfile::tempdir().unwrap());
        fs::set_permissions(rings.path(), Permissions::from_mode(0o700)).unwrap();
        Self { rings, other }
    }

    fn ring(&self, name: &str) -> PathBuf {
        self.rings.path().join(name)
    }

    fn equipped(&self, command: &mut Command) {
        command
            .current_dir(self.other.path())
            .env("LC_ALL", "C")
            .env("ONBEAT_STATE_DIR", self.other.path().join("state"))
            .env("ONBEAT_RUNTIME_DIR", self.rings.path())
            .stdin(Stdio::null());
    }

    /// A command that is killed if it does not end.
    fn onbeat(&self, words: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", TIME_LIMIT_S, env!("CARGO_BIN_EXE_onbeat")]).args(words);
        self.equipped(&mut command);
        command
    }

    fn ended(&self, words: &[&str]) -> Output {
        let output = self.onbeat(words).output().unwrap();
        assert_eq!(output.status.signal(), None, "{words:?} did not end");
        output
    }

    /// Runs a command that must succeed; returns what it reports.
    fn done(&self, words: &[&str]) -> String {
        let output = self.ended(words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", errors(&output));
        errors(&output)
    }
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn pipe_at(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
}

/// Removes a file at its end.
struct Planted(PathBuf);

impl Drop for Planted {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

// ---- what others make

#[test]
fn a_pipe_of_another_user_stops_no_command_and_is_not_looked_at() {
    let stage = Stage::new();
    let name = format!("x-{}", std::process::id());
    let directory = Path::new(SHARED).join(format!("onbeat-{ANOTHER_USER}"));
    let _planted = [
        Planted(Path::new(SHARED).join(format!("onbeat:{name}:y"))),
        Planted(directory.join(format!("{name}:y"))),
    ];
    if is_root() {
        let id = ANOTHER_USER.to_string();
        let script = format!(
            "mkfifo {SHARED}/onbeat:{name}:y && mkdir -pm 700 {0} && mkfifo {0}/{name}:y",
            directory.display()
        );
        let mut make = Command::new("setpriv");
        make.args(["--reuid", &id, "--regid", &id, "--clear-groups", "sh", "-c", &script]);
        assert!(make.status().unwrap().success());
    } else {
        println!("skipped: the directory of another user, which needs root");
        pipe_at(&Path::new(SHARED).join(format!("onbeat:{name}:y")));
    }

    for words in [
        &["repair"][..],
        &["message", "list"],
        &["measure", "timer", "--for", "100ms", "--priority", "0", "--no-causes"],
    ] {
        // In a directory of its own, and in those that are used without a choice.
        for is_chosen in [true, false] {
            let mut command = stage.onbeat(words);
            if !is_chosen {
                command.env_remove("ONBEAT_RUNTIME_DIR");
            }
            let output = command.output().unwrap();
            let said = errors(&output);
            assert_eq!(output.status.code(), Some(0), "{words:?}: {said}");
            assert!(!said.contains(&name), "it is not looked at: {said}");
        }
    }
    let _ = fs::remove_file(directory.join(format!("{name}:y")));
    let _ = fs::remove_dir(directory);
}

#[test]
fn whatever_has_the_name_of_a_ring_blocks_nothing_and_is_named_once() {
    let stage = Stage::new();
    let mut planted = vec![("pipe:a", "it is a pipe"), ("link:a", "it is a link")];
    pipe_at(&stage.ring("pipe:a"));
    fs::write(stage.other.path().join("precious"), "precious").unwrap();
    symlink(stage.other.path().join("precious"), stage.ring("link:a")).unwrap();
    fs::create_dir(stage.ring("directory:a")).unwrap();
    planted.push(("directory:a", "it is a directory"));
    let _listening = UnixListener::bind(stage.ring("socket:a")).unwrap();
    planted.push(("socket:a", "it is a socket"));
    fs::write(stage.ring("bytes:a"), [b'x'; 4096]).unwrap();
    planted.push(("bytes:a", "it begins with other bytes"));
    fs::write(stage.ring("open:a"), [b'x'; 4096]).unwrap();
    fs::set_permissions(stage.ring("open:a"), Permissions::from_mode(0o666)).unwrap();
    planted.push(("open:a", "others than its owner can write it (mode 0666)"));
    if is_root() {
        let mode = Mode::from_raw_mode(0o600);
        let zero = stage.ring("device:a");
        mknodat(CWD, &zero, FileType::CharacterDevice, mode, makedev(1, 5)).unwrap();
        planted.push(("device:a", "it is a device"));
        fs::write(stage.ring("theirs:a"), [b'x'; 4096]).unwrap();
        chown(stage.ring("theirs:a"), Some(ANOTHER_USER), None).unwrap();
        planted.push(("theirs:a", "it belongs to user 65534"));
    } else {
        println!("skipped: devices and files of another user, which need root");
    }

    for words in [&["message", "list"][..], &["repair"]] {
        let said = stage.done(words);
        for (name, reason) in &planted {
            let path = stage.ring(name);
            let lines: Vec<&str> =
                said.lines().filter(|line| line.contains(path.to_str().unwrap())).collect();
            assert_eq!(lines.len(), 1, "{words:?} {name}: {said}");
            assert!(lines[0].contains(reason), "{words:?}: {}", lines[0]);
        }
    }
    for (name, reason) in &planted {
        assert!(fs::symlink_metadata(stage.ring(name)).is_ok(), "{name} is not onbeat's to remove");
        let channel = name.replace(':', "/");
        for words in [&["message", "echo", &channel][..], &["message", "type", &channel]] {
            let output = stage.ended(words);
            let said = errors(&output);
            assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
            assert!(said.contains(reason), "{words:?}: {said}");
        }
    }
    assert_eq!(fs::read_to_string(stage.other.path().join("precious")).unwrap(), "precious");
}

#[test]
fn a_directory_that_others_could_have_filled_is_refused_in_one_sentence() {
    let stage = Stage::new();
    let refused_as = |reason: &str| {
        for words in [&["message", "list"][..], &["message", "echo", "walker/cycle"], &["repair"]] {
            let output = stage.ended(words);
            let said = errors(&output);
            assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
            assert_eq!(said.lines().count(), 1, "{words:?}: {said}");
            assert!(said.contains(reason) && said.contains("ONBEAT_RUNTIME_DIR"), "{said}");
        }
    };

    fs::set_permissions(stage.rings.path(), Permissions::from_mode(0o777)).unwrap();
    refused_as("is not used for shared objects: others than its owner can write it (mode 0777)");
    fs::set_permissions(stage.rings.path(), Permissions::from_mode(0o700)).unwrap();
    if is_root() {
        chown(stage.rings.path(), Some(ANOTHER_USER), None).unwrap();
        refused_as("it belongs to user 65534, and user 0 does not trust its content");
        chown(stage.rings.path(), Some(0), None).unwrap();
    } else {
        println!("skipped: a directory of another user, which needs root");
    }
    stage.done(&["message", "list"]);
}

#[test]
fn a_sparse_ring_of_4_gib_costs_neither_time_nor_memory() {
    let stage = Stage::new();
    let file = File::create(stage.ring("sparse:a")).unwrap();
    file.set_len(4 << 30).unwrap();
    file.write_all_at(&header(4 << 30), 0).unwrap();
    let file = File::create(stage.ring("smaller:a")).unwrap();
    file.set_len(1 << 29).unwrap();
    file.write_all_at(&header(1 << 29), 0).unwrap();

    let mut command = Command::new("python3");
    let words = ["-c", PEAK, env!("CARGO_BIN_EXE_onbeat"), "message", "list"];
    stage.equipped(command.args(words));
    let output = command.output().unwrap();
    let said = errors(&output);
    let peak_kb: u64 =
        String::from_utf8_lossy(&output.stdout).lines().last().unwrap().parse().unwrap();
    assert!(said.contains("it has 4096 MiB, and at most 1536 MiB are read"), "{said}");
    assert!(said.contains("is not a complete ring: its header states 536870912 bytes"), "{said}");
    assert!(peak_kb > 0 && peak_kb < 200_000, "{peak_kb} kB");
}

/// The header of a ring of this size, with two slots and without texts.
fn header(bytes: u64) -> [u8; 384] {
    let mut header = [0; 384];
    let (slots_at, slots) = (384, 2);
    let slot = (bytes - slots_at) / slots / 64 * 64;
    let words = [
        (0, u64::from_le_bytes(*b"ONBEATRG")),
        (1, 1),
        (2, slots_at + slots * slot),
        (3, 1),
        (4, 1),
        (5, 1),
        (6, slots),
        (7, slot),
        (8, slots_at),
        (10, slots_at),
    ];
    for (word, value) in words {
        header[word * 8..word * 8 + 8].copy_from_slice(&value.to_ne_bytes());
    }
    header
}

/// Starts a command, and prints the largest resident size that it had, in kB, behind its output: what the
/// kernel has counted, however short it ran.
const PEAK: &str = "import resource, subprocess, sys
ended = subprocess.run(sys.argv[1:], timeout=60)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(ended.returncode)";

// ---- truncation

#[test]
fn a_robot_lives_on_when_its_ring_is_truncated_and_it_and_its_reader_report_it() {
    for options in [&[][..], &["--lockdown"]] {
        let stage = Stage::new();
        let robot = ["robot", "run", "humanoid", "--trajectory", "gait", "--name", "walker"];
        let thread = ["--period", "5ms", "--priority", "0", "--no-causes", "--for", "10s"];
        let words = [&robot[..], &thread, options].concat();
        let mut robot = stage.onbeat(&words);
        let robot = robot.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let ring = stage.ring("walker:cycle");
        let began = Instant::now();
        while !ring.exists() && began.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let words = ["message", "echo", "walker/cycle", "--fields", "cycle"];
        let mut echo = stage.onbeat(&words);
        let mut echo = echo.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // With its first record the reader has the ring open.
        let mut records = BufReader::new(echo.stdout.take().unwrap());
        let mut first = String::new();
        records.read_line(&mut first).unwrap();
        assert!(first.contains("cycle"), "\"{first}\": {:?}", echo.wait_with_output());
        // A pipe that is full would stop the reader.
        let rest = std::thread::spawn(move || records.lines().count());
        File::options().write(true).open(&ring).unwrap().set_len(4096).unwrap();

        let echo = echo.wait_with_output().unwrap();
        rest.join().unwrap();
        let said = errors(&echo);
        assert_eq!(echo.status.code(), Some(2), "{said}");
        assert!(said.contains("the ring of walker/cycle was truncated"), "{said}");

        let robot = robot.wait_with_output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&robot.stdout), errors(&robot));
        assert!(matches!(robot.status.code(), Some(0 | 1)), "{:?}: {said}", robot.status);
        assert!(said.contains("the ring of walker/cycle was truncated"), "{said}");
        assert!(!ring.exists(), "it removed its file in order");
    }
}

// ---- clients in other languages

/// A client refuses each of a handful of planted files with a sentence, and none keeps it waiting.
fn refuses(stage: &Stage, open: impl Fn(&str) -> Command) {
    pipe_at(&stage.ring("pipe:a"));
    fs::write(stage.ring("bytes:a"), [b'x'; 4096]).unwrap();
    fs::write(stage.ring("open:a"), [b'x'; 4096]).unwrap();
    fs::set_permissions(stage.ring("open:a"), Permissions::from_mode(0o666)).unwrap();
    symlink(stage.ring("bytes:a"), stage.ring("link:a")).unwrap();
    File::create(stage.ring("sparse:a")).unwrap().set_len(4 << 30).unwrap();
    let mut huge = header(1 << 20);
    huge[64..72].copy_from_slice(&u64::MAX.to_ne_bytes());
    fs::write(stage.ring("huge:a"), [&huge[..], &[0; 8192]].concat()).unwrap();
    fs::write(stage.ring("short:a"), header(1 << 20)).unwrap();

    for (channel, reason) in [
        ("pipe/a", "it is a pipe, not a regular file"),
        ("link/a", "it is a link, not a regular file"),
        ("open/a", "others than its owner can write it (mode 0666)"),
        ("bytes/a", "it begins with other bytes"),
        ("sparse/a", "it has 4096 MiB, and at most 1536 MiB are read"),
        ("huge/a", "the sizes in its header contradict each other"),
        ("short/a", "its header states 1048576 bytes, and "),
        ("none/a", "channel none/a does not exist"),
    ] {
        let mut command = open(channel);
        stage.equipped(&mut command);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{channel}: {}", errors(&output));
        assert!(errors(&output).contains(reason), "{channel}: {}", errors(&output));
    }

    fs::set_permissions(stage.rings.path(), Permissions::from_mode(0o777)).unwrap();
    let mut command = open("none/a");
    stage.equipped(&mut command);
    let said = errors(&command.output().unwrap());
    assert!(said.contains("others than its owner can write it (mode 0777)"), "{said}");
}

/// A program that is killed if it does not end.
fn limited(program: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", TIME_LIMIT_S, program]);
    command
}

#[test]
fn python_refuses_planted_files() {
    let python = match equipment::python() {
        Ok(python) => python,
        Err(reason) => return println!("skipped: {reason}"),
    };
    let program = python.get_program().to_str().unwrap().to_owned();
    let program = fs::canonicalize(Path::new(&program).parent().unwrap()).unwrap().join("python");
    let source = equipment::root().canonicalize().unwrap().join("python/src");
    let script = "import sys, onbeat.ring\n\
        try:\n    onbeat.ring.open(sys.argv[1])\n\
        except onbeat.errors.OnbeatError as why:\n    print(why, file=sys.stderr)\n    sys.exit(3)\n";
    refuses(&Stage::new(), |channel| {
        let mut command = limited(program.to_str().unwrap());
        command.args(["-c", script, channel]).env("PYTHONPATH", &source);
        command
    });
}

#[test]
fn java_refuses_planted_files() {
    let stage = Stage::new();
    let root = equipment::root().canonicalize().unwrap();
    let sources = fs::read_dir(root.join("java/src/main/java/onbeat")).unwrap();
    let open = stage.other.path().join("Open.java");
    let code = "public class Open { public static void main(String[] words) {\n\
        try { onbeat.Ring.open(words[0]).close(); } catch (onbeat.OnbeatException why) {\n\
        System.err.println(why.getMessage()); System.exit(3); } } }\n";
    fs::write(&open, code).unwrap();
    let classes = stage.other.path().join("classes");
    let mut compile = Command::new("javac");
    compile.args(["--release", "8", "-Xlint:-options", "-d"]).arg(&classes);
    compile
        .args(sources.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()))
        .arg(&open);
    match compile.output() {
        Err(_) => {
            return println!("skipped: javac is not installed (package default-jdk-headless)");
        }
        Ok(output) => assert!(output.status.success(), "{}", errors(&output)),
    }

    refuses(&stage, |channel| {
        let mut command = limited("java");
        command.arg("-cp").arg(&classes).args(["Open", channel]);
        command
    });
}

#[test]
fn c_refuses_planted_files() {
    let stage = Stage::new();
    let root = equipment::root().canonicalize().unwrap();
    let source = stage.other.path().join("open.c");
    let code = "#define _POSIX_C_SOURCE 200809L\n#include \"onbeat_ring.h\"\n\
        int main(int count, char **words) { struct onbeat_ring ring;\n\
        if (count < 2 || onbeat_ring_open(&ring, words[1]) == ONBEAT_RING_OK) return 0;\n\
        fprintf(stderr, \"%s\\n\", ring.why); return 3; }\n";
    fs::write(&source, code).unwrap();
    let program = stage.other.path().join("open");
    let mut compile = Command::new("cc");
    compile.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"]);
    compile.arg(root.join("include")).arg(&source).arg("-o").arg(&program);
    match compile.output() {
        Err(_) => return println!("skipped: cc is not installed (package gcc)"),
        Ok(output) => assert!(output.status.success(), "{}", errors(&output)),
    }

    refuses(&stage, |channel| {
        let mut command = limited(program.to_str().unwrap());
        command.arg(channel);
        command
    });
}
