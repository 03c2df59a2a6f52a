//! A bench with a robot of its user's own, and the line with which it ends: the robot moves at full
//! amplitude in every cell, and then under the best tuning.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use onbeat::record::{MotionNote, RunFile};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;

/// A joint's sine goes as far as this in both directions, in rad.
const AMPLITUDE_RAD: f64 = 0.05;
/// The soft start and two turns of the sine, in cycles of 1 ms.
const FULL_MOTION_CYCLES: u64 = 800;
/// Trajectory time of the last run: the soft start and almost three turns of the sine, in s.
const MOVED_S: f64 = 1.0;

/// Six drives of a vendor's file. Stalls of this machine must not stop them: the watchdog and the
/// ladder are wide.
const FILE: &str = r#"
[segment]
name = "six drives"
watchdog_ms = 6000
[types.servo]
esi = "servo.xml"
device = "joint"
[[devices]]
type = "servo"
names = ["a", "b", "c", "d", "e", "f"]
[robot]
trajectory = "sine"
soft_start_ms = 300
following_ms = 60000
[robot.ladder]
degrade_at = 1000000
stop_at = 1000000
[[joints]]
match = "*"
amplitude_rad = 0.05
frequency_hz = 4.0
"#;

fn onbeat_in(dir: &Path, program: &str) -> Command {
    let binaries = Path::new(env!("CARGO_BIN_EXE_onbeat")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(program);
    command
        .current_dir(dir)
        .env("PATH", format!("{}:{path}", binaries.display()))
        .env("ONBEAT_STATE_DIR", dir.join("state"));
    command
}

fn robot_in(dir: &Path) {
    let esi =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../onbeat-segment/tests/esi_files/servo.xml");
    fs::copy(esi, dir.join("servo.xml")).unwrap();
    fs::write(dir.join("six drives.toml"), FILE).unwrap();
}

/// Runs a bench with the robot; returns what it printed.
fn bench(dir: &Path) -> String {
    let tunings = if geteuid().is_root() { "none,PMC" } else { "none,S" };
    if !geteuid().is_root() {
        println!("skipped: the tuning PMC: it needs root; S instead");
    }
    let mut command = onbeat_in(dir, "onbeat");
    command.args(["bench", "--with", "bus", "six drives.toml", "--tunings", tunings]);
    // What the preparation takes on a slow machine is taken from the blocks, where the robot moves.
    command.args(["--loads", "idle,paper", "--for", "26s", "--limit", "1ms", "--at", "90"]);
    let output = command.args(["--no-causes", "--quiet"]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("report   "), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// The figures of the latest run, as its report has them.
fn summary(dir: &Path) -> Value {
    let output = onbeat_in(dir, "onbeat").args(["report", "--json"]).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The loop's thread of a running onbeat, once it is there.
fn loop_thread(of: &Child) -> std::path::PathBuf {
    let tasks = format!("/proc/{}/task", of.id());
    for _ in 0..600 {
        let all = fs::read_dir(&tasks).into_iter().flatten().flatten().map(|task| task.path());
        let is_loop = |task: &std::path::PathBuf| {
            fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "onbeat-loop")
        };
        if let Some(task) = all.into_iter().find(is_loop) {
            return task;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("no loop in {tasks}");
}

/// A line of a `status` file of /proc.
fn status(task: &Path, key: &str) -> String {
    let text = fs::read_to_string(task.join("status")).unwrap();
    let line = text.lines().find(|line| line.starts_with(key)).unwrap();
    line[key.len()..].trim_matches([':', ' ', '\t']).to_owned()
}

/// Policy and priority of a thread, fields 41 and 40 of its `stat` file.
fn policy_and_priority(task: &Path) -> [u32; 2] {
    let text = fs::read_to_string(task.join("stat")).unwrap();
    let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
    [fields[38], fields[37]].map(|field| field.parse().unwrap())
}

/// The kernel's own words for what a tuning makes of the loop. A thread has its name before it
/// takes its CPU, and last its priority.
fn assert_tuned(task: &Path, tuning: &str) {
    let fifo = u32::from(tuning.contains('P'));
    let wanted = [fifo, 98 * fifo];
    for _ in 0..600 {
        if policy_and_priority(task) == wanted {
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(policy_and_priority(task), wanted, "{tuning}");
    let locked = status(task, "VmLck");
    assert_eq!(tuning.contains('M'), !locked.starts_with("0 "), "{tuning}: {locked}");
    let cpus = status(task, "Cpus_allowed_list");
    assert_eq!(tuning.contains('C'), cpus.parse::<u32>().is_ok(), "{tuning}: {cpus}");
}

/// What a robot prints until its trajectory has come this far; everything, if it ends before.
fn said_until_moved(out: &mut impl BufRead) -> String {
    let has_moved = |line: &str| {
        let time_s = line.split_once(" s  ").and_then(|(time, _)| time.parse::<f64>().ok());
        time_s.is_some_and(|time_s| time_s >= MOVED_S)
    };
    let mut said = String::new();
    loop {
        let mut line = String::new();
        if out.read_line(&mut line).unwrap() == 0 || has_moved(&line) {
            return said + &line;
        }
        said += &line;
    }
}

/// Runs the line that a bench printed, for as long as the robot needs to move, and returns the run.
fn run_line(dir: &Path, line: &str, tuning: &str) -> RunFile {
    let mut command = onbeat_in(dir, "sh");
    command.args(["-c", &format!("exec {line}")]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut robot = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(robot.stdout.take().unwrap());
    assert_tuned(&loop_thread(&robot), tuning);
    let mut said = said_until_moved(&mut out);
    kill_process(Pid::from_child(&robot), Signal::INT).unwrap();
    out.read_to_string(&mut said).unwrap();
    let output = robot.wait_with_output().unwrap();

    assert!(
        output.status.code().is_some_and(|code| code != 2 || said.contains("INCONCLUSIVE")),
        "{said}{output:?}"
    );
    assert!(said.contains("worst following error"), "{said}");
    RunFile::read(&dir.join("onbeat-runs/latest/robot.onbeat.hlog")).unwrap()
}

/// The joints of a run step by step: no cycle is missing within a block, and the worst following
/// error of all steps is that of the account.
fn assert_steps(run: &RunFile, motion: &MotionNote) {
    let robot = run.robot.as_ref().unwrap();
    assert_eq!((robot.joints.len(), robot.devices.len()), (6, 6));
    let steps: Vec<_> = run.joints.iter().flat_map(|note| &note.steps).collect();
    let breaks = steps.windows(2).filter(|pair| pair[1].first != pair[0].last + 1).count();
    assert!(breaks < run.blocks.len(), "{breaks} gaps in {} blocks", run.blocks.len());

    for joint in &motion.joints {
        let place = robot.joints.iter().position(|known| known.name == joint.name).unwrap();
        let following =
            steps.iter().flat_map(|step| [step.joints[place][7], step.joints[place][8]]);
        let worst = following.flatten().map(i64::abs).max().unwrap();
        assert_eq!(worst, (joint.following_rad.abs() * 1e6).round() as i64, "{}", joint.name);
    }
}

/// The robot moved fully in a cell, if the loop ran often enough: the paper's load may leave a loop
/// at no priority a tenth of its cycles.
fn assert_moved(cell: &Value) {
    let motion = &cell["motion"];
    let cycles = motion["running"].as_u64().unwrap();
    let tuning = cell["tuning"].as_str().unwrap();
    if cycles < FULL_MOTION_CYCLES && !tuning.contains('P') {
        assert!(cell["skipped"].as_u64().unwrap() > 0, "{cell}");
        println!("skipped: the motion of {tuning}, {}: {cycles} cycles", cell["load"]);
        return;
    }

    let travel_rad =
        |joint: &Value| joint["high_rad"].as_f64().unwrap() - joint["low_rad"].as_f64().unwrap();
    assert_eq!(motion["amplitude"], 1.0, "{cell}");
    let joints = motion["joints"].as_array().unwrap().iter().map(travel_rad);
    let most_rad = joints.fold(0.0, f64::max);
    assert!(most_rad > 1.8 * AMPLITUDE_RAD, "{most_rad} rad: {cell}");
}

#[test]
fn every_cell_moves_the_robot_fully_and_the_last_line_runs_it_under_the_best_tuning() {
    let dir = tempfile::tempdir().unwrap();
    robot_in(dir.path());
    let said = bench(dir.path());
    let summary = summary(dir.path());
    let cells = summary["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 4);
    for cell in cells {
        let motion = &cell["motion"];
        assert_eq!(motion["safe_stops"], 0, "{cell}");
        assert_moved(cell);
        let file = dir.path().join("onbeat-runs/latest").join(cell["file"].as_str().unwrap());
        let run = RunFile::read(&file).unwrap();
        assert_steps(&run, run.motion.as_ref().unwrap());
    }
    let full = cells.iter().filter(|cell| cell["motion"]["amplitude"] == 1.0).count();
    let expected = format!("sine at full amplitude in {full} of 4 cells");
    assert!(said.contains(&expected), "{expected}: {said}");

    let line = said.lines().last().unwrap().strip_prefix("run      ").unwrap();
    let tuning = summary["verdict"]["best"]["tuning"].as_str().unwrap();
    let expected = "onbeat robot run 'six drives.toml' --priority 98 --limit 1000us --at 90";
    assert_eq!(line, format!("{expected} --tuning {tuning} --load paper"));

    let run = run_line(dir.path(), line, tuning);
    let motion = run.motion.clone().unwrap();
    assert_eq!(motion.safe_stops, 0);
    assert_eq!(motion.joints.len(), 6);
    assert_steps(&run, &motion);
    assert_eq!(run.devices.as_ref().unwrap().devices.len(), 6);
    assert!(motion.joints.iter().all(|joint| joint.travel_rad() > AMPLITUDE_RAD), "{motion:?}");
    assert_eq!(run.blocks[0].load, "paper");
    assert_eq!(run.header.limit.map(|limit| limit.limit_ns), Some(1_000_000));
    assert_eq!(run.header.tuning(), tuning);
}

#[test]
fn a_trajectory_that_follows_goals_from_outside_is_refused_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = onbeat_in(dir.path(), "onbeat");
    let output = command.args(["bench", "--with", "bus", "--trajectory", "goal"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--trajectory goal follows goals from outside"), "{said}");
    assert!(!dir.path().join("onbeat-runs").exists());
}
