//! Codecs in other languages, as one file each that needs nothing else.

mod c;
mod java;
mod python;
mod rust;

pub use c::c;
pub use java::java;
pub use python::python;
pub use rust::rust;

use super::definition::{Constant, Definition, FieldType, Primitive};
use super::error::MessageError;
use super::type_set::TypeSet;

/// Returns a type and all it uses, each after those it uses itself.
fn in_order<'t>(types: &'t TypeSet, name: &str) -> Result<Vec<&'t Definition>, MessageError> {
    fn add<'t>(
        of: &'t Definition,
        types: &'t TypeSet,
        above: &mut Vec<&'t str>,
        order: &mut Vec<&'t Definition>,
    ) {
        // A type may contain a list of itself, and share others many times over.
        if above.contains(&of.name.as_str()) || order.iter().any(|it| it.name == of.name) {
            return;
        }
        above.push(&of.name);
        for field in &of.fields {
            if let FieldType::Message(name) = &field.element
                && let Some(inner) = types.definition(name)
            {
                add(inner, types, above, order);
            }
        }
        above.pop();
        order.push(of);
    }

    // Nothing is missing and nothing is circular, or this is an error.
    let own = types.used(name)?;
    let mut order = Vec::new();
    if let Some(first) = own.first() {
        add(first, types, &mut Vec::new(), &mut order);
    }
    Ok(order)
}

/// Package and name of a type.
fn package_and_name(full: &str) -> (&str, &str) {
    let package = full.split('/').next().unwrap_or_default();
    (package, full.rsplit('/').next().unwrap_or_default())
}

/// Returns whether a word is one of those of a text.
fn is_among(word: &str, words: &str) -> bool {
    words.split(' ').any(|other| other == word)
}

/// Returns a name that is none of these words.
fn free(name: &str, taken: &str) -> String {
    if is_among(name, taken) { format!("{name}_") } else { name.to_owned() }
}

/// Returns the name of a type: with its package where two types have the same; else by `own`.
fn class_name(full: &str, order: &[&Definition], own: impl Fn(&str) -> String) -> String {
    let (package, name) = package_and_name(full);
    let same = order.iter().filter(|other| package_and_name(&other.name).1 == name);
    if same.count() > 1 { format!("{package}_{name}") } else { own(name) }
}

/// Returns the name of a constant; `TYPE` and `HASH` are those of the generated code.
fn constant_name(name: &str) -> String {
    free(name, "TYPE HASH")
}

/// Returns a text in quotation marks for C, Java and Python, which know the escapes of JSON and not those of Rust.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns the hash as ROS 2 writes it.
fn hash_text(types: &TypeSet, name: &str) -> Result<String, MessageError> {
    let hash = types.hash(name)?;
    Ok(format!("RIHS01_{}", hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
}

/// The value of a constant, numbers as every language writes them.
#[derive(Debug, PartialEq)]
pub(super) enum Plain {
    Text(String),
    Flag(bool),
    Number(String),
}

/// Reads a value as `rosidl_adapter` does; what is not of its type stays a text.
pub(super) fn plain(of: &Constant) -> Plain {
    let value = of.value.as_str();
    let number = match of.primitive {
        Primitive::Bool => match value.to_ascii_lowercase().as_str() {
            "true" | "1" => return Plain::Flag(true),
            "false" | "0" => return Plain::Flag(false),
            _ => None,
        },
        Primitive::Float32 | Primitive::Float64 => {
            let float = value.parse::<f64>().ok().filter(|it| it.is_finite());
            float.map(|it| format!("{it:?}"))
        }
        _ => whole(value).map(|it| it.to_string()),
    };
    number.map_or_else(|| Plain::Text(unquoted(value)), Plain::Number)
}

fn whole(value: &str) -> Option<i128> {
    let (sign, digits) = match value.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, value.strip_prefix('+').unwrap_or(value)),
    };
    let digits = digits.to_ascii_lowercase();
    let based = [("0x", 16), ("0o", 8), ("0b", 2)]
        .into_iter()
        .find_map(|(prefix, base)| digits.strip_prefix(prefix).map(|digits| (digits, base)));
    let (digits, base) = based.unwrap_or((digits.as_str(), 10));
    i128::from_str_radix(digits, base).ok()?.checked_mul(sign)
}

pub(super) fn unquoted(value: &str) -> String {
    let inner = |quote: char| value.strip_prefix(quote).and_then(|it| it.strip_suffix(quote));
    match (inner('"'), inner('\'')) {
        (Some(inner), _) => inner.replace("\\\"", "\""),
        (None, Some(inner)) => inner.replace("\\'", "'"),
        (None, None) => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_what_rosidl_makes_of_them() {
        let number = |text: &str| Plain::Number(text.to_owned());
        let text = |text: &str| Plain::Text(text.to_owned());
        for (line, wanted) in [
            ("uint8 A=0x10", number("16")),
            ("int32 A=-0X1f", number("-31")),
            ("uint16 A=0b101", number("5")),
            ("uint64 A=18446744073709551615", number("18446744073709551615")),
            ("char A=65", number("65")),
            ("float32 A=.5", number("0.5")),
            ("float64 A=+3", number("3.0")),
            ("float64 A=1e-7", number("1e-7")),
            ("bool A=True", Plain::Flag(true)),
            ("bool A=0", Plain::Flag(false)),
            ("string A=1.0", text("1.0")),
            ("string A='7'", text("7")),
            ("string A=true", text("true")),
            ("string A=\"a \\\"b\\\"\"", text("a \"b\"")),
            ("string A=", text("")),
        ] {
            let parsed = Definition::parse("demo/Test", line).unwrap();
            assert_eq!(plain(&parsed.constants[0]), wanted, "{line}");
        }
    }

    /// In Python, a class sees the fields before it rather than the classes of those names.
    #[test]
    fn a_field_may_have_the_name_of_its_class() {
        let text = "pose pose\npose goal\n===\nMSG: demo/pose\nfloat64 x\n";
        let types = TypeSet::from_text("demo/plan", text).unwrap();
        let code = python(&types, "demo/plan").unwrap();
        assert!(
            code.contains("    goal: pose = _field(default_factory=lambda: pose())\n"),
            "{code}"
        );
    }

    #[test]
    fn a_new_message_has_the_defaults_of_its_definition() {
        let text = "float64 w 1\nfloat32 f -.5\nbool on true\nuint64 big 18446744073709551615\nuint32 n 7\nstring s \"a\"\n\
                    wstring v 'b'\nuint8[2] raw [1, 200]\nint16[] list [-1, 2]\nstring[] names ['x']\nuint8 wrong 300\n";
        let types = TypeSet::from_text("demo/A", text).unwrap();
        let has = |code: Result<String, MessageError>, lines: [&str; 11]| {
            let code = code.unwrap();
            for line in lines {
                assert!(code.contains(line), "{line}: {code}");
            }
        };
        has(
            rust(&types, "demo/A"),
            [
                "w: 1.0,",
                "f: -0.5,",
                "on: true,",
                "big: 18446744073709551615,",
                "n: 7,",
                "s: ::std::borrow::ToOwned::to_owned(\"a\"),",
                "v: WideText(::std::borrow::ToOwned::to_owned(\"b\")),",
                "raw: [1, 200],",
                "list: ::std::vec![-1, 2],",
                "names: ::std::vec![::std::borrow::ToOwned::to_owned(\"x\")],",
                "wrong: ::core::default::Default::default(),",
            ],
        );
        has(
            python(&types, "demo/A"),
            [
                "w: float = 1.0\n",
                "f: float = -0.5\n",
                "on: bool = True\n",
                "big: int = 18446744073709551615\n",
                "n: int = 7\n",
                "s: str = \"a\"\n",
                "v: str = \"b\"\n",
                "raw: bytes = b\"\\x01\\xc8\"\n",
                "list: list[int] = _field(default_factory=lambda: [-1, 2])\n",
                "names: list[str] = _field(default_factory=lambda: [\"x\"])\n",
                "wrong: int = 0\n",
            ],
        );
        has(
            java(&types, "demo/A"),
            [
                "double w = 1.0;",
                "float f = -0.5f;",
                "boolean on = true;",
                "long big = -1L;",
                "long n = 7L;",
                "String s = \"a\";",
                "String v = \"b\";",
                "byte[] raw = {(byte) 1, (byte) 200};",
                "short[] list = {-1, 2};",
                "String[] names = {\"x\"};",
                "int wrong;",
            ],
        );
    }

    /// Java has restricted names since 10, which fields may have.
    #[test]
    fn a_class_has_a_name_that_java_permits() {
        let types = TypeSet::from_text("demo/record", "var var\n===\nMSG: demo/var\nint8 yield\n");
        let code = java(&types.unwrap(), "demo/record").unwrap();
        for line in ["final class record_ {", "final class var_ {", "var_ var = ", "byte yield;"] {
            assert!(code.contains(line), "{line}: {code}");
        }
    }

    #[test]
    fn a_text_is_one_of_its_language() {
        let text = "string NOTE='\u{26a0}\u{fe0f} e\u{301} \u{200b}\"'\n";
        let types = TypeSet::from_text("demo/A", text).unwrap();
        let literal = "\"\u{26a0}\u{fe0f} e\u{301} \u{200b}\\\"\"";
        for write in [c, java, python] {
            let code = write(&types, "demo/A").unwrap();
            assert!(code.contains(literal), "{code}");
        }
    }

    #[test]
    fn types_that_share_others_are_ordered_once() {
        let one = |number: usize| format!("T{0}[] a\nT{0}[] b\n===\nMSG: demo/T{0}\n", number + 1);
        let text = (0..40).map(one).collect::<String>() + "int8 n\n";
        let types = TypeSet::from_text("demo/T0", &text).unwrap();
        assert_eq!(in_order(&types, "demo/T0").unwrap().len(), 41);
    }

    #[test]
    fn the_largest_numbers_are_numbers_of_c() {
        let text = format!("uint64 MOST={}\nint64 LEAST={}\n", u64::MAX, i64::MIN);
        let code = c(&TypeSet::from_text("demo/A", &text).unwrap(), "demo/A").unwrap();
        for line in ["MOST (18446744073709551615ULL)", "LEAST (-9223372036854775807 - 1)"] {
            assert!(code.contains(&format!("#define DEMO_A_{line}\n")), "{code}");
        }
    }
}
