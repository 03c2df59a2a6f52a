//! What a device of an ESI file is for, as far as its PDOs show.

use super::{Information, Pdo, PdoEntry};

/// What a device of an ESI file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// A drive of CiA 402: it has a controlword and a statusword.
    Drive,
    /// All its values are single bits.
    Digital,
    /// Whatever else has process data.
    Analogue,
    /// It has none.
    Coupler,
}

impl Information {
    /// What it does, as far as its PDOs show.
    #[must_use]
    pub fn behaviour(&self) -> Behaviour {
        let [outputs, inputs] = self.pdos.each_ref().map(|pdos| values(pdos).collect::<Vec<_>>());
        let has = |entries: &[&PdoEntry], index| entries.iter().any(|entry| (entry.index, entry.sub) == (index, 0));
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

/// Values of PDOs, without their gaps.
pub fn values(pdos: &[Pdo]) -> impl Iterator<Item = &PdoEntry> {
    pdos.iter().flat_map(|pdo| &pdo.entries).filter(|entry| entry.index != 0)
}
