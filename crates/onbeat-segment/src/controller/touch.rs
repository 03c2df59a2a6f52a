//! Reading and writing of registers and memory.

use super::{Controller, Join, Passing, event};
use crate::registers::{MEMORY_END, MEMORY_START, SII_CONTROL, SII_OWNER, WATCHDOG_STATUS};
use crate::sync_channel::{Direction, Mode, Touch};

impl Controller {
    /// The MainDevice reads. Whether at least one byte could be read.
    pub(crate) fn read(&mut self, address: u16, data: &mut [u8], join: Join, now_ns: u64) -> bool {
        let start = usize::from(address);
        let split = MEMORY_START.saturating_sub(start).min(data.len());
        let (registers, memory) = data.split_at_mut(split);
        let mut any = false;
        if !registers.is_empty() {
            self.refresh(start, start + split, now_ns);
            let present = &self.access().present;
            for (at, byte) in (start..).zip(registers.iter_mut()) {
                if present[at] {
                    any = true;
                    *byte = if join == Join::Or { *byte | self.memory[at] } else { self.memory[at] };
                }
            }
        }

        any | (!memory.is_empty() && self.read_memory(start + split, memory, (join, now_ns)))
    }

    fn read_memory(&mut self, start: usize, data: &mut [u8], (join, now_ns): (Join, u64)) -> bool {
        if let Some(channel) = self.whole_area(start, data.len(), Direction::Read).filter(|_| join == Join::Replace) {
            data.copy_from_slice(&self.memory[start..start + data.len()]);
            self.sync_managers[channel].touch_all();
            self.events |= event::INPUTS;
            return true;
        }

        let mut any = false;
        for (at, byte) in (start..MEMORY_END).zip(data.iter_mut()) {
            if self.touch(at, Direction::Read, now_ns) {
                any = true;
                *byte = if join == Join::Or { *byte | self.memory[at] } else { self.memory[at] };
            }
        }

        any
    }

    /// The MainDevice writes. Whether at least one byte could be written.
    pub(crate) fn write(&mut self, address: u16, data: &[u8], passing: &Passing) -> bool {
        let start = usize::from(address);
        let split = MEMORY_START.saturating_sub(start).min(data.len());
        let (registers, memory) = data.split_at(split);
        let mut any = false;
        if !registers.is_empty() {
            self.prepare(start, start + split, passing.now_ns);
            any = self.write_registers(start, registers);
            if any {
                self.react(start, start + split, passing);
            }
        }

        any | (!memory.is_empty() && self.write_memory(start + split, memory, passing.now_ns))
    }

    fn write_registers(&mut self, start: usize, data: &[u8]) -> bool {
        let owned_by_device = self.memory[SII_OWNER] & 1 != 0;
        let writable = &self.access().writable;
        let mut any = false;
        for (at, byte) in (start..).zip(data) {
            let mut mask = writable[at];
            if owned_by_device && (SII_CONTROL..SII_CONTROL + 14).contains(&at) {
                mask = 0;
            }
            any |= mask != 0;
            self.memory[at] = self.memory[at] & !mask | byte & mask;
        }

        any
    }

    fn write_memory(&mut self, start: usize, data: &[u8], now_ns: u64) -> bool {
        if let Some(channel) = self.whole_area(start, data.len(), Direction::Write) {
            self.memory[start..start + data.len()].copy_from_slice(data);
            self.sync_managers[channel].touch_all();
            self.outputs_complete(channel, now_ns);
            return true;
        }

        let mut any = false;
        for (at, byte) in (start..MEMORY_END).zip(data) {
            if self.touch(at, Direction::Write, now_ns) {
                any = true;
                self.memory[at] = *byte;
            }
        }

        any
    }

    /// The SyncManager whose area this is, all of it, in memory that is there.
    pub(super) fn whole_area(&self, start: usize, length: usize, direction: Direction) -> Option<usize> {
        if start + length > MEMORY_END {
            return None;
        }
        let address = start as u16;
        self.sync_managers.iter().position(|channel| channel.is_whole_area(address, length, direction))
    }

    /// Touches a byte of process memory; what no SyncManager covers is plain memory.
    fn touch(&mut self, at: usize, direction: Direction, now_ns: u64) -> bool {
        let address = at as u16;
        let Some(channel) = self.sync_managers.iter().position(|channel| channel.covers(address)) else { return true };
        let touch = self.sync_managers[channel].touch(address, direction);
        if touch == Touch::Completed {
            match (self.sync_managers[channel].mode, direction) {
                (Mode::Mailbox, Direction::Write) => self.events |= event::MAIL_ARRIVED,
                (Mode::Mailbox, Direction::Read) => self.events |= event::MAIL_TAKEN,
                (Mode::Buffered, Direction::Write) => self.outputs_complete(channel, now_ns),
                (Mode::Buffered, Direction::Read) => self.events |= event::INPUTS,
            }
        }

        touch != Touch::Refused
    }

    pub(super) fn outputs_complete(&mut self, channel: usize, now_ns: u64) {
        self.events |= event::OUTPUTS;
        if self.sync_managers[channel].triggers_watchdog {
            self.kick_watchdog(now_ns);
        }
    }

    fn kick_watchdog(&mut self, now_ns: u64) {
        // One that runs has said so already.
        if self.watchdog_until_ns == u64::MAX {
            self.memory[WATCHDOG_STATUS] = 1;
        }
        self.watchdog_until_ns = now_ns.saturating_add(self.watchdog_ns);
    }
}
