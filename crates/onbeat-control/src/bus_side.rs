//! The side of the bus process: one exchange per cycle, and what may take its time beside it.

use std::mem::swap;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;
use rustix::thread::futex;

use super::abi::{CYCLE_BYTES, EVENT_BYTES, cycle_bytes};
use super::goals::{self, GoalSide};
use super::image::{ImageSettings, MappedImage, Waking};
use super::owner::{self, ClaimWords};
use super::process::Process;
use super::requests::{self, SdoAnswer, SdoJob};
use super::stats::{Counter, Timed};
use super::{ControlError, DeviceState};
use onbeat_ethercat::event::{Event, EventKind, NO_DEVICE};
use onbeat_ethercat::step::{BusCycle, RobotState};

/// The owner can overtake a reading of its outputs only by publishing four times during one copy; after so many of them the outputs
/// of the cycle before are taken.
const MOST_READINGS: u32 = 8;

/// Where the outputs of a cycle came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputsFrom {
    /// From their owner.
    Owner,
    /// Nobody owns them, or the owner has written none yet, died, or does not refresh them: they are the safe ones.
    Safe,
}

/// An image from the side of its bus. It belongs to the bus's loop; [`ColdSide`] is for other threads. When it is dropped readers are
/// told that the bus has ended, and the name is free.
#[derive(Debug)]
pub struct BusSide {
    shared: Arc<MappedImage>,
    waking: Waking,
    wanted: OwnerOutputs,
    died: u64,
    /// Who commands, as of the last cycle.
    commander: u64,
    /// What is published beside the next cycles.
    robot: Option<RobotState>,
}

/// What the owner wants, as the bus knows it.
#[derive(Debug)]
struct OwnerOutputs {
    safe: Vec<u8>,
    /// The newest outputs that were read whole, and room for the next.
    held: Vec<u8>,
    next: Vec<u8>,
    /// Who published `held`.
    held_from: u64,
    /// The owner as of the last cycle.
    owner: u64,
    publication: u64,
    /// Cycles since the owner published last.
    age: u32,
    stale_after: u32,
    is_stale_reported: bool,
}

impl BusSide {
    pub(super) fn new(shared: Arc<MappedImage>, settings: ImageSettings) -> Self {
        let outputs = shared.size.outputs;
        let safe = if settings.safe_outputs.is_empty() { vec![0; outputs] } else { settings.safe_outputs };
        let wanted = OwnerOutputs {
            held: safe.clone(),
            next: safe.clone(),
            safe,
            held_from: 0,
            owner: 0,
            publication: 0,
            age: 0,
            stale_after: settings.stale_after_cycles,
            is_stale_reported: false,
        };

        Self { shared, waking: settings.waking, wanted, died: 0, commander: 0, robot: None }
    }

    /// The one request of a cycle. Publishes the cycle, its inputs and its outputs, and puts into `outputs` what is to be sent: the
    /// owner's newest if it refreshed them within the last cycles, else the safe ones.
    ///
    /// Asks for no memory, and for nothing of the kernel but: the lock, in the two kinds of sharing that have one, when another
    /// holds it; waking those who wait, when asked for in [`ImageSettings::waking`]; the time, when something has happened.
    ///
    /// # Panics
    /// When `inputs` or `outputs` have not the layout's length.
    pub fn exchange(&mut self, cycle: &BusCycle, inputs: &[u8], outputs: &mut [u8]) -> OutputsFrom {
        let Self { shared, waking, wanted, died, commander: _, robot } = self;
        let held = shared.hold();
        let from = wanted.take(shared, cycle);
        let sent = if from == OutputsFrom::Owner { &wanted.held } else { &wanted.safe };
        outputs.copy_from_slice(sent);
        publish(shared, cycle_bytes(cycle, *robot), inputs, outputs);
        drop(held);
        if let Some(lock) = shared.lock()
            && lock.died() != *died
        {
            *died = lock.died();
            let code = lock.last_dead().map_or(0, Process::pid);
            push(shared, &event(cycle, EventKind::ReaderDied, code));
        }

        if *waking == Waking::WhenWaiting {
            wake(shared);
        }

        from
    }

    /// Publishes a cycle with the outputs that are sent, of a bus that makes them itself; see [`BusSide::keep_outputs`].
    ///
    /// # Panics
    /// As [`BusSide::exchange`].
    pub fn publish(&mut self, cycle: &BusCycle, inputs: &[u8], outputs: &[u8]) {
        const KINDS: [EventKind; 3] = [EventKind::CommanderTaken, EventKind::CommanderLeft, EventKind::CommanderDied];
        let place = goals::place(&self.shared);
        self.commander = report_change(&self.shared, cycle, (self.commander, place), KINDS);
        let held = self.shared.hold();
        publish(&self.shared, cycle_bytes(cycle, self.robot), inputs, outputs);
        drop(held);

        if self.waking == Waking::WhenWaiting {
            wake(&self.shared);
        }
    }

    /// Says what the robot is about: published with each cycle from the next one on.
    pub fn set_robot(&mut self, robot: Option<RobotState>) {
        self.robot = robot;
    }

    /// Makes the next publication quick, when nothing waits for this cycle any more; see [`Latest::prepare`](onbeat_rt::latest::Latest::prepare).
    pub fn prepare(&self) {
        self.shared.image().prepare();
    }

    /// Owns the outputs from now on: a bus with a controller in its own process. [`Client::claim`](super::Client::claim) is refused
    /// with this process.
    ///
    /// # Errors
    /// [`ControlError::Owned`] when another living process has them.
    pub fn keep_outputs(&mut self) -> Result<(), ControlError> {
        owner::claim(&self.shared)
    }

    /// The goals that another process gives to the joints of [`ImageSettings::joints`], for the loop that follows them; `None` without joints.
    #[must_use]
    pub fn goals(&self) -> Option<GoalSide> {
        GoalSide::new(Arc::clone(&self.shared))
    }

    /// Tells an event.
    pub fn push(&mut self, event: &Event) {
        push(&self.shared, event);
    }

    /// Says how the device at this place fares. A place that the layout does not have is left out.
    pub fn set_state(&self, device: usize, state: DeviceState) {
        if let Some(word) = self.shared.states().get(device) {
            word.store(state.word(), Ordering::Release);
        }
    }

    /// Records when all frames of a cycle came back last; while that is long ago, no device counts as in OP for clients.
    #[inline]
    pub fn answered(&self, at_ns: u64) {
        self.shared.header().answered_at.store(at_ns, Ordering::Relaxed);
    }

    /// Adds to a counter of the statistics. [`Counter::Cycles`] and [`Counter::StaleCycles`] are counted by the exchange.
    #[inline]
    pub fn count(&self, what: Counter, n: u64) {
        self.shared.stats().add(what, n);
    }

    /// Counts a time in the statistics.
    #[inline]
    pub fn record(&self, what: Timed, ns: u64) {
        self.shared.stats().record(what, ns);
    }

    /// What may take its time, for another thread. It keeps the memory mapped.
    #[must_use]
    pub fn cold_side(&self) -> ColdSide {
        ColdSide { shared: Arc::clone(&self.shared) }
    }
}

impl Drop for BusSide {
    fn drop(&mut self) {
        self.shared.retire();
        wake(&self.shared);
    }
}

impl OwnerOutputs {
    /// Looks who owns the outputs and what they are.
    fn take(&mut self, shared: &MappedImage, cycle: &BusCycle) -> OutputsFrom {
        const KINDS: [EventKind; 3] = [EventKind::OwnerTaken, EventKind::OwnerLeft, EventKind::OwnerDied];
        let owner = report_change(shared, cycle, (self.owner, owner::place(shared)), KINDS);
        if owner != self.owner {
            (self.owner, self.is_stale_reported) = (owner, false);
        }

        let published = shared.outputs();
        self.age = self.age.saturating_add(1);
        if published.newest() != self.publication {
            self.age = 0;
            for _ in 0..MOST_READINGS {
                let number = published.newest();
                let mut from = [0; 8];
                if published.read(number, &mut [&mut from, &mut self.next]) {
                    swap(&mut self.held, &mut self.next);
                    (self.publication, self.held_from) = (number, u64::from_ne_bytes(from));
                    break;
                }
            }
        }

        if owner == 0 || self.held_from != owner {
            return OutputsFrom::Safe;
        }

        if self.age <= self.stale_after {
            self.is_stale_reported = false;
            return OutputsFrom::Owner;
        }

        shared.stats().add(Counter::StaleCycles, 1);
        if !self.is_stale_reported {
            self.is_stale_reported = true;
            push(shared, &event(cycle, EventKind::OutputsStale, self.age));
        }

        OutputsFrom::Safe
    }
}

/// Who has a place now; tells by one of these kinds who took it, left it, or died, when that is not who had it before.
fn report_change(
    shared: &MappedImage,
    cycle: &BusCycle,
    (before, place): (u64, ClaimWords<'_>),
    [taken, left, died]: [EventKind; 3],
) -> u64 {
    let now = place.holder.load(Ordering::Acquire);
    if now == before {
        return now;
    }

    if let Some(gone) = Process::from_word(before) {
        let has_left = place.left.load(Ordering::Acquire) == before;
        push(shared, &event(cycle, if has_left { left } else { died }, gone.pid()));
    }

    if let Some(new) = Process::from_word(now) {
        push(shared, &event(cycle, taken, new.pid()));
    }

    now
}

/// The side of the bus process for threads that are not its loop.
#[derive(Clone, Debug)]
pub struct ColdSide {
    shared: Arc<MappedImage>,
}

impl ColdSide {
    /// Looks who has died: a dead owner loses the outputs, a dead commander its place, a dead requester its request. Call it every ten
    /// milliseconds or so, not in the loop: it reads `/proc`.
    pub fn tend(&self) {
        owner::place(&self.shared).free_of_dead();
        goals::place(&self.shared).free_of_dead();
        requests::drop_dead(self.shared.requests());
    }

    /// The oldest SDO request that waits. Each one that is taken must be answered, whatever comes of it.
    #[must_use]
    pub fn take_request(&self) -> Option<SdoJob> {
        requests::take(self.shared.requests())
    }

    /// Answers a request. If nobody waits for it any more, its record is free.
    pub fn answer(&self, job: &SdoJob, answer: &SdoAnswer) {
        requests::answer(self.shared.requests(), job, answer);
    }

    /// As [`BusSide::set_state`].
    pub fn set_state(&self, device: usize, state: DeviceState) {
        if let Some(word) = self.shared.states().get(device) {
            word.store(state.word(), Ordering::Release);
        }
    }

    /// As [`BusSide::count`].
    pub fn count(&self, what: Counter, n: u64) {
        self.shared.stats().add(what, n);
    }

    /// As [`BusSide::record`].
    pub fn record(&self, what: Timed, ns: u64) {
        self.shared.stats().record(what, ns);
    }
}

fn publish(shared: &MappedImage, cycle: [u8; CYCLE_BYTES], inputs: &[u8], outputs: &[u8]) {
    let lengths = (shared.size.inputs, shared.size.outputs);
    assert_eq!((inputs.len(), outputs.len()), lengths, "inputs and outputs have the lengths of the layout");
    shared.image().publish(&[&cycle, inputs, outputs]);
    shared.stats().add_alone(Counter::Cycles, 1);
}

fn wake(shared: &MappedImage) {
    let live = shared.live();
    // A waiter says that it waits, then looks for a new image; here it is the other way round. One of both sees the other.
    fence(Ordering::SeqCst);
    if live.waiting.0.swap(0, Ordering::AcqRel) != 0 {
        live.wake.0.fetch_add(1, Ordering::Release);
        // Nobody there is no error.
        let _ = futex::wake(&live.wake.0, futex::Flags::empty(), i32::MAX.cast_unsigned());
    }
}

fn event(cycle: &BusCycle, kind: EventKind, code: u32) -> Event {
    Event { at_ns: Monotonic.now().as_ns(), cycle: cycle.cycle, kind, device: NO_DEVICE, old: 0, new: 0, code }
}

fn push(shared: &MappedImage, event: &Event) {
    let small = [event.kind as u16, event.device, event.old, event.new];
    let mut bytes = [0; EVENT_BYTES];
    bytes[..8].copy_from_slice(&event.at_ns.to_ne_bytes());
    bytes[8..16].copy_from_slice(&event.cycle.to_ne_bytes());
    for (place, half) in bytes[16..24].chunks_exact_mut(2).zip(small) {
        place.copy_from_slice(&half.to_ne_bytes());
    }

    bytes[24..28].copy_from_slice(&event.code.to_ne_bytes());
    shared.events().publish(&[&bytes]);
}
