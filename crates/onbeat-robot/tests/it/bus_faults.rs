//! All faults of a segment, each with twenty seeds, on a virtual clock.
//!
//! For each fault three things must hold. The event that reports it comes within five cycles of its
//! begin. From two cycles after its end every frame is answered, and the working counter is
//! complete after the time that recovery takes. No device leaves OP except those concerned. Moved
//! devices are tested elsewhere.

use crate::bus_world;

use std::collections::BTreeSet;

use bus_world::{MS, OPTIONS, VirtualClock, World, clock};
use onbeat_ethercat::event::{Event, EventKind};
use onbeat_ethercat::step::{BusCycle, Controller};
use onbeat_rt::time::Clock;
use onbeat_segment::{Fault, Segment};

const SEEDS: u64 = 20;

/// Sends the drives another position in each cycle, as a controller in motion does.
#[derive(Clone)]
struct Moving {
    targets: Vec<usize>,
    position: i32,
}

impl Controller for Moving {
    fn step(&mut self, _: &BusCycle, _: &[u8], outputs: &mut [u8]) {
        self.position += 1;
        for &at in &self.targets {
            outputs[at..at + 4].copy_from_slice(&self.position.to_le_bytes());
        }
    }
}

/// The event that reports a fault.
#[derive(Clone, Copy)]
enum ExpectedEvent {
    /// One of these, of no particular device.
    Bus(&'static [EventKind]),
    /// This one, of the device.
    Device(EventKind),
    /// None: cyclic data are not concerned.
    Nothing,
    /// Undetermined: depends on chance.
    Anything,
}

struct Case {
    name: &'static str,
    faults: Vec<Fault>,
    share: f64,
    for_ms: u64,
    event: ExpectedEvent,
    /// Names of devices that may leave OP.
    concerned: Vec<String>,
    /// Number of cycles until the working counter is complete again.
    whole_after: u64,
}

impl Case {
    fn new(name: &'static str, fault: Fault) -> Self {
        let event = ExpectedEvent::Nothing;
        Self {
            name,
            faults: vec![fault],
            share: 1.0,
            for_ms: 20,
            event,
            concerned: vec![],
            whole_after: 2,
        }
    }

    fn reported_by(mut self, event: ExpectedEvent) -> Self {
        self.event = event;
        self
    }

    fn with(mut self, share: f64, for_ms: u64) -> Self {
        (self.share, self.for_ms) = (share, for_ms);
        self
    }

    fn concerning(mut self, concerned: &[&str], whole_after: u64) -> Self {
        (self.concerned, self.whole_after) =
            (concerned.iter().map(|&name| name.to_owned()).collect(), whole_after);
        self
    }

    fn and(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }
}

fn of_frames() -> Vec<Case> {
    use EventKind::{FrameDuplicate, FrameLate, FrameLost, FrameUnknown, WorkingCounterOff};
    const LOST: ExpectedEvent = ExpectedEvent::Bus(&[FrameLost]);
    vec![
        Case::new("every frame lost", Fault::Lose).reported_by(LOST),
        Case::new("a frame in five lost", Fault::Lose)
            .reported_by(ExpectedEvent::Anything)
            .with(0.2, 60),
        Case::new("frames half a cycle late", Fault::Late { by_ns: MS / 2 }),
        Case::new("frames two cycles late", Fault::Late { by_ns: 2 * MS })
            .reported_by(ExpectedEvent::Bus(&[FrameLost, FrameLate])),
        Case::new("frames sixty cycles late", Fault::Late { by_ns: 60 * MS })
            .reported_by(LOST)
            .with(1.0, 10),
        Case::new("frames twice", Fault::Duplicate)
            .reported_by(ExpectedEvent::Bus(&[FrameDuplicate])),
        Case::new("frames behind the next", Fault::Reorder)
            .reported_by(ExpectedEvent::Bus(&[FrameLost, FrameLate])),
        Case::new("frames without their ends", Fault::Truncate)
            .reported_by(ExpectedEvent::Bus(&[FrameLost, FrameUnknown])),
        Case::new("a bit turned around in each frame", Fault::Flip)
            .reported_by(ExpectedEvent::Anything)
            .with(1.0, 60),
        Case::new("counters one too high", Fault::CounterOff { device: None, by: 1 })
            .reported_by(ExpectedEvent::Bus(&[WorkingCounterOff])),
        Case::new("counters two too low", Fault::CounterOff { device: None, by: -2 })
            .reported_by(ExpectedEvent::Bus(&[WorkingCounterOff])),
    ]
}

/// Selects a device by the seed.
fn one_of<'n>(names: &[&'n str], seed: u64) -> &'n str {
    names[seed as usize % names.len()]
}

/// Devices of the humanoid that a case selects from.
const DRIVES: [&str; 5] = ["left elbow", "right knee", "waist yaw", "jaw", "right ring finger"];
const IOS: [&str; 4] = ["left hand", "right hand", "left foot", "chest"];

/// Faults of cables, power and AL states.
fn of_devices(seed: u64, device: impl Fn(&str) -> usize) -> Vec<Case> {
    use EventKind::{DeviceLost, StateChanged, WorkingCounterOff};

    let drive_name = one_of(&DRIVES, seed);
    let io_name = one_of(&IOS, seed);
    let drive = device(drive_name);
    let io = device(io_name);
    vec![
        Case::new("a counter off by one device", Fault::CounterOff { device: Some(io), by: 1 })
            .reported_by(ExpectedEvent::Bus(&[WorkingCounterOff])),
        Case::new("a cable cut", Fault::Cut { device: device("left toe") })
            .reported_by(ExpectedEvent::Device(DeviceLost))
            .concerning(&["left toe", "left foot"], 30),
        Case::new("a cable cut for long", Fault::Cut { device: device("neck yaw") })
            .with(1.0, 300)
            .reported_by(ExpectedEvent::Device(DeviceLost))
            .concerning(
                &["neck yaw", "neck pitch", "neck roll", "eyes pan", "eyes tilt", "jaw", "brow"],
                30,
            ),
        Case::new("a device without power", Fault::PowerOff { device: device("brow") })
            .reported_by(ExpectedEvent::Device(DeviceLost))
            .concerning(&["brow"], 60),
        Case::new(
            "a device without power, and those behind it cut off",
            Fault::PowerOff { device: device("right toe") },
        )
        .reported_by(ExpectedEvent::Device(DeviceLost))
        .concerning(&["right toe", "right foot", "right foot imu"], 60),
        Case::new("an AL error", Fault::AlError { device: drive, code: 0x0050 })
            .reported_by(ExpectedEvent::Device(StateChanged))
            .concerning(&[drive_name], 30),
        Case::new("a watchdog's AL error", Fault::AlError { device: io, code: 0x001b })
            .reported_by(ExpectedEvent::Device(StateChanged))
            .concerning(&[io_name], 30),
        Case::new(
            "an AL error, and OP refused",
            Fault::RefuseState { device: drive, state: 8, code: 0x0032 },
        )
        .and(Fault::AlError { device: drive, code: 0x0032 })
        .reported_by(ExpectedEvent::Device(StateChanged))
        .concerning(&[drive_name], 600),
        Case::new(
            "an AL error, and slow changes of state",
            Fault::SlowState { device: drive, by_ns: 30 * MS },
        )
        .and(Fault::AlError { device: drive, code: 0x0001 })
        .reported_by(ExpectedEvent::Device(StateChanged))
        .concerning(&[drive_name], 120),
    ]
}

/// Faults behind the controller: EEPROM, mailbox, clock, model.
fn of_firmware(seed: u64, device: impl Fn(&str) -> usize) -> Vec<Case> {
    use EventKind::{ClockUnlocked, DeviceLost, Emergency, Frozen};
    const TOE: [&str; 2] = ["right toe", "right foot"];

    let drive = device(one_of(&DRIVES, seed));
    let io = device(one_of(&IOS, seed));
    vec![
        Case::new("an EEPROM that stays busy", Fault::SiiBusy { device: drive }),
        Case::new(
            "no power, and then a busy EEPROM",
            Fault::SiiBusy { device: device("right toe") },
        )
        .and(Fault::PowerOff { device: device("right toe") })
        .reported_by(ExpectedEvent::Device(DeviceLost))
        .concerning(&TOE, 700),
        Case::new("an EEPROM with a wrong checksum", Fault::SiiChecksum { device: drive }),
        Case::new("an EEPROM that reads blank", Fault::SiiBlank { device: drive }),
        Case::new("a mute mailbox", Fault::MailMute { device: drive }),
        Case::new("lost mails", Fault::MailLost { device: drive, mails: 3 }),
        Case::new("mails with a wrong counter", Fault::MailCounter { device: drive, mails: 3 }),
        Case::new("an aborted SDO", Fault::MailAbort { device: drive, code: 0x0800_0000 }),
        Case::new("an emergency", Fault::Emergency { device: drive, code: 0x7305 })
            .reported_by(ExpectedEvent::Device(Emergency)),
        Case::new("a clock that jumps", Fault::ClockStep { device: drive, by_ns: 400_000 })
            .reported_by(ExpectedEvent::Device(ClockUnlocked)),
        Case::new("a clock that runs away", Fault::ClockDrift { device: io, by_ppb: 20_000 }),
        Case::new("a frozen sensor", Fault::Freeze { device: device("head imu") })
            .reported_by(ExpectedEvent::Device(Frozen)),
    ]
}

/// Runs a case; all devices are in OP before and after it.
struct Run<'w, 'c> {
    world: &'w mut World<'c>,
    moving: Moving,
    concerned: BTreeSet<usize>,
    out_of_op: BTreeSet<usize>,
}

impl Run<'_, '_> {
    fn cycle(&mut self) -> BusCycle {
        let cycle = self.world.cycle(&mut self.moving);
        let segment = self.world.segment();
        let fell = (0..segment.len()).filter(|&place| segment.status(place).unwrap().al_state != 8);
        self.out_of_op.extend(fell);
        cycle
    }

    fn go(&mut self, case: &Case) -> Result<(), String> {
        self.world.events.clear();
        let began = self.world.bus.counts().cycles;
        for fault in case.faults.iter().rev() {
            self.world.inject(*fault, Some(case.for_ms * MS), case.share);
        }

        for _ in 0..case.for_ms {
            self.cycle();
        }

        // Frames in flight when the fault ends are still affected.
        self.cycle();
        self.cycle();
        let mut whole = None;
        for cycle in 0..=case.whole_after {
            let seen = self.cycle();
            let answered = self.world.bus.counts();
            if seen.round_trip_ns == 0 && !matches!(case.faults[0], Fault::Late { .. }) {
                return Err(format!("cycle {cycle} after the fault: no frame; {answered:?}"));
            }
            whole = whole.or(seen.fresh.then_some(cycle));
        }

        let is_displaced = |event: &&Event| {
            matches!(
                event.kind,
                EventKind::WrongDevice | EventKind::PlaceInDoubt | EventKind::SurplusDevice
            )
        };
        if let Some(event) = self.world.events.iter().find(is_displaced) {
            return Err(format!("no device is in another place: {event:?}"));
        }

        let report = check_report(case, began, &self.world.events);
        let healthy: Vec<&usize> = self.out_of_op.difference(&self.concerned).collect();
        match (report, whole, &healthy[..]) {
            (Err(why), _, _) => Err(why),
            (_, None, _) => Err(format!(
                "not whole {} cycles after the fault: {:?}",
                case.whole_after, self.world.events
            )),
            (_, _, [_, ..]) => {
                Err(format!("healthy devices left OP: {healthy:?}; {:?}", self.world.events))
            }
            (Ok(()), Some(_), []) => Ok(()),
        }
    }
}

fn check_report(case: &Case, began: u64, events: &[Event]) -> Result<(), String> {
    let soon = || events.iter().filter(|event| event.cycle <= began + 5);
    let right = match case.event {
        ExpectedEvent::Bus(kinds) => soon().any(|event| kinds.contains(&event.kind)),
        ExpectedEvent::Device(kind) => soon()
            .any(|event| event.kind == kind && event.device != onbeat_ethercat::event::NO_DEVICE),
        ExpectedEvent::Nothing => events.is_empty(),
        ExpectedEvent::Anything => true,
    };

    right
        .then_some(())
        .ok_or_else(|| format!("the event did not come within five cycles of {began}: {events:?}"))
}

fn every_case(seed: u64, clock: &VirtualClock) -> (usize, Vec<String>) {
    let text = Segment::HUMANOID.replace("seed = 59", &format!("seed = {seed}"));
    let mut world = World::new(&text, clock, OPTIONS);
    let targets = world
        .bus
        .layout()
        .devices
        .iter()
        .filter_map(|device| device.output_at(0x607a, 0))
        .collect();
    let mut moving = Moving { targets, position: 0 };
    world.until_up(&mut moving);
    let mut failed = Vec::new();
    let mut cases = of_frames();
    cases.extend(of_devices(seed, |name| world.device(name)));
    cases.extend(of_firmware(seed, |name| world.device(name)));

    for case in &cases {
        for _ in 0..120 {
            world.cycle(&mut moving);
        }

        let concerned = case.concerned.iter().map(|name| world.device(name)).collect();
        // Different seeds start at different points of a cycle.
        let _ = clock.sleep_until(clock.now().plus_ns(seed * 45_000));
        let mut run = Run {
            world: &mut world,
            moving: moving.clone(),
            concerned,
            out_of_op: BTreeSet::new(),
        };
        let outcome = run.go(case);
        moving = run.moving;
        failed.extend(outcome.err().map(|why| format!("{} (seed {seed}): {why}", case.name)));

        for _ in 0..2_000 {
            if world.cycle(&mut moving).fresh && world.in_op() == 59 {
                break;
            }
        }
    }

    (cases.len(), failed)
}

#[test]
fn every_fault_is_reported_and_recovered_with_every_seed() {
    let halves = std::thread::scope(|scope| {
        let half = |first: u64| {
            scope.spawn(move || {
                (first..SEEDS)
                    .step_by(2)
                    .map(|seed| every_case(seed + 1, &clock()))
                    .collect::<Vec<_>>()
            })
        };
        let both = [half(0), half(1)];
        both.map(|half| half.join().expect("no panic")).concat()
    });

    let cases = halves[0].0;
    let failed: Vec<&String> = halves.iter().flat_map(|(_, failed)| failed).collect();
    println!(
        "{cases} faults with {SEEDS} seeds each: {} of {} runs failed",
        failed.len(),
        cases as u64 * SEEDS
    );
    assert!(cases >= 25);
    assert!(failed.is_empty(), "{:#?}", &failed[..failed.len().min(12)]);
}
