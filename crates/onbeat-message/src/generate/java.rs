//! Java 8: a class for a type, with a nested class for each type it uses. Needs the JDK only.

use std::fmt::Write as _;

use super::{Plain, constant_name, free, hash_text, in_order, package_and_name, plain, quoted};
use crate::definition::{Constant, Definition, Field, FieldShape, FieldType, Primitive};
use crate::error::MessageError;
use crate::json_value::default_of;
use crate::type_set::TypeSet;
use crate::value::Value;

/// What every generated class contains.
const RUNTIME: &str = include_str!("Runtime.java.txt");

const KEYWORDS: &str = "\
    _ false java null true abstract assert boolean break byte case catch char class const continue \
    default do double else enum extends final finally float for goto if implements import \
    instanceof int interface long native new package private protected public return short static \
    strictfp super switch synchronized this throw throws transient try void volatile while";

/// Words that are names of members, and not of classes.
const NO_CLASSES: &str = "permits record sealed var yield";

/// Returns a Java class in the package of its type. Unsigned numbers have the next wider type, but
/// for bytes in arrays and 64 bits. Decoding into the same object again allocates nothing unless
/// lengths change.
///
/// # Errors
/// [`MessageError`] when a type is missing.
pub fn java(types: &TypeSet, name: &str) -> Result<String, MessageError> {
    let order = in_order(types, name)?;
    let (last, used) =
        order.split_last().map_or((None, &[][..]), |(last, used)| (Some(last), used));
    let mut code = String::new();
    if let Some(last) = last {
        let package = identifier(package_and_name(&last.name).0);
        let own = class_name(&last.name, &order);
        let _ = write!(
            code,
            "// Generated from its definition by `onbeat message generate`.\npackage {package};\n\n\
             /** {}. */\npublic final class {own} {{\n",
            last.name
        );
        code.push_str(&members(last, &order, &hash_text(types, &last.name)?));
        for definition in used {
            let inner = class_name(&definition.name, &order);
            let _ = write!(
                code,
                "\n/** {}. */\npublic static final class {inner} {{\n",
                definition.name
            );
            code.push_str(&members(definition, &order, &hash_text(types, &definition.name)?));
            code.push_str("}\n");
        }
        code.push('\n');
        code.push_str(RUNTIME);
        code.push_str("}\n");
    }
    Ok(code)
}

/// The last one has its own name, which is that of its file.
fn class_name(full: &str, order: &[&Definition]) -> String {
    let is_last = order.last().is_some_and(|last| last.name == full);
    let own = |name: &str| free(&identifier(name), NO_CLASSES);
    super::class_name(full, if is_last { &[] } else { order }, own)
}

fn identifier(name: &str) -> String {
    free(name, KEYWORDS)
}

const fn is_octet(primitive: Primitive) -> bool {
    matches!(primitive, Primitive::Byte | Primitive::Char | Primitive::Uint8)
}

/// The Java type of a number, alone or in an array.
const fn number_type(primitive: Primitive, is_single: bool) -> &'static str {
    match primitive {
        Primitive::Bool => "boolean",
        Primitive::Byte | Primitive::Char | Primitive::Uint8 if is_single => "int",
        Primitive::Byte | Primitive::Char | Primitive::Uint8 | Primitive::Int8 => "byte",
        Primitive::Int16 => "short",
        Primitive::Uint16 | Primitive::Int32 => "int",
        Primitive::Uint32 | Primitive::Int64 | Primitive::Uint64 => "long",
        Primitive::Float32 => "float",
        Primitive::Float64 => "double",
    }
}

fn element_type(field: &Field, order: &[&Definition]) -> String {
    let is_single = field.shape == FieldShape::Single;
    match &field.element {
        FieldType::Primitive(primitive) => number_type(*primitive, is_single).to_owned(),
        FieldType::Text(_) | FieldType::WideText(_) => "java.lang.String".to_owned(),
        FieldType::Message(name) => class_name(name, order),
    }
}

fn constant(of: &Constant) -> String {
    let kind = number_type(of.primitive, true);
    let (kind, value) = match (plain(of), of.primitive) {
        (Plain::Text(text), _) => ("java.lang.String", quoted(&text)),
        (Plain::Flag(on), _) => (kind, on.to_string()),
        (Plain::Number(number), Primitive::Float32) => (kind, format!("{number}f")),
        (Plain::Number(number), Primitive::Uint32 | Primitive::Int64) => {
            (kind, format!("{number}L"))
        }
        (Plain::Number(number), Primitive::Uint64) => {
            (kind, format!("java.lang.Long.parseUnsignedLong(\"{number}\")"))
        }
        (Plain::Number(number), _) => (kind, number),
    };
    format!("    public static final {kind} {} = {value};\n", constant_name(&of.name))
}

fn members(of: &Definition, order: &[&Definition], hash: &str) -> String {
    let own = class_name(&of.name, order);
    let mut code = format!(
        "    public static final java.lang.String TYPE = \"{}\";\n    public static final java.lang.String HASH = \"{hash}\";\n",
        of.name
    );
    code.extend(of.constants.iter().map(constant));
    for field in &of.fields {
        if !field.comment.is_empty() {
            let _ = writeln!(
                code,
                "    /** {} */",
                field.comment.replace("*/", "* /").replace("\\u", "\\ u")
            );
        }
        let element = element_type(field, order);
        let name = identifier(&field.name);
        let several = if field.shape == FieldShape::Single { "" } else { "[]" };
        let value = initial(field, &element);
        let _ = writeln!(code, "    public {element}{several} {name}{value};");
    }

    code.push_str(&codec(of, order));
    let _ = write!(
        code,
        "
    /** Returns the message as bytes. */
    public byte[] encode() {{
        Cdr_Writer out = new Cdr_Writer();
        write(out);
        return out.toBytes();
    }}

    /** Decodes a message into this object. Bytes behind its last field are ignored. */
    public {own} decode(byte[] bytes) {{
        return decode(java.nio.ByteBuffer.wrap(bytes), 0, bytes.length);
    }}

    /** Decodes the message of {{@code length}} bytes at {{@code begin}} into this object. */
    public {own} decode(java.nio.ByteBuffer bytes, int begin, int length) {{
        read(new Cdr_Reader(bytes, begin, length));
        return this;
    }}
"
    );
    code
}

/// What is behind the name of a field: its default, or 0 or empty.
fn initial(of: &Field, element: &str) -> String {
    if let Some(value) = default_of(of) {
        return match &value {
            Value::List(values) => {
                let all: Vec<String> = values.iter().map(|it| literal(it, of)).collect();
                format!(" = {{{}}}", all.join(", "))
            }
            one => format!(" = {}", literal(one, of)),
        };
    }
    match (of.shape, &of.element) {
        (FieldShape::Array(count), _) => format!(" = new {element}[{count}]"),
        (FieldShape::Bounded(_) | FieldShape::Sequence, _) => format!(" = new {element}[0]"),
        (FieldShape::Single, FieldType::Text(_) | FieldType::WideText(_)) => " = \"\"".to_owned(),
        (FieldShape::Single, FieldType::Message(_)) => format!(" = new {element}()"),
        (FieldShape::Single, FieldType::Primitive(_)) => String::new(),
    }
}

fn literal(value: &Value, of: &Field) -> String {
    let is_single = of.shape == FieldShape::Single;
    let kind = match &of.element {
        FieldType::Primitive(primitive) => number_type(*primitive, is_single),
        _ => "",
    };
    // Java has no numbers of 64 bits without a sign: those above have the same bits.
    let whole = |number: i64| match kind {
        "long" => format!("{number}L"),
        "byte" => format!("(byte) {number}"),
        _ => number.to_string(),
    };
    match value {
        Value::Bool(on) => on.to_string(),
        Value::Int(number) => whole(*number),
        Value::Uint(number) => whole(number.cast_signed()),
        Value::Float32(number) => format!("{number:?}f"),
        Value::Float64(number) => format!("{number:?}"),
        Value::Text(bytes) => quoted(&String::from_utf8_lossy(bytes)),
        Value::List(_) | Value::Message(_) => String::new(),
    }
}

fn codec(of: &Definition, order: &[&Definition]) -> String {
    let mut writes = String::new();
    let mut reads = String::new();
    if of.fields.is_empty() {
        writes.push_str("        out.number(0, 1);\n");
        reads.push_str("        of.number(1);\n");
    }
    for field in &of.fields {
        // Fields may have the names of the variables beside them.
        let name = format!("this.{}", identifier(&field.name));
        let element = element_type(field, order);
        let one =
            if field.shape == FieldShape::Single { name.clone() } else { format!("{name}[i]") };
        let write = write_one(field, &one, &element);
        let read = read_one(field, &one, &element);
        let (wanted, most) = match field.shape {
            FieldShape::Single => {
                let _ = writeln!(writes, "        {write}");
                let _ = writeln!(reads, "        {read}");
                continue;
            }
            FieldShape::Array(count) => (count.to_string(), "-1".to_owned()),
            FieldShape::Bounded(most) => ("-1".to_owned(), most.to_string()),
            FieldShape::Sequence => ("-1".to_owned(), "-1".to_owned()),
        };
        let _ = writeln!(writes, "        out.count({name}.length, {wanted}, {most});");
        if wanted == "-1" {
            let _ = writeln!(writes, "        out.number({name}.length, 4);");
            let count = format!("countOf_{}", field.name);
            let _ = writeln!(reads, "        int {count} = of.count({most});");
            let _ = writeln!(
                reads,
                "        if ({name}.length != {count}) {name} = new {element}[{count}];"
            );
        }
        let _ = writeln!(writes, "        for (int i = 0; i < {name}.length; i++) {write}");
        let read = format!("for (int i = 0; i < {name}.length; i++) {read}");
        // A list may hold its own type.
        let _ = match (&field.element, wanted.as_str()) {
            (FieldType::Message(_), "-1") => {
                writeln!(reads, "        of.nest(1);\n        {read}\n        of.nest(-1);")
            }
            _ => writeln!(reads, "        {read}"),
        };
    }
    format!(
        "\n    private void write(Cdr_Writer out) {{\n{writes}    }}\n\n    private void read(Cdr_Reader of) {{\n{reads}    }}\n"
    )
}

fn write_one(field: &Field, one: &str, element: &str) -> String {
    match &field.element {
        FieldType::Primitive(Primitive::Bool) => format!("out.flag({one});"),
        FieldType::Primitive(Primitive::Float32 | Primitive::Float64) => {
            format!("out.number({one});")
        }
        FieldType::Primitive(primitive) => format!("out.number({one}, {});", primitive.bytes()),
        FieldType::Text(most) => {
            // In an array that was not filled, they are null.
            format!("out.text({one} == null ? \"\" : {one}, {most});")
        }
        FieldType::WideText(most) => format!("out.wide({one} == null ? \"\" : {one}, {most});"),
        FieldType::Message(_) if field.shape == FieldShape::Single => {
            format!("{one}.write(out);")
        }
        FieldType::Message(_) => {
            format!("{{ if ({one} == null) {one} = new {element}(); {one}.write(out); }}")
        }
    }
}

fn read_one(field: &Field, one: &str, element: &str) -> String {
    match &field.element {
        FieldType::Primitive(Primitive::Bool) => format!("{one} = of.number(1) != 0;"),
        FieldType::Primitive(Primitive::Float32) => {
            format!("{one} = java.lang.Float.intBitsToFloat((int) of.number(4));")
        }
        FieldType::Primitive(Primitive::Float64) => {
            format!("{one} = java.lang.Double.longBitsToDouble(of.number(8));")
        }
        FieldType::Primitive(primitive) if is_octet(*primitive) || element != "long" => {
            format!("{one} = ({element}) of.number({});", primitive.bytes())
        }
        FieldType::Primitive(primitive) => format!("{one} = of.number({});", primitive.bytes()),
        FieldType::Text(_) => format!("{one} = of.text();"),
        FieldType::WideText(_) => format!("{one} = of.wide();"),
        FieldType::Message(_) if field.shape == FieldShape::Single => format!("{one}.read(of);"),
        FieldType::Message(_) => {
            format!("{{ if ({one} == null) {one} = new {element}(); {one}.read(of); }}")
        }
    }
}
