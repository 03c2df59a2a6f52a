//! Models of the simulated devices and their process data.

use crate::sim_world;

use onbeat_segment::{Command, Segment};
use sim_world::{DRIVE, World};

/// A drive in OP whose outputs are controlword, mode, and the three targets; one cycle takes a
/// millisecond.
struct Joint {
    world: World,
    control: u16,
    mode: i8,
    position: i32,
    velocity: i32,
    torque: i16,
}

/// Inputs of a drive.
#[derive(Clone, Copy, Debug)]
struct Inputs {
    status: u16,
    position: i32,
    velocity: i32,
    torque: i16,
}

impl Joint {
    fn new(mode: i8, settings: &str) -> Self {
        let kind = format!(
            "[types.t]\nkind = \"drive\"\n\
             outputs = [\"6040\", \"6060\", \"607a\", \"60ff\", \"6071\"]\n\
             inputs = [\"6041\", \"6064\", \"606c\", \"6077\"]\n[types.t.drive]\n{settings}\n"
        );
        let mut world = World::line(&kind, 1);
        world.bring_up(0x1001, 128, 0);

        Self { world, control: 0, mode, position: 0, velocity: 0, torque: 0 }
    }

    fn cycle(&mut self) -> Inputs {
        self.world.wait_ns(990_000);
        let mut image = self.control.to_le_bytes().to_vec();
        image.push(self.mode as u8);
        image.extend_from_slice(&self.position.to_le_bytes());
        image.extend_from_slice(&self.velocity.to_le_bytes());
        image.extend_from_slice(&self.torque.to_le_bytes());
        image.resize(13, 0);
        let answer = self.world.logical(Command::Lrw, 0, &image);

        assert_eq!(answer.count, 3);
        let at = |from: usize| answer.data[from..from + 4].try_into().unwrap();
        Inputs {
            status: answer.word(),
            position: i32::from_le_bytes(at(2)),
            velocity: i32::from_le_bytes(at(6)),
            torque: i16::from_le_bytes([answer.data[10], answer.data[11]]),
        }
    }

    fn run(&mut self, cycles: usize) -> Inputs {
        (0..cycles).map(|_| self.cycle()).last().unwrap()
    }

    fn enabled(mode: i8, settings: &str) -> Self {
        let mut joint = Self::new(mode, settings);
        for (control, state) in [(0x06, 0x21), (0x07, 0x23), (0x0f, 0x27)] {
            joint.control = control;
            assert_eq!(joint.run(3).status & 0x6f, state);
        }
        joint
    }

    fn object(&self, index: u16) -> i64 {
        let bytes = self.world.segment.value(0, index, 0).unwrap();
        bytes.iter().rev().fold(0, |value, byte| value << 8 | i64::from(*byte))
    }
}

#[test]
fn cyclic_position_follows_a_moving_target() {
    let mut joint = Joint::enabled(8, "");
    let mut worst = 0;
    for cycle in 0..1_000 {
        joint.position = cycle * 30;
        let shown = joint.cycle();
        worst = worst.max((shown.position - joint.position).abs());
    }

    assert!(worst < 1_000, "{worst} increments behind at 30 per cycle");
    let shown = joint.run(500);
    assert!((shown.position - joint.position).abs() <= 20, "{shown:?}");
    assert_ne!(shown.status & 0x1000, 0, "it follows the command");
}

#[test]
fn cyclic_velocity_and_torque_move_the_shaft() {
    let mut joint = Joint::enabled(9, "");
    joint.velocity = 100_000;
    let shown = joint.run(500);
    assert!((shown.velocity - 100_000).abs() < 2_000, "{shown:?}");
    let mut joint = Joint::enabled(10, "");
    joint.torque = 100;
    let shown = joint.run(50);

    assert!((shown.torque - 100).abs() <= 1 && shown.velocity > 0, "{shown:?}");
}

#[test]
fn profile_position_is_acknowledged_keeps_its_limits_and_reaches_the_target() {
    let mut joint = Joint::enabled(1, "");
    joint.position = 50_000;
    joint.control = 0x1f;
    assert_ne!(joint.run(2).status & 0x1000, 0, "acknowledged");
    joint.control = 0x0f;

    assert_eq!(joint.run(2).status & 0x1400, 0, "acknowledgement withdrawn, on the way");
    let mut fastest = 0;
    for _ in 0..1_500 {
        fastest = fastest.max(joint.cycle().velocity);
    }

    let shown = joint.cycle();
    assert!((shown.position - 50_000).abs() <= 66, "{shown:?}");
    assert_ne!(shown.status & 0x0400, 0, "target reached");
    assert!(
        (60_000..70_000).contains(&fastest),
        "{fastest}: the profile velocity is 65536 per second"
    );
}

#[test]
fn a_relative_set_point_counts_from_the_last_one() {
    let mut joint = Joint::enabled(1, "");
    for _ in 0..2 {
        joint.position = 1_000;
        joint.control = 0x5f;
        joint.run(2);
        joint.control = 0x0f;
        joint.run(600);
    }

    assert!((joint.cycle().position - 2_000).abs() <= 66);
}

#[test]
fn profile_velocity_ramps_and_halts() {
    let mut joint = Joint::enabled(3, "");
    joint.velocity = 65_536;
    let early = joint.run(20);
    assert!(
        early.velocity > 0 && early.velocity < 40_000,
        "a ramp of ten turns per second squared: {early:?}"
    );
    assert_ne!(joint.run(500).status & 0x0400, 0, "target reached");
    joint.control = 0x010f;
    let shown = joint.run(500);

    assert_eq!(
        (shown.velocity.abs() < 655, shown.status & 0x0400 != 0),
        (true, true),
        "halted: {shown:?}"
    );
}

#[test]
fn profile_torque_ramps_with_its_slope() {
    let mut joint = Joint::enabled(4, "");
    joint.torque = 500;
    let shown = joint.run(21);
    assert!((60..=110).contains(&shown.torque), "5000 thousandths per second for 20 ms: {shown:?}");
    assert_eq!(shown.status & 0x1400, 0, "on its way");
    let shown = joint.run(200);
    assert!((shown.torque - 500).abs() <= 2, "{shown:?}");
    assert_eq!(shown.status & 0x1400, 0x0400, "target reached; bit 12 is reserved");
}

#[test]
fn a_target_of_one_mode_does_not_move_the_drive_in_another() {
    let mut joint = Joint::enabled(1, "");
    joint.position = 20_000;
    joint.control = 0x1f;
    joint.run(2);
    joint.control = 0x0f;
    joint.run(800);
    joint.mode = 6;
    let shown = joint.run(20);
    assert!((shown.position - 20_000).abs() <= 100, "homing was not started: {shown:?}");

    joint.mode = 8;
    for _ in 0..200 {
        joint.position += 50;
        joint.cycle();
    }
    joint.run(200);
    joint.mode = 1;
    let shown = joint.run(200);
    assert!((shown.position - 30_000).abs() <= 100, "no new set-point: {shown:?}");
}

#[test]
fn homing_at_the_current_position_makes_it_zero() {
    let mut joint = Joint::enabled(8, "");
    for cycle in 0..400 {
        joint.position = cycle * 50;
        joint.cycle();
    }

    assert!(joint.run(200).position > 19_000);
    joint.mode = 6;
    joint.control = 0x1f;
    let shown = joint.run(5);
    assert_eq!(shown.status & 0x3400, 0x1400 & 0x3400, "homing attained: {:#06x}", shown.status);
    assert!(shown.position.abs() < 50, "{shown:?}");
}

#[test]
fn homing_to_the_lower_end_of_the_travel_finds_it() {
    let mut joint = Joint::enabled(6, "travel = [-20000, 20000]\n");
    joint.world.segment.set_value(0, 0x6098, 0, &[17]);
    joint.control = 0x1f;
    assert_eq!(joint.run(5).status & 0x1400, 0, "on its way");
    let shown = joint.run(2_000);

    assert_eq!(shown.status & 0x3000, 0x1000, "attained: {:#06x}", shown.status);
    assert!(shown.position.abs() < 2_000, "{shown:?}");
}

#[test]
fn an_unsupported_homing_method_is_a_homing_error() {
    let mut joint = Joint::enabled(6, "");
    joint.world.segment.set_value(0, 0x6098, 0, &[5]);
    joint.control = 0x1f;
    assert_eq!(joint.run(3).status & 0x3000, 0x2000);
}

#[test]
fn a_target_too_far_away_is_a_following_error_with_its_emergency() {
    let mut joint = Joint::enabled(8, "");
    joint.position = 60_000_000;
    let shown = joint.run(600);
    assert_eq!(shown.status & 0x4f, 0x08, "fault: {:#06x}", shown.status);
    assert_eq!(joint.object(0x603f), 0x8611);
    let mail = joint.world.fetch(0x1001).expect("an emergency");

    assert_eq!((&mail[..5], mail.len()), ([0x00, 0x10, 0x11, 0x86, 0x21].as_slice(), 10));
    assert!(shown.velocity.abs() < 1_000, "it stands: {shown:?}");
    joint.control = 0x80;
    assert_eq!(joint.run(3).status & 0x4f, 0x40, "reset by a rising edge");
    assert_eq!(joint.object(0x603f), 0);
}

#[test]
fn quick_stop_brakes_and_then_switches_off_or_stays_active_by_its_option() {
    for (option, state) in [(2u8, 0x40), (6, 0x07)] {
        let mut joint = Joint::enabled(9, "");
        joint.world.segment.set_value(0, 0x605a, 0, &[option, 0]);
        joint.velocity = 200_000;
        joint.run(600);
        joint.control = 0x0b;
        let braking = joint.run(3);

        assert_eq!(braking.status & 0x6f, 0x07, "quick stop active: {braking:?}");
        let shown = joint.run(400);
        assert_eq!(shown.status & 0x6f, state, "option {option}");
        assert!(shown.velocity.abs() < 700, "{shown:?}");
    }
}

#[test]
fn a_drive_that_loses_its_process_data_stops_with_a_fault() {
    let mut joint = Joint::enabled(9, "");
    joint.velocity = 100_000;
    joint.run(300);
    joint.world.wait_ns(500_000_000);

    assert_eq!(joint.world.read(0x1001, 0x0130, 1).data, [0x14]);
    assert_eq!(joint.object(0x6041) & 0x4f, 0x08);
    assert_eq!(joint.object(0x603f), 0x7500);
    assert_eq!(joint.object(0x606c), 0);
}

#[test]
fn limits_of_torque_and_travel_are_kept_and_indicated() {
    let mut joint = Joint::enabled(10, "most_torque_permille = 300\n");
    joint.torque = 2_000;
    let shown = joint.run(20);
    assert!(shown.torque <= 300, "{shown:?}");
    assert_ne!(shown.status & 0x0800, 0, "internal limit active");
    let mut joint = Joint::enabled(8, "travel = [-1000, 1000]\n");
    for cycle in 0..500 {
        joint.position = cycle * 10;
        joint.cycle();
    }

    assert!((joint.cycle().position - 1_000).abs() <= 20);
}

#[test]
fn sync0_pulses_apply_the_outputs_at_their_own_time() {
    let mut world = World::line(DRIVE, 1);
    world.set_up(0x1001, 128, 0);
    world.ask_state(0x1001, 2);
    world.write(0x1001, 0x09a0, &1_000_000u32.to_le_bytes());
    let start = world.read(0x1001, 0x0910, 8).quad() + 2_000_000;
    world.write(0x1001, 0x0990, &start.to_le_bytes());
    world.write(0x1001, 0x0981, &[3]);
    world.ask_state(0x1001, 4);

    assert_eq!(world.ask_state(0x1001, 8), (8, 0));
    world.wait_ns(5_000_000);
    let next = world.read(0x1001, 0x0990, 8).quad();
    let now = world.read(0x1001, 0x0910, 8).quad();
    world.wait_ns(next - now - 400_000);
    let mut image = [0; 12];
    image[0] = 0x06;
    world.logical(Command::Lrw, 0, &image);
    world.wait_ns(100_000);
    world.logical(Command::Lrw, 0, &image);

    assert_eq!(world.segment.value(0, 0x6040, 0), Some([0, 0].as_slice()), "not before the pulse");
    world.wait_ns(400_000);
    let shown = world.logical(Command::Lrw, 0, &image);
    assert_eq!(world.segment.value(0, 0x6040, 0), Some([6, 0].as_slice()));
    assert_eq!(shown.word() & 0x6f, 0x21);
}

#[test]
fn a_force_torque_sensor_provides_its_values() {
    let kind = "[types.t]\nkind = \"force-torque\"\n[types.t.force]\nload_n_nm = [0, 0, -300, 1, 2, 3]\nnoise_n = 0.0\n";
    let mut world = World::line(kind, 1);
    world.bring_up(0x1001, 128, 0);
    world.logical(Command::Lrd, 0, &[0; 28]);
    world.wait_ns(1_000_000);
    let data = world.logical(Command::Lrd, 0, &[0; 28]).data;
    let value = |axis: usize| f32::from_le_bytes(data[4 * axis..4 * axis + 4].try_into().unwrap());

    assert_eq!([value(2), value(3), value(5)], [-300.0, 1.0, 3.0]);
}

#[test]
fn analogue_inputs_have_the_set_values_and_outputs_go_to_zero_without_process_data() {
    let mut world =
        World::line("[types.t]\nkind = \"analogue\"\nchannels = { inputs = 2, outputs = 2 }\n", 1);
    world.bring_up(0x1001, 128, 0);
    world.segment.set_value(0, 0x6000, 2, &(-5i16).to_le_bytes());
    world.logical(Command::Lrw, 0, &[1, 0, 2, 0]);
    let answer = world.logical(Command::Lrw, 0, &[1, 0, 2, 0]);

    assert_eq!(&answer.data[2..], (-5i16).to_le_bytes());
    assert_eq!(world.segment.value(0, 0x7000, 2), Some([2, 0].as_slice()));
    world.wait_ns(200_000_000);
    world.read(0x1001, 0x0130, 1);
    assert_eq!(world.segment.value(0, 0x7000, 2), Some([0, 0].as_slice()));
}

// ---- the file

#[test]
fn an_invalid_file_is_rejected_with_the_reason() {
    let why = |text: &str| Segment::from_toml(text).unwrap_err().to_string();
    assert!(why("[[devices]]\ntype = \"arm\"\nname = \"a\"\n").contains("\"arm\""));
    assert!(why("").contains("no device"));
    assert!(why("[types.t]\nkind = \"lathe\"\n").contains("lathe"));
    let with = |devices: &str| why(&format!("{DRIVE}{devices}"));

    assert!(with("[[devices]]\ntype = \"t\"\nnames = [\"a\", \"a\"]\n").contains("two devices"));
    assert!(
        with("[[devices]]\ntype = \"t\"\nname = \"a\"\nafter = \"b\"\n")
            .contains("no earlier device")
    );
    let forked = "[[devices]]\ntype = \"t\"\nnames = [\"a\", \"b\"]\n[[devices]]\ntype = \"t\"\nname = \"c\"\nafter = \"a\"\n";
    assert!(with(forked).contains("no free port"));
    assert!(
        why("[types.t]\nkind = \"drive\"\ninputs = [\"6040:5\"]\n[[devices]]\ntype = \"t\"\nname = \"a\"\n")
            .contains("6040:5")
    );
    assert!(
        with("[types.t.drive]\nrated_nm = -1.0\n[[devices]]\ntype = \"t\"\nname = \"a\"\n")
            .contains("rated_nm")
    );
}

#[test]
fn the_humanoid_has_48_drives_8_io_devices_and_3_inertial_units() {
    let segment = Segment::from_toml(Segment::HUMANOID).unwrap();
    let sizes: Vec<(usize, usize)> = (0..segment.len())
        .filter_map(|device| segment.status(device))
        .map(|s| (s.output_bytes, s.input_bytes))
        .collect();
    let count = |size| sizes.iter().filter(|&&one| one == size).count();

    assert_eq!((count((8, 12)), count((1, 1)), count((0, 24)), sizes.len()), (48, 8, 3, 59));
}
