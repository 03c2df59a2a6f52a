//! Objects of one device, by the transfers that a running bus uses.

use onbeat_control::{RequestFailure, SdoAction, SdoRequest};
use onbeat_ethercat::coe::MAIL;
use onbeat_ethercat::wire::Wire;

use super::error::CommissionError;
use super::line::Line;
use super::mail::HEADER;
use crate::bus::{MailboxStep, SdoTransfer};

impl<W: Wire> Line<'_, W> {
    /// Reads an object, or writes it; returns what was read. `complete`: all entries at once.
    ///
    /// # Errors
    /// [`CommissionError::Object`] with the abort code; [`CommissionError::Closed`];
    /// [`CommissionError::Mute`].
    pub fn sdo(
        &mut self,
        place: u16,
        (index, entry): (u16, u8),
        complete: bool,
        action: SdoAction,
    ) -> Result<Vec<u8>, CommissionError> {
        let boxes = self.boxes(place)?;
        let mut transfer =
            SdoTransfer::new(SdoRequest { device: place, index, entry, complete, action });
        let failed = |why: RequestFailure| CommissionError::Object { place, index, entry, why };
        while transfer.next_step() != MailboxStep::Done {
            let mut mail = vec![0; usize::from(boxes.to_bytes)];
            transfer.write(&mut mail, 0);
            let length = usize::from(u16::from_le_bytes([mail[0], mail[1]]));
            self.send_mail(place, boxes, MAIL, &mail[HEADER..HEADER + length])?;
            transfer.was_sent();

            let transfer = &mut transfer;
            self.receive_mail(place, boxes, MAIL, |body| {
                let mut mail = vec![0; HEADER + body.len().max(10)];
                mail[..2].copy_from_slice(&(body.len() as u16).to_le_bytes());
                mail[5] = MAIL;
                mail[HEADER..HEADER + body.len()].copy_from_slice(body);
                transfer.answer(&mail, 1)
            })?;
        }

        transfer.outcome().unwrap_or(Err(RequestFailure::NoReply)).map_err(failed)
    }
}
