//! Options of `onbeat segment`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};

use crate::units::time_ns;

pub(crate) const SEGMENT_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat segment run humanoid --veth ecat0
      59 devices behind the new network interface ecat0, for any MainDevice
  sudo onbeat segment run servo.xml --device SV-2 --device SV-2 --veth ecat0
      two devices as a vendor's ESI file tells them
  sudo onbeat segment run arm.toml --interface eth1 --pcap arm.pcap --log arm-faults.jsonl
      the devices of a file behind a network card, all frames captured, all faults written down
  sudo unshare --net onbeat segment run humanoid --tap ecat0 --for 10s
      in a network namespace of its own, which nobody else sees";

pub(crate) const FAULT_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat segment fault lose --share 0.01 --for 10s
      one frame of a hundred is lost, for ten seconds
  sudo onbeat segment fault power-off --device 'left knee' --for 2s
  sudo onbeat segment fault al-error --device 'left knee' --code 0x1b --on ecat0
  onbeat segment fault --list
      all kinds; and the faults that are there, where a segment is running";

#[derive(Debug, Subcommand)]
pub(crate) enum Segment {
    /// Simulated devices answer on a network interface, until Ctrl-C
    #[command(before_help = SEGMENT_EXAMPLES)]
    Run(SegmentRunOptions),
    /// Have something go wrong on a segment that is running
    #[command(before_help = FAULT_EXAMPLES)]
    Fault(FaultOptions),
    /// End all faults of a segment that is running, and forget those still to come
    Heal(OnOptions),
    /// Devices with their AL states, frames and faults of a segment that is running
    Status(StatusOptions),
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("where").required(true).args(["veth", "tap", "interface"])))]
pub(crate) struct SegmentRunOptions {
    /// File of the segment (docs/segment.md), a vendor's ESI file (.xml), or `humanoid`, which ships with onbeat
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Of an ESI file, the device of this type or name; several times for several devices. Without it, one of each
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Vec<String>,
    /// Make a pair of interfaces, NAME for the MainDevice and NAME-seg for the devices; for a ring also NAMEb and NAMEb-seg. All are
    /// gone at the end
    #[arg(long, value_name = "NAME")]
    pub(crate) veth: Option<String>,
    /// Make a TAP device NAME for the MainDevice, for a ring also NAMEb; the least delay of the three
    #[arg(long, value_name = "NAME")]
    pub(crate) tap: Option<String>,
    /// Answer on a network interface that is there
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Option<String>,
    /// The interface at the far end of a ring
    #[arg(long, value_name = "NAME", requires = "interface")]
    pub(crate) second: Option<String>,
    /// Capture all frames in this file, for Wireshark
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
    /// Write all faults into this file, a line of JSON each
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Real-time priority of the devices, 1 to 99, where it is permitted; 0 for none. Real devices are never late, and MainDevices
    /// wait for a few milliseconds only
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=99))]
    pub(crate) priority: u32,
    /// How long; 0 is until Ctrl-C
    #[arg(long = "for", default_value = "0", value_parser = time_ns, value_name = "TIME")]
    pub(crate) duration: u64,
}

#[derive(Debug, Args)]
pub(crate) struct OnOptions {
    /// Interface that the MainDevice uses; needed when several segments are running
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) on: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct StatusOptions {
    #[command(flatten)]
    pub(crate) on: OnOptions,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FaultOptions {
    /// What goes wrong; `--list` shows all kinds
    #[arg(value_name = "KIND", required_unless_present = "list")]
    pub(crate) kind: Option<String>,
    /// All kinds, and the faults that are there
    #[arg(long, conflicts_with = "kind")]
    pub(crate) list: bool,
    /// Name of the device
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// Name of the device it changes places with (`swap`)
    #[arg(long, value_name = "NAME")]
    pub(crate) with: Option<String>,
    /// How much: ns or a time such as 2ms, parts per billion, or what is added to a working counter
    #[arg(long, value_name = "N", value_parser = amount, allow_hyphen_values = true)]
    pub(crate) by: Option<i64>,
    /// AL status code, abort code or error code, such as 0x1b
    #[arg(long, value_name = "CODE", value_parser = code)]
    pub(crate) code: Option<u32>,
    /// AL state: init, preop, safeop, op, or its number
    #[arg(long, value_name = "STATE", value_parser = al_state)]
    pub(crate) state: Option<u8>,
    /// How many mails
    #[arg(long, value_name = "N")]
    pub(crate) mails: Option<u32>,
    /// Part of the frames that it befalls, 0 to 1
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = share)]
    pub(crate) share: f64,
    /// How long; without it, until `onbeat segment heal`
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
    time_ns(rest).map(|ns| sign * i64::try_from(ns).unwrap_or(i64::MAX)).map_err(|why| why.to_string())
}

fn code(text: &str) -> Result<u32, String> {
    let number = text.strip_prefix("0x").map_or_else(|| text.parse(), |digits| u32::from_str_radix(digits, 16));
    number.map_err(|_| format!("`{text}` is no code; write a number, such as 27 or 0x1b"))
}

fn al_state(text: &str) -> Result<u8, String> {
    match text.to_ascii_lowercase().as_str() {
        "init" | "1" => Ok(1),
        "preop" | "2" => Ok(2),
        "safeop" | "4" => Ok(4),
        "op" | "8" => Ok(8),
        _ => Err(format!("`{text}` is no AL state; there are init, preop, safeop and op")),
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share: &f64| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("`{text}` is no part of the frames; write a number from 0 to 1, such as 0.01"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_codes_and_states_are_typed_as_people_know_them() {
        assert_eq!([amount("-3"), amount("2ms"), amount("-1us")], [Ok(-3), Ok(2_000_000), Ok(-1_000)]);
        assert_eq!([code("0x1b"), code("27")], [Ok(27), Ok(27)]);
        assert_eq!([al_state("SAFEOP"), al_state("8")], [Ok(4), Ok(8)]);
        assert!(share("1.5").is_err() && al_state("3").is_err() && code("b").is_err() && amount("much").is_err());
    }
}
