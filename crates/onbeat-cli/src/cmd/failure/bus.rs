//! Why a request to a running bus failed.

use onbeat_control::RequestFailure;
use onbeat_robot::bus::BusError;

/// A request to a running bus failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BusFailure {
    #[error(transparent)]
    Up(#[from] BusError),
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
