//! Reads the station addresses by position, and matches them with the expected devices.
//!
//! A pass reads every position once, in several frames if necessary. A result counts when two
//! consecutive passes agree.

use super::acyclic::{AcyclicFrame, QueryPurpose};
use super::device::{BusDevice, DeviceStage};
use super::optional_groups::OptionalGroups;
use onbeat_control::CablePosition;
use onbeat_ethercat::al::{DEVICE_ID, ERROR, STATE};
use onbeat_ethercat::registers::{AL_CONTROL, AL_STATUS};
use onbeat_rt::frame::{Command, position, register};

/// Positions read in one frame.
const PLACES_PER_FRAME: usize = 64;
/// Maximum number of positions.
pub(super) const MOST_PLACES: usize = 2 * super::addresses::MOST_DEVICES;

/// State of a position scan.
#[derive(Clone, Debug)]
pub(super) struct PositionScan {
    /// Whether a pass is to begin or to continue.
    is_requested: bool,
    stations: Vec<PlaceReading>,
    /// What the previous pass read.
    before: Vec<PlaceReading>,
    /// Number of positions.
    places: usize,
    /// By position, the device with that station address, or [`NO_DEVICE_INDEX`].
    device_at: Vec<u16>,
    unknown_devices: Vec<(u16, UnknownDevice)>,
    /// Places whose device ID is asked for.
    id_queries: Vec<IdQuery>,
    /// Passes in a row in which a device was asked for its ID and did not report one.
    without_id: u16,
}

/// Request of the explicit device ID of an unknown device at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IdQuery {
    place: u16,
    /// Its station address, which is not of this bus.
    station: u16,
    /// AL state, 0 before it was read. Requested again with the ID, so it stays.
    state: u8,
    device_id: u16,
}

/// What was read at a position: configured station address, alias, and the explicit device ID if it
/// was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlaceReading {
    pub(super) station: u16,
    pub(super) alias: u16,
    pub(super) device_id: u16,
}

impl PlaceReading {
    /// No device answered.
    pub(super) const NO_ANSWER: Self = Self { station: NO_ANSWER, alias: 0, device_id: 0 };
}

/// Marks a position where no device answered. No device has this station address.
const NO_ANSWER: u16 = u16::MAX;
/// Passes after which a device without a device ID counts as one that has none.
const MOST_PASSES_WITHOUT_ID: u16 = 100;
/// Marks a station address that is not of this bus.
const NO_DEVICE_INDEX: u16 = u16::MAX;

/// A device without a station address of this bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnknownDevice {
    /// The device expected at its position.
    InPlaceOf(usize),
    /// No device is expected at its position.
    Surplus,
}

impl PositionScan {
    pub(super) fn new() -> Self {
        let unknown_devices = Vec::with_capacity(MOST_PLACES);
        Self {
            is_requested: false,
            stations: Vec::with_capacity(MOST_PLACES),
            before: Vec::with_capacity(MOST_PLACES),
            places: 0,
            device_at: Vec::with_capacity(MOST_PLACES),
            unknown_devices,
            id_queries: Vec::with_capacity(MOST_PLACES),
            without_id: 0,
        }
    }

    /// Begins or continues a pass.
    pub(super) fn request(&mut self) {
        self.is_requested = true;
    }

    /// Begins from the start: what was read before does not count.
    pub(super) fn restart(&mut self) {
        self.stations.clear();
        self.before.clear();
        self.forget_ids();
        self.is_requested = true;
    }

    fn forget_ids(&mut self) {
        self.id_queries.clear();
        self.without_id = 0;
    }

    /// Returns what is at each position, as of the last confirmed pass.
    pub(super) fn positions(&self) -> impl Iterator<Item = CablePosition> {
        let stations = self.before.iter().zip(&self.device_at);
        stations.map(|(reading, device)| match (reading.station, *device) {
            (NO_ANSWER, _) => CablePosition::NoAnswer,
            (_, NO_DEVICE_INDEX) => CablePosition::Unknown,
            (_, device) => CablePosition::Device(device),
        })
    }

    /// Appends reads of the next station addresses, on a cable with `places` positions.
    pub(super) fn push_queries(&mut self, frame_writer: &mut AcyclicFrame<'_, '_>, places: u16) {
        let places = usize::from(places).min(MOST_PLACES);
        // With another number of positions a device was added or removed, and all behind it have
        // moved: the parts of such a pass do not belong together.
        if !self.is_requested || places != self.places {
            self.stations.clear();
            self.before.clear();
            self.forget_ids();
            self.places = places;
        }

        if !self.is_requested {
            return;
        }

        let from = self.stations.len();
        for place in from..places.min(from + PLACES_PER_FRAME) {
            let query = self.id_queries.iter().find(|query| usize::from(query.place) == place);
            if query.is_some_and(|query| !query.push(frame_writer)) {
                break;
            }
            let (command, address) = super::addresses::station_query(place as u16);
            if !frame_writer.push(QueryPurpose::Station(place as u16), command, address, 4) {
                break;
            }
        }
    }

    /// Records AL status and AL status code at this position, which was asked for its device ID.
    pub(super) fn take_status(&mut self, place: u16, status: u8, code: u16) {
        if let Some(query) = self.id_queries.iter_mut().find(|query| query.place == place) {
            query.state = status & STATE;
            // Until bit 5 is set, register 0x0134 holds the AL status code.
            query.device_id = if status & DEVICE_ID == 0 { 0 } else { code };
        }
    }

    /// Records the reply at this position.
    pub(super) fn take(&mut self, place: u16, mut reading: PlaceReading) {
        let query = self.id_queries.iter().find(|query| query.place == place);
        reading.device_id = query.map_or(0, |query| query.device_id);
        // Only the next in order: the positions of a frame that is lost are asked for again.
        if usize::from(place) == self.stations.len() && self.stations.len() < self.places {
            self.stations.push(reading);
        }
    }

    /// Returns whether a pass ended with the same result as the previous one.
    pub(super) fn is_certain(
        &mut self,
        devices: &[BusDevice],
        groups: &mut OptionalGroups,
    ) -> bool {
        if self.places == 0 || self.stations.len() < self.places {
            return false;
        }

        self.ask_for_ids(devices, groups);
        // A group whose first device is not identified yet would be taken for an unknown device.
        let is_certain = self.stations == self.before && !self.awaits_ids();
        std::mem::swap(&mut self.stations, &mut self.before);
        self.stations.clear();
        self.is_requested = !is_certain;
        if is_certain {
            self.match_devices(devices, groups);
        }

        is_certain
    }

    /// Has the unknown devices of the pass that ended asked for their device IDs, if a group is
    /// identified by one.
    fn ask_for_ids(&mut self, devices: &[BusDevice], groups: &OptionalGroups) {
        if !groups.need_device_ids() {
            return;
        }

        let Self { stations, id_queries, .. } = self;
        let is_unknown =
            |station: u16| station != NO_ANSWER && with_station(devices, station).is_none();
        let station_at = |query: &IdQuery| stations[usize::from(query.place)].station;
        id_queries.retain(|query| is_unknown(query.station) && station_at(query) == query.station);
        for (place, reading) in (0..).zip(&*stations) {
            let station = reading.station;
            let is_asked = id_queries.iter().any(|query| query.place == place);
            if is_unknown(station) && !is_asked {
                // Each device that comes has the whole time to report its ID.
                id_queries.push(IdQuery { place, station, state: 0, device_id: 0 });
                self.without_id = 0;
            }
        }
    }

    /// Returns whether a device may still report its ID; counts the passes without one.
    fn awaits_ids(&mut self) -> bool {
        let is_missing = self.id_queries.iter().any(|query| query.device_id == 0);
        self.without_id = if is_missing { self.without_id.saturating_add(1) } else { 0 };
        is_missing && self.without_id < MOST_PASSES_WITHOUT_ID
    }

    /// Assigns unknown devices to missing ones. Between two devices in the order of the file, the
    /// first unknown one can only be the first missing one, and so on; those of optional groups are
    /// assigned by the alias of the group, and by the devices before them.
    fn match_devices(&mut self, devices: &[BusDevice], groups: &mut OptionalGroups) {
        self.device_at.clear();
        self.device_at.extend(
            self.before
                .iter()
                .map(|reading| with_station(devices, reading.station).unwrap_or(NO_DEVICE_INDEX)),
        );
        self.unknown_devices.clear();
        let unknown = |at: usize| {
            self.device_at[at] == NO_DEVICE_INDEX && self.before[at].station != NO_ANSWER
        };
        groups.count_heads(&self.before, unknown);

        // The file has A, B, C, and a group of G0 (alias 7) and G1:
        //
        //   on the cable   A   unknown, alias 7   unknown   unknown   C
        //   taken for      A   G0                 -         B         C
        //
        // The place behind G0 is kept for G1 and not asked yet: an alias is a number that somebody
        // set, so only the identity of G0 proves that its group begins here.
        let is_always_there = |found: &u16| {
            devices.get(usize::from(*found)).is_some_and(|device| device.group.is_none())
        };
        let always = devices.iter().filter(|device| device.group.is_none()).count();
        let mut next = 0;
        // The device of a group that must follow, and whether the one before it is proven.
        let mut follower = None;
        for at in 0..self.device_at.len() {
            let reading = self.before[at];
            if reading.station == NO_ANSWER {
                continue;
            }

            let found = self.device_at[at];
            if found != NO_DEVICE_INDEX {
                let device = usize::from(found);
                if is_always_there(&found) {
                    next = device + 1;
                }
                let is_proven = devices[device].identifying_station().is_none();
                groups.note_position(device, at as u16);
                follower = groups.follower(device).map(|follower| (follower, is_proven));
                continue;
            }

            if let Some(head) = groups.head_at(&reading) {
                let is_away = matches!(devices[head].stage, DeviceStage::NoAnswer);
                // Of two with the alias of an absent group, none is configured: nothing tells which
                // of them the set-points are for. One beside a group that is there is too many.
                if is_away && groups.is_single(head) {
                    groups.note_position(head, at as u16);
                    self.unknown_devices.push((at as u16, UnknownDevice::InPlaceOf(head)));
                } else if !is_away {
                    self.unknown_devices.push((at as u16, UnknownDevice::Surplus));
                }
                follower = groups.follower(head).map(|follower| (follower, false));
                continue;
            }

            if let Some((device, is_proven)) = follower {
                if is_proven && matches!(devices[device].stage, DeviceStage::NoAnswer) {
                    self.unknown_devices.push((at as u16, UnknownDevice::InPlaceOf(device)));
                }
                follower = groups.follower(device).map(|follower| (follower, false));
                continue;
            }

            let behind = self.device_at[at + 1..].iter().find(|found| is_always_there(found));
            let bound = behind.map_or(always, |&found| usize::from(found));
            let is_missing = next < bound;
            self.unknown_devices.push((
                at as u16,
                if is_missing { UnknownDevice::InPlaceOf(next) } else { UnknownDevice::Surplus },
            ));
            next += usize::from(is_missing);
        }
    }

    /// Returns the unknown devices with their positions, as of the last confirmed pass.
    pub(super) fn unknown_devices(&self) -> &[(u16, UnknownDevice)] {
        &self.unknown_devices
    }

    /// Returns whether the device being identified at this position must be the expected one: all
    /// devices before it are at their positions, and all others of its type are on the cable, in
    /// the order of the file.
    pub(super) fn proves(
        &self,
        place: usize,
        devices: &[BusDevice],
        groups: &OptionalGroups,
    ) -> bool {
        let is_itself = |other: usize| devices[other].identifying_station().is_none();
        // Those of groups do not count in the order of the others.
        let is_optional = |found: &u16| {
            devices.get(usize::from(*found)).is_some_and(|device| device.group.is_some())
        };
        let position =
            |other: usize| self.device_at.iter().position(|found| usize::from(*found) == other);
        // A device of a group is the one at its place behind the first one of the group.
        let found = |at: usize| self.device_at.get(at).copied();
        let is_in_group = |other: usize, head: usize, at: usize| {
            let there = found(at + other - head);
            there == Some(other as u16)
                || there == Some(NO_DEVICE_INDEX) && position(other).is_none()
        };
        let is_accounted_for = |other: usize| match groups.head_of(other) {
            None => position(other).is_some() && is_itself(other),
            Some(head) => match position(head) {
                None => position(other).is_none(),
                Some(at) => is_itself(head) && is_in_group(other, head, at),
            },
        };

        if let Some(head) = groups.head_of(place) {
            let own = groups.devices_of(place);
            let at = position(place).and_then(|at| at.checked_sub(place - head));
            return at.is_some_and(|at| {
                own.clone().all(|other| is_in_group(other, head, at))
                    && (head..place).all(|other| {
                        found(at + other - head) == Some(other as u16) && is_itself(other)
                    })
            }) && identical_devices(devices, place)
                .filter(|other| !own.contains(other))
                .all(is_accounted_for);
        }

        let ordered = || self.device_at.iter().filter(|found| !is_optional(found));
        let is_at = |at: usize, other: usize| ordered().nth(at) == Some(&(other as u16));
        let is_there = is_at(place, place)
            && (0..place).all(|before| is_at(before, before) && is_itself(before));
        let mut at = place;
        is_there
            && identical_devices(devices, place).filter(|other| *other > place).all(|other| {
                if devices[other].group.is_some() {
                    return is_accounted_for(other);
                }
                let found = ordered().skip(at + 1).position(|found| usize::from(*found) == other);
                at += found.map_or(0, |found| found + 1);
                found.is_some() && is_itself(other)
            })
    }
}

impl IdQuery {
    /// Appends the read of AL status and code, and before it the request, once the state is known.
    ///
    /// The request goes by station address, 0 after power-on: by position, it would reach a device
    /// in OP if the cable changed meanwhile. All devices with that address may be asked.
    fn push(&self, frame_writer: &mut AcyclicFrame<'_, '_>) -> bool {
        // A device with an error reports it instead of its ID until the error is acknowledged.
        let request = [self.state | ERROR | DEVICE_ID, 0];
        let control = register(self.station, AL_CONTROL);
        let is_requested = self.state == 0
            || frame_writer.push_data(
                QueryPurpose::DeviceIdRequest,
                Command::Fpwr,
                control,
                &request,
            );
        is_requested
            && frame_writer.push(
                QueryPurpose::DeviceId(self.place),
                Command::Aprd,
                register(position(self.place), AL_STATUS),
                6,
            )
    }
}

/// Returns the other devices that identity and alias do not distinguish from this one.
pub(super) fn identical_devices(
    devices: &[BusDevice],
    place: usize,
) -> impl Iterator<Item = usize> {
    let own = &devices[place].known;
    devices.iter().enumerate().filter_map(move |(other, device)| {
        (other != place && own.may_be(&device.known)).then_some(other)
    })
}

/// Returns the device with this station address, or being identified by it.
fn with_station(devices: &[BusDevice], station: u16) -> Option<u16> {
    let has_it = |device: &BusDevice| {
        device.identifying_station().unwrap_or(device.known.station) == station
    };
    // 0 is the station address of a device that has just been switched on.
    devices.iter().position(has_it).filter(|_| station != 0).map(|place| place as u16)
}
