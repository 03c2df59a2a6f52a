//! SyncManagers: access to areas of process memory, and their completion.
//!
//! An access opens an area with its first byte and completes it with its last one. Other bytes of
//! an area that is not open are refused; refused bytes do not count in the working counter.
//! Completion hands a mailbox to the other side; a buffered area is always accessible.

use super::registers::word;

/// Direction in which the MainDevice accesses an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessDirection {
    /// The MainDevice reads, the device writes.
    Read,
    /// The MainDevice writes, the device reads.
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncManagerMode {
    Buffered,
    DeviceMailbox,
}

/// Result of the access to one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessResult {
    Refused,
    Allowed,
    /// It was the last byte: the area is complete.
    Completed,
}

/// One SyncManager, decoded from its eight bytes of registers.
#[derive(Clone, Debug)]
pub(crate) struct SyncManager {
    pub(crate) start: u16,
    pub(crate) length: u16,
    pub(crate) mode: SyncManagerMode,
    pub(crate) direction: AccessDirection,
    pub(crate) enabled: bool,
    pub(crate) triggers_watchdog: bool,
    /// Deactivated by the device: process data below SAFEOP, mailboxes in INIT.
    deactivated: bool,
    /// Whether a mailbox holds a mail.
    pub(crate) full: bool,
    /// Toggled by the MainDevice to request the last mail again.
    pub(crate) repeat_request: bool,
    pub(crate) repeat_done: bool,
    open: bool,
    /// 0 before the first completion, then cycles through 1 to 3.
    completions: u8,
}

impl SyncManager {
    pub(crate) const OFF: Self = Self {
        start: 0,
        length: 0,
        mode: SyncManagerMode::Buffered,
        direction: AccessDirection::Read,
        enabled: false,
        triggers_watchdog: false,
        deactivated: false,
        full: false,
        repeat_request: false,
        repeat_done: false,
        open: false,
        completions: 0,
    };

    /// Applies written registers. A disabled SyncManager discards its mail.
    pub(crate) fn configure(&mut self, registers: &[u8]) {
        self.start = word(registers, 0);
        self.length = word(registers, 2);
        self.mode = if registers[4] & 0x03 == 0x02 {
            SyncManagerMode::DeviceMailbox
        } else {
            SyncManagerMode::Buffered
        };
        self.direction = if registers[4] & 0x0c == 0x04 {
            AccessDirection::Write
        } else {
            AccessDirection::Read
        };
        self.triggers_watchdog = registers[4] & 0x40 != 0;
        self.repeat_request = registers[6] & 0x02 != 0;
        self.enabled = registers[6] & 0x01 != 0 && self.length > 0;

        if !self.enabled {
            self.empty();
        }
    }

    /// Deactivates or activates it for the device. A deactivated SyncManager is reset (register
    /// 0x0807).
    pub(crate) fn set_deactivated(&mut self, deactivated: bool) {
        self.deactivated = deactivated;
        if deactivated {
            self.empty();
        }
    }

    /// Discards the mail, and what was exchanged through the buffers.
    fn empty(&mut self) {
        self.full = false;
        self.open = false;
        self.completions = 0;
    }

    /// Returns the status register.
    pub(crate) fn status(&self) -> u8 {
        let buffer = if self.completions == 0 { 3 } else { self.completions - 1 };
        match self.mode {
            SyncManagerMode::DeviceMailbox => u8::from(self.full) << 3,
            SyncManagerMode::Buffered => buffer << 4,
        }
    }

    /// Returns the PDI control register: bit 0 deactivates the SyncManager, bit 1 acknowledges a
    /// repeat request.
    pub(crate) fn device_control(&self) -> u8 {
        u8::from(self.deactivated) | u8::from(self.repeat_done) << 1
    }

    pub(crate) fn covers(&self, address: u16) -> bool {
        self.enabled && address >= self.start && address - self.start < self.length
    }

    /// Returns whether [`SyncManager::access_all`] applies to exactly this area.
    pub(crate) fn is_whole_area(
        &self,
        address: u16,
        length: usize,
        direction: AccessDirection,
    ) -> bool {
        self.enabled
            && self.mode == SyncManagerMode::Buffered
            && !self.deactivated
            && self.direction == direction
            && self.start == address
            && usize::from(self.length) == length
    }

    /// Accesses one byte of the area for the MainDevice.
    pub(crate) fn access(&mut self, address: u16, direction: AccessDirection) -> AccessResult {
        if self.direction != direction || self.deactivated || !self.mail_permits(direction) {
            return AccessResult::Refused;
        }
        if address == self.start {
            self.open = true;
        }

        if !self.open {
            return AccessResult::Refused;
        }
        if address - self.start + 1 < self.length {
            return AccessResult::Allowed;
        }

        self.open = false;
        self.complete();
        AccessResult::Completed
    }

    /// Accesses a whole buffered area.
    pub(crate) fn access_all(&mut self) {
        self.open = false;
        self.complete();
    }

    fn mail_permits(&self, direction: AccessDirection) -> bool {
        match (self.mode, direction) {
            (SyncManagerMode::Buffered, _) => true,
            (SyncManagerMode::DeviceMailbox, AccessDirection::Write) => !self.full,
            (SyncManagerMode::DeviceMailbox, AccessDirection::Read) => self.full,
        }
    }

    fn complete(&mut self) {
        self.completions = if self.completions == 3 { 1 } else { self.completions + 1 };
        if self.mode == SyncManagerMode::DeviceMailbox {
            self.full = self.direction == AccessDirection::Write;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mailbox(control: u8) -> SyncManager {
        let mut channel = SyncManager::OFF;
        channel.configure(&[0x00, 0x10, 4, 0, control, 0, 1, 0]);
        channel
    }

    #[test]
    fn a_mailbox_is_full_after_its_last_byte_and_refuses_the_next_mail() {
        let mut channel = mailbox(0x26);
        for address in 0x1000..0x1003 {
            assert_eq!(channel.access(address, AccessDirection::Write), AccessResult::Allowed);
        }

        assert_eq!(channel.status() & 8, 0);
        assert_eq!(channel.access(0x1003, AccessDirection::Write), AccessResult::Completed);
        assert_eq!(channel.status() & 8, 8);
        assert_eq!(channel.access(0x1000, AccessDirection::Write), AccessResult::Refused);
    }

    #[test]
    fn an_empty_mailbox_cannot_be_read() {
        let mut channel = mailbox(0x22);
        assert_eq!(channel.access(0x1000, AccessDirection::Read), AccessResult::Refused);
        channel.full = true;
        assert_eq!(channel.access(0x1000, AccessDirection::Read), AccessResult::Allowed);
        assert_eq!(channel.access(0x1003, AccessDirection::Read), AccessResult::Completed);
        assert!(!channel.full);
    }

    #[test]
    fn only_the_first_byte_opens_an_area() {
        let mut channel = mailbox(0x24);
        assert_eq!(channel.access(0x1001, AccessDirection::Write), AccessResult::Refused);
        assert_eq!(channel.access(0x1000, AccessDirection::Write), AccessResult::Allowed);
        assert_eq!(channel.access(0x1001, AccessDirection::Write), AccessResult::Allowed);
        assert_eq!(channel.access(0x1000, AccessDirection::Read), AccessResult::Refused);
    }

    #[test]
    fn disabling_a_mailbox_empties_it() {
        let mut channel = mailbox(0x26);
        channel.access(0x1000, AccessDirection::Write);
        channel.access(0x1003, AccessDirection::Write);
        channel.configure(&[0x00, 0x10, 4, 0, 0x26, 0, 0, 0]);
        assert_eq!((channel.enabled, channel.full), (false, false));
    }

    #[test]
    fn a_deactivated_area_is_refused() {
        let mut channel = mailbox(0x24);
        channel.set_deactivated(true);
        assert_eq!(channel.access(0x1000, AccessDirection::Write), AccessResult::Refused);
        assert_eq!(channel.device_control(), 1);
    }
}
