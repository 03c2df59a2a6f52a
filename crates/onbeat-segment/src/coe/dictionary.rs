//! The object dictionary of a device, with all values in one memory block.

use std::ops::Range;

use super::{DataType, abort, access};
use crate::registers::{long, word};

/// Most bits of one PDO: those of a frame with one datagram.
const MOST_BITS: usize = 1_486 * 8;

/// Offset of a value. Valid only for the dictionary that returned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueSlot(u32);

impl ValueSlot {
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }

    /// Returns the slot `bytes` later.
    pub(crate) fn plus(self, bytes: usize) -> Self {
        Self(self.0 + bytes as u32)
    }
}

/// Type of an entry, how it may be accessed (bits of [`access`](super::access)), and its first bit
/// in a transfer of the whole object, if a file has one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryFormat {
    kind: DataType,
    access: u16,
    bit: Option<u32>,
}

impl EntryFormat {
    pub(crate) const fn new(kind: DataType, access: u16) -> Self {
        Self { kind, access, bit: None }
    }

    pub(crate) const fn at(self, bit: Option<u32>) -> Self {
        Self { bit, ..self }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ObjectEntry {
    pub(crate) index: u16,
    pub(crate) subindex: u8,
    pub(crate) kind: DataType,
    pub(crate) access: u16,
    pub(crate) slot: ValueSlot,
    /// First bit in a transfer of the whole object.
    bit: usize,
    pub(crate) name: String,
}

impl ObjectEntry {
    /// Returns the bits of the entry in a transfer of the whole object, with entry 0 in two bytes.
    fn bits(&self) -> Range<usize> {
        let bits = if self.subindex == 0 { 16 } else { usize::from(self.kind.bits()) };
        self.bit..self.bit + bits
    }

    /// Returns the bits of the entry in a transfer of the whole object from entry 0 or 1 on.
    pub(crate) fn bits_from(&self, entry: u8) -> Range<usize> {
        let before = 16 * usize::from(entry);
        self.bit.saturating_sub(before)..self.bits().end.saturating_sub(before)
    }
}

/// An object: a single entry, or several under a common index.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) index: u16,
    pub(crate) name: String,
    /// Position of its first entry.
    pub(crate) first: usize,
    /// Number of entries.
    pub(crate) entries: usize,
}

/// Returns whether an object accepts a value.
pub(crate) type Accepts = fn(&[u8]) -> bool;

/// All objects, sorted by index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dictionary {
    pub(crate) objects: Vec<Object>,
    entries: Vec<ObjectEntry>,
    values: Vec<u8>,
    /// Objects that do not accept every value of their type.
    restricted: Vec<(u16, Accepts)>,
    /// Mapped entries without an object, as in a mapping object, that the device accepts.
    pub(crate) without_value: Vec<u32>,
}

impl Dictionary {
    /// Restricts the values that an object with a single entry accepts by SDO.
    pub(crate) fn restrict(&mut self, index: u16, accepts: Accepts) {
        self.restricted.push((index, accepts));
    }

    /// Returns whether an object with a single entry accepts a value.
    pub(crate) fn accepts(&self, index: u16, value: &[u8]) -> bool {
        self.restricted
            .iter()
            .filter(|(restricted, _)| *restricted == index)
            .all(|(_, accepts)| accepts(value))
    }

    /// Checks a value for an entry of a PDO mapping (0x1600, 0x1A00 and following) or of a PDO
    /// assignment (0x1C10 and following). Other objects accept every value.
    ///
    /// # Errors
    /// The abort code when what is mapped or assigned does not exist, has another length, or the
    /// other direction.
    pub(crate) fn check_mapping(&self, index: u16, subindex: u8, value: &[u8]) -> Result<(), u32> {
        let is_output = match index {
            0x1600..=0x17ff => true,
            0x1a00..=0x1bff => false,
            0x1c10..=0x1c2f => return self.check_assignment(index, subindex, value),
            _ => return Ok(()),
        };
        let Some(&bytes) = value.first_chunk::<4>().filter(|_| subindex > 0) else {
            return if subindex == 0 { self.check_length(index, value) } else { Ok(()) };
        };
        let mapped = u32::from_le_bytes(bytes);
        // Index 0 is a gap.
        if mapped >> 16 == 0 || self.without_value.contains(&mapped) {
            return Ok(());
        }

        let entry = self
            .lookup((mapped >> 16) as u16, (mapped >> 8) as u8)
            .map_err(|_| abort::NOT_MAPPABLE)?;
        let other = if is_output { access::INPUT } else { access::OUTPUT };
        let both = access::INPUT | access::OUTPUT;
        let is_misdirected = entry.access & both == other;
        if is_misdirected || entry.kind.bits() != (mapped & 0xff) as u16 {
            return Err(abort::NOT_MAPPABLE);
        }
        Ok(())
    }

    /// Checks that entry 0 of a PDO mapping or assignment is 0 before another entry is changed.
    ///
    /// # Errors
    /// The abort code when it is not.
    pub(crate) fn check_cleared(&self, entry: &ObjectEntry, value: &[u8]) -> Result<(), u32> {
        let is_list = matches!(entry.index, 0x1600..=0x17ff | 0x1a00..=0x1bff | 0x1c10..=0x1c2f);
        if !is_list || entry.subindex == 0 || self.bytes(entry) == value {
            return Ok(());
        }
        let count = self.lookup(entry.index, 0)?;
        if self.u8(count.slot) == 0 { Ok(()) } else { Err(abort::NOT_CLEARED) }
    }

    /// Checks that the PDO exists, and has the direction of its SyncManager: outputs and inputs
    /// have 0x1C12 and 0x1C13 in devices with two.
    fn check_assignment(&self, index: u16, subindex: u8, value: &[u8]) -> Result<(), u32> {
        let Some(&bytes) = value.first_chunk::<2>().filter(|_| subindex > 0) else { return Ok(()) };
        let pdo = u16::from_le_bytes(bytes);
        let has_direction = match index {
            0x1c12 if self.find(0x1c14).is_none() => (0x1600..0x1800).contains(&pdo),
            0x1c13 if self.find(0x1c14).is_none() => (0x1a00..0x1c00).contains(&pdo),
            _ => true,
        };
        let exists = pdo == 0 || self.find(pdo).is_some() && has_direction;
        if exists { Ok(()) } else { Err(abort::NOT_MAPPABLE) }
    }

    /// Checks the length of the entries that a mapping is to have.
    fn check_length(&self, index: u16, value: &[u8]) -> Result<(), u32> {
        let count = value.first().copied().unwrap_or_default();
        let bits: usize = (1..=count)
            .filter_map(|entry| self.lookup(index, entry).ok())
            .map(|entry| (self.u32(entry.slot) & 0xff) as usize)
            .sum();
        if bits > MOST_BITS { Err(abort::TOO_MUCH_MAPPED) } else { Ok(()) }
    }

    /// Adds an object with a single entry, zero-filled after `value`.
    pub(crate) fn value(
        &mut self,
        index: u16,
        name: &str,
        format: EntryFormat,
        value: &[u8],
    ) -> ValueSlot {
        let EntryFormat { kind, access, .. } = format;
        self.object(index, name);
        self.entry(name, kind, access, value)
    }

    /// Begins an object with several entries; [`Dictionary::entry`] adds them, entry 0 with the
    /// highest subindex first.
    pub(crate) fn object(&mut self, index: u16, name: &str) {
        let first = self.entries.len();
        self.objects.push(Object { index, name: name.to_owned(), first, entries: 0 });
    }

    /// Adds the object of a list: its length as entry 0, then `room` entries with numbered names;
    /// those after the values are 0.
    pub(crate) fn list(
        &mut self,
        (index, name): (u16, &str),
        (entry, kind, access): (&str, DataType, u16),
        values: &[u32],
        room: usize,
    ) {
        self.object(index, name);
        self.entry("Entries", DataType::U8, access, &[values.len() as u8]);
        for number in 0..room {
            let value = values.get(number).copied().unwrap_or(0);
            self.entry(&format!("{entry} {}", number + 1), kind, access, &value.to_le_bytes());
        }
    }

    /// Adds an entry to the object begun last.
    pub(crate) fn entry(
        &mut self,
        name: &str,
        kind: DataType,
        access: u16,
        value: &[u8],
    ) -> ValueSlot {
        let subindex = self.objects.last().map_or(0, |object| object.entries as u8);
        self.entry_at(subindex, name, EntryFormat::new(kind, access), value)
    }

    /// Adds an entry with a subindex above those of the previous entries to the object begun last.
    pub(crate) fn entry_at(
        &mut self,
        subindex: u8,
        name: &str,
        format: EntryFormat,
        value: &[u8],
    ) -> ValueSlot {
        let EntryFormat { kind, access, bit } = format;
        let slot = ValueSlot(self.values.len() as u32);
        let bytes = kind.bytes();
        self.values.extend(value.iter().copied().chain(std::iter::repeat(0)).take(bytes));
        if let Some(object) = self.objects.last_mut() {
            let index = object.index;
            let end = self.entries[object.first..].last().map_or(0, |entry| entry.bits().end);
            object.entries += 1;
            // Values of whole bytes begin with one, others follow bit by bit.
            let next = if kind.bits().is_multiple_of(8) { end.next_multiple_of(8) } else { end };
            let given = bit.map(|bit| bit as usize).filter(|bit| *bit >= end);
            self.entries.push(ObjectEntry {
                index,
                subindex,
                kind,
                access,
                slot,
                bit: given.unwrap_or(next),
                name: name.to_owned(),
            });
        }

        slot
    }

    /// Adds an access right to an entry.
    pub(crate) fn permit(&mut self, index: u16, subindex: u8, right: u16) {
        for entry in self
            .entries
            .iter_mut()
            .filter(|entry| entry.index == index && entry.subindex == subindex)
        {
            entry.access |= right;
        }
    }

    /// Sorts the objects, after all were added.
    pub(crate) fn sort(&mut self) {
        self.objects.sort_by_key(|object| object.index);
    }

    /// Copies the values of a dictionary with the same objects.
    pub(crate) fn clone_values_from(&mut self, other: &Self) {
        self.values.copy_from_slice(&other.values);
    }

    pub(crate) fn find(&self, index: u16) -> Option<&Object> {
        let position = self.objects.binary_search_by_key(&index, |object| object.index).ok()?;
        self.objects.get(position)
    }

    pub(crate) fn entries_of(&self, object: &Object) -> &[ObjectEntry] {
        &self.entries[object.first..object.first + object.entries]
    }

    /// Returns whether an object exists, also before sorting.
    pub(crate) fn has(&self, index: u16) -> bool {
        self.objects.iter().any(|object| object.index == index)
    }

    /// Finds an entry before sorting.
    pub(crate) fn unsorted(&self, index: u16, subindex: u8) -> Option<&ObjectEntry> {
        self.entries.iter().find(|entry| entry.index == index && entry.subindex == subindex)
    }

    /// Finds an entry.
    ///
    /// # Errors
    /// The abort code when the object or entry does not exist.
    pub(crate) fn lookup(&self, index: u16, subindex: u8) -> Result<&ObjectEntry, u32> {
        let entries = self.entries_of(self.find(index).ok_or(abort::NO_OBJECT)?);
        match entries.get(usize::from(subindex)) {
            Some(entry) if entry.subindex == subindex => Ok(entry),
            // Subindexes can have gaps.
            _ => entries
                .binary_search_by_key(&subindex, |entry| entry.subindex)
                .map(|at| &entries[at])
                .map_err(|_| abort::NO_ENTRY),
        }
    }

    #[cfg(test)]
    pub(crate) fn slot(&self, index: u16, subindex: u8) -> Option<ValueSlot> {
        self.lookup(index, subindex).ok().map(|entry| entry.slot)
    }

    pub(crate) fn bytes(&self, entry: &ObjectEntry) -> &[u8] {
        &self.values[entry.slot.at()..entry.slot.at() + entry.kind.bytes()]
    }

    pub(crate) fn raw(&self, slot: ValueSlot, bytes: usize) -> &[u8] {
        &self.values[slot.at()..slot.at() + bytes]
    }

    pub(crate) fn raw_mut(&mut self, slot: ValueSlot, bytes: usize) -> &mut [u8] {
        &mut self.values[slot.at()..slot.at() + bytes]
    }

    pub(crate) fn u8(&self, slot: ValueSlot) -> u8 {
        self.values[slot.at()]
    }

    pub(crate) fn u16(&self, slot: ValueSlot) -> u16 {
        word(&self.values, slot.at())
    }

    pub(crate) fn u32(&self, slot: ValueSlot) -> u32 {
        long(&self.values, slot.at())
    }

    pub(crate) fn i16(&self, slot: ValueSlot) -> i16 {
        self.u16(slot) as i16
    }

    pub(crate) fn i32(&self, slot: ValueSlot) -> i32 {
        self.u32(slot) as i32
    }

    #[cfg(test)]
    pub(crate) fn f32(&self, slot: ValueSlot) -> f32 {
        f32::from_bits(self.u32(slot))
    }

    pub(crate) fn put<const N: usize>(&mut self, slot: ValueSlot, bytes: [u8; N]) {
        self.values[slot.at()..slot.at() + N].copy_from_slice(&bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_by_index_and_subindex() {
        let mut dictionary = Dictionary::default();
        dictionary.value(
            0x6040,
            "Controlword",
            EntryFormat::new(DataType::U16, access::BOTH),
            &[6, 0],
        );
        dictionary.object(0x1018, "Identity");
        dictionary.entry("Entries", DataType::U8, access::READ, &[1]);
        let vendor = dictionary.entry("Vendor", DataType::U32, access::READ, &7u32.to_le_bytes());
        dictionary.sort();

        assert_eq!(dictionary.slot(0x1018, 1), Some(vendor));
        assert_eq!(dictionary.u32(vendor), 7);
        assert_eq!(dictionary.lookup(0x1018, 2).unwrap_err(), abort::NO_ENTRY);
        assert_eq!(dictionary.lookup(0x2000, 0).unwrap_err(), abort::NO_OBJECT);
    }

    #[test]
    fn subindexes_can_have_gaps() {
        let mut dictionary = Dictionary::default();
        dictionary.object(0x6000, "Inputs");
        dictionary.entry("Entries", DataType::U8, access::READ, &[17]);
        dictionary.entry_at(1, "First", EntryFormat::new(DataType::Bool, access::READ), &[1]);
        dictionary.entry_at(
            17,
            "Last",
            EntryFormat::new(DataType::Other { number: 0x11, bits: 64 }, access::READ),
            &[7],
        );
        dictionary.sort();

        assert_eq!(dictionary.lookup(0x6000, 17).map(|entry| entry.kind.bytes()), Ok(8));
        assert_eq!(dictionary.lookup(0x6000, 2).unwrap_err(), abort::NO_ENTRY);
    }
}
