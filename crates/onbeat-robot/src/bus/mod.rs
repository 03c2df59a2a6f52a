//! The MainDevice: brings the devices of a segment to OP and exchanges process data with them, cycle by cycle.
//!
//! ```text
//! bring_up ── ethercrab, frames by pump ──▶ devices in SAFEOP, and what each was told (memory)
//!     └ prepare: what the file wants in PREOP   │
//! Bus::cycle ── exchange: one frame ────────────┤  inputs, working counter, states, clock
//!                └ watch: a frame beside it ────┘  only when something is wrong: who, and the way back (recovery)
//! ```
//!
//! ethercrab finds and configures; everything from the first cycle on is here, synchronous and without asking for memory, so that a loop
//! may call it ([`Bus::cycle`]). It goes by the wire's clock only: on a virtual one, a run repeats itself to the byte.
//!
//! Absent on purpose: a second network interface (cable redundancy), splitting devices into groups of different periods, and mailbox
//! protocols other than CoE.

mod bring_up;
mod clock;
mod device;
mod down;
mod eeproms;
mod error;
mod exchange;
mod frozen;
mod memory;
mod notes;
mod nuisance;
mod numbers;
mod prepare;
mod pulses;
mod pump;
mod questions;
mod quiet;
mod recovery;
mod roll;
mod scan;
mod sdo;
mod silence;
mod visit;
mod watch;

pub use error::BusError;
pub use onbeat_ethercat::wire::{Packets, Wire};
pub use onbeat_segment::InProcess;
pub use scan::{Beside, Identity, Scanned, scan};
pub use sdo::Transfer;

use onbeat_rt::frame::LONGEST;
use onbeat_rt::time::Instant;

use self::bring_up::{BroughtUp, Found};
use self::clock::{Lock, Step};
use self::exchange::{Answer, Exchange, Taken};
use self::frozen::Frozen;
use self::notes::{Notes, Queue};
use self::nuisance::Nuisance;
use self::silence::{Change, Silence};
use self::watch::Watch;
use onbeat_ethercat::carrier::CarrierError;
use onbeat_ethercat::event::{Event, EventKind, NO_DEVICE};
use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::step::{BusCycle, Controller};

/// Most devices of one bus: what ethercrab's tables are made for.
pub const MOST_DEVICES: usize = 256;
/// A bus that does not come up is begun anew so often.
const MOST_RESTARTS: usize = 2;
/// Late frames of the library that configures devices still arrive in this number of cycles; they are not another MainDevice's.
const LIBRARY_CYCLES: u64 = 100;
/// Number of cycles for which answers count as late after one was.
const LATE_FOR: u64 = 10;

/// When replies are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A cycle reads the reply of the frame before, sends the next one at once, and then computes: the instant of sending does not
    /// depend on the controller. An input reaches an output two cycles later.
    Pipelined,
    /// A cycle sends, waits for its own reply, and then computes: one cycle sooner, at the price of the wait.
    SameCycle {
        /// How long after its sending a reply is waited for, in ns.
        reply_within_ns: u64,
    },
}

/// How a bus runs.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// When replies are read.
    pub mode: Mode,
    /// Period of the cycles in ns.
    pub period_ns: u64,
    /// Whether releases follow the reference clock of the segment, where there is one.
    pub follow_clock: bool,
}

/// What was counted since the bus is up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cycles.
    pub cycles: u64,
    /// Cycles in which every frame came back in time.
    pub answered: u64,
    /// Cycles with a working counter that was not the expected one.
    pub counter_off: u64,
    /// Frames sent.
    pub sent: u64,
    /// Frames that came back after their time.
    pub late: u64,
    /// Frames that came back and were not sent, or damaged.
    pub unknown: u64,
    /// Frames that came back once more.
    pub duplicate: u64,
    /// Frames of another MainDevice.
    pub foreign: u64,
    /// Events for which there was no room.
    pub events_lost: u64,
}

impl Counts {
    /// Frames that were not what a cycle waits for, but for those that were late.
    #[must_use]
    pub const fn strange(&self) -> u64 {
        self.unknown + self.duplicate + self.foreign
    }
}

/// A segment whose devices exchange process data.
#[derive(Clone, Debug)]
pub struct Bus<W> {
    wire: W,
    layout: Layout,
    options: Options,
    exchange: Exchange,
    watch: Watch,
    lock: Option<Lock>,
    steer_ns: i64,
    frozen: Frozen,
    inputs: Vec<u8>,
    outputs: Vec<u8>,
    buffer: Box<[u8; LONGEST + 1]>,
    events: Queue,
    counts: Counts,
    nuisances: Nuisances,
    silence: Silence,
    /// Cycles in a row with a wrong working counter, and whether their first was reported.
    off: u32,
    off_reported: bool,
    release: Instant,
    bring_up_frames: u64,
}

/// What may happen in each cycle, and is reported now and then.
#[derive(Clone, Copy, Debug, Default)]
struct Nuisances {
    lost: Nuisance,
    late: Nuisance,
    unknown: Nuisance,
    duplicate: Nuisance,
    foreign: Nuisance,
    off: Nuisance,
}

/// Brings devices up, from the beginning again when the library that does it fails or breaks down; each time is two events.
fn bring_up_again<W: Wire>(
    wire: &mut W,
    expected: Option<&Layout>,
    period_ns: u64,
    on: &str,
) -> Result<BroughtUp, BusError> {
    let mut told = Vec::new();
    loop {
        match bring_up::bring_up(wire, expected, period_ns, on) {
            Ok(up) => return Ok(BroughtUp { events: told.into_iter().chain(up.events).collect(), ..up }),
            Err(BusError::Library { .. } | BusError::Panicked(_) | BusError::NoAnswer(_) | BusError::Moved { .. })
                if told.len() / 2 < MOST_RESTARTS =>
            {
                let event = |kind, code| Event {
                    at_ns: wire.now().as_ns(),
                    cycle: 0,
                    kind,
                    device: NO_DEVICE,
                    old: 0,
                    new: 0,
                    code,
                };

                let restarts = told.len() as u32 / 2 + 1;
                told.extend([event(EventKind::LibraryFailed, 0), event(EventKind::BusRestarted, restarts)]);
            }
            Err(why) => return Err(named(why, wire, on)),
        }
    }
}

/// The same, or what is wrong with the interface, when no answer came for that reason.
fn named<W: Wire>(why: BusError, wire: &W, on: &str) -> BusError {
    match (&why, wire.trouble()) {
        (BusError::NoDevices(_) | BusError::NoAnswer(_), Some(trouble)) => {
            CarrierError::Trouble { name: on.to_owned(), trouble }.into()
        }
        _ => why,
    }
}

impl<W: Wire> Bus<W> {
    /// Brings the devices to SAFEOP. The cycles that follow bring them to OP, which the event [`EventKind::BusUp`] tells.
    ///
    /// With `expected`, other devices than these are refused before any of them is enabled. `on` names the wire in messages.
    ///
    /// # Errors
    /// [`BusError`].
    pub fn bring_up(mut wire: W, expected: Option<&Layout>, options: Options, on: &str) -> Result<Self, BusError> {
        let BroughtUp { devices, events, frames, numbers } =
            bring_up_again(&mut wire, expected, options.period_ns, on)?;
        if devices.len() > MOST_DEVICES {
            return Err(BusError::TooMany(devices.len()));
        }

        let layout = expected.cloned().unwrap_or_else(|| bring_up::layout_of(&devices));
        let reference = devices.iter().position(|device| device.has_clock);
        let station = reference.map(|place| devices[place].station);
        let exchange = Exchange::new(&layout, station, numbers.logical());
        if let Some(most) = wire.longest().filter(|most| *most < exchange.longest()) {
            return Err(BusError::Mtu { on: on.to_owned(), frame: exchange.longest(), most });
        }
        let silence = Silence::since(wire.now());
        let known = |mut found: Found| {
            let script = std::mem::take(&mut found.script);
            found.known(script, found.last_mail, reference.is_some())
        };
        Ok(Self {
            watch: Watch::new(devices.into_iter().map(known).collect(), reference, numbers),
            lock: (options.follow_clock && reference.is_some()).then(Lock::default),
            frozen: Frozen::new(&layout),
            inputs: vec![0; layout.input_bytes],
            outputs: vec![0; layout.output_bytes],
            wire,
            layout,
            options,
            exchange,
            steer_ns: 0,
            buffer: Box::new([0; LONGEST + 1]),
            events: Queue::with(events),
            counts: Counts::default(),
            nuisances: Nuisances::default(),
            silence,
            off: 0,
            off_reported: false,
            release: Instant::default(),
            bring_up_frames: frames,
        })
    }

    /// The same bus on another wire to the same devices.
    ///
    /// # Errors
    /// Whatever `other` says; the bus is gone then.
    pub fn rewired<V, E>(self, other: impl FnOnce(W) -> Result<V, E>) -> Result<Bus<V>, E> {
        Ok(Bus {
            wire: other(self.wire)?,
            layout: self.layout,
            options: self.options,
            exchange: self.exchange,
            watch: self.watch,
            lock: self.lock,
            steer_ns: self.steer_ns,
            frozen: self.frozen,
            inputs: self.inputs,
            outputs: self.outputs,
            buffer: self.buffer,
            events: self.events,
            counts: self.counts,
            nuisances: self.nuisances,
            silence: self.silence,
            off: self.off,
            off_reported: self.off_reported,
            release: self.release,
            bring_up_frames: self.bring_up_frames,
        })
    }

    /// One cycle, at or after its release. `dt_ns` is the time since the release before, a whole number of periods.
    pub fn cycle<C: Controller + ?Sized>(&mut self, release: Instant, dt_ns: u64, controller: &mut C) -> BusCycle {
        let cycle = match self.options.mode {
            Mode::Pipelined => {
                self.collect(Instant::default());
                let cycle = self.conclude(release, dt_ns);
                self.send(release);
                cycle
            }
            Mode::SameCycle { reply_within_ns } => {
                self.send(release);
                let until = self.wire.now().plus_ns(reply_within_ns);
                self.collect(until);
                self.conclude(release, dt_ns)
            }
        };

        controller.step(&cycle, &self.inputs, &mut self.outputs);
        self.wire.rest();
        cycle
    }

    /// Takes all devices to SAFEOP and then to INIT, after the last cycle; waits for each state a tenth of a second at most. Drives have been
    /// brought to rest before, by [`Controller::stop`].
    pub fn take_down(&mut self) {
        for state in [recovery::SAFEOP, recovery::INIT] {
            down::request(&mut self.wire, state, self.layout.devices.len());
        }

        let at_ns = self.wire.now().as_ns();
        let cycle = self.counts.cycles;
        Notes { queue: &mut self.events, cycle, at_ns, period_ns: self.options.period_ns }.note(
            EventKind::BusDown,
            None,
            (0, 0),
            0,
        );
    }

    /// How far the next releases are to move to keep time with the reference clock, in ns, later for positive values.
    #[must_use]
    pub fn steering_ns(&self) -> i64 {
        self.steer_ns
    }

    /// Sends the cycle's frames, and the one beside them.
    fn send(&mut self, release: Instant) {
        self.release = release;
        self.counts.cycles += 1;
        let Self { exchange, wire, counts, outputs, .. } = self;
        let now = wire.now();
        exchange.send(outputs, now, |frame| {
            counts.sent += 1;
            wire.send(frame);
        });

        // It may have been given another one.
        if let Some(station) = self.watch.reference_station() {
            self.exchange.set_clock(station);
        }
        if let Some(frame) = self.watch.frame(self.counts.cycles) {
            self.counts.sent += 1;
            self.wire.send(frame);
        }
    }

    /// Takes what has come back of the cycle's frames, waiting for it until then at most.
    fn collect(&mut self, until: Instant) {
        if self.counts.cycles == 0 {
            return;
        }
        // Frames beside the cycle are taken as they come, and not waited for: they have a cycle's time.
        while !self.exchange.is_complete() || self.watch.awaits_reply() {
            let until = if self.exchange.is_complete() { Instant::default() } else { until };
            let Some(length) = self.wire.receive(&mut self.buffer[..], until) else { break };
            self.take(length.min(LONGEST));
        }
    }

    fn take(&mut self, length: usize) {
        let now = self.wire.now();
        let reply = &self.buffer[..length];
        // A pipelined cycle finds what came while it slept: a round trip is the frame's own time.
        let is_pipelined = self.options.mode == Mode::Pipelined;
        let came_at = if is_pipelined { self.wire.received_at(now) } else { now };
        let mut notes = Notes {
            queue: &mut self.events,
            cycle: self.counts.cycles,
            at_ns: now.as_ns(),
            period_ns: self.options.period_ns,
        };

        let taken = match self.exchange.take(reply, &mut self.inputs, came_at) {
            Taken::Aside if self.watch.take(reply, &mut notes) => return,
            Taken::Aside => self.watch.older(reply),
            Taken::Foreign if self.counts.cycles <= LIBRARY_CYCLES => Taken::Unknown,
            other => other,
        };
        let Nuisances { late, unknown, duplicate, foreign, .. } = &mut self.nuisances;
        let (nuisance, count, kind) = match taken {
            Taken::Cyclic | Taken::OfScan => return,
            Taken::Late => (late, &mut self.counts.late, EventKind::FrameLate),
            Taken::Duplicate => (duplicate, &mut self.counts.duplicate, EventKind::FrameDuplicate),
            Taken::Foreign => (foreign, &mut self.counts.foreign, EventKind::ForeignFrames),
            Taken::Aside | Taken::Unknown => (unknown, &mut self.counts.unknown, EventKind::FrameUnknown),
        };
        *count += 1;
        if let Some(in_row) = nuisance.seen(notes.cycle) {
            let all = u32::try_from(*count).unwrap_or(u32::MAX);
            notes.note(kind, None, (0, 0), if kind == EventKind::ForeignFrames { all } else { in_row });
        }
    }

    /// What the cycle's frames brought, once no more of them is waited for.
    fn conclude(&mut self, release: Instant, dt_ns: u64) -> BusCycle {
        let (answer, expected) = (self.exchange.answer(), self.exchange.expected());
        let right = answer.complete && answer.working_counter == expected;
        if self.counts.cycles > 0 {
            self.watch.observe(&answer, expected);
            self.tell(&answer, right);
            self.follow(&answer);
        }

        if right {
            let Self { frozen, layout, inputs, events, counts, .. } = self;
            let mut notes = Notes {
                queue: events,
                cycle: counts.cycles,
                at_ns: release.as_ns(),
                period_ns: self.options.period_ns,
            };

            frozen.look(layout, inputs, |place| notes.note(EventKind::Frozen, Some(place), (0, 0), 0));
        }
        BusCycle {
            cycle: self.counts.cycles,
            release_ns: release.as_ns(),
            dt_ns,
            reference_ns: answer.reference_ns,
            round_trip_ns: u32::try_from(answer.round_trip_ns).unwrap_or(u32::MAX),
            working_counter: answer.working_counter,
            expected,
            fresh: right,
            in_op: self.in_op() as u16,
            devices: self.layout.devices.len() as u16,
        }
    }

    /// Counts the cycle, and tells when something begins or ends.
    fn tell(&mut self, answer: &Answer, right: bool) {
        let expected = self.exchange.expected();
        let mut notes = Notes {
            queue: &mut self.events,
            cycle: self.counts.cycles,
            at_ns: self.wire.now().as_ns(),
            period_ns: self.options.period_ns,
        };

        if !answer.complete {
            if let Some(in_row) = self.nuisances.lost.seen(notes.cycle) {
                notes.note(EventKind::FrameLost, None, (0, 0), in_row);
            }
            let is_late = self.nuisances.late.was_seen_within(LATE_FOR, notes.cycle);
            if let Some(Change::NoAnswer(code)) = self.silence.goes_on(notes.cycle, self.wire.trouble(), is_late) {
                notes.note(EventKind::NoAnswer, None, (0, 0), code);
            }
            return;
        }
        if let Some(Change::AnswerBack(ms)) = self.silence.ends(self.wire.now()) {
            notes.note(EventKind::AnswerBack, None, (0, 0), ms);
        }
        self.counts.answered += 1;
        if right {
            if std::mem::take(&mut self.off_reported) {
                notes.note(EventKind::WorkingCounterBack, None, (expected, answer.working_counter), self.off);
            }
            self.off = 0;
            return;
        }

        self.counts.counter_off += 1;
        self.off += 1;
        // On the way up, devices that are not in OP do not count.
        if self.off == 1 && self.watch.was_up() && self.nuisances.off.begins(notes.cycle) {
            self.off_reported = true;
            notes.note(EventKind::WorkingCounterOff, None, (expected, answer.working_counter), 0);
        }
    }

    /// Keeps time with the reference clock.
    fn follow(&mut self, answer: &Answer) {
        self.steer_ns = 0;
        let Some(lock) = self.lock.as_mut().filter(|_| answer.complete && answer.reference_ns > 0) else { return };
        let delay_ns = answer.sent_at.ns_since(self.release);
        let (steer_ns, step) = lock.follow(answer.reference_ns, delay_ns, self.options.period_ns);
        self.steer_ns = steer_ns;
        let (kind, code) = match step {
            Step::Same => return,
            Step::Locked => (EventKind::ClockLocked, 0),
            Step::Unlocked(by_ns) => (EventKind::ClockUnlocked, by_ns.unsigned_abs()),
        };

        let mut notes = Notes {
            queue: &mut self.events,
            cycle: self.counts.cycles,
            at_ns: self.release.as_ns(),
            period_ns: self.options.period_ns,
        };
        notes.note(kind, None, (0, 0), u32::try_from(code).unwrap_or(u32::MAX));
    }

    /// The same bus without its identity check: it takes any device at a place for the file's. For tests that must detect the difference.
    #[doc(hidden)]
    #[must_use]
    pub fn believing_everything(mut self) -> Self {
        self.watch.believe_everything();
        self
    }

    /// Begins an SDO transfer beside the cycles.
    ///
    /// # Errors
    /// The transfer itself, when another is under way.
    pub fn begin_transfer(&mut self, transfer: Box<Transfer>) -> Result<(), Box<Transfer>> {
        self.watch.begin(transfer)
    }

    /// The transfer that has ended, once.
    pub fn ended_transfer(&mut self) -> Option<Box<Transfer>> {
        self.watch.ended()
    }

    /// The oldest event that nobody has taken.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.take()
    }

    /// The devices and where their values stand.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts { events_lost: self.events.lost, ..self.counts }
    }

    /// Frames that it took to bring the devices to SAFEOP.
    #[must_use]
    pub fn bring_up_frames(&self) -> u64 {
        self.bring_up_frames
    }

    /// Frames per cycle, and their bytes in all.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        self.exchange.size()
    }

    /// Whether every device is in OP.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.in_op() == self.layout.devices.len()
    }

    /// Devices in OP; none while nothing comes back.
    fn in_op(&self) -> usize {
        if self.silence.is_silent() { 0 } else { self.watch.in_op() }
    }

    /// How long nothing has come back in time, when that is for ten cycles or more: states of devices are not known then.
    #[must_use]
    pub fn silent_ns(&self) -> Option<u64> {
        self.silence.is_silent().then(|| self.wire.now().ns_since(self.silence.answered_at()))
    }

    /// When all frames of a cycle came back last.
    #[must_use]
    pub fn answered_at(&self) -> Instant {
        self.silence.answered_at()
    }

    /// Whether releases are in step with the reference clock.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.lock.as_ref().is_some_and(Lock::is_locked)
    }

    /// AL status and AL status code of the device at this place, as last seen; `None` when it does not answer, or nothing comes back.
    #[must_use]
    pub fn al_status(&self, device: usize) -> Option<(u8, u16)> {
        self.watch.status(device).filter(|_| !self.silence.is_silent())
    }

    /// The inputs of the last cycle that brought some.
    #[must_use]
    pub fn inputs(&self) -> &[u8] {
        &self.inputs
    }

    /// The outputs that are sent next.
    #[must_use]
    pub fn outputs(&self) -> &[u8] {
        &self.outputs
    }

    /// What frames are sent on.
    #[must_use]
    pub fn wire(&self) -> &W {
        &self.wire
    }

    /// What frames are sent on, to change it: the faults of a simulated segment.
    pub fn wire_mut(&mut self) -> &mut W {
        &mut self.wire
    }
}
