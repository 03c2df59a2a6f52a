//! Cable redundancy on two veth pairs: cuts by the segment and interfaces that go down leave all
//! devices in OP. Needs root and network namespaces; prints a reason where they are missing.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::network_namespace::in_a_namespace;

const FILE: &str = "[segment]\nname = \"ring\"\nring = true\nwatchdog_ms = 6000\n[types.io]\nkind = \"digital\"\n\
    [[devices]]\ntype = \"io\"\nnames = [\"a\", \"b\", \"c\", \"d\"]\n";
const DEVICES: [&str; 4] = ["a", "b", "c", "d"];
const ROUNDS: usize = 8;
/// Cycles that must be answered while the ring is open.
const CYCLES: u64 = 20;
/// Longest wait for something that must come about; a loaded machine may stop for seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// A segment on a veth pair, or two for a ring, and a bus on it.
pub(crate) struct LiveSegment {
    dir: tempfile::TempDir,
    name: String,
    processes: Vec<Child>,
    /// Interfaces of the bus, as `--interface` takes them.
    interfaces: &'static str,
}

impl LiveSegment {
    fn onbeat(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
        command.args(words).env("ONBEAT_STATE_DIR", self.dir.path()).env("LC_ALL", "C");
        command.current_dir(self.dir.path());
        command
    }

    pub(crate) fn ask(&self, words: &[&str]) -> Output {
        self.onbeat(words).output().unwrap()
    }

    fn start(name: &str) -> Self {
        Self::of(name, FILE, "r0,r0b")
    }

    /// Starts a segment of this file on r0.
    pub(crate) fn of(name: &str, file: &str, interfaces: &'static str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("ring.toml"), file).unwrap();
        let name = format!("{name}-{}", std::process::id());
        let mut ring = Self { dir, name, processes: Vec::new(), interfaces };
        let mut segment = ring.onbeat(&["segment", "run", "ring.toml", "--veth", "r0"]);
        let mut child = segment.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains(" on r0") {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "the segment ended");
        }
        thread::spawn(move || lines.lines().count());
        ring.processes.push(child);
        ring
    }

    pub(crate) fn run_bus(&mut self) {
        let words = ["bus", "run", "ring.toml", "--interface", self.interfaces, "--name"];
        let more = ["--", "--no-causes", "--period", "5ms", "--out", "runs"];
        let mut bus = self.onbeat(&[&words[..], &[&self.name], &more[..]].concat());
        let child = bus.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        self.processes.push(child);
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn stats(&self) -> Value {
        let answer = self.ask(&["bus", "stats", "--json", "--name", &self.name]);
        serde_json::from_slice(&answer.stdout).unwrap_or_default()
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        let said = self.ask(&["bus", "events", "--json", "--name", &self.name]).stdout;
        let lines = String::from_utf8(said).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn count(&self, kind: &str) -> usize {
        self.events().iter().filter(|event| event["event"]["kind"] == kind).count()
    }

    pub(crate) fn until(&self, kind: &str, times: usize) {
        let began = Instant::now();
        while self.count(kind) < times {
            assert!(began.elapsed() < PATIENCE, "{kind} {times} times: {:#?}", self.events());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until so many more cycles were answered.
    fn until_answered(&self, times: u64) {
        let answered = || {
            let stats = self.stats();
            let [cycles, lost] = ["cycles", "frames_lost"].map(|key| stats[key].as_u64());
            Some(cycles?.saturating_sub(lost?))
        };
        let began = Instant::now();
        let mut before: Option<u64> = None;
        while before.zip(answered()).is_none_or(|(before, now)| now < before + times) {
            assert!(began.elapsed() < PATIENCE, "no answers: {:#?}", self.events());
            before = before.or_else(&answered);
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for LiveSegment {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().rev() {
            let _ = process.kill();
            let _ = process.wait();
        }
        let _ = onbeat_control::remove_leftovers();
    }
}

fn ip(words: &[&str]) {
    let done = Command::new("ip").args(words).output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

/// Events of devices that must not happen: a cut is no trouble of a device. That answers came is
/// shown by [`LiveSegment::until_answered`]: ten cycles without one are also a stall of the
/// segment.
fn troubles(ring: &LiveSegment) -> Vec<String> {
    let kinds = ["device_lost", "state_changed", "devices_left_op", "wrong_device"];
    let kind = |event: &Value| event["event"]["kind"].as_str().unwrap_or_default().to_owned();
    ring.events().iter().map(kind).filter(|kind| kinds.contains(&kind.as_str())).collect()
}

#[test]
fn cuts_and_an_interface_that_goes_down_leave_all_devices_in_op_live() {
    in_a_namespace(|| {
        let mut ring = LiveSegment::start("ring");
        ring.run_bus();
        ring.until("bus_up", 1);
        for round in 0..ROUNDS {
            let device = DEVICES[round % DEVICES.len()];
            let done = ring.ask(&["segment", "fault", "cut", "--device", device, "--on", "r0"]);
            assert!(done.status.success(), "{done:?}");
            ring.until("ring_cut", round + 1);
            let sentence = ring.events();
            let cut = sentence.iter().rev().find(|event| event["event"]["kind"] == "ring_cut");
            assert_eq!(cut.unwrap()["event"]["new"], (round % DEVICES.len()) as u64);
            ring.until_answered(CYCLES);
            assert!(ring.ask(&["segment", "heal", "--on", "r0"]).status.success());
            ring.until("ring_closed", round + 1);
        }
        assert!(troubles(&ring).is_empty(), "{:#?}", ring.events());

        for (down, end) in [("r0b", ROUNDS + 1), ("r0", ROUNDS + 2)] {
            ip(&["link", "set", down, "down"]);
            ring.until("ring_cut", end);
            ring.until_answered(CYCLES);
            ip(&["link", "set", down, "up"]);
            ring.until("ring_closed", end);
        }
        assert!(troubles(&ring).is_empty(), "{:#?}", ring.events());

        let stats = ring.stats();
        let [cycles, lost, wrong, again] =
            ["cycles", "frames_lost", "working_counter_errors", "frames_repeated"]
                .map(|key| stats[key].as_u64().unwrap());
        println!(
            "{cycles} cycles, {lost} without a reply in time, {wrong} with a wrong working counter, {again} frames sent again"
        );
        // A busy machine is without a reply in time by itself, and seldom with half of one.
        assert!(wrong * 10 <= cycles, "{stats}");
    });
}

#[test]
fn a_bus_comes_up_on_a_ring_that_is_cut_already_live() {
    in_a_namespace(|| {
        let mut ring = LiveSegment::start("cut-ring");
        let done = ring.ask(&["segment", "fault", "cut", "--device", "c", "--on", "r0"]);
        assert!(done.status.success(), "{done:?}");
        ring.run_bus();
        ring.until("bus_up", 1);
        ring.until("ring_cut", 1);
        ring.until_answered(CYCLES);
        assert!(ring.ask(&["segment", "heal", "--on", "r0"]).status.success());
        ring.until("ring_closed", 1);
        assert!(troubles(&ring).is_empty(), "{:#?}", ring.events());
    });
}
