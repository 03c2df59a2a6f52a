//! Where a device's mailboxes are.

use onbeat_ethercat::registers::SYNC_MANAGER;
use onbeat_rt::frame::word;

use super::config_record::ConfigStep;

/// Minimum length of a mailbox for SDOs, in bytes.
const SHORTEST_MAIL: usize = 24;

/// Addresses and lengths of a device's mailboxes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MailboxLayout {
    pub(crate) to: u16,
    pub(crate) to_bytes: u16,
    pub(crate) from: u16,
    pub(crate) bytes: u16,
}

impl MailboxLayout {
    /// Finds the mailboxes in the first two SyncManagers (ETG.1000.4: mailbox mode, directions
    /// write and read).
    pub(super) fn in_script(script: &[ConfigStep]) -> Option<Self> {
        let channel = |register: u16, direction: u8| {
            let lines = script.iter().rev().filter_map(ConfigStep::written);
            let line = lines
                .into_iter()
                .find(|line| line.register == register && line.bytes.len() >= 8)?;
            let at = word(&line.bytes, 0);
            let bytes = word(&line.bytes, 2);
            let control = line.bytes[4];
            (control & 0x0f == 0x02 | direction && usize::from(bytes) >= SHORTEST_MAIL)
                .then_some((at, bytes))
        };

        let ((to, to_bytes), (from, bytes)) =
            (channel(SYNC_MANAGER, 0x04)?, channel(SYNC_MANAGER + 8, 0)?);
        Some(Self { to, to_bytes, from, bytes })
    }
}
