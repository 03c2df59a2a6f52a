//! C: a header with a structure and two functions for each type. Needs the C library only.

use std::fmt::Write as _;

use super::{Plain, constant_name, free, hash_text, in_order, package_and_name, plain, quoted};
use crate::definition::{Definition, Field, FieldShape, FieldType, Primitive};
use crate::error::MessageError;
use crate::type_set::TypeSet;

/// What every generated header begins with.
const RUNTIME: &str = include_str!("runtime.h");

/// Words of C and C++, and macros that compilers define.
const KEYWORDS: &str = "\
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t \
    char8_t class co_await co_return co_yield compl concept const const_cast consteval constexpr \
    constinit continue decltype default delete do double dynamic_cast else enum errno explicit \
    export extern false float for friend goto if inline int int16_t int32_t int64_t int8_t linux \
    long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected \
    public register reinterpret_cast requires restrict return short signed size_t sizeof static \
    static_assert static_cast stderr stdin stdout struct switch template this thread_local throw \
    true try typedef typeid typename typeof uint16_t uint32_t uint64_t uint8_t union unix unsigned \
    using virtual void volatile wchar_t while xor xor_eq";

/// Returns a C header (C11, C++17) for a type and all it uses: `struct PACKAGE_Name`,
/// `PACKAGE_Name_encode` and `PACKAGE_Name_decode`. Sequences and texts lie in memory that the
/// caller gives; defaults of a definition are the caller's, too.
///
/// # Errors
/// [`MessageError`] when a type is missing.
pub fn c(types: &TypeSet, name: &str) -> Result<String, MessageError> {
    let order = in_order(types, name)?;
    let mut code = RUNTIME.to_owned();
    code.push_str(&declarations(&order));
    for definition in &order {
        code.push_str(&codec(definition, &hash_text(types, &definition.name)?));
    }
    Ok(code)
}

/// Types that contain lists of each other need to know of each other.
fn declarations(order: &[&Definition]) -> String {
    let is_later = |place: usize, field: &Field| match &field.element {
        FieldType::Message(name) => order[place..].iter().any(|other| other.name == *name),
        _ => false,
    };
    let has_circle =
        |(place, of): (usize, &&Definition)| of.fields.iter().any(|it| is_later(place, it));
    if !order.iter().enumerate().any(has_circle) {
        return String::new();
    }
    let one = |of: &&Definition| {
        let own = identifier(&of.name);
        format!(
            "struct {own};\nstatic inline void {own}_put(struct onbeat_cdr *c, const struct {own} *m);\n\
             static inline void {own}_get(struct onbeat_cdr *c, struct {own} *m);\n"
        )
    };
    format!("\n{}", order.iter().map(one).collect::<String>())
}

fn identifier(full: &str) -> String {
    let (package, name) = package_and_name(full);
    format!("{package}_{name}")
}

const fn c_type(primitive: Primitive) -> &'static str {
    match primitive {
        Primitive::Bool | Primitive::Byte | Primitive::Char | Primitive::Uint8 => "uint8_t",
        Primitive::Int8 => "int8_t",
        Primitive::Int16 => "int16_t",
        Primitive::Uint16 => "uint16_t",
        Primitive::Int32 => "int32_t",
        Primitive::Uint32 => "uint32_t",
        Primitive::Int64 => "int64_t",
        Primitive::Uint64 => "uint64_t",
        Primitive::Float32 => "float",
        Primitive::Float64 => "double",
    }
}

fn element_type(field: &Field) -> String {
    match &field.element {
        FieldType::Primitive(primitive) => c_type(*primitive).to_owned(),
        FieldType::Text(_) => "struct onbeat_text".to_owned(),
        FieldType::WideText(_) => "struct onbeat_wide_text".to_owned(),
        FieldType::Message(name) => format!("struct {}", identifier(name)),
    }
}

fn codec(of: &Definition, hash: &str) -> String {
    let own = identifier(&of.name);
    let guard = own.to_uppercase();
    let mut code = format!(
        "\n#ifndef {guard}_TYPE\n#define {guard}_TYPE \"{}\"\n#define {guard}_HASH \"{hash}\"\n",
        of.name
    );
    for constant in &of.constants {
        let value = match (plain(constant), constant.primitive) {
            (Plain::Text(text), _) => quoted(&text),
            (Plain::Flag(on), _) => u8::from(on).to_string(),
            (Plain::Number(number), Primitive::Uint64) => format!("({number}ULL)"),
            // C has no number of which it would be the negative.
            (Plain::Number(number), Primitive::Int64) if number == i64::MIN.to_string() => {
                format!("({} - 1)", i64::MIN + 1)
            }
            (Plain::Number(number), _) => format!("({number})"),
        };
        let _ = writeln!(code, "#define {guard}_{} {value}", constant_name(&constant.name));
    }

    let _ = writeln!(code, "\nstruct {own} {{");
    for field in &of.fields {
        if !field.comment.is_empty() {
            let _ = writeln!(
                code,
                "    /* {} */",
                field.comment.replace("*/", "* /").replace("/*", "/ *")
            );
        }
        let element = element_type(field);
        let name = free(&field.name, KEYWORDS);
        let _ = match field.shape {
            FieldShape::Single => writeln!(code, "    {element} {name};"),
            FieldShape::Array(count) => writeln!(code, "    {element} {name}[{count}];"),
            FieldShape::Bounded(_) | FieldShape::Sequence => {
                writeln!(code, "    struct {{ uint32_t count; {element} *at; }} {name};")
            }
        };
    }
    if of.fields.is_empty() {
        code.push_str("    uint8_t structure_needs_at_least_one_member;\n");
    }
    code.push_str("};\n");

    code.push_str(&function(of, &own, Direction::Put));
    code.push_str(&function(of, &own, Direction::Get));
    code.push_str(&ends(&own));
    code.push_str("#endif\n");
    code
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Put,
    Get,
}

/// The function that puts or gets all fields.
fn function(of: &Definition, own: &str, direction: Direction) -> String {
    let (word, constness) = match direction {
        Direction::Put => ("put", "const "),
        Direction::Get => ("get", ""),
    };
    let mut code = format!(
        "\nstatic inline void {own}_{word}(struct onbeat_cdr *c, {constness}struct {own} *m) {{\n"
    );
    // A list may hold its own type, as deep as the bytes say.
    if direction == Direction::Get {
        code.push_str("    if (++c->depth > 128) c->failed = 1;\n");
    }
    if of.fields.is_empty() {
        let _ = writeln!(
            code,
            "    onbeat_cdr_{word}(c, &m->structure_needs_at_least_one_member, 1, 1);"
        );
    }
    for field in &of.fields {
        let name = free(&field.name, KEYWORDS);
        let at = match field.shape {
            FieldShape::Single | FieldShape::Array(_) => format!("m->{name}"),
            FieldShape::Bounded(_) | FieldShape::Sequence => format!("m->{name}.at"),
        };
        let count = match field.shape {
            FieldShape::Single => "1".to_owned(),
            FieldShape::Array(count) => count.to_string(),
            FieldShape::Bounded(_) | FieldShape::Sequence => format!("m->{name}.count"),
        };
        code.push_str(&count_lines(field, &name, direction));
        code.push_str(&element_lines(field, &at, &count, word));
    }
    if direction == Direction::Get {
        code.push_str("    c->depth--;\n");
    }
    code.push_str("}\n");
    code
}

fn count_lines(field: &Field, name: &str, direction: Direction) -> String {
    let most = match field.shape {
        FieldShape::Bounded(most) => most.to_string(),
        FieldShape::Sequence => "UINT32_MAX".to_owned(),
        FieldShape::Single | FieldShape::Array(_) => return String::new(),
    };
    match direction {
        Direction::Put => format!("    onbeat_cdr_put_count(c, m->{name}.count, {most});\n"),
        // In C++ a pointer to nothing in particular needs its type.
        Direction::Get => {
            let element = element_type(field);
            format!(
                "    m->{name}.count = onbeat_cdr_get_count(c, {most});\n    m->{name}.at = \
                 ({element} *)onbeat_cdr_memory(c, m->{name}.count, sizeof({element}));\n"
            )
        }
    }
}

fn element_lines(field: &Field, at: &str, count: &str, word: &str) -> String {
    let is_single = field.shape == FieldShape::Single;
    let address = if is_single { format!("&{at}") } else { at.to_owned() };
    if let FieldType::Primitive(primitive) = &field.element {
        return format!("    onbeat_cdr_{word}(c, {address}, {}, {count});\n", primitive.bytes());
    }

    let one = if is_single { address } else { format!("&{at}[i]") };
    let call = match &field.element {
        FieldType::Text(most) => format!("onbeat_cdr_{word}_text(c, {one}, {most});"),
        FieldType::WideText(most) => format!("onbeat_cdr_{word}_wide(c, {one}, {most});"),
        FieldType::Message(name) => format!("{}_{word}(c, {one});", identifier(name)),
        FieldType::Primitive(_) => String::new(),
    };
    if is_single {
        format!("    {call}\n")
    } else {
        format!("    for (uint32_t i = 0; i < {count} && !c->failed; i++) {call}\n")
    }
}

/// The two functions that a program calls.
fn ends(own: &str) -> String {
    format!(
        "
/* Encodes a message into `room` bytes; returns its length, or -1 if it does not fit or a sequence is too long. */
static inline int64_t {own}_encode(const struct {own} *m, uint8_t *bytes, size_t room) {{
    struct onbeat_cdr c = onbeat_cdr_over(bytes, room, NULL, 0);
    onbeat_cdr_put_header(&c);
    {own}_put(&c, m);
    return c.failed ? -1 : (int64_t)(c.at + 4);
}}

/* Decodes a message. Its sequences and texts lie in `memory`, aligned to 8. Returns the bytes of memory used, or -1 if
   the message is not valid or the memory too small. */
static inline int64_t {own}_decode(struct {own} *m, const uint8_t *bytes, size_t length, void *memory, size_t room) {{
    struct onbeat_cdr c = onbeat_cdr_over((uint8_t *)bytes, length, memory, room);
    onbeat_cdr_get_header(&c);
    {own}_get(&c, m);
    return c.failed ? -1 : (int64_t)c.used;
}}
"
    )
}
