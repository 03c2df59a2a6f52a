//! Messages from JSON, as scripts write them.

use serde_json::{Map, Value as Json};

use super::definition::{Constant, Definition, Field, FieldShape, FieldType, Primitive};
use super::error::MessageError;
use super::generate::{Plain, plain, unquoted};
use super::type_set::TypeSet;
use super::value::Value;

/// Names of members listed in an error.
const MOST_LISTED: usize = 12;

impl TypeSet {
    /// Returns the message that an object of JSON describes. Missing fields have the default of the definition, or are 0 or
    /// empty.
    ///
    /// Octave and MATLAB write a list of one element as the element, and a number that is not finite as null; both are
    /// taken for what they were.
    ///
    /// # Errors
    /// [`MessageError::Value`] for a value that its field cannot hold, [`MessageError::NoMember`] for one without a field.
    ///
    /// ```
    /// use onbeat_message::TypeSet;
    ///
    /// let types = TypeSet::from_text("demo/msg/Plan", "string name\nfloat64[] speeds\n")?;
    /// let json = serde_json::json!({ "speeds": [1, 2.5] });
    /// let plan = types.value_from_json("demo/msg/Plan", &json)?;
    /// assert_eq!(plan.to_json(), serde_json::json!({ "name": "", "speeds": [1.0, 2.5] }));
    /// # Ok::<(), onbeat_message::MessageError>(())
    /// ```
    pub fn value_from_json(&self, name: &str, json: &Json) -> Result<Value, MessageError> {
        self.used(name)?;
        self.message_from_json(self.get(name, "this program")?, json)
    }

    fn message_from_json(&self, of: &Definition, json: &Json) -> Result<Value, MessageError> {
        let Json::Object(members) = json else {
            return Err(MessageError::Value {
                type_name: of.name.clone(),
                field: "the message".to_owned(),
                wanted: "object of JSON".to_owned(),
            });
        };
        let is_field = |name: &&String| of.fields.iter().any(|field| field.name == **name);
        if let Some(member) = members.keys().find(|name| !is_field(name)) {
            let names = of.fields.iter().map(|field| field.name.as_str()).take(MOST_LISTED);
            return Err(MessageError::NoMember {
                type_name: of.name.clone(),
                member: member.clone(),
                fields: names.collect::<Vec<_>>().join(", "),
            });
        }
        let value = |field: &Field| {
            let value = match members.get(&field.name) {
                Some(json) => self.field_from_json(of, field, json)?,
                None => self.zero(of, field)?,
            };
            Ok((field.name.clone(), value))
        };
        Ok(Value::Message(of.fields.iter().map(value).collect::<Result<_, MessageError>>()?))
    }

    fn field_from_json(
        &self,
        of: &Definition,
        field: &Field,
        json: &Json,
    ) -> Result<Value, MessageError> {
        let one = |json: &Json| match &field.element {
            FieldType::Primitive(primitive) => {
                number(*primitive, json).ok_or_else(|| wrong(of, field))
            }
            FieldType::Text(_) | FieldType::WideText(_) => {
                let text = json.as_str().ok_or_else(|| wrong(of, field))?;
                Ok(Value::Text(text.as_bytes().to_vec()))
            }
            FieldType::Message(name) => self.message_from_json(self.get(name, &of.name)?, json),
        };
        match (field.shape, json) {
            (FieldShape::Single, json) => one(json),
            (_, Json::Array(elements)) => {
                let count = elements.len();
                let fits = match field.shape {
                    FieldShape::Array(wanted) => count == wanted,
                    FieldShape::Bounded(most) => count <= most,
                    FieldShape::Single | FieldShape::Sequence => true,
                };
                if !fits {
                    return Err(wrong(of, field));
                }
                Ok(Value::List(elements.iter().map(one).collect::<Result<_, _>>()?))
            }
            (FieldShape::Array(wanted), _) if wanted != 1 => Err(wrong(of, field)),
            (_, json) => Ok(Value::List(vec![one(json)?])),
        }
    }

    fn zero(&self, of: &Definition, field: &Field) -> Result<Value, MessageError> {
        if let Some(stated) = default_of(field) {
            return Ok(stated);
        }
        let one = || match &field.element {
            FieldType::Primitive(primitive) => {
                number(*primitive, &Json::from(0)).ok_or_else(|| wrong(of, field))
            }
            FieldType::Text(_) | FieldType::WideText(_) => Ok(Value::Text(Vec::new())),
            FieldType::Message(name) => {
                self.message_from_json(self.get(name, &of.name)?, &Map::new().into())
            }
        };
        match field.shape {
            FieldShape::Single => one(),
            FieldShape::Array(count) => {
                Ok(Value::List((0..count).map(|_| one()).collect::<Result<_, _>>()?))
            }
            FieldShape::Bounded(_) | FieldShape::Sequence => Ok(Value::List(Vec::new())),
        }
    }
}

/// The default value that a definition states, if its field can hold it.
pub(super) fn default_of(field: &Field) -> Option<Value> {
    let one = |text: &str| -> Option<Value> {
        match &field.element {
            FieldType::Primitive(primitive) => {
                let (name, value) = (String::new(), text.to_owned());
                let json = match plain(&Constant { name, primitive: *primitive, value }) {
                    Plain::Flag(on) => Json::from(on),
                    Plain::Number(digits) => serde_json::from_str(&digits).ok()?,
                    Plain::Text(_) => return None,
                };
                number(*primitive, &json)
            }
            FieldType::Text(most) | FieldType::WideText(most) => {
                let text = unquoted(text);
                let is_wide = matches!(field.element, FieldType::WideText(_));
                let length = if is_wide { text.encode_utf16().count() } else { text.len() };
                (*most == 0 || length <= *most).then(|| Value::Text(text.into_bytes()))
            }
            FieldType::Message(_) => None,
        }
    };
    let count = match field.shape {
        FieldShape::Single if field.default.is_empty() => return None,
        FieldShape::Single => return one(&field.default),
        FieldShape::Array(count) => count..=count,
        FieldShape::Bounded(most) => 0..=most,
        FieldShape::Sequence => 0..=usize::MAX,
    };
    let list = field.default.strip_prefix('[')?.strip_suffix(']')?;
    let values = elements(list).into_iter().map(one).collect::<Option<Vec<_>>>()?;
    count.contains(&values.len()).then_some(Value::List(values))
}

/// The elements of a list as it is written. A comma in quotation marks divides none.
fn elements(list: &str) -> Vec<&str> {
    let mut quote = None;
    let is_comma = |letter: char| {
        match quote {
            None if letter == ',' => return true,
            None if letter == '"' || letter == '\'' => quote = Some(letter),
            Some(open) if open == letter => quote = None,
            _ => {}
        }
        false
    };
    list.split(is_comma).map(str::trim).filter(|it| !it.is_empty()).collect()
}

/// The error of a value that its field cannot hold.
pub(super) fn wrong(of: &Definition, field: &Field) -> MessageError {
    let (type_name, field_name) = (of.name.clone(), field.name.clone());
    let element = match &field.element {
        FieldType::Primitive(primitive) => format!("{primitive:?}").to_lowercase(),
        FieldType::Text(0) | FieldType::WideText(0) => "text".to_owned(),
        FieldType::Text(most) => format!("text of at most {most} bytes"),
        FieldType::WideText(most) => format!("text of at most {most} units of UTF-16"),
        FieldType::Message(name) => name.clone(),
    };
    let wanted = match field.shape {
        FieldShape::Single => element,
        FieldShape::Array(count) => format!("list of {count} {element}"),
        FieldShape::Bounded(most) => format!("list of at most {most} {element}"),
        FieldShape::Sequence => format!("list of {element}"),
    };
    MessageError::Value { type_name, field: field_name, wanted }
}

/// A number that its type can hold, without loss for integers.
fn number(primitive: Primitive, json: &Json) -> Option<Value> {
    let float = || if json.is_null() { Some(f64::NAN) } else { json.as_f64() };
    // Scripts write 3 as 3.0.
    let whole = || {
        let float = json.as_f64().filter(|it| it.fract() == 0.0 && it.abs() < 9e15)?;
        Some(float as i64)
    };
    let signed = || json.as_i64().or_else(whole);
    let unsigned = || json.as_u64().or_else(|| u64::try_from(whole()?).ok());
    let int = |low: i64, high: i64| signed().filter(|it| (low..=high).contains(it)).map(Value::Int);
    let uint = |high: u64| unsigned().filter(|it| *it <= high).map(Value::Uint);
    match primitive {
        Primitive::Bool => {
            let of_number = || unsigned().filter(|it| *it <= 1).map(|it| it == 1);
            json.as_bool().or_else(of_number).map(Value::Bool)
        }
        Primitive::Byte | Primitive::Char | Primitive::Uint8 => uint(u8::MAX.into()),
        Primitive::Uint16 => uint(u16::MAX.into()),
        Primitive::Uint32 => uint(u32::MAX.into()),
        Primitive::Uint64 => uint(u64::MAX),
        Primitive::Int8 => int(i8::MIN.into(), i8::MAX.into()),
        Primitive::Int16 => int(i16::MIN.into(), i16::MAX.into()),
        Primitive::Int32 => int(i32::MIN.into(), i32::MAX.into()),
        Primitive::Int64 => int(i64::MIN, i64::MAX),
        Primitive::Float32 => {
            let narrow = float()? as f32;
            // NaN is null; only what is too large for it becomes infinite.
            (!narrow.is_infinite()).then_some(Value::Float32(narrow))
        }
        Primitive::Float64 => float().map(Value::Float64),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_are_not_given_have_their_defaults() {
        let text = "float64 w 1\nint8 low -3\nbool on true\nstring name \"a, b\"\nuint8[] list [1, 0x2]\n\
                    string[2] two ['x', \"y,z\"]\nuint8 wrong 300\nint32[2] short [1]\nstring<=2 long abc\n\
                    wstring<=2 wide 'äö'\nInner inner\n===\nMSG: demo/Inner\nfloat32 f .5\n";
        let types = TypeSet::from_text("demo/msg/A", text).unwrap();
        let seen = types.value_from_json("demo/msg/A", &json!({ "low": 4 })).unwrap().to_json();
        let wanted = json!({
            "w": 1.0, "low": 4, "on": true, "name": "a, b", "list": [1, 2], "two": ["x", "y,z"], "wrong": 0,
            "short": [0, 0], "long": "", "wide": "äö", "inner": { "f": 0.5 },
        });
        assert_eq!(seen, wanted);
    }

    #[test]
    fn json_is_taken_as_scripts_write_it_and_nothing_is_lost_in_silence() {
        let text = "uint8 n\nbool on\nint64[] list\nfloat32[2] pair\nInner inner\nstring<=3 name\n\
                    ===\nMSG: demo/Inner\nfloat64 x\n";
        let types = TypeSet::from_text("demo/msg/A", text).unwrap();
        let of = |json: Json| types.value_from_json("demo/msg/A", &json);
        let zero = of(json!({})).unwrap();
        assert_eq!(zero, types.default_value("demo/msg/A").unwrap());

        let given = json!({ "n": 255, "on": 1, "list": 7, "pair": [0.5, 1], "inner": { "x": 2 } });
        let seen = of(given).unwrap().to_json();
        let wanted = json!({
            "n": 255, "on": true, "list": [7], "pair": [0.5, 1.0], "inner": { "x": 2.0 }, "name": "",
        });
        assert_eq!(seen, wanted);
        let encoded =
            |name: &str| types.encode("demo/msg/A", &of(json!({ "name": name })).unwrap());
        assert!(encoded("abc").is_ok());
        let why = encoded("äö").unwrap_err().to_string();
        assert!(why.ends_with("the value of name is not a text of at most 3 bytes"), "{why}");

        for (wrong, names) in [
            (json!({ "n": 256 }), "the value of n is not a uint8"),
            (json!({ "n": 1.5 }), "the value of n"),
            (json!({ "n": -1 }), "the value of n"),
            (json!({ "pair": [1] }), "pair is not a list of 2 float32"),
            (json!({ "pair": [1e39, 1] }), "pair is not a list of 2 float32"),
            (json!({ "inner": 3 }), "object of JSON"),
            (json!({ "inner": { "y": 3 } }), "has no field y; it has x"),
            (json!({ "other": 3 }), "has no field other; it has n, on, list, pair, inner, name"),
            (json!(3), "the value of the message is not an object of JSON"),
        ] {
            let why = of(wrong.clone()).unwrap_err().to_string();
            assert!(why.contains(names), "{wrong}: {why}");
        }
    }
}
