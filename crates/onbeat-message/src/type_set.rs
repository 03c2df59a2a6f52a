//! A type with all types it uses.

use std::collections::BTreeMap;

use serde_json::Map;

use super::cdr::{CdrDecoder, CdrEncoder, MOST_DEPTH, MOST_LEAST_BYTES};
use super::definition::{Definition, Definitions, FieldShape, FieldType};
use super::error::MessageError;
use super::hash::rihs01;
use super::value::Value;

/// The line between two definitions in the text of a schema (MCAP format registry, `ros2msg`).
const BETWEEN: &str =
    "================================================================================";

/// Types by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeSet {
    definitions: Definitions,
    texts: BTreeMap<String, String>,
}

impl TypeSet {
    /// Reads the text of a schema: the definition of `name`, then those of the types it uses, each
    /// after a line of `=` and a line `MSG: NAME`.
    ///
    /// # Errors
    /// [`MessageError`].
    pub fn from_text(name: &str, text: &str) -> Result<Self, MessageError> {
        let mut types = Self::default();
        let mut of = name.to_owned();
        let mut own = String::new();
        let mut is_after_line = false;
        for line in text.lines() {
            let is_line = line.len() >= 3 && line.chars().all(|letter| letter == '=');
            match line.strip_prefix("MSG:") {
                Some(next) if is_after_line => {
                    types.add(&of, &own)?;
                    (of, own) = (next.trim().to_owned(), String::new());
                }
                _ if is_line => {}
                _ => own.extend([line, "\n"]),
            }
            is_after_line = is_line;
        }

        types.add(&of, &own)?;
        types.add_times()?;
        types.used(name)?;
        Ok(types)
    }

    /// Adds the times of ROS 2 where they are used and not defined: readers of MCAP know them.
    fn add_times(&mut self) -> Result<(), MessageError> {
        for name in ["builtin_interfaces/msg/Time", "builtin_interfaces/msg/Duration"] {
            let time = FieldType::Message(name.to_owned());
            let mut fields = self.definitions.0.values().flat_map(|of| &of.fields);
            let is_used = fields.any(|field| field.element == time);
            if is_used && self.definition(name).is_none() {
                self.add(name, "int32 sec\nuint32 nanosec\n")?;
            }
        }
        Ok(())
    }

    /// Adds a definition. A definition that is there already is replaced.
    ///
    /// # Errors
    /// [`MessageError`] when its text is not valid.
    pub fn add(&mut self, name: &str, text: &str) -> Result<(), MessageError> {
        let parsed = Definition::parse(name, text)?;
        self.texts.insert(parsed.name.clone(), text.to_owned());
        self.definitions.0.insert(parsed.name.clone(), parsed);
        Ok(())
    }

    /// Notes what the hash has of the fields of a definition in IDL, as in `Field::of_idl`.
    pub(super) fn note_idl(&mut self, name: &str, fields: &[(String, bool)]) {
        let Some(of) = self.definitions.0.get_mut(name) else { return };
        for (field, of_idl) in of.fields.iter_mut().zip(fields) {
            field.of_idl = Some(of_idl.clone());
        }
    }

    /// Returns a definition.
    #[must_use]
    pub fn definition(&self, name: &str) -> Option<&Definition> {
        self.definitions.find(name)
    }

    /// Returns the names of all types.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.texts.keys().map(String::as_str)
    }

    pub(super) fn get(&self, name: &str, user: &str) -> Result<&Definition, MessageError> {
        self.definitions.get(name, user)
    }

    /// Returns a type and all it uses: itself first, then the others by name.
    ///
    /// # Errors
    /// [`MessageError::Undefined`], [`MessageError::Circular`], [`MessageError::Deep`],
    /// [`MessageError::Large`].
    pub fn used(&self, name: &str) -> Result<Vec<&Definition>, MessageError> {
        let first = self.get(name, "this program")?;
        let mut extents = BTreeMap::new();
        self.collect(first, &mut Vec::new(), &mut extents)?;
        extents.remove(first.name.as_str());
        let others = extents.keys().filter_map(|name| self.definition(name));
        Ok(std::iter::once(first).chain(others).collect())
    }

    /// Collects a type and all it uses with their extents. All that walks through types and their
    /// values goes as deep.
    fn collect<'s>(
        &'s self,
        of: &'s Definition,
        above: &mut Vec<(&'s str, bool)>,
        extents: &mut BTreeMap<&'s str, Extent>,
    ) -> Result<Extent, MessageError> {
        let too_deep = || MessageError::Deep { type_name: of.name.clone(), most: MOST_DEPTH };
        if above.len() >= MOST_DEPTH {
            return Err(too_deep());
        }
        let mut all = Extent { depth: 1, least_bytes: 0 };
        for field in &of.fields {
            let element = match &field.element {
                FieldType::Primitive(primitive) => {
                    Extent { depth: 0, least_bytes: primitive.bytes() }
                }
                FieldType::Text(_) | FieldType::WideText(_) => Extent { depth: 0, least_bytes: 4 },
                FieldType::Message(name) => {
                    let inner = self.get(name, &of.name)?;
                    above.push((
                        &of.name,
                        !matches!(field.shape, FieldShape::Single | FieldShape::Array(_)),
                    ));
                    let extent = self.extent_within(inner, above, extents)?;
                    above.pop();
                    extent
                }
            };
            all.add(element, field.shape);
        }
        if all.depth > MOST_DEPTH {
            return Err(too_deep());
        }
        if all.least_bytes > MOST_LEAST_BYTES {
            let (type_name, most) = (of.name.clone(), MOST_LEAST_BYTES);
            return Err(MessageError::Large { type_name, bytes: all.least_bytes, most });
        }
        extents.insert(&of.name, all);
        Ok(all)
    }

    fn extent_within<'s>(
        &'s self,
        inner: &'s Definition,
        above: &mut Vec<(&'s str, bool)>,
        extents: &mut BTreeMap<&'s str, Extent>,
    ) -> Result<Extent, MessageError> {
        // What was looked at once has no circle, and is not looked at again: types may share others many times over.
        if let Some(known) = extents.get(inner.name.as_str()) {
            return Ok(*known);
        }
        match above.iter().position(|(other, _)| *other == inner.name) {
            None => self.collect(inner, above, extents),
            // A list may be empty: LCM has such types, and ROS 2 has none.
            Some(place) if above[place..].iter().any(|(_, is_list)| *is_list) => {
                Ok(Extent::default())
            }
            Some(_) => Err(MessageError::Circular { name: inner.name.clone() }),
        }
    }

    /// Returns the text of a schema, as [`TypeSet::from_text`] reads it.
    ///
    /// # Errors
    /// As [`TypeSet::used`].
    pub fn text(&self, name: &str) -> Result<String, MessageError> {
        let mut text = String::new();
        for definition in self.used(name)? {
            if !text.is_empty() {
                let short = definition.name.replace("/msg/", "/");
                text.extend([BETWEEN, "\nMSG: ", &short, "\n"]);
            }
            text.push_str(self.texts.get(&definition.name).map_or("", String::as_str));
        }
        Ok(text)
    }

    /// Returns the type's hash as ROS 2 computes it (REP 2016, RIHS01).
    ///
    /// # Errors
    /// As [`TypeSet::used`].
    pub fn hash(&self, name: &str) -> Result<[u8; 32], MessageError> {
        Ok(rihs01(&self.used(name)?))
    }

    /// Decodes a message: CDR, little-endian, with its header of four bytes. Bytes behind the last
    /// field are ignored: a newer version of the type may have more fields.
    ///
    /// # Errors
    /// [`MessageError`].
    pub fn value(&self, name: &str, bytes: &[u8]) -> Result<Value, MessageError> {
        self.decoded(name, bytes).map(|(value, _)| value)
    }

    /// Returns the message and its length in bytes. A message with wide texts that does not fit into its bytes is of Fast CDR 1,
    /// which ROS 2 had before Jazzy: its units of UTF-16 have four bytes each.
    fn decoded(&self, name: &str, bytes: &[u8]) -> Result<(Value, usize), MessageError> {
        /// Bytes behind a message: those of its alignment, or of fields that a newer version has.
        const BEHIND: usize = 8;
        let of = self.get(name, "this program")?;
        let mut decoder = CdrDecoder::new(&self.definitions, name, bytes)?;
        let found = decoder.message(of);
        let fits = |end: usize| bytes.len().saturating_sub(end) < BEHIND;
        if decoder.has_wide() && !(found.is_ok() && fits(decoder.end())) {
            let mut other = CdrDecoder::new(&self.definitions, name, bytes)?.with_four_bytes();
            if let Ok(value) = other.message(of)
                && fits(other.end())
            {
                return Ok((value, other.end()));
            }
        }
        found.map(|value| (value, decoder.end()))
    }

    /// Returns the length of a message in bytes, with its header: up to the end of its last field.
    ///
    /// # Errors
    /// As [`TypeSet::value`].
    pub fn encoded_bytes(&self, name: &str, bytes: &[u8]) -> Result<usize, MessageError> {
        self.decoded(name, bytes).map(|(_, end)| end)
    }

    /// Encodes a message.
    ///
    /// # Errors
    /// [`MessageError::Value`].
    pub fn encode(&self, name: &str, value: &Value) -> Result<Vec<u8>, MessageError> {
        let mut encoder = CdrEncoder::new(&self.definitions);
        encoder.message(self.get(name, "this program")?, value)?;
        Ok(encoder.into_bytes())
    }

    /// Returns a message whose fields have the defaults of the definition; without one, numbers are 0, and texts and
    /// sequences are empty.
    ///
    /// # Errors
    /// As [`TypeSet::used`].
    pub fn default_value(&self, name: &str) -> Result<Value, MessageError> {
        self.value_from_json(name, &Map::new().into())
    }

    /// Checks that messages of `theirs` can be read as `name` of this set: the fields of the
    /// shorter definition are the first fields of the longer one, in all types used.
    ///
    /// # Errors
    /// [`MessageError::Differs`] with the first different field.
    pub fn check_same(&self, name: &str, theirs: &Self) -> Result<(), MessageError> {
        let ours = self.used(name)?;
        for (depth, own) in ours.into_iter().enumerate() {
            let Some(other) = theirs.definition(&own.name) else { continue };
            for (place, (here, there)) in own.fields.iter().zip(&other.fields).enumerate() {
                if here.to_string() != there.to_string() {
                    return Err(differs(own, place, &there.to_string(), &here.to_string()));
                }
            }
            // A longer type within another one would move the fields behind it.
            let here = own.fields.len();
            let there = other.fields.len();
            if depth > 0 && here != there {
                let place = here.min(there);
                let shown = |of: &Definition| {
                    of.fields.get(place).map_or_else(|| "no field".to_owned(), ToString::to_string)
                };
                return Err(differs(own, place, &shown(other), &shown(own)));
            }
        }
        Ok(())
    }
}

fn differs(of: &Definition, place: usize, theirs: &str, ours: &str) -> MessageError {
    MessageError::Differs {
        type_name: of.name.clone(),
        number: place + 1,
        theirs: theirs.to_owned(),
        ours: ours.to_owned(),
    }
}

/// How far the messages of a type reach.
#[derive(Clone, Copy, Default)]
struct Extent {
    /// 1 for a type without messages in it.
    depth: usize,
    /// Size with all lists and texts empty, without padding, in bytes.
    least_bytes: usize,
}

impl Extent {
    fn add(&mut self, element: Self, shape: FieldShape) {
        self.depth = self.depth.max(1 + element.depth);
        let bytes = match shape {
            FieldShape::Single => element.least_bytes,
            FieldShape::Array(count) => element.least_bytes.saturating_mul(count),
            FieldShape::Bounded(_) | FieldShape::Sequence => 4,
        };
        self.least_bytes = self.least_bytes.saturating_add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POSE: &str = "Point position\nstring frame\nPoint[2] corners\n====\nMSG: demo/Point\nfloat64 x\nfloat64 y\n";

    #[test]
    fn the_text_of_a_schema_survives_reading_and_writing() {
        let types = TypeSet::from_text("demo/Pose", POSE).unwrap();
        assert_eq!(types.names().collect::<Vec<_>>(), ["demo/msg/Point", "demo/msg/Pose"]);
        let text = types.text("demo/Pose").unwrap();
        assert!(text.contains(&format!("{BETWEEN}\nMSG: demo/Point\nfloat64 x\n")), "{text}");
        assert_eq!(TypeSet::from_text("demo/Pose", &text).unwrap(), types);
    }

    #[test]
    fn undefined_and_circular_types_are_reported_by_name() {
        let why = |text| TypeSet::from_text("demo/A", text).unwrap_err().to_string();
        assert_eq!(why("B b\n"), "the type demo/msg/B is not defined; demo/msg/A uses it");
        assert_eq!(why("B b\n===\nMSG: demo/B\nA a\n"), "the type demo/msg/A contains itself");
        assert_eq!(why("A[2] a\n"), "the type demo/msg/A contains itself");
    }

    /// Such a message with all fields at 0 would take the memory of the machine.
    #[test]
    fn a_type_whose_shortest_message_is_longer_than_any_record_is_refused() {
        let why = |text: &str| TypeSet::from_text("demo/A", text).unwrap_err().to_string();
        let inner = "====\nMSG: demo/B\nfloat64[1048576] x\n";
        assert_eq!(
            why("float64[100000000000] x\n"),
            "demo/msg/A: a message has at least 800000000000 bytes, and at most 67108864 are read"
        );
        assert!(why(&format!("B[9] b\n{inner}")).contains("75497472 bytes"));
        assert!(why(&format!("B[18446744073709551615] b\n{inner}")).starts_with("demo/msg/A: "));
        TypeSet::from_text("demo/A", &format!("B[7] b\nB[] more\n{inner}")).unwrap();
    }

    #[test]
    fn times_need_no_definition() {
        let text = "builtin_interfaces/Time stamp\nbuiltin_interfaces/msg/Duration[] steps\n";
        let types = TypeSet::from_text("demo/A", text).unwrap();
        let zero = types.default_value("demo/A").unwrap();
        let wanted = serde_json::json!({ "stamp": { "sec": 0, "nanosec": 0 }, "steps": [] });
        assert_eq!(zero.to_json(), wanted);
        let own = format!("{text}====\nMSG: builtin_interfaces/Time\nint32 sec\n");
        let types = TypeSet::from_text("demo/A", &own).unwrap();
        assert_eq!(types.definition("builtin_interfaces/Time").unwrap().fields.len(), 1);
    }

    /// ROS 2 has no such types; LCM has.
    #[test]
    fn a_list_may_hold_its_own_type_up_to_a_depth() {
        let types = TypeSet::from_text("demo/Tree", "int32 n\nTree[] branches\n").unwrap();
        let mut tree = types.default_value("demo/Tree").unwrap();
        for _ in 0..50 {
            let mut above = types.default_value("demo/Tree").unwrap();
            above.set("branches", Value::List(vec![tree.clone(), tree.clone()][..1].to_vec()));
            tree = above;
        }
        let bytes = types.encode("demo/Tree", &tree).unwrap();
        assert_eq!(types.value("demo/Tree", &bytes).unwrap(), tree);

        let deep: Vec<u8> =
            [0, 1, 0, 0].into_iter().chain([0, 0, 0, 0, 1, 0, 0, 0].repeat(100_000)).collect();
        let why = types.value("demo/Tree", &deep).unwrap_err().to_string();
        assert!(why.contains("nested more than"), "{why}");
    }

    #[test]
    fn types_are_as_deep_as_messages_are_decoded() {
        let chain = |deep: usize| {
            let type_of =
                |number: usize| format!("====\nMSG: demo/T{number}\nT{} inner\n", number + 1);
            let types: String = (1..deep).map(type_of).collect();
            format!("T1 inner\n{types}====\nMSG: demo/T{deep}\nint8 n\n")
        };
        assert!(TypeSet::from_text("demo/A", &chain(127)).is_ok());
        for deep in [128, 60_000] {
            let why = TypeSet::from_text("demo/A", &chain(deep)).unwrap_err().to_string();
            assert!(why.contains("messages are nested more than 128 times"), "{why}");
        }
        // The lower half was looked at before the upper half.
        let halves = chain(150).replacen("T1 inner", "T80 lower\nT1 inner", 1);
        let why = TypeSet::from_text("demo/A", &halves).unwrap_err().to_string();
        assert!(why.contains("messages are nested more than 128 times"), "{why}");
    }

    #[test]
    fn a_message_of_zeros_is_encoded_and_decoded() {
        let types = TypeSet::from_text("demo/Pose", POSE).unwrap();
        let zero = types.default_value("demo/Pose").unwrap();
        let bytes = types.encode("demo/Pose", &zero).unwrap();
        assert_eq!(types.value("demo/Pose", &bytes).unwrap(), zero);
        assert_eq!(bytes.len(), 4 + 16 + 8 + 32, "the text's length, 0 at its end, alignment");
    }

    #[test]
    fn fields_may_be_appended_and_nothing_else_may_change() {
        let of = |text: &str| TypeSet::from_text("demo/A", text).unwrap();
        let ours = of("int32 a\nfloat64 b\n");
        for same in ["int32 a\nfloat64 b\n", "int32 a\n", "int32 a\nfloat64 b\nstring c\n"] {
            assert_eq!(ours.check_same("demo/A", &of(same)), Ok(()));
        }
        let why = ours.check_same("demo/A", &of("int32 a\nfloat32 b\n")).unwrap_err().to_string();
        assert_eq!(
            why,
            "demo/msg/A differs: field 2 is `float32 b` in the channel and `float64 b` here; fields may only be appended"
        );
        let nested = |inner: &str| of(&format!("B b\nint8 c\n===\nMSG: demo/B\n{inner}"));
        assert!(nested("int8 x\n").check_same("demo/A", &nested("int8 x\nint8 y\n")).is_err());
    }
}
