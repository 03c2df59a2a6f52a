//! Options of `onbeat bus`.

use clap::{Args, Subcommand};
use onbeat_control::{SdoAction, SdoRequest};
use onbeat_ethercat::setup;

use crate::complete;
use crate::units::time_ns;
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};

const RUN_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat bus run
      59 simulated devices, until Ctrl-C; then, in another terminal: onbeat bus state
  sudo onbeat bus run robot.toml --interface eth1 -- --cpu 1 --clock reference";

const SCAN_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat bus scan eth1
      devices with identity and AL state. No device is changed: the only
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
      the window of the following error of the device at position 3";

const REGISTER_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat bus register read \"left knee\" 0300 8
      the receive error counters of its ports
  onbeat bus register write \"left knee\" 0300 hex:00
      set them to 0
  Error counters (0300 to 0313), watchdog counters (0442, 0443), event mask (0200
  to 0203), PHY management (0510 to 051f) and user memory (0f80 to 0fff) can be
  written; the bus process sets all others itself";

/// Options of all subcommands.
#[derive(Clone, Debug, Args)]
pub(crate) struct Named {
    /// Name of the bus
    #[arg(long, default_value = "onbeat", value_name = "NAME")]
    pub(crate) name: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bus {
    /// Scan for devices (read-only)
    #[command(before_help = SCAN_EXAMPLES)]
    Scan(ScanOptions),
    /// Run a bus whose outputs belong to another process
    #[command(before_help = RUN_EXAMPLES)]
    Run(BusRunOptions),
    /// Show bus state, cycle count and output owner
    State(Named),
    /// List devices: identity, AL state, offset in the process image
    Info(Named),
    /// Print values of devices, line by line
    #[command(before_help = WATCH_EXAMPLES)]
    Watch(WatchOptions),
    /// Print events of the bus
    Events(EventsOptions),
    /// Print counts of cycles and frames, and times
    Stats(StatsOptions),
    /// Read or write an object of a device
    #[command(subcommand, before_help = SDO_EXAMPLES, disable_help_subcommand = true)]
    Sdo(Sdo),
    /// Read or write registers of a device
    #[command(subcommand, before_help = REGISTER_EXAMPLES, disable_help_subcommand = true)]
    Register(RegisterCommand),
    /// Find out which device is where; retry rejected devices
    Rescan(RescanOptions),
}

#[derive(Debug, Args)]
pub(crate) struct ScanOptions {
    /// Network interface with the devices, or `simulated`
    ///
    /// `simulated` scans the devices of the built-in humanoid.
    #[arg(value_name = "INTERFACE")]
    #[arg(add = ArgValueCandidates::new(complete::interfaces))]
    pub(crate) interface: String,
    /// Scan beside a running bus: read registers only, between its frames
    #[arg(long)]
    pub(crate) beside_running: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BusRunOptions {
    /// Device file (docs/segment.md), or `humanoid`, which ships with onbeat
    #[arg(value_name = "FILE", default_value = "humanoid")]
    #[arg(add = ArgValueCompleter::new(complete::robot_files))]
    pub(crate) file: String,
    /// Network interface with the devices [default: simulated devices]
    #[arg(long, value_name = "NAME")]
    #[arg(add = ArgValueCandidates::new(complete::interfaces))]
    pub(crate) interface: Option<String>,
    /// Transport of frames: ring, xdp or busy-poll [default: ring]
    ///
    /// ring: a packet socket and its receive ring; xdp: AF_XDP, past the kernel's network stack,
    /// else ring; busy-poll: AF_XDP that polls the card's queue, else xdp.
    #[arg(long, value_name = "WIRE")]
    #[arg(add = ArgValueCandidates::new(complete::wires))]
    pub(crate) wire: Option<onbeat_ethercat::carrier::WireMethod>,
    /// Name of the process image
    #[arg(long, default_value = "onbeat", value_name = "NAME")]
    pub(crate) name: String,
    /// Let the members of this group use the bus
    ///
    /// They read it, own the outputs and request transfers, like the user who runs it. Default:
    /// that user and root only.
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: Option<String>,
    /// Further options of `onbeat measure bus`
    ///
    /// Such as --exchange same-cycle --cpu 1 --sharing pi --for 1h.
    #[arg(last = true, value_name = "OPTION")]
    pub(crate) more: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct WatchOptions {
    /// Devices by name, or by position from 0 [default: all]
    #[arg(value_name = "DEVICE")]
    pub(crate) devices: Vec<String>,
    /// Interval between lines
    #[arg(long, default_value = "1s", value_parser = time_ns, value_name = "TIME")]
    pub(crate) every: u64,
    /// Number of lines per device; 0: until Ctrl-C
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) count: u64,
    /// Print values as they are in the process image
    ///
    /// Otherwise values of drives have names and units: rad of the drive's shaft.
    #[arg(long, conflicts_with = "json")]
    pub(crate) raw: bool,
    #[command(flatten)]
    pub(crate) named: Named,
}

#[derive(Debug, Args)]
pub(crate) struct EventsOptions {
    /// Print new events too, until Ctrl-C or the bus ends
    #[arg(long)]
    pub(crate) follow: bool,
    /// Number of the first event
    ///
    /// Events that are no longer kept are counted as missed.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) from: u64,
    #[command(flatten)]
    pub(crate) named: Named,
}

#[derive(Debug, Args)]
pub(crate) struct StatsOptions {
    /// Print lines `KEY VALUE`, for scripts (docs/control.md)
    #[arg(long, conflicts_with = "json")]
    pub(crate) text: bool,
    #[command(flatten)]
    pub(crate) named: Named,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Sdo {
    /// Read an object
    Read(SdoOptions),
    /// Write an object
    Write(SdoWriteOptions),
}

#[derive(Debug, Args)]
pub(crate) struct SdoOptions {
    /// Device by name, or by position from 0
    #[arg(value_name = "DEVICE")]
    pub(crate) device: String,
    /// Index, and entry unless 0, in hexadecimal: 6041, 1018:1
    #[arg(value_name = "INDEX[:ENTRY]", value_parser = object)]
    pub(crate) object: (u16, u8),
    /// Transfer all entries at once (complete access)
    #[arg(long)]
    pub(crate) complete: bool,
    /// Longest wait for the answer
    #[arg(long, default_value = "2s", value_parser = time_ns, value_name = "TIME")]
    pub(crate) timeout: u64,
    #[command(flatten)]
    pub(crate) named: Named,
}

#[derive(Debug, Args)]
pub(crate) struct SdoWriteOptions {
    #[command(flatten)]
    pub(crate) of: SdoOptions,
    /// Number with its type (6u8, -100i32, 1.5f32), or bytes (hex:01ff)
    #[arg(value_name = "VALUE", value_parser = value, allow_hyphen_values = true)]
    pub(crate) value: ObjectBytes,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RegisterCommand {
    /// Read registers
    Read(RegisterReadOptions),
    /// Write registers of a device in OP
    Write(RegisterWriteOptions),
}

#[derive(Debug, Args)]
pub(crate) struct RegisterOptions {
    /// Device by name, or by position from 0
    #[arg(value_name = "DEVICE")]
    pub(crate) device: String,
    /// Address of the first register in hexadecimal: 0130
    #[arg(value_name = "ADDRESS", value_parser = address)]
    pub(crate) address: u16,
}

#[derive(Debug, Args)]
pub(crate) struct RegisterReadOptions {
    #[command(flatten)]
    pub(crate) of: RegisterOptions,
    /// Number of bytes, at most 512
    #[arg(value_name = "BYTES", default_value_t = 1)]
    pub(crate) bytes: usize,
    #[command(flatten)]
    pub(crate) request: RequestOptions,
}

#[derive(Debug, Args)]
pub(crate) struct RegisterWriteOptions {
    #[command(flatten)]
    pub(crate) of: RegisterOptions,
    /// Number with its type (6u8, 100u16), or bytes (hex:01ff)
    #[arg(value_name = "VALUE", value_parser = value, allow_hyphen_values = true)]
    pub(crate) value: ObjectBytes,
    #[command(flatten)]
    pub(crate) request: RequestOptions,
}

/// Options of a request to the bus.
#[derive(Debug, Args)]
pub(crate) struct RequestOptions {
    /// Longest wait for the answer
    #[arg(long, default_value = "2s", value_parser = time_ns, value_name = "TIME")]
    pub(crate) timeout: u64,
    #[command(flatten)]
    pub(crate) named: Named,
}

#[derive(Debug, Args)]
pub(crate) struct RescanOptions {
    #[command(flatten)]
    pub(crate) request: RequestOptions,
}

impl RegisterWriteOptions {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.value.0.clone()
    }
}

/// The value to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectBytes(Vec<u8>);

impl SdoOptions {
    pub(crate) const fn request(&self, device: u16, action: SdoAction) -> SdoRequest {
        SdoRequest {
            device,
            index: self.object.0,
            entry: self.object.1,
            complete: self.complete,
            action,
        }
    }
}

impl SdoWriteOptions {
    pub(crate) fn action(&self) -> SdoAction {
        SdoAction::Write(self.value.0.clone())
    }
}

fn object(text: &str) -> Result<(u16, u8), String> {
    setup::object(text).ok_or_else(|| {
        format!("`{text}` is not an object; write it in hexadecimal, such as 6041 or 1018:1")
    })
}

fn address(text: &str) -> Result<u16, String> {
    let digits = text.trim_start_matches("0x");
    u16::from_str_radix(digits, 16).map_err(|_| {
        format!("`{text}` is not a register; write its address in hexadecimal, such as 0130")
    })
}

fn value(text: &str) -> Result<ObjectBytes, String> {
    setup::value(text).map(ObjectBytes).map_err(|why| why.to_string())
}
