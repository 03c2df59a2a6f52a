//! A robot that a program runs without the command line: it is brought up, moves, is asked to stop,
//! and its run file holds the session's own figures and every event that the observer saw.
#![allow(missing_docs, clippy::unwrap_used)]

use std::path::Path;
use std::sync::atomic::Ordering;

use onbeat::probe::{self, Destination, Interruptions, Origin, Run, Setting};
use onbeat::record::{EventNote, RunFile};
use onbeat_ethercat::event::{Event, EventKind};
use onbeat_robot::bus::{BusOptions, ExchangeMode, InProcess};
use onbeat_robot::motion::{MotionController, RobotPhase, RobotView, Rung, Trajectory};
use onbeat_robot::session::{RobotFile, Session, SessionObserver, SessionOutcome, SessionPlan};
use onbeat_rt::sys::Monotonic;
use onbeat_segment::Link;

/// Long enough for a loop of an ordinary thread on a busy machine.
const PERIOD_NS: u64 = 5_000_000;
/// Trajectory time after which the robot is asked to stop.
const MOVED_NS: u64 = 500_000_000;

/// Asks the robot to stop once it has moved, or has stopped by itself.
struct Witness<'i> {
    interruptions: &'i Interruptions,
    has_moved: bool,
    events: Vec<(EventKind, String)>,
}

impl SessionObserver for Witness<'_> {
    fn view(&mut self, view: &RobotView) {
        self.has_moved |= view.phase == RobotPhase::Running && view.time_ns >= MOVED_NS;
        if self.has_moved || view.rung == Rung::SafeStop {
            self.interruptions.stop.store(true, Ordering::Relaxed);
        }
    }

    fn event(&mut self, event: &Event, device: &str) {
        self.events.push((event.kind, device.to_owned()));
    }
}

/// Runs the two joints until the witness has seen enough.
fn run(path: &Path, witness: &mut Witness<'_>) -> SessionOutcome {
    let joints = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/two_joints.toml");
    let file = RobotFile::read(&joints, PERIOD_NS).unwrap();
    let wire = InProcess::on_clock(Link::from_description(&file.description).unwrap(), Monotonic);
    let options =
        BusOptions { mode: ExchangeMode::Pipelined, period_ns: PERIOD_NS, follow_clock: true };
    let session = Session::bring_up(wire, "the simulated segment", &file, options).unwrap();

    let origin = Origin::now();
    let header = probe::header(&["a program".to_owned()], "robot", &[], origin.unix_s);
    let destination = Destination { path, header, origin: origin.at };
    let run = Run::open(destination, Setting::new(PERIOD_NS)).unwrap();
    let plan = SessionPlan {
        controller: MotionController::new(&file.robot, Trajectory::gait(&file.robot).unwrap()),
        trajectory: "gait",
        image: None,
        messages: None,
        work_ns: 0,
        load: None,
        view_every_ns: PERIOD_NS,
        duration_ns: u64::MAX,
        path,
    };
    session.run(run, plan, witness.interruptions, witness).unwrap()
}

#[test]
fn a_session_of_a_program_leaves_its_own_figures_in_the_run_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("robot.onbeat.hlog");
    let interruptions = Interruptions::default();
    let mut witness =
        Witness { interruptions: &interruptions, has_moved: false, events: Vec::new() };
    let outcome = run(&path, &mut witness);
    let file = RunFile::read(&path).unwrap();

    assert_eq!(file.motion.as_ref(), Some(&outcome.motion));
    assert_eq!(outcome.motion.trajectory, "gait");
    let names: Vec<&str> = outcome.motion.joints.iter().map(|joint| &*joint.name).collect();
    assert_eq!(names, ["left knee", "right knee"]);
    let cycles: u64 = file.intervals.iter().map(|one| one.cycles + one.warmup + one.lost).sum();
    assert_eq!(cycles, outcome.motion.cycles, "every cycle is in the run file");

    let left_out = &file.events_left_out;
    assert_eq!((left_out.lost, left_out.alarms.len(), left_out.others.len()), (0, 0, 0));
    let noted = |note: &EventNote| (note.kind, note.device.clone().unwrap_or_default());
    assert_eq!(file.events.iter().map(noted).collect::<Vec<_>>(), witness.events);

    // A machine that keeps the loop from its cycles for long makes the robot stop by itself.
    let stopped = witness
        .events
        .iter()
        .any(|(kind, _)| matches!(kind, EventKind::SafeStop | EventKind::JointDown));
    assert_eq!(outcome.ended_in_order(), !stopped);
    assert_eq!(outcome.motion.safe_stops > 0, outcome.motion.stopped_by.is_some());
    let view = outcome.view.unwrap();
    assert_eq!(view.phase, RobotPhase::AtRest, "a session ends with a robot at rest");
    if witness.has_moved {
        let moved = |joint: &onbeat::record::JointMotion| joint.high_rad > joint.low_rad;
        assert!(outcome.motion.joints.iter().all(moved), "{:?}", outcome.motion.joints);
    } else {
        assert!(stopped, "without motion only a safe stop ends this session");
    }
}
