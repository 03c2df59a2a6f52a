//! The channels of SyncManagers: who may touch an area of process memory, and when it is whole.
//!
//! An area is opened by its first byte and completed by its last one. In between, and for a closed area, other bytes are refused;
//! a refused byte does not count in the working counter. A mailbox changes hands when completed; a buffered area is always there.

use super::registers::word;

/// Which way the MainDevice uses an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The MainDevice reads, the device writes.
    Read,
    /// The MainDevice writes, the device reads.
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Buffered,
    Mailbox,
}

/// What became of one touched byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    Refused,
    Allowed,
    /// It was the last byte: the area is whole.
    Completed,
}

/// One channel, decoded from its eight bytes of registers.
#[derive(Clone, Debug)]
pub(crate) struct SyncChannel {
    pub(crate) start: u16,
    pub(crate) length: u16,
    pub(crate) mode: Mode,
    pub(crate) direction: Direction,
    pub(crate) enabled: bool,
    pub(crate) triggers_watchdog: bool,
    /// The device holds the area closed: process data below SAFEOP, mailboxes in INIT.
    pub(crate) held_by_device: bool,
    /// A mailbox that waits for its reader.
    pub(crate) full: bool,
    /// Toggled by the MainDevice that wants the last mail again.
    pub(crate) repeat_request: bool,
    pub(crate) repeat_done: bool,
    open: bool,
    /// 0 before the first one, then 1 to 3 in turns.
    completions: u8,
}

impl SyncChannel {
    pub(crate) const OFF: Self = Self {
        start: 0,
        length: 0,
        mode: Mode::Buffered,
        direction: Direction::Read,
        enabled: false,
        triggers_watchdog: false,
        held_by_device: false,
        full: false,
        repeat_request: false,
        repeat_done: false,
        open: false,
        completions: 0,
    };

    /// Takes over registers that were written. A channel that is switched off forgets its mail.
    pub(crate) fn configure(&mut self, registers: &[u8]) {
        self.start = word(registers, 0);
        self.length = word(registers, 2);
        self.mode = if registers[4] & 0x03 == 0x02 { Mode::Mailbox } else { Mode::Buffered };
        self.direction = if registers[4] & 0x0c == 0x04 { Direction::Write } else { Direction::Read };
        self.triggers_watchdog = registers[4] & 0x40 != 0;
        self.repeat_request = registers[6] & 0x02 != 0;
        self.enabled = registers[6] & 0x01 != 0 && self.length > 0;

        if !self.enabled {
            self.full = false;
            self.open = false;
            self.completions = 0;
        }
    }

    /// The status byte, as the MainDevice reads it.
    pub(crate) fn status(&self) -> u8 {
        let buffer = if self.completions == 0 { 3 } else { self.completions - 1 };
        match self.mode {
            Mode::Mailbox => u8::from(self.full) << 3,
            Mode::Buffered => buffer << 4,
        }
    }

    /// The byte that belongs to the device: bit 0 holds the area closed, bit 1 answers a request to repeat.
    pub(crate) fn device_control(&self) -> u8 {
        u8::from(self.held_by_device) | u8::from(self.repeat_done) << 1
    }

    pub(crate) fn covers(&self, address: u16) -> bool {
        self.enabled && address >= self.start && address - self.start < self.length
    }

    /// Whether [`SyncManager::touch_all`] would succeed for exactly this area.
    pub(crate) fn is_whole_area(&self, address: u16, length: usize, direction: Direction) -> bool {
        self.enabled
            && self.mode == Mode::Buffered
            && !self.held_by_device
            && self.direction == direction
            && self.start == address
            && usize::from(self.length) == length
    }

    /// The MainDevice touches one byte of the area.
    pub(crate) fn touch(&mut self, address: u16, direction: Direction) -> Touch {
        if self.direction != direction || self.held_by_device || !self.mail_permits(direction) {
            return Touch::Refused;
        }
        if address == self.start {
            self.open = true;
        }

        if !self.open {
            return Touch::Refused;
        }
        if address - self.start + 1 < self.length {
            return Touch::Allowed;
        }

        self.open = false;
        self.complete();
        Touch::Completed
    }

    /// The same for a whole buffered area at once.
    pub(crate) fn touch_all(&mut self) {
        self.open = false;
        self.complete();
    }

    fn mail_permits(&self, direction: Direction) -> bool {
        match (self.mode, direction) {
            (Mode::Buffered, _) => true,
            (Mode::Mailbox, Direction::Write) => !self.full,
            (Mode::Mailbox, Direction::Read) => self.full,
        }
    }

    fn complete(&mut self) {
        self.completions = if self.completions == 3 { 1 } else { self.completions + 1 };
        if self.mode == Mode::Mailbox {
            self.full = self.direction == Direction::Write;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mailbox(control: u8) -> SyncChannel {
        let mut channel = SyncChannel::OFF;
        channel.configure(&[0x00, 0x10, 4, 0, control, 0, 1, 0]);
        channel
    }

    #[test]
    fn a_mailbox_is_full_after_its_last_byte_and_refuses_the_next_mail() {
        let mut channel = mailbox(0x26);
        for address in 0x1000..0x1003 {
            assert_eq!(channel.touch(address, Direction::Write), Touch::Allowed);
        }

        assert_eq!(channel.status() & 8, 0);
        assert_eq!(channel.touch(0x1003, Direction::Write), Touch::Completed);
        assert_eq!(channel.status() & 8, 8);
        assert_eq!(channel.touch(0x1000, Direction::Write), Touch::Refused);
    }

    #[test]
    fn an_empty_mailbox_cannot_be_read() {
        let mut channel = mailbox(0x22);
        assert_eq!(channel.touch(0x1000, Direction::Read), Touch::Refused);
        channel.full = true;
        assert_eq!(channel.touch(0x1000, Direction::Read), Touch::Allowed);
        assert_eq!(channel.touch(0x1003, Direction::Read), Touch::Completed);
        assert!(!channel.full);
    }

    #[test]
    fn an_area_is_opened_by_its_first_byte_only() {
        let mut channel = mailbox(0x24);
        assert_eq!(channel.touch(0x1001, Direction::Write), Touch::Refused);
        assert_eq!(channel.touch(0x1000, Direction::Write), Touch::Allowed);
        assert_eq!(channel.touch(0x1001, Direction::Write), Touch::Allowed);
        assert_eq!(channel.touch(0x1000, Direction::Read), Touch::Refused);
    }

    #[test]
    fn switching_a_channel_off_empties_it() {
        let mut channel = mailbox(0x26);
        channel.touch(0x1000, Direction::Write);
        channel.touch(0x1003, Direction::Write);
        channel.configure(&[0x00, 0x10, 4, 0, 0x26, 0, 0, 0]);
        assert_eq!((channel.enabled, channel.full), (false, false));
    }

    #[test]
    fn an_area_the_device_holds_is_refused() {
        let mut channel = mailbox(0x24);
        channel.held_by_device = true;
        assert_eq!(channel.touch(0x1000, Direction::Write), Touch::Refused);
        assert_eq!(channel.device_control(), 1);
    }
}
