//! One SubDevice controller: registers, process memory, and what happens when they are touched.
//!
//! `touch` is reading and writing, `react` is what registers are beyond memory, `mapped` are process data by logical address, and
//! `watched` is what a loop reads from all devices in each of its cycles.

mod mapped;
mod react;
mod touch;
mod watched;

use super::clock::{Clock, Sync0};
use super::eeprom::Eeprom;
use super::fmmu::Fmmu;
use super::registers::{
    AL_CONTROL, AL_STATUS, AL_STATUS_CODE, ALIAS, ALIAS_ENABLE, Access, CHANNELS, DEVICE, DL_STATUS, FILTER_DEPTH,
    LOOP_CONTROL, LOST_LINKS, MEMORY_END, MEMORY_START, PDI_CONFIGURATION, PDI_CONTROL, SPEED_START, STATION,
    SYNC_ACTIVATION, SYNC_CYCLE, WATCHDOG_COUNT, WATCHDOG_DIVIDER, WATCHDOG_STATUS, WATCHDOG_TIME, WITH_CLOCK,
    WITHOUT_CLOCK, long, word,
};
use super::sync_channel::SyncChannel;
pub(crate) use watched::Watched;

/// What the firmware has to look at; bits of [`Controller::events`].
pub(crate) mod event {
    /// AL control was written.
    pub(crate) const STATE: u8 = 1;
    /// A mail arrived.
    pub(crate) const MAIL_ARRIVED: u8 = 2;
    /// The MainDevice took a mail.
    pub(crate) const MAIL_TAKEN: u8 = 4;
    /// Output data are whole.
    pub(crate) const OUTPUTS: u8 = 8;
    /// Input data were read.
    pub(crate) const INPUTS: u8 = 16;
    /// The last mail is wanted again.
    pub(crate) const REPEAT: u8 = 32;
    /// The three bytes of a reset were written.
    pub(crate) const RESET: u8 = 64;
    /// Pulses were activated or stopped.
    pub(crate) const PULSES: u8 = 128;
}

/// What the segment has to look at; bits of [`Controller::touched`].
pub(crate) mod touched {
    /// Station address or use of the alias.
    pub(crate) const ADDRESS: u8 = 1;
    /// FMMUs or SyncManagers.
    pub(crate) const MAPPING: u8 = 2;
    /// Loop control of the ports.
    pub(crate) const PORTS: u8 = 4;
}

/// When a frame passes a device: the processing unit, and each port (0 for ports it does not come in by).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passing {
    pub(crate) now_ns: u64,
    pub(crate) ports_ns: [u64; 4],
}

/// How what is read joins what the datagram holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    Replace,
    Or,
}

/// Bytes behind the memory that nothing uses. Without them, the process data of all devices would compete for the same lines of the
/// first cache, being a multiple of 4 KiB apart.
const APART: usize = 0x140;

/// What a controller is made with.
#[derive(Clone, Debug)]
pub(crate) struct Chip {
    pub(crate) has_clock: bool,
    pub(crate) ports: u8,
    pub(crate) drift_ppb: f64,
    pub(crate) clock_start_ns: u64,
}

/// Registers, memory and units of one device.
///
/// What the frames of a loop touch comes first, in as few lines of the cache as it takes, and what they do not is in boxes: after the
/// devices have worked, little of it is in the first cache any more, and fetching it is most of a frame's time.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Controller {
    pub(crate) clock: Clock,
    memory: Box<[u8; MEMORY_END + APART]>,
    /// Process data are whole at this instant at the latest, or the watchdog bites; `u64::MAX`: not running.
    pub(crate) watchdog_until_ns: u64,
    watchdog_ns: u64,
    /// Added to each of the device's parts of working counters, which never get negative: a fault.
    pub(crate) counter_offset: i16,
    /// As in the register.
    al_status: u16,
    pub(crate) events: u8,
    pub(crate) touched: u8,
    reset_letters: u8,
    has_clock: bool,
    ports: u8,
    pub(crate) sync_managers: [SyncChannel; CHANNELS],
    pub(crate) fmmus: Box<[Option<Fmmu>; CHANNELS]>,
    pub(crate) eeprom: Box<Eeprom>,
    pub(crate) sync0: Option<Sync0>,
}

impl Controller {
    pub(crate) fn new(chip: &Chip, eeprom: Eeprom) -> Self {
        let clock = Clock::new(chip.clock_start_ns, chip.drift_ppb);
        let mut controller = Self {
            clock,
            memory: Box::new([0; MEMORY_END + APART]),
            watchdog_until_ns: u64::MAX,
            watchdog_ns: 0,
            counter_offset: 0,
            al_status: 0,
            events: 0,
            touched: 0,
            reset_letters: 0,
            has_clock: chip.has_clock,
            ports: chip.ports,
            sync_managers: [const { SyncChannel::OFF }; CHANNELS],
            fmmus: Box::new([None; CHANNELS]),
            eeprom: Box::new(eeprom),
            sync0: None,
        };

        controller.preset();
        controller
    }

    /// Power off and on at `now_ns`: everything but the EEPROM is as new.
    pub(crate) fn power_on(&mut self, now_ns: u64) {
        let dl_status = word(&self.memory[..], DL_STATUS);
        self.memory.fill(0);
        self.sync_managers = [const { SyncChannel::OFF }; CHANNELS];
        self.fmmus.fill(None);
        self.clock.restart(now_ns);
        self.sync0 = None;
        self.events = 0;
        self.touched = touched::ADDRESS | touched::MAPPING | touched::PORTS;
        self.watchdog_until_ns = u64::MAX;
        self.preset();
        self.set_dl_status(dl_status);
    }

    fn preset(&mut self) {
        let ports = if self.ports > 2 { (1u16 << (2 * self.ports)) - 1 } else { 0x0f };
        let features: u16 = if self.has_clock { 0x01fc } else { 0x00f0 };
        let channels = CHANNELS as u8;
        self.memory[DEVICE..DEVICE + 8].copy_from_slice(&[0x11, 0, 0, 0, channels, channels, 8, ports as u8]);
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
            self.touched |= touched::ADDRESS;
        }
    }

    fn access(&self) -> &'static Access {
        if self.has_clock { &WITH_CLOCK } else { &WITHOUT_CLOCK }
    }

    fn put_word(&mut self, at: usize, value: u16) {
        self.memory[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }

    // ---- seen from the wire

    pub(crate) fn station(&self) -> u16 {
        word(&self.memory[..], STATION)
    }

    /// The second station address, when the MainDevice has switched it on.
    pub(crate) fn alias(&self) -> Option<u16> {
        (self.memory[ALIAS_ENABLE] & 1 != 0).then(|| word(&self.memory[..], ALIAS))
    }

    pub(crate) fn has_port(&self, port: usize) -> bool {
        port < usize::from(self.ports)
    }

    /// Loop control of a port: 0 and 1 automatic, 2 open, 3 closed.
    pub(crate) fn loop_control(&self, port: usize) -> u8 {
        self.memory[LOOP_CONTROL] >> (2 * port) & 3
    }

    pub(crate) fn set_dl_status(&mut self, status: u16) {
        self.put_word(DL_STATUS, status);
    }

    /// Counts a lost link at a port; the counter stops at 255.
    pub(crate) fn count_lost_link(&mut self, port: usize) {
        let counter = &mut self.memory[LOST_LINKS + port];
        *counter = counter.saturating_add(1);
    }

    // ---- seen from the firmware

    /// State asked for, with the acknowledgement in bit 4.
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

    /// Bits of the activation register of the pulses.
    pub(crate) fn sync_activation(&self) -> u8 {
        self.memory[SYNC_ACTIVATION]
    }

    pub(crate) fn sync_cycle_ns(&self) -> u32 {
        long(&self.memory[..], SYNC_CYCLE)
    }

    /// Bytes of process memory; empty where there is none, such as below its start, where the registers are.
    pub(crate) fn area(&self, start: u16, length: u16) -> &[u8] {
        let bytes = usize::from(start)..usize::from(start) + usize::from(length);
        self.memory[..MEMORY_END].get(bytes).filter(|_| usize::from(start) >= MEMORY_START).unwrap_or_default()
    }

    pub(crate) fn area_mut(&mut self, start: u16, length: u16) -> &mut [u8] {
        let bytes = usize::from(start)..usize::from(start) + usize::from(length);
        self.memory[..MEMORY_END].get_mut(bytes).filter(|_| usize::from(start) >= MEMORY_START).unwrap_or_default()
    }

    /// Mailboxes are open to the MainDevice from PREOP on, process data from SAFEOP on. `mailboxes` is how many channels are those.
    pub(crate) fn hold(&mut self, mailboxes: usize, (mail_held, data_held): (bool, bool)) {
        for (number, channel) in self.sync_managers.iter_mut().enumerate() {
            channel.held_by_device = if number < mailboxes { mail_held } else { data_held };
        }
        self.touched |= touched::MAPPING;
    }

    pub(crate) fn watchdog_bites(&mut self) {
        self.watchdog_until_ns = u64::MAX;
        self.memory[WATCHDOG_STATUS] = 0;
        self.memory[WATCHDOG_COUNT] = self.memory[WATCHDOG_COUNT].saturating_add(1);
    }
}
