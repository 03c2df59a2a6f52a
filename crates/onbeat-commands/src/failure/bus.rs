//! Why a request to a running bus failed.

use onbeat_control::RequestFailure;
use std::path::PathBuf;

use onbeat_ethercat::eni::NetworkError;
use onbeat_ethercat::sii::SiiError;

/// A request to a running bus failed.
#[derive(Debug, thiserror::Error)]
pub enum BusFailure {
    #[error(
        "--device selects devices of an ESI file (.xml), and {path} is not one; leave --device out"
    )]
    NoEsi { path: PathBuf },
    #[error(
        "`{device}` is not a device on a cable, where devices have no names; write its position, such as 3, or alias:1001"
    )]
    NotOnCable { device: String },
    #[error(
        "no device on \"{interface}\" has {what} {number}; `onbeat bus scan {interface}{list}` lists them"
    )]
    NoNumber { interface: String, what: &'static str, list: &'static str, number: u16 },
    #[error(
        "{devices} devices on \"{interface}\" have {what} {number}, at places {places}; name the device by its place"
    )]
    DoubleNumber {
        interface: String,
        what: &'static str,
        number: u16,
        devices: usize,
        places: String,
    },
    #[error("nothing was written: the answer was no")]
    Refused,
    #[error("cannot write the log of writes {path}: {source}; {device}")]
    WriteLog { path: PathBuf, source: std::io::Error, device: String },
    #[error("{path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    #[error("{path}: {why}")]
    Network { path: PathBuf, why: NetworkError },
    #[error("no distributed clock: {devices}; `onbeat bus info` lists the devices of the bus")]
    NoClocks { devices: String },
    #[error(
        "{path} exists; nothing was written. --force replaces it, --output writes another file"
    )]
    Exists { path: PathBuf },
    #[error("{path} is not a regular file; nothing was written. --output names another file")]
    NotAFile { path: PathBuf },
    #[error("{path}: {why}")]
    Image { path: PathBuf, why: SiiError },
    #[error(
        "{path} is for vendor {:#010x}, product {:#010x}, the device at place {place} is vendor {:#010x}, product {:#010x}; nothing was written. \
         --force writes it all the same",
        image.0, image.1, device.0, device.1
    )]
    OtherDevice { path: PathBuf, place: u16, image: (u32, u32), device: (u32, u32) },
    #[error("{path} has {bytes} bytes, the EEPROM has {most}; nothing was written")]
    ImageTooLong { path: PathBuf, bytes: usize, most: usize },
    #[error(
        "{path} ends after {bytes} bytes without an end mark, and what the EEPROM has behind them would be part of it; nothing was written. \
         Use a whole image"
    )]
    ImagePart { path: PathBuf, bytes: usize },
    #[error("{0}; what follows -- is for `onbeat measure bus`, see `onbeat measure bus --help`")]
    Words(String),
    #[error("this bus has no device \"{device}\"; `onbeat bus info` lists its devices")]
    NoDevice { device: String },
    #[error("object 0x{index:04x}:{entry:x} of \"{device}\": {why}")]
    Sdo { device: String, index: u16, entry: u8, why: RequestFailure },
    #[error("register 0x{address:04x} of \"{device}\": {why}")]
    Register { device: String, address: u16, why: RequestFailure },
    #[error("bus \"{name}\" was not rescanned: {why}; `onbeat bus state` has its link")]
    Rescan { name: String, why: RequestFailure },
}
