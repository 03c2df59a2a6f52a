//! Serves the process image of a bus to other processes: the part in the loop's cycle, and the part
//! in the background.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;

use super::bus::{Bus, BusCounts, BusTransfer, Wire};
use crate::cycle_messages::{CycleMessages, JointSample};
use onbeat_control::{
    BusSide, ColdSide, Counter, DeviceState, Presence, RequestJob, RingWatch, Timed,
};
use onbeat_ethercat::event::{Event, EventKind, NO_DEVICE};
use onbeat_ethercat::step::{BusCycle, Controller, RobotState};

/// Maximum number of events passed on in one cycle; further ones wait for the next.
// When 59 devices fall at once, their events take four cycles and not one long one.
const EVENTS_PER_CYCLE: usize = 16;

/// Maximum number of controller events kept for other readers; further ones drop the oldest.
const MAX_EVENTS: usize = 512;

/// Controller that sends the outputs of the process that owns them.
struct OwnerController(Arc<Mutex<BusSide>>);

impl Controller for OwnerController {
    fn step(&mut self, cycle: &BusCycle, inputs: &[u8], outputs: &mut [u8]) {
        // The lock is uncontended while the loop runs, so no system call is made.
        timed(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), |image| {
            image.exchange(cycle, inputs, outputs);
        });
    }
}

/// Runs an exchange with the image, and records its duration in the statistics.
fn timed(image: &mut BusSide, exchange: impl FnOnce(&mut BusSide)) {
    let began = Monotonic.now();
    exchange(image);
    image.record(Timed::Exchange, Monotonic.now().ns_since(began));
}

/// Controller of this process whose cycles are published; other processes only read.
struct PublishedController {
    image: Arc<Mutex<BusSide>>,
    own: Box<dyn Controller + Send>,
    /// Events already published, for other readers in this process.
    events: VecDeque<Event>,
}

impl PublishedController {
    /// Publishes events before the cycle, so a process that sees the cycle can read the reason.
    fn publish(&mut self, cycle: &BusCycle, inputs: &[u8], outputs: &[u8]) {
        let Self { image, own, events } = self;
        let mut image = image.lock().unwrap_or_else(PoisonError::into_inner);
        // Before the cycle is published: who waits for cycles then finds the reason of a safe stop
        // with the cycle that has it.
        while let Some(event) = own.take_event() {
            image.push(&event);
            if events.len() == MAX_EVENTS {
                events.pop_front();
            }
            events.push_back(event);
        }

        image.set_robot(own.robot());
        timed(&mut image, |image| image.publish(cycle, inputs, outputs));
    }
}

impl Controller for PublishedController {
    fn step(&mut self, cycle: &BusCycle, inputs: &[u8], outputs: &mut [u8]) {
        self.own.step(cycle, inputs, outputs);
        self.publish(cycle, inputs, outputs);
    }

    fn stop(&mut self, cycle: &BusCycle, inputs: &[u8], outputs: &mut [u8]) -> bool {
        let at_rest = self.own.stop(cycle, inputs, outputs);
        self.publish(cycle, inputs, outputs);
        at_rest
    }

    fn take_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn robot(&self) -> Option<RobotState> {
        self.own.robot()
    }
}

/// A transfer between the loop and its requester. Both sides only try the lock.
#[derive(Clone, Debug, Default)]
struct Transfers {
    wanted: Arc<Mutex<Option<Box<BusTransfer>>>>,
    ended: Arc<Mutex<Option<Box<BusTransfer>>>>,
}

/// Times of a cycle, for the statistics of the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CycleTimes {
    /// From the release to the start of the cycle, in ns.
    pub wakeup_latency_ns: u64,
    /// From the start of the cycle to its end, in ns.
    pub execution_time_ns: u64,
}

/// Service part in the loop.
#[derive(Debug)]
pub struct CycleService {
    image: Arc<Mutex<BusSide>>,
    transfers: Transfers,
    /// Device whose state is published in this cycle.
    next: usize,
    /// Whether the process data of each optional group were valid in the last cycle.
    groups_valid: Vec<bool>,
    counted: BusCounts,
    messages: Option<CycleMessages>,
}

/// Service part in the background.
#[derive(Debug)]
pub struct BackgroundService {
    cold: ColdSide,
    transfers: Transfers,
    job: Option<RequestJob>,
    /// Until the ring of cycles was found truncated.
    ring: Option<RingWatch>,
}

/// Serves an image, and with `messages` publishes every cycle on a ring too. With a controller of this
/// process, it provides the outputs; without one, the owner of the image does.
#[must_use]
pub fn serve(
    image: BusSide,
    controller: Option<Box<dyn Controller + Send>>,
    messages: Option<CycleMessages>,
) -> (Box<dyn Controller + Send>, CycleService, BackgroundService) {
    let cold = image.cold_side();
    let image = Arc::new(Mutex::new(image));
    let transfers = Transfers::default();
    let ring = messages.as_ref().and_then(CycleMessages::watch);
    let controller: Box<dyn Controller + Send> = match controller {
        None => Box::new(OwnerController(image.clone())),
        Some(own) => Box::new(PublishedController {
            image: image.clone(),
            own,
            events: VecDeque::with_capacity(MAX_EVENTS),
        }),
    };

    let serving = CycleService {
        image,
        transfers: transfers.clone(),
        next: 0,
        groups_valid: Vec::new(),
        counted: BusCounts::default(),
        messages,
    };
    (controller, serving, BackgroundService { cold, transfers, job: None, ring })
}

impl CycleService {
    /// Sets the robot's state and joints for the message of this cycle.
    pub fn set_joints(
        &mut self,
        robot: Option<RobotState>,
        joints: impl Iterator<Item = JointSample>,
    ) {
        if let Some(messages) = &mut self.messages {
            messages.set_robot(robot, joints);
        }
    }

    /// Publishes an event of the robot, before the cycle in which it happened.
    pub fn push_event(&mut self, event: &Event) {
        self.image.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// Publishes a cycle and the robot's state, for a bus whose controller was not returned by
    /// [`serve`].
    pub fn publish(
        &mut self,
        cycle: &BusCycle,
        (inputs, outputs): (&[u8], &[u8]),
        robot: Option<RobotState>,
    ) {
        let mut image = self.image.lock().unwrap_or_else(PoisonError::into_inner);
        image.set_robot(robot);
        timed(&mut image, |image| image.publish(cycle, inputs, outputs));
    }

    /// Publishes events, states and statistics after a cycle, and carries transfers. `keep`
    /// receives each event too.
    pub fn after_cycle<W: Wire>(
        &mut self,
        bus: &mut Bus<W>,
        cycle: &BusCycle,
        times: CycleTimes,
        mut keep: impl FnMut(Event),
    ) {
        let mut image = self.image.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..EVENTS_PER_CYCLE {
            let Some(event) = bus.next_event() else { break };
            publish_event(&mut image, bus, &event);
            keep(event);
        }

        image.answered(bus.answered_at().as_ns());
        image.set_link(bus.link(), bus.answering());
        // Devices reach OP without an event of their own, so one device is checked per cycle.
        // One a cycle: reading all would take longer the more devices there are.
        self.next = (self.next + 1) % bus.layout().devices.len().max(1);
        publish_device(&image, bus, self.next);
        self.groups_valid.resize(bus.layout().groups.len(), false);
        for (number, was_valid) in self.groups_valid.iter_mut().enumerate() {
            let is_valid = bus.is_group_valid(number);
            if std::mem::replace(was_valid, is_valid) != is_valid {
                let devices = bus.layout().groups[number].devices.clone();
                devices.for_each(|place| publish_device(&image, bus, place));
            }
        }
        let counts = bus.counts();
        // The bus counts from its beginning, the image adds: differences keep both right across a
        // restart of either.
        let before = std::mem::replace(&mut self.counted, counts);
        let differences = [
            (Counter::FramesLost, counts.lost - before.lost),
            (Counter::FramesLate, counts.late - before.late),
            (Counter::FramesUnknown, counts.strange() - before.strange()),
            (Counter::WorkingCounterErrors, counts.counter_off - before.counter_off),
            (Counter::FramesRepeated, counts.repeated.saturating_sub(before.repeated)),
        ];

        for (counter, n) in differences.into_iter().filter(|(_, n)| *n > 0) {
            image.count(counter, n);
        }

        image.record(Timed::WakeupLatency, times.wakeup_latency_ns);
        image.record(Timed::ExecutionTime, times.execution_time_ns);
        if cycle.round_trip_ns > 0 {
            image.record(Timed::RoundTrip, u64::from(cycle.round_trip_ns));
        }

        // The frame has been sent, so this delays nothing.
        image.prepare();
        // Before the ring is written: who looks at the image need not wait for that.
        drop(image);
        if let Some(messages) = &mut self.messages {
            let times_ns = [times.wakeup_latency_ns, times.execution_time_ns];
            messages.publish(cycle, times_ns, (bus.inputs(), bus.outputs()));
            messages.prepare();
        }

        self.carry_transfers(bus);
    }

    /// Publishes the events that the last cycle of a loop has left for another one.
    pub fn after_last_cycle<W: Wire>(&mut self, bus: &mut Bus<W>, mut keep: impl FnMut(Event)) {
        let mut image = self.image.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(event) = bus.next_event() {
            publish_event(&mut image, bus, &event);
            keep(event);
        }
    }

    fn carry_transfers<W: Wire>(&self, bus: &mut Bus<W>) {
        if let Ok(mut wanted) = self.transfers.wanted.try_lock()
            && let Some(transfer) = wanted.take()
            // One transfer at a time. It goes back to where it came from, and is tried again in the
            // next cycle.
            && let Err(transfer) = bus.begin_transfer(transfer)
        {
            *wanted = Some(transfer);
        }

        if let Ok(mut ended) = self.transfers.ended.try_lock()
            && ended.is_none()
        {
            *ended = bus.ended_transfer();
        }
    }
}

/// Publishes an event, and before it the states that it is about.
fn publish_event<W: Wire>(image: &mut BusSide, bus: &Bus<W>, event: &Event) {
    if event.device != NO_DEVICE {
        publish_device(image, bus, usize::from(event.device));
    }

    match event.kind {
        EventKind::StateChanged => image.count(Counter::StateChanges, 1),
        // One event stands for all of them, and the state of each is published now: it would
        // otherwise come device by device, one a cycle.
        EventKind::DevicesLeftOp => {
            image.count(Counter::StateChanges, event.old.into());
            let devices = 0..bus.layout().devices.len();
            devices.for_each(|place| publish_device(image, bus, place));
        }
        EventKind::BusRestarted => image.count(Counter::Restarts, 1),
        _ => {}
    }

    image.push(event);
}

/// Publishes state and errors of a device.
fn publish_device<W: Wire>(image: &BusSide, bus: &Bus<W>, device: usize) {
    image.set_state(device, state(bus, device));
    if let Some(errors) = bus.link_errors(device) {
        image.set_link_errors(device, &errors);
    }
}

fn state<W: Wire>(bus: &Bus<W>, device: usize) -> DeviceState {
    // The values of a group that is not there in whole are not valid, also of those that answer.
    let group = bus.layout().group_of(device);
    if group.is_some_and(|group| !bus.is_group_valid(group)) && bus.silent_ns().is_none() {
        let (status, code) = bus.al_status(device).unwrap_or_default();
        let al_state = u16::from(status);
        return DeviceState { al_state, al_status: code, presence: Presence::Away };
    }
    match bus.al_status(device) {
        Some((status, code)) => DeviceState {
            al_state: u16::from(status),
            al_status: code,
            presence: Presence::Present,
        },
        // Lost: no state, rather than the last one that was known.
        None => DeviceState { al_state: 0, al_status: 0, presence: Presence::Lost },
    }
}

impl BackgroundService {
    /// Returns once, as a sentence, that the ring of cycles was truncated: the loop cannot see it.
    pub fn ring_fault(&mut self) -> Option<String> {
        // Said once. A ring that was damaged by another process stays so.
        let why = self.ring.as_ref()?.check().err()?;
        self.ring = None;
        Some(why.to_string())
    }

    /// Carries requests. Call it every few milliseconds.
    pub fn run_once(&mut self) {
        if self.job.is_none()
            && let Some(job) = self.cold.take_request()
        {
            let transfer = Box::new(BusTransfer::new(job.request.clone()));
            if let Ok(mut wanted) = self.transfers.wanted.lock() {
                *wanted = Some(transfer);
            }
            self.job = Some(job);
        }

        let ended = match self.transfers.ended.try_lock() {
            Ok(mut ended) => ended.take(),
            // The cycle holds it. There will be another look in 20 ms.
            Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => None,
        };

        if let Some(outcome) = ended.and_then(|transfer| transfer.outcome())
            && let Some(job) = self.job.take()
        {
            self.cold.answer(&job, &outcome);
        }
    }
}
