//! Codecs in other languages, as one file each that needs nothing else.

mod c;
mod java;
mod python;
mod rust;

pub use c::c;
pub use java::java;
pub use python::python;
pub use rust::rust;

use super::definition::{Definition, FieldType};
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
        // A type may contain a list of itself.
        if above.contains(&of.name.as_str()) {
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
        if !order.iter().any(|other| other.name == of.name) {
            order.push(of);
        }
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

/// Returns the name of a constant; `TYPE` and `HASH` are those of the generated code.
fn constant_name(name: &str) -> String {
    if ["TYPE", "HASH"].contains(&name) { format!("{name}_") } else { name.to_owned() }
}

/// Returns the hash as ROS 2 writes it.
fn hash_text(types: &TypeSet, name: &str) -> Result<String, MessageError> {
    let hash = types.hash(name)?;
    Ok(format!("RIHS01_{}", hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
}

/// The text of a constant without its quotes; `None` for a number.
fn quoted(value: &str) -> Option<&str> {
    let is_number = value.parse::<f64>().is_ok() || ["true", "false"].contains(&value);
    let inner = value
        .strip_prefix(['"', '\''])
        .and_then(|value| value.strip_suffix(['"', '\'']))
        .unwrap_or(value);
    (!is_number).then_some(inner)
}
