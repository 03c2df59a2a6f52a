//! Errors of the control interface.

use std::io;
use std::path::PathBuf;

use onbeat_host::runtime_dir::RuntimeDirError;

use super::message::refusal;

/// Reasons why an operation on an image fails.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The name is not a valid file name.
    #[error(
        "\"{name}\" cannot be a bus's name; use 1 to {most} letters, digits, `-`, `_` or `.`, not beginning with `.`"
    )]
    BadName {
        /// Given name.
        name: String,
        /// Maximum length.
        most: usize,
    },
    /// The safe outputs differ in length from the layout's outputs.
    #[error(
        "the safe outputs have {given} bytes, the outputs of the layout {wanted}; pass as many, or none for zeros"
    )]
    SafeOutputs {
        /// Bytes given.
        given: usize,
        /// Bytes in the layout.
        wanted: usize,
    },
    /// A living bus process uses the name.
    #[error("a bus named \"{name}\" is already running{}; end it, or use another --name", of_process(*pid, process))]
    Taken {
        /// The name.
        name: String,
        /// Id of its process; 0 if unknown yet.
        pid: u32,
        /// Name of the process.
        process: String,
    },
    /// A system call failed.
    #[error("cannot {what} {path}: {source}{}", hint(what, source))]
    System {
        /// Attempted operation.
        what: &'static str,
        /// Path of the object.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// No image of this name exists.
    #[error(
        "no bus named \"{name}\" is running on this machine; `onbeat bus run --name {name}` starts a bus, `onbeat robot run --name {name} --trajectory commander` a robot"
    )]
    NoBus {
        /// The name.
        name: String,
    },
    /// The bus process was killed.
    #[error(
        "the bus process {pid} of \"{name}\" is gone, and its devices receive no more outputs; start the bus again"
    )]
    BusDied {
        /// The name.
        name: String,
        /// Id of its process.
        pid: u32,
    },
    /// The bus was taken down.
    #[error("the bus \"{name}\" has ended in order; start it, then open it again")]
    BusEnded {
        /// The name.
        name: String,
    },
    /// The bus process has ended, and another one has the name.
    #[error("another bus process runs as \"{name}\" now; open it again")]
    BusReplaced {
        /// The name.
        name: String,
    },
    /// The bus process does not answer: it is starting, stopped, or has no CPU time.
    #[error(
        "the process of bus \"{name}\" does not answer; it may be stopped, or starting: try again"
    )]
    NotReady {
        /// The name.
        name: String,
    },
    /// The image was created by another version of onbeat.
    #[error(
        "the image of bus \"{name}\" has layout version {theirs}, this program supports {ours}; use the same version of onbeat for both"
    )]
    OtherVersion {
        /// The name.
        name: String,
        /// Version of the image.
        theirs: u32,
        /// Version of this program.
        ours: u32,
    },
    /// There is no directory for the socket.
    #[error(transparent)]
    Directory(#[from] RuntimeDirError),
    /// Another user has made the socket.
    #[error("{} is the socket of user {uid}, neither yours nor root's; it is not used", .path.display())]
    ForeignBus {
        /// The socket.
        path: PathBuf,
        /// The user whose process listens.
        uid: u32,
    },
    /// Something else is where the socket should be.
    #[error("cannot take over {}: it is not a socket; remove it, or use another --name", .path.display())]
    NotSocket {
        /// Its path.
        path: PathBuf,
    },
    /// The bus refuses the connection.
    #[error("the bus \"{name}\" refuses the connection: {why}")]
    Refused {
        /// The name.
        name: String,
        /// The reason.
        why: Refusal,
    },
    /// Unknown group.
    #[error("no group \"{group}\" in /etc/group; use one of its names, or a number")]
    NoGroup {
        /// Given name.
        group: String,
    },
    /// The image is inconsistent.
    #[error("the image of bus \"{name}\" is corrupt: {why}; start the bus again")]
    Spoilt {
        /// The name.
        name: String,
        /// What is inconsistent.
        why: &'static str,
    },
    /// No cycle has been published yet.
    #[error("the bus \"{name}\" has not run a cycle yet; try again when its devices are in OP")]
    NoCycleYet {
        /// The name.
        name: String,
    },
    /// The bus overtook the reader in every attempt.
    #[error("the bus overtook the reader {tries} times; the reader is too slow for its cycle")]
    Overtaken {
        /// Number of attempts.
        tries: u32,
    },
    /// Another process owns the outputs.
    #[error("another process owns the outputs of bus \"{name}\"{}; end it first", of_process(*pid, process))]
    Owned {
        /// Name of the bus.
        name: String,
        /// Id of the owner.
        pid: u32,
        /// Name of the process.
        process: String,
    },
    /// The outputs differ in length from the image's outputs.
    #[error("{given} bytes of outputs given, the image has {wanted}")]
    OutputLength {
        /// Bytes given.
        given: usize,
        /// Bytes in the image.
        wanted: usize,
    },
    /// The bus process does not follow goals.
    #[error(
        "nothing on bus \"{name}\" follows goals; `onbeat robot run FILE --name {name} --trajectory commander` starts a robot that does"
    )]
    NoGoals {
        /// Name of the bus.
        name: String,
    },
    /// Another process commands the joints.
    #[error("another process commands the joints of bus \"{name}\"{}; end it first", of_process(*pid, process))]
    Commanded {
        /// Name of the bus.
        name: String,
        /// Id of the commander.
        pid: u32,
        /// Name of the process.
        process: String,
    },
    /// Unknown joint.
    #[error("bus \"{name}\" has no joint \"{joint}\" that follows goals; it has {joints}")]
    NoJoint {
        /// Name of the bus.
        name: String,
        /// Given name.
        joint: String,
        /// The joints there are, or the first of many.
        joints: String,
    },
    /// A target outside the travel, or not a number.
    #[error("{given} rad is outside the travel of \"{joint}\", {low} to {high} rad")]
    Outside {
        /// Name of the joint.
        joint: String,
        /// Given target, in rad.
        given: f64,
        /// Lower end of the travel, in rad.
        low: f64,
        /// Upper end of the travel, in rad.
        high: f64,
    },
    /// The value is too long for an SDO request.
    #[error("the SDO has {bytes} bytes; the control interface transfers at most {most}")]
    SdoTooLong {
        /// Bytes given.
        bytes: usize,
        /// Maximum number of bytes.
        most: usize,
    },
    /// Registers that a request cannot reach.
    #[error(
        "registers 0x{address:04x} and following, {bytes} bytes: a request reaches 1 to {most} bytes below 0x1000"
    )]
    RegisterRange {
        /// Address of the first register.
        address: u16,
        /// Number of bytes.
        bytes: usize,
        /// Maximum number of bytes.
        most: usize,
    },
    /// Unknown device.
    #[error("bus \"{name}\" has no device {device}; it has {devices}")]
    NoDevice {
        /// Name of the bus.
        name: String,
        /// Given position.
        device: u16,
        /// Number of devices.
        devices: usize,
    },
    /// Unknown name of a device.
    #[error(
        "bus \"{name}\" has no device \"{device}\"; `onbeat bus info --name {name}` lists them"
    )]
    NoDeviceNamed {
        /// Name of the bus.
        name: String,
        /// Given name.
        device: String,
    },
    /// The device maps no such value.
    #[error("\"{device}\" maps no value \"{value}\"; it maps {mapped}")]
    NoValue {
        /// Name of the device.
        device: String,
        /// Given name or object.
        value: String,
        /// The values there are, or the first of many.
        mapped: String,
    },
    /// All requests are in use.
    #[error("all {most} requests of bus \"{name}\" are in use; try again")]
    Busy {
        /// Name of the bus.
        name: String,
        /// Number of requests.
        most: usize,
    },
    /// The bus did not answer in time.
    #[error(
        "no answer to a request within {ms} ms; the bus \"{name}\" may be starting, or the device does not answer mails"
    )]
    NoAnswer {
        /// Name of the bus.
        name: String,
        /// Time waited, in ms.
        ms: u128,
    },
}

/// Why a bus refuses a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The client's user is neither the bus's nor root, and not of its group.
    #[error("it is for its user and the members of the group in its --group")]
    OtherUser,
    /// The client is of another user, and the sharing has a lock.
    #[error(
        "with this sharing processes wait for each other, so it is for those of one user; start it with --sharing wait-free"
    )]
    Lock,
    /// The user has too many connections.
    #[error("your processes have {0} connections, as many as a user may have; close some")]
    OfUser(u64),
    /// There are too many connections.
    #[error("{0} connections are open, as many as there may be; try again")]
    InAll(u64),
    /// A reason of a later version.
    #[error("reason {0}, unknown to this version")]
    Unknown(u64),
}

impl Refusal {
    pub(super) fn from_message(reason: u64, limit: u64) -> Self {
        match reason {
            refusal::OTHER_USER => Self::OtherUser,
            refusal::LOCK => Self::Lock,
            refusal::OF_USER => Self::OfUser(limit),
            refusal::IN_ALL => Self::InAll(limit),
            other => Self::Unknown(other),
        }
    }
}

fn of_process(pid: u32, name: &str) -> String {
    if pid == 0 { String::new() } else { format!(": process {pid} ({name})") }
}

fn hint(what: &str, why: &io::Error) -> &'static str {
    match why.kind() {
        io::ErrorKind::PermissionDenied if what.starts_with("connect") => {
            "; it is for the user who started the bus, and for the members of the group in its --group: use sudo, or start it with --group"
        }
        io::ErrorKind::PermissionDenied if what.starts_with("change") => {
            "; name a group of which you are a member, or use sudo"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::OutOfMemory => "; there is not enough memory",
        _ => "",
    }
}
