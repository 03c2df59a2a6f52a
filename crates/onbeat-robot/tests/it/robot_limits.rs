//! For any trajectory, goal and sequence of cycles: no limit is exceeded, and nothing is allocated.

use assert_no_alloc::{assert_no_alloc, reset_violation_count, violation_count};
use onbeat_control::{Client, Image, ImageSettings};
use onbeat_ethercat::layout::{DeviceKind, Layout};
use onbeat_ethercat::step::{BusCycle, Controller};
use onbeat_robot::motion::{
    CommanderGoals, GoalRecord, GoalSource, MotionController, Robot, RobotPhase, Trajectory,
};
use onbeat_segment::Segment;
use proptest::prelude::*;

const PERIOD_NS: u64 = 1_000_000;

const ONE: &str = r#"
[types.joint]
kind = "drive"
[types.joint.drive]
increments = 1048576
[[devices]]
type = "joint"
name = "joint"
[robot]
soft_start_ms = 10
[robot.goal]
age_ms = 50
[robot.ladder]
warmup_cycles = 0
[[joints]]
match = "joint"
low_rad = -1.0
high_rad = 1.5
velocity_rad_s = 3.0
acceleration_rad_s2 = 40.0
following_rad = 100.0
"#;

/// Ideal drives that follow immediately.
struct Perfect {
    layout: Layout,
    inputs: Vec<u8>,
    outputs: Vec<u8>,
    cycle: BusCycle,
}

impl Perfect {
    fn new(text: &str) -> Self {
        let layout = Layout::from_toml(text).unwrap();
        let inputs = vec![0; layout.input_bytes];
        let outputs = vec![0; layout.output_bytes];
        Self { layout, inputs, outputs, cycle: BusCycle::default() }
    }

    /// Runs one cycle, `periods` after the last one; `fresh`: whether its frame was answered.
    fn step(&mut self, controller: &mut MotionController, periods: u64, fresh: bool) {
        self.cycle.cycle += 1;
        (self.cycle.dt_ns, self.cycle.fresh) = (periods * PERIOD_NS, fresh);
        self.cycle.release_ns += periods * PERIOD_NS;
        controller.step(&self.cycle, &self.inputs, &mut self.outputs);
        if !fresh {
            return;
        }

        for drive in self.layout.devices.iter().filter(|device| device.kind == DeviceKind::Drive) {
            let controlword = self.outputs[drive.output_at(0x6040, 0).unwrap()];
            let status = match controlword {
                0x06 => 0x21,
                0x07 => 0x23,
                0x0f => 0x27,
                _ => 0x40,
            };

            self.inputs[drive.input_at(0x6041, 0).unwrap()] = status;
            let from = drive.output_at(0x607a, 0).unwrap();
            let to = drive.input_at(0x6064, 0).unwrap();
            self.inputs[to..to + 4].copy_from_slice(&self.outputs[from..from + 4]);
        }
    }
}

/// A list of goals; each is returned for a number of calls.
struct Listed {
    goals: Vec<(u32, f64)>,
    left: u32,
    at: usize,
    record: Box<GoalRecord>,
}

impl GoalSource for Listed {
    fn latest(&mut self) -> Option<&GoalRecord> {
        if self.left == 0 && self.at < self.goals.len() {
            let (cycles, position) = self.goals[self.at];
            (self.left, self.at) = (cycles, self.at + 1);
            (self.record.number, self.record.at_ns) = (self.at as u64, u64::MAX);
            self.record.set(0, position);
        }

        self.left = self.left.saturating_sub(1);
        (self.at > 0).then_some(&*self.record)
    }
}

fn any_goal() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => -3.0..3.0_f64,
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => Just(f64::NEG_INFINITY),
        1 => Just(1e300),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_goal_and_no_missed_cycle_breaks_a_limit(
        goals in prop::collection::vec((1..200_u32, any_goal()), 1..20),
        cycles in prop::collection::vec((1..6_u64, prop::bool::weighted(0.9), 1..100_usize), 1..30),
        jerk in prop::option::of(2_000.0..50_000.0_f64),
    ) {
        let text = jerk.map_or(ONE.to_owned(), |jerk| format!("{ONE}jerk_rad_s3 = {jerk}\n"));
        let mut drives = Perfect::new(&text);
        let robot = Robot::from_toml(&text, &drives.layout, PERIOD_NS).unwrap();
        let none = goals.iter().filter(|(_, goal)| !goal.is_finite()).count() as u64;
        let source = Listed { goals, left: 0, at: 0, record: Box::default() };
        let mut controller = MotionController::new(&robot, Trajectory::goal(Box::new(source), &robot));
        let mut sent = vec![0.0; 4];
        for (periods, fresh, times) in cycles {
            for time in 0..times {
                // One irregular cycle, then good ones.
                let (periods, fresh) = if time == 0 { (periods, fresh) } else { (1, true) };
                drives.step(&mut controller, periods, fresh);
                sent.push(controller.status().joints()[0].target_rad);
            }
        }

        for four in sent.windows(4) {
            let velocity = [1, 2, 3].map(|k| (four[k] - four[k - 1]) * 1e3);
            let acceleration = [1, 2].map(|k| (velocity[k] - velocity[k - 1]) * 1e3);
            prop_assert!((-1.0 - 1e-9..=1.5 + 1e-9).contains(&four[3]), "{four:?}");
            // A joint without power receives its position in whole increments: 6e-6 rad of
            // rounding.
            prop_assert!(velocity[2].abs() <= 3.0 + 0.01, "{velocity:?}");
            prop_assert!(acceleration[1].abs() <= 40.0 + 7.0, "{acceleration:?}");
        }

        prop_assert!(controller.status().counts.goals_refused <= none);
    }
}

#[test]
fn a_controller_does_not_allocate_after_construction() {
    let mut drives = Perfect::new(Segment::HUMANOID);
    let robot = Robot::from_toml(Segment::HUMANOID, &drives.layout, PERIOD_NS).unwrap();
    let mut controller = MotionController::new(&robot, Trajectory::gait(&robot).unwrap());
    reset_violation_count();

    assert_no_alloc(|| {
        for cycle in 0..6_000_u64 {
            // A safe stop from cycle 3000 on, a reset at 5000.
            let periods = if (3_000..3_010).contains(&cycle) { 3 } else { 1 };
            drives.step(&mut controller, periods, cycle % 700 != 0);
            if cycle == 5_000 {
                controller.reset();
            }

            while cycle % 1_000 == 0 && controller.take_event().is_some() {}
        }
    });

    assert_eq!(violation_count(), 0);
    assert_eq!(
        (controller.status().counts.safe_stops, controller.status().phase),
        (1, RobotPhase::Running)
    );
}

#[test]
fn goals_of_another_process_do_not_allocate_either() {
    let mut drives = Perfect::new(Segment::HUMANOID);
    let robot = Robot::from_toml(Segment::HUMANOID, &drives.layout, PERIOD_NS).unwrap();
    let settings = ImageSettings { joints: robot.commanded(), ..ImageSettings::default() };
    let name = format!("test-quiet-{}", std::process::id());
    let bus = Image::create(&name, &drives.layout, settings).unwrap();
    let source = Box::new(CommanderGoals::new(bus.goals().unwrap()));
    let mut controller = MotionController::new(&robot, Trajectory::goal(source, &robot));
    let mut commander = Client::open(&name).unwrap().command().unwrap();
    reset_violation_count();

    assert_no_alloc(|| {
        for cycle in 0..4_000_u64 {
            // Valid goals, refused ones, and none for so long that the commander is lost.
            if cycle < 2_000 {
                commander
                    .want(cycle as usize % 48, if cycle % 500 == 499 { f64::NAN } else { 0.1 });
                commander.give().unwrap();
            }
            drives.step(&mut controller, 1, true);
        }
    });

    assert_eq!(violation_count(), 0);
    let counts = controller.status().counts;
    assert!(counts.goals > 0 && counts.goals_refused > 0 && counts.safe_stops == 1, "{counts:?}");
}

#[test]
fn unread_events_are_counted_and_the_queue_does_not_grow() {
    let mut drives = Perfect::new(ONE);
    let robot = Robot::from_toml(ONE, &drives.layout, PERIOD_NS).unwrap();
    let mut controller = MotionController::new(&robot, Trajectory::hold());
    (0..60_001).for_each(|cycle| drives.step(&mut controller, 1, cycle % 60 != 59));
    let kept = std::iter::from_fn(|| controller.take_event()).count() as u64;
    let changes = 2 + 2 * 1_000;

    assert_eq!(kept + controller.status().counts.events_lost, changes);
}
