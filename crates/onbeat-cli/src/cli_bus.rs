//! Options of `onbeat bus`.

use clap::{Args, Subcommand};
use onbeat_control::{SdoAction, SdoRequest};
use onbeat_ethercat::setup;

use crate::units::time_ns;

const RUN_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat bus run
      59 simulated devices, until Ctrl-C; then, in another terminal: onbeat bus state
  sudo onbeat bus run robot.toml --interface eth1 -- --cpu 1 --clock reference";

const SCAN_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat bus scan eth1
      devices with identity and AL state. Nothing of a device is changed: the only
      registers written are 0x0502 to 0x0507 (read the EEPROM at an address), and
      only where the device leaves its EEPROM to the MainDevice
  sudo onbeat bus scan eth1 --beside-running
      nothing is written at all; identities come from the process image of the
      running bus, when it is onbeat's and has one";

const WATCH_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat bus watch \"left knee\" \"right knee\" --every 100ms
      their values, ten times a second, until Ctrl-C
  onbeat bus watch --count 1 --json
      all values of one cycle";

const SDO_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat bus sdo read \"left knee\" 1018:1
      the vendor id
  onbeat bus sdo write 3 6065 2000u32
      the window of the following error of the device at place 3";

/// What all of them take.
#[derive(Clone, Debug, Args)]
pub(crate) struct Named {
    /// The bus's name
    #[arg(long, default_value = "onbeat", value_name = "NAME")]
    pub(crate) name: String,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bus {
    /// Scan for devices (read-only)
    #[command(before_help = SCAN_EXAMPLES)]
    Scan(ScanOptions),
    /// Runs a bus whose outputs belong to another process, and shares its process image
    #[command(before_help = RUN_EXAMPLES)]
    Run(BusRunOptions),
    /// Does it run, in which cycle is it, who owns the outputs?
    State(Named),
    /// Its devices: identity, AL state, place in the process image
    Info(Named),
    /// Values of devices, line by line
    #[command(before_help = WATCH_EXAMPLES)]
    Watch(WatchOptions),
    /// What has happened on it
    Events(EventsOptions),
    /// Cycles, frames, times since it began
    Stats(StatsOptions),
    /// Reads or writes an object of a device
    #[command(subcommand, before_help = SDO_EXAMPLES)]
    Sdo(Sdo),
}

#[derive(Debug, Args)]
pub(crate) struct ScanOptions {
    /// Network interface that the devices hang on; with `simulated`, those of the robot that ships answer
    #[arg(value_name = "INTERFACE")]
    pub(crate) interface: String,
    /// Scan although a bus is running there; registers are read only, between its frames
    #[arg(long)]
    pub(crate) beside_running: bool,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BusRunOptions {
    /// File that lists the devices, see docs/segment.md; `humanoid` ships with onbeat
    #[arg(value_name = "FILE", default_value = "humanoid")]
    pub(crate) file: String,
    /// Network interface with the file's devices [default: they are simulated]
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Option<String>,
    /// Name of the process image
    #[arg(long, default_value = "onbeat", value_name = "NAME")]
    pub(crate) name: String,
    /// More options of `onbeat measure bus`, such as --exchange same-cycle --cpu 1 --sharing pi --for 1h
    #[arg(last = true, value_name = "OPTION")]
    pub(crate) more: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct WatchOptions {
    /// Devices by name, or by place on the cable, from 0 [default: all]
    #[arg(value_name = "DEVICE")]
    pub(crate) devices: Vec<String>,
    /// How often
    #[arg(long, default_value = "1s", value_parser = time_ns, value_name = "TIME")]
    pub(crate) every: u64,
    /// How many times; 0 is until Ctrl-C
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) count: u64,
    #[command(flatten)]
    pub(crate) named: Named,
}

#[derive(Debug, Args)]
pub(crate) struct EventsOptions {
    /// Goes on with those that come, until Ctrl-C or the bus ends
    #[arg(long)]
    pub(crate) follow: bool,
    /// From this number on; events that are kept no more are counted as missed
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) from: u64,
    #[command(flatten)]
    pub(crate) named: Named,
}

#[derive(Debug, Args)]
pub(crate) struct StatsOptions {
    /// A line `KEY VALUE` each, for scripts (docs/control.md)
    #[arg(long, conflicts_with = "json")]
    pub(crate) text: bool,
    #[command(flatten)]
    pub(crate) named: Named,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Sdo {
    /// Reads an object
    Read(SdoOptions),
    /// Writes an object
    Write(SdoWriteOptions),
}

#[derive(Debug, Args)]
pub(crate) struct SdoOptions {
    /// Its name, or its place on the cable, from 0
    #[arg(value_name = "DEVICE")]
    pub(crate) device: String,
    /// Index, and entry where it is not 0, both hexadecimal: 6041, 1018:1
    #[arg(value_name = "INDEX[:ENTRY]", value_parser = object)]
    pub(crate) object: (u16, u8),
    /// All entries at once (complete access)
    #[arg(long)]
    pub(crate) complete: bool,
    /// How long to wait for the answer
    #[arg(long, default_value = "2s", value_parser = time_ns, value_name = "TIME")]
    pub(crate) timeout: u64,
    #[command(flatten)]
    pub(crate) named: Named,
}

#[derive(Debug, Args)]
pub(crate) struct SdoWriteOptions {
    #[command(flatten)]
    pub(crate) of: SdoOptions,
    /// A number with its type (6u8, -100i32, 0x0Fu16, 1.5f32), or bytes: hex:01ff
    #[arg(value_name = "VALUE", value_parser = value, allow_hyphen_values = true)]
    pub(crate) value: Bytes,
}

/// What is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(Vec<u8>);

impl SdoOptions {
    pub(crate) const fn request(&self, device: u16, action: SdoAction) -> SdoRequest {
        SdoRequest { device, index: self.object.0, entry: self.object.1, complete: self.complete, action }
    }
}

impl SdoWriteOptions {
    pub(crate) fn action(&self) -> SdoAction {
        SdoAction::Write(self.value.0.clone())
    }
}

fn object(text: &str) -> Result<(u16, u8), String> {
    setup::object(text).ok_or_else(|| format!("`{text}` is no object; write it in hexadecimal, such as 6041 or 1018:1"))
}

fn value(text: &str) -> Result<Bytes, String> {
    setup::value(text).map(Bytes).map_err(|why| why.to_string())
}
