//! Messages from JSON, for programs that write text.

use serde_json::Value as Json;

use super::definition::{Definition, Field, FieldShape, FieldType, Primitive};
use super::error::MessageError;
use super::type_set::TypeSet;
use super::value::Value;

impl TypeSet {
    /// Returns the message of a JSON object. Fields that it does not name are 0 or empty; `null` for a
    /// floating-point number is NaN, since JSON has none; one element may stand for a list of one.
    ///
    /// ```
    /// use onbeat_message::{TypeSet, Value};
    ///
    /// let types = TypeSet::from_text("demo/Point", "float64 x\nfloat64 y\n")?;
    /// let point = types.value_of_json("demo/Point", &serde_json::json!({ "x": 1.5 }))?;
    /// assert_eq!(point.field("x"), Some(&Value::Float64(1.5)));
    /// assert_eq!(point.field("y"), Some(&Value::Float64(0.0)));
    /// # Ok::<(), onbeat_message::MessageError>(())
    /// ```
    ///
    /// # Errors
    /// [`MessageError::UnknownField`], [`MessageError::Value`].
    pub fn value_of_json(&self, name: &str, json: &Json) -> Result<Value, MessageError> {
        let mut message = self.default_value(name)?;
        let of = self.definition(name).ok_or_else(|| MessageError::Undefined {
            name: name.to_owned(),
            user: "this program".to_owned(),
        })?;
        let Json::Object(fields) = json else {
            return Err(MessageError::Value {
                type_name: of.name.clone(),
                field: "a line".to_owned(),
                wanted: "JSON object with the fields of the type".to_owned(),
            });
        };
        for (given, json) in fields {
            let field = of.fields.iter().find(|field| field.name == *given);
            let field = field.ok_or_else(|| unknown(of, given))?;
            message.set(given, self.field_of_json(of, field, json)?);
        }
        Ok(message)
    }

    fn field_of_json(
        &self,
        of: &Definition,
        field: &Field,
        json: &Json,
    ) -> Result<Value, MessageError> {
        let element = |json: &Json| self.element_of_json(of, field, json);
        match (field.shape, json) {
            (FieldShape::Single, json) => element(json),
            (_, Json::Array(all)) => {
                Ok(Value::List(all.iter().map(element).collect::<Result<_, _>>()?))
            }
            // As languages write a vector of one element.
            (_, one) => Ok(Value::List(vec![element(one)?])),
        }
    }

    fn element_of_json(
        &self,
        of: &Definition,
        field: &Field,
        json: &Json,
    ) -> Result<Value, MessageError> {
        match &field.element {
            FieldType::Message(name) => return self.value_of_json(name, json),
            FieldType::Text(_) => json.as_str().map(|text| Value::Text(text.into())),
            FieldType::Primitive(primitive) => number(*primitive, json),
        }
        .ok_or_else(|| MessageError::Value {
            type_name: of.name.clone(),
            field: field.name.clone(),
            wanted: field.to_string(),
        })
    }
}

/// Returns a number of this type; `None` for another value. Ranges are checked when it is encoded.
fn number(primitive: Primitive, json: &Json) -> Option<Value> {
    // Languages whose numbers are all floating-point write 3 as 3.0, and true as 1.
    let whole = || {
        let number = json.as_f64().filter(|number| number.fract() == 0.0)?;
        (number.abs() <= 2_f64.powi(53)).then_some(number as i64)
    };
    match primitive {
        Primitive::Bool => match json.as_bool().map(i64::from).or_else(whole)? {
            0 => Some(Value::Bool(false)),
            1 => Some(Value::Bool(true)),
            _ => None,
        },
        Primitive::Float32 if json.is_null() => Some(Value::Float32(f32::NAN)),
        Primitive::Float64 if json.is_null() => Some(Value::Float64(f64::NAN)),
        Primitive::Float32 => json.as_f64().map(|number| Value::Float32(number as f32)),
        Primitive::Float64 => json.as_f64().map(Value::Float64),
        Primitive::Int8 | Primitive::Int16 | Primitive::Int32 | Primitive::Int64 => {
            json.as_i64().or_else(whole).map(Value::Int)
        }
        _ => json.as_u64().or_else(|| u64::try_from(whole()?).ok()).map(Value::Uint),
    }
}

fn unknown(of: &Definition, given: &str) -> MessageError {
    let fields = of.fields.iter().map(|field| field.name.as_str()).collect::<Vec<_>>();
    MessageError::UnknownField {
        type_name: of.name.clone(),
        field: given.to_owned(),
        fields: fields.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TYPES: &str = "float64 x\nuint8 level\nint16[2] pair\nstring[] words\nbool on\nB b\n====\nMSG: demo/B\nfloat32[<=2] f\n";

    #[test]
    fn what_is_printed_as_json_is_read_again() {
        let types = TypeSet::from_text("demo/A", TYPES).unwrap();
        let json = json!({ "x": 0.1, "level": 255, "pair": [-3, 4], "words": ["ä", ""], "on": true, "b": { "f": [1.5] } });
        let value = types.value_of_json("demo/A", &json).unwrap();
        assert_eq!(value.to_json(), json);
        let bytes = types.encode("demo/A", &value).unwrap();
        assert_eq!(types.value("demo/A", &bytes).unwrap(), value);
    }

    #[test]
    fn numbers_are_taken_as_languages_without_integers_write_them() {
        let types = TypeSet::from_text("demo/A", TYPES).unwrap();
        let json = json!({ "level": 3.0, "on": 1, "words": "one", "x": null });
        let value = types.value_of_json("demo/A", &json).unwrap();
        assert_eq!(value.field("level"), Some(&Value::Uint(3)));
        assert_eq!(value.field("on"), Some(&Value::Bool(true)));
        assert_eq!(value.field("words"), Some(&Value::List(vec![Value::Text("one".into())])));
        assert!(matches!(value.field("x"), Some(Value::Float64(x)) if x.is_nan()));
    }

    #[test]
    fn what_does_not_fit_is_refused_by_its_field() {
        let types = TypeSet::from_text("demo/A", TYPES).unwrap();
        for (json, why) in [
            (json!({ "y": 1 }), "demo/msg/A has no field y; it has x, level, pair, words, on, b"),
            (json!({ "x": "1" }), "the value of x is not a float64 x"),
            (json!({ "level": -1 }), "the value of level is not a uint8 level"),
            (json!({ "level": 1.5 }), "the value of level"),
            (json!({ "on": 2 }), "the value of on"),
            (json!({ "b": { "g": 1 } }), "demo/msg/B has no field g"),
            (json!([1]), "JSON object"),
        ] {
            let found = types.value_of_json("demo/A", &json).unwrap_err().to_string();
            assert!(found.contains(why), "{json}: {found}");
        }
        // Ranges and lengths are those of the encoding.
        for json in
            [json!({ "level": 256 }), json!({ "pair": [1] }), json!({ "b": { "f": [1, 2, 3] } })]
        {
            let value = types.value_of_json("demo/A", &json).unwrap();
            assert!(types.encode("demo/A", &value).is_err(), "{json}");
        }
    }
}
