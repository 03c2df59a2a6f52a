//! Random messages of any type, the same in every run.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use onbeat_message::{Field, FieldShape, FieldType, Primitive, TypeSet, Value, own};

/// Texts with one, two, three bytes a letter.
const LETTERS: [char; 11] = ['a', 'b', 'c', ' ', 'x', 'y', 'z', 'ä', 'ß', '€', '0'];
/// Most elements of a sequence without a bound.
const MOST_ELEMENTS: usize = 6;

/// Returns the number of messages of each type: `ONBEAT_INTEROP_MESSAGES`, or 1,000, which take
/// seconds.
pub(crate) fn count() -> usize {
    let wanted = std::env::var("ONBEAT_INTEROP_MESSAGES").ok();
    wanted.map_or(1000, |count| count.parse().unwrap())
}

/// The types of onbeat and those of `tests/messages`.
pub(crate) fn types() -> TypeSet {
    let mut types = own::types();
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/messages/msg/demo_msgs/msg");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("demo_msgs/msg/{}", path.file_stem().unwrap().to_str().unwrap());
        types.add(&name, &std::fs::read_to_string(path).unwrap()).unwrap();
    }
    types
}

/// Messages of one type, encoded.
pub(crate) fn encoded(types: &TypeSet, name: &str, count: usize) -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(name.len() as u64);
    let one = |_| types.encode(name, &message(types, name, &mut random)).unwrap();
    (0..count).map(one).collect()
}

fn message(types: &TypeSet, name: &str, random: &mut fastrand::Rng) -> Value {
    let fields = types.definition(name).unwrap().fields.iter();
    Value::Message(fields.map(|it| (it.name.clone(), value(types, it, random))).collect())
}

fn value(types: &TypeSet, field: &Field, random: &mut fastrand::Rng) -> Value {
    let count = match field.shape {
        FieldShape::Single => return element(types, &field.element, random),
        FieldShape::Array(count) => count,
        FieldShape::Bounded(most) => random.usize(0..=most),
        FieldShape::Sequence => random.usize(0..=MOST_ELEMENTS),
    };
    Value::List((0..count).map(|_| element(types, &field.element, random)).collect())
}

fn element(types: &TypeSet, of: &FieldType, random: &mut fastrand::Rng) -> Value {
    match of {
        FieldType::Message(name) => message(types, name, random),
        FieldType::Text(most) | FieldType::WideText(most) => {
            let letters = random.usize(0..30);
            let mut text: String =
                (0..letters).map(|_| *random.choice(&LETTERS).unwrap()).collect();
            while *most > 0 && text.len() > *most {
                text.pop();
            }
            Value::Text(text.into_bytes())
        }
        FieldType::Primitive(primitive) => number(*primitive, random),
    }
}

fn number(of: Primitive, random: &mut fastrand::Rng) -> Value {
    let special = [0.0, -0.0, 1.5, -1e30, 1e-40, f64::INFINITY];
    let real = match random.u8(0..5) {
        0 => *random.choice(&special).unwrap(),
        _ => (random.f64() - 0.5) * 2e3,
    };
    // The least and the greatest number are among them.
    let any = random.u64(..);
    let bits = *random.choice(&[0, u64::MAX, 1 << 63, u64::MAX >> 1, any]).unwrap();
    let unused = 64 - 8 * of.bytes() as u32;
    match of {
        Primitive::Bool => Value::Bool(random.bool()),
        Primitive::Float32 => Value::Float32(real as f32),
        Primitive::Float64 => Value::Float64(real),
        Primitive::Int8 | Primitive::Int16 | Primitive::Int32 | Primitive::Int64 => {
            Value::Int(bits.cast_signed() >> unused)
        }
        _ => Value::Uint(bits >> unused),
    }
}
