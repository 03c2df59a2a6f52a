//! The part of Thrift's compact protocol that Parquet's footer and page headers are written in:
//! structs, lists, integers and texts (Thrift, `thrift-compact-protocol.md`).

/// Type of a 32-bit integer field.
const I32: u8 = 5;
/// Type of a 64-bit integer field.
const I64: u8 = 6;
/// Type of a text field.
const BINARY: u8 = 8;
/// Type of a list field.
const LIST: u8 = 9;
/// Type of a struct field.
const STRUCT: u8 = 12;

/// Writes one struct, field by field, in rising order of their numbers.
#[derive(Debug, Default)]
pub struct Struct {
    bytes: Vec<u8>,
    last: u8,
}

impl Struct {
    /// A 32-bit integer.
    #[must_use]
    pub fn i32(mut self, field: u8, value: i32) -> Self {
        self.header(field, I32);
        varint(&mut self.bytes, zigzag(i64::from(value)));
        self
    }

    /// A 64-bit integer.
    #[must_use]
    pub fn i64(mut self, field: u8, value: i64) -> Self {
        self.header(field, I64);
        varint(&mut self.bytes, zigzag(value));
        self
    }

    /// A text.
    #[must_use]
    pub fn text(mut self, field: u8, text: &str) -> Self {
        self.header(field, BINARY);
        push_text(&mut self.bytes, text);
        self
    }

    /// A struct.
    #[must_use]
    pub fn nested(mut self, field: u8, inner: Self) -> Self {
        self.header(field, STRUCT);
        self.bytes.extend(inner.finish());
        self
    }

    /// A list of structs.
    #[must_use]
    pub fn structs(mut self, field: u8, all: Vec<Self>) -> Self {
        self.list(field, STRUCT, all.len());
        for one in all {
            self.bytes.extend(one.finish());
        }
        self
    }

    /// A list of 32-bit integers.
    #[must_use]
    pub fn integers(mut self, field: u8, all: &[i32]) -> Self {
        self.list(field, I32, all.len());
        for &one in all {
            varint(&mut self.bytes, zigzag(i64::from(one)));
        }
        self
    }

    /// A list of texts.
    #[must_use]
    pub fn texts(mut self, field: u8, all: &[&str]) -> Self {
        self.list(field, BINARY, all.len());
        for one in all {
            push_text(&mut self.bytes, one);
        }
        self
    }

    /// The bytes, with the stop field.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }

    /// Fields less than 16 apart are encoded by their distance.
    fn header(&mut self, field: u8, kind: u8) {
        let apart = field.saturating_sub(self.last).min(15);
        self.bytes.push(apart << 4 | kind);
        self.last = field;
    }

    fn list(&mut self, field: u8, kind: u8, length: usize) {
        self.header(field, LIST);
        if length < 15 {
            self.bytes.push((length as u8) << 4 | kind);
        } else {
            self.bytes.push(0xf0 | kind);
            varint(&mut self.bytes, length as u64);
        }
    }
}

fn push_text(bytes: &mut Vec<u8>, text: &str) {
    varint(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// LEB128: seven bits a byte, the lowest first.
pub(super) fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_struct_is_its_fields_and_a_stop() {
        let bytes = Struct::default().i32(1, 1).i64(3, -2).text(4, "ab").integers(5, &[0]).finish();
        assert_eq!(bytes, [0x15, 2, 0x26, 3, 0x18, 2, b'a', b'b', 0x19, 0x15, 0, 0]);
    }

    #[test]
    fn long_lists_have_their_length_after_the_type() {
        let bytes = Struct::default().integers(1, &[0; 200]).finish();
        assert_eq!(&bytes[..4], [0x19, 0xf5, 0xc8, 0x01]);
    }
}
