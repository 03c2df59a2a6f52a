//! Decoder of the EEPROM of a device: the SubDevice Information Interface, SII (ETG.1000.6, clause
//! 5.4, and ETG.2010).
//!
//! Accepts any bytes; memory use is bounded by their number. Unknown categories are skipped;
//! references to missing strings give empty strings.
//!
//! ```
//! use onbeat_ethercat::sii::{Sii, SiiError};
//!
//! assert_eq!(Sii::decode(&[0xff; 128]), Err(SiiError::Blank));
//! ```

use onbeat_rt::frame::word;

use crate::esi::{DcMode, SyncManagerEntry};
use crate::setup::{Sync0, Sync1};

/// Offset of the first category, in bytes.
const CATEGORIES: usize = 0x80;
/// Word 7 with which controllers do not check the configuration area, for development.
const NOT_CHECKED: [u8; 2] = 0x88a4_u16.to_le_bytes();
/// Types of the decoded categories.
const STRINGS: u16 = 10;
const GENERAL: u16 = 30;
const FMMU: u16 = 40;
const SYNC_MANAGER: u16 = 41;
const INPUTS: u16 = 50;
const OUTPUTS: u16 = 51;
const CLOCK: u16 = 60;
const END: u16 = 0xffff;

/// Why bytes are not a valid SII.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SiiError {
    /// Fewer bytes than the fixed part.
    #[error("the EEPROM has {bytes} bytes, at least 128 are needed; read it again")]
    Short {
        /// Number of bytes.
        bytes: usize,
    },
    /// All ones, as in a chip that was never written.
    #[error("the EEPROM is blank; write the vendor's image into it")]
    Blank,
    /// Letters, as of an image in Intel HEX.
    #[error(
        "it is text instead of the bytes of an EEPROM; objcopy -I ihex -O binary converts Intel HEX"
    )]
    Text,
    /// The checksum of the configuration area is wrong.
    #[error(
        "the EEPROM's checksum is {is:#04x} and should be {should:#04x}; read it again, then write the vendor's image"
    )]
    Checksum {
        /// Checksum in the EEPROM.
        is: u8,
        /// Checksum of the configuration area.
        should: u8,
    },
    /// A category reaches beyond the end.
    #[error(
        "category {kind} at byte {at:#x} has {bytes} bytes, {left} are left; read more of the EEPROM, or write it again"
    )]
    Category {
        /// Type of the category.
        kind: u16,
        /// Offset of the category, in bytes.
        at: usize,
        /// Its declared length, in bytes.
        bytes: usize,
        /// Remaining bytes.
        left: usize,
    },
    /// A PDO declares more entries than its category holds.
    #[error(
        "PDO {index:#06x} declares {entries} entries, its category holds {room}; write the EEPROM again"
    )]
    Pdo {
        /// Index of the PDO.
        index: u16,
        /// Declared number of entries.
        entries: u8,
        /// Number of entries that fit.
        room: usize,
    },
}

/// A mailbox in process memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiiMailbox {
    /// Start address.
    pub start: u16,
    /// Length in bytes; 0 for no mailbox.
    pub length: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiiPdo {
    /// Index of its object.
    pub index: u16,
    /// SyncManager to which the PDO is assigned.
    pub sync_manager: Option<u8>,
    /// Bit 0 mandatory, bit 4 fixed.
    pub flags: u16,
    pub name: String,
    /// Entries in order; a gap has index 0.
    pub entries: Vec<SiiEntry>,
}

/// One entry of a PDO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiiEntry {
    /// Index of its object; 0 for a gap.
    pub index: u16,
    /// Subindex.
    pub entry: u8,
    /// Data type (ETG.1020).
    pub data_type: u8,
    /// Length in bits.
    pub bits: u8,
    pub name: String,
}

/// Decoded contents of an EEPROM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sii {
    /// Station alias, 0 for none.
    pub alias: u16,
    /// Vendor id.
    pub vendor: u32,
    /// Product code.
    pub product: u32,
    pub revision: u32,
    /// Serial number.
    pub serial: u32,
    pub mailbox_to_device: SiiMailbox,
    pub mailbox_from_device: SiiMailbox,
    /// Mailbox protocols: 1 AoE, 2 EoE, 4 CoE, 8 FoE, 16 SoE, 32 VoE.
    pub protocols: u16,
    /// Size of the chip in bytes, as stored in the EEPROM.
    pub chip_bytes: usize,
    /// Order name.
    pub order: String,
    pub name: String,
    /// CoE details: 1 SDO, 2 SDO information, 4 PDO assignment, 8 PDO configuration, 32 complete
    /// access.
    pub coe: u8,
    /// Physical ports, four bits each, port 0 lowest: 0 none, 1 MII, 3 EBUS.
    pub ports: u16,
    /// Usage of the FMMUs: 1 outputs, 2 inputs, 3 mailbox state.
    pub fmmus: Vec<u8>,
    /// SyncManagers, from number 0.
    pub sync_managers: Vec<SyncManagerEntry>,
    /// PDOs of the outputs (RxPDO).
    pub outputs: Vec<SiiPdo>,
    /// PDOs of the inputs (TxPDO).
    pub inputs: Vec<SiiPdo>,
    /// Operation modes of distributed clocks, without their descriptions.
    pub clock: Vec<DcMode>,
}

impl Sii {
    /// Decodes the bytes of an EEPROM from its start. Bytes after the last category are ignored.
    ///
    /// # Errors
    /// [`SiiError`] with the invalid part.
    pub fn decode(bytes: &[u8]) -> Result<Self, SiiError> {
        let Some((fixed, rest)) = bytes.split_at_checked(CATEGORIES) else {
            return Err(SiiError::Short { bytes: bytes.len() });
        };
        if fixed.iter().all(|&byte| byte == 0xff) {
            return Err(SiiError::Blank);
        }

        let should = checksum(&fixed[..14]);
        if fixed[14] != should && fixed[14..16] != NOT_CHECKED {
            if fixed.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) {
                return Err(SiiError::Text);
            }
            return Err(SiiError::Checksum { is: fixed[14], should });
        }

        let mailbox = |at| SiiMailbox { start: word(fixed, at), length: word(fixed, at + 2) };
        let mut sii = Self {
            alias: word(fixed, 8),
            vendor: long(fixed, 16),
            product: long(fixed, 20),
            revision: long(fixed, 24),
            serial: long(fixed, 28),
            mailbox_to_device: mailbox(0x30),
            mailbox_from_device: mailbox(0x34),
            protocols: word(fixed, 0x38),
            chip_bytes: (usize::from(word(fixed, 0x7c)) + 1) * 128,
            ..Self::default()
        };

        let categories = categories(rest)?;
        let of = |kind| {
            categories.iter().find(|(one, _)| *one == kind).map_or(&[][..], |(_, body)| body)
        };
        let strings = strings(of(STRINGS));
        sii.read_general(of(GENERAL), &strings);
        // Categories consist of words; an odd number of FMMUs is padded.
        sii.fmmus = of(FMMU).iter().copied().filter(|usage| (1..=3).contains(usage)).collect();
        sii.sync_managers = of(SYNC_MANAGER).as_chunks::<8>().0.iter().map(sync_manager).collect();

        for (kind, body) in &categories {
            match *kind {
                OUTPUTS => sii.outputs.extend(pdos(body, &strings)?),
                INPUTS => sii.inputs.extend(pdos(body, &strings)?),
                _ => (),
            }
        }

        sii.clock =
            of(CLOCK).as_chunks::<24>().0.iter().map(|mode| clock_mode(mode, &strings)).collect();
        Ok(sii)
    }

    fn read_general(&mut self, body: &[u8], strings: &[String]) {
        let byte = |at: usize| body.get(at).copied().unwrap_or_default();
        self.order = string(strings, byte(2));
        self.name = string(strings, byte(3));
        self.coe = byte(5);
        self.ports = u16::from_le_bytes([byte(16), byte(17)]);
    }
}

/// Returns types and contents of the categories, up to the end marker or the end.
fn categories(bytes: &[u8]) -> Result<Vec<(u16, &[u8])>, SiiError> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while let Some((head, body)) = rest.split_first_chunk::<4>() {
        let kind = word(head, 0);
        let length = 2 * usize::from(word(head, 2));
        if kind == END {
            break;
        }

        let at = CATEGORIES + bytes.len() - rest.len();
        let (body, after) = body.split_at_checked(length).ok_or(SiiError::Category {
            kind,
            at,
            bytes: length,
            left: body.len(),
        })?;
        found.push((kind, body));
        rest = after;
    }

    Ok(found)
}

/// Returns a text that a device states, in any encoding, as one line: control characters are
/// blanks, as names are printed, and written into a line of a device file.
///
/// ```
/// use onbeat_ethercat::sii::stated_text;
///
/// assert_eq!(stated_text(b"drive\n\x1b[2J"), "drive  [2J");
/// ```
#[must_use]
pub fn stated_text(bytes: &[u8]) -> String {
    let lossy = |_| String::from_utf8_lossy(bytes).into_owned();
    crate::esi::decoded(bytes).unwrap_or_else(lossy).replace(char::is_control, " ")
}

/// Returns all strings up to the first truncated one.
fn strings(body: &[u8]) -> Vec<String> {
    let Some((&count, mut rest)) = body.split_first() else { return Vec::new() };
    let mut found = Vec::new();
    for _ in 0..count {
        let Some((&length, after)) = rest.split_first() else { break };
        let Some((text, after)) = after.split_at_checked(usize::from(length)) else { break };
        found.push(stated_text(text));
        rest = after;
    }

    found
}

fn string(strings: &[String], number: u8) -> String {
    usize::from(number)
        .checked_sub(1)
        .and_then(|place| strings.get(place))
        .cloned()
        .unwrap_or_default()
}

fn sync_manager(bytes: &[u8; 8]) -> SyncManagerEntry {
    let [.., control, _, enable, usage] = *bytes;
    let (start, length) = (word(bytes, 0), word(bytes, 2));
    SyncManagerEntry { start, length, control, usage, enabled: enable & 1 != 0 }
}

fn pdos(body: &[u8], strings: &[String]) -> Result<Vec<SiiPdo>, SiiError> {
    let mut found = Vec::new();
    let mut rest = body;
    while let Some((head, after)) = rest.split_first_chunk::<8>() {
        let index = word(head, 0);
        let count = head[2];
        let Some((entries, after)) = after.split_at_checked(8 * usize::from(count)) else {
            return Err(SiiError::Pdo { index, entries: count, room: after.len() / 8 });
        };
        let entry = |bytes: &[u8; 8]| SiiEntry {
            index: word(bytes, 0),
            entry: bytes[2],
            name: string(strings, bytes[3]),
            data_type: bytes[4],
            bits: bytes[5],
        };

        found.push(SiiPdo {
            index,
            sync_manager: (head[3] != 0xff).then_some(head[3]),
            flags: word(head, 6),
            name: string(strings, head[5]),
            entries: entries.as_chunks::<8>().0.iter().map(entry).collect(),
        });

        rest = after;
    }

    Ok(found)
}

fn clock_mode(bytes: &[u8; 24], strings: &[String]) -> DcMode {
    let factor = |at| i32::from(word(bytes, at) as i16);
    let shift = |at| i64::from(long(bytes, at) as i32);
    let pulses = Sync0 {
        period_ns: Some(long(bytes, 0)).filter(|ns| *ns > 0),
        factor: factor(16),
        activation: word(bytes, 14),
        shift_ns: Some(shift(4)),
        shift_factor: 0,
        sync1: Sync1 { factor: factor(12), shift_ns: shift(8), ..Sync1::default() },
    };
    DcMode { name: string(strings, bytes[18]), pulses, ..DcMode::default() }
}

fn long(bytes: &[u8], at: usize) -> u32 {
    u32::from(word(bytes, at)) | u32::from(word(bytes, at + 2)) << 16
}

/// Returns the checksum of the configuration area: polynomial x^8 + x^2 + x + 1, initial value 0xff
/// (ETG.1000.6).
#[must_use]
pub fn checksum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0xff, |sum, byte| {
        (0..8)
            .fold(sum ^ byte, |sum: u8, _| if sum & 0x80 == 0 { sum << 1 } else { sum << 1 ^ 0x07 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An EEPROM with only these categories.
    fn image(categories: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; CATEGORIES];
        bytes[14] = checksum(&bytes[..14]);
        bytes.extend_from_slice(categories);
        bytes
    }

    #[test]
    fn invalid_images_are_rejected() {
        assert_eq!(Sii::decode(&[0; 127]), Err(SiiError::Short { bytes: 127 }));
        assert_eq!(Sii::decode(&[0xff; 256]), Err(SiiError::Blank));
        let mut damaged = image(&[0xff; 4]);
        damaged[3] = 1;

        assert!(matches!(Sii::decode(&damaged), Err(SiiError::Checksum { .. })));
        damaged[14..16].copy_from_slice(&NOT_CHECKED);
        assert!(Sii::decode(&damaged).is_ok(), "controllers do not check it either");
        let hex = b":10000000050C0344E80300000000000000004B0072\r\n".repeat(4);
        assert_eq!(Sii::decode(&hex), Err(SiiError::Text));
        let cut = SiiError::Category { kind: 41, at: 0x80, bytes: 16, left: 2 };
        assert_eq!(Sii::decode(&image(&[41, 0, 8, 0, 0, 0])), Err(cut));
        let torn = SiiError::Pdo { index: 0x1a00, entries: 2, room: 1 };
        let pdo = [0x00, 0x1a, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0];

        assert_eq!(Sii::decode(&image(&[&[50, 0, 8, 0], &pdo[..]].concat())), Err(torn));
    }

    #[test]
    fn unknown_categories_are_skipped_and_missing_strings_are_empty() {
        let bytes =
            image(&[0x00, 0x08, 1, 0, 9, 9, 30, 0, 2, 0, 0, 0, 7, 0, 0xff, 0xff, 0xff, 0xff]);
        let sii = Sii::decode(&bytes).unwrap();
        assert_eq!((sii.order.as_str(), sii.sync_managers.len()), ("", 0));
    }

    #[test]
    fn a_clock_mode_has_the_factors_of_its_cycles() {
        let times = [0, 0, 0, 0, 0xf0, 0xd8, 0xff, 0xff, 1, 0, 0, 0];
        let words = [0xff, 0xff, 0x30, 0x07, 0xfc, 0xff, 0, 0, 0, 0, 0, 0];
        let bytes = image(&[&[60, 0, 12, 0], &times[..], &words].concat());
        let pulses = Sync0 {
            period_ns: None,
            factor: -4,
            activation: 0x0730,
            shift_ns: Some(-10_000),
            shift_factor: 0,
            sync1: Sync1 { factor: -1, shift_ns: 1, ..Sync1::default() },
        };
        let mode = DcMode { pulses, ..DcMode::default() };
        assert_eq!(Sii::decode(&bytes).unwrap().clock, [mode]);
    }

    #[test]
    fn strings_in_an_older_encoding_are_read() {
        let bytes = image(&[10, 0, 2, 0, 1, 2, 0xb5, b'm', 30, 0, 2, 0, 0, 0, 1, 0]);
        assert_eq!(Sii::decode(&bytes).unwrap().order, "\u{b5}m");
    }

    #[test]
    fn a_name_is_one_line_without_control_characters() {
        let text = [1, 6, b'a', b'\n', b'[', b'k', 0x1b, b'c'];
        let bytes = image(&[&[10, 0, 4, 0], &text[..], &[30, 0, 2, 0, 0, 0, 1, 0]].concat());
        assert_eq!(Sii::decode(&bytes).unwrap().order, "a [k c");
    }

    #[test]
    fn the_checksum_is_the_one_of_the_standard() {
        // CRC-8 of "123456789" with this polynomial and start value is 0xfb in the catalogue of
        // parametrised CRCs.
        assert_eq!(checksum(b"123456789"), 0xfb);
    }
}
