//! Configuration of a device on the way to OP, in addition to its process data: start-up values of
//! objects and SYNC0.

/// Start-up value of an object, written in PREOP before the mapping is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectValue {
    /// Index of the object, such as 0x6060.
    pub index: u16,
    /// Subindex.
    pub entry: u8,
    /// Complete access: all entries in one transfer.
    pub complete: bool,
    /// Value, little endian, 1 to 1024 bytes.
    pub bytes: Vec<u8>,
}

/// SYNC0 pulses of a device (ETG.1000.4, distributed clocks).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sync0 {
    /// Cycle time of SYNC0, in ns; `None`: the period of the bus.
    pub period_ns: Option<u32>,
    /// Shift of the pulses from the multiples of the period in reference time, in ns, less than a
    /// period in either direction. `None`: half a period, as far from the frames as possible.
    pub shift_ns: Option<i64>,
}

/// Configuration of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceSetup {
    /// Start-up values, in order.
    pub startup: Vec<ObjectValue>,
    /// SYNC0, if the device uses it.
    pub sync0: Option<Sync0>,
    /// Idents of the modules in its slots, 0 for an empty one; no slots if they are not chosen.
    pub modules: Vec<u32>,
}

/// Why a text is not a valid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// Neither a number with a type nor bytes.
    #[error(
        "`{0}` is not a valid value; write a number with its type, such as 6u8 or -100i32, or hex:01ff"
    )]
    NoValue(String),
    /// A number outside the range of its type.
    #[error("{number} is not a valid {kind}: the range is {least} to {most}")]
    TooLarge {
        /// The number.
        number: i128,
        /// Its type.
        kind: &'static str,
        /// Smallest number of the type.
        least: i128,
        /// Largest number of the type.
        most: i128,
    },
}

const TYPES: [(&str, usize, bool); 8] = [
    ("u8", 1, false),
    ("u16", 2, false),
    ("u32", 4, false),
    ("u64", 8, false),
    ("i8", 1, true),
    ("i16", 2, true),
    ("i32", 4, true),
    ("i64", 8, true),
];

/// Parses index and subindex of an object in hexadecimal: `6041`, `0x1018:1`.
///
/// ```
/// assert_eq!(onbeat_ethercat::setup::object("1018:1"), Some((0x1018, 1)));
/// ```
#[must_use]
pub fn object(text: &str) -> Option<(u16, u8)> {
    let (index, entry) = text.split_once(':').unwrap_or((text, "0"));
    let bare = |digits: &str| digits.trim_start_matches("0x").to_owned();
    let index = u16::from_str_radix(&bare(index), 16).ok()?;
    Some((index, u8::from_str_radix(&bare(entry), 16).ok()?))
}

/// Parses a value to its little-endian bytes: a number with its type (`6u8`, `-100i32`, `0x0Fu16`,
/// `1.5f32`), or bytes (`hex:01ff`).
///
/// ```
/// assert_eq!(onbeat_ethercat::setup::value("-2i16").unwrap(), [0xfe, 0xff]);
/// ```
///
/// # Errors
/// [`ValueError`].
pub fn value(text: &str) -> Result<Vec<u8>, ValueError> {
    let wrong = || ValueError::NoValue(text.to_owned());
    if let Some(digits) = text.strip_prefix("hex:") {
        let pairs =
            digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap_or_default());
        let bytes: Result<Vec<u8>, _> = pairs.map(|pair| u8::from_str_radix(pair, 16)).collect();
        let is_whole = !digits.is_empty() && digits.len().is_multiple_of(2);
        return bytes.ok().filter(|_| is_whole).ok_or_else(wrong);
    }

    if let Some(number) = text.strip_suffix("f32") {
        return number
            .parse()
            .map(|number: f32| number.to_le_bytes().to_vec())
            .map_err(|_| wrong());
    }

    for (kind, bytes, is_signed) in TYPES {
        let Some(number) = text.strip_suffix(kind) else { continue };
        let number = match number.strip_prefix("0x") {
            Some(digits) => i128::from_str_radix(digits, 16),
            None => number.parse(),
        };

        let number = number.map_err(|_| wrong())?;
        let bits = 8 * bytes as u32;
        let (least, most) = if is_signed {
            (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        } else {
            (0, (1_i128 << bits) - 1)
        };
        if number < least || number > most {
            return Err(ValueError::TooLarge { number, kind, least, most });
        }

        return Ok(number.to_le_bytes()[..bytes].to_vec());
    }

    Err(wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_parsed_as_hexadecimal() {
        assert_eq!(object("6041"), Some((0x6041, 0)));
        assert_eq!(object("0x1018:1"), Some((0x1018, 1)));
        assert_eq!(object("1600:1a"), Some((0x1600, 0x1A)));
        assert!(object("knee").is_none() && object("16041").is_none() && object("6041:").is_none());
    }

    #[test]
    fn values_are_parsed_with_their_type() {
        let written = [
            ("6u8", vec![6]),
            ("0x0Fu16", vec![15, 0]),
            ("-100i32", vec![0x9C, 255, 255, 255]),
            ("1f32", vec![0, 0, 0x80, 0x3F]),
            ("hex:01ff", vec![1, 255]),
        ];

        for (text, bytes) in written {
            assert_eq!(value(text), Ok(bytes), "{text}");
        }

        for wrong in ["6", "256u8", "-1u8", "hex:0", "hex:", "onei32"] {
            assert!(value(wrong).is_err(), "{wrong}");
        }
    }
}
