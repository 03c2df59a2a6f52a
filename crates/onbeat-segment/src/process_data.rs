//! Process data of a device: the mapping of object values to outputs and inputs.

use std::ops::Range;

use super::coe::{Dictionary, ValueSlot, abort};

/// Most values of one direction.
pub(crate) const MOST_VALUES: usize = 256;

/// PDO assignment objects of outputs and inputs.
pub(crate) const OUTPUT_ASSIGNMENT: u16 = 0x1c12;
pub(crate) const INPUT_ASSIGNMENT: u16 = 0x1c13;

/// Rules for the PDO assignment of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AssignmentRules {
    /// Pairs of PDOs that must not be assigned together.
    pub(crate) excludes: Vec<(u16, u16)>,
    /// PDOs that must always be assigned.
    pub(crate) mandatory: Vec<u16>,
}

impl AssignmentRules {
    fn permit(&self, objects: &Dictionary, assignment: u16, count: u8) -> bool {
        let assigned = |pdo: u16| {
            (1..=count).any(|number| {
                objects.lookup(assignment, number).is_ok_and(|entry| objects.u16(entry.slot) == pdo)
            })
        };
        self.excludes.iter().all(|&(one, other)| !(assigned(one) && assigned(other)))
            && self.mandatory.iter().all(|&pdo| assigned(pdo))
    }
}

/// A byte-aligned value of whole bytes. Small, because every cycle iterates over all of them.
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

/// A value at any bit position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BitMapping {
    slot: ValueSlot,
    at: usize,
    bits: usize,
}

/// Mapped values of one direction, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessDataMap {
    /// Byte-aligned values, nearly all of them; separate for speed.
    whole: Vec<ByteMapping>,
    odd: Vec<BitMapping>,
    bits: usize,
}

impl ProcessDataMap {
    /// Creates an empty map with capacity for the longest mapping, so that no later one allocates.
    pub(crate) fn new() -> Self {
        Self {
            whole: Vec::with_capacity(MOST_VALUES),
            odd: Vec::with_capacity(MOST_VALUES),
            bits: 0,
        }
    }

    /// Returns the length of the SyncManager area, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bits.div_ceil(8)
    }

    /// Builds the mapping from the assignment object.
    ///
    /// # Errors
    /// The abort code when an entry cannot be mapped; the mapping is then empty.
    pub(crate) fn compile(
        &mut self,
        objects: &Dictionary,
        assignment: u16,
        rules: &AssignmentRules,
    ) -> Result<(), u32> {
        self.whole.clear();
        self.odd.clear();
        self.bits = 0;
        let Ok(count) = objects.lookup(assignment, 0) else { return Ok(()) };
        let count = objects.u8(count.slot);
        if !rules.permit(objects, assignment, count) {
            return Err(abort::NOT_MAPPABLE);
        }

        for number in 1..=count {
            let pdo = objects.u16(objects.lookup(assignment, number)?.slot);
            let entries = objects.u8(objects.lookup(pdo, 0)?.slot);
            for entry in 1..=entries {
                let mapped = objects.u32(objects.lookup(pdo, entry)?.slot);
                self.add(objects, mapped).inspect_err(|_| self.bits = 0)?;
            }
        }

        Ok(())
    }

    fn add(&mut self, objects: &Dictionary, mapped: u32) -> Result<(), u32> {
        let index = (mapped >> 16) as u16;
        let subindex = (mapped >> 8) as u8;
        let bits = (mapped & 0xff) as usize;
        if index != 0 {
            let entry = objects.lookup(index, subindex).map_err(|_| abort::NOT_MAPPABLE)?;
            if usize::from(entry.kind.bits()) != bits
                || self.whole.len().max(self.odd.len()) == MOST_VALUES
            {
                return Err(abort::NOT_MAPPABLE);
            }

            if self.bits.is_multiple_of(8) && bits.is_multiple_of(8) {
                let at = (self.bits / 8) as u16;
                self.whole.push(ByteMapping { slot: entry.slot, at, bytes: (bits / 8) as u16 });
            } else {
                self.odd.push(BitMapping { slot: entry.slot, at: self.bits, bits });
            }
        }

        self.bits += bits;
        Ok(())
    }

    /// Copies the values from the process data to the dictionary.
    pub(crate) fn scatter(&self, area: &[u8], objects: &mut Dictionary) {
        if area.len() < self.bytes() {
            return;
        }

        for link in &self.whole {
            copy_short(objects.raw_mut(link.slot, usize::from(link.bytes)), &area[link.range()]);
        }

        for link in &self.odd {
            let values = objects.raw_mut(link.slot, link.bits.div_ceil(8));
            for bit in 0..link.bits {
                let from = link.at + bit;
                put(values, bit, area[from / 8] >> (from % 8) & 1 != 0);
            }
        }
    }

    /// Copies the values from the dictionary to the process data.
    pub(crate) fn gather(&self, objects: &Dictionary, area: &mut [u8]) {
        if area.len() < self.bytes() {
            return;
        }

        for link in &self.whole {
            copy_short(&mut area[link.range()], objects.raw(link.slot, usize::from(link.bytes)));
        }

        for link in &self.odd {
            let values = objects.raw(link.slot, link.bits.div_ceil(8));
            for bit in 0..link.bits {
                put(area, link.at + bit, values[bit / 8] >> (bit % 8) & 1 != 0);
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

fn put(bytes: &mut [u8], bit: usize, value: bool) {
    let mask = 1 << (bit % 8);
    bytes[bit / 8] = if value { bytes[bit / 8] | mask } else { bytes[bit / 8] & !mask };
}
