//! FMMUs: map ranges of the logical address space, bit by bit, to registers and memory of a device.

use super::registers::{MEMORY_START, long, word};

/// One FMMU, decoded from its sixteen bytes of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fmmu {
    pub(crate) logical: u32,
    pub(crate) length: u16,
    pub(crate) first_bit: u8,
    pub(crate) last_bit: u8,
    pub(crate) physical: u16,
    pub(crate) physical_bit: u8,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

/// The part of an FMMU that a datagram overlaps: `bytes` bytes, at `data` in the datagram and
/// `physical` in the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overlap {
    pub(crate) data: usize,
    pub(crate) physical: u16,
    pub(crate) bytes: usize,
}

impl Fmmu {
    /// Decodes the registers; `None` when the FMMU is disabled or maps nothing.
    pub(crate) fn from_registers(registers: &[u8]) -> Option<Self> {
        let fmmu = Self {
            logical: long(registers, 0),
            length: word(registers, 4),
            first_bit: registers[6] & 7,
            last_bit: registers[7] & 7,
            physical: word(registers, 8),
            physical_bit: registers[10] & 7,
            reads: registers[11] & 1 != 0,
            writes: registers[11] & 2 != 0,
        };
        (registers[12] & 1 != 0 && fmmu.length > 0 && (fmmu.reads || fmmu.writes)).then_some(fmmu)
    }

    /// Returns whether it maps whole bytes to whole bytes.
    pub(crate) fn is_bytewise(&self) -> bool {
        self.first_bit == 0 && self.last_bit == 7 && self.physical_bit == 0
    }

    /// Returns whether it maps only memory, no registers.
    pub(crate) fn is_of_memory(&self) -> bool {
        usize::from(self.physical) >= MEMORY_START
            && self.physical.checked_add(self.length).is_some()
    }

    /// Returns the overlap of a byte-wise FMMU with a datagram of `length` bytes at `logical`.
    #[inline]
    pub(crate) fn overlap(&self, logical: u32, length: usize) -> Option<Overlap> {
        let own = u64::from(self.logical);
        let other = u64::from(logical);
        let start = own.max(other);
        let end = (own + u64::from(self.length)).min(other + length as u64);
        (start < end).then(|| Overlap {
            data: (start - other) as usize,
            physical: self.physical.wrapping_add((start - own) as u16),
            bytes: (end - start) as usize,
        })
    }

    /// Returns the number of mapped bits.
    pub(crate) fn bits(&self) -> usize {
        let all = usize::from(self.length) * 8;
        all.saturating_sub(usize::from(self.first_bit) + usize::from(7 - self.last_bit))
    }

    /// Returns the positions of bit `bit` of the mapping, in bits: in a datagram at `logical`
    /// (`None` before its start), and in the device.
    pub(crate) fn map_bit(&self, bit: usize, logical: u32) -> (Option<usize>, usize) {
        let from_start = usize::from(self.first_bit) + bit;
        let shift = (i64::from(self.logical) - i64::from(logical)) * 8 + from_start as i64;
        let physical = usize::from(self.physical) * 8 + usize::from(self.physical_bit) + bit;
        (usize::try_from(shift).ok(), physical)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disabled_fmmu_maps_nothing() {
        let mut registers = [0, 0, 0, 1, 4, 0, 0, 7, 0, 0x11, 0, 1, 1, 0, 0, 0];
        let fmmu = Fmmu::from_registers(&registers).unwrap();
        assert_eq!(
            (fmmu.logical, fmmu.length, fmmu.physical, fmmu.is_bytewise()),
            (0x0100_0000, 4, 0x1100, true)
        );
        registers[12] = 0;
        assert_eq!(Fmmu::from_registers(&registers), None);
    }

    #[test]
    fn a_datagram_overlaps_only_the_common_part() {
        let fmmu =
            Fmmu::from_registers(&[8, 0, 0, 0, 4, 0, 0, 7, 0, 0x11, 0, 1, 1, 0, 0, 0]).unwrap();
        assert_eq!(fmmu.overlap(0, 8), None);
        assert_eq!(fmmu.overlap(0, 10), Some(Overlap { data: 8, physical: 0x1100, bytes: 2 }));
        assert_eq!(fmmu.overlap(10, 10), Some(Overlap { data: 0, physical: 0x1102, bytes: 2 }));
        assert_eq!(fmmu.overlap(12, 1), None);
    }
}
