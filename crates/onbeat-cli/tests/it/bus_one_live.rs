//! One segment and one bus of onbeat on an interface, a scan that changes nothing, and states that
//! are current. Needs root and network namespaces; prints a reason where they are missing.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::network_namespace::in_a_namespace;

const FILE: &str = "[segment]\nname = \"two\"\nwatchdog_ms = 6000\n[types.j]\nkind = \"drive\"\n[[devices]]\ntype = \"j\"\nnames = [\"hip\", \"knee\"]\n";
/// Longest wait for something that must come about; a loaded machine may stop for seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// The AL state SAFEOP; OP is greater.
const SAFEOP: u64 = 4;

struct Place {
    dir: tempfile::TempDir,
    name: String,
}

impl Place {
    fn onbeat(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
        command
            .args(words)
            .env("ONBEAT_STATE_DIR", self.dir.path())
            .env("LC_ALL", "C")
            .current_dir(self.dir.path());
        command
    }

    fn ask(&self, words: &[&str]) -> Output {
        self.onbeat(words).output().unwrap()
    }

    /// One sentence, and exit status 2.
    fn refused(&self, words: &[&str]) -> String {
        let output = self.ask(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn state(&self) -> Value {
        serde_json::from_slice(&self.ask(&["bus", "state", "--json", "--name", &self.name]).stdout)
            .unwrap_or_default()
    }

    fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) {
        let began = Instant::now();
        loop {
            let state = self.state();
            if holds(&state) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{what}: {state}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// What `bus state` prints as soon as `words` are in it. On a loaded machine the bus itself may
    /// miss cycles or be without answers for a while, so that one answer says nothing of the next.
    fn until_it_prints(&self, words: &str) -> String {
        let began = Instant::now();
        loop {
            let text = String::from_utf8(self.ask(&["bus", "state", "--name", &self.name]).stdout)
                .unwrap();
            if text.contains(words) {
                return text;
            }
            assert!(began.elapsed() < PATIENCE, "\"{words}\" was not printed: {text}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn events(&self) -> Vec<Value> {
        let said = self.ask(&["bus", "events", "--json", "--name", &self.name]).stdout;
        let lines = String::from_utf8(said).unwrap();
        lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].take())
            .collect()
    }

    fn kinds(&self) -> Vec<String> {
        self.events()
            .iter()
            .map(|event| event["kind"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// A reader knows of an outage by the clock, the bus after some cycles of its own: after a
    /// stall of the bus its event comes later than the state.
    fn until_event(&self, kind: &str) {
        let began = Instant::now();
        while !self.kinds().iter().any(|one| one == kind) {
            assert!(began.elapsed() < PATIENCE, "{kind}: {:?}", self.events());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// What is dropped last: by then its bus is killed.
impl Drop for Place {
    fn drop(&mut self) {
        // Of a bus that was killed, the next onbeat would report that it has removed it, and so would
        // one of another test binary that reads all that onbeat prints.
        let _ = onbeat_control::remove_leftovers();
    }
}

/// Ends with the test.
struct Running(Child);

impl Running {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::CONT);
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn segment(place: &Place) -> Running {
    let mut command =
        place.onbeat(&["segment", "run", "two.toml", "--veth", "o0", "--priority", "0"]);
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    // It says so when it answers; what it says later is nobody's business.
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("answer on o0") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it ended");
    }

    thread::spawn(move || lines.lines().count());
    Running(child)
}

fn bus(place: &Place) -> Running {
    let words = ["bus", "run", "two.toml", "--interface", "o0", "--name", &place.name, "--"];
    let more = ["--no-causes", "--priority", "0", "--period", "5ms", "--out", "runs"];
    let child = place
        .onbeat(&[&words[..], &more[..]].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Running(child.unwrap())
}

/// `test` is part of the bus's name: tests of this file run side by side, and names are the
/// machine's.
fn here(test: &str) -> Place {
    let dir = tempfile::tempdir().unwrap();
    let path: PathBuf = Path::new("two.toml").to_owned();
    fs::write(dir.path().join(path), FILE).unwrap();
    Place { dir, name: format!("test-{test}-{}", std::process::id()) }
}

#[test]
fn one_segment_one_bus_and_a_scan_beside_it_live() {
    in_a_namespace(|| {
        let place = here("one");
        let devices = segment(&place);
        let who = format!("process {} (onbeat)", devices.0.id());
        for words in [["--veth", "o0"], ["--interface", "o0-seg"]] {
            let why = place.refused(
                &[&["segment", "run", "two.toml", "--priority", "0"][..], &words[..]].concat(),
            );
            assert!(
                why.contains("a segment of onbeat is running on") && why.contains(&who),
                "{why}"
            );
        }

        let scanned: Value =
            serde_json::from_slice(&place.ask(&["bus", "scan", "o0", "--json"]).stdout).unwrap();
        assert_eq!(
            (scanned.as_array().unwrap().len(), &scanned[1]["al_state"]),
            (2, &1.into()),
            "the pair is still there"
        );
        assert!(scanned[1]["serial"].is_number());

        let bus = bus(&place);
        place.until("both are in OP", |state| state["in_op"] == 2);
        let who = format!("process {} (onbeat)", bus.0.id());
        let other = format!("{}-second", place.name);
        let second =
            ["bus", "run", "two.toml", "--interface", "o0", "--name", &other, "--", "--for", "2s"];
        let why = place.refused(&second);

        assert!(
            why.contains("a MainDevice of onbeat is running on \"o0\" already")
                && why.contains(&who),
            "{why}"
        );
        let why = place.refused(&["bus", "scan", "o0"]);
        assert!(why.contains("onbeat is running a bus on \"o0\"") && why.contains(&who), "{why}");
        assert!(why.contains("--beside-running"), "{why}");
        let before = place.events();
        let beside = place.ask(&["bus", "scan", "o0", "--beside-running", "--json"]);
        let scanned: Value = serde_json::from_slice(&beside.stdout).unwrap();

        for (device, name) in scanned.as_array().unwrap().iter().zip(["hip", "knee"]) {
            assert_eq!(&device["name"], name);
            assert!(
                device["serial"].is_null() && device["al_state"].as_u64() >= Some(SAFEOP),
                "{device}"
            );
        }

        // That no register changes is shown on the virtual clock (bus_scan). Here a starved bus may
        // lose its devices' watchdogs, which brings them to SAFEOP; a scan that reset them would
        // bring them to INIT, and its stations would be a foreign MainDevice's. Of a bus that stood
        // still for longer than a watchdog, a device that left OP is in an event of its own kind.
        let news: Vec<Value> = place.events().split_off(before.len());
        let starved = [
            "frame_lost",
            "frame_late",
            "working_counter_off",
            "working_counter_back",
            "no_answer",
            "answer_back",
            "devices_left_op",
            "clock_unlocked",
            "clock_locked",
        ];
        for event in &news {
            let kind = event["kind"].as_str().unwrap_or_default();
            let state = event["new"].as_u64().map(|state| state & 0x0f);
            assert!(
                starved.contains(&kind) || kind == "state_changed" && state >= Some(SAFEOP),
                "{news:?}"
            );
        }

        place.until("both are in OP", |state| state["in_op"] == 2);
    });
}

#[test]
fn a_stopped_bus_and_a_stopped_segment_say_how_long_they_are_silent_live() {
    in_a_namespace(|| {
        let place = here("silent");
        let devices = segment(&place);
        let bus = bus(&place);
        place.until("both are in OP", |state| {
            state["in_op"] == 2 && state["no_answer_ns"].is_null()
        });
        place.until_it_prints("2 of 2 devices in OP");

        bus.signal(Signal::STOP);
        place.until("the bus is stopped", |state| {
            state["in_op"] == 0 && state["no_answer_ns"].as_u64() > Some(0)
        });
        let text = place.until_it_prints("no cycle for ");
        assert!(!text.contains("in OP"), "{text}");
        let info =
            String::from_utf8(place.ask(&["bus", "info", "--name", &place.name]).stdout).unwrap();

        assert!(
            info.contains("no cycle for ") && info.contains("lost") && !info.contains(" OP "),
            "{info}"
        );
        let watched = place.ask(&["bus", "watch", "--count", "1", "--name", &place.name]).stdout;
        let watched = String::from_utf8(watched).unwrap();
        assert!(watched.contains("the inputs below are older"), "{watched}");
        bus.signal(Signal::CONT);
        place.until("it goes on", |state| state["in_op"] == 2);

        devices.signal(Signal::STOP);
        place.until("the segment is stopped", |state| {
            state["in_op"] == 0 && state["no_answer_ns"].as_u64() > Some(0)
        });
        let text = place.until_it_prints("no answer for ");
        assert!(!text.contains("in OP"), "{text}");
        place.until_event("no_answer");
        devices.signal(Signal::CONT);
        place.until("it goes on", |state| state["in_op"] == 2);
        place.until_event("answer_back");
    });
}
