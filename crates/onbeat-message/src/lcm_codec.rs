//! LCM's own encoding (LCM type specification): a fingerprint of 8 bytes, then the members in order,
//! big-endian, without padding. Texts have a length of 32 bits that counts a closing 0; arrays have
//! none, since an earlier member is their length.

use super::cdr::{MOST_DEPTH, number, raw};
use super::definition::full_name;
use super::error::MessageError;
use super::lcm::{LcmDimension, LcmMember, LcmStruct, LcmType, LcmTypes};
use super::value::Value;

const FINGERPRINT_BYTES: usize = 8;
/// What a fingerprint begins with.
const SEED: i64 = 0x1234_5678;

/// Encoder and decoder of one type.
#[derive(Clone, Debug)]
pub struct LcmCodec {
    types: LcmTypes,
    name: String,
    fingerprint: u64,
}

impl LcmCodec {
    /// Prepares encoding and decoding of the type with this name, `PACKAGE/msg/Name`.
    ///
    /// # Errors
    /// As [`LcmTypes::types`].
    pub fn new(types: &LcmTypes, name: &str) -> Result<Self, MessageError> {
        let name = full_name(name)?;
        types.check(&name)?;
        types.types()?.used(&name)?;
        let fingerprint = recursive(types, &name, &mut Vec::new())?;
        Ok(Self { types: types.clone(), name, fingerprint })
    }

    /// Returns the number that a message of this type begins with.
    #[must_use]
    pub const fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Decodes a message. Bytes behind the last member are ignored, as LCM does it.
    ///
    /// # Errors
    /// [`MessageError::Fingerprint`], [`MessageError::Short`], [`MessageError::Value`].
    pub fn decode(&self, bytes: &[u8]) -> Result<Value, MessageError> {
        let found = bytes.first_chunk().map_or(0, |head| u64::from_be_bytes(*head));
        if bytes.len() < FINGERPRINT_BYTES || found != self.fingerprint {
            let type_name = self.name.clone();
            return Err(MessageError::Fingerprint { type_name, found, wanted: self.fingerprint });
        }
        LcmReader { types: &self.types, bytes, at: FINGERPRINT_BYTES, depth: 0 }.read(&self.name)
    }

    /// Encodes a message.
    ///
    /// # Errors
    /// [`MessageError::Value`], also where an array's length is not the value of its member.
    pub fn encode(&self, value: &Value) -> Result<Vec<u8>, MessageError> {
        let mut bytes = self.fingerprint.to_be_bytes().to_vec();
        put_struct(&self.types, &self.name, value, &mut bytes)?;
        Ok(bytes)
    }
}

fn get<'t>(types: &'t LcmTypes, name: &str) -> Result<&'t LcmStruct, MessageError> {
    let undefined =
        || MessageError::Undefined { name: name.to_owned(), user: "an LCM type".to_owned() };
    types.structs.get(name).ok_or_else(undefined)
}

/// A struct's own number and those of its members, rotated by a bit (lcm-gen, `_get_hash_recursive`).
fn recursive(types: &LcmTypes, name: &str, above: &mut Vec<String>) -> Result<u64, MessageError> {
    if above.iter().any(|other| other == name) {
        return Ok(0);
    }

    above.push(name.to_owned());
    let of = get(types, name)?;
    let mut sum = own_number(of).cast_unsigned();
    for member in &of.members {
        if let LcmType::Struct(inner) = &member.of {
            sum = sum.wrapping_add(recursive(types, inner, above)?);
        }
    }
    above.pop();
    Ok(sum.rotate_left(1))
}

fn own_number(of: &LcmStruct) -> i64 {
    of.members.iter().fold(SEED, |number, member| {
        let mut number = mix_text(number, &member.name);
        if let Some(primitive) = member.of.primitive_name() {
            number = mix_text(number, primitive);
        }
        number = mix(number, member.dimensions.len() as u8);
        for dimension in &member.dimensions {
            let (mode, size) = match dimension {
                LcmDimension::Fixed(_, text) => (0, text),
                LcmDimension::Member(name) => (1, name),
            };
            number = mix_text(mix(number, mode), size);
        }
        number
    })
}

/// A step of lcm-gen's hash, whose letters are signed.
fn mix(number: i64, letter: u8) -> i64 {
    ((number << 8) ^ (number >> 55)).wrapping_add(letter.cast_signed().into())
}

fn mix_text(number: i64, text: &str) -> i64 {
    text.bytes().fold(mix(number, text.len() as u8), mix)
}

/// Returns the number of elements of a member, by the members before it.
fn count_of(of: &LcmStruct, member: &LcmMember, before: &[(String, Value)]) -> Option<usize> {
    let one = |size: &LcmDimension| match size {
        LcmDimension::Fixed(count, _) => Some(*count),
        LcmDimension::Member(name) => {
            let field = &of.members.iter().find(|other| other.name == *name)?.field;
            before.iter().find(|(own, _)| own == field).and_then(|(_, value)| match value {
                Value::Int(count) => usize::try_from(*count).ok(),
                _ => None,
            })
        }
    };
    member.dimensions.iter().try_fold(1_usize, |whole, of| whole.checked_mul(one(of)?))
}

fn wrong(of: &str, member: &LcmMember) -> MessageError {
    let one = match &member.of {
        LcmType::Struct(name) => name,
        of => of.primitive_name().unwrap_or_default(),
    };
    let sizes = member.dimensions.iter().map(|of| match of {
        LcmDimension::Fixed(_, size) | LcmDimension::Member(size) => format!("[{size}]"),
    });
    MessageError::Value {
        type_name: of.to_owned(),
        field: member.name.clone(),
        wanted: format!("{one}{}", sizes.collect::<String>()),
    }
}

/// Reads one message.
struct LcmReader<'b> {
    types: &'b LcmTypes,
    bytes: &'b [u8],
    at: usize,
    depth: usize,
}

impl<'b> LcmReader<'b> {
    fn read(&mut self, name: &str) -> Result<Value, MessageError> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return Err(MessageError::Deep { type_name: name.to_owned(), most: MOST_DEPTH });
        }
        let value = self.members(name);
        self.depth -= 1;
        value
    }

    fn members(&mut self, name: &str) -> Result<Value, MessageError> {
        let of = get(self.types, name)?;
        let mut values: Vec<(String, Value)> = Vec::with_capacity(of.members.len());
        for member in &of.members {
            let value = match (&member.dimensions[..], count_of(of, member, &values)) {
                ([], _) => self.element(name, member)?,
                // Each element has at least one byte: a wrong count does not reserve memory.
                (_, Some(count)) if count <= self.bytes.len() - self.at => {
                    let all = (0..count).map(|_| self.element(name, member));
                    Value::List(all.collect::<Result<_, _>>()?)
                }
                _ => return Err(self.short(name, member)),
            };
            values.push((member.field.clone(), value));
        }
        Ok(Value::Message(values))
    }

    fn element(&mut self, of: &str, member: &LcmMember) -> Result<Value, MessageError> {
        match &member.of {
            LcmType::Struct(inner) => self.read(inner),
            LcmType::Number(primitive) => {
                let bytes = self.take(primitive.bytes()).ok_or_else(|| self.short(of, member))?;
                let raw = bytes.iter().fold(0, |whole, byte| whole << 8 | u64::from(*byte));
                Ok(number(*primitive, raw))
            }
            LcmType::Text => {
                let length = self.take(4).ok_or_else(|| self.short(of, member))?;
                let length = length.iter().fold(0, |whole, byte| whole << 8 | usize::from(*byte));
                let bytes = self.take(length).ok_or_else(|| self.short(of, member))?;
                let text = bytes.split_last().map_or(bytes, |(_, text)| text);
                Ok(Value::Text(text.to_vec()))
            }
        }
    }

    fn take(&mut self, bytes: usize) -> Option<&'b [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(bytes)?)?;
        self.at += bytes;
        Some(taken)
    }

    fn short(&self, of: &str, member: &LcmMember) -> MessageError {
        MessageError::Short {
            type_name: of.to_owned(),
            field: member.name.clone(),
            have: self.bytes.len(),
        }
    }
}

fn put_struct(
    types: &LcmTypes,
    name: &str,
    value: &Value,
    bytes: &mut Vec<u8>,
) -> Result<(), MessageError> {
    let of = get(types, name)?;
    let Value::Message(fields) = value else {
        return of.members.first().map_or(Ok(()), |member| Err(wrong(name, member)));
    };
    for member in &of.members {
        let failed = || wrong(name, member);
        let value = value.field(&member.field).ok_or_else(failed)?;
        if member.dimensions.is_empty() {
            put(types, &member.of, value, bytes).ok_or_else(failed)??;
            continue;
        }
        let Value::List(values) = value else { return Err(failed()) };
        if count_of(of, member, fields) != Some(values.len()) {
            return Err(failed());
        }
        for value in values {
            put(types, &member.of, value, bytes).ok_or_else(failed)??;
        }
    }
    Ok(())
}

/// Appends an element; `None` if the value is of another type.
fn put(
    types: &LcmTypes,
    of: &LcmType,
    value: &Value,
    bytes: &mut Vec<u8>,
) -> Option<Result<(), MessageError>> {
    match (of, value) {
        (LcmType::Struct(name), value) => return Some(put_struct(types, name, value, bytes)),
        (LcmType::Text, Value::Text(text)) => {
            bytes.extend(u32::try_from(text.len() + 1).ok()?.to_be_bytes());
            bytes.extend(text);
            bytes.push(0);
        }
        (LcmType::Number(number), value) => {
            bytes.extend(&raw(*number, value)?.to_be_bytes()[8 - number.bytes()..]);
        }
        (LcmType::Text, _) => return None,
    }
    Some(Ok(()))
}
