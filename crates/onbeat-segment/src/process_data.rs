//! Process data of a device: which values of its objects stand where in its outputs and inputs.

use std::ops::Range;

use super::coe::{Dictionary, Slot, abort};

/// Values of one direction at most.
pub(crate) const MOST_VALUES: usize = 256;

/// The objects that assign PDOs to outputs and inputs.
pub(crate) const OUTPUT_ASSIGNMENT: u16 = 0x1c12;
pub(crate) const INPUT_ASSIGNMENT: u16 = 0x1c13;

/// What a device demands of the PDOs that are assigned to one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    /// These two never together.
    pub(crate) excludes: Vec<(u16, u16)>,
    /// These always.
    pub(crate) mandatory: Vec<u16>,
}

impl Rules {
    fn permit(&self, objects: &Dictionary, assignment: u16, count: u8) -> bool {
        let assigned = |pdo: u16| {
            (1..=count)
                .any(|number| objects.lookup(assignment, number).is_ok_and(|entry| objects.u16(entry.slot) == pdo))
        };
        self.excludes.iter().all(|&(one, other)| !(assigned(one) && assigned(other)))
            && self.mandatory.iter().all(|&pdo| assigned(pdo))
    }
}

/// One value in the process data, of whole bytes that begin with a byte. Small, because all of them are gone through in each cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bytes {
    /// Place of the value among the objects' bytes.
    slot: Slot,
    at: u16,
    bytes: u16,
}

impl Bytes {
    fn place(&self) -> Range<usize> {
        usize::from(self.at)..usize::from(self.at) + usize::from(self.bytes)
    }
}

/// One value in the process data, anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bits {
    slot: Slot,
    at: usize,
    bits: usize,
}

/// All values of one direction, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mapped {
    /// Apart, because nearly all values are whole bytes, and those are moved in each cycle.
    whole: Vec<Bytes>,
    odd: Vec<Bits>,
    bits: usize,
}

impl Mapped {
    /// Room for the longest mapping, so that none needs memory later.
    pub(crate) fn new() -> Self {
        Self { whole: Vec::with_capacity(MOST_VALUES), odd: Vec::with_capacity(MOST_VALUES), bits: 0 }
    }

    /// Length of the SyncManager's area.
    pub(crate) fn bytes(&self) -> usize {
        self.bits.div_ceil(8)
    }

    /// Works the mapping out from the assignment object.
    ///
    /// # Errors
    /// The abort code when it names something that cannot be mapped; the mapping is empty then.
    pub(crate) fn compile(&mut self, objects: &Dictionary, assignment: u16, rules: &Rules) -> Result<(), u32> {
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
                let what = objects.u32(objects.lookup(pdo, entry)?.slot);
                self.add(objects, what).inspect_err(|_| self.bits = 0)?;
            }
        }

        Ok(())
    }

    fn add(&mut self, objects: &Dictionary, what: u32) -> Result<(), u32> {
        let (index, sub, bits) = ((what >> 16) as u16, (what >> 8) as u8, (what & 0xff) as usize);
        if index != 0 {
            let entry = objects.lookup(index, sub).map_err(|_| abort::NOT_MAPPABLE)?;
            if usize::from(entry.kind.bits()) != bits || self.whole.len().max(self.odd.len()) == MOST_VALUES {
                return Err(abort::NOT_MAPPABLE);
            }

            if self.bits.is_multiple_of(8) && bits.is_multiple_of(8) {
                let (at, bytes) = ((self.bits / 8) as u16, (bits / 8) as u16);
                self.whole.push(Bytes { slot: entry.slot, at, bytes });
            } else {
                self.odd.push(Bits { slot: entry.slot, at: self.bits, bits });
            }
        }

        self.bits += bits;
        Ok(())
    }

    /// Takes the values out of the process data.
    pub(crate) fn scatter(&self, area: &[u8], objects: &mut Dictionary) {
        if area.len() < self.bytes() {
            return;
        }

        for link in &self.whole {
            copy_short(objects.raw_mut(link.slot, usize::from(link.bytes)), &area[link.place()]);
        }

        for link in &self.odd {
            let values = objects.raw_mut(link.slot, link.bits.div_ceil(8));
            for bit in 0..link.bits {
                let from = link.at + bit;
                put(values, bit, area[from / 8] >> (from % 8) & 1 != 0);
            }
        }
    }

    /// Puts the values into the process data.
    pub(crate) fn gather(&self, objects: &Dictionary, area: &mut [u8]) {
        if area.len() < self.bytes() {
            return;
        }

        for link in &self.whole {
            copy_short(&mut area[link.place()], objects.raw(link.slot, usize::from(link.bytes)));
        }

        for link in &self.odd {
            let values = objects.raw(link.slot, link.bits.div_ceil(8));
            for bit in 0..link.bits {
                put(area, link.at + bit, values[bit / 8] >> (bit % 8) & 1 != 0);
            }
        }
    }
}

/// Copies a value. Those of two and four bytes, nearly all there are, without a call.
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
