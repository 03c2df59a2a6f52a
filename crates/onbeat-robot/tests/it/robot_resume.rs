//! A robot between the blocks of a bench, on a virtual clock: no frame goes out for a while, the
//! devices leave OP, and the robot goes on where its trajectory was.

use crate::bus_world;

use bus_world::{MS, OPTIONS, World, clock};
use onbeat_ethercat::layout::Layout;
use onbeat_robot::motion::{MotionAccount, MotionController, Robot, RobotPhase, Trajectory};
use onbeat_segment::Segment;

/// Time in which simulated devices return to OP, as the lead-in of a block allows.
const TO_OP_NS: u64 = 80 * MS;
/// Length of a block, shorter than the soft start of 2 s.
const BLOCK: u64 = 900;

/// Runs cycles until the robot follows its trajectory; returns how many that were.
fn lead_in(world: &mut World<'_>, robot: &mut MotionController) -> u64 {
    for cycles in 1..3_000 {
        world.cycle(robot);
        if robot.status().phase == RobotPhase::Running {
            return cycles;
        }
    }
    panic!("never running, but {:?}", robot.status().phase);
}

#[test]
fn trajectory_and_soft_start_go_on_after_each_break() {
    let clock = clock();
    let mut world = World::new(Segment::HUMANOID, &clock, OPTIONS);
    let layout = Layout::from_toml(Segment::HUMANOID).unwrap();
    let robot = Robot::from_toml(Segment::HUMANOID, &layout, MS).unwrap();
    let mut account = MotionAccount::new(&robot, "gait", None);
    let mut robot = MotionController::new(&robot, Trajectory::gait(&robot).unwrap());
    let mut reached = Vec::new();

    for block in 0..4 {
        robot.resume();
        let time_ns = robot.status().time_ns;
        let cycles = lead_in(&mut world, &mut robot);
        assert!(cycles * MS <= TO_OP_NS + robot.enabling_ns(), "block {block}: {cycles} cycles");
        assert!(robot.status().time_ns - time_ns <= MS, "block {block} begins where it was");
        account.skip(&robot);
        for _ in 0..BLOCK {
            world.cycle(&mut robot);
            account.add(&robot);
        }

        let note = account.take_note();
        assert_eq!((note.cycles, note.running, note.safe_stops), (BLOCK, BLOCK, 0), "{note:?}");
        assert!((note.moved_s - 0.9).abs() < 1e-6, "{}", note.moved_s);
        let worst = note.worst_joint().unwrap();
        assert!(worst.following_rad.abs() < 0.1, "{worst:?}");
        reached.push(note.amplitude);
        // Their watchdogs take the devices out of OP.
        world.pause(400 * MS);
        assert!(world.in_op() < layout.devices.len());
    }

    assert!(reached[0] > 0.1 && reached[0] < reached[1] && reached[1] < 1.0, "{reached:?}");
    assert_eq!(reached[2..], [1.0, 1.0], "after 2 s of blocks");
}

#[test]
fn a_safe_stop_is_over_after_a_break() {
    let clock = clock();
    // Drives that leave "operation enabled" stop this robot.
    let file = Segment::HUMANOID.replace("[robot]\n", "[robot]\non_fault = \"robot\"\n");
    let mut world = World::new(&file, &clock, OPTIONS);
    let layout = Layout::from_toml(&file).unwrap();
    let robot = Robot::from_toml(&file, &layout, MS).unwrap();
    let mut robot = MotionController::new(&robot, Trajectory::gait(&robot).unwrap());
    lead_in(&mut world, &mut robot);
    for _ in 0..BLOCK {
        world.cycle(&mut robot);
    }
    let amplitude = robot.amplitude();

    // Without a resume the controller sees a bus that has stopped.
    world.pause(400 * MS);
    for _ in 0..2_000 {
        world.cycle(&mut robot);
    }
    assert_eq!(robot.status().counts.safe_stops, 1);
    assert_eq!((robot.status().phase, robot.amplitude()), (RobotPhase::AtRest, 0.0));

    robot.resume();
    lead_in(&mut world, &mut robot);
    assert!(robot.amplitude() >= amplitude, "{} {amplitude}", robot.amplitude());
}
