//! Registers of a SubDevice controller: where they are, and which of their bits the MainDevice may write.
//!
//! Source of addresses and write access: ETG.1000.4 and the Beckhoff SubDevice controller data sheet, section II.

/// Registers come before this address, memory from here on: outputs of simple devices, 128 bytes for the user, process memory.
pub(crate) const MEMORY_START: usize = 0x0f00;
/// One past the last byte of process memory (8 KiB).
pub(crate) const MEMORY_END: usize = 0x3000;

pub(crate) const DEVICE: usize = 0x0000;
pub(crate) const STATION: usize = 0x0010;
pub(crate) const ALIAS: usize = 0x0012;
pub(crate) const RESET: usize = 0x0040;
pub(crate) const LOOP_CONTROL: usize = 0x0101;
pub(crate) const ALIAS_ENABLE: usize = 0x0103;
pub(crate) const DL_STATUS: usize = 0x0110;
pub(crate) const AL_CONTROL: usize = 0x0120;
pub(crate) const AL_STATUS: usize = 0x0130;
pub(crate) const AL_STATUS_CODE: usize = 0x0134;
pub(crate) const PDI_CONTROL: usize = 0x0140;
pub(crate) const PDI_CONFIGURATION: usize = 0x0150;
pub(crate) const EVENT_REQUEST: usize = 0x0210;
pub(crate) const RX_ERRORS: usize = 0x0300;
pub(crate) const LOST_LINKS: usize = 0x0310;
pub(crate) const WATCHDOG_DIVIDER: usize = 0x0400;
pub(crate) const WATCHDOG_TIME: usize = 0x0420;
pub(crate) const WATCHDOG_STATUS: usize = 0x0440;
pub(crate) const WATCHDOG_COUNT: usize = 0x0442;
pub(crate) const SII_OWNER: usize = 0x0500;
pub(crate) const SII_CONTROL: usize = 0x0502;
pub(crate) const SII_ADDRESS: usize = 0x0504;
pub(crate) const SII_DATA: usize = 0x0508;
pub(crate) const FMMU: usize = 0x0600;
pub(crate) const SYNC_MANAGER: usize = 0x0800;
pub(crate) const PORT_TIMES: usize = 0x0900;
pub(crate) const SYSTEM_TIME: usize = 0x0910;
pub(crate) const RECEIVE_TIME: usize = 0x0918;
pub(crate) const TIME_OFFSET: usize = 0x0920;
pub(crate) const TIME_DELAY: usize = 0x0928;
pub(crate) const TIME_DIFFERENCE: usize = 0x092c;
pub(crate) const SPEED_START: usize = 0x0930;
pub(crate) const FILTER_DEPTH: usize = 0x0934;
pub(crate) const SYNC_ACTIVATION: usize = 0x0981;
pub(crate) const SYNC_START: usize = 0x0990;
pub(crate) const SYNC_CYCLE: usize = 0x09a0;

/// FMMUs and SyncManagers of each device.
pub(crate) const CHANNELS: usize = 8;

fn piece<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut piece = [0; N];
    piece.copy_from_slice(&bytes[at..at + N]);
    piece
}

/// Two bytes of `bytes` at `at`, little endian.
#[inline]
pub(crate) fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(piece(bytes, at))
}

/// Four bytes, little endian.
#[inline]
pub(crate) fn long(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(piece(bytes, at))
}

/// Eight bytes, little endian.
#[inline]
pub(crate) fn quad(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(piece(bytes, at))
}

/// For each register byte, whether the device has it and which of its bits the MainDevice may write.
#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) present: [bool; MEMORY_START],
    pub(crate) writable: [u8; MEMORY_START],
}

/// What devices with distributed clocks have.
pub(crate) static WITH_CLOCK: Access = Access::of(true);
/// What devices without have.
pub(crate) static WITHOUT_CLOCK: Access = Access::of(false);

/// First byte, bytes, bits that may be written in each of them, whether it belongs to the distributed clock.
type Block = (usize, usize, u8, bool);

const BLOCKS: [Block; 51] = [
    (DEVICE, 10, 0, false),
    (STATION, 2, 0xff, false),
    (ALIAS, 2, 0, false),
    (RESET, 1, 0xff, false),
    (0x0100, 1, 0x01, false),
    (LOOP_CONTROL, 1, 0xff, false),
    (0x0102, 1, 0x07, false),
    (ALIAS_ENABLE, 1, 0x01, false),
    (DL_STATUS, 2, 0, false),
    (AL_CONTROL, 1, 0x3f, false),
    (AL_CONTROL + 1, 1, 0, false),
    (AL_STATUS, 2, 0, false),
    (AL_STATUS_CODE, 2, 0, false),
    (PDI_CONTROL, 2, 0, false),
    (PDI_CONFIGURATION, 4, 0, false),
    (0x0200, 2, 0xff, false),
    (0x0204, 4, 0, false),
    (EVENT_REQUEST, 2, 0, false),
    (0x0220, 4, 0, false),
    (RX_ERRORS, 14, 0xff, false),
    (LOST_LINKS, 4, 0xff, false),
    (WATCHDOG_DIVIDER, 2, 0xff, false),
    (0x0410, 2, 0xff, false),
    (WATCHDOG_TIME, 2, 0xff, false),
    (WATCHDOG_STATUS, 2, 0, false),
    (WATCHDOG_COUNT, 2, 0xff, false),
    (SII_OWNER, 1, 0x03, false),
    (SII_OWNER + 1, 1, 0, false),
    (SII_CONTROL, 1, 0x01, false),
    (SII_CONTROL + 1, 1, 0x07, false),
    (SII_ADDRESS, 4, 0xff, false),
    (SII_DATA, 8, 0xff, false),
    (FMMU, 16 * CHANNELS, 0xff, false),
    (SYNC_MANAGER, 8 * CHANNELS, 0xff, false),
    (PORT_TIMES, 4, 0xff, true),
    (PORT_TIMES + 4, 12, 0, true),
    (SYSTEM_TIME, 8, 0xff, true),
    (RECEIVE_TIME, 8, 0, true),
    (TIME_OFFSET, 8, 0xff, true),
    (TIME_DELAY, 4, 0xff, true),
    (TIME_DIFFERENCE, 4, 0xff, true),
    (SPEED_START, 2, 0xff, true),
    (0x0932, 2, 0, true),
    (FILTER_DEPTH, 3, 0xff, true),
    (0x0980, 2, 0xff, true),
    (0x0982, 3, 0, true),
    (0x098e, 2, 0, true),
    (SYNC_START, 8, 0xff, true),
    (0x0998, 8, 0, true),
    (SYNC_CYCLE, 10, 0xff, true),
    (0x09ae, 34, 0, true),
];

impl Access {
    const fn of(clock: bool) -> Self {
        let mut access = Self { present: [false; MEMORY_START], writable: [0; MEMORY_START] };
        let mut block = 0;
        while block < BLOCKS.len() {
            let (start, length, writable, of_clock) = BLOCKS[block];
            let mut at = start;
            while at < start + length && (clock || !of_clock) {
                access.present[at] = true;
                // Status and PDI control of a SyncManager belong to the device.
                let own = start == SYNC_MANAGER && (at % 8 == 5 || at % 8 == 7);
                access.writable[at] = if own { 0 } else { writable };
                at += 1;
            }
            block += 1;
        }
        access
    }
}
