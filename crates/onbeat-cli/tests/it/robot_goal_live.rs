//! A robot commanded by another process: a goal moves a joint, and the death of the commander is
//! noticed.

use std::f64::consts::TAU;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use onbeat_control::{Client, Snapshot};
use onbeat_ethercat::event::EventKind;
use onbeat_ethercat::layout::DeviceLayout;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Longest wait for something that must come about; a loaded machine may stop for seconds, and a
/// stopped robot begins again only when most of its late cycles are forgotten.
const PATIENCE: Duration = Duration::from_secs(300);

fn onbeat(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command.args(words);
    command
}

/// A walking robot of simulated devices, and what is seen of it.
struct Robot {
    child: Child,
    name: String,
    client: Client,
    knee: DeviceLayout,
    /// Number of requests to begin again after a safe stop.
    resets: u32,
}

impl Robot {
    fn run(dir: &Path) -> Self {
        let name = format!("test-led-{}", std::process::id());
        let mut command =
            onbeat(&["robot", "run", "humanoid", "--trajectory", "commander", "--name", &name]);
        command
            .args(["--no-causes", "--priority", "0", "--period", "5ms", "--json", "--out"])
            .arg(dir.join("runs"));
        command
            .env("ONBEAT_STATE_DIR", dir.join("state"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let began = Instant::now();
        let client = loop {
            match Client::open(&name) {
                Ok(client) => break client,
                Err(why) => assert!(began.elapsed() < PATIENCE, "{why}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };

        let knee =
            client.layout().devices.into_iter().find(|device| device.name == "left knee").unwrap();
        Self { child, name, client, knee, resets: 0 }
    }

    fn seen(&mut self) -> Option<Snapshot> {
        let mut seen = self.client.snapshot();
        self.client.read(&mut seen).ok().map(|()| seen)
    }

    /// Position of the knee, in rad: the humanoid has no gears.
    fn knee_rad(&mut self) -> Option<f64> {
        let at = self.knee.input_at(0x6064, 0).unwrap();
        let bytes = self.seen()?.inputs[at..at + 4].try_into().unwrap();
        Some(f64::from(i32::from_le_bytes(bytes)) / f64::from(self.knee.increments) * TAU)
    }

    fn is_bent_to(&mut self, rad: f64) -> bool {
        self.knee_rad().is_some_and(|seen| (seen - rad).abs() < 0.01)
    }

    fn is_enabled(&mut self) -> bool {
        let at = self.knee.input_at(0x6041, 0).unwrap();
        self.seen().is_some_and(|seen| {
            u16::from_le_bytes([seen.inputs[at], seen.inputs[at + 1]]) & 0x6f == 0x27
        })
    }

    fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let began = Instant::now();
        while !holds(self) {
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none() && began.elapsed() < PATIENCE,
                "{what}: {ended:?}, {:?}",
                self.client.events(1)
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// As [`Robot::until`], for what needs the knee's power: a machine that stands still for a
    /// moment is a reason for a safe stop, and here no reason to give up.
    fn until_led(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let mut reset = Instant::now();
        self.until(what, |robot| {
            if !robot.is_enabled() && reset.elapsed() > Duration::from_secs(2) {
                reset = Instant::now();
                robot.resets += 1;
                robot.send(Signal::USR1);
            }
            holds(robot)
        });
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id().cast_signed()).unwrap(), signal).unwrap();
    }

    fn goal(&self, words: &[&str]) -> Output {
        onbeat(&["robot", "goal", &self.name]).args(words).output().unwrap()
    }

    /// Bends the knee by a goal whose commander leaves as soon as it is followed, and returns what
    /// the commander said. A safe stop on the way forgets the goal, which is then given again.
    fn bend(&mut self, rad: f64) -> String {
        let goal = format!("left knee={rad}");
        let mut said = None;
        let mut resets = 0;
        self.until_led("the knee is bent", |robot| {
            if said.is_none() || robot.resets != resets {
                resets = robot.resets;
                let output = robot.goal(&[&goal]);
                let is_followed = output.status.success();
                said = is_followed.then(|| String::from_utf8(output.stdout).unwrap());
            }
            said.is_some() && robot.is_bent_to(rad)
        });
        said.unwrap()
    }

    /// Bends the knee by another process, which stays its commander. A safe stop on the way ends
    /// the process, and another one takes its place.
    fn bend_by_another(&mut self, rad: f64) -> Child {
        let goal = format!("left knee={rad}");
        let start = |name: &str| {
            let mut another = onbeat(&["robot", "goal", name, &goal, "--for", "1h"]);
            another.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        };

        let mut another = start(&self.name);
        self.until_led("another bends the knee", |robot| {
            if another.try_wait().unwrap().is_some() {
                another = start(&robot.name);
            }
            robot.is_bent_to(rad)
        });
        another
    }
}

impl Drop for Robot {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Of a robot that was killed, the next onbeat would report that it has removed it.
        let _ = onbeat_control::remove_leftovers();
    }
}

fn error_of(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(said.trim_end().lines().count(), 1, "one sentence: {said}");
    said
}

#[test]
fn a_goal_of_another_process_moves_a_joint_and_a_killed_commander_leads_to_a_safe_stop() {
    let dir = tempfile::tempdir().unwrap();
    let mut robot = Robot::run(dir.path());
    let followed = robot.bend(0.3);

    assert!(followed.contains("follows: left knee 0.3 rad"), "{followed}");
    robot.until("the commander has left", |robot| robot.client.state().commander.is_none());

    assert!(
        error_of(&robot.goal(&["left knee=9"]))
            .contains("9 rad is outside the travel of \"left knee\"")
    );
    assert!(
        error_of(&robot.goal(&["nose=0"]))
            .contains("has no joint \"nose\" that follows goals; it has ")
    );

    let (refused, commander) = loop {
        let mut other = robot.bend_by_another(0.5);
        let output = robot.goal(&["left knee=0.1"]);
        let _ = other.kill();
        // Otherwise a safe stop has ended the other one, before the goal or after it.
        if other.wait().unwrap().signal() == Some(Signal::KILL.as_raw()) {
            break (error_of(&output), other.id());
        }
    };

    assert!(
        refused.contains(&format!(
            "another process commands the joints of bus \"{}\": process {commander} (onbeat)",
            robot.name
        )),
        "{refused}"
    );
    robot.until("drives lose their power", |robot| !robot.is_enabled());
    let stopped = error_of(&robot.goal(&["left knee=0.1"]));

    assert!(
        stopped.contains("is in a safe stop: ") && stopped.contains("`kill -USR1 "),
        "{stopped}"
    );
    let state = onbeat(&["bus", "state", "--name", &robot.name]).output().unwrap();
    let state = String::from_utf8(state.stdout).unwrap();
    assert!(
        state.lines().any(|line| line.contains("robot: ") && line.contains("safe stop: ")),
        "{state}"
    );
    // A busy machine may have stopped the robot before its commander died.
    robot.until("a safe stop and a dead commander are reported", |robot| {
        let events = robot.client.events(1).events;
        let of_kind = |kind| events.iter().find(|(_, event)| event.kind == kind);
        let died = of_kind(EventKind::CommanderDied);
        of_kind(EventKind::SafeStop).is_some()
            && died.is_some_and(|(_, died)| died.code == commander)
    });
    let resting = robot.knee_rad().unwrap();
    assert!((resting - 0.5).abs() < 0.05, "it held before it stopped: {resting}");

    robot.send(Signal::INT);
    let mut said = String::new();
    robot.child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(robot.child.wait().unwrap().code(), Some(1), "it was in a safe stop");
    let said: Value = serde_json::from_str(&said).unwrap();

    assert_eq!(said["robot"]["rung"], "safe_stop", "{}", said["robot"]);
}
