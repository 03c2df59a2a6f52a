//! Process data of a device: the mapping of object values to outputs and inputs.
//!
//! The process data of one direction can lie in the areas of several SyncManagers; each area begins
//! with a whole byte, and its PDOs are those of its own assignment object.

use std::ops::Range;

use super::coe::{Dictionary, ValueSlot, abort};
use super::registers::{MEMORY_END, MEMORY_START, put_bit};

/// Most SyncManagers of one direction.
const MOST_AREAS: usize = 16;

/// Values of one direction for which every map has room.
pub(crate) const USUAL_VALUES: usize = 256;

/// PDO assignment objects of outputs and inputs.
pub(crate) const OUTPUT_ASSIGNMENT: u16 = 0x1c12;
pub(crate) const INPUT_ASSIGNMENT: u16 = 0x1c13;

/// The area of one SyncManager, and the object that assigns its PDOs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AssignedArea {
    /// Number of the SyncManager.
    pub(crate) channel: usize,
    /// Physical start address.
    pub(crate) start: u16,
    /// PDO assignment object.
    pub(crate) assignment: u16,
}

/// Rules for the PDO assignment of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AssignmentRules {
    /// Pairs of PDOs that must not be assigned together.
    pub(crate) excludes: Vec<(u16, u16)>,
    /// PDOs of which one must always be assigned: mandatory ones that exclude each other.
    pub(crate) mandatory: Vec<Vec<u16>>,
    /// Mapped entries, as in the mapping object, for which the device has no value: they take their
    /// bits, outputs have no effect, and inputs are 0.
    pub(crate) without_value: Vec<u32>,
}

impl AssignmentRules {
    fn permit(&self, objects: &Dictionary, areas: &[AssignedArea]) -> bool {
        let assigned = |pdo: u16| {
            areas.iter().any(|area| {
                let count =
                    objects.lookup(area.assignment, 0).map_or(0, |all| objects.u8(all.slot));
                (1..=count).any(|number| {
                    objects
                        .lookup(area.assignment, number)
                        .is_ok_and(|entry| objects.u16(entry.slot) == pdo)
                })
            })
        };
        self.excludes.iter().all(|&(one, other)| !(assigned(one) && assigned(other)))
            && self.mandatory.iter().all(|pdos| pdos.iter().any(|&pdo| assigned(pdo)))
    }
}

/// A byte-aligned value of whole bytes, at an address of the memory of the controller. Small, because
/// every cycle iterates over all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ByteMapping {
    /// Slot of the value in the dictionary.
    slot: ValueSlot,
    at: u16,
    bytes: u16,
}

impl ByteMapping {
    fn range(&self) -> Range<usize> {
        usize::from(self.at)..usize::from(self.at) + usize::from(self.bytes)
    }
}

/// A value at any bit of the memory of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BitMapping {
    slot: ValueSlot,
    at: usize,
    bits: usize,
}

/// Mapped values of one direction, in order.
#[derive(Clone, Debug)]
pub(crate) struct ProcessDataMap {
    /// Byte-aligned values, nearly all of them; separate for speed.
    whole: Vec<ByteMapping>,
    odd: Vec<BitMapping>,
    most_values: usize,
    /// Length of each area in bytes.
    areas: Vec<u16>,
    /// Sum of them.
    bytes: usize,
    /// End of the last area in memory; 0 if one is outside of it, and nothing is copied.
    end: usize,
}

impl ProcessDataMap {
    /// Creates an empty map with room for `most_values`, so that no later one allocates.
    pub(crate) fn new(most_values: usize) -> Self {
        Self {
            whole: Vec::with_capacity(most_values),
            odd: Vec::with_capacity(most_values),
            most_values,
            areas: Vec::with_capacity(MOST_AREAS),
            bytes: 0,
            end: 0,
        }
    }

    /// Returns the length of the areas of all SyncManagers, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the length of each area, in bytes.
    pub(crate) fn area_bytes(&self) -> impl Iterator<Item = u16> {
        self.areas.iter().copied()
    }

    fn clear(&mut self) {
        self.whole.clear();
        self.odd.clear();
        self.areas.clear();
        (self.bytes, self.end) = (0, 0);
    }

    /// Builds the mapping from the assignment objects.
    ///
    /// # Errors
    /// The abort code when an entry cannot be mapped; the mapping is then empty.
    pub(crate) fn compile(
        &mut self,
        objects: &Dictionary,
        areas: &[AssignedArea],
        rules: &AssignmentRules,
    ) -> Result<(), u32> {
        self.clear();
        if !rules.permit(objects, areas) {
            return Err(abort::NOT_MAPPABLE);
        }

        let mut are_in_memory = true;
        for area in areas {
            let begin = usize::from(area.start) * 8;
            let bits = self
                .add_area(objects, (area.assignment, begin), rules)
                .inspect_err(|_| self.clear())?;
            let length = bits.div_ceil(8);
            let end = usize::from(area.start) + length;
            are_in_memory &=
                length == 0 || (usize::from(area.start) >= MEMORY_START && end <= MEMORY_END);
            self.areas.push(length as u16);
            self.bytes += length;
            self.end = self.end.max(end);
        }

        // The registers of a controller are not those of the model.
        if !are_in_memory {
            self.whole.clear();
            self.odd.clear();
            self.end = 0;
        }
        Ok(())
    }

    /// Maps the PDOs of an assignment object from this bit on. Returns their length in bits.
    fn add_area(
        &mut self,
        objects: &Dictionary,
        (assignment, begin): (u16, usize),
        rules: &AssignmentRules,
    ) -> Result<usize, u32> {
        let Ok(count) = objects.lookup(assignment, 0) else { return Ok(0) };
        let mut at = begin;
        for number in 1..=objects.u8(count.slot) {
            let pdo = objects.u16(objects.lookup(assignment, number)?.slot);
            let entries = objects.u8(objects.lookup(pdo, 0)?.slot);
            for entry in 1..=entries {
                let mapped = objects.u32(objects.lookup(pdo, entry)?.slot);
                at += if rules.without_value.contains(&mapped) {
                    (mapped & 0xff) as usize
                } else {
                    self.add(objects, mapped, at)?
                };
            }
        }
        Ok(at - begin)
    }

    /// Maps one entry at this bit. Returns its length in bits.
    fn add(&mut self, objects: &Dictionary, mapped: u32, at: usize) -> Result<usize, u32> {
        let index = (mapped >> 16) as u16;
        let subindex = (mapped >> 8) as u8;
        let bits = (mapped & 0xff) as usize;
        if index == 0 {
            return Ok(bits);
        }

        let entry = objects.lookup(index, subindex).map_err(|_| abort::NOT_MAPPABLE)?;
        if usize::from(entry.kind.bits()) != bits
            || self.whole.len().max(self.odd.len()) >= self.most_values
        {
            return Err(abort::NOT_MAPPABLE);
        }

        match u16::try_from(at / 8) {
            Ok(byte) if at.is_multiple_of(8) && bits.is_multiple_of(8) => {
                self.whole.push(ByteMapping {
                    slot: entry.slot,
                    at: byte,
                    bytes: (bits / 8) as u16,
                });
            }
            _ => self.odd.push(BitMapping { slot: entry.slot, at, bits }),
        }
        Ok(bits)
    }

    /// Copies the values from the memory of the controller to the dictionary.
    pub(crate) fn scatter(&self, memory: &[u8], objects: &mut Dictionary) {
        if memory.len() < self.end {
            return;
        }

        for link in &self.whole {
            copy_short(objects.raw_mut(link.slot, usize::from(link.bytes)), &memory[link.range()]);
        }

        for link in &self.odd {
            let values = objects.raw_mut(link.slot, link.bits.div_ceil(8));
            for bit in 0..link.bits {
                let from = link.at + bit;
                put_bit(values, bit, memory[from / 8] >> (from % 8) & 1 != 0);
            }
        }
    }

    /// Copies the values from the dictionary to the memory of the controller.
    pub(crate) fn gather(&self, objects: &Dictionary, memory: &mut [u8]) {
        if memory.len() < self.end {
            return;
        }

        for link in &self.whole {
            copy_short(&mut memory[link.range()], objects.raw(link.slot, usize::from(link.bytes)));
        }

        for link in &self.odd {
            let values = objects.raw(link.slot, link.bits.div_ceil(8));
            for bit in 0..link.bits {
                put_bit(memory, link.at + bit, values[bit / 8] >> (bit % 8) & 1 != 0);
            }
        }
    }
}

/// Copies a value; two and four bytes, the usual lengths, without a function call.
#[inline]
fn copy_short(to: &mut [u8], from: &[u8]) {
    match (to.len(), from.len()) {
        (4, 4) => to[..4].copy_from_slice(&from[..4]),
        (2, 2) => to[..2].copy_from_slice(&from[..2]),
        _ => to.copy_from_slice(from),
    }
}
