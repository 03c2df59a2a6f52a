//! The motion controller on the bus and the simulated segment: the whole stack on a virtual clock.

use crate::bus_world;

use bus_world::{MS, OPTIONS, World, clock};
use onbeat_ethercat::event::EventKind;
use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::step::{BusCycle, Controller};
use onbeat_robot::bus::{BusOptions, ExchangeMode};
use onbeat_robot::motion::{
    DownReason, JointState, MotionController, Robot, RobotPhase, Rung, Trajectory,
};
use onbeat_segment::{Fault, Segment};

fn walker() -> MotionController {
    let layout = Layout::from_toml(Segment::HUMANOID).unwrap();
    let robot = Robot::from_toml(Segment::HUMANOID, &layout, MS).unwrap();
    MotionController::new(&robot, Trajectory::gait(&robot).unwrap())
}

fn until(world: &mut World<'_>, robot: &mut MotionController, phase: RobotPhase) {
    for _ in 0..10_000 {
        if robot.status().phase == phase {
            return;
        }
        world.cycle(robot);
    }
    panic!("never {phase:?}, but {:?}", robot.status().phase);
}

fn cycles(world: &mut World<'_>, robot: &mut MotionController, count: usize) {
    for _ in 0..count {
        world.cycle(robot);
    }
}

/// Brings the robot to rest instead of moving it.
struct Stop<'r>(&'r mut MotionController, bool);

impl Controller for Stop<'_> {
    fn step(&mut self, cycle: &BusCycle, inputs: &[u8], outputs: &mut [u8]) {
        self.1 = self.0.stop(cycle, inputs, outputs);
    }
}

#[test]
fn a_robot_walks_from_safeop_and_back_to_init_in_both_exchange_modes() {
    for mode in [ExchangeMode::Pipelined, ExchangeMode::SameCycle { reply_within_ns: MS / 2 }] {
        let clock = clock();
        let mut world = World::new(Segment::HUMANOID, &clock, BusOptions { mode, ..OPTIONS });
        let mut robot = walker();
        until(&mut world, &mut robot, RobotPhase::Running);

        assert!(world.bus.is_up(), "no drive is enabled before all devices are in OP");
        let mut most = 0.0_f64;
        for _ in 0..4_000 {
            world.cycle(&mut robot);
            most = robot
                .status()
                .joints()
                .iter()
                .fold(most, |most, joint| most.max(joint.following_rad.abs()));
        }

        assert!(most < 0.1, "{mode:?}: {most}");
        assert_eq!((robot.status().rung, robot.status().counts.stale), (Rung::Run, 0), "{mode:?}");
        let mut stop = Stop(&mut robot, false);
        while !stop.1 {
            world.cycle(&mut stop);
        }

        assert!(
            robot.status().joints().iter().all(|joint| joint.state == JointState::SwitchOnDisabled)
        );
        world.bus.take_down();
        assert_eq!(world.in_op(), 0);
    }
}

#[test]
fn a_cut_cable_stops_the_robot_and_a_reset_restarts_it_after_recovery() {
    let clock = clock();
    let mut world = World::new(Segment::HUMANOID, &clock, OPTIONS);
    let mut robot = walker();
    until(&mut world, &mut robot, RobotPhase::Running);
    cycles(&mut world, &mut robot, 3_000);
    let knee = world.segment().find("left knee").unwrap();
    world.inject(Fault::Cut { device: knee }, Some(300 * MS), 1.0);
    until(&mut world, &mut robot, RobotPhase::AtRest);

    assert_eq!(robot.status().rung, Rung::SafeStop);
    assert!(world.count(EventKind::DeviceLost) > 0);
    cycles(&mut world, &mut robot, 1_500);
    assert!(
        world.bus.is_up() && robot.status().phase == RobotPhase::AtRest,
        "devices are back, and nothing moves"
    );
    robot.reset();
    until(&mut world, &mut robot, RobotPhase::Running);
    cycles(&mut world, &mut robot, 2_500);
    let status = robot.status();

    assert_eq!(status.rung, Rung::Run);
    assert!(
        status
            .joints()
            .iter()
            .all(|joint| joint.reason == DownReason::None && joint.following_rad.abs() < 0.1)
    );
}

#[test]
fn the_same_faults_give_identical_set_points() {
    let run = || {
        let clock = clock();
        let mut world = World::new(Segment::HUMANOID, &clock, OPTIONS);
        let mut robot = walker();
        world.inject(Fault::Lose, None, 0.01);
        let mut all = Vec::new();
        for _ in 0..2_500 {
            world.cycle(&mut robot);
            all.extend_from_slice(world.bus.outputs());
        }

        (all, robot.status().counts)
    };

    let first = run();
    let second = run();
    assert!(first.1.stale > 0 && first.1 == second.1);
    assert!(first.0 == second.0);
}

#[test]
fn devices_that_fall_back_between_blocks_walk_again_within_a_second() {
    let clock = clock();
    let mut world = World::new(Segment::HUMANOID, &clock, OPTIONS);
    for block in 0..3 {
        let mut robot = walker();
        cycles(&mut world, &mut robot, 1_000);
        let status = robot.status();
        assert_eq!((status.phase, status.rung), (RobotPhase::Running, Rung::Run), "block {block}");
        let walking = status
            .joints()
            .iter()
            .filter(|joint| joint.state == JointState::OperationEnabled)
            .count();

        assert_eq!(walking, 48, "block {block}");
        world.pause(2_000 * MS);
        assert_eq!(
            world.in_op(),
            3,
            "block {block}: only the inertial units have no outputs that a watchdog could miss"
        );
    }
}
