//! Registers that are more than memory: what changes by itself, and what follows from a write.

use super::{Controller, Passing, event, touched};
use crate::clock::Sync0;
use crate::eeprom::After;
use crate::fmmu::Fmmu;
use crate::registers::{
    AL_CONTROL, ALIAS_ENABLE, CHANNELS, FILTER_DEPTH, FMMU, LOOP_CONTROL, LOST_LINKS, PORT_TIMES, RECEIVE_TIME, RESET,
    RX_ERRORS, SII_CONTROL, SPEED_START, STATION, SYNC_ACTIVATION, SYNC_CYCLE, SYNC_MANAGER, SYNC_START, SYSTEM_TIME,
    TIME_DELAY, TIME_DIFFERENCE, TIME_OFFSET, WATCHDOG_COUNT, WATCHDOG_DIVIDER, WATCHDOG_TIME, long, quad, word,
};

impl Controller {
    /// Brings what changes by itself up to date, as far as it is about to be read.
    pub(super) fn refresh(&mut self, start: usize, end: usize, now_ns: u64) {
        let about = |at: usize, length: usize| start < at + length && at < end;
        if about(SII_CONTROL, 2) {
            let writable = word(&self.memory[..], SII_CONTROL) & 0x0001;
            self.put_word(SII_CONTROL, self.eeprom.status(now_ns) | writable);
        }

        if about(SYNC_MANAGER, 8 * CHANNELS) {
            for (at, channel) in (SYNC_MANAGER..).step_by(8).zip(&self.sync_managers) {
                self.memory[at + 5] = channel.status();
                self.memory[at + 7] = channel.device_control();
            }
        }

        if end > PORT_TIMES {
            if about(SYSTEM_TIME, 8) {
                let system = self.clock.system(now_ns).to_le_bytes();
                self.memory[SYSTEM_TIME..SYSTEM_TIME + 8].copy_from_slice(&system);
            }

            if about(TIME_DIFFERENCE, 4) {
                let difference = self.clock.difference().to_le_bytes();
                self.memory[TIME_DIFFERENCE..TIME_DIFFERENCE + 4].copy_from_slice(&difference);
            }

            if let Some(pulse) = self.sync0.filter(|_| about(SYNC_START, 8)) {
                self.memory[SYNC_START..SYNC_START + 8].copy_from_slice(&pulse.next_ns.to_le_bytes());
            }
        }
    }

    /// Readies what a write to registers `start` to `end` leaves of a value that changes by itself: of the system time, it is the
    /// clock's own.
    pub(super) fn prepare(&mut self, start: usize, end: usize, now_ns: u64) {
        const BEHIND: usize = SYSTEM_TIME + 8;
        let whole = start <= SYSTEM_TIME && end >= BEHIND;
        if start < BEHIND && end > SYSTEM_TIME && !whole {
            self.refresh(SYSTEM_TIME, BEHIND, now_ns);
        }
    }

    /// Does what follows from a write to registers `start` to `end`.
    pub(super) fn react(&mut self, start: usize, end: usize, passing: &Passing) {
        let about = |at: usize, length: usize| start < at + length && at < end;
        if end > PORT_TIMES {
            self.react_in_clock(start, end, passing);
        }
        if start >= PORT_TIMES {
            return;
        }

        if about(STATION, 2) || about(ALIAS_ENABLE, 1) {
            self.touched |= touched::ADDRESS;
        }
        if about(RESET, 1) {
            self.hear_reset();
        }
        if about(LOOP_CONTROL, 1) {
            self.touched |= touched::PORTS;
        }

        if about(AL_CONTROL, 1) {
            self.events |= event::STATE;
        }

        for (at, length) in [(RX_ERRORS, 14), (LOST_LINKS, 4), (WATCHDOG_COUNT, 2)] {
            if about(at, length) {
                self.memory[at..at + length].fill(0);
            }
        }

        if about(WATCHDOG_DIVIDER, 2) || about(WATCHDOG_TIME, 2) {
            self.set_watchdog();
        }
        if about(SII_CONTROL + 1, 1) && self.eeprom.command(&mut self.memory[..], passing.now_ns) == After::Reload {
            self.load_configuration();
        }

        if about(FMMU, 16 * CHANNELS) {
            for (fmmu, registers) in self.fmmus.iter_mut().zip(self.memory[FMMU..].chunks(16)) {
                *fmmu = Fmmu::from_registers(registers);
            }
            self.touched |= touched::MAPPING;
        }

        if about(SYNC_MANAGER, 8 * CHANNELS) {
            self.configure_sync_managers();
        }
    }

    fn configure_sync_managers(&mut self) {
        for (channel, registers) in self.sync_managers.iter_mut().zip(self.memory[SYNC_MANAGER..].chunks(8)) {
            channel.configure(registers);
            if channel.repeat_request != channel.repeat_done {
                self.events |= event::REPEAT;
            }
        }
        self.touched |= touched::MAPPING;
    }

    fn react_in_clock(&mut self, start: usize, end: usize, passing: &Passing) {
        let about = |at: usize, length: usize| start < at + length && at < end;
        if about(PORT_TIMES, 4) {
            for (at, &port_ns) in (PORT_TIMES..).step_by(4).zip(&passing.ports_ns) {
                let local = if port_ns == 0 { 0 } else { self.clock.local(port_ns) as u32 };
                self.memory[at..at + 4].copy_from_slice(&local.to_le_bytes());
            }
            let local = self.clock.local(passing.now_ns).to_le_bytes();
            self.memory[RECEIVE_TIME..RECEIVE_TIME + 8].copy_from_slice(&local);
        }

        if about(SYSTEM_TIME, 8) {
            self.follow(end.saturating_sub(SYSTEM_TIME), passing.now_ns);
        }

        self.clock.offset_ns = quad(&self.memory[..], TIME_OFFSET);
        self.clock.delay_ns = long(&self.memory[..], TIME_DELAY);
        if about(SPEED_START, 2) {
            self.clock.restart_filter(passing.now_ns);
        }

        self.clock.set_filter_depth(self.memory[FILTER_DEPTH] & 0x0f);
        if about(SYNC_ACTIVATION, 1) {
            let pulses = self.memory[SYNC_ACTIVATION] & 0x03 == 0x03;
            let system = self.clock.system(passing.now_ns);
            let (start, cycle) = (quad(&self.memory[..], SYNC_START), long(&self.memory[..], SYNC_CYCLE));
            self.sync0 = Sync0::activated(start, cycle, system).filter(|_| pulses);
            self.events |= event::PULSES;
        }
    }

    /// Takes the reference time that was written; of a short write, the upper half is the clock's own.
    fn follow(&mut self, written: usize, now_ns: u64) {
        let mut reference = quad(&self.memory[..], SYSTEM_TIME);
        if written < 8 {
            let own = self.clock.system(now_ns);
            let near = (reference as u32).wrapping_sub(own as u32) as i32;
            reference = own.wrapping_add_signed(i64::from(near));
        }

        self.clock.follow(reference, now_ns);
    }

    /// A reset is asked for by the letters R, E, S in three writes running.
    fn hear_reset(&mut self) {
        self.reset_letters = match (self.reset_letters, self.memory[RESET]) {
            (_, b'R') => 1,
            (1, b'E') => 2,
            (2, b'S') => {
                self.events |= event::RESET;
                0
            }
            _ => 0,
        };
    }
}
