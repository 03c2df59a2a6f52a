//! A ring of cables between two interfaces: a cut costs no cycle and misdirects no set-point.

use crate::bus_world;

use bus_world::{MS, OPTIONS, VirtualClock, clock};
use onbeat_ethercat::event::{Event, EventKind};
use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::step::{BusCycle, Controller};
use onbeat_ethercat::wire::Wire;
use onbeat_robot::bus::{Bus, BusOptions, ExchangeMode, InProcess};
use onbeat_rt::time::{Clock, Instant};
use onbeat_segment::{Fault, Link};

/// Devices of the ring.
const DEVICES: usize = 6;

fn text() -> String {
    let names: Vec<String> = (0..DEVICES).map(|place| format!("\"io {place}\"")).collect();
    format!(
        "[segment]\nring = true\n[types.io]\nkind = \"digital\"\nmailbox = 128\n[[devices]]\ntype = \"io\"\nnames = [{}]\n",
        names.join(", ")
    )
}

/// Sends each device a byte that is its own: its position, and a count.
struct Own(u8);

impl Controller for Own {
    fn step(&mut self, _: &BusCycle, _: &[u8], outputs: &mut [u8]) {
        self.0 = self.0.wrapping_add(1) & 0x1f;
        for (place, output) in outputs.iter_mut().enumerate() {
            *output = (place as u8) << 5 | self.0;
        }
    }
}

struct Ring<'c> {
    bus: Bus<InProcess<&'c VirtualClock>>,
    clock: &'c VirtualClock,
    next: Instant,
    own: Own,
    events: Vec<Event>,
}

impl<'c> Ring<'c> {
    fn new(clock: &'c VirtualClock) -> Self {
        let mut ring = Self::in_mode(clock, OPTIONS.mode);
        ring.events.clear();
        ring
    }

    fn in_mode(clock: &'c VirtualClock, mode: ExchangeMode) -> Self {
        Self::prepared(clock, mode, |_, _| {})
    }

    /// A ring that is prepared in this way before it is brought up.
    fn after(clock: &'c VirtualClock, prepare: impl FnOnce(&mut Link, Instant)) -> Self {
        Self::prepared(clock, OPTIONS.mode, prepare)
    }

    fn prepared(
        clock: &'c VirtualClock,
        mode: ExchangeMode,
        prepare: impl FnOnce(&mut Link, Instant),
    ) -> Self {
        let mut link = Link::from_toml(&text()).unwrap();
        prepare(&mut link, clock.now());
        let wire = InProcess::on_virtual_clock(link, clock).on_ring();
        let layout = Layout::from_toml(&text()).unwrap();
        let options = BusOptions { mode, ..OPTIONS };
        let bus = Bus::bring_up(wire, Some(&layout), options, "the ring").expect("SAFEOP");
        let next = Instant::from_ns((clock.now().as_ns() / MS + 1) * MS);
        let mut ring = Self { bus, clock, next, own: Own(0), events: Vec::new() };
        for _ in 0..100 {
            ring.cycle();
        }
        assert!(ring.bus.is_up(), "{:?}", ring.events);
        ring
    }

    fn cycle(&mut self) -> BusCycle {
        let _ = self.clock.sleep_until(self.next);
        let cycle = self.bus.cycle(self.next, MS, &mut self.own);
        self.next = self.next.plus_ns(MS);
        self.events.extend(std::iter::from_fn(|| self.bus.next_event()));
        cycle
    }

    /// Returns the number of devices that received another device's set-point.
    fn misdirected(&self) -> usize {
        let segment = self.bus.wire().link().segment();
        let received = |device: usize| -> u8 {
            (1..=8)
                .map(|channel| segment.value(device, 0x7000, channel).unwrap()[0] << (channel - 1))
                .sum()
        };
        (0..DEVICES).filter(|device| usize::from(received(*device) >> 5) != *device).count()
    }

    fn cut(&mut self, device: usize, for_ns: u64) {
        let now = self.clock.now();
        self.bus.wire_mut().link_mut().inject(Fault::Cut { device }, now, Some(for_ns), 1.0);
    }
}

/// Number of cuts; `ONBEAT_CUTS` sets another.
fn cuts() -> u64 {
    std::env::var("ONBEAT_CUTS").ok().and_then(|cuts| cuts.parse().ok()).unwrap_or(10_000)
}

#[test]
fn cuts_at_random_moments_cost_no_cycle_and_misdirect_no_set_point() {
    let clock = clock();
    let mut ring = Ring::new(&clock);
    let mut random = fastrand::Rng::with_seed(45);
    let (mut lost, mut misdirected, mut cycles) = (0u64, 0usize, 0u64);
    for _ in 0..cuts() {
        // Somewhere within a cycle.
        let moment = ring.next.minus_ns(random.u64(0..MS));
        let _ = ring.clock.sleep_until(moment.max(ring.clock.now()));
        ring.cut(random.usize(0..DEVICES), random.u64(MS..6 * MS));
        for _ in 0..8 {
            let cycle = ring.cycle();
            cycles += 1;
            lost += u64::from(!cycle.fresh);
            misdirected += ring.misdirected();
        }
    }

    println!("{} cuts, {cycles} cycles: {lost} lost, {misdirected} set-points misdirected", cuts());
    assert_eq!((lost, misdirected), (0, 0), "{:?}", &ring.events[..ring.events.len().min(20)]);
    let count = |kind| ring.events.iter().filter(|event| event.kind == kind).count() as u64;
    assert!(count(EventKind::RingCut) >= cuts() * 9 / 10, "{}", count(EventKind::RingCut));
    assert!(ring.bus.is_up());
}

#[test]
fn a_cable_cut_or_mended_between_the_two_frames_costs_no_cycle() {
    for mode in [OPTIONS.mode, ExchangeMode::SameCycle { reply_within_ns: 400_000 }] {
        let clock = clock();
        let mut ring = Ring::in_mode(&clock, mode);
        let mut random = fastrand::Rng::with_seed(46);
        let (mut lost, mut misdirected) = (0u64, 0usize);
        for round in 0..cuts() / 10 {
            // Every second round mends what the one before has cut.
            let device = random.usize(0..DEVICES);
            let fault = (round % 2 == 0).then_some(Fault::Cut { device });
            ring.bus.wire_mut().tear_next(random.bool(), fault);
            for _ in 0..4 {
                lost += u64::from(!ring.cycle().fresh);
                misdirected += ring.misdirected();
            }
        }

        let counts = ring.bus.counts();
        assert_eq!(counts.lost, 0, "the frame in flight is not lost: {counts:?}");
        let repeated = ring.bus.wire().repeated();
        println!("{mode:?}: {repeated} frames sent again");
        assert_eq!((lost, misdirected), (0, 0), "{:?}", &ring.events[..ring.events.len().min(20)]);
        assert!(repeated > cuts() / 100, "{repeated}: the moment between them was never hit");
        assert!(ring.bus.is_up());
    }
}

#[test]
fn a_ring_that_is_cut_from_the_beginning_comes_up_and_is_reported() {
    for device in 0..DEVICES {
        let clock = clock();
        let mut ring = Ring::after(&clock, |link, now| {
            link.inject(Fault::Cut { device }, now, None, 1.0);
        });
        let sentences: Vec<String> = ring.events.iter().map(|event| event.sentence("")).collect();
        let cut = ring.events.iter().find(|event| event.kind == EventKind::RingCut);
        let cut = cut.unwrap_or_else(|| panic!("{device}: {sentences:?}"));
        assert_eq!(usize::from(cut.new), device, "{sentences:?}");
        assert_eq!(ring.misdirected(), 0);

        let now = ring.clock.now();
        ring.bus.wire_mut().link_mut().heal(now);
        ring.events.clear();
        (0..50).for_each(|_| assert!(ring.cycle().fresh));
        assert_eq!(ring.misdirected(), 0);
        assert!(ring.events.iter().any(|event| event.kind == EventKind::RingClosed));
        assert!(ring.bus.is_up());
    }
}

#[test]
fn a_cut_is_reported_with_its_place_and_so_is_its_end() {
    let clock = clock();
    let mut ring = Ring::new(&clock);
    for device in 0..DEVICES {
        ring.events.clear();
        ring.cut(device, 20 * MS);
        (0..50).for_each(|_| assert!(ring.cycle().fresh));
        let sentences: Vec<String> = ring.events.iter().map(|event| event.sentence("")).collect();
        println!("{sentences:?}");
        let kinds: Vec<EventKind> = ring.events.iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [EventKind::RingCut, EventKind::RingClosed], "{sentences:?}");
        assert_eq!(usize::from(ring.events[0].new), device);
    }
}
