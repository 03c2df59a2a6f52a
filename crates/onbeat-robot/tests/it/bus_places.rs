//! Devices that are not at their positions in the file: exchanged, added, switched off together, or
//! with other station addresses. Checks what the bus does and reports, and what the robot on it
//! does.

use crate::bus_world;
use crate::bus_world::tampering;

use bus_world::{MS, OPTIONS, VirtualClock, clock};
use onbeat_control::BusRequest;
use onbeat_ethercat::event::{Event, EventKind, NO_DEVICE};
use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::step::Controller;
use onbeat_robot::bus::{Bus, BusError, BusTransfer};
use onbeat_robot::motion::{MotionController, Robot, RobotPhase, Rung, Trajectory};
use onbeat_rt::time::{Clock, Instant};
use onbeat_segment::{Fault, Link};
use tampering::{Marking, SetPoints, Tampering, TamperingWire};

/// Six drives; `own` distinguishes them.
fn six(own: &str) -> String {
    let names = "names = [\"j1\", \"j2\", \"j3\", \"j4\", \"j5\", \"j6\"]";
    format!("[types.joint]\nkind = \"drive\"\n[[devices]]\ntype = \"joint\"\n{names}\n{own}\n")
}

/// Nothing distinguishes them.
const EQUAL: &str = "serial = 0";
const SERIALS: &str = "serial = 7001";

struct World<'c> {
    bus: Bus<TamperingWire<'c>>,
    clock: &'c VirtualClock,
    next: Instant,
    events: Vec<Event>,
}

impl<'c> World<'c> {
    fn new(file: &str, segment: &str, clock: &'c VirtualClock) -> Result<Self, BusError> {
        let layout = Layout::from_toml(file).unwrap();
        let link = Link::from_toml(segment).unwrap();
        let set_points = SetPoints::new(link.segment(), |name| layout.find(name));
        let bus = Bus::bring_up(
            TamperingWire::at(link, clock, set_points),
            Some(&layout),
            OPTIONS,
            "the segment",
        )?;
        let next = Instant::from_ns((clock.now().as_ns() / MS + 1) * MS);
        Ok(Self { bus, clock, next, events: Vec::new() })
    }

    /// In OP.
    fn up(text: &str, clock: &'c VirtualClock) -> Self {
        let mut world = Self::new(text, text, clock).unwrap();
        world.cycles(100);
        assert!(world.bus.is_up(), "{:?}", world.events);
        world.events.clear();
        world
    }

    fn cycle(&mut self, controller: &mut impl Controller) {
        let _ = self.clock.sleep_until(self.next);
        self.bus.cycle(self.next, MS, controller);
        self.next = self.next.plus_ns(MS);
        self.events.extend(std::iter::from_fn(|| self.bus.next_event()));
    }

    /// Runs cycles with marked set-points; none may reach another device.
    fn cycles(&mut self, count: u64) {
        let mut marking = Marking::new(self.bus.layout());
        for _ in 0..count {
            self.cycle(&mut marking);
        }
        assert_eq!(self.bus.wire().set_points.astray, [], "{:?}", self.events);
    }

    fn tamper(&mut self, acts: &[Tampering]) {
        for act in acts {
            self.bus.wire_mut().do_now(act);
        }
    }

    /// Switches all devices off for a while, and tampers with them during that time.
    fn restart(&mut self, actions: &[Tampering]) {
        let all = 0..self.bus.wire().segment().len();
        self.tamper(
            &all.clone()
                .map(|device| Tampering::Begin(Fault::PowerOff { device }))
                .collect::<Vec<_>>(),
        );
        self.cycles(20);
        self.tamper(actions);
        self.tamper(
            &all.map(|device| Tampering::End(Fault::PowerOff { device })).collect::<Vec<_>>(),
        );
    }

    fn reported(&self, kind: EventKind) -> Vec<(u16, u16, u32)> {
        let of_kind = self.events.iter().filter(|event| event.kind == kind);
        of_kind.map(|event| (event.device, event.new, event.code)).collect()
    }

    /// What a rescan answers: a device, or 0xfffe for an unknown one, by position.
    fn rescan(&mut self) -> Vec<u16> {
        let rescan = Box::new(BusTransfer::new(BusRequest::Rescan));
        assert!(self.bus.begin_transfer(rescan).is_ok());
        self.cycles(100);
        let ended = self.bus.ended_transfer().unwrap();
        let bytes = ended.outcome().unwrap().unwrap();
        bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect()
    }

    fn states(&self) -> Vec<u8> {
        let segment = self.bus.wire().segment();
        (0..segment.len()).map(|device| segment.status(device).unwrap().al_state).collect()
    }
}

fn off(device: usize) -> Tampering {
    Tampering::Begin(Fault::PowerOff { device })
}

fn on(device: usize) -> Tampering {
    Tampering::End(Fault::PowerOff { device })
}

fn swapped(device: usize, with: usize) -> Tampering {
    Tampering::Begin(Fault::Swap { device, with })
}

#[test]
fn two_devices_exchanged_without_power_stay_in_init_with_one_event_each_until_reverted() {
    let clock = clock();
    let mut world = World::up(&six(SERIALS), &clock);
    world.restart(&[swapped(1, 4)]);
    world.cycles(3_000);

    assert_eq!(
        world.reported(EventKind::WrongDevice),
        [(1, 4, 7_005), (4, 4, 7_002)],
        "{:?}",
        world.events
    );
    assert_eq!(world.states(), [8, 1, 8, 8, 1, 8]);
    let stations = [1, 4].map(|device| world.bus.wire().segment().status(device).unwrap().station);
    assert_eq!(stations, [0, 0], "what they were asked by is taken from them");
    world.restart(&[Tampering::End(Fault::Swap { device: 1, with: 4 })]);
    world.cycles(700);

    assert!(world.bus.is_up(), "the right ones are back: {:?}", world.events);
    assert_eq!(world.reported(EventKind::WrongDevice).len(), 2);
}

#[test]
fn exchanged_drives_stop_the_robot_and_a_reset_is_refused_until_reverted() {
    let clock = clock();
    let text = six(SERIALS);
    let mut world = World::new(&text, &text, &clock).unwrap();
    let robot = Robot::from_toml(&text, world.bus.layout(), MS).unwrap();
    let mut robot = MotionController::new(&robot, Trajectory::sine(&robot).unwrap());
    let until = |world: &mut World<'_>, robot: &mut MotionController, phase: RobotPhase| {
        (0..10_000).any(|_| {
            world.cycle(robot);
            robot.status().phase == phase
        })
    };

    assert!(until(&mut world, &mut robot, RobotPhase::Running));
    world.tamper(&[off(2), off(3)]);
    assert!(until(&mut world, &mut robot, RobotPhase::AtRest));
    world.tamper(&[swapped(2, 3), on(2), on(3)]);
    for _ in 0..2_000 {
        world.cycle(&mut robot);
        robot.reset();
    }

    assert_eq!((robot.status().phase, robot.status().rung), (RobotPhase::AtRest, Rung::SafeStop));
    assert_eq!(world.reported(EventKind::WrongDevice).len(), 2, "{:?}", world.events);
    world.tamper(&[off(2), off(3), swapped(2, 3), on(2), on(3)]);
    for _ in 0..1_500 {
        world.cycle(&mut robot);
    }

    robot.reset();
    assert!(until(&mut world, &mut robot, RobotPhase::Running), "{:?}", world.events);
}

#[test]
fn one_of_six_identical_drives_recovers_and_two_switched_off_together_do_not() {
    let clock = clock();
    let mut world = World::up(&six(EQUAL), &clock);
    world.tamper(&[off(3)]);
    world.cycles(50);
    world.tamper(&[on(3)]);
    world.cycles(150);

    assert!(world.bus.is_up(), "{:?}", world.events);
    assert_eq!(world.reported(EventKind::PlaceInDoubt), []);
    // Switching off one after the other is recovered as well.
    for device in [1, 2] {
        world.tamper(&[off(device)]);
        world.cycles(30);
        world.tamper(&[on(device)]);
        world.cycles(150);
        assert!(world.bus.is_up(), "{:?}", world.events);
    }

    world.tamper(&[off(1), off(4)]);
    world.cycles(50);
    world.tamper(&[on(1)]);
    world.cycles(1_500);
    world.tamper(&[on(4)]);
    world.cycles(3_000);

    // The last device is behind the fifth, and could not be found either when the second was
    // checked.
    assert_eq!(
        world.reported(EventKind::PlaceInDoubt),
        [(1, 0, 3), (4, 0, 2)],
        "{:?}",
        world.events
    );
    assert_eq!(world.states(), [8, 1, 8, 8, 1, 8]);
}

#[test]
fn identical_drives_that_only_lost_their_cable_recover() {
    let clock = clock();
    let mut world = World::up(&six(EQUAL), &clock);
    world.tamper(&[Tampering::Begin(Fault::Cut { device: 2 })]);
    world.cycles(400);

    assert_eq!(world.states()[2..], [4; 4], "their watchdogs");
    world.tamper(&[Tampering::End(Fault::Cut { device: 2 })]);
    world.cycles(60);
    assert!(world.bus.is_up(), "{:?}", world.events);
    world.tamper(&[Tampering::Begin(Fault::AlError { device: 5, code: 0x001b })]);
    world.cycles(12);

    assert!(world.bus.is_up(), "a fall costs no more than before: {:?}", world.events);
}

#[test]
fn drives_exchanged_with_power_keep_their_own_set_points() {
    let clock = clock();
    let mut world = World::up(&six(EQUAL), &clock);
    world.tamper(&[swapped(1, 4)]);
    world.cycles(500);

    assert!(world.bus.is_up(), "{:?}", world.events);
    world.tamper(&[off(1)]);
    world.cycles(20);
    world.tamper(&[on(1)]);
    world.cycles(1_500);

    assert_eq!(
        world.states(),
        [8, 1, 8, 8, 8, 8],
        "the device that lost its address is not at its position"
    );
}

/// What SOEM does when it searches for devices: all to INIT, FMMUs cleared, station addresses from
/// 0x1001.
fn foreign_scan() -> [Tampering; 3] {
    [Tampering::StateOfAll(1), Tampering::ClearFmmus, Tampering::Stations(0x1001)]
}

#[test]
fn another_main_device_on_the_cable_misdirects_no_set_point() {
    for (own, comes_back) in [(EQUAL, false), (SERIALS, true), ("serial = 0\nalias = 20", true)] {
        let clock = clock();
        let mut world = World::up(&six(own), &clock);
        for _ in 0..100 {
            world.tamper(&foreign_scan());
            world.cycles(30);
        }

        world.cycles(2_000);
        assert_eq!(world.bus.is_up(), comes_back, "{own}: {:?}", world.events);
        assert_eq!(
            world.reported(EventKind::PlaceInDoubt).len(),
            if comes_back { 0 } else { 6 },
            "{own}"
        );
        assert_eq!(world.reported(EventKind::WrongDevice), [], "{own}");
    }
}

#[test]
fn station_addresses_of_another_main_device_do_not_stop_identical_drives() {
    let clock = clock();
    let mut world = World::up(&six(EQUAL), &clock);
    for first in [0x1000, 0x1001, 0x0001] {
        world.tamper(&[Tampering::Stations(first)]);
        world.cycles(150);
        assert!(world.bus.is_up(), "each FMMU still has its configuration: {:?}", world.events);
    }
}

#[test]
fn an_fmmu_overwritten_by_another_main_device_is_restored() {
    let clock = clock();
    let mut world = World::up(&six(EQUAL), &clock);
    world.tamper(&[Tampering::Fmmu(2, 0, 8), Tampering::Fmmu(3, 16, 8)]);
    world.cycles(60);

    assert_eq!(world.reported(EventKind::WorkingCounterOff).len(), 1, "{:?}", world.events);
    world.cycles(400);
    assert!(
        world.bus.is_up() && world.reported(EventKind::WorkingCounterBack).len() == 1,
        "{:?}",
        world.events
    );
}

#[test]
fn an_added_device_is_one_event_without_other_effect() {
    let clock = clock();
    let file = six(SERIALS);
    // The spare is inserted behind j3.
    let table = |names: &str, serial: u32| {
        format!("[[devices]]\ntype = \"joint\"\nnames = [{names}]\nserial = {serial}\n")
    };
    let with_spare = "[types.joint]\nkind = \"drive\"\n".to_owned()
        + &table("\"j1\", \"j2\", \"j3\"", 7_001)
        + &table("\"spare\"", 0)
        + &table("\"j4\", \"j5\", \"j6\"", 7_004);
    let layout = Layout::from_toml(&file).unwrap();
    let link = Link::from_toml(&with_spare).unwrap();
    let set_points = SetPoints::new(link.segment(), |name| layout.find(name));
    let mut tampering = TamperingWire::at(link, &clock, set_points);
    tampering.do_now(&Tampering::Begin(Fault::Unplug { device: 3 }));
    let bus = Bus::bring_up(tampering, Some(&layout), OPTIONS, "the segment").unwrap();
    let next = Instant::from_ns((clock.now().as_ns() / MS + 1) * MS);
    let mut world = World { bus, clock: &clock, next, events: Vec::new() };
    world.cycles(100);

    assert!(world.bus.is_up());
    world.tamper(&[Tampering::End(Fault::Unplug { device: 3 })]);
    world.cycles(1_500);
    assert_eq!(world.reported(EventKind::SurplusDevice), [(NO_DEVICE, 3, 7)], "{:?}", world.events);
    assert!(world.bus.is_up() && world.states()[3] == 1, "{:?}", world.events);
    assert_eq!(world.reported(EventKind::DeviceLost), []);
    assert_eq!(world.rescan(), [0, 1, 2, 0xfffe, 3, 4, 5], "the spare does not belong to this bus");
    // A spare at the position of a removed device is not that device.
    world.tamper(&[Tampering::Begin(Fault::Unplug { device: 4 })]);
    world.cycles(1_500);

    assert_eq!(world.reported(EventKind::WrongDevice), [(3, 4, 0)], "{:?}", world.events);
    world.tamper(&[
        Tampering::Begin(Fault::Unplug { device: 3 }),
        Tampering::End(Fault::Unplug { device: 4 }),
    ]);
    world.cycles(1_500);
    assert!(world.bus.is_up(), "{:?}", world.events);
}

#[test]
fn a_serial_number_or_alias_that_differs_is_one_sentence_and_nothing_is_enabled() {
    for (own, sentence) in [
        (
            "serial = 50",
            "at place 0 the file has \"j1\" with serial number 50, the device has serial number 51",
        ),
        ("alias = 50", "at place 0 the file has \"j1\" with alias 50, the device has alias 51"),
    ] {
        let clock = clock();
        let refused = World::new(&six(own), &six(&own.replace("50", "51")), &clock)
            .map(|_| ())
            .unwrap_err()
            .to_string();
        assert!(refused.starts_with(sentence), "{refused}");
    }
}
