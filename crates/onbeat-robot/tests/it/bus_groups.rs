//! Optional groups: devices that may be away when the bus comes up, and that come and go while it
//! runs. The set-points that each device applies are checked on the device's side.

use crate::bus_world;

use bus_world::tampering::{Marking, SetPoints, Tampering, TamperingWire};
use bus_world::{MS, OPTIONS, VirtualClock, clock};
use onbeat_ethercat::event::{Event, EventKind};
use onbeat_ethercat::layout::Layout;
use onbeat_robot::bus::Bus;
use onbeat_rt::time::{Clock, Instant};
use onbeat_segment::{Fault, Link};

/// Random changes; `ONBEAT_GROUP_CHANGES` sets the number.
const CHANGES: u64 = 4_000;
/// Cycles in which a group comes at the latest, with retries of what was in doubt in between.
const COMES_WITHIN: u64 = 4_000;

/// Two drives that are always there, and three groups: two that are alike up to the alias of their
/// first device, at ports of their own, and a drive behind the others. A frame reaches the first
/// group before the two drives.
fn text(serial: &str) -> String {
    let device = |kind: &str, name: &str, more: &str| {
        format!("[[devices]]\ntype = \"{kind}\"\nname = \"{name}\"\n{serial}{more}\n")
    };
    let head = "[types.joint]\nkind = \"drive\"\n[[types.joint.startup]]\nobject = \"6060\"\nvalue = \"8i8\"\n\
        [types.fork]\nkind = \"coupler\"\nports = 4\n[types.tool]\nkind = \"digital\"\n";
    let devices = [
        device("fork", "fork", ""),
        device("tool", "tool", "group = \"tool\"\nalias = 1001\nafter = \"fork\"\nport = 3"),
        device("joint", "tool drive", "group = \"tool\""),
        device("joint", "a", "after = \"fork\"\nport = 1"),
        device("joint", "b", ""),
        device("joint", "probe", "group = \"probe\"\nalias = 1003"),
        device("tool", "spare", "group = \"spare\"\nalias = 1002\nafter = \"fork\"\nport = 2"),
        device("joint", "spare drive", "group = \"spare\""),
    ];
    head.to_owned() + &devices.concat()
}

/// The same with groups that switches identify instead of aliases.
fn by_switch(serial: &str) -> String {
    text(serial).replace("alias = ", "device_id = ")
}

/// A bus on the segment.
struct Run<'c> {
    bus: Bus<TamperingWire<'c>>,
    clock: &'c VirtualClock,
    next: Instant,
    marking: Marking,
    events: Vec<Event>,
    /// Cycles in which a device that is always there did not take part.
    missed: u64,
    layout: Layout,
}

impl<'c> Run<'c> {
    fn new(text: &str, away: &[&str], clock: &'c VirtualClock) -> Self {
        Self::with_file(text, text, away, clock)
    }

    /// A bus with the file `file` on the segment `text`.
    fn with_file(file: &str, text: &str, away: &[&str], clock: &'c VirtualClock) -> Self {
        let layout = Layout::from_toml(file).unwrap();
        let link = Link::from_toml(text).unwrap();
        let set_points = SetPoints::new(link.segment(), |name| layout.find(name));
        let mut wire = TamperingWire::at(link, clock, set_points);
        for name in away {
            let device = wire.segment().find(name).unwrap();
            wire.do_now(&Tampering::Begin(Fault::Unplug { device }));
        }

        let bus = Bus::bring_up(wire, Some(&layout), OPTIONS, "the segment").unwrap();
        let next = Instant::from_ns((clock.now().as_ns() / MS + 1) * MS);
        let marking = Marking::new(&layout);
        let mut run = Self { bus, clock, next, marking, events: Vec::new(), missed: 0, layout };
        while !run.bus.is_up() {
            run.cycles(1);
        }
        run.cycles(8);
        run.missed = 0;
        run
    }

    fn cycles(&mut self, count: u64) {
        for _ in 0..count {
            let _ = self.clock.sleep_until(self.next);
            let cycle = self.bus.cycle(self.next, MS, &mut self.marking);
            self.missed += u64::from(!cycle.fresh || cycle.in_op != cycle.devices);
            self.next = self.next.plus_ns(MS);
            self.events.extend(std::iter::from_fn(|| self.bus.next_event()));
        }
    }

    fn device(&self, name: &str) -> usize {
        self.bus.wire().segment().find(name).unwrap()
    }

    fn begin(&mut self, fault: Fault) {
        self.bus.wire_mut().do_now(&Tampering::Begin(fault));
    }

    fn end(&mut self, fault: Fault) {
        self.bus.wire_mut().do_now(&Tampering::End(fault));
    }

    fn group(&self, name: &str) -> usize {
        self.layout.groups.iter().position(|group| group.name == name).unwrap()
    }

    fn until_valid(&mut self, name: &str) {
        let group = self.group(name);
        for _ in 0..COMES_WITHIN {
            if self.bus.is_group_valid(group) {
                return;
            }
            self.cycles(1);
        }
        panic!("{name} did not come: {:?}", self.sentences());
    }

    fn sentences(&self) -> Vec<String> {
        let name = |event: &Event| {
            let device = self.layout.devices.get(usize::from(event.device));
            device.map_or("", |device| device.name.as_str())
        };
        self.events.iter().map(|event| event.sentence(name(event))).collect()
    }

    fn count(&self, kind: EventKind) -> usize {
        self.events.iter().filter(|event| event.kind == kind).count()
    }

    fn alarms(&self) -> Vec<String> {
        let alarms = self.events.iter().zip(self.sentences());
        alarms.filter(|(event, _)| event.is_alarm()).map(|(_, sentence)| sentence).collect()
    }

    /// Returns the set-point that a device has applied, as the position that it is for.
    fn set_point_for(&self, name: &str) -> Option<usize> {
        let device = self.device(name);
        let bytes = self.bus.wire().segment().value(device, 0x607a, 0)?;
        let target = i32::from_le_bytes(bytes.try_into().ok()?);
        usize::try_from(target / bus_world::tampering::MARK - 1).ok()
    }
}

#[test]
fn an_emergency_during_the_bring_up_is_of_its_device_also_behind_a_group() {
    let mut seen = 0;
    for at_us in (0..40_000).step_by(500) {
        let at_ms = f64::from(at_us) / 1_000.0;
        let fault = format!(
            "[[faults]]\nkind = \"emergency\"\ndevice = \"b\"\ncode = 0x8110\nat_ms = {at_ms}\n"
        );
        let clock = clock();
        let run = Run::new(&(text("") + &fault), &[], &clock);
        let emergencies = run.events.iter().zip(run.sentences());
        for (_, said) in emergencies.filter(|(event, _)| event.kind == EventKind::Emergency) {
            assert!(said.starts_with("b "), "{at_ms} ms: {said}");
            seen += 1;
        }
    }
    assert!(seen > 0, "some came during bring-up");
}

#[test]
fn a_group_that_is_away_at_the_start_comes_later_and_costs_the_others_no_cycle() {
    let clock = clock();
    let mut run = Run::new(&text(""), &["tool", "probe", "spare"], &clock);
    let device = run.device("tool");
    assert!(!run.bus.is_group_valid(run.group("tool")), "nothing is there");
    assert_eq!(run.count(EventKind::BusUp), 1);

    run.end(Fault::Unplug { device });
    run.until_valid("tool");
    run.cycles(5);

    assert_eq!(run.set_point_for("tool drive"), run.layout.find("tool drive"));
    assert_eq!(run.missed, 0);
    assert_eq!((run.count(EventKind::GroupCame), run.count(EventKind::GroupLeft)), (1, 0));
    assert_eq!(run.alarms(), [""; 0]);
    let came = run.sentences().into_iter().find(|sentence| sentence.contains("came")).unwrap();
    assert!(
        came.starts_with(
            "the optional group of tool came, at place 1 of the cable: 2 devices in OP"
        ),
        "{came}"
    );
    assert!(!run.bus.is_group_valid(run.group("spare")), "alike up to its alias, and away");
}

#[test]
fn a_group_that_is_there_at_the_start_is_found_and_may_leave() {
    let clock = clock();
    let mut run = Run::new(&text("serial = 0\n"), &[], &clock);
    for name in ["tool", "probe", "spare"] {
        run.until_valid(name);
    }
    run.cycles(20);
    for name in ["a", "b", "tool drive", "spare drive", "probe"] {
        assert_eq!(run.set_point_for(name), run.layout.find(name), "{name}");
    }

    let device = run.device("spare");
    run.begin(Fault::Unplug { device });
    // The reply to the frame before the change, and the first after it.
    run.cycles(2);
    assert!(!run.bus.is_group_valid(run.group("spare")), "not valid from the first reply on");
    run.cycles(20);
    assert_eq!(run.count(EventKind::GroupLeft), 1);
    assert_eq!(run.missed, 0);
    assert_eq!(run.alarms(), [""; 0]);
    assert!(
        run.bus.is_group_valid(run.group("tool")) && run.bus.is_group_valid(run.group("probe"))
    );
}

#[test]
fn a_group_with_the_alias_of_another_gets_no_set_points() {
    let file = "[types.joint]\nkind = \"drive\"\n\
        [[devices]]\ntype = \"joint\"\nname = \"a\"\n\
        [[devices]]\ntype = \"joint\"\nname = \"probe\"\nalias = 7\ngroup = \"probe\"\n";
    let segment = "[types.joint]\nkind = \"drive\"\n\
        [[devices]]\ntype = \"joint\"\nname = \"a\"\n\
        [[devices]]\ntype = \"joint\"\nname = \"probe\"\nalias = 7\n\
        [[devices]]\ntype = \"joint\"\nname = \"twin\"\nalias = 7\n";
    let clock = clock();
    let mut run = Run::with_file(file, segment, &[], &clock);
    run.cycles(3_000);
    assert!(!run.bus.is_group_valid(0));
    assert_eq!(run.count(EventKind::GroupTwice), 1);
    assert_eq!(
        run.alarms(),
        [
            "2 devices on the cable have alias 7 of the optional group of probe, the first at place 1; none gets set-points: \
             disconnect all but one, or give the others another alias (onbeat bus alias)"
        ]
    );
    assert!(run.bus.wire().set_points.astray.is_empty());

    // One of them leaves: the other is the group.
    let device = run.device("twin");
    run.begin(Fault::Unplug { device });
    run.until_valid("probe");
    run.cycles(5);
    assert_eq!(run.set_point_for("probe"), Some(1));
    assert_eq!(run.missed, 0);
}

#[test]
fn a_group_is_found_by_the_switch_of_its_first_device_wherever_it_is_plugged() {
    for serial in ["", "serial = 0\n"] {
        let clock = clock();
        let mut run = Run::new(&by_switch(serial), &["tool"], &clock);
        for name in ["probe", "spare"] {
            run.until_valid(name);
        }
        assert!(!run.bus.is_group_valid(run.group("tool")));
        let device = run.device("tool");
        run.end(Fault::Unplug { device });
        run.until_valid("tool");
        run.cycles(5);
        for name in ["a", "b", "tool drive", "spare drive", "probe"] {
            assert_eq!(run.set_point_for(name), run.layout.find(name), "{name}");
        }

        // Two groups that are alike change their places: each is found where it is now.
        let [tool, spare] = ["tool", "spare"].map(|name| run.device(name));
        run.begin(Fault::Unplug { device: tool });
        run.begin(Fault::Unplug { device: spare });
        run.cycles(50);
        run.end(Fault::Unplug { device: spare });
        run.until_valid("spare");
        run.end(Fault::Unplug { device: tool });
        run.until_valid("tool");
        assert_eq!((run.missed, run.alarms()), (0, Vec::new()));
        assert!(run.bus.wire().set_points.astray.is_empty());
    }
}

#[test]
fn of_two_devices_with_the_switch_of_a_group_none_gets_set_points() {
    let head = "[types.joint]\nkind = \"drive\"\n[[devices]]\ntype = \"joint\"\nname = \"a\"\n";
    let device = |name: &str, more: &str| {
        format!("[[devices]]\ntype = \"joint\"\nname = \"{name}\"\ndevice_id = 7\n{more}")
    };
    let file = format!("{head}{}", device("probe", "group = \"probe\"\n"));
    let segment = format!("{head}{}{}", device("probe", ""), device("twin", ""));
    let clock = clock();
    let mut run = Run::with_file(&file, &segment, &[], &clock);
    run.cycles(3_000);
    assert!(!run.bus.is_group_valid(0));
    assert_eq!(
        run.alarms(),
        [
            "2 devices on the cable have device ID 7 of the optional group of probe, the first at place 1; none gets set-points: \
             disconnect all but one, or give the others another device ID by their switches"
        ]
    );

    let device = run.device("twin");
    run.begin(Fault::Unplug { device });
    run.until_valid("probe");
    run.cycles(5);
    assert_eq!(run.set_point_for("probe"), Some(1));
    assert_eq!(run.missed, 0);
}

#[test]
fn groups_that_cannot_come_and_go_are_refused_with_the_reason() {
    let refused = |change: &dyn Fn(String) -> String| {
        Layout::from_toml(&change(text(""))).unwrap_err().to_string()
    };
    let no_alias = refused(&|text| text.replace("alias = 1001\n", ""));
    assert!(no_alias.contains("\"tool\" has no alias"), "{no_alias}");
    let twice = refused(&|text| text.replace("alias = 1002", "alias = 1001"));
    assert!(twice.contains("has alias 1001, which device \"spare\" has too"), "{twice}");
    let behind =
        refused(&|text| text.replace("name = \"b\"\n", "name = \"b\"\nafter = \"tool drive\"\n"));
    assert!(behind.contains("has device \"b\", which is not in it, behind"), "{behind}");
    let torn = refused(&|text| text.replace("group = \"spare\"", "group = \"tool\""));
    assert!(torn.contains("is not in one piece"), "{torn}");
    let ring = refused(&|text| format!("[segment]\nring = true\n{text}"));
    assert!(ring.contains("is in a ring"), "{ring}");
}

/// One random change of the segment.
fn change(run: &mut Run<'_>, random: &mut fastrand::Rng) {
    let group = run.layout.groups[random.usize(..run.layout.groups.len())].clone();
    let head = run.device(&run.layout.devices[group.devices.start].name.clone());
    let member = run.layout.devices[random.usize(group.devices.clone())].name.clone();
    let member = run.device(&member);
    match random.u8(..8) {
        0..=1 => run.begin(Fault::Unplug { device: head }),
        2..=4 => {
            run.end(Fault::Unplug { device: head });
            run.end(Fault::Cut { device: head });
        }
        5 => run.begin(Fault::Cut { device: head }),
        6 => run.end(Fault::Cut { device: head }),
        // A device of the group loses its power for a moment.
        _ => {
            run.begin(Fault::PowerOff { device: member });
            run.cycles(random.u64(1..20));
            run.end(Fault::PowerOff { device: member });
        }
    }
}

/// Changes groups at random, and checks that all come in the end.
fn changed_at_random(serial: &str, changes: u64, seed: u64) {
    let clock = clock();
    let mut random = fastrand::Rng::with_seed(seed);
    let away = [&["tool", "probe"][..], &[], &["spare"], &["tool", "probe", "spare"]];
    let file = if seed % 4 < 2 { text(serial) } else { by_switch(serial) };
    let mut run = Run::new(&file, away[random.usize(..away.len())], &clock);
    for number in 0..changes {
        change(&mut run, &mut random);
        let most = if random.u8(..4) == 0 { 400 } else { 12 };
        run.cycles(random.u64(0..most));
        // Within a cycle, between its frames and the next.
        clock.spend(random.u64(0..MS / 2));
        assert_eq!(run.missed, 0, "seed {seed}, change {number}: {:?}", run.alarms());
        assert!(run.bus.wire().set_points.astray.is_empty(), "seed {seed}, change {number}");
        run.events.clear();
    }

    for name in ["tool", "probe", "spare"] {
        let device = run.device(name);
        run.end(Fault::Unplug { device });
        run.end(Fault::Cut { device });
    }
    for name in ["tool", "probe", "spare"] {
        run.until_valid(name);
    }
    run.cycles(3);
    for name in ["a", "b", "tool drive", "spare drive", "probe"] {
        assert_eq!(run.set_point_for(name), run.layout.find(name), "seed {seed}: {name}");
    }
    assert!(run.bus.wire().set_points.taken > 0);
}

#[test]
fn thousands_of_random_changes_send_no_set_point_astray_and_cost_the_others_no_cycle() {
    let changes =
        std::env::var("ONBEAT_GROUP_CHANGES").map_or(CHANGES, |changes| changes.parse().unwrap());
    const EACH: u64 = 100;
    for seed in 0..changes.div_ceil(EACH) {
        changed_at_random(if seed % 2 == 0 { "" } else { "serial = 0\n" }, EACH, seed);
    }
}
