//! Channels of this machine, passed on to others: logs in the format MCAP, LCM over UDP multicast,
//! ZeroMQ over TCP, and, with the feature `ros2`, topics of ROS 2 over DDS.
//!
//! [`LogWriter`] writes a log, [`LogRecording`] reads rings into one, [`play`] plays one to rings or to a
//! network; [`send`] and [`receive`] join rings and a network. The program `onbeat-gateway` does
//! this for `onbeat message` and `onbeat robot run --log`, in a process of its own: its
//! dependencies outweigh its code, and nothing that happens to it reaches a control loop.
//!
//! ```
//! use onbeat_gateway::{LogWriter, Compression};
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("points.mcap");
//!
//! let mut log = LogWriter::create(&path, Compression::Lz4)?;
//! let points = log.add_channel("demo/points", "demo_msgs/msg/Point", "float64 x\n", &[])?;
//! log.write(points, 1, 1_700_000_000_000_000_000, &[0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f])?;
//! log.finish()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Absent on purpose: the command line for people, which is in `onbeat`; reading of logs into matrices, which is
//! in the clients; and any thread of its own (the crate of the feature `ros2` has threads).

mod account;
mod bridge;
mod error;
mod lcm_packets;
mod lcm_socket;
mod limit_notice;
mod log_copy;
mod log_defect;
mod log_folder;
mod log_formats;
mod log_pictures;
mod log_reader;
mod log_records;
mod log_sqlite;
mod log_writer;
mod network_encoding;
mod play_target;
mod playing;
mod recording;
mod remote_commands;
mod remote_frames;
mod remote_key;
mod remote_limits;
mod remote_notice;
mod remote_peer;
mod ros2_names;
#[cfg_attr(not(feature = "ros2"), path = "ros2_absent.rs")]
mod ros2_node;
mod transport;
mod transport_message;
mod zmq_socket;
mod zmtp;

pub use account::{ChannelAccount, LogAccount};
pub use bridge::{
    ReceiveAccount, ReceiveOrder, ReceivedChannel, SendAccount, SendOrder, SentChannel, receive,
    send,
};
pub use error::GatewayError;
pub use lcm_packets::{LcmAccount, LcmAssembler, LcmLimits, datagrams};
pub use lcm_socket::{LcmReceiver, LcmSender, LcmUrl};
pub use log_copy::{
    ConvertAccount, ConvertOrder, ListOrder, ListedChannel, ListedLog, convert, list,
};
pub use log_defect::LogDefect;
pub use log_pictures::{PicturesAccount, PicturesOrder, pictures};
pub use log_records::{LogCheck, check_log};
pub use log_writer::{Compression, LogChannel, LogWriter};
pub use playing::{PlayAccount, PlayOrder, PlayStart, PlayedChannel, play};
pub use recording::{FirstRecord, LogRecording, RecordOrder};
pub use remote_commands::{CommandAccount, CommandOrder, command};
pub use remote_key::{KeyOrder, create_key};
pub use ros2_names::{Ros2Reliability, Ros2Url, dds_topic, dds_type};
pub use zmtp::{NotZmtp, ZmtpDecoder};
