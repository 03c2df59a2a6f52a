//! Emergencies: mails that a device sends unasked (ETG.1000.6, 5.6.4).

use onbeat_ethercat::coe::{self, message};
use onbeat_ethercat::event::{Event, EventKind, EventValues};
use onbeat_rt::frame::word;

use super::rate_limit::EventRateLimit;

/// An emergency of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReceivedEmergency {
    /// Position of the device.
    device: u16,
    /// Error code.
    code: u16,
    /// Error register.
    register: u8,
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

/// Number of different emergencies of a device that are remembered.
const REMEMBERED: usize = 8;

/// Rate limit of the emergencies of one device: equal ones in a row are a series.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EmergencyRateLimit {
    limit: EventRateLimit,
    /// Of those that are not remembered: two in turn must not use up what another one needs.
    limit_of_new: EventRateLimit,
    /// Codes and error registers, the last one first.
    recent: [Option<(u16, u8)>; REMEMBERED],
    /// Number since the one that was reported last.
    not_reported: u16,
}

impl EmergencyRateLimit {
    /// Records an emergency in this cycle. Returns the values of its event if it is to be reported.
    pub(super) fn record(
        &mut self,
        emergency: ReceivedEmergency,
        cycle: u64,
    ) -> Option<EventValues> {
        let ReceivedEmergency { code, register, .. } = emergency;
        let own = Some((code, register));
        let place = self.recent.iter().position(|other| *other == own);
        if place != Some(0) {
            self.limit.end_series();
        }
        self.recent[..=place.unwrap_or(REMEMBERED - 1)].rotate_right(1);
        self.recent[0] = own;

        let is_reported = self.limit.record(cycle).is_some()
            || (place.is_none() && self.limit_of_new.allow(cycle));
        if !is_reported {
            self.not_reported = self.not_reported.saturating_add(1);
            return None;
        }
        let before = std::mem::take(&mut self.not_reported);
        Some(EventValues::from_change(before, register.into()).with_code(code.into()))
    }

    /// Returns the values of an event for the emergencies after the one that was reported last, if
    /// there are any.
    pub(super) fn rest(&mut self) -> Option<EventValues> {
        let (code, register) = self.recent[0]?;
        let before = std::mem::take(&mut self.not_reported).checked_sub(1)?;
        Some(EventValues::from_change(before, register.into()).with_code(code.into()))
    }
}
