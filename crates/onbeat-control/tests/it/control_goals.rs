//! The joints of a bus have at most one commander; its goals are read consistently, and it may
//! leave or be killed at any time.

use crate::control_world;

use control_world::{
    BYTES, Other, client, cycle, in_bursts, kinds, layout, pattern, print_line, role, unique_name,
    until,
};
use onbeat_control::{
    BusSide, Client, Commander, ControlError, GoalAnswer, GoalSide, Image, ImageSettings, Joint,
};
use onbeat_ethercat::event::EventKind;

/// More than the bits of one word.
const JOINTS: usize = 70;

#[test]
fn in_another_process() {
    let Some(words) = role() else {
        return assert!(std::env::args().count() > 0, "a role for others");
    };
    let client = client(&words[1]);

    match words[0].as_str() {
        // Gives different goals for half of the time, so some kills hit it while it writes.
        "command" => {
            let mut commander = client.command().unwrap();
            print_line("commands");
            in_bursts(1..u64::MAX, |number| give(&mut commander, number as f64));
        }
        "try" => match client.command() {
            Err(ControlError::Commanded { pid, process, .. }) => {
                print_line(&format!("commanded by {pid} {process}"));
            }
            other => print_line(&format!("{:?}", other.is_ok())),
        },
        other => panic!("unknown role {other}"),
    }
}

/// Sets all joints to the same target.
fn give(commander: &mut Commander, rad: f64) {
    (0..JOINTS).for_each(|joint| commander.want(joint, rad));
    commander.give().unwrap();
}

fn world() -> (String, BusSide, GoalSide, Client) {
    let name = unique_name();
    let joint = |place| Joint {
        device: place % 2,
        low_rad: -1.0,
        high_rad: place as f64,
        velocity_rad_s: 4.0,
        increments_per_rad: -2.0,
        zero_rad: 0.5,
    };
    let joints = (0..JOINTS).map(joint).collect();
    let bus = Image::create(&name, &layout(), ImageSettings { joints, ..ImageSettings::default() })
        .unwrap();
    let goals = bus.goals().unwrap();
    let client = client(&name);
    (name, bus, goals, client)
}

fn publish(bus: &mut BusSide, number: u64) {
    bus.publish(&cycle(number), &pattern(number), &vec![0; BYTES]);
}

#[test]
fn a_goal_and_its_answer_pass_through_the_image() {
    let (_, _bus, mut goals, client) = world();
    assert_eq!(goals.latest(), None);
    let mut commander = client.command().unwrap();
    assert_eq!(commander.joints()[1].0, "right knee");
    assert_eq!(
        commander.joints()[69].1,
        Joint {
            device: 1,
            low_rad: -1.0,
            high_rad: 69.0,
            velocity_rad_s: 4.0,
            increments_per_rad: -2.0,
            zero_rad: 0.5
        }
    );
    assert_eq!((commander.age_us(), commander.answer()), (100_000, None));
    commander.set("right knee", 0.5).unwrap();
    commander.want(69, -0.25);
    commander.want(JOINTS, 9.0);

    assert_eq!(goals.latest(), None, "no goal was given yet");
    assert_eq!(commander.give().unwrap(), 1);
    assert_eq!(goals.latest(), Some(1));
    assert_eq!(goals.positions().collect::<Vec<_>>(), [(1, 0.5), (69, -0.25)]);
    assert!(!goals.is_last() && goals.at_ns() > 0);
    goals.answer(1, GoalAnswer::Refused);

    assert_eq!(commander.answer(), Some((1, GoalAnswer::Refused)));
    let later = goals.at_ns();
    (0..6).for_each(|_| _ = commander.give());
    assert_eq!(goals.latest(), Some(7), "the newest counts");
    assert!(goals.at_ns() >= later && goals.positions().count() == 2);
}

#[test]
fn an_unknown_joint_or_a_target_outside_the_travel_is_refused_before_the_goal_is_given() {
    let (name, _bus, _, client) = world();
    let mut commander = client.command().unwrap();
    let refusal = |answer: Result<(), ControlError>| answer.unwrap_err().to_string();
    assert_eq!(
        refusal(commander.set("right knee", 1.5)),
        "1.5 rad is outside the travel of \"right knee\", -1 to 1 rad"
    );
    assert_eq!(
        refusal(commander.set("left knee", f64::NAN)),
        "NaN rad is outside the travel of \"left knee\", -1 to 0 rad"
    );
    let nose = refusal(commander.set("nose", 0.0));
    let begins = format!(
        "bus \"{name}\" has no joint \"nose\" that follows goals; it has left knee, right knee,"
    );

    assert!(nose.starts_with(&begins) && nose.ends_with("right knee, 62 more"), "{nose}");
}

#[test]
fn a_bus_without_joints_follows_no_goals() {
    let name = unique_name();
    let bus = Image::create(&name, &layout(), ImageSettings::default()).unwrap();
    let client = client(&name);
    assert!(bus.goals().is_none() && client.joints().is_empty());
    assert!(matches!(client.command(), Err(ControlError::NoGoals { .. })));
}

#[test]
fn a_second_commander_is_refused_with_the_first_ones_process() {
    let (name, mut bus, mut goals, client) = world();
    let mut commander = client.command().unwrap();
    let heard = Other::with(module_path!(), &format!("try {name}")).next_line();
    let comm = std::fs::read_to_string("/proc/self/comm").unwrap();

    assert_eq!(heard, format!("commanded by {} {}", std::process::id(), comm.trim()));
    publish(&mut bus, 1);
    give(&mut commander, 0.0);
    drop(commander);
    assert!(
        goals.latest() == Some(2) && goals.is_last(),
        "the last goal again, with the flag of leaving"
    );
    assert_eq!(goals.positions().count(), JOINTS);
    // It waits a second at most for the thread that serves the bus.
    bus.cold_side().tend();
    publish(&mut bus, 2);

    assert_eq!(Other::with(module_path!(), &format!("try {name}")).next_line(), "true");
    assert_eq!(kinds(&client.events(1)), [EventKind::CommanderTaken, EventKind::CommanderLeft]);
}

#[test]
fn a_commander_killed_while_writing_leaves_a_complete_goal_and_a_free_role() {
    let (name, mut bus, mut goals, client) = world();
    for round in 0..5 {
        let mut other = Other::with(module_path!(), &format!("command {name}"));
        let pid = other.pid();
        assert_eq!(other.next_line(), "commands");
        let before = goals.latest().unwrap_or(0);
        let mut look = |bus: &mut BusSide| {
            publish(bus, 1);
            let number = goals.latest().unwrap_or(0);
            let positions: Vec<f64> = goals.positions().map(|(_, rad)| rad).collect();
            assert!(
                positions.iter().all(|rad| *rad == positions[0]),
                "of one piece: {positions:?}"
            );
            number
        };

        until("its goals are read", || look(&mut bus) > before + 100);
        other.kill();
        let last = look(&mut bus);
        assert_eq!(look(&mut bus), last, "no process commands any more");
        assert!(!goals.is_last(), "it has not left in order");
        // The role is free at once for a claim, and for other readers after the next check by the
        // bus.
        if round % 2 == 1 {
            drop(client.command().unwrap());
        }

        // Who leaves waits a second at most for the thread that serves the bus.
        bus.cold_side().tend();
        publish(&mut bus, 2);
        let events = client.events(1).events;
        let died = events
            .iter()
            .filter(|(_, event)| event.kind == EventKind::CommanderDied && event.code == pid);
        assert_eq!(died.count(), 1, "{events:?}");
        assert_eq!(client.state().commander, None);
    }
}
