//! A cycle of the bus does not allocate: in normal operation, with lost frames, and during recovery
//! of a device.

use crate::bus_world::{Idle, MS, OPTIONS, World, clock, two_that_stop};
use assert_no_alloc::{assert_no_alloc, reset_violation_count, violation_count};
use onbeat_control::{Channel, Image, ImageSettings, RingReader, Start};
use onbeat_ethercat::event::EventKind;
use onbeat_ethercat::layout::Layout;
use onbeat_robot::bus::{Bus, Wire};
use onbeat_robot::cycle_messages::{CycleMessages, JointSample, TOPIC};
use onbeat_robot::image_service::{CycleTimes, serve};
use onbeat_robot::motion::{MotionController, Robot, Trajectory};
use onbeat_rt::time::{Clock, Instant};
use onbeat_segment::{Fault, Segment};

/// The segment may allocate when cables are cut; the bus that calls it may not.
struct Permitted<W>(W);

impl<W: Wire> Wire for Permitted<W> {
    fn send(&mut self, frame: &[u8]) {
        assert_no_alloc::permit_alloc(|| self.0.send(frame));
    }

    fn receive(&mut self, buffer: &mut [u8], until: Instant) -> Option<usize> {
        assert_no_alloc::permit_alloc(|| self.0.receive(buffer, until))
    }

    fn now(&self) -> Instant {
        self.0.now()
    }

    fn rest(&mut self) {
        assert_no_alloc::permit_alloc(|| self.0.rest());
    }
}

/// Start-up values that a recovered device receives besides its registers.
const STARTUP_VALUES: &str = r#"
    [types.leg-joint.sync0]
    [[types.leg-joint.startup]]
    object = "6065"
    value = "9000u32"
    [[types.leg-joint.startup]]
    object = "1c32:2"
    value = "1000000u32"
"#;

#[test]
fn a_cycle_does_not_allocate_under_any_fault_of_the_segment() {
    assert_no_allocation(Segment::HUMANOID);
    assert_no_allocation(&format!("{}\n{STARTUP_VALUES}", Segment::HUMANOID));
    let planted = assert_no_alloc(|| Vec::<u8>::with_capacity(64));
    assert!(violation_count() > 0 && planted.capacity() >= 64, "the count decides");
}

fn assert_no_allocation(text: &str) {
    let clock = clock();
    let mut world = World::new(text, &clock, OPTIONS);
    world.until_up(&mut Idle);
    let knee = world.device("left knee");
    let elbow = world.device("left elbow");
    world.inject(Fault::Lose, Some(2_000 * MS), 0.02);
    world.inject(Fault::PowerOff { device: knee }, Some(100 * MS), 1.0);
    world.inject(Fault::Emergency { device: elbow, code: 0x7305 }, None, 1.0);
    let World { bus, .. } = world;
    let mut bus: Bus<_> = bus.rewired(|wire| Ok::<_, ()>(Permitted(wire))).unwrap();
    reset_violation_count();
    let mut release = clock.now();
    let mut lost = 0;
    let mut back = 0;
    let mut emergencies = 0;

    assert_no_alloc(|| {
        for _ in 0..2_500 {
            release = release.plus_ns(MS);
            let _ = clock.sleep_until(release);
            bus.cycle(release, MS, &mut Idle);
            while let Some(event) = bus.next_event() {
                lost += u32::from(event.kind == EventKind::DeviceLost);
                back += u32::from(event.kind == EventKind::DeviceBack);
                emergencies += u32::from(event.kind == EventKind::Emergency);
            }
        }
    });

    assert_eq!(violation_count(), 0);
    assert!(
        lost > 0 && back == lost && emergencies == 1,
        "{lost} lost, {back} back, {emergencies} emergencies"
    );
    assert!(bus.is_up());
}

#[test]
fn publishing_a_robot_does_not_allocate() {
    let clock = clock();
    // Events, a safe stop, and power off.
    let two = two_that_stop("kind = \"freeze\"\ndevice = \"right knee\"\nat_ms = 1500");
    let World { bus, .. } = World::new(&two, &clock, OPTIONS);
    let mut bus: Bus<_> = bus.rewired(|wire| Ok::<_, ()>(Permitted(wire))).unwrap();
    let layout = Layout::from_toml(&two).unwrap();
    let robot = Robot::from_toml(&two, &layout, MS).unwrap();
    let controller = MotionController::new(&robot, Trajectory::sine(&robot).unwrap());
    let name = format!("test-quiet-{}", std::process::id());
    let mut image = Image::create(&name, &layout, ImageSettings::default()).unwrap();
    image.keep_outputs().unwrap();
    let messages = CycleMessages::create(&name, &layout, &robot.commanded(), MS).unwrap();
    let (mut controller, mut serving, _attending) =
        serve(image, Some(Box::new(controller)), Some(messages));
    let messages = RingReader::open(&Channel::new(&name, TOPIC).unwrap(), Start::Oldest).unwrap();
    reset_violation_count();
    let mut release = clock.now();
    let mut of_robot = 0;
    let mut stops = 0;

    assert_no_alloc(|| {
        for _ in 0..3_000 {
            release = release.plus_ns(MS);
            let _ = clock.sleep_until(release);
            let cycle = bus.cycle(release, MS, controller.as_mut());
            let joints = [JointSample::default(); 2];
            serving.set_joints(controller.robot(), joints.into_iter());
            serving.after_cycle(
                &mut bus,
                &cycle,
                CycleTimes { wakeup_latency_ns: 1, execution_time_ns: 1 },
                |_| {},
            );
            while let Some(event) = controller.take_event() {
                of_robot += 1;
                stops += u32::from(event.kind == EventKind::SafeStop);
            }
        }
    });

    assert_eq!(violation_count(), 0);
    assert_eq!(messages.newest(), 3_000, "a record for each cycle");
    assert!(stops == 1 && of_robot > 6, "{of_robot} events of the robot, {stops} safe stops");
}
