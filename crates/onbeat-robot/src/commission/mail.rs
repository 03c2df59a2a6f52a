//! Mails to and from one device (ETG.1000.6, 5.6.1).

use std::time::Duration;

use onbeat_ethercat::al::{PREOP, STATE};
use onbeat_ethercat::coe::{self, message};
use onbeat_ethercat::registers::{MAILBOX_FULL, SYNC_MANAGER};
use onbeat_ethercat::wire::Wire;
use onbeat_rt::frame::word;

use super::error::CommissionError;
use super::line::Line;
use super::state::name;
use crate::bus::MailboxLayout;

/// Mailbox header: length, address, channel, and type with counter.
pub(super) const HEADER: usize = 6;
/// Types of mails.
pub(super) const FOE: u8 = 4;
const ERROR: u8 = 0;
/// Activation of SyncManager 1; the device sends its last mail once more when this bit toggles
/// (ETG.1000.4, mailbox repeat).
const REPEAT: u16 = SYNC_MANAGER + 8 + 6;
const REPEAT_BIT: u8 = 2;
/// Time for a reply, in ns, and interval of the looks.
const REPLY_WITHIN_NS: u64 = 2_000_000_000;
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Time after which a device has ignored the first mail to it, in ns.
const IGNORED_AFTER_NS: u64 = 200_000_000;

impl<W: Wire> Line<'_, W> {
    /// Returns the mailboxes that are configured in SyncManagers 0 and 1.
    pub(super) fn boxes(&mut self, place: u16) -> Result<MailboxLayout, CommissionError> {
        let (is, _) = self.state(place)?;
        let state = is & STATE;
        if state < PREOP {
            return Err(CommissionError::Closed {
                place,
                state: name(state),
                on: self.on().to_owned(),
            });
        }

        let channels = self.read(place, SYNC_MANAGER, 16)?;
        let channel = |at: usize| (word(&channels, at), word(&channels, at + 2));
        let is_mailbox = |at: usize| channels[at + 6] & 1 != 0 && channels[at + 4] & 3 == 2;
        let ((to, to_bytes), (from, bytes)) = (channel(0), channel(8));
        let is_usable = [to_bytes, bytes].iter().all(|bytes| (32..=1486).contains(bytes));
        if !is_mailbox(0) || !is_mailbox(8) || !is_usable {
            return Err(CommissionError::Unsupported { place, what: "mailbox" });
        }
        Ok(MailboxLayout { to, to_bytes, from, bytes })
    }

    /// Sends a mail; `body` follows the mailbox header.
    pub(super) fn send_mail(
        &mut self,
        place: u16,
        boxes: MailboxLayout,
        kind: u8,
        body: &[u8],
    ) -> Result<(), CommissionError> {
        let is_first = !self.counters.contains_key(&place);
        self.first_mail = is_first.then(|| (kind, body.to_vec()));
        let counter = self.counters.entry(place).or_insert(0);
        *counter = *counter % 7 + 1;
        let mut mail = vec![0; usize::from(boxes.to_bytes)];
        mail[..2].copy_from_slice(&(body.len() as u16).to_le_bytes());
        mail[5] = kind | *counter << 4;
        mail[HEADER..HEADER + body.len()].copy_from_slice(body);

        // A mail of another MainDevice may wait for its reply to be taken.
        let until = self.exchange.wire.now().plus_ns(REPLY_WITHIN_NS);
        loop {
            let again = self.exchange.again;
            // Refused after the first of several frames: that one is in the mailbox.
            if self.try_write(place, boxes.to, &mail)? || self.exchange.again > again {
                return Ok(());
            }
            self.take_mail(place, boxes)?;
            if self.exchange.wire.now() >= until {
                return Err(CommissionError::Mute { place, ms: REPLY_WITHIN_NS / 1_000_000 });
            }
            self.exchange.wait(LOOK_EVERY);
        }
    }

    /// Takes a mail if there is one.
    fn take_mail(
        &mut self,
        place: u16,
        boxes: MailboxLayout,
    ) -> Result<Option<Vec<u8>>, CommissionError> {
        let status = self.read(place, SYNC_MANAGER + 8 + 5, 1)?;
        if status[0] & MAILBOX_FULL == 0 {
            return Ok(None);
        }
        let again = self.exchange.again;
        let mail = self.try_read(place, boxes.from, usize::from(boxes.bytes))?;
        // The first of several frames has emptied the mailbox, and its reply is lost with the mail.
        if mail.is_none() && self.exchange.again > again {
            let active = self.read(place, REPEAT, 1)?[0];
            self.write(place, REPEAT, &[active ^ REPEAT_BIT])?;
        }
        Ok(mail)
    }

    /// Waits for a mail of this type that `is_it` accepts; returns what follows its header. Others,
    /// such as emergencies, are dropped.
    pub(super) fn receive_mail(
        &mut self,
        place: u16,
        boxes: MailboxLayout,
        kind: u8,
        mut is_it: impl FnMut(&[u8]) -> bool,
    ) -> Result<Vec<u8>, CommissionError> {
        let began = self.exchange.wire.now();
        let until = began.plus_ns(REPLY_WITHIN_NS);
        let mut looks = 0;
        loop {
            // Before the look: this process may be stopped between both.
            let is_over = self.exchange.wire.now() >= until;
            if let Some(mail) = self.take_mail(place, boxes)? {
                let length = usize::from(word(&mail, 0)).min(mail.len() - HEADER);
                let body = &mail[HEADER..HEADER + length];
                match mail[5] & 0x0f {
                    ERROR if length >= 4 => {
                        return Err(CommissionError::Mailbox { place, code: word(body, 2) });
                    }
                    of if of == kind && !is_emergency(kind, body) && is_it(body) => {
                        return Ok(body.to_vec());
                    }
                    _ => {}
                }
            } else {
                if is_over {
                    return Err(CommissionError::Mute { place, ms: REPLY_WITHIN_NS / 1_000_000 });
                }
                looks += 1;
                let is_ignored = self.exchange.wire.now() >= began.plus_ns(IGNORED_AFTER_NS);
                if let Some((kind, body)) = self.first_mail.take_if(|_| is_ignored) {
                    self.send_mail(place, boxes, kind, &body)?;
                }
                self.exchange.wait(if looks < 20 {
                    Duration::from_micros(100)
                } else {
                    LOOK_EVERY
                });
            }
        }
    }
}

fn is_emergency(kind: u8, body: &[u8]) -> bool {
    kind == coe::MAIL && body.len() >= 2 && word(body, 0) >> 12 == message::EMERGENCY
}
