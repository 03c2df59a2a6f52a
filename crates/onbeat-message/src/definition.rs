//! One definition in the `.msg` language (ROS 2, "About ROS 2 interfaces").

use std::collections::BTreeMap;
use std::fmt;

use super::error::MessageError;

/// A parsed definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definition {
    /// Full name, `PACKAGE/msg/Name`.
    pub name: String,
    /// Fields in order.
    pub fields: Vec<Field>,
    /// Constants in order.
    pub constants: Vec<Constant>,
}

/// A field of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name.
    pub name: String,
    /// Type of the value, or of an element.
    pub element: FieldType,
    /// One value or several.
    pub shape: FieldShape,
    /// Default value, as written; empty without one.
    pub default: String,
    /// Comment lines before the field and behind it, joined by blanks.
    pub comment: String,
    /// Name in IDL, and whether it is a `char` of IDL: the hash has them, and `.msg` has neither.
    pub(super) of_idl: Option<(String, bool)>,
}

/// A named number or text of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant {
    /// Name.
    pub name: String,
    /// Type.
    pub primitive: Primitive,
    /// Value, as written; a text in quotation marks.
    pub value: String,
}

/// Type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// A type of the language.
    Primitive(Primitive),
    /// Text, with its maximum length in bytes, 0 for any.
    Text(usize),
    /// Wide text, with its maximum length in units of UTF-16, 0 for any.
    WideText(usize),
    /// Another message, by its full name.
    Message(String),
}

/// How many values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldShape {
    /// One.
    Single,
    /// Always this number.
    Array(usize),
    /// At most this number.
    Bounded(usize),
    /// Any number.
    Sequence,
}

/// A type of fixed size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The language's own names.
pub enum Primitive {
    Bool,
    Byte,
    Char,
    Float32,
    Float64,
    Int8,
    Uint8,
    Int16,
    Uint16,
    Int32,
    Uint32,
    Int64,
    Uint64,
}

impl Primitive {
    /// All of them, with their names.
    pub const ALL: [(Self, &'static str); 13] = [
        (Self::Bool, "bool"),
        (Self::Byte, "byte"),
        (Self::Char, "char"),
        (Self::Float32, "float32"),
        (Self::Float64, "float64"),
        (Self::Int8, "int8"),
        (Self::Uint8, "uint8"),
        (Self::Int16, "int16"),
        (Self::Uint16, "uint16"),
        (Self::Int32, "int32"),
        (Self::Uint32, "uint32"),
        (Self::Int64, "int64"),
        (Self::Uint64, "uint64"),
    ];

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(primitive, _)| *primitive)
    }

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(known, _)| *known == self).map_or("", |(_, name)| name)
    }

    /// Returns the size in bytes, which is the alignment too.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Bool | Self::Byte | Self::Char | Self::Int8 | Self::Uint8 => 1,
            Self::Int16 | Self::Uint16 => 2,
            Self::Float32 | Self::Int32 | Self::Uint32 => 4,
            Self::Float64 | Self::Int64 | Self::Uint64 => 8,
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.element {
            FieldType::Primitive(primitive) => f.write_str(primitive.name())?,
            FieldType::Text(0) => f.write_str("string")?,
            FieldType::Text(most) => write!(f, "string<={most}")?,
            FieldType::WideText(0) => f.write_str("wstring")?,
            FieldType::WideText(most) => write!(f, "wstring<={most}")?,
            FieldType::Message(name) => f.write_str(name)?,
        }
        match self.shape {
            FieldShape::Single => {}
            FieldShape::Array(count) => write!(f, "[{count}]")?,
            FieldShape::Bounded(most) => write!(f, "[<={most}]")?,
            FieldShape::Sequence => f.write_str("[]")?,
        }
        write!(f, " {}", self.name)
    }
}

/// Returns the full name of a type: `PACKAGE/msg/Name`; `PACKAGE/Name` is accepted.
///
/// # Errors
/// [`MessageError::TypeName`].
pub(super) fn full_name(name: &str) -> Result<String, MessageError> {
    let parts: Vec<&str> = name.split('/').collect();
    let is_word = |part: &&str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic())
            && part.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    match parts.as_slice() {
        [package, message] | [package, "msg", message] if is_word(package) && is_word(message) => {
            Ok(format!("{package}/msg/{message}"))
        }
        _ => Err(MessageError::TypeName { name: name.to_owned() }),
    }
}

impl Definition {
    /// Parses the definition of the type with this name.
    ///
    /// ```
    /// use onbeat_message::{Definition, FieldShape};
    ///
    /// let point = Definition::parse("demo/Point", "float64[3] position  # m\nint32 MOST=3\n")?;
    /// assert_eq!(point.name, "demo/msg/Point");
    /// assert_eq!(point.fields[0].shape, FieldShape::Array(3));
    /// assert_eq!(point.constants[0].value, "3");
    /// # Ok::<(), onbeat_message::MessageError>(())
    /// ```
    ///
    /// # Errors
    /// [`MessageError`] with the line.
    pub fn parse(name: &str, text: &str) -> Result<Self, MessageError> {
        let mut parsed = Self { name: full_name(name)?, ..Self::default() };
        let mut comments: Vec<String> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let failed = |why| MessageError::Line {
                type_name: parsed.name.clone(),
                line: number + 1,
                text: line.trim().to_owned(),
                why,
            };
            let (code, comment) = split_comment(line);
            if code.is_empty() {
                match comment {
                    Some(comment) => comments.push(comment.to_owned()),
                    None => comments.clear(),
                }
                continue;
            }

            comments.extend(comment.map(str::to_owned));
            match declaration(code, &parsed.name).map_err(failed)? {
                Declared::Constant(constant) => parsed.constants.push(constant),
                Declared::Field(field) => {
                    if parsed.fields.iter().any(|other| other.name == field.name) {
                        return Err(failed("has the name of an earlier field"));
                    }
                    parsed.fields.push(Field { comment: comments.join(" "), ..field });
                }
            }
            comments.clear();
        }

        Ok(parsed)
    }
}

/// Definitions by full name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Definitions(pub(super) BTreeMap<String, Definition>);

impl Definitions {
    pub(super) fn find(&self, name: &str) -> Option<&Definition> {
        self.0.get(&full_name(name).ok()?)
    }

    /// Returns a definition that the type `user` needs.
    pub(super) fn get(&self, name: &str, user: &str) -> Result<&Definition, MessageError> {
        let full = full_name(name)?;
        self.0
            .get(&full)
            .ok_or_else(|| MessageError::Undefined { name: name.to_owned(), user: user.to_owned() })
    }
}

enum Declared {
    Field(Field),
    Constant(Constant),
}

/// Splits a line into its declaration and its comment; a number sign in quotes begins none.
fn split_comment(line: &str) -> (&str, Option<&str>) {
    let mut quote = None;
    for (at, letter) in line.char_indices() {
        match (letter, quote) {
            ('#', None) => return (line[..at].trim(), Some(line[at + 1..].trim())),
            ('"' | '\'', None) => quote = Some(letter),
            (_, Some(open)) if letter == open => quote = None,
            _ => {}
        }
    }
    (line.trim(), None)
}

fn declaration(code: &str, of: &str) -> Result<Declared, &'static str> {
    if code == "---" {
        return Err("divides a service or an action; write each of its parts as a message");
    }
    let (word, rest) = code.split_once(char::is_whitespace).ok_or("has no name after its type")?;
    let rest = rest.trim();
    let name_end = rest.find(|letter: char| letter.is_whitespace() || letter == '=');
    let (name, value) = rest.split_at(name_end.unwrap_or(rest.len()));
    let value = value.trim();
    if let Some(value) = value.strip_prefix('=') {
        return constant(word, name, value.trim()).map(Declared::Constant);
    }

    let is_lower = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    if !name.starts_with(|first: char| first.is_ascii_lowercase())
        || !name.chars().all(|letter| is_lower(letter) || letter == '_')
    {
        return Err("has a name that is not in lower case: a letter, then letters, digits and _");
    }

    let (element, shape) = shape(word)?;
    let field = Field {
        name: name.to_owned(),
        element: field_type(element, of)?,
        shape,
        default: value.to_owned(),
        comment: String::new(),
        of_idl: None,
    };
    Ok(Declared::Field(field))
}

fn constant(word: &str, name: &str, value: &str) -> Result<Constant, &'static str> {
    let is_upper = |letter: char| letter.is_ascii_uppercase() || letter.is_ascii_digit();
    if !name.starts_with(|first: char| first.is_ascii_uppercase())
        || !name.chars().all(|letter| is_upper(letter) || letter == '_')
    {
        return Err("is a constant whose name is not in upper case");
    }
    // Constants are not encoded, and those of text are not used by any codec here.
    let is_text = ["string", "wstring"].contains(&word);
    let primitive = match is_text {
        true => Primitive::Char,
        false => Primitive::from_name(word).ok_or("is a constant of a type that has none")?,
    };
    let value = match is_text && !value.starts_with(['"', '\'']) {
        true => format!("\"{value}\""),
        false => value.to_owned(),
    };
    Ok(Constant { name: name.to_owned(), primitive, value })
}

/// Splits the type of a field into that of an element and its shape.
fn shape(word: &str) -> Result<(&str, FieldShape), &'static str> {
    let Some((element, count)) = word.strip_suffix(']').and_then(|word| word.rsplit_once('['))
    else {
        return Ok((word, FieldShape::Single));
    };
    let number = |text: &str| {
        text.parse().ok().filter(|count| *count > 0).ok_or("has a length that is not a number")
    };
    Ok(match (count, count.strip_prefix("<=")) {
        ("", _) => (element, FieldShape::Sequence),
        (_, Some(most)) => (element, FieldShape::Bounded(number(most)?)),
        (count, None) => (element, FieldShape::Array(number(count)?)),
    })
}

fn field_type(element: &str, of: &str) -> Result<FieldType, &'static str> {
    if let Some(primitive) = Primitive::from_name(element) {
        return Ok(FieldType::Primitive(primitive));
    }

    match element.split_once("<=") {
        _ if element == "string" => Ok(FieldType::Text(0)),
        _ if element == "wstring" => Ok(FieldType::WideText(0)),
        Some((text @ ("string" | "wstring"), most)) => {
            let most = most.parse().ok().filter(|most| *most > 0);
            let most = most.ok_or("has a length that is not a number")?;
            Ok(if text == "string" { FieldType::Text(most) } else { FieldType::WideText(most) })
        }
        _ => {
            let package = of.split('/').next().unwrap_or_default();
            let name = match element {
                name if name.contains('/') => full_name(name),
                name => full_name(&format!("{package}/{name}")),
            };
            name.map(FieldType::Message).map_err(|_| "has a type that is not known")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<Field, MessageError> {
        Definition::parse("demo/Test", text).map(|parsed| parsed.fields[0].clone())
    }

    #[test]
    fn every_kind_of_field_is_read() {
        let shown = |text| one(text).unwrap().to_string();
        for same in [
            "bool on",
            "uint8[] data",
            "float32[9] matrix",
            "int16[<=4] few",
            "string name",
            "string<=10 short",
            "string<=10[<=5] shorts",
            "wstring wide",
            "wstring<=3[2] few_wide",
            "std_msgs/msg/Header header",
        ] {
            assert_eq!(shown(same), same);
        }
        assert_eq!(shown("Other[] others"), "demo/msg/Other[] others");
        assert_eq!(shown("geometry_msgs/Point p"), "geometry_msgs/msg/Point p");
    }

    #[test]
    fn defaults_constants_and_comments_are_read() {
        let text = "# Rate\n# of the loop.\nuint32 rate 1000  # Hz\n\nstring NAME='a # b'\nint8 LOW=-3\nfloat64 next\n";
        let parsed = Definition::parse("demo/Test", text).unwrap();
        assert_eq!(parsed.fields[0].comment, "Rate of the loop. Hz");
        assert_eq!(
            (parsed.fields[0].default.as_str(), parsed.fields[1].comment.as_str()),
            ("1000", "")
        );
        let constants: Vec<_> = parsed.constants.iter().map(|it| (&*it.name, &*it.value)).collect();
        assert_eq!(constants, [("NAME", "'a # b'"), ("LOW", "-3")]);
    }

    #[test]
    fn a_wrong_line_is_reported_with_its_number() {
        for wrong in [
            "float64",
            "float64 X",
            "wstring<=x text",
            "float64[0] none",
            "float64[x] none",
            "float64 x\nfloat64 x",
            "int8 low=3",
            "a-b/C c",
            "int64 a\n---\nint64 b",
        ] {
            let why = Definition::parse("demo/Test", wrong).unwrap_err().to_string();
            assert!(why.starts_with("demo/msg/Test, line "), "{why}");
        }
        assert!(
            Definition::parse("Test", "").is_err() && Definition::parse("a/b/c/D", "").is_err()
        );
        let why = Definitions::default().get("demo.plan_t", "nobody").unwrap_err().to_string();
        assert!(why.contains("write PACKAGE/msg/Name"), "{why}");
    }
}
