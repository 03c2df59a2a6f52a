//! Registers of a SubDevice controller: where they are.
//!
//! Source of addresses: ETG.1000.4 and the Beckhoff SubDevice controller data sheet, section II.

/// Registers come before this address, memory from here on: outputs of simple devices, 128 bytes for the user, process memory.
pub const MEMORY_START: u16 = 0x0f00;
/// One past the last byte of process memory (8 KiB).
pub const MEMORY_END: u16 = 0x3000;

/// Type, revision, build and abilities of the controller.
pub const DEVICE: u16 = 0x0000;
/// Configured station address.
pub const STATION: u16 = 0x0010;
/// Station alias, from the EEPROM.
pub const ALIAS: u16 = 0x0012;
/// Reset: `R`, `E`, `S` one after the other.
pub const RESET: u16 = 0x0040;
/// Loop control of the ports, two bits each.
pub const LOOP_CONTROL: u16 = 0x0101;
/// Bit 0: the alias counts as a station address.
pub const ALIAS_ENABLE: u16 = 0x0103;
/// Links and loops of the ports.
pub const DL_STATUS: u16 = 0x0110;
/// AL state wanted.
pub const AL_CONTROL: u16 = 0x0120;
/// AL state, and bit 4: an error.
pub const AL_STATUS: u16 = 0x0130;
/// Why there is an error.
pub const AL_STATUS_CODE: u16 = 0x0134;
/// Kind of the process data interface.
pub const PDI_CONTROL: u16 = 0x0140;
/// Configuration of the process data interface.
pub const PDI_CONFIGURATION: u16 = 0x0150;
/// Events for the MainDevice.
pub const EVENT_REQUEST: u16 = 0x0210;
/// Receive errors of the ports.
pub const RX_ERRORS: u16 = 0x0300;
/// Lost links of the ports.
pub const LOST_LINKS: u16 = 0x0310;
/// Unit of the watchdogs, in 40 ns less two.
pub const WATCHDOG_DIVIDER: u16 = 0x0400;
/// Time of the process data watchdog, in its units.
pub const WATCHDOG_TIME: u16 = 0x0420;
/// Bit 0: process data come in time.
pub const WATCHDOG_STATUS: u16 = 0x0440;
/// How often the process data watchdog expired.
pub const WATCHDOG_COUNT: u16 = 0x0442;
/// Who may use the EEPROM.
pub const SII_OWNER: u16 = 0x0500;
/// Command and status of the EEPROM.
pub const SII_CONTROL: u16 = 0x0502;
/// Word address in the EEPROM.
pub const SII_ADDRESS: u16 = 0x0504;
/// Data of the EEPROM, eight bytes.
pub const SII_DATA: u16 = 0x0508;
/// FMMUs, 16 bytes each.
pub const FMMU: u16 = 0x0600;
/// SyncManagers, 8 bytes each.
pub const SYNC_MANAGER: u16 = 0x0800;
/// When the frame that wrote here came in by each port.
pub const PORT_TIMES: u16 = 0x0900;
/// System time, in ns.
pub const SYSTEM_TIME: u16 = 0x0910;
/// When that frame reached the processing unit.
pub const RECEIVE_TIME: u16 = 0x0918;
/// Offset from the local time to the system time.
pub const TIME_OFFSET: u16 = 0x0920;
/// Travel time from the reference clock, in ns.
pub const TIME_DELAY: u16 = 0x0928;
/// Difference to the system time of the reference clock.
pub const TIME_DIFFERENCE: u16 = 0x092c;
/// Restarts the control loop of the clock.
pub const SPEED_START: u16 = 0x0930;
/// Filter depths of the control loop.
pub const FILTER_DEPTH: u16 = 0x0934;
/// Who may set the SYNC pulses, the MainDevice or the device.
pub const SYNC_UNIT: u16 = 0x0980;
/// Switches SYNC pulses on.
pub const SYNC_ACTIVATION: u16 = 0x0981;
/// System time of the first SYNC0 pulse.
pub const SYNC_START: u16 = 0x0990;
/// Period of SYNC0, in ns.
pub const SYNC_CYCLE: u16 = 0x09a0;

/// FMMUs and SyncManagers of each device, at most.
pub const CHANNELS: u16 = 8;
