//! Why a file describes no segment.

use crate::esi::EsiError;

/// Why a file makes no segment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// Not TOML, or a key or value that has no meaning here.
    #[error("the segment file cannot be read: {0}")]
    Syntax(String),
    /// The file cannot be read.
    #[error("cannot read {file}: {why}")]
    Unread {
        /// Path of the file.
        file: String,
        /// What the system says.
        why: String,
    },
    /// Neither `kind` nor `esi`.
    #[error("type \"{0}\" says neither what kind it is nor which ESI file it is from; give it `kind` or `esi`")]
    NoKind(String),
    /// A key that an ESI file tells.
    #[error("type \"{kind}\" comes from an ESI file, which tells its {what}; take the key `{what}` out")]
    ToldByEsi {
        /// Name of the type.
        kind: String,
        /// The key.
        what: &'static str,
    },
    /// An ESI file that makes no device.
    #[error("the ESI file {file} does not fit: {why}")]
    Esi {
        /// Path of the file, as it was given.
        file: String,
        /// Why.
        why: EsiError,
    },
    /// No `[[devices]]`.
    #[error("the segment file lists no device; add a [[devices]] table with a type and a name")]
    NoDevices,
    /// More than station addresses are good for here.
    #[error("the segment file lists {0} devices, at most 1024 are simulated")]
    TooManyDevices(usize),
    /// A device of a type that is not there.
    #[error("device \"{device}\" has type \"{wanted}\", which the file does not have under [types]")]
    UnknownType {
        /// Name of the device.
        device: String,
        /// What its `type` says.
        wanted: String,
    },
    /// A table without `name` and `names`.
    #[error("a [[devices]] table of type \"{0}\" has no name; give it `name` or `names`")]
    NoName(String),
    /// Two devices of one name.
    #[error("two devices are called \"{0}\"; names tell devices apart and may stand once")]
    DuplicateName(String),
    /// `after` names a device that does not come earlier.
    #[error("device \"{device}\" is to stand after \"{after}\", which no earlier device is called")]
    UnknownParent {
        /// Name of the device.
        device: String,
        /// What its `after` says.
        after: String,
    },
    /// The port is taken, or the device before has no such port.
    #[error("device \"{device}\" finds no free port at \"{after}\", which has {ports} of them with the incoming one")]
    NoPort {
        /// Name of the device.
        device: String,
        /// Name of the device before it.
        after: String,
        /// Ports of the device before.
        ports: u8,
    },
    /// A number out of its range.
    #[error("type \"{kind}\" has {what} = {value}, which must be {range}")]
    Range {
        /// Name of the type.
        kind: String,
        /// The key.
        what: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        range: &'static str,
    },
    /// An object list that cannot be mapped.
    #[error(
        "type \"{kind}\" maps \"{object}\", which it does not have or cannot map; write index or index:entry in hexadecimal, such as 6040 or 6000:1"
    )]
    Object {
        /// Name of the type.
        kind: String,
        /// The entry of the list.
        object: String,
    },
    /// A value that is no value, of an object that is none.
    #[error("the start-up value of object \"{object}\" of device \"{device}\" does not fit: {why}")]
    Startup {
        /// Name of the device.
        device: String,
        /// The object, as it stands there.
        object: String,
        /// Why.
        why: String,
    },
    /// A watchdog that devices cannot have.
    #[error("[segment] has watchdog_ms = {0}, which must be 0.1 to 6553.5")]
    Watchdog(String),
    /// A fault that there is not, or that wants a device.
    #[error("the file plans a fault \"{0}\", which there is not, or which wants a device")]
    UnknownFault(String),
    /// A fault of a device that is not there.
    #[error("the file plans a fault \"{fault}\" of device \"{device}\", which it does not list")]
    UnknownFaultDevice {
        /// Its kind.
        fault: String,
        /// What its `device` says.
        device: String,
    },
}
