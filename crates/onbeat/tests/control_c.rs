//! The C header reads and writes images that Rust makes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, missing_docs)]

mod control_world;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use control_world::{BYTES, cycle, exchange, layout, pattern, unique_name};
use onbeat::ethercat::control::{Client, DeviceState, GoalAnswer, Image, Joint, Presence, Settings, Sharing};

/// A program of `control_c/`, compiled here; `None` without a C compiler, with the reason printed.
fn compiled(program: &str, into: &Path) -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = here.join("tests/control_c").join(format!("{program}.c"));
    let program = into.join(program);
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-I"]).arg(here.join("../../include"));
    match cc.arg(source).arg("-o").arg(&program).output() {
        Err(why) => {
            eprintln!("skipped: there is no C compiler here (cc: {why}); Debian package gcc");
            None
        }
        Ok(done) => {
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            Some(program)
        }
    }
}

fn started(program: &Path, words: &[&str]) -> (Child, impl FnMut() -> String + use<>) {
    let mut child =
        Command::new(program).args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, move || lines.next().map_or_else(String::new, Result::unwrap))
}

#[test]
fn a_c_program_reads_the_image_owns_its_outputs_and_sees_events() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compiled("reader", dir.path()) else { return };
    let name = unique_name();
    let mut bus = Image::create(&name, &layout(), Sharing::WaitFree).unwrap();
    bus.set_state(1, DeviceState { al_state: 8, al_status: 0x1B, presence: Presence::Lost });
    bus.publish(&cycle(1), &pattern(1), &pattern(0));
    let (mut child, mut line) = started(&program, &[&name, "100000"]);
    let go = |child: &mut Child| child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    assert_eq!(line(), "open 0");
    assert_eq!(line(), format!("segment two joints, 2 devices, {BYTES} in, {BYTES} out"));
    let first =
        "left knee kind 3 alias 11 inputs 0+328, first input 0x6041:0 16 bits at 0, travel -1000..1000, state 0x0";
    assert_eq!(line(), first);
    assert!(line().ends_with("state 0x2001b0008"));
    let is_read = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut number = 1;
            while !is_read.load(Ordering::Relaxed) {
                number += 1;
                bus.publish(&cycle(number), &pattern(number), &pattern(0));
            }
        });
        let told = line();
        is_read.store(true, Ordering::Relaxed);
        assert_eq!(told, "torn 0, working counter 6 of 6");
    });
    assert_eq!((line(), line()), ("claim 0".to_owned(), "write 0".to_owned()));
    assert_eq!(exchange(&mut bus, 1), [0x5A; BYTES]);
    go(&mut child);
    assert_eq!(line(), "write after release -11");
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
fn a_c_program_is_told_where_it_cannot_read() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compiled("reader", dir.path()) else { return };
    let opened = |name: &str| {
        let (mut child, mut line) = started(&program, &[name, "1"]);
        let told = line();
        child.wait().unwrap();
        told
    };
    assert_eq!(opened("test-nobody"), "open -1");
    let name = unique_name();
    let _bus = Image::create(&name, &layout(), Sharing::Pi).unwrap();
    assert_eq!(opened(&name), "open -4");
}

#[test]
fn a_c_program_commands_joints_and_hears_what_became_of_its_goals() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compiled("commander", dir.path()) else { return };
    let name = unique_name();
    let joint = |device, low_rad| Joint { device, low_rad, high_rad: 2.0, velocity_rad_s: 3.0 };
    let joints = vec![joint(0, -1.0), joint(1, -1.5)];
    let settings = Settings { joints, goal_age_ns: 70_000_000, ..Settings::default() };
    let mut bus = Image::create(&name, &layout(), settings).unwrap();
    let mut goals = bus.goals().unwrap();
    let (mut child, mut line) = started(&program, &[&name]);
    let go = |child: &mut Child| child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    assert_eq!((line(), line()), ("right knee 1, nose -1".to_owned(), "claim 0".to_owned()));
    assert_eq!((line(), line()), ("travel -1.5..2 at 3 rad/s, age 70000 us".to_owned(), "give 0".to_owned()));
    let until_newer = |goals: &mut onbeat::ethercat::control::GoalSide, than: u64| {
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
