//! Identity and configuration of a device that was brought up.

use super::config_record::{ConfigStep, FmmuMark};

/// Identity and configuration of a device.
#[derive(Clone, Debug)]
pub(super) struct KnownDevice {
    pub(super) station: u16,
    /// Vendor, product, revision, serial number.
    pub(super) identity: [u32; 4],
    /// Configured station alias, 0 for none.
    pub(super) alias: u16,
    /// Whether other devices of the bus have the same identity and alias.
    pub(super) has_identical: bool,
    pub(super) script: Box<[ConfigStep]>,
    /// Content of its FMMU after the script.
    pub(super) mark: Option<FmmuMark>,
    pub(super) has_clock: bool,
    /// Counter of the last mail sent to it.
    pub(super) last_mail_counter: u8,
}

impl KnownDevice {
    /// Returns index and subindex of the object that a step of the script writes.
    pub(super) fn object(&self, line: usize) -> (u16, u8) {
        if let Some(ConfigStep::Object(transfer)) = self.script.get(line) {
            transfer.object()
        } else {
            (0, 0)
        }
    }
}
