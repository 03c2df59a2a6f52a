//! Values of messages whose type is known at run time only.

use serde_json::{Map, Value as Json};

/// A value of a field, or a whole message.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `bool`.
    Bool(bool),
    /// Signed integers.
    Int(i64),
    /// Unsigned integers, `byte` and `char`.
    Uint(u64),
    /// `float32`.
    Float32(f32),
    /// `float64`.
    Float64(f64),
    /// Text; bytes that are not UTF-8 are kept.
    Text(Vec<u8>),
    /// Arrays and sequences.
    List(Vec<Self>),
    /// Fields in order.
    Message(Vec<(String, Self)>),
}

impl Value {
    /// Returns a field of a message.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Self> {
        let Self::Message(fields) = self else { return None };
        fields.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    /// Replaces a field of a message, if it has one of this name.
    pub fn set(&mut self, name: &str, value: Self) {
        if let Self::Message(fields) = self
            && let Some((_, place)) = fields.iter_mut().find(|(own, _)| own == name)
        {
            *place = value;
        }
    }

    /// Converts to JSON. Numbers that are not finite become null.
    #[must_use]
    pub fn to_json(&self) -> Json {
        match self {
            Self::Bool(on) => Json::from(*on),
            Self::Int(number) => Json::from(*number),
            Self::Uint(number) => Json::from(*number),
            // By its shortest text: 0.1 stays 0.1.
            Self::Float32(number) => {
                number.to_string().parse::<f64>().map_or(Json::Null, Json::from)
            }
            Self::Float64(number) => Json::from(*number),
            Self::Text(bytes) => Json::from(String::from_utf8_lossy(bytes)),
            Self::List(values) => values.iter().map(Self::to_json).collect(),
            Self::Message(fields) => {
                let all: Map<String, Json> =
                    fields.iter().map(|(name, value)| (name.clone(), value.to_json())).collect();
                Json::Object(all)
            }
        }
    }
}
