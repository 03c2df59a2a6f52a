//! Bus process side: one exchange per cycle in the loop, and further work on other threads.

use std::mem::swap;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use onbeat_ethercat::event::{Event, EventKind, NO_DEVICE};
use onbeat_ethercat::link_errors::LinkErrors;
use onbeat_ethercat::step::{BusCycle, RobotState};
use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;
use rustix::thread::futex;

use super::abi::{CYCLE_BYTES, EVENT_BYTES, cycle_bytes};
use super::bus_condition::CableLink;
use super::claim::{self, ClaimWords};
use super::device_state::DeviceState;
use super::error::ControlError;
use super::error_record;
use super::goals::GoalSide;
use super::image::MappedImage;
use super::process::Process;
use super::request::RequestAnswer;
use super::requests::{self, RequestJob};
use super::settings::{ImageSettings, Waking};
use super::stats::{Counter, Timed};

/// Maximum number of attempts to read the owner's outputs. An attempt fails only if the owner
/// publishes four times during one copy; then the outputs of the previous cycle are used.
const MOST_READINGS: u32 = 8;

/// Source of the outputs of a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputsFrom {
    /// The owner.
    Owner,
    /// Safe outputs: the bus has no owner, or the owner has not written yet, died, or does not
    /// refresh them.
    Safe,
}

/// An image, seen from its bus. It belongs to the bus's loop; [`ColdSide`] is for other threads.
/// Dropping it reports the end of the bus to readers, and frees the name.
#[derive(Debug)]
pub struct BusSide {
    shared: Arc<MappedImage>,
    waking: Waking,
    wanted: OwnerOutputs,
    died: u64,
    /// The commander as of the last cycle.
    commander: u64,
    /// State of the robot, published with the next cycles.
    robot: Option<RobotState>,
}

/// Outputs of the owner.
#[derive(Debug)]
struct OwnerOutputs {
    safe: Vec<u8>,
    /// The last outputs read completely, and a buffer for the next.
    held: Vec<u8>,
    next: Vec<u8>,
    /// Process that published `held`.
    held_from: u64,
    /// The owner as of the last cycle.
    owner: u64,
    publication: u64,
    /// Cycles since the owner's last publication.
    age: u32,
    stale_after: u32,
    is_stale_reported: bool,
}

impl BusSide {
    pub(super) fn new(shared: Arc<MappedImage>, settings: ImageSettings) -> Self {
        let outputs = shared.size.outputs;
        let safe =
            if settings.safe_outputs.is_empty() { vec![0; outputs] } else { settings.safe_outputs };
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

    /// Exchanges the image once per cycle. Publishes the cycle with inputs and outputs, and writes
    /// the outputs to send into `outputs`: the owner's, if it refreshed them recently, else the
    /// safe ones.
    ///
    /// Does not allocate. Makes system calls only for a contended lock (in the two kinds of sharing
    /// with a lock), to wake waiting processes if [`ImageSettings::waking`] says so, and to read
    /// the time of an event.
    ///
    /// # Panics
    /// If `inputs` or `outputs` differ in length from the layout.
    ///
    /// ```
    /// # use onbeat_control::{Image, Sharing};
    /// # use onbeat_ethercat::layout::Layout;
    /// # use onbeat_ethercat::step::BusCycle;
    /// # let name = format!("example-exchange-{}", std::process::id());
    /// # let layout = Layout { input_bytes: 4, output_bytes: 4, ..Layout::default() };
    /// # let mut bus = Image::create(&name, &layout, Sharing::WaitFree)?;
    /// use onbeat_control::OutputsFrom;
    ///
    /// let mut outputs = [0; 4];
    /// let from = bus.exchange(&BusCycle::default(), &[1, 2, 3, 4], &mut outputs);
    /// assert_eq!((from, outputs), (OutputsFrom::Safe, [0; 4]), "nobody owns them: safe outputs");
    /// # Ok::<(), onbeat_control::ControlError>(())
    /// ```
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

    /// Publishes a cycle with the outputs sent, for a bus with its own controller; see
    /// [`BusSide::keep_outputs`].
    ///
    /// # Panics
    /// As [`BusSide::exchange`].
    pub fn publish(&mut self, cycle: &BusCycle, inputs: &[u8], outputs: &[u8]) {
        let place = claim::commander(&self.shared);
        self.commander = report_change(&self.shared, cycle, place, self.commander, OF_COMMANDER);
        let held = self.shared.hold();
        publish(&self.shared, cycle_bytes(cycle, self.robot), inputs, outputs);
        drop(held);

        if self.waking == Waking::WhenWaiting {
            wake(&self.shared);
        }
    }

    /// Sets the state of the robot, published from the next cycle on.
    pub fn set_robot(&mut self, robot: Option<RobotState>) {
        self.robot = robot;
    }

    /// Prepares the next publication outside the time-critical part of a cycle; see
    /// [`Latest::prepare`](onbeat_rt::latest::Latest::prepare).
    pub fn prepare(&self) {
        self.shared.image().prepare();
    }

    /// Claims the outputs for this process, for a bus with its own controller.
    /// [`Client::claim`](super::Client::claim) is refused then.
    ///
    /// # Errors
    /// [`ControlError::Owned`] if another living process owns them.
    pub fn keep_outputs(&mut self) -> Result<(), ControlError> {
        claim::take_outputs(&self.shared)
    }

    /// Returns the goals for the joints in [`ImageSettings::joints`], for the loop that follows
    /// them; `None` without joints.
    #[must_use]
    pub fn goals(&self) -> Option<GoalSide> {
        GoalSide::new(Arc::clone(&self.shared))
    }

    /// Publishes an event.
    pub fn push(&mut self, event: &Event) {
        push(&self.shared, event);
    }

    /// Publishes the state of a device. A position outside the layout is ignored.
    pub fn set_state(&self, device: usize, state: DeviceState) {
        if let Some(word) = self.shared.states().get(device) {
            word.store(state.word(), Ordering::Release);
        }
    }

    /// Publishes the errors that a device has counted since the bus came up. A position outside the
    /// layout is ignored.
    pub fn set_link_errors(&self, device: usize, errors: &LinkErrors) {
        error_record::store(self.shared.link_errors(), device, errors);
    }

    /// Records when all frames of a cycle were last answered. Clients count no device as in OP
    /// while that is long ago.
    #[inline]
    pub fn answered(&self, at_ns: u64) {
        self.shared.header().answered_at.store(at_ns, Ordering::Relaxed);
    }

    /// Publishes the link of the interface, and the number of devices that processed the last
    /// frame.
    #[inline]
    pub fn set_link(&self, link: CableLink, answering: u16) {
        let header = self.shared.header();
        header.link.store(link as u32, Ordering::Relaxed);
        header.answering.store(answering.into(), Ordering::Relaxed);
    }

    /// Increments a counter of the statistics. [`Counter::Cycles`] and [`Counter::StaleCycles`] are
    /// counted by the exchange.
    #[inline]
    pub fn count(&self, what: Counter, n: u64) {
        self.shared.stats().add(what, n);
    }

    /// Records a duration in the statistics.
    #[inline]
    pub fn record(&self, what: Timed, ns: u64) {
        self.shared.stats().record(what, ns);
    }

    /// Returns the side for other threads. It keeps the memory mapped.
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
    /// Reads the owner and its outputs.
    fn take(&mut self, shared: &MappedImage, cycle: &BusCycle) -> OutputsFrom {
        let owner = report_change(shared, cycle, claim::owner(shared), self.owner, OF_OWNER);
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

/// The kinds of event by which a role changes hands.
#[derive(Clone, Copy, Debug)]
struct RoleEvents {
    taken: EventKind,
    left: EventKind,
    died: EventKind,
}

const OF_COMMANDER: RoleEvents = RoleEvents {
    taken: EventKind::CommanderTaken,
    left: EventKind::CommanderLeft,
    died: EventKind::CommanderDied,
};
const OF_OWNER: RoleEvents = RoleEvents {
    taken: EventKind::OwnerTaken,
    left: EventKind::OwnerLeft,
    died: EventKind::OwnerDied,
};

/// Returns the present holder of a role; reports that it was taken, left, or lost by death since
/// `before`.
fn report_change(
    shared: &MappedImage,
    cycle: &BusCycle,
    place: ClaimWords<'_>,
    before: u64,
    events: RoleEvents,
) -> u64 {
    let now = place.holder.load(Ordering::Acquire);
    if now == before {
        return now;
    }

    if let Some(gone) = Process::from_word(before) {
        let has_left = place.left.load(Ordering::Acquire) == before;
        push(shared, &event(cycle, if has_left { events.left } else { events.died }, gone.pid()));
    }

    if let Some(new) = Process::from_word(now) {
        push(shared, &event(cycle, events.taken, new.pid()));
    }

    now
}

/// Bus process side for threads other than the loop.
#[derive(Clone, Debug)]
pub struct ColdSide {
    shared: Arc<MappedImage>,
}

impl ColdSide {
    /// Frees the roles and requests of dead processes. Call it about every 10 ms, outside the loop:
    /// it reads `/proc`.
    pub fn tend(&self) {
        claim::owner(&self.shared).free_of_dead();
        claim::commander(&self.shared).free_of_dead();
        requests::drop_dead(self.shared.requests());
    }

    /// Takes the oldest pending request. Every taken request must be answered.
    #[must_use]
    pub fn take_request(&self) -> Option<RequestJob> {
        requests::take(self.shared.requests())
    }

    /// Answers a request, and frees its record if the requester has given up.
    pub fn answer(&self, job: &RequestJob, answer: &RequestAnswer) {
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
    assert_eq!(
        (inputs.len(), outputs.len()),
        lengths,
        "inputs and outputs have the lengths of the layout"
    );
    shared.image().publish(&[&cycle, inputs, outputs]);
    shared.stats().add_alone(Counter::Cycles, 1);
}

fn wake(shared: &MappedImage) {
    let live = shared.live();
    // A waiter first sets `waiting`, then looks for a new image; here the order is reversed, so at
    // least one side sees the other.
    fence(Ordering::SeqCst);
    if live.waiting.0.swap(0, Ordering::AcqRel) != 0 {
        live.wake.0.fetch_add(1, Ordering::Release);
        // It is not an error if no process waits.
        let _ = futex::wake(&live.wake.0, futex::Flags::empty(), i32::MAX.cast_unsigned());
    }
}

fn event(cycle: &BusCycle, kind: EventKind, code: u32) -> Event {
    Event {
        at_ns: Monotonic.now().as_ns(),
        cycle: cycle.cycle,
        kind,
        device: NO_DEVICE,
        old: 0,
        new: 0,
        code,
    }
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
