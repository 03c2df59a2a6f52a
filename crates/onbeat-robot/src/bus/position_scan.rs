//! Reads the station addresses by position, and matches them with the expected devices.
//!
//! A pass reads every position once, in several frames if necessary. A result counts when two
//! consecutive passes agree.

use super::acyclic::{AcyclicFrame, QueryPurpose};
use super::device::BusDevice;
use onbeat_control::CablePosition;

/// Positions read in one frame.
const PLACES_PER_FRAME: usize = 64;
/// Maximum number of positions.
pub(super) const MOST_PLACES: usize = 2 * super::addresses::MOST_DEVICES;

/// State of a position scan.
#[derive(Clone, Debug)]
pub(super) struct PositionScan {
    /// Whether a pass is to begin or to continue.
    is_requested: bool,
    stations: Vec<u16>,
    /// Station addresses of the previous pass.
    before: Vec<u16>,
    /// Number of positions.
    places: usize,
    /// By position, the device with that station address, or [`NO_DEVICE_INDEX`].
    device_at: Vec<u16>,
    unknown_devices: Vec<(u16, UnknownDevice)>,
}

/// Marks a position where no device answered. No device has this station address.
pub(super) const NO_ANSWER: u16 = u16::MAX;
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
        let room = || Vec::with_capacity(MOST_PLACES);
        let unknown_devices = Vec::with_capacity(MOST_PLACES);
        Self {
            is_requested: false,
            stations: room(),
            before: room(),
            places: 0,
            device_at: room(),
            unknown_devices,
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
        self.is_requested = true;
    }

    /// Returns what is at each position, as of the last confirmed pass.
    pub(super) fn positions(&self) -> impl Iterator<Item = CablePosition> {
        let stations = self.before.iter().zip(&self.device_at);
        stations.map(|(station, device)| match (*station, *device) {
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
            self.places = places;
        }

        if !self.is_requested {
            return;
        }

        let from = self.stations.len();
        for place in from..places.min(from + PLACES_PER_FRAME) {
            let (command, address) = super::addresses::station_query(place as u16);
            if !frame_writer.push(QueryPurpose::Station(place as u16), command, address, 2) {
                break;
            }
        }
    }

    /// Records the reply at this position: its station address, or [`NO_ANSWER`].
    pub(super) fn take(&mut self, place: u16, station: u16) {
        // Only the next in order: the positions of a frame that is lost are asked for again.
        if usize::from(place) == self.stations.len() && self.stations.len() < self.places {
            self.stations.push(station);
        }
    }

    /// Returns whether a pass ended with the same result as the previous one.
    pub(super) fn is_certain(&mut self, devices: &[BusDevice]) -> bool {
        if self.places == 0 || self.stations.len() < self.places {
            return false;
        }

        let is_certain = self.stations == self.before;
        std::mem::swap(&mut self.stations, &mut self.before);
        self.stations.clear();
        self.is_requested = !is_certain;
        if is_certain {
            self.match_devices(devices);
        }

        is_certain
    }

    /// Assigns unknown devices to missing ones. Between two devices in the order of the file, the
    /// first unknown one can only be the first missing one, and so on.
    fn match_devices(&mut self, devices: &[BusDevice]) {
        self.device_at.clear();
        self.device_at.extend(
            self.before
                .iter()
                .map(|station| with_station(devices, *station).unwrap_or(NO_DEVICE_INDEX)),
        );
        self.unknown_devices.clear();
        let mut next = 0;
        for (at, &device_at) in self.device_at.iter().enumerate() {
            if self.before[at] == NO_ANSWER {
                continue;
            }

            if device_at != NO_DEVICE_INDEX {
                next = usize::from(device_at) + 1;
                continue;
            }

            let behind = self.device_at[at + 1..].iter().find(|found| **found != NO_DEVICE_INDEX);
            let bound = behind.map_or(devices.len(), |&found| usize::from(found));
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
    pub(super) fn proves(&self, place: usize, devices: &[BusDevice]) -> bool {
        let is_itself = |other: usize| devices[other].identifying_station().is_none();
        let is_at = |at: usize, other: usize| self.device_at.get(at) == Some(&(other as u16));
        let is_there = is_at(place, place)
            && (0..place).all(|before| is_at(before, before) && is_itself(before));
        let mut at = place;
        is_there
            && identical_devices(devices, place).filter(|other| *other > place).all(|other| {
                let found =
                    self.device_at[at + 1..].iter().position(|found| usize::from(*found) == other);
                at += found.map_or(0, |found| found + 1);
                found.is_some() && is_itself(other)
            })
    }
}

/// Returns the other devices with the same identity and alias.
pub(super) fn identical_devices(
    devices: &[BusDevice],
    place: usize,
) -> impl Iterator<Item = usize> {
    let own = &devices[place].known;
    devices.iter().enumerate().filter_map(move |(other, device)| {
        let is_equal = (device.known.identity, device.known.alias) == (own.identity, own.alias);
        (is_equal && other != place).then_some(other)
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
