//! The EEPROMs of all devices, read side by side.
//!
//! ethercrab reads one device's EEPROM after the other's, eight bytes at a time, in three frames or more each: most of what bringing up
//! fifty devices costs. Here its first request for a place of any EEPROM becomes one request to all devices by broadcast, whose answers
//! are fetched together; its later requests for the same place of the other devices are answered from here, and no frame leaves. Devices
//! of a kind are read at the same places, so that nothing is fetched in vain.
//!
//! What a device does not give (busy for too long, an error, an EEPROM that is not ours at the moment) is not kept: there ethercrab's own
//! frames leave and it sees what the device says.

use std::collections::BTreeMap;

use onbeat_ethercat::registers::{SII_CONTROL, SII_DATA};
use onbeat_rt::frame::{Command, Writer, register, word};

use super::memory::{STATION, datagrams};

/// Control, address and data of a read (ETG.1000.4, 6.4).
const WHOLE: usize = 14;
/// "Read" in the control word.
const READ: u16 = 0x0100;
/// "Eight bytes at a time" in the status word; four otherwise.
const EIGHT_BYTES: u16 = 0x0040;
/// Checksum, device information, acknowledge and write enable errors in the status word.
const ERRORS: u16 = 0x7800;
const BUSY: u16 = 0x8000;
/// Source address of these frames.
const PURPOSE: u8 = 0x40;
/// Where the frame says that a device passed it on.
const PASSED_ON: (usize, u8) = (6, 0x02);
/// Where the data of the first datagram begin.
const DATA: usize = 26;

/// What is to become of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// It leaves.
    Wire,
    /// It has been turned into its own reply.
    Answered,
    /// It asks for this word, which has to be fetched of all devices; then it is looked at again.
    Fetch(u16),
}

/// Eight or four bytes of an EEPROM, with the status that came with them.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    status: u16,
    data: [u8; 8],
}

impl Chunk {
    fn length(self) -> usize {
        if self.status & EIGHT_BYTES != 0 { 8 } else { 4 }
    }
}

/// What is known of all EEPROMs.
#[derive(Debug, Default)]
pub(super) struct Eeproms {
    /// Addresses that devices were given.
    stations: Vec<u16>,
    chunks: BTreeMap<(u16, u16), Chunk>,
    /// Words that all devices have been asked for.
    fetched: Vec<u16>,
    /// The word that was last asked for and is answered from here, by station.
    asked: BTreeMap<u16, u16>,
}

impl Eeproms {
    /// Looks at a frame that is to leave.
    pub(super) fn look(&mut self, frame: &mut [u8]) -> Way {
        let Some((command, station, at, length)) = only_datagram(frame) else { return Way::Wire };
        if command == Command::Apwr as u8 && at == STATION && length >= 2 {
            self.stations.push(word(frame, DATA));
        }

        if command == Command::Fpwr as u8 && at < SII_DATA + 8 && usize::from(at) + length > usize::from(SII_CONTROL) {
            self.asked.remove(&station);
            if at == SII_CONTROL && length == 6 && word(frame, DATA) == READ {
                return self.ask(station, word(frame, DATA + 2), frame);
            }
            // It is written, or reset.
            self.chunks.retain(|(of, _), _| *of != station);
        }

        if command == Command::Fprd as u8 { self.tell(station, at, length, frame) } else { Way::Wire }
    }

    /// Tells what was asked for last.
    fn tell(&self, station: u16, at: u16, length: usize, frame: &mut [u8]) -> Way {
        let Some(chunk) = self.asked.get(&station).and_then(|asked| self.chunks.get(&(station, *asked))) else {
            return Way::Wire;
        };
        match at {
            SII_CONTROL if length == 2 => frame[DATA..DATA + 2].copy_from_slice(&chunk.status.to_le_bytes()),
            SII_DATA if length <= chunk.length() => frame[DATA..DATA + length].copy_from_slice(&chunk.data[..length]),
            _ => return Way::Wire,
        }

        answered(frame, length)
    }

    fn ask(&mut self, station: u16, asked: u16, frame: &mut [u8]) -> Way {
        if self.chunks.contains_key(&(station, asked)) {
            self.asked.insert(station, asked);
            return answered(frame, 6);
        }

        if self.fetched.contains(&asked) || !self.stations.contains(&station) {
            return Way::Wire;
        }

        self.fetched.push(asked);
        Way::Fetch(asked)
    }

    /// Begins to fetch a word of all devices: the frame that asks them; its length in `buffer`.
    pub(super) fn request(asked: u16, buffer: &mut [u8]) -> usize {
        let mut writer = Writer::new(buffer, PURPOSE);
        let [low, high] = asked.to_le_bytes();
        let [first, second] = READ.to_le_bytes();
        writer.push_data(Command::Bwr, register(0, SII_CONTROL), &[first, second, low, high, 0, 0]);
        writer.finish()
    }

    /// Addresses that devices were given, in the order in which they were.
    pub(super) fn stations(&self) -> Vec<u16> {
        self.stations.clone()
    }

    /// A frame that fetches what the first of these devices have read: for how many of them, and its length in `buffer`.
    pub(super) fn question(stations: &[u16], buffer: &mut [u8]) -> (usize, usize) {
        let mut writer = Writer::new(buffer, PURPOSE);
        let fit = stations
            .iter()
            .take_while(|station| writer.push(Command::Fprd, register(**station, SII_CONTROL), WHOLE).is_some());
        let asked = fit.count();
        (asked, writer.finish())
    }

    /// These are asked no more beside the others: they take too long.
    pub(super) fn leave(&mut self, stations: &[u16]) {
        self.stations.retain(|station| !stations.contains(station));
    }

    /// Takes the reply to that; devices that have not read yet are left in `waiting`.
    pub(super) fn take(&mut self, asked: u16, reply: &[u8], waiting: &mut Vec<u16>) {
        for datagram in datagrams(reply).filter(|datagram| datagram.data.len() == WHOLE) {
            let (station, status) = (word(datagram.header, 2), word(datagram.data, 0));
            let came = datagram.counter == 1;
            if came && status & BUSY != 0 {
                waiting.push(station);
            } else if came && status & ERRORS == 0 && word(datagram.data, 2) == asked {
                let mut data = [0; 8];
                data.copy_from_slice(&datagram.data[6..]);
                self.chunks.insert((station, asked), Chunk { status, data });
            }
        }
    }
}

/// Command, address and length of a frame's datagram, when it has one only.
fn only_datagram(frame: &[u8]) -> Option<(u8, u16, u16, usize)> {
    let mut all = datagrams(frame);
    let datagram = all.next()?;
    all.next()
        .is_none()
        .then(|| (datagram.header[0], word(datagram.header, 2), word(datagram.header, 4), datagram.data.len()))
}

/// Makes a frame with `length` bytes of data come back from one device.
fn answered(frame: &mut [u8], length: usize) -> Way {
    frame[PASSED_ON.0] |= PASSED_ON.1;
    let counter = DATA + length;
    frame[counter..counter + 2].copy_from_slice(&1u16.to_le_bytes());
    Way::Answered
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: u16 = 0x1000;
    const SECOND: u16 = 0x1001;

    fn frame(command: Command, address: u32, data: &[u8]) -> Vec<u8> {
        let mut buffer = vec![0; 1514];
        let mut writer = Writer::new(&mut buffer, 0x10);
        writer.push_data(command, address, data);
        let length = writer.finish();
        buffer.truncate(length);
        buffer
    }

    fn read(station: u16, asked: u8) -> Vec<u8> {
        frame(Command::Fpwr, register(station, SII_CONTROL), &[0, 1, asked, 0, 0, 0])
    }

    /// Two devices that were given their stations.
    fn two() -> Eeproms {
        let mut eeproms = Eeproms::default();
        for (place, station) in [FIRST, SECOND].into_iter().enumerate() {
            let given =
                &mut frame(Command::Apwr, register(0u16.wrapping_sub(place as u16), STATION), &station.to_le_bytes());
            assert_eq!(eeproms.look(given), Way::Wire);
        }

        eeproms
    }

    /// What the devices say of a word: status and data of each.
    fn reply(asked: u16, said: &[(u16, u16, u8)]) -> Vec<u8> {
        let mut buffer = vec![0; 1514];
        let stations: Vec<u16> = said.iter().map(|(station, ..)| *station).collect();
        let (count, length) = Eeproms::question(&stations, &mut buffer);
        assert_eq!(count, said.len());
        for (nth, (_, status, byte)) in said.iter().enumerate() {
            let at = DATA + nth * (12 + WHOLE);
            buffer[at..at + 2].copy_from_slice(&status.to_le_bytes());
            buffer[at + 2..at + 4].copy_from_slice(&asked.to_le_bytes());
            buffer[at + 6..at + WHOLE].fill(*byte);
            buffer[at + WHOLE] = 1;
        }

        buffer.truncate(length);
        buffer
    }

    fn data_of(frame: &[u8]) -> (Vec<u8>, u16) {
        let datagram = datagrams(frame).next().unwrap();
        (datagram.data.to_vec(), datagram.counter)
    }

    #[test]
    fn what_one_device_is_asked_for_is_fetched_of_all_and_told_from_here() {
        let mut eeproms = two();
        assert_eq!(eeproms.look(&mut read(FIRST, 8)), Way::Fetch(8));
        let mut waiting = Vec::new();
        eeproms.take(8, &reply(8, &[(FIRST, EIGHT_BYTES, 0x11), (SECOND, EIGHT_BYTES, 0x22)]), &mut waiting);

        assert!(waiting.is_empty());
        for (station, byte) in [(FIRST, 0x11), (SECOND, 0x22), (FIRST, 0x11)] {
            assert_eq!(eeproms.look(&mut read(station, 8)), Way::Answered);
            let mut status = frame(Command::Fprd, register(station, SII_CONTROL), &[0; 2]);
            assert_eq!(eeproms.look(&mut status), Way::Answered);
            assert_eq!(data_of(&status), (EIGHT_BYTES.to_le_bytes().to_vec(), 1));
            let mut data = frame(Command::Fprd, register(station, SII_DATA), &[0; 8]);

            assert_eq!(eeproms.look(&mut data), Way::Answered);
            assert_eq!(data_of(&data), (vec![byte; 8], 1));
            assert_eq!(data[6] & 2, 2, "as if a device had passed it on");
        }
    }

    #[test]
    fn a_device_that_is_busy_is_asked_again_and_one_with_an_error_speaks_for_itself() {
        let mut eeproms = two();
        assert_eq!(eeproms.look(&mut read(FIRST, 8)), Way::Fetch(8));
        let mut waiting = Vec::new();
        eeproms.take(8, &reply(8, &[(FIRST, BUSY, 0), (SECOND, 0x0800, 0x22)]), &mut waiting);

        assert_eq!(waiting, [FIRST]);
        eeproms.take(8, &reply(8, &[(FIRST, 0, 0x11)]), &mut Vec::new());
        assert_eq!(eeproms.look(&mut read(FIRST, 8)), Way::Answered);
        let mut eight = frame(Command::Fprd, register(FIRST, SII_DATA), &[0; 8]);
        assert_eq!(eeproms.look(&mut eight), Way::Wire, "it gives four at a time");
        assert_eq!(eeproms.look(&mut read(SECOND, 8)), Way::Wire, "and all are not asked for this word again");
        let mut data = frame(Command::Fprd, register(SECOND, SII_DATA), &[0; 8]);

        assert_eq!(eeproms.look(&mut data), Way::Wire);
    }

    #[test]
    fn a_device_that_was_asked_for_something_else_or_does_not_answer_is_not_believed() {
        let mut eeproms = two();
        assert_eq!(eeproms.look(&mut read(FIRST, 8)), Way::Fetch(8));
        let mut silent = reply(8, &[(FIRST, 0, 0x11), (SECOND, 0, 0x22)]);
        silent[DATA + WHOLE] = 0;
        eeproms.take(8, &silent, &mut Vec::new());

        assert_eq!(eeproms.look(&mut read(FIRST, 8)), Way::Wire);
        let mut eeproms = two();
        assert_eq!(eeproms.look(&mut read(FIRST, 8)), Way::Fetch(8));
        eeproms.take(8, &reply(9, &[(FIRST, 0, 0x11)]), &mut Vec::new());
        assert_eq!(eeproms.look(&mut read(FIRST, 8)), Way::Wire);
    }

    #[test]
    fn what_is_written_is_not_told_from_here_any_more() {
        let mut eeproms = two();
        assert_eq!(eeproms.look(&mut read(FIRST, 8)), Way::Fetch(8));
        eeproms.take(8, &reply(8, &[(FIRST, 0, 0x11), (SECOND, 0, 0x22)]), &mut Vec::new());
        let mut write = frame(Command::Fpwr, register(FIRST, SII_CONTROL), &[1, 2, 8, 0, 0, 0]);

        assert_eq!(eeproms.look(&mut write), Way::Wire);
        assert_eq!(eeproms.look(&mut read(FIRST, 8)), Way::Wire);
        assert_eq!(eeproms.look(&mut read(SECOND, 8)), Way::Answered);
    }

    #[test]
    fn frames_about_something_else_leave_as_they_are() {
        let mut eeproms = two();
        for address in [0x0130, 0x0500, 0x0510, 0x1000] {
            for command in [Command::Fprd, Command::Fpwr] {
                let mut other = frame(command, register(FIRST, address), &[0; 2]);
                let before = other.clone();
                assert_eq!((eeproms.look(&mut other), &other), (Way::Wire, &before));
            }
        }

        assert_eq!(eeproms.look(&mut read(0x1234, 8)), Way::Wire, "a station that nobody was given");
    }
}
