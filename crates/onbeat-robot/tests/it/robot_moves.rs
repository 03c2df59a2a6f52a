//! The motion controller on the simulated humanoid: enabling, trajectory, and stop.

use crate::robot_world;

use std::sync::{Arc, Mutex};

use onbeat_ethercat::event::EventKind;
use onbeat_robot::motion::{
    GoalRecord, GoalSource, JointState, Robot, RobotPhase, Rung, Status, Trajectory,
    TrajectoryError,
};
use onbeat_segment::Segment;
use robot_world::{PERIOD_NS, TWO, World};

fn all_are(status: &Status, state: JointState) -> bool {
    status.joints().iter().all(|joint| joint.state == state)
}

/// Returns the maximum following error and the maximum step of any set-point over some cycles.
fn watched(world: &mut World, cycles: usize) -> (f64, f64) {
    let mut error = 0.0_f64;
    let mut step = 0.0_f64;
    for _ in 0..cycles {
        let before: Vec<f64> =
            world.status().joints().iter().map(|joint| joint.target_rad).collect();
        world.step();
        for (joint, before) in world.status().joints().iter().zip(before) {
            error = error.max(joint.following_rad.abs());
            step = step.max((joint.target_rad - before).abs());
        }
    }

    (error, step)
}

#[test]
fn all_48_drives_are_enabled_in_groups_without_a_jump_and_swing_within_the_following_window() {
    let mut world = World::new(Segment::HUMANOID, |robot| Trajectory::sine(robot).unwrap());
    assert_eq!(world.robot.joints.len(), 48);
    let mut most_at_once = 0;
    while world.status().phase != RobotPhase::Running {
        let before: Vec<JointState> =
            world.status().joints().iter().map(|joint| joint.state).collect();
        world.step();
        let enabled = |(joint, before): (&onbeat_robot::motion::JointStatus, &JointState)| {
            joint.state == JointState::OperationEnabled && *before != JointState::OperationEnabled
        };
        most_at_once = most_at_once
            .max(world.status().joints().iter().zip(&before).filter(|&pair| enabled(pair)).count());

        assert!(
            world.status().joints().iter().all(|joint| joint.target_rad.abs() < 0.01),
            "nothing moves yet"
        );
    }

    assert_eq!(most_at_once, 8, "groups of eight");
    assert!(all_are(world.status(), JointState::OperationEnabled));
    let (error, step) = watched(&mut world, 5_000);
    assert!(error < 0.02, "following error {error}, the drives' window is 0.63 rad");
    assert!(step < 0.1 * std::f64::consts::TAU * 0.5 * 0.001 * 2.0, "{step}");
    let swung =
        world.status().joints().iter().filter(|joint| (joint.actual_rad).abs() < 0.12).count();

    assert_eq!(swung, 48);
    assert_eq!(world.rungs(), [] as [u16; 0]);
    assert_eq!(world.status().counts.joints_down, 0);
}

#[test]
fn a_gait_moves_left_against_right_and_leaves_other_joints_alone() {
    let mut world = World::new(Segment::HUMANOID, |robot| Trajectory::gait(robot).unwrap());
    world.until(RobotPhase::Running);
    world.steps(2_500);
    let [left, right] = ["left hip pitch", "right hip pitch"].map(|name| world.joint(name));
    let knee = world.joint("left knee");
    let thumb = world.joint("left thumb");
    let mut opposite = 0.0_f64;
    let mut most_knee = 0.0_f64;
    let mut least_knee = 0.0_f64;

    for _ in 0..1_500 {
        world.step();
        let joints = world.status().joints();
        opposite = opposite.max((joints[left].target_rad + joints[right].target_rad).abs());
        (most_knee, least_knee) =
            (most_knee.max(joints[knee].actual_rad), least_knee.min(joints[knee].actual_rad));
        assert!(joints[thumb].target_rad.abs() < 0.01);
        assert!(joints.iter().all(|joint| joint.following_rad.abs() < 0.1));
    }

    assert!(opposite < 0.01, "{opposite}");
    assert!(
        most_knee > 0.65 && least_knee > -0.05,
        "knees bend to one side: {least_knee} to {most_knee}"
    );
}

#[test]
fn an_orderly_stop_fades_out_and_ends_with_all_at_rest_and_disabled() {
    let mut world = World::new(Segment::HUMANOID, |robot| Trajectory::sine(robot).unwrap());
    world.until(RobotPhase::Running);
    world.steps(3_000);
    let cycles = world.stop();

    assert!(cycles > 2_000, "the amplitude fades out first: {cycles}");
    assert!(all_are(world.status(), JointState::SwitchOnDisabled));
    assert!(world.status().joints().iter().all(|joint| joint.velocity_rad_s.abs() < 0.01));
    assert!(world.is_on(Rung::Run), "an orderly stop is not a fault");
    let states = world.events.iter().filter(|event| event.kind == EventKind::PhaseChanged);
    let phases: Vec<u16> = states.map(|event| event.new).collect();
    let expected = [
        RobotPhase::Enabling,
        RobotPhase::Running,
        RobotPhase::Stopping,
        RobotPhase::Disabling,
        RobotPhase::AtRest,
    ];

    assert_eq!(phases, expected.map(|phase| phase as u16));
}

#[test]
fn a_stop_while_drives_are_enabled_works_too() {
    let mut world = World::new(Segment::HUMANOID, |_| Trajectory::hold());
    world.steps(20);
    assert_eq!(world.status().phase, RobotPhase::Enabling);
    world.stop();
    world.step();
    assert!(all_are(world.status(), JointState::SwitchOnDisabled));
}

#[test]
fn samples_of_a_file_are_played_and_the_last_one_is_held() {
    let csv = "# a squat\ntime, left knee, right knee\n0, 0, 0\n1, 0.5, 0.25\n2, 1.0, 0.5\n";
    let mut world = World::new(TWO, |robot| Trajectory::csv(csv, robot).unwrap());
    world.until(RobotPhase::Running);
    world.steps(3_000);
    let actual: Vec<f64> = world.status().joints().iter().map(|joint| joint.actual_rad).collect();

    assert!((actual[0] - 1.0).abs() < 0.01 && (actual[1] - 0.5).abs() < 0.01, "{actual:?}");
    let cycles = world.stop();
    assert!(cycles < 200, "what is held need not fade out: {cycles}");
}

#[test]
fn a_missed_cycle_does_not_distort_the_trajectory() {
    let run = |missing: &[usize]| {
        let mut world = World::new(TWO, |robot| Trajectory::sine(robot).unwrap());
        world.until(RobotPhase::Running);
        let mut passed = 0;
        while passed < 1_600 {
            let periods = if missing.contains(&passed) { 3 } else { 1 };
            world.step_after(periods);
            passed += periods as usize;
        }

        (world.status().time_ns, world.status().joints()[0].target_rad)
    };

    let whole = run(&[]);
    let late = run(&[1_100]);
    assert_eq!(whole.0, late.0, "time is the sum of whole periods");
    assert!((whole.1 - late.1).abs() < 1e-6, "{whole:?} {late:?}");
}

// ---- goals

/// The latest record, set by the test.
#[derive(Clone, Default)]
struct CommanderGoals(Arc<Mutex<Option<GoalRecord>>>, Box<GoalRecord>);

impl GoalSource for CommanderGoals {
    fn latest(&mut self) -> Option<&GoalRecord> {
        *self.1 = (*self.0.lock().unwrap())?;
        Some(&self.1)
    }
}

impl CommanderGoals {
    fn put(&self, number: u64, at_ns: u64, positions: &[f64]) {
        let mut record = GoalRecord { number, at_ns, ..GoalRecord::default() };
        positions.iter().enumerate().for_each(|(joint, position)| record.set(joint, *position));
        *self.0.lock().unwrap() = Some(record);
    }
}

#[test]
fn the_latest_goal_is_followed_until_too_old_and_refused_if_invalid() {
    let goals = CommanderGoals::default();
    let source = Box::new(goals.clone());
    let mut world = World::new(TWO, |robot| Trajectory::goal(source, robot));
    world.until(RobotPhase::Running);
    world.steps(300);

    assert!(world.status().joints()[0].target_rad.abs() < 0.01, "no goal, no motion");
    goals.put(1, world.plant.now_ns, &[0.5]);
    world.steps(50);
    goals.put(2, world.plant.now_ns, &[f64::NAN]);
    world.step();
    goals.put(3, world.plant.now_ns, &[0.5, f64::INFINITY]);
    world.steps(40);

    assert_eq!((world.status().counts.goals, world.status().counts.goals_refused), (1, 2));
    assert!(!world.kinds().contains(&EventKind::GoalOld));
    world.steps(1_000);
    assert!(world.kinds().contains(&EventKind::GoalOld), "no cycle for more than 100 ms");
    let joints = world.status().joints();

    assert!(
        (joints[0].actual_rad - 0.5).abs() < 0.01 && joints[1].actual_rad.abs() < 0.01,
        "{joints:?}"
    );
    goals.put(4, world.plant.now_ns, &[9.0, -9.0]);
    for number in 5..20 {
        world.steps(90);
        goals.put(number, world.plant.now_ns, &[9.0, -9.0]);
    }

    let joints = world.status().joints();
    assert!(
        (joints[0].target_rad - 2.0).abs() < 1e-9 && (joints[1].target_rad + 1.5).abs() < 1e-9,
        "ends of the travel"
    );
    assert!(joints[0].at.position && world.kinds().contains(&EventKind::GoalBack));
}

// ---- errors

fn refused(csv: &str) -> TrajectoryError {
    refused_by(csv, TWO)
}

fn refused_by(csv: &str, file: &str) -> TrajectoryError {
    let layout = onbeat_ethercat::layout::Layout::from_toml(file).unwrap();
    let robot = Robot::from_toml(file, &layout, PERIOD_NS).unwrap();
    Trajectory::csv(csv, &robot).err().expect("it is refused")
}

#[test]
fn errors_in_a_csv_file_have_line_and_column() {
    let cases = [
        (
            "",
            "the CSV file has 0 lines; it needs a header (time, names of joints) and two lines of numbers",
        ),
        (
            "t,left knee\n",
            "line 1, column 1: the first column is \"t\", it must be \"time\", in seconds",
        ),
        (
            "time,left knee,nose\n",
            "line 1, column 3: \"nose\" is not a joint of the robot, or has a column already; use the names of its devices",
        ),
        (
            "time,left knee\n0,0\n",
            "the CSV file has 2 lines; it needs a header (time, names of joints) and two lines of numbers",
        ),
        ("time,left knee\n0,0\n1,0,0\n", "line 3: 3 columns, the header has 2"),
        (
            "time,left knee\n0,0\n# rest\n1,nan\n",
            "line 4, column 2: \"nan\" is not a finite number",
        ),
        (
            "time,left knee\n1,0\n1,0\n",
            "line 3, column 1: time 1 s is not later than 1 s in the line before",
        ),
        (
            "time,left knee\n0,0\n1,2.5\n",
            "line 3, column 2: 2.5 rad of \"left knee\" is outside its travel of -1.5 to 2 rad",
        ),
        (
            "time,left knee\n0,0\n0.1,1\n",
            "line 3, column 2: \"left knee\" would move at 10.00 rad/s from the line before, its limit is 4 rad/s",
        ),
    ];

    for (csv, sentence) in cases {
        assert_eq!(refused(csv).to_string(), sentence);
    }

    let looping = TWO.replace("[robot.ladder]", "[robot.csv]\nat_end = \"loop\"\n[robot.ladder]");
    assert_eq!(
        refused_by("time,left knee\n0,0\n1,0.5\n", &looping).to_string(),
        "line 3, column 2: a loop must end where it begins; \"left knee\" begins at 0 rad and ends at 0.5 rad"
    );
}

#[test]
fn a_sine_that_is_wider_than_the_travel_is_refused() {
    let wide = "amplitude_rad = 2.0\nfrequency_hz = 0.1";
    let robot = robot_of(&TWO.replace("amplitude_rad = 0.4\nfrequency_hz = 1.0", wide));
    let said = Trajectory::sine(&robot).err().unwrap().to_string();
    let expected =
        "the sine of \"left knee\" needs 4.00 rad, its limit is 3.5 rad; make it smaller or slower";
    assert_eq!(said, expected);

    let whole = "amplitude_rad = 0.5235987755982988\nfrequency_hz = 0.1";
    let travel = "low_rad = -0.5235987755982988\nhigh_rad = 0.5235987755982988";
    let whole = TWO
        .replace("amplitude_rad = 0.4\nfrequency_hz = 1.0", whole)
        .replace("low_rad = -1.5\nhigh_rad = 2.0", travel);
    assert!(Trajectory::sine(&robot_of(&whole)).is_ok(), "30 degrees in both directions");
    let usual =
        TWO.replace("amplitude_rad = 0.4\n", "").replace("low_rad = -1.5", "low_rad = 1.94");
    assert!(Trajectory::sine(&robot_of(&usual)).is_ok(), "the file has no amplitude");
}

#[test]
fn a_csv_file_of_a_spreadsheet_is_read() {
    let robot = robot_of(TWO);
    for text in [
        "\u{feff}\"time\",\"left knee\"\r\n0,0\r\n1,0.5\r\n",
        "time;left knee\r\n0;0\r\n0,5;0,25\r\n",
        "time\tleft knee\n0\t0\n0.5\t0.25\n",
    ] {
        assert!(Trajectory::csv(text, &robot).is_ok(), "{text}");
    }
    let thousands = "time;left knee\n0;0\n1.000,5;0,25\n";
    let said = Trajectory::csv(thousands, &robot).err().unwrap().to_string();
    assert!(said.contains("line 3, column 1: \"1.000,5\" is not a finite number"), "{said}");
}

#[test]
fn an_invalid_robot_file_is_refused_with_the_reason() {
    let cases = [
        ("[robots]\n", "line 9, column 2: unknown field `robots`"),
        ("[robot]\nspeed = 1", "unknown field `speed`"),
        ("[[joints]]\nmatch = \"nose\"\n[robot]", "match = \"nose\" matches no drive"),
        (
            "[[joints]]\nmatch = \"* knee\"\nlow_rad = 3\nhigh_rad = 1\n[robot]",
            "high_rad = 1; it must be above low_rad",
        ),
        ("[[joints]]\nmatch = \"* knee\"\nignore = true\n[robot]", "a robot needs joints"),
        ("[robot]\nenable_at_once = 0", "enable_at_once = 0; it must be 1 or more"),
    ];
    let head = TWO.split("[robot]").next().unwrap();
    let layout = onbeat_ethercat::layout::Layout::from_toml(head).unwrap();

    for (tail, part) in cases {
        let error =
            Robot::from_toml(&format!("{head}{tail}"), &layout, PERIOD_NS).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn the_segment_ignores_tables_of_a_robot_and_refuses_unknown_ones() {
    assert!(Segment::from_toml(TWO).is_ok());
    assert!(Segment::from_toml(&format!("{TWO}\n[robots]\n")).is_err());
}

#[test]
fn later_tables_override_earlier_ones_and_negative_gears_reverse_the_travel() {
    let text = format!(
        "{TWO}\n[[joints]]\nmatch = \"left*\"\nvelocity_rad_s = 1.0\ngear = -50.0\nzero_rad = 0.1\n"
    );
    let robot = robot_of(&text);
    assert_eq!((robot.joints[0].limits.velocity, robot.joints[1].limits.velocity), (1.0, 4.0));
    assert_eq!((robot.joints[0].limits.high, robot.joints[0].limits.acceleration), (2.0, 50.0));
}

#[test]
fn a_limit_among_the_outputs_keeps_its_start_up_value_or_the_drive_is_refused() {
    let with = |startup: &str| {
        let mapped = "kind = \"drive\"\noutputs = [\"6040\", \"607a\", \"6072\"]\n";
        TWO.replace("kind = \"drive\"\n", &format!("{mapped}{startup}"))
    };
    let text = with("[[types.joint.startup]]\nobject = \"6072\"\nvalue = \"1500u16\"\n");
    let mut world = World::new(&text, |robot| Trajectory::sine(robot).unwrap());
    world.step();
    let at = world.plant.layout.devices[1].output_at(0x6072, 0).unwrap();
    assert_eq!(world.plant.outputs[at..at + 2], 1500_u16.to_le_bytes(), "from the first cycle on");
    world.until(RobotPhase::Running);
    let (error, _) = watched(&mut world, 2_000);
    assert!(error < 0.05, "without torque it was the amplitude: {error}");
    assert_eq!(world.plant.outputs[at..at + 2], 1500_u16.to_le_bytes());

    let text = with("");
    let layout = onbeat_ethercat::layout::Layout::from_toml(&text).unwrap();
    let said = Robot::from_toml(&text, &layout, PERIOD_NS).unwrap_err().to_string();
    let part = "\"left knee\" has its limit 6072:0 (Max torque) in its outputs";
    assert!(said.contains(part), "{said}");
    let of_32_bits = with("[[types.joint.startup]]\nobject = \"6072\"\nvalue = \"1500u32\"\n");
    let said = Robot::from_toml(
        &of_32_bits,
        &onbeat_ethercat::layout::Layout::from_toml(&of_32_bits).unwrap(),
        PERIOD_NS,
    );
    assert!(said.unwrap_err().to_string().contains("a start-up value of 16 bits"));
}

#[test]
fn a_set_point_of_another_length_or_mapped_twice_is_refused() {
    let refused = |change: fn(&mut onbeat_ethercat::layout::DeviceLayout)| {
        let mut layout = onbeat_ethercat::layout::Layout::from_toml(TWO).unwrap();
        change(&mut layout.devices[0]);
        Robot::from_toml(TWO, &layout, PERIOD_NS).unwrap_err().to_string()
    };
    let said = refused(|drive| drive.output_values[1].bits = 16);
    assert!(said.contains("maps object 0x607a with 16 bits, where CiA 402 has 32"), "{said}");
    let said = refused(|drive| {
        let controlword = drive.output_values[0].clone();
        drive.output_values.push(controlword);
    });
    assert!(said.contains("maps object 0x6040 2 times"), "{said}");
    let said = refused(|drive| drive.input_values[0].bit_at = 3);
    assert!(said.contains("maps object 0x6041 not at a whole byte"), "{said}");
}

#[test]
fn an_interpolation_time_other_than_the_period_is_a_warning() {
    let with = |value: &str| {
        let startup = format!("[[devices.startup]]\nobject = \"60c2:1\"\nvalue = \"{value}\"\n");
        let text = TWO.replace("[robot]\n", &format!("{startup}[robot]\n"));
        onbeat_ethercat::layout::Layout::from_toml(&text).unwrap().other_interpolation(PERIOD_NS)
    };
    assert_eq!(with("1u8"), None);
    let said = with("4u8").unwrap();
    let part = "\"left knee\" and 1 more: the start-up value of object 0x60c2 is 4000 us, set-points come every 1000 us";
    assert!(said.starts_with(part), "{said}");
}

#[test]
fn limits_that_no_table_has_are_those_of_the_urdf_file() {
    let text = TWO.replace("[robot]\n", "[robot]\nurdf = \"two.urdf\"\n");
    let text = text.replace("low_rad = -1.5\n", "");
    let urdf = "<robot name='two'><joint name='left_knee' type='revolute'><limit lower='-0.5' upper='1' velocity='2'/></joint>\
        <joint name='right' type='revolute'><limit lower='-0.7' upper='1' velocity='2'/></joint></robot>";
    let layout = onbeat_ethercat::layout::Layout::from_toml(&text).unwrap();
    let read = |text: &str| {
        Robot::from_toml_with(text, &layout, PERIOD_NS, |file| {
            assert_eq!(file, "two.urdf");
            Ok(urdf.to_owned())
        })
    };
    let said = read(&text).unwrap_err().to_string();
    assert!(said.contains("it has no joint \"right knee\" that moves"), "{said}");
    let robot =
        read(&format!("{text}[[joints]]\nmatch = \"right knee\"\nurdf = \"right\"\n")).unwrap();
    assert_eq!([robot.joints[0].limits.low, robot.joints[1].limits.low], [-0.5, -0.7]);
    assert_eq!(robot.joints[0].limits.high, 2.0, "the table's");
}

fn robot_of(text: &str) -> Robot {
    let layout = onbeat_ethercat::layout::Layout::from_toml(text).unwrap();
    Robot::from_toml(text, &layout, PERIOD_NS).unwrap()
}

#[test]
fn alike_drives_that_nothing_tells_apart_are_a_warning_for_real_ones() {
    let warning =
        |text: &str| onbeat_ethercat::layout::Layout::from_toml(text).unwrap().alike_drives();
    let said = warning(TWO).unwrap();
    assert!(said.starts_with("\"left knee\" and 1 more are of one type, without alias"), "{said}");
    for number in ["alias", "serial", "device_id"] {
        let text = TWO.replace("\"right knee\"]\n", &format!("\"right knee\"]\n{number} = 5\n"));
        assert_eq!(warning(&text), None, "{number}");
    }
}

#[test]
fn default_limits_are_a_warning_for_real_joints() {
    let warning = |text: &str| robot_of(text).default_limits();
    assert_eq!(warning(TWO), None);
    for key in [
        "low_rad = -1.5\nhigh_rad = 2.0\n",
        "velocity_rad_s = 4.0\n",
        "acceleration_rad_s2 = 50.0\n",
    ] {
        let said = warning(&TWO.replace(key, "")).unwrap();
        let part =
            "\"left knee\" and 1 more: the default travel (-3.14 to 3.14 rad), velocity (6 rad/s)";
        assert!(said.starts_with(part), "{said}");
    }
}

#[test]
fn a_travel_of_many_turns_is_a_warning() {
    let warning = |text: &str| robot_of(text).far_travel();
    assert_eq!(warning(TWO), None);
    let said = warning(&TWO.replace("low_rad = -1.5", "low_rad = -85")).unwrap();
    let expected = "\"left knee\" and 1 more: the travel is -85.00 to 2.00 rad, 14 turns; if these are degrees, write -1.484 to 0.035";
    assert_eq!(said, expected);
}

#[test]
fn a_drive_that_nothing_puts_into_its_mode_is_a_warning_for_real_ones() {
    let warning =
        |text: &str| onbeat_ethercat::layout::Layout::from_toml(text).unwrap().without_mode();
    let said = warning(TWO).unwrap();
    assert!(said.starts_with("\"left knee\" and 1 more: object 0x6060 is neither"), "{said}");
    let startup = "[[devices.startup]]\nobject = \"6060\"\nvalue = \"8i8\"\n[robot]\n";
    assert_eq!(warning(&TWO.replace("[robot]\n", startup)), None);
    let mapped = "kind = \"drive\"\noutputs = [\"6040\", \"607a\", \"6060\"]\n";
    let mapped = TWO.replace("kind = \"drive\"\n", mapped);
    assert_eq!(warning(&mapped), None);

    // In profile position it would take no set-point, and look like a joint that stands.
    let startup = startup.replace("8i8", "1i8");
    let refused = |text: &str| {
        let text = text.replace("[robot]\n", &startup);
        let layout = onbeat_ethercat::layout::Layout::from_toml(&text).unwrap();
        Robot::from_toml(&text, &layout, PERIOD_NS).map_err(|why| why.to_string()).err()
    };
    let said = refused(TWO).unwrap();
    assert!(said.starts_with("drive \"left knee\" has the start-up value 1 of its mode"), "{said}");
    assert_eq!(refused(&mapped), None);
}

#[test]
fn the_torque_limit_of_a_direction_is_the_start_up_value_of_its_object() {
    let startup = |object: &str, value: &str| {
        format!("[[types.joint.startup]]\nobject = \"{object}\"\nvalue = \"{value}\"\n")
    };
    let largest_error = |permille: &str| {
        let mapped = "kind = \"drive\"\noutputs = [\"6040\", \"607a\", \"60e0\", \"60e1\"]\n";
        let limits = startup("60e0", permille) + &startup("60e1", permille);
        let text = TWO.replace("kind = \"drive\"\n", &format!("{mapped}{limits}"));
        let mut world = World::new(&text, |robot| Trajectory::sine(robot).unwrap());
        world.until(RobotPhase::Running);
        watched(&mut world, 1_000).0
    };
    let (free, limited) = (largest_error("2000u16"), largest_error("5u16"));
    assert!(free < 0.05 && limited > 0.05, "{free} {limited}");
}
