//! A robot that follows the goals of another process: goals are followed until they are too old,
//! invalid ones are refused, and a lost commander leads to a safe stop.

use crate::robot_world;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use onbeat_control::{BusSide, Client, Commander, GoalAnswer, Image, ImageSettings};
use onbeat_ethercat::event::EventKind;
use onbeat_ethercat::layout::Layout;
use onbeat_robot::motion::{
    CommanderGoals, GoalRecord, GoalSource, Robot, RobotPhase, Rung, Trajectory,
};
use robot_world::{PERIOD_NS, TWO, World};

/// The same two joints, commanded by another process.
fn two_commanded() -> String {
    format!("{TWO}[robot.goal]\nage_ms = 50\nlost_ms = 400\n")
}

/// A running robot and its image.
struct CommandedRobot {
    world: World,
    _bus: BusSide,
    client: Client,
}

fn commanded_robot() -> CommandedRobot {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name =
        format!("test-goals-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let file = two_commanded();
    let layout = Layout::from_toml(&file).unwrap();
    let robot = Robot::from_toml(&file, &layout, PERIOD_NS).unwrap();
    let settings = ImageSettings {
        joints: robot.commanded(),
        goal_age_ns: robot.settings.goal_age_ns,
        ..ImageSettings::default()
    };
    let bus = Image::create(&name, &layout, settings).unwrap();
    let source = Box::new(CommanderGoals::new(bus.goals().unwrap()));
    let mut world = World::new(&file, |robot| Trajectory::goal(source, robot));
    world.until(RobotPhase::Running);
    world.steps(300);

    CommandedRobot { world, client: Client::open(&name).unwrap(), _bus: bus }
}

impl CommandedRobot {
    fn commander(&self) -> Commander {
        self.client.command().unwrap()
    }

    /// Runs cycles, giving the same goal again every ten.
    fn follow(&mut self, commander: &mut Commander, cycles: usize) {
        for cycle in 0..cycles {
            if cycle % 10 == 0 {
                commander.give().unwrap();
            }
            self.world.step();
        }
    }

    fn is_at(&self, places: [f64; 2]) -> bool {
        let joints = self.world.status().joints().iter().zip(places);
        joints.map(|(joint, place)| (joint.actual_rad - place).abs()).all(|off| off < 0.01)
    }

    fn count(&self, kind: EventKind) -> usize {
        self.world.kinds().iter().filter(|seen| **seen == kind).count()
    }
}

#[test]
fn joints_with_a_target_move_and_others_stay() {
    let mut led = commanded_robot();
    let mut commander = led.commander();
    commander.set("right knee", 0.6).unwrap();
    led.follow(&mut commander, 1_000);

    assert!(led.is_at([0.0, 0.6]), "{:?}", led.world.status().joints());
    assert!(
        matches!(commander.answer(), Some((100, GoalAnswer::Taken))),
        "{:?}",
        commander.answer()
    );
    commander.set("left knee", -0.4).unwrap();
    led.follow(&mut commander, 1_000);
    assert!(led.is_at([-0.4, 0.6]));
    assert_eq!(
        (led.world.status().counts.goals, led.world.status().counts.goals_refused),
        (200, 0)
    );
    assert_eq!(led.count(EventKind::GoalOld), 0);
}

#[test]
fn a_distant_goal_is_reached_within_the_limits() {
    let mut led = commanded_robot();
    let mut commander = led.commander();
    commander.set("left knee", 2.0).unwrap();
    let mut before = led.world.status().joints()[0].target_rad;
    let mut fastest = 0.0_f64;
    for _ in 0..1_000 {
        led.follow(&mut commander, 1);
        let target = led.world.status().joints()[0].target_rad;
        fastest = fastest.max((target - before).abs() / 0.001);
        before = target;
    }

    assert!(led.is_at([2.0, 0.0]) && fastest > 3.0, "{fastest}");
    assert!(fastest <= 4.0 + 0.01, "{fastest} rad/s, at most 4");
}

#[test]
fn an_invalid_goal_is_refused_as_a_whole_and_the_previous_one_stays() {
    let mut led = commanded_robot();
    let mut commander = led.commander();
    commander.set("left knee", 0.5).unwrap();
    led.follow(&mut commander, 800);
    for (joint, rad) in [(1, f64::NAN), (1, f64::NEG_INFINITY), (1, 2.1), (0, -1.6), (0, 1e300)] {
        let mut bad = [0.2, 0.2];
        bad[joint] = rad;
        (0..2).for_each(|joint| commander.want(joint, bad[joint]));
        let number = commander.give().unwrap();
        led.world.step();
        assert_eq!(commander.answer(), Some((number, GoalAnswer::Refused)));
    }

    led.world.steps(20);
    assert!(led.is_at([0.5, 0.0]), "not even the joint with a valid target has moved");
    assert_eq!(
        (led.world.status().counts.goals_refused, led.count(EventKind::GoalRefused)),
        (5, 1)
    );
}

#[test]
fn without_new_goals_joints_hold_and_then_the_robot_makes_a_safe_stop() {
    let mut led = commanded_robot();
    let mut commander = led.commander();
    commander.set("left knee", 0.5).unwrap();
    led.follow(&mut commander, 600);
    // The commander still exists but gives no goals. The last goal was given ten cycles ago.
    led.world.steps(45);

    assert_eq!((led.count(EventKind::GoalOld), led.world.status().phase), (1, RobotPhase::Running));
    led.world.steps(300);
    assert!(led.is_at([0.5, 0.0]) && led.world.is_on(Rung::Run), "it holds");
    led.world.steps(60);
    assert_eq!((led.count(EventKind::CommanderLost), led.world.status().counts.safe_stops), (1, 1));
    assert!(led.world.is_on(Rung::SafeStop));
    led.world.until(RobotPhase::AtRest);
    // Goals have no effect before a reset; after it they do.
    commander.set("left knee", 1.0).unwrap();
    led.follow(&mut commander, 500);

    assert!(led.is_at([0.5, 0.0]) && led.world.status().phase == RobotPhase::AtRest);
    led.world.steps(60);
    led.world.controller.reset();
    led.world.steps(1);
    led.world.until(RobotPhase::Running);
    led.world.steps(1_000);

    assert!(led.world.is_on(Rung::Run), "one loss leads to one safe stop");
    led.follow(&mut commander, 1_000);
    assert!(led.is_at([1.0, 0.0]));
    assert_eq!(led.world.status().counts.safe_stops, 1);
}

#[test]
fn a_commander_with_refused_goals_only_is_lost_too() {
    for every in [1, 10] {
        let mut led = commanded_robot();
        let mut commander = led.commander();
        commander.set("left knee", 0.5).unwrap();
        led.follow(&mut commander, 300);
        commander.want(0, f64::NAN);
        for cycle in 0..500 {
            if cycle % every == 0 {
                commander.give().unwrap();
            }
            led.world.step();
        }

        assert!(led.world.is_on(Rung::SafeStop) && led.count(EventKind::CommanderLost) == 1);
        let events = [EventKind::GoalOld, EventKind::GoalRefused].map(|kind| led.count(kind));
        assert_eq!(events, [1, 1], "every {every} cycles: one event for a row of refused goals");
        assert!(led.world.status().counts.goals_refused > 300 / every);
    }
}

#[test]
fn a_commander_that_leaves_is_not_lost_and_the_next_one_continues() {
    let mut led = commanded_robot();
    let mut commander = led.commander();
    commander.set("left knee", 0.5).unwrap();
    commander.give().unwrap();
    drop(commander);
    led.world.steps(5_000);

    assert!(
        led.is_at([0.5, 0.0]) && led.world.is_on(Rung::Run),
        "the last goal of a commander that left is reached and held"
    );
    let mut next = led.commander();
    led.world.steps(1_000);
    assert!(led.world.is_on(Rung::Run), "a commander without a goal is not lost");
    next.set("right knee", 0.3).unwrap();
    led.follow(&mut next, 800);

    assert!(led.is_at([0.5, 0.3]));
    assert_eq!((led.count(EventKind::GoalOld), led.count(EventKind::GoalBack)), (1, 1));
}

/// A single goal, and its results.
#[derive(Clone, Default)]
struct Once(Box<GoalRecord>, Arc<Mutex<Vec<(u64, GoalAnswer)>>>);

impl GoalSource for Once {
    fn latest(&mut self) -> Option<&GoalRecord> {
        Some(&self.0)
    }

    fn answered(&mut self, number: u64, answer: GoalAnswer) {
        self.1.lock().unwrap().push((number, answer));
    }
}

#[test]
fn a_goal_from_before_the_start_is_too_old_and_answered_once() {
    let mut source = Once::default();
    (source.0.number, source.0.at_ns) = (7, 1);
    source.0.set(0, 0.5);
    let answers = Arc::clone(&source.1);
    let short = two_commanded().replace("age_ms = 50", "age_ms = 5");
    let mut world = World::new(&short, |robot| Trajectory::goal(Box::new(source), robot));
    world.until(RobotPhase::Running);
    world.steps(500);

    assert_eq!(*answers.lock().unwrap(), [(7, GoalAnswer::TooOld)]);
    let old = world.kinds().into_iter().filter(|kind| *kind == EventKind::GoalOld);
    assert_eq!(old.count(), 1, "it is not lost silently");
    assert!(world.status().joints()[0].actual_rad.abs() < 0.01 && world.status().counts.goals == 0);
}

#[test]
fn a_goal_from_before_a_safe_stop_is_not_followed_after_the_reset() {
    let mut source = Once::default();
    (source.0.number, source.0.at_ns) = (7, u64::MAX);
    source.0.set(0, 1.8);
    let patient = two_commanded()
        .replace("age_ms = 50", "age_ms = 60000")
        .replace("lost_ms = 400", "lost_ms = 0");
    let mut world = World::new(&patient, |robot| Trajectory::goal(Box::new(source), robot));
    world.until(RobotPhase::Running);
    world.steps(200);
    (0..10).for_each(|_| world.lose());
    world.until(RobotPhase::AtRest);
    let stands = world.status().joints()[0].actual_rad;
    assert!((0.1..1.5).contains(&stands), "on its way: {stands}");
    world.steps(1_000);
    world.controller.reset();
    world.step();
    world.until(RobotPhase::Running);
    world.steps(1_000);

    let now = world.status().joints()[0].actual_rad;
    assert!((now - stands).abs() < 0.01, "from {stands} to {now}");
    assert!(world.kinds().contains(&EventKind::GoalOld), "it is not lost silently");
}

#[test]
fn the_goal_timeout_of_the_file_is_checked() {
    let layout = Layout::from_toml(TWO).unwrap();
    let of = |lost: &str| {
        Robot::from_toml(&two_commanded().replace("lost_ms = 400", lost), &layout, PERIOD_NS)
    };
    assert_eq!(of("").unwrap().settings.goal_lost_ns, Some(1_000_000_000));
    assert_eq!(of("lost_ms = 0").unwrap().settings.goal_lost_ns, None);
    let refused = of("lost_ms = 20").unwrap_err().to_string();
    assert_eq!(
        refused,
        "[robot.goal]: lost_ms = 20; it must be age_ms to 1000000000, or 0 for never"
    );
}
