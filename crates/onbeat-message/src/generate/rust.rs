//! Rust: a module with a structure for each type. Needs the standard library only.

use std::fmt::Write as _;

use super::{Plain, class_name, constant_name, free, hash_text, in_order, is_among, plain};
use crate::definition::{Constant, Definition, Field, FieldShape, FieldType, Primitive};
use crate::error::MessageError;
use crate::json_value::default_of;
use crate::type_set::TypeSet;
use crate::value::Value;

/// What every generated module begins with.
const RUNTIME: &str = include_str!("runtime.rs.txt");

const KEYWORDS: &str = "\
    abstract as async await become box break const continue do dyn else enum extern false final fn \
    for gen if impl in let loop macro match mod move mut override priv pub ref return static \
    struct trait true try type typeof unsafe unsized use virtual where while yield";

/// Words that cannot be names even with `r#`, and names of the generated code.
const TAKEN: &str = "Cdr CdrError CdrReader Self WideText crate self super";

/// Returns a Rust module with structures for a type and all it uses, each with `encode` and
/// `decode`.
///
/// # Errors
/// [`MessageError`] when a type is missing.
pub fn rust(types: &TypeSet, name: &str) -> Result<String, MessageError> {
    let order = in_order(types, name)?;
    // In a module of its own, `String` is Rust's, whatever types are beside it.
    let mut code = format!(
        "// Messages with their codec: CDR, little-endian. Generated from their definitions by \
         `onbeat message generate`.\n#![allow(dead_code)]\n\nmod onbeat_cdr {{\n{RUNTIME}}}\n\n\
         pub use onbeat_cdr::{{Cdr, CdrError, CdrReader}};\n\
         #[allow(unused_imports)]\npub use onbeat_cdr::WideText;\n\
         #[allow(unused_imports)]\nuse onbeat_cdr::{{at_most, decoded, encoded}};\n"
    );
    for definition in &order {
        code.push_str(&structure(definition, &order, &hash_text(types, &definition.name)?));
    }
    Ok(code)
}

fn type_name(full: &str, order: &[&Definition]) -> String {
    class_name(full, order, identifier)
}

fn identifier(name: &str) -> String {
    if is_among(name, KEYWORDS) { format!("r#{name}") } else { free(name, TAKEN) }
}

const fn number_type(primitive: Primitive) -> &'static str {
    match primitive {
        Primitive::Bool => "bool",
        Primitive::Byte | Primitive::Char | Primitive::Uint8 => "u8",
        Primitive::Int8 => "i8",
        Primitive::Int16 => "i16",
        Primitive::Uint16 => "u16",
        Primitive::Int32 => "i32",
        Primitive::Uint32 => "u32",
        Primitive::Int64 => "i64",
        Primitive::Uint64 => "u64",
        Primitive::Float32 => "f32",
        Primitive::Float64 => "f64",
    }
}

fn member_type(field: &Field, order: &[&Definition]) -> String {
    let element = match &field.element {
        FieldType::Primitive(primitive) => number_type(*primitive).to_owned(),
        FieldType::Text(_) => "::std::string::String".to_owned(),
        FieldType::WideText(_) => "WideText".to_owned(),
        FieldType::Message(name) => type_name(name, order),
    };
    match field.shape {
        FieldShape::Single => element,
        FieldShape::Array(count) => format!("[{element}; {count}]"),
        FieldShape::Bounded(_) | FieldShape::Sequence => format!("::std::vec::Vec<{element}>"),
    }
}

fn constant(of: &Constant) -> String {
    let kind = number_type(of.primitive);
    let (kind, value) = match plain(of) {
        Plain::Text(text) => ("&'static str", format!("{text:?}")),
        Plain::Flag(on) => (kind, on.to_string()),
        Plain::Number(number) if kind.starts_with('f') => (kind, format!("{number} as {kind}")),
        Plain::Number(number) => (kind, number),
    };
    format!("    pub const {}: {kind} = {value};\n", constant_name(&of.name))
}

fn structure(of: &Definition, order: &[&Definition], hash: &str) -> String {
    let own = type_name(&of.name, order);
    let mut code = format!("\n/// `{}`.\n#[derive(Clone, Debug, PartialEq)]\n", of.name);
    let _ = writeln!(code, "#[allow(non_camel_case_types)]\npub struct {own} {{");
    for field in &of.fields {
        let comment = if field.comment.is_empty() { "" } else { &field.comment };
        if !comment.is_empty() {
            let _ = writeln!(code, "    /// {}", comment.replace('\r', " "));
        }
        let (name, kind) = (identifier(&field.name), member_type(field, order));
        let _ = writeln!(code, "    pub {name}: {kind},");
    }
    code.push_str("}\n");

    let constants: String = of.constants.iter().map(constant).collect();
    let _ = write!(
        code,
        "
impl {own} {{
    /// Full name of the type.
    pub const TYPE: &'static str = \"{}\";
    /// Its hash, as ROS 2 writes it.
    pub const HASH: &'static str = \"{hash}\";
{constants}
    /// Encodes the message.
    pub fn encode(&self) -> ::core::result::Result<::std::vec::Vec<u8>, CdrError> {{
        encoded(self)
    }}

    /// Decodes a message. Bytes behind its last field are ignored.
    pub fn decode(bytes: &[u8]) -> ::core::result::Result<Self, CdrError> {{
        decoded(bytes)
    }}
}}
",
        of.name
    );

    code.push_str(&default(of, &own));
    code.push_str(&codec(of, &own));
    code
}

/// By hand, because arrays of more than 32 values have none.
fn default(of: &Definition, own: &str) -> String {
    let mut code =
        format!("\nimpl ::core::default::Default for {own} {{\n    fn default() -> Self {{\n");
    code.push_str("        Self {\n");
    for field in &of.fields {
        let zero = "::core::default::Default::default()";
        let value = match (default_of(field), field.shape) {
            (Some(value), _) => literal(&value, field),
            (None, FieldShape::Array(_)) => format!("::std::array::from_fn(|_| {zero})"),
            (None, _) => zero.to_owned(),
        };
        let _ = writeln!(code, "            {}: {value},", identifier(&field.name));
    }
    code.push_str("        }\n    }\n}\n");
    code
}

fn literal(value: &Value, of: &Field) -> String {
    match value {
        Value::List(values) => {
            let all: Vec<String> = values.iter().map(|it| literal(it, of)).collect();
            let is_array = matches!(of.shape, FieldShape::Array(_));
            format!("{}[{}]", if is_array { "" } else { "::std::vec!" }, all.join(", "))
        }
        Value::Text(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            let owned = format!("::std::borrow::ToOwned::to_owned({text:?})");
            let is_wide = matches!(of.element, FieldType::WideText(_));
            if is_wide { format!("WideText({owned})") } else { owned }
        }
        Value::Bool(on) => on.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Float32(number) => format!("{number:?}"),
        Value::Float64(number) => format!("{number:?}"),
        Value::Message(_) => String::new(),
    }
}

fn codec(of: &Definition, own: &str) -> String {
    let mut writes = String::new();
    let mut reads = String::new();
    for field in &of.fields {
        let name = identifier(&field.name);
        let _ = writeln!(reads, "            {name}: Cdr::read(of)?,");
        if let FieldShape::Bounded(most) = field.shape {
            let _ = writeln!(writes, "        at_most(self.{name}.len(), {most})?;");
        }
        if let FieldType::Text(most @ 1..) | FieldType::WideText(most @ 1..) = field.element {
            let check = format!("at_most(text.len(), {most})");
            let _ = match field.shape {
                FieldShape::Single => {
                    writeln!(writes, "        at_most(self.{name}.len(), {most})?;")
                }
                _ => writeln!(writes, "        self.{name}.iter().try_for_each(|text| {check})?;"),
            };
        }
        let _ = writeln!(writes, "        self.{name}.write(out)?;");
    }

    let (begin, skip) = match of.fields.is_empty() {
        true => ("        0_u8.write(out)?;\n", "        u8::read(of)?;\n"),
        false => ("", ""),
    };
    format!(
        "
impl Cdr for {own} {{
    fn write(&self, out: &mut ::std::vec::Vec<u8>) -> ::core::result::Result<(), CdrError> {{
{begin}{writes}        Ok(())
    }}

    fn read(of: &mut CdrReader<'_>) -> ::core::result::Result<Self, CdrError> {{
{skip}        Ok(Self {{
{reads}        }})
    }}
}}
"
    )
}
