//! Errors of the gateway.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;

use onbeat_control::{ControlError, RingError};

/// Why records cannot be passed on.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// A channel cannot be read.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// A robot cannot be commanded.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// A key cannot be used.
    #[error("cannot use the key {path}: {why}")]
    Key {
        /// Its file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// An address that is not one.
    #[error(
        "`{text}` is not an address of peers; write ADDRESS or ADDRESS/BITS, such as 10.0.0.0/24"
    )]
    Peers {
        /// The given text.
        text: String,
    },
    /// No joint may be commanded.
    #[error("no joint of {name} fits {patterns}")]
    NoJoints {
        /// Name of the robot.
        name: String,
        /// The given patterns.
        patterns: String,
    },
    /// The file of a log exists: a log is never overwritten.
    #[error("{path} exists; name another file, or remove it")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file of a log cannot be created.
    #[error("cannot create {path}: {source}")]
    Create {
        /// The file.
        path: PathBuf,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The log cannot be written further. What was written before can be read.
    #[error("cannot write {path}: {source}; what was written until then can be read")]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason of the writer of MCAP.
        source: Box<mcap::McapError>,
    },
    /// A log cannot be opened.
    #[error("cannot open {path}: {source}")]
    Open {
        /// The file.
        path: PathBuf,
        /// The kernel's reason.
        source: io::Error,
    },
    /// Not one message of a log can be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Where it is not valid.
        source: super::log_defect::LogDefect,
    },
    /// More channels than rings are made for.
    #[error(
        "{path} has {channels} channels, and at most {most} are played at a time; name those to play"
    )]
    ManyChannels {
        /// The file.
        path: PathBuf,
        /// Channels of the log.
        channels: usize,
        /// The limit.
        most: usize,
    },
    /// A message is too long for a ring.
    #[error(
        "the longest message of {topic} has {bytes} bytes, and a channel of this machine takes at most {most}"
    )]
    LongMessage {
        /// The channel of the log.
        topic: String,
        /// Length of the message.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// Rights cannot be given up.
    #[error("cannot give up {what}: {source}")]
    Rights {
        /// What was to be given up.
        what: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
    /// Another user cannot be had.
    #[error(
        "cannot continue as user {user}: {source}; --user is for root, and takes a name or a number"
    )]
    User {
        /// The given name.
        user: String,
        /// The reason.
        source: io::Error,
    },
    /// A log without messages.
    #[error("{path} has no messages")]
    EmptyLog {
        /// The file.
        path: PathBuf,
    },
    /// A log does not have messages of a channel.
    #[error("{path} has no messages of {topic}; it has those of {known}")]
    NoTopic {
        /// The file.
        path: PathBuf,
        /// The channel.
        topic: String,
        /// All channels of the log.
        known: String,
    },
    /// A pace that is not one.
    #[error(
        "a rate of {rate} is not valid; write 1 for the log's own pace, 0 for as fast as it can be read"
    )]
    Rate {
        /// The given multiple of the log's own pace.
        rate: f64,
    },
    /// An order without channels.
    #[error("no channel given; give at least one, as NAME/TOPIC")]
    NoChannels,
    /// An address that is not one of an LCM network.
    #[error(
        "`{url}` is not an LCM network; write udpm://GROUP:PORT?ttl=N, such as udpm://239.255.76.67:7667?ttl=0"
    )]
    LcmUrl {
        /// The given address.
        url: String,
    },
    /// An address that is not an endpoint of ZeroMQ.
    #[error(
        "`{url}` is not an endpoint of ZeroMQ; write tcp://ADDRESS:PORT, such as tcp://127.0.0.1:5556"
    )]
    Endpoint {
        /// The given address.
        url: String,
    },
    /// An address of no known network.
    #[error(
        "`{url}` is not the address of a network; write udpm://GROUP:PORT?ttl=N for LCM, tcp://ADDRESS:PORT for ZeroMQ, ros2://DOMAIN for ROS 2"
    )]
    Transport {
        /// The given address.
        url: String,
    },
    /// A TCP address is refused.
    #[error("cannot {what} {address}: {source}")]
    Tcp {
        /// What was tried.
        what: &'static str,
        address: std::net::SocketAddr,
        /// The kernel's reason.
        source: io::Error,
    },
    /// A name that LCM cannot carry.
    #[error("`{name}` is not the name of a channel of LCM or ZeroMQ; it has 1 to 63 bytes")]
    LcmName {
        /// The given name.
        name: String,
    },
    /// An address that is not a domain of ROS 2.
    #[error(
        "`{url}` is not a domain of ROS 2; write ros2://DOMAIN with a domain of 0 to 232, such as ros2://0?interface=127.0.0.1&reliability=best_effort"
    )]
    Ros2Url {
        /// The given address.
        url: String,
    },
    /// A name that ROS 2 does not allow.
    #[error(
        "`{name}` is not the name of a topic of ROS 2: words of letters, digits and single _ that do not begin with a digit, with / between them; --remote gives the channel another name there"
    )]
    Ros2Topic {
        /// The given name.
        name: String,
    },
    /// A topic of ROS 2 has a type.
    #[error(
        "topic `{topic}` needs a message type, PACKAGE/msg/Name, and has `{name}`; a topic of ROS 2 is found by its name and its type"
    )]
    Ros2Type {
        /// Name of the type, empty for plain bytes.
        name: String,
        topic: String,
    },
    /// ROS 2 is not in this build.
    #[error(
        "this onbeat-gateway is built without ROS 2; `cargo build --release -p onbeat-gateway --features ros2` builds one with it"
    )]
    Ros2NotBuilt,
    /// DDS refuses.
    #[error("cannot {what} domain {domain} on {interface}: {source}")]
    Ros2 {
        /// What was tried.
        what: &'static str,
        domain: u16,
        /// Address of the network interface.
        interface: Ipv4Addr,
        /// The reason of RustDDS.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A definition of a type is not valid.
    #[error(transparent)]
    Message(#[from] onbeat_message::MessageError),
    /// A hash that is not one.
    #[error("`{hash}` is not the hash of a type; it has 64 hexadecimal digits")]
    Hash {
        /// The given text.
        hash: String,
    },
    /// The network refuses.
    #[error(
        "cannot {what} {group}: {source}; `ip route add 224.0.0.0/4 dev lo` lets a machine without a network multicast to itself"
    )]
    Network {
        /// What was tried.
        what: &'static str,
        /// Multicast group and port.
        group: SocketAddrV4,
        /// The kernel's reason.
        source: io::Error,
    },
    /// An order of `onbeat` that this program does not understand.
    #[error(
        "the order is not valid: {0}; `onbeat` and `onbeat-gateway` must be of the same version"
    )]
    Order(#[from] serde_json::Error),
    /// The program was started without an order.
    #[error("onbeat-gateway is started by `onbeat message`; it takes no other arguments")]
    NoOrder,
    /// Ctrl-C cannot be watched.
    #[error("cannot watch for Ctrl-C: {0}")]
    Signals(io::Error),
    /// The answer to `onbeat` cannot be written.
    #[error("cannot write the account: {0}")]
    Output(io::Error),
}
