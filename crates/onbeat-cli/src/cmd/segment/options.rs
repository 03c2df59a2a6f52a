//! Options of `onbeat segment`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};

use crate::complete;
use crate::units::time_ns;
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};

pub(crate) const SEGMENT_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat segment run humanoid --veth ecat0
      59 devices behind the new network interface ecat0, for any MainDevice
  sudo onbeat segment run servo.xml --device SV-2 --device SV-2 --veth ecat0
      two devices from a vendor's ESI file
  sudo onbeat segment run arm.toml --interface eth1 --pcap arm.pcap --log arm-faults.jsonl
      the devices of arm.toml behind a network card; captures all frames, logs all faults
  sudo unshare --net onbeat segment run humanoid --tap ecat0 --for 10s
      in a network namespace of its own, invisible to other programs";

const RUN_USAGE: &str = "onbeat segment run <--veth NAME|--tap NAME|--interface NAME> <FILE>";

pub(crate) const FAULT_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat segment fault lose --share 0.01 --for 10s
      loses 1 % of the frames for ten seconds
  sudo onbeat segment fault power-off --device 'left knee' --for 2s
  sudo onbeat segment fault al-error --device 'left knee' --code 0x1b --on ecat0
  onbeat segment fault --list
      lists all kinds, and the current faults of a running segment";

pub(crate) const CHECK_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat segment check servo.xml
  onbeat segment check ~/Downloads/vendor-esi
      every .xml file of a folder";

#[derive(Debug, Subcommand)]
pub(crate) enum Segment {
    /// Simulate devices on a network interface, until Ctrl-C
    #[command(before_help = SEGMENT_EXAMPLES, override_usage = RUN_USAGE)]
    Run(SegmentRunOptions),
    /// Show what onbeat reads from ESI files, device by device
    #[command(before_help = CHECK_EXAMPLES)]
    Check(CheckOptions),
    /// Inject a fault into a running segment
    #[command(before_help = FAULT_EXAMPLES)]
    Fault(FaultOptions),
    /// End all faults of a running segment, planned ones too
    Heal(OnOptions),
    /// Show devices, AL states, frames and faults of a running segment
    Status(StatusOptions),
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("where").required(true).args(["veth", "tap", "interface"])))]
pub(crate) struct SegmentRunOptions {
    /// Segment file (docs/segment.md), ESI file (.xml), or `humanoid`
    #[arg(value_name = "FILE")]
    #[arg(add = ArgValueCompleter::new(complete::robot_files))]
    pub(crate) file: PathBuf,
    /// Device of an ESI file, by type or name; repeatable
    ///
    /// Without it, one of each.
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Vec<String>,
    /// Create a pair of interfaces, NAME and NAME-seg
    ///
    /// NAME is for the MainDevice, NAME-seg for the devices; for a ring also NAMEb and NAMEb-seg.
    /// All are removed at the end.
    #[arg(long, value_name = "NAME")]
    pub(crate) veth: Option<String>,
    /// Create a TAP interface NAME for the MainDevice
    ///
    /// For a ring also NAMEb. The shortest delay of the three.
    #[arg(long, value_name = "NAME")]
    pub(crate) tap: Option<String>,
    /// Answer on an existing network interface
    #[arg(long, value_name = "NAME")]
    #[arg(add = ArgValueCandidates::new(complete::interfaces))]
    pub(crate) interface: Option<String>,
    /// Interface at the far end of a ring
    #[arg(long, value_name = "NAME", requires = "interface")]
    #[arg(add = ArgValueCandidates::new(complete::interfaces))]
    pub(crate) second: Option<String>,
    /// Capture all frames into this file, for Wireshark
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
    /// Write all faults into this file, as lines of JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Real-time priority of the devices, 1 to 99; 0: none
    ///
    /// Real devices are never late, and MainDevices wait for a few milliseconds only.
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=99))]
    pub(crate) priority: u32,
    /// Run time; 0: until Ctrl-C
    #[arg(long = "for", default_value = "0", value_parser = time_ns, value_name = "TIME")]
    pub(crate) duration: u64,
}

#[derive(Debug, Args)]
pub(crate) struct CheckOptions {
    /// ESI files (.xml), folders of them, or device files (.toml)
    ///
    /// Slots are counted with the default module of each, or the first that fits. Exit status 1 if
    /// a device cannot be used.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct OnOptions {
    /// Interface of the MainDevice, when several segments are running
    #[arg(long, value_name = "INTERFACE")]
    #[arg(add = ArgValueCandidates::new(complete::interfaces))]
    pub(crate) on: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct StatusOptions {
    #[command(flatten)]
    pub(crate) on: OnOptions,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FaultOptions {
    /// Kind of fault; --list shows all kinds
    #[arg(value_name = "KIND", required_unless_present = "list")]
    #[arg(add = ArgValueCandidates::new(complete::segment_faults))]
    pub(crate) kind: Option<String>,
    /// List all kinds, and the current faults
    #[arg(long, conflicts_with = "kind")]
    pub(crate) list: bool,
    /// Name of the device
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// Name of the device to change places with (`swap`)
    #[arg(long, value_name = "NAME")]
    pub(crate) with: Option<String>,
    /// Amount: ns or a time such as 2ms, ppb, or counts
    #[arg(long, value_name = "N", value_parser = amount, allow_hyphen_values = true)]
    pub(crate) by: Option<i64>,
    /// AL status code, abort code or error code, such as 0x1b
    #[arg(long, value_name = "CODE", value_parser = code)]
    pub(crate) code: Option<u32>,
    /// AL state: init, preop, safeop, op, or its number
    #[arg(long, value_name = "STATE", value_parser = al_state)]
    pub(crate) state: Option<u8>,
    /// Number of mails
    #[arg(long, value_name = "N")]
    pub(crate) mails: Option<u32>,
    /// Fraction of frames affected, 0 to 1
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = share)]
    pub(crate) share: f64,
    /// Duration [default: until `onbeat segment heal`]
    #[arg(long = "for", value_parser = time_ns, value_name = "TIME")]
    pub(crate) duration: Option<u64>,
    #[command(flatten)]
    pub(crate) on: OnOptions,
}

fn amount(text: &str) -> Result<i64, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let (sign, rest) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    time_ns(rest)
        .map(|ns| sign * i64::try_from(ns).unwrap_or(i64::MAX))
        .map_err(|why| why.to_string())
}

fn code(text: &str) -> Result<u32, String> {
    let number = text
        .strip_prefix("0x")
        .map_or_else(|| text.parse(), |digits| u32::from_str_radix(digits, 16));
    number.map_err(|_| format!("`{text}` is not a code; write a number, such as 27 or 0x1b"))
}

fn al_state(text: &str) -> Result<u8, String> {
    match text.to_ascii_lowercase().as_str() {
        "init" | "1" => Ok(1),
        "preop" | "2" => Ok(2),
        "safeop" | "4" => Ok(4),
        "op" | "8" => Ok(8),
        _ => Err(format!("`{text}` is not an AL state; write init, preop, safeop or op")),
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share: &f64| (0.0..=1.0).contains(share));
    share.ok_or_else(|| {
        format!("`{text}` is not a fraction of frames; write a number from 0 to 1, such as 0.01")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_codes_and_states_are_parsed() {
        assert_eq!(
            [amount("-3"), amount("2ms"), amount("-1us")],
            [Ok(-3), Ok(2_000_000), Ok(-1_000)]
        );
        assert_eq!([code("0x1b"), code("27")], [Ok(27), Ok(27)]);
        assert_eq!([al_state("SAFEOP"), al_state("8")], [Ok(4), Ok(8)]);
        assert!(
            share("1.5").is_err()
                && al_state("3").is_err()
                && code("b").is_err()
                && amount("much").is_err()
        );
    }
}
