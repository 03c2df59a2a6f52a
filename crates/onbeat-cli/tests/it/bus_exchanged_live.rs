//! Two drives that were exchanged while the segment was off: the robot stays stopped and reports
//! why. Needs root and network namespaces; prints a reason where they are missing.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use onbeat_control::Client;
use onbeat_ethercat::event::EventKind;
use onbeat_robot::motion::RobotPhase as Phase;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Longest wait for something that must come about; a loaded machine may stop for seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// A leg whose drives are of two kinds, in this order. Stalls of this machine must not stop it before
/// it moves: the watchdog is wide, and ten seconds of missed cycles are needed, which drives that
/// are not in OP miss.
fn leg(drives: [(&str, &str); 3]) -> String {
    let head = "[segment]\nname = \"leg\"\nwatchdog_ms = 6000\n[robot]\nfollowing_ms = 60000\n\
        [robot.ladder]\ndegrade_at = 1500\nstop_at = 2000\n[types.large]\nkind = \"drive\"\n\
        [types.small]\nkind = \"drive\"\nproduct = 0x2222\n";
    drives.iter().fold(head.to_owned(), |text, (name, kind)| {
        text + &format!("[[devices]]\ntype = \"{kind}\"\nname = \"{name}\"\n")
    })
}

/// Processes in a network namespace with two interfaces, `leg` and `leg-seg`, one cable between
/// them.
struct Room<'f> {
    folder: &'f Path,
    holder: Child,
}

impl<'f> Room<'f> {
    fn open(folder: &'f Path) -> Option<Self> {
        let script = "ip link add leg type veth peer name leg-seg && ip link set leg up && ip link set leg-seg up && \
            echo ready > ready && exec sleep 1000";
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", script]).current_dir(folder).stderr(Stdio::null());
        let mut holder = command.spawn().ok()?;
        while !folder.join("ready").exists() {
            if holder.try_wait().ok()?.is_some() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }

        Some(Self { folder, holder })
    }

    fn onbeat(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args([
                "--net",
                "--target",
                &self.holder.id().to_string(),
                env!("CARGO_BIN_EXE_onbeat"),
            ])
            .args(words);
        command
            .env("ONBEAT_STATE_DIR", self.folder.join("state"))
            .env("LC_ALL", "C")
            .current_dir(self.folder);
        command
    }

    /// Starts it, with what it says in these files.
    fn start(&self, name: &str, words: &[&str]) -> Running {
        let file =
            |ending: &str| File::create(self.folder.join(format!("{name}.{ending}"))).unwrap();
        Running(self.onbeat(words).stdout(file("out")).stderr(file("err")).spawn().unwrap())
    }

    fn said(&self, name: &str) -> String {
        let read = |ending: &str| {
            fs::read_to_string(self.folder.join(format!("{name}.{ending}"))).unwrap()
        };
        read("out") + &read("err")
    }

    /// AL states of the segment's devices, by its own account; none when no segment runs.
    fn states(&self) -> Vec<(String, u64)> {
        let output = self.onbeat(&["segment", "status", "--json"]).output().unwrap();
        let Ok(status) = serde_json::from_slice::<Value>(&output.stdout) else { return Vec::new() };
        let devices = status["devices"].as_array().cloned().unwrap_or_default();
        let of = |device: &Value| {
            (device["name"].as_str().unwrap().to_owned(), device["al_state"].as_u64().unwrap())
        };
        devices.iter().map(of).collect()
    }
}

/// Ends with the test, also with one that fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn until(what: &str, said: impl Fn() -> String, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}: {}", said());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The devices of the events so far that report a wrong one.
fn wrong_devices(client: &Client) -> Vec<u16> {
    let events = client.events(1).events.into_iter();
    let wrong = events.filter(|(_, event)| event.kind == EventKind::WrongDevice);
    wrong.map(|(_, event)| event.device).collect()
}

#[test]
fn drives_exchanged_behind_a_restarted_segment_stop_the_robot_and_say_why_live() {
    let folder = tempfile::tempdir().unwrap();
    let Some(room) = Room::open(folder.path()) else {
        println!(
            "skipped: no network namespace with a veth pair can be made here; it takes root, unshare and ip"
        );
        return;
    };

    let right = leg([("hip", "large"), ("knee", "small"), ("ankle", "large")]);
    let exchanged = leg([("knee", "small"), ("hip", "large"), ("ankle", "large")]);
    fs::write(folder.path().join("leg.toml"), right).unwrap();
    fs::write(folder.path().join("other.toml"), exchanged).unwrap();
    let segment = ["segment", "run", "leg.toml", "--interface", "leg-seg", "--priority", "0"];
    let first = room.start("first", &segment);
    until("no segment", || room.said("first"), || room.states().len() == 3);

    let name = format!("test-exchanged-{}", std::process::id());
    let robot =
        ["robot", "run", "leg.toml", "--interface", "leg", "--trajectory", "sine", "--name", &name];
    let more = ["--period", "5ms", "--priority", "0", "--no-causes", "--out", "runs"];
    let mut robot = room.start("robot", &[&robot[..], &more].concat());
    let in_op = |states: Vec<(String, u64)>| states.iter().filter(|(_, state)| *state == 8).count();
    until("not in OP", || room.said("robot"), || in_op(room.states()) == 3);
    // A robot that has not moved yet would not have to stop.
    let client = Client::open(&name).unwrap();
    let moves = || client.state().robot.is_some_and(|robot| robot.phase == Phase::Running as u8);
    until("it does not move", || room.said("robot"), moves);
    drop(first);

    let segment = segment.map(|word| if word == "leg.toml" { "other.toml" } else { word });
    let second = room.start("second", &segment);
    let wrong = || wrong_devices(&client);
    until("no wrong device", || room.said("robot"), || wrong().len() == 2);
    // Long enough for a wrong device to be looked at again, and again.
    let mut reader = Client::open(&name).unwrap();
    let mut cycle = || {
        let mut seen = reader.snapshot();
        reader.read(&mut seen).map_or(0, |()| seen.cycle.cycle)
    };

    let stops =
        || client.events(1).events.iter().any(|(_, event)| event.kind == EventKind::SafeStop);
    until("no safe stop", || room.said("robot"), stops);
    let then = cycle();
    until("no cycles", || room.said("robot"), || cycle() > then + 1_200);
    let mut states = Vec::new();
    until(
        "ankle is right",
        || room.said("robot"),
        || {
            states = room.states();
            states.iter().any(|(name, state)| name == "ankle" && *state == 8)
        },
    );

    assert_eq!(states.len(), 3);
    for (name, state) in states {
        assert_eq!(state, if name == "ankle" { 8 } else { 1 }, "{name}: {}", room.said("robot"));
    }

    assert_eq!(wrong(), [0, 1], "one event each");
    kill_process(Pid::from_raw(robot.0.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
    let status = robot.0.wait().unwrap();
    let said = room.said("robot");
    for sentence in [
        "hip: another device is in its place, with product 0x2222; it was put into INIT and gets no set-points; put hip back",
        "knee: another device is in its place, with product 0x1003; it was put into INIT and gets no set-points; put knee back",
    ] {
        assert_eq!(said.matches(sentence).count(), 1, "{said}");
    }

    assert!(said.contains(": safe stop: "), "{said}");
    assert_eq!(status.code(), Some(1), "{said}");
    drop(second);
}
