//! Configuration of each device on its way to SAFEOP, recorded to be repeated when the device
//! recovers.
//!
//! Frames are recorded as they are sent, so the record holds whatever registers ethercrab writes.
//! Steps that onbeat adds are inserted explicitly.

use onbeat_rt::frame::{Command, word};

use super::addresses::{FMMU, FMMU_BYTES};
use super::datagram_view::datagrams;
use super::register_query::RegisterQuery;
use super::sdo::SdoTransfer;
use super::sync0::Sync0Timing;
use onbeat_ethercat::registers::{AL_CONTROL, SPEED_START, SYNC_MANAGER, TIME_DELAY};
use onbeat_ethercat::setup::ObjectValue;

/// Maximum length of a recorded write, in bytes: an FMMU, or eight SyncManagers.
const LONGEST: usize = 64;
/// What the register areas have room for: sixteen FMMUs from 0x0600 on, sixteen SyncManagers from
/// 0x0800 on. A device has fewer.
const BLOCKS: usize = 16;
/// Bytes of a SyncManager.
const CHANNEL: usize = 8;
/// Type of an FMMU that the MainDevice writes through.
const WRITES: u8 = 2;
/// Control byte of a SyncManager (ETG.1000.4): mode in bits 0 and 1, direction in bits 2 and 3.
const MAILBOX: u8 = 2;
const TO_DEVICE: u8 = 4;

/// Returns whether a write to this register belongs to a device's configuration.
fn is_kept(register: u16) -> bool {
    const SYNC_MANAGERS_END: u16 = SYNC_MANAGER + 0x7f;
    const TIME_DELAY_END: u16 = TIME_DELAY + 3;
    const CONTROL_LOOP_END: u16 = SPEED_START + 5;
    let is_of_clock =
        matches!(register, TIME_DELAY..=TIME_DELAY_END | SPEED_START..=CONTROL_LOOP_END);
    FMMU.contains(&register)
        || is_of_clock
        || matches!(register, AL_CONTROL | SYNC_MANAGER..=SYNC_MANAGERS_END)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RegisterWrite {
    pub(super) register: u16,
    pub(super) bytes: Box<[u8]>,
}

/// A step of a device's configuration.
#[derive(Clone, Debug)]
pub(super) enum ConfigStep {
    Register(RegisterWrite),
    /// A start-up value of an object.
    Object(Box<SdoTransfer>),
    Sync0(Sync0Timing),
}

impl ConfigStep {
    /// Creates a write of two bytes.
    pub(super) fn register(register: u16, value: u16) -> Self {
        Self::Register(RegisterWrite { register, bytes: Box::new(value.to_le_bytes()) })
    }

    /// Creates the write of a start-up value of the device at this position.
    pub(super) fn object(device: usize, value: &ObjectValue) -> Self {
        Self::Object(Box::new(SdoTransfer::startup_value(device as u16, value)))
    }

    /// Returns the register write, if this is one.
    pub(super) fn written(&self) -> Option<&RegisterWrite> {
        if let Self::Register(written) = self { Some(written) } else { None }
    }
}

/// Logical address and length in an FMMU, unique on the bus. A device loses them with its power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FmmuMark {
    register: u16,
    bytes: [u8; 6],
}

impl FmmuMark {
    /// Finds the last FMMU in `script` that maps outputs, or else the last FMMU.
    pub(super) fn in_script(script: &[ConfigStep]) -> Option<Self> {
        let fmmus = || {
            let written = script.iter().rev().filter_map(ConfigStep::written);
            written.filter(|line| {
                FMMU.contains(&line.register)
                    && line.bytes.len() == FMMU_BYTES
                    && word(&line.bytes, 4) > 0
            })
        };

        let found = fmmus().find(|line| line.bytes[11] & WRITES != 0).or_else(|| fmmus().next())?;
        let mut bytes = [0; 6];
        bytes.copy_from_slice(&found.bytes[..6]);
        Some(Self { register: found.register, bytes })
    }

    pub(super) fn query(self, station: u16) -> RegisterQuery {
        RegisterQuery::read(station, self.register, self.bytes.len())
    }

    pub(super) fn matches(self, data: &[u8]) -> bool {
        data == self.bytes
    }
}

/// Returns whether every FMMU of a script maps whole areas of SyncManagers, one after the other.
/// One that begins with the area of a SyncManager and ends elsewhere would carry the outputs of one
/// area into another.
pub(super) fn maps_whole_areas(script: &[ConfigStep]) -> bool {
    let fmmus = registers(script, *FMMU.start(), BLOCKS * FMMU_BYTES);
    let channels = registers(script, SYNC_MANAGER, BLOCKS * CHANNEL);
    let area = |channel: &[u8]| (usize::from(word(channel, 0)), usize::from(word(channel, 2)));
    let areas: Vec<(usize, usize)> =
        channels.chunks(CHANNEL).filter(|channel| channel[6] & 1 != 0).map(area).collect();
    fmmus.chunks(FMMU_BYTES).filter(|fmmu| fmmu[12] & 1 != 0).all(|fmmu| {
        let mut at = usize::from(word(fmmu, 8));
        let end = at + usize::from(word(fmmu, 4));
        while at < end {
            let Some((_, bytes)) = areas.iter().find(|(start, bytes)| *start == at && *bytes > 0)
            else {
                return false;
            };
            at += bytes;
        }
        at == end
    })
}

/// Returns the writes that map the areas of SyncManagers one by one, for the FMMUs of a script that
/// do not map whole areas ([`maps_whole_areas`]). `fmmus` is the number of FMMUs of the device.
/// `None` if it has too few, or if the areas do not have the length of the FMMU.
///
/// ```text
/// SyncManagers  2: 0x1100, 3 bytes    3: 0x1200, 3 bytes     outputs
/// ethercrab     FMMU 0: 6 bytes at 0x1100                    the last 3 bytes miss SyncManager 3
/// this          FMMU 0: 3 bytes at 0x1100, FMMU 2: 3 bytes at 0x1200
/// ```
pub(super) fn fmmus_by_area(script: &[ConfigStep], fmmus: usize) -> Option<Vec<ConfigStep>> {
    let memory = registers(script, *FMMU.start(), BLOCKS * FMMU_BYTES);
    let blocks: Vec<&[u8]> = memory.chunks(FMMU_BYTES).collect();
    let is_used = |number: &usize| blocks[*number][12] & 1 != 0;
    let mut free = (0..fmmus.min(BLOCKS)).filter(|number| !is_used(number));
    let mut steps = Vec::new();
    for number in (0..BLOCKS).filter(is_used) {
        let block = blocks[number];
        let areas = areas_of(script, block[11] & WRITES != 0);
        let total: usize = areas.iter().map(|(_, bytes)| usize::from(*bytes)).sum();
        let first = areas.first().map(|(start, _)| *start);
        let is_of_areas = (first, total) == (Some(word(block, 8)), usize::from(word(block, 4)));
        // The mailbox state, which some devices have mapped, is no area.
        if areas.len() < 2 || !is_of_areas {
            continue;
        }

        let mut logical = u32::from_le_bytes([block[0], block[1], block[2], block[3]]);
        for (position, (start, bytes)) in areas.into_iter().enumerate() {
            // The first area keeps the FMMU that is there, which is the one the library knows of.
            let at = if position == 0 { number } else { free.next()? };
            let mut written = [0; FMMU_BYTES];
            written.copy_from_slice(block);
            written[..4].copy_from_slice(&logical.to_le_bytes());
            written[4..6].copy_from_slice(&bytes.to_le_bytes());
            written[8..10].copy_from_slice(&start.to_le_bytes());
            let register = *FMMU.start() + (at * FMMU_BYTES) as u16;
            steps.push(ConfigStep::Register(RegisterWrite { register, bytes: written.into() }));
            logical += u32::from(bytes);
        }
    }
    Some(steps).filter(|steps| !steps.is_empty())
}

/// Returns the writes that enable SyncManagers with process data which a script leaves disabled:
/// ethercrab takes the bit of the EEPROM, which for process data may have any value (ETG.2000).
pub(super) fn enabled_areas(script: &[ConfigStep]) -> Vec<ConfigStep> {
    let channels = registers(script, SYNC_MANAGER, BLOCKS * CHANNEL);
    let all = channels.chunks(CHANNEL).enumerate();
    let disabled =
        all.filter(|(number, channel)| channel[6] & 1 == 0 && has_process_data(*number, channel));
    let enable = |(number, channel): (usize, &[u8])| {
        let register = SYNC_MANAGER + (number * CHANNEL) as u16;
        let mut bytes = channel.to_vec();
        bytes[6] |= 1;
        ConfigStep::Register(RegisterWrite { register, bytes: bytes.into() })
    };
    disabled.map(enable).collect()
}

/// Returns whether a SyncManager has an area of process data, enabled or not.
fn has_process_data(number: usize, channel: &[u8]) -> bool {
    let is_mailbox = number < 2 && channel[4] & 3 == MAILBOX;
    word(channel, 2) > 0 && !is_mailbox
}

/// Returns start and length of the process data areas of one direction, by SyncManager.
fn areas_of(script: &[ConfigStep], is_outputs: bool) -> Vec<(u16, u16)> {
    let channels = registers(script, SYNC_MANAGER, BLOCKS * CHANNEL);
    let of_direction = channels.chunks(CHANNEL).enumerate().filter(|(number, channel)| {
        channel[6] & 1 != 0
            && has_process_data(*number, channel)
            && (channel[4] & 0x0c == TO_DEVICE) == is_outputs
    });
    of_direction.map(|(_, channel)| (word(channel, 0), word(channel, 2))).collect()
}

/// Returns the first logical address to which a script maps outputs; `None` without outputs.
pub(super) fn first_output_address(script: &[ConfigStep]) -> Option<u32> {
    let fmmus = registers(script, *FMMU.start(), BLOCKS * FMMU_BYTES);
    let outputs = fmmus
        .chunks(FMMU_BYTES)
        .filter(|fmmu| fmmu[12] & 1 != 0 && fmmu[11] & WRITES != 0 && word(fmmu, 4) > 0);
    outputs.map(|fmmu| u32::from_le_bytes([fmmu[0], fmmu[1], fmmu[2], fmmu[3]])).min()
}

/// Returns the registers from `first` on after the writes of a script.
fn registers(script: &[ConfigStep], first: u16, length: usize) -> Vec<u8> {
    // In the order of the writes: ethercrab extends an FMMU that it has written before.
    let mut memory = vec![0; length];
    for line in script.iter().filter_map(ConfigStep::written) {
        let Some(at) = line.register.checked_sub(first).map(usize::from) else { continue };
        for (to, byte) in memory.iter_mut().skip(at).zip(&line.bytes) {
            *to = *byte;
        }
    }
    memory
}

/// Configuration steps by station address, in order.
#[derive(Debug, Default)]
pub(super) struct ConfigRecord {
    of_station: std::collections::BTreeMap<u16, Vec<ConfigStep>>,
    /// Counters of the last mails, by station address.
    mails: std::collections::BTreeMap<u16, u8>,
}

impl ConfigRecord {
    /// Records the configuration writes in a frame of ethercrab.
    pub(super) fn record(&mut self, frame: &[u8]) {
        for datagram in datagrams(frame) {
            let station = word(datagram.header, 2);
            let register = word(datagram.header, 4);
            if datagram.header[0] == Command::Fpwr as u8
                && is_kept(register)
                && datagram.data.len() <= LONGEST
            {
                let written = RegisterWrite { register, bytes: datagram.data.into() };
                self.of_station.entry(station).or_default().push(ConfigStep::Register(written));
            }
        }
    }

    /// Returns the steps of the device at this station address.
    pub(super) fn steps(&self, station: u16) -> &[ConfigStep] {
        self.of_station.get(&station).map_or(&[], Vec::as_slice)
    }

    /// Removes and returns the steps of the device at this station address.
    pub(super) fn remove(&mut self, station: u16) -> Vec<ConfigStep> {
        self.of_station.remove(&station).unwrap_or_default()
    }

    /// Stores the steps of the device at this station address.
    pub(super) fn insert(&mut self, station: u16, script: Vec<ConfigStep>) {
        self.of_station.insert(station, script);
    }

    /// Stores the counter of the last mail to this station address.
    pub(super) fn set_mail_counter(&mut self, station: u16, counter: u8) {
        self.mails.insert(station, counter);
    }

    /// Returns the counter of the last mail to this station address, 0 if none. A device ignores a
    /// second mail with the same counter.
    pub(super) fn last_mail_counter(&self, station: u16) -> u8 {
        self.mails.get(&station).copied().unwrap_or(0)
    }
}
