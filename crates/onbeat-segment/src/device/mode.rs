//! Modes of operation of a drive (CiA 402, object 0x6060).

pub(crate) const PP: i8 = 1;
pub(crate) const PV: i8 = 3;
pub(crate) const PT: i8 = 4;
pub(crate) const HM: i8 = 6;
pub(crate) const CSP: i8 = 8;
pub(crate) const CSV: i8 = 9;
pub(crate) const CST: i8 = 10;
/// Object 0x6502: the modes above, as bits.
pub(crate) const SUPPORTED: u32 = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9;

pub(crate) fn is_supported(mode: i8) -> bool {
    (1..=32).contains(&mode) && SUPPORTED >> (mode - 1) & 1 != 0
}
