//! Encoder of the EEPROM of a device, SII (ETG.1000.6 and ETG.2010).

use super::coe::Dictionary;
use super::firmware::Mailboxes;
use onbeat_ethercat::esi::{DcMode, SyncManagerEntry};
use onbeat_ethercat::sii::checksum;

/// Most strings, and longest string in bytes: both numbers are stored in one byte.
const MOST_STRINGS: usize = 255;
/// Offset of the first category, in bytes.
const CATEGORIES: usize = 0x80;

/// Identity of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SiiIdentity {
    pub(crate) vendor: u32,
    pub(crate) product: u32,
    pub(crate) revision: u32,
    pub(crate) serial: u32,
    pub(crate) alias: u16,
}

/// One PDO of the EEPROM; its entries are those of the object with its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PdoListing {
    pub(crate) index: u16,
    /// SyncManager to which it is assigned; [`PdoListing::NOT_ASSIGNED`] for none.
    pub(crate) channel: u8,
    /// [`PdoListing::MANDATORY`] and [`PdoListing::FIXED`].
    pub(crate) flags: u16,
}

impl PdoListing {
    pub(crate) const NOT_ASSIGNED: u8 = 0xff;
    pub(crate) const MANDATORY: u16 = 0x0001;
    pub(crate) const FIXED: u16 = 0x0010;
}

/// Contents of the EEPROM.
pub(crate) struct SiiContents {
    pub(crate) identity: SiiIdentity,
    pub(crate) name: String,
    pub(crate) order: String,
    /// Configuration area, without alias and checksum.
    pub(crate) configuration: [u8; 14],
    /// Bootstrap mailboxes: start and length of the receive mailbox, then of the send mailbox.
    pub(crate) bootstrap: [u16; 4],
    pub(crate) mailboxes: Option<Mailboxes>,
    pub(crate) sync_managers: Vec<SyncManagerEntry>,
    pub(crate) fmmus: Vec<u8>,
    /// PDOs of the outputs and of the inputs.
    pub(crate) pdos: [Vec<PdoListing>; 2],
    /// Operation modes of the distributed clock; empty without one.
    pub(crate) clock: Vec<DcMode>,
    /// Physical ports, four bits each.
    pub(crate) ports: u16,
    /// Size of the chip in bytes; it is larger if the contents need it.
    pub(crate) size: usize,
}

struct SiiWriter<'c> {
    bytes: Vec<u8>,
    strings: Vec<&'c str>,
}

impl<'c> SiiWriter<'c> {
    fn word(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Returns the number of a string, from 1; 0 for an empty string, or one that does not fit.
    fn string(&mut self, text: &'c str) -> u8 {
        if text.is_empty() || text.len() > MOST_STRINGS {
            return 0;
        }

        let known = self.strings.iter().position(|string| *string == text);
        if known.is_none() && self.strings.len() == MOST_STRINGS {
            return 0;
        }

        let position = known.unwrap_or_else(|| {
            self.strings.push(text);
            self.strings.len() - 1
        });

        (position + 1) as u8
    }

    fn category(&mut self, kind: u16, contents: &[u8]) {
        if !contents.is_empty() {
            self.word(kind);
            self.word(contents.len().div_ceil(2) as u16);
            self.bytes.extend_from_slice(contents);
            self.bytes.resize(self.bytes.len().next_multiple_of(2), 0);
        }
    }
}

impl SiiContents {
    /// Returns the bytes of the chip of a device with these objects.
    pub(crate) fn image(&self, objects: &Dictionary) -> Vec<u8> {
        let mut writer = SiiWriter { bytes: self.fixed_part(), strings: Vec::new() };
        let order = writer.string(&self.order);
        let name = writer.string(&self.name);
        let general = self.general(order, name);
        let outputs = pdos(&mut writer, objects, &self.pdos[0]);
        let inputs = pdos(&mut writer, objects, &self.pdos[1]);
        let clock = clock(&mut writer, &self.clock);
        let mut strings = vec![writer.strings.len() as u8];
        for string in &writer.strings {
            strings.push(string.len() as u8);
            strings.extend_from_slice(string.as_bytes());
        }

        writer.category(10, &strings);
        writer.category(30, &general);
        writer.category(40, &self.fmmus);
        writer.category(41, &self.sync_managers());
        writer.category(50, &inputs);
        writer.category(51, &outputs);
        writer.category(60, &clock);
        writer.word(0xffff);
        let size = self.size.max(writer.bytes.len().next_power_of_two());
        writer.bytes.resize(size, 0xff);
        let kilobits = (size / 128 - 1) as u16;
        writer.bytes[0x7c..0x7e].copy_from_slice(&kilobits.to_le_bytes());

        writer.bytes
    }

    fn fixed_part(&self) -> Vec<u8> {
        let mut words = [0u16; CATEGORIES / 2];
        for (word, bytes) in words.iter_mut().zip(self.configuration.as_chunks::<2>().0) {
            *word = u16::from_le_bytes(*bytes);
        }

        words[4] = self.identity.alias;
        let identity = &self.identity;
        for (at, value) in [identity.vendor, identity.product, identity.revision, identity.serial]
            .iter()
            .enumerate()
        {
            words[8 + 2 * at] = *value as u16;
            words[9 + 2 * at] = (*value >> 16) as u16;
        }

        words[0x14..0x18].copy_from_slice(&self.bootstrap);
        if let Some(Mailboxes { to_device, to_main, coe, foe, .. }) = self.mailboxes {
            words[0x18..0x1c].copy_from_slice(&[to_device.0, to_device.1, to_main.0, to_main.1]);
            words[0x1c] = if coe == 0 { 0 } else { 0x0004 } | if foe { 0x0008 } else { 0 };
        }

        words[0x3f] = 1;
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes[14] = checksum(&bytes[..14]);
        bytes
    }

    fn general(&self, order: u8, name: u8) -> Vec<u8> {
        let mut general = vec![0; 32];
        general[2] = order;
        general[3] = name;
        general[5] = self.mailboxes.map_or(0, |boxes| boxes.coe);
        general[6] = self.mailboxes.map_or(0, |boxes| u8::from(boxes.foe));
        general[16..18].copy_from_slice(&self.ports.to_le_bytes());
        general
    }

    fn sync_managers(&self) -> Vec<u8> {
        let encode = |entry: &SyncManagerEntry| {
            let [start_low, start_high] = entry.start.to_le_bytes();
            let [length_low, length_high] = entry.length.to_le_bytes();
            let enabled = u8::from(entry.enabled || entry.length > 0);
            [start_low, start_high, length_low, length_high, entry.control, 0, enabled, entry.usage]
        };
        self.sync_managers.iter().flat_map(encode).collect()
    }
}

/// Encodes PDOs, with the entries of their objects.
fn pdos<'w>(
    writer: &mut SiiWriter<'w>,
    objects: &'w Dictionary,
    listings: &[PdoListing],
) -> Vec<u8> {
    let mut bytes = Vec::new();
    for listing in listings {
        let Some(pdo) = objects.find(listing.index) else { continue };
        let entries = objects.entries_of(pdo);
        let count = objects.u8(entries[0].slot);
        let [low, high] = listing.index.to_le_bytes();
        let [flags_low, flags_high] = listing.flags.to_le_bytes();
        let name = writer.string(&pdo.name);
        let head = [low, high, count, listing.channel, 0, name, flags_low, flags_high];
        bytes.extend_from_slice(&head);
        for entry in &entries[1..=usize::from(count)] {
            bytes.extend_from_slice(&pdo_entry(writer, objects, objects.u32(entry.slot)));
        }
    }

    bytes
}

fn pdo_entry<'w>(writer: &mut SiiWriter<'w>, objects: &'w Dictionary, mapped: u32) -> [u8; 8] {
    let index = (mapped >> 16) as u16;
    let subindex = (mapped >> 8) as u8;
    let bits = mapped as u8;
    let [low, high] = index.to_le_bytes();
    let entry = objects.lookup(index, subindex).ok();
    let name = entry.map_or(0, |entry| writer.string(&entry.name));
    let kind = entry.map_or(0, |entry| entry.kind.number() as u8);
    [low, high, subindex, name, kind, bits, 0, 0]
}

/// Encodes the operation modes of distributed clocks.
fn clock<'w>(writer: &mut SiiWriter<'w>, modes: &'w [DcMode]) -> Vec<u8> {
    let factor = |factor: i32| i16::try_from(factor).unwrap_or_default().to_le_bytes();
    let shift = |ns: i64| (ns as i32).to_le_bytes();
    let mut bytes = Vec::new();
    for DcMode { name, description, pulses, .. } in modes {
        let mut encoded = [0u8; 24];
        encoded[..4].copy_from_slice(&pulses.period_ns.unwrap_or(0).to_le_bytes());
        encoded[4..8].copy_from_slice(&shift(pulses.shift_ns.unwrap_or(0)));
        encoded[8..12].copy_from_slice(&shift(pulses.sync1.shift_ns));
        encoded[12..14].copy_from_slice(&factor(pulses.sync1.factor));
        encoded[14..16].copy_from_slice(&pulses.activation.to_le_bytes());
        encoded[16..18].copy_from_slice(&factor(pulses.factor));
        encoded[18] = writer.string(name);
        encoded[19] = writer.string(description);
        bytes.extend_from_slice(&encoded);
    }

    bytes
}
