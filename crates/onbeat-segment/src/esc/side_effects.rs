//! Registers that are more than memory: values that change by themselves, and effects of writes.

use super::{Esc, PassTimes, change, event};
use crate::distributed_clock::SyncPulses;
use crate::eeprom::CommandEffect;
use crate::fmmu::Fmmu;
use crate::registers::{
    AL_CONTROL, ALIAS_ENABLE, CHANNELS, FILTER_DEPTH, FMMU, LOOP_CONTROL, LOST_LINKS, PORT_TIMES,
    RECEIVE_TIME, RESET, RX_ERRORS, SII_CONTROL, SPEED_START, STATION, SYNC_ACTIVATION, SYNC_CYCLE,
    SYNC_MANAGER, SYNC_START, SYNC1_CYCLE, SYNC1_NEXT, SYSTEM_TIME, TIME_DELAY, TIME_DIFFERENCE,
    TIME_OFFSET, WATCHDOG_COUNT, WATCHDOG_DIVIDER, WATCHDOG_TIME, long, quad, word,
};

impl Esc {
    /// Updates the registers in `start..end` that change by themselves, before they are read.
    pub(super) fn refresh(&mut self, start: usize, end: usize, now_ns: u64) {
        let covers = |at: usize, length: usize| start < at + length && at < end;
        if covers(SII_CONTROL, 2) {
            let writable = word(&self.memory[..], SII_CONTROL) & 0x0001;
            self.put_word(SII_CONTROL, self.eeprom.status(now_ns) | writable);
        }

        if covers(SYNC_MANAGER, 8 * CHANNELS) {
            for (at, channel) in (SYNC_MANAGER..).step_by(8).zip(&self.sync_managers) {
                self.memory[at + 5] = channel.status();
                self.memory[at + 7] = channel.device_control();
            }
        }

        if end > PORT_TIMES {
            if covers(SYSTEM_TIME, 8) {
                let system = self.clock.system(now_ns).to_le_bytes();
                self.memory[SYSTEM_TIME..SYSTEM_TIME + 8].copy_from_slice(&system);
            }

            if covers(TIME_DIFFERENCE, 4) {
                let difference = self.clock.difference().to_le_bytes();
                self.memory[TIME_DIFFERENCE..TIME_DIFFERENCE + 4].copy_from_slice(&difference);
            }

            if let Some(pulse) = self.sync0.filter(|_| covers(SYNC_START, 8)) {
                self.memory[SYNC_START..SYNC_START + 8]
                    .copy_from_slice(&pulse.next_ns.to_le_bytes());
            }

            if let Some(pulse) = (*self.sync1).filter(|_| covers(SYNC1_NEXT, 8)) {
                let next = pulse.after(self.clock.system(now_ns)).next_ns;
                self.memory[SYNC1_NEXT..SYNC1_NEXT + 8].copy_from_slice(&next.to_le_bytes());
            }
        }
    }

    /// Before a write to `start..end`: updates the system time if the write covers only a part of
    /// it.
    pub(super) fn prepare_write(&mut self, start: usize, end: usize, now_ns: u64) {
        const END: usize = SYSTEM_TIME + 8;
        let whole = start <= SYSTEM_TIME && end >= END;
        if start < END && end > SYSTEM_TIME && !whole {
            self.refresh(SYSTEM_TIME, END, now_ns);
        }
    }

    /// Applies the effects of a write to registers `start..end`.
    pub(super) fn apply_write(&mut self, start: usize, end: usize, pass_times: &PassTimes) {
        let covers = |at: usize, length: usize| start < at + length && at < end;
        if end > PORT_TIMES {
            self.apply_clock_write(start, end, pass_times);
        }
        if start >= PORT_TIMES {
            return;
        }

        if covers(STATION, 2) || covers(ALIAS_ENABLE, 1) {
            self.changes |= change::ADDRESS;
        }
        if covers(RESET, 1) {
            self.track_reset();
        }
        if covers(LOOP_CONTROL, 1) {
            self.changes |= change::PORTS;
        }

        if covers(AL_CONTROL, 1) {
            self.events |= event::STATE;
        }

        for (at, length) in [(RX_ERRORS, 14), (LOST_LINKS, 4), (WATCHDOG_COUNT, 2)] {
            if covers(at, length) {
                self.memory[at..at + length].fill(0);
            }
        }

        if covers(WATCHDOG_DIVIDER, 2) || covers(WATCHDOG_TIME, 2) {
            self.set_watchdog();
        }
        if covers(SII_CONTROL + 1, 1)
            && self.eeprom.command(&mut self.memory[..], pass_times.now_ns) == CommandEffect::Reload
        {
            self.load_configuration();
        }

        if covers(FMMU, 16 * CHANNELS) {
            for (fmmu, registers) in self.fmmus.iter_mut().zip(self.memory[FMMU..].chunks(16)) {
                *fmmu = Fmmu::from_registers(registers);
            }
            self.changes |= change::MAPPING;
        }

        if covers(SYNC_MANAGER, 8 * CHANNELS) {
            self.configure_sync_managers();
        }
    }

    fn configure_sync_managers(&mut self) {
        for (channel, registers) in
            self.sync_managers.iter_mut().zip(self.memory[SYNC_MANAGER..].chunks(8))
        {
            channel.configure(registers);
            if channel.repeat_request != channel.repeat_done {
                self.events |= event::REPEAT;
            }
        }
        self.changes |= change::MAPPING;
    }

    fn apply_clock_write(&mut self, start: usize, end: usize, pass_times: &PassTimes) {
        let covers = |at: usize, length: usize| start < at + length && at < end;
        if covers(PORT_TIMES, 4) {
            for (at, &port_ns) in (PORT_TIMES..).step_by(4).zip(&pass_times.ports_ns) {
                let local = if port_ns == 0 { 0 } else { self.clock.local(port_ns) as u32 };
                self.memory[at..at + 4].copy_from_slice(&local.to_le_bytes());
            }
            let local = self.clock.local(pass_times.now_ns).to_le_bytes();
            self.memory[RECEIVE_TIME..RECEIVE_TIME + 8].copy_from_slice(&local);
        }

        if covers(SYSTEM_TIME, 8) {
            self.follow(end.saturating_sub(SYSTEM_TIME), pass_times.now_ns);
        }

        self.clock.offset_ns = quad(&self.memory[..], TIME_OFFSET);
        self.clock.delay_ns = long(&self.memory[..], TIME_DELAY);
        if covers(SPEED_START, 2) {
            self.clock.restart_filter(pass_times.now_ns);
        }

        self.clock.set_filter_depth(self.memory[FILTER_DEPTH] & 0x0f);
        if covers(SYNC_ACTIVATION, 1) {
            let is_active = self.memory[SYNC_ACTIVATION] & 0x03 == 0x03;
            let system = self.clock.system(pass_times.now_ns);
            let start = quad(&self.memory[..], SYNC_START);
            let cycle = long(&self.memory[..], SYNC_CYCLE);
            self.sync0 = SyncPulses::activated(start, cycle, system).filter(|_| is_active);
            let has_sync1 = self.memory[SYNC_ACTIVATION] & 0x04 != 0;
            let delay = long(&self.memory[..], SYNC1_CYCLE);
            *self.sync1 = self.sync0.filter(|_| has_sync1).map(|pulses| pulses.with_delay(delay));
            self.events |= event::SYNC;
        }
    }

    /// Synchronises with the written reference time; a short write keeps the upper half of the
    /// local clock.
    fn follow(&mut self, written: usize, now_ns: u64) {
        let mut reference = quad(&self.memory[..], SYSTEM_TIME);
        if written < 8 {
            let own = self.clock.system(now_ns);
            let near = (reference as u32).wrapping_sub(own as u32) as i32;
            reference = own.wrapping_add_signed(i64::from(near));
        }

        self.clock.follow(reference, now_ns);
    }

    /// Detects the reset sequence: the letters R, E, S in three consecutive writes.
    fn track_reset(&mut self) {
        self.reset_letters = match (self.reset_letters, self.memory[RESET]) {
            (_, b'R') => 1,
            (1, b'E') => 2,
            (2, b'S') => {
                self.events |= event::RESET_WRITTEN;
                0
            }
            _ => 0,
        };
    }
}
