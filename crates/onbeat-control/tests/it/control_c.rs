//! The C header reads and writes images created by Rust.
#![allow(clippy::print_stderr)]

use crate::control_world;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use control_world::{BYTES, cycle, exchange, in_bursts, layout, pattern, unique_name};
use onbeat_control::{
    BusRequest, BusSide, CableLink, CablePosition, Client, DeviceState, GoalAnswer, Image,
    ImageSettings, Joint, Presence, RegisterAction, RegisterRequest, RequestFailure, SdoAction,
    SdoRequest, Sharing, Timed,
};
use onbeat_ethercat::event::{Event, EventKind, NO_DEVICE};
use onbeat_ethercat::link_errors::{ErrorCount, ErrorCounter, LinkErrors};
use onbeat_ethercat::step::{BusCycle, RobotState};
use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;
use onbeat_rt::time::SECOND_NS;

/// Languages supported by the header, each with its compiler flags (all warnings are errors) and
/// the Debian package of the compiler.
const DIALECTS: [(&str, &[&str], &str); 3] = [
    ("cc", &["-std=c11", "-D_POSIX_C_SOURCE=200809L"], "gcc"),
    ("cc", &["-std=gnu17", "-Wpedantic"], "gcc"),
    ("c++", &["-x", "c++", "-std=c++17", "-Wpedantic"], "g++"),
];

/// Compiles a program of `control_c/` for each language whose compiler is installed; prints the
/// reason for the others.
fn compiled(program: &str, into: &Path) -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = here.join("tests/control_c").join(format!("{program}.c"));
    let mut programs = Vec::new();
    for (place, (compiler, words, package)) in DIALECTS.into_iter().enumerate() {
        let program = into.join(format!("{program}-{place}"));
        let mut command = Command::new(compiler);
        command
            .args(words)
            .args(["-O2", "-Wall", "-Wextra", "-Werror", "-I"])
            .arg(here.join("../../include"));
        match command.arg(&source).arg("-o").arg(&program).output() {
            Err(why) => eprintln!(
                "skipped: {words:?}: {compiler} cannot be run ({why}); Debian package {package}"
            ),
            Ok(done) => {
                assert!(
                    done.status.success(),
                    "{words:?}: {}",
                    String::from_utf8_lossy(&done.stderr)
                );
                programs.push(program);
            }
        }
    }

    programs
}

#[test]
fn every_event_kind_has_a_constant_with_the_same_number_in_the_header() {
    let header = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include/onbeat_control.h"),
    );
    let header = header.unwrap();
    let named = |line: &str| {
        line.trim().trim_end_matches(',').strip_prefix("ONBEAT_EVENT_").map(str::to_owned)
    };
    let in_header: Vec<String> =
        header.lines().filter_map(named).filter(|line| line.contains(" = ")).collect();
    let constant = |kind: EventKind| {
        format!("{} = {}", kind.words().replace(' ', "_").to_uppercase(), kind as u16)
    };
    assert_eq!(in_header, EventKind::ALL.map(constant));
}

/// What the Rust client can, and the functions of the header that do the same.
const SAME: [(&str, &str, &str); 40] = [
    ("place", "names", "onbeat_control_names"),
    ("client", "ns", "onbeat_no_cycle_for onbeat_no_answer_for"),
    ("client", "open", "onbeat_control_open"),
    ("client", "snapshot", "onbeat_control_read"),
    ("client", "read", "onbeat_control_read"),
    ("client", "wait_next", "onbeat_control_wait"),
    ("client", "layout", "onbeat_device_find onbeat_value_find"),
    ("client", "devices", "onbeat_device_state"),
    ("client", "events", "onbeat_control_events onbeat_control_event"),
    ("client", "stats", "onbeat_control_counter onbeat_control_times"),
    ("client", "stats_text", "onbeat_control_counter onbeat_control_times"),
    (
        "client",
        "state",
        "onbeat_link onbeat_answering onbeat_al_states onbeat_owner_pid onbeat_commander_pid",
    ),
    ("client", "check", "onbeat_control_check onbeat_control_is_alive"),
    ("client", "find", "onbeat_value_find onbeat_value_find_object"),
    (
        "client",
        "request",
        "onbeat_sdo_read onbeat_sdo_write onbeat_sdo_read_complete onbeat_sdo_write_complete",
    ),
    ("client", "read_register", "onbeat_register_read"),
    ("client", "write_register", "onbeat_register_write"),
    ("client", "rescan", "onbeat_rescan"),
    ("client", "claim", "onbeat_control_claim"),
    ("client", "joints", "onbeat_joint_find"),
    ("client", "command", "onbeat_commander_claim"),
    ("bus_condition", "from_cycle", "onbeat_exchanged"),
    ("bus_condition", "contains", "onbeat_al_states"),
    ("bus_condition", "bits", "onbeat_al_states"),
    ("owner", "write", "onbeat_control_write"),
    ("owner", "write_with", "onbeat_set onbeat_control_write"),
    ("owner", "wait_cycle", "onbeat_control_wait onbeat_control_read"),
    ("owner", "snapshot", "onbeat_control_read"),
    ("value_place", "find", "onbeat_value_find onbeat_value_find_object"),
    ("value_place", "unsigned", "onbeat_unsigned"),
    ("value_place", "signed", "onbeat_signed"),
    ("value_place", "write", "onbeat_set"),
    ("joint", "position_rad", "onbeat_joint_position"),
    ("stats", "counter", "onbeat_control_counter"),
    ("stats", "times", "onbeat_control_times"),
    ("stats", "to_text", "onbeat_control_times"),
    ("stats", "count", "onbeat_control_times"),
    ("stats", "max_ns", "onbeat_control_times"),
    ("stats", "mean_ns", "onbeat_control_times"),
    ("stats", "quantile_ns", "onbeat_quantile"),
];

/// Of no use to an application: slow readers, for measurements and tests; the group of a bus; how long a
/// gateway may repeat a goal.
const RUST_ALONE: [(&str, &str); 4] = [
    ("client", "goal_age_us"),
    ("client", "read_slowly"),
    ("client", "read_while"),
    ("place", "group_id"),
];

#[test]
fn what_the_rust_client_can_the_header_can() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = std::fs::read_to_string(here.join("../../include/onbeat_control.h")).unwrap();
    let is_in_header = |name: &str| {
        header
            .lines()
            .any(|line| line.starts_with("static inline") && line.contains(&format!("{name}(")))
    };
    for (_, _, names) in SAME {
        for name in names.split(' ') {
            assert!(is_in_header(name), "{name}");
        }
    }

    for module in ["place", "client", "bus_condition", "owner", "value_place", "joint", "stats"] {
        let source =
            std::fs::read_to_string(here.join("src").join(format!("{module}.rs"))).unwrap();
        let public = source.lines().filter_map(|line| {
            let line = line.trim();
            let rest = line.strip_prefix("pub fn ").or(line.strip_prefix("pub const fn "))?;
            rest.split(['(', '<']).next()
        });
        for function in public {
            let has_same = SAME.iter().any(|(of, name, _)| (*of, *name) == (module, function));
            let is_excepted = RUST_ALONE.contains(&(module, function));
            assert!(has_same || is_excepted, "{module}::{function} has no function in the header");
        }
    }
}

#[test]
fn every_call_of_ecrt_h_has_an_answer() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = std::fs::read_to_string(here.join("../../docs/control.md")).unwrap();
    let header = std::fs::read_to_string(here.join("../../include/onbeat_control.h")).unwrap();
    let table =
        docs.split("## Coming from IgH's ecrt.h").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = table.lines().filter(|line| line.starts_with('|')).skip(2);
    let mut count = 0;
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [call, answer] = cells[..] else { panic!("not two cells: {row}") };
        assert!(!call.is_empty() && !answer.is_empty(), "{row}");
        let named = answer.split('`').filter(|word| word.starts_with("onbeat_"));
        for name in named {
            assert!(header.contains(&format!("{name}(")), "{name} is not in the header: {row}");
        }
        count += 1;
    }
    assert!(count > 30, "{count} rows");
}

/// The bus of two joints: answers registers and a rescan, and returns what was written.
fn serve_requests(bus: &mut BusSide, is_over: &AtomicBool) -> Vec<BusRequest> {
    let cold = bus.cold_side();
    let mut asked = Vec::new();
    for number in 1.. {
        let mut inputs = vec![0; BYTES];
        // The actual position of the right knee is behind the statusword.
        inputs[BYTES / 2 + 2..][..4].copy_from_slice(&(-1500_i32).to_le_bytes());
        // A minute ahead: a stall of this thread must not look like an outage of the bus.
        let ahead = Monotonic.now().plus_ns(60 * SECOND_NS).as_ns();
        let cycle = BusCycle { release_ns: ahead, fresh: number % 2 == 0, ..cycle(number) };
        let mut outputs = vec![0; BYTES];
        bus.exchange(&cycle, &inputs, &mut outputs);
        bus.answered(ahead);
        bus.set_link(CableLink::Up, 3);

        if let Some(job) = cold.take_request() {
            let answer = match &job.request {
                BusRequest::Register(RegisterRequest { address: 0x0120, .. }) => {
                    Err(RequestFailure::KeptByBus)
                }
                BusRequest::Register(RegisterRequest {
                    action: RegisterAction::Read(bytes),
                    ..
                }) => Ok((1..=*bytes as u8).collect()),
                BusRequest::Rescan => {
                    let found = [
                        CablePosition::Device(0),
                        CablePosition::Unknown,
                        CablePosition::Device(1),
                        CablePosition::NoAnswer,
                    ];
                    Ok(found.into_iter().flat_map(CablePosition::to_bytes).collect())
                }
                BusRequest::Sdo(SdoRequest { action: SdoAction::Read, .. }) => Ok(vec![1, 2, 3]),
                _ => Ok(Vec::new()),
            };
            cold.answer(&job, &answer);
            asked.push(job.request.clone());
        }

        if is_over.load(Ordering::Relaxed) {
            break;
        }

        std::thread::sleep(std::time::Duration::from_micros(200));
    }

    asked
}

#[test]
fn the_header_finds_values_by_name_and_asks_for_registers_and_a_rescan() {
    let dir = tempfile::tempdir().unwrap();
    for program in compiled("requests", dir.path()) {
        let name = unique_name();
        let joint = Joint {
            device: 1,
            low_rad: -1.0,
            high_rad: 2.0,
            velocity_rad_s: 3.0,
            increments_per_rad: -1000.0,
            zero_rad: 0.5,
        };
        let settings = ImageSettings { joints: vec![joint], ..ImageSettings::default() };
        let mut bus = Image::create(&name, &layout(), settings).unwrap();
        for (device, al_state) in [(0, 8), (1, 4)] {
            bus.set_state(
                device,
                DeviceState { al_state, al_status: 0, presence: Presence::Present },
            );
        }

        let mut errors = LinkErrors::default();
        errors.set(ErrorCounter::InvalidFrames(1), ErrorCount::exactly(17));
        errors.set(ErrorCounter::LostLinks(1), ErrorCount::default().plus(255, true));
        bus.set_link_errors(0, &errors);

        let is_over = AtomicBool::new(false);
        let (printed, asked) = std::thread::scope(|threads| {
            let served = threads.spawn(|| serve_requests(&mut bus, &is_over));
            let done = Command::new(&program).arg(&name).output().unwrap();
            is_over.store(true, Ordering::Relaxed);
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            (String::from_utf8(done.stdout).unwrap(), served.join().unwrap())
        });

        let expected = "\
            target: output, byte 330, bit 0, 32 bits\n\
            by object: 1\n\
            unknown value -22, unknown device -14\n\
            set and read: -77, neighbours 0 0\n\
            joint at 2.000 rad\n\
            errors of port 1: read 1, 17 invalid, 255 lost links, at least 8\n\
            errors of another device: read 0\n\
            link 1, 3 answer, states c\n\
            read 0: 01 02 03 04\n\
            write 0, kept -24, beyond -23\n\
            complete 0, 3 bytes, written 0\n\
            named 1, silent 0, nobody 0 0, then 0: 1 1\n\
            rescan 0: 0 65534 1 65535, of which 3 are not all: -21\n";
        assert_eq!(printed, expected);
        let register = |address, action| RegisterRequest { device: 1, address, action }.into();
        let write = |bytes: &[u8]| RegisterAction::Write(bytes.to_vec());
        let complete = |index, action| {
            SdoRequest { device: 0, index, entry: 0, complete: true, action }.into()
        };
        let expected: [BusRequest; 7] = [
            register(0x0300, RegisterAction::Read(4)),
            register(0x0300, write(&[0])),
            register(0x0120, write(&[1, 0])),
            complete(0x1018, SdoAction::Read),
            complete(0x607D, SdoAction::Write(vec![1, 0])),
            BusRequest::Rescan,
            BusRequest::Rescan,
        ];
        assert_eq!(asked, expected);
    }
}

#[test]
fn the_header_waits_ten_cycles_before_it_calls_a_bus_silent() {
    let dir = tempfile::tempdir().unwrap();
    for program in compiled("silence", dir.path()) {
        let done = Command::new(&program).output().unwrap();
        assert!(done.status.success(), "the newest cycle is taken from the caller");
        assert_eq!(String::from_utf8_lossy(&done.stdout), "11 00 11 00\n");
    }
}

/// The bus of a robot: runs cycles, answers SDO requests, and makes a safe stop after a goal.
fn serve(bus: &mut BusSide, is_over: &AtomicBool) {
    let mut goals = bus.goals().unwrap();
    let cold = bus.cold_side();
    let mut robot = RobotState { phase: 2, rung: 0, stopped_by: 0, device: NO_DEVICE, misses: 0 };
    bus.record(Timed::Exchange, 5_000);
    for number in 1.. {
        if goals.latest().is_some() && !robot.is_stopped() {
            robot = RobotState { phase: 3, rung: 3, stopped_by: 2, device: 1, misses: 4 };
            let of = |kind, new, code| Event {
                at_ns: 1,
                cycle: number,
                kind,
                device: 1,
                old: 0,
                new,
                code,
            };
            bus.push(&of(EventKind::JointDown, 0x1218, 1));
            bus.push(&of(EventKind::SafeStop, 2, 1));
        }

        bus.set_robot(Some(robot));
        bus.publish(&cycle(number), &pattern(number), &pattern(0));
        if let Some(job) = cold.take_request() {
            let asked = SdoRequest {
                device: 1,
                index: 0x1018,
                entry: 1,
                complete: false,
                action: SdoAction::Read,
            };
            assert_eq!(job.request, asked.into());
            cold.answer(&job, &Ok(0xF1C7_1005_u32.to_le_bytes().to_vec()));
        }

        if is_over.load(Ordering::Relaxed) {
            break;
        }

        std::thread::sleep(std::time::Duration::from_micros(200));
    }
}

#[test]
fn a_client_of_a_hundred_lines_commands_joints_and_learns_of_a_safe_stop() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/control_c/client.c");
    assert!(std::fs::read_to_string(source).unwrap().lines().count() <= 100);
    let dir = tempfile::tempdir().unwrap();
    for program in compiled("client", dir.path()) {
        let name = unique_name();
        let joint = |device| Joint {
            device,
            low_rad: -1.0,
            high_rad: 2.0,
            velocity_rad_s: 3.0,
            increments_per_rad: 1000.0,
            zero_rad: 0.5,
        };
        let settings =
            ImageSettings { joints: vec![joint(0), joint(1)], ..ImageSettings::default() };
        let mut bus = Image::create(&name, &layout(), settings).unwrap();
        let is_over = AtomicBool::new(false);
        let output = std::thread::scope(|threads| {
            threads.spawn(|| serve(&mut bus, &is_over));
            let done = Command::new(&program).args([&name, "right knee", "0.5"]).output().unwrap();
            is_over.store(true, Ordering::Relaxed);
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            String::from_utf8(done.stdout).unwrap()
        });

        let lines: Vec<&str> = output.lines().collect();
        assert_eq!(
            lines[..2],
            ["vendor 0xf1c71005", "joint down: right knee, reason 1"],
            "{output}"
        );
        let stop = lines[2].strip_prefix("safe stop in cycle ").unwrap();
        let (cycle, why) = stop.split_once(": ").unwrap();
        assert_eq!(why, "a joint is down, joint right knee");
        assert!(lines[3].ends_with(" cycles, 1 exchanges, at most 5000 ns"), "{output}");
        let seen = lines[4]
            .strip_prefix("stopped in cycle ")
            .and_then(|line| line.strip_suffix(", phase 3"))
            .unwrap();

        // The program reads the newest cycle: on a busy machine it may see a later one, never an
        // earlier one.
        assert!(seen.parse::<u64>().unwrap() >= cycle.parse().unwrap(), "{output}");
    }
}

fn started(program: &Path, words: &[&str]) -> (Child, impl FnMut() -> String + use<>) {
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, move || lines.next().map_or_else(String::new, Result::unwrap))
}

#[test]
fn a_c_program_reads_the_image_owns_its_outputs_and_sees_events() {
    let dir = tempfile::tempdir().unwrap();
    compiled("reader", dir.path()).iter().for_each(|program| reads_and_owns(program));
}

fn reads_and_owns(program: &Path) {
    let name = unique_name();
    let mut bus = Image::create(&name, &layout(), Sharing::WaitFree).unwrap();
    bus.set_state(1, DeviceState { al_state: 8, al_status: 0x1B, presence: Presence::Lost });
    bus.publish(&cycle(1), &pattern(1), &pattern(0));
    let (mut child, mut line) = started(program, &[&name, "100000"]);
    let go = |child: &mut Child| child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();

    assert_eq!(line(), "open 0");
    assert_eq!(line(), format!("segment two joints, 2 devices, {BYTES} in, {BYTES} out"));
    let first = "left knee kind 3 alias 11 inputs 0+328, first input 0x6041:0 16 bits at 0, travel -1000..1000, state 0x0";
    assert_eq!(line(), first);
    assert!(line().ends_with("state 0x2001b0008"));
    let is_read = AtomicBool::new(false);
    let published = AtomicU64::new(1);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let numbers = (2..).take_while(|_| !is_read.load(Ordering::Relaxed));
            in_bursts(numbers, |number| {
                bus.publish(&cycle(number), &pattern(number), &pattern(0));
                published.store(number, Ordering::Relaxed);
            });
        });

        control_world::until("the bus publishes", || published.load(Ordering::Relaxed) > 100);
        let asked = child.stdin.as_mut().unwrap().write_all(b"\n");
        let output = line();
        is_read.store(true, Ordering::Relaxed);
        assert!(asked.is_ok());
        assert_eq!(output, "torn 0, working counter 6 of 6");
    });

    assert_eq!((line(), line()), ("claim 0".to_owned(), "write 0".to_owned()));
    assert_eq!(exchange(&mut bus, 1), [0x5A; BYTES]);
    go(&mut child);
    assert_eq!(line(), "write after release -11");
    // A release waits a second at most for the thread that serves the bus.
    bus.cold_side().tend();
    assert_eq!(exchange(&mut bus, 2), [0; BYTES]);
    go(&mut child);
    let pid = child.id();

    assert_eq!((line(), line()), (format!("event 17 code {pid}"), format!("event 18 code {pid}")));
    assert_eq!(line(), "missed 0");
    drop(bus);
    go(&mut child);
    assert_eq!(line(), "after the end -6");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_c_program_gets_an_error_where_it_cannot_read() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compiled("reader", dir.path()).pop() else { return };
    let opened = |name: &str| {
        let (mut child, mut line) = started(&program, &[name, "1"]);
        let output = line();
        child.wait().unwrap();
        output
    };

    assert_eq!(opened("test-nobody"), "open -1");
    let name = unique_name();
    let _bus = Image::create(&name, &layout(), Sharing::Pi).unwrap();
    assert_eq!(opened(&name), "open -4");
}

#[test]
fn a_c_program_commands_joints_and_reads_the_results_of_its_goals() {
    let dir = tempfile::tempdir().unwrap();
    compiled("commander", dir.path()).iter().for_each(|program| commands(program));
}

fn commands(program: &Path) {
    let name = unique_name();
    let joint = |device, low_rad| Joint {
        device,
        low_rad,
        high_rad: 2.0,
        velocity_rad_s: 3.0,
        increments_per_rad: 1000.0,
        zero_rad: 0.5,
    };
    let joints = vec![joint(0, -1.0), joint(1, -1.5)];
    let settings = ImageSettings { joints, goal_age_ns: 70_000_000, ..ImageSettings::default() };
    let mut bus = Image::create(&name, &layout(), settings).unwrap();
    let mut goals = bus.goals().unwrap();
    let (mut child, mut line) = started(program, &[&name]);
    let go = |child: &mut Child| child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();

    assert_eq!((line(), line()), ("right knee 1, nose -1".to_owned(), "claim 0".to_owned()));
    assert_eq!(
        (line(), line()),
        ("travel -1.5..2 at 3 rad/s, age 70000 us".to_owned(), "give 0".to_owned())
    );
    let until_newer = |goals: &mut onbeat_control::GoalSide, than: u64| {
        control_world::until("a goal", || goals.latest() > Some(than));
        goals.positions().collect::<Vec<_>>()
    };

    assert_eq!(until_newer(&mut goals, 0), [(1, 0.25)]);
    goals.answer(1, GoalAnswer::Taken);
    go(&mut child);
    assert_eq!(line(), "answer 1 to 1");
    assert!(until_newer(&mut goals, 1)[0].1.is_nan());
    goals.answer(2, GoalAnswer::Refused);
    let client = Client::open(&name).unwrap();

    assert_eq!(client.state().commander.map(|(pid, _)| pid), Some(child.id()));
    go(&mut child);
    assert_eq!((line(), line()), ("answer 2 to 2".to_owned(), "give after release -11".to_owned()));
    assert_eq!(until_newer(&mut goals, 3), [(0, 0.0), (1, 0.5)]);
    assert!(goals.is_last());
    bus.publish(&cycle(1), &pattern(1), &pattern(0));
    drop(client.command().unwrap());
    go(&mut child);

    assert!(child.wait().unwrap().success());
}
