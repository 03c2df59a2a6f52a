//! The example controllers: each reads three joints of a humanoid and commands a fourth; when it is
//! killed, the robot holds, and then stops safely.
//!
//! A controller whose language is missing is counted as ignored, with the reason in its line.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::equipment;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use equipment::{
    Robot, built, commands, done, generated_cycle, installed_library, is_newer, octave, root, trial,
};
use libtest_mimic::Trial;
use onbeat_control::{Reading, RingReader, Start};
use onbeat_message::{TypeSet, Value};
use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;

const COMMANDED: &str = "left ankle pitch";
/// Position in rad that a controller moves through before it is killed: its tilt is ±0.15 rad.
const TRAVEL_RAD: f64 = 0.2;
/// Longest wait for a robot that moves, or stops.
const PATIENCE: Duration = Duration::from_secs(120);
/// Least time from the last change of a target to the safe stop, of the 4 s after which the robot
/// takes its commander for lost.
const HELD_NS: u64 = 2_000_000_000;
/// Without a reply for no longer, the devices count as answering (`onbeat_no_answer_for`).
const NO_ANSWER_NS: u64 = 110_000_000;
/// Phase of a robot that runs, and the reason of a safe stop: the commander is lost.
const RUNNING: u64 = 2;
const BY_COMMANDER: u64 = 3;

pub(crate) fn trials() -> Vec<Trial> {
    let stops_safely = |controller: Controller| while !is_seen_to_stop(&controller) {};
    let tests = [
        trial(
            "controllers_stop_safely::a_controller_in_c_from_header_and_pkg_config",
            c,
            stops_safely,
        ),
        trial("controllers_stop_safely::a_controller_in_rust", rust, stops_safely),
        trial("controllers_stop_safely::a_controller_in_python", python, stops_safely),
        trial("controllers_stop_safely::a_controller_in_octave", in_octave, stops_safely),
        trial("controllers_stop_safely::a_component_of_ros2_control", ros2_control, stops_safely),
    ];
    Vec::from(tests)
}

/// A controller's command; the robot's name and a time follow, then these words.
struct Controller {
    command: Command,
    last: Vec<PathBuf>,
}

/// As a new user builds it: an installed library, pkg-config, and nothing of this repository.
fn c() -> Result<Controller, String> {
    for program in ["cc", "pkg-config"] {
        if Command::new(program).arg("--version").output().is_err() {
            return Err(format!("{program} is not installed"));
        }
    }
    let installed = installed_library();
    let folder = root().join("target/clients-controller");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(root().join("examples/level_foot.c"), folder.join("level_foot.c")).unwrap();
    std::fs::write(folder.join("cycle.h"), generated_cycle("c")).unwrap();

    let mut flags = Command::new("pkg-config");
    flags.args(["--cflags", "--libs", "onbeat"]);
    let flags = done(flags.env("PKG_CONFIG_PATH", installed.join("lib/pkgconfig"))).stdout;
    let mut compile = Command::new("cc");
    compile.current_dir(&folder).args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-I."]);
    compile.arg("level_foot.c").args(String::from_utf8(flags).unwrap().split_whitespace());
    done(compile.args(["-lm", "-o", "level_foot"]));

    let mut command = Command::new(folder.join("level_foot"));
    command.env("LD_LIBRARY_PATH", installed.join("lib"));
    Ok(Controller { command, last: Vec::new() })
}

fn rust() -> Result<Controller, String> {
    let (folder, profile) = built();
    let program = folder.join("examples/level_foot");
    if !is_newer(&program, &["examples/level_foot.rs", "crates/onbeat-control/src/goals.rs"]) {
        let mut build = Command::new(env!("CARGO"));
        build.current_dir(root()).args(["build", "--locked", "--profile", profile]);
        build.args(["-p", "onbeat-robot", "--example", "level_foot", "--target-dir"]);
        done(build.arg(folder.parent().unwrap()));
    }
    Ok(Controller { command: Command::new(program), last: Vec::new() })
}

fn python() -> Result<Controller, String> {
    let equipped = commands()?;
    let mut command = Command::new(equipped.get_program());
    command.arg(root().join("examples/level_foot.py"));
    command.env("PYTHONPATH", root().join("python/src"));
    command.env("ONBEAT", env!("CARGO_BIN_EXE_onbeat"));
    Ok(Controller { command, last: Vec::new() })
}

fn in_octave() -> Result<Controller, String> {
    let mut command = octave()?;
    command.arg(root().join("examples/level_foot.m"));
    Ok(Controller { command, last: vec![root().join("target/clients-java")] })
}

/// Against headers that stand in for those of ROS 2, with a program in place of its manager.
fn ros2_control() -> Result<Controller, String> {
    if Command::new("c++").arg("--version").output().is_err() {
        return Err("c++ is not installed (package g++)".to_owned());
    }
    let folder = root().join("examples/ros2_control");
    let program = root().join("target/clients-controller/run_component");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();

    let mut compile = Command::new("c++");
    compile.args(["-std=c++17", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"]);
    compile.arg(folder.join("stub")).arg("-I").arg(root().join("include"));
    compile.args([folder.join("onbeat_system.cpp"), folder.join("stub/run_component.cpp")]);
    done(compile.arg("-o").arg(&program));
    Ok(Controller { command: Command::new(program), last: Vec::new() })
}

/// A cycle of the robot, as it publishes it.
struct RobotCycle {
    at_ns: u64,
    phase: u64,
    rung: u64,
    stopped_by: u64,
    targets: Vec<f64>,
    actuals: Vec<f64>,
}

/// Every cycle of a robot.
struct RobotCycles {
    ring: RingReader,
    types: TypeSet,
    type_name: String,
    commanded: usize,
}

impl RobotCycles {
    fn open(robot: &Robot) -> Self {
        let channel = robot.channel().parse().unwrap();
        let ring = RingReader::open(&channel, Start::Oldest).unwrap();
        let record_type = ring.record_type();
        let types = TypeSet::from_text(&record_type.name, &record_type.schema).unwrap();
        let described: serde_json::Value = serde_json::from_str(&ring.description()).unwrap();
        let joints = described["joints"].as_array().unwrap();
        let commanded = joints.iter().position(|joint| joint["name"] == COMMANDED).unwrap();
        Self { ring, types, type_name: record_type.name, commanded }
    }

    /// Calls `sees` with each cycle until it returns true.
    fn watch(&mut self, robot: &Robot, what: &str, mut sees: impl FnMut(&RobotCycle) -> bool) {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            match self.ring.next() {
                Reading::Record { at_ns, bytes, .. } => {
                    let message = self.types.value(&self.type_name, bytes).unwrap();
                    if sees(&robot_cycle(at_ns, &message)) {
                        return;
                    }
                }
                Reading::Lost(records) => panic!("{records} records lost before {what}"),
                Reading::Nothing => std::thread::sleep(Duration::from_millis(1)),
            }
        }

        panic!("not seen within {PATIENCE:?}: {what}; the robot reported:\n{}", robot.errors());
    }
}

fn robot_cycle(at_ns: u64, message: &Value) -> RobotCycle {
    let number = |name: &str| match message.field(name) {
        Some(Value::Uint(number)) => *number,
        other => panic!("{name}: {other:?}"),
    };
    let numbers = |name: &str| match message.field(name) {
        Some(Value::List(all)) => all
            .iter()
            .map(|value| match value {
                Value::Float64(number) => *number,
                other => panic!("{name}: {other:?}"),
            })
            .collect(),
        other => panic!("{name}: {other:?}"),
    };

    RobotCycle {
        at_ns,
        phase: number("robot_phase"),
        rung: number("robot_rung"),
        stopped_by: number("stopped_by"),
        targets: numbers("target_rad"),
        actuals: numbers("actual_rad"),
    }
}

/// Killed on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The same command once more.
fn copied(command: &Command) -> Command {
    let mut copy = Command::new(command.get_program());
    copy.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => copy.env(name, value),
            None => copy.env_remove(name),
        };
    }
    copy
}

/// `false` where the machine kept the robot from its cycles for so long that the controller,
/// rightly, ended before its motion was seen.
fn is_seen_to_stop(controller: &Controller) -> bool {
    let robot = Robot::humanoid("5ms", "0");
    let mut cycles = RobotCycles::open(&robot);
    let mut command = copied(&controller.command);
    command.args([&robot.name, "600"]).args(&controller.last).stdin(Stdio::null());
    let begun_ns = Monotonic.now().as_ns();
    let mut running = Running(command.spawn().unwrap());

    let commanded = cycles.commanded;
    let (mut low, mut high) = (f64::MAX, f64::MIN);
    let mut first: Option<Vec<f64>> = None;
    let (mut last_ns, mut longest_ns) = (None, 0);
    let mut has_ended = false;
    cycles.watch(&robot, "a foot that tilts, or a gap that ends its controller", |cycle| {
        let gap_ns = cycle.at_ns - last_ns.replace(cycle.at_ns).unwrap_or(cycle.at_ns);
        longest_ns = longest_ns.max(if cycle.at_ns > begun_ns { gap_ns } else { 0 });
        has_ended = has_ended || running.0.try_wait().unwrap().is_some();
        if has_ended {
            return longest_ns > NO_ANSWER_NS;
        }

        if cycle.phase != RUNNING {
            return false;
        }
        let first = first.get_or_insert_with(|| cycle.targets.clone());
        let others = first.iter().zip(&cycle.targets).enumerate();
        let moved: Vec<usize> = others
            .filter(|(joint, (before, now))| *joint != commanded && before != now)
            .map(|(joint, _)| joint)
            .collect();
        assert_eq!(moved, [] as [usize; 0], "joints that the controller does not command");
        low = low.min(cycle.actuals[commanded]);
        high = high.max(cycle.actuals[commanded]);
        high - low > TRAVEL_RAD
    });
    if has_ended {
        println!("the robot ran no cycle for {} ms: once more", longest_ns / 1_000_000);
        return false;
    }
    assert!(running.0.try_wait().unwrap().is_none(), "the controller has ended");
    running.0.kill().unwrap();

    let mut held = (f64::NAN, 0);
    cycles.watch(&robot, "a safe stop", |cycle| {
        if cycle.rung == u64::from(onbeat_ethercat::step::RobotState::SAFE_STOP) {
            assert_eq!(cycle.stopped_by, BY_COMMANDER);
            let held_ns = cycle.at_ns - held.1;
            assert!(held_ns > HELD_NS, "the robot holds before it stops, here for {held_ns} ns");
            return true;
        }
        if cycle.targets[commanded] != held.0 {
            held = (cycle.targets[commanded], cycle.at_ns);
        }
        false
    });
    true
}
