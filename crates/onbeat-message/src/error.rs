//! Errors of messages.

/// A definition is not valid, or bytes or a value do not fit their type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// A line of a definition is not valid.
    #[error("{type_name}, line {line}: `{text}` {why}")]
    Line {
        /// Type whose definition it is.
        type_name: String,
        /// Number of the line, from 1.
        line: usize,
        /// The line.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The name of a type is not valid.
    #[error("`{name}` is not the name of a message type; write PACKAGE/msg/Name")]
    TypeName {
        /// The given name.
        name: String,
    },
    /// A definition uses a type that is not defined.
    #[error("the type {name} is not defined; {user} uses it")]
    Undefined {
        /// The missing type.
        name: String,
        /// The type that uses it.
        user: String,
    },
    /// A type contains itself.
    #[error("the type {name} contains itself")]
    Circular {
        /// The type.
        name: String,
    },
    /// Messages lie within each other too deeply.
    #[error("{type_name}: messages are nested more than {most} times")]
    Deep {
        /// The type.
        type_name: String,
        /// The limit.
        most: usize,
    },
    /// Arrays make even the shortest message too long.
    #[error("{type_name}: a message has at least {bytes} bytes, and at most {most} are read")]
    Large {
        /// The type.
        type_name: String,
        /// Size of its shortest message.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// Bytes end within a value.
    #[error("{type_name}: {have} bytes end within the field {field}")]
    Short {
        /// The type.
        type_name: String,
        /// Field that is not complete.
        field: String,
        /// Number of bytes.
        have: usize,
    },
    /// Bytes that are not CDR, little-endian.
    #[error(
        "{type_name}: the message begins with {found:02x?}, and CDR, little-endian, with 00 01"
    )]
    Encoding {
        /// The type.
        type_name: String,
        /// The first bytes.
        found: Vec<u8>,
    },
    /// Bytes that are not of this type in LCM's encoding.
    #[error(
        "{type_name}: the message begins with the fingerprint {found:016x}, and this type's is {wanted:016x}; both sides need the same .lcm file"
    )]
    Fingerprint {
        /// The type.
        type_name: String,
        /// The first eight bytes; 0 without them.
        found: u64,
        /// The type's fingerprint.
        wanted: u64,
    },
    /// A value of another type than its field, or too long for it.
    #[error("{type_name}: the value of {field} is not {} {wanted}", article(.wanted))]
    Value {
        /// The type.
        type_name: String,
        /// The field.
        field: String,
        /// Type of the field.
        wanted: String,
    },
    /// A value for a field that its type does not have.
    #[error("{type_name} has no field {member}; it has {fields}")]
    NoMember {
        /// The type.
        type_name: String,
        /// The given name.
        member: String,
        /// The first fields of the type.
        fields: String,
    },
    /// Two versions of a type differ in more than appended fields.
    #[error(
        "{type_name} differs: field {number} is `{theirs}` in the channel and `{ours}` here; fields may only be appended"
    )]
    Differs {
        /// The type.
        type_name: String,
        /// Position of the first different field, from 1.
        number: usize,
        /// The channel's field.
        theirs: String,
        /// The field here.
        ours: String,
    },
}

fn article(of: &str) -> &'static str {
    if of.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" }
}
