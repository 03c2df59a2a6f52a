//! The objects of a device, with their values in one piece of memory.

use super::{DataType, abort};
use crate::registers::{long, word};

/// Where a value is. Valid for the dictionary that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u32);

impl Slot {
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }

    /// The place so many bytes behind.
    pub(crate) fn plus(self, bytes: usize) -> Self {
        Self(self.0 + bytes as u32)
    }
}

/// One value of an object.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) index: u16,
    pub(crate) sub: u8,
    pub(crate) kind: DataType,
    pub(crate) access: u16,
    pub(crate) slot: Slot,
    pub(crate) name: String,
}

/// An object: one value, or several under a common index.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) index: u16,
    pub(crate) name: String,
    /// Entries from here on, so many of them.
    pub(crate) first: usize,
    pub(crate) entries: usize,
}

/// Which values an object takes.
pub(crate) type Takes = fn(&[u8]) -> bool;

/// All objects, sorted by index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dictionary {
    pub(crate) objects: Vec<Object>,
    entries: Vec<Entry>,
    values: Vec<u8>,
    /// Objects that do not take every value of their type.
    choosy: Vec<(u16, Takes)>,
}

impl Dictionary {
    /// From now on an object of one value takes by SDO only what `takes` says.
    pub(crate) fn choose(&mut self, index: u16, takes: Takes) {
        self.choosy.push((index, takes));
    }

    /// Whether an object of one value takes this one.
    pub(crate) fn takes(&self, index: u16, value: &[u8]) -> bool {
        self.choosy.iter().filter(|(of, _)| *of == index).all(|(_, takes)| takes(value))
    }

    /// Adds an object of one value.
    pub(crate) fn value(&mut self, index: u16, name: &str, (kind, access): (DataType, u16), value: &[u8]) -> Slot {
        self.object(index, name);
        self.entry(name, kind, access, value)
    }

    /// Begins an object of several values; [`Dictionary::entry`] adds them, the number of the highest first.
    pub(crate) fn object(&mut self, index: u16, name: &str) {
        let first = self.entries.len();
        self.objects.push(Object { index, name: name.to_owned(), first, entries: 0 });
    }

    /// Adds a value to the object begun last.
    pub(crate) fn entry(&mut self, name: &str, kind: DataType, access: u16, value: &[u8]) -> Slot {
        let sub = self.objects.last().map_or(0, |object| object.entries as u8);
        self.entry_at(sub, name, (kind, access), value)
    }

    /// Adds a value at a number, which is above those of the values before it.
    pub(crate) fn entry_at(&mut self, sub: u8, name: &str, (kind, access): (DataType, u16), value: &[u8]) -> Slot {
        let slot = Slot(self.values.len() as u32);
        let bytes = kind.bytes();
        self.values.extend(value.iter().copied().chain(std::iter::repeat(0)).take(bytes));
        if let Some(object) = self.objects.last_mut() {
            let index = object.index;
            object.entries += 1;
            self.entries.push(Entry { index, sub, kind, access, slot, name: name.to_owned() });
        }

        slot
    }

    /// Lets process data hold an entry.
    pub(crate) fn permit(&mut self, index: u16, sub: u8, right: u16) {
        for entry in self.entries.iter_mut().filter(|entry| entry.index == index && entry.sub == sub) {
            entry.access |= right;
        }
    }

    /// Puts the objects in order, once all are there.
    pub(crate) fn sort(&mut self) {
        self.objects.sort_by_key(|object| object.index);
    }

    /// Takes the values of a dictionary with the same objects.
    pub(crate) fn clone_values_from(&mut self, other: &Self) {
        self.values.copy_from_slice(&other.values);
    }

    pub(crate) fn find(&self, index: u16) -> Option<&Object> {
        let place = self.objects.binary_search_by_key(&index, |object| object.index).ok()?;
        self.objects.get(place)
    }

    pub(crate) fn entries_of(&self, object: &Object) -> &[Entry] {
        &self.entries[object.first..object.first + object.entries]
    }

    /// Whether there is such an object, while others are still being added.
    pub(crate) fn has(&self, index: u16) -> bool {
        self.objects.iter().any(|object| object.index == index)
    }

    /// An entry while objects are still being added.
    pub(crate) fn unsorted(&self, index: u16, sub: u8) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.index == index && entry.sub == sub)
    }

    /// # Errors
    /// The abort code when there is no such object or entry.
    pub(crate) fn lookup(&self, index: u16, sub: u8) -> Result<&Entry, u32> {
        let entries = self.entries_of(self.find(index).ok_or(abort::NO_OBJECT)?);
        match entries.get(usize::from(sub)) {
            Some(entry) if entry.sub == sub => Ok(entry),
            // An object may leave numbers out.
            _ => entries
                .binary_search_by_key(&sub, |entry| entry.sub)
                .map(|at| &entries[at])
                .map_err(|_| abort::NO_ENTRY),
        }
    }

    #[cfg(test)]
    pub(crate) fn slot(&self, index: u16, sub: u8) -> Option<Slot> {
        self.lookup(index, sub).ok().map(|entry| entry.slot)
    }

    pub(crate) fn bytes(&self, entry: &Entry) -> &[u8] {
        &self.values[entry.slot.at()..entry.slot.at() + entry.kind.bytes()]
    }

    pub(crate) fn raw(&self, slot: Slot, bytes: usize) -> &[u8] {
        &self.values[slot.at()..slot.at() + bytes]
    }

    pub(crate) fn raw_mut(&mut self, slot: Slot, bytes: usize) -> &mut [u8] {
        &mut self.values[slot.at()..slot.at() + bytes]
    }

    pub(crate) fn u8(&self, slot: Slot) -> u8 {
        self.values[slot.at()]
    }

    pub(crate) fn u16(&self, slot: Slot) -> u16 {
        word(&self.values, slot.at())
    }

    pub(crate) fn u32(&self, slot: Slot) -> u32 {
        long(&self.values, slot.at())
    }

    pub(crate) fn i16(&self, slot: Slot) -> i16 {
        self.u16(slot) as i16
    }

    pub(crate) fn i32(&self, slot: Slot) -> i32 {
        self.u32(slot) as i32
    }

    #[cfg(test)]
    pub(crate) fn f32(&self, slot: Slot) -> f32 {
        f32::from_bits(self.u32(slot))
    }

    pub(crate) fn put<const N: usize>(&mut self, slot: Slot, bytes: [u8; N]) {
        self.values[slot.at()..slot.at() + N].copy_from_slice(&bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::super::access;
    use super::*;

    #[test]
    fn objects_are_found_by_index_and_their_entries_by_number() {
        let mut dictionary = Dictionary::default();
        dictionary.value(0x6040, "Controlword", (DataType::U16, access::BOTH), &[6, 0]);
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
    fn an_object_may_leave_numbers_out() {
        let mut dictionary = Dictionary::default();
        dictionary.object(0x6000, "Inputs");
        dictionary.entry("Entries", DataType::U8, access::READ, &[17]);
        dictionary.entry_at(1, "First", (DataType::Bool, access::READ), &[1]);
        dictionary.entry_at(17, "Last", (DataType::Other { number: 0x11, bits: 64 }, access::READ), &[7]);
        dictionary.sort();

        assert_eq!(dictionary.lookup(0x6000, 17).map(|entry| entry.kind.bytes()), Ok(8));
        assert_eq!(dictionary.lookup(0x6000, 2).unwrap_err(), abort::NO_ENTRY);
    }
}
