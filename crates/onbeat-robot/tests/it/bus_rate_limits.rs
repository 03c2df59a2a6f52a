//! Repeated events of a bus: classified correctly, reported once per series, and never displacing
//! other events. And a bus without replies, which does not know its devices' states.

use crate::bus_world;

use std::collections::VecDeque;

use bus_world::{Idle, MS, OPTIONS, VirtualClock, World, clock};
use onbeat_ethercat::event::{ANSWERS_LATE, Event, EventKind};
use onbeat_robot::bus::{Bus, BusCounts, InProcess, Wire};
use onbeat_rt::time::{Clock, Instant};
use onbeat_segment::{Fault, Nic, Segment};

/// Number of events that an image keeps.
const RING: usize = 1_023;

fn counted(events: &[Event], kind: EventKind) -> usize {
    events.iter().filter(|event| event.kind == kind).count()
}

fn codes(events: &[Event], kind: EventKind) -> Vec<u32> {
    events.iter().filter(|event| event.kind == kind).map(|event| event.code).collect()
}

/// Runs the robot during a fault; returns the events. No device may leave OP.
fn ten_seconds_of(fault: Fault, share: f64) -> (Vec<Event>, BusCounts) {
    let clock = clock();
    let mut world = World::humanoid(&clock);
    let before = world.bus.counts();
    world.events.clear();
    world.inject(fault, Some(10_000 * MS), share);
    world.cycles(10_000);

    assert_eq!(world.in_op(), 59, "no device left OP");
    world.cycles(100);
    assert!(world.bus.is_up() && world.bus.silent_ns().is_none(), "{:?}", world.events.last());
    let after = world.bus.counts();
    let counts = BusCounts {
        late: after.late - before.late,
        unknown: after.unknown - before.unknown,
        duplicate: after.duplicate - before.duplicate,
        ..after
    };

    (std::mem::take(&mut world.events), counts)
}

#[test]
fn replies_late_for_ten_seconds_give_some_twenty_events_and_unknown_states() {
    let clock = clock();
    let mut world = World::humanoid(&clock);
    world.events.clear();
    world.inject(Fault::Late { by_ns: MS }, Some(10_000 * MS), 1.0);
    world.cycles(1_200);

    assert!(world.bus.silent_ns().is_some_and(|ns| ns > 1_000 * MS), "{:?}", world.bus.silent_ns());
    assert!(!world.bus.is_up() && (0..59).all(|device| world.bus.al_status(device).is_none()));
    assert_eq!(world.cycle(&mut Idle).in_op, 0);
    world.cycles(8_900);
    assert_eq!((world.in_op(), world.bus.is_up(), world.bus.silent_ns()), (59, true, None));
    assert_eq!(codes(&world.events, EventKind::FrameLost)[..3], [1, 1_000, 2_000]);
    assert_eq!(codes(&world.events, EventKind::FrameLate)[..3], [1, 1_000, 2_000]);
    assert_eq!(codes(&world.events, EventKind::NoAnswer), [ANSWERS_LATE]);
    let back = codes(&world.events, EventKind::AnswerBack);

    assert!(matches!(back[..], [9_900..=10_100]), "{back:?}");
    assert!(world.events.len() < 40, "{} events", world.events.len());
}

#[test]
fn duplicate_frames_are_reported_and_cost_nothing() {
    let (events, counts) = ten_seconds_of(Fault::Duplicate, 1.0);
    assert!(counts.duplicate >= 9_900 && counts.late == 0 && counts.unknown == 0, "{counts:?}");
    assert_eq!(codes(&events, EventKind::FrameDuplicate)[..3], [1, 1_000, 2_000]);
    assert_eq!(events.len(), counted(&events, EventKind::FrameDuplicate), "{events:?}");
}

#[test]
fn a_second_copy_of_a_late_frame_is_a_duplicate_too() {
    let clock = clock();
    let mut world = World::humanoid(&clock);
    let before = world.bus.counts();
    world.inject(Fault::Late { by_ns: 3 * MS }, Some(100 * MS), 1.0);
    world.inject(Fault::Duplicate, Some(100 * MS), 1.0);
    world.cycles(120);
    let counts = world.bus.counts();
    let late = counts.late - before.late;
    let duplicate = counts.duplicate - before.duplicate;

    assert!(
        late >= 95 && duplicate >= 95 && counts.unknown == before.unknown,
        "{late} late, {duplicate} twice"
    );
}

#[test]
fn reordered_and_truncated_frames_leave_room_for_other_events() {
    for (fault, kind) in
        [(Fault::Reorder, EventKind::FrameLate), (Fault::Truncate, EventKind::FrameUnknown)]
    {
        let (events, _) = ten_seconds_of(fault, 0.5);
        assert!(counted(&events, kind) >= 1, "{fault:?}");
        assert!(events.len() < 150, "{fault:?}: {} events", events.len());
    }
}

#[test]
fn ten_minutes_of_a_bad_cable_do_not_displace_other_events() {
    let clock = clock();
    let text = "[types.t]\nkind = \"digital\"\n[[devices]]\ntype = \"t\"\nnames = [\"a\", \"b\"]\n";
    let mut world = World::new(text, &clock, OPTIONS);
    world.until_up(&mut Idle);
    world.events.clear();
    world.inject(Fault::Lose, None, 0.004);
    world.inject(Fault::CounterOff { device: None, by: 1 }, None, 1.0);

    // Each kind at most once per thousand cycles after its first.
    for _ in 0..600_000 {
        world.cycle(&mut Idle);
    }

    let worst = [EventKind::FrameLost, EventKind::WorkingCounterOff]
        .map(|kind| counted(&world.events, kind));
    assert!(worst.iter().all(|count| *count <= 700), "{worst:?}");
}

#[test]
fn a_repeated_emergency_is_a_series_and_another_one_is_reported_at_once() {
    let clock = clock();
    let text = "[types.j]\nkind = \"drive\"\n[[devices]]\ntype = \"j\"\nnames = [\"a\", \"b\"]\n";
    let mut world = World::new(text, &clock, OPTIONS);
    world.until_up(&mut Idle);
    world.events.clear();
    for code in std::iter::repeat_n(0x8611, 1_100).chain([0x7305]) {
        world.inject(Fault::Emergency { device: 1, code }, None, 1.0);
        world.cycles(10);
    }

    let emergencies = world.events.iter().filter(|event| event.kind == EventKind::Emergency);
    let reported: Vec<(u32, u16)> = emergencies.map(|event| (event.code, event.old)).collect();
    assert_eq!(reported, [(0x8611, 0), (0x8611, 998), (0x7305, 100)]);

    // Two in turn use up what their series may report, and a third one is reported all the same.
    world.events.clear();
    for code in std::iter::repeat_n([0x8611, 0x7305], 40).flatten().chain([0x2310, 0x8611, 0x8611])
    {
        world.inject(Fault::Emergency { device: 1, code }, None, 1.0);
        world.cycles(10);
    }
    world.bus.report_rest();
    world.cycles(1);

    let emergencies = world.events.iter().filter(|event| event.kind == EventKind::Emergency);
    let reported: Vec<(u32, u16)> = emergencies.map(|event| (event.code, event.old)).collect();
    let all: usize = reported.iter().map(|(_, before)| 1 + usize::from(*before)).sum();
    assert!(all == 83 && reported.len() < 40, "{reported:?}");
    assert!(reported.iter().any(|(code, _)| *code == 0x2310), "{reported:?}");
}

/// Another MainDevice on the same interface: after each frame of this bus it sends one of its own
/// to the same devices.
struct Shared<'c> {
    inner: InProcess<&'c VirtualClock>,
    frame: Option<Vec<u8>>,
    /// Frames of others.
    strange: VecDeque<Vec<u8>>,
}

impl Wire for Shared<'_> {
    fn send(&mut self, frame: &[u8]) {
        self.inner.send(frame);
        if let Some(theirs) = &self.frame {
            let now = self.inner.clock().now();
            self.inner.link_mut().send(Nic::First, theirs, now);
        }
    }

    fn receive(&mut self, buffer: &mut [u8], until: Instant) -> Option<usize> {
        if let Some(strange) = self.strange.pop_front() {
            buffer[..strange.len()].copy_from_slice(&strange);
            return Some(strange.len());
        }
        self.inner.receive(buffer, until)
    }

    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn rest(&mut self) {
        self.inner.rest();
    }
}

/// A read of all AL states, as SOEM would send it.
fn of_another() -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([
        0x01, 0x01, 0x05, 0x01, 0, 0, 0x88, 0xa4, 14, 0x10, 7, 3, 0, 0, 0x30, 0x01, 2, 0, 0, 0, 0,
        0, 0, 0,
    ]);
    frame.resize(60, 0);
    frame
}

struct Run<'c> {
    bus: Bus<Shared<'c>>,
    clock: &'c VirtualClock,
    at: Instant,
    events: Vec<Event>,
}

impl<'c> Run<'c> {
    /// The robot in OP, for longer than late replies of its bring-up can arrive.
    fn new(clock: &'c VirtualClock) -> Self {
        let mut world = World::humanoid(clock);
        world.cycles(1_000);
        let bus = world
            .bus
            .rewired(|inner| Ok::<_, ()>(Shared { inner, frame: None, strange: VecDeque::new() }));
        let at = Instant::from_ns((clock.now().as_ns() / MS + 1) * MS);
        let mut run = Self { bus: bus.unwrap(), clock, at, events: Vec::new() };
        run.cycles(10);
        run.events.clear();

        run
    }

    /// Runs cycles; returns how many received new inputs.
    fn cycles(&mut self, count: u64) -> u64 {
        let mut fresh = 0;
        for _ in 0..count {
            let _ = self.clock.sleep_until(self.at);
            fresh += u64::from(self.bus.cycle(self.at, MS, &mut Idle).fresh);
            self.at = self.at.plus_ns(MS);
            self.events.extend(std::iter::from_fn(|| self.bus.next_event()));
        }

        fresh
    }
}

#[test]
fn another_main_device_on_the_interface_is_named_and_its_frames_counted() {
    let clock = clock();
    let mut run = Run::new(&clock);
    run.bus.wire_mut().frame = Some(of_another());
    let before = run.bus.counts().sent;
    assert_eq!(run.cycles(3_000), 3_000, "the bus continues");
    let sent = run.bus.counts().sent - before;
    run.bus.wire_mut().frame = None;
    run.cycles(10);

    assert!((3_000..3_100).contains(&sent), "a frame per cycle, and reads of error counters");
    assert_eq!((run.bus.counts().foreign, run.bus.counts().unknown), (sent, 0));
    let reported = codes(&run.events, EventKind::ForeignFrames);
    assert_eq!(reported, [1, 1_000, 2_000, 3_000]);
    assert_eq!(run.events.len(), reported.len(), "{:?}", run.events);
    let sentence = run.events[1].sentence("");

    assert_eq!(
        sentence,
        "another MainDevice uses the same interface, 1000 of its frames so far; end one of the two"
    );
}

#[test]
fn frames_with_a_vlan_tag_and_other_unknown_frames_are_dropped_and_reported_once_per_series() {
    let clock = clock();
    let mut run = Run::new(&clock);
    let mut tagged = of_another();
    tagged.splice(12..12, [0x81, 0x00, 0x00, 0x05]);
    for strange in [tagged, of_another()[..20].to_vec(), vec![0; 14], vec![0xff; 1_514]] {
        for _ in 0..500 {
            run.bus.wire_mut().strange.push_back(strange.clone());
            assert_eq!(run.cycles(1), 1);
        }
    }

    assert_eq!(codes(&run.events, EventKind::FrameUnknown), [1, 1_000, 2_000]);
    assert_eq!(run.events.len(), 3, "{:?}", run.events);
}

/// A segment whose process is stopped: frames wait in its socket up to its capacity, and devices
/// receive nothing.
struct Stopped<'c> {
    inner: InProcess<&'c VirtualClock>,
    waiting: Option<Vec<Vec<u8>>>,
}

impl Wire for Stopped<'_> {
    fn send(&mut self, frame: &[u8]) {
        match &mut self.waiting {
            Some(waiting) if waiting.len() < 200 => waiting.push(frame.to_vec()),
            Some(_) => {}
            None => self.inner.send(frame),
        }
    }

    fn receive(&mut self, buffer: &mut [u8], until: Instant) -> Option<usize> {
        if self.waiting.is_some() { None } else { self.inner.receive(buffer, until) }
    }

    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn rest(&mut self) {
        if self.waiting.is_none() {
            self.inner.rest();
        }
    }
}

#[test]
fn a_segment_stopped_for_two_seconds_is_reported_and_recovered() {
    let clock = clock();
    let world = World::humanoid(&clock);
    let mut bus = world
        .bus
        .rewired(|inner| Ok::<_, ()>(Stopped { inner, waiting: Some(Vec::new()) }))
        .unwrap();
    let mut at = Instant::from_ns((clock.now().as_ns() / MS + 1) * MS);
    let mut events: Vec<Event> = Vec::new();
    let mut cycles = |bus: &mut Bus<Stopped<'_>>, count: u64, events: &mut Vec<Event>| {
        for _ in 0..count {
            let _ = clock.sleep_until(at);
            bus.cycle(at, MS, &mut Idle);
            at = at.plus_ns(MS);
            events.extend(std::iter::from_fn(|| bus.next_event()));
        }
    };

    cycles(&mut bus, 2_000, &mut events);
    assert!(bus.silent_ns().is_some_and(|ns| ns > 1_900 * MS) && !bus.is_up());
    assert_eq!(codes(&events, EventKind::NoAnswer), [0], "no reason is known");
    assert_eq!(
        events.len(),
        4,
        "lost at once, at the thousandth and two thousandth, and no answer: {events:?}"
    );
    let waiting = bus.wire_mut().waiting.take().unwrap();
    waiting.iter().for_each(|frame| bus.wire_mut().inner.send(frame));
    cycles(&mut bus, 2_000, &mut events);

    assert!(bus.is_up(), "{events:?}");
    assert_eq!(codes(&events, EventKind::AnswerBack).len(), 1);
    // Devices with outputs fell back to SAFEOP by their watchdogs; that is reported, and little
    // else.
    assert!(events.len() < 4 * 59 && events.len() < RING, "{} events", events.len());
}

#[test]
fn a_pipelined_round_trip_is_the_frames_own() {
    let clock = clock();
    let mut world = World::humanoid(&clock);
    let seen = world.cycles(10);
    // 59 devices and their cables take some tens of microseconds, the period is a thousand.
    assert!((10_000..200_000).contains(&seen.round_trip_ns), "{seen:?}");
}

#[test]
fn late_replies_to_ethercrab_do_not_count_as_another_main_device() {
    let clock = clock();
    let mut world = World::new(Segment::HUMANOID, &clock, OPTIONS);
    world.inject(Fault::Duplicate, Some(50 * MS), 1.0);
    world.until_up(&mut Idle);
    assert_eq!((world.count(EventKind::ForeignFrames), world.bus.counts().foreign), (0, 0));
}
