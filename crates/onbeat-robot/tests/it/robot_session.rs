//! A robot that a program runs without the command line: it is brought up, moves, is asked to stop,
//! and its run file holds the session's own figures and every event that the observer saw.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use onbeat::probe::{self, Destination, Interruptions, Origin, Run, Setting};
use onbeat::record::{JointMotion, MotionNote, RunFile};
use onbeat_ethercat::event::{Event, EventKind};
use onbeat_robot::bus::{BusOptions, ExchangeMode, InProcess};
use onbeat_robot::motion::{
    DownReason, JointState, JointView, MotionController, RobotPhase, RobotView, Rung, Trajectory,
};
use onbeat_robot::session::{RobotFile, Session, SessionObserver, SessionOutcome, SessionPlan};
use onbeat_rt::sys::Monotonic;
use onbeat_segment::Link;

/// Long enough for a loop of an ordinary thread on a busy machine.
const PERIOD_NS: u64 = 5_000_000;
/// Way of each joint from 0 after which the robot is asked to stop.
const MOVED_RAD: f64 = 0.05;

/// Asks the robot to stop once it has moved. Where a machine keeps the loop from its cycles for so
/// long that drives or the robot stop before, they are reset.
struct Witness<'i> {
    interruptions: &'i Interruptions,
    has_moved: bool,
    events: Vec<(EventKind, String)>,
}

impl SessionObserver for Witness<'_> {
    fn view(&mut self, view: &RobotView) {
        let joints = || view.devices.iter().filter_map(|device| device.joint.as_ref());
        // What a drive does without power is not counted as motion.
        let is_away = |joint: &JointView| {
            joint.state == JointState::OperationEnabled && joint.actual_rad.abs() >= MOVED_RAD
        };
        self.has_moved |= joints().all(is_away);
        self.interruptions.stop.store(self.has_moved, Ordering::Relaxed);

        let has_stopped = view.rung == Rung::SafeStop && view.phase == RobotPhase::AtRest;
        let is_down = joints().any(|joint| joint.reason != DownReason::None);
        let needs_reset = (has_stopped || is_down) && !self.has_moved;
        self.interruptions.summary.store(needs_reset, Ordering::Relaxed);
    }

    fn event(&mut self, event: &Event, device: &str) {
        self.events.push((event.kind, device.to_owned()));
    }
}

/// The two joints, with a ladder that a busy machine does not climb: missed cycles are none of this
/// test's business.
fn patient_joints(directory: &Path) -> RobotFile {
    let ladder = "[robot.ladder]\ndegrade_at = 1000000\nstop_at = 1000000";
    let text = include_str!("../two_joints.toml").replace("[robot.ladder]", ladder);
    let path = directory.join("two_joints.toml");
    fs::write(&path, text).unwrap();
    RobotFile::read(&path, PERIOD_NS).unwrap()
}

/// Runs the robot until the witness has seen enough.
fn run(file: &RobotFile, path: &Path, witness: &mut Witness<'_>) -> SessionOutcome {
    let wire = InProcess::on_clock(Link::from_description(&file.description).unwrap(), Monotonic);
    let options =
        BusOptions { mode: ExchangeMode::Pipelined, period_ns: PERIOD_NS, follow_clock: true };
    let session = Session::bring_up(wire, "the simulated segment", file, options).unwrap();

    let origin = Origin::now();
    let header = probe::header(&["a program".to_owned()], "robot", &[], origin.unix_s);
    let destination = Destination { path, header, origin: origin.at };
    let run = Run::open(destination, Setting::new(PERIOD_NS)).unwrap();
    let plan = SessionPlan {
        controller: MotionController::new(&file.robot, Trajectory::sine(&file.robot).unwrap()),
        trajectory: "sine",
        image: None,
        messages: None,
        work_ns: 0,
        load: None,
        view_every_ns: PERIOD_NS,
        duration_ns: u64::MAX,
    };
    session.run(run, plan, witness.interruptions, witness).unwrap()
}

/// The counts of a robot's motion: JSON may change the last digit of a position.
fn without_travel(motion: &MotionNote) -> MotionNote {
    let joints = motion.joints.iter();
    let named =
        |joint: &JointMotion| JointMotion { name: joint.name.clone(), ..JointMotion::default() };
    MotionNote {
        joints: joints.map(named).collect(),
        moved_s: 0.0,
        amplitude: 0.0,
        ..motion.clone()
    }
}

#[test]
fn a_session_of_a_program_leaves_its_own_figures_in_the_run_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("robot.onbeat.hlog");
    let interruptions = Interruptions::default();
    let mut witness =
        Witness { interruptions: &interruptions, has_moved: false, events: Vec::new() };
    let outcome = run(&patient_joints(directory.path()), &path, &mut witness);
    let file = RunFile::read(&path).unwrap();

    assert_eq!(outcome.motion.trajectory, "sine");
    assert_eq!(without_travel(file.motion.as_ref().unwrap()), without_travel(&outcome.motion));
    let names: Vec<&str> = outcome.motion.joints.iter().map(|joint| &*joint.name).collect();
    assert_eq!(names, ["left knee", "right knee"]);
    let cycles: u64 = file.intervals.iter().map(|one| one.cycles + one.warmup + one.lost).sum();
    assert_eq!(cycles, outcome.motion.cycles, "every cycle is in the run file");

    // A kind of event that comes too often is counted from then on, and has no notes.
    let left_out = &file.events_left_out;
    let counted: u64 = left_out.alarms.values().chain(left_out.others.values()).sum();
    assert_eq!(file.events.len() as u64 + counted, witness.events.len() as u64);
    let mut seen = witness.events.iter();
    for note in &file.events {
        let noted = (note.kind, note.device.clone().unwrap_or_default());
        assert!(
            seen.any(|event| *event == noted),
            "{noted:?}, in the order of {:?}",
            witness.events
        );
    }

    let moved = |joint: &JointMotion| joint.high_rad.max(-joint.low_rad) >= MOVED_RAD;
    assert!(outcome.motion.joints.iter().all(moved), "{:?}", outcome.motion.joints);
    assert!(outcome.motion.running > 0);
    let is_stop = |kind: &EventKind| matches!(kind, EventKind::SafeStop | EventKind::JointDown);
    let stops = witness.events.iter().filter(|(kind, _)| is_stop(kind)).count();
    assert!(outcome.ended_in_order() || stops > 0, "{outcome:?}");
    assert_eq!(outcome.motion.stopped_by.is_some(), outcome.motion.safe_stops > 0);
    assert_eq!(outcome.view.unwrap().phase, RobotPhase::AtRest);
}

#[test]
fn files_that_a_robot_file_refers_to_are_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("two.toml");
    let text = include_str!("../two_joints.toml")
        .replace("[robot]\n", "[robot]\ntrajectory = \"csv:way.csv\"\nurdf = \"two.urdf\"\n");
    fs::write(&file, text).unwrap();
    let joint = |name: &str| {
        format!(
            "<joint name='{name}' type='revolute'><limit lower='-1' upper='1' velocity='1'/></joint>"
        )
    };
    let urdf = format!("<robot name='two'>{}{}</robot>", joint("left_knee"), joint("right_knee"));
    fs::write(folder.path().join("two.urdf"), urdf).unwrap();
    fs::write(folder.path().join("way.csv"), "time,left knee\n0,0\n1,0.1\n").unwrap();

    let read = RobotFile::read(&file, PERIOD_NS).unwrap();
    let wanted = format!("csv:{}", folder.path().join("way.csv").display());
    assert_eq!(read.robot.settings.trajectory, wanted);
}
