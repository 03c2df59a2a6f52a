//! A robot is commanded from another computer, which is a network namespace of its own: the humanoid walks on commands in Python, Java
//! and Octave; a cut cable, a killed and a stopped computer leave a robot that stops safely; a third party on the network moves nothing.
//!
//! Without root, `ip`, or a language, a test is counted as ignored, with the reason in its line.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::equipment;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use equipment::{Robot, commands, done, octave, root, trial};
use libtest_mimic::Trial;
use onbeat_control::{Client, Reading, RingReader, Start};
use onbeat_ethercat::step::RobotState;
use onbeat_message::{TypeSet, Value};

/// Longest wait for a robot that moves, or stops.
const PATIENCE: Duration = Duration::from_secs(120);
/// Reason of a safe stop: the commander is lost.
const BY_COMMANDER: u8 = 3;
/// Seconds after which a walking script says what it saw: each foot is lifted several times, one of
/// them without a stop of the machine.
const SECONDS: &str = "7";

pub(crate) fn trials() -> Vec<Trial> {
    let tests = [
        trial(
            "remote_robot::a_cut_cable_stops_a_robot_that_walks_on_commands_in_python",
            python,
            |walker| {
                walks_and_stops(walker, End::CutCable);
            },
        ),
        trial(
            "remote_robot::a_killed_computer_stops_a_robot_that_walks_on_commands_in_java",
            java,
            |walker| {
                walks_and_stops(walker, End::Killed);
            },
        ),
        trial(
            "remote_robot::a_stopped_computer_stops_a_robot_that_walks_on_commands_in_octave",
            in_octave,
            |walker| {
                walks_and_stops(walker, End::Stopped);
            },
        ),
        trial("remote_robot::a_third_party_on_the_network_moves_nothing", attacks, third_party),
    ];
    Vec::from(tests)
}

/// How the commanding computer ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    CutCable,
    Killed,
    Stopped,
}

/// A script; `HOST KEY SECONDS` follow, then these words.
struct Walker {
    command: Command,
    last: Vec<PathBuf>,
}

fn namespaces() -> Result<(), String> {
    let gateway = Path::new(env!("CARGO_BIN_EXE_onbeat")).with_file_name("onbeat-gateway");
    if !gateway.is_file() {
        return Err("onbeat-gateway is not built beside onbeat; `make test` builds it".to_owned());
    }
    let probe = format!("onbeat-try-{}", std::process::id());
    let made = Command::new("ip").args(["netns", "add", &probe]).output();
    if !made.is_ok_and(|output| output.status.success()) {
        return Err("needs root and ip (iproute2) for network namespaces".to_owned());
    }
    done(Command::new("ip").args(["netns", "del", &probe]));
    Ok(())
}

fn python() -> Result<Walker, String> {
    namespaces()?;
    let equipped = commands()?;
    let mut command = Command::new(equipped.get_program());
    command.arg(root().join("tests/clients/walk.py")).env("PYTHONPATH", root().join("python/src"));
    Ok(Walker { command, last: Vec::new() })
}

fn java() -> Result<Walker, String> {
    namespaces()?;
    equipment::java()?;
    let classes = root().join("target/clients-java");
    let mut compile = Command::new("javac");
    compile.args(["--release", "8", "-Xlint:all,-options", "-Werror", "-cp"]).arg(&classes);
    done(compile.arg("-d").arg(&classes).arg(root().join("tests/clients/Walk.java")));
    let mut command = Command::new("java");
    command.arg("-cp").arg(classes).arg("Walk");
    Ok(Walker { command, last: Vec::new() })
}

fn in_octave() -> Result<Walker, String> {
    namespaces()?;
    let mut command = octave()?;
    command.arg(root().join("tests/clients/walk.m"));
    Ok(Walker { command, last: vec![root(), root().join("target/clients-java")] })
}

fn attacks() -> Result<Walker, String> {
    let Walker { mut command, last } = python()?;
    let script = root().join("tests/clients/remote_attacks.py");
    let mut attack = Command::new(command.get_program());
    attack.arg(script).env("PYTHONPATH", root().join("python/src"));
    std::mem::swap(&mut command, &mut attack);
    Ok(Walker { command, last })
}

/// Two computers and the cable between them.
struct Network {
    robot: String,
    laptop: String,
}

impl Network {
    const ROBOT: &str = "10.231.77.1";

    fn new() -> Self {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let place = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let own = |what: &str| format!("ob{what}{}-{place}", std::process::id());
        let network = Self { robot: own("r"), laptop: own("l") };
        let Self { robot, laptop } = &network;
        let ip = |words: &str| done(Command::new("ip").args(words.split(' ')));
        ip(&format!("netns add {robot}"));
        ip(&format!("netns add {laptop}"));
        ip(&format!("link add cable netns {robot} type veth peer name cable netns {laptop}"));
        for (space, address) in [(robot, Self::ROBOT), (laptop, "10.231.77.2")] {
            ip(&format!("-n {space} address add {address}/24 dev cable"));
            ip(&format!("-n {space} link set cable up"));
            ip(&format!("-n {space} link set lo up"));
        }
        network
    }

    fn cut_cable(&self) {
        done(Command::new("ip").args(["-n", &self.laptop, "link", "set", "cable", "down"]));
    }

    /// The same command in a namespace.
    fn on(space: &str, command: &Command) -> Command {
        let mut inside = Command::new("ip");
        inside.args(["netns", "exec", space]).arg(command.get_program()).args(command.get_args());
        inside.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        inside
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for space in [&self.robot, &self.laptop] {
            let _ = Command::new("ip").args(["netns", "del", space]).output();
        }
    }
}

/// Ended on drop.
struct Running(Child);

impl Running {
    fn signal(&self, name: &str) {
        done(Command::new("kill").args([name, &self.0.id().to_string()]));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `onbeat message command` on the robot's computer, with what it says.
struct Gate {
    running: Running,
    said: Arc<Mutex<String>>,
}

impl Gate {
    fn start(network: &Network, robot: &Robot, key: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
        command.args(["message", "command", &robot.name, "--from"]);
        command.arg(format!("tcp://{}:7791", Network::ROBOT)).arg("--key").arg(key).arg("--json");
        let mut inside = Network::on(&network.robot, &command);
        let mut child = inside.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let errors = BufReader::new(child.stderr.take().unwrap());
        let lines = Arc::clone(&said);
        std::thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                lines.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        let gate = Self { running: Running(child), said };
        gate.await_sentence("is commanded from");
        gate
    }

    fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    fn await_sentence(&self, sentence: &str) {
        let began = Instant::now();
        while !self.said().contains(sentence) {
            assert!(began.elapsed() < PATIENCE, "not said: {sentence}; said: {}", self.said());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends it in order; returns its account.
    fn end(mut self) -> serde_json::Value {
        self.running.signal("-INT");
        let mut account = String::new();
        self.running.0.stdout.take().unwrap().read_to_string(&mut account).unwrap();
        assert!(self.running.0.wait().unwrap().success(), "{}", self.said());
        serde_json::from_str(&account).unwrap()
    }
}

fn key(folder: &Path, name: &str) -> PathBuf {
    let file = folder.join(name);
    done(Command::new(env!("CARGO_BIN_EXE_onbeat")).args(["message", "key"]).arg(&file));
    file
}

fn lines(child: &mut Child) -> Receiver<String> {
    let (sender, lines) = channel();
    let output = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || {
        output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    lines
}

fn walks_and_stops(walker: Walker, end: End) {
    let robot = Robot::humanoid("10ms", "0");
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new();
    let key = key(folder.path(), "robot.key");
    let gate = Gate::start(&network, &robot, &key);

    let mut command = walker.command;
    command.arg(Network::ROBOT).arg(&key).arg(SECONDS).args(&walker.last);
    let mut inside = Network::on(&network.laptop, &command);
    let mut script = Running(inside.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let said = lines(&mut script.0).recv_timeout(PATIENCE).unwrap();
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let travelled: Vec<f64> =
        said["travelled_rad"].as_array().unwrap().iter().map(|it| it.as_f64().unwrap()).collect();
    // Both feet were lifted, by -0.2, 0.4 and -0.2 rad.
    for (travelled, commanded) in travelled.iter().zip([0.2, 0.4, 0.2, 0.2, 0.4, 0.2]) {
        assert!((0.8..1.3).contains(&(travelled / commanded)), "{said}");
    }
    let number = |name: &str| said[name].as_u64().unwrap();
    let seen = number("received") + number("lost");
    assert!(
        (number("last") - number("first")) < seen + 2,
        "every cycle is read or counted: {said}"
    );
    assert!(!Client::open(&robot.name).unwrap().state().robot.unwrap().is_stopped());

    match end {
        End::CutCable => network.cut_cable(),
        End::Killed => script.signal("-KILL"),
        End::Stopped => script.signal("-STOP"),
    }
    let mut client = Client::open(&robot.name).unwrap();
    let stopped = await_stop(&mut client, &gate);
    assert_eq!(stopped.stopped_by, BY_COMMANDER, "{}", gate.said());
    gate.await_sentence(match end {
        End::CutCable | End::Stopped => "no valid command from 10.231.77.2",
        End::Killed => "its connection has ended",
    });
    if end != End::Killed {
        gate.await_sentence("has stopped safely (the commander is lost)");
        if end == End::Stopped {
            script.signal("-CONT");
        }
        // What was on its way, or is commanded now, moves nothing; and the script learns why.
        let mut why = String::new();
        script.0.stderr.take().unwrap().read_to_string(&mut why).unwrap();
        let names = match end {
            End::CutCable => "has not answered for a second",
            _ => "has stopped safely (the commander is lost)",
        };
        assert!(why.contains(names), "{why}");
    }
    assert!(client.state().robot.unwrap().is_stopped());
    let account = gate.end();
    assert!(account["followed"].as_u64().unwrap() > 100, "{account}");
    assert_eq!(account["abandoned"], 1, "{account}");
}

fn await_stop(client: &mut Client, gate: &Gate) -> RobotState {
    let began = Instant::now();
    loop {
        let robot = client.state().robot.unwrap();
        if robot.is_stopped() {
            return robot;
        }
        assert!(began.elapsed() < PATIENCE, "no safe stop; said: {}", gate.said());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn third_party(attacker: Walker) {
    let robot = Robot::humanoid("10ms", "0");
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new();
    let [own, other] = ["robot.key", "other.key"].map(|name| key(folder.path(), name));
    let gate = Gate::start(&network, &robot, &own);
    let mut targets = Targets::open(&robot);

    let mut command = attacker.command;
    command.arg(Network::ROBOT).arg(&own).arg(&other);
    let output = done(&mut Network::on(&network.laptop, &command));
    let outcomes: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();

    let text = |name: &str| outcomes[name].to_string();
    for (attack, outcome) in [
        ("other_key", "does not have this key"),
        ("commands_without_key", "is read only for this computer"),
        ("other_port", "is not the address of a robot"),
        ("other_name", "not another"),
        ("second_commander", "is commanded by 10.231.77.2"),
        ("forged", "ended the connection"),
        ("not_a_number", "outside"),
        ("from_the_future", "in the future"),
        ("replayed", "ended the connection"),
        ("replayed_in_another_connection", "ended the connection"),
        ("claimed_length", "ended the connection"),
        ("too_fast", "more than 1000 commands a second"),
    ] {
        assert!(text(attack).contains(outcome), "{attack}: {outcomes}");
    }
    assert_eq!(outcomes["reads_without_key"], true);
    assert_eq!(outcomes["too_late"], serde_json::json!([[3, 1]]), "answered as too late");
    assert_eq!(outcomes["strange_bytes"].get("open"), None, "{outcomes}");
    assert_eq!(
        (&outcomes["honest"]["why"], &outcomes["honest_beside_200_connections"]),
        (&"".into(), &"".into())
    );
    assert!(outcomes["honest"]["followed"].as_u64().unwrap() > 50, "{outcomes}");

    // The runaway script was the last commander.
    let stopped = await_stop(&mut Client::open(&robot.name).unwrap(), &gate);
    assert_eq!(stopped.stopped_by, BY_COMMANDER);
    targets.check("left shoulder pitch", "left knee");
    let said = gate.said();
    for sentence in
        ["connections ended as not valid", "commands no more", "more than 1000 commands a second"]
    {
        let sentence =
            sentence.replace("commands no more", &format!("commands {} no more", robot.name));
        assert!(said.contains(&sentence), "{sentence}: {said}");
    }
    let account = gate.end();
    let counted = |name: &str| account[name].as_u64().unwrap();
    assert!(counted("forged") >= 4 && counted("refused_peers") > 100, "{account}");
    // Those of the honest commander are too late as well where the gate stands still for longer
    // than they live.
    assert!(counted("too_late") >= 1 && counted("too_fast") == 1, "{account}");
}

/// The targets of the robot's joints in every cycle.
struct Targets {
    ring: RingReader,
}

impl Targets {
    fn open(robot: &Robot) -> Self {
        let channel = robot.channel().parse().unwrap();
        Self { ring: RingReader::open(&channel, Start::Newest).unwrap() }
    }

    /// One joint had the same target in all cycles that are kept, and another one had several.
    fn check(&mut self, still: &str, moved: &str) {
        let of = self.ring.record_type();
        let types = TypeSet::from_text(&of.name, &of.schema).unwrap();
        let described: serde_json::Value = serde_json::from_str(&self.ring.description()).unwrap();
        let joints = described["joints"].as_array().unwrap();
        let place = |name: &str| joints.iter().position(|joint| joint["name"] == name).unwrap();
        let places = [still, moved].map(place);
        let mut seen = [Vec::new(), Vec::new()];
        loop {
            match self.ring.next() {
                Reading::Record { bytes, .. } => {
                    let message = types.value(&of.name, bytes).unwrap();
                    let Some(Value::List(targets)) = message.field("target_rad") else {
                        panic!("{message:?}")
                    };
                    for (seen, place) in seen.iter_mut().zip(places) {
                        let target = targets[place].to_json();
                        if !seen.contains(&target) {
                            seen.push(target);
                        }
                    }
                }
                Reading::Lost(records) => {
                    println!("{records} cycles were overwritten before they were read");
                }
                Reading::Nothing => break,
            }
        }
        assert_eq!(seen[0].len(), 1, "{still} moved: {:?}", seen[0]);
        assert!(seen[1].len() > 1, "{moved} did not move");
    }
}
