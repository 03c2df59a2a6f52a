//! Histograms as run files hold them: HdrHistogram's encoding V2, deflated.
//!
//! The `hdrhistogram` crate writes the same, but makes room for the longest encoding that the
//! largest value allows first, and a compressor for each histogram: 3 MB for periods, whose
//! histogram is fine. Here memory is taken for the counts that there are, and kept. Layout as in
//! HdrHistogram's `AbstractHistogram.java` (public domain): a cookie and a length, then as a zlib
//! stream a header of 40 bytes and the counts in ZigZag LEB128, with negative numbers for runs of
//! zeros.

use std::io::{self, Write};
use std::mem;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use hdrhistogram::{Counter, Histogram};

const COOKIE: u32 = 0x1c84_9313;
const COOKIE_DEFLATED: u32 = 0x1c84_9314;

/// Encodes one histogram after the other, with the same memory.
pub(super) struct Encoder {
    payload: Vec<u8>,
    compressor: ZlibEncoder<Vec<u8>>,
    deflated: Vec<u8>,
}

impl Encoder {
    pub(super) fn new() -> Self {
        let compressor = ZlibEncoder::new(Vec::new(), Compression::default());
        Self { payload: Vec::new(), compressor, deflated: Vec::new() }
    }

    /// Puts a histogram of at least one value into `encoded`, in place of what is there.
    pub(super) fn encode<T: Counter>(
        &mut self,
        counts: &Histogram<T>,
        encoded: &mut Vec<u8>,
    ) -> io::Result<()> {
        self.payload.clear();
        put_counts(counts, &mut self.payload);
        self.compressor.write_all(&header(counts, self.payload.len()))?;
        self.compressor.write_all(&self.payload)?;
        self.deflated.clear();
        // The compressor's tables are kept: making them anew for each interval would
        // take new pages beside the loop.
        self.deflated = self.compressor.reset(mem::take(&mut self.deflated))?;
        encoded.clear();
        encoded.extend_from_slice(&COOKIE_DEFLATED.to_be_bytes());
        encoded.extend_from_slice(&(self.deflated.len() as u32).to_be_bytes());
        encoded.extend_from_slice(&self.deflated);

        Ok(())
    }
}

fn header<T: Counter>(counts: &Histogram<T>, payload: usize) -> [u8; 40] {
    let mut header = [0; 40];
    header[..4].copy_from_slice(&COOKIE.to_be_bytes());
    header[4..8].copy_from_slice(&(payload as u32).to_be_bytes());
    // Bytes 8 to 12 would be the offset of a histogram whose values were shifted.
    header[12..16].copy_from_slice(&u32::from(counts.sigfig()).to_be_bytes());
    header[16..24].copy_from_slice(&counts.low().to_be_bytes());
    header[24..32].copy_from_slice(&counts.high().to_be_bytes());
    header[32..].copy_from_slice(&1.0_f64.to_be_bytes());

    header
}

fn put_counts<T: Counter>(counts: &Histogram<T>, payload: &mut Vec<u8>) {
    let mut next = 0;
    for recorded in counts.iter_recorded() {
        let index = index_of(recorded.value_iterated_to(), counts);
        match index - next {
            0 => (),
            1 => put_number(0, payload),
            // A run of empty places is one negative number (HdrHistogram's V2 encoding).
            zeros => put_number(-zeros.cast_signed(), payload),
        }

        put_number(i64::try_from(recorded.count_at_value().as_u64()).unwrap_or(i64::MAX), payload);
        next = index + 1;
    }
}

/// The place of a value's count.
fn index_of<T: Counter>(value: u64, counts: &Histogram<T>) -> u64 {
    let unit = counts.low().ilog2();
    // Steps up to here are of one unit; from here on they double with the value.
    let exact_bits = (2 * 10_u64.pow(u32::from(counts.sigfig()))).next_power_of_two().ilog2();
    let steps = value >> unit;
    let shift = steps.max(1).ilog2().saturating_sub(exact_bits - 1);
    (u64::from(shift) << (exact_bits - 1)) + (steps >> shift)
}

/// ZigZag LEB128 of at most nine bytes, the ninth of which has eight bits.
fn put_number(number: i64, payload: &mut Vec<u8>) {
    // ZigZag, then LEB128 of at most nine bytes, the last of which has all eight bits.
    let mut left = (number << 1 ^ number >> 63).cast_unsigned();
    for _ in 0..8 {
        if left < 0x80 {
            break;
        }
        payload.push(left as u8 | 0x80);
        left >>= 7;
    }

    payload.push(left as u8);
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::Counts;

    fn plain<T: Counter>(counts: &Histogram<T>) -> Vec<u8> {
        let mut payload = Vec::new();
        put_counts(counts, &mut payload);
        [header(counts, payload.len()).as_slice(), &payload].concat()
    }

    fn by_the_crate<T: Counter>(counts: &Histogram<T>) -> Vec<u8> {
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(counts, &mut bytes).unwrap();
        bytes
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_deflated_is_what_the_crate_writes(
            values in vec((prop_oneof![1..100_000u64, 1..1_000_000_000_000u64, any::<u64>()], 1..40u64, 0..40u8), 1..200),
            (low, digits) in (prop_oneof![Just(1u64), 1..5_000u64], 1..=5u8),
        ) {
            let mut counts = Histogram::<u64>::new_with_bounds(low, u64::MAX / 2, digits).unwrap();
            for (value, times, doublings) in values {
                counts.saturating_record_n(value, (times << doublings >> 2).max(1));
            }

            if !counts.is_empty() {
                prop_assert_eq!(plain(&counts), by_the_crate(&counts));
            }
        }

        #[test]
        fn histograms_come_back_one_after_the_other(runs in vec(vec(1..10_000_000u64, 1..300), 1..5)) {
            let mut encoder = Encoder::new();
            let mut encoded = Vec::new();
            for values in runs {
                let mut counts = Histogram::<u32>::new_with_bounds(1, 1_000_000_000_000, 4).unwrap();
                values.iter().for_each(|value| counts.saturating_record(*value));
                encoder.encode(&counts, &mut encoded).unwrap();
                let back: Counts = Deserializer::new().deserialize(&mut encoded.as_slice()).unwrap();
                prop_assert_eq!(plain(&back), plain(&counts));
            }
        }
    }

    #[test]
    fn the_largest_number_takes_nine_bytes() {
        let mut payload = Vec::new();
        put_number(i64::MAX, &mut payload);
        put_number(-1, &mut payload);
        assert_eq!(payload, [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
    }
}
