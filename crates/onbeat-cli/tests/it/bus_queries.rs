//! `onbeat bus` beside a bus without devices, created by the test and queried by the command line.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use onbeat_control::{
    BusRequest, BusSide, CablePosition, DeviceState, Image, Presence, RegisterAction,
    RequestFailure, SdoAction, Sharing, Timed,
};
use onbeat_ethercat::event::{Event, EventKind};
use onbeat_ethercat::layout::{DeviceKind, DeviceLayout, Layout, MappedValue};
use onbeat_ethercat::link_errors::{ErrorCount, ErrorCounter, LinkErrors};
use onbeat_ethercat::step::BusCycle;
use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;
use serde_json::{Value, json};

fn bus(name: &str) -> BusSide {
    let mut layout = Layout { name: "one joint".to_owned(), ..Layout::default() };
    let value = |index, data_type, bits, bit_at| MappedValue {
        index,
        entry: 0,
        bits,
        data_type,
        bit_at,
        name: String::new(),
    };
    layout.add(DeviceLayout {
        name: "left knee".to_owned(),
        kind: DeviceKind::Drive,
        alias: 11,
        vendor: 0xF1C7_1005,
        product: 4,
        revision: 1,
        serial: 0,
        outputs: 0..2,
        inputs: 0..6,
        output_values: vec![value(0x6040, 6, 16, 0)],
        input_values: vec![value(0x6041, 6, 16, 0), value(0x6064, 4, 32, 16)],
        increments: 65_536,
        travel: [0, 0],
        setup: onbeat_ethercat::setup::DeviceSetup::default(),
    });

    let mut bus = Image::create(name, &layout, Sharing::WaitFree).unwrap();
    bus.set_state(0, DeviceState { al_state: 4, al_status: 0x1B, presence: Presence::Present });
    // Of now, and of a bus that is slow enough for it to be still of now when it is asked for.
    let release_ns = Monotonic.now().as_ns();
    let dt_ns = 60_000_000_000;
    let cycle = BusCycle {
        cycle: 41,
        release_ns,
        dt_ns,
        working_counter: 2,
        expected: 3,
        ..BusCycle::default()
    };
    bus.exchange(&cycle, &[0x27, 0x10, 0x18, 0xFC, 0xFF, 0xFF], &mut [0; 2]);
    bus
}

fn ask(name: &str, words: &[&str]) -> Output {
    // A loaded machine may stop for seconds, and who answers with it.
    let is_request = ["sdo", "register", "rescan"].contains(&words[0]);
    Command::new(env!("CARGO_BIN_EXE_onbeat"))
        .arg("bus")
        .args(words)
        .args(is_request.then_some(["--timeout", "60s"]).into_iter().flatten())
        .args(["--name", name])
        .env("ONBEAT_STATE_DIR", state_of(name))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Directory of the log of writes of a test.
fn state_of(name: &str) -> PathBuf {
    std::env::temp_dir().join(name)
}

fn printed(name: &str, words: &[&str]) -> String {
    let output = ask(name, words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(name: &str, words: &[&str]) -> Value {
    serde_json::from_str(&printed(name, &[words, &["--json"]].concat())).unwrap()
}

fn name(of: &str) -> String {
    format!("test-cli-{of}-{}", std::process::id())
}

/// Ends the thread that answers for the devices, also when an assertion fails: the scope waits for
/// that thread.
struct Ends<'f>(&'f AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn state_and_devices_are_printed_as_words_and_as_json() {
    let name = name("state");
    let _bus = bus(&name);
    let state = printed(&name, &["state"]);
    assert!(state.contains("one joint, 0 of 1 devices in OP"), "{state}");
    assert!(
        state.contains("cycle 41, working counter 2 of 3")
            && state.contains("outputs belong to nobody"),
        "{state}"
    );
    let state = json(&name, &["state"]);

    assert_eq!(
        (&state["cycle"], &state["pid"], &state["owner"]),
        (&41.into(), &std::process::id().into(), &Value::Null)
    );
    let devices = printed(&name, &["info"]);

    assert!(devices.contains("left knee") && devices.contains("SAFEOP 0x001b"), "{devices}");
    assert!(devices.lines().all(|line| line.chars().count() <= 80), "{devices}");
    assert_eq!(json(&name, &["info"])[0]["inputs"]["bytes"], 6);
}

#[test]
fn errors_of_the_links_are_printed_with_device_port_and_numbers() {
    let name = name("errors");
    let bus = bus(&name);
    assert!(printed(&name, &["state"]).contains("error counters of 1 device not read yet"));
    assert_eq!(json(&name, &["info"])[0]["link_errors"], Value::Null);

    let mut errors = LinkErrors::default();
    errors.set(ErrorCounter::ForwardedErrors(1), ErrorCount::exactly(3));
    bus.set_link_errors(0, &errors);
    assert!(printed(&name, &["state"]).contains("no errors on the links since the bus came up"));
    assert_eq!(json(&name, &["state"])["link_errors"], json!({}), "it arose elsewhere");

    errors.set(ErrorCounter::InvalidFrames(0), ErrorCount::exactly(17));
    errors.set(ErrorCounter::LostLinks(1), ErrorCount::default().plus(255, true));
    bus.set_link_errors(0, &errors);
    let words = "left knee, port 0: 17 invalid frames; port 1: >= 255 lost links";
    let state = printed(&name, &["state"]);
    assert!(state.contains(&format!("errors since the bus came up: {words}")), "{state}");
    let info = printed(&name, &["info"]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(info.contains(&format!("Errors since the bus came up: {words}.")), "{info}");

    let lost = json!({ "counter": "lost_links", "port": 1, "count": 255, "at_least": true });
    let of_knee = &json(&name, &["info"])[0]["link_errors"];
    assert_eq!((of_knee.as_array().unwrap().len(), &of_knee[2]), (3, &lost));
    assert_eq!(json(&name, &["state"])["link_errors"]["left knee"], *of_knee);
}

#[test]
fn values_are_words_and_numbers_with_a_sign_by_name_or_place() {
    let name = name("watch");
    let _bus = bus(&name);
    for device in ["left knee", "0"] {
        let line = printed(&name, &["watch", device, "--count", "1"]);
        assert!(
            line.contains("left knee        statusword operation enabled  position -"),
            "{line}"
        );
        assert!(line.trim_end().ends_with("  controlword disable voltage"), "{line}");

        let line = printed(&name, &["watch", device, "--count", "1", "--raw"]);
        assert!(
            line.trim_end().ends_with("left knee        6041:0 0x1027  6064:0 -1000  6040:0 0x0"),
            "{line}"
        );
    }

    assert_eq!(printed(&name, &["watch", "--count", "3", "--every", "1ms"]).lines().count(), 3);
    let values = json(&name, &["watch", "--count", "1"]);
    assert_eq!(values["devices"]["left knee"]["6064:0"], u64::from((-1000_i32).cast_unsigned()));
    let nobody = ask(&name, &["watch", "right knee"]);
    assert_eq!(nobody.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&nobody.stderr).contains("this bus has no device \"right knee\"")
    );
}

#[test]
fn events_are_printed_in_order_and_as_they_come() {
    let name = name("events");
    let mut bus = bus(&name);
    let event = |kind, code| Event {
        at_ns: 1_500_000_000,
        cycle: 7,
        kind,
        device: 0,
        old: 8,
        new: 4,
        code,
    };
    bus.push(&event(EventKind::StateChanged, 27));
    bus.push(&event(EventKind::DeviceLost, 0));
    let lines = printed(&name, &["events"]);
    let first = lines.lines().next().unwrap();

    assert!(first.contains("1.500000 s") && first.contains("state_changed"), "{first}");
    assert!(
        first.ends_with("left knee went from OP to SAFEOP (0x001b, sync manager watchdog)"),
        "{first}"
    );
    assert_eq!(lines.lines().count(), 2);
    assert_eq!(json(&name, &["events", "--from", "2"])["event"]["kind"], "device_lost");
    let mut following = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    following
        .args(["bus", "events", "--follow", "--name", &name])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut following = following.spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines().map(Result::unwrap);

    assert!(lines.any(|line| line.contains("device_lost")), "those that are kept come first");
    bus.push(&event(EventKind::DeviceBack, 0));
    assert!(lines.any(|line| line.contains("device_back")), "then those that come");
    drop(bus);
    let ended = following.wait_with_output().unwrap();

    assert!(String::from_utf8_lossy(&ended.stderr).contains("has ended in order"));
}

#[test]
fn a_change_of_many_devices_is_one_line_with_the_names_of_the_first_ones() {
    let name = name("many");
    let mut bus = bus(&name);
    let event = |kind, (device, old, new), code| Event {
        at_ns: 1_500_000_000,
        cycle: 7,
        kind,
        device,
        old,
        new,
        code,
    };
    let together = event(EventKind::DevicesLeftOp, (u16::MAX, 5, 100), 0x1b << 16 | 301);
    bus.push(&together);
    for _ in 0..5 {
        bus.push(&event(EventKind::LeftOpWithOthers, (0, 8, 4), 0x1b));
    }
    bus.push(&event(EventKind::DeviceBack, (0, 0, 0), 0));

    let lines = printed(&name, &["events"]);
    assert_eq!(lines.lines().count(), 2, "{lines}");
    let first = lines.lines().next().unwrap();
    let sentence = "5 devices left OP (0x001b, sync manager watchdog): this loop paused 301 ms, the \
        watchdog is 100 ms: left knee, left knee, left knee and 2 more (--json: each)";
    assert!(first.ends_with(sentence), "{first}");
    let all = printed(&name, &["events", "--json"]);
    assert_eq!(all.lines().count(), 7, "nothing is left out there");
}

#[test]
fn statistics_are_a_table_an_object_and_a_text() {
    let name = name("stats");
    let bus = bus(&name);
    bus.record(Timed::RoundTrip, 12_000);
    let table = printed(&name, &["stats"]);

    assert!(table.contains("round trip") && table.contains("1 cycles, 0 frames lost"), "{table}");
    assert_eq!(json(&name, &["stats"])["round_trip"]["max_ns"], 12_000);
    let text = printed(&name, &["stats", "--text"]);
    assert!(
        text.lines().any(|line| line == "round_trip_max_ns 12000")
            && text.contains("\nsharing wait-free\n"),
        "{text}"
    );
}

#[test]
fn registers_and_a_rescan_go_through_the_bus() {
    let name = name("registers");
    let bus = bus(&name);
    let cold = bus.cold_side();
    let is_over = AtomicBool::new(false);
    thread::scope(|threads| {
        let _ends = Ends(&is_over);
        threads.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                if let Some(job) = cold.take_request() {
                    let answer = match &job.request {
                        BusRequest::Register(request) if request.address == 0x0300 => {
                            let is_read = request.action == RegisterAction::Read(2);
                            Ok(if is_read { vec![0x18, 0xfc] } else { Vec::new() })
                        }
                        BusRequest::Rescan => {
                            let found = [CablePosition::Unknown, CablePosition::NoAnswer];
                            Ok(found.into_iter().flat_map(CablePosition::to_bytes).collect())
                        }
                        _ => Err(RequestFailure::KeptByBus),
                    };
                    cold.answer(&job, &answer);
                }
                thread::sleep(Duration::from_millis(1));
            }
        });

        let read = ["register", "read", "left knee", "0300", "2"];
        assert_eq!(printed(&name, &read), "64536 (-1000) 0xfc18\n");
        assert_eq!(
            printed(&name, &["register", "write", "0", "0x0300", "0u8", "--yes"]),
            "left knee: register 0x0300 written\n"
        );
        let refused = ask(&name, &["register", "write", "0", "0120", "hex:0100", "--yes"]);
        assert_eq!(refused.status.code(), Some(2));
        let refused = String::from_utf8(refused.stderr).unwrap();
        assert!(
            refused.contains("register 0x0120 of \"left knee\": the bus process sets"),
            "{refused}"
        );
        let rescan = "   0  a device that is not of this bus, or not identified yet\n   \
                      1  no answer\nnot on the cable: left knee\n";
        assert_eq!(printed(&name, &["rescan"]), rescan);
    });
}

#[test]
fn objects_are_read_and_written_through_the_bus() {
    let name = name("sdo");
    let bus = bus(&name);
    let cold = bus.cold_side();
    let is_over = AtomicBool::new(false);
    thread::scope(|threads| {
        let _ends = Ends(&is_over);
        threads.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                if let Some(job) = cold.take_request() {
                    let BusRequest::Sdo(request) = &job.request else { panic!("{job:?}") };
                    let answer = match (request.index, &request.action) {
                        (0x6065, SdoAction::Write(bytes)) if *bytes == [0x9C, 0xFF, 0xFF, 0xFF] => {
                            Ok(Vec::new())
                        }
                        (0x1008, SdoAction::Read) => Ok(b"drive".to_vec()),
                        (0x6064, SdoAction::Read) => Ok(vec![0x18, 0xFC, 0xFF, 0xFF]),
                        _ => Err(RequestFailure::Abort(0x0602_0000)),
                    };
                    cold.answer(&job, &answer);
                }
                thread::sleep(Duration::from_millis(1));
            }
        });

        assert_eq!(
            printed(&name, &["sdo", "read", "left knee", "6064"]),
            "4294966296 (-1000) 0xfffffc18\n"
        );
        assert_eq!(printed(&name, &["sdo", "read", "0", "1008"]), "\"drive\" 6472697665\n");
        assert_eq!(
            printed(&name, &["sdo", "write", "0", "6065", "-100i32", "--yes"]),
            "left knee: object 0x6065:0 written\n"
        );
        let unanswered = ask(&name, &["sdo", "write", "0", "6065", "-100i32"]);
        let said = String::from_utf8_lossy(&unanswered.stderr).into_owned();
        assert_eq!(unanswered.status.code(), Some(2), "{said}");
        assert!(
            said.contains("nothing was written: a write to a device needs an answer"),
            "{said}"
        );
        let log = std::fs::read_to_string(state_of(&name).join("bus-writes.jsonl")).unwrap();
        let lines: Vec<Value> =
            log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let outcomes: Vec<&Value> = lines.iter().map(|line| &line["outcome"]).collect();
        assert_eq!(outcomes, ["begun", "done"], "the one with --yes: {log}");
        assert_eq!(
            (&lines[0]["bus"], &lines[0]["what"]),
            (&json!(name), &json!("object 0x6065:0 to 9cffffff"))
        );
        std::fs::remove_dir_all(state_of(&name)).unwrap();
        assert_eq!(json(&name, &["sdo", "read", "0", "6064"])["bytes"], "18fcffff");
        let refused = ask(&name, &["sdo", "read", "0", "5000:1"]);
        let sentence = "object 0x5000:1 of \"left knee\": the device refused with abort code 0x06020000: object does not exist";

        assert!(String::from_utf8_lossy(&refused.stderr).contains(sentence));
        assert_eq!(refused.status.code(), Some(2));
    });
}
