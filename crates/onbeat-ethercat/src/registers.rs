//! Register addresses of a SubDevice controller (ESC).
//!
//! Source of addresses: ETG.1000.4 and the Beckhoff SubDevice controller data sheet, section II.

/// First address after the registers: outputs of simple devices, 128 bytes of user memory, process
/// memory.
pub const MEMORY_START: u16 = 0x0f00;
/// One past the last byte of process memory (8 KiB).
pub const MEMORY_END: u16 = 0x3000;

/// Type, revision, build and features of the controller.
pub const DEVICE: u16 = 0x0000;
/// Number of FMMUs; that of SyncManagers is in the byte after it.
pub const FMMUS: u16 = 0x0004;
/// Configured station address.
pub const STATION: u16 = 0x0010;
/// Configured station alias, from the EEPROM.
pub const ALIAS: u16 = 0x0012;
/// ESC reset: `R`, `E`, `S` in consecutive writes.
pub const RESET: u16 = 0x0040;
/// DL control: loop control of the ports, two bits each.
pub const LOOP_CONTROL: u16 = 0x0101;
/// DL control, bit 0: the alias is used as a station address.
pub const ALIAS_ENABLE: u16 = 0x0103;
/// DL status: links and loops of the ports.
pub const DL_STATUS: u16 = 0x0110;
/// AL control: requested AL state.
pub const AL_CONTROL: u16 = 0x0120;
/// AL status: current AL state; bit 4 is the error indication.
pub const AL_STATUS: u16 = 0x0130;
/// AL status code: reason of the error.
pub const AL_STATUS_CODE: u16 = 0x0134;
/// PDI control: kind of the process data interface.
pub const PDI_CONTROL: u16 = 0x0140;
pub const PDI_CONFIGURATION: u16 = 0x0150;
/// ECAT event request.
pub const EVENT_REQUEST: u16 = 0x0210;
/// RX error counters of the ports.
pub const RX_ERRORS: u16 = 0x0300;
/// Lost link counters of the ports.
pub const LOST_LINKS: u16 = 0x0310;
/// Watchdog divider: unit of the watchdogs in 40 ns, minus 2.
pub const WATCHDOG_DIVIDER: u16 = 0x0400;
/// Process data watchdog time, in watchdog units.
pub const WATCHDOG_TIME: u16 = 0x0420;
/// Process data watchdog status; bit 0: not expired.
pub const WATCHDOG_STATUS: u16 = 0x0440;
/// Process data watchdog counter: number of expirations.
pub const WATCHDOG_COUNT: u16 = 0x0442;
/// SII access: owner of the EEPROM interface.
pub const SII_OWNER: u16 = 0x0500;
/// SII control and status.
pub const SII_CONTROL: u16 = 0x0502;
/// Command in the SII control: read.
pub const SII_READ: u16 = 0x0100;
/// Bit of the SII status: a read returns eight bytes; four otherwise.
pub const SII_READS_EIGHT: u16 = 0x0040;
/// Bit of the SII status: the checksum of the configuration area is wrong.
pub const SII_CHECKSUM_ERROR: u16 = 0x0800;
/// Bit of the SII status: the command was refused.
pub const SII_REFUSED: u16 = 0x2000;
/// Bit of the SII status: the interface is busy.
pub const SII_BUSY: u16 = 0x8000;
/// SII word address.
pub const SII_ADDRESS: u16 = 0x0504;
/// SII data, eight bytes.
pub const SII_DATA: u16 = 0x0508;
/// FMMUs, 16 bytes each.
pub const FMMU: u16 = 0x0600;
/// SyncManagers, 8 bytes each.
pub const SYNC_MANAGER: u16 = 0x0800;
/// "Mailbox full" in the status of a SyncManager, its byte 5 (ETG.1000.4, 6.7).
pub const MAILBOX_FULL: u8 = 0x08;
/// Receive times of the ports, latched by a write to the first one.
pub const PORT_TIMES: u16 = 0x0900;
/// System time, in ns.
pub const SYSTEM_TIME: u16 = 0x0910;
/// Receive time of the processing unit, latched by the same write.
pub const RECEIVE_TIME: u16 = 0x0918;
/// System time offset: system time minus local time.
pub const TIME_OFFSET: u16 = 0x0920;
/// System time delay: propagation delay from the reference clock, in ns.
pub const TIME_DELAY: u16 = 0x0928;
/// System time difference to the reference clock.
pub const TIME_DIFFERENCE: u16 = 0x092c;
/// Speed counter start; a write resets the control loop of the clock.
pub const SPEED_START: u16 = 0x0930;
/// Filter depths of the clock's control loop.
pub const FILTER_DEPTH: u16 = 0x0934;
/// Cyclic unit control: whether the MainDevice or the device controls the SYNC unit.
pub const SYNC_UNIT: u16 = 0x0980;
/// Activation of cyclic operation and SYNC pulses.
pub const SYNC_ACTIVATION: u16 = 0x0981;
/// Start time of cyclic operation: system time of the first SYNC0 pulse.
pub const SYNC_START: u16 = 0x0990;
/// System time of the next SYNC1 pulse.
pub const SYNC1_NEXT: u16 = 0x0998;
/// SYNC0 cycle time, in ns.
pub const SYNC_CYCLE: u16 = 0x09a0;
/// Time from SYNC0 to SYNC1, in ns.
pub const SYNC1_CYCLE: u16 = 0x09a4;

/// First address of process memory, behind registers and user memory: mailboxes, inputs, outputs.
pub const PROCESS_MEMORY: usize = 0x1000;

/// Registers that are free for any use while a MainDevice runs: event mask, error counters, watchdog
/// counters, PHY management, user memory. First address and one past the last.
const FREE: [(u16, u16); 5] = [
    (0x0200, 0x0204),
    (RX_ERRORS, 0x0314),
    (WATCHDOG_COUNT, 0x0444),
    (0x0510, 0x0520),
    (0x0f80, 0x1000),
];

/// Returns whether registers can be written without disturbing the MainDevice. All others configure
/// what it relies on (addresses, states, SyncManagers, FMMUs, clocks, watchdogs), or are outputs.
#[must_use]
pub fn is_free(address: u16, bytes: usize) -> bool {
    let end = usize::from(address) + bytes;
    FREE.iter().any(|(first, last)| address >= *first && end <= usize::from(*last))
}

/// Largest number of FMMUs and of SyncManagers of a device.
pub const CHANNELS: u16 = 8;
