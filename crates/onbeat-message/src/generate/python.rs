//! Python: a module with a dataclass for each type. Needs the standard library only.

use std::fmt::Write as _;

use super::{Plain, constant_name, free, hash_text, in_order, is_among, plain, quoted};
use crate::definition::{Definition, Field, FieldShape, FieldType, Primitive};
use crate::error::MessageError;
use crate::json_value::default_of;
use crate::type_set::TypeSet;
use crate::value::Value;

/// What every generated module begins with.
const RUNTIME: &str = include_str!("runtime.py");

const KEYWORDS: &str = "\
    False None True and as assert async await break class continue decode def del elif else encode \
    except finally for from global if import in is lambda nonlocal not or pass print raise return \
    try while with yield";

/// Names of the language that the generated code uses: no class has them.
const BUILTINS: &str = "\
    TypeError ValueError bool bytearray bytes classmethod dict float int len list object range set \
    staticmethod str struct sum super tuple type";

/// Returns a Python module with classes for a type and all it uses. A class has the fields as
/// attributes, `encode()` and `decode(data)`, and the attributes `TYPE` and `HASH`.
///
/// # Errors
/// [`MessageError`] when a type is missing.
pub fn python(types: &TypeSet, name: &str) -> Result<String, MessageError> {
    let order = in_order(types, name)?;
    let mut code = RUNTIME.to_owned();
    for definition in &order {
        code.push_str(&class(definition, &order, &hash_text(types, &definition.name)?));
    }
    Ok(code)
}

/// The name of a type's class: its own, with its package where two types have the same.
fn class_name(full: &str, order: &[&Definition]) -> String {
    let own = |name: &str| free(name, if is_among(name, BUILTINS) { BUILTINS } else { KEYWORDS });
    super::class_name(full, order, own)
}

fn attribute(field: &Field) -> String {
    free(&field.name, KEYWORDS)
}

fn class(of: &Definition, order: &[&Definition], hash: &str) -> String {
    let own = class_name(&of.name, order);
    let mut code = format!(
        "\n\n@_dataclass\nclass {own}(_Message):\n    \"\"\"{}\"\"\"\n\n    TYPE = \"{}\"\n    HASH = \"{hash}\"\n",
        of.name, of.name
    );
    for constant in &of.constants {
        let value = match plain(constant) {
            Plain::Text(text) => quoted(&text),
            Plain::Flag(true) => "True".to_owned(),
            Plain::Flag(false) => "False".to_owned(),
            Plain::Number(number) => number,
        };
        let _ = writeln!(code, "    {} = {value}", constant_name(&constant.name));
    }

    for field in &of.fields {
        let (hint, default) = hint_and_default(field, order);
        if !field.comment.is_empty() {
            let _ = writeln!(code, "    # {}", field.comment.replace('\r', " "));
        }
        let _ = writeln!(code, "    {}: {hint} = {default}", attribute(field));
    }

    code.push_str("\n    def _write(self, out):\n");
    let writes: Vec<String> = of.fields.iter().map(write_line).collect();
    body(&mut code, &writes, "out.number(\"B\", 1, 0)");
    code.push_str("\n    @_classmethod\n    def _read(cls, of):\n        own = cls()\n");
    let reads: Vec<String> = of.fields.iter().map(|field| read_line(field, order)).collect();
    body(&mut code, &reads, "of.number(\"B\", 1)");
    code.push_str("        return own\n");

    code
}

fn body(code: &mut String, lines: &[String], empty: &str) {
    for line in lines {
        let _ = writeln!(code, "        {line}");
    }
    if lines.is_empty() {
        let _ = writeln!(code, "        {empty}");
    }
}

fn is_octets(field: &Field) -> bool {
    let one_byte = [Primitive::Uint8, Primitive::Byte, Primitive::Char];
    matches!(&field.element, FieldType::Primitive(primitive) if one_byte.contains(primitive))
        && field.shape != FieldShape::Single
}

fn hint_and_default(field: &Field, order: &[&Definition]) -> (String, String) {
    let (hint, zero) = match &field.element {
        FieldType::Primitive(Primitive::Bool) => ("bool".to_owned(), "False".to_owned()),
        FieldType::Primitive(Primitive::Float32 | Primitive::Float64) => {
            ("float".to_owned(), "0.0".to_owned())
        }
        FieldType::Primitive(_) => ("int".to_owned(), "0".to_owned()),
        FieldType::Text(_) | FieldType::WideText(_) => ("str".to_owned(), "\"\"".to_owned()),
        FieldType::Message(name) => {
            let class = class_name(name, order);
            (class.clone(), format!("{class}()"))
        }
    };

    match default_of(field) {
        Some(Value::List(values)) if is_octets(field) => {
            let octet = |value: &Value| match value {
                Value::Uint(number) => format!("\\x{number:02x}"),
                _ => String::new(),
            };
            let octets: String = values.iter().map(octet).collect();
            return ("bytes".to_owned(), format!("b\"{octets}\""));
        }
        Some(Value::List(values)) => {
            let values: Vec<String> = values.iter().map(literal).collect();
            let values = values.join(", ");
            let default = format!("_field(default_factory=lambda: [{values}])");
            return (format!("list[{hint}]"), default);
        }
        Some(value) => return (hint, literal(&value)),
        None => {}
    }
    let is_message = matches!(field.element, FieldType::Message(_));
    match field.shape {
        FieldShape::Single if is_message => {
            // Of the module: a field may have the name of its class.
            (hint, format!("_field(default_factory=lambda: {zero})"))
        }
        FieldShape::Single => (hint, zero),
        FieldShape::Array(count) if is_octets(field) => {
            ("bytes".to_owned(), format!("b\"\\0\" * {count}"))
        }
        FieldShape::Array(count) => {
            let values = format!("[{zero} for _ in range({count})]");
            (format!("list[{hint}]"), format!("_field(default_factory=lambda: {values})"))
        }
        _ if is_octets(field) => ("bytes".to_owned(), "b\"\"".to_owned()),
        _ => (format!("list[{hint}]"), "_field(default_factory=lambda: [])".to_owned()),
    }
}

fn literal(value: &Value) -> String {
    match value {
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Float32(number) => format!("{number:?}"),
        Value::Float64(number) => format!("{number:?}"),
        Value::Text(bytes) => quoted(&String::from_utf8_lossy(bytes)),
        Value::List(_) | Value::Message(_) => String::new(),
    }
}

const fn code_of(primitive: Primitive) -> &'static str {
    match primitive {
        Primitive::Bool => "?",
        Primitive::Byte | Primitive::Char | Primitive::Uint8 => "B",
        Primitive::Int8 => "b",
        Primitive::Int16 => "h",
        Primitive::Uint16 => "H",
        Primitive::Int32 => "i",
        Primitive::Uint32 => "I",
        Primitive::Int64 => "q",
        Primitive::Uint64 => "Q",
        Primitive::Float32 => "f",
        Primitive::Float64 => "d",
    }
}

/// The number of elements as an argument: `None` for one that the message carries.
fn count_and_most(shape: FieldShape) -> (String, String) {
    match shape {
        FieldShape::Array(count) => (count.to_string(), "None".to_owned()),
        FieldShape::Bounded(most) => ("None".to_owned(), most.to_string()),
        FieldShape::Single | FieldShape::Sequence => ("None".to_owned(), "None".to_owned()),
    }
}

fn write_line(field: &Field) -> String {
    let own = format!("self.{}", attribute(field));
    let (count, most) = count_and_most(field.shape);
    match (&field.element, field.shape) {
        (FieldType::Primitive(primitive), FieldShape::Single) => {
            format!("out.number(\"{}\", {}, {own})", code_of(*primitive), primitive.bytes())
        }
        (FieldType::Primitive(primitive), _) => format!(
            "out.numbers(\"{}\", {}, {own}, {count}, {most})",
            code_of(*primitive),
            primitive.bytes()
        ),
        (FieldType::Text(longest), FieldShape::Single) => format!("out.text({own}, {longest})"),
        (FieldType::Text(longest), _) => {
            format!("out.each({own}, {count}, {most}, lambda text: out.text(text, {longest}))")
        }
        (FieldType::WideText(longest), FieldShape::Single) => format!("out.wide({own}, {longest})"),
        (FieldType::WideText(longest), _) => {
            format!("out.each({own}, {count}, {most}, lambda text: out.wide(text, {longest}))")
        }
        (FieldType::Message(_), FieldShape::Single) => format!("{own}._write(out)"),
        (FieldType::Message(_), _) => {
            format!("out.each({own}, {count}, {most}, lambda inner: inner._write(out))")
        }
    }
}

fn read_line(field: &Field, order: &[&Definition]) -> String {
    let own = format!("own.{}", attribute(field));
    let (count, _) = count_and_most(field.shape);
    match (&field.element, field.shape) {
        (FieldType::Primitive(primitive), FieldShape::Single) => {
            format!("{own} = of.number(\"{}\", {})", code_of(*primitive), primitive.bytes())
        }
        (FieldType::Primitive(_), _) if is_octets(field) => format!("{own} = of.octets({count})"),
        (FieldType::Primitive(primitive), _) => {
            format!(
                "{own} = of.numbers(\"{}\", {}, {count})",
                code_of(*primitive),
                primitive.bytes()
            )
        }
        (FieldType::Text(_), FieldShape::Single) => format!("{own} = of.text()"),
        (FieldType::Text(_), _) => format!("{own} = of.each({count}, of.text)"),
        (FieldType::WideText(_), FieldShape::Single) => format!("{own} = of.wide()"),
        (FieldType::WideText(_), _) => format!("{own} = of.each({count}, of.wide)"),
        (FieldType::Message(name), FieldShape::Single) => {
            format!("{own} = {}._read(of)", class_name(name, order))
        }
        (FieldType::Message(name), _) => {
            format!("{own} = of.each({count}, lambda: {}._read(of))", class_name(name, order))
        }
    }
}
