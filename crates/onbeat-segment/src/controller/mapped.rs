//! Process data by logical address.

use super::{Controller, Join, Passing, event};
use crate::fmmu::Fmmu;
use crate::sync_channel::Direction;

impl Controller {
    /// The MainDevice reads through an FMMU. Whether the device put anything in.
    pub(crate) fn read_mapped(&mut self, fmmu: &Fmmu, logical: u32, data: &mut [u8], now_ns: u64) -> bool {
        if fmmu.is_bytewise() {
            let Some(part) = fmmu.overlap(logical, data.len()) else { return false };
            return self.read(part.physical, &mut data[part.data..part.data + part.bytes], Join::Replace, now_ns);
        }

        let (mut any, mut at, mut byte, mut allowed) = (false, usize::MAX, [0], false);
        for bit in 0..fmmu.bits() {
            let (place, physical) = fmmu.place_of_bit(bit, logical);
            let Some(place) = place.filter(|place| place / 8 < data.len()) else { continue };
            if physical / 8 != at {
                at = physical / 8;
                allowed = self.read(at as u16, &mut byte, Join::Replace, now_ns);
                any |= allowed;
            }

            if allowed {
                put_bit(data, place, byte[0] >> (physical % 8) & 1 != 0);
            }
        }

        any
    }

    /// The MainDevice writes through an FMMU. Whether the device took anything.
    ///
    /// Bits of a byte that are not mapped keep their value; the standard leaves them open.
    pub(crate) fn write_mapped(&mut self, fmmu: &Fmmu, logical: u32, data: &[u8], passing: &Passing) -> bool {
        if fmmu.is_bytewise() {
            let Some(part) = fmmu.overlap(logical, data.len()) else { return false };
            return self.write(part.physical, &data[part.data..part.data + part.bytes], passing);
        }

        let (mut any, mut at, mut byte) = (false, usize::MAX, [0]);
        for bit in 0..fmmu.bits() {
            let (place, physical) = fmmu.place_of_bit(bit, logical);
            let Some(place) = place.filter(|place| place / 8 < data.len()) else { continue };
            if physical / 8 != at {
                any |= at != usize::MAX && self.write(at as u16, &byte, passing);
                at = physical / 8;
                byte[0] = self.memory.get(at).copied().unwrap_or_default();
            }

            put_bit(&mut byte, physical % 8, data[place / 8] >> (place % 8) & 1 != 0);
        }

        any | (at != usize::MAX && self.write(at as u16, &byte, passing))
    }

    /// The SyncManager whose whole buffered area an FMMU maps, byte by byte: the usual case, which has short ways.
    pub(crate) fn whole_channel(&self, fmmu: &Fmmu, direction: Direction) -> Option<usize> {
        let channel = self.whole_area(usize::from(fmmu.physical), usize::from(fmmu.length), direction);
        channel.filter(|_| fmmu.is_bytewise() && fmmu.is_of_memory())
    }

    /// The short way to give a whole area of inputs; `channel` is from [`Controller::whole_channel`].
    #[inline]
    pub(crate) fn give_inputs(&mut self, channel: usize, start: u16, data: &mut [u8]) {
        let start = usize::from(start);
        copy_few(data, &self.memory[start..start + data.len()]);
        self.sync_managers[channel].touch_all();
        self.events |= event::INPUTS;
    }

    /// The short way to take a whole area of outputs; `channel` is from [`Controller::whole_channel`].
    #[inline]
    pub(crate) fn take_outputs(&mut self, channel: usize, start: u16, data: &[u8], now_ns: u64) {
        let start = usize::from(start);
        copy_few(&mut self.memory[start..start + data.len()], data);
        self.sync_managers[channel].touch_all();
        self.outputs_complete(channel, now_ns);
    }
}

/// Copies as many bytes as a device's process data have, without a call: those from four to 32 in two halves that overlap.
#[inline]
fn copy_few(to: &mut [u8], from: &[u8]) {
    fn halves<const HALF: usize>(to: &mut [u8], from: &[u8]) {
        if let (Some(first), Some(last)) = (from.first_chunk::<HALF>(), from.last_chunk::<HALF>()) {
            let last = *last;
            if let Some(place) = to.first_chunk_mut::<HALF>() {
                *place = *first;
            }
            if let Some(place) = to.last_chunk_mut::<HALF>() {
                *place = last;
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

fn put_bit(bytes: &mut [u8], bit: usize, value: bool) {
    let mask = 1 << (bit % 8);
    bytes[bit / 8] = if value { bytes[bit / 8] | mask } else { bytes[bit / 8] & !mask };
}
