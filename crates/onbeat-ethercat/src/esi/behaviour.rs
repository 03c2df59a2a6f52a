//! Classification of a device of an ESI file by its PDOs.

use super::{EsiDevice, Pdo, PdoEntry};
use crate::layout::DeviceKind;

impl EsiDevice {
    /// Classifies the device by its PDOs: a drive has a controlword and a statusword, the values of
    /// a digital device are single bits, a coupler has none, and all others are analogue.
    #[must_use]
    pub fn behaviour(&self) -> DeviceKind {
        let [outputs, inputs] = self.pdos.each_ref().map(|pdos| values(pdos).collect::<Vec<_>>());
        let has = |entries: &[&PdoEntry], index| {
            entries.iter().any(|entry| (entry.index, entry.subindex) == (index, 0))
        };
        if has(&outputs, 0x6040) && has(&inputs, 0x6041) {
            DeviceKind::Drive
        } else if outputs.is_empty() && inputs.is_empty() {
            DeviceKind::Coupler
        } else if outputs.iter().chain(&inputs).all(|entry| entry.bits == 1) {
            DeviceKind::Digital
        } else {
            DeviceKind::Analogue
        }
    }
}

/// Returns the entries of PDOs, without gaps.
pub fn values(pdos: &[Pdo]) -> impl Iterator<Item = &PdoEntry> {
    pdos.iter().flat_map(|pdo| &pdo.entries).filter(|entry| entry.index != 0)
}
