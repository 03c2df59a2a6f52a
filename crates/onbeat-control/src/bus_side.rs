//! Bus process side: one exchange per cycle in the loop, and further work on other threads.

use std::mem::swap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use onbeat_ethercat::event::{Event, EventKind, EventValues, NO_DEVICE};
use onbeat_ethercat::link_errors::LinkErrors;
use onbeat_ethercat::step::{BusCycle, RobotState};
use onbeat_rt::Clock;
use onbeat_rt::latest::Latest;
use onbeat_rt::sys::Monotonic;

use super::abi::{CYCLE_BYTES, EVENT_BYTES, cycle_bytes};
use super::area::Inward;
use super::bus_condition::CableLink;
use super::device_state::DeviceState;
use super::error::ControlError;
use super::error_record;
use super::goals::GoalSide;
use super::image::MappedImage;
use super::lock::ImageGuard;
use super::request::RequestAnswer;
use super::requests::RequestJob;
use super::service::{Service, ServiceThread};
use super::settings::ImageSettings;
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
    service: Arc<Service>,
    _thread: ServiceThread,
    wanted: OwnerOutputs,
    lock: LoopLock,
    /// Changes of roles until here were taken into account, and generation of those published.
    heard: u32,
    changes: u32,
    /// State of the robot, published with the next cycles.
    robot: Option<RobotState>,
}

#[derive(Debug)]
struct OwnerOutputs {
    /// The owner's slots, their generation, and whether there is an owner.
    slots: Option<Arc<Inward>>,
    seen: u32,
    is_owned: bool,
    safe: Vec<u8>,
    /// The last outputs read completely, and a buffer for the next.
    held: Vec<u8>,
    next: Vec<u8>,
    /// Whether `held` is this owner's.
    is_owners: bool,
    publication: u64,
    /// Cycles since the owner's last publication.
    age: u32,
    stale_after: u32,
    is_stale_reported: bool,
}

/// How the loop uses the lock, in the two kinds of sharing with one: it waits at most `wait`, and
/// after that does not wait again until it has got the lock.
#[derive(Debug)]
struct LoopLock {
    wait: Duration,
    is_refused: bool,
}

/// A lock that was taken, and what is to be reported of it.
struct LoopHold<'l> {
    _guard: Option<ImageGuard<'l>>,
    event: Option<(EventKind, u32)>,
}

impl LoopLock {
    #[inline]
    fn hold<'l>(&mut self, shared: &'l MappedImage) -> LoopHold<'l> {
        let Some(lock) = &shared.lock else { return LoopHold { _guard: None, event: None } };
        let guard = lock.hold(if self.is_refused { Duration::ZERO } else { self.wait });
        let was_refused = std::mem::replace(&mut self.is_refused, guard.is_none());
        let event = match &guard {
            Some(guard) => guard.dead.map(|pid| (EventKind::ReaderDied, pid)),
            None => {
                shared.stats().add(Counter::LockTimeouts, 1);
                let us = u32::try_from(self.wait.as_micros()).unwrap_or(u32::MAX);
                (!was_refused).then_some((EventKind::LockTimeout, us))
            }
        };
        LoopHold { _guard: guard, event }
    }
}

impl BusSide {
    pub(super) fn new(
        service: Arc<Service>,
        thread: ServiceThread,
        settings: ImageSettings,
    ) -> Self {
        let shared = Arc::clone(&service.image);
        let outputs = shared.size.outputs;
        let safe =
            if settings.safe_outputs.is_empty() { vec![0; outputs] } else { settings.safe_outputs };
        let wanted = OwnerOutputs {
            slots: None,
            seen: 0,
            is_owned: false,
            held: safe.clone(),
            next: safe.clone(),
            safe,
            is_owners: false,
            publication: 0,
            age: 0,
            stale_after: settings.stale_after_cycles,
            is_stale_reported: false,
        };
        let lock = LoopLock { wait: settings.lock_wait, is_refused: false };

        let (heard, changes, robot) = (0, 0, None);
        Self { shared, service, _thread: thread, wanted, lock, heard, changes, robot }
    }

    /// Exchanges the image once per cycle. Publishes the cycle with inputs and outputs, and writes
    /// the outputs to send into `outputs`: the owner's, if it refreshed them recently, else the
    /// safe ones.
    ///
    /// Does not allocate. Makes system calls only for a contended lock (in the two kinds of sharing
    /// with a lock), at most for [`ImageSettings::lock_wait`], and to read the time of an event.
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
        self.listen(cycle);
        let Self { shared, wanted, lock, robot, .. } = self;
        let held = lock.hold(shared);
        let from = wanted.take(shared, cycle);
        let sent = if from == OutputsFrom::Owner { &wanted.held } else { &wanted.safe };
        outputs.copy_from_slice(sent);
        publish(shared, cycle_bytes(cycle, *robot), inputs, outputs);
        report_lock(shared, held, cycle);
        from
    }

    /// Publishes a cycle with the outputs sent, for a bus with its own controller; see
    /// [`BusSide::keep_outputs`].
    ///
    /// # Panics
    /// As [`BusSide::exchange`].
    pub fn publish(&mut self, cycle: &BusCycle, inputs: &[u8], outputs: &[u8]) {
        self.listen(cycle);
        let Self { shared, lock, robot, .. } = self;
        let held = lock.hold(shared);
        publish(shared, cycle_bytes(cycle, *robot), inputs, outputs);
        report_lock(shared, held, cycle);
    }

    /// Takes changes of roles into account.
    #[inline]
    fn listen(&mut self, cycle: &BusCycle) {
        let bell = self.service.bell.load(Ordering::Acquire);
        if bell != self.heard {
            self.hear(bell, cycle);
        }
    }

    #[cold]
    fn hear(&mut self, bell: u32, cycle: &BusCycle) {
        let Self { shared, service, wanted, changes, .. } = self;
        for change in service.changes.take(changes).into_iter().flatten() {
            push(shared, &event(cycle, change.kind, change.pid));
        }
        wanted.hear(service);
        // What is just being changed is heard in the next cycle.
        if !service.changes.is_new(*changes) && !service.outputs.is_new(wanted.seen) {
            self.heard = bell;
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
    /// [`ControlError::Owned`] if another process owns them.
    pub fn keep_outputs(&mut self) -> Result<(), ControlError> {
        self.service.keep_outputs()
    }

    /// Returns the goals for the joints in [`ImageSettings::joints`], for the loop that follows
    /// them; `None` without joints.
    #[must_use]
    pub fn goals(&self) -> Option<GoalSide> {
        GoalSide::new(Arc::clone(&self.service))
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
        ColdSide { service: Arc::clone(&self.service) }
    }
}

impl Drop for BusSide {
    fn drop(&mut self) {
        self.shared.retire();
    }
}

impl OwnerOutputs {
    /// Takes a new owner's slots, or notes that there is none.
    fn hear(&mut self, service: &Service) {
        if service.outputs.is_new(self.seen)
            && service.outputs.take(&mut self.seen, &mut self.slots)
        {
            (self.is_owners, self.is_stale_reported) = (false, false);
            // Numbers of a new owner go on from the last one's.
            self.publication = self.slots.as_ref().map_or(0, |slots| slots.began);
            self.age = 0;
        }
        self.is_owned = self.slots.as_ref().is_some_and(|slots| !slots.is_closed());
    }

    /// Reads the owner's outputs.
    fn take(&mut self, shared: &MappedImage, cycle: &BusCycle) -> OutputsFrom {
        let Some(slots) = self.slots.as_ref().filter(|_| self.is_owned) else {
            return OutputsFrom::Safe;
        };
        self.age = self.age.saturating_add(1);
        // An owner slower than the bus costs most cycles this comparison only.
        if slots.newest() != self.publication
            && let Some(number) = read_newest(&slots.slots(), self.publication, &mut self.next)
        {
            swap(&mut self.held, &mut self.next);
            (self.publication, self.is_owners, self.age) = (number, true, 0);
        }

        if !self.is_owners {
            return OutputsFrom::Safe;
        }

        if self.age <= self.stale_after {
            self.is_stale_reported = false;
            return OutputsFrom::Owner;
        }

        shared.stats().add_alone(Counter::StaleCycles, 1);
        if !self.is_stale_reported {
            self.is_stale_reported = true;
            push(shared, &event(cycle, EventKind::OutputsStale, self.age));
        }

        OutputsFrom::Safe
    }
}

/// Copies the newest outputs, unless they are those of `seen` or change while they are read. Returns
/// their number.
fn read_newest(published: &Latest<'_>, seen: u64, into: &mut [u8]) -> Option<u64> {
    (0..MOST_READINGS)
        .map(|_| published.newest())
        .take_while(|number| *number != seen)
        .find(|number| published.read(*number, &mut [&mut *into]))
}

/// Releases the lock, and reports what there was with it.
#[inline]
fn report_lock(shared: &MappedImage, held: LoopHold<'_>, cycle: &BusCycle) {
    let LoopHold { _guard: guard, event: reported } = held;
    drop(guard);
    if let Some((kind, code)) = reported {
        push(shared, &event(cycle, kind, code));
    }
}

/// Bus process side for threads other than the loop.
#[derive(Clone, Debug)]
pub struct ColdSide {
    service: Arc<Service>,
}

impl ColdSide {
    /// Handles what clients have sent until now. A thread of the image does so anyway, within
    /// milliseconds.
    pub fn tend(&self) {
        // An error, such as no free descriptor, is met again by that thread.
        let _ = self.service.serve();
    }

    /// Takes the oldest pending request. Every taken request must be answered.
    #[must_use]
    pub fn take_request(&self) -> Option<RequestJob> {
        self.service.take_request()
    }

    /// Answers a request; nobody gets the answer if the requester has given up.
    pub fn answer(&self, job: &RequestJob, answer: &RequestAnswer) {
        self.service.answer(job, answer);
    }

    /// Returns the number of connections that were dropped because their client sent no valid
    /// message, did not read its answers, or was refused before it read why.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.service.dropped.load(Ordering::Relaxed)
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

fn event(cycle: &BusCycle, kind: EventKind, code: u32) -> Event {
    let at = (Monotonic.now().as_ns(), cycle.cycle);
    Event::new(at, kind, NO_DEVICE, EventValues::from_code(code))
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
