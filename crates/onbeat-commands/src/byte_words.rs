//! Bytes of messages and registers as people read them.

/// Formats bytes in hexadecimal.
pub fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn number(bytes: &[u8]) -> Option<u64> {
    let mut whole = [0; 8];
    whole.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(u64::from_le_bytes(whole))
}

/// Formats bytes as a number, also signed where that differs, or as text, or as bytes.
pub fn hex_and_text(bytes: &[u8], hex: &str) -> String {
    match (bytes.len(), number(bytes)) {
        (1 | 2 | 4 | 8, Some(unsigned)) => {
            let unused = 64 - 8 * bytes.len() as u32;
            let signed = (unsigned << unused).cast_signed() >> unused;
            let minus = if signed < 0 { format!(" ({signed})") } else { String::new() };
            format!("{unsigned}{minus} 0x{unsigned:x}")
        }
        _ => match std::str::from_utf8(bytes) {
            Ok(text) if !text.is_empty() && !text.chars().any(char::is_control) => {
                format!("\"{text}\" {hex}")
            }
            _ => hex.to_owned(),
        },
    }
}
