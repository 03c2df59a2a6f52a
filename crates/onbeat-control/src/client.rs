//! Client side: reading, waiting, events, statistics, requests.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use onbeat_ethercat::event::{Event, EventKind};
use onbeat_ethercat::layout::{DeviceLayout, Layout};
use onbeat_ethercat::link_errors::LinkErrors;
use onbeat_ethercat::step::{BusCycle, RobotState};
use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;

use super::abi::{EVENT_BYTES, EVENTS};
use super::bus_condition::{AlStates, CableLink};
use super::device_state::{DeviceState, Presence};
use super::error::ControlError;
use super::error_record;
use super::goals::Commander;
use super::image::MappedImage;
use super::joint::Joint;
use super::link::{self, Link};
use super::owner::Owner;
use super::request::{
    BusRequest, CablePosition, RegisterAction, RegisterRequest, RequestAnswer, RequestFailure,
};
use super::requests;
use super::sharing::Sharing;
use super::snapshot::{CycleWaiter, QUIET, Snapshot};
use super::stats::Stats;
use super::value_place::ValuePlace;

/// Additional number of cycles before device states count as outdated.
const PATIENT_CYCLES: u64 = 10;
/// A device with its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Expected device.
    pub layout: DeviceLayout,
    /// Present state.
    pub state: DeviceState,
    /// Errors that it has counted since the bus came up; `None` if they were not read yet.
    pub link_errors: Option<LinkErrors>,
}

/// Events from a given number on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventBatch {
    /// Events in order, with their numbers.
    pub events: Vec<(u64, Event)>,
    /// Number to pass to the next call.
    pub next: u64,
    /// Number of events overwritten before they were read.
    pub missed: u64,
}

/// Summary of a bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusState {
    /// Name of the image.
    pub name: String,
    /// Name of the segment.
    pub segment: String,
    /// Id of the bus process.
    pub pid: u32,
    /// Kind of sharing.
    pub sharing: Sharing,
    /// Hash of the device table.
    pub layout_hash: u64,
    /// The last cycle, `None` before the first.
    pub cycle: Option<BusCycle>,
    /// State of the robot; `None` if the bus process moves no joints.
    pub robot: Option<RobotState>,
    /// Number of expected devices, without those of optional groups that are away.
    pub devices: usize,
    /// Number of devices in OP; 0 during an outage.
    pub in_op: usize,
    /// Whether replies come back.
    pub outage: Outage,
    /// Link of the network interface; unknown without a recent cycle.
    pub link: CableLink,
    /// Number of devices that processed the last frame, expected or not; 0 during an outage.
    pub answering: usize,
    /// AL states of the devices; none during an outage.
    pub al_states: AlStates,
    /// Owner of the outputs: process id and name.
    pub owner: Option<(u32, String)>,
    /// Commander of the joints: process id and name.
    pub commander: Option<(u32, String)>,
    /// Number of events.
    pub events: u64,
}

/// Outage of a bus: device states are unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// No outage.
    None,
    /// The bus process has run no cycle for this time in ns: stopped, or not started.
    NoCycle(u64),
    /// No frame was answered in time for this time in ns.
    NoAnswer(u64),
}

impl Outage {
    /// Returns the duration of the outage in ns.
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

/// Client of an image, in any process.
///
/// ```no_run
/// use std::time::Duration;
/// use onbeat_control::Client;
///
/// let mut client = Client::open("my-robot")?;
/// let mut seen = client.snapshot();
/// while client.wait_next(Duration::from_secs(1))? {
///     client.read(&mut seen)?;
///     println!("cycle {}: {:?}", seen.cycle.cycle, seen.inputs);
/// }
/// # Ok::<(), onbeat_control::ControlError>(())
/// ```
#[derive(Debug)]
pub struct Client {
    shared: Arc<MappedImage>,
    link: Link,
    waiter: CycleWaiter,
}

impl Client {
    /// Opens the image of the running bus with this name.
    ///
    /// # Errors
    /// [`ControlError`]: no such bus, one of another version or user, or one that refuses.
    pub fn open(name: &str) -> Result<Self, ControlError> {
        let (link, shared) = link::open(name)?;
        Ok(Self { shared: Arc::new(shared), link, waiter: CycleWaiter::new() })
    }

    /// Creates a buffer for [`Client::read`].
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::for_image(&self.shared)
    }

    /// Reads the newest cycle consistently.
    ///
    /// # Errors
    /// [`ControlError::BusEnded`], [`ControlError::BusDied`] (detected after 100 ms without a
    /// cycle), [`ControlError::NoCycleYet`].
    ///
    /// ```
    /// # use onbeat_control::{Client, Image, Sharing};
    /// # use onbeat_ethercat::layout::Layout;
    /// # use onbeat_ethercat::step::BusCycle;
    /// # let name = format!("example-read-{}", std::process::id());
    /// # let layout = Layout { input_bytes: 4, output_bytes: 4, ..Layout::default() };
    /// # let mut bus = Image::create(&name, &layout, Sharing::WaitFree)?;
    /// bus.exchange(&BusCycle { cycle: 1, ..BusCycle::default() }, &[1, 2, 3, 4], &mut [0; 4]);
    ///
    /// let mut client = Client::open(&name)?;
    /// let mut seen = client.snapshot();
    /// client.read(&mut seen)?;
    /// assert_eq!(seen.inputs, [1, 2, 3, 4]);
    /// # Ok::<(), onbeat_control::ControlError>(())
    /// ```
    pub fn read(&mut self, into: &mut Snapshot) -> Result<(), ControlError> {
        self.waiter.read((&self.shared, &self.link), into)
    }

    /// Reads like [`Client::read`], and takes at least `stay`, like a slow reader. With a lock, bus
    /// and other processes wait during that time; this measures the effect.
    ///
    /// # Errors
    /// As [`Client::read`].
    pub fn read_slowly(&mut self, into: &mut Snapshot, stay: Duration) -> Result<(), ControlError> {
        let _held = self.shared.hold();
        let began = Instant::now();
        self.waiter.read_within((&self.shared, &self.link), into)?;
        while began.elapsed() < stay {
            std::hint::spin_loop();
        }

        Ok(())
    }

    /// Reads like [`Client::read`], then calls `stays` until it returns false. With a lock, it is
    /// held meanwhile.
    ///
    /// # Errors
    /// As [`Client::read`].
    pub fn read_while(
        &mut self,
        into: &mut Snapshot,
        mut stays: impl FnMut() -> bool,
    ) -> Result<(), ControlError> {
        let _held = self.shared.hold();
        self.waiter.read_within((&self.shared, &self.link), into)?;
        while stays() {
            std::hint::spin_loop();
        }

        Ok(())
    }

    /// Waits up to `timeout` for a cycle newer than the last one read. Returns whether there is
    /// one.
    ///
    /// # Errors
    /// As [`Client::read`].
    pub fn wait_next(&mut self, timeout: Duration) -> Result<bool, ControlError> {
        let last = self.waiter.last;
        self.waiter.wait_beyond((&self.shared, &self.link), last, timeout)
    }

    /// Returns the expected devices and the offsets of their values.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.shared.layout()
    }

    /// Returns all devices in the order of the cable. During an outage, they are lost; what
    /// they counted stays.
    #[must_use]
    pub fn devices(&self) -> Vec<DeviceInfo> {
        let states = self.states(self.state().outage);
        let errors = error_record::load(self.shared.link_errors());
        let devices = self.shared.layout().devices.into_iter();
        devices
            .zip(states.zip(errors))
            .map(|(layout, (state, link_errors))| DeviceInfo { layout, state, link_errors })
            .collect()
    }

    /// Returns the events from number `from` on; the first has number 1.
    #[must_use]
    pub fn events(&self, from: u64) -> EventBatch {
        let ring = self.shared.events();
        let newest = ring.newest();
        let from = from.max(1);
        // The oldest slot is the next one to be written. The number may be any: another process
        // writes it.
        let next = newest.saturating_add(1);
        let oldest = next.saturating_sub(EVENTS as u64 - 1).max(1);
        let mut found =
            EventBatch { next, missed: oldest.saturating_sub(from), ..EventBatch::default() };
        for number in from.max(oldest)..=newest {
            let mut bytes = [0; EVENT_BYTES];
            match ring.read(number, &mut [&mut bytes]).then(|| event_of(&bytes)).flatten() {
                Some(event) => found.events.push((number, event)),
                None => found.missed += 1,
            }
        }

        found
    }

    /// Returns the statistics.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.stats().copy()
    }

    /// Returns state and statistics as lines `KEY VALUE`, like the paper's entry in the proc file
    /// system; see `docs/control.md`.
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

    /// Returns the device states, all lost during an outage.
    fn states(&self, outage: Outage) -> impl Iterator<Item = DeviceState> {
        let lost = DeviceState { al_state: 0, al_status: 0, presence: Presence::Lost };
        let words = self
            .shared
            .states()
            .iter()
            .map(|word| DeviceState::from_word(word.load(Ordering::Acquire)));
        words.map(move |state| if outage == Outage::None { state } else { lost })
    }

    /// Returns the present outage. `cycle` is the last cycle.
    fn outage(&self, cycle: Option<&BusCycle>) -> Outage {
        let Some(cycle) = cycle else { return Outage::None };
        let now_ns = Monotonic.now().as_ns();
        let patience_ns = QUIET.as_nanos() as u64 + PATIENT_CYCLES * cycle.dt_ns;
        let since = |at_ns: u64| now_ns.saturating_sub(at_ns);
        let answered_at = self.shared.header().answered_at.load(Ordering::Relaxed);
        if since(cycle.release_ns) > patience_ns {
            return Outage::NoCycle(since(cycle.release_ns));
        }

        // 0 if the bus does not report it, as in tests or without devices.
        let is_quiet = answered_at != 0 && since(answered_at) > patience_ns;
        if is_quiet { Outage::NoAnswer(since(answered_at)) } else { Outage::None }
    }

    /// Returns a summary of the bus.
    #[must_use]
    pub fn state(&self) -> BusState {
        let header = self.shared.header();
        let mut last = self.snapshot();
        let read = CycleWaiter::new().read((&self.shared, &self.link), &mut last);
        let cycle = read.ok().map(|()| last.cycle);

        let live = self.shared.live();
        let name = onbeat_host::process::name;
        let holder = |word: u64| (word != 0).then(|| (word as u32, name(word as u32)));
        let outage = self.outage(cycle.as_ref());
        let has_cycle = cycle.is_some() && !matches!(outage, Outage::NoCycle(_));
        let away = self.states(outage).filter(|state| state.presence == Presence::Away).count();
        let there = || self.states(outage).filter(|state| state.presence != Presence::Away);
        let link = CableLink::from_number(header.link.load(Ordering::Relaxed));
        let answering = header.answering.load(Ordering::Relaxed) as usize;

        BusState {
            name: self.shared.name.clone(),
            segment: self.shared.layout().name,
            pid: self.shared.bus_pid(),
            sharing: self.shared.sharing,
            layout_hash: header.layout_hash.load(Ordering::Relaxed),
            cycle,
            robot: last.robot,
            devices: self.shared.size.devices - away,
            in_op: there().filter(|state| state.al_state == 8).count(),
            link: if has_cycle { link } else { CableLink::Unknown },
            answering: if outage == Outage::None { answering } else { 0 },
            al_states: AlStates::from_devices(there().map(|state| state.al_state)),
            outage,
            owner: holder(live.owner.0.load(Ordering::Acquire)),
            commander: holder(live.commander.0.load(Ordering::Acquire)),
            events: self.shared.events().newest(),
        }
    }

    /// Checks that the bus is running and its process alive.
    ///
    /// # Errors
    /// [`ControlError::BusEnded`], [`ControlError::BusDied`].
    pub fn check(&self) -> Result<(), ControlError> {
        self.link.check(&self.shared)
    }

    /// Finds a value of a device by its name or its object; see [`ValuePlace::find`].
    ///
    /// # Errors
    /// [`ControlError::NoDeviceNamed`], [`ControlError::NoValue`] with the values there are.
    pub fn find(&self, device: &str, value: &str) -> Result<ValuePlace, ControlError> {
        ValuePlace::find(&self.shared.layout(), &self.shared.name, device, value)
    }

    /// Makes a request, such as an SDO transfer, and waits up to `timeout` for the answer.
    ///
    /// # Errors
    /// [`ControlError`] if the request cannot be made or is not answered; a refusal by the device
    /// is in the answer.
    pub fn request(
        &self,
        request: impl Into<BusRequest>,
        timeout: Duration,
    ) -> Result<RequestAnswer, ControlError> {
        requests::ask(&self.shared, &request.into(), timeout)
    }

    /// Reads `bytes` bytes of registers of a device from `address` on, 1 to
    /// [`REGISTER_BYTES`](super::REGISTER_BYTES) below 0x1000.
    ///
    /// # Errors
    /// As [`Client::request`], and [`ControlError::RegisterRange`].
    pub fn read_register(
        &self,
        device: u16,
        address: u16,
        bytes: usize,
        timeout: Duration,
    ) -> Result<RequestAnswer, ControlError> {
        let action = RegisterAction::Read(bytes);
        self.request(RegisterRequest { device, address, action }, timeout)
    }

    /// Writes registers of a device in OP. Registers that the bus process sets itself are refused
    /// with [`RequestFailure::KeptByBus`]; `docs/control.md` lists those that can be written.
    ///
    /// # Errors
    /// As [`Client::read_register`].
    pub fn write_register(
        &self,
        device: u16,
        address: u16,
        bytes: &[u8],
        timeout: Duration,
    ) -> Result<RequestAnswer, ControlError> {
        let action = RegisterAction::Write(bytes.to_vec());
        self.request(RegisterRequest { device, address, action }, timeout)
    }

    /// Reads which device is at which position of the cable, and has the bus try rejected devices
    /// again at once. Devices in OP are not disturbed.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub fn rescan(
        &self,
        timeout: Duration,
    ) -> Result<Result<Vec<CablePosition>, RequestFailure>, ControlError> {
        let answer = self.request(BusRequest::Rescan, timeout)?;
        Ok(answer.map(|bytes| CablePosition::from_answer(&bytes)))
    }

    /// Claims the outputs for this process.
    ///
    /// # Errors
    /// [`ControlError::Owned`] with the owner; a dead owner loses them.
    pub fn claim(&self) -> Result<Owner, ControlError> {
        Owner::new(Arc::clone(&self.shared))
    }

    /// Returns the joints that follow goals, with their names; empty if none do.
    #[must_use]
    pub fn joints(&self) -> Vec<(String, Joint)> {
        self.shared.named_joints()
    }

    /// Returns the time for which a goal is followed, in µs.
    #[must_use]
    pub fn goal_age_us(&self) -> u32 {
        self.shared.header().goal_age_us.load(Ordering::Relaxed)
    }

    /// Becomes the commander of the joints.
    ///
    /// # Errors
    /// [`ControlError::NoGoals`] if no joint follows goals; [`ControlError::Commanded`] with the
    /// present commander; a dead one loses its role.
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
