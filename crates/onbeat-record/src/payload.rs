//! The histograms inside run files and interval logs: HdrHistogram's encodings V0, V1 and V2, plain or deflated,
//! in base64.
//!
//! A decoder of its own, for speed: only filled buckets are visited, and nothing is allocated per
//! histogram. Layout as in HdrHistogram's `AbstractHistogram.java` (public domain): a cookie whose
//! lowest byte holds the version, a header of 40 bytes (32 in V0), then counts of 2, 4 or 8 bytes
//! (V0, V1), or ZigZag LEB128 with negative numbers for runs of zeros (V2).

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{
    TINFL_FLAG_PARSE_ZLIB_HEADER, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use super::histogram::Bucket;
use super::resolution::Resolution;

/// What a cookie's upper bits are, and where V2 and V1 hold the width of a word.
const COOKIE: u32 = 0x1c84_9300;
const WORD_BITS: u32 = 0xf0;
const DOUBLE_COOKIES: [u32; 2] = [0x0c72_124e, 0x0c72_124f];
/// Inflated histograms are not longer: five digits over the whole range of 64 bits take 14 MiB in
/// words of 8 bytes.
const LARGEST: usize = 64 * 1024 * 1024;
/// Those of run files are shorter still: four digits up to 1,000 s in numbers of nine bytes take 4 MiB.
const LARGEST_OF_RUN_FILES: usize = 4 * 1024 * 1024;
/// A zlib header, and one piece of memory that all of the output is in: flate2, which this is the
/// inside of, clears a window for each histogram, and gives up where the room was too small at
/// first.
const ZLIB_AT_ONCE: u32 = TINFL_FLAG_PARSE_ZLIB_HEADER | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
/// Room that is enough for most.
const ROOM: usize = 16 * 1024;

/// Why a histogram cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// Its text is not valid base64.
    #[error("the histogram is not valid base64: damaged or cut off at its character {at}")]
    Base64 {
        /// The character, from 1.
        at: usize,
    },
    /// It ends before its own lengths say.
    #[error("the histogram is cut off: {found} bytes where {needed} should be")]
    Cut {
        /// Bytes that are there.
        found: usize,
        /// Bytes that are needed at least.
        needed: usize,
    },
    /// It is in none of HdrHistogram's encodings.
    #[error("the histogram begins with {0:#010x}, which is not an HdrHistogram encoding")]
    Cookie(u32),
    /// It holds floating-point values.
    #[error(
        "the histogram is a DoubleHistogram, whose values are not whole nanoseconds; log it as a Histogram"
    )]
    Double,
    /// The deflated part is broken.
    #[error("the histogram cannot be inflated, or is longer than {most_mib} MiB")]
    Inflate {
        /// The limit.
        most_mib: usize,
    },
    /// A field of its header is out of range.
    #[error("the histogram's header says {what} {value}")]
    Header {
        /// Which figure.
        what: &'static str,
        /// What it is.
        value: u64,
    },
    /// A count is out of range.
    #[error("count {index} of the histogram is {value}, beyond its range")]
    Count {
        /// Its place.
        index: usize,
        /// What it is.
        value: i64,
    },
}

/// How the places of counts stand for values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The smallest step is 2 to this power, in the log's unit.
    pub unit_magnitude: u32,
    /// Steps before they double are 2 to this power.
    pub sub_bits: u32,
}

impl Scale {
    /// From the lowest value that differs from 0 and the significant decimal digits.
    fn new(lowest: u64, digits: u32) -> Result<Self, PayloadError> {
        if !(1..=5).contains(&digits) {
            return Err(PayloadError::Header {
                what: "significant digits",
                value: u64::from(digits),
            });
        }

        let largest_exact = 2 * 10_u64.pow(digits);
        let scale = Self {
            unit_magnitude: lowest.max(1).ilog2(),
            sub_bits: largest_exact.next_power_of_two().ilog2(),
        };
        if scale.unit_magnitude + scale.sub_bits > 61 {
            return Err(PayloadError::Header { what: "lowest value", value: lowest });
        }

        Ok(scale)
    }

    /// The bucket of a place, without its count; `None` beyond 64 bits.
    #[must_use]
    pub fn bucket(self, index: usize) -> Option<Bucket> {
        let half = 1_usize << (self.sub_bits - 1);
        let shift = u32::try_from((index / half).saturating_sub(1)).ok()? + self.unit_magnitude;
        let steps = if index < half { index } else { index % half + half };
        let steps = steps as u64;
        if shift + self.sub_bits > 63 {
            return None;
        }

        Some(Bucket { low_ns: steps << shift, width_ns: 1 << shift, count: 0 })
    }

    /// How many places there are within 64 bits.
    const fn places(self) -> usize {
        // The last doubling ends at 2^63, and each adds half of the steps before the first.
        ((64 - self.sub_bits - self.unit_magnitude) as usize + 1) << (self.sub_bits - 1)
    }

    /// The cells that it makes, for values of `unit_ns` nanoseconds each.
    #[must_use]
    pub fn resolution(self, unit_ns: u64) -> Resolution {
        Resolution::doubling(
            (1_u64 << self.unit_magnitude).saturating_mul(unit_ns),
            1 << self.sub_bits,
        )
    }
}

/// Decodes one histogram after the other, with the same memory.
pub struct Decoder {
    encoded: Vec<u8>,
    plain: Vec<u8>,
    largest: usize,
    inflater: Box<DecompressorOxide>,
}

impl Default for Decoder {
    fn default() -> Self {
        let plain = vec![0; ROOM];
        Self { encoded: Vec::new(), plain, largest: LARGEST, inflater: Box::default() }
    }
}

impl Decoder {
    /// Creates a decoder for the histograms of run files.
    #[must_use]
    pub fn of_run_files() -> Self {
        Self { largest: LARGEST_OF_RUN_FILES, ..Self::default() }
    }

    /// Decodes what stands before the counts of a histogram.
    ///
    /// # Errors
    /// [`PayloadError`].
    pub fn decode(&mut self, base64: &[u8]) -> Result<Encoded<'_>, PayloadError> {
        self.encoded.clear();
        STANDARD.decode_vec(base64, &mut self.encoded).map_err(|why| {
            let at = match why {
                DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at + 1,
                DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => base64.len(),
            };
            PayloadError::Base64 { at }
        })?;
        let cookie = number(&self.encoded, 0)?;
        match cookie & !WORD_BITS {
            // Each version's deflated form wraps its plain one.
            deflated if [COOKIE | 9, COOKIE | 2, COOKIE | 4].contains(&deflated) => {
                let length = number(&self.encoded, 4)? as usize;
                let end = 8_usize.saturating_add(length).min(self.encoded.len());
                let length = self.inflate(8, end)?;
                Encoded::from_bytes(&self.plain[..length])
            }
            _ => Encoded::from_bytes(&self.encoded),
        }
    }

    /// How many bytes of `plain` hold the inflated part.
    fn inflate(&mut self, from: usize, to: usize) -> Result<usize, PayloadError> {
        self.inflater.init();
        let mut read = from;
        let mut written = 0;
        loop {
            let source = &self.encoded[read..to];
            let (status, taken, given) =
                decompress(&mut self.inflater, source, &mut self.plain, written, ZLIB_AT_ONCE);
            (read, written) = (read + taken, written + given);
            match status {
                TINFLStatus::Done => return Ok(written),
                // Grown by what the stream really has, up to a limit: the length in its header is a
                // stranger's word, and a bomb of a kilobyte states gigabytes.
                TINFLStatus::HasMoreOutput if self.plain.len() < self.largest => {
                    self.plain.resize(4 * self.plain.len(), 0);
                }
                _ => return Err(PayloadError::Inflate { most_mib: self.largest >> 20 }),
            }
        }
    }
}

fn number(bytes: &[u8], at: usize) -> Result<u32, PayloadError> {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    four.map(u32::from_be_bytes).ok_or(PayloadError::Cut { found: bytes.len(), needed: at + 4 })
}

fn long(bytes: &[u8], at: usize) -> Result<u64, PayloadError> {
    Ok(u64::from(number(bytes, at)?) << 32 | u64::from(number(bytes, at + 4)?))
}

/// A histogram whose counts are still to be decoded.
pub struct Encoded<'d> {
    /// What its places stand for.
    pub scale: Scale,
    /// Lowest and highest value that it is made for, and significant decimal digits.
    pub bounds: (u64, u64, u32),
    /// Bytes per count; 0 where counts are of varying length.
    width: usize,
    payload: &'d [u8],
}

impl<'d> Encoded<'d> {
    fn from_bytes(bytes: &'d [u8]) -> Result<Self, PayloadError> {
        let cookie = number(bytes, 0)?;
        let base = cookie & !WORD_BITS;
        // Of histograms of floating-point values, whose integer counts need their own conversion
        // ratio; told apart by name, not as damage.
        if DOUBLE_COOKIES.contains(&cookie) {
            return Err(PayloadError::Double);
        }
        if ![COOKIE | 8, COOKIE | 1, COOKIE | 3].contains(&base) {
            return Err(PayloadError::Cookie(cookie));
        }

        // V0 has no length of its payload and no normalizing index; V1 and V2 have both, and V2
        // stores counts as LEB128.
        let is_v0 = base == COOKIE | 8;
        let (at, header) = if is_v0 { (4, 32) } else { (12, 40) };
        let bounds = (long(bytes, at + 4)?, long(bytes, at + 12)?, number(bytes, at)?);
        let scale = Scale::new(bounds.0, bounds.2)?;
        let payload = if is_v0 { bytes.get(header..) } else { v1_payload(bytes, header)? };
        let payload = payload.ok_or(PayloadError::Cut { found: bytes.len(), needed: header })?;
        let width = if base == COOKIE | 3 { 0 } else { ((cookie & WORD_BITS) >> 4 & 0xe) as usize };
        if base != COOKIE | 3 && ![2, 4, 8].contains(&width) {
            return Err(PayloadError::Header { what: "bytes per count", value: width as u64 });
        }

        Ok(Self { scale, bounds, width, payload })
    }

    /// Hands every filled place and its count to `take`, places rising.
    ///
    /// # Errors
    /// [`PayloadError`]; some counts may have been handed over before.
    pub fn counts(&self, take: impl FnMut(usize, u64)) -> Result<(), PayloadError> {
        let mut places = Places { end: self.scale.places(), index: 0, take };
        if self.width == 0 {
            leb128(self.payload, &mut places)
        } else {
            words(self.payload, self.width, &mut places)
        }
    }
}

fn v1_payload(bytes: &[u8], header: usize) -> Result<Option<&[u8]>, PayloadError> {
    let offset = number(bytes, 8)?;
    // A histogram that was shifted (double-valued, auto-ranging) has its first place elsewhere.
    // Counting it as is would move every value.
    if offset != 0 {
        return Err(PayloadError::Header {
            what: "normalizing index offset",
            value: u64::from(offset),
        });
    }

    let needed = header + number(bytes, 4)? as usize;
    if bytes.len() < needed {
        return Err(PayloadError::Cut { found: bytes.len(), needed });
    }

    Ok(bytes.get(header..needed))
}

/// Where the next count belongs.
struct Places<F> {
    end: usize,
    index: usize,
    take: F,
}

impl<F: FnMut(usize, u64)> Places<F> {
    #[inline]
    fn count(&mut self, value: i64) -> Result<(), PayloadError> {
        // A count beyond the highest trackable value is damage, unless it is zero: writers pad.
        if value > 0 && self.index < self.end {
            (self.take)(self.index, value.unsigned_abs());
        } else if value != 0 {
            return Err(PayloadError::Count { index: self.index, value });
        }

        self.index = self.index.saturating_add(1);
        Ok(())
    }
}

fn words(
    payload: &[u8],
    width: usize,
    places: &mut Places<impl FnMut(usize, u64)>,
) -> Result<(), PayloadError> {
    for word in payload.chunks_exact(width) {
        // Signed, as Java writes them.
        let value = match *word {
            [a, b] => i64::from(i16::from_be_bytes([a, b])),
            [a, b, c, d] => i64::from(i32::from_be_bytes([a, b, c, d])),
            _ => i64::from_be_bytes(word.try_into().unwrap_or_default()),
        };
        places.count(value)?;
    }
    Ok(())
}

fn leb128(payload: &[u8], places: &mut Places<impl FnMut(usize, u64)>) -> Result<(), PayloadError> {
    let mut rest = payload.iter();
    while let Some(&first) = rest.next() {
        let mut value = u64::from(first & 0x7f);
        let mut more = first & 0x80 != 0;
        let mut place = 1;
        while more {
            let cut = PayloadError::Cut { found: payload.len(), needed: payload.len() + 1 };
            let byte = *rest.next().ok_or(cut)?;
            // At most nine bytes; the ninth has no flag.
            more = place < 8 && byte & 0x80 != 0;
            value |= u64::from(if place == 8 { byte } else { byte & 0x7f }) << (7 * place);
            place += 1;
        }

        // ZigZag: the sign is in the lowest bit. Negative numbers are runs of empty places.
        let value = (value >> 1).cast_signed() ^ -(value & 1).cast_signed();
        if value < 0 {
            let zeros = usize::try_from(value.unsigned_abs()).ok();
            // A run may be stated longer than memory has addresses.
            let next = zeros.and_then(|zeros| places.index.checked_add(zeros));
            places.index = next.ok_or(PayloadError::Count { index: places.index, value })?;
        } else {
            places.count(value)?;
        }
    }

    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer, V2Serializer};
    use proptest::prelude::*;

    fn decoded(bytes: &[u8]) -> Result<(Scale, Vec<(u64, u64)>), PayloadError> {
        let mut found = Vec::new();
        let mut decoder = Decoder::default();
        let histogram = decoder.decode(STANDARD.encode(bytes).as_bytes())?;
        let scale = histogram.scale;
        histogram.counts(|index, n| found.push((scale.bucket(index).unwrap().low_ns, n)))?;
        Ok((scale, found))
    }

    /// A histogram in words of a fixed width, as logs of 2014 have them.
    fn in_words(version: u32, width: usize, counts: &[u64]) -> Vec<u8> {
        let (base, v0) = if version == 0 { (COOKIE | 8, true) } else { (COOKIE | 1, false) };
        let mut bytes = (base | (width as u32) << 4).to_be_bytes().to_vec();
        if !v0 {
            bytes.extend(((counts.len() * width) as u32).to_be_bytes());
            bytes.extend(0_u32.to_be_bytes());
        }

        bytes.extend(3_u32.to_be_bytes());
        bytes.extend(1_u64.to_be_bytes());
        bytes.extend(3_600_000_000_000_u64.to_be_bytes());
        bytes.extend(if v0 { counts.iter().sum::<u64>() } else { 1.0_f64.to_bits() }.to_be_bytes());
        for count in counts {
            bytes.extend(&count.to_be_bytes()[8 - width..]);
        }

        bytes
    }

    #[test]
    fn the_older_encodings_hold_the_same_counts() {
        let mut counts = vec![0; 3_000];
        (counts[7], counts[2_047], counts[2_500]) = (3, 1, 1_000);
        for version in [0, 1] {
            for width in [2, 4, 8] {
                let (scale, found) = decoded(&in_words(version, width, &counts)).unwrap();
                assert_eq!(scale, Scale { unit_magnitude: 0, sub_bits: 11 });
                assert_eq!(
                    found,
                    [(7, 3), (2_047, 1), (2_952, 1_000)],
                    "V{version}, {width} bytes"
                );
            }
        }
    }

    #[test]
    fn a_histogram_of_a_hundred_kilobytes_is_decoded_to_its_last_count() {
        let mut histogram: Histogram<u64> =
            Histogram::new_with_bounds(1, 3_600_000_000_000, 5).unwrap();
        (1..=60_000_u64).for_each(|k| histogram.record_n(k * 7, k).unwrap());
        let mut deflated = Vec::new();
        V2DeflateSerializer::new().serialize(&histogram, &mut deflated).unwrap();
        let (_, found) = decoded(&deflated).unwrap();
        assert_eq!(found.iter().map(|(_, n)| n).sum::<u64>(), histogram.len());
    }

    #[test]
    fn places_end_where_values_do() {
        for (lowest, digits) in [(1, 1), (1, 3), (1, 5), (20_000, 2), (1_000_000, 5)] {
            let scale = Scale::new(lowest, digits).unwrap();
            let last = scale.bucket(scale.places() - 1).unwrap();
            assert!(last.high_ns() > u64::MAX / 4, "{scale:?}: {last:?}");
            assert_eq!(scale.bucket(scale.places()), None, "{scale:?}");
        }
    }

    #[test]
    fn what_cannot_be_decoded_says_why() {
        assert_eq!(decoded(&[0x1c, 0x84]), Err(PayloadError::Cut { found: 2, needed: 4 }));
        assert_eq!(decoded(&0x1c84_93ff_u32.to_be_bytes()), Err(PayloadError::Cookie(0x1c84_93ff)));
        assert_eq!(decoded(&0x0c72_124f_u32.to_be_bytes()), Err(PayloadError::Double));
        let cut = &in_words(1, 8, &[1, 2, 3])[..50];
        assert_eq!(decoded(cut), Err(PayloadError::Cut { found: 50, needed: 64 }));
    }

    proptest! {
        #[test]
        fn histograms_decode_as_the_reference_encodes_them(
            values in prop::collection::vec(1_u64..100_000_000_000, 0..200),
            lowest in prop::sample::select(vec![1_u64, 1_000, 20_000]),
            digits in 1_u8..=5,
        ) {
            let mut histogram: Histogram<u64> = Histogram::new_with_bounds(lowest, 3_600_000_000_000, digits).unwrap();
            values.iter().for_each(|&value| histogram.record(value).unwrap());
            let expected: Vec<(u64, u64)> = histogram
                .iter_recorded()
                .map(|step| (histogram.lowest_equivalent(step.value_iterated_to()), step.count_since_last_iteration()))
                .collect();
            let mut plain = Vec::new();
            let mut deflated = Vec::new();
            V2Serializer::new().serialize(&histogram, &mut plain).unwrap();
            V2DeflateSerializer::new().serialize(&histogram, &mut deflated).unwrap();

            prop_assert_eq!(decoded(&plain).unwrap().1, expected.clone());
            prop_assert_eq!(decoded(&deflated).unwrap().1, expected);
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decoded(&bytes);
            let _ = decoded(&[&(COOKIE | 0x13).to_be_bytes(), bytes.as_slice()].concat());
        }
    }
}
