//! Search for a violation: whatever happens to cables, power and registers, no set-point reaches a
//! device other than the intended one.
//!
//! Each seed creates a segment and changes at random times, also during bring-up: devices are
//! exchanged, removed, added, switched off and on in another order, and another MainDevice writes
//! station addresses, FMMUs and states. The result is checked in the simulated devices, each
//! identified by a property that the bus cannot see. `ONBEAT_SEEDS` sets the number of seeds.

use crate::bus_world;
use crate::bus_world::tampering;

use std::sync::atomic::{AtomicU64, Ordering};

use bus_world::{MS, OPTIONS, VirtualClock, clock};
use onbeat_ethercat::event::{Event, EventKind};
use onbeat_ethercat::layout::Layout;
use onbeat_robot::bus::{Bus, BusError};
use onbeat_rt::time::{Clock, Instant};
use onbeat_segment::{Fault, Link};
use tampering::{Marking, SetPoints, Tampering, TamperingWire};

const SEEDS: u64 = 10_000;
const SEEDS_WITHOUT_EXCHANGE: u64 = 1_000;
const DRIVES: usize = 6;

/// How devices differ on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Distinction {
    /// Not at all.
    Nothing,
    Serials,
    Aliases,
    /// By two alternating types of drives only.
    Kinds,
}

/// Returns the text of the file, and of the segment with spare drives behind the first, the third
/// and the last.
fn texts(say: Distinction, has_fork: bool) -> (String, String) {
    let kinds = "[types.joint]\nkind = \"drive\"\nmailbox = 0\n[types.other]\nkind = \"drive\"\nmailbox = 0\nproduct = 0x2222\n\
        [types.fork]\nkind = \"coupler\"\nports = 4\n";
    let mut file = kinds.to_owned();
    let mut segment = kinds.to_owned();
    let mut add = |table: String, is_spare: bool| {
        segment += &table;
        if !is_spare {
            file += &table;
        }
    };

    if has_fork {
        add("[[devices]]\ntype = \"fork\"\nname = \"fork\"\nserial = 0\n".to_owned(), false);
    }

    for drive in 0..DRIVES {
        let number = |name: &str, first: usize| format!("{name} = {}\n", first + drive);
        let own = match say {
            Distinction::Serials => number("serial", 100),
            Distinction::Aliases => number("alias", 7) + "serial = 0\n",
            Distinction::Nothing | Distinction::Kinds => "serial = 0\n".to_owned(),
        };

        let kind = if say == Distinction::Kinds && drive % 2 == 1 { "other" } else { "joint" };
        let branch = if has_fork && drive == 3 { "after = \"fork\"\n" } else { "" };
        add(format!("[[devices]]\ntype = \"{kind}\"\nname = \"j{drive}\"\n{own}{branch}"), false);
        if matches!(drive, 0 | 2 | 5) {
            add(
                format!("[[devices]]\ntype = \"joint\"\nname = \"spare {drive}\"\nserial = 0\n"),
                true,
            );
        }
    }

    (file, segment)
}

/// A run on one segment.
struct Run {
    is_refused: bool,
    astray: Vec<(usize, usize)>,
    taken: u64,
    events: Vec<Event>,
    in_op: usize,
    devices: usize,
}

struct Plan {
    seed: u64,
    /// Changes begin during bring-up.
    is_early: bool,
    acts: Vec<(u64, Tampering)>,
    cycles: u64,
}

/// Common data of all seeds with the same kind of segment.
struct Sort {
    say: Distinction,
    layout: Layout,
    link: Link,
    /// A bus that has come up, at this time.
    up: (Bus<TamperingWire<'static>>, u64),
}

impl Sort {
    fn from_number(number: u64) -> Self {
        let (say, has_fork) = sort_of(number);
        let (file, text) = texts(say, has_fork);
        let layout = Layout::from_toml(&file).unwrap();
        let link = Link::from_toml(&text).unwrap();
        let clock: &'static VirtualClock = Box::leak(Box::new(clock()));
        let bus = bring_up(tampering(&link, &layout, clock), say, &layout)
            .expect("nothing is done to it");
        Self { say, layout, link, up: (bus, clock.now().as_ns()) }
    }
}

/// Creates a wire to this segment, whose spares are not on the cable.
fn tampering<'c>(link: &Link, layout: &Layout, clock: &'c VirtualClock) -> TamperingWire<'c> {
    let set_points = SetPoints::new(link.segment(), |name| layout.find(name));
    let mut tampering = TamperingWire::at(link.clone(), clock, set_points);
    for device in 0..link.segment().len() {
        if link.segment().status(device).unwrap().name.contains("spare") {
            tampering.do_now(&Tampering::Begin(Fault::Unplug { device }));
        }
    }

    tampering
}

fn bring_up<'c>(
    tampering: TamperingWire<'c>,
    say: Distinction,
    layout: &Layout,
) -> Result<Bus<TamperingWire<'c>>, BusError> {
    let mut bus = Bus::bring_up(tampering, Some(layout), OPTIONS, "the segment")?;
    if matches!(say, Distinction::Nothing | Distinction::Kinds) {
        bus.wire_mut().name_by_place();
    }
    Ok(bus)
}

/// Runs a bus through a plan, from its bring-up or from OP. `is_twin`: without the identity check.
fn run(sort: &Sort, plan: &Plan, is_twin: bool) -> Run {
    let clock = clock();
    let brought_up = if plan.is_early {
        clock.spend(plan.seed * 997);
        let mut tampering = tampering(&sort.link, &sort.layout, &clock);
        tampering.plan(clock.now().as_ns(), &plan.acts);
        bring_up(tampering, sort.say, &sort.layout)
    } else {
        clock.spend(sort.up.1 - clock.now().as_ns());
        let bus = sort.up.0.clone().rewired(|tampering| Ok::<_, BusError>(tampering.on(&clock)));
        bus.map(|mut bus| {
            bus.wire_mut().plan(sort.up.1, &plan.acts);
            bus
        })
    };

    let devices = sort.layout.devices.len();
    let mut bus = match brought_up {
        Ok(bus) => bus,
        Err(_) => {
            return Run {
                is_refused: true,
                astray: Vec::new(),
                taken: 0,
                events: Vec::new(),
                in_op: 0,
                devices,
            };
        }
    };

    if is_twin {
        bus = bus.without_identity_check();
    }

    let mut marking = Marking::new(&sort.layout);
    let mut events = Vec::new();
    let mut next = Instant::from_ns((clock.now().as_ns() / MS + 1) * MS);
    for _ in 0..plan.cycles {
        let _ = clock.sleep_until(next);
        bus.cycle(next, MS, &mut marking);
        events.extend(std::iter::from_fn(|| bus.next_event()));
        next = next.plus_ns(MS);
    }

    let segment = bus.wire().segment();
    let in_op =
        (0..segment.len()).filter(|&device| segment.status(device).unwrap().al_state == 8).count();
    let SetPoints { astray, taken, .. } = bus.wire().set_points.clone();
    Run { is_refused: false, astray, taken, events, in_op, devices }
}

/// Random choices for a segment.
struct Dice {
    random: fastrand::Rng,
    drives: Vec<usize>,
    spares: Vec<usize>,
}

impl Dice {
    fn new(seed: u64, has_fork: bool) -> Self {
        let first = usize::from(has_fork);
        let mut drives = Vec::new();
        let mut spares = Vec::new();
        let mut at = first;
        for drive in 0..DRIVES {
            drives.push(at);
            at += 1;
            if matches!(drive, 0 | 2 | 5) {
                spares.push(at);
                at += 1;
            }
        }

        Self { random: fastrand::Rng::with_seed(seed), drives, spares }
    }

    fn drive(&mut self) -> usize {
        self.drives[self.random.usize(..self.drives.len())]
    }

    fn two(&mut self) -> (usize, usize) {
        let one = self.random.usize(..DRIVES);
        let other = self.random.usize(1..DRIVES);
        (self.drives[one], self.drives[(one + other) % DRIVES])
    }

    fn ms(&mut self, most: u64) -> u64 {
        self.random.u64(0..most * MS)
    }

    /// Plans a change from `at` on, possibly reverted later.
    fn exchange(&mut self, at: u64, acts: &mut Vec<(u64, Tampering)>) {
        let (one, other) = self.two();
        let gone = self.ms(120);
        match self.random.u8(..9) {
            // Exchanged with power, and reverted.
            0 => {
                acts.push((at, Tampering::Begin(Fault::Swap { device: one, with: other })));
                if self.random.bool() {
                    acts.push((
                        at + gone,
                        Tampering::End(Fault::Swap { device: one, with: other }),
                    ));
                }
            }
            // Switched off, exchanged, and switched on one by one.
            1 => self.swap_without_power((one, other), at, acts),
            // Removed with or without power, and possibly put back.
            2 | 3 => {
                acts.push((at, Tampering::Begin(Fault::Unplug { device: one })));
                if self.random.bool() {
                    acts.push((at + self.ms(5), Tampering::Begin(Fault::PowerOff { device: one })));
                    acts.push((at + gone, Tampering::End(Fault::PowerOff { device: one })));
                }

                if self.random.u8(..4) > 0 {
                    acts.push((at + gone, Tampering::End(Fault::Unplug { device: one })));
                }
            }
            // Added.
            4 => {
                let spare = self.spares[self.random.usize(..self.spares.len())];
                if self.random.bool() {
                    acts.push((at, Tampering::Begin(Fault::Unplug { device: one })));
                    acts.push((at, Tampering::Begin(Fault::Swap { device: spare, with: other })));
                }

                acts.push((at + self.ms(3), Tampering::End(Fault::Unplug { device: spare })));
                if self.random.bool() {
                    acts.push((at + gone, Tampering::Begin(Fault::Unplug { device: spare })));
                    acts.push((
                        at + gone + self.ms(3),
                        Tampering::End(Fault::Unplug { device: one }),
                    ));
                }
            }
            5 => self.restart(at, acts),
            _ => self.foreign(at, acts),
        }
    }

    fn swap_without_power(
        &mut self,
        (one, other): (usize, usize),
        at: u64,
        acts: &mut Vec<(u64, Tampering)>,
    ) {
        acts.push((at, Tampering::Begin(Fault::PowerOff { device: one })));
        acts.push((at + self.ms(4), Tampering::Begin(Fault::PowerOff { device: other })));
        let exchanged = at + 4 * MS + self.ms(20);
        acts.push((exchanged, Tampering::Begin(Fault::Swap { device: one, with: other })));
        acts.push((exchanged + self.ms(60), Tampering::End(Fault::PowerOff { device: one })));
        acts.push((exchanged + self.ms(60), Tampering::End(Fault::PowerOff { device: other })));
    }

    /// All switched off, and on in another order.
    fn restart(&mut self, at: u64, acts: &mut Vec<(u64, Tampering)>) {
        let exchanged = at + 5 * MS + self.ms(150);
        let all = self.drives.clone();
        acts.extend(all.iter().map(|&device| (at, Tampering::Begin(Fault::PowerOff { device }))));
        for _ in 0..self.random.u8(1..4) {
            let (device, with) = self.two();
            acts.push((exchanged, Tampering::Begin(Fault::Swap { device, with })));
        }

        let most = if self.random.bool() { 1 } else { 50 };
        for device in all {
            acts.push((exchanged + self.ms(most), Tampering::End(Fault::PowerOff { device })));
        }
    }

    /// Another MainDevice for a while: the usual steps in order, possibly incomplete.
    fn foreign(&mut self, at: u64, acts: &mut Vec<(u64, Tampering)>) {
        let first = [0x1000, 0x1001, 0x0001, 0x03e9][self.random.usize(..4)];
        let stands = self.random.u8(..6);
        let many = self.random.u8(1..4);
        for round in 0..u64::from(many) {
            let at = at + round * 30 * MS;
            if stands != 1 {
                acts.push((at, Tampering::StateOfAll(1)));
                acts.push((at + self.ms(2), Tampering::ClearFmmus));
            }

            acts.push((at + 2 * MS + self.ms(2), Tampering::Stations(first)));
            if stands < 3 {
                continue;
            }

            for place in 0..7 {
                let bytes = 8;
                acts.push((
                    at + 5 * MS + self.ms(3),
                    Tampering::Fmmu(place, u32::from(place) * bytes, bytes as u16),
                ));
            }

            for state in [2, 4, 8] {
                let late = self.ms(3);
                acts.push((
                    at + 9 * MS + u64::from(state) * MS + late,
                    Tampering::StateOfAll(state),
                ));
            }
        }

        for _ in 0..self.random.u8(..4) {
            let place = self.random.u16(..7);
            let state = [1, 2, 4, 8][self.random.usize(..4)];
            acts.push((at + self.ms(100), Tampering::State(place, state)));
        }
    }

    /// Ordinary faults: they end, and all devices are back.
    fn ordinary(&mut self, at: u64, acts: &mut Vec<(u64, Tampering)>) {
        let device = self.drive();
        let gone = 1 + self.ms(80);
        match self.random.u8(..6) {
            0 | 1 => {
                acts.push((at, Tampering::Begin(Fault::PowerOff { device })));
                acts.push((at + gone, Tampering::End(Fault::PowerOff { device })));
            }
            2 => {
                acts.push((at, Tampering::Begin(Fault::Cut { device })));
                acts.push((at + gone, Tampering::End(Fault::Cut { device })));
            }
            3 => acts.push((at, Tampering::Begin(Fault::AlError { device, code: 0x001b }))),
            4 => acts.push((at, Tampering::Frames(Fault::Lose, gone, 0.3))),
            _ => acts.push((at, Tampering::Frames(Fault::Late { by_ns: 2 * MS }, gone, 0.3))),
        }
    }
}

const SAYS: [Distinction; 4] =
    [Distinction::Nothing, Distinction::Serials, Distinction::Aliases, Distinction::Kinds];
const SORTS: u64 = 8;

/// Alternates between the kinds of segment.
fn sort_of(number: u64) -> (Distinction, bool) {
    (SAYS[number as usize % SAYS.len()], number / SAYS.len() as u64 % 2 == 1)
}

fn with_exchanges(seed: u64) -> Plan {
    let mut dice = Dice::new(seed, sort_of(seed).1);
    let mut acts = Vec::new();
    // ethercrab's timeouts run in real time, so few seeds begin this early.
    let is_early = dice.random.u8(..64) == 0;
    for number in 0..dice.random.u64(1..4) {
        let at = if is_early && number == 0 { dice.ms(8) } else { 20 * MS + dice.ms(250) };
        dice.exchange(at, &mut acts);
        if dice.random.u8(..3) == 0 {
            let at = 20 * MS + dice.ms(250);
            dice.ordinary(at, &mut acts);
        }
    }

    let cycles = if dice.random.u8(..5) == 0 { 1_200 } else { 450 };
    Plan { seed, is_early, acts, cycles }
}

/// Ordinary faults only, one after the other.
fn without_exchanges(seed: u64) -> Plan {
    let mut dice = Dice::new(seed, sort_of(seed).1);
    let mut acts = Vec::new();
    for number in 0..3 {
        let at = 40 * MS + number * 250 * MS + dice.ms(20);
        dice.ordinary(at, &mut acts);
    }

    Plan { seed, is_early: false, acts, cycles: 1_000 }
}

/// Runs all seeds on as many threads as there are CPUs, and passes each run to `look`.
fn all<T: Send>(seeds: u64, look: impl Fn(&Sort, u64) -> Option<T> + Sync) -> Vec<T> {
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZeroUsize::get);
    std::thread::scope(|scope| {
        let one = || {
            let sorts: Vec<Sort> = (0..SORTS).map(Sort::from_number).collect();
            let mut found = Vec::new();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds {
                    return found;
                }
                found.extend(look(&sorts[(seed % SORTS) as usize], seed));
            }
        };

        let running: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    })
}

fn seeds(usual: u64) -> u64 {
    std::env::var("ONBEAT_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(usual)
}

#[test]
fn no_set_point_reaches_another_device() {
    let taken = AtomicU64::new(0);
    let refused = AtomicU64::new(0);
    let rejected = AtomicU64::new(0);
    let seeds = seeds(SEEDS);
    let astray = all(seeds, |sort, seed| {
        let run = run(sort, &with_exchanges(seed), false);
        taken.fetch_add(run.taken, Ordering::Relaxed);
        refused.fetch_add(u64::from(run.is_refused), Ordering::Relaxed);
        let is_rejection =
            |event: &Event| matches!(event.kind, EventKind::WrongDevice | EventKind::PlaceInDoubt);
        rejected.fetch_add(u64::from(run.events.iter().any(is_rejection)), Ordering::Relaxed);
        (!run.astray.is_empty()).then_some((seed, run.astray))
    });

    let [taken, refused, rejected] = [taken, refused, rejected].map(AtomicU64::into_inner);
    println!(
        "{seeds} seeds: {taken} set-points taken, {} seeds with one astray; a device was refused in {rejected}, the bus in {refused}",
        astray.len()
    );

    assert!(astray.is_empty(), "{:?}", &astray[..astray.len().min(8)]);
    assert!(
        taken > 100 * seeds && rejected > seeds / 10 && refused < seeds / 4,
        "there was something to see"
    );
}

#[test]
fn without_an_exchange_every_device_recovers_and_none_is_reported() {
    let alarmed = all(seeds(SEEDS_WITHOUT_EXCHANGE).min(SEEDS_WITHOUT_EXCHANGE), |sort, seed| {
        let run = run(sort, &without_exchanges(seed), false);
        let is_alarm = |event: &&Event| {
            matches!(
                event.kind,
                EventKind::WrongDevice | EventKind::PlaceInDoubt | EventKind::SurplusDevice
            )
        };
        let alarms: Vec<Event> = run.events.iter().filter(is_alarm).copied().collect();
        let is_well = run.in_op == run.devices && alarms.is_empty() && run.astray.is_empty();

        (!is_well).then_some((seed, run.in_op, alarms, run.astray))
    });
    assert!(alarmed.is_empty(), "{} seeds: {:?}", alarmed.len(), &alarmed[..alarmed.len().min(4)]);
}

#[test]
fn a_bus_without_the_identity_check_fails_the_search() {
    const FEW: u64 = 200;
    let astray = all(FEW, |sort, seed| {
        let run = run(sort, &with_exchanges(seed), true);
        (!run.astray.is_empty()).then_some(seed)
    });

    println!("{} of {FEW} seeds see a set-point astray", astray.len());
    assert!(astray.len() as u64 > FEW / 20, "{astray:?}");
}
