//! The motion controller with missed cycles and failing drives, on the simulated segment.

use crate::robot_world;

use onbeat_ethercat::event::EventKind;
use onbeat_ethercat::step::Controller;
use onbeat_robot::motion::{DownReason, JointState, RobotPhase, Rung, Trajectory};
use onbeat_segment::{Fault, Segment};
use robot_world::World;

/// Three joints; default thresholds without warm-up.
const THREE: &str = r#"
[segment]
name = "three joints"
[types.joint]
kind = "drive"
[[devices]]
type = "joint"
names = ["hip", "knee", "ankle"]
[robot]
soft_start_ms = 200
[robot.ladder]
warmup_cycles = 0
[[joints]]
match = "*"
amplitude_rad = 0.4
frequency_hz = 1.0
velocity_rad_s = 4.0
acceleration_rad_s2 = 50.0
"#;

const RUN: u16 = Rung::Run as u16;
const HOLD: u16 = Rung::Hold as u16;
const DEGRADE: u16 = Rung::Degrade as u16;
const SAFE_STOP: u16 = Rung::SafeStop as u16;

fn running(text: &str) -> World {
    let mut world = World::new(text, |robot| Trajectory::sine(robot).unwrap());
    world.until(RobotPhase::Running);
    world.steps(1_000);
    assert_eq!(world.rungs(), [] as [u16; 0]);
    world
}

fn states(world: &World) -> Vec<JointState> {
    world.status().joints().iter().map(|joint| joint.state).collect()
}

/// Returns the maximum acceleration of any set-point, in rad/s².
fn hardest(positions: &[[f64; 3]]) -> f64 {
    let second = |three: &[[f64; 3]], joint: usize| {
        three[2][joint] - 2.0 * three[1][joint] + three[0][joint]
    };
    positions
        .windows(3)
        .flat_map(|three| [0, 1, 2].map(|joint| second(three, joint).abs() * 1e6))
        .fold(0.0, f64::max)
}

fn targets(world: &World) -> [f64; 3] {
    [0, 1, 2].map(|joint| world.status().joints()[joint].target_rad)
}

// ---- cycles

#[test]
fn a_lost_frame_holds_for_its_cycle_and_no_set_point_jumps() {
    let mut world = running(THREE);
    let mut positions = Vec::new();
    for cycle in 0..400 {
        if cycle == 150 {
            world.lose();
        } else {
            world.step();
        }
        positions.push(targets(&world));
    }

    assert_eq!(world.rungs(), [HOLD, RUN]);
    assert!(hardest(&positions) <= 50.0 * 1.000_001, "{}", hardest(&positions));
    assert_eq!((world.status().counts.stale, world.status().misses), (1, 0));
}

#[test]
fn three_skipped_releases_degrade_until_the_bucket_is_empty() {
    let mut world = running(THREE);
    world.step_after(2);
    assert_eq!((world.rungs(), world.status().misses), (vec![HOLD], 1));
    world.step_after(3);

    assert_eq!((world.rungs(), world.status().misses), (vec![HOLD, DEGRADE], 3));
    world.steps(149);
    assert!(world.is_on(Rung::Degrade));
    assert!(world.status().speed < 0.8, "{}", world.status().speed);
    world.step();

    assert!(world.is_on(Rung::Run), "3 × 50 good cycles empty the bucket");
    world.steps(500);
    assert_eq!((world.status().speed, world.status().counts.skipped), (1.0, 3));
    assert_eq!(world.rungs(), [HOLD, DEGRADE, RUN]);
}

#[test]
fn ten_misses_stop_the_robot_until_a_reset_and_rare_ones_never_do() {
    let mut world = running(THREE);
    for _ in 0..40 {
        world.step_after(2);
        world.steps(50);
    }

    assert_eq!(world.status().counts.safe_stops, 0, "forty misses, each removed before the next");
    let mut positions = Vec::new();
    for _ in 0..2 {
        world.step_after(5);
        positions.push(targets(&world));
    }

    world.step_after(3);
    assert!(world.is_on(Rung::SafeStop), "4 + 4 + 2 misses");
    let cycles = world.until(RobotPhase::AtRest);
    assert!(cycles < 200, "4 rad/s at 50 rad/s² is 80 ms: {cycles}");
    assert_eq!(states(&world), [JointState::SwitchOnDisabled; 3]);
    world.steps(2_000);

    assert!(world.is_on(Rung::SafeStop) && world.status().phase == RobotPhase::AtRest, "latched");
    world.controller.reset();
    world.until(RobotPhase::Running);
    world.steps(500);
    assert!(world.is_on(Rung::Run));
    assert_eq!(states(&world), [JointState::OperationEnabled; 3]);
    assert_eq!(*world.rungs().last().unwrap(), RUN);
}

#[test]
fn a_reset_while_cycles_are_still_missed_is_refused() {
    let mut world = running(THREE);
    (0..10).for_each(|_| world.lose());
    world.controller.reset();
    world.step();

    assert!(world.kinds().contains(&EventKind::ResetRefused), "it is not at rest yet");
    world.until(RobotPhase::AtRest);
    (0..10).for_each(|_| world.lose());
    world.controller.reset();
    world.step();

    assert!(world.is_on(Rung::SafeStop) && !world.kinds().contains(&EventKind::ResetDone));
    world.steps(500);
    world.controller.reset();
    world.step();
    assert!(world.is_on(Rung::Run) && world.kinds().contains(&EventKind::ResetDone));
}

#[test]
fn without_replies_the_stop_ends_by_timeout_with_power_off() {
    let mut world = running(THREE);
    for _ in 0..1_500 {
        world.lose();
        if world.status().phase == RobotPhase::AtRest {
            break;
        }
    }

    assert_eq!(world.status().phase, RobotPhase::AtRest);
    assert_eq!(
        world.plant.outputs.iter().map(|byte| u32::from(*byte)).take(2).sum::<u32>(),
        0,
        "disable voltage"
    );
}

#[test]
fn misses_during_the_warm_up_are_counted_without_effect() {
    let text = THREE.replace("warmup_cycles = 0", "warmup_cycles = 100");
    let mut world = World::new(&text, |_| Trajectory::hold());
    world.step();
    (0..20).for_each(|_| world.step_after(4));
    assert_eq!((world.status().counts.skipped, world.status().misses), (60, 0));
    assert!(world.is_on(Rung::Hold));
}

// ---- drives

#[test]
fn a_device_without_power_stops_the_robot_by_its_working_counter() {
    let mut world = running(THREE);
    let knee = world.device("knee");
    world.inject(Fault::PowerOff { device: knee }, None);
    world.until(RobotPhase::AtRest);
    assert_eq!(
        world.rungs(),
        [HOLD, DEGRADE, SAFE_STOP],
        "an unexpected working counter is a miss"
    );
    assert_eq!(world.plant.cycle.working_counter, 3, "only the device before it answers");
}

#[test]
fn a_frozen_drive_goes_down_by_its_following_error_and_the_others_continue() {
    let mut world = running(THREE);
    let knee = world.device("knee");
    world.inject(Fault::Freeze { device: knee }, Some(600_000_000));
    world.steps(500);
    let status = world.status().joints()[1];

    assert_eq!(status.reason, DownReason::FollowingError);
    assert!(world.is_on(Rung::Run) && world.status().phase == RobotPhase::Running);
    assert_eq!(world.status().joints()[0].reason, DownReason::None);
    let before = targets(&world);
    world.steps(100);

    assert!((targets(&world)[0] - before[0]).abs() > 0.01, "the hip continues");
    world.steps(1_100);
    assert_eq!(states(&world)[1], JointState::SwitchOnDisabled, "quick stop, then power off");
    world.controller.reset();
    world.steps(1_000);

    assert_eq!(states(&world), [JointState::OperationEnabled; 3]);
    assert!(world.kinds().contains(&EventKind::JointBack));
    assert!(world.status().joints()[1].following_rad.abs() < 0.02);
}

#[test]
fn a_drive_with_a_fault_is_reported_with_its_error_code() {
    let inputs = "kind = \"drive\"\ninputs = [\"6041\", \"6064\", \"603f\"]\n";
    let mut world = running(&THREE.replace("kind = \"drive\"\n", inputs));
    let knee = world.device("knee");
    world.inject(Fault::AlError { device: knee, code: 0x001b }, None);
    world.steps(50);

    let down = world.events.iter().find(|event| event.kind == EventKind::JointDown).unwrap();
    let said = down.sentence("knee");
    let why = "knee is down: its drive has a fault (0x7500, communication of additional modules), ";
    assert!(said.starts_with(why), "{said}");
}

#[test]
fn a_drive_that_makes_a_quick_stop_by_itself_has_voltage_until_it_stands() {
    let mut world = running(THREE);
    let at = world.plant.layout.devices[1].output_at(0x6040, 0).unwrap();
    // As by its own input.
    world.plant.outputs[at..at + 2].copy_from_slice(&[0x02, 0]);
    let mut braking = 0;
    for _ in 0..200 {
        world.step();
        if states(&world)[1] == JointState::QuickStopActive {
            braking += 1;
            assert_ne!(world.plant.outputs[at..at + 2], [0, 0], "it would coast");
        }
    }

    assert!(braking > 2, "{braking} cycles");
    assert_eq!(states(&world)[1], JointState::SwitchOnDisabled);
    assert_eq!(world.status().joints()[1].reason, DownReason::LeftOperation);
    assert_eq!(world.status().phase, RobotPhase::Running, "the others continue");
}

#[test]
fn a_drive_that_shows_another_mode_is_not_moved() {
    let shown = "kind = \"drive\"\ninputs = [\"6041\", \"6064\", \"6061\"]\n";
    let text = THREE.replace("kind = \"drive\"\n", shown);
    let mut world = running(&text);
    let at = world.plant.layout.devices[1].input_at(0x6061, 0).unwrap();
    world.plant.exchange(1);
    assert_eq!(std::mem::replace(&mut world.plant.inputs[at], 9), 8);
    world.controller.step(&world.plant.cycle, &world.plant.inputs, &mut world.plant.outputs);
    let reasons = |world: &World| [0, 1, 2].map(|joint| world.status().joints()[joint].reason);
    assert_eq!(reasons(&world), [DownReason::None, DownReason::OtherMode, DownReason::None]);
    world.steps(1_100);
    assert_eq!(states(&world)[1], JointState::SwitchOnDisabled, "quick stop, then power off");

    let text = text.replace("[[devices]]\n", "[types.joint.drive]\nmode = \"pp\"\n[[devices]]\n");
    let text = text.replace("[robot]\n", "[robot]\nenable_within_ms = 50\n");
    let mut world = World::new(&text, |robot| Trajectory::sine(robot).unwrap());
    world.steps(2_000);
    assert_eq!(reasons(&world), [DownReason::OtherMode; 3]);
    let down = world.events.iter().find(|event| event.kind == EventKind::JointDown).unwrap();
    let said = down.sentence("knee");
    assert!(said.contains("another mode of operation (0x6061) than cyclic"), "{said}");
}

#[test]
fn a_drive_with_power_and_without_its_mode_does_not_let_its_load_sink() {
    let shown = "kind = \"drive\"\ninputs = [\"6041\", \"6064\", \"6061\"]\n";
    let text = THREE.replace("kind = \"drive\"\n", shown);
    let mut world = World::new(&text, |robot| Trajectory::sine(robot).unwrap());
    let at = |index| world.plant.layout.devices[1].input_at(index, 0).unwrap();
    let (mode, position) = (at(0x6061), at(0x6064));
    let (mut sunk, mut held) = (0, Vec::new());
    while world.status().joints()[1].reason == DownReason::None && held.len() < 100 {
        world.plant.exchange(1);
        world.plant.inputs[mode] = 0;
        let bytes = &mut world.plant.inputs[position..position + 4];
        let actual = i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        bytes.copy_from_slice(&(actual - sunk).to_le_bytes());
        world.controller.step(&world.plant.cycle, &world.plant.inputs, &mut world.plant.outputs);
        if states(&world)[1] == JointState::OperationEnabled {
            sunk += 100;
            held.push((targets(&world)[1], world.status().joints()[1].actual_rad));
        }
    }

    assert_eq!(world.status().joints()[1].reason, DownReason::OtherMode);
    assert!(held[..4].windows(2).all(|pair| pair[0].0 == pair[1].0), "{held:?}");
    // The last one is of its quick stop, which keeps the target.
    let before = held[..held.len() - 1].iter();
    let far = before.map(|(target, actual)| (target - actual).abs()).fold(0.0, f64::max);
    assert!((0.04..0.051).contains(&far), "no jump when it takes its mode: {far} rad");
    assert!((10..40).contains(&held.len()), "after 0.2 rad: {}", held.len());
}

#[test]
fn a_drive_that_leaves_op_goes_down_and_a_reset_in_op_enables_it_again() {
    let mut world = running(THREE);
    let knee = world.device("knee");
    world.inject(Fault::AlError { device: knee, code: 0x001b }, None);
    world.steps(200);

    assert_eq!(world.status().joints()[1].reason, DownReason::DriveFault);
    assert_eq!(states(&world)[1], JointState::Fault, "a drive whose process data stop has a fault");
    assert!(
        world.is_on(Rung::Run) && world.status().phase == RobotPhase::Running,
        "the others continue"
    );
    world.plant.ask_state(1, 8);
    world.steps(1_000);

    assert_eq!(states(&world)[1], JointState::Fault, "nothing is reset without a request");
    world.controller.reset();
    world.steps(1_000);
    assert_eq!(states(&world), [JointState::OperationEnabled; 3]);
    assert!(world.kinds().contains(&EventKind::JointBack));
}

#[test]
fn a_joint_that_is_enabled_again_stays_until_it_gets_a_target() {
    // The knee goes down on its way; nobody gives its target again.
    let mut world = World::new(THREE, |_| {
        Trajectory::law(|status, wanted| {
            if status.time_ns < 50_000_000 {
                wanted[1] = 0.5;
            }
        })
    });
    world.until(RobotPhase::Running);
    world.steps(100);
    let knee = world.device("knee");
    world.inject(Fault::AlError { device: knee, code: 0x001b }, None);
    world.steps(300);
    let stands = world.status().joints()[1].actual_rad;
    assert!((0.05..0.45).contains(&stands), "{stands}");
    world.plant.ask_state(1, 8);
    world.steps(100);
    world.controller.reset();
    world.steps(1_000);

    assert_eq!(states(&world), [JointState::OperationEnabled; 3]);
    let now = world.status().joints()[1].actual_rad;
    assert!((now - stands).abs() < 0.01, "from {stands} to {now}");
}

#[test]
fn with_on_fault_robot_one_joint_down_leads_to_a_safe_stop() {
    let mut world =
        running(&THREE.replace("soft_start_ms = 200", "soft_start_ms = 200\non_fault = \"robot\""));
    let knee = world.device("knee");
    world.inject(Fault::Freeze { device: knee }, Some(600_000_000));
    world.until(RobotPhase::AtRest);

    assert_eq!(world.rungs(), [SAFE_STOP]);
    world.steps(1_000);
    assert_eq!(states(&world), [JointState::SwitchOnDisabled; 3]);
    world.controller.reset();
    world.until(RobotPhase::Running);

    assert_eq!(states(&world), [JointState::OperationEnabled; 3]);
}

#[test]
fn an_overloaded_drive_goes_down_and_the_humanoid_continues() {
    // A load beyond this drive's torque.
    let text = Segment::HUMANOID
        .replace(
            "[types.fork]",
            "[types.weak]\nkind = \"drive\"\n[types.weak.drive]\nload_nm = -50.0\n[types.fork]",
        )
        .replace(
            "type = \"leg-joint\"\nnames = [\n    \"waist yaw\"",
            "type = \"weak\"\nnames = [\n    \"waist yaw\"",
        );
    let mut world = World::new(&text, |_| Trajectory::hold());
    world.until(RobotPhase::Running);
    world.steps(500);
    let down: Vec<usize> = (0..48)
        .filter(|&joint| world.status().joints()[joint].reason != DownReason::None)
        .collect();

    assert_eq!(down, ["waist yaw", "waist roll", "waist pitch"].map(|name| world.joint(name)));
    assert_eq!(
        world
            .status()
            .joints()
            .iter()
            .filter(|joint| joint.state == JointState::OperationEnabled)
            .count(),
        45
    );
    assert!(world.is_on(Rung::Run));
    world.steps(1_000);
    world.controller.reset();
    world.steps(2_100);

    assert_eq!(world.status().counts.joints_down, 6, "still falling, and not enabled within 2 s");
    assert!(
        world.status().joints()[..3].iter().any(|joint| joint.reason == DownReason::NotEnabled)
    );
}

#[test]
fn time_in_which_the_loop_stood_still_is_not_that_of_drives_being_enabled() {
    let text = THREE.replace("[robot]\n", "[robot]\nenable_within_ms = 50\n");
    let text = text.replace("warmup_cycles = 0", "warmup_cycles = 1000");
    let mut world = World::new(&text, |_| Trajectory::hold());
    world.until(RobotPhase::Enabling);
    world.step();
    // Without a controlword a drive stays where it is.
    world.step_after(80);
    world.until(RobotPhase::Running);
    assert_eq!(states(&world), [JointState::OperationEnabled; 3]);
    assert_eq!(world.status().counts.joints_down, 0);
}
