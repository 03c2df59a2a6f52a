//! What other processes see of a robot: a client that waits for cycles learns of a safe stop, with
//! its reason and joint, in the cycle in which it happens or in the next one, from the events and
//! from the state published with the cycle.

use crate::bus_world;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use bus_world::{Idle, MS, OPTIONS, World, clock, two_that_stop};
use onbeat_control::{Client, Image, ImageSettings, Snapshot, Timed};
use onbeat_ethercat::event::{Event, EventKind};
use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::step::{BusCycle, Controller, RobotState};
use onbeat_robot::bus::Wire;
use onbeat_robot::image_service::{CycleTimes, serve};
use onbeat_robot::motion::{
    MotionController, Outlets, Robot, RobotCommands, RobotPhase, RobotSnapshot, RobotTask,
    SafeStopReason, Trajectory,
};
use onbeat_rt::ring::Ring;
use onbeat_rt::time::{Clock, Instant};
use onbeat_rt::{Cycle, Flow, OnOverrun, Plan, Sample, Slot, Task, Wait, cycle, split};
use onbeat_segment::{Fault, Segment};

fn name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test-shown-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// What a client saw after a cycle.
#[derive(Clone, Copy, Debug)]
struct Look {
    cycle: u64,
    robot: RobotState,
    /// A safe stop among the events so far.
    stopped: Option<Event>,
}

/// A client that reads each publication.
struct Watching {
    client: Client,
    seen: Snapshot,
    next: u64,
    events: Vec<Event>,
    looks: Vec<Look>,
}

impl Watching {
    fn new(name: &str) -> Self {
        let client = Client::open(name).unwrap();
        Self { seen: client.snapshot(), client, next: 1, events: Vec::new(), looks: Vec::new() }
    }

    fn look(&mut self) {
        self.client.read(&mut self.seen).unwrap();
        let found = self.client.events(self.next);
        assert_eq!(found.missed, 0);
        self.next = found.next;
        self.events.extend(found.events.into_iter().map(|(_, event)| event));
        let stopped = self.events.iter().find(|event| event.kind == EventKind::SafeStop).copied();
        let robot = self.seen.robot.expect("a robot is shown beside each cycle");
        self.looks.push(Look { cycle: self.seen.cycle.cycle, robot, stopped });
    }

    /// Returns whether the safe stop of this cycle was seen in the event and in the state, in the
    /// publication of this cycle or the next one, and not before.
    fn has_seen_the_stop_of(&self, cycle: u64) -> Event {
        let by_event = self.looks.iter().find(|look| look.stopped.is_some()).expect("an event");
        let by_words = self.looks.iter().find(|look| look.robot.is_stopped()).expect("words");
        for look in [by_event, by_words] {
            assert!(
                (cycle..=cycle + 1).contains(&look.cycle),
                "stopped in {cycle}, seen in {}",
                look.cycle
            );
        }

        let event = by_event.stopped.unwrap();
        assert_eq!((event.cycle, u16::from(by_words.robot.stopped_by)), (cycle, event.new));
        assert_eq!(by_words.robot.device, event.device);
        event
    }
}

struct Looked<'r, W> {
    task: RobotTask<'r, W>,
    watching: Watching,
}

impl<W: Wire> Task for Looked<'_, W> {
    fn cycle(&mut self, cycle: &Cycle) -> Flow {
        let flow = self.task.cycle(cycle);
        self.watching.look();
        flow
    }
}

fn slots<T>(count: usize) -> Vec<Slot<T>> {
    (0..count).map(|_| Slot::empty()).collect()
}

/// Runs a robot like `onbeat robot run --name`, on a virtual clock; returns what a client saw, and
/// the robot's own event of the stop.
fn robot_run(fault: &str) -> (Watching, Event) {
    let file = two_that_stop(fault);
    let name = name();
    let clock = clock();
    let World { bus, .. } = World::new(&file, &clock, OPTIONS);
    let layout = Layout::from_toml(&file).unwrap();
    let robot = Robot::from_toml(&file, &layout, MS).unwrap();
    let controller = MotionController::new(&robot, Trajectory::sine(&robot).unwrap());
    let mut image = Image::create(&name, &layout, ImageSettings::default()).unwrap();
    image.keep_outputs().unwrap();
    let (_, serving, _attending) = serve(image, None, None);
    let mut seen = slots::<RobotSnapshot>(8);
    let mut robot_events = slots::<Event>(1024);
    let mut of_bus = slots::<Event>(1024);
    let mut seen = Ring::over(&mut seen).unwrap();
    let mut robot_events = Ring::over(&mut robot_events).unwrap();
    let mut of_bus = Ring::over(&mut of_bus).unwrap();
    let ((seen_in, _), (robot_in, mut robot_out), (bus_in, _)) =
        (split(&mut seen), split(&mut robot_events), split(&mut of_bus));
    let orders = RobotCommands::default();
    let outlets = Outlets { seen: seen_in, robot: robot_in, bus: bus_in };
    let mut task = RobotTask::new(bus, controller, &orders, outlets, 1_000);
    task.serving = Some(serving);
    let mut looked = Looked { task, watching: Watching::new(&name) };
    let mut samples = slots::<Sample>(1);
    let mut samples = Ring::over(&mut samples).unwrap();
    let plan = Plan {
        period_ns: MS,
        first_release: Instant::from_ns((clock.now().as_ns() / MS + 2) * MS),
        deadline_ns: MS,
        releases: 3_000,
        wait: Wait::Sleep,
        on_overrun: OnOverrun::SkipKeepPhase,
    };

    cycle::run(&&clock, &plan, &mut looked, &mut split(&mut samples).0, &AtomicBool::new(false));
    let own =
        std::iter::from_fn(|| robot_out.pop()).find(|event| event.kind == EventKind::SafeStop);
    (looked.watching, own.expect("a safe stop"))
}

const LOST: &str = "kind = \"lose\"\nat_ms = 1500\nfor_ms = 60";
const FROZEN: &str = "kind = \"freeze\"\ndevice = \"right knee\"\nat_ms = 1500";

#[test]
fn a_safe_stop_after_misses_is_seen_in_the_cycle_after_it_at_the_latest() {
    let (watching, own) = robot_run(LOST);
    let event = watching.has_seen_the_stop_of(own.cycle);
    assert_eq!((event.new, event.code), (SafeStopReason::Misses as u16, 10));
    assert_eq!(event.sentence(""), "safe stop: 10 missed cycles");
    let last = watching.looks.last().unwrap().robot;

    assert_eq!(
        (last.phase, last.rung, last.stopped_by),
        (RobotPhase::AtRest as u8, 3, SafeStopReason::Misses as u8)
    );
    assert_eq!(last.words(""), "at rest, safe stop: missed cycles");
}

#[test]
fn a_safe_stop_by_a_joint_names_the_joint_and_its_reason() {
    let (watching, own) = robot_run(FROZEN);
    let event = watching.has_seen_the_stop_of(own.cycle);
    assert_eq!((event.device, event.new), (1, SafeStopReason::JointDown as u16));
    assert_eq!(
        event.sentence("right knee"),
        "safe stop: right knee is down, its following error was too large"
    );
    let kinds: Vec<EventKind> = watching.events.iter().map(|event| event.kind).collect();
    let at = |kind| kinds.iter().position(|known| *known == kind).unwrap();

    assert!(at(EventKind::JointDown) < at(EventKind::SafeStop), "the cause comes first: {kinds:?}");
    let phases = watching
        .events
        .iter()
        .filter(|event| event.kind == EventKind::PhaseChanged)
        .map(|event| event.new);
    assert_eq!(phases.collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
}

/// The controller returned by [`serve`].
struct Handed(Box<dyn Controller + Send>);

impl Controller for Handed {
    fn step(&mut self, cycle: &BusCycle, inputs: &[u8], outputs: &mut [u8]) {
        self.0.step(cycle, inputs, outputs);
    }
}

#[test]
fn every_exchange_of_a_bus_with_an_owner_is_counted() {
    let file = two_that_stop(LOST);
    let name = name();
    let clock = clock();
    let layout = Layout::from_toml(&file).unwrap();
    let image = Image::create(&name, &layout, ImageSettings::default()).unwrap();
    let (controller, mut serving, _attending) = serve(image, None, None);
    let mut handed = Handed(controller);
    let mut world = World::new(&file, &clock, OPTIONS);
    let client = Client::open(&name).unwrap();

    for cycles in 1..=50 {
        let cycle = world.cycle(&mut handed);
        serving.after_cycle(
            &mut world.bus,
            &cycle,
            CycleTimes { wakeup_latency_ns: 1, execution_time_ns: 1 },
            |_| {},
        );
        let stats = client.stats();
        let exchange = stats.times(Timed::Exchange);
        assert_eq!((exchange.count(), exchange.max_ns() > 0), (cycles, true));
    }
}

/// One cycle passes on a few events only, so that it does not take long.
#[test]
fn the_events_that_a_cycle_leaves_for_the_next_one_are_published_after_the_last() {
    let name = name();
    let clock = clock();
    let mut world = World::humanoid(&clock);
    let layout = Layout::from_toml(Segment::HUMANOID).unwrap();
    let image = Image::create(&name, &layout, ImageSettings::default()).unwrap();
    let (_controller, mut serving, _attending) = serve(image, None, None);
    let client = Client::open(&name).unwrap();
    let knee = world.device("left knee");
    let mut release = clock.now();
    let mut last = BusCycle::default();
    for _ in 0..12 {
        world.inject(Fault::PowerOff { device: knee }, Some(100 * MS), 1.0);
        for _ in 0..800 {
            release = release.plus_ns(MS);
            let _ = clock.sleep_until(release);
            // Not by the world, which takes the events after each cycle.
            last = world.bus.cycle(release, MS, &mut Idle);
        }
    }

    let mut kept = Vec::new();
    let times = CycleTimes { wakeup_latency_ns: 1, execution_time_ns: 1 };
    serving.after_cycle(&mut world.bus, &last, times, |event| kept.push(event));
    let of_the_cycle = kept.len();
    serving.after_last_cycle(&mut world.bus, |event| kept.push(event));
    assert!(kept.len() > of_the_cycle, "{of_the_cycle} of {}", kept.len());
    assert_eq!(world.bus.next_event(), None);
    let published: Vec<Event> =
        client.events(1).events.into_iter().map(|(_, event)| event).collect();
    // The image keeps the newest ones.
    assert!(published.len() > of_the_cycle && kept.ends_with(&published), "{published:?}");
}

#[test]
fn a_controller_of_a_published_bus_is_visible_and_every_exchange_is_counted() {
    let file = two_that_stop(LOST);
    let name = name();
    let clock = clock();
    let layout = Layout::from_toml(&file).unwrap();
    let robot = Robot::from_toml(&file, &layout, MS).unwrap();
    let controller = MotionController::new(&robot, Trajectory::sine(&robot).unwrap());
    let mut image = Image::create(&name, &layout, ImageSettings::default()).unwrap();
    image.keep_outputs().unwrap();
    let (controller, mut serving, _attending) = serve(image, Some(Box::new(controller)), None);
    let mut handed = Handed(controller);
    let mut world = World::new(&file, &clock, OPTIONS);
    let mut watching = Watching::new(&name);
    let mut own = Vec::new();
    for cycles in 1..=3_000 {
        let cycle = world.cycle(&mut handed);
        serving.after_cycle(
            &mut world.bus,
            &cycle,
            CycleTimes { wakeup_latency_ns: 1, execution_time_ns: 1 },
            |_| {},
        );
        watching.look();
        own.extend(std::iter::from_fn(|| handed.0.take_event()));
        assert_eq!(watching.client.stats().times(Timed::Exchange).count(), cycles);
    }

    let stop = own.iter().find(|event| event.kind == EventKind::SafeStop).unwrap();
    assert_eq!(watching.has_seen_the_stop_of(stop.cycle), *stop);
}
