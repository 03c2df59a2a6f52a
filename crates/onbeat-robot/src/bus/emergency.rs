//! Emergencies: mails that a device sends unasked (ETG.1000.6, 5.6.4).

use onbeat_ethercat::coe::{self, message};
use onbeat_ethercat::event::{Event, EventKind, EventValues};
use onbeat_rt::frame::word;

/// An emergency of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReceivedEmergency {
    /// Position of the device.
    device: u16,
    /// Error code.
    pub(super) code: u16,
    /// Error register.
    pub(super) register: u8,
}

impl ReceivedEmergency {
    /// Returns the emergency in a mail of the device at this position.
    pub(super) fn of_mail(device: u16, mail: &[u8]) -> Option<Self> {
        let is_emergency = mail.len() >= 16
            && mail[5] & 0x0f == coe::MAIL
            && word(mail, 6) >> 12 == message::EMERGENCY;
        is_emergency.then(|| Self { device, code: word(mail, 8), register: mail[10] })
    }

    /// Returns its event before the first cycle.
    pub(super) fn event(self, at_ns: u64) -> Event {
        let values = EventValues::from_change(0, self.register.into()).with_code(self.code.into());
        Event::new((at_ns, 0), EventKind::Emergency, self.device, values)
    }
}
