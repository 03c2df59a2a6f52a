//! The MainDevice: brings the devices of a segment to OP and exchanges process data with them,
//! cycle by cycle.
//!
//! ```text
//! bring_up ── ethercrab, frames by pump ──▶ devices in SAFEOP, configuration recorded (config_record)
//!     └ preop_setup: the file's settings in PREOP │
//! Bus::cycle ── cyclic: one frame ────────────────┤  inputs, working counter, AL states, clock
//!                └ diagnostics: an acyclic frame ─┘  only after a problem: which device, and its recovery
//! ```
//!
//! ethercrab finds and configures the devices. From the first cycle on everything is implemented
//! here, synchronously and without allocation, so a loop can call [`Bus::cycle`]. The bus uses only
//! the wire's clock: on a virtual clock, runs are identical to the byte.
//!
//! Absent on purpose: a second network interface (cable redundancy), device groups with different
//! periods, and mailbox protocols other than CoE.

mod acyclic;
mod addresses;
mod bring_up;
mod clock_sync;
mod config_record;
mod cyclic;
mod device;
mod diagnostics;
mod error;
mod event_queue;
mod identification;
mod no_answer;
mod panic_guard;
mod position_scan;
mod preop_setup;
mod pump;
mod rate_limit;
mod recovery;
mod scan;
mod sdo;
mod shutdown;
mod sii_cache;
mod stale_inputs;
mod sync0;

pub use error::BusError;
pub use onbeat_ethercat::wire::{Packets, Wire};
pub use onbeat_segment::InProcess;
pub use scan::{DeviceIdentity, RunningBus, ScannedDevice, scan};
pub use sdo::SdoTransfer;

use onbeat_rt::frame::LONGEST;
use onbeat_rt::time::Instant;

use self::bring_up::{BroughtUp, FoundDevice, bring_up_with_restarts};
use self::clock_sync::{ClockSync, LockChange};
use self::cyclic::{CycleReply, CyclicExchange, FrameClass};
use self::diagnostics::Diagnostics;
use self::event_queue::{EventQueue, EventWriter};
use self::no_answer::{Change, NoAnswerMonitor};
use self::rate_limit::EventRateLimit;
use self::stale_inputs::StaleInputs;
use onbeat_ethercat::event::{Event, EventKind};
use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::step::{BusCycle, Controller};

/// Maximum number of devices on one bus: the size of ethercrab's tables.
pub const MOST_DEVICES: usize = 256;
/// Number of cycles in which late replies to ethercrab's frames may arrive; they do not count as
/// frames of another MainDevice.
const LIBRARY_CYCLES: u64 = 100;
/// Number of cycles for which missing replies count as late after a late one.
const LATE_FOR: u64 = 10;

/// When a cycle reads the reply to its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeMode {
    /// A cycle reads the reply to the previous frame, sends the next frame, and then runs the
    /// controller. The time of sending does not depend on the controller. An input reaches an
    /// output two cycles later.
    Pipelined,
    /// A cycle sends, waits for the reply, and then runs the controller: one cycle less delay, at
    /// the cost of the wait.
    SameCycle {
        /// Maximum time to wait for the reply, in ns.
        reply_within_ns: u64,
    },
}

/// Options of a bus.
#[derive(Clone, Copy, Debug)]
pub struct BusOptions {
    /// When replies are read.
    pub mode: ExchangeMode,
    /// Cycle period, in ns.
    pub period_ns: u64,
    /// Whether releases follow the reference clock of the segment, if it has one.
    pub follow_clock: bool,
}

/// Counters since the bus came up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusCounts {
    /// Cycles.
    pub cycles: u64,
    /// Cycles in which every frame was answered in time.
    pub answered: u64,
    /// Cycles with an unexpected working counter.
    pub counter_off: u64,
    /// Frames sent.
    pub sent: u64,
    /// Replies that arrived after their cycle.
    pub late: u64,
    /// Received frames that were not sent, or are damaged.
    pub unknown: u64,
    /// Replies received more than once.
    pub duplicate: u64,
    /// Frames of another MainDevice.
    pub foreign: u64,
    /// Events dropped because the queue was full.
    pub events_lost: u64,
}

impl BusCounts {
    /// Returns the number of unexpected frames, late ones excluded.
    #[must_use]
    pub const fn strange(&self) -> u64 {
        self.unknown + self.duplicate + self.foreign
    }
}

/// An EtherCAT segment whose devices exchange process data with a loop.
///
/// ```no_run
/// use onbeat_ethercat::layout::Layout;
/// use onbeat_robot::bus::{Bus, BusOptions, ExchangeMode, Packets};
/// use onbeat_robot::motion::{MotionController, Robot, Trajectory};
/// use onbeat_rt::Clock;
/// use onbeat_rt::sys::Monotonic;
///
/// let file = std::fs::read_to_string("robot.toml")?;
/// let layout = Layout::from_toml(&file)?;
/// let robot = Robot::from_toml(&file, &layout, 1_000_000)?;
/// let mut controller = MotionController::new(&robot, Trajectory::hold());
/// let options = BusOptions { mode: ExchangeMode::Pipelined, period_ns: 1_000_000, follow_clock: false };
/// let mut bus = Bus::bring_up(Packets::open("eth1")?, Some(&layout), options, "eth1")?;
/// // A loop calls this once per release.
/// bus.cycle(Monotonic.now(), 1_000_000, &mut controller);
/// bus.take_down();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Bus<W> {
    wire: W,
    layout: Layout,
    options: BusOptions,
    exchange: CyclicExchange,
    diagnostics: Diagnostics,
    clock_sync: Option<ClockSync>,
    steering_ns: i64,
    stale_inputs: StaleInputs,
    inputs: Vec<u8>,
    outputs: Vec<u8>,
    buffer: Box<[u8; LONGEST + 1]>,
    events: EventQueue,
    counts: BusCounts,
    rate_limits: EventRateLimits,
    no_answer: NoAnswerMonitor,
    /// Consecutive cycles with a wrong working counter, and whether the first was reported.
    off: u32,
    off_reported: bool,
    release: Instant,
    bring_up_frames: u64,
}

/// Rate limits of events that can occur in each cycle.
#[derive(Clone, Copy, Debug, Default)]
struct EventRateLimits {
    lost: EventRateLimit,
    late: EventRateLimit,
    unknown: EventRateLimit,
    duplicate: EventRateLimit,
    foreign: EventRateLimit,
    off: EventRateLimit,
}

impl<W: Wire> Bus<W> {
    /// Brings the devices to SAFEOP. The following cycles bring them to OP; the event
    /// [`EventKind::BusUp`] reports that all are there.
    ///
    /// With `expected`, a segment with other devices is refused before any device is enabled. `on`
    /// names the wire in messages.
    ///
    /// # Errors
    /// [`BusError`]: no or other devices, a refused configuration, or no reply.
    pub fn bring_up(
        mut wire: W,
        expected: Option<&Layout>,
        options: BusOptions,
        on: &str,
    ) -> Result<Self, BusError> {
        let BroughtUp { devices, events, frames, addresses } =
            bring_up_with_restarts(&mut wire, expected, options.period_ns, on)?;
        if devices.len() > MOST_DEVICES {
            return Err(BusError::TooMany(devices.len()));
        }

        let layout = expected.cloned().unwrap_or_else(|| bring_up::layout_of(&devices));
        let reference = devices.iter().position(|device| device.has_clock);
        let station = reference.map(|place| devices[place].station);
        let exchange = CyclicExchange::new(&layout, station, addresses.logical_start());
        if let Some(most) = wire.longest().filter(|most| *most < exchange.longest()) {
            return Err(BusError::Mtu { on: on.to_owned(), frame: exchange.longest(), most });
        }
        let no_answer = NoAnswerMonitor::since(wire.now());
        let known = |mut found: FoundDevice| {
            let script = std::mem::take(&mut found.script);
            found.known(script, found.last_mail_counter, reference.is_some())
        };
        Ok(Self {
            diagnostics: Diagnostics::new(
                devices.into_iter().map(known).collect(),
                reference,
                addresses,
            ),
            clock_sync: (options.follow_clock && reference.is_some()).then(ClockSync::default),
            stale_inputs: StaleInputs::new(&layout),
            inputs: vec![0; layout.input_bytes],
            outputs: vec![0; layout.output_bytes],
            wire,
            layout,
            options,
            exchange,
            steering_ns: 0,
            buffer: Box::new([0; LONGEST + 1]),
            events: EventQueue::new(events),
            counts: BusCounts::default(),
            rate_limits: EventRateLimits::default(),
            no_answer,
            off: 0,
            off_reported: false,
            release: Instant::default(),
            bring_up_frames: frames,
        })
    }

    /// Moves the bus to another wire to the same devices.
    ///
    /// # Errors
    /// The error of `other`; the bus is dropped then.
    pub fn rewired<V, E>(self, other: impl FnOnce(W) -> Result<V, E>) -> Result<Bus<V>, E> {
        Ok(Bus {
            wire: other(self.wire)?,
            layout: self.layout,
            options: self.options,
            exchange: self.exchange,
            diagnostics: self.diagnostics,
            clock_sync: self.clock_sync,
            steering_ns: self.steering_ns,
            stale_inputs: self.stale_inputs,
            inputs: self.inputs,
            outputs: self.outputs,
            buffer: self.buffer,
            events: self.events,
            counts: self.counts,
            rate_limits: self.rate_limits,
            no_answer: self.no_answer,
            off: self.off,
            off_reported: self.off_reported,
            release: self.release,
            bring_up_frames: self.bring_up_frames,
        })
    }

    /// Runs one cycle, at or after its release. `dt_ns` is the time since the previous release, a
    /// whole number of periods.
    pub fn cycle<C: Controller + ?Sized>(
        &mut self,
        release: Instant,
        dt_ns: u64,
        controller: &mut C,
    ) -> BusCycle {
        let cycle = match self.options.mode {
            ExchangeMode::Pipelined => {
                self.collect(Instant::default());
                let cycle = self.conclude(release, dt_ns);
                self.send(release);
                cycle
            }
            ExchangeMode::SameCycle { reply_within_ns } => {
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

    /// Takes all devices to SAFEOP and then to INIT, after the last cycle. Waits at most 100 ms for
    /// each state. Bring drives to rest before, with [`Controller::stop`].
    pub fn take_down(&mut self) {
        for state in [recovery::SAFEOP, recovery::INIT] {
            shutdown::request_state(&mut self.wire, state, self.layout.devices.len());
        }

        let at_ns = self.wire.now().as_ns();
        let cycle = self.counts.cycles;
        EventWriter { queue: &mut self.events, cycle, at_ns, period_ns: self.options.period_ns }
            .write(EventKind::BusDown, None, (0, 0), 0);
    }

    /// Returns the shift of the next releases that follows the reference clock, in ns; positive is
    /// later.
    #[must_use]
    pub fn steering_ns(&self) -> i64 {
        self.steering_ns
    }

    /// Sends the frames of the cycle and the acyclic frame.
    fn send(&mut self, release: Instant) {
        self.release = release;
        self.counts.cycles += 1;
        let Self { exchange, wire, counts, outputs, .. } = self;
        let now = wire.now();
        exchange.send(outputs, now, |frame| {
            counts.sent += 1;
            wire.send(frame);
        });

        // Recovery may have assigned another station address.
        if let Some(station) = self.diagnostics.reference_station() {
            self.exchange.set_clock(station);
        }
        if let Some(frame) = self.diagnostics.frame(self.counts.cycles) {
            self.counts.sent += 1;
            self.wire.send(frame);
        }
    }

    /// Receives replies to the cycle's frames, waiting until `until` at most.
    fn collect(&mut self, until: Instant) {
        if self.counts.cycles == 0 {
            return;
        }
        // Acyclic frames have a whole cycle's time: a pending reply is read if it is there, and not
        // waited for.
        while !self.exchange.is_complete() || self.diagnostics.awaits_reply() {
            let until = if self.exchange.is_complete() { Instant::default() } else { until };
            let Some(length) = self.wire.receive(&mut self.buffer[..], until) else { break };
            self.take(length.min(LONGEST));
        }
    }

    fn take(&mut self, length: usize) {
        let now = self.wire.now();
        let reply = &self.buffer[..length];
        // In pipelined mode, replies arrive while the loop sleeps, so the time of reception comes
        // from the wire.
        let is_pipelined = self.options.mode == ExchangeMode::Pipelined;
        let received_at = if is_pipelined { self.wire.received_at(now) } else { now };
        let mut events = EventWriter {
            queue: &mut self.events,
            cycle: self.counts.cycles,
            at_ns: now.as_ns(),
            period_ns: self.options.period_ns,
        };

        let taken = match self.exchange.take(reply, &mut self.inputs, received_at) {
            FrameClass::Acyclic if self.diagnostics.take(reply, &mut events) => return,
            FrameClass::Acyclic => self.diagnostics.older(reply),
            FrameClass::Foreign if self.counts.cycles <= LIBRARY_CYCLES => FrameClass::Unknown,
            other => other,
        };
        let EventRateLimits { late, unknown, duplicate, foreign, .. } = &mut self.rate_limits;
        let (limit, count, kind) = match taken {
            FrameClass::Cyclic | FrameClass::OfScan => return,
            FrameClass::Late => (late, &mut self.counts.late, EventKind::FrameLate),
            FrameClass::Duplicate => {
                (duplicate, &mut self.counts.duplicate, EventKind::FrameDuplicate)
            }
            FrameClass::Foreign => (foreign, &mut self.counts.foreign, EventKind::ForeignFrames),
            FrameClass::Acyclic | FrameClass::Unknown => {
                (unknown, &mut self.counts.unknown, EventKind::FrameUnknown)
            }
        };
        *count += 1;
        if let Some(in_row) = limit.record(events.cycle) {
            let all = u32::try_from(*count).unwrap_or(u32::MAX);
            events.write(
                kind,
                None,
                (0, 0),
                if kind == EventKind::ForeignFrames { all } else { in_row },
            );
        }
    }

    /// Evaluates the replies of the cycle, after the last wait.
    fn conclude(&mut self, release: Instant, dt_ns: u64) -> BusCycle {
        let answer = self.exchange.answer();
        let expected = self.exchange.expected();
        let right = answer.complete && answer.working_counter == expected;
        if self.counts.cycles > 0 {
            self.diagnostics.observe(&answer, expected);
            self.count_cycle(&answer, right);
            self.follow(&answer);
        }

        if right {
            let Self { stale_inputs, layout, inputs, events, counts, .. } = self;
            let mut events = EventWriter {
                queue: events,
                cycle: counts.cycles,
                at_ns: release.as_ns(),
                period_ns: self.options.period_ns,
            };

            stale_inputs.update(layout, inputs, |place| {
                events.write(EventKind::Frozen, Some(place), (0, 0), 0)
            });
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

    /// Counts the cycle, and reports the begin and end of problems.
    fn count_cycle(&mut self, answer: &CycleReply, right: bool) {
        let expected = self.exchange.expected();
        let mut events = EventWriter {
            queue: &mut self.events,
            cycle: self.counts.cycles,
            at_ns: self.wire.now().as_ns(),
            period_ns: self.options.period_ns,
        };

        if !answer.complete {
            if let Some(in_row) = self.rate_limits.lost.record(events.cycle) {
                events.write(EventKind::FrameLost, None, (0, 0), in_row);
            }
            let is_late = self.rate_limits.late.occurred_within(LATE_FOR, events.cycle);
            if let Some(Change::NoAnswer(code)) =
                self.no_answer.on_missed_cycle(events.cycle, self.wire.trouble(), is_late)
            {
                events.write(EventKind::NoAnswer, None, (0, 0), code);
            }
            return;
        }
        if let Some(Change::AnswerBack(ms)) = self.no_answer.on_reply(self.wire.now()) {
            events.write(EventKind::AnswerBack, None, (0, 0), ms);
        }
        self.counts.answered += 1;
        if right {
            if std::mem::take(&mut self.off_reported) {
                events.write(
                    EventKind::WorkingCounterBack,
                    None,
                    (expected, answer.working_counter),
                    self.off,
                );
            }
            self.off = 0;
            return;
        }

        self.counts.counter_off += 1;
        self.off += 1;
        // During bring-up, devices that are not in OP do not count.
        if self.off == 1 && self.diagnostics.was_up() && self.rate_limits.off.allow(events.cycle) {
            self.off_reported = true;
            events.write(EventKind::WorkingCounterOff, None, (expected, answer.working_counter), 0);
        }
    }

    /// Follows the reference clock.
    fn follow(&mut self, answer: &CycleReply) {
        self.steering_ns = 0;
        let Some(clock_sync) =
            self.clock_sync.as_mut().filter(|_| answer.complete && answer.reference_ns > 0)
        else {
            return;
        };
        let delay_ns = answer.sent_at.ns_since(self.release);
        let (steering_ns, step) =
            clock_sync.follow(answer.reference_ns, delay_ns, self.options.period_ns);
        self.steering_ns = steering_ns;
        let (kind, code) = match step {
            LockChange::Same => return,
            LockChange::Locked => (EventKind::ClockLocked, 0),
            LockChange::Unlocked(by_ns) => (EventKind::ClockUnlocked, by_ns.unsigned_abs()),
        };

        let mut events = EventWriter {
            queue: &mut self.events,
            cycle: self.counts.cycles,
            at_ns: self.release.as_ns(),
            period_ns: self.options.period_ns,
        };
        events.write(kind, None, (0, 0), u32::try_from(code).unwrap_or(u32::MAX));
    }

    /// Disables the identity check of recovered devices. For tests that must detect the difference.
    #[doc(hidden)]
    #[must_use]
    pub fn without_identity_check(mut self) -> Self {
        self.diagnostics.skip_identity_check();
        self
    }

    /// Begins an acyclic SDO transfer.
    ///
    /// # Errors
    /// Returns `transfer` if another one is in progress.
    pub fn begin_transfer(&mut self, transfer: Box<SdoTransfer>) -> Result<(), Box<SdoTransfer>> {
        self.diagnostics.begin(transfer)
    }

    /// Returns the ended transfer, once.
    pub fn ended_transfer(&mut self) -> Option<Box<SdoTransfer>> {
        self.diagnostics.ended()
    }

    /// Returns the oldest event in the queue.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.take()
    }

    /// Returns the devices and the offsets of their values.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the counters.
    #[must_use]
    pub fn counts(&self) -> BusCounts {
        BusCounts { events_lost: self.events.lost, ..self.counts }
    }

    /// Returns the number of frames sent to reach SAFEOP.
    #[must_use]
    pub fn bring_up_frames(&self) -> u64 {
        self.bring_up_frames
    }

    /// Returns the number of frames per cycle and their total length in bytes.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        self.exchange.size()
    }

    /// Returns whether every device is in OP.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.in_op() == self.layout.devices.len()
    }

    /// Returns the number of devices in OP; 0 while no reply comes back.
    fn in_op(&self) -> usize {
        if self.no_answer.is_silent() { 0 } else { self.diagnostics.in_op() }
    }

    /// Returns the time since the last complete reply, in ns, once that is ten cycles or more;
    /// device states are unknown then.
    #[must_use]
    pub fn silent_ns(&self) -> Option<u64> {
        self.no_answer.is_silent().then(|| self.wire.now().ns_since(self.no_answer.answered_at()))
    }

    /// Returns when all frames of a cycle were last answered.
    #[must_use]
    pub fn answered_at(&self) -> Instant {
        self.no_answer.answered_at()
    }

    /// Returns whether releases are locked to the reference clock.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.clock_sync.as_ref().is_some_and(ClockSync::is_locked)
    }

    /// Returns the last AL status and AL status code of a device; `None` if it or the whole segment
    /// does not answer.
    #[must_use]
    pub fn al_status(&self, device: usize) -> Option<(u8, u16)> {
        self.diagnostics.status(device).filter(|_| !self.no_answer.is_silent())
    }

    /// Returns the inputs received last.
    #[must_use]
    pub fn inputs(&self) -> &[u8] {
        &self.inputs
    }

    /// Returns the outputs that are sent next.
    #[must_use]
    pub fn outputs(&self) -> &[u8] {
        &self.outputs
    }

    /// Returns the wire.
    #[must_use]
    pub fn wire(&self) -> &W {
        &self.wire
    }

    /// Returns the wire for changes, such as faults of a simulated segment.
    pub fn wire_mut(&mut self) -> &mut W {
        &mut self.wire
    }
}
