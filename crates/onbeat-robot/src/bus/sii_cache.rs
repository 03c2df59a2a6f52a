//! Cache of the devices' EEPROM contents (SII), read from all devices concurrently.
//!
//! ethercrab reads one EEPROM after the other, eight bytes at a time, in three frames or more each:
//! most of the bring-up time of fifty devices. Here its first read of a word becomes a broadcast
//! request to all devices, and their data are fetched together. Later reads of the same word of
//! other devices are answered from this cache, without a frame. Devices of one type are read at the
//! same words, so no fetch is wasted.
//!
//! Data that a device does not deliver (busy too long, error, EEPROM assigned to the device) are
//! not cached: ethercrab's own frames are sent instead, and it sees the device's reply.

use std::collections::BTreeMap;

use onbeat_ethercat::registers::{
    SII_BUSY, SII_CHECKSUM_ERROR, SII_CONTROL, SII_DATA, SII_READ, SII_READS_EIGHT, STATION,
};
use onbeat_ethercat::wire::Wire;
use onbeat_rt::frame::{Command, register, word};

use super::datagram_view::datagrams;
use super::error::BusError;
use super::frame_exchange::{FrameExchange, push_reads};
use super::register_query::sii_request;
use super::single_datagram::{DATA, SingleDatagram};

/// Bytes of control, address and data of a read (ETG.1000.4, 6.4).
const WHOLE: usize = 14;
/// Status bits: checksum, device information, acknowledge and write enable errors.
const ERRORS: u16 = 0x7800;
/// Word of the vendor id.
pub(super) const VENDOR: u16 = 0x0008;
/// Source address of these frames.
const PURPOSE: u8 = 0x40;

/// Action for a frame that ethercrab sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameAction {
    Send,
    /// It was turned into its own reply.
    Answered,
    /// Fetch this word from all devices, then intercept the frame again.
    Fetch(u16),
}

/// Four or eight bytes of an EEPROM, with their status.
#[derive(Clone, Copy, Debug)]
struct SiiChunk {
    status: u16,
    data: [u8; 8],
}

impl SiiChunk {
    fn length(self) -> usize {
        if self.status & SII_READS_EIGHT != 0 { 8 } else { 4 }
    }
}

/// Cached EEPROM contents of all devices.
#[derive(Debug, Default)]
pub(super) struct SiiCache {
    /// Assigned station addresses.
    stations: Vec<u16>,
    chunks: BTreeMap<(u16, u16), SiiChunk>,
    /// Words requested from all devices.
    fetched: Vec<u16>,
    /// Devices with a wrong checksum, and what their EEPROM holds as vendor id.
    damaged: Vec<(u16, [u8; 4])>,
    /// Word requested last and answered from the cache, by station address.
    word_address: BTreeMap<u16, u16>,
}

impl SiiCache {
    /// Decides what happens to a frame that ethercrab sends.
    pub(super) fn intercept(&mut self, frame: &mut [u8]) -> FrameAction {
        let Some(datagram) = SingleDatagram::in_frame(frame) else {
            return FrameAction::Send;
        };
        let SingleDatagram { command, station, register: at, length } = datagram;
        // The library gives out addresses; from here on the cache knows which devices can be read
        // together.
        if command == Command::Apwr as u8 && at == STATION && length >= 2 {
            self.stations.push(word(frame, DATA));
        }

        if command == Command::Fpwr as u8
            && at < SII_DATA + 8
            && usize::from(at) + length > usize::from(SII_CONTROL)
        {
            self.word_address.remove(&station);
            if at == SII_CONTROL && length == 6 && word(frame, DATA) == SII_READ {
                return self.read_request(datagram, frame);
            }
            // The EEPROM is written or reset.
            // What was read before is no longer certain.
            self.chunks.retain(|(of, _), _| *of != station);
        }

        if command == Command::Fprd as u8 {
            self.reply_from_cache(datagram, frame)
        } else {
            FrameAction::Send
        }
    }

    /// Answers a read of the last requested word.
    fn reply_from_cache(&self, read: SingleDatagram, frame: &mut [u8]) -> FrameAction {
        // Two reads for each word, of the status and of the data: both are answered from what was
        // fetched for all.
        let Some(chunk) = self
            .word_address
            .get(&read.station)
            .and_then(|word_address| self.chunks.get(&(read.station, *word_address)))
        else {
            return FrameAction::Send;
        };
        match read.register {
            SII_CONTROL if read.length == 2 => read.answer(frame, &chunk.status.to_le_bytes(), 1),
            SII_DATA if read.length <= chunk.length() => read.answer(frame, &chunk.data, 1),
            _ => return FrameAction::Send,
        }

        FrameAction::Answered
    }

    fn read_request(&mut self, request: SingleDatagram, frame: &mut [u8]) -> FrameAction {
        let station = request.station;
        let word_address = word(frame, DATA + 2);
        if self.chunks.contains_key(&(station, word_address)) {
            self.word_address.insert(station, word_address);
            request.accept(frame, 1);
            return FrameAction::Answered;
        }

        // Fetched for all, and this device did not give it: it is asked by itself, at its own pace.
        if self.fetched.contains(&word_address) || !self.stations.contains(&station) {
            return FrameAction::Send;
        }

        self.fetched.push(word_address);
        FrameAction::Fetch(word_address)
    }

    /// Returns whether the EEPROM of this device lists the mailbox protocol CoE, as far as it was
    /// read (ETG.1000.6, 5.4: mailbox protocols, bit 2).
    pub(super) fn supports_coe(&self, station: u16) -> bool {
        // Word 0x1c of the SII: the mailbox protocols (ETG.2010); bit 2 is CoE.
        const PROTOCOLS: u16 = 0x1c;
        const COE: u8 = 0x04;
        let chunk = self.chunks.get(&(station, PROTOCOLS));
        chunk.is_some_and(|chunk| chunk.data[0] & COE != 0)
    }

    /// Returns the first device whose word reads as that of an erased EEPROM.
    pub(super) fn blank(&self, word_address: u16) -> Option<u16> {
        let is_blank = |station: &&u16| {
            let chunk = self.chunks.get(&(**station, word_address));
            let is_damaged = self.damaged.contains(&(**station, [0xff; 4]));
            is_damaged || chunk.is_some_and(|chunk| chunk.data[..4] == [0xff; 4])
        };
        self.stations.iter().find(is_blank).copied()
    }

    /// Returns the first device that reports a wrong checksum of its EEPROM's configuration area.
    pub(super) fn damaged(&self) -> Option<u16> {
        self.damaged.first().map(|(station, _)| *station)
    }

    /// Requests a word from all devices.
    pub(super) fn request<W: Wire>(
        word_address: u16,
        exchange: &mut FrameExchange<'_, W>,
    ) -> Result<(), BusError> {
        // One broadcast makes all EEPROMs read the same word at once.
        let request = sii_request(SII_READ, word_address);
        exchange.ask(PURPOSE, |writer| {
            writer.push_data(Command::Bwr, register(0, SII_CONTROL), &request);
        })
    }

    /// Reads the data of these devices; those that are still busy remain.
    pub(super) fn look<W: Wire>(
        &mut self,
        word_address: u16,
        waiting: &mut Vec<u16>,
        exchange: &mut FrameExchange<'_, W>,
    ) -> Result<(), BusError> {
        let mut rest = std::mem::take(waiting);
        while !rest.is_empty() {
            let stations = rest.iter().copied();
            let count =
                exchange.ask(PURPOSE, |writer| push_reads(writer, stations, SII_CONTROL, WHOLE))?;
            self.take(word_address, exchange.reply(), waiting);
            rest.drain(..count);
        }
        Ok(())
    }

    /// Returns the assigned station addresses, in order of assignment.
    pub(super) fn stations(&self) -> Vec<u16> {
        self.stations.clone()
    }

    /// Excludes slow devices from concurrent reads.
    pub(super) fn exclude(&mut self, stations: &[u16]) {
        self.stations.retain(|station| !stations.contains(station));
    }

    /// Processes the reply; adds devices that are still busy to `waiting`.
    fn take(&mut self, word_address: u16, reply: &[u8], waiting: &mut Vec<u16>) {
        for datagram in datagrams(reply).filter(|datagram| datagram.data.len() == WHOLE) {
            let station = word(datagram.header, 2);
            let status = word(datagram.data, 0);
            let came = datagram.counter == 1;
            if came && status & SII_BUSY != 0 {
                waiting.push(station);
            } else if came && status & SII_CHECKSUM_ERROR != 0 && word_address == VENDOR {
                let data = datagram.data;
                self.damaged.push((station, [data[6], data[7], data[8], data[9]]));
            } else if came && status & ERRORS == 0 && word(datagram.data, 2) == word_address {
                let mut data = [0; 8];
                data.copy_from_slice(&datagram.data[6..]);
                self.chunks.insert((station, word_address), SiiChunk { status, data });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use onbeat_rt::frame::Writer;

    use super::*;
    use crate::bus::single_datagram::frame;

    const FIRST: u16 = 0x1000;
    const SECOND: u16 = 0x1001;

    fn read(station: u16, word_address: u8) -> Vec<u8> {
        frame(Command::Fpwr, register(station, SII_CONTROL), &[0, 1, word_address, 0, 0, 0])
    }

    /// A cache with two devices that received their station addresses.
    fn two() -> SiiCache {
        let mut cache = SiiCache::default();
        for (place, station) in [FIRST, SECOND].into_iter().enumerate() {
            let given = &mut frame(
                Command::Apwr,
                register(0u16.wrapping_sub(place as u16), STATION),
                &station.to_le_bytes(),
            );
            assert_eq!(cache.intercept(given), FrameAction::Send);
        }

        cache
    }

    /// Replies of devices to the read of a word: station address, status and data byte of each.
    fn reply(word_address: u16, said: &[(u16, u16, u8)]) -> Vec<u8> {
        let mut buffer = vec![0; 1514];
        let stations = said.iter().map(|(station, ..)| *station);
        let mut writer = Writer::new(&mut buffer, PURPOSE);
        assert_eq!(push_reads(&mut writer, stations, SII_CONTROL, WHOLE), said.len());
        let length = writer.finish();
        for (nth, (_, status, byte)) in said.iter().enumerate() {
            let at = DATA + nth * (12 + WHOLE);
            buffer[at..at + 2].copy_from_slice(&status.to_le_bytes());
            buffer[at + 2..at + 4].copy_from_slice(&word_address.to_le_bytes());
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
    fn a_word_read_from_one_device_is_fetched_from_all_and_answered_from_the_cache() {
        let mut cache = two();
        assert_eq!(cache.intercept(&mut read(FIRST, 8)), FrameAction::Fetch(8));
        let mut waiting = Vec::new();
        cache.take(
            8,
            &reply(8, &[(FIRST, SII_READS_EIGHT, 0x11), (SECOND, SII_READS_EIGHT, 0x22)]),
            &mut waiting,
        );

        assert!(waiting.is_empty());
        for (station, byte) in [(FIRST, 0x11), (SECOND, 0x22), (FIRST, 0x11)] {
            assert_eq!(cache.intercept(&mut read(station, 8)), FrameAction::Answered);
            let mut status = frame(Command::Fprd, register(station, SII_CONTROL), &[0; 2]);
            assert_eq!(cache.intercept(&mut status), FrameAction::Answered);
            assert_eq!(data_of(&status), (SII_READS_EIGHT.to_le_bytes().to_vec(), 1));
            let mut data = frame(Command::Fprd, register(station, SII_DATA), &[0; 8]);

            assert_eq!(cache.intercept(&mut data), FrameAction::Answered);
            assert_eq!(data_of(&data), (vec![byte; 8], 1));
            assert_eq!(data[6] & 2, 2, "as if a device had processed it");
        }
    }

    #[test]
    fn a_busy_device_is_polled_again_and_one_with_an_error_is_not_cached() {
        let mut cache = two();
        assert_eq!(cache.intercept(&mut read(FIRST, 8)), FrameAction::Fetch(8));
        let mut waiting = Vec::new();
        cache.take(8, &reply(8, &[(FIRST, SII_BUSY, 0), (SECOND, 0x0800, 0x22)]), &mut waiting);

        assert_eq!(waiting, [FIRST]);
        cache.take(8, &reply(8, &[(FIRST, 0, 0x11)]), &mut Vec::new());
        assert_eq!(cache.intercept(&mut read(FIRST, 8)), FrameAction::Answered);
        let mut eight = frame(Command::Fprd, register(FIRST, SII_DATA), &[0; 8]);
        assert_eq!(
            cache.intercept(&mut eight),
            FrameAction::Send,
            "it returns four bytes per read"
        );
        assert_eq!(
            cache.intercept(&mut read(SECOND, 8)),
            FrameAction::Send,
            "and the word is not fetched again"
        );
        let mut data = frame(Command::Fprd, register(SECOND, SII_DATA), &[0; 8]);

        assert_eq!(cache.intercept(&mut data), FrameAction::Send);
    }

    #[test]
    fn replies_for_another_word_or_without_a_working_counter_are_not_cached() {
        let mut cache = two();
        assert_eq!(cache.intercept(&mut read(FIRST, 8)), FrameAction::Fetch(8));
        let mut silent = reply(8, &[(FIRST, 0, 0x11), (SECOND, 0, 0x22)]);
        silent[DATA + WHOLE] = 0;
        cache.take(8, &silent, &mut Vec::new());

        assert_eq!(cache.intercept(&mut read(FIRST, 8)), FrameAction::Send);
        let mut cache = two();
        assert_eq!(cache.intercept(&mut read(FIRST, 8)), FrameAction::Fetch(8));
        cache.take(8, &reply(9, &[(FIRST, 0, 0x11)]), &mut Vec::new());
        assert_eq!(cache.intercept(&mut read(FIRST, 8)), FrameAction::Send);
    }

    #[test]
    fn a_write_invalidates_the_cache() {
        let mut cache = two();
        assert_eq!(cache.intercept(&mut read(FIRST, 8)), FrameAction::Fetch(8));
        cache.take(8, &reply(8, &[(FIRST, 0, 0x11), (SECOND, 0, 0x22)]), &mut Vec::new());
        let mut write = frame(Command::Fpwr, register(FIRST, SII_CONTROL), &[1, 2, 8, 0, 0, 0]);

        assert_eq!(cache.intercept(&mut write), FrameAction::Send);
        assert_eq!(cache.intercept(&mut read(FIRST, 8)), FrameAction::Send);
        assert_eq!(cache.intercept(&mut read(SECOND, 8)), FrameAction::Answered);
    }

    #[test]
    fn other_frames_are_sent_unchanged() {
        let mut cache = two();
        for address in [0x0130, 0x0500, 0x0510, 0x1000] {
            for command in [Command::Fprd, Command::Fpwr] {
                let mut other = frame(command, register(FIRST, address), &[0; 2]);
                let before = other.clone();
                assert_eq!((cache.intercept(&mut other), &other), (FrameAction::Send, &before));
            }
        }

        assert_eq!(
            cache.intercept(&mut read(0x1234, 8)),
            FrameAction::Send,
            "an unassigned station address"
        );
    }
}
