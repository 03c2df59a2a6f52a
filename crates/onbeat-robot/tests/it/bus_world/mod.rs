//! A bus on the simulated segment, in one process, on a virtual clock.
#![allow(dead_code, unreachable_pub, missing_docs, clippy::unwrap_used, clippy::expect_used)]

pub mod tampering;

use onbeat_ethercat::event::{Event, EventKind};
use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::step::{BusCycle, Controller};
use onbeat_robot::bus::{Bus, BusOptions, ExchangeMode, InProcess, Wire};
use onbeat_rt::frame::{Command, LONGEST, Writer, is_reply_to, position, register};
use onbeat_rt::time::{Clock, Instant, MockClock};
use onbeat_segment::{Description, Fault, Link, Segment};

pub const MS: u64 = 1_000_000;

pub type VirtualClock = MockClock<fn(Instant) -> u64>;

pub fn clock() -> VirtualClock {
    MockClock::starting_at(Instant::from_ns(1_000 * MS), |_| 0)
}

/// Leaves the outputs unchanged.
pub struct Idle;

impl Controller for Idle {
    fn step(&mut self, _: &BusCycle, _: &[u8], _: &mut [u8]) {}
}

pub const OPTIONS: BusOptions =
    BusOptions { mode: ExchangeMode::Pipelined, period_ns: MS, follow_clock: false };

/// Two joints, for exact expectations.
pub const TWO: &str = include_str!("../../two_joints.toml");

/// The same, where a fault of a drive stops the robot; `fault` is a table of the segment's faults.
pub fn two_that_stop(fault: &str) -> String {
    let stops = TWO.replace("[robot]\n", "[robot]\non_fault = \"robot\"\n");
    format!("{stops}[[faults]]\n{fault}\n")
}

/// Counts the frames that are sent.
pub struct Counted<W> {
    pub wire: W,
    pub frames: u64,
}

impl<W: Wire> Wire for Counted<W> {
    fn send(&mut self, frame: &[u8]) {
        self.frames += 1;
        self.wire.send(frame);
    }

    fn receive(&mut self, buffer: &mut [u8], until: Instant) -> Option<usize> {
        self.wire.receive(buffer, until)
    }

    fn now(&self) -> Instant {
        self.wire.now()
    }

    fn rest(&mut self) {
        self.wire.rest();
    }
}

pub struct World<'c> {
    pub bus: Bus<InProcess<&'c VirtualClock>>,
    clock: &'c VirtualClock,
    next: Instant,
    pub events: Vec<Event>,
}

impl<'c> World<'c> {
    pub fn new(text: &str, clock: &'c VirtualClock, options: BusOptions) -> Self {
        Self::described(&Description::from_toml(text).unwrap(), clock, options)
    }

    /// The same for a description that needs other files.
    pub fn described(
        description: &Description,
        clock: &'c VirtualClock,
        options: BusOptions,
    ) -> Self {
        let layout = Layout::from_description(description).unwrap();
        let link = Link::from_description(description).unwrap();
        let wire = InProcess::on_virtual_clock(link, clock);
        let bus =
            Bus::bring_up(wire, Some(&layout), options, "the segment").expect("devices in SAFEOP");
        let next = Instant::from_ns((clock.now().as_ns() / MS + 1) * MS);
        Self { bus, clock, next, events: Vec::new() }
    }

    /// The humanoid, with all devices in OP.
    pub fn humanoid(clock: &'c VirtualClock) -> Self {
        let mut world = Self::new(Segment::HUMANOID, clock, OPTIONS);
        world.until_up(&mut Idle);
        world
    }

    pub fn cycle(&mut self, controller: &mut impl Controller) -> BusCycle {
        let _ = self.clock.sleep_until(self.next);
        let cycle = self.bus.cycle(self.next, MS, controller);
        self.next = self.next.plus_ns(MS).plus_ns(0);
        self.next =
            Instant::from_ns(self.next.as_ns().saturating_add_signed(self.bus.steering_ns()));
        self.events.extend(std::iter::from_fn(|| self.bus.next_event()));
        cycle
    }

    pub fn cycles(&mut self, count: u64) -> BusCycle {
        let mut last = BusCycle::default();
        for _ in 0..count {
            last = self.cycle(&mut Idle);
        }
        last
    }

    pub fn until_up(&mut self, controller: &mut impl Controller) {
        for _ in 0..200 {
            self.cycle(controller);
            if self.bus.is_up() {
                self.cycles(6);
                return;
            }
        }
        panic!("not up: {:?}", self.events);
    }

    /// Runs cycles until all devices are in OP, after some were not.
    pub fn until_up_again(&mut self) {
        for _ in 0..2_000 {
            self.cycle(&mut Idle);
            if self.bus.is_up() {
                self.cycles(6);
                return;
            }
        }
        panic!("not up again: {:?}", self.events);
    }

    /// Sends nothing for a time, as between the blocks of a bench.
    pub fn pause(&mut self, ns: u64) {
        let until = self.clock.now().plus_ns(ns);
        let _ = self.clock.sleep_until(until);
        self.bus.wire_mut().link_mut().advance(until);
        self.next = Instant::from_ns((until.as_ns() / MS + 1) * MS);
    }

    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    pub fn device(&self, name: &str) -> usize {
        self.bus.layout().find(name).expect("a device of this name")
    }

    pub fn inject(&mut self, fault: Fault, for_ns: Option<u64>, share: f64) {
        let now = self.clock.now();
        self.bus.wire_mut().link_mut().inject(fault, now, for_ns, share);
    }

    pub fn segment(&self) -> &Segment {
        self.bus.wire().link().segment()
    }

    /// Reads registers of a device by position, with a frame of its own. No other frame may be in
    /// flight.
    pub fn registers(&mut self, device: usize, at: u16, length: usize) -> Vec<u8> {
        let mut frame = [0; LONGEST];
        let mut writer = Writer::new(&mut frame, 0x7f);
        let data =
            writer.push(Command::Aprd, register(position(device as u16), at), length).unwrap();
        let sent = writer.finish();
        let wire = self.bus.wire_mut();
        wire.send(&frame[..sent]);
        let mut reply = [0; LONGEST];
        let until = wire.now().plus_ns(MS / 4);

        while let Some(received) = wire.receive(&mut reply, until) {
            if is_reply_to(&reply[..received], &frame[..sent]) {
                return reply[data..data + length].to_vec();
            }
        }

        panic!("no reply");
    }

    /// Returns the number of devices that report OP.
    pub fn in_op(&self) -> usize {
        let segment = self.segment();
        (0..segment.len())
            .filter(|&device| segment.status(device).is_some_and(|status| status.al_state == 8))
            .count()
    }

    pub fn kinds(&self) -> Vec<EventKind> {
        self.events.iter().map(|event| event.kind).collect()
    }

    pub fn count(&self, kind: EventKind) -> usize {
        self.events.iter().filter(|event| event.kind == kind).count()
    }
}
