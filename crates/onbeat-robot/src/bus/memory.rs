//! What each device was told on its way to SAFEOP, to be told again when it comes back from being lost.
//!
//! Frames are read as they leave: nothing is asked twice, and whatever registers the library that configures devices writes, they are
//! repeated. What onbeat tells devices beside the library is put between by name.

use onbeat_rt::frame::{Command, word};

use super::numbers::{FMMU, FMMU_BYTES};
use super::pulses::Pulses;
use super::recovery::Question;
use super::sdo::Transfer;
use onbeat_ethercat::registers::TIME_DELAY;
pub(super) use onbeat_ethercat::registers::{
    AL_CONTROL, AL_STATUS, SII_OWNER, SPEED_START, STATION, SYNC_MANAGER, SYSTEM_TIME, TIME_DIFFERENCE, TIME_OFFSET,
};
use onbeat_ethercat::setup::ObjectValue;

/// Longest write that is kept, in bytes: a whole FMMU or SyncManager, or eight of the latter at once.
const LONGEST: usize = 64;

/// Where mailboxes begin.
const MAILBOXES: u16 = 0x1000;

/// Whether a write to this register belongs to the configuration of a device.
fn is_kept(register: u16) -> bool {
    const SYNC_MANAGERS_END: u16 = SYNC_MANAGER + 0x7f;
    const TIME_DELAY_END: u16 = TIME_DELAY + 3;
    const CONTROL_LOOP_END: u16 = SPEED_START + 5;
    let is_of_clock = matches!(register, TIME_DELAY..=TIME_DELAY_END | SPEED_START..=CONTROL_LOOP_END);
    FMMU.contains(&register) || is_of_clock || matches!(register, AL_CONTROL | SYNC_MANAGER..=SYNC_MANAGERS_END)
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) register: u16,
    pub(super) bytes: Box<[u8]>,
}

/// One thing that a device was told.
#[derive(Clone, Debug)]
pub(super) enum Line {
    /// Its registers.
    Register(Written),
    /// A value of an object.
    Object(Box<Transfer>),
    /// When its pulses come.
    Pulses(Pulses),
}

impl Line {
    /// A write of two bytes.
    pub(super) fn register(register: u16, value: u16) -> Self {
        Self::Register(Written { register, bytes: Box::new(value.to_le_bytes()) })
    }

    /// A value of an object of the device at this place.
    pub(super) fn object(device: usize, value: &ObjectValue) -> Self {
        Self::Object(Box::new(Transfer::line(device as u16, value)))
    }

    /// The write, if it is one of registers.
    pub(super) fn written(&self) -> Option<&Written> {
        if let Self::Register(written) = self { Some(written) } else { None }
    }
}

/// Logical address and length in an FMMU: no other device is given the same. Lost with the power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    register: u16,
    bytes: [u8; 6],
}

impl Mark {
    /// The last FMMU of a script that maps outputs, or else anything.
    pub(super) fn in_script(script: &[Line]) -> Option<Self> {
        const WRITES: u8 = 2;
        let fmmus = || {
            let written = script.iter().rev().filter_map(Line::written);
            written.filter(|line| {
                FMMU.contains(&line.register) && line.bytes.len() == FMMU_BYTES && word(&line.bytes, 4) > 0
            })
        };

        let found = fmmus().find(|line| line.bytes[11] & WRITES != 0).or_else(|| fmmus().next())?;
        let mut bytes = [0; 6];
        bytes.copy_from_slice(&found.bytes[..6]);
        Some(Self { register: found.register, bytes })
    }

    pub(super) fn question(self, station: u16) -> Question {
        Question::read(station, self.register, self.bytes.len())
    }

    pub(super) fn stands_in(self, data: &[u8]) -> bool {
        data == self.bytes
    }
}

/// All that devices were told, by station address, in its order.
#[derive(Debug, Default)]
pub(super) struct Memory {
    of_station: std::collections::BTreeMap<u16, Vec<Line>>,
    /// Counters of the last mails.
    mails: std::collections::BTreeMap<u16, u8>,
}

impl Memory {
    /// Looks at a frame that is being sent.
    pub(super) fn see(&mut self, frame: &[u8]) {
        for datagram in datagrams(frame) {
            let (station, register) = (word(datagram.header, 2), word(datagram.header, 4));
            if datagram.header[0] == Command::Fpwr as u8 && is_kept(register) && datagram.data.len() <= LONGEST {
                let written = Written { register, bytes: datagram.data.into() };
                self.of_station.entry(station).or_default().push(Line::Register(written));
            }

            if datagram.header[0] == Command::Fpwr as u8 && register >= MAILBOXES && datagram.data.len() > 5 {
                self.mails.insert(station, datagram.data[5] >> 4 & 7);
            }
        }
    }

    /// What the device at this station was told.
    pub(super) fn take(&mut self, station: u16) -> Vec<Line> {
        self.of_station.remove(&station).unwrap_or_default()
    }

    /// Takes back what the device at this station was told.
    pub(super) fn put(&mut self, station: u16, script: Vec<Line>) {
        self.of_station.insert(station, script);
    }

    /// Counter of the last mail to this station, 0 when there was none. A device takes two mails of one counter for one.
    pub(super) fn last_mail(&self, station: u16) -> u8 {
        self.mails.get(&station).copied().unwrap_or(0)
    }
}

/// One datagram of a frame.
pub(super) struct Datagram<'f> {
    pub(super) header: &'f [u8],
    pub(super) data: &'f [u8],
    pub(super) counter: u16,
}

/// The datagrams of an Ethernet frame, as far as they are whole.
pub(super) fn datagrams(frame: &[u8]) -> impl Iterator<Item = Datagram<'_>> {
    let mut rest = frame.get(16..).unwrap_or_default();
    let mut more = true;
    std::iter::from_fn(move || {
        if !more || rest.len() < 12 {
            return None;
        }

        let (header, behind) = rest.split_at(10);
        let length = usize::from(word(header, 6) & 0x07ff);
        let data = behind.get(..length)?;
        let counter = behind.get(length..length + 2)?;
        more = word(header, 6) & 0x8000 != 0;
        rest = &behind[length + 2..];
        Some(Datagram { header, data, counter: word(counter, 0) })
    })
}
