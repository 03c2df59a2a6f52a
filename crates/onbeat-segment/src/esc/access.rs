//! Reading and writing of registers and process memory.

use super::{Esc, PassTimes, ReadMode, event};
use crate::registers::{MEMORY_END, MEMORY_START, SII_CONTROL, SII_OWNER, WATCHDOG_STATUS};
use crate::sync_manager::{AccessDirection, AccessResult, SyncManagerMode};

impl Esc {
    /// Reads for the MainDevice. Returns whether at least one byte was read.
    pub(crate) fn read(
        &mut self,
        address: u16,
        data: &mut [u8],
        mode: ReadMode,
        now_ns: u64,
    ) -> bool {
        let start = usize::from(address);
        let split = MEMORY_START.saturating_sub(start).min(data.len());
        let (registers, memory) = data.split_at_mut(split);
        let mut any = false;
        if !registers.is_empty() {
            self.refresh(start, start + split, now_ns);
            let present = &self.register_access().present;
            for (at, byte) in (start..).zip(registers.iter_mut()) {
                if present[at] {
                    any = true;
                    *byte = if mode == ReadMode::Or {
                        *byte | self.memory[at]
                    } else {
                        self.memory[at]
                    };
                }
            }
        }

        any | (!memory.is_empty() && self.read_memory(start + split, memory, mode, now_ns))
    }

    fn read_memory(&mut self, start: usize, data: &mut [u8], mode: ReadMode, now_ns: u64) -> bool {
        if let Some(channel) = self
            .whole_area(start, data.len(), AccessDirection::Read)
            .filter(|_| mode == ReadMode::Replace)
        {
            data.copy_from_slice(&self.memory[start..start + data.len()]);
            self.sync_managers[channel].access_all();
            self.events |= event::INPUTS;
            return true;
        }

        let mut any = false;
        for (at, byte) in (start..MEMORY_END).zip(data.iter_mut()) {
            if self.access_byte(at, AccessDirection::Read, now_ns) {
                any = true;
                *byte =
                    if mode == ReadMode::Or { *byte | self.memory[at] } else { self.memory[at] };
            }
        }

        any
    }

    /// Writes for the MainDevice. Returns whether at least one byte was written.
    pub(crate) fn write(&mut self, address: u16, data: &[u8], pass_times: &PassTimes) -> bool {
        let start = usize::from(address);
        let split = MEMORY_START.saturating_sub(start).min(data.len());
        let (registers, memory) = data.split_at(split);
        let mut any = false;
        if !registers.is_empty() {
            self.prepare_write(start, start + split, pass_times.now_ns);
            any = self.write_registers(start, registers);
            if any {
                self.apply_write(start, start + split, pass_times);
            }
        }

        any | (!memory.is_empty() && self.write_memory(start + split, memory, pass_times.now_ns))
    }

    /// Returns whether the EEPROM is assigned to the device.
    pub(crate) fn is_eeprom_of_device(&self) -> bool {
        self.memory[SII_OWNER] & 1 != 0
    }

    fn write_registers(&mut self, start: usize, data: &[u8]) -> bool {
        let owned_by_device = self.is_eeprom_of_device();
        let writable = &self.register_access().writable;
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
        if let Some(channel) = self.whole_area(start, data.len(), AccessDirection::Write) {
            self.memory[start..start + data.len()].copy_from_slice(data);
            self.sync_managers[channel].access_all();
            self.outputs_complete(channel, now_ns);
            return true;
        }

        let mut any = false;
        for (at, byte) in (start..MEMORY_END).zip(data) {
            if self.access_byte(at, AccessDirection::Write, now_ns) {
                any = true;
                self.memory[at] = *byte;
            }
        }

        any
    }

    /// Returns the SyncManager whose area is exactly this one, if it is within memory.
    pub(super) fn whole_area(
        &self,
        start: usize,
        length: usize,
        direction: AccessDirection,
    ) -> Option<usize> {
        if start + length > MEMORY_END {
            return None;
        }
        let address = start as u16;
        self.sync_managers
            .iter()
            .position(|channel| channel.is_whole_area(address, length, direction))
    }

    /// Checks access to a byte of process memory; bytes without a SyncManager are plain memory.
    fn access_byte(&mut self, at: usize, direction: AccessDirection, now_ns: u64) -> bool {
        let address = at as u16;
        let Some(channel) = self.sync_managers.iter().position(|channel| channel.covers(address))
        else {
            return true;
        };
        let result = self.sync_managers[channel].access(address, direction);
        if result == AccessResult::Completed {
            match (self.sync_managers[channel].mode, direction) {
                (SyncManagerMode::DeviceMailbox, AccessDirection::Write) => {
                    self.events |= event::MAIL_ARRIVED;
                }
                (SyncManagerMode::DeviceMailbox, AccessDirection::Read) => {
                    self.events |= event::MAIL_TAKEN;
                }
                (SyncManagerMode::Buffered, AccessDirection::Write) => {
                    self.outputs_complete(channel, now_ns);
                }
                (SyncManagerMode::Buffered, AccessDirection::Read) => self.events |= event::INPUTS,
            }
        }

        result != AccessResult::Refused
    }

    pub(super) fn outputs_complete(&mut self, channel: usize, now_ns: u64) {
        self.events |= event::OUTPUTS;
        if self.sync_managers[channel].triggers_watchdog {
            self.kick_watchdog(now_ns);
        }
    }

    fn kick_watchdog(&mut self, now_ns: u64) {
        // The status bit of a running watchdog is already set.
        if self.watchdog_until_ns == u64::MAX {
            self.memory[WATCHDOG_STATUS] = 1;
        }
        self.watchdog_until_ns = now_ns.saturating_add(self.watchdog_ns);
    }
}
