//! Channels of this machine, passed on to others: logs in the format MCAP, LCM over UDP multicast,
//! ZeroMQ over TCP.
//!
//! [`LogWriter`] writes a log, [`Recording`] reads rings into one; [`send`] and [`receive`] join
//! rings and a network. The program `onbeat-gateway` does
//! this for `onbeat message record` and `onbeat robot run --log`, in a process of its own: its
//! dependencies outweigh its code, and nothing that happens to it reaches a control loop.
//!
#![doc = include_str!("../README.md")]
//!
//! Absent on purpose: the command line for people, which is in `onbeat`; reading of logs, which is
//! in the clients; and any thread.

mod account;
mod bridge;
mod error;
mod lcm_packets;
mod lcm_socket;
mod log_writer;
mod recording;
mod transport;
mod zmq_socket;
mod zmtp;

pub use account::{ChannelAccount, LogAccount};
pub use bridge::{
    ReceiveAccount, ReceiveOrder, ReceivedChannel, SendAccount, SendOrder, SentChannel, receive,
    send,
};
pub use error::GatewayError;
pub use lcm_packets::{LcmAccount, LcmAssembler, datagrams};
pub use lcm_socket::{LcmReceiver, LcmSender, LcmUrl};
pub use log_writer::{Compression, LogChannel, LogWriter};
pub use recording::{FirstRecord, RecordOrder, Recording};
