//! Channels of this machine, passed on to others: logs in the format MCAP.
//!
//! [`LogWriter`] writes a log, [`Recording`] reads rings into one. The program `onbeat-gateway` does
//! this for `onbeat message record` and `onbeat robot run --log`, in a process of its own: its
//! dependencies outweigh its code, and nothing that happens to it reaches a control loop.
//!
#![doc = include_str!("../README.md")]
//!
//! Absent on purpose: the command line for people, which is in `onbeat`; reading of logs, which is
//! in the clients; and any thread.

mod account;
mod error;
mod log_writer;
mod recording;

pub use account::{ChannelAccount, LogAccount};
pub use error::GatewayError;
pub use log_writer::{Compression, LogChannel, LogWriter};
pub use recording::{FirstRecord, RecordOrder, Recording};
