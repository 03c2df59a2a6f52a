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
      devices with identity and AL state; no device is changed
  sudo onbeat bus scan eth1 --beside-running
      nothing is written at all";

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
      set them to 0";

const TOPOLOGY_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat bus topology eth1
      a line for each device: the port of the device before it, and its open ports
  sudo onbeat bus topology eth1 --view
      a drawing of lines and branches";

const PDOS_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat bus pdos eth1
      PDOs of all devices, from their EEPROMs
  sudo onbeat bus pdos eth1 3
      of the device at position 3; from PREOP on its present mapping, by SDO";

const SDOS_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat bus sdos eth1 3
      objects and entries with type, length and access rights in PREOP, SAFEOP, OP
  sudo onbeat bus sdos eth1 alias:1001 --values
      with their values";

const SII_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat bus sii read eth1 3 -o knee.bin
      saves the EEPROM of the device at position 3
  onbeat bus sii type knee.bin
      prints a device type for a device file
  sudo onbeat bus sii write eth1 3 knee.bin
      writes it back; the words that differ, each of them read again";

const ALIAS_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat bus alias eth1 3
      shows the alias
  sudo onbeat bus alias eth1 3 1001
      sets it, with the checksum of the EEPROM";

const FOE_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat bus foe read eth1 3 settings.bin -o settings.bin
  sudo onbeat bus foe write eth1 3 firmware.efw --boot
      takes the device to BOOT, loads the firmware, and takes it to INIT";

const CLOCKS_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat bus clocks
      ten seconds of all clocks of the running bus, a line each
  onbeat bus clocks \"left knee\" --for 1m --every 50ms --json
      each value, with its time";

const IMPORT_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat bus import cell.xml
      writes cell.toml and cell-types.xml, and lists what they leave out
  onbeat bus run cell.toml
      runs the devices, simulated; with --interface eth1, the real ones";

const STATE_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat bus state
      the running bus
  sudo onbeat bus state 3 PREOP --interface eth1
      requests PREOP of the device at position 3, without a running bus";

/// Options of all subcommands.
#[derive(Clone, Debug, Args)]
pub struct Named {
    /// Name of the bus
    #[arg(long, default_value = "onbeat", value_name = "NAME")]
    pub name: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Bus {
    /// Scan for devices (read-only)
    ///
    /// The only registers written are 0x0502 to 0x0507 (read the EEPROM at an address), and only
    /// where the device leaves its EEPROM to the MainDevice. With --beside-running, identities come
    /// from the process image of the running bus, when it is onbeat's and has one.
    #[command(before_help = SCAN_EXAMPLES)]
    Scan(ScanOptions),
    /// Run a bus whose outputs belong to another process
    #[command(before_help = RUN_EXAMPLES)]
    Run(BusRunOptions),
    /// Show bus state, cycle count and output owner
    #[command(before_help = STATE_EXAMPLES)]
    State(StateOptions),
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
    Rescan(RequestOptions),
    /// List PDOs of devices with their entries (no running bus)
    #[command(before_help = PDOS_EXAMPLES)]
    Pdos(LineOptions),
    /// List the object dictionary of a device (no running bus)
    #[command(before_help = SDOS_EXAMPLES)]
    Sdos(SdosOptions),
    /// Read or write the EEPROM of a device (no running bus)
    #[command(subcommand, before_help = SII_EXAMPLES, disable_help_subcommand = true)]
    Sii(SiiCommand),
    /// Show or set the alias of a device (no running bus)
    #[command(before_help = ALIAS_EXAMPLES)]
    Alias(AliasOptions),
    /// Read or write a file of a device, FoE (no running bus)
    #[command(subcommand, before_help = FOE_EXAMPLES, disable_help_subcommand = true)]
    Foe(FoeCommand),
    /// Show controller registers of devices (no running bus)
    Registers(LineOptions),
    /// Show which port of which device each device is connected to
    #[command(before_help = TOPOLOGY_EXAMPLES)]
    Topology(TopologyOptions),
    /// Plot the distance of clocks from the reference clock over time
    #[command(before_help = CLOCKS_EXAMPLES)]
    Clocks(ClocksOptions),
    /// Make a device file of an ENI file, as exported by TwinCAT
    #[command(before_help = IMPORT_EXAMPLES)]
    Import(ImportOptions),
}

#[derive(Debug, Args)]
pub struct ClocksOptions {
    /// Devices by name, or by position from 0 [default: all]
    #[arg(value_name = "DEVICE")]
    pub devices: Vec<String>,
    /// Time to look at the clocks
    #[arg(long = "for", default_value = "10s", value_parser = time_ns, value_name = "TIME")]
    pub duration: u64,
    /// Interval between values of a clock
    #[arg(long, default_value = "100ms", value_parser = time_ns, value_name = "TIME")]
    pub every: u64,
    #[command(flatten)]
    pub named: Named,
}

#[derive(Debug, Args)]
pub struct ImportOptions {
    /// ENI file (.xml)
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub file: std::path::PathBuf,
    /// Device file to write [default: name of FILE with .toml]
    ///
    /// The device types are written to the same directory, to a file whose name ends in -types.xml.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<std::path::PathBuf>,
    /// Replace files that exist
    #[arg(long)]
    pub force: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Device on a cable: its position, its alias, or its device ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CableDevice {
    /// Position, from 0.
    Place(u16),
    /// Configured station alias.
    Alias(u16),
    /// Explicit device ID, as set by a switch.
    DeviceId(u16),
}

#[derive(Debug, Args)]
pub struct TopologyOptions {
    #[command(flatten)]
    pub line: LineOptions,
    /// Draw lines and branches
    #[arg(long, conflicts_with_all = ["json", "device"])]
    pub view: bool,
}

#[derive(Debug, Args)]
pub struct LineOptions {
    /// Network interface with the devices, or `simulated`
    #[arg(value_name = "INTERFACE")]
    #[arg(add = ArgValueCandidates::new(complete::interfaces))]
    pub interface: String,
    /// Position from 0, alias:N or id:N [default: all]
    #[arg(value_name = "DEVICE", value_parser = cable_device)]
    pub device: Option<CableDevice>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A device on a cable.
#[derive(Debug, Args)]
pub struct OneDevice {
    /// Network interface with the devices, or `simulated`
    #[arg(value_name = "INTERFACE")]
    #[arg(add = ArgValueCandidates::new(complete::interfaces))]
    pub interface: String,
    /// Position from 0, alias:N or id:N
    #[arg(value_name = "DEVICE", value_parser = cable_device)]
    pub device: CableDevice,
}

/// Consent to a write.
#[derive(Debug, Args)]
pub struct Consent {
    /// Write without asking
    #[arg(long)]
    pub yes: bool,
}

#[derive(Debug, Args)]
pub struct SdosOptions {
    #[command(flatten)]
    pub of: OneDevice,
    /// Read the values too
    #[arg(long)]
    pub values: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum SiiCommand {
    /// Show what the EEPROM holds, or save its bytes
    Read(SiiReadOptions),
    /// Write a file to the EEPROM
    Write(SiiWriteOptions),
    /// Print a device type for a device file
    Type(SiiTypeOptions),
}

#[derive(Debug, Args)]
pub struct SiiReadOptions {
    #[command(flatten)]
    pub of: OneDevice,
    /// Save the bytes to this file
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<std::path::PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct SiiWriteOptions {
    #[command(flatten)]
    pub of: OneDevice,
    /// File with the bytes, from word 0 on
    #[arg(value_name = "FILE")]
    pub file: std::path::PathBuf,
    /// Write another vendor's or product's image
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub consent: Consent,
}

#[derive(Debug, Args)]
pub struct SiiTypeOptions {
    /// File with the bytes of an EEPROM
    #[arg(value_name = "FILE")]
    pub file: std::path::PathBuf,
}

#[derive(Debug, Args)]
pub struct AliasOptions {
    #[command(flatten)]
    pub of: OneDevice,
    /// New alias, 0 for none
    #[arg(value_name = "ALIAS")]
    pub alias: Option<u16>,
    #[command(flatten)]
    pub consent: Consent,
}

#[derive(Debug, Subcommand)]
pub enum FoeCommand {
    /// Read a file from a device
    Read(FoeReadOptions),
    /// Write a file to a device
    Write(FoeWriteOptions),
}

#[derive(Debug, Args)]
pub struct FoeReadOptions {
    #[command(flatten)]
    pub of: OneDevice,
    /// Name of the file in the device
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Save it as this file
    #[arg(long, short, value_name = "FILE")]
    pub output: std::path::PathBuf,
    /// Password, in hexadecimal
    #[arg(long, default_value = "0", value_parser = password, value_name = "HEX")]
    pub password: u32,
    /// Take the device to BOOT first
    #[arg(long)]
    pub boot: bool,
    #[command(flatten)]
    pub consent: Consent,
}

#[derive(Debug, Args)]
pub struct FoeWriteOptions {
    #[command(flatten)]
    pub of: OneDevice,
    /// File to send
    #[arg(value_name = "FILE")]
    pub file: std::path::PathBuf,
    /// Name of the file in the device [default: that of FILE]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Password, in hexadecimal
    #[arg(long, default_value = "0", value_parser = password, value_name = "HEX")]
    pub password: u32,
    /// Take the device to BOOT first, and to INIT afterwards
    #[arg(long)]
    pub boot: bool,
    #[command(flatten)]
    pub consent: Consent,
}

#[derive(Debug, Args)]
pub struct StateOptions {
    /// Position from 0, alias:N or id:N, of a device to change
    #[arg(value_name = "DEVICE", value_parser = cable_device, requires = "request", requires = "interface")]
    pub device: Option<CableDevice>,
    /// Requested AL state: INIT, PREOP or BOOT; SAFEOP from OP
    #[arg(value_name = "STATE", value_parser = al_state)]
    pub request: Option<u8>,
    /// Network interface with the devices, without a running bus
    #[arg(long, value_name = "INTERFACE")]
    #[arg(add = ArgValueCandidates::new(complete::interfaces))]
    pub interface: Option<String>,
    #[command(flatten)]
    pub consent: Consent,
    #[command(flatten)]
    pub named: Named,
}

#[derive(Debug, Args)]
pub struct ScanOptions {
    /// Network interface with the devices, or `simulated`
    ///
    /// `simulated` scans the devices of the built-in humanoid.
    #[arg(value_name = "INTERFACE")]
    #[arg(add = ArgValueCandidates::new(complete::interfaces))]
    pub interface: String,
    /// Scan while a bus is running: read registers only, between its frames
    #[arg(long)]
    pub beside_running: bool,
    /// Show mailboxes, protocols, SyncManagers, ports and clocks too
    #[arg(long, conflicts_with = "beside_running")]
    pub details: bool,
    /// Request device IDs, as set by switches of the devices
    ///
    /// Sets bit 5 of AL control in each device, which keeps its AL state
    /// (explicit device identification).
    #[arg(long, conflicts_with = "beside_running")]
    pub ids: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct BusRunOptions {
    /// Device file (docs/segment.md), or `humanoid`, which ships with onbeat
    #[arg(value_name = "FILE", default_value = "humanoid")]
    #[arg(add = ArgValueCompleter::new(complete::robot_files))]
    pub file: String,
    /// Device of an ESI file, by type or name; repeatable
    ///
    /// Without it, one of each.
    #[arg(long, value_name = "NAME")]
    pub device: Vec<String>,
    /// Network interface with the devices [default: simulated devices]
    ///
    /// Two names with a comma between them are the ends of a ring of cables: eth1,eth2.
    #[arg(long, value_name = "NAME")]
    #[arg(add = ArgValueCandidates::new(complete::interfaces))]
    pub interface: Option<String>,
    /// Transport of frames: ring, xdp or busy-poll [default: ring]
    ///
    /// ring: a packet socket and its receive ring; xdp: AF_XDP, past the kernel's network stack,
    /// else ring; busy-poll: AF_XDP that polls the card's queue, else xdp.
    #[arg(long, value_name = "WIRE")]
    #[arg(add = ArgValueCandidates::new(complete::wires))]
    pub wire: Option<onbeat_ethercat::carrier::WireMethod>,
    /// Name of the process image
    #[arg(long, default_value = "onbeat", value_name = "NAME")]
    pub name: String,
    /// Let the members of this group use the bus
    ///
    /// They read it, own the outputs and request transfers, like the user who runs it. Default:
    /// that user and root only.
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
    /// Further options of `onbeat measure bus`
    ///
    /// Such as --exchange same-cycle --cpu 1 --sharing pi --for 1h.
    #[arg(last = true, value_name = "OPTION")]
    pub more: Vec<String>,
}

#[derive(Debug, Args)]
pub struct WatchOptions {
    /// Devices by name, or by position from 0 [default: all]
    #[arg(value_name = "DEVICE")]
    pub devices: Vec<String>,
    /// Interval between lines
    #[arg(long, default_value = "1s", value_parser = time_ns, value_name = "TIME")]
    pub every: u64,
    /// Number of lines per device; 0: until Ctrl-C
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub count: u64,
    /// Print values as they are in the process image
    ///
    /// Otherwise values of drives have names and units: rad of the drive's shaft.
    #[arg(long, conflicts_with = "json")]
    pub raw: bool,
    #[command(flatten)]
    pub named: Named,
}

#[derive(Debug, Args)]
pub struct EventsOptions {
    /// Print new events too, until Ctrl-C or the bus ends
    #[arg(long)]
    pub follow: bool,
    /// Number of the first event
    ///
    /// Events that are no longer kept are counted as missed.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub from: u64,
    #[command(flatten)]
    pub named: Named,
}

#[derive(Debug, Args)]
pub struct StatsOptions {
    /// Print lines `KEY VALUE`, for scripts (docs/control.md)
    #[arg(long, conflicts_with = "json")]
    pub text: bool,
    #[command(flatten)]
    pub named: Named,
}

#[derive(Debug, Subcommand)]
pub enum Sdo {
    /// Read an object
    Read(SdoOptions),
    /// Write an object
    Write(SdoWriteOptions),
}

#[derive(Debug, Args)]
pub struct SdoOptions {
    /// Device by name, or by position from 0
    #[arg(value_name = "DEVICE")]
    pub device: String,
    /// Index, and entry unless 0, in hexadecimal: 6041, 1018:1
    #[arg(value_name = "INDEX[:ENTRY]", value_parser = object)]
    pub object: (u16, u8),
    /// Transfer all entries at once (complete access)
    #[arg(long)]
    pub complete: bool,
    /// Network interface with the devices, without a running bus
    #[arg(long, value_name = "INTERFACE", conflicts_with = "name")]
    #[arg(add = ArgValueCandidates::new(complete::interfaces))]
    pub interface: Option<String>,
    /// Longest wait for the answer
    #[arg(long, default_value = "2s", value_parser = time_ns, value_name = "TIME")]
    pub timeout: u64,
    #[command(flatten)]
    pub named: Named,
}

#[derive(Debug, Args)]
pub struct SdoWriteOptions {
    #[command(flatten)]
    pub of: SdoOptions,
    #[command(flatten)]
    pub consent: Consent,
    /// Number with its type (6u8, -100i32, 1.5f32), or bytes (hex:01ff)
    #[arg(value_name = "VALUE", value_parser = value, allow_hyphen_values = true)]
    pub value: ObjectBytes,
}

#[derive(Debug, Subcommand)]
pub enum RegisterCommand {
    /// Read registers
    Read(RegisterReadOptions),
    /// Write registers of a device in OP
    ///
    /// Error counters (0300 to 0313), watchdog counters (0442, 0443), event mask (0200 to 0203),
    /// PHY management (0510 to 051f) and user memory (0f80 to 0fff) can be written; the bus process
    /// sets all others itself.
    Write(RegisterWriteOptions),
}

#[derive(Debug, Args)]
pub struct RegisterOptions {
    /// Device by name, or by position from 0
    #[arg(value_name = "DEVICE")]
    pub device: String,
    /// Address of the first register in hexadecimal: 0130
    #[arg(value_name = "ADDRESS", value_parser = address)]
    pub address: u16,
}

#[derive(Debug, Args)]
pub struct RegisterReadOptions {
    #[command(flatten)]
    pub of: RegisterOptions,
    /// Number of bytes, at most 512
    #[arg(value_name = "BYTES", default_value_t = 1)]
    pub bytes: usize,
    #[command(flatten)]
    pub request: RequestOptions,
}

#[derive(Debug, Args)]
pub struct RegisterWriteOptions {
    #[command(flatten)]
    pub of: RegisterOptions,
    /// Number with its type (6u8, 100u16), or bytes (hex:01ff)
    #[arg(value_name = "VALUE", value_parser = value, allow_hyphen_values = true)]
    pub value: ObjectBytes,
    #[command(flatten)]
    pub request: RequestOptions,
    #[command(flatten)]
    pub consent: Consent,
}

/// Options of a request to the bus.
#[derive(Debug, Args)]
pub struct RequestOptions {
    /// Longest wait for the answer
    #[arg(long, default_value = "2s", value_parser = time_ns, value_name = "TIME")]
    pub timeout: u64,
    #[command(flatten)]
    pub named: Named,
}

impl RegisterWriteOptions {
    pub fn bytes(&self) -> Vec<u8> {
        self.value.0.clone()
    }
}

/// The value to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectBytes(Vec<u8>);

impl SdoOptions {
    pub const fn request(&self, device: u16, action: SdoAction) -> SdoRequest {
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
    pub fn action(&self) -> SdoAction {
        SdoAction::Write(self.value.0.clone())
    }
}

/// Parses a device on a cable.
pub fn cable_device(text: &str) -> Result<CableDevice, String> {
    let wrong =
        || format!("`{text}` is not a device; write its position, such as 3, alias:1001 or id:7");
    let (number, device): (_, fn(u16) -> CableDevice) = match text.split_once(':') {
        Some(("alias", number)) => (number, CableDevice::Alias),
        Some(("id", number)) => (number, CableDevice::DeviceId),
        _ => (text, CableDevice::Place),
    };
    number.parse().map(device).map_err(|_| wrong())
}

fn al_state(text: &str) -> Result<u8, String> {
    use onbeat_ethercat::al::{BOOT, INIT, PREOP, SAFEOP};
    match text.to_ascii_uppercase().as_str() {
        "INIT" => Ok(INIT),
        "PREOP" | "PRE-OP" => Ok(PREOP),
        "BOOT" => Ok(BOOT),
        "SAFEOP" | "SAFE-OP" => Ok(SAFEOP),
        "OP" => {
            Err("OP needs process data; run the bus: onbeat bus run FILE --interface NAME"
                .to_owned())
        }
        _ => Err(format!("`{text}` is not an AL state; write INIT, PREOP, BOOT or SAFEOP")),
    }
}

fn password(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text.trim_start_matches("0x"), 16)
        .map_err(|_| format!("`{text}` is not a password; write up to 8 hexadecimal digits"))
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
