//! Clients in other languages read every cycle of a running robot, and learn of its end and of its
//! death.
//!
//! Python's packages are installed below `target/` on the first run, which needs the network then.
//! A client whose language is missing is counted as ignored, with the reason in its line.
#![allow(clippy::unwrap_used)]

use crate::equipment;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use equipment::{Robot, c, commands, java, octave, python, root, trial};
use libtest_mimic::Trial;
use serde_json::Value;

/// Reason of a safe stop: the commander is lost.
const BY_COMMANDER: u8 = 3;
/// Time of a robot that ends by itself: on a busy machine a language takes seconds to start, and
/// the ring keeps all cycles of this time, however late it reads.
const WHILE: &str = "6s";

pub(crate) fn trials() -> Vec<Trial> {
    let tests = [
        trial("clients_read_cycles::python_reads_every_cycle_of_a_robot", python, reads_at_once),
        trial(
            "clients_read_cycles::python_reads_every_cycle_at_its_own_pace",
            python,
            reads_slowly,
        ),
        trial(
            "clients_read_cycles::python_learns_of_the_death_of_a_robot",
            python,
            python_sees_death,
        ),
        trial("clients_read_cycles::c_reads_every_cycle_of_a_robot", c, c_reads_all),
        trial("clients_read_cycles::java_reads_every_cycle_of_a_robot", java, java_reads_all),
        trial("clients_read_cycles::octave_reads_every_cycle_of_a_robot", octave, octave_reads_all),
        trial(
            "clients_read_cycles::a_robot_stops_safely_when_its_python_script_is_killed",
            commands,
            killed_python,
        ),
        trial(
            "clients_read_cycles::a_humanoid_stops_safely_when_its_octave_script_is_killed",
            octave,
            killed_octave,
        ),
        trial(
            "clients_read_cycles::a_robot_that_takes_commands_and_stands_says_why",
            || Ok(()),
            says_why_it_stands,
        ),
    ];
    Vec::from(tests)
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
    let robot = Robot::start(WHILE);
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
    assert_eq!(seen["at_end"], serde_json::json!(["onbeat:ring:ended", "onbeat:ring"]), "{seen}");
}

fn python_sees_death(command: Command) {
    let mut robot = Robot::start("60s");
    let client = follow(command, &[&robot.channel(), "0"]);
    let pid = robot.child.id();
    // What was published can be read afterwards, however late the client is.
    equipment::has_published(&robot, 500);
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

/// All records from the first one, in their order, and at least one for each slot of the loop.
fn saw_every_cycle(seen: &Value, slots: u64) {
    assert_eq!(
        (seen["first"].as_u64(), seen["in_order"].as_bool()),
        (Some(1), Some(true)),
        "{seen}"
    );
    assert_eq!((seen["count"].clone(), seen["lost"].as_u64()), (seen["last"].clone(), Some(0)));
    assert!(seen["count"].as_u64().unwrap() >= slots, "{seen}");
}

fn c_reads_all(command: Command) {
    let robot = Robot::start(WHILE);
    let client = follow(command, &[&robot.channel()]);
    let summary = robot.summary();
    let seen = result(client);

    saw_every_cycle(&seen, slots(&summary));
    assert_eq!((seen["joints"].as_u64(), seen["ended"].as_i64()), (Some(48), Some(-3)));
}

fn java_reads_all(command: Command) {
    let robot = Robot::start(WHILE);
    let client = follow(command, &[&robot.channel()]);
    let summary = robot.summary();
    let seen = result(client);

    saw_every_cycle(&seen, slots(&summary));
    assert!(seen["columns"].as_u64().unwrap() > 2, "{seen}");
    assert_eq!(seen["ended"].as_str(), Some("onbeat:ring:ended"));
}

fn octave_reads_all(command: Command) {
    let robot = Robot::start(WHILE);
    let (repository, classes) = (root(), root().join("target/clients-java"));
    let (script, channel) = (repository.join("tests/clients/cycles.m"), robot.channel());
    let words = [script.as_path(), Path::new(&channel), &repository, &classes];
    let words = words.map(|word| word.to_str().unwrap());
    let client = follow(command, &words);
    let summary = robot.summary();
    let seen = result(client);

    saw_every_cycle(&seen, slots(&summary));
    assert_eq!(seen["ended"].as_str(), Some("onbeat:ring:ended"));
}

fn killed_python(mut command: Command) {
    let robot = Robot::commanded();
    command.args([&robot.name, "kill", "4"]);
    let seen = stops_after_kill(robot, command);
    assert_eq!(seen["moved_by_refused_rad"].as_f64(), Some(0.0), "{seen}");
}

/// The humanoid, at 100 Hz for 10 s, beside every cycle at 1 kHz.
fn killed_octave(mut command: Command) {
    // Above what else runs on the machine: an ordinary robot beside builds skips a tenth of its cycles.
    let robot = Robot::humanoid("1ms", "30");
    let (repository, classes) = (root(), root().join("target/clients-java"));
    command.arg(repository.join("tests/clients/commands.m"));
    command.args([&robot.name, "10"]).arg(repository).arg(classes);
    let seen = stops_after_kill(robot, command);
    assert_eq!(seen["commands"].as_u64(), Some(1000), "{seen}");
    assert_eq!(seen["period_ns"].as_u64(), Some(1_000_000), "{seen}");
    // Each release of the grid was a cycle that was read, or the robot reported it as skipped.
    let [ms, periods] = ["ms", "periods"].map(|key| seen[key].as_f64().unwrap());
    assert!(ms > 9_000.0 && (ms - periods).abs() < 0.5, "{seen}");
}

/// A script commands a joint at 100 Hz, reads every cycle meanwhile, and is killed.
fn stops_after_kill(mut robot: Robot, mut script: Command) -> Value {
    let mut client = script.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(client.stdout.take().unwrap()).read_line(&mut line).unwrap();
    client.kill().unwrap();
    client.wait().unwrap();
    let seen: Value = serde_json::from_str(&line).unwrap();
    let [count, first, last, lost] =
        ["count", "first", "last", "lost"].map(|key| seen[key].as_u64().unwrap());
    assert_eq!((count, lost), (last - first + 1, 0), "every cycle: {seen}");
    assert!(seen["refused"].as_str().unwrap().contains("outside the travel"), "{seen}");
    assert!(seen["commands"].as_u64().unwrap() > 0, "{seen}");
    assert!(seen["travelled_rad"].as_f64().unwrap() > 0.1, "{seen}");

    let mut bus = onbeat_control::Client::open(&robot.name).unwrap();
    let mut cycle = bus.snapshot();
    let began = std::time::Instant::now();
    loop {
        bus.read(&mut cycle).unwrap();
        if let Some(robot) = cycle.robot.filter(onbeat_ethercat::step::RobotState::is_stopped) {
            assert_eq!(robot.stopped_by, BY_COMMANDER);
            break;
        }
        assert!(began.elapsed().as_secs() < 60, "the robot stops safely");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    robot.child.kill().unwrap();
    robot.child.wait().unwrap();
    let _ = onbeat_control::remove_leftovers();
    seen
}

/// The robot's process is stopped and continued, as on a machine without CPU time for it.
fn says_why_it_stands((): ()) {
    let robot = Robot::humanoid("2ms", "0");
    let signal = |name: &str| {
        equipment::done(Command::new("kill").args([name, &robot.child.id().to_string()]));
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command.args(["message", "command", &robot.name, "--lifetime", "60s"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&said.next().unwrap().unwrap()).unwrap() };
    assert!(next()["joints"].is_array());

    signal("-STOP");
    writeln!(child.stdin.as_ref().unwrap(), "left knee=0.3").unwrap();
    // A robot that was stopped while it enabled its drives is first said to do that.
    let is_silent = |said: Value| said["waiting"].to_string().contains("its last cycle was");
    while !is_silent(next()) {}
    signal("-CONT");
    // Other reasons may follow until it runs.
    while next()["waiting"] != "" {}
    child.kill().unwrap();
    child.wait().unwrap();
}
