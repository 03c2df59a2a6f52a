//! State of a device, as one word of the image.

/// Presence of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// Not checked yet.
    #[default]
    Unknown,
    /// The device answers.
    Present,
    /// The device does not answer any more.
    Lost,
    /// Another device answers at its position.
    Wrong,
    /// The device is of an optional group that is away; its process data are not valid.
    Away,
}

impl Presence {
    const ALL: [Self; 5] = [Self::Unknown, Self::Present, Self::Lost, Self::Wrong, Self::Away];
}

/// State of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceState {
    /// AL state: 1 INIT, 2 PREOP, 4 SAFEOP, 8 OP; 0 if never read.
    pub al_state: u16,
    /// AL status code, 0 for none.
    pub al_status: u16,
    /// Whether the device answers.
    pub presence: Presence,
}

impl DeviceState {
    pub(super) fn word(self) -> u64 {
        u64::from(self.al_state) | u64::from(self.al_status) << 16 | (self.presence as u64) << 32
    }

    pub(super) fn from_word(word: u64) -> Self {
        let presence = Presence::ALL.get((word >> 32) as usize).copied().unwrap_or_default();
        Self { al_state: word as u16, al_status: (word >> 16) as u16, presence }
    }
}
