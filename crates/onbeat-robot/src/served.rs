//! A bus whose process image other processes see: what its loop does for them in each cycle, and what is done for them beside it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;

use super::bus::{Bus, Counts, Transfer, Wire};
use onbeat_control::{BusSide, ColdSide, Counter, DeviceState, Presence, SdoJob, Timed};
use onbeat_ethercat::event::{Event, EventKind, NO_DEVICE};
use onbeat_ethercat::step::{BusCycle, Controller, RobotState};

/// Events that one cycle takes over at most; further ones wait for the next.
const EVENTS_PER_CYCLE: usize = 16;

/// Events of a controller that nobody but the image has asked for; further ones push the oldest out.
const MOST_TOLD: usize = 512;

/// Outputs are those of whatever process owns them.
struct Owned(Arc<Mutex<BusSide>>);

impl Controller for Owned {
    fn step(&mut self, cycle: &BusCycle, inputs: &[u8], outputs: &mut [u8]) {
        // Nobody else holds it while the loop runs: the lock is taken and given back without asking the kernel.
        timed(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), |image| {
            image.exchange(cycle, inputs, outputs);
        });
    }
}

/// An exchange with the image, counted in its statistics.
fn timed(image: &mut BusSide, exchange: impl FnOnce(&mut BusSide)) {
    let began = Monotonic.now();
    exchange(image);
    image.record(Timed::Exchange, Monotonic.now().ns_since(began));
}

/// Outputs are a controller's of this process; the others look on.
struct Shown {
    image: Arc<Mutex<BusSide>>,
    own: Box<dyn Controller + Send>,
    /// Events that the image has, for whoever else asks for them.
    told: VecDeque<Event>,
}

impl Shown {
    /// Events before the cycle: who sees the cycle can read why.
    fn show(&mut self, cycle: &BusCycle, inputs: &[u8], outputs: &[u8]) {
        let Self { image, own, told } = self;
        let mut image = image.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(event) = own.take_event() {
            image.push(&event);
            if told.len() == MOST_TOLD {
                told.pop_front();
            }
            told.push_back(event);
        }

        image.set_robot(own.robot());
        timed(&mut image, |image| image.publish(cycle, inputs, outputs));
    }
}

impl Controller for Shown {
    fn step(&mut self, cycle: &BusCycle, inputs: &[u8], outputs: &mut [u8]) {
        self.own.step(cycle, inputs, outputs);
        self.show(cycle, inputs, outputs);
    }

    fn stop(&mut self, cycle: &BusCycle, inputs: &[u8], outputs: &mut [u8]) -> bool {
        let at_rest = self.own.stop(cycle, inputs, outputs);
        self.show(cycle, inputs, outputs);
        at_rest
    }

    fn take_event(&mut self) -> Option<Event> {
        self.told.pop_front()
    }

    fn robot(&self) -> Option<RobotState> {
        self.own.robot()
    }
}

/// A transfer on its way between the loop and whoever asked for it. Both sides only try the lock.
#[derive(Clone, Debug, Default)]
struct Transfers {
    wanted: Arc<Mutex<Option<Box<Transfer>>>>,
    ended: Arc<Mutex<Option<Box<Transfer>>>>,
}

/// What the loop does for other processes.
#[derive(Debug)]
pub struct Serving {
    image: Arc<Mutex<BusSide>>,
    transfers: Transfers,
    /// Device whose state is looked at in this cycle.
    next: usize,
    counted: Counts,
}

/// What is done for them beside the loop.
#[derive(Debug)]
pub struct Attending {
    cold: ColdSide,
    transfers: Transfers,
    job: Option<SdoJob>,
}

/// Serves an image. With a controller of this process the outputs are its own; without one, whoever owns the image's outputs has them.
#[must_use]
pub fn serve(
    image: BusSide,
    controller: Option<Box<dyn Controller + Send>>,
) -> (Box<dyn Controller + Send>, Serving, Attending) {
    let cold = image.cold_side();
    let image = Arc::new(Mutex::new(image));
    let transfers = Transfers::default();
    let controller: Box<dyn Controller + Send> = match controller {
        None => Box::new(Owned(image.clone())),
        Some(own) => Box::new(Shown { image: image.clone(), own, told: VecDeque::with_capacity(MOST_TOLD) }),
    };

    let serving = Serving { image, transfers: transfers.clone(), next: 0, counted: Counts::default() };
    (controller, serving, Attending { cold, transfers, job: None })
}

impl Serving {
    /// Tells an event of the robot, before the cycle is shown in which it happened.
    pub fn tell(&mut self, event: &Event) {
        self.image.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// A cycle, of a bus whose controller was not handed out by [`serve`], and what the robot is about.
    pub fn show(&mut self, cycle: &BusCycle, (inputs, outputs): (&[u8], &[u8]), robot: Option<RobotState>) {
        let mut image = self.image.lock().unwrap_or_else(PoisonError::into_inner);
        image.set_robot(robot);
        timed(&mut image, |image| image.publish(cycle, inputs, outputs));
    }

    /// After a cycle: events, states, statistics and transfers. `keep` is given each event too; `times_ns` are its wake-up latency and its
    /// execution time.
    pub fn after<W: Wire>(
        &mut self,
        bus: &mut Bus<W>,
        cycle: &BusCycle,
        times_ns: (u64, u64),
        mut keep: impl FnMut(Event),
    ) {
        let mut image = self.image.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..EVENTS_PER_CYCLE {
            let Some(event) = bus.next_event() else { break };
            if event.device != NO_DEVICE {
                image.set_state(usize::from(event.device), state(bus, usize::from(event.device)));
            }

            match event.kind {
                EventKind::StateChanged => image.count(Counter::StateChanges, 1),
                EventKind::BusRestarted => image.count(Counter::Restarts, 1),
                _ => {}
            }

            image.push(&event);
            keep(event);
        }

        image.answered(bus.answered_at().as_ns());
        // Devices get to OP without an event of their own; one after the other is looked at.
        self.next = (self.next + 1) % bus.layout().devices.len().max(1);
        image.set_state(self.next, state(bus, self.next));
        let (counts, before) = (bus.counts(), std::mem::replace(&mut self.counted, bus.counts()));
        let differences = [
            (Counter::FramesLost, (counts.cycles - counts.answered).saturating_sub(before.cycles - before.answered)),
            (Counter::FramesLate, counts.late - before.late),
            (Counter::FramesUnknown, counts.strange() - before.strange()),
            (Counter::WorkingCounterErrors, counts.counter_off - before.counter_off),
        ];

        for (counter, n) in differences.into_iter().filter(|(_, n)| *n > 0) {
            image.count(counter, n);
        }

        image.record(Timed::WakeupLatency, times_ns.0);
        image.record(Timed::ExecutionTime, times_ns.1);
        if cycle.round_trip_ns > 0 {
            image.record(Timed::RoundTrip, u64::from(cycle.round_trip_ns));
        }

        // The frame has been sent: what is left of the cycle is nobody's waiting time.
        image.prepare();
        drop(image);
        self.carry_transfers(bus);
    }

    fn carry_transfers<W: Wire>(&self, bus: &mut Bus<W>) {
        if let Ok(mut wanted) = self.transfers.wanted.try_lock()
            && let Some(transfer) = wanted.take()
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

fn state<W: Wire>(bus: &Bus<W>, device: usize) -> DeviceState {
    match bus.al_status(device) {
        Some((status, code)) => {
            DeviceState { al_state: u16::from(status), al_status: code, presence: Presence::Present }
        }
        None => DeviceState { al_state: 0, al_status: 0, presence: Presence::Lost },
    }
}

impl Attending {
    /// Looks who has died, and carries SDO requests. To be called every few milliseconds.
    pub fn look(&mut self) {
        self.cold.tend();
        if self.job.is_none()
            && let Some(job) = self.cold.take_request()
        {
            let transfer = Box::new(Transfer::of(job.request.clone()));
            if let Ok(mut wanted) = self.transfers.wanted.lock() {
                *wanted = Some(transfer);
            }
            self.job = Some(job);
        }

        let ended = match self.transfers.ended.try_lock() {
            Ok(mut ended) => ended.take(),
            Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => None,
        };

        if let Some(outcome) = ended.and_then(|transfer| transfer.outcome())
            && let Some(job) = self.job.take()
        {
            self.cold.answer(&job, &outcome);
        }
    }
}
