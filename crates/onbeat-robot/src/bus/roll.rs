//! Which stations are at which places of the cable, asked by position; and what follows from that.
//!
//! A pass asks every place once, in as many frames as it takes. Only two passes running that say the same are believed.

use super::device::Device;
use super::questions::{About, Page};

/// Devices that are asked for their stations in a frame.
const ROLL: usize = 64;
/// Most places that are asked.
const MOST_PLACES: usize = 2 * super::MOST_DEVICES;

/// A roll call that is under way.
#[derive(Clone, Debug)]
pub(super) struct Roll {
    /// It is to go on.
    is_wanted: bool,
    stations: Vec<u16>,
    /// Of the pass before.
    before: Vec<u16>,
    /// Places there are.
    places: usize,
    /// By place, the device that answers there, or [`NOBODY`].
    who: Vec<u16>,
    strangers: Vec<(u16, Stranger)>,
}

/// No device answers there: the count was wrong, or it is gone. No station has this number.
pub(super) const NO_ANSWER: u16 = u16::MAX;
/// No device of the bus.
const NOBODY: u16 = u16::MAX;

/// What is at a place where no device of the bus answers by its station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stranger {
    /// This device should be there.
    InPlaceOf(usize),
    /// None should.
    Surplus,
}

impl Roll {
    pub(super) fn new() -> Self {
        let room = || Vec::with_capacity(MOST_PLACES);
        let strangers = Vec::with_capacity(MOST_PLACES);
        Self { is_wanted: false, stations: room(), before: room(), places: 0, who: room(), strangers }
    }

    /// It begins, or goes on.
    pub(super) fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Asks for the next stations of a cable with so many places.
    pub(super) fn ask(&mut self, page: &mut Page<'_, '_>, places: u16) {
        let places = usize::from(places).min(MOST_PLACES);
        if !self.is_wanted || places != self.places {
            self.stations.clear();
            self.before.clear();
            self.places = places;
        }

        if !self.is_wanted {
            return;
        }

        let from = self.stations.len();
        for place in from..places.min(from + ROLL) {
            let (command, address) = super::numbers::station_of(place as u16);
            if !page.ask(About::Station(place as u16), command, address, 2) {
                break;
            }
        }
    }

    /// Takes the answer of the device at this place: its station, or [`NO_ANSWER`].
    pub(super) fn take(&mut self, place: u16, station: u16) {
        if usize::from(place) == self.stations.len() && self.stations.len() < self.places {
            self.stations.push(station);
        }
    }

    /// Whether a pass has ended that said the same as the one before.
    pub(super) fn is_certain(&mut self, devices: &[Device]) -> bool {
        if self.places == 0 || self.stations.len() < self.places {
            return false;
        }

        let is_certain = self.stations == self.before;
        std::mem::swap(&mut self.stations, &mut self.before);
        self.stations.clear();
        self.is_wanted = !is_certain;
        if is_certain {
            self.name_all(devices);
        }

        is_certain
    }

    /// Between two devices that are where the file has them, the first stranger can only be in the place of the first that is missing
    /// there, and so on.
    fn name_all(&mut self, devices: &[Device]) {
        self.who.clear();
        self.who.extend(self.before.iter().map(|station| with_station(devices, *station).unwrap_or(NOBODY)));
        self.strangers.clear();
        let mut next = 0;
        for (at, &who) in self.who.iter().enumerate() {
            if self.before[at] == NO_ANSWER {
                continue;
            }

            if who != NOBODY {
                next = usize::from(who) + 1;
                continue;
            }

            let behind = self.who[at + 1..].iter().find(|who| **who != NOBODY);
            let bound = behind.map_or(devices.len(), |&who| usize::from(who));
            let is_missed = next < bound;
            self.strangers.push((at as u16, if is_missed { Stranger::InPlaceOf(next) } else { Stranger::Surplus }));
            next += usize::from(is_missed);
        }
    }

    /// Strangers and their places, of the last pass that was certain.
    pub(super) fn strangers(&self) -> &[(u16, Stranger)] {
        &self.strangers
    }

    /// Whether the device that is being asked who it is must be the one of this place: all before it are where the file has them, and
    /// all others like it are on the cable, in the file's order.
    pub(super) fn proves(&self, place: usize, devices: &[Device]) -> bool {
        let is_itself = |other: usize| devices[other].visiting().is_none();
        let is_at = |at: usize, other: usize| self.who.get(at) == Some(&(other as u16));
        let is_there = is_at(place, place) && (0..place).all(|before| is_at(before, before) && is_itself(before));
        let mut at = place;
        is_there
            && equals(devices, place).filter(|other| *other > place).all(|other| {
                let found = self.who[at + 1..].iter().position(|who| usize::from(*who) == other);
                at += found.map_or(0, |found| found + 1);
                found.is_some() && is_itself(other)
            })
    }
}

/// Other devices with the same identity and alias as this one.
pub(super) fn equals(devices: &[Device], place: usize) -> impl Iterator<Item = usize> {
    let own = &devices[place].known;
    devices.iter().enumerate().filter_map(move |(other, device)| {
        let is_equal = (device.known.identity, device.known.alias) == (own.identity, own.alias);
        (is_equal && other != place).then_some(other)
    })
}

/// The device that has this station, or is being asked who it is by it.
fn with_station(devices: &[Device], station: u16) -> Option<u16> {
    let has_it = |device: &Device| device.visiting().unwrap_or(device.known.station) == station;
    devices.iter().position(has_it).filter(|_| station != 0).map(|place| place as u16)
}
