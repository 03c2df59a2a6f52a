//! Access by logical address through FMMUs.

use super::{Esc, PassTimes, ReadMode, event};
use crate::fmmu::Fmmu;
use crate::registers::put_bit;
use crate::sync_manager::AccessDirection;

impl Esc {
    /// Reads through an FMMU. Returns whether the device provided any data.
    pub(crate) fn read_mapped(
        &mut self,
        fmmu: &Fmmu,
        logical: u32,
        data: &mut [u8],
        now_ns: u64,
    ) -> bool {
        if fmmu.is_bytewise() {
            let Some(part) = fmmu.overlap(logical, data.len()) else { return false };
            return self.read(
                part.physical,
                &mut data[part.data..part.data + part.bytes],
                ReadMode::Replace,
                now_ns,
            );
        }

        let mut any = false;
        let mut at = usize::MAX;
        let mut byte = [0];
        let mut allowed = false;
        for bit in 0..fmmu.bits() {
            let (data_bit, physical) = fmmu.map_bit(bit, logical);
            let Some(data_bit) = data_bit.filter(|data_bit| data_bit / 8 < data.len()) else {
                continue;
            };
            if physical / 8 != at {
                at = physical / 8;
                allowed = self.read(at as u16, &mut byte, ReadMode::Replace, now_ns);
                any |= allowed;
            }

            if allowed {
                put_bit(data, data_bit, byte[0] >> (physical % 8) & 1 != 0);
            }
        }

        any
    }

    /// Writes through an FMMU. Returns whether the device accepted any data.
    ///
    /// Bits of a byte that are not mapped keep their value; the standard leaves this undefined.
    pub(crate) fn write_mapped(
        &mut self,
        fmmu: &Fmmu,
        logical: u32,
        data: &[u8],
        pass_times: &PassTimes,
    ) -> bool {
        if fmmu.is_bytewise() {
            let Some(part) = fmmu.overlap(logical, data.len()) else { return false };
            return self.write(part.physical, &data[part.data..part.data + part.bytes], pass_times);
        }

        let mut any = false;
        let mut at = usize::MAX;
        let mut byte = [0];
        for bit in 0..fmmu.bits() {
            let (data_bit, physical) = fmmu.map_bit(bit, logical);
            let Some(data_bit) = data_bit.filter(|data_bit| data_bit / 8 < data.len()) else {
                continue;
            };
            if physical / 8 != at {
                any |= at != usize::MAX && self.write(at as u16, &byte, pass_times);
                at = physical / 8;
                byte[0] = self.memory.get(at).copied().unwrap_or_default();
            }

            put_bit(&mut byte, physical % 8, data[data_bit / 8] >> (data_bit % 8) & 1 != 0);
        }

        any | (at != usize::MAX && self.write(at as u16, &byte, pass_times))
    }

    /// Returns the SyncManager whose whole buffered area an FMMU maps byte-wise: the usual case,
    /// which has a fast path.
    pub(crate) fn whole_sync_manager(
        &self,
        fmmu: &Fmmu,
        direction: AccessDirection,
    ) -> Option<usize> {
        let channel =
            self.whole_area(usize::from(fmmu.physical), usize::from(fmmu.length), direction);
        channel.filter(|_| fmmu.is_bytewise() && fmmu.is_of_memory())
    }

    /// Fast path: reads a whole input area; `channel` is from [`Esc::whole_sync_manager`].
    #[inline]
    pub(crate) fn read_inputs(&mut self, channel: usize, start: u16, data: &mut [u8]) {
        let start = usize::from(start);
        copy_few(data, &self.memory[start..start + data.len()]);
        self.sync_managers[channel].access_all();
        self.events |= event::INPUTS;
    }

    /// Fast path: writes a whole output area; `channel` is from [`Esc::whole_sync_manager`].
    #[inline]
    pub(crate) fn write_outputs(&mut self, channel: usize, start: u16, data: &[u8], now_ns: u64) {
        let start = usize::from(start);
        copy_few(&mut self.memory[start..start + data.len()], data);
        self.sync_managers[channel].access_all();
        self.outputs_complete(channel, now_ns);
    }
}

/// Copies the process data of a device without a function call: 4 to 32 bytes in two overlapping
/// halves.
#[inline]
fn copy_few(to: &mut [u8], from: &[u8]) {
    fn halves<const HALF: usize>(to: &mut [u8], from: &[u8]) {
        if let (Some(first), Some(last)) = (from.first_chunk::<HALF>(), from.last_chunk::<HALF>()) {
            let last = *last;
            if let Some(target) = to.first_chunk_mut::<HALF>() {
                *target = *first;
            }
            if let Some(target) = to.last_chunk_mut::<HALF>() {
                *target = last;
            }
        }
    }
    match from.len() {
        length if length != to.len() => (),
        1 => to[0] = from[0],
        4..=8 => halves::<4>(to, from),
        9..=16 => halves::<8>(to, from),
        17..=32 => halves::<16>(to, from),
        _ => to.copy_from_slice(from),
    }
}
