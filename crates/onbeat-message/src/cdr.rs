//! CDR, little-endian, version 1: the encoding of ROS 2 (OMG DDSI-RTPS, 10; OMG CORBA 15.3).
//!
//! Four bytes of header, then the fields in order, each aligned to its size, counted from the end
//! of the header. Texts have their length with a closing 0, sequences their number of elements,
//! each in 32 bits. Wide texts have their number of units of UTF-16, and no closing 0; a unit has two bytes, and four in
//! Fast CDR 1, which is read.

use super::definition::{Definition, Definitions, Field, FieldShape, FieldType, Primitive};
use super::error::MessageError;
use super::json_value::wrong;
use super::value::Value;
use super::wide_text;

/// CDR, little-endian; no options.
const HEADER: [u8; 4] = [0, 1, 0, 0];

/// Most messages within each other.
pub(super) const MOST_DEPTH: usize = 128;
/// Longest message of a type whose lists and texts are empty, in bytes: four times the longest record
/// of a channel. Such a message is created with all its fields at 0.
pub(super) const MOST_LEAST_BYTES: usize = 64 << 20;
/// Most elements of a list that memory is taken for before they are read.
const MOST_RESERVED: usize = 1 << 10;

/// Reads one message.
pub(super) struct CdrDecoder<'t> {
    types: &'t Definitions,
    body: &'t [u8],
    at: usize,
    depth: usize,
    type_name: &'t str,
    /// Bytes of a unit of a wide text, and whether one was read.
    unit_bytes: usize,
    has_wide: bool,
}

impl<'t> CdrDecoder<'t> {
    pub(super) fn new(
        types: &'t Definitions,
        type_name: &'t str,
        bytes: &'t [u8],
    ) -> Result<Self, MessageError> {
        match bytes.split_first_chunk() {
            // The last two bytes are options, which readers ignore.
            Some(([0, 1, _, _], body)) => {
                let (unit_bytes, has_wide) = (2, false);
                Ok(Self { types, body, at: 0, depth: 0, type_name, unit_bytes, has_wide })
            }
            _ => {
                let found = bytes[..bytes.len().min(4)].to_vec();
                Err(MessageError::Encoding { type_name: type_name.to_owned(), found })
            }
        }
    }

    /// Reads wide texts as Fast CDR 1 writes them.
    pub(super) const fn with_four_bytes(mut self) -> Self {
        self.unit_bytes = 4;
        self
    }

    /// Returns whether a wide text was read.
    pub(super) const fn has_wide(&self) -> bool {
        self.has_wide
    }

    /// Returns the position behind the last value that was read, in the whole message.
    pub(super) const fn end(&self) -> usize {
        HEADER.len() + self.at
    }

    pub(super) fn message(&mut self, of: &Definition) -> Result<Value, MessageError> {
        // A type that holds a list of its own is as deep as its bytes say.
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            let type_name = self.type_name.to_owned();
            return Err(MessageError::Deep { type_name, most: MOST_DEPTH });
        }
        let value = self.fields(of);
        self.depth -= 1;
        value
    }

    fn fields(&mut self, of: &Definition) -> Result<Value, MessageError> {
        if of.fields.is_empty() {
            // IDL knows no empty structure: a byte stands for it.
            self.take(1, 1, &of.name)?;
        }
        let fields = of.fields.iter().map(|field| Ok((field.name.clone(), self.field(field)?)));
        fields.collect::<Result<_, _>>().map(Value::Message)
    }

    fn field(&mut self, field: &Field) -> Result<Value, MessageError> {
        let count = match field.shape {
            FieldShape::Single => return self.element(field),
            FieldShape::Array(count) => count,
            FieldShape::Bounded(_) | FieldShape::Sequence => self.count(&field.name)?,
        };
        // A count that the bytes cannot hold takes no memory, and one of each nested list not much.
        let least = match &field.element {
            FieldType::Primitive(primitive) => primitive.bytes(),
            FieldType::Text(_) | FieldType::WideText(_) => 4,
            FieldType::Message(_) => 1,
        };
        let left = self.body.len().saturating_sub(self.at);
        if count.saturating_mul(least) > left {
            return Err(self.short(&field.name));
        }
        let mut values = Vec::with_capacity(count.min(MOST_RESERVED));
        for _ in 0..count {
            values.push(self.element(field)?);
        }
        Ok(Value::List(values))
    }

    fn element(&mut self, field: &Field) -> Result<Value, MessageError> {
        match &field.element {
            FieldType::Primitive(primitive) => {
                let bytes = self.take(primitive.bytes(), primitive.bytes(), &field.name)?;
                let raw = bytes.iter().rev().fold(0, |whole, byte| whole << 8 | u64::from(*byte));
                Ok(number(*primitive, raw))
            }
            FieldType::Text(_) => {
                let length = self.count(&field.name)?;
                let bytes = self.take(length, 1, &field.name)?;
                // Some writers send an empty text without its closing 0.
                let text = bytes.split_last().map_or(bytes, |(_, text)| text);
                Ok(Value::Text(text.to_vec()))
            }
            FieldType::WideText(_) => {
                self.has_wide = true;
                let count = self.count(&field.name)?;
                let bytes = self.take(count.saturating_mul(self.unit_bytes), 1, &field.name)?;
                let mut units = bytes.chunks_exact(self.unit_bytes).map(|unit| match unit {
                    [low, high, ..] => u16::from_le_bytes([*low, *high]),
                    _ => 0,
                });
                // Some writers count a closing 0.
                if units.clone().next_back() == Some(0) {
                    units.next_back();
                }
                Ok(Value::Text(wide_text::text(units)))
            }
            FieldType::Message(name) => {
                let inner = self.types.get(name, self.type_name)?;
                self.message(inner)
            }
        }
    }

    fn count(&mut self, field: &str) -> Result<usize, MessageError> {
        let bytes = self.take(4, 4, field)?;
        Ok(bytes.iter().rev().fold(0, |whole, byte| whole << 8 | usize::from(*byte)))
    }

    fn take(&mut self, bytes: usize, align: usize, field: &str) -> Result<&'t [u8], MessageError> {
        let from = self.at.next_multiple_of(align);
        let taken = from.checked_add(bytes).and_then(|end| self.body.get(from..end));
        self.at = from.saturating_add(bytes);
        taken.ok_or_else(|| self.short(field))
    }

    fn short(&self, field: &str) -> MessageError {
        MessageError::Short {
            type_name: self.type_name.to_owned(),
            field: field.to_owned(),
            have: self.body.len() + HEADER.len(),
        }
    }
}

/// Returns the number that has these bits.
pub(super) fn number(primitive: Primitive, raw: u64) -> Value {
    let unused = 64 - 8 * primitive.bytes() as u32;
    match primitive {
        Primitive::Bool => Value::Bool(raw != 0),
        Primitive::Float32 => Value::Float32(f32::from_bits(raw as u32)),
        Primitive::Float64 => Value::Float64(f64::from_bits(raw)),
        Primitive::Int8 | Primitive::Int16 | Primitive::Int32 | Primitive::Int64 => {
            Value::Int((raw << unused).cast_signed() >> unused)
        }
        _ => Value::Uint(raw),
    }
}

/// Writes one message.
pub(super) struct CdrEncoder<'t> {
    types: &'t Definitions,
    bytes: Vec<u8>,
}

impl<'t> CdrEncoder<'t> {
    pub(super) fn new(types: &'t Definitions) -> Self {
        Self { types, bytes: HEADER.to_vec() }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(super) fn message(&mut self, of: &Definition, value: &Value) -> Result<(), MessageError> {
        if of.fields.is_empty() {
            self.put(&[0], 1);
        }
        for field in &of.fields {
            let wrong = || wrong(of, field);
            let value = value.field(&field.name).ok_or_else(wrong)?;
            if field.shape == FieldShape::Single {
                self.element(field, value, &wrong)?;
                continue;
            }

            let Value::List(values) = value else { return Err(wrong()) };
            match field.shape {
                FieldShape::Array(count) if count != values.len() => return Err(wrong()),
                FieldShape::Bounded(most) if values.len() > most => return Err(wrong()),
                FieldShape::Bounded(_) | FieldShape::Sequence => self.count(values.len()),
                FieldShape::Array(_) | FieldShape::Single => {}
            }
            values.iter().try_for_each(|value| self.element(field, value, &wrong))?;
        }
        Ok(())
    }

    fn element(
        &mut self,
        field: &Field,
        value: &Value,
        wrong: &dyn Fn() -> MessageError,
    ) -> Result<(), MessageError> {
        match (&field.element, value) {
            (FieldType::Primitive(primitive), value) => {
                let raw = raw(*primitive, value).ok_or_else(wrong)?;
                self.put(&raw.to_le_bytes()[..primitive.bytes()], primitive.bytes());
            }
            (FieldType::Text(most), Value::Text(text)) if *most == 0 || text.len() <= *most => {
                self.count(text.len() + 1);
                self.bytes.extend(text);
                self.bytes.push(0);
            }
            (FieldType::WideText(most), Value::Text(text)) => {
                let units = wide_text::units(text);
                if *most > 0 && units.len() > *most {
                    return Err(wrong());
                }
                self.count(units.len());
                self.bytes.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
            }
            (FieldType::Message(name), value) => {
                let inner = self.types.get(name, name)?;
                self.message(inner, value)?;
            }
            (FieldType::Text(_) | FieldType::WideText(_), _) => return Err(wrong()),
        }
        Ok(())
    }

    fn count(&mut self, count: usize) {
        self.put(&(count as u32).to_le_bytes(), 4);
    }

    fn put(&mut self, bytes: &[u8], align: usize) {
        let body = self.bytes.len() - HEADER.len();
        self.bytes.resize(HEADER.len() + body.next_multiple_of(align), 0);
        self.bytes.extend(bytes);
    }
}

/// Returns the bits of a number; `None` for another type or a value beyond its range.
pub(super) fn raw(primitive: Primitive, value: &Value) -> Option<u64> {
    let bits = 8 * primitive.bytes() as u32;
    match (primitive, value) {
        (Primitive::Bool, Value::Bool(on)) => Some(u64::from(*on)),
        (Primitive::Float32, Value::Float32(number)) => Some(u64::from(number.to_bits())),
        (Primitive::Float64, Value::Float64(number)) => Some(number.to_bits()),
        (
            Primitive::Int8 | Primitive::Int16 | Primitive::Int32 | Primitive::Int64,
            Value::Int(number),
        ) => {
            let unused = 64 - bits;
            (number << unused >> unused == *number).then_some(number.cast_unsigned())
        }
        (
            Primitive::Byte
            | Primitive::Char
            | Primitive::Uint8
            | Primitive::Uint16
            | Primitive::Uint32
            | Primitive::Uint64,
            Value::Uint(number),
        ) => (number.checked_shr(bits).unwrap_or(0) == 0).then_some(*number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::type_set::TypeSet;
    use proptest::prelude::*;

    fn types() -> TypeSet {
        let text = "bool on\nint16 low\nuint64 big\nstring<=4 word\nfloat32[<=2] few\nInner[] all\nEmpty none\n\
                    ===\nMSG: demo/Inner\nint8 a\nfloat64 b\n===\nMSG: demo/Empty\n";
        TypeSet::from_text("demo/All", text).unwrap()
    }

    #[test]
    fn fields_are_aligned_from_the_end_of_the_header() {
        let types = types();
        let mut value = types.default_value("demo/All").unwrap();
        value.set("low", Value::Int(-2));
        value.set("word", Value::Text(b"abc".to_vec()));
        value.set("few", Value::List(vec![Value::Float32(1.0)]));
        let bytes = types.encode("demo/All", &value).unwrap();
        let wanted: Vec<u8> = [
            &[0, 1, 0, 0][..],
            &[0, 0, 0xfe, 0xff, 0, 0, 0, 0],
            &[0; 8],
            &[4, 0, 0, 0, b'a', b'b', b'c', 0],
            &[1, 0, 0, 0, 0, 0, 0x80, 0x3f],
            &[0, 0, 0, 0],
            &[0],
        ]
        .concat();
        assert_eq!(bytes, wanted);
        assert_eq!(types.value("demo/All", &bytes).unwrap(), value);
    }

    #[test]
    fn values_that_do_not_fit_are_refused_by_the_name_of_their_field() {
        let types = types();
        let zero = types.default_value("demo/All").unwrap();
        for (field, wrong) in [
            ("on", Value::Uint(1)),
            ("low", Value::Int(40_000)),
            ("big", Value::Int(1)),
            ("word", Value::Text(b"abcde".to_vec())),
            ("few", Value::List(vec![Value::Float32(0.0); 3])),
            ("all", Value::Bool(true)),
        ] {
            let mut value = zero.clone();
            value.set(field, wrong);
            let why = types.encode("demo/All", &value).unwrap_err().to_string();
            assert!(why.starts_with(&format!("demo/msg/All: the value of {field} ")), "{why}");
        }
    }

    #[test]
    fn bytes_of_another_encoding_or_of_a_part_are_refused() {
        let types = types();
        let why = |bytes: &[u8]| types.value("demo/All", bytes).unwrap_err().to_string();
        assert!(why(&[0, 0, 0, 0]).contains("begins with [00, 00, 00, 00]"));
        assert_eq!(why(&[0, 1, 0, 0, 1]), "demo/All: 5 bytes end within the field low");
        let endless = [&[0, 1, 0, 0][..], &[0; 16], &[0xff; 4]].concat();
        assert!(why(&endless).ends_with("end within the field word"));
        let many = [&[0, 1, 0, 0][..], &[0; 20], &[3, 0, 0, 0], &[0; 8]].concat();
        assert!(why(&many).ends_with("end within the field few"));
    }

    /// As Fast CDR 2 and 1 write them, the second one with four bytes for each unit.
    #[test]
    fn wide_texts_are_units_of_utf_16_of_two_bytes_or_of_four() {
        let types =
            TypeSet::from_text("demo/Wide", "wstring<=4 w\nuint8 n\nwstring[] more\n").unwrap();
        let mut value = types.default_value("demo/Wide").unwrap();
        value.set("w", Value::Text("hä🤖".into()));
        value.set("n", Value::Uint(7));
        value.set("more", Value::List(vec![Value::Text(Vec::new()), Value::Text("b".into())]));
        let bytes = types.encode("demo/Wide", &value).unwrap();
        let two = [
            &[0, 1, 0, 0, 4, 0, 0, 0][..],
            &[b'h', 0, 0xe4, 0, 0x3e, 0xd8, 0x16, 0xdd, 7, 0, 0, 0],
            &[2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, b'b', 0],
        ];
        assert_eq!(bytes, two.concat());
        let four = [
            &[0, 1, 0, 0, 4, 0, 0, 0][..],
            &[b'h', 0, 0, 0, 0xe4, 0, 0, 0, 0x3e, 0xd8, 0, 0, 0x16, 0xdd, 0, 0, 7, 0, 0, 0],
            &[2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, b'b', 0, 0, 0],
        ];
        for bytes in [bytes, four.concat()] {
            assert_eq!(types.value("demo/Wide", &bytes).unwrap(), value);
            assert_eq!(types.encoded_bytes("demo/Wide", &bytes).unwrap(), bytes.len());
        }
        value.set("w", Value::Text("abcde".into()));
        assert!(types.encode("demo/Wide", &value).is_err());
        let endless = [&[0, 1, 0, 0][..], &[0xff; 4], &[0; 8]].concat();
        assert!(types.value("demo/Wide", &endless).is_err());
    }

    proptest! {
        /// Whatever bytes arrive, decoding ends, and what it accepts is a value of the type.
        #[test]
        fn any_bytes_are_decoded_or_refused(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let types = types();
            let bytes = [&[0, 1, 0, 0][..], &body].concat();
            if let Ok(value) = types.value("demo/All", &bytes) {
                let _ = value.to_json();
            }
        }
    }
}
