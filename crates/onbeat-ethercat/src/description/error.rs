//! Errors of segment files.

use std::fmt::Display;

use crate::esi::EsiError;

use super::FaultValueError;

/// Why a file does not describe a valid segment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// Invalid TOML, an unknown key, or an invalid value.
    #[error("the segment file cannot be read: {0}")]
    Syntax(String),
    /// The file cannot be read.
    #[error("cannot read {file}: {why}")]
    Unread {
        /// Path of the file.
        file: String,
        /// Error of the system.
        why: String,
    },
    /// Neither `kind` nor `esi`.
    #[error("type \"{0}\" has neither `kind` nor `esi`; add one of them")]
    NoKind(String),
    /// A key whose value is in the ESI file.
    #[error(
        "type \"{kind}\" comes from an ESI file, which defines its {what}; remove the key `{what}`"
    )]
    GivenByEsi {
        /// Name of the type.
        kind: String,
        /// The key.
        what: &'static str,
    },
    /// An ESI file without a usable device.
    #[error("the ESI file {file} cannot be used: {why}")]
    Esi {
        /// Path of the file, as it was given.
        file: String,
        /// Error in the ESI file.
        why: EsiError,
    },
    /// `pdos` or start-up values that the ESI file does not permit.
    #[error("type \"{kind}\": {why}")]
    Pdos {
        /// Name of the type.
        kind: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// A key that needs an ESI file.
    #[error("type \"{kind}\" has `{what}`, which needs an ESI file; remove it, or add `esi`")]
    NeedsEsi {
        /// Name of the type.
        kind: String,
        /// The key.
        what: &'static str,
    },
    /// No operation mode of the distributed clock with this name.
    #[error(
        "device \"{device}\" has no clock mode \"{wanted}\" in its ESI file; dc can be: {there}"
    )]
    UnknownClockMode {
        /// Name of the device.
        device: String,
        /// The mode in the file.
        wanted: String,
        /// Modes of the ESI device.
        there: String,
    },
    /// No `[[devices]]`.
    #[error("the segment file lists no device; add a [[devices]] table with a type and a name")]
    NoDevices,
    /// More devices than supported.
    #[error("the segment file lists {0} devices, at most 1024 are simulated")]
    TooManyDevices(usize),
    /// A device of an unknown type.
    #[error("device \"{device}\" has type \"{wanted}\", which is not under [types]")]
    UnknownType {
        /// Name of the device.
        device: String,
        /// Value of `type`.
        wanted: String,
    },
    /// A table without `name` and `names`.
    #[error("a [[devices]] table of type \"{0}\" has no name; give it `name` or `names`")]
    NoName(String),
    /// Two devices with the same name.
    #[error("two devices are called \"{0}\"; give each device its own name")]
    DuplicateName(String),
    /// `after` names a device that does not come earlier.
    #[error("device \"{device}\" has after = \"{after}\", but no earlier device has this name")]
    UnknownParent {
        /// Name of the device.
        device: String,
        /// Value of `after`.
        after: String,
    },
    /// The port is in use, or the previous device does not have it.
    #[error(
        "device \"{device}\": no free port at \"{after}\", which has {ports} ports including the incoming one"
    )]
    NoPort {
        /// Name of the device.
        device: String,
        /// Name of the previous device.
        after: String,
        /// Number of ports of the previous device.
        ports: u8,
    },
    /// A value out of range.
    #[error("type \"{kind}\" has {what} = {value}, which must be {range}")]
    Range {
        /// Name of the type.
        kind: String,
        /// The key.
        what: &'static str,
        value: String,
        /// Valid range.
        range: &'static str,
    },
    /// An object that cannot be mapped.
    #[error(
        "type \"{kind}\" maps \"{object}\", which does not exist or cannot be mapped; write index or index:entry in hexadecimal, such as 6040 or 6000:1"
    )]
    Object {
        /// Name of the type.
        kind: String,
        /// The entry of the list.
        object: String,
    },
    /// An invalid start-up value.
    #[error("the start-up value of object \"{object}\" of device \"{device}\" is not valid: {why}")]
    Startup {
        /// Name of the device.
        device: String,
        /// The object, as in the file.
        object: String,
        /// What is wrong.
        why: String,
    },
    /// An optional group that cannot come and go.
    #[error("the optional group \"{group}\" {why}")]
    Group {
        /// Name of the group.
        group: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// A watchdog time that devices do not support.
    #[error("[segment] has watchdog_ms = {0}, which must be 0.1 to 6553.5")]
    Watchdog(String),
    /// A value that a fault cannot have.
    #[error(transparent)]
    FaultValue(#[from] FaultValueError),
    /// An unknown fault, or one that needs a device.
    #[error("the file has a fault \"{0}\", which does not exist or needs a device")]
    UnknownFault(String),
    #[error("the file has a fault \"{fault}\" of device \"{device}\", which it does not list")]
    UnknownFaultDevice {
        /// Kind of the fault.
        fault: String,
        /// Value of `device`.
        device: String,
    },
}

/// Refuses the value of a key of a type.
pub(super) fn out_of_range<T>(
    kind: &str,
    what: &'static str,
    value: impl Display,
    range: &'static str,
) -> Result<T, DescriptionError> {
    let (kind, value) = (kind.to_owned(), value.to_string());
    Err(DescriptionError::Range { kind, what, value, range })
}
