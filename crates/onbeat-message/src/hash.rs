//! The hash of a type as ROS 2 computes it: SHA-256 over a description in JSON (REP 2016, RIHS01).

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::definition::{Definition, Field, FieldShape, FieldType, Primitive};

/// Distances of the numbers of types for fields with several values (`type_description_interfaces`,
/// `FieldType.msg`).
const OF_ARRAY: u32 = 48;
const OF_BOUNDED: u32 = 96;
const OF_SEQUENCE: u32 = 144;
/// The number of a `char` of IDL. In `.msg`, a char is a number without sign.
const CHAR_OF_IDL: u32 = 13;

/// Returns the hash of a type, given with those it uses, which are in the order of their names.
pub(super) fn rihs01(types: &[&Definition]) -> [u8; 32] {
    let mut described = types.iter().map(|definition| described(definition));
    let own = described.next().unwrap_or_default();
    let others: Vec<String> = described.collect();
    let text = format!(
        "{{\"type_description\": {own}, \"referenced_type_descriptions\": [{}]}}",
        others.join(", ")
    );
    Sha256::digest(text.as_bytes()).into()
}

fn described(of: &Definition) -> String {
    let empty = Field {
        name: "structure_needs_at_least_one_member".to_owned(),
        element: FieldType::Primitive(Primitive::Uint8),
        shape: FieldShape::Single,
        default: String::new(),
        comment: String::new(),
        of_idl: None,
    };
    let fields = if of.fields.is_empty() { std::slice::from_ref(&empty) } else { &of.fields };

    let mut text = format!("{{\"type_name\": \"{}\", \"fields\": [", of.name);
    for (place, field) in fields.iter().enumerate() {
        let comma = if place > 0 { ", " } else { "" };
        let (number, text_bytes, nested) = match &field.element {
            FieldType::Primitive(primitive) => (type_number(*primitive), 0, ""),
            FieldType::Text(0) => (17, 0, ""),
            FieldType::Text(most) => (21, *most, ""),
            FieldType::WideText(0) => (18, 0, ""),
            FieldType::WideText(most) => (22, *most, ""),
            FieldType::Message(name) => (1, 0, name.as_str()),
        };
        let (name, number) = match &field.of_idl {
            Some((name, true)) => (name, CHAR_OF_IDL),
            Some((name, false)) => (name, number),
            None => (&field.name, number),
        };
        let (distance, capacity) = match field.shape {
            FieldShape::Single => (0, 0),
            FieldShape::Array(count) => (OF_ARRAY, count),
            FieldShape::Bounded(most) => (OF_BOUNDED, most),
            FieldShape::Sequence => (OF_SEQUENCE, 0),
        };
        let _ = write!(
            text,
            "{comma}{{\"name\": \"{name}\", \"type\": {{\"type_id\": {}, \"capacity\": {capacity}, \
             \"string_capacity\": {text_bytes}, \"nested_type_name\": \"{nested}\"}}}}",
            number + distance
        );
    }

    text.push_str("]}");
    text
}

const fn type_number(primitive: Primitive) -> u32 {
    match primitive {
        Primitive::Int8 => 2,
        Primitive::Uint8 | Primitive::Char => 3,
        Primitive::Int16 => 4,
        Primitive::Uint16 => 5,
        Primitive::Int32 => 6,
        Primitive::Uint32 => 7,
        Primitive::Int64 => 8,
        Primitive::Uint64 => 9,
        Primitive::Float32 => 10,
        Primitive::Float64 => 11,
        Primitive::Bool => 15,
        Primitive::Byte => 16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As in the code that ROS 2 generates for `std_msgs` (Jazzy).
    #[test]
    fn hashes_are_those_that_ros_2_has_published() {
        for (field, name, known) in [
            (
                "char data",
                "std_msgs/msg/Char",
                "3ad2d04dd29ba19d04b16659afa3ccaedd691914b02a64e82e252f2fa6a586a9",
            ),
            (
                "byte data",
                "std_msgs/msg/Byte",
                "41e1a3345f73fe93ede006da826a6ee274af23dd4653976ff249b0f44e3e798f",
            ),
            (
                "uint8 data",
                "std_msgs/msg/UInt8",
                "6138bd83d8c3569cb80a667db03cfc1629f529fee79d944c39c34e352e72f010",
            ),
        ] {
            let definition = Definition::parse(name, field).unwrap();
            let hash = rihs01(&[&definition]);
            let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, known, "{name}");
        }
    }

    /// By `ros2_pyterfaces` 0.3.0, from the description of the type in JSON.
    #[test]
    fn hashes_of_wide_texts_are_those_of_their_descriptions() {
        let few =
            "wstring one\nwstring<=5 short\nwstring[3] three\nwstring<=4[<=2] few\nwstring[] any\n";
        for (fields, name, known) in [
            (
                "wstring data",
                "example_interfaces/msg/WString",
                "32033e06d9dfe5468c5d6e1dc8b7a23c8910bad071cfd4e151a951d580e68dd8",
            ),
            (
                few,
                "demo_msgs/msg/Wide",
                "a4a699a86a4faba2e60ac102edc1a434d8e9804a309255eb7925739c9271a4df",
            ),
        ] {
            let definition = Definition::parse(name, fields).unwrap();
            let hash = rihs01(&[&definition]);
            let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, known, "{name}");
        }
    }
}
