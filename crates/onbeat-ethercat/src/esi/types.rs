//! Names of data types in ESI files (ETG.1020, ETG.2000).

use crate::coe::DataType;

/// Longest value in bytes.
pub(super) const LONGEST_VALUE: u32 = 4096;
/// Type number before that of BIT1; those of BIT2 to BIT16 follow.
const BEFORE_BIT1: u16 = 0x2f;

/// Returns the type with this name; `bits` is the length where the name does not define it.
pub(super) fn kind(name: &str, bits: u32) -> Option<DataType> {
    if bits > 8 * LONGEST_VALUE {
        return None;
    }

    let bits = bits as u16;
    let other = |number, bits| DataType::Other { number, bits };
    let known = match name {
        "BOOL" | "BIT" => DataType::Bool,
        "SINT" => DataType::I8,
        "INT" => DataType::I16,
        "DINT" => DataType::I32,
        "USINT" => DataType::U8,
        "UINT" => DataType::U16,
        "UDINT" => DataType::U32,
        "REAL" => DataType::F32,
        "LREAL" => other(0x11, 64),
        "LINT" => other(0x15, 64),
        "ULINT" => other(0x1b, 64),
        "INT24" => other(0x10, 24),
        "UINT24" => other(0x16, 24),
        "INT40" => other(0x12, 40),
        "INT48" => other(0x13, 48),
        "INT56" => other(0x14, 56),
        "UINT40" => other(0x18, 40),
        "UINT48" => other(0x19, 48),
        "UINT56" => other(0x1a, 56),
        "BYTE" => other(0x1e, 8),
        "WORD" => other(0x1f, 16),
        "DWORD" => other(0x20, 32),
        "BITARR8" => other(0x2d, 8),
        "BITARR16" => other(0x2e, 16),
        "BITARR32" => other(0x2f, 32),
        _ => return by_pattern(name, bits),
    };

    // When a file uses a known name with another length, the length counts.
    if bits == 0 || known.bits() == bits { Some(known) } else { Some(other(known.number(), bits)) }
}

/// Returns types whose name contains their length.
fn by_pattern(name: &str, bits: u16) -> Option<DataType> {
    if let Some(length) = name.strip_prefix("STRING(").and_then(|rest| rest.strip_suffix(')')) {
        let bytes = length.parse().ok().filter(|&bytes| u32::from(bytes) <= LONGEST_VALUE);
        return bytes.map(DataType::Text);
    }

    if let Some(length) = name.strip_prefix("BIT").and_then(|digits| digits.parse::<u16>().ok()) {
        let bits = |length| DataType::Other { number: BEFORE_BIT1 + length, bits: length };
        return Some(length).filter(|length| (1..=16).contains(length)).map(bits);
    }

    let number = if name.starts_with("ARRAY") || name.starts_with("OCTET") { 0x0a } else { 0 };
    (bits > 0).then_some(DataType::Other { number, bits })
}

/// Returns the type of a value of which only the length is known.
pub(super) fn from_length(bits: u16) -> DataType {
    if bits == 1 { DataType::Bool } else { DataType::Other { number: 0, bits } }
}
