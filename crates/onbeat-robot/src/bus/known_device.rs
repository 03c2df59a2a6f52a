//! Identity and configuration of a device that was brought up.

use super::config_record::{ConfigStep, FmmuMark};

/// Identity and configuration of a device.
#[derive(Clone, Debug)]
pub(super) struct KnownDevice {
    pub(super) station: u16,
    /// Vendor, product, revision, serial number.
    pub(super) identity: [u32; 4],
    /// Whether it is of an optional group: a revision or a serial number of 0 is any.
    pub(super) is_optional: bool,
    /// Configured station alias, 0 for none.
    pub(super) alias: u16,
    /// Explicit device ID of the file, 0 for none.
    pub(super) device_id: u16,
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
    /// Returns whether a value of the identity, by its number, is that of this device.
    pub(super) fn accepts(&self, number: usize, value: u32) -> bool {
        let is_any = self.is_optional && number >= 2 && self.identity[number] == 0;
        is_any || self.identity[number] == value
    }

    /// Returns whether `other` could be taken for this device by identity and alias.
    pub(super) fn may_be(&self, other: &Self) -> bool {
        let [_, _, revision, serial] = other.identity;
        let has_revision = self.accepts(2, revision) || other.is_optional && revision == 0;
        let has_alias = self.alias == other.alias || self.is_optional && self.alias == 0;
        let has_id =
            self.device_id == other.device_id || self.device_id == 0 || other.device_id == 0;
        self.identity[..2] == other.identity[..2]
            && has_id
            && has_revision
            && self.accepts(3, serial)
            && has_alias
    }

    /// Returns index and subindex of the object that a step of the script writes.
    pub(super) fn object(&self, line: usize) -> (u16, u8) {
        if let Some(ConfigStep::Object(transfer)) = self.script.get(line) {
            transfer.object()
        } else {
            (0, 0)
        }
    }
}
