//! Options of `onbeat net`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use onbeat::probe::ports::PortAddress;
use onbeat_net::address::AddressRange;
use onbeat_net::boards::output_board::BOARD_PORT;
use onbeat_net::device::{MOST_DEVICES, Silence};
use onbeat_net::run_log::wire::LOG_PORT;

use crate::cmd::vm::options::StockOptions;
use crate::units::{other_period_ns, time_ns};

const PLAN_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat net plan robot.toml
      draws the network of robot.toml with the predicted round trip of each device
  onbeat net plan robot.toml --json | jq .last_answer.max_us
      the last answer of a cycle, in microseconds; docs/net.md describes the file";

const DEVICE_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat net device
      one device for this machine, at UDP port 7470, until Ctrl-C
  sudo onbeat net device --bind 0.0.0.0 --allow 192.168.7.0/24 --priority 80
      one device for a controller in that network
  onbeat net device --count 40 --silent 3=1000..2000
      forty devices; number 3 does not answer a thousand packets";

const LAB_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat net lab
      forty devices on one switch, in network namespaces: 100 Hz, then 1 kHz
  sudo onbeat net lab robot.toml --periods 1ms --for 1m --cpu 1
      the network of robot.toml at its rates, measured and predicted
  sudo onbeat net lab -- --size 100 --receive spin --limit 500us
      with options of `onbeat measure rtt`
  onbeat net lab docs/plans/two-boards.toml --firmware sender.elf,device.elf --for 10s
      firmware in QEMU at the ends of a modelled network, in virtual time
  onbeat net lab --virtual --download
      two boards in guests in virtual time: write, read-write, read-network-write, with a rising load";

const BOARD_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat net board --bind 0.0.0.0 --allow 192.168.7.0/24 --output gpio:gpiochip0/27
      the second board of `onbeat measure chain --via udp:192.168.7.3:7471`
  onbeat net board
      a second board for this machine, whose output is a pipe";

const LOG_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat net log --bind 0.0.0.0 --allow 192.168.7.0/24
      receives what `onbeat measure timer --log-to 192.168.7.9` records there, as it is recorded
  onbeat report onbeat-runs/2026-11-23T12-00-00-5f3a9c01
      a received run is a run like any other";

#[derive(Debug, Subcommand)]
pub(crate) enum Net {
    /// Find what a network adds to a round trip, from its description
    #[command(before_help = PLAN_EXAMPLES)]
    Plan(PlanOptions),
    /// Measure round trips in namespaces, or boards in virtual time
    #[command(before_help = LAB_EXAMPLES)]
    Lab(NetLabOptions),
    /// Simulate devices that answer packets, until Ctrl-C
    #[command(before_help = DEVICE_EXAMPLES)]
    Device(NetDeviceOptions),
    /// Write an output for each edge from another board, until Ctrl-C
    #[command(before_help = BOARD_EXAMPLES)]
    Board(NetBoardOptions),
    /// Receive the run files of other machines, until Ctrl-C
    #[command(before_help = LOG_EXAMPLES)]
    Log(NetLogOptions),
}

#[derive(Debug, Args)]
pub(crate) struct PlanOptions {
    /// Description of the network (docs/net.md)
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `onbeat net lab --virtual` alone.
#[derive(Debug, Args)]
#[command(next_help_heading = "Guests in virtual time")]
pub(crate) struct VirtualBoardOptions {
    /// Test two boards in guests in virtual time instead
    ///
    /// The write, read-write and read-network-write tests of Mossige, Sampath and Rao (2007), with
    /// t_w, t_r and t_n. The boards are two network namespaces of one guest. Virtual time ranks
    /// software and kernels; it predicts no hardware.
    #[arg(long = "virtual", conflicts_with_all = ["file", "periods", "unlimited", "cpu", "priority", "more"])]
    pub(crate) is_virtual: bool,
    /// Kernels: Debian packages with GPIO
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "linux-image-rt-amd64,linux-image-amd64",
        value_name = "LIST",
        requires = "is_virtual"
    )]
    pub(crate) kernels: Vec<String>,
    /// Loads of the guest, in turn
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "idle,cpu=20%,cpu=40%,cpu=60%,cpu=80%",
        value_name = "LIST",
        requires = "is_virtual"
    )]
    pub(crate) loads: Vec<String>,
    /// Run every guest twice and compare the bytes
    #[arg(long, requires = "is_virtual")]
    pub(crate) verify: bool,
}

/// Options of `onbeat net lab --firmware` alone.
#[derive(Debug, Args)]
#[command(next_help_heading = "Firmware in virtual time")]
pub(crate) struct FirmwareOptions {
    /// Run firmware in QEMU at the ends of a modelled network
    ///
    /// ELF files with `firmware/board_lockstep.c`: of the controller, then of the devices in the
    /// plan's order. Frames pass through the model of `onbeat net plan`. The same firmware gives
    /// the same bytes in every run; virtual time predicts no hardware.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "LIST",
        requires = "file",
        conflicts_with_all = ["is_virtual", "periods", "unlimited", "cpu", "priority", "more"]
    )]
    pub(crate) firmware: Vec<PathBuf>,
    /// Change the level of the first board's input this often
    #[arg(long, value_parser = other_period_ns, value_name = "TIME", requires = "firmware")]
    pub(crate) edges_every: Option<u64>,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("of-guests").args(["work", "packages", "download", "onbeat"]).multiple(true).requires("is_virtual"))]
pub(crate) struct NetLabOptions {
    /// Description of the network [default: forty devices on one switch]
    ///
    /// A file as for `onbeat net plan` (docs/net.md). Links get its rates, and the report what it
    /// predicts.
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Periods, a run each
    #[arg(long, default_value = "10ms,1ms", value_delimiter = ',', value_parser = time_ns, value_name = "LIST")]
    pub(crate) periods: Vec<u64>,
    /// Measuring time of each run; 0: until Ctrl-C [default: 10s; --virtual: 2.2s]
    #[arg(long = "for", value_parser = time_ns, value_name = "TIME")]
    pub(crate) duration: Option<u64>,
    /// Leave links as fast as this machine copies packets
    #[arg(long)]
    pub(crate) unlimited: bool,
    /// CPU for the loop [default: chosen by the scheduler]
    #[arg(long, value_name = "N")]
    pub(crate) cpu: Option<u32>,
    /// Real-time priority of the loop, 1 to 99; 0: none
    ///
    /// The devices then have 50, otherwise none.
    #[arg(long, default_value_t = 90, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=99))]
    pub(crate) priority: u32,
    /// Directory for results [default: onbeat-runs; --virtual: onbeat-lab/boards]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print a JSON object for each run and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// Options of `onbeat measure rtt`
    #[arg(last = true, value_name = "OPTION")]
    pub(crate) more: Vec<String>,
    #[command(flatten)]
    pub(crate) firmware: FirmwareOptions,
    #[command(flatten)]
    pub(crate) boards: VirtualBoardOptions,
    #[command(flatten)]
    pub(crate) stock: StockOptions,
}

#[derive(Debug, Args)]
pub(crate) struct NetDeviceOptions {
    /// Local address
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    pub(crate) bind: IpAddr,
    /// Port of the first device; the others follow
    #[arg(long, default_value_t = onbeat_net::packet::PORT, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: u16,
    /// Number of devices
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(MOST_DEVICES)))]
    pub(crate) count: u16,
    /// Address or range that is answered; repeatable [default: this machine]
    #[arg(long, value_name = "RANGE")]
    pub(crate) allow: Vec<AddressRange>,
    /// Packets that a device leaves unanswered; repeatable
    ///
    /// Such as 3=1000..2000: device 3 is silent from sequence number 1000 up to 1999.
    #[arg(long, value_parser = silence, value_name = "DEVICE=FROM..TO")]
    pub(crate) silent: Vec<Silence>,
    /// Interface whose kernel answers the echoes, without a thread
    ///
    /// Responds like a microcontroller: an eBPF program turns each request into its answer in
    /// place. It is removed when this process ends.
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) in_kernel: Option<String>,
    /// CPU for the devices [default: chosen by the scheduler]
    #[arg(long, value_name = "N")]
    pub(crate) cpu: Option<u32>,
    /// Real-time priority of the devices, 1 to 99; 0: none
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=99))]
    pub(crate) priority: u32,
    /// Run time; 0: until Ctrl-C
    #[arg(long = "for", default_value = "0", value_parser = time_ns, value_name = "TIME")]
    pub(crate) duration: u64,
}

#[derive(Debug, Args)]
pub(crate) struct NetBoardOptions {
    /// Local address
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    pub(crate) bind: IpAddr,
    /// UDP port
    #[arg(long, default_value_t = BOARD_PORT, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: u16,
    /// Output to write to
    ///
    /// pipe: read at once by a thread on another CPU; gpio:CHIP/LINE, serial:DEVICE, file:PATH,
    /// udp:HOST:PORT, pwm:CHIP/CHANNEL.
    #[arg(long, default_value = "pipe", value_name = "PLACE")]
    pub(crate) output: PortAddress,
    /// Address or range that is answered; repeatable [default: this machine]
    #[arg(long, value_name = "RANGE")]
    pub(crate) allow: Vec<AddressRange>,
    /// Network interface on which ptp4l is the other board's time transmitter
    ///
    /// With software time stamps; no clock is set.
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) ptp: Option<String>,
    /// CPU for the board [default: chosen by the scheduler]
    #[arg(long, value_name = "N")]
    pub(crate) cpu: Option<u32>,
    /// Real-time priority of the board, 1 to 99; 0: none
    #[arg(long, default_value_t = 90, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=99))]
    pub(crate) priority: u32,
    /// Run time; 0: until Ctrl-C
    #[arg(long = "for", default_value = "0", value_parser = time_ns, value_name = "TIME")]
    pub(crate) duration: u64,
}

#[derive(Debug, Args)]
pub(crate) struct NetLogOptions {
    /// Local address
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    pub(crate) bind: IpAddr,
    /// UDP port
    #[arg(long, default_value_t = LOG_PORT, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: u16,
    /// Address or range whose runs are taken; repeatable [default: this machine]
    #[arg(long, value_name = "RANGE")]
    pub(crate) allow: Vec<AddressRange>,
    /// Directory for runs
    #[arg(long, default_value = "onbeat-runs", value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Run time; 0: until Ctrl-C
    #[arg(long = "for", default_value = "0", value_parser = time_ns, value_name = "TIME")]
    pub(crate) duration: u64,
}

/// Parses `DEVICE=FROM..TO`.
fn silence(text: &str) -> Result<Silence, String> {
    let parse = || {
        let (device, range) = text.split_once('=')?;
        let (from, to) = range.split_once("..")?;
        let silence = Silence {
            device: device.parse().ok()?,
            from: from.parse().ok()?,
            to: to.parse().ok()?,
        };
        (silence.from < silence.to).then_some(silence)
    };
    parse().ok_or_else(|| {
        format!("`{text}` is not a device and a range of sequence numbers, such as 3=1000..2000")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_is_a_device_and_a_range() {
        assert_eq!(silence("3=10..20"), Ok(Silence { device: 3, from: 10, to: 20 }));
        for text in ["3", "3=10", "3=20..10", "x=1..2", "3=5..5"] {
            assert!(silence(text).is_err(), "{text}");
        }
    }
}
