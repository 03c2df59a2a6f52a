//! Classification of a device of an ESI file by its PDOs.

use super::{EsiDevice, Pdo, PdoEntry};

/// Class of a device of an ESI file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// CiA 402 drive: it has a controlword and a statusword.
    Drive,
    /// All its values are single bits.
    Digital,
    /// Any other device with process data.
    Analogue,
    /// No process data.
    Coupler,
}

impl EsiDevice {
    /// Classifies the device by its PDOs.
    #[must_use]
    pub fn behaviour(&self) -> Behaviour {
        let [outputs, inputs] = self.pdos.each_ref().map(|pdos| values(pdos).collect::<Vec<_>>());
        let has = |entries: &[&PdoEntry], index| {
            entries.iter().any(|entry| (entry.index, entry.subindex) == (index, 0))
        };
        if has(&outputs, 0x6040) && has(&inputs, 0x6041) {
            Behaviour::Drive
        } else if outputs.is_empty() && inputs.is_empty() {
            Behaviour::Coupler
        } else if outputs.iter().chain(&inputs).all(|entry| entry.bits == 1) {
            Behaviour::Digital
        } else {
            Behaviour::Analogue
        }
    }
}

/// Returns the entries of PDOs, without gaps.
pub fn values(pdos: &[Pdo]) -> impl Iterator<Item = &PdoEntry> {
    pdos.iter().flat_map(|pdo| &pdo.entries).filter(|entry| entry.index != 0)
}
