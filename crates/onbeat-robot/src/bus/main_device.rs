//! The bus: what it is made of, how it begins and ends, and what can be asked of it.

mod cycle;

use onbeat_rt::frame::LONGEST;
use onbeat_rt::time::Instant;

use self::cycle::EventRateLimits;
use super::addresses::MOST_DEVICES;
use super::bring_up::{self, BroughtUp, FoundDevice, bring_up_with_restarts};
use super::clock_sync::ClockSync;
use super::cyclic::CyclicExchange;
use super::diagnostics::Diagnostics;
use super::error::BusError;
use super::event_queue::EventQueue;
use super::no_answer::NoAnswerMonitor;
use super::optional_groups::{OptionalGroups, absent_devices};
use super::options::{BusCounts, BusOptions};
use super::shutdown;
use super::stale_inputs::StaleInputs;
use super::transfer::BusTransfer;
use onbeat_control::CableLink;
use onbeat_ethercat::al::{INIT, SAFEOP};
use onbeat_ethercat::carrier::Trouble;
use onbeat_ethercat::event::{Event, EventKind, EventValues};
use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::link_errors::LinkErrors;
use onbeat_ethercat::ring::RingState;
use onbeat_ethercat::wire::Wire;

/// Watchdog of a device after power-on, in ns (ETG.1000.4, registers 0x0400 and 0x0420).
// Registers 0x0400 and 0x0420 after a reset: 2,498 × 1,000 × 40 ns, ETG.1000.4.
const USUAL_WATCHDOG_NS: u64 = 100_000_000;

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
    /// Whether the working counter of each optional group was right in the last cycle.
    groups_right: Vec<bool>,
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
    /// When the frames of the last cycle were sent.
    sent_at: Option<Instant>,
    /// State of the ring of cables as last reported, and when it was cut.
    ring: (RingState, Instant),
    bring_up_frames: u64,
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
        let expected = expected.map(|layout| layout.at_period(options.period_ns));
        let BroughtUp { devices, events, frames, mut addresses } =
            bring_up_with_restarts(&mut wire, expected.as_ref(), options.period_ns, on)?;
        if devices.len() > MOST_DEVICES {
            return Err(BusError::TooMany(devices.len()));
        }

        let layout = expected.unwrap_or_else(|| bring_up::layout_of(&devices));
        let reference = devices.iter().position(|device| device.has_clock);
        // The first device with a clock, in the order of the cable: the time passes all others
        // after it, in the same frame.
        let station = reference.map(|place| devices[place].station);
        let exchange = CyclicExchange::new(&layout, station, addresses.logical_start());
        // Found out now, with the numbers: later each cycle would fail at the card without a word.
        if let Some(most) = wire.longest().filter(|most| *most < exchange.longest()) {
            return Err(BusError::Mtu { on: on.to_owned(), frame: exchange.longest(), most });
        }

        let known = |mut found: FoundDevice| {
            let script = std::mem::take(&mut found.script);
            found.known(script, found.last_mail_counter, reference.is_some())
        };
        let devices = devices.into_iter().map(known).collect();
        let absent =
            absent_devices(&layout, &mut addresses, options.period_ns, reference.is_some());
        let groups = OptionalGroups::new(&layout);

        let no_answer = NoAnswerMonitor::since(wire.now());
        Ok(Self {
            diagnostics: Diagnostics::new(
                devices,
                (absent, groups),
                reference,
                addresses,
                (options.period_ns, layout.watchdog_ns.unwrap_or(USUAL_WATCHDOG_NS)),
            ),
            clock_sync: (options.follow_clock && reference.is_some()).then(ClockSync::default),
            stale_inputs: StaleInputs::new(&layout),
            groups_right: vec![false; layout.groups.len()],
            inputs: vec![0; layout.input_bytes],
            outputs: vec![0; layout.output_bytes],
            wire,
            layout,
            options,
            exchange,
            steering_ns: 0,
            buffer: Box::new([0; LONGEST + 1]),
            events: EventQueue::new(events, options.period_ns),
            counts: BusCounts::default(),
            rate_limits: EventRateLimits::default(),
            no_answer,
            off: 0,
            off_reported: false,
            release: Instant::default(),
            sent_at: None,
            ring: (RingState::Unknown, Instant::default()),
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
            groups_right: self.groups_right,
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
            sent_at: self.sent_at,
            ring: self.ring,
            bring_up_frames: self.bring_up_frames,
        })
    }

    /// Takes all devices to SAFEOP and then to INIT, after the last cycle. Waits at most 100 ms for
    /// each state. Bring drives to rest before, with
    /// [`Controller::stop`](onbeat_ethercat::step::Controller::stop).
    pub fn take_down(&mut self) {
        let optional = (self.layout.always_there()..self.layout.devices.len())
            .filter(|&device| self.diagnostics.status(device).is_some());
        let devices = self.layout.always_there() + optional.count();
        // By SAFEOP: outputs go to their safe state while devices still answer. A jump from OP to
        // INIT drops the mailbox as well.
        for state in [SAFEOP, INIT] {
            shutdown::request_state(&mut self.wire, state, devices);
        }

        let mut events = self.events.writer(self.counts.cycles, self.wire.now());
        events.write(EventKind::BusDown, None, EventValues::NONE);
    }

    /// Returns the shift of the next releases that follows the reference clock, in ns; positive is
    /// later.
    #[must_use]
    pub fn steering_ns(&self) -> i64 {
        self.steering_ns
    }

    /// Disables the identity check of recovered devices. For tests that must detect the difference.
    #[doc(hidden)]
    #[must_use]
    pub fn without_identity_check(mut self) -> Self {
        self.diagnostics.skip_identity_check();
        self
    }

    /// Begins a request of another process.
    ///
    /// # Errors
    /// Returns `transfer` if another one is in progress.
    pub fn begin_transfer(&mut self, transfer: Box<BusTransfer>) -> Result<(), Box<BusTransfer>> {
        self.diagnostics.begin(transfer)
    }

    /// Returns the ended transfer, once.
    pub fn ended_transfer(&mut self) -> Option<Box<BusTransfer>> {
        let ended = self.diagnostics.ended()?;
        if let Some((place, index, entry)) = self.diagnostics.mute_in(&ended) {
            let mut events = self.events.writer(self.counts.cycles, self.wire.now());
            let values = EventValues::from_change(index, entry.into());
            events.write(EventKind::MailboxMute, Some(place), values);
        }
        Some(ended)
    }

    /// Reports the emergencies that are in no event yet, after the last cycle: of equal ones in a
    /// row only some have an event of their own.
    pub fn report_rest(&mut self) {
        let mut events = self.events.writer(self.counts.cycles, self.wire.now());
        self.diagnostics.report_rest(&mut events);
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
        // Counted by the wire, which sends them: a ring repeats a frame that a cut has swallowed.
        let repeated = self.wire.repeated();
        BusCounts { events_lost: self.events.lost, repeated, ..self.counts }
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

    /// Returns whether every device is in OP, other than those of optional groups.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.in_op() == self.layout.always_there()
    }

    /// Returns whether an optional group, by its number in [`Layout::groups`], is there and took part
    /// in the last cycle: its process data are valid.
    #[must_use]
    pub fn is_group_valid(&self, group: usize) -> bool {
        self.groups_right.get(group).is_some_and(|is_right| *is_right)
            && self.diagnostics.is_group_there(group)
    }

    /// Returns the number of devices in OP, without those of optional groups; 0 while no reply comes back.
    fn in_op(&self) -> usize {
        // States are never reported from memory. Without an answer nobody is known to be in OP.
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

    /// Returns the link of the wire's interface.
    #[must_use]
    pub fn link(&self) -> CableLink {
        match self.wire.trouble() {
            Some(Trouble::Gone | Trouble::Down | Trouble::NoLink) => CableLink::Down,
            Some(Trouble::Mtu | Trouble::Taken) | None => CableLink::Up,
        }
    }

    /// Returns the number of devices that processed the last answered frame, expected or not; 0
    /// while no reply comes back.
    #[must_use]
    pub fn answering(&self) -> u16 {
        if self.no_answer.is_silent() { 0 } else { self.diagnostics.counted() }
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
        // The same for each device: the last known state of a silent bus is not its state.
        self.diagnostics.status(device).filter(|_| !self.no_answer.is_silent())
    }

    /// Returns the errors that the ports of a device have counted since the bus came up, read once a
    /// second; `None` before the first reading.
    #[must_use]
    pub fn link_errors(&self, device: usize) -> Option<LinkErrors> {
        self.diagnostics.link_errors(device)
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
