//! One EtherCAT SubDevice controller (ESC): registers, process memory, and the effects of reading
//! and writing them.
//!
//! `access` is reading and writing, `side_effects` the registers that are more than memory,
//! `logical` process data by logical address, and `cyclic_register` the registers that a loop reads
//! from all devices in each cycle.

mod access;
mod cyclic_register;
mod logical;
mod side_effects;

use super::distributed_clock::{DistributedClock, SyncPulses};
use super::eeprom::SiiEeprom;
use super::fmmu::Fmmu;
use super::registers::{
    AL_CONTROL, AL_STATUS, AL_STATUS_CODE, ALIAS, ALIAS_ENABLE, CHANNELS, DEVICE, DL_STATUS,
    FILTER_DEPTH, LOOP_CONTROL, MEMORY_END, MEMORY_START, PDI_CONFIGURATION, PDI_CONTROL,
    RegisterAccess, SPEED_START, STATION, SYNC_ACTIVATION, SYNC_CYCLE, SYNC_UNIT, SYNC1_CYCLE,
    WATCHDOG_COUNT, WATCHDOG_DIVIDER, WATCHDOG_STATUS, WATCHDOG_TIME, WITH_CLOCK, WITHOUT_CLOCK,
    long, word,
};
use super::sync_manager::SyncManager;
pub(crate) use cyclic_register::CyclicRegister;
use onbeat_ethercat::link_errors::ErrorCounter;

/// Events for the firmware; bits of [`Esc::events`].
pub(crate) mod event {
    /// AL control was written.
    pub(crate) const STATE: u8 = 1;
    pub(crate) const MAIL_ARRIVED: u8 = 2;
    /// The MainDevice fetched a mail.
    pub(crate) const MAIL_TAKEN: u8 = 4;
    /// All outputs were written.
    pub(crate) const OUTPUTS: u8 = 8;
    /// The inputs were read.
    pub(crate) const INPUTS: u8 = 16;
    /// The MainDevice requests the last mail again.
    pub(crate) const REPEAT: u8 = 32;
    /// The reset sequence was written.
    pub(crate) const RESET_WRITTEN: u8 = 64;
    /// SYNC pulses were activated or deactivated.
    pub(crate) const SYNC: u8 = 128;
}

/// Changes that the segment must apply; bits of [`Esc::changes`].
pub(crate) mod change {
    /// Station address or alias enable.
    pub(crate) const ADDRESS: u8 = 1;
    /// FMMUs or SyncManagers.
    pub(crate) const MAPPING: u8 = 2;
    /// Loop control of the ports.
    pub(crate) const PORTS: u8 = 4;
}

/// Times at which a frame passes the processing unit and arrives at each port of a device (0 for
/// ports at which it does not arrive).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PassTimes {
    pub(crate) now_ns: u64,
    pub(crate) ports_ns: [u64; 4],
}

/// How read data are combined with the data of the datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadMode {
    Replace,
    Or,
}

/// Unused bytes after the memory. Without them, the process data of all devices would be a multiple
/// of 4 KiB apart and compete for the same L1 cache lines.
const PADDING: usize = 0x140;

/// Settings of a controller.
#[derive(Clone, Debug)]
pub(crate) struct EscSettings {
    pub(crate) has_clock: bool,
    pub(crate) ports: u8,
    pub(crate) drift_ppb: f64,
    pub(crate) clock_start_ns: u64,
}

/// Registers, memory and units of one device.
///
/// Fields that cyclic frames use come first, in few cache lines, and other fields are boxed: after
/// the devices have worked, little is left in the L1 cache, and fetching cache lines takes most of
/// the time of a frame.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Esc {
    pub(crate) clock: DistributedClock,
    memory: Box<[u8; MEMORY_END + PADDING]>,
    /// The watchdog expires at this instant unless process data arrive; `u64::MAX`: not running.
    pub(crate) watchdog_until_ns: u64,
    watchdog_ns: u64,
    /// Fault: added to each working counter increment of the device, which never becomes negative.
    pub(crate) counter_offset: i16,
    /// Copy of the AL status register.
    al_status: u16,
    pub(crate) events: u8,
    pub(crate) changes: u8,
    reset_letters: u8,
    has_clock: bool,
    ports: u8,
    pub(crate) sync_managers: [SyncManager; CHANNELS],
    pub(crate) fmmus: Box<[Option<Fmmu>; CHANNELS]>,
    pub(crate) eeprom: Box<SiiEeprom>,
    pub(crate) sync0: Option<SyncPulses>,
    /// Boxed, because few devices have them; without SYNC0 there are none.
    pub(crate) sync1: Box<Option<SyncPulses>>,
}

impl Esc {
    pub(crate) fn new(esc_settings: &EscSettings, eeprom: SiiEeprom) -> Self {
        let clock = DistributedClock::new(esc_settings.clock_start_ns, esc_settings.drift_ppb);
        let mut esc = Self {
            clock,
            memory: Box::new([0; MEMORY_END + PADDING]),
            watchdog_until_ns: u64::MAX,
            watchdog_ns: 0,
            counter_offset: 0,
            al_status: 0,
            events: 0,
            changes: 0,
            reset_letters: 0,
            has_clock: esc_settings.has_clock,
            ports: esc_settings.ports,
            sync_managers: [const { SyncManager::OFF }; CHANNELS],
            fmmus: Box::new([None; CHANNELS]),
            eeprom: Box::new(eeprom),
            sync0: None,
            sync1: Box::new(None),
        };

        esc.preset();
        esc
    }

    /// Power cycle at `now_ns`: resets everything but the EEPROM.
    pub(crate) fn power_on(&mut self, now_ns: u64) {
        let dl_status = word(&self.memory[..], DL_STATUS);
        self.memory.fill(0);
        self.sync_managers = [const { SyncManager::OFF }; CHANNELS];
        self.fmmus.fill(None);
        self.clock.restart(now_ns);
        self.sync0 = None;
        *self.sync1 = None;
        self.events = 0;
        self.changes = change::ADDRESS | change::MAPPING | change::PORTS;
        self.watchdog_until_ns = u64::MAX;
        self.preset();
        self.set_dl_status(dl_status);
    }

    fn preset(&mut self) {
        let ports = if self.ports > 2 { (1u16 << (2 * self.ports)) - 1 } else { 0x0f };
        let features: u16 = if self.has_clock { 0x01fc } else { 0x00f0 };
        let channels = CHANNELS as u8;
        let device = [0x11, 0, 0, 0, channels, channels, 8, ports as u8];
        self.memory[DEVICE..DEVICE + 8].copy_from_slice(&device);
        self.put_word(DEVICE + 8, features);

        self.put_word(WATCHDOG_DIVIDER, 2498);
        self.put_word(0x0410, 1000);
        self.put_word(WATCHDOG_TIME, 1000);
        self.put_word(SPEED_START, 0x1000);

        self.memory[FILTER_DEPTH..FILTER_DEPTH + 2].copy_from_slice(&[4, 12]);

        self.set_state(1, 0);
        self.put_word(AL_CONTROL, 1);
        self.set_watchdog();
        self.load_configuration();
    }

    fn set_watchdog(&mut self) {
        let unit_ns = (u64::from(word(&self.memory[..], WATCHDOG_DIVIDER)) + 2) * 40;
        let units = u64::from(word(&self.memory[..], WATCHDOG_TIME));
        self.watchdog_ns = if units == 0 { u64::MAX } else { units * unit_ns };
    }

    fn load_configuration(&mut self) {
        if let Some(area) = self.eeprom.load() {
            self.memory[PDI_CONTROL..PDI_CONTROL + 2].copy_from_slice(&area[..2]);
            self.memory[PDI_CONFIGURATION..PDI_CONFIGURATION + 2].copy_from_slice(&area[2..4]);
            self.memory[ALIAS..ALIAS + 2].copy_from_slice(&area[8..10]);
            self.changes |= change::ADDRESS;
        }
    }

    fn register_access(&self) -> &'static RegisterAccess {
        if self.has_clock { &WITH_CLOCK } else { &WITHOUT_CLOCK }
    }

    fn put_word(&mut self, at: usize, value: u16) {
        self.memory[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }

    // ---- data link side

    pub(crate) fn station(&self) -> u16 {
        word(&self.memory[..], STATION)
    }

    /// Returns the station alias, if the MainDevice has enabled it.
    pub(crate) fn alias(&self) -> Option<u16> {
        (self.memory[ALIAS_ENABLE] & 1 != 0).then(|| word(&self.memory[..], ALIAS))
    }

    pub(crate) fn has_port(&self, port: usize) -> bool {
        port < usize::from(self.ports)
    }

    /// Returns the loop control of a port: 0 auto, 1 auto close, 2 open, 3 closed.
    pub(crate) fn loop_control(&self, port: usize) -> u8 {
        self.memory[LOOP_CONTROL] >> (2 * port) & 3
    }

    pub(crate) fn set_dl_status(&mut self, status: u16) {
        self.put_word(DL_STATUS, status);
    }

    /// Counts an error; the counter stops at 255.
    pub(crate) fn count_error(&mut self, counter: ErrorCounter) {
        let counter = &mut self.memory[usize::from(counter.register())];
        *counter = counter.saturating_add(1);
    }

    // ---- firmware side

    /// Returns the requested AL state, with the error acknowledgement in bit 4.
    pub(crate) fn state_request(&self) -> u8 {
        self.memory[AL_CONTROL]
    }

    pub(crate) fn set_state(&mut self, status: u8, code: u16) {
        self.al_status = u16::from(status);
        self.put_word(AL_STATUS, self.al_status);
        self.put_word(AL_STATUS_CODE, code);
    }

    pub(crate) fn state_code(&self) -> u16 {
        word(&self.memory[..], AL_STATUS_CODE)
    }

    /// Returns the SYNC activation register.
    pub(crate) fn sync_activation(&self) -> u8 {
        self.memory[SYNC_ACTIVATION]
    }

    /// Returns the pulses at which the application works: SYNC1 if they are activated, or SYNC0.
    pub(crate) fn application_pulses(&self) -> Option<SyncPulses> {
        self.sync0.map(|sync0| self.sync1.unwrap_or(sync0))
    }

    /// Advances the pulses after one of the application at this system time.
    pub(crate) fn pulse_passed(&mut self, system_ns: u64, most_ns: u64) {
        if let Some(sync1) = *self.sync1 {
            *self.sync1 = sync1.caught_up(system_ns, most_ns).following();
            self.sync0 = self.sync0.map(|sync0| sync0.after(system_ns));
        } else {
            self.sync0 =
                self.sync0.and_then(|pulse| pulse.caught_up(system_ns, most_ns).following());
        }
    }

    /// Returns the SYNC unit and activation registers (AssignActivate).
    pub(crate) fn sync_assignment(&self) -> u16 {
        word(&self.memory[..], SYNC_UNIT)
    }

    pub(crate) fn sync_cycle_ns(&self) -> u32 {
        long(&self.memory[..], SYNC_CYCLE)
    }

    pub(crate) fn sync1_delay_ns(&self) -> u32 {
        long(&self.memory[..], SYNC1_CYCLE)
    }

    /// Returns the memory, in which the areas of process data are.
    pub(crate) fn process_memory(&self) -> &[u8] {
        &self.memory[..MEMORY_END]
    }

    /// Returns the memory for the inputs of the model.
    pub(crate) fn process_memory_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..MEMORY_END]
    }

    /// Returns a range of process memory; empty when it is outside, for example in the registers.
    pub(crate) fn area(&self, start: u16, length: u16) -> &[u8] {
        let bytes = usize::from(start)..usize::from(start) + usize::from(length);
        self.memory[..MEMORY_END]
            .get(bytes)
            .filter(|_| usize::from(start) >= MEMORY_START)
            .unwrap_or_default()
    }

    pub(crate) fn area_mut(&mut self, start: u16, length: u16) -> &mut [u8] {
        let bytes = usize::from(start)..usize::from(start) + usize::from(length);
        self.memory[..MEMORY_END]
            .get_mut(bytes)
            .filter(|_| usize::from(start) >= MEMORY_START)
            .unwrap_or_default()
    }

    /// Deactivates SyncManagers on the device side: the first `mailboxes` ones in INIT, those of
    /// process data below SAFEOP.
    pub(crate) fn set_deactivated(&mut self, mailboxes: usize, mail: bool, process_data: bool) {
        for (number, sync_manager) in self.sync_managers.iter_mut().enumerate() {
            sync_manager.set_deactivated(if number < mailboxes { mail } else { process_data });
        }
        self.changes |= change::MAPPING;
    }

    pub(crate) fn expire_watchdog(&mut self) {
        self.watchdog_until_ns = u64::MAX;
        self.memory[WATCHDOG_STATUS] = 0;
        self.memory[WATCHDOG_COUNT] = self.memory[WATCHDOG_COUNT].saturating_add(1);
    }
}
