//! Why something with an image cannot be done.

use std::io;
use std::path::PathBuf;

/// Why something with an image cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// A name that is no file name.
    #[error(
        "\"{name}\" cannot be a bus's name; take 1 to {most} letters, digits, `-`, `_` or `.`, the first one no `.`"
    )]
    BadName {
        /// As given.
        name: String,
        /// Longest name.
        most: usize,
    },
    /// Safe outputs of another length than the layout's.
    #[error("{given} bytes of safe outputs for a layout with {wanted} bytes of outputs")]
    SafeOutputs {
        /// How many there are.
        given: usize,
        /// How many the layout has.
        wanted: usize,
    },
    /// A living bus process has the name.
    #[error("a bus named \"{name}\" runs already{}; end it, or take another --name", of_process(*pid, process))]
    Taken {
        /// The name.
        name: String,
        /// Its process; 0 when it has not said yet.
        pid: u32,
        /// The process's name.
        process: String,
    },
    /// The system refused.
    #[error("cannot {what} {path}: {source}{}", hint(source))]
    System {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
    /// Nobody has made such an image.
    #[error("no bus named \"{name}\" runs on this machine; `onbeat bus run --name {name}` starts one")]
    NoBus {
        /// The name.
        name: String,
    },
    /// The bus process was killed, and no other took its place.
    #[error(
        "the bus process {pid} of \"{name}\" is gone, and its devices are not driven any more; start the bus again"
    )]
    BusDied {
        /// The name.
        name: String,
        /// Its process.
        pid: u32,
    },
    /// The bus was taken down.
    #[error("the bus \"{name}\" was taken down in order; start it again, then open it again")]
    BusEnded {
        /// The name.
        name: String,
    },
    /// The bus process was killed, and another one took the name over.
    #[error("another bus process took \"{name}\" over; open it again")]
    BusReplaced {
        /// The name.
        name: String,
    },
    /// The bus process is about to make it, or was killed then.
    #[error("the image of bus \"{name}\" is not ready; try again in a moment")]
    NotReady {
        /// The name.
        name: String,
    },
    /// Made by another version of onbeat.
    #[error(
        "the image of bus \"{name}\" has layout version {theirs}, this program knows {ours}; use the same onbeat for both"
    )]
    OtherVersion {
        /// The name.
        name: String,
        /// Of the image.
        theirs: u32,
        /// Of this program.
        ours: u32,
    },
    /// It contradicts itself.
    #[error("the image of bus \"{name}\" is spoilt: {why}; start the bus again")]
    Spoilt {
        /// The name.
        name: String,
        /// What contradicts.
        why: &'static str,
    },
    /// No cycle has been published yet.
    #[error("the bus \"{name}\" has not had a cycle yet; try again when its devices are in OP")]
    NoCycleYet {
        /// The name.
        name: String,
    },
    /// The bus overtook a reader again and again.
    #[error("the bus published {tries} times while its image was being read; the reader is too slow for its cycle")]
    Overtaken {
        /// How often it was tried.
        tries: u32,
    },
    /// Somebody else owns the outputs.
    #[error("the outputs of bus \"{name}\" belong to another process{}; end it first", of_process(*pid, process))]
    Owned {
        /// The bus.
        name: String,
        /// The owner.
        pid: u32,
        /// Its name.
        process: String,
    },
    /// Outputs of another length than the image's.
    #[error("{given} bytes of outputs for an image with {wanted}")]
    OutputLength {
        /// How many were given.
        given: usize,
        /// How many there are.
        wanted: usize,
    },
    /// The bus's process moves no joints, or does not follow goals.
    #[error(
        "nothing on bus \"{name}\" follows goals; `onbeat robot run FILE --name {name} --trajectory commander` starts a robot that does"
    )]
    NoGoals {
        /// The bus.
        name: String,
    },
    /// Somebody else commands.
    #[error("the joints of bus \"{name}\" are commanded by another process{}; end it first", of_process(*pid, process))]
    Commanded {
        /// The bus.
        name: String,
        /// The commander.
        pid: u32,
        /// Its name.
        process: String,
    },
    /// No such joint.
    #[error("bus \"{name}\" has no joint \"{joint}\" that follows goals; it has {joints}")]
    NoJoint {
        /// The bus.
        name: String,
        /// Asked for.
        joint: String,
        /// Those it has, or the first of many.
        joints: String,
    },
    /// Outside the travel, or no number.
    #[error("{given} rad is outside the travel of \"{joint}\", {low} to {high} rad")]
    Outside {
        /// The joint.
        joint: String,
        /// Asked for, in rad.
        given: f64,
        /// Lower end of the travel, in rad.
        low: f64,
        /// Upper end of the travel, in rad.
        high: f64,
    },
    /// More than an SDO request holds.
    #[error("an SDO of {bytes} bytes; at most {most} go through the control interface")]
    SdoTooLong {
        /// How many were given.
        bytes: usize,
        /// How many there is room for.
        most: usize,
    },
    /// No such device.
    #[error("bus \"{name}\" has no device {device}; it has {devices}")]
    NoDevice {
        /// The bus.
        name: String,
        /// Asked for.
        device: u16,
        /// How many there are.
        devices: usize,
    },
    /// All request records are in use.
    #[error("{most} SDO requests are under way on bus \"{name}\", which is all there is room for; try again")]
    Busy {
        /// The bus.
        name: String,
        /// How many there is room for.
        most: usize,
    },
    /// No answer in time.
    #[error(
        "no answer to an SDO request within {ms} ms; the bus \"{name}\" may be starting, or the device's mailbox is mute"
    )]
    NoAnswer {
        /// The bus.
        name: String,
        /// How long was waited, in ms.
        ms: u128,
    },
}

fn of_process(pid: u32, name: &str) -> String {
    if pid == 0 { String::new() } else { format!(": process {pid} ({name})") }
}

fn hint(why: &io::Error) -> &'static str {
    match why.kind() {
        io::ErrorKind::PermissionDenied => {
            "; it belongs to the user who started the bus, and to that user's group: use sudo, or change its group with chgrp"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::OutOfMemory => "; /dev/shm is full",
        _ => "",
    }
}
