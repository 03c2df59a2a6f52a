//! How a picture is coded, and access units of H.264 and H.265 as other programs read them.

use crate::convert::Picture;

/// Start code of a unit (H.264, annex B).
const START: [u8; 4] = [0, 0, 0, 1];

/// How a picture is coded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Coding {
    /// A JPEG picture.
    Jpeg,
    /// An access unit whose units have lengths of four bytes before them.
    Video {
        /// `h264` or `h265`.
        format: &'static str,
        /// Parameter sets with start codes.
        parameters: Vec<u8>,
        /// Whether decoding can begin here.
        is_key: bool,
    },
    /// Pixels row by row.
    Raw {
        width: usize,
        height: usize,
        /// 1 for gray, 3 for colour.
        channels: u32,
    },
}

impl Coding {
    /// The coding of a source without compression.
    #[must_use]
    pub fn raw(picture: &Picture<'_>) -> Self {
        let (width, height) = picture.size();
        let channels = if matches!(picture, Picture::Gray { .. }) { 1 } else { 3 };
        Self::Raw { width, height, channels }
    }

    /// Its name in a message.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Jpeg => "jpeg",
            Self::Video { format, .. } => format,
            Self::Raw { channels: 1, .. } => "mono8",
            Self::Raw { .. } => "rgb8",
        }
    }

    /// Appends a picture: an access unit with start codes, after its parameter sets if decoding can begin
    /// with it; anything else as it is.
    pub fn append(&self, bytes: &[u8], to: &mut Vec<u8>) {
        let Self::Video { parameters, is_key, .. } = self else {
            to.extend_from_slice(bytes);
            return;
        };
        if *is_key {
            to.extend_from_slice(parameters);
        }
        let mut rest = bytes;
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let length = (u32::from_be_bytes(*length) as usize).min(after.len());
            to.extend_from_slice(&START);
            to.extend_from_slice(&after[..length]);
            rest = &after[length..];
        }
    }
}

/// Returns the parameter sets of a decoder configuration record (ISO/IEC 14496-15) with start codes; those
/// that can be read.
#[must_use]
pub fn parameter_sets(format: &str, record: &[u8]) -> Vec<u8> {
    let mut found = Vec::new();
    let _ = if format == "h264" { of_avc(record, &mut found) } else { of_hevc(record, &mut found) };
    found
}

/// `count` units, each after its length in two bytes; returns the rest.
fn units<'r>(count: usize, mut rest: &'r [u8], to: &mut Vec<u8>) -> Option<&'r [u8]> {
    for _ in 0..count {
        let (length, after) = rest.split_first_chunk::<2>()?;
        let unit = after.get(..usize::from(u16::from_be_bytes(*length)))?;
        to.extend_from_slice(&START);
        to.extend_from_slice(unit);
        rest = &after[unit.len()..];
    }
    Some(rest)
}

/// AVCDecoderConfigurationRecord: five bytes, sequence parameter sets, picture parameter sets.
fn of_avc(record: &[u8], to: &mut Vec<u8>) -> Option<()> {
    let (count, rest) = record.get(5..)?.split_first()?;
    let rest = units(usize::from(count & 0x1f), rest, to)?;
    let (count, rest) = rest.split_first()?;
    units(usize::from(*count), rest, to).map(drop)
}

/// HEVCDecoderConfigurationRecord: 22 bytes, arrays of units by type.
fn of_hevc(record: &[u8], to: &mut Vec<u8>) -> Option<()> {
    let (arrays, mut rest) = record.get(22..)?.split_first()?;
    for _ in 0..*arrays {
        let ([_, high, low], after) = rest.split_first_chunk::<3>()?;
        rest = units(usize::from(u16::from_be_bytes([*high, *low])), after, to)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_unit_has_start_codes_and_a_key_frame_its_parameter_sets() {
        let record = [1, 100, 0, 31, 0xff, 0xe1, 0, 2, 0x67, 9, 1, 0, 1, 0x68];
        let parameters = parameter_sets("h264", &record);
        assert_eq!(parameters, [0, 0, 0, 1, 0x67, 9, 0, 0, 0, 1, 0x68]);
        let unit = [0, 0, 0, 2, 0x65, 1, 0, 0, 0, 1, 0x06];
        for is_key in [true, false] {
            let format = "h264";
            let coding = Coding::Video { format, parameters: parameters.clone(), is_key };
            let mut found = Vec::new();
            coding.append(&unit, &mut found);
            let own = [0, 0, 0, 1, 0x65, 1, 0, 0, 0, 1, 0x06];
            assert_eq!(found.strip_suffix(&own), Some(if is_key { &parameters[..] } else { &[] }));
        }
        let mut hevc = vec![0; 22];
        hevc.extend([2, 0x20, 0, 1, 0, 1, 0x40, 0x21, 0, 1, 0, 2, 0x42, 1]);
        assert_eq!(parameter_sets("h265", &hevc), [0, 0, 0, 1, 0x40, 0, 0, 0, 1, 0x42, 1]);
    }

    #[test]
    fn no_record_and_no_unit_is_read_beyond_its_end() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..5_000 {
            let length = random.usize(..64);
            let bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(length).collect();
            for format in ["h264", "h265"] {
                assert!(parameter_sets(format, &bytes).len() <= 4 * bytes.len());
                let coding = Coding::Video { format, parameters: Vec::new(), is_key: true };
                let mut found = Vec::new();
                coding.append(&bytes, &mut found);
                assert!(found.len() <= bytes.len());
            }
        }
    }
}
