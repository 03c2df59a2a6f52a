//! Registers of a SubDevice controller: existence and write access.
//!
//! Source of write access: ETG.1000.4 and the Beckhoff SubDevice controller data sheet, section II.

use onbeat_ethercat::registers;

/// Register addresses as indexes into the memory of a controller.
macro_rules! addresses {
    ($($name:ident)*) => { $(pub(crate) const $name: usize = registers::$name as usize;)* };
}

addresses! {
    MEMORY_START MEMORY_END DEVICE STATION ALIAS RESET LOOP_CONTROL ALIAS_ENABLE DL_STATUS AL_CONTROL AL_STATUS
    AL_STATUS_CODE PDI_CONTROL PDI_CONFIGURATION EVENT_REQUEST RX_ERRORS LOST_LINKS WATCHDOG_DIVIDER WATCHDOG_TIME
    WATCHDOG_STATUS WATCHDOG_COUNT SII_OWNER SII_CONTROL SII_ADDRESS SII_DATA FMMU SYNC_MANAGER PORT_TIMES SYSTEM_TIME
    RECEIVE_TIME TIME_OFFSET TIME_DELAY TIME_DIFFERENCE SPEED_START FILTER_DEPTH SYNC_UNIT SYNC_ACTIVATION SYNC_START SYNC_CYCLE SYNC1_NEXT SYNC1_CYCLE
    CHANNELS
}

fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut copied = [0; N];
    copied.copy_from_slice(&bytes[at..at + N]);
    copied
}

/// Returns the 16-bit little-endian word at `at`.
#[inline]
pub(crate) fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes_at(bytes, at))
}

/// Returns the 32-bit little-endian word at `at`.
#[inline]
pub(crate) fn long(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes_at(bytes, at))
}

/// Returns the 64-bit little-endian word at `at`.
#[inline]
pub(crate) fn quad(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes_at(bytes, at))
}

/// Sets one bit, counted from the lowest of the first byte.
pub(crate) fn put_bit(bytes: &mut [u8], bit: usize, value: bool) {
    let mask = 1 << (bit % 8);
    bytes[bit / 8] = if value { bytes[bit / 8] | mask } else { bytes[bit / 8] & !mask };
}

/// For each register byte, whether it exists and which bits the MainDevice can write.
#[derive(Debug)]
pub(crate) struct RegisterAccess {
    pub(crate) present: [bool; MEMORY_START],
    pub(crate) writable: [u8; MEMORY_START],
}

/// Registers of devices with a distributed clock.
pub(crate) static WITH_CLOCK: RegisterAccess = RegisterAccess::new(true);
/// Registers of devices without a distributed clock.
pub(crate) static WITHOUT_CLOCK: RegisterAccess = RegisterAccess::new(false);

/// A block of registers with the same access: start address, length in bytes, writable bits of each
/// byte, and whether it belongs to the distributed clock.
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
    (SYNC_UNIT, 2, 0xff, true),
    (0x0982, 3, 0, true),
    (0x098e, 2, 0, true),
    (SYNC_START, 8, 0xff, true),
    (0x0998, 8, 0, true),
    (SYNC_CYCLE, 10, 0xff, true),
    (0x09ae, 34, 0, true),
];

impl RegisterAccess {
    const fn new(clock: bool) -> Self {
        let mut access = Self { present: [false; MEMORY_START], writable: [0; MEMORY_START] };
        let mut block = 0;
        while block < BLOCKS.len() {
            let (start, length, writable, of_clock) = BLOCKS[block];
            let mut at = start;
            while at < start + length && (clock || !of_clock) {
                access.present[at] = true;
                // Status and PDI control of a SyncManager are read-only for the MainDevice.
                let is_read_only = start == SYNC_MANAGER && (at % 8 == 5 || at % 8 == 7);
                access.writable[at] = if is_read_only { 0 } else { writable };
                at += 1;
            }

            block += 1;
        }

        access
    }
}
