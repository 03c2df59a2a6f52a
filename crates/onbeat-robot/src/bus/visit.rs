//! Who is at a place of the cable? Asked before a device is taken on.
//!
//! ```text
//! a station never given before, by position ──▶ vendor, product, revision, serial number ──▶ alias ──▶ is it in its place? ──▶ known
//!                                                        │ another                         │ another        │ that cannot be proven
//!                                                        └──────────────▶ INIT, no station ◀──────────────┘
//! ```
//!
//! Only the first question goes by position. All others go to the new station, which nobody else has or will have: whatever happens to
//! cables and other stations meanwhile, it is one device that answers, and that is told what follows.
//!
//! Devices of one kind without serial number and alias cannot be told apart by what they say. For such a one, what it was told last must
//! still stand in its FMMU, or all others of its kind must be where they were; [`super::roll`] looks at that.

use onbeat_ethercat::registers::{ALIAS, SII_CONTROL, SII_DATA};
use onbeat_rt::frame::{Command, position, register, word};

use super::memory::{AL_CONTROL, AL_STATUS, SII_OWNER, STATION};
use super::recovery::{ERROR, INIT, Known, Question};

/// Words of the EEPROM that hold vendor, product, revision and serial number.
const IDENTITY: [u16; 4] = [0x0008, 0x000a, 0x000c, 0x000e];
/// "Read" in the command of the EEPROM's interface, "busy" in its state.
const SII_READ: u16 = 0x0100;
const SII_BUSY: u16 = 0x8000;
/// Cycles in which an EEPROM must answer.
const EEPROM_PATIENCE: u64 = 50;
/// And in which its place must be proven: as long as those devices take that come back at the same time.
const PROOF_PATIENCE: u64 = 100;
/// A visit that another device answers too is begun anew so often.
const MOST_BEGINNINGS: u8 = 20;

/// Why a device is not taken on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// It is another one: what differs (1 vendor, 2 product, 3 revision, 4 serial number, 5 alias), and what it has there.
    Other(u16, u32),
    /// It may be another one of its kind.
    InDoubt,
}

/// What an answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// There is more to ask.
    NotYet,
    /// It is the device.
    Known,
    /// It is not, and was told so.
    Dismissed(Why),
    /// It does not say who it is.
    Unread,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Address,
    Owner,
    Ask(usize),
    Busy(usize),
    Read(usize),
    Alias,
    Mark,
    Place,
    Proven,
    Dismiss(Why),
}

/// A device at a place that is being asked who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Visit {
    place: u16,
    pub(super) station: u16,
    phase: Phase,
    since: u64,
    /// It said something else than it should; once may be a bit that was turned around on the way.
    differs: bool,
    beginnings: u8,
    /// In a twin that tests must catch: whoever answers is believed.
    is_credulous: bool,
}

impl Visit {
    pub(super) fn of(place: u16, is_credulous: bool, cycle: u64) -> Self {
        let phase = Phase::Address;
        Self { place, station: 0, phase, since: cycle, differs: false, beginnings: 1, is_credulous }
    }

    /// Whether it is about to get a station. Each frame that gives one gives another one: of two that were sent, the first may have
    /// reached a device whose place is another by now.
    pub(super) fn wants_station(&self) -> bool {
        self.phase == Phase::Address
    }

    /// Whether all hangs on its place.
    pub(super) fn wants_proof(&self) -> bool {
        self.phase == Phase::Place
    }

    /// It is in its place, and so are all others of its kind.
    pub(super) fn prove(&mut self) {
        if self.phase == Phase::Place {
            self.phase = Phase::Proven;
        }
    }

    pub(super) fn question(&self, known: &Known) -> (Question, Option<Question>) {
        let station = self.station;
        let first = match self.phase {
            Phase::Address => {
                let mut question = Question::write(0, STATION, &station.to_le_bytes());
                (question.command, question.address) = (Command::Apwr, register(position(self.place), STATION));
                question
            }
            Phase::Owner => Question::write(station, SII_OWNER, &[0, 0]),
            Phase::Ask(number) => {
                let mut request = [0; 6];
                request[..2].copy_from_slice(&SII_READ.to_le_bytes());
                request[2..4].copy_from_slice(&IDENTITY[number].to_le_bytes());
                Question::write(station, SII_CONTROL, &request)
            }
            Phase::Busy(_) => Question::read(station, SII_CONTROL, 2),
            Phase::Read(_) => Question::read(station, SII_DATA, 4),
            Phase::Alias => Question::read(station, ALIAS, 2),
            Phase::Mark => known.mark.map_or(Question::read(station, AL_STATUS, 6), |mark| mark.question(station)),
            Phase::Place | Phase::Proven => Question::read(station, AL_STATUS, 6),
            Phase::Dismiss(_) => {
                let stop = Question::write(station, AL_CONTROL, &[INIT | ERROR, 0]);
                return (stop, Some(Question::write(station, STATION, &[0, 0])));
            }
        };

        (first, None)
    }

    /// Takes the answer of a device, and how many gave one.
    pub(super) fn answer(&mut self, known: &Known, (data, counter): (&[u8], u16), cycle: u64) -> Met {
        if counter != 1 && !self.is_credulous {
            // Nobody else can have its station. Whoever has got it anyway keeps it, and it is not used again.
            self.beginnings += 1;
            self.enter(Phase::Address, cycle);
            return if self.beginnings > MOST_BEGINNINGS { Met::Unread } else { Met::NotYet };
        }

        let next = match self.next(known, data) {
            Ok(Phase::Proven) => return Met::Known,
            Ok(next) => next,
            Err(met) => return met,
        };

        let passed = cycle.saturating_sub(self.since);
        match self.phase {
            _ if next != self.phase => self.enter(next, cycle),
            Phase::Place if passed > PROOF_PATIENCE => self.enter(Phase::Dismiss(Why::InDoubt), cycle),
            Phase::Busy(_) if passed > EEPROM_PATIENCE => return Met::Unread,
            _ => {}
        }

        Met::NotYet
    }

    /// What to ask next, or what it has come to.
    fn next(&mut self, known: &Known, data: &[u8]) -> Result<Phase, Met> {
        Ok(match self.phase {
            Phase::Address if self.is_credulous => return Err(Met::Known),
            Phase::Address => Phase::Owner,
            Phase::Owner => Phase::Ask(0),
            Phase::Ask(number) => Phase::Busy(number),
            Phase::Busy(number) if word(data, 0) & SII_BUSY != 0 => Phase::Busy(number),
            Phase::Busy(number) => Phase::Read(number),
            Phase::Read(number) => self.read(known, number, data),
            Phase::Alias if word(data, 0) != known.alias => self.other(Phase::Alias, 5, u32::from(word(data, 0))),
            Phase::Alias => Phase::after_alias(known),
            Phase::Mark if known.mark.is_some_and(|mark| mark.stands_in(data)) => Phase::Proven,
            Phase::Mark | Phase::Place => Phase::Place,
            Phase::Proven => Phase::Proven,
            Phase::Dismiss(why) => return Err(Met::Dismissed(why)),
        })
    }

    fn enter(&mut self, phase: Phase, cycle: u64) {
        (self.phase, self.since) = (phase, cycle);
    }

    fn read(&mut self, known: &Known, number: usize, data: &[u8]) -> Phase {
        let value = u32::from_le_bytes([data[0], data[1], data[2], data[3]]);
        if value != known.identity[number] {
            return self.other(Phase::Ask(number), number as u16 + 1, value);
        }

        match () {
            () if number + 1 < IDENTITY.len() => Phase::Ask(number + 1),
            () if known.alias != 0 => Phase::Alias,
            () => Phase::after_alias(known),
        }
    }

    /// It says something else than it should: once more, and then it is another one.
    fn other(&mut self, again: Phase, what: u16, value: u32) -> Phase {
        if std::mem::replace(&mut self.differs, true) { Phase::Dismiss(Why::Other(what, value)) } else { again }
    }
}

impl Phase {
    fn after_alias(known: &Known) -> Self {
        if known.has_equals { Self::Mark } else { Self::Proven }
    }
}
