//! A bus shared by processes: any of them may die, and the others react.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use onbeat_control::{Client, Snapshot};
use serde_json::Value;

/// Longest wait for something that must come about; a loaded machine may stop for seconds.
const PATIENCE: Duration = Duration::from_secs(60);

struct Bus {
    child: Child,
    name: String,
}

impl Bus {
    fn run(dir: &Path, name: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
        command.args([
            "bus",
            "run",
            "--name",
            name,
            "--",
            "--wire",
            "socket",
            "--no-causes",
            "--priority",
            "0",
        ]);
        command
            .args(["--period", "5ms", "--out"])
            .arg(dir.join("runs"))
            .env("ONBEAT_STATE_DIR", dir.join("state"));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut bus = Self { child, name: name.to_owned() };
        bus.until("all devices are in OP", |state| state["in_op"] == 59);

        bus
    }

    fn asked(&self, words: &[&str]) -> Output {
        // A loaded machine may stop for seconds, and the bus and its devices with it.
        let is_request = words[0] == "sdo";
        Command::new(env!("CARGO_BIN_EXE_onbeat"))
            .arg("bus")
            .args(words)
            .args(is_request.then_some(["--timeout", "60s"]).into_iter().flatten())
            .args(["--name", &self.name])
            // The log of writes.
            .env("ONBEAT_STATE_DIR", std::env::temp_dir().join(&self.name))
            .output()
            .unwrap()
    }

    fn state(&self) -> Value {
        serde_json::from_slice(&self.asked(&["state", "--json"]).stdout).unwrap_or_default()
    }

    fn until(&mut self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let state = self.state();
            if holds(&state) {
                return state;
            }

            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() && began.elapsed() < PATIENCE, "{what}: {state}, {ended:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Of a bus that was killed, the next onbeat would report that it has removed it, and so would
        // one of another test binary that reads all that onbeat prints.
        let _ = onbeat_control::remove_leftovers();
    }
}

fn name(of: &str) -> String {
    format!("test-{of}-{}", std::process::id())
}

#[test]
fn a_bus_goes_on_when_a_reader_is_killed_and_its_name_is_free_when_it_is_killed_itself() {
    let dir = tempfile::tempdir().unwrap();
    let name = name("deaths");
    let mut bus = Bus::run(dir.path(), &name);
    let mut reader = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    reader.args(["bus", "watch", "--every", "10ms", "--name", &name]).stdout(Stdio::null());
    let mut reader = reader.spawn().unwrap();
    let before = bus.state()["cycle"].as_u64().unwrap();
    reader.kill().unwrap();
    reader.wait().unwrap();
    bus.until("cycles go on", |state| state["cycle"].as_u64() > Some(before + 20));

    let mut client = Client::open(&name).unwrap();
    bus.child.kill().unwrap();
    bus.child.wait().unwrap();
    let mut snapshot = Snapshot::default();
    let gone = client.read(&mut snapshot).map(|()| client.check()).and_then(|alive| alive);

    assert!(gone.is_err(), "a reader gets the error that the bus is gone");
    let asked = bus.asked(&["state"]);
    assert_eq!(asked.status.code(), Some(2), "{asked:?}");
    assert!(String::from_utf8_lossy(&asked.stderr).lines().count() <= 3, "{asked:?}");

    let again = Bus::run(dir.path(), &name);
    let pid = again.state()["pid"].as_u64();
    assert_eq!(pid, Some(again.child.id().into()), "the name was taken over without a hand");
}

#[test]
fn objects_of_devices_are_read_and_written_while_the_bus_runs() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::run(dir.path(), &name("objects"));
    let said = |words: &[&str]| {
        let output = bus.asked(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };

    assert!(
        said(&["sdo", "read", "left knee", "1018:1"]).contains("f1c71005"),
        "the vendor id, expedited"
    );
    assert!(
        said(&["sdo", "read", "left knee", "1008"]).contains("leg-joint"),
        "the device's name, longer than four bytes"
    );
    said(&["sdo", "write", "left knee", "6065", "2000u32", "--yes"]);
    std::fs::remove_dir_all(std::env::temp_dir().join(&bus.name)).unwrap();

    assert!(said(&["sdo", "read", "left knee", "6065"]).contains("2000"));
    let refused = bus.asked(&["sdo", "read", "left knee", "5fff"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("object does not exist"),
        "{refused:?}"
    );
    let stats = said(&["stats", "--text"]);

    assert!(stats.lines().any(|line| line.starts_with("cycles ")), "{stats}");
}

#[test]
fn the_devices_of_a_segment_are_listed_without_enabling_one() {
    let scan = Command::new(env!("CARGO_BIN_EXE_onbeat"))
        .args(["bus", "scan", "simulated", "--json"])
        .output()
        .unwrap();
    let devices: Value = serde_json::from_slice(&scan.stdout).unwrap();
    assert_eq!(devices.as_array().unwrap().len(), 59);
    assert_eq!(
        (&devices[1]["name"], &devices[1]["vendor"]),
        (&"imu".into(), &0xf1c7_1005_u32.into())
    );
}
