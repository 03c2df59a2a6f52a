//! Clients in other languages read every cycle of a running robot, and learn of its end and of its
//! death.
//!
//! Python's packages are installed below `target/` on the first run, which needs the network then.
//! A client whose language is missing is counted as ignored, with the reason in its line.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::sync::OnceLock;

use libtest_mimic::{Arguments, Completion, Trial};
use serde_json::Value;

fn main() -> ExitCode {
    let tests = [
        trial("python_reads_every_cycle_of_a_robot", python, reads_at_once),
        trial("python_reads_every_cycle_at_its_own_pace", python, reads_slowly),
        trial("python_learns_of_the_death_of_a_robot", python, python_sees_death),
        trial("c_reads_every_cycle_of_a_robot", c, c_reads_all),
        trial("java_reads_every_cycle_of_a_robot", java, java_reads_all),
        trial("octave_reads_every_cycle_of_a_robot", octave, octave_reads_all),
        trial("a_robot_stops_safely_when_its_python_script_is_killed", commands, killed_python),
        trial("a_robot_stops_safely_when_its_octave_script_is_killed", octave, killed_octave),
    ];
    libtest_mimic::run(&Arguments::from_args(), Vec::from(tests)).exit_code()
}

type Equip = fn() -> Result<Command, String>;

fn trial(name: &str, equip: Equip, body: fn(Command)) -> Trial {
    Trial::ignorable_test(name, move || match equip() {
        Err(reason) => Ok(Completion::ignored_with(reason)),
        Ok(command) => {
            body(command);
            Ok(Completion::Completed)
        }
    })
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Python with numpy, and the package of this repository.
fn python() -> Result<Command, String> {
    let place = root().join("target/clients-venv");
    let program = place.join("bin/python");
    let works = || {
        let imports = Command::new(&program).args(["-c", "import numpy"]).output();
        imports.is_ok_and(|output| output.status.success())
    };
    if !works() {
        let made = Command::new("python3").args(["-m", "venv"]).arg(&place).output();
        if !made.is_ok_and(|output| output.status.success()) {
            return Err("python3 with venv is not installed (package python3-venv)".to_owned());
        }
        let _ = Command::new(&program).args(["-m", "pip", "install", "-q", "numpy"]).output();
    }
    if !works() {
        return Err("numpy cannot be installed: no network, or not for this Python".to_owned());
    }

    let mut command = Command::new(program);
    command.arg(root().join("tests/clients/cycles.py"));
    command.env("PYTHONPATH", root().join("python/src"));
    Ok(command)
}

/// A program from the header of this repository and a generated one, as a new user would build it;
/// as C++ too.
fn c() -> Result<Command, String> {
    let folder = root().join("target/clients-c");
    std::fs::create_dir_all(&folder).unwrap();
    let generated = Command::new(env!("CARGO_BIN_EXE_onbeat"))
        .args(["message", "generate", "c", "onbeat_msgs/msg/Cycle"])
        .output()
        .unwrap();
    assert!(generated.status.success());
    std::fs::write(folder.join("cycle.h"), generated.stdout).unwrap();

    for (compiler, language) in [("c++", ["-std=c++17", "-xc++"]), ("cc", ["-std=c11", "-xc"])] {
        let mut compile = Command::new(compiler);
        compile.args(language).args(["-O1", "-Wall", "-Wextra", "-Werror", "-I"]);
        compile.arg(root().join("include")).arg("-I").arg(&folder);
        compile.arg(root().join("tests/clients/cycles.c"));
        match compile.arg("-o").arg(folder.join("cycles")).output() {
            Err(_) => return Err(format!("{compiler} is not installed (package g++)")),
            Ok(output) => {
                let errors = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{errors}");
            }
        }
    }
    Ok(Command::new(folder.join("cycles")))
}

/// The Java client, compiled for Java 8, as its jar is.
fn java() -> Result<Command, String> {
    static COMPILED: OnceLock<Result<(), String>> = OnceLock::new();
    COMPILED.get_or_init(compile_java).clone()?;
    let mut command = Command::new("java");
    command.arg("-cp").arg(root().join("target/clients-java")).arg("Cycles");
    Ok(command)
}

fn compile_java() -> Result<(), String> {
    let sources = std::fs::read_dir(root().join("java/src/main/java/onbeat")).unwrap();
    let mut compile = Command::new("javac");
    compile.args(["--release", "8", "-Xlint:all,-options", "-Werror", "-d"]);
    compile.arg(root().join("target/clients-java"));
    compile.args(sources.map(|entry| entry.unwrap().path()));
    compile.arg(root().join("tests/clients/Cycles.java"));
    let output = compile
        .output()
        .map_err(|_| "javac is not installed (package default-jdk-headless)".to_owned())?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Octave with the functions of this repository over the Java client.
fn octave() -> Result<Command, String> {
    java()?;
    let is_there = Command::new("octave").arg("--version").output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        return Err("octave is not installed (package octave)".to_owned());
    }

    // Debian's Octave looks for Java where another package would put a link.
    let java = Command::new("sh").args(["-c", "readlink -f \"$(command -v java)\""]).output();
    let path = PathBuf::from(String::from_utf8(java.unwrap().stdout).unwrap().trim());
    let home = path.ancestors().nth(2).unwrap().to_owned();
    let mut command = Command::new("octave");
    command.env("JAVA_HOME", home).args(["--quiet", "--no-window-system"]);
    command.env("ONBEAT", env!("CARGO_BIN_EXE_onbeat"));
    Ok(command)
}

fn commands() -> Result<Command, String> {
    let python = python()?;
    let mut command = Command::new(python.get_program());
    command.arg(root().join("tests/clients/commands.py"));
    command.env("PYTHONPATH", root().join("python/src"));
    command.env("ONBEAT", env!("CARGO_BIN_EXE_onbeat"));
    Ok(command)
}

/// A walking robot of simulated devices; killed on drop.
struct Robot {
    child: Child,
    name: String,
    _folder: tempfile::TempDir,
}

impl Robot {
    fn start(duration: &str) -> Self {
        Self::of("humanoid", &["--trajectory", "gait", "--for", duration])
    }

    /// A robot of two joints that is moved by commands; ends after a minute.
    fn commanded() -> Self {
        let file = root().join("tests/clients/two_joints.toml");
        let options = ["--trajectory", "commander", "--period", "5ms", "--for", "60s"];
        Self::of(file.to_str().unwrap(), &options)
    }

    fn of(file: &str, options: &[&str]) -> Self {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let place = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("clients-{}-{place}", std::process::id());
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
        command.args(["robot", "run", file, "--name", &name]).args(options);
        command.args(["--priority", "0", "--no-causes", "--json"]);
        command.arg("--out").arg(folder.path()).env("ONBEAT_STATE_DIR", folder.path());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        Self { child, name, _folder: folder }
    }

    fn channel(&self) -> String {
        format!("{}/cycle", self.name)
    }

    /// Waits for its end; returns its summary.
    fn summary(mut self) -> Value {
        let mut said = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        self.child.wait().unwrap();
        serde_json::from_str(&said).unwrap_or_else(|why| panic!("{why}: {said}"))
    }
}

impl Drop for Robot {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a client and waits until it has opened the channel.
fn follow(mut command: Command, words: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let mut client = command.args(words).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(client.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "open\n");
    (client, said)
}

fn result((mut client, mut said): (Child, BufReader<ChildStdout>)) -> Value {
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(client.wait().unwrap().success());
    serde_json::from_str(&line).unwrap()
}

/// Cycles that the robot's own run file counts, the warm-up included.
fn slots(summary: &Value) -> u64 {
    let cell = &summary["run"]["cells"][0];
    let count = |key: &str| cell[key].as_u64().unwrap_or_else(|| panic!("{key}: {summary}"));
    count("cycles")
}

fn reads_at_once(command: Command) {
    reads_all(command, "0");
}

/// With a pause between two looks, in which hundreds of cycles pass.
fn reads_slowly(command: Command) {
    reads_all(command, "0.7");
}

fn reads_all(command: Command, pace: &str) {
    let robot = Robot::start("3s");
    let client = follow(command, &[&robot.channel(), pace]);
    let summary = robot.summary();
    let seen = result(client);

    assert_eq!((seen["first"].as_u64(), seen["in_order"].as_bool()), (Some(1), Some(true)));
    assert_eq!(seen["count"], seen["last"], "every record from the first one: {seen}");
    assert_eq!(seen["stats"]["lost"].as_u64(), Some(0));
    assert!(seen["count"].as_u64().unwrap() >= slots(&summary), "{seen}");
    assert_eq!(seen["agrees"].as_bool(), Some(true), "{seen}");
    assert_eq!(seen["type"].as_str(), Some("onbeat_msgs/msg/Cycle"));
    assert!(seen["ended"].as_str().unwrap().ends_with("has ended"), "{seen}");
}

fn python_sees_death(command: Command) {
    let mut robot = Robot::start("60s");
    let client = follow(command, &[&robot.channel(), "0"]);
    let pid = robot.child.id();
    // A second of cycles, by the clock of the robot: what was published can be read afterwards.
    std::thread::sleep(std::time::Duration::from_secs(1));
    robot.child.kill().unwrap();
    robot.child.wait().unwrap();

    let seen = result(client);
    let ended = seen["ended"].as_str().unwrap();
    assert!(ended.contains(&format!("process {pid}, is gone")), "{seen}");
    assert_eq!(
        (seen["count"].clone(), seen["stats"]["lost"].as_u64()),
        (seen["last"].clone(), Some(0))
    );
    // Another robot that starts removes it too.
    let _ = onbeat_control::remove_leftovers();
    assert!(onbeat_control::channels().iter().all(|channel| channel.name() != robot.name));
}

fn c_reads_all(command: Command) {
    let robot = Robot::start("3s");
    let client = follow(command, &[&robot.channel()]);
    let summary = robot.summary();
    let seen = result(client);

    assert_eq!(
        (seen["first"].as_u64(), seen["in_order"].as_bool()),
        (Some(1), Some(true)),
        "{seen}"
    );
    assert_eq!((seen["count"].clone(), seen["lost"].as_u64()), (seen["last"].clone(), Some(0)));
    assert!(seen["count"].as_u64().unwrap() >= slots(&summary), "{seen}");
    assert_eq!((seen["joints"].as_u64(), seen["ended"].as_i64()), (Some(48), Some(-3)));
}

fn java_reads_all(command: Command) {
    let robot = Robot::start("3s");
    let client = follow(command, &[&robot.channel()]);
    let summary = robot.summary();
    let seen = result(client);

    assert_eq!(
        (seen["first"].as_u64(), seen["in_order"].as_bool()),
        (Some(1), Some(true)),
        "{seen}"
    );
    assert_eq!((seen["count"].clone(), seen["lost"].as_u64()), (seen["last"].clone(), Some(0)));
    assert!(seen["count"].as_u64().unwrap() >= slots(&summary), "{seen}");
    assert!(seen["columns"].as_u64().unwrap() > 2, "{seen}");
    assert_eq!(seen["ended"].as_str(), Some("onbeat:ring:ended"));
}

fn octave_reads_all(command: Command) {
    let robot = Robot::start("6s");
    let (repository, classes) = (root(), root().join("target/clients-java"));
    let (script, channel) = (repository.join("tests/clients/cycles.m"), robot.channel());
    let words = [script.as_path(), Path::new(&channel), &repository, &classes];
    let words = words.map(|word| word.to_str().unwrap());
    let client = follow(command, &words);
    let summary = robot.summary();
    let seen = result(client);

    assert_eq!(
        (seen["first"].as_u64(), seen["in_order"].as_bool()),
        (Some(1), Some(true)),
        "{seen}"
    );
    assert_eq!((seen["count"].clone(), seen["lost"].as_u64()), (seen["last"].clone(), Some(0)));
    assert!(seen["count"].as_u64().unwrap() >= slots(&summary), "{seen}");
    assert_eq!(seen["ended"].as_str(), Some("onbeat:ring:ended"));
}

fn killed_python(mut command: Command) {
    let robot = Robot::commanded();
    command.args([&robot.name, "kill", "4"]);
    stops_after_kill(robot, command);
}

fn killed_octave(mut command: Command) {
    let robot = Robot::commanded();
    let (repository, classes) = (root(), root().join("target/clients-java"));
    command.arg(repository.join("tests/clients/commands.m"));
    command.args([&robot.name, "10"]).arg(repository).arg(classes);
    stops_after_kill(robot, command);
}

/// A script commands a joint at 100 Hz, reads every cycle meanwhile, and is killed.
fn stops_after_kill(mut robot: Robot, mut script: Command) {
    let mut client = script.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(client.stdout.take().unwrap()).read_line(&mut line).unwrap();
    client.kill().unwrap();
    client.wait().unwrap();
    let seen: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((seen["count"].clone(), seen["lost"].as_u64()), (seen["last"].clone(), Some(0)));
    assert!(seen["refused"].as_str().unwrap().contains("outside the travel"), "{seen}");
    assert!(seen["commands"].as_u64().unwrap() > 0, "{seen}");
    assert!(seen["travelled_rad"].as_f64().unwrap() > 0.1, "{seen}");

    let mut bus = onbeat_control::Client::open(&robot.name).unwrap();
    let mut cycle = bus.snapshot();
    let began = std::time::Instant::now();
    loop {
        bus.read(&mut cycle).unwrap();
        if cycle.robot.is_some_and(|robot| robot.is_stopped()) {
            break;
        }
        assert!(began.elapsed().as_secs() < 60, "the robot stops safely");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    robot.child.kill().unwrap();
    robot.child.wait().unwrap();
    let _ = onbeat_control::remove_leftovers();
}
