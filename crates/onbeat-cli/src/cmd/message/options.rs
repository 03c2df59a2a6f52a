//! Options of `onbeat message`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use onbeat_control::Channel;

use crate::units::time_ns;

const ECHO_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat message echo walker/cycle --fields cycle,wakeup_latency_ns,actual_rad
      a line of JSON for each cycle of `onbeat robot run --name walker`
  onbeat message echo walker/cycle --from oldest --count 8000 > cycles.jsonl
      the last seconds, as far as the ring keeps them";

const COMMAND_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat robot run humanoid --trajectory commander --name walker
      and then, from a script, a line for each command; `leave` as the last one
  (for i in 1 2 3 4 5; do echo left knee=0.$i; sleep 0.1; done; echo leave) | onbeat message command walker
  onbeat message key robot.key && onbeat message command walker --from tcp://0.0.0.0:7791 --key robot.key
      other computers with a copy of the key command it: `onbeat.connect` in Python, Java, Octave and MATLAB";

const KEY_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat message key robot.key
      one key for each robot; copy it to the engineer's computer by a way that nobody else reads";

const RECORD_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat message record walker/cycle --out walk.mcap
      every cycle from now on; `onbeat.load` in Python or Octave, Foxglove and PlotJuggler read it
  onbeat message record walker/cycle arm/cycle --out both.mcap --from oldest --for 10s";

const PLAY_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat message play walk.mcap
      the channels of the log exist again, for the scripts that read those of the robot
  onbeat message play walk.mcap walker/cycle --remote replay/cycle --rate 0
      one channel under another name, as fast as the log can be read
  onbeat message play walk.mcap --to udpm://239.255.76.67:7667?ttl=0";

const LIST_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat message list
      channels of this machine
  onbeat message list walk.mcap
      what a log has: topics, types, encodings, numbers of records, and its damage";

const CONVERT_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat message convert walk.bag walk.mcap
      a bag of ROS 1 as an MCAP log, for Octave, Foxglove and PlotJuggler
  onbeat message convert drive.lcmlog drive.mcap --file types.lcm
      messages of LCM become CDR with their definitions";

const SEND_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat message send walker/cycle --to udpm://239.255.76.67:7667?ttl=0
      a program with LCM on this machine subscribes to walker/cycle, and decodes CDR
  onbeat message send walker/cycle --to udpm://239.255.76.67:7667?ttl=1 --remote STATE
  onbeat message send walker/cycle --to tcp://127.0.0.1:5556
      a publisher of ZeroMQ: frames with name, payload, and number and time
  onbeat message send walker/cycle --to ros2://0
      a topic of ROS 2, /walker/cycle with the type onbeat_msgs/msg/Cycle";

const PUBLISH_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  echo '{\"speed\": 0.5}' | onbeat message publish planner/plan --type planner/msg/Plan --file planner/msg/Plan.msg
      a record of the channel planner/plan for each line; fields that are not given have their defaults, or 0
  echo '{\"x\": 0.25}' | onbeat message publish tracker/marker \\
      --type tracker_msgs/msg/Marker --definition 'float64 x'
  onbeat message publish planner/plan --type planner/msg/plan_t --file planner.lcm \\
      --to udpm://239.255.76.67:7667?ttl=1 --remote PLAN < plans.jsonl
      the same, sent to LCM in its own encoding too";

const RECEIVE_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat message receive PLAN planner/plan --from udpm://239.255.76.67:7667?ttl=1
      messages of the LCM channel PLAN are records of planner/plan
  onbeat message receive STATE arm/state --from udpm://239.255.76.67:7667 \\
      --type arm_msgs/msg/State --file arm_msgs/msg/State.msg
  onbeat message receive PLAN planner/plan --from udpm://239.255.76.67:7667 \\
      --type planner/msg/plan_t --file planner.lcm
      messages in LCM's own encoding, by the type of lcm-gen
  onbeat message receive goal arm/goal --from ros2://0?reliability=best_effort \\
      --type arm_msgs/msg/Goal --file arm_msgs/msg/Goal.msg";

const GENERATE_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat message generate python onbeat_msgs/msg/Cycle > cycle.py
      a class that encodes and decodes the cycles of a bus
  onbeat message generate c my_robot/msg/Feedback --file my_robot/msg/Feedback.msg > feedback.h";

#[derive(Debug, Subcommand)]
pub(crate) enum Message {
    /// List channels of this machine, or of a log
    #[command(before_help = LIST_EXAMPLES)]
    List(ListOptions),
    /// Print the records of a channel as lines of JSON
    #[command(before_help = ECHO_EXAMPLES)]
    Echo(EchoOptions),
    /// Record channels into an MCAP log
    #[command(before_help = RECORD_EXAMPLES)]
    Record(RecordOptions),
    /// Play a log: its records again, at their own pace
    #[command(before_help = PLAY_EXAMPLES)]
    Play(PlayOptions),
    /// Convert a log of LCM, ROS 1 or ROS 2 to MCAP
    #[command(before_help = CONVERT_EXAMPLES)]
    Convert(ConvertOptions),
    /// Send a channel to LCM, ZeroMQ or ROS 2
    #[command(before_help = SEND_EXAMPLES)]
    Send(SendOptions),
    /// Publish lines of JSON on a channel, and on a network
    #[command(before_help = PUBLISH_EXAMPLES)]
    Publish(PublishOptions),
    /// Receive a channel of LCM, ZeroMQ or ROS 2
    #[command(before_help = RECEIVE_EXAMPLES)]
    Receive(ReceiveOptions),
    /// Move joints by lines of standard input, or from other computers
    #[command(before_help = COMMAND_EXAMPLES)]
    Command(CommandOptions),
    /// Create a key for commands from other computers
    #[command(before_help = KEY_EXAMPLES)]
    Key(KeyOptions),
    /// Print the definition of a channel's type
    Type(TypeOptions),
    /// Print a codec for a message type
    #[command(before_help = GENERATE_EXAMPLES)]
    Generate(GenerateCodecOptions),
}

#[derive(Debug, Args)]
pub(crate) struct ListOptions {
    /// Log, or the folder of a bag [default: channels of this machine]
    #[arg(value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EchoOptions {
    /// Channel, NAME/TOPIC
    #[arg(value_name = "CHANNEL", value_parser = channel)]
    #[arg(add = ArgValueCandidates::new(channels))]
    pub(crate) channel: Channel,
    /// Fields to print [default: all]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(crate) fields: Vec<String>,
    /// First record to print
    #[arg(long, value_enum, default_value_t = From::Newest, value_name = "WHICH")]
    pub(crate) from: From,
    /// Number of records; 0: until Ctrl-C or the writer's end
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) count: u64,
    /// Print for this time; 0: no limit
    #[arg(long = "for", default_value = "0", value_parser = time_ns, value_name = "TIME")]
    pub(crate) duration: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum From {
    /// The oldest record that is kept
    Oldest,
    /// The first new one
    Newest,
}

#[derive(Debug, Args)]
pub(crate) struct RecordOptions {
    /// Channels, NAME/TOPIC
    #[arg(value_name = "CHANNEL", required = true, value_parser = channel)]
    #[arg(add = ArgValueCandidates::new(channels))]
    pub(crate) channels: Vec<Channel>,
    /// Log to create; an existing file is refused
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// First record of each channel
    #[arg(long, value_enum, default_value_t = From::Newest, value_name = "WHICH")]
    pub(crate) from: From,
    /// Compression of the log
    #[arg(long, value_enum, default_value_t = LogCompression::Lz4, value_name = "WHICH")]
    pub(crate) compression: LogCompression,
    /// Record for this time; 0: until Ctrl-C or the writers' end
    #[arg(long = "for", default_value = "0", value_parser = time_ns, value_name = "TIME")]
    pub(crate) duration: u64,
    /// Print the account as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogCompression {
    /// LZ4, in chunks
    Lz4,
    /// No compression
    None,
}

#[derive(Debug, Args)]
pub(crate) struct PlayOptions {
    /// Log: .mcap, .lcmlog, .db3, .bag, or a folder
    #[arg(value_name = "FILE")]
    pub(crate) log: PathBuf,
    /// Channels of the log [default: all]
    #[arg(value_name = "CHANNEL")]
    pub(crate) channels: Vec<String>,
    /// Network, as for `onbeat message send` [default: channels of this machine]
    #[arg(long, value_name = "URL")]
    pub(crate) to: Option<String>,
    /// Name of the channel there [default: CHANNEL]
    ///
    /// For one CHANNEL. Without it, a topic of the log has its own name, less a `/` at the beginning.
    #[arg(long, value_name = "NAME", requires = "channels")]
    pub(crate) remote: Option<String>,
    /// LCM definition, for LCM's own encoding [default: CDR]
    #[arg(long, value_name = "FILE.lcm", requires = "to")]
    pub(crate) file: Vec<PathBuf>,
    /// Multiple of the log's own pace; 0: as fast as possible
    #[arg(long, default_value_t = 1.0, value_parser = rate, value_name = "N")]
    #[arg(allow_negative_numbers = true)]
    pub(crate) rate: f64,
    /// Time before the first record, in which readers connect
    #[arg(long, default_value = "1s", value_parser = time_ns, value_name = "TIME")]
    pub(crate) delay: u64,
    /// Memory limit for each record, chunk and reordering, in MiB
    #[arg(long, default_value_t = 256, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) most_memory: u32,
    /// Play for this time; 0: until Ctrl-C or the log's end
    #[arg(long = "for", default_value = "0", value_parser = time_ns, value_name = "TIME")]
    pub(crate) duration: u64,
    /// Print the account as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ConvertOptions {
    /// Log: .mcap, .lcmlog, .db3, .bag, or a folder
    #[arg(value_name = "FILE")]
    pub(crate) log: PathBuf,
    /// MCAP log to create; an existing file is refused
    #[arg(value_name = "OUT")]
    pub(crate) out: PathBuf,
    /// LCM definition, for messages in LCM's own encoding
    #[arg(long, value_name = "FILE.lcm")]
    pub(crate) file: Vec<PathBuf>,
    /// Compression of the new log
    #[arg(long, value_enum, default_value_t = LogCompression::Lz4, value_name = "WHICH")]
    pub(crate) compression: LogCompression,
    /// Memory limit for each record, chunk and reordering, in MiB
    #[arg(long, default_value_t = 256, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) most_memory: u32,
    /// Print the account as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SendOptions {
    /// Channel, NAME/TOPIC
    #[arg(value_name = "CHANNEL", value_parser = channel)]
    #[arg(add = ArgValueCandidates::new(channels))]
    pub(crate) channel: Channel,
    /// Network: udpm://GROUP:PORT?ttl=N (LCM), tcp://ADDRESS:PORT (ZeroMQ), ros2://DOMAIN (ROS 2)
    ///
    /// For ZeroMQ, the address on which this publisher listens. For ROS 2, `?interface=ADDRESS`
    /// [default: 127.0.0.1] and `&reliability=best_effort` [default: reliable] may follow.
    #[arg(long, value_name = "URL")]
    pub(crate) to: String,
    /// Name of the channel there [default: CHANNEL]
    #[arg(long, value_name = "NAME")]
    pub(crate) remote: Option<String>,
    /// LCM definition, for LCM's own encoding [default: CDR]
    #[arg(long, value_name = "FILE.lcm")]
    pub(crate) file: Vec<PathBuf>,
    /// Memory limit for records waiting for slow peers, in MiB
    #[arg(long, default_value_t = 64, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) most_memory: u32,
    /// User to continue as once started; needs root
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Send for this time; 0: until Ctrl-C or the writer's end
    #[arg(long = "for", default_value = "0", value_parser = time_ns, value_name = "TIME")]
    pub(crate) duration: u64,
    /// Print the account as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PublishOptions {
    /// Channel to create on this machine, NAME/TOPIC
    #[arg(value_name = "CHANNEL", value_parser = channel)]
    pub(crate) channel: Channel,
    /// Message type, PACKAGE/msg/Name
    ///
    /// A line is an object with fields of the type; the others have their default, or are 0 or empty.
    /// A line as `onbeat message echo` prints them keeps its time; any other is of the time
    /// at which it was read.
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) message_type: String,
    /// Definition, PACKAGE/msg/Name.msg, FILE.lcm or FILE.idl; for each type that is used
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Vec<PathBuf>,
    /// Text of the definition, a field a line, in place of a file
    #[arg(long, value_name = "TEXT", conflicts_with = "file")]
    pub(crate) definition: Option<String>,
    /// Network to send to as well, as for `onbeat message send` [default: none]
    #[arg(long, value_name = "URL")]
    pub(crate) to: Option<String>,
    /// Name of the channel there [default: CHANNEL]
    #[arg(long, value_name = "NAME", requires = "to")]
    pub(crate) remote: Option<String>,
    /// Longest message, in bytes
    #[arg(long, default_value_t = 65536, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    pub(crate) most_bytes: u32,
}

#[derive(Debug, Args)]
pub(crate) struct ReceiveOptions {
    /// Name of the channel on the network
    #[arg(value_name = "REMOTE")]
    pub(crate) remote: String,
    /// Channel to create on this machine, NAME/TOPIC
    #[arg(value_name = "CHANNEL", value_parser = channel)]
    pub(crate) channel: Channel,
    /// Network: udpm://GROUP:PORT?ttl=N (LCM), tcp://ADDRESS:PORT (ZeroMQ), ros2://DOMAIN (ROS 2)
    ///
    /// For ZeroMQ, the address of the publisher. For ROS 2, which needs --type, `?interface=ADDRESS`
    /// [default: 127.0.0.1] and `&reliability=best_effort` [default: reliable] may follow.
    #[arg(long, value_name = "URL")]
    pub(crate) from: String,
    /// Message type in CDR, PACKAGE/msg/Name [default: plain bytes]
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) message_type: Option<String>,
    /// Definition, PACKAGE/msg/Name.msg, FILE.lcm or FILE.idl; for each type that is used
    ///
    /// With a definition of LCM, messages arrive in LCM's own encoding, and the channel has CDR.
    #[arg(long, value_name = "FILE", requires = "message_type")]
    pub(crate) file: Vec<PathBuf>,
    /// Longest message, in bytes
    #[arg(long, default_value_t = 65536, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    pub(crate) most_bytes: u32,
    /// Memory limit for incomplete messages of all senders, in MiB
    #[arg(long, default_value_t = 64, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) most_memory: u32,
    /// Most LCM senders to follow
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) most_senders: u32,
    /// Time limit for all parts of a message to arrive
    #[arg(long, default_value = "1s", value_parser = time_ns, value_name = "TIME")]
    pub(crate) most_age: u64,
    /// User to continue as once started; needs root
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Receive for this time; 0: until Ctrl-C
    #[arg(long = "for", default_value = "0", value_parser = time_ns, value_name = "TIME")]
    pub(crate) duration: u64,
    /// End when standard input ends, for programs that start this one
    #[arg(long)]
    pub(crate) until_input_ends: bool,
    /// Print the account as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CommandOptions {
    /// Name of the robot; it runs with --trajectory commander
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Time for which a command is valid
    ///
    /// Then the robot holds, and later stops safely, unless another line has come. At least the
    /// robot's own maximum age of a goal. With --from, the longest that a computer may ask for.
    #[arg(long, default_value = "250ms", value_parser = time_ns, value_name = "TIME")]
    pub(crate) lifetime: u64,
    /// Listen for other computers on this address, tcp://ADDRESS:PORT [default: standard input]
    ///
    /// They read all channels of the robot; the next port publishes them by ZeroMQ. To command, they
    /// need the key, or to be a process of this user on this computer.
    #[arg(long, value_name = "URL")]
    pub(crate) from: Option<String>,
    /// Key of those who may command, by `onbeat message key` [default: this computer alone]
    #[arg(long, value_name = "FILE", requires = "from")]
    pub(crate) key: Option<PathBuf>,
    /// Addresses that may connect, ADDRESS or ADDRESS/BITS [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "from")]
    pub(crate) peers: Vec<String>,
    /// Joints that may be commanded; * stands for any characters [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "from")]
    pub(crate) joints: Vec<String>,
    /// Commands per second; a sender that exceeds it may no longer command
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rate: u32,
    /// Do not publish channels on the next port
    #[arg(long, requires = "from")]
    pub(crate) no_telemetry: bool,
    /// Listen for this time; 0: until Ctrl-C or the robot's end
    #[arg(long = "for", default_value = "0", value_parser = time_ns, value_name = "TIME", requires = "from")]
    pub(crate) duration: u64,
    /// Print the account as JSON
    #[arg(long, requires = "from")]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct KeyOptions {
    /// File to create, which its user alone can read; an existing file is refused
    #[arg(value_name = "FILE")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct TypeOptions {
    /// Channel, NAME/TOPIC
    #[arg(value_name = "CHANNEL", value_parser = channel)]
    #[arg(add = ArgValueCandidates::new(channels))]
    pub(crate) channel: Channel,
}

#[derive(Debug, Args)]
pub(crate) struct GenerateCodecOptions {
    /// Language of the codec
    #[arg(value_enum, value_name = "LANGUAGE")]
    pub(crate) language: Language,
    /// Message type, PACKAGE/msg/Name
    #[arg(value_name = "TYPE")]
    pub(crate) message_type: String,
    /// Definition, PACKAGE/msg/Name.msg, FILE.lcm or FILE.idl; for each type that is used
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    C,
    Java,
    Python,
    Rust,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate >= 0.0);
    rate.ok_or_else(|| "write 1 for the log's own pace, 0 for as fast as possible".to_owned())
}

fn channel(text: &str) -> Result<Channel, String> {
    text.parse().map_err(|why: onbeat_control::RingError| why.to_string())
}

/// Channels of this machine.
fn channels() -> Vec<CompletionCandidate> {
    let all = onbeat_control::channels().into_iter();
    all.map(|channel| CompletionCandidate::new(channel.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_that_a_log_can_be_played_at() {
        assert_eq!(rate("0.5"), Ok(0.5));
        for wrong in ["nan", "inf", "-1", "fast", ""] {
            assert!(rate(wrong).unwrap_err().contains("own pace"), "{wrong}");
        }
    }
}
