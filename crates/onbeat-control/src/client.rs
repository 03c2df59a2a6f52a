//! The side of all other processes: reading, waiting, events, statistics, requests.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::thread::sleep;
use std::time::{Duration, Instant};

use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;
use rustix::thread::futex;
use rustix::time::Timespec;

use super::abi::{CYCLE_BYTES, EVENT_BYTES, EVENTS, cycle_of};
use super::goals::{self, Commander, Joint};
use super::image::{MappedImage, Waking};
use super::owner::Owner;
use super::process::Process;
use super::requests::{self, SdoAnswer, SdoRequest};
use super::stats::Stats;
use super::{ControlError, DeviceState, Presence, Sharing};
use onbeat_ethercat::event::{Event, EventKind};
use onbeat_ethercat::layout::{DeviceLayout, Layout};
use onbeat_ethercat::step::{BusCycle, RobotState};

/// A reader that is overtaken so often reads while the bus publishes without a pause.
const MOST_TRIES: u32 = 1000;
/// The bus process is looked for when there was no cycle for so long.
const QUIET: Duration = Duration::from_millis(100);
/// And for so many cycles, before states of devices count as old.
const PATIENT_CYCLES: u64 = 10;
/// How often a waiter looks when the bus does not wake it.
const LOOK_EVERY: Duration = Duration::from_micros(50);

/// A cycle with all its values, of one piece.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Which publication it is, from 1; 0 when nothing was read yet.
    pub number: u64,
    /// The cycle.
    pub cycle: BusCycle,
    /// What the robot is about; `None` where the bus process moves no joints.
    pub robot: Option<RobotState>,
    /// Inputs of all devices.
    pub inputs: Vec<u8>,
    /// Outputs as they were sent in that cycle.
    pub outputs: Vec<u8>,
    /// How often this reader was overtaken by the bus and read again, in all its readings.
    pub retries: u64,
}

impl Snapshot {
    pub(super) fn for_image(shared: &MappedImage) -> Self {
        Self { inputs: vec![0; shared.size.inputs], outputs: vec![0; shared.size.outputs], ..Self::default() }
    }
}

/// A device as it should be, and how it fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// As it should be.
    pub layout: DeviceLayout,
    /// How it fares.
    pub state: DeviceState,
}

/// EventBatch since some number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventBatch {
    /// In order, each with its number.
    pub events: Vec<(u64, Event)>,
    /// What to ask for next time.
    pub next: u64,
    /// How many were overwritten before they could be read.
    pub missed: u64,
}

/// How a bus fares, in a few words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusState {
    /// Name of the image.
    pub name: String,
    /// Name of the segment.
    pub segment: String,
    /// The bus process.
    pub pid: u32,
    /// How the image is shared.
    pub sharing: Sharing,
    /// How many bus processes have had the name in a row, each killed before the next.
    pub generation: u64,
    /// Fingerprint of the device table.
    pub layout_hash: u64,
    /// The last cycle, `None` before the first.
    pub cycle: Option<BusCycle>,
    /// What the robot is about; `None` where the bus process moves no joints.
    pub robot: Option<RobotState>,
    /// Devices there should be.
    pub devices: usize,
    /// Devices in OP; none while nothing comes back.
    pub in_op: usize,
    /// Whether anything comes back.
    pub outage: Outage,
    /// Owner of the outputs: process id and name.
    pub owner: Option<(u32, String)>,
    /// Who commands joints: process id and name.
    pub commander: Option<(u32, String)>,
    /// EventBatch so far.
    pub events: u64,
}

/// Whether states of devices are of now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// They are.
    None,
    /// The bus process runs no cycles, for so many ns: it is stopped, or has not begun.
    NoCycle(u64),
    /// It does, and no frame has come back in time, for so many ns.
    NoAnswer(u64),
}

impl Outage {
    /// How long nothing has come back, in ns, for whatever reason.
    #[must_use]
    pub const fn ns(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::NoCycle(ns) | Self::NoAnswer(ns) => Some(ns),
        }
    }
}

impl std::fmt::Display for Outage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = |ns: &u64| *ns as f64 / 1e9;
        match self {
            Self::None => write!(f, "answers come"),
            Self::NoCycle(ns) => write!(f, "no cycle for {:.1} s", seconds(ns)),
            Self::NoAnswer(ns) => write!(f, "no answer for {:.1} s", seconds(ns)),
        }
    }
}

/// An image from the side of any other process.
#[derive(Debug)]
pub struct Client {
    shared: Arc<MappedImage>,
    waiter: CycleWaiter,
}

impl Client {
    /// The image of the running bus of this name.
    ///
    /// # Errors
    /// [`ControlError`]: no bus of the name, a dead one, one of another version.
    pub fn open(name: &str) -> Result<Self, ControlError> {
        let shared = MappedImage::open(name)?;
        Ok(Self { waiter: CycleWaiter::new(&shared), shared: Arc::new(shared) })
    }

    /// What [`Client::read`] reads into.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::for_image(&self.shared)
    }

    /// Reads the newest cycle: all of it is of one publication.
    ///
    /// # Errors
    /// [`ControlError::BusEnded`], [`ControlError::BusReplaced`], [`ControlError::BusDied`] (noticed when there was no new cycle for
    /// 100 ms), [`ControlError::NoCycleYet`].
    pub fn read(&mut self, into: &mut Snapshot) -> Result<(), ControlError> {
        self.waiter.read(&self.shared, into)
    }

    /// As [`Client::read`], and stays inside so long as a slow reader would. Where the sharing has a lock, the bus and all others wait
    /// meanwhile: it shows what that costs.
    ///
    /// # Errors
    /// As [`Client::read`].
    pub fn read_slowly(&mut self, into: &mut Snapshot, stay: Duration) -> Result<(), ControlError> {
        let _held = self.shared.hold();
        let began = Instant::now();
        self.waiter.read_within(&self.shared, into)?;
        while began.elapsed() < stay {
            std::hint::spin_loop();
        }

        Ok(())
    }

    /// Waits until there is a newer cycle than the one read last, at most so long; whether there is.
    ///
    /// # Errors
    /// As [`Client::read`].
    pub fn wait_next(&mut self, timeout: Duration) -> Result<bool, ControlError> {
        let last = self.waiter.last;
        self.waiter.wait_beyond(&self.shared, last, timeout)
    }

    /// What the segment should be, and where its values stand.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.shared.layout()
    }

    /// All devices in the order of the cable. While nothing comes back, they are lost.
    #[must_use]
    pub fn devices(&self) -> Vec<DeviceInfo> {
        let states = self.states(self.state().outage);
        let devices = self.shared.layout().devices.into_iter();
        devices.zip(states).map(|(layout, state)| DeviceInfo { layout, state }).collect()
    }

    /// EventBatch from number `from` on; 1 is the first one ever.
    #[must_use]
    pub fn events(&self, from: u64) -> EventBatch {
        let ring = self.shared.events();
        let newest = ring.newest();
        let from = from.max(1);
        // The oldest slot is the next one to be written.
        let oldest = (newest + 1).saturating_sub(EVENTS as u64 - 1).max(1);
        let mut found = EventBatch { next: newest + 1, missed: oldest.saturating_sub(from), ..EventBatch::default() };
        for number in from.max(oldest)..=newest {
            let mut bytes = [0; EVENT_BYTES];
            match ring.read(number, &mut [&mut bytes]).then(|| event_of(&bytes)).flatten() {
                Some(event) => found.events.push((number, event)),
                None => found.missed += 1,
            }
        }

        found
    }

    /// The statistics.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.stats().copy()
    }

    /// State and statistics, a line `KEY VALUE` each, as the paper's entry in the proc file system had them; see `docs/control.md`.
    #[must_use]
    pub fn stats_text(&self) -> String {
        let state = self.state();
        let mut text = String::new();
        let pid = |of: Option<(u32, String)>| of.map_or(0, |(pid, _)| pid).to_string();
        let lines = [
            ("bus", state.name),
            ("segment", state.segment),
            ("bus_pid", state.pid.to_string()),
            ("sharing", state.sharing.to_string()),
            ("generation", state.generation.to_string()),
            ("owner_pid", pid(state.owner)),
            ("commander_pid", pid(state.commander)),
            ("devices", state.devices.to_string()),
            ("devices_in_op", state.in_op.to_string()),
            ("no_answer_ns", state.outage.ns().unwrap_or_default().to_string()),
            ("events", state.events.to_string()),
        ];

        for (key, value) in lines {
            let _ = writeln!(text, "{key} {value}");
        }

        text.push_str(&self.stats().to_text());
        text
    }

    /// States of devices as far as they are of now.
    fn states(&self, outage: Outage) -> impl Iterator<Item = DeviceState> {
        let lost = DeviceState { al_state: 0, al_status: 0, presence: Presence::Lost };
        let words = self.shared.states().iter().map(|word| DeviceState::from_word(word.load(Ordering::Acquire)));
        words.map(move |state| if outage == Outage::None { state } else { lost })
    }

    /// Whether anything comes back, as of now. `cycle` is the last one.
    fn outage(&self, cycle: Option<&BusCycle>) -> Outage {
        let Some(cycle) = cycle else { return Outage::None };
        let now_ns = Monotonic.now().as_ns();
        let patience_ns = QUIET.as_nanos() as u64 + PATIENT_CYCLES * cycle.dt_ns;
        let since = |at_ns: u64| now_ns.saturating_sub(at_ns);
        let answered_at = self.shared.header().answered_at.load(Ordering::Relaxed);
        if since(cycle.release_ns) > patience_ns {
            return Outage::NoCycle(since(cycle.release_ns));
        }

        // A bus that says nothing of it is one of a test, or of a program that has no devices.
        let is_quiet = answered_at != 0 && since(answered_at) > patience_ns;
        if is_quiet { Outage::NoAnswer(since(answered_at)) } else { Outage::None }
    }

    /// How the bus fares.
    #[must_use]
    pub fn state(&self) -> BusState {
        let header = self.shared.header();
        let mut last = self.snapshot();
        let cycle = CycleWaiter::new(&self.shared).read(&self.shared, &mut last).ok().map(|()| last.cycle);
        let live = self.shared.live();
        let holder = |word: u64| Process::from_word(word).map(|process| (process.pid(), process.name()));
        let outage = self.outage(cycle.as_ref());
        BusState {
            name: self.shared.name.clone(),
            segment: self.shared.layout().name,
            pid: Process::from_word(header.bus.load(Ordering::Relaxed)).map_or(0, Process::pid),
            sharing: self.shared.sharing,
            generation: header.generation.load(Ordering::Relaxed),
            layout_hash: header.layout_hash.load(Ordering::Relaxed),
            cycle,
            robot: last.robot,
            devices: self.shared.size.devices,
            in_op: self.states(outage).filter(|state| state.al_state == 8).count(),
            outage,
            owner: holder(live.owner.0.load(Ordering::Acquire)),
            commander: holder(live.commander.0.load(Ordering::Acquire)),
            events: self.shared.events().newest(),
        }
    }

    /// Whether the bus runs and its process lives.
    ///
    /// # Errors
    /// [`ControlError::BusEnded`], [`ControlError::BusReplaced`], [`ControlError::BusDied`].
    pub fn check(&self) -> Result<(), ControlError> {
        self.shared.check_alive()
    }

    /// Asks for an SDO transfer and waits for what comes of it, at most so long.
    ///
    /// # Errors
    /// [`ControlError`] when it could not be asked or nobody answered; what the device says is in the answer.
    pub fn request(&self, request: &SdoRequest, timeout: Duration) -> Result<SdoAnswer, ControlError> {
        requests::ask(&self.shared, request, timeout)
    }

    /// Takes the outputs for this process.
    ///
    /// # Errors
    /// [`ControlError::Owned`] with the process that has them; a dead one loses them.
    pub fn claim(&self) -> Result<Owner, ControlError> {
        Owner::new(Arc::clone(&self.shared))
    }

    /// Joints that follow goals, with their names; none where no goals are followed.
    #[must_use]
    pub fn joints(&self) -> Vec<(String, Joint)> {
        goals::joints(&self.shared)
    }

    /// Commands the joints from now on.
    ///
    /// # Errors
    /// [`ControlError::NoGoals`] where nothing follows goals, [`ControlError::Commanded`] with the process that commands already; a dead
    /// one loses its place.
    pub fn command(&self) -> Result<Commander, ControlError> {
        Commander::new(Arc::clone(&self.shared))
    }
}

fn event_of(bytes: &[u8; EVENT_BYTES]) -> Option<Event> {
    let word = |at: usize| bytes[at..at + 8].try_into().ok().map(u64::from_ne_bytes);
    let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
    Some(Event {
        at_ns: word(0)?,
        cycle: word(8)?,
        kind: EventKind::from_number(half(16))?,
        device: half(18),
        old: half(20),
        new: half(22),
        code: word(24)? as u32,
    })
}

/// What a reader knows of the cycles it has seen.
#[derive(Debug)]
pub(super) struct CycleWaiter {
    last: u64,
    changed: Instant,
    looked: Instant,
    retries: u64,
    is_woken: bool,
}

impl CycleWaiter {
    pub(super) fn new(shared: &MappedImage) -> Self {
        let now = Instant::now();
        let is_woken = shared.header().waking.load(Ordering::Relaxed) == Waking::WhenWaiting as u32;
        Self { last: 0, changed: now, looked: now, retries: 0, is_woken }
    }

    pub(super) fn read(&mut self, shared: &MappedImage, into: &mut Snapshot) -> Result<(), ControlError> {
        let _held = shared.hold();
        self.read_within(shared, into)
    }

    fn read_within(&mut self, shared: &MappedImage, into: &mut Snapshot) -> Result<(), ControlError> {
        shared.check()?;
        let image = shared.image();
        into.inputs.resize(shared.size.inputs, 0);
        into.outputs.resize(shared.size.outputs, 0);
        let mut cycle = [0; CYCLE_BYTES];
        for _ in 0..MOST_TRIES {
            let number = image.newest();
            if number == 0 {
                self.look_at_bus(shared, number)?;
                return Err(ControlError::NoCycleYet { name: shared.name.clone() });
            }

            if image.read(number, &mut [&mut cycle, &mut into.inputs, &mut into.outputs]) {
                (into.number, into.retries) = (number, self.retries);
                (into.cycle, into.robot) = cycle_of(&cycle);
                return self.look_at_bus(shared, number);
            }

            self.retries += 1;
        }

        Err(ControlError::Overtaken { tries: MOST_TRIES })
    }

    /// Looks for the bus process when it has been quiet; a look costs system calls.
    fn look_at_bus(&mut self, shared: &MappedImage, number: u64) -> Result<(), ControlError> {
        let now = Instant::now();
        if number != self.last {
            (self.last, self.changed) = (number, now);
            return Ok(());
        }

        if now.duration_since(self.changed) < QUIET || now.duration_since(self.looked) < QUIET {
            return Ok(());
        }

        shared.check_alive()?;
        self.looked = now;
        Ok(())
    }

    /// Waits for a publication after `number`.
    pub(super) fn wait_beyond(
        &mut self,
        shared: &MappedImage,
        number: u64,
        timeout: Duration,
    ) -> Result<bool, ControlError> {
        let began = Instant::now();
        let live = shared.live();
        loop {
            shared.check()?;
            let before = live.wake.0.load(Ordering::Acquire);
            if self.is_woken {
                live.waiting.0.store(1, Ordering::Relaxed);
                fence(Ordering::SeqCst);
            }

            let newest = shared.image().newest();
            if newest > number {
                return Ok(true);
            }

            let left = timeout.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Ok(false);
            }

            if self.is_woken {
                // Short of a dead bus, which wakes nobody.
                let at_most = left.min(QUIET);
                let at_most = Timespec { tv_sec: 0, tv_nsec: at_most.subsec_nanos().into() };
                // Woken, not so any more, interrupted, over: all lead to another look.
                let _ = futex::wait(&live.wake.0, futex::Flags::empty(), before, Some(&at_most));
            } else {
                sleep(left.min(LOOK_EVERY));
            }

            self.look_at_bus(shared, newest)?;
        }
    }
}
