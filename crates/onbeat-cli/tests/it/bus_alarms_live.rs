//! A device that fails while a bus or a robot runs is named at the end, in the file and under a
//! limit, by its exit status.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// The left knee loses its power and stays without it: however the machine treats the loop, it sees
/// that. The watchdog is wide, so that nothing else happens to a device when the loop is held up.
/// The time is of the segment's first frame: by then the bus is up and the drives have their power.
const TWO: &str = r#"
[segment]
name = "two joints"
watchdog_ms = 6000
[types.joint]
kind = "drive"
[[devices]]
type = "joint"
names = ["right knee", "left knee"]
[[faults]]
kind = "power-off"
device = "left knee"
at_ms = 5000
"#;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        std::fs::write(place.file(), TWO).unwrap();
        place
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("two.toml")
    }

    fn runs(&self) -> PathBuf {
        self.0.path().join("runs")
    }

    fn onbeat(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
        command.args(words).env("ONBEAT_STATE_DIR", self.0.path().join("state")).output().unwrap()
    }

    fn measured(&self, words: &[&str]) -> Output {
        let file = self.file();
        let runs = self.runs();
        let bus = [
            "measure",
            "bus",
            "--devices",
            text(&file),
            "--wire",
            "socket",
            "--for",
            "8s",
            "--period",
            "5ms",
        ];
        let own = ["--priority", "0", "--no-lock-memory", "--no-causes", "--out", text(&runs)];
        self.onbeat(&[&bus, &own[..], words].concat())
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output:?}"))
}

#[test]
fn a_bus_whose_device_fails_names_it_and_fails_under_a_limit_on_events() {
    let place = Place::new();
    let measured = place.measured(&["--limit-on", "events=0", "--json"]);
    assert_eq!(measured.status.code(), Some(1), "{measured:?}");
    let summary = json(&measured);

    assert_eq!(
        (&summary["verdict"]["outcome"], &summary["most_alarms"]),
        (&"FAIL".into(), &0.into())
    );
    let events = &summary["cells"][0]["events"];
    assert_eq!(events["alarms"]["device_lost"], 1, "{events}");
    let first = events["incidents"][0].as_str().unwrap();
    assert!(first.starts_with("left knee stopped answering at "), "{first}");
    let latest = place.runs().join("latest");
    let page = std::fs::read_to_string(latest.join("report.html")).unwrap();

    assert!(page.len() > 1000);

    let report = |words: &[&str]| place.onbeat(&[&["report", text(&latest)], words].concat());
    assert_eq!(report(&[]).status.code(), Some(1), "the run's own limit counts again");
    let said = String::from_utf8(report(&[]).stdout).unwrap();
    assert!(said.contains("left knee stopped answering at "), "{said}");
    assert_eq!(report(&["--limit-on", "events=1000000"]).status.code(), Some(0));
    let gate =
        |most: &str| place.onbeat(&["gate", text(&latest), "--limit-on", most]).status.code();

    assert_eq!((gate("events=0"), gate("events=1000000")), (Some(1), Some(0)));
}

#[test]
fn a_robot_whose_drive_fails_names_the_safe_stop_in_its_run_file() {
    let place = Place::new();
    let file = place.file();
    let runs = place.runs();
    let robot =
        ["robot", "run", text(&file), "--trajectory", "hold", "--for", "8s", "--period", "5ms"];
    let own = [
        "--priority",
        "0",
        "--no-causes",
        "--json",
        "--out",
        text(&runs),
        "--limit-on",
        "events=0",
    ];
    let ran = place.onbeat(&[&robot, &own[..]].concat());

    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    let said = json(&ran);
    assert_eq!(said["robot"]["rung"], "safe_stop");
    assert_eq!(said["run"]["verdict"]["outcome"], "FAIL");
    let events = &said["run"]["cells"][0]["events"];

    assert_eq!(events["alarms"]["safe_stop"], 1, "{events}");
    assert!(events["others"]["phase_changed"].as_u64() >= Some(2), "{events}");
}

#[test]
fn where_nothing_has_events_a_limit_on_them_is_refused_in_a_sentence() {
    let place = Place::new();
    let refused = |words: &[&str]| {
        let output = place.onbeat(words);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };

    let timer = refused(&["measure", "timer", "--for", "1s", "--limit-on", "events=0"]);
    assert!(timer.contains("`measure timer` has no bus"), "{timer}");
    let rtt = refused(&["measure", "rtt", "--limit-on", "events=0"]);
    assert!(rtt.contains("`measure rtt` has no bus"), "{rtt}");
    let chain = refused(&["measure", "chain", "--limit-on", "events=0"]);
    assert!(chain.contains("`measure chain` has no bus"), "{chain}");
    let bench = refused(&["bench", "--for", "1m", "--limit-on", "events=0"]);

    assert!(bench.contains("add --with bus"), "{bench}");
    assert!(
        refused(&["measure", "bus", "--limit-on", "events=-1"])
            .contains("is none of main, release")
    );
    assert!(refused(&["measure", "bus", "--limit-on", "release"]).contains("--limit"));
}
